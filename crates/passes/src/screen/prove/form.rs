//! Integers as functions of a thread's place in the grid.
//!
//! A place is a list of *digits*: the three numbers of the CTA, and the bits of the thread's
//! numbers in it (of a number whose extent is no power of two, the bits that its power of two
//! counts, and the rest as one digit). With bits for digits, shifts and masks are as linear as
//! products are.
//!
//! A [`Form`] is a sum of digits times constants, a part that a [`Table`] tells for each thread of
//! a CTA, and a part that is not known but for its range.
//! What a register of `w` bits holds is the form's integer modulo `2^w`, so that sums and products
//! need no care; whatever depends on the integer itself asks for it as [unsigned](Form::unsigned)
//! or [signed](Form::signed), which is known if the range allows one answer.

use super::region::Region;

/// Digits of a place: three for the CTA, ten bits and a rest for each of three thread numbers, of
/// which there are fewer, as a CTA has no more than 1024 threads.
pub(super) const DIGITS: usize = 16;

/// No part of a form is greater, so that sums of a few stay far from the ends of `i128`.
const LIMIT: i128 = 1 << 100;

/// A part of a form that is any function of the thread in its CTA: the name of a list of numbers,
/// see [`tables`](super::tables), and what is known of them. The least one is 0.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Table {
    /// One more than the number of the list, or 0 if there is none.
    pub(super) id: u32,
    /// The greatest number.
    pub(super) top: u32,
    /// What divides all of them.
    pub(super) step: u32,
}

/// A sum `c[0] * digit 0 + … + t + u`, for some `u` of `lo, lo + step, … hi` and the number `t`
/// that the table has for the thread.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Form {
    pub(super) c: [i64; DIGITS],
    pub(super) lo: i128,
    pub(super) hi: i128,
    /// 0 if there is one `u`.
    pub(super) step: i128,
    pub(super) table: Table,
    /// One more than the number of the object that an address is meant for, or 0. Nothing is
    /// concluded from it but what code then checks.
    pub(super) near: u32,
}

impl Form {
    pub(super) fn constant(value: i128) -> Form {
        Form::range(value, value, 0)
    }

    pub(super) fn range(lo: i128, hi: i128, step: i128) -> Form {
        Form {
            c: [0; DIGITS],
            lo,
            hi,
            step: if lo == hi { 0 } else { step },
            table: Table::default(),
            near: 0,
        }
    }

    /// Any number of so many bits.
    pub(super) fn unknown(bits: u32) -> Form {
        Form::range(0, (1 << bits) - 1, 1)
    }

    /// The place alone decides.
    pub(super) fn is_exact(&self) -> bool {
        self.lo == self.hi
    }

    pub(super) fn has_table(&self) -> bool {
        self.table != Table::default()
    }

    /// All but the table, if there is none.
    fn without_table(&self) -> Option<&Form> {
        (!self.has_table()).then_some(self)
    }

    pub(super) fn as_const(&self) -> Option<i128> {
        let is_const = self.is_exact() && self.c == [0; DIGITS] && !self.has_table();
        is_const.then_some(self.lo)
    }

    pub(super) fn checked(self) -> Option<Form> {
        let is_small = self.lo.abs() < LIMIT && self.hi.abs() < LIMIT;
        is_small.then_some(self)
    }

    pub(super) fn add(&self, other: &Form) -> Option<Form> {
        let mut c = self.c;
        for (c, other) in c.iter_mut().zip(other.c) {
            *c = c.checked_add(other)?;
        }
        let (lo, hi) = (self.lo + other.lo, self.hi + other.hi);
        let near = if self.near == 0 {
            other.near
        } else {
            self.near
        };
        let table = match (self.has_table(), other.has_table()) {
            (true, true) => return None,
            (true, false) => self.table,
            (false, _) => other.table,
        };
        Form {
            c,
            table,
            near,
            ..Form::range(lo, hi, gcd(self.step, other.step))
        }
        .checked()
    }

    pub(super) fn plus(&self, value: i128) -> Option<Form> {
        let (lo, hi) = (self.lo + value, self.hi + value);
        Form { lo, hi, ..*self }.checked()
    }

