//! Barriers, fences and operations among the lanes of a warp. PTX ISA, "Parallel Synchronization
//! and Communication Instructions" and `shfl` of "Data Movement and Conversion Instructions".

use ptxjit_ir::{
    BarrierOp, FloatFmt, FloatMode, FloatUnaryOp, InstData, MarkOp, MemSem, Scope, Type, Value,
    WarpOp,
};
use smallvec::SmallVec;

use crate::diag::Diagnostic;
use crate::translate::{Inst, Translator};

use super::desc::{A, ADDR, D, DP, Gate, InstDesc, Opd, PRED, imm, inst, since};
use super::memory::scope_of;
use super::modifiers::Mod;
use super::types::PtxType as T;

const CTA: &[Mod] = &[Mod::Cta];
const ALIGNED: &[Mod] = &[Mod::Aligned];
const ID: Opd = A.is(T::U32);
const MASK: Opd = A.is(T::U32);
const LANE: Opd = A.is(T::B32);
const BARRIER: &[Gate] = &[since(6, 0, 30), since(7, 8, 30).mods(CTA)];
const BAR: &[Gate] = &[since(7, 8, 30).mods(CTA)];
const SHFL: &[&[Mod]] = &[&[Mod::Up, Mod::Down, Mod::Bfly, Mod::Idx]];
const VOTE: &[&[Mod]] = &[&[Mod::All, Mod::Any, Mod::Uni]];
const LEVEL: &[&[Mod]] = &[&[Mod::Cta, Mod::Cluster, Mod::Gpu, Mod::Sys]];

