//! Vectors of 256 bits.
//!
//! Cranelift has vectors of 128 bits at most on x86-64, and gangs are lowered to those: a value of
//! eight lanes is two of them. This pass finds pairs of vectors that isomorphic operations compute,
//! lane by lane, and keeps one value for each pair: the first, whose register holds both from then
//! on. It still reads as 128 bits in CLIF. When the function is compiled, [`super::ymm`] widens its
//! instructions to 256 bits. All of them: the upper half of a register with a vector of 128 bits
//! does not matter. So the first half of a pair costs nothing to extract, and a vector whose lanes
//! are equal in both halves (a broadcast scalar, a constant, and values computed from such) is its
//! own pair.
//!
//! The halves of a vector whose lanes are made twice as wide are a pair, too: the instruction for
//! 256 bits takes one vector of 128. What makes lanes half as wide takes two pairs, and leaves the
//! quarters of the result in another order, which one more instruction mends.
//!
//! Pairs are found from stores to adjacent places and tests of masks backwards, through operations,
//! loads of adjacent places and parameters of blocks. Where the operands of a pair are no pair,
//! they are joined; where a use needs the second half, it is extracted. Pairs that cost more than
//! they save are dropped.
//!
//! Accesses of memory are merged if no instruction between them could interfere: no effects, nor
//! loads between two stores. That both are of one instruction of the PTX would not be enough: a
//! function that is inlined twice has its instructions twice.

mod constants;
mod cost;
mod isomorphic;
mod order;
mod rewrite;
mod tests;

use cranelift_codegen::Context;
use cranelift_codegen::ir::{
    Block, Function, Inst, InstructionData, MemFlags, Opcode, SourceLoc, StackSlot, StackSlotData,
    StackSlotKind, TrapCode, Type, Value, ValueDef,
};
use cranelift_entity::{EntitySet, SecondaryMap};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

pub(crate) use self::isomorphic::is_of_widened;
use self::isomorphic::{args_of, is_lane_wise, is_narrowing, is_pair, is_same};
use self::tests::{Bits, Test};
use super::ymm;
use crate::clif;

/// The mark of loads and stores of 256 bits.
pub(crate) const WIDE: TrapCode = TrapCode::unwrap_user(2);

/// The mark of loads of 128 bits that may become the operand of an instruction that widens both of
/// their halves.
pub(crate) const WIDENED: TrapCode = TrapCode::unwrap_user(5);

/// The place of fences that stand for the instruction that clears the upper halves of all
/// registers.
pub(crate) fn clearing() -> SourceLoc {
    SourceLoc::new(0xffff_fffe)
}

/// The place of branches whose tests take both halves of a mask.
pub(crate) fn test_of_both() -> SourceLoc {
    SourceLoc::new(0xffff_fffd)
}

/// The shift amounts of shuffles that stand for other instructions. No other shuffle of the
/// function shifts by these amounts.
#[derive(Copy, Clone)]
pub(crate) struct Signs {
    /// Of one that puts two halves together.
    pub join: u8,
    /// Of one that takes the second half.
    pub second: u8,
    /// Of one that exchanges the second and the third quarter.
    pub exchange: u8,
}

impl Signs {
    /// Numbers that no shuffle of a function uses, nor Cranelift to widen the second half of a
    /// vector (8).
    #[expect(clippy::wildcard_enum_match_arm, reason = "the enum is Cranelift's")]
    fn free(func: &Function) -> Option<Signs> {
        let is_moved_by = |by: u8| move |mask: &[u8]| mask.iter().copied().eq(by..by + 16);
        let shuffles = || {
            clif::insts(func).filter_map(|inst| match func.dfg.insts[inst] {
                InstructionData::Shuffle { imm, .. } => Some(func.dfg.immediates[imm].as_slice()),
                _ => None,
            })
        };
        let is_free = |&by: &u8| by != 8 && !shuffles().any(is_moved_by(by));
        let mut free = (1..16).rev().filter(is_free);
        Some(Signs {
            join: free.next()?,
            second: free.next()?,
            exchange: free.next()?,
        })
    }
}

/// What was done to a function.
pub(crate) struct Merged {
    pub signs: Signs,
    /// Where registers of 256 bits are saved.
    pub spills: StackSlot,
    /// How many accesses carry the mark.
    pub n_wide: usize,
    /// How many tests and bits take both halves of a mask.
    pub n_tests: usize,
}

