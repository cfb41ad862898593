//! What is refused because compiling it would take too much time or memory.

use cranelift_codegen::ir as cl;
use cranelift_entity::SecondaryMap;
use ptxjit_ir as ir;
use ptxjit_vectorize::Plan;

use crate::compile::CompileError;

/// Pairs of a block and another one where lanes can be meanwhile: some, and so many more for each
/// block. Structured code has as many for each block as branches around it.
const MOST_PENDING: usize = 8_000;
const MOST_PENDING_AT_NODE: usize = 8;

/// Instructions of CLIF, and arguments that its branches pass, of code for gangs. The time of
/// register allocation grows faster than the arguments, and cannot be interrupted; large kernels in
/// use have some ten thousand of them, where hundreds of loops with many entries make millions.
const MOST_INSTS: usize = 400_000;
const MOST_BRANCH_ARGS: usize = 100_000;

/// Pairs of a value and a block that it lives through, in code of any width: register allocation
/// takes seconds for so many. The largest kernels in use have a quarter of them.
const MOST_LIVE: usize = 1 << 27;

/// Pairs of a value that lives across blocks and a block: SSA construction keeps a word or two for
/// each, and makes parameters of blocks of many. The largest kernels in use have a twentieth of
/// them.
const MOST_PLACES: usize = 1 << 24;

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

/// Whether SSA construction takes little memory for the values that live across blocks.
pub(crate) fn check_places(func: &ir::Function, plan: &Plan) -> Result<(), CompileError> {
    let values = func.values.keys().filter(|&value| plan.escapes[value]);
    let (values, nodes) = (values.count(), plan.order.nodes.len());
    match values * nodes > MOST_PLACES {
        true => Err(CompileError::TooComplex(format!(
            "{values} values live across some of {nodes} blocks, more than {MOST_PLACES} pairs"
        ))),
        false => Ok(()),
    }
}

/// Whether few enough values live through blocks. Counted are the blocks of the layout from a
/// value's definition to its last use, which is exact but for loops.
pub(crate) fn check_live(func: &cl::Function) -> Result<(), CompileError> {
    let mut last: SecondaryMap<cl::Value, u32> = SecondaryMap::new();
    let mut n_live = 0;
    let mut defined: SecondaryMap<cl::Value, u32> = SecondaryMap::new();
    // Blocks for faults lie behind all others.
    let is_hot = |block: &cl::Block| !func.layout.is_cold(*block);
    for (idx, block) in (0u32..).zip(func.layout.blocks().filter(is_hot)) {
        for &param in func.dfg.block_params(block) {
            defined[param] = idx;
        }
        for inst in func.layout.block_insts(block) {
            for arg in func.dfg.inst_values(inst) {
                let arg = func.dfg.resolve_aliases(arg);
                let since = last[arg].max(defined[arg]);
                n_live += idx.saturating_sub(since) as usize;
                last[arg] = idx;
            }
            for &result in func.dfg.inst_results(inst) {
                defined[result] = idx;
            }
        }
    }
    match n_live > MOST_LIVE {
        true => Err(CompileError::TooComplex(format!(
            "its values live through {n_live} blocks in all, more than {MOST_LIVE}"
        ))),
        false => Ok(()),
    }
}

/// Whether code for gangs is small enough for its registers to be allocated in little time.
pub(crate) fn check_size(func: &cl::Function) -> Result<(), CompileError> {
    let too = |count: usize, what: &str, limit: usize| {
        let text = format!("the code has {count} {what}, more than {limit}");
        Err(CompileError::TooComplex(text))
    };
    let insts = func.dfg.num_insts();
    if insts > MOST_INSTS {
        return too(insts, "instructions", MOST_INSTS);
    }
    let args = |inst: cl::Inst| {
        let (tables, handlers) = (&func.dfg.jump_tables, &func.dfg.exception_tables);
        let calls = func.dfg.insts[inst].branch_destination(tables, handlers);
        let counts = calls.iter().map(|call| call.len(&func.dfg.value_lists));
        counts.sum::<usize>()
    };
    let ends = func
        .layout
        .blocks()
        .filter_map(|it| func.layout.last_inst(it));
    match ends.map(args).sum() {
        args if args > MOST_BRANCH_ARGS => too(args, "arguments of branches", MOST_BRANCH_ARGS),
        _ => Ok(()),
    }
}
