//! Tensor copies and tensor maps. PTX ISA, "cp.async.bulk.tensor", "cp.reduce.async.bulk.tensor",
//! "tensormap.replace" and "tensormap.cp_fenceproxy". Their rows are in [`super::bulk`].

use ptxjit_ir::{AtomicOp, InstData, MapField, Space, TensorMode, TensorOp, Type, Value};
use smallvec::SmallVec;

use crate::ast::{Operand, OperandKind};
use crate::diag::Diagnostic;
use crate::translate::{Inst, Translator};

use super::bulk::dimensions;
use super::bulk_copy::{copy_in_steps, place};
use super::fragments::wait_for_warp;
use super::late;
use super::modifiers::Mod;
use super::types::PtxType as T;

fn mode(inst: &Inst<'_>) -> TensorMode {
    let modes = [
        (Mod::TileGather4, TensorMode::Rows4),
        (Mod::TileScatter4, TensorMode::Rows4),
        (Mod::Im2col, TensorMode::Im2col),
        (Mod::Im2colNoOffs, TensorMode::Im2col),
        (Mod::Im2colW, TensorMode::Im2colW),
        (Mod::Im2colW128, TensorMode::Im2colW128),
    ];
    let found = modes.into_iter().find(|&(m, _)| inst.has(m));
    found.map_or(TensorMode::Tile, |(_, mode)| mode)
}

/// Operands of the operation.
type Args = SmallVec<[Value; 4]>;

fn emit(t: &mut Translator<'_>, op: TensorOp, args: Args) {
    let op = late::of_tensor(t, op);
    t.ins_void(InstData::Device { op, args });
}

/// Global to shared memory.
pub(super) fn load<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let mode = mode(inst);
    let rank = dimensions(inst) as u8;
    let multicast = inst.has(Mod::MulticastCluster);
    let space = if inst.has(Mod::SharedCluster) {
        Space::SharedCluster
    } else {
        Space::Shared
    };
    let (map, coordinates) = tensor(t, inst, 1)?;
    let to = address(t, inst, 0, space)?;
    let barrier = address(t, inst, 2, space)?;
    let mut args: Args = [map, to, barrier].into_iter().collect();
    list(t, coordinates, T::S32, &mut args)?;
    let mut next = 3;
    if mode.n_offsets(rank) != 0 {
        if let Some(offsets) = inst.operand(next) {
            list(t, offsets, T::U16, &mut args)?;
        }
        next += 1;
    }
    if multicast {
        let mask = t.src_as(inst, next, T::B16)?;
        args.push(t.zext_or_trunc(mask, Type::B32));
    }
    let op = TensorOp::Load {
        rank,
        mode,
        multicast,
        pair: inst.has(Mod::CtaGroup2),
    };
    emit(t, op, args);
    Ok(())
}

/// Shared to global memory, with or without a reduction.
pub(super) fn store<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let reductions = [
        (Mod::Add, AtomicOp::Add),
        (Mod::Min, AtomicOp::Min),
        (Mod::Max, AtomicOp::Max),
        (Mod::Inc, AtomicOp::Inc),
        (Mod::Dec, AtomicOp::Dec),
        (Mod::And, AtomicOp::And),
        (Mod::Or, AtomicOp::Or),
        (Mod::Xor, AtomicOp::Xor),
    ];
    let reduce = reductions.into_iter().find(|&(m, _)| inst.has(m));
    let (map, coordinates) = tensor(t, inst, 0)?;
    let from = address(t, inst, 1, Space::Shared)?;
    let mut args: Args = [map, from].into_iter().collect();
    list(t, coordinates, T::S32, &mut args)?;
    let op = TensorOp::Store {
        rank: dimensions(inst) as u8,
        mode: mode(inst),
        reduce: reduce.map(|(_, op)| op),
    };
    emit(t, op, args);
    Ok(())
}

