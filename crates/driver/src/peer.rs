//! Access of devices to each other's memory.
//!
//! All devices share one arena, so kernels can reach the memory of every device: what is kept here
//! are the rules for programs, not a protection.

use crate::context;
use crate::device;
use crate::error::Result;
use crate::types::{CUcontext, CUdevice_P2PAttribute, CUresult};

/// `cuDeviceCanAccessPeer`: any other device.
pub fn can_access(device: i32, peer: i32) -> Result<bool> {
    device::get(device)?;
    device::get(peer)?;
    Ok(device != peer)
}

/// `cuDeviceGetP2PAttribute`.
pub fn attribute(attribute: CUdevice_P2PAttribute, from: i32, to: i32) -> Result<i32> {
    if !can_access(from, to)? {
        return Err(CUresult::INVALID_DEVICE);
    }
    match attribute {
        CUdevice_P2PAttribute::PERFORMANCE_RANK
        | CUdevice_P2PAttribute::ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED => Ok(0),
        CUdevice_P2PAttribute::ACCESS_SUPPORTED
        | CUdevice_P2PAttribute::NATIVE_ATOMIC_SUPPORTED
        | CUdevice_P2PAttribute::CUDA_ARRAY_ACCESS_SUPPORTED => Ok(1),
        _ => Err(CUresult::INVALID_VALUE),
    }
}

/// `cuCtxEnablePeerAccess`: for the current context.
pub fn enable(peer: CUcontext, flags: u32) -> Result<()> {
    let context = context::current()?;
    if flags != 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    let peer = context::get(peer)?;
    if peer.raw() == context.raw() {
        return Err(CUresult::INVALID_CONTEXT);
    }
    if peer.device.ordinal == context.device.ordinal {
        return Err(CUresult::PEER_ACCESS_UNSUPPORTED);
    }
    match context.peers.lock().insert(peer.raw().0) {
        true => Ok(()),
        false => Err(CUresult::PEER_ACCESS_ALREADY_ENABLED),
    }
}

/// `cuCtxDisablePeerAccess`.
pub fn disable(peer: CUcontext) -> Result<()> {
    let context = context::current()?;
    let peer = context::get(peer)?;
    match context.peers.lock().remove(&peer.raw().0) {
        true => Ok(()),
        false => Err(CUresult::PEER_ACCESS_NOT_ENABLED),
    }
}
