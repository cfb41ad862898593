//! Streams and their capture.
#![expect(unsafe_code, reason = "exports functions under C's names")]

use crate::call::{exports, passes};
use crate::driver::cu;

exports! {
    /// A stream.
    fn cudaStreamCreate(out: u64) {
        cu!(cuStreamCreate(out, 0_u32))
    }
}

passes! {
    cudaStreamCreateWithFlags(out: u64, flags: u32) = cuStreamCreate;
    cudaStreamCreateWithPriority(out: u64, flags: u32, priority: i32) = cuStreamCreateWithPriority;
    cudaStreamDestroy(stream: u64) = cuStreamDestroy_v2;
    cudaStreamQuery(stream: u64) or cudaStreamQuery_ptsz = cuStreamQuery;
    cudaStreamSynchronize(stream: u64) or cudaStreamSynchronize_ptsz = cuStreamSynchronize;
    cudaStreamWaitEvent(
        stream: u64, event: u64, flags: u32,
    ) or cudaStreamWaitEvent_ptsz = cuStreamWaitEvent;
    cudaStreamAddCallback(
        stream: u64, callback: u64, data: u64, flags: u32,
    ) or cudaStreamAddCallback_ptsz = cuStreamAddCallback;
    cudaLaunchHostFunc(
        stream: u64, function: u64, data: u64,
    ) or cudaLaunchHostFunc_ptsz = cuLaunchHostFunc;
    cudaStreamAttachMemAsync(
        stream: u64, address: u64, size: usize, flags: u32,
    ) or cudaStreamAttachMemAsync_ptsz = cuStreamAttachMemAsync;
    cudaStreamGetFlags(stream: u64, out: u64) or cudaStreamGetFlags_ptsz = cuStreamGetFlags;
    cudaStreamGetId(stream: u64, out: u64) or cudaStreamGetId_ptsz = cuStreamGetId;
    cudaStreamGetPriority(
        stream: u64, out: u64,
    ) or cudaStreamGetPriority_ptsz = cuStreamGetPriority;
    cudaStreamGetDevice(stream: u64, out: u64) or cudaStreamGetDevice_ptsz = cuStreamGetDevice;
    cudaStreamCopyAttributes(
        to: u64, from: u64,
    ) or cudaStreamCopyAttributes_ptsz = cuStreamCopyAttributes;
    cudaStreamGetAttribute(
        stream: u64, attribute: u32, value: u64,
    ) or cudaStreamGetAttribute_ptsz = cuStreamGetAttribute;
    cudaStreamSetAttribute(
        stream: u64, attribute: u32, value: u64,
    ) or cudaStreamSetAttribute_ptsz = cuStreamSetAttribute;

    cudaStreamBeginCapture(
        stream: u64, mode: u32,
    ) or cudaStreamBeginCapture_ptsz = cuStreamBeginCapture_v2;
    cudaStreamBeginCaptureToGraph(
        stream: u64, graph: u64, deps: u64, edges: u64, n_deps: usize, mode: u32,
    ) or cudaStreamBeginCaptureToGraph_ptsz = cuStreamBeginCaptureToGraph;
    cudaStreamEndCapture(stream: u64, out: u64) or cudaStreamEndCapture_ptsz = cuStreamEndCapture;
    cudaStreamIsCapturing(
        stream: u64, out: u64,
    ) or cudaStreamIsCapturing_ptsz = cuStreamIsCapturing;
    cudaThreadExchangeStreamCaptureMode(mode: u64) = cuThreadExchangeStreamCaptureMode;

    #[cfg(not(cudart13))]
    cudaStreamGetCaptureInfo(
        stream: u64, status: u64, id: u64,
    ) or cudaStreamGetCaptureInfo_ptsz = cuStreamGetCaptureInfo;
    #[cfg(not(cudart13))]
    cudaStreamGetCaptureInfo_v2(
        stream: u64, status: u64, id: u64, graph: u64, deps: u64, n_deps: u64,
    ) or cudaStreamGetCaptureInfo_v2_ptsz = cuStreamGetCaptureInfo_v2;
    #[cfg(not(cudart13))]
    cudaStreamGetCaptureInfo_v3(
        stream: u64, status: u64, id: u64, graph: u64, deps: u64, edges: u64, n_deps: u64,
    ) or cudaStreamGetCaptureInfo_v3_ptsz = cuStreamGetCaptureInfo_v3;
    #[cfg(not(cudart13))]
    cudaStreamUpdateCaptureDependencies(
        stream: u64, deps: u64, n_deps: usize, flags: u32,
    ) or cudaStreamUpdateCaptureDependencies_ptsz = cuStreamUpdateCaptureDependencies;
    #[cfg(not(cudart13))]
    cudaStreamUpdateCaptureDependencies_v2(
        stream: u64, deps: u64, edges: u64, n_deps: usize, flags: u32,
    ) or cudaStreamUpdateCaptureDependencies_v2_ptsz = cuStreamUpdateCaptureDependencies_v2;

    #[cfg(cudart13)]
    cudaStreamGetCaptureInfo(
        stream: u64, status: u64, id: u64, graph: u64, deps: u64, edges: u64, n_deps: u64,
    ) or cudaStreamGetCaptureInfo_ptsz = cuStreamGetCaptureInfo_v3;
    #[cfg(cudart13)]
    cudaStreamUpdateCaptureDependencies(
        stream: u64, deps: u64, edges: u64, n_deps: usize, flags: u32,
    ) or cudaStreamUpdateCaptureDependencies_ptsz = cuStreamUpdateCaptureDependencies_v2;
    #[cfg(cudart13)]
    cudaStreamBeginRecaptureToGraph(
        stream: u64, mode: u32, graph: u64, data: u64,
    ) or cudaStreamBeginRecaptureToGraph_ptsz = cuStreamBeginRecaptureToGraph;
    #[cfg(cudart13)]
    cudaLaunchHostFunc_v2(
        stream: u64, function: u64, data: u64, mode: u32,
    ) or cudaLaunchHostFunc_v2_ptsz = cuLaunchHostFunc_v2;
}
