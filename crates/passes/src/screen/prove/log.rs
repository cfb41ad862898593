//! The accesses of a walk, and what of them must be checked when the code runs.

use std::collections::{BTreeMap, BTreeSet};

use ptxjit_ir::{Inst, Space};
use rustc_hash::{FxHashMap, FxHashSet};

use super::copies::Pending;
use super::covered::Covered;
use super::form::{DIGITS, Form};
use super::region::Region;
use super::tables::Tables;
use super::{Facts, Need, Needs, Unproven, pairs};
use crate::screen::access::{Access, Kind};

/// Accesses that are compared for one launch; a walk that meets more ends without a proof.
const MOST_ENTRIES: usize = 20_000;

/// Pairs of them that are looked at in detail.
const MOST_PAIRS: usize = 100_000;

/// What tells accesses apart: instruction, address, least and greatest digits of the threads, the
/// range that their limits leave, the interval and the step.
type Key = (Inst, Form, [[i64; DIGITS]; 2], (i128, i128), [u32; 2]);

/// When an access happens, or begins to.
#[derive(Copy, Clone, Debug)]
pub(super) struct Moment {
    /// Barriers of the CTA before it.
    pub(super) interval: u32,
    /// See [`copies`](super::copies).
    pub(super) step: u32,
    /// It is one of a copy, and will be over when that is waited for.
    pub(super) is_copy: bool,
    /// It stands for one iteration of each loop around it.
    pub(super) is_once: bool,
}

/// A `bar.warp.sync` of all lanes of some warps.
#[derive(Debug)]
pub(super) struct Sync {
    /// The step that ends with it.
    pub(super) step: u32,
    pub(super) lo: [i64; DIGITS],
    pub(super) hi: [i64; DIGITS],
}

/// An access as the walk reaches it.
pub(super) struct Made {
    pub(super) inst: Inst,
    pub(super) access: Access,
    /// The address, if it is known as an integer.
    pub(super) form: Option<Form>,
    pub(super) near: u32,
    pub(super) is_noncoherent: bool,
    pub(super) at: Moment,
}

/// What some threads access in one go.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) inst: Inst,
    pub(super) kind: Kind,
    pub(super) is_noncoherent: bool,
    pub(super) is_shared: bool,
    /// The place is in none of the objects that are known.
    is_wild: bool,
    is_generic: bool,
    pub(super) form: Form,
    pub(super) size: u32,
    pub(super) lo: [i64; DIGITS],
    pub(super) hi: [i64; DIGITS],
    pub(super) at: Moment,
    /// Interval and step in which it is over.
    pub(super) over: [u32; 2],
    min: i128,
    end: i128,
}

