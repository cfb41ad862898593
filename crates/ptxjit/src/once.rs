//! A value that is made when it is first wanted, by whoever wants it first, while others wait.
//!
//! Unlike `OnceLock`, an attempt may fail (a time limit passed) without a value, and the next one
//! who wants it tries again; and who waits gives up at a deadline of their own.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// See the module.
pub(crate) struct Once<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

#[derive(Default)]
enum State<T> {
    #[default]
    Empty,
    /// Somebody makes it.
    Busy,
    Made(T),
}

/// A deadline passed while another thread made the value.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct TimedOut;

impl<T> Default for Once<T> {
    fn default() -> Once<T> {
        Once {
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }
}

impl<T: Clone> Once<T> {
    /// The value if there is one; else it is made here or, until the deadline, awaited from the
    /// thread that makes it.
    pub(crate) fn get<E: From<TimedOut>>(
        &self,
        until: Option<Instant>,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let mut state = self.lock();
        loop {
            match &*state {
                State::Made(value) => return Ok(value.clone()),
                State::Empty => break,
                State::Busy => state = self.wait(state, until)?,
            }
        }
        *state = State::Busy;
        drop(state);
        // A panic leaves it empty as well.
        let mut attempt = Attempt {
            once: self,
            made: None,
        };
        let value = make()?;
        attempt.made = Some(value.clone());
        Ok(value)
    }

    fn wait<'a>(
        &'a self,
        state: MutexGuard<'a, State<T>>,
        until: Option<Instant>,
    ) -> Result<MutexGuard<'a, State<T>>, TimedOut> {
        let Some(until) = until else {
            let waited = self.changed.wait(state);
            return Ok(waited.unwrap_or_else(PoisonError::into_inner));
        };
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(TimedOut);
        }
        let waited = self.changed.wait_timeout(state, left);
        Ok(waited.unwrap_or_else(PoisonError::into_inner).0)
    }
}

impl<T> Once<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // The state is replaced as a whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One thread's try at the value; its end is what the others wait for.
struct Attempt<'a, T> {
    once: &'a Once<T>,
    made: Option<T>,
}

impl<T> Drop for Attempt<'_, T> {
    fn drop(&mut self) {
        *self.once.lock() = self.made.take().map_or(State::Empty, State::Made);
        self.once.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn failed_attempts_leave_nothing_behind() {
        let once = Once::<u32>::default();
        assert_eq!(once.get(None, || Err(TimedOut)), Err(TimedOut));
        let panics = || once.get(None, || -> Result<u32, TimedOut> { panic!("a test") });
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        assert_eq!(once.get(None, || Ok::<_, TimedOut>(7)), Ok(7));
        assert_eq!(once.get(None, || Ok::<_, TimedOut>(8)), Ok(7));
    }

    #[test]
    fn a_deadline_ends_the_wait_for_others() {
        let once = &Once::<u32>::default();
        let (begun, has_begun) = mpsc::channel();
        let (go, may_go) = mpsc::channel();
        std::thread::scope(|scope| {
            // The ends of the channels are this thread's alone.
            let slow = scope.spawn(move || {
                once.get(None, || {
                    begun.send(()).unwrap();
                    may_go.recv().unwrap();
                    Ok::<_, TimedOut>(7)
                })
            });
            has_begun.recv().unwrap();
            let now = Some(Instant::now());
            assert_eq!(once.get(now, || Ok(8)), Err(TimedOut));
            let waits = scope.spawn(|| once.get(None, || Ok::<_, TimedOut>(8)));
            go.send(()).unwrap();
            assert_eq!(slow.join().unwrap(), Ok(7));
            assert_eq!(waits.join().unwrap(), Ok(7));
        });
    }
}
