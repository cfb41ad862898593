//! Integer, logic, shift, bit-field and dot-product ops.

use crate::ops::{CompareOp, IntBinaryOp, IntTernaryOp, IntUnaryOp, ResizeOp};
use crate::types::Type;

/// One integer in, one integer out.
pub fn int_unary(op: IntUnaryOp, ty: Type, a: u64) -> u64 {
    let a = a & ty.mask();
    let result = match op {
        IntUnaryOp::Not => !a,
        IntUnaryOp::Neg => a.wrapping_neg(),
        IntUnaryOp::Abs => signed(ty, a).unsigned_abs(),
        IntUnaryOp::Popc => return a.count_ones().into(),
        IntUnaryOp::Clz => return (a.leading_zeros() - (64 - ty.bits())).into(),
        IntUnaryOp::Brev => a.reverse_bits() >> (64 - ty.bits()),
    };
    result & ty.mask()
}

/// Two integers of type `ty` in (a shift count is a `B32`), one out.
pub fn int_binary(op: IntBinaryOp, ty: Type, a: u64, b: u64) -> u64 {
    let mask = ty.mask();
    let is_shift = matches!(op, IntBinaryOp::Shl | IntBinaryOp::Ushr | IntBinaryOp::Sshr);
    let (a, b) = (a & mask, b & if is_shift { Type::B32.mask() } else { mask });
    let (sa, sb) = (signed(ty, a), signed(ty, b));
    let bits = ty.bits();
    let result = match op {
        IntBinaryOp::Add => a.wrapping_add(b),
        IntBinaryOp::Sub => a.wrapping_sub(b),
        IntBinaryOp::Mul => a.wrapping_mul(b),
        IntBinaryOp::UmulHi => ((u128::from(a) * u128::from(b)) >> bits) as u64,
        IntBinaryOp::SmulHi => ((i128::from(sa) * i128::from(sb)) >> bits) as u64,
        IntBinaryOp::UmulWide => return a.wrapping_mul(b) & wide_mask(ty),
        IntBinaryOp::SmulWide => return sa.wrapping_mul(sb) as u64 & wide_mask(ty),
        IntBinaryOp::Udiv | IntBinaryOp::Sdiv | IntBinaryOp::Urem | IntBinaryOp::Srem if b == 0 => {
            mask
        }
        IntBinaryOp::Udiv => a / b,
        IntBinaryOp::Sdiv => sa.wrapping_div(sb) as u64,
        IntBinaryOp::Urem => a % b,
        IntBinaryOp::Srem => sa.wrapping_rem(sb) as u64,
        IntBinaryOp::And => a & b,
        IntBinaryOp::Or => a | b,
        IntBinaryOp::Xor => a ^ b,
        IntBinaryOp::Shl if b >= u64::from(bits) => 0,
        IntBinaryOp::Shl => a << b,
        IntBinaryOp::Ushr if b >= u64::from(bits) => 0,
        IntBinaryOp::Ushr => a >> b,
        IntBinaryOp::Sshr => (sa >> b.min(63)) as u64,
        IntBinaryOp::Smin => sa.min(sb) as u64,
        IntBinaryOp::Smax => sa.max(sb) as u64,
        IntBinaryOp::Umin => a.min(b),
        IntBinaryOp::Umax => a.max(b),
        IntBinaryOp::SaddSat => clamp_signed(ty, i128::from(sa) + i128::from(sb)),
        IntBinaryOp::SsubSat => clamp_signed(ty, i128::from(sa) - i128::from(sb)),
    };
    result & mask
}

