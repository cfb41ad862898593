//! User objects: things of the program that graphs keep alive.
//!
//! An object counts references: those of the program, which it adds and gives back by calls, and
//! those of graphs, which are [`UserRef`]s. When none is left, the object's function is called,
//! once, on a thread of the driver.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::call::HostCall;
use crate::error::Result;
use crate::handle::{Kind, Object, Slab};
use crate::types::{
    CUgraph, CUresult, CUuserObject, CUuserObject_flags, CUuserObjectRetain_flags, HostPtr,
};

use super::get;

static USERS: Slab<User> = Slab::new(Kind::UserObject);

struct User {
    handle: u64,
    destroy: HostCall,
    /// References of the program and of graphs.
    n_refs: AtomicU64,
    /// Those of the program among them.
    n_own: Mutex<u64>,
}

impl Object for User {
    fn handle(&self) -> u64 {
        self.handle
    }
}

impl User {
    fn release(&self, count: u64) {
        if self.n_refs.fetch_sub(count, Ordering::AcqRel) == count {
            USERS.remove(self.handle);
            destroy_later(self.destroy);
        }
    }
}

/// Has a thread of the driver call a function.
fn destroy_later(call: HostCall) {
    static CALLS: OnceLock<Option<Mutex<Sender<HostCall>>>> = OnceLock::new();
    let start = || {
        let (sender, receiver) = channel::<HostCall>();
        let thread = std::thread::Builder::new().name("ptxjit-destroy".to_owned());
        let work = move || receiver.into_iter().for_each(HostCall::run);
        thread.spawn(work).ok().map(|_| Mutex::new(sender))
    };
    match CALLS.get_or_init(start) {
        // The thread never ends, so the call arrives.
        Some(calls) => drop(calls.lock().send(call)),
        None => call.run(),
    }
}

/// References of a graph to an object.
pub(crate) struct UserRef {
    user: Arc<User>,
    count: u64,
}

impl Clone for UserRef {
    fn clone(&self) -> UserRef {
        self.user.n_refs.fetch_add(self.count, Ordering::Relaxed);
        UserRef {
            user: self.user.clone(),
            count: self.count,
        }
    }
}

impl Drop for UserRef {
    fn drop(&mut self) {
        self.user.release(self.count);
    }
}

fn user(handle: CUuserObject) -> Result<Arc<User>> {
    USERS.get(handle.0).ok_or(CUresult::INVALID_VALUE)
}

/// A count that a program passes.
fn counted(count: u32) -> Result<u64> {
    match i32::try_from(count) {
        Ok(1..) => Ok(u64::from(count)),
        _ => Err(CUresult::INVALID_VALUE),
    }
}

// --- The interface ---

/// `cuUserObjectCreate`.
pub fn create(object: HostPtr, destroy: HostPtr, count: u32, flags: u32) -> Result<CUuserObject> {
    // The one flag must be set: nothing can wait for the function.
    if CUuserObject_flags(flags) != CUuserObject_flags::NO_DESTRUCTOR_SYNC {
        return Err(CUresult::INVALID_VALUE);
    }
    let destroy = HostCall::new(destroy, object)?;
    let count = counted(count)?;
    let user = USERS.insert(|handle| User {
        handle,
        destroy,
        n_refs: AtomicU64::new(count),
        n_own: Mutex::new(count),
    })?;
    Ok(CUuserObject(user.handle))
}

/// `cuUserObjectRetain`.
pub fn retain(object: CUuserObject, count: u32) -> Result<()> {
    let user = user(object)?;
    let count = counted(count)?;
    let mut n_own = user.n_own.lock();
    // Without a reference of its own a program cannot know that the object is still there.
    if *n_own == 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    *n_own += count;
    user.n_refs.fetch_add(count, Ordering::Relaxed);
    Ok(())
}

/// `cuUserObjectRelease`.
pub fn release(object: CUuserObject, count: u32) -> Result<()> {
    let user = user(object)?;
    take_own(&user, counted(count)?)?;
    user.release(u64::from(count));
    Ok(())
}

fn take_own(user: &User, count: u64) -> Result<()> {
    let mut n_own = user.n_own.lock();
    *n_own = n_own.checked_sub(count).ok_or(CUresult::INVALID_VALUE)?;
    Ok(())
}

/// `cuGraphRetainUserObject`.
pub fn graph_retain(graph: CUgraph, object: CUuserObject, count: u32, flags: u32) -> Result<()> {
    let (graph, user) = (get(graph)?, user(object)?);
    let count = counted(count)?;
    match CUuserObjectRetain_flags(flags) {
        CUuserObjectRetain_flags::MOVE => take_own(&user, count)?,
        CUuserObjectRetain_flags(0) if *user.n_own.lock() != 0 => {
            user.n_refs.fetch_add(count, Ordering::Relaxed);
        }
        _ => return Err(CUresult::INVALID_VALUE),
    }
    let mut body = graph.body.lock();
    match body
        .users
        .iter_mut()
        .find(|known| known.user.handle == user.handle)
    {
        Some(known) => known.count += count,
        None => body.users.push(UserRef { user, count }),
    }
    Ok(())
}

/// `cuGraphReleaseUserObject`.
pub fn graph_release(graph: CUgraph, object: CUuserObject, count: u32) -> Result<()> {
    let (graph, user) = (get(graph)?, user(object)?);
    let count = counted(count)?;
    let mut body = graph.body.lock();
    let at = body
        .users
        .iter()
        .position(|known| known.user.handle == user.handle);
    let at = at.ok_or(CUresult::INVALID_VALUE)?;
    let known = &mut body.users[at];
    match known.count.checked_sub(count) {
        None => return Err(CUresult::INVALID_VALUE),
        Some(0) => drop(body.users.remove(at)),
        Some(left) => {
            known.count = left;
            user.release(count);
        }
    }
    Ok(())
}
