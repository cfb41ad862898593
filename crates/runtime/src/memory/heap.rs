//! The allocator of global memory: which addresses are whose. It owns no memory and touches none.
//!
//! * Small blocks come from *slabs* of one block size each; big ones get pages of their own with
//!   inaccessible gaps behind
//!   them, and end flush with a page, so that running over the end faults soon.
//! * Every block's exact size is known, for checked copies and `memcheck`; freed blocks stay on
//!   record until their place
//!   is used again, so that a late access can be told from a wild one.
//! * Freed big blocks lose their pages at once, and their addresses are used again only when the
//!   heap has no fresh ones.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use super::reserve::{HUGE_PAGE, PAGE};

/// Block sizes of slabs; a block is aligned to the largest power of two that divides its size.
const CLASSES: [u64; 20] = [
    16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192,
    16384, 32768,
];

/// Blocks up to this size always come from slabs.
const SMALL: u64 = 2048;

/// With more big blocks than this, slabs serve up to the largest class: the kernel bounds the
/// number of mappings.
const MANY_BIG_BLOCKS: usize = 8192;

/// First slab of a class; later ones double up to `MAX_SLAB`.
const MIN_SLAB: u64 = 64 << 10;
const MAX_SLAB: u64 = 16 << 20;

/// Inaccessible bytes behind a slab, and the least behind a big block.
const SLAB_GAP: u64 = 64 << 10;
const MIN_GAP: u64 = 1 << 20;
const MAX_GAP: u64 = 256 << 20;

/// Between blocks that are kept apart: more than any gang accesses side by side.
const APART: u64 = 1 << 10;

/// So many bytes of freed blocks of a class wait before the oldest is used again, where blocks are
/// kept apart.
const APART_QUARANTINE: u64 = 4 << 20;

/// So many freed blocks of a class wait before the oldest is used again.
const SMALL_QUARANTINE: usize = 64;

/// So many freed big blocks are remembered.
const BIG_QUARANTINE: usize = 4096;

/// Whether a block may be accessed.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum BlockState {
    /// Allocated.
    Live,
    /// Freed.
    Freed,
}

/// Where a block's bytes come from.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Place {
    /// A slab of this class.
    Slab(usize),
    /// Pages of its own, with the gap behind them.
    Pages { start: u64, len: u64, span: u64 },
}

/// An allocation, live or freed.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Block {
    /// Bytes asked for.
    pub(crate) size: u64,
    /// Whether it may be accessed.
    pub(crate) state: BlockState,
    place: Place,
}

/// Pages that the owner of the heap must commit or decommit.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Pages {
    /// First address.
    pub(crate) start: u64,
    /// Length in bytes.
    pub(crate) len: u64,
}

/// Pages of a freed block, and the address space that they lie in.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct FreedPages {
    /// First address.
    pub(crate) start: u64,
    /// Length in bytes.
    pub(crate) len: u64,
    /// The same with the gap behind.
    pub(crate) span: u64,
}

#[derive(Default, Debug)]
struct Class {
    free: VecDeque<u64>,
    /// Part of the newest slab that was never handed out.
    fresh: Range<u64>,
    slab_size: u64,
}

/// The allocator.
#[derive(Debug)]
pub(crate) struct Heap {
    fresh: Range<u64>,
    /// Spans of freed big blocks: start to length.
    free_spans: BTreeMap<u64, u64>,
    blocks: BTreeMap<u64, Block>,
    classes: [Class; CLASSES.len()],
    big_freed: VecDeque<u64>,
    n_big: usize,
    live_bytes: u64,
    /// `live_bytes` may not exceed this.
    limit: u64,
    /// Bytes behind each new block that belong to none.
    margin: u64,
}

impl Heap {
    /// A heap over `range`, all of which is uncommitted.
    pub(crate) fn new(range: Range<u64>) -> Heap {
        Heap {
            limit: u64::MAX,
            fresh: range,
            free_spans: BTreeMap::new(),
            blocks: BTreeMap::new(),
            classes: Default::default(),
            big_freed: VecDeque::new(),
            n_big: 0,
            live_bytes: 0,
            margin: 0,
        }
    }

    /// Keeps new blocks apart, and freed ones unused for long.
    pub(crate) fn keep_apart(&mut self) {
        self.margin = APART;
        // What is left of slabs lies beside older blocks.
        for class in &mut self.classes {
            class.free.clear();
            class.fresh = 0..0;
        }
    }

    /// Start and size of all live blocks.
    pub(crate) fn live_blocks(&self) -> impl Iterator<Item = (u64, u64)> {
        let live = self.blocks.iter();
        live.filter(|(_, block)| block.state == BlockState::Live)
            .map(|(&start, block)| (start, block.size))
    }

    /// Freed blocks of a class that wait.
    fn quarantine(&self, class: usize) -> usize {
        match self.margin {
            0 => SMALL_QUARANTINE,
            _ => (APART_QUARANTINE / CLASSES[class]) as usize,
        }
    }

