//! `ptxjit.h` and its example, compiled by the system's C compiler against the library that cargo has built.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder with the library under the name that the linker looks for.
fn libraries() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let built = test.with_file_name("libcuda.so");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("c_abi");
    std::fs::create_dir_all(&folder).unwrap();
    for name in ["libcuda.so", "libcuda.so.1"] {
        let link = folder.join(name);
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(&built, &link).unwrap();
    }
    folder
}

fn has_compiler() -> bool {
    let found = Command::new("cc").arg("--version").output();
    let found = found.is_ok_and(|output| output.status.success());
    if !found {
        eprintln!("skipped: there is no C compiler, `cc`");
    }
    found
}

#[test]
fn example() {
    if !has_compiler() {
        return;
    }
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let libraries = libraries();
    let program = libraries.join("faults");
    let compiled = Command::new("cc")
        .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(here.join("include"))
        .arg(here.join("examples/faults.c"))
        .arg("-L")
        .arg(&libraries)
        .args(["-lcuda", "-o"])
        .arg(&program)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "{stderr}");
    let ran = Command::new(&program)
        .env("LD_LIBRARY_PATH", &libraries)
        .env("PTXJIT_CACHE_DIR", libraries.join("cache"))
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{stderr}");
    let expected = "bad-address in kernel number, line 12 of the PTX, code 700\n0 1 2 3\n";
    assert_eq!(String::from_utf8_lossy(&ran.stdout), expected);
    assert!(stderr.contains("CUDA_ERROR_ILLEGAL_ADDRESS"), "{stderr}");
}

/// C++ reads the header, too.
#[test]
fn header_for_cpp() {
    if !has_compiler() {
        return;
    }
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let compiled = Command::new("cc")
        .args(["-x", "c++", "-fsyntax-only", "-Wall", "-Werror"])
        .arg(here.join("include/ptxjit.h"))
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&compiled.stderr);
    // A C compiler without its C++ part has nothing to say about the header.
    assert!(
        compiled.status.success() || stderr.contains("cc1plus"),
        "{stderr}"
    );
}
