//! The accesses of a walk, and what of them must be checked when the code runs.

use ptxjit_ir::{Inst, Space};
use rustc_hash::{FxHashMap, FxHashSet};

use super::covered::Covered;
use super::form::{DIGITS, Form};
use super::region::Region;
use super::{Facts, Need, Needs, Unproven, pairs};
use crate::screen::access::{Access, Kind};

/// Accesses that are compared for one launch; a walk that meets more ends without a proof.
const MOST_ENTRIES: usize = 20_000;

/// Pairs of them that are looked at in detail.
const MOST_PAIRS: usize = 100_000;

/// What tells accesses apart: instruction, address, least and greatest digits of the threads, the
/// range that their limits leave, and the interval.
type Key = (Inst, Form, [[i64; DIGITS]; 2], (i128, i128), u32);

/// An access as the walk reaches it.
pub(super) struct Made {
    pub(super) inst: Inst,
    pub(super) access: Access,
    /// The address, if it is known as an integer.
    pub(super) form: Option<Form>,
    pub(super) near: u32,
    pub(super) is_noncoherent: bool,
    pub(super) interval: u32,
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
    pub(super) interval: u32,
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
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Bound {
    Object(u32),
    Several,
}

impl Log {
    pub(super) fn add(
        &mut self,
        facts: &Facts<'_>,
        covered: &mut Covered,
        made: Made,
        region: &Region,
    ) -> Result<(), Unproven> {
        let form = made.form.unwrap_or(Form::unknown(64));
        let key = Form {
            near: made.near,
            ..form
        };
        let (min, max) = region.bounds(&form);
        let digits = [region.lo, region.hi];
        let key = (made.inst, key, digits, (min, max), made.interval);
        let is_new = self.seen.insert(key);
        let Access {
            kind, space, bytes, ..
        } = made.access;
        let is_shared = space == Space::Shared;
        let end = max + i128::from(bytes);
        let is_inside = made.form.is_some() && facts.object(is_shared, min, end).is_some();
        if is_shared && is_inside {
            if kind != Kind::Store && facts.wanted.init && !covered.holds(&form, region, bytes) {
                self.unread.insert(made.inst);
            }
            if kind == Kind::Store {
                covered.store(&form, region, bytes, &facts.shape);
            }
        }
        if !is_new {
            return Ok(());
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
            interval: made.interval,
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
        self.entries.push(entry);
        Ok(())
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
    pub(super) fn needs(mut self, facts: &Facts<'_>) -> Needs {
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
            self.races(facts, &mut needs);
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
        Needs {
            sites,
            is_clean,
            written: self.written,
        }
    }

    /// Finds accesses that may be in conflict.
    fn races(&mut self, facts: &Facts<'_>, needs: &mut FxHashMap<Inst, Need>) {
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
        self.entries.sort_by_key(|it| (it.is_shared, it.min));
        let mut n_pairs = 0;
        for (idx, a) in self.entries.iter().enumerate() {
            for b in &self.entries[idx..] {
                if b.is_shared != a.is_shared || b.min >= a.end {
                    break;
                }
                if a.kind == Kind::Load && b.kind == Kind::Load {
                    continue;
                }
                let both = is_flagged.contains(&a.inst) && is_flagged.contains(&b.inst);
                n_pairs += 1;
                if !both && (n_pairs > MOST_PAIRS || pairs::conflict(a, b, &facts.shape)) {
                    flag(a.inst);
                    flag(b.inst);
                    is_flagged.insert(a.inst);
                    is_flagged.insert(b.inst);
                }
            }
        }
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
