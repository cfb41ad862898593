//! The library as a client sees it, which loads it and calls functions by name.
#![expect(
    unsafe_code,
    reason = "calls functions of a loaded library, as a client does"
)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex};

use libloading::Library;
use ptxjit_persona::{Config, Device};

type Handle = *mut c_void;

const SUCCESS: u32 = 0;
const UNINITIALIZED: u32 = 1;
const INVALID_ARGUMENT: u32 = 2;
const NOT_SUPPORTED: u32 = 3;
const NOT_FOUND: u32 = 6;
const INSUFFICIENT_SIZE: u32 = 7;
const VERSION_MISMATCH: u32 = 25;

/// The environment that the library is to see. Three devices, of which CUDA sees one.
const VARIABLES: [(&str, &str); 4] = [
    ("PTXJIT_DEVICE_COUNT", "3"),
    ("PTXJIT_PERSONA", "h100"),
    ("PTXJIT_DEVICE_MEMORY", "8G"),
    ("CUDA_VISIBLE_DEVICES", "1"),
];

static LIBRARY: LazyLock<Library> = LazyLock::new(|| {
    for (name, value) in VARIABLES {
        // SAFETY: the tests of this file read no variable themselves, and the library reads them
        // after this.
        unsafe { std::env::set_var(name, value) };
    }
    let tests = std::env::current_exe().expect("a test has a path");
    let folder: PathBuf = tests.parent().expect("a file is in a folder").into();
    let file = folder.join("libptxjit_nvml.so");
    // SAFETY: loading this library runs no code of it.
    unsafe { Library::new(&file) }.expect("cargo builds the library before its tests")
});

/// Initialization is counted for the whole process, so tests take turns.
static TURN: Mutex<()> = Mutex::new(());

/// Calls a function by name, with the types that its arguments have.
macro_rules! call {
    ($name:literal $(, $arg:expr => $ty:ty)*) => {{
        let library = &*LIBRARY;
        // SAFETY: the types are those of `nvml.h`.
        let function = unsafe { library.get::<unsafe extern "C" fn($($ty),*) -> u32>($name) };
        let function = function.expect("every function is exported");
        // SAFETY: pointers are null or refer to values that live long enough.
        unsafe { function($($arg),*) }
    }};
}

/// Runs a test in an initialized library.
fn initialized(test: impl FnOnce()) {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    assert_eq!(call!(b"nvmlInit_v2"), SUCCESS);
    test();
    assert_eq!(call!(b"nvmlShutdown"), SUCCESS);
}

fn handle(index: u32) -> Handle {
    let mut handle: Handle = std::ptr::null_mut();
    let code =
        call!(b"nvmlDeviceGetHandleByIndex_v2", index => u32, &raw mut handle => *mut Handle);
    assert_eq!(code, SUCCESS);
    handle
}

/// Three devices, as the driver has them.
fn devices() -> Vec<Device> {
    let value = |name: &str| {
        let found = VARIABLES.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.into())
    };
    Config::read(&value, 0).0.all_devices
}

fn text(buffer: &[c_char]) -> String {
    // SAFETY: a `c_char` is a byte.
    let bytes = unsafe { std::slice::from_raw_parts(buffer.as_ptr().cast(), buffer.len()) };
    let text = CStr::from_bytes_until_nul(bytes).expect("the text ends");
    text.to_string_lossy().into_owned()
}

#[test]
fn nothing_works_before_initialization() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let mut count = 77_u32;
    assert_eq!(
        call!(b"nvmlDeviceGetCount_v2", &raw mut count => *mut u32),
        UNINITIALIZED
    );
    assert_eq!(call!(b"nvmlDeviceGetFanSpeed"), UNINITIALIZED);
    assert_eq!(call!(b"nvmlShutdown"), UNINITIALIZED);
    assert_eq!(count, 77);
    // Initializations are counted.
    assert_eq!(call!(b"nvmlInit"), SUCCESS);
    assert_eq!(call!(b"nvmlInitWithFlags", 1 => u32), SUCCESS);
    assert_eq!(call!(b"nvmlShutdown"), SUCCESS);
    assert_eq!(
        call!(b"nvmlDeviceGetCount_v2", &raw mut count => *mut u32),
        SUCCESS
    );
    assert_eq!(count, 3);
    assert_eq!(call!(b"nvmlShutdown"), SUCCESS);
    assert_eq!(
        call!(b"nvmlDeviceGetCount_v2", &raw mut count => *mut u32),
        UNINITIALIZED
    );
}

