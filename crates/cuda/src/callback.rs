//! Functions of the client that streams call.
#![expect(
    unsafe_code,
    reason = "exports functions under C's names, and calls the client's"
)]

use ptxjit_driver::stream::callback;
use ptxjit_driver::types::{CUhostTaskSyncMode, CUresult, CUstream, CUstreamCallback, HostPtr};

use crate::call::exports;

exports! {
    /// Has a stream call a function.
    fn cuLaunchHostFunc(
        stream: CUstream, function: HostPtr, data: HostPtr,
    ) or cuLaunchHostFunc_ptsz {
        callback::launch_host(stream, function, data)
    }

    /// Has a stream call a function, and says how the stream waits.
    fn cuLaunchHostFunc_v2(
        stream: CUstream, function: HostPtr, data: HostPtr, mode: CUhostTaskSyncMode,
    ) or cuLaunchHostFunc_v2_ptsz {
        callback::check_sync_mode(mode)?;
        callback::launch_host(stream, function, data)
    }

    /// Has a stream call a function with its status.
    fn cuStreamAddCallback(
        stream: CUstream, function: CUstreamCallback, data: HostPtr, flags: u32,
    ) or cuStreamAddCallback_ptsz {
        let function = function.ok_or(CUresult::INVALID_VALUE)?;
        let call = move |status| {
            // SAFETY: the client has asked for this call of its function with these arguments.
            unsafe { function(stream, status, data.as_mut_ptr()) }
        };
        callback::add_callback(stream, call, flags)
    }
}
