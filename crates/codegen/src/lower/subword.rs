//! Packed sub-word vectors, whose lanes have no more than their type's width: sixteen bytes or
//! eight half-words each.
//!
//! Mostly a narrow integer takes a lane of 32 bits, as everything else does. A value from narrow
//! memory that is computed with and stored at that width stays packed as in memory, so that one
//! operation does for sixteen lanes what would take four. Predicates between such values are masks
//! of the same width. Variables carry such a value from node to node as it is, and parameters all
//! of whose arguments are packed (`decisions/packed.rs`); uses that need quads have it widened.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_ir::{Inst, InstData, IntBinaryOp, IntUnaryOp, ResizeOp, Type, Value};

use super::Lower;
use super::int::condition;
use super::masks::Lanes;
use super::values::{Parts, Val, int_type};

/// A vector with lanes of a narrow type.
pub(super) fn subword_type(ty: Type) -> cl::Type {
    match ty {
        Type::B8 => types::I8X16,
        Type::B16 => types::I16X8,
        Type::B1 | Type::B32 | Type::B64 => unreachable!("lanes of words are never tight"),
    }
}

impl Lower<'_, '_> {
    /// Whether an instruction's result is packed.
    pub(super) fn makes_subword(&self, inst: Inst) -> bool {
        self.decided.makes_subword(inst, self.assumed())
    }

