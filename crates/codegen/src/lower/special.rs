//! Special registers, windows, variables and operations of the device.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, MemFlagsData, types};
use ptxjit_ir::{CTA_SHIFT, Inst, InstData, Space, SpecialReg, Type, Value, VarId};
use ptxjit_vectorize::Variability;

use super::Lower;
use crate::ops::{Parts, Val, WINDOW, int_type};
use ptxjit_abi::{CtaContext, DEVICE_VALUE_BYTES, RuntimeFns, SymbolRef};

impl Lower<'_, '_> {
    /// The value of a special register, in the form that the plan gives it.
    pub(super) fn sreg(&mut self, sreg: SpecialReg) -> Val {
        use core::mem::offset_of;
        let dim = |base: usize, axis: usize| base + 4 * axis;
        let uniform = match sreg {
            SpecialReg::TidX => return self.tid(0),
            SpecialReg::TidY => return self.tid(1),
            SpecialReg::TidZ => return self.tid(2),
            SpecialReg::NtidX => self.b.ctx32(dim(offset_of!(CtaContext, ntid), 0)),
            SpecialReg::NtidY => self.b.ctx32(dim(offset_of!(CtaContext, ntid), 1)),
            SpecialReg::NtidZ => self.b.ctx32(dim(offset_of!(CtaContext, ntid), 2)),
            SpecialReg::CtaidX => self.b.ctx32(dim(offset_of!(CtaContext, ctaid), 0)),
            SpecialReg::CtaidY => self.b.ctx32(dim(offset_of!(CtaContext, ctaid), 1)),
            SpecialReg::CtaidZ => self.b.ctx32(dim(offset_of!(CtaContext, ctaid), 2)),
            SpecialReg::NctaidX => self.b.ctx32(dim(offset_of!(CtaContext, nctaid), 0)),
            SpecialReg::NctaidY => self.b.ctx32(dim(offset_of!(CtaContext, nctaid), 1)),
            SpecialReg::NctaidZ => self.b.ctx32(dim(offset_of!(CtaContext, nctaid), 2)),
            SpecialReg::LaneId => return self.lane_id(),
            SpecialReg::WarpId => {
                let thread = self.gang_thread();
                self.b.ins().ushr_imm_s(thread, 5)
            }
            SpecialReg::NwarpId => {
                let n = self.b.ctx32(offset_of!(CtaContext, n_threads));
                let n = self.b.ins().iadd_imm_s(n, 31);
                self.b.ins().ushr_imm_s(n, 5)
            }
            SpecialReg::SmId => self.b.ctx32(offset_of!(CtaContext, smid)),
            SpecialReg::NsmId => self.b.ctx32(offset_of!(CtaContext, nsmid)),
            SpecialReg::GridId => {
                let (cta, at) = (self.b.cta, offset_of!(CtaContext, gridid) as i32);
                self.b
                    .ins()
                    .load(types::I64, MemFlagsData::trusted(), cta, at)
            }
            SpecialReg::IsExplicitCluster => {
                let x = self.b.ctx32(offset_of!(CtaContext, is_explicit_cluster));
                self.b.ins().ireduce(types::I8, x)
            }
            SpecialReg::ClusterIdX => self.b.ctx32(dim(offset_of!(CtaContext, clusterid), 0)),
            SpecialReg::ClusterIdY => self.b.ctx32(dim(offset_of!(CtaContext, clusterid), 1)),
            SpecialReg::ClusterIdZ => self.b.ctx32(dim(offset_of!(CtaContext, clusterid), 2)),
            SpecialReg::NclusterIdX => self.b.ctx32(dim(offset_of!(CtaContext, nclusterid), 0)),
            SpecialReg::NclusterIdY => self.b.ctx32(dim(offset_of!(CtaContext, nclusterid), 1)),
            SpecialReg::NclusterIdZ => self.b.ctx32(dim(offset_of!(CtaContext, nclusterid), 2)),
            SpecialReg::ClusterCtaIdX => {
                self.b.ctx32(dim(offset_of!(CtaContext, cluster_ctaid), 0))
            }
            SpecialReg::ClusterCtaIdY => {
                self.b.ctx32(dim(offset_of!(CtaContext, cluster_ctaid), 1))
            }
            SpecialReg::ClusterCtaIdZ => {
                self.b.ctx32(dim(offset_of!(CtaContext, cluster_ctaid), 2))
            }
            SpecialReg::ClusterNctaIdX => {
                self.b.ctx32(dim(offset_of!(CtaContext, cluster_nctaid), 0))
            }
            SpecialReg::ClusterNctaIdY => {
                self.b.ctx32(dim(offset_of!(CtaContext, cluster_nctaid), 1))
            }
            SpecialReg::ClusterNctaIdZ => {
                self.b.ctx32(dim(offset_of!(CtaContext, cluster_nctaid), 2))
            }
            SpecialReg::ClusterCtaRank => self.b.ctx32(offset_of!(CtaContext, cluster_ctarank)),
            SpecialReg::ClusterNctaRank => {
                let base = offset_of!(CtaContext, cluster_nctaid);
                let (x, y, z) = (
                    self.b.ctx32(base),
                    self.b.ctx32(base + 4),
                    self.b.ctx32(base + 8),
                );
                let xy = self.b.ins().imul(x, y);
                self.b.ins().imul(xy, z)
            }
            SpecialReg::LanemaskEq
            | SpecialReg::LanemaskLe
            | SpecialReg::LanemaskLt
            | SpecialReg::LanemaskGe
            | SpecialReg::LanemaskGt => return self.lane_mask(sreg),
            SpecialReg::Clock | SpecialReg::ClockHi | SpecialReg::Clock64 => {
                let x = self.b.time(offset_of!(RuntimeFns, clock64));
                self.b
                    .time_part(x, sreg == SpecialReg::Clock, sreg == SpecialReg::ClockHi)
            }
            SpecialReg::GlobalTimer | SpecialReg::GlobalTimerLo | SpecialReg::GlobalTimerHi => {
                let x = self.b.time(offset_of!(RuntimeFns, globaltimer));
                self.b.time_part(
                    x,
                    sreg == SpecialReg::GlobalTimerLo,
                    sreg == SpecialReg::GlobalTimerHi,
                )
            }
            SpecialReg::Pm(_) | SpecialReg::CurrentGraphExec => self.b.ins().iconst(types::I64, 0),
            SpecialReg::Envreg(n) => self
                .b
                .ctx32(offset_of!(CtaContext, envreg) + 4 * usize::from(n)),
            SpecialReg::TotalSmemSize | SpecialReg::AggrSmemSize => {
                let size = self.b.ctx32(offset_of!(CtaContext, total_smem_size));
                match self.inputs.shared.padding {
                    0 => size,
                    padding => self.b.ins().iadd_imm_s(size, -i64::from(padding)),
                }
            }
            SpecialReg::DynamicSmemSize => self.b.ctx32(offset_of!(CtaContext, dynamic_smem_size)),
        };
        Val::Uniform(uniform)
    }

