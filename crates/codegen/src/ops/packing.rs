//! Packed elements: several narrow elements of a lane, as `ld.v4.u8` moves them, travel as words,
//! and are unpacked and packed in registers.

use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_ir::Type;

use super::{Emitter, Parts, Words};

/// The widest words that hold `n` elements of a type and nothing else, and how many. An access of
/// several elements is aligned to all of them together.
pub(crate) fn words(ty: Type, n: usize) -> Words {
    let bytes = ty.bytes() as usize * n;
    let (ty, n) = match ty {
        Type::B8 | Type::B16 if bytes.is_multiple_of(4) => (Type::B32, bytes / 4),
        Type::B8 | Type::B16 if bytes == 2 => (Type::B16, 1),
        Type::B1 | Type::B8 | Type::B16 | Type::B32 | Type::B64 => (ty, n),
    };
    Words { ty, n }
}

impl Emitter<'_> {
    /// Unpacks words: parts of element 0, then of element 1, and so on.
    pub(crate) fn unpacked(&mut self, parts: &[cl::Value], word: Type, ty: Type) -> Vec<cl::Value> {
        if word == ty {
            return parts.to_vec();
        }
        let per_word = word.bytes() / ty.bytes();
        let mut out = Vec::new();
        for parts in parts.chunks(self.n_parts(word)) {
            for k in 0..per_word {
                for &part in parts {
                    let shifted = match k {
                        0 => part,
                        _ => self.ins().ushr_imm_s(part, i64::from(8 * ty.bytes() * k)),
                    };
                    out.push(match k + 1 < per_word {
                        true => self.low_bits(shifted, ty),
                        false => shifted,
                    });
                }
            }
        }
        out
    }

    /// Packs elements into this many words.
    pub(crate) fn packed(&mut self, elems: Vec<Parts>, ty: Type, words: usize) -> Vec<Parts> {
        if elems.len() == words {
            return elems;
        }
        let whole = |elems: &[Parts]| {
            let (last, others) = elems.split_last()?;
            let mut parts = last.clone();
            for (i, part) in parts.iter_mut().enumerate() {
                *part = self.cast_vector(*part, types::I32X4);
                for elem in others.iter().rev() {
                    let above = self.ins().ishl_imm_s(*part, i64::from(8 * ty.bytes()));
                    let below = self.low_bits(elem[i], ty);
                    *part = self.ins().bor(above, below);
                }
            }
            Some(parts)
        };
        elems
            .chunks(elems.len() / words)
            .filter_map(whole)
            .collect()
    }

    /// 32-bit lanes without the bits above those of a narrow type.
    pub(crate) fn low_bits(&mut self, part: cl::Value, ty: Type) -> cl::Value {
        let part = self.cast_vector(part, types::I32X4);
        self.and_word(part, ty.mask() as u32)
    }
}
