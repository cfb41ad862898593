//! Floating-point formats taken apart into sign, exponent and significand, and put together again
//! with one rounding.
//!
//! The only place that knows bit layouts. [`Layout::pack`] rounds in any direction into any format;
//! everything that is not done by the host's own correctly rounded operations ends there.

use crate::types::{FloatFmt, FloatMode, NumFmt, Round};

/// What the encodings with the largest exponent mean.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Specials {
    /// Infinities and NaNs, as in IEEE 754.
    Ieee,
    /// Only the all-ones encoding is special: a NaN (e4m3).
    NanOnly,
    /// All encodings are finite (e2m3, e3m2, e2m1).
    None,
}

/// A sign-magnitude format with the usual bias of `2^(exp_bits - 1) - 1`.
#[derive(Copy, Clone, Debug)]
pub(super) struct Layout {
    pub(super) exp_bits: u32,
    pub(super) man_bits: u32,
    pub(super) specials: Specials,
}

/// A number taken apart.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Num {
    Nan,
    Inf { neg: bool },
    Zero { neg: bool },
    Finite(Finite),
}

/// `±sig * 2^exp`, `sig` not zero. A result that is not exact has at least two bits more than its
/// destination and its lowest bit set (a sticky bit).
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct Finite {
    pub(super) neg: bool,
    pub(super) exp: i32,
    pub(super) sig: u64,
}

/// How [`Layout::pack`] rounds.
#[derive(Copy, Clone, Debug)]
pub(super) struct Rounding {
    pub(super) direction: Direction,
    /// Flush what is below the least normal number after it was rounded to the format's precision:
    /// as hardware without subnormals does it. A number just below the least normal one that rounds
    /// up to it is kept.
    pub(super) ftz: bool,
}

#[derive(Copy, Clone, Debug)]
pub(super) enum Direction {
    To(Round),
    /// Away from zero if the discarded bits plus these, both left-aligned, carry out.
    Stochastic(u32),
}

impl Rounding {
    /// Rounding that keeps subnormals.
    pub(super) const fn to(round: Round) -> Rounding {
        Rounding {
            direction: Direction::To(round),
            ftz: false,
        }
    }

    /// Rounding as the mode of an operation says.
    pub(super) const fn of(mode: FloatMode) -> Rounding {
        Rounding {
            direction: Direction::To(mode.round),
            ftz: mode.ftz,
        }
    }
}

impl Layout {
    pub(super) const F16: Layout = Layout {
        exp_bits: 5,
        man_bits: 10,
        specials: Specials::Ieee,
    };
    pub(super) const BF16: Layout = Layout {
        exp_bits: 8,
        man_bits: 7,
        specials: Specials::Ieee,
    };
    pub(super) const TF32: Layout = Layout {
        exp_bits: 8,
        man_bits: 10,
        specials: Specials::Ieee,
    };
    pub(super) const F32: Layout = Layout {
        exp_bits: 8,
        man_bits: 23,
        specials: Specials::Ieee,
    };
    pub(super) const F64: Layout = Layout {
        exp_bits: 11,
        man_bits: 52,
        specials: Specials::Ieee,
    };
    pub(super) const E4M3: Layout = Layout {
        exp_bits: 4,
        man_bits: 3,
        specials: Specials::NanOnly,
    };
    pub(super) const E5M2: Layout = Layout {
        exp_bits: 5,
        man_bits: 2,
        specials: Specials::Ieee,
    };
    pub(super) const E2M3: Layout = Layout {
        exp_bits: 2,
        man_bits: 3,
        specials: Specials::None,
    };
    pub(super) const E3M2: Layout = Layout {
        exp_bits: 3,
        man_bits: 2,
        specials: Specials::None,
    };
    pub(super) const E2M1: Layout = Layout {
        exp_bits: 2,
        man_bits: 1,
        specials: Specials::None,
    };

    pub(super) const fn of(fmt: FloatFmt) -> Layout {
        match fmt {
            FloatFmt::F16 => Layout::F16,
            FloatFmt::Bf16 => Layout::BF16,
            FloatFmt::F32 => Layout::F32,
            FloatFmt::F64 => Layout::F64,
        }
    }