    /// `%tid` of an axis: from a table, or from the linear index where the two are known to be
    /// equal.
    fn tid(&mut self, axis: usize) -> Val {
        let reg = [SpecialReg::TidX, SpecialReg::TidY, SpecialReg::TidZ][axis];
        let table = [
            core::mem::offset_of!(CtaContext, tid_x),
            core::mem::offset_of!(CtaContext, tid_y),
            core::mem::offset_of!(CtaContext, tid_z),
        ][axis];
        let thread = self.gang_thread();
        let variability = self.sreg_variability(reg);
        if self.inputs.one_dimensional && variability != Variability::Varying {
            return match (axis, variability) {
                (0, Variability::Affine { stride, .. }) => Val::Affine(thread, stride),
                (0, _) => Val::Uniform(thread),
                _ => Val::Uniform(self.b.u32_const(0)),
            };
        }
        let table = self.b.field(table);
        let at = self.b.ins().uextend(types::I64, thread);
        let at = self.b.ins().ishl_imm_s(at, 2);
        let at = self.b.ins().iadd(table, at);
        let flags = MemFlagsData::trusted();
        let quads = self.b.quads() as i32;
        let mut load = |ty, offset| self.b.ins().load(ty, flags, at, offset);
        match variability {
            Variability::Varying => {
                let parts = 0..quads;
                Val::Varying(parts.map(|q| load(types::I32X4, 16 * q)).collect())
            }
            Variability::Affine { stride, .. } => Val::Affine(load(types::I32, 0), stride),
            Variability::Uniform => Val::Uniform(load(types::I32, 0)),
        }
    }

