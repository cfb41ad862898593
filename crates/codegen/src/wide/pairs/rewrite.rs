//! Merging of pairs.

use cranelift_codegen::ir::{
    Block, BlockArg, Endianness, Function, Inst, InstructionData, MemFlagsData, Opcode, Type,
    Value, ValueDef, types,
};
use cranelift_codegen::loop_analysis::LoopAnalysis;
use cranelift_entity::SecondaryMap;
use rustc_hash::FxHashMap;

use super::isomorphic::{is_narrowing, widened};
use super::order::{Order, has_effect};
use super::tests::{Bits, Test};
use super::{Found, Operand, Signs, WIDE, WIDENED, clearing, is_vector, test_of_both};
use crate::clif::{self, count_uses};
use crate::wide::masked::{MASKED, WIDE_MASKED};

/// Keeps one value, and one instruction, of each pair. Returns how many accesses of memory have 256
/// bits, and how many tests.
pub(super) fn rewrite(
    func: &mut Function,
    loops: &LoopAnalysis,
    signs: Signs,
    found: &Found,
    order: &Order,
) -> (usize, usize) {
    let mut rewriting = Rewriting {
        func,
        loops,
        signs,
        found,
        home: SecondaryMap::new(),
        made: FxHashMap::default(),
        addresses: FxHashMap::default(),
        at_end: SecondaryMap::new(),
        n_wide: 0,
        n_tests: 0,
    };
    for (block, _) in order {
        rewriting.note_homes(*block);
    }
    for (block, insts) in order {
        rewriting.block(*block, insts);
    }
    for (block, _) in order {
        rewriting.finish(*block);
    }
    (rewriting.n_wide, rewriting.n_tests)
}

/// Removes dead code. Cranelift would not emit it, but would count its uses, and so not fold loads
/// into the others.
pub(super) fn remove_unused(func: &mut Function) {
    let mut n_uses = count_uses(func);
    let mut unused: Vec<Inst> = clif::insts(func).collect();
    let is_unused = |func: &Function, n_uses: &SecondaryMap<Value, u32>, inst: Inst| {
        let opcode = func.dfg.insts[inst].opcode();
        let results = func.dfg.inst_results(inst);
        let is_unused =
            |&result: &Value| is_vector(func.dfg.value_type(result)) && n_uses[result] == 0;
        !has_effect(opcode)
            && !opcode.can_load()
            && !results.is_empty()
            && results.iter().all(is_unused)
    };
    unused.retain(|&inst| is_unused(func, &n_uses, inst));
    while let Some(inst) = unused.pop() {
        func.layout.remove_inst(inst);
        for &arg in func.dfg.inst_args(inst) {
            let arg = func.dfg.resolve_aliases(arg);
            n_uses[arg] -= 1;
            if n_uses[arg] == 0
                && let ValueDef::Result(inst, _) = func.dfg.value_def(arg)
                && is_unused(func, &n_uses, inst)
            {
                unused.push(inst);
            }
        }
    }
}

/// A vector that is built from one or two others, in a block.
#[derive(Copy, Clone, PartialEq, Eq, Hash)]
enum Made {
    Joined(Value, Value),
    Second(Value),
}

struct Rewriting<'f> {
    func: &'f mut Function,
    loops: &'f LoopAnalysis,
    signs: Signs,
    found: &'f Found,
    /// The blocks that define values.
    home: SecondaryMap<Value, Option<Block>>,
    /// Vectors built so far, in which block, and whether at its end.
    made: FxHashMap<(Block, bool, Made), Value>,
    /// Addresses on the stack that are in registers.
    addresses: FxHashMap<(Block, Value), Value>,
    /// Vectors built at the end of a block for later ones.
    at_end: SecondaryMap<Block, Vec<Inst>>,
    n_wide: usize,
    n_tests: usize,
}

