//! The C functions: each checks its pointers, finds the linker and calls it.
//!
//! Programs that are compiled with NVIDIA's header call `__nvJitLinkCreate_12_9` and the like, others that resolve names by
//! themselves the plain ones; all of one function are the same. No panic leaves the library.

#![expect(
    unsafe_code,
    reason = "functions that C programs call, and the memory they pass"
)]

use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::handles;
use crate::linker::{Linker, Status};
use crate::options::Options;

/// What the library says that it is: a release before clients took it for able to link LTO-IR, which begins with 12.3. Those that find
/// such a library compile to LTO-IR if they can (numba-cuda does by default); with this one they compile to PTX and have
/// the driver link it.
const VERSION: (u32, u32) = (12, 2);

/// Options beyond are no options, but a count that was never set.
const MAX_OPTIONS: u32 = 1 << 16;

/// Runs a function's body. A panic is our bug, and is told as that.
fn guarded(body: impl FnOnce() -> Result<(), Status>) -> u32 {
    let status = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => Status::Success,
        Ok(Err(status)) => status,
        Err(_) => {
            use std::io::Write as _;
            let text = "ptxjit: libnvJitLink has failed by a bug of its own";
            let _ = writeln!(std::io::stderr(), "{text}");
            Status::Internal
        }
    };
    status as u32
}

fn ok(status: Status) -> Result<(), Status> {
    match status {
        Status::Success => Ok(()),
        status => Err(status),
    }
}

/// Calls `body` with the linker of a handle.
fn with<R>(
    handle: *mut c_void,
    body: impl FnOnce(&mut Linker) -> Result<R, Status>,
) -> Result<R, Status> {
    if handle.is_null() {
        return Err(Status::NullInput);
    }
    handles::with(handle as u64, body).unwrap_or(Err(Status::InvalidInput))
}

/// Writes a result.
///
/// # Safety
///
/// `to` is null or can be written.
unsafe fn put<T>(to: *mut T, value: T) -> Result<(), Status> {
    if to.is_null() {
        return Err(Status::NullInput);
    }
    // SAFETY: the caller's promise; C programs need not align what they pass.
    unsafe { to.write_unaligned(value) };
    Ok(())
}

/// Writes bytes.
///
/// # Safety
///
/// `to` is null, or as many bytes as `bytes` has can be written there.
unsafe fn put_bytes(to: *mut u8, bytes: &[u8]) -> Result<(), Status> {
    if to.is_null() {
        return Err(Status::NullInput);
    }
    // SAFETY: the caller's promise; what is ours does not overlap with what the program has.
    unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    Ok(())
}

/// A C string, what is not UTF-8 replaced.
///
/// # Safety
///
/// `text` is null or ends with a NUL.
unsafe fn string(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    Some(text.to_string_lossy().into_owned())
}

/// # Safety
///
/// `options` is an array of `count` strings.
unsafe fn create(
    handle: *mut *mut c_void,
    count: u32,
    options: *const *const c_char,
) -> Result<(), Status> {
    if handle.is_null() || (options.is_null() && count > 0) {
        return Err(Status::NullInput);
    }
    if count > MAX_OPTIONS {
        return Err(Status::UnrecognizedOption);
    }
    let mut words = Vec::new();
    for n in 0..count as usize {
        // SAFETY: `n` lies within the array, by the caller's promise.
        let option = unsafe { options.add(n).read_unaligned() };
        // SAFETY: the caller's promise.
        words.push(unsafe { string(option) }.ok_or(Status::NullInput)?);
    }
    let options = Options::parse(&words).map_err(|(status, text)| {
        use std::io::Write as _;
        // There is no handle yet, and so no log that could tell it.
        let _ = writeln!(std::io::stderr(), "ptxjit: nvJitLinkCreate: {text}");
        status
    })?;
    let new = handles::insert(Linker::new(options));
    // SAFETY: the caller's promise.
    unsafe { put(handle, new as *mut c_void) }
}

/// # Safety
///
/// `handle` is null or can be read and written.
unsafe fn destroy(handle: *mut *mut c_void) -> Result<(), Status> {
    if handle.is_null() {
        return Err(Status::NullInput);
    }
    // SAFETY: the caller's promise.
    let old = unsafe { handle.read_unaligned() };
    if !handles::remove(old as u64) {
        return Err(Status::InvalidInput);
    }
    // SAFETY: the caller's promise.
    unsafe { put(handle, std::ptr::null_mut()) }
}

/// # Safety
///
/// `data` is null or has `size` bytes, `name` is null or a string.
unsafe fn add_data(
    handle: *mut c_void,
    kind: u32,
    data: *const c_void,
    size: usize,
    name: *const c_char,
) -> Result<(), Status> {
    // SAFETY: the caller's promise.
    let name = unsafe { string(name) }.unwrap_or_else(|| "<input>".to_owned());
    if data.is_null() || size > isize::MAX as usize {
        return Err(Status::NullInput);
    }
    // SAFETY: the caller's promise; the bytes are only looked at during this call.
    let data = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), size) };
    with(handle, |linker| ok(linker.add(kind, &name, data)))
}

/// # Safety
///
/// `path` is null or a string.
unsafe fn add_file(handle: *mut c_void, kind: u32, path: *const c_char) -> Result<(), Status> {
    // SAFETY: the caller's promise.
    let path = unsafe { string(path) }.ok_or(Status::NullInput)?;
    with(handle, |linker| match std::fs::read(&path) {
        Ok(bytes) => ok(linker.add(kind, &path, &bytes)),
        Err(err) => {
            let text = format!("cannot read {path}: {err}");
            Err(linker.fail(Status::InvalidInput, &text))
        }
    })
}

