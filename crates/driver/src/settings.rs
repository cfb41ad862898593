//! What programs set in a context and ask of it: limits, caches, ranges.

use crate::context::{self, Context};
use crate::error::Result;
use crate::stream;
use crate::types::{CUcontext, CUfunc_cache, CUlimit, CUresult, CUsharedconfig};

/// Local memory that a thread of any GPU can have.
const MAX_STACK: usize = 512 << 10;

/// `CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE`.
const MAX_PERSISTING_L2: i32 = 108;

/// Granularities in which memory is fetched to the L2 cache.
const MAX_FETCH: usize = 128;

/// `cuCtxGetLimit`.
pub fn limit(limit: CUlimit) -> Result<usize> {
    let context = context::current()?;
    let settings = context.settings.lock();
    Ok(match limit {
        CUlimit::STACK_SIZE => settings.stack_size,
        CUlimit::PRINTF_FIFO_SIZE => settings.printf_fifo_size,
        CUlimit::MALLOC_HEAP_SIZE => settings.malloc_heap_size,
        CUlimit::DEV_RUNTIME_SYNC_DEPTH => {
            check_sync_depth(&context)?;
            settings.sync_depth
        }
        CUlimit::DEV_RUNTIME_PENDING_LAUNCH_COUNT => settings.pending_launches,
        CUlimit::MAX_L2_FETCH_GRANULARITY => settings.l2_fetch_granularity,
        CUlimit::PERSISTING_L2_CACHE_SIZE => settings.persisting_l2,
        CUlimit::SHMEM_SIZE => context.device.shared_limit() as usize,
        // No context works for graphics.
        CUlimit::CIG_ENABLED => 0,
        CUlimit::CIG_SHMEM_FALLBACK_ENABLED => return Err(CUresult::UNSUPPORTED_LIMIT),
        _ => return Err(CUresult::INVALID_VALUE),
    })
}

/// `cuCtxSetLimit`.
pub fn set_limit(limit: CUlimit, value: usize) -> Result<()> {
    let context = context::current()?;
    let mut settings = context.settings.lock();
    match limit {
        CUlimit::STACK_SIZE => {
            if value > MAX_STACK {
                return Err(CUresult::INVALID_VALUE);
            }
            settings.stack_size = value.next_multiple_of(16);
            set_stack(&context, settings.stack_size)?;
        }
        CUlimit::PRINTF_FIFO_SIZE => settings.printf_fifo_size = value,
        CUlimit::MALLOC_HEAP_SIZE => {
            let memory = context.device.figures.memory;
            if value as u64 > memory {
                return Err(CUresult::OUT_OF_MEMORY);
            }
            settings.malloc_heap_size = value;
            context.device.engine()?.set_heap_limit(value as u64);
        }
        CUlimit::DEV_RUNTIME_SYNC_DEPTH => {
            check_sync_depth(&context)?;
            settings.sync_depth = value;
        }
        CUlimit::DEV_RUNTIME_PENDING_LAUNCH_COUNT => settings.pending_launches = value,
        // A hint.
        CUlimit::MAX_L2_FETCH_GRANULARITY if value <= MAX_FETCH => {
            settings.l2_fetch_granularity = value;
        }
        CUlimit::PERSISTING_L2_CACHE_SIZE => {
            let max = context.device.figures.attribute(MAX_PERSISTING_L2);
            settings.persisting_l2 = value.min(max.unwrap_or(0).max(0) as usize);
        }
        CUlimit::SHMEM_SIZE | CUlimit::CIG_ENABLED => return Err(CUresult::NOT_PERMITTED),
        CUlimit::CIG_SHMEM_FALLBACK_ENABLED => return Err(CUresult::UNSUPPORTED_LIMIT),
        _ => return Err(CUresult::INVALID_VALUE),
    }
    Ok(())
}

/// Kernels of compute capability 9.0 and later cannot wait for kernels that they launch.
fn check_sync_depth(context: &Context) -> Result<()> {
    match context.device.capability() >= (9, 0) {
        true => Err(CUresult::UNSUPPORTED_LIMIT),
        false => Ok(()),
    }
}

/// The engine's stacks hold more than a GPU's in the same bytes or less, so they are only made
/// larger.
fn set_stack(context: &Context, bytes: usize) -> Result<()> {
    let engine = context.device.engine()?;
    if bytes as u64 > engine.stack_limit() {
        engine.set_stack_limit(bytes as u64);
    }
    Ok(())
}

/// `cuCtxGetCacheConfig`.
pub fn cache_config() -> Result<CUfunc_cache> {
    Ok(CUfunc_cache(
        context::current()?.settings.lock().cache_config,
    ))
}

/// `cuCtxSetCacheConfig`.
pub fn set_cache_config(config: CUfunc_cache) -> Result<()> {
    let context = context::current()?;
    if config.c_name().is_none() {
        return Err(CUresult::INVALID_VALUE);
    }
    context.settings.lock().cache_config = config.0;
    Ok(())
}

/// `cuCtxGetSharedMemConfig`.
pub fn shared_config() -> Result<CUsharedconfig> {
    Ok(CUsharedconfig(
        context::current()?.settings.lock().shared_config,
    ))
}

/// `cuCtxSetSharedMemConfig`.
pub fn set_shared_config(config: CUsharedconfig) -> Result<()> {
    let context = context::current()?;
    if config.c_name().is_none() {
        return Err(CUresult::INVALID_VALUE);
    }
    context.settings.lock().shared_config = config.0;
    Ok(())
}

/// `cuCtxGetStreamPriorityRange`: lowest and highest; lower numbers are higher priorities.
pub fn priority_range() -> Result<(i32, i32)> {
    context::current()?;
    Ok((stream::PRIORITIES.1, stream::PRIORITIES.0))
}

/// `cuCtxResetPersistingL2Cache`: there is none.
pub fn reset_persisting_l2() -> Result<()> {
    context::current().map(|_| ())
}

/// `cuCtxAttach`: one more user of the current context.
pub fn attach(flags: u32) -> Result<CUcontext> {
    if flags != 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    let context = context::current()?;
    context.add_user();
    Ok(context.raw())
}

/// `cuCtxDetach`: one user less; without any, the context ends.
pub fn detach(handle: CUcontext) -> Result<()> {
    let current = context::current_even_failed()?;
    if current.raw() != handle || current.is_primary {
        return Err(CUresult::INVALID_CONTEXT);
    }
    match current.remove_user() {
        true => context::destroy(handle),
        false => Ok(()),
    }
}
