//! A program that registers device code as compiled CUDA programs do, linked with either library.

#[path = "client/common.rs"]
mod common;

use std::process::Command;

use common::{Folder, RUNTIMES};

#[test]
fn a_program_as_nvcc_makes_it_runs() {
    let folder = Folder::new("stub");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/client/stub.c");
    for (_, name) in RUNTIMES {
        let program = folder.path(&format!("stub-{name}"));
        // The C compiler with which Rust links, too.
        let compiled = Command::new("cc")
            .args(["-std=c11", "-O1", "-o"])
            .arg(&program)
            .args([source.into(), folder.path(name)])
            .output()
            .expect("there is a C compiler");
        let messages = String::from_utf8_lossy(&compiled.stderr);
        assert!(compiled.status.success(), "{messages}");
        let run = Command::new(&program)
            .env("LD_LIBRARY_PATH", &folder.0)
            .output()
            .expect("the program can be started");
        let messages = String::from_utf8_lossy(&run.stderr);
        let printed = b"all is well\nafter the end, too\n";
        assert_eq!(run.stdout, printed, "{name}: {messages}");
        assert!(run.status.success(), "{name}: {messages}");
        assert!(!messages.contains("version information"), "{messages}");
    }
}

#[test]
fn a_program_without_a_driver_is_told_so() {
    const INSUFFICIENT_DRIVER: i32 = 35;
    let folder = Folder::new("no-driver");
    // In front of a driver that may be installed on this machine.
    std::fs::remove_file(folder.path("libcuda.so.1")).expect("the library is there");
    std::fs::write(folder.path("libcuda.so.1"), "no library").expect("there is room for a file");
    let (source, program) = (folder.path("count.c"), folder.path("count"));
    let text = "int cudaGetDeviceCount(int *); int main(void) { int n = 7; return cudaGetDeviceCount(&n) + n; }";
    std::fs::write(&source, text).expect("there is room for a file");
    let compiled = Command::new("cc")
        .arg("-o")
        .args([&program, &source, &folder.path("libcudart.so.12")])
        .status();
    assert!(compiled.expect("there is a C compiler").success());
    let run = Command::new(&program)
        .env("LD_LIBRARY_PATH", &folder.0)
        .status();
    let code = run.expect("the program can be started").code();
    assert_eq!(code, Some(INSUFFICIENT_DRIVER));
}
