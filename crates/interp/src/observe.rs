//! What the interpreter tells those who watch: accesses with their meaning, definitions with their
//! shadows, marks.

use std::hash::Hasher;

use ptxjit_ir::{AtomicOp, InstData, InstNode, Space, Terminator, Value};
use rustc_hash::FxHasher;
use smallvec::SmallVec;

use crate::access::Address;
use crate::fault::FaultKind;
use crate::launch::Machine;
use crate::schedule::Env;
use crate::thread::Thread;
use crate::watch::finding::{AccessOp, Finding, FindingKind, Severity};
use crate::watch::shadow::{self, Shadow};
use crate::watch::{Accessed, Who, WordKey, byte};

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
            site: watch.map_or(0, |watch| match calls.is_empty() {
                true => watch.kernel_site(thread.loc),
                false => watch.site(thread.loc, calls),
            }),
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

    /// Finds a thread that comes again to where it was, with the same values, while nothing has
    /// changed: it will do so forever.
    pub(crate) fn look_for_spinning(&mut self, thread: &mut Thread<'p>) {
        thread.spin.steps += 1;
        let steps = thread.spin.steps;
        if self.watch.is_none() || !steps.is_multiple_of(64) && thread.spin.seen.is_none() {
            return;
        }
        // Something has changed: whatever it comes to is no waste. Hashing costs more than all else
        // here.
        if thread
            .spin
            .seen
            .is_some_and(|(.., progress)| progress != self.progress)
        {
            thread.spin.seen = None;
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

    /// Bytes are going to be copied: what is known of them goes with them.
    pub(crate) fn copy_states(
        &mut self,
        (env, thread): (&Env, &Thread<'p>),
        (to, from): (u64, u64),
        len: usize,
    ) {
        if self.watches_values() {
            let mut states = vec![byte::WRITTEN; len];
            self.states(env, thread, from, &mut states);
            self.set_states(env, thread, to, &states);
        }
    }

    /// Whether memory holds these bytes already, as something that was written.
    pub(crate) fn is_there(
        &mut self,
        env: &Env,
        thread: &Thread<'p>,
        (addr, bytes): (u64, &[u8]),
    ) -> bool {
        let (mut old, mut states) = (vec![0; bytes.len()], vec![byte::WRITTEN; bytes.len()]);
        self.states(env, thread, addr, &mut states);
        let read = self.read_at(thread, addr, &mut old);
        read.is_ok() && old == bytes && states.iter().all(|&state| state == byte::WRITTEN)
    }

    /// Bytes are printed.
    pub(crate) fn printed(&mut self, env: &Env, thread: &Thread<'p>, (addr, len): (u64, usize)) {
        if !self.watches_values() {
            return;
        }
        let mut states = vec![byte::WRITTEN; len];
        self.states(env, thread, addr, &mut states);
        if states.iter().any(|&state| state != byte::WRITTEN) {
            let (who, region) = (self.who(env, thread), self.region(addr));
            let shadow = with_states(self.from_memory(who, AccessOp::Load, region, addr), &states);
            self.used(env, thread, AccessOp::Load, shadow, "prints");
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
        let (mut keeps, mut changed) = (false, [0xff; MOST]);
        if readable {
            let _ = self.read_at(thread, generic, &mut changed[..len]);
            keeps = before[..len] == changed[..len];
            if !keeps {
                self.progress += 1;
            }
            for (byte, before) in changed.iter_mut().zip(&before) {
                *byte ^= before;
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
        if let Some((shared_of, addr)) = place {
            let accessed = Accessed {
                shared_of,
                addr,
                size,
                op,
                sem,
                scope,
                keeps,
            };
            let who = self.who(env, thread);
            if let Some(watch) = self.watch.as_mut() {
                if is_change && region == Region::Device {
                    let is_float =
                        matches!(&node.data, InstData::Atomic { fmt, .. } if fmt.is_float());
                    watch.wrote(who, (generic, size.into()), op, is_float);
                }
                watch.access(who, accessed);
            }
        }
        if self.watches_values() {
            let states = (&states[..len], &changed[..len]);
            self.define_by_memory(env, thread, node, (region, generic), states);
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
        (region, generic): (Region, u64),
        (states, changed): (&[u8], &[u8]),
    ) {
        match &node.data {
            InstData::Load { ty, .. } => {
                let watch = self.watch.as_mut();
                let used = watch.and_then(|watch| watch.take_used_bytes(env.cta, thread.linear));
                if states.iter().all(|&state| state == byte::WRITTEN) {
                    return;
                }
                let who = self.who(env, thread);
                let mut states: SmallVec<[u8; MOST]> = SmallVec::from_slice(states);
                for (idx, state) in states.iter_mut().enumerate() {
                    if used.is_some_and(|used| used >> idx & 1 == 0) {
                        *state = byte::WRITTEN;
                    }
                }
                if states.iter().all(|&state| state == byte::WRITTEN) {
                    return;
                }
                let mut at = generic;
                let results = node.results.iter();
                for (&result, states) in results.zip(states.chunks(ty.bytes() as usize)) {
                    if states.iter().any(|&state| state != byte::WRITTEN) {
                        let shadow = self.from_memory(who, AccessOp::Load, region, at);
                        let shadow = with_states(shadow, states);
                        thread.frame().set_shadow(result, shadow);
                    }
                    at += u64::from(ty.bytes());
                }
            }
            InstData::Store { ty, args, .. } => {
                let frame = thread.frame();
                let shadows: SmallVec<[Shadow; 4]> =
                    args.iter().map(|&arg| frame.shadow(arg)).collect();
                if shadows.iter().all(Shadow::is_clean) {
                    let written = [byte::WRITTEN; MOST];
                    if states.iter().any(|&state| state != byte::WRITTEN) {
                        self.set_states(env, thread, generic, &written[..states.len()]);
                    }
                    return;
                }
                let who = self.who(env, thread);
                let mut new: SmallVec<[u8; 16]> = SmallVec::new();
                for (idx, shadow) in shadows.iter().enumerate() {
                    let first = idx * ty.bytes() as usize;
                    new.extend((0..ty.bytes() as usize).map(|at| {
                        let idx = first + at;
                        state_of(shadow, at, (states[idx], changed[idx]))
                    }));
                    self.keep_origin(who, region, generic + first as u64, (shadow, ty.bytes()));
                }
                self.set_states(env, thread, generic, &new);
                let is_computed = new.contains(&byte::SPOILT);
                let is_empty = new.iter().all(|&state| state == byte::UNDEFINED);
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
                    let who = self.who(env, thread);
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

    /// Remembers where something came from that was never written and is stored now.
    fn keep_origin(&mut self, who: Who, region: Region, at: u64, (shadow, size): (&Shadow, u32)) {
        if let (false, Some(watch)) = (shadow.is_clean(), self.watch.as_mut()) {
            for word in (0..u64::from(size)).step_by(4) {
                watch.set_origin(word_key(who, region, at + word), shadow.origin);
            }
        }
    }

    fn from_memory(&mut self, who: Who, op: AccessOp, region: Region, generic: u64) -> Shadow {
        let stored = self.watch.as_ref();
        let key = word_key(who, region, generic);
        if let Some(origin) = stored.and_then(|watch| watch.origin_at(key)) {
            return Shadow {
                origin,
                ..Shadow::NONE
            };
        }
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

/// The word at a generic address. A region says where an access begins, the address may be further
/// on.
fn word_key(who: Who, region: Region, generic: u64) -> WordKey {
    let memory = match region {
        Region::Device | Region::ReadOnly => 0,
        Region::Shared(cta, _) => 1 + 2 * u64::from(cta),
        Region::Local(_) => 2 + 2 * (u64::from(who.cta) << 11 | u64::from(who.thread)),
    };
    (memory, generic / 4)
}

fn with_states(shadow: Shadow, states: &[u8]) -> Shadow {
    let bits = states
        .iter()
        .take(8)
        .enumerate()
        .fold(0, |bits, (idx, &state)| match state {
            byte::SPOILT => bits | 0xff << (8 * idx),
            state => bits | u64::from(state) << (8 * idx),
        });
    Shadow {
        bits,
        computed: states.contains(&byte::SPOILT),
        ..shadow
    }
}

/// The state of a byte that a value with this shadow is stored to; `old` and `changed` are its
/// state and the bits that change. Bits that were never written and stay as they are, beside a
/// field of bits that is written, are not computed from anything.
fn state_of(shadow: &Shadow, idx: usize, (old, changed): (u8, u8)) -> u8 {
    let bits = (shadow.bits >> (8 * idx)) as u8;
    let stays = old != byte::SPOILT && old & bits == bits && changed & bits == 0;
    match (bits, shadow.computed && !stays) {
        (0, _) => byte::WRITTEN,
        (_, true) => byte::SPOILT,
        (byte::SPOILT, false) => byte::UNDEFINED,
        (bits, false) => bits,
    }
}
