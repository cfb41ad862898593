//! Graphs: the parameters of nodes, instantiation and updates.

use super::copy::CUDA_MEMCPY3D_v2;
use super::handle::{
    CUcontext, CUdeviceptr, CUevent, CUfunction, CUgraph, CUgraphConditionalHandle, CUgraphNode,
    CUkernel, CUstream, HostPtr,
};
use super::memory::CUmemPoolProps;
use super::raw::{Union, c_enums, c_structs};
use super::stream::CUDA_BATCH_MEM_OP_NODE_PARAMS;

c_enums! {
    /// Kinds of nodes.
    CUgraphNodeType(u32, "CU_GRAPH_NODE_TYPE_") {
        KERNEL = 0,
        MEMCPY = 1,
        MEMSET = 2,
        HOST = 3,
        GRAPH = 4,
        EMPTY = 5,
        WAIT_EVENT = 6,
        EVENT_RECORD = 7,
        EXT_SEMAS_SIGNAL = 8,
        EXT_SEMAS_WAIT = 9,
        MEM_ALLOC = 10,
        MEM_FREE = 11,
        BATCH_MEM_OP = 12,
        CONDITIONAL = 13,
        MEMCPY_BATCH = 14,
        RESERVED_16 = 16,
        EXTERNAL_ENGINE = 17,
        FABRIC_CPY_BATCH = 18,
    }

    /// Kinds of edges.
    CUgraphDependencyType(u32, "CU_GRAPH_DEPENDENCY_TYPE_") {
        DEFAULT = 0,
        PROGRAMMATIC = 1,
    }

    /// Kinds of conditional nodes.
    CUgraphConditionalNodeType(u32, "CU_GRAPH_COND_TYPE_") {
        IF = 0,
        WHILE = 1,
        SWITCH = 2,
    }

    /// Who owns the graph of a child graph node.
    CUgraphChildGraphNodeOwnership(i32, "CU_GRAPH_CHILD_GRAPH_OWNERSHIP_") {
        CLONE = 0,
        MOVE = 1,
        INVALID = -1,
    }

    /// Flags of instantiation.
    CUgraphInstantiate_flags(u32, "CUDA_GRAPH_INSTANTIATE_FLAG_") {
        AUTO_FREE_ON_LAUNCH = 1,
        UPLOAD = 2,
        DEVICE_LAUNCH = 4,
        USE_NODE_PRIORITY = 8,
    }

    /// Why instantiation failed.
    CUgraphInstantiateResult(u32, "CUDA_GRAPH_INSTANTIATE_") {
        SUCCESS = 0,
        ERROR = 1,
        INVALID_STRUCTURE = 2,
        NODE_OPERATION_NOT_SUPPORTED = 3,
        MULTIPLE_CTXS_NOT_SUPPORTED = 4,
        CONDITIONAL_HANDLE_UNUSED = 5,
    }

    /// Why an update failed.
    CUgraphExecUpdateResult(u32, "CU_GRAPH_EXEC_UPDATE_") {
        SUCCESS = 0,
        ERROR = 1,
        ERROR_TOPOLOGY_CHANGED = 2,
        ERROR_NODE_TYPE_CHANGED = 3,
        ERROR_FUNCTION_CHANGED = 4,
        ERROR_PARAMETERS_CHANGED = 5,
        ERROR_NOT_SUPPORTED = 6,
        ERROR_UNSUPPORTED_FUNCTION_CHANGE = 7,
        ERROR_ATTRIBUTES_CHANGED = 8,
    }

    /// What `cuGraphDebugDotPrint` prints.
    CUgraphDebugDot_flags(u32, "CU_GRAPH_DEBUG_DOT_FLAGS_") {
        VERBOSE = 1,
        RUNTIME_TYPES = 2,
        KERNEL_NODE_PARAMS = 4,
        MEMCPY_NODE_PARAMS = 8,
        MEMSET_NODE_PARAMS = 0x10,
        HOST_NODE_PARAMS = 0x20,
        EVENT_NODE_PARAMS = 0x40,
        EXT_SEMAS_SIGNAL_NODE_PARAMS = 0x80,
        EXT_SEMAS_WAIT_NODE_PARAMS = 0x100,
        KERNEL_NODE_ATTRIBUTES = 0x200,
        HANDLES = 0x400,
        MEM_ALLOC_NODE_PARAMS = 0x800,
        MEM_FREE_NODE_PARAMS = 0x1000,
        BATCH_MEM_OP_NODE_PARAMS = 0x2000,
        EXTRA_TOPO_INFO = 0x4000,
        CONDITIONAL_NODE_PARAMS = 0x8000,
        MEMCPY_BATCH_NODE_PARAMS = 0x1_0000,
        FABRIC_CPY_BATCH_NODE_PARAMS = 0x2_0000,
    }

    /// Flags of a user object.
    CUuserObject_flags(u32, "CU_USER_OBJECT_") {
        NO_DESTRUCTOR_SYNC = 1,
    }

    /// Flags of handing a user object to a graph.
    CUuserObjectRetain_flags(u32, "CU_GRAPH_USER_OBJECT_") {
        MOVE = 1,
    }

    /// What became of a node that was captured again.
    CUgraphRecaptureStatus(u32, "CU_GRAPH_RECAPTURE_") {
        ELIGIBLE_FOR_UPDATE = 0,
        INELIGIBLE_FOR_UPDATE = 1,
        ERROR = 2,
    }
}

