//! Warp operations of gangs that are whole warps: computed at once where all lanes that an
//! operation waits for are there.
//!
//! ```text
//!   all 32 lanes run, and are the members --> in registers
//!   the members that have not ended run   --> by a call
//!   otherwise                             --> the lanes wait, and the runtime resumes them
//! ```
//!
//! Narrower gangs always wait: what other gangs of the warp did before the operation must have
//! happened after it.

use core::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_abi::LaneState;
use ptxjit_abi::object::Helper;
use ptxjit_abi::warp_ops::{WARP, WarpBuffer};
use ptxjit_ir::{Inst, InstData, Type, Value, WarpOp};
use ptxjit_vectorize::Variability;

use crate::lower::Lower;
use crate::ops::{Parts, Val, subword_type, vector_type};

impl Lower<'_, '_> {
    /// Emits an operation at which no lane ever waits: all lanes that have not ended are here.
    pub(in crate::lower) fn warp_at_once(&mut self, inst: Inst) {
        let results = self.func.insts[inst].results.clone();
        let vals = match self.unless_full() {
            None => self.whole_warp_op(inst),
            Some(full) => {
                let types: Vec<cl::Type> = results.iter().flat_map(|&x| self.types_of(x)).collect();
                let flat = self.either(
                    full,
                    types,
                    |lower| {
                        let vals = lower.whole_warp_op(inst);
                        lower.flat(&results, &vals)
                    },
                    |lower| {
                        let group = lower.mask_as_bits();
                        let vals = lower.warp_by_call(inst, group);
                        lower.flat(&results, &vals)
                    },
                );
                self.unflat(&results, &flat)
            }
        };
        for (&result, val) in results.iter().zip(&vals) {
            let val = self.held_as(result, val);
            self.def(result, val);
        }
    }

    /// The operation for all 32 lanes.
    fn whole_warp_op(&mut self, inst: Inst) -> Vec<Val> {
        self.warp_in_registers(inst).unwrap_or_else(|| {
            let group = self.b.ins().iconst(types::I32, 0xffff_ffff);
            self.warp_by_call(inst, group)
        })
    }

    /// The types of a result's scalar or vectors.
    fn types_of(&self, result: Value) -> Vec<cl::Type> {
        let ty = self.func.ty(result);
        match self.plan.variability[result] {
            Variability::Varying => vec![vector_type(ty); self.b.n_parts(ty)],
            Variability::Uniform | Variability::Affine { .. } => vec![self.scalar_type(result)],
        }
    }

    /// The scalars or vectors of results, one after the other.
    fn flat(&mut self, results: &[Value], vals: &[Val]) -> Vec<cl::Value> {
        let mut flat = Vec::new();
        for (&result, val) in results.iter().zip(vals) {
            match self.held_as(result, val) {
                Val::Uniform(x) | Val::Affine(x, _) => flat.push(x),
                Val::Varying(parts) => flat.extend(parts),
            }
        }
        flat
    }

    fn unflat(&self, results: &[Value], flat: &[cl::Value]) -> Vec<Val> {
        let mut rest = flat;
        let mut take = |result: &Value| {
            let (own, behind) = rest.split_at(self.types_of(*result).len());
            rest = behind;
            match self.plan.variability[*result] {
                Variability::Varying => Val::Varying(Parts::from_slice(own)),
                Variability::Uniform | Variability::Affine { .. } => Val::Uniform(own[0]),
            }
        };
        results.iter().map(&mut take).collect()
    }

    /// Emits an operation for the lanes that are here, if it need not wait for others, and goes on
    /// to the node's body. The code behind is for when it must wait.
    pub(super) fn emit_fast_path(&mut self, pos: usize, inst: Inst) {
        let InstData::Warp { sync, ref args, .. } = self.func.insts[inst].data else {
            unreachable!("only warp operations have a fast path");
        };
        let members = args.last().copied().filter(|_| sync);
        let [whole, divergent] = self.b.create_blocks();
        let all_here = self.whole_warp(members);
        self.b.ins().brif(all_here, whole, &[], divergent, &[]);
        self.b.switch_to_block(whole);
        self.scoped(|lower| {
            let vals = lower.whole_warp_op(inst);
            lower.define_results(inst, &vals);
            lower.enter_body(pos);
        });
        self.b.set_cold_block(divergent);
        self.b.switch_to_block(divergent);
        let [complete, waits] = self.b.create_blocks();
        self.test_members(members, complete, waits);
        self.b.switch_to_block(complete);
        self.b.set_cold_block(complete);
        self.scoped(|lower| {
            let group = lower.mask_as_bits();
            let vals = lower.warp_by_call(inst, group);
            lower.define_results(inst, &vals);
            lower.enter_body(pos);
        });
        self.b.set_cold_block(waits);
        self.b.switch_to_block(waits);
    }

