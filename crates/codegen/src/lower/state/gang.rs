//! The gang that runs: its index, threads, lanes and frame.

use core::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, MemFlagsData, types};
use cranelift_frontend::Variable;
use ptxjit_abi::CtaContext;
use ptxjit_ir::Type;

use crate::decisions::lane_loops::is_local;
use crate::lower::Lower;
use crate::ops::{Parts, vector_type};

/// What holds while one gang runs.
pub(in crate::lower) struct Gang {
    pub(in crate::lower) idx: Variable,
    /// Linear index of its first thread.
    thread: Variable,
    /// Where its slots are.
    frame: Variable,
    /// The lanes that it was entered with.
    pub(in crate::lower) bits: Variable,
    /// Generic address of each lane's local window, `i64x2` per two lanes; a scalar at one lane.
    /// Only where the kernel uses it.
    local: Vec<Variable>,
}

impl Lower<'_, '_> {
    pub(in crate::lower) fn gang(&self) -> &Gang {
        self.gangs.gang.as_ref().expect("declared before nodes")
    }

    /// The number of the gang.
    pub(in crate::lower) fn gang_idx(&mut self) -> cl::Value {
        let idx = self.gang().idx;
        self.b.use_var(idx)
    }

    /// Linear index of the gang's first thread.
    pub(in crate::lower) fn gang_thread(&mut self) -> cl::Value {
        let thread = self.gang().thread;
        self.b.use_var(thread)
    }

    /// Where the gang's slots are.
    pub(in crate::lower) fn gang_frame(&mut self) -> cl::Value {
        let frame = self.gang().frame;
        self.b.use_var(frame)
    }

    /// The lanes that the gang was entered with.
    pub(super) fn gang_bits(&mut self) -> cl::Value {
        if self.inputs.whole_gangs {
            let all = self.b.full_bits();
            return self.b.ins().iconst(types::I32, all);
        }
        let bits = self.gang().bits;
        self.b.use_var(bits)
    }

    /// Whether the gang was entered with all lanes.
    pub(super) fn gang_is_full(&mut self) -> cl::Value {
        let (bits, full) = (self.gang_bits(), self.b.full_bits());
        self.b.ins().icmp_imm_s(IntCC::Equal, bits, full)
    }

    /// Number of the first lane that the gang was entered with; none if that is the first of all.
    pub(in crate::lower) fn first_lane(&mut self) -> Option<cl::Value> {
        if self.b.lanes == 1 || self.inputs.whole_gangs {
            return None;
        }
        let bits = self.gang_bits();
        let first = self.b.ins().ctz(bits);
        Some(self.b.ins().uextend(types::I64, first))
    }

    /// Where the lanes' local windows are.
    pub(in crate::lower) fn windows(&mut self) -> Parts {
        let vars = self.gang().local.clone();
        assert!(!vars.is_empty(), "a value uses the local windows");
        self.b.use_vars(&vars)
    }

    /// Whether gangs that have all stopped at a resume point go on without the runtime.
    pub(in crate::lower) fn may_go_on(&mut self, state: cl::Value) -> cl::Value {
        let table = self.b.field(offset_of!(CtaContext, go_on));
        let at = self.b.ins().uextend(types::I64, state);
        let at = self.b.ins().iadd(table, at);
        let may = self
            .b
            .ins()
            .uload8(types::I32, MemFlagsData::trusted(), at, 0);
        let poll = self.b.field(offset_of!(CtaContext, poll));
        // Another thread may set it at any time.
        let stop = self.b.load_own(types::I32, poll, 0);
        self.b.ins().icmp(IntCC::UnsignedGreaterThan, may, stop)
    }

    /// The lanes to enter of a gang.
    pub(in crate::lower) fn mask_to_enter(&mut self, idx: cl::Value) -> cl::Value {
        let masks = self.b.field(offset_of!(CtaContext, masks));
        let at = self.b.ins().uextend(types::I64, idx);
        let at = self.b.ins().ishl_imm_s(at, 2);
        let at = self.b.ins().iadd(masks, at);
        self.b.load_own(types::I32, at, 0)
    }

