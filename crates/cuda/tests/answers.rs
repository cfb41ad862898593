//! Answers of the driver where its documentation leaves a choice. The expected codes were measured
//! on an H100 with driver 580.159.04 (CUDA 13.0).
#![expect(unsafe_code, reason = "calls the library as a C program does")]

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr::null_mut;

// Has the library linked.
use cuda as _;

unsafe extern "C" {
    fn cuInit(flags: u32) -> u32;
    fn cuGetExportTable(table: *mut u64, id: *const [u8; 16]) -> u32;
    fn cuMemFree_v2(address: u64) -> u32;
    fn cuDevicePrimaryCtxRetain(context: *mut u64, device: i32) -> u32;
    fn cuCtxSetCurrent(context: u64) -> u32;
    fn cuCtxPushCurrent_v2(context: u64) -> u32;
    fn cuCtxDestroy_v2(context: u64) -> u32;
    fn cuCtxGetFlags(flags: *mut u32) -> u32;
    fn cuCtxGetApiVersion(context: u64, version: *mut u32) -> u32;
    fn cuGetProcAddress(name: *const c_char, to: *mut u64, version: i32, flags: u64) -> u32;
    fn cuGetProcAddress_v2(
        name: *const c_char,
        to: *mut u64,
        version: i32,
        flags: u64,
        status: *mut u32,
    ) -> u32;
    fn cuMemAlloc_v2(address: *mut u64, size: usize) -> u32;
    fn cuMemHostAlloc(address: *mut u64, size: usize, flags: u32) -> u32;
    fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, size: usize) -> u32;
    fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, size: usize) -> u32;
    fn cuModuleLoadData(module: *mut u64, image: *const c_void) -> u32;
    fn cuLibraryLoadData(
        library: *mut u64,
        image: *const c_void,
        keys: *const u32,
        values: *const u64,
        n_options: u32,
        library_keys: *const u32,
        library_values: *const u64,
        n_library_options: u32,
    ) -> u32;
    fn cuLibraryGetKernel(kernel: *mut u64, library: u64, name: *const c_char) -> u32;
    fn cuLibraryGetModule(module: *mut u64, library: u64) -> u32;
    fn cuModuleGetFunction(function: *mut u64, module: u64, name: *const c_char) -> u32;
    fn cuModuleGetGlobal_v2(
        to: *mut u64,
        size: *mut usize,
        module: u64,
        name: *const c_char,
    ) -> u32;
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        n_blocks: *mut i32,
        function: u64,
        block: i32,
        dynamic: usize,
    ) -> u32;
    fn cuOccupancyAvailableDynamicSMemPerBlock(
        bytes: *mut usize,
        function: u64,
        n_blocks: i32,
        block: i32,
    ) -> u32;
    fn cuTexObjectDestroy(object: u64) -> u32;
    fn cuTensorMapEncodeTiled(
        map: *mut c_void,
        dtype: u32,
        rank: u32,
        address: u64,
        dims: *const u64,
        strides: *const u64,
        sides: *const u32,
        steps: *const u32,
        interleave: u32,
        swizzle: u32,
        promotion: u32,
        fill: u32,
    ) -> u32;
}

const INVALID_VALUE: u32 = 1;
const INVALID_IMAGE: u32 = 200;
const INVALID_PTX: u32 = 218;
const NOT_FOUND: u32 = 500;

const PTX: &CStr = c".version 7.0
.target sm_70
.address_size 64
.visible .global .b32 g;
.visible .entry k() { ret; }
";

/// The primary context of device 0, current in this thread.
fn context() -> u64 {
    let mut context = 0;
    // SAFETY: the place for the result is there.
    unsafe {
        assert_eq!(cuInit(0), 0);
        assert_eq!(cuDevicePrimaryCtxRetain(&raw mut context, 0), 0);
        assert_eq!(cuCtxSetCurrent(context), 0);
    }
    context
}

fn load(image: &CStr) -> (u32, u64) {
    let mut module = 0;
    // SAFETY: the place for the result is there, and the image ends with a NUL.
    let code = unsafe { cuModuleLoadData(&raw mut module, image.as_ptr().cast()) };
    (code, module)
}

/// Codes of a library: when it is loaded, when its kernel `k` is asked for, and its module.
fn load_library(image: &CStr) -> [u32; 3] {
    let (mut library, mut out) = (0, 0);
    let image = image.as_ptr().cast();
    let (none, no_values) = (std::ptr::null(), std::ptr::null());
    // SAFETY: the places for the results are there, image and name end with a NUL, and there are no
    // options.
    unsafe {
        let to = &raw mut library;
        let loaded = cuLibraryLoadData(to, image, none, no_values, 0, none, no_values, 0);
        let kernel = cuLibraryGetKernel(&raw mut out, library, c"k".as_ptr());
        [loaded, kernel, cuLibraryGetModule(&raw mut out, library)]
    }
}

