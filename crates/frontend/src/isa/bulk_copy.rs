//! How bulk copies are done: word by word, by the thread that asks for them, when it does so. Then
//! no thread need wait for their groups. Where they are to complete late, [`super::late`] has them.

use ptxjit_ir::{
    AsyncGroup, AtomicFmt, AtomicOp, CompareOp, DeviceOp, InstData, IntBinaryOp, MarkOp, MemSem,
    Scope, Space, Type, Value,
};
use smallvec::smallvec;

use crate::diag::Diagnostic;
use crate::translate::{Inst, Translator};

use super::atomics::{format_of, op_of};
use super::cluster::{each_cta, in_cta};
use super::late::{self, On};
use super::mbarrier::{Barrier, barrier};
use super::misc::mark;
use super::modifiers::Mod;
use super::types::PtxType as T;

/// Copies that complete in groups.
const BULK: On = On::Group(AsyncGroup::Bulk);

/// `cp.async.bulk` but for tensors and reductions.
pub(super) fn copy<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let (to, from) = places(t, inst)?;
    let size = t.src(inst, 2)?;
    check_units(t, (to, from), size)?;
    if inst.has(Mod::CpMask) {
        let mask = t.src_as(inst, inst.n_operands() - 1, T::B16)?;
        let mask = t.zext_or_trunc(mask, Type::B32);
        if t.is_late() {
            late::copy_some(t, BULK, (to, from), [size, size], Some(mask));
            return Ok(());
        }
        t.mark(MarkOp::BulkBegin, &[]);
        copy_some_bytes(t, to, from, size, mask)?;
        t.mark(MarkOp::AsyncEnd, &[]);
        return Ok(());
    }
    // Code for one word is short, and wide vectors come of it all the same.
    let unit = (Type::B32, 4);
    if !inst.has(Mod::MbarrierCompleteTxBytes) {
        if t.is_late() {
            late::copy(t, BULK, (to, from), size);
            return Ok(());
        }
        t.mark(MarkOp::BulkBegin, &[]);
        copy_in_steps(t, to, from, size, unit);
        t.mark(MarkOp::AsyncEnd, &[]);
        return Ok(());
    }
    let barrier = barrier(t, inst, 3)?;
    let bring = |t: &mut Translator<'_>, to: Place, barrier: Barrier| {
        if t.is_late() {
            late::copy(t, On::Barrier(barrier.place()), (to, from), size);
            return Ok(());
        }
        barrier.complete_bulk(t, size, |t| copy_in_steps(t, to, from, size, unit))
    };
    if !inst.has(Mod::MulticastCluster) {
        return bring(t, to, barrier);
    }
    let mask = t.src_as(inst, 4, T::B16)?;
    let mask = t.zext_or_trunc(mask, Type::B32);
    each_cta(t, mask, |t, part| {
        let to = (to.0, in_cta(t, to.1, part), to.2);
        let barrier = barrier.in_cta(t, part);
        bring(t, to, barrier)
    })
}

/// `cp.reduce.async.bulk`, element by element.
pub(super) fn reduce<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let (to, from) = places(t, inst)?;
    let size = t.src(inst, 2)?;
    check_units(t, (to, from), size)?;
    let how = (op_of(inst), format_of(inst.ty(0)));
    if inst.has(Mod::MbarrierCompleteTxBytes) {
        let barrier = barrier(t, inst, 3)?;
        if t.is_late() {
            late::reduce(t, On::Barrier(barrier.place()), how, (to, from), size);
            return Ok(());
        }
        return barrier.complete_bulk(t, size, |t| reduce_in_steps(t, how, (to, from), size));
    }
    if t.is_late() {
        late::reduce(t, BULK, how, (to, from), size);
        return Ok(());
    }
    t.mark(MarkOp::BulkBegin, &[]);
    reduce_in_steps(t, how, (to, from), size);
    t.mark(MarkOp::AsyncEnd, &[]);
    Ok(())
}

fn reduce_in_steps(
    t: &mut Translator<'_>,
    (op, fmt): (AtomicOp, AtomicFmt),
    (to, from): (Place, Place),
    size: Value,
) {
    let reduced = each_step(t, size, fmt.ty().bytes(), |t, at| {
        let [to, from] = [to, from].map(|place| moved(t, place, at));
        let element = t.load(from.0, fmt.ty(), 1, (from.1, from.2));
        let data = InstData::Atomic {
            op,
            fmt,
            space: to.0,
            sem: MemSem::Relaxed,
            scope: Scope::Gpu,
            addr: to.1,
            offset: to.2,
            args: element.into_iter().collect(),
        };
        t.ins(data, fmt.ty());
        Ok(())
    });
    debug_assert!(reduced.is_ok(), "atomic operations are always possible");
}

/// `commit_group` and `wait_group`: copies have been done by now, unless they complete late.
pub(super) fn groups<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    if inst.has(Mod::CommitGroup) {
        late::commit(t, AsyncGroup::Bulk);
        t.mark(MarkOp::BulkCommit, &[]);
        return mark(t, inst);
    }
    let n = u32::try_from(t.src_const(inst, 0)?).unwrap_or(u32::MAX);
    let reads = inst.has(Mod::Read);
    late::wait(t, AsyncGroup::Bulk, n, reads);
    t.mark(MarkOp::BulkWait { n, reads }, &[]);
    mark(t, inst)
}

