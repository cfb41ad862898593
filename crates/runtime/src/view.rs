//! Device memory as one thread sees it: the global heap, and the windows that are its own.

#![expect(
    unsafe_code,
    reason = "windows are read through addresses that were checked here"
)]

use std::ops::Range;

use ptxjit_abi::CtaContext;

use crate::grid::Grid;
use crate::memory::Arena;

/// Longest string that the runtime reads for a kernel.
const MAX_STRING: usize = 1 << 20;

/// See the module.
pub(crate) struct View<'a> {
    arena: &'a Arena,
    windows: [Range<u64>; 4],
    open_memory: bool,
}

impl View<'_> {
    /// What `thread` of a CTA sees.
    pub(crate) fn new<'a>(grid: &'a Grid, ctx: &CtaContext, thread: u32) -> View<'a> {
        let local = ctx.local_base + u64::from(thread) * ctx.local_stride;
        let windows = [
            ctx.shared_base..ctx.shared_base + u64::from(ctx.total_smem_size),
            local..local + ctx.local_stride,
            grid.consts.clone(),
            grid.params.clone(),
        ];
        View {
            arena: &grid.arena,
            windows,
            open_memory: grid.open_memory,
        }
    }

    /// Whether the bytes lie in one of the windows.
    pub(crate) fn in_window(&self, addr: u64, size: u64) -> bool {
        self.windows
            .iter()
            .any(|window| addr >= window.start && addr <= window.end && window.end - addr >= size)
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
        let len = bytes.len() as u64;
        let is_foreign = || self.open_memory || self.arena.is_foreign(addr, len);
        if !self.arena.contains(addr) && is_foreign() {
            return crate::memory::read_host(addr, bytes);
        }
        self.arena.read(addr, bytes).ok()
    }

    /// Reads a string that ends with a zero byte, without that byte.
    pub(crate) fn c_string(&self, addr: u64) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        for offset in 0..MAX_STRING as u64 {
            let mut byte = [0];
            self.read(addr.checked_add(offset)?, &mut byte)?;
            match byte[0] {
                0 => return Some(text),
                byte => text.push(byte),
            }
        }
        None
    }
}

/// Says in words what lies at an address that a thread of this CTA should not have accessed.
pub(crate) fn describe(grid: &Grid, ctx: &CtaContext, addr: u64) -> String {
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
        None if grid.open_memory && !grid.arena.contains(addr) && addr >= 1 << 16 => {
            "the process has no memory there, or none that can be accessed so".into()
        }
        None => grid.arena.describe(addr),
    }
}