#[test]
fn modules_without_functions_that_they_use_are_refused() {
    context();
    let head = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n";
    let declared = ".extern .func f();\n";
    let codes = |text: &str| {
        let image = CString::new(format!("{head}{text}")).unwrap();
        (load(&image).0, load_library(&image))
    };
    let refused = (INVALID_PTX, [0, INVALID_PTX, INVALID_PTX]);
    assert_eq!(codes(declared), (0, [0, 0, 0]));
    for uses in [
        ".visible .entry uses() { call f; ret; }",
        // Whether a kernel reaches the call does not matter.
        ".visible .entry uses() { ret; call f; ret; }",
        ".visible .func uses() { call f; ret; }",
        ".func uses() { call f; ret; }",
        ".visible .entry uses() { .reg .u64 %a; mov.u64 %a, f; ret; }",
        ".visible .global .u64 uses = f;",
    ] {
        assert_eq!(codes(&format!("{declared}{uses}")), refused, "{uses}");
    }
    // A prototype of a function that the module does not define is no different.
    let uses = ".visible .entry uses() { call f; ret; }";
    assert_eq!(codes(&format!(".func f();\n{uses}")), refused);
    assert_eq!(codes(&format!(".weak .func f();\n{uses}")), refused);
}

#[test]
fn a_null_address_is_freed_without_a_context() {
    // SAFETY: there are no pointers.
    unsafe {
        assert_eq!(cuInit(0), 0);
        assert_eq!(cuMemFree_v2(0), 0);
    }
}

#[test]
fn a_function_that_is_not_found_is_no_error() {
    let find = |name: &CStr, version| {
        let (mut to, mut status) = (77, 77);
        let (to_ref, status_ref) = (&raw mut to, &raw mut status);
        // SAFETY: the name ends with a NUL, and the places for results are there.
        let codes = unsafe {
            let v2 = cuGetProcAddress_v2(name.as_ptr(), to_ref, version, 0, status_ref);
            [v2, cuGetProcAddress(name.as_ptr(), to_ref, version, 0)]
        };
        (codes, to, status)
    };
    assert_eq!(find(c"cuNoSuchThing", 12_000), ([0, NOT_FOUND], 0, 1));
    assert_eq!(find(c"", 12_000), ([0, NOT_FOUND], 0, 1));
    assert_eq!(find(c"cuMemAlloc_v2", 12_000), ([0, NOT_FOUND], 0, 1));
    assert_eq!(
        find(c"cuTensorMapEncodeTiled", 11_000),
        ([0, NOT_FOUND], 0, 2)
    );
    let (codes, to, status) = find(c"cuMemAlloc", 12_000);
    assert!(codes == [0, 0] && to != 0 && status == 0);
}

#[test]
fn primary_contexts() {
    let context = context();
    let (mut flags, mut version) = (77, 77);
    // SAFETY: the places for the results are there.
    unsafe {
        assert_eq!(cuCtxGetFlags(&raw mut flags), 0);
        assert_eq!(cuCtxGetApiVersion(context, &raw mut version), 0);
        assert_eq!((flags, version), (8, 3020));
        assert_eq!(cuCtxPushCurrent_v2(0), INVALID_VALUE);
        assert_eq!(cuCtxDestroy_v2(0), INVALID_VALUE);
    }
}

#[test]
fn memory() {
    context();
    let mut address = 77;
    // SAFETY: the place for the result is there; null is no place.
    unsafe {
        assert_eq!(cuMemHostAlloc(&raw mut address, 0, 0), 0);
        assert_eq!(address, 0);
        assert_eq!(cuMemAlloc_v2(&raw mut address, 64), 0);
        assert_eq!(cuMemcpyHtoD_v2(address, null_mut(), 16), INVALID_VALUE);
        assert_eq!(cuMemcpyDtoH_v2(null_mut(), address, 16), INVALID_VALUE);
        // The context still works.
        let mut word = 0_u32;
        assert_eq!(cuMemcpyDtoH_v2((&raw mut word).cast(), address, 4), 0);
        assert_eq!(cuTexObjectDestroy(0), 0);
    }
}

#[test]
fn images() {
    context();
    for garbage in [
        c"x",
        c"garbage .version 7.0",
        c".garbage",
        c"// nothing",
        c".target sm_70\n.version 7.0\n",
    ] {
        assert_eq!(load(garbage).0, INVALID_IMAGE, "{garbage:?}");
    }
    assert_eq!(
        load(c".version 7.0\n.target sm_70\nnonsense").0,
        INVALID_PTX
    );
    assert_eq!(
        load(c" // one\n /* two */ .version 7.0\n.target sm_70\n").0,
        0
    );
    let (code, module) = load(PTX);
    assert_eq!(code, 0);
    // SAFETY: names end with a NUL, and null is no place.
    unsafe {
        let mut function = 0;
        let mut find = |name: &CStr| cuModuleGetFunction(&raw mut function, module, name.as_ptr());
        assert_eq!(find(c""), INVALID_VALUE);
        assert_eq!(find(c"nope"), NOT_FOUND);
        let global = |to, size| cuModuleGetGlobal_v2(to, size, module, c"g".as_ptr());
        assert_eq!(global(null_mut(), null_mut()), INVALID_VALUE);
        let mut size = 0;
        assert_eq!((global(null_mut(), &raw mut size), size), (0, 4));
    }
}

