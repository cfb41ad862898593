//! Which programs can be screened.

use ptxjit_ir::{
    AtomicFmt, BarrierOp, DeviceOp, Effect, Function, Inst, InstData, MarkOp, Program, Scope,
    Space, SpecialReg, WarpOp,
};
use rustc_hash::FxHashSet;

use super::{locals, uniform};
use crate::analysis::progress;

/// What the launch is screened for.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct Wanted {
    /// Exact bounds, which compiled code knows of all but local variables.
    pub mem: bool,
    /// Races.
    pub race: bool,
    /// Uses of what was never written.
    pub init: bool,
    /// Misuse of barriers and warp operations: found out before the launch, or not admitted.
    pub sync: bool,
}

impl Wanted {
    /// Whether local memory is checked.
    pub(super) fn locals(self) -> bool {
        self.mem || self.init
    }

    /// Whether lanes must meet as a whole at each warp operation: lanes that are missing give
    /// values that were never written.
    fn whole_warps(self) -> bool {
        self.sync || self.init
    }
}

/// Whether a program can be screened, by its forms with marks and optimized; otherwise what stands
/// in the way.
pub fn admits(marked: &Program, optimized: &Program, wanted: Wanted) -> Result<(), &'static str> {
    if marked.lockstep {
        return Err("its warps run in lockstep");
    }
    for func in marked.functions.values() {
        each_inst(func, |inst| admits_marked(inst, wanted))?;
        // Compiled code would wait for ever in a deadlock, and the interpreter finds it.
        if wanted.sync && progress::waits_for_others(func) {
            return Err("its threads wait for each other in loops");
        }
    }
    let func = &optimized.functions[&optimized.entry];
    if optimized.functions.len() > 1 {
        return Err("it calls functions");
    }
    if wanted.locals() {
        locals::follow(func)?;
    }
    let mut atomics = None;
    each_inst(func, |inst| admits_inst(inst, &mut atomics))?;
    match wanted.whole_warps() {
        true => each_inst(func, |inst| admits_mask(func, inst)),
        false => Ok(()),
    }
}

/// Barriers and warp operations that threads of a CTA, or lanes of a warp, must reach together,
/// where they may have diverged.
pub(super) fn unsure(func: &Function, wanted: Wanted) -> FxHashSet<Inst> {
    uniform::divergent(func, |inst| {
        (wanted.sync && matches!(inst, InstData::Barrier { .. }))
            || (wanted.whole_warps() && matches!(inst, InstData::Warp { .. }))
    })
}

/// Whether an instruction separates intervals of a CTA.
pub(super) fn is_barrier(inst: &InstData) -> bool {
    matches!(inst, InstData::Barrier { op, .. } if *op != BarrierOp::Warpgroup)
}

/// Whether the launch must have whole warps.
pub(super) fn needs_whole_warps(func: &Function, wanted: Wanted) -> bool {
    let is_warp = |inst: &InstData| matches!(inst, InstData::Warp { .. });
    wanted.whole_warps()
        && each_inst(func, |inst| if is_warp(inst) { Err("") } else { Ok(()) }).is_err()
}

fn each_inst(
    func: &Function,
    mut check: impl FnMut(&InstData) -> Result<(), &'static str>,
) -> Result<(), &'static str> {
    let blocks = func.blocks.values();
    blocks
        .flat_map(|block| &block.insts)
        .try_for_each(|&inst| check(&func.insts[inst].data))
}

/// Marks tell of operations that are lowered to accesses of another kind.
fn admits_marked(inst: &InstData, wanted: Wanted) -> Result<(), &'static str> {
    let InstData::Device { op, .. } = inst else {
        return Ok(());
    };
    if let DeviceOp::Mark(MarkOp::Undefined(_)) = op {
        return match wanted.init {
            true => Err("it reads registers that were never written"),
            false => Ok(()),
        };
    }
    let is_plain = matches!(
        op,
        DeviceOp::AlignedRow
            | DeviceOp::Mark(
                MarkOp::UsedBytes(_)
                    | MarkOp::Reduction
                    | MarkOp::ProductBegin
                    | MarkOp::ProductEnd
                    | MarkOp::AsyncBegin
                    | MarkOp::AsyncEnd
                    | MarkOp::CommitGroup
                    | MarkOp::WaitGroup(_)
                    | MarkOp::WaitAll
            )
    );
    match is_plain || op.effect() == Effect::Pure {
        true => Ok(()),
        false => Err("it has an operation of the device or of the asynchronous proxy"),
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "all else is arithmetic, or was looked at with its marks"
)]
fn admits_inst(inst: &InstData, atomics: &mut Option<AtomicFmt>) -> Result<(), &'static str> {
    match inst {
        InstData::Call { .. } | InstData::CallIndirect { .. } => Err("it calls functions"),
        InstData::Alloca { .. } => Err("it allocates local memory"),
        InstData::Sreg {
            sreg: SpecialReg::SmId | SpecialReg::NsmId,
        } => Err("it asks for the multiprocessor"),
        InstData::Barrier {
            op: BarrierOp::Warpgroup,
            ..
        } => Ok(()),
        InstData::Barrier { op, count, .. } => match (op, count) {
            (BarrierOp::Sync | BarrierOp::RedPopc | BarrierOp::RedAnd | BarrierOp::RedOr, None) => {
                Ok(())
            }
            _ => Err("it has a barrier of some threads"),
        },
        InstData::Load { space, .. } | InstData::Store { space, .. }
            if *space == Space::SharedCluster =>
        {
            Err("it accesses the shared memory of a cluster")
        }
        InstData::Atomic {
            fmt, space, scope, ..
        } => {
            let size = |fmt: AtomicFmt| fmt.ty().bytes();
            if atomics.is_some_and(|other| size(other) != size(*fmt)) {
                return Err("it has atomic operations of several sizes");
            }
            *atomics = Some(*fmt);
            match (space, scope) {
                (Space::Shared, _) | (Space::Global | Space::Generic, Scope::Gpu | Scope::Sys) => {
                    Ok(())
                }
                _ => Err("it has atomic operations of a narrow scope"),
            }
        }
        _ => Ok(()),
    }
}

/// Only warp operations of all lanes are admitted.
fn admits_mask(func: &Function, inst: &InstData) -> Result<(), &'static str> {
    let InstData::Warp { op, sync, args, .. } = inst else {
        return Ok(());
    };
    let is_whole = |mask| func.as_const(mask) == Some(0xffff_ffff);
    match *sync && *op != WarpOp::ActiveMask && !args.last().copied().is_some_and(is_whole) {
        true => Err("it has warp operations of some lanes"),
        false => Ok(()),
    }
}
