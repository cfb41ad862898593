//! Guards by which a gang finds out that none of its indices wraps or is clamped.

use ptxjit_ir::{Block, CompareOp, Function, InstData, IntBinaryOp, SrcLoc, Type, Value};
use rustc_hash::FxHashMap;

use super::sites::{Finder, remainder};
use super::{Kind, Known, Site};
use crate::analysis::variability::Variability;
use crate::cost;

/// The values of an affine index at the first and the last lane.
struct AffineEnds {
    /// First lane, last lane.
    ends: [Value; 2],
    /// The same, the lower one first.
    in_order: [Value; 2],
    /// The last minus the first.
    span: i64,
}

/// What an index is in gangs that pass the guard.
pub(super) enum Outcome {
    /// This far from the affine index.
    Away(Value),
    Affine,
    /// Uniform.
    Same(Value),
    /// The quotients of the first and of the last lane; no lane has another one.
    Step([Value; 2]),
}

/// Emits guards at the end of a block.
pub(super) struct Test<'a> {
    pub func: &'a mut Function,
    pub known: &'a Known,
    pub block: Block,
    /// What was split off the block.
    pub rest: Block,
    pub loc: SrcLoc,
    /// Values computed for the first or the last lane.
    pub ends: FxHashMap<(Value, bool), Value>,
    /// Whether a value is at most another one, as unsigned numbers or as signed ones.
    pub in_order: FxHashMap<([Value; 2], bool), Value>,
}

fn not_above(is_signed: bool) -> CompareOp {
    match is_signed {
        true => CompareOp::Sle,
        false => CompareOp::Ule,
    }
}

/// What must be in order for no number of an interval to be clamped by a border.
fn beside(op: IntBinaryOp, [low, high]: [Value; 2], border: Value) -> [Value; 2] {
    match matches!(op, IntBinaryOp::Smax | IntBinaryOp::Umax) {
        true => [border, low],
        false => [high, border],
    }
}

