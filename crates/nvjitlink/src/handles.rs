//! Handles: numbers, never pointers, so that one that was destroyed or is garbage is an error and
//! nothing worse.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::linker::Linker;

#[derive(Default)]
struct Table {
    last: u64,
    linkers: HashMap<u64, Arc<Mutex<Linker>>>,
}

static TABLE: Mutex<Option<Table>> = Mutex::new(None);

/// Numbers below are what programs have in variables that they forgot to set.
const FIRST: u64 = 16;

/// The maps and linkers are consistent between any two statements, so a panic elsewhere does no
/// harm.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives a linker a handle; no handle is given twice.
pub(crate) fn insert(linker: Linker) -> u64 {
    let mut table = lock(&TABLE);
    let table = table.get_or_insert_default();
    table.last = table.last.max(FIRST) + 1;
    let handle = table.last;
    table.linkers.insert(handle, Arc::new(Mutex::new(linker)));
    handle
}

/// Calls `use_it` with a handle's linker; `None` if there is no such handle.
pub(crate) fn with<R>(handle: u64, use_it: impl FnOnce(&mut Linker) -> R) -> Option<R> {
    let linker = lock(&TABLE).as_ref()?.linkers.get(&handle)?.clone();
    // Not under the table's lock: linking takes its time.
    let mut linker = lock(&linker);
    Some(use_it(&mut linker))
}

/// Ends a handle; false if there is none.
pub(crate) fn remove(handle: u64) -> bool {
    let mut table = lock(&TABLE);
    let removed = table
        .as_mut()
        .and_then(|table| table.linkers.remove(&handle));
    removed.is_some()
}
