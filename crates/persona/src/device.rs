//! A device: a persona with a place on the bus, and its attributes.

use std::sync::Arc;

use crate::persona::Persona;

/// One of the simulated devices.
#[derive(Clone, Debug)]
pub struct Device {
    /// Its place among all devices, hidden ones included.
    pub index: u32,
    /// Size of its memory in bytes.
    pub memory: u64,
    /// Its figures.
    pub persona: Arc<Persona>,
}

impl Device {
    /// The UUID: the same in every process, and different for each device in the first bytes, by
    /// which `CUDA_VISIBLE_DEVICES` may call it.
    #[must_use]
    pub fn uuid(&self) -> [u8; 16] {
        // Version 8 of RFC 9562, whose content is up to its maker.
        let mut uuid = *b"....pt\x80x\x80jit....";
        // An odd factor makes different first bytes of different indices.
        let mixed = self.index.wrapping_add(1).wrapping_mul(0x9e37_79b9);
        uuid[..4].copy_from_slice(&mixed.to_be_bytes());
        uuid[12..].copy_from_slice(&self.index.to_be_bytes());
        uuid
    }

    /// The UUID as NVIDIA's tools write it: `GPU-` and groups of digits.
    #[must_use]
    pub fn uuid_text(&self) -> String {
        let digits: String = self
            .uuid()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        format!(
            "GPU-{}-{}-{}-{}-{}",
            &digits[..8],
            &digits[8..12],
            &digits[12..16],
            &digits[16..20],
            &digits[20..]
        )
    }

    /// Number of its PCI domain: 256 devices fill one.
    #[must_use]
    pub fn pci_domain(&self) -> u32 {
        (self.index + 1) >> 8
    }

    /// Number of its PCI bus; on bus 0 are the host's own.
    #[must_use]
    pub fn pci_bus(&self) -> u32 {
        (self.index + 1) & 0xff
    }

    /// The PCI bus identifier, as `cuDeviceGetPCIBusId` writes it.
    #[must_use]
    pub fn pci_bus_id(&self) -> String {
        format!("{:04X}:{:02X}:00.0", self.pci_domain(), self.pci_bus())
    }

    /// Value of a `CUdevice_attribute`, if there is such an attribute.
    #[must_use]
    pub fn attribute(&self, id: i32) -> Option<i32> {
        let value = self.persona_attribute(id).map(u64::from);
        let value = value.or_else(|| texture_attribute(id).map(u64::from));
        let value = value.or_else(|| abilities(&self.persona, id).map(u64::from));
        // `check` of a persona keeps figures small; a value that does not fit is as large as it can
        // be.
        value
            .map(|value| i32::try_from(value).unwrap_or(i32::MAX))
            .or_else(|| (id == attribute::NUMA_ID || id == attribute::HOST_NUMA_ID).then_some(-1))
    }

    /// The attributes that are figures.
    fn persona_attribute(&self, id: i32) -> Option<u32> {
        let persona = &*self.persona;
        Some(match id {
            1 => 1024,                                              // max threads per block
            2 | 3 => 1024,                                          // max block dim x, y
            4 => 64,                                                // max block dim z
            5 => i32::MAX as u32,                                   // max grid dim x
            6 | 7 => 65_535,                                        // max grid dim y, z
            8 => 48 << 10,                                          // max shared memory per block
            9 => 65_536,                                            // total constant memory
            10 => 32,                                               // warp size
            11 => i32::MAX as u32,                                  // max pitch
            12 => persona.registers_per_multiprocessor.min(65_536), // max registers per block
            13 => persona.clock_mhz * 1000,                         // clock rate in kHz
            14 => 512,                                              // texture alignment
            16 => persona.multiprocessors,                          // multiprocessor count
            30 => 512,                                              // surface alignment
            33 => self.pci_bus(),                                   // PCI bus
            34 => 0,                                                // PCI device
            36 => persona.memory_clock_mhz * 1000,                  // memory clock rate in kHz
            37 => persona.memory_bus_bits,                          // global memory bus width
            38 => persona.l2_kib << 10,                             // L2 cache size
            39 => persona.max_threads_per_multiprocessor,
            // Async engines: three where the chip is made for servers.
            40 if persona.compute_capability.minor == 0
                && persona.compute_capability.major >= 8 =>
            {
                3
            }
            40 => 2,
            50 => self.pci_domain(), // PCI domain
            51 => 32,                // texture pitch alignment
            75 => persona.compute_capability.major,
            76 => persona.compute_capability.minor,
            81 => persona.shared_kib_per_multiprocessor << 10,
            82 => persona.registers_per_multiprocessor,
            85 => self.index, // multi-GPU board group
            87 => persona.float_to_double_ratio,
            97 | 150 => persona.shared_kib_per_block_optin << 10, // opt-in and oversized
            106 => persona.max_blocks_per_multiprocessor,
            108 => persona.persisting_l2(), // max persisting L2 cache size
            // Max access policy window.
            109 if persona.persisting_l2() == 0 => 0,
            109 if persona.compute_capability.major >= 9 => 0x800_0000,
            109 => 0x7ff_f000,
            111 => reserved_shared(persona), // reserved shared memory per block
            126 => {
                if persona.compute_capability.has_clusters() {
                    4
                } else {
                    1
                }
            } // mem sync domains
            139 => persona.pci_device_id,    // GPU PCI device
            140 => persona.pci_subsystem_id, // GPU PCI subsystem
            149 => 1,                        // locality domains
            157 => persona.multiprocessors,  // multiprocessors of a locality domain
            _ => return None,
        })
    }
}

