//! What is refused because compiling it would take too much time or memory.

use cranelift_codegen::dominator_tree::DominatorTree;
use cranelift_codegen::flowgraph::ControlFlowGraph;
use cranelift_codegen::ir as cl;
use cranelift_entity::SecondaryMap;
use ptxjit_ir as ir;
use ptxjit_vectorize::Plan;

use crate::compile::CompileError;

/// Pairs of a block and another one where lanes can be meanwhile: some, and so many more for each
/// block. Structured code has as many for each block as branches around it.
const MOST_PENDING: usize = 8_000;
const MOST_PENDING_AT_NODE: usize = 8;

/// Instructions of CLIF, and arguments that its branches pass, of code for gangs. The largest
/// kernel in use, NVIDIA's immaTensorCoreGemm with its 4,096 products, has 960,000 instructions and
/// compiles in five seconds. The time of register allocation grows faster than the arguments, and
/// cannot be interrupted; large kernels in use have some ten thousand of them, where hundreds of
/// loops with many entries make millions.
const MOST_INSTS: usize = 1_000_000;
const MOST_BRANCH_ARGS: usize = 100_000;

/// Instructions of code for single lanes: compiling one takes about 400 bytes in all.
const MOST_INSTS_FOR_ONE: usize = 1_500_000;

/// Pairs of a variable that carries a part of a value between nodes and a block of CLIF: SSA
/// construction has four bytes for each. Kernels of CUB that transform complex numbers have half as
/// many under memcheck, and compile in a second.
const MOST_DEFINITIONS: usize = 1 << 28;

/// Places where lanes wait, and functions and continuations that they are resumed at: the state of
/// a lane has 16 bits, and two states are taken.
const MOST_WAITS: usize = 0xfffe;

/// Pairs of a value and a block that it lives through, where registers are allocated with a look at
/// all of the code. The largest kernels in use have as many.
const MOST_LIVE: u64 = 1 << 25;

/// Blocks of the same. Its time grows with the square of the blocks that one variable is passed
/// along, as it compares each of them with all before, and so it does with the places to split at:
/// a thousand loops with a thousand variables, 33,000 blocks, took eight seconds. The largest
/// kernels in use have 6,000.
const MOST_BLOCKS: usize = 1 << 14;

/// The same where registers are allocated in one pass, with blocks for faults, and each block
/// counted once more for each branch to it: a pair takes some ten nanoseconds. Values live longer
/// in the order of this allocator.
const MOST_SWEPT: u64 = 1 << 28;

/// Pairs of a value that lives across blocks and a block: SSA construction keeps a word or two for
/// each, and makes parameters of blocks of many. Kernels of CUB that transform complex numbers,
/// unrolled, have a third as many.
const MOST_PLACES: usize = 1 << 26;

/// Values that calls save, and load again behind them, in all. Recursive functions in use have some
/// ten at a call.
const MOST_SAVED: usize = 1 << 20;

/// Whether calls that were not inlined save few enough values.
pub(crate) fn check_saved(n_saved: usize) -> Result<(), CompileError> {
    match n_saved > MOST_SAVED {
        true => Err(CompileError::TooComplex(format!(
            "{n_saved} values live across calls that are not inlined, more than {MOST_SAVED}"
        ))),
        false => Ok(()),
    }
}

/// Whether code for gangs has to keep track of so few places at a time that variables for them are
/// made in little time.
pub(crate) fn check_pending(plan: &Plan) -> Result<(), CompileError> {
    let pending: usize = plan.pending.iter().map(Vec::len).sum();
    let limit = MOST_PENDING + MOST_PENDING_AT_NODE * plan.order.nodes.len();
    match pending > limit {
        true => Err(CompileError::TooComplex(format!(
            "lanes can wait for each other at {pending} pairs of places, more than {limit}"
        ))),
        false => Ok(()),
    }
}

/// Whether the state of a lane can tell all places where lanes wait.
pub(crate) fn check_waits(plan: &Plan) -> Result<(), CompileError> {
    match plan.waits.len() {
        count if count > MOST_WAITS => Err(CompileError::TooComplex(format!(
            "lanes can wait at {count} places, more than {MOST_WAITS}"
        ))),
        _ => Ok(()),
    }
}

/// Whether SSA construction takes little memory for the values that live across blocks.
pub(crate) fn check_places(
    plan: &Plan,
    crosses: &SecondaryMap<ir::Value, bool>,
) -> Result<(), CompileError> {
    let values = crosses.values().filter(|&&crosses| crosses);
    let (values, nodes) = (values.count(), plan.order.nodes.len());
    match values * nodes > MOST_PLACES {
        true => Err(CompileError::TooComplex(format!(
            "variables carry {values} values across some of {nodes} blocks, more than {MOST_PLACES} pairs"
        ))),
        false => Ok(()),
    }
}

