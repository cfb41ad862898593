//! Conversions: PTX ISA, "Data Movement and Conversion Instructions: cvt" and "cvt.pack".
//!
//! Conversions among integers are changes of width here; every other conversion of one number is
//! one IR instruction, and packed forms are put together from those.

use ptxjit_ir::{Convert, InstData, IntBinaryOp, NumFmt, Round, Type, Value};
use smallvec::SmallVec;

use crate::translate::{Inst, Translator};

use super::common::{Done, ROUND, map1};
use super::desc::{A, B, C, D, Elems, Gate, InstDesc, inst, since};
use super::modifiers::Mod;
use super::modifiers::Mod::{
    Ftz, Pack, Relu, Rm, Rmi, Rn, Rna, Rni, Rp, Rpi, Rs, Rz, Rzi, Sat, Satfinite,
};
use super::types::PtxType;
use super::types::PtxType::*;

const INTS: &[PtxType] = &[U8, U16, U32, U64, S8, S16, S32, S64];
const FLOATS: &[PtxType] = &[F16, F32, F64];
const NOT_F32_OR_F16: &[PtxType] = &[U8, U16, U32, U64, S8, S16, S32, S64, F64];

/// Rounding to an integral value.
const ROUND_INT: &[Mod] = &[Rni, Rzi, Rmi, Rpi];
const ANY_ROUND: &[Mod] = &[Rn, Rz, Rm, Rp, Rni, Rzi, Rmi, Rpi];
const RN_RZ: &[Mod] = &[Rn, Rz];

const GATES: &[Gate] = &[since(1, 0, 13).types(&[F64])];
const GATES_RELU: &[Gate] = &[since(7, 0, 80), since(8, 1, 80).mods(&[Satfinite])];
const GATES_BF16: &[Gate] = &[since(7, 8, 90)];
const GATES_RS: &[Gate] = &[since(8, 7, 0).only(&["100a", "103a"])];
/// The small formats are specific to these targets, and to their families from PTX 8.8 on.
const GATES_SMALL: &[Gate] = &[since(8, 6, 0).only(&[
    "100a", "101a", "103a", "110a", "120a", "121a", "100f", "101f", "110f", "120f",
])];

const F8X2: &[PtxType] = &[E4m3x2, E5m2x2];
const F6X2: &[PtxType] = &[E2m3x2, E3m2x2];
const F8X4_F6X4: &[PtxType] = &[E4m3x4, E5m2x4, E2m3x4, E3m2x4];

/// Four f32 in braces.
const FOUR: super::desc::Opd = A.nth(1).vec(Elems::Of(4));
/// The random bits of `.rs`.
const RANDOM: super::desc::Opd = C.is(B32).reg();