#[test]
fn devices_are_those_of_the_driver() {
    initialized(|| {
        for device in devices() {
            let handle = handle(device.index);
            let mut buffer = [1 as c_char; 96];
            let code = call!(b"nvmlDeviceGetName",
                handle => Handle, buffer.as_mut_ptr() => *mut c_char, 96 => u32);
            assert_eq!(
                (code, text(&buffer)),
                (SUCCESS, device.persona.name.clone())
            );
            let code = call!(b"nvmlDeviceGetUUID",
                handle => Handle, buffer.as_mut_ptr() => *mut c_char, 96 => u32);
            assert_eq!((code, text(&buffer)), (SUCCESS, device.uuid_text()));
            let mut numbers = [0_u32; 2];
            let code = call!(b"nvmlDeviceGetIndex",
                handle => Handle, &raw mut numbers[0] => *mut u32);
            assert_eq!((code, numbers[0]), (SUCCESS, device.index));
            let mut capability = [0 as c_int; 2];
            let code = call!(b"nvmlDeviceGetCudaComputeCapability", handle => Handle,
                &raw mut capability[0] => *mut c_int, &raw mut capability[1] => *mut c_int);
            assert_eq!((code, capability), (SUCCESS, [9, 0]));
            let code = call!(b"nvmlDeviceGetNumGpuCores",
                handle => Handle, &raw mut numbers[0] => *mut u32);
            assert_eq!((code, numbers[0]), (SUCCESS, 132 * 128));
            let code = call!(b"nvmlDeviceGetClockInfo",
                handle => Handle, 2 => u32, &raw mut numbers[1] => *mut u32);
            assert_eq!((code, numbers[1]), (SUCCESS, 2619));
        }
    });
}

#[test]
fn devices_are_found_by_uuid_and_place() {
    initialized(|| {
        for device in devices() {
            let bus = device.pci_bus();
            let places = [
                format!("0000:{bus:02x}:00.0"),
                format!("00000000:{bus:02X}:00.0"),
                format!("{bus:02x}:00"),
            ];
            for place in places {
                let place = CString::new(place).expect("there is no NUL in it");
                let mut found: Handle = std::ptr::null_mut();
                let code = call!(b"nvmlDeviceGetHandleByPciBusId_v2",
                    place.as_ptr() => *const c_char, &raw mut found => *mut Handle);
                assert_eq!((code, found), (SUCCESS, handle(device.index)), "{place:?}");
            }
            let uuid = CString::new(device.uuid_text()).expect("there is no NUL in it");
            let mut found: Handle = std::ptr::null_mut();
            let code = call!(b"nvmlDeviceGetHandleByUUID",
                uuid.as_ptr() => *const c_char, &raw mut found => *mut Handle);
            assert_eq!((code, found), (SUCCESS, handle(device.index)));
        }
        for wrong in [
            c"0000:09:00.0",
            c"0000:01:01.0",
            c"0000:01:00.1",
            c"",
            c"x",
            c"::::",
        ] {
            let mut found: Handle = std::ptr::null_mut();
            let code = call!(b"nvmlDeviceGetHandleByPciBusId_v2",
                wrong.as_ptr() => *const c_char, &raw mut found => *mut Handle);
            assert_eq!((code, found.is_null()), (NOT_FOUND, true), "{wrong:?}");
        }
    });
}

#[test]
fn wrong_arguments_are_refused() {
    initialized(|| {
        let null = std::ptr::null_mut();
        let mut out: Handle = null;
        assert_eq!(
            call!(b"nvmlDeviceGetCount_v2", std::ptr::null_mut() => *mut u32),
            INVALID_ARGUMENT
        );
        assert_eq!(
            call!(b"nvmlDeviceGetHandleByIndex_v2", 3 => u32, &raw mut out => *mut Handle),
            INVALID_ARGUMENT
        );
        let mut number = 0_u32;
        for wrong in [null, 1 as Handle, usize::MAX as Handle] {
            let code = call!(b"nvmlDeviceGetIndex",
                wrong => Handle, &raw mut number => *mut u32);
            assert_eq!(code, INVALID_ARGUMENT);
        }
        let mut short = [7 as c_char; 5];
        let code = call!(b"nvmlDeviceGetName",
            handle(0) => Handle, short.as_mut_ptr() => *mut c_char, 5 => u32);
        assert_eq!((code, short), (INSUFFICIENT_SIZE, [7; 5]));
        let code = call!(b"nvmlDeviceGetClockInfo",
            handle(0) => Handle, 9 => u32, &raw mut number => *mut u32);
        assert_eq!(code, INVALID_ARGUMENT);
    });
}