/// Why registers are allocated in one pass from the code's end to its start, which takes much less
/// time, whatever the optimizing tier does elsewhere. None if they need not.
pub(crate) fn one_pass(func: &cl::Function) -> Option<String> {
    // Blocks for faults lie behind all others, and the allocator that looks at all of the code
    // sees that the values do not live in between.
    let hot = || {
        let blocks = func.layout.blocks();
        blocks.filter(|&block| !func.layout.is_cold(block))
    };
    let n_blocks = hot().count();
    if n_blocks > MOST_BLOCKS {
        return Some(format!("{n_blocks} blocks, more than {MOST_BLOCKS}"));
    }
    let n_live: u64 = live(func, hot()).iter().sum();
    (n_live > MOST_LIVE)
        .then(|| format!("values live through {n_live} blocks in all, more than {MOST_LIVE}"))
}

/// Whether allocating registers in one pass takes little time.
pub(crate) fn check_one_pass(func: &cl::Function) -> Result<(), CompileError> {
    let mut n_branches: SecondaryMap<cl::Block, u64> = SecondaryMap::new();
    let mut n_places = func.dfg.num_blocks() as u64;
    for inst in func
        .layout
        .blocks()
        .filter_map(|it| func.layout.last_inst(it))
    {
        let (tables, handlers) = (&func.dfg.jump_tables, &func.dfg.exception_tables);
        for call in func.dfg.insts[inst].branch_destination(tables, handlers) {
            n_branches[call.block(&func.dfg.value_lists)] += 1;
            n_places += 1;
        }
    }
    if n_places * func.dfg.num_values() as u64 <= MOST_SWEPT {
        return Ok(());
    }
    // The order of that allocator.
    let domtree = DominatorTree::with_function(func, &ControlFlowGraph::with_function(func));
    let live = live(func, domtree.cfg_rpo().copied());
    let each = domtree.cfg_rpo().zip(live);
    let swept: u64 = each.map(|(&block, n)| n * (1 + n_branches[block])).sum();
    match swept > MOST_SWEPT {
        true => Err(CompileError::TooComplex(format!(
            "values live through {swept} blocks and branches in all, more than {MOST_SWEPT}"
        ))),
        false => Ok(()),
    }
}

/// How many values live into each of some blocks: from their definition to their last use in this
/// order, which is exact but for loops.
fn live(func: &cl::Function, blocks: impl Iterator<Item = cl::Block>) -> Vec<u64> {
    let mut last: SecondaryMap<cl::Value, u32> = SecondaryMap::new();
    let mut defined: SecondaryMap<cl::Value, u32> = SecondaryMap::new();
    let mut changes: Vec<i64> = vec![0];
    for (idx, block) in (0u32..).zip(blocks) {
        changes.push(0);
        for &param in func.dfg.block_params(block) {
            defined[param] = idx;
        }
        for inst in func.layout.block_insts(block) {
            for arg in func.dfg.inst_values(inst) {
                let arg = func.dfg.resolve_aliases(arg);
                let since = last[arg].max(defined[arg]);
                if since < idx {
                    changes[since as usize + 1] += 1;
                    changes[idx as usize + 1] -= 1;
                }
                last[arg] = idx;
            }
            for &result in func.dfg.inst_results(inst) {
                defined[result] = idx;
            }
        }
    }
    changes.pop();
    let sum = |n: &mut i64, change: i64| {
        *n += change;
        Some(*n as u64)
    };
    changes.into_iter().scan(0, sum).collect()
}

/// What code may grow to while it is built.
pub(crate) struct Growth {
    gang: u32,
    insts: usize,
    definitions: usize,
}

impl Growth {
    /// Of code for gangs of this width, unless it [goes on](crate::CompileOptions::goes_on).
    pub(crate) fn of(gang: u32, goes_on: bool) -> Growth {
        let (insts, definitions) = match gang {
            _ if goes_on => (usize::MAX, usize::MAX),
            1 => (MOST_INSTS_FOR_ONE, MOST_DEFINITIONS),
            _ => (MOST_INSTS, MOST_DEFINITIONS),
        };
        Growth {
            gang,
            insts,
            definitions,
        }
    }

    /// Whether the code so far, which has so many variables, is within the limits.
    pub(crate) fn check(&self, func: &cl::Function, n_vars: usize) -> Result<(), CompileError> {
        let insts = func.dfg.num_insts();
        if insts > self.insts {
            return too_much(insts, "instructions", self.insts);
        }
        let definitions = n_vars * func.dfg.num_blocks();
        match definitions > self.definitions {
            true => too_much(
                definitions,
                "pairs of a variable and a block",
                self.definitions,
            ),
            false => Ok(()),
        }
    }