    /// The layout of a number format; none for integers and for ue8m0, which has neither sign nor
    /// zero.
    pub(super) const fn of_num(fmt: NumFmt) -> Option<Layout> {
        match fmt {
            NumFmt::F16 => Some(Layout::F16),
            NumFmt::Bf16 => Some(Layout::BF16),
            NumFmt::F32 => Some(Layout::F32),
            NumFmt::F64 => Some(Layout::F64),
            NumFmt::Tf32 => Some(Layout::TF32),
            NumFmt::E4m3 => Some(Layout::E4M3),
            NumFmt::E5m2 => Some(Layout::E5M2),
            NumFmt::E2m3 => Some(Layout::E2M3),
            NumFmt::E3m2 => Some(Layout::E3M2),
            NumFmt::E2m1 => Some(Layout::E2M1),
            NumFmt::U8 | NumFmt::U16 | NumFmt::U32 | NumFmt::U64 => None,
            NumFmt::S8 | NumFmt::S16 | NumFmt::S32 | NumFmt::S64 => None,
            NumFmt::Ue8m0 => None,
        }
    }

    const fn bias(self) -> i32 {
        (1 << (self.exp_bits - 1)) - 1
    }

    /// The sign bit.
    pub(super) const fn sign(self) -> u64 {
        1 << (self.exp_bits + self.man_bits)
    }

    /// All bits but the sign.
    pub(super) const fn magnitude(self) -> u64 {
        self.sign() - 1
    }

    /// The exponent field.
    pub(super) const fn exponent(self) -> u64 {
        self.magnitude() & !((1 << self.man_bits) - 1)
    }

    /// The greatest finite magnitude.
    pub(super) const fn max_finite(self) -> u64 {
        match self.specials {
            Specials::Ieee => self.exponent() - 1,
            Specials::NanOnly => self.magnitude() - 1,
            Specials::None => self.magnitude(),
        }
    }

    /// What the ISA calls the canonical NaN: all ones but the sign (a quiet NaN in every format
    /// that has NaNs); in f64, where the ISA names none, the IEEE default.
    pub(super) const fn canonical_nan(self) -> u64 {
        if self.man_bits == 52 {
            self.exponent() | 1 << 51
        } else {
            self.magnitude()
        }
    }

    pub(super) const fn is_nan(self, bits: u64) -> bool {
        let magnitude = bits & self.magnitude();
        match self.specials {
            Specials::Ieee => magnitude > self.exponent(),
            Specials::NanOnly => magnitude == self.magnitude(),
            Specials::None => false,
        }
    }

    pub(super) const fn is_inf(self, bits: u64) -> bool {
        matches!(self.specials, Specials::Ieee) && bits & self.magnitude() == self.exponent()
    }

    pub(super) const fn is_neg(self, bits: u64) -> bool {
        bits & self.sign() != 0
    }

    /// The bits, subnormals replaced by a zero of the same sign.
    pub(super) const fn flush(self, bits: u64) -> u64 {
        if bits & self.exponent() == 0 {
            bits & self.sign()
        } else {
            bits & (self.sign() | self.magnitude())
        }
    }

    /// A number that orders encodings as their values, -0 below +0. NaNs lie outside.
    pub(super) const fn order(self, bits: u64) -> i64 {
        let magnitude = (bits & self.magnitude()) as i64;
        if self.is_neg(bits) {
            -magnitude - 1
        } else {
            magnitude
        }
    }

    /// Takes an encoding apart.
    #[inline(always)]
    pub(super) const fn unpack(self, bits: u64) -> Num {
        let neg = self.is_neg(bits);
        if self.is_nan(bits) {
            return Num::Nan;
        }
        if self.is_inf(bits) {
            return Num::Inf { neg };
        }
        let magnitude = bits & self.magnitude();
        if magnitude == 0 {
            return Num::Zero { neg };
        }
        let field = (magnitude >> self.man_bits) as i32;
        let man = magnitude & ((1 << self.man_bits) - 1);
        let (sig, field) = if field == 0 {
            (man, 1)
        } else {
            (man | 1 << self.man_bits, field)
        };
        Num::Finite(Finite {
            neg,
            exp: field - self.bias() - self.man_bits as i32,
            sig,
        })
    }

