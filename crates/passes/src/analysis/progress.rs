//! Forward progress: loops that may wait for other threads.
//!
//! A thread may wait for another by reading memory in a loop. Such a loop is one whose exit depends
//! on memory that was read in the loop, on the result of an atomic, or on a clock. A loop that only
//! counts ends by itself, whatever its iterations do.

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{
    Block, Class, DeviceOp, Function, InstData, MemSem, Space, Terminator, Value, ValueDef,
};
use rustc_hash::FxHashSet;

use super::cfg;
use super::loops;

/// Whether a function has a loop that waits until another thread has done something, which is what
/// operations that order threads tell.
pub fn waits_for_others(func: &Function) -> bool {
    let forest = loops::run(&cfg::run(func));
    forest.loops.keys().any(|id| {
        let members = forest.members(id);
        let insts = || {
            let insts = members.iter().flat_map(|&block| &func.blocks[block].insts);
            insts.map(|&inst| &func.insts[inst].data)
        };
        let tells = |data: &InstData| tells_of_others(data) && synchronizes(data);
        let is_call = |data: &InstData| matches!(data.class(), Class::Call);
        // What was read may go through the thread's own memory, or come from a function.
        insts().any(|data| tells(data) || is_call(data))
            && exit_depends_on(func, members, |data| {
                tells(data) || is_own(data) || is_call(data)
            })
    })
}

/// Whether threads may be ordered by an instruction.
#[expect(clippy::wildcard_enum_match_arm, reason = "others order nothing")]
pub fn synchronizes(data: &InstData) -> bool {
    match data {
        InstData::Atomic { .. }
        | InstData::Fence { .. }
        | InstData::Nanosleep { .. }
        | InstData::Device {
            op: DeviceOp::Exchange128 { .. },
            ..
        } => true,
        InstData::Load { sem, .. } => !matches!(sem, MemSem::Weak | MemSem::NonCoherent),
        InstData::Sreg { sreg } => sreg.is_volatile(),
        _ => false,
    }
}

/// Whether an instruction reads the thread's own memory.
pub fn is_own(data: &InstData) -> bool {
    matches!(
        data,
        InstData::Load {
            space: Space::Local,
            ..
        }
    )
}

/// Whether other threads can change the result.
#[expect(clippy::wildcard_enum_match_arm, reason = "others read own results")]
pub fn tells_of_others(data: &InstData) -> bool {
    match data {
        InstData::Load { space, sem, .. } => !space.is_read_only() && *sem != MemSem::NonCoherent,
        InstData::MaskedLoad { space, .. } => !space.is_read_only(),
        InstData::Atomic { .. }
        | InstData::Device {
            op: DeviceOp::Exchange128 { .. },
            ..
        } => true,
        InstData::Sreg { sreg } => sreg.is_volatile(),
        _ => false,
    }
}

/// Whether it depends on an instruction of some kind how often a loop runs. Its header is the first
/// of its members.
pub fn exit_depends_on(
    func: &Function,
    members: &[Block],
    is_such: impl Fn(&InstData) -> bool,
) -> bool {
    let set: FxHashSet<Block> = members.iter().copied().collect();
    let inside = |block: Block| set.contains(&block);
    let mut home: SecondaryMap<Value, Option<Block>> = SecondaryMap::new();
    for &block in members {
        func.blocks[block]
            .params
            .iter()
            .for_each(|&param| home[param] = Some(block));
        for &inst in &func.blocks[block].insts {
            func.insts[inst]
                .results
                .iter()
                .for_each(|&result| home[result] = Some(block));
        }
    }
    let condition = |block: Block| match func.blocks[block].term {
        Terminator::Brif { cond: value, .. } | Terminator::Switch { index: value, .. } => {
            Some(value)
        }
        Terminator::Jump(_)
        | Terminator::Ret(_)
        | Terminator::Exit
        | Terminator::Trap(_)
        | Terminator::Dispatch(_) => None,
    };
    let exits: Vec<Block> = members
        .iter()
        .copied()
        .filter(|&block| {
            let targets = func.blocks[block].term.targets();
            targets.is_empty() || targets.iter().any(|call| !inside(call.block))
        })
        .collect();
    let header = members[0];
    let each_iteration = exits
        .iter()
        .all(|&exit| runs_each_iteration(func, header, exit, &inside));
    // Where some iterations skip an exit's test, any branch can decide which exit is reached: all
    // of them count.
    let mut branches = if each_iteration { &exits[..] } else { members };
    let mut work: Vec<Value> = Vec::new();
    work.extend(branches.iter().filter_map(|&block| condition(block)));
    let mut seen: SecondaryMap<Value, bool> = SecondaryMap::new();
    while let Some(value) = work.pop() {
        if home[value].is_none() || std::mem::replace(&mut seen[value], true) {
            continue;
        }
        match func.values[value].def {
            ValueDef::Result(inst, _) => {
                let data = &func.insts[inst].data;
                if is_such(data) {
                    return true;
                }
                work.extend(data.args());
            }
            ValueDef::Param(block, idx) => {
                // Any branch can have decided which of the arguments the parameter is.
                if block != header && branches.len() < members.len() {
                    branches = members;
                    work.extend(branches.iter().filter_map(|&block| condition(block)));
                }
                let mut is_known = false;
                for &pred in members {
                    for call in func.blocks[pred].term.targets() {
                        if call.block == block && inside(block) {
                            work.push(call.args[idx as usize]);
                            is_known = true;
                        }
                    }
                }
                // The result of a call.
                if !is_known {
                    return true;
                }
            }
        }
    }
    false
}

/// Whether every path through a loop back to its header passes a block.
fn runs_each_iteration(
    func: &Function,
    header: Block,
    block: Block,
    inside: &dyn Fn(Block) -> bool,
) -> bool {
    if block == header {
        return true;
    }
    let mut seen: SecondaryMap<Block, bool> = SecondaryMap::new();
    let mut work = vec![header];
    while let Some(from) = work.pop() {
        for call in func.blocks[from].term.targets() {
            let to = call.block;
            if to == header {
                return false;
            }
            if to != block && inside(to) && !std::mem::replace(&mut seen[to], true) {
                work.push(to);
            }
        }
    }
    true
}
