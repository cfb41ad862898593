//! The dispatcher: a thread of the process that wakes streams on which no thread waits.
//!
//! Submitting a command must not cost a system call. So a stream that gets its first command is put
//! on a list, and the dispatcher, which looks at the list every [`PERIOD`], has the stream's own
//! thread run what it finds waiting. A stream leaves the list after [`N_IDLE`] looks at which there
//! was nothing to do; with an empty list the dispatcher sleeps.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::Stream;

/// Time between two looks. A launch that no thread waits for starts that late at most.
const PERIOD: Duration = Duration::from_micros(40);

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
    loop {
        if list.streams.is_empty() {
            list.is_asleep = true;
            WAKE.wait(&mut list);
            list.is_asleep = false;
        }
        drop(list);
        std::thread::sleep(PERIOD);
        list = LIST.lock();
        list.streams.retain_mut(look);
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
