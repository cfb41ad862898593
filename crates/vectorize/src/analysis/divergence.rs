//! Divergence analysis: finds which values are uniform, affine or varying, and why.

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{
    Block, Class, Function, InstData, IntBinaryOp, IntUnaryOp, ResizeOp, SharedBy, Space,
    SpecialReg, Type, Value, WarpOp,
};

use crate::analysis::multiples::trailing_zeros;
use crate::analysis::order::Node;
use crate::analysis::range;
use crate::analysis::variability::{Because, MayWrap, Variability, join, scaled};
use crate::scalarize::single_lane::{self, SingleLane};
use crate::{Order, PlanFacts};
use ptxjit_passes::transform::simplify::possible_bits;

pub(crate) struct Divergence {
    /// `None`: not reached yet.
    pub variability: SecondaryMap<Value, Option<Variability>>,
    pub because: SecondaryMap<Value, Because>,
    pub facts: PlanFacts,
    pub gang: u32,
    /// Parameters that lanes write on different paths.
    pub merged: SecondaryMap<Value, bool>,
    /// Values that must be vectors: they may stem from an index that wrapped, they are used as
    /// numbers, and their bits do not tell whether the index wrapped.
    pub spread: SecondaryMap<Value, bool>,
    /// Blocks that one lane runs at a time.
    pub single_lane: SecondaryMap<Block, SingleLane>,
}

impl Divergence {
    pub(crate) fn new(gang: u32, facts: PlanFacts) -> Divergence {
        Divergence {
            variability: SecondaryMap::new(),
            because: SecondaryMap::new(),
            facts,
            gang,
            merged: SecondaryMap::new(),
            spread: SecondaryMap::new(),
            single_lane: SecondaryMap::new(),
        }
    }

    /// Propagates to a fixed point.
    pub(crate) fn propagate(&mut self, func: &Function, order: &Order) {
        for &param in func.params() {
            self.set(param, Variability::Varying, Because::Source);
        }
        loop {
            let mut changed = false;
            for node in &order.nodes {
                if let Node::Block(block) = *node {
                    changed |= self.block(func, block);
                }
            }
            if !changed {
                break;
            }
        }
    }

    fn block(&mut self, func: &Function, block: Block) -> bool {
        let mut changed = false;
        for &inst in &func.blocks[block].insts {
            let node = &func.insts[inst];
            for idx in 0..node.results.len() {
                let (variability, because) = if self.is_single_lane(block, &node.data) {
                    (Variability::Uniform, Because::NotVarying)
                } else {
                    self.result(func, &node.data, idx)
                };
                changed |= self.set(node.results[idx], variability, because);
            }
        }
        for call in func.blocks[block].term.targets() {
            for (&param, &arg) in func.blocks[call.block].params.iter().zip(&call.args) {
                let Some(arg_variability) = self.variability[arg] else {
                    continue;
                };
                let (variability, because) = self.join(param, arg, arg_variability, call.block);
                changed |= self.set(param, variability, because);
            }
        }
        changed
    }

    /// Whether an instruction's result is a scalar because one lane runs it at a time.
    fn is_single_lane(&self, block: Block, data: &InstData) -> bool {
        self.single_lane[block] != SingleLane::No && single_lane::is_scalar(data)
    }

    fn join(
        &self,
        param: Value,
        arg: Value,
        arg_variability: Variability,
        block: Block,
    ) -> (Variability, Because) {
        if self.single_lane[block] == SingleLane::Inner {
            return (Variability::Uniform, Because::NotVarying);
        }
        if self.merged[param] {
            return (Variability::Varying, Because::Merge(block));
        }
        // The sum that a parameter accumulates over the iterations of a loop is unknown.
        let arg_variability = match arg_variability {
            Variability::Affine {
                stride,
                align,
                may_wrap: Some(may_wrap),
            } => Variability::Affine {
                stride,
                align,
                may_wrap: Some(may_wrap.plus(false)),
            },
            other @ (Variability::Uniform | Variability::Affine { .. } | Variability::Varying) => {
                other
            }
        };
        match self.variability[param] {
            None if arg_variability == Variability::Varying => {
                (Variability::Varying, Because::Operand(arg))
            }
            None => (arg_variability, Because::NotVarying),
            Some(Variability::Varying) => (Variability::Varying, self.because[param]),
            Some(old) => match join(old, arg_variability) {
                Variability::Varying => (Variability::Varying, Because::Operand(arg)),
                variability @ (Variability::Uniform | Variability::Affine { .. }) => {
                    (variability, Because::NotVarying)
                }
            },
        }
    }

