//! The runtime of a device: its workers and what launches share and reuse.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use ptxjit_device::texture::Registry;
use ptxjit_ir::MAX_LOCAL_BYTES;

use crate::error::LaunchError;
use crate::memory::{Arena, Window};
use crate::sched::cta::Cta;
use crate::watchdog::Watchdog;

/// Largest parameter block of a kernel.
pub(crate) const MAX_PARAM_BYTES: u64 = 32764;

/// Parameter windows have room for more, so that all are alike.
const PARAM_CAPACITY: u64 = 36 << 10;

/// CTA contexts kept for later launches, per worker.
const SPARE_CTAS: usize = 4;

/// Runs kernels on one arena. Cheap to clone; launches from several threads may overlap.
#[derive(Clone)]
pub struct Runtime {
    pub(crate) shared: Arc<Shared>,
}

/// What launches share.
pub(crate) struct Shared {
    pub(crate) arena: Arc<Arena>,
    /// The device's part of the arena.
    pub(crate) part: u32,
    /// Workers beside the launching thread, started for the first launch that has work for them.
    pool: OnceLock<rayon::ThreadPool>,
    pub(crate) n_workers: u32,
    /// Textures, samplers and surfaces.
    pub(crate) textures: Registry,
    /// Bytes that device `malloc` has handed out, and may.
    pub(crate) device_heap: DeviceHeap,
    /// Bytes of dynamic stack that a thread of a kernel has.
    stack_bytes: AtomicU64,
    #[expect(
        clippy::vec_box,
        reason = "contexts are large and move between lists all the time"
    )]
    ctas: Mutex<Vec<Box<Cta>>>,
    params: Mutex<Vec<Window>>,
    pub(crate) watchdog: Arc<Watchdog>,
    grid_ids: AtomicU64,
}

/// Alignment of what device `malloc` returns.
const MALLOC_ALIGN: u64 = 16;

/// The account of device `malloc`.
#[derive(Debug)]
pub(crate) struct DeviceHeap {
    used: AtomicU64,
    limit: AtomicU64,
    /// Addresses of what it has handed out: nothing else can be given back to it.
    blocks: Mutex<HashSet<u64>>,
}

impl DeviceHeap {
    /// Asks for room.
    fn charge(&self, bytes: u64) -> bool {
        let limit = self.limit.load(Ordering::Relaxed);
        let take = |used: u64| used.checked_add(bytes).filter(|&used| used <= limit);
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .is_ok()
    }

    /// Gives room back.
    fn refund(&self, bytes: u64) {
        let give = |used: u64| Some(used.saturating_sub(bytes));
        let _ = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, give);
    }

    fn blocks(&self) -> MutexGuard<'_, HashSet<u64>> {
        // Between any two statements that could panic the set is whole.
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Runtime {
    /// Bytes that device `malloc` may hand out in all, unless said otherwise.
    pub const DEVICE_HEAP_BYTES: u64 = 1 << 30;

    /// Bytes that a thread of a kernel has for recursion and `alloca`, unless said otherwise.
    pub const STACK_BYTES: u64 = MAX_LOCAL_BYTES;

    /// What [`Runtime::set_stack_bytes`] allows: all the local memory that a thread can have.
    pub const MAX_STACK_BYTES: u64 = MAX_LOCAL_BYTES;

    /// Textures, samplers and surfaces that kernels of this device can use.
    pub fn textures(&self) -> &Registry {
        &self.shared.textures
    }

    /// Lets device `malloc` of later calls hand out so many bytes in all.
    pub fn set_heap_limit(&self, bytes: u64) {
        self.shared
            .device_heap
            .limit
            .store(bytes, Ordering::Relaxed);
    }

    /// Bytes that device `malloc` may hand out in all.
    pub fn heap_limit(&self) -> u64 {
        self.shared.device_heap.limit.load(Ordering::Relaxed)
    }

    /// Gives each thread of later launches so many bytes for recursion and `alloca`, at most
    /// [`Runtime::MAX_STACK_BYTES`].
    pub fn set_stack_bytes(&self, bytes: u64) {
        let bytes = bytes.min(Runtime::MAX_STACK_BYTES).next_multiple_of(16);
        self.shared.stack_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Bytes that each thread has for recursion and `alloca`.
    pub fn stack_bytes(&self) -> u64 {
        self.shared.stack_bytes.load(Ordering::Relaxed)
    }

    /// A runtime for the device with this part of the arena, with `threads` workers, the launching
    /// thread among them; one per core if none is given.
    pub fn new(arena: Arc<Arena>, part: u32, threads: Option<usize>) -> Runtime {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let n_workers = threads.unwrap_or_else(cores).clamp(1, 1024);
        let shared = Shared {
            arena,
            part,
            pool: OnceLock::new(),
            textures: Registry::default(),
            n_workers: n_workers as u32,
            device_heap: DeviceHeap {
                used: AtomicU64::new(0),
                limit: AtomicU64::new(Runtime::DEVICE_HEAP_BYTES),
                blocks: Mutex::default(),
            },
            stack_bytes: AtomicU64::new(Runtime::STACK_BYTES),
            ctas: Mutex::default(),
            params: Mutex::default(),
            watchdog: Arc::default(),
            grid_ids: AtomicU64::new(1),
        };
        Runtime {
            shared: Arc::new(shared),
        }
    }

    /// The device's memory.
    pub fn arena(&self) -> &Arc<Arena> {
        &self.shared.arena
    }

    /// `malloc` of a kernel: 0 if there is no room.
    pub fn malloc(&self, size: u64) -> u64 {
        self.shared.malloc(size)
    }

    /// `free` of a kernel, with the reason if that is refused.
    pub fn free(&self, addr: u64) -> Result<(), String> {
        self.shared.free(addr)
    }

    /// The device's part of the arena.
    pub fn part(&self) -> u32 {
        self.shared.part
    }

    /// Workers that a launch may use.
    pub fn n_workers(&self) -> usize {
        self.shared.n_workers as usize
    }
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runtime")
            .field("n_workers", &self.n_workers())
            .finish_non_exhaustive()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.watchdog.close();
    }
}

