//! What a walk needs to know of a program, whatever the launch.

use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use ptxjit_ir::{
    Block, DeviceOp, Function, Inst, InstData, MarkOp, Program, Space, Terminator, Value, ValueDef,
    WarpOp,
};
use rustc_hash::{FxHashMap, FxHashSet};

use super::Unproven;
use crate::analysis::cfg::{self, Cfg};
use crate::analysis::dominators::{self, DomTree};
use crate::analysis::loops::{self, Loop, LoopForest};
use crate::screen::access::{Access, Kind};
use crate::screen::admit;
use crate::screen::marks;

/// What a walk needs to know of a program, whatever the launch.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(super) cfg: Cfg,
    pub(super) forest: LoopForest,
    pub(super) dom: DomTree,
    pub(super) post: DomTree,
    /// Instructions on which an address or a branch depends.
    pub(super) needed: SecondaryMap<Inst, bool>,
    /// The block of each instruction in reach.
    blocks: SecondaryMap<Inst, PackedOption<Block>>,
    /// Values of each loop that code behind it uses.
    pub(super) leaving: FxHashMap<Loop, Vec<Value>>,
    /// Instructions of asynchronous copies.
    pub(super) in_copies: FxHashSet<Inst>,
    /// Barriers and warp operations that must be reached together, where it is not known for any
    /// launch that they are.
    pub(super) unsure: FxHashSet<Inst>,
    /// Loops with barriers, or with waits for copies.
    pub(super) waits: FxHashSet<Loop>,
    /// Loops that write shared memory.
    pub(super) fills: FxHashSet<Loop>,
}

impl Plan {
    /// `unsure`: what must be reached together, see there.
    pub(crate) fn of(program: &Program, unsure: FxHashSet<Inst>) -> Result<Plan, Unproven> {
        let func = &program.functions[&program.entry];
        let cfg = cfg::run(func);
        let forest = loops::run(&cfg);
        if cfg.roots.len() > 1 || forest.loops.values().any(|it| !it.is_reducible) {
            return Err(Unproven("its control flow has loops with several entries"));
        }
        let mut plan = Plan {
            dom: dominators::run(&cfg),
            post: dominators::run_post(func, &cfg),
            needed: needed(func, &cfg, &unsure),
            in_copies: in_copies(func, &cfg)?,
            unsure,
            blocks: SecondaryMap::new(),
            leaving: FxHashMap::default(),
            waits: FxHashSet::default(),
            fills: FxHashSet::default(),
            cfg,
            forest,
        };
        for &block in &plan.cfg.rpo {
            for &inst in &func.blocks[block].insts {
                plan.blocks[inst] = block.into();
                let data = &func.insts[inst].data;
                let is_barrier = admit::is_barrier(data) || is_of_groups(data);
                let fills = Access::of(func, data)
                    .is_some_and(|it| it.space == Space::Shared && it.kind == Kind::Store);
                for id in plan.forest.around(block) {
                    if is_barrier {
                        plan.waits.insert(id);
                    }
                    if fills {
                        plan.fills.insert(id);
                    }
                }
            }
        }
        plan.find_leaving(func);
        Ok(plan)
    }

    /// Finds the values of loops that code behind them uses.
    fn find_leaving(&mut self, func: &Function) {
        let mut found: FxHashSet<(Loop, Value)> = FxHashSet::default();
        for &block in &self.cfg.rpo {
            let data = &func.blocks[block];
            let mut uses: Vec<Value> = Vec::new();
            for &inst in &data.insts {
                uses.extend(func.insts[inst].data.args());
            }
            data.term.for_each_arg(|arg| uses.push(arg));
            for value in uses {
                let Some(home) = self.home(func, value) else {
                    continue;
                };
                for id in self.forest.around(home) {
                    if !self.forest.contains(id, block) && found.insert((id, value)) {
                        self.leaving.entry(id).or_default().push(value);
                    }
                }
            }
        }
    }

