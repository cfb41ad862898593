//! Gives the library the name under which programs look for it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    // Programs close the library while its threads run.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
