//! How `tcgen05` is done: each instruction is an operation of the device that is complete when it
//! has been issued, but for programs in which operations complete late ([`super::late`]). What a
//! warp executes together needs its threads together only where one may touch what another has
//! accessed: at waits, and where tensor memory is allocated or given back.

use ptxjit_ir::{
    AsyncOp, BlockScale, CopyShape, FloatBinaryOp, FloatFmt, FloatMode, FloatUnaryOp, InstData,
    IntBinaryOp, MmaKind, RegisterAccess, RegisterShape, Space, TensorMemoryOp, TensorMma, Type,
    Unpack, Value,
};
use smallvec::SmallVec;

use crate::ast::{Operand, OperandKind};
use crate::diag::Diagnostic;
use crate::translate::{Inst, Translator};

use super::cluster::each_cta;
use super::desc::Sm;
use super::fragments::{registers_of, wait_for_warp};
use super::late;
use super::mbarrier::{Barrier, barrier};
use super::memory::space_of;
use super::modifiers::Mod;
use super::tcgen05::NUMBER;
use super::types::PtxType as T;

type Args = SmallVec<[Value; 4]>;

fn emit(t: &mut Translator<'_>, op: TensorMemoryOp, args: Args) -> SmallVec<[Value; 2]> {
    let results = op.results();
    let op = late::of_tensor_memory(t, op);
    t.ins_multi(InstData::Device { op, args }, &results)
}

/// An address of tensor memory, `B32`.
fn address<'m>(t: &mut Translator<'m>, inst: &Inst<'m>, n: usize) -> Result<Value, Diagnostic> {
    let Some(operand) = inst.operand(n) else {
        return Err(inst.error(format!("`{}` lacks an address", inst.name)));
    };
    let addr = t.resolve_address(operand)?;
    let (base, offset) = t.emit_address(&addr)?;
    let base = t.zext_or_trunc(base, Type::B32);
    let offset = t.iconst(Type::B32, u64::from(offset as u32));
    Ok(t.binary(IntBinaryOp::Add, base, offset))
}

/// `tcgen05.alloc`: where columns must be given back first, other threads run until it has
/// happened.
pub(super) fn alloc<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let Some(operand) = inst.operand(0) else {
        return Err(inst.error("`tcgen05.alloc` lacks an address"));
    };
    let space = match inst.has(Mod::SharedCta) {
        true => Space::Shared,
        false => {
            let addr = t.resolve_address(operand)?;
            space_of(t, inst, &addr)?
        }
    };
    let to = t.address_value(operand)?;
    let to = t.to_generic(space, to);
    let columns = t.src_as(inst, 1, T::U32)?;
    let op = TensorMemoryOp::Alloc {
        pair: inst.has(Mod::CtaGroup2),
    };
    wait_for_warp(t);
    let [head, again, done] = [(); 3].map(|()| t.builder.new_block());
    t.builder.jump(head);
    t.builder.switch_to(head);
    let is_done = emit(t, op, [to, columns].into_iter().collect())[0];
    t.builder.brif(is_done, done, again);
    t.builder.seal(again);
    t.builder.switch_to(again);
    let_others_run(t);
    t.builder.jump(head);
    t.builder.seal(head);
    t.builder.seal(done);
    t.builder.switch_to(done);
    wait_for_warp(t);
    Ok(())
}

/// `tcgen05.dealloc`
pub(super) fn dealloc<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let [address, columns] = [t.src_as(inst, 0, T::U32)?, t.src_as(inst, 1, T::U32)?];
    let op = TensorMemoryOp::Dealloc {
        pair: inst.has(Mod::CtaGroup2),
    };
    wait_for_warp(t);
    emit(t, op, [address, columns].into_iter().collect());
    Ok(())
}

/// `tcgen05.relinquish_alloc_permit`
pub(super) fn relinquish<'m>(t: &mut Translator<'m>, _: &Inst<'m>) -> Result<(), Diagnostic> {
    wait_for_warp(t);
    emit(t, TensorMemoryOp::Relinquish, Args::new());
    Ok(())
}

/// `tcgen05.wait`: what the threads of the warp have loaded or stored, all of them have.
pub(super) fn wait<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    if t.is_late() && inst.has(Mod::WaitSt) {
        late::emit(t, AsyncOp::WaitStores, []);
    }
    wait_for_warp(t);
    Ok(())
}

