//! Options of loading and linking: of all that there are, the logs and the time.

use std::time::Instant;

use crate::error::Result;
use crate::host;
use crate::types::{CUjit_option, CUresult, HostPtr};

use super::{Loaded, Refusal};

/// Options as a call has them: an array of keys, and one of pointer-sized values.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Options {
    pub count: u32,
    pub keys: HostPtr,
    pub values: HostPtr,
}

/// A buffer for text, and the slot that holds its size and takes that of the text.
#[derive(Copy, Clone, Default, Debug)]
struct Log {
    buffer: u64,
    size: usize,
    size_slot: Option<u64>,
}

/// Where logs go, and since when time counts.
#[derive(Clone, Debug)]
pub(crate) struct Jit {
    info: Log,
    error: Log,
    time_slot: Option<u64>,
    start: Instant,
}

impl Options {
    /// No options.
    pub const NONE: Options = Options {
        count: 0,
        keys: HostPtr::NULL,
        values: HostPtr::NULL,
    };

    /// Reads the options. Those that only matter to machine code are accepted.
    pub(crate) fn read(&self) -> Result<Jit> {
        let mut jit = Jit {
            info: Log::default(),
            error: Log::default(),
            time_slot: None,
            start: Instant::now(),
        };
        let keys = host::get_all::<CUjit_option>(self.keys.0, self.count as usize)?;
        for (idx, key) in keys.into_iter().enumerate() {
            let slot = self.values.0.wrapping_add(8 * idx as u64);
            let value = host::get::<u64>(slot)?;
            if key.c_name().is_none() {
                return Err(CUresult::INVALID_VALUE);
            }
            match key {
                CUjit_option::WALL_TIME => jit.time_slot = Some(slot),
                CUjit_option::INFO_LOG_BUFFER => jit.info.buffer = value,
                CUjit_option::ERROR_LOG_BUFFER => jit.error.buffer = value,
                // Sizes are 32-bit numbers in their slots.
                CUjit_option::INFO_LOG_BUFFER_SIZE_BYTES => jit.info.set_size(value, slot),
                CUjit_option::ERROR_LOG_BUFFER_SIZE_BYTES => jit.error.set_size(value, slot),
                _ => {}
            }
        }
        Ok(jit)
    }
}

impl Log {
    fn set_size(&mut self, value: u64, slot: u64) {
        self.size = value as u32 as usize;
        self.size_slot = Some(slot);
    }

    /// Writes a text, cut to fit, and its size.
    fn write(&self, text: &str) -> Result<()> {
        if self.buffer == 0 || self.size == 0 {
            return Ok(());
        }
        host::put_string(self.buffer, self.size, text.as_bytes())?;
        match self.size_slot {
            Some(slot) => host::put(slot, text.len().min(self.size - 1) as u64),
            None => Ok(()),
        }
    }
}

impl Jit {
    /// Fills the logs with what came out, and gives the result of the call.
    pub(crate) fn finish<T>(&self, result: Loaded<T>) -> Result<T> {
        let error = result.as_ref().err().map_or("", |refusal| &refusal.text);
        self.info.write("")?;
        self.error.write(error)?;
        if let Some(slot) = self.time_slot {
            let milliseconds = self.start.elapsed().as_secs_f32() * 1e3;
            host::put(slot, u64::from(milliseconds.to_bits()))?;
        }
        result.map_err(Refusal::told)
    }
}

/// Checks that a call with options has somewhere to put them.
pub(crate) fn read(options: &Options) -> Result<Jit> {
    if options.count != 0 && (options.keys.is_null() || options.values.is_null()) {
        return Err(CUresult::INVALID_VALUE);
    }
    options.read()
}
