//! Special registers.

use core::mem::offset_of;

use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_abi::{CtaContext, RuntimeFns};
use ptxjit_ir::{InstData, SpecialReg, Type};
use ptxjit_vectorize::Variability;

use crate::lower::Lower;
use crate::ops::{Val, vector_type};

impl Lower<'_, '_> {
    /// The value of a special register, in the form that the plan gives it.
    pub(in crate::lower) fn sreg(&mut self, sreg: SpecialReg) -> Val {
        match field_of(sreg) {
            Some(offset) => Val::Uniform(self.b.ctx32(offset)),
            None => self.computed_sreg(sreg),
        }
    }

    /// A register that is no field of the context, or not its field alone.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "fields of the context do not come here"
    )]
    fn computed_sreg(&mut self, sreg: SpecialReg) -> Val {
        let uniform = match sreg {
            SpecialReg::TidX => return self.tid(0),
            SpecialReg::TidY => return self.tid(1),
            SpecialReg::TidZ => return self.tid(2),
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
            SpecialReg::GridId => {
                let (cta, at) = (self.b.cta, offset_of!(CtaContext, gridid) as i32);
                self.b.load_own(types::I64, cta, at)
            }
            SpecialReg::IsExplicitCluster => {
                let x = self.b.ctx32(offset_of!(CtaContext, is_explicit_cluster));
                self.b.ins().ireduce(types::I8, x)
            }
            SpecialReg::ClusterNctaRank => self.ctas_of_cluster(),
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
            SpecialReg::TotalSmemSize | SpecialReg::AggrSmemSize => {
                let size = self.b.ctx32(offset_of!(CtaContext, total_smem_size));
                match self.inputs.shared.padding {
                    0 => size,
                    padding => self.b.ins().iadd_imm_s(size, -i64::from(padding)),
                }
            }
            _ => unreachable!("a field of the context"),
        };
        Val::Uniform(uniform)
    }

    /// `%tid` of an axis: from a table, or from the linear index where the two are known to be
    /// equal.
    fn tid(&mut self, axis: usize) -> Val {
        let reg = [SpecialReg::TidX, SpecialReg::TidY, SpecialReg::TidZ][axis];
        let table = [
            offset_of!(CtaContext, tid_x),
            offset_of!(CtaContext, tid_y),
            offset_of!(CtaContext, tid_z),
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
        let quads = self.b.quads() as i32;
        let mut load = |ty, offset| self.b.load_own(ty, at, offset);
        match variability {
            Variability::Varying => {
                let parts = 0..quads;
                Val::Varying(
                    parts
                        .map(|q| load(vector_type(Type::B32), 16 * q))
                        .collect(),
                )
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

    fn ctas_of_cluster(&mut self) -> cl::Value {
        let base = offset_of!(CtaContext, cluster_nctaid);
        let [x, y, z] = [0, 4, 8].map(|at| self.b.ctx32(base + at));
        let xy = self.b.ins().imul(x, y);
        self.b.ins().imul(xy, z)
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
}

/// The field of the context that holds a register of 32 bits.
fn field_of(sreg: SpecialReg) -> Option<usize> {
    let dim = |base: usize, axis: usize| base + 4 * axis;
    Some(match sreg {
        SpecialReg::NtidX => dim(offset_of!(CtaContext, ntid), 0),
        SpecialReg::NtidY => dim(offset_of!(CtaContext, ntid), 1),
        SpecialReg::NtidZ => dim(offset_of!(CtaContext, ntid), 2),
        SpecialReg::CtaidX => dim(offset_of!(CtaContext, ctaid), 0),
        SpecialReg::CtaidY => dim(offset_of!(CtaContext, ctaid), 1),
        SpecialReg::CtaidZ => dim(offset_of!(CtaContext, ctaid), 2),
        SpecialReg::NctaidX => dim(offset_of!(CtaContext, nctaid), 0),
        SpecialReg::NctaidY => dim(offset_of!(CtaContext, nctaid), 1),
        SpecialReg::NctaidZ => dim(offset_of!(CtaContext, nctaid), 2),
        SpecialReg::SmId => offset_of!(CtaContext, smid),
        SpecialReg::NsmId => offset_of!(CtaContext, nsmid),
        SpecialReg::ClusterIdX => dim(offset_of!(CtaContext, clusterid), 0),
        SpecialReg::ClusterIdY => dim(offset_of!(CtaContext, clusterid), 1),
        SpecialReg::ClusterIdZ => dim(offset_of!(CtaContext, clusterid), 2),
        SpecialReg::NclusterIdX => dim(offset_of!(CtaContext, nclusterid), 0),
        SpecialReg::NclusterIdY => dim(offset_of!(CtaContext, nclusterid), 1),
        SpecialReg::NclusterIdZ => dim(offset_of!(CtaContext, nclusterid), 2),
        SpecialReg::ClusterCtaIdX => dim(offset_of!(CtaContext, cluster_ctaid), 0),
        SpecialReg::ClusterCtaIdY => dim(offset_of!(CtaContext, cluster_ctaid), 1),
        SpecialReg::ClusterCtaIdZ => dim(offset_of!(CtaContext, cluster_ctaid), 2),
        SpecialReg::ClusterNctaIdX => dim(offset_of!(CtaContext, cluster_nctaid), 0),
        SpecialReg::ClusterNctaIdY => dim(offset_of!(CtaContext, cluster_nctaid), 1),
        SpecialReg::ClusterNctaIdZ => dim(offset_of!(CtaContext, cluster_nctaid), 2),
        SpecialReg::ClusterCtaRank => offset_of!(CtaContext, cluster_ctarank),
        SpecialReg::DynamicSmemSize => offset_of!(CtaContext, dynamic_smem_size),
        SpecialReg::Envreg(n) => offset_of!(CtaContext, envreg) + 4 * usize::from(n),
        SpecialReg::TidX
        | SpecialReg::TidY
        | SpecialReg::TidZ
        | SpecialReg::LaneId
        | SpecialReg::WarpId
        | SpecialReg::NwarpId
        | SpecialReg::GridId
        | SpecialReg::IsExplicitCluster
        | SpecialReg::ClusterNctaRank
        | SpecialReg::LanemaskEq
        | SpecialReg::LanemaskLe
        | SpecialReg::LanemaskLt
        | SpecialReg::LanemaskGe
        | SpecialReg::LanemaskGt
        | SpecialReg::Clock
        | SpecialReg::ClockHi
        | SpecialReg::Clock64
        | SpecialReg::GlobalTimer
        | SpecialReg::GlobalTimerLo
        | SpecialReg::GlobalTimerHi
        | SpecialReg::Pm(_)
        | SpecialReg::CurrentGraphExec
        | SpecialReg::TotalSmemSize
        | SpecialReg::AggrSmemSize => return None,
    })
}
