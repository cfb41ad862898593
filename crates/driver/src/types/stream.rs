//! Streams, events and capture.

use super::handle::{CUcontext, CUdeviceptr, HostPtr};
use super::raw::{Union, c_enums, c_structs};

c_enums! {
    /// Flags of a stream.
    CUstream_flags(u32, "CU_STREAM_") {
        DEFAULT = 0,
        NON_BLOCKING = 1,
    }

    /// Flags of an event.
    CUevent_flags(u32, "CU_EVENT_") {
        DEFAULT = 0,
        BLOCKING_SYNC = 1,
        DISABLE_TIMING = 2,
        INTERPROCESS = 4,
    }

    /// Flags of recording an event.
    CUevent_record_flags(u32, "CU_EVENT_RECORD_") {
        DEFAULT = 0,
        EXTERNAL = 1,
    }

    /// Flags of waiting for an event.
    CUevent_wait_flags(u32, "CU_EVENT_WAIT_") {
        DEFAULT = 0,
        EXTERNAL = 1,
    }

    /// How a stream waits for a host function.
    CUhostTaskSyncMode(u32, "CU_HOST_TASK_") {
        BLOCKING = 0,
        SPINWAIT = 1,
    }

    /// What a stream waits for in memory.
    CUstreamWaitValue_flags(u32, "CU_STREAM_WAIT_VALUE_") {
        GEQ = 0,
        EQ = 1,
        AND = 2,
        NOR = 3,
        FLUSH = 0x4000_0000,
    }

    /// Flags of a stream's write to memory.
    CUstreamWriteValue_flags(u32, "CU_STREAM_WRITE_VALUE_") {
        DEFAULT = 0,
        NO_MEMORY_BARRIER = 1,
    }

    /// Operations of `cuStreamBatchMemOp`.
    CUstreamBatchMemOpType(u32, "CU_STREAM_MEM_OP_") {
        WAIT_VALUE_32 = 1,
        WRITE_VALUE_32 = 2,
        WAIT_VALUE_64 = 4,
        WRITE_VALUE_64 = 5,
        BARRIER = 6,
        ATOMIC_REDUCTION = 8,
        FLUSH_REMOTE_WRITES = 3,
    }

    /// Scope of a memory barrier in a stream.
    CUstreamMemoryBarrier_flags(u32, "CU_STREAM_MEMORY_BARRIER_TYPE_") {
        SYS = 0,
        GPU = 1,
    }

    /// Reductions of a stream to memory.
    CUstreamAtomicReductionOpType(u32, "CU_STREAM_ATOMIC_REDUCTION_OP_") {
        OR = 6,
        AND = 5,
        ADD = 0,
    }

    /// Types of a stream's reductions.
    CUstreamAtomicReductionDataType(u32, "CU_STREAM_ATOMIC_REDUCTION_") {
        UNSIGNED_32 = 14,
        UNSIGNED_64 = 22,
    }

    /// Whether a stream is capturing.
    CUstreamCaptureStatus(u32, "CU_STREAM_CAPTURE_STATUS_") {
        NONE = 0,
        ACTIVE = 1,
        INVALIDATED = 2,
    }

    /// Which calls a capture forbids, and to whom.
    CUstreamCaptureMode(u32, "CU_STREAM_CAPTURE_MODE_") {
        GLOBAL = 0,
        THREAD_LOCAL = 1,
        RELAXED = 2,
    }

    /// Whether dependencies are added or replaced.
    CUstreamUpdateCaptureDependencies_flags(u32, "CU_STREAM_") {
        ADD_CAPTURE_DEPENDENCIES = 0,
        SET_CAPTURE_DEPENDENCIES = 1,
    }

    /// Kinds of graphics data that a stream can capture to.
    CUstreamCigDataType(u32, "STREAM_CIG_DATA_TYPE_") {
        D3D12_COMMAND_LIST = 1,
        VULKAN_COMMAND_BUFFER_HANDLE_NV = 2,
    }
}

c_structs! {
    /// A wait for or a write of a value in memory.
    #[derive(Eq)]
    CUstreamMemOpValueParams {
        operation: CUstreamBatchMemOpType,
        address: CUdeviceptr,
        /// The first four bytes are the value of the 32-bit operations.
        value: Union<8>,
        flags: u32,
        alias: CUdeviceptr,
    }

    /// A flush of remote writes, or a memory barrier.
    #[derive(Eq)]
    CUstreamMemOpFlagsParams {
        operation: CUstreamBatchMemOpType,
        flags: u32,
    }

    /// A reduction to memory.
    #[derive(Eq)]
    CUstreamMemOpAtomicReductionParams {
        operation: CUstreamBatchMemOpType,
        flags: u32,
        reductionOp: CUstreamAtomicReductionOpType,
        dataType: CUstreamAtomicReductionDataType,
        address: CUdeviceptr,
        value: u64,
        alias: CUdeviceptr,
    }

    /// An operation of `cuStreamBatchMemOp`: a union, whose variants all start with the operation.
    #[derive(Eq)]
    CUstreamBatchMemOpParams {
        bytes: Union<48>,
    }

    /// A batch-mem-op node, in its own functions and in [`super::graph::CUgraphNodeParams`] alike.
    #[derive(Eq)]
    CUDA_BATCH_MEM_OP_NODE_PARAMS {
        ctx: CUcontext,
        count: u32,
        /// Points to `count` of [`CUstreamBatchMemOpParams`].
        paramArray: HostPtr,
        flags: u32,
    }

    /// Graphics data that a stream captures to.
    #[derive(Eq)]
    CUstreamCigParam {
        streamSharedDataType: CUstreamCigDataType,
        streamSharedData: HostPtr,
    }
}

impl CUstreamMemOpValueParams {
    /// The value of the 32-bit operations.
    #[must_use]
    pub fn value32(&self) -> u32 {
        self.value.get(0)
    }

    /// The value of the 64-bit operations.
    #[must_use]
    pub fn value64(&self) -> u64 {
        self.value.get(0)
    }
}

impl CUstreamBatchMemOpParams {
    /// Which operation it is.
    #[must_use]
    pub fn operation(&self) -> CUstreamBatchMemOpType {
        self.bytes.get(0)
    }

    /// The parameters of the waits and writes of values.
    #[must_use]
    pub fn value(&self) -> CUstreamMemOpValueParams {
        self.bytes.get(0)
    }

    /// The parameters of a flush of remote writes and of a memory barrier.
    #[must_use]
    pub fn flags(&self) -> CUstreamMemOpFlagsParams {
        self.bytes.get(0)
    }

    /// The parameters of a reduction.
    #[must_use]
    pub fn atomic_reduction(&self) -> CUstreamMemOpAtomicReductionParams {
        self.bytes.get(0)
    }
}
