//! Compiling again, without baseline, what was compiled in a hurry.
//!
//! Long code is first made with registers allocated in one pass, so that the launch can start. One
//! thread of the process then makes the good code; launches under way take it from their next entry
//! on. A kernel that has gone by the time its turn comes is left out, so a process that launches a
//! kernel once and ends does not pay.

use std::any::Any;
use std::io::Write;
use std::panic::AssertUnwindSafe;
use std::sync::mpsc::{self, SendError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ptxjit_abi::CompiledKernel;
use ptxjit_codegen::BaselineTier;

use crate::compile::{Failed, Limit, Variant};
use crate::module::KernelInner;

/// Launches that are over by then do not need better code.
const DELAY: Duration = Duration::from_millis(3);

/// Deeply nested PTX takes some, and memory is only used when touched.
pub(crate) const STACK_SIZE: usize = 64 << 20;

/// Code that is to be improved.
pub(crate) struct Job {
    /// The kernel's name.
    name: String,
    work: Box<dyn FnOnce() -> Result<(), Failed> + Send>,
    due: Instant,
}

impl Job {
    /// `work` does nothing if the code has gone.
    pub(crate) fn new(
        name: &str,
        work: impl FnOnce() -> Result<(), Failed> + Send + 'static,
    ) -> Job {
        Job {
            name: name.to_owned(),
            work: Box::new(work),
            due: Instant::now() + DELAY,
        }
    }

    /// Improves a variant of a kernel.
    pub(crate) fn of_variant(
        kernel: &Arc<KernelInner>,
        variant: &Variant,
        code: &Arc<CompiledKernel>,
    ) -> Job {
        let name = &kernel.name;
        let (kernel, code) = (Arc::downgrade(kernel), Arc::downgrade(code));
        let variant = variant.clone();
        Job::new(name, move || match (kernel.upgrade(), code.upgrade()) {
            (Some(kernel), Some(code)) => now(&kernel, &variant, &code, Limit::NONE),
            (None, _) | (_, None) => Ok(()),
        })
    }
}

/// Has it done by the thread for that. Code that is improved already is left alone.
pub(crate) fn later(job: Job) {
    static QUEUE: Mutex<Option<Sender<Job>>> = Mutex::new(None);
    // The sender is replaced as a whole.
    let mut queue = QUEUE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Err(why) = enqueue(&mut queue, job, do_job) {
        report(&format!("no thread to improve code: {why}"));
    }
}

/// Sends a job to the thread behind `queue`, which is started if there is none.
fn enqueue<J: Send + 'static>(
    queue: &mut Option<Sender<J>>,
    job: J,
    work: fn(J),
) -> std::io::Result<()> {
    let job = match queue {
        Some(queue) => match queue.send(job) {
            Ok(()) => return Ok(()),
            Err(SendError(job)) => job,
        },
        None => job,
    };
    let (sender, jobs) = mpsc::channel();
    let thread = std::thread::Builder::new().name("ptxjit-compile".to_owned());
    thread
        .stack_size(STACK_SIZE)
        .spawn(move || jobs.into_iter().for_each(|job| guarded(job, work)))?;
    // The thread has just been started and waits for jobs.
    let _ = sender.send(job);
    *queue = Some(sender);
    Ok(())
}

/// Does one job. A panic is a bug of ours, which is told and ends this job only: the code that was
/// made in a hurry still works.
fn guarded<J>(job: J, work: fn(J)) {
    let done = std::panic::catch_unwind(AssertUnwindSafe(|| work(job)));
    if let Err(panic) = done {
        report(&format!("internal error: {}", panic_text(&*panic)));
    }
}

/// What a panic says.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a message")
}

/// Nothing waits for the result of a job, so what goes wrong can only be told here.
fn report(why: &str) {
    let text = format!("ptxjit: code is not improved: {why}\n");
    // Without standard error there is nowhere to tell it.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

fn do_job(job: Job) {
    std::thread::sleep(job.due.saturating_duration_since(Instant::now()));
    if let Err(why) = (job.work)() {
        report(&format!("kernel `{}`: {why}", job.name));
    }
}

/// Does it here.
#[expect(unsafe_code, reason = "places code that was just made")]
pub(crate) fn now(
    kernel: &KernelInner,
    variant: &Variant,
    code: &CompiledKernel,
    limit: Limit,
) -> Result<(), Failed> {
    if !code.is_quick() {
        return Ok(());
    }
    let object = kernel
        .variants
        .object(kernel, variant, BaselineTier::Never, limit)?;
    if let Some(stored) = &kernel.stored {
        stored.put_code(variant, &object);
    }
    // SAFETY: this process has just made the object.
    code.improve(unsafe { ptxjit_codegen::place(object) }?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A job that panics if no receiver waits for the news that it was done.
    fn tell(job: Option<Sender<u32>>) {
        job.expect("a sender").send(7).unwrap();
    }

    #[test]
    fn a_panic_ends_one_job_only() {
        let mut queue = None;
        let (sender, results) = mpsc::channel();
        for job in [None, Some(sender.clone()), None, Some(sender)] {
            enqueue(&mut queue, job, tell).unwrap();
        }
        assert_eq!(results.iter().take(2).collect::<Vec<_>>(), [7, 7]);
    }

    #[test]
    fn a_thread_that_has_gone_is_replaced() {
        let (lost, jobs) = mpsc::channel();
        drop(jobs);
        let mut queue = Some(lost);
        let (sender, results) = mpsc::channel();
        enqueue(&mut queue, Some(sender), tell).unwrap();
        assert_eq!(results.recv(), Ok(7));
    }
}