/// What a load or store accesses; `split` is the operand that tells where the second half begins.
fn access<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    split: usize,
) -> Result<RegisterAccess, Diagnostic> {
    let shape = match inst.pick(&[Mod::N16x64b, Mod::N16x128b, Mod::N16x256b, Mod::N16x32bx2]) {
        Some(Mod::N16x64b) => RegisterShape::Lanes16x64,
        Some(Mod::N16x128b) => RegisterShape::Lanes16x128,
        Some(Mod::N16x256b) => RegisterShape::Lanes16x256,
        Some(_) => RegisterShape::Lanes16x32x2 {
            split: t.src_const(inst, split)? as u32,
        },
        None => RegisterShape::Lanes32x32,
    };
    let count = NUMBER.iter().position(|&m| inst.has(m)).unwrap_or(0);
    Ok(RegisterAccess {
        shape,
        count: 1 << count,
        packed: inst.pick(&[Mod::Pack16b, Mod::Unpack16b]).is_some(),
    })
}

/// `tcgen05.ld`, with or without a reduction.
pub(super) fn load<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let reduces = inst.has(Mod::Red);
    let at = if reduces { 2 } else { 1 };
    let access = access(t, inst, at + 1)?;
    let from = address(t, inst, at)?;
    let values = emit(
        t,
        TensorMemoryOp::Load(access),
        [from].into_iter().collect(),
    );
    if reduces {
        let result = reduced(t, inst, &values);
        t.dst_as(inst, 1, inst.ty(0), result)?;
    }
    t.dst_elems(inst, 0, &values)
}

/// The least or greatest of the words that a thread has loaded.
fn reduced<'m>(t: &mut Translator<'m>, inst: &Inst<'m>, values: &[Value]) -> Value {
    let is_max = inst.has(Mod::Max);
    let combine = |t: &mut Translator<'_>, x, y| match inst.ty(0) {
        T::F32 => {
            let op = match (is_max, inst.has(Mod::NaN)) {
                (false, false) => FloatBinaryOp::Min,
                (false, true) => FloatBinaryOp::MinNan,
                (true, false) => FloatBinaryOp::Max,
                (true, true) => FloatBinaryOp::MaxNan,
            };
            t.float_binary(op, FloatFmt::F32, FloatMode::RN, x, y)
        }
        ty => {
            let op = match (is_max, ty == T::S32) {
                (false, false) => IntBinaryOp::Umin,
                (false, true) => IntBinaryOp::Smin,
                (true, false) => IntBinaryOp::Umax,
                (true, true) => IntBinaryOp::Smax,
            };
            t.binary(op, x, y)
        }
    };
    let mut words: Vec<Value> = values.to_vec();
    if inst.has(Mod::Abs) {
        let abs = |&word| t.float_unary(FloatUnaryOp::Abs, FloatFmt::F32, FloatMode::RN, word);
        words = words.iter().map(abs).collect();
    }
    let mut words = words.into_iter();
    let first = words.next().unwrap_or(values[0]);
    words.fold(first, |least, word| combine(t, least, word))
}

/// `tcgen05.st`
pub(super) fn store<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let access = access(t, inst, 1)?;
    let mut args: Args = [address(t, inst, 0)?].into_iter().collect();
    args.extend(registers_of(t, inst, inst.n_operands() - 1, T::B32)?);
    emit(t, TensorMemoryOp::Store(access), args);
    Ok(())
}

/// `tcgen05.cp`
pub(super) fn copy<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let shapes = [
        (Mod::N128x256b, CopyShape::Rows128x256),
        (Mod::N4x256b, CopyShape::Rows4x256),
        (Mod::N128x128b, CopyShape::Rows128x128),
        (Mod::Warpx20213, CopyShape::Rows64x128Pairs02And13),
        (Mod::Warpx20123, CopyShape::Rows64x128Pairs01And23),
        (Mod::N32x128b, CopyShape::Rows32x128),
    ];
    let Some((_, shape)) = shapes.into_iter().find(|&(m, _)| inst.has(m)) else {
        return Err(inst.error("a shape is expected"));
    };
    let unpack = match inst.pick(&[Mod::B6x16P32, Mod::B4x16P64]) {
        Some(Mod::B6x16P32) => Some(Unpack::Bits6),
        Some(_) => Some(Unpack::Bits4),
        None => None,
    };
    let op = TensorMemoryOp::Copy {
        shape,
        pair: inst.has(Mod::CtaGroup2),
        unpack,
    };
    let args = [address(t, inst, 0)?, t.src_as(inst, 1, T::U64)?];
    emit(t, op, args.into_iter().collect());
    Ok(())
}

/// `tcgen05.shift`
pub(super) fn shift<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let op = TensorMemoryOp::Shift {
        pair: inst.has(Mod::CtaGroup2),
    };
    let at = address(t, inst, 0)?;
    emit(t, op, [at].into_iter().collect());
    Ok(())
}

/// `tcgen05.commit`: all that it waits for has been done, so it arrives at once. Programs count on
/// products to take a while: threads that wait for each phase of a barrier, and that nothing else
/// holds together, would miss phases if one of them ran ahead. So others run here. Lanes without
/// the guard let them run, too, since a lane that stops by itself leaves its warp.
pub(super) fn commit<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    match t.take_guard() {
        Some(guard) => t.guarded(guard, |t| arrive_everywhere(t, inst))?,
        None => arrive_everywhere(t, inst)?,
    }
    let_others_run(t);
    Ok(())
}

