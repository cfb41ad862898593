//! Memory beside the heap, for tables that instrumented code keeps about device memory.
//!
//! An arena of one part with much address space leaves the upper half of the heap's range for them.
//! Code reaches tables like device memory, but no allocation lies there and no copy of the host.
//! Tables hold *tags*, numbers of 32 bits that rise from launch to launch, so that what earlier
//! launches left need not be cleared.

#![expect(
    unsafe_code,
    reason = "tables and allocations are read and written through addresses of the arena"
)]

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashSet;

use super::{Arena, MemoryError, PAGE, raw};

/// Arenas with less address space, as a power of two, have no room for tables.
const LEAST_BITS: u32 = 40;

/// The first tag of all. Lower numbers are marks, and 0 is what nothing was written to.
const FIRST_TAG: u32 = 2;

/// By how much more than all live allocations take the end of these may move on before tables of
/// what was freed are given back. Then the next launch touches its tables again.
const MOST_MOVED: u64 = 64 << 20;

/// What is known of an arena's tables.
#[derive(Debug, Default)]
pub(super) struct Tables {
    /// Held by the one launch that uses them.
    user: Mutex<()>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Bytes of the space for tables that are accessible.
    committed: u64,
    /// Parts of it that checks of memory know as valid, by start and end.
    marked: FxHashSet<(u64, u64)>,
    /// The end of live allocations when the tables were empty.
    first_end: u64,
    /// Tags that were taken, but for the first ones.
    taken: u32,
}

/// Two tables of tags, of those who wrote each granule of device memory last and of those who
/// changed it atomically last.
#[derive(Copy, Clone, Debug)]
pub struct TagTables {
    /// What is added to an address, times four by the granule, for the address of its tag.
    pub origins: [u64; 2],
    /// Bytes of memory for each tag: 1, 2 or 4.
    pub granule: u32,
    /// The lowest tag of the launch.
    pub base: u32,
}

/// The contents of all allocations.
#[derive(Debug)]
pub struct Snapshot {
    blocks: Vec<(u64, Vec<u8>)>,
}

impl Arena {
    /// Whether the heap of such an arena leaves room for tables.
    pub(super) fn leaves_room(bits: u32, n_parts: u32, base: u64) -> bool {
        bits >= LEAST_BITS && n_parts == 1 && base != 0
    }

    /// Where tables may lie, if this arena has room for them.
    fn table_space(&self) -> Option<Range<u64>> {
        let has_room = Arena::leaves_room(self.bits(), self.n_parts, self.base());
        let end = self.base() + (1 << self.part_bits);
        let start = self.base() + (1 << (self.part_bits - 1));
        has_room.then_some(start..end)
    }

    /// Waits for other launches that use the tables.
    pub fn use_tables(&self) -> MutexGuard<'_, ()> {
        self.tables
            .user
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn table_state(&self) -> MutexGuard<'_, State> {
        self.tables
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// From the first live allocation to the end of the last; empty if there is none. None if there
    /// is memory elsewhere.
    pub fn live_span(&self) -> Option<Range<u64>> {
        if !self.virt().is_empty() || self.has_foreign() {
            return None;
        }
        let heaps = self.heaps();
        let mut blocks = heaps[0].live_blocks();
        let Some((first, size)) = blocks.next() else {
            return Some(0..0);
        };
        let end = blocks
            .last()
            .map_or(first + size, |(start, size)| start + size);
        Some(first..end)
    }

    /// Live allocations, by start and size, in ascending order. None if there is memory elsewhere.
    pub fn live_blocks(&self) -> Option<Vec<(u64, u64)>> {
        if !self.virt().is_empty() || self.has_foreign() {
            return None;
        }
        Some(self.heaps()[0].live_blocks().collect())
    }

    /// Allocations that are not written as a whole, by start and size.
    pub fn unwritten_blocks(&self) -> Vec<(u64, u64)> {
        self.contents.unwritten_blocks()
    }

    /// A kernel has written these bytes.
    pub fn written(&self, start: u64, len: u64) {
        self.contents.written(start, len);
    }

    /// The first of so many tags that no table has; none if there are not as many. When all are
    /// used up, tables start again.
    pub fn take_tags(&self, count: u32) -> Option<u32> {
        let mut state = self.table_state();
        let most = u32::MAX - FIRST_TAG;
        if count > most {
            return None;
        }
        if count > most - state.taken {
            self.drop_tables(&mut state);
        }
        let first = FIRST_TAG + state.taken;
        state.taken += count;
        Some(first)
    }

