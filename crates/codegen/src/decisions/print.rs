//! The program of a gang as text, for `ptxjit dump --after gang` and for snapshot tests: the loops
//! around the nodes, and each node with its versions and what is emitted for them, in that order.

use std::fmt::Write;

use ptxjit_ir::{Access, Block, Inst, Space, Value, print};
use ptxjit_vectorize::print::{of_value, variability, why_waits};
use ptxjit_vectorize::{Node, Variability};

use super::cta_ranges::Scope;
use super::mask_classes::MaskClass;
use super::nodes::NodeForm;
use super::units::Unit;
use super::{Assumed, Decisions};
use crate::chains;

/// The whole program.
pub(crate) fn program(decided: &mut Decisions<'_>) -> String {
    let mut printer = Printer {
        decided,
        out: String::new(),
        n_done: 0,
        version: Assumed::default(),
        indent: "  ",
    };
    printer.loops();
    for pos in 0..printer.decided.plan.order.nodes.len() {
        printer.node(pos);
    }
    printer.out
}

struct Printer<'p, 'a> {
    decided: &'p mut Decisions<'a>,
    out: String,
    /// How many of the instructions that come next are done.
    n_done: usize,
    /// The version that is printed.
    version: Assumed<'a>,
    indent: &'static str,
}

impl<'a> Printer<'_, 'a> {
    /// The loops over CTAs and gangs, and what is computed in them ahead of the nodes.
    fn loops(&mut self) {
        self.out += "for each CTA\n";
        self.ahead(&self.decided.invariants.of_cta.clone());
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
        for number in 0..self.decided.plan.waits.len() {
            self.phase(number);
        }
        self.indent = "    ";
        self.ahead(&self.decided.invariants.of_gang.clone());
    }

    /// The loop over gangs that enters them at a resume point.
    fn phase(&mut self, number: usize) {
        let why = why_waits(self.decided.plan.waits[number].kind);
        let next = match self.decided.phases.next(number).map(usize::from) {
            Some(next) if next < self.decided.plan.waits.len() => format!("all are at {next}"),
            Some(_) => "the CTA has ended".to_owned(),
            None => "they are where they have stopped".to_owned(),
        };
        let _ = writeln!(
            self.out,
            "  for each gang at resume point {number} ({why}); then {next}"
        );
    }

    fn ahead(&mut self, insts: &[(Value, Inst)]) {
        for &(_, inst) in insts {
            self.line(inst, "");
        }
    }

    /// A node: which lanes run, and its versions.
    fn node(&mut self, pos: usize) {
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
            self.block(pos, block);
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

    fn block(&mut self, pos: usize, block: Block) {
        self.version = Assumed::default();
        let data = &self.decided.func.blocks[block];
        for &param in &data.params {
            let held = self.held(param);
            let _ = writeln!(self.out, "  {param}: {held}");
        }
        let versions = self.decided.versions(pos, block);
        let n_done = self.n_done;
        for &version in &versions {
            (self.version, self.n_done) = (version, n_done);
            self.indent = "  ";
            if let Some(guard) = self.guard(pos, versions.len()) {
                let _ = writeln!(self.out, "  {guard}:");
                self.indent = "    ";
            }
            self.units_of(block);
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
    fn units_of(&mut self, block: Block) {
        let (early, late) = self.decided.early_and_late(block);
        let n_done = self.n_done.min(early.len());
        let version = self.version;
        let found = self.decided.units(block, &early[n_done..], version);
        self.n_done = self.n_done - n_done + found.beyond;
        found.units.iter().for_each(|unit| self.unit(unit));
        if late.is_empty() {
            return;
        }
        let _ = writeln!(
            self.out,
            "{}unless the CTA decides the branch:",
            self.indent
        );
        let (mut units, indent) = (Vec::new(), self.indent);
        self.decided.in_order(&late, version, &mut units);
        self.nested(|printer| units.iter().for_each(|unit| printer.unit(unit)));
        self.indent = indent;
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

    /// An instruction, and how its results are held.
    fn line(&mut self, inst: Inst, note: &str) {
        let text = print::inst(self.decided.func, inst);
        let results = self.decided.func.insts[inst].results.iter();
        let mut notes: Vec<String> = results.map(|&result| self.held(result)).collect();
        notes.extend(self.access(inst));
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
    fn access(&mut self, inst: Inst) -> Option<String> {
        let access = self.decided.func.insts[inst].data.access()?;
        if self.decided.plan.gang == 1 || self.version.one_lane {
            return None;
        }
        let key = (access.addr, access.offset, access.bytes);
        let is_tested = self.version.is_proven && self.decided.cta_ranges.tested.contains(&key);
        let tested = if is_tested { ", tested before" } else { "" };
        Some(self.places(access) + tested)
    }

    fn places(&mut self, access: Access) -> String {
        match self.decided.variability(access.addr, self.version) {
            _ if access.space == Space::Local => "each lane's own memory".to_owned(),
            Variability::Uniform => "one place".to_owned(),
            Variability::Affine {
                stride, may_wrap, ..
            } => {
                let wraps = match may_wrap.is_some() && !access.space.is_window() {
                    true => " unless an index wraps",
                    false => "",
                };
                match stride == i64::from(access.bytes) {
                    true => format!("contiguous{wraps}"),
                    false => format!("{stride} bytes apart{wraps}"),
                }
            }
            Variability::Varying => {
                match self.decided.is_speculated_contiguous(access, self.version) {
                    true => "contiguous if a guard finds so".to_owned(),
                    false => "each lane elsewhere".to_owned(),
                }
            }
        }
    }
}