/// The rows of `cvt` and `cvt.pack`.
pub const TABLE: &[InstDesc] = &[
    inst(
        "cvt",
        &[D.or_wider(), A.nth(1).or_wider().sreg()],
        int_to_int,
    )
    .types(&[INTS, INTS])
    .optional(&[&[Sat]])
    .check(check_int_to_int),
    inst("cvt", &[D.or_wider(), A.nth(1).or_wider()], convert)
        .types(&[INTS, FLOATS])
        .choose(&[ROUND_INT])
        .optional(&[&[Ftz], &[Sat]])
        .gates(GATES)
        .check(check_ftz),
    inst("cvt", &[D.or_wider(), A.nth(1).or_wider()], convert)
        .types(&[FLOATS, INTS])
        .choose(&[ROUND])
        .optional(&[&[Ftz], &[Sat]])
        .gates(GATES)
        .check(check_ftz),
    inst("cvt", &[D.or_wider(), A.nth(1).or_wider()], convert)
        .types(&[FLOATS, FLOATS])
        .optional(&[ANY_ROUND, &[Ftz], &[Sat]])
        .gates(GATES)
        .check(check_float_to_float),
    inst("cvt", &[D.or_wider(), A.nth(1).or_wider()], convert)
        .types(&[&[F16], &[F32]])
        .choose(&[RN_RZ])
        .optional(&[&[Relu], &[Satfinite]])
        .gates(GATES_RELU),
    inst("cvt", &[D, A.nth(1)], convert)
        .types(&[&[Bf16], &[F32]])
        .choose(&[ROUND])
        .optional(&[&[Ftz]])
        .gates(&[since(7, 0, 80)]),
    inst("cvt", &[D, A.nth(1)], convert)
        .types(&[&[Bf16], &[F32]])
        .choose(&[RN_RZ])
        .optional(&[&[Relu], &[Satfinite]])
        .gates(GATES_RELU),
    inst("cvt", &[D, A.nth(1)], convert)
        .types(&[&[Bf16], NOT_F32_OR_F16])
        .choose(&[ROUND])
        .gates(GATES_BF16),
    // Between the two formats of 16 bits, ptxas does without a rounding modifier.
    inst("cvt", &[D, A.nth(1)], convert)
        .types(&[&[Bf16], &[F16]])
        .optional(&[ROUND])
        .gates(GATES_BF16),
    inst("cvt", &[D, A.nth(1)], convert)
        .types(&[&[Bf16], &[Bf16]])
        .optional(&[ROUND_INT])
        .gates(GATES_BF16),
    inst("cvt", &[D, A.nth(1)], convert)
        .types(&[INTS, &[Bf16]])
        .choose(&[ROUND_INT])
        .gates(GATES_BF16),
    inst("cvt", &[D, A.nth(1)], convert)
        .types(&[&[F32], &[Bf16]])
        .optional(&[ROUND, &[Ftz]])
        .gates(&[since(7, 1, 80), since(7, 8, 90).mods(&[Ftz])]),
    inst("cvt", &[D, A.nth(1)], convert)
        .types(&[&[F16], &[Bf16]])
        .optional(&[ROUND])
        .gates(GATES_BF16),
    inst("cvt", &[D, A.nth(1)], convert)
        .types(&[&[F64], &[Bf16]])
        .optional(&[ROUND])
        .gates(GATES_BF16),
    inst("cvt", &[D, A.nth(1)], convert)
        .types(&[&[Tf32], &[F32]])
        .choose(&[&[Rna]])
        .optional(&[&[Satfinite]])
        .gates(GATES_RELU),
    inst("cvt", &[D, A.nth(1)], convert)
        .types(&[&[Tf32], &[F32]])
        .choose(&[RN_RZ])
        .optional(&[&[Relu], &[Satfinite]])
        .gates(&[since(7, 8, 90), since(8, 6, 100).mods(&[Satfinite])]),
    // Packed pairs: the first source goes to the upper part.
    inst("cvt", &[D, A.nth(1).or_wider(), B.nth(1).or_wider()], pack2)
        .types(&[&[F16x2], &[F32]])
        .choose(&[RN_RZ])
        .optional(&[&[Relu], &[Satfinite]])
        .gates(GATES_RELU),
    inst("cvt", &[D, A.nth(1), B.nth(1)], pack2)
        .types(&[&[Bf16x2], &[F32]])
        .choose(&[RN_RZ])
        .optional(&[&[Relu], &[Satfinite]])
        .gates(GATES_RELU),
    inst("cvt", &[D, A.nth(1), B.nth(1), RANDOM], pack2_random)
        .types(&[&[F16x2, Bf16x2], &[F32]])
        .with(&[Rs])
        .optional(&[&[Relu], &[Satfinite]])
        .gates(GATES_RS),
    inst("cvt", &[D, A.nth(1), B.nth(1)], pack2)
        .types(&[F8X2, &[F32]])
        .choose(&[&[Rn], &[Satfinite]])
        .optional(&[&[Relu]])
        .gates(&[since(7, 8, 89)])
        .check(check_f8),
    inst("cvt", &[D, A.nth(1)], pack2_from_pair)
        .types(&[F8X2, &[F16x2]])
        .choose(&[&[Rn], &[Satfinite]])
        .optional(&[&[Relu]])
        .gates(&[since(7, 8, 89)])
        .check(check_f8),
    inst("cvt", &[D, A.nth(1)], pack2_from_pair)
        .types(&[&[F16x2], F8X2])
        .choose(&[&[Rn]])
        .optional(&[&[Relu]])
        .gates(&[since(7, 8, 89)])
        .check(check_f8),
    inst("cvt", &[D, A.nth(1), B.nth(1)], pack2)
        .types(&[&[E2m1x2, E2m3x2, E3m2x2], &[F32]])
        .choose(&[&[Rn], &[Satfinite]])
        .optional(&[&[Relu]])
        .gates(GATES_SMALL)
        .check(check_small),
    inst("cvt", &[D, A.nth(1)], pack2_from_pair)
        .types(&[&[F16x2], F6X2])
        .choose(&[&[Rn]])
        .optional(&[&[Relu]])
        .gates(GATES_SMALL)
        .check(check_small),
    inst("cvt", &[D, A.nth(1)], pack2_from_pair)
        .types(&[&[F16x2], &[E2m1x2]])
        .choose(&[&[Rn]])
        .optional(&[&[Relu]])
        .gates(GATES_SMALL)
        .check(check_small),
    inst("cvt", &[D, A.nth(1), B.nth(1)], pack2)
        .types(&[&[Ue8m0x2], &[F32]])
        .choose(&[&[Rz, Rp]])
        .optional(&[&[Satfinite]])
        .gates(GATES_SMALL)
        .check(check_small),
    inst("cvt", &[D, A.nth(1)], pack2_from_pair)
        .types(&[&[Ue8m0x2], &[Bf16x2]])
        .choose(&[&[Rz, Rp]])
        .optional(&[&[Satfinite]])
        .gates(GATES_SMALL)
        .check(check_small),
    inst("cvt", &[D, A.nth(1)], pack2_from_pair)
        .types(&[&[Bf16x2], &[Ue8m0x2]])
        .choose(&[&[Rn]])
        .gates(GATES_SMALL)
        .check(check_small),
    inst("cvt", &[D, FOUR, RANDOM], pack4_random)
        .types(&[F8X4_F6X4, &[F32]])
        .with(&[Rs])
        .choose(&[&[Satfinite]])
        .optional(&[&[Relu]])
        .gates(GATES_RS),
    inst("cvt", &[D, FOUR, RANDOM], pack4_random)
        .types(&[&[E2m1x4], &[F32]])
        .with(&[Rs])
        .choose(&[&[Satfinite]])
        .optional(&[&[Relu]])
        .gates(GATES_RS),
    inst(
        "cvt",
        &[
            D.is(U32).or_wider(),
            A.nth(1).or_wider(),
            B.nth(1).or_wider(),
        ],
        pack_ints,
    )
    .types(&[&[U16, S16], &[S32]])
    .with(&[Pack])
    .lead(&[Pack])
    .choose(&[&[Sat]])
    .gates(&[since(6, 5, 72)]),
    inst(
        "cvt",
        &[
            D.is(U32).or_wider(),
            A.nth(1).or_wider(),
            B.nth(1).or_wider(),
            C.nth(2).or_wider(),
        ],
        pack_ints,
    )
    .types(&[&[U2, S2, U4, S4, U8, S8], &[S32], &[B32]])
    .with(&[Pack])
    .lead(&[Pack])
    .choose(&[&[Sat]])
    .gates(&[since(6, 5, 72), since(6, 5, 75).types(&[U2, S2, U4, S4])]),
];

