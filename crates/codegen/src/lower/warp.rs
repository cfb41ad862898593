//! Warp operations of gangs that are whole warps: computed at once where all lanes that an operation waits for are there.
//!
//! ```text
//!   all 32 lanes run, and are the members --> in registers
//!   the members that have not ended run   --> by a call
//!   otherwise                             --> the lanes wait; the runtime lets them meet the others
//! ```
//!
//! Narrower gangs always wait: what other gangs of the warp did before the operation must have happened after it.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, MemFlagsData, types};
use ptxjit_ir::{Inst, InstData, Type, Value, WarpOp};
use ptxjit_passes::vectorize::Shape;

use super::Lower;
use super::values::{Parts, Val, vector_type};
use crate::abi::{CtaContext, LaneState};
use crate::helpers::Helper;
use crate::warp_ops::{WARP, WarpBuffer, shuffle_source};

/// One word per lane, as the bytes of vectors.
fn lane_words(of: impl Fn(u32) -> u32) -> Vec<Vec<u8>> {
    let words: Vec<u32> = (0..WARP as u32).map(of).collect();
    words
        .chunks(4)
        .map(|quad| quad.iter().flat_map(|word| word.to_le_bytes()).collect())
        .collect()
}

impl Lower<'_, '_> {
    /// Does an operation for which nobody ever waits: all lanes that have not ended are here.
    pub(super) fn warp_at_once(&mut self, inst: Inst) {
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
            let val = self.as_shaped(result, val);
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
        match self.plan.shapes[result] {
            Shape::Varying => vec![vector_type(ty); self.n_parts(ty)],
            Shape::Uniform | Shape::Affine { .. } => vec![self.scalar_type(result)],
        }
    }

