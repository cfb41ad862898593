//! Contexts.
#![expect(unsafe_code, reason = "exports functions under C's names")]

use ptxjit_driver::context;
use ptxjit_driver::types::CUcontext;

use crate::call::{Out, exports};

exports! {
    /// Makes a context and pushes it.
    fn cuCtxCreate_v2(out: Out<CUcontext>, flags: u32, device: i32) {
        out.fill(|| context::create(flags, device, 3020))
    }

    /// Ends a context and what belongs to it.
    fn cuCtxDestroy_v2(handle: CUcontext) {
        context::destroy(handle)
    }

    /// Makes a context current.
    fn cuCtxPushCurrent_v2(handle: CUcontext) {
        context::push_current(handle)
    }

    /// Makes the context current that was before.
    fn cuCtxPopCurrent_v2(out: Out<CUcontext>) {
        let handle = context::pop_current()?;
        out.put_if_wanted(handle)
    }

    /// Makes a context current in place of the one that is.
    fn cuCtxSetCurrent(handle: CUcontext) {
        context::set_current(handle)
    }

    /// The current context, or null.
    fn cuCtxGetCurrent(out: Out<CUcontext>) {
        out.fill(context::get_current)
    }

    /// The device of the current context.
    fn cuCtxGetDevice(out: Out<i32>) {
        out.fill(|| context::get_device(CUcontext::NULL))
    }

    /// The device of a context.
    fn cuCtxGetDevice_v2(out: Out<i32>, handle: CUcontext) {
        out.fill(|| context::get_device(handle))
    }

    /// Waits for all work of the current context.
    fn cuCtxSynchronize() {
        context::synchronize(CUcontext::NULL)
    }

    /// Waits for all work of a context.
    fn cuCtxSynchronize_v2(handle: CUcontext) {
        context::synchronize(handle)
    }

    /// Flags of the current context.
    fn cuCtxGetFlags(out: Out<u32>) {
        out.fill(context::get_flags)
    }

    /// Sets flags of the current context.
    fn cuCtxSetFlags(flags: u32) {
        context::set_flags(flags)
    }

    /// A number that no other context has.
    fn cuCtxGetId(handle: CUcontext, out: Out<u64>) {
        out.fill(|| context::get_id(handle))
    }

    /// The version of the interface that a context was made with.
    fn cuCtxGetApiVersion(handle: CUcontext, out: Out<u32>) {
        out.fill(|| context::get_api_version(handle))
    }

    /// Adds a user to the primary context.
    fn cuDevicePrimaryCtxRetain(out: Out<CUcontext>, device: i32) {
        out.fill(|| context::primary_retain(device))
    }

    /// Takes a user from the primary context.
    fn cuDevicePrimaryCtxRelease_v2(device: i32) {
        context::primary_release(device)
    }

    /// Ends all that belongs to the primary context.
    fn cuDevicePrimaryCtxReset_v2(device: i32) {
        context::primary_reset(device)
    }

    /// Sets flags of the primary context.
    fn cuDevicePrimaryCtxSetFlags_v2(device: i32, flags: u32) {
        context::primary_set_flags(device, flags)
    }

    /// Flags of the primary context, and whether it is active.
    fn cuDevicePrimaryCtxGetState(device: i32, flags: Out<u32>, active: Out<i32>) {
        let (now, is_active) = context::primary_state(device)?;
        flags.put(now)?;
        active.put(i32::from(is_active))
    }
}
