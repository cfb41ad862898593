//! From a vectorization plan to CLIF.
//!
//! The function that comes out is `enter` of the contract in `abi`: a dispatch on the state number,
//! for each state a loop over gangs, and the kernel's nodes in layout order. How values and masks
//! are held was decided before (`decisions`). Each folder is a layer, and each file calls files of
//! its own layer and of those before:
//!
//! 1. `state`: the gang that runs, its lanes and its values
//! 2. `access`: accesses to memory
//! 3. `compute`: instructions without access
//! 4. `flow`: control flow, waits, the loops over gangs
//!
//! Above them: `effects`, instructions with effects, with `count`, the counters of coverage;
//! `runs`, units of instructions, and `products`, those of matrices; `insts`, a node's versions,
//! and here its form.
//!
//! Below all layers, `stubs` has code that several places call. What each operation emits, where it
//! does not depend on the program, is in `ops`.

mod access;
mod compute;
mod count;
mod effects;
mod flow;
mod insts;
mod products;
mod runs;
mod state;
mod stubs;

use std::collections::BTreeMap;

use cranelift_codegen::ir::{self as cl};
use cranelift_codegen::isa::TargetFrontendConfig;
use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use cranelift_frontend::{FunctionBuilder, Variable};
use ptxjit_abi::SlowForm;
use ptxjit_ir::{self as ir, Function};
use ptxjit_passes::effort::Effort;
use ptxjit_vectorize::heuristics::Switches;
use ptxjit_vectorize::{Node, Plan};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::compile::CompileError;
use crate::decisions::frame::Frame;
use crate::decisions::mask_classes::MaskClass;
use crate::decisions::nodes::NodeForm;
use crate::decisions::program::{Program, Version};
use crate::decisions::{self, Assumed, Decisions};
use crate::host::Target;
use crate::limits::{self, Growth};
use crate::ops::{Address, Emitter, External, Parts, Val};
use crate::wide::{LaneInserts, Masks};

pub(crate) use stubs::{Stub, define as define_stub};

/// The inputs of lowering beside the function and its plan.
pub(crate) struct Inputs<'a> {
    pub func: &'a Function,
    pub plan: &'a Plan,
    pub shared: &'a ir::SharedLayout,
    pub space_of: &'a dyn Fn(ir::VarId) -> ir::Space,
    pub align_of: &'a dyn Fn(ir::VarId) -> u32,
    pub memcheck: bool,
    /// See [`crate::CompileOptions::foreign`].
    pub foreign: bool,
    /// The target has masked stores.
    pub has_masked_stores: bool,
    pub target: Target,
    pub flush_denormals: bool,
    /// `ntid.y == ntid.z == 1`.
    pub one_dimensional: bool,
    /// See [`ptxjit_abi::Facts::clusters`].
    pub clusters: bool,
    /// Gangs are only entered with all of their lanes.
    pub whole_gangs: bool,
    /// Heuristics that may act.
    pub switches: Switches,
    /// Listings are kept.
    pub lists: bool,
}

impl Inputs<'_> {
    /// Where masks are when lanes are stored.
    pub(crate) fn masks(&self) -> Masks {
        self.target.masks()
    }
}

/// Results of lowering beside the code.
#[derive(Default)]
pub(crate) struct Outputs {
    pub external: External,
    pub stubs: Vec<Stub>,
    pub lane_inserts: Vec<LaneInserts>,
    /// Instructions without a vector form.
    pub slow: BTreeMap<ir::SrcLoc, SlowForm>,
    pub frame: Frame,
    pub local_static: u32,
    pub uses_stack: bool,
    /// Accesses that are tested once per CTA, and branches that are decided once per CTA.
    pub n_tested_once: usize,
    pub n_decided_once: usize,
    /// The gang's program as text, if that is asked for.
    pub program: String,
}

struct Lower<'a, 'b> {
    func: &'a Function,
    plan: &'a Plan,
    inputs: &'a Inputs<'a>,
    decided: Decisions<'a>,
    b: Emitter<'b>,
    out: Outputs,
    emitted: Emitted,
    gangs: Gangs,
    vars: Variables,
    available: Available,
    mask: Mask,
    lane: Lane<'a>,
    slots: StackSlots,
    node: NodeState<'a>,
}

/// What code emitted so far has for all that comes after it.
struct Emitted {
    prologue: cl::Block,
    /// Values computed once per CTA.
    pinned: FxHashMap<ir::Value, Val>,
    /// What ranges tell of the CTA.
    known_of_cta: Option<access::known::KnownOfCta>,
    exits: access::faults::Exits,
}