/// Whether `.ftz` may stand: one side is f32.
fn check_ftz<'m>(_: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    if inst.ftz() && inst.ty(0) != F32 && inst.ty(1) != F32 {
        return Err(inst.error("`.ftz` on `cvt` needs a source or destination of type `.f32`"));
    }
    Ok(())
}

/// A float conversion must round where it can lose precision, and must not where it cannot; between
/// equal types it may round to an integral value.
fn check_float_to_float<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let (to, from) = (inst.ty(0), inst.ty(1));
    let to_integral = inst.pick(ROUND_INT);
    let rounding = inst.pick(ROUND);
    let message = if to == from {
        rounding.map(|m| {
            format!(
                "`.{}` cannot stand between equal types: only `.rni`, `.rzi`, `.rmi` or `.rpi` can",
                m.name()
            )
        })
    } else if let Some(m) = to_integral {
        Some(format!(
            "`.{}` needs equal source and destination types",
            m.name()
        ))
    } else if to.bits() < from.bits() && rounding.is_none() {
        Some(format!(
            "`cvt.{}.{}` needs a rounding modifier: `.rn`, `.rz`, `.rm` or `.rp`",
            to.name(),
            from.name()
        ))
    } else if to.bits() > from.bits() {
        rounding.map(|m| {
            format!(
                "`.{}` cannot stand on `cvt.{}.{}`, which is exact",
                m.name(),
                to.name(),
                from.name()
            )
        })
    } else {
        None
    };
    match message {
        Some(message) => Err(inst.error(message)),
        None => check_ftz(t, inst),
    }
}

