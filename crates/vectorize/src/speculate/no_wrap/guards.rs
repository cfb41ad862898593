//! Guards by which a gang finds out that none of its indices wraps or is clamped.

use ptxjit_ir::{
    Block, CompareOp, Function, InstData, IntBinaryOp, IntUnaryOp, SrcLoc, Type, Value, ValueDef,
};
use rustc_hash::FxHashMap;

use super::sites::{Finder, remainder};
use super::{Kind, Site};
use crate::analysis::divergence::Divergence;
use crate::analysis::variability::Variability;
use crate::cost;
use crate::speculate::stable::Stable;

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
    pub divergence: &'a Divergence,
    pub stable: &'a Stable,
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

impl Test<'_> {
    fn put(&mut self, data: InstData, ty: Type) -> Value {
        let inst = self.func.make_inst(data, &[ty], self.loc);
        self.func.blocks[self.block].insts.push(inst);
        self.func.insts[inst].results[0]
    }

    fn binary(&mut self, op: IntBinaryOp, ty: Type, args: [Value; 2]) -> Value {
        self.put(InstData::IntBinary { op, ty, args }, ty)
    }

    fn compare(&mut self, op: CompareOp, ty: Type, args: [Value; 2]) -> Value {
        self.put(InstData::Compare { op, ty, args }, Type::B1)
    }

    fn constant(&mut self, ty: Type, bits: i64) -> Value {
        let bits = bits as u64 & ty.mask();
        self.put(InstData::Const { ty, bits }, ty)
    }

    pub(super) fn both(&mut self, a: Value, b: Value) -> Value {
        self.binary(IntBinaryOp::And, Type::B1, [a, b])
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
        if !self
            .finder()
            .is_even(site.bound, before, cost::DEPTH_OF_INDEX)
        {
            return None;
        }
        let (holds, outcome, ends) = match site.kind {
            Kind::Modulo(op) | Kind::Bits(op) => {
                let (bound, ends) = self.of_ends(op, site, &affine)?;
                let holds = match matches!(site.kind, Kind::Bits(_)) {
                    true => self.bits(site.ty, &affine, bound),
                    false => self.modulo(op, site.ty, &affine, bound, ends)?,
                };
                let distance = self.binary(IntBinaryOp::Sub, site.ty, [ends[0], affine.ends[0]]);
                (holds, Outcome::Away(distance), ends)
            }
            Kind::Quotient(op) => {
                let (bound, ends) = self.of_ends(op, site, &affine)?;
                let holds = self.quotient(op, site.ty, &affine, bound, ends)?;
                (holds, Outcome::Same(ends[0]), ends)
            }
            Kind::Step(op) => {
                let (_, ends) = self.of_ends(op, site, &affine)?;
                // Quotients of negative numbers change behind a multiple, those of others at one.
                let holds = self.rises_from_zero(site.ty, &affine, op == IntBinaryOp::Sdiv);
                (holds, Outcome::Step(ends), ends)
            }
            Kind::Extreme(op) => {
                let bound = self.end(site.bound, false, cost::DEPTH_OF_INDEX)?;
                let holds = self.extreme(op, site.ty, &affine, bound);
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
                if !self.finder().is_even(bound, before, cost::DEPTH_OF_INDEX) {
                    return None;
                }
                let bound = self.end(bound, false, cost::DEPTH_OF_INDEX)?;
                let holds = self.chosen(op, &compared, bound, unless)?;
                (holds, Outcome::Affine, affine.ends)
            }
        };
        let result = self.func.insts[site.inst].results[0];
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
        let bound = self.end(site.bound, false, cost::DEPTH_OF_INDEX)?;
        let results = affine
            .ends
            .map(|end| self.binary(op, site.ty, [end, bound]));
        Some((bound, results))
    }

    /// The first and last lane of an index if none of those before wraps.
    fn affine(&mut self, value: Value, before: &[Site]) -> Option<AffineEnds> {
        let stride = self.finder().stride(value, before, cost::DEPTH_OF_INDEX)?;
        let first = self.end(value, false, cost::DEPTH_OF_INDEX)?;
        let last = self.end(value, true, cost::DEPTH_OF_INDEX)?;
        Some(AffineEnds {
            ends: [first, last],
            in_order: if stride > 0 {
                [first, last]
            } else {
                [last, first]
            },
            span: stride * i64::from(self.divergence.gang - 1),
        })
    }

    /// Whether the remainders or masks of both ends are as far from each other as the ends are, so
    /// that no multiple lies between them.
    fn modulo(
        &mut self,
        op: IntBinaryOp,
        ty: Type,
        affine: &AffineEnds,
        bound: Value,
        [low, high]: [Value; 2],
    ) -> Option<Value> {
        let span = self.constant(ty, affine.span);
        let gone = self.binary(IntBinaryOp::Sub, ty, [high, low]);
        let goes_on = self.compare(CompareOp::Eq, ty, [gone, span]);
        let known = self.func.as_const(bound);
        if op == IntBinaryOp::And {
            if known.is_some() {
                return Some(goes_on);
            }
            let one = self.constant(ty, 1);
            let zero = self.constant(ty, 0);
            let above = self.binary(IntBinaryOp::Add, ty, [bound, one]);
            let common = self.binary(IntBinaryOp::And, ty, [bound, above]);
            let is_mask = self.compare(CompareOp::Eq, ty, [common, zero]);
            return Some(self.both(goes_on, is_mask));
        }
        let rises = self.rises_from_zero(ty, affine, op == IntBinaryOp::Srem);
        let holds = self.both(rises, goes_on);
        match known {
            Some(0) => None,
            Some(_) => Some(holds),
            None => {
                let zero = self.constant(ty, 0);
                let divides = self.compare(CompareOp::Ne, ty, [bound, zero]);
                Some(self.both(holds, divides))
            }
        }
    }

    /// Whether lanes differ in low bits only, of which none is changed: both ends lie between two
    /// multiples of a power of two that is larger than their distance, and so do all lanes.
    fn bits(&mut self, ty: Type, affine: &AffineEnds, bound: Value) -> Value {
        let power = (affine.span.unsigned_abs() + 1).next_power_of_two() as i64;
        let differ = self.binary(IntBinaryOp::Xor, ty, affine.ends);
        let limit = self.constant(ty, power);
        let holds = self.compare(CompareOp::Ult, ty, [differ, limit]);
        if self.func.as_const(bound).is_some() {
            return holds;
        }
        let low = self.constant(ty, power - 1);
        let zero = self.constant(ty, 0);
        let changed = self.binary(IntBinaryOp::And, ty, [bound, low]);
        let stays = self.compare(CompareOp::Eq, ty, [changed, zero]);
        self.both(holds, stays)
    }

    /// Whether both ends, and so all lanes between them, have the same quotient: it is monotonic in
    /// the index.
    fn quotient(
        &mut self,
        op: IntBinaryOp,
        ty: Type,
        affine: &AffineEnds,
        bound: Value,
        [first, last]: [Value; 2],
    ) -> Option<Value> {
        let is_signed = matches!(op, IntBinaryOp::Sdiv | IntBinaryOp::Sshr);
        let rises = self.rises(ty, affine, is_signed);
        let same = self.compare(CompareOp::Eq, ty, [first, last]);
        let holds = self.both(rises, same);
        let divides = matches!(op, IntBinaryOp::Udiv | IntBinaryOp::Sdiv);
        match self.func.as_const(bound) {
            Some(0) if divides => None,
            None if divides => {
                let zero = self.constant(ty, 0);
                let is_defined = self.compare(CompareOp::Ne, ty, [bound, zero]);
                Some(self.both(holds, is_defined))
            }
            _ => Some(holds),
        }
    }

    /// Whether an affine value does not wrap between its ends. Several tests of an index share the
    /// answer.
    fn rises(&mut self, ty: Type, affine: &AffineEnds, is_signed: bool) -> Value {
        let key = (affine.in_order, is_signed);
        if let Some(&known) = self.in_order.get(&key) {
            return known;
        }
        let rises = self.compare(not_above(is_signed), ty, affine.in_order);
        self.in_order.insert(key, rises);
        rises
    }

    /// The same, and whether it is not negative.
    fn rises_from_zero(&mut self, ty: Type, affine: &AffineEnds, is_signed: bool) -> Value {
        let rises = self.rises(ty, affine, is_signed);
        if !is_signed {
            return rises;
        }
        let zero = self.constant(ty, 0);
        let has_no_sign = self.compare(CompareOp::Sle, ty, [zero, affine.in_order[0]]);
        self.both(rises, has_no_sign)
    }

    /// Whether no lane is beyond the border: between ends that do not wrap, the one next to the
    /// border decides.
    fn extreme(&mut self, op: IntBinaryOp, ty: Type, affine: &AffineEnds, bound: Value) -> Value {
        let is_signed = matches!(op, IntBinaryOp::Smin | IntBinaryOp::Smax);
        let [low, high] = affine.in_order;
        let in_order = match matches!(op, IntBinaryOp::Smax | IntBinaryOp::Umax) {
            true => [bound, low],
            false => [high, bound],
        };
        let kept = self.compare(not_above(is_signed), ty, in_order);
        let rises = self.rises(ty, affine, is_signed);
        self.both(kept, rises)
    }

    /// Whether no place of a row is beyond the border, whichever of them the lanes have.
    fn row_extreme(
        &mut self,
        (op, divisor): (IntBinaryOp, i64),
        site: &Site,
        before: &[Site],
    ) -> Option<Value> {
        let bound = self.end(site.bound, false, cost::DEPTH_OF_INDEX)?;
        let [first, last] = [0, divisor - 1].map(|place| self.constant(site.ty, place));
        let low = self.place(site.affine, first, before)?;
        let high = self.place(site.affine, last, before)?;
        let in_order = match op == IntBinaryOp::Smax {
            true => [bound, low],
            false => [high, bound],
        };
        let kept = self.compare(CompareOp::Sle, site.ty, in_order);
        let rises = self.compare(CompareOp::Sle, site.ty, [low, high]);
        Some(self.both(kept, rises))
    }

    /// What a value is where the remainder from which it is computed is `rest`.
    fn place(&mut self, value: Value, rest: Value, before: &[Site]) -> Option<Value> {
        let inst = self.func.def_inst(value).cloned();
        let ValueDef::Result(def, _) = self.func.values[value].def else {
            return self.end(value, false, cost::DEPTH_OF_INDEX);
        };
        if let Some(site) = before.iter().find(|site| site.inst == def) {
            let is_clamp = matches!(site.kind, Kind::RowExtreme(..));
            return is_clamp.then(|| self.place(site.affine, rest, before))?;
        }
        if self.finder().is_even(value, before, cost::DEPTH_OF_INDEX) {
            return self.end(value, false, cost::DEPTH_OF_INDEX);
        }
        let Some(InstData::IntBinary {
            op: op @ (IntBinaryOp::Add | IntBinaryOp::Sub),
            ty,
            args,
        }) = inst
        else {
            return None;
        };
        if op == IntBinaryOp::Sub && remainder(self.func, args, before).is_some() {
            return Some(rest);
        }
        let [a, b] = args;
        let args = [self.place(a, rest, before)?, self.place(b, rest, before)?];
        Some(self.binary(op, ty, args))
    }

    /// Whether a comparison holds for no lane, or for all of them.
    fn chosen(
        &mut self,
        op: CompareOp,
        affine: &AffineEnds,
        bound: Value,
        unless: bool,
    ) -> Option<Value> {
        let ty = self.func.ty(bound);
        match op {
            CompareOp::Eq if unless => Some(self.is_beside(ty, affine, bound)),
            CompareOp::Ne if !unless => Some(self.is_beside(ty, affine, bound)),
            // Lanes of an affine value are not all equal to one number.
            CompareOp::Eq | CompareOp::Ne => None,
            CompareOp::Slt | CompareOp::Sle | CompareOp::Sgt | CompareOp::Sge => {
                let rises = self.rises(ty, affine, true);
                let ends_equal = self.ends_equal(op, ty, affine, bound, unless);
                Some(self.both(rises, ends_equal))
            }
            CompareOp::Ult | CompareOp::Ule | CompareOp::Ugt | CompareOp::Uge => {
                let rises = self.rises(ty, affine, false);
                let ends_equal = self.ends_equal(op, ty, affine, bound, unless);
                Some(self.both(rises, ends_equal))
            }
        }
    }

    /// Whether a number does not lie between the ends of an affine value.
    fn is_beside(&mut self, ty: Type, affine: &AffineEnds, bound: Value) -> Value {
        let from_lowest = self.binary(IntBinaryOp::Sub, ty, [bound, affine.in_order[0]]);
        let span = self.constant(ty, affine.span.abs());
        self.compare(CompareOp::Ugt, ty, [from_lowest, span])
    }

    /// Whether the comparison has the wanted result for all lanes: between ends that do not wrap,
    /// one end decides.
    fn ends_equal(
        &mut self,
        op: CompareOp,
        ty: Type,
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
        let arg = self.compare(op, ty, [deciding, bound]);
        if !unless {
            return arg;
        }
        let not = InstData::IntUnary {
            op: IntUnaryOp::Not,
            ty: Type::B1,
            arg,
        };
        self.put(not, Type::B1)
    }

    fn finder(&self) -> Finder<'_> {
        Finder {
            func: self.func,
            divergence: self.divergence,
            stable: self.stable,
            block: self.block,
        }
    }

    /// A value at the first or the last lane, computed where it is not known yet.
    fn end(&mut self, value: Value, last: bool, depth: u32) -> Option<Value> {
        let depth = depth.checked_sub(1)?;
        if let Some(&end) = self.ends.get(&(value, last)) {
            return Some(end);
        }
        let ty = self.func.ty(value);
        let variability = self.divergence.variability[value].unwrap_or(Variability::Uniform);
        let later = match self.func.values[value].def {
            ValueDef::Result(inst, _) => self.func.blocks[self.rest]
                .insts
                .contains(&inst)
                .then_some(inst),
            ValueDef::Param(..) => None,
        };
        let end = match (later, variability) {
            (None, Variability::Uniform) => value,
            (None, Variability::Affine { may_wrap: None, .. })
                if self.stable.is_stable_in(self.func, value, self.block) =>
            {
                self.put(
                    InstData::EndLane {
                        ty,
                        last,
                        arg: value,
                    },
                    ty,
                )
            }
            (None, Variability::Affine { .. } | Variability::Varying) => return None,
            (Some(inst), _) => {
                let mut data = self.func.insts[inst].data.clone();
                let is_simple = matches!(
                    data,
                    InstData::Const { .. }
                        | InstData::IntBinary { .. }
                        | InstData::IntUnary { .. }
                        | InstData::Resize { .. }
                );
                if !is_simple {
                    return None;
                }
                for arg in data.args_mut() {
                    *arg = self.end(*arg, last, depth)?;
                }
                self.put(data, ty)
            }
        };
        self.ends.insert((value, last), end);
        Some(end)
    }
}
