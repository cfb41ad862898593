//! Launches: the configuration and attributes of `cuLaunchKernelEx`.

use super::handle::{CUevent, CUfunction, CUgraphDeviceNode, CUstream, HostPtr};
use super::raw::{Union, c_enums, c_structs};

c_enums! {
    /// Attributes of launches, kernel nodes and streams.
    CUlaunchAttributeID(u32, "CU_LAUNCH_ATTRIBUTE_") {
        IGNORE = 0,
        ACCESS_POLICY_WINDOW = 1,
        COOPERATIVE = 2,
        SYNCHRONIZATION_POLICY = 3,
        CLUSTER_DIMENSION = 4,
        CLUSTER_SCHEDULING_POLICY_PREFERENCE = 5,
        PROGRAMMATIC_STREAM_SERIALIZATION = 6,
        PROGRAMMATIC_EVENT = 7,
        PRIORITY = 8,
        MEM_SYNC_DOMAIN_MAP = 9,
        MEM_SYNC_DOMAIN = 10,
        PREFERRED_CLUSTER_DIMENSION = 11,
        LAUNCH_COMPLETION_EVENT = 12,
        DEVICE_UPDATABLE_KERNEL_NODE = 13,
        PREFERRED_SHARED_MEMORY_CARVEOUT = 14,
        NVLINK_UTIL_CENTRIC_SCHEDULING = 16,
        PORTABLE_CLUSTER_SIZE_MODE = 17,
        SHARED_MEMORY_MODE = 18,
    }

    /// How long data stay in the L2 cache.
    CUaccessProperty(u32, "CU_ACCESS_PROPERTY_") {
        NORMAL = 0,
        STREAMING = 1,
        PERSISTING = 2,
    }

    /// How the host waits.
    CUsynchronizationPolicy(u32, "CU_SYNC_POLICY_") {
        AUTO = 1,
        SPIN = 2,
        YIELD = 3,
        BLOCKING_SYNC = 4,
    }

    /// How clusters are spread over the device.
    CUclusterSchedulingPolicy(u32, "CU_CLUSTER_SCHEDULING_POLICY_") {
        DEFAULT = 0,
        SPREAD = 1,
        LOAD_BALANCING = 2,
        RUBIN_DSMEM_LOCALITY = 3,
    }

    /// Domains of memory synchronization.
    CUlaunchMemSyncDomain(u32, "CU_LAUNCH_MEM_SYNC_DOMAIN_") {
        DEFAULT = 0,
        REMOTE = 1,
    }

    /// Whether clusters may be larger than is portable.
    CUlaunchAttributePortableClusterMode(u32, "CU_LAUNCH_PORTABLE_CLUSTER_MODE_") {
        DEFAULT = 0,
        REQUIRE_PORTABLE = 1,
        ALLOW_NON_PORTABLE = 2,
    }

    /// Whether shared memory may be larger than is portable.
    CUsharedMemoryMode(u32, "CU_SHARED_MEMORY_MODE_") {
        DEFAULT = 0,
        REQUIRE_PORTABLE = 1,
        ALLOW_NON_PORTABLE = 2,
        ALLOW_OVERSIZED_SHARED_MEMORY = 3,
        PREFER_OVERSIZED_SHARED_MEMORY = 4,
    }

    /// Flags of the occupancy functions.
    CUoccupancy_flags(u32, "CU_OCCUPANCY_") {
        DEFAULT = 0,
        DISABLE_CACHING_OVERRIDE = 1,
    }
}

/// Ends `extra` of a launch.
pub const CU_LAUNCH_PARAM_END: u64 = 0;
/// Comes before the address of the parameters in `extra` of a launch.
pub const CU_LAUNCH_PARAM_BUFFER_POINTER: u64 = 1;
/// Comes before the address of the parameters' size in `extra` of a launch.
pub const CU_LAUNCH_PARAM_BUFFER_SIZE: u64 = 2;
/// A grid's size that stands for the block's size which the kernel requires.
pub const CU_LAUNCH_KERNEL_REQUIRED_BLOCK_DIM: u32 = 1;
/// Flag of `cuLaunchCooperativeKernelMultiDevice`.
pub const CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_PRE_LAUNCH_SYNC: u32 = 1;
/// Flag of `cuLaunchCooperativeKernelMultiDevice`.
pub const CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_POST_LAUNCH_SYNC: u32 = 2;

