//! Blocks that one lane runs at a time: every value is a scalar. Of values from elsewhere, it is
//! that lane's element. `lane_loop` has the loops over lanes.

use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_ir::{self as ir, Type, Value};
use ptxjit_vectorize::MayWrap;
use rustc_hash::FxHashMap;

use super::{Buffer, Lower};
use crate::ops::{Alignment, Parts, Val, Wrapping, int_type};
use crate::slots::lane_bytes;
use ptxjit_abi::CtaContext;

/// The lane that runs.
#[derive(Clone)]
pub(super) struct ActiveLane {
    /// Its number in the gang, 64 bits wide.
    pub lane: cl::Value,
    /// Values at that lane.
    pub vals: FxHashMap<Value, Val>,
    splats: FxHashMap<Value, Parts>,
    /// Its local window, once used.
    pub window: Option<cl::Value>,
}

impl ActiveLane {
    pub(super) fn new(lane: cl::Value) -> ActiveLane {
        ActiveLane {
            lane,
            vals: FxHashMap::default(),
            splats: FxHashMap::default(),
            window: None,
        }
    }
}

impl Lower<'_, '_> {
    /// From here to the end of the node, values are those of the lane that runs.
    pub(super) fn begin_single_lane(&mut self) {
        let bits = self.mask_as_bits();
        let lane = self.b.ins().ctz(bits);
        let lane = self.b.ins().uextend(types::I64, lane);
        self.lane.active = Some(ActiveLane::new(lane));
    }

    /// The local window of the lane that runs, if only one does.
    pub(super) fn own_window(&mut self) -> Option<cl::Value> {
        let active_lane = self.lane.active.as_ref()?;
        if active_lane.window.is_some() {
            return active_lane.window;
        }
        let lane = active_lane.lane;
        let thread = self.gang_thread();
        let thread = self.b.ins().uextend(types::I64, thread);
        let thread = self.b.ins().iadd(thread, lane);
        let stride = self
            .b
            .field(core::mem::offset_of!(CtaContext, local_stride));
        let base = self.b.field(core::mem::offset_of!(CtaContext, local_base));
        let distance = self.b.ins().imul(thread, stride);
        let window = self.b.ins().iadd(base, distance);
        self.lane.active.as_mut()?.window = Some(window);
        Some(window)
    }

    /// Emits code that sees values as the whole gang holds them.
    pub(super) fn for_gang<T>(&mut self, emit: impl FnOnce(&mut Self) -> T) -> T {
        let active_lane = self.lane.active.take();
        let result = emit(self);
        self.lane.active = active_lane;
        result
    }

    /// The value at the lane that runs, if only one does.
    pub(super) fn own(&mut self, value: Value) -> Option<Val> {
        let active_lane = self.lane.active.as_ref()?;
        if let Some(val) = active_lane.vals.get(&value) {
            return Some(val.clone());
        }
        let lane = active_lane.lane;
        if self.decided.in_bits[value] {
            let bits = self.for_gang(|lower| lower.pred_bits(value));
            let bit = self.b.ins().ushr(bits, lane);
            let bit = self.b.ins().band_imm_s(bit, 1);
            let x = Val::Uniform(self.b.ins().ireduce(types::I8, bit));
            let active_lane = self.lane.active.as_mut().expect("just seen");
            active_lane.vals.insert(value, x.clone());
            return Some(x);
        }
        let x = match self.for_gang(|lower| lower.get(value)) {
            Val::Uniform(x) => x,
            Val::Affine(base, stride) => match self.plan.variability[value].may_wrap() {
                None => self.lane_of_affine(value, base, stride, lane),
                Some(may_wrap) => {
                    let parts = self.resolved_parts(base, stride, may_wrap);
                    self.pick_lane(value, &parts, lane)
                }
            },
            Val::Varying(parts) => self.pick_lane(value, &parts, lane),
        };
        let x = self.b.cast_scalar(x, self.scalar_type(value));
        let active_lane = self.lane.active.as_mut().expect("just seen");
        active_lane.vals.insert(value, Val::Uniform(x));
        Some(Val::Uniform(x))
    }

    /// A vector of the value at the lane that runs, if only one does.
    pub(super) fn own_parts(&mut self, value: Value) -> Option<Parts> {
        let active_lane = self.lane.active.as_ref()?;
        if let Some(parts) = active_lane.splats.get(&value) {
            return Some(parts.clone());
        }
        let ty = self.func.ty(value);
        let splat = match self.func.as_const(value) {
            Some(bits) => self.b.vconst(ty, bits),
            None => {
                let Some(Val::Uniform(x)) = self.own(value) else {
                    unreachable!("one lane has scalars only")
                };
                self.b.splat(ty, x)
            }
        };
        let parts = Parts::from_elem(splat, self.b.n_parts(ty));
        let active_lane = self.lane.active.as_mut().expect("just seen");
        active_lane.splats.insert(value, parts.clone());
        Some(parts)
    }

    /// The address of the lane that runs, where the gang's index may have wrapped; else `None`.
    pub(super) fn own_address(&mut self, space: ir::Space, addr: Value) -> Option<Val> {
        let lane = self.lane.active.as_ref()?.lane;
        let may_wrap = self.plan.variability[addr].may_wrap()?;
        let Val::Affine(base, stride) = self.for_gang(|lower| lower.get(addr)) else {
            return None;
        };
        // Marks are above the bits that count in a window.
        let x = if space.is_window() {
            self.lane_of_affine(addr, base, stride, lane)
        } else {
            self.unless_wrapped(addr, (base, stride, may_wrap), lane)
        };
        Some(Val::Uniform(x))
    }

    fn unless_wrapped(
        &mut self,
        addr: Value,
        (base, stride, may_wrap): (cl::Value, i64, MayWrap),
        lane: cl::Value,
    ) -> cl::Value {
        let wrapping = Wrapping {
            at: base,
            stride,
            may_wrap,
            alignment: Alignment::KNOWN,
        };
        let inside = self.b.is_unwrapped(&wrapping);
        self.either(
            inside,
            vec![types::I64],
            |lower| vec![lower.lane_of_affine(addr, base, stride, lane)],
            |lower| {
                let buf = lower.resolve_wrapped(&wrapping);
                vec![lower.b.load_lane(buf, lane, types::I64, 8)]
            },
        )[0]
    }

    /// `base + stride * lane`.
    fn lane_of_affine(
        &mut self,
        value: Value,
        base: cl::Value,
        stride: i64,
        lane: cl::Value,
    ) -> cl::Value {
        let ty = int_type(self.func.ty(value));
        let base = self.b.cast_scalar(base, ty);
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
        let x = self.b.load_lane(buf, lane, int_type(ty), lane_bytes(ty));
        // A predicate's lanes are masks.
        match ty {
            Type::B1 => self.b.ins().band_imm_s(x, 1),
            Type::B8 | Type::B16 | Type::B32 | Type::B64 => x,
        }
    }
}
