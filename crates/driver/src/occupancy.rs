//! Occupancy: how many blocks a multiprocessor of the simulated device would hold.

use crate::device::Device;
use crate::error::Result;
use crate::function::{self, Function, N_REGISTERS};
use crate::launch::{LaunchConfig, MAX_CLUSTER};
use crate::types::{CUfunction, CUresult};

/// Shared memory that the system takes of each block, from compute capability 8.0 on.
const RESERVED_SHARED: usize = 1 << 10;

/// Shared memory is handed out in pieces of so many bytes.
const SHARED_UNIT: usize = 128;

const WARP: u32 = 32;

/// Blocks of a function that fit a multiprocessor at once.
pub(crate) fn blocks_per_multiprocessor(
    device: &Device,
    function: &Function,
    block: u32,
    dynamic: usize,
) -> Result<u32> {
    let persona = &device.figures.persona;
    if block == 0 || block > function.max_threads() {
        return Ok(0);
    }
    let threads = block.next_multiple_of(WARP);
    let shared = function::usage(&function.kernel)?.static_shared as usize;
    let shared = shared.saturating_add(dynamic);
    let is_launchable = dynamic <= function.dynamic_shared_limit()? as usize;
    if !is_launchable || shared > device.shared_limit() as usize {
        return Ok(0);
    }
    let shared = shared.next_multiple_of(SHARED_UNIT);
    let reserved = match persona.compute_capability.major {
        8.. => RESERVED_SHARED,
        _ => 0,
    };
    let room = persona.shared_kib_per_multiprocessor as usize * 1024;
    let by_shared = room.checked_div(shared + reserved);
    let limits = [
        persona.max_threads_per_multiprocessor / threads,
        persona.registers_per_multiprocessor / (threads * N_REGISTERS),
        by_shared.map_or(u32::MAX, |n_blocks| n_blocks as u32),
        persona.max_blocks_per_multiprocessor,
    ];
    Ok(limits.into_iter().min().unwrap_or(0))
}

fn check_flags(flags: u32) -> Result<()> {
    match flags <= 1 {
        true => Ok(()),
        false => Err(CUresult::INVALID_VALUE),
    }
}

/// `cuOccupancyMaxActiveBlocksPerMultiprocessor(WithFlags)`.
pub fn max_active_blocks(
    handle: CUfunction,
    block: i32,
    dynamic: usize,
    flags: u32,
) -> Result<i32> {
    check_flags(flags)?;
    let Ok(block @ 1..) = u32::try_from(block) else {
        return Err(CUresult::INVALID_VALUE);
    };
    let function = function::get(handle)?;
    let device = function.context()?.device;
    Ok(blocks_per_multiprocessor(device, &function, block, dynamic)? as i32)
}

/// `cuOccupancyMaxPotentialBlockSize(WithFlags)`: the least number of blocks that fill the device,
/// and their size. `dynamic_of` tells the dynamic shared memory that blocks of a size need.
pub fn max_potential_block_size(
    handle: CUfunction,
    mut dynamic_of: impl FnMut(i32) -> usize,
    limit: i32,
    flags: u32,
) -> Result<(i32, i32)> {
    check_flags(flags)?;
    let function = function::get(handle)?;
    let device = function.context()?.device;
    let most = function.max_threads();
    let mut block = match u32::try_from(limit) {
        Ok(0) | Err(_) => most,
        Ok(limit) => limit.min(most),
    };
    let (mut n_threads, mut best) = (0, (0, 0));
    // From large blocks to small ones, as the first of equal ones counts.
    while block > 0 {
        let dynamic = dynamic_of(block as i32);
        let n_blocks = blocks_per_multiprocessor(device, &function, block, dynamic)?;
        if n_blocks * block > n_threads {
            (n_threads, best) = (n_blocks * block, (n_blocks, block));
        }
        block = (block - 1) / WARP * WARP;
    }
    let n_blocks = best.0 * device.figures.persona.multiprocessors;
    Ok((n_blocks as i32, best.1 as i32))
}

/// `cuOccupancyAvailableDynamicSMemPerBlock`: what each of `n_blocks` blocks that share a
/// multiprocessor can have, as far as a launch may ask for it.
pub fn available_shared(handle: CUfunction, n_blocks: i32, block: i32) -> Result<usize> {
    let (Ok(n_blocks @ 1..), Ok(block @ 1..)) = (usize::try_from(n_blocks), u32::try_from(block))
    else {
        return Err(CUresult::INVALID_VALUE);
    };
    let function = function::get(handle)?;
    let device = function.context()?.device;
    let persona = &device.figures.persona;
    if n_blocks > blocks_per_multiprocessor(device, &function, block, 0)? as usize {
        return Err(CUresult::INVALID_VALUE);
    }
    let room = persona.shared_kib_per_multiprocessor as usize * 1024 / n_blocks;
    let used = function::usage(&function.kernel)?.static_shared as usize + RESERVED_SHARED;
    let limit = function.dynamic_shared_limit()? as usize;
    Ok(room.saturating_sub(used).min(limit))
}

/// `cuOccupancyMaxPotentialClusterSize`.
pub fn max_cluster_size(handle: CUfunction, config: &LaunchConfig) -> Result<i32> {
    let function = function::get(handle)?;
    config.shape()?;
    let device = function.context()?.device;
    if !device.figures.persona.compute_capability.has_clusters() {
        return Ok(1);
    }
    let is_large = function.settings.lock().non_portable_cluster;
    Ok(if is_large { 2 } else { 1 } * MAX_CLUSTER as i32)
}

/// `cuOccupancyMaxActiveClusters`.
pub fn max_active_clusters(handle: CUfunction, config: &LaunchConfig) -> Result<i32> {
    let function = function::get(handle)?;
    let shape = config.shape()?;
    let device = function.context()?.device;
    let n_threads = shape.block.iter().product();
    let dynamic = shape.shared as usize;
    let n_blocks = blocks_per_multiprocessor(device, &function, n_threads, dynamic)?;
    let cluster = shape.cluster.map_or(1, |cluster| cluster.iter().product());
    let n_blocks = n_blocks * device.figures.persona.multiprocessors;
    Ok(n_blocks.checked_div(cluster).unwrap_or(0) as i32)
}
