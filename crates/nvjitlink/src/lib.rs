//! `libnvJitLink.so` for programs that link device code before they load it, as numba and cuda.core
//! do.
//!
//! The library links PTX by the rules of `ptxjit-frontend` and hands out a linked image of
//! `ptxjit-image` in the place of machine code, which ptxjit's driver loads. There is no engine
//! inside. `linker` is what a handle stands for, `options` its options, `handles` the table of
//! handles, and `exports` the C functions under all of their names.

mod exports;
mod handles;
mod linker;
mod options;
