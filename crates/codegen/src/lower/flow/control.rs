//! Control flow between nodes, and the masks that lanes take along.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, BlockArg, InstBuilder};
use ptxjit_abi::{FaultKind, LaneState};
use ptxjit_ir::{Block, BlockCall, Terminator, TrapKind, Type, Value};
use ptxjit_vectorize::{SingleLane, Variability};

use crate::decisions::mask_classes::MaskClass;
use crate::lower::Lower;
use crate::lower::state::end_lanes::EndLanes;
use crate::ops::{Lanes, Parts, Val};

/// An edge taken by the lanes of a mask; without one, by all lanes of the node.
#[derive(Clone)]
pub(super) struct Edge<'c> {
    pub(super) target: usize,
    pub(super) call: Option<&'c BlockCall>,
    pub(super) mask: Option<Lanes>,
}

impl Lower<'_, '_> {
    /// The start of a node: it is skipped if no lane has arrived. Nodes that share a mask always
    /// have lanes. Of one that continues the node before, cached values stay valid.
    pub(in crate::lower) fn arrive(&mut self, pos: usize) {
        if !self.decided.falls_through(pos) {
            let start = self.node_entry(pos);
            self.b.switch_to_block(start);
        }
        if self.decided.continues(pos) {
            self.available.looked_up.clear();
            return;
        }
        self.start_region(self.decided.classes.arrive[pos]);
        if self.plan.maybe_empty[pos] && self.decided.classes.arrive[pos] == MaskClass::Own(pos) {
            let any = self.any_lane(self.decided.classes.arrive[pos]);
            let [some, none] = self.b.branch(any);
            self.b.switch_to_block(none);
            let pending = self.plan.pending_in[pos].clone();
            self.scoped(|lower| lower.go(&[], &pending));
            self.b.switch_to_block(some);
        }
    }

    /// Enters a node's body, whose mask is that of the arriving lanes.
    pub(super) fn enter_body(&mut self, pos: usize) {
        if self.decided.classes.body[pos] == MaskClass::Own(pos)
            && self.decided.classes.arrive[pos] != MaskClass::Own(pos)
        {
            let lanes = self.class_lanes(self.decided.classes.arrive[pos]);
            self.set_mask(pos, &lanes);
        }
        self.begin_lane_loop(pos);
        if !self.decided.falls_through(pos) {
            let body = self.node_body(pos);
            self.b.ins().jump(body, &[]);
        }
    }

    pub(in crate::lower) fn emit_terminator(&mut self, pos: usize, block: Block) {
        let func = self.func;
        let pending = self.plan.pending[pos].clone();
        let edge = |call| Edge {
            target: self.plan.order.target(pos, call_block(call)),
            call: Some(call),
            mask: None,
        };
        match &func.blocks[block].term {
            Terminator::Jump(call) => {
                let edge = edge(call);
                self.go_edges(&[edge], &pending);
            }
            Terminator::Brif { cond, then_, else_ } => {
                let edges = [edge(then_), edge(else_)];
                if self.plan.divergent[block] {
                    self.part(block, *cond, edges, &pending);
                } else {
                    let cond = self.scalar(*cond);
                    self.branch(cond, edges, &pending);
                }
            }
            Terminator::Switch {
                index,
                targets,
                default,
            } => {
                let edges: Vec<Edge<'_>> = targets.iter().chain([default]).map(edge).collect();
                if self.plan.divergent[block] {
                    self.part_switch(*index, edges, &pending);
                } else {
                    let index = self.scalar(*index);
                    self.branch_switch(index, edges, &pending);
                }
            }
            Terminator::Ret(_) | Terminator::Exit => {
                self.store_states(u32::from(LaneState::EXITED));
                self.go(&[], &pending);
            }
            Terminator::Trap(kind) => {
                let kind = match kind {
                    TrapKind::Trap => FaultKind::Trap,
                    TrapKind::Unreachable => FaultKind::Unreachable,
                };
                let bits = self.mask_as_bits();
                self.fault(kind, bits, None);
            }
            Terminator::Dispatch(state) => {
                self.store_dispatch(*state);
                self.go(&[], &pending);
            }
        }
    }

