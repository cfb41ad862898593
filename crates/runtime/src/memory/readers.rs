//! Readers of memory that hold no lock on the heaps.
//!
//! Each reader takes one of several locks, so that workers on different processors share no line of
//! the cache. A thread that frees memory counts the block as freed, and then waits for all readers
//! that began before.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// Enough for few workers to share one; freeing takes all.
const N_LOCKS: usize = 8;

/// A lock with lines of the cache of its own, and of the one that processors fetch with it.
#[derive(Default, Debug)]
#[repr(align(128))]
struct Padded(RwLock<()>);

/// See the module.
#[derive(Default, Debug)]
pub(super) struct Readers {
    locks: [Padded; N_LOCKS],
    /// Set by the first reader.
    are_there: AtomicBool,
}

impl Readers {
    /// Until the guard is dropped, threads that free memory wait. What was freed before is counted.
    pub(super) fn read(&self) -> RwLockReadGuard<'_, ()> {
        if !self.are_there.load(Ordering::Relaxed) {
            self.are_there.store(true, Ordering::SeqCst);
        }
        let lock = &self.locks[number() % N_LOCKS].0;
        lock.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for all readers that began before.
    pub(super) fn wait(&self) {
        if !self.are_there.load(Ordering::SeqCst) {
            return;
        }
        for Padded(lock) in &self.locks {
            drop(lock.write().unwrap_or_else(PoisonError::into_inner));
        }
    }
}

/// A number of this thread.
fn number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: Cell<Option<usize>> = const { Cell::new(None) };
    }
    NUMBER.get().unwrap_or_else(|| {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        NUMBER.set(Some(number));
        number
    })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{channel, sync_channel};

    use super::Readers;

    #[test]
    fn waiting_ends_after_all_readers() {
        let readers = Readers::default();
        std::thread::scope(|scope| {
            let (is_reading, wait_for_reader) = channel();
            let (let_go, end) = channel::<()>();
            let (said, heard) = sync_channel(2);
            let of_reader = said.clone();
            let readers = &readers;
            scope.spawn(move || {
                let guard = readers.read();
                is_reading.send(()).unwrap();
                end.recv().unwrap();
                of_reader.send("read").unwrap();
                drop(guard);
            });
            wait_for_reader.recv().unwrap();
            scope.spawn(move || {
                readers.wait();
                said.send("freed").unwrap();
            });
            assert!(heard.try_recv().is_err(), "a reader is left");
            let_go.send(()).unwrap();
            assert_eq!([heard.recv(), heard.recv()], [Ok("read"), Ok("freed")]);
        });
        // No reader is left.
        readers.wait();
    }
}
