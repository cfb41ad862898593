//! What the table resolves, and that it names what is exported.

use std::collections::BTreeSet;

use super::{FUNCTIONS, Resolved, Since, resolve};

/// Base name, version, whether per thread, symbol. The versions are those of the function types of
/// `cudaTypedefs.h` 12.9, the symbols those that the macros of `cuda.h` 13.5 stand for.
#[rustfmt::skip]
const CASES: &[(&str, u32, bool, &str)] = &[
    ("cuArray3DCreate", 3020, false, "cuArray3DCreate_v2"),
    ("cuArray3DGetDescriptor", 3020, false, "cuArray3DGetDescriptor_v2"),
    ("cuArrayCreate", 3020, false, "cuArrayCreate_v2"),
    ("cuArrayGetDescriptor", 3020, false, "cuArrayGetDescriptor_v2"),
    ("cuCtxDestroy", 4000, false, "cuCtxDestroy_v2"),
    ("cuCtxGetDevice", 2000, false, "cuCtxGetDevice"),
    ("cuCtxPopCurrent", 4000, false, "cuCtxPopCurrent_v2"),
    ("cuCtxPushCurrent", 4000, false, "cuCtxPushCurrent_v2"),
    ("cuCtxSynchronize", 2000, false, "cuCtxSynchronize"),
    ("cuDeviceGetUuid", 11040, false, "cuDeviceGetUuid_v2"),
    ("cuDevicePrimaryCtxRelease", 11000, false, "cuDevicePrimaryCtxRelease_v2"),
    ("cuDevicePrimaryCtxReset", 11000, false, "cuDevicePrimaryCtxReset_v2"),
    ("cuDevicePrimaryCtxSetFlags", 11000, false, "cuDevicePrimaryCtxSetFlags_v2"),
    ("cuDeviceTotalMem", 3020, false, "cuDeviceTotalMem_v2"),
    ("cuEventDestroy", 4000, false, "cuEventDestroy_v2"),
    ("cuEventElapsedTime", 12080, false, "cuEventElapsedTime_v2"),
    ("cuEventRecord", 2000, false, "cuEventRecord"),
    ("cuEventRecord", 7000, true, "cuEventRecord_ptsz"),
    ("cuEventRecordWithFlags", 11010, false, "cuEventRecordWithFlags"),
    ("cuEventRecordWithFlags", 11010, true, "cuEventRecordWithFlags_ptsz"),
    ("cuGetProcAddress", 12000, false, "cuGetProcAddress_v2"),
    ("cuGraphAddDependencies", 12030, false, "cuGraphAddDependencies_v2"),
    ("cuGraphAddKernelNode", 12000, false, "cuGraphAddKernelNode_v2"),
    ("cuGraphAddNode", 12030, false, "cuGraphAddNode_v2"),
    ("cuGraphExecKernelNodeSetParams", 12000, false, "cuGraphExecKernelNodeSetParams_v2"),
    ("cuGraphExecUpdate", 12000, false, "cuGraphExecUpdate_v2"),
    ("cuGraphGetEdges", 12030, false, "cuGraphGetEdges_v2"),
    ("cuGraphInstantiate", 11040, false, "cuGraphInstantiateWithFlags"),
    ("cuGraphInstantiateWithParams", 12000, false, "cuGraphInstantiateWithParams"),
    ("cuGraphInstantiateWithParams", 12000, true, "cuGraphInstantiateWithParams_ptsz"),
    ("cuGraphKernelNodeGetParams", 12000, false, "cuGraphKernelNodeGetParams_v2"),
    ("cuGraphKernelNodeSetParams", 12000, false, "cuGraphKernelNodeSetParams_v2"),
    ("cuGraphLaunch", 10000, false, "cuGraphLaunch"),
    ("cuGraphLaunch", 10000, true, "cuGraphLaunch_ptsz"),
    ("cuGraphNodeGetDependencies", 12030, false, "cuGraphNodeGetDependencies_v2"),
    ("cuGraphNodeGetDependentNodes", 12030, false, "cuGraphNodeGetDependentNodes_v2"),
    ("cuGraphNodeSetParams", 12020, false, "cuGraphNodeSetParams"),
    ("cuGraphRemoveDependencies", 12030, false, "cuGraphRemoveDependencies_v2"),
    ("cuGraphUpload", 11010, false, "cuGraphUpload"),
    ("cuGraphUpload", 11010, true, "cuGraphUpload_ptsz"),
    ("cuGraphicsMapResources", 3000, false, "cuGraphicsMapResources"),
    ("cuGraphicsMapResources", 7000, true, "cuGraphicsMapResources_ptsz"),
    ("cuGraphicsResourceGetMappedPointer", 3020, false, "cuGraphicsResourceGetMappedPointer_v2"),
    ("cuGraphicsResourceSetMapFlags", 6050, false, "cuGraphicsResourceSetMapFlags_v2"),
    ("cuGraphicsUnmapResources", 3000, false, "cuGraphicsUnmapResources"),
    ("cuGraphicsUnmapResources", 7000, true, "cuGraphicsUnmapResources_ptsz"),
    ("cuIpcOpenMemHandle", 11000, false, "cuIpcOpenMemHandle_v2"),
    ("cuLaunchCooperativeKernel", 9000, false, "cuLaunchCooperativeKernel"),
    ("cuLaunchCooperativeKernel", 9000, true, "cuLaunchCooperativeKernel_ptsz"),
    ("cuLaunchHostFunc", 10000, false, "cuLaunchHostFunc"),
    ("cuLaunchHostFunc", 10000, true, "cuLaunchHostFunc_ptsz"),
    ("cuLaunchKernel", 4000, false, "cuLaunchKernel"),
    ("cuLaunchKernel", 7000, true, "cuLaunchKernel_ptsz"),
    ("cuLaunchKernelEx", 11060, false, "cuLaunchKernelEx"),
    ("cuLaunchKernelEx", 11060, true, "cuLaunchKernelEx_ptsz"),
    ("cuLinkAddData", 6050, false, "cuLinkAddData_v2"),
    ("cuLinkAddFile", 6050, false, "cuLinkAddFile_v2"),
    ("cuLinkCreate", 6050, false, "cuLinkCreate_v2"),
    ("cuMemAdvise", 12020, false, "cuMemAdvise_v2"),
    ("cuMemAlloc", 3020, false, "cuMemAlloc_v2"),
    ("cuMemAllocAsync", 11020, false, "cuMemAllocAsync"),
    ("cuMemAllocAsync", 11020, true, "cuMemAllocAsync_ptsz"),
    ("cuMemAllocFromPoolAsync", 11020, false, "cuMemAllocFromPoolAsync"),
    ("cuMemAllocFromPoolAsync", 11020, true, "cuMemAllocFromPoolAsync_ptsz"),
    ("cuMemAllocHost", 3020, false, "cuMemAllocHost_v2"),
    ("cuMemAllocPitch", 3020, false, "cuMemAllocPitch_v2"),
    ("cuMemBatchDecompressAsync", 12060, false, "cuMemBatchDecompressAsync"),
    ("cuMemBatchDecompressAsync", 12060, true, "cuMemBatchDecompressAsync_ptsz"),
    ("cuMemFree", 3020, false, "cuMemFree_v2"),
    ("cuMemFreeAsync", 11020, false, "cuMemFreeAsync"),
    ("cuMemFreeAsync", 11020, true, "cuMemFreeAsync_ptsz"),
    ("cuMemGetAddressRange", 3020, false, "cuMemGetAddressRange_v2"),
    ("cuMemGetInfo", 3020, false, "cuMemGetInfo_v2"),
    ("cuMemHostGetDevicePointer", 3020, false, "cuMemHostGetDevicePointer_v2"),
    ("cuMemHostRegister", 6050, false, "cuMemHostRegister_v2"),
    ("cuMemMapArrayAsync", 11010, false, "cuMemMapArrayAsync"),
    ("cuMemMapArrayAsync", 11010, true, "cuMemMapArrayAsync_ptsz"),
    ("cuMemPrefetchAsync", 12020, false, "cuMemPrefetchAsync_v2"),
    ("cuMemPrefetchAsync", 12020, true, "cuMemPrefetchAsync_v2_ptsz"),
    ("cuMemcpy", 4000, false, "cuMemcpy"),
    ("cuMemcpy", 7000, true, "cuMemcpy_ptds"),
    ("cuMemcpy2D", 3020, false, "cuMemcpy2D_v2"),
    ("cuMemcpy2D", 7000, true, "cuMemcpy2D_v2_ptds"),
    ("cuMemcpy2DAsync", 3020, false, "cuMemcpy2DAsync_v2"),
    ("cuMemcpy2DAsync", 7000, true, "cuMemcpy2DAsync_v2_ptsz"),
    ("cuMemcpy2DUnaligned", 3020, false, "cuMemcpy2DUnaligned_v2"),
    ("cuMemcpy2DUnaligned", 7000, true, "cuMemcpy2DUnaligned_v2_ptds"),
    ("cuMemcpy3D", 3020, false, "cuMemcpy3D_v2"),
    ("cuMemcpy3D", 7000, true, "cuMemcpy3D_v2_ptds"),
    ("cuMemcpy3DAsync", 3020, false, "cuMemcpy3DAsync_v2"),
    ("cuMemcpy3DAsync", 7000, true, "cuMemcpy3DAsync_v2_ptsz"),
    ("cuMemcpy3DPeer", 4000, false, "cuMemcpy3DPeer"),
    ("cuMemcpy3DPeer", 7000, true, "cuMemcpy3DPeer_ptds"),
    ("cuMemcpy3DPeerAsync", 4000, false, "cuMemcpy3DPeerAsync"),
    ("cuMemcpy3DPeerAsync", 7000, true, "cuMemcpy3DPeerAsync_ptsz"),
    ("cuMemcpyAsync", 4000, false, "cuMemcpyAsync"),
    ("cuMemcpyAsync", 7000, true, "cuMemcpyAsync_ptsz"),
    ("cuMemcpyAtoA", 3020, false, "cuMemcpyAtoA_v2"),
    ("cuMemcpyAtoA", 7000, true, "cuMemcpyAtoA_v2_ptds"),
    ("cuMemcpyAtoD", 3020, false, "cuMemcpyAtoD_v2"),
    ("cuMemcpyAtoD", 7000, true, "cuMemcpyAtoD_v2_ptds"),
    ("cuMemcpyAtoH", 3020, false, "cuMemcpyAtoH_v2"),
    ("cuMemcpyAtoH", 7000, true, "cuMemcpyAtoH_v2_ptds"),
    ("cuMemcpyAtoHAsync", 3020, false, "cuMemcpyAtoHAsync_v2"),
    ("cuMemcpyAtoHAsync", 7000, true, "cuMemcpyAtoHAsync_v2_ptsz"),
    ("cuMemcpyDtoA", 3020, false, "cuMemcpyDtoA_v2"),
    ("cuMemcpyDtoA", 7000, true, "cuMemcpyDtoA_v2_ptds"),
    ("cuMemcpyDtoD", 3020, false, "cuMemcpyDtoD_v2"),
    ("cuMemcpyDtoD", 7000, true, "cuMemcpyDtoD_v2_ptds"),
    ("cuMemcpyDtoDAsync", 3020, false, "cuMemcpyDtoDAsync_v2"),
    ("cuMemcpyDtoDAsync", 7000, true, "cuMemcpyDtoDAsync_v2_ptsz"),
    ("cuMemcpyDtoH", 3020, false, "cuMemcpyDtoH_v2"),
    ("cuMemcpyDtoH", 7000, true, "cuMemcpyDtoH_v2_ptds"),
    ("cuMemcpyDtoHAsync", 3020, false, "cuMemcpyDtoHAsync_v2"),
    ("cuMemcpyDtoHAsync", 7000, true, "cuMemcpyDtoHAsync_v2_ptsz"),
    ("cuMemcpyHtoA", 3020, false, "cuMemcpyHtoA_v2"),
    ("cuMemcpyHtoA", 7000, true, "cuMemcpyHtoA_v2_ptds"),
    ("cuMemcpyHtoAAsync", 3020, false, "cuMemcpyHtoAAsync_v2"),
    ("cuMemcpyHtoAAsync", 7000, true, "cuMemcpyHtoAAsync_v2_ptsz"),
    ("cuMemcpyHtoD", 3020, false, "cuMemcpyHtoD_v2"),
    ("cuMemcpyHtoD", 7000, true, "cuMemcpyHtoD_v2_ptds"),
    ("cuMemcpyHtoDAsync", 3020, false, "cuMemcpyHtoDAsync_v2"),
    ("cuMemcpyHtoDAsync", 7000, true, "cuMemcpyHtoDAsync_v2_ptsz"),
    ("cuMemcpyPeer", 4000, false, "cuMemcpyPeer"),
    ("cuMemcpyPeer", 7000, true, "cuMemcpyPeer_ptds"),
    ("cuMemcpyPeerAsync", 4000, false, "cuMemcpyPeerAsync"),
    ("cuMemcpyPeerAsync", 7000, true, "cuMemcpyPeerAsync_ptsz"),
    ("cuMemsetD16", 3020, false, "cuMemsetD16_v2"),
    ("cuMemsetD16", 7000, true, "cuMemsetD16_v2_ptds"),
    ("cuMemsetD16Async", 3020, false, "cuMemsetD16Async"),
    ("cuMemsetD16Async", 7000, true, "cuMemsetD16Async_ptsz"),
    ("cuMemsetD2D16", 3020, false, "cuMemsetD2D16_v2"),
    ("cuMemsetD2D16", 7000, true, "cuMemsetD2D16_v2_ptds"),
    ("cuMemsetD2D16Async", 3020, false, "cuMemsetD2D16Async"),
    ("cuMemsetD2D16Async", 7000, true, "cuMemsetD2D16Async_ptsz"),
    ("cuMemsetD2D32", 3020, false, "cuMemsetD2D32_v2"),
    ("cuMemsetD2D32", 7000, true, "cuMemsetD2D32_v2_ptds"),
    ("cuMemsetD2D32Async", 3020, false, "cuMemsetD2D32Async"),
    ("cuMemsetD2D32Async", 7000, true, "cuMemsetD2D32Async_ptsz"),
    ("cuMemsetD2D8", 3020, false, "cuMemsetD2D8_v2"),
    ("cuMemsetD2D8", 7000, true, "cuMemsetD2D8_v2_ptds"),
    ("cuMemsetD2D8Async", 3020, false, "cuMemsetD2D8Async"),
    ("cuMemsetD2D8Async", 7000, true, "cuMemsetD2D8Async_ptsz"),
    ("cuMemsetD32", 3020, false, "cuMemsetD32_v2"),
    ("cuMemsetD32", 7000, true, "cuMemsetD32_v2_ptds"),
    ("cuMemsetD32Async", 3020, false, "cuMemsetD32Async"),
    ("cuMemsetD32Async", 7000, true, "cuMemsetD32Async_ptsz"),
    ("cuMemsetD8", 3020, false, "cuMemsetD8_v2"),
    ("cuMemsetD8", 7000, true, "cuMemsetD8_v2_ptds"),
    ("cuMemsetD8Async", 3020, false, "cuMemsetD8Async"),
    ("cuMemsetD8Async", 7000, true, "cuMemsetD8Async_ptsz"),
    ("cuModuleGetGlobal", 3020, false, "cuModuleGetGlobal_v2"),
    ("cuMulticastBindAddr", 12010, false, "cuMulticastBindAddr"),
    ("cuMulticastBindMem", 12010, false, "cuMulticastBindMem"),
    ("cuSignalExternalSemaphoresAsync", 10000, false, "cuSignalExternalSemaphoresAsync"),
    ("cuSignalExternalSemaphoresAsync", 10000, true, "cuSignalExternalSemaphoresAsync_ptsz"),
    ("cuStreamAddCallback", 5000, false, "cuStreamAddCallback"),
    ("cuStreamAddCallback", 7000, true, "cuStreamAddCallback_ptsz"),
    ("cuStreamAttachMemAsync", 6000, false, "cuStreamAttachMemAsync"),
    ("cuStreamAttachMemAsync", 7000, true, "cuStreamAttachMemAsync_ptsz"),
    ("cuStreamBatchMemOp", 11070, false, "cuStreamBatchMemOp_v2"),
    ("cuStreamBatchMemOp", 11070, true, "cuStreamBatchMemOp_v2_ptsz"),
    ("cuStreamBeginCapture", 10010, false, "cuStreamBeginCapture_v2"),
    ("cuStreamBeginCapture", 10010, true, "cuStreamBeginCapture_v2_ptsz"),
    ("cuStreamBeginCaptureToGraph", 12030, false, "cuStreamBeginCaptureToGraph"),
    ("cuStreamBeginCaptureToGraph", 12030, true, "cuStreamBeginCaptureToGraph_ptsz"),
    ("cuStreamCopyAttributes", 11000, false, "cuStreamCopyAttributes"),
    ("cuStreamCopyAttributes", 11000, true, "cuStreamCopyAttributes_ptsz"),
    ("cuStreamDestroy", 4000, false, "cuStreamDestroy_v2"),
    ("cuStreamEndCapture", 10000, false, "cuStreamEndCapture"),
    ("cuStreamEndCapture", 10000, true, "cuStreamEndCapture_ptsz"),
    ("cuStreamGetAttribute", 11000, false, "cuStreamGetAttribute"),
    ("cuStreamGetAttribute", 11000, true, "cuStreamGetAttribute_ptsz"),
    ("cuStreamGetCaptureInfo", 11030, false, "cuStreamGetCaptureInfo_v2"),
    ("cuStreamGetCaptureInfo", 11030, true, "cuStreamGetCaptureInfo_v2_ptsz"),
    ("cuStreamGetCaptureInfo", 12030, false, "cuStreamGetCaptureInfo_v3"),
    ("cuStreamGetCaptureInfo", 12030, true, "cuStreamGetCaptureInfo_v3_ptsz"),
    ("cuStreamGetCtx", 12050, false, "cuStreamGetCtx_v2"),
    ("cuStreamGetCtx", 12050, true, "cuStreamGetCtx_v2_ptsz"),
    ("cuStreamGetDevice", 12080, false, "cuStreamGetDevice"),
    ("cuStreamGetDevice", 12080, true, "cuStreamGetDevice_ptsz"),
    ("cuStreamGetFlags", 5050, false, "cuStreamGetFlags"),
    ("cuStreamGetFlags", 7000, true, "cuStreamGetFlags_ptsz"),
    ("cuStreamGetId", 12000, false, "cuStreamGetId"),
    ("cuStreamGetId", 12000, true, "cuStreamGetId_ptsz"),
    ("cuStreamGetPriority", 5050, false, "cuStreamGetPriority"),
    ("cuStreamGetPriority", 7000, true, "cuStreamGetPriority_ptsz"),
    ("cuStreamIsCapturing", 10000, false, "cuStreamIsCapturing"),
    ("cuStreamIsCapturing", 10000, true, "cuStreamIsCapturing_ptsz"),
    ("cuStreamQuery", 2000, false, "cuStreamQuery"),
    ("cuStreamQuery", 7000, true, "cuStreamQuery_ptsz"),
    ("cuStreamSetAttribute", 11000, false, "cuStreamSetAttribute"),
    ("cuStreamSetAttribute", 11000, true, "cuStreamSetAttribute_ptsz"),
    ("cuStreamSynchronize", 2000, false, "cuStreamSynchronize"),
    ("cuStreamSynchronize", 7000, true, "cuStreamSynchronize_ptsz"),
    ("cuStreamUpdateCaptureDependencies", 12030, false, "cuStreamUpdateCaptureDependencies_v2"),
    ("cuStreamUpdateCaptureDependencies", 12030, true, "cuStreamUpdateCaptureDependencies_v2_ptsz"),
    ("cuStreamWaitEvent", 3020, false, "cuStreamWaitEvent"),
    ("cuStreamWaitEvent", 7000, true, "cuStreamWaitEvent_ptsz"),
    ("cuStreamWaitValue32", 11070, false, "cuStreamWaitValue32_v2"),
    ("cuStreamWaitValue32", 11070, true, "cuStreamWaitValue32_v2_ptsz"),
    ("cuStreamWaitValue64", 11070, false, "cuStreamWaitValue64_v2"),
    ("cuStreamWaitValue64", 11070, true, "cuStreamWaitValue64_v2_ptsz"),
    ("cuStreamWriteValue32", 11070, false, "cuStreamWriteValue32_v2"),
    ("cuStreamWriteValue32", 11070, true, "cuStreamWriteValue32_v2_ptsz"),
    ("cuStreamWriteValue64", 11070, false, "cuStreamWriteValue64_v2"),
    ("cuStreamWriteValue64", 11070, true, "cuStreamWriteValue64_v2_ptsz"),
    ("cuTexRefGetAddress", 3020, false, "cuTexRefGetAddress_v2"),
    ("cuTexRefSetAddress", 3020, false, "cuTexRefSetAddress_v2"),
    ("cuTexRefSetAddress2D", 4010, false, "cuTexRefSetAddress2D_v3"),
    ("cuWaitExternalSemaphoresAsync", 10000, false, "cuWaitExternalSemaphoresAsync"),
    ("cuWaitExternalSemaphoresAsync", 10000, true, "cuWaitExternalSemaphoresAsync_ptsz"),
];

