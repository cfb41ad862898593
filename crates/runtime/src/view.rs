//! Device memory as one thread sees it: the global heap, and the windows that are its own.

#![expect(
    unsafe_code,
    reason = "windows are read through addresses that were checked here"
)]

use std::ops::Range;

use ptxjit_abi::CtaContext;
use ptxjit_device::Rows;
use ptxjit_ir::CTA_SHIFT;

use crate::grid::Grid;
use crate::memory::{Arena, ClusterWindow};

/// See the module.
pub(crate) struct View<'a> {
    arena: &'a Arena,
    windows: [Range<u64>; 4],
    /// Shared memory of the cluster, if it has several CTAs.
    cluster: Option<&'a ClusterWindow>,
    grid: &'a Grid,
}

/// Where an element lies.
enum Place {
    /// In the heap, which checks it.
    Arena,
    /// In a window in use, which is committed, or in memory of the host that was just found mapped.
    Committed,
}

impl<'v> View<'v> {
    /// What `thread` of a CTA sees.
    pub(crate) fn new(grid: &'v Grid, ctx: &'v CtaContext, thread: u32) -> View<'v> {
        let local = ctx.local_base + u64::from(thread) * ctx.local_stride;
        let windows = [
            own_shared(ctx),
            local..local + ctx.local_stride,
            grid.consts.clone(),
            grid.params.clone(),
        ];
        View {
            arena: &grid.arena,
            windows,
            cluster: cluster_of(ctx),
            grid,
        }
    }

    /// Whether the bytes lie in one of the windows.
    pub(crate) fn in_window(&self, addr: u64, size: u64) -> bool {
        let of_cluster = self
            .cluster
            .is_some_and(|cluster| cluster.contains(addr, size));
        let is_in = |window: &Range<u64>| {
            addr >= window.start && addr <= window.end && window.end - addr >= size
        };
        of_cluster || self.windows.iter().any(is_in)
    }

    /// Whether an address lies in a window that kernels only read: constants and parameters.
    pub(crate) fn is_read_only(&self, addr: u64) -> bool {
        let [_, _, consts, params] = &self.windows;
        consts.contains(&addr) || params.contains(&addr)
    }

    /// Reads bytes by generic address, if the thread may.
    pub(crate) fn read(&self, addr: u64, bytes: &mut [u8]) -> Option<()> {
        if self.in_window(addr, bytes.len() as u64) {
            // SAFETY: windows in use are committed, and a CTA's own are not changed while it runs.
            unsafe { crate::memory::read_committed(addr, bytes) };
            return Some(());
        }
        if !self.grid.may_access(addr, bytes.len() as u64) {
            return None;
        }
        match self.arena.contains(addr) {
            true => self.arena.read(addr, bytes).ok(),
            false => crate::memory::read_host(addr, bytes),
        }
    }

    pub(crate) fn arena(&self) -> &'v Arena {
        self.arena
    }

    /// Gathers rows of one allocation; false if they are anything else.
    pub(crate) fn read_rows(&self, rows: Rows, bytes: &mut [u8]) -> bool {
        self.is_own(rows.addr) && self.arena.read_rows(rows, bytes).is_ok()
    }

    /// Whether an address lies in the arena, and in no part that is guarded.
    fn is_own(&self, addr: u64) -> bool {
        self.arena.contains(addr) && self.grid.foreign_part(addr).is_none()
    }

    /// Bytes of the CTA's shared memory.
    pub(crate) fn shared(&mut self, addr: u64, len: usize) -> Option<&mut [u8]> {
        let [shared, ..] = &self.windows;
        let end = addr.checked_add(len as u64)?;
        let of_cluster = self
            .cluster
            .is_some_and(|cluster| cluster.contains(addr, len as u64));
        if !of_cluster && (addr < shared.start || end > shared.end) {
            return None;
        }
        // SAFETY: windows in use are committed. Those of a cluster are not touched while one of its
        // threads is in a callback, and the slice lives no longer than the view, which is the
        // callback's.
        Some(unsafe { crate::memory::committed(addr, len) })
    }

    /// All bytes of the CTA's shared memory.
    pub(crate) fn all_shared(&self) -> &[u8] {
        let [shared, ..] = &self.windows;
        // SAFETY: as for `shared`.
        unsafe { crate::memory::committed(shared.start, (shared.end - shared.start) as usize) }
    }

    /// All bytes of the shared memory of a CTA of the cluster: none if that has ended.
    pub(crate) fn shared_of(&self, rank: u32) -> &[u8] {
        let [own, ..] = &self.windows;
        let Some(cluster) = self.cluster else {
            return &[];
        };
        let len = own.end - own.start;
        let start = cluster.base() + (u64::from(rank) << CTA_SHIFT);
        match cluster.contains(start, len) {
            // SAFETY: as for `shared`.
            true => unsafe { crate::memory::committed(start, len as usize) },
            false => &[],
        }
    }

    /// Scatters rows of one allocation; false, with nothing written, if they are anything else.
    pub(crate) fn write_rows(&self, rows: Rows, bytes: &[u8]) -> bool {
        self.is_own(rows.addr) && self.arena.write_rows(rows, bytes).is_ok()
    }

    /// Writes bytes by generic address, if the thread may.
    pub(crate) fn write(&self, addr: u64, bytes: &[u8]) -> Option<()> {
        let len = bytes.len() as u64;
        if self.is_read_only(addr) {
            return None;
        }
        if self.in_window(addr, len) {
            // SAFETY: windows in use are committed, and only threads of the CTA access its own.
            unsafe { crate::memory::write_committed(addr, bytes) };
            return Some(());
        }
        if !self.grid.may_access(addr, len) {
            return None;
        }
        match self.arena.contains(addr) {
            true => self.arena.write(addr, bytes).ok(),
            false => crate::memory::write_host(addr, bytes),
        }
    }

    /// Replaces an aligned element of 1, 2, 4 or 8 bytes atomically, if the thread may; returns the
    /// old one.
    pub(crate) fn update(
        &self,
        addr: u64,
        size: u32,
        update: &mut dyn FnMut(u64) -> u64,
    ) -> Option<u64> {
        match self.place_of(addr, size.into())? {
            Place::Arena => self.arena.update(addr, size, update).ok(),
            Place::Committed => {
                // SAFETY: the place says so.
                Some(unsafe { crate::memory::update_committed(addr, size, update) })
            }
        }
    }

    /// Replaces 16 aligned bytes atomically by `new`, if they are what is expected where something
    /// is; returns the old ones, if the thread may access them.
    pub(crate) fn exchange(&self, addr: u64, expected: Option<u128>, new: u128) -> Option<u128> {
        match self.place_of(addr, 16)? {
            Place::Arena => self.arena.exchange(addr, expected, new).ok(),
            Place::Committed => {
                // SAFETY: the place says so.
                Some(unsafe { crate::memory::exchange_committed(addr, expected, new) })
            }
        }
    }

    /// Where an element of at most 16 bytes lies that the thread may read and write.
    fn place_of(&self, addr: u64, len: u64) -> Option<Place> {
        if self.is_read_only(addr) {
            return None;
        }
        let is_window = self.in_window(addr, len);
        let may_access = self.grid.may_access(addr, len);
        if !is_window && self.arena.contains(addr) {
            return may_access.then_some(Place::Arena);
        }
        // Memory of the host is registered for kernels, or open to them; whether it is mapped shows
        // only when it is read.
        let is_there = || crate::memory::read_host(addr, &mut [0; 16][..len as usize]).is_some();
        (is_window || may_access && is_there()).then_some(Place::Committed)
    }
}

