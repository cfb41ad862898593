//! In which units a node's instructions are emitted, and in which order.
//!
//! Effects keep their order. Between them pure instructions form runs, in which the order is free:
//! op by op, strip by strip where all quads together would not fit the registers, or by chains.

use std::borrow::Cow;

use ptxjit_ir::{Block, FloatBinaryOp, FloatFmt, FloatUnaryOp, Inst, InstData};
use ptxjit_vectorize::Variability;
use smallvec::{SmallVec, smallvec};

use super::access_kinds::AccessKind;
use super::atomics::AtomicKind;
use super::mask_classes::MaskClass;
use super::nodes::NodeForm;
use super::products::Group;
use super::{Assumed, Decisions, is_pure};
use crate::chains::Schedule;
use crate::schedule;

/// What is emitted at once.
pub(crate) enum Unit {
    /// A pure instruction, for all quads.
    Op(Inst),
    /// Pure instructions: all of them for the quads of a strip, then for those of the next.
    Strips(Vec<Inst>),
    /// A pure instruction on packed vectors.
    Packed(Inst),
    /// A minimum or maximum of which one test per gang finds NaNs.
    MinMax(Inst),
    /// A canonicalization of which one test per gang finds NaNs.
    CanonicalNans(Inst),
    /// A run in groups of chains.
    Chains(Schedule),
    /// Products of matrices, as one call.
    Products(Group),
    /// A load and the store of what it gives, lane by lane.
    Copy(Inst, Inst),
    /// A load or a store.
    Access(Inst, AccessKind),
    /// An atomic.
    Atomic(Inst, AtomicKind),
    /// Another effect.
    Effect(Inst),
}

/// The units of some instructions.
#[derive(Default)]
pub(super) struct Units {
    pub units: Vec<Unit>,
    /// How many instructions of the nodes that continue this one are done with them.
    pub beyond: usize,
}

impl<'a> Decisions<'a> {
    /// The versions in which a node is emitted, that for whole gangs first.
    pub(super) fn versions(&self, pos: usize, block: Block) -> SmallVec<[Assumed<'a>; 2]> {
        let any = Assumed {
            is_full: self.inputs.whole_gangs && self.classes.body[pos] == MaskClass::Entry,
            ..Assumed::default()
        };
        let general = Assumed {
            is_general: true,
            ..any
        };
        let is_proven = self.cta_ranges.nodes.contains(&pos);
        match self.forms[pos] {
            NodeForm::LoopEnd => smallvec![],
            NodeForm::Once => smallvec![any],
            NodeForm::SingleLane => smallvec![Assumed {
                one_lane: true,
                ..any
            }],
            NodeForm::LaneLoop => smallvec![Assumed {
                one_lane: true,
                ..general
            }],
            NodeForm::Cold => smallvec![Assumed {
                is_cold: true,
                ..general
            }],
            NodeForm::Twice => {
                let whole = Assumed {
                    is_full: true,
                    is_proven,
                    affine_inputs: self.plan.affine_inputs[block].as_ref(),
                    ..any
                };
                // Whole gangs come to the second, too, if their CTA has not passed.
                let others = if is_proven { any } else { general };
                smallvec![whole, others]
            }
        }
    }

    /// The instructions of a block but the one at which its lanes wait: those that are emitted in
    /// any case, and those of a branch that is mostly decided once per CTA.
    pub(super) fn early_and_late(&self, block: Block) -> (Cow<'a, [Inst]>, Vec<Inst>) {
        let insts = self.insts_after_wait(block);
        let Some(late) = self.cta_branches.late.get(&block) else {
            return (Cow::Borrowed(insts), Vec::new());
        };
        let is_early = |inst: &Inst| !self.cta_branches.is_late(block, *inst);
        let early = insts.iter().copied().filter(is_early);
        (early.collect(), late.clone())
    }

    /// The units of instructions of a block, all that come after some of its first ones.
    pub(super) fn units(&mut self, block: Block, insts: &[Inst], assumed: Assumed<'_>) -> Units {
        let mut out = Units::default();
        let mut rest = insts;
        while !rest.is_empty() {
            let n = match self.stretch(rest, assumed) {
                0 => self.effect(block, rest, assumed, &mut out.units),
                n => {
                    self.stretch_units(block, &rest[..n], assumed, &mut out.units);
                    n
                }
            };
            out.beyond = n.saturating_sub(rest.len());
            rest = &rest[n.min(rest.len())..];
        }
        out
    }

    /// The unit of the first instruction, which is not pure, and of those that it takes along.
    /// Returns how many instructions these are.
    fn effect(
        &mut self,
        block: Block,
        insts: &[Inst],
        assumed: Assumed<'_>,
        units: &mut Vec<Unit>,
    ) -> usize {
        if let Some(group) = self.group(block, insts, assumed) {
            self.in_order(&group.early, assumed, units);
            let n_insts = group.n_insts;
            units.push(Unit::Products(group));
            return n_insts;
        }
        if let &[load, store, ..] = insts
            && self.is_copied_by_lane(load, store, assumed)
        {
            units.push(Unit::Copy(load, store));
            return 2;
        }
        if !self.is_done(insts[0]) {
            units.push(self.unit_of(insts[0], assumed));
        }
        1
    }

    /// An instruction that is not pure.
    fn unit_of(&mut self, inst: Inst, assumed: Assumed<'_>) -> Unit {
        if let Some(access) = self.func.insts[inst].data.access() {
            return Unit::Access(inst, self.access_kind(access, assumed));
        }
        match self.atomic_kind(inst, assumed) {
            Some(kind) => Unit::Atomic(inst, kind),
            None => Unit::Effect(inst),
        }
    }

