//! Loads of lanes that probably lie side by side, which a test at run time finds out.
//!
//! A 64-bit address that is a base plus an index of 32 bits is tested by its index, and made of it where it is needed: for the first
//! lane alone if the lanes lie side by side.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_ir::{Inst, InstData, IntBinaryOp, ResizeOp, Space, Type, Value, ValueDef};
use ptxjit_passes::vectorize::Shape;

use super::Lower;
use super::address::{Address, Place, small};
use super::values::{Parts, Val, vector_type};

/// With a greater factor an address could wrap where its index does not.
const MOST_SCALE: i64 = 1 << 16;

/// Addresses `base + sext(index) * scale`.
#[derive(Clone)]
struct Indexed {
    base: cl::Value,
    index: Parts,
    /// A power of two.
    scale: i64,
}

impl Lower<'_, '_> {
    /// Whether the lanes probably lie side by side, so that it pays to test that.
    pub(super) fn is_likely_dense(&self, addr: Value, size: i64) -> bool {
        let varies = self.shape(addr) == Shape::Varying && self.quads > 1;
        varies && self.plan.likely[addr] == Some(size) && !self.memcheck && !self.certainly_partial
    }

    /// As one access if the lanes turn out to lie side by side and all run.
    pub(super) fn load_likely(
        &mut self,
        load: Inst,
        (n, ty): (usize, Type),
        space: Space,
        addr: Value,
        offset: i32,
    ) -> Vec<cl::Value> {
        let stride = i64::from(ty.bytes()) * n as i64;
        let indexed = self
            .indexed(load, space, addr)
            .filter(|indexed| small(offset) && stride % indexed.scale == 0);
        if let Some(indexed) = indexed {
            let (dense, first) = self.first_of_indexed(&indexed, stride);
            let addresses = |lower: &mut Self| lower.addresses_of(&indexed);
            return self.load_if_dense((n, ty), space, (dense, first), offset, addresses);
        }
        let (addr_val, offset) = self.fold_offset(space, addr, offset);
        let address = self.resolve(space, self.func.ty(addr), addr_val);
        let first = self.lane_address(&address, 0);
        let dense = self.is_dense(&address, stride);
        self.load_if_dense((n, ty), space, (dense, first), offset, |_| address.clone())
    }

    /// From `first` on if the lanes are dense and all run; else from their addresses.
    fn load_if_dense(
        &mut self,
        (n, ty): (usize, Type),
        space: Space,
        (dense, first): (cl::Value, cl::Value),
        offset: i32,
        addresses: impl Fn(&mut Self) -> Address,
    ) -> Vec<cl::Value> {
        let stride = i64::from(ty.bytes()) * n as i64;
        let dense = match self.unless_full() {
            None => dense,
            Some(full) => self.b.ins().band(dense, full),
        };
        self.either(
            dense,
            vec![vector_type(ty); n * self.n_parts(ty)],
            |lower| {
                if !space.is_window() {
                    lower.check(&Address::Strided(first, stride));
                }
                lower.load_whole(n, ty, first, stride, offset)
            },
            |lower| {
                let address = addresses(lower);
                if !space.is_window() {
                    lower.check(&address);
                }
                let address = lower.redirect(address, offset);
                let place = Place { address, offset };
                let elems = lower.load_each_lane(n, ty, &place);
                elems.into_iter().flatten().collect()
            },
        )
    }

    /// Whether each lane's address is so many bytes above that of the lane before.
    fn is_dense(&mut self, address: &Address, stride: i64) -> cl::Value {
        match address {
            Address::Lanes(parts) => self.is_line(Type::B64, parts, stride),
            Address::Lanes32(_, parts, _) => self.is_line(Type::B32, parts, stride),
            Address::Scalar(_) | Address::Strided(..) | Address::Folded(..) => {
                unreachable!("asked for varying addresses only")
            }
        }
    }

