//! Memory of the client: structures that calls point at, read and written where they may not be
//! there.
#![expect(
    unsafe_code,
    reason = "reads and writes at addresses that the client names"
)]

use std::ffi::c_void;

use crate::call::{Code, Result};

/// Types that are plain numbers, in which every pattern of bits is a value and no byte is padding.
///
/// # Safety
///
/// The type is such a one.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: numbers.
unsafe impl Plain for u8 {}
// SAFETY: numbers.
unsafe impl Plain for i32 {}
// SAFETY: numbers.
unsafe impl Plain for u32 {}
// SAFETY: numbers.
unsafe impl Plain for f32 {}
// SAFETY: numbers.
unsafe impl Plain for u64 {}
// SAFETY: numbers.
unsafe impl Plain for usize {}
// SAFETY: numbers, one behind the other.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// Declares structures of the interface, all of numbers and without padding.
macro_rules! plain {
    ($($(#[$meta:meta])* $name:ident { $($field:ident: $ty:ty),* $(,)? })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug)]
        #[repr(C)]
        pub(crate) struct $name {
            $(pub(crate) $field: $ty,)*
        }

        const _: () = assert!(
            size_of::<$name>() == 0 $(+ size_of::<$ty>())*,
            "the structure has padding"
        );

        // SAFETY: the fields are plain, and there is nothing else.
        unsafe impl $crate::host::Plain for $name {}
    )*};
}

pub(crate) use plain;

/// The value at an address.
pub(crate) fn get<T: Plain>(from: u64) -> Result<T> {
    let mut value = std::mem::MaybeUninit::<T>::zeroed();
    copy(from, value.as_mut_ptr().cast(), size_of::<T>(), true)?;
    // SAFETY: any bytes are a value.
    Ok(unsafe { value.assume_init() })
}

/// Puts a value at an address.
pub(crate) fn put<T: Plain>(to: u64, value: T) -> Result {
    let mut value = value;
    copy(
        to,
        std::ptr::from_mut(&mut value).cast(),
        size_of::<T>(),
        false,
    )
}

/// Puts a value at an address, unless the client wants none.
pub(crate) fn put_if_wanted<T: Plain>(to: u64, value: T) -> Result {
    match to {
        0 => Ok(()),
        _ => put(to, value),
    }
}

/// Puts bytes at an address.
pub(crate) fn put_bytes(to: u64, bytes: &[u8]) -> Result {
    copy(to, bytes.as_ptr().cast_mut().cast(), bytes.len(), false)
}

/// An array of values.
pub(crate) fn get_all<T: Plain>(from: u64, count: usize) -> Result<Vec<T>> {
    let size = size_of::<T>() as u64;
    (0..count as u64)
        .map(|idx| get(from.wrapping_add(idx * size)))
        .collect()
}

/// A value of plain numbers as zeros.
pub(crate) fn zeroed<T: Plain>() -> T {
    // SAFETY: zeros are a value of it.
    unsafe { std::mem::zeroed() }
}

/// A plain value as another one, which is at most as large.
pub(crate) fn prefix<T: Plain, U: Plain>(value: &T) -> U {
    const {
        assert!(
            size_of::<U>() <= size_of::<T>(),
            "there are not enough bytes"
        )
    }
    // SAFETY: there are enough bytes, and all are a value.
    unsafe { std::ptr::from_ref(value).cast::<U>().read_unaligned() }
}

/// A plain value as a larger one, with zeros behind it.
pub(crate) fn extended<T: Plain, U: Plain>(value: &T) -> U {
    const { assert!(size_of::<T>() <= size_of::<U>(), "there is no room") }
    let mut larger = zeroed::<U>();
    // SAFETY: there is room, and all bytes are a value.
    unsafe {
        std::ptr::from_mut(&mut larger)
            .cast::<T>()
            .write_unaligned(*value);
    }
    larger
}

/// Copies between a buffer of ours and memory of the client, by the system, which tells if it is
/// not there.
fn copy(foreign: u64, own: *mut c_void, len: usize, is_read: bool) -> Result {
    if foreign == 0 {
        return Err(Code::INVALID_VALUE);
    }
    let pointer = std::ptr::with_exposed_provenance_mut::<c_void>(foreign as usize);
    let [own_part, foreign_part] = [own, pointer].map(|iov_base| libc::iovec {
        iov_base,
        iov_len: len,
    });
    // SAFETY: takes nothing and cannot fail.
    let process = unsafe { libc::getpid() };
    let call = match is_read {
        true => libc::process_vm_readv,
        false => libc::process_vm_writev,
    };
    // SAFETY: our buffer has `len` bytes; the client has named its memory, and the system checks
    // it.
    let copied = unsafe { call(process, &own_part, 1, &foreign_part, 1, 0) };
    if usize::try_from(copied) == Ok(len) {
        return Ok(());
    }
    if std::io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT) || copied >= 0 {
        return Err(Code::INVALID_VALUE);
    }
    // Some containers forbid the call. Then a wrong address ends the process, as with NVIDIA's
    // library.
    let (from, to) = match is_read {
        true => (pointer, own),
        false => (own, pointer),
    };
    // SAFETY: our buffer has `len` bytes, and so has, it says, the client's.
    unsafe { std::ptr::copy_nonoverlapping(from.cast::<u8>(), to.cast::<u8>(), len) };
    Ok(())
}
