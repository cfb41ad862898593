//! The dispatcher: a thread of the process that wakes streams on which no thread waits.
//!
//! Submitting a command must not cost a system call. So a stream that gets its first command is put
//! on a list, and the dispatcher, which looks at the list every [`PERIOD`], has the stream's own
//! thread run what it finds waiting. A stream leaves the list after [`N_IDLE`] looks at which there
//! was nothing to do; with an empty list the dispatcher sleeps. While every listed stream runs
//! something, looks become as rare as that has taken long: a kernel needs all processors.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::Stream;

/// Time between two looks. A launch that no thread waits for starts that late at most.
const PERIOD: Duration = Duration::from_micros(40);

/// The longest time between two looks, while all streams run something.
const LONGEST: Duration = Duration::from_millis(1);

/// How much longer than the time to the next look all streams have run something: what is submitted
/// just after a kernel has ended starts later by this part of the kernel's time at most.
const PATIENCE: u32 = 32;

/// Looks without work after which a stream leaves the list: some ten milliseconds.
const N_IDLE: u32 = 200;

struct Watched {
    stream: Arc<Stream>,
    n_idle: u32,
}

struct List {
    streams: Vec<Watched>,
    has_thread: bool,
    is_asleep: bool,
}

static LIST: Mutex<List> = Mutex::new(List {
    streams: Vec::new(),
    has_thread: false,
    is_asleep: false,
});

static WAKE: Condvar = Condvar::new();

/// Sees to it that the commands of a stream run even if no thread waits for them.
pub(super) fn watch(stream: &Arc<Stream>) {
    // Relaxed is enough for the fast path: the flag is cleared under the stream's and the list's
    // lock, after which the dispatcher looks once more (see `look`).
    if stream.is_listed().load(Ordering::SeqCst) || stream.is_listed().swap(true, Ordering::SeqCst)
    {
        return;
    }
    let mut list = LIST.lock();
    list.streams.push(Watched {
        stream: stream.clone(),
        n_idle: 0,
    });
    if !list.has_thread {
        let thread = std::thread::Builder::new().name("ptxjit-dispatch".to_owned());
        list.has_thread = thread.spawn(run).is_ok();
    } else if list.is_asleep {
        WAKE.notify_one();
    }
}

fn run() {
    let mut list = LIST.lock();
    // Since when every look has found all streams running something.
    let mut busy_since: Option<Instant> = None;
    loop {
        let pause = busy_since.map_or(PERIOD, |since| pause(since.elapsed()));
        if list.streams.is_empty() {
            list.is_asleep = true;
            WAKE.wait(&mut list);
            list.is_asleep = false;
        } else if pause > PERIOD {
            // A stream that is listed meanwhile ends this.
            list.is_asleep = true;
            WAKE.wait_for(&mut list, pause - PERIOD);
            list.is_asleep = false;
        }
        drop(list);
        std::thread::sleep(PERIOD);
        list = LIST.lock();
        let is_busy = !list.streams.is_empty() && list.streams.iter().all(Watched::is_busy);
        busy_since = is_busy.then(|| busy_since.unwrap_or_else(Instant::now));
        list.streams.retain_mut(look);
    }
}

/// The time to the next look if all streams have run something for so long.
fn pause(busy: Duration) -> Duration {
    (busy / PATIENCE).clamp(PERIOD, LONGEST)
}

impl Watched {
    fn is_busy(&self) -> bool {
        !self.stream.is_stalled() && !self.stream.is_idle()
    }
}

/// Looks at a stream; whether it stays on the list.
fn look(watched: &mut Watched) -> bool {
    let stream = &watched.stream;
    if stream.is_stalled() {
        stream.kick();
    }
    watched.n_idle = match stream.is_idle() {
        true => watched.n_idle + 1,
        false => 0,
    };
    if watched.n_idle < N_IDLE {
        return true;
    }
    stream.is_listed().store(false, Ordering::SeqCst);
    // A command that was submitted before the flag was cleared found the stream listed.
    let is_needed = !stream.is_idle() && !stream.is_listed().swap(true, Ordering::SeqCst);
    if is_needed {
        watched.n_idle = 0;
    }
    is_needed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_become_rare_while_kernels_run() {
        let us = Duration::from_micros;
        assert_eq!(pause(us(0)), us(40));
        assert_eq!(pause(us(1280)), us(40));
        assert_eq!(pause(us(2560)), us(80));
        assert_eq!(pause(us(10_000_000)), us(1000));
    }
}
