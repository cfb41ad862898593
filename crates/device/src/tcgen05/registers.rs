//! Between registers of a warp and tensor memory. PTX ISA, "tcgen05.ld" and "tcgen05.st".
//!
//! A warp accesses a quarter of the lanes: those that its number modulo 4 says. Of the lane in an
//! address only the place in that quarter counts.

use ptxjit_ir::{RegisterAccess, RegisterShape};

use super::Registers;
use super::memory::{COLUMNS, TensorMemory};
use crate::Fault;

/// Lanes that a warp can access.
const QUARTER: u32 = 32;

/// What a thread accesses: the cells of its registers lie from here on.
pub(super) struct Window {
    access: RegisterAccess,
    thread: u32,
    lane: u32,
    column: u32,
}

impl Window {
    /// The cells at an address, which must be there for all threads of the warp.
    pub(super) fn new(
        access: RegisterAccess,
        memory: &TensorMemory,
        (thread, address): (u32, u32),
        what: &str,
    ) -> Result<Window, Fault> {
        let (within, column) = (address >> 16 & (QUARTER - 1), address & 0xffff);
        if within + access.shape.lanes() > QUARTER {
            return Err(Fault::refused(format!(
                "{what} at {address:#x} takes lanes {within} to {} of the warp's 32",
                within + access.shape.lanes() - 1
            )));
        }
        let width = if access.packed { 2 } else { 1 };
        let columns = width * access.registers() as u32 * QUARTER / access.shape.lanes();
        let mut starts = vec![(column, columns)];
        if let RegisterShape::Lanes16x32x2 { split } = access.shape {
            let second = u64::from(column) + u64::from(split);
            // Far beyond the last column is as wrong as just beyond it.
            let second = second.min(COLUMNS as u64) as u32;
            starts = vec![(column, columns / 2), (second, columns / 2)];
        }
        for (first, count) in starts {
            memory.check(first, count, what)?;
        }
        Ok(Window {
            access,
            thread: thread % QUARTER,
            lane: thread / QUARTER % 4 * QUARTER + within,
            column,
        })
    }

    /// Lane and column of a register, the first of two if it holds two cells.
    fn cell(&self, register: u32) -> (usize, usize) {
        let (t, r) = (self.thread, register);
        let (lane, column) = match self.access.shape {
            RegisterShape::Lanes32x32 => (t, r),
            RegisterShape::Lanes16x64 => (t / 4 + 8 * (t & 1), (t >> 1 & 1) + 2 * r),
            RegisterShape::Lanes16x128 => (t / 4 + 8 * (r & 1), t % 4 + 4 * (r / 2)),
            RegisterShape::Lanes16x256 => (
                t / 4 + 8 * (r >> 1 & 1),
                2 * (t % 4) + (r & 1) + 8 * (r / 4),
            ),
            RegisterShape::Lanes16x32x2 { .. } => (t % 16, r),
        };
        let column = if self.access.packed {
            2 * column
        } else {
            column
        };
        let second = match self.access.shape {
            RegisterShape::Lanes16x32x2 { split } if t >= 16 => split,
            _ => 0,
        };
        (
            (self.lane + lane) as usize,
            (self.column + column + second) as usize,
        )
    }

    /// `tcgen05.ld`
    pub(super) fn load(&self, memory: &TensorMemory, registers: &mut [u64]) {
        for (r, register) in registers.iter_mut().enumerate() {
            let (lane, column) = self.cell(r as u32);
            let cells = &memory.lane(lane)[column..];
            *register = u64::from(match self.access.packed {
                true => cells[0] & 0xffff | cells[1] << 16,
                false => cells[0],
            });
        }
    }

    /// `tcgen05.st`
    pub(super) fn store(&self, memory: &mut TensorMemory, registers: &[u64]) {
        for (r, &register) in registers.iter().enumerate() {
            let (lane, column) = self.cell(r as u32);
            let cells = &mut memory.lane_mut(lane)[column..];
            if self.access.packed {
                (cells[0], cells[1]) = (register as u32 & 0xffff, register as u32 >> 16);
            } else {
                cells[0] = register as u32;
            }
        }
    }

    /// Whether each thread's registers are the cells of its own lane.
    fn is_by_lanes(&self) -> bool {
        self.access.shape == RegisterShape::Lanes32x32 && !self.access.packed
    }

    /// As [`Self::load`], for this thread and those behind it. False, with nothing done, where that
    /// must be done for each.
    pub(super) fn load_together(&self, memory: &TensorMemory, registers: Registers<'_>) -> bool {
        if self.is_by_lanes() {
            let (lane, column) = self.cell(0);
            let cells = &memory.lanes(lane)[column..];
            let sizes = [registers.threads, self.access.registers()];
            let to = (registers.words, registers.pitch);
            ptxjit_tile::transpose((cells, COLUMNS), sizes, to);
        }
        self.is_by_lanes()
    }

    /// As [`Self::store`] and [`Self::load_together`].
    pub(super) fn store_together(
        &self,
        memory: &mut TensorMemory,
        registers: Registers<'_>,
    ) -> bool {
        if self.is_by_lanes() {
            let (lane, column) = self.cell(0);
            let cells = &mut memory.lanes_mut(lane)[column..];
            let sizes = [self.access.registers(), registers.threads];
            let from = (&*registers.words, registers.pitch);
            ptxjit_tile::transpose(from, sizes, (cells, COLUMNS));
        }
        self.is_by_lanes()
    }
}