/// Merges pairs of vectors, if that makes the function faster. Dominators must have been computed.
pub(crate) fn merge(context: &mut Context) -> Option<Merged> {
    let signs = Signs::free(&context.func)?;
    let mut pairs = Pairs::find(&context.func);
    context
        .loop_analysis
        .compute(&context.func, &context.cfg, &context.domtree);
    if !cost::prune(&mut pairs, &context.loop_analysis) {
        return None;
    }
    let (mut order, has_dropped) = order::order(&mut pairs);
    if has_dropped {
        // Other pairs may not be worth it without them.
        if !cost::prune(&mut pairs, &context.loop_analysis) {
            return None;
        }
        (order, _) = order::order(&mut pairs);
    }
    let pairs = pairs.found;
    let (n_wide, n_tests) = rewrite::rewrite(
        &mut context.func,
        &context.loop_analysis,
        signs,
        &pairs,
        &order,
    );
    constants::repeat_at_use(&mut context.func);
    rewrite::remove_unused(&mut context.func);
    let n_values = context.func.dfg.num_values() as u32;
    let n_spills = (n_values / 8).clamp(FEWEST_SPILLS, MOST_SPILLS);
    let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, ymm::room_for(n_spills), 4);
    let spills = context.func.create_sized_stack_slot(slot);
    Some(Merged {
        signs,
        spills,
        n_wide,
        n_tests,
    })
}

/// At first, the registers that can be spilled.
const FEWEST_SPILLS: u32 = 40;
const MOST_SPILLS: u32 = 500;

/// The pairs.
#[derive(Default)]
struct Found {
    /// The second half of each first half, and the other way round.
    second: SecondaryMap<Value, Option<Value>>,
    first: SecondaryMap<Value, Option<Value>>,
    /// The same of instructions: of those that make the values, and of stores.
    second_inst: SecondaryMap<Inst, Option<Inst>>,
    first_inst: SecondaryMap<Inst, Option<Inst>>,
    /// The operands of the instructions of pairs, by the first of the two: each beside its
    /// counterpart.
    args: Vec<Args>,
    args_at: SecondaryMap<Inst, usize>,
    /// Vectors that are equal in both halves.
    even: EntitySet<Value>,
    /// Tests of two vectors, by what folds these into one.
    tests: FxHashMap<Inst, Test>,
    /// Bits of two vectors, by each of their instructions.
    bits: FxHashMap<Inst, Bits>,
}

type Args = SmallVec<[(Value, Value); 3]>;

/// How the halves of a pair of 256 bits come to be in one register.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Operand {
    /// They are.
    Whole(Value),
    /// Two values are put together.
    Joined(Value, Value),
}

impl Found {
    fn operand(&self, func: &Function, x: Value, y: Value) -> Operand {
        if self.second[x] == Some(y) || self.even.contains(x) && is_same(func, x, y) {
            Operand::Whole(x)
        } else {
            Operand::Joined(x, y)
        }
    }

    /// The pair that a test takes both halves of, if what folds them is this instruction.
    fn tested_pair(&self, fold: Inst) -> Option<Value> {
        let [x, y] = self.tests.get(&fold)?.halves;
        [(x, y), (y, x)]
            .into_iter()
            .find(|&(x, y)| self.second[x] == Some(y))
            .map(|(x, _)| x)
    }

    /// Bits of two vectors of which this is an instruction, if the vectors are a pair.
    fn bits_of_pair(&self, inst: Inst) -> Option<&Bits> {
        let bits = self.bits.get(&inst)?;
        (self.second[bits.halves[0]] == Some(bits.halves[1])).then_some(bits)
    }

    fn is_taken(&self, value: Value) -> bool {
        self.second[value].is_some() || self.first[value].is_some()
    }

    fn add_insts(&mut self, func: &Function, a: Inst, b: Inst) {
        (self.second_inst[a], self.first_inst[b]) = (Some(b), Some(a));
        self.args_at[a] = self.args.len();
        self.args.push(args_of(func, a, b));
    }

    /// The first of two merged instructions among whose operands one that uses a value finds it as
    /// the second half of a pair.
    fn first_of_user(&self, func: &Function, user: Inst) -> Option<Inst> {
        let is_first = || self.second_inst[user].is_some() && is_narrowing(func, user);
        self.first_inst[user].or_else(|| is_first().then_some(user))
    }

    /// The operands of a pair's instructions, by the first of them.
    fn args(&self, first: Inst) -> &[(Value, Value)] {
        &self.args[self.args_at[first]]
    }

    fn drop_pair(&mut self, a: Value, b: Value) {
        (self.second[a], self.first[b]) = (None, None);
    }

    fn drop_insts(&mut self, a: Inst, b: Inst) {
        (self.second_inst[a], self.first_inst[b]) = (None, None);
    }
}

struct Pairs<'a> {
    func: &'a Function,
    found: Found,
    /// Positions of instructions in their function.
    position: SecondaryMap<Inst, u32>,
    edges: Vec<Edge>,
    /// The edges that lead to each block.
    edges_to: SecondaryMap<Block, SmallVec<[usize; 2]>>,
    /// Instructions that do the same with each lane.
    lane_wise: Vec<Inst>,
}

