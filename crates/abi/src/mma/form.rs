//! What the words of decoded factors are.

use ptxjit_ir::{MatrixFmt, Mma, SumFmt};

use super::blocks::Blocks;
use super::steps::Steps;

/// What a word of a decoded factor holds, of elements that are neighbors along K.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// A float, as its value in f32.
    Float,
    /// Two bf16, the first one in the high half: [`Blocks::add_bf16`] takes that first.
    PairOfBf16,
    /// Two integers as i16.
    PairOfIntegers,
    /// Four integers: of A as unsigned bytes, which are too large by [`bias`], and of B as signed
    /// ones. Behind B stands a row with what the bias adds to the sums.
    Bytes,
    /// 32 bits as they are.
    Bits,
}

impl Form {
    /// In which steps multiply the factors of a product. What is behind C needs single elements, or
    /// pairs of integers.
    pub(super) fn of<S: Steps>(mma: &Mma) -> Form {
        use MatrixFmt::{B1, Bf16, S4, S8, U4, U8};
        let is_alone = mma.further_registers() == 0;
        match (mma.a, mma.b, mma.c) {
            (B1, _, _) => Form::Bits,
            (Bf16, Bf16, _) if S::Blocks::ADDS_BF16 && is_alone => Form::PairOfBf16,
            (S8 | U8 | S4 | U4, S8 | S4 | U4, _) if S::Blocks::ADDS_BYTES && is_alone => {
                Form::Bytes
            }
            (_, _, SumFmt::S32) => Form::PairOfIntegers,
            (_, _, SumFmt::F16 | SumFmt::F32 | SumFmt::F64) => Form::Float,
        }
    }

    /// log2 of the elements along K that a word holds.
    fn log_per_word(self) -> usize {
        match self {
            Form::Float => 0,
            Form::PairOfBf16 | Form::PairOfIntegers => 1,
            Form::Bytes => 2,
            Form::Bits => 5,
        }
    }

    /// Words along K.
    pub(super) fn words_along_k(self, mma: &Mma) -> usize {
        mma.k >> self.log_per_word()
    }

    /// Words along K that are stored of A.
    pub(super) fn stored_along_k(self, mma: &Mma) -> usize {
        mma.stored_k() >> self.log_per_word()
    }

    /// Rows of a decoded B. Those behind bytes fill a line of the cache.
    pub(super) fn rows_of_b(self, mma: &Mma) -> usize {
        let rows = self.words_along_k(mma);
        match self {
            Form::Bytes => rows + 2,
            Form::Float | Form::PairOfBf16 | Form::PairOfIntegers | Form::Bits => rows,
        }
    }
}

/// By how much the bytes of A are larger than its elements, so that none is negative.
pub(super) fn bias(mma: &Mma) -> u8 {
    if mma.a == MatrixFmt::S8 {
        0x80
    } else if mma.a == MatrixFmt::S4 {
        8
    } else {
        0
    }
}

/// Which factors and sums an instruction may multiply and add that takes subnormal numbers for
/// zero: those that are zero or large enough.
///
/// A bf16 has 8 bits. Two of at least 2^-56 have a product that is a multiple of 2^-126, the least
/// normal number; so is an f32 of at least 2^-103, which has 24 bits, and so is every sum of such
/// numbers, rounded or not: none is subnormal.
pub(super) mod least {
    /// Of the exponent, in the bits of a number.
    const fn exponent(least: i32) -> u32 {
        (least + 127) as u32
    }

    /// A factor, as [`least_bf16`](super::Blocks::least_bf16) gives it.
    pub(in crate::mma) const FACTOR: u16 = (exponent(-56) << 7 << 1) as u16 - 1;
    /// A sum, as [`least_float`](super::Blocks::least_float) gives it.
    pub(in crate::mma) const SUM: u32 = (exponent(-103) << 23 << 1) - 1;
}