    /// The same of code that is complete: what branches of code for gangs pass counts, too.
    pub(crate) fn check_all(&self, func: &cl::Function) -> Result<(), CompileError> {
        self.check(func, 0)?;
        let args = n_branch_args(func);
        match self.gang > 1 && self.insts < usize::MAX && args > MOST_BRANCH_ARGS {
            true => too_much(args, "arguments of branches", MOST_BRANCH_ARGS),
            false => Ok(()),
        }
    }
}

fn too_much(count: usize, what: &str, limit: usize) -> Result<(), CompileError> {
    let text = format!("the code has {count} {what}, more than {limit}");
    Err(CompileError::TooComplex(text))
}

fn n_branch_args(func: &cl::Function) -> usize {
    let args = |inst: cl::Inst| {
        let (tables, handlers) = (&func.dfg.jump_tables, &func.dfg.exception_tables);
        let calls = func.dfg.insts[inst].branch_destination(tables, handlers);
        let counts = calls.iter().map(|call| call.len(&func.dfg.value_lists));
        counts.sum::<usize>()
    };
    let blocks = func.layout.blocks();
    let ends = blocks.filter_map(|block| func.layout.last_inst(block));
    ends.map(args).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cranelift_codegen::ir::{InstBuilder, types};
    use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

    /// So many values that are all used after so many blocks.
    fn chain(n_values: usize, n_blocks: usize) -> cl::Function {
        let (mut func, mut context) = (cl::Function::new(), FunctionBuilderContext::new());
        let mut b = FunctionBuilder::new(&mut func, &mut context);
        let first = b.create_block();
        b.switch_to_block(first);
        let values: Vec<cl::Value> = (0..n_values)
            .map(|n| b.ins().iconst(types::I64, n as i64))
            .collect();
        for _ in 0..n_blocks {
            let next = b.create_block();
            b.ins().jump(next, &[]);
            b.switch_to_block(next);
        }
        for &value in &values {
            b.ins().ineg(value);
        }
        b.ins().return_(&[]);
        b.seal_all_blocks();
        b.finalize(cranelift_codegen::isa::TargetFrontendConfig {
            default_call_conv: cranelift_codegen::isa::CallConv::SystemV,
            pointer_width: target_lexicon::PointerWidth::U64,
            page_size_align_log2: 12,
        });
        func
    }

    #[test]
    fn values_count_once_in_each_block_that_they_live_through() {
        let live_in = |n_blocks| {
            let func = chain(10, n_blocks);
            live(&func, func.layout.blocks())
        };
        assert_eq!(live_in(3), [0, 10, 10, 10]);
        assert_eq!(live_in(0), [0]);
    }

    #[test]
    fn registers_are_allocated_in_one_pass_where_values_live_long() {
        assert_eq!(one_pass(&chain(4096, 8192)), None);
        let why = one_pass(&chain(4096, 8193)).unwrap();
        assert!(why.contains("33558528 blocks in all"), "{why}");
    }

    #[test]
    fn registers_are_allocated_in_one_pass_where_there_are_many_blocks() {
        assert_eq!(one_pass(&chain(1, MOST_BLOCKS - 1)), None);
        let why = one_pass(&chain(1, MOST_BLOCKS)).unwrap();
        assert!(why.contains("16385 blocks, more than"), "{why}");
    }

    #[test]
    fn one_pass_sees_each_branch() {
        // Each block but the first has one branch to it, and counts twice.
        assert!(check_one_pass(&chain(8192, 16_384)).is_ok());
        let why = check_one_pass(&chain(8192, 16_385))
            .unwrap_err()
            .to_string();
        assert!(why.contains("268451840 blocks and branches"), "{why}");
    }

    #[test]
    fn code_grows_up_to_its_limits() {
        let growth = Growth {
            gang: 8,
            insts: 50,
            definitions: 100,
        };
        let text = |checked: Result<(), CompileError>| checked.unwrap_err().to_string();
        let func = chain(20, 9);
        assert!(growth.check_all(&func).is_ok());
        assert!(growth.check(&func, 10).is_ok());
        let found = text(growth.check(&func, 11));
        let expected = "110 pairs of a variable and a block, more than 100";
        assert!(found.contains(expected), "{found}");
        let found = text(growth.check_all(&chain(21, 9)));
        assert!(found.contains("52 instructions, more than 50"), "{found}");
    }
}
