//! What threads do to the shared memory of other CTAs of their cluster beside plain accesses, and
//! the control of its launch. PTX ISA, "st.async", "red.async" and
//! "clusterlaunchcontrol.try_cancel". All is done when it is asked for, unless it is to complete
//! late.

use ptxjit_ir::{
    CTA_SHIFT, CompareOp, DeviceOp, InstData, IntBinaryOp, MAX_CLUSTER, Space, SpecialReg, Type,
    Value,
};
use smallvec::SmallVec;

use crate::diag::Diagnostic;
use crate::translate::{Inst, Translator};

use super::atomics::{atomic, format_of, op_of};
use super::bulk_copy::{Place, each_step, place};
use super::late::{self, On};
use super::mbarrier::{Barrier, barrier};
use super::memory::{space_of, st};
use super::modifiers::Mod;
use super::operands::vector_length;

/// The place in another CTA's shared memory that corresponds to one in any CTA's; that memory
/// begins at `part` of the window.
pub(super) fn in_cta(t: &mut Translator<'_>, addr: Value, part: Value) -> Value {
    let ty = t.value_ty(addr);
    let low = t.iconst(ty, (1 << CTA_SHIFT) - 1);
    let offset = t.binary(IntBinaryOp::And, addr, low);
    let part = t.zext_or_trunc(part, ty);
    t.binary(IntBinaryOp::Add, offset, part)
}

/// Calls `body` for the CTAs whose bits are set in a mask, with the begin of their memory in the
/// window.
pub(super) fn each_cta(
    t: &mut Translator<'_>,
    mask: Value,
    body: impl FnOnce(&mut Translator<'_>, Value) -> Result<(), Diagnostic>,
) -> Result<(), Diagnostic> {
    let n = t.iconst(Type::B32, MAX_CLUSTER.into());
    each_step(t, n, 1, |t, rank| {
        let one = t.iconst(Type::B32, 1);
        let bit = t.binary(IntBinaryOp::Ushr, mask, rank);
        let bit = t.binary(IntBinaryOp::And, bit, one);
        let is_set = t.compare(CompareOp::Eq, bit, one);
        t.guarded(is_set, |t| {
            let shift = t.iconst(Type::B32, CTA_SHIFT.into());
            let part = t.binary(IntBinaryOp::Shl, rank, shift);
            body(t, part)
        })
    })
}

/// Where an operation goes, and how it completes, where it does so late.
fn late_place<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(Place, On), Diagnostic> {
    let Some(operand) = inst.operand(0) else {
        return Err(inst.error(format!("`{}` lacks an address", inst.name)));
    };
    let address = t.resolve_address(operand)?;
    let space = space_of(t, inst, &address)?;
    let (addr, offset) = t.emit_address(&address)?;
    let on = match inst.operand(2) {
        Some(_) => On::Barrier(barrier(t, inst, 2)?.place()),
        None => On::End,
    };
    Ok(((space, addr, offset), on))
}

/// `st.async`: the barrier learns of the bytes.
pub(super) fn store_async<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    if t.is_late() {
        let (to, on) = late_place(t, inst)?;
        let ty = inst.ty(0).ir().unwrap_or(Type::B64);
        let elements: Vec<Value> = t.src_elems(inst, 1)?.into_iter().flatten().collect();
        late::store(t, on, to, ty, &elements);
        return Ok(());
    }
    st(t, inst)?;
    if inst.operand(2).is_none() {
        return Ok(());
    }
    let bytes = inst.ty(0).bits() / 8 * vector_length(inst) as u32;
    let bytes = t.iconst(Type::B32, bytes.into());
    barrier(t, inst, 2)?
        .change_bytes(t, bytes, true)
        .map(|_| ())
}

/// `red.async`: the barrier learns of the bytes.
pub(super) fn reduce_async<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    if t.is_late() {
        let (to, on) = late_place(t, inst)?;
        let operand = t.src(inst, 1)?;
        late::update(t, on, (op_of(inst), format_of(inst.ty(0))), to, operand);
        return Ok(());
    }
    atomic(t, inst)?;
    if inst.operand(2).is_none() {
        return Ok(());
    }
    let bytes = format_of(inst.ty(0)).ty().bytes();
    let bytes = t.iconst(Type::B32, bytes.into());
    barrier(t, inst, 2)?
        .change_bytes(t, bytes, true)
        .map(|_| ())
}

