//! Time limits and cancellation: one thread per runtime that watches the launches which have
//! either.
//!
//! Starting a watched launch costs a lock, and a wake-up only if the thread would otherwise sleep
//! too long; a launch with the same limit as the one before never does.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::LaunchError;
use crate::grid::{Grid, SIGNAL_PERIOD};
use crate::launch::CancelToken;

/// How often tokens are looked at.
const LOOK_AT_TOKENS: Duration = Duration::from_millis(20);

/// A launch under watch.
struct Watched {
    grid: Arc<Grid>,
    /// When it fails, and the limit that this follows from.
    deadline: Option<(Instant, Duration)>,
    cancel: Option<CancelToken>,
}

#[derive(Default)]
struct State {
    launches: Vec<Watched>,
    /// When the thread wakes up by itself; none if it sleeps until told, or is not running.
    wakes: Option<Instant>,
    running: bool,
    closed: bool,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Watchdog {
    state: Mutex<State>,
    changed: Condvar,
}

impl Watchdog {
    /// Watches a launch until [`Watchdog::release`].
    pub(crate) fn watch(
        self: &Arc<Watchdog>,
        grid: &Arc<Grid>,
        timeout: Option<Duration>,
        cancel: Option<&CancelToken>,
    ) -> std::io::Result<()> {
        let now = Instant::now();
        // A limit beyond the end of the clock is none.
        let deadline = timeout.and_then(|timeout| Some((now.checked_add(timeout)?, timeout)));
        let watched = Watched {
            grid: grid.clone(),
            deadline,
            cancel: cancel.cloned(),
        };
        let mut state = self.lock();
        if !state.running {
            let watchdog = self.clone();
            std::thread::Builder::new()
                .name("ptxjit-watchdog".into())
                .spawn(move || watchdog.run())?;
            state.running = true;
        }
        let wanted = watched.wakes(now);
        state.launches.push(watched);
        if wanted.is_some_and(|wanted| state.wakes.is_none_or(|wakes| wanted < wakes)) {
            self.changed.notify_one();
        }
        Ok(())
    }

    /// The launch has ended.
    pub(crate) fn release(&self, grid: &Arc<Grid>) {
        let mut state = self.lock();
        if let Some(idx) = state
            .launches
            .iter()
            .position(|watched| Arc::ptr_eq(&watched.grid, grid))
        {
            state.launches.swap_remove(idx);
        }
    }

    /// Ends the thread.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_one();
    }

    fn run(&self) {
        let mut state = self.lock();
        while !state.closed {
            let now = Instant::now();
            state.launches.iter().for_each(|watched| watched.look(now));
            state.wakes = state
                .launches
                .iter()
                .filter_map(|watched| watched.wakes(now))
                .min();
            state = match state.wakes {
                None => self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(wakes) => {
                    let wait = wakes.saturating_duration_since(now);
                    self.changed
                        .wait_timeout(state, wait)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The list is consistent between any two statements that could panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watched {
    /// Stops the launch if it is time; reminds its workers if it is stopped.
    fn look(&self, now: Instant) {
        let kernel = || self.grid.name.to_string();
        if self.grid.is_stopped() {
            self.grid.signal_workers();
        } else if self.cancel.as_ref().is_some_and(CancelToken::is_cancelled) {
            self.grid.fail(LaunchError::Cancelled { kernel: kernel() });
            self.grid.signal_workers();
        } else if let Some((deadline, limit)) = self.deadline
            && deadline <= now
        {
            self.grid.fail(LaunchError::Timeout {
                kernel: kernel(),
                seconds: limit.as_secs_f64(),
            });
            self.grid.signal_workers();
        }
    }

    /// When to look again.
    fn wakes(&self, now: Instant) -> Option<Instant> {
        if self.grid.is_stopped() {
            return Some(now + SIGNAL_PERIOD);
        }
        let token = self.cancel.as_ref().map(|_| now + LOOK_AT_TOKENS);
        [token, self.deadline.map(|(deadline, _)| deadline)]
            .into_iter()
            .flatten()
            .min()
    }
}
