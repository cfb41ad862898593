//! Labels, branches and the blocks they lead to.
//!
//! Labels are known in their whole scope, also before they stand, so they are gathered before
//! translation; so is the number of branches to each, which tells when a block can be sealed. A
//! label of an inner scope cannot be reached from outside.

use std::borrow::Cow;

use ptxjit_ir::{Block, Terminator, Value};
use rustc_hash::FxHashMap;

use crate::ast::{self, Ident, OperandKind, Stmt, StmtKind};
use crate::diag::Diagnostic;
use crate::source::{Source, Span};

use super::{Translator, limits};

/// A place in the code.
#[derive(Clone, Debug)]
struct Label {
    block: Option<Block>,
    /// Branches to it that are still to come. A label in a branch table is sealed only at the end.
    pending: u32,
    is_in_table: bool,
    is_placed: bool,
}

/// What the name of a label stands for.
#[derive(Copy, Clone, Debug)]
pub(super) enum LabelKind<'m> {
    Code(usize),
    BranchTargets(&'m ast::BranchTargets),
    CallTargets(&'m ast::CallTargets),
    CallPrototype(&'m ast::CallPrototype),
}

/// The labels of a body, by scope.
#[derive(Default)]
pub(super) struct Labels<'m> {
    labels: Vec<Label>,
    /// Of every scope in the order in which they begin; the body itself is the first.
    scopes: Vec<FxHashMap<&'m str, (LabelKind<'m>, Span)>>,
    /// Scopes that are open, and how many have begun.
    open: Vec<usize>,
    begun: usize,
    /// Entries of tables that were looked at to mark labels, and those that instructions have used.
    marked: u64,
    used: u64,
    /// Entries of tables that indirect calls have used.
    called: u64,
}

/// An error if a function uses more entries of tables than it may.
fn check_entries(used: u64, limit: u64, span: Span) -> Result<(), Diagnostic> {
    match used <= limit {
        true => Ok(()),
        false => Err(Diagnostic::error(
            "the tables of targets that this function uses are too long",
        )
        .label(span, format!("at most {limit} entries in all"))),
    }
}

impl<'m> Labels<'m> {
    /// Gathers the labels of a body. Names declared twice are reported.
    pub(super) fn gather(source: &'m Source, stmts: &'m [Stmt]) -> (Labels<'m>, Vec<Diagnostic>) {
        let mut labels = Labels {
            scopes: vec![FxHashMap::default()],
            ..Labels::default()
        };
        let mut diagnostics = Vec::new();
        let mut open = vec![0];
        for stmt in stmts {
            match &stmt.kind {
                StmtKind::ScopeBegin => {
                    open.push(labels.scopes.len());
                    labels.scopes.push(FxHashMap::default());
                }
                StmtKind::ScopeEnd => {
                    open.pop();
                }
                StmtKind::Label(name) => {
                    let idx = labels.labels.len();
                    labels.labels.push(Label {
                        block: None,
                        pending: 0,
                        is_in_table: false,
                        is_placed: false,
                    });
                    let scope = &mut labels.scopes[*open.last().unwrap_or(&0)];
                    let text = name.text(source);
                    match scope.get(text) {
                        Some(&(_, before)) => {
                            diagnostics.push(super::names::redefinition(text, name.span, before))
                        }
                        None => {
                            scope.insert(text, (LabelKind::Code(idx), name.span));
                        }
                    }
                }
                StmtKind::Inst(_)
                | StmtKind::Variable(_)
                | StmtKind::BranchTargets(_)
                | StmtKind::CallTargets(_)
                | StmtKind::CallPrototype(_)
                | StmtKind::Pragma(_) => {}
            }
        }
        labels.count_branches(source, stmts);
        (labels, diagnostics)
    }

    fn count_branches(&mut self, source: &'m Source, stmts: &'m [Stmt]) {
        self.enter();
        for stmt in stmts {
            match &stmt.kind {
                StmtKind::ScopeBegin => self.enter(),
                StmtKind::ScopeEnd => self.leave(),
                StmtKind::Inst(inst) if inst.opcode.text(source) == "bra" => {
                    if let Some(OperandKind::Name(name)) =
                        inst.operands.first().map(|operand| &operand.kind)
                        && let Some(LabelKind::Code(idx)) = self.find(name.text(source))
                    {
                        self.labels[idx].pending += 1;
                    }
                }
                StmtKind::BranchTargets(table) => self.mark_table(source, table),
                StmtKind::Inst(_)
                | StmtKind::Label(_)
                | StmtKind::Variable(_)
                | StmtKind::CallTargets(_)
                | StmtKind::CallPrototype(_)
                | StmtKind::Pragma(_) => {}
            }
        }
        self.open.clear();
        self.begun = 0;
    }