/// A log as a C string.
fn log_of(log: &str) -> Vec<u8> {
    // A NUL within would end it.
    let mut bytes: Vec<u8> = log.bytes().filter(|&byte| byte != 0).collect();
    bytes.push(0);
    bytes
}

/// # Safety
///
/// Both are null or can be written.
unsafe fn version(major: *mut u32, minor: *mut u32) -> Result<(), Status> {
    // SAFETY: the caller's promise.
    unsafe { put(major, VERSION.0) }?;
    // SAFETY: the caller's promise.
    unsafe { put(minor, VERSION.1) }
}

/// # Safety
///
/// Any handle will do; it is `unsafe` as all functions here are.
unsafe fn complete(handle: *mut c_void) -> Result<(), Status> {
    with(handle, |linker| ok(linker.complete()))
}

/// A result's size and the result: two functions each, of which the second writes as much as the first has said.
macro_rules! results {
    ($($size:ident, $bytes:ident: $get:expr;)*) => {
        $(
            /// # Safety
            ///
            /// `size` is null or can be written.
            unsafe fn $size(handle: *mut c_void, size: *mut usize) -> Result<(), Status> {
                let bytes = with(handle, $get)?;
                // SAFETY: the caller's promise.
                unsafe { put(size, bytes.len()) }
            }

            /// # Safety
            ///
            /// `bytes` is null or has room for as many bytes as the function before has said.
            unsafe fn $bytes(handle: *mut c_void, bytes: *mut u8) -> Result<(), Status> {
                let found = with(handle, $get)?;
                // SAFETY: the caller's promise.
                unsafe { put_bytes(bytes, &found) }
            }
        )*
    };
}

results! {
    cubin_size, cubin: |linker| linker.image().map(<[u8]>::to_vec);
    ptx_size, ptx: Linker::ptx;
    error_log_size, error_log: |linker| Ok(log_of(linker.error_log()));
    info_log_size, info_log: |linker| Ok(log_of(linker.info_log()));
    lto_ir_size, lto_ir: |linker| Err::<Vec<u8>, _>(linker.lto_ir());
}

/// One function under one name.
macro_rules! export {
    ($symbol:expr, $run:ident($($arg:ident: $ty:ty),*)) => {
        const _: () = {
            /// # Safety
            ///
            /// The pointers are as NVIDIA's header says.
            #[unsafe(export_name = $symbol)]
            unsafe extern "C" fn exported($($arg: $ty),*) -> u32 {
                // SAFETY: the caller's promise.
                guarded(|| unsafe { $run($($arg),*) })
            }
        };
    };
}

/// One function under its plain name and those of the given versions.
macro_rules! export_versions {
    ($name:literal, $run:ident $args:tt, $($version:literal)*) => {
        export!($name, $run $args);
        $(export!(concat!("__", $name, "_", $version), $run $args);)*
    };
}

/// Functions under all names that they have since CUDA 12.0; names of releases to come do no harm.
macro_rules! export_all {
    ($($name:literal, $run:ident $args:tt;)*) => {
        $(export_versions!(
            $name, $run $args,
            "12_0" "12_1" "12_2" "12_3" "12_4" "12_5" "12_6" "12_7" "12_8" "12_9"
            "13_0" "13_1" "13_2" "13_3" "13_4" "13_5" "13_6" "13_7" "13_8" "13_9"
        );)*
    };
}

export_versions!("nvJitLinkVersion", version(major: *mut u32, minor: *mut u32),);

export_all! {
    "nvJitLinkCreate", create(handle: *mut *mut c_void, count: u32, options: *const *const c_char);
    "nvJitLinkDestroy", destroy(handle: *mut *mut c_void);
    "nvJitLinkAddData", add_data(
        handle: *mut c_void, kind: u32, data: *const c_void, size: usize, name: *const c_char
    );
    "nvJitLinkAddFile", add_file(handle: *mut c_void, kind: u32, path: *const c_char);
    "nvJitLinkComplete", complete(handle: *mut c_void);
    "nvJitLinkGetLinkedCubinSize", cubin_size(handle: *mut c_void, size: *mut usize);
    "nvJitLinkGetLinkedCubin", cubin(handle: *mut c_void, bytes: *mut u8);
    "nvJitLinkGetLinkedPtxSize", ptx_size(handle: *mut c_void, size: *mut usize);
    "nvJitLinkGetLinkedPtx", ptx(handle: *mut c_void, bytes: *mut u8);
    "nvJitLinkGetErrorLogSize", error_log_size(handle: *mut c_void, size: *mut usize);
    "nvJitLinkGetErrorLog", error_log(handle: *mut c_void, bytes: *mut u8);
    "nvJitLinkGetInfoLogSize", info_log_size(handle: *mut c_void, size: *mut usize);
    "nvJitLinkGetInfoLog", info_log(handle: *mut c_void, bytes: *mut u8);
}

// Since CUDA 13.
export_versions!(
    "nvJitLinkGetLinkedLTOIRSize", lto_ir_size(handle: *mut c_void, size: *mut usize),
    "13_0" "13_1" "13_2" "13_3" "13_4" "13_5" "13_6" "13_7" "13_8" "13_9"
);
export_versions!(
    "nvJitLinkGetLinkedLTOIR", lto_ir(handle: *mut c_void, bytes: *mut u8),
    "13_0" "13_1" "13_2" "13_3" "13_4" "13_5" "13_6" "13_7" "13_8" "13_9"
);
