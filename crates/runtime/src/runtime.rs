//! The runtime of a device: its workers and what launches share and reuse.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

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

/// The account of device `malloc`.
#[derive(Debug)]
pub(crate) struct DeviceHeap {
    used: AtomicU64,
    limit: AtomicU64,
}

impl DeviceHeap {
    /// Asks for room.
    pub(crate) fn charge(&self, bytes: u64) -> bool {
        let limit = self.limit.load(Ordering::Relaxed);
        let take = |used: u64| used.checked_add(bytes).filter(|&used| used <= limit);
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .is_ok()
    }

    /// Gives room back.
    pub(crate) fn refund(&self, bytes: u64) {
        // Memory of the host freed by a kernel was never charged.
        let give = |used: u64| Some(used.saturating_sub(bytes));
        let _ = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, give);
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

    /// Gives each thread of later launches so many bytes for recursion and `alloca`, at most [`Runtime::MAX_STACK_BYTES`].
    pub fn set_stack_bytes(&self, bytes: u64) {
        let bytes = bytes.min(Runtime::MAX_STACK_BYTES).next_multiple_of(16);
        self.shared.stack_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Bytes that each thread has for recursion and `alloca`.
    pub fn stack_bytes(&self) -> u64 {
        self.shared.stack_bytes.load(Ordering::Relaxed)
    }

    /// A runtime for the device with this part of the arena, with `threads` workers, the launching thread among them; one per
    /// core if none is given.
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