impl Shared {
    /// `malloc` of a kernel: 0 if there is no room.
    pub(crate) fn malloc(&self, size: u64) -> u64 {
        let heap = &self.device_heap;
        if size == 0 || !heap.charge(size) {
            return 0;
        }
        match self.arena.alloc_aligned(self.part, size, MALLOC_ALIGN) {
            Ok(addr) => {
                heap.blocks().insert(addr);
                addr
            }
            Err(_) => {
                heap.refund(size);
                0
            }
        }
    }

    /// `free` of a kernel. Memory that the host allocated is none of its business, as on a GPU.
    pub(crate) fn free(&self, addr: u64) -> Result<(), String> {
        let size = self.arena.allocation_size(addr);
        if !self.device_heap.blocks().remove(&addr) && size.is_some() {
            let why = "memory of the host, which `free` in a kernel does not take";
            return Err(format!("{addr:#x} is {why}"));
        }
        self.arena.free(addr).map_err(|err| err.to_string())?;
        self.device_heap.refund(size.unwrap_or(0));
        Ok(())
    }

    /// The workers beside the launching thread.
    pub(crate) fn pool(&self) -> Result<&rayon::ThreadPool, LaunchError> {
        if let Some(pool) = self.pool.get() {
            return Ok(pool);
        }
        let builder = rayon::ThreadPoolBuilder::new()
            .num_threads((self.n_workers as usize - 1).max(1))
            .thread_name(|idx| format!("ptxjit-{idx}"));
        let pool = builder
            .build()
            .map_err(|err| LaunchError::System(err.to_string()))?;
        // If two launches came at once, one of the pools goes away again.
        Ok(self.pool.get_or_init(|| pool))
    }

    /// See [`Runtime::stack_bytes`].
    pub(crate) fn stack_bytes(&self) -> u64 {
        self.stack_bytes.load(Ordering::Relaxed)
    }

    /// A number for a launch.
    pub(crate) fn next_grid_id(&self) -> u64 {
        self.grid_ids.fetch_add(1, Ordering::Relaxed)
    }

    /// A CTA context, new or used before.
    pub(crate) fn take_cta(&self) -> Box<Cta> {
        lock(&self.ctas)
            .pop()
            .unwrap_or_else(|| Box::new(Cta::new()))
    }

    /// Keeps a context for later.
    pub(crate) fn give_cta(&self, mut cta: Box<Cta>) {
        cta.trim();
        let mut ctas = lock(&self.ctas);
        if ctas.len() < self.n_workers as usize * SPARE_CTAS {
            ctas.push(cta);
        }
    }

    /// A window that holds this parameter block.
    pub(crate) fn take_params(&self, bytes: &[u8]) -> std::io::Result<Window> {
        let mut window = match lock(&self.params).pop() {
            Some(window) => window,
            None => Window::new(&self.arena, PARAM_CAPACITY)?,
        };
        let len = (bytes.len() as u64).max(1);
        if window.len() < len {
            window.set_len(len)?;
        }
        window.write(0, bytes)?;
        Ok(window)
    }

    /// Keeps a parameter window for later.
    pub(crate) fn give_params(&self, window: Window) {
        lock(&self.params).push(window);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // A stack of spare things is consistent whatever panicked.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
