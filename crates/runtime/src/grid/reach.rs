//! Which memory a kernel may access beside its own windows: its device's, that of other devices as
//! far as it is allowed, and registered memory of the host.

use super::{Grid, USER_BITS};
use crate::launch::PeerGuard;

impl Grid {
    /// Keeps the kernel to its device's part of the arena and what `guard` allows.
    pub(crate) fn guard_peers(&mut self, part: u32, guard: PeerGuard) {
        self.peers = Some((part, guard));
    }

    /// The addresses that the kernel may access without asking: the first, and log2 of how many.
    /// All that a test in the code lets pass and that is not mapped faults.
    pub(super) fn reach(&self) -> (u64, u32) {
        match self.peers {
            _ if self.open_memory => (0, USER_BITS),
            Some((part, _)) => self.arena.range_of_part(part),
            None => (self.arena.base(), self.arena.bits()),
        }
    }

    /// Whether the kernel may access bytes, as far as it is not for the arena to say.
    pub(crate) fn may_access(&self, addr: u64, len: u64) -> bool {
        // What accesses nothing, as a copy that ignores its source, may name any address.
        if self.open_memory || len == 0 {
            return true;
        }
        if !self.arena.contains(addr) {
            return self.arena.is_foreign(addr, len);
        }
        match (&self.peers, self.foreign_part(addr)) {
            (Some((_, PeerGuard(allows))), Some(_)) => allows(addr, len),
            (Some(_) | None, _) => true,
        }
    }

    /// The part of the arena in which an address lies, if that is another device's and guarded.
    pub(crate) fn foreign_part(&self, addr: u64) -> Option<u32> {
        let (own, _) = self.peers.as_ref()?;
        self.arena.part_of(addr).filter(|part| part != own)
    }
}
