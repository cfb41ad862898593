//! Lane loops: loops over the set bits of the mask around scalar code for one lane.
//!
//! ```text
//! root:  operands to memory; left = lanes      lane = ctz(left)   <──────────┐
//!                                              scalar code of the region     │
//!        each exit: results to the lane's place ──► left &= left - 1; any left?
//!                                                   └──► results from memory, on to the next node
//! ```

use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use cranelift_entity::SecondaryMap;
use cranelift_frontend::Variable;
use ptxjit_ir::{BlockCall, Function, Value};
use ptxjit_vectorize::{LaneLoop, Plan, SingleLane, Variability};
use rustc_hash::FxHashMap;

use crate::decisions::lane_loops::is_local;
use crate::decisions::mask_classes::MaskClass;
use crate::lower::state::single_lane::ActiveLane;
use crate::lower::{Buffer, Lower};
use crate::ops::{Lanes, Parts, Val};

/// The region being emitted.
pub(in crate::lower) struct LaneLoopState<'a> {
    region: &'a LaneLoop,
    /// The lanes that entered.
    bits: cl::Value,
    /// The lanes that have not finished, the running one included.
    left: Variable,
    /// Values from elsewhere that the region uses.
    inputs: Inputs,
    /// Where vectors from elsewhere are stored.
    held: FxHashMap<Value, cl::Value>,
    /// The lane that runs, for the whole region, and as a bit; set at its start.
    pub(in crate::lower) lane: Option<(ActiveLane, cl::Value)>,
    /// For each exit, the values that the lane stores at its place.
    exits: Vec<Exit>,
    /// The block for lanes that have left.
    done: cl::Block,
}

/// A node where lanes go from a region.
struct Exit {
    target: usize,
    /// The lanes that have gone there, if not all do.
    bits: Option<Variable>,
    /// Parameters that lanes write, and the memory that holds them until the loop ends.
    params: Vec<(Value, cl::Value)>,
    /// Parameters with the same value for all lanes.
    fixed: Vec<(Value, Value)>,
    /// Parameters of a target that the only lane runs next: its scalars.
    of_only_lane: Vec<Value>,
}

/// Values from elsewhere that a region uses.
#[derive(Default)]
struct Inputs {
    /// As operands; constants aside.
    values: Vec<Value>,
    /// Local memory is accessed.
    uses_window: bool,
}

impl Inputs {
    fn of(func: &Function, plan: &Plan, region: &LaneLoop) -> Inputs {
        let mut out = Inputs::default();
        let mut seen: SecondaryMap<Value, bool> = SecondaryMap::new();
        for block in region.blocks(&plan.order) {
            let data = &func.blocks[block];
            // Predecessors write the parameters of the root.
            let params = data.params.iter().filter(|_| block != region.root);
            let results = data
                .insts
                .iter()
                .flat_map(|&inst| &func.insts[inst].results);
            params.chain(results).for_each(|&value| seen[value] = true);
        }
        let mut add = |out: &mut Inputs, value: Value| {
            if !std::mem::replace(&mut seen[value], true) && func.as_const(value).is_none() {
                out.values.push(value);
            }
        };
        for block in region.blocks(&plan.order) {
            let data = &func.blocks[block];
            for &inst in &data.insts {
                let data = &func.insts[inst].data;
                let resolved = data.address().filter(|&addr| {
                    // Resolved at the access, where only the address matters, not whether an index
                    // has wrapped.
                    plan.variability[addr].may_wrap().is_some()
                });
                let args = data.args();
                let args = args.iter().filter(|&&arg| Some(arg) != resolved);
                args.for_each(|&arg| add(&mut out, arg));
                out.uses_window |= is_local(data);
            }
            data.term.for_each_arg(|arg| add(&mut out, arg));
        }
        out
    }
}