    /// The variability that the plan gave to reads of a register.
    fn sreg_variability(&self, want: SpecialReg) -> Variability {
        self.func
            .insts
            .values()
            .find(|node| matches!(node.data, InstData::Sreg { sreg } if sreg == want))
            .map_or(Variability::Varying, |node| {
                self.plan.variability[node.results[0]]
            })
    }

    fn lane_id(&mut self) -> Val {
        let thread = self.gang_thread();
        let first = self.b.ins().band_imm_s(thread, 31);
        if self.b.lanes == 1 {
            Val::Uniform(first)
        } else {
            Val::Affine(first, 1)
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "callers pass lane masks")]
    fn lane_mask(&mut self, sreg: SpecialReg) -> Val {
        let thread = self.gang_thread();
        let first = self.b.ins().band_imm_s(thread, 31);
        let lanes: Vec<cl::Value> = (0..self.b.lanes)
            .map(|lane| {
                let id = self.b.ins().iadd_imm_s(first, lane as i64);
                let one = self.b.u32_const(1);
                let eq = self.b.ins().ishl(one, id);
                let lt = self.b.ins().iadd_imm_s(eq, -1);
                match sreg {
                    SpecialReg::LanemaskEq => eq,
                    SpecialReg::LanemaskLt => lt,
                    SpecialReg::LanemaskLe => self.b.ins().bor(eq, lt),
                    SpecialReg::LanemaskGe => self.b.ins().bnot(lt),
                    _ => {
                        let le = self.b.ins().bor(eq, lt);
                        self.b.ins().bnot(le)
                    }
                }
            })
            .collect();
        if self.b.lanes == 1 {
            Val::Uniform(lanes[0])
        } else {
            Val::Varying(self.b.collect(Type::B32, &lanes))
        }
    }

    /// `cvta.local` and `cvta.to.local`.
    pub(super) fn local_generic(&mut self, result: Value, arg: Value, to_generic: bool) {
        let val = if let Some(window) = self.only_window() {
            let x = self.scalar(arg);
            Val::Uniform(if to_generic {
                self.b.ins().iadd(x, window)
            } else {
                self.b.ins().isub(x, window)
            })
        } else {
            let windows = self.windows();
            let parts = self.parts(arg);
            let parts = parts.iter().zip(&windows).map(|(&x, &window)| {
                if to_generic {
                    self.b.ins().iadd(x, window)
                } else {
                    self.b.ins().isub(x, window)
                }
            });
            Val::Varying(parts.collect())
        };
        self.def(result, val);
    }

    /// The place of a variable: a constant in `.shared`, else a symbol.
    pub(super) fn var_addr(&mut self, var: VarId, offset: i64) -> cl::Value {
        if matches!(
            (self.inputs.space_of)(var),
            Space::Shared | Space::SharedCluster
        ) {
            let at = self.inputs.shared.offsets.get(&var).copied().unwrap_or(0);
            return self.b.ins().iconst(types::I64, i64::from(at) + offset);
        }
        let base = self.b.symbol(SymbolRef::Var(var));
        self.b.ins().iadd_imm_s(base, offset)
    }

    /// `isspacep`.
    pub(super) fn is_space(&mut self, result: Value, space: Space, arg: Value) {
        let ranges = self.space_ranges(space);
        let test = |lower: &mut Self, x: cl::Value| {
            let mut inside = lower.b.ins().iconst(types::I8, 0);
            for &(base, size) in &ranges {
                let distance = lower.b.ins().isub(x, base);
                let hit = lower.b.ins().icmp(IntCC::UnsignedLessThan, distance, size);
                inside = lower.b.ins().bor(inside, hit);
            }
            if matches!(space, Space::Global | Space::Generic) {
                lower.b.ins().bxor_imm_s(inside, 1)
            } else {
                inside
            }
        };
        let val = if self.is_uniform(result) {
            let x = self.scalar(arg);
            Val::Uniform(test(self, x))
        } else {
            let parts = self.parts(arg);
            let lanes: Vec<cl::Value> = (0..self.b.lanes)
                .map(|lane| {
                    let x = self.b.extract(Type::B64, &parts, lane);
                    test(self, x)
                })
                .collect();
            Val::Varying(self.b.collect(Type::B1, &lanes))
        };
        self.def(result, val);
    }

