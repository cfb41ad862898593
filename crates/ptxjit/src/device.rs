//! A device: memory for kernels to work on.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use ptxjit_runtime::{Arena, MAX_PARTS, MemoryError, Runtime};

use crate::sanitize::Finding;
use crate::{Buffer, Cache, Element, Error, Shortage, UsageRule};

/// Is told of what sanitizers find; one for all handles of a device.
type Listener = Arc<Mutex<Option<Arc<dyn Fn(&Finding) + Send + Sync>>>>;

/// Memory and the modules loaded into it. Cheap to clone; all clones are the same device.
///
/// Devices share nothing, unless they are [siblings](Device::siblings): a pointer into one means
/// nothing to a kernel on another. Memory stays reserved until the last clone, buffer and module
/// are gone.
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
    listener: Listener,
}

impl Device {
    /// A device with address space reserved, and no memory in use yet.
    pub fn new() -> Result<Device, Error> {
        Device::build(None)
    }

    /// A device whose launches use at most `threads` threads of the host, the launching one among
    /// them.
    pub fn with_threads(threads: usize) -> Result<Device, Error> {
        Device::build(Some(threads))
    }

    /// A device for modules with `.address_size 32`: its memory, 3 GB at most, lies below 4 GB. A
    /// process can have one at a time; where there is one already, this waits ten seconds for its
    /// end.
    pub fn with_32_bit_addresses() -> Result<Device, Error> {
        Device::over(Arena::low(), None)
    }

    /// `count` devices (1 to 64) that can access each other's memory. An address tells its device,
    /// see [`Device::device_of`]. Each uses at most `threads` threads of the host, one per core if
    /// none is given.
    pub fn siblings(count: usize, threads: Option<usize>) -> Result<Vec<Device>, Error> {
        if count == 0 || count > MAX_PARTS as usize {
            return Err(Error::usage(
                UsageRule::Options,
                format!("{count} devices are not within 1 and {MAX_PARTS}"),
            ));
        }
        let arena = Arena::with_parts(count as u32).map_err(memory)?;
        let device = |part| Device {
            arena: arena.clone(),
            runtime: Runtime::new(arena.clone(), part, threads),
            cache: None,
            listener: Listener::default(),
        };
        Ok((0..count as u32).map(device).collect())
    }

    fn build(threads: Option<usize>) -> Result<Device, Error> {
        Device::over(Arena::new(), threads)
    }

    fn over(
        arena: Result<Arc<Arena>, MemoryError>,
        threads: Option<usize>,
    ) -> Result<Device, Error> {
        let arena = arena.map_err(memory)?;
        let runtime = Runtime::new(arena.clone(), 0, threads);
        Ok(Device {
            arena,
            runtime,
            cache: None,
            listener: Listener::default(),
        })
    }

    /// Its place among its [siblings](Device::siblings), from 0.
    pub fn ordinal(&self) -> usize {
        self.part() as usize
    }

    /// The ordinal of the sibling in whose part of the memory an address lies, allocated or not.
    pub fn ordinal_of(&self, addr: u64) -> Option<usize> {
        self.arena.part_of(addr).map(|part| part as usize)
    }

    pub(crate) fn part(&self) -> u32 {
        self.runtime.part()
    }

    /// The device, with a limit on [`Device::used_bytes`]: an allocation that would exceed it fails
    /// with [`Error::OutOfMemory`], and device `malloc` returns null. All handles of the device
    /// have the same limit.
    pub fn with_memory_limit(self, bytes: u64) -> Device {
        self.arena.set_limit(self.part(), bytes);
        self
    }

    /// See [`Device::with_memory_limit`]; none if there is no limit.
    pub fn memory_limit(&self) -> Option<u64> {
        Some(self.arena.limit(self.part())).filter(|&limit| limit != u64::MAX)
    }

    /// The device, with the code of modules that are loaded through this handle kept in `cache`.
    /// Without this, nothing is kept.
    pub fn with_cache(mut self, cache: Cache) -> Device {
        self.cache = Some(Arc::new(cache));
        self
    }

