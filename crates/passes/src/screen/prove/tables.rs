//! Numbers that each thread of a CTA has, where no sum of digits tells them: those of swizzled
//! addresses, for example, which are exclusive disjunctions of bits of the thread's number.
//!
//! What depends on nothing but the thread is computed for each thread of a CTA on its own. A sum of
//! digits is looked for that gives the same; only if there is none a list is kept.

use ptxjit_ir::{Function, Inst, InstData, WarpOp, eval};
use rustc_hash::FxHashMap;

use super::Shape;
use super::form::{DIGITS, Form, Table, gcd};
use super::region::Region;

/// Threads of a warp.
const WARP: usize = 32;

/// Lists for one launch: a walk that needs more knows nothing of further ones. They take 8 KB each
/// at most.
const MOST_TABLES: usize = 4096;

/// Results for single threads that are computed for one launch: some hundred milliseconds of work.
const MOST_RESULTS: u64 = 4_000_000;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Tables {
    /// Results for single threads so far.
    n_results: u64,
    lists: Vec<Vec<u32>>,
    known: FxHashMap<Vec<u32>, Table>,
    /// Results of instructions that were computed before, by operands.
    done: FxHashMap<(Inst, Vec<Form>), Option<Form>>,
}

impl Tables {
    /// What a form has for each thread of a CTA, beside its own range and the CTA's digits.
    pub(super) fn of_threads(&self, form: &Form, shape: &Shape) -> Vec<i128> {
        let list = form.table.id.checked_sub(1);
        let list = list.map(|idx| &self.lists[idx as usize]);
        (0..shape.threads)
            .map(|thread| {
                let of_digits = (0..DIGITS).filter(|&idx| !shape.is_cta[idx] && form.c[idx] != 0);
                let sum: i128 = of_digits
                    .map(|idx| i128::from(form.c[idx]) * i128::from(shape.digit(thread, idx)))
                    .sum();
                sum + list.map_or(0, |list| i128::from(list[thread as usize]))
            })
            .collect()
    }

    /// The same with the rest, if that is one number for all CTAs.
    fn numbers(&self, form: &Form, shape: &Shape) -> Option<Vec<i128>> {
        let of_thread_only = (0..DIGITS).all(|idx| !shape.is_cta[idx] || form.c[idx] == 0);
        if !form.is_exact() || !of_thread_only {
            return None;
        }
        let mut numbers = self.of_threads(form, shape);
        numbers.iter_mut().for_each(|it| *it += form.lo);
        Some(numbers)
    }

    /// The form of these numbers.
    fn form(&mut self, numbers: &[i128], shape: &Shape) -> Option<Form> {
        let sum = linear(numbers, shape);
        if sum.is_some() {
            return sum;
        }
        let min = *numbers.iter().min()?;
        let list: Vec<u32> = numbers
            .iter()
            .map(|it| u32::try_from(it - min).ok())
            .collect::<Option<_>>()?;
        let table = match self.known.get(&list) {
            Some(&table) => table,
            None if self.lists.len() == MOST_TABLES => return None,
            None => {
                let step = list.iter().fold(0, |step, &it| gcd(step, it.into()));
                let table = Table {
                    id: self.lists.len() as u32 + 1,
                    top: *list.iter().max()?,
                    step: step as u32,
                };
                self.lists.push(list.clone());
                self.known.insert(list, table);
                table
            }
        };
        Some(Form {
            table,
            ..Form::constant(min)
        })
    }

    /// The result of an instruction whose operands depend on the thread only.
    pub(super) fn result(
        &mut self,
        func: &Function,
        (inst, args): (Inst, Vec<Form>),
        shape: &Shape,
    ) -> Option<Form> {
        let key = (inst, args);
        if let Some(known) = self.done.get(&key) {
            return *known;
        }
        if self.n_results > MOST_RESULTS {
            return None;
        }
        self.n_results += u64::from(shape.threads);
        let form = self.compute(func, (inst, &key.1), shape);
        self.done.insert(key, form);
        form
    }

    fn compute(
        &mut self,
        func: &Function,
        (inst, args): (Inst, &[Form]),
        shape: &Shape,
    ) -> Option<Form> {
        let data = &func.insts[inst].data;
        let args: Vec<Vec<i128>> = args
            .iter()
            .map(|form| self.numbers(form, shape))
            .collect::<Option<_>>()?;
        let values = data.args();
        let mut results = Vec::with_capacity(shape.threads as usize);
        let mut of_thread = Vec::new();
        for thread in 0..shape.threads as usize {
            of_thread.clear();
            of_thread.extend(args.iter().zip(&values).map(|(numbers, &arg)| {
                let modulus = 1i128 << func.ty(arg).bits();
                numbers[thread].rem_euclid(modulus) as u64
            }));
            results.push(i128::from(eval::inst(data, &of_thread)?));
        }
        let bits = func.ty(func.insts[inst].results[0]).bits();
        let form = self.form(&results, shape);
        form.or_else(|| {
            // Numbers on both sides of zero are far apart unless they are read as signed.
            let half = 1i128 << (bits - 1);
            let signed = |it: &i128| if *it >= half { it - 2 * half } else { *it };
            let signed: Vec<i128> = results.iter().map(signed).collect();
            self.form(&signed, shape)
        })
    }

