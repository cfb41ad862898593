//! Functions that tell of a device.
#![expect(
    unsafe_code,
    reason = "exports symbols under the names that clients look up"
)]

use ptxjit_persona::{Capability, Config, Device};

use crate::abi::{
    Answer, Attributes, Handle, InText, Memory, MemoryV2, Out, OutText, PciInfo, PciInfoExt,
    Return, Temperature, Utilization, exports, version,
};

/// What the only sensor reports, in degrees Celsius. A simulated device has no temperature, but
/// monitors expect one.
const DEGREES: u32 = 30;

/// Share of the power limit that an idle device is said to draw, for the same reason.
const IDLE_SHARE: u32 = 8;

exports! {
    /// The number of devices.
    initialized fn nvmlDeviceGetCount(count: Out<u32>) {
        count.put(number_of_devices())
    }

    /// The number of devices.
    initialized fn nvmlDeviceGetCount_v2(count: Out<u32>) {
        count.put(number_of_devices())
    }

    /// The device at an index.
    initialized fn nvmlDeviceGetHandleByIndex(index: u32, device: Out<Handle>) {
        by_index(index, &device)
    }

    /// The device at an index.
    initialized fn nvmlDeviceGetHandleByIndex_v2(index: u32, device: Out<Handle>) {
        by_index(index, &device)
    }

    /// The device with a UUID.
    initialized fn nvmlDeviceGetHandleByUUID(uuid: InText, device: Out<Handle>) {
        let uuid = uuid.get()?;
        put_found(&device, |known| known.uuid_text().eq_ignore_ascii_case(uuid))
    }

    /// The device at a place on the PCI bus.
    initialized fn nvmlDeviceGetHandleByPciBusId(id: InText, device: Out<Handle>) {
        by_pci_bus_id(&id, &device)
    }

    /// The device at a place on the PCI bus.
    initialized fn nvmlDeviceGetHandleByPciBusId_v2(id: InText, device: Out<Handle>) {
        by_pci_bus_id(&id, &device)
    }

    /// The name of a device.
    initialized fn nvmlDeviceGetName(device: Handle, name: OutText, length: u32) {
        name.put(length, &device.find()?.persona.name)
    }

    /// The UUID of a device.
    initialized fn nvmlDeviceGetUUID(device: Handle, uuid: OutText, length: u32) {
        uuid.put(length, &device.find()?.uuid_text())
    }

    /// The index of a device.
    initialized fn nvmlDeviceGetIndex(device: Handle, index: Out<u32>) {
        index.put(device.find()?.index)
    }

    /// The number of the device's file, `/dev/nvidiaN` of a real one.
    initialized fn nvmlDeviceGetMinorNumber(device: Handle, minor: Out<u32>) {
        minor.put(device.find()?.index)
    }

    /// The memory of a device. Which of it programs use is known to each of them only.
    initialized fn nvmlDeviceGetMemoryInfo(device: Handle, memory: Out<Memory>) {
        let total = device.find()?.memory;
        memory.put(Memory { total, free: total, used: 0 })
    }

    /// The memory of a device.
    initialized fn nvmlDeviceGetMemoryInfo_v2(device: Handle, memory: Out<MemoryV2>) {
        let total = device.find()?.memory;
        let version = checked(memory.get()?.version, version::<MemoryV2>(2))?;
        memory.put(MemoryV2 { version, total, reserved: 0, free: total, used: 0 })
    }

    /// The compute capability of a device.
    initialized fn nvmlDeviceGetCudaComputeCapability(
        device: Handle,
        major: Out<i32>,
        minor: Out<i32>
    ) {
        let device = device.find()?;
        major.check()?;
        // Attributes 75 and 76 of the driver are these two numbers.
        minor.put(device.attribute(76).unwrap_or_default())?;
        major.put(device.attribute(75).unwrap_or_default())
    }

    /// The generation of a device.
    initialized fn nvmlDeviceGetArchitecture(device: Handle, architecture: Out<u32>) {
        architecture.put(architecture_of(device.find()?.persona.compute_capability))
    }

    /// The number of units for 32-bit floats.
    initialized fn nvmlDeviceGetNumGpuCores(device: Handle, cores: Out<u32>) {
        let persona = &device.find()?.persona;
        cores.put(persona.multiprocessors.saturating_mul(persona.cores_per_multiprocessor))
    }

    /// The width of the memory's bus.
    initialized fn nvmlDeviceGetMemoryBusWidth(device: Handle, bits: Out<u32>) {
        bits.put(device.find()?.persona.memory_bus_bits)
    }

    /// The place of a device on the PCI bus.
    initialized fn nvmlDeviceGetPciInfo(device: Handle, pci: Out<PciInfo>) {
        pci.put(pci_info(device.find()?))
    }

    /// The place of a device on the PCI bus.
    initialized fn nvmlDeviceGetPciInfo_v2(device: Handle, pci: Out<PciInfo>) {
        pci.put(pci_info(device.find()?))
    }

    /// The place of a device on the PCI bus.
    initialized fn nvmlDeviceGetPciInfo_v3(device: Handle, pci: Out<PciInfo>) {
        pci.put(pci_info(device.find()?))
    }

    /// The place of a device on the PCI bus, and its class: a 3D controller.
    initialized fn nvmlDeviceGetPciInfoExt(device: Handle, pci: Out<PciInfoExt>) {
        let info = pci_info(device.find()?);
        let version = checked(pci.get()?.version, version::<PciInfoExt>(1))?;
        pci.put(PciInfoExt {
            version,
            domain: info.domain,
            bus: info.bus,
            device: info.device,
            pci_device_id: info.pci_device_id,
            pci_subsystem_id: info.pci_subsystem_id,
            base_class: 3,
            sub_class: 2,
            bus_id: info.bus_id,
        })
    }

    /// The parts of a device.
    initialized fn nvmlDeviceGetAttributes(device: Handle, attributes: Out<Attributes>) {
        attributes.put(attributes_of(device.find()?))
    }

    /// The parts of a device.
    initialized fn nvmlDeviceGetAttributes_v2(device: Handle, attributes: Out<Attributes>) {
        attributes.put(attributes_of(device.find()?))
    }

    /// How busy a device is: nothing is measured.
    initialized fn nvmlDeviceGetUtilizationRates(device: Handle, rates: Out<Utilization>) {
        device.find()?;
        rates.put(Utilization { gpu: 0, memory: 0 })
    }

    /// The temperature at sensor 0, the only one.
    initialized fn nvmlDeviceGetTemperature(device: Handle, sensor: u32, degrees: Out<u32>) {
        device.find()?;
        checked(sensor, 0).map_err(|_| Return::INVALID_ARGUMENT)?;
        degrees.put(DEGREES)
    }

    /// The temperature at sensor 0.
    initialized fn nvmlDeviceGetTemperatureV(device: Handle, temperature: Out<Temperature>) {
        device.find()?;
        let asked = temperature.get()?;
        checked(asked.version, version::<Temperature>(1))?;
        checked(asked.sensor, 0).map_err(|_| Return::INVALID_ARGUMENT)?;
        temperature.put(Temperature { degrees: DEGREES as i32, ..asked })
    }

    /// The power that a device draws, in milliwatts.
    initialized fn nvmlDeviceGetPowerUsage(device: Handle, milliwatts: Out<u32>) {
        milliwatts.put(milliwatts_of(device.find()?) / IDLE_SHARE)
    }

    /// The power limit, in milliwatts.
    initialized fn nvmlDeviceGetEnforcedPowerLimit(device: Handle, milliwatts: Out<u32>) {
        milliwatts.put(milliwatts_of(device.find()?))
    }

    /// The power limit, in milliwatts.
    initialized fn nvmlDeviceGetPowerManagementLimit(device: Handle, milliwatts: Out<u32>) {
        milliwatts.put(milliwatts_of(device.find()?))
    }

    /// A clock of a device, in MHz.
    initialized fn nvmlDeviceGetClockInfo(device: Handle, kind: u32, clock: Out<u32>) {
        clock.put(clock_of(device.find()?, kind)?)
    }

    /// A clock of a device at most, in MHz. It never runs at another.
    initialized fn nvmlDeviceGetMaxClockInfo(device: Handle, kind: u32, clock: Out<u32>) {
        clock.put(clock_of(device.find()?, kind)?)
    }

    /// The performance state: the highest.
    initialized fn nvmlDeviceGetPerformanceState(device: Handle, state: Out<u32>) {
        device.find()?;
        state.put(0)
    }

    /// Who may use a device: all.
    initialized fn nvmlDeviceGetComputeMode(device: Handle, mode: Out<u32>) {
        device.find()?;
        mode.put(0)
    }

    /// Whether the driver stays loaded without clients: it is.
    initialized fn nvmlDeviceGetPersistenceMode(device: Handle, mode: Out<u32>) {
        device.find()?;
        mode.put(1)
    }

    /// Whether a display is connected: none is.
    initialized fn nvmlDeviceGetDisplayMode(device: Handle, mode: Out<u32>) {
        device.find()?;
        mode.put(0)
    }

    /// Whether a display is in use: none is.
    initialized fn nvmlDeviceGetDisplayActive(device: Handle, active: Out<u32>) {
        device.find()?;
        active.put(0)
    }
}

