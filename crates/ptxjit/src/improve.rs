//! Compiling again, without haste, what was compiled in a hurry.
//!
//! Long code is first made with registers allocated in one pass, so that the launch can start. One thread of the process then
//! makes the good code; launches under way take it from their next entry on. A kernel that has gone by the time its turn
//! comes is left out, so a process that launches a kernel once and ends does not pay.

use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use ptxjit_codegen::{CompiledKernel, Haste};

use crate::compile::Variant;
use crate::module::KernelInner;

/// Launches that are over by then do not need better code.
const DELAY: Duration = Duration::from_millis(3);

/// Deeply nested PTX takes some, and memory is only used when touched.
pub(crate) const STACK_SIZE: usize = 64 << 20;

/// A kernel whose code is to be improved.
pub(crate) struct Job {
    kernel: Weak<KernelInner>,
    variant: Variant,
    code: Weak<CompiledKernel>,
    due: Instant,
}

impl Job {
    pub(crate) fn new(
        kernel: &Arc<KernelInner>,
        variant: &Variant,
        code: &Arc<CompiledKernel>,
    ) -> Job {
        Job {
            kernel: Arc::downgrade(kernel),
            variant: variant.clone(),
            code: Arc::downgrade(code),
            due: Instant::now() + DELAY,
        }
    }
}

/// Has it done by the thread for that. Code that is improved already is left alone.
pub(crate) fn later(job: Job) {
    static QUEUE: OnceLock<Option<Sender<Job>>> = OnceLock::new();
    let queue = QUEUE.get_or_init(|| {
        let (sender, jobs) = mpsc::channel::<Job>();
        let work = move || {
            for job in jobs {
                std::thread::sleep(job.due.saturating_duration_since(Instant::now()));
                if let (Some(kernel), Some(code)) = (job.kernel.upgrade(), job.code.upgrade()) {
                    now(&kernel, &job.variant, &code);
                }
            }
        };
        let thread = std::thread::Builder::new().name("ptxjit-compile".to_owned());
        thread
            .stack_size(STACK_SIZE)
            .spawn(work)
            .ok()
            .map(|_| sender)
    });
    if let Some(queue) = queue {
        // The thread goes on as long as the process.
        let _ = queue.send(job);
    }
}

/// Does it here.
#[expect(unsafe_code, reason = "places code that was just made")]
pub(crate) fn now(kernel: &KernelInner, variant: &Variant, code: &CompiledKernel) {
    if !code.is_quick() {
        return;
    }
    // What was compiled once compiles again; if not, there is code that works.
    let Ok(object) = kernel.variants.object(kernel, variant, Haste::None) else {
        return;
    };
    if let Some(stored) = &kernel.stored {
        stored.put_code(variant, &object);
    }
    // SAFETY: this process has just made the object.
    if let Ok(better) = unsafe { object.place() } {
        code.improve(better);
    }
}
