//! Raw copies between host memory and the arena.
//!
//! Callers have made sure that the device bytes are committed. Kernels may access the same bytes at
//! the same time, as they may on a GPU; what a copy then sees is up to the program that let them
//! race.

#![expect(unsafe_code, reason = "device memory is reached through addresses")]

use std::ptr;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

/// Copies device bytes to `to`.
///
/// # Safety
///
/// The bytes from `from` on are mapped and readable.
pub(super) unsafe fn read(from: u64, to: &mut [u8]) {
    // SAFETY: the source is readable by contract and lies in the arena, apart from any Rust object.
    unsafe { ptr::copy_nonoverlapping(from as *const u8, to.as_mut_ptr(), to.len()) };
}

/// Copies host bytes to the device.
///
/// # Safety
///
/// The bytes from `to` on are mapped and writable.
pub(super) unsafe fn write(to: u64, from: &[u8]) {
    // SAFETY: the destination is writable by contract and lies in the arena, apart from any Rust
    // object.
    unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to as *mut u8, from.len()) };
}

/// Copies host bytes to the device past the caches: lines that are overwritten as a whole need not
/// be fetched. [`end_stream`] is called before other threads may look.
///
/// # Safety
///
/// The bytes from `to` on are mapped and writable.
pub(super) unsafe fn stream(to: u64, from: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
        const LINE: usize = 64;
        if to.is_multiple_of(LINE as u64) && from.len().is_multiple_of(LINE) {
            for (n, piece) in from.as_chunks::<16>().0.iter().enumerate() {
                let at = (to as *mut __m128i).wrapping_add(n);
                // SAFETY: every x86-64 processor has these; the place is a multiple of 16 and
                // writable by contract.
                unsafe { _mm_stream_si128(at, _mm_loadu_si128(piece.as_ptr().cast())) };
            }
            return;
        }
    }
    // SAFETY: the caller's promise.
    unsafe { write(to, from) };
}

/// What was streamed comes before what this thread writes next.
pub(super) fn end_stream() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has it.
    unsafe {
        std::arch::x86_64::_mm_sfence()
    };
}

/// Copies between device addresses that may overlap.
///
/// # Safety
///
/// Both ranges are mapped, `from` readable and `to` writable.
pub(super) unsafe fn copy(to: u64, from: u64, len: u64) {
    // SAFETY: both ranges are accessible by contract.
    unsafe { ptr::copy(from as *const u8, to as *mut u8, len as usize) };
}

/// Fills device bytes with copies of a word; the last may be cut off.
///
/// # Safety
///
/// The bytes from `to` on are mapped and writable.
pub(super) unsafe fn fill(to: u64, word: u32, len: u64) {
    let to = to as *mut u8;
    let bytes = word.to_le_bytes();
    if bytes == [bytes[0]; 4] {
        // SAFETY: the destination is writable by contract.
        unsafe { ptr::write_bytes(to, bytes[0], len as usize) };
        return;
    }
    let n_words = (len / 4) as usize;
    for i in 0..n_words {
        // SAFETY: inside the destination.
        unsafe { to.cast::<u32>().add(i).write_unaligned(word.to_le()) };
    }
    for (i, &byte) in bytes[..(len % 4) as usize].iter().enumerate() {
        // SAFETY: the bytes behind the last whole word.
        unsafe { to.add(n_words * 4 + i).write(byte) };
    }
}

/// Replaces a little-endian element of 1, 2, 4 or 8 bytes atomically by what `next` makes of it;
/// returns the old one.
///
/// # Safety
///
/// The element is aligned and may be written.
pub(super) unsafe fn update(at: u64, size: u32, next: &mut dyn FnMut(u64) -> u64) -> u64 {
    macro_rules! update {
        ($atomic:ident, $int:ident) => {{
            // SAFETY: the caller's promise.
            let element = unsafe { std::sync::atomic::$atomic::from_ptr(at as *mut $int) };
            let mut old = element.load(Ordering::SeqCst);
            loop {
                let new = next(old.into()) as $int;
                match element.compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst) {
                    Ok(old) => return old.into(),
                    Err(found) => old = found,
                }
            }
        }};
    }
    match size {
        1 => update!(AtomicU8, u8),
        2 => update!(AtomicU16, u16),
        4 => update!(AtomicU32, u32),
        _ => update!(AtomicU64, u64),
    }
}

/// Replaces 16 bytes by `new`, if they are what is expected where something is; returns the old
/// ones. Atomic, where the processor can do it with respect to all accesses, else with respect to
/// other calls.
///
/// # Safety
///
/// The place is a multiple of 16 and may be written.
pub(super) unsafe fn exchange(at: u64, expected: Option<u128>, new: u128) -> u128 {
    let place = at as *mut u128;
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("cmpxchg16b") {
        // SAFETY: the processor has the instruction; the place is aligned and writable by contract.
        return unsafe { exchange_by_instruction(place, expected, new) };
    }
    static LOCK: Mutex<()> = Mutex::new(());
    let _guard = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the caller's promise.
    let old = unsafe { place.read() };
    if expected.is_none_or(|expected| expected == old) {
        // SAFETY: the caller's promise.
        unsafe { place.write(new) };
    }
    old
}

/// In assembly, since the compiler would call a library for an atomic operation of this width
/// wherever it is not sure of the processor.
///
/// # Safety
///
/// The processor has `cmpxchg16b`. The place is a multiple of 16 and may be written.
#[cfg(target_arch = "x86_64")]
unsafe fn exchange_by_instruction(place: *mut u128, expected: Option<u128>, new: u128) -> u128 {
    let mut old = expected.unwrap_or_default();
    loop {
        let (mut low, mut high) = (old as u64, (old >> 64) as u64);
        // SAFETY: the caller's promise. The compiler keeps `rbx` for itself: it is as before
        // afterwards.
        unsafe {
            std::arch::asm!(
                "xchg rsi, rbx",
                "lock cmpxchg16b [rdi]",
                "mov rbx, rsi",
                in("rdi") place,
                inout("rsi") new as u64 => _,
                in("rcx") (new >> 64) as u64,
                inout("rax") low,
                inout("rdx") high,
                options(nostack),
            );
        }
        let found = u128::from(low) | u128::from(high) << 64;
        if found == old || expected.is_some() {
            return found;
        }
        old = found;
    }
}
