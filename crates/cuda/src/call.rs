//! What all exported functions share: the macro that exports them, and results through pointers.

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ptxjit_driver::types::{CUresult, Raw};
use ptxjit_driver::{Result, host};

/// A pointer of the client to a place for a result.
#[repr(transparent)]
pub(crate) struct Out<T>(u64, PhantomData<T>);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Out<T> {
        *self
    }
}

impl<T> Copy for Out<T> {}

impl<T> std::fmt::Debug for Out<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl<T: Raw> Out<T> {
    /// Whether the client wants no result.
    pub(crate) fn is_null(self) -> bool {
        self.0 == 0
    }

    /// Puts a result there; the pointer must not be null.
    pub(crate) fn put(self, value: T) -> Result<()> {
        host::put(self.0, value)
    }

    /// Puts a result there, unless the client wants none.
    pub(crate) fn put_if_wanted(self, value: T) -> Result<()> {
        match self.is_null() {
            true => Ok(()),
            false => self.put(value),
        }
    }

    /// Puts the elements of an array there.
    pub(crate) fn put_all(self, values: &[T]) -> Result<()> {
        host::put_all(self.0, values)
    }

    /// What is there now.
    pub(crate) fn get(self) -> Result<T> {
        host::get(self.0)
    }

    /// Puts what `make` gives there. A bad pointer is an error before `make` does anything.
    pub(crate) fn fill(self, make: impl FnOnce() -> Result<T>) -> Result<()> {
        let before = self.get()?;
        self.put(before)?;
        self.put(make()?)
    }

    /// The address.
    pub(crate) fn address(self) -> u64 {
        self.0
    }
}

/// A pointer of the client to values that it passes.
#[repr(transparent)]
pub(crate) struct In<T>(u64, PhantomData<T>);

impl<T> Clone for In<T> {
    fn clone(&self) -> In<T> {
        *self
    }
}

impl<T> Copy for In<T> {}

impl<T> std::fmt::Debug for In<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl<T: Raw> In<T> {
    /// The value; the pointer must not be null.
    pub(crate) fn get(self) -> Result<T> {
        host::get(self.0)
    }

    /// So many values.
    pub(crate) fn get_all(self, count: usize) -> Result<Vec<T>> {
        host::get_all(self.0, count)
    }

    /// The address.
    pub(crate) fn address(self) -> u64 {
        self.0
    }
}

/// Runs an exported function: nothing that goes wrong in it reaches the client but a code.
pub(crate) fn call(
    name: &'static str,
    arguments: impl FnOnce() -> String,
    body: impl FnOnce() -> Result<()>,
) -> CUresult {
    let is_traced = ptxjit_driver::trace::is_on();
    let start = is_traced.then(std::time::Instant::now);
    let body = || ptxjit_driver::calling(name, body);
    let result = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => CUresult::SUCCESS,
        Ok(Err(code)) => code,
        Err(_) => {
            ptxjit_driver::report::bug(name);
            CUresult::UNKNOWN
        }
    };
    if let Some(start) = start {
        ptxjit_driver::trace::call(name, &arguments(), result, start.elapsed());
    }
    result
}

/// Exports functions of the driver API under C's names.
///
/// Each has a body that gives a `Result<()>`. A name behind `or` is that of the twin whose default
/// stream is the calling thread's. A function that is `early` may be called before `cuInit` and
/// from callbacks.
macro_rules! exports {
    ($(
        $(#[$meta:meta])*
        $when:ident $name:ident $arguments:tt $(or $twin:ident)? $body:block
    )*) => {
        $(
            $crate::call::export! { [$(#[$meta])*] $when $name $arguments $body }
            $($crate::call::twin! { $name $twin $arguments })?
        )*

        /// What the functions of this file take.
        pub(crate) const SIGNATURES: &[$crate::signatures::Signature] = &[$(
            $crate::call::signature! { $when $name $arguments },
            $($crate::call::signature! { $when $twin $arguments },)?
        )*];
    };
}

/// The signature of an exported function.
macro_rules! signature {
    ($when:ident $name:ident ($($arg:ident: $ty:ty),* $(,)?)) => {
        $crate::signatures::Signature::new(
            stringify!($name),
            stringify!($when),
            &[$((stringify!($arg), stringify!($ty))),*],
            $name as *const std::ffi::c_void,
        )
    };
}

/// Exports one function.
macro_rules! export {
    ([$($meta:tt)*] fn $name:ident ($($arg:ident: $ty:ty),* $(,)?) $body:block) => {
        $crate::call::export! {
            [$($meta)*] early $name ($($arg: $ty),*) { ptxjit_driver::check_call()?; $body }
        }
    };
    ([$($meta:tt)*] early $name:ident ($($arg:ident: $ty:ty),* $(,)?) $body:block) => {
        $($meta)*
        #[expect(
            clippy::allow_attributes,
            reason = "few functions have such names, and `expect` would warn of all others"
        )]
        #[allow(
            clippy::duplicate_underscore_argument,
            reason = "CUDA has `keys` and `_keys` side by side"
        )]
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $name($($arg: $ty),*) -> ptxjit_driver::types::CUresult {
            $crate::call::call(
                stringify!($name),
                || $crate::call::list(&[$((stringify!($arg), &$arg)),*]),
                || $body,
            )
        }
    };
}

/// Exports the twin of a function.
macro_rules! twin {
    ($name:ident $twin:ident ($($arg:ident: $ty:ty),* $(,)?)) => {
        #[doc = concat!("[`", stringify!($name), "`], where stream 0 is the calling thread's.")]
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $twin($($arg: $ty),*) -> ptxjit_driver::types::CUresult {
            ptxjit_driver::with_per_thread_default(|| $name($($arg),*))
        }
    };
}

pub(crate) use {export, exports, signature, twin};

/// Arguments as a line of a trace has them.
pub(crate) fn list(arguments: &[(&str, &dyn std::fmt::Debug)]) -> String {
    let each = arguments
        .iter()
        .map(|(name, value)| format!("{name}={value:?}"));
    each.collect::<Vec<_>>().join(", ")
}
