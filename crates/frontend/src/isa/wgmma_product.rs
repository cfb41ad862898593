//! How `wgmma` is done: each warp computes its sixteen rows of D at once, by products of the shapes
//! of `mma`. What it needs of A and B it reads from shared memory, tile by tile of eight rows of 16
//! bytes.
//!
//! "Asynchronous" permits doing it when it is issued: until `wgmma.wait_group` no thread may touch
//! what it reads or writes. A thread that has waited may, and may tell other threads that they may,
//! since the product of the whole warpgroup is complete: so its warps wait for each other there.

use ptxjit_ir::{BarrierOp, InstData, IntBinaryOp, MarkOp, Space, SpecialReg, Type, Value};
use smallvec::SmallVec;

use crate::ast::OperandKind;
use crate::diag::Diagnostic;
use crate::translate::{Inst, Translator};

use super::fragments::{self, Lane, from_lane, lane, registers, registers_of, scaled, transposed};
use super::mma_product::description;
use super::modifiers::Mod;
use super::types::PtxType as T;

/// A matrix in shared memory. PTX ISA, "Matrix Descriptor Format" and "Strides". All are `B32`.
struct Descriptor {
    start: Value,
    /// The leading dimension's byte offset.
    lead: Value,
    /// The stride dimension's byte offset.
    stride: Value,
    /// Where the pattern of swizzling begins.
    base: Value,
    /// Whether rows of 16 bytes are not swizzled.
    is_plain: Value,
    /// Bytes from one row to the next.
    row: Value,
    /// Units of 16 bytes in a row, less one: the bits of an address that are swizzled.
    mask: Value,
    /// log2 of the units in a row.
    log_units: Value,
}

impl Descriptor {
    fn new(t: &mut Translator<'_>, desc: Value) -> Descriptor {
        let word = |t: &mut Translator<'_>, from| t.extract(desc, from, Type::B32);
        let (low, high) = (word(t, 0), word(t, 32));
        let [start, lead, stride] = [(low, 0), (low, 16), (high, 0)].map(|(word, from)| {
            let field = field(t, word, from, 14);
            scaled(t, field, 16, 0)
        });
        // The field has no room for more than the place in the CTA's own shared memory.
        let part = own_part(t);
        let start = t.binary(IntBinaryOp::Add, start, part);
        let base = field(t, high, 17, 3);
        let mode = field(t, high, 30, 2);
        let zero = t.iconst(Type::B32, 0);
        let is_plain = t.compare(ptxjit_ir::CompareOp::Eq, mode, zero);
        let [one, four, sixteen] = [1, 4, 16].map(|bits| t.iconst(Type::B32, bits));
        // 1, 2 and 3 stand for rows of 128, 64 and 32 bytes.
        let units = t.binary(IntBinaryOp::Ushr, sixteen, mode);
        let units = t.select(is_plain, one, units);
        Descriptor {
            start,
            lead,
            stride,
            base,
            is_plain,
            row: t.binary(IntBinaryOp::Mul, units, sixteen),
            mask: t.binary(IntBinaryOp::Sub, units, one),
            log_units: t.binary(IntBinaryOp::Sub, four, mode),
        }
    }

    /// Where row `row` of 16 bytes begins of the tile `outer` along M or N, counted in eights, and
    /// `inner` along K, counted in 16 bytes.
    fn row_along_k(&self, t: &mut Translator<'_>, [row, outer, inner]: [Value; 3]) -> Value {
        let sixteen = t.iconst(Type::B32, 16);
        let step = t.select(self.is_plain, self.lead, sixteen);
        let parts = [(row, self.row), (outer, self.stride), (inner, step)];
        self.swizzled(t, &parts)
    }

    /// The same for a matrix whose neighbours along M or N lie side by side: rows of one K, counted
    /// in eights by `inner`.
    fn row_across_k(&self, t: &mut Translator<'_>, [row, outer, inner]: [Value; 3]) -> Value {
        let sixteen = t.iconst(Type::B32, 16);
        let within = t.binary(IntBinaryOp::And, outer, self.mask);
        let beyond = t.binary(IntBinaryOp::Ushr, outer, self.log_units);
        let zero = t.iconst(Type::B32, 0);
        let [within, beyond] = [(within, zero), (beyond, outer)]
            .map(|(swizzled, plain)| t.select(self.is_plain, plain, swizzled));
        let beyond_step = t.select(self.is_plain, self.stride, self.lead);
        let step = t.select(self.is_plain, self.lead, self.stride);
        let parts = [
            (row, self.row),
            (within, sixteen),
            (beyond, beyond_step),
            (inner, step),
        ];
        self.swizzled(t, &parts)
    }

