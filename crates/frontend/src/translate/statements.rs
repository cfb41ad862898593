//! The instructions of a module with the lines that they are of, for those who tell what was run.

use ptxjit_ir::{FuncId, SrcLoc};

use crate::ast::{self, Body, Loc, OperandKind, StmtKind};
use crate::parse;

use super::flow::target_names;
use super::module::{Module, SourceLine, Unit};

/// A function that has a body.
#[derive(Clone, Debug)]
pub struct FunctionStatements {
    /// Module-wide number.
    pub func: FuncId,
    /// PTX name.
    pub name: String,
    /// Where it is declared.
    pub loc: SrcLoc,
    /// Its instructions, in order.
    pub statements: Vec<Statement>,
}

/// An instruction.
#[derive(Clone, Debug)]
pub struct Statement {
    /// Where it stands.
    pub loc: SrcLoc,
    /// It is a branch to a label: under a guard, its threads go either way.
    pub is_branch: bool,
    /// It has a guard.
    pub is_guarded: bool,
    /// It selects one of two values by a predicate.
    pub selects: bool,
    /// The labels among which it branches by an index.
    pub targets: Vec<String>,
    /// It waits at a barrier of the CTA or the cluster.
    pub is_barrier: bool,
    /// The lines of the original program that it is of: where it stands, then where that was
    /// inlined, and so on. Empty where no `.loc` tells.
    pub stack: Vec<SourceLine>,
}

impl Module {
    /// The instructions of all functions that can run, whether a kernel reaches them or not.
    pub fn statements(&self) -> Vec<FunctionStatements> {
        let defined = self.func_ids().filter(|&id| self.resolve_alias(id) == id);
        defined.filter_map(|id| self.statements_of(id)).collect()
    }

    fn statements_of(&self, func: FuncId) -> Option<FunctionStatements> {
        let ast = self.func_ast(func);
        let unit = self.unit_of(ast.span);
        let body = parse::body(self.source(), ast.body?).ok()?;
        let mut statements: Vec<Statement> = Vec::new();
        let mut last: Option<u32> = None;
        for stmt in &body.stmts {
            let StmtKind::Inst(inst) = &stmt.kind else {
                continue;
            };
            let at = body.loc(stmt.span.start);
            let place = at.map(|at| at.span.start);
            let stack = match statements.last() {
                Some(before) if place == last => before.stack.clone(),
                Some(_) | None => self.stack_of(unit, &body, at),
            };
            last = place;
            let opcode = inst.opcode.text(self.source());
            statements.push(Statement {
                loc: SrcLoc(stmt.span.start),
                is_branch: opcode == "bra",
                is_guarded: inst.guard.is_some(),
                selects: opcode == "selp",
                targets: self.targets_of(inst, &body),
                is_barrier: ["bar", "barrier"].contains(&opcode) && !is_passing(inst, self),
                stack,
            });
        }
        Some(FunctionStatements {
            func,
            name: self.func_name(func).to_owned(),
            loc: SrcLoc(ast.name.span.start),
            statements,
        })
    }

    /// The labels of `brx.idx`, by the tables of its function.
    fn targets_of(&self, inst: &ast::Inst, body: &Body) -> Vec<String> {
        let source = self.source();
        let (true, Some(operand)) = (inst.opcode.text(source) == "brx", inst.operands.get(1))
        else {
            return Vec::new();
        };
        let OperandKind::Name(table) = &operand.kind else {
            return Vec::new();
        };
        let name = table.text(source);
        // Tables stand before the branches; where a name is used again, the last one counts.
        let tables = body.stmts.iter().filter_map(|stmt| match &stmt.kind {
            StmtKind::BranchTargets(table) => Some(table),
            _ => None,
        });
        let before = tables.filter(|it| it.label.span.start < inst.opcode.span.start);
        let found = before.filter(|it| it.label.text(source) == name).last();
        let targets = found.into_iter().flat_map(|table| &table.targets);
        let names = targets.flat_map(|target| target_names(source, target));
        names.map(|name| name.into_owned()).collect()
    }

    /// The lines of the original program that a statement is of, the innermost first: where it
    /// stands, then where that was inlined, and so on (PTX ISA, "Debugging Directives: .loc").
    /// Empty where no `.loc` tells.
    pub fn source_stack(&self, loc: SrcLoc) -> Vec<SourceLine> {
        let Some(unit) = self.unit_at(loc.0) else {
            return Vec::new();
        };
        let contains = |func: &&ast::Function| {
            let body = func.body;
            body.is_some_and(|body| (body.start..body.end).contains(&loc.0))
        };
        let func = unit.ast.functions().find(contains);
        match func.and_then(|func| func.body) {
            Some(range) => match parse::body(self.source(), range) {
                Ok(body) => self.stack_of(unit, &body, body.loc(loc.0)),
                Err(_) => Vec::new(),
            },
            None => Vec::new(),
        }
    }

    /// A `.loc` and those that it names.
    fn stack_of(&self, unit: &Unit, body: &Body, at: Option<&Loc>) -> Vec<SourceLine> {
        let mut stack = Vec::new();
        let mut next = at;
        // Each inlining is named by an earlier `.loc`, so the chain ends.
        while let Some(line) = next {
            let file = unit.ast.file(line.file);
            stack.push(SourceLine {
                file: file
                    .map_or("", |file| self.source().slice(file.name))
                    .to_owned(),
                line: line.line,
                column: line.column,
            });
            next = line.inlined.as_ref().and_then(|at| {
                let place = (at.file, at.line, at.column);
                let is_earlier = |other: &&Loc| other.span.start < line.span.start;
                let mut earlier = body.locs.iter().rev().filter(is_earlier);
                earlier.find(|other| (other.file, other.line, other.column) == place)
            });
        }
        stack
    }
}

/// Whether an instruction on barriers lets the thread pass: it arrives, or is for a warp.
fn is_passing(inst: &ast::Inst, module: &Module) -> bool {
    let passes = ["arrive", "warp"];
    let mut modifiers = inst.modifiers.iter();
    modifiers.any(|modifier| passes.contains(&modifier.text(module.source())))
}
