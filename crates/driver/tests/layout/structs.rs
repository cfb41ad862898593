//! Layouts of structs: size, alignment and the offset of every field are those of cudarc.

use std::mem::{align_of, offset_of, size_of};

use cudarc::driver::sys;
use ptxjit_driver::types::*;

/// For each struct, its fields; `ours = theirs` where cudarc's generator made up a name.
macro_rules! same_layouts {
    (@offset $theirs:ident, $field:ident) => { offset_of!($theirs, $field) };
    (@offset $theirs:ident, $field:ident = $other:ident) => { offset_of!($theirs, $other) };
    ($($ours:ident as $theirs:path { $($field:ident $(= $other:ident)?,)* })*) => {
        #[test]
        fn layouts_are_those_of_cuda_h() {
            let mut wrong = Vec::new();
            $({
                type Theirs = $theirs;
                let name = stringify!($ours);
                if size_of::<$ours>() != size_of::<Theirs>() {
                    let (ours, theirs) = (size_of::<$ours>(), size_of::<Theirs>());
                    wrong.push(format!("{name} has {ours} bytes, not {theirs}"));
                }
                if align_of::<$ours>() != align_of::<Theirs>() {
                    let (ours, theirs) = (align_of::<$ours>(), align_of::<Theirs>());
                    wrong.push(format!("{name} is aligned to {ours}, not {theirs}"));
                }
                $(
                    let ours = offset_of!($ours, $field);
                    let theirs = same_layouts!(@offset Theirs, $field $(= $other)?);
                    if ours != theirs {
                        let field = stringify!($field);
                        wrong.push(format!("{name}::{field} lies at {ours}, not {theirs}"));
                    }
                )*
            })*
            assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        }
    };
}

