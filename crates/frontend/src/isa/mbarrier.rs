//! `mbarrier`. PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier".
//! Barriers of other CTAs of a cluster lie in the window of shared memory like the CTA's own.
//!
//! A barrier is one word, whose fields change by additions alone:
//!
//! ```text
//!   bit 63        the parity of the phase
//!   bits 42..62   arrivals that a phase takes
//!   bits 20..42   bytes that are still to come, below zero if some came before they were expected
//!   bits 0..20    arrivals that are still to come
//! ```
//!
//! The operation that brings both counts to zero adds what begins the next phase. Meanwhile the
//! phase counts as incomplete.

use ptxjit_ir::{
    AsyncOp, AtomicFmt, AtomicOp, CompareOp, DeviceOp, InstData, IntBinaryOp, IntUnaryOp, MarkOp,
    MemSem, Scope, Space, Type, Value,
};
use smallvec::smallvec;

use crate::ast::OperandKind;
use crate::diag::Diagnostic;
use crate::translate::{Inst, Translator};

use super::bulk_copy::Place;
use super::desc::{A, ADDR, ANY, D, DP, Gate, Handler, InstDesc, Opd, inst, since};
use super::late;
use super::memory::space_of;
use super::misc::mark;
use super::modifiers::Mod;
use super::types::PtxType as T;

const TYPE: &[&[T]] = &[&[T::B64]];
const OWN: &[Mod] = &[Mod::Shared, Mod::SharedCta];
const SCOPE: &[Mod] = &[Mod::Cta, Mod::Cluster];
const ARRIVE_SEM: &[Mod] = &[Mod::Release, Mod::Relaxed];
const WAIT_SEM: &[Mod] = &[Mod::Acquire, Mod::Relaxed];
const COUNT: Opd = A.is(T::U32);
const STATE: Opd = D.sink();

const OLD: &[Gate] = &[
    since(7, 0, 80),
    since(7, 8, 80).mods(&[Mod::SharedCta]),
    since(8, 0, 90).mods(&[Mod::Cluster, Mod::SharedCluster]),
    since(8, 6, 90).mods(&[Mod::Relaxed]),
];
const TX: &[Gate] = &[since(8, 0, 90)];
const REMOTE: &[Gate] = &[since(8, 0, 90), since(8, 6, 90).mods(&[Mod::Relaxed])];
const WAIT: &[Gate] = &[
    since(7, 0, 80),
    since(7, 1, 80).mods(&[Mod::Parity]),
    since(7, 8, 90).mods(&[Mod::TryWait]),
    since(7, 8, 80).mods(&[Mod::SharedCta]),
    since(8, 0, 90).mods(&[Mod::Cluster]),
    since(8, 6, 90).mods(&[Mod::Relaxed]),
];

const fn mbarrier(operands: &'static [Opd], handler: Handler) -> InstDesc {
    inst("mbarrier", operands, handler)
        .types(TYPE)
        .check(check_scope)
        .effect()
}

/// On the barrier of another CTA.
const fn remote(operands: &'static [Opd]) -> InstDesc {
    inst("mbarrier", operands, arrive)
        .types(TYPE)
        .effect()
        .with(&[Mod::SharedCluster])
        .choose(ARRIVE)
        .optional(&[ARRIVE_SEM, SCOPE])
        .gates(REMOTE)
        .check(check_remote)
}

const ARRIVE: &[&[Mod]] = &[&[Mod::Arrive, Mod::ArriveDrop]];
const TX_OPTIONS: &[&[Mod]] = &[
    &[Mod::Relaxed],
    SCOPE,
    &[Mod::Shared, Mod::SharedCta, Mod::SharedCluster],
];