/// Destination and source.
fn places<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(Place, Place), Diagnostic> {
    let announces = inst.has(Mod::MbarrierCompleteTxBytes);
    let [to, from] = match (announces, inst.has(Mod::Global)) {
        (true, true) => [Space::Shared, Space::Global],
        (true, false) => [Space::Shared, Space::Shared],
        (false, _) => [Space::Global, Space::Shared],
    };
    Ok((place(t, inst, 0, to)?, place(t, inst, 1, from)?))
}

/// Stops the grid unless places and size are multiples of 16 bytes.
fn check_units(
    t: &mut Translator<'_>,
    (to, from): (Place, Place),
    size: Value,
) -> Result<(), Diagnostic> {
    let low = |t: &mut Translator<'_>, (_, addr, offset): Place| {
        let addr = t.zext_or_trunc(addr, Type::B32);
        let offset = t.iconst(Type::B32, u64::from(offset as u32));
        t.binary(IntBinaryOp::Add, addr, offset)
    };
    let [a, b] = [low(t, to), low(t, from)];
    let bits = t.binary(IntBinaryOp::Or, a, b);
    let bits = t.binary(IntBinaryOp::Or, bits, size);
    let mask = t.iconst(Type::B32, 15);
    let bits = t.binary(IntBinaryOp::And, bits, mask);
    let zero = t.iconst(Type::B32, 0);
    let is_bad = t.compare(CompareOp::Ne, bits, zero);
    t.guarded(is_bad, |t| {
        let [to, from] = [to, from].map(|place| late::generic(t, place));
        t.ins_void(InstData::Device {
            op: DeviceOp::BadBulk,
            args: smallvec![to, from, size],
        });
        Ok(())
    })
}

/// Copies those bytes of each sixteen whose bits are set.
fn copy_some_bytes(
    t: &mut Translator<'_>,
    to: Place,
    from: Place,
    size: Value,
    mask: Value,
) -> Result<(), Diagnostic> {
    each_step(t, size, 1, |t, at| {
        let [low, one] = [15, 1].map(|n| t.iconst(Type::B32, n));
        let bit = t.binary(IntBinaryOp::And, at, low);
        let bit = t.binary(IntBinaryOp::Ushr, mask, bit);
        let bit = t.binary(IntBinaryOp::And, bit, one);
        let is_set = t.compare(CompareOp::Eq, bit, one);
        t.guarded(is_set, |t| {
            let [to, from] = [to, from].map(|place| moved(t, place, at));
            let byte = t.load(from.0, Type::B8, 1, (from.1, from.2));
            t.store(to.0, Type::B8, (to.1, to.2), &byte);
            Ok(())
        })
    })
}

/// An address in a state space: a register and what is added to it.
pub(super) type Place = (Space, Value, i32);

/// The address at operand `n`.
pub(super) fn place<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    n: usize,
    space: Space,
) -> Result<Place, Diagnostic> {
    let Some(operand) = inst.operand(n) else {
        return Err(inst.error(format!("`{}` lacks an address", inst.name)));
    };
    let addr = t.resolve_address(operand)?;
    let (addr, offset) = t.emit_address(&addr)?;
    let addr = if space == Space::Global {
        t.zext_or_trunc(addr, Type::B64)
    } else {
        addr
    };
    Ok((space, addr, offset))
}

/// A place so many bytes further on.
fn moved(t: &mut Translator<'_>, (space, addr, offset): Place, at: Value) -> Place {
    let at = t.zext_or_trunc(at, t.value_ty(addr));
    (space, t.binary(IntBinaryOp::Add, addr, at), offset)
}

/// Copies `size` bytes, some elements of a type at a time.
pub(super) fn copy_in_steps(
    t: &mut Translator<'_>,
    to: Place,
    from: Place,
    size: Value,
    (ty, n): (Type, usize),
) {
    let copied = each_step(t, size, ty.bytes() * n as u32, |t, at| {
        let [to, from] = [to, from].map(|place| moved(t, place, at));
        let elements = t.load(from.0, ty, n, (from.1, from.2));
        t.store(to.0, ty, (to.1, to.2), &elements);
        Ok(())
    });
    debug_assert!(copied.is_ok(), "loads and stores are always possible");
}

/// Calls `body` for the offsets below `size` that are multiples of `step`, in a loop.
pub(super) fn each_step(
    t: &mut Translator<'_>,
    size: Value,
    step: u32,
    body: impl FnOnce(&mut Translator<'_>, Value) -> Result<(), Diagnostic>,
) -> Result<(), Diagnostic> {
    let var = t.builder.declare(Type::B32);
    let first = t.iconst(Type::B32, 0);
    t.builder.def_var(var, first);
    let [head, inside, done] = [(); 3].map(|()| t.builder.new_block());
    t.builder.jump(head);
    t.builder.switch_to(head);
    let at = t.builder.use_var(var);
    let is_left = t.compare(CompareOp::Ult, at, size);
    t.builder.brif(is_left, inside, done);
    t.builder.seal(inside);
    t.builder.switch_to(inside);
    let result = body(t, at);
    let step = t.iconst(Type::B32, step.into());
    let next = t.binary(IntBinaryOp::Add, at, step);
    t.builder.def_var(var, next);
    t.builder.jump(head);
    t.builder.seal(head);
    t.builder.seal(done);
    t.builder.switch_to(done);
    result
}
