//! `libcuda.so.1`: the CUDA driver API under C's names.
//!
//! Every function is a few lines that check pointers for results and call `ptxjit-driver`. [`call`]
//! has what they share, [`table`] names every function and its versions, [`mod@unimplemented`]
//! exports the names of those that do nothing yet, [`symbols`] finds addresses for
//! `cuGetProcAddress`, and [`signatures`] says for tests what every function takes.
//!
//! **Invariants**: no panic reaches a client; a pointer of a client is read and written only
//! through
//! `ptxjit_driver::host`; nothing but `cu…`, `ptx_run` and `ptxjit_…` is exported.

mod call;

mod array;
mod c_abi;
mod callback;
mod capture;
mod context;
mod copy;
mod device;
mod event;
mod function;
mod graph;
mod graph_node;
mod launch;
mod library;
mod link;
mod logs;
mod memop;
mod memory;
mod module;
mod pointer;
mod pool;
mod ptx_run;
mod settings;
mod shape;
mod start;
mod stream;
mod tensor_map;
mod texture;
mod texture_reference;
mod vmm;

pub mod signatures;
mod symbols;
mod table;
mod unimplemented;

use ptxjit_driver::types::CUresult;

/// What a function returns that does nothing.
fn unsupported(name: &'static str) -> CUresult {
    call::call(name, String::new, || {
        ptxjit_driver::check_call()?;
        Err(CUresult::NOT_SUPPORTED)
    })
}
