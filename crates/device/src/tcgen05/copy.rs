//! From shared to tensor memory, and within tensor memory. PTX ISA, "tcgen05.cp" and
//! "tcgen05.shift".

use ptxjit_ir::{CopyShape, Unpack};

use super::matrix::{Descriptor, Major, UNIT, unit_at};
use super::memory::{LANES, TensorMemory};
use crate::Fault;

/// Lanes of a warp's quarter.
const QUARTER: usize = 32;

/// Rows, and bytes of each.
fn size(shape: CopyShape) -> (usize, usize) {
    match shape {
        CopyShape::Rows128x256 => (128, 32),
        CopyShape::Rows4x256 => (4, 32),
        CopyShape::Rows128x128 => (128, 16),
        CopyShape::Rows64x128Pairs02And13 | CopyShape::Rows64x128Pairs01And23 => (64, 16),
        CopyShape::Rows32x128 => (32, 16),
    }
}

/// Lanes that a row goes to: the first, the distance to the next, and how many.
fn lanes(shape: CopyShape, row: usize) -> (usize, usize, usize) {
    match shape {
        CopyShape::Rows128x256 | CopyShape::Rows128x128 => (row, 0, 1),
        CopyShape::Rows4x256 => (QUARTER * row, 0, 1),
        CopyShape::Rows64x128Pairs02And13 => (row, 64, 2),
        CopyShape::Rows64x128Pairs01And23 => (row / QUARTER * 64 + row % QUARTER, QUARTER, 2),
        CopyShape::Rows32x128 => (row, QUARTER, 4),
    }
}

/// `tcgen05.cp` in one CTA.
pub(super) fn copy(
    (shape, unpack): (CopyShape, Option<Unpack>),
    memory: &mut TensorMemory,
    shared: &[u8],
    (address, descriptor): (u32, &Descriptor),
) -> Result<(), Fault> {
    let (rows, bytes) = size(shape);
    let (first, column) = ((address >> 16) as usize, address & 0xffff);
    memory.check(column, bytes as u32 / 4, "`tcgen05.cp`")?;
    let (last, step, n) = lanes(shape, rows - 1);
    let last = first + last + step * (n - 1);
    if last >= LANES {
        return Err(Fault::refused(format!(
            "`tcgen05.cp` to {address:#x} takes lanes up to {last}: there are {LANES}"
        )));
    }
    for row in 0..rows {
        for inner in 0..bytes / UNIT {
            let at = descriptor.unit(Major::K, row, inner);
            let mut unit = *unit_at(shared, at, "the matrix of `tcgen05.cp`")?;
            if let Some(unpack) = unpack {
                unit = unpacked(unpack, unit);
            }
            let words = unit.as_chunks::<4>().0;
            let (lane, step, n) = lanes(shape, row);
            for copy in 0..n {
                let cells = memory.lane_mut(first + lane + copy * step);
                let cells = &mut cells[column as usize + inner * UNIT / 4..];
                for (cell, word) in cells.iter_mut().zip(words) {
                    *cell = u32::from_le_bytes(*word);
                }
            }
        }
    }
    Ok(())
}

/// Sixteen elements in bytes: those of four bits in bits 2 to 5, those of six in bits 1 to 6. PTX
/// ISA, "Optional Decompression".
fn unpacked(unpack: Unpack, unit: [u8; UNIT]) -> [u8; UNIT] {
    let bits = u128::from_le_bytes(unit);
    let (width, shift) = match unpack {
        Unpack::Bits4 => (4, 2),
        Unpack::Bits6 => (6, 1),
    };
    std::array::from_fn(|n| ((bits >> (n * width)) as u8 & ((1 << width) - 1)) << shift)
}

/// `tcgen05.shift` in one CTA: 32 bytes of each lane go to the lane before, in each warp's quarter,
/// whose last lane keeps its own.
pub(super) fn shift(memory: &mut TensorMemory, address: u32) -> Result<(), Fault> {
    const CELLS: usize = 8;
    let (lane, column) = (address >> 16, address & 0xffff);
    if !lane.is_multiple_of(QUARTER as u32) || lane as usize >= LANES {
        return Err(Fault::refused(format!(
            "`tcgen05.shift` of {address:#x}: the lane must be a multiple of 32 below {LANES}"
        )));
    }
    memory.check(column, CELLS as u32, "`tcgen05.shift`")?;
    shift_cells(memory, 0..LANES, column as usize, CELLS);
    Ok(())
}

/// Moves cells of some lanes, whole quarters, to the lane before.
pub(super) fn shift_cells(
    memory: &mut TensorMemory,
    lanes: std::ops::Range<usize>,
    column: usize,
    count: usize,
) {
    for lane in lanes.filter(|lane| lane % QUARTER != QUARTER - 1) {
        for n in 0..count {
            *memory.cell(lane, column + n) = *memory.cell(lane + 1, column + n);
        }
    }
}