/// Where code goes: nodes, and the loops over gangs around them.
struct Gangs {
    gang: Option<state::gang::Gang>,
    loops: Option<flow::gangs::Loops>,
    /// Where each node's code starts; none for those whose code [follows](Decisions::falls_through)
    /// that of the node before.
    node_entry: Vec<PackedOption<cl::Block>>,
    node_body: Vec<PackedOption<cl::Block>>,
    /// Where the code being emitted goes when no lane is left.
    next_gang: cl::Block,
    /// Where gangs stop in code that several phases run.
    stopped_in_any: Option<cl::Block>,
    /// The state in which the gang stopped as a whole, or `DIVERGED`; undefined where that is
    /// certain.
    stopped: Option<Variable>,
    /// Iterations left before loops let other threads run.
    budget: Option<Variable>,
}

/// The variables that carry values and masks from node to node, declared when first used.
struct Variables {
    values: SecondaryMap<ir::Value, SmallVec<[Variable; 8]>>,
    masks: Vec<SmallVec<[Variable; 8]>>,
    /// How many there are.
    count: usize,
}

/// Values available in the node being emitted.
#[derive(Clone, Default)]
struct Available {
    vals: FxHashMap<ir::Value, Val>,
    /// Resolved addresses, and what they are known to be multiples of.
    addresses: FxHashMap<(ir::Value, ir::Space), (Address, u32)>,
    /// Under `memcheck`: accesses that were looked up where the block is now.
    looked_up: FxHashSet<(ir::Access, access::forms::Kind)>,
    /// Results of contiguity tests: whether the lanes are contiguous, and the first one's address.
    contiguous_tests: FxHashMap<(ir::Value, ir::Space, i64), (cl::Value, cl::Value)>,
    /// Vectors broadcast from scalars.
    splats: FxHashMap<ir::Value, Parts>,
    /// Reciprocals of uniform divisors, signed or not.
    reciprocals: FxHashMap<(ir::Value, bool), cl::Value>,
    /// Predicates as bits.
    bits: FxHashMap<ir::Value, cl::Value>,
    /// Packed vectors.
    subword: FxHashMap<ir::Value, Parts>,
    /// Values of this node that are in their homes.
    at_home: FxHashSet<ir::Value>,
    /// Rows of tiles that were found aligned, and in which lanes.
    aligned_rows: FxHashMap<ir::Value, u32>,
}

/// The lanes that run in the node being emitted, and values derived from them.
#[derive(Clone)]
struct Mask {
    class: MaskClass,
    bits: Option<cl::Value>,
    full: Option<cl::Value>,
    parts: Option<Parts>,
    /// The code being emitted runs only when all lanes do.
    is_full: bool,
}

impl Mask {
    fn new(class: MaskClass, is_full: bool) -> Mask {
        Mask {
            class,
            bits: None,
            full: None,
            parts: None,
            is_full,
        }
    }
}

/// State of code for one lane.
#[derive(Default)]
struct Lane<'a> {
    /// The lane that runs, in single-lane nodes.
    active: Option<state::single_lane::ActiveLane>,
    /// The lane loop being emitted, and the lanes that have not finished it.
    lane_loop: Option<flow::lane_loop::LaneLoopState<'a>>,
    left: Option<Variable>,
    /// The sum of its lanes' privatized atomics.
    private_sum: Option<access::privatize::PrivateSum>,
}

/// Memory on the stack of compiled code, created when first used.
#[derive(Default)]
struct StackSlots {
    buffers: Vec<(Buffer, cl::StackSlot)>,
    /// For operands and results of device operations, as large as the largest needs.
    device_area: Option<cl::StackSlot>,
    /// Where gangs of which only some lanes wait save their values first.
    shadow_frame: Option<cl::StackSlot>,
    /// Operands and results of warp operations.
    warp_slot: Option<cl::StackSlot>,
    fragments: compute::mma::Fragments,
}

/// The node being emitted.
#[derive(Default)]
struct NodeState<'a> {
    /// What holds in the version being emitted, but for what `mask` and `lane` tell.
    version: Assumed<'a>,
    /// The block whose instructions are emitted.
    block: Option<ir::Block>,
    loc: ir::SrcLoc,
}

/// Builds the body of `enter` in `b`.
pub(crate) fn kernel(
    inputs: &Inputs<'_>,
    b: FunctionBuilder<'_>,
    target: TargetFrontendConfig,
    effort: &Effort,
    growth: &Growth,
) -> Result<Outputs, CompileError> {
    let mut lower = Lower::new(inputs, b);
    limits::check_places(inputs.plan, &lower.decided.crosses)?;
    let program = lower.decided.program();
    if cfg!(debug_assertions) {
        let checked = decisions::verify::program(&lower.decided, &program);
        checked.unwrap_or_else(|what| panic!("the gang program is wrong: {what}"));
    }
    if inputs.lists {
        lower.out.program = decisions::print::program(&lower.decided, &program);
    }
    lower.run(&program, effort, growth)?;
    lower.b.seal_all_blocks();
    crate::fma_operands::order(lower.b.func);
    let (builder, external) = lower.b.finish();
    builder.finalize(target);
    Ok(Outputs {
        external,
        ..lower.out
    })
}