/// What a branch passes to a block: values, or none for what is no value.
struct Edge {
    branch: Inst,
    to: Block,
    args: SmallVec<[Option<Value>; 8]>,
}

/// Where a store or a load is, but for its offset.
type Place = (Value, MemFlags, SourceLoc, Type);

impl<'a> Pairs<'a> {
    fn find(func: &'a Function) -> Pairs<'a> {
        let mut pairs = Pairs {
            func,
            found: Found::default(),
            position: SecondaryMap::new(),
            edges: Vec::new(),
            edges_to: SecondaryMap::new(),
            lane_wise: Vec::new(),
        };
        for (at, inst) in (0..).zip(clif::insts(func)) {
            pairs.position[inst] = at;
            pairs.note_edges(inst);
            if is_lane_wise(func, inst) {
                pairs.lane_wise.push(inst);
            }
        }
        pairs.find_even();
        let mut next: Vec<(Value, Value)> = Vec::new();
        for block in func.layout.blocks() {
            pairs.pair_stores(block, &mut next);
        }
        next.reverse();
        pairs.follow(next);
        pairs.pair_tested();
        pairs.pair_bits();
        pairs.pair_ends();
        // A register with half of a pair has another value in its upper half.
        pairs.find_even();
        pairs
    }

    /// Makes pairs, and pairs of their operands.
    fn follow(&mut self, mut next: Vec<(Value, Value)>) {
        while let Some((x, y)) = next.pop() {
            self.pair(x, y, &mut next);
        }
    }

    /// Pairs of masks that are tested together.
    fn pair_tested(&mut self) {
        for test in tests::find(self.func) {
            let [x, y] = test.halves;
            let position = |value: Value| match self.func.dfg.value_def(value) {
                ValueDef::Result(inst, _) => self.position[inst],
                ValueDef::Param(..) | ValueDef::Union(..) => 0,
            };
            let in_order = position(x) <= position(y);
            self.follow(vec![if in_order { (x, y) } else { (y, x) }]);
            self.found.tests.insert(test.fold, test);
        }
    }

    /// Pairs of masks of which bits are made together.
    fn pair_bits(&mut self) {
        for bits in tests::find_bits(self.func) {
            let [x, y] = bits.halves;
            self.follow(vec![(x, y)]);
            for inst in bits.of.into_iter().chain([bits.both]) {
                self.found.bits.insert(inst, bits);
            }
        }
    }

    /// Pairs of vectors that end in other uses than stores of vectors: the last ones of each kind
    /// that an instruction of the PTX emits.
    fn pair_ends(&mut self) {
        let func = self.func;
        let mut open: FxHashMap<(Option<Block>, SourceLoc, Opcode, Type), Inst> =
            FxHashMap::default();
        for inst in self.lane_wise.clone().into_iter().rev() {
            let opcode = func.dfg.insts[inst].opcode();
            let result = func.dfg.first_result(inst);
            let is_arithmetic = !opcode.can_load()
                && !matches!(opcode, Opcode::Vconst | Opcode::Splat | Opcode::Bitcast);
            if !is_arithmetic || self.found.is_taken(result) || self.found.even.contains(result) {
                continue;
            }
            let key = (
                func.layout.inst_block(inst),
                func.srcloc(inst),
                opcode,
                func.dfg.value_type(result),
            );
            match open.remove(&key) {
                Some(second) if is_pair(func, inst, second) => {
                    let second = func.dfg.first_result(second);
                    if !self.found.is_taken(second) {
                        self.follow(vec![(result, second)]);
                    }
                }
                _ => {
                    open.insert(key, inst);
                }
            }
        }
    }

    /// Assumes that everything but halves of pairs is equal in both halves of its register, and
    /// withdraws what turns out not to be.
    fn find_even(&mut self) {
        let func = self.func;
        let entry = func.layout.entry_block();
        let found = &self.found;
        let mut even: EntitySet<Value> = EntitySet::new();
        let mut params: Vec<(Block, usize, Value)> = Vec::new();
        for block in func.layout.blocks().filter(|&block| Some(block) != entry) {
            let all = func.dfg.block_params(block).iter().enumerate();
            let is_single_lane =
                |param: Value| is_vector(func.dfg.value_type(param)) && !found.is_taken(param);
            let vectors = all.filter(|&(_, &param)| is_single_lane(param));
            params.extend(vectors.map(|(at, &param)| (block, at, param)));
        }
        let mut made: Vec<Inst> = self.lane_wise.clone();
        made.retain(|&inst| {
            let is_load = func.dfg.insts[inst].opcode().can_load();
            !is_load && !found.is_taken(func.dfg.first_result(inst))
        });
        for &(_, _, param) in &params {
            even.insert(param);
        }
        for &inst in &made {
            even.insert(func.dfg.first_result(inst));
        }
        loop {
            let n_before = params.len() + made.len();
            params.retain(|&(block, at, param)| {
                let is_even = |arg: Option<Value>| arg.is_some_and(|arg| even.contains(arg));
                let stays = self.edges_to[block]
                    .iter()
                    .all(|&edge| is_even(self.edges[edge].args[at]));
                stays || !even.remove(param)
            });
            made.retain(|&inst| {
                let resolved = |&arg: &Value| func.dfg.resolve_aliases(arg);
                let mut args = func.dfg.inst_args(inst).iter().map(resolved);
                let stays =
                    args.all(|arg| !is_vector(func.dfg.value_type(arg)) || even.contains(arg));
                stays || !even.remove(func.dfg.first_result(inst))
            });
            if params.len() + made.len() == n_before {
                break;
            }
        }
        self.found.even = even;
    }

    /// Pairs of stores to adjacent places.
    fn pair_stores(&mut self, block: Block, next: &mut Vec<(Value, Value)>) {
        let func = self.func;
        let mut open: FxHashMap<(Place, i32), Inst> = FxHashMap::default();
        for inst in func.layout.block_insts(block) {
            let InstructionData::Store {
                opcode: Opcode::Store,
                args,
                flags,
                offset,
            } = func.dfg.insts[inst]
            else {
                continue;
            };
            let [value, at] = args.map(|arg| func.dfg.resolve_aliases(arg));
            let ty = func.dfg.value_type(value);
            if !is_vector(ty) {
                continue;
            }
            let place = (at, flags, func.srcloc(inst), ty);
            let offset: i32 = offset.into();
            match open.remove(&(place, offset - 16)) {
                Some(first) => {
                    self.found.add_insts(func, first, inst);
                    let stored = func.dfg.resolve_aliases(func.dfg.inst_args(first)[0]);
                    next.push((stored, value));
                }
                None => {
                    open.insert((place, offset), inst);
                }
            }
        }
    }

    /// Makes a pair of two vectors, if they are one, and goes on with their operands.
    fn pair(&mut self, x: Value, y: Value, next: &mut Vec<(Value, Value)>) {
        let func = self.func;
        let found = &mut self.found;
        let ty = func.dfg.value_type(x);
        if x == y
            || found.is_taken(x)
            || found.is_taken(y)
            || !is_vector(ty)
            || ty != func.dfg.value_type(y)
        {
            return;
        }
        if found.even.contains(x) && is_same(func, x, y) {
            return;
        }
        match (func.dfg.value_def(x), func.dfg.value_def(y)) {
            (ValueDef::Result(a, 0), ValueDef::Result(b, 0)) => {
                if self.position[a] > self.position[b] || !is_pair(func, a, b) {
                    return;
                }
                found.add_insts(func, a, b);
                let args = found.args(a).iter().copied();
                next.extend(args.filter(|&(x, _)| is_vector(func.dfg.value_type(x))));
            }
            (ValueDef::Param(a, _), ValueDef::Param(b, _)) => {
                if a != b || Some(a) == func.layout.entry_block() {
                    return;
                }
                next.extend(self.passed(x, y).into_iter().map(|(_, x, y)| (x, y)));
            }
            _ => return,
        }
        self.found.second[x] = Some(y);
        self.found.first[y] = Some(x);
    }

    /// The arguments that branches pass for two parameters of a block.
    fn passed(&self, x: Value, y: Value) -> SmallVec<[(Inst, Value, Value); 4]> {
        let (ValueDef::Param(block, m), ValueDef::Param(_, n)) =
            (self.func.dfg.value_def(x), self.func.dfg.value_def(y))
        else {
            return SmallVec::new();
        };
        let edges = self.edges_to[block].iter().map(|&edge| &self.edges[edge]);
        let both = edges.filter_map(|edge| Some((edge.branch, edge.args[m]?, edge.args[n]?)));
        both.collect()
    }

    fn note_edges(&mut self, inst: Inst) {
        let dfg = &self.func.dfg;
        let targets = dfg.insts[inst].branch_destination(&dfg.jump_tables, &dfg.exception_tables);
        for call in targets {
            let args = call.args(&dfg.value_lists);
            let args = args.map(|arg| arg.as_value().map(|value| dfg.resolve_aliases(value)));
            let (to, number) = (call.block(&dfg.value_lists), self.edges.len());
            self.edges_to[to].push(number);
            self.edges.push(Edge {
                branch: inst,
                to,
                args: args.collect(),
            });
        }
    }
}

fn is_vector(ty: Type) -> bool {
    ty.is_vector() && ty.bits() == 128
}
