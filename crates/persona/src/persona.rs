//! Personas: the figures of a GPU, built in or read from a file.

use std::path::Path;

use serde::Deserialize;

use crate::capability::Capability;

/// Declares the fields of a persona twice: as they are, and each optional, as a file has them.
macro_rules! persona {
    ($($(#[$doc:meta])* $field:ident: $ty:ty,)*) => {
        /// The figures of a GPU.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Persona {
            $($(#[$doc])* pub $field: $ty,)*
        }

        /// What a file says of a persona; the rest is that of `base`.
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Overrides {
            base: Option<String>,
            $($field: Option<$ty>,)*
        }

        impl Overrides {
            fn apply(self, persona: &mut Persona) {
                $(if let Some(value) = self.$field {
                    persona.$field = value;
                })*
            }
        }
    };
}

persona! {
    /// The name of the device.
    name: String,
    /// The compute capability.
    compute_capability: Capability,
    /// Number of multiprocessors.
    multiprocessors: u32,
    /// Clock of the multiprocessors.
    clock_mhz: u32,
    /// Clock of the memory.
    memory_clock_mhz: u32,
    /// Width of the memory's bus.
    memory_bus_bits: u32,
    /// Size of the device's memory; the host's may be smaller.
    memory_mib: u64,
    /// Size of the L2 cache.
    l2_kib: u32,
    /// Threads that a multiprocessor can hold.
    max_threads_per_multiprocessor: u32,
    /// Blocks that a multiprocessor can hold.
    max_blocks_per_multiprocessor: u32,
    /// Shared memory of a multiprocessor.
    shared_kib_per_multiprocessor: u32,
    /// Shared memory that a block can ask for.
    shared_kib_per_block_optin: u32,
    /// Registers of a multiprocessor, all of which a block can have.
    registers_per_multiprocessor: u32,
    /// Units for 32-bit floats in a multiprocessor.
    cores_per_multiprocessor: u32,
    /// How much slower 64-bit floats are than 32-bit ones.
    float_to_double_ratio: u32,
    /// PCI device, vendor in the lower half.
    pci_device_id: u32,
    /// PCI subsystem, vendor in the lower half.
    pci_subsystem_id: u32,
    /// Power limit.
    power_limit_watts: u32,
}

/// A built-in persona; the limits of a multiprocessor follow from the capability.
struct Builtin {
    key: &'static str,
    name: &'static str,
    capability: (u32, u32),
    multiprocessors: u32,
    /// Of the multiprocessors and of the memory, in MHz.
    clocks: (u32, u32),
    bus_bits: u32,
    l2_kib: u32,
    memory_mib: u64,
    /// PCI device and subsystem.
    pci: (u32, u32),
    watts: u32,
}

/// The built-in personas, with what NVIDIA's tools report of such devices. The first of a
/// capability stands for it.
#[rustfmt::skip]
const BUILTIN: &[Builtin] = &[
    Builtin { key: "a100", name: "NVIDIA A100-SXM4-40GB", capability: (8, 0), multiprocessors: 108, clocks: (1410, 1215),
        bus_bits: 5120, l2_kib: 40 << 10, memory_mib: 40_536, pci: (0x20b0_10de, 0x134f_10de), watts: 400 },
    Builtin { key: "h100", name: "NVIDIA H100 80GB HBM3", capability: (9, 0), multiprocessors: 132, clocks: (1980, 2619),
        bus_bits: 5120, l2_kib: 50 << 10, memory_mib: 81_079, pci: (0x2330_10de, 0x16c1_10de), watts: 700 },
    Builtin { key: "h200", name: "NVIDIA H200", capability: (9, 0), multiprocessors: 132, clocks: (1980, 3201),
        bus_bits: 6144, l2_kib: 60 << 10, memory_mib: 143_156, pci: (0x2335_10de, 0x18be_10de), watts: 700 },
    Builtin { key: "b200", name: "NVIDIA B200", capability: (10, 0), multiprocessors: 148, clocks: (1965, 3996),
        bus_bits: 7680, l2_kib: 126 << 10, memory_mib: 182_642, pci: (0x2901_10de, 0x1999_10de), watts: 1000 },
    Builtin { key: "rtx5090", name: "NVIDIA GeForce RTX 5090", capability: (12, 0), multiprocessors: 170, clocks: (2407, 14_001),
        bus_bits: 512, l2_kib: 96 << 10, memory_mib: 32_607, pci: (0x2b85_10de, 0x2057_10de), watts: 575 },
    Builtin { key: "rtx4090", name: "NVIDIA GeForce RTX 4090", capability: (8, 9), multiprocessors: 128, clocks: (2520, 10_501),
        bus_bits: 384, l2_kib: 72 << 10, memory_mib: 24_217, pci: (0x2684_10de, 0x165b_10de), watts: 450 },
    Builtin { key: "l4", name: "NVIDIA L4", capability: (8, 9), multiprocessors: 58, clocks: (2040, 6251),
        bus_bits: 192, l2_kib: 48 << 10, memory_mib: 22_478, pci: (0x27b8_10de, 0x16ca_10de), watts: 72 },
    Builtin { key: "l40s", name: "NVIDIA L40S", capability: (8, 9), multiprocessors: 142, clocks: (2520, 9001),
        bus_bits: 384, l2_kib: 96 << 10, memory_mib: 45_458, pci: (0x26b9_10de, 0x1851_10de), watts: 350 },
    Builtin { key: "rtx3090", name: "NVIDIA GeForce RTX 3090", capability: (8, 6), multiprocessors: 82, clocks: (1695, 9751),
        bus_bits: 384, l2_kib: 6 << 10, memory_mib: 24_245, pci: (0x2204_10de, 0x1467_10de), watts: 350 },
    Builtin { key: "a10", name: "NVIDIA A10", capability: (8, 6), multiprocessors: 72, clocks: (1695, 6251),
        bus_bits: 384, l2_kib: 6 << 10, memory_mib: 22_588, pci: (0x2236_10de, 0x1482_10de), watts: 150 },
    Builtin { key: "t4", name: "Tesla T4", capability: (7, 5), multiprocessors: 40, clocks: (1590, 5001),
        bus_bits: 256, l2_kib: 4 << 10, memory_mib: 14_930, pci: (0x1eb8_10de, 0x12a2_10de), watts: 70 },
    Builtin { key: "v100", name: "Tesla V100-SXM2-16GB", capability: (7, 0), multiprocessors: 80, clocks: (1530, 877),
        bus_bits: 4096, l2_kib: 6 << 10, memory_mib: 16_151, pci: (0x1db1_10de, 0x1212_10de), watts: 300 },
    Builtin { key: "p100", name: "Tesla P100-PCIE-16GB", capability: (6, 0), multiprocessors: 56, clocks: (1328, 715),
        bus_bits: 4096, l2_kib: 4 << 10, memory_mib: 16_276, pci: (0x15f8_10de, 0x118f_10de), watts: 250 },
];

impl Builtin {
    fn persona(&self) -> Persona {
        let (major, minor) = self.capability;
        let mut persona = Persona {
            name: self.name.to_owned(),
            compute_capability: Capability { major, minor },
            multiprocessors: self.multiprocessors,
            clock_mhz: self.clocks.0,
            memory_clock_mhz: self.clocks.1,
            memory_bus_bits: self.bus_bits,
            memory_mib: self.memory_mib,
            l2_kib: self.l2_kib,
            max_threads_per_multiprocessor: 0,
            max_blocks_per_multiprocessor: 0,
            shared_kib_per_multiprocessor: 0,
            shared_kib_per_block_optin: 0,
            registers_per_multiprocessor: 65_536,
            cores_per_multiprocessor: 0,
            float_to_double_ratio: 0,
            pci_device_id: self.pci.0,
            pci_subsystem_id: self.pci.1,
            power_limit_watts: self.watts,
        };
        persona.set_capability(persona.compute_capability);
        persona
    }
}

impl Default for Persona {
    fn default() -> Self {
        BUILTIN[0].persona()
    }
}

impl Persona {
    /// A built-in persona by its name.
    #[must_use]
    pub fn built_in(key: &str) -> Option<Self> {
        let found = BUILTIN.iter().find(|row| row.key.eq_ignore_ascii_case(key));
        found.map(Builtin::persona)
    }

    /// The built-in persona that stands for a capability; else the default one, with the
    /// capability and its limits.
    #[must_use]
    pub fn of_capability(capability: Capability) -> Self {
        let (major, minor) = (capability.major, capability.minor);
        let found = BUILTIN.iter().find(|row| row.capability == (major, minor));
        found.map_or_else(
            || {
                let mut persona = Self::default();
                persona.set_capability(capability);
                persona
            },
            Builtin::persona,
        )
    }

    /// Names of the built-in personas.
    pub fn built_in_names() -> impl Iterator<Item = &'static str> {
        BUILTIN.iter().map(|row| row.key)
    }

    /// A built-in persona, or the one in the TOML file of that name.
    ///
    /// # Errors
    ///
    /// Says what is wrong with the name or the file.
    pub fn find(name: &str) -> Result<Self, String> {
        if let Some(persona) = Self::built_in(name) {
            return Ok(persona);
        }
        if !name.ends_with(".toml") {
            let known = Self::built_in_names().collect::<Vec<_>>().join(", ");
            return Err(format!(
                "`{name}` is neither a .toml file nor one of {known}"
            ));
        }
        let text = std::fs::read_to_string(Path::new(name));
        let text = text.map_err(|err| format!("cannot read `{name}`: {err}"))?;
        Self::from_toml(&text).map_err(|err| format!("`{name}`: {err}"))
    }

    /// The persona that a TOML text describes. Fields that it lacks are those of `base`, a built-in
    /// persona, or of the default one; limits of a multiprocessor follow from the capability.
    ///
    /// # Errors
    ///
    /// Says what is wrong with the text.
    pub fn from_toml(text: &str) -> Result<Self, String> {
        let overrides: Overrides =
            toml::from_str(text).map_err(|err| err.to_string().trim_end().to_owned())?;
        let mut persona = match &overrides.base {
            None => Self::default(),
            Some(base) => Self::built_in(base)
                .ok_or_else(|| format!("base `{base}` is no built-in persona"))?,
        };
        if let Some(capability) = overrides.compute_capability {
            persona.set_capability(capability);
        }
        overrides.apply(&mut persona);
        persona.check()?;
        Ok(persona)
    }

    /// Changes the capability, and the limits of a multiprocessor with it.
    pub fn set_capability(&mut self, capability: Capability) {
        let limits = capability.limits();
        self.compute_capability = capability;
        self.max_threads_per_multiprocessor = limits.threads;
        self.max_blocks_per_multiprocessor = limits.blocks;
        self.shared_kib_per_multiprocessor = limits.shared_kib;
        self.shared_kib_per_block_optin = limits.optin_kib;
        self.cores_per_multiprocessor = limits.cores;
        self.float_to_double_ratio = limits.double_ratio;
    }

    /// Refuses figures with which no kernel could be launched, or that no attribute could hold.
    fn check(&self) -> Result<(), String> {
        let positive = [
            ("multiprocessors", u64::from(self.multiprocessors)),
            ("clock_mhz", u64::from(self.clock_mhz)),
            ("memory_mib", self.memory_mib),
            (
                "registers_per_multiprocessor",
                u64::from(self.registers_per_multiprocessor),
            ),
        ];
        if let Some((field, _)) = positive.iter().find(|(_, value)| *value == 0) {
            return Err(format!("{field} is 0"));
        }
        let limited = [
            ("multiprocessors", self.multiprocessors, 1 << 16),
            ("clock_mhz", self.clock_mhz, 1_000_000),
            ("memory_clock_mhz", self.memory_clock_mhz, 1_000_000),
            ("l2_kib", self.l2_kib, 1 << 20),
            (
                "shared_kib_per_multiprocessor",
                self.shared_kib_per_multiprocessor,
                1 << 20,
            ),
            (
                "registers_per_multiprocessor",
                self.registers_per_multiprocessor,
                1 << 30,
            ),
            (
                "max_threads_per_multiprocessor",
                self.max_threads_per_multiprocessor,
                1 << 20,
            ),
            (
                "max_blocks_per_multiprocessor",
                self.max_blocks_per_multiprocessor,
                1 << 20,
            ),
        ];
        if let Some((field, value, most)) = limited.iter().find(|(_, value, most)| value > most) {
            return Err(format!("{field} = {value} is more than {most}"));
        }
        if self.max_threads_per_multiprocessor < 1024 || self.max_blocks_per_multiprocessor == 0 {
            return Err("a multiprocessor does not hold a block of 1024 threads".to_owned());
        }
        let (optin, all) = (
            self.shared_kib_per_block_optin,
            self.shared_kib_per_multiprocessor,
        );
        if !(48..=all).contains(&optin) {
            return Err(format!(
                "shared_kib_per_block_optin = {optin} is not within 48 to {all}"
            ));
        }
        Ok(())
    }
}