/// Bytes of a response of `clusterlaunchcontrol.try_cancel`.
const RESPONSE_BYTES: u32 = 16;

/// Requests to take over a cluster that was not launched yet. Whether there is one is settled at
/// once; the response may come late.
pub(super) fn try_cancel<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let (_, mut to, offset) = place(t, inst, 0, Space::Shared)?;
    if !inst.has(Mod::SharedCta) {
        let arg = t.zext_or_trunc(to, Type::B64);
        let space = Space::Shared;
        to = t.ins(InstData::FromGeneric { space, arg }, Type::B64);
    }
    let barrier = barrier(t, inst, 1)?;
    let op = DeviceOp::CancelLaunch;
    let args = SmallVec::new();
    let response = t.ins_multi(InstData::Device { op, args }, &[Type::B64; 2]);
    if !inst.has(Mod::MulticastClusterAll) {
        return respond(t, (to, offset), &response, barrier);
    }
    let barrier = barrier.in_window(t);
    let sreg = SpecialReg::ClusterNctaRank;
    let n = t.ins(InstData::Sreg { sreg }, Type::B32);
    let one = t.iconst(Type::B32, 1);
    let mask = t.binary(IntBinaryOp::Shl, one, n);
    let mask = t.binary(IntBinaryOp::Sub, mask, one);
    each_cta(t, mask, |t, part| {
        let to = in_cta(t, to, part);
        let barrier = barrier.in_cta(t, part);
        respond(t, (to, offset), &response, barrier)
    })
}

/// Writes a response to shared memory, and tells the barrier.
fn respond(
    t: &mut Translator<'_>,
    (to, offset): (Value, i32),
    response: &[Value],
    barrier: Barrier,
) -> Result<(), Diagnostic> {
    if t.is_late() {
        let on = On::Barrier(barrier.place());
        late::store(t, on, (Space::Shared, to, offset), Type::B64, response);
        return Ok(());
    }
    t.store(Space::Shared, Type::B64, (to, offset), response);
    let bytes = t.iconst(Type::B32, RESPONSE_BYTES.into());
    barrier.change_bytes(t, bytes, true).map(drop)
}

/// The halves of a response: `%ctaid.x` in the low word, then 16 bits each of `%ctaid.y` and
/// `%ctaid.z`, then a bit that says whether the request was granted.
fn response<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<[Value; 2], Diagnostic> {
    match t.src_elems(inst, 1)?[..] {
        [Some(low), Some(high)] => Ok([low, high]),
        _ => Err(inst.operand_error(1, "a response of 128 bits is expected here")),
    }
}

pub(super) fn is_canceled<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let [_, high] = response(t, inst)?;
    let one = t.iconst(Type::B64, 1);
    let bit = t.binary(IntBinaryOp::And, high, one);
    let is_canceled = t.compare(CompareOp::Eq, bit, one);
    t.dst(inst, 0, is_canceled)
}

/// One or all dimensions of the first CTA's `%ctaid`.
pub(super) fn first_ctaid<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let [low, _] = response(t, inst)?;
    let field = |t: &mut Translator<'m>, at: u64, bits: u32| {
        let at = t.iconst(Type::B32, at);
        let mask = t.iconst(Type::B64, (1 << bits) - 1);
        let field = t.binary(IntBinaryOp::Ushr, low, at);
        let field = t.binary(IntBinaryOp::And, field, mask);
        t.zext_or_trunc(field, Type::B32)
    };
    let [x, y, z] = [(0, 32), (32, 16), (48, 16)].map(|(at, bits)| field(t, at, bits));
    let zero = t.iconst(Type::B32, 0);
    match inst.pick(&[
        Mod::GetFirstCtaidX,
        Mod::GetFirstCtaidY,
        Mod::GetFirstCtaidZ,
    ]) {
        Some(Mod::GetFirstCtaidX) => t.dst(inst, 0, x),
        Some(Mod::GetFirstCtaidY) => t.dst(inst, 0, y),
        Some(_) => t.dst(inst, 0, z),
        None => t.dst_elems(inst, 0, &[x, y, z, zero]),
    }
}