    pub(super) fn scale(&self, by: i128) -> Option<Form> {
        if by == 1 {
            return Some(*self);
        }
        let mut c = self.without_table()?.c;
        for c in &mut c {
            *c = c.checked_mul(i64::try_from(by).ok()?)?;
        }
        let ends = [self.lo.checked_mul(by)?, self.hi.checked_mul(by)?];
        let (lo, hi) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
        let step = self.step.checked_mul(by.abs())?;
        Form {
            c,
            ..Form::range(lo, hi, step)
        }
        .checked()
    }

    pub(super) fn sub(&self, other: &Form) -> Option<Form> {
        let near = self.near;
        let (mut of_self, mut of_other) = (*self, *other);
        if self.table == other.table {
            (of_self.table, of_other.table) = (Table::default(), Table::default());
        }
        let sum = of_self.add(&of_other.scale(-1)?)?;
        Some(Form { near, ..sum })
    }

    /// Either of two.
    pub(super) fn join(&self, other: &Form, bits: u32) -> Form {
        let near = if self.near == other.near {
            self.near
        } else {
            0
        };
        if self.c != other.c || self.table != other.table {
            return Form {
                near,
                ..Form::unknown(bits)
            };
        }
        let step = gcd(gcd(self.step, other.step), (self.lo - other.lo).abs());
        Form {
            c: self.c,
            table: self.table,
            near,
            ..Form::range(self.lo.min(other.lo), self.hi.max(other.hi), step)
        }
    }

    /// The same number modulo `2^bits`, as the integer from 0 that the register holds.
    pub(super) fn unsigned(&self, bits: u32, region: &Region) -> Option<Form> {
        self.normalized(bits, 0, region)
    }

    pub(super) fn signed(&self, bits: u32, region: &Region) -> Option<Form> {
        self.normalized(bits, 1 << (bits - 1), region)
    }

    fn normalized(&self, bits: u32, below: i128, region: &Region) -> Option<Form> {
        let (min, max) = region.bounds(self);
        let period = 1i128 << bits;
        let at = (min + below).div_euclid(period);
        match (max + below).div_euclid(period) == at {
            true => self.plus(-at * period),
            false => None,
        }
    }

    /// Quotient and remainder by `by`, rounded down, if the remainder has a form.
    pub(super) fn split(&self, by: i128, region: &Region) -> Option<(Form, Form)> {
        let (mut whole, mut rest) = (*self.without_table()?, *self);
        (whole.near, rest.near) = (0, 0);
        for idx in 0..DIGITS {
            let c = i128::from(self.c[idx]);
            whole.c[idx] = i64::try_from(c / by).ok()?;
            rest.c[idx] = i64::try_from(c % by).ok()?;
        }
        let low = self.lo.rem_euclid(by);
        if self.step % by == 0 {
            (rest.lo, rest.hi, rest.step) = (low, low, 0);
            whole.step /= by;
        } else {
            (rest.lo, rest.hi) = (low, low + (self.hi - self.lo));
            (whole.hi, whole.step) = (self.lo, 0);
        }
        whole.lo = (whole.lo - low) / by;
        whole.hi = (whole.hi - low) / by;
        let (min, max) = region.bounds(&rest);
        let carry = min.div_euclid(by);
        if max.div_euclid(by) != carry {
            return None;
        }
        Some((whole.plus(carry)?, rest.plus(-carry * by)?))
    }

    /// The low `bits` bits, as an integer from 0.
    pub(super) fn low_bits(&self, bits: u32, region: &Region) -> Option<Form> {
        Some(self.split(1 << bits, region)?.1)
    }

    /// Whether all its numbers are multiples of `by`.
    pub(super) fn is_multiple(&self, by: i128) -> bool {
        let is_table = i128::from(self.table.step) % by == 0;
        let is_sum = self.c.iter().all(|&c| i128::from(c) % by == 0);
        is_table && is_sum && self.lo % by == 0 && self.step % by == 0
    }
}

pub(super) fn gcd(mut a: i128, mut b: i128) -> i128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.abs()
}
