//! Memory: pointers' attributes, pools, physical and virtual memory.

use super::handle::HostPtr;
use super::raw::{c_enums, c_structs};

c_enums! {
    /// Where memory lies.
    CUmemorytype(u32, "CU_MEMORYTYPE_") {
        HOST = 1,
        DEVICE = 2,
        ARRAY = 3,
        UNIFIED = 4,
    }

    /// Who may touch managed memory.
    CUmemAttach_flags(u32, "CU_MEM_ATTACH_") {
        GLOBAL = 1,
        HOST = 2,
        SINGLE = 4,
    }

    /// Advice on managed memory.
    CUmem_advise(u32, "CU_MEM_ADVISE_") {
        SET_READ_MOSTLY = 1,
        UNSET_READ_MOSTLY = 2,
        SET_PREFERRED_LOCATION = 3,
        UNSET_PREFERRED_LOCATION = 4,
        SET_ACCESSED_BY = 5,
        UNSET_ACCESSED_BY = 6,
    }

    /// What `cuMemRangeGetAttribute` can tell of managed memory.
    CUmem_range_attribute(u32, "CU_MEM_RANGE_ATTRIBUTE_") {
        READ_MOSTLY = 1,
        PREFERRED_LOCATION = 2,
        ACCESSED_BY = 3,
        LAST_PREFETCH_LOCATION = 4,
        PREFERRED_LOCATION_TYPE = 5,
        PREFERRED_LOCATION_ID = 6,
        LAST_PREFETCH_LOCATION_TYPE = 7,
        LAST_PREFETCH_LOCATION_ID = 8,
    }

    /// What `cuPointerGetAttribute` can tell of an address.
    CUpointer_attribute(u32, "CU_POINTER_ATTRIBUTE_") {
        CONTEXT = 1,
        MEMORY_TYPE = 2,
        DEVICE_POINTER = 3,
        HOST_POINTER = 4,
        P2P_TOKENS = 5,
        SYNC_MEMOPS = 6,
        BUFFER_ID = 7,
        IS_MANAGED = 8,
        DEVICE_ORDINAL = 9,
        IS_LEGACY_CUDA_IPC_CAPABLE = 10,
        RANGE_START_ADDR = 11,
        RANGE_SIZE = 12,
        MAPPED = 13,
        ALLOWED_HANDLE_TYPES = 14,
        IS_GPU_DIRECT_RDMA_CAPABLE = 15,
        ACCESS_FLAGS = 16,
        MEMPOOL_HANDLE = 17,
        MAPPING_SIZE = 18,
        MAPPING_BASE_ADDR = 19,
        MEMORY_BLOCK_ID = 20,
        IS_HW_DECOMPRESS_CAPABLE = 21,
        LOCALITY_DOMAIN_ORDINAL = 22,
    }

    /// The value of [`CUpointer_attribute::ACCESS_FLAGS`].
    CUDA_POINTER_ATTRIBUTE_ACCESS_FLAGS(u32, "CU_POINTER_ATTRIBUTE_ACCESS_FLAG_") {
        NONE = 0,
        READ = 1,
        READWRITE = 3,
    }

    /// How an address range may be accessed.
    CUmemAccess_flags(u32, "CU_MEM_ACCESS_FLAGS_PROT_") {
        NONE = 0,
        READ = 1,
        READWRITE = 3,
        MAX = 0x7fff_ffff,
    }

    /// Kinds of places where memory can lie.
    CUmemLocationType(u32, "CU_MEM_LOCATION_TYPE_") {
        INVALID = 0,
        NONE = 0,
        DEVICE = 1,
        HOST = 2,
        HOST_NUMA = 3,
        HOST_NUMA_CURRENT = 4,
        INVISIBLE = 5,
        DEVICE_LOCALITY_DOMAIN = 6,
        MAX = 0x7fff_ffff,
    }

    /// Kinds of allocations.
    CUmemAllocationType(u32, "CU_MEM_ALLOCATION_TYPE_") {
        INVALID = 0,
        PINNED = 1,
        MANAGED = 2,
        MAX = 0x7fff_ffff,
    }

    /// How an allocation can be exported.
    CUmemAllocationHandleType(u32, "CU_MEM_HANDLE_TYPE_") {
        NONE = 0,
        POSIX_FILE_DESCRIPTOR = 1,
        WIN32 = 2,
        WIN32_KMT = 4,
        FABRIC = 8,
        MAX = 0x7fff_ffff,
    }

    /// Which granularity is asked for.
    CUmemAllocationGranularity_flags(u32, "CU_MEM_ALLOC_GRANULARITY_") {
        MINIMUM = 0,
        RECOMMENDED = 1,
    }

    /// Compression of an allocation.
    CUmemAllocationCompType(u32, "CU_MEM_ALLOCATION_COMP_") {
        NONE = 0,
        GENERIC = 1,
    }

    /// Handles for a range of addresses.
    CUmemRangeHandleType(u32, "CU_MEM_RANGE_HANDLE_TYPE_") {
        DMA_BUF_FD = 1,
        MAX = 0x7fff_ffff,
    }

    /// Flags of handles for a range of addresses.
    CUmemRangeFlags(u32, "CU_MEM_RANGE_FLAG_") {
        DMA_BUF_MAPPING_TYPE_PCIE = 1,
    }

    /// What is done to sparse arrays.
    CUmemOperationType(u32, "CU_MEM_OPERATION_TYPE_") {
        MAP = 1,
        UNMAP = 2,
    }

    /// Handles of memory for sparse arrays.
    CUmemHandleType(u32, "CU_MEM_HANDLE_TYPE_") {
        GENERIC = 0,
    }

    /// Attributes of a memory pool.
    CUmemPool_attribute(u32, "CU_MEMPOOL_ATTR_") {
        REUSE_FOLLOW_EVENT_DEPENDENCIES = 1,
        REUSE_ALLOW_OPPORTUNISTIC = 2,
        REUSE_ALLOW_INTERNAL_DEPENDENCIES = 3,
        RELEASE_THRESHOLD = 4,
        RESERVED_MEM_CURRENT = 5,
        RESERVED_MEM_HIGH = 6,
        USED_MEM_CURRENT = 7,
        USED_MEM_HIGH = 8,
        ALLOCATION_TYPE = 9,
        EXPORT_HANDLE_TYPES = 10,
        LOCATION_ID = 11,
        LOCATION_TYPE = 12,
        MAX_POOL_SIZE = 13,
        HW_DECOMPRESS_ENABLED = 14,
        LOCALITY_DOMAIN_ID = 15,
    }

    /// Attributes of the memory of graphs.
    CUgraphMem_attribute(u32, "CU_GRAPH_MEM_ATTR_") {
        USED_MEM_CURRENT = 0,
        USED_MEM_HIGH = 1,
        RESERVED_MEM_CURRENT = 2,
        RESERVED_MEM_HIGH = 3,
    }

    /// Which granularity of multicast objects is asked for.
    CUmulticastGranularity_flags(u32, "CU_MULTICAST_GRANULARITY_") {
        MINIMUM = 0,
        RECOMMENDED = 1,
    }

    /// Algorithms of hardware decompression.
    CUmemDecompressAlgorithm(u32, "CU_MEM_DECOMPRESS_") {
        UNSUPPORTED = 0,
        ALGORITHM_DEFLATE = 1,
        ALGORITHM_SNAPPY = 2,
        ALGORITHM_LZ4 = 4,
    }
}

