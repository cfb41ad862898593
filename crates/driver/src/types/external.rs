//! What the interoperation with other APIs and processes takes. The driver supports none of it, but
//! reads some of it to say what is wrong first.

use super::handle::HostPtr;
use super::raw::{Union, c_enums, c_structs};
use super::texture::CUDA_ARRAY3D_DESCRIPTOR_v2;

c_enums! {
    /// Kinds of memory of another API.
    CUexternalMemoryHandleType(u32, "CU_EXTERNAL_MEMORY_HANDLE_TYPE_") {
        OPAQUE_FD = 1,
        OPAQUE_WIN32 = 2,
        OPAQUE_WIN32_KMT = 3,
        D3D12_HEAP = 4,
        D3D12_RESOURCE = 5,
        D3D11_RESOURCE = 6,
        D3D11_RESOURCE_KMT = 7,
        NVSCIBUF = 8,
        DMABUF_FD = 9,
    }

    /// Kinds of semaphores of another API.
    CUexternalSemaphoreHandleType(u32, "CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_") {
        OPAQUE_FD = 1,
        OPAQUE_WIN32 = 2,
        OPAQUE_WIN32_KMT = 3,
        D3D12_FENCE = 4,
        D3D11_FENCE = 5,
        NVSCISYNC = 6,
        D3D11_KEYED_MUTEX = 7,
        D3D11_KEYED_MUTEX_KMT = 8,
        TIMELINE_SEMAPHORE_FD = 9,
        TIMELINE_SEMAPHORE_WIN32 = 10,
    }

    /// Flags of registering a graphics resource.
    CUgraphicsRegisterFlags(u32, "CU_GRAPHICS_REGISTER_FLAGS_") {
        NONE = 0,
        READ_ONLY = 1,
        WRITE_DISCARD = 2,
        SURFACE_LDST = 4,
        TEXTURE_GATHER = 8,
    }

    /// Flags of mapping a graphics resource.
    CUgraphicsMapResourceFlags(u32, "CU_GRAPHICS_MAP_RESOURCE_FLAGS_") {
        NONE = 0,
        READ_ONLY = 1,
        WRITE_DISCARD = 2,
    }

    /// Flags of opening memory of another process.
    CUipcMem_flags(u32, "CU_IPC_MEM_") {
        LAZY_ENABLE_PEER_ACCESS = 1,
    }

    /// Kinds of asynchronous notifications.
    CUasyncNotificationType(u32, "CU_ASYNC_NOTIFICATION_TYPE_") {
        OVER_BUDGET = 1,
    }

    /// States of a process under checkpoint and restore.
    CUprocessState(u32, "CU_PROCESS_STATE_") {
        RUNNING = 0,
        LOCKED = 1,
        CHECKPOINTED = 2,
        FAILED = 3,
        CHECKPOINTING = 4,
        RESTORING = 5,
    }

    /// Settings of core dumps.
    CUcoredumpSettings(u32, "CU_COREDUMP_") {
        ENABLE_ON_EXCEPTION = 1,
        TRIGGER_HOST = 2,
        LIGHTWEIGHT = 3,
        ENABLE_USER_TRIGGER = 4,
        FILE = 5,
        PIPE = 6,
        GENERATION_FLAGS = 7,
        MAX = 8,
    }

    /// Levels of the driver's log.
    CUlogLevel(u32, "CU_LOG_LEVEL_") {
        ERROR = 0,
        WARNING = 1,
    }
}

c_structs! {
    /// Memory of another API.
    #[derive(Eq)]
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC {
        type_: CUexternalMemoryHandleType,
        /// A file descriptor, or a pointer and a name, as `type_` says.
        handle: Union<16>,
        size: u64,
        flags: u32,
        reserved: [u32; 16],
    }

    /// A buffer in memory of another API.
    #[derive(Eq)]
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC {
        offset: u64,
        size: u64,
        flags: u32,
        reserved: [u32; 16],
    }

    /// A mipmapped array in memory of another API.
    #[derive(Eq)]
    CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC {
        offset: u64,
        arrayDesc: CUDA_ARRAY3D_DESCRIPTOR_v2,
        numLevels: u32,
        reserved: [u32; 16],
    }

    /// A semaphore of another API.
    #[derive(Eq)]
    CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC {
        type_: CUexternalSemaphoreHandleType,
        /// A file descriptor, or a pointer and a name, as `type_` says.
        handle: Union<16>,
        flags: u32,
        reserved: [u32; 16],
    }

    /// How a semaphore of another API is signalled.
    #[derive(Eq)]
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS {
        params: CUsemaphoreSignal,
        flags: u32,
        reserved: [u32; 16],
    }

    /// The value to signal, for each kind of semaphore.
    #[derive(Eq)]
    CUsemaphoreSignal {
        fence_value: u64,
        nvSciSync: HostPtr,
        keyedMutex_key: u64,
        reserved: [u32; 12],
    }

    /// How a semaphore of another API is waited for.
    #[derive(Eq)]
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS {
        params: CUsemaphoreWait,
        flags: u32,
        reserved: [u32; 16],
    }

    /// The value to wait for, for each kind of semaphore.
    #[derive(Eq)]
    CUsemaphoreWait {
        fence_value: u64,
        nvSciSync: HostPtr,
        keyedMutex: CUkeyedMutexWait,
        reserved: [u32; 10],
    }

    /// The key of a mutex and how long to wait for it.
    #[derive(Eq)]
    CUkeyedMutexWait {
        key: u64,
        timeoutMs: u32,
    }
}