/// Three operands of type `ty` or as the op says in, one out.
pub fn int_ternary(op: IntTernaryOp, ty: Type, a: u64, b: u64, c: u64) -> u64 {
    use Sign::{Signed, Unsigned};
    match op {
        IntTernaryOp::ShfL => ((pair(a, b) << (c as u32).min(32)) >> 32) & Type::B32.mask(),
        IntTernaryOp::ShfR => (pair(a, b) >> (c as u32).min(32)) & Type::B32.mask(),
        IntTernaryOp::Prmt => prmt(a, b, c),
        IntTernaryOp::UBfe => bfe(ty, a, b, c, false),
        IntTernaryOp::SBfe => bfe(ty, a, b, c, true),
        IntTernaryOp::Fns => fns(a as u32, b as u32, c as i32).into(),
        IntTernaryOp::Dp4aUU => dp4a(Unsigned, Unsigned, a, b, c),
        IntTernaryOp::Dp4aUS => dp4a(Unsigned, Signed, a, b, c),
        IntTernaryOp::Dp4aSU => dp4a(Signed, Unsigned, a, b, c),
        IntTernaryOp::Dp4aSS => dp4a(Signed, Signed, a, b, c),
        IntTernaryOp::Dp2aLoUU => dp2a(Unsigned, Unsigned, a, b, c),
        IntTernaryOp::Dp2aLoUS => dp2a(Unsigned, Signed, a, b, c),
        IntTernaryOp::Dp2aLoSU => dp2a(Signed, Unsigned, a, b, c),
        IntTernaryOp::Dp2aLoSS => dp2a(Signed, Signed, a, b, c),
        IntTernaryOp::Dp2aHiUU => dp2a(Unsigned, Unsigned, a, b >> 16, c),
        IntTernaryOp::Dp2aHiUS => dp2a(Unsigned, Signed, a, b >> 16, c),
        IntTernaryOp::Dp2aHiSU => dp2a(Signed, Unsigned, a, b >> 16, c),
        IntTernaryOp::Dp2aHiSS => dp2a(Signed, Signed, a, b >> 16, c),
    }
}

/// `lop3` at `B32`: the function of three bits whose value at `a << 2 | b << 1 | c` is that bit of
/// `lut`.
pub fn lop3(lut: u8, a: u64, b: u64, c: u64) -> u64 {
    let minterm = |idx: u8| {
        let pick = |bit: u8, x: u64| if idx & bit != 0 { x } else { !x };
        if lut >> idx & 1 != 0 {
            pick(4, a) & pick(2, b) & pick(1, c)
        } else {
            0
        }
    };
    (0..8).fold(0, |acc, idx| acc | minterm(idx)) & Type::B32.mask()
}

/// `bfi`: the low `len` bits of `a` put into `b` at `pos`; of position and length the low byte
/// counts.
pub fn bfi(ty: Type, a: u64, b: u64, pos: u64, len: u64) -> u64 {
    let (pos, len) = (pos & 0xff, len & 0xff);
    if pos >= u64::from(ty.bits()) {
        return b & ty.mask();
    }
    let field = low_bits(len) << pos;
    ((b & !field) | ((a << pos) & field)) & ty.mask()
}

/// Change of width from `from` to `to`.
pub fn resize(op: ResizeOp, from: Type, to: Type, a: u64) -> u64 {
    let a = a & from.mask();
    let result = match op {
        ResizeOp::Trunc | ResizeOp::Uext => a,
        ResizeOp::Sext => signed(from, a) as u64,
    };
    result & to.mask()
}

/// Integer comparison.
pub fn compare(op: CompareOp, ty: Type, a: u64, b: u64) -> bool {
    let (a, b) = (a & ty.mask(), b & ty.mask());
    let (sa, sb) = (signed(ty, a), signed(ty, b));
    match op {
        CompareOp::Eq => a == b,
        CompareOp::Ne => a != b,
        CompareOp::Slt => sa < sb,
        CompareOp::Sle => sa <= sb,
        CompareOp::Sgt => sa > sb,
        CompareOp::Sge => sa >= sb,
        CompareOp::Ult => a < b,
        CompareOp::Ule => a <= b,
        CompareOp::Ugt => a > b,
        CompareOp::Uge => a >= b,
    }
}

