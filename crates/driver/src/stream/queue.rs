//! How the commands of a stream are run.
//!
//! Commands of a stream run one at a time, in order. *Who waits, works*: a thread that waits for a
//! command runs the commands before it, and the command itself, unless another thread is at it
//! already. Handing work to another thread costs more than a small kernel. The stream's own thread
//! comes in when no thread waits ([`super::dispatch`]), and for functions of the host, which never
//! run on a thread of the program: it may hold a lock that the function wants.
//!
//! ```text
//! command: queued ──► taken (is_running) ──► waits for commands of other streams
//!            ──► runs ──► n_completed + 1
//! ```
//!
//! `n_completed` only grows, and is stored (release) after a command has run; a thread that loads
//! it (acquire) sees all that the commands up to that one have written.

use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use smallvec::SmallVec;

use super::{Stream, dispatch};
use crate::command::Command;
use crate::error::Failure;
use crate::thread_end;
use crate::types::CUresult;

/// Commands that a command waits for.
pub(crate) type Deps = SmallVec<[Mark; 2]>;

/// A stream's own thread ends after this time without work.
const IDLE: Duration = Duration::from_secs(10);

/// A thread that waits runs commands of streams that wait for each other down to this depth; below,
/// their own threads do, so that a chain of any length fits the stack.
const MAX_DEPTH: u32 = 8;

/// Looks at a counter before a waiting thread goes to sleep: some microseconds, as waking up takes
/// longer.
const N_SPINS: u32 = 200;

/// The commands that have not run yet.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    n_submitted: AtomicU64,
    n_completed: AtomicU64,
    /// A command has run.
    done: Condvar,
    /// There is work for the stream's own thread.
    work: Condvar,
    /// Whether the dispatcher looks after the stream.
    pub(super) is_listed: AtomicBool,
}

#[derive(Default)]
struct State {
    items: VecDeque<Item>,
    /// A thread runs the command before the first of `items`.
    is_running: bool,
    /// Threads that wait for `done`.
    n_waiting: u32,
    has_thread: bool,
    /// The stream's own thread is to run what there is.
    is_kicked: bool,
    /// Nothing will be submitted any more.
    is_closed: bool,
}

struct Item {
    deps: Deps,
    command: Command,
}

/// A command of a stream: the `ticket`-th, counted from 1.
#[derive(Clone)]
pub(crate) struct Mark {
    pub(crate) stream: Arc<Stream>,
    ticket: u64,
}

impl Mark {
    /// Whether the command has run.
    pub(crate) fn is_done(&self) -> bool {
        self.stream.queue.n_completed.load(Ordering::Acquire) >= self.ticket
    }

    /// Waits until the command has run.
    pub(crate) fn wait(&self) {
        self.stream.wait_for(self.ticket);
    }
}

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

impl Queue {
    /// Ends the stream's own thread once all has run.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        state.is_kicked = true;
        self.work.notify_all();
    }
}

impl Stream {
    /// The last command submitted, if it has not run.
    pub(crate) fn tail(self: &Arc<Stream>) -> Option<Mark> {
        let ticket = self.queue.n_submitted.load(Ordering::Acquire);
        let mark = || Mark {
            stream: self.clone(),
            ticket,
        };
        (self.queue.n_completed.load(Ordering::Acquire) < ticket).then(mark)
    }

    /// Whether a command has not run yet.
    pub(super) fn has_work(&self) -> bool {
        let n_submitted = self.queue.n_submitted.load(Ordering::Acquire);
        self.queue.n_completed.load(Ordering::Acquire) < n_submitted
    }

    /// Adds a command.
    pub(super) fn push(self: &Arc<Stream>, deps: Deps, command: Command) -> Mark {
        let ticket = {
            let mut state = self.queue.state.lock();
            state.items.push_back(Item { deps, command });
            self.queue.n_submitted.fetch_add(1, Ordering::AcqRel) + 1
        };
        dispatch::watch(self);
        Mark {
            stream: self.clone(),
            ticket,
        }
    }

    /// Adds commands, with none of another thread between them.
    pub(super) fn push_all(self: &Arc<Stream>, commands: Vec<(Deps, Command)>) -> Vec<Mark> {
        let count = commands.len() as u64;
        let first = {
            let mut state = self.queue.state.lock();
            let items = commands.into_iter();
            state
                .items
                .extend(items.map(|(deps, command)| Item { deps, command }));
            self.queue.n_submitted.fetch_add(count, Ordering::AcqRel) + 1
        };
        dispatch::watch(self);
        let mark = |ticket| Mark {
            stream: self.clone(),
            ticket,
        };
        (first..first + count).map(mark).collect()
    }

