//! The library at work: a program that names a library by its absolute path gets the one beside the audit library.
#![expect(unsafe_code, reason = "the test is a client, which loads libraries")]
#![expect(
    clippy::print_stdout,
    reason = "the process under test answers on its standard output"
)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

unsafe extern "C" {
    fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void;
    fn dlerror() -> *const c_char;
}

const RTLD_NOW: c_int = 2;

/// Tells the run of this program that is under test what to load.
const WANTED: &str = "PTXJIT_AUDIT_TEST_WANTED";

/// The audit library that cargo has built for this test.
fn audit_library() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    test.with_file_name("libptxjit_audit.so")
}

/// A folder with the audit library and one that stands for the driver. Any shared object will do.
fn folder(name: &str, with: &[&str]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    for file in with.iter().chain(&["libptxjit_audit.so"]) {
        fs::copy(audit_library(), folder.join(file)).unwrap();
    }
    folder
}

/// What a process that is audited says to a request for `wanted`: the files it has loaded, or why it has not.
fn load(folder: &Path, wanted: &str) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "client", "--nocapture"])
        .env("LD_AUDIT", folder.join("libptxjit_audit.so"))
        .env(WANTED, wanted)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The process under test; as a test of its own it has nothing to do.
#[test]
fn client() {
    let Ok(wanted) = std::env::var(WANTED) else {
        return;
    };
    let wanted = CString::new(wanted).unwrap();
    // SAFETY: the libraries that the test provides run no code when they are loaded.
    if unsafe { dlopen(wanted.as_ptr(), RTLD_NOW) }.is_null() {
        // SAFETY: a call has just failed, so there is a text.
        let why = unsafe { CStr::from_ptr(dlerror()) };
        println!("failed: {}", why.to_string_lossy());
    }
    print!("{}", fs::read_to_string("/proc/self/maps").unwrap());
}

#[test]
fn absolute_path() {
    let folder = folder("absolute", &["libcuda.so.1", "libcudart.so.12"]);
    let ours = folder.join("libcuda.so.1");
    let said = load(&folder, "/nowhere/at/all/libcuda.so.1");
    assert!(said.contains(&*ours.to_string_lossy()), "{said}");
    let ours = folder.join("libcudart.so.12");
    let said = load(&folder, "/nowhere/nvidia/cuda_runtime/lib/libcudart.so.12");
    assert!(said.contains(&*ours.to_string_lossy()), "{said}");
}

#[test]
fn bare_name() {
    let folder = folder("bare", &["libcuda.so.1"]);
    let said = load(&folder, "libcuda.so");
    assert!(
        said.contains(&*folder.join("libcuda.so.1").to_string_lossy()),
        "{said}"
    );
}

/// A library that ptxjit has no replacement for is looked for as ever.
#[test]
fn others_are_left_alone() {
    let folder = folder("others", &["libcuda.so.1"]);
    let said = load(&folder, "/nowhere/libcudart.so.13");
    assert!(said.contains("failed: /nowhere/libcudart.so.13"), "{said}");
    let said = load(&folder, "libm.so.6");
    assert!(!said.contains("failed: lib"), "{said}");
}
