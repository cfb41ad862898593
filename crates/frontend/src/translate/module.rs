//! A PTX module: its names, kernels and variables, and the way from a kernel's name to a [`Program`].
//!
//! Making a [`Module`] costs one scan of the text. Bodies and initializers are parsed when they are wanted, and nothing of them
//! is kept. Functions and variables have module-wide numbers: functions in order of their first declaration, variables likewise;
//! a static variable inside a function has the number of module variables plus the byte offset of its name, so that its number
//! is known without looking at any other body.
//!
//! The file is long because it is the crate's face: one method for each thing that callers ask.

use std::sync::OnceLock;

use cranelift_entity::EntityRef;
use ptxjit_ir::{FuncId, KernelAttrs, KernelParam, Program, Space, SrcLoc, Var, VarId, VarInit};
use rustc_hash::FxHashMap;

use crate::ast::{self, Item};
use crate::diag::{Diagnostic, Severity};
use crate::parse;
use crate::source::{Position, Source, Span};

use super::layout::{self, Layout};
use super::{init, limits, linkage, program};

/// A PTX module.
#[derive(Debug)]
pub struct Module {
    pub(crate) source: Source,
    pub(crate) ast: ast::Module,
    names: FxHashMap<Box<str>, Global>,
    funcs: Vec<Func>,
    vars: Vec<ModuleVar>,
    pub(crate) address_taken: OnceLock<Vec<FuncId>>,
    /// The static variables of functions, by the offset of their name.
    statics: OnceLock<FxHashMap<u32, ast::Variable>>,
}

/// What a module-scope name stands for.
#[derive(Copy, Clone, Debug)]
pub(crate) enum Global {
    Func(FuncId),
    Var(VarId),
    /// A `.reg` or `.local` at module scope (PTX before 3.0): index of the item.
    Old(usize),
}

/// A function of the module with all its declarations.
#[derive(Debug)]
pub(crate) struct Func {
    /// Indices of the items, in order.
    pub decls: Vec<usize>,
    /// The one with a body.
    pub def: Option<usize>,
    /// `.alias`: the function that is meant.
    pub alias: Option<FuncId>,
}

/// A variable of the module with all its declarations.
#[derive(Debug)]
pub(crate) struct ModuleVar {
    /// Indices of the items, in order.
    pub decls: Vec<usize>,
    /// The definition, or else the first declaration.
    pub decl: usize,
    /// Number in a range `name<N>`.
    pub number: Option<u32>,
}

/// A kernel of a module.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// PTX name.
    pub name: String,
    /// Module-wide number.
    pub func: FuncId,
    /// Its parameters and their places.
    pub params: Vec<KernelParam>,
    /// Its attributes.
    pub attrs: KernelAttrs,
}

/// A device function of a module.
#[derive(Clone, Debug)]
pub struct DeviceFunction {
    /// PTX name.
    pub name: String,
    /// Module-wide number.
    pub func: FuncId,
    /// Declared here and defined nowhere in this module.
    pub is_extern: bool,
}

/// A line of the program that the PTX was compiled from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceLine {
    /// As the `.file` directive names it.
    pub file: String,
    /// From 1.
    pub line: u32,
    /// From 1; 0 if unknown.
    pub column: u32,
}

impl Module {
    /// Reads a module's skeleton: all but the contents of bodies and initializers.
    pub fn parse(source: Source) -> Result<Module, Vec<Diagnostic>> {
        let ast = parse::outline(&source)?;
        let mut module = Module {
            source,
            ast,
            names: FxHashMap::default(),
            funcs: Vec::new(),
            vars: Vec::new(),
            address_taken: OnceLock::new(),
            statics: OnceLock::new(),
        };
        let mut diagnostics = std::mem::take(&mut module.ast.errors);
        diagnostics.extend(module.collect_names());
        diagnostics.extend(linkage::check(&module));
        if diagnostics.iter().any(|d| d.severity == Severity::Error) {
            // The module is of no use: then all that is wrong with it is told at once.
            diagnostics.extend(module.check());
            Err(program::sorted(diagnostics))
        } else {
            Ok(module)
        }
    }

    /// The text.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The syntax tree.
    pub fn ast(&self) -> &ast::Module {
        &self.ast
    }

