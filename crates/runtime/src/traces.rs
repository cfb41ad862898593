//! What warps ask of memory, as a GPU would have to serve it: sectors of global memory, banks of
//! shared memory, atomics on one address.
//!
//! The figures follow from the addresses alone. A *request* is one access by a warp. Global memory
//! is served in sectors of 32 bytes. Shared memory has 32 banks of four bytes, and serves in one
//! pass any words of different banks, each to all lanes that ask for it; accesses of 8 bytes are
//! served for half a warp at a time, of 16 bytes for a quarter.
//!
//! Looking at a request takes longer than the request. So only some CTAs of large grids are looked
//! at, and of what a warp does again and again at one place fewer the longer it goes on; each that
//! is looked at stands for those that were passed over before it.

use std::sync::{Mutex, PoisonError};

use ptxjit_ir::{MAX_CLUSTER, Space, TraceOp};
use smallvec::SmallVec;

use ptxjit_abi::warp_ops::lanes;
use ptxjit_abi::{CtaContext, TRACE_WARPS};

/// Bytes of a sector.
const SECTOR: u64 = 32;
/// Bytes of a bank's word, and how many banks there are.
const WORD: u64 = 4;
const BANKS: usize = 32;

/// CTAs of a launch whose accesses are looked at: in launches of no more, all.
const SAMPLED: u64 = 64;

/// Tables, so that workers hardly ever wait for each other.
const SHARDS: usize = 16;

/// Requests to one kind of memory.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Served {
    /// How many.
    pub requests: u64,
    /// Sectors, or passes, that serve them.
    pub units: u64,
    /// The fewest that could: with the same bytes side by side, or without two words in a bank.
    pub least: u64,
}

/// What was asked of memory at one place of a program.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// Global memory, in sectors.
    pub global: Served,
    /// Shared memory, in passes.
    pub shared: Served,
    /// Atomic operations of threads, and those among them that had to wait for another of their
    /// warp at the same address.
    pub atomics: u64,
    /// See [`Traffic::atomics`].
    pub atomics_waiting: u64,
    /// The most threads of a warp that met at one address.
    pub most_on_one: u64,
}

impl Traffic {
    /// Adds what was asked elsewhere.
    pub fn add(&mut self, other: &Traffic) {
        self.add_times(other, 1);
    }

    fn add_times(&mut self, other: &Traffic, times: u64) {
        for (sum, more) in [
            (&mut self.global, &other.global),
            (&mut self.shared, &other.shared),
        ] {
            sum.requests += more.requests * times;
            sum.units += more.units * times;
            sum.least += more.least * times;
        }
        self.atomics += other.atomics * times;
        self.atomics_waiting += other.atomics_waiting * times;
        self.most_on_one = self.most_on_one.max(other.most_on_one);
    }
}

/// What launches have asked of memory, by the places of their program. Launches add to it.
#[derive(Debug)]
pub struct Traces(Vec<Mutex<Vec<Traffic>>>);

impl Traces {
    /// So many places.
    pub fn new(n: usize) -> Traces {
        let shards = (0..SHARDS).map(|_| Mutex::new(vec![Traffic::default(); n]));
        Traces(shards.collect())
    }

    /// Takes what there was so far.
    pub fn take(&self) -> Vec<Traffic> {
        let mut sums: Vec<Traffic> = Vec::new();
        for shard in &self.0 {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            sums.resize(shard.len(), Traffic::default());
            for (sum, traffic) in sums.iter_mut().zip(shard.iter_mut()) {
                sum.add(&std::mem::take(traffic));
            }
        }
        sums
    }

    /// Words of the table of a CTA that is looked at.
    pub(crate) fn n_words(&self) -> usize {
        // All shards have as many places.
        let n = self.0.first().map_or(0, |shard| {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.len()
        });
        n * TRACE_WARPS * PACE_WORDS
    }

    /// Notes an access by a warp, which stands for so many.
    pub(crate) fn note(
        &self,
        ctx: &CtaContext,
        (op, times): (&TraceOp, u32),
        mask: u32,
        addr: impl Fn(u32) -> u64,
    ) {
        let place = |lane| (lane, addr(lane).wrapping_add_signed(op.offset.into()));
        let addrs: SmallVec<[(u32, u64); 32]> = lanes(mask).map(place).collect();
        let Some(&(_, first)) = addrs.first() else {
            return;
        };
        let mut one = Traffic::default();
        match memory_of(ctx, op.space, first) {
            Memory::Global => global(&mut one.global, &addrs, op.bytes.into()),
            Memory::Shared => shared(&mut one.shared, &addrs, op.bytes.into()),
            Memory::Own => return,
        }
        if op.is_atomic {
            atomics(&mut one, &addrs);
        }
        let shard = &self.0[ctx.smid as usize % SHARDS];
        let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(traffic) = shard.get_mut(op.site as usize) {
            traffic.add_times(&one, times.into());
        }
    }
}

