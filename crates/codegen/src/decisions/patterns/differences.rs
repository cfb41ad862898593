//! Values whose lanes are known but for something uniform, such as places in shared memory that are
//! computed from bits of the thread's number.
//!
//! Some of these bits tell the place in the warp, others which warp it is. `and`, `xor` and shifts
//! keep what stems from either apart, and so do `or` and sums where no bit stems from both. Where
//! a pattern of a warp is exchanged by bits of the warp's number, which is how rows of tiles are
//! swizzled, few different words are left to be computed.

use ptxjit_ir::{InstData, IntBinaryOp, ResizeOp, Value};
use ptxjit_vectorize::Variability;

use ptxjit_abi::warp_ops::WARP;

use super::{DEPTH, Patterns};

/// How the low words of lanes differ from that of the first lane.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Differences {
    /// What each lane has more, wrapping.
    pub more: [u32; WARP],
    /// A term of which each lane's has other bits than the first lane's, and which bits.
    pub swizzled: Option<(Value, [u32; WARP])>,
}

impl Differences {
    fn of(more: [u32; WARP]) -> Differences {
        Differences {
            more,
            swizzled: None,
        }
    }

    /// Those of a sum, unless both terms are swizzled.
    fn plus(self, other: Differences) -> Option<Differences> {
        let more = std::array::from_fn(|lane| self.more[lane].wrapping_add(other.more[lane]));
        let swizzled = match (self.swizzled, other.swizzled) {
            (Some(_), Some(_)) => return None,
            (one, other) => one.or(other),
        };
        Some(Differences { more, swizzled })
    }

    /// How much more each lane of a quad has than the one before, if that is the same for all.
    pub(super) fn step_within_quads(&self) -> Option<i32> {
        let step = |lane: usize| self.more[lane + 1].wrapping_sub(self.more[lane]);
        let is_even = (0..WARP).all(|lane| lane % 4 == 3 || step(lane) == step(0));
        is_even.then_some(step(0) as i32)
    }

    /// Those of a multiple, unless the value is swizzled.
    fn times(self, factor: u32) -> Option<Differences> {
        let more = self.more.map(|more| more.wrapping_mul(factor));
        self.swizzled.is_none().then(|| Differences::of(more))
    }
}

/// A value whose bits are those of something uniform and what is known of each lane, by `xor`.
#[derive(Copy, Clone, Debug)]
pub(super) struct Split {
    lanes: [u64; WARP],
    /// Bits that the uniform part may have.
    uniform: u64,
}

impl Split {
    /// Bits that stem from the lane's number.
    fn of_lanes(&self) -> u64 {
        self.lanes.iter().fold(0, |all, bits| all | bits)
    }

    fn map(self, op: impl Fn(u64) -> u64) -> Split {
        Split {
            lanes: self.lanes.map(&op),
            uniform: op(self.uniform),
        }
    }

    fn with(self, other: Split, op: impl Fn(u64, u64) -> u64) -> Split {
        Split {
            lanes: std::array::from_fn(|lane| op(self.lanes[lane], other.lanes[lane])),
            uniform: self.uniform | other.uniform,
        }
    }

    fn xor(self, other: Split) -> Split {
        self.with(other, |a, b| a ^ b)
    }

    /// Unless a bit that both may have stems from both parts.
    fn or(self, other: Split) -> Option<Split> {
        let common = self.bits() & other.bits();
        let mixed = (self.uniform | other.uniform) & (self.of_lanes() | other.of_lanes());
        (common & mixed == 0).then(|| self.with(other, |a, b| a | b))
    }

    /// Unless there may be a carry.
    fn plus(self, other: Split) -> Option<Split> {
        (self.bits() & other.bits() == 0).then(|| self.xor(other))
    }

    /// All bits that a lane may have.
    fn bits(&self) -> u64 {
        self.of_lanes() | self.uniform
    }

    fn differences(&self, value: Value) -> Differences {
        let low = self.lanes.map(|bits| bits as u32);
        let uniform = self.uniform as u32;
        let swizzled = low.map(|bits| (bits ^ low[0]) & uniform);
        let is_swizzled = swizzled != [0; WARP];
        Differences {
            more: low.map(|bits| (bits & !uniform).wrapping_sub(low[0] & !uniform)),
            swizzled: is_swizzled.then_some((value, swizzled)),
        }
    }
}

