//! Reads of textures for a whole gang: lanes that read the same texture are worked out together,
//! from memory that is checked once for all of them.

#![expect(
    unsafe_code,
    reason = "called by compiled code with raw pointers; elements are read where their image was found alive"
)]

#[cfg(target_arch = "x86_64")]
mod avx2;

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering};

use ptxjit_abi::DEVICE_VALUE_BYTES;
use ptxjit_device::texture::{Bound, LANES, Level, Registry, Texels, fetch_lanes};
use ptxjit_ir::{Color, Fetch, Lod, Type};
use smallvec::SmallVec;

use crate::memory::{Alive, Arena};

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

    /// The lanes whose value `n` is this one.
    ///
    /// # Safety
    ///
    /// As [`Area::handle`], for all lanes; those that do not run have any value.
    pub(crate) unsafe fn lanes_with(self, n: usize, handle: u64) -> u32 {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            let values = self.0.wrapping_add(n * DEVICE_VALUE_BYTES);
            // SAFETY: the caller's promise, and the processor has what is asked for.
            return unsafe { avx2::lanes_with(values, handle) };
        }
        (0..u32::BITS).fold(0, |lanes, lane| {
            // SAFETY: the caller's promise.
            lanes | u32::from(unsafe { self.handle(n, lane) } == handle) << lane
        })
    }

    /// The words of `count` values from number `first` on.
    ///
    /// # Safety
    ///
    /// The values are there, and nothing else uses them.
    pub(crate) unsafe fn values_mut<'a>(self, first: usize, count: usize) -> &'a mut [u32] {
        // SAFETY: the caller's promise.
        unsafe {
            std::slice::from_raw_parts_mut(self.words(first, 0), count * DEVICE_VALUE_BYTES / 4)
        }
    }

    fn words(self, n: usize, first: usize) -> *mut u32 {
        self.0
            .wrapping_add(n * DEVICE_VALUE_BYTES + first * 4)
            .cast()
    }
}

/// A read with its objects, and what was found out at earlier reads with the same.
pub(crate) struct Known {
    bound: Bound,
    alive: Cell<Option<Alive>>,
    #[cfg(target_arch = "x86_64")]
    columns: avx2::KnownColumns,
}

/// What was bound last: at which epoch of the registry, and by which handles.
struct Last {
    epoch: u64,
    handles: [u64; 2],
    known: Known,
}

/// Places by the lowest bits of a handle: handles are consecutive numbers, so the few textures that
/// a kernel reads mostly have places of their own.
const N_LAST: usize = 4;

thread_local! {
    /// What this thread of the host has bound last, by texture.
    static LAST: RefCell<[Option<Last>; N_LAST]> = const { RefCell::new([const { None }; N_LAST]) };
}

/// Calls `read` with what the operands of a read name: what was found for the same operands before,
/// if nothing can have changed, else what `find` finds. None if that is nothing.
pub(crate) fn with_bound<T>(
    registry: &Registry,
    fetch: &Fetch,
    handles: [u64; 2],
    find: impl FnOnce(&[u64]) -> Option<Bound>,
    read: impl FnOnce(&mut Known) -> T,
) -> Option<T> {
    let epoch = registry.epoch();
    LAST.with_borrow_mut(|last| {
        let last = &mut last[handles[0] as usize % N_LAST];
        if let Some(last) = last
            && (last.epoch, last.handles) == (epoch, handles)
            && last.known.bound.fetch() == fetch
        {
            return Some(read(&mut last.known));
        }
        let mut known = Known::new(find(&handles[..n_handles(fetch)])?);
        let result = read(&mut known);
        if known.bound.is_by_handle() {
            *last = Some(Last {
                epoch,
                handles,
                known,
            });
        }
        Some(result)
    })
}

impl Known {
    fn new(bound: Bound) -> Known {
        Known {
            bound,
            alive: Cell::default(),
            #[cfg(target_arch = "x86_64")]
            columns: avx2::KnownColumns::default(),
        }
    }

    /// Reads for the lanes of `mask`, all of which name these objects. False, with nothing read, if
    /// the image is not alive in global memory.
    ///
    /// # Safety
    ///
    /// The area holds the operands and has room for the results of the read.
    pub(crate) unsafe fn read(&mut self, arena: &Arena, mask: u32, area: Area) -> bool {
        let Known {
            bound,
            alive,
            #[cfg(target_arch = "x86_64")]
            columns,
        } = self;
        let image = &bound.texture().image;
        let read = || {
            #[cfg(target_arch = "x86_64")]
            if std::arch::is_x86_feature_detected!("avx2") {
                // SAFETY: the caller's promise, and the processor has what is asked for.
                return unsafe { group_avx2(bound, columns, mask, area) };
            }
            // SAFETY: the caller's promise.
            unsafe { group(bound, mask, area) }
        };
        let range = |level: &Level| (level.addr, image.level_bytes(level));
        let done = match bound.fetch().lod {
            Lod::Level | Lod::Grad if image.levels.len() > 1 => {
                let ranges: SmallVec<[(u64, u64); 16]> = image.levels.iter().map(range).collect();
                arena.while_alive(&ranges, alive, read)
            }
            Lod::Base | Lod::Level | Lod::Grad => {
                arena.while_alive(&[range(image.base())], alive, read)
            }
        };
        done.is_some()
    }
}

/// Reads as [`group`] does, on a processor with AVX2.
///
/// # Safety
///
/// As [`group`], and the processor has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn group_avx2(bound: &Bound, columns: &mut avx2::KnownColumns, mask: u32, area: Area) {
    let fetch = bound.fetch();
    let mask = match bound.plane() {
        Some(plane) if avx2::is_supported() => {
            let args = n_handles(fetch);
            let results = args + fetch.n_words();
            let places = avx2::Places {
                area,
                args,
                results,
            };
            // SAFETY: the caller's promise, and the processor has what is asked for.
            unsafe { avx2::read(&plane, columns, mask, places) }
        }
        _ => mask,
    };
    if mask != 0 {
        // SAFETY: the caller's promise.
        unsafe { group(bound, mask, area) }
    }
}

/// # Safety
///
/// As [`Known::read`], and the levels that may be read are alive until it returns.
#[inline(always)]
unsafe fn group(bound: &Bound, mask: u32, area: Area) {
    let fetch = bound.fetch();
    let image = &bound.texture().image;
    let open = |level: usize| {
        let level = &image.levels[level];
        Window::new(level, image.level_bytes(level))
    };
    if let Some(plane) = bound.plane() {
        let mut texels = open(0);
        let read = |args: &[Words], _| plane.read([&args[0], &args[1]], &mut texels);
        // SAFETY: the caller's promise.
        return unsafe { by_lanes(fetch, mask, area, read) };
    }
    let read = |args: &[Words], live| fetch_lanes(bound, args, live, open);
    // SAFETY: the caller's promise.
    unsafe { by_lanes(fetch, mask, area, read) }
}

/// Operands that name objects: a texture, and a sampler of its own.
pub(crate) fn n_handles(fetch: &Fetch) -> usize {
    1 + usize::from(fetch.sampler)
}

/// Operands behind the handles: layer, coordinates, derivatives, offsets and a reference value.
const MOST_WORDS: usize = 16;

/// Calls `read` for the lanes of `mask`.
///
/// # Safety
///
/// As [`Known::read`].
#[inline(always)]
unsafe fn by_lanes(
    fetch: &Fetch,
    mask: u32,
    area: Area,
    mut read: impl FnMut(&[Words], [bool; LANES]) -> [Words; 4],
) {
    let n_handles = n_handles(fetch);
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
