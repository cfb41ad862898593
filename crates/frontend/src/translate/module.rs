//! A PTX module, or several that are linked: names, kernels and variables, and the way from a
//! kernel's name to a [`Program`].
//!
//! Making a [`Module`] costs one scan of the text. Bodies and initializers are parsed when they are
//! wanted, and nothing of them is kept. Each text is a [`Unit`] with names of its own. Functions
//! and variables have numbers that are unique in all of them: functions in order of their first
//! declaration, variables likewise; a static variable inside a function has the number of module
//! variables plus the byte offset of its name, so that its number is known without looking at any
//! other body. What the linker (`link.rs`) finds to be one thing keeps its several numbers, and all
//! but one lead to that one ([`Module::resolve_alias`], [`Module::resolve_var`]): only resolved
//! numbers leave this crate.
//!
//! The file is long because it is the crate's face: one method for each thing that callers ask.

use std::sync::OnceLock;

use cranelift_entity::EntityRef;
use ptxjit_ir::{FuncId, KernelAttrs, KernelParam, Program, Space, SrcLoc, Var, VarId, VarInit};
use rustc_hash::FxHashMap;

use crate::ast::{self, Item};
use crate::diag::{Diagnostic, Severity};
use crate::isa::sregs;
use crate::parse;
use crate::source::{Position, Source, Span};

use super::layout::{self, Layout};
use super::program::Extras;
use super::{init, limits, link, linkage, names, program, undefined};

/// A PTX module, or several as one.
#[derive(Debug)]
pub struct Module {
    pub(crate) source: Source,
    pub(super) units: Vec<Unit>,
    pub(super) funcs: Vec<Func>,
    pub(super) vars: Vec<ModuleVar>,
    warnings: Vec<Diagnostic>,
    pub(crate) address_taken: OnceLock<Vec<FuncId>>,
    /// The static variables of functions, by the offset of their name.
    statics: OnceLock<FxHashMap<u32, ast::Variable>>,
}

/// One text: its tree and its names.
#[derive(Debug)]
pub(crate) struct Unit {
    pub ast: ast::Module,
    pub names: FxHashMap<Box<str>, Global>,
}

impl Unit {
    /// What a module-scope name stands for.
    pub(crate) fn global(&self, name: &str) -> Option<Global> {
        self.names.get(name).copied()
    }

    pub(crate) fn global_names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(|name| &**name)
    }
}

/// What a module-scope name stands for.
#[derive(Copy, Clone, Debug)]
pub(crate) enum Global {
    Func(FuncId),
    Var(VarId),
    /// A `.reg` or `.local` at module scope (PTX before 3.0).
    Old(ItemId),
}

/// An item of a unit, by index.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct ItemId {
    pub unit: usize,
    pub item: usize,
}

/// The declarations of a function in one unit.
#[derive(Debug)]
pub(crate) struct Func {
    /// In order.
    pub decls: Vec<ItemId>,
    /// The one with a body.
    pub def: Option<ItemId>,
    /// The function that is meant: that of an `.alias`, or that of another unit.
    pub alias: Option<FuncId>,
}

/// The declarations of a variable in one unit.
#[derive(Debug)]
pub(crate) struct ModuleVar {
    /// In order.
    pub decls: Vec<ItemId>,
    /// The definition, or else the first declaration.
    pub decl: ItemId,
    /// Number in a range `name<N>`.
    pub number: Option<u32>,
    /// The variable of another unit that is meant.
    pub bound: Option<VarId>,
    /// Size and alignment of a `.common` variable that several units define.
    pub joined: Option<(u64, u32)>,
}

/// Why a source is no module, and the source to show it.
#[derive(Debug)]
pub struct Refused {
    /// All texts.
    pub source: Source,
    /// What is wrong with them.
    pub diagnostics: Vec<Diagnostic>,
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
    /// Shared memory for system software, see [`sregs::RESERVED_SHARED_BYTES`]. No declaration has
    /// this number.
    pub(super) fn reserved_shared() -> VarId {
        VarId::from_u32(u32::MAX - 1)
    }

