//! What the library offers beyond the CUDA driver API; `include/ptxjit.h` tells the same in C.
#![expect(unsafe_code, reason = "exports functions under C's names")]

use std::cell::RefCell;
use std::ffi::CString;

use ptxjit_driver::types::{CUcontext, CUresult, HostPtr};
use ptxjit_driver::{context, fault, host, report};

use crate::call::call;

/// ptxjit's version, a static string.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn ptxjit_version() -> HostPtr {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    HostPtr(VERSION.as_ptr() as u64)
}

/// Copies the last report, and returns its whole length.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn ptxjit_last_error(text: HostPtr, size: usize) -> usize {
    let report = report::last();
    call(
        "ptxjit_last_error",
        || format!("text={text:?}, size={size}"),
        || {
            if size == 0 {
                return Ok(());
            }
            let mut bytes = c_string(&report).into_bytes();
            bytes.truncate(size - 1);
            bytes.push(0);
            host::put_all(text.0, &bytes)
        },
    );
    report.len()
}

/// Makes a context that has failed usable again.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn ptxjit_clear_error(handle: CUcontext) -> CUresult {
    call(
        "ptxjit_clear_error",
        || format!("handle={handle:?}"),
        || {
            ptxjit_driver::check_call()?;
            context::clear_error(handle)
        },
    )
}

/// Waits for all work, and makes all contexts usable again that have failed.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn ptxjit_clear_all_errors() -> CUresult {
    call("ptxjit_clear_all_errors", String::new, || {
        ptxjit_driver::check_call()?;
        context::clear_all_errors();
        Ok(())
    })
}

/// `ptxjit_fault`, as far as it has numbers: `size` and strings lie around them.
const NUMBERS_AT: u64 = 8;
const N_NUMBERS: usize = 10;
const STRINGS_AT: u64 = NUMBERS_AT + 4 * N_NUMBERS as u64;
const N_STRINGS: usize = 4;
const FAULT_SIZE: usize = STRINGS_AT as usize + 8 * N_STRINGS;

thread_local! {
    /// The strings of the fault that the thread has taken last.
    static STRINGS: RefCell<[CString; N_STRINGS]> = RefCell::default();
}

/// Takes the oldest fault: 1, or 0 if there is none, or -1 if there is no place for it.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn ptxjit_next_fault(out: HostPtr) -> i32 {
    let mut taken = -1;
    call(
        "ptxjit_next_fault",
        || format!("out={out:?}"),
        || {
            if host::get::<usize>(out.0)? != FAULT_SIZE {
                return Err(CUresult::INVALID_VALUE);
            }
            // A fault that cannot be handed over must not be lost.
            host::put(out.0, FAULT_SIZE)?;
            taken = 0;
            let Some(fault) = fault::take() else {
                return Ok(());
            };
            put(out, &fault)?;
            taken = 1;
            Ok(())
        },
    );
    taken
}

fn put(out: HostPtr, fault: &fault::Fault) -> ptxjit_driver::Result<()> {
    let ([bx, by, bz], [tx, ty, tz]) = (
        fault.block.unwrap_or_default(),
        fault.thread.unwrap_or_default(),
    );
    let has = |place: Option<[u32; 3]>| u32::from(place.is_some());
    let numbers: [u32; N_NUMBERS] = [
        fault.code.0,
        has(fault.block),
        has(fault.thread),
        bx,
        by,
        bz,
        tx,
        ty,
        tz,
        fault.ptx_line,
    ];
    host::put_all(out.0 + NUMBERS_AT, &numbers)?;
    let strings = [fault.kind, &fault.kernel, &fault.source, &fault.report].map(c_string);
    let addresses = strings.each_ref().map(|text| text.as_ptr() as u64);
    let mut strings = Some(strings);
    let _ = STRINGS.try_with(|kept| strings.take().map(|strings| kept.replace(strings)));
    // In a thread that is ending there is no such place: the strings stay for good.
    std::mem::forget(strings);
    host::put_all(out.0 + STRINGS_AT, &addresses)
}

/// A text as C has it. A NUL would end it early.
fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default()
}
