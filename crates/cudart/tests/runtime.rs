//! The libraries as clients see them that load them and call functions by name.
#![expect(
    unsafe_code,
    reason = "calls functions of loaded libraries, as a client does"
)]

#[path = "client/common.rs"]
mod common;

use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::LazyLock;

use common::{Folder, RUNTIMES};
use libloading::Library;

const HOST_TO_DEVICE: u32 = 1;
const DEVICE_TO_HOST: u32 = 2;
const DEFAULT: u32 = 4;

/// Calls a function by name, with the types that its arguments have.
macro_rules! call {
    ($library:expr, $name:literal $(, $arg:expr => $ty:ty)* $(,)?) => {{
        // SAFETY: the types are those of `cuda_runtime_api.h`.
        let function = unsafe { $library.get::<unsafe extern "C" fn($($ty),*) -> u32>($name) };
        let function = function.expect("every function is exported");
        // SAFETY: pointers are null or refer to values that live long enough.
        unsafe { function($($arg),*) }
    }};
}

/// Both libraries, which share one driver.
static LIBRARIES: LazyLock<[Library; 2]> = LazyLock::new(|| {
    let folder = Folder::new("runtime");
    RUNTIMES.map(|(_, name)| {
        // SAFETY: loading this library runs no code of it.
        let library =
            unsafe { Library::new(folder.path(name)) }.expect("the library can be loaded");
        let mut count = 0_i32;
        // The driver must be found while the folder exists.
        assert_eq!(
            call!(library, b"cudaGetDeviceCount", &raw mut count => *mut i32),
            0
        );
        assert_eq!(count, 1);
        library
    })
});

fn runtime_12() -> &'static Library {
    &LIBRARIES[0]
}

fn runtime_13() -> &'static Library {
    &LIBRARIES[1]
}

fn malloc(library: &Library, size: usize) -> *mut c_void {
    let mut pointer = std::ptr::null_mut();
    let code = call!(library, b"cudaMalloc", &raw mut pointer => *mut *mut c_void, size => usize);
    assert_eq!(code, 0);
    pointer
}

fn copy(library: &Library, to: *mut c_void, from: *const c_void, size: usize, kind: u32) -> u32 {
    call!(library, b"cudaMemcpy", to => *mut c_void, from => *const c_void, size => usize, kind => u32)
}

#[test]
fn all_names_exist_in_their_versions() {
    let names = include_str!("client/names.txt");
    let mut n_names = 0;
    for line in names.lines().filter(|line| !line.starts_with('#')) {
        let (name, only) = line.split_once(' ').unwrap_or((line, ""));
        for (idx, major) in ["12", "13"].into_iter().enumerate() {
            if !only.is_empty() && only != major {
                continue;
            }
            n_names += 1;
            let library: *mut c_void = handle(idx);
            let [name, version] = [name, RUNTIMES[idx].1].map(|text| CString::new(text).unwrap());
            // SAFETY: the library stays loaded, and the strings end.
            let address = unsafe { libc::dlvsym(library, name.as_ptr(), version.as_ptr()) };
            assert!(!address.is_null(), "{name:?} of {version:?}");
        }
    }
    assert!(n_names > 880, "{n_names}");
}

/// The loader's handle of a library.
fn handle(idx: usize) -> *mut c_void {
    assert!(LIBRARIES.len() > idx);
    let name = CString::new(RUNTIMES[idx].1).unwrap();
    // SAFETY: the library is loaded already, and found by its soname.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
    assert!(!handle.is_null(), "the soname is {name:?}");
    handle
}