    /// Reads a module's skeleton: all but the contents of bodies and initializers.
    pub fn parse(source: Source) -> Result<Module, Vec<Diagnostic>> {
        Module::load(source).map_err(|refused| refused.diagnostics)
    }

    /// As [`Module::parse`], but the source comes back if it is wrong. What the module declares
    /// `.extern` may be missing: then the kernels that need it cannot be had.
    pub fn load(source: Source) -> Result<Module, Box<Refused>> {
        Module::build(source, false)
    }

    /// Links the modules that are the texts of `source`. Whatever they use must be defined in one
    /// of them.
    pub fn link(source: Source) -> Result<Module, Box<Refused>> {
        Module::build(source, true)
    }

    fn build(source: Source, is_linked: bool) -> Result<Module, Box<Refused>> {
        let mut module = Module {
            source,
            units: Vec::new(),
            funcs: Vec::new(),
            vars: Vec::new(),
            warnings: Vec::new(),
            address_taken: OnceLock::new(),
            statics: OnceLock::new(),
        };
        let mut found = module.read_units();
        // Without the names of one text, what the others say about them would mislead.
        if module.units.len() == module.source.n_files() {
            found.extend(linkage::check(&module));
            if is_wrong(&found) {
                // The module is of no use: then all that is wrong with it is told at once.
                found.extend(module.check());
            } else if is_linked {
                found.extend(link::run(&mut module));
                // Each text has been looked at by itself.
                let mut constant = limits::ConstBytes::default();
                constant.add_module(&module);
                found.extend(constant.finding().filter(|_| !is_wrong(&found)));
            }
        }
        if is_wrong(&found) {
            return Err(Box::new(Refused {
                source: module.source,
                diagnostics: program::sorted(found),
            }));
        }
        module.warnings.extend(found);
        Ok(module)
    }

    /// Parses the texts and, if all of them can be read, collects their names.
    fn read_units(&mut self) -> Vec<Diagnostic> {
        let mut found = Vec::new();
        for file in 0..self.source.n_files() {
            match parse::outline(&self.source, self.source.file_span(file)) {
                Ok(mut ast) => {
                    found.append(&mut ast.errors);
                    self.warnings.append(&mut ast.warnings);
                    self.units.push(Unit {
                        ast,
                        names: FxHashMap::default(),
                    });
                }
                Err(errors) => found.extend(errors),
            }
        }
        if self.units.len() == self.source.n_files() {
            for unit in 0..self.units.len() {
                found.extend(names::collect(self, unit));
            }
        }
        found
    }

    /// The text.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// What is odd but not wrong.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }

    /// The bits of addresses that the modules say, if one does: all say the same, and 32 is what
    /// ones that do not may count on.
    pub fn address_bits(&self) -> Option<u32> {
        let mut sizes = self.units.iter().filter_map(|unit| unit.ast.address_size);
        sizes.next().map(|size| size.bits)
    }

    /// The highest `.target` of the units.
    pub fn target(&self) -> ast::Arch {
        let archs = self.units.iter().map(|unit| unit.ast.target.arch);
        archs
            .max_by_key(|arch| arch.number)
            .unwrap_or_else(|| unreachable!("a module has a text"))
    }

    /// The highest `.version` of the units.
    pub fn version(&self) -> ast::Version {
        let versions = self.units.iter().map(|unit| unit.ast.version);
        versions
            .max_by_key(|version| (version.major, version.minor))
            .unwrap_or_else(|| unreachable!("a module has a text"))
    }

    /// A function's definition, or else its first declaration.
    pub fn function_ast(&self, func: FuncId) -> &ast::Function {
        self.func_ast(func)
    }

