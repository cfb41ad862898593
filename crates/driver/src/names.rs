//! Names that are given to clients: C strings that stay as long as the process.

use std::collections::HashMap;
use std::ffi::CString;

use parking_lot::Mutex;

/// Each name once, however often it is asked for.
static NAMES: Mutex<Option<HashMap<String, CString>>> = Mutex::new(None);

/// The address of a name.
pub(crate) fn address(name: &str) -> u64 {
    let mut names = NAMES.lock();
    let names = names.get_or_insert_default();
    // PTX has no names with a NUL. A map that grows does not move what a `CString` points to.
    let text = names.entry(name.to_owned());
    let text = text.or_insert_with(|| CString::new(name).unwrap_or_default());
    text.as_ptr() as u64
}
