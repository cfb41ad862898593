//! The tensor memory of a CTA: its cells, and which columns are allocated. PTX ISA, "Tensor Memory"
//! and "tcgen05.alloc, tcgen05.dealloc, tcgen05.relinquish_alloc_permit".

use std::fmt;

use crate::{Fault, Site};

/// Lanes of a tensor memory.
pub const LANES: usize = 128;
/// Columns of a tensor memory, of 32 bits each.
pub const COLUMNS: usize = 512;
/// Columns are allocated by so many.
const UNIT: u32 = 32;
/// Attempts to allocate, with no column given back between them, before the allocation counts as
/// one that can never be met. In each, all other threads of the CTA have run as far as they could.
const PATIENCE: u32 = 1 << 14;

/// Columns that were allocated and not given back yet.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct Allocation {
    /// The first.
    pub start: u32,
    /// How many.
    pub columns: u32,
    /// Where they were allocated.
    pub site: Site,
}

/// Columns that are still allocated where a CTA ends.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Leak {
    allocation: Allocation,
    /// The CTA that ends is the peer of the one that has allocated them in both, and has not
    /// executed its part of that.
    is_offered: bool,
}

impl Leak {
    /// Where the columns were allocated.
    pub fn site(&self) -> Site {
        self.allocation.site
    }
}

impl fmt::Display for Leak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Allocation { start, columns, .. } = self.allocation;
        let what = match self.is_offered {
            true => "the peer CTA ends without its part of this allocation",
            false => "the CTA ends with tensor memory allocated",
        };
        write!(
            f,
            "{what}: {columns} columns from {start} on, by this `tcgen05.alloc`"
        )
    }
}

/// The tensor memory of a CTA. Columns are zero when they are allocated.
pub struct TensorMemory {
    /// By lanes.
    cells: Vec<u32>,
    live: Vec<Allocation>,
    /// Columns here that the peer has chosen for an allocation in both CTAs, of which this one has
    /// not executed its part.
    offered: Option<Allocation>,
    /// Columns here that this CTA has chosen for an allocation in both, and which are allocated
    /// when the peer has executed its part.
    asked: Option<Allocation>,
    /// The peer has executed its part of what was asked.
    is_joined: bool,
    /// Columns of the last allocation.
    last: Option<u32>,
    is_relinquished: bool,
    /// Attempts that have failed since columns were last given back.
    failed: u32,
}

impl Default for TensorMemory {
    fn default() -> TensorMemory {
        TensorMemory {
            cells: vec![0; LANES * COLUMNS],
            live: Vec::new(),
            offered: None,
            asked: None,
            is_joined: false,
            last: None,
            is_relinquished: false,
            failed: 0,
        }
    }
}

impl fmt::Debug for TensorMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TensorMemory({:?})", self.live)
    }
}

impl TensorMemory {
    /// Makes ready for another CTA.
    pub fn reset(&mut self) {
        let cells = std::mem::take(&mut self.cells);
        *self = TensorMemory {
            cells,
            live: Vec::new(),
            offered: None,
            asked: None,
            is_joined: false,
            last: None,
            is_relinquished: false,
            failed: 0,
        };
    }

    /// What is wrong if the CTA ends now, and with which allocation.
    pub fn leak(&self) -> Option<Leak> {
        let is_own = |&allocation: &Allocation| Leak {
            allocation,
            is_offered: false,
        };
        let is_offered = |allocation| Leak {
            allocation,
            is_offered: true,
        };
        let own = self.live.first().map(is_own);
        own.or_else(|| self.offered.map(is_offered))
    }

    /// A cell.
    pub(super) fn cell(&mut self, lane: usize, column: usize) -> &mut u32 {
        &mut self.cells[lane * COLUMNS + column]
    }

    /// The cells of a lane.
    pub(super) fn lane(&self, lane: usize) -> &[u32] {
        &self.cells[lane * COLUMNS..][..COLUMNS]
    }

    /// The cells of a lane.
    pub(super) fn lane_mut(&mut self, lane: usize) -> &mut [u32] {
        &mut self.cells[lane * COLUMNS..][..COLUMNS]
    }

    /// The cells of a lane and of those behind it, [`COLUMNS`] of each.
    pub(super) fn lanes(&self, first: usize) -> &[u32] {
        &self.cells[first * COLUMNS..]
    }

    /// As [`Self::lanes`].
    pub(super) fn lanes_mut(&mut self, first: usize) -> &mut [u32] {
        &mut self.cells[first * COLUMNS..]
    }

    /// Refuses columns that are not allocated.
    pub(super) fn check(&self, first: u32, count: u32, what: &str) -> Result<(), Fault> {
        let is_live = |column: u32| {
            let holds = |of: &Allocation| (of.start..of.start + of.columns).contains(&column);
            self.live.iter().any(holds)
        };
        let end = first + count;
        // Allocations consist of whole units.
        let mut columns =
            std::iter::once(first).chain((first / UNIT + 1..end.div_ceil(UNIT)).map(|n| n * UNIT));
        match columns.find(|&column| !is_live(column)) {
            None => Ok(()),
            Some(column) => Err(Fault::refused(format!(
                "{what} takes columns {first} to {} of tensor memory, and column {column} is not allocated",
                end - 1
            ))),
        }
    }

