//! From one thread's code to a plan for a gang of threads.
//!
//! [`run`] decides, for one gang width, everything that lowering needs to know: the linear order of
//! the blocks, which values are uniform, affine or varying and why, which branches diverge, which
//! blocks can have lanes pending, and where lanes wait and what they must save. The instructions
//! stay scalar; the code generator emits them part by part.
//!
//! # How divergence is handled
//!
//! Blocks are laid out so that every edge leads forward or to the end of a loop around it
//! ([`order`]). A divergent branch marks its lanes as *pending* at both targets and goes on at the
//! one that is first in the order; a block runs for the lanes pending at it and is skipped if there
//! are none; a loop's end goes back to the header while lanes are pending there. This is partial
//! linearization (Moll and Hack, PLDI 2018) in the form of thread frontiers (Diamos et al., MICRO
//! 2011); unstructured and irreducible code needs nothing special. Uniform branches stay branches.
//! With `G` = 1 everything is uniform, and the result is ordinary scalar code.

#![forbid(unsafe_code)]
#![deny(clippy::wildcard_enum_match_arm)]

mod analysis;
mod cost;
mod flows;
pub mod heuristics;
mod memory;
mod prepare;
pub mod print;
mod rematerialize;
mod scalarize;
mod speculate;
mod waits;

use std::cell::OnceCell;

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Block, BlockCall, Function, Inst, InstData, Terminator, Value, WarpOp};

use rustc_hash::FxHashSet;

pub use ptxjit_passes::effort::Effort;
use ptxjit_passes::effort::Spent;

use flows::{Flows, Found, Stops};
use heuristics::{Acted, Heuristic, Switches};

use analysis::divergence::Divergence;
use analysis::{liveness, order, progress, range};
use memory::{merge_stores, prefetch, strip_mine};
use prepare::{joins, latches, lcssa, masked_loads, sign_tests, subword};
use rematerialize::{across_waits, addresses};
use speculate::{no_wrap, stable, strides, trip_counts};

pub use analysis::order::{Node, Order};
pub use analysis::reconvergence::Reconvergence;
pub use analysis::variability::{Because, MayWrap, Variability};
pub use scalarize::lane_loops::{Counts, LaneLoop, count_own, diverges_widely, is_gather_bound};
pub use scalarize::single_lane::SingleLane;
pub use speculate::affine_inputs::AffineInputs;
pub use speculate::ssa_repair::{Repair, predecessors};
pub use waits::{Wait, WaitKind};

/// Facts about launches that the plan may rely on; see the code generator's `Facts`.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct PlanFacts {
    /// `ntid.y == ntid.z == 1`.
    pub one_dimensional: bool,
    /// The gang width divides `ntid.x`.
    pub whole_rows: bool,
    /// `%ctaid.x * %ntid.x + %tid.x` is always less than [`ptxjit_abi::MOST_THREADS`].
    pub small_grid: bool,
    /// No component of `%nctaid` exceeds 65,536.
    pub small_ctaid: bool,
    /// The plan keeps each access as the program has it, because a checker looks at it.
    pub keeps_accesses: bool,
    /// Which heuristics may act.
    pub switches: Switches,
}

