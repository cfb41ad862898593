//! Settings of contexts, peers, and contexts with parameters.
#![expect(unsafe_code, reason = "exports functions under C's names")]

use ptxjit_driver::types::{
    CUcontext, CUctxCreateParams, CUdevice_P2PAttribute, CUexecAffinityParam, CUfunc_cache,
    CUlimit, CUresult, CUsharedconfig,
};
use ptxjit_driver::{context, peer, settings};

use crate::call::{In, Out, exports};

exports! {
    /// Makes a context by the rules of before CUDA 3.2.
    fn cuCtxCreate(out: Out<CUcontext>, flags: u32, device: i32) {
        out.fill(|| context::create(flags, device, 3010))
    }

    /// Makes a context with an affinity.
    fn cuCtxCreate_v3(
        out: Out<CUcontext>, affinities: In<CUexecAffinityParam>, count: i32, flags: u32,
        device: i32,
    ) {
        let count = usize::try_from(count).map_err(|_| CUresult::INVALID_VALUE)?;
        let affinities = affinities.get_all(count)?;
        out.fill(|| context::create_with_affinity(flags, device, &affinities))
    }

    /// Makes a context with parameters.
    fn cuCtxCreate_v4(out: Out<CUcontext>, params: In<CUctxCreateParams>, flags: u32, device: i32) {
        let params = match params.address() {
            0 => None,
            _ => Some(params.get()?),
        };
        out.fill(|| context::create_with_params(flags, device, params))
    }

    /// A limit of the current context.
    fn cuCtxGetLimit(out: Out<usize>, limit: CUlimit) {
        out.fill(|| settings::limit(limit))
    }

    /// Sets a limit of the current context.
    fn cuCtxSetLimit(limit: CUlimit, value: usize) {
        settings::set_limit(limit, value)
    }

    /// How the current context divides caches.
    fn cuCtxGetCacheConfig(out: Out<CUfunc_cache>) {
        out.fill(settings::cache_config)
    }

    /// Sets how the current context divides caches.
    fn cuCtxSetCacheConfig(config: CUfunc_cache) {
        settings::set_cache_config(config)
    }

    /// The banks of shared memory.
    fn cuCtxGetSharedMemConfig(out: Out<CUsharedconfig>) {
        out.fill(settings::shared_config)
    }

    /// Sets the banks of shared memory.
    fn cuCtxSetSharedMemConfig(config: CUsharedconfig) {
        settings::set_shared_config(config)
    }

    /// The lowest and the highest priority of streams.
    fn cuCtxGetStreamPriorityRange(least: Out<i32>, greatest: Out<i32>) {
        let range = settings::priority_range()?;
        least.put_if_wanted(range.0)?;
        greatest.put_if_wanted(range.1)
    }

    /// Adds a user to the current context.
    fn cuCtxAttach(out: Out<CUcontext>, flags: u32) {
        out.fill(|| settings::attach(flags))
    }

    /// Takes a user from the current context.
    fn cuCtxDetach(handle: CUcontext) {
        settings::detach(handle)
    }

    /// Makes what persists in the L2 cache normal again.
    fn cuCtxResetPersistingL2Cache() {
        settings::reset_persisting_l2()
    }

    /// Lets the current context use memory of another.
    fn cuCtxEnablePeerAccess(peer: CUcontext, flags: u32) {
        peer::enable(peer, flags)
    }

    /// Ends that.
    fn cuCtxDisablePeerAccess(peer: CUcontext) {
        peer::disable(peer)
    }

    /// Whether a device can use memory of another.
    fn cuDeviceCanAccessPeer(out: Out<i32>, device: i32, peer: i32) {
        out.fill(|| Ok(i32::from(peer::can_access(device, peer)?)))
    }

    /// What holds between two devices.
    fn cuDeviceGetP2PAttribute(
        out: Out<i32>, attribute: CUdevice_P2PAttribute, from: i32, to: i32,
    ) {
        out.fill(|| peer::attribute(attribute, from, to))
    }

    /// Ends a context, by the rules of before CUDA 4.
    fn cuCtxDestroy(handle: CUcontext) {
        context::destroy(handle)
    }

    /// Makes a context current, by the rules of before CUDA 4.
    fn cuCtxPushCurrent(handle: CUcontext) {
        context::push_current(handle)
    }

    /// Makes the context current that was before, by the rules of before CUDA 4.
    fn cuCtxPopCurrent(out: Out<CUcontext>) {
        let handle = context::pop_current()?;
        out.put_if_wanted(handle)
    }
}