impl Patterns<'_> {
    /// How the lanes of a value differ, if that is known.
    pub(crate) fn differences(&mut self, value: Value) -> Option<Differences> {
        self.are_of_a_warp()
            .then(|| self.differences_within(value, DEPTH))?
    }

    pub(super) fn differences_within(&mut self, value: Value, depth: u32) -> Option<Differences> {
        if let Some(&known) = self.differences.get(&value) {
            return known;
        }
        let differences = self.find_differences(value, depth);
        self.differences.insert(value, differences);
        differences
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "others make no address")]
    fn find_differences(&mut self, value: Value, depth: u32) -> Option<Differences> {
        let depth = depth.checked_sub(1)?;
        if let Some(split) = self.split(value, depth) {
            return Some(split.differences(value));
        }
        if let Some(stride) = self.plan.variability[value].exact_stride() {
            let more = std::array::from_fn(|lane| (stride as u32).wrapping_mul(lane as u32));
            return Some(Differences::of(more));
        }
        match *self.func.def_inst(value)? {
            InstData::IntBinary {
                op, args: [a, b], ..
            } => {
                let of_a = self.differences_within(a, depth)?;
                match (op, self.func.as_const(b)) {
                    (IntBinaryOp::Add, _) => of_a.plus(self.differences_within(b, depth)?),
                    (IntBinaryOp::Sub, _) => {
                        of_a.plus(self.differences_within(b, depth)?.times(u32::MAX)?)
                    }
                    (IntBinaryOp::Mul, Some(by)) => of_a.times(by as u32),
                    (IntBinaryOp::Shl, Some(by @ 0..32)) => of_a.times(1 << by),
                    _ => None,
                }
            }
            InstData::Resize {
                op: ResizeOp::Uext | ResizeOp::Sext,
                from,
                arg,
                ..
            } if from.bits() == 32 => self.differences_within(arg, depth),
            InstData::Resize {
                op: ResizeOp::Trunc,
                to,
                arg,
                ..
            } if to.bits() == 32 => self.differences_within(arg, depth),
            _ => None,
        }
    }

    fn split(&mut self, value: Value, depth: u32) -> Option<Split> {
        if let Some(&known) = self.split.get(&value) {
            return known;
        }
        let split = self.find_split(value, depth);
        let split = split.or_else(|| self.split_of_variability(value));
        self.split.insert(value, split);
        split
    }

    /// What follows from the instruction.
    #[expect(clippy::wildcard_enum_match_arm, reason = "others mix bits")]
    fn find_split(&mut self, value: Value, depth: u32) -> Option<Split> {
        let depth = depth.checked_sub(1)?;
        if let Some(lanes) = self.lane_pattern(value, depth) {
            return Some(Split { lanes, uniform: 0 });
        }
        let all = self.func.ty(value).mask();
        match *self.func.def_inst(value)? {
            InstData::IntBinary {
                op, args: [a, b], ..
            } => {
                let of_a = self.split(a, depth)?;
                match (op, self.func.as_const(b)) {
                    (IntBinaryOp::And, Some(mask)) => Some(of_a.map(|bits| bits & mask)),
                    (IntBinaryOp::Shl, Some(n @ 0..64)) => Some(of_a.map(|bits| bits << n & all)),
                    (IntBinaryOp::Ushr, Some(n @ 0..64)) => Some(of_a.map(|bits| bits >> n)),
                    (IntBinaryOp::Or, _) => of_a.or(self.split(b, depth)?),
                    (IntBinaryOp::Xor, _) => Some(of_a.xor(self.split(b, depth)?)),
                    (IntBinaryOp::Add, _) => of_a.plus(self.split(b, depth)?),
                    _ => None,
                }
            }
            InstData::Resize {
                op: ResizeOp::Uext | ResizeOp::Trunc,
                arg,
                ..
            } => Some(self.split(arg, depth)?.map(|bits| bits & all)),
            _ => None,
        }
    }

    /// What follows from the variability: of an affine value the bits below the least of its base.
    fn split_of_variability(&self, value: Value) -> Option<Split> {
        let all = self.func.ty(value).mask();
        match self.plan.variability[value] {
            Variability::Uniform => Some(Split {
                lanes: [0; WARP],
                uniform: all,
            }),
            Variability::Affine {
                stride,
                align,
                may_wrap: None,
            } => {
                let stride = u64::try_from(stride).ok()?;
                let last = stride.checked_mul(WARP as u64 - 1)?;
                let low = (1u64 << align.min(63)) - 1;
                (last <= low & all).then(|| Split {
                    lanes: std::array::from_fn(|lane| stride * lane as u64),
                    uniform: all & !low,
                })
            }
            Variability::Affine { .. } | Variability::Varying => None,
        }
    }
}