    /// A pure instruction, for the whole gang.
    #[expect(clippy::wildcard_enum_match_arm, reason = "`values` admits no others")]
    pub(super) fn subword_op(&mut self, inst: Inst) {
        self.loc(self.func.insts[inst].loc);
        let result = self.func.insts[inst].results[0];
        let parts = match self.func.insts[inst].data {
            InstData::Resize { op, from, to, arg } => self.subword_resize(op, from, to, arg),
            InstData::Compare {
                op,
                ty,
                args: [a, b],
            } => self.subword_pairs(ty, a, b, |lower, x, y| {
                lower.b.ins().icmp(condition(op), x, y)
            }),
            InstData::IntUnary {
                op: IntUnaryOp::Not,
                ty: Type::B1,
                arg,
            } => {
                let bits = self.mask_width([arg, arg]);
                let masks = self.subword_mask(arg, bits);
                masks
                    .into_iter()
                    .map(|mask| self.b.ins().bnot(mask))
                    .collect()
            }
            InstData::IntBinary {
                op,
                ty: Type::B1,
                args,
            } => {
                let bits = self.mask_width(args);
                let [x, y] = args.map(|arg| self.subword_mask(arg, bits));
                x.into_iter()
                    .zip(y)
                    .map(|(x, y)| self.subword_binary(op, x, y))
                    .collect()
            }
            InstData::IntUnary { op, ty, arg } => {
                let parts = self.subword_parts(arg, ty);
                let mut each = |x| match op {
                    IntUnaryOp::Not => self.b.ins().bnot(x),
                    IntUnaryOp::Neg => self.b.ins().ineg(x),
                    IntUnaryOp::Abs | IntUnaryOp::Popc | IntUnaryOp::Clz | IntUnaryOp::Brev => {
                        self.b.ins().iabs(x)
                    }
                };
                parts.into_iter().map(&mut each).collect()
            }
            InstData::IntBinary {
                op: op @ (IntBinaryOp::Shl | IntBinaryOp::Ushr | IntBinaryOp::Sshr),
                ty,
                args,
            } => self.subword_shift(op, ty, args),
            InstData::IntBinary {
                op,
                ty,
                args: [a, b],
            } => self.subword_pairs(ty, a, b, |lower, x, y| lower.subword_binary(op, x, y)),
            InstData::Select {
                ty,
                cond,
                args: [a, b],
            } => {
                let masks = self.subword_mask(cond, ty.bits());
                let (x, y) = (self.subword_parts(a, ty), self.subword_parts(b, ty));
                (0..masks.len())
                    .map(|i| self.subword_blend(masks[i], x[i], y[i]))
                    .collect()
            }
            ref other => unreachable!("{other:?} has no tight form"),
        };
        self.def_subword(result, parts);
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "callers pass shifts")]
    fn subword_shift(&mut self, op: IntBinaryOp, ty: Type, [x, count]: [Value; 2]) -> Parts {
        let count = self.func.as_const(count);
        let count = count.expect("tight shifts have constant counts") as i64;
        let parts = self.subword_parts(x, ty);
        let mut each = |x| match op {
            IntBinaryOp::Shl => self.b.ins().ishl_imm_s(x, count),
            IntBinaryOp::Ushr => self.b.ins().ushr_imm_s(x, count),
            _ => self.b.ins().sshr_imm_s(x, count),
        };
        parts.into_iter().map(&mut each).collect()
    }

    fn subword_pairs(
        &mut self,
        ty: Type,
        a: Value,
        b: Value,
        op: impl Fn(&mut Self, cl::Value, cl::Value) -> cl::Value,
    ) -> Parts {
        let (x, y) = (self.subword_parts(a, ty), self.subword_parts(b, ty));
        x.into_iter().zip(y).map(|(x, y)| op(self, x, y)).collect()
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "callers pass no others")]
    fn subword_binary(&mut self, op: IntBinaryOp, x: cl::Value, y: cl::Value) -> cl::Value {
        match op {
            IntBinaryOp::Add => self.b.ins().iadd(x, y),
            IntBinaryOp::Sub => self.b.ins().isub(x, y),
            IntBinaryOp::Mul => self.b.ins().imul(x, y),
            IntBinaryOp::And => self.b.ins().band(x, y),
            IntBinaryOp::Or => self.b.ins().bor(x, y),
            IntBinaryOp::Xor => self.b.ins().bxor(x, y),
            IntBinaryOp::Smin => self.b.ins().smin(x, y),
            IntBinaryOp::Smax => self.b.ins().smax(x, y),
            IntBinaryOp::Umin => self.b.ins().umin(x, y),
            IntBinaryOp::Umax => self.b.ins().umax(x, y),
            other => unreachable!("{other} has no tight form"),
        }
    }

    fn subword_blend(&mut self, mask: cl::Value, x: cl::Value, y: cl::Value) -> cl::Value {
        let ty = self.b.func.dfg.value_type(x);
        let [mask, x, y] = [mask, x, y].map(|part| self.cast_vector(part, types::I8X16));
        let blend = self.b.ins().blendv(mask, x, y);
        self.cast_vector(blend, ty)
    }

    fn subword_resize(&mut self, op: ResizeOp, from: Type, to: Type, arg: Value) -> Parts {
        match (from, to) {
            (Type::B1, _) => {
                let masks = self.subword_mask(arg, to.bits());
                if op == ResizeOp::Sext {
                    return masks;
                }
                let one = self.subword_const(to, 1);
                masks
                    .into_iter()
                    .map(|mask| self.b.ins().band(mask, one))
                    .collect()
            }
            (Type::B8, Type::B16) => {
                let bytes = self.subword_parts(arg, from);
                let widen = |part| match op {
                    ResizeOp::Sext => [
                        self.b.ins().swiden_low(part),
                        self.b.ins().swiden_high(part),
                    ],
                    ResizeOp::Uext | ResizeOp::Trunc => [
                        self.b.ins().uwiden_low(part),
                        self.b.ins().uwiden_high(part),
                    ],
                };
                bytes.into_iter().flat_map(widen).collect()
            }
            (Type::B16, Type::B8) => {
                let low = self.subword_const(Type::B16, 0xff);
                let halves = self.subword_parts(arg, from);
                let bytes: Parts = halves
                    .into_iter()
                    .map(|half| self.b.ins().band(half, low))
                    .collect();
                bytes
                    .chunks(2)
                    .map(|pair| self.b.ins().unarrow(pair[0], pair[1]))
                    .collect()
            }
            _ => {
                let quads = self.parts(arg);
                let quads: Parts = quads
                    .into_iter()
                    .map(|quad| self.low_bits(quad, to))
                    .collect();
                self.packed_to(&quads, to)
            }
        }
    }

    /// The lane width of the masks of one of two predicates.
    fn mask_width(&self, args: [Value; 2]) -> u32 {
        let known = args.iter().find_map(|arg| self.available.subword.get(arg));
        known.map_or(16, |parts| self.lane_width(parts))
    }

    fn lane_width(&self, parts: &Parts) -> u32 {
        self.b.func.dfg.value_type(parts[0]).lane_bits()
    }

    /// A predicate's masks in lanes of this many bits.
    fn subword_mask(&mut self, pred: Value, bits: u32) -> Parts {
        let masks = match self.available.subword.get(&pred) {
            Some(masks) => masks.clone(),
            None => self
                .mask_parts(pred)
                .into_iter()
                .map(|mask| self.cast_vector(mask, types::I32X4))
                .collect(),
        };
        self.masks_of_width(masks, bits)
    }

    fn masks_of_width(&mut self, mut masks: Parts, bits: u32) -> Parts {
        while self.lane_width(&masks) > bits {
            masks = masks
                .chunks(2)
                .map(|pair| self.b.ins().snarrow(pair[0], pair[1]))
                .collect();
        }
        while self.lane_width(&masks) < bits {
            masks = masks
                .into_iter()
                .flat_map(|mask| {
                    [
                        self.b.ins().swiden_low(mask),
                        self.b.ins().swiden_high(mask),
                    ]
                })
                .collect();
        }
        masks
    }

    fn subword_const(&mut self, ty: Type, bits: u64) -> cl::Value {
        let bytes = if ty == Type::B8 {
            vec![bits as u8; 16]
        } else {
            [bits as u16; 8]
                .iter()
                .flat_map(|half| half.to_le_bytes())
                .collect()
        };
        self.vconst_bytes(subword_type(ty), &bytes)
    }

    /// All lanes of a narrow value.
    pub(super) fn subword_parts(&mut self, value: Value, ty: Type) -> Parts {
        if let Some(parts) = self.held_packed(value) {
            return parts;
        }
        let n = self.n_packed(ty);
        let parts = match (self.func.as_const(value), self.get(value)) {
            (Some(bits), _) => Parts::from_elem(self.subword_const(ty, bits), n),
            (None, Val::Uniform(x)) => {
                let x = self.cast_scalar(x, int_type(ty));
                Parts::from_elem(self.b.ins().splat(subword_type(ty), x), n)
            }
            (None, Val::Affine(..) | Val::Varying(_)) => {
                let quads: Parts = self
                    .parts(value)
                    .into_iter()
                    .map(|quad| self.low_bits(quad, ty))
                    .collect();
                self.packed_to(&quads, ty)
            }
        };
        self.available.subword.insert(value, parts.clone());
        parts
    }

    /// Number of packed vectors of a narrow value.
    pub(super) fn n_packed(&self, ty: Type) -> usize {
        self.lanes * ty.bytes() as usize / 16
    }

    /// A value that is at hand as packed vectors, or is carried so from another node.
    fn held_packed(&mut self, value: Value) -> Option<Parts> {
        if let Some(parts) = self.available.subword.get(&value) {
            return Some(parts.clone());
        }
        let is_carried = self.decided.packed.carried[value]
            && !self.available.vals.contains_key(&value)
            && self.lane.active.is_none();
        if !is_carried {
            return None;
        }
        let vars = self.variables(value);
        let parts: Parts = vars.iter().map(|&var| self.b.use_var(var)).collect();
        self.available.subword.insert(value, parts.clone());
        Some(parts)
    }

    /// A narrow value, held as quads or packed already, as packed vectors.
    pub(super) fn repacked(&mut self, parts: &[cl::Value], ty: Type) -> Parts {
        if self.b.func.dfg.value_type(parts[0]) == subword_type(ty) {
            return parts.into();
        }
        let quads: Parts = parts.iter().map(|&quad| self.low_bits(quad, ty)).collect();
        self.packed_to(&quads, ty)
    }

    /// `mask ? new : old` for the parts of a value that is carried packed.
    pub(super) fn blend_packed(
        &mut self,
        lanes: &Lanes,
        new: &[cl::Value],
        old: &[cl::Value],
    ) -> Parts {
        let bits = self.b.func.dfg.value_type(old[0]).lane_bits();
        let masks = match lanes {
            Lanes::Bits(set) => self.packed_from_bits(*set, bits),
            Lanes::Parts(parts) => {
                let parts = parts
                    .iter()
                    .map(|&part| self.cast_vector(part, types::I32X4));
                let parts = parts.collect();
                self.masks_of_width(parts, bits)
            }
        };
        (0..old.len())
            .map(|i| self.subword_blend(masks[i], new[i], old[i]))
            .collect()
    }

    /// Bits as lane masks of 8 or 16 bits.
    fn packed_from_bits(&mut self, set: cl::Value, bits: u32) -> Parts {
        let per = 128 / bits as usize;
        let splat = self.b.ins().splat(types::I32X4, set);
        let splat = self.cast_vector(splat, types::I8X16);
        (0..self.lanes / per)
            .map(|part| {
                // The byte of each lane's bit, in every byte of the lane.
                let of_byte = |byte: usize| part * per + byte * 8 / bits as usize;
                let sources = std::array::from_fn(|byte| (of_byte(byte) / 8) as u8);
                let own: [u8; 16] = std::array::from_fn(|byte| 1 << (of_byte(byte) % 8));
                let own = self.vconst_bytes(types::I8X16, &own);
                let bytes = self.shuffle(splat, splat, sources);
                let hit = self.b.ins().band(bytes, own);
                let masks = self.b.ins().icmp(IntCC::Equal, hit, own);
                self.cast_vector(masks, types::I8X16)
            })
            .collect()
    }

    /// A predicate's lanes as bits.
    pub(super) fn bits_of_predicate(&mut self, pred: Value) -> cl::Value {
        let Some(masks) = self.available.subword.get(&pred).cloned() else {
            let parts = self.mask_parts(pred);
            return self.bits_of(&parts);
        };
        let bytes = self.masks_of_width(masks, 8);
        let mut parts = bytes.into_iter();
        let first = parts.next().expect("there are lanes");
        let low = self.b.ins().vhigh_bits(types::I32, first);
        match parts.next() {
            Some(high) => {
                let high = self.b.ins().vhigh_bits(types::I32, high);
                let high = self.b.ins().ishl_imm_s(high, 16);
                self.b.ins().bor(low, high)
            }
            None => low,
        }
    }

    /// Quads of zero-extended lanes as packed vectors.
    pub(super) fn packed_to(&mut self, quads: &[cl::Value], ty: Type) -> Parts {
        let mut parts: Parts = quads
            .iter()
            .map(|&quad| self.cast_vector(quad, types::I32X4))
            .collect();
        while self.lane_width(&parts) > ty.bits() {
            parts = parts
                .chunks(2)
                .map(|pair| self.b.ins().unarrow(pair[0], pair[1]))
                .collect();
        }
        parts
    }

    /// A packed value as quads.
    pub(super) fn loosened(&mut self, value: Value) -> Option<Parts> {
        let mut parts = self.held_packed(value)?;
        if self.func.ty(value) == Type::B1 {
            return Some(self.masks_of_width(parts, 32));
        }
        while self.lane_width(&parts) < 32 {
            parts = parts
                .into_iter()
                .flat_map(|part| {
                    [
                        self.b.ins().uwiden_low(part),
                        self.b.ins().uwiden_high(part),
                    ]
                })
                .collect();
        }
        Some(parts)
    }

    /// Records a packed result.
    pub(super) fn def_subword(&mut self, value: Value, parts: Parts) {
        self.available.vals.remove(&value);
        self.available.splats.remove(&value);
        self.available.subword.insert(value, parts);
        if self.decided.packed.carried[value] {
            let parts = self.available.subword[&value].clone();
            self.define_variables(value, &Val::Varying(parts));
        } else if self.decided.residents.home(value).is_some() {
            self.bring_home(value);
        } else if self.plan.escapes[value] {
            let quads = self.parts(value);
            self.define_variables(value, &Val::Varying(quads));
        }
    }
}