    /// What a lane gets of `value` from the lane that `source` names, or from the one whose number
    /// differs by it. All lanes of the warp must be there.
    pub(super) fn shuffled(
        &mut self,
        (op, value, source): (WarpOp, &Form, &Form),
        shape: &Shape,
    ) -> Option<Form> {
        if !(shape.threads as usize).is_multiple_of(WARP) {
            return None;
        }
        let sources = self.numbers(source, shape)?;
        let own = self.of_threads(value, shape);
        let mut got = Vec::with_capacity(own.len());
        for (thread, source) in sources.iter().enumerate() {
            let source = source.rem_euclid(WARP as i128) as usize;
            let lane = match op == WarpOp::ShflBfly {
                true => (thread % WARP) ^ source,
                false => source,
            };
            got.push(own[thread / WARP * WARP + lane]);
        }
        let mut rest = *value;
        rest.table = Table::default();
        for idx in (0..DIGITS).filter(|&idx| !shape.is_cta[idx]) {
            rest.c[idx] = 0;
        }
        let form = self.form(&got, shape)?;
        form.add(&rest)
    }

    /// Places that threads of an access touch, each with the thread; none if they depend on the
    /// CTA, or if there are more than so many.
    pub(super) fn places(
        &self,
        form: &Form,
        [lo, hi]: [&[i64; DIGITS]; 2],
        (shape, most): (&Shape, usize),
    ) -> Option<Vec<(i128, u32)>> {
        let is_of_cta = |idx: usize| shape.is_cta[idx] && form.c[idx] != 0;
        if (0..DIGITS).any(is_of_cta) {
            return None;
        }
        let width = form.hi - form.lo;
        let n = if width == 0 { 0 } else { width / form.step };
        let numbers = self.of_threads(form, shape);
        if usize::try_from(n).is_ok_and(|n| n >= most / numbers.len()) {
            return None;
        }
        let is_there = |thread: u32| {
            (0..DIGITS).all(|idx| {
                let digit = shape.digit(thread, idx);
                shape.is_cta[idx] || (lo[idx] <= digit && digit <= hi[idx])
            })
        };
        let mut places = Vec::new();
        for (thread, number) in (0..).zip(numbers) {
            if is_there(thread) {
                places.extend((0..=n).map(|it| (form.lo + number + it * form.step, thread)));
            }
        }
        Some(places)
    }
}

impl Shape {
    /// A digit of a thread of a CTA.
    pub(super) fn digit(&self, thread: u32, idx: usize) -> i64 {
        let weight = self.weights[idx];
        let extent = self.all.hi[idx] + 1;
        if weight == 0 {
            return 0;
        }
        i64::from(thread) / weight % extent
    }

    /// Whether threads of a region are there with all lanes of their warps.
    pub(super) fn is_whole_warps(&self, region: &Region) -> bool {
        let is_all = |idx: usize| region.lo[idx] == 0 && region.hi[idx] == self.all.hi[idx];
        let lanes = self.lanes.as_ref();
        region.exact && lanes.is_some_and(|lanes| (0..DIGITS).all(|idx| !lanes[idx] || is_all(idx)))
    }

    /// Which digits tell the lane, where others tell the warp.
    pub(super) fn lanes(&self) -> Option<[bool; DIGITS]> {
        if !self.threads.is_multiple_of(WARP as u32) {
            return None;
        }
        let mut lanes = [false; DIGITS];
        for (idx, is_lane) in lanes.iter_mut().enumerate() {
            let weight = self.weights[idx];
            *is_lane = weight != 0 && weight < WARP as i64;
            if *is_lane && weight * (self.all.hi[idx] + 1) > WARP as i64 {
                return None;
            }
        }
        Some(lanes)
    }
}

/// A sum of digits that has these numbers for the threads.
fn linear(numbers: &[i128], shape: &Shape) -> Option<Form> {
    let first = *numbers.first()?;
    let mut form = Form::constant(first);
    for idx in (0..DIGITS).filter(|&idx| shape.weights[idx] != 0) {
        let one = usize::try_from(shape.weights[idx]).ok()?;
        form.c[idx] = i64::try_from(numbers.get(one)? - first).ok()?;
    }
    let fits = (0..shape.threads).zip(numbers).all(|(thread, &number)| {
        let of_digits = (0..DIGITS).filter(|&idx| form.c[idx] != 0);
        let sum: i128 = of_digits
            .map(|idx| i128::from(form.c[idx]) * i128::from(shape.digit(thread, idx)))
            .sum();
        first + sum == number
    });
    fits.then_some(form)
}

/// Whether an instruction computes its first result from its operands alone.
pub(super) fn is_computed(data: &InstData) -> bool {
    !data.args().is_empty() && data.class() == ptxjit_ir::Class::Arithmetic
}