impl<'a> Lower<'a, '_> {
    /// The region that begins at a node.
    fn region_at(&self, pos: usize) -> Option<&'a LaneLoop> {
        let region = &self.plan.lane_loops[self.decided.region_of[pos]?];
        (*region.range.start() == pos).then_some(region)
    }

    /// At the arrival at a region's root: stores the operands where each lane finds its own.
    pub(super) fn begin_lane_loop(&mut self, pos: usize) {
        let Some(region) = self.region_at(pos) else {
            return;
        };
        let bits = self.mask_as_bits();
        let left = *self
            .lane
            .left
            .get_or_insert_with(|| self.b.declare_var(types::I32));
        let inputs = Inputs::of(self.func, self.plan, region);
        let mut held = FxHashMap::default();
        for &value in &inputs.values {
            let is_vector = match self.plan.variability[value] {
                Variability::Varying => !self.decided.in_bits[value],
                Variability::Affine { may_wrap, .. } => may_wrap.is_some(),
                Variability::Uniform => false,
            };
            if is_vector {
                let parts = self.parts(value);
                let at = self.store_to_buffer(Buffer::Held(held.len()), &parts);
                held.insert(value, at);
            }
        }
        let exits = self.open_exits(region);
        self.begin_private_sum(region);
        self.b.def_var(left, bits);
        let done = self.b.create_block();
        self.lane.lane_loop = Some(LaneLoopState {
            region,
            bits,
            left,
            inputs,
            held,
            lane: None,
            exits,
            done,
        });
    }

    /// Allocates the memory for results.
    fn open_exits(&mut self, region: &LaneLoop) -> Vec<Exit> {
        let pos = *region.range.start();
        let pending = &self.plan.pending[pos];
        let is_only = region.exits.len() == 1 && !region.ends;
        let mut n_slots = 0;
        let mut exits = Vec::new();
        for &target in &region.exits {
            let others = region.exits.iter().filter(|&&other| other != target);
            let others = pending.iter().chain(others).copied();
            let is_shared = self.plan.order.must_blend(target, others);
            let (mut params, mut fixed, mut of_only_lane) = (Vec::new(), Vec::new(), Vec::new());
            let call = self.call_to(region, target);
            let goes_on_alone = self.plan.single_lane[call.block] == SingleLane::Inner;
            for (&param, &arg) in self.func.blocks[call.block].params.iter().zip(&call.args) {
                if self.plan.variability[param] != Variability::Varying {
                    match goes_on_alone {
                        true => of_only_lane.push(param),
                        false => fixed.push((param, arg)),
                    }
                    continue;
                }
                let parts = self.before_exit(param, is_shared);
                let at = self.store_to_buffer(Buffer::Left(n_slots), &parts);
                n_slots += 1;
                params.push((param, at));
            }
            let bits = (!is_only).then(|| {
                let var = self.b.declare_var(types::I32);
                let none = self.b.ins().iconst(types::I32, 0);
                self.b.def_var(var, none);
                var
            });
            exits.push(Exit {
                target,
                bits,
                params,
                fixed,
                of_only_lane,
            });
        }
        exits
    }

    /// What lanes hold of a parameter that have not left the region: those that are at the node
    /// already, if it may have any.
    fn before_exit(&mut self, param: Value, is_shared: bool) -> Parts {
        if is_shared {
            let vars = self.variables(param);
            return self.b.use_vars(&vars);
        }
        let ty = self.func.ty(param);
        let zero = self.b.zero_vector(ty);
        Parts::from_elem(zero, self.b.n_parts(ty))
    }

    /// One of the branches from a region to a node.
    fn call_to(&self, region: &LaneLoop, target: usize) -> &'a BlockCall {
        let order = &self.plan.order;
        let mut calls = region.blocks(order).flat_map(|block| {
            let pos = order.block_pos[block].expect("it is in the order") as usize;
            let calls = self.func.blocks[block].term.targets();
            calls.into_iter().map(move |call| (pos, call))
        });
        let found = calls.find(|&(pos, call)| order.target(pos, call.block) == target);
        found.expect("a way out has a branch").1
    }

    /// At the start of a node of a lane loop: from here on, values are those of the lane that runs.
    pub(in crate::lower) fn begin_lane(&mut self, pos: usize) {
        let lane_loop = self.lane.lane_loop.as_ref().expect("begun at the root");
        if let Some((active_lane, _)) = &lane_loop.lane {
            self.lane.active = Some(active_lane.clone());
            return;
        }
        debug_assert_eq!(pos, *lane_loop.region.range.start());
        let left = self.b.use_var(lane_loop.left);
        let lane = self.b.ins().ctz(left);
        let lane = self.b.ins().uextend(types::I64, lane);
        let others = self.less_lowest(left);
        let bit = self.b.ins().bxor(left, others);
        self.note_lane(bit);
        let lane_loop = self.lane.lane_loop.as_mut().expect("just seen");
        lane_loop.lane = Some((ActiveLane::new(lane), bit));
        let held: Vec<(Value, cl::Value)> = lane_loop
            .inputs
            .values
            .iter()
            .filter_map(|value| Some((*value, *lane_loop.held.get(value)?)))
            .collect();
        let (inputs, uses_window) = (
            lane_loop.inputs.values.clone(),
            lane_loop.inputs.uses_window,
        );
        let mut active_lane = ActiveLane::new(lane);
        for (value, buf) in held {
            let x = self.load_held(value, buf, lane);
            active_lane.vals.insert(value, Val::Uniform(x));
        }
        self.lane.active = Some(active_lane);
        for value in inputs {
            self.own(value);
        }
        if uses_window {
            self.own_window();
        }
        let active_lane = self.lane.active.clone().expect("just set");
        self.lane.lane_loop.as_mut().expect("just seen").lane = Some((active_lane, bit));
    }

    fn load_held(&mut self, value: Value, buf: cl::Value, lane: cl::Value) -> cl::Value {
        let (ty, clif) = (self.func.ty(value), self.scalar_type(value));
        self.b.pick_from(buf, (ty, clif), lane)
    }

    /// If an edge leaves the region being emitted, or the lane ends: records where it goes, and
    /// stores its values. Ends the current block.
    pub(super) fn leave(&mut self, way: Option<(usize, &BlockCall)>) -> bool {
        let Some(lane_loop) = &self.lane.lane_loop else {
            return false;
        };
        let Some((target, call)) = way else {
            self.b.ins().jump(lane_loop.done, &[]);
            return true;
        };
        let Some(exit) = lane_loop.exits.iter().find(|exit| exit.target == target) else {
            return false;
        };
        let (bits, params, done) = (exit.bits, exit.params.clone(), lane_loop.done);
        let of_only_lane = exit.of_only_lane.clone();
        let (active_lane, bit) = lane_loop.lane.clone().expect("the lane runs");
        let args: Vec<cl::Value> = params
            .iter()
            .map(|&(param, _)| {
                let arg = self.arg_of(call, param);
                self.scalar(arg)
            })
            .collect();
        for (&(param, buf), x) in params.iter().zip(args) {
            self.b
                .store_lane(buf, active_lane.lane, self.func.ty(param), x);
        }
        let scalars: Vec<(Value, cl::Value)> = of_only_lane
            .into_iter()
            .map(|param| (param, self.scalar_as(self.arg_of(call, param), param)))
            .collect();
        for (param, x) in scalars {
            self.define_variables(param, &Val::Uniform(x));
        }
        if let Some(var) = bits {
            let before = self.b.use_var(var);
            let now = self.b.ins().bor(before, bit);
            self.b.def_var(var, now);
        }
        self.b.ins().jump(done, &[]);
        true
    }

    fn arg_of(&self, call: &BlockCall, param: Value) -> Value {
        let params = &self.func.blocks[call.block].params;
        let idx = params.iter().position(|&other| other == param);
        call.args[idx.expect("a parameter of the target")]
    }

    /// Behind the last node of a region: the next lane, or on to the next node.
    pub(in crate::lower) fn end_lane_loop(&mut self, pos: usize) {
        let is_last = |lane_loop: &mut LaneLoopState<'_>| *lane_loop.region.range.end() == pos;
        let Some(lane_loop) = self.lane.lane_loop.take_if(is_last) else {
            return;
        };
        let root = *lane_loop.region.range.start();
        self.gangs.next_gang = self.way_out(self.decided.phases.running(root));
        self.b.switch_to_block(lane_loop.done);
        let class = self.decided.classes.arrive[root];
        self.start_region(class);
        let left = self.b.use_var(lane_loop.left);
        let left = self.less_lowest(left);
        self.b.def_var(lane_loop.left, left);
        let (body, go_on) = (self.node_body(root), self.b.create_block());
        self.b.ins().brif(left, body, &[], go_on, &[]);
        self.b.switch_to_block(go_on);
        self.flush_private_sum();
        let no_lane = self.b.ins().iconst(types::I32, 0);
        self.note_lane(no_lane);
        let mut reached = self.plan.pending[root].clone();
        for exit in &lane_loop.exits {
            for &(param, buf) in &exit.params {
                let parts = self.b.load_buffer(buf, self.func.ty(param));
                self.define_variables(param, &Val::Varying(parts));
            }
            for &(param, arg) in &exit.fixed {
                let x = self.scalar(arg);
                let x = self.b.cast_scalar(x, self.scalar_type(param));
                self.define_variables(param, &Val::Uniform(x));
            }
            let bits = match exit.bits {
                Some(var) => self.b.use_var(var),
                None => lane_loop.bits,
            };
            self.reach(
                exit.target,
                &Lanes::Bits(bits),
                reached.contains(&exit.target),
            );
            reached.push(exit.target);
        }
        let next = reached.iter().copied().min();
        self.go_on(&reached, next);
    }

    /// Passes lanes to a node; `joining`: others may be there already.
    pub(in crate::lower) fn reach(&mut self, target: usize, lanes: &Lanes, joining: bool) {
        if self.decided.classes.arrive[target] == MaskClass::Own(target) {
            let lanes = match joining {
                true => self.with_waiting(target, lanes),
                false => lanes.clone(),
            };
            self.set_mask(target, &lanes);
        }
    }
}
