//! Which instructions may wrap or clamp an index, and how.

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Block, Function, Inst, InstData, IntBinaryOp, ResizeOp, Type, Value};

use super::{Kind, Known, Site};
use crate::analysis::variability::Variability;
use crate::cost;

/// Whether an instruction can wrap or clamp an index.
#[expect(clippy::wildcard_enum_match_arm, reason = "others do not wrap")]
pub(super) fn is_candidate(data: &InstData) -> bool {
    match data {
        InstData::Select { .. } => true,
        InstData::IntBinary { op, .. } => matches!(
            op,
            IntBinaryOp::Urem
                | IntBinaryOp::Srem
                | IntBinaryOp::Udiv
                | IntBinaryOp::Sdiv
                | IntBinaryOp::Ushr
                | IntBinaryOp::Sshr
                | IntBinaryOp::And
                | IntBinaryOp::Or
                | IntBinaryOp::Xor
                | IntBinaryOp::Umin
                | IntBinaryOp::Umax
                | IntBinaryOp::Smin
                | IntBinaryOp::Smax
        ),
        _ => false,
    }
}

/// Values that addresses of loads and stores depend on.
pub(super) type Leads = SecondaryMap<Value, bool>;

pub(super) fn find_leads(func: &Function) -> Leads {
    let mut leads = Leads::new();
    let accesses = func.insts.values().filter_map(|node| node.data.access());
    let mut work: Vec<Value> = accesses.map(|access| access.addr).collect();
    while let Some(value) = work.pop() {
        if std::mem::replace(&mut leads[value], true) {
            continue;
        }
        match func.def_inst(value) {
            Some(InstData::IntBinary { op, args, .. }) => match op {
                IntBinaryOp::Shl | IntBinaryOp::Ushr | IntBinaryOp::Sshr => work.push(args[0]),
                IntBinaryOp::Add
                | IntBinaryOp::Sub
                | IntBinaryOp::Mul
                | IntBinaryOp::UmulWide
                | IntBinaryOp::SmulWide
                | IntBinaryOp::And
                | IntBinaryOp::Or
                | IntBinaryOp::Xor
                | IntBinaryOp::Urem
                | IntBinaryOp::Srem
                | IntBinaryOp::Udiv
                | IntBinaryOp::Sdiv
                | IntBinaryOp::Smin
                | IntBinaryOp::Smax
                | IntBinaryOp::Umin
                | IntBinaryOp::Umax => work.extend(args),
                IntBinaryOp::UmulHi
                | IntBinaryOp::SmulHi
                | IntBinaryOp::SaddSat
                | IntBinaryOp::SsubSat => {}
            },
            Some(&InstData::Resize {
                op: ResizeOp::Sext | ResizeOp::Uext,
                arg,
                ..
            }) => work.push(arg),
            Some(InstData::Select { args, .. }) => work.extend(args),
            _ => {}
        }
    }
    leads
}

pub(super) struct Finder<'a> {
    pub func: &'a Function,
    pub known: &'a Known,
    pub block: Block,
}

