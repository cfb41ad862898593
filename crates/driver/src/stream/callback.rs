//! Functions of the program in streams.
//!
//! They run on the stream's own thread, in order and once each. A call of the driver inside one
//! gives
//! `CUDA_ERROR_NOT_PERMITTED`.

use crate::call::HostCall;
use crate::capture;
use crate::command::Command;
use crate::error::Result;
use crate::state;
use crate::types::{CUhostTaskSyncMode, CUresult, CUstream, HostPtr};

/// `cuLaunchHostFunc`: the function does not run if the context has failed by then.
pub fn launch_host(stream: CUstream, function: HostPtr, data: HostPtr) -> Result<()> {
    let stream = super::get(stream)?;
    let call = HostCall::new(function, data)?;
    stream.submit(Command::Call(call)).map(|_| ())
}

/// `cuLaunchHostFunc_v2`: the mode says how the stream waits, which makes no difference here.
pub fn check_sync_mode(mode: CUhostTaskSyncMode) -> Result<()> {
    match mode {
        CUhostTaskSyncMode::BLOCKING | CUhostTaskSyncMode::SPINWAIT => Ok(()),
        _ => Err(CUresult::INVALID_VALUE),
    }
}

/// `cuStreamAddCallback`: the function gets the state of the stream, and runs in any case.
pub fn add_callback(
    stream: CUstream,
    function: impl FnOnce(CUresult) + Send + 'static,
    flags: u32,
) -> Result<()> {
    if flags != 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    let stream = super::get(stream)?;
    if stream.is_capturing() {
        return Err(capture::forbidden(&stream));
    }
    let function = Box::new(move |status| state::in_callback(|| function(status)));
    stream.submit(Command::Callback(function)).map(|_| ())
}
