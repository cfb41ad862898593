//! The driver library: found, opened once, and called by names.
//!
//! All arguments of the driver's functions are integers and pointers, which C's calling conventions
//! for hosts of 64 bits pass as words: so one [`Entry`] calls them all.
#![expect(
    unsafe_code,
    reason = "calls functions of another library by their addresses"
)]

use std::ffi::{CStr, CString, OsStr, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::call::{self, Code, Result};

const NAME: &str = "libcuda.so.1";

/// An argument of a function, as a word.
pub(crate) trait Arg {
    /// The word; what a narrower type leaves of it means nothing.
    fn word(self) -> u64;
}

macro_rules! numbers {
    ($($ty:ty)*) => {$(
        impl Arg for $ty {
            fn word(self) -> u64 {
                self as u64
            }
        }
    )*};
}

numbers! { u64 i64 usize u32 i32 u16 u8 }

impl<T> Arg for &mut T {
    fn word(self) -> u64 {
        std::ptr::from_mut(self).expose_provenance() as u64
    }
}

impl<T> Arg for &T {
    fn word(self) -> u64 {
        std::ptr::from_ref(self).expose_provenance() as u64
    }
}

/// A function of the driver that was looked up, or will be.
pub(crate) struct Entry {
    name: &'static str,
    /// Addresses of the function and of its twin for the calling thread's default stream; 0 is not
    /// looked up, 1 not there.
    addresses: [AtomicUsize; 2],
}

const MISSING: usize = 1;

impl Entry {
    pub(crate) const fn new(name: &'static str) -> Entry {
        Entry {
            name,
            addresses: [AtomicUsize::new(0), AtomicUsize::new(0)],
        }
    }

    /// Calls the function with the arguments that `cuda.h` says.
    pub(crate) fn call<const N: usize>(&self, args: [u64; N]) -> Result {
        match self.address()? {
            MISSING => Err(Code::NOT_SUPPORTED),
            // SAFETY: the address is that of a function of the driver, and callers pass what it
            // takes.
            address => Code(unsafe { invoke(address, &args) }).check(),
        }
    }

    fn address(&self) -> Result<usize> {
        let is_per_thread = call::is_per_thread();
        let cell = &self.addresses[usize::from(is_per_thread)];
        match cell.load(Ordering::Relaxed) {
            0 => {
                let library = library()?;
                let suffixes: &[&str] = match is_per_thread {
                    true => &["_ptsz", "_ptds", ""],
                    false => &[""],
                };
                let mut found = suffixes
                    .iter()
                    .filter_map(|suffix| find(library, &format!("{}{suffix}", self.name)));
                let address = found.next().unwrap_or(MISSING);
                cell.store(address, Ordering::Relaxed);
                Ok(address)
            }
            address => Ok(address),
        }
    }
}

/// Calls a function of the driver by name.
macro_rules! cu {
    ($name:ident($($arg:expr),* $(,)?)) => {{
        static ENTRY: $crate::driver::Entry = $crate::driver::Entry::new(stringify!($name));
        ENTRY.call([$($crate::driver::Arg::word($arg)),*])
    }};
}

pub(crate) use cu;

/// The address of a function of the driver.
fn find(library: &Library, name: &str) -> Option<usize> {
    let name = CString::new(name).ok()?;
    // SAFETY: only the address is taken.
    let symbol = unsafe { library.get::<*mut c_void>(name.as_bytes_with_nul()) };
    symbol.ok().map(|symbol| symbol.into_raw().addr())
}

/// # Safety
///
/// There is a function at the address that takes these arguments and returns a `CUresult`.
unsafe fn invoke(address: usize, args: &[u64]) -> u32 {
    macro_rules! with {
        ($($arg:ident)*) => {{
            $(with!(@unit $arg);)*
            let pointer = std::ptr::with_exposed_provenance::<c_void>(address);
            // SAFETY: see above.
            let function = unsafe {
                std::mem::transmute::<*const c_void, unsafe extern "C" fn($(with!(@ty $arg)),*) -> u32>(pointer)
            };
            // SAFETY: see above.
            unsafe { function($(*$arg),*) }
        }};
        (@ty $arg:ident) => { u64 };
        (@unit $arg:ident) => {};
    }
    match args {
        [] => with!(),
        [a] => with!(a),
        [a, b] => with!(a b),
        [a, b, c] => with!(a b c),
        [a, b, c, d] => with!(a b c d),
        [a, b, c, d, e] => with!(a b c d e),
        [a, b, c, d, e, f] => with!(a b c d e f),
        [a, b, c, d, e, f, g] => with!(a b c d e f g),
        [a, b, c, d, e, f, g, h] => with!(a b c d e f g h),
        [a, b, c, d, e, f, g, h, i] => with!(a b c d e f g h i),
        [a, b, c, d, e, f, g, h, i, j] => with!(a b c d e f g h i j),
        [a, b, c, d, e, f, g, h, i, j, k] => with!(a b c d e f g h i j k),
        _ => unreachable!("no function of the driver takes {} arguments", args.len()),
    }
}

/// The driver library, initialized.
fn library() -> Result<&'static Library> {
    static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();
    let library = LIBRARY.get_or_init(open).as_ref();
    let library = library.ok_or(Code::INSUFFICIENT_DRIVER)?;
    static INIT: OnceLock<u32> = OnceLock::new();
    let code = *INIT.get_or_init(|| {
        // SAFETY: `cuInit` takes a number.
        find(library, "cuInit").map_or(Code::INSUFFICIENT_DRIVER.0, |address| unsafe {
            invoke(address, &[0])
        })
    });
    match Code(code) {
        // The library is used nevertheless: some functions work without devices.
        Code::NO_DEVICE => Ok(library),
        code => code.check().map(|()| library),
    }
}

/// Opens the library that the process has loaded already, since two engines would have memory of
/// their own each; else the one beside this library; else the one that the system finds.
fn open() -> Option<Library> {
    const RTLD_NOLOAD: i32 = 4;
    let flags = RTLD_NOW | RTLD_LOCAL;
    // Where this file is, and where it was found, if that was by a link.
    let [found, real] = own_path().map_or([None, None], |path| {
        let real = path.canonicalize().ok();
        [Some(path), real].map(|path| path.map(|path| path.with_file_name(NAME)))
    });
    let attempts = [
        (Some(PathBuf::from(NAME)), flags | RTLD_NOLOAD),
        (found.filter(|path| path.exists()), flags),
        (real.filter(|path| path.exists()), flags),
        (Some(PathBuf::from(NAME)), flags),
    ];
    let mut opened = attempts.into_iter().filter_map(|(path, flags)| {
        // SAFETY: the driver library has no initializers that ask for anything.
        unsafe { Library::open(Some(path?), flags) }.ok()
    });
    opened.next()
}

/// The path by which this library was loaded.
fn own_path() -> Option<PathBuf> {
    let here = std::ptr::from_ref(&NAME).cast::<c_void>();
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: the address is in this library, and there is room for the result.
    let found = unsafe { libc::dladdr(here, info.as_mut_ptr()) };
    // SAFETY: all zeros are a value of this structure, too.
    let info = unsafe { info.assume_init() };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader has given the name of a loaded file, which ends with a NUL.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(Path::new(OsStr::from_bytes(name.to_bytes())).to_owned())
}
