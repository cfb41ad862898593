//! The log of what calls have to say, which programs read or are told of.
//!
//! It has what [`crate::report`] prints, whether that is printed or not. The latest
//! [`MAX_ENTRIES`] entries are kept. An iterator is the number of the entry that it comes to next.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::Result;
use crate::host;
use crate::state;
use crate::types::{CUresult, HostPtr};

/// Entries that are kept, as many as NVIDIA's driver keeps.
const MAX_ENTRIES: usize = 100;

/// What is told of an entry.
type Callback = Arc<dyn Fn(&str) + Send + Sync>;

struct Logs {
    entries: VecDeque<String>,
    /// Number of the entry that comes next.
    next: u32,
    callbacks: Vec<(u64, Callback)>,
    /// Handle of the callback that comes next; none is like a stream's.
    next_handle: u64,
}

static LOGS: Mutex<Logs> = Mutex::new(Logs {
    entries: VecDeque::new(),
    next: 0,
    callbacks: Vec::new(),
    next_handle: 16,
});

impl Logs {
    /// The entries from a number on, and whether some before them are gone.
    fn since(&self, start: u32) -> (impl Iterator<Item = &String>, bool) {
        // Numbers wrap, so that only distances to the next one are compared.
        let wanted = self.next.wrapping_sub(start) as usize;
        let kept = wanted.min(self.entries.len());
        let skipped = self.entries.len() - kept;
        (self.entries.iter().skip(skipped), wanted > kept)
    }
}

/// Adds an entry and tells the program of it.
pub(crate) fn add(code: &str, text: &str) {
    let entry = format!("{code}: {}", text.trim_end());
    let mut logs = LOGS.lock();
    if logs.entries.len() == MAX_ENTRIES {
        logs.entries.pop_front();
    }
    logs.entries.push_back(entry.clone());
    logs.next = logs.next.wrapping_add(1);
    let callbacks = logs.callbacks.clone();
    // The program's functions may ask for the log.
    drop(logs);
    for (_, callback) in callbacks {
        state::in_callback(|| callback(&entry));
    }
}

/// The text of the entries that an iterator has not seen, or of all, and the new iterator.
fn text(iterator: HostPtr) -> Result<(String, u32)> {
    let start = match iterator.is_null() {
        true => None,
        false => Some(host::get::<u32>(iterator.0)?),
    };
    let logs = LOGS.lock();
    let first = logs.next.wrapping_sub(logs.entries.len() as u32);
    let (entries, is_cut) = logs.since(start.unwrap_or(first));
    let mut text = String::new();
    if is_cut {
        text.push_str("older entries are gone\n");
    }
    for entry in entries {
        text.push_str(entry);
        text.push('\n');
    }
    Ok((text, logs.next))
}

fn check(flags: u32) -> Result<()> {
    match flags {
        0 => Ok(()),
        _ => Err(CUresult::INVALID_VALUE),
    }
}

fn advance(iterator: HostPtr, next: u32) -> Result<()> {
    match iterator.is_null() {
        true => Ok(()),
        false => host::put(iterator.0, next),
    }
}

// --- The interface ---

/// `cuLogsRegisterCallback`: the handle of a function that is told of entries from now on.
pub fn register(callback: impl Fn(&str) + Send + Sync + 'static) -> Result<HostPtr> {
    let mut logs = LOGS.lock();
    let handle = logs.next_handle;
    logs.next_handle += 1;
    logs.callbacks.push((handle, Arc::new(callback)));
    Ok(HostPtr(handle))
}

/// `cuLogsUnregisterCallback`.
pub fn unregister(handle: HostPtr) -> Result<()> {
    let mut logs = LOGS.lock();
    let before = logs.callbacks.len();
    logs.callbacks.retain(|(each, _)| *each != handle.0);
    match logs.callbacks.len() < before {
        true => Ok(()),
        false => Err(CUresult::INVALID_VALUE),
    }
}

/// `cuLogsCurrent`: an iterator that has seen all entries.
pub fn current(flags: u32) -> Result<u32> {
    check(flags)?;
    Ok(LOGS.lock().next)
}

/// `cuLogsDumpToFile`.
pub fn dump_to_file(iterator: HostPtr, path: HostPtr, flags: u32) -> Result<()> {
    check(flags)?;
    let path = host::string(path)?;
    let (text, next) = text(iterator)?;
    std::fs::write(path, text).map_err(|_| CUresult::OPERATING_SYSTEM)?;
    advance(iterator, next)
}

/// `cuLogsDumpToMemory`: the size is that of the buffer, and becomes that of the text.
pub fn dump_to_memory(iterator: HostPtr, buffer: HostPtr, size: HostPtr, flags: u32) -> Result<()> {
    check(flags)?;
    let room: usize = host::get(size.0)?;
    let (text, next) = text(iterator)?;
    if buffer.is_null() {
        return Err(CUresult::INVALID_VALUE);
    }
    // What is cut are the oldest entries: the reason why a program looks is among the last.
    let max = room.saturating_sub(1);
    let mut start = text.len().saturating_sub(max);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    host::put_string(buffer.0, room, &text.as_bytes()[start..])?;
    host::put(size.0, text.len() - start)?;
    advance(iterator, next)
}
