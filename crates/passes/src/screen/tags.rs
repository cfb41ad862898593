//! What tags are compared with, and which tags an access leaves.

use ptxjit_ir::{CompareOp, MemSem, Type, Value};

use super::access::Kind;
use super::instrument::Instrument;
use super::place::{Place, Shared};
use super::prove::Need;

/// The tables, by their order in [`Params`](super::Params).
pub(super) const WRITERS: usize = 0;
pub(super) const READERS: usize = 1;
pub(super) const ATOMICS: usize = 2;

/// The tag of a granule of device memory that was never written, before any launch.
pub const UNWRITTEN: u32 = 1;

impl Instrument<'_> {
    /// Looks at `n` tags that lie side by side, and leaves its own.
    pub(super) fn tags(&mut self, kind: Kind, need: Need, place: &Place, n: u8) {
        let floor = self.emit.get(self.floor);
        let own = self.emit.add(floor, self.common.thread);
        if !need.race {
            return self.note_writes((kind, need), place, own, n);
        }
        let look = |pass: &mut Self, table: usize| {
            pass.emit
                .load_tags(MemSem::Weak, (place.tables[table], place.offset), n)
        };
        let mut others = vec![WRITERS];
        if kind != Kind::Load {
            others.push(READERS);
        }
        if kind != Kind::Atomic && self.facts.atomics {
            others.push(ATOMICS);
        }
        let mut bad = None;
        let mut writers = Vec::new();
        for table in others {
            let tags = look(self, table);
            for &tag in &tags {
                let conflict = self.conflicts(tag, (floor, own), place.is_shared);
                bad = Some(self.any(bad, conflict));
            }
            if table != READERS {
                writers.push(tags);
            }
        }
        if kind == Kind::Atomic {
            writers.push(look(self, ATOMICS));
        }
        if kind != Kind::Store && need.init {
            let unwritten = self.unwritten(&writers, place.is_shared);
            bad = Some(self.any(bad, unwritten));
        }
        let bad = match kind {
            Kind::Store => {
                let conflict = self.leave(place, own, n);
                Some(self.any(bad, conflict))
            }
            Kind::Load | Kind::Atomic => bad,
        };
        if let Some(bad) = bad {
            self.suspect_at(place, bad);
        }
        match kind {
            Kind::Load if self.facts.writes => self.join(place, READERS, (floor, own), n),
            Kind::Atomic => self.join(place, ATOMICS, (floor, own), n),
            Kind::Load | Kind::Store => {}
        }
    }

    /// Without a look at races: what is read must have been written, and writers leave their tags,
    /// by which memory can be put back.
    fn note_writes(&mut self, (kind, need): (Kind, Need), place: &Place, own: Value, n: u8) {
        if kind != Kind::Store && need.init {
            let tables: &[usize] = match self.facts.atomics {
                true => &[WRITERS, ATOMICS],
                false => &[WRITERS],
            };
            let mut writers = Vec::new();
            for &table in tables {
                let at = (place.tables[table], place.offset);
                writers.push(self.emit.load_tags(MemSem::Weak, at, n));
            }
            let unwritten = self.unwritten(&writers, place.is_shared);
            self.suspect_at(place, unwritten);
        }
        let table = match kind {
            Kind::Load => return,
            Kind::Store => WRITERS,
            Kind::Atomic => ATOMICS,
        };
        if need.note {
            let at = (place.tables[table], place.offset);
            self.emit.store_tags(at, &vec![own; n.into()]);
        }
    }

    /// Suspects an access if it counts.
    fn suspect_at(&mut self, place: &Place, mut bad: Value) {
        if let Some(counts) = place.counts {
            bad = self.emit.and(bad, counts);
        }
        self.suspect(bad);
    }

    fn any(&mut self, before: Option<Value>, cond: Value) -> Value {
        match before {
            Some(before) => self.emit.or(before, cond),
            None => cond,
        }
    }

    /// Whether an access is not ordered with the one that left `tag`.
    fn conflicts(&mut self, tag: Value, (floor, own): (Value, Value), shared: Shared) -> Value {
        let other = self.emit.compare(CompareOp::Ne, [tag, own]);
        let inside = |pass: &mut Self, low: Value, len: Value| {
            let from = pass.emit.sub(tag, low);
            pass.emit.compare(CompareOp::Ult, [from, len])
        };
        let in_shared = |pass: &mut Self| {
            let same = inside(pass, floor, pass.common.width);
            pass.emit.and(same, other)
        };
        let in_device = |pass: &mut Self| {
            let since = pass.emit.compare(CompareOp::Uge, [tag, floor]);
            let same = pass.emit.and(since, other);
            let earlier = inside(pass, pass.common.base, pass.common.before);
            pass.emit.or(same, earlier)
        };
        match shared {
            Shared::Known(true) => in_shared(self),
            Shared::Known(false) => in_device(self),
            Shared::If(cond) => {
                let args = [in_shared(self), in_device(self)];
                self.emit.select(cond, args)
            }
        }
    }

    /// Whether one of the granules was never written, by the tags of those who wrote each.
    fn unwritten(&mut self, writers: &[Vec<Value>], shared: Shared) -> Value {
        let mut bad = None;
        for idx in 0..writers[0].len() {
            let in_shared = |pass: &mut Self| {
                let mut written = None;
                for tags in writers {
                    let from = pass.emit.sub(tags[idx], pass.common.first);
                    let own = pass.emit.compare(CompareOp::Ult, [from, pass.common.chunk]);
                    written = Some(pass.any(written, own));
                }
                let written = written.expect("a table of writers");
                pass.emit.not(written)
            };
            let in_device = |pass: &mut Self| {
                let mark = pass.emit.iconst(Type::B32, UNWRITTEN.into());
                let mut bad = pass.emit.compare(CompareOp::Eq, [writers[0][idx], mark]);
                for tags in &writers[1..] {
                    let earlier = pass
                        .emit
                        .compare(CompareOp::Ult, [tags[idx], pass.common.base]);
                    bad = pass.emit.and(bad, earlier);
                }
                bad
            };
            let here = match shared {
                Shared::Known(true) => in_shared(self),
                Shared::Known(false) => in_device(self),
                Shared::If(cond) => {
                    let args = [in_shared(self), in_device(self)];
                    self.emit.select(cond, args)
                }
            };
            bad = Some(self.any(bad, here));
        }
        bad.expect("an access of some bytes")
    }

    /// Writes the own tag as that of the last writer; whether another lane did so, too.
    fn leave(&mut self, place: &Place, own: Value, n: u8) -> Value {
        let at = (place.tables[WRITERS], place.offset);
        self.emit.store_tags(at, &vec![own; n.into()]);
        let mut bad = None;
        for tag in self.emit.load_tags(MemSem::Weak, at, n) {
            let other = self.emit.compare(CompareOp::Ne, [tag, own]);
            bad = Some(self.any(bad, other));
        }
        bad.expect("an access of some bytes")
    }

    /// Becomes one of those whose accesses do not exclude each other.
    fn join(&mut self, place: &Place, table: usize, (floor, own): (Value, Value), n: u8) {
        let at = (place.tables[table], place.offset);
        let before = self.emit.load_tags(MemSem::Weak, at, n);
        let many = self.emit.add(floor, self.common.threads);
        let new: Vec<Value> = before
            .iter()
            .map(|&tag| self.joined(tag, (floor, own, many), place.is_shared))
            .collect();
        self.emit.store_tags(at, &new);
        // Of lanes that share a granule one has left its tag.
        let found = self.emit.load_tags(MemSem::Weak, at, n);
        let mut differs = None;
        for (&found, &new) in found.iter().zip(&new) {
            let other = self.emit.compare(CompareOp::Ne, [found, new]);
            differs = Some(self.any(differs, other));
        }
        let differs = differs.expect("an access of some bytes");
        self.branch(differs, |pass| {
            let tags: Vec<Value> = found
                .iter()
                .zip(&new)
                .map(|(&found, &new)| {
                    let same = pass.emit.compare(CompareOp::Eq, [found, new]);
                    pass.emit.select(same, [found, many])
                })
                .collect();
            pass.emit.store_tags(at, &tags);
        });
    }

    /// The tag of those who left `tag` and this thread together.
    fn joined(
        &mut self,
        tag: Value,
        (floor, own, many): (Value, Value, Value),
        shared: Shared,
    ) -> Value {
        let other = self.emit.compare(CompareOp::Ne, [tag, own]);
        let from = self.emit.sub(tag, floor);
        let now = self.emit.compare(CompareOp::Ult, [from, self.common.width]);
        let both = self.emit.and(now, other);
        let joined = self.emit.select(both, [many, own]);
        // A reader in another CTA is in conflict with every later writer: no writer is in the same
        // one.
        let elsewhere = match shared {
            Shared::Known(true) => return joined,
            Shared::Known(false) => None,
            Shared::If(cond) => Some(self.emit.not(cond)),
        };
        let launched = self.emit.compare(CompareOp::Uge, [tag, self.common.base]);
        let from = self.emit.sub(tag, self.common.first);
        let foreign = self.emit.compare(CompareOp::Uge, [from, self.common.chunk]);
        let mut foreign = self.emit.and(launched, foreign);
        if let Some(elsewhere) = elsewhere {
            foreign = self.emit.and(foreign, elsewhere);
        }
        self.emit.select(foreign, [tag, joined])
    }
}
