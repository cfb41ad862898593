//! Moves among registers: PTX ISA, "Data Movement and Conversion Instructions: mov" and "prmt".

use ptxjit_ir::{IntBinaryOp, IntTernaryOp, Type, Value};
use smallvec::SmallVec;

use crate::ast::OperandKind;
use crate::translate::{Inst, Translator};

use super::common::Done;
use super::desc::{A, B, C, D, Elems, InstDesc, inst, since};
use super::modifiers::Mod;
use super::modifiers::Mod::{B4e, Ecl, Ecr, F4e, Rc8, Rc16, V2, V4};
use super::operands::part_type;
use super::types::PtxType;
use super::types::PtxType::*;

const MOV: &[PtxType] = &[Pred, U16, U32, U64, S16, S32, S64, F32, F64];
const MOV_BITS: &[PtxType] = &[B16, B32, B64, B128];
const MOV_VECTOR: &[PtxType] = &[B16, B32, B64, U16, U32, U64, S16, S32, S64, F32, F64];

/// The rows of `mov` and `prmt`.
pub const TABLE: &[InstDesc] = &[
    inst("mov", &[D, A.sreg().address().negatable()], mov)
        .types(&[MOV])
        .gates(&[since(1, 0, 13).types(&[F64])]),
    inst(
        "mov",
        &[D.vec(Elems::Parts), A.sreg().address().vec(Elems::Parts)],
        mov_parts,
    )
    .types(&[MOV_BITS])
    .gates(&[since(8, 3, 70).types(&[B128])])
    .check(check_parts),
    inst(
        "mov",
        &[D.vec(Elems::ByModifier), A.sreg().vec(Elems::ByModifier)],
        mov_vector,
    )
    .types(&[MOV_VECTOR])
    .choose(&[&[V2, V4]]),
    inst("prmt", &[D, A, B, C], prmt)
        .types(&[&[B32]])
        .optional(&[&[F4e, B4e, Rc8, Ecl, Ecr, Rc16]])
        .gates(&[since(2, 0, 20)]),
];

/// `d = a`: a register, constant, special register or address.
fn mov<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let value = t.src(inst, 1)?;
    t.dst(inst, 0, value)
}

/// Parts stand on one side only.
fn check_parts<'m>(_: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let is_list = |n| {
        matches!(
            inst.operand(n).map(|operand| &operand.kind),
            Some(OperandKind::Vector(_))
        )
    };
    if is_list(0) && is_list(1) {
        return Err(inst.error("`mov` of a list to a list needs `.v2` or `.v4`"));
    }
    Ok(())
}

/// `d = a` of bits, where either side may be a list of parts, the least significant first.
fn mov_parts<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let ty = inst.ty(0);
    let values = read_parts(t, inst, ty)?;
    match inst.operand(0) {
        Some(operand) => match &operand.kind {
            OperandKind::Vector(elems) => {
                let part = part_type(ty, elems.len()).unwrap_or(ty);
                let parts = split(t, &values, part);
                t.write_elems(operand, part, &parts)
            }
            _ => t.dst_elems(inst, 0, &values),
        },
        None => Ok(()),
    }
}

/// The source as one value, or as the two halves of 128 bits.
fn read_parts<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    ty: PtxType,
) -> Result<SmallVec<[Value; 4]>, crate::diag::Diagnostic> {
    let Some(operand) = inst.operand(1) else {
        return Err(inst.error("`mov` lacks its source"));
    };
    let OperandKind::Vector(elems) = &operand.kind else {
        return Ok(t.src_elems(inst, 1)?.into_iter().flatten().collect());
    };
    let part = part_type(ty, elems.len()).unwrap_or(ty);
    let parts: SmallVec<[Value; 8]> = t.read_elems(operand, part)?.into_iter().flatten().collect();
    let to = ty.ir().unwrap_or(Type::B64);
    let n = (to.bits() / part.bits()).max(1) as usize;
    Ok(parts.chunks(n).map(|parts| t.concat(parts, to)).collect())
}

/// The parts of one value, or of two halves, the least significant first.
fn split(t: &mut Translator<'_>, values: &[Value], part: PtxType) -> SmallVec<[Value; 8]> {
    let to = part.ir().unwrap_or(Type::B64);
    let mut parts = SmallVec::new();
    for &value in values {
        let bits = t.value_ty(value).bits();
        for from in (0..bits).step_by(to.bits() as usize) {
            parts.push(t.extract(value, from, to));
        }
    }
    parts
}

/// `d = a` for each element of a vector.
fn mov_vector<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let values: SmallVec<[Value; 4]> = t.src_elems(inst, 1)?.into_iter().flatten().collect();
    t.dst_elems(inst, 0, &values)
}

/// Selectors of the special modes for `c & 3` = 0, 1, 2, 3, each 16 bits, the first lowest.
fn prmt_selectors(mode: Mod) -> u64 {
    let [s0, s1, s2, s3]: [u64; 4] = match mode {
        F4e => [0x3210, 0x4321, 0x5432, 0x6543],
        B4e => [0x5670, 0x6701, 0x7012, 0x0123],
        Rc8 => [0x0000, 0x1111, 0x2222, 0x3333],
        Ecl => [0x3210, 0x3211, 0x3222, 0x3333],
        Ecr => [0x0000, 0x1110, 0x2210, 0x3210],
        // `.rc16`
        _ => [0x1010, 0x3232, 0x1010, 0x3232],
    };
    s0 | s1 << 16 | s2 << 32 | s3 << 48
}

/// Four bytes picked from the eight of `b:a`; the special modes stand for selectors.
fn prmt<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let (a, b, c) = (t.src(inst, 1)?, t.src(inst, 2)?, t.src(inst, 3)?);
    let selectors = match inst.pick(&[F4e, B4e, Rc8, Ecl, Ecr, Rc16]) {
        None => c,
        Some(mode) => {
            let three = t.iconst(Type::B32, 3);
            let count = t.iconst(Type::B32, 4);
            let low = t.binary(IntBinaryOp::And, c, three);
            let from = t.binary(IntBinaryOp::Shl, low, count);
            let table = t.iconst(Type::B64, prmt_selectors(mode));
            let moved = t.binary(IntBinaryOp::Ushr, table, from);
            t.extract(moved, 0, Type::B32)
        }
    };
    let d = t.ternary(IntTernaryOp::Prmt, [a, b, selectors]);
    t.dst(inst, 0, d)
}
