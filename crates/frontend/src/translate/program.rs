//! From a kernel to the program of all functions it can reach, and the check of a whole module.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use cranelift_entity::PrimaryMap;
use ptxjit_ir::{Counters, FuncId, Function, Program, RelocTarget, SigId, Signature, Var, VarId};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::ast::{self, OperandKind, StmtKind};
use crate::diag::{Diagnostic, Kind, Severity};
use crate::parse;
use crate::source::Span;

use super::module::{Global, Kernel, Module, Unit};
use super::near::Near;
use super::{function, init, layout, limits};

/// What the functions of a program share.
#[derive(Default)]
pub(crate) struct Tables {
    /// The signatures of indirect calls, each once.
    sigs: PrimaryMap<SigId, Signature>,
    ids: FxHashMap<Signature, SigId>,
    /// The program gets marks.
    pub(crate) marks: bool,
    /// Asynchronous operations of the program complete late.
    pub(crate) late: bool,
    /// The program counts how often it is run.
    pub(crate) counters: Option<Counters>,
    /// Shared by all functions of a module.
    pub(crate) near: Arc<Near>,
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

/// What a program has beside what its instructions mean. Nothing of it changes a result that the
/// memory consistency model determines.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Extras {
    /// Marks ([`ptxjit_ir::MarkOp`]), for those who watch how it runs.
    pub marks: bool,
    /// Asynchronous operations complete late ([`ptxjit_ir::AsyncOp`]), for those who want to see
    /// who forgets to wait.
    pub late: bool,
    /// Counters ([`Counters`]), for those who want to know what was run.
    pub counters: bool,
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
pub(super) fn build(
    module: &Module,
    kernel: &Kernel,
    extras: Extras,
) -> Result<Program, Vec<Diagnostic>> {
    let mut build = Build {
        module,
        tables: Tables {
            marks: extras.marks,
            late: extras.late,
            counters: extras.counters.then(Counters::default),
            ..Tables::default()
        },
        functions: BTreeMap::new(),
        queue: Vec::new(),
        seen: BTreeSet::new(),
        vars: BTreeMap::new(),
        open_calls: BTreeSet::new(),
        wants_lockstep: false,
        diagnostics: Vec::new(),
    };
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
                self.need_var(id, &var);
                self.vars.insert(id, var);
            }
        }
        self.open_calls.extend(found.open_calls);
        self.wants_lockstep |= found.wants_lockstep;
        self.diagnostics.extend(found.diagnostics);
    }

    /// A variable that is defined nowhere has no place in memory.
    fn need_var(&mut self, id: VarId, var: &Var) {
        if !var.is_extern || var.dynamic_shared || self.vars.contains_key(&id) {
            return;
        }
        let message = format!("`{}` is used but not defined in this module", var.name);
        let decl = self.module.module_var(id).map(|var| var.decl);
        let decl = decl.and_then(|decl| self.module.var_ast(decl));
        let diagnostic = Diagnostic::error(message);
        self.diagnostics.push(match decl {
            Some(decl) => diagnostic.label(decl.name.span, "declared here"),
            None => diagnostic,
        });
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
            lockstep: self.wants_lockstep && self.module.target().number < 70,
            counters: self.tables.counters,
            traced: Vec::new(),
        })
    }
}

/// A call of what is declared but nowhere defined. What the device runtime of CUDA would provide is
/// unsupported, not wrong.
fn unresolved(name: &str, from: Option<Span>) -> Diagnostic {
    let diagnostic = if is_device_runtime(name) {
        Diagnostic::unsupported(format!("a call of `{name}`"))
    } else {
        Diagnostic::error(format!("`{name}` is called but not defined in this module"))
    };
    match from {
        Some(span) => diagnostic.label(span, ""),
        None => diagnostic,
    }
}

