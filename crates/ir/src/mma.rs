//! Products of matrices that the lanes of a warp hold together: `D = A * B + C`. PTX ISA,
//! "Warp-Level Matrix Instructions: mma".
//!
//! A has `m` rows and `k` columns, B `k` rows and 8 columns, C and D `m` rows and 8 columns. Each
//! lane holds a *fragment* of each: registers of 32 bits (of 64 for f64) in which the elements lie
//! side by side, lower ones first.
//!
//! With a sparse A the fragments hold the half of its elements that may not be zero, and
//! *metadata*, a register of each lane, tells where they belong: of each *chunk* of neighbours in a
//! row, four bits.

use serde::{Deserialize, Serialize};

use crate::inst::InstData;
use crate::ops::WarpOp;
use crate::types::{NumFmt, Round, Type};

/// Columns of B, C and D.
pub const MMA_COLUMNS: usize = 8;

/// Format of the elements of A or B.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are PTX's own")]
pub enum MatrixFmt {
    F16,
    Bf16,
    /// f32, of which the low 13 bits do not count.
    Tf32,
    F64,
    E4m3,
    E5m2,
    /// In the low bits of a byte, as are the next two.
    E3m2,
    E2m3,
    /// In bits 2 to 5 of a byte.
    E2m1,
    /// The same in four bits.
    PackedE2m1,
    S8,
    U8,
    S4,
    U4,
    B1,
}

impl MatrixFmt {
    /// Bits that an element takes in a register.
    pub const fn bits(self) -> usize {
        match self {
            MatrixFmt::F64 => 64,
            MatrixFmt::Tf32 => 32,
            MatrixFmt::F16 | MatrixFmt::Bf16 => 16,
            MatrixFmt::E4m3
            | MatrixFmt::E5m2
            | MatrixFmt::E3m2
            | MatrixFmt::E2m3
            | MatrixFmt::E2m1
            | MatrixFmt::S8
            | MatrixFmt::U8 => 8,
            MatrixFmt::S4 | MatrixFmt::U4 | MatrixFmt::PackedE2m1 => 4,
            MatrixFmt::B1 => 1,
        }
    }

    /// Elements in a register.
    pub const fn per_register(self) -> usize {
        if self.bits() == 64 {
            1
        } else {
            32 / self.bits()
        }
    }
}

/// Format of the elements of C or D.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are PTX's own")]
pub enum SumFmt {
    /// Two in a register.
    F16,
    F32,
    F64,
    S32,
}

impl SumFmt {
    /// Elements in a register.
    pub const fn per_register(self) -> usize {
        match self {
            SumFmt::F16 => 2,
            SumFmt::F32 | SumFmt::F64 | SumFmt::S32 => 1,
        }
    }
}

/// What is done with an element of A and one of B before the results are added up.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum ProductOp {
    /// Their product.
    Mul,
    /// Of single bits: whether both are set.
    And,
    /// Of single bits: whether they differ.
    Xor,
}

/// Which lane holds which elements.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum FragmentLayout {
    /// The rule of all shapes but one: lanes `4 * g` to `4 * g + 3` hold row `g` of A and column
    /// `g` of B.
    Quads {
        /// Whether they hold row `g` of each 8x8 tile of B instead, a register each: before
        /// `movmatrix`, not behind it. Of elements of 16 bits alone.
        b_by_rows: bool,
    },
    /// `m8n8k4` of f16 and bf16: four products, each of eight lanes.
    QuadPairs {
        /// Whether lanes hold columns of A rather than rows.
        a_by_columns: bool,
        /// Whether lanes hold columns of B rather than rows.
        b_by_columns: bool,
    },
}

/// One form of `mma`.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Mma {
    /// Rows of A, C and D: 8 or 16.
    pub m: usize,
    /// Columns of A, all of them if it is sparse, and rows of B.
    pub k: usize,
    /// Elements of A.
    pub a: MatrixFmt,
    /// Elements of B.
    pub b: MatrixFmt,
    /// Elements of C.
    pub c: SumFmt,
    /// Elements of D.
    pub d: SumFmt,
    /// How elements meet.
    pub op: ProductOp,
    /// Rounding of each step in f64; all else rounds to nearest.
    pub round: Round,
    /// Whether integer sums are clamped to the range of s32 rather than wrapped.
    pub saturates: bool,
    /// Where the elements are.
    pub layout: FragmentLayout,
    /// If A is sparse, which lanes hold the metadata: 0 to 3.
    pub selector: Option<u8>,
    /// If blocks of elements have factors of their own.
    pub scale: Option<Scale>,
}