    /// The address at the sum of products, with its bits swizzled.
    fn swizzled(&self, t: &mut Translator<'_>, parts: &[(Value, Value)]) -> Value {
        let mut at = self.start;
        for &(count, size) in parts {
            let bytes = t.binary(IntBinaryOp::Mul, count, size);
            at = t.binary(IntBinaryOp::Add, at, bytes);
        }
        let (seven, four) = (t.iconst(Type::B32, 7), t.iconst(Type::B32, 4));
        let row = t.binary(IntBinaryOp::Ushr, at, seven);
        let row = t.binary(IntBinaryOp::Sub, row, self.base);
        let bits = t.binary(IntBinaryOp::And, row, self.mask);
        let bits = t.binary(IntBinaryOp::Shl, bits, four);
        t.binary(IntBinaryOp::Xor, at, bits)
    }
}

/// Where the CTA's own shared memory begins in the window of its cluster.
fn own_part(t: &mut Translator<'_>) -> Value {
    let sreg = ptxjit_ir::SpecialReg::ClusterCtaRank;
    let rank = t.ins(InstData::Sreg { sreg }, Type::B32);
    let shift = t.iconst(Type::B32, ptxjit_ir::CTA_SHIFT.into());
    t.binary(IntBinaryOp::Shl, rank, shift)
}

/// So many bits of a word.
fn field(t: &mut Translator<'_>, word: Value, from: u64, bits: u32) -> Value {
    let from = t.iconst(Type::B32, from);
    let mask = t.iconst(Type::B32, (1 << bits) - 1);
    let word = t.binary(IntBinaryOp::Ushr, word, from);
    t.binary(IntBinaryOp::And, word, mask)
}

/// A matrix in shared memory, as the instruction says how it is stored.
struct Stored {
    descriptor: Descriptor,
    /// Whether neighbours along M or N lie side by side.
    is_transposed: bool,
    /// What is done to the sign bits of elements.
    signs: Option<Value>,
}

impl Stored {
    /// Registers of fragments: tiles that `place` finds along M or N, in eights, and along K, from
    /// their numbers.
    ///
    /// As for `ldmatrix`, each lane has the address of one row, and lanes of a quad read the row of
    /// another lane: four tiles need their addresses computed once.
    fn registers(
        &self,
        t: &mut Translator<'_>,
        lane: Lane,
        tiles: std::ops::Range<u64>,
        place: impl Fn(&mut Translator<'_>, Value) -> [Value; 2],
    ) -> Vec<Value> {
        let mut registers = Vec::new();
        for first in tiles.clone().step_by(TILES_OF_ROWS) {
            let [row, tile] = lane.row_of_tile(t);
            let first_tile = t.iconst(Type::B32, first);
            let tile = t.binary(IntBinaryOp::Add, tile, first_tile);
            let [outer, inner] = place(t, tile);
            let row = match self.is_transposed {
                true => self.descriptor.row_across_k(t, [row, outer, inner]),
                false => self.descriptor.row_along_k(t, [row, outer, inner]),
            };
            for n in 0..(tiles.end - first).min(TILES_OF_ROWS as u64) {
                let source = scaled(t, lane.quad, 1, 8 * n);
                let row = from_lane(t, row, source);
                registers.push(self.register(t, lane, row));
            }
        }
        registers
    }

    /// A register, whose quads are rows of 16 bytes.
    fn register(&self, t: &mut Translator<'_>, lane: Lane, row: Value) -> Value {
        let offset = scaled(t, lane.within, 4, 0);
        let at = t.binary(IntBinaryOp::Add, row, offset);
        let word = t.load(Space::Shared, Type::B32, 1, (at, 0))[0];
        let word = match self.is_transposed {
            true => transposed(t, word),
            false => word,
        };
        with_signs(t, word, self.signs)
    }
}

fn with_signs(t: &mut Translator<'_>, word: Value, signs: Option<Value>) -> Value {
    match signs {
        Some(signs) => t.binary(IntBinaryOp::Xor, word, signs),
        None => word,
    }
}

/// Tiles of B that are read before the products with them: what compiled code takes together, so
/// that A is decoded once for them.
const TILES: usize = 8;

/// Tiles whose rows the lanes of a warp have the addresses of.
const TILES_OF_ROWS: usize = 4;

/// `wgmma.mma_async`
pub(super) fn product<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    n: u64,
) -> Result<(), Diagnostic> {
    let ty = inst.ty(1);
    let Some(mut mma) = description(inst, [inst.ty(0), ty, inst.ty(2), inst.ty(0)]) else {
        return super::not_executable(t, inst);
    };
    // Rows of 32 bytes are stored of A.
    (mma.m, mma.k) = (16, 256 / mma.a.bits());
    // Behind the matrices a sparse A has its metadata and a selector.
    let (mut first, mut metadata) = (3, None);
    if inst.has(Mod::Sp) {
        metadata = Some(t.src(inst, 3)?);
        mma.selector = Some(t.src_const(inst, 4)? as u8);
        mma.k *= 2;
        first = 5;
    }
    let lane = lane(t);
    t.mark(MarkOp::ProductBegin, &[]);
    let a = left_factor(t, inst, lane, first + 1)?;
    let b = Stored {
        descriptor: descriptor(t, inst, 2)?,
        is_transposed: has_layouts(ty) && flag(t, inst, inst.n_operands() - 1)?,
        signs: signs(t, inst, first + 2)?,
    };
    let old = sums(t, inst, first)?;
    let mut d: SmallVec<[Value; 4]> = SmallVec::new();
    let mut old = old.chunks(mma.c_registers());
    let along_k = mma.b_registers() as u64;
    for first in (0..n / 8).step_by(TILES) {
        let tiles = first..(n / 8).min(first + TILES as u64);
        let registers = tiles.start * along_k..tiles.end * along_k;
        let b = b.registers(t, lane, registers, |t, tile| {
            [IntBinaryOp::Udiv, IntBinaryOp::Urem].map(|op| {
                let along_k = t.iconst(Type::B32, along_k);
                t.binary(op, tile, along_k)
            })
        });
        for (b, c) in b.chunks(mma.b_registers()).zip(&mut old) {
            d.extend(fragments::product(t, mma, [&a, b, c, metadata.as_slice()]));
        }
    }
    t.mark(MarkOp::ProductEnd, &[]);
    t.dst_elems(inst, 0, &d)
}