    /// Gets ready for launches with [`crate::Launch::memcheck`]: allocations lie apart from now on,
    /// so that an access beyond the end of one is not in the next. Without this, the first such
    /// launch does it, and what was allocated before may have close neighbours.
    pub fn prepare_checks(&self) -> Result<(), Error> {
        self.arena.prepare_checks().map_err(memory)
    }

    /// Keeps account of which memory is written, for
    /// [`Options::sanitize`](crate::Options::sanitize) to find uses of what never was. What was
    /// allocated before counts as written.
    pub fn track_contents(&self) {
        self.arena.track_contents();
    }

    /// Has `callback` called with each finding of each launch on the device, when the launch is
    /// over: what [`Launch::report`](crate::Launch::report) has then, but for launches that others
    /// make, too. A launch that runs again and finds the same calls it again. It is called on the
    /// thread that runs the launch, and may use the device. All handles of the device have the same
    /// callback, the one that was set last.
    ///
    /// ```
    /// use std::sync::{Arc, Mutex};
    /// use ptxjit::sanitize::Checks;
    /// use ptxjit::{Device, Module};
    ///
    /// let ptx = ".version 7.0\n.target sm_80\n.address_size 64\n\
    ///     .global .u32 word;\n\
    ///     .visible .entry k() {\n\
    ///     .reg .u32 %t; mov.u32 %t, %tid.x; st.global.u32 [word], %t; ret;\n}";
    /// let device = Device::new()?;
    /// let found = Arc::new(Mutex::new(Vec::new()));
    /// let list = found.clone();
    /// device.on_finding(move |finding| list.lock().unwrap().push(finding.kind.name()));
    /// let checks = Checks { race: true, ..Checks::default() };
    /// let kernel = Module::from_source(&device, "k.ptx", ptx)?.kernel("k")?;
    /// kernel.launch().block(2).sanitize(checks).run()?;
    /// assert_eq!(*found.lock().unwrap(), ["race"]);
    /// # Ok::<(), ptxjit::Error>(())
    /// ```
    pub fn on_finding(&self, callback: impl Fn(&Finding) + Send + Sync + 'static) {
        *lock(&self.listener) = Some(Arc::new(callback));
    }

    /// Tells of findings.
    pub(crate) fn tell(&self, findings: &[Finding]) {
        let listener = lock(&self.listener).clone();
        // The lock is not held, as the callback may launch something itself.
        if let Some(listener) = listener {
            findings.iter().for_each(|finding| listener(finding));
        }
    }

    /// Bytes that device `malloc` may hand out in all: `cudaLimitMallocHeapSize`. It may be set at
    /// any time, for this device's handles together.
    pub fn set_heap_limit(&self, bytes: u64) {
        self.runtime.set_heap_limit(bytes);
    }

    /// See [`Device::set_heap_limit`]; 1 GiB if not set.
    pub fn heap_limit(&self) -> u64 {
        self.runtime.heap_limit()
    }

    /// Bytes that each thread of later launches has for recursion and `alloca`, beside its
    /// variables: `cudaLimitStackSize`. More than 16 MiB are as good as 16 MiB.
    pub fn set_stack_limit(&self, bytes: u64) {
        self.runtime.set_stack_bytes(bytes);
    }

    /// See [`Device::set_stack_limit`]; 256 KiB if not set.
    pub fn stack_limit(&self) -> u64 {
        self.runtime.stack_bytes()
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
        self.arena.live_bytes(self.part())
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device")
            .field("used_bytes", &self.used_bytes())
            .finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // What it holds is replaced as a whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A refused request for memory, as the user sees it.
pub(crate) fn memory(err: MemoryError) -> Error {
    match err {
        MemoryError::OutOfMemory { size } => Error::OutOfMemory {
            shortage: Shortage::Device,
            message: format!("{size} bytes asked for"),
        },
        MemoryError::Reserve(_) => Error::OutOfMemory {
            shortage: Shortage::Addresses,
            message: err.to_string(),
        },
        _ => Error::Address(err.to_string()),
    }
}
