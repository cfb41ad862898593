//! Reads of textures for a whole gang: lanes that read the same texture are worked out together,
//! from memory that is checked once for all of them.

#![expect(
    unsafe_code,
    reason = "called by compiled code with raw pointers; elements are read where their image was found alive"
)]

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering};

use ptxjit_abi::DEVICE_VALUE_BYTES;
use ptxjit_device::texture::{Bound, LANES, Level, Texels, fetch_lanes, plane};
use ptxjit_ir::{Color, Fetch, Lod, Type};
use smallvec::SmallVec;

use crate::memory::Arena;

/// Words of one operand or result, for lanes side by side.
type Words = [u32; LANES];

/// Operands and results of a read, as compiled code lays them out: see `RuntimeFns::device`.
#[derive(Copy, Clone)]
pub(crate) struct Area(pub(crate) *mut u8);

impl Area {
    /// # Safety
    ///
    /// Value `n` is there, and of 64 bits.
    pub(crate) unsafe fn handle(self, n: usize, lane: u32) -> u64 {
        let at = self
            .0
            .wrapping_add(n * DEVICE_VALUE_BYTES + lane as usize * 8);
        // SAFETY: the caller's promise; elements lie at multiples of four.
        unsafe { at.cast::<u64>().read_unaligned() }
    }

    /// # Safety
    ///
    /// The first value is there, and of this type, which has 32 or 64 bits.
    pub(crate) unsafe fn address(self, ty: Type, lane: u32) -> u64 {
        if ty == Type::B64 {
            // SAFETY: the caller's promise.
            return unsafe { self.handle(0, lane) };
        }
        let at = self.0.wrapping_add(lane as usize * 4).cast::<u32>();
        // SAFETY: the caller's promise.
        unsafe { at.read_unaligned() }.into()
    }

    fn words(self, n: usize, first: usize) -> *mut u32 {
        self.0
            .wrapping_add(n * DEVICE_VALUE_BYTES + first * 4)
            .cast()
    }
}

/// Reads for the lanes of `mask`, all of which name the objects of `bound`. False, with nothing
/// read, if the image is not alive in global memory.
///
/// # Safety
///
/// The area holds the operands and has room for the results of `fetch`.
pub(crate) unsafe fn fetch(
    arena: &Arena,
    fetch: &Fetch,
    bound: &Bound,
    mask: u32,
    area: Area,
) -> bool {
    let image = &bound.texture().image;
    let n_levels = match fetch.lod {
        Lod::Base => 1,
        Lod::Level | Lod::Grad => image.levels.len(),
    };
    let levels = image.levels.iter().take(n_levels);
    let ranges: SmallVec<[(u64, u64); 1]> = levels
        .map(|level| (level.addr, image.level_bytes(level)))
        .collect();
    let read = || {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the caller's promise, and the processor has what is asked for.
            return unsafe { group_avx2(fetch, bound, mask, area) };
        }
        // SAFETY: the caller's promise.
        unsafe { group(fetch, bound, mask, area) }
    };
    arena.while_alive(&ranges, read).is_some()
}

/// # Safety
///
/// As [`group`], and the processor has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn group_avx2(fetch: &Fetch, bound: &Bound, mask: u32, area: Area) {
    // SAFETY: the caller's promise.
    unsafe { group(fetch, bound, mask, area) }
}

/// # Safety
///
/// As [`fetch`], and the levels that may be read are alive until it returns.
#[inline(always)]
unsafe fn group(fetch: &Fetch, bound: &Bound, mask: u32, area: Area) {
    let image = &bound.texture().image;
    let open = |level: usize| {
        let level = &image.levels[level];
        Window::new(level, image.level_bytes(level))
    };
    if let Some(plane) = plane(fetch, bound) {
        let mut texels = open(0);
        let read = |args: &[Words], _| plane.read([&args[0], &args[1]], &mut texels);
        // SAFETY: the caller's promise.
        return unsafe { by_lanes(fetch, mask, area, read) };
    }
    let read = |args: &[Words], live| fetch_lanes(fetch, bound, args, live, open);
    // SAFETY: the caller's promise.
    unsafe { by_lanes(fetch, mask, area, read) }
}

