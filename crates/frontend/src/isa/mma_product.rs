//! How `mma` is translated: to the one instruction on matrices that the IR has.

use ptxjit_ir::{FragmentLayout, MatrixFmt, Mma, ProductOp, SumFmt};

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
    if let (true, MatrixFmt::F16, [(a, _), (b, _)]) = (inst.has(Mod::M8n8k4), mma.a, &layouts[..]) {
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
        layout: FragmentLayout::Quads,
        selector: None,
    })
}