    /// Finds room for `size` bytes aligned to the power of two `align`. The caller commits the
    /// pages, if there are any.
    pub(crate) fn alloc(&mut self, size: u64, align: u64) -> Option<(u64, Option<Pages>)> {
        let wanted = size.max(1);
        if size > self.limit.saturating_sub(self.live_bytes) {
            return None;
        }
        let limit = if self.n_big < MANY_BIG_BLOCKS {
            SMALL
        } else {
            CLASSES[CLASSES.len() - 1]
        };
        let class = CLASSES
            .iter()
            .position(|&class| class >= wanted + self.margin && class & (align - 1) == 0);
        let placed = match class {
            Some(class) if CLASSES[class] <= limit => self.alloc_small(class),
            Some(_) | None => self.alloc_big(wanted, align),
        };
        let (addr, place, pages) = placed?;
        self.blocks.insert(
            addr,
            Block {
                size,
                state: BlockState::Live,
                place,
            },
        );
        self.live_bytes += size;
        Some((addr, pages))
    }

    fn alloc_small(&mut self, class: usize) -> Option<(u64, Place, Option<Pages>)> {
        let block = CLASSES[class];
        let mut pages = None;
        if self.classes[class].free.len() <= self.quarantine(class)
            && self.classes[class].fresh.is_empty()
        {
            let size = (self.classes[class].slab_size * 2).clamp(MIN_SLAB.max(block * 4), MAX_SLAB);
            let start = self.take_span(size + SLAB_GAP)?;
            self.classes[class].slab_size = size;
            self.classes[class].fresh = start..start + size / block * block;
            pages = Some(Pages { start, len: size });
        }
        let class_data = &mut self.classes[class];
        let addr = if class_data.fresh.is_empty() {
            class_data.free.pop_front()?
        } else {
            let addr = class_data.fresh.start;
            class_data.fresh.start += block;
            addr
        };
        Some((addr, Place::Slab(class), pages))
    }

    fn alloc_big(&mut self, size: u64, align: u64) -> Option<(u64, Place, Option<Pages>)> {
        // Rounded up to 256 only, the block ends flush with its last page.
        let used = size.checked_next_multiple_of(align.max(256))?;
        let len = used.checked_next_multiple_of(PAGE)?;
        let unit = if len >= 2 * HUGE_PAGE {
            HUGE_PAGE
        } else {
            PAGE
        }
        .max(align);
        let span = len
            .checked_add(len.clamp(MIN_GAP, MAX_GAP))?
            .checked_add(unit - PAGE)?
            .checked_next_multiple_of(PAGE)?;
        let start = self.take_span(span)?;
        let first = start.next_multiple_of(unit);
        self.n_big += 1;
        let place = Place::Pages {
            start: first,
            len,
            span: start + span - first,
        };
        Some((first + len - used, place, Some(Pages { start: first, len })))
    }

    /// Takes `len` bytes of unused address space, fresh ones first.
    pub(super) fn take_span(&mut self, len: u64) -> Option<u64> {
        if self.fresh.end - self.fresh.start >= len {
            let start = self.fresh.start;
            self.fresh.start += len;
            return Some(start);
        }
        let (&start, &have) = self.free_spans.iter().find(|&(_, &have)| have >= len)?;
        self.free_spans.remove(&start);
        if have > len {
            self.free_spans.insert(start + len, have - len);
        }
        // Freed blocks recorded in there are history now.
        let stale: Vec<u64> = self
            .blocks
            .range(start..start + len)
            .map(|(&addr, _)| addr)
            .collect();
        for addr in stale {
            self.blocks.remove(&addr);
        }
        Some(start)
    }

    /// Frees the block that starts at `addr`. If it has pages of its own, the caller decommits them
    /// and then gives their addresses back with [`Heap::give_span`]: not earlier, since they could
    /// be another block's by then.
    pub(crate) fn free(&mut self, addr: u64) -> Result<Option<FreedPages>, Option<Block>> {
        let block = match self.blocks.get_mut(&addr) {
            Some(block) if block.state == BlockState::Live => block,
            other => return Err(other.copied()),
        };
        block.state = BlockState::Freed;
        let (size, place) = (block.size, block.place);
        self.live_bytes -= size;
        match place {
            Place::Slab(class) => {
                self.classes[class].free.push_back(addr);
                Ok(None)
            }
            Place::Pages { start, len, span } => {
                self.n_big -= 1;
                self.big_freed.push_back(addr);
                if self.big_freed.len() > BIG_QUARANTINE {
                    self.forget_oldest_big();
                }
                Ok(Some(FreedPages { start, len, span }))
            }
        }
    }

    fn forget_oldest_big(&mut self) {
        let Some(addr) = self.big_freed.pop_front() else {
            return;
        };
        if self
            .blocks
            .get(&addr)
            .is_some_and(|block| block.state == BlockState::Freed)
        {
            self.blocks.remove(&addr);
        }
    }