/// Gives a field of a tensor map another value.
pub(super) fn replace<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let has_ordinal = inst
        .pick(&[
            Mod::BoxDim,
            Mod::GlobalDim,
            Mod::ElementStride,
            Mod::GlobalStride,
        ])
        .is_some();
    let ordinal = match has_ordinal {
        true => t.src_const(inst, 1)? as u8,
        false => 0,
    };
    let fields = [
        (Mod::GlobalAddress, MapField::GlobalAddress),
        (Mod::Rank, MapField::Rank),
        (Mod::BoxDim, MapField::BoxDim(ordinal)),
        (Mod::GlobalDim, MapField::GlobalDim(ordinal)),
        (Mod::ElementStride, MapField::ElementStride(ordinal)),
        (Mod::GlobalStride, MapField::GlobalStride(ordinal)),
        (Mod::Elemtype, MapField::ElementType),
        (Mod::InterleaveLayout, MapField::Interleave),
        (Mod::SwizzleMode, MapField::Swizzle),
        (Mod::SwizzleAtomicity, MapField::Atomicity),
        (Mod::FillMode, MapField::Fill),
    ];
    let Some((_, field)) = fields.into_iter().find(|&(m, _)| inst.has(m)) else {
        return Err(inst.error("a field of the tensor map is expected"));
    };
    let space = match inst.pick(&[Mod::Global, Mod::SharedCta]) {
        Some(Mod::Global) => Space::Global,
        Some(_) => Space::Shared,
        None => Space::Generic,
    };
    let map = address(t, inst, 0, space)?;
    let last = inst.n_operands() - 1;
    let is_constant = matches!(
        inst.operand(last).map(|operand| &operand.kind),
        Some(OperandKind::Constant(_))
    );
    let value = if is_constant {
        let value = t.src_const(inst, last)? as u64;
        let bits = if inst.ty(0) == T::B64 {
            u64::MAX
        } else {
            u32::MAX.into()
        };
        t.iconst(Type::B64, value & bits)
    } else {
        let value = t.src(inst, last)?;
        t.zext_or_trunc(value, Type::B64)
    };
    emit(
        t,
        TensorOp::Replace(field),
        [map, value].into_iter().collect(),
    );
    Ok(())
}

/// Copies a map from shared to global memory. All threads of the warp do so, each the whole of it:
/// none changes the map before all have begun, and none goes on before all have ended.
pub(super) fn publish<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let to = place(t, inst, 0, Space::Global)?;
    let from = place(t, inst, 1, Space::Shared)?;
    let size = t.iconst(Type::B32, 128);
    wait_for_warp(t);
    copy_in_steps(t, to, from, size, (Type::B64, 2));
    wait_for_warp(t);
    Ok(())
}

/// `[map, {coordinates}]`: the generic address of the map, and the coordinates.
fn tensor<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    n: usize,
) -> Result<(Value, &'m Operand), Diagnostic> {
    let parts = match inst.operand(n).map(|operand| &operand.kind) {
        Some(OperandKind::Tuple(parts)) => &parts[..],
        _ => &[],
    };
    let [map, coordinates] = parts else {
        return Err(inst.operand_error(n, "`[tensor map, {coordinates}]` is expected here"));
    };
    Ok((t.generic_address_part(map)?, coordinates))
}

/// The generic address of operand `n`, given in a space.
fn address<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    n: usize,
    space: Space,
) -> Result<Value, Diagnostic> {
    let Some(operand) = inst.operand(n) else {
        return Err(inst.error(format!("`{}` lacks an address", inst.name)));
    };
    let addr = t.address_value(operand)?;
    Ok(t.to_generic(space, addr))
}

/// The elements of a list; one may stand without braces.
fn list<'m>(
    t: &mut Translator<'m>,
    operand: &'m Operand,
    ty: T,
    args: &mut Args,
) -> Result<(), Diagnostic> {
    let elems = match &operand.kind {
        OperandKind::Vector(elems) => &elems[..],
        _ => std::slice::from_ref(operand),
    };
    for elem in elems {
        let value = t.read(elem, ty)?;
        args.push(t.zext_or_trunc(value, Type::B32));
    }
    Ok(())
}