/// Attributes whose value may be -1: the device is no NUMA node, and the host's is not told.
mod attribute {
    pub(super) const NUMA_ID: i32 = 131;
    pub(super) const HOST_NUMA_ID: i32 = 134;
}

/// Shared memory that each block loses to the system.
fn reserved_shared(persona: &Persona) -> u32 {
    if persona.compute_capability.major >= 8 {
        1024
    } else {
        0
    }
}

impl Persona {
    /// How much of the L2 cache can be set aside, in bytes.
    fn persisting_l2(&self) -> u32 {
        let l2 = self.l2_kib << 10;
        match self.compute_capability.major {
            ..8 => 0,
            8 => l2 / 4 * 3,
            9.. => l2 / 8 * 5,
        }
    }
}

/// Extents of textures and surfaces, the same from capability 6.0 on.
fn texture_attribute(id: i32) -> Option<u32> {
    Some(match id {
        21 => 131_072,     // texture 1D width
        22 => 131_072,     // texture 2D width
        23 => 65_536,      // texture 2D height
        24..=26 => 16_384, // texture 3D width, height, depth
        27 | 28 => 32_768, // texture 2D layered width, height
        29 => 2048,        // texture 2D layers
        42 => 32_768,      // texture 1D layered width
        43 => 2048,        // texture 1D layers
        45 | 46 => 32_768, // texture 2D gather width, height
        47 | 48 => 8192,   // texture 3D alternate width, height
        49 => 32_768,      // texture 3D alternate depth
        52 | 53 => 32_768, // texture cube map width, layered width
        54 => 2046,        // texture cube map layers
        55 => 32_768,      // surface 1D width
        56 => 131_072,     // surface 2D width
        57 => 65_536,      // surface 2D height
        58..=60 => 16_384, // surface 3D width, height, depth
        61 => 32_768,      // surface 1D layered width
        62 => 2048,        // surface 1D layers
        63 | 64 => 32_768, // surface 2D layered width, height
        65 => 2048,        // surface 2D layers
        66 | 67 => 32_768, // surface cube map width, layered width
        68 => 2046,        // surface cube map layers
        69 => 1 << 28,     // texture 1D linear width
        70 => 131_072,     // texture 2D linear width
        71 => 65_000,      // texture 2D linear height
        72 => 2_097_120,   // texture 2D linear pitch
        73 | 74 => 32_768, // texture 2D mipmapped width, height
        77 => 32_768,      // texture 1D mipmapped width
        _ => return None,
    })
}

/// What the device can do, as yes or no.
fn abilities(persona: &Persona, id: i32) -> Option<bool> {
    Some(match id {
        15 => true,                                       // copies overlap with kernels
        17 => false,                                      // kernels have no time limit
        18 => false,                                      // integrated
        19 => true,                                       // can map host memory
        20 => false,                                      // compute mode: default
        31 => true,                                       // concurrent kernels
        32 => false,                                      // ECC
        35 => false,                                      // TCC driver
        41 => true,                                       // unified addressing
        44 => true,                                       // texture 2D gather
        78 => true,                                       // stream priorities
        79 | 80 => true,                                  // global and local L1 cache
        83 => true,                                       // managed memory
        84 => false,                                      // multi-GPU board
        86 => false,                                      // host native atomics
        88 => false,        // pageable memory access: memory must lie in the arena
        89 => true,         // concurrent managed access
        90 => true,         // compute preemption
        91 => true,         // host pointers of registered memory
        92..=94 => true,    // stream mem ops, 64-bit and NOR among them
        95 => true,         // cooperative launch
        96 => false,        // cooperative launch on several devices
        98 => false,        // flush of remote writes
        99 => true,         // host register
        100 | 101 => false, // host page tables, direct access from the host
        102 => true,        // virtual memory management
        103..=105 => false, // handles that are exported
        107 => false,       // generic compression
        110 => false,       // RDMA with virtual memory management
        112..=114 => false, // sparse arrays, read-only host register, timeline semaphores
        115 => true,        // memory pools
        116..=119 => false, // RDMA: support, flushes, ordering; exported pools
        120 => persona.compute_capability.has_clusters(), // cluster launch
        121 => false,       // deferred mapping of arrays
        122 | 123 => true,  // 64-bit stream mem ops, NOR
        124 | 125 => false, // DMA-BUF, IPC events
        127 => persona.compute_capability.has_clusters(), // tensor maps
        128..=130 => false, // fabric handles, unified function pointers, NUMA
        132 | 133 => false, // multicast, MPS
        135..=138 => false, // graphics contexts, hardware decompression
        144 => true,        // memory pools of the host
        141..=148 => false, // memory of the host's NUMA nodes, partial atomics, reductions
        151..=156 => false, // graphics streams, DMA-BUF, logical endpoints
        158..=161 => false, // logical endpoints, graphics streams, large tensors, localized RDMA
        _ => return None,
    })
}
