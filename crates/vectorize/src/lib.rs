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

pub use ptxjit_passes::effort::Effort;
use ptxjit_passes::effort::Spent;

use flows::{Flows, Found, Stops};
use heuristics::{Acted, Heuristic, Switches};

use analysis::{divergence, liveness, order, progress, range, reconvergence};
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
    /// Forgets the waits at these blocks: no lane will wait there. Behind those at the blocks of
    /// `whole`, code counts on all lanes of a warp.
    pub fn forget_waits(&mut self, blocks: &[Block], whole: &[Block]) {
        self.waits.retain(|wait| !blocks.contains(&wait.block));
        for wait in &mut self.waits {
            wait.is_whole = whole.contains(&wait.block);
        }
        for &block in blocks {
            self.wait_of[block] = None;
        }
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
    if gang > 1 && entries.is_empty() && func.insts.len() <= cost::MOST_TWICE {
        let before = func.clone();
        let plan = run_once(func, entries, gang, facts, true, effort)?;
        if stable::hold(func, &plan.variability) {
            return Ok(plan);
        }
        *func = before;
    }
    run_once(func, entries, gang, facts, false, effort)
}

/// `assume_affine`: loop parameters that look affine ahead of flow analysis are assumed to be.
fn run_once(
    func: &mut Function,
    entries: &[Block],
    gang: u32,
    facts: PlanFacts,
    assume_affine: bool,
    effort: &Effort,
) -> Result<Plan, Spent> {
    // The following passes order the blocks several times more, each in about the same time: an
    // order that exceeds the effort is found here.
    order::within(func, entries, effort)?;
    let mut acted = Acted::default();
    let (cold, wait_of) = prepare(func, entries, gang, facts, assume_affine, &mut acted);
    let mut order = order::within(func, entries, effort)?;
    if gang > 1 {
        lcssa::run(func, &order, effort)?;
    }
    let mut optimistic = divergence::Divergence::new(gang, facts);
    let (yields, merged) = add_hints(
        func,
        entries,
        &order,
        (&cold, &wait_of),
        &mut optimistic,
        &mut acted,
    );
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
    let flows = flows.run(func, &mut order, &mut optimistic)?;
    let strip_mines_full = gang == WARP && has_warp_ops(func);
    let is_strip_mined =
        |header: Block| strip_mines_full && matches!(yields[header], Some(Yield::StripMine(_)));
    let reconvergence = reconvergence::run(
        func,
        &order,
        &|block| stops.can_stop(func, block),
        &is_strip_mined,
    );
    let preds = &flows.preds;
    let live = liveness::run(func, preds);
    let mut plan = Plan {
        cold,
        yields,
        strip_mines_full,
        merged,
        acted,
        bounds: bounds(func, facts, &flows.flow.variability),
        ..plan_of(gang, order, flows, reconvergence)
    };
    if facts.switches.is_on(Heuristic::Strides) {
        plan.speculated = strides::run(func, &plan);
    }
    count_decisions(func, &mut plan);
    waits::number(func, &mut plan, entries, &wait_of, &live);
    Ok(plan)
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
    let blocks = || func.blocks.keys();
    let roots = blocks().filter(|&block| plan.single_lane[block] == SingleLane::Root);
    let n_single = roots.count() - plan.lane_loops.len();
    let n_inputs = blocks().filter(|&block| plan.affine_inputs[block].is_some());
    let n_inputs = n_inputs.count();
    let n_strides = func.values.keys();
    let n_strides = n_strides.filter(|&value| plan.speculated[value].is_some());
    let n_strides = n_strides.count();
    plan.acted.set(Heuristic::SingleLane, n_single);
    plan.acted.set(Heuristic::LaneLoops, plan.lane_loops.len());
    plan.acted.set(Heuristic::AffineInputs, n_inputs);
    plan.acted.set(Heuristic::Strides, n_strides);
}

/// Whether there are operations for which the lanes of a warp wait for each other.
fn has_warp_ops(func: &Function) -> bool {
    let mut insts = func.blocks.values().flat_map(|block| &block.insts);
    insts.any(|&inst| {
        if let InstData::Warp { op, .. } = func.insts[inst].data {
            op != WarpOp::ActiveMask
        } else {
            false
        }
    })
}

/// Brings the function to the forms that the analyses rely on, and makes the speculative copies.
/// Returns the cold blocks, and the blocks that start with a wait.
fn prepare(
    func: &mut Function,
    entries: &[Block],
    gang: u32,
    facts: PlanFacts,
    assume_affine: bool,
    acted: &mut Acted,
) -> (SecondaryMap<Block, bool>, SecondaryMap<Block, bool>) {
    let is_on = |heuristic| facts.switches.is_on(heuristic);
    drop_unreachable(func, entries);
    if is_on(Heuristic::MaskedLoads) {
        let n_converted = masked_loads::run(func, entries, gang, facts);
        acted.set(Heuristic::MaskedLoads, n_converted);
    }
    if is_on(Heuristic::Subword) {
        acted.set(Heuristic::Subword, subword::run(func, entries, gang));
    }
    if is_on(Heuristic::NoWrap) {
        let n_versions = no_wrap::run(func, entries, gang, facts, assume_affine);
        acted.set(Heuristic::NoWrap, n_versions);
    }
    let versions = match is_on(Heuristic::TripCounts) {
        true => trip_counts::run(func, entries, gang, facts),
        false => trip_counts::Versions::default(),
    };
    acted.set(Heuristic::TripCounts, versions.n_versions);
    acted.set(Heuristic::LaneGroups, versions.n_grouped);
    latches::run(func, &order::run(func, entries));
    let wait_of = waits::split(func, gang);
    if gang > 1 && func.blocks.keys().any(|block| wait_of[block]) {
        join_exits(func);
        if gang == WARP && entries.is_empty() {
            joins::run(func, &wait_of);
        }
    }
    (versions.cold, wait_of)
}

