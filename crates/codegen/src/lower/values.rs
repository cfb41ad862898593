//! How IR values are held while a gang function is emitted: scalars, affine bases, vectors of four
//! or two lanes.
//!
//! The lanes of a gang come in *quads*. A varying value of up to 32 bits is one `i32x4` per quad, a
//! 64-bit one two `i64x2`. Predicates are `i32x4` masks (0 or -1); narrow integers are
//! zero-extended. Vectors are always held as integers: a bit cast between vector types costs
//! nothing. Scalars are held in the register class that their definition suggests.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, MemFlagsData, types};
use ptxjit_ir::{self as ir, InstData, Type};
use ptxjit_vectorize::{MayWrap, Variability};
use smallvec::SmallVec;

use super::subword::subword_type;
use super::{Buffer, Lower};
use crate::decisions::Assumed;

/// Vectors of one value, in lane order.
pub(super) type Parts = SmallVec<[cl::Value; 8]>;

/// An available value.
#[derive(Clone, Debug)]
pub(super) enum Val {
    /// The same for all lanes.
    Uniform(cl::Value),
    /// Lane 0's scalar and the difference from lane to lane.
    Affine(cl::Value, i64),
    /// One vector per quad, or two at 64 bits.
    Varying(Parts),
}

/// The vector type that holds lanes of `ty`.
pub(super) fn vector_type(ty: Type) -> cl::Type {
    match ty {
        Type::B64 => types::I64X2,
        Type::B1 | Type::B8 | Type::B16 | Type::B32 => types::I32X4,
    }
}

/// The scalar integer type for `ty`; predicates are `i8`.
pub(super) fn int_type(ty: Type) -> cl::Type {
    match ty {
        Type::B1 | Type::B8 => types::I8,
        Type::B16 => types::I16,
        Type::B32 => types::I32,
        Type::B64 => types::I64,
    }
}

impl Lower<'_, '_> {
    /// The scalar CLIF type in which a uniform value is kept.
    pub(super) fn scalar_type(&self, value: ir::Value) -> cl::Type {
        match (self.func.ty(value), self.decided.is_float[value]) {
            (Type::B32, true) => types::F32,
            (Type::B64, true) => types::F64,
            (ty, _) => int_type(ty),
        }
    }

    /// The value in the form that its variability says.
    pub(super) fn get(&mut self, value: ir::Value) -> Val {
        if let Some(own) = self.own(value) {
            return own;
        }
        if let Some(val) = self.available.vals.get(&value) {
            return val.clone();
        }
        let val = self.fetch(value);
        self.available.vals.insert(value, val.clone());
        val
    }

    fn fetch(&mut self, value: ir::Value) -> Val {
        if let Some(pinned) = self.emitted.pinned.get(&value) {
            return pinned.clone();
        }
        if let Some(&InstData::Const { ty, bits }) = self.func.def_inst(value) {
            return Val::Uniform(self.constant(ty, bits, self.decided.is_float[value]));
        }
        if self.decided.in_bits[value] {
            let bits = self.pred_bits(value);
            return Val::Varying(self.mask_from_bits(bits));
        }
        if let Some(inst) = self.decided.invariants.rematerialized[value] {
            self.emit_pinned(inst, value);
            return self.available.vals[&value].clone();
        }
        if let Some(quads) = self.loosened(value) {
            return Val::Varying(quads);
        }
        self.fetch_variables(value)
    }

    fn fetch_variables(&mut self, value: ir::Value) -> Val {
        if let Some(home) = self.decided.residents.home(value) {
            return Val::Varying(self.load_home(home));
        }
        let vars = self.variables(value);
        let parts: Parts = vars.iter().map(|&var| self.b.use_var(var)).collect();
        match self.plan.variability[value] {
            Variability::Uniform => Val::Uniform(parts[0]),
            Variability::Affine { stride, .. } => Val::Affine(parts[0], stride),
            Variability::Varying => Val::Varying(parts),
        }
    }

    /// The variables that carry an escaping value between nodes.
    pub(super) fn variables(
        &mut self,
        value: ir::Value,
    ) -> SmallVec<[cranelift_frontend::Variable; 8]> {
        if self.vars.values[value].is_empty() {
            let n = match self.plan.variability[value] {
                Variability::Uniform | Variability::Affine { .. } => 1,
                Variability::Varying if self.decided.in_bits[value] => 1,
                Variability::Varying if self.decided.packed.carried[value] => {
                    self.n_packed(self.func.ty(value))
                }
                Variability::Varying => self.n_parts(self.func.ty(value)),
            };
            let ty = self.variable_type(value);
            self.vars.values[value] = (0..n).map(|_| self.b.declare_var(ty)).collect();
            self.vars.count += n;
        }
        self.vars.values[value].clone()
    }