/// The shared memory of the cluster's CTAs, if there are several.
pub(crate) fn cluster_of(ctx: &CtaContext) -> Option<&ClusterWindow> {
    // SAFETY: `Cta::prepare` sets it, to null or to the window of the cluster, which stays while
    // its CTAs are run.
    unsafe { ctx.cluster.cast::<ClusterWindow>().as_ref() }
}

/// Generic addresses of the CTA's own shared memory.
fn own_shared(ctx: &CtaContext) -> Range<u64> {
    // In a cluster of one CTA the rank is 0.
    let base = ctx.shared_base + (u64::from(ctx.cluster_ctarank) << CTA_SHIFT);
    base..base + u64::from(ctx.total_smem_size)
}

/// Says in words what lies at an address that a thread of this CTA should not have accessed.
pub(crate) fn describe(grid: &Grid, ctx: &CtaContext, addr: u64) -> String {
    if let Some(text) = cluster_of(ctx).and_then(|cluster| cluster.describe(addr)) {
        return text;
    }
    let local_len = ctx.local_stride * u64::from(ctx.n_threads);
    let windows = [
        ("shared", ctx.shared_base, u64::from(ctx.total_smem_size)),
        ("local", ctx.local_base, local_len),
        (
            "constant",
            grid.consts.start,
            grid.consts.end - grid.consts.start,
        ),
        (
            "parameter",
            grid.params.start,
            grid.params.end - grid.params.start,
        ),
    ];
    /// As far as a 32-bit offset reaches.
    const REACH: i64 = 1 << 31;
    let near = windows
        .into_iter()
        .filter(|&(name, _, len)| len != 0 || name == "shared")
        .find_map(|(name, base, len)| {
            let offset = addr.wrapping_sub(base) as i64;
            ((-REACH)..REACH)
                .contains(&offset)
                .then_some((name, offset, len))
        });
    match near {
        Some((name, offset, len)) => {
            format!("offset {offset} of {name} memory, which has {len} bytes")
        }
        None if let Some(part) = grid.foreign_part(addr) => format!(
            "memory of device {part}, which device {} may not access: {}",
            grid.shared.part,
            grid.arena.describe(addr)
        ),
        None if grid.open_memory && !grid.arena.contains(addr) && addr >= 1 << 16 => {
            "the process has no memory there, or none that can be accessed so".into()
        }
        None => grid.arena.describe(addr),
    }
}
