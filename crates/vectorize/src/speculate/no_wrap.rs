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

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{
    Block, BlockCall, CompareOp, Function, Inst, InstData, IntBinaryOp, ResizeOp, Terminator, Type,
    Value, ValueDef,
};
use ptxjit_passes::transform::dce;
use rustc_hash::FxHashMap;

use crate::analysis::divergence::Divergence;
use crate::analysis::variability::Variability;
use crate::cost;
use crate::speculate::clone::{self, Copies};
use crate::speculate::stable::Stable;
use crate::{PlanFacts, order};

mod guards;
mod regions;
mod steps;

use guards::{Outcome, Test};
use regions::{detach_end, is_accessed, region};
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
pub(crate) fn run(
    func: &mut Function,
    entries: &[Block],
    gang: u32,
    facts: PlanFacts,
    assume_affine: bool,
) -> usize {
    if gang == 1 || !entries.is_empty() {
        return 0;
    }
    let mut done: SecondaryMap<Block, bool> = SecondaryMap::new();
    let mut n_copied = 0;
    let mut leads = find_leads(func);
    let mut known: Option<(Divergence, Stable)> = None;
    for block in func.blocks.keys().collect::<Vec<_>>() {
        let is_over = done[block] || n_copied == cost::MOST_STARTS;
        if is_over || !may_wrap(func, block, &leads) {
            continue;
        }
        let find = |func: &Function, known: &mut Option<(Divergence, Stable)>| {
            let analyze = || analyze(func, entries, (gang, facts), assume_affine);
            let (divergence, stable) = &*known.get_or_insert_with(analyze);
            let finder = Finder {
                func,
                divergence,
                stable,
                block,
            };
            finder.sites(&leads)
        };
        let mut sites = find(func, &mut known);
        let is_loop = |call: &&BlockCall| call.block == block;
        if !sites.is_empty() && func.blocks[block].term.targets().iter().any(is_loop) {
            detach_end(func, block, &sites);
            known = None;
            sites = find(func, &mut known);
        }
        let (Some((divergence, stable)), [first, ..]) = (&known, &sites[..]) else {
            continue;
        };
        let Some(region) = region(func, gang, block) else {
            continue;
        };
        let insts = &func.blocks[block].insts;
        let at = insts.iter().position(|&inst| inst == first.inst);
        let at = at.expect("the instruction is there");
        if is_accessed(func, (block, at), &region, &sites)
            && clone::can_copy(func, block, at, &region)
        {
            region.iter().for_each(|&block| done[block] = true);
            let rest = clone::split(func, block, at);
            copy(func, (divergence, stable), (block, rest), region, &sites);
            n_copied += 1;
            known = None;
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
fn may_wrap(func: &Function, block: Block, leads: &SecondaryMap<Value, bool>) -> bool {
    let mut insts = func.blocks[block].insts.iter();
    insts.any(|&inst| {
        let node = &func.insts[inst];
        is_candidate(&node.data) && node.results.iter().any(|&result| leads[result])
    })
}

fn analyze(
    func: &Function,
    entries: &[Block],
    (gang, facts): (u32, PlanFacts),
    assume_affine: bool,
) -> (Divergence, Stable) {
    let mut divergence = Divergence::new(gang, facts);
    let order = order::run(func, entries);
    divergence.propagate(func, &order);
    (divergence, Stable::new(func, order, assume_affine))
}

/// Whether an instruction can wrap or clamp an index.
#[expect(clippy::wildcard_enum_match_arm, reason = "others do not wrap")]
fn is_candidate(data: &InstData) -> bool {
    match data {
        InstData::Select { .. } => true,
        InstData::IntBinary { op, .. } => matches!(
            op,
            IntBinaryOp::Urem
                | IntBinaryOp::Srem
                | IntBinaryOp::Udiv
                | IntBinaryOp::Sdiv
                | IntBinaryOp::Ushr
                | IntBinaryOp::Sshr
                | IntBinaryOp::And
                | IntBinaryOp::Or
                | IntBinaryOp::Xor
                | IntBinaryOp::Umin
                | IntBinaryOp::Umax
                | IntBinaryOp::Smin
                | IntBinaryOp::Smax
        ),
        _ => false,
    }
}

/// Values that addresses of loads and stores depend on.
fn find_leads(func: &Function) -> SecondaryMap<Value, bool> {
    let mut leads: SecondaryMap<Value, bool> = SecondaryMap::new();
    let mut work: Vec<Value> = Vec::new();
    for node in func.insts.values() {
        work.extend(node.data.access().map(|access| access.addr));
    }
    while let Some(value) = work.pop() {
        if std::mem::replace(&mut leads[value], true) {
            continue;
        }
        match func.def_inst(value) {
            Some(InstData::IntBinary { op, args, .. }) => match op {
                IntBinaryOp::Shl | IntBinaryOp::Ushr | IntBinaryOp::Sshr => work.push(args[0]),
                IntBinaryOp::Add
                | IntBinaryOp::Sub
                | IntBinaryOp::Mul
                | IntBinaryOp::UmulWide
                | IntBinaryOp::SmulWide
                | IntBinaryOp::And
                | IntBinaryOp::Or
                | IntBinaryOp::Xor
                | IntBinaryOp::Urem
                | IntBinaryOp::Srem
                | IntBinaryOp::Udiv
                | IntBinaryOp::Sdiv
                | IntBinaryOp::Smin
                | IntBinaryOp::Smax
                | IntBinaryOp::Umin
                | IntBinaryOp::Umax => work.extend(args),
                IntBinaryOp::UmulHi
                | IntBinaryOp::SmulHi
                | IntBinaryOp::SaddSat
                | IntBinaryOp::SsubSat => {}
            },
            Some(&InstData::Resize {
                op: ResizeOp::Sext | ResizeOp::Uext,
                arg,
                ..
            }) => work.push(arg),
            Some(InstData::Select { args, .. }) => work.extend(args),
            _ => {}
        }
    }
    leads
}

struct Finder<'a> {
    func: &'a Function,
    divergence: &'a Divergence,
    stable: &'a Stable,
    block: Block,
}

impl Finder<'_> {
    /// The instructions of a block that may wrap an index of an address, in order.
    fn sites(&self, leads: &SecondaryMap<Value, bool>) -> Vec<Site> {
        let mut sites: Vec<Site> = Vec::new();
        for &inst in &self.func.blocks[self.block].insts {
            let node = &self.func.insts[inst];
            let [result] = node.results[..] else { continue };
            if !leads[result] || self.divergence.variability[result] != Some(Variability::Varying) {
                continue;
            }
            if let Some(site) = self.site(inst, &node.data, &sites)
                && sites.len() < cost::MOST_SITES
            {
                sites.push(site);
            }
        }
        sites
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "others do not wrap")]
    fn site(&self, inst: Inst, data: &InstData, before: &[Site]) -> Option<Site> {
        match *data {
            InstData::IntBinary {
                op,
                ty: ty @ (Type::B32 | Type::B64),
                args,
            } => self.computed(inst, op, ty, args, before),
            InstData::Select {
                ty: ty @ (Type::B32 | Type::B64),
                cond,
                args,
            } => self.chosen(inst, ty, cond, args, before),
            _ => None,
        }
    }

    /// Arithmetic on an index and a uniform value.
    fn computed(
        &self,
        inst: Inst,
        op: IntBinaryOp,
        ty: Type,
        [a, b]: [Value; 2],
        before: &[Site],
    ) -> Option<Site> {
        let can_negate = matches!(
            op,
            IntBinaryOp::And
                | IntBinaryOp::Or
                | IntBinaryOp::Xor
                | IntBinaryOp::Umin
                | IntBinaryOp::Umax
                | IntBinaryOp::Smin
                | IntBinaryOp::Smax
        );
        let (affine, bound) = match can_negate && self.is_even(a, before, cost::DEPTH_OF_INDEX) {
            true => (b, a),
            false => (a, b),
        };
        let kind = match op {
            IntBinaryOp::Urem | IntBinaryOp::Srem => Kind::Modulo(op),
            IntBinaryOp::And => mask_kind(self.func.as_const(bound), ty)?,
            IntBinaryOp::Or | IntBinaryOp::Xor => Kind::Bits(op),
            IntBinaryOp::Umin | IntBinaryOp::Umax | IntBinaryOp::Smin | IntBinaryOp::Smax => {
                Kind::Extreme(op)
            }
            IntBinaryOp::Udiv | IntBinaryOp::Sdiv | IntBinaryOp::Ushr | IntBinaryOp::Sshr => {
                Kind::Quotient(op)
            }
            IntBinaryOp::Add
            | IntBinaryOp::Sub
            | IntBinaryOp::Mul
            | IntBinaryOp::UmulHi
            | IntBinaryOp::SmulHi
            | IntBinaryOp::UmulWide
            | IntBinaryOp::SmulWide
            | IntBinaryOp::Shl
            | IntBinaryOp::SaddSat
            | IntBinaryOp::SsubSat => return None,
        };
        let stride = self.stride(affine, before, cost::DEPTH_OF_INDEX)?;
        let span = stride
            .unsigned_abs()
            .saturating_mul(u64::from(self.divergence.gang - 1));
        let period = self.period(op, bound, ty);
        let fits = period.is_none_or(|period| span < period);
        let gangs = cost::GANGS_PER_STEP.saturating_mul(span + 1);
        let divides = matches!(op, IntBinaryOp::Udiv | IntBinaryOp::Sdiv);
        let is_plain = ty == Type::B32 && stride > 0 && !self.divergence.facts.keeps_accesses;
        let steps = divides && is_plain && period.is_some_and(|period| period <= gangs);
        let kind = if steps { Kind::Step(op) } else { kind };
        let is_even = || self.is_even(bound, before, cost::DEPTH_OF_INDEX);
        (fits && is_even()).then_some(Site {
            inst,
            kind,
            ty,
            affine,
            bound,
        })
    }

    /// A selection by a comparison of an index.
    fn chosen(
        &self,
        inst: Inst,
        ty: Type,
        cond: Value,
        [a, b]: [Value; 2],
        before: &[Site],
    ) -> Option<Site> {
        let Some(&InstData::Compare {
            op,
            ty: Type::B32,
            args: [x, y],
        }) = self.func.def_inst(cond)
        else {
            return None;
        };
        if !self.is_even(y, before, cost::DEPTH_OF_INDEX) {
            return None;
        }
        self.stride(x, before, cost::DEPTH_OF_INDEX)?;
        let (affine, bound, unless) = match self.is_even(a, before, cost::DEPTH_OF_INDEX) {
            true => (b, a, true),
            false => (a, b, false),
        };
        self.stride(affine, before, cost::DEPTH_OF_INDEX)?;
        let kind = Kind::Chosen {
            op,
            compared: x,
            bound: y,
            unless,
        };
        self.is_even(bound, before, cost::DEPTH_OF_INDEX)
            .then_some(Site {
                inst,
                kind,
                ty,
                affine,
                bound,
            })
    }

    fn is_uniform(&self, value: Value) -> bool {
        self.divergence.variability[value]
            .is_none_or(|variability| variability == Variability::Uniform)
    }

    /// The distance between two points at which a remainder wraps, a quotient changes or bits are
    /// changed, if it is known.
    #[expect(clippy::wildcard_enum_match_arm, reason = "others have no period")]
    fn period(&self, op: IntBinaryOp, bound: Value, ty: Type) -> Option<u64> {
        let bound = self.func.as_const(bound)?;
        match op {
            IntBinaryOp::Urem | IntBinaryOp::Udiv => Some(bound),
            IntBinaryOp::Srem | IntBinaryOp::Sdiv => Some(if ty == Type::B32 {
                u64::from((bound as i32).unsigned_abs())
            } else {
                (bound as i64).unsigned_abs()
            }),
            IntBinaryOp::Ushr | IntBinaryOp::Sshr => 1u64.checked_shl(bound as u32),
            IntBinaryOp::Or | IntBinaryOp::Xor => 1u64.checked_shl(bound.trailing_zeros()),
            IntBinaryOp::And if bound & 1 == 0 => Some(1 << bound.trailing_zeros()),
            IntBinaryOp::And => Some(bound & ty.mask()).and_then(|mask| mask.checked_add(1)),
            _ => None,
        }
    }

    /// Whether a value is uniform if each of the quotients before is.
    fn is_even(&self, value: Value, before: &[Site], depth: u32) -> bool {
        if self.is_uniform(value) {
            return true;
        }
        let (Some(depth), ValueDef::Result(inst, _)) =
            (depth.checked_sub(1), self.func.values[value].def)
        else {
            return false;
        };
        let is_quotient = |site: &Site| site.inst == inst && matches!(site.kind, Kind::Quotient(_));
        if before.iter().any(is_quotient) {
            return true;
        }
        let data = &self.func.insts[inst].data;
        let is_simple = matches!(
            data,
            InstData::IntBinary { .. } | InstData::IntUnary { .. } | InstData::Resize { .. }
        );
        let mut args = data.args().into_iter();
        is_simple && args.all(|arg| self.is_even(arg, before, depth))
    }

    /// The stride of a value if none of the indices before wraps.
    #[expect(clippy::wildcard_enum_match_arm, reason = "others may be anything")]
    fn stride(&self, value: Value, before: &[Site], depth: u32) -> Option<i64> {
        let depth = depth.checked_sub(1)?;
        let is_short = |stride: &i64| {
            let span = stride
                .unsigned_abs()
                .saturating_mul(u64::from(self.divergence.gang - 1));
            span > 0 && span < 1 << 30
        };
        if let Some(Variability::Affine {
            stride,
            may_wrap: None,
            ..
        }) = self.divergence.variability[value]
        {
            return Some(stride).filter(|stride| {
                is_short(stride) && self.stable.is_stable_in(self.func, value, self.block)
            });
        }
        let ValueDef::Result(inst, _) = self.func.values[value].def else {
            return None;
        };
        if let Some(site) = before.iter().find(|site| site.inst == inst) {
            return match site.kind {
                Kind::Quotient(_) | Kind::Step(_) => None,
                Kind::Modulo(_) | Kind::Bits(_) | Kind::Extreme(_) | Kind::Chosen { .. } => {
                    self.stride(site.affine, before, depth)
                }
            };
        }
        match self.func.insts[inst].data {
            InstData::IntBinary {
                op: IntBinaryOp::Add,
                args: [a, b],
                ..
            } if self.is_even(a, before, depth) => self.stride(b, before, depth),
            InstData::IntBinary {
                op: IntBinaryOp::Add | IntBinaryOp::Sub,
                args: [a, b],
                ..
            } if self.is_even(b, before, depth) => self.stride(a, before, depth),
            _ => None,
        }
    }
}

