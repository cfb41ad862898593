//! Whether two accesses of threads may touch the same bytes with nothing to order them.
//!
//! The difference of the two addresses is a sum of terms, each a constant times a digit of one
//! thread, or times the difference of a digit of the two. A search through the terms, greatest
//! constant first, enters only what the rest can still bring to an overlap; addresses that count
//! like numbers in some mixed base leave it hardly any choice. It is exact but for the parts of
//! addresses that are not known, and for limits that are no ranges of digits.

use super::Shape;
use super::copies::is_within;
use super::form::{DIGITS, Form};
use super::log::{Entry, Sync};
use super::tables::Tables;
use crate::screen::access::Kind;

/// Steps of the search for a pair. More than that is no proof.
const MOST_STEPS: u32 = 5_000;

/// Pairs of threads: which of their digits may differ, and which must for the pair to matter.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Who {
    /// Any two, also one and the same.
    Any,
    /// One and the same.
    Same,
    /// Two threads.
    Threads,
    /// Two threads of one CTA.
    SameCta,
    /// Threads of two warps.
    Warps,
    /// Threads of two warps of one CTA.
    WarpsOfCta,
    /// Threads of two CTAs.
    Ctas,
}

/// Places that are looked at one by one for a pair of accesses: more than any CTA has threads.
const MOST_PLACES: usize = 1 << 14;

/// Pairs of places that are looked at for each of them: so many lanes of a warp read one place.
const MOST_OF_PLACE: usize = 64;

/// What pairs are judged by.
pub(super) struct Context<'a> {
    pub(super) shape: &'a Shape,
    pub(super) tables: &'a Tables,
    pub(super) syncs: &'a [Sync],
}

struct Term {
    c: i128,
    lo: i128,
    hi: i128,
    /// Not zero only for two different threads.
    parts: bool,
}

struct Search {
    terms: Vec<Term>,
    /// Least and greatest sum of the terms from each on.
    rest: Vec<(i128, i128)>,
    /// Differences at which bytes overlap.
    low: i128,
    high: i128,
    steps: u32,
}

impl Context<'_> {
    /// Whether the two may conflict.
    pub(super) fn conflict(&self, a: &Entry, b: &Entry) -> bool {
        let reads = |it: &Entry| it.kind == Kind::Load;
        let (both_read, both_atomic) = (
            reads(a) && reads(b),
            a.kind == Kind::Atomic && b.kind == Kind::Atomic,
        );
        if both_read || both_atomic || !a.overlaps(b) {
            return false;
        }
        if a.is_noncoherent || b.is_noncoherent {
            return self.overlap(a, b, Who::Any);
        }
        let meet = |idx: usize| {
            let of = |it: &Entry| [it.at.interval, it.at.step][idx];
            of(a) <= b.over[idx] && of(b) <= a.over[idx]
        };
        let is_copied = a.at.is_copy || b.at.is_copy;
        // A copy goes on beside its own thread, and beside copies of other iterations.
        let is_one = std::ptr::eq(a, b) && a.at.is_once;
        if is_copied && !is_one && meet(1) && self.overlap(a, b, Who::Same) {
            return true;
        }
        let who = match (meet(0), !is_copied && self.is_synced(a, b)) {
            (true, true) if a.is_shared => Who::WarpsOfCta,
            (true, true) => Who::Warps,
            (true, false) if a.is_shared => Who::SameCta,
            (true, false) => Who::Threads,
            (false, _) if a.is_shared => return false,
            (false, _) => Who::Ctas,
        };
        self.overlap(a, b, who)
    }

    /// Whether all threads of both have waited for their warps in between.
    fn is_synced(&self, a: &Entry, b: &Entry) -> bool {
        let (from, to) = (a.at.step.min(b.at.step), a.at.step.max(b.at.step));
        // Steps of syncs ascend.
        let first = self.syncs.partition_point(|sync| sync.step < from);
        let between = self.syncs[first..].iter().take_while(|sync| sync.step < to);
        let mut waited = between.filter(|sync| {
            [a, b]
                .iter()
                .all(|it| is_within([&it.lo, &it.hi], [&sync.lo, &sync.hi]))
        });
        self.shape.lanes.is_some() && waited.next().is_some()
    }

    /// Whether two threads of the kind may touch the same bytes.
    fn overlap(&self, a: &Entry, b: &Entry, who: Who) -> bool {
        let has_tables = a.form.has_table() || b.form.has_table();
        let in_cta = matches!(who, Who::Same | Who::SameCta | Who::WarpsOfCta);
        if has_tables
            && in_cta
            && let Some(found) = self.overlap_by_place(a, b, who)
        {
            return found;
        }
        overlap(a, b, who, self.shape)
    }

    /// The same by the places of each thread of a CTA, if these are not too many.
    fn overlap_by_place(&self, a: &Entry, b: &Entry, who: Who) -> Option<bool> {
        let places = |it: &Entry| {
            let most = (self.shape, MOST_PLACES);
            self.tables.places(&it.form, [&it.lo, &it.hi], most)
        };
        let (of_a, mut of_b) = (places(a)?, places(b)?);
        of_b.sort_unstable();
        let mut n_steps = 0;
        for (at, thread) in of_a {
            let first = of_b.partition_point(|&(other, _)| other + i128::from(b.size) <= at);
            for &(other, of) in &of_b[first..] {
                if other >= at + i128::from(a.size) {
                    break;
                }
                n_steps += 1;
                let matters = match who {
                    Who::Same => of == thread,
                    Who::WarpsOfCta => of / 32 != thread / 32,
                    Who::SameCta => of != thread,
                    Who::Any | Who::Threads | Who::Warps | Who::Ctas => true,
                };
                if matters || n_steps > MOST_PLACES * MOST_OF_PLACE {
                    return Some(true);
                }
            }
        }
        Some(false)
    }
}