    /// The block that defines a value.
    pub(super) fn home(&self, func: &Function, value: Value) -> Option<Block> {
        let block = match func.values[value].def {
            ValueDef::Param(block, _) => block,
            ValueDef::Result(inst, _) => self.blocks[inst].expand()?,
        };
        self.cfg.is_reachable(block).then_some(block)
    }
}

/// Finds the instructions between the marks of asynchronous copies.
fn in_copies(func: &Function, cfg: &Cfg) -> Result<FxHashSet<Inst>, Unproven> {
    let mut found = FxHashSet::default();
    let mut at_start: SecondaryMap<Block, Option<bool>> = SecondaryMap::new();
    at_start[func.entry] = Some(false);
    for &block in &cfg.rpo {
        let mut is_in = at_start[block] == Some(true);
        for &inst in &func.blocks[block].insts {
            match marks::mark(&func.insts[inst].data) {
                Some(MarkOp::AsyncBegin) => is_in = true,
                Some(MarkOp::AsyncEnd) => is_in = false,
                Some(_) | None => {
                    if is_in {
                        found.insert(inst);
                    }
                }
            }
        }
        for &succ in &cfg.succs[block] {
            if *at_start[succ].get_or_insert(is_in) != is_in {
                return Err(Unproven("its copies are not told apart from other code"));
            }
        }
    }
    Ok(found)
}

/// Whether it commits a group of copies, or waits for some.
fn is_of_groups(data: &InstData) -> bool {
    matches!(
        marks::mark(data),
        Some(MarkOp::CommitGroup | MarkOp::WaitGroup(_) | MarkOp::WaitAll)
    )
}

/// Finds what addresses, conditions and barriers depend on.
fn needed(func: &Function, cfg: &Cfg, unsure: &FxHashSet<Inst>) -> SecondaryMap<Inst, bool> {
    let mut needed = SecondaryMap::new();
    let mut work: Vec<Value> = Vec::new();
    let mut params: FxHashSet<Value> = FxHashSet::default();
    for &block in &cfg.rpo {
        for &inst in &func.blocks[block].insts {
            let data = &func.insts[inst].data;
            if let Some(access) = Access::of(func, data) {
                needed[inst] = true;
                work.push(access.addr);
            } else if let InstData::Load { addr, .. } = data {
                needed[inst] = true;
                work.push(*addr);
            } else if admit::is_barrier(data)
                || matches!(data, InstData::Store { .. } | InstData::Atomic { .. })
                || is_of_groups(data)
                || unsure.contains(&inst)
            {
                needed[inst] = true;
            } else if let InstData::Device {
                op: DeviceOp::AlignedRow,
                args,
            } = data
            {
                needed[inst] = true;
                work.extend(args);
            } else if let InstData::Warp {
                op: WarpOp::Sync | WarpOp::AlignedSync,
                args,
                ..
            } = data
            {
                needed[inst] = true;
                work.extend(args);
            }
        }
        match &func.blocks[block].term {
            Terminator::Brif { cond, .. } => work.push(*cond),
            Terminator::Switch { index, .. } => work.push(*index),
            Terminator::Jump(_)
            | Terminator::Ret(_)
            | Terminator::Exit
            | Terminator::Trap(_)
            | Terminator::Dispatch(_) => {}
        }
    }
    while let Some(value) = work.pop() {
        match func.values[value].def {
            ValueDef::Result(inst, _) => {
                let is_access = Access::of(func, &func.insts[inst].data).is_some();
                if !is_access && !std::mem::replace(&mut needed[inst], true) {
                    work.extend(func.insts[inst].data.args());
                }
            }
            ValueDef::Param(block, idx) => {
                if params.insert(value) {
                    for &pred in &cfg.preds[block] {
                        let calls = func.blocks[pred].term.targets();
                        let calls = calls.into_iter().filter(|call| call.block == block);
                        work.extend(calls.map(|call| call.args[idx as usize]));
                    }
                }
            }
        }
    }
    needed
}
