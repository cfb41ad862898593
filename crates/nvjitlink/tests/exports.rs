//! The library as C programs see it: names, handles, results and logs.

#![expect(unsafe_code, reason = "calls of C functions in a shared library")]

use std::ffi::{CString, c_char, c_void};
use std::path::{Path, PathBuf};
use std::ptr::{null, null_mut};

use libloading::Library;

// Built with the tests, as this names it.
use ptxjit_nvjitlink as _;

type Handle = *mut c_void;

/// `nvJitLinkResult`, from NVIDIA's header.
const SUCCESS: u32 = 0;
const UNRECOGNIZED_OPTION: u32 = 1;
const MISSING_ARCH: u32 = 2;
const INVALID_INPUT: u32 = 3;
const PTX_COMPILE: u32 = 4;
const NVVM_COMPILE: u32 = 5;
const UNRECOGNIZED_INPUT: u32 = 8;
const FINALIZE: u32 = 9;
const NULL_INPUT: u32 = 10;
const INCORRECT_INPUT_TYPE: u32 = 12;
const ARCH_MISMATCH: u32 = 13;
const MISSING_FATBIN: u32 = 15;
const UNRECOGNIZED_ARCH: u32 = 16;
const LTO_NOT_ENABLED: u32 = 18;

/// `nvJitLinkInputType`
const CUBIN: u32 = 1;
const PTX: u32 = 2;
const LTOIR: u32 = 3;
const FATBIN: u32 = 4;
const OBJECT: u32 = 5;
const LIBRARY: u32 = 6;
const ANY: u32 = 10;

fn library() -> Library {
    built("libptxjit_nvjitlink.so")
}

/// A library that was built with the tests.
fn built(name: &str) -> Library {
    let tests = std::env::current_exe().expect("a test has a path");
    let file = tests.with_file_name(name);
    // SAFETY: the library's initializers are those of Rust's standard library.
    unsafe { Library::new(&file) }.unwrap_or_else(|err| panic!("{}: {err}", file.display()))
}

/// The library with functions of one version, as a program that was compiled with that header has
/// them.
struct Api {
    library: Library,
    suffix: &'static str,
}

impl Api {
    fn new(suffix: &'static str) -> Api {
        Api {
            library: library(),
            suffix,
        }
    }

    /// # Safety
    ///
    /// `T` is the type of the function.
    unsafe fn get<T: Copy>(&self, name: &str) -> T {
        let name = match self.suffix {
            "" => name.to_owned(),
            suffix => format!("__{name}_{suffix}"),
        };
        // SAFETY: the caller's promise.
        let found = unsafe { self.library.get::<T>(name.as_bytes()) };
        *found.unwrap_or_else(|err| panic!("{err}"))
    }

    fn create(&self, options: &[&str]) -> Result<Handle, u32> {
        type Function = unsafe extern "C" fn(*mut Handle, u32, *const *const c_char) -> u32;
        let options: Vec<CString> = options
            .iter()
            .map(|&word| CString::new(word).unwrap())
            .collect();
        let words: Vec<*const c_char> = options.iter().map(|word| word.as_ptr()).collect();
        let mut handle = null_mut();
        // SAFETY: the types and the array are as the header says.
        let status = unsafe {
            self.get::<Function>("nvJitLinkCreate")(&mut handle, words.len() as u32, words.as_ptr())
        };
        if status == SUCCESS {
            Ok(handle)
        } else {
            Err(status)
        }
    }

    fn destroy(&self, handle: &mut Handle) -> u32 {
        type Function = unsafe extern "C" fn(*mut Handle) -> u32;
        // SAFETY: the type is as the header says.
        unsafe { self.get::<Function>("nvJitLinkDestroy")(handle) }
    }

    fn add(&self, handle: Handle, kind: u32, name: &str, data: &[u8]) -> u32 {
        type Function =
            unsafe extern "C" fn(Handle, u32, *const c_void, usize, *const c_char) -> u32;
        let name = CString::new(name).unwrap();
        let (data, size) = (data.as_ptr().cast(), data.len());
        // SAFETY: the types are as the header says, and the data has that size.
        unsafe { self.get::<Function>("nvJitLinkAddData")(handle, kind, data, size, name.as_ptr()) }
    }

    fn add_file(&self, handle: Handle, kind: u32, path: &Path) -> u32 {
        type Function = unsafe extern "C" fn(Handle, u32, *const c_char) -> u32;
        let path = CString::new(path.to_string_lossy().as_bytes()).unwrap();
        // SAFETY: the types are as the header says.
        unsafe { self.get::<Function>("nvJitLinkAddFile")(handle, kind, path.as_ptr()) }
    }