/// Flag of a condition: it is set to its default value at each launch.
pub const CU_GRAPH_COND_ASSIGN_DEFAULT: u32 = 1;
/// Port of an edge: the kernel has ended.
pub const CU_GRAPH_KERNEL_NODE_PORT_DEFAULT: u8 = 0;
/// Port of an edge: all blocks have called for dependent launches.
pub const CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC: u8 = 1;
/// Port of an edge: all blocks have started.
pub const CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER: u8 = 2;

c_structs! {
    /// A kernel node, as CUDA 10 and 11 lay it out.
    #[derive(Eq)]
    CUDA_KERNEL_NODE_PARAMS_v1 {
        func: CUfunction,
        gridDimX: u32,
        gridDimY: u32,
        gridDimZ: u32,
        blockDimX: u32,
        blockDimY: u32,
        blockDimZ: u32,
        sharedMemBytes: u32,
        kernelParams: HostPtr,
        extra: HostPtr,
    }

    /// A kernel node, as CUDA 12 lays it out.
    #[derive(Eq)]
    CUDA_KERNEL_NODE_PARAMS_v2 {
        func: CUfunction,
        gridDimX: u32,
        gridDimY: u32,
        gridDimZ: u32,
        blockDimX: u32,
        blockDimY: u32,
        blockDimZ: u32,
        sharedMemBytes: u32,
        kernelParams: HostPtr,
        extra: HostPtr,
        kern: CUkernel,
        ctx: CUcontext,
    }

    /// A copy node in [`CUgraphNodeParams`].
    #[derive(Eq)]
    CUDA_MEMCPY_NODE_PARAMS {
        flags: i32,
        reserved: i32,
        copyCtx: CUcontext,
        copyParams: CUDA_MEMCPY3D_v2,
    }

    /// A memset node, in its own functions.
    #[derive(Eq)]
    CUDA_MEMSET_NODE_PARAMS_v1 {
        dst: CUdeviceptr,
        pitch: usize,
        value: u32,
        elementSize: u32,
        width: usize,
        height: usize,
    }

    /// A memset node in [`CUgraphNodeParams`].
    #[derive(Eq)]
    CUDA_MEMSET_NODE_PARAMS_v2 {
        dst: CUdeviceptr,
        pitch: usize,
        value: u32,
        elementSize: u32,
        width: usize,
        height: usize,
        ctx: CUcontext,
    }

    /// A host node, in its own functions.
    #[derive(Eq)]
    CUDA_HOST_NODE_PARAMS_v1 {
        /// A [`super::handle::CUhostFn`].
        fn_: HostPtr,
        userData: HostPtr,
    }

    /// A host node in [`CUgraphNodeParams`].
    #[derive(Eq)]
    CUDA_HOST_NODE_PARAMS_v2 {
        /// A [`super::handle::CUhostFn`].
        fn_: HostPtr,
        userData: HostPtr,
        syncMode: u32,
        ctx: CUcontext,
    }

    /// A child graph node.
    #[derive(Eq)]
    CUDA_CHILD_GRAPH_NODE_PARAMS {
        graph: CUgraph,
        ownership: CUgraphChildGraphNodeOwnership,
    }

    /// A node that records an event.
    #[derive(Eq)]
    CUDA_EVENT_RECORD_NODE_PARAMS {
        event: CUevent,
        ctx: CUcontext,
    }

    /// A node that waits for an event.
    #[derive(Eq)]
    CUDA_EVENT_WAIT_NODE_PARAMS {
        event: CUevent,
    }

    /// A node that signals semaphores of another API, in its own functions.
    #[derive(Eq)]
    CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v1 {
        extSemArray: HostPtr,
        paramsArray: HostPtr,
        numExtSems: u32,
    }

    /// A node that signals semaphores of another API, in [`CUgraphNodeParams`].
    #[derive(Eq)]
    CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v2 {
        extSemArray: HostPtr,
        paramsArray: HostPtr,
        numExtSems: u32,
        ctx: CUcontext,
    }

    /// A node that waits for semaphores of another API, in its own functions.
    #[derive(Eq)]
    CUDA_EXT_SEM_WAIT_NODE_PARAMS_v1 {
        extSemArray: HostPtr,
        paramsArray: HostPtr,
        numExtSems: u32,
    }

    /// A node that waits for semaphores of another API, in [`CUgraphNodeParams`].
    #[derive(Eq)]
    CUDA_EXT_SEM_WAIT_NODE_PARAMS_v2 {
        extSemArray: HostPtr,
        paramsArray: HostPtr,
        numExtSems: u32,
        ctx: CUcontext,
    }

    /// A node that allocates memory.
    #[derive(Eq)]
    CUDA_MEM_ALLOC_NODE_PARAMS {
        poolProps: CUmemPoolProps,
        /// Points to `accessDescCount` of [`super::memory::CUmemAccessDesc`].
        accessDescs: HostPtr,
        accessDescCount: usize,
        bytesize: usize,
        /// The address, which the call fills in.
        dptr: CUdeviceptr,
    }

    /// A node that frees memory.
    #[derive(Eq)]
    CUDA_MEM_FREE_NODE_PARAMS {
        dptr: CUdeviceptr,
    }

    /// A conditional node.
    #[derive(Eq)]
    CUDA_CONDITIONAL_NODE_PARAMS {
        handle: CUgraphConditionalHandle,
        type_: CUgraphConditionalNodeType,
        size: u32,
        /// Graphs of the node's bodies, which the call fills in.
        phGraph_out: HostPtr,
        ctx: CUcontext,
    }

    /// A node that does a batch of copies.
    #[derive(Eq)]
    CUDA_MEMCPY_BATCH_NODE_PARAMS {
        count: usize,
        dsts: HostPtr,
        srcs: HostPtr,
        sizes: HostPtr,
        attrs: HostPtr,
        attrsIdxs: HostPtr,
        numAttrs: usize,
        ctx: CUcontext,
    }

    /// Any node, as `cuGraphAddNode` takes it; the union is read through the accessors.
    #[derive(Eq)]
    CUgraphNodeParams {
        type_: CUgraphNodeType,
        reserved0: [i32; 3],
        params: Union<232>,
        reserved2: i64,
    }

    /// What an edge means.
    #[derive(Eq)]
    CUgraphEdgeData {
        from_port: u8,
        to_port: u8,
        /// A [`CUgraphDependencyType`] in a byte.
        type_: u8,
        reserved: [u8; 5],
    }

    /// Parameters of `cuGraphInstantiateWithParams`.
    #[derive(Eq)]
    CUDA_GRAPH_INSTANTIATE_PARAMS {
        flags: u64,
        hUploadStream: CUstream,
        hErrNode_out: CUgraphNode,
        result_out: CUgraphInstantiateResult,
    }

    /// What `cuGraphExecUpdate_v2` tells of a failed update.
    #[derive(Eq)]
    CUgraphExecUpdateResultInfo {
        result: CUgraphExecUpdateResult,
        errorNode: CUgraphNode,
        errorFromNode: CUgraphNode,
    }
}

