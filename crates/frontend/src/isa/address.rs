//! Addresses: conversion between spaces, tests of a space, and memory on the stack. PTX ISA, "Data
//! Movement and Conversion Instructions: cvta, isspacep, mapa, getctarank" and "Stack Manipulation
//! Instructions".

use ptxjit_ir::{CTA_SHIFT, InstData, IntBinaryOp, MAX_CLUSTER, Space, Type, Value};

use crate::ast::OperandKind;
use crate::diag::Diagnostic;
use crate::translate::{Addr, AddrBase, Entity, Inst, PlaceBase, Translator};

use super::desc::{A, ANY, D, DP, Gate, InstDesc, imm, inst, since};
use super::memory::{SPACE, space_of};
use super::modifiers::Mod;
use super::types::PtxType as T;

const SIZES: &[T] = &[T::U32, T::U64];

pub const TABLE: &[InstDesc] = &[
    inst("isspacep", &[DP, ANY], isspacep)
        .choose(&[&[
            Mod::Const,
            Mod::Global,
            Mod::Local,
            Mod::Shared,
            Mod::SharedCta,
            Mod::SharedCluster,
            Mod::Param,
            Mod::ParamEntry,
        ]])
        .gates(&[
            since(2, 0, 20),
            since(3, 1, 20).mods(&[Mod::Const]),
            since(7, 7, 70).mods(&[Mod::Param, Mod::ParamEntry]),
            since(8, 3, 70).mods(&[Mod::ParamEntry]),
            since(7, 8, 30).mods(&[Mod::SharedCta]),
            since(7, 8, 90).mods(&[Mod::SharedCluster]),
        ])
        .check(check_isspacep),
    inst("cvta", &[D, A.address()], cvta)
        .types(&[SIZES])
        .choose(&[CVTA_SPACE])
        .gates(CVTA_GATES)
        .check(check_cvta),
    inst("cvta", &[D, A], cvta_to)
        .with(&[Mod::To])
        .types(&[SIZES])
        .choose(&[CVTA_SPACE])
        .gates(CVTA_GATES)
        .check(check_width),
    inst("alloca", &[D, A.nth(0), imm(8, 1 << 23).opt()], alloca)
        .types(&[SIZES])
        .gates(&[since(7, 3, 52)])
        .effect(),
    inst("stacksave", &[D], stacksave)
        .types(&[SIZES])
        .gates(&[since(7, 3, 52)])
        .effect(),
    inst("stackrestore", &[A], stackrestore)
        .types(&[SIZES])
        .gates(&[since(7, 3, 52)])
        .effect(),
    inst("mapa", &[D, A.address(), A.is(T::U32)], mapa)
        .types(&[SIZES])
        .optional(&[&[Mod::SharedCluster]])
        .gates(&[since(7, 8, 90)]),
    inst("getctarank", &[D.is(T::U32), A.address()], getctarank)
        .types(&[SIZES])
        .optional(&[&[Mod::SharedCluster]])
        .gates(&[since(7, 8, 90)]),
];

const CVTA_SPACE: &[Mod] = &[
    Mod::Const,
    Mod::Global,
    Mod::Local,
    Mod::Shared,
    Mod::SharedCta,
    Mod::SharedCluster,
    Mod::Param,
    Mod::ParamEntry,
];
const CVTA_GATES: &[Gate] = &[
    since(2, 0, 20),
    since(3, 1, 20).mods(&[Mod::Const]),
    since(7, 7, 70).mods(&[Mod::Param, Mod::ParamEntry]),
    since(8, 3, 70).mods(&[Mod::ParamEntry]),
    since(7, 8, 30).mods(&[Mod::SharedCta]),
    since(7, 8, 90).mods(&[Mod::SharedCluster]),
];

fn generic_space(m: Option<Mod>) -> Space {
    match m {
        Some(Mod::Const) => Space::Const,
        Some(Mod::Local) => Space::Local,
        Some(Mod::Shared | Mod::SharedCta) => Space::Shared,
        Some(Mod::SharedCluster) => Space::SharedCluster,
        Some(Mod::Param | Mod::ParamEntry) => Space::Param,
        _ => Space::Global,
    }
}

/// The address is in a 32- or 64-bit integer register; the instruction has no type.
fn check_isspacep<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let ty = isspacep_type(t, inst);
    match (inst.operand(1), ty) {
        (Some(operand), Some(ty)) => super::operands::check_src_operand(t, inst, operand, &A, ty),
        _ => Err(inst.operand_error(
            1,
            "`isspacep` takes an address in a register of 32 or 64 bits",
        )),
    }
}

fn isspacep_type<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Option<T> {
    let OperandKind::Name(name) = inst.operand(1)?.kind else {
        return Some(T::U64);
    };
    match t.lookup(name) {
        Some(Entity::Reg(id)) if t.reg(id).ty.bits() == 32 => Some(T::U32),
        Some(Entity::Reg(_)) | None => Some(T::U64),
        Some(Entity::Place(_) | Entity::Func(_)) => None,
    }
}

fn isspacep<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let ty = isspacep_type(t, inst).unwrap_or(T::U64);
    let arg = t.src_as(inst, 1, ty)?;
    let arg = t.zext_or_trunc(arg, Type::B64);
    let arg = t.widen(arg);
    let space = generic_space(inst.pick(SPACE));
    let result = t.ins(InstData::IsSpace { space, arg }, Type::B1);
    t.dst(inst, 0, result)
}

/// A generic address is as wide as the module says.
fn check_width<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    if inst.ty(0) == T::U32 && t.has_wide_addresses() {
        return Err(inst.error("a generic address has 64 bits: `.address_size` is 64"));
    }
    Ok(())
}