    /// The variability of a value only ever descends the lattice, which bounds the iteration.
    fn set(&mut self, value: Value, variability: Variability, because: Because) -> bool {
        let (variability, because) = if self.spread[value] {
            (Variability::Varying, Because::MayWrap)
        } else {
            (variability, because)
        };
        let old = self.variability[value];
        let variability = old.map_or(variability, |old| join(old, variability));
        if old == Some(variability) {
            return false;
        }
        self.variability[value] = Some(variability);
        self.because[value] = if variability == Variability::Varying {
            because
        } else {
            Because::NotVarying
        };
        true
    }

    fn variability(&self, value: Value) -> Variability {
        self.variability[value].unwrap_or(Variability::Uniform)
    }

    /// The variability of a result, from that of the operands.
    #[expect(clippy::wildcard_enum_match_arm, reason = "others follow operands")]
    pub(crate) fn result(
        &self,
        func: &Function,
        data: &InstData,
        idx: usize,
    ) -> (Variability, Because) {
        if self.gang == 1 {
            return (Variability::Uniform, Because::NotVarying);
        }
        let args = data.args();
        let varying_arg = args
            .iter()
            .copied()
            .find(|&arg| self.variability(arg) != Variability::Uniform);
        let from_args = || match varying_arg {
            None => (Variability::Uniform, Because::NotVarying),
            Some(arg) => (Variability::Varying, Because::Operand(arg)),
        };
        let ok = |variability: Variability| match (variability, varying_arg) {
            (Variability::Varying, Some(arg)) => (Variability::Varying, Because::Operand(arg)),
            (Variability::Varying, None) => (Variability::Varying, Because::Source),
            _ => (variability, Because::NotVarying),
        };
        match data.class() {
            Class::Device(_) | Class::Stack => return (Variability::Varying, Because::Source),
            Class::Constant | Class::Call | Class::Order => return from_args(),
            Class::Arithmetic
            | Class::Window
            | Class::Place
            | Class::Access
            | Class::Convergent => {}
        }
        match *data {
            InstData::Sreg { sreg } => ok(self.sreg(sreg)),
            InstData::EndLane { .. } | InstData::FirstRunning { .. } => {
                (Variability::Uniform, Because::NotVarying)
            }
            InstData::IntBinary {
                op,
                ty,
                args: [a, b],
            } => ok(self.int_binary(func, op, ty, a, b)),
            // `not x` is `-1 - x`.
            InstData::IntUnary {
                op: op @ (IntUnaryOp::Neg | IntUnaryOp::Not),
                ty: Type::B32 | Type::B64,
                arg,
            } => match self.variability(arg) {
                Variability::Affine {
                    stride,
                    align,
                    may_wrap: None,
                } => ok(Variability::Affine {
                    stride: -stride,
                    align: if op == IntUnaryOp::Neg { align } else { 0 },
                    may_wrap: None,
                }),
                Variability::Affine { .. } => ok(Variability::Varying),
                variability @ (Variability::Uniform | Variability::Varying) => ok(variability),
            },
            InstData::Resize { op, from, to, arg } => ok(self.resize(func, op, from, to, arg)),
            InstData::Select {
                cond, args: [a, b], ..
            } => match (
                self.variability(cond),
                self.variability(a),
                self.variability(b),
            ) {
                (
                    Variability::Uniform,
                    a @ Variability::Affine { .. },
                    b @ Variability::Affine { .. },
                ) => ok(join(a, b)),
                _ => from_args(),
            },
            InstData::ToGeneric { space, arg } | InstData::FromGeneric { space, arg } => {
                match (space, self.variability(arg)) {
                    (Space::Local, _) => (Variability::Varying, Because::Source),
                    (
                        _,
                        Variability::Affine {
                            stride,
                            align,
                            may_wrap,
                        },
                    ) => ok(Variability::Affine {
                        stride,
                        align,
                        may_wrap: may_wrap.map(|may_wrap| may_wrap.plus(false)),
                    }),
                    (_, variability) => ok(variability),
                }
            }
            InstData::Load {
                space: Space::Local,
                ..
            }
            | InstData::Atomic { .. } => (Variability::Varying, Because::Source),
            InstData::Warp { op, ref args, .. } => self.warp(op, args, idx),
            InstData::Barrier { .. } => (Variability::Uniform, Because::NotVarying),
            _ => from_args(),
        }
    }

