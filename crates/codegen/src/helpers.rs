//! Functions that compiled code calls for operations without an inline form.

#![expect(
    unsafe_code,
    reason = "compiled code passes addresses of instructions that its kernel keeps alive"
)]

use ptxjit_abi::object::Helper;
use ptxjit_abi::with_default_rounding;
use ptxjit_ir::{AtomicFmt, AtomicOp, InstData, eval};
use ptxjit_vectorize::MayWrap;

/// Where a helper is in this process.
pub(crate) fn address(helper: Helper) -> *const u8 {
    match helper {
        Helper::Eval => eval_inst as *const () as *const u8,
        Helper::Atomic => atomic as *const () as *const u8,
        Helper::BadLanes => bad_lanes as *const () as *const u8,
        Helper::Warp => ptxjit_abi::warp_ops::warp_op as *const () as *const u8,
        Helper::Mma => ptxjit_abi::mma::mma_op as *const () as *const u8,
        Helper::Products => ptxjit_abi::mma::products_op as *const () as *const u8,
        Helper::ResolveWrapped => resolve_wrapped as *const () as *const u8,
        Helper::Row => row as *const () as *const u8,
        Helper::MergeSlots => merge_slots as *const () as *const u8,
    }
}

/// Evaluates a pure instruction. The result of an instruction that has none is zero.
///
/// # Safety
///
/// `data` points to an instruction that the running kernel keeps.
pub(crate) unsafe extern "C" fn eval_inst(
    data: *const InstData,
    a: u64,
    b: u64,
    c: u64,
    d: u64,
) -> u64 {
    // SAFETY: the caller's promise.
    let data = unsafe { &*data };
    with_default_rounding(|| eval::inst(data, &[a, b, c, d]).unwrap_or(0))
}

/// An atomic operation without an inline form, on memory that was just found mapped. `code` packs
/// the op (by its position in `AtomicOp::ALL`), the format and whether f32 flushes subnormals.
///
/// # Safety
///
/// `addr` is mapped and aligned to the format's size.
pub(crate) unsafe extern "C" fn atomic(code: u64, addr: u64, a: u64, b: u64) -> u64 {
    let op = AtomicOp::ALL[(code & 0xff) as usize];
    let fmt = FORMATS[(code >> 8 & 0xff) as usize];
    let flush = code >> 16 & 1 != 0;
    let next = |old: u64| with_default_rounding(|| eval::atomic(op, fmt, old, &[a, b], flush));
    // SAFETY: the caller's promise.
    unsafe {
        match fmt.ty().bytes() {
            2 => update(&*(addr as *const core::sync::atomic::AtomicU16), next),
            4 => update(&*(addr as *const core::sync::atomic::AtomicU32), next),
            _ => update(&*(addr as *const core::sync::atomic::AtomicU64), next),
        }
    }
}

/// The formats by number.
pub(crate) const FORMATS: &[AtomicFmt] = &[
    AtomicFmt::B16,
    AtomicFmt::B32,
    AtomicFmt::B64,
    AtomicFmt::U32,
    AtomicFmt::S32,
    AtomicFmt::U64,
    AtomicFmt::S64,
    AtomicFmt::F16,
    AtomicFmt::F16x2,
    AtomicFmt::Bf16,
    AtomicFmt::Bf16x2,
    AtomicFmt::F32,
    AtomicFmt::F64,
];

trait Word {
    fn load(&self) -> u64;
    /// Err: the value found instead of `old`.
    fn exchange(&self, old: u64, new: u64) -> Result<(), u64>;
}

macro_rules! word {
    ($($atomic:ident $int:ident),*) => {$(
        impl Word for core::sync::atomic::$atomic {
            fn load(&self) -> u64 {
                core::sync::atomic::$atomic::load(self, core::sync::atomic::Ordering::SeqCst).into()
            }

            fn exchange(&self, old: u64, new: u64) -> Result<(), u64> {
                let order = core::sync::atomic::Ordering::SeqCst;
                self.compare_exchange_weak(old as $int, new as $int, order, order).map(|_| ()).map_err(u64::from)
            }
        }
    )*};
}

word!(AtomicU16 u16, AtomicU32 u32, AtomicU64 u64);

fn update(word: &impl Word, next: impl Fn(u64) -> u64) -> u64 {
    let mut old = word.load();
    loop {
        match word.exchange(old, next(old)) {
            Ok(()) => return old,
            Err(found) => old = found,
        }
    }
}

