//! `libcudart.so.12` and `libcudart.so.13`: the CUDA runtime, for programs that use it as a shared
//! library.
//!
//! There is no engine in here: everything is done by `libcuda.so.1`, which [`driver`] opens when it
//! is first needed. What the runtime adds is the current device of a thread with its primary
//! context ([`device`]), the device code that compiled programs register ([`registry`]), the last
//! error ([`call`]), and structures of its own. Most functions are a row in a table that says which
//! function of the driver they are.
//!
//! The sources are built twice. What only one version has is marked by `cfg(cudart13)`.

mod driver;
mod host;

mod call;
mod errors;

mod device;
mod entry;
mod properties;

mod memory;
mod pointer;
mod pool;

mod copy;
mod copy_3d;
mod fill;

mod array;
mod channel;
mod texture;

mod event;
mod stream;

mod registry;

mod function;
mod launch;
mod library;
mod symbol;

mod graph;
mod graph_node;
mod graph_params;

mod unsupported;
