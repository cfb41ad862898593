//! Counters of loops: parameters of a header to which each iteration adds one amount, and the test
//! that bounds the iterations.
//!
//! Their ranges over all iterations (`cta_ranges`) take the tests of addresses and borders out of
//! loops.

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{
    Block, BlockCall, CompareOp, Function, InstData, IntBinaryOp, Terminator, Type, Value,
};
use ptxjit_vectorize::{Node, Plan, WaitKind};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Sums are followed through so many instructions: unrolled code adds once per copy.
const DEPTH: u32 = 24;

/// Blocks without instructions between a loop's last branch and its header.
const MOST_JUMPS: u32 = 4;

/// What is added in an iteration: a constant and some values, subtracted or not, that do not change
/// in the loop.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Step {
    pub constant: i64,
    pub added: SmallVec<[Value; 4]>,
    pub subtracted: SmallVec<[Value; 4]>,
}

impl Step {
    pub(crate) fn values(&self) -> impl Iterator<Item = Value> {
        self.added.iter().chain(&self.subtracted).copied()
    }
}

/// A parameter of a header.
#[derive(Clone, Debug)]
pub(crate) struct Counter {
    pub header: Block,
    /// Its values when the loop is entered.
    pub inits: SmallVec<[Value; 2]>,
    pub step: Step,
}

/// A test that each iteration but the last one passes: `counter + offset op bound`. The bound does
/// not change in the loop.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Test {
    pub op: CompareOp,
    pub ty: Type,
    pub counter: Value,
    pub offset: i64,
    pub bound: Value,
    /// A number that the counter is not when the loop is entered: the branch before it says so.
    pub not_initially: Option<i64>,
}

/// All counters of a function, and where else values meet.
#[derive(Default)]
pub(crate) struct Counters {
    pub counters: FxHashMap<Value, Counter>,
    /// By the loop's header.
    pub tests: FxHashMap<Block, Test>,
    /// Parameters of other blocks: what edges pass to them.
    pub merges: FxHashMap<Value, SmallVec<[Value; 4]>>,
}

struct Finder<'a> {
    func: &'a Function,
    plan: &'a Plan,
    predecessors: &'a SecondaryMap<Block, Vec<Block>>,
    block_of: SecondaryMap<Value, Option<Block>>,
}

/// Finds them.
pub(super) fn find(
    func: &Function,
    plan: &Plan,
    predecessors: &SecondaryMap<Block, Vec<Block>>,
) -> Counters {
    let mut block_of: SecondaryMap<Value, Option<Block>> = SecondaryMap::new();
    for (block, data) in func.blocks.iter() {
        for &param in &data.params {
            block_of[param] = Some(block);
        }
        for &inst in &data.insts {
            for &result in &func.insts[inst].results {
                block_of[result] = Some(block);
            }
        }
    }
    let finder = Finder {
        func,
        plan,
        predecessors,
        block_of,
    };
    let mut found = Counters::default();
    for node in &plan.order.nodes {
        if let Node::Block(block) = *node {
            finder.block(block, &mut found);
        }
    }
    found
}

