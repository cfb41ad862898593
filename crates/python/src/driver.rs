//! The functions of the driver library, looked up once.
#![expect(
    unsafe_code,
    reason = "loads a library and takes the addresses of its functions"
)]

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

/// A handle of any kind; they are numbers.
pub(crate) type Handle = u64;

/// A kernel's fault, as `ptxjit.h` has it.
#[repr(C)]
pub(crate) struct RawFault {
    pub(crate) size: usize,
    pub(crate) code: i32,
    pub(crate) has_block: u32,
    pub(crate) has_thread: u32,
    pub(crate) block: [u32; 3],
    pub(crate) thread: [u32; 3],
    pub(crate) ptx_line: u32,
    pub(crate) kind: *const c_char,
    pub(crate) kernel: *const c_char,
    pub(crate) source: *const c_char,
    pub(crate) report: *const c_char,
}

/// `CUlaunchConfig`.
#[repr(C)]
pub(crate) struct LaunchConfig {
    pub(crate) grid: [c_uint; 3],
    pub(crate) block: [c_uint; 3],
    pub(crate) shared: c_uint,
    pub(crate) stream: Handle,
    pub(crate) attributes: *const LaunchAttribute,
    pub(crate) n_attributes: c_uint,
}

/// `CUlaunchAttribute`, of which a flag is all that is used.
#[repr(C, align(8))]
pub(crate) struct LaunchAttribute {
    pub(crate) id: c_uint,
    pub(crate) padding: [u8; 4],
    pub(crate) value: c_int,
    pub(crate) rest: [u8; 60],
}

macro_rules! functions {
    ($($symbol:ident: fn($($arg:ty),*) -> $result:ty;)*) => {
        /// The functions that are used, by their names.
        #[expect(non_snake_case, reason = "the names are the library's")]
        pub(crate) struct Driver {
            $(pub(crate) $symbol: unsafe extern "C" fn($($arg),*) -> $result,)*
        }

        impl Driver {
            fn load(library: &Library) -> Result<Driver, String> {
                Ok(Driver {
                    $($symbol: {
                        // SAFETY: the types are those of `cuda.h` and `ptxjit.h`.
                        let found = unsafe { library.get(concat!(stringify!($symbol), "\0").as_bytes()) };
                        *found.map_err(|_| format!("the library has no `{}`: it is not ptxjit's", stringify!($symbol)))?
                    },)*
                })
            }
        }
    };
}

functions! {
    cuInit: fn(c_uint) -> u32;
    cuGetErrorName: fn(u32, *mut *const c_char) -> u32;
    cuDeviceGetCount: fn(*mut c_int) -> u32;
    cuDeviceGetName: fn(*mut c_char, c_int, c_int) -> u32;
    cuDeviceTotalMem_v2: fn(*mut usize, c_int) -> u32;
    cuDeviceGetAttribute: fn(*mut c_int, c_int, c_int) -> u32;
    cuDevicePrimaryCtxRetain: fn(*mut Handle, c_int) -> u32;
    cuCtxSetCurrent: fn(Handle) -> u32;
    cuCtxSynchronize: fn() -> u32;
    cuMemAlloc_v2: fn(*mut Handle, usize) -> u32;
    cuMemFree_v2: fn(Handle) -> u32;
    cuMemGetAddressRange_v2: fn(*mut Handle, *mut usize, Handle) -> u32;
    cuMemcpy: fn(Handle, Handle, usize) -> u32;
    cuMemsetD8_v2: fn(Handle, u8, usize) -> u32;
    cuModuleLoadDataEx: fn(*mut Handle, *const c_void, c_uint, *mut c_int, *mut *mut c_void) -> u32;
    cuModuleUnload: fn(Handle) -> u32;
    cuModuleGetFunction: fn(*mut Handle, Handle, *const c_char) -> u32;
    cuModuleGetFunctionCount: fn(*mut c_uint, Handle) -> u32;
    cuModuleEnumerateFunctions: fn(*mut Handle, c_uint, Handle) -> u32;
    cuModuleGetGlobal_v2: fn(*mut Handle, *mut usize, Handle, *const c_char) -> u32;
    cuFuncGetName: fn(*mut *const c_char, Handle) -> u32;
    cuFuncGetParamInfo: fn(Handle, usize, *mut usize, *mut usize) -> u32;
    cuFuncSetAttribute: fn(Handle, c_int, c_int) -> u32;
    cuLaunchKernelEx: fn(*const LaunchConfig, Handle, *mut *mut c_void, *mut *mut c_void) -> u32;
    cuStreamCreate: fn(*mut Handle, c_uint) -> u32;
    cuStreamDestroy_v2: fn(Handle) -> u32;
    cuStreamSynchronize: fn(Handle) -> u32;
    cuLinkCreate_v2: fn(c_uint, *mut c_int, *mut *mut c_void, *mut Handle) -> u32;
    cuLinkAddData_v2: fn(Handle, c_uint, *const c_void, usize, *const c_char, c_uint, *mut c_int, *mut *mut c_void) -> u32;
    cuLinkComplete: fn(Handle, *mut *const u8, *mut usize) -> u32;
    cuLinkDestroy: fn(Handle) -> u32;
    ptxjit_version: fn() -> *const c_char;
    ptxjit_last_error: fn(*mut c_char, usize) -> usize;
    ptxjit_clear_error: fn(Handle) -> u32;
    ptxjit_clear_all_errors: fn() -> u32;
    ptxjit_next_fault: fn(*mut RawFault) -> c_int;
}

static DRIVER: OnceLock<Driver> = OnceLock::new();

/// Loads the library at a path, for all of the process to see.
pub(crate) fn open(path: &str) -> Result<(), String> {
    if DRIVER.get().is_some() {
        return Ok(());
    }
    // SAFETY: the library is ptxjit's, whose initialization does nothing that matters here.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) };
    let library = library.map_err(|err| format!("{path} cannot be loaded: {err}"))?;
    let driver = Driver::load(&library)?;
    // The library must stay: its threads run.
    std::mem::forget(library);
    let _ = DRIVER.set(driver);
    Ok(())
}

/// The functions, once the library is open.
pub(crate) fn get() -> Option<&'static Driver> {
    DRIVER.get()
}