    /// Masked loads test the mask, and code with branches keeps no schedule: only whole gangs run
    /// chain by chain.
    fn stretch_units(
        &self,
        block: Block,
        stretch: &[Inst],
        assumed: Assumed<'_>,
        units: &mut Vec<Unit>,
    ) {
        let schedule = match assumed.is_full {
            true => self.by_chains(block, stretch, assumed),
            false => None,
        };
        match schedule {
            Some(schedule) => units.push(Unit::Chains(schedule)),
            None => self.in_order(stretch, assumed, units),
        }
    }

    /// Loads where they are, and the runs of pure instructions between them.
    pub(super) fn in_order(&self, stretch: &[Inst], assumed: Assumed<'_>, units: &mut Vec<Unit>) {
        for run in stretch.chunk_by(|&a, &b| self.is_pure(a) && self.is_pure(b)) {
            // The lanes of its accesses do not vary.
            let access = self.func.insts[run[0]].data.access();
            match access.map(|access| self.proved_kind(access, assumed)) {
                Some(kind) => units.push(Unit::Access(run[0], kind)),
                None => self.run(run, assumed, units),
            }
        }
    }

    fn is_pure(&self, inst: Inst) -> bool {
        is_pure(&self.func.insts[inst].data)
    }

    /// A run of pure instructions.
    fn run(&self, run: &[Inst], assumed: Assumed<'_>, units: &mut Vec<Unit>) {
        let wanted = run.iter().copied().filter(|&inst| !self.is_done(inst));
        let wanted: Vec<Inst> = wanted.collect();
        let is_last = |&inst: &Inst| self.canonicalizes_last(inst, &wanted, assumed);
        let (last, wanted): (Vec<Inst>, Vec<Inst>) =
            wanted.iter().partition(|&&inst| is_last(&inst));
        let is_packed = |inst: Inst| self.makes_subword(inst, assumed);
        for group in wanted.chunk_by(|&a, &b| is_packed(a) == is_packed(b)) {
            match is_packed(group[0]) {
                true => units.extend(group.iter().map(|&inst| Unit::Packed(inst))),
                false => self.quads(group, assumed, units),
            }
        }
        units.extend(last.into_iter().map(Unit::CanonicalNans));
    }

    /// Instructions whose results are held as quads.
    fn quads(&self, insts: &[Inst], assumed: Assumed<'_>, units: &mut Vec<Unit>) {
        let n_strips = self.n_quads() / self.strip();
        let pressure = schedule::pressure(self.func, self.plan, insts);
        if n_strips > 1 && pressure * n_strips > schedule::REGISTERS {
            return units.push(Unit::Strips(insts.to_vec()));
        }
        let unit = |&inst: &Inst| match self.is_min_max_of_gang(inst, assumed) {
            true => Unit::MinMax(inst),
            false => Unit::Op(inst),
        };
        units.extend(insts.iter().map(unit));
    }

    fn n_quads(&self) -> usize {
        self.plan.gang.div_ceil(4) as usize
    }

    /// Quads that share a register in the end: code that handles a part of the gang at a time
    /// handles this many.
    pub(crate) fn strip(&self) -> usize {
        (self.inputs.target.lanes_of_vector() / 4).min(self.n_quads())
    }

    /// Whether a canonicalization of NaNs comes after its run, which does not use it, as one test
    /// finds whether any lane of the gang has a NaN.
    fn canonicalizes_last(&self, inst: Inst, run: &[Inst], assumed: Assumed<'_>) -> bool {
        let node = &self.func.insts[inst];
        let result = node.results[0];
        let uses_it = |&other: &Inst| self.func.insts[other].data.args().contains(&result);
        self.n_quads() > 1
            && makes_nans_canonical(&node.data)
            && self.variability(result, assumed) == Variability::Varying
            && !run.iter().any(uses_it)
    }

    /// Whether an instruction is a minimum or maximum for which one test per gang finds NaNs. In
    /// cold code, less code is better.
    fn is_min_max_of_gang(&self, inst: Inst, assumed: Assumed<'_>) -> bool {
        let node = &self.func.insts[inst];
        let InstData::FloatBinary { op, fmt, args, .. } = node.data else {
            return false;
        };
        matches!(op, FloatBinaryOp::Min | FloatBinaryOp::Max)
            && fmt == FloatFmt::F32
            && self.n_quads() > 1
            && !assumed.is_general
            && self.variability(node.results[0], assumed) == Variability::Varying
            && args.iter().all(|&arg| self.func.as_const(arg).is_none())
    }

    /// Whether a load and the store behind it are a copy whose lanes are scattered on both sides.
    fn is_copied_by_lane(&mut self, load: Inst, store: Inst, assumed: Assumed<'_>) -> bool {
        let is_copy = self.plan.gang > 1 && !assumed.one_lane && self.copies.contains(load);
        let mut both = [load, store].into_iter();
        is_copy
            && both.all(|inst| {
                let access = self.func.insts[inst].data.access();
                let access = access.expect("a copy is a load and a store");
                self.access_kind(access, assumed) == AccessKind::Scattered
            })
    }
}

fn makes_nans_canonical(data: &InstData) -> bool {
    let InstData::FloatUnary { op, fmt, .. } = *data else {
        return false;
    };
    op == FloatUnaryOp::CanonicalNan && fmt == FloatFmt::F32
}
