//! Gives the library the name under which programs look for it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    // Without this a function that is named in a table and exists nowhere shows when the library is loaded, not before.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,defs");
    // Programs close the library while its threads run.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
