//! Gives the library the name under which programs look for it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    // A name in the table that nothing defines must not wait for a client to find it.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,defs");
    // Programs close the library while its threads run.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