    /// The type of an escaping value's variables.
    pub(super) fn variable_type(&self, value: ir::Value) -> cl::Type {
        match self.plan.variability[value] {
            Variability::Uniform | Variability::Affine { .. } => self.scalar_type(value),
            Variability::Varying if self.decided.in_bits[value] => types::I32,
            Variability::Varying if self.decided.packed.carried[value] => {
                subword_type(self.func.ty(value))
            }
            Variability::Varying => vector_type(self.func.ty(value)),
        }
    }

    /// Number of vectors of a varying value.
    pub(super) fn n_parts(&self, ty: Type) -> usize {
        if ty == Type::B64 {
            self.quads() * 2
        } else {
            self.quads()
        }
    }

    /// Records the result of an instruction; scalars may come in either register class.
    pub(super) fn def(&mut self, value: ir::Value, val: Val) {
        let val = match val {
            Val::Uniform(x) => Val::Uniform(self.cast_scalar(x, self.scalar_type(value))),
            Val::Affine(x, stride) => {
                Val::Affine(self.cast_scalar(x, self.scalar_type(value)), stride)
            }
            Val::Varying(parts) => {
                let ty = vector_type(self.func.ty(value));
                Val::Varying(
                    parts
                        .into_iter()
                        .map(|part| self.cast_vector(part, ty))
                        .collect(),
                )
            }
        };
        self.available.splats.remove(&value);
        self.available.vals.insert(value, val.clone());
        if self.decided.residents.home(value).is_some() {
            self.bring_home(value);
        } else if self.plan.escapes[value] && !self.decided.invariants.is_pinned(value) {
            // Other nodes hold it as a vector, whether the guard passed or not.
            let val = match self.plan.variability[value] {
                Variability::Varying => Val::Varying(self.for_gang(|lower| lower.parts(value))),
                Variability::Uniform | Variability::Affine { .. } => val,
            };
            self.define_variables(value, &val);
        }
    }

    /// The variability of a value in the code being emitted.
    pub(super) fn variability(&self, value: ir::Value) -> Variability {
        self.decided.variability(value, self.assumed())
    }