/// Flag of `cuMemHostAlloc`: pinned memory for all contexts.
pub const CU_MEMHOSTALLOC_PORTABLE: u32 = 1;
/// Flag of `cuMemHostAlloc`: the memory has an address on the device.
pub const CU_MEMHOSTALLOC_DEVICEMAP: u32 = 2;
/// Flag of `cuMemHostAlloc`: writes are combined, reads are slow.
pub const CU_MEMHOSTALLOC_WRITECOMBINED: u32 = 4;
/// Flag of `cuMemHostRegister`: registered for all contexts.
pub const CU_MEMHOSTREGISTER_PORTABLE: u32 = 1;
/// Flag of `cuMemHostRegister`: the memory has an address on the device.
pub const CU_MEMHOSTREGISTER_DEVICEMAP: u32 = 2;
/// Flag of `cuMemHostRegister`: memory of another device.
pub const CU_MEMHOSTREGISTER_IOMEMORY: u32 = 4;
/// Flag of `cuMemHostRegister`: the device only reads.
pub const CU_MEMHOSTREGISTER_READ_ONLY: u32 = 8;
/// Usage of `cuMemCreate`: memory for sparse arrays.
pub const CU_MEM_CREATE_USAGE_TILE_POOL: u16 = 1;
/// Usage of `cuMemCreate`: memory for hardware decompression.
pub const CU_MEM_CREATE_USAGE_HW_DECOMPRESS: u16 = 2;
/// Usage of `cuMemCreate`: remote access goes over PCIe.
pub const CU_MEM_CREATE_USAGE_GPU_DIRECT_RDMA_OVER_PCIE: u16 = 4;
/// Usage of a pool: memory for hardware decompression.
pub const CU_MEM_POOL_CREATE_USAGE_HW_DECOMPRESS: u16 = 2;

