//! Devices: simulated ones, each with its own part of the engine's memory.

use std::sync::OnceLock;

use parking_lot::Mutex;

use crate::config::Config;
use crate::context::Primary;
use crate::error::{self, Result};
use crate::state;
use crate::types::CUresult;

/// A device.
pub(crate) struct Device {
    pub(crate) ordinal: i32,
    /// Bytes of memory.
    pub(crate) memory: u64,
    pub(crate) primary: Mutex<Primary>,
}

/// The engine's devices. Reserving their address space takes time, so it waits for the first context.
static ENGINES: OnceLock<std::result::Result<Vec<ptxjit::Device>, CUresult>> = OnceLock::new();

impl Device {
    /// The devices that the configuration asks for.
    pub(crate) fn all(config: &Config) -> Vec<Device> {
        let device = |ordinal| Device {
            ordinal: ordinal as i32,
            memory: config.memory,
            primary: Mutex::default(),
        };
        (0..config.device_count).map(device).collect()
    }

    /// The engine's side of the device.
    pub(crate) fn engine(&self) -> Result<&'static ptxjit::Device> {
        let engines = ENGINES.get_or_init(|| {
            let devices = &state::state()?.devices;
            let made = ptxjit::Device::siblings(devices.len(), None);
            let made = made.map_err(|err| error::code_of(&err))?;
            let with_limits = made.into_iter().zip(devices);
            Ok(with_limits
                .map(|(engine, device)| engine.with_memory_limit(device.memory))
                .collect())
        });
        match engines {
            Ok(engines) => Ok(&engines[self.ordinal as usize]),
            Err(code) => Err(*code),
        }
    }
}

/// The device with an ordinal.
pub(crate) fn get(ordinal: i32) -> Result<&'static Device> {
    let device = usize::try_from(ordinal)
        .ok()
        .and_then(|idx| state::state().ok()?.devices.get(idx));
    state::state()?;
    device.ok_or(CUresult::INVALID_DEVICE)
}

/// Whether an address lies where memory of devices does, allocated or not.
pub(crate) fn arena_contains(addr: u64) -> bool {
    let Some(Ok(engines)) = ENGINES.get() else {
        return false;
    };
    engines
        .first()
        .is_some_and(|engine| engine.arena_range().contains(&addr))
}

// --- The interface ---

/// `cuDeviceGetCount`.
pub fn count() -> Result<i32> {
    Ok(state::state()?.devices.len() as i32)
}

/// `cuDeviceGet`.
pub fn ordinal(ordinal: i32) -> Result<i32> {
    Ok(get(ordinal)?.ordinal)
}

/// `cuDeviceTotalMem`.
pub fn total_memory(device: i32) -> Result<usize> {
    Ok(get(device)?.memory as usize)
}

/// `cuDeviceComputeCapability`: major and minor.
pub fn compute_capability(device: i32) -> Result<(i32, i32)> {
    get(device)?;
    Ok(state::state()?.config.compute_capability)
}

/// `cuDriverGetVersion`.
pub fn driver_version() -> i32 {
    state::state().map_or_else(
        |_| Config::from_env().driver_version,
        |state| state.config.driver_version,
    )
}