/// Arrives at the barrier, or at those of several CTAs.
fn arrive_everywhere<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let barrier = barrier(t, inst, 0)?.in_window_or_low(t);
    if !inst.has(Mod::MulticastCluster) {
        return arrive(t, barrier);
    }
    let mask = t.src_as(inst, 1, T::U16)?;
    let mask = t.zext_or_trunc(mask, Type::B32);
    each_cta(t, mask, |t, part| {
        let barrier = barrier.in_cta(t, part);
        arrive(t, barrier)
    })
}

/// Arrives when what has been begun is done.
fn arrive(t: &mut Translator<'_>, barrier: Barrier) -> Result<(), Diagnostic> {
    if t.is_late() {
        late::arrive(t, AsyncOp::ArriveAfterProducts, barrier.place());
        return Ok(());
    }
    barrier.arrive_once(t)
}

fn let_others_run(t: &mut Translator<'_>) {
    let arg = t.iconst(Type::B32, 0);
    t.ins_void(InstData::Nanosleep { arg });
}

/// `tcgen05.mma`
pub(super) fn product<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let mut op = description(t, inst);
    let mut args: Args = [address(t, inst, 0)?].into_iter().collect();
    args.push(if op.a_in_tensor_memory {
        address(t, inst, 1)?
    } else {
        t.src_as(inst, 1, T::U64)?
    });
    args.push(t.src_as(inst, 2, T::U64)?);
    let first = if op.sparse { 4 } else { 3 };
    args.push(t.src_as(inst, first, T::U32)?);
    let mut rest = Args::new();
    if op.sparse {
        rest.push(address(t, inst, 3)?);
    }
    let mut next = first + 1;
    if op.scale.is_some() {
        rest.extend([address(t, inst, next)?, address(t, inst, next + 1)?]);
        next += 2;
    }
    if let Some(Operand {
        kind: OperandKind::Vector(_),
        ..
    }) = inst.operand(next)
    {
        op.lane_mask = true;
        rest.extend(registers_of(t, inst, next, T::B32)?);
        next += 1;
    }
    let is_added = t.src_as(inst, next, T::Pred)?;
    let [one, zero] = [1, 0].map(|n| t.iconst(Type::B32, n));
    args.push(t.select(is_added, one, zero));
    args.extend(rest);
    if inst.n_operands() > next + 1 {
        if op.weight_stationary {
            op.column_mask = true;
            args.push(t.src_as(inst, next + 1, T::U64)?);
        } else if op.kind == MmaKind::I8 {
            // The ISA does not say what this predicate means.
            return super::not_executable(t, inst);
        } else {
            op.d_scale = t.src_const(inst, next + 1)? as u8;
        }
    }
    emit(t, TensorMemoryOp::Mma(op), args);
    Ok(())
}

/// What the modifiers say.
fn description<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> TensorMma {
    let kinds = [
        (Mod::KindTf32, MmaKind::Tf32),
        (Mod::KindF8f6f4, MmaKind::F8f6f4),
        (Mod::KindI8, MmaKind::I8),
        (Mod::KindMxf8f6f4, MmaKind::Mxf8f6f4),
        (Mod::KindMxf4, MmaKind::Mxf4),
        (Mod::KindMxf4nvf4, MmaKind::Mxf4nvf4),
    ];
    let kind = kinds.into_iter().find(|&(m, _)| inst.has(m));
    let scales = [
        (Mod::ScaleVec1X, BlockScale::Factors(1)),
        (Mod::ScaleVec2X, BlockScale::Factors(2)),
        (Mod::ScaleVec4X, BlockScale::Factors(4)),
        (Mod::Block16, BlockScale::Elements(16)),
    ];
    let scale = scales.into_iter().find(|&(m, _)| inst.has(m));
    let scale = scale.map_or(BlockScale::Elements(32), |(_, scale)| scale);
    let a = inst.operand(1).map(|operand| &operand.kind);
    TensorMma {
        kind: kind.map_or(MmaKind::F16, |(_, kind)| kind),
        pair: inst.has(Mod::CtaGroup2),
        weight_stationary: inst.has(Mod::Ws),
        sparse: inst.has(Mod::Sp),
        a_in_tensor_memory: matches!(a, Some(OperandKind::Address(_))),
        shifts_a: inst.has(Mod::Ashift),
        scale: inst.has(Mod::BlockScale).then_some(scale),
        lane_mask: false,
        column_mask: false,
        d_scale: 0,
        wide_k: super::target::exists_on(Sm::OneOf(&["103a"]), t.arch()),
    }
}