/// Least and greatest number of an integer type.
fn int_range(ty: PtxType) -> (i128, i128) {
    let bits = ty.bits();
    let is_signed = ty.is_signed() || matches!(ty, S2 | S4);
    if is_signed {
        (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    } else {
        (0, (1 << bits) - 1)
    }
}

fn check_int_to_int<'m>(_: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let (to, from) = (int_range(inst.ty(0)), int_range(inst.ty(1)));
    if inst.has(Sat) && to.0 <= from.0 && to.1 >= from.1 {
        let (to, from) = (inst.ty(0).name(), inst.ty(1).name());
        return Err(inst.error(format!(
            "`.sat` cannot stand here: `.{to}` has every value of `.{from}`"
        )));
    }
    Ok(())
}

/// On sm_89 the 8-bit formats came with PTX 8.1.
fn check_f8<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    if t.arch().number < 90 && !t.version().at_least(8, 1) {
        let version = t.version();
        let message = format!(
            "`{}` on sm_89 needs PTX 8.1, but `.version` is {}.{}",
            inst.name, version.major, version.minor
        );
        return Err(inst.error(message));
    }
    Ok(())
}

/// Family-specific targets came with PTX 8.8.
pub(super) fn check_small<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    if t.arch().suffix == crate::ast::ArchSuffix::Family && !t.version().at_least(8, 8) {
        return Err(inst.error(format!(
            "`{}` on a family-specific target needs PTX 8.8",
            inst.name
        )));
    }
    Ok(())
}

/// `d = a` in another integer type: the low bits, extended by the sign of the destination; `.sat`
/// clamps first.
fn int_to_int<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let (to, from) = (inst.ty(0), inst.ty(1));
    map1(t, inst, |t, a| {
        let a = if inst.has(Sat) {
            clamp_int(t, a, from, int_range(to))
        } else {
            a
        };
        let width = to.ir().unwrap_or(Type::B32);
        if from.is_signed() {
            t.sext_or_trunc(a, width)
        } else {
            t.zext_or_trunc(a, width)
        }
    })
}

/// Clamps a value of integer type `from`, as far as it can lie outside of `least` to `greatest`.
fn clamp_int(
    t: &mut Translator<'_>,
    value: Value,
    from: PtxType,
    (least, greatest): (i128, i128),
) -> Value {
    let ty = t.value_ty(value);
    let (from_least, from_greatest) = int_range(from);
    let (min, max) = super::integer::min_max_ops(from.is_signed());
    let mut value = value;
    if least > from_least {
        let bound = t.iconst(ty, least as u64);
        value = t.binary(max, value, bound);
    }
    if greatest < from_greatest {
        let bound = t.iconst(ty, greatest as u64);
        value = t.binary(min, value, bound);
    }
    value
}