    fn complete(&self, handle: Handle) -> u32 {
        type Function = unsafe extern "C" fn(Handle) -> u32;
        // SAFETY: the type is as the header says.
        unsafe { self.get::<Function>("nvJitLinkComplete")(handle) }
    }

    /// What the function `what` and that for its size give.
    fn result(&self, handle: Handle, what: &str) -> Result<Vec<u8>, u32> {
        type Size = unsafe extern "C" fn(Handle, *mut usize) -> u32;
        type Bytes = unsafe extern "C" fn(Handle, *mut u8) -> u32;
        let mut size = 0;
        // SAFETY: the type is as the header says.
        let status = unsafe { self.get::<Size>(&format!("{what}Size"))(handle, &mut size) };
        if status != SUCCESS {
            return Err(status);
        }
        let mut bytes = vec![0xaa; size + 1];
        // SAFETY: the type is as the header says, and there is room for one byte more.
        let status = unsafe { self.get::<Bytes>(what)(handle, bytes.as_mut_ptr()) };
        assert_eq!(
            (status, bytes.pop()),
            (SUCCESS, Some(0xaa)),
            "{what} writes beyond its size"
        );
        Ok(bytes)
    }

    fn errors(&self, handle: Handle) -> String {
        let mut log = self.result(handle, "nvJitLinkGetErrorLog").unwrap();
        assert_eq!(log.pop(), Some(0));
        String::from_utf8(log).unwrap()
    }
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../image/tests/data")
        .join(name)
}

fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(data(name)).unwrap()
}

const HEAD: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";

fn user() -> String {
    format!("{HEAD}.extern .func f();\n.visible .entry k() {{ call f, (); ret; }}\n")
}

fn function() -> String {
    format!("{HEAD}.visible .func f() {{ ret; }}\n\0")
}

/// The dynamic linker finds a library that is loaded by the name that is written into its file,
/// which is how programs find it that have no path.
#[test]
fn each_major_version_has_its_name() {
    for (file, name) in [
        ("libptxjit_nvjitlink.so", "libnvJitLink.so.12"),
        ("libptxjit_nvjitlink13.so", "libnvJitLink.so.13"),
    ] {
        let _loaded = built(file);
        // SAFETY: as in `built`.
        let found = unsafe { Library::new(name) }.unwrap_or_else(|err| panic!("{name}: {err}"));
        // SAFETY: only the address is wanted.
        let function = unsafe { found.get::<*const c_void>(b"nvJitLinkVersion") };
        assert!(function.is_ok(), "{name}");
    }
}

#[test]
fn every_version_of_every_function() {
    let library = library();
    let exists = |name: &str| {
        // SAFETY: the function is not called.
        unsafe { library.get::<unsafe extern "C" fn()>(name.as_bytes()) }.is_ok()
    };
    let functions = [
        "Create",
        "Destroy",
        "AddData",
        "AddFile",
        "Complete",
        "GetLinkedCubinSize",
        "GetLinkedCubin",
        "GetLinkedPtxSize",
        "GetLinkedPtx",
        "GetErrorLogSize",
        "GetErrorLog",
        "GetInfoLogSize",
        "GetInfoLog",
    ];
    for function in functions {
        assert!(exists(&format!("nvJitLink{function}")), "{function}");
        for minor in 0..10 {
            assert!(
                exists(&format!("__nvJitLink{function}_12_{minor}")),
                "{function} 12.{minor}"
            );
        }
        for minor in 0..6 {
            assert!(
                exists(&format!("__nvJitLink{function}_13_{minor}")),
                "{function} 13.{minor}"
            );
        }
    }
    assert!(exists("nvJitLinkVersion") && exists("__nvJitLinkGetLinkedLTOIR_13_0"));
    assert!(!exists("__nvJitLinkGetLinkedLTOIR_12_9") && !exists("__nvJitLinkCreate_11_8"));
}

#[test]
fn modules_are_linked() {
    for suffix in ["", "12_0", "12_9", "13_5"] {
        let api = Api::new(suffix);
        let mut handle = api.create(&["-arch=sm_80", "-lineinfo"]).unwrap();
        let (user, function) = (user(), function());
        assert_eq!(api.add(handle, PTX, "user.ptx", user.as_bytes()), SUCCESS);
        assert_eq!(api.add(handle, ANY, "f.ptx", function.as_bytes()), SUCCESS);
        assert_eq!(
            api.result(handle, "nvJitLinkGetLinkedCubin"),
            Err(INVALID_INPUT)
        );
        assert_eq!(api.complete(handle), SUCCESS, "{}", api.errors(handle));
        let image = api.result(handle, "nvJitLinkGetLinkedCubin").unwrap();
        let modules = ptxjit_image::linked_modules(&image).unwrap();
        let names: Vec<&str> = modules.iter().map(|module| module.name.as_str()).collect();
        assert_eq!(names, ["user.ptx", "f.ptx"]);
        assert_eq!(modules[0].text, user.as_bytes());
        assert_eq!(modules[1].text, function.trim_end_matches('\0').as_bytes());
        assert_eq!(api.result(handle, "nvJitLinkGetInfoLog").unwrap(), [0]);
        assert_eq!(
            api.result(handle, "nvJitLinkGetLinkedPtx"),
            Err(LTO_NOT_ENABLED)
        );
        assert_eq!(api.destroy(&mut handle), SUCCESS);
        assert!(handle.is_null());

        // What was linked can be linked again.
        let handle = api.create(&["-arch=sm_80"]).unwrap();
        assert_eq!(api.add(handle, CUBIN, "linked", &image), SUCCESS);
        assert_eq!(api.complete(handle), SUCCESS);
        assert_eq!(
            api.result(handle, "nvJitLinkGetLinkedCubin").unwrap(),
            image
        );
    }
}

