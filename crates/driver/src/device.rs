//! Devices: simulated ones, each with its own part of the engine's memory.

use std::sync::OnceLock;

use parking_lot::Mutex;
use ptxjit_persona::{Config, Device as Figures};

use crate::context::Primary;
use crate::error::{self, Result};
use crate::memory::pool::DevicePools;
use crate::state;
use crate::types::CUresult;

/// A device.
pub(crate) struct Device {
    pub(crate) ordinal: i32,
    /// What it tells of itself.
    pub(crate) figures: &'static Figures,
    pub(crate) primary: Mutex<Primary>,
    pub(crate) pools: DevicePools,
}

/// The engine's devices. Reserving their address space takes time, so it waits for the first context.
static ENGINES: OnceLock<std::result::Result<Vec<ptxjit::Device>, CUresult>> = OnceLock::new();

impl Device {
    /// The devices that the configuration asks for.
    pub(crate) fn all(config: &'static Config) -> Vec<Device> {
        let device = |(ordinal, figures)| Device {
            ordinal: ordinal as i32,
            figures,
            primary: Mutex::default(),
            pools: DevicePools::default(),
        };
        config.devices.iter().enumerate().map(device).collect()
    }

    /// The engine's side of the device.
    pub(crate) fn engine(&self) -> Result<&'static ptxjit::Device> {
        let engines = ENGINES.get_or_init(|| {
            let state = state::state()?;
            let threads = state.config.threads.map(|threads| threads as usize);
            let made = ptxjit::Device::siblings(state.devices.len(), threads);
            let made = made.map_err(|err| error::code_of(&err))?;
            let devices = made.into_iter().zip(&state.devices);
            let set_up = |(engine, device): (ptxjit::Device, &Device)| {
                let engine = engine.with_memory_limit(device.figures.memory);
                match cache(state.config) {
                    Some(cache) => engine.with_cache(cache),
                    None => engine,
                }
            };
            Ok(devices.map(set_up).collect())
        });
        match engines {
            Ok(engines) => Ok(&engines[self.ordinal as usize]),
            Err(code) => Err(*code),
        }
    }
}

/// Where compiled code is kept from one process to the next.
fn cache(config: &Config) -> Option<ptxjit::Cache> {
    match &config.cache_dir {
        Some(dir) => Some(ptxjit::Cache::new(dir)),
        None => ptxjit::Cache::user(),
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
    Ok(get(device)?.figures.memory as usize)
}

/// `cuDeviceComputeCapability`: major and minor.
pub fn compute_capability(device: i32) -> Result<(i32, i32)> {
    let capability = get(device)?.figures.persona.compute_capability;
    Ok((capability.major as i32, capability.minor as i32))
}

/// `cuDeviceGetAttribute`.
pub fn attribute(id: i32, device: i32) -> Result<i32> {
    get(device)?
        .figures
        .attribute(id)
        .ok_or(CUresult::INVALID_VALUE)
}

/// `cuDriverGetVersion`.
pub fn driver_version() -> i32 {
    Config::get().driver_version as i32
}
