//! Who wrote each word of device memory last, for those who compare what launches leave behind.

use rustc_hash::FxHashMap;

use super::finding::{Access, AccessOp, Site};
use super::{Who, report};

/// Words have this size.
const WORD: u64 = 4;

/// The last write of each word.
#[derive(Default, Debug)]
pub struct LastWrites {
    words: FxHashMap<u64, Write>,
    pub(super) sites: Vec<Site>,
}

/// A write.
#[derive(Debug)]
struct Write {
    who: Who,
    op: AccessOp,
    is_float_atomic: bool,
}

impl LastWrites {
    pub(super) fn note(
        &mut self,
        who: Who,
        (addr, size): (u64, u64),
        op: AccessOp,
        is_float_atomic: bool,
    ) {
        let (first, end) = (addr / WORD, (addr + size).div_ceil(WORD));
        for word in first..end {
            let write = Write {
                who,
                op,
                is_float_atomic,
            };
            self.words.insert(word, write);
        }
    }

    /// The write that last changed the word of an address, if the launch did.
    pub fn find(&self, addr: u64) -> Option<Access> {
        let Write { who, op, .. } = self.words.get(&(addr / WORD))?;
        Some(report::access(&self.sites, who, *op))
    }

    /// Whether the word of an address was last changed by an atomic operation on floating-point
    /// numbers.
    pub fn is_float_atomic(&self, addr: u64) -> bool {
        let write = self.words.get(&(addr / WORD));
        write.is_some_and(|write| write.is_float_atomic)
    }
}