/// The format of one element of a type.
pub(super) fn num_fmt(ty: PtxType) -> NumFmt {
    match ty {
        U8 => NumFmt::U8,
        U16 => NumFmt::U16,
        U32 => NumFmt::U32,
        U64 => NumFmt::U64,
        S8 => NumFmt::S8,
        S16 => NumFmt::S16,
        S32 => NumFmt::S32,
        S64 => NumFmt::S64,
        F16 | F16x2 => NumFmt::F16,
        Bf16 | Bf16x2 => NumFmt::Bf16,
        F64 => NumFmt::F64,
        Tf32 => NumFmt::Tf32,
        E4m3x2 | E4m3x4 => NumFmt::E4m3,
        E5m2x2 | E5m2x4 => NumFmt::E5m2,
        E2m3x2 | E2m3x4 => NumFmt::E2m3,
        E3m2x2 | E3m2x4 => NumFmt::E3m2,
        E2m1x2 | E2m1x4 => NumFmt::E2m1,
        Ue8m0x2 => NumFmt::Ue8m0,
        // The rows list no other type than `.f32` beside these.
        _ => NumFmt::F32,
    }
}

/// Whether f32 subnormals are flushed: always before sm_20, where PTX up to 1.4 excepts 64-bit
/// types on the other side.
fn flushes(t: &Translator<'_>, inst: &Inst<'_>) -> bool {
    let (to, from) = (inst.ty(0), inst.ty(1));
    let is_old = t.arch().number < 20 && (to == F32 || from == F32);
    inst.ftz() || is_old && (t.version().at_least(1, 5) || to.bits() != 64 && from.bits() != 64)
}

/// The conversion of one element.
pub(super) fn conversion(t: &Translator<'_>, inst: &Inst<'_>) -> Convert {
    let (to, from) = (inst.ty(0), inst.ty(1));
    let mut cvt = Convert::new(num_fmt(from), num_fmt(to));
    cvt.round = inst.round().unwrap_or(Round::Rn);
    cvt.integral = to == from && inst.pick(ROUND_INT).is_some();
    cvt.ftz = flushes(t, inst);
    cvt.sat = inst.has(Sat);
    cvt.satfinite = inst.has(Satfinite);
    cvt.relu = inst.has(Relu);
    cvt
}

/// `d = a` in another format.
fn convert<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let cvt = conversion(t, inst);
    map1(t, inst, |t, a| t.convert(cvt, a))
}

/// Puts converted elements side by side, the least significant first. All formats but e2m1 take at
/// least a byte each.
pub(super) fn pack(t: &mut Translator<'_>, inst: &Inst<'_>, elems: &[Value]) -> Value {
    let to = inst.ty(0).ir().unwrap_or(Type::B32);
    if num_fmt(inst.ty(0)) != NumFmt::E2m1 {
        return t.concat(elems, to);
    }
    let mut packed = t.zext_or_trunc(elems[0], to);
    for (n, &elem) in elems.iter().enumerate().skip(1) {
        let elem = t.zext_or_trunc(elem, to);
        let count = t.iconst(Type::B32, 4 * n as u64);
        let placed = t.binary(IntBinaryOp::Shl, elem, count);
        packed = t.binary(IntBinaryOp::Or, packed, placed);
    }
    packed
}

/// Two numbers to a packed pair: `a` above, `b` below.
fn pack2<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let cvt = conversion(t, inst);
    let (a, b) = (t.src(inst, 1)?, t.src(inst, 2)?);
    let (high, low) = (t.convert(cvt, a), t.convert(cvt, b));
    let d = pack(t, inst, &[low, high]);
    t.dst(inst, 0, d)
}

/// A packed pair to another, element by element.
pub(super) fn pack2_from_pair<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let cvt = conversion(t, inst);
    map1(t, inst, |t, a| {
        let elems = elements(t, inst.ty(1), a).map(|elem| t.convert(cvt, elem));
        pack(t, inst, &elems)
    })
}

/// The elements of a pair of a type, the lower first.
pub(super) fn elements(t: &mut Translator<'_>, ty: PtxType, pair: Value) -> [Value; 2] {
    match num_fmt(ty) {
        NumFmt::E2m1 => nibbles(t, pair),
        _ => t.halves(pair),
    }
}

