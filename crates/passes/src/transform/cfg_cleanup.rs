//! Tidies the control-flow graph.
//!
//! **Needs**: nothing. **Ensures**: nothing branches to the entry; blocks out of reach are empty;
//! no branch depends on a constant or has but one target; no block is only there to jump on; a
//! block and its only successor, whose only predecessor it is, are one.
//!
//! Nothing convergent moves: blocks are merged only where the same threads run both, and only empty
//! ones are skipped.
//!
//! ```text
//! block0: v0 = const.b1 1; brif v0, block1, block2               block0: ...; ret v5
//! block1: jump block3(v5)                                  ==>
//! block3(v1): ret v1
//! ```

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{
    Block, BlockCall, Function, InstData, IntUnaryOp, SrcLoc, Terminator, TrapKind, Value,
};
use smallvec::SmallVec;

use crate::analysis::cfg::{self, Cfg};
use crate::transform::rewrite::Aliases;

/// Runs the pass; says whether something changed.
pub fn run(func: &mut Function) -> bool {
    let mut changed = free_entry(func);
    // Each step may make work for the others, hardly ever more than twice.
    for _ in 0..MAX_ROUNDS {
        let mut again = fold_branches(func);
        let cfg = cfg::run(func);
        clear_unreachable(func, &cfg);
        again |= skip_empty_blocks(func, &cfg);
        let cfg = cfg::run(func);
        clear_unreachable(func, &cfg);
        again |= merge_lines(func, &cfg);
        changed |= again;
        if !again {
            break;
        }
    }
    changed
}

const MAX_ROUNDS: u32 = 4;

/// Gives a kernel that jumps to its beginning an entry of its own.
fn free_entry(func: &mut Function) -> bool {
    let entry = func.entry;
    let is_target = func
        .blocks
        .values()
        .any(|data| data.term.targets().iter().any(|call| call.block == entry));
    if is_target {
        func.entry = func.new_block();
        func.blocks[func.entry].term = Terminator::Jump(BlockCall::new(entry));
    }
    is_target
}

/// Makes jumps of branches that can only go one way.
fn fold_branches(func: &mut Function) -> bool {
    let mut changed = false;
    for block in func.blocks.keys() {
        while let Some(term) = fold(func, block) {
            func.blocks[block].term = term;
            changed = true;
        }
    }
    changed
}

fn fold(func: &Function, block: Block) -> Option<Terminator> {
    match &func.blocks[block].term {
        Terminator::Brif { then_, else_, .. } if then_ == else_ => {
            Some(Terminator::Jump(then_.clone()))
        }
        Terminator::Brif { cond, then_, else_ } => match func.def_inst(*cond) {
            Some(InstData::Const { bits, .. }) => Some(Terminator::Jump(if *bits != 0 {
                then_.clone()
            } else {
                else_.clone()
            })),
            Some(&InstData::IntUnary {
                op: IntUnaryOp::Not,
                arg,
                ..
            }) => Some(Terminator::Brif {
                cond: arg,
                then_: else_.clone(),
                else_: then_.clone(),
            }),
            _ => None,
        },
        Terminator::Switch {
            index,
            targets,
            default,
        } => {
            if let Some(index) = func.as_const(*index) {
                return Some(Terminator::Jump(
                    targets.get(index as usize).unwrap_or(default).clone(),
                ));
            }
            // Cases at the end that do what the default does need no entry.
            match targets.split_last() {
                None => Some(Terminator::Jump(default.clone())),
                Some((last, rest)) if last == default => Some(Terminator::Switch {
                    index: *index,
                    targets: rest.to_vec(),
                    default: default.clone(),
                }),
                Some(_) => None,
            }
        }
        Terminator::Jump(_)
        | Terminator::Ret(_)
        | Terminator::Exit
        | Terminator::Trap(_)
        | Terminator::Dispatch(_) => None,
    }
}