    fn sreg(&self, sreg: SpecialReg) -> Variability {
        let gang_align = self.gang.trailing_zeros() as u8;
        let in_rows = self.facts.one_dimensional || self.facts.whole_rows;
        if sreg == SpecialReg::LaneId || (sreg == SpecialReg::TidX && in_rows) {
            return Variability::Affine {
                stride: 1,
                align: gang_align,
                may_wrap: None,
            };
        }
        if matches!(sreg, SpecialReg::TidY | SpecialReg::TidZ) && in_rows {
            return Variability::Uniform;
        }
        match sreg.shared_by() {
            SharedBy::None => Variability::Varying,
            SharedBy::Warp | SharedBy::Cta => Variability::Uniform,
        }
    }

    /// A warp operation has one result for all lanes that took part with one member mask.
    fn warp(&self, op: WarpOp, args: &[Value], idx: usize) -> (Variability, Because) {
        let mask_uniform = args[op.n_args().min(args.len())..]
            .iter()
            .all(|&arg| self.variability(arg) == Variability::Uniform);
        let shared = match op {
            WarpOp::ShflUp
            | WarpOp::ShflDown
            | WarpOp::ShflBfly
            | WarpOp::ShflIdx
            | WarpOp::MatchAny
            | WarpOp::Transpose
            | WarpOp::Mma(_) => false,
            WarpOp::Elect => idx == 0,
            WarpOp::VoteAll
            | WarpOp::VoteAny
            | WarpOp::VoteUni
            | WarpOp::Ballot
            | WarpOp::MatchAll
            | WarpOp::ReduxAdd
            | WarpOp::ReduxUmin
            | WarpOp::ReduxUmax
            | WarpOp::ReduxSmin
            | WarpOp::ReduxSmax
            | WarpOp::ReduxAnd
            | WarpOp::ReduxOr
            | WarpOp::ReduxXor
            | WarpOp::ReduxFmin
            | WarpOp::ReduxFmax
            | WarpOp::ReduxFminNan
            | WarpOp::ReduxFmaxNan
            | WarpOp::Sync
            | WarpOp::ActiveMask => true,
        };
        if shared && mask_uniform {
            (Variability::Uniform, Because::NotVarying)
        } else {
            (Variability::Varying, Because::Source)
        }
    }

    fn resize(
        &self,
        func: &Function,
        op: ResizeOp,
        from: Type,
        to: Type,
        arg: Value,
    ) -> Variability {
        let variability = self.variability(arg);
        let Variability::Affine { stride, align, .. } = variability else {
            return variability;
        };
        if from == Type::B1 || !matches!(to, Type::B32 | Type::B64) {
            return Variability::Varying;
        }
        match op {
            // A wrap moved lanes by multiples of 2^32.
            ResizeOp::Trunc => Variability::Affine {
                stride: i64::from(stride as i32),
                align,
                may_wrap: None,
            },
            ResizeOp::Sext | ResizeOp::Uext if from == Type::B32 => {
                self.extend(func, op == ResizeOp::Sext, arg, (stride, align))
            }
            ResizeOp::Sext | ResizeOp::Uext => Variability::Varying,
        }
    }