#[test]
fn fat_binaries_objects_and_libraries() {
    let api = Api::new("12_9");
    let linked = |kind: u32, file: &str, arch: &str| {
        let handle = api.create(&[arch]).unwrap();
        let status = api.add_file(handle, kind, &data(file));
        (handle, status)
    };
    for kind in [FATBIN, ANY] {
        let (handle, status) = linked(kind, "lz4.fatbin", "-arch=sm_80");
        assert_eq!(
            (status, api.complete(handle)),
            (SUCCESS, SUCCESS),
            "{}",
            api.errors(handle)
        );
    }
    assert_eq!(linked(OBJECT, "user.o", "-arch=sm_80").1, SUCCESS);
    assert_eq!(linked(LIBRARY, "pair.a", "-arch=sm_80").1, SUCCESS);
    assert_eq!(linked(OBJECT, "user.o", "-arch=sm_75").1, ARCH_MISMATCH);
    assert_eq!(
        linked(FATBIN, "cubin.fatbin", "-arch=sm_80").1,
        ARCH_MISMATCH
    );
    assert_eq!(
        linked(FATBIN, "no-such-file", "-arch=sm_80").1,
        INVALID_INPUT
    );

    let (handle, status) = linked(CUBIN, "sm80.cubin", "-arch=sm_80");
    assert_eq!(status, INVALID_INPUT);
    let log = api.errors(handle);
    assert!(
        log.contains("machine code for sm_80") && log.contains("sm80.cubin"),
        "{log}"
    );

    let handle = api.create(&["-arch=sm_80"]).unwrap();
    assert_eq!(
        api.add(handle, LTOIR, "x.ltoir", b"\xed\x43\x4e\x7f....."),
        NVVM_COMPILE
    );
    assert!(api.errors(handle).contains("LTO-IR"));
    assert_eq!(
        api.add(handle, ANY, "x.bc", b"BC\xc0\xde....."),
        NVVM_COMPILE
    );
    assert_eq!(
        api.add(handle, FATBIN, "x", user().as_bytes()),
        INCORRECT_INPUT_TYPE
    );
    assert_eq!(
        api.add(handle, 99, "x", user().as_bytes()),
        INCORRECT_INPUT_TYPE
    );
    assert_eq!(
        api.add(handle, ANY, "x", b"\x01\x02\x03"),
        UNRECOGNIZED_INPUT
    );
    assert_eq!(
        api.add(handle, LIBRARY, "x.a", b"!<arch>\n"),
        MISSING_FATBIN
    );
    assert_eq!(
        api.add(handle, FATBIN, "cut", &bytes("lz4.fatbin")[..100]),
        INVALID_INPUT
    );
}

#[test]
fn logs_say_what_is_wrong() {
    let api = Api::new("");
    let link = |texts: &[&str]| {
        let handle = api.create(&["-arch=sm_80"]).unwrap();
        for (n, text) in texts.iter().enumerate() {
            assert_eq!(
                api.add(handle, PTX, &format!("{n}.ptx"), text.as_bytes()),
                SUCCESS
            );
        }
        (api.complete(handle), api.errors(handle))
    };
    let (status, log) = link(&[&user()]);
    assert_eq!(status, FINALIZE);
    assert!(
        log.contains("undefined reference to 'f'") && log.contains("0.ptx:5:"),
        "{log}"
    );
    let (status, log) = link(&[&user(), &function(), &function()]);
    assert_eq!(status, FINALIZE);
    assert!(log.contains("multiple definition of 'f'"), "{log}");
    let bad = format!("{HEAD}.visible .func f() {{\n nonsense;\n ret; }}");
    let (status, log) = link(&[&user(), &bad]);
    assert_eq!(status, PTX_COMPILE);
    assert!(log.contains("--> 1.ptx:5:2"), "{log}");
    assert_eq!(link(&[&user(), "no PTX"]).0, PTX_COMPILE);
    assert_eq!(link(&[]).0, INVALID_INPUT);
    let newer = function().replace("sm_80", "sm_90");
    assert_eq!(link(&[&user(), &newer]).0, ARCH_MISMATCH);
}