/// Empties blocks out of reach.
pub(crate) fn clear_unreachable(func: &mut Function, cfg: &Cfg) {
    for (block, data) in func.blocks.iter_mut() {
        if !cfg.is_reachable(block) {
            data.params.clear();
            data.insts.clear();
            data.term = Terminator::Trap(TrapKind::Unreachable);
            data.term_loc = SrcLoc::default();
        }
    }
}

/// Lets branches to blocks that only jump on go to where those jump.
fn skip_empty_blocks(func: &mut Function, cfg: &Cfg) -> bool {
    let is_empty = |block: Block| {
        let data = &func.blocks[block];
        data.insts.is_empty()
            && matches!(data.term, Terminator::Jump(_))
            && !cfg.roots.contains(&block)
    };
    let mut can_skip: SecondaryMap<Block, bool> = SecondaryMap::new();
    for &block in cfg.rpo.iter().filter(|&&block| is_empty(block)) {
        can_skip[block] = true;
    }
    forbid_used_params(func, cfg, &mut can_skip);
    let mut changed = false;
    // Successors first: what they jump to is known then, and chains of empty blocks are followed
    // once.
    for &block in cfg.rpo.iter().rev() {
        let mut term = std::mem::replace(&mut func.blocks[block].term, Terminator::Exit);
        for call in term.targets_mut() {
            // As many steps as there are blocks, lest an empty endless loop never ends here.
            for _ in 0..cfg.rpo.len() {
                if call.block == block || !can_skip[call.block] {
                    break;
                }
                if let Terminator::Jump(next) = &func.blocks[call.block].term {
                    *call = compose(func, call, next)
                } else {
                    break;
                }
                changed = true;
            }
        }
        func.blocks[block].term = term;
    }
    changed
}

/// A block whose parameters are read by others than its own jump must stay.
fn forbid_used_params(func: &Function, cfg: &Cfg, can_skip: &mut SecondaryMap<Block, bool>) {
    let mut forbid = |user: Block, value: Value| {
        if let ptxjit_ir::ValueDef::Param(block, _) = func.values[value].def
            && block != user
        {
            can_skip[block] = false;
        }
    };
    for &block in &cfg.rpo {
        for &inst in &func.blocks[block].insts {
            func.insts[inst]
                .data
                .args()
                .into_iter()
                .for_each(|arg| forbid(block, arg));
        }
        func.blocks[block]
            .term
            .for_each_arg(|arg| forbid(block, arg));
    }
}

/// The branch `next` of the block that `call` branches to, as seen from there.
fn compose(func: &Function, call: &BlockCall, next: &BlockCall) -> BlockCall {
    let params = &func.blocks[call.block].params;
    let translate = |&arg: &Value| match params.iter().position(|&param| param == arg) {
        Some(idx) => call.args[idx],
        None => arg,
    };
    BlockCall {
        block: next.block,
        args: next.args.iter().map(translate).collect(),
    }
}

/// Appends each block to its only predecessor if that has no other successor.
fn merge_lines(func: &mut Function, cfg: &Cfg) -> bool {
    let mut aliases = Aliases::new();
    let mut changed = false;
    for &block in &cfg.rpo {
        while let Some(call) = only_successor(func, cfg, block) {
            let next = std::mem::take(&mut func.blocks[call.block]);
            for (&param, &arg) in next.params.iter().zip(&call.args) {
                aliases.set(param, arg);
            }
            let data = &mut func.blocks[block];
            data.insts.extend(next.insts);
            data.term = next.term;
            data.term_loc = next.term_loc;
            func.blocks[call.block].term = Terminator::Trap(TrapKind::Unreachable);
            changed = true;
        }
    }
    aliases.apply(func);
    changed
}

/// The branch to the block that can be appended to `block`. `cfg` knows the number of predecessors:
/// merging changes who they are, not how many.
fn only_successor(func: &Function, cfg: &Cfg, block: Block) -> Option<BlockCall> {
    let Terminator::Jump(call) = &func.blocks[block].term else {
        return None;
    };
    let preds: &SmallVec<[Block; 2]> = &cfg.preds[call.block];
    let is_only = preds.len() == 1 && call.block != block && !cfg.roots.contains(&call.block);
    is_only.then(|| call.clone())
}