same_layouts! {
    CUDA_MEMCPY2D_v2 as sys::CUDA_MEMCPY2D_v2 {
        srcXInBytes, srcY, srcMemoryType, srcHost, srcDevice, srcArray, srcPitch, dstXInBytes, dstY,
        dstMemoryType, dstHost, dstDevice, dstArray, dstPitch, WidthInBytes, Height,
    }
    CUDA_MEMCPY3D_v2 as sys::CUDA_MEMCPY3D_v2 {
        srcXInBytes, srcY, srcZ, srcLOD, srcMemoryType, srcHost, srcDevice, srcArray, reserved0,
        srcPitch, srcHeight, dstXInBytes, dstY, dstZ, dstLOD, dstMemoryType, dstHost, dstDevice,
        dstArray, reserved1, dstPitch, dstHeight, WidthInBytes, Height, Depth,
    }
    CUDA_MEMCPY3D_PEER_v1 as sys::CUDA_MEMCPY3D_PEER_v1 {
        srcXInBytes, srcY, srcZ, srcLOD, srcMemoryType, srcHost, srcDevice, srcArray, srcContext,
        srcPitch, srcHeight, dstXInBytes, dstY, dstZ, dstLOD, dstMemoryType, dstHost, dstDevice,
        dstArray, dstContext, dstPitch, dstHeight, WidthInBytes, Height, Depth,
    }
    CUmemcpyAttributes as sys::CUmemcpyAttributes {
        srcAccessOrder, srcLocHint, dstLocHint, flags,
    }
    CUoffset3D as sys::CUoffset3D {
        x, y, z,
    }
    CUextent3D as sys::CUextent3D {
        width, height, depth,
    }
    CUmemcpy3DPointerOperand as sys::CUmemcpy3DOperand_st__bindgen_ty_1__bindgen_ty_1 {
        ptr, rowLength, layerHeight, locHint,
    }
    CUmemcpy3DArrayOperand as sys::CUmemcpy3DOperand_st__bindgen_ty_1__bindgen_ty_2 {
        array, offset,
    }
    CUmemcpy3DOperand as sys::CUmemcpy3DOperand {
        type_, op,
    }
    CUDA_MEMCPY3D_BATCH_OP as sys::CUDA_MEMCPY3D_BATCH_OP {
        src, dst, extent, srcAccessOrder, flags,
    }
    CUdevprop as sys::CUdevprop {
        maxThreadsPerBlock, maxThreadsDim, maxGridSize, sharedMemPerBlock, totalConstantMemory,
        SIMDWidth, memPitch, regsPerBlock, clockRate, textureAlign,
    }
    CUexecAffinityParam as sys::CUexecAffinityParam {
        type_, sm_count = param,
    }
    CUctxCigParam as sys::CUctxCigParam {
        sharedDataType, sharedData,
    }
    CUctxCreateParams as sys::CUctxCreateParams {
        execAffinityParams, numExecAffinityParams, cigParams,
    }
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC as sys::CUDA_EXTERNAL_MEMORY_HANDLE_DESC {
        type_, handle, size, flags, reserved,
    }
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC as sys::CUDA_EXTERNAL_MEMORY_BUFFER_DESC {
        offset, size, flags, reserved,
    }
    CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC as sys::CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC {
        offset, arrayDesc, numLevels, reserved,
    }
    CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC as sys::CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC {
        type_, handle, flags, reserved,
    }
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS as sys::CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS {
        params, flags, reserved,
    }
    CUsemaphoreSignal as sys::CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS_st__bindgen_ty_1 {
        fence_value = fence, nvSciSync, keyedMutex_key = keyedMutex, reserved,
    }
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS as sys::CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS {
        params, flags, reserved,
    }
    CUsemaphoreWait as sys::CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS_st__bindgen_ty_1 {
        fence_value = fence, nvSciSync, keyedMutex, reserved,
    }
    CUkeyedMutexWait as sys::CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS_st__bindgen_ty_1__bindgen_ty_3 {
        key, timeoutMs,
    }
    CUDA_KERNEL_NODE_PARAMS_v1 as sys::CUDA_KERNEL_NODE_PARAMS_v1 {
        func, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes,
        kernelParams, extra,
    }
    CUDA_KERNEL_NODE_PARAMS_v2 as sys::CUDA_KERNEL_NODE_PARAMS_v2 {
        func, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes,
        kernelParams, extra, kern, ctx,
    }
    CUDA_MEMCPY_NODE_PARAMS as sys::CUDA_MEMCPY_NODE_PARAMS {
        flags, reserved, copyCtx, copyParams,
    }
    CUDA_MEMSET_NODE_PARAMS_v1 as sys::CUDA_MEMSET_NODE_PARAMS_v1 {
        dst, pitch, value, elementSize, width, height,
    }
    CUDA_MEMSET_NODE_PARAMS_v2 as sys::CUDA_MEMSET_NODE_PARAMS_v2 {
        dst, pitch, value, elementSize, width, height, ctx,
    }
    CUDA_HOST_NODE_PARAMS_v1 as sys::CUDA_HOST_NODE_PARAMS_v1 {
        fn_, userData,
    }
    CUDA_HOST_NODE_PARAMS_v2 as sys::CUDA_HOST_NODE_PARAMS_v2 {
        fn_, userData, syncMode, ctx = __bindgen_anon_1,
    }
    CUDA_CHILD_GRAPH_NODE_PARAMS as sys::CUDA_CHILD_GRAPH_NODE_PARAMS {
        graph, ownership,
    }
    CUDA_EVENT_RECORD_NODE_PARAMS as sys::CUDA_EVENT_RECORD_NODE_PARAMS {
        event, ctx = __bindgen_anon_1,
    }
    CUDA_EVENT_WAIT_NODE_PARAMS as sys::CUDA_EVENT_WAIT_NODE_PARAMS {
        event,
    }
    CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v1 as sys::CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v1 {
        extSemArray, paramsArray, numExtSems,
    }
    CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v2 as sys::CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v2 {
        extSemArray, paramsArray, numExtSems, ctx = __bindgen_anon_1,
    }
    CUDA_EXT_SEM_WAIT_NODE_PARAMS_v1 as sys::CUDA_EXT_SEM_WAIT_NODE_PARAMS_v1 {
        extSemArray, paramsArray, numExtSems,
    }
    CUDA_EXT_SEM_WAIT_NODE_PARAMS_v2 as sys::CUDA_EXT_SEM_WAIT_NODE_PARAMS_v2 {
        extSemArray, paramsArray, numExtSems, ctx = __bindgen_anon_1,
    }
    CUDA_MEM_ALLOC_NODE_PARAMS as sys::CUDA_MEM_ALLOC_NODE_PARAMS {
        poolProps, accessDescs, accessDescCount, bytesize, dptr,
    }
    CUDA_MEM_FREE_NODE_PARAMS as sys::CUDA_MEM_FREE_NODE_PARAMS {
        dptr,
    }
    CUDA_CONDITIONAL_NODE_PARAMS as sys::CUDA_CONDITIONAL_NODE_PARAMS {
        handle, type_, size, phGraph_out, ctx,
    }
    CUgraphNodeParams as sys::CUgraphNodeParams {
        type_, reserved0, params = __bindgen_anon_1, reserved2,
    }
    CUgraphEdgeData as sys::CUgraphEdgeData {
        from_port, to_port, type_, reserved,
    }
    CUDA_GRAPH_INSTANTIATE_PARAMS as sys::CUDA_GRAPH_INSTANTIATE_PARAMS {
        flags, hUploadStream, hErrNode_out, result_out,
    }
    CUgraphExecUpdateResultInfo as sys::CUgraphExecUpdateResultInfo {
        result, errorNode, errorFromNode,
    }
    CUuuid as sys::CUuuid {
        bytes,
    }
    CUipcEventHandle as sys::CUipcEventHandle {
        reserved,
    }
    CUipcMemHandle as sys::CUipcMemHandle {
        reserved,
    }
    CUmemFabricHandle as sys::CUmemFabricHandle {
        data,
    }
    CUaccessPolicyWindow as sys::CUaccessPolicyWindow {
        base_ptr, num_bytes, hitRatio, hitProp, missProp,
    }
    CUlaunchMemSyncDomainMap as sys::CUlaunchMemSyncDomainMap {
        default_, remote,
    }
    CUclusterDim as sys::CUlaunchAttributeValue_union__bindgen_ty_1 {
        x, y, z,
    }
    CUprogrammaticEvent as sys::CUlaunchAttributeValue_union__bindgen_ty_2 {
        event, flags, triggerAtBlockStart,
    }
    CUlaunchCompletionEvent as sys::CUlaunchAttributeValue_union__bindgen_ty_3 {
        event, flags,
    }
    CUdeviceUpdatableKernelNode as sys::CUlaunchAttributeValue_union__bindgen_ty_5 {
        deviceUpdatable, devNode,
    }
    CUlaunchAttributeValue as sys::CUlaunchAttributeValue {}
    CUlaunchAttribute as sys::CUlaunchAttribute {
        id, pad, value,
    }
    CUlaunchConfig as sys::CUlaunchConfig {
        gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream,
        attrs, numAttrs,
    }
    CUDA_LAUNCH_PARAMS as sys::CUDA_LAUNCH_PARAMS {
        function, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes,
        hStream, kernelParams,
    }
    CUmemLocation as sys::CUmemLocation {
        type_, id = __bindgen_anon_1,
    }
    CUmemAccessDesc as sys::CUmemAccessDesc {
        location, flags,
    }
    CUmemAllocationFlags as sys::CUmemAllocationProp_st__bindgen_ty_1 {
        compressionType, gpuDirectRDMACapable, usage, reserved,
    }
    CUmemAllocationProp as sys::CUmemAllocationProp {
        type_, requestedHandleTypes, location, win32HandleMetaData, allocFlags,
    }
    CUmemPoolProps as sys::CUmemPoolProps {
        allocType, handleTypes, location, win32SecurityAttributes, maxSize, usage,
        gpuDirectRDMACapable, reserved,
    }
    CUmemPoolPtrExportData as sys::CUmemPoolPtrExportData {
        reserved,
    }
    CUmulticastObjectProp as sys::CUmulticastObjectProp {
        numDevices, size, handleTypes, flags,
    }
    CUDA_POINTER_ATTRIBUTE_P2P_TOKENS as sys::CUDA_POINTER_ATTRIBUTE_P2P_TOKENS {
        p2pToken, vaSpaceToken,
    }
    CUmemDecompressParams as sys::CUmemDecompressParams {
        srcNumBytes, dstNumBytes, dstActBytes, src, dst, algo, padding,
    }
    CUlibraryHostUniversalFunctionAndDataTable as sys::CUlibraryHostUniversalFunctionAndDataTable {
        functionTable, functionWindowSize, dataTable, dataWindowSize,
    }
    CUstreamMemOpValueParams as sys::CUstreamBatchMemOpParams_union_CUstreamMemOpWaitValueParams_st {
        operation, address, value = __bindgen_anon_1, flags, alias,
    }
    CUstreamMemOpFlagsParams as sys::CUstreamBatchMemOpParams_union_CUstreamMemOpMemoryBarrierParams_st {
        operation, flags,
    }
    CUstreamMemOpAtomicReductionParams as sys::CUstreamBatchMemOpParams_union_CUstreamMemOpAtomicReductionParams_st {
        operation, flags, reductionOp, dataType, address, value, alias,
    }
    CUstreamBatchMemOpParams as sys::CUstreamBatchMemOpParams {}
    CUDA_BATCH_MEM_OP_NODE_PARAMS as sys::CUDA_BATCH_MEM_OP_NODE_PARAMS {
        ctx, count, paramArray, flags,
    }
    CUstreamCigParam as sys::CUstreamCigParam {
        streamSharedDataType, streamSharedData,
    }
    CUDA_ARRAY_DESCRIPTOR_v2 as sys::CUDA_ARRAY_DESCRIPTOR_v2 {
        Width, Height, Format, NumChannels,
    }
    CUDA_ARRAY3D_DESCRIPTOR_v2 as sys::CUDA_ARRAY3D_DESCRIPTOR_v2 {
        Width, Height, Depth, Format, NumChannels, Flags,
    }
    CUtileExtent as sys::CUDA_ARRAY_SPARSE_PROPERTIES_st__bindgen_ty_1 {
        width, height, depth,
    }
    CUDA_ARRAY_SPARSE_PROPERTIES as sys::CUDA_ARRAY_SPARSE_PROPERTIES {
        tileExtent, miptailFirstLevel, miptailSize, flags, reserved,
    }
    CUDA_ARRAY_MEMORY_REQUIREMENTS as sys::CUDA_ARRAY_MEMORY_REQUIREMENTS {
        size, alignment, reserved,
    }
    CUlinearResource as sys::CUDA_RESOURCE_DESC_st__bindgen_ty_1__bindgen_ty_3 {
        devPtr, format, numChannels, sizeInBytes,
    }
    CUpitch2DResource as sys::CUDA_RESOURCE_DESC_st__bindgen_ty_1__bindgen_ty_4 {
        devPtr, format, numChannels, width, height, pitchInBytes,
    }
    CUDA_RESOURCE_DESC as sys::CUDA_RESOURCE_DESC {
        resType, res, flags,
    }
    CUDA_TEXTURE_DESC as sys::CUDA_TEXTURE_DESC {
        addressMode, filterMode, flags, maxAnisotropy, mipmapFilterMode, mipmapLevelBias,
        minMipmapLevelClamp, maxMipmapLevelClamp, borderColor, reserved,
    }
    CUDA_RESOURCE_VIEW_DESC as sys::CUDA_RESOURCE_VIEW_DESC {
        format, width, height, depth, firstMipmapLevel, lastMipmapLevel, firstLayer, lastLayer,
        reserved,
    }
    CUarrayMapInfo as sys::CUarrayMapInfo {
        resourceType, resource, subresourceType, subresource, memOperationType, memHandleType,
        memHandle, offset, deviceBitMask, flags, reserved,
    }
}