    /// All kernels, in order.
    pub fn kernels(&self) -> Vec<Kernel> {
        self.func_ids()
            .filter(|&func| self.resolve_alias(func) == func)
            .filter_map(|func| self.kernel_of(func))
            .collect()
    }

    /// The kernel named `name`.
    pub fn kernel(&self, name: &str) -> Option<Kernel> {
        let mut units = self.units.iter();
        units.find_map(|unit| match unit.global(name)? {
            Global::Func(func) => self.kernel_of(self.resolve_alias(func)),
            Global::Var(_) | Global::Old(_) => None,
        })
    }

    pub(crate) fn kernel_ids(&self) -> impl Iterator<Item = FuncId> + use<'_> {
        self.func_ids().filter(|&func| {
            let ast = self.func_ast(func);
            let is_meant = self.resolve_alias(func) == func;
            is_meant && ast.kind == ast::FunctionKind::Entry && ast.body.is_some()
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
        let is_bound = |func| {
            let meant = self.resolve_alias(func);
            meant != func && self.func_name(meant) == self.func_name(func)
        };
        let device = self
            .func_ids()
            .filter(|&func| self.func_ast(func).kind == ast::FunctionKind::Func && !is_bound(func));
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
            .filter(|&id| self.resolve_var(id) == id)
            .filter_map(|id| Some((id, self.var(id)?)))
            .collect()
    }

    /// The module-scope variable named `name`; of several, one that is known outside its unit.
    pub fn var_id(&self, name: &str) -> Option<VarId> {
        let units = self.units.iter();
        let vars = units.filter_map(|unit| match unit.global(name)? {
            Global::Var(var) => Some(var),
            Global::Func(_) | Global::Old(_) => None,
        });
        let is_private = |var: &VarId| {
            let var = &self.vars[var.index()];
            self.var_ast(var.decl)
                .is_none_or(|ast| ast.linkage == ast::Linkage::Module)
        };
        vars.min_by_key(is_private).map(|var| self.resolve_var(var))
    }

    /// A variable's description. Static variables of functions are found too.
    pub fn var(&self, id: VarId) -> Option<Var> {
        if id == Module::reserved_shared() {
            return Some(describe_reserved_shared());
        }
        let id = self.resolve_var(id);
        if let Some(var) = self.vars.get(id.index()) {
            let ast = self.var_ast(var.decl)?;
            let mut described = self.describe_var(ast)?;
            if let Some(number) = var.number {
                described.name = format!("{}{number}", described.name);
            }
            if let Some((size, align)) = var.joined {
                (described.size, described.align) = (size, align);
            }
            return Some(described);
        }
        self.describe_static(self.static_var(id)?)
    }

    /// A variable's initial contents; parsed when asked for.
    pub fn var_init(&self, id: VarId) -> Result<VarInit, Vec<Diagnostic>> {
        let id = self.resolve_var(id);
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
        let id = self.resolve_var(id);
        match self.vars.get(id.index()) {
            Some(var) => self.var_ast(var.decl).is_some_and(ast::Variable::has_init),
            None => self.static_var(id).is_some_and(ast::Variable::has_init),
        }
    }

    /// The kind of a `.texref`, `.samplerref` or `.surfref`.
    pub fn opaque_kind(&self, id: VarId) -> Option<ptxjit_ir::OpaqueKind> {
        let var = self.vars.get(self.resolve_var(id).index())?;
        init::opaque_kind(self.var_ast(var.decl)?.ty)
    }

    /// Whether a variable has the attribute `.managed`: host and device access it alike.
    pub fn is_managed(&self, id: VarId) -> bool {
        let ast = self
            .vars
            .get(id.index())
            .and_then(|var| self.var_ast(var.decl));
        let attribute = ast.and_then(|ast| ast.attribute.as_deref());
        attribute.is_some_and(|attribute| attribute.kind == ast::AttributeKind::Managed)
    }

    /// Translates a kernel and every function it can reach.
    pub fn program(&self, kernel: &str) -> Result<Program, Vec<Diagnostic>> {
        match self.kernel(kernel) {
            Some(kernel) => program::build(self, &kernel, Extras::default()),
            None => Err(vec![self.no_such_kernel(kernel)]),
        }
    }

    /// The same with marks or counters.
    pub fn program_with(&self, kernel: &str, extras: Extras) -> Result<Program, Vec<Diagnostic>> {
        match self.kernel(kernel) {
            Some(kernel) => program::build(self, &kernel, extras),
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

    /// Checks everything: all bodies and initializers. What is right but cannot be executed yet is
    /// no finding.
    pub fn check(&self) -> Vec<Diagnostic> {
        program::check(self)
    }

    /// The functions that are used and defined nowhere, at their first use; `check` does not report
    /// them.
    pub fn undefined_functions(&self) -> Vec<Diagnostic> {
        undefined::functions(self)
    }

    /// Line and column of an instruction in the PTX.
    pub fn position(&self, loc: SrcLoc) -> Position {
        self.source.position(loc.0)
    }

    /// The line of the original program, where a `.loc` tells it.
    pub fn source_line(&self, loc: SrcLoc) -> Option<SourceLine> {
        self.source_stack(loc).into_iter().next()
    }

    // ---- names ----

    /// The unit of which the text at an offset is.
    pub(crate) fn unit_at(&self, offset: u32) -> Option<&Unit> {
        self.units.get(self.source.file_at(offset))
    }

    /// The unit of which a span of the tree is.
    pub(crate) fn unit_of(&self, span: Span) -> &Unit {
        &self.units[self.source.file_at(span.start)]
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

    /// The variable itself, for one that another unit defines.
    pub(crate) fn resolve_var(&self, id: VarId) -> VarId {
        self.vars
            .get(id.index())
            .and_then(|var| var.bound)
            .unwrap_or(id)
    }

    /// The definition, or else the first declaration.
    pub(crate) fn func_ast(&self, id: FuncId) -> &ast::Function {
        self.own_ast(self.resolve_alias(id))
    }

    /// What the unit itself has, whether or not it is what is meant.
    pub(crate) fn own_ast(&self, id: FuncId) -> &ast::Function {
        let func = self.func(id);
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

    pub(crate) fn item(&self, id: ItemId) -> Option<&Item> {
        self.units.get(id.unit)?.ast.items.get(id.item)
    }

    pub(crate) fn item_func(&self, item: ItemId) -> &ast::Function {
        match self.item(item) {
            Some(Item::Function(func)) => func,
            Some(Item::Variable(_) | Item::Alias(_)) | None => {
                unreachable!("declarations of functions are function items")
            }
        }
    }

    pub(crate) fn var_ast(&self, item: ItemId) -> Option<&ast::Variable> {
        match self.item(item)? {
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

    /// A static variable of a function. All of them are found at once: looking for each in its
    /// function would parse the function as often as it has variables.
    fn static_var(&self, id: VarId) -> Option<&ast::Variable> {
        let offset = u32::try_from(id.index().checked_sub(self.vars.len())?).ok()?;
        self.statics
            .get_or_init(|| self.find_statics())
            .get(&offset)
    }

    fn find_statics(&self) -> FxHashMap<u32, ast::Variable> {
        let functions = self.units.iter().flat_map(|unit| unit.ast.functions());
        let ranges = functions.filter_map(|func| func.body);
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
        // An array without size in a constant bank is the bank itself, which the driver fills (PTX
        // before 2.2).
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
}

fn is_wrong(found: &[Diagnostic]) -> bool {
    found.iter().any(|one| one.severity == Severity::Error)
}

/// The variable of [`Module::reserved_shared`].
fn describe_reserved_shared() -> Var {
    Var {
        name: "reserved shared memory".to_owned(),
        space: Space::Shared,
        size: u64::from(sregs::RESERVED_SHARED_BYTES),
        align: 16,
        dynamic_shared: false,
        is_extern: false,
    }
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