#[test]
fn occupancy() {
    context();
    let (_, module) = load(PTX);
    let mut function = 0;
    let (mut n_blocks, mut bytes) = (0, 0);
    // SAFETY: the places for results are there.
    unsafe {
        assert_eq!(
            cuModuleGetFunction(&raw mut function, module, c"k".as_ptr()),
            0
        );
        let mut fitting = |dynamic| {
            let to = &raw mut n_blocks;
            let code = cuOccupancyMaxActiveBlocksPerMultiprocessor(to, function, 32, dynamic);
            (code, n_blocks)
        };
        // An A100 has 164 KB: each block takes 1 KB more than it asks for, in steps of 128 bytes.
        assert_eq!(fitting(11_000), (0, (164 << 10) / (11_008 + 1024)));
        assert_eq!(fitting(48 << 10), (0, 3));
        // The function may not have more before that was set.
        assert_eq!(fitting((48 << 10) + 1), (0, 0));
        let available = cuOccupancyAvailableDynamicSMemPerBlock(&raw mut bytes, function, 2, 128);
        assert_eq!((available, bytes), (0, 48 << 10));
        let too_many = cuOccupancyAvailableDynamicSMemPerBlock(&raw mut bytes, function, 40, 128);
        assert_eq!(too_many, INVALID_VALUE);
    }
}

#[test]
fn a_tensor_map_lies_anywhere() {
    context();
    let mut room = [0_u8; 256];
    let encode = |offset: usize, swizzle, place: &mut [u8; 256]| {
        let (dims, strides, sides, steps) = ([64, 8], [256], [32, 8], [1, 1]);
        // SAFETY: the lists are as long as the rank says, and 128 bytes are there for the map.
        unsafe {
            cuTensorMapEncodeTiled(
                place[offset..].as_mut_ptr().cast(),
                7,
                2,
                0x1000,
                dims.as_ptr(),
                strides.as_ptr(),
                sides.as_ptr(),
                steps.as_ptr(),
                0,
                swizzle,
                0,
                0,
            )
        }
    };
    for offset in [0, 1, 8, 32] {
        assert_eq!(encode(offset, 3, &mut room), 0, "{offset}");
    }
    // Larger atoms came with compute capability 10.0.
    assert_eq!(encode(0, 4, &mut room), INVALID_VALUE);
}

/// The table that NVIDIA's CUDA runtime asks for, and the one that NVRTC and nvJitLink do without.
const TABLES: [[u8; 16]; 2] = [
    *b"\x6b\xd5\xfb\x6c\x5b\xf4\xe7\x4a\x89\x87\xd9\x39\x12\xfd\x9d\xf9",
    *b"\xda\x91\x51\xd3\x3a\xe6\xcc\x41\xa5\xc0\x4f\x26\xd5\x33\xe3\x28",
];

/// Asks for a table twice, in a process of its own; nothing unless another test has started it.
#[test]
fn asks_for_a_private_table() {
    let Ok(idx) = std::env::var("PTXJIT_TEST_TABLE") else {
        return;
    };
    let id = &TABLES[idx.parse::<usize>().expect("a number")];
    for _ in 0..2 {
        let mut table = 1;
        // SAFETY: the place for the table and the identifier are there.
        let codes = unsafe { [cuInit(0), cuGetExportTable(&raw mut table, id)] };
        assert_eq!((codes, table), ([0, NOT_FOUND], 0));
    }
}

/// What the process that asks for a table prints on standard error.
fn told_of_table(idx: usize, quiet: &str) -> String {
    let program = std::env::current_exe().expect("a test has a path");
    let output = std::process::Command::new(program)
        .args(["--exact", "asks_for_a_private_table", "--nocapture"])
        .env("PTXJIT_TEST_TABLE", idx.to_string())
        .env("PTXJIT_QUIET", quiet)
        .output()
        .expect("the test can be started again");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_program_with_nvidias_runtime_is_told_so_once() {
    let told = told_of_table(0, "0");
    assert_eq!(told.matches("nvcc -cudart shared").count(), 1, "{told}");
    for silent in [told_of_table(0, "1"), told_of_table(1, "0")] {
        assert!(!silent.contains("ptxjit:"), "{silent}");
    }
}
