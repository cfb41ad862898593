//! Gives the shared library the name that its clients look for.
//!
//! Both major versions have the same functions, so one file will do for both;
//! `$PTXJIT_NVJITLINK_MAJOR` says which name is written into it, 12 if not set.

fn main() {
    println!("cargo:rerun-if-env-changed=PTXJIT_NVJITLINK_MAJOR");
    let major = std::env::var("PTXJIT_NVJITLINK_MAJOR").unwrap_or_else(|_| "12".to_owned());
    assert!(
        matches!(major.as_str(), "12" | "13"),
        "PTXJIT_NVJITLINK_MAJOR is 12 or 13, not {major}"
    );
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libnvJitLink.so.{major}");
    // Threads that have called the library run its destructors when they end, which may be after
    // the client has closed it.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