impl Test<'_> {
    fn put(&mut self, data: InstData, ty: Type) -> Value {
        self.func.append(self.block, data, ty, self.loc)
    }

    fn binary(&mut self, op: IntBinaryOp, args: [Value; 2]) -> Value {
        let ty = self.func.ty(args[0]);
        self.put(InstData::binary(op, ty, args), ty)
    }

    fn compare(&mut self, op: CompareOp, args: [Value; 2]) -> Value {
        let ty = self.func.ty(args[0]);
        self.put(InstData::compare(op, ty, args), Type::B1)
    }

    /// A constant of the type of another value.
    fn constant(&mut self, like: Value, bits: i64) -> Value {
        let ty = self.func.ty(like);
        let bits = bits as u64 & ty.mask();
        self.put(InstData::Const { ty, bits }, ty)
    }

    pub(super) fn both(&mut self, a: Value, b: Value) -> Value {
        self.binary(IntBinaryOp::And, [a, b])
    }

    /// Whether an index does not wrap, and what it is then.
    pub(super) fn site(&mut self, site: &Site, before: &[Site]) -> Option<(Value, Outcome)> {
        if let Kind::RowExtreme(op, divisor) = site.kind {
            let holds = self.row_extreme((op, divisor), site, before)?;
            return Some((holds, Outcome::Affine));
        }
        let affine = self.affine(site.affine, before)?;
        // A value that is uniform if no index of the block wraps may not be uniform if only the
        // tested ones do not.
        if !self.finder().is_even(site.bound, before) {
            return None;
        }
        let (holds, outcome, ends) = match site.kind {
            Kind::Modulo(op) | Kind::Bits(op) => {
                let (bound, ends) = self.of_ends(op, site, &affine)?;
                let holds = match matches!(site.kind, Kind::Bits(_)) {
                    true => self.bits(&affine, bound),
                    false => self.modulo(op, &affine, bound, ends)?,
                };
                let distance = self.binary(IntBinaryOp::Sub, [ends[0], affine.ends[0]]);
                (holds, Outcome::Away(distance), ends)
            }
            Kind::Quotient(op) => {
                let (bound, ends) = self.of_ends(op, site, &affine)?;
                let holds = self.quotient(op, &affine, bound, ends)?;
                (holds, Outcome::Same(ends[0]), ends)
            }
            Kind::Step(op) => {
                let (_, ends) = self.of_ends(op, site, &affine)?;
                // Quotients of negative numbers change behind a multiple, those of others at one.
                let holds = self.rises_from_zero(&affine, op == IntBinaryOp::Sdiv);
                (holds, Outcome::Step(ends), ends)
            }
            Kind::Extreme(op) => {
                let bound = self.first(site.bound)?;
                let holds = self.extreme(op, &affine, bound);
                (holds, Outcome::Affine, affine.ends)
            }
            Kind::RowExtreme(..) => return None,
            Kind::Chosen {
                op,
                compared,
                bound,
                unless,
            } => {
                let compared = self.affine(compared, before)?;
                if !self.finder().is_even(bound, before) {
                    return None;
                }
                let bound = self.first(bound)?;
                let holds = self.chosen(op, &compared, bound, unless)?;
                (holds, Outcome::Affine, affine.ends)
            }
        };
        let result = self.func.result(site.inst);
        self.ends.insert((result, false), ends[0]);
        self.ends.insert((result, true), ends[1]);
        Some((holds, outcome))
    }

    /// The bound, and the results of the first and the last lane.
    fn of_ends(
        &mut self,
        op: IntBinaryOp,
        site: &Site,
        affine: &AffineEnds,
    ) -> Option<(Value, [Value; 2])> {
        let bound = self.first(site.bound)?;
        let of = |end: Value| self.binary(op, [end, bound]);
        Some((bound, affine.ends.map(of)))
    }

    /// The first and last lane of an index if none of those before wraps.
    fn affine(&mut self, value: Value, before: &[Site]) -> Option<AffineEnds> {
        let stride = self.finder().stride(value, before)?;
        let first = self.first(value)?;
        let last = self.end(value, true, cost::DEPTH_OF_INDEX)?;
        let (ends, reversed) = ([first, last], [last, first]);
        Some(AffineEnds {
            ends,
            in_order: if stride > 0 { ends } else { reversed },
            span: stride * i64::from(self.known.divergence.gang - 1),
        })
    }

    /// Whether the remainders or masks of both ends are as far from each other as the ends are, so
    /// that no multiple lies between them.
    fn modulo(
        &mut self,
        op: IntBinaryOp,
        affine: &AffineEnds,
        bound: Value,
        [low, high]: [Value; 2],
    ) -> Option<Value> {
        let span = self.constant(low, affine.span);
        let gone = self.binary(IntBinaryOp::Sub, [high, low]);
        let goes_on = self.compare(CompareOp::Eq, [gone, span]);
        if op == IntBinaryOp::And {
            return Some(match self.func.as_const(bound) {
                Some(_) => goes_on,
                None => self.and_is_mask(goes_on, bound),
            });
        }
        let rises = self.rises_from_zero(affine, op == IntBinaryOp::Srem);
        let holds = self.both(rises, goes_on);
        self.and_divides(holds, bound)
    }

    /// The same, and whether a mask keeps low bits.
    fn and_is_mask(&mut self, holds: Value, mask: Value) -> Value {
        let one = self.constant(mask, 1);
        let zero = self.constant(mask, 0);
        let above = self.binary(IntBinaryOp::Add, [mask, one]);
        let common = self.binary(IntBinaryOp::And, [mask, above]);
        let is_mask = self.compare(CompareOp::Eq, [common, zero]);
        self.both(holds, is_mask)
    }

    /// The same, and whether a divisor is not zero; `None` if it is.
    fn and_divides(&mut self, holds: Value, divisor: Value) -> Option<Value> {
        if let Some(bits) = self.func.as_const(divisor) {
            return (bits != 0).then_some(holds);
        }
        let zero = self.constant(divisor, 0);
        let divides = self.compare(CompareOp::Ne, [divisor, zero]);
        Some(self.both(holds, divides))
    }

    /// Whether lanes differ in low bits only, of which none is changed: both ends lie between two
    /// multiples of a power of two that is larger than their distance, and so do all lanes.
    fn bits(&mut self, affine: &AffineEnds, bound: Value) -> Value {
        let power = (affine.span.unsigned_abs() + 1).next_power_of_two() as i64;
        let differ = self.binary(IntBinaryOp::Xor, affine.ends);
        let limit = self.constant(differ, power);
        let holds = self.compare(CompareOp::Ult, [differ, limit]);
        if self.func.as_const(bound).is_some() {
            return holds;
        }
        let low = self.constant(bound, power - 1);
        let zero = self.constant(bound, 0);
        let changed = self.binary(IntBinaryOp::And, [bound, low]);
        let stays = self.compare(CompareOp::Eq, [changed, zero]);
        self.both(holds, stays)
    }

    /// Whether both ends, and so all lanes between them, have the same quotient: it is monotonic in
    /// the index.
    fn quotient(
        &mut self,
        op: IntBinaryOp,
        affine: &AffineEnds,
        bound: Value,
        [first, last]: [Value; 2],
    ) -> Option<Value> {
        let is_signed = matches!(op, IntBinaryOp::Sdiv | IntBinaryOp::Sshr);
        let rises = self.rises(affine, is_signed);
        let same = self.compare(CompareOp::Eq, [first, last]);
        let holds = self.both(rises, same);
        match matches!(op, IntBinaryOp::Udiv | IntBinaryOp::Sdiv) {
            true => self.and_divides(holds, bound),
            false => Some(holds),
        }
    }

    /// Whether an affine value does not wrap between its ends. Several tests of an index share the
    /// answer.
    fn rises(&mut self, affine: &AffineEnds, is_signed: bool) -> Value {
        let key = (affine.in_order, is_signed);
        if let Some(&known) = self.in_order.get(&key) {
            return known;
        }
        let rises = self.compare(not_above(is_signed), affine.in_order);
        self.in_order.insert(key, rises);
        rises
    }

    /// The same, and whether it is not negative.
    fn rises_from_zero(&mut self, affine: &AffineEnds, is_signed: bool) -> Value {
        let rises = self.rises(affine, is_signed);
        if !is_signed {
            return rises;
        }
        let lowest = affine.in_order[0];
        let zero = self.constant(lowest, 0);
        let has_no_sign = self.compare(CompareOp::Sle, [zero, lowest]);
        self.both(rises, has_no_sign)
    }

    /// Whether no lane is beyond the border: between ends that do not wrap, the one next to the
    /// border decides.
    fn extreme(&mut self, op: IntBinaryOp, affine: &AffineEnds, bound: Value) -> Value {
        let is_signed = matches!(op, IntBinaryOp::Smin | IntBinaryOp::Smax);
        let kept = beside(op, affine.in_order, bound);
        let kept = self.compare(not_above(is_signed), kept);
        let rises = self.rises(affine, is_signed);
        self.both(kept, rises)
    }

    /// Whether no place of a row is beyond the border, whichever of them the lanes have.
    fn row_extreme(
        &mut self,
        (op, divisor): (IntBinaryOp, i64),
        site: &Site,
        before: &[Site],
    ) -> Option<Value> {
        let bound = self.first(site.bound)?;
        let [first, last] = [0, divisor - 1].map(|place| self.constant(bound, place));
        let low = self.place(site.affine, first, before)?;
        let high = self.place(site.affine, last, before)?;
        let kept = beside(op, [low, high], bound);
        let kept = self.compare(CompareOp::Sle, kept);
        let rises = self.compare(CompareOp::Sle, [low, high]);
        Some(self.both(kept, rises))
    }

    /// What a value is where the remainder from which it is computed is `rest`.
    fn place(&mut self, value: Value, rest: Value, before: &[Site]) -> Option<Value> {
        let Some(def) = self.func.maker(value) else {
            return self.first(value);
        };
        if let Some(site) = before.iter().find(|site| site.inst == def) {
            let is_clamp = matches!(site.kind, Kind::RowExtreme(..));
            return is_clamp.then(|| self.place(site.affine, rest, before))?;
        }
        if self.finder().is_even(value, before) {
            return self.first(value);
        }
        let (op @ (IntBinaryOp::Add | IntBinaryOp::Sub), _, args) = self.func.as_binary(value)?
        else {
            return None;
        };
        if op == IntBinaryOp::Sub && remainder(self.func, args, before).is_some() {
            return Some(rest);
        }
        let [a, b] = args;
        let args = [self.place(a, rest, before)?, self.place(b, rest, before)?];
        Some(self.binary(op, args))
    }

    /// Whether a comparison holds for no lane, or for all of them.
    fn chosen(
        &mut self,
        op: CompareOp,
        affine: &AffineEnds,
        bound: Value,
        unless: bool,
    ) -> Option<Value> {
        let is_signed = match op {
            CompareOp::Eq if unless => return Some(self.is_beside(affine, bound)),
            CompareOp::Ne if !unless => return Some(self.is_beside(affine, bound)),
            // Lanes of an affine value are not all equal to one number.
            CompareOp::Eq | CompareOp::Ne => return None,
            CompareOp::Slt | CompareOp::Sle | CompareOp::Sgt | CompareOp::Sge => true,
            CompareOp::Ult | CompareOp::Ule | CompareOp::Ugt | CompareOp::Uge => false,
        };
        let rises = self.rises(affine, is_signed);
        let ends_equal = self.ends_equal(op, affine, bound, unless);
        Some(self.both(rises, ends_equal))
    }

    /// Whether a number does not lie between the ends of an affine value.
    fn is_beside(&mut self, affine: &AffineEnds, bound: Value) -> Value {
        let from_lowest = self.binary(IntBinaryOp::Sub, [bound, affine.in_order[0]]);
        let span = self.constant(bound, affine.span.abs());
        self.compare(CompareOp::Ugt, [from_lowest, span])
    }

    /// Whether the comparison has the wanted result for all lanes: between ends that do not wrap,
    /// one end decides.
    fn ends_equal(
        &mut self,
        op: CompareOp,
        affine: &AffineEnds,
        bound: Value,
        unless: bool,
    ) -> Value {
        let [low, high] = affine.in_order;
        let is_upper = matches!(
            op,
            CompareOp::Slt | CompareOp::Sle | CompareOp::Ult | CompareOp::Ule
        );
        let deciding = match is_upper != unless {
            true => high,
            false => low,
        };
        let holds = self.compare(op, [deciding, bound]);
        match unless {
            true => self.put(InstData::not(holds), Type::B1),
            false => holds,
        }
    }

    fn finder(&self) -> Finder<'_> {
        let (func, known, block) = (&*self.func, self.known, self.block);
        Finder { func, known, block }
    }

    /// A value at the first lane.
    fn first(&mut self, value: Value) -> Option<Value> {
        self.end(value, false, cost::DEPTH_OF_INDEX)
    }

    /// A value at the first or the last lane, computed where it is not known yet.
    fn end(&mut self, value: Value, last: bool, depth: u32) -> Option<Value> {
        let depth = depth.checked_sub(1)?;
        if let Some(&end) = self.ends.get(&(value, last)) {
            return Some(end);
        }
        let rest = &self.func.blocks[self.rest].insts;
        let later = self.func.maker(value).filter(|inst| rest.contains(inst));
        let end = match later {
            Some(inst) => {
                let data = self.func.insts[inst].data.clone();
                self.computed_end(data, self.func.ty(value), last, depth)?
            }
            None => self.given_end(value, last)?,
        };
        self.ends.insert((value, last), end);
        Some(end)
    }

    /// The end of a value that is computed ahead of the block's end.
    fn given_end(&mut self, arg: Value, last: bool) -> Option<Value> {
        let Known { divergence, stable } = self.known;
        let ty = self.func.ty(arg);
        let variability = divergence.variability(arg);
        if variability == Variability::Uniform {
            return Some(arg);
        }
        variability.exact_stride()?;
        let is_stable = stable.is_stable_in(self.func, arg, self.block);
        is_stable.then(|| self.put(InstData::EndLane { ty, last, arg }, ty))
    }

    /// The end of a value that an instruction behind the block's end computes.
    fn computed_end(
        &mut self,
        mut data: InstData,
        ty: Type,
        last: bool,
        depth: u32,
    ) -> Option<Value> {
        let (InstData::Const { .. }
        | InstData::IntBinary { .. }
        | InstData::IntUnary { .. }
        | InstData::Resize { .. }) = data
        else {
            return None;
        };
        for arg in data.args_mut() {
            *arg = self.end(*arg, last, depth)?;
        }
        Some(self.put(data, ty))
    }
}