#[track_caller]
fn check(name: &str, version: u32, per_thread: bool, symbol: &'static str) {
    assert_eq!(
        resolve(name, version, per_thread),
        Resolved::Symbol(symbol),
        "{name} at {version}, per thread: {per_thread}"
    );
}

#[test]
fn functions_of_the_headers_resolve_to_their_symbols() {
    for &(name, version, per_thread, symbol) in CASES {
        check(name, version, per_thread, symbol);
    }
}

#[test]
fn a_version_between_two_means_the_older() {
    check("cuMemAlloc", 2000, false, "cuMemAlloc");
    check("cuMemAlloc", 3019, false, "cuMemAlloc");
    check("cuMemAlloc", 3020, false, "cuMemAlloc_v2");
    check("cuMemAlloc", 99_999, false, "cuMemAlloc_v2");
    check("cuCtxCreate", 11_030, false, "cuCtxCreate_v2");
    check("cuCtxCreate", 12_040, false, "cuCtxCreate_v3");
    check("cuCtxCreate", 13_000, false, "cuCtxCreate_v4");
    check("cuCtxSynchronize", 12_090, false, "cuCtxSynchronize");
    check("cuCtxSynchronize", 13_000, false, "cuCtxSynchronize_v2");
    check("cuGetProcAddress", 11_080, false, "cuGetProcAddress");
    check("cuGetProcAddress", 12_000, false, "cuGetProcAddress_v2");
    check(
        "cuMemcpyBatchAsync",
        12_090,
        true,
        "cuMemcpyBatchAsync_ptsz",
    );
    check(
        "cuMemcpyBatchAsync",
        13_000,
        true,
        "cuMemcpyBatchAsync_v2_ptsz",
    );
    check("cuGraphAddNode", 13_030, false, "cuGraphAddNode_v2");
    check("cuGraphAddNode", 13_040, false, "cuGraphAddNode_v3");
}