    /// Gives back address space whose pages are decommitted.
    pub(super) fn give_span(&mut self, mut start: u64, mut len: u64) {
        if let Some((&before, &before_len)) = self.free_spans.range(..start).next_back()
            && before + before_len == start
        {
            self.free_spans.remove(&before);
            start = before;
            len += before_len;
        }
        if let Some(after_len) = self.free_spans.remove(&(start + len)) {
            len += after_len;
        }
        self.free_spans.insert(start, len);
    }

    /// The block that holds `addr`, or the nearest one below it.
    pub(crate) fn block_at_or_below(&self, addr: u64) -> Option<(u64, Block)> {
        self.blocks
            .range(..=addr)
            .next_back()
            .map(|(&start, &block)| (start, block))
    }

    /// The nearest block above `addr`.
    pub(crate) fn block_above(&self, addr: u64) -> Option<(u64, Block)> {
        self.blocks
            .range(addr..)
            .next()
            .map(|(&start, &block)| (start, block))
    }

    /// Whether `len` bytes from `addr` lie in one live block.
    pub(crate) fn is_live(&self, addr: u64, len: u64) -> bool {
        self.block_at_or_below(addr).is_some_and(|(start, block)| {
            block.state == BlockState::Live && len <= block.size && addr - start <= block.size - len
        })
    }

    /// The live block that holds `addr`: its start and size.
    pub(crate) fn live_block(&self, addr: u64) -> Option<(u64, u64)> {
        let (start, block) = self.block_at_or_below(addr)?;
        let holds = block.state == BlockState::Live && addr - start < block.size.max(1);
        holds.then_some((start, block.size))
    }

    /// Bytes in live blocks.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// Refuses allocations that would bring the bytes in live blocks above `limit`.
    pub(crate) fn set_limit(&mut self, limit: u64) {
        self.limit = limit;
    }

    /// Charges memory that lies in no block. False if that is too much.
    pub(super) fn charge(&mut self, bytes: u64) -> bool {
        let fits = bytes <= self.limit.saturating_sub(self.live_bytes);
        if fits {
            self.live_bytes += bytes;
        }
        fits
    }

    /// Takes back what was charged.
    pub(super) fn refund(&mut self, bytes: u64) {
        self.live_bytes -= bytes;
    }

    /// See [`Heap::set_limit`].
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heap() -> Heap {
        Heap::new(1 << 40..(1 << 40) + (1 << 32))
    }

    #[test]
    fn blocks_are_aligned_and_apart() {
        let mut heap = heap();
        let mut spans: Vec<(u64, u64)> = Vec::new();
        for i in 0..500u64 {
            let (size, align) = (1 + i * i * 37 % 9000, 16 << (i % 5));
            let (addr, _) = heap.alloc(size, align).unwrap();
            assert!(addr.is_multiple_of(align), "{addr:#x} {align}");
            assert!(
                spans
                    .iter()
                    .all(|&(a, s)| addr >= a + s || a >= addr + size),
                "overlap at {addr:#x}"
            );
            spans.push((addr, size));
        }
        assert_eq!(heap.live_bytes(), spans.iter().map(|s| s.1).sum::<u64>());
        for (addr, size) in spans {
            assert!(
                heap.is_live(addr, size)
                    && !heap.is_live(addr, size + 1)
                    && heap.is_live(addr + size - 1, 1)
            );
            heap.free(addr).unwrap();
            assert!(!heap.is_live(addr, 1));
            assert!(heap.free(addr).is_err());
        }
        assert_eq!(heap.live_bytes(), 0);
    }

    #[test]
    fn freed_blocks_are_not_used_again_at_once() {
        let mut heap = heap();
        for size in [64, 1 << 20] {
            let (first, _) = heap.alloc(size, 256).unwrap();
            heap.free(first).unwrap();
            let (second, _) = heap.alloc(size, 256).unwrap();
            assert_ne!(first, second);
            assert_eq!(
                heap.block_at_or_below(first).unwrap().1.state,
                BlockState::Freed
            );
        }
    }

    #[test]
    fn the_limit_counts_bytes_asked_for() {
        let mut heap = heap();
        heap.set_limit(1000);
        let (addr, _) = heap.alloc(600, 16).unwrap();
        assert!(heap.alloc(401, 16).is_none());
        assert!(heap.alloc(400, 16).is_some() && heap.alloc(1, 16).is_none());
        heap.free(addr).unwrap();
        assert!(heap.alloc(601, 16).is_none() && heap.alloc(600, 16).is_some());
        assert_eq!(heap.live_bytes(), 1000);
    }

    #[test]
    fn address_space_is_used_again_when_it_runs_out() {
        let mut heap = heap();
        for _ in 0..100 {
            let (addr, pages) = heap.alloc(1 << 30, 256).expect("room after freeing");
            assert_eq!(pages.unwrap().len, 1 << 30);
            let freed = heap.free(addr).unwrap().unwrap();
            heap.give_span(freed.start, freed.span);
        }
        assert!(heap.alloc(1 << 40, 256).is_none());
        assert!(heap.alloc(u64::MAX - 5, 256).is_none());
    }
}