/// The plan for one function and gang width.
#[derive(Debug)]
pub struct Plan {
    /// Gang width.
    pub gang: u32,
    /// Layout.
    pub order: Order,
    /// The variability of each value, and so its representation.
    pub variability: SecondaryMap<Value, Variability>,
    /// Why a value is varying.
    pub because: SecondaryMap<Value, Because>,
    /// Cold blocks: few gangs run them, since most run a faster version.
    pub cold: SecondaryMap<Block, bool>,
    /// Blocks that one lane of a gang runs at a time.
    pub single_lane: SecondaryMap<Block, SingleLane>,
    /// Regions that a lane loop runs, one lane at a time, in layout order.
    pub lane_loops: Vec<LaneLoop>,
    /// Blocks whose terminator diverges.
    pub divergent: SecondaryMap<Block, bool>,
    /// For each node: other nodes where lanes may be pending while it runs, ascending.
    pub pending: Vec<Vec<usize>>,
    /// The same on arrival at a node, before a wait at its start.
    pub pending_in: Vec<Vec<usize>>,
    /// Nodes that may be reached with no lane for them.
    pub maybe_empty: Vec<bool>,
    /// For each node, an earlier one whose lanes, all of them and no others, reconverge at it.
    pub reconvergence: Reconvergence,
    /// Blocks with a version for gangs in which varying inputs turn out to be affine.
    pub affine_inputs: SecondaryMap<Block, Option<AffineInputs>>,
    /// Where lanes wait; number 0 is the entry.
    pub waits: Vec<Wait>,
    /// The wait at a block's start.
    pub wait_of: SecondaryMap<Block, Option<u32>>,
    /// Values used in another node than the one that defines them.
    pub escapes: SecondaryMap<Value, bool>,
    /// By its header, each loop that lets others run from time to time.
    pub yields: SecondaryMap<Block, Option<Yield>>,
    /// Gangs leave strip-mined loops only while all of their lanes are in the loop. Where a gang is
    /// a warp with warp operations, separating lanes that are still in a loop from those that have
    /// left it would cost more than it gains.
    pub strip_mines_full: bool,
    /// Bounds, as signed integers over all threads, of affine values that are compared, if they are
    /// known.
    pub bounds: SecondaryMap<Value, Option<(i64, i64)>>,
    /// The speculated stride of varying addresses of loads and stores.
    pub speculated: SecondaryMap<Value, Option<i64>>,
    /// Stores of several words that the program has one by one.
    pub merged: SecondaryMap<Inst, bool>,
    /// How often each heuristic acted.
    pub acted: Acted,
}

impl Plan {
    /// The wait at a block's start.
    pub fn wait_at(&self, block: Block) -> Option<&Wait> {
        let number = self.wait_of[block]?;
        Some(&self.waits[number as usize])
    }

    /// The instructions of a block but the one at which its lanes wait.
    pub fn insts_after_wait<'f>(&self, func: &'f Function, block: Block) -> &'f [Inst] {
        let wait = self.wait_at(block);
        let n_waits = usize::from(wait.is_some_and(|wait| wait.is_at_inst()));
        &func.blocks[block].insts[n_waits..]
    }

    /// Whether threads start at a block, or go on there after a call: other code leads to it.
    pub fn starts_at(&self, block: Block) -> bool {
        let kind = self.wait_at(block).map(|wait| wait.kind);
        matches!(kind, Some(WaitKind::Entry | WaitKind::Ready))
    }

    /// Whether a value is varying.
    pub fn is_varying(&self, value: Value) -> bool {
        self.variability[value] == Variability::Varying
    }

    /// Forgets the waits at these blocks: no lane will wait there. Behind those at the blocks of
    /// `whole`, code counts on all lanes of a warp.
    pub fn forget_waits(&mut self, blocks: &[Block], whole: &[Block]) {
        self.waits.retain(|wait| !blocks.contains(&wait.block));
        for wait in &mut self.waits {
            wait.is_whole = whole.contains(&wait.block);
        }
        blocks.iter().for_each(|&block| self.wait_of[block] = None);
        for (number, wait) in self.waits.iter().enumerate() {
            self.wait_of[wait.block] = Some(number as u32);
        }
    }
}

/// When a loop lets others run.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Yield {
    /// The loop may wait for other threads. An iteration costs this much against a budget.
    Spin(u32),
    /// The loop is strip-mined: after this many iterations the next gang runs.
    StripMine(u32),
}

/// Lanes of a warp.
const WARP: u32 = 32;

/// Plans `func`, and changes it: blocks are split where lanes wait, and loops are closed.
///
/// `entries` are blocks that are resumed from elsewhere (continuations of calls, entries of
/// functions).
///
/// If the effort is spent, `func` is of no more use.
pub fn run(
    func: &mut Function,
    entries: &[Block],
    gang: u32,
    facts: PlanFacts,
    effort: &Effort,
) -> Result<Plan, Spent> {
    let mut setup = Setup {
        entries,
        gang,
        facts,
        assume_affine: false,
        effort,
    };
    if setup.starts_together() && func.insts.len() <= cost::MOST_TWICE {
        setup.assume_affine = true;
        let before = func.clone();
        let plan = setup.plan(func)?;
        if stable::hold(func, &plan.variability) {
            return Ok(plan);
        }
        *func = before;
        setup.assume_affine = false;
    }
    setup.plan(func)
}

