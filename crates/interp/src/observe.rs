//! What the interpreter tells those who watch: accesses with their meaning, definitions with their shadows, marks.

use std::hash::Hasher;

use ptxjit_ir::{AtomicOp, InstData, InstNode, Space, Terminator, Value};
use rustc_hash::FxHasher;

use crate::access::Address;
use crate::fault::FaultKind;
use crate::launch::Machine;
use crate::schedule::Env;
use crate::thread::Thread;
use crate::watch::finding::{AccessOp, Finding, FindingKind, Severity};
use crate::watch::shadow::{self, Shadow};
use crate::watch::{Accessed, Who, byte};

/// No window of shared or local memory is larger.
const MOST_WINDOW: u64 = 1 << 20;

/// No access has more bytes.
const MOST: usize = 64;

impl<'p> Machine<'p, '_> {
    /// The thread and the statement that it executes.
    pub(crate) fn who(&mut self, env: &Env, thread: &Thread<'p>) -> Who {
        let calls = match thread.frames.len() {
            0 | 1 => Vec::new(),
            _ => thread.calls(),
        };
        let watch = self.watch.as_mut();
        Who {
            cta: env.cta,
            ctaid: env.ctaid,
            thread: thread.linear,
            tid: thread.tid,
            site: watch.map_or(0, |watch| watch.site(thread.loc, calls)),
        }
    }

    /// Whether the thread is in the midst of what others see at once.
    pub(crate) fn is_quiet(&mut self, env: &Env, thread: &Thread<'p>) -> bool {
        let can_run = thread.is_ready() && !thread.frames.is_empty();
        can_run
            && self
                .watch
                .as_mut()
                .is_some_and(|watch| watch.is_quiet(env.cta, thread.linear))
    }

    /// Finds a thread that comes again to where it was, with the same values, while nothing has changed: it will do so forever.
    pub(crate) fn look_for_spinning(&mut self, thread: &mut Thread<'p>) {
        thread.spin.steps += 1;
        let steps = thread.spin.steps;
        if self.watch.is_none() || !steps.is_multiple_of(64) && thread.spin.seen.is_none() {
            return;
        }
        let Some(position) = thread.position() else {
            return;
        };
        let hash = |thread: &Thread<'p>| {
            let mut hasher = FxHasher::default();
            thread
                .frames
                .iter()
                .for_each(|frame| frame.hash(&mut hasher));
            hasher.finish()
        };
        match thread.spin.seen {
            Some((at, before, progress)) if at == position => {
                if progress == self.progress && before == hash(thread) {
                    thread.spin.since = Some(progress);
                }
                thread.spin.seen = Some((position, hash(thread), self.progress));
            }
            Some((_, _, progress)) if progress == self.progress && !steps.is_multiple_of(997) => {}
            _ => thread.spin.seen = Some((position, hash(thread), self.progress)),
        }
    }

    /// A variable of a new activation was never written.
    pub(crate) fn forget_local(&mut self, thread: &Thread<'p>, start: u64, end: u64) {
        let watches = self.watches_values();
        let Some(watch) = self.watch.as_mut().filter(|_| watches) else {
            return;
        };
        let bytes = watch.local_bytes(thread.cta, thread.linear);
        for at in start..end.min(bytes.len() as u64) {
            bytes[at as usize] = byte::UNDEFINED;
        }
    }

    /// States of bytes at a generic address.
    fn states(&mut self, env: &Env, thread: &Thread<'p>, addr: u64, states: &mut [u8]) {
        let region = self.region(addr);
        let Some(watch) = self.watch.as_mut() else {
            return;
        };
        let copy = |bytes: &[u8], offset: u64, states: &mut [u8]| {
            for (idx, state) in states.iter_mut().enumerate() {
                let at = (offset as usize).saturating_add(idx);
                *state = bytes.get(at).copied().unwrap_or(byte::UNDEFINED);
            }
        };
        match region {
            Region::Shared(cta, offset) => copy(watch.shared_bytes(cta), offset, states),
            Region::Local(offset) => {
                copy(watch.local_bytes(env.cta, thread.linear), offset, states);
            }
            Region::Device => self.memory.states(addr, states),
            Region::ReadOnly => states.fill(byte::WRITTEN),
        }
    }

    /// An operation of the device has written bytes.
    pub(crate) fn written(&mut self, env: &Env, thread: &Thread<'p>, addr: u64, len: usize) {
        if self.watch.is_none() {
            return;
        }
        self.set_states(env, thread, addr, &vec![byte::WRITTEN; len]);
        let who = self.who(env, thread);
        let region = self.region(addr);
        if let (Region::Device, Some(watch)) = (region, self.watch.as_mut()) {
            watch.wrote(who, (addr, len as u64), AccessOp::Copy, false);
        }
    }

    fn set_states(&mut self, env: &Env, thread: &Thread<'p>, addr: u64, states: &[u8]) {
        let region = self.region(addr);
        let Some(watch) = self.watch.as_mut() else {
            return;
        };
        let copy = |bytes: &mut Vec<u8>, offset: u64| {
            // Addresses of other CTAs' windows are no offsets in this one.
            if offset > MOST_WINDOW {
                return;
            }
            let (start, end) = (offset as usize, offset as usize + states.len());
            if bytes.len() < end {
                bytes.resize(end, byte::UNDEFINED);
            }
            bytes[start..end].copy_from_slice(states);
        };
        match region {
            Region::Shared(cta, offset) => copy(watch.shared_bytes(cta), offset),
            Region::Local(offset) => copy(watch.local_bytes(env.cta, thread.linear), offset),
            Region::Device => self.memory.set_states(addr, states),
            Region::ReadOnly => {}
        }
    }

    /// A value of which something was never written is used.
    fn used(&mut self, env: &Env, thread: &Thread<'p>, op: AccessOp, shadow: Shadow, how: &str) {
        if shadow.is_clean() {
            return;
        }
        let who = self.who(env, thread);
        if let Some(watch) = self.watch.as_mut() {
            watch.used(who, op, shadow, how);
        }
    }

    /// Executes a load, store or atomic operation that is watched.
    pub(crate) fn watched_memory(
        &mut self,
        env: &mut Env,
        thread: &mut Thread<'p>,
        node: &'p InstNode,
    ) -> Result<(), FaultKind> {
        let (space, addr, offset, size, op, sem, scope) = match &node.data {
            InstData::Load {
                space,
                sem,
                scope,
                ty,
                addr,
                offset,
                ..
            } => {
                let size = ty.bytes() * node.results.len() as u32;
                (*space, *addr, *offset, size, AccessOp::Load, *sem, *scope)
            }
            InstData::Store {
                space,
                sem,
                scope,
                ty,
                addr,
                offset,
                args,
            } => {
                let size = ty.bytes() * args.len() as u32;
                (*space, *addr, *offset, size, AccessOp::Store, *sem, *scope)
            }
            InstData::Atomic {
                fmt,
                space,
                sem,
                scope,
                addr,
                offset,
                ..
            } => {
                let size = fmt.ty().bytes();
                (*space, *addr, *offset, size, AccessOp::Atomic, *sem, *scope)
            }
            other => unreachable!("{other:?} does not access memory"),
        };
        let address = Address {
            space,
            base: thread.frame().window_offset(addr),
            offset,
        };
        let generic = self.generic(address);
        let shadow = thread.frame().shadow(addr);
        self.used(env, thread, op, shadow, "takes for an address");
        let mut before = [0; MOST];
        let len = (size as usize).min(MOST);
        let is_write = op != AccessOp::Load;
        let readable = is_write && self.read_at(thread, generic, &mut before[..len]).is_ok();
        let mut states = [byte::WRITTEN; MOST];
        self.states(env, thread, generic, &mut states[..len]);
        self.memory_inst(thread, node)?;
        let mut keeps = false;
        if readable {
            let mut after = [0; MOST];
            let _ = self.read_at(thread, generic, &mut after[..len]);
            keeps = before[..len] == after[..len];
            if !keeps {
                self.progress += 1;
            }
        }
        let is_change = is_write && !keeps;
        keeps &= states[..len].iter().all(|&state| state == byte::WRITTEN) && op == AccessOp::Store;
        let region = self.region(generic);
        let place = match region {
            Region::Shared(_, at) if at > MOST_WINDOW => None,
            Region::Shared(cta, at) => Some((Some(cta), at)),
            Region::Device => Some((None, generic)),
            Region::Local(_) | Region::ReadOnly => None,
        };
        let who = self.who(env, thread);
        if let (true, Region::Device, Some(watch)) = (is_change, region, self.watch.as_mut()) {
            let is_float = matches!(&node.data, InstData::Atomic { fmt, .. } if fmt.is_float());
            watch.wrote(who, (generic, size.into()), op, is_float);
        }
        if let (Some((shared_of, addr)), Some(watch)) = (place, self.watch.as_mut()) {
            watch.access(
                who,
                Accessed {
                    shared_of,
                    addr,
                    size,
                    op,
                    sem,
                    scope,
                    keeps,
                },
            );
        }
        if self.watches_values() {
            self.define_by_memory(env, thread, node, (who, region, generic), &states[..len]);
        } else if is_write {
            self.set_states(env, thread, generic, &[byte::WRITTEN; MOST][..len]);
        }
        Ok(())
    }

    /// What was written comes from memory into registers, or the other way.
    fn define_by_memory(
        &mut self,
        env: &mut Env,
        thread: &mut Thread<'p>,
        node: &'p InstNode,
        (who, region, generic): (Who, Region, u64),
        states: &[u8],
    ) {
        match &node.data {
            InstData::Load { ty, .. } => {
                let used = self
                    .watch
                    .as_mut()
                    .and_then(|watch| watch.take_used_bytes(&who));
                let mut states = states.to_vec();
                for (idx, state) in states.iter_mut().enumerate() {
                    if used.is_some_and(|used| used >> idx & 1 == 0) {
                        *state = byte::WRITTEN;
                    }
                }
                if states.iter().all(|&state| state == byte::WRITTEN) {
                    return;
                }
                let shadow = self.from_memory(who, AccessOp::Load, region, generic);
                let size = ty.bytes() as usize;
                for (&result, states) in node.results.iter().zip(states.chunks(size)) {
                    thread
                        .frame()
                        .set_shadow(result, with_states(shadow, states));
                }
            }
            InstData::Store { ty, args, .. } => {
                let frame = thread.frame();
                let shadows: Vec<Shadow> = args.iter().map(|&arg| frame.shadow(arg)).collect();
                let new: Vec<u8> = shadows
                    .iter()
                    .flat_map(|shadow| states_of(shadow, ty.bytes()))
                    .collect();
                self.set_states(env, thread, generic, &new);
                let is_computed = new.contains(&byte::SPOILT);
                let is_empty = !new.contains(&byte::WRITTEN);
                if region == Region::Device && (is_computed || is_empty) {
                    let bad = shadows.iter().find(|shadow| !shadow.is_clean());
                    let bad = bad.copied().unwrap_or_default();
                    self.used(env, thread, AccessOp::Store, bad, "stores to global memory");
                }
            }
            InstData::Atomic { op, args, .. } => {
                for &arg in args {
                    let shadow = thread.frame().shadow(arg);
                    self.used(env, thread, AccessOp::Atomic, shadow, "updates memory with");
                }
                if states.iter().any(|&state| state != byte::WRITTEN) {
                    let shadow = self.from_memory(who, AccessOp::Atomic, region, generic);
                    let shadow = with_states(shadow, states);
                    if *op == AtomicOp::Exch {
                        thread.frame().set_shadow(node.results[0], shadow);
                    } else {
                        self.used(env, thread, AccessOp::Atomic, shadow, "updates");
                    }
                    self.set_states(env, thread, generic, &vec![byte::WRITTEN; states.len()]);
                }
            }
            _ => {}
        }
    }

    fn from_memory(&mut self, who: Who, op: AccessOp, region: Region, generic: u64) -> Shadow {
        let allocation = self.memory.allocation(generic);
        let Some(watch) = self.watch.as_mut() else {
            return Shadow::NONE;
        };
        let (space, address, object) = match region {
            Region::Shared(_, at) => (Space::Shared, at, watch.object(true, at, None)),
            Region::Local(at) => (Space::Local, at, None),
            Region::Device | Region::ReadOnly => (
                Space::Global,
                generic,
                watch.object(false, generic, allocation),
            ),
        };
        let kind = FindingKind::UninitializedRead;
        let origin = watch.origin(who, op, kind, (space, Some(address), object));
        Shadow {
            bits: 0,
            origin,
            computed: false,
        }
    }

    /// The shadow of what an instruction without memory computes.
    pub(crate) fn define(
        &mut self,
        thread: &mut Thread<'p>,
        node: &'p InstNode,
        args: &[u64],
        shadows: &[Shadow],
    ) {
        let shadow = shadow::propagate(&node.data, args, shadows);
        if let Some(&result) = node.results.first() {
            thread.frame().set_shadow(result, shadow);
        }
    }

    /// A branch depends on a value.
    pub(crate) fn watch_terminator(
        &mut self,
        env: &Env,
        thread: &mut Thread<'p>,
        term: &Terminator,
    ) {
        let (value, mask): (Value, u64) = match term {
            Terminator::Brif { cond, .. } => (*cond, 1),
            Terminator::Switch { index, .. } => (*index, u64::MAX),
            _ => return,
        };
        let mut shadow = thread.frame().shadow(value);
        shadow.bits &= mask;
        self.used(env, thread, AccessOp::Branch, shadow, "branches on");
    }

    /// Operands of a barrier or a warp operation.
    pub(crate) fn watch_wait(&mut self, env: &Env, thread: &mut Thread<'p>, node: &InstNode) {
        use ptxjit_ir::WarpOp;
        let frame = thread.frame();
        let shadows = node
            .data
            .args()
            .iter()
            .map(|&arg| frame.shadow(arg))
            .collect();
        thread.waiting_shadows = shadows;
        let is_moved = matches!(
            &node.data,
            InstData::Warp {
                op: WarpOp::ShflUp
                    | WarpOp::ShflDown
                    | WarpOp::ShflBfly
                    | WarpOp::ShflIdx
                    | WarpOp::Transpose
                    | WarpOp::Mma(_),
                ..
            }
        );
        let used: Vec<Shadow> = thread.waiting_shadows.to_vec();
        for shadow in used.into_iter().skip(usize::from(is_moved)) {
            if !matches!(
                &node.data,
                InstData::Warp {
                    op: WarpOp::Mma(_),
                    ..
                }
            ) {
                self.used(env, thread, AccessOp::Warp, shadow, "brings to the others");
            }
        }
    }

    /// Adds a finding about a thread.
    pub(crate) fn misuse(
        &mut self,
        who: Who,
        kind: FindingKind,
        severity: Severity,
        (op, text): (AccessOp, String),
    ) {
        if let Some(watch) = self.watch.as_mut() {
            let access = watch.access_of(&who, op);
            let message = format!("{} {text}", watch.by(&who));
            watch.add(Finding::new(kind, severity, message, vec![access]));
        }
    }
}

/// Where a generic address leads.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Region {
    /// In the shared memory of the CTA of this number, at this offset.
    Shared(u32, u64),
    /// An offset in the thread's local memory.
    Local(u64),
    Device,
    /// Constants and parameters.
    ReadOnly,
}

fn with_states(shadow: Shadow, states: &[u8]) -> Shadow {
    let bits = states
        .iter()
        .take(8)
        .enumerate()
        .fold(0, |bits, (idx, &state)| match state {
            byte::WRITTEN => bits,
            _ => bits | 0xff << (8 * idx),
        });
    Shadow {
        bits,
        computed: states.contains(&byte::SPOILT),
        ..shadow
    }
}

fn states_of(shadow: &Shadow, bytes: u32) -> impl Iterator<Item = u8> + use<> {
    let shadow = *shadow;
    (0..bytes).map(
        move |idx| match (shadow.bits >> (8 * idx) & 0xff, shadow.computed) {
            (0, _) => byte::WRITTEN,
            (_, false) => byte::UNDEFINED,
            (_, true) => byte::SPOILT,
        },
    )
}
