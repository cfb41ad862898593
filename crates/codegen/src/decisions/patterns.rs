//! What is known at compile time of values of whole warps: values that depend on nothing but the
//! lane's number, values that are uniform or affine within each quad, and values whose lanes differ
//! from the first one by known distances.
//!
//! Compilers compute from the lane number which lane reads whose values and which part of a tile:
//! no instruction needs to compute that at run time.

mod differences;

use ptxjit_ir::{Function, InstData, IntBinaryOp, ResizeOp, SpecialReg, Type, Value, WarpOp, eval};
use ptxjit_vectorize::{Plan, Variability};
use rustc_hash::FxHashMap;

use ptxjit_abi::warp_ops::WARP;

pub(crate) use differences::Differences;
use differences::Split;

/// Definitions are followed this deep.
const DEPTH: u32 = 12;

/// Results so far, as many instructions ask for the same values.
pub(crate) struct Patterns<'a> {
    func: &'a Function,
    plan: &'a Plan,
    lanes: FxHashMap<Value, Option<[u64; WARP]>>,
    steps: FxHashMap<Value, Option<i32>>,
    split: FxHashMap<Value, Option<Split>>,
    differences: FxHashMap<Value, Option<Differences>>,
}

impl<'a> Patterns<'a> {
    pub(super) fn new(func: &'a Function, plan: &'a Plan) -> Patterns<'a> {
        Patterns {
            func,
            plan,
            lanes: FxHashMap::default(),
            steps: FxHashMap::default(),
            split: FxHashMap::default(),
            differences: FxHashMap::default(),
        }
    }

    fn are_of_a_warp(&self) -> bool {
        self.plan.gang as usize == WARP
    }

    /// The bits of a value in all lanes, if they are known.
    pub(crate) fn known_lanes(&mut self, value: Value) -> Option<[u64; WARP]> {
        self.are_of_a_warp()
            .then(|| self.lane_pattern(value, DEPTH))?
    }

    fn lane_pattern(&mut self, value: Value, depth: u32) -> Option<[u64; WARP]> {
        if let Some(&known) = self.lanes.get(&value) {
            return known;
        }
        let pattern = self.find_pattern(value, depth);
        self.lanes.insert(value, pattern);
        pattern
    }

    fn find_pattern(&mut self, value: Value, depth: u32) -> Option<[u64; WARP]> {
        let depth = depth.checked_sub(1)?;
        if let Some(bits) = self.func.as_const(value) {
            return Some([bits; WARP]);
        }
        let func = self.func;
        let data = func.def_inst(value)?;
        if let InstData::Sreg {
            sreg: SpecialReg::LaneId,
        } = data
        {
            return Some(std::array::from_fn(|lane| lane as u64));
        }
        if let Some(pattern) = self.bits_of_affine(data) {
            return Some(pattern);
        }
        let (InstData::IntUnary { .. }
        | InstData::IntBinary { .. }
        | InstData::IntTernary { .. }
        | InstData::Compare { .. }
        | InstData::Resize { .. }) = data
        else {
            return None;
        };
        let args: Option<Vec<_>> = data
            .args()
            .iter()
            .map(|&arg| self.lane_pattern(arg, depth))
            .collect();
        let args = args?;
        let mut out = [0; WARP];
        for (lane, bits) in out.iter_mut().enumerate() {
            let args: Vec<u64> = args.iter().map(|arg| arg[lane]).collect();
            *bits = eval::inst(data, &args)?;
        }
        Some(out)
    }

    /// `tid & 31` and the like: of an affine value bits below those that the base may have.
    fn bits_of_affine(&self, data: &InstData) -> Option<[u64; WARP]> {
        let (IntBinaryOp::And, _, [affine, mask]) = data.as_binary()? else {
            return None;
        };
        let mask = self.func.as_const(mask)?;
        match self.plan.variability[affine] {
            Variability::Affine {
                stride,
                align,
                may_wrap: None,
            } if mask >> align.min(63) == 0 => Some(std::array::from_fn(|lane| {
                stride.wrapping_mul(lane as i64) as u64 & mask
            })),
            Variability::Affine { .. } | Variability::Uniform | Variability::Varying => None,
        }
    }

    /// The stride of a `B32` within each quad, wrapping, if it is known.
    pub(crate) fn quad_step(&mut self, value: Value) -> Option<i32> {
        let is_word = self.func.ty(value) == Type::B32;
        (self.are_of_a_warp() && is_word).then(|| self.step_within_quads(value, DEPTH))?
    }

    fn step_within_quads(&mut self, value: Value, depth: u32) -> Option<i32> {
        if let Some(&known) = self.steps.get(&value) {
            return known;
        }
        let step = self.find_step(value, depth);
        self.steps.insert(value, step);
        step
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "others make no counter")]
    fn find_step(&mut self, value: Value, depth: u32) -> Option<i32> {
        let depth = depth.checked_sub(1)?;
        let variability = self.plan.variability[value];
        if variability == Variability::Uniform {
            return Some(0);
        }
        if let Some(stride) = variability.exact_stride() {
            return Some(stride as i32);
        }
        let differences = self.differences_within(value, depth);
        if let Some(differences) = differences.filter(|it| it.swizzled.is_none()) {
            return differences.step_within_quads();
        }
        let func = self.func;
        let mut of = |value: Value| self.step_within_quads(value, depth);
        let data = func.def_inst(value)?;
        match *data {
            // All lanes of a quad read the same lane.
            InstData::Warp {
                op: op @ WarpOp::ShflIdx,
                ref args,
                ..
            } => {
                let whole = op.reads_any_lane(func.as_const(args[2]));
                (whole && of(args[1])? == 0).then_some(0)
            }
            InstData::Resize {
                op: ResizeOp::Trunc,
                arg,
                to: Type::B32,
                ..
            } => of(arg),
            InstData::IntBinary { op, args, .. } => match (op, args) {
                (IntBinaryOp::Add, [a, b]) => Some(of(a)?.wrapping_add(of(b)?)),
                (IntBinaryOp::Sub, [a, b]) => Some(of(a)?.wrapping_sub(of(b)?)),
                (IntBinaryOp::Mul, [a, b]) => match (of(a)?, func.as_const(b)) {
                    (step, Some(factor)) => Some(step.wrapping_mul(factor as i32)),
                    (0, None) => (of(b)? == 0).then_some(0),
                    (_, None) => None,
                },
                (IntBinaryOp::Shl, [a, b]) => {
                    let count = func.as_const(b).filter(|&count| count < 32)?;
                    Some(of(a)? << count)
                }
                _ => args.iter().all(|&arg| of(arg) == Some(0)).then_some(0),
            },
            InstData::IntUnary { arg, .. } | InstData::Resize { arg, .. } => {
                of(arg).filter(|&step| step == 0)
            }
            _ => None,
        }
    }
}
