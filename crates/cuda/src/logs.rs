//! The log of what calls have to say.
#![expect(
    unsafe_code,
    reason = "exports functions under C's names, and calls the client's"
)]

use std::ffi::CString;

use ptxjit_driver::logs;
use ptxjit_driver::types::{CUlogsCallback, CUresult, HostPtr};

use crate::call::{Out, exports};

/// `CU_LOG_LEVEL_ERROR`, which all entries have.
const ERROR: u32 = 0;

exports! {
    /// Has a function told of each entry.
    early cuLogsRegisterCallback(function: CUlogsCallback, data: HostPtr, out: Out<HostPtr>) {
        let function = function.ok_or(CUresult::INVALID_VALUE)?;
        let call = move |entry: &str| {
            let text = CString::new(entry.replace('\0', " ")).unwrap_or_default();
            let len = text.as_bytes().len();
            // SAFETY: the client has asked for this call of its function with these arguments.
            unsafe { function(data.as_mut_ptr(), ERROR, text.as_ptr().cast_mut(), len) }
        };
        out.fill(|| logs::register(call))
    }

    /// Ends that.
    early cuLogsUnregisterCallback(callback: HostPtr) {
        logs::unregister(callback)
    }

    /// An iterator behind all entries that there are.
    early cuLogsCurrent(out: Out<u32>, flags: u32) {
        out.fill(|| logs::current(flags))
    }

    /// Writes entries to a file.
    early cuLogsDumpToFile(iterator: HostPtr, path: HostPtr, flags: u32) {
        logs::dump_to_file(iterator, path, flags)
    }

    /// Writes entries to memory.
    early cuLogsDumpToMemory(iterator: HostPtr, buffer: HostPtr, size: HostPtr, flags: u32) {
        logs::dump_to_memory(iterator, buffer, size, flags)
    }
}
