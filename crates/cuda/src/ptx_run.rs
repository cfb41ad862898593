//! `ptx_run`, which simulators of GPUs in clients call.
#![expect(unsafe_code, reason = "exports a function under C's name")]

use ptxjit_driver::ptx_run::{self, Call};
use ptxjit_driver::types::HostPtr;

use crate::call::call;

/// Runs the first kernel of a module on ordinary memory of the process. `args` are values in slots
/// of eight bytes. What goes wrong is told on standard error.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn ptx_run(
    ptx: HostPtr,
    n_args: i32,
    args: HostPtr,
    block_x: i32,
    block_y: i32,
    block_z: i32,
    grid_x: i32,
    grid_y: i32,
    grid_z: i32,
    shared: i32,
) {
    let what = Call {
        ptx,
        n_args,
        args,
        block: [block_x, block_y, block_z],
        grid: [grid_x, grid_y, grid_z],
        shared,
    };
    call("ptx_run", || format!("{what:?}"), || ptx_run::run(&what));
}