/// Exports the lists of processes on a device, of each kind and version. They are empty: a process
/// that computes is known to itself only.
macro_rules! no_processes {
    ($($name:ident)*) => {
        exports! {
            $(
                /// The processes of a kind on a device: none.
                initialized fn $name(device: Handle, count: Out<u32>, _processes: *mut u8) {
                    device.find()?;
                    count.put(0)
                }
            )*
        }
    };
}

no_processes! {
    nvmlDeviceGetComputeRunningProcesses
    nvmlDeviceGetComputeRunningProcesses_v2
    nvmlDeviceGetComputeRunningProcesses_v3
    nvmlDeviceGetGraphicsRunningProcesses
    nvmlDeviceGetGraphicsRunningProcesses_v2
    nvmlDeviceGetGraphicsRunningProcesses_v3
    nvmlDeviceGetMPSComputeRunningProcesses
    nvmlDeviceGetMPSComputeRunningProcesses_v2
    nvmlDeviceGetMPSComputeRunningProcesses_v3
}

fn devices() -> &'static [Device] {
    &Config::get().all_devices
}

fn number_of_devices() -> u32 {
    u32::try_from(devices().len()).unwrap_or(u32::MAX)
}

fn by_index(index: u32, handle: &Out<Handle>) -> Answer {
    let device = devices().get(index as usize);
    handle.put(Handle::of(device.ok_or(Return::INVALID_ARGUMENT)?))
}

