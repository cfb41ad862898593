//! Masks of lanes: as vectors, or as bits where scalar arithmetic tells.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use cranelift_frontend::FunctionBuilder;

use super::{Emitter, Parts};

/// A set of lanes of the gang.
#[derive(Clone)]
pub(crate) enum Lanes {
    /// Bit i for lane i.
    Bits(cl::Value),
    /// Lane masks.
    Parts(Parts),
}

impl Emitter<'_> {
    /// `x` in the lanes of a mask, `y` in the others; with zeros, one `and` or `andnot` suffices.
    pub(crate) fn choose(&mut self, mask: cl::Value, x: cl::Value, y: cl::Value) -> cl::Value {
        let (mask, x, y) = match self.inverse(mask) {
            Some(inverse) => (inverse, y, x),
            None => (mask, x, y),
        };
        if self.is_zero(y) {
            self.ins().band(x, mask)
        } else if self.is_zero(x) {
            self.ins().band_not(y, mask)
        } else {
            self.ins().blendv(mask, x, y)
        }
    }

    /// The mask of lanes for which integers compare so. Processors compare for equality and invert
    /// that. The inversion is an instruction of its own, which a conjunction takes in.
    pub(crate) fn compare_lanes(&mut self, cc: IntCC, x: cl::Value, y: cl::Value) -> cl::Value {
        match cc == IntCC::NotEqual {
            true => {
                let equal = self.ins().icmp(IntCC::Equal, x, y);
                self.ins().bnot(equal)
            }
            false => self.ins().icmp(cc, x, y),
        }
    }

    /// The mask of the other lanes, if it takes fewer instructions: processors compare integers for
    /// equality, and invert that.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the enum is Cranelift's")]
    fn inverse(&mut self, mask: cl::Value) -> Option<cl::Value> {
        let ty = self.func.dfg.value_type(mask);
        let inverse = match self.behind_bitcasts(mask)? {
            cl::InstructionData::IntCompare {
                opcode: cl::Opcode::Icmp,
                cond: IntCC::NotEqual,
                args: [x, y],
            } => self.ins().icmp(IntCC::Equal, x, y),
            cl::InstructionData::Unary {
                opcode: cl::Opcode::Bnot,
                arg,
            } => arg,
            _ => return None,
        };
        Some(self.cast_vector(inverse, ty))
    }

    /// Whether a vector is a constant without a bit set.
    fn is_zero(&self, x: cl::Value) -> bool {
        self.constant_lanes(x).is_some_and(|x| x.to_bits() == 0)
    }

    pub(crate) fn lanes_as_parts(&mut self, lanes: &Lanes) -> Parts {
        match lanes {
            Lanes::Bits(bits) => self.mask_from_bits(*bits),
            Lanes::Parts(parts) => parts.clone(),
        }
    }

    pub(crate) fn lanes_as_bits(&mut self, lanes: &Lanes) -> cl::Value {
        match lanes {
            Lanes::Bits(bits) => *bits,
            Lanes::Parts(parts) => self.bits_of(parts),
        }
    }

    /// Lane masks as bits: packed to narrower lanes first, so that one instruction extracts up to
    /// sixteen.
    pub(crate) fn bits_of(&mut self, parts: &[cl::Value]) -> cl::Value {
        let halves: Parts = match parts {
            [one] => return self.ins().vhigh_bits(types::I32, *one),
            parts => self.each_pair(parts, |b, x, y| b.ins().snarrow(x, y)),
        };
        let bytes: Parts = match halves[..] {
            [one] => return self.ins().vhigh_bits(types::I32, one),
            _ => self.each_pair(&halves, |b, x, y| b.ins().snarrow(x, y)),
        };
        let low = self.ins().vhigh_bits(types::I32, bytes[0]);
        match bytes[..] {
            [_, high] => {
                let high = self.ins().vhigh_bits(types::I32, high);
                let high = self.ins().ishl_imm_s(high, 16);
                self.ins().bor(low, high)
            }
            _ => low,
        }
    }

    /// Bits as lane masks.
    pub(crate) fn mask_from_bits(&mut self, bits: cl::Value) -> Parts {
        if self.lanes == 1 {
            return Parts::new();
        }
        let splat = self.ins().splat(types::I32X4, bits);
        (0..self.quads())
            .map(|q| {
                let lanes: Vec<u8> = (0..4)
                    .flat_map(|lane| (1u32 << (4 * q + lane)).to_le_bytes())
                    .collect();
                let lane_bits = self.vconst_bytes(types::I32X4, &lanes);
                let set = self.ins().band(splat, lane_bits);
                self.ins().icmp(IntCC::Equal, set, lane_bits)
            })
            .collect()
    }

    pub(crate) fn fold_and(&mut self, parts: &[cl::Value]) -> cl::Value {
        self.fold(parts, |b, x, y| b.ins().band(x, y))
    }

    /// Whether any lane of a mask is set.
    pub(crate) fn any(&mut self, parts: &[cl::Value]) -> cl::Value {
        let any = self.fold(parts, |b, x, y| b.ins().bor(x, y));
        self.ins().vany_true(any)
    }

    /// Reduces several vectors to one: the second half into the first, so that neighbors, which may
    /// share a register, meet last.
    fn fold(
        &mut self,
        parts: &[cl::Value],
        both: fn(&mut FunctionBuilder<'_>, cl::Value, cl::Value) -> cl::Value,
    ) -> cl::Value {
        let mut rest = Parts::from_slice(parts);
        while rest.len() > 1 {
            let left = rest.len().div_ceil(2);
            for at in left..rest.len() {
                rest[at - left] = both(self, rest[at - left], rest[at]);
            }
            rest.truncate(left);
        }
        rest[0]
    }
}