#[test]
fn structs_are_filled_where_c_expects_it() {
    initialized(|| {
        // total, free, used
        let mut memory = [1_u64; 3];
        let code = call!(b"nvmlDeviceGetMemoryInfo",
            handle(0) => Handle, memory.as_mut_ptr() => *mut u64);
        assert_eq!((code, memory), (SUCCESS, [8 << 30, 8 << 30, 0]));
        // version and padding, total, reserved, free, used
        let mut memory = [0x0200_0028_u64, 1, 1, 1, 1];
        let code = call!(b"nvmlDeviceGetMemoryInfo_v2",
            handle(0) => Handle, memory.as_mut_ptr() => *mut u64);
        assert_eq!(
            (code, &memory[1..]),
            (SUCCESS, &[8 << 30, 0, 8 << 30, 0][..])
        );
        for wrong in [0_u64, 0x0100_0028, 0x0200_0020] {
            let mut memory = [wrong, 1, 1, 1, 1];
            let code = call!(b"nvmlDeviceGetMemoryInfo_v2",
                handle(0) => Handle, memory.as_mut_ptr() => *mut u64);
            assert_eq!((code, memory), (VERSION_MISMATCH, [wrong, 1, 1, 1, 1]));
        }
        // legacy id of 16 bytes; domain, bus, device, ids; id of 32 bytes; what lies behind
        let mut pci = [0x55_u8; 72];
        let code = call!(b"nvmlDeviceGetPciInfo_v3",
            handle(2) => Handle, pci.as_mut_ptr() => *mut u8);
        assert_eq!(code, SUCCESS);
        assert_eq!(&pci[..13], b"0000:03:00.0\0");
        assert_eq!(pci[16..28], [0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(&pci[28..32], &0x2330_10de_u32.to_ne_bytes());
        assert_eq!(&pci[36..53], b"00000000:03:00.0\0");
        assert_eq!(pci[68..], [0x55; 4]);
    });
}

#[test]
fn what_is_not_supported_says_so() {
    initialized(|| {
        assert_eq!(call!(b"nvmlDeviceGetFanSpeed"), NOT_SUPPORTED);
        assert_eq!(call!(b"nvmlDeviceSetPersistenceMode"), NOT_SUPPORTED);
        assert_eq!(call!(b"nvmlVgpuTypeGetName"), NOT_SUPPORTED);
        let mut count = 5_u32;
        let code = call!(b"nvmlDeviceGetComputeRunningProcesses_v3", handle(0) => Handle,
            &raw mut count => *mut u32, std::ptr::null_mut() => *mut c_void);
        assert_eq!((code, count), (SUCCESS, 0));
    });
}

#[test]
fn versions_are_digits_and_points() {
    initialized(|| {
        let mut buffer = [1 as c_char; 80];
        let code = call!(b"nvmlSystemGetDriverVersion",
            buffer.as_mut_ptr() => *mut c_char, 80 => u32);
        assert_eq!((code, text(&buffer).as_str()), (SUCCESS, "580.00"));
        let code = call!(b"nvmlSystemGetNVMLVersion",
            buffer.as_mut_ptr() => *mut c_char, 80 => u32);
        assert_eq!((code, text(&buffer).as_str()), (SUCCESS, "13.580.00"));
        let mut version = 0;
        let code = call!(b"nvmlSystemGetCudaDriverVersion_v2", &raw mut version => *mut c_int);
        assert_eq!((code, version), (SUCCESS, 13_000));
    });
}

#[test]
fn results_have_texts() {
    let library = &*LIBRARY;
    type ErrorString = unsafe extern "C" fn(u32) -> *const c_char;
    // SAFETY: the type is that of `nvml.h`.
    let function = unsafe { library.get::<ErrorString>(b"nvmlErrorString") };
    let function = function.expect("it is exported");
    for (code, text) in [
        (0, c"Success"),
        (3, c"Not Supported"),
        (999, c"Unknown Error"),
    ] {
        // SAFETY: the function takes any number and returns a static text.
        assert_eq!(unsafe { CStr::from_ptr(function(code)) }, text);
    }
}
