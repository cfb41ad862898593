//! Which entry of a fat binary a device runs.

use std::fmt;

use crate::container::{Container, Entry, EntryKind, Suffix};
use crate::error::Error;

/// Compute capability of a device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Capability {
    /// 8 of 8.6.
    pub major: u32,
    /// 6 of 8.6.
    pub minor: u32,
}

impl Capability {
    /// Of a target's number: 86 and 120 are 8.6 and 12.0.
    pub fn from_sm(sm: u32) -> Capability {
        Capability {
            major: sm / 10,
            minor: sm % 10,
        }
    }

    /// Whether PTX for this target may run on the device. `sm_XXa` is for that very GPU, `sm_XXf`
    /// for it and later ones of its family, which is the major number.
    pub fn runs(self, sm: u32, suffix: Suffix) -> bool {
        let target = Capability::from_sm(sm);
        match suffix {
            Suffix::None => target <= self,
            Suffix::Family => target.major == self.major && target.minor <= self.minor,
            Suffix::Specific => target == self,
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The text of the PTX entry with the highest target that the device can run; of several for one
/// target the most special. Machine code is never chosen.
pub fn choose(container: &Container<'_>, capability: Capability) -> Result<Vec<u8>, Error> {
    choose_within(container, capability, &mut { crate::MAX_TEXT })
}

/// As [`choose`]; the bytes of text are taken from `budget`.
pub(crate) fn choose_within(
    container: &Container<'_>,
    capability: Capability,
    budget: &mut u64,
) -> Result<Vec<u8>, Error> {
    let entries = container.entries.iter();
    let mut usable: Vec<&Entry<'_>> = entries
        .filter(|entry| entry.kind == EntryKind::Ptx && capability.runs(entry.sm, entry.suffix))
        .collect();
    // The sort keeps the order of what is equal, and so the first of them.
    usable.sort_by_key(|entry| std::cmp::Reverse((entry.sm, entry.suffix)));
    for entry in usable {
        let text = entry.text(budget)?;
        // Tools that do not know the flag of a suffix still have it in the text.
        if suffix_in(&text, entry.sm).is_none_or(|suffix| capability.runs(entry.sm, suffix)) {
            return Ok(text);
        }
    }
    Err(Error::NoPtx {
        capability: capability.to_string(),
        found: found(container),
    })
}

/// What the `.target` line says after the number `sm`.
fn suffix_in(text: &[u8], sm: u32) -> Option<Suffix> {
    const DIRECTIVE: &[u8] = b".target";
    let at = text
        .windows(DIRECTIVE.len())
        .position(|window| window == DIRECTIVE)?;
    let rest = text[at + DIRECTIVE.len()..].trim_ascii_start();
    match rest.strip_prefix(format!("sm_{sm}").as_bytes())?.first() {
        Some(b'a') => Some(Suffix::Specific),
        Some(b'f') => Some(Suffix::Family),
        Some(_) | None => Some(Suffix::None),
    }
}

fn found(container: &Container<'_>) -> String {
    const SHOWN: usize = 16;
    let n = container.entries.len();
    let mut list: Vec<String> = container
        .entries
        .iter()
        .take(SHOWN)
        .map(Entry::describe)
        .collect();
    if n > SHOWN {
        list.push(format!("{} more", n - SHOWN));
    }
    match list.is_empty() {
        true => "it is empty".to_owned(),
        false => format!("it holds {}", list.join(", ")),
    }
}
