//! A launch that leaves no traces, to count how many preemption points it has.

use std::sync::Arc;

use ptxjit_device::texture::Object;
use ptxjit_interp::{Host, Launch, MemFault, Memory, Schedule};
use rustc_hash::FxHashMap;

/// Memory whose writes are kept aside.
struct Aside<'a> {
    memory: &'a mut dyn Memory,
    bytes: FxHashMap<u64, u8>,
}

impl Memory for Aside<'_> {
    fn load(&mut self, addr: u64, bytes: &mut [u8]) -> Result<(), MemFault> {
        self.memory.load(addr, bytes)?;
        for (at, byte) in (addr..).zip(bytes) {
            if let Some(&written) = self.bytes.get(&at) {
                *byte = written;
            }
        }
        Ok(())
    }

    fn store(&mut self, addr: u64, bytes: &[u8]) -> Result<(), MemFault> {
        // What cannot be read cannot be written.
        self.memory.load(addr, &mut vec![0; bytes.len()])?;
        self.bytes.extend((addr..).zip(bytes.iter().copied()));
        Ok(())
    }

    fn update(
        &mut self,
        addr: u64,
        size: u32,
        update: &mut dyn FnMut(u64) -> u64,
    ) -> Result<u64, MemFault> {
        let mut bytes = [0; 8];
        self.load(addr, &mut bytes[..size as usize])?;
        let old = u64::from_le_bytes(bytes);
        self.store(addr, &update(old).to_le_bytes()[..size as usize])?;
        Ok(old)
    }

    fn allocation(&mut self, addr: u64) -> Option<(u64, u64)> {
        self.memory.allocation(addr)
    }
}

/// A host that prints nothing, and frees what the launch allocates when it is over.
struct Silent<'a> {
    host: &'a mut dyn Host,
    allocated: Vec<u64>,
}

impl Host for Silent<'_> {
    fn print(&mut self, _text: &[u8]) {}

    fn malloc(&mut self, size: u64) -> u64 {
        let addr = self.host.malloc(size);
        self.allocated.extend((addr != 0).then_some(addr));
        addr
    }

    fn free(&mut self, _ptr: u64) -> Result<(), String> {
        Ok(())
    }

    /// None: surfaces would be written. The points are those before the first use of one then.
    fn object(&mut self, _handle: u64) -> Option<Arc<Object>> {
        None
    }

    fn clock(&mut self) -> u64 {
        self.host.clock()
    }

    fn cancelled(&mut self) -> bool {
        self.host.cancelled()
    }
}

/// The number of preemption points that a launch has with the priorities of the seed alone.
pub(crate) fn points(
    launch: &Launch<'_>,
    seed: u64,
    memory: &mut dyn Memory,
    host: &mut dyn Host,
) -> u64 {
    let launch = Launch {
        schedule: Schedule::Pct {
            seed,
            depth: 1,
            points: 0,
        },
        checks: Default::default(),
        records: false,
        keeps_writes: false,
        ..launch.clone()
    };
    let mut memory = Aside {
        memory,
        bytes: FxHashMap::default(),
    };
    let mut host = Silent {
        host,
        allocated: Vec::new(),
    };
    let watched = ptxjit_interp::watched(&launch, &mut memory, &mut host);
    for addr in host.allocated {
        // It was allocated by this launch, which is over.
        let _ = host.host.free(addr);
    }
    watched.points
}
