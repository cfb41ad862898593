//! NVRTC under the audit library: machine code that a program compiles is PTX. A library of a few
//! lines in C stands in for NVRTC.
#![expect(unsafe_code, reason = "the test is a client, which calls C")]
#![expect(
    clippy::print_stdout,
    reason = "the process under test answers on its standard output"
)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;

unsafe extern "C" {
    fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

const RTLD_NOW: c_int = 2;

/// Tells the run of this program that is under test where the library is.
const LIBRARY: &str = "PTXJIT_AUDIT_TEST_NVRTC";

type Compile = unsafe extern "C" fn(*mut u8, c_int, *const *const c_char) -> c_int;
type GetSize = unsafe extern "C" fn(*mut u8, *mut usize) -> c_int;
type GetCode = unsafe extern "C" fn(*mut u8, *mut c_char) -> c_int;

/// The library, built for each test; none if there is no C compiler.
fn library(test: &str) -> Option<PathBuf> {
    if Command::new("cc").arg("--version").output().is_err() {
        eprintln!("skipped: there is no C compiler, `cc`");
        return None;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    std::fs::create_dir_all(&folder).unwrap();
    let library = folder.join("libnvrtc.so.12");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nvrtc/stand_in.c"))
        .status()
        .expect("the compiler was there before");
    assert!(built.success());
    Some(library)
}

/// A function of the library, by its name.
fn symbol(library: *mut c_void, name: &CStr) -> *mut c_void {
    // SAFETY: the library is loaded, and the name is a string.
    let found = unsafe { dlsym(library, name.as_ptr()) };
    assert!(!found.is_null(), "{name:?}");
    found
}

/// The process under test; as a test of its own it has nothing to do.
#[test]
fn client() {
    let Some(library) = std::env::var_os(LIBRARY) else {
        return;
    };
    let path = CString::new(library.into_encoded_bytes()).unwrap();
    // SAFETY: the stand-in runs no code when it is loaded.
    let library = unsafe { dlopen(path.as_ptr(), RTLD_NOW) };
    assert!(!library.is_null());
    let at = |name| symbol(library, name);
    // SAFETY: these are the types of the stand-in's functions.
    let (compile, size, code) = unsafe {
        (
            std::mem::transmute::<*mut c_void, Compile>(at(c"nvrtcCompileProgram")),
            std::mem::transmute::<*mut c_void, GetSize>(at(c"nvrtcGetCUBINSize")),
            std::mem::transmute::<*mut c_void, GetCode>(at(c"nvrtcGetCUBIN")),
        )
    };
    let mut program = [0u8; 256];
    for options in [
        &[c"-w", c"-arch=sm_80"] as &[&CStr],
        &[c"-arch=compute_80"],
        &[c"-arch=sm_80", c"-dlto"],
    ] {
        let pointers: Vec<_> = options.iter().map(|option| option.as_ptr()).collect();
        let (mut bytes, mut text) = (0, vec![0 as c_char; 256]);
        let program = program.as_mut_ptr();
        // SAFETY: the stand-in's functions with what they take; the code fits.
        unsafe {
            compile(program, pointers.len() as c_int, pointers.as_ptr());
            size(program, &raw mut bytes);
            code(program, text.as_mut_ptr());
        }
        // SAFETY: the stand-in has written a string.
        let text = unsafe { CStr::from_ptr(text.as_ptr()) };
        println!("got: {} ({bytes})", text.to_string_lossy());
    }
}

/// What the client gets from the library, with and without the audit library.
fn got(library: &Path, is_audited: bool) -> Vec<String> {
    let test_program = std::env::current_exe().unwrap();
    let mut command = Command::new(&test_program);
    command.args(["--exact", "client", "--nocapture"]);
    command.env(LIBRARY, library);
    if is_audited {
        command.env(
            "LD_AUDIT",
            test_program.with_file_name("libptxjit_audit.so"),
        );
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let got = text.lines().filter_map(|line| line.split_once("got: "));
    got.map(|(_, what)| what.to_owned()).collect()
}

#[test]
fn machine_code_is_ptx() {
    let Some(library) = library("audited") else {
        return;
    };
    let expected = [
        "ptx -w -arch=compute_80 (24)",
        "cubin -arch=compute_80 (23)",
        "cubin -arch=sm_80 -dlto (24)",
    ];
    assert_eq!(got(&library, true), expected);
}

#[test]
fn without_the_audit_library_it_is_what_it_was() {
    let Some(library) = library("plain") else {
        return;
    };
    let expected = [
        "cubin -w -arch=sm_80 (21)",
        "cubin -arch=compute_80 (23)",
        "cubin -arch=sm_80 -dlto (24)",
    ];
    assert_eq!(got(&library, false), expected);
}
