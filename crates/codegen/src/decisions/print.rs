//! The program of a gang as text, for `ptxjit dump --after gang` and for snapshot tests: the loops
//! around the nodes, and each node with its versions and what is emitted for them, in that order.

use std::fmt::Write;

use ptxjit_ir::{Block, Inst, Value, print};
use ptxjit_vectorize::print::{of_value, variability, why_waits};
use ptxjit_vectorize::{Node, Variability};

use super::access_kinds::AccessKind;
use super::atomics::AtomicKind;
use super::cta_ranges::Scope;
use super::mask_classes::MaskClass;
use super::nodes::NodeForm;
use super::program::{Program, Version};
use super::units::Unit;
use super::{Assumed, Decisions};
use crate::chains;

/// The whole program.
pub(crate) fn program(decided: &Decisions<'_>, program: &Program<'_>) -> String {
    let mut printer = Printer {
        decided,
        out: String::new(),
        version: Assumed::default(),
        indent: "  ",
    };
    printer.loops();
    for (pos, versions) in program.nodes.iter().enumerate() {
        printer.node(pos, versions);
    }
    printer.out
}

struct Printer<'p> {
    decided: &'p Decisions<'p>,
    out: String,
    /// What holds in the version that is printed.
    version: Assumed<'p>,
    indent: &'static str,
}

impl<'p> Printer<'p> {
    /// The loops over CTAs and gangs, and what is computed in them ahead of the nodes.
    fn loops(&mut self) {
        self.out += "for each CTA\n";
        self.ahead(&self.decided.invariants.of_cta);
        let ranges = &self.decided.cta_ranges;
        let (n_accesses, scope) = (ranges.accesses.len(), ranges.scope);
        if n_accesses > 0 {
            let of = match scope {
                Scope::Row => ", for many CTAs at once",
                Scope::Cta => "",
            };
            let _ = writeln!(self.out, "  tested accesses: {n_accesses}{of}");
        }
        let n_branches = self.decided.cta_branches.branches.len();
        if n_branches > 0 {
            let _ = writeln!(self.out, "  decided branches: {n_branches}");
        }
        for nth in 0..self.decided.plan.waits.len() {
            self.phase(nth);
        }
        self.indent = "    ";
        self.ahead(&self.decided.invariants.of_gang);
    }

    /// The loop over gangs that enters them at a resume point.
    fn phase(&mut self, nth: usize) {
        let why = why_waits(self.decided.plan.waits[nth].kind);
        let next = match self.decided.phases.next(nth).map(usize::from) {
            Some(next) if next < self.decided.plan.waits.len() => format!("all are at {next}"),
            Some(_) => "the CTA has ended".to_owned(),
            None => "they are where they have stopped".to_owned(),
        };
        let _ = writeln!(
            self.out,
            "  for each gang at resume point {nth} ({why}); then {next}"
        );
    }

    fn ahead(&mut self, insts: &[(Value, Inst)]) {
        for &(_, inst) in insts {
            self.line(inst, "");
        }
    }