    /// The mark of a command that there is nothing to wait for, as it was captured.
    pub(super) fn no_mark(self: &Arc<Stream>) -> Mark {
        Mark {
            stream: self.clone(),
            ticket: 0,
        }
    }

    fn wait_for(self: &Arc<Stream>, ticket: u64) {
        let queue = &self.queue;
        let has_come = || queue.n_completed.load(Ordering::Acquire) >= ticket;
        while !has_come() {
            let mut state = queue.state.lock();
            if has_come() {
                return;
            }
            let may_help =
                DEPTH.get() < MAX_DEPTH && !state.needs_own_thread() && !thread_end::has_begun();
            if !state.is_running && (may_help || !self.kick_locked(&mut state)) {
                self.run_next(state);
                continue;
            }
            drop(state);
            for _ in 0..N_SPINS {
                if has_come() {
                    return;
                }
                std::hint::spin_loop();
            }
            let mut state = queue.state.lock();
            // Another thread may have left a command that this one can run.
            if !has_come() && (state.is_running || state.is_kicked) {
                state.n_waiting += 1;
                queue.done.wait(&mut state);
                state.n_waiting -= 1;
            }
        }
    }

    /// Runs the first command. The caller has seen that there is one, and that none runs.
    fn run_next(self: &Arc<Stream>, mut state: parking_lot::MutexGuard<'_, State>) {
        let Some(item) = state.items.pop_front() else {
            return;
        };
        state.is_running = true;
        drop(state);
        DEPTH.set(DEPTH.get() + 1);
        for dep in &item.deps {
            dep.wait();
        }
        let result = catch_unwind(AssertUnwindSafe(|| item.command.run(self)));
        DEPTH.set(DEPTH.get() - 1);
        let failure = match result {
            Ok(result) => result.err(),
            Err(_) => Some(Failure::sticky(
                CUresult::UNKNOWN,
                "a command panicked: this is a bug in ptxjit",
            )),
        };
        if let Some(failure) = failure {
            self.health.poison(&failure);
        }
        let mut state = self.queue.state.lock();
        state.is_running = false;
        self.queue.n_completed.fetch_add(1, Ordering::AcqRel);
        if state.n_waiting != 0 {
            self.queue.done.notify_all();
        }
    }

    /// Has the stream's own thread run what there is.
    pub(crate) fn kick(self: &Arc<Stream>) {
        let mut state = self.queue.state.lock();
        if !state.items.is_empty() && !state.is_running {
            self.kick_locked(&mut state);
        }
    }

    /// Likewise; false if there can be no such thread.
    fn kick_locked(self: &Arc<Stream>, state: &mut State) -> bool {
        state.is_kicked = true;
        if state.has_thread {
            self.queue.work.notify_one();
            return true;
        }
        let stream = self.clone();
        let thread = std::thread::Builder::new().name("ptxjit-stream".to_owned());
        state.has_thread = thread.spawn(move || stream.work()).is_ok();
        state.is_kicked = state.has_thread;
        state.has_thread
    }

    /// What the stream's own thread does.
    fn work(self: Arc<Stream>) {
        let queue = &self.queue;
        let mut state = queue.state.lock();
        loop {
            if state.is_kicked && !state.items.is_empty() && !state.is_running {
                self.run_next(state);
                state = queue.state.lock();
                continue;
            }
            if state.items.is_empty() {
                state.is_kicked = false;
                if state.is_closed {
                    state.has_thread = false;
                    return;
                }
            }
            // While another thread runs commands, there is nothing to do but to wait for the next
            // kick.
            if state.is_running {
                state.is_kicked = false;
            }
            let timeout = queue.work.wait_for(&mut state, IDLE).timed_out();
            if timeout && state.items.is_empty() {
                state.has_thread = false;
                return;
            }
        }
    }

    /// Whether commands wait and none runs, so that the dispatcher should act.
    pub(super) fn is_stalled(&self) -> bool {
        let state = self.queue.state.lock();
        !state.items.is_empty() && !state.is_running
    }

    /// Whether nothing is left to do.
    pub(super) fn is_idle(&self) -> bool {
        let state = self.queue.state.lock();
        state.items.is_empty() && !state.is_running
    }

    /// Whether the dispatcher looks after the stream.
    pub(super) fn is_listed(&self) -> &AtomicBool {
        &self.queue.is_listed
    }
}

impl State {
    fn needs_own_thread(&self) -> bool {
        self.items
            .front()
            .is_some_and(|item| item.command.is_for_own_thread())
    }
}