#[test]
fn instantiate_means_three_functions() {
    check("cuGraphInstantiate", 10_000, false, "cuGraphInstantiate");
    check("cuGraphInstantiate", 11_000, false, "cuGraphInstantiate_v2");
    check(
        "cuGraphInstantiate",
        11_040,
        false,
        "cuGraphInstantiateWithFlags",
    );
}

#[test]
fn without_a_twin_at_the_version_the_plain_symbol_is_meant() {
    check("cuMemcpyHtoD", 7000, true, "cuMemcpyHtoD_v2_ptds");
    check("cuMemcpyHtoD", 6050, true, "cuMemcpyHtoD_v2");
    check("cuMemAlloc", 12_000, true, "cuMemAlloc_v2");
    check("cuStreamQuery", 7000, false, "cuStreamQuery");
    check("cuStreamQuery", 7000, true, "cuStreamQuery_ptsz");
}

#[test]
fn what_is_not_there_is_told_apart() {
    assert_eq!(resolve("cuNoSuch", 12_000, false), Resolved::NotFound);
    assert_eq!(resolve("cuMemAlloc_v2", 12_000, false), Resolved::NotFound);
    assert_eq!(resolve("", 12_000, false), Resolved::NotFound);
    assert_eq!(
        resolve("cuLaunchKernelEx", 11_050, false),
        Resolved::VersionNotSufficient
    );
    assert_eq!(
        resolve("cuLaunchKernelEx", 11_050, true),
        Resolved::VersionNotSufficient
    );
}