    /// Whether all lanes run here and name each other as members.
    fn whole_warp(&mut self, members: Option<Value>) -> cl::Value {
        let full = match self.unless_full() {
            Some(full) => full,
            None => self.b.ins().iconst(types::I8, 1),
        };
        let Some(members) = members else { return full };
        if self.func.as_const(members) == Some(0xffff_ffff) {
            return full;
        }
        let named = if self.plan.variability[members] == Variability::Uniform {
            let members = self.scalar(members);
            self.b.ins().icmp_imm_s(IntCC::Equal, members, -1)
        } else {
            let all = self.b.vconst(Type::B32, 0xffff_ffff);
            let parts = self.parts(members);
            let named: Parts = self
                .b
                .each(&parts, |b, part| b.ins().icmp(IntCC::Equal, part, all));
            let named = self.b.fold_and(&named);
            self.b.ins().vall_true(named)
        };
        self.b.ins().band(full, named)
    }

    /// Goes to `complete` if the lanes that run here are the members that have not ended, else to
    /// `waits`.
    fn test_members(&mut self, members: Option<Value>, complete: cl::Block, waits: cl::Block) {
        let here = self.mask_as_bits();
        let uniform = match members {
            None => self.b.ins().iconst(types::I32, 0xffff_ffff),
            Some(members) if self.plan.variability[members] == Variability::Uniform => {
                self.scalar(members)
            }
            Some(members) => {
                let want = self.b.splat(Type::B32, here);
                let mask = self.mask_vectors();
                let parts = self.parts(members);
                let differ: Parts = parts
                    .iter()
                    .zip(&mask)
                    .map(|(&part, &mask)| {
                        let differs = self.b.ins().icmp(IntCC::NotEqual, part, want);
                        self.b.ins().band(differs, mask)
                    })
                    .collect();
                let differ = self.b.any(&differ);
                self.b.ins().brif(differ, waits, &[], complete, &[]);
                return;
            }
        };
        let divergent = self.b.ins().bxor(uniform, here);
        let some = self.b.create_block();
        self.b.set_cold_block(some);
        self.b.ins().brif(divergent, some, &[], complete, &[]);
        self.b.switch_to_block(some);
        let ended = self.ended_lanes();
        let missing = self.b.ins().band_not(divergent, ended);
        self.b.ins().brif(missing, waits, &[], complete, &[]);
    }

    /// The lanes of the gang that have ended, or are beyond the CTA's last thread, as bits.
    fn ended_lanes(&mut self) -> cl::Value {
        let at = self.states_address();
        let state = i64::from(LaneState::EXITED as i16);
        let state = self.b.ins().iconst(types::I16, state);
        let exited = self.b.ins().splat(subword_type(Type::B16), state);
        let quarters: Vec<cl::Value> = (0..4)
            .map(|i| {
                let states = self.b.load_own(subword_type(Type::B16), at, 16 * i);
                self.b.ins().icmp(IntCC::Equal, states, exited)
            })
            .collect();
        let halves = [0, 2].map(|i| {
            let bytes = self.b.ins().snarrow(quarters[i], quarters[i + 1]);
            self.b.ins().vhigh_bits(types::I32, bytes)
        });
        let high = self.b.ins().ishl_imm_s(halves[1], 16);
        self.b.ins().bor(halves[0], high)
    }