/// What a CTA keeps for each place and warp: executions that are left before the next one that is
/// looked at, and how many there were up to the last one.
type Pace = [u32; PACE_WORDS];

const PACE_WORDS: usize = 2;

/// Of the executions so far, as a power of two, the share that may be passed over next.
const SHARE: u32 = 2;

/// Where the pace of an access is, for the warp of a thread.
pub(crate) fn place(site: u32, thread: u32) -> usize {
    site as usize * TRACE_WARPS + thread as usize / 32
}

/// Begins a CTA: the first of all executions are looked at.
pub(crate) fn start(words: &mut [u32]) {
    for pace in words.chunks_exact_mut(PACE_WORDS) {
        pace.copy_from_slice(&[1, 0]);
    }
}

/// An execution is looked at: for how many it stands.
pub(crate) fn turn(pace: &mut Pace) -> u32 {
    let step = |so_far: u32| (so_far >> SHARE).max(1);
    let [left, so_far] = pace;
    let times = step(*so_far);
    *so_far = so_far.saturating_add(times);
    *left = step(*so_far);
    times
}

/// Whether the accesses of a CTA are looked at.
pub(crate) fn is_sampled(grid: [u32; 3], ctaid: [u32; 3]) -> bool {
    let [x, y, z] = ctaid.map(u64::from);
    let [nx, ny, nz] = grid.map(u64::from);
    let idx = x + nx * (y + ny * z);
    idx.is_multiple_of(step(nx * ny * nz))
}

/// How many CTAs of a launch of so many are looked at.
pub fn sampled_ctas(n_ctas: u64) -> u64 {
    n_ctas.div_ceil(step(n_ctas))
}

/// Of a launch of so many CTAs, the accesses of every so manieth are looked at: an odd number, so
/// that CTAs of one column of a grid are not all that is seen.
fn step(n_ctas: u64) -> u64 {
    n_ctas.div_ceil(SAMPLED).max(1) | 1
}

enum Memory {
    Global,
    Shared,
    /// The thread's own.
    Own,
}

/// Where an address is. The lanes of an access hardly ever mean different memories by generic
/// addresses.
fn memory_of(ctx: &CtaContext, space: Space, addr: u64) -> Memory {
    match space {
        Space::Shared | Space::SharedCluster => Memory::Shared,
        Space::Global => Memory::Global,
        Space::Local | Space::Const | Space::Param => Memory::Own,
        Space::Generic => {
            let window = u64::from(MAX_CLUSTER) << ptxjit_ir::CTA_SHIFT;
            let local = ctx.local_stride * u64::from(ctx.n_threads);
            if addr.wrapping_sub(ctx.shared_base) < window {
                Memory::Shared
            } else if addr.wrapping_sub(ctx.local_base) < local {
                Memory::Own
            } else {
                Memory::Global
            }
        }
    }
}

/// The addresses in ascending order, as they mostly are.
fn sorted(addrs: &[(u32, u64)]) -> SmallVec<[u64; 32]> {
    let mut starts: SmallVec<[u64; 32]> = addrs.iter().map(|&(_, addr)| addr).collect();
    if !starts.is_sorted() {
        starts.sort_unstable();
    }
    starts
}

/// Sectors that a request touches, and how many would hold its bytes.
fn global(served: &mut Served, addrs: &[(u32, u64)], bytes: u64) {
    let starts = sorted(addrs);
    let (mut sectors, mut distinct) = (0, 0);
    // The first sector and the first byte that were not counted yet.
    let (mut next_sector, mut next_byte) = (0, 0);
    for start in starts {
        let end = start.saturating_add(bytes);
        distinct += end.saturating_sub(start.max(next_byte));
        next_byte = next_byte.max(end);
        let (first, last) = (start / SECTOR, end.saturating_sub(1) / SECTOR);
        sectors += (last + 1).saturating_sub(first.max(next_sector));
        next_sector = next_sector.max(last + 1);
    }
    served.requests += 1;
    served.units += sectors;
    served.least += distinct.div_ceil(SECTOR);
}

