//! Gives the library the name by which programs know it, whatever its file is called.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libnvidia-ml.so.1");
    // Threads that have called the library run its destructors when they end, which may be after
    // the client has closed it.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