pub const TABLE: &[InstDesc] = &[
    inst("barrier", &[ID, ID.opt()], barrier)
        .with(&[Mod::Sync])
        .optional(&[CTA, ALIGNED])
        .lead(CTA)
        .gates(BARRIER)
        .check(check_barrier)
        .effect(),
    inst("barrier", &[ID, ID], barrier)
        .with(&[Mod::Arrive])
        .optional(&[CTA, ALIGNED])
        .lead(CTA)
        .gates(BARRIER)
        .check(check_barrier)
        .effect(),
    barrier_red("barrier", &[D.nth(0), ID, PRED], &[CTA, ALIGNED], BARRIER)
        .choose(&[&[Mod::Popc]])
        .types(&[&[T::U32]]),
    barrier_red(
        "barrier",
        &[D.nth(0), ID, ID, PRED],
        &[CTA, ALIGNED],
        BARRIER,
    )
    .choose(&[&[Mod::Popc]])
    .types(&[&[T::U32]]),
    barrier_red("barrier", &[DP, ID, PRED], &[CTA, ALIGNED], BARRIER)
        .choose(&[&[Mod::And, Mod::Or]])
        .types(&[&[T::Pred]]),
    barrier_red("barrier", &[DP, ID, ID, PRED], &[CTA, ALIGNED], BARRIER)
        .choose(&[&[Mod::And, Mod::Or]])
        .types(&[&[T::Pred]]),
    inst("bar", &[ID, ID.opt()], barrier)
        .with(&[Mod::Sync])
        .optional(&[CTA])
        .lead(CTA)
        .gates(BAR)
        .check(check_barrier)
        .effect(),
    inst("bar", &[ID, ID], barrier)
        .with(&[Mod::Arrive])
        .optional(&[CTA])
        .lead(CTA)
        .gates(&[since(2, 0, 20), since(7, 8, 30).mods(CTA)])
        .check(check_barrier)
        .effect(),
    barrier_red("bar", &[D.nth(0), ID, PRED], &[CTA], BAR)
        .choose(&[&[Mod::Popc]])
        .types(&[&[T::U32]]),
    barrier_red("bar", &[D.nth(0), ID, ID, PRED], &[CTA], BAR)
        .choose(&[&[Mod::Popc]])
        .types(&[&[T::U32]]),
    barrier_red("bar", &[DP, ID, PRED], &[CTA], BAR)
        .choose(&[&[Mod::And, Mod::Or]])
        .types(&[&[T::Pred]]),
    barrier_red("bar", &[DP, ID, ID, PRED], &[CTA], BAR)
        .choose(&[&[Mod::And, Mod::Or]])
        .types(&[&[T::Pred]]),
    inst("bar", &[MASK], bar_warp_sync)
        .with(&[Mod::Warp, Mod::Sync])
        .lead(&[Mod::Warp])
        .gates(&[since(6, 0, 30)])
        .effect(),
    inst("barrier", &[], cluster_barrier)
        .with(&[Mod::Cluster, Mod::Arrive])
        .lead(&[Mod::Cluster])
        .effect()
        .optional(&[&[Mod::Release, Mod::Relaxed], ALIGNED])
        .gates(&[
            since(7, 8, 90),
            since(8, 0, 90).mods(&[Mod::Release, Mod::Relaxed]),
        ]),
    inst("barrier", &[], cluster_barrier)
        .with(&[Mod::Cluster, Mod::Wait])
        .lead(&[Mod::Cluster])
        .effect()
        .optional(&[&[Mod::Acquire], ALIGNED])
        .gates(&[since(7, 8, 90), since(8, 0, 90).mods(&[Mod::Acquire])]),
    // Fences.
    inst("fence", &[], fence)
        .choose(LEVEL)
        .optional(&[&[Mod::Sc, Mod::AcqRel, Mod::Acquire, Mod::Release]])
        .gates(&[
            since(6, 0, 70),
            since(7, 8, 90).mods(&[Mod::Cluster]),
            since(8, 6, 90).mods(&[Mod::Acquire, Mod::Release]),
        ])
        .effect(),
    inst("fence", &[], fence)
        .with(&[Mod::Acquire, Mod::SyncRestrictSharedCluster, Mod::Cluster])
        .gates(&[since(8, 6, 90)])
        .effect(),
    inst("fence", &[], fence)
        .with(&[Mod::Release, Mod::SyncRestrictSharedCta, Mod::Cluster])
        .gates(&[since(8, 6, 90)])
        .effect(),
    inst("fence", &[], fence)
        .with(&[Mod::MbarrierInit, Mod::Release, Mod::Cluster])
        .gates(&[since(8, 0, 90)])
        .effect(),
    inst("fence", &[], fence)
        .with(&[Mod::Proxy])
        .choose(&[&[Mod::Alias, Mod::Async]])
        .gates(&[since(7, 5, 70), since(8, 0, 90).mods(&[Mod::Async])])
        .effect(),
    inst("fence", &[], fence)
        .with(&[Mod::Proxy, Mod::Async])
        .choose(&[&[Mod::Global, Mod::SharedCta, Mod::SharedCluster]])
        .gates(&[since(8, 0, 90)])
        .effect(),
    inst("fence", &[], fence)
        .with(&[Mod::Proxy, Mod::TensormapGeneric, Mod::Release])
        .choose(LEVEL)
        .gates(&[since(8, 3, 90)])
        .effect(),
    inst("fence", &[ADDR, imm(128, 128)], fence)
        .with(&[Mod::Proxy, Mod::TensormapGeneric, Mod::Acquire])
        .choose(LEVEL)
        .gates(&[since(8, 3, 90)])
        .effect(),
    inst("fence", &[], fence)
        .with(&[
            Mod::Proxy,
            Mod::AsyncGeneric,
            Mod::Acquire,
            Mod::SyncRestrictSharedCluster,
            Mod::Cluster,
        ])
        .gates(&[since(8, 6, 90)])
        .effect(),
    inst("fence", &[], fence)
        .with(&[
            Mod::Proxy,
            Mod::AsyncGeneric,
            Mod::Release,
            Mod::SyncRestrictSharedCta,
            Mod::Cluster,
        ])
        .gates(&[since(8, 6, 90)])
        .effect(),
    inst("membar", &[], membar)
        .choose(&[&[Mod::Cta, Mod::Gl, Mod::Sys]])
        .gates(&[since(1, 4, 0), since(2, 0, 20).mods(&[Mod::Sys])])
        .effect(),
    inst("membar", &[], fence)
        .with(&[Mod::Proxy])
        .choose(&[&[Mod::Alias, Mod::Async]])
        .gates(&[since(7, 5, 60), since(8, 0, 90).mods(&[Mod::Async])])
        .effect(),
    // Among the lanes of a warp.
    inst("shfl", &[D.pair(), A, LANE, LANE, MASK], shfl)
        .with(&[Mod::Sync])
        .choose(SHFL)
        .types(&[&[T::B32]])
        .gates(&[since(6, 0, 30)])
        .effect(),
    inst("shfl", &[D.pair(), A, LANE, LANE], shfl)
        .choose(SHFL)
        .types(&[&[T::B32]])
        .gates(&[since(3, 0, 30)])
        .check(check_no_sync)
        .effect(),
    inst("vote", &[DP, PRED, MASK], vote)
        .with(&[Mod::Sync])
        .choose(VOTE)
        .types(&[&[T::Pred]])
        .gates(&[since(6, 0, 30)])
        .effect(),
    inst("vote", &[D, PRED, MASK], vote)
        .with(&[Mod::Sync, Mod::Ballot])
        .types(&[&[T::B32]])
        .gates(&[since(6, 0, 30)])
        .effect(),
    inst("vote", &[DP, PRED], vote)
        .choose(VOTE)
        .types(&[&[T::Pred]])
        .gates(&[since(1, 2, 0)])
        .check(check_no_sync)
        .effect(),
    inst("vote", &[D, PRED], vote)
        .with(&[Mod::Ballot])
        .types(&[&[T::B32]])
        .gates(&[since(2, 0, 20)])
        .check(check_no_sync)
        .effect(),
    inst("match", &[D.is(T::B32), A, MASK], match_)
        .with(&[Mod::Any, Mod::Sync])
        .types(&[&[T::B32, T::B64]])
        .gates(&[since(6, 0, 70)])
        .effect(),
    inst("match", &[D.is(T::B32).pair().sink(), A, MASK], match_)
        .with(&[Mod::All, Mod::Sync])
        .types(&[&[T::B32, T::B64]])
        .gates(&[since(6, 0, 70)])
        .effect(),
    inst("activemask", &[D], activemask)
        .types(&[&[T::B32]])
        .gates(&[since(6, 2, 30)])
        .effect(),
    inst("redux", &[D, A, MASK], redux)
        .with(&[Mod::Sync])
        .choose(&[&[Mod::Add, Mod::Min, Mod::Max]])
        .types(&[&[T::U32, T::S32]])
        .gates(&[since(7, 0, 80)])
        .effect(),
    inst("redux", &[D, A, MASK], redux)
        .with(&[Mod::Sync])
        .choose(&[&[Mod::And, Mod::Or, Mod::Xor]])
        .types(&[&[T::B32]])
        .gates(&[since(7, 0, 80)])
        .effect(),
    inst("redux", &[D, A, MASK], redux)
        .with(&[Mod::Sync])
        .choose(&[&[Mod::Min, Mod::Max]])
        .types(&[&[T::F32]])
        .optional(&[&[Mod::Abs], &[Mod::NaN]])
        .gates(&[since(8, 6, 100).only(&["100a", "100f", "103a"])])
        .effect(),
    inst("elect", &[D.is(T::B32).always_pair().sink(), MASK], elect)
        .with(&[Mod::Sync])
        .gates(&[since(8, 0, 90)])
        .effect(),
];

