//! Devices: simulated ones, each with its own part of the engine's memory.

use std::sync::OnceLock;

use parking_lot::Mutex;
use ptxjit_persona::{Config, Device as Figures};

use crate::context::Primary;
use crate::error::{self, Result};
use crate::host;
use crate::memory::pool::DevicePools;
use crate::state;
use crate::types::{CUdevprop, CUresult, CUuuid, HostPtr};

/// A device.
pub(crate) struct Device {
    pub(crate) ordinal: i32,
    /// What it tells of itself.
    pub(crate) figures: &'static Figures,
    pub(crate) primary: Mutex<Primary>,
    pub(crate) pools: DevicePools,
}

/// The engine's devices. Reserving their address space takes time, so it waits for the first
/// context.
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

    /// Compute capability, major and minor.
    pub(crate) fn capability(&self) -> (u32, u32) {
        let capability = self.figures.persona.compute_capability;
        (capability.major, capability.minor)
    }

    /// Bytes of shared memory that a block can ask for.
    pub(crate) fn shared_limit(&self) -> u32 {
        self.figures.persona.shared_kib_per_block_optin << 10
    }

    /// The engine's side of the device.
    pub(crate) fn engine(&self) -> Result<&'static ptxjit::Device> {
        let engines = engines()?;
        Ok(&engines[self.ordinal as usize])
    }
}

/// The engine's sides of all devices; of one that no program sees if there are none.
fn engines() -> Result<&'static [ptxjit::Device]> {
    let make = || {
        let state = state::state()?;
        let threads = state.config.threads.map(|threads| threads as usize);
        let made = ptxjit::Device::siblings(state.devices.len().max(1), threads);
        let made = made.map_err(|err| error::code_of(&err))?;
        let with_cache = |engine: ptxjit::Device| match cache(state.config) {
            Some(cache) => engine.with_cache(cache),
            None => engine,
        };
        let mut made: Vec<_> = made.into_iter().map(with_cache).collect();
        for (engine, device) in made.iter_mut().zip(&state.devices) {
            *engine = engine.clone().with_memory_limit(device.figures.memory);
            if state.config.memcheck {
                engine
                    .prepare_checks()
                    .map_err(|err| error::code_of(&err))?;
            }
            if state.config.sanitize.init {
                engine.track_contents();
            }
        }
        Ok(made)
    };
    match ENGINES.get_or_init(make) {
        Ok(engines) => Ok(engines),
        Err(code) => Err(*code),
    }
}

/// An engine for `ptx_run`, which computes without devices too.
pub(crate) fn engine_without_devices() -> Result<&'static ptxjit::Device> {
    engines().map(|engines| &engines[0])
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

/// The device in whose part of the arena an address lies, allocated or not.
pub(crate) fn of_address(addr: u64) -> Option<i32> {
    let engines = ENGINES.get()?.as_ref().ok()?;
    engines
        .first()?
        .ordinal_of(addr)
        .map(|ordinal| ordinal as i32)
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

/// Tells that the host has written memory, or may do so at any time, for those who look for reads
/// of what was never written.
pub(crate) fn note_written(addr: u64, len: u64) {
    if let Some(Ok(engines)) = ENGINES.get()
        && let Some(engine) = engines.first()
        && engine.arena_range().contains(&addr)
    {
        engine.note_written(addr, len);
    }
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

/// `cuDeviceGetName`, as text.
pub fn name(device: i32) -> Result<&'static str> {
    Ok(&get(device)?.figures.persona.name)
}

/// `cuDeviceGetUuid`.
pub fn uuid(device: i32) -> Result<CUuuid> {
    Ok(CUuuid {
        bytes: get(device)?.figures.uuid(),
    })
}

/// `cuDeviceGetPCIBusId`, as text.
pub fn pci_bus_id(device: i32) -> Result<String> {
    Ok(get(device)?.figures.pci_bus_id())
}

/// `cuDeviceGetByPCIBusId`: `domain:bus:device.function`, of which the first and the last part may
/// be missing.
pub fn by_pci_bus_id(id: HostPtr) -> Result<i32> {
    let wanted = host::string(id)?.to_lowercase();
    let matches = |device: &&Device| {
        let known = device.figures.pci_bus_id().to_lowercase();
        let bare = known.split_once(':').map_or("", |(_, bare)| bare);
        let without_function = |id: &str| id.trim_end_matches(".0").to_owned();
        let forms = [
            known.clone(),
            bare.to_owned(),
            without_function(&known),
            without_function(bare),
        ];
        forms.contains(&wanted)
    };
    let found = state::state()?.devices.iter().find(matches);
    found
        .map(|device| device.ordinal)
        .ok_or(CUresult::INVALID_DEVICE)
}

/// `cuDeviceGetProperties`.
pub fn properties(device: i32) -> Result<CUdevprop> {
    let persona = &get(device)?.figures.persona;
    Ok(CUdevprop {
        maxThreadsPerBlock: 1024,
        maxThreadsDim: [1024, 1024, 64],
        maxGridSize: [i32::MAX, 65535, 65535],
        sharedMemPerBlock: 48 << 10,
        totalConstantMemory: 64 << 10,
        SIMDWidth: 32,
        memPitch: i32::MAX,
        regsPerBlock: persona.registers_per_multiprocessor as i32,
        clockRate: persona.clock_mhz as i32 * 1000,
        textureAlign: 512,
    })
}
