//! Bounds of integer values, as far as they follow from special registers and launch facts.

use ptxjit_abi::MOST_THREADS;
use ptxjit_ir::{Function, InstData, IntBinaryOp, ResizeOp, SpecialReg, Type, Value};

use crate::PlanFacts;
use crate::cost;

/// Bounds of a `B32` or `B64` value as a signed integer over all lanes, if they are known and no
/// wrap can occur on the way.
pub(crate) fn signed(func: &Function, facts: PlanFacts, value: Value) -> Option<(i64, i64)> {
    bounds(func, facts, value, cost::DEPTH_OF_RANGE)
}

#[expect(clippy::wildcard_enum_match_arm, reason = "others have no known range")]
fn bounds(func: &Function, facts: PlanFacts, value: Value, depth: u32) -> Option<(i64, i64)> {
    let depth = depth.checked_sub(1)?;
    let of = |value: Value| bounds(func, facts, value, depth);
    match *func.def_inst(value)? {
        InstData::Const { ty, bits } => Some((ty.signed(bits), ty.signed(bits))),
        InstData::Sreg { sreg } => sreg_bounds(facts, sreg),
        InstData::Resize {
            op: ResizeOp::Sext,
            from: Type::B32,
            arg,
            ..
        } => of(arg),
        InstData::Resize {
            op: ResizeOp::Uext,
            from: Type::B32,
            arg,
            ..
        } => of(arg).filter(|&(lo, _)| lo >= 0),
        InstData::IntBinary {
            op,
            ty,
            args: [a, b],
        } => {
            if op == IntBinaryOp::Add
                && facts.small_grid
                && (is_global_id(func, a, b) || is_global_id(func, b, a))
            {
                return Some((0, MOST_THREADS as i64 - 1));
            }
            binary(op, of(a), of(b)).filter(|&(lo, hi)| fits(ty, lo, hi))
        }
        _ => None,
    }
}

/// `a` is `%ctaid.x * %ntid.x` and `b` is `%tid.x`.
fn is_global_id(func: &Function, a: Value, b: Value) -> bool {
    let is = |value: Value, sreg| func.def_inst(value) == Some(&InstData::Sreg { sreg });
    let Some((IntBinaryOp::Mul, _, [x, y])) = func.as_binary(a) else {
        return false;
    };
    let is_product = |x, y| is(x, SpecialReg::CtaidX) && is(y, SpecialReg::NtidX);
    is(b, SpecialReg::TidX) && (is_product(x, y) || is_product(y, x))
}

fn fits(ty: Type, lo: i64, hi: i64) -> bool {
    match ty {
        Type::B32 => lo >= i64::from(i32::MIN) && hi <= i64::from(i32::MAX),
        Type::B64 => true,
        Type::B1 | Type::B8 | Type::B16 => false,
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "others have no known range")]
fn binary(op: IntBinaryOp, a: Option<(i64, i64)>, b: Option<(i64, i64)>) -> Option<(i64, i64)> {
    if op == IntBinaryOp::And {
        // A mask that is not negative bounds the result, whatever the other operand is.
        let masks = [a, b].into_iter().flatten().filter(|&(lo, _)| lo >= 0);
        return Some((0, masks.map(|(_, hi)| hi).min()?));
    }
    let ((alo, ahi), (blo, bhi)) = (a?, b?);
    match op {
        IntBinaryOp::Add => Some((alo.checked_add(blo)?, ahi.checked_add(bhi)?)),
        IntBinaryOp::Sub => Some((alo.checked_sub(bhi)?, ahi.checked_sub(blo)?)),
        IntBinaryOp::Mul | IntBinaryOp::SmulWide => {
            let products = [
                alo.checked_mul(blo)?,
                alo.checked_mul(bhi)?,
                ahi.checked_mul(blo)?,
                ahi.checked_mul(bhi)?,
            ];
            Some((*products.iter().min()?, *products.iter().max()?))
        }
        IntBinaryOp::Shl if blo == bhi && (0..32).contains(&blo) => {
            Some((alo.checked_mul(1 << blo)?, ahi.checked_mul(1 << blo)?))
        }
        IntBinaryOp::Ushr if blo == bhi && alo >= 0 && (0..64).contains(&blo) => {
            Some((alo >> blo, ahi >> blo))
        }
        IntBinaryOp::Sshr if blo == bhi && (0..64).contains(&blo) => Some((alo >> blo, ahi >> blo)),
        IntBinaryOp::Or | IntBinaryOp::Xor if alo >= 0 && blo >= 0 => Some((
            0,
            i64::try_from((ahi.max(bhi) as u64 + 1).checked_next_power_of_two()?).ok()? - 1,
        )),
        _ => None,
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "others have no known range")]
fn sreg_bounds(facts: PlanFacts, sreg: SpecialReg) -> Option<(i64, i64)> {
    let ctaid = match facts.small_ctaid {
        true => 0xffff,
        false => i64::from(i32::MAX) - 1,
    };
    Some(match sreg {
        SpecialReg::TidX | SpecialReg::TidY => (0, 1023),
        SpecialReg::TidZ => (0, 63),
        SpecialReg::NtidX | SpecialReg::NtidY => (1, 1024),
        SpecialReg::NtidZ => (1, 64),
        SpecialReg::LaneId | SpecialReg::WarpId => (0, 31),
        SpecialReg::CtaidX => (0, ctaid),
        SpecialReg::NctaidX => (1, ctaid + 1),
        SpecialReg::CtaidY | SpecialReg::CtaidZ => (0, 65_535),
        SpecialReg::NctaidY | SpecialReg::NctaidZ => (1, 65_536),
        _ => return None,
    })
}