    /// The scalars or vectors of results, one after the other.
    fn flat(&mut self, results: &[Value], vals: &[Val]) -> Vec<cl::Value> {
        let mut flat = Vec::new();
        for (&result, val) in results.iter().zip(vals) {
            match self.as_shaped(result, val) {
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
            match self.plan.shapes[*result] {
                Shape::Varying => Val::Varying(Parts::from_slice(own)),
                Shape::Uniform | Shape::Affine { .. } => Val::Uniform(own[0]),
            }
        };
        results.iter().map(&mut take).collect()
    }

    /// Does an operation for the lanes that are here, if it need not wait for others, and goes on to the node's body. What is
    /// emitted next is for when it must.
    pub(super) fn emit_fast_path(&mut self, pos: usize, inst: Inst) {
        let InstData::Warp { sync, ref args, .. } = self.func.insts[inst].data else {
            unreachable!("only warp operations have a fast path");
        };
        let members = args.last().copied().filter(|_| sync);
        let (whole, apart) = (self.b.create_block(), self.b.create_block());
        let all_here = self.whole_warp(members);
        self.b.ins().brif(all_here, whole, &[], apart, &[]);
        self.b.switch_to_block(whole);
        self.aside(|lower| {
            let vals = lower.whole_warp_op(inst);
            lower.define_results(inst, &vals);
            lower.enter_body(pos);
        });
        self.b.set_cold_block(apart);
        self.b.switch_to_block(apart);
        let (complete, waits) = (self.b.create_block(), self.b.create_block());
        self.test_members(members, complete, waits);
        self.b.switch_to_block(complete);
        self.b.set_cold_block(complete);
        self.aside(|lower| {
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
        let named = if self.plan.shapes[members] == Shape::Uniform {
            let members = self.scalar(members);
            self.b.ins().icmp_imm_s(IntCC::Equal, members, -1)
        } else {
            let all = self.vconst(Type::B32, 0xffff_ffff);
            let parts = self.parts(members);
            let named: Parts = parts
                .iter()
                .map(|&part| self.b.ins().icmp(IntCC::Equal, part, all))
                .collect();
            let named = self.fold_and(&named);
            self.b.ins().vall_true(named)
        };
        self.b.ins().band(full, named)
    }

    /// Goes to `complete` if the lanes that run here are the members that have not ended, else to `waits`.
    fn test_members(&mut self, members: Option<Value>, complete: cl::Block, waits: cl::Block) {
        let here = self.mask_as_bits();
        let uniform = match members {
            None => self.b.ins().iconst(types::I32, 0xffff_ffff),
            Some(members) if self.plan.shapes[members] == Shape::Uniform => self.scalar(members),
            Some(members) => {
                let want = self.b.ins().splat(types::I32X4, here);
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
                let differ = self.any(&differ);
                self.b.ins().brif(differ, waits, &[], complete, &[]);
                return;
            }
        };
        let apart = self.b.ins().bxor(uniform, here);
        let some = self.b.create_block();
        self.b.set_cold_block(some);
        self.b.ins().brif(apart, some, &[], complete, &[]);
        self.b.switch_to_block(some);
        let ended = self.ended_lanes();
        let missing = self.b.ins().band_not(apart, ended);
        self.b.ins().brif(missing, waits, &[], complete, &[]);
    }

    /// The lanes of the gang that have ended, or are beyond the CTA's last thread, as bits.
    fn ended_lanes(&mut self) -> cl::Value {
        let states = self.field(core::mem::offset_of!(CtaContext, lane_states));
        let thread = self.gang_thread();
        let thread = self.b.ins().uextend(types::I64, thread);
        let at = self.b.ins().ishl_imm_s(thread, 1);
        let at = self.b.ins().iadd(states, at);
        let state = self
            .b
            .ins()
            .iconst(types::I16, i64::from(LaneState::EXITED as i16));
        let exited = self.b.ins().splat(types::I16X8, state);
        let quarters: Vec<cl::Value> = (0..4)
            .map(|i| {
                let states = self
                    .b
                    .ins()
                    .load(types::I16X8, MemFlagsData::trusted(), at, 16 * i);
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
            WarpOp::Sync => Vec::new(),
            WarpOp::ActiveMask => {
                vec![Val::Uniform(self.b.ins().iconst(types::I32, 0xffff_ffff))]
            }
            WarpOp::MatchAny
            | WarpOp::MatchAll
            | WarpOp::ReduxFmin
            | WarpOp::ReduxFmax
            | WarpOp::ReduxFminNan
            | WarpOp::ReduxFmaxNan => return None,
        })
    }

    fn vote(&mut self, op: WarpOp, pred: Value) -> cl::Value {
        let parts = self.parts(pred);
        match op {
            WarpOp::VoteAll => {
                let all = self.fold_and(&parts);
                self.b.ins().vall_true(all)
            }
            WarpOp::VoteAny => self.any(&parts),
            _ => {
                let all = self.fold_and(&parts);
                let all = self.b.ins().vall_true(all);
                let any = self.any(&parts);
                // All, or not any.
                self.b.ins().icmp(IntCC::Equal, all, any)
            }
        }
    }

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
            let other = self.shuffle32(sum, sum, lanes);
            sum = step(self, sum, other);
        }
        self.b.ins().extractlane(sum, 0)
    }

    fn lane_constants(&mut self, ty: Type, of: impl Fn(u32) -> u32) -> Parts {
        lane_words(of)
            .into_iter()
            .map(|bytes| self.vconst_bytes(vector_type(ty), &bytes))
            .collect()
    }

    /// `shfl`: the value and whether the source lane is in range.
    fn shuffle_lanes(&mut self, op: WarpOp, [a, b, c]: [Value; 3]) -> [Val; 2] {
        let value = self.parts(a);
        let (fixed_b, fixed_c) = (self.func.as_const(b), self.func.as_const(c));
        let shared_b = self.plan.shapes[b] == Shape::Uniform;
        let [value, in_range] = match (fixed_b, fixed_c) {
            (Some(b), Some(c)) => self.shuffle_fixed(op, &value, b as u32, c as u32),
            (None, Some(c)) if shared_b && (op != WarpOp::ShflIdx || c & 0x1f1f == 0x1f) => {
                let b = self.scalar(b);
                let b = self.b.ins().band_imm_s(b, 31);
                self.shuffle_shared(op, &value, b, c as u32)
            }
            _ => {
                let (b, c) = (self.parts(b), self.parts(c));
                self.shuffle_each(op, &value, &b, &c)
            }
        };
        [Val::Varying(value), Val::Varying(in_range)]
    }

    /// Each lane's source is known: vectors are renamed, or shuffled.
    fn shuffle_fixed(&mut self, op: WarpOp, value: &[cl::Value], b: u32, c: u32) -> [Parts; 2] {
        let source = |lane| shuffle_source(op, lane, b, c);
        let shuffled = (0..self.quads)
            .map(|q| {
                let lanes = [0, 1, 2, 3].map(|i| source(4 * q as u32 + i).0);
                self.pick_lanes(value, lanes)
            })
            .collect();
        let in_range =
            self.lane_constants(Type::B1, |lane| u32::from(source(lane).1).wrapping_neg());
        [shuffled, in_range]
    }

    /// A vector of four lanes from anywhere.
    fn pick_lanes(&mut self, value: &[cl::Value], lanes: [u32; 4]) -> cl::Value {
        let quad = |lane: u32| (lane / 4) as usize;
        let first = quad(lanes[0]);
        let Some(other) = lanes.iter().map(|&lane| quad(lane)).find(|&q| q != first) else {
            if lanes.map(|lane| lane % 4) == [0, 1, 2, 3] {
                return value[first];
            }
            return self.shuffle32(value[first], value[first], lanes.map(|lane| lane as u8 % 4));
        };
        let mut picked = self.shuffle32(
            value[first],
            value[other],
            lanes.map(|lane| lane as u8 % 4 + if quad(lane) == other { 4 } else { 0 }),
        );
        let mut done = vec![first, other];
        for lane in lanes {
            let q = quad(lane);
            if done.contains(&q) {
                continue;
            }
            done.push(q);
            let words = std::array::from_fn(|i| {
                if quad(lanes[i]) == q {
                    4 + lanes[i] as u8 % 4
                } else {
                    i as u8
                }
            });
            picked = self.shuffle32(picked, value[q], words);
        }
        picked
    }

    /// All lanes shuffle by the same amount `b`, below 32: the lanes are read anew from memory.
    fn shuffle_shared(
        &mut self,
        op: WarpOp,
        value: &[cl::Value],
        b: cl::Value,
        c: u32,
    ) -> [Parts; 2] {
        let flags = MemFlagsData::trusted();
        let slot = self.warp_buffer();
        // Lanes below the first and above the last are out of range, but read.
        let middle = 8 * WARP as i32;
        let base = self.b.ins().stack_addr(types::I64, slot, middle);
        for (q, &part) in value.iter().enumerate() {
            self.b.ins().store(flags, part, base, 16 * q as i32);
        }
        let wide = self.b.ins().uextend(types::I64, b);
        let bytes = self.b.ins().ishl_imm_s(wide, 2);
        let max_lane = |lane: u32| (lane & (c >> 8)) & 31 | (c & !(c >> 8)) & 31;
        if op == WarpOp::ShflIdx {
            let at = self.b.ins().iadd(base, bytes);
            let word = self.b.ins().load(types::I32, flags, at, 0);
            let splat = self.b.ins().splat(types::I32X4, word);
            let yes = self.vconst(Type::B1, 1);
            return [
                Parts::from_elem(splat, self.quads),
                Parts::from_elem(yes, self.quads),
            ];
        }
        let amount = self.b.ins().splat(types::I32X4, b);
        let lane = self.lane_constants(Type::B32, |lane| lane);
        let max = self.lane_constants(Type::B32, max_lane);
        let (mut shuffled, mut in_range) = (Parts::new(), Parts::new());
        let within_quad = (op == WarpOp::ShflBfly).then(|| self.butterfly_words(b));
        for q in 0..self.quads {
            let (there, source) = match op {
                WarpOp::ShflUp => {
                    let at = self.b.ins().isub(base, bytes);
                    let there = self
                        .b
                        .ins()
                        .load(types::I32X4, unaligned(), at, 16 * q as i32);
                    (there, self.b.ins().isub(lane[q], amount))
                }
                WarpOp::ShflDown => {
                    let at = self.b.ins().iadd(base, bytes);
                    let there = self
                        .b
                        .ins()
                        .load(types::I32X4, unaligned(), at, 16 * q as i32);
                    (there, self.b.ins().iadd(lane[q], amount))
                }
                _ => {
                    let quads = self.b.ins().band_imm_s(bytes, 0x70);
                    let from = self.b.ins().bxor_imm_s(quads, 16 * q as i64);
                    let at = self.b.ins().iadd(base, from);
                    let there = self.b.ins().load(types::I8X16, flags, at, 0);
                    let words = within_quad.expect("made above");
                    let there = self.b.ins().swizzle(there, words);
                    let there = self.cast_vector(there, types::I32X4);
                    (there, self.b.ins().bxor(lane[q], amount))
                }
            };
            let order = if op == WarpOp::ShflUp {
                IntCC::SignedGreaterThanOrEqual
            } else {
                IntCC::SignedLessThanOrEqual
            };
            let ok = self.b.ins().icmp(order, source, max[q]);
            shuffled.push(self.b.ins().blendv(ok, there, value[q]));
            in_range.push(ok);
        }
        [shuffled, in_range]
    }

    /// The byte shuffle that exchanges words within a vector as `shfl.bfly` by `b` does.
    fn butterfly_words(&mut self, b: cl::Value) -> cl::Value {
        let bytes: Vec<u8> = (0..16).collect();
        let own = self.vconst_bytes(types::I8X16, &bytes);
        let low = self.b.ins().band_imm_s(b, 3);
        let low = self.b.ins().ishl_imm_s(low, 2);
        let low = self.b.ins().ireduce(types::I8, low);
        let low = self.b.ins().splat(types::I8X16, low);
        self.b.ins().bxor(own, low)
    }

    /// Each lane has its own amount.
    fn shuffle_each(
        &mut self,
        op: WarpOp,
        value: &[cl::Value],
        b: &[cl::Value],
        c: &[cl::Value],
    ) -> [Parts; 2] {
        let lane = self.lane_constants(Type::B32, |lane| lane);
        let low = self.vconst(Type::B32, 31);
        let (mut sources, mut in_range) = (Parts::new(), Parts::new());
        for q in 0..self.quads {
            let amount = self.b.ins().band(b[q], low);
            let clamp = self.b.ins().band(c[q], low);
            let segment = self.b.ins().ushr_imm_s(c[q], 8);
            let segment = self.b.ins().band(segment, low);
            let own = self.b.ins().band(lane[q], segment);
            let clamp = self.b.ins().band_not(clamp, segment);
            let max = self.b.ins().bor(own, clamp);
            let (source, order) = match op {
                WarpOp::ShflUp => (
                    self.b.ins().isub(lane[q], amount),
                    IntCC::SignedGreaterThanOrEqual,
                ),
                WarpOp::ShflDown => (
                    self.b.ins().iadd(lane[q], amount),
                    IntCC::SignedLessThanOrEqual,
                ),
                WarpOp::ShflBfly => (
                    self.b.ins().bxor(lane[q], amount),
                    IntCC::SignedLessThanOrEqual,
                ),
                _ => {
                    let amount = self.b.ins().band_not(amount, segment);
                    (self.b.ins().bor(own, amount), IntCC::SignedLessThanOrEqual)
                }
            };
            let ok = self.b.ins().icmp(order, source, max);
            let source = self.b.ins().blendv(ok, source, lane[q]);
            sources.push(self.b.ins().band(source, low));
            in_range.push(ok);
        }
        let flags = MemFlagsData::trusted();
        let slot = self.warp_buffer();
        let base = self.b.ins().stack_addr(types::I64, slot, 0);
        for (q, &part) in value.iter().enumerate() {
            self.b.ins().store(flags, part, base, 16 * q as i32);
        }
        let lanes: Vec<cl::Value> = (0..WARP)
            .map(|lane| {
                let source = self.b.ins().extractlane(sources[lane / 4], lane as u8 % 4);
                let source = self.b.ins().uextend(types::I64, source);
                let at = self.b.ins().ishl_imm_s(source, 2);
                let at = self.b.ins().iadd(base, at);
                self.b.ins().load(types::I32, flags, at, 0)
            })
            .collect();
        [self.collect(Type::B32, &lanes), in_range]
    }

    /// The operation for the lanes of `group`, by a function of ours.
    fn warp_by_call(&mut self, inst: Inst, group: cl::Value) -> Vec<Val> {
        let data = self.func.insts[inst].data.clone();
        let InstData::Warp { op, ref args, .. } = data else {
            unreachable!("only warp operations come here");
        };
        let flags = MemFlagsData::trusted();
        let slot = self.warp_buffer();
        let buffer = self.b.ins().stack_addr(types::I64, slot, 0);
        for (idx, &arg) in args[..op.n_args()].iter().enumerate() {
            for (i, part) in self.parts(arg).into_iter().enumerate() {
                let at = 8 * WARP * idx + 16 * i;
                self.b.ins().store(flags, part, buffer, at as i32);
            }
        }
        let data = self.kept_inst(&data);
        let group = self.b.ins().uextend(types::I64, group);
        self.call_helper(Helper::Warp, &[data, group, buffer], None);
        let results = self.func.insts[inst].results.clone();
        results
            .iter()
            .enumerate()
            .map(|(idx, &result)| {
                let at = core::mem::offset_of!(WarpBuffer, results) + 8 * WARP * idx;
                if self.plan.shapes[result] == Shape::Varying {
                    let parts = (0..self.quads).map(|q| {
                        let at = (at + 16 * q) as i32;
                        self.b.ins().load(types::I32X4, flags, buffer, at)
                    });
                    return Val::Varying(parts.collect());
                }
                // All lanes have the same.
                let word = self.b.ins().load(types::I32, flags, buffer, at as i32);
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
            let val = self.as_shaped(result, val);
            self.define_variables(result, &val);
        }
    }

    /// A result in the form in which the plan wants it.
    fn as_shaped(&mut self, result: Value, val: &Val) -> Val {
        match val {
            Val::Uniform(x) if self.plan.shapes[result] == Shape::Varying => {
                let ty = self.func.ty(result);
                let splat = self.splat(ty, *x);
                Val::Varying(Parts::from_elem(splat, self.n_parts(ty)))
            }
            Val::Uniform(x) => Val::Uniform(self.cast_scalar(*x, self.scalar_type(result))),
            other => other.clone(),
        }
    }

    /// A stack slot for the operands and results of one operation.
    fn warp_buffer(&mut self) -> cl::StackSlot {
        *self.warp_slot.get_or_insert_with(|| {
            let size = size_of::<WarpBuffer>() as u32;
            let data = cl::StackSlotData::new(cl::StackSlotKind::ExplicitSlot, size, 4);
            self.b.create_sized_stack_slot(data)
        })
    }

    /// `activemask`: the lanes that run here together, at their places in the warp.
    pub(super) fn active_mask(&mut self, result: Value) {
        let bits = self.mask_as_bits();
        let thread = self.gang_thread();
        let first = self.b.ins().band_imm_s(thread, 31);
        let bits = self.b.ins().ishl(bits, first);
        self.def(result, Val::Uniform(bits));
    }
}

/// For loads from our own memory that straddle vectors.
fn unaligned() -> MemFlagsData {
    MemFlagsData::new().with_notrap()
}
