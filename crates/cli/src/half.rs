//! Reading and rounding the two 16-bit float formats, for buffers and expectations.
//!
//! Exact for every input. Device arithmetic has its own conversions; this is the host's side.

/// A binary format of at most 16 bits: sign, `exp_bits`, `man_bits`.
#[derive(Clone, Copy)]
struct Format {
    exp_bits: u32,
    man_bits: u32,
}

const F16: Format = Format {
    exp_bits: 5,
    man_bits: 10,
};
const BF16: Format = Format {
    exp_bits: 8,
    man_bits: 7,
};

/// The value of an f16.
pub(crate) fn f16_to_f64(bits: u16) -> f64 {
    F16.decode(bits)
}

/// The value of a bf16.
pub(crate) fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// The f16 nearest to `value`, ties to even.
pub(crate) fn f16_from_f64(value: f64) -> u16 {
    F16.encode(value)
}

/// The bf16 nearest to `value`, ties to even.
pub(crate) fn bf16_from_f32(value: f32) -> u16 {
    BF16.encode(f64::from(value))
}

impl Format {
    fn bias(self) -> i32 {
        (1 << (self.exp_bits - 1)) - 1
    }

    fn infinity(self) -> u16 {
        ((1 << self.exp_bits) - 1) << self.man_bits
    }

    fn decode(self, bits: u16) -> f64 {
        let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
        let man = f64::from(bits & ((1 << self.man_bits) - 1));
        let exp = i32::from((bits >> self.man_bits) & ((1 << self.exp_bits) - 1));
        let scale = |exp: i32| 2f64.powi(exp - self.bias() - self.man_bits as i32);
        if exp == (1 << self.exp_bits) - 1 {
            return if man == 0.0 {
                sign * f64::INFINITY
            } else {
                f64::NAN
            };
        }
        let implicit = f64::from(1u32 << self.man_bits);
        match exp {
            0 => sign * man * scale(1),
            _ => sign * (man + implicit) * scale(exp),
        }
    }

    fn encode(self, value: f64) -> u16 {
        let sign = if value.is_sign_negative() { 0x8000 } else { 0 };
        if value.is_nan() {
            return sign | self.infinity() | 1 << (self.man_bits - 1);
        }
        let magnitude = value.abs();
        if magnitude == 0.0 {
            return sign;
        }
        // The unit in the last place of the result: that of the binade, but never below the
        // subnormals'.
        let binade = ((magnitude.to_bits() >> 52) as i32 - 1023).max(1 - self.bias());
        let ulp_exp = binade - self.man_bits as i32;
        // Both factors of two are exact: no f64 of interest is subnormal, and the quotient has few
        // bits above the point.
        let units = (magnitude * 2f64.powi(-ulp_exp / 2) * 2f64.powi(-ulp_exp - (-ulp_exp / 2)))
            .round_ties_even();
        // A carry out of the mantissa moves on into the exponent, which is what the format wants.
        let exp_field = binade + self.bias() - 1;
        let bits = units + f64::from(exp_field) * f64::from(1u32 << self.man_bits);
        if bits >= f64::from(self.infinity()) {
            return sign | self.infinity();
        }
        sign | bits as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_f16_survives() {
        for bits in 0..=u16::MAX {
            let value = f16_to_f64(bits);
            if value.is_nan() {
                assert!(f16_to_f64(f16_from_f64(value)).is_nan());
            } else {
                assert_eq!(f16_from_f64(value), bits);
            }
        }
    }

    #[test]
    fn every_bf16_survives() {
        for bits in 0..=u16::MAX {
            let value = bf16_to_f32(bits);
            if !value.is_nan() {
                assert_eq!(bf16_from_f32(value), bits);
                assert_eq!(BF16.decode(bits), f64::from(value));
            }
        }
    }

    #[test]
    fn rounding() {
        // Ties between 1 and 1 + 2^-10, between the next two, and just above a tie.
        assert_eq!(f16_from_f64(1.0 + 2f64.powi(-11)), 0x3c00);
        assert_eq!(f16_from_f64(1.0 + 3.0 * 2f64.powi(-11)), 0x3c02);
        assert_eq!(f16_from_f64(1.0 + 2f64.powi(-11) + 2f64.powi(-40)), 0x3c01);
        // The largest finite value is 65504; from 65520 on it is infinity.
        assert_eq!(f16_from_f64(65519.9), 0x7bff);
        assert_eq!(f16_from_f64(65520.0), 0x7c00);
        assert_eq!(f16_from_f64(-1e300), 0xfc00);
        // The least subnormal is 2^-24; half of it ties to zero.
        assert_eq!(f16_from_f64(2f64.powi(-24)), 1);
        assert_eq!(f16_from_f64(2f64.powi(-25)), 0);
        assert_eq!(f16_from_f64(-1.5 * 2f64.powi(-25)), 0x8001);
        assert_eq!(f16_from_f64(1e-300), 0);
        assert_eq!(bf16_from_f32(1.0), 0x3f80);
        assert_eq!(bf16_from_f32(f32::MAX), 0x7f80);
    }
}