    fn mark_table(&mut self, source: &Source, table: &ast::BranchTargets) {
        // A name that is no label is reported where the table stands, as are too many.
        for target in &table.targets {
            for name in target_names(source, target) {
                let Some(LabelKind::Code(idx)) = self.find(&name) else {
                    break;
                };
                self.marked += 1;
                if self.marked > limits::TABLE_ENTRIES {
                    return;
                }
                self.labels[idx].is_in_table = true;
            }
        }
    }

    pub(super) fn enter(&mut self) {
        self.open.push(self.begun);
        self.begun += 1;
    }

    pub(super) fn leave(&mut self) {
        self.open.pop();
    }

    /// Where the innermost scope has a label of this name.
    pub(super) fn declared_here(&self, name: &str) -> Option<Span> {
        let scope = self.scopes.get(*self.open.last()?)?;
        scope.get(name).map(|&(_, span)| span)
    }

    fn find(&self, name: &str) -> Option<LabelKind<'m>> {
        self.open
            .iter()
            .rev()
            .find_map(|&scope| self.scopes[scope].get(name))
            .map(|&(kind, _)| kind)
    }

    fn names(&self) -> impl Iterator<Item = &'m str> + '_ {
        self.open
            .iter()
            .rev()
            .flat_map(|&scope| self.scopes[scope].keys().copied())
    }
}

/// The labels that one entry of `.branchtargets` names.
pub(super) fn target_names<'s>(
    source: &'s Source,
    target: &ast::BranchTarget,
) -> impl Iterator<Item = Cow<'s, str>> + use<'s> {
    let text = target.name.text(source);
    let count = target.count;
    (0..count.unwrap_or(1)).map(move |n| match count {
        None => Cow::Borrowed(text),
        Some(_) => Cow::Owned(format!("{text}{n}")),
    })
}

impl<'m> Translator<'m> {
    /// Names a table or prototype that stands here.
    pub(super) fn declare_label(&mut self, name: Ident, kind: LabelKind<'m>) {
        let text = name.text(self.source);
        let scope = *self.labels.open.last().unwrap_or(&0);
        let label = self.labels.declared_here(text);
        match label.or_else(|| self.scopes.declared_here(text)) {
            Some(before) => self.report(super::names::redefinition(text, name.span, before)),
            None => {
                self.labels.scopes[scope].insert(text, (kind, name.span));
            }
        }
    }

