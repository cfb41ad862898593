//! `CUDA_VISIBLE_DEVICES`: which devices a process sees, and in which order.

use crate::device::Device;

/// The devices that a value of the variable lets through.
///
/// As on a GPU, entries are indices or the first characters of a UUID with its `GPU-`; the list
/// ends at the first entry that is neither; a device that is named twice hides all.
pub(crate) fn select(list: &str, all: &[Device]) -> Vec<Device> {
    let mut visible: Vec<Device> = Vec::new();
    for entry in list.split(',') {
        let entry = entry.trim();
        let found = if entry.starts_with("GPU-") {
            by_uuid(entry, all)
        } else {
            by_index(entry, all)
        };
        let Some(device) = found else { break };
        if visible.iter().any(|known| known.index == device.index) {
            return Vec::new();
        }
        visible.push(device.clone());
    }
    visible
}

/// The only device whose UUID starts with a text.
fn by_uuid<'d>(prefix: &str, all: &'d [Device]) -> Option<&'d Device> {
    let prefix = prefix.to_ascii_lowercase();
    let starts = |device: &&Device| device.uuid_text().to_ascii_lowercase().starts_with(&prefix);
    let mut matching = all.iter().filter(starts);
    let first = matching.next()?;
    matching.next().is_none().then_some(first)
}

/// The device at an index. What follows the digits does not matter, as with C's `strtoul`.
fn by_index<'d>(entry: &str, all: &'d [Device]) -> Option<&'d Device> {
    let end = entry.find(|c: char| !c.is_ascii_digit());
    let digits = &entry[..end.unwrap_or(entry.len())];
    all.get(digits.parse::<usize>().ok()?)
}