    pub(in crate::lower) fn declare_gang(&mut self) {
        let uses_windows = self.func.insts.values().any(|node| is_local(&node.data));
        let n_windows = match (uses_windows, self.b.lanes) {
            (false, _) => 0,
            (true, 1) => 1,
            (true, lanes) => lanes / 2,
        };
        let ty = if self.b.lanes == 1 {
            types::I64
        } else {
            vector_type(Type::B64)
        };
        self.gangs.gang = Some(Gang {
            idx: self.b.declare_var(types::I32),
            thread: self.b.declare_var(types::I32),
            frame: self.b.declare_var(types::I64),
            bits: self.b.declare_var(types::I32),
            local: (0..n_windows).map(|_| self.b.declare_var(ty)).collect(),
        });
        let yields = self
            .func
            .blocks
            .keys()
            .any(|block| self.plan.yields[block].is_some());
        self.gangs.budget = yields.then(|| self.b.declare_var(types::I32));
    }

    /// Defines the values that follow from the gang's number.
    pub(in crate::lower) fn define_places(&mut self) {
        let gang = self.gang();
        let (thread_var, frame_var, vars) = (gang.thread, gang.frame, gang.local.clone());
        let idx = self.gang_idx();
        let shift = i64::from(self.b.lanes.trailing_zeros());
        let thread = self.b.ins().ishl_imm_s(idx, shift);
        self.b.def_var(thread_var, thread);
        let slots = self.b.field(offset_of!(CtaContext, slots));
        let size = i64::from(self.out.frame.size);
        let idx = self.b.ins().uextend(types::I64, idx);
        let at = match size.count_ones() {
            1 => self
                .b
                .ins()
                .ishl_imm_s(idx, i64::from(size.trailing_zeros())),
            _ => self.b.ins().imul_imm_s(idx, size),
        };
        let frame = self.b.ins().iadd(slots, at);
        self.b.def_var(frame_var, frame);
        if vars.is_empty() {
            return;
        }
        let windows = self.b.local_windows(thread);
        self.b.def_vars(&vars, &windows);
    }

    /// The lane that runs, as a bit.
    pub(in crate::lower) fn lane_bit(&self) -> cl::Value {
        let lane = self
            .lane
            .lane_loop
            .as_ref()
            .and_then(|lane_loop| lane_loop.lane.as_ref());
        lane.expect("asked for in a region").1
    }

    /// Records the lane for fault reports.
    pub(in crate::lower) fn note_lane(&mut self, bit: cl::Value) {
        let at = offset_of!(CtaContext, current_lane) as i32;
        let cta = self.b.cta;
        self.b.store_own(bit, cta, at);
    }

    pub(in crate::lower) fn less_lowest(&mut self, bits: cl::Value) -> cl::Value {
        let less = self.b.ins().iadd_imm_s(bits, -1);
        self.b.ins().band(bits, less)
    }

    /// Records that all lanes of the gang stop here.
    pub(in crate::lower) fn stopped_at(&mut self, state: u32) {
        let state = self.b.ins().iconst(types::I32, i64::from(state));
        self.stopped_at_scalar(state);
    }

    pub(in crate::lower) fn stopped_at_scalar(&mut self, state: cl::Value) {
        let var = self.gangs.stopped.expect("declared where lanes can wait");
        self.b.def_var(var, state);
    }

    /// Where the lanes arrive at a node.
    pub(in crate::lower) fn node_entry(&self, pos: usize) -> cl::Block {
        let block = self.gangs.node_entry[pos].expand();
        block.expect("other nodes do not lead to a node that is fallen through to")
    }

    /// Where the lanes run a node, once they have waited.
    pub(in crate::lower) fn node_body(&self, pos: usize) -> cl::Block {
        let block = self.gangs.node_body[pos].expand();
        block.expect("no lane waits at a node that is fallen through to")
    }

    /// Goes on at `next`, if any; lanes may be at the nodes in `reached`.
    pub(in crate::lower) fn go_on(&mut self, reached: &[usize], next: Option<usize>) {
        let Some(next) = next else {
            self.b.ins().jump(self.gangs.next_gang, &[]);
            return;
        };
        let fresh: Vec<usize> = self.plan.pending_in[next]
            .iter()
            .copied()
            .filter(|node| !reached.contains(node))
            .collect();
        self.clear_masks(&fresh);
        if !self.decided.falls_through(next) {
            let entry = self.node_entry(next);
            self.b.ins().jump(entry, &[]);
        }
    }
}