impl Finder<'_> {
    /// The instructions of a block that may wrap an index of an address, in order.
    pub(super) fn sites(&self, leads: &Leads) -> Vec<Site> {
        let mut sites: Vec<Site> = Vec::new();
        for &inst in &self.func.blocks[self.block].insts {
            if let [result] = self.func.insts[inst].results[..]
                && leads[result]
                && self.known.divergence.is_varying(result)
                && let Some(site) = self.site(inst, &sites)
                && sites.len() < cost::MOST_SITES
            {
                sites.push(site);
            }
        }
        sites
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "others do not wrap")]
    fn site(&self, inst: Inst, before: &[Site]) -> Option<Site> {
        let is_index = |ty| matches!(ty, Type::B32 | Type::B64);
        let (ty, (kind, affine, bound)) = match self.func.insts[inst].data {
            InstData::IntBinary { op, ty, args } if is_index(ty) => {
                (ty, self.computed(op, ty, args, before)?)
            }
            InstData::Select { ty, cond, args } if is_index(ty) => {
                (ty, self.chosen(cond, args, before)?)
            }
            _ => return None,
        };
        Some(Site {
            inst,
            kind,
            ty,
            affine,
            bound,
        })
    }

    /// Arithmetic on an index and a uniform value.
    fn computed(
        &self,
        op: IntBinaryOp,
        ty: Type,
        [a, b]: [Value; 2],
        before: &[Site],
    ) -> Option<Deviation> {
        let can_negate = matches!(
            op,
            IntBinaryOp::And
                | IntBinaryOp::Or
                | IntBinaryOp::Xor
                | IntBinaryOp::Umin
                | IntBinaryOp::Umax
                | IntBinaryOp::Smin
                | IntBinaryOp::Smax
        );
        let (affine, bound) = match can_negate && self.is_even(a, before) {
            true => (b, a),
            false => (a, b),
        };
        let kind = self.kind(op, ty, bound)?;
        let Some(stride) = self.stride(affine, before) else {
            let divisor = self.row(affine, before, cost::DEPTH_OF_INDEX)?;
            let is_signed = matches!(op, IntBinaryOp::Smin | IntBinaryOp::Smax);
            let is_clamp = is_signed && self.is_even(bound, before);
            return is_clamp.then_some((Kind::RowExtreme(op, divisor), affine, bound));
        };
        let period = self.period(op, bound, ty);
        let fits = period.is_none_or(|period| self.span(stride) < period);
        let steps = matches!(kind, Kind::Quotient(_)) && self.steps(op, ty, (stride, period));
        let kind = if steps { Kind::Step(op) } else { kind };
        (fits && self.is_even(bound, before)).then_some((kind, affine, bound))
    }

    /// How far the first and the last lane of a value of this stride are from each other.
    fn span(&self, stride: i64) -> u64 {
        let most = u64::from(self.known.divergence.gang - 1);
        stride.unsigned_abs().saturating_mul(most)
    }

    /// How an operation on an index deviates from an affine one.
    fn kind(&self, op: IntBinaryOp, ty: Type, bound: Value) -> Option<Kind> {
        Some(match op {
            IntBinaryOp::Urem | IntBinaryOp::Srem => Kind::Modulo(op),
            IntBinaryOp::And => mask_kind(self.func.as_const(bound), ty)?,
            IntBinaryOp::Or | IntBinaryOp::Xor => Kind::Bits(op),
            IntBinaryOp::Umin | IntBinaryOp::Umax | IntBinaryOp::Smin | IntBinaryOp::Smax => {
                Kind::Extreme(op)
            }
            IntBinaryOp::Udiv | IntBinaryOp::Sdiv | IntBinaryOp::Ushr | IntBinaryOp::Sshr => {
                Kind::Quotient(op)
            }
            IntBinaryOp::Add
            | IntBinaryOp::Sub
            | IntBinaryOp::Mul
            | IntBinaryOp::UmulHi
            | IntBinaryOp::SmulHi
            | IntBinaryOp::UmulWide
            | IntBinaryOp::SmulWide
            | IntBinaryOp::Shl
            | IntBinaryOp::SaddSat
            | IntBinaryOp::SsubSat => return None,
        })
    }

    /// Whether a quotient mostly has two values in a gang.
    fn steps(&self, op: IntBinaryOp, ty: Type, (stride, period): (i64, Option<u64>)) -> bool {
        let divergence = &self.known.divergence;
        let reach = stride.unsigned_abs().saturating_mul(divergence.gang.into());
        let most = cost::GANGS_PER_STEP.saturating_mul(reach);
        let divides = matches!(op, IntBinaryOp::Udiv | IntBinaryOp::Sdiv);
        let is_plain = ty == Type::B32 && stride > 0 && !divergence.facts.keeps_accesses;
        divides && is_plain && period.is_some_and(|period| period <= most)
    }

    /// A selection by a comparison of an index.
    fn chosen(&self, cond: Value, [a, b]: [Value; 2], before: &[Site]) -> Option<Deviation> {
        let (op, Type::B32, [x, y]) = self.func.def_inst(cond)?.as_compare()? else {
            return None;
        };
        let (affine, bound, unless) = match self.is_even(a, before) {
            true => (b, a, true),
            false => (a, b, false),
        };
        let kind = Kind::Chosen {
            op,
            compared: x,
            bound: y,
            unless,
        };
        self.stride(x, before)?;
        self.stride(affine, before)?;
        let are_even = self.is_even(y, before) && self.is_even(bound, before);
        are_even.then_some((kind, affine, bound))
    }

    /// The distance between two points at which a remainder wraps, a quotient changes or bits are
    /// changed, if it is known.
    #[expect(clippy::wildcard_enum_match_arm, reason = "others have no period")]
    fn period(&self, op: IntBinaryOp, bound: Value, ty: Type) -> Option<u64> {
        let bound = self.func.as_const(bound)?;
        match op {
            IntBinaryOp::Urem | IntBinaryOp::Udiv => Some(bound),
            IntBinaryOp::Srem | IntBinaryOp::Sdiv => Some(ty.signed(bound).unsigned_abs()),
            IntBinaryOp::Ushr | IntBinaryOp::Sshr => 1u64.checked_shl(bound as u32),
            IntBinaryOp::Or | IntBinaryOp::Xor => 1u64.checked_shl(bound.trailing_zeros()),
            IntBinaryOp::And if bound & 1 == 0 => 1u64.checked_shl(bound.trailing_zeros()),
            IntBinaryOp::And => Some(bound & ty.mask()).and_then(|mask| mask.checked_add(1)),
            _ => None,
        }
    }

    /// Whether a value is uniform if each of the quotients before is.
    pub(super) fn is_even(&self, value: Value, before: &[Site]) -> bool {
        self.is_even_within(value, before, cost::DEPTH_OF_INDEX)
    }

    fn is_even_within(&self, value: Value, before: &[Site], depth: u32) -> bool {
        if self.known.divergence.variability(value) == Variability::Uniform {
            return true;
        }
        let (Some(depth), Some(inst)) = (depth.checked_sub(1), self.func.maker(value)) else {
            return false;
        };
        let is_quotient = |site: &Site| site.inst == inst && matches!(site.kind, Kind::Quotient(_));
        if before.iter().any(is_quotient) {
            return true;
        }
        let data = &self.func.insts[inst].data;
        let is_simple = matches!(
            data,
            InstData::IntBinary { .. } | InstData::IntUnary { .. } | InstData::Resize { .. }
        );
        let mut args = data.args().into_iter();
        is_simple && args.all(|arg| self.is_even_within(arg, before, depth))
    }

    /// The divisor of which a value is the remainder of a quotient before, which steps, and a
    /// uniform value, if nothing is clamped.
    fn row(&self, value: Value, before: &[Site], depth: u32) -> Option<i64> {
        let depth = depth.checked_sub(1)?;
        let inst = self.func.maker(value)?;
        if let Some(site) = before.iter().find(|site| site.inst == inst) {
            let is_clamp = matches!(site.kind, Kind::RowExtreme(..));
            return is_clamp.then(|| self.row(site.affine, before, depth))?;
        }
        let (op @ (IntBinaryOp::Add | IntBinaryOp::Sub), Type::B32, [a, b]) =
            self.func.insts[inst].data.as_binary()?
        else {
            return None;
        };
        if op == IntBinaryOp::Sub
            && let Some(divisor) = remainder(self.func, [a, b], before)
        {
            return Some(divisor);
        }
        match [a, b].map(|value| self.is_even(value, before)) {
            [_, true] => self.row(a, before, depth),
            [true, false] if op == IntBinaryOp::Add => self.row(b, before, depth),
            [true | false, false] => None,
        }
    }

    /// The stride of a value if none of the indices before wraps.
    pub(super) fn stride(&self, value: Value, before: &[Site]) -> Option<i64> {
        self.stride_within(value, before, cost::DEPTH_OF_INDEX)
    }

    fn stride_within(&self, value: Value, before: &[Site], depth: u32) -> Option<i64> {
        let depth = depth.checked_sub(1)?;
        let Known { divergence, stable } = self.known;
        if let Some(stride) = divergence.variability(value).exact_stride() {
            let is_short = (1..1 << 30).contains(&self.span(stride));
            let is_stable = is_short && stable.is_stable_in(self.func, value, self.block);
            return is_stable.then_some(stride);
        }
        let inst = self.func.maker(value)?;
        let of = |value| self.stride_within(value, before, depth);
        let is_even = |value| self.is_even_within(value, before, depth);
        if let Some(site) = before.iter().find(|site| site.inst == inst) {
            return match site.kind {
                Kind::Quotient(_) | Kind::Step(_) | Kind::RowExtreme(..) => None,
                Kind::Modulo(_) | Kind::Bits(_) | Kind::Extreme(_) | Kind::Chosen { .. } => {
                    of(site.affine)
                }
            };
        }
        match self.func.insts[inst].data.as_binary()? {
            (IntBinaryOp::Add, _, [a, b]) if is_even(a) => of(b),
            (IntBinaryOp::Add | IntBinaryOp::Sub, _, [a, b]) if is_even(b) => of(a),
            _ => None,
        }
    }
}