    /// A node: which lanes run, and its versions.
    fn node(&mut self, pos: usize, versions: &[Version<'p>]) {
        let what = match self.decided.plan.order.nodes[pos] {
            Node::LoopEnd(header) => format!("end of the loop of {header}"),
            Node::Block(block) => block.to_string(),
        };
        let follows = match self.decided.falls_through(pos) {
            true => ", continuing the node before",
            false => "",
        };
        let lanes = self.lanes(pos);
        let _ = writeln!(self.out, "\n{pos}: {what}: {lanes}{follows}");
        if let Node::Block(block) = self.decided.plan.order.nodes[pos] {
            self.block(pos, block, versions);
        }
    }

    /// The lanes that run a node.
    fn lanes(&self, pos: usize) -> String {
        match self.decided.classes.body[pos] {
            MaskClass::Entry => "all lanes that entered".to_owned(),
            MaskClass::Lane => "one lane after the other".to_owned(),
            MaskClass::Predicate => unreachable!("nodes have masks of their own"),
            MaskClass::Own(node) if self.decided.counted[node] => format!("mask {node}, as bits"),
            MaskClass::Own(node) => format!("mask {node}, as vectors"),
        }
    }

    fn block(&mut self, pos: usize, block: Block, versions: &[Version<'p>]) {
        self.version = Assumed::default();
        let data = &self.decided.func.blocks[block];
        for &param in &data.params {
            let held = self.held(param);
            let _ = writeln!(self.out, "  {param}: {held}");
        }
        for version in versions {
            self.version = version.assumed;
            self.indent = "  ";
            if let Some(guard) = self.guard(pos, versions.len()) {
                let _ = writeln!(self.out, "  {guard}:");
                self.indent = "    ";
            }
            self.units_of(version);
        }
        let term = print::terminator(&data.term);
        let _ = writeln!(self.out, "  {}", term.trim());
    }

    /// For which gangs a version is.
    fn guard(&self, pos: usize, n_versions: usize) -> Option<String> {
        match self.decided.forms[pos] {
            NodeForm::Cold => Some("few gangs".to_owned()),
            NodeForm::SingleLane => Some("one lane".to_owned()),
            NodeForm::LaneLoop | NodeForm::LoopEnd | NodeForm::Twice | NodeForm::Once => {
                (n_versions > 1).then(|| self.guard_of_two())
            }
        }
    }

    fn guard_of_two(&self) -> String {
        if !self.version.is_full {
            return "others".to_owned();
        }
        let mut guard = "if all lanes run".to_owned();
        if self.version.is_proven {
            guard += ", and the CTA has passed its tests";
        }
        let inputs = self.version.affine_inputs.iter();
        for (value, held) in inputs.flat_map(|found| &found.inputs) {
            let _ = write!(guard, ", and {value} is {}", variability(*held));
        }
        guard
    }

    /// What is emitted for a version.
    fn units_of(&mut self, version: &Version<'_>) {
        version.early.iter().for_each(|unit| self.unit(unit));
        if !version.late.is_empty() {
            let indent = self.indent;
            let _ = writeln!(self.out, "{indent}unless the CTA decides the branch:");
            self.nested(|printer| version.late.iter().for_each(|unit| printer.unit(unit)));
        }
    }

    /// Prints with more indentation.
    fn nested(&mut self, print: impl FnOnce(&mut Self)) {
        let indent = self.indent;
        self.indent = match indent.len() {
            2 => "    ",
            _ => "      ",
        };
        print(self);
        self.indent = indent;
    }

    fn unit(&mut self, unit: &Unit) {
        match unit {
            Unit::Op(inst) => self.line(*inst, ""),
            Unit::Packed(inst) => self.line(*inst, "packed: "),
            Unit::MinMax(inst) | Unit::CanonicalNans(inst) => {
                self.line(*inst, "one test for NaNs: ");
            }
            Unit::Copy(load, store) => {
                for inst in [load, store] {
                    self.line(*inst, "each lane: ");
                }
            }
            Unit::Access(inst, kind) => {
                let lanes = self.lanes_of(*inst, *kind);
                self.noted(*inst, "", lanes);
            }
            Unit::Atomic(inst, kind) => self.noted(*inst, "", how(*kind).map(str::to_owned)),
            Unit::Effect(inst) => self.line(*inst, ""),
            Unit::Strips(insts) => {
                let _ = writeln!(self.out, "{}strip by strip:", self.indent);
                self.nested(|printer| insts.iter().for_each(|&inst| printer.line(inst, "")));
            }
            Unit::Chains(schedule) => {
                let _ = writeln!(self.out, "{}strip by strip, in chains:", self.indent);
                self.nested(|printer| schedule.steps.iter().for_each(|&step| printer.chain(step)));
            }
            Unit::Products(group) => {
                let (n, a, b) = (group.products.len(), group.a.len(), group.b.len());
                let indent = self.indent;
                let _ = writeln!(self.out, "{indent}{n} products of {a} by {b} factors");
            }
        }
    }

    fn chain(&mut self, step: chains::Step) {
        match step {
            chains::Step::Pure(inst) | chains::Step::Load(inst) => self.line(inst, ""),
            chains::Step::Element(inst, k) => self.line(inst, &format!("element {k}: ")),
        }
    }

    /// An instruction, and how its results are held; of an access what is proved of its lanes.
    fn line(&mut self, inst: Inst, note: &str) {
        let access = self.decided.func.insts[inst].data.access();
        let kind = access.map(|access| self.decided.proved_kind(access, self.version));
        let lanes = kind.and_then(|kind| self.lanes_of(inst, kind));
        self.noted(inst, note, lanes);
    }

    /// An instruction, how its results are held, and what its lanes do.
    fn noted(&mut self, inst: Inst, note: &str, lanes: Option<String>) {
        let text = print::inst(self.decided.func, inst);
        let results = self.decided.func.insts[inst].results.iter();
        let mut notes: Vec<String> = results.map(|&result| self.held(result)).collect();
        notes.extend(lanes);
        notes.dedup();
        let _ = write!(self.out, "{}{note}{}", self.indent, text.trim());
        if !notes.is_empty() {
            let _ = write!(self.out, "  ; {}", notes.join("; "));
        }
        self.out.push('\n');
    }

    /// How a value is held.
    fn held(&self, value: Value) -> String {
        let here = self.decided.variability(value, self.version);
        if here != self.decided.plan.variability[value] {
            return variability(here);
        }
        let text = of_value(self.decided.plan, value);
        match here {
            Variability::Varying if self.decided.in_bits[value] => text + ", as bits",
            Variability::Varying if self.decided.packed.carried[value] => text + ", packed",
            Variability::Varying if self.decided.residents.home(value).is_some() => {
                text + ", in the frame"
            }
            Variability::Varying | Variability::Uniform | Variability::Affine { .. } => text,
        }
    }

    /// How the lanes of an access lie, and whether it was tested.
    fn lanes_of(&self, inst: Inst, kind: AccessKind) -> Option<String> {
        let access = self.decided.func.insts[inst].data.access()?;
        let tested = match self.decided.is_tested_before(access, self.version) {
            true => ", tested before",
            false => "",
        };
        let places = match kind {
            AccessKind::Lane => return None,
            AccessKind::Local => "each lane's own memory".to_owned(),
            AccessKind::Broadcast => "one place".to_owned(),
            AccessKind::Strided { bytes, may_wrap } => {
                let wraps = if may_wrap {
                    " unless an index wraps"
                } else {
                    ""
                };
                match bytes == i64::from(access.bytes) {
                    true => format!("contiguous{wraps}"),
                    false => format!("{bytes} bytes apart{wraps}"),
                }
            }
            AccessKind::Guarded => "contiguous if a guard finds so".to_owned(),
            AccessKind::Scattered => "each lane elsewhere".to_owned(),
        };
        Some(places + tested)
    }
}

/// How the lanes of an atomic update memory.
fn how(kind: AtomicKind) -> Option<&'static str> {
    match kind {
        AtomicKind::Lane => None,
        AtomicKind::Combined(_) => Some("operands combined"),
        AtomicKind::Tickets => Some("one sum, of which each lane gets its part"),
        AtomicKind::InOrder => Some("one place, read and written once"),
        AtomicKind::Rows(_) => Some("rows at once if they are aligned"),
        AtomicKind::Unrolled => Some("lane after lane, unrolled if all run"),
        AtomicKind::Loop => Some("lane after lane"),
    }
}