/// Whether a mask keeps the low bits of an index, or drops them; `None` for other masks. An unknown
/// mask is taken to keep low bits.
fn mask_kind(mask: Option<u64>, ty: Type) -> Option<Kind> {
    let has_low_bits = |mask: u64| mask & mask.wrapping_add(1) == 0;
    match mask {
        Some(mask) if !has_low_bits(mask) => {
            has_low_bits(!mask & ty.mask()).then_some(Kind::Quotient(IntBinaryOp::And))
        }
        _ => Some(Kind::Modulo(IntBinaryOp::And)),
    }
}

/// Clones the rest of the block from the first of the instructions on, and the region.
fn copy(
    func: &mut Function,
    (divergence, stable): (&Divergence, &Stable),
    (start, rest): (Block, Block),
    region: Vec<Block>,
    sites: &[Site],
) {
    let loc = func.insts[sites[0].inst].loc;
    let n_before = func.blocks[start].insts.len();
    let mut test = Test {
        func,
        divergence,
        stable,
        block: start,
        rest,
        loc,
        ends: FxHashMap::default(),
        in_order: FxHashMap::default(),
    };
    let mut holds: Option<Value> = None;
    let mut passed: Vec<(Site, Outcome)> = Vec::new();
    for site in sites {
        let before = sites_of(&passed);
        let Some((here, outcome)) = test.site(site, &before) else {
            continue;
        };
        holds = Some(match holds {
            None => here,
            Some(all) => test.both(all, here),
        });
        passed.push((*site, outcome));
    }
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
    let mut steps = Steps::new((divergence, stable), start, &copies, &before);
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
    let ValueDef::Result(inst, _) = func.values[result].def else {
        unreachable!("copies of instructions are instructions")
    };
    let mut zero = || {
        let zero = func.make_inst(InstData::Const { ty, bits: 0 }, &[ty], loc);
        func.blocks[start].insts.push(zero);
        func.insts[zero].results[0]
    };
    let args = match outcome {
        Outcome::Away(distance) => [same(site.affine), distance],
        Outcome::Affine => [same(site.affine), zero()],
        Outcome::Same(value) => [value, zero()],
        Outcome::Step(_) => unreachable!("steps are selections"),
    };
    func.insts[inst].data = InstData::IntBinary {
        op: IntBinaryOp::Add,
        ty,
        args,
    };
}