/// How the result of an instruction deviates from an index, the index, and the bound.
type Deviation = (Kind, Value, Value);

/// The divisor, if `number - multiple` is the remainder of a quotient that steps.
pub(super) fn remainder(
    func: &Function,
    [number, multiple]: [Value; 2],
    sites: &[Site],
) -> Option<i64> {
    let (IntBinaryOp::Mul, _, [quotient, divisor]) = func.as_binary(multiple)? else {
        return None;
    };
    let is_step = |site: &&Site| {
        let is_result = func.insts[site.inst].results[..] == [quotient];
        is_result && site.affine == number && matches!(site.kind, Kind::Step(_))
    };
    let step = sites.iter().find(is_step)?;
    let divisor = func.as_const(divisor)?;
    (func.as_const(step.bound) == Some(divisor)).then_some(divisor as i64)
}

/// Whether a mask keeps the low bits of an index, or drops them; `None` for other masks. An unknown
/// mask is taken to keep low bits.
fn mask_kind(mask: Option<u64>, ty: Type) -> Option<Kind> {
    let has_low_bits = |mask: u64| mask & mask.wrapping_add(1) == 0;
    match mask {
        Some(mask) if !has_low_bits(mask) => {
            has_low_bits(!mask & ty.mask()).then_some(Kind::Quotient(IntBinaryOp::And))
        }
        _ => Some(Kind::Modulo(IntBinaryOp::And)),
    }
}
