//! What the instruction descriptor of a product says, and where its matrices lie in tensor memory.
//! PTX ISA, "Instruction descriptor", "Matrix Shape" and "Data Path Layout Organization".

use ptxjit_ir::{BlockScale, MatrixFmt, MmaKind, NumFmt, SumFmt, TensorMma};

use super::matrix::Major;
use crate::Fault;

/// A product of an `m` x `k` matrix A and a `k` x `n` matrix B.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct Shape {
    pub(super) m: usize,
    pub(super) n: usize,
    /// With the zeros of a sparse A.
    pub(super) k: usize,
    pub(super) a: MatrixFmt,
    pub(super) b: MatrixFmt,
    pub(super) d: SumFmt,
    pub(super) a_major: Major,
    pub(super) b_major: Major,
    pub(super) negates_a: bool,
    pub(super) negates_b: bool,
    pub(super) saturates: bool,
    /// Of a sparse A: which column has the metadata.
    pub(super) selector: usize,
    pub(super) factors: Option<Factors>,
    pub(super) layout: Layout,
}

/// Factors of the blocks of a row of A or a column of B.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct Factors {
    /// Blocks along K.
    pub(super) blocks: usize,
    /// `Ue8m0`, or `E4m3` without its sign.
    pub(super) fmt: NumFmt,
    /// Byte of a cell with the first factor of A.
    pub(super) a_id: usize,
    /// Byte of a cell with the first factor of B.
    pub(super) b_id: usize,
}

/// Where the rows of D, and of A if it is in tensor memory, lie: the letters are those of the ISA.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Layout {
    /// 256 rows in a pair.
    A,
    /// 128 rows in a pair.
    B,
    /// 128 rows of a sparse A in a pair.
    C,
    /// 128 rows in one CTA.
    D,
    /// 64 rows, `.ws`.
    E,
    /// 64 rows.
    F,
    /// 32 rows.
    G,
}

impl Layout {
    fn new(m: usize, op: &TensorMma) -> Option<Layout> {
        Some(match (op.weight_stationary, op.pair, m) {
            (true, _, 32) => Layout::G,
            (true, _, 64) => Layout::E,
            (_, false, 128) => Layout::D,
            (false, false, 64) => Layout::F,
            (false, true, 128) if op.sparse => Layout::C,
            (false, true, 128) => Layout::B,
            (false, true, 256) => Layout::A,
            _ => return None,
        })
    }

    /// Groups of lanes that hold one part each of the columns of D.
    pub(super) fn parts(self) -> usize {
        match self {
            Layout::B | Layout::E => 2,
            Layout::G => 4,
            Layout::A | Layout::C | Layout::D | Layout::F => 1,
        }
    }

    /// Half of the lanes are used: the first or the second sixteen of each quarter.
    pub(super) fn is_half(self) -> bool {
        matches!(self, Layout::C | Layout::F)
    }

    /// Which CTA of a pair has a row, and its lane for a part of the columns.
    pub(super) fn place(self, row: usize, part: usize) -> (usize, usize) {
        let spread = |row: usize| row / 16 * 32 + row % 16;
        match self {
            Layout::A => (row / 128, row % 128),
            Layout::B => (row / 64, row % 64 + 64 * part),
            Layout::C => (row / 64, spread(row % 64)),
            Layout::D => (0, row),
            Layout::E => (0, row + 64 * part),
            Layout::F => (0, spread(row)),
            Layout::G => (0, row + 32 * part),
        }
    }
}

/// Bits of an instruction descriptor.
#[derive(Copy, Clone)]
struct Bits(u32);

impl Bits {
    fn field(self, from: u32, n: u32) -> u32 {
        self.0 >> from & ((1 << n) - 1)
    }

    fn flag(self, at: u32) -> bool {
        self.field(at, 1) == 1
    }

    fn refuse(self, why: impl std::fmt::Display) -> Fault {
        Fault::refused(format!(
            "the instruction descriptor {:#010x}: {why}",
            self.0
        ))
    }

    fn zero(self, from: u32, n: u32) -> Result<(), Fault> {
        match self.field(from, n) {
            0 => Ok(()),
            _ if n == 1 => Err(self.refuse(format_args!("bit {from} must be zero"))),
            _ => Err(self.refuse(format_args!("bits {from} to {} must be zero", from + n - 1))),
        }
    }
}