impl Finder<'_> {
    fn position(&self, block: Block) -> Option<u32> {
        self.plan.order.block_pos[block]
    }

    fn is_in_loop(&self, header: Block, block: Block) -> bool {
        let (range, at) = (self.plan.order.loop_range(header), self.position(block));
        range.is_some_and(|range| at.is_some_and(|at| range.contains(&(at as usize))))
    }

    /// Whether a value does not change in a loop.
    fn is_invariant(&self, header: Block, value: Value) -> bool {
        self.func.as_const(value).is_some()
            || self.block_of[value].is_some_and(|block| !self.is_in_loop(header, block))
    }

    fn calls_to(&self, block: Block) -> impl Iterator<Item = (Block, &BlockCall)> {
        self.predecessors[block].iter().flat_map(move |&from| {
            let targets = self.func.blocks[from].term.targets().into_iter();
            let calls = targets.filter(move |call| call.block == block);
            calls.map(move |call| (from, call))
        })
    }

    fn block(&self, block: Block, found: &mut Counters) {
        let params = &self.func.blocks[block].params;
        // Other code leads to the blocks at which threads start.
        let wait = self.plan.wait_of[block].map(|wait| self.plan.waits[wait as usize].kind);
        let starts = matches!(wait, Some(WaitKind::Entry | WaitKind::Ready));
        if params.is_empty() || starts {
            return;
        }
        let at = self.position(block);
        let (mut back, mut entries): (SmallVec<[_; 2]>, SmallVec<[_; 4]>) = Default::default();
        let mut entries_from: SmallVec<[Block; 4]> = SmallVec::new();
        for (from, call) in self.calls_to(block) {
            match self.position(from) {
                // Code that is not reached passes nothing.
                None => {}
                position if position >= at => back.push((from, call)),
                _ => {
                    entries.push(call);
                    entries_from.push(from);
                }
            }
        }
        match back[..] {
            [] => {
                for (index, &param) in params.iter().enumerate() {
                    let args = entries.iter().map(|call| call.args[index]).collect();
                    found.merges.insert(param, args);
                }
            }
            [(latch, call)] => {
                for (index, &param) in params.iter().enumerate() {
                    let mut step = Step::default();
                    if self.adds(block, call.args[index], param, &mut step, DEPTH) {
                        let counter = Counter {
                            header: block,
                            inits: entries.iter().map(|call| call.args[index]).collect(),
                            step,
                        };
                        found.counters.insert(param, counter);
                    }
                }
                if let Some(mut test) = self.test(block, latch, &found.counters) {
                    if let [from] = entries_from[..] {
                        let counter = &found.counters[&test.counter];
                        test.not_initially = self.excluded(from, block, counter.inits[0]);
                    }
                    found.tests.insert(block, test);
                }
            }
            _ => {}
        }
    }

    /// Whether `value` is the parameter and what is added to it.
    fn adds(&self, header: Block, value: Value, param: Value, step: &mut Step, depth: u32) -> bool {
        if value == param {
            return true;
        }
        let Some(depth) = depth.checked_sub(1) else {
            return false;
        };
        let Some(&InstData::IntBinary { op, ty, args }) = self.func.def_inst(value) else {
            return false;
        };
        if ty != Type::B32 && ty != Type::B64 {
            return false;
        }
        let [a, b] = args;
        if op != IntBinaryOp::Add && op != IntBinaryOp::Sub {
            return false;
        }
        let negates = op == IntBinaryOp::Sub;
        let [rest, term] = match (self.is_invariant(header, a), self.is_invariant(header, b)) {
            (true, _) if !negates => [b, a],
            (_, true) => [a, b],
            (true | false, false) => return false,
        };
        match self.signed_constant(term) {
            Some(x) => {
                let x = if negates { x.wrapping_neg() } else { x };
                step.constant = step.constant.wrapping_add(x);
            }
            None if negates => step.subtracted.push(term),
            None => step.added.push(term),
        }
        self.adds(header, rest, param, step, depth)
    }

    fn signed_constant(&self, value: Value) -> Option<i64> {
        let bits = self.func.as_const(value)?;
        let unused = 64 - self.func.ty(value).bits();
        Some(((bits << unused) as i64) >> unused)
    }

    /// The test at the loop's end or at its start: there each iteration passes.
    fn test(
        &self,
        header: Block,
        latch: Block,
        counters: &FxHashMap<Value, Counter>,
    ) -> Option<Test> {
        let mut end = latch;
        for _ in 0..MOST_JUMPS {
            if end == header || !matches!(self.func.blocks[end].term, Terminator::Jump(_)) {
                break;
            }
            let [before] = self.predecessors[end][..] else {
                break;
            };
            end = before;
        }
        let tests = [end, header].map(|block| self.test_of(header, block, counters));
        tests.into_iter().flatten().next()
    }

    /// The number that a value is not where the edge between two blocks is taken.
    fn excluded(&self, mut from: Block, mut to: Block, value: Value) -> Option<i64> {
        for _ in 0..MOST_JUMPS {
            if let Terminator::Brif { cond, then_, else_ } = &self.func.blocks[from].term
                && let Some(&InstData::Compare { op, args, .. }) = self.func.def_inst(*cond)
                && let (true, Some(number)) = (args[0] == value, self.signed_constant(args[1]))
                && then_.block != else_.block
                && matches!(op, CompareOp::Eq | CompareOp::Ne)
            {
                let differs = if op == CompareOp::Ne { then_ } else { else_ };
                return (differs.block == to).then_some(number);
            }
            let [before] = self.predecessors[from][..] else {
                return None;
            };
            (from, to) = (before, from);
        }
        None
    }

    fn test_of(
        &self,
        header: Block,
        block: Block,
        counters: &FxHashMap<Value, Counter>,
    ) -> Option<Test> {
        let data = &self.func.blocks[block];
        let Terminator::Brif { cond, then_, else_ } = &data.term else {
            return None;
        };
        let stays = [then_, else_].map(|call| self.is_in_loop(header, call.block));
        let InstData::Compare { op, ty, args } = *self.func.def_inst(*cond)? else {
            return None;
        };
        let op = match stays {
            [true, false] => op,
            [false, true] => op.inverse(),
            [true, true] | [false, false] => return None,
        };
        let [a, b] = args;
        let (op, tested, bound) = match (self.is_invariant(header, a), self.is_invariant(header, b))
        {
            (false, true) => (op, a, b),
            (true, false) => (op.swapped(), b, a),
            _ => return None,
        };
        let params = &self.func.blocks[header].params;
        let mut mine = params.iter().filter(|param| counters.contains_key(param));
        mine.find_map(|&counter| {
            let mut step = Step::default();
            let is_sum = self.adds(header, tested, counter, &mut step, DEPTH);
            let is_constant = is_sum && step.values().next().is_none();
            is_constant.then_some(Test {
                op,
                ty,
                counter,
                offset: step.constant,
                bound,
                not_initially: None,
            })
        })
    }
}
