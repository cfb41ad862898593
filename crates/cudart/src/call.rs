//! What all exported functions share: results, the last error of a thread, and the macros that
//! export them.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::driver::cu;

/// A `cudaError_t` that is not success. Codes of the driver mean the same in the runtime, which has
/// some more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Code(pub(crate) u32);

/// What a call gives.
pub(crate) type Result<T = ()> = std::result::Result<T, Code>;

impl Code {
    pub(crate) const INVALID_VALUE: Code = Code(1);
    pub(crate) const INVALID_CONFIGURATION: Code = Code(9);
    pub(crate) const INVALID_SYMBOL: Code = Code(13);
    pub(crate) const INVALID_CHANNEL_DESCRIPTOR: Code = Code(20);
    pub(crate) const INVALID_MEMCPY_DIRECTION: Code = Code(21);
    pub(crate) const INSUFFICIENT_DRIVER: Code = Code(35);
    pub(crate) const MISSING_CONFIGURATION: Code = Code(52);
    pub(crate) const INVALID_DEVICE_FUNCTION: Code = Code(98);
    pub(crate) const NO_DEVICE: Code = Code(100);
    pub(crate) const INVALID_DEVICE: Code = Code(101);
    pub(crate) const INVALID_RESOURCE_HANDLE: Code = Code(400);
    pub(crate) const SYMBOL_NOT_FOUND: Code = Code(500);
    pub(crate) const NOT_SUPPORTED: Code = Code(801);
    pub(crate) const UNKNOWN: Code = Code(999);

    /// Success, or this code as an error.
    pub(crate) fn check(self) -> Result {
        match self.0 {
            0 => Ok(()),
            _ => Err(self),
        }
    }

    /// Whether a code of this kind leaves the context unusable.
    fn is_sticky(self) -> bool {
        matches!(self.0, 220 | 226 | 700 | 702 | 710 | 714..=719 | 999)
    }
}

thread_local! {
    static LAST: Cell<u32> = const { Cell::new(0) };
    static IS_PER_THREAD: Cell<bool> = const { Cell::new(false) };
}

/// Whether stream 0 means the calling thread's default stream in this call.
pub(crate) fn is_per_thread() -> bool {
    IS_PER_THREAD.get()
}

/// Runs a call whose default stream is the thread's own: those with names that end in `_ptds` or
/// `_ptsz`.
pub(crate) fn per_thread<R>(call: impl FnOnce() -> R) -> R {
    let before = IS_PER_THREAD.replace(true);
    let result = call();
    IS_PER_THREAD.set(before);
    result
}

/// Runs an exported function: nothing that goes wrong in it reaches the client but a code, which
/// becomes the last error.
pub(crate) fn call(name: &str, body: impl FnOnce() -> Result) -> u32 {
    let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        eprintln!("ptxjit: `{name}` failed; this is a bug in ptxjit");
        Err(Code::UNKNOWN)
    });
    match result {
        Ok(()) => 0,
        Err(code) => {
            LAST.set(code.0);
            code.0
        }
    }
}

/// The last error of the calling thread.
pub(crate) fn peek_last() -> u32 {
    LAST.get()
}

/// Likewise, and forgets it, unless the context is unusable because of it.
pub(crate) fn take_last() -> u32 {
    let last = LAST.get();
    let stays = Code(last).is_sticky() && {
        let (mut free, mut total) = (0_usize, 0_usize);
        cu!(cuMemGetInfo_v2(&mut free, &mut total)).is_err_and(Code::is_sticky)
    };
    if !stays {
        LAST.set(0);
    }
    last
}

/// Exports functions of the runtime under C's names.
///
/// Each has a body that gives a [`Result`]. A name behind `or` is that of the twin whose default
/// stream is the calling thread's. Before a function that is not `early`, the thread gets a
/// context.
macro_rules! exports {
    ($(
        $(#[$meta:meta])*
        $when:ident $name:ident $arguments:tt $(or $twin:ident)? $body:block
    )*) => {$(
        $crate::call::export! { [$(#[$meta])*] $when $name $arguments [$($twin)?] $body }
    )*};
}

/// Exports functions that are functions of the driver, with the same arguments.
macro_rules! passes {
    ($(
        $(#[$meta:meta])*
        $name:ident $arguments:tt $(or $twin:ident)? = $driver:ident;
    )*) => {$(
        $crate::call::pass! { [$(#[$meta])*] $name $arguments [$($twin)?] $driver }
    )*};
}

/// Exports one function, and its twin.
macro_rules! export {
    ([$($meta:tt)*] fn $name:ident ($($arg:ident: $ty:ty),* $(,)?) $twin:tt $body:block) => {
        $crate::call::export! {
            [$($meta)*] early $name ($($arg: $ty),*) $twin { $crate::device::ensure()?; $body }
        }
    };
    ([$($meta:tt)*] early $name:ident ($($arg:ident: $ty:ty),* $(,)?) [] $body:block) => {
        $($meta)*
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $name($($arg: $ty),*) -> u32 {
            $crate::call::call(stringify!($name), || $body)
        }
    };
    ([$($meta:tt)*] early $name:ident ($($arg:ident: $ty:ty),* $(,)?) [$twin:ident] $body:block) => {
        $crate::call::export! { [$($meta)*] early $name ($($arg: $ty),*) [] $body }

        $($meta)*
        #[doc = concat!("[`", stringify!($name), "`], where stream 0 is the calling thread's.")]
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $twin($($arg: $ty),*) -> u32 {
            $crate::call::per_thread(|| $name($($arg),*))
        }
    };
}

/// Exports one function that is one of the driver, and its twin.
macro_rules! pass {
    ([$($meta:tt)*] $name:ident ($($arg:ident: $ty:ty),* $(,)?) $twin:tt $driver:ident) => {
        $crate::call::export! {
            [$($meta)* #[doc = concat!("The driver's `", stringify!($driver), "`.")]]
            fn $name ($($arg: $ty),*) $twin { $crate::driver::cu!($driver($($arg),*)) }
        }
    };
}

pub(crate) use {export, exports, pass, passes};