impl Shape {
    /// Reads and checks the descriptor of a product.
    pub(super) fn decode(op: &TensorMma, descriptor: u32) -> Result<Shape, Fault> {
        let bits = Bits(descriptor);
        if bits.flag(2) != op.sparse {
            let what = if op.sparse { "sparse" } else { "dense" };
            return Err(bits.refuse(format_args!("bit 2 must say that A is {what}")));
        }
        bits.zero(6, 1)?;
        let m = match op.scale {
            None => 16 * bits.field(24, 5) as usize,
            Some(_) => 128 * bits.field(27, 2) as usize,
        };
        let layout = Layout::new(m, op);
        let layout =
            layout.ok_or_else(|| bits.refuse(format_args!("there is no product with M = {m}")))?;
        let major = |at: u32| if bits.flag(at) { Major::Mn } else { Major::K };
        let mut shape = Shape {
            m,
            n: 8 * bits.field(17, 6) as usize,
            k: dense_k(op.kind) << u32::from(op.sparse),
            a: element(op.kind, bits, 7, 3)?,
            b: element(op.kind, bits, 10, if is_packed(op.kind) { 2 } else { 3 })?,
            d: SumFmt::F32,
            a_major: major(15),
            b_major: major(16),
            negates_a: bits.flag(13),
            negates_b: bits.flag(14),
            saturates: false,
            selector: 0,
            factors: None,
            layout,
        };
        match op.scale {
            None => shape.plain(op, bits)?,
            Some(scale) => shape.scaled(op, bits, scale)?,
        }
        shape.check_columns(op, bits)?;
        shape.check_order(op, bits)?;
        Ok(shape)
    }

    /// What only descriptors of products without factors have.
    fn plain(&mut self, op: &TensorMma, bits: Bits) -> Result<(), Fault> {
        bits.zero(23, 1)?;
        bits.zero(29, 1)?;
        self.saturates = bits.flag(3);
        if op.kind != MmaKind::I8 {
            bits.zero(3, 1)?;
        } else if self.negates_a || self.negates_b {
            return Err(bits.refuse("integers cannot be negated"));
        }
        self.selector = bits.field(0, 2) as usize;
        let takes_selector = matches!(op.kind, MmaKind::F16 | MmaKind::Tf32);
        if op.sparse && !takes_selector && self.selector != 0 {
            return Err(bits.refuse("the sparsity selector must be zero for this kind"));
        }
        let is_half = self.a == MatrixFmt::F16 && self.b == MatrixFmt::F16;
        self.d = match (bits.field(4, 2), op.kind) {
            (0, MmaKind::F8f6f4) => SumFmt::F16,
            (0, MmaKind::F16) if is_half => SumFmt::F16,
            (1, MmaKind::F16 | MmaKind::Tf32 | MmaKind::F8f6f4) => SumFmt::F32,
            (2, MmaKind::I8) => SumFmt::S32,
            (other, _) => {
                return Err(bits.refuse(format_args!(
                    "D cannot be of type {other} for these types of A and B"
                )));
            }
        };
        Ok(())
    }

    /// What only descriptors of products with factors have.
    fn scaled(&mut self, op: &TensorMma, bits: Bits, scale: BlockScale) -> Result<(), Fault> {
        bits.zero(0, 2)?;
        bits.zero(3, 1)?;
        bits.zero(24, 3)?;
        let mut dense = dense_k(op.kind);
        if !is_packed(op.kind) {
            bits.zero(31, 1)?;
        } else {
            bits.zero(12, 1)?;
            bits.zero(15, 2)?;
            if bits.flag(31) {
                if !op.wide_k || op.sparse {
                    return Err(bits.refuse("K = 96 is for dense products on `sm_103a`"));
                }
                (dense, self.k) = (96, 96);
            }
        }
        if is_packed(op.kind) && op.sparse && op.pair && self.m != 256 {
            return Err(bits.refuse("a sparse A of 4 bits in a pair has M = 256"));
        }
        let blocks = match scale {
            BlockScale::Factors(n) => n.into(),
            BlockScale::Elements(n) => dense / usize::from(n),
        };
        let fmt = if bits.flag(23) {
            NumFmt::Ue8m0
        } else {
            NumFmt::E4m3
        };
        if fmt == NumFmt::E4m3 && (op.kind != MmaKind::Mxf4nvf4 || matches!(blocks, 2 | 3)) {
            return Err(bits.refuse("factors of this form are of type ue8m0: bit 23 must be set"));
        }
        let [a_id, b_id] = [29, 4].map(|from| bits.field(from, 2) as usize);
        for (id, which) in [(a_id, 'A'), (b_id, 'B')] {
            let is_right = match blocks {
                1 | 3 => true,
                2 | 6 => id.is_multiple_of(2),
                _ => id == 0,
            };
            if !is_right {
                return Err(bits.refuse(format_args!(
                    "{id} is no place for {blocks} factors of {which}"
                )));
            }
        }
        self.factors = Some(Factors {
            blocks,
            fmt,
            a_id,
            b_id,
        });
        Ok(())
    }