/// What a function is planned for.
struct Setup<'a> {
    entries: &'a [Block],
    gang: u32,
    facts: PlanFacts,
    /// Loop parameters that look affine ahead of flow analysis are assumed to be.
    assume_affine: bool,
    effort: &'a Effort,
}

impl Setup<'_> {
    fn is_on(&self, heuristic: Heuristic) -> bool {
        self.facts.switches.is_on(heuristic)
    }

    /// Whether a gang has several lanes, which come from the kernel's start alone.
    fn starts_together(&self) -> bool {
        self.gang > 1 && self.entries.is_empty()
    }

    fn plan(&self, func: &mut Function) -> Result<Plan, Spent> {
        let &Setup {
            entries,
            gang,
            facts,
            effort,
            ..
        } = self;
        // The following passes order the blocks several times more, each in about the same time: an
        // order that exceeds the effort is found here.
        order::within(func, entries, effort)?;
        let mut acted = Acted::default();
        let (cold, wait_of) = self.prepare(func, &mut acted);
        let mut order = order::within(func, entries, effort)?;
        if gang > 1 {
            lcssa::run(func, &order, effort)?;
        }
        let mut optimistic = Divergence::new(gang, facts);
        let hints = Hints {
            func,
            setup: self,
            order: &order,
            cold: &cold,
            wait_of: &wait_of,
            optimistic: &mut optimistic,
            acted: &mut acted,
        };
        let (yields, merged) = hints.add();
        let stops = Stops {
            entries,
            waits: &wait_of,
            yields: &yields,
        };
        let flows = Flows {
            stops: &stops,
            cold: &cold,
            facts,
            effort,
        };
        let found = flows.run(func, &mut order, &mut optimistic)?;
        let strip_mines_full = gang == WARP && has_warp_ops(func);
        let reconvergence = stops.reconvergence(func, &order, strip_mines_full);
        let live = liveness::run(func, &found.preds);
        let mut plan = Plan {
            cold,
            yields,
            strip_mines_full,
            merged,
            acted,
            bounds: bounds(func, facts, &found.flow.variability),
            ..plan_of(gang, order, found, reconvergence)
        };
        if self.is_on(Heuristic::Strides) {
            plan.speculated = strides::run(func, &plan);
        }
        count_decisions(func, &mut plan);
        waits::number(func, &mut plan, entries, &wait_of, &live);
        Ok(plan)
    }

    /// Brings the function to the forms that the analyses rely on, and makes the speculative
    /// copies. Returns the cold blocks, and the blocks that start with a wait.
    fn prepare(
        &self,
        func: &mut Function,
        acted: &mut Acted,
    ) -> (SecondaryMap<Block, bool>, SecondaryMap<Block, bool>) {
        drop_unreachable(func, self.entries);
        if self.is_on(Heuristic::MaskedLoads) {
            acted.set(Heuristic::MaskedLoads, masked_loads::run(func, self));
        }
        if self.is_on(Heuristic::Subword) {
            acted.set(Heuristic::Subword, subword::run(func, self));
        }
        if self.is_on(Heuristic::NoWrap) {
            acted.set(Heuristic::NoWrap, no_wrap::run(func, self));
        }
        let versions = match self.is_on(Heuristic::TripCounts) {
            true => trip_counts::run(func, self),
            false => trip_counts::Versions::default(),
        };
        acted.set(Heuristic::TripCounts, versions.n_versions);
        acted.set(Heuristic::LaneGroups, versions.n_grouped);
        latches::run(func, &order::run(func, self.entries));
        let wait_of = waits::split(func, self.gang);
        if self.gang > 1 && func.blocks.keys().any(|block| wait_of[block]) {
            join_exits(func);
            if self.gang == WARP && self.entries.is_empty() {
                joins::run(func, &wait_of);
            }
        }
        (versions.cold, wait_of)
    }
}