pub const TABLE: &[InstDesc] = &[
    mbarrier(&[ADDR, COUNT], init)
        .with(&[Mod::Init])
        .optional(&[OWN])
        .gates(OLD)
        .check(check_init),
    mbarrier(&[ADDR], inval)
        .with(&[Mod::Inval])
        .optional(&[OWN])
        .gates(OLD),
    mbarrier(&[ADDR, COUNT], change_bytes)
        .choose(&[&[Mod::ExpectTx, Mod::CompleteTx]])
        .optional(TX_OPTIONS)
        .gates(TX),
    mbarrier(&[STATE, ADDR, COUNT.opt()], arrive)
        .choose(ARRIVE)
        .optional(&[ARRIVE_SEM, SCOPE, OWN])
        .gates(OLD)
        .check(check_count),
    remote(&[ANY, ADDR, COUNT.opt()]),
    mbarrier(&[STATE, ADDR, COUNT], arrive)
        .with(&[Mod::ExpectTx])
        .choose(ARRIVE)
        .optional(&[ARRIVE_SEM, SCOPE, OWN])
        .gates(REMOTE),
    remote(&[ANY, ADDR, COUNT]).with(&[Mod::ExpectTx, Mod::SharedCluster]),
    mbarrier(&[STATE, ADDR, COUNT], arrive)
        .with(&[Mod::NoComplete])
        .choose(ARRIVE)
        .optional(&[&[Mod::Release], &[Mod::Cta], OWN])
        .gates(OLD),
    mbarrier(&[DP, ADDR, A], wait)
        .with(&[Mod::TestWait])
        .optional(&[WAIT_SEM, SCOPE, OWN])
        .gates(WAIT),
    mbarrier(&[DP, ADDR, COUNT], wait)
        .with(&[Mod::TestWait, Mod::Parity])
        .optional(&[WAIT_SEM, SCOPE, OWN])
        .gates(WAIT),
    mbarrier(&[DP, ADDR, A, COUNT.opt()], wait)
        .with(&[Mod::TryWait])
        .optional(&[WAIT_SEM, SCOPE, OWN])
        .gates(WAIT),
    mbarrier(&[DP, ADDR, COUNT, COUNT.opt()], wait)
        .with(&[Mod::TryWait, Mod::Parity])
        .optional(&[WAIT_SEM, SCOPE, OWN])
        .gates(WAIT),
    mbarrier(&[D.is(T::U32), A], pending_count)
        .with(&[Mod::PendingCount])
        .gates(&[since(7, 0, 80)]),
    inst("cp", &[ADDR], arrive_when_copied)
        .with(&[Mod::Async, Mod::Mbarrier, Mod::Arrive])
        .types(TYPE)
        .optional(&[&[Mod::Noinc], OWN])
        .gates(&[since(7, 0, 80), since(7, 8, 80).mods(&[Mod::SharedCta])])
        .effect(),
];

/// A constant count must be one that a barrier can have.
fn check_init<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    match inst.operand(1).map(|operand| &operand.kind) {
        Some(OperandKind::Constant(_)) => {
            let count = t.src_const(inst, 1)?;
            if (1..1 << 20).contains(&count) {
                return Ok(());
            }
            Err(inst.operand_error(
                1,
                format!(
                    "{count} is out of range: a barrier counts 1 to {}",
                    (1 << 20) - 1
                ),
            ))
        }
        _ => Ok(()),
    }
}

/// How an operation is ordered is written together with its scope.
fn check_scope<'m>(_: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    match inst.pick(&[Mod::Acquire, Mod::Release, Mod::Relaxed]) {
        Some(m) if inst.pick(SCOPE).is_none() => Err(inst.error(format!(
            "`.{}` on `mbarrier` needs a scope: `.cta` or `.cluster`",
            m.name()
        ))),
        None if inst.pick(SCOPE).is_some() => Err(inst.error(
            "a scope on `mbarrier` needs an ordering: `.acquire`, `.release` or `.relaxed`",
        )),
        Some(_) | None => Ok(()),
    }
}

/// Without `.noComplete`, a count needs `sm_90`; `_` as state needs PTX 7.1.
fn check_count<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    check_scope(t, inst)?;
    if inst.n_operands() == 3 {
        super::target::require(t, inst, &since(7, 8, 90), "a count on `mbarrier.arrive`")?;
    }
    if matches!(
        inst.operand(0).map(|operand| &operand.kind),
        Some(OperandKind::Sink)
    ) {
        super::target::require(t, inst, &since(7, 1, 80), "`_` as state")?;
    }
    Ok(())
}

/// The state of a barrier in another CTA cannot be had.
fn check_remote<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    check_scope(t, inst)?;
    match inst.operand(0).map(|operand| &operand.kind) {
        Some(OperandKind::Sink) => Ok(()),
        _ => Err(inst.operand_error(
            0,
            "the state of a remote barrier cannot be had: `_` must stand here",
        )),
    }
}

/// Where the field of bytes begins.
const BYTES: u32 = 20;
/// Where the field of arrivals of a phase begins.
const ARRIVALS: u32 = 42;
/// Where the parity of the phase is.
const PHASE: u32 = 63;