    /// What is odd but not wrong.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.ast.warnings
    }

    /// All kernels, in order.
    pub fn kernels(&self) -> Vec<Kernel> {
        self.func_ids()
            .filter_map(|func| self.kernel_of(func))
            .collect()
    }

    /// The kernel named `name`.
    pub fn kernel(&self, name: &str) -> Option<Kernel> {
        match self.global(name)? {
            Global::Func(func) => self.kernel_of(func),
            Global::Var(_) | Global::Old(_) => None,
        }
    }

    pub(crate) fn kernel_ids(&self) -> impl Iterator<Item = FuncId> + use<'_> {
        self.func_ids().filter(|&func| {
            let ast = self.func_ast(func);
            ast.kind == ast::FunctionKind::Entry && ast.body.is_some()
        })
    }

    fn kernel_of(&self, func: FuncId) -> Option<Kernel> {
        let ast = self.func_ast(func);
        (ast.kind == ast::FunctionKind::Entry && ast.body.is_some()).then(|| Kernel {
            name: self.func_name(func).to_owned(),
            func,
            params: layout::kernel_params(ast, &self.source),
            attrs: layout::kernel_attrs(ast),
        })
    }

    /// All device functions, in order.
    pub fn functions(&self) -> Vec<DeviceFunction> {
        let device = self
            .func_ids()
            .filter(|&func| self.func_ast(func).kind == ast::FunctionKind::Func);
        device
            .map(|func| DeviceFunction {
                name: self.func_name(func).to_owned(),
                func,
                is_extern: self.func_ast(func).body.is_none(),
            })
            .collect()
    }

    /// All module-scope variables in `.global`, `.const` and `.shared`.
    pub fn vars(&self) -> Vec<(VarId, Var)> {
        (0..self.vars.len())
            .map(VarId::new)
            .filter_map(|id| Some((id, self.var(id)?)))
            .collect()
    }

    /// The module-scope variable named `name`.
    pub fn var_id(&self, name: &str) -> Option<VarId> {
        match self.global(name)? {
            Global::Var(var) => Some(var),
            Global::Func(_) | Global::Old(_) => None,
        }
    }

    /// A variable's description. Static variables of functions are found too.
    pub fn var(&self, id: VarId) -> Option<Var> {
        if let Some(var) = self.vars.get(id.index()) {
            let ast = self.var_ast(var.decl)?;
            let mut described = self.describe_var(ast)?;
            if let Some(number) = var.number {
                described.name = format!("{}{number}", described.name);
            }
            return Some(described);
        }
        self.describe_static(self.static_var(id)?)
    }

    /// A variable's initial contents; parsed when asked for.
    pub fn var_init(&self, id: VarId) -> Result<VarInit, Vec<Diagnostic>> {
        match self.vars.get(id.index()) {
            Some(var) => match self.var_ast(var.decl) {
                Some(ast) => init::var_init(self, ast),
                None => Ok(VarInit::default()),
            },
            None => match self.static_var(id) {
                Some(ast) => init::var_init(self, ast),
                None => Ok(VarInit::default()),
            },
        }
    }

    /// Whether a variable has an initializer (without looking at it).
    pub fn has_init(&self, id: VarId) -> bool {
        match self.vars.get(id.index()) {
            Some(var) => self.var_ast(var.decl).is_some_and(ast::Variable::has_init),
            None => self.static_var(id).is_some_and(ast::Variable::has_init),
        }
    }

    /// Translates a kernel and every function it can reach.
    pub fn program(&self, kernel: &str) -> Result<Program, Vec<Diagnostic>> {
        match self.kernel(kernel) {
            Some(kernel) => program::build(self, &kernel),
            None => Err(vec![self.no_such_kernel(kernel)]),
        }
    }

    fn no_such_kernel(&self, name: &str) -> Diagnostic {
        let kernels = self.kernels();
        let diagnostic = Diagnostic::error(format!("there is no kernel `{name}`"));
        match crate::isa::nearest(name, kernels.iter().map(|kernel| kernel.name.as_str())) {
            Some(near) => diagnostic.note(format!("there is `{near}`")),
            None => diagnostic,
        }
    }

    /// Checks everything: all bodies and initializers. What is right but cannot be executed yet is no finding.
    pub fn check(&self) -> Vec<Diagnostic> {
        program::check(self)
    }

    /// Line and column of an instruction in the PTX.
    pub fn position(&self, loc: SrcLoc) -> Position {
        self.source.position(loc.0)
    }

    /// The line of the original program, where a `.loc` tells it.
    pub fn source_line(&self, loc: SrcLoc) -> Option<SourceLine> {
        let func = self
            .ast
            .functions()
            .find(|func| contains(func.body, loc.0))?;
        let body = parse::body(&self.source, func.body?).ok()?;
        let line = body.loc(loc.0)?;
        let file = self
            .ast
            .file(line.file)
            .map_or("", |file| self.source.slice(file.name));
        Some(SourceLine {
            file: file.to_owned(),
            line: line.line,
            column: line.column,
        })
    }

    // ---- names ----

    /// What a module-scope name stands for.
    pub(crate) fn global(&self, name: &str) -> Option<Global> {
        self.names.get(name).copied()
    }

    pub(crate) fn global_names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(|name| &**name)
    }

    pub(crate) fn func_ids(&self) -> impl Iterator<Item = FuncId> + use<> {
        (0..self.funcs.len()).map(FuncId::new)
    }

    pub(crate) fn func(&self, id: FuncId) -> &Func {
        &self.funcs[id.index()]
    }

    /// The function itself, for an alias.
    pub(crate) fn resolve_alias(&self, id: FuncId) -> FuncId {
        self.func(id).alias.unwrap_or(id)
    }

    /// The definition, or else the first declaration.
    pub(crate) fn func_ast(&self, id: FuncId) -> &ast::Function {
        let func = self.func(self.resolve_alias(id));
        self.item_func(func.def.unwrap_or(func.decls[0]))
    }

    /// The first declaration.
    pub(crate) fn first_decl(&self, id: FuncId) -> Span {
        self.item_func(self.func(id).decls[0]).name.span
    }

    pub(crate) fn func_name(&self, id: FuncId) -> &str {
        self.item_func(self.func(id).decls[0])
            .name
            .text(&self.source)
    }

    pub(crate) fn item_func(&self, item: usize) -> &ast::Function {
        match &self.ast.items[item] {
            Item::Function(func) => func,
            Item::Variable(_) | Item::Alias(_) => {
                unreachable!("declarations of functions are function items")
            }
        }
    }

    pub(crate) fn var_ast(&self, item: usize) -> Option<&ast::Variable> {
        match self.ast.items.get(item)? {
            Item::Variable(var) => Some(var),
            Item::Function(_) | Item::Alias(_) => None,
        }
    }

    pub(crate) fn var_ids(&self) -> impl Iterator<Item = VarId> + use<> {
        (0..self.vars.len()).map(VarId::new)
    }

    pub(crate) fn module_var(&self, id: VarId) -> Option<&ModuleVar> {
        self.vars.get(id.index())
    }

    /// The number of a static variable of a function, from its declaration.
    pub(crate) fn static_var_id(&self, name: ast::Ident) -> VarId {
        VarId::new(self.vars.len() + name.span.start as usize)
    }

    /// A static variable of a function. All of them are found at once: looking for each in its function would parse the function
    /// as often as it has variables.
    fn static_var(&self, id: VarId) -> Option<&ast::Variable> {
        let offset = u32::try_from(id.index().checked_sub(self.vars.len())?).ok()?;
        self.statics
            .get_or_init(|| self.find_statics())
            .get(&offset)
    }

    fn find_statics(&self) -> FxHashMap<u32, ast::Variable> {
        let ranges = self.ast.functions().filter_map(|func| func.body);
        let bodies = ranges.filter_map(|range| parse::body(&self.source, range).ok());
        let statements = bodies.flat_map(|body| body.stmts);
        let vars = statements.filter_map(|stmt| match stmt.kind {
            ast::StmtKind::Variable(var) => var_space(var.space).map(|_| *var),
            ast::StmtKind::Inst(_)
            | ast::StmtKind::Label(_)
            | ast::StmtKind::ScopeBegin
            | ast::StmtKind::ScopeEnd
            | ast::StmtKind::BranchTargets(_)
            | ast::StmtKind::CallTargets(_)
            | ast::StmtKind::CallPrototype(_)
            | ast::StmtKind::Pragma(_) => None,
        });
        vars.map(|var| (var.name.span.start, var)).collect()
    }

    /// A variable of module scope.
    pub(crate) fn module_scope_var(&self, id: VarId) -> Option<Var> {
        self.vars.get(id.index()).and_then(|_| self.var(id))
    }

    /// None for variables in spaces that are not module-wide.
    pub(crate) fn describe_var(&self, ast: &ast::Variable) -> Option<Var> {
        let layout = Layout::of_var(ast);
        // An array without size in a constant bank is the bank itself, which the driver fills (PTX before 2.2).
        let is_bank = ast.bank.is_some() && layout.is_unsized;
        let is_extern = ast.linkage == ast::Linkage::Extern && !is_bank;
        let mut size = if is_bank { 1 << 16 } else { layout.size };
        if layout.is_unsized && ast.has_init() {
            size = init::size_of_unsized(self, ast);
        }
        Some(Var {
            name: ast.name.text(&self.source).to_owned(),
            space: var_space(ast.space)?,
            size,
            align: layout.align,
            dynamic_shared: ast.space == ast::Space::Shared && is_extern && layout.size == 0,
            is_extern,
        })
    }

    /// A static variable of a function; a range `name<N>` is one variable.
    pub(crate) fn describe_static(&self, ast: &ast::Variable) -> Option<Var> {
        let mut var = self.describe_var(ast)?;
        if let Some(count) = ast.range {
            var.size = Layout::of_var(ast)
                .stride()
                .saturating_mul(u64::from(count));
        }
        Some(var)
    }

    fn collect_names(&mut self) -> Vec<Diagnostic> {
        let mut names = Names {
            module: self,
            ranges: limits::RangeNames::default(),
            diagnostics: Vec::new(),
        };
        names.run();
        names.diagnostics
    }
}