#[test]
fn both_versions_have_one_driver_and_one_memory() {
    let (a, b) = (runtime_12(), runtime_13());
    let pointer = malloc(a, 4000);
    let values: Vec<u32> = (0..1000).collect();
    let mut back = vec![0_u32; 1000];
    assert_eq!(
        copy(b, pointer, values.as_ptr().cast(), 4000, HOST_TO_DEVICE),
        0
    );
    assert_eq!(copy(a, back.as_mut_ptr().cast(), pointer, 4000, DEFAULT), 0);
    assert_eq!(values, back);
    assert_eq!(
        copy(a, back.as_mut_ptr().cast(), pointer, 4004, DEVICE_TO_HOST),
        1
    );
    assert_eq!(copy(a, back.as_mut_ptr().cast(), pointer, 4, 5), 21);
    assert_eq!(call!(b, b"cudaFree", pointer => *mut c_void), 0);
    assert_eq!(call!(a, b"cudaFree", pointer => *mut c_void), 1);
    assert_eq!(
        call!(a, b"cudaFree", std::ptr::null_mut() => *mut c_void),
        0
    );
}

#[test]
fn versions_are_those_of_the_sonames() {
    let mut versions = [0_i32; 2];
    assert_eq!(
        call!(runtime_12(), b"cudaRuntimeGetVersion", &raw mut versions[0] => *mut i32),
        0
    );
    assert_eq!(
        call!(runtime_13(), b"cudaRuntimeGetVersion", &raw mut versions[1] => *mut i32),
        0
    );
    assert_eq!(versions, [12_090, 13_000]);
}

/// An `int` or `size_t` at an offset.
fn number<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().unwrap()
}

/// Offsets of CUDA 12.9 and 13.0, as a C compiler gives them: major, multiProcessorCount,
/// l2CacheSize, sharedMemPerBlockOptin.
#[test]
fn properties_have_the_layout_of_each_version() {
    let of = |library, name: &[u8], size: usize| {
        // Nothing behind the structure is written.
        let mut bytes = vec![0xa5_u8; size + 16];
        // SAFETY: the types are those of `cuda_runtime_api.h`.
        let function =
            unsafe { Library::get::<unsafe extern "C" fn(*mut u8, i32) -> u32>(library, name) };
        // SAFETY: there is room.
        assert_eq!(unsafe { function.unwrap()(bytes.as_mut_ptr(), 0) }, 0);
        // SAFETY: there is room, and no such device.
        let function =
            unsafe { Library::get::<unsafe extern "C" fn(*mut u8, i32) -> u32>(library, name) };
        // SAFETY: see above.
        assert_eq!(unsafe { function.unwrap()(bytes.as_mut_ptr(), 1) }, 101);
        assert_eq!(bytes[size..], [0xa5; 16]);
        let name = CStr::from_bytes_until_nul(&bytes).unwrap();
        assert!(!name.is_empty());
        bytes
    };
    let with_offsets = |bytes: &[u8], at: [usize; 4]| {
        let int = |at| i32::from_ne_bytes(number(bytes, at));
        let size = usize::from_ne_bytes(number(bytes, at[3]));
        (int(at[0]), int(at[1]), int(at[2]), size)
    };
    let attribute = |id: i32| {
        let mut value = 0_i32;
        let code = call!(runtime_12(), b"cudaDeviceGetAttribute", &raw mut value => *mut i32, id => i32, 0 => i32);
        assert_eq!(code, 0);
        value
    };
    let expected = (
        attribute(75),
        attribute(16),
        attribute(38),
        attribute(97) as usize,
    );
    assert!(expected.0 >= 5 && expected.1 > 0 && expected.3 >= 48 << 10);
    let old = of(runtime_12(), b"cudaGetDeviceProperties", 728);
    assert_eq!(with_offsets(&old, [360, 388, 616, 696]), expected);
    let twelve = of(runtime_12(), b"cudaGetDeviceProperties_v2", 1032);
    assert_eq!(with_offsets(&twelve, [360, 388, 616, 696]), expected);
    let thirteen = of(runtime_13(), b"cudaGetDeviceProperties", 1008);
    assert_eq!(with_offsets(&thirteen, [360, 384, 596, 672]), expected);
}