    /// The magnitude that `x` rounds to. Above [`Layout::max_finite`] stands for overflow.
    #[inline(always)]
    pub(super) fn pack_magnitude(self, rounding: Rounding, x: Finite) -> u64 {
        let lead = x.sig.leading_zeros();
        let sig = x.sig.unbounded_shl(lead);
        let exp = x.exp + 63 - lead as i32;
        let min_exp = 1 - self.bias();
        if exp > self.bias() + 1 {
            return self.max_finite() + 1;
        }
        let below = if rounding.ftz {
            0
        } else {
            (min_exp - exp).max(0) as u32
        };
        let discard = 63 - self.man_bits + below;
        // Left-aligned: the top bit is worth half a unit of the last place kept.
        let (kept, rest) = if discard < 64 {
            (sig >> discard, sig << (64 - discard))
        } else {
            (0, sig.unbounded_shr(discard - 64) | u64::from(discard > 64))
        };
        let kept = kept + u64::from(rounds_up(rounding.direction, x.neg, kept, rest));
        if below > 0 {
            return kept;
        }
        if exp < min_exp {
            // Only a carry into the next power of two makes it a normal number.
            let is_normal = exp + 1 == min_exp && kept >> (self.man_bits + 1) != 0;
            return if is_normal { 1 << self.man_bits } else { 0 };
        }
        // A carry out of the significand moves on into the exponent field, as it should.
        (((exp - min_exp) as u64) << self.man_bits) + kept
    }

    /// The encoding that `x` rounds to; overflow gives an infinity or the greatest finite number,
    /// as the direction says.
    #[inline(always)]
    pub(super) fn pack(self, rounding: Rounding, x: Finite) -> u64 {
        let magnitude = self.pack_magnitude(rounding, x);
        let overflows = magnitude > self.max_finite();
        let magnitude = if overflows {
            self.overflow(rounding.direction, x)
        } else {
            magnitude
        };
        self.with_sign(x.neg, magnitude)
    }

    /// The magnitude of a result too large for the format.
    pub(super) fn overflow(self, direction: Direction, x: Finite) -> u64 {
        let away = match direction {
            Direction::To(Round::Rn | Round::Rna) => true,
            Direction::To(Round::Rz) => false,
            Direction::To(Round::Rm) => x.neg,
            Direction::To(Round::Rp) => !x.neg,
            // A carry out of the discarded bits means away from zero here, too.
            Direction::Stochastic(_) => {
                let sig = x.sig << x.sig.leading_zeros();
                let (kept, rest) = (sig >> (63 - self.man_bits), sig << (self.man_bits + 1));
                rounds_up(direction, x.neg, kept, rest)
            }
        };
        if away {
            self.infinity()
        } else {
            self.max_finite()
        }
    }

    /// The magnitude of infinity, or what stands for it: the NaN of e4m3, the maximum where there
    /// is neither.
    pub(super) const fn infinity(self) -> u64 {
        match self.specials {
            Specials::Ieee => self.exponent(),
            Specials::NanOnly | Specials::None => self.magnitude(),
        }
    }

    pub(super) const fn with_sign(self, neg: bool, magnitude: u64) -> u64 {
        if neg {
            magnitude | self.sign()
        } else {
            magnitude
        }
    }
}

/// Whether `kept` grows by one; `rest` is what lies below it, left-aligned.
#[inline(always)]
fn rounds_up(direction: Direction, neg: bool, kept: u64, rest: u64) -> bool {
    const HALF: u64 = 1 << 63;
    match direction {
        Direction::To(Round::Rn) => rest > HALF || (rest == HALF && kept & 1 != 0),
        Direction::To(Round::Rna) => rest >= HALF,
        Direction::To(Round::Rz) => false,
        Direction::To(Round::Rm) => neg && rest != 0,
        Direction::To(Round::Rp) => !neg && rest != 0,
        Direction::Stochastic(random) => rest.checked_add(u64::from(random) << 32).is_none(),
    }
}