    /// Makes the first `len` bytes of the space for tables accessible, and keeps what is in them;
    /// new ones are zero. Gives their address.
    pub fn grow_tables(&self, len: u64) -> Result<u64, MemoryError> {
        let space = self.table_space();
        let space = space.filter(|space| len <= space.end - space.start);
        let start = space.ok_or(MemoryError::OutOfMemory { size: len })?.start;
        let mut state = self.table_state();
        let (old, len) = (state.committed, len.next_multiple_of(PAGE));
        if len > old {
            self.reservation
                .commit(start + old, len - old)
                .map_err(|_| MemoryError::OutOfMemory { size: len })?;
            self.reservation.prefer_huge_pages(start, len);
            state.committed = len;
        }
        Ok(start)
    }

    /// Has checks of memory know parts of tables as valid. They stay so until tables are empty
    /// again.
    pub fn mark_tables(&self, parts: impl IntoIterator<Item = Range<u64>>) {
        let Some(map) = self.map.get() else { return };
        let mut state = self.table_state();
        for part in parts {
            if state.marked.insert((part.start, part.end)) {
                map.mark(part.start & !15..part.end.next_multiple_of(16), 0);
            }
        }
    }

    /// Gives the memory of tables back if most of it is about allocations that are gone: addresses
    /// rise from allocation to allocation, and those of tables with them.
    pub fn trim_tables(&self) {
        let heaps = self.heaps();
        let (end, live) = heaps[0]
            .live_blocks()
            .fold((0, 0), |(_, all), (start, size)| (start + size, all + size));
        drop(heaps);
        let mut state = self.table_state();
        if state.committed == 0 {
            state.first_end = end;
        } else if end.saturating_sub(state.first_end) > MOST_MOVED + live {
            self.drop_tables(&mut state);
            state.first_end = end;
        }
    }

    /// Whether bytes lie in tables that a launch uses at present.
    pub(super) fn is_in_used_tables(&self, addr: u64, len: u64) -> bool {
        self.tables.user.try_lock().is_err() && self.is_in_tables(addr, len)
    }

    fn is_in_tables(&self, addr: u64, len: u64) -> bool {
        let committed = self.table_state().committed;
        self.table_space().is_some_and(|space| {
            addr >= space.start && len <= committed && addr - space.start <= committed - len
        })
    }

    /// Gives all memory of tables back.
    fn drop_tables(&self, state: &mut State) {
        if let (Some(space), 1..) = (self.table_space(), state.committed) {
            // If this fails the pages keep their memory, and tags that come again look like those
            // of other launches: that makes launches suspicious, and nothing worse.
            let _ = self.reservation.decommit(space.start, state.committed);
            if let Some(map) = self.map.get() {
                map.clear(space.start..space.start + state.committed);
            }
        }
        *state = State::default();
    }

    /// Reads words of tables.
    pub fn read_tables(&self, addr: u64, to: &mut [u32]) {
        let mut bytes = vec![0; 4 * to.len()];
        self.assert_in_tables(addr, bytes.len() as u64);
        // SAFETY: the bytes lie in committed pages of the space for tables.
        unsafe { raw::read(addr, &mut bytes) };
        let (words, _) = bytes.as_chunks::<4>();
        for (to, word) in to.iter_mut().zip(words) {
            *to = u32::from_le_bytes(*word);
        }
    }

    /// Writes words of tables.
    pub fn write_tables(&self, addr: u64, from: &[u32]) {
        let bytes: Vec<u8> = from.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.assert_in_tables(addr, bytes.len() as u64);
        // SAFETY: as above.
        unsafe { raw::write(addr, &bytes) };
    }

    fn assert_in_tables(&self, addr: u64, len: u64) {
        assert!(self.is_in_tables(addr, len), "a place in a table");
    }

    /// Copies allocations: those that are named by start and size in ascending order, or all.
    pub fn snapshot(&self, named: Option<&[(u64, u64)]>) -> Snapshot {
        let heaps = self.heaps();
        let is_named = |block: &(u64, u64)| named.is_none_or(|it| it.binary_search(block).is_ok());
        let blocks = heaps[0].live_blocks().filter(is_named);
        let blocks = blocks.map(|(start, size)| {
            let mut bytes = vec![0; size as usize];
            // SAFETY: the block is live while the heap is locked.
            unsafe { raw::read(start, &mut bytes) };
            (start, bytes)
        });
        Snapshot {
            blocks: blocks.collect(),
        }
    }