#[test]
fn the_last_error_is_each_thread_s_own() {
    let library = runtime_12();
    let peek = || call!(library, b"cudaPeekAtLastError");
    let take = || call!(library, b"cudaGetLastError");
    assert_eq!(call!(library, b"cudaSetDevice", 7 => i32), 101);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            assert_eq!(peek(), 0);
            assert_eq!(call!(library, b"cudaStreamDestroy", 77 => u64), 400);
            assert_eq!(take(), 400);
            assert_eq!(take(), 0);
        });
        other.join().unwrap();
    });
    // Calls that succeed leave it as it is.
    assert_eq!(call!(library, b"cudaDeviceSynchronize"), 0);
    assert_eq!([peek(), peek(), take(), take()], [101, 101, 101, 0]);
}

fn text(name: &[u8], code: u32) -> String {
    // SAFETY: the types are those of `cuda_runtime_api.h`.
    let function = unsafe { runtime_12().get::<unsafe extern "C" fn(u32) -> *const c_char>(name) };
    // SAFETY: any number may be asked for.
    let text = unsafe { function.unwrap()(code) };
    // SAFETY: the function gives a string.
    unsafe { CStr::from_ptr(text) }.to_str().unwrap().to_owned()
}

#[test]
fn errors_have_names_and_texts() {
    let name = |code| text(b"cudaGetErrorName", code);
    assert_eq!(name(0), "cudaSuccess");
    assert_eq!(name(2), "cudaErrorMemoryAllocation");
    assert_eq!(name(98), "cudaErrorInvalidDeviceFunction");
    assert_eq!(name(700), "cudaErrorIllegalAddress");
    assert_eq!(name(77_777), "unrecognized error code");
    let meaning = |code| text(b"cudaGetErrorString", code);
    assert_eq!(meaning(0), "no error");
    assert_eq!(meaning(1), "invalid argument");
    assert_eq!(meaning(98), "invalid device function");
    assert_eq!(meaning(77_777), "unrecognized error code");
}

#[test]
fn pointers_tell_what_they_are() {
    /// `cudaPointerAttributes` of CUDA 13, of which CUDA 12 has the first three words.
    type Attributes = [u64; 11];
    let ask = |library: &Library, pointer: *mut c_void| {
        let mut attributes: Attributes = [u64::MAX; 11];
        let out = (&raw mut attributes).cast::<c_void>();
        let code =
            call!(library, b"cudaPointerGetAttributes", out => *mut c_void, pointer => *mut c_void);
        assert_eq!(code, 0);
        attributes
    };
    let address = |pointer: *mut c_void| pointer.expose_provenance() as u64;
    let device = malloc(runtime_12(), 256);
    let known = ask(runtime_12(), device);
    assert_eq!(known[..4], [2, address(device), 0, u64::MAX]);
    let known = ask(runtime_13(), device);
    assert_eq!(known[..3], [2, address(device), 0]);
    assert_eq!(known[3..], [0; 8]);

    let mut local = 0_u32;
    let own = (&raw mut local).cast();
    let unknown = u64::from((-2_i32) as u32) << 32;
    assert_eq!(ask(runtime_12(), own)[..3], [unknown, 0, address(own)]);

    let mut managed = std::ptr::null_mut();
    let code = call!(runtime_12(), b"cudaMallocManaged", &raw mut managed => *mut *mut c_void, 64 => usize, 1 => u32);
    assert_eq!(code, 0);
    assert_eq!(
        ask(runtime_12(), managed)[..3],
        [3, address(managed), address(managed)]
    );
    let mut pinned = std::ptr::null_mut();
    let code =
        call!(runtime_12(), b"cudaMallocHost", &raw mut pinned => *mut *mut c_void, 64 => usize);
    assert_eq!(code, 0);
    assert_eq!(
        ask(runtime_12(), pinned)[..3],
        [1, address(pinned), address(pinned)]
    );
    assert_eq!(
        call!(runtime_12(), b"cudaFreeHost", pinned => *mut c_void),
        0
    );
    assert_eq!(call!(runtime_12(), b"cudaFree", managed => *mut c_void), 0);
    assert_eq!(call!(runtime_12(), b"cudaFree", device => *mut c_void), 0);
}

