//! Turns what stopped a CTA into an error that names the kernel, the CTA, the threads and the PTX
//! statement.

use ptxjit_abi::warp_ops::WARP;
use ptxjit_abi::{FaultKind, LaneState, Operand, ResumeKind, ResumePoint};
use ptxjit_ir::{BarrierOp, SrcLoc};

use super::barrier::{self, N_NAMED, WarpMasks};
use super::cluster::Cluster;
use super::cta::{Cta, Phase};
use super::lane_wise::{live_lanes, threads};
use super::{barrier_operands, point_number};
use crate::error::{Deadlock, LaunchError, Threads, Trap, TrapCause, WaitingGroup};
use crate::fault::{Signal, SignalKind};
use crate::grid::Grid;
use crate::worker;

/// Compiled code returned 1.
pub(crate) fn stopped(grid: &Grid, cta: &Cta) -> LaunchError {
    let ctx = cta.ctx();
    let kinds = [
        FaultKind::None,
        FaultKind::BadAddress,
        FaultKind::Trap,
        FaultKind::Unreachable,
        FaultKind::StackOverflow,
        FaultKind::BadCallTarget,
        FaultKind::Runtime,
        FaultKind::Cancelled,
    ];
    let kind = kinds
        .into_iter()
        .find(|&kind| kind as u32 == ctx.fault_kind)
        .unwrap_or(FaultKind::None);
    let cause = match kind {
        FaultKind::BadAddress => bad_address(grid, cta, Some(ctx.fault_addr)),
        FaultKind::Trap => TrapCause::Trap,
        FaultKind::Unreachable => TrapCause::Unreachable,
        FaultKind::StackOverflow => TrapCause::StackOverflow {
            limit: cta.local_limit(),
        },
        FaultKind::BadCallTarget => TrapCause::BadCallTarget,
        FaultKind::None | FaultKind::Runtime | FaultKind::Cancelled => return grid.stop_error(),
    };
    let threads = gang_threads(cta, ctx.fault_gang, ctx.fault_mask);
    trap(grid, cta, cause, threads, Some(SrcLoc(ctx.fault_loc)))
}

/// A signal ended an entry.
pub(crate) fn signal(grid: &Grid, cta: &Cta, signal: Signal) -> LaunchError {
    let cause = match signal.kind {
        SignalKind::Stop => return grid.stop_error(),
        SignalKind::Access => bad_address(grid, cta, signal.addr),
        SignalKind::NativeStack => TrapCause::HostStack {
            limit: worker::STACK_SIZE,
        },
        SignalKind::Illegal => TrapCause::Unreachable,
        SignalKind::Arithmetic => TrapCause::Arithmetic,
    };
    let gang = cta.ctx().current_gang;
    let lanes = match cta.ctx().current_lane {
        0 => cta.masks.slice()[gang as usize],
        lane => lane,
    };
    let threads = gang_threads(cta, gang, lanes);
    // Stubs have no locations of their own; they say whom they work for.
    let loc = grid
        .code
        .loc_of(signal.pc)
        .or(Some(SrcLoc(cta.ctx().fault_loc)));
    trap(grid, cta, cause, threads, loc)
}

/// One thread did something wrong.
pub(crate) fn of_thread(
    grid: &Grid,
    cta: &Cta,
    thread: u32,
    loc: SrcLoc,
    cause: TrapCause,
) -> LaunchError {
    let threads = named([thread].into_iter(), cta);
    trap(grid, cta, cause, threads, Some(loc))
}

fn trap(
    grid: &Grid,
    cta: &Cta,
    cause: TrapCause,
    threads: Threads,
    loc: Option<SrcLoc>,
) -> LaunchError {
    let (kernel, ctaid) = (grid.name.to_string(), cta.ctx().ctaid);
    LaunchError::Trap(Box::new(Trap {
        cause,
        kernel,
        ctaid,
        last_ctaid: ctaid,
        threads,
        loc,
    }))
}

fn bad_address(grid: &Grid, cta: &Cta, addr: Option<u64>) -> TrapCause {
    let describe = |addr| crate::view::describe(grid, cta.ctx(), addr);
    let note = addr.map_or_else(|| "no address of device memory".to_owned(), describe);
    TrapCause::BadAddress { addr, note }
}

fn gang_threads(cta: &Cta, gang: u32, mask: u32) -> Threads {
    let first = gang * cta.layout.gang;
    named(
        ptxjit_abi::warp_ops::lanes(mask).map(|lane| first + lane),
        cta,
    )
}