c_structs! {
    /// A range of addresses and how long its data stay in the L2 cache.
    CUaccessPolicyWindow {
        base_ptr: HostPtr,
        num_bytes: usize,
        hitRatio: f32,
        hitProp: CUaccessProperty,
        missProp: CUaccessProperty,
    }

    /// Numbers of the domains of memory synchronization.
    #[derive(Eq)]
    CUlaunchMemSyncDomainMap {
        default_: u8,
        remote: u8,
    }

    /// Size of a cluster.
    #[derive(Eq)]
    CUclusterDim {
        x: u32,
        y: u32,
        z: u32,
    }

    /// Value of [`CUlaunchAttributeID::PROGRAMMATIC_EVENT`].
    #[derive(Eq)]
    CUprogrammaticEvent {
        event: CUevent,
        flags: i32,
        triggerAtBlockStart: i32,
    }

    /// Value of [`CUlaunchAttributeID::LAUNCH_COMPLETION_EVENT`].
    #[derive(Eq)]
    CUlaunchCompletionEvent {
        event: CUevent,
        flags: i32,
    }

    /// Value of [`CUlaunchAttributeID::DEVICE_UPDATABLE_KERNEL_NODE`].
    #[derive(Eq)]
    CUdeviceUpdatableKernelNode {
        deviceUpdatable: i32,
        devNode: CUgraphDeviceNode,
    }

    /// Value of an attribute: a union; [`CUlaunchAttributeID`] says what to read from it.
    #[derive(Eq)]
    CUlaunchAttributeValue {
        bytes: Union<64>,
    }

    /// An attribute of a launch.
    #[derive(Eq)]
    CUlaunchAttribute {
        id: CUlaunchAttributeID,
        pad: [u8; 4],
        value: CUlaunchAttributeValue,
    }

    /// What `cuLaunchKernelEx` launches.
    #[derive(Eq)]
    CUlaunchConfig {
        gridDimX: u32,
        gridDimY: u32,
        gridDimZ: u32,
        blockDimX: u32,
        blockDimY: u32,
        blockDimZ: u32,
        sharedMemBytes: u32,
        hStream: CUstream,
        /// Points to `numAttrs` of [`CUlaunchAttribute`].
        attrs: HostPtr,
        numAttrs: u32,
    }

    /// One launch of `cuLaunchCooperativeKernelMultiDevice`.
    #[derive(Eq)]
    CUDA_LAUNCH_PARAMS {
        function: CUfunction,
        gridDimX: u32,
        gridDimY: u32,
        gridDimZ: u32,
        blockDimX: u32,
        blockDimY: u32,
        blockDimZ: u32,
        sharedMemBytes: u32,
        hStream: CUstream,
        kernelParams: HostPtr,
    }
}

/// Attributes of streams are those of launches.
pub type CUstreamAttrID = CUlaunchAttributeID;
/// Values of streams' attributes are those of launches.
pub type CUstreamAttrValue = CUlaunchAttributeValue;
/// Attributes of kernel nodes are those of launches.
pub type CUkernelNodeAttrID = CUlaunchAttributeID;
/// Values of kernel nodes' attributes are those of launches.
pub type CUkernelNodeAttrValue = CUlaunchAttributeValue;

impl CUlaunchAttributeValue {
    /// Value of the attributes that are one number: cooperative, programmatic stream
    /// serialization, priority, shared memory carveout and the policies.
    #[must_use]
    pub fn number(&self) -> i32 {
        self.bytes.get(0)
    }

    /// Value of [`CUlaunchAttributeID::ACCESS_POLICY_WINDOW`].
    #[must_use]
    pub fn access_policy_window(&self) -> CUaccessPolicyWindow {
        self.bytes.get(0)
    }

    /// Value of [`CUlaunchAttributeID::CLUSTER_DIMENSION`] and of the preferred one.
    #[must_use]
    pub fn cluster_dim(&self) -> CUclusterDim {
        self.bytes.get(0)
    }

    /// Value of [`CUlaunchAttributeID::PROGRAMMATIC_EVENT`].
    #[must_use]
    pub fn programmatic_event(&self) -> CUprogrammaticEvent {
        self.bytes.get(0)
    }

    /// Value of [`CUlaunchAttributeID::LAUNCH_COMPLETION_EVENT`].
    #[must_use]
    pub fn launch_completion_event(&self) -> CUlaunchCompletionEvent {
        self.bytes.get(0)
    }

    /// Value of [`CUlaunchAttributeID::MEM_SYNC_DOMAIN_MAP`].
    #[must_use]
    pub fn mem_sync_domain_map(&self) -> CUlaunchMemSyncDomainMap {
        self.bytes.get(0)
    }

    /// Value of [`CUlaunchAttributeID::DEVICE_UPDATABLE_KERNEL_NODE`].
    #[must_use]
    pub fn device_updatable_kernel_node(&self) -> CUdeviceUpdatableKernelNode {
        self.bytes.get(0)
    }
}