impl Entry {
    pub(super) fn overlaps(&self, other: &Entry) -> bool {
        self.is_shared == other.is_shared && self.min < other.end && other.min < self.end
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Log {
    entries: Vec<Entry>,
    seen: FxHashSet<Key>,
    /// The object that an address is tested for.
    bounds: FxHashMap<Inst, Bound>,
    /// What is read may never have been written.
    unread: FxHashSet<Inst>,
    /// Bytes that the launch certainly writes, of memory that was not written before.
    written: Vec<(u64, u64)>,
    /// Memory is written that was not before, no one knows which bytes.
    notes: bool,
    /// The launch may fail by other than what is checked.
    pub(super) may_fail: bool,
    pub(super) syncs: Vec<Sync>,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Bound {
    Object(u32),
    Several,
}

impl Log {
    /// Adds an access; one of a copy is pending then.
    pub(super) fn add(
        &mut self,
        (facts, tables, covered): (&Facts<'_>, &Tables, &mut Covered),
        made: Made,
        region: &Region,
    ) -> Result<Option<Pending>, Unproven> {
        let form = made.form.unwrap_or(Form::unknown(64));
        let key = Form {
            near: made.near,
            ..form
        };
        let (min, max) = region.bounds(&form);
        let digits = [region.lo, region.hi];
        let at = made.at;
        let key = (made.inst, key, digits, (min, max), [at.interval, at.step]);
        // Each copy is over when it is waited for.
        let is_new = at.is_copy || self.seen.insert(key);
        let Access {
            kind, space, bytes, ..
        } = made.access;
        let is_shared = space == Space::Shared;
        let end = max + i128::from(bytes);
        let is_inside = made.form.is_some() && facts.object(is_shared, min, end).is_some();
        let mut store = None;
        if is_shared && is_inside {
            let by = (tables, &facts.shape);
            if kind != Kind::Store
                && facts.wanted.init
                && !covered.holds((&form, bytes), region, by)
            {
                self.unread.insert(made.inst);
            }
            if kind == Kind::Store {
                store = Covered::store(&form, region, bytes, &facts.shape);
            }
        }
        if !at.is_copy
            && let Some(store) = store.take()
        {
            covered.stored(store);
        }
        if !is_new {
            return Ok(None);
        }
        let mut entry = Entry {
            inst: made.inst,
            kind,
            is_noncoherent: made.is_noncoherent,
            is_shared,
            is_wild: false,
            is_generic: space == Space::Generic,
            form,
            size: bytes,
            lo: region.lo,
            hi: region.hi,
            at,
            over: match at.is_copy {
                true => [u32::MAX; 2],
                false => [at.interval, at.step],
            },
            min,
            end,
        };
        if !is_inside {
            self.bound(facts, &mut entry, &made);
        } else if !is_aligned(&form, region, bytes) {
            self.may_fail = true;
        }
        if facts.wanted.init && !(is_shared && is_inside) {
            self.init(facts, &entry, region, is_inside);
        }
        if self.entries.len() == MOST_ENTRIES {
            return Err(Unproven("it has too many accesses to compare"));
        }
        let entry_idx = self.entries.len();
        self.entries.push(entry);
        Ok(at.is_copy.then_some(Pending {
            entry: entry_idx,
            store,
        }))
    }

    /// An access of a copy is over.
    pub(super) fn completed(&mut self, entry: usize, interval: u32, step: u32) {
        self.entries[entry].over = [interval, step];
    }

    /// An address that is not known to lie in an object is tested for the one that it is meant for.
    fn bound(&mut self, facts: &Facts<'_>, entry: &mut Entry, made: &Made) {
        let object = made.near.checked_sub(1).filter(|_| !entry.is_shared);
        let Some(object) = object else {
            entry.is_wild = true;
            return;
        };
        let (start, size) = facts.blocks[object as usize];
        if size < entry.size.into() {
            entry.is_wild = true;
            return;
        }
        let (start, end) = (i128::from(start), i128::from(start) + i128::from(size));
        if made.form.is_none() {
            entry.form = Form::range(start, end - i128::from(entry.size), 1);
        }
        (entry.min, entry.end) = (entry.min.max(start), entry.end.min(end));
        let bound = self.bounds.entry(entry.inst);
        bound
            .and_modify(|it| {
                if *it != Bound::Object(object) {
                    *it = Bound::Several;
                }
            })
            .or_insert(Bound::Object(object));
    }

    /// Looks whether memory of the device that was not written before is read or written.
    fn init(&mut self, facts: &Facts<'_>, entry: &Entry, region: &Region, is_inside: bool) {
        if entry.is_shared {
            self.unread.insert(entry.inst);
            return;
        }
        let touches = |&(start, size): &(u64, u64)| {
            let (start, size) = (i128::from(start), i128::from(size));
            entry.is_wild || (entry.min < start + size && start < entry.end)
        };
        if !facts.unwritten.iter().any(touches) {
            return;
        }
        if entry.kind != Kind::Store {
            self.unread.insert(entry.inst);
        }
        let is_certain = is_inside
            && entry.kind == Kind::Store
            && region.exact
            && entry.form.is_exact()
            && is_dense(&entry.form, region, entry.size);
        match is_certain {
            true => self
                .written
                .push((entry.min as u64, (entry.end - entry.min) as u64)),
            false => self.notes |= entry.kind != Kind::Load,
        }
    }

    /// What must be checked when the code runs.
    pub(super) fn needs(
        mut self,
        facts: &Facts<'_>,
        tables: &Tables,
        copies: &FxHashSet<Inst>,
    ) -> Result<Needs, Unproven> {
        for entry in &mut self.entries {
            entry.is_wild |= self.bounds.get(&entry.inst) == Some(&Bound::Several);
            if facts.wanted.init && entry.may_read_unwritten(facts) {
                self.unread.insert(entry.inst);
            }
        }
        let mut needs: FxHashMap<Inst, Need> = FxHashMap::default();
        for &inst in &self.unread {
            needs.entry(inst).or_default().init = true;
        }
        if facts.wanted.race {
            self.races((facts, tables), &mut needs);
        }
        // Instrumented code knows no accesses but those of threads.
        if needs
            .iter()
            .any(|(inst, need)| need.race && copies.contains(inst))
        {
            return Err(Unproven(
                "its copies may be in conflict with other accesses",
            ));
        }
        for (&inst, &bound) in &self.bounds {
            let race = needs.entry(inst).or_default();
            if let Bound::Object(object) = bound {
                race.bounds = Some(facts.blocks[object as usize]);
            }
        }
        let init_of_shared = self.entries.iter().any(|entry| {
            let init = needs.get(&entry.inst).is_some_and(|it| it.init);
            init && (entry.is_shared || entry.is_wild)
        });
        let is_clean = needs.values().all(|it| *it == Need::default())
            && !self.may_fail
            && !self.notes
            && self.entries.iter().all(|entry| !entry.is_wild);
        if !is_clean {
            for entry in &self.entries {
                let kept = !entry.is_shared || init_of_shared;
                if entry.kind != Kind::Load && kept {
                    needs.entry(entry.inst).or_default().note = true;
                }
            }
        }
        needs.retain(|_, need| *need != Need::default());
        let mut sites: Vec<(Inst, Need)> = needs.into_iter().collect();
        sites.sort_by_key(|it| it.0);
        Ok(Needs {
            sites,
            is_clean,
            stores: self.stores(facts),
            written: self.written,
        })
    }

    /// The allocations that are written. None if it is not known of all stores where they go: what
    /// fails a test for its bounds has been written nevertheless.
    fn stores(&self, facts: &Facts<'_>) -> Option<Vec<(u64, u64)>> {
        let mut blocks = BTreeSet::new();
        for entry in &self.entries {
            if entry.kind == Kind::Load || (entry.is_shared && !entry.is_wild) {
                continue;
            }
            if entry.is_wild || self.bounds.contains_key(&entry.inst) {
                return None;
            }
            blocks.insert(facts.blocks[facts.object(false, entry.min, entry.end)?]);
        }
        Some(blocks.into_iter().collect())
    }

    /// Finds accesses that may be in conflict.
    fn races(&mut self, (facts, tables): (&Facts<'_>, &Tables), needs: &mut FxHashMap<Inst, Need>) {
        let mut flag = |inst: Inst| needs.entry(inst).or_default().race = true;
        let mut is_flagged: FxHashSet<Inst> = FxHashSet::default();
        let wild: Vec<&Entry> = self.entries.iter().filter(|it| it.is_wild).collect();
        for entry in &self.entries {
            let meets = |other: &&&Entry| {
                let reads = entry.kind == Kind::Load && other.kind == Kind::Load;
                let atomic = entry.kind == Kind::Atomic && other.kind == Kind::Atomic;
                // A generic address may be one of shared memory.
                let apart = entry.is_shared != other.is_shared
                    && !entry.may_be_shared()
                    && !other.may_be_shared();
                !reads && !atomic && !apart
            };
            for other in wild.iter().filter(meets) {
                flag(entry.inst);
                flag(other.inst);
            }
        }
        let context = pairs::Context {
            shape: &facts.shape,
            tables,
            syncs: &self.syncs,
        };
        let mut n_pairs = 0;
        for bucket in self.buckets() {
            for (idx, a) in bucket.iter().enumerate() {
                for b in bucket[idx..].iter().take_while(|b| b.min < a.end) {
                    if a.kind == Kind::Load && b.kind == Kind::Load {
                        continue;
                    }
                    let both = is_flagged.contains(&a.inst) && is_flagged.contains(&b.inst);
                    n_pairs += 1;
                    if !both && (n_pairs > MOST_PAIRS || context.conflict(a, b)) {
                        flag(a.inst);
                        flag(b.inst);
                        is_flagged.insert(a.inst);
                        is_flagged.insert(b.inst);
                    }
                }
            }
        }
    }

    /// Accesses that may be in conflict with each other, by their first bytes: those to device
    /// memory, and those to shared memory of each interval.
    fn buckets(&self) -> impl Iterator<Item = Vec<&Entry>> {
        let mut buckets: BTreeMap<Option<u32>, Vec<&Entry>> = BTreeMap::new();
        let last = self.entries.iter().map(|entry| entry.at.interval).max();
        for entry in &self.entries {
            if !entry.is_shared {
                buckets.entry(None).or_default().push(entry);
                continue;
            }
            for interval in entry.at.interval..=entry.over[0].min(last.unwrap_or(0)) {
                buckets.entry(Some(interval)).or_default().push(entry);
            }
        }
        buckets.into_values().map(|mut bucket| {
            bucket.sort_by_key(|it| it.min);
            bucket
        })
    }
}

impl Entry {
    /// Whether it reads from who knows where, and there is memory that may not have been written.
    fn may_read_unwritten(&self, facts: &Facts<'_>) -> bool {
        let has_shared = self.is_shared || (self.is_generic && !facts.shared.is_empty());
        let is_read = self.kind != Kind::Store && self.is_wild;
        is_read && (has_shared || !facts.unwritten.is_empty())
    }

    /// Whether the place may be in shared memory although the access is not one to it.
    fn may_be_shared(&self) -> bool {
        self.is_wild && !self.is_shared
    }
}

/// Whether all its addresses are multiples of the size.
pub(super) fn is_aligned(form: &Form, region: &Region, size: u32) -> bool {
    let mut rest = *form;
    for idx in 0..DIGITS {
        if region.lo[idx] == region.hi[idx] {
            rest.lo += i128::from(rest.c[idx]) * i128::from(region.lo[idx]);
            rest.c[idx] = 0;
        }
    }
    rest.is_multiple(size.into())
}

/// Whether threads leave no byte out between the first and the last that they access.
fn is_dense(form: &Form, region: &Region, size: u32) -> bool {
    if form.has_table() {
        return false;
    }
    let mut terms: Vec<(i128, i128)> = (0..DIGITS)
        .map(|idx| {
            let n = i128::from(region.hi[idx]) - i128::from(region.lo[idx]);
            (i128::from(form.c[idx]).abs(), n)
        })
        .filter(|&(c, n)| c != 0 && n != 0)
        .collect();
    terms.sort_unstable();
    let mut len = i128::from(size);
    terms.iter().all(|&(c, n)| {
        let fits = c <= len;
        len += c * n;
        fits
    })
}
