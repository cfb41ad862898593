//! Arrays that compiled code and the runtime use in turns.
//!
//! Compiled code holds raw pointers into them for as long as a CTA is in flight, so no Rust
//! reference may live across an entry into compiled code; the accessors here borrow only for the
//! moment.

#![expect(
    unsafe_code,
    reason = "the arrays are shared with compiled code through raw pointers"
)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Types for which any bits are a value.
pub(crate) trait Plain: Copy + Default + 'static {}
impl Plain for u8 {}
impl Plain for u16 {}
impl Plain for u32 {}
impl Plain for u64 {}

/// A fixed array, aligned to 64 bytes, zeroed at first.
#[derive(Debug)]
pub(crate) struct RawBuf<T> {
    ptr: NonNull<T>,
    len: usize,
}

// SAFETY: the buffer owns its memory like a `Vec`.
unsafe impl<T: Send> Send for RawBuf<T> {}

impl<T: Plain> RawBuf<T> {
    /// `len` zeros.
    pub(crate) fn new(len: usize) -> RawBuf<T> {
        let layout = Self::layout(len);
        // SAFETY: the layout is never empty.
        let ptr = unsafe { alloc_zeroed(layout) };
        match NonNull::new(ptr.cast::<T>()) {
            Some(ptr) => RawBuf { ptr, len },
            None => handle_alloc_error(layout),
        }
    }

    fn layout(len: usize) -> Layout {
        let bytes = len
            .checked_mul(size_of::<T>())
            .expect("buffers are far smaller than the address space");
        Layout::from_size_align(bytes.max(64), 64)
            .expect("64 is a power of two and the size is small")
    }

    /// Grows to at least `len` elements; the contents become zeros if it grows.
    pub(crate) fn reserve(&mut self, len: usize) {
        if len > self.len {
            *self = RawBuf::new(len.next_power_of_two());
        }
    }

    /// Address for compiled code.
    pub(crate) fn ptr(&self) -> *mut T {
        self.ptr.as_ptr()
    }

    /// The contents. Compiled code that uses the buffer must not run meanwhile, which it does only
    /// under `&mut` of the CTA that owns the buffer.
    pub(crate) fn slice(&self) -> &[T] {
        // SAFETY: `len` initialised elements; compiled code writes only while the owner is borrowed
        // mutably.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }

    /// The contents, to change.
    pub(crate) fn slice_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `slice`, and `&mut self` makes it the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len) }
    }
}

impl<T> Drop for RawBuf<T> {
    fn drop(&mut self) {
        let bytes = (self.len * size_of::<T>()).max(64);
        let layout =
            Layout::from_size_align(bytes, 64).expect("the layout was valid at allocation");
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.ptr.as_ptr().cast(), layout) };
    }
}
