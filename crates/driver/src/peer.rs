//! Access of devices to each other's memory.
//!
//! All devices share one arena. Kernels of a context that may not use the memory of every device
//! are launched with a guard, which is asked about each access to another device's part.

use std::sync::Arc;

use ptxjit::PeerGuard;

use crate::context::{self, CONTEXTS, Context};
use crate::device;
use crate::error::Result;
use crate::memory::{Allocation, REGISTRY, Sort, pool, vmm};
use crate::types::{CUcontext, CUdevice_P2PAttribute, CUresult};

/// Whether a context's kernels need a guard, as they may not access the memory of all devices. This
/// is asked at each launch.
pub(crate) fn needs_guard(context: &Context) -> bool {
    let n_devices = device::count().unwrap_or(1);
    let mut others = (0..n_devices).filter(|&device| device != context.device.ordinal);
    n_devices > 1 && !others.all(|device| is_peer(context, device))
}

/// The guard of a context's kernels.
pub(crate) fn guard(context: &Context) -> PeerGuard {
    let handle = context.raw().0;
    PeerGuard(Arc::new(move |addr, len| {
        // Kernels end before their context does.
        CONTEXTS
            .get(handle)
            .is_some_and(|context| may_access(&context, addr, len))
    }))
}

/// Whether a context may use the memory of another device, by `cuCtxEnablePeerAccess`.
fn is_peer(context: &Context, device: i32) -> bool {
    let peers = context.peers.lock();
    let mut peers = peers.iter().filter_map(|&peer| CONTEXTS.get(peer));
    peers.any(|peer| peer.device.ordinal == device)
}

/// Whether kernels of a context may access bytes that lie in another device's part of the arena.
fn may_access(context: &Context, addr: u64, len: u64) -> bool {
    if device::of_address(addr).is_some_and(|device| is_peer(context, device)) {
        return true;
    }
    let found = REGISTRY.find_range(addr, len);
    found.is_some_and(|allocation| is_shared(&allocation, addr, context.device.ordinal))
}

/// Whether a device may access an allocation of another without being its peer.
fn is_shared(allocation: &Allocation, addr: u64, device: i32) -> bool {
    match allocation.sort {
        Sort::Managed | Sort::ManagedGlobal | Sort::Pinned(_) | Sort::Registered(_) => true,
        Sort::Pool(handle) => pool::is(handle, |pool| pool.may_access(device)),
        Sort::Virtual => vmm::may_access(device, addr),
        Sort::Device | Sort::Global | Sort::Graph => false,
    }
}

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
