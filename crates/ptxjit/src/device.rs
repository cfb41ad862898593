//! A device: memory for kernels to work on.

use std::fmt;
use std::sync::Arc;

use ptxjit_runtime::{Arena, MemoryError, Runtime};

use crate::{Buffer, Cache, Element, Error};

/// Memory and the modules loaded into it. Cheap to clone; all clones are the same device.
///
/// Devices share nothing: a pointer into one means nothing to a kernel on another. Memory stays reserved until the last
/// clone, buffer and module are gone.
///
/// ```
/// let device = ptxjit::Device::new()?;
/// let buffer = device.alloc_from(&[1.0f32, 2.0, 3.0])?;
/// assert_eq!(buffer.read()?, [1.0, 2.0, 3.0]);
/// # Ok::<(), ptxjit::Error>(())
/// ```
#[derive(Clone)]
pub struct Device {
    pub(crate) arena: Arc<Arena>,
    pub(crate) runtime: Runtime,
    pub(crate) cache: Option<Arc<Cache>>,
}

impl Device {
    /// A device with address space reserved, and no memory in use yet.
    pub fn new() -> Result<Device, Error> {
        Device::build(None)
    }

    /// A device whose launches use at most `threads` threads of the host, the launching one among them.
    pub fn with_threads(threads: usize) -> Result<Device, Error> {
        Device::build(Some(threads))
    }

    fn build(threads: Option<usize>) -> Result<Device, Error> {
        let arena = Arena::new().map_err(memory)?;
        let runtime = Runtime::new(arena.clone(), threads);
        Ok(Device {
            arena,
            runtime,
            cache: None,
        })
    }

    /// The device, with the code of modules that are loaded through this handle kept in `cache`. Without this, nothing is kept.
    pub fn with_cache(mut self, cache: Cache) -> Device {
        self.cache = Some(Arc::new(cache));
        self
    }

    /// Room for `count` elements, aligned to 256 bytes; the contents are unspecified.
    pub fn alloc<T: Element>(&self, count: usize) -> Result<Buffer<T>, Error> {
        Buffer::new(self, count)
    }

    /// A buffer with these contents.
    pub fn alloc_from<T: Element>(&self, values: &[T]) -> Result<Buffer<T>, Error> {
        let buffer = self.alloc(values.len())?;
        buffer.write(values)?;
        Ok(buffer)
    }

    /// Bytes in buffers, module variables and the heap of device code.
    pub fn used_bytes(&self) -> u64 {
        self.arena.live_bytes()
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device")
            .field("used_bytes", &self.used_bytes())
            .finish_non_exhaustive()
    }
}

/// A refused request for memory, as the user sees it.
pub(crate) fn memory(err: MemoryError) -> Error {
    match err {
        MemoryError::OutOfMemory { size } => Error::OutOfMemory(format!("{size} bytes asked for")),
        MemoryError::Reserve(_) => Error::OutOfMemory(err.to_string()),
        _ => Error::Usage(err.to_string()),
    }
}
