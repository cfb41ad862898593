//! Devices and contexts: attributes, limits and flags.

use super::handle::HostPtr;
use super::raw::{c_enums, c_structs};

c_enums! {
    /// What `cuDeviceGetAttribute` can tell of a device.
    CUdevice_attribute(u32, "CU_DEVICE_ATTRIBUTE_") {
        MAX_THREADS_PER_BLOCK = 1,
        MAX_BLOCK_DIM_X = 2,
        MAX_BLOCK_DIM_Y = 3,
        MAX_BLOCK_DIM_Z = 4,
        MAX_GRID_DIM_X = 5,
        MAX_GRID_DIM_Y = 6,
        MAX_GRID_DIM_Z = 7,
        MAX_SHARED_MEMORY_PER_BLOCK = 8,
        SHARED_MEMORY_PER_BLOCK = 8,
        TOTAL_CONSTANT_MEMORY = 9,
        WARP_SIZE = 10,
        MAX_PITCH = 11,
        MAX_REGISTERS_PER_BLOCK = 12,
        REGISTERS_PER_BLOCK = 12,
        CLOCK_RATE = 13,
        TEXTURE_ALIGNMENT = 14,
        GPU_OVERLAP = 15,
        MULTIPROCESSOR_COUNT = 16,
        KERNEL_EXEC_TIMEOUT = 17,
        INTEGRATED = 18,
        CAN_MAP_HOST_MEMORY = 19,
        COMPUTE_MODE = 20,
        MAXIMUM_TEXTURE1D_WIDTH = 21,
        MAXIMUM_TEXTURE2D_WIDTH = 22,
        MAXIMUM_TEXTURE2D_HEIGHT = 23,
        MAXIMUM_TEXTURE3D_WIDTH = 24,
        MAXIMUM_TEXTURE3D_HEIGHT = 25,
        MAXIMUM_TEXTURE3D_DEPTH = 26,
        MAXIMUM_TEXTURE2D_LAYERED_WIDTH = 27,
        MAXIMUM_TEXTURE2D_LAYERED_HEIGHT = 28,
        MAXIMUM_TEXTURE2D_LAYERED_LAYERS = 29,
        MAXIMUM_TEXTURE2D_ARRAY_WIDTH = 27,
        MAXIMUM_TEXTURE2D_ARRAY_HEIGHT = 28,
        MAXIMUM_TEXTURE2D_ARRAY_NUMSLICES = 29,
        SURFACE_ALIGNMENT = 30,
        CONCURRENT_KERNELS = 31,
        ECC_ENABLED = 32,
        PCI_BUS_ID = 33,
        PCI_DEVICE_ID = 34,
        TCC_DRIVER = 35,
        MEMORY_CLOCK_RATE = 36,
        GLOBAL_MEMORY_BUS_WIDTH = 37,
        L2_CACHE_SIZE = 38,
        MAX_THREADS_PER_MULTIPROCESSOR = 39,
        ASYNC_ENGINE_COUNT = 40,
        UNIFIED_ADDRESSING = 41,
        MAXIMUM_TEXTURE1D_LAYERED_WIDTH = 42,
        MAXIMUM_TEXTURE1D_LAYERED_LAYERS = 43,
        CAN_TEX2D_GATHER = 44,
        MAXIMUM_TEXTURE2D_GATHER_WIDTH = 45,
        MAXIMUM_TEXTURE2D_GATHER_HEIGHT = 46,
        MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE = 47,
        MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE = 48,
        MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE = 49,
        PCI_DOMAIN_ID = 50,
        TEXTURE_PITCH_ALIGNMENT = 51,
        MAXIMUM_TEXTURECUBEMAP_WIDTH = 52,
        MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH = 53,
        MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS = 54,
        MAXIMUM_SURFACE1D_WIDTH = 55,
        MAXIMUM_SURFACE2D_WIDTH = 56,
        MAXIMUM_SURFACE2D_HEIGHT = 57,
        MAXIMUM_SURFACE3D_WIDTH = 58,
        MAXIMUM_SURFACE3D_HEIGHT = 59,
        MAXIMUM_SURFACE3D_DEPTH = 60,
        MAXIMUM_SURFACE1D_LAYERED_WIDTH = 61,
        MAXIMUM_SURFACE1D_LAYERED_LAYERS = 62,
        MAXIMUM_SURFACE2D_LAYERED_WIDTH = 63,
        MAXIMUM_SURFACE2D_LAYERED_HEIGHT = 64,
        MAXIMUM_SURFACE2D_LAYERED_LAYERS = 65,
        MAXIMUM_SURFACECUBEMAP_WIDTH = 66,
        MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH = 67,
        MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS = 68,
        MAXIMUM_TEXTURE1D_LINEAR_WIDTH = 69,
        MAXIMUM_TEXTURE2D_LINEAR_WIDTH = 70,
        MAXIMUM_TEXTURE2D_LINEAR_HEIGHT = 71,
        MAXIMUM_TEXTURE2D_LINEAR_PITCH = 72,
        MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH = 73,
        MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT = 74,
        COMPUTE_CAPABILITY_MAJOR = 75,
        COMPUTE_CAPABILITY_MINOR = 76,
        MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH = 77,
        STREAM_PRIORITIES_SUPPORTED = 78,
        GLOBAL_L1_CACHE_SUPPORTED = 79,
        LOCAL_L1_CACHE_SUPPORTED = 80,
        MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81,
        MAX_REGISTERS_PER_MULTIPROCESSOR = 82,
        MANAGED_MEMORY = 83,
        MULTI_GPU_BOARD = 84,
        MULTI_GPU_BOARD_GROUP_ID = 85,
        HOST_NATIVE_ATOMIC_SUPPORTED = 86,
        SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO = 87,
        PAGEABLE_MEMORY_ACCESS = 88,
        CONCURRENT_MANAGED_ACCESS = 89,
        COMPUTE_PREEMPTION_SUPPORTED = 90,
        CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM = 91,
        CAN_USE_STREAM_MEM_OPS_V1 = 92,
        CAN_USE_64_BIT_STREAM_MEM_OPS_V1 = 93,
        CAN_USE_STREAM_WAIT_VALUE_NOR_V1 = 94,
        COOPERATIVE_LAUNCH = 95,
        COOPERATIVE_MULTI_DEVICE_LAUNCH = 96,
        MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
        CAN_FLUSH_REMOTE_WRITES = 98,
        HOST_REGISTER_SUPPORTED = 99,
        PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES = 100,
        DIRECT_MANAGED_MEM_ACCESS_FROM_HOST = 101,
        VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED = 102,
        VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102,
        HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED = 103,
        HANDLE_TYPE_WIN32_HANDLE_SUPPORTED = 104,
        HANDLE_TYPE_WIN32_KMT_HANDLE_SUPPORTED = 105,
        MAX_BLOCKS_PER_MULTIPROCESSOR = 106,
        GENERIC_COMPRESSION_SUPPORTED = 107,
        MAX_PERSISTING_L2_CACHE_SIZE = 108,
        MAX_ACCESS_POLICY_WINDOW_SIZE = 109,
        GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED = 110,
        RESERVED_SHARED_MEMORY_PER_BLOCK = 111,
        SPARSE_CUDA_ARRAY_SUPPORTED = 112,
        READ_ONLY_HOST_REGISTER_SUPPORTED = 113,
        TIMELINE_SEMAPHORE_INTEROP_SUPPORTED = 114,
        MEMORY_POOLS_SUPPORTED = 115,
        GPU_DIRECT_RDMA_SUPPORTED = 116,
        GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS = 117,
        GPU_DIRECT_RDMA_WRITES_ORDERING = 118,
        MEMPOOL_SUPPORTED_HANDLE_TYPES = 119,
        CLUSTER_LAUNCH = 120,
        DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED = 121,
        CAN_USE_64_BIT_STREAM_MEM_OPS = 122,
        CAN_USE_STREAM_WAIT_VALUE_NOR = 123,
        DMA_BUF_SUPPORTED = 124,
        IPC_EVENT_SUPPORTED = 125,
        MEM_SYNC_DOMAIN_COUNT = 126,
        TENSOR_MAP_ACCESS_SUPPORTED = 127,
        HANDLE_TYPE_FABRIC_SUPPORTED = 128,
        UNIFIED_FUNCTION_POINTERS = 129,
        NUMA_CONFIG = 130,
        NUMA_ID = 131,
        MULTICAST_SUPPORTED = 132,
        MPS_ENABLED = 133,
        HOST_NUMA_ID = 134,
        D3D12_CIG_SUPPORTED = 135,
        MEM_DECOMPRESS_ALGORITHM_MASK = 136,
        MEM_DECOMPRESS_MAXIMUM_LENGTH = 137,
        VULKAN_CIG_SUPPORTED = 138,
        GPU_PCI_DEVICE_ID = 139,
        GPU_PCI_SUBSYSTEM_ID = 140,
        HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 141,
        HOST_NUMA_MEMORY_POOLS_SUPPORTED = 142,
        HOST_NUMA_MULTINODE_IPC_SUPPORTED = 143,
        HOST_MEMORY_POOLS_SUPPORTED = 144,
        HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 145,
        HOST_ALLOC_DMA_BUF_SUPPORTED = 146,
        ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED = 147,
        ATOMIC_REDUCTION_SUPPORTED = 148,
        LOCALITY_DOMAIN_COUNT = 149,
        MAX_OVERSIZED_SHARED_MEMORY_PER_BLOCK = 150,
        D3D12_CIG_STREAMS_SUPPORTED = 151,
        DMA_BUF_MMAP_SUPPORTED = 152,
        LOGICAL_ENDPOINT_UNICAST_SUPPORTED = 153,
        LOGICAL_ENDPOINT_MULTICAST_SUPPORTED = 154,
        LOGICAL_ENDPOINT_COUNTED_OPS_SUPPORTED = 155,
        LOGICAL_ENDPOINT_UNICAST_ACCESS_ON_OWNER_DEVICE_SUPPORTED = 156,
        LOCALITY_DOMAIN_MULTIPROCESSOR_COUNT = 157,
        LOGICAL_ENDPOINT_SUPPORTED_HANDLE_TYPES = 158,
        VULKAN_CIG_STREAMS_SUPPORTED = 159,
        TENSOR_MAP_LARGE_TENSOR_MIN_SIZE = 160,
        GPU_DIRECT_RDMA_WITH_LOCALIZED_MEMORY_SUPPORTED = 161,
        MAX = 162,
    }

    /// What `cuDeviceGetP2PAttribute` can tell of two devices.
    CUdevice_P2PAttribute(u32, "CU_DEVICE_P2P_ATTRIBUTE_") {
        PERFORMANCE_RANK = 1,
        ACCESS_SUPPORTED = 2,
        NATIVE_ATOMIC_SUPPORTED = 3,
        ACCESS_ACCESS_SUPPORTED = 4,
        CUDA_ARRAY_ACCESS_SUPPORTED = 4,
        ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED = 5,
    }

    /// Who may make contexts on a device.
    CUcomputemode(u32, "CU_COMPUTEMODE_") {
        DEFAULT = 0,
        PROHIBITED = 2,
        EXCLUSIVE_PROCESS = 3,
    }

    /// Whether a device is a NUMA node of the host.
    CUdeviceNumaConfig(u32, "CU_DEVICE_NUMA_CONFIG_") {
        NONE = 0,
        NUMA_NODE = 1,
    }

    /// Who sees remote writes in order without a flush.
    CUGPUDirectRDMAWritesOrdering(u32, "CU_GPU_DIRECT_RDMA_WRITES_ORDERING_") {
        NONE = 0,
        OWNER = 100,
        ALL_DEVICES = 200,
    }

    /// Ways in which remote writes can be flushed.
    CUflushGPUDirectRDMAWritesOptions(u32, "CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_") {
        HOST = 1,
        MEMOPS = 2,
    }

    /// Who must see remote writes after a flush.
    CUflushGPUDirectRDMAWritesScope(u32, "CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_") {
        OWNER = 100,
        ALL_DEVICES = 200,
    }

    /// Which context a flush is for.
    CUflushGPUDirectRDMAWritesTarget(u32, "CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_") {
        CURRENT_CTX = 0,
    }

    /// Atomic operations over a link between devices.
    CUatomicOperation(u32, "CU_ATOMIC_OPERATION_") {
        INTEGER_ADD = 0,
        INTEGER_MIN = 1,
        INTEGER_MAX = 2,
        INTEGER_INCREMENT = 3,
        INTEGER_DECREMENT = 4,
        AND = 5,
        OR = 6,
        XOR = 7,
        EXCHANGE = 8,
        CAS = 9,
        FLOAT_ADD = 10,
        FLOAT_MIN = 11,
        FLOAT_MAX = 12,
        MAX = 13,
    }

    /// How an atomic operation is supported over a link.
    CUatomicOperationCapability(u32, "CU_ATOMIC_CAPABILITY_") {
        SIGNED = 1,
        UNSIGNED = 2,
        REDUCTION = 4,
        SCALAR_32 = 8,
        SCALAR_64 = 0x10,
        SCALAR_128 = 0x20,
        VECTOR_32x4 = 0x40,
    }

    /// Flags of a context.
    CUctx_flags(u32, "CU_CTX_") {
        SCHED_AUTO = 0,
        SCHED_SPIN = 1,
        SCHED_YIELD = 2,
        SCHED_BLOCKING_SYNC = 4,
        BLOCKING_SYNC = 4,
        SCHED_MASK = 7,
        MAP_HOST = 8,
        LMEM_RESIZE_TO_MAX = 0x10,
        COREDUMP_ENABLE = 0x20,
        USER_COREDUMP_ENABLE = 0x40,
        SYNC_MEMOPS = 0x80,
        FLAGS_MASK = 0xff,
    }

    /// Limits of a context.
    CUlimit(u32, "CU_LIMIT_") {
        STACK_SIZE = 0,
        PRINTF_FIFO_SIZE = 1,
        MALLOC_HEAP_SIZE = 2,
        DEV_RUNTIME_SYNC_DEPTH = 3,
        DEV_RUNTIME_PENDING_LAUNCH_COUNT = 4,
        MAX_L2_FETCH_GRANULARITY = 5,
        PERSISTING_L2_CACHE_SIZE = 6,
        SHMEM_SIZE = 7,
        CIG_ENABLED = 8,
        CIG_SHMEM_FALLBACK_ENABLED = 9,
        PER_BLOCK_MEMORY_SIZE = 10,
        MAX = 11,
    }

    /// Whether L1 cache or shared memory is preferred.
    CUfunc_cache(u32, "CU_FUNC_CACHE_") {
        PREFER_NONE = 0,
        PREFER_SHARED = 1,
        PREFER_L1 = 2,
        PREFER_EQUAL = 3,
    }

    /// Width of a bank of shared memory.
    CUsharedconfig(u32, "CU_SHARED_MEM_CONFIG_") {
        DEFAULT_BANK_SIZE = 0,
        FOUR_BYTE_BANK_SIZE = 1,
        EIGHT_BYTE_BANK_SIZE = 2,
    }

    /// Kinds of affinity of a context.
    CUexecAffinityType(u32, "CU_EXEC_AFFINITY_TYPE_") {
        SM_COUNT = 0,
        MAX = 1,
    }

    /// Kinds of graphics data a context can share.
    CUcigDataType(u32, "CIG_DATA_TYPE_") {
        D3D12_COMMAND_QUEUE = 1,
        NV_BLOB = 2,
    }

    /// Which default stream the functions of `cuGetProcAddress` mean.
    CUdriverProcAddress_flags(u32, "CU_GET_PROC_ADDRESS_") {
        DEFAULT = 0,
        LEGACY_STREAM = 1,
        PER_THREAD_DEFAULT_STREAM = 2,
    }

    /// What `cuGetProcAddress` found.
    CUdriverProcAddressQueryResult(u32, "CU_GET_PROC_ADDRESS_") {
        SUCCESS = 0,
        SYMBOL_NOT_FOUND = 1,
        VERSION_NOT_SUFFICIENT = 2,
    }
}

c_structs! {
    /// What `cuDeviceGetProperties` fills in.
    #[derive(Eq)]
    CUdevprop {
        maxThreadsPerBlock: i32,
        maxThreadsDim: [i32; 3],
        maxGridSize: [i32; 3],
        sharedMemPerBlock: i32,
        totalConstantMemory: i32,
        SIMDWidth: i32,
        memPitch: i32,
        regsPerBlock: i32,
        clockRate: i32,
        textureAlign: i32,
    }

    /// An affinity of a context; the only kind so far is a number of multiprocessors.
    #[derive(Eq)]
    CUexecAffinityParam {
        type_: CUexecAffinityType,
        sm_count: u32,
    }

    /// Graphics data that a context shares.
    #[derive(Eq)]
    CUctxCigParam {
        sharedDataType: CUcigDataType,
        sharedData: HostPtr,
    }

    /// Parameters of `cuCtxCreate_v4`.
    #[derive(Eq)]
    CUctxCreateParams {
        /// Points to `numExecAffinityParams` of [`CUexecAffinityParam`].
        execAffinityParams: HostPtr,
        numExecAffinityParams: i32,
        /// Points to a [`CUctxCigParam`].
        cigParams: HostPtr,
    }
}