fn contains(span: Option<Span>, offset: u32) -> bool {
    span.is_some_and(|span| (span.start..span.end).contains(&offset))
}

/// The IR's state space of a module-wide variable.
pub(crate) fn var_space(space: ast::Space) -> Option<Space> {
    match space {
        ast::Space::Global | ast::Space::Tex => Some(Space::Global),
        ast::Space::Const => Some(Space::Const),
        ast::Space::Shared => Some(Space::Shared),
        ast::Space::Reg | ast::Space::Sreg | ast::Space::Local | ast::Space::Param => None,
    }
}

/// Fills the module's tables from its items.
struct Names<'m> {
    module: &'m mut Module,
    ranges: limits::RangeNames,
    diagnostics: Vec<Diagnostic>,
}

impl Names<'_> {
    fn run(&mut self) {
        for item in 0..self.module.ast.items.len() {
            match &self.module.ast.items[item] {
                Item::Function(func) => {
                    let (name, has_body) = (func.name, func.body.is_some());
                    self.function(item, name, has_body);
                }
                Item::Variable(_) => self.variable(item),
                Item::Alias(alias) => {
                    let alias = *alias;
                    self.alias(alias);
                }
            }
        }
    }

    fn function(&mut self, item: usize, name: ast::Ident, has_body: bool) {
        let text = name.text(&self.module.source);
        match self.module.global(text) {
            Some(Global::Func(id)) => {
                let func = &mut self.module.funcs[id.index()];
                func.decls.push(item);
                if has_body && let Some(before) = func.def.replace(item) {
                    let before = self.module.item_func(before).name.span;
                    self.redefined(name, before);
                }
            }
            Some(other) => {
                let before = self.span_of(other);
                self.redefined(name, before);
            }
            None => {
                let id = FuncId::new(self.module.funcs.len());
                self.module.names.insert(text.into(), Global::Func(id));
                self.module.funcs.push(Func {
                    decls: vec![item],
                    def: has_body.then_some(item),
                    alias: None,
                });
            }
        }
    }

    fn variable(&mut self, item: usize) {
        let Some(var) = self.module.var_ast(item) else {
            return;
        };
        let (name, range, space) = (var.name, var.range, var.space);
        let text = name.text(&self.module.source).to_owned();
        if var_space(space).is_none() {
            self.module.names.insert(text.into(), Global::Old(item));
            return;
        }
        match range {
            None => self.one_variable(item, name, text, None),
            Some(count) => {
                if let Err(diagnostic) = self.ranges.add(count, name.span) {
                    self.diagnostics.push(diagnostic);
                    return;
                }
                for number in 0..count {
                    self.one_variable(item, name, format!("{text}{number}"), Some(number));
                }
            }
        }
    }

    fn one_variable(&mut self, item: usize, name: ast::Ident, text: String, number: Option<u32>) {
        match self.module.global(&text) {
            Some(Global::Var(id)) => {
                let is_definition = |item: usize| {
                    self.module
                        .var_ast(item)
                        .is_some_and(|var| var.linkage != ast::Linkage::Extern)
                };
                let before = self.module.vars[id.index()].decl;
                if is_definition(before) && is_definition(item) {
                    let before = self.span_of(Global::Var(id));
                    self.redefined(name, before);
                    return;
                }
                let prefer = is_definition(item);
                let var = &mut self.module.vars[id.index()];
                var.decls.push(item);
                if prefer {
                    var.decl = item;
                }
            }
            Some(other) => {
                let before = self.span_of(other);
                self.redefined(name, before);
            }
            None => {
                let id = VarId::new(self.module.vars.len());
                self.module.names.insert(text.into(), Global::Var(id));
                self.module.vars.push(ModuleVar {
                    decls: vec![item],
                    decl: item,
                    number,
                });
            }
        }
    }

    /// `.alias name, target;`: both are declared before, `name` without a body.
    fn alias(&mut self, alias: ast::Alias) {
        let source = &self.module.source;
        let (name, target) = (alias.name.text(source), alias.target.text(source));
        let func = |text| match self.module.global(text) {
            Some(Global::Func(id)) => Some(id),
            Some(Global::Var(_) | Global::Old(_)) | None => None,
        };
        match (func(name), func(target)) {
            (Some(from), Some(to)) => {
                if let Some(message) = self.alias_error(from, to) {
                    self.diagnostics
                        .push(Diagnostic::error(message).label(alias.span, ""));
                } else {
                    self.module.funcs[from.index()].alias = Some(to);
                }
            }
            (None, _) => self.not_a_function(alias.name),
            (_, None) => self.not_a_function(alias.target),
        }
    }

    fn alias_error(&self, from: FuncId, to: FuncId) -> Option<String> {
        let name = |id| self.module.func_name(id);
        let target = self.module.func(to);
        let target_ast = self.module.func_ast(to);
        if self.module.func(from).def.is_some() {
            return Some(format!("alias `{}` has a body of its own", name(from)));
        }
        if target.def.is_none() {
            return Some(format!(
                "`{}`, which `{}` stands for, is not defined in this module",
                name(to),
                name(from)
            ));
        }
        if target_ast.kind == ast::FunctionKind::Entry {
            return Some(format!(
                "`{}` is a kernel, and an alias cannot stand for one",
                name(to)
            ));
        }
        if target_ast.linkage == ast::Linkage::Weak {
            return Some(format!(
                "`{}` is `.weak`, and an alias cannot stand for that",
                name(to)
            ));
        }
        if !linkage::same_signature(&self.module.source, self.module.func_ast(from), target_ast) {
            return Some(format!(
                "alias `{}` and `{}` have different parameters",
                name(from),
                name(to)
            ));
        }
        None
    }

    fn not_a_function(&mut self, name: ast::Ident) {
        let text = name.text(&self.module.source);
        self.diagnostics.push(
            Diagnostic::error(format!("`{text}` is not a declared function")).label(name.span, ""),
        );
    }

    fn span_of(&self, global: Global) -> Span {
        match global {
            Global::Func(id) => self.module.first_decl(id),
            Global::Var(id) => self
                .module
                .var_ast(self.module.vars[id.index()].decl)
                .map_or(Span::default(), |v| v.name.span),
            Global::Old(item) => self
                .module
                .var_ast(item)
                .map_or(Span::default(), |v| v.name.span),
        }
    }

    fn redefined(&mut self, name: ast::Ident, before: Span) {
        self.diagnostics.push(redefinition(
            name.text(&self.module.source),
            name.span,
            before,
        ));
    }
}

/// `name` is declared a second time.
pub(crate) fn redefinition(name: &str, span: Span, before: Span) -> Diagnostic {
    Diagnostic::error(format!("`{name}` is already declared"))
        .label(span, "")
        .label(before, "declared here before")
}
