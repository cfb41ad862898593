//! Devices: the current one of each thread, primary contexts, limits, peers.
#![expect(unsafe_code, reason = "exports functions under C's names")]

use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::call::{Code, Result, exports, passes};
use crate::driver::cu;
use crate::host;

/// The device of threads that have chosen none: the first that `cudaSetValidDevices` has named.
static FIRST: AtomicI32 = AtomicI32::new(0);

thread_local! {
    static CHOSEN: Cell<Option<i32>> = const { Cell::new(None) };
}

/// The primary contexts that are in use, by device.
static PRIMARY: Mutex<Vec<(i32, u64)>> = Mutex::new(Vec::new());

/// The primary context of a device, retained once and for all.
pub(crate) fn primary(device: i32) -> Result<u64> {
    let mut known = PRIMARY.lock().unwrap_or_else(|err| err.into_inner());
    if let Some(&(_, context)) = known.iter().find(|(known, _)| *known == device) {
        return Ok(context);
    }
    let mut context = 0_u64;
    cu!(cuDevicePrimaryCtxRetain(&mut context, device))?;
    known.push((device, context));
    Ok(context)
}

/// The calling thread's context, 0 if it has none.
pub(crate) fn context() -> Result<u64> {
    let mut context = 0_u64;
    cu!(cuCtxGetCurrent(&mut context))?;
    Ok(context)
}

/// Gives the calling thread a context, unless it has one: programs may also use the driver
/// themselves.
pub(crate) fn ensure() -> Result {
    match context()? {
        0 => {
            let context = primary(chosen())?;
            cu!(cuCtxSetCurrent(context))
        }
        _ => Ok(()),
    }
}

fn chosen() -> i32 {
    CHOSEN
        .get()
        .unwrap_or_else(|| FIRST.load(Ordering::Relaxed))
}

/// The calling thread's device.
pub(crate) fn current() -> Result<i32> {
    if context()? == 0 {
        return Ok(chosen());
    }
    let mut device = 0_i32;
    cu!(cuCtxGetDevice(&mut device))?;
    Ok(device)
}

pub(crate) fn count() -> Result<i32> {
    let mut count = 0_i32;
    cu!(cuDeviceGetCount(&mut count))?;
    Ok(count)
}

/// Checks the number of a device.
pub(crate) fn check(device: i32) -> Result {
    match count()? {
        0 => Err(Code::NO_DEVICE),
        count if (0..count).contains(&device) => Ok(()),
        _ => Err(Code::INVALID_DEVICE),
    }
}

/// An attribute of a device; what the driver does not know is 0.
pub(crate) fn attribute(id: i32, device: i32) -> i32 {
    let mut value = 0_i32;
    match cu!(cuDeviceGetAttribute(&mut value, id, device)) {
        Ok(()) => value,
        Err(_) => 0,
    }
}

/// The address of host memory is mapped, always, and the driver does not tell of that.
const MAP_HOST: u32 = 8;
const ALL_FLAGS: u32 = 0x9f;

fn set_flags(device: i32, flags: u32) -> Result {
    if flags & !ALL_FLAGS != 0 {
        return Err(Code::INVALID_VALUE);
    }
    cu!(cuDevicePrimaryCtxSetFlags_v2(device, flags & !MAP_HOST))
}

fn set_device(device: i32) -> Result {
    check(device)?;
    cu!(cuCtxSetCurrent(primary(device)?))?;
    CHOSEN.set(Some(device));
    Ok(())
}