/// A barrier in memory.
#[derive(Copy, Clone)]
pub(super) struct Barrier {
    space: Space,
    addr: Value,
    offset: i32,
}

/// The barrier at operand `n`.
pub(super) fn barrier<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    n: usize,
) -> Result<Barrier, Diagnostic> {
    let Some(operand) = inst.operand(n) else {
        return Err(inst.error(format!("`{}` lacks an address", inst.name)));
    };
    let addr = t.resolve_address(operand)?;
    let space = match inst.pick(&[Mod::Shared, Mod::SharedCta, Mod::SharedCluster]) {
        // Without clusters, the CTA's own window is the cluster's.
        Some(_) => Space::Shared,
        None => space_of(t, inst, &addr)?,
    };
    let (addr, offset) = t.emit_address(&addr)?;
    Ok(Barrier {
        space,
        addr,
        offset,
    })
}

impl Barrier {
    pub(super) fn place(self) -> Place {
        (self.space, self.addr, self.offset)
    }

    fn add(self, t: &mut Translator<'_>, delta: Value) -> Value {
        let data = InstData::Atomic {
            op: AtomicOp::Add,
            fmt: AtomicFmt::U64,
            space: self.space,
            sem: MemSem::AcqRel,
            scope: Scope::Cta,
            addr: self.addr,
            offset: self.offset,
            args: smallvec![delta],
        };
        t.ins(data, Type::B64)
    }

    /// Adds `delta` and begins the next phase if nothing is left to come in this one. Returns what
    /// the barrier was before.
    fn change(self, t: &mut Translator<'_>, delta: Value) -> Result<Value, Diagnostic> {
        let old = self.add(t, delta);
        let new = t.binary(IntBinaryOp::Add, old, delta);
        let mask = t.iconst(Type::B64, (1 << ARRIVALS) - 1);
        let left = t.binary(IntBinaryOp::And, new, mask);
        let zero = t.iconst(Type::B64, 0);
        let is_complete = t.compare(CompareOp::Eq, left, zero);
        t.guarded(is_complete, |t| {
            let [up, down] = [1, ARRIVALS + 1].map(|n| t.iconst(Type::B32, n.into()));
            let arrivals = t.binary(IntBinaryOp::Shl, new, up);
            let arrivals = t.binary(IntBinaryOp::Ushr, arrivals, down);
            let flip = t.iconst(Type::B64, 1 << PHASE);
            let next = t.binary(IntBinaryOp::Add, arrivals, flip);
            self.add(t, next);
            Ok(())
        })?;
        Ok(old)
    }

    /// A barrier that was initialized takes arrivals; `was` is what it was.
    fn check_initialized(self, t: &mut Translator<'_>, was: Value) -> Result<(), Diagnostic> {
        let [up, down] = [1, ARRIVALS + 1].map(|n| t.iconst(Type::B32, n.into()));
        // Bytes that came before they were expected have borrowed an arrival.
        let half = t.iconst(Type::B64, 1 << (ARRIVALS - 1));
        let arrivals = t.binary(IntBinaryOp::Add, was, half);
        let arrivals = t.binary(IntBinaryOp::Shl, arrivals, up);
        let arrivals = t.binary(IntBinaryOp::Ushr, arrivals, down);
        let zero = t.iconst(Type::B64, 0);
        let is_none = t.compare(CompareOp::Eq, arrivals, zero);
        t.guarded(is_none, |t| {
            let addr = t.zext_or_trunc(self.addr, Type::B64);
            let offset = t.iconst(Type::B64, self.offset as u64);
            let addr = t.binary(IntBinaryOp::Add, addr, offset);
            let addr = t.to_generic(self.space, addr);
            t.ins_void(InstData::Device {
                op: DeviceOp::BadBarrier,
                args: smallvec![addr],
            });
            Ok(())
        })
    }

    /// The barrier by its place in the window of shared memory.
    pub(super) fn in_window(self, t: &mut Translator<'_>) -> Barrier {
        let space = Space::Shared;
        match self.space {
            Space::Generic => Barrier {
                addr: t.ins(
                    InstData::FromGeneric {
                        space,
                        arg: self.addr,
                    },
                    Type::B64,
                ),
                space,
                ..self
            },
            _ => self,
        }
    }

