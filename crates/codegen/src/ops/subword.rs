//! Packed sub-word vectors, whose lanes have no more than their type's width.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_ir::Type;

use super::{Emitter, Lanes, Parts, Strided};

/// A vector with lanes of a narrow type.
pub(crate) fn subword_type(ty: Type) -> cl::Type {
    match ty {
        Type::B8 => types::I8X16,
        Type::B16 => types::I16X8,
        Type::B1 | Type::B32 | Type::B64 => unreachable!("lanes of words are never tight"),
    }
}

impl Emitter<'_> {
    /// `mask ? x : y` of packed vectors.
    pub(crate) fn subword_blend(
        &mut self,
        mask: &Parts,
        x: &[cl::Value],
        y: &[cl::Value],
    ) -> Parts {
        let blend = |i: usize| {
            let ty = self.func.dfg.value_type(x[i]);
            let [mask, x, y] = [mask[i], x[i], y[i]];
            let [mask, x, y] = [mask, x, y].map(|part| self.cast_vector(part, types::I8X16));
            let chosen = self.choose(mask, x, y);
            self.cast_vector(chosen, ty)
        };
        (0..y.len()).map(blend).collect()
    }

    pub(crate) fn lane_width(&self, parts: &Parts) -> u32 {
        self.func.dfg.value_type(parts[0]).lane_bits()
    }

    pub(crate) fn masks_of_width(&mut self, mut masks: Parts, bits: u32) -> Parts {
        while self.lane_width(&masks) > bits {
            masks = self.each_pair(&masks, |b, x, y| b.ins().snarrow(x, y));
        }
        while self.lane_width(&masks) < bits {
            masks = self.widened_each(true, &masks);
        }
        masks
    }

    pub(crate) fn subword_const(&mut self, ty: Type, bits: u64) -> cl::Value {
        let bytes = match ty == Type::B8 {
            true => vec![bits as u8; 16],
            false => (bits as u16).to_le_bytes().repeat(8),
        };
        self.vconst_bytes(subword_type(ty), &bytes)
    }

    /// Number of packed vectors of a narrow value.
    pub(crate) fn n_packed(&self, ty: Type) -> usize {
        self.lanes * ty.bytes() as usize / 16
    }

    /// A narrow value, held as quads or packed already, as packed vectors.
    pub(crate) fn repacked(&mut self, parts: &[cl::Value], ty: Type) -> Parts {
        if self.func.dfg.value_type(parts[0]) == subword_type(ty) {
            return parts.into();
        }
        let quads: Parts = parts.iter().map(|&quad| self.low_bits(quad, ty)).collect();
        self.packed_to(&quads, ty)
    }

    /// `mask ? new : old` for the parts of a value that is carried packed.
    pub(crate) fn blend_packed(
        &mut self,
        lanes: &Lanes,
        new: &[cl::Value],
        old: &[cl::Value],
    ) -> Parts {
        let bits = self.func.dfg.value_type(old[0]).lane_bits();
        let masks = match lanes {
            Lanes::Bits(set) => self.packed_from_bits(*set, bits),
            Lanes::Parts(parts) => {
                let parts = parts
                    .iter()
                    .map(|&part| self.cast_vector(part, types::I32X4));
                let parts = parts.collect();
                self.masks_of_width(parts, bits)
            }
        };
        self.subword_blend(&masks, new, old)
    }

    /// Bits as lane masks of 8 or 16 bits.
    fn packed_from_bits(&mut self, set: cl::Value, bits: u32) -> Parts {
        if bits == 16 {
            return self.words_from_bits(set);
        }
        let per = 128 / bits as usize;
        let splat = self.ins().splat(types::I32X4, set);
        let splat = self.cast_vector(splat, types::I8X16);
        (0..self.lanes / per)
            .map(|part| {
                // The byte of each lane's bit, in every byte of the lane.
                let of_byte = |byte: usize| part * per + byte * 8 / bits as usize;
                let sources = std::array::from_fn(|byte| (of_byte(byte) / 8) as u8);
                let own: [u8; 16] = std::array::from_fn(|byte| 1 << (of_byte(byte) % 8));
                let own = self.vconst_bytes(types::I8X16, &own);
                let bytes = self.shuffle(splat, splat, sources);
                let hit = self.ins().band(bytes, own);
                let masks = self.ins().icmp(IntCC::Equal, hit, own);
                self.cast_vector(masks, types::I8X16)
            })
            .collect()
    }

    /// Bits as lane masks of 16 bits: sixteen bits are those of two vectors.
    fn words_from_bits(&mut self, set: cl::Value) -> Parts {
        let mut masks = Parts::new();
        for first in (0..self.lanes).step_by(16) {
            let set = match first {
                0 => set,
                _ => self.ins().ushr_imm_u(set, first as i64),
            };
            let set = self.ins().ireduce(types::I16, set);
            let splat = self.ins().splat(types::I16X8, set);
            for own in (0..16.min(self.lanes)).step_by(8) {
                let own: Vec<u8> = (own..own + 8)
                    .flat_map(|lane| (1u16 << lane).to_le_bytes())
                    .collect();
                let own = self.vconst_bytes(types::I16X8, &own);
                let hit = self.ins().band(splat, own);
                masks.push(self.ins().icmp(IntCC::Equal, hit, own));
            }
        }
        masks
    }

    /// Quads of zero-extended lanes as packed vectors.
    pub(crate) fn packed_to(&mut self, quads: &[cl::Value], ty: Type) -> Parts {
        let mut parts: Parts = self.each(quads, |b, quad| b.cast_vector(quad, types::I32X4));
        while self.lane_width(&parts) > ty.bits() {
            parts = self.each_pair(&parts, |b, x, y| b.ins().unarrow(x, y));
        }
        parts
    }

    /// Whether packed elements at a stride are picked from few contiguous loads.
    pub(crate) fn packs_stride(&self, ty: Type, stride: i64) -> bool {
        let size = i64::from(ty.bytes());
        let is_whole = self.lanes as i64 * size % VECTOR == 0;
        is_whole && stride > size && span(size, stride) <= MOST_LOADS * VECTOR
    }

    /// Elements at a small stride, packed. Each vector of them is picked from contiguous loads, of
    /// which the last one ends with the last element: nothing behind it is read.
    pub(crate) fn load_packed_stride(&mut self, ty: Type, lanes: Strided) -> Parts {
        let size = i64::from(ty.bytes());
        let span = span(size, lanes.stride);
        let starts: Vec<i64> = (0..span)
            .step_by(VECTOR as usize)
            .map(|start| start.min(span - VECTOR))
            .collect();
        // Which load has a byte of the result, and where.
        let place = |byte: usize| {
            let at = byte as i64 / size * lanes.stride + byte as i64 % size;
            let load = starts.partition_point(|start| start + VECTOR <= at);
            (load, (at - starts[load]) as u8)
        };
        let mut parts = Parts::new();
        for i in 0..self.n_packed(ty) {
            let (at, offset) = self.strided_lane(lanes, i * (VECTOR / size) as usize);
            let mut picked = None;
            for (number, &start) in starts.iter().enumerate() {
                let (at, offset) = self.farther(at, start, offset);
                let load = self.load_device(types::I8X16, at, offset);
                let lanes = std::array::from_fn(|byte| match place(byte) {
                    (0, at) if number == 1 => at,
                    (load, at) if load == number => VECTOR as u8 + at,
                    _ => byte as u8,
                });
                picked = Some(match picked {
                    None => load,
                    Some(before) => self.shuffle(before, load, lanes),
                });
            }
            let picked = picked.expect("a span has loads");
            parts.push(self.cast_vector(picked, subword_type(ty)));
        }
        parts
    }
}

/// Bytes of a vector.
const VECTOR: i64 = 16;

/// Elements farther apart are loaded one by one.
const MOST_LOADS: i64 = 4;

/// Bytes from the first element of a vector to the end of the last one.
fn span(size: i64, stride: i64) -> i64 {
    (VECTOR / size - 1) * stride + size
}
