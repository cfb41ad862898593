//! Gives each of the two libraries that are built from these sources its name and version.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-check-cfg=cfg(cudart13)");
    let is_13 = std::env::var("CARGO_PKG_NAME").is_ok_and(|name| name.ends_with("13"));
    let major = if is_13 { 13 } else { 12 };
    if is_13 {
        println!("cargo:rustc-cfg=cudart13");
    }
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcudart.so.{major}");
    // Linkers record the symbol version that NVIDIA's library has, which is its name. A version
    // script of our own cannot be combined with the one by which rustc hides what is not exported,
    // and only GNU's linker has an option for this.
    println!("cargo:rustc-cdylib-link-arg=-fuse-ld=bfd");
    println!("cargo:rustc-cdylib-link-arg=-Wl,--default-symver");
    // Threads that have called the library run its destructors when they end, which may be after
    // the program has closed it.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
