//! Functions, and how many of their blocks a multiprocessor holds.
#![expect(unsafe_code, reason = "exports functions under C's names")]

use ptxjit_driver::launch::LaunchConfig;
use ptxjit_driver::types::{
    CUfunction, CUfunction_attribute, CUmodule, CUoccupancyB2DSize, HostPtr,
};
use ptxjit_driver::{function, occupancy};

use crate::call::{Out, exports};

exports! {
    /// An attribute.
    fn cuFuncGetAttribute(out: Out<i32>, attribute: CUfunction_attribute, function: CUfunction) {
        out.fill(|| function::attribute(function, attribute))
    }

    /// Sets an attribute.
    fn cuFuncSetAttribute(function: CUfunction, attribute: CUfunction_attribute, value: i32) {
        function::set_attribute(function, attribute, value)
    }

    /// A hint.
    fn cuFuncSetCacheConfig(function: CUfunction, config: u32) {
        function::set_cache_config(function, config)
    }

    /// A hint.
    fn cuFuncSetSharedMemConfig(function: CUfunction, config: u32) {
        function::set_shared_config(function, config)
    }

    /// The module.
    fn cuFuncGetModule(out: Out<CUmodule>, function: CUfunction) {
        out.fill(|| function::module(function))
    }

    /// The name.
    fn cuFuncGetName(out: Out<u64>, function: CUfunction) {
        out.fill(|| function::name(function))
    }

    /// Offset and size of a parameter.
    fn cuFuncGetParamInfo(function: CUfunction, idx: usize, offset: Out<usize>, size: Out<usize>) {
        let found = function::param(function, idx)?;
        offset.put(found.0)?;
        size.put_if_wanted(found.1)
    }

    /// The number of parameters.
    fn cuFuncGetParamCount(function: CUfunction, count: Out<usize>) {
        count.fill(|| function::param_count(function))
    }

    /// Whether the kernel is translated: 1, as it always is.
    fn cuFuncIsLoaded(state: Out<u32>, function: CUfunction) {
        state.fill(|| function::load(function).map(|()| 1))
    }

    /// Translates the kernel.
    fn cuFuncLoad(function: CUfunction) {
        function::load(function)
    }

    /// Blocks that a multiprocessor holds.
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        out: Out<i32>, function: CUfunction, block: i32, shared: usize,
    ) {
        out.fill(|| occupancy::max_active_blocks(function, block, shared, 0))
    }

    /// Blocks that a multiprocessor holds.
    fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        out: Out<i32>, function: CUfunction, block: i32, shared: usize, flags: u32,
    ) {
        out.fill(|| occupancy::max_active_blocks(function, block, shared, flags))
    }

    /// The blocks that fill the device.
    fn cuOccupancyMaxPotentialBlockSize(
        grid: Out<i32>, block: Out<i32>, function: CUfunction, shared_of: CUoccupancyB2DSize,
        shared: usize, limit: i32,
    ) {
        fill_device(grid, block, function, (shared_of, shared), limit, 0)
    }

    /// The blocks that fill the device.
    fn cuOccupancyMaxPotentialBlockSizeWithFlags(
        grid: Out<i32>, block: Out<i32>, function: CUfunction, shared_of: CUoccupancyB2DSize,
        shared: usize, limit: i32, flags: u32,
    ) {
        fill_device(grid, block, function, (shared_of, shared), limit, flags)
    }

    /// Shared memory of each of some blocks.
    fn cuOccupancyAvailableDynamicSMemPerBlock(
        out: Out<usize>, function: CUfunction, n_blocks: i32, block: i32,
    ) {
        out.fill(|| occupancy::available_shared(function, n_blocks, block))
    }

    /// The largest cluster.
    fn cuOccupancyMaxPotentialClusterSize(out: Out<i32>, function: CUfunction, config: HostPtr) {
        out.fill(|| occupancy::max_cluster_size(function, &LaunchConfig::read(config)?))
    }

    /// Clusters that the device holds.
    fn cuOccupancyMaxActiveClusters(out: Out<i32>, function: CUfunction, config: HostPtr) {
        out.fill(|| occupancy::max_active_clusters(function, &LaunchConfig::read(config)?))
    }
}

/// The blocks that fill the device; `shared` is what blocks of a size need, and what they need
/// whatever their size.
fn fill_device(
    grid: Out<i32>,
    block: Out<i32>,
    function: CUfunction,
    (shared_of, shared): (CUoccupancyB2DSize, usize),
    limit: i32,
    flags: u32,
) -> ptxjit_driver::Result<()> {
    let dynamic_of = |block| match shared_of {
        // SAFETY: the client says that this is its function, and the call itself is what it asks
        // for.
        Some(shared_of) => unsafe { shared_of(block) },
        None => shared,
    };
    let found = occupancy::max_potential_block_size(function, dynamic_of, limit, flags)?;
    grid.put(found.0)?;
    block.put(found.1)
}
