//! Gives each of the two libraries that are built from these sources the name that its clients look
//! for.

fn main() {
    // There is nothing to look at; without a line, every file of the package would count.
    println!("cargo:rerun-if-changed=Cargo.toml");
    let is_13 = std::env::var("CARGO_PKG_NAME").is_ok_and(|name| name.ends_with("13"));
    let major = if is_13 { 13 } else { 12 };
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libnvJitLink.so.{major}");
    // Threads that have called the library run its destructors when they end, which may be after
    // the client has closed it.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