    /// Puts back what the launch has changed, by its tags. Other memory may have been changed by
    /// others meanwhile.
    pub fn restore(&self, snapshot: &Snapshot, tables: &TagTables) {
        for (start, bytes) in &snapshot.blocks {
            let changed = self.written_in(tables, *start, bytes.len() as u64);
            let heaps = self.heaps();
            if !heaps[0].is_live(*start, bytes.len() as u64) {
                continue;
            }
            let granules = bytes.chunks(tables.granule as usize);
            for (idx, (granule, changed)) in (0u64..).zip(granules.zip(changed)) {
                if changed {
                    let at = start + idx * u64::from(tables.granule);
                    // SAFETY: the block is live while the heap is locked.
                    unsafe { raw::write(at, granule) };
                }
            }
        }
    }

    /// Which granules of an allocation the launch has written.
    fn written_in(&self, tables: &TagTables, start: u64, size: u64) -> Vec<bool> {
        let mut written = vec![false; size.div_ceil(tables.granule.into()) as usize];
        for origin in tables.origins {
            let at = tables.tag_address(origin, start);
            let mut tags = vec![0; written.len()];
            self.read_tables(at, &mut tags);
            for (written, tag) in written.iter_mut().zip(tags) {
                *written |= tag >= tables.base;
            }
        }
        written
    }

    /// Puts `mark` in the table of writers for each granule that holds a byte that was never
    /// written.
    pub fn mark_unwritten(&self, tables: &TagTables, mark: u32) {
        for (start, states) in self.contents.unwritten() {
            let at = tables.tag_address(tables.origins[0], start);
            let granules = states.chunks(tables.granule as usize);
            let mut tags = vec![0; granules.len()];
            self.read_tables(at, &mut tags);
            for (tag, states) in tags.iter_mut().zip(granules) {
                if states.iter().any(|&state| state != 0) {
                    *tag = mark;
                }
            }
            self.write_tables(at, &tags);
        }
    }

    /// Takes the marks away. What the launch has written counts as written, if its results are to
    /// stay.
    pub fn clear_marks(&self, tables: &TagTables, mark: u32, stays: bool) {
        for (start, mut states) in self.contents.unwritten() {
            let written = self.written_in(tables, start, states.len() as u64);
            let at = tables.tag_address(tables.origins[0], start);
            let mut tags = vec![0; written.len()];
            self.read_tables(at, &mut tags);
            tags.iter_mut()
                .filter(|tag| **tag == mark)
                .for_each(|tag| *tag = 0);
            self.write_tables(at, &tags);
            let granules = states.chunks_mut(tables.granule as usize);
            for (states, written) in granules.zip(written) {
                if written {
                    states.fill(0);
                }
            }
            if stays {
                self.contents.set_states(start, &states);
            }
        }
    }
}

impl TagTables {
    fn tag_address(&self, origin: u64, addr: u64) -> u64 {
        let scale = u64::from(4 / self.granule);
        addr.wrapping_mul(scale).wrapping_add(origin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_about_freed_memory_are_given_back() {
        let arena = Arena::new().unwrap();
        let kept = arena.alloc(0, 1 << 20, 1).unwrap();
        let word = |arena: &Arena| {
            arena.trim_tables();
            let start = arena.grow_tables(1 << 20).unwrap();
            let mut word = [0];
            arena.read_tables(start, &mut word);
            (start, word[0])
        };
        let (start, _) = word(&arena);
        arena.write_tables(start, &[7]);
        let moves_on = |bytes: u64| {
            let steps = bytes >> 22;
            (0..steps).for_each(|_| arena.free(arena.alloc(0, 4 << 20, 1).unwrap()).unwrap());
            arena.alloc(0, 4 << 20, 1).unwrap()
        };
        moves_on(MOST_MOVED / 8);
        assert_eq!(word(&arena).1, 7);
        moves_on(2 * MOST_MOVED);
        assert_eq!(word(&arena).1, 0);
        arena.free(kept).unwrap();
    }

    #[test]
    fn tables_in_use_pass_checks() {
        let arena = Arena::new().unwrap();
        let start = arena.grow_tables(1 << 20).unwrap();
        let check = |arena: &Arena| arena.check_heap(start + 64, 4, true);
        assert!(matches!(
            check(&arena),
            super::super::HeapCheck::OutOfBounds
        ));
        let used = arena.use_tables();
        assert!(matches!(check(&arena), super::super::HeapCheck::Ok));
        drop(used);
    }
}