/// Passes that a request takes, and how many if no two words of a pass were in one bank.
fn shared(served: &mut Served, addrs: &[(u32, u64)], bytes: u64) {
    let lanes_at_once = match bytes {
        0..=4 => 32,
        5..=8 => 16,
        _ => 8,
    };
    served.requests += 1;
    for together in addrs.chunk_by(|a, b| a.0 / lanes_at_once == b.0 / lanes_at_once) {
        let words = together.iter().flat_map(|&(_, addr)| {
            let (first, last) = (addr / WORD, (addr + bytes.max(1) - 1) / WORD);
            first..=last
        });
        let mut banks: [SmallVec<[u64; 2]>; BANKS] = std::array::from_fn(|_| SmallVec::new());
        let mut distinct = 0;
        for word in words {
            let bank = &mut banks[word as usize % BANKS];
            if !bank.contains(&word) {
                bank.push(word);
                distinct += 1;
            }
        }
        let most = banks.iter().map(SmallVec::len).max().unwrap_or(1);
        served.units += most as u64;
        served.least += u64::div_ceil(distinct, BANKS as u64);
    }
}

fn atomics(traffic: &mut Traffic, addrs: &[(u32, u64)]) {
    let starts = sorted(addrs);
    traffic.atomics += starts.len() as u64;
    for same in starts.chunk_by(|a, b| a == b) {
        traffic.atomics_waiting += same.len() as u64 - 1;
        traffic.most_on_one = traffic.most_on_one.max(same.len() as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(addr: impl Fn(u64) -> u64) -> Vec<(u32, u64)> {
        (0..32).map(|lane| (lane, addr(lane.into()))).collect()
    }

    fn sectors(bytes: u64, addr: impl Fn(u64) -> u64) -> (u64, u64) {
        let mut served = Served::default();
        global(&mut served, &of(addr), bytes);
        (served.units, served.least)
    }

    fn passes(bytes: u64, addr: impl Fn(u64) -> u64) -> (u64, u64) {
        let mut served = Served::default();
        shared(&mut served, &of(addr), bytes);
        (served.units, served.least)
    }

    #[test]
    fn sectors_of_patterns() {
        // 128 bytes side by side; the same one off their sectors; each word in a sector of its own;
        // one word for all.
        assert_eq!(sectors(4, |lane| 0x1000 + 4 * lane), (4, 4));
        assert_eq!(sectors(4, |lane| 0x1004 + 4 * lane), (5, 4));
        assert_eq!(sectors(4, |lane| 0x1000 + 128 * lane), (32, 4));
        assert_eq!(sectors(4, |_| 0x1008), (1, 1));
        assert_eq!(sectors(16, |lane| 0x1000 + 16 * lane), (16, 16));
        // Words two apart fill half of each sector.
        assert_eq!(sectors(4, |lane| 0x1000 + 8 * (31 - lane)), (8, 4));
        assert_eq!(sectors(1, |lane| 0x1000 + lane), (1, 1));
    }

    #[test]
    fn passes_of_patterns() {
        assert_eq!(passes(4, |lane| 4 * lane), (1, 1));
        // All words in one bank; in two; in one but for a word of padding; one word for all.
        assert_eq!(passes(4, |lane| 128 * lane), (32, 1));
        assert_eq!(passes(4, |lane| 64 * lane), (16, 1));
        assert_eq!(passes(4, |lane| 132 * lane), (1, 1));
        assert_eq!(passes(4, |_| 16), (1, 1));
        // Bytes of one word are one word.
        assert_eq!(passes(1, |lane| lane), (1, 1));
        assert_eq!(passes(8, |lane| 8 * lane), (2, 2));
        assert_eq!(passes(8, |lane| 16 * lane), (4, 2));
        assert_eq!(passes(16, |lane| 16 * lane), (4, 4));
    }

    #[test]
    fn atomics_that_meet() {
        let mut traffic = Traffic::default();
        atomics(&mut traffic, &of(|lane| lane / 8 * 4));
        assert_eq!(
            (
                traffic.atomics,
                traffic.atomics_waiting,
                traffic.most_on_one
            ),
            (32, 28, 8)
        );
    }

    #[test]
    fn long_loops_are_looked_at_less_and_less() {
        let mut pace: Pace = [0; PACE_WORDS];
        start(&mut pace);
        let (mut seen, mut stands_for) = (0, 0);
        for n in 1..=100_000u32 {
            pace[0] -= 1;
            if pace[0] == 0 {
                seen += 1;
                stands_for += turn(&mut pace);
                assert_eq!(stands_for, n);
            }
            // All of the first, and never less than one in four of those so far.
            assert!(n >= 8 || seen == n);
            assert!(n - stands_for <= n / 4);
        }
        assert!(seen < 60, "{seen}");
    }

    #[test]
    fn few_ctas_are_all_seen() {
        assert_eq!((step(1), step(64)), (1, 1));
        assert_eq!((step(65), step(640), step(1 << 20)), (3, 11, 16385));
    }
}