    /// Refuses an N that does not exist.
    fn check_columns(&self, op: &TensorMma, bits: Bits) -> Result<(), Fault> {
        let n = self.n;
        let is_right = if op.weight_stationary {
            matches!(n, 64 | 128) || n == 256 && !op.sparse
        } else {
            let step = match (op.kind, op.pair) {
                (MmaKind::I8, true) => 32,
                (MmaKind::I8, false) if n > 32 => 16,
                (_, true) => 16,
                (_, false) => 8,
            };
            n.is_multiple_of(step) && (1..=256).contains(&n)
        };
        let step = if op.pair { 32 } else { 16 };
        let is_byte_transposed = self.b_major == Major::Mn && self.b.bits() == 8;
        if is_right && (!is_byte_transposed || n.is_multiple_of(step)) {
            return Ok(());
        }
        Err(bits.refuse(format_args!("there is no such product with N = {n}")))
    }

    /// Refuses transposition of what cannot be transposed, and shifts of what cannot be shifted.
    fn check_order(&self, op: &TensorMma, bits: Bits) -> Result<(), Fault> {
        let is_small = |fmt| {
            matches!(
                fmt,
                MatrixFmt::E2m1 | MatrixFmt::E2m3 | MatrixFmt::E3m2 | MatrixFmt::PackedE2m1
            )
        };
        for (major, fmt, which) in [(self.a_major, self.a, 'A'), (self.b_major, self.b, 'B')] {
            if major == Major::Mn && is_small(fmt) {
                return Err(bits.refuse(format_args!(
                    "{which} has elements of 4 or 6 bits and cannot be transposed"
                )));
            }
        }
        if op.a_in_tensor_memory && self.a_major == Major::Mn {
            return Err(bits.refuse("A in tensor memory cannot be transposed"));
        }
        if op.shifts_a && !matches!(self.m, 128 | 256) {
            return Err(bits.refuse("`.ashift` needs M = 128 or 256"));
        }
        Ok(())
    }

    /// Columns of A that are stored.
    pub(super) fn stored_k(&self, op: &TensorMma) -> usize {
        self.k >> u32::from(op.sparse)
    }
}

/// Whether elements lie two in a byte.
fn is_packed(kind: MmaKind) -> bool {
    matches!(kind, MmaKind::Mxf4 | MmaKind::Mxf4nvf4)
}

fn dense_k(kind: MmaKind) -> usize {
    match kind {
        MmaKind::F16 => 16,
        MmaKind::Tf32 => 8,
        MmaKind::F8f6f4 | MmaKind::I8 | MmaKind::Mxf8f6f4 => 32,
        MmaKind::Mxf4 | MmaKind::Mxf4nvf4 => 64,
    }
}

/// The type of elements that a field says.
fn element(kind: MmaKind, bits: Bits, from: u32, n: u32) -> Result<MatrixFmt, Fault> {
    let code = bits.field(from, n);
    let fmt = match (kind, code) {
        (MmaKind::F16, 0) => MatrixFmt::F16,
        (MmaKind::F16, 1) => MatrixFmt::Bf16,
        (MmaKind::Tf32, 2) => MatrixFmt::Tf32,
        (MmaKind::I8, 0) => MatrixFmt::U8,
        (MmaKind::I8, 1) => MatrixFmt::S8,
        (MmaKind::F8f6f4 | MmaKind::Mxf8f6f4, 0) => MatrixFmt::E4m3,
        (MmaKind::F8f6f4 | MmaKind::Mxf8f6f4, 1) => MatrixFmt::E5m2,
        (MmaKind::F8f6f4 | MmaKind::Mxf8f6f4, 3) => MatrixFmt::E2m3,
        (MmaKind::F8f6f4 | MmaKind::Mxf8f6f4, 4) => MatrixFmt::E3m2,
        (MmaKind::F8f6f4 | MmaKind::Mxf8f6f4, 5) => MatrixFmt::E2m1,
        (MmaKind::Mxf4 | MmaKind::Mxf4nvf4, 1) => MatrixFmt::PackedE2m1,
        _ => {
            return Err(bits.refuse(format_args!(
                "bits {from} to {}: there is no type {code} of elements in this kind",
                from + n - 1
            )));
        }
    };
    Ok(fmt)
}
