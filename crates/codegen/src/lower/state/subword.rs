//! Packed sub-word vectors, whose lanes have no more than their type's width: sixteen bytes or
//! eight half-words each.
//!
//! Mostly a narrow integer takes a lane of 32 bits, as everything else does. A value from narrow
//! memory that is computed with and stored at that width stays packed as in memory, so that one
//! operation does for sixteen lanes what would take four. Predicates between such values are masks
//! of the same width. Variables carry such a value from node to node as it is, and parameters all
//! of whose arguments are packed (`decisions/packed.rs`); uses that need quads have it widened.

use cranelift_codegen::ir::{self as cl, InstBuilder};
use ptxjit_ir::{Inst, InstData, IntBinaryOp, IntUnaryOp, ResizeOp, Type, Value};

use crate::lower::Lower;
use crate::ops::{Parts, Val, condition, int_type, subword_type, vector_type};

impl Lower<'_, '_> {
    /// Whether an instruction's result is packed.
    pub(in crate::lower) fn makes_subword(&self, inst: Inst) -> bool {
        self.decided.makes_subword(inst, self.assumed())
    }

    /// A pure instruction, for the whole gang.
    #[expect(clippy::wildcard_enum_match_arm, reason = "`values` admits no others")]
    pub(in crate::lower) fn subword_op(&mut self, inst: Inst) {
        self.loc(self.func.insts[inst].loc);
        let result = self.func.insts[inst].results[0];
        let parts = match self.func.insts[inst].data {
            InstData::Resize { op, from, to, arg } => self.subword_resize(op, from, to, arg),
            InstData::Compare {
                op,
                ty,
                args: [a, b],
            } => self.subword_pairs(ty, a, b, |lower, x, y| {
                lower.b.compare_lanes(condition(op), x, y)
            }),
            InstData::IntUnary {
                op: IntUnaryOp::Not,
                ty: Type::B1,
                arg,
            } => {
                let bits = self.mask_width([arg, arg]);
                let masks = self.subword_mask(arg, bits);
                self.b.each(&masks, |b, mask| b.ins().bnot(mask))
            }
            InstData::IntBinary {
                op,
                ty: Type::B1,
                args,
            } => {
                let bits = self.mask_width(args);
                let [x, y] = args.map(|arg| self.subword_mask(arg, bits));
                self.b.each_of_two((&x, &y), |b, x, y| b.plain_op(op, x, y))
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
            } => self.subword_pairs(ty, a, b, |lower, x, y| lower.b.plain_op(op, x, y)),
            InstData::Select {
                ty,
                cond,
                args: [a, b],
            } => {
                let masks = self.subword_mask(cond, ty.bits());
                let (x, y) = (self.subword_parts(a, ty), self.subword_parts(b, ty));
                self.b.subword_blend(&masks, &x, &y)
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
        self.b.each(&parts, |b, x| match op {
            IntBinaryOp::Shl => b.ins().ishl_imm_s(x, count),
            IntBinaryOp::Ushr => b.ins().ushr_imm_s(x, count),
            _ => b.ins().sshr_imm_s(x, count),
        })
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

    fn subword_resize(&mut self, op: ResizeOp, from: Type, to: Type, arg: Value) -> Parts {
        match (from, to) {
            (Type::B1, _) => {
                let masks = self.subword_mask(arg, to.bits());
                if op == ResizeOp::Sext {
                    return masks;
                }
                let one = self.b.subword_const(to, 1);
                self.b.each(&masks, |b, mask| b.ins().band(mask, one))
            }
            (Type::B8, Type::B16) => {
                let bytes = self.subword_parts(arg, from);
                self.b.widened_each(op == ResizeOp::Sext, &bytes)
            }
            (Type::B16, Type::B8) => {
                let low = self.b.subword_const(Type::B16, 0xff);
                let halves = self.subword_parts(arg, from);
                let bytes: Parts = self.b.each(&halves, |b, half| b.ins().band(half, low));
                self.b.each_pair(&bytes, |b, x, y| b.ins().unarrow(x, y))
            }
            _ => {
                let quads = self.parts(arg);
                let quads: Parts = self.b.each(&quads, |b, quad| b.low_bits(quad, to));
                self.b.packed_to(&quads, to)
            }
        }
    }

    /// The lane width of the masks of one of two predicates.
    fn mask_width(&self, args: [Value; 2]) -> u32 {
        let known = args.iter().find_map(|arg| self.available.subword.get(arg));
        known.map_or(16, |parts| self.b.lane_width(parts))
    }

    /// A predicate's masks in lanes of this many bits.
    fn subword_mask(&mut self, pred: Value, bits: u32) -> Parts {
        let masks = match self.available.subword.get(&pred) {
            Some(masks) => masks.clone(),
            None => {
                let masks = self.mask_parts(pred);
                self.b.cast_vectors(&masks, vector_type(Type::B32))
            }
        };
        self.b.masks_of_width(masks, bits)
    }

    /// All lanes of a narrow value.
    pub(in crate::lower) fn subword_parts(&mut self, value: Value, ty: Type) -> Parts {
        if let Some(parts) = self.held_packed(value) {
            return parts;
        }
        let n = self.b.n_packed(ty);
        let parts = match (self.func.as_const(value), self.get(value)) {
            (Some(bits), _) => Parts::from_elem(self.b.subword_const(ty, bits), n),
            (None, Val::Uniform(x)) => {
                let x = self.b.cast_scalar(x, int_type(ty));
                Parts::from_elem(self.b.ins().splat(subword_type(ty), x), n)
            }
            (None, Val::Affine(..) | Val::Varying(_)) => {
                let quads: Parts = self
                    .parts(value)
                    .into_iter()
                    .map(|quad| self.b.low_bits(quad, ty))
                    .collect();
                self.b.packed_to(&quads, ty)
            }
        };
        self.available.subword.insert(value, parts.clone());
        parts
    }

    /// Records a packed result.
    pub(in crate::lower) fn def_subword(&mut self, value: Value, parts: Parts) {
        self.available.vals.remove(&value);
        self.available.splats.remove(&value);
        self.available.subword.insert(value, parts);
        if self.decided.packed.carried[value] {
            let parts = self.available.subword[&value].clone();
            self.define_variables(value, &Val::Varying(parts));
        } else if self.decided.residents.home(value).is_some() {
            self.bring_home(value);
        } else if self.decided.crosses[value] {
            let quads = self.parts(value);
            self.define_variables(value, &Val::Varying(quads));
        }
    }
}
