//! Handles, addresses and identifiers. A handle is a number to the client and never a pointer.

use std::ffi::{c_char, c_int, c_void};

use super::raw::{c_handles, c_structs};
use super::result::CUresult;

/// The ordinal of a device.
pub type CUdevice = i32;

/// An address in device memory.
pub type CUdeviceptr = u64;

/// An allocation of physical memory, made by `cuMemCreate`.
pub type CUmemGenericAllocationHandle = u64;

/// A texture object.
pub type CUtexObject = u64;

/// A surface object.
pub type CUsurfObject = u64;

/// The condition of a conditional graph node.
pub type CUgraphConditionalHandle = u64;

/// The device that stands for the host in places where a device is asked for.
pub const CU_DEVICE_CPU: CUdevice = -1;

/// No device.
pub const CU_DEVICE_INVALID: CUdevice = -2;

c_handles! {
    /// A context.
    CUcontext
    /// A module.
    CUmodule
    /// A function of a module.
    CUfunction
    /// A library: a module for all contexts.
    CUlibrary
    /// A kernel of a library. It passes wherever a function is taken.
    CUkernel
    /// An array.
    CUarray
    /// A mipmapped array.
    CUmipmappedArray
    /// A texture reference.
    CUtexref
    /// A surface reference.
    CUsurfref
    /// An event.
    CUevent
    /// A stream.
    CUstream
    /// A graphics resource.
    CUgraphicsResource
    /// Memory of another API.
    CUexternalMemory
    /// A semaphore of another API.
    CUexternalSemaphore
    /// A graph.
    CUgraph
    /// A node of a graph.
    CUgraphNode
    /// An instantiated graph.
    CUgraphExec
    /// A memory pool.
    CUmemoryPool
    /// An object whose life is tied to graphs.
    CUuserObject
    /// A kernel node that kernels can update.
    CUgraphDeviceNode
    /// A registered callback for asynchronous notifications.
    CUasyncCallbackHandle
    /// A green context.
    CUgreenCtx
    /// An invocation of the linker.
    CUlinkState
    /// An address of the host in a struct, where no type says whose it is.
    HostPtr
}

impl CUstream {
    /// `CU_STREAM_LEGACY`: the default stream that waits for all blocking streams.
    pub const LEGACY: Self = Self(1);

    /// `CU_STREAM_PER_THREAD`: the default stream of the calling thread.
    pub const PER_THREAD: Self = Self(2);
}

impl HostPtr {
    /// The address as a pointer to read from.
    #[must_use]
    pub const fn as_ptr<T>(self) -> *const T {
        self.0 as *const T
    }

    /// The address as a pointer to write to.
    #[must_use]
    pub const fn as_mut_ptr<T>(self) -> *mut T {
        self.0 as *mut T
    }
}

c_structs! {
    /// A universally unique identifier.
    #[derive(Eq, Hash)]
    CUuuid {
        bytes: [u8; 16],
    }

    /// What stands for an event in another process.
    CUipcEventHandle {
        reserved: [u8; 64],
    }

    /// What stands for an allocation in another process.
    CUipcMemHandle {
        reserved: [u8; 64],
    }

    /// What stands for an allocation on another node of a fabric.
    CUmemFabricHandle {
        data: [u8; 64],
    }
}

/// A function of the host that runs in a stream's order.
pub type CUhostFn = Option<unsafe extern "C" fn(user_data: *mut c_void)>;

/// A function of the host that is called when a stream reaches it, with the stream's status.
pub type CUstreamCallback =
    Option<unsafe extern "C" fn(stream: CUstream, status: CUresult, user_data: *mut c_void)>;

/// How much dynamic shared memory a kernel needs with blocks of a size.
pub type CUoccupancyB2DSize = Option<unsafe extern "C" fn(block_size: c_int) -> usize>;

/// A function of the host that is told of entries of the log.
pub type CUlogsCallback = Option<
    unsafe extern "C" fn(user_data: *mut c_void, level: u32, message: *mut c_char, length: usize),
>;
