//! The objects that handles stand for.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use super::object::Object;

/// Textures, samplers and surfaces of a device, by their handles.
#[derive(Debug, Default)]
pub struct Registry {
    objects: RwLock<HashMap<u64, Arc<Object>>>,
    /// Another number after each change, and one that no other registry has, so that what was
    /// looked up can be kept until something changes.
    epoch: AtomicU64,
}

thread_local! {
    /// What was found last, at which epoch and for which handle.
    static LAST: RefCell<Option<(u64, u64, Arc<Object>)>> = const { RefCell::new(None) };
}

/// No user address has these bits, so no handle is taken for the address of an opaque variable.
const MAGIC: u64 = 0x7e0b << 48;

/// Handles are told apart in the whole process: one of another device means nothing, instead of
/// another object.
static NEXT: AtomicU64 = AtomicU64::new(1);

impl Registry {
    /// Adds an object; its handle, which no other object ever has.
    pub fn add(&self, object: Object) -> u64 {
        let handle = MAGIC | NEXT.fetch_add(1, Ordering::Relaxed);
        self.set(handle, object);
        handle
    }

    /// Lets a handle that the caller has chosen stand for an object.
    pub fn set(&self, handle: u64, object: Object) {
        let mut objects = self.objects.write().unwrap_or_else(PoisonError::into_inner);
        objects.insert(handle, Arc::new(object));
        self.change();
    }

    /// From now on a handle stands for nothing.
    pub fn remove(&self, handle: u64) {
        let mut objects = self.objects.write().unwrap_or_else(PoisonError::into_inner);
        objects.remove(&handle);
        self.change();
    }

    /// What a handle stands for.
    pub fn get(&self, handle: u64) -> Option<Arc<Object>> {
        let objects = self.objects.read().unwrap_or_else(PoisonError::into_inner);
        objects.get(&handle).cloned()
    }

    /// A number that no registry had before its last change: what was found since this one was read
    /// stays true as long as it is the same.
    #[inline]
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// As [`Registry::get`], faster where a thread of the host asks for the same handle again.
    pub fn recent(&self, handle: u64) -> Option<Arc<Object>> {
        let epoch = self.epoch();
        LAST.with_borrow_mut(|last| match last {
            Some((at, of, object)) if (*at, *of) == (epoch, handle) => Some(object.clone()),
            _ => {
                let found = self.get(handle)?;
                *last = Some((epoch, handle, found.clone()));
                Some(found)
            }
        })
    }

    /// Called with the objects locked.
    fn change(&self) {
        static EPOCHS: AtomicU64 = AtomicU64::new(0);
        let epoch = EPOCHS.fetch_add(1, Ordering::Relaxed) + 1;
        self.epoch.store(epoch, Ordering::Release);
    }
}
