//! How `mma` is translated: to the one instruction on matrices that the IR has.

use ptxjit_ir::{
    FragmentLayout, InstData, IntBinaryOp, MatrixFmt, Mma, NumFmt, ProductOp, Scale, SpecialReg,
    SumFmt, Type, Value,
};

use crate::diag::Diagnostic;
use crate::translate::{Inst, Translator};

use super::fragments::{self, registers};
use super::mma::layouts;
use super::modifiers::Mod;
use super::types::PtxType as T;

/// `d = a * b + c`.
pub(super) fn product<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let Some(mut mma) = shaped(inst) else {
        return super::not_executable(t, inst);
    };
    let layouts = layouts(t, inst);
    let is_half = matches!(mma.a, MatrixFmt::F16 | MatrixFmt::Bf16);
    if let (true, true, [(a, _), (b, _)]) = (inst.has(Mod::M8n8k4), is_half, &layouts[..]) {
        mma.layout = FragmentLayout::QuadPairs {
            a_by_columns: *a == Mod::Col,
            b_by_columns: *b == Mod::Col,
        };
    }
    let [a, b, c] = [1, 2, 3].map(|n| registers(t, inst, n));
    let d = fragments::product(t, mma, [&a?, &b?, &c?, &[]]);
    t.dst_elems(inst, 0, &d)
}

/// `d = a * b + c`, where `a` is sparse.
pub(super) fn sparse<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let Some(mut mma) = shaped(inst) else {
        return super::not_executable(t, inst);
    };
    mma.selector = Some(t.src_const(inst, 5)? as u8);
    let [a, b, c] = [1, 2, 3].map(|n| registers(t, inst, n));
    let metadata = registers(t, inst, 4)?;
    let d = fragments::product(t, mma, [&a?, &b?, &c?, &metadata]);
    t.dst_elems(inst, 0, &d)
}

/// `d = a * b + c` with block scaling, where `a` may be sparse.
pub(super) fn scaled<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let Some(mut mma) = shaped(inst) else {
        return super::not_executable(t, inst);
    };
    if inst.pick(&[Mod::KindMxf4, Mod::KindMxf4nvf4]).is_some() {
        (mma.a, mma.b) = (MatrixFmt::PackedE2m1, MatrixFmt::PackedE2m1);
    }
    mma.scale = Some(Scale {
        blocks: match inst.pick(&[Mod::ScaleVec4X, Mod::KindMxf8f6f4]) {
            Some(Mod::ScaleVec4X) => 4,
            Some(_) => 1,
            None => 2,
        },
        fmt: match inst.ty(4) {
            T::Ue4m3 => NumFmt::E4m3,
            _ => NumFmt::Ue8m0,
        },
    });
    let mut further = Vec::new();
    if inst.has(Mod::SpOrderedMetadata) {
        mma.selector = Some(t.src_const(inst, 5)? as u8);
        further.extend(registers(t, inst, 4)?);
    }
    let first = inst.n_operands() - 4;
    further.push(factors(t, inst, first, 2)?);
    further.push(factors(t, inst, first + 2, 1)?);
    let [a, b, c] = [1, 2, 3].map(|n| registers(t, inst, n));
    let d = fragments::product(t, mma, [&a?, &b?, &c?, &further]);
    t.dst_elems(inst, 0, &d)
}

/// The factors at operand `n`, brought to where a product expects them. The next operand says in
/// which byte they begin, and which lanes of each quad have them, `step` lanes apart.
fn factors<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    n: usize,
    step: u64,
) -> Result<Value, Diagnostic> {
    let word = registers(t, inst, n)?[0];
    let ids = registers(t, inst, n + 1)?;
    let [byte, lane] = [(ids[0], 8), (ids[1], step)].map(|(id, factor)| {
        let id = t.zext_or_trunc(id, Type::B32);
        fragments::scaled(t, id, factor, 0)
    });
    let sreg = SpecialReg::LaneId;
    let own = t.ins(InstData::Sreg { sreg }, Type::B32);
    let source = t.binary(IntBinaryOp::Add, own, lane);
    let word = fragments::from_lane(t, word, source);
    Ok(t.binary(IntBinaryOp::Ushr, word, byte))
}

/// What an instruction says of its product.
fn shaped(inst: &Inst<'_>) -> Option<Mma> {
    const SHAPES: &[(Mod, usize, usize)] = &[
        (Mod::M8n8k4, 8, 4),
        (Mod::M8n8k16, 8, 16),
        (Mod::M8n8k32, 8, 32),
        (Mod::M8n8k128, 8, 128),
        (Mod::M16n8k4, 16, 4),
        (Mod::M16n8k8, 16, 8),
        (Mod::M16n8k16, 16, 16),
        (Mod::M16n8k32, 16, 32),
        (Mod::M16n8k64, 16, 64),
        (Mod::M16n8k128, 16, 128),
        (Mod::M16n8k256, 16, 256),
    ];
    let &(_, m, k) = SHAPES.iter().find(|&&(shape, ..)| inst.has(shape))?;
    let types = [0, 1, 2, 3].map(|n| inst.ty(n));
    Some(Mma {
        m,
        k,
        ..description(inst, types)?
    })
}

/// What the types of D, A, B and C and the modifiers of a product say of it, but for the shape.
pub(super) fn description(inst: &Inst<'_>, [d, a, b, c]: [T; 4]) -> Option<Mma> {
    let elements = |ty| {
        Some(match ty {
            T::F16 => MatrixFmt::F16,
            T::Bf16 => MatrixFmt::Bf16,
            T::Tf32 => MatrixFmt::Tf32,
            T::F64 => MatrixFmt::F64,
            T::E4m3 => MatrixFmt::E4m3,
            T::E5m2 => MatrixFmt::E5m2,
            T::E3m2 => MatrixFmt::E3m2,
            T::E2m3 => MatrixFmt::E2m3,
            T::E2m1 => MatrixFmt::E2m1,
            T::S8 => MatrixFmt::S8,
            T::U8 => MatrixFmt::U8,
            T::S4 => MatrixFmt::S4,
            T::U4 => MatrixFmt::U4,
            T::B1 => MatrixFmt::B1,
            _ => return None,
        })
    };
    let sums = |ty| {
        Some(match ty {
            T::F16 => SumFmt::F16,
            T::F32 => SumFmt::F32,
            T::F64 => SumFmt::F64,
            T::S32 => SumFmt::S32,
            _ => return None,
        })
    };
    let a = elements(a)?;
    let op = match inst.pick(&[Mod::Xor, Mod::And]) {
        Some(Mod::Xor) if a == MatrixFmt::B1 => ProductOp::Xor,
        Some(_) if a == MatrixFmt::B1 => ProductOp::And,
        _ => ProductOp::Mul,
    };
    Some(Mma {
        m: 16,
        k: 16,
        a,
        b: elements(b)?,
        c: sums(c)?,
        d: sums(d)?,
        op,
        round: inst.mode().round,
        saturates: inst.has(Mod::Satfinite),
        layout: FragmentLayout::Quads { b_by_rows: false },
        selector: None,
        scale: None,
    })
}