const fn barrier_red(
    opcode: &'static str,
    operands: &'static [Opd],
    options: &'static [&'static [Mod]],
    gates: &'static [Gate],
) -> InstDesc {
    inst(opcode, operands, barrier_reduce)
        .with(&[Mod::Red])
        .optional(options)
        .lead(CTA)
        .gates(gates)
        .check(check_barrier)
        .effect()
}

/// Barrier numbers are 0 to 15, thread counts multiples of the warp size, where they are constants.
fn check_barrier<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let first = usize::from(inst.has(Mod::Red));
    let has_count = inst.n_operands() == first + 2 + first;
    if is_const(inst, first) {
        // Of constants only the low 32 bits count.
        let id = t.src_const(inst, first)? & 0xffff_ffff;
        if !(0..16).contains(&id) {
            return Err(inst.operand_error(
                first,
                format!("barrier {id} does not exist: there are 0 to 15"),
            ));
        }
    }
    if has_count && is_const(inst, first + 1) {
        let count = t.src_const(inst, first + 1)?;
        if count < 0 || count % 32 != 0 || count == 0 && inst.has(Mod::Arrive) {
            return Err(inst.operand_error(
                first + 1,
                format!("a thread count must be a multiple of 32, not {count}"),
            ));
        }
    }
    Ok(())
}

