//! How lanes are held: scalars, affine bases, vectors of four or two lanes.
//!
//! The lanes of a gang come in *quads*. A varying value of up to 32 bits is one `i32x4` per quad, a
//! 64-bit one two `i64x2`. Predicates are `i32x4` masks (0 or -1); narrow integers are
//! zero-extended. Vectors are always held as integers: a bit cast between vector types costs
//! nothing.

use cranelift_codegen::ir::{self as cl, InstBuilder, MemFlagsData, types};
use cranelift_frontend::Variable;
use ptxjit_ir::Type;
use smallvec::SmallVec;

use super::Emitter;

/// Vectors of one value, in lane order.
pub(crate) type Parts = SmallVec<[cl::Value; 8]>;

/// One quad of a value: one vector, or two at 64 bits.
pub(crate) type Quad = SmallVec<[cl::Value; 2]>;

/// The vector type that holds lanes of `ty`.
pub(crate) fn vector_type(ty: Type) -> cl::Type {
    match ty {
        Type::B64 => types::I64X2,
        Type::B1 | Type::B8 | Type::B16 | Type::B32 => types::I32X4,
    }
}

/// The same for lanes of floats.
pub(crate) fn float_vector_type(ty: Type) -> cl::Type {
    match ty {
        Type::B64 => types::F64X2,
        Type::B1 | Type::B8 | Type::B16 | Type::B32 => types::F32X4,
    }
}

/// The scalar integer type for `ty`; predicates are `i8`.
pub(crate) fn int_type(ty: Type) -> cl::Type {
    match ty {
        Type::B1 | Type::B8 => types::I8,
        Type::B16 => types::I16,
        Type::B32 => types::I32,
        Type::B64 => types::I64,
    }
}

/// The bits of a constant as CLIF wants immediates: sign-extended from the type's width.
pub(crate) fn sign_extended(ty: Type, bits: u64) -> i64 {
    if ty == Type::B1 {
        (bits & 1) as i64
    } else {
        let shift = 64 - ty.bits();
        ((bits << shift) as i64) >> shift
    }
}

/// An available value.
#[derive(Clone, Debug)]
pub(crate) enum Val {
    /// The same for all lanes.
    Uniform(cl::Value),
    /// Lane 0's scalar and the difference from lane to lane.
    Affine(cl::Value, i64),
    /// One vector per quad, or two at 64 bits.
    Varying(Parts),
}