/// Factors of the elements of A and B. Bytes of a register hold those of the blocks of a row of A,
/// or a column of B, along K: for row `r` of A in lane `4 * (r % 8) + r / 8`, for column `c` of B
/// in lane `4 * c`.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Scale {
    /// Blocks of a row: 1, 2 or 4.
    pub blocks: usize,
    /// `Ue8m0`, or `E4m3` without its sign.
    pub fmt: NumFmt,
}

/// Which elements of a row of a sparse A a chunk tells of.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Chunk {
    /// Elements that are stored.
    pub stored: usize,
    /// Elements that the row has.
    pub whole: usize,
}

impl std::fmt::Display for Mma {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let types = format!("{:?}.{:?}.{:?}.{:?}", self.d, self.a, self.b, self.c);
        write!(f, "m{}n8k{}.{}", self.m, self.k, types.to_lowercase())?;
        match self.layout {
            FragmentLayout::Quads { b_by_rows: true } => f.write_str(".b_by_rows"),
            FragmentLayout::Quads { .. } | FragmentLayout::QuadPairs { .. } => Ok(()),
        }
    }
}

/// Where an element of a matrix is: which of the independent products it belongs to, its row and
/// its column.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// 0, or with [`FragmentLayout::QuadPairs`] 0 to 3.
    pub product: usize,
    /// Row.
    pub row: usize,
    /// Column.
    pub column: usize,
}

impl InstData {
    /// The product of matrices that the instruction is, if it is one.
    pub fn mma(&self) -> Option<Mma> {
        let InstData::Warp {
            op: WarpOp::Mma(mma),
            ..
        } = *self
        else {
            return None;
        };
        Some(mma)
    }
}

impl Mma {
    /// The type of all registers.
    pub const fn register(&self) -> Type {
        if matches!(self.a, MatrixFmt::F64) {
            Type::B64
        } else {
            Type::B32
        }
    }

    /// Products that the lanes compute side by side.
    pub const fn n_products(&self) -> usize {
        match self.layout {
            FragmentLayout::Quads { .. } => 1,
            FragmentLayout::QuadPairs { .. } => 4,
        }
    }

    /// Elements that a lane holds of a matrix with `size` of them.
    const fn share(&self, size: usize) -> usize {
        size * self.n_products() / 32
    }

    /// Columns of A that the lanes hold.
    pub const fn stored_k(&self) -> usize {
        match self.selector {
            Some(_) => self.k / 2,
            None => self.k,
        }
    }

    /// Registers of A in a lane.
    pub const fn a_registers(&self) -> usize {
        self.share(self.m * self.stored_k()) / self.a.per_register()
    }

    /// Registers in a lane behind those of C: the metadata of a sparse A, and the factors of A and
    /// of B.
    pub const fn further_registers(&self) -> usize {
        let metadata = match self.selector {
            Some(_) => 1,
            None => 0,
        };
        let factors = match self.scale {
            Some(_) => 2,
            None => 0,
        };
        metadata + factors
    }

    /// Registers of B in a lane.
    pub const fn b_registers(&self) -> usize {
        self.share(self.k * MMA_COLUMNS) / self.b.per_register()
    }

    /// Elements of C or D in a lane.
    pub const fn sums(&self) -> usize {
        self.share(self.m * MMA_COLUMNS)
    }

    /// Registers of C in a lane.
    pub const fn c_registers(&self) -> usize {
        self.sums() / self.c.per_register()
    }

    /// Registers of D in a lane.
    pub const fn d_registers(&self) -> usize {
        self.sums() / self.d.per_register()
    }

    /// Whether a product of the same form that is added to D has the bits that it would have if
    /// both went on with the same sums: D is neither rounded nor clamped. Then nothing is behind C.
    pub fn keeps_sums(&self) -> bool {
        let is_exact = match self.d {
            SumFmt::F32 => true,
            SumFmt::S32 => !self.saturates,
            SumFmt::F16 | SumFmt::F64 => false,
        };
        is_exact && self.c == self.d && self.further_registers() == 0
    }

