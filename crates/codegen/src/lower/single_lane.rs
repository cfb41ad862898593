//! Blocks that one lane runs at a time: everything there is a scalar. What comes from elsewhere is that lane's part of it. `by_lane` has the loops
//! over lanes.

use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use cranelift_entity::SecondaryMap;
use ptxjit_ir::{self as ir, Function, Type, Value};
use ptxjit_vectorize::{Fold, Plan, Solo};
use rustc_hash::FxHashMap;

use super::values::{Parts, Val, int_type, lane_bytes};
use super::{Buffer, Lower};
use ptxjit_abi::CtaContext;

/// The lane that runs alone.
#[derive(Clone)]
pub(super) struct Alone {
    /// Its number in the gang, 64 bits wide.
    pub lane: cl::Value,
    /// What it sees of values.
    pub vals: FxHashMap<Value, Val>,
    splats: FxHashMap<Value, Parts>,
    /// Where its local memory lies, if somebody has asked.
    pub window: Option<cl::Value>,
}

impl Alone {
    pub(super) fn new(lane: cl::Value) -> Alone {
        Alone {
            lane,
            vals: FxHashMap::default(),
            splats: FxHashMap::default(),
            window: None,
        }
    }
}

/// The values that one lane computes by itself.
pub(super) fn values(func: &Function, plan: &Plan) -> SecondaryMap<Value, bool> {
    let mut out = SecondaryMap::new();
    for (block, data) in func.blocks.iter() {
        if plan.solo[block] != Solo::No {
            let results = data
                .insts
                .iter()
                .flat_map(|&inst| &func.insts[inst].results);
            results.for_each(|&result| out[result] = true);
        }
    }
    out
}

impl Lower<'_, '_> {
    /// From here to the end of the node, values are those of the one lane that runs.
    pub(super) fn begin_solo(&mut self) {
        let bits = self.mask_as_bits();
        let lane = self.b.ins().ctz(bits);
        let lane = self.b.ins().uextend(types::I64, lane);
        self.alone = Some(Alone::new(lane));
    }

    /// Where the local memory of the lane that runs alone lies, if one does.
    pub(super) fn own_window(&mut self) -> Option<cl::Value> {
        let alone = self.alone.as_ref()?;
        if alone.window.is_some() {
            return alone.window;
        }
        let lane = alone.lane;
        let thread = self.gang_thread();
        let thread = self.b.ins().uextend(types::I64, thread);
        let thread = self.b.ins().iadd(thread, lane);
        let stride = self.field(core::mem::offset_of!(CtaContext, local_stride));
        let base = self.field(core::mem::offset_of!(CtaContext, local_base));
        let distance = self.b.ins().imul(thread, stride);
        let window = self.b.ins().iadd(base, distance);
        self.alone.as_mut()?.window = Some(window);
        Some(window)
    }

    /// Emits code that sees values as the other lanes know them.
    pub(super) fn for_gang<T>(&mut self, emit: impl FnOnce(&mut Self) -> T) -> T {
        let alone = self.alone.take();
        let result = emit(self);
        self.alone = alone;
        result
    }

    /// The value of the lane that runs alone, if one does.
    pub(super) fn own(&mut self, value: Value) -> Option<Val> {
        let alone = self.alone.as_ref()?;
        if let Some(val) = alone.vals.get(&value) {
            return Some(val.clone());
        }
        let lane = alone.lane;
        if self.in_bits[value] {
            let bits = self.for_gang(|lower| lower.pred_bits(value));
            let bit = self.b.ins().ushr(bits, lane);
            let bit = self.b.ins().band_imm_s(bit, 1);
            let x = Val::Uniform(self.b.ins().ireduce(types::I8, bit));
            let alone = self.alone.as_mut().expect("just seen");
            alone.vals.insert(value, x.clone());
            return Some(x);
        }
        let x = match self.for_gang(|lower| lower.get(value)) {
            Val::Uniform(x) => x,
            Val::Affine(base, stride) => match self.plan.shapes[value].fold() {
                None => self.on_line(value, base, stride, lane),
                Some(fold) => {
                    let parts = self.unfolded_parts(base, stride, fold);
                    self.pick_lane(value, &parts, lane)
                }
            },
            Val::Varying(parts) => self.pick_lane(value, &parts, lane),
        };
        let x = self.cast_scalar(x, self.scalar_type(value));
        let alone = self.alone.as_mut().expect("just seen");
        alone.vals.insert(value, Val::Uniform(x));
        Some(Val::Uniform(x))
    }

    /// A vector of the value of the lane that runs alone, if one does.
    pub(super) fn own_parts(&mut self, value: Value) -> Option<Parts> {
        let alone = self.alone.as_ref()?;
        if let Some(parts) = alone.splats.get(&value) {
            return Some(parts.clone());
        }
        let ty = self.func.ty(value);
        let splat = match self.func.as_const(value) {
            Some(bits) => self.vconst(ty, bits),
            None => {
                let Some(Val::Uniform(x)) = self.own(value) else {
                    unreachable!("one lane has scalars only")
                };
                self.splat(ty, x)
            }
        };
        let parts = Parts::from_elem(splat, self.n_parts(ty));
        let alone = self.alone.as_mut().expect("just seen");
        alone.splats.insert(value, parts.clone());
        Some(parts)
    }

    /// The address of the lane that runs alone where the gang's is folded; else nothing.
    pub(super) fn own_address(&mut self, space: ir::Space, addr: Value) -> Option<Val> {
        let lane = self.alone.as_ref()?.lane;
        let fold = self.plan.shapes[addr].fold()?;
        let Val::Affine(base, stride) = self.for_gang(|lower| lower.get(addr)) else {
            return None;
        };
        // Marks are above the bits that count in a window.
        let x = if space.is_window() {
            self.on_line(addr, base, stride, lane)
        } else {
            self.unless_folded(addr, (base, stride, fold), lane)
        };
        Some(Val::Uniform(x))
    }

    fn unless_folded(
        &mut self,
        addr: Value,
        (base, stride, fold): (cl::Value, i64, Fold),
        lane: cl::Value,
    ) -> cl::Value {
        let inside = self.is_inside(base);
        self.either(
            inside,
            vec![types::I64],
            |lower| vec![lower.on_line(addr, base, stride, lane)],
            |lower| {
                let buf = lower.unfold(base, stride, fold);
                vec![lower.load_lane(buf, lane, types::I64, 8)]
            },
        )[0]
    }

    /// `base + stride * lane`.
    fn on_line(
        &mut self,
        value: Value,
        base: cl::Value,
        stride: i64,
        lane: cl::Value,
    ) -> cl::Value {
        let ty = int_type(self.func.ty(value));
        let base = self.cast_scalar(base, ty);
        let lane = if ty == types::I64 {
            lane
        } else {
            self.b.ins().ireduce(ty, lane)
        };
        let distance = self.b.ins().imul_imm_s(lane, stride);
        self.b.ins().iadd(base, distance)
    }

    fn pick_lane(&mut self, value: Value, parts: &[cl::Value], lane: cl::Value) -> cl::Value {
        let ty = self.func.ty(value);
        let buf = self.store_to_buffer(Buffer::Picked, parts);
        let x = self.load_lane(buf, lane, int_type(ty), lane_bytes(ty));
        // A predicate's lanes are masks.
        match ty {
            Type::B1 => self.b.ins().band_imm_s(x, 1),
            Type::B8 | Type::B16 | Type::B32 | Type::B64 => x,
        }
    }
}