    /// What holds in the code being emitted.
    pub(super) fn assumed(&self) -> Assumed<'_> {
        Assumed {
            one_lane: self.lane.active.is_some(),
            affine_inputs: self.node.affine_inputs,
        }
    }

    /// Assigns an escaping value's variables, or writes its home.
    pub(super) fn define_variables(&mut self, value: ir::Value, val: &Val) {
        if let (Some(home), Val::Varying(parts)) = (self.decided.residents.home(value), val) {
            return self.store_home(home, parts);
        }
        let vars = self.variables(value);
        match val {
            Val::Uniform(x) | Val::Affine(x, _) => self.b.def_var(vars[0], *x),
            Val::Varying(parts) if self.decided.in_bits[value] => {
                let bits = self.bits_of(parts);
                self.b.def_var(vars[0], bits);
            }
            Val::Varying(parts) => {
                let parts = match self.decided.packed.carried[value] {
                    true => self.repacked(parts, self.func.ty(value)),
                    false => parts.clone(),
                };
                vars.iter()
                    .zip(parts)
                    .for_each(|(&var, part)| self.b.def_var(var, part));
            }
        }
    }

    /// A scalar constant.
    pub(super) fn constant(&mut self, ty: Type, bits: u64, float: bool) -> cl::Value {
        match (ty, float) {
            (Type::B32, true) => self.b.ins().f32const(f32::from_bits(bits as u32)),
            (Type::B64, true) => self.b.ins().f64const(f64::from_bits(bits)),
            _ => self.b.ins().iconst(int_type(ty), sign_extended(ty, bits)),
        }
    }

    /// A vector whose lanes are all `bits`.
    pub(super) fn vconst(&mut self, ty: Type, bits: u64) -> cl::Value {
        let bits = if ty == Type::B1 {
            (bits & 1).wrapping_neg()
        } else {
            bits & ty.mask()
        };
        let lanes = if ty == Type::B64 {
            [bits; 2].map(u64::to_le_bytes).concat()
        } else {
            [bits as u32; 4].map(u32::to_le_bytes).concat()
        };
        self.vconst_bytes(vector_type(ty), &lanes)
    }

    /// A vector constant.
    pub(super) fn vconst_bytes(&mut self, ty: cl::Type, bytes: &[u8]) -> cl::Value {
        let constant = self.b.func.dfg.constants.insert(bytes.into());
        self.b.ins().vconst(ty, constant)
    }

    /// A uniform value as an integer scalar (for an affine one, that of lane 0).
    pub(super) fn scalar(&mut self, value: ir::Value) -> cl::Value {
        let x = match self.get(value) {
            Val::Uniform(x) | Val::Affine(x, _) => x,
            Val::Varying(_) => unreachable!("{value} is varying where a scalar is wanted"),
        };
        self.cast_scalar(x, int_type(self.func.ty(value)))
    }

    /// All lanes of a value as integer vectors.
    pub(super) fn parts(&mut self, value: ir::Value) -> Parts {
        if let Some(own) = self.own_parts(value) {
            return own;
        }
        if let Some(parts) = self.available.splats.get(&value) {
            return parts.clone();
        }
        let ty = self.func.ty(value);
        let parts = match self.get(value) {
            Val::Varying(parts) => return parts,
            Val::Uniform(_) if self.func.as_const(value).is_some() => {
                let bits = self.func.as_const(value).expect("just tested");
                let splat = self.vconst(ty, bits);
                SmallVec::from_elem(splat, self.n_parts(ty))
            }
            Val::Uniform(x) => {
                let splat = self.splat(ty, x);
                SmallVec::from_elem(splat, self.n_parts(ty))
            }
            Val::Affine(base, stride) => match self.variability(value).may_wrap() {
                None => self.affine_parts(ty, base, stride),
                Some(may_wrap) => self.resolved_parts(base, stride, may_wrap),
            },
        };
        self.available.splats.insert(value, parts.clone());
        parts
    }

    /// Spreads a scalar over a vector.
    pub(super) fn splat(&mut self, ty: Type, x: cl::Value) -> cl::Value {
        // A float stays in its register class, and a splat of a load becomes one instruction.
        let wide = match self.b.func.dfg.value_type(x) {
            types::F32 => Some(types::F32X4),
            types::F64 => Some(types::F64X2),
            _ => None,
        };
        if let Some(wide) = wide {
            let splat = self.b.ins().splat(wide, x);
            return self.cast_vector(splat, vector_type(ty));
        }
        let x = self.cast_scalar(x, int_type(ty));
        match ty {
            Type::B64 => self.b.ins().splat(types::I64X2, x),
            Type::B32 => self.b.ins().splat(types::I32X4, x),
            Type::B8 | Type::B16 => {
                let wide = self.b.ins().uextend(types::I32, x);
                self.b.ins().splat(types::I32X4, wide)
            }
            Type::B1 => {
                let wide = self.b.ins().uextend(types::I32, x);
                let mask = self.b.ins().ineg(wide);
                self.b.ins().splat(types::I32X4, mask)
            }
        }
    }

    /// All lanes of an affine value whose bits show whether its index wrapped.
    pub(super) fn resolved_parts(
        &mut self,
        base: cl::Value,
        stride: i64,
        may_wrap: MayWrap,
    ) -> Parts {
        let slack = may_wrap.scale << (MayWrap::BITS - 4);
        let near = self.b.ins().iadd_imm_s(base, slack);
        let plain = self
            .b
            .ins()
            .icmp_imm_s(IntCC::UnsignedLessThan, near, 2 * slack);
        let parts = self.either(
            plain,
            vec![types::I64X2; self.n_parts(Type::B64)],
            |lower| lower.affine_parts(Type::B64, base, stride).to_vec(),
            |lower| {
                let slot = lower.buffer(Buffer::Addresses);
                let buf = lower.b.ins().stack_addr(types::I64, slot, 0);
                let zero = lower.b.ins().iconst(types::I64, 0);
                lower.call_resolve_wrapped(base, stride, may_wrap, zero, buf);
                lower.load_buffer(buf, Type::B64).to_vec()
            },
        );
        Parts::from_vec(parts)
    }

    /// `base + stride * lane` for all lanes.
    pub(super) fn affine_parts(&mut self, ty: Type, base: cl::Value, stride: i64) -> Parts {
        let splat = self.splat(ty, base);
        let lanes = if ty == Type::B64 { 2 } else { 4 };
        (0..self.n_parts(ty))
            .map(|part| {
                let offsets =
                    (0..lanes).map(|lane| stride.wrapping_mul((part * lanes + lane) as i64));
                let bytes: Vec<u8> = if ty == Type::B64 {
                    offsets.flat_map(i64::to_le_bytes).collect()
                } else {
                    offsets
                        .flat_map(|offset| (offset as i32).to_le_bytes())
                        .collect()
                };
                let offsets = self.vconst_bytes(vector_type(ty), &bytes);
                self.b.ins().iadd(splat, offsets)
            })
            .collect()
    }

    /// Moves a scalar to another register class of the same width.
    pub(super) fn cast_scalar(&mut self, x: cl::Value, ty: cl::Type) -> cl::Value {
        if self.b.func.dfg.value_type(x) == ty {
            x
        } else {
            self.b.ins().bitcast(ty, MemFlagsData::new(), x)
        }
    }

    /// Reinterprets a vector as another type.
    pub(super) fn cast_vector(&mut self, x: cl::Value, ty: cl::Type) -> cl::Value {
        if self.b.func.dfg.value_type(x) == ty {
            return x;
        }
        // Undoes an earlier cast: chains of float operations on values that are held as integers.
        if let cl::ValueDef::Result(inst, _) = self.b.func.dfg.value_def(x)
            && let cl::InstructionData::LoadNoOffset {
                opcode: cl::Opcode::Bitcast,
                arg,
                ..
            } = self.b.func.dfg.insts[inst]
            && self.b.func.dfg.value_type(arg) == ty
        {
            return arg;
        }
        let flags = MemFlagsData::new().with_endianness(cl::Endianness::Little);
        self.b.ins().bitcast(ty, flags, x)
    }

    /// Lane masks of a predicate, one `i32x4` per quad.
    pub(super) fn mask_parts(&mut self, value: ir::Value) -> Parts {
        self.parts(value)
    }

    /// Widens a quad's mask to the two masks of 64-bit lanes.
    pub(super) fn widen_mask(&mut self, mask: cl::Value) -> [cl::Value; 2] {
        [
            self.b.ins().swiden_low(mask),
            self.b.ins().swiden_high(mask),
        ]
    }

    /// The low words of four 64-bit lanes.
    pub(super) fn narrow(&mut self, lo: cl::Value, hi: cl::Value) -> cl::Value {
        let lo = self.cast_vector(lo, types::I8X16);
        let hi = self.cast_vector(hi, types::I8X16);
        let picked = self.shuffle(
            lo,
            hi,
            [0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27],
        );
        self.cast_vector(picked, types::I32X4)
    }

    /// Byte shuffle of two vectors of any type; the result is `i8x16`.
    pub(super) fn shuffle(&mut self, a: cl::Value, b: cl::Value, lanes: [u8; 16]) -> cl::Value {
        let a = self.cast_vector(a, types::I8X16);
        let b = self.cast_vector(b, types::I8X16);
        let mask = self.b.func.dfg.immediates.push(lanes.to_vec().into());
        self.b.ins().shuffle(a, b, mask)
    }

    /// Lane `lane` of a value's parts as an integer scalar of its type.
    pub(super) fn extract(&mut self, ty: Type, parts: &[cl::Value], lane: usize) -> cl::Value {
        let per = if ty == Type::B64 { 2 } else { 4 };
        let raw = self
            .b
            .ins()
            .extractlane(parts[lane / per], (lane % per) as u8);
        match ty {
            Type::B64 | Type::B32 => raw,
            Type::B16 => self.b.ins().ireduce(types::I16, raw),
            Type::B8 => self.b.ins().ireduce(types::I8, raw),
            Type::B1 => {
                let low = self.b.ins().band_imm_s(raw, 1);
                self.b.ins().ireduce(types::I8, low)
            }
        }
    }

    /// Builds a value's parts from one scalar per lane.
    pub(super) fn collect(&mut self, ty: Type, lanes: &[cl::Value]) -> Parts {
        let per = if ty == Type::B64 { 2 } else { 4 };
        let vector = vector_type(ty);
        lanes
            .chunks(per)
            .map(|chunk| {
                let wide: SmallVec<[cl::Value; 4]> = chunk
                    .iter()
                    .map(|&lane| self.lane_scalar(ty, lane))
                    .collect();
                let mut part = self.b.ins().scalar_to_vector(vector, wide[0]);
                for (idx, &lane) in wide.iter().enumerate().skip(1) {
                    part = self.b.ins().insertlane(part, lane, idx as u8);
                }
                part
            })
            .collect()
    }

    /// A scalar as it stands in a lane: zero-extended, predicates as masks.
    pub(super) fn lane_scalar(&mut self, ty: Type, x: cl::Value) -> cl::Value {
        let x = self.cast_scalar(x, int_type(ty));
        match ty {
            Type::B64 | Type::B32 => x,
            Type::B8 | Type::B16 => self.b.ins().uextend(types::I32, x),
            Type::B1 => {
                let wide = self.b.ins().uextend(types::I32, x);
                self.b.ins().ineg(wide)
            }
        }
    }
}

/// The bits of a constant as CLIF wants immediates: sign-extended from the type's width.
pub(super) fn sign_extended(ty: Type, bits: u64) -> i64 {
    if ty == Type::B1 {
        (bits & 1) as i64
    } else {
        let shift = 64 - ty.bits();
        ((bits << shift) as i64) >> shift
    }
}
