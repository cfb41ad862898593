//! Versions regions for gangs in which no index wraps around or is clamped.
//!
//! `(x + 1) % w`, `(x - 1) & (w - 1)`, `max(x - 1, 0)` and `x == 0 ? w - 1 : x - 1` are affine like
//! `x` in all gangs but those at a border, and the first and the last lane tell which gangs those
//! are. So is `x ^ j`, the partner of a sorting network or a butterfly, if `j` has no bit in which
//! lanes differ. The code that accesses memory at such indices is copied for gangs away from the
//! border: there the indices are affine, no remainder is computed per lane, and accesses are
//! contiguous. The other gangs run the original.
//!
//! ```text
//! block1: v3 = urem v2, v0; ...; v6 = load [v3]
//! =>
//! block1: v7 = end_lane.first v2; v8 = urem v7, v0; ...; brif v9, block6, block5
//! block5: v3 = urem v2, v0; ...; v6 = load [v3]
//! block6: v10 = isub v8, v7; v11 = iadd v2, v10; ...; v12 = load [v11]
//! ```
//!
//! Of rows that are little longer than a gang, most gangs have elements of two (`steps`).

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{
    Block, BlockCall, CompareOp, Function, Inst, InstData, IntBinaryOp, Terminator, Type, Value,
};
use ptxjit_passes::transform::dce;
use rustc_hash::FxHashMap;

use crate::analysis::divergence::Divergence;
use crate::cost;
use crate::speculate::clone::{self, Copies};
use crate::speculate::stable::Stable;
use crate::{Setup, order};

mod guards;
mod regions;
mod sites;
mod steps;

use guards::{Outcome, Test};
use regions::{detach_end, is_accessed, region};
use sites::{Finder, Leads, find_leads, is_candidate};
use steps::Steps;

/// How an index may deviate from an affine one.
#[derive(Copy, Clone)]
enum Kind {
    /// A remainder, or a mask of low bits.
    Modulo(IntBinaryOp),
    /// Bits changed by an exclusive or, or set.
    Bits(IntBinaryOp),
    /// The lesser or greater of it and a border: a clamp.
    Extreme(IntBinaryOp),
    /// The same of a place in a row, of which a gang has the end of one and the start of the next:
    /// of a uniform value and a remainder by this divisor.
    RowExtreme(IntBinaryOp, i64),
    /// A quotient, or an index without its low bits: uniform unless a multiple lies between two
    /// lanes.
    Quotient(IntBinaryOp),
    /// A quotient by a constant of which most gangs have two: the lanes from some on have the next
    /// one.
    Step(IntBinaryOp),
    /// A selection: another value if a comparison holds, or if it does not hold.
    Chosen {
        op: CompareOp,
        compared: Value,
        bound: Value,
        unless: bool,
    },
}

/// An instruction that may wrap or clamp an index.
#[derive(Copy, Clone)]
struct Site {
    inst: Inst,
    kind: Kind,
    ty: Type,
    /// The index. Where nothing wraps, the result is at a uniform distance from it; except for
    /// quotients.
    affine: Value,
    /// The divisor, the mask, the bits or the border.
    bound: Value,
}

/// Versions the code behind such instructions; returns how many versions were made.
pub(crate) fn run(func: &mut Function, setup: &Setup<'_>) -> usize {
    if !setup.starts_together() {
        return 0;
    }
    let mut done: SecondaryMap<Block, bool> = SecondaryMap::new();
    let mut n_copied = 0;
    let mut leads = find_leads(func);
    let mut analyses = Analyses { setup, known: None };
    for block in func.blocks.keys().collect::<Vec<_>>() {
        let is_over = done[block] || n_copied == cost::MOST_STARTS;
        if is_over || !may_wrap(func, block, &leads) {
            continue;
        }
        let mut sites = analyses.sites(func, block, &leads);
        if !sites.is_empty() && func.successors(block).any(|to| to == block) {
            detach_end(func, block, &sites);
            analyses.known = None;
            sites = analyses.sites(func, block, &leads);
        }
        let [first, ..] = sites[..] else {
            continue;
        };
        let Some(region) = region(func, setup.gang, block) else {
            continue;
        };
        let insts = &func.blocks[block].insts;
        let at = insts.iter().position(|&inst| inst == first.inst);
        let at = at.expect("the instruction is there");
        if is_accessed(func, (block, at), &region, &sites)
            && clone::can_copy(func, block, at, &region)
        {
            region.iter().for_each(|&block| done[block] = true);
            let known = analyses.known.take().expect("the sites are from it");
            let rest = clone::split(func, block, at);
            copy(func, &known, (block, rest), region, &sites);
            n_copied += 1;
            leads = find_leads(func);
        }
    }
    // Of loads that were split, the whole address; what only a branch uses then is emitted there.
    if n_copied > 0 {
        dce::run(func);
    }
    n_copied
}

