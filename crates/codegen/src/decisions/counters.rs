//! Counters of loops: parameters of a header to which each iteration adds one amount, and the test
//! that bounds the iterations.
//!
//! Their ranges over all iterations (`cta_ranges`) take the tests of addresses and borders out of
//! loops.

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{
    Block, BlockCall, CompareOp, Function, InstData, IntBinaryOp, Terminator, Type, Value,
};
use ptxjit_vectorize::Plan;
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
    pub counters: CounterMap,
    /// By the loop's header.
    pub tests: FxHashMap<Block, Test>,
    /// Parameters of other blocks: what edges pass to them.
    pub merges: FxHashMap<Value, SmallVec<[Value; 4]>>,
}

type CounterMap = FxHashMap<Value, Counter>;

/// An edge to a block, with the block that it comes from.
type Edge<'a> = (Block, &'a BlockCall);

struct Finder<'a> {
    func: &'a Function,
    plan: &'a Plan,
    predecessors: &'a SecondaryMap<Block, Vec<Block>>,
    homes: SecondaryMap<Value, Option<Block>>,
}

/// Finds them.
pub(super) fn find(
    func: &Function,
    plan: &Plan,
    predecessors: &SecondaryMap<Block, Vec<Block>>,
) -> Counters {
    let finder = Finder {
        func,
        plan,
        predecessors,
        homes: func.homes(),
    };
    let mut found = Counters::default();
    let blocks = plan.order.blocks();
    blocks.for_each(|block| finder.block(block, &mut found));
    found
}

impl Finder<'_> {
    fn position(&self, block: Block) -> Option<u32> {
        self.plan.order.block_pos[block]
    }

    /// Whether a value does not change in a loop.
    fn is_invariant(&self, header: Block, value: Value) -> bool {
        let is_outside = |home| !self.plan.order.is_in_loop(header, home);
        self.func.as_const(value).is_some() || self.homes[value].is_some_and(is_outside)
    }

    fn calls_to(&self, block: Block) -> impl Iterator<Item = Edge<'_>> {
        self.predecessors[block].iter().flat_map(move |&from| {
            let targets = self.func.blocks[from].term.targets().into_iter();
            let calls = targets.filter(move |call| call.block == block);
            calls.map(move |call| (from, call))
        })
    }

    fn block(&self, block: Block, found: &mut Counters) {
        let params = &self.func.blocks[block].params;
        if params.is_empty() || self.plan.starts_at(block) {
            return;
        }
        // Code that is not reached passes nothing.
        let calls = self.calls_to(block);
        let calls = calls.filter(|&(from, _)| self.position(from).is_some());
        let is_back = |&(from, _): &Edge<'_>| self.position(from) >= self.position(block);
        let (back, entries): (Vec<Edge<'_>>, Vec<Edge<'_>>) = calls.partition(is_back);
        match back[..] {
            [] => {
                for (index, &param) in params.iter().enumerate() {
                    let args = entries.iter().map(|(_, call)| call.args[index]);
                    found.merges.insert(param, args.collect());
                }
            }
            [back] => self.find_in_loop(block, back, &entries, found),
            _ => {}
        }
    }

    /// The counters and the test of a loop with one backward edge.
    fn find_in_loop(
        &self,
        header: Block,
        (latch, back): Edge<'_>,
        entries: &[Edge<'_>],
        found: &mut Counters,
    ) {
        for (index, &param) in self.func.blocks[header].params.iter().enumerate() {
            if let Some(step) = self.added(header, back.args[index], param) {
                let inits = entries.iter().map(|(_, call)| call.args[index]);
                let counter = Counter {
                    header,
                    inits: inits.collect(),
                    step,
                };
                found.counters.insert(param, counter);
            }
        }
        if let Some(mut test) = self.test(header, latch, &found.counters) {
            if let [(from, _)] = entries[..] {
                let counter = &found.counters[&test.counter];
                test.not_initially = self.excluded(from, header, counter.inits[0]);
            }
            found.tests.insert(header, test);
        }
    }

    /// What is added to the parameter to make `value`, if it is such a sum.
    fn added(&self, header: Block, value: Value, param: Value) -> Option<Step> {
        let mut step = Step::default();
        let is_sum = self.adds(header, value, param, &mut step, DEPTH);
        is_sum.then_some(step)
    }

    /// Whether `value` is the parameter and what is added to it.
    fn adds(&self, header: Block, value: Value, param: Value, step: &mut Step, depth: u32) -> bool {
        if value == param {
            return true;
        }
        let Some(depth) = depth.checked_sub(1) else {
            return false;
        };
        let sum = self.func.as_binary(value);
        let Some((op @ (IntBinaryOp::Add | IntBinaryOp::Sub), Type::B32 | Type::B64, [a, b])) = sum
        else {
            return false;
        };
        let negates = op == IntBinaryOp::Sub;
        let [rest, term] = match (self.is_invariant(header, a), self.is_invariant(header, b)) {
            (true, _) if !negates => [b, a],
            (_, true) => [a, b],
            (true | false, false) => return false,
        };
        match self.func.as_signed(term) {
            Some(x) => {
                let x = if negates { x.wrapping_neg() } else { x };
                step.constant = step.constant.wrapping_add(x);
            }
            None if negates => step.subtracted.push(term),
            None => step.added.push(term),
        }
        self.adds(header, rest, param, step, depth)
    }

    /// The test at the loop's end or at its start: there each iteration passes.
    fn test(&self, header: Block, latch: Block, counters: &CounterMap) -> Option<Test> {
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
                && let (true, Some(number)) = (args[0] == value, self.func.as_signed(args[1]))
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

    fn test_of(&self, header: Block, block: Block, counters: &CounterMap) -> Option<Test> {
        let cond = self.func.blocks[block].term.condition()?;
        let (op, ty, [a, b]) = self.func.def_inst(cond)?.as_compare()?;
        let stays = |to| self.plan.order.is_in_loop(header, to);
        let stays: SmallVec<[bool; 2]> = self.func.successors(block).map(stays).collect();
        let op = match stays[..] {
            [true, false] => op,
            [false, true] => op.inverse(),
            _ => return None,
        };
        let (op, tested, bound) = match [a, b].map(|arg| self.is_invariant(header, arg)) {
            [false, true] => (op, a, b),
            [true, false] => (op.swapped(), b, a),
            [true, true] | [false, false] => return None,
        };
        let params = self.func.blocks[header].params.iter();
        let mut mine = params.filter(|param| counters.contains_key(param));
        mine.find_map(|&counter| {
            let step = self.added(header, tested, counter)?;
            let is_constant = step.values().next().is_none();
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
