//! Pointers that are kept in slots.
//!
//! Unoptimised code keeps pointers to variables in other variables (arguments passed by reference,
//! captures of lambdas). A pointer stored to a constant place of a slot does not escape by that, as
//! long as only whole pointers are stored to and loaded from that place: then each load gives one
//! of the pointers stored there, in whatever order that happens.

use std::collections::BTreeMap;

use ptxjit_ir::StackSlot;
use rustc_hash::{FxHashMap, FxHashSet};

use super::Pointee;

/// Size of a pointer.
const POINTER: i64 = 8;

/// What the slots of a function hold.
#[derive(Clone, Debug, Default)]
pub(super) struct Contents {
    /// By slot and offset: what the pointers stored there point to.
    cells: FxHashMap<StackSlot, BTreeMap<i64, Pointee>>,
    /// Slot, start and end of everything else that is accessed.
    others: FxHashSet<(StackSlot, i64, i64)>,
    /// Slots that may be accessed anywhere, or in which a pointer met something else.
    opaque: FxHashSet<StackSlot>,
}

impl Contents {
    /// A pointer is stored. Gives what was known to be there; none if it cannot be followed through
    /// this slot.
    pub(super) fn cell(&mut self, slot: StackSlot, offset: i64) -> Option<&mut Pointee> {
        if self.opaque.contains(&slot) {
            return None;
        }
        Some(
            self.cells
                .entry(slot)
                .or_default()
                .entry(offset)
                .or_default(),
        )
    }

    /// What a whole pointer loaded from there points to.
    pub(super) fn loaded(&self, slot: StackSlot, offset: i64) -> Pointee {
        let cell = self.cells.get(&slot).and_then(|cells| cells.get(&offset));
        cell.copied().unwrap_or(Pointee::Other)
    }

    /// Something that is no pointer is stored, or loaded.
    pub(super) fn access(&mut self, slot: StackSlot, offset: i64, bytes: u32) {
        self.others
            .insert((slot, offset, offset + i64::from(bytes)));
    }

    /// The slot is accessed nobody knows where.
    pub(super) fn make_opaque(&mut self, slot: StackSlot) {
        self.opaque.insert(slot);
    }

    /// Forgets the pointers in slots where they meet other accesses; gives them.
    pub(super) fn remove_mixed(&mut self, escapes: impl Fn(StackSlot) -> bool) -> Vec<Pointee> {
        if self.cells.is_empty() {
            return Vec::new();
        }
        for &(slot, start, end) in &self.others {
            let Some(cells) = self.cells.get(&slot) else {
                continue;
            };
            if cells.range(start - POINTER + 1..end).next().is_some() {
                self.opaque.insert(slot);
            }
        }
        let mut removed = Vec::new();
        let opaque = &mut self.opaque;
        self.cells.retain(|&slot, cells| {
            let overlaps = cells
                .keys()
                .zip(cells.keys().skip(1))
                .any(|(a, b)| a + POINTER > *b);
            let keep = !overlaps && !escapes(slot) && !opaque.contains(&slot);
            if !keep {
                opaque.insert(slot);
                removed.extend(cells.values());
            }
            keep
        });
        removed
    }
}