    /// What the name of a label stands for here.
    pub(super) fn find_label(&self, name: Ident) -> Option<LabelKind<'m>> {
        self.labels.find(name.text(self.source))
    }

    fn unknown_label(&self, name: Ident) -> Diagnostic {
        let text = name.text(self.source);
        let diagnostic = Diagnostic::error(format!("there is no label `{text}` here"))
            .label(name.span, "unknown label");
        match self.nearest(text, self.labels.names()) {
            Some(near) => diagnostic.note(format!("there is `{near}`")),
            None => diagnostic,
        }
    }

    /// The block of a label that a branch names.
    fn label_idx(&self, name: Ident) -> Result<usize, Diagnostic> {
        match self.find_label(name) {
            Some(LabelKind::Code(idx)) => Ok(idx),
            Some(
                LabelKind::BranchTargets(_)
                | LabelKind::CallTargets(_)
                | LabelKind::CallPrototype(_),
            ) => {
                let text = name.text(self.source);
                Err(
                    Diagnostic::error(format!("`{text}` is not a place in the code"))
                        .label(name.span, ""),
                )
            }
            None => Err(self.unknown_label(name)),
        }
    }

    fn block_of(&mut self, idx: usize) -> Block {
        match self.labels.labels[idx].block {
            Some(block) => block,
            None => {
                let block = self.builder.new_block();
                self.labels.labels[idx].block = Some(block);
                block
            }
        }
    }

    /// Branches to a label, if `cond` holds (always, without one).
    pub fn branch(&mut self, name: Ident, cond: Option<Value>) -> Result<(), Diagnostic> {
        let idx = self.label_idx(name)?;
        let target = self.block_of(idx);
        match cond {
            None => self.builder.jump(target),
            Some(cond) => {
                let next = self.builder.new_block();
                self.builder.brif(cond, target, next);
                self.builder.seal(next);
                self.builder.switch_to(next);
                self.restart_counting();
            }
        }
        let label = &mut self.labels.labels[idx];
        label.pending = label.pending.saturating_sub(1);
        self.seal_if_complete(idx);
        Ok(())
    }

    /// The labels of a table are those of the code around it.
    pub(super) fn check_branch_targets(
        &mut self,
        table: &ast::BranchTargets,
    ) -> Result<(), Diagnostic> {
        for target in &table.targets {
            for name in target_names(self.source, target) {
                self.use_table(1, table.label.span)?;
                if !matches!(self.labels.find(&name), Some(LabelKind::Code(_))) {
                    return Err(self.unknown_label(target.name));
                }
            }
        }
        Ok(())
    }

    /// Counts entries of tables of labels that the function declares or uses.
    pub(super) fn use_table(&mut self, entries: usize, span: Span) -> Result<(), Diagnostic> {
        self.labels.used += entries as u64;
        check_entries(self.labels.used, limits::TABLE_ENTRIES, span)
    }

    /// Counts entries of tables of functions that indirect calls use.
    pub(super) fn use_call_table(&mut self, entries: usize, span: Span) -> Result<(), Diagnostic> {
        self.labels.called += entries as u64;
        check_entries(self.labels.called, limits::CALL_ENTRIES, span)
    }

    /// Branches through a table; an index past its end is a trap.
    pub fn branch_table(&mut self, index: Value, table: Ident) -> Result<(), Diagnostic> {
        let targets = match self.find_label(table) {
            Some(LabelKind::BranchTargets(targets)) => targets,
            Some(LabelKind::Code(_) | LabelKind::CallTargets(_) | LabelKind::CallPrototype(_))
            | None => {
                let text = table.text(self.source);
                return Err(Diagnostic::error(format!(
                    "`{text}` names no `.branchtargets` before this instruction"
                ))
                .label(table.span, ""));
            }
        };
        let mut blocks = Vec::new();
        for target in &targets.targets {
            for name in target_names(self.source, target) {
                self.use_table(1, table.span)?;
                match self.labels.find(&name) {
                    Some(LabelKind::Code(idx)) => blocks.push(self.block_of(idx)),
                    _ => return Err(self.unknown_label(target.name)),
                }
            }
        }
        self.count_targets(index, blocks.len());
        let default = self.builder.new_block();
        let call = ptxjit_ir::BlockCall::new;
        let targets = blocks.into_iter().map(call).collect();
        self.builder.terminate(Terminator::Switch {
            index,
            targets,
            default: call(default),
        });
        self.builder.seal(default);
        self.builder.switch_to(default);
        self.builder
            .terminate(Terminator::Trap(ptxjit_ir::TrapKind::Unreachable));
        Ok(())
    }

    /// Code goes on at a label.
    pub(super) fn place_label(&mut self, name: Ident) {
        let Some(LabelKind::Code(idx)) = self.find_label(name) else {
            return;
        };
        if self.labels.labels[idx].is_placed {
            // The second of two equal names, reported already.
            return;
        }
        let text = name.text(self.source);
        if let Some(before) = self.scopes.declared_here(text) {
            self.report(super::names::redefinition(text, name.span, before));
        }
        let label = &mut self.labels.labels[idx];
        if label.block.is_none() && label.pending == 0 && !label.is_in_table {
            // Nothing leads here but the code before it.
            label.is_placed = true;
            return;
        }
        let block = self.block_of(idx);
        if !self.builder.is_filled() {
            self.builder.jump(block);
        }
        self.builder.switch_to(block);
        self.labels.labels[idx].is_placed = true;
        self.seal_if_complete(idx);
    }

    fn seal_if_complete(&mut self, idx: usize) {
        let label = &self.labels.labels[idx];
        if label.is_placed
            && label.pending == 0
            && !label.is_in_table
            && let Some(block) = label.block
        {
            self.builder.seal(block);
        }
    }

    /// Makes sure that instructions have a block to go to: code after a branch that no label
    /// precedes cannot be reached.
    pub(super) fn ensure_block(&mut self) {
        if self.builder.is_filled() {
            let block = self.builder.new_block();
            self.builder.seal(block);
            self.builder.switch_to(block);
        }
    }
}