    fn is_line(&mut self, ty: Type, parts: &[cl::Value], stride: i64) -> cl::Value {
        let first = self.b.ins().extractlane(parts[0], 0);
        let line = self.affine_parts(ty, first, stride);
        let differences: Vec<cl::Value> = parts
            .iter()
            .zip(&line)
            .map(|(&x, &y)| self.b.ins().bxor(x, y))
            .collect();
        let any = self.any(&differences);
        self.b.ins().icmp_imm_s(IntCC::Equal, any, 0)
    }

    /// The parts of a load's address, if they are to be had.
    fn indexed(&mut self, load: Inst, space: Space, addr: Value) -> Option<Indexed> {
        let InstData::IntBinary {
            op: IntBinaryOp::Add,
            ty: Type::B64,
            args: [a, b],
        } = *self.func.def_inst(addr)?
        else {
            return None;
        };
        let (base, wide) = match self.shape(a) {
            Shape::Uniform => (a, b),
            Shape::Affine { .. } | Shape::Varying => (b, a),
        };
        let (mut long, mut scale) = (wide, 1);
        if let InstData::IntBinary {
            op: IntBinaryOp::Shl,
            args: [index, count],
            ..
        } = *self.func.def_inst(wide)?
        {
            (long, scale) = (index, 1 << self.func.as_const(count)?.min(63));
        }
        let InstData::Resize {
            op: ResizeOp::Sext,
            from: Type::B32,
            to: Type::B64,
            arg: index,
        } = *self.func.def_inst(long)?
        else {
            return None;
        };
        if space.is_window() || !(1..=MOST_SCALE).contains(&scale) {
            return None;
        }
        // What the load's own block uses can be had there; the parts of other addresses may be gone.
        let insts = self.func.blocks.values().map(|block| &block.insts);
        let mut own = insts.filter(|insts| insts.contains(&load));
        let is_own = |insts: &Vec<Inst>| {
            [addr, wide, long]
                .iter()
                .all(|&value| self.is_made_in(insts, value))
        };
        if !own.any(is_own) {
            return None;
        }
        let (Val::Uniform(base), Val::Varying(index)) = (self.get(base), self.get(index)) else {
            return None;
        };
        let base = self.cast_scalar(base, types::I64);
        Some(Indexed { base, index, scale })
    }

    fn is_made_in(&self, insts: &[Inst], value: Value) -> bool {
        match self.func.values[value].def {
            ValueDef::Result(inst, _) => insts.contains(&inst),
            ValueDef::Param(..) => false,
        }
    }

    /// Whether the lanes lie side by side, and where the first one does. An index must not wrap on the way to the last.
    fn first_of_indexed(&mut self, indexed: &Indexed, stride: i64) -> (cl::Value, cl::Value) {
        let step = stride / indexed.scale;
        let index: Parts = indexed
            .index
            .iter()
            .map(|&part| self.cast_vector(part, types::I32X4))
            .collect();
        let is_line = self.is_line(Type::B32, &index, step);
        let first = self.b.ins().extractlane(index[0], 0);
        let last = self
            .b
            .ins()
            .iadd_imm_s(first, step * (self.lanes as i64 - 1));
        let rises = self.b.ins().icmp(IntCC::SignedLessThanOrEqual, first, last);
        let dense = self.b.ins().band(is_line, rises);
        let wide = self.b.ins().sextend(types::I64, first);
        let bytes = self.b.ins().imul_imm_s(wide, indexed.scale);
        (dense, self.b.ins().iadd(indexed.base, bytes))
    }

    fn addresses_of(&mut self, indexed: &Indexed) -> Address {
        let base = self.b.ins().splat(types::I64X2, indexed.base);
        let mut parts = Parts::new();
        for &part in &indexed.index {
            let part = self.cast_vector(part, types::I32X4);
            for wide in self.widen_mask(part) {
                let bytes = self
                    .b
                    .ins()
                    .ishl_imm_s(wide, i64::from(indexed.scale.trailing_zeros()));
                parts.push(self.b.ins().iadd(base, bytes));
            }
        }
        Address::Lanes(parts)
    }
}