    /// The ranges of generic addresses of a space; for `.global` those that are not.
    fn space_ranges(&mut self, space: Space) -> Vec<(cl::Value, cl::Value)> {
        let window = self.b.ins().iconst(types::I64, WINDOW);
        let shared = self.b.field(core::mem::offset_of!(CtaContext, shared_base));
        let const_base = self.b.field(core::mem::offset_of!(CtaContext, const_base));
        let params = self.b.field(core::mem::offset_of!(CtaContext, params));
        let local = self.b.field(core::mem::offset_of!(CtaContext, local_base));
        let stride = self
            .b
            .field(core::mem::offset_of!(CtaContext, local_stride));
        let n = self.b.ctx32(core::mem::offset_of!(CtaContext, n_threads));
        let n = self.b.ins().uextend(types::I64, n);
        let local_size = self.b.ins().imul(n, stride);
        let small = self.b.ins().iconst(types::I64, 64 << 10);
        let bank = self.b.ins().iconst(types::I64, 1 << 20);
        match space {
            Space::Shared if self.inputs.clusters => {
                let rank = self
                    .b
                    .ctx32(core::mem::offset_of!(CtaContext, cluster_ctarank));
                let rank = self.b.ins().uextend(types::I64, rank);
                let part = self.b.ins().ishl_imm_s(rank, i64::from(CTA_SHIFT));
                let size = self.b.ins().iconst(types::I64, 1 << CTA_SHIFT);
                vec![(self.b.ins().iadd(shared, part), size)]
            }
            Space::Shared | Space::SharedCluster => vec![(shared, window)],
            Space::Const => vec![(const_base, bank)],
            Space::Param => vec![(params, small)],
            Space::Local => vec![(local, local_size)],
            Space::Global | Space::Generic => {
                vec![(shared, window), (const_base, bank), (local, local_size)]
            }
        }
    }

    /// A device operation: operands are stored to memory, results loaded from there.
    pub(super) fn device(&mut self, inst: Inst) {
        let node = &self.func.insts[inst];
        let InstData::Device { args, .. } = &node.data else {
            unreachable!("called for operations of the device")
        };
        let place = |n: usize| (n * DEVICE_VALUE_BYTES) as i32;
        let area = self.device_area(args.len() + node.results.len());
        for (n, &arg) in args.iter().enumerate() {
            for (i, part) in self.lane_parts(arg).into_iter().enumerate() {
                let at = place(n) + 16 * i as i32;
                self.b.ins().store(MemFlagsData::trusted(), part, area, at);
            }
        }
        let op = self.b.kept_inst(&node.data);
        let fns = self.b.field(core::mem::offset_of!(CtaContext, fns));
        let (thread, bits) = (self.gang_thread(), self.mask_as_bits());
        let loc = self.b.u32_const(i64::from(self.node.loc.0));
        let call = [self.b.cta, op, thread, bits, area, loc];
        let bad = self
            .b
            .call_runtime(fns, core::mem::offset_of!(RuntimeFns, device), &call);
        self.stop_if(bad, bad);
        for (n, &result) in node.results.iter().enumerate() {
            let (ty, at) = (self.func.ty(result), place(args.len() + n));
            let val = if self.b.lanes == 1 {
                let flags = MemFlagsData::trusted();
                let x = self.b.ins().load(int_type(ty), flags, area, at);
                // A predicate of a lane is 0 or all ones.
                Val::Uniform(if ty == Type::B1 {
                    self.b.ins().band_imm_u(x, 1)
                } else {
                    x
                })
            } else {
                let at = self.b.ins().iadd_imm_s(area, i64::from(at));
                Val::Varying(self.b.load_buffer(at, ty))
            };
            self.def(result, val);
        }
    }

    /// The value of each lane as vectors.
    fn lane_parts(&mut self, value: Value) -> Parts {
        if self.b.lanes == 1 {
            let x = self.scalar(value);
            Parts::from_elem(self.b.lane_scalar(self.func.ty(value), x), 1)
        } else {
            self.parts(value)
        }
    }

    /// Memory of the function for operands and results of one operation of the device.
    fn device_area(&mut self, n_values: usize) -> cl::Value {
        let size = (n_values.max(1) * DEVICE_VALUE_BYTES) as u32;
        let slot = match self.slots.device_area {
            Some(slot) => slot,
            None => {
                let data = cl::StackSlotData::new(cl::StackSlotKind::ExplicitSlot, size, 4);
                self.b.create_sized_stack_slot(data)
            }
        };
        self.slots.device_area = Some(slot);
        let data = &mut self.b.func.sized_stack_slots[slot];
        data.size = data.size.max(size);
        self.b.ins().stack_addr(types::I64, slot, 0)
    }
}