fn is_const(inst: &Inst<'_>, n: usize) -> bool {
    matches!(
        inst.operand(n).map(|operand| &operand.kind),
        Some(crate::ast::OperandKind::Constant(_))
    )
}

fn is_aligned(inst: &Inst<'_>) -> bool {
    inst.desc.opcode == "bar" || inst.has(Mod::Aligned)
}

fn barrier<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let op = if inst.has(Mod::Arrive) {
        BarrierOp::Arrive
    } else {
        BarrierOp::Sync
    };
    let id = t.src(inst, 0)?;
    let count = t.src_opt(inst, 1)?;
    t.ins_void(InstData::Barrier {
        op,
        aligned: is_aligned(inst),
        id,
        count,
        pred: None,
    });
    Ok(())
}

/// The barrier of the cluster. Its threads run on one thread of the host, so that they see each
/// other's accesses in order, whatever `.relaxed` allows.
fn cluster_barrier<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let op = if inst.has(Mod::Arrive) {
        BarrierOp::ClusterArrive
    } else {
        BarrierOp::ClusterWait
    };
    if inst.has(Mod::Relaxed) {
        t.mark(MarkOp::RelaxedArrival, &[]);
    }
    let id = t.iconst(Type::B32, 0);
    t.ins_void(InstData::Barrier {
        op,
        aligned: is_aligned(inst),
        id,
        count: None,
        pred: None,
    });
    Ok(())
}

fn barrier_reduce<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let (op, ty) = match inst.pick(&[Mod::Popc, Mod::And, Mod::Or]) {
        Some(Mod::And) => (BarrierOp::RedAnd, Type::B1),
        Some(Mod::Or) => (BarrierOp::RedOr, Type::B1),
        _ => (BarrierOp::RedPopc, Type::B32),
    };
    let last = inst.n_operands() - 1;
    let id = t.src(inst, 1)?;
    let count = if last == 3 {
        Some(t.src(inst, 2)?)
    } else {
        None
    };
    let pred = Some(t.src(inst, last)?);
    let result = t.ins(
        InstData::Barrier {
            op,
            aligned: is_aligned(inst),
            id,
            count,
            pred,
        },
        ty,
    );
    t.dst(inst, 0, result)
}

/// Without `.sync`, these exist only below `sm_70` or before PTX 6.4.
fn check_no_sync<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    if t.version().at_least(6, 4) && t.arch().number >= 70 {
        let message = format!(
            "`{}` without `.sync` does not exist on sm_70 and higher from PTX 6.4 on",
            inst.desc.opcode
        );
        return Err(inst.error(message));
    }
    Ok(())
}

/// Emits a warp operation whose member mask, if it has one, is the last operand.
fn warp<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    op: WarpOp,
    args: &[Value],
    results: &[Type],
) -> Result<SmallVec<[Value; 2]>, Diagnostic> {
    let sync = inst.has(Mod::Sync);
    let ty = args.first().map_or(Type::B32, |&arg| t.value_ty(arg));
    let mut args: SmallVec<[Value; 4]> = SmallVec::from_slice(args);
    if sync {
        args.push(t.src(inst, inst.n_operands() - 1)?);
    } else {
        t.want_lockstep();
    }
    Ok(t.ins_multi(InstData::Warp { op, sync, ty, args }, results))
}

fn bar_warp_sync<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    warp(t, inst, WarpOp::Sync, &[], &[]).map(|_| ())
}

fn shfl<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let op = match inst.pick(SHFL[0]) {
        Some(Mod::Up) => WarpOp::ShflUp,
        Some(Mod::Down) => WarpOp::ShflDown,
        Some(Mod::Bfly) => WarpOp::ShflBfly,
        _ => WarpOp::ShflIdx,
    };
    let args = [t.src(inst, 1)?, t.src(inst, 2)?, t.src(inst, 3)?];
    let results = warp(t, inst, op, &args, &[Type::B32, Type::B1])?;
    t.dst_pair(inst, 0, results[0], results[1])
}

