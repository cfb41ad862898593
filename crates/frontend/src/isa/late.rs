//! Asynchronous operations in programs in which these complete late ([`AsyncOp`]): each instruction
//! is one operation of the device. PTX ISA, "Asynchronous operations".
//!
//! What stands here is only reached where [`Translator::is_late`]; else the instruction's own file
//! says how it is done at once.

use ptxjit_ir::{
    AsyncGroup, AsyncOp, AtomicFmt, AtomicOp, Completion, DeviceOp, InstData, IntBinaryOp,
    TensorMemoryOp, TensorOp, Type, Value,
};
use smallvec::SmallVec;

use crate::translate::Translator;

use super::bulk_copy::Place;

/// Every byte of sixteen.
const ALL_BYTES: u64 = 0xffff;

/// How an operation completes.
#[derive(Copy, Clone)]
pub(super) enum On {
    Group(AsyncGroup),
    /// At an `mbarrier`.
    Barrier(Place),
    End,
}

pub(super) fn emit(t: &mut Translator<'_>, op: AsyncOp, args: impl IntoIterator<Item = Value>) {
    let op = DeviceOp::Async(op);
    let args = args.into_iter().collect();
    t.ins_void(InstData::Device { op, args });
}

/// The generic address of a place.
pub(super) fn generic(t: &mut Translator<'_>, (space, addr, offset): Place) -> Value {
    let addr = t.zext_or_trunc(addr, Type::B64);
    let offset = t.iconst(Type::B64, offset as u64);
    let addr = t.binary(IntBinaryOp::Add, addr, offset);
    t.to_generic(space, addr)
}

/// Begins an operation whose last operand is its `mbarrier`, if it has one.
fn begin(
    t: &mut Translator<'_>,
    on: On,
    op: impl FnOnce(Completion) -> AsyncOp,
    mut args: SmallVec<[Value; 6]>,
) {
    let on = match on {
        On::Group(group) => Completion::Group(group),
        On::End => Completion::End,
        On::Barrier(place) => {
            args.push(generic(t, place));
            Completion::Barrier
        }
    };
    emit(t, op(on), args);
}

/// Copies bytes.
pub(super) fn copy(t: &mut Translator<'_>, on: On, (to, from): (Place, Place), size: Value) {
    copy_some(t, on, (to, from), [size, size], None);
}

/// Copies bytes: so many are written, so many of these read. A mask says which of each sixteen.
pub(super) fn copy_some(
    t: &mut Translator<'_>,
    on: On,
    (to, from): (Place, Place),
    sizes: [Value; 2],
    mask: Option<Value>,
) {
    let [to, from] = [to, from].map(|place| generic(t, place));
    let [written, read] = sizes.map(|size| t.zext_or_trunc(size, Type::B32));
    let mask = mask.unwrap_or_else(|| t.iconst(Type::B32, ALL_BYTES));
    let args = SmallVec::from_slice(&[to, from, written, read, mask]);
    begin(t, on, AsyncOp::Copy, args);
}

/// Changes elements by others.
pub(super) fn reduce(
    t: &mut Translator<'_>,
    on: On,
    (op, fmt): (AtomicOp, AtomicFmt),
    (to, from): (Place, Place),
    size: Value,
) {
    let [to, from] = [to, from].map(|place| generic(t, place));
    let size = t.zext_or_trunc(size, Type::B32);
    let args = SmallVec::from_slice(&[to, from, size]);
    begin(t, on, |on| AsyncOp::Reduce { op, fmt, on }, args);
}

/// Stores elements of a type, at most sixteen bytes.
pub(super) fn store(t: &mut Translator<'_>, on: On, to: Place, ty: Type, elements: &[Value]) {
    let to = generic(t, to);
    let words = packed(t, ty, elements);
    let bytes = (ty.bytes() * elements.len() as u32) as u8;
    let args = SmallVec::from_slice(&[to, words[0], words[1]]);
    begin(t, on, |on| AsyncOp::Store { bytes, on }, args);
}

/// Elements in two words, the first in the low bits.
fn packed(t: &mut Translator<'_>, ty: Type, elements: &[Value]) -> [Value; 2] {
    let mut words = [t.iconst(Type::B64, 0); 2];
    for (n, &element) in elements.iter().enumerate() {
        let bit = n as u32 * ty.bits();
        let element = t.zext_or_trunc(element, Type::B64);
        let shift = t.iconst(Type::B32, (bit % 64).into());
        let element = t.binary(IntBinaryOp::Shl, element, shift);
        let word = &mut words[(bit / 64) as usize];
        *word = t.binary(IntBinaryOp::Or, *word, element);
    }
    words
}

/// Changes an element by a number.
pub(super) fn update(
    t: &mut Translator<'_>,
    on: On,
    (op, fmt): (AtomicOp, AtomicFmt),
    to: Place,
    operand: Value,
) {
    let to = generic(t, to);
    let operand = t.zext_or_trunc(operand, Type::B64);
    let args = SmallVec::from_slice(&[to, operand]);
    begin(t, on, |on| AsyncOp::Update { op, fmt, on }, args);
}

/// What an operation becomes if it is one that completes late.
pub(super) fn of_tensor(t: &Translator<'_>, op: TensorOp) -> DeviceOp {
    let is_copy = match op {
        TensorOp::Load { .. } | TensorOp::Store { .. } => true,
        TensorOp::Replace(_) => false,
    };
    match t.is_late() && is_copy {
        true => DeviceOp::Async(AsyncOp::Tensor(op)),
        false => DeviceOp::Tensor(op),
    }
}

/// What an operation becomes if it is one that completes late.
pub(super) fn of_tensor_memory(t: &Translator<'_>, op: TensorMemoryOp) -> DeviceOp {
    let is_asynchronous = match op {
        TensorMemoryOp::Store(_)
        | TensorMemoryOp::Copy { .. }
        | TensorMemoryOp::Shift { .. }
        | TensorMemoryOp::Mma(_) => true,
        // Registers have one value.
        TensorMemoryOp::Load(_)
        | TensorMemoryOp::Alloc { .. }
        | TensorMemoryOp::Dealloc { .. }
        | TensorMemoryOp::Relinquish => false,
    };
    match t.is_late() && is_asynchronous {
        true => DeviceOp::Async(AsyncOp::TensorMemory(op)),
        false => DeviceOp::TensorMemory(op),
    }
}

/// What the thread has begun since its last group is one.
pub(super) fn commit(t: &mut Translator<'_>, group: AsyncGroup) {
    if t.is_late() {
        emit(t, AsyncOp::Commit(group), []);
    }
}

/// Waits for all groups but the last `n`.
pub(super) fn wait(t: &mut Translator<'_>, group: AsyncGroup, n: u32, reads: bool) {
    if t.is_late() {
        emit(t, AsyncOp::Wait { group, n, reads }, []);
    }
}

/// A thread asks for a phase of an `mbarrier`: a word whose first bit is its parity.
pub(super) fn poll(t: &mut Translator<'_>, barrier: Place, asked: Value) {
    if t.is_late() {
        let barrier = generic(t, barrier);
        emit(t, AsyncOp::Poll, [barrier, asked]);
    }
}

/// An `mbarrier` learns when copies, or products, are done.
pub(super) fn arrive(t: &mut Translator<'_>, op: AsyncOp, barrier: Place) {
    let barrier = generic(t, barrier);
    emit(t, op, [barrier]);
}