    /// Operands: the registers of A, of B, of C, and what is behind.
    pub const fn n_args(&self) -> usize {
        self.a_registers() + self.b_registers() + self.c_registers() + self.further_registers()
    }

    /// The chunks of a sparse A.
    pub const fn chunk(&self) -> Chunk {
        match self.a.bits() {
            32 => Chunk {
                stored: 1,
                whole: 2,
            },
            4 => Chunk {
                stored: 4,
                whole: 8,
            },
            _ => Chunk {
                stored: 2,
                whole: 4,
            },
        }
    }

    /// The lane that holds the four bits of metadata of a chunk, and the lowest of these bits. PTX
    /// ISA, "Sparse matrix storage".
    pub fn place_of_metadata(&self, selector: u8, row: usize, chunk: usize) -> (usize, usize) {
        let (quad, below, selector) = (row % 8, row / 8, usize::from(selector));
        let n = self.k / self.chunk().whole;
        match (self.a.bits() >= 16, n) {
            (true, 4) => (4 * quad + selector, 4 * chunk + 16 * below),
            (true, _) => (
                4 * quad + 2 * selector + chunk / 4,
                4 * (chunk % 4) + 16 * below,
            ),
            (false, 8) => (4 * quad + 2 * selector + below, 4 * chunk),
            (false, _) => (4 * quad + below + 2 * (chunk / 8), 4 * (chunk % 8)),
        }
    }

    /// Where element `i` of a lane's fragment of A is, among those that are stored.
    pub fn place_in_a(&self, lane: usize, i: usize) -> Place {
        let (g, t) = (lane / 4, lane % 4);
        match self.layout {
            FragmentLayout::Quads { .. } => {
                let n = self.a.per_register();
                let (register, within) = (i / n, i % n);
                let (below, further) = if self.m == 16 {
                    (register % 2, register / 2)
                } else {
                    (0, register)
                };
                Place {
                    product: 0,
                    row: g + 8 * below,
                    column: n * t + within + 4 * n * further,
                }
            }
            FragmentLayout::QuadPairs { a_by_columns, .. } => {
                let (own, high) = (t, lane / 16 * 4);
                let (row, column) = if a_by_columns {
                    (i + high, own)
                } else {
                    (own + high, i)
                };
                Place {
                    product: lane % 16 / 4,
                    row,
                    column,
                }
            }
        }
    }

    /// Where element `i` of a lane's fragment of B is.
    pub fn place_in_b(&self, lane: usize, i: usize) -> Place {
        let (g, t) = (lane / 4, lane % 4);
        match self.layout {
            FragmentLayout::Quads { b_by_rows } => {
                let n = self.b.per_register();
                let (register, within) = (i / n, i % n);
                let (row, column) = match b_by_rows {
                    true => (g, n * t + within),
                    false => (n * t + within, g),
                };
                Place {
                    product: 0,
                    row: row + 4 * n * register,
                    column,
                }
            }
            FragmentLayout::QuadPairs { b_by_columns, .. } => {
                let (own, high) = (t, lane / 16 * 4);
                let (row, column) = if b_by_columns {
                    (i, own + high)
                } else {
                    (own, i + high)
                };
                Place {
                    product: lane % 16 / 4,
                    row,
                    column,
                }
            }
        }
    }

    /// Where element `i` of a lane's fragment of C or D is, if its elements are of `fmt`.
    pub fn place_of_sum(&self, fmt: SumFmt, lane: usize, i: usize) -> Place {
        let (g, t) = (lane / 4, lane % 4);
        if matches!(self.layout, FragmentLayout::Quads { .. }) {
            return Place {
                product: 0,
                row: g + 8 * (i / 2),
                column: 2 * t + i % 2,
            };
        }
        let high = lane / 16 * 4;
        let (row, column) = match fmt {
            SumFmt::F16 => (t + high, i),
            SumFmt::F32 | SumFmt::F64 | SumFmt::S32 => {
                ((lane & 1) + (i & 2) + high, (i & 4) + (lane & 2) + (i & 1))
            }
        };
        Place {
            product: lane % 16 / 4,
            row,
            column,
        }
    }
}