/// Writes each lane's value of an affine one whose index may have wrapped (`vectorize::MayWrap`) to
/// `lanes` elements at `out`. `scale` is negative if wrapped lanes lie above the others. Marked
/// values are recognized by their distance from `origin`.
///
/// # Safety
///
/// `out` has room for all lanes.
pub(crate) unsafe extern "C" fn resolve_wrapped(
    base: u64,
    stride: i64,
    scale: i64,
    origin: u64,
    lanes: u32,
    out: *mut u64,
) {
    let unit = scale.abs() << MayWrap::BITS;
    let slack = scale.abs() << (MayWrap::BITS - 4);
    let distance = base.wrapping_sub(origin) as i64;
    let first_wrapped = distance.wrapping_add(slack).div_euclid(unit);
    let is_marked = (1..i64::from(lanes)).contains(&first_wrapped);
    for lane in 0..i64::from(lanes) {
        let mut value = base.wrapping_add(stride.wrapping_mul(lane) as u64);
        if is_marked {
            value = value.wrapping_sub((first_wrapped * unit) as u64);
            if lane >= first_wrapped {
                value = value.wrapping_sub((scale << 32) as u64);
            }
        }
        // SAFETY: the caller's promise.
        unsafe { out.add(lane as usize).write(value) };
    }
}

/// Writes the addresses of `lanes` lanes at a constant distance to `out`.
///
/// # Safety
///
/// `out` has room for all lanes.
pub(crate) unsafe extern "C" fn row(at: u64, stride: i64, lanes: u32, out: *mut u64) {
    for lane in 0..i64::from(lanes) {
        let address = at.wrapping_add(stride.wrapping_mul(lane) as u64);
        // SAFETY: the caller's promise.
        unsafe { out.add(lane as usize).write(address) };
    }
}

/// How the context slots of one wait lie in a gang's frame: first those of four bytes per lane,
/// from offset 0 on, then those of eight, from `wide_start` on. Of both kinds, slots that the gang
/// fills with one scalar come before those that each lane fills.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct SlotLayout {
    pub shared: u16,
    pub own: u16,
    pub wide_shared: u16,
    pub wide_own: u16,
    pub wide_start: u32,
}

impl SlotLayout {
    /// The counts in one word.
    pub(crate) fn counts(self) -> u64 {
        let counts = [self.shared, self.own, self.wide_shared, self.wide_own];
        counts
            .iter()
            .rev()
            .fold(0, |word, &count| word << 16 | u64::from(count))
    }

    fn unpack(counts: u64, wide_start: u32) -> SlotLayout {
        let count = |idx: u32| (counts >> (16 * idx)) as u16;
        SlotLayout {
            shared: count(0),
            own: count(1),
            wide_shared: count(2),
            wide_own: count(3),
            wide_start,
        }
    }
}

/// Merges the slots of some lanes of a gang into its frame: the slots that the whole gang would
/// have written lie at `from`; copies those of the lanes in `bits`. A scalar slot is copied to each
/// of them. `shape` is the gang's width, and above 32 bits where the wide slots start.
///
/// # Safety
///
/// `frame` and `from` hold all slots of the layout for that many lanes, and do not overlap.
pub(crate) unsafe extern "C" fn merge_slots(
    frame: *mut u8,
    from: *const u8,
    bits: u32,
    counts: u64,
    shape: u64,
) {
    let lanes = shape as u32 as usize;
    let layout = SlotLayout::unpack(counts, (shape >> 32) as u32);
    // SAFETY: the caller's promise.
    unsafe {
        merge::<u32>(frame, from, bits, lanes, [layout.shared, layout.own]);
        let start = layout.wide_start as usize;
        let counts = [layout.wide_shared, layout.wide_own];
        merge::<u64>(frame.add(start), from.add(start), bits, lanes, counts);
    }
}

/// Slots of one width.
///
/// # Safety
///
/// As for [`merge_slots`].
unsafe fn merge<T: Copy>(
    frame: *mut u8,
    from: *const u8,
    bits: u32,
    lanes: usize,
    [shared, own]: [u16; 2],
) {
    let (frame, from) = (frame.cast::<T>(), from.cast::<T>());
    for slot in 0..usize::from(shared) + usize::from(own) {
        let start = slot * lanes;
        let is_shared = slot < usize::from(shared);
        for lane in (0..lanes).filter(|lane| bits >> lane & 1 != 0) {
            let source = if is_shared { start } else { start + lane };
            // SAFETY: the caller's promise.
            unsafe {
                frame
                    .add(start + lane)
                    .write_unaligned(from.add(source).read_unaligned())
            };
        }
    }
}

/// Which of the lanes `bits` have an address in `addrs` outside the arena of `size` bytes at
/// `base`.
///
/// # Safety
///
/// `addrs` holds an address for each lane up to the highest of `bits`.
pub(crate) unsafe extern "C" fn bad_lanes(
    addrs: *const u64,
    bits: u32,
    base: u64,
    size: u64,
) -> u32 {
    (0..32)
        .filter(|lane| bits >> lane & 1 != 0)
        .filter(|&lane| {
            // SAFETY: the caller's promise.
            let addr = unsafe { addrs.add(lane as usize).read() };
            (addr ^ base) >= size
        })
        .fold(0, |bad, lane| bad | 1 << lane)
}
