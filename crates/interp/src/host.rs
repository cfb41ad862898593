//! What a kernel asks of its host beside memory: output, heap, clocks, and whether to go on.

use std::sync::Arc;

use ptxjit_device::texture::Object;

/// The host of a launch.
pub trait Host {
    /// Text printed by the kernel.
    fn print(&mut self, text: &[u8]);

    /// Device heap allocation; 0 if there is none left.
    fn malloc(&mut self, size: u64) -> u64;

    /// Gives heap memory back; the error says what is wrong with the pointer (never null).
    fn free(&mut self, ptr: u64) -> Result<(), String>;

    /// The texture, sampler or surface that a handle stands for.
    fn object(&mut self, _handle: u64) -> Option<Arc<Object>> {
        None
    }

    /// `%clock64`. Never decreases.
    fn clock(&mut self) -> u64;

    /// `%globaltimer`, in nanoseconds.
    fn global_timer(&mut self) -> u64 {
        self.clock()
    }

    /// Asked every few thousand instructions: true stops the launch.
    fn cancelled(&mut self) -> bool {
        false
    }
}

/// A host without output and heap, whose clock counts its readings.
#[derive(Clone, Default, Debug)]
pub struct SilentHost {
    clock: u64,
}

impl Host for SilentHost {
    fn print(&mut self, _text: &[u8]) {}

    fn malloc(&mut self, _size: u64) -> u64 {
        0
    }

    fn free(&mut self, ptr: u64) -> Result<(), String> {
        Err(format!("{ptr:#x} was not allocated"))
    }

    fn clock(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }
}
