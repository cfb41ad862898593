//! Whether two accesses of threads may touch the same bytes with nothing to order them.
//!
//! The difference of the two addresses is a sum of terms, each a constant times a digit of one
//! thread, or times the difference of a digit of the two. A search through the terms, greatest
//! constant first, enters only what the rest can still bring to an overlap; addresses that count
//! like numbers in some mixed base leave it hardly any choice. It is exact but for the parts of
//! addresses that are not known, and for limits that are no ranges of digits.

use super::Shape;
use super::form::{DIGITS, Form};
use super::log::Entry;
use crate::screen::access::Kind;

/// Steps of the search for a pair. More than that is no proof.
const MOST_STEPS: u32 = 5_000;

/// What two threads may have in common.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Who {
    /// Any two, also one and the same.
    Any,
    /// Two threads.
    Threads,
    /// Two threads of one CTA.
    SameCta,
    /// Threads of two CTAs.
    Ctas,
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

/// Whether the two may conflict.
pub(super) fn conflict(a: &Entry, b: &Entry, shape: &Shape) -> bool {
    let reads = |it: &Entry| it.kind == Kind::Load;
    let (both_read, both_atomic) = (
        reads(a) && reads(b),
        a.kind == Kind::Atomic && b.kind == Kind::Atomic,
    );
    if both_read || both_atomic || !a.overlaps(b) {
        return false;
    }
    let who = if a.is_noncoherent || b.is_noncoherent {
        Who::Any
    } else if a.is_shared {
        match a.interval == b.interval {
            true => Who::SameCta,
            false => return false,
        }
    } else if a.interval == b.interval {
        Who::Threads
    } else {
        Who::Ctas
    };
    overlap(a, b, who, shape)
}

/// Whether two threads of the kind may touch the same bytes.
fn overlap(a: &Entry, b: &Entry, who: Who, shape: &Shape) -> bool {
    let mut terms = Vec::new();
    let mut parted = who == Who::Any;
    for idx in 0..DIGITS {
        let of_cta = shape.is_cta[idx];
        let [of_a, of_b] =
            [(a, idx), (b, idx)].map(|(it, idx)| [it.lo[idx], it.hi[idx]].map(i128::from));
        let (ca, cb) = (i128::from(a.form.c[idx]), i128::from(b.form.c[idx]));
        if who == Who::SameCta && of_cta {
            let (lo, hi) = (of_a[0].max(of_b[0]), of_a[1].min(of_b[1]));
            if lo > hi {
                return false;
            }
            terms.push(term(ca - cb, lo, hi, false));
            continue;
        }
        let matters = who != Who::Ctas || of_cta;
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