/// The variable that `cvta` names must lie in the space it says.
fn check_cvta<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    check_width(t, inst)?;
    let Some(operand) = inst.operand(1) else {
        return Ok(());
    };
    let is_symbol = match &operand.kind {
        OperandKind::Name(name) => {
            matches!(t.lookup(*name), Some(Entity::Place(_) | Entity::Func(_)))
        }
        OperandKind::NameOffset(_) | OperandKind::Element(_) => true,
        _ => false,
    };
    if is_symbol {
        let addr = t.resolve_address(operand)?;
        cvta_place(t, inst, &addr)?;
    }
    Ok(())
}

/// A formal of a device function has a `.local` address, like its copy in memory.
fn cvta_place<'m>(t: &Translator<'m>, inst: &Inst<'m>, addr: &Addr<'m>) -> Result<(), Diagnostic> {
    if let AddrBase::Place(place) = &addr.base
        && matches!(
            place.base,
            PlaceBase::Formal(_) | PlaceBase::Return(_) | PlaceBase::UnsizedFormal(_)
        )
        && inst.pick(&[Mod::Local, Mod::Param]).is_some()
    {
        return Ok(());
    }
    space_of(t, inst, addr).map(|_| ())
}

/// Address in a space to generic address.
fn cvta<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let arg = t.src(inst, 1)?;
    let arg = t.zext_or_trunc(arg, Type::B64);
    let space = generic_space(inst.pick(SPACE));
    let result = match is_narrow(t, inst) {
        true => t.narrow(space, arg),
        false => t.to_generic(space, arg),
    };
    write_address(t, inst, result)
}

/// Generic address to address in a space.
fn cvta_to<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let arg = t.src(inst, 1)?;
    let arg = t.zext_or_trunc(arg, Type::B64);
    let result = match generic_space(inst.pick(SPACE)) {
        Space::Global | Space::Generic => arg,
        space => {
            let arg = t.widen(arg);
            t.ins(InstData::FromGeneric { space, arg }, Type::B64)
        }
    };
    write_address(t, inst, result)
}

/// Whether the instruction makes a generic address of 32 bits.
fn is_narrow<'m>(t: &Translator<'m>, inst: &Inst<'m>) -> bool {
    inst.ty(0) == T::U32 || t.cuts_addresses()
}

/// The address of operand `n` in the window of the cluster.
fn cluster_address<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    n: usize,
) -> Result<Value, Diagnostic> {
    let arg = t.src(inst, n)?;
    let arg = t.zext_or_trunc(arg, Type::B64);
    if inst.has(Mod::SharedCluster) {
        return Ok(arg);
    }
    let (space, arg) = (Space::SharedCluster, t.widen(arg));
    Ok(t.ins(InstData::FromGeneric { space, arg }, Type::B64))
}

/// The same place in the shared memory of another CTA. A rank that no cluster has leads to where no
/// memory is.
fn mapa<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let addr = cluster_address(t, inst, 1)?;
    let rank = t.src(inst, 2)?;
    let most = t.iconst(Type::B32, MAX_CLUSTER.into());
    let rank = t.binary(IntBinaryOp::Umin, rank, most);
    let rank = t.zext_or_trunc(rank, Type::B64);
    let shift = t.iconst(Type::B32, CTA_SHIFT.into());
    let place = t.iconst(Type::B64, (1 << CTA_SHIFT) - 1);
    let place = t.binary(IntBinaryOp::And, addr, place);
    let rank = t.binary(IntBinaryOp::Shl, rank, shift);
    let mapped = t.binary(IntBinaryOp::Add, place, rank);
    let mapped = match (inst.has(Mod::SharedCluster), is_narrow(t, inst)) {
        (true, _) => mapped,
        (false, true) => t.narrow(Space::SharedCluster, mapped),
        (false, false) => t.to_generic(Space::SharedCluster, mapped),
    };
    write_address(t, inst, mapped)
}

/// The CTA in whose shared memory an address lies.
fn getctarank<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let addr = cluster_address(t, inst, 1)?;
    let shift = t.iconst(Type::B32, CTA_SHIFT.into());
    let rank = t.binary(IntBinaryOp::Ushr, addr, shift);
    let rank = t.zext_or_trunc(rank, Type::B32);
    t.dst(inst, 0, rank)
}

fn write_address<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    value: Value,
) -> Result<(), Diagnostic> {
    let ty = inst.ty(0).ir().unwrap_or(Type::B64);
    let value = t.zext_or_trunc(value, ty);
    t.dst(inst, 0, value)
}

/// Reserves local memory until the function returns or the stack is restored.
fn alloca<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let align = match inst.operand(2) {
        Some(_) => t.src_const(inst, 2)?,
        None => 8,
    };
    let Some(align) = u32::try_from(align)
        .ok()
        .filter(|align| align.is_power_of_two())
    else {
        return Err(inst.operand_error(2, format!("the alignment {align} is not a power of two")));
    };
    let size = t.src(inst, 1)?;
    let size = t.zext_or_trunc(size, Type::B64);
    let result = t.ins(
        InstData::Alloca {
            size,
            align: align.max(8),
        },
        Type::B64,
    );
    write_address(t, inst, result)
}

fn stacksave<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let top = t.ins(InstData::StackSave, Type::B64);
    write_address(t, inst, top)
}

fn stackrestore<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let arg = t.src(inst, 0)?;
    let arg = t.zext_or_trunc(arg, Type::B64);
    t.ins_void(InstData::StackRestore { arg });
    Ok(())
}