#[test]
fn ptx_as_a_result() {
    let api = Api::new("");
    let handle = api.create(&["-arch=sm_80", "-lto", "-ptx"]).unwrap();
    assert_eq!(
        api.add(handle, PTX, "f.ptx", function().as_bytes()),
        SUCCESS
    );
    assert_eq!(api.complete(handle), SUCCESS);
    assert_eq!(
        api.result(handle, "nvJitLinkGetLinkedPtx").unwrap(),
        function().as_bytes()
    );
    let handle = api.create(&["-arch=sm_80", "-lto", "-ptx"]).unwrap();
    assert_eq!(api.add(handle, PTX, "u.ptx", user().as_bytes()), SUCCESS);
    assert_eq!(
        api.add(handle, PTX, "f.ptx", function().as_bytes()),
        SUCCESS
    );
    assert_eq!(api.complete(handle), SUCCESS);
    assert_eq!(api.result(handle, "nvJitLinkGetLinkedPtx"), Err(FINALIZE));
}

#[test]
fn wrong_calls_are_errors() {
    let api = Api::new("12_4");
    assert_eq!(api.create(&[]), Err(MISSING_ARCH));
    assert_eq!(
        api.create(&["-arch=sm_80", "--what"]),
        Err(UNRECOGNIZED_OPTION)
    );
    assert_eq!(api.create(&["-arch=volta"]), Err(UNRECOGNIZED_ARCH));
    let handle = api.create(&["-arch=sm_80"]).unwrap();
    let mut gone = handle;
    assert_eq!(api.destroy(&mut gone), SUCCESS);
    for garbage in [
        handle,
        1 as Handle,
        usize::MAX as Handle,
        (&raw const gone).cast_mut().cast(),
    ] {
        assert_eq!(api.complete(garbage), INVALID_INPUT);
        assert_eq!(api.add(garbage, PTX, "x", user().as_bytes()), INVALID_INPUT);
        assert_eq!(
            api.result(garbage, "nvJitLinkGetErrorLog"),
            Err(INVALID_INPUT)
        );
        assert_eq!(api.destroy(&mut { garbage }), INVALID_INPUT);
    }
    assert_eq!(api.complete(null_mut()), NULL_INPUT);
    type Create = unsafe extern "C" fn(*mut Handle, u32, *const *const c_char) -> u32;
    type Size = unsafe extern "C" fn(Handle, *mut usize) -> u32;
    type Version = unsafe extern "C" fn(*mut u32, *mut u32) -> u32;
    let live = api.create(&["-arch=sm_80"]).unwrap();
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the types are as the header says, and null is what the functions look for.
    unsafe {
        assert_eq!(
            api.get::<Create>("nvJitLinkCreate")(null_mut(), 0, null()),
            NULL_INPUT
        );
        assert_eq!(
            api.get::<Create>("nvJitLinkCreate")(&mut gone, 2, null()),
            NULL_INPUT
        );
        assert_eq!(
            api.get::<Size>("nvJitLinkGetErrorLogSize")(live, null_mut()),
            NULL_INPUT
        );
        let version = *api.library.get::<Version>(b"nvJitLinkVersion").unwrap();
        assert_eq!(version(null_mut(), &mut minor), NULL_INPUT);
        assert_eq!(version(&mut major, &mut minor), SUCCESS);
    }
    // From 12.3 on clients would hand over LTO-IR.
    assert_eq!((major, minor), (12, 2));
}

#[test]
fn handles_from_several_threads() {
    let api = Api::new("");
    let shared = api.create(&["-arch=sm_80"]).unwrap() as usize;
    std::thread::scope(|scope| {
        for n in 0..4 {
            let api = &api;
            scope.spawn(move || {
                let text = function().replace("f()", &format!("f{n}()"));
                assert_eq!(
                    api.add(shared as Handle, PTX, "x", text.as_bytes()),
                    SUCCESS
                );
                let own = api.create(&["-arch=sm_80"]).unwrap();
                assert_ne!(own as usize, shared);
                assert_eq!(api.add(own, PTX, "x", text.as_bytes()), SUCCESS);
                assert_eq!(api.complete(own), SUCCESS);
            });
        }
    });
    assert_eq!(api.complete(shared as Handle), SUCCESS);
    let image = api
        .result(shared as Handle, "nvJitLinkGetLinkedCubin")
        .unwrap();
    assert_eq!(ptxjit_image::linked_modules(&image).unwrap().len(), 4);
}
