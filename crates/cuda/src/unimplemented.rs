//! Functions that are exported and do nothing: each returns `CUDA_ERROR_NOT_SUPPORTED`, or
//! `CUDA_ERROR_NOT_INITIALIZED` before `cuInit`.
//!
//! Clients and linkers want every name of `cuda.h` to exist. An implementation of a function
//! deletes its line here; a symbol that is defined twice, or not at all, does not link. The file is
//! long because it is one list.
#![expect(
    unsafe_code,
    reason = "exports symbols under the names that clients look up"
)]

use ptxjit_driver::types::CUresult;

/// Exports functions without parameters, which is what a caller that passes some also finds: the
/// arguments of C's calling convention belong to the caller.
macro_rules! not_supported {
    ($($name:ident)*) => {
        /// Names of the functions that are not implemented.
        #[cfg(test)]
        pub(crate) const NOT_SUPPORTED: &[&str] = &[$(stringify!($name)),*];

        $(
            #[doc = concat!("`", stringify!($name), "` is not supported.")]
            #[unsafe(no_mangle)]
            pub(crate) extern "C" fn $name() -> CUresult {
                crate::unsupported(stringify!($name))
            }
        )*
    };
}

not_supported! {
    // Start and entry points.
    // Devices.
    cuDeviceGetCliqueCount
    cuDeviceGetCliqueInfo
    cuDeviceGetDevResource
    cuDeviceGetExecAffinitySupport
    cuDeviceGetFabricClusterUuid
    cuDeviceGetHostAtomicCapabilities
    cuDeviceGetLuid
    cuDeviceGetNvSciSyncAttributes
    cuDeviceGetP2PAtomicCapabilities
    cuDeviceGetTexture1DLinearMaxWidth
    cuDevicePrimaryCtxRelease
    cuDevicePrimaryCtxReset
    cuDevicePrimaryCtxSetFlags
    cuDeviceRegisterAsyncNotification
    cuDeviceTotalMem
    cuDeviceUnregisterAsyncNotification
    // Contexts.
    cuCtxFromGreenCtx
    cuCtxGetDevResource
    cuCtxGetExecAffinity
    cuCtxRecordEvent
    cuCtxWaitEvent
    cuDevResourceGenerateDesc
    cuDevSmResourceSplit
    cuDevSmResourceSplitByCount
    cuGreenCtxCreate
    cuGreenCtxDestroy
    cuGreenCtxGetDevResource
    cuGreenCtxGetId
    cuGreenCtxRecordEvent
    cuGreenCtxStreamCreate
    cuGreenCtxWaitEvent
    // Modules and the linker.
    cuModuleGetGlobal
    cuModuleGetSurfRef
    cuModuleGetTexRef
    // Libraries and kernels.
    cuLibraryGetUnifiedFunction
    // Functions and launches.
    cuLaunchCooperativeKernelMultiDevice
    // Copies.
    cuFabricCpyBatchAsync
    cuFabricCpyBatchAsync_ptsz
    cuMemcpy2D
    cuMemcpy2DAsync
    cuMemcpy2DUnaligned
    cuMemcpy3D
    cuMemcpy3DAsync
    cuMemcpyAtoA
    cuMemcpyAtoD
    cuMemcpyAtoH
    cuMemcpyAtoHAsync
    cuMemcpyDtoA
    cuMemcpyDtoD
    cuMemcpyDtoDAsync
    cuMemcpyDtoH
    cuMemcpyDtoHAsync
    cuMemcpyHtoA
    cuMemcpyHtoAAsync
    cuMemcpyHtoD
    cuMemcpyHtoDAsync
    // Fills.
    cuMemsetD16
    cuMemsetD2D16
    cuMemsetD2D32
    cuMemsetD2D8
    cuMemsetD32
    cuMemsetD8
    // Memory.
    cuIpcCloseMemHandle
    cuIpcGetEventHandle
    cuIpcGetMemHandle
    cuIpcOpenEventHandle
    cuIpcOpenMemHandle
    cuIpcOpenMemHandle_v2
    cuLogicalEndpointAddDevice
    cuLogicalEndpointBindAddr
    cuLogicalEndpointBindMem
    cuLogicalEndpointCreate
    cuLogicalEndpointDestroy
    cuLogicalEndpointExport
    cuLogicalEndpointGetLimits
    cuLogicalEndpointIdRelease
    cuLogicalEndpointIdReserve
    cuLogicalEndpointImport
    cuLogicalEndpointQuery
    cuLogicalEndpointUnbind
    cuMemAlloc
    cuMemAllocHost
    cuMemAllocPitch
    cuMemBatchDecompressAsync
    cuMemBatchDecompressAsync_ptsz
    cuMemExportToShareableHandle
    cuMemFree
    cuMemGetAddressRange
    cuMemGetHandleForAddressRange
    cuMemGetInfo
    cuMemGetLocationInfo
    cuMemHostGetDevicePointer
    cuMemHostRegister
    cuMemImportFromShareableHandle
    cuMemMapArrayAsync
    cuMemMapArrayAsync_ptsz
    cuMemPoolExportPointer
    cuMemPoolExportToShareableHandle
    cuMemPoolImportFromShareableHandle
    cuMemPoolImportPointer
    cuMulticastAddDevice
    cuMulticastBindAddr
    cuMulticastBindAddr_v2
    cuMulticastBindMem
    cuMulticastBindMem_v2
    cuMulticastCreate
    cuMulticastGetGranularity
    cuMulticastUnbind
    // Arrays, textures and surfaces.
    cuArray3DCreate
    cuArray3DGetDescriptor
    cuArrayCreate
    cuArrayGetDescriptor
    cuArrayGetPlane
    cuArrayGetSparseProperties
    cuMipmappedArrayGetSparseProperties
    cuSurfRefGetArray
    cuSurfRefSetArray
    cuTensorMapSetAllocationClass
    cuTexRefGetAddress
    cuTexRefSetAddress
    cuTexRefSetAddress2D
    // Streams.
    cuDestroyExternalMemory
    cuDestroyExternalSemaphore
    cuExternalMemoryGetMappedBuffer
    cuExternalMemoryGetMappedMipmappedArray
    cuImportExternalMemory
    cuImportExternalSemaphore
    cuSignalExternalSemaphoresAsync
    cuSignalExternalSemaphoresAsync_ptsz
    cuStreamBeginCaptureToCig
    cuStreamBeginCaptureToCig_ptsz
    cuStreamBeginRecaptureToGraph
    cuStreamBeginRecaptureToGraph_ptsz
    cuStreamDestroy
    cuStreamEndCaptureToCig
    cuStreamEndCaptureToCig_ptsz
    cuStreamGetCtx_v2
    cuStreamGetCtx_v2_ptsz
    cuStreamGetDevResource
    cuStreamGetDevResource_ptsz
    cuStreamGetGreenCtx
    cuWaitExternalSemaphoresAsync
    cuWaitExternalSemaphoresAsync_ptsz
    // Events.
    cuEventCreateFromEGLSync
    cuEventDestroy
    // Graphs.
    cuGraphAddExternalSemaphoresSignalNode
    cuGraphAddExternalSemaphoresWaitNode
    cuGraphExecExternalSemaphoresSignalNodeSetParams
    cuGraphExecExternalSemaphoresWaitNodeSetParams
    cuGraphExternalSemaphoresSignalNodeGetParams
    cuGraphExternalSemaphoresSignalNodeSetParams
    cuGraphExternalSemaphoresWaitNodeGetParams
    cuGraphExternalSemaphoresWaitNodeSetParams
    // Graphics.
    cuEGLStreamConsumerAcquireFrame
    cuEGLStreamConsumerConnect
    cuEGLStreamConsumerConnectWithFlags
    cuEGLStreamConsumerDisconnect
    cuEGLStreamConsumerReleaseFrame
    cuEGLStreamProducerConnect
    cuEGLStreamProducerDisconnect
    cuEGLStreamProducerPresentFrame
    cuEGLStreamProducerReturnFrame
    cuGLCtxCreate
    cuGLCtxCreate_v2
    cuGLGetDevices
    cuGLGetDevices_v2
    cuGLInit
    cuGLMapBufferObject
    cuGLMapBufferObject_v2
    cuGLMapBufferObject_v2_ptds
    cuGLMapBufferObjectAsync
    cuGLMapBufferObjectAsync_v2
    cuGLMapBufferObjectAsync_v2_ptsz
    cuGLRegisterBufferObject
    cuGLSetBufferObjectMapFlags
    cuGLUnmapBufferObject
    cuGLUnmapBufferObjectAsync
    cuGLUnregisterBufferObject
    cuGraphicsEGLRegisterImage
    cuGraphicsGLRegisterBuffer
    cuGraphicsGLRegisterImage
    cuGraphicsMapResources
    cuGraphicsMapResources_ptsz
    cuGraphicsResourceGetMappedEglFrame
    cuGraphicsResourceGetMappedMipmappedArray
    cuGraphicsResourceGetMappedPointer
    cuGraphicsResourceGetMappedPointer_v2
    cuGraphicsResourceSetMapFlags
    cuGraphicsResourceSetMapFlags_v2
    cuGraphicsSubResourceGetMappedArray
    cuGraphicsUnmapResources
    cuGraphicsUnmapResources_ptsz
    cuGraphicsUnregisterResource
    cuGraphicsVDPAURegisterOutputSurface
    cuGraphicsVDPAURegisterVideoSurface
    cuVDPAUCtxCreate
    cuVDPAUCtxCreate_v2
    cuVDPAUGetDevice
    // Checkpoints and core dumps.
    cuCheckpointOperationComplete
    cuCheckpointProcessCheckpoint
    cuCheckpointProcessGetRestoreThreadId
    cuCheckpointProcessGetState
    cuCheckpointProcessLock
    cuCheckpointProcessRestore
    cuCheckpointProcessUnlock
    cuCoredumpDeregisterCompleteCallback
    cuCoredumpDeregisterStartCallback
    cuCoredumpGetAttribute
    cuCoredumpGetAttributeGlobal
    cuCoredumpRegisterCompleteCallback
    cuCoredumpRegisterStartCallback
    cuCoredumpSetAttribute
    cuCoredumpSetAttributeGlobal
}