    /// A 32-bit affine index made 64 bits wide.
    fn extend(
        &self,
        func: &Function,
        signed: bool,
        arg: Value,
        (stride, align): (i64, u8),
    ) -> Variability {
        let may_wrap = match range::signed(func, self.facts, arg) {
            Some((lo, _)) if signed || lo >= 0 => None,
            _ if stride.unsigned_abs() >= MAX_WRAPPED_STRIDE => return Variability::Varying,
            _ => Some(MayWrap {
                scale: 1,
                above: stride < 0,
                sums_left: MAX_SUMS,
            }),
        };
        Variability::Affine {
            stride,
            align,
            may_wrap,
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "others keep no stride")]
    fn int_binary(
        &self,
        func: &Function,
        op: IntBinaryOp,
        ty: Type,
        a: Value,
        b: Value,
    ) -> Variability {
        let (sa, sb) = (self.variability(a), self.variability(b));
        if sa == Variability::Uniform && sb == Variability::Uniform {
            return Variability::Uniform;
        }
        if !matches!(ty, Type::B32 | Type::B64) {
            return Variability::Varying;
        }
        let parts = |value: Value, variability: Variability| match variability {
            Variability::Uniform => Some((0, self.known_align(func, value), None)),
            Variability::Affine {
                stride,
                align,
                may_wrap,
            } => Some((stride, align, may_wrap)),
            Variability::Varying => None,
        };
        let (Some((sta, ala, foa)), Some((stb, alb, fob))) = (parts(a, sa), parts(b, sb)) else {
            return Variability::Varying;
        };
        let constant = func
            .as_const(b)
            .map(|bits| (bits << (64 - ty.bits())) as i64 >> (64 - ty.bits()));
        if foa.is_some() || fob.is_some() {
            return may_wrap_binary(func, op, (a, sta, ala, foa), (b, stb, alb, fob), constant);
        }
        let affine = |stride: i64, align: u8| {
            let stride = if ty == Type::B32 {
                i64::from(stride as i32)
            } else {
                stride
            };
            if stride == 0 {
                Variability::Uniform
            } else {
                Variability::Affine {
                    stride,
                    align,
                    may_wrap: None,
                }
            }
        };
        match op {
            IntBinaryOp::Add => affine(sta.wrapping_add(stb), ala.min(alb)),
            // An `or` of values without common bits is a sum.
            IntBinaryOp::Or if possible_bits(func, a) & possible_bits(func, b) == 0 => {
                affine(sta.wrapping_add(stb), ala.min(alb))
            }
            IntBinaryOp::Sub => affine(sta.wrapping_sub(stb), ala.min(alb)),
            IntBinaryOp::Mul => match (constant, func.as_const(a)) {
                (Some(c), _) => affine(
                    sta.wrapping_mul(c),
                    (ala + c.trailing_zeros() as u8).min(31),
                ),
                (_, Some(c)) => affine(
                    stb.wrapping_mul(c as i64),
                    (alb + c.trailing_zeros() as u8).min(31),
                ),
                _ => Variability::Varying,
            },
            IntBinaryOp::Shl => match constant {
                Some(c) if (0..i64::from(ty.bits())).contains(&c) => {
                    affine(sta.wrapping_shl(c as u32), (ala + c as u8).min(31))
                }
                _ => Variability::Varying,
            },
            IntBinaryOp::SmulWide | IntBinaryOp::UmulWide => {
                self.wide(func, op, ty, (a, sta, ala), (b, stb))
            }
            IntBinaryOp::And => match constant {
                Some(c) => self.low_bits(sta, ala, c),
                None => Variability::Varying,
            },
            IntBinaryOp::Ushr | IntBinaryOp::Sshr => match constant {
                // All lanes have the same bits above those that the lane number reaches.
                Some(c)
                    if self.lanes_fit(sta, ala.min(c as u8))
                        && c >= 0
                        && c < i64::from(ty.bits()) =>
                {
                    Variability::Uniform
                }
                _ => Variability::Varying,
            },
            _ => Variability::Varying,
        }
    }

    /// What a uniform value is known to be a multiple of, as log2.
    fn known_align(&self, func: &Function, value: Value) -> u8 {
        // The amount that compilers add to a possibly negative number before they divide it.
        match range::signed(func, self.facts, value) {
            Some((0, 0)) => 31,
            _ => trailing_zeros(func, value, self.row_align()),
        }
    }

