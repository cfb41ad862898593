//! Allocations that were freed, for as long as nothing else has their addresses.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;

use super::Site;
use crate::memory::Allocation;

/// Freed allocations that are remembered; a program may free any number.
const MOST: usize = 4096;

/// A freed allocation, and what has freed it.
#[derive(Clone)]
pub(crate) struct Grave {
    pub(super) allocation: Arc<Allocation>,
    pub(super) freed: Option<Arc<Site>>,
}

/// Graves by first address, and the addresses in the order of frees.
#[derive(Default)]
pub(crate) struct Graves {
    map: BTreeMap<u64, Grave>,
    order: VecDeque<u64>,
}

static GRAVES: Mutex<Option<Graves>> = Mutex::new(None);

impl Graves {
    /// Remembers an allocation that is freed now.
    pub(crate) fn bury(allocation: &Arc<Allocation>) {
        if !super::watches_program() {
            return;
        }
        let mut graves = GRAVES.lock();
        let Graves { map, order } = graves.get_or_insert_default();
        let grave = Grave {
            allocation: allocation.clone(),
            freed: Site::here(),
        };
        map.insert(allocation.base, grave);
        order.push_back(allocation.base);
        if order.len() > MOST
            && let Some(base) = order.pop_front()
        {
            map.remove(&base);
        }
    }

    /// Forgets what lay where an allocation is now.
    pub(crate) fn clear(base: u64, size: u64) {
        if let Some(Graves { map, .. }) = &mut *GRAVES.lock() {
            let end = base.saturating_add(size.max(1));
            let ends_inside = |grave: &Grave| grave.allocation.base + grave.allocation.size > base;
            let below = map.range(..end).rev();
            let gone: Vec<u64> = below
                .take_while(|(_, grave)| ends_inside(grave))
                .map(|(&base, _)| base)
                .collect();
            gone.iter().for_each(|base| drop(map.remove(base)));
        }
    }

    /// The freed allocation that held an address.
    pub(super) fn find(addr: u64) -> Option<Grave> {
        let graves = GRAVES.lock();
        let (_, grave) = graves.as_ref()?.map.range(..=addr).next_back()?;
        let Allocation { base, size, .. } = *grave.allocation;
        (addr - base < size).then(|| grave.clone())
    }
}
