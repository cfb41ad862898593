//! Which bytes of shared memory have certainly been written.

use rustc_hash::FxHashSet;

use super::Shape;
use super::form::{DIGITS, Form};
use super::region::Region;
use super::tables::Tables;

/// Places that are looked at one by one for an access: more than any CTA has threads.
const MOST_PLACES: i128 = 1 << 14;

/// An access of some threads.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Use {
    form: Form,
    lo: [i64; DIGITS],
    hi: [i64; DIGITS],
    size: u32,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Covered {
    /// By byte of the window: written before the last barrier.
    bytes: Vec<bool>,
    /// Written since, each place by a thread that may not be the one that reads it.
    recent: Vec<Use>,
    /// Reads that were found covered, with the range that limits of their threads leave. They stay
    /// so.
    known: FxHashSet<(Use, (i128, i128))>,
}

impl Use {
    fn new(form: &Form, region: &Region, size: u32) -> Use {
        let form = Form { near: 0, ..*form };
        let (lo, hi) = (region.lo, region.hi);
        Use { form, lo, hi, size }
    }

    /// Calls `f` on each place, until it says no. No, too, if there are too many.
    fn each(&self, (tables, shape): (&Tables, &Shape), mut f: impl FnMut(i128) -> bool) -> bool {
        if self.form.has_table() {
            let most = (shape, MOST_PLACES as usize);
            let places = tables.places(&self.form, [&self.lo, &self.hi], most);
            return places.is_some_and(|places| places.into_iter().all(|(at, _)| f(at)));
        }
        let mut terms: Vec<(i128, i128)> = Vec::new();
        let mut start = self.form.lo;
        for idx in 0..DIGITS {
            let c = i128::from(self.form.c[idx]);
            start += c * i128::from(self.lo[idx]);
            if c != 0 {
                terms.push((c, i128::from(self.hi[idx] - self.lo[idx]) + 1));
            }
        }
        if self.form.step != 0 {
            let n = (self.form.hi - self.form.lo) / self.form.step + 1;
            terms.push((self.form.step, n));
        }
        let n = terms.iter().map(|it| it.1);
        let n = n.fold(1i128, |n, of_term| n.saturating_mul(of_term));
        if n > MOST_PLACES {
            return false;
        }
        (0..n).all(|mut number| {
            let mut at = start;
            for &(c, extent) in &terms {
                at += c * (number % extent);
                number /= extent;
            }
            f(at)
        })
    }
}

impl Covered {
    /// What a store by threads writes, if it certainly does so in all CTAs.
    pub(super) fn store(form: &Form, region: &Region, size: u32, shape: &Shape) -> Option<Use> {
        let for_all = (0..DIGITS).filter(|&idx| shape.is_cta[idx]);
        let mut of_ctas = for_all.map(|idx| {
            let all = &shape.all;
            form.c[idx] == 0 && region.lo[idx] == all.lo[idx] && region.hi[idx] == all.hi[idx]
        });
        let is_certain = region.exact && form.is_exact() && of_ctas.all(|is_all| is_all);
        is_certain.then(|| Use::new(form, region, size))
    }

    /// It was written.
    pub(super) fn stored(&mut self, store: Use) {
        if !self.recent.contains(&store) {
            self.recent.push(store);
        }
    }

    /// What was written is there for all threads.
    pub(super) fn barrier(&mut self, tables: &Tables, shape: &Shape) {
        for store in std::mem::take(&mut self.recent) {
            let bytes = &mut self.bytes;
            store.each((tables, shape), |at| {
                let Ok(at) = usize::try_from(at) else {
                    return false;
                };
                let end = at + store.size as usize;
                if bytes.len() < end {
                    bytes.resize(end, false);
                }
                bytes[at..end].fill(true);
                true
            });
        }
    }

    /// Whether all that threads read was written.
    pub(super) fn holds(
        &mut self,
        (form, size): (&Form, u32),
        region: &Region,
        (tables, shape): (&Tables, &Shape),
    ) -> bool {
        let this = Use::new(form, region, size);
        let (min, max) = region.bounds(form);
        let key = (this.clone(), (min, max));
        if self.known.contains(&key) {
            return true;
        }
        let written = |at: i128, len: i128| {
            let range = usize::try_from(at).ok().zip(usize::try_from(at + len).ok());
            let bytes = range.and_then(|(from, to)| self.bytes.get(from..to));
            bytes.is_some_and(|bytes| bytes.iter().all(|&it| it))
        };
        let holds = written(min, max - min + i128::from(size))
            || this.each((tables, shape), |at| written(at, size.into()));
        if holds {
            self.known.insert(key);
            return true;
        }
        // What a thread has written itself since.
        self.recent.iter().any(|store| {
            let is_inside = (0..DIGITS)
                .all(|idx| store.lo[idx] <= this.lo[idx] && store.hi[idx] >= this.hi[idx]);
            let from = this.form.lo - store.form.lo;
            this.form.is_exact()
                && store.form.c == this.form.c
                && store.form.table == this.form.table
                && is_inside
                && from >= 0
                && from + i128::from(size) <= i128::from(store.size)
        })
    }
}