    /// As [`Self::in_window`], also for an address in the window that was widened, where a generic
    /// one is asked for: GPUs take the low half of either. Kernels of Triton up to 3.5 pass such
    /// ones to `tcgen05.commit`, for which the ISA leaves undefined what happens.
    pub(super) fn in_window_or_low(self, t: &mut Translator<'_>) -> Barrier {
        if self.space != Space::Generic {
            return self;
        }
        let converted = self.in_window(t);
        let limit = t.iconst(Type::B64, 1 << 32);
        let is_low = t.compare(CompareOp::Ult, self.addr, limit);
        let addr = t.select(is_low, self.addr, converted.addr);
        Barrier { addr, ..converted }
    }

    /// The same barrier of another CTA, whose memory begins at `part` of the window.
    pub(super) fn in_cta(self, t: &mut Translator<'_>, part: Value) -> Barrier {
        Barrier {
            addr: super::cluster::in_cta(t, self.addr, part),
            ..self
        }
    }

    /// One arrival, at a barrier that may be another CTA's.
    pub(super) fn arrive_once(self, t: &mut Translator<'_>) -> Result<(), Diagnostic> {
        let delta = t.iconst(Type::B64, u64::MAX);
        t.mark(MarkOp::BarrierBegin, &[]);
        let old = self.change(t, delta)?;
        self.mark_arrival(t, true);
        self.check_initialized(t, old)
    }

    /// So many bytes, fewer or more, are to come.
    pub(super) fn change_bytes(
        self,
        t: &mut Translator<'_>,
        bytes: Value,
        comes: bool,
    ) -> Result<Value, Diagnostic> {
        let bytes = in_field(t, bytes, BYTES);
        let delta = if comes {
            t.unary(IntUnaryOp::Neg, bytes)
        } else {
            bytes
        };
        t.mark(MarkOp::BarrierBegin, &[]);
        let old = self.change(t, delta)?;
        self.mark_arrival(t, comes);
        Ok(old)
    }

    /// A bulk copy to be done by `copy` completes on the barrier, with so many bytes.
    pub(super) fn complete_bulk(
        self,
        t: &mut Translator<'_>,
        bytes: Value,
        copy: impl FnOnce(&mut Translator<'_>),
    ) -> Result<(), Diagnostic> {
        let addr = self.marked(t);
        let (space, offset) = (self.space, self.offset);
        t.mark(MarkOp::BulkBeginOn { space, offset }, &[addr]);
        copy(t);
        let bytes = in_field(t, bytes, BYTES);
        let delta = t.unary(IntUnaryOp::Neg, bytes);
        t.mark(MarkOp::BarrierBegin, &[]);
        self.change(t, delta)?;
        t.mark(MarkOp::BulkBytes { space, offset }, &[addr]);
        t.mark(MarkOp::AsyncEnd, &[]);
        Ok(())
    }

    /// Its address as marks have it.
    fn marked(self, t: &mut Translator<'_>) -> Value {
        match t.wants_marks() {
            true => t.zext_or_trunc(self.addr, Type::B64),
            false => self.addr,
        }
    }

    fn mark_arrival(self, t: &mut Translator<'_>, releases: bool) {
        let addr = self.marked(t);
        let op = MarkOp::BarrierArrive {
            space: self.space,
            offset: self.offset,
            releases,
        };
        t.mark(op, &[addr]);
    }
}

/// A count of 32 bits in a field.
fn in_field(t: &mut Translator<'_>, count: Value, field: u32) -> Value {
    let count = t.zext_or_trunc(count, Type::B64);
    let field = t.iconst(Type::B32, field.into());
    t.binary(IntBinaryOp::Shl, count, field)
}

fn init<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let barrier = barrier(t, inst, 0)?;
    let count = t.src(inst, 1)?;
    let [left, arrivals] = [0, ARRIVALS].map(|field| in_field(t, count, field));
    let word = t.binary(IntBinaryOp::Or, left, arrivals);
    t.store(
        barrier.space,
        Type::B64,
        (barrier.addr, barrier.offset),
        &[word],
    );
    let addr = barrier.marked(t);
    let (space, offset) = (barrier.space, barrier.offset);
    t.mark(MarkOp::BarrierInit { space, offset }, &[addr]);
    Ok(())
}

/// `expect_tx` and `complete_tx`.
fn change_bytes<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let barrier = barrier(t, inst, 0)?;
    let bytes = t.src(inst, 1)?;
    barrier.change_bytes(t, bytes, inst.has(Mod::CompleteTx))?;
    Ok(())
}

