//! Kernels: attributes and occupancy.
#![expect(unsafe_code, reason = "exports functions under C's names")]

use crate::call::{Result, exports};
use crate::device;
use crate::driver::cu;
use crate::host;
use crate::launch;
use crate::registry;

host::plain! {
    /// `cudaFuncAttributes`. The last two fields exist from CUDA 13 on, and are reserved before.
    FuncAttributes {
        sizes: [usize; 3], numbers: [i32; 13], node_update: i32, shared_mode: i32, reserved: [i32; 14], padding: u32,
    }
}

/// `CU_FUNC_ATTRIBUTE_…` of the structure's fields, in its order: bytes of shared, constant and
/// local memory, …
const SIZES: [i32; 3] = [1, 2, 3];
/// … and numbers, of which the last two are not in the driver's order.
const NUMBERS: [i32; 13] = [0, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 14];

fn attributes(function: u64) -> Result<FuncAttributes> {
    let kernel = registry::kernel(function)?;
    let device = device::current()?;
    let attribute = |id: i32| {
        let mut value = 0_i32;
        cu!(cuKernelGetAttribute(&mut value, id, kernel, device)).map(|()| value)
    };
    // The first one tells whether the kernel is there at all; of later ones a driver may not know.
    attribute(NUMBERS[0])?;
    let or_zero = |id| attribute(id).unwrap_or(0);
    Ok(FuncAttributes {
        sizes: SIZES.map(|id| or_zero(id) as usize),
        numbers: NUMBERS.map(or_zero),
        ..host::zeroed()
    })
}

/// A kernel's function in the current context.
pub(crate) fn in_context(function: u64) -> Result<u64> {
    let kernel = registry::kernel(function)?;
    let mut found = 0_u64;
    cu!(cuKernelGetFunction(&mut found, kernel))?;
    Ok(found)
}

exports! {
    /// What a kernel is.
    fn cudaFuncGetAttributes(out: u64, function: u64) {
        host::put(out, attributes(function)?)
    }

    /// Changes an attribute of a kernel on the current device.
    fn cudaFuncSetAttribute(function: u64, attribute: i32, value: i32) {
        cu!(cuKernelSetAttribute(attribute, value, registry::kernel(function)?, device::current()?))
    }

    /// Changes an attribute of a kernel on a device.
    fn cudaKernelSetAttributeForDevice(kernel: u64, attribute: i32, value: i32, device: i32) {
        cu!(cuKernelSetAttribute(attribute, value, registry::kernel(kernel)?, device))
    }

    /// A hint.
    fn cudaFuncSetCacheConfig(function: u64, config: u32) {
        cu!(cuKernelSetCacheConfig(registry::kernel(function)?, config, device::current()?))
    }

    /// A hint.
    fn cudaFuncSetSharedMemConfig(function: u64, config: u32) {
        cu!(cuFuncSetSharedMemConfig(in_context(function)?, config))
    }

    /// The name.
    fn cudaFuncGetName(out: u64, function: u64) {
        cu!(cuKernelGetName(out, registry::kernel(function)?))
    }

    /// Offset and size of a parameter.
    fn cudaFuncGetParamInfo(function: u64, idx: usize, offset: u64, size: u64) {
        cu!(cuKernelGetParamInfo(registry::kernel(function)?, idx, offset, size))
    }

    /// The driver's function of a kernel, in the current context.
    fn cudaGetFuncBySymbol(out: u64, function: u64) {
        host::put(out, in_context(function)?)
    }

    /// The driver's kernel.
    fn cudaGetKernel(out: u64, function: u64) {
        host::put(out, registry::kernel(function)?)
    }

    /// Blocks that run at once.
    fn cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        out: u64, function: u64, block: i32, shared: usize,
    ) {
        cu!(cuOccupancyMaxActiveBlocksPerMultiprocessor(out, in_context(function)?, block, shared))
    }

    /// Blocks that run at once.
    fn cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        out: u64, function: u64, block: i32, shared: usize, flags: u32,
    ) {
        cu!(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(out, in_context(function)?, block, shared, flags))
    }

    /// Shared memory that is left for a block.
    fn cudaOccupancyAvailableDynamicSMemPerBlock(
        out: u64, function: u64, n_blocks: i32, block: i32,
    ) {
        cu!(cuOccupancyAvailableDynamicSMemPerBlock(out, in_context(function)?, n_blocks, block))
    }

    /// Clusters that run at once.
    fn cudaOccupancyMaxActiveClusters(out: u64, function: u64, config: u64) {
        cu!(cuOccupancyMaxActiveClusters(out, in_context(function)?, &launch::config(config)?))
    }

    /// The largest cluster.
    fn cudaOccupancyMaxPotentialClusterSize(out: u64, function: u64, config: u64) {
        cu!(cuOccupancyMaxPotentialClusterSize(out, in_context(function)?, &launch::config(config)?))
    }
}

#[cfg(cudart13)]
exports! {
    /// The number of parameters.
    fn cudaFuncGetParamCount(function: u64, out: u64) {
        cu!(cuKernelGetParamCount(registry::kernel(function)?, out))
    }
}