/// Whether an index of the block that leads to an address may wrap.
fn may_wrap(func: &Function, block: Block, leads: &Leads) -> bool {
    let mut nodes = func.insts_in(block);
    nodes.any(|node| is_candidate(&node.data) && node.results.iter().any(|&result| leads[result]))
}

/// The analyses of a function, for as long as it does not change.
struct Analyses<'a> {
    setup: &'a Setup<'a>,
    known: Option<Known>,
}

/// What the analyses know.
struct Known {
    divergence: Divergence,
    stable: Stable,
}

impl Known {
    fn new(func: &Function, setup: &Setup<'_>) -> Known {
        let mut divergence = Divergence::new(setup.gang, setup.facts);
        let order = order::run(func, &[]);
        divergence.propagate(func, &order);
        let stable = Stable::new(func, order, setup.assume_affine);
        Known { divergence, stable }
    }
}

impl Analyses<'_> {
    /// The instructions of a block that may wrap an index of an address.
    fn sites(&mut self, func: &Function, block: Block, leads: &Leads) -> Vec<Site> {
        let new = || Known::new(func, self.setup);
        let known = &*self.known.get_or_insert_with(new);
        Finder { func, known, block }.sites(leads)
    }
}

/// Clones the rest of the block from the first of the instructions on, and the region.
fn copy(
    func: &mut Function,
    known: &Known,
    (start, rest): (Block, Block),
    region: Vec<Block>,
    sites: &[Site],
) {
    let loc = func.insts[sites[0].inst].loc;
    let n_before = func.blocks[start].insts.len();
    let mut test = Test {
        func,
        known,
        block: start,
        rest,
        loc,
        ends: FxHashMap::default(),
        in_order: FxHashMap::default(),
    };
    let (holds, passed) = guard(&mut test, sites);
    let Some(holds) = holds else {
        let data = std::mem::take(&mut func.blocks[rest]);
        let start = &mut func.blocks[start];
        start.insts.truncate(n_before);
        start.insts.extend(data.insts);
        (start.term, start.term_loc) = (data.term, data.term_loc);
        return;
    };
    let old: Vec<Block> = std::iter::once(rest).chain(region).collect();
    let copies = Copies::new(func, old, &[]);
    let same = |value: Value| copies.values.get(&value).copied().unwrap_or(value);
    let before = sites_of(&passed);
    let mut steps = Steps::new(known, start, &copies, &before);
    for (site, outcome) in passed {
        match outcome {
            Outcome::Step(quotients) => steps.put(func, &site, quotients),
            Outcome::Away(_) | Outcome::Affine | Outcome::Same(_) => {
                put_sum(func, start, &site, outcome, &same);
            }
        }
    }
    steps.split_all(func);
    func.blocks[start].term = Terminator::Brif {
        cond: holds,
        then_: BlockCall::new(copies.blocks[&rest]),
        else_: BlockCall::new(rest),
    };
    func.blocks[start].term_loc = loc;
    copies.repair_uses(func, None);
}

/// Emits the tests of all sites: whether no index wraps, and what each is then.
fn guard(test: &mut Test<'_>, sites: &[Site]) -> (Option<Value>, Vec<(Site, Outcome)>) {
    let mut holds: Option<Value> = None;
    let mut passed: Vec<(Site, Outcome)> = Vec::new();
    for site in sites {
        // A place in a row depends on the step itself.
        let before: Vec<Site> = match matches!(site.kind, Kind::RowExtreme(..)) {
            true => passed.iter().map(|&(site, _)| site).collect(),
            false => sites_of(&passed),
        };
        let Some((here, outcome)) = test.site(site, &before) else {
            continue;
        };
        holds = Some(match holds {
            None => here,
            Some(all) => test.both(all, here),
        });
        passed.push((*site, outcome));
    }
    (holds, passed)
}

/// The sites of which the rest of a block is known to depend by uniform distances.
fn sites_of(passed: &[(Site, Outcome)]) -> Vec<Site> {
    let is_step = |site: &Site| matches!(site.kind, Kind::Step(_));
    let sites = passed.iter().map(|&(site, _)| site);
    sites.filter(|site| !is_step(site)).collect()
}

/// Makes the copy of a site's instruction a sum that says what the test has found. Values are the
/// copies' by `same`; constants go to the end of `start`.
fn put_sum(
    func: &mut Function,
    start: Block,
    site: &Site,
    outcome: Outcome,
    same: &dyn Fn(Value) -> Value,
) {
    let (loc, ty) = (func.insts[site.inst].loc, site.ty);
    let result = same(func.insts[site.inst].results[0]);
    let inst = func
        .maker(result)
        .expect("copies of instructions are instructions");
    let mut zero = || func.append(start, InstData::Const { ty, bits: 0 }, ty, loc);
    let args = match outcome {
        Outcome::Away(distance) => [same(site.affine), distance],
        Outcome::Affine => [same(site.affine), zero()],
        Outcome::Same(value) => [value, zero()],
        Outcome::Step(_) => unreachable!("steps are selections"),
    };
    func.insts[inst].data = InstData::binary(IntBinaryOp::Add, ty, args);
}
