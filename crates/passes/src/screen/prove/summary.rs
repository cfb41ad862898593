//! Iterations of loops that are followed at once.
//!
//! A loop whose threads do not wait in it can be followed in one go: the header's parameters that
//! each iteration changes by a constant take all their values in turn, those that no iteration
//! changes keep theirs, and of others nothing is known. If all threads leave the loop at one place
//! after one number of iterations, the last of them is followed on its own, so that the values
//! behind the loop are as exact as if all had been.

use ptxjit_ir::{Block, CompareOp, InstData, IntBinaryOp, Terminator, Value, ValueDef};

use super::Unproven;
use super::form::Form;
use super::region::Region;
use super::walk::{Mode, Pending, Walk};
use crate::analysis::loops::Loop;

/// So few iterations are followed one by one, which is as fast and loses nothing.
const FEW: i128 = 3;

/// The same where shared memory is written, as only single iterations tell which of its bytes
/// certainly are.
const FEW_FILLING: i128 = 256;

/// The same of an outermost loop that threads leave after different numbers of iterations: only
/// single iterations tell which threads are left, and so that none goes beyond the end of a buffer.
/// Some hundred iterations are as many steps as a walk through a long kernel.
const FEW_UNEVEN: i128 = 512;

/// Constants that are added to a header's parameter in one iteration: unrolled loops add one for
/// each of the iterations that became one.
const MOST_TERMS: u32 = 64;

/// How a header's parameter changes.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Change {
    Not,
    /// By so much in each iteration.
    By(i128),
    Unknown,
}

/// How often a loop goes on.
#[derive(Copy, Clone)]
struct Count {
    /// No thread comes to the test more than so many times after this one.
    most: i128,
    /// All threads come as often, and leave the loop there and nowhere else: the block with the
    /// test.
    exact: Option<Block>,
}