/// Names that CUDA's device runtime library would define.
pub(super) fn is_device_runtime(name: &str) -> bool {
    ["cuda", "__cuda", "__nv"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
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
    for unit in &module.units {
        for range in unit.ast.functions().filter_map(|func| func.body) {
            if let Ok(body) = parse::body(&module.source, range) {
                taken.extend(taken_in(module, unit, &body));
            }
        }
    }
    taken.into_iter().collect()
}

/// A register with the name of a function counts as well: too many targets do no harm.
fn taken_in(module: &Module, unit: &Unit, body: &ast::Body) -> BTreeSet<FuncId> {
    let mut taken = BTreeSet::new();
    let mut add = |operand: &ast::Operand| {
        let name = match &operand.kind {
            OperandKind::Name(name) => *name,
            OperandKind::NameOffset(sum) => sum.name,
            _ => return,
        };
        if let Some(Global::Func(func)) = unit.global(name.text(&module.source)) {
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
    let mut diagnostics = Vec::new();
    for unit in &module.units {
        diagnostics.extend(parse::check_debug(&module.source, &unit.ast));
        for var in unit.ast.variables().filter(|var| var.has_init()) {
            if let Err(found) = init::var_init(module, var) {
                diagnostics.extend(found);
            }
        }
    }
    let mut constant = limits::ConstBytes::default();
    constant.add_module(module);
    // Without those of bodies it was reported already.
    let is_reported = constant.finding().is_some();
    let mut named = BTreeMap::new();
    // The places of `.loc`s, by unit.
    let mut lines = vec![FxHashSet::default(); module.units.len()];
    for checked in check_functions(module) {
        let unit = module.source.file_at(checked.body.start);
        diagnostics.extend(checked.wrong);
        diagnostics.extend(check_lines(&checked.locs, &mut lines[unit]));
        // What the linker has bound to another definition takes no memory.
        if module.resolve_alias(checked.func) == checked.func {
            for var in &checked.constants {
                constant.add(module, var);
            }
            named.insert(checked.func, checked.named);
        }
    }
    diagnostics.extend(constant.finding().filter(|_| !is_reported));
    diagnostics.extend(limits::check_kernels(module, &named));
    sorted(diagnostics)
}

/// A function that was checked.
struct Checked {
    func: FuncId,
    body: Span,
    wrong: Vec<Diagnostic>,
    /// Its `.loc` directives.
    locs: Vec<ast::Loc>,
    /// Its `.const` variables.
    constants: Vec<ast::Variable>,
    named: limits::Named,
}

/// Modules with less text than this are checked by one thread.
const MUCH_TEXT: usize = 256 << 10;

/// Stack of a thread that checks: nesting in PTX takes some, and only what is touched is used.
const STACK_SIZE: usize = 64 << 20;

/// Checks each function with a body by itself, in order; those of long modules side by side.
fn check_functions(module: &Module) -> Vec<Checked> {
    let near = Arc::new(Near::default());
    let mut checked = check_at_once(module, &near);
    if near.is_exhausted() {
        // Which mistakes were told without suggestions depended on which thread was faster.
        let near = Arc::new(Near::default());
        for one in checked.iter_mut().filter(|one| !one.wrong.is_empty()) {
            one.wrong =
                check_function(module, one.func, &near).map_or_else(Vec::new, |one| one.wrong);
        }
    }
    checked
}

fn check_at_once(module: &Module, near: &Arc<Near>) -> Vec<Checked> {
    let ids: Vec<FuncId> = module.func_ids().collect();
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let n_threads = match module.source.text().len() {
        0..MUCH_TEXT => 1,
        _ => cores().min(ids.len()),
    };
    let done: Vec<OnceLock<Option<Checked>>> = ids.iter().map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        loop {
            let idx = next.fetch_add(1, Ordering::Relaxed);
            let Some(&id) = ids.get(idx) else { return };
            // Each number is drawn once.
            let _ = done[idx].set(check_function(module, id, near));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..n_threads {
            let thread = std::thread::Builder::new().stack_size(STACK_SIZE);
            // Without another thread the others do all.
            let _ = thread.spawn_scoped(scope, work);
        }
        work();
    });
    done.into_iter()
        .filter_map(|checked| checked.into_inner().flatten())
        .collect()
}

fn check_function(module: &Module, func: FuncId, near: &Arc<Near>) -> Option<Checked> {
    let range = module.own_ast(func).body?;
    let mut checked = Checked {
        func,
        body: range,
        wrong: Vec::new(),
        locs: Vec::new(),
        constants: Vec::new(),
        named: limits::Named::default(),
    };
    let body = match parse::body(&module.source, range) {
        Ok(body) => body,
        Err(found) => {
            checked.wrong = found;
            return Some(checked);
        }
    };
    let mut tables = Tables {
        near: near.clone(),
        ..Tables::default()
    };
    let (_, found) = function::translate(module, func, &body, &mut tables);
    checked.named = limits::Named::new(module, &found);
    checked.wrong = found.diagnostics;
    checked.wrong.retain(|one| one.kind == Kind::Wrong);
    checked.constants = constants(&body);
    checked.locs = body.locs;
    Some(checked)
}

fn constants(body: &ast::Body) -> Vec<ast::Variable> {
    let vars = body.stmts.iter().filter_map(|stmt| match &stmt.kind {
        StmtKind::Variable(var) => Some(&**var),
        StmtKind::Inst(_)
        | StmtKind::Label(_)
        | StmtKind::ScopeBegin
        | StmtKind::ScopeEnd
        | StmtKind::BranchTargets(_)
        | StmtKind::CallTargets(_)
        | StmtKind::CallPrototype(_)
        | StmtKind::Pragma(_) => None,
    });
    vars.filter(|var| var.space == ast::Space::Const)
        .cloned()
        .collect()
}

/// Code is inlined at a place that a `.loc` before it names.
fn check_lines(locs: &[ast::Loc], lines: &mut FxHashSet<(u32, u32, u32)>) -> Option<Diagnostic> {
    let mut wrong = None;
    for loc in locs {
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
