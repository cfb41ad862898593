//! Variables of a thread that hold something, and the thread's end.
//!
//! The main thread's variables end when `exit` begins, but programs go on to call the driver: from
//! destructors of global objects and from functions that were given to `atexit`. So what the driver
//! keeps for a thread has no destructor of its own ([`ManuallyDrop`]), and a guard ends it with the
//! thread, except with the main thread, whose end is that of the process.
//!
//! The engine's variables have ended by then, so such a late call leaves commands to threads of
//! streams ([`has_begun`]).

use std::cell::RefCell;
use std::mem::ManuallyDrop;

use crate::context;
use crate::stream;

/// What a thread keeps.
pub(crate) type Kept<T> = RefCell<ManuallyDrop<T>>;

/// A variable that keeps something.
pub(crate) const fn kept<T>(value: T) -> Kept<T> {
    RefCell::new(ManuallyDrop::new(value))
}

/// Ends what the thread keeps.
struct Guard;

thread_local! {
    static GUARD: Guard = const { Guard };
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !is_main() {
            context::end_thread();
            stream::end_thread();
        }
    }
}

/// Has what the thread keeps end with it. A thread that is ending already keeps it for good.
pub(crate) fn watch() {
    let _ = GUARD.try_with(|_| ());
}

/// Whether the variables of the calling thread have ended.
pub(crate) fn has_begun() -> bool {
    GUARD.try_with(|_| ()).is_err()
}

#[expect(unsafe_code, reason = "asks the system for numbers")]
fn is_main() -> bool {
    // SAFETY: the call has no condition.
    let process = unsafe { libc::getpid() };
    // SAFETY: likewise.
    let thread = unsafe { libc::gettid() };
    process == thread
}