    /// What `%ntid.x` is known to be a multiple of, as log2.
    fn row_align(&self) -> u8 {
        if self.facts.whole_rows {
            self.gang.trailing_zeros() as u8
        } else {
            0
        }
    }

    /// Whether `stride * lane` stays below `1 << bits` for every lane.
    fn lanes_fit(&self, stride: i64, bits: u8) -> bool {
        stride >= 0 && bits < 63 && stride.saturating_mul(i64::from(self.gang) - 1) < 1 << bits
    }

    /// `x & mask` for x with a base that is a multiple of `1 << align`.
    fn low_bits(&self, stride: i64, align: u8, mask: i64) -> Variability {
        if self.lanes_fit(stride, align) {
            // Lanes differ in these bits alone, and no carry leaves them for the base.
            let differ = (0..i64::from(self.gang)).fold(0, |bits, lane| bits | (stride * lane));
            if differ & !mask == 0 {
                return Variability::Affine {
                    stride,
                    align,
                    may_wrap: None,
                };
            }
            if differ & mask == 0 {
                return Variability::Uniform;
            }
        }
        Variability::Varying
    }

    fn wide(
        &self,
        func: &Function,
        op: IntBinaryOp,
        ty: Type,
        (a, stride, align): (Value, i64, u8),
        (b, stb): (Value, i64),
    ) -> Variability {
        let Some(bits) = func.as_const(b) else {
            return Variability::Varying;
        };
        if stb != 0 || ty != Type::B32 {
            return Variability::Varying;
        }
        let signed = op == IntBinaryOp::SmulWide;
        let factor = if signed {
            i64::from(bits as i32)
        } else {
            bits as i64
        };
        match self.extend(func, signed, a, (stride, align)) {
            Variability::Affine { may_wrap, .. } => scaled(stride, align, may_wrap, factor),
            other @ (Variability::Uniform | Variability::Varying) => other,
        }
    }
}

/// An operation with one operand that stems from an index that may have wrapped.
fn may_wrap_binary(
    func: &Function,
    op: IntBinaryOp,
    (a, sta, ala, foa): (Value, i64, u8, Option<MayWrap>),
    (b, stb, alb, fob): (Value, i64, u8, Option<MayWrap>),
    constant: Option<i64>,
) -> Variability {
    let sum = |stride: i64, may_wrap: MayWrap, other: Value| {
        // Lanes that wrapped differ from the others even at stride zero.
        if stride == 0 {
            return Variability::Varying;
        }
        Variability::Affine {
            stride,
            align: ala.min(alb),
            may_wrap: Some(may_wrap.plus(is_small(func, other))),
        }
    };
    match (op, foa, fob) {
        (IntBinaryOp::Add, Some(may_wrap), None) => sum(sta.wrapping_add(stb), may_wrap, b),
        (IntBinaryOp::Add, None, Some(may_wrap)) => sum(sta.wrapping_add(stb), may_wrap, a),
        (IntBinaryOp::Sub, Some(may_wrap), None) => sum(sta.wrapping_sub(stb), may_wrap, b),
        (IntBinaryOp::Mul, Some(_), None) => match constant {
            Some(factor) => scaled(sta, ala, foa, factor),
            None => Variability::Varying,
        },
        (IntBinaryOp::Shl, Some(_), None) => match constant {
            Some(count) if (0..14).contains(&count) => scaled(sta, ala, foa, 1 << count),
            _ => Variability::Varying,
        },
        _ => Variability::Varying,
    }
}

/// Indices with larger strides can wrap more than once between the lanes of a gang.
const MAX_WRAPPED_STRIDE: u64 = 1 << 24;

/// This many small values can be added to an extended index before it may be mistaken for a marked
/// one.
const MAX_SUMS: u8 = 100;

/// Whether a 64-bit value is surely less than `1 << 33` in magnitude.
fn is_small(func: &Function, value: Value) -> bool {
    match func.def_inst(value) {
        Some(&InstData::Const { bits, .. }) => (bits as i64).unsigned_abs() < 1 << 33,
        Some(&InstData::Resize { from, to, .. }) => from.bits() < to.bits(),
        _ => false,
    }
}
