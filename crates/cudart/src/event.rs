//! Events.
#![expect(unsafe_code, reason = "exports functions under C's names")]

use crate::call::{exports, passes};
use crate::driver::cu;

exports! {
    /// An event.
    fn cudaEventCreate(out: u64) {
        cu!(cuEventCreate(out, 0_u32))
    }
}

passes! {
    cudaEventCreateWithFlags(out: u64, flags: u32) = cuEventCreate;
    cudaEventDestroy(event: u64) = cuEventDestroy_v2;
    cudaEventQuery(event: u64) = cuEventQuery;
    cudaEventSynchronize(event: u64) = cuEventSynchronize;
    cudaEventRecord(event: u64, stream: u64) or cudaEventRecord_ptsz = cuEventRecord;
    cudaEventRecordWithFlags(
        event: u64, stream: u64, flags: u32,
    ) or cudaEventRecordWithFlags_ptsz = cuEventRecordWithFlags;
    cudaIpcGetEventHandle(out: u64, event: u64) = cuIpcGetEventHandle;

    #[cfg(not(cudart13))]
    cudaEventElapsedTime(out: u64, start: u64, end: u64) = cuEventElapsedTime;
    #[cfg(not(cudart13))]
    cudaEventElapsedTime_v2(out: u64, start: u64, end: u64) = cuEventElapsedTime_v2;
    #[cfg(cudart13)]
    cudaEventElapsedTime(out: u64, start: u64, end: u64) = cuEventElapsedTime_v2;
}