impl Emitter<'_> {
    /// The results of an operation on each vector.
    pub(crate) fn each<T: Copy, U, C: FromIterator<U>>(
        &mut self,
        parts: &[T],
        mut op: impl FnMut(&mut Self, T) -> U,
    ) -> C {
        parts.iter().map(|&part| op(self, part)).collect()
    }

    /// The results of an operation on the vectors of two values.
    pub(crate) fn each_of_two<S: Copy, T: Copy, U, C: FromIterator<U>>(
        &mut self,
        (x, y): (&[S], &[T]),
        mut op: impl FnMut(&mut Self, S, T) -> U,
    ) -> C {
        x.iter().zip(y).map(|(&x, &y)| op(self, x, y)).collect()
    }

    /// Vectors as such of another type.
    pub(crate) fn cast_vectors(&mut self, parts: &[cl::Value], ty: cl::Type) -> Parts {
        self.each(parts, |b, part| b.cast_vector(part, ty))
    }

    /// The results of an operation that makes one vector of two neighbors.
    pub(crate) fn each_pair<C: FromIterator<cl::Value>>(
        &mut self,
        parts: &[cl::Value],
        mut op: impl FnMut(&mut Self, cl::Value, cl::Value) -> cl::Value,
    ) -> C {
        let pairs = parts.chunks(2);
        pairs.map(|pair| op(self, pair[0], pair[1])).collect()
    }

    /// Number of vectors of a varying value.
    pub(crate) fn n_parts(&self, ty: Type) -> usize {
        if ty == Type::B64 {
            self.quads() * 2
        } else {
            self.quads()
        }
    }

    /// A scalar constant.
    pub(crate) fn constant(&mut self, ty: Type, bits: u64, float: bool) -> cl::Value {
        match (ty, float) {
            (Type::B32, true) => self.ins().f32const(f32::from_bits(bits as u32)),
            (Type::B64, true) => self.ins().f64const(f64::from_bits(bits)),
            _ => self.ins().iconst(int_type(ty), sign_extended(ty, bits)),
        }
    }

    /// A vector whose lanes are all `bits`.
    pub(crate) fn vconst(&mut self, ty: Type, bits: u64) -> cl::Value {
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
    pub(crate) fn vconst_bytes(&mut self, ty: cl::Type, bytes: &[u8]) -> cl::Value {
        let constant = self.func.dfg.constants.insert(bytes.into());
        self.ins().vconst(ty, constant)
    }

    /// Assigns variables.
    pub(crate) fn def_vars(&mut self, vars: &[Variable], values: &[cl::Value]) {
        let pairs = vars.iter().zip(values);
        pairs.for_each(|(&var, &value)| self.def_var(var, value));
    }

    /// What variables hold.
    pub(crate) fn use_vars(&mut self, vars: &[Variable]) -> Parts {
        vars.iter().map(|&var| self.use_var(var)).collect()
    }

    /// Spreads a scalar over all lanes.
    pub(crate) fn splat_parts(&mut self, ty: Type, x: cl::Value) -> Parts {
        let splat = self.splat(ty, x);
        Parts::from_elem(splat, self.n_parts(ty))
    }

    /// Spreads a scalar over a vector.
    pub(crate) fn splat(&mut self, ty: Type, x: cl::Value) -> cl::Value {
        // A float stays in its register class, and a splat of a load becomes one instruction.
        let wide = match self.func.dfg.value_type(x) {
            types::F32 => Some(types::F32X4),
            types::F64 => Some(types::F64X2),
            _ => None,
        };
        if let Some(wide) = wide {
            let splat = self.ins().splat(wide, x);
            return self.cast_vector(splat, vector_type(ty));
        }
        let x = self.cast_scalar(x, int_type(ty));
        match ty {
            Type::B64 => self.ins().splat(types::I64X2, x),
            Type::B32 => self.ins().splat(types::I32X4, x),
            Type::B8 | Type::B16 => {
                let wide = self.ins().uextend(types::I32, x);
                self.ins().splat(types::I32X4, wide)
            }
            Type::B1 => {
                let wide = self.ins().uextend(types::I32, x);
                let mask = self.ins().ineg(wide);
                self.ins().splat(types::I32X4, mask)
            }
        }
    }

    /// `base + stride * lane` for all lanes.
    pub(crate) fn affine_parts(&mut self, ty: Type, base: cl::Value, stride: i64) -> Parts {
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
                self.ins().iadd(splat, offsets)
            })
            .collect()
    }

    /// Moves a scalar to another register class of the same width.
    pub(crate) fn cast_scalar(&mut self, x: cl::Value, ty: cl::Type) -> cl::Value {
        if self.func.dfg.value_type(x) == ty {
            x
        } else {
            self.ins().bitcast(ty, MemFlagsData::new(), x)
        }
    }

    /// Reinterprets a vector as another type.
    pub(crate) fn cast_vector(&mut self, x: cl::Value, ty: cl::Type) -> cl::Value {
        if self.func.dfg.value_type(x) == ty {
            return x;
        }
        // Undoes an earlier cast: chains of float operations on values that are held as integers.
        if let cl::ValueDef::Result(inst, _) = self.func.dfg.value_def(x)
            && let cl::InstructionData::LoadNoOffset {
                opcode: cl::Opcode::Bitcast,
                arg,
                ..
            } = self.func.dfg.insts[inst]
            && self.func.dfg.value_type(arg) == ty
        {
            return arg;
        }
        let flags = MemFlagsData::new().with_endianness(cl::Endianness::Little);
        self.ins().bitcast(ty, flags, x)
    }

    /// Widens a quad's mask to the two masks of 64-bit lanes.
    pub(crate) fn widen_mask(&mut self, mask: cl::Value) -> [cl::Value; 2] {
        self.widened(true, mask)
    }

    /// A vector's lower and upper lanes, sign- or zero-extended to twice their width.
    pub(crate) fn widened(&mut self, signed: bool, x: cl::Value) -> [cl::Value; 2] {
        match signed {
            true => [self.ins().swiden_low(x), self.ins().swiden_high(x)],
            false => [self.ins().uwiden_low(x), self.ins().uwiden_high(x)],
        }
    }

    /// The same of each of some vectors.
    pub(crate) fn widened_each(&mut self, signed: bool, parts: &[cl::Value]) -> Parts {
        let both = parts.iter().flat_map(|&part| self.widened(signed, part));
        both.collect()
    }

    /// The low words of four 64-bit lanes.
    pub(crate) fn narrow(&mut self, lo: cl::Value, hi: cl::Value) -> cl::Value {
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
    pub(crate) fn shuffle(&mut self, a: cl::Value, b: cl::Value, lanes: [u8; 16]) -> cl::Value {
        let a = self.cast_vector(a, types::I8X16);
        let b = self.cast_vector(b, types::I8X16);
        let mask = self.func.dfg.immediates.push(lanes.to_vec().into());
        self.ins().shuffle(a, b, mask)
    }

    /// Lane `lane` of a value's parts as an integer scalar of its type.
    pub(crate) fn extract(&mut self, ty: Type, parts: &[cl::Value], lane: usize) -> cl::Value {
        let per = if ty == Type::B64 { 2 } else { 4 };
        let raw = self
            .ins()
            .extractlane(parts[lane / per], (lane % per) as u8);
        match ty {
            Type::B64 | Type::B32 => raw,
            Type::B16 => self.ins().ireduce(types::I16, raw),
            Type::B8 => self.ins().ireduce(types::I8, raw),
            Type::B1 => {
                let low = self.ins().band_imm_s(raw, 1);
                self.ins().ireduce(types::I8, low)
            }
        }
    }

    /// Builds a value's parts from one scalar per lane.
    pub(crate) fn collect(&mut self, ty: Type, lanes: &[cl::Value]) -> Parts {
        let per = if ty == Type::B64 { 2 } else { 4 };
        let vector = vector_type(ty);
        lanes
            .chunks(per)
            .map(|chunk| {
                let wide: SmallVec<[cl::Value; 4]> =
                    self.each(chunk, |b, lane| b.lane_scalar(ty, lane));
                let mut part = self.ins().scalar_to_vector(vector, wide[0]);
                for (idx, &lane) in wide.iter().enumerate().skip(1) {
                    part = self.ins().insertlane(part, lane, idx as u8);
                }
                part
            })
            .collect()
    }

    /// A scalar as it stands in a lane: zero-extended, predicates as masks.
    pub(crate) fn lane_scalar(&mut self, ty: Type, x: cl::Value) -> cl::Value {
        let x = self.cast_scalar(x, int_type(ty));
        match ty {
            Type::B64 | Type::B32 => x,
            Type::B8 | Type::B16 => self.ins().uextend(types::I32, x),
            Type::B1 => {
                let wide = self.ins().uextend(types::I32, x);
                self.ins().ineg(wide)
            }
        }
    }

    /// The instruction that makes a value's bits.
    pub(super) fn behind_bitcasts(&self, x: cl::Value) -> Option<cl::InstructionData> {
        let dfg = &self.func.dfg;
        let mut inst = dfg.value_def(x).inst()?;
        while dfg.insts[inst].opcode() == cl::Opcode::Bitcast {
            inst = dfg.value_def(dfg.inst_args(inst)[0]).inst()?;
        }
        Some(dfg.insts[inst])
    }

    /// The constant that all lanes of a vector of f32 are, if they are.
    pub(super) fn constant_lanes(&self, x: cl::Value) -> Option<f32> {
        let cl::InstructionData::UnaryConst {
            opcode: cl::Opcode::Vconst,
            constant_handle,
        } = self.behind_bitcasts(x)?
        else {
            return None;
        };
        let bytes = self.func.dfg.constants.get(constant_handle).as_slice();
        let (first, rest) = bytes.split_first_chunk::<4>()?;
        let is_splat = rest.chunks(4).all(|lane| lane == first);
        is_splat.then(|| f32::from_le_bytes(*first))
    }

    /// A scalar of any type as the `u64` that evaluation works on.
    pub(crate) fn to_i64(&mut self, x: cl::Value) -> cl::Value {
        match self.func.dfg.value_type(x) {
            types::I64 => x,
            types::F64 => self.cast_scalar(x, types::I64),
            types::F32 => {
                let bits = self.cast_scalar(x, types::I32);
                self.ins().uextend(types::I64, bits)
            }
            _ => self.ins().uextend(types::I64, x),
        }
    }
}