fn named(threads: impl Iterator<Item = u32> + Clone, cta: &Cta) -> Threads {
    let first = threads.clone().next().unwrap_or(0);
    let last = threads.clone().last().unwrap_or(0);
    Threads {
        first: cta.tid(first),
        last: cta.tid(last),
        count: threads.count() as u32,
    }
}

/// No lane can run and some have not ended.
pub(crate) fn deadlock(grid: &Grid, cta: &Cta) -> LaunchError {
    let mut groups: Vec<(String, SrcLoc, WarpMasks)> = Vec::new();
    for thread in threads(&cta.lanes.live) {
        let state = cta.lane_states.slice()[thread as usize];
        if state == LaneState::EXITED {
            continue;
        }
        let point = &grid.kernel.resume_points[point_number(state)];
        let what = waits_for(cta, thread, point);
        let bit = 1 << (thread % 32);
        match groups
            .iter_mut()
            .find(|(other, loc, _)| *other == what && *loc == point.loc)
        {
            Some((_, _, set)) => set[thread as usize / 32] |= bit,
            None => {
                let mut set = [0; 32];
                set[thread as usize / 32] = bit;
                groups.push((what, point.loc, set));
            }
        }
    }
    let n_live: u32 = cta.lanes.live.iter().map(|lanes| lanes.count_ones()).sum();
    let group = |(what, loc, set): (String, SrcLoc, WarpMasks)| {
        let waiting: Vec<u32> = threads(&set).collect();
        WaitingGroup {
            what,
            loc,
            threads: named(waiting.into_iter(), cta),
        }
    };
    LaunchError::Deadlock(Box::new(Deadlock {
        kernel: grid.name.to_string(),
        ctaid: cta.ctx().ctaid,
        groups: groups.into_iter().map(group).collect(),
        n_exited: cta.n_threads - n_live,
    }))
}

/// No thread of a cluster can run, and some wait for its barrier.
pub(crate) fn cluster_deadlock(grid: &Grid, cluster: &mut Cluster) -> LaunchError {
    let (arrived, all) = cluster.progress();
    let live = cluster.is_live.iter().position(|&is_live| is_live);
    let cta = &mut cluster.ctas[live.unwrap_or(0)];
    if let Phase::AtCluster(state) = cta.phase {
        let live = live_lanes(cta);
        for thread in threads(&live) {
            cta.lane_states.slice_mut()[thread as usize] = state as u16;
        }
        cta.lanes.live = live;
    }
    let mut error = deadlock(grid, cta);
    if let LaunchError::Deadlock(deadlock) = &mut error {
        for group in &mut deadlock.groups {
            if group.what.starts_with(CLUSTER_WAIT) {
                let progress = format!(" ({arrived} of {all} threads of the cluster have arrived)");
                group.what.push_str(&progress);
            }
        }
    }
    error
}

const CLUSTER_WAIT: &str = "`barrier.cluster.wait`";

fn waits_for(cta: &Cta, thread: u32, point: &ResumePoint) -> String {
    let read = |operand: Operand| cta.layout.read(cta.slots.slice(), thread, operand);
    match point.kind {
        ResumeKind::Ready | ResumeKind::StripMine | ResumeKind::Yield => {
            "a point that it may leave".into()
        }
        ResumeKind::Barrier { op, .. } if op.is_cluster() => CLUSTER_WAIT.into(),
        ResumeKind::Barrier {
            op: BarrierOp::Warpgroup,
            ..
        } => {
            let id = barrier::of_warpgroup(thread as usize / WARP);
            let live = barrier::live_at(id, cta.lanes.live);
            let (expected, here) = cta.lanes.barriers[id].progress(&live[..cta.lanes.n_warps]);
            format!("`wgmma.wait_group` ({here} of {expected} threads of the warpgroup have come)")
        }
        ResumeKind::Barrier { op, aligned } => {
            let id = read(barrier_operands(op, point).0) as usize % N_NAMED;
            let name = barrier_name(op, aligned);
            let (expected, here) =
                cta.lanes.barriers[id].progress(&cta.lanes.live[..cta.lanes.n_warps]);
            format!("`{name}` on barrier {id} ({here} of {expected} threads have arrived)")
        }
        ResumeKind::Warp { op, sync, .. } => match point.operands.last().filter(|_| sync) {
            Some(&members) => format!("`{op}` with member mask {:#010x}", read(members)),
            None => format!("`{op}`"),
        },
    }
}

fn barrier_name(op: BarrierOp, aligned: bool) -> String {
    format!("{}.{op}", if aligned { "bar" } else { "barrier" })
}
