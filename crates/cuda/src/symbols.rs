//! Addresses of all exported symbols, for `cuGetProcAddress`.
//!
//! The symbols are declared here and defined wherever they are implemented, or in
//! [`crate::unimplemented`]; one that is missing does not link. A static array, and not `dlsym`,
//! gives the addresses of this very library whatever else is loaded.
#![expect(
    unsafe_code,
    reason = "declares this library's own exports, to take their addresses"
)]

use std::ffi::c_void;

/// An address of a function, which only a client calls, with the type it knows.
#[derive(Clone, Copy)]
struct Address(*const c_void);

// SAFETY: the address is that of code, which is neither written nor freed.
unsafe impl Sync for Address {}

// SAFETY: as above.
unsafe impl Send for Address {}

/// Declares the symbols and collects them with their addresses.
macro_rules! symbols {
    ($($name:ident)*) => {
        static SYMBOLS: &[(&str, Address)] = &[$({
            unsafe extern "C" {
                fn $name();
            }
            (stringify!($name), Address($name as *const c_void))
        }),*];
    };
}

symbols! {
    // Start and entry points.
    cuDriverGetVersion cuGetErrorName cuGetErrorString cuGetExportTable cuGetProcAddress
    cuGetProcAddress_v2 cuInit cuProfilerInitialize cuProfilerStart cuProfilerStop
    // Devices.
    cuDeviceCanAccessPeer cuDeviceComputeCapability cuDeviceGet cuDeviceGetAttribute
    cuDeviceGetByPCIBusId cuDeviceGetCliqueCount cuDeviceGetCliqueInfo cuDeviceGetCount
    cuDeviceGetDefaultMemPool cuDeviceGetDevResource cuDeviceGetExecAffinitySupport
    cuDeviceGetFabricClusterUuid cuDeviceGetGraphMemAttribute cuDeviceGetHostAtomicCapabilities
    cuDeviceGetLuid cuDeviceGetMemPool cuDeviceGetName cuDeviceGetNvSciSyncAttributes
    cuDeviceGetP2PAtomicCapabilities cuDeviceGetP2PAttribute cuDeviceGetPCIBusId
    cuDeviceGetProperties cuDeviceGetTexture1DLinearMaxWidth cuDeviceGetUuid cuDeviceGetUuid_v2
    cuDeviceGraphMemTrim cuDevicePrimaryCtxGetState cuDevicePrimaryCtxRelease
    cuDevicePrimaryCtxRelease_v2 cuDevicePrimaryCtxReset cuDevicePrimaryCtxReset_v2
    cuDevicePrimaryCtxRetain cuDevicePrimaryCtxSetFlags cuDevicePrimaryCtxSetFlags_v2
    cuDeviceRegisterAsyncNotification cuDeviceSetGraphMemAttribute cuDeviceSetMemPool
    cuDeviceTotalMem cuDeviceTotalMem_v2 cuDeviceUnregisterAsyncNotification
    cuFlushGPUDirectRDMAWrites
    // Contexts.
    cuCtxAttach cuCtxCreate cuCtxCreate_v2 cuCtxCreate_v3 cuCtxCreate_v4 cuCtxDestroy
    cuCtxDestroy_v2 cuCtxDetach cuCtxDisablePeerAccess cuCtxEnablePeerAccess cuCtxFromGreenCtx
    cuCtxGetApiVersion cuCtxGetCacheConfig cuCtxGetCurrent cuCtxGetDevResource cuCtxGetDevice
    cuCtxGetDevice_v2 cuCtxGetExecAffinity cuCtxGetFlags cuCtxGetId cuCtxGetLimit
    cuCtxGetSharedMemConfig cuCtxGetStreamPriorityRange cuCtxPopCurrent cuCtxPopCurrent_v2
    cuCtxPushCurrent cuCtxPushCurrent_v2 cuCtxRecordEvent cuCtxResetPersistingL2Cache
    cuCtxSetCacheConfig cuCtxSetCurrent cuCtxSetFlags cuCtxSetLimit cuCtxSetSharedMemConfig
    cuCtxSynchronize cuCtxSynchronize_v2 cuCtxWaitEvent cuDevResourceGenerateDesc
    cuDevSmResourceSplit cuDevSmResourceSplitByCount cuGreenCtxCreate cuGreenCtxDestroy
    cuGreenCtxGetDevResource cuGreenCtxGetId cuGreenCtxRecordEvent cuGreenCtxStreamCreate
    cuGreenCtxWaitEvent cuThreadExchangeStreamCaptureMode
    // Modules and the linker.
    cuLinkAddData cuLinkAddData_v2 cuLinkAddFile cuLinkAddFile_v2 cuLinkComplete cuLinkCreate
    cuLinkCreate_v2 cuLinkDestroy cuModuleEnumerateFunctions cuModuleGetFunction
    cuModuleGetFunctionCount cuModuleGetGlobal cuModuleGetGlobal_v2 cuModuleGetLoadingMode
    cuModuleGetSurfRef cuModuleGetTexRef cuModuleLoad cuModuleLoadData cuModuleLoadDataEx
    cuModuleLoadFatBinary cuModuleUnload
    // Libraries and kernels.
    cuKernelGetAttribute cuKernelGetFunction cuKernelGetLibrary cuKernelGetName
    cuKernelGetParamCount cuKernelGetParamInfo cuKernelSetAttribute cuKernelSetCacheConfig
    cuLibraryEnumerateKernels cuLibraryGetGlobal cuLibraryGetKernel cuLibraryGetKernelCount
    cuLibraryGetManaged cuLibraryGetModule cuLibraryGetUnifiedFunction cuLibraryLoadData
    cuLibraryLoadFromFile cuLibraryUnload
    // Functions and launches.
    cuFuncGetAttribute cuFuncGetModule cuFuncGetName cuFuncGetParamCount cuFuncGetParamInfo
    cuFuncIsLoaded cuFuncLoad cuFuncSetAttribute cuFuncSetBlockShape cuFuncSetCacheConfig
    cuFuncSetSharedMemConfig cuFuncSetSharedSize cuLaunch cuLaunchCooperativeKernel
    cuLaunchCooperativeKernel_ptsz cuLaunchCooperativeKernelMultiDevice cuLaunchGrid
    cuLaunchGridAsync cuLaunchHostFunc cuLaunchHostFunc_v2 cuLaunchHostFunc_ptsz
    cuLaunchHostFunc_v2_ptsz cuLaunchKernel cuLaunchKernel_ptsz cuLaunchKernelEx
    cuLaunchKernelEx_ptsz cuOccupancyAvailableDynamicSMemPerBlock
    cuOccupancyMaxActiveBlocksPerMultiprocessor
    cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags cuOccupancyMaxActiveClusters
    cuOccupancyMaxPotentialBlockSize cuOccupancyMaxPotentialBlockSizeWithFlags
    cuOccupancyMaxPotentialClusterSize cuParamSetSize cuParamSetTexRef cuParamSetf cuParamSeti
    cuParamSetv
    // Copies.
    cuFabricCpyBatchAsync cuFabricCpyBatchAsync_ptsz cuMemcpy cuMemcpy_ptds cuMemcpy2D
    cuMemcpy2D_v2 cuMemcpy2D_v2_ptds cuMemcpy2DAsync cuMemcpy2DAsync_v2 cuMemcpy2DAsync_v2_ptsz
    cuMemcpy2DUnaligned cuMemcpy2DUnaligned_v2 cuMemcpy2DUnaligned_v2_ptds cuMemcpy3D cuMemcpy3D_v2
    cuMemcpy3D_v2_ptds cuMemcpy3DAsync cuMemcpy3DAsync_v2 cuMemcpy3DAsync_v2_ptsz
    cuMemcpy3DBatchAsync cuMemcpy3DBatchAsync_v2 cuMemcpy3DBatchAsync_ptsz
    cuMemcpy3DBatchAsync_v2_ptsz cuMemcpy3DPeer cuMemcpy3DPeer_ptds cuMemcpy3DPeerAsync
    cuMemcpy3DPeerAsync_ptsz cuMemcpy3DWithAttributesAsync cuMemcpy3DWithAttributesAsync_ptsz
    cuMemcpyAsync cuMemcpyAsync_ptsz cuMemcpyAtoA cuMemcpyAtoA_v2 cuMemcpyAtoA_v2_ptds cuMemcpyAtoD
    cuMemcpyAtoD_v2 cuMemcpyAtoD_v2_ptds cuMemcpyAtoH cuMemcpyAtoH_v2 cuMemcpyAtoH_v2_ptds
    cuMemcpyAtoHAsync cuMemcpyAtoHAsync_v2 cuMemcpyAtoHAsync_v2_ptsz cuMemcpyBatchAsync
    cuMemcpyBatchAsync_v2 cuMemcpyBatchAsync_ptsz cuMemcpyBatchAsync_v2_ptsz cuMemcpyDtoA
    cuMemcpyDtoA_v2 cuMemcpyDtoA_v2_ptds cuMemcpyDtoD cuMemcpyDtoD_v2 cuMemcpyDtoD_v2_ptds
    cuMemcpyDtoDAsync cuMemcpyDtoDAsync_v2 cuMemcpyDtoDAsync_v2_ptsz cuMemcpyDtoH cuMemcpyDtoH_v2
    cuMemcpyDtoH_v2_ptds cuMemcpyDtoHAsync cuMemcpyDtoHAsync_v2 cuMemcpyDtoHAsync_v2_ptsz
    cuMemcpyHtoA cuMemcpyHtoA_v2 cuMemcpyHtoA_v2_ptds cuMemcpyHtoAAsync cuMemcpyHtoAAsync_v2
    cuMemcpyHtoAAsync_v2_ptsz cuMemcpyHtoD cuMemcpyHtoD_v2 cuMemcpyHtoD_v2_ptds cuMemcpyHtoDAsync
    cuMemcpyHtoDAsync_v2 cuMemcpyHtoDAsync_v2_ptsz cuMemcpyPeer cuMemcpyPeer_ptds cuMemcpyPeerAsync
    cuMemcpyPeerAsync_ptsz cuMemcpyWithAttributesAsync cuMemcpyWithAttributesAsync_ptsz
    // Fills.
    cuMemsetD16 cuMemsetD16_v2 cuMemsetD16_v2_ptds cuMemsetD16Async cuMemsetD16Async_ptsz
    cuMemsetD2D16 cuMemsetD2D16_v2 cuMemsetD2D16_v2_ptds cuMemsetD2D16Async cuMemsetD2D16Async_ptsz
    cuMemsetD2D32 cuMemsetD2D32_v2 cuMemsetD2D32_v2_ptds cuMemsetD2D32Async cuMemsetD2D32Async_ptsz
    cuMemsetD2D8 cuMemsetD2D8_v2 cuMemsetD2D8_v2_ptds cuMemsetD2D8Async cuMemsetD2D8Async_ptsz
    cuMemsetD32 cuMemsetD32_v2 cuMemsetD32_v2_ptds cuMemsetD32Async cuMemsetD32Async_ptsz
    cuMemsetD8 cuMemsetD8_v2 cuMemsetD8_v2_ptds cuMemsetD8Async cuMemsetD8Async_ptsz
    // Memory.
    cuIpcCloseMemHandle cuIpcGetEventHandle cuIpcGetMemHandle cuIpcOpenEventHandle
    cuIpcOpenMemHandle cuIpcOpenMemHandle_v2 cuLogicalEndpointAddDevice cuLogicalEndpointBindAddr
    cuLogicalEndpointBindMem cuLogicalEndpointCreate cuLogicalEndpointDestroy
    cuLogicalEndpointExport cuLogicalEndpointGetLimits cuLogicalEndpointIdRelease
    cuLogicalEndpointIdReserve cuLogicalEndpointImport cuLogicalEndpointQuery
    cuLogicalEndpointUnbind cuMemAddressFree cuMemAddressReserve cuMemAdvise cuMemAdvise_v2
    cuMemAlloc cuMemAlloc_v2 cuMemAllocAsync cuMemAllocAsync_ptsz cuMemAllocFromPoolAsync
    cuMemAllocFromPoolAsync_ptsz cuMemAllocHost cuMemAllocHost_v2 cuMemAllocManaged cuMemAllocPitch
    cuMemAllocPitch_v2 cuMemBatchDecompressAsync cuMemBatchDecompressAsync_ptsz cuMemCreate
    cuMemDiscardAndPrefetchBatchAsync cuMemDiscardAndPrefetchBatchAsync_ptsz cuMemDiscardBatchAsync
    cuMemDiscardBatchAsync_ptsz cuMemExportToShareableHandle cuMemFree cuMemFree_v2 cuMemFreeAsync
    cuMemFreeAsync_ptsz cuMemFreeHost cuMemGetAccess cuMemGetAddressRange cuMemGetAddressRange_v2
    cuMemGetAllocationGranularity cuMemGetAllocationPropertiesFromHandle cuMemGetDefaultMemPool
    cuMemGetHandleForAddressRange cuMemGetInfo cuMemGetInfo_v2 cuMemGetLocationInfo cuMemGetMemPool
    cuMemHostAlloc cuMemHostGetDevicePointer cuMemHostGetDevicePointer_v2 cuMemHostGetFlags
    cuMemHostRegister cuMemHostRegister_v2 cuMemHostUnregister cuMemImportFromShareableHandle
    cuMemMap cuMemMapArrayAsync cuMemMapArrayAsync_ptsz cuMemPoolCreate cuMemPoolDestroy
    cuMemPoolExportPointer cuMemPoolExportToShareableHandle cuMemPoolGetAccess
    cuMemPoolGetAttribute cuMemPoolImportFromShareableHandle cuMemPoolImportPointer
    cuMemPoolSetAccess cuMemPoolSetAttribute cuMemPoolTrimTo cuMemPrefetchAsync
    cuMemPrefetchAsync_v2 cuMemPrefetchAsync_ptsz cuMemPrefetchAsync_v2_ptsz
    cuMemPrefetchBatchAsync cuMemPrefetchBatchAsync_ptsz cuMemRangeGetAttribute
    cuMemRangeGetAttributes cuMemRelease cuMemRetainAllocationHandle cuMemSetAccess cuMemSetMemPool
    cuMemUnmap cuMulticastAddDevice cuMulticastBindAddr cuMulticastBindAddr_v2 cuMulticastBindMem
    cuMulticastBindMem_v2 cuMulticastCreate cuMulticastGetGranularity cuMulticastUnbind
    cuPointerGetAttribute cuPointerGetAttributes cuPointerSetAttribute
    // Arrays, textures and surfaces.
    cuArray3DCreate cuArray3DCreate_v2 cuArray3DGetDescriptor cuArray3DGetDescriptor_v2
    cuArrayCreate cuArrayCreate_v2 cuArrayDestroy cuArrayGetDescriptor cuArrayGetDescriptor_v2
    cuArrayGetMemoryRequirements cuArrayGetPlane cuArrayGetSparseProperties cuMipmappedArrayCreate
    cuMipmappedArrayDestroy cuMipmappedArrayGetLevel cuMipmappedArrayGetMemoryRequirements
    cuMipmappedArrayGetSparseProperties cuSurfObjectCreate cuSurfObjectDestroy
    cuSurfObjectGetResourceDesc cuSurfRefGetArray cuSurfRefSetArray cuTensorMapEncodeIm2col
    cuTensorMapEncodeIm2colWide cuTensorMapEncodeTiled cuTensorMapReplaceAddress
    cuTensorMapSetAllocationClass cuTexObjectCreate cuTexObjectDestroy cuTexObjectGetResourceDesc
    cuTexObjectGetResourceViewDesc cuTexObjectGetTextureDesc cuTexRefCreate cuTexRefDestroy
    cuTexRefGetAddress cuTexRefGetAddress_v2 cuTexRefGetAddressMode cuTexRefGetArray
    cuTexRefGetBorderColor cuTexRefGetFilterMode cuTexRefGetFlags cuTexRefGetFormat
    cuTexRefGetMaxAnisotropy cuTexRefGetMipmapFilterMode cuTexRefGetMipmapLevelBias
    cuTexRefGetMipmapLevelClamp cuTexRefGetMipmappedArray cuTexRefSetAddress cuTexRefSetAddress_v2
    cuTexRefSetAddress2D cuTexRefSetAddress2D_v2 cuTexRefSetAddress2D_v3 cuTexRefSetAddressMode
    cuTexRefSetArray cuTexRefSetBorderColor cuTexRefSetFilterMode cuTexRefSetFlags
    cuTexRefSetFormat cuTexRefSetMaxAnisotropy cuTexRefSetMipmapFilterMode
    cuTexRefSetMipmapLevelBias cuTexRefSetMipmapLevelClamp cuTexRefSetMipmappedArray
    // Streams.
    cuDestroyExternalMemory cuDestroyExternalSemaphore cuExternalMemoryGetMappedBuffer
    cuExternalMemoryGetMappedMipmappedArray cuImportExternalMemory cuImportExternalSemaphore
    cuSignalExternalSemaphoresAsync cuSignalExternalSemaphoresAsync_ptsz cuStreamAddCallback
    cuStreamAddCallback_ptsz cuStreamAttachMemAsync cuStreamAttachMemAsync_ptsz cuStreamBatchMemOp
    cuStreamBatchMemOp_v2 cuStreamBatchMemOp_ptsz cuStreamBatchMemOp_v2_ptsz cuStreamBeginCapture
    cuStreamBeginCapture_v2 cuStreamBeginCapture_ptsz cuStreamBeginCapture_v2_ptsz
    cuStreamBeginCaptureToCig cuStreamBeginCaptureToCig_ptsz cuStreamBeginCaptureToGraph
    cuStreamBeginCaptureToGraph_ptsz cuStreamBeginRecaptureToGraph
    cuStreamBeginRecaptureToGraph_ptsz cuStreamCopyAttributes cuStreamCopyAttributes_ptsz
    cuStreamCreate cuStreamCreateWithPriority cuStreamDestroy cuStreamDestroy_v2 cuStreamEndCapture
    cuStreamEndCapture_ptsz cuStreamEndCaptureToCig cuStreamEndCaptureToCig_ptsz
    cuStreamGetAttribute cuStreamGetAttribute_ptsz cuStreamGetCaptureInfo cuStreamGetCaptureInfo_v2
    cuStreamGetCaptureInfo_v3 cuStreamGetCaptureInfo_ptsz cuStreamGetCaptureInfo_v2_ptsz
    cuStreamGetCaptureInfo_v3_ptsz cuStreamGetCtx cuStreamGetCtx_v2 cuStreamGetCtx_ptsz
    cuStreamGetCtx_v2_ptsz cuStreamGetDevResource cuStreamGetDevResource_ptsz cuStreamGetDevice
    cuStreamGetDevice_ptsz cuStreamGetFlags cuStreamGetFlags_ptsz cuStreamGetGreenCtx cuStreamGetId
    cuStreamGetId_ptsz cuStreamGetPriority cuStreamGetPriority_ptsz cuStreamIsCapturing
    cuStreamIsCapturing_ptsz cuStreamQuery cuStreamQuery_ptsz cuStreamSetAttribute
    cuStreamSetAttribute_ptsz cuStreamSynchronize cuStreamSynchronize_ptsz
    cuStreamUpdateCaptureDependencies cuStreamUpdateCaptureDependencies_v2
    cuStreamUpdateCaptureDependencies_ptsz cuStreamUpdateCaptureDependencies_v2_ptsz
    cuStreamWaitEvent cuStreamWaitEvent_ptsz cuStreamWaitValue32 cuStreamWaitValue32_v2
    cuStreamWaitValue32_ptsz cuStreamWaitValue32_v2_ptsz cuStreamWaitValue64 cuStreamWaitValue64_v2
    cuStreamWaitValue64_ptsz cuStreamWaitValue64_v2_ptsz cuStreamWriteValue32
    cuStreamWriteValue32_v2 cuStreamWriteValue32_ptsz cuStreamWriteValue32_v2_ptsz
    cuStreamWriteValue64 cuStreamWriteValue64_v2 cuStreamWriteValue64_ptsz
    cuStreamWriteValue64_v2_ptsz cuWaitExternalSemaphoresAsync cuWaitExternalSemaphoresAsync_ptsz
    // Events.
    cuEventCreate cuEventCreateFromEGLSync cuEventDestroy cuEventDestroy_v2 cuEventElapsedTime
    cuEventElapsedTime_v2 cuEventQuery cuEventRecord cuEventRecord_ptsz cuEventRecordWithFlags
    cuEventRecordWithFlags_ptsz cuEventSynchronize
    // Graphs.
    cuGraphAddBatchMemOpNode cuGraphAddChildGraphNode cuGraphAddDependencies
    cuGraphAddDependencies_v2 cuGraphAddEmptyNode cuGraphAddEventRecordNode cuGraphAddEventWaitNode
    cuGraphAddExternalSemaphoresSignalNode cuGraphAddExternalSemaphoresWaitNode cuGraphAddHostNode
    cuGraphAddKernelNode cuGraphAddKernelNode_v2 cuGraphAddMemAllocNode cuGraphAddMemFreeNode
    cuGraphAddMemcpyNode cuGraphAddMemsetNode cuGraphAddNode cuGraphAddNode_v2 cuGraphAddNode_v3
    cuGraphBatchMemOpNodeGetParams cuGraphBatchMemOpNodeSetParams cuGraphChildGraphNodeGetGraph
    cuGraphClone cuGraphConditionalHandleCreate cuGraphCreate cuGraphDebugDotPrint cuGraphDestroy
    cuGraphDestroyNode cuGraphEventRecordNodeGetEvent cuGraphEventRecordNodeSetEvent
    cuGraphEventWaitNodeGetEvent cuGraphEventWaitNodeSetEvent cuGraphExecBatchMemOpNodeSetParams
    cuGraphExecChildGraphNodeSetParams cuGraphExecDestroy cuGraphExecEventRecordNodeSetEvent
    cuGraphExecEventWaitNodeSetEvent cuGraphExecExternalSemaphoresSignalNodeSetParams
    cuGraphExecExternalSemaphoresWaitNodeSetParams cuGraphExecGetFlags cuGraphExecGetId
    cuGraphExecHostNodeSetParams cuGraphExecKernelNodeSetParams cuGraphExecKernelNodeSetParams_v2
    cuGraphExecMemcpyNodeSetParams cuGraphExecMemsetNodeSetParams cuGraphExecNodeSetParams
    cuGraphExecUpdate cuGraphExecUpdate_v2 cuGraphExternalSemaphoresSignalNodeGetParams
    cuGraphExternalSemaphoresSignalNodeSetParams cuGraphExternalSemaphoresWaitNodeGetParams
    cuGraphExternalSemaphoresWaitNodeSetParams cuGraphGetEdges cuGraphGetEdges_v2 cuGraphGetId
    cuGraphGetNodes cuGraphGetRootNodes cuGraphHostNodeGetParams cuGraphHostNodeSetParams
    cuGraphInstantiate cuGraphInstantiate_v2 cuGraphInstantiateWithFlags
    cuGraphInstantiateWithParams cuGraphInstantiateWithParams_ptsz cuGraphKernelNodeCopyAttributes
    cuGraphKernelNodeGetAttribute cuGraphKernelNodeGetParams cuGraphKernelNodeGetParams_v2
    cuGraphKernelNodeSetAttribute cuGraphKernelNodeSetParams cuGraphKernelNodeSetParams_v2
    cuGraphLaunch cuGraphLaunch_ptsz cuGraphMemAllocNodeGetParams cuGraphMemFreeNodeGetParams
    cuGraphMemcpyNodeGetParams cuGraphMemcpyNodeSetParams cuGraphMemsetNodeGetParams
    cuGraphMemsetNodeSetParams cuGraphNodeFindInClone cuGraphNodeGetContainingGraph
    cuGraphNodeGetDependencies cuGraphNodeGetDependencies_v2 cuGraphNodeGetDependentNodes
    cuGraphNodeGetDependentNodes_v2 cuGraphNodeGetEnabled cuGraphNodeGetLocalId
    cuGraphNodeGetParams cuGraphNodeGetToolsId cuGraphNodeGetType cuGraphNodeSetEnabled
    cuGraphNodeSetParams cuGraphNodeSetParams_v2 cuGraphReleaseUserObject cuGraphRemoveDependencies
    cuGraphRemoveDependencies_v2 cuGraphRetainUserObject cuGraphUpload cuGraphUpload_ptsz
    cuUserObjectCreate cuUserObjectRelease cuUserObjectRetain
    // Graphics.
    cuEGLStreamConsumerAcquireFrame cuEGLStreamConsumerConnect cuEGLStreamConsumerConnectWithFlags
    cuEGLStreamConsumerDisconnect cuEGLStreamConsumerReleaseFrame cuEGLStreamProducerConnect
    cuEGLStreamProducerDisconnect cuEGLStreamProducerPresentFrame cuEGLStreamProducerReturnFrame
    cuGLCtxCreate cuGLCtxCreate_v2 cuGLGetDevices cuGLGetDevices_v2 cuGLInit cuGLMapBufferObject
    cuGLMapBufferObject_v2 cuGLMapBufferObject_v2_ptds cuGLMapBufferObjectAsync
    cuGLMapBufferObjectAsync_v2 cuGLMapBufferObjectAsync_v2_ptsz cuGLRegisterBufferObject
    cuGLSetBufferObjectMapFlags cuGLUnmapBufferObject cuGLUnmapBufferObjectAsync
    cuGLUnregisterBufferObject cuGraphicsEGLRegisterImage cuGraphicsGLRegisterBuffer
    cuGraphicsGLRegisterImage cuGraphicsMapResources cuGraphicsMapResources_ptsz
    cuGraphicsResourceGetMappedEglFrame cuGraphicsResourceGetMappedMipmappedArray
    cuGraphicsResourceGetMappedPointer cuGraphicsResourceGetMappedPointer_v2
    cuGraphicsResourceSetMapFlags cuGraphicsResourceSetMapFlags_v2
    cuGraphicsSubResourceGetMappedArray cuGraphicsUnmapResources cuGraphicsUnmapResources_ptsz
    cuGraphicsUnregisterResource cuGraphicsVDPAURegisterOutputSurface
    cuGraphicsVDPAURegisterVideoSurface cuVDPAUCtxCreate cuVDPAUCtxCreate_v2 cuVDPAUGetDevice
    // Checkpoints, core dumps and logs.
    cuCheckpointOperationComplete cuCheckpointProcessCheckpoint
    cuCheckpointProcessGetRestoreThreadId cuCheckpointProcessGetState cuCheckpointProcessLock
    cuCheckpointProcessRestore cuCheckpointProcessUnlock cuCoredumpDeregisterCompleteCallback
    cuCoredumpDeregisterStartCallback cuCoredumpGetAttribute cuCoredumpGetAttributeGlobal
    cuCoredumpRegisterCompleteCallback cuCoredumpRegisterStartCallback cuCoredumpSetAttribute
    cuCoredumpSetAttributeGlobal cuLogsCurrent cuLogsDumpToFile cuLogsDumpToMemory
    cuLogsRegisterCallback cuLogsUnregisterCallback
}

/// The address of an exported symbol.
pub(crate) fn address_of(symbol: &str) -> Option<*const c_void> {
    use std::collections::HashMap;
    use std::sync::LazyLock;

    static BY_NAME: LazyLock<HashMap<&str, Address>> =
        LazyLock::new(|| SYMBOLS.iter().copied().collect());
    BY_NAME.get(symbol).map(|address| address.0)
}

/// All exported symbols.
#[cfg(test)]
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    SYMBOLS.iter().map(|(name, _)| *name)
}