/// `a` read as a two's complement number of the type's width.
pub(super) fn signed(ty: Type, a: u64) -> i64 {
    let unused = 64 - ty.bits();
    ((a << unused) as i64) >> unused
}

/// The lowest `n` bits.
fn low_bits(n: u64) -> u64 {
    if n >= 64 { u64::MAX } else { (1 << n) - 1 }
}

fn wide_mask(ty: Type) -> u64 {
    low_bits(2 * u64::from(ty.bits()))
}

fn clamp_signed(ty: Type, wide: i128) -> u64 {
    let max = i128::from(ty.mask() >> 1);
    wide.clamp(-max - 1, max) as u64
}

/// The 64-bit word `b:a`.
fn pair(a: u64, b: u64) -> u64 {
    (b << 32) | (a & Type::B32.mask())
}

fn prmt(a: u64, b: u64, selectors: u64) -> u64 {
    let bytes = pair(a, b);
    (0..4).fold(0, |acc, i| {
        let sel = selectors >> (4 * i) & 0xf;
        let byte = bytes >> (8 * (sel & 7)) & 0xff;
        let byte = if sel & 8 == 0 {
            byte
        } else {
            (byte >> 7) * 0xff
        };
        acc | byte << (8 * i)
    })
}

fn bfe(ty: Type, a: u64, pos: u64, len: u64, is_signed: bool) -> u64 {
    let (pos, len) = (pos & 0xff, len & 0xff);
    let msb = u64::from(ty.bits()) - 1;
    if len == 0 {
        return 0;
    }
    let sign_bit = (a & ty.mask()) >> (pos + len - 1).min(msb) & 1;
    let fill = if is_signed && sign_bit != 0 {
        u64::MAX
    } else {
        0
    };
    let field = if pos > msb {
        fill
    } else {
        (a & ty.mask()) >> pos | if pos == 0 { 0 } else { fill << (msb + 1 - pos) }
    };
    // Bits past the end of the source are fill already; those past the length are not.
    ((field & low_bits(len)) | (fill & !low_bits(len))) & ty.mask()
}

/// Position of the `|offset|`-th set bit from `base` on, upward or downward; all ones if there is
/// none.
fn fns(mask: u32, base: u32, offset: i32) -> u32 {
    const NOT_FOUND: u32 = u32::MAX;
    if base > 31 {
        return NOT_FOUND;
    }
    if offset == 0 {
        return if mask >> base & 1 != 0 {
            base
        } else {
            NOT_FOUND
        };
    }
    let nth = (offset.unsigned_abs() - 1) as usize;
    let is_set = |pos: &u32| mask >> pos & 1 != 0;
    let found = if offset > 0 {
        (base..32).filter(is_set).nth(nth)
    } else {
        (0..=base).rev().filter(is_set).nth(nth)
    };
    found.unwrap_or(NOT_FOUND)
}

#[derive(Copy, Clone)]
enum Sign {
    Signed,
    Unsigned,
}

/// Part `idx` of a word cut into parts of type `ty`.
fn part(sign: Sign, ty: Type, word: u64, idx: u32) -> i64 {
    let bits = word >> (idx * ty.bits()) & ty.mask();
    match sign {
        Sign::Signed => signed(ty, bits),
        Sign::Unsigned => bits as i64,
    }
}

fn dp4a(a_sign: Sign, b_sign: Sign, a: u64, b: u64, c: u64) -> u64 {
    let sum: i64 = (0..4)
        .map(|i| part(a_sign, Type::B8, a, i) * part(b_sign, Type::B8, b, i))
        .sum();
    c.wrapping_add(sum as u64) & Type::B32.mask()
}

fn dp2a(a_sign: Sign, b_sign: Sign, a: u64, b: u64, c: u64) -> u64 {
    let sum: i64 = (0..2)
        .map(|i| part(a_sign, Type::B16, a, i) * part(b_sign, Type::B8, b, i))
        .sum();
    c.wrapping_add(sum as u64) & Type::B32.mask()
}