#[test]
fn rows_are_in_order_and_named_once() {
    let mut names = BTreeSet::new();
    for row in FUNCTIONS {
        assert!(names.insert(row.name), "{} has two rows", row.name);
        assert!(!row.versions.is_empty(), "{}", row.name);
        for symbols in [row.versions, row.twins] {
            let ascending = |pair: &[Since]| pair[0].0 < pair[1].0;
            assert!(symbols.windows(2).all(ascending), "{}", row.name);
        }
        for symbol in row.symbols() {
            assert!(symbol.starts_with(row.name), "{}: {symbol}", row.name);
        }
        for (_, twin) in row.twins {
            assert!(twin.ends_with("_ptds") || twin.ends_with("_ptsz"), "{twin}");
        }
    }
}

#[test]
fn the_table_names_what_is_exported() {
    let table: BTreeSet<_> = FUNCTIONS
        .iter()
        .flat_map(super::Function::symbols)
        .collect();
    let exported: BTreeSet<_> = crate::symbols::names().collect();
    let only = |a: &BTreeSet<&'static str>, b| a.difference(b).copied().collect::<Vec<_>>();
    assert_eq!(only(&table, &exported), [""; 0], "only in the table");
    assert_eq!(only(&exported, &table), [""; 0], "only among the exports");
}

#[test]
fn what_is_not_supported_is_exported_all_the_same() {
    let mut seen = BTreeSet::new();
    for name in crate::unimplemented::NOT_SUPPORTED {
        assert!(seen.insert(name), "{name} is listed twice");
        assert!(
            crate::symbols::address_of(name).is_some_and(|address| !address.is_null()),
            "{name}"
        );
    }
    assert!(crate::symbols::address_of("cuNoSuch").is_none());
}