/// `wgmma.wait_group`: however many groups may stay pending, a warp has computed its own part of
/// all, and waits for the other warps alone.
pub(super) fn wait<'m>(t: &mut Translator<'m>, _: &Inst<'m>) -> Result<(), Diagnostic> {
    let id = t.iconst(Type::B32, 0);
    t.ins_void(InstData::Barrier {
        op: BarrierOp::Warpgroup,
        aligned: true,
        id,
        count: None,
        pred: None,
    });
    Ok(())
}

/// Whether instructions on such elements say how A and B are stored.
fn has_layouts(ty: T) -> bool {
    matches!(ty, T::F16 | T::Bf16)
}

fn descriptor<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    n: usize,
) -> Result<Descriptor, Diagnostic> {
    let bits = t.src_as(inst, n, T::U64)?;
    Ok(Descriptor::new(t, bits))
}

fn flag<'m>(t: &mut Translator<'m>, inst: &Inst<'m>, n: usize) -> Result<bool, Diagnostic> {
    Ok(t.src_const(inst, n)? != 0)
}

/// The sign bits of the elements in a register, if operand `n` says that they are negated.
fn signs<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    n: usize,
) -> Result<Option<Value>, Diagnostic> {
    if n >= inst.n_operands() || t.src_const(inst, n)? != -1 {
        return Ok(None);
    }
    let bits = match inst.ty(1) {
        T::F16 | T::Bf16 => 0x8000_8000,
        T::Tf32 => 0x8000_0000,
        _ => 0x8080_8080,
    };
    Ok(Some(t.iconst(Type::B32, bits)))
}

/// This lane's fragment of the warp's sixteen rows of A; operand `scale` may negate it.
fn left_factor<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    lane: Lane,
    scale: usize,
) -> Result<Vec<Value>, Diagnostic> {
    let signs = signs(t, inst, scale)?;
    let operand = inst.operand(1).map(|operand| &operand.kind);
    if matches!(operand, Some(OperandKind::Vector(_))) {
        let words = registers_of(t, inst, 1, T::B32)?;
        return Ok(words
            .into_iter()
            .map(|word| with_signs(t, word, signs))
            .collect());
    }
    let a = Stored {
        descriptor: descriptor(t, inst, 1)?,
        is_transposed: has_layouts(inst.ty(1)) && flag(t, inst, inst.n_operands() - 2)?,
        signs,
    };
    let sreg = SpecialReg::WarpId;
    let warp = t.ins(InstData::Sreg { sreg }, Type::B32);
    let warp = field(t, warp, 0, 2);
    // Rows 0 to 7, rows 8 to 15, then the same for the second half of K.
    Ok(a.registers(t, lane, 0..4, |t, tile| {
        let below = field(t, tile, 0, 1);
        let strip = scaled(t, warp, 2, 0);
        let inner = field(t, tile, 1, 1);
        [t.binary(IntBinaryOp::Add, strip, below), inner]
    }))
}

/// The old D, or zeros, as a predicate says.
fn sums<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    predicate: usize,
) -> Result<Vec<Value>, Diagnostic> {
    let is_added = t.src_as(inst, predicate, T::Pred)?;
    let old = registers(t, inst, 0)?;
    let zero = t.iconst(Type::B32, 0);
    Ok(old
        .into_iter()
        .map(|old| t.select(is_added, old, zero))
        .collect())
}
