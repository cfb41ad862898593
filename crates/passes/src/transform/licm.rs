//! Moves what does not change in a loop to before the loop.
//!
//! **Needs**: `gvn` before, for fewer equal operations. **Ensures**: every pure operation in a
//! reducible loop depends on something that changes there. Every op of the IR is total, so it may
//! run although the program would not have run it.
//!
//! Loads move only from memory that nobody can write, and only if they would be made anyway or
//! cannot fail: a hoisted load must not fault where the program would not. Convergent instructions
//! never move.
//!
//! ```text
//! block1: v3 = imul.b32 v0, v1; ...; brif v9, block1, block2
//!   ==>   block0: v3 = imul.b32 v0, v1; jump block1
//! ```

use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use ptxjit_ir::{
    Block, BlockCall, Effect, Function, Inst, InstData, MemSem, Space, Terminator, Value,
};

use crate::analysis::cfg::{self, Cfg};
use crate::analysis::loops::{self, Loop, LoopForest};

/// Runs the pass; says whether something changed. `param_bytes` is the size of the kernel's
/// parameter block.
pub fn run(func: &mut Function, param_bytes: u32) -> bool {
    let cfg = cfg::run(func);
    let forest = loops::run(&cfg);
    if forest.loops.is_empty() {
        return false;
    }
    let mut hoist = Hoist {
        forest: &forest,
        home: SecondaryMap::new(),
        moved: SecondaryMap::new(),
        param_bytes,
    };
    for &block in &forest.order {
        for &param in &func.blocks[block].params {
            hoist.home[param] = forest.innermost[block];
        }
    }
    let mut changed = false;
    for &block in &forest.order {
        changed |= hoist.visit(func, block);
    }
    for (id, _) in &forest.loops {
        let insts = std::mem::take(&mut hoist.moved[id]);
        if !insts.is_empty() {
            place(func, &cfg, &forest, id, insts);
        }
    }
    changed
}

struct Hoist<'a> {
    forest: &'a LoopForest,
    /// The innermost loop that each value is computed in, after moving.
    home: SecondaryMap<Value, PackedOption<Loop>>,
    /// Instructions to put before each loop.
    moved: SecondaryMap<Loop, Vec<Inst>>,
    param_bytes: u32,
}

impl Hoist<'_> {
    fn visit(&mut self, func: &mut Function, block: Block) -> bool {
        let innermost = self.forest.innermost(block);
        let mut insts = std::mem::take(&mut func.blocks[block].insts);
        let n_before = insts.len();
        // Whether all before this place comes back: then what is here runs whenever the block does.
        let mut is_reached = true;
        insts.retain(|&inst| {
            let target = self.target(func, block, inst, is_reached);
            is_reached &= returns(&func.insts[inst].data);
            let home = match target {
                Some(id) => self.forest.loops[id].parent,
                None => innermost,
            };
            for &result in &func.insts[inst].results {
                self.home[result] = home.into();
            }
            if let Some(id) = target {
                self.moved[id].push(inst);
            }
            target.is_none()
        });
        let changed = insts.len() != n_before;
        func.blocks[block].insts = insts;
        changed
    }

    /// The outermost loop that the instruction can be put before.
    fn target(&self, func: &Function, block: Block, inst: Inst, is_reached: bool) -> Option<Loop> {
        let data = &func.insts[inst].data;
        let innermost = self.forest.innermost(block)?;
        let is_free = data.effect() == Effect::Pure || self.is_safe_load(func, data);
        let is_made_anyway = is_reached && self.forest.loops[innermost].header == block;
        let may_move = is_free || (is_made_anyway && is_constant_load(data));
        if !may_move {
            return None;
        }
        let args = data.args();
        let mut target = None;
        for id in self.forest.around(block) {
            let can_leave = self.forest.loops[id].is_reducible
                && args.iter().all(|&arg| self.is_outside(arg, id));
            if !can_leave {
                break;
            }
            target = Some(id);
            if !is_free {
                break;
            }
        }
        target
    }

    fn is_outside(&self, value: Value, id: Loop) -> bool {
        match self.home[value].expand() {
            Some(home) => !self.forest.loops[id]
                .span
                .contains(&self.forest.loops[home].span.start),
            None => true,
        }
    }

    /// A load that can be made anywhere: of a kernel parameter at a constant address in bounds.
    fn is_safe_load(&self, func: &Function, data: &InstData) -> bool {
        let &InstData::Load {
            space: Space::Param,
            sem: MemSem::Weak | MemSem::NonCoherent,
            ty,
            n,
            addr,
            offset,
            ..
        } = data
        else {
            return false;
        };
        let Some(base) = func.as_const(addr) else {
            return false;
        };
        let start = i128::from(base) + i128::from(offset);
        start >= 0 && start + i128::from(ty.bytes()) * i128::from(n) <= i128::from(self.param_bytes)
    }
}

/// A load whose result is the same at any time.
#[expect(clippy::wildcard_enum_match_arm, reason = "others may change")]
fn is_constant_load(data: &InstData) -> bool {
    match data {
        InstData::Load {
            sem: MemSem::NonCoherent,
            ..
        } => true,
        InstData::Load {
            sem: MemSem::Weak,
            space,
            ..
        } => space.is_read_only(),
        _ => false,
    }
}

/// Whether the next instruction runs if this one does.
fn returns(data: &InstData) -> bool {
    if let InstData::Device { op, .. } = data {
        return op.returns();
    }
    match data.effect() {
        Effect::Pure | Effect::Read | Effect::Write => true,
        // A barrier may never be passed, but then no one sees that the load was made.
        Effect::Convergent => {
            !matches!(data, InstData::Call { .. } | InstData::CallIndirect { .. })
        }
    }
}

/// Appends instructions to the block before the loop, which is made if need be.
fn place(func: &mut Function, cfg: &Cfg, forest: &LoopForest, id: Loop, insts: Vec<Inst>) {
    let header = forest.loops[id].header;
    let outside: Vec<Block> = cfg.preds[header]
        .iter()
        .copied()
        .filter(|&pred| !forest.contains(id, pred))
        .collect();
    let before = match outside.as_slice() {
        &[only] if matches!(func.blocks[only].term, Terminator::Jump(_)) => only,
        _ => insert_before(func, header, &outside),
    };
    func.blocks[before].insts.extend(insts);
}

/// A new block on all the edges from `preds` to `header`.
fn insert_before(func: &mut Function, header: Block, preds: &[Block]) -> Block {
    let block = func.new_block();
    func.blocks[block].term_loc = func.blocks[header].term_loc;
    for idx in 0..func.blocks[header].params.len() {
        let ty = func.ty(func.blocks[header].params[idx]);
        func.add_param(block, ty);
    }
    let args = func.blocks[block].params.iter().copied().collect();
    func.blocks[block].term = Terminator::Jump(BlockCall {
        block: header,
        args,
    });
    for &pred in preds {
        for call in func.blocks[pred].term.targets_mut() {
            if call.block == header {
                call.block = block;
            }
        }
    }
    block
}
