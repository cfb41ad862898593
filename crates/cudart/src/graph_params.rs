//! Parameters of nodes: the runtime's structures and the driver's.
//!
//! Most are the same. Kernel nodes name a function of the host where the driver has a handle,
//! copies have another form, and the driver wants contexts.
#![expect(unsafe_code, reason = "declares that structures are plain numbers")]

use std::collections::HashMap;
use std::sync::{LazyLock, RwLock};

use crate::call::{Code, Result};
use crate::copy::Kind;
use crate::copy_3d::{self, Copy3d, Parms};
use crate::device;
use crate::function;
use crate::host;
use crate::memory::{Extent, PitchedPtr};

host::plain! {
    /// `cudaKernelNodeParams`: bytes from `grid` on are those of the driver's structure.
    KernelNode { function: u64, launch: [u32; 7], padding: u32, args: u64, extra: u64 }

    /// `CUDA_KERNEL_NODE_PARAMS`.
    DriverKernelNode { node: KernelNode, kernel: u64, context: u64 }

    /// `cudaGraphNodeParams` and `CUgraphNodeParams`.
    NodeParams { kind: u32, reserved: [i32; 3], body: [u64; 29], last: u64 }

    /// What a copy has in [`NodeParams`].
    CopyBody { flags: i32, reserved: [i32; 3], copy: Parms }

    /// Likewise, of the driver.
    DriverCopyBody { flags: i32, reserved: i32, context: u64, copy: Copy3d }
}

/// Functions of the host by what the driver calls them.
static HOST_FUNCTIONS: LazyLock<RwLock<HashMap<u64, u64>>> = LazyLock::new(RwLock::default);

/// The driver's form of a kernel node.
pub(crate) fn kernel(node: KernelNode) -> Result<DriverKernelNode> {
    let function = function::in_context(node.function)?;
    let mut known = HOST_FUNCTIONS
        .write()
        .unwrap_or_else(|err| err.into_inner());
    known.insert(function, node.function);
    Ok(DriverKernelNode {
        node: KernelNode { function, ..node },
        kernel: 0,
        context: device::context()?,
    })
}

/// The runtime's form of a kernel node.
pub(crate) fn kernel_back(driver: &DriverKernelNode) -> KernelNode {
    let handle = match driver.node.function {
        0 => driver.kernel,
        function => function,
    };
    let known = HOST_FUNCTIONS.read().unwrap_or_else(|err| err.into_inner());
    KernelNode {
        function: known.get(&handle).copied().unwrap_or(handle),
        ..driver.node
    }
}

/// The driver's form of a copy of bytes.
pub(crate) fn bytes(to: u64, from: u64, count: usize, kind: u32) -> Result<Copy3d> {
    Kind::new(kind)?;
    let linear = |ptr| PitchedPtr {
        ptr,
        pitch: count,
        xsize: count,
        ysize: 1,
    };
    copy_3d::of_parms(&Parms {
        source: linear(from),
        target: linear(to),
        extent: Extent {
            width: count,
            height: 1,
            depth: 1,
        },
        kind,
        ..host::zeroed()
    })
}

/// `cudaGraphNodeType`, as far as nodes of these types need another form.
const KERNEL: u32 = 0;
const MEMCPY: u32 = 1;
const MEMSET: u32 = 2;
const CONDITIONAL: u32 = 13;

/// Words of [`NodeParams::body`] that hold the context.
const MEMSET_CONTEXT: usize = 5;
const CONDITIONAL_CONTEXT: usize = 3;

/// The driver's form of the parameters of any node.
pub(crate) fn any(params: &NodeParams) -> Result<NodeParams> {
    let body: [u64; 29] = match params.kind {
        KERNEL => host::extended(&kernel(host::prefix(&params.body))?),
        MEMCPY => {
            let body: CopyBody = host::prefix(&params.body);
            host::extended(&DriverCopyBody {
                flags: body.flags,
                reserved: 0,
                context: device::context()?,
                copy: copy_3d::of_parms(&body.copy)?,
            })
        }
        MEMSET | CONDITIONAL => {
            let at = match params.kind {
                MEMSET => MEMSET_CONTEXT,
                _ => CONDITIONAL_CONTEXT,
            };
            let mut body = params.body;
            body[at] = device::context()?;
            body
        }
        // The others are the driver's.
        3..CONDITIONAL => params.body,
        _ => return Err(Code::INVALID_VALUE),
    };
    Ok(NodeParams { body, ..*params })
}

/// The runtime's form of the parameters of any node.
#[cfg(cudart13)]
pub(crate) fn any_back(params: &NodeParams) -> Result<NodeParams> {
    let body: [u64; 29] = match params.kind {
        KERNEL => host::extended(&kernel_back(&host::prefix(&params.body))),
        MEMCPY => {
            let body: DriverCopyBody = host::prefix(&params.body);
            host::extended(&CopyBody {
                flags: body.flags,
                reserved: [0; 3],
                copy: copy_3d::to_parms(&body.copy)?,
            })
        }
        MEMSET => {
            let mut body = params.body;
            body[MEMSET_CONTEXT] = 0;
            body
        }
        _ => params.body,
    };
    Ok(NodeParams { body, ..*params })
}
