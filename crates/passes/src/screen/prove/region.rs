//! Sets of threads, by what their digits can be.

use super::form::{DIGITS, Form};

/// A set of threads. It may hold more than those that are meant, unless it is exact.
#[derive(Clone, Debug)]
pub(super) struct Region {
    pub(super) lo: [i64; DIGITS],
    pub(super) hi: [i64; DIGITS],
    /// Every thread with such digits is meant.
    pub(super) exact: bool,
    /// Of the threads that are meant these are never negative, which the digits' ranges do not
    /// tell.
    extra: Vec<Form>,
}

/// What is known if a condition holds: forms that are not negative then, and whether that is all
/// that it says.
#[derive(Clone, Debug, Default)]
pub(super) struct Limits {
    pub(super) forms: Vec<Form>,
    pub(super) is_all: bool,
}

/// What a condition says where it holds, and where it does not.
#[derive(Clone, Debug, Default)]
pub(super) struct Pred {
    pub(super) yes: Limits,
    pub(super) no: Limits,
}

impl Pred {
    pub(super) fn not(&self) -> Pred {
        Pred {
            yes: self.no.clone(),
            no: self.yes.clone(),
        }
    }

    pub(super) fn and(&self, other: &Pred) -> Pred {
        let mut yes = self.yes.clone();
        yes.forms.extend(&other.yes.forms);
        yes.is_all &= other.yes.is_all;
        Pred {
            yes,
            no: Limits::default(),
        }
    }

    pub(super) fn or(&self, other: &Pred) -> Pred {
        self.not().and(&other.not()).not()
    }
}

impl Region {
    /// All threads of a grid whose digits have such extents.
    pub(super) fn whole(extents: &[i64; DIGITS]) -> Region {
        Region {
            lo: [0; DIGITS],
            hi: extents.map(|n| n - 1),
            exact: true,
            extra: Vec::new(),
        }
    }

    /// The least and the greatest number that a form may be.
    pub(super) fn bounds(&self, form: &Form) -> (i128, i128) {
        let (mut min, mut max) = self.plain_bounds(form);
        if !self.extra.is_empty() {
            max = max.min(self.refined_max(*form));
            if let Some(negated) = form.scale(-1) {
                min = min.max(-self.refined_max(negated));
            }
            // Contradictory limits belong to no thread at all.
            max = max.max(min);
        }
        (min, max)
    }

    fn plain_bounds(&self, form: &Form) -> (i128, i128) {
        let (mut min, mut max) = (form.lo, form.hi + i128::from(form.table.top));
        for (idx, &c) in form.c.iter().enumerate() {
            if c != 0 {
                let ends = [self.lo[idx], self.hi[idx]].map(|it| i128::from(it) * i128::from(c));
                min += ends[0].min(ends[1]);
                max += ends[0].max(ends[1]);
            }
        }
        (min, max)
    }

    /// An upper bound by way of the limits: adding a positive multiple of what is not negative only
    /// makes a number greater.
    fn refined_max(&self, mut form: Form) -> i128 {
        let mut best = self.plain_bounds(&form).1;
        for limit in &self.extra {
            let lead = (0..DIGITS).max_by_key(|&idx| limit.c[idx].unsigned_abs());
            let lead = lead.expect("there are digits");
            let (of_form, of_limit) = (form.c[lead], limit.c[lead]);
            if of_limit == 0 || of_form % of_limit != 0 || of_form / of_limit >= 0 {
                continue;
            }
            let by = i128::from(-(of_form / of_limit));
            let sum = limit.scale(by).and_then(|it| form.add(&it));
            if let Some(sum) = sum {
                let max = self.plain_bounds(&sum).1;
                if max < best {
                    (best, form) = (max, sum);
                }
            }
        }
        best
    }

    /// The threads that keep within the limits; none if there are none.
    pub(super) fn within(&self, limits: &Limits) -> Option<Region> {
        let mut region = self.clone();
        region.exact &= limits.is_all;
        for form in &limits.forms {
            // The unknown part as it is most favorable.
            let limit = Form {
                lo: form.hi,
                step: 0,
                near: 0,
                ..*form
            };
            region.exact &= !form.has_table();
            if self.bounds(&limit).1 < 0 {
                return None;
            }
            region.exact &= form.is_exact();
            if !region.extra.contains(&limit) {
                region.extra.push(limit);
            }
        }
        let limits = std::mem::take(&mut region.extra);
        // Each cut may leave less room for what other limits cut.
        loop {
            let before = (region.lo, region.hi);
            for limit in &limits {
                region.cut(limit)?;
            }
            if (region.lo, region.hi) == before {
                break;
            }
        }
        let is_open = |limit: &Form| region.plain_bounds(limit).0 < 0;
        let extra: Vec<Form> = limits.into_iter().filter(is_open).collect();
        region.exact &= extra.is_empty();
        region.extra = extra;
        Some(region)
    }

    /// Cuts the range of each digit to where the form can be positive or zero.
    fn cut(&mut self, limit: &Form) -> Option<()> {
        let max = self.plain_bounds(limit).1;
        for idx in 0..DIGITS {
            let c = i128::from(limit.c[idx]);
            if c == 0 || self.lo[idx] == self.hi[idx] {
                continue;
            }
            let (lo, hi) = (i128::from(self.lo[idx]), i128::from(self.hi[idx]));
            // The others at their best leave this one so much room.
            let room = max;
            if c > 0 {
                let down = room.div_euclid(c);
                self.lo[idx] = i64::try_from(lo.max(hi - down)).ok()?;
            } else {
                let up = room.div_euclid(-c);
                self.hi[idx] = i64::try_from(hi.min(lo + up)).ok()?;
            }
            if self.lo[idx] > self.hi[idx] {
                return None;
            }
        }
        (max >= 0).then_some(())
    }

    /// All threads of either.
    pub(super) fn join(&self, other: &Region) -> Region {
        let mut region = self.clone();
        for idx in 0..DIGITS {
            region.lo[idx] = self.lo[idx].min(other.lo[idx]);
            region.hi[idx] = self.hi[idx].max(other.hi[idx]);
        }
        let is_that = |it: &Region| it.exact && (it.lo, it.hi) == (region.lo, region.hi);
        region.exact = is_that(self) || is_that(other);
        region.extra.retain(|limit| other.keeps(limit));
        for limit in &other.extra {
            if self.keeps(limit) && !region.extra.contains(limit) {
                region.extra.push(*limit);
            }
        }
        region
    }

    fn keeps(&self, limit: &Form) -> bool {
        self.extra.contains(limit) || self.plain_bounds(limit).0 >= 0
    }
}
