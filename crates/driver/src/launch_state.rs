//! Launches as they were before CUDA 4: a function keeps the shape of its blocks and its arguments,
//! which calls set one by one, and a launch names the grid alone.
//!
//! PyCUDA sets the shape of blocks so, and passes it to `cuLaunchKernel` again. That call takes all
//! from its own arguments, and leaves what is kept here as it is.

use crate::error::Result;
use crate::function::{self, Function};
use crate::host;
use crate::launch::{self, Shape};
use crate::memory::texture_reference;
use crate::types::{CUfunction, CUresult, CUstream, CUtexref};

/// Bytes of parameters that a function can have.
const MAX_PARAM_BYTES: u32 = 4096;

/// `CU_PARAM_TR_DEFAULT`: the module says which texture unit a reference has.
const DEFAULT_UNIT: i32 = -1;

/// What a function keeps for its next launch.
#[derive(Clone, Debug)]
pub(crate) struct LaunchState {
    block: [u32; 3],
    shared: u32,
    /// The parameter block as far as it was set; launches take `size` bytes of it.
    params: Vec<u8>,
    size: u32,
}

impl Default for LaunchState {
    fn default() -> LaunchState {
        LaunchState {
            block: [1; 3],
            shared: 0,
            params: Vec::new(),
            size: 0,
        }
    }
}

impl LaunchState {
    /// Sets bytes of the parameter block.
    fn set(&mut self, offset: i32, bytes: &[u8]) -> Result<()> {
        let offset = usize::try_from(offset).map_err(|_| CUresult::INVALID_VALUE)?;
        let end = offset.saturating_add(bytes.len());
        if end > MAX_PARAM_BYTES as usize {
            return Err(CUresult::INVALID_VALUE);
        }
        if self.params.len() < end {
            self.params.resize(end, 0);
        }
        self.params[offset..end].copy_from_slice(bytes);
        Ok(())
    }

    /// The parameter block of a launch, which must not be shorter than what the function takes.
    fn param_block(&self, function: &Function) -> Result<Vec<u8>> {
        let needed = function.kernel.param_bytes();
        if (self.size as usize) < needed {
            return Err(CUresult::INVALID_VALUE);
        }
        let mut block = self.params.clone();
        block.resize(needed, 0);
        Ok(block)
    }
}

// --- The interface ---

/// `cuFuncSetBlockShape`.
pub fn set_block(handle: CUfunction, block: [i32; 3]) -> Result<()> {
    let function = function::get(handle)?;
    let block = block.map(|extent| u32::try_from(extent).unwrap_or(0));
    let shape = Shape {
        grid: [1; 3],
        block,
        cluster: None,
        shared: 0,
        cooperative: false,
    };
    shape.check(&function)?;
    function.launch_state.lock().block = block;
    Ok(())
}

/// `cuFuncSetSharedSize`.
pub fn set_shared(handle: CUfunction, bytes: u32) -> Result<()> {
    let function = function::get(handle)?;
    function.check_shared(bytes)?;
    function.launch_state.lock().shared = bytes;
    Ok(())
}

/// `cuParamSetSize`.
pub fn set_param_size(handle: CUfunction, bytes: u32) -> Result<()> {
    let function = function::get(handle)?;
    if bytes > MAX_PARAM_BYTES {
        return Err(CUresult::INVALID_VALUE);
    }
    function.launch_state.lock().size = bytes;
    Ok(())
}

/// `cuParamSeti` and `cuParamSetf`: four bytes.
pub fn set_param_word(handle: CUfunction, offset: i32, word: u32) -> Result<()> {
    let function = function::get(handle)?;
    let mut state = function.launch_state.lock();
    state.set(offset, &word.to_le_bytes())
}

/// `cuParamSetv`: bytes at an address of the client.
pub fn set_param_bytes(handle: CUfunction, offset: i32, addr: u64, count: u32) -> Result<()> {
    let function = function::get(handle)?;
    if count > MAX_PARAM_BYTES {
        return Err(CUresult::INVALID_VALUE);
    }
    let mut bytes = vec![0; count as usize];
    host::read_bytes(addr, &mut bytes)?;
    let mut state = function.launch_state.lock();
    state.set(offset, &bytes)
}

/// `cuParamSetTexRef`: kernels find the references of their module by themselves.
pub fn set_texture(handle: CUfunction, unit: i32, reference: CUtexref) -> Result<()> {
    function::get(handle)?;
    texture_reference::check(reference)?;
    match unit {
        DEFAULT_UNIT => Ok(()),
        _ => Err(CUresult::INVALID_VALUE),
    }
}

/// `cuLaunch`, `cuLaunchGrid` and `cuLaunchGridAsync`.
pub fn run(handle: CUfunction, grid: [i32; 2], stream: CUstream) -> Result<()> {
    let function = function::get(handle)?;
    let [x, y] = grid.map(|extent| u32::try_from(extent).unwrap_or(0));
    let state = function.launch_state.lock().clone();
    let shape = Shape {
        grid: [x, y, 1],
        block: state.block,
        cluster: None,
        shared: state.shared,
        cooperative: false,
    };
    let params = state.param_block(&function)?;
    launch::submit_with(function, shape, |_| Ok(params), stream)
}