    fn is_free(&self, start: u32, columns: u32) -> bool {
        let meets = |of: &Allocation| of.start < start + columns && start < of.start + of.columns;
        let taken = self.live.iter().chain(&self.offered).chain(&self.asked);
        !taken.into_iter().any(meets)
    }

    /// Refuses an allocation that a CTA must not ask for.
    fn check_request(&self, columns: u32) -> Result<(), Fault> {
        check_count(columns)?;
        if self.is_relinquished {
            return Err(Fault::refused(
                "`tcgen05.alloc` after `tcgen05.relinquish_alloc_permit`",
            ));
        }
        match self.last {
            Some(last) if columns > last => Err(Fault::refused(format!(
                "`tcgen05.alloc` of {columns} columns after one of {last}: the number must not increase"
            ))),
            _ => Ok(()),
        }
    }

    /// Counts an attempt that has failed.
    fn wait(&mut self, columns: u32) -> Result<Option<u32>, Fault> {
        self.failed += 1;
        if self.failed < PATIENCE {
            return Ok(None);
        }
        if self.asked.is_some() {
            return Err(Fault::refused(format!(
                "`tcgen05.alloc.cta_group::2` of {columns} columns waits forever: the peer CTA does not execute its part"
            )));
        }
        let used: u32 = self.live.iter().map(|of| of.columns).sum();
        Err(Fault::refused(format!(
            "`tcgen05.alloc` of {columns} columns waits forever: {used} of {COLUMNS} are allocated, and none is given back"
        )))
    }

    fn take(&mut self, allocation: Allocation) -> u32 {
        self.live.push(allocation);
        (self.last, self.failed) = (Some(allocation.columns), 0);
        allocation.start
    }

    fn clear(&mut self, Allocation { start, columns, .. }: Allocation) {
        for lane in 0..LANES {
            self.lane_mut(lane)[start as usize..][..columns as usize].fill(0);
        }
    }

    /// The first of newly allocated columns; none if some must be given back before.
    pub(super) fn allocate(&mut self, columns: u32, site: Site) -> Result<Option<u32>, Fault> {
        self.check_request(columns)?;
        let mut starts = (0..COLUMNS as u32).step_by(columns as usize);
        match starts.find(|&start| self.is_free(start, columns)) {
            None => self.wait(columns),
            Some(start) => {
                let allocation = Allocation {
                    start,
                    columns,
                    site,
                };
                self.clear(allocation);
                Ok(Some(self.take(allocation)))
            }
        }
    }

    /// The same columns in two CTAs, both of which execute this: the first chooses the columns and
    /// waits, the second takes what has been chosen. None while the CTA must wait.
    pub(super) fn allocate_pair(
        &mut self,
        peer: &mut TensorMemory,
        columns: u32,
        site: Site,
    ) -> Result<Option<u32>, Fault> {
        if self.asked.is_some() {
            return self.wait(columns);
        }
        self.check_request(columns)?;
        if let Some(offered) = self.offered {
            if offered.columns != columns {
                return Err(Fault::refused(format!(
                    "`tcgen05.alloc.cta_group::2` of {columns} columns, where the peer CTA asks for {}",
                    offered.columns
                )));
            }
            self.offered = None;
            peer.is_joined = true;
            return Ok(Some(self.take(Allocation { site, ..offered })));
        }
        let mut starts = (0..COLUMNS as u32).step_by(columns as usize);
        let found =
            starts.find(|&start| self.is_free(start, columns) && peer.is_free(start, columns));
        let Some(start) = found else {
            return self.wait(columns);
        };
        let allocation = Allocation {
            start,
            columns,
            site,
        };
        // Before the peer goes on, which may be the first to put something there.
        for memory in [&mut *self, &mut *peer] {
            memory.clear(allocation);
        }
        (self.asked, peer.offered) = (Some(allocation), Some(allocation));
        self.failed = 0;
        Ok(None)
    }

    /// What the peer, which may have ended since, has joined in.
    pub(super) fn joined(&mut self) -> Option<u32> {
        let asked = self.asked.take_if(|_| self.is_joined)?;
        self.is_joined = false;
        Some(self.take(asked))
    }

    /// Gives columns back.
    pub(super) fn deallocate(&mut self, address: u32, columns: u32) -> Result<(), Fault> {
        check_count(columns)?;
        let found = self.live.iter().position(|of| of.start == address);
        let Some(idx) = found else {
            return Err(Fault::refused(format!(
                "`tcgen05.dealloc` of {address:#x}, where no allocation begins"
            )));
        };
        let live = self.live[idx].columns;
        if live != columns {
            return Err(Fault::refused(format!(
                "`tcgen05.dealloc` of {columns} columns at {address:#x}, where {live} are allocated"
            )));
        }
        self.live.remove(idx);
        self.failed = 0;
        Ok(())
    }

    /// No allocation will follow.
    pub(super) fn relinquish(&mut self) {
        self.is_relinquished = true;
    }
}

fn check_count(columns: u32) -> Result<(), Fault> {
    if columns.is_power_of_two() && (UNIT..=COLUMNS as u32).contains(&columns) {
        return Ok(());
    }
    Err(Fault::refused(format!(
        "{columns} columns of tensor memory: a power of two from 32 to 512 is needed"
    )))
}