impl<'a, 'b> Lower<'a, 'b> {
    pub(super) fn new(inputs: &'a Inputs<'a>, mut b: FunctionBuilder<'b>) -> Lower<'a, 'b> {
        let prologue = b.create_block();
        b.append_block_params_for_function_params(prologue);
        b.switch_to_block(prologue);
        let cta = b.block_params(prologue)[0];
        let n_nodes = inputs.plan.order.nodes.len();
        let (decided, frame) = decisions::of(inputs);
        let mut blocks = || {
            let new = |pos| (!decided.falls_through(pos)).then(|| b.create_block());
            (0..n_nodes).map(new).map(PackedOption::from).collect()
        };
        let (node_entry, node_body) = (blocks(), blocks());
        Lower {
            func: inputs.func,
            plan: inputs.plan,
            inputs,
            out: Outputs {
                frame,
                local_static: decided.slots.size,
                n_tested_once: decided.cta_ranges.accesses.len(),
                n_decided_once: decided.cta_branches.branches.len(),
                ..Outputs::default()
            },
            decided,
            emitted: Emitted {
                prologue,
                pinned: FxHashMap::default(),
                known_of_cta: None,
                exits: access::faults::Exits::default(),
            },
            gangs: Gangs {
                gang: None,
                loops: None,
                node_entry,
                node_body,
                next_gang: prologue,
                stopped_in_any: None,
                stopped: None,
                budget: None,
            },
            b: Emitter::new(
                b,
                cta,
                inputs.plan.gang as usize,
                (inputs.flush_denormals, inputs.has_masked_stores),
            ),
            vars: Variables {
                values: SecondaryMap::new(),
                masks: vec![SmallVec::new(); n_nodes],
                count: 0,
            },
            available: Available::default(),
            mask: Mask::new(MaskClass::Entry, false),
            lane: Lane::default(),
            slots: StackSlots::default(),
            node: NodeState::default(),
        }
    }

    fn run(
        &mut self,
        program: &Program<'a>,
        effort: &Effort,
        growth: &Growth,
    ) -> Result<(), CompileError> {
        self.emit_gang_loops(growth)?;
        for (pos, versions) in program.nodes.iter().enumerate() {
            let before = self.b.func.dfg.num_insts();
            self.emit_node(pos, versions);
            effort.spend(self.b.func.dfg.num_insts() - before)?;
            growth.check(self.b.func, self.vars.count)?;
        }
        self.emit_stopped_in_any();
        self.emit_exits();
        Ok(())
    }

    /// Emits one node: its arrival, its wait if it has one, its instructions and its terminator.
    fn emit_node(&mut self, pos: usize, versions: &[Version<'a>]) {
        self.gangs.next_gang = self.way_out(self.decided.phases.arriving(pos));
        self.arrive(pos);
        match self.plan.order.nodes[pos] {
            Node::LoopEnd(header) => self.emit_loop_end(pos, header),
            Node::Block(block) => self.emit_block(pos, block, versions),
        }
        self.end_lane_loop(pos);
    }

    fn emit_block(&mut self, pos: usize, block: ir::Block, versions: &[Version<'a>]) {
        self.emit_wait(pos, block);
        self.gangs.next_gang = self.way_out(self.decided.phases.running(pos));
        if self.plan.cold[block] {
            for start in [self.node_entry(pos), self.node_body(pos)] {
                self.b.set_cold_block(start);
            }
        }
        match self.decided.forms[pos] {
            NodeForm::LaneLoop => {
                self.begin_lane(pos);
                self.available.looked_up.clear();
            }
            NodeForm::SingleLane => self.begin_single_lane(),
            NodeForm::LoopEnd | NodeForm::Cold | NodeForm::Twice | NodeForm::Once => {}
        }
        self.emit_versions(pos, block, versions);
        self.lane.active = None;
    }
}

/// The purpose of a stack slot. Reading an operand can use slots for its own steps, so each purpose
/// has its own.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Buffer {
    /// The lanes' addresses, to be tested.
    Addresses,
    /// Which lanes failed a test.
    Found,
    /// A value from which one lane is extracted.
    Picked,
    /// Data or addresses of an access.
    Data,
    /// More operands of the same instruction.
    Operand(usize),
    /// Inputs of a lane loop.
    Held(usize),
    /// Results of a lane loop.
    Left(usize),
    /// The sum of privatized atomics.
    PrivateSum,
}