/// The part of a plan that flow analysis found.
fn plan_of(gang: u32, order: Order, found: Found, reconvergence: Reconvergence) -> Plan {
    let flow = found.flow;
    Plan {
        gang,
        order,
        affine_inputs: found.affine_inputs,
        lane_loops: found.lane_loops,
        escapes: flow.escapes,
        single_lane: flow.single_lane,
        variability: flow.variability,
        because: flow.because,
        divergent: flow.divergent,
        pending: flow.pending,
        pending_in: flow.pending_in,
        maybe_empty: flow.maybe_empty,
        bounds: SecondaryMap::new(),
        cold: SecondaryMap::new(),
        reconvergence,
        waits: Vec::new(),
        wait_of: SecondaryMap::new(),
        yields: SecondaryMap::new(),
        strip_mines_full: false,
        merged: SecondaryMap::new(),
        speculated: SecondaryMap::new(),
        acted: Acted::default(),
    }
}

/// Counts what the analyses behind the changes of the function have decided.
fn count_decisions(func: &Function, plan: &mut Plan) {
    let (blocks, values) = (|| func.blocks.keys(), func.values.keys());
    let roots = blocks().filter(|&block| plan.single_lane[block] == SingleLane::Root);
    let n_single = roots.count() - plan.lane_loops.len();
    let inputs = blocks().filter(|&block| plan.affine_inputs[block].is_some());
    let strides = values.filter(|&value| plan.speculated[value].is_some());
    plan.acted.set(Heuristic::SingleLane, n_single);
    plan.acted.set(Heuristic::LaneLoops, plan.lane_loops.len());
    plan.acted.set(Heuristic::AffineInputs, inputs.count());
    plan.acted.set(Heuristic::Strides, strides.count());
}

/// Whether there are operations for which the lanes of a warp wait for each other.
fn has_warp_ops(func: &Function) -> bool {
    let mut nodes = func.blocks.keys().flat_map(|block| func.insts_in(block));
    nodes.any(|node| matches!(node.data, InstData::Warp { op, .. } if op != WarpOp::ActiveMask))
}

/// What adds hints to a function, and is told by them when loops let others run.
struct Hints<'a> {
    func: &'a mut Function,
    setup: &'a Setup<'a>,
    order: &'a Order,
    cold: &'a SecondaryMap<Block, bool>,
    wait_of: &'a SecondaryMap<Block, bool>,
    optimistic: &'a mut Divergence,
    acted: &'a mut Acted,
}

impl Hints<'_> {
    /// Rematerializes, merges stores and inserts prefetches. Returns when loops let others run, and
    /// which stores are merged; `optimistic` is up to date then.
    fn add(mut self) -> (SecondaryMap<Block, Option<Yield>>, SecondaryMap<Inst, bool>) {
        self.optimistic.propagate(self.func, self.order);
        if self.setup.gang > 1 && self.setup.is_on(Heuristic::SignTests) {
            let n_tests = sign_tests::run(self.func, self.optimistic);
            self.note(Heuristic::SignTests, n_tests);
        }
        if self.setup.is_on(Heuristic::AcrossWaits) {
            let n_values = across_waits::run(self.func, self.wait_of, self.optimistic);
            self.note(Heuristic::AcrossWaits, n_values);
        }
        if self.setup.is_on(Heuristic::Addresses) {
            let n_addresses = addresses::run(self.func, self.optimistic);
            self.note(Heuristic::Addresses, n_addresses);
        }
        let merged = self.merge_stores();
        let spins = progress::run(self.func, self.order);
        let ctas = OnceCell::new();
        let strip_mine = match self.setup.is_on(Heuristic::StripMine) {
            true => {
                let analyses = (&*self.optimistic, &ctas);
                strip_mine::run(self.func, self.order, self.wait_of, analyses)
            }
            false => SecondaryMap::new(),
        };
        if self.setup.is_on(Heuristic::Prefetch) {
            let (waits, entries) = ((self.wait_of, &strip_mine), self.setup.entries);
            let analyses = (&*self.optimistic, &ctas);
            let n_hints = prefetch::run(self.func, self.order, entries, waits, analyses);
            self.note(Heuristic::Prefetch, n_hints);
        }
        let yields = yields(self.func, &spins, &strip_mine, self.cold);
        let blocks = self.func.blocks.keys();
        let strip_mined = blocks.filter(|&block| is_strip_mined(&yields, block));
        self.acted.set(Heuristic::StripMine, strip_mined.count());
        (yields, merged)
    }

    /// Notes how often a heuristic acted. What it changed is analyzed again.
    fn note(&mut self, heuristic: Heuristic, count: usize) {
        self.acted.set(heuristic, count);
        if count > 0 {
            self.optimistic.propagate(self.func, self.order);
        }
    }

    fn merge_stores(&mut self) -> SecondaryMap<Inst, bool> {
        let mut merged = SecondaryMap::new();
        let may_merge = self.setup.gang > 1 && !self.setup.facts.keeps_accesses;
        if may_merge && self.setup.is_on(Heuristic::MergeStores) {
            let stores = merge_stores::run(self.func, self.optimistic);
            self.acted.set(Heuristic::MergeStores, stores.len());
            stores.into_iter().for_each(|inst| merged[inst] = true);
        }
        merged
    }
}