impl Rewriting<'_> {
    fn note_homes(&mut self, block: Block) {
        for &param in self.func.dfg.block_params(block) {
            self.home[param] = Some(block);
        }
        for inst in self.func.layout.block_insts(block) {
            for &result in self.func.dfg.inst_results(inst) {
                self.home[result] = Some(block);
            }
        }
    }

    fn block(&mut self, block: Block, insts: &[Inst]) {
        while let Some(inst) = self.func.layout.first_inst(block) {
            self.func.layout.remove_inst(inst);
        }
        for &inst in insts {
            if self.is_first_bits(inst) {
                continue;
            }
            self.operands(block, inst);
            if self.found.second_inst[inst].is_some() && is_narrowing(self.func, inst) {
                self.narrow(block, inst);
            }
            self.func.layout.append_inst(inst, block);
        }
    }

    /// Has another instruction make the lanes narrower, and this one put the quarters in order.
    fn narrow(&mut self, block: Block, inst: Inst) {
        let data = self.func.dfg.insts[inst];
        let ty = self.func.dfg.value_type(self.func.dfg.first_result(inst));
        let wider = self.func.dfg.value_type(self.func.dfg.inst_args(inst)[0]);
        let narrowing = self.func.dfg.make_inst(data);
        self.func.dfg.make_inst_results(narrowing, wider);
        let (bytes, cast) = self.bytes(self.func.dfg.first_result(narrowing));
        let mut before = vec![narrowing];
        before.extend(cast);
        let data = self.shuffle([bytes; 2], self.signs.exchange);
        self.func.dfg.insts[inst] = match ty {
            types::I8X16 => data,
            _ => {
                let shuffle = self.func.dfg.make_inst(data);
                self.func.dfg.make_inst_results(shuffle, types::I8X16);
                before.push(shuffle);
                self.bitcast(self.func.dfg.first_result(shuffle))
            }
        };
        let place = self.func.srcloc(inst);
        for inst in before {
            self.func.layout.append_inst(inst, block);
            self.func.set_srcloc(inst, place);
        }
    }

    /// Has a test take both halves of a mask, which need not be folded then. Returns false if this
    /// instruction does not fold the halves of a pair.
    fn test_both(&mut self, fold: Inst) -> bool {
        let Some(mask) = self.found.tested_pair(fold) else {
            return false;
        };
        let Test { test, branch, .. } = self.found.tests[&fold];
        self.func.dfg.inst_args_mut(fold).fill(mask);
        self.func.dfg.inst_args_mut(test).fill(mask);
        for inst in [test, branch] {
            self.func.set_srcloc(inst, test_of_both());
        }
        self.n_tests += 1;
        true
    }

    /// Whether an instruction puts bits together of which the first ones are all: its result is
    /// another name for these.
    fn is_first_bits(&mut self, inst: Inst) -> bool {
        let bits = self.found.bits_of_pair(inst).copied();
        let Some(Bits { of, .. }) = bits.filter(|bits| bits.both == inst) else {
            return false;
        };
        let dfg = &mut self.func.dfg;
        let (first, both) = (dfg.first_result(of[0]), dfg.first_result(inst));
        dfg.clear_results(inst);
        dfg.change_to_alias(both, first);
        true
    }

    /// Has one instruction make bits of both halves of a pair. Returns false for instructions that
    /// make no bits of a pair.
    fn bits_of_both(&mut self, inst: Inst) -> bool {
        let Some(&Bits { of, halves, .. }) = self.found.bits_of_pair(inst) else {
            return false;
        };
        self.func.dfg.inst_args_mut(inst).fill(halves[0]);
        if inst == of[0] {
            self.func.set_srcloc(inst, test_of_both());
            self.n_tests += 1;
        }
        true
    }

    /// Gives an instruction its new operands.
    fn operands(&mut self, block: Block, inst: Inst) {
        if self.test_both(inst) || self.bits_of_both(inst) {
            return;
        }
        let second = self.found.second_inst[inst];
        let widened = second.and_then(|second| widened(self.func, inst, second));
        let args: Vec<Value> = match (second, widened) {
            (Some(_), Some(vector)) => {
                self.mark_widened(vector);
                vec![self.alone(block, vector)]
            }
            (Some(_), None) => {
                let args = self.found.args(inst).to_vec();
                let is_access = self.mark(inst);
                let mut args: Vec<Value> = args
                    .into_iter()
                    .map(|(x, y)| self.both(block, x, y))
                    .collect();
                if is_access && let Some(at) = args.last_mut() {
                    *at = self.in_register(block, *at);
                }
                args
            }
            (None, _) => {
                let dfg = &self.func.dfg;
                let args: Vec<Value> = dfg
                    .inst_args(inst)
                    .iter()
                    .map(|&arg| dfg.resolve_aliases(arg))
                    .collect();
                args.into_iter().map(|arg| self.alone(block, arg)).collect()
            }
        };
        self.func.dfg.inst_args_mut(inst).copy_from_slice(&args);
        self.passed(block, inst);
        let opcode = self.func.dfg.insts[inst].opcode();
        if opcode.is_return() {
            self.clear(block);
        }
    }

    /// Widens an access to 256 bits. Returns false if the instruction is no access.
    fn mark(&mut self, inst: Inst) -> bool {
        let dfg = &mut self.func.dfg;
        if let InstructionData::Load { flags, .. } | InstructionData::Store { flags, .. } =
            &mut dfg.insts[inst]
        {
            let data = dfg.mem_flags[*flags];
            let mark = match data.trap_code() {
                Some(MASKED) => WIDE_MASKED,
                _ => WIDE,
            };
            let data = data.with_trap_code(Some(mark));
            *flags = dfg.mem_flags.insert_unchecked(data);
            self.n_wide += 1;
            return true;
        }
        false
    }

    /// Marks a load whose halves an instruction widens: the load may become its operand, and then
    /// the mark tells that all 128 bits are meant. Loads that widen lanes themselves take 64.
    fn mark_widened(&mut self, vector: Value) {
        let dfg = &mut self.func.dfg;
        if let ValueDef::Result(inst, _) = dfg.value_def(vector)
            && let InstructionData::Load {
                opcode: Opcode::Load,
                flags,
                ..
            } = &mut dfg.insts[inst]
        {
            let data = dfg.mem_flags[*flags];
            if data.trap_code() != Some(WIDE) {
                let data = data.with_trap_code(Some(WIDENED));
                *flags = dfg.mem_flags.insert_unchecked(data);
            }
        }
    }

    /// An address in a register: accesses of places on the stack itself lose their mark.
    fn in_register(&mut self, block: Block, at: Value) -> Value {
        let dfg = &mut self.func.dfg;
        let is_on_stack = match dfg.value_def(at) {
            ValueDef::Result(inst, _) => dfg.insts[inst].opcode() == Opcode::StackAddr,
            ValueDef::Param(..) | ValueDef::Union(..) => false,
        };
        if !is_on_stack {
            return at;
        }
        if let Some(&sum) = self.addresses.get(&(block, at)) {
            return sum;
        }
        let zero = dfg.make_inst(InstructionData::UnaryImm {
            opcode: Opcode::Iconst,
            imm: 0.into(),
        });
        dfg.make_inst_results(zero, types::I64);
        let args = [at, dfg.first_result(zero)];
        let sum = dfg.make_inst(InstructionData::Binary {
            opcode: Opcode::Iadd,
            args,
        });
        dfg.make_inst_results(sum, types::I64);
        for inst in [zero, sum] {
            self.func.layout.append_inst(inst, block);
        }
        let sum = self.func.dfg.first_result(sum);
        self.addresses.insert((block, at), sum);
        sum
    }

    /// Clears the upper halves of all registers, which would slow down 128-bit code elsewhere.
    fn clear(&mut self, block: Block) {
        let fence = self.func.dfg.make_inst(InstructionData::NullAry {
            opcode: Opcode::Fence,
        });
        self.func.layout.append_inst(fence, block);
        self.func.set_srcloc(fence, clearing());
    }

    /// Rewrites the arguments that a branch passes.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the enum is Cranelift's")]
    fn passed(&mut self, block: Block, inst: Inst) {
        let dfg = &self.func.dfg;
        let n_calls = dfg.insts[inst]
            .branch_destination(&dfg.jump_tables, &dfg.exception_tables)
            .len();
        for call in 0..n_calls {
            let dfg = &self.func.dfg;
            let target =
                dfg.insts[inst].branch_destination(&dfg.jump_tables, &dfg.exception_tables)[call];
            let params = dfg.block_params(target.block(&dfg.value_lists)).to_vec();
            let resolve = |arg: BlockArg| match arg {
                BlockArg::Value(value) => BlockArg::Value(dfg.resolve_aliases(value)),
                other => other,
            };
            let args: Vec<BlockArg> = target.args(&dfg.value_lists).map(resolve).collect();
            let mut kept: Vec<BlockArg> = Vec::with_capacity(args.len());
            for (at, &param) in params.iter().enumerate() {
                if self.found.first[param].is_some() {
                    continue;
                }
                let second = self.found.second[param];
                let second =
                    second.and_then(|second| params.iter().position(|&param| param == second));
                kept.push(match (args[at], second.map(|at| args[at])) {
                    (BlockArg::Value(x), Some(BlockArg::Value(y))) => {
                        BlockArg::Value(self.both(block, x, y))
                    }
                    (BlockArg::Value(x), _) if is_vector(self.func.dfg.value_type(x)) => {
                        BlockArg::Value(self.alone(block, x))
                    }
                    (arg, _) => arg,
                });
            }
            let dfg = &mut self.func.dfg;
            let target = &mut dfg.insts[inst]
                .branch_destination_mut(&mut dfg.jump_tables, &mut dfg.exception_tables)[call];
            target.clear(&mut dfg.value_lists);
            target.extend(kept, &mut dfg.value_lists);
        }
    }

    /// Two vectors in one register.
    fn both(&mut self, block: Block, x: Value, y: Value) -> Value {
        if !is_vector(self.func.dfg.value_type(x)) {
            return x;
        }
        match self.found.operand(self.func, x, y) {
            Operand::Whole(x) => x,
            Operand::Joined(x, y) => {
                let home = self.home[x].filter(|_| self.home[x] == self.home[y]);
                self.make(block, home, Made::Joined(x, y))
            }
        }
    }

    /// A vector of which only the first 128 bits matter.
    fn alone(&mut self, block: Block, value: Value) -> Value {
        match self.found.first[value] {
            Some(first) => self.make(block, self.home[first], Made::Second(first)),
            None => value,
        }
    }

    /// Builds a vector in the block that needs it, or at the end of the block that defines its
    /// operands, if that is in fewer loops.
    fn make(&mut self, block: Block, home: Option<Block>, made: Made) -> Value {
        let level = |block: Block| self.loops.loop_level(block).level();
        let outside = home.filter(|&home| home != block && level(home) < level(block));
        self.make_at(outside.unwrap_or(block), outside.is_some(), made)
    }

    fn make_at(&mut self, block: Block, at_end: bool, made: Made) -> Value {
        let place = (block, at_end, made);
        if let Some(&value) = self.made.get(&place) {
            return value;
        }
        let mut alone = |value: Value| match self.found.first[value] {
            // The end of the block is behind everything that the block computes itself.
            Some(first) if at_end => self.make_at(block, true, Made::Second(first)),
            _ => self.alone(block, value),
        };
        let (first, second, by) = match made {
            Made::Joined(x, y) => (alone(x), alone(y), self.signs.join),
            Made::Second(x) => (x, x, self.signs.second),
        };
        let ty = self.func.dfg.value_type(first);
        let is_single_lane = first == second;
        let (first, head) = self.bytes(first);
        let (second, tail) = if is_single_lane {
            (first, None)
        } else {
            self.bytes(second)
        };
        // The operand that bytes are taken of at the end is the one whose register comes first in
        // the instruction.
        let data = self.shuffle([second, first], by);
        let shuffle = self.func.dfg.make_inst(data);
        self.func.dfg.make_inst_results(shuffle, types::I8X16);
        let mut value = self.func.dfg.first_result(shuffle);
        let mut insts: Vec<Inst> = head.into_iter().chain(tail).chain([shuffle]).collect();
        if ty != types::I8X16 {
            let (cast, inst) = self.cast(value, ty);
            value = cast;
            insts.push(inst);
        }
        match at_end {
            true => self.at_end[block].extend(insts),
            false => {
                for inst in insts {
                    self.func.layout.append_inst(inst, block);
                }
            }
        }
        self.made.insert(place, value);
        value
    }

    fn bytes(&mut self, value: Value) -> (Value, Option<Inst>) {
        if self.func.dfg.value_type(value) == types::I8X16 {
            return (value, None);
        }
        let (value, inst) = self.cast(value, types::I8X16);
        (value, Some(inst))
    }

    /// A shuffle that stands for another instruction.
    fn shuffle(&mut self, args: [Value; 2], by: u8) -> InstructionData {
        let mask: Vec<u8> = (by..by + 16).collect();
        let imm = self.func.dfg.immediates.push(mask.into());
        InstructionData::Shuffle {
            opcode: Opcode::Shuffle,
            args,
            imm,
        }
    }

    fn bitcast(&mut self, arg: Value) -> InstructionData {
        let flags = MemFlagsData::new().with_endianness(Endianness::Little);
        let flags = self.func.dfg.mem_flags.insert_unchecked(flags);
        InstructionData::LoadNoOffset {
            opcode: Opcode::Bitcast,
            flags,
            arg,
        }
    }

    fn cast(&mut self, value: Value, ty: Type) -> (Value, Inst) {
        let data = self.bitcast(value);
        let inst = self.func.dfg.make_inst(data);
        self.func.dfg.make_inst_results(inst, ty);
        (self.func.dfg.first_result(inst), inst)
    }

    /// Appends what a block builds for others; removes parameters that are second halves.
    fn finish(&mut self, block: Block) {
        let last = self
            .func
            .layout
            .last_inst(block)
            .expect("blocks have an end");
        // A clearing of registers stays right before the instruction that it stands before.
        for inst in std::mem::take(&mut self.at_end[block]) {
            self.func.layout.insert_inst(inst, last);
        }
        for param in self.func.dfg.block_params(block).to_vec() {
            if self.found.first[param].is_some() {
                self.func.dfg.remove_block_param(param);
            }
        }
    }
}