/// Operands behind the handles: layer, coordinates, derivatives, offsets and a reference value.
const MOST_WORDS: usize = 16;

/// Calls `read` for the lanes of `mask`.
///
/// # Safety
///
/// As [`fetch`].
#[inline(always)]
unsafe fn by_lanes(
    fetch: &Fetch,
    mask: u32,
    area: Area,
    mut read: impl FnMut(&[Words], [bool; LANES]) -> [Words; 4],
) {
    let n_handles = 1 + usize::from(fetch.sampler);
    let n_words = fetch.n_words();
    let n_results = match fetch.color {
        Color::PackedHalves => 2,
        Color::Words | Color::Halves => 4,
    };
    let mut args = [[0; LANES]; MOST_WORDS];
    for first in (0..u32::BITS as usize).step_by(LANES) {
        let some = mask >> first & ((1 << LANES) - 1);
        if some == 0 {
            continue;
        }
        for (n, words) in args[..n_words].iter_mut().enumerate() {
            let from = area.words(n_handles + n, first).cast::<Words>();
            // SAFETY: each value has room for 32 lanes, and any bits are a word.
            *words = unsafe { from.read_unaligned() };
        }
        let live: [bool; LANES] = std::array::from_fn(|lane| some >> lane & 1 != 0);
        let colors = read(&args[..n_words], live);
        for (n, words) in colors.iter().enumerate().take(n_results) {
            let to = area.words(n_handles + n_words + n, first);
            if some == (1 << LANES) - 1 {
                // SAFETY: as above.
                unsafe { to.cast::<Words>().write_unaligned(*words) };
                continue;
            }
            for lane in 0..LANES {
                if live[lane] {
                    // SAFETY: as above.
                    unsafe { to.wrapping_add(lane).write_unaligned(words[lane]) };
                }
            }
        }
    }
}

/// Memory of a level that stays alive.
struct Window {
    base: u64,
    len: u64,
}

impl Window {
    fn new(level: &Level, len: u64) -> Window {
        Window {
            base: level.addr,
            len,
        }
    }

    /// The address of `size` bytes, which are inside; of others that of the first.
    #[inline(always)]
    fn at(&self, offset: u64, size: u64) -> u64 {
        debug_assert!(offset + size <= self.len, "indices are inside of the image");
        match offset + size <= self.len {
            true => self.base + offset,
            false => self.base,
        }
    }

    /// Whether `size` bytes from each of the offsets on are inside. PERF: without a branch for each
    /// lane.
    #[inline(always)]
    fn have(&self, offsets: &[u64; LANES], size: u64) -> bool {
        let inside = offsets.iter().map(|&offset| offset + size <= self.len);
        inside.fold(true, |all, is_inside| all & is_inside)
    }
}

// Kernels may write to the elements at the same time, which relaxed loads allow.
impl Texels for Window {
    #[inline(always)]
    fn byte(&mut self, offset: u64) -> u8 {
        let at = self.at(offset, 1) as *mut u8;
        // SAFETY: inside of memory that is alive as long as the window.
        unsafe { AtomicU8::from_ptr(at) }.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn half(&mut self, offset: u64) -> u16 {
        let at = self.at(offset, 2) as *mut u16;
        // SAFETY: as above; channels lie at multiples of their size.
        unsafe { AtomicU16::from_ptr(at) }.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn word(&mut self, offset: u64) -> u32 {
        let at = self.at(offset, 4) as *mut u32;
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(at) }.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn words(&mut self, offsets: &[u64; LANES]) -> [u32; LANES] {
        if !self.have(offsets, 4) {
            return offsets.map(|offset| self.word(offset));
        }
        offsets.map(|offset| {
            let at = (self.base + offset) as *mut u32;
            // SAFETY: as above; all offsets were tested.
            unsafe { AtomicU32::from_ptr(at) }.load(Ordering::Relaxed)
        })
    }
}
