//! From a kernel to the program of all functions it can reach, and the check of a whole module.

use std::collections::{BTreeMap, BTreeSet};

use cranelift_entity::PrimaryMap;
use ptxjit_ir::{FuncId, Function, Program, RelocTarget, SigId, Signature, Var, VarId};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::ast::{self, OperandKind, StmtKind};
use crate::diag::{Diagnostic, Kind, Severity};
use crate::parse;
use crate::source::Span;

use super::module::{Global, Kernel, Module};
use super::near::Near;
use super::{function, init, layout, limits, linkage};

/// What the functions of a program share.
#[derive(Default)]
pub(crate) struct Tables {
    /// The signatures of indirect calls, each once.
    sigs: PrimaryMap<SigId, Signature>,
    ids: FxHashMap<Signature, SigId>,
    pub(crate) near: Near,
}

impl Tables {
    /// The number of a signature.
    pub(crate) fn intern(&mut self, sig: Signature) -> SigId {
        if let Some(&id) = self.ids.get(&sig) {
            return id;
        }
        let id = self.sigs.push(sig.clone());
        self.ids.insert(sig, id);
        id
    }
}

/// A program under construction.
struct Build<'m> {
    module: &'m Module,
    tables: Tables,
    functions: BTreeMap<FuncId, Function>,
    /// Functions to translate, and the instruction that named each.
    queue: Vec<(FuncId, Option<Span>)>,
    seen: BTreeSet<FuncId>,
    vars: BTreeMap<VarId, Var>,
    open_calls: BTreeSet<SigId>,
    wants_lockstep: bool,
    diagnostics: Vec<Diagnostic>,
}

/// Translates a kernel and everything it reaches.
pub(super) fn build(module: &Module, kernel: &Kernel) -> Result<Program, Vec<Diagnostic>> {
    let mut build = Build {
        module,
        tables: Tables::default(),
        functions: BTreeMap::new(),
        queue: Vec::new(),
        seen: BTreeSet::new(),
        vars: BTreeMap::new(),
        open_calls: BTreeSet::new(),
        wants_lockstep: false,
        diagnostics: Vec::new(),
    };
    if let Some(size) = linkage::narrow_addresses(module) {
        build
            .diagnostics
            .push(Diagnostic::unsupported("addressing with 32 bits").label(size.span, ""));
    }
    build.want(kernel.func, None);
    build.drain();
    let mut address_taken = Vec::new();
    while !build.open_calls.is_empty() {
        let n_sigs = build.open_calls.len();
        address_taken = build.reachable_by_address();
        for &func in &address_taken {
            build.want(func, None);
        }
        build.drain();
        if build.open_calls.len() == n_sigs {
            break;
        }
    }
    build.finish(kernel, address_taken)
}

impl Build<'_> {
    fn want(&mut self, func: FuncId, from: Option<Span>) {
        if self.seen.insert(func) {
            self.queue.push((func, from));
        }
    }

    fn drain(&mut self) {
        while let Some((func, from)) = self.queue.pop() {
            self.function(func, from);
        }
    }

    fn function(&mut self, func: FuncId, from: Option<Span>) {
        let Some(range) = self.module.func_ast(func).body else {
            let name = self.module.func_name(func);
            self.diagnostics.push(unresolved(name, from));
            return;
        };
        let body = match parse::body(&self.module.source, range) {
            Ok(body) => body,
            Err(diagnostics) => return self.diagnostics.extend(diagnostics),
        };
        let (function, found) = function::translate(self.module, func, &body, &mut self.tables);
        self.functions.insert(func, function);
        for (callee, span) in found.callees {
            self.want(callee, Some(span));
        }
        for id in found.vars {
            if let Some(var) = found
                .statics
                .get(&id)
                .cloned()
                .or_else(|| self.module.var(id))
            {
                self.vars.insert(id, var);
            }
        }
        self.open_calls.extend(found.open_calls);
        self.wants_lockstep |= found.wants_lockstep;
        self.diagnostics.extend(found.diagnostics);
    }

    /// The functions whose address is taken and that an open indirect call may mean.
    fn reachable_by_address(&self) -> Vec<FuncId> {
        let sigs: Vec<&Signature> = self
            .open_calls
            .iter()
            .map(|&sig| &self.tables.sigs[sig])
            .collect();
        let all = self
            .module
            .address_taken
            .get_or_init(|| address_taken(self.module));
        let fits = |func: FuncId| {
            let ast = self.module.func_ast(func);
            ast.body.is_some() && sigs.contains(&&signature(ast))
        };
        all.iter().copied().filter(|&func| fits(func)).collect()
    }

    fn finish(
        self,
        kernel: &Kernel,
        address_taken: Vec<FuncId>,
    ) -> Result<Program, Vec<Diagnostic>> {
        let mut diagnostics = self.diagnostics;
        diagnostics.extend(limits::check_shared(
            self.module,
            kernel.func,
            self.vars.values(),
        ));
        if diagnostics.iter().any(|d| d.severity == Severity::Error) {
            return Err(sorted(diagnostics));
        }
        Ok(Program {
            entry: kernel.func,
            functions: self.functions,
            sigs: self.tables.sigs,
            address_taken,
            vars: self.vars,
            params: kernel.params.clone(),
            attrs: kernel.attrs.clone(),
            lockstep: self.wants_lockstep && self.module.ast.target.arch.number < 70,
        })
    }
}