fn put_found(handle: &Out<Handle>, is_it: impl Fn(&Device) -> bool) -> Answer {
    let device = devices().iter().find(|device| is_it(device));
    handle.put(Handle::of(device.ok_or(Return::NOT_FOUND)?))
}

/// Finds a device by `domain:bus:device.function`, of which domain and function may be left out.
fn by_pci_bus_id(id: &InText, handle: &Out<Handle>) -> Answer {
    let id = id.get()?;
    let hex = |text: &str| u32::from_str_radix(text, 16).ok();
    let (place, function) = id.split_once('.').unwrap_or((id, "0"));
    let parts: Option<Vec<u32>> = place.split(':').map(hex).collect();
    let place = match parts.as_deref() {
        Some([domain, bus, 0]) => Some((*domain, *bus)),
        Some([bus, 0]) => Some((0, *bus)),
        _ => None,
    };
    let place = place.filter(|_| hex(function) == Some(0));
    put_found(handle, |device| {
        place == Some((device.pci_domain(), device.pci_bus()))
    })
}

/// A value that must be the expected one, as versions of structs must.
fn checked(value: u32, expected: u32) -> Result<u32, Return> {
    if value != expected {
        return Err(Return::ARGUMENT_VERSION_MISMATCH);
    }
    Ok(value)
}

/// Numbers of `nvmlDeviceArchitecture_t`.
fn architecture_of(capability: Capability) -> u32 {
    match (capability.major, capability.minor) {
        (3, _) => 2,
        (5, _) => 3,
        (6, _) => 4,
        (7, 0..=4) => 5,
        (7, _) => 6,
        (8, 9) => 8,
        (8, _) => 7,
        (9, _) => 9,
        _ => 10,
    }
}

fn attributes_of(device: &Device) -> Attributes {
    Attributes {
        multiprocessors: device.persona.multiprocessors,
        copy_engines: 2,
        memory_mib: device.memory >> 20,
        ..Attributes::default()
    }
}

fn milliwatts_of(device: &Device) -> u32 {
    device.persona.power_limit_watts.saturating_mul(1000)
}

/// The clocks: graphics, multiprocessors, memory and video, in this order.
fn clock_of(device: &Device, kind: u32) -> Result<u32, Return> {
    match kind {
        0 | 1 | 3 => Ok(device.persona.clock_mhz),
        2 => Ok(device.persona.memory_clock_mhz),
        _ => Err(Return::INVALID_ARGUMENT),
    }
}

fn pci_info(device: &Device) -> PciInfo {
    let place = format!("{:02X}:00.0", device.pci_bus());
    PciInfo {
        bus_id_legacy: padded(&format!("{:04X}:{place}", device.pci_domain())),
        domain: device.pci_domain(),
        bus: device.pci_bus(),
        device: 0,
        pci_device_id: device.persona.pci_device_id,
        pci_subsystem_id: device.persona.pci_subsystem_id,
        bus_id: padded(&format!("{:08X}:{place}", device.pci_domain())),
    }
}

/// A text in a field of `N` bytes, which is longer.
fn padded<const N: usize>(text: &str) -> [u8; N] {
    let mut field = [0; N];
    let length = text.len().min(N - 1);
    field[..length].copy_from_slice(&text.as_bytes()[..length]);
    field
}