impl Walk<'_> {
    /// The next iteration of a loop, or all that are left.
    pub(super) fn again(
        &mut self,
        id: Loop,
        pending: Pending,
    ) -> Result<Option<Pending>, Unproven> {
        let active = self.active.last_mut().expect("the loop is active");
        if self.plan.waits.contains(&id) {
            return Ok(Some(pending));
        }
        match active.mode {
            Mode::Single { tried: false } => {}
            Mode::Single { tried: true } => return Ok(Some(pending)),
            Mode::Many { .. } => return Ok(None),
        }
        active.mode = Mode::Single { tried: true };
        let changes = self.changes(id);
        let count = self.count(id, &changes, &pending);
        let is_outermost = self.active.len() == 1;
        let Some(count) = count else {
            let first = self.after(id, &pending, &changes, None);
            return Ok(Some(self.many(first, None)));
        };
        let few = match (self.plan.fills.contains(&id), count.exact) {
            (_, None) if is_outermost => FEW_UNEVEN,
            (true, _) => FEW_FILLING,
            (false, _) => FEW,
        };
        if count.most <= few {
            return Ok(Some(pending));
        }
        let Some(block) = count.exact else {
            let first = self.after(id, &pending, &changes, Some((0, count.most)));
            return Ok(Some(self.many(first, None)));
        };
        let most = count.most;
        let first = self.after(id, &pending, &changes, Some((0, most - 1)));
        let last = self.after(id, &pending, &changes, Some((most, most)));
        Ok(Some(self.many(first, Some((block, Box::new(last))))))
    }

    fn many(&mut self, mut first: Pending, last: Option<(Block, Box<Pending>)>) -> Pending {
        // Without a last iteration threads leave the loop in any of them.
        first.region.exact &= last.is_some();
        let active = self.active.last_mut().expect("the loop is active");
        active.mode = Mode::Many { last };
        first
    }

    /// The header's parameters in the iterations from one to another; in all if none are named.
    fn after(
        &self,
        id: Loop,
        pending: &Pending,
        changes: &[Change],
        iterations: Option<(i128, i128)>,
    ) -> Pending {
        let header = self.plan.forest.loops[id].header;
        let params = &self.func.blocks[header].params;
        let args = pending.args.iter().zip(changes).zip(params);
        let args = args.map(|((form, change), &param)| {
            let unknown = Form {
                near: form.near,
                ..Form::unknown(self.func.ty(param).bits())
            };
            match (*change, iterations) {
                (Change::Not, _) => *form,
                (Change::By(by), Some((from, to))) => {
                    let ends = [by.checked_mul(from), by.checked_mul(to)];
                    let range = ends[0]
                        .zip(ends[1])
                        .and_then(|(a, b)| Form::range(a.min(b), a.max(b), by.abs()).checked());
                    let sum = range.and_then(|range| form.add(&range));
                    sum.unwrap_or(unknown)
                }
                (Change::By(_), None) | (Change::Unknown, _) => unknown,
            }
        });
        Pending {
            region: pending.region.clone(),
            args: args.collect(),
        }
    }

    fn changes(&self, id: Loop) -> Vec<Change> {
        let forest = &self.plan.forest;
        let header = forest.loops[id].header;
        let params = &self.func.blocks[header].params;
        let mut changes = vec![None; params.len()];
        for &latch in &self.plan.cfg.preds[header] {
            if !forest.contains(id, latch) {
                continue;
            }
            for call in self.func.blocks[latch].term.targets() {
                if call.block != header {
                    continue;
                }
                for (idx, (&param, &arg)) in params.iter().zip(&call.args).enumerate() {
                    let change = self.change(id, param, arg);
                    changes[idx] = Some(match changes[idx] {
                        None => change,
                        Some(before) if before == change => change,
                        Some(_) => Change::Unknown,
                    });
                }
            }
        }
        let changes = changes.into_iter();
        changes.map(|it| it.unwrap_or(Change::Unknown)).collect()
    }

    /// How `arg` differs from the parameter that it becomes.
    fn change(&self, id: Loop, param: Value, arg: Value) -> Change {
        if arg == param {
            return Change::Not;
        }
        let constant = |value: Value| {
            let bits = self.func.ty(value).bits();
            let form = self.vals[value]
                .as_const()
                .filter(|_| self.is_invariant(id, value))?;
            // As a signed number: a count that falls does so by little.
            let value = form.rem_euclid(1 << bits);
            Some(if value >> (bits - 1) == 0 {
                value
            } else {
                value - (1 << bits)
            })
        };
        let (mut value, mut sum) = (arg, 0);
        for _ in 0..MOST_TERMS {
            let Some(&InstData::IntBinary { op, args, .. }) = self.func.def_inst(value) else {
                return Change::Unknown;
            };
            let [a, b] = args.map(constant);
            let by = match (op, a, b) {
                (IntBinaryOp::Add, _, Some(by)) => by,
                (IntBinaryOp::Sub, _, Some(by)) => -by,
                (IntBinaryOp::Add, Some(by), None) => by,
                _ => return Change::Unknown,
            };
            value = args[usize::from(b.is_none())];
            sum += by;
            if value == param {
                return if sum == 0 {
                    Change::Not
                } else {
                    Change::By(sum)
                };
            }
        }
        Change::Unknown
    }

    /// Whether all iterations have the same value.
    fn is_invariant(&self, id: Loop, value: Value) -> bool {
        let is_const = || self.func.as_const(value).is_some();
        let home = self.plan.home(self.func, value);
        is_const() || home.is_some_and(|home| !self.plan.forest.contains(id, home))
    }

    /// How often the loop goes on, by the tests for its end that each iteration comes to.
    fn count(&self, id: Loop, changes: &[Change], pending: &Pending) -> Option<Count> {
        let forest = &self.plan.forest;
        let header = forest.loops[id].header;
        let leaves = |block: Block| {
            let succs = &self.plan.cfg.succs[block];
            succs.iter().any(|&succ| !forest.contains(id, succ))
        };
        let ends = |block: Block| self.func.blocks[block].term.targets().is_empty();
        let members = forest.members(id);
        let exits: Vec<Block> = members
            .iter()
            .copied()
            .filter(|&block| leaves(block) || ends(block))
            .collect();
        let latches: Vec<Block> = self.plan.cfg.preds[header]
            .iter()
            .copied()
            .filter(|&latch| forest.contains(id, latch))
            .collect();
        let mut best: Option<Count> = None;
        for &block in &exits {
            let dom = &self.plan.dom;
            let is_own = forest.innermost(block) == Some(id);
            if !is_own || !latches.iter().all(|&latch| dom.dominates(block, latch)) {
                continue;
            }
            let Some((most, is_same)) = self.count_by(id, block, changes, pending) else {
                continue;
            };
            if best.is_none_or(|best| most < best.most) {
                let exact = (is_same && exits.len() == 1).then_some(block);
                best = Some(Count { most, exact });
            }
        }
        best
    }

    /// The same by one test: how often threads reach it after its next time, at most, and whether
    /// that is so for all of them.
    fn count_by(
        &self,
        id: Loop,
        block: Block,
        changes: &[Change],
        pending: &Pending,
    ) -> Option<(i128, bool)> {
        let Terminator::Brif { cond, then_, .. } = &self.func.blocks[block].term else {
            return None;
        };
        let goes_on_if = self.plan.forest.contains(id, then_.block);
        let Some(&InstData::Compare { op, ty, args }) = self.func.def_inst(*cond) else {
            return None;
        };
        let (op, args) = match (
            self.moves(id, args[0], changes, pending),
            self.moves(id, args[1], changes, pending),
        ) {
            (Some(_), None) => (op, args),
            (None, Some(_)) => (op.swapped(), [args[1], args[0]]),
            (Some(_), Some(_)) | (None, None) => return None,
        };
        let op = if goes_on_if { op } else { op.inverse() };
        let (form, by) = self.moves(id, args[0], changes, pending)?;
        if !self.is_invariant(id, args[1]) || by == 0 {
            return None;
        }
        let (region, bits) = (&pending.region, ty.bits());
        let end = self.vals[args[1]];
        let is_unsigned = matches!(
            op,
            CompareOp::Ult | CompareOp::Ule | CompareOp::Ugt | CompareOp::Uge
        );
        let as_integer = |form: &Form, is_unsigned: bool| match is_unsigned {
            true => form.unsigned(bits, region),
            false => form.signed(bits, region),
        };
        let try_as = |is_unsigned: bool| {
            let (form, end) = (
                as_integer(&form, is_unsigned)?,
                as_integer(&end, is_unsigned)?,
            );
            let most = iterations(op, &form.sub(&end)?, by, region)?;
            // Up to the end the number must not wrap, or tests would mean something else.
            let past = form.plus(most.0.checked_mul(by)?)?;
            let (min, max) = region.bounds(&past);
            let (low, high) = match is_unsigned {
                true => (0, (1i128 << bits) - 1),
                false => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
            };
            (min >= low && max <= high).then_some(most)
        };
        match op {
            CompareOp::Eq | CompareOp::Ne => try_as(false).or_else(|| try_as(true)),
            CompareOp::Slt
            | CompareOp::Sle
            | CompareOp::Sgt
            | CompareOp::Sge
            | CompareOp::Ult
            | CompareOp::Ule
            | CompareOp::Ugt
            | CompareOp::Uge => try_as(is_unsigned),
        }
    }

    /// A value in the next iteration, and by how much it changes in each.
    fn moves(
        &self,
        id: Loop,
        value: Value,
        changes: &[Change],
        pending: &Pending,
    ) -> Option<(Form, i128)> {
        let header = self.plan.forest.loops[id].header;
        let param = |value: Value| match self.func.values[value].def {
            ValueDef::Param(block, idx) if block == header => match changes[idx as usize] {
                Change::By(by) => Some((pending.args[idx as usize], by)),
                Change::Not | Change::Unknown => None,
            },
            ValueDef::Param(..) | ValueDef::Result(..) => None,
        };
        if let Some(found) = param(value) {
            return Some(found);
        }
        let Some(&InstData::IntBinary {
            op: op @ (IntBinaryOp::Add | IntBinaryOp::Sub),
            args,
            ..
        }) = self.func.def_inst(value)
        else {
            return None;
        };
        let (base, plus) = match (param(args[0]), param(args[1])) {
            (Some(base), None) => (base, args[1]),
            (None, Some(base)) if op == IntBinaryOp::Add => (base, args[0]),
            _ => return None,
        };
        if !self.is_invariant(id, plus) {
            return None;
        }
        let plus = self.vals[plus];
        let form = match op == IntBinaryOp::Add {
            true => base.0.add(&plus)?,
            false => base.0.sub(&plus)?,
        };
        Some((form, base.1))
    }
}