/// A kernel node in [`CUgraphNodeParams`].
pub type CUDA_KERNEL_NODE_PARAMS_v3 = CUDA_KERNEL_NODE_PARAMS_v2;

impl CUgraphNodeParams {
    /// The parameters of [`CUgraphNodeType::KERNEL`].
    #[must_use]
    pub fn kernel(&self) -> CUDA_KERNEL_NODE_PARAMS_v3 {
        self.params.get(0)
    }

    /// The parameters of [`CUgraphNodeType::MEMCPY`].
    #[must_use]
    pub fn memcpy(&self) -> CUDA_MEMCPY_NODE_PARAMS {
        self.params.get(0)
    }

    /// The parameters of [`CUgraphNodeType::MEMSET`].
    #[must_use]
    pub fn memset(&self) -> CUDA_MEMSET_NODE_PARAMS_v2 {
        self.params.get(0)
    }

    /// The parameters of [`CUgraphNodeType::HOST`].
    #[must_use]
    pub fn host(&self) -> CUDA_HOST_NODE_PARAMS_v2 {
        self.params.get(0)
    }

    /// The parameters of [`CUgraphNodeType::GRAPH`].
    #[must_use]
    pub fn graph(&self) -> CUDA_CHILD_GRAPH_NODE_PARAMS {
        self.params.get(0)
    }