/// Whether two threads of the kind may touch the same bytes, by their digits.
fn overlap(a: &Entry, b: &Entry, who: Who, shape: &Shape) -> bool {
    let mut terms = Vec::new();
    let mut parted = matches!(who, Who::Any | Who::Same);
    let lanes = shape.lanes.unwrap_or([false; DIGITS]);
    for (idx, &is_lane) in lanes.iter().enumerate() {
        let of_cta = shape.is_cta[idx];
        let [of_a, of_b] =
            [(a, idx), (b, idx)].map(|(it, idx)| [it.lo[idx], it.hi[idx]].map(i128::from));
        let (ca, cb) = (i128::from(a.form.c[idx]), i128::from(b.form.c[idx]));
        let is_same = match who {
            Who::Same => true,
            Who::SameCta | Who::WarpsOfCta => of_cta,
            Who::Any | Who::Threads | Who::Warps | Who::Ctas => false,
        };
        if is_same {
            let (lo, hi) = (of_a[0].max(of_b[0]), of_a[1].min(of_b[1]));
            if lo > hi {
                return false;
            }
            terms.push(term(ca - cb, lo, hi, false));
            continue;
        }
        let matters = match who {
            Who::Ctas => of_cta,
            Who::Warps | Who::WarpsOfCta => !is_lane,
            Who::Any | Who::Same | Who::Threads | Who::SameCta => true,
        };
        let is_one = of_a[0] == of_a[1] && of_a == of_b;
        if ca == cb && ca != 0 {
            terms.push(term(ca, of_a[0] - of_b[1], of_a[1] - of_b[0], matters));
        } else {
            terms.push(term(ca, of_a[0], of_a[1], false));
            terms.push(term(-cb, of_b[0], of_b[1], false));
            parted |= matters && !is_one;
        }
    }
    let (mut low, mut high) = (1 - i128::from(a.size), i128::from(b.size) - 1);
    let base = a.form.lo - b.form.lo;
    // Numbers far apart are terms of their own, others just blur the addresses.
    let mut spread = |form: &Form, sign: i128| {
        let width = form.hi - form.lo;
        if form.step > i128::from(a.size.max(b.size)) {
            terms.push(term(sign * form.step, 0, width / form.step, false));
        } else if sign > 0 {
            low -= width;
        } else {
            high += width;
        }
    };
    spread(&a.form, 1);
    spread(&b.form, -1);
    // What is known of single threads only may be anything in its range here.
    low -= i128::from(a.form.table.top);
    high += i128::from(b.form.table.top);
    terms.retain(|it| it.c != 0);
    terms.sort_by_key(|it| std::cmp::Reverse(it.c.abs()));
    let mut search = Search {
        rest: vec![(0, 0); terms.len() + 1],
        terms,
        low,
        high,
        steps: 0,
    };
    for idx in (0..search.terms.len()).rev() {
        let Term { c, lo, hi, .. } = search.terms[idx];
        let (min, max) = ((c * lo).min(c * hi), (c * lo).max(c * hi));
        let rest = search.rest[idx + 1];
        search.rest[idx] = (rest.0 + min, rest.1 + max);
    }
    search.finds(0, base, parted)
}

fn term(c: i128, lo: i128, hi: i128, parts: bool) -> Term {
    Term { c, lo, hi, parts }
}

impl Search {
    /// Whether the terms from one on can bring the sum to an overlap, for two different threads.
    fn finds(&mut self, idx: usize, sum: i128, parted: bool) -> bool {
        self.steps += 1;
        if self.steps > MOST_STEPS {
            return true;
        }
        let Some(&Term { c, lo, hi, parts }) = self.terms.get(idx) else {
            return parted && sum >= self.low && sum <= self.high;
        };
        // The next sum must lie where the rest reaches an overlap.
        let (min, max) = self.rest[idx + 1];
        let (from, to) = (self.low - max - sum, self.high - min - sum);
        let (first, last) = match c > 0 {
            true => (ceil(from, c), to.div_euclid(c)),
            false => (ceil(-to, -c), (-from).div_euclid(-c)),
        };
        let (first, last) = (first.max(lo), last.min(hi));
        let mut value = first;
        while value <= last {
            if self.finds(idx + 1, sum + c * value, parted || (parts && value != 0)) {
                return true;
            }
            value += 1;
        }
        false
    }
}

fn ceil(a: i128, by: i128) -> i128 {
    -(-a).div_euclid(by)
}
