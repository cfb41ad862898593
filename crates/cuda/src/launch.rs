//! Launches, and the calls that set them up before CUDA 4.
#![expect(unsafe_code, reason = "exports functions under C's names")]

use ptxjit_driver::launch::{self, Arguments, LaunchConfig};
use ptxjit_driver::launch_state as state;
use ptxjit_driver::types::{CUfunction, CUstream, CUtexref, HostPtr};

use crate::call::{In, exports};

exports! {
    /// Launches a kernel.
    fn cuLaunchKernel(
        function: CUfunction, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32,
        block_z: u32, shared: u32, stream: CUstream, params: HostPtr, extra: HostPtr,
    ) or cuLaunchKernel_ptsz {
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        let arguments = Arguments { params, extra };
        launch::kernel(function, grid, block, shared, stream, arguments, false)
    }

    /// Launches a kernel whose blocks may wait for each other.
    fn cuLaunchCooperativeKernel(
        function: CUfunction, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32,
        block_z: u32, shared: u32, stream: CUstream, params: HostPtr,
    ) or cuLaunchCooperativeKernel_ptsz {
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        let arguments = Arguments { params, extra: HostPtr::NULL };
        launch::kernel(function, grid, block, shared, stream, arguments, true)
    }

    /// Launches a kernel, with attributes.
    fn cuLaunchKernelEx(
        config: HostPtr, function: CUfunction, params: HostPtr, extra: HostPtr,
    ) or cuLaunchKernelEx_ptsz {
        launch::kernel_ex(&LaunchConfig::read(config)?, function, Arguments { params, extra })
    }

    /// Sets the threads of a block, for launches without arguments.
    fn cuFuncSetBlockShape(function: CUfunction, x: i32, y: i32, z: i32) {
        state::set_block(function, [x, y, z])
    }

    /// Sets the dynamic shared memory of a block, likewise.
    fn cuFuncSetSharedSize(function: CUfunction, bytes: u32) {
        state::set_shared(function, bytes)
    }

    /// Sets the size of the parameter block.
    fn cuParamSetSize(function: CUfunction, bytes: u32) {
        state::set_param_size(function, bytes)
    }

    /// Sets an integer in the parameter block.
    fn cuParamSeti(function: CUfunction, offset: i32, value: u32) {
        state::set_param_word(function, offset, value)
    }

    /// Sets a number in the parameter block.
    fn cuParamSetf(function: CUfunction, offset: i32, value: f32) {
        state::set_param_word(function, offset, value.to_bits())
    }

    /// Sets bytes of the parameter block.
    fn cuParamSetv(function: CUfunction, offset: i32, bytes: In<u8>, count: u32) {
        state::set_param_bytes(function, offset, bytes.address(), count)
    }

    /// Has a kernel use a texture reference, as it does anyway.
    fn cuParamSetTexRef(function: CUfunction, unit: i32, reference: CUtexref) {
        state::set_texture(function, unit, reference)
    }

    /// Launches one block with what was set.
    fn cuLaunch(function: CUfunction) {
        state::run(function, [1; 2], CUstream::NULL)
    }

    /// Launches a grid with what was set.
    fn cuLaunchGrid(function: CUfunction, width: i32, height: i32) {
        state::run(function, [width, height], CUstream::NULL)
    }

    /// Launches a grid with what was set, in a stream.
    fn cuLaunchGridAsync(function: CUfunction, width: i32, height: i32, stream: CUstream) {
        state::run(function, [width, height], stream)
    }
}