/// A call of what is declared but nowhere defined. What the device runtime of CUDA would provide is unsupported, not wrong.
fn unresolved(name: &str, from: Option<Span>) -> Diagnostic {
    let is_runtime =
        name.starts_with("cuda") || name.starts_with("__cuda") || name.starts_with("__nv");
    let diagnostic = if is_runtime {
        Diagnostic::unsupported(format!("a call of `{name}`"))
    } else {
        Diagnostic::error(format!("`{name}` is called but not defined in this module"))
    };
    match from {
        Some(span) => diagnostic.label(span, ""),
        None => diagnostic,
    }
}

fn signature(func: &ast::Function) -> Signature {
    layout::signature(&func.params, &func.returns)
}

/// Findings in the order of the text.
pub(super) fn sorted(mut diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
    diagnostics.sort_by_key(|diagnostic| diagnostic.span());
    diagnostics.dedup();
    diagnostics
}

/// All functions whose address an instruction or an initializer takes.
fn address_taken(module: &Module) -> Vec<FuncId> {
    let mut taken = BTreeSet::new();
    for (id, var) in module.vars() {
        if !var.is_extern
            && module.has_init(id)
            && let Ok(init) = module.var_init(id)
        {
            taken.extend(init.relocs.iter().filter_map(|reloc| match reloc.target {
                RelocTarget::Func(func) => Some(module.resolve_alias(func)),
                RelocTarget::Var(_) => None,
            }));
        }
    }
    for func in module.ast.functions() {
        if let Some(range) = func.body
            && let Ok(body) = parse::body(&module.source, range)
        {
            taken.extend(taken_in(module, &body));
        }
    }
    taken.into_iter().collect()
}

/// A register with the name of a function counts as well: too many targets do no harm.
fn taken_in(module: &Module, body: &ast::Body) -> BTreeSet<FuncId> {
    let mut taken = BTreeSet::new();
    let mut add = |operand: &ast::Operand| {
        let name = match &operand.kind {
            OperandKind::Name(name) => *name,
            OperandKind::NameOffset(sum) => sum.name,
            _ => return,
        };
        if let Some(Global::Func(func)) = module.global(name.text(&module.source)) {
            taken.insert(module.resolve_alias(func));
        }
    };
    for stmt in &body.stmts {
        match &stmt.kind {
            StmtKind::Inst(inst) if inst.opcode.text(&module.source) != "call" => {
                for operand in &inst.operands {
                    match &operand.kind {
                        OperandKind::Vector(elems) => elems.iter().for_each(&mut add),
                        _ => add(operand),
                    }
                }
            }
            StmtKind::Inst(_)
            | StmtKind::Label(_)
            | StmtKind::ScopeBegin
            | StmtKind::ScopeEnd
            | StmtKind::Variable(_)
            | StmtKind::BranchTargets(_)
            | StmtKind::CallTargets(_)
            | StmtKind::CallPrototype(_)
            | StmtKind::Pragma(_) => {}
        }
    }
    taken
}

/// Checks all bodies and initializers.
pub(super) fn check(module: &Module) -> Vec<Diagnostic> {
    let mut diagnostics = parse::check_debug(&module.source, &module.ast);
    let mut lines = FxHashSet::default();
    let mut tables = Tables::default();
    let mut named = BTreeMap::new();
    let mut constant = limits::ConstBytes::default();
    constant.add_module(module);
    // Without those of bodies it was reported already.
    let is_reported = constant.finding().is_some();
    for var in module.ast.variables() {
        if var.has_init()
            && let Err(found) = init::var_init(module, var)
        {
            diagnostics.extend(found);
        }
    }
    for id in module
        .func_ids()
        .filter(|&id| module.func(id).alias.is_none())
    {
        let Some(range) = module.func_ast(id).body else {
            continue;
        };
        match parse::body(&module.source, range) {
            Ok(body) => {
                let (_, found) = function::translate(module, id, &body, &mut tables);
                named.insert(id, limits::Named::new(module, &found));
                let wrong = found
                    .diagnostics
                    .into_iter()
                    .filter(|d| d.kind == Kind::Wrong);
                diagnostics.extend(wrong);
                for stmt in &body.stmts {
                    if let StmtKind::Variable(var) = &stmt.kind {
                        constant.add(module, var);
                    }
                }
                diagnostics.extend(check_lines(&body, &mut lines));
            }
            Err(found) => diagnostics.extend(found),
        }
    }
    diagnostics.extend(constant.finding().filter(|_| !is_reported));
    diagnostics.extend(limits::check_kernels(module, &named));
    sorted(diagnostics)
}

/// Code is inlined at a place that a `.loc` before it names.
fn check_lines(body: &ast::Body, lines: &mut FxHashSet<(u32, u32, u32)>) -> Option<Diagnostic> {
    let mut wrong = None;
    for loc in &body.locs {
        if let Some(at) = &loc.inlined
            && !lines.contains(&(at.file, at.line, at.column))
        {
            let message = format!(
                "no `.loc` before this one is at {} {} {}",
                at.file, at.line, at.column
            );
            wrong = wrong.or(Some(Diagnostic::error(message).label(loc.span, "")));
        }
        lines.insert((loc.file, loc.line, loc.column));
    }
    wrong
}
