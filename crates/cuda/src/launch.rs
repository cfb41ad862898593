//! Launches.
#![expect(unsafe_code, reason = "exports functions under C's names")]

use ptxjit_driver::launch::{self, Arguments, LaunchConfig};
use ptxjit_driver::types::{CUfunction, CUstream, HostPtr};

use crate::call::exports;

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
}