    /// The operation for all 32 lanes, where it has an inline form.
    fn warp_in_registers(&mut self, inst: Inst) -> Option<Vec<Val>> {
        let InstData::Warp { op, ref args, .. } = self.func.insts[inst].data else {
            return None;
        };
        Some(match op {
            WarpOp::ShflUp | WarpOp::ShflDown | WarpOp::ShflBfly | WarpOp::ShflIdx => {
                self.shuffle_lanes(op, [args[0], args[1], args[2]]).to_vec()
            }
            WarpOp::VoteAll | WarpOp::VoteAny | WarpOp::VoteUni => {
                vec![Val::Uniform(self.vote(op, args[0]))]
            }
            WarpOp::Ballot => {
                vec![Val::Uniform(self.pred_bits(args[0]))]
            }
            WarpOp::ReduxAdd
            | WarpOp::ReduxUmin
            | WarpOp::ReduxUmax
            | WarpOp::ReduxSmin
            | WarpOp::ReduxSmax
            | WarpOp::ReduxAnd
            | WarpOp::ReduxOr
            | WarpOp::ReduxXor => vec![Val::Uniform(self.reduce_lanes(op, args[0]))],
            WarpOp::Elect => {
                let leader = self.b.ins().iconst(types::I32, 0);
                let first =
                    self.lane_constants(Type::B1, |lane| u32::from(lane == 0).wrapping_neg());
                vec![Val::Uniform(leader), Val::Varying(first)]
            }
            WarpOp::Sync | WarpOp::AlignedSync => Vec::new(),
            WarpOp::ActiveMask => {
                vec![Val::Uniform(self.b.ins().iconst(types::I32, 0xffff_ffff))]
            }
            WarpOp::Transpose => vec![Val::Varying(self.transpose_tile(args[0]))],
            WarpOp::MatchAny
            | WarpOp::MatchAll
            | WarpOp::ReduxFmin
            | WarpOp::ReduxFmax
            | WarpOp::ReduxFminNan
            | WarpOp::ReduxFmaxNan
            | WarpOp::Mma(_) => return None,
        })
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "callers pass votes")]
    fn vote(&mut self, op: WarpOp, pred: Value) -> cl::Value {
        let parts = self.parts(pred);
        match op {
            WarpOp::VoteAll => {
                let all = self.b.fold_and(&parts);
                self.b.ins().vall_true(all)
            }
            WarpOp::VoteAny => self.b.any(&parts),
            _ => {
                let all = self.b.fold_and(&parts);
                let all = self.b.ins().vall_true(all);
                let any = self.b.any(&parts);
                // All, or not any.
                self.b.ins().icmp(IntCC::Equal, all, any)
            }
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "callers pass no floats")]
    fn reduce_lanes(&mut self, op: WarpOp, arg: Value) -> cl::Value {
        let step = |lower: &mut Self, x, y| match op {
            WarpOp::ReduxUmin => lower.b.ins().umin(x, y),
            WarpOp::ReduxUmax => lower.b.ins().umax(x, y),
            WarpOp::ReduxSmin => lower.b.ins().smin(x, y),
            WarpOp::ReduxSmax => lower.b.ins().smax(x, y),
            WarpOp::ReduxAnd => lower.b.ins().band(x, y),
            WarpOp::ReduxOr => lower.b.ins().bor(x, y),
            WarpOp::ReduxXor => lower.b.ins().bxor(x, y),
            _ => lower.b.ins().iadd(x, y),
        };
        let mut parts = self.parts(arg);
        while parts.len() > 1 {
            let half = parts.len() / 2;
            parts = (0..half)
                .map(|i| step(self, parts[i], parts[i + half]))
                .collect();
        }
        let mut sum = parts[0];
        for lanes in [[2, 3, 0, 1], [1, 0, 3, 2]] {
            let other = self.b.shuffle32(sum, sum, lanes);
            sum = step(self, sum, other);
        }
        self.b.ins().extractlane(sum, 0)
    }

    /// The operation for the lanes of `group`, by a runtime function.
    fn warp_by_call(&mut self, inst: Inst, group: cl::Value) -> Vec<Val> {
        let data = self.func.insts[inst].data.clone();
        let InstData::Warp { op, ref args, .. } = data else {
            unreachable!("only warp operations come here");
        };
        if let WarpOp::Mma(_) = op {
            return self.mma_by_call(inst, group);
        }
        let slot = self.warp_buffer();
        let buffer = self.b.ins().stack_addr(types::I64, slot, 0);
        for (idx, &arg) in args[..op.n_args()].iter().enumerate() {
            for (i, part) in self.parts(arg).into_iter().enumerate() {
                let at = 8 * WARP * idx + 16 * i;
                self.b.store_own(part, buffer, at as i32);
            }
        }
        let data = self.b.kept_inst(&data);
        let group = self.b.ins().uextend(types::I64, group);
        self.b
            .call_helper(Helper::Warp, &[data, group, buffer], None);
        let results = self.func.insts[inst].results.clone();
        results
            .iter()
            .enumerate()
            .map(|(idx, &result)| {
                let at = offset_of!(WarpBuffer, results) + 8 * WARP * idx;
                if self.plan.variability[result] == Variability::Varying {
                    let parts = (0..self.b.quads()).map(|q| {
                        let at = (at + 16 * q) as i32;
                        self.b.load_own(vector_type(Type::B32), buffer, at)
                    });
                    return Val::Varying(parts.collect());
                }
                // All lanes have the same.
                let word = self.b.load_own(types::I32, buffer, at as i32);
                Val::Uniform(if self.func.ty(result) == Type::B1 {
                    let bit = self.b.ins().band_imm_s(word, 1);
                    self.b.ins().ireduce(types::I8, bit)
                } else {
                    word
                })
            })
            .collect()
    }

    /// Assigns the results of a wait's instruction on its fast path.
    fn define_results(&mut self, inst: Inst, vals: &[Val]) {
        let results = self.func.insts[inst].results.clone();
        for (&result, val) in results.iter().zip(vals) {
            let val = self.held_as(result, val);
            self.define_variables(result, &val);
        }
    }

    /// A result in the form that the plan gives it.
    fn held_as(&mut self, result: Value, val: &Val) -> Val {
        match val {
            Val::Uniform(x) if self.plan.variability[result] == Variability::Varying => {
                Val::Varying(self.b.splat_parts(self.func.ty(result), *x))
            }
            Val::Uniform(x) => Val::Uniform(self.b.cast_scalar(*x, self.scalar_type(result))),
            other @ (Val::Affine(..) | Val::Varying(_)) => other.clone(),
        }
    }

    /// `activemask`: the lanes that run here together, at their places in the warp.
    pub(in crate::lower) fn active_mask(&mut self, result: Value) {
        let bits = self.mask_as_bits();
        let thread = self.gang_thread();
        let first = self.b.ins().band_imm_s(thread, 31);
        let bits = self.b.ins().ishl(bits, first);
        self.def(result, Val::Uniform(bits));
    }
}
