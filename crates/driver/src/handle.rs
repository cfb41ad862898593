//! Handles: numbers that stand for objects and can be checked, whatever a client makes of them.
//!
//! A handle packs a kind, a generation and a slot. It is never a pointer and never below 16 (1 and
//! 2 stand for the two default streams). Looking one up takes no lock; a handle that was destroyed,
//! that belongs to another kind or that was never given out finds nothing, since the object in its
//! slot, if there is one, has another handle.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;

use crate::error::Result;
use crate::types::CUresult;

/// What a handle stands for.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[repr(u64)]
pub(crate) enum Kind {
    Context = 1,
    Stream,
    Event,
    Module,
    Function,
    Library,
    Kernel,
    Link,
    Pool,
    Graph,
    GraphNode,
    GraphExec,
    Array,
    MipmappedArray,
    Texture,
    Surface,
    TexRef,
    UserObject,
    Physical,
}

const SLOT_BITS: u32 = 20;
const GENERATION_BITS: u32 = 22;
const CHUNK: usize = 1024;
const N_CHUNKS: usize = (1 << SLOT_BITS) / CHUNK;

/// An object that a client refers to by a handle.
pub(crate) trait Object: Send + Sync + 'static {
    /// The handle it was made with.
    fn handle(&self) -> u64;
}

/// All objects of a kind.
pub(crate) struct Slab<T> {
    kind: Kind,
    chunks: [OnceLock<Box<[Slot<T>]>>; N_CHUNKS],
    free: Mutex<Free>,
    n_slots: AtomicU32,
}

type Slot<T> = ArcSwapOption<T>;

struct Free {
    /// Slots that held an object before, with the generation of their next one.
    used: Vec<(u32, u32)>,
    next: u32,
}

impl<T: Object> Slab<T> {
    /// A slab without objects.
    pub(crate) const fn new(kind: Kind) -> Slab<T> {
        Slab {
            kind,
            chunks: [const { OnceLock::new() }; N_CHUNKS],
            free: Mutex::new(Free {
                used: Vec::new(),
                next: 0,
            }),
            n_slots: AtomicU32::new(0),
        }
    }

    /// A handle without an object, to be used with [`Slab::set`].
    pub(crate) fn reserve(&self) -> Result<u64> {
        let mut free = self.free.lock();
        let (slot, generation) = match free.used.pop() {
            Some(used) => used,
            None if free.next >> SLOT_BITS == 0 => {
                free.next += 1;
                self.n_slots.store(free.next, Ordering::Release);
                (free.next - 1, 0)
            }
            None => return Err(CUresult::OUT_OF_MEMORY),
        };
        let number = u64::from(generation) << SLOT_BITS | u64::from(slot);
        Ok((self.kind as u64) << (SLOT_BITS + GENERATION_BITS) | number)
    }

    /// Puts an object in the place of a reserved handle, or takes it away from there.
    pub(crate) fn set(&self, handle: u64, object: Option<Arc<T>>) {
        let slot = slot_of(handle);
        let new_chunk = || (0..CHUNK).map(|_| Slot::empty()).collect();
        self.chunks[slot / CHUNK].get_or_init(new_chunk)[slot % CHUNK].store(object);
    }

    /// Adds the object that `make` makes for a new handle.
    pub(crate) fn insert(&self, make: impl FnOnce(u64) -> T) -> Result<Arc<T>> {
        let handle = self.reserve()?;
        let object = Arc::new(make(handle));
        self.set(handle, Some(object.clone()));
        Ok(object)
    }

    /// The object that a handle stands for.
    pub(crate) fn get(&self, handle: u64) -> Option<Arc<T>> {
        let object = self.slot(handle)?.load();
        let object = object.as_ref()?;
        (object.handle() == handle).then(|| object.clone())
    }

    /// Takes an object away. Its handle stands for nothing from here on; one of two threads that
    /// try gets the object.
    pub(crate) fn remove(&self, handle: u64) -> Option<Arc<T>> {
        let mut free = self.free.lock();
        let object = self.get(handle)?;
        self.set(handle, None);
        let generation = (handle >> SLOT_BITS) as u32 & ((1 << GENERATION_BITS) - 1);
        let next = (generation + 1) & ((1 << GENERATION_BITS) - 1);
        free.used.push((slot_of(handle) as u32, next));
        Some(object)
    }

    /// All objects, in no order that means anything.
    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        let n_slots = self.n_slots.load(Ordering::Acquire) as usize;
        let chunks = self.chunks.iter().take(n_slots.div_ceil(CHUNK));
        let slots = chunks.filter_map(OnceLock::get).flatten();
        // Most of a chunk was never used, and every synchronization of a context comes here.
        slots
            .take(n_slots)
            .filter_map(|slot| slot.load_full())
            .collect()
    }

    fn slot(&self, handle: u64) -> Option<&Slot<T>> {
        let is_kind = handle >> (SLOT_BITS + GENERATION_BITS) == self.kind as u64;
        let slot = slot_of(handle);
        let chunk = is_kind.then(|| self.chunks[slot / CHUNK].get())??;
        Some(&chunk[slot % CHUNK])
    }
}

fn slot_of(handle: u64) -> usize {
    handle as usize & ((1 << SLOT_BITS) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Thing(u64);

    impl Object for Thing {
        fn handle(&self) -> u64 {
            self.0
        }
    }

    #[test]
    fn a_handle_finds_its_object_until_it_is_removed() {
        let slab = Slab::new(Kind::Event);
        let handles: Vec<u64> = (0..3000)
            .map(|_| slab.insert(Thing).unwrap().handle())
            .collect();
        assert!(handles.iter().all(|&handle| handle >= 16));
        assert!(
            handles
                .iter()
                .all(|&handle| slab.get(handle).unwrap().0 == handle)
        );
        assert!(slab.remove(handles[7]).is_some());
        assert!(slab.remove(handles[7]).is_none());
        let again = slab.insert(Thing).unwrap().handle();
        assert_eq!(slot_of(again), slot_of(handles[7]));
        assert!(
            slab.get(handles[7]).is_none(),
            "an old handle never finds a new object"
        );
        assert_eq!(slab.all().len(), 3000);
    }

    #[test]
    fn garbage_finds_nothing() {
        let slab = Slab::new(Kind::Event);
        let other = Slab::new(Kind::Stream);
        let handle = slab.insert(Thing).unwrap().handle();
        assert!(other.insert(Thing).unwrap().handle() != handle);
        for garbage in [0, 1, 2, 0xdead_beef, u64::MAX, handle + 1, handle ^ 1 << 30] {
            assert!(slab.get(garbage).is_none(), "{garbage:#x}");
            assert!(slab.remove(garbage).is_none(), "{garbage:#x}");
        }
        assert!(other.get(handle).is_none());
    }
}
