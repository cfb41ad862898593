//! Gives the library the name by which programs know it, whatever its file is called.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libnvidia-ml.so.1");
}
