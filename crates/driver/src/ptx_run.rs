//! `ptx_run`: one kernel on ordinary memory of the process, without contexts or allocations.
//!
//! This is what simulators of GPUs in clients call. Each launch brings the text of its module, so
//! modules are kept by text.

#![expect(
    unsafe_code,
    reason = "the caller of this C interface vouches for the pointers among the arguments"
)]

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use ptxjit::{Error, Kernel, Module, Shortage, UsageRule};

use crate::error::Result;
use crate::types::{CUresult, HostPtr};
use crate::{device, host, launch, state};

/// Arguments that a kernel may have; 4 KiB of pointers are 512.
const MAX_ARGUMENTS: usize = 4096;

/// Modules that are kept. A client's suite of tests launches some thousand, most of them a few
/// times in a row.
const MAX_KNOWN: usize = 512;

static KNOWN: Mutex<VecDeque<(Arc<[u8]>, Kernel)>> = Mutex::new(VecDeque::new());

/// What a call of `ptx_run` says.
#[derive(Copy, Clone, Debug)]
pub struct Call {
    /// The text, which ends with a NUL.
    pub ptx: HostPtr,
    pub n_args: i32,
    /// Values, each in a slot of the size of a pointer.
    pub args: HostPtr,
    pub block: [i32; 3],
    pub grid: [i32; 3],
    pub shared: i32,
}

/// Runs the first kernel of a module to its end. What goes wrong is told, and nothing else happens.
pub fn run(call: &Call) -> Result<()> {
    // Without visible devices there is still one to compute with.
    match state::init(0) {
        Ok(()) | Err(CUresult::NO_DEVICE) => {}
        Err(code) => return Err(code),
    }
    let text = host::c_bytes(call.ptx.0, host::MAX_TEXT)?;
    let result = kernel(&text).and_then(|kernel| {
        let params = parameters(&kernel, call)?;
        let dims = |dims: [i32; 3]| dims.map(|n| u32::try_from(n).unwrap_or(0));
        let prepared = kernel.launch().options(launch::options().clone());
        let prepared = prepared.grid(dims(call.grid)).block(dims(call.block));
        let prepared = prepared
            .shared(call.shared.max(0) as u32)
            .param_block(params);
        // SAFETY: the caller has passed these pointers for the kernel to use, as the interface
        // says.
        let prepared = unsafe { prepared.open_memory(true) };
        prepared.run()
    });
    result.map(|_| ()).map_err(|err| crate::error::told(&err))
}

/// The first kernel of a module, from the ones that are known.
fn kernel(text: &[u8]) -> std::result::Result<Kernel, Error> {
    let found = {
        let known = KNOWN.lock();
        let found = known.iter().rev().find(|(other, _)| **other == *text);
        found.map(|(_, kernel)| kernel.clone())
    };
    if let Some(kernel) = found {
        return Ok(kernel);
    }
    let engine = device::engine_without_devices();
    let engine = engine.map_err(|code| Error::OutOfMemory {
        shortage: Shortage::Addresses,
        message: format!("{code:?}"),
    })?;
    let module = Module::from_source(engine, "<ptx>", String::from_utf8_lossy(text))?;
    let names = module.kernel_names();
    let first = names.first().map_or("", String::as_str);
    let kernel = module.kernel_exact(first)?;
    let mut known = KNOWN.lock();
    if known.len() == MAX_KNOWN {
        known.pop_front();
    }
    known.push_back((text.into(), kernel.clone()));
    Ok(kernel)
}

/// The parameter block: of each argument as many bytes as its parameter has.
fn parameters(kernel: &Kernel, call: &Call) -> std::result::Result<Vec<u8>, Error> {
    let wanted = kernel.param_layout().len();
    let given = usize::try_from(call.n_args).unwrap_or(0).min(MAX_ARGUMENTS);
    if wanted > given {
        let name = kernel.name();
        let message =
            format!("kernel `{name}` has {wanted} parameters, but {given} arguments are given");
        return Err(Error::Usage {
            rule: UsageRule::Arguments,
            message,
        });
    }
    let mut block = vec![0; kernel.param_bytes()];
    for (idx, param) in kernel.param_layout().enumerate() {
        let slot = call.args.0.wrapping_add(8 * idx as u64);
        let value = host::get::<u64>(slot).map_err(|_| {
            Error::Address(format!(
                "the argument list at {:#x} cannot be read",
                call.args.0
            ))
        })?;
        let size = param.size.min(8);
        block[param.offset..][..size].copy_from_slice(&value.to_le_bytes()[..size]);
    }
    Ok(block)
}