/// One arrival, or as many as an operand says; with `.expect_tx` it is the bytes that an operand
/// says.
fn arrive<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let barrier = barrier(t, inst, 1)?;
    let operand = t.src_opt(inst, 2)?;
    let expects = inst.has(Mod::ExpectTx);
    let count = match operand {
        Some(count) if !expects => count,
        _ => t.iconst(Type::B32, 1),
    };
    let mut gone = in_field(t, count, 0);
    if inst.has(Mod::ArriveDrop) {
        let dropped = in_field(t, count, ARRIVALS);
        gone = t.binary(IntBinaryOp::Add, gone, dropped);
    }
    let mut delta = t.unary(IntUnaryOp::Neg, gone);
    if let Some(bytes) = operand.filter(|_| expects) {
        let bytes = in_field(t, bytes, BYTES);
        delta = t.binary(IntBinaryOp::Add, delta, bytes);
    }
    t.mark(MarkOp::BarrierBegin, &[]);
    let old = barrier.change(t, delta)?;
    barrier.mark_arrival(t, !inst.has(Mod::Relaxed));
    if inst.has(Mod::SharedCluster) {
        return barrier.check_initialized(t, old);
    }
    t.dst(inst, 0, old)
}

fn inval<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let barrier = barrier(t, inst, 0)?;
    let addr = barrier.marked(t);
    let (space, offset) = (barrier.space, barrier.offset);
    t.mark(MarkOp::BarrierInval { space, offset }, &[addr]);
    mark(t, inst)
}

/// `test_wait` and `try_wait`: whether the phase of a state, or of a parity, is complete. No thread
/// is suspended: one that asks again in a loop lets others run.
fn wait<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let barrier = barrier(t, inst, 1)?;
    let asked = t.src(inst, 2)?;
    let asked = t.zext_or_trunc(asked, Type::B64);
    let data = InstData::Load {
        space: barrier.space,
        sem: MemSem::Acquire,
        scope: Scope::Cta,
        ty: Type::B64,
        n: 1,
        addr: barrier.addr,
        offset: barrier.offset,
    };
    let phase = t.iconst(Type::B32, PHASE.into());
    let asked = if inst.has(Mod::Parity) {
        t.binary(IntBinaryOp::Shl, asked, phase)
    } else {
        asked
    };
    late::poll(t, barrier.place(), asked);
    t.mark(MarkOp::BarrierBegin, &[]);
    let now = t.ins(data, Type::B64);
    let differs = t.binary(IntBinaryOp::Xor, now, asked);
    let differs = t.binary(IntBinaryOp::Ushr, differs, phase);
    let zero = t.iconst(Type::B64, 0);
    let is_complete = t.compare(CompareOp::Ne, differs, zero);
    let addr = barrier.marked(t);
    let op = MarkOp::BarrierTest {
        space: barrier.space,
        offset: barrier.offset,
        acquires: !inst.has(Mod::Relaxed),
        by_state: !inst.has(Mod::Parity),
    };
    t.mark(op, &[addr, is_complete]);
    t.dst(inst, 0, is_complete)
}

fn pending_count<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let state = t.src(inst, 1)?;
    let mask = t.iconst(Type::B64, (1 << BYTES) - 1);
    let count = t.binary(IntBinaryOp::And, state, mask);
    let count = t.zext_or_trunc(count, Type::B32);
    t.dst(inst, 0, count)
}

/// Copies have been done by now, unless they complete late. Without `.noinc` the arrival is one
/// more than the phase takes: nothing changes.
fn arrive_when_copied<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let barrier = barrier(t, inst, 0)?;
    if t.is_late() {
        let counts = inst.has(Mod::Noinc);
        late::arrive(t, AsyncOp::ArriveAfterCopies { counts }, barrier.place());
        return Ok(());
    }
    let addr = barrier.marked(t);
    let (space, offset) = (barrier.space, barrier.offset);
    t.mark(MarkOp::BarrierCopies { space, offset }, &[addr]);
    if !inst.has(Mod::Noinc) {
        return mark(t, inst);
    }
    let delta = t.iconst(Type::B64, u64::MAX);
    t.mark(MarkOp::BarrierBegin, &[]);
    barrier.change(t, delta)?;
    barrier.mark_arrival(t, true);
    Ok(())
}