#[test]
fn bad_pointers_are_errors() {
    let library = runtime_12();
    let wild = std::ptr::without_provenance_mut::<c_void>(0x10);
    assert_eq!(
        call!(library, b"cudaGetDevice", std::ptr::null_mut() => *mut c_void),
        1
    );
    assert_eq!(call!(library, b"cudaGetDevice", wild => *mut c_void), 1);
    assert_eq!(
        call!(library, b"cudaMalloc", wild => *mut c_void, 4 => usize),
        1
    );
    assert_eq!(call!(library, b"cudaMemcpy3D", wild => *mut c_void), 1);
    assert_eq!(
        call!(library, b"cudaGetDeviceProperties_v2", wild => *mut c_void, 0 => i32),
        1
    );
    assert_eq!(
        call!(library, b"cudaFuncGetAttributes", wild => *mut c_void, wild => *mut c_void),
        98
    );
    assert_eq!(
        call!(library, b"cudaGetSymbolAddress", wild => *mut c_void, wild => *mut c_void),
        13
    );
}

#[test]
fn what_is_not_supported_says_so() {
    for library in LIBRARIES.iter() {
        assert_eq!(
            call!(library, b"cudaImportExternalMemory", 0 => u64, 0 => u64),
            801
        );
        assert_eq!(call!(library, b"cudaGLGetDevices"), 801);
        assert_eq!(
            call!(library, b"cudaGetExportTable", 0 => u64, 0 => u64),
            500
        );
    }
}

#[test]
fn functions_of_the_driver_are_found_by_name() {
    let ask = |name: &str, version: u32| {
        let (mut address, mut status) = (0_u64, 77_u32);
        let name = CString::new(name).unwrap();
        let code = call!(
            runtime_12(), b"cudaGetDriverEntryPointByVersion", name.as_ptr() => *const c_char, &raw mut address => *mut u64,
            version => u32, 0 => u64, &raw mut status => *mut u32
        );
        (code, address != 0, status)
    };
    assert_eq!(ask("cuMemAlloc", 12_000), (0, true, 0));
    assert_eq!(ask("cuNoSuchThing", 12_000), (0, false, 1));
    assert_eq!(ask("cuGraphAddNode", 10_000), (0, false, 2));
}

#[test]
fn streams_order_and_events_time() {
    let library = runtime_12();
    let (mut stream, mut events) = (0_u64, [0_u64; 2]);
    assert_eq!(
        call!(library, b"cudaStreamCreateWithFlags", &raw mut stream => *mut u64, 1 => u32),
        0
    );
    for event in &mut events {
        assert_eq!(
            call!(library, b"cudaEventCreate", &raw mut *event => *mut u64),
            0
        );
    }
    let pointer = malloc(library, 1 << 20);
    let mut back = vec![0_u8; 1 << 20];
    assert_eq!(
        call!(library, b"cudaEventRecord", events[0] => u64, stream => u64),
        0
    );
    assert_eq!(
        call!(library, b"cudaMemsetAsync", pointer => *mut c_void, 7 => i32, 1 << 20 => usize, stream => u64),
        0
    );
    let to = back.as_mut_ptr().cast::<c_void>();
    let code = call!(
        library, b"cudaMemcpyAsync", to => *mut c_void, pointer => *mut c_void, 1 << 20 => usize, DEVICE_TO_HOST => u32,
        stream => u64
    );
    assert_eq!(code, 0);
    assert_eq!(
        call!(library, b"cudaEventRecord", events[1] => u64, stream => u64),
        0
    );
    assert_eq!(call!(library, b"cudaStreamSynchronize", stream => u64), 0);
    assert!(back.iter().all(|&byte| byte == 7));
    let mut time = -1_f32;
    let code = call!(library, b"cudaEventElapsedTime", &raw mut time => *mut f32, events[0] => u64, events[1] => u64);
    assert_eq!(code, 0);
    assert!(time >= 0.0);
    assert_eq!(call!(library, b"cudaStreamDestroy", stream => u64), 0);
    assert_eq!(call!(library, b"cudaStreamQuery", stream => u64), 400);
    assert_eq!(call!(library, b"cudaFree", pointer => *mut c_void), 0);
}
