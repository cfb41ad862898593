//! Functions of the program that streams and graphs call.

#![expect(
    unsafe_code,
    reason = "calls functions that the client of a C interface passes by address"
)]

use std::ffi::c_void;

use crate::error::Result;
use crate::state;
use crate::types::{CUresult, HostPtr};

/// A function of the program with its argument.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct HostCall {
    function: HostPtr,
    data: HostPtr,
}

impl HostCall {
    /// A function, which must not be null, and what it is to be called with.
    pub(crate) fn new(function: HostPtr, data: HostPtr) -> Result<HostCall> {
        match function.is_null() {
            true => Err(CUresult::INVALID_VALUE),
            false => Ok(HostCall { function, data }),
        }
    }

    /// Address of the function.
    pub(crate) fn function(self) -> HostPtr {
        self.function
    }

    /// Its argument.
    pub(crate) fn data(self) -> HostPtr {
        self.data
    }

    /// Calls the function, which must not call the driver.
    pub(crate) fn run(self) {
        let address: *const c_void = self.function.as_ptr();
        // SAFETY: the client has named the address as that of a `CUhostFn`, which is not null.
        let function = unsafe {
            std::mem::transmute::<*const c_void, unsafe extern "C" fn(*mut c_void)>(address)
        };
        state::in_callback(|| {
            // SAFETY: the function and its argument are the client's promise.
            unsafe { function(self.data.as_mut_ptr()) }
        });
    }
}