/// After how many steps a difference that changes by so much certainly fails a comparison with
/// zero, and whether it does not before, for any thread.
fn iterations(op: CompareOp, from: &Form, by: i128, region: &Region) -> Option<(i128, bool)> {
    let (min, max) = region.bounds(from);
    let is_one = min == max;
    let up = |least: i128| {
        let most = -(-(least - min)).div_euclid(by);
        (most.max(0), is_one)
    };
    let down = |greatest: i128| {
        let most = -(-(max - greatest)).div_euclid(-by);
        (most.max(0), is_one)
    };
    match op {
        CompareOp::Slt | CompareOp::Ult if by > 0 => Some(up(0)),
        CompareOp::Sle | CompareOp::Ule if by > 0 => Some(up(1)),
        CompareOp::Sgt | CompareOp::Ugt if by < 0 => Some(down(0)),
        CompareOp::Sge | CompareOp::Uge if by < 0 => Some(down(-1)),
        CompareOp::Ne if is_one && min % by == 0 && -min / by >= 0 => Some((-min / by, true)),
        CompareOp::Eq
        | CompareOp::Ne
        | CompareOp::Slt
        | CompareOp::Sle
        | CompareOp::Sgt
        | CompareOp::Sge
        | CompareOp::Ult
        | CompareOp::Ule
        | CompareOp::Ugt
        | CompareOp::Uge => None,
    }
}