c_structs! {
    /// A place where memory can lie.
    #[derive(Eq)]
    CUmemLocation {
        type_: CUmemLocationType,
        /// A device or a NUMA node, as `type_` says.
        id: i32,
    }

    /// Who may access a range, and how.
    #[derive(Eq)]
    CUmemAccessDesc {
        location: CUmemLocation,
        flags: CUmemAccess_flags,
    }

    /// Properties beyond an allocation's place and kind.
    #[derive(Eq)]
    CUmemAllocationFlags {
        compressionType: u8,
        gpuDirectRDMACapable: u8,
        usage: u16,
        reserved: [u8; 4],
    }

    /// What `cuMemCreate` allocates.
    #[derive(Eq)]
    CUmemAllocationProp {
        type_: CUmemAllocationType,
        requestedHandleTypes: CUmemAllocationHandleType,
        location: CUmemLocation,
        win32HandleMetaData: HostPtr,
        allocFlags: CUmemAllocationFlags,
    }

    /// Properties of a memory pool.
    #[derive(Eq)]
    CUmemPoolProps {
        allocType: CUmemAllocationType,
        handleTypes: CUmemAllocationHandleType,
        location: CUmemLocation,
        win32SecurityAttributes: HostPtr,
        maxSize: usize,
        usage: u16,
        gpuDirectRDMACapable: u8,
        reserved: [u8; 53],
    }

    /// What stands for an allocation of an exported pool.
    #[derive(Eq)]
    CUmemPoolPtrExportData {
        reserved: [u8; 64],
    }

    /// Properties of a multicast object.
    #[derive(Eq)]
    CUmulticastObjectProp {
        numDevices: u32,
        size: usize,
        handleTypes: u64,
        flags: u64,
    }

    /// The value of [`CUpointer_attribute::P2P_TOKENS`].
    #[derive(Eq)]
    CUDA_POINTER_ATTRIBUTE_P2P_TOKENS {
        p2pToken: u64,
        vaSpaceToken: u32,
    }

    /// One piece of `cuMemBatchDecompressAsync`.
    #[derive(Eq)]
    CUmemDecompressParams {
        srcNumBytes: usize,
        dstNumBytes: usize,
        dstActBytes: HostPtr,
        src: HostPtr,
        dst: HostPtr,
        algo: CUmemDecompressAlgorithm,
        padding: [u8; 20],
    }
}