/// Whether a block is the header of a strip-mined loop.
fn is_strip_mined(yields: &SecondaryMap<Block, Option<Yield>>, block: Block) -> bool {
    matches!(yields[block], Some(Yield::StripMine(_)))
}

/// When loops let others run, by their headers.
fn yields(
    func: &Function,
    spins: &SecondaryMap<Block, Option<u32>>,
    strip_mine: &SecondaryMap<Block, Option<u32>>,
    cold: &SecondaryMap<Block, bool>,
) -> SecondaryMap<Block, Option<Yield>> {
    let mut yields = SecondaryMap::new();
    for block in func.blocks.keys() {
        yields[block] = match (spins[block], strip_mine[block]) {
            (Some(cost), _) => Some(Yield::Spin(cost)),
            (None, Some(_)) if cold[block] => None,
            (None, Some(strip_mine)) => Some(Yield::StripMine(strip_mine)),
            (None, None) => None,
        };
    }
    yields
}

/// Bounds of affine values that are compared.
fn bounds(
    func: &Function,
    facts: PlanFacts,
    variability: &SecondaryMap<Value, Variability>,
) -> SecondaryMap<Value, Option<(i64, i64)>> {
    let mut bounds = SecondaryMap::new();
    let insts = func.insts.values();
    let compares = insts.filter_map(|node| node.data.as_compare());
    for arg in compares.flat_map(|(_, _, args)| args) {
        if variability[arg].stride().is_some() {
            bounds[arg] = range::signed(func, facts, arg);
        }
    }
    bounds
}

/// Gives lanes that end in different blocks one common block to end in, so that a gang ends as a
/// whole.
fn join_exits(func: &mut Function) {
    let preds = predecessors(func);
    let is_end = |&block: &Block| {
        matches!(func.blocks[block].term, Terminator::Exit)
            && (block == func.entry || !preds[block].is_empty())
    };
    let ends: Vec<Block> = func.blocks.keys().filter(is_end).collect();
    if ends.len() < 2 {
        return;
    }
    let is_bare = |&block: &Block| {
        let data = &func.blocks[block];
        data.insts.is_empty() && data.params.is_empty()
    };
    let bare = ends.iter().copied().find(is_bare);
    let join = bare.unwrap_or_else(|| func.new_block());
    func.blocks[join].term = Terminator::Exit;
    for block in ends {
        if block != join {
            func.blocks[block].term = Terminator::Jump(BlockCall::new(join));
        }
    }
}

fn drop_unreachable(func: &mut Function, entries: &[Block]) {
    let reachable = order::reachable(func, &[&[func.entry], entries].concat());
    let reachable: FxHashSet<Block> = reachable.into_iter().collect();
    let others = func.blocks.iter_mut();
    for (_, data) in others.filter(|(block, _)| !reachable.contains(block)) {
        data.insts.clear();
        data.params.clear();
        data.term = Terminator::Exit;
    }
}

/// Predecessors write a block's parameters, so a parameter always escapes.
fn escapes(func: &Function) -> SecondaryMap<Value, bool> {
    let homes = func.homes();
    let mut escapes: SecondaryMap<Value, bool> = SecondaryMap::new();
    for (block, data) in func.blocks.iter() {
        data.params.iter().for_each(|&param| escapes[param] = true);
        func.for_each_arg(block, |value| escapes[value] |= homes[value] != Some(block));
    }
    escapes
}

/// Values live at the start of each block, its own parameters excluded; each list is sorted.
pub fn live_in(
    func: &Function,
    preds: &SecondaryMap<Block, Vec<Block>>,
) -> SecondaryMap<Block, Vec<Value>> {
    liveness::run(func, preds).live_in
}