/// Rematerializes, merges stores and inserts prefetches. Returns when loops let others run, and
/// which stores are merged; `optimistic` is up to date then.
fn add_hints(
    func: &mut Function,
    entries: &[Block],
    order: &Order,
    (cold, wait_of): (&SecondaryMap<Block, bool>, &SecondaryMap<Block, bool>),
    optimistic: &mut divergence::Divergence,
    acted: &mut Acted,
) -> (SecondaryMap<Block, Option<Yield>>, SecondaryMap<Inst, bool>) {
    let switches = optimistic.facts.switches;
    let mut merged = SecondaryMap::new();
    optimistic.propagate(func, order);
    if optimistic.gang > 1 && switches.is_on(Heuristic::SignTests) {
        let n_tests = sign_tests::run(func, optimistic);
        acted.set(Heuristic::SignTests, n_tests);
        if n_tests > 0 {
            optimistic.propagate(func, order);
        }
    }
    if switches.is_on(Heuristic::AcrossWaits) {
        let n_values = across_waits::run(func, wait_of, optimistic);
        acted.set(Heuristic::AcrossWaits, n_values);
        if n_values > 0 {
            optimistic.propagate(func, order);
        }
    }
    if switches.is_on(Heuristic::Addresses) {
        let n_addresses = addresses::run(func, optimistic);
        acted.set(Heuristic::Addresses, n_addresses);
        if n_addresses > 0 {
            optimistic.propagate(func, order);
        }
    }
    let may_merge = optimistic.gang > 1 && !optimistic.facts.keeps_accesses;
    if may_merge && switches.is_on(Heuristic::MergeStores) {
        let stores = merge_stores::run(func, optimistic);
        acted.set(Heuristic::MergeStores, stores.len());
        stores.into_iter().for_each(|inst| merged[inst] = true);
    }
    let spins = progress::run(func, order);
    let ctas = OnceCell::new();
    let strip_mine = match switches.is_on(Heuristic::StripMine) {
        true => strip_mine::run(func, order, wait_of, (optimistic, &ctas)),
        false => SecondaryMap::new(),
    };
    if switches.is_on(Heuristic::Prefetch) {
        let waits = (wait_of, &strip_mine);
        let n_hints = prefetch::run(func, order, entries, waits, (optimistic, &ctas));
        acted.set(Heuristic::Prefetch, n_hints);
        if n_hints > 0 {
            optimistic.propagate(func, order);
        }
    }
    let yields = yields(func, &spins, &strip_mine, cold);
    let strip_mined = |block: &Block| matches!(yields[*block], Some(Yield::StripMine(_)));
    acted.set(
        Heuristic::StripMine,
        func.blocks.keys().filter(strip_mined).count(),
    );
    (yields, merged)
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
    for node in func.insts.values() {
        let InstData::Compare { args, .. } = node.data else {
            continue;
        };
        for arg in args {
            if matches!(variability[arg], Variability::Affine { .. }) {
                bounds[arg] = range::signed(func, facts, arg);
            }
        }
    }
    bounds
}

/// Gives lanes that end in different blocks one common block to end in, so that a gang ends as a
/// whole.
fn join_exits(func: &mut Function) {
    let preds = predecessors(func);
    let ends: Vec<Block> = func
        .blocks
        .iter()
        .filter(|&(block, data)| {
            matches!(data.term, Terminator::Exit)
                && (block == func.entry || !preds[block].is_empty())
        })
        .map(|(block, _)| block)
        .collect();
    if ends.len() < 2 {
        return;
    }
    let is_bare = |&block: &Block| {
        let data = &func.blocks[block];
        data.insts.is_empty() && data.params.is_empty()
    };
    let join = match ends.iter().copied().find(is_bare) {
        Some(block) => block,
        None => func.new_block(),
    };
    func.blocks[join].term = Terminator::Exit;
    for block in ends {
        if block != join {
            func.blocks[block].term = Terminator::Jump(BlockCall::new(join));
        }
    }
}

fn drop_unreachable(func: &mut Function, entries: &[Block]) {
    let mut seen: SecondaryMap<Block, bool> = SecondaryMap::new();
    let mut work = vec![func.entry];
    work.extend(entries);
    while let Some(block) = work.pop() {
        if !std::mem::replace(&mut seen[block], true) {
            work.extend(
                func.blocks[block]
                    .term
                    .targets()
                    .iter()
                    .map(|call| call.block),
            );
        }
    }
    for (block, data) in func.blocks.iter_mut() {
        if !seen[block] {
            data.insts.clear();
            data.params.clear();
            data.term = Terminator::Exit;
        }
    }
}

/// Predecessors write a block's parameters, so a parameter always escapes.
fn escapes(func: &Function) -> SecondaryMap<Value, bool> {
    let mut home: SecondaryMap<Value, Option<Block>> = SecondaryMap::new();
    let mut escapes: SecondaryMap<Value, bool> = SecondaryMap::new();
    for (block, data) in func.blocks.iter() {
        data.params.iter().for_each(|&param| escapes[param] = true);
        for &inst in &data.insts {
            func.insts[inst]
                .results
                .iter()
                .for_each(|&result| home[result] = Some(block));
        }
    }
    for (block, data) in func.blocks.iter() {
        let mut mark = |value: Value| escapes[value] |= home[value] != Some(block);
        data.insts
            .iter()
            .for_each(|&inst| func.insts[inst].data.args().into_iter().for_each(&mut mark));
        data.term.for_each_arg(&mut mark);
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