    /// Takes the expected edge of a branch if all threads of the CTA do, as is found once per CTA.
    /// Returns whether that is so for this branch; code for other CTAs follows.
    pub(in crate::lower) fn take_decided(&mut self, pos: usize, block: Block) -> bool {
        let mut numbered = self.decided.cta_branches.branches.iter().enumerate();
        let found = numbered.find(|(_, other)| other.block == block);
        let Some((number, expected)) = found.map(|(number, branch)| (number, branch.expected))
        else {
            return false;
        };
        let func = self.func;
        let pending = self.plan.pending[pos].clone();
        let calls = func.blocks[block].term.targets();
        let call = calls[usize::from(!expected)];
        let edge = Edge {
            target: self.plan.order.target(pos, call_block(call)),
            call: Some(call),
            mask: None,
        };
        let decided = self.all_take(number);
        let [all_take, rest] = self.b.branch(decided);
        self.b.switch_to_block(all_take);
        self.scoped(|lower| lower.go_edges(&[edge], &pending));
        self.b.switch_to_block(rest);
        true
    }

    /// A divergent two-way branch.
    fn part(
        &mut self,
        block: Block,
        cond: Value,
        [mut then_, mut else_]: [Edge<'_>; 2],
        pending: &[usize],
    ) {
        let counted = self.decided.counted[then_.target] && self.decided.counted[else_.target];
        if self.decided.in_bits[cond] {
            let ends = self.end_lanes(block, cond);
            self.unless_together(cond, ends, counted, [&then_, &else_], pending);
        }
        if counted {
            let hits = self.pred_bits(cond);
            let all = self.mask_as_bits();
            let taken = self.b.ins().band(hits, all);
            then_.mask = Some(Lanes::Bits(taken));
            else_.mask = Some(Lanes::Bits(self.b.ins().bxor(all, taken)));
            return self.go_edges(&[then_, else_], pending);
        }
        let conds = self.mask_parts(cond);
        let mask = self.mask_vectors();
        let pairs = || mask.iter().zip(&conds);
        let left = pairs()
            .map(|(&m, &c)| self.b.ins().band_not(m, c))
            .collect();
        let taken = if self.mask.is_full {
            conds
        } else {
            pairs().map(|(&m, &c)| self.b.ins().band(m, c)).collect()
        };
        then_.mask = Some(Lanes::Parts(taken));
        else_.mask = Some(Lanes::Parts(left));
        self.go_edges(&[then_, else_], pending);
    }

    /// Takes one edge if all lanes do; else sends the lanes both ways.
    fn unless_together(
        &mut self,
        cond: Value,
        ends: Option<EndLanes>,
        counted: bool,
        [then_, else_]: [&Edge<'_>; 2],
        pending: &[usize],
    ) {
        let [all_take, rest, none_take, divergent] = self.b.create_blocks();
        let (whole, any) = match ends {
            Some(ends) => (ends.all, ends.any),
            None => {
                let hits = self.pred_bits(cond);
                let (taken, whole) = if counted {
                    let all = self.mask_as_bits();
                    let taken = self.b.ins().band(hits, all);
                    (taken, self.b.ins().icmp(IntCC::Equal, taken, all))
                } else {
                    let (taken, all) = (self.b.without_others(hits), self.b.full_bits());
                    (taken, self.b.ins().icmp_imm_s(IntCC::Equal, taken, all))
                };
                (Some(whole), Some(taken))
            }
        };
        match whole {
            Some(whole) => self.b.ins().brif(whole, all_take, &[], rest, &[]),
            None => self.b.ins().jump(rest, &[]),
        };
        if whole.is_some() {
            self.b.switch_to_block(all_take);
            self.scoped(|lower| lower.go_edges(std::slice::from_ref(then_), pending));
        }
        self.b.switch_to_block(rest);
        match any {
            Some(any) => {
                self.b.ins().brif(any, divergent, &[], none_take, &[]);
                self.b.switch_to_block(none_take);
                self.scoped(|lower| lower.go_edges(std::slice::from_ref(else_), pending));
            }
            None => {
                self.b.ins().jump(divergent, &[]);
            }
        }
        self.b.switch_to_block(divergent);
    }

    fn part_switch(&mut self, index: Value, mut edges: Vec<Edge<'_>>, pending: &[usize]) {
        let index = self.parts(index);
        let mut rest = self.mask_vectors();
        let default = edges.len() - 1;
        for (case, edge) in edges[..default].iter_mut().enumerate() {
            let want = self.b.vconst(Type::B32, case as u64);
            let mut taken = Parts::new();
            for (part, rest) in index.iter().zip(rest.iter_mut()) {
                let hit = self.b.ins().icmp(IntCC::Equal, *part, want);
                taken.push(self.b.ins().band(*rest, hit));
                *rest = self.b.ins().band_not(*rest, hit);
            }
            edge.mask = Some(Lanes::Parts(taken));
        }
        edges[default].mask = Some(Lanes::Parts(rest));
        self.go_edges(&edges, pending);
    }

    fn branch(&mut self, cond: cl::Value, [then_, else_]: [Edge<'_>; 2], pending: &[usize]) {
        let [yes, no] = self.b.create_blocks();
        let no_args: [BlockArg; 0] = [];
        self.b.ins().brif(cond, yes, &no_args, no, &no_args);
        self.b.switch_to_block(yes);
        self.scoped(|lower| lower.go_edges(&[then_], pending));
        self.b.switch_to_block(no);
        self.go_edges(&[else_], pending);
    }

    fn branch_switch(&mut self, index: cl::Value, edges: Vec<Edge<'_>>, pending: &[usize]) {
        let blocks: Vec<cl::Block> = edges.iter().map(|_| self.b.create_block()).collect();
        let mut switch = cranelift_frontend::Switch::new();
        for (case, &block) in blocks[..blocks.len() - 1].iter().enumerate() {
            switch.set_entry(case as u128, block);
        }
        switch.emit(&mut self.b, index, blocks[blocks.len() - 1]);
        for (edge, block) in edges.into_iter().zip(blocks) {
            self.b.switch_to_block(block);
            // Otherwise it would have parameters for what is read behind it, and finding the
            // branch's target for each takes as many steps as there are targets.
            self.b.seal_block(block);
            self.scoped(|lower| lower.go_edges(&[edge], pending));
        }
    }

    /// Goes on to the first pending node: the node's lanes have gone.
    pub(super) fn go(&mut self, edges: &[usize], pending: &[usize]) {
        debug_assert!(edges.is_empty());
        self.go_to(&[], pending, pending.first().copied());
    }

    fn go_edges(&mut self, edges: &[Edge<'_>], pending: &[usize]) {
        let next = edges
            .iter()
            .map(|edge| edge.target)
            .chain(pending.iter().copied())
            .min();
        self.go_to(edges, pending, next);
    }

    /// Passes lanes to the edges' targets and goes on at `next`.
    pub(super) fn go_to(&mut self, edges: &[Edge<'_>], pending: &[usize], next: Option<usize>) {
        let left = match *edges {
            [] => self.leave(None),
            [
                Edge {
                    target,
                    call: Some(call),
                    ..
                },
            ] => self.leave(Some((target, call))),
            _ => false,
        };
        if left {
            return;
        }
        // All arguments are read before any parameter is written.
        let args: Vec<Vec<(Value, Val)>> = edges.iter().map(|edge| self.edge_args(edge)).collect();
        let mut reached: Vec<usize> = pending.to_vec();
        for (idx, (edge, args)) in edges.iter().zip(args).enumerate() {
            let others = edges
                .iter()
                .enumerate()
                .filter(|&(other, _)| other != idx)
                .map(|(_, edge)| edge.target);
            let blend = self
                .plan
                .order
                .must_blend(edge.target, pending.iter().copied().chain(others));
            let joining = reached.contains(&edge.target);
            self.hand_over(edge, args, joining, blend);
            if !joining {
                reached.push(edge.target);
            }
        }
        self.go_on(&reached, next);
    }

    /// The arguments in the form of the parameters.
    fn edge_args(&mut self, edge: &Edge<'_>) -> Vec<(Value, Val)> {
        let Some(call) = edge.call else {
            return Vec::new();
        };
        if self.plan.single_lane[call.block] == SingleLane::Inner {
            return self.args_to(call);
        }
        self.for_gang(|lower| lower.args_to(call))
    }

    fn args_to(&mut self, call: &BlockCall) -> Vec<(Value, Val)> {
        let params = self.func.blocks[call.block].params.clone();
        params
            .into_iter()
            .zip(&call.args)
            .filter(|&(param, &arg)| !self.stays_home(param, arg))
            .collect::<Vec<_>>()
            .into_iter()
            .map(|(param, &arg)| {
                let val = match self.plan.variability[param] {
                    Variability::Uniform => Val::Uniform(self.scalar_as(arg, param)),
                    Variability::Affine { stride, .. } => {
                        Val::Affine(self.scalar_as(arg, param), stride)
                    }
                    Variability::Varying if self.decided.packed.carried[param] => {
                        Val::Varying(self.subword_parts(arg, self.func.ty(param)))
                    }
                    Variability::Varying => Val::Varying(self.parts(arg)),
                };
                (param, val)
            })
            .collect()
    }

    pub(super) fn scalar_as(&mut self, arg: Value, param: Value) -> cl::Value {
        let ty = self.scalar_type(param);
        match self.get(arg) {
            Val::Uniform(x) | Val::Affine(x, _) => self.b.cast_scalar(x, ty),
            Val::Varying(_) => unreachable!("a varying argument makes its parameter varying"),
        }
    }

    /// `joining`: lanes may be at the target already; `blend`: other lanes need its parameters as
    /// they are.
    fn hand_over(&mut self, edge: &Edge<'_>, args: Vec<(Value, Val)>, joining: bool, blend: bool) {
        if self.decided.classes.arrive[edge.target] == MaskClass::Own(edge.target)
            && self.b.lanes > 1
        {
            let lanes = edge
                .mask
                .clone()
                .unwrap_or_else(|| self.class_lanes(self.mask.class));
            let lanes = if joining {
                self.with_waiting(edge.target, &lanes)
            } else {
                lanes
            };
            self.set_mask(edge.target, &lanes);
        }
        for (param, val) in args {
            // The homes of lanes that are elsewhere may hold other values.
            let blend = blend || self.decided.residents.home(param).is_some();
            let val = match val {
                Val::Varying(new) if blend && !(self.mask.is_full && edge.mask.is_none()) => {
                    Val::Varying(self.blend_param(param, new, edge))
                }
                other @ (Val::Uniform(_) | Val::Affine(..) | Val::Varying(_)) => other,
            };
            self.define_variables(param, &val);
        }
    }

    /// Lanes that wait at the target already keep their parameter.
    fn blend_param(&mut self, param: Value, new: Parts, edge: &Edge<'_>) -> Parts {
        let old: Parts = match self.decided.residents.home(param) {
            Some(home) => self.load_home(home, self.func.ty(param)),
            None => {
                let vars = self.variables(param);
                self.b.use_vars(&vars)
            }
        };
        if self.decided.packed.carried[param] {
            let lanes = match (&edge.mask, &self.mask.parts) {
                (Some(lanes), _) => lanes.clone(),
                (None, Some(parts)) => Lanes::Parts(parts.clone()),
                (None, None) => self.class_lanes(self.mask.class),
            };
            return self.b.blend_packed(&lanes, &new, &old);
        }
        let mask = match &edge.mask {
            Some(lanes) => self.b.lanes_as_parts(&lanes.clone()),
            None => self.mask_vectors(),
        };
        self.blend(self.func.ty(param), &mask, &new, &old)
    }
}

fn call_block(call: &BlockCall) -> Block {
    call.block
}