fn vote<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let (op, ty) = match inst.pick(&[Mod::All, Mod::Any, Mod::Uni]) {
        Some(Mod::All) => (WarpOp::VoteAll, Type::B1),
        Some(Mod::Any) => (WarpOp::VoteAny, Type::B1),
        Some(_) => (WarpOp::VoteUni, Type::B1),
        None => (WarpOp::Ballot, Type::B32),
    };
    let pred = t.src(inst, 1)?;
    let results = warp(t, inst, op, &[pred], &[ty])?;
    t.dst(inst, 0, results[0])
}

fn match_<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let arg = t.src(inst, 1)?;
    if inst.has(Mod::Any) {
        let results = warp(t, inst, WarpOp::MatchAny, &[arg], &[Type::B32])?;
        return t.dst(inst, 0, results[0]);
    }
    let results = warp(t, inst, WarpOp::MatchAll, &[arg], &[Type::B32, Type::B1])?;
    t.dst_pair(inst, 0, results[0], results[1])
}

fn activemask<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let data = InstData::Warp {
        op: WarpOp::ActiveMask,
        sync: false,
        ty: Type::B32,
        args: SmallVec::new(),
    };
    let mask = t.ins(data, Type::B32);
    t.dst(inst, 0, mask)
}

fn redux<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let mut arg = t.src(inst, 1)?;
    if inst.has(Mod::Abs) {
        arg = t.float_unary(FloatUnaryOp::Abs, FloatFmt::F32, FloatMode::RN, arg);
    }
    let op = redux_op(inst);
    let results = warp(t, inst, op, &[arg], &[Type::B32])?;
    t.dst(inst, 0, results[0])
}

fn redux_op(inst: &Inst<'_>) -> WarpOp {
    let is_min = inst.has(Mod::Min);
    match (
        inst.pick(&[Mod::Add, Mod::And, Mod::Or, Mod::Xor]),
        inst.ty(0),
    ) {
        (Some(Mod::Add), _) => WarpOp::ReduxAdd,
        (Some(Mod::And), _) => WarpOp::ReduxAnd,
        (Some(Mod::Or), _) => WarpOp::ReduxOr,
        (Some(_), _) => WarpOp::ReduxXor,
        (None, T::F32) => match (is_min, inst.has(Mod::NaN)) {
            (true, false) => WarpOp::ReduxFmin,
            (true, true) => WarpOp::ReduxFminNan,
            (false, false) => WarpOp::ReduxFmax,
            (false, true) => WarpOp::ReduxFmaxNan,
        },
        (None, T::S32) => {
            if is_min {
                WarpOp::ReduxSmin
            } else {
                WarpOp::ReduxSmax
            }
        }
        (None, _) => {
            if is_min {
                WarpOp::ReduxUmin
            } else {
                WarpOp::ReduxUmax
            }
        }
    }
}

fn elect<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let results = warp(t, inst, WarpOp::Elect, &[], &[Type::B32, Type::B1])?;
    t.dst_pair(inst, 0, results[0], results[1])
}

/// Copies between proxies are done at once and through coherent memory here, so a proxy fence is an
/// ordinary one.
fn fence<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let sem = match inst.pick(&[Mod::Sc, Mod::AcqRel, Mod::Acquire, Mod::Release]) {
        Some(Mod::Sc) => MemSem::Sc,
        Some(Mod::Acquire) => MemSem::Acquire,
        Some(Mod::Release) => MemSem::Release,
        _ => MemSem::AcqRel,
    };
    if inst.has(Mod::Proxy) && inst.has(Mod::Async) {
        t.mark(MarkOp::ProxyFence, &[]);
    }
    let scope = scope_of(inst).unwrap_or(Scope::Cta);
    t.ins_void(InstData::Fence { sem, scope });
    Ok(())
}

/// `membar` is `fence.sc`.
fn membar<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let scope = match inst.pick(&[Mod::Cta, Mod::Gl, Mod::Sys]) {
        Some(Mod::Cta) => Scope::Cta,
        Some(Mod::Gl) => Scope::Gpu,
        _ => Scope::Sys,
    };
    t.ins_void(InstData::Fence {
        sem: MemSem::Sc,
        scope,
    });
    Ok(())
}