    /// The parameters of [`CUgraphNodeType::WAIT_EVENT`].
    #[must_use]
    pub fn event_wait(&self) -> CUDA_EVENT_WAIT_NODE_PARAMS {
        self.params.get(0)
    }

    /// The parameters of [`CUgraphNodeType::EVENT_RECORD`].
    #[must_use]
    pub fn event_record(&self) -> CUDA_EVENT_RECORD_NODE_PARAMS {
        self.params.get(0)
    }

    /// The parameters of [`CUgraphNodeType::EXT_SEMAS_SIGNAL`].
    #[must_use]
    pub fn ext_sem_signal(&self) -> CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v2 {
        self.params.get(0)
    }

    /// The parameters of [`CUgraphNodeType::EXT_SEMAS_WAIT`].
    #[must_use]
    pub fn ext_sem_wait(&self) -> CUDA_EXT_SEM_WAIT_NODE_PARAMS_v2 {
        self.params.get(0)
    }

    /// The parameters of [`CUgraphNodeType::MEM_ALLOC`].
    #[must_use]
    pub fn alloc(&self) -> CUDA_MEM_ALLOC_NODE_PARAMS {
        self.params.get(0)
    }

    /// The parameters of [`CUgraphNodeType::MEM_FREE`].
    #[must_use]
    pub fn free(&self) -> CUDA_MEM_FREE_NODE_PARAMS {
        self.params.get(0)
    }

    /// The parameters of [`CUgraphNodeType::BATCH_MEM_OP`].
    #[must_use]
    pub fn mem_op(&self) -> CUDA_BATCH_MEM_OP_NODE_PARAMS {
        self.params.get(0)
    }

    /// The parameters of [`CUgraphNodeType::CONDITIONAL`].
    #[must_use]
    pub fn conditional(&self) -> CUDA_CONDITIONAL_NODE_PARAMS {
        self.params.get(0)
    }

    /// The parameters of [`CUgraphNodeType::MEMCPY_BATCH`].
    #[must_use]
    pub fn memcpy_batch(&self) -> CUDA_MEMCPY_BATCH_NODE_PARAMS {
        self.params.get(0)
    }
}