/// The two nibbles of a byte, low first.
fn nibbles(t: &mut Translator<'_>, byte: Value) -> [Value; 2] {
    let mask = t.iconst(Type::B8, 0xf);
    let count = t.iconst(Type::B32, 4);
    [
        t.binary(IntBinaryOp::And, byte, mask),
        t.binary(IntBinaryOp::Ushr, byte, count),
    ]
}

/// A conversion that rounds with the random bits `bits`, left-aligned.
fn convert_random(t: &mut Translator<'_>, cvt: Convert, arg: Value, bits: Value) -> Value {
    t.ins(InstData::ConvertRs { cvt, arg, bits }, cvt.to.ty())
}

/// Two numbers to a packed pair with stochastic rounding: of each half of the random bits, `.f16`
/// takes 13 and `.bf16` all 16, the upper half for `a`.
fn pack2_random<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let cvt = conversion(t, inst);
    let (a, b, random) = (t.src(inst, 1)?, t.src(inst, 2)?, t.src(inst, 3)?);
    let n_bits = if cvt.to == NumFmt::F16 { 13 } else { 16 };
    let bits_a = aligned(t, random, 16, n_bits);
    let bits_b = aligned(t, random, 0, n_bits);
    let high = convert_random(t, cvt, a, bits_a);
    let low = convert_random(t, cvt, b, bits_b);
    let d = pack(t, inst, &[low, high]);
    t.dst(inst, 0, d)
}

/// `n` bits of `value` from bit `from` on, moved to the top.
fn aligned(t: &mut Translator<'_>, value: Value, from: u32, n: u32) -> Value {
    let count = t.iconst(Type::B32, u64::from(32 - from - n));
    let moved = t.binary(IntBinaryOp::Shl, value, count);
    let mask = t.iconst(Type::B32, u64::from(!(u32::MAX >> n)));
    t.binary(IntBinaryOp::And, moved, mask)
}

/// Four numbers to a packed quadruple, the first on top. Each pair shares 16 random bits: a half of
/// the operand, or for e2m1 the upper bytes of both halves and the lower bytes of both.
fn pack4_random<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let cvt = conversion(t, inst);
    let elems: SmallVec<[Value; 4]> = t.src_elems(inst, 1)?.into_iter().flatten().collect();
    let random = t.src(inst, 2)?;
    let bits = if cvt.to == NumFmt::E2m1 {
        [[24, 8], [16, 0]].map(|[upper, lower]| {
            let first = aligned(t, random, upper, 8);
            let second = aligned(t, random, lower, 8);
            let count = t.iconst(Type::B32, 8);
            let second = t.binary(IntBinaryOp::Ushr, second, count);
            t.binary(IntBinaryOp::Or, first, second)
        })
    } else {
        [aligned(t, random, 16, 16), aligned(t, random, 0, 16)]
    };
    let mut converted: SmallVec<[Value; 4]> = SmallVec::new();
    for (n, &elem) in elems.iter().enumerate() {
        converted.push(convert_random(t, cvt, elem, bits[usize::from(n >= 2)]));
    }
    converted.reverse();
    let d = pack(t, inst, &converted);
    t.dst(inst, 0, d)
}

/// Clamps two numbers and packs them, `b` lowest, below the low bits of `c`.
fn pack_ints<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    let (a, b, c) = (t.src(inst, 1)?, t.src(inst, 2)?, t.src_opt(inst, 3)?);
    let ty = inst.ty(0);
    let bits = u64::from(ty.bits());
    let mask = t.iconst(Type::B32, (1 << bits) - 1);
    let [a, b] = [a, b].map(|value| {
        let clamped = clamp_int(t, value, S32, int_range(ty));
        t.binary(IntBinaryOp::And, clamped, mask)
    });
    let count = t.iconst(Type::B32, bits);
    let a = t.binary(IntBinaryOp::Shl, a, count);
    let mut d = t.binary(IntBinaryOp::Or, a, b);
    if let Some(c) = c {
        let count = t.iconst(Type::B32, 2 * bits);
        let c = t.binary(IntBinaryOp::Shl, c, count);
        d = t.binary(IntBinaryOp::Or, d, c);
    }
    t.dst_as(inst, 0, U32, d)
}