exports! {
    /// The number of devices.
    early cudaGetDeviceCount(out: u64) {
        let count = count();
        host::put(out, *count.as_ref().unwrap_or(&0))?;
        match count? {
            0 => Err(Code::NO_DEVICE),
            _ => Ok(()),
        }
    }

    /// The calling thread's device.
    early cudaGetDevice(out: u64) {
        host::put(out, current()?)
    }

    /// Makes a device that of the calling thread, and makes its context.
    early cudaSetDevice(device: i32) {
        set_device(device)
    }

    /// Makes a device's context, with flags if they are said to be valid.
    early cudaInitDevice(device: i32, device_flags: u32, flags: u32) {
        check(device)?;
        match flags {
            0 => {}
            1 => set_flags(device, device_flags)?,
            _ => return Err(Code::INVALID_VALUE),
        }
        primary(device).map(drop)
    }

    /// Of the devices that threads may use by default, the first is used.
    early cudaSetValidDevices(devices: u64, len: i32) {
        let len = usize::try_from(len).map_err(|_| Code::INVALID_VALUE)?;
        if len > count()? as usize {
            return Err(Code::INVALID_VALUE);
        }
        let devices: Vec<i32> = host::get_all(devices, len)?;
        devices.iter().try_for_each(|&device| check(device))?;
        FIRST.store(devices.first().copied().unwrap_or(0), Ordering::Relaxed);
        Ok(())
    }

    /// The device that fits best: all are alike.
    early cudaChooseDevice(out: u64, properties: u64) {
        host::get::<u8>(properties)?;
        host::put(out, 0_i32)
    }

    /// How threads wait for the current device.
    early cudaSetDeviceFlags(flags: u32) {
        set_flags(current()?, flags)
    }

    /// How threads wait for the current device.
    early cudaGetDeviceFlags(out: u64) {
        let (mut flags, mut is_active) = (0_u32, 0_u32);
        cu!(cuDevicePrimaryCtxGetState(current()?, &mut flags, &mut is_active))?;
        host::put(out, flags | MAP_HOST)
    }

    /// Ends all that is on the current device. What uses it afterwards finds it empty.
    early cudaDeviceReset() {
        let device = current()?;
        cu!(cuDevicePrimaryCtxReset_v2(device))
    }

    /// An attribute of a device.
    early cudaDeviceGetAttribute(out: u64, attribute: i32, device: i32) {
        check(device)?;
        cu!(cuDeviceGetAttribute(out, attribute, device))
    }

    /// Whether a device can be made to access another's memory.
    early cudaDeviceCanAccessPeer(out: u64, device: i32, peer: i32) {
        cu!(cuDeviceCanAccessPeer(out, device, peer))
    }

    /// What two devices can do together.
    early cudaDeviceGetP2PAttribute(out: u64, attribute: i32, device: i32, peer: i32) {
        cu!(cuDeviceGetP2PAttribute(out, attribute, device, peer))
    }

    /// The device at a place of the PCI bus.
    early cudaDeviceGetByPCIBusId(out: u64, id: u64) {
        cu!(cuDeviceGetByPCIBusId(out, id))
    }

    /// The place of a device on the PCI bus.
    early cudaDeviceGetPCIBusId(out: u64, len: i32, device: i32) {
        check(device)?;
        cu!(cuDeviceGetPCIBusId(out, len, device))
    }

    /// Has the current device access a peer's memory.
    fn cudaDeviceEnablePeerAccess(peer: i32, flags: u32) {
        check(peer)?;
        if peer == current()? {
            return Err(Code::INVALID_DEVICE);
        }
        cu!(cuCtxEnablePeerAccess(primary(peer)?, flags))
    }

    /// Ends the access to a peer's memory.
    fn cudaDeviceDisablePeerAccess(peer: i32) {
        check(peer)?;
        cu!(cuCtxDisablePeerAccess(primary(peer)?))
    }

    /// Memory that the network writes is coherent.
    early cudaDeviceFlushGPUDirectRDMAWrites(target: u32, scope: u32) {
        cu!(cuFlushGPUDirectRDMAWrites(target, scope))
    }

    /// The widest linear texture of one dimension.
    early cudaDeviceGetTexture1DLinearMaxWidth(out: u64, desc: u64, device: i32) {
        let format = crate::channel::Format::of(&host::get(desc)?)?;
        cu!(cuDeviceGetTexture1DLinearMaxWidth(out, format.format, format.n_channels, device))
    }
}

passes! {
    cudaDeviceSynchronize() = cuCtxSynchronize;
    cudaDeviceGetLimit(out: u64, limit: u32) = cuCtxGetLimit;
    cudaDeviceSetLimit(limit: u32, value: usize) = cuCtxSetLimit;
    cudaDeviceGetCacheConfig(out: u64) = cuCtxGetCacheConfig;
    cudaDeviceSetCacheConfig(config: u32) = cuCtxSetCacheConfig;
    cudaDeviceGetSharedMemConfig(out: u64) = cuCtxGetSharedMemConfig;
    cudaDeviceSetSharedMemConfig(config: u32) = cuCtxSetSharedMemConfig;
    cudaDeviceGetStreamPriorityRange(least: u64, greatest: u64) = cuCtxGetStreamPriorityRange;
    cudaCtxResetPersistingL2Cache() = cuCtxResetPersistingL2Cache;
    cudaDeviceGraphMemTrim(device: i32) = cuDeviceGraphMemTrim;
    cudaDeviceGetGraphMemAttribute(
        device: i32, attribute: u32, value: u64,
    ) = cuDeviceGetGraphMemAttribute;
    cudaDeviceSetGraphMemAttribute(
        device: i32, attribute: u32, value: u64,
    ) = cuDeviceSetGraphMemAttribute;

    #[cfg(not(cudart13))]
    cudaThreadSynchronize() = cuCtxSynchronize;
    #[cfg(not(cudart13))]
    cudaThreadGetLimit(out: u64, limit: u32) = cuCtxGetLimit;
    #[cfg(not(cudart13))]
    cudaThreadSetLimit(limit: u32, value: usize) = cuCtxSetLimit;
    #[cfg(not(cudart13))]
    cudaThreadGetCacheConfig(out: u64) = cuCtxGetCacheConfig;
    #[cfg(not(cudart13))]
    cudaThreadSetCacheConfig(config: u32) = cuCtxSetCacheConfig;

    #[cfg(cudart13)]
    cudaDeviceGetHostAtomicCapabilities(
        out: u64, operations: u64, count: u32, device: i32,
    ) = cuDeviceGetHostAtomicCapabilities;
    #[cfg(cudart13)]
    cudaDeviceGetP2PAtomicCapabilities(
        out: u64, operations: u64, count: u32, device: i32, peer: i32,
    ) = cuDeviceGetP2PAtomicCapabilities;
}

#[cfg(not(cudart13))]
exports! {
    /// The old name of [`cudaDeviceReset`].
    early cudaThreadExit() {
        Code(cudaDeviceReset()).check()
    }
}
