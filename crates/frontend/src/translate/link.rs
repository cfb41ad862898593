//! Linking: what each name of each unit means, if another unit defines it.
//!
//! A name without linking directive is known in its unit alone; kernels are known everywhere. Of
//! the rest, what is `.extern` means the one `.visible` definition, else the `.common` one, else
//! the first that is `.weak`, else a function that is built in. All definitions of one name become
//! that one; only two that are `.visible` are too many. `.common` variables join to the largest
//! size and alignment. `.extern .shared` arrays without size are the CTA's dynamic memory, whatever
//! their names.
//!
//! A function's declaration must agree with its definition in the bytes of its parameters. As
//! NVIDIA's nvJitLink does, the linker lets a declaration have results that the definition has not,
//! and the other way round, and warns: the caller then reads an undefined value, or reads none.
//!
//! The linker changes nothing but numbers (`Func::alias`, `ModuleVar::bound`), so that a call of
//! another unit's function is translated, inlined and compiled as one within a unit.

use std::collections::{BTreeMap, BTreeSet};

use cranelift_entity::EntityRef;
use ptxjit_ir::{FuncId, VarId};

use crate::ast::{self, FunctionKind, Linkage};
use crate::diag::Diagnostic;
use crate::source::Span;

use super::layout::{Layout, Passing};
use super::module::Module;
use super::undefined::{self, Item};

/// Binds names across the units of a module.
pub(super) fn run(module: &mut Module) -> Vec<Diagnostic> {
    let mut linker = Linker {
        module,
        undefined: BTreeSet::new(),
        diagnostics: Vec::new(),
    };
    linker.check_address_sizes();
    for (name, symbols) in linker.symbols() {
        linker.resolve(&name, &symbols);
    }
    linker.report_undefined();
    linker.diagnostics
}

/// What a unit has of a name, the stronger first.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Strength {
    Visible,
    Common,
    Weak,
    /// Declared only.
    Extern,
}

/// What a unit says about a name that other units know, too.
#[derive(Copy, Clone, Debug)]
struct Symbol {
    item: Item,
    strength: Strength,
    /// Of the name.
    span: Span,
}

struct Linker<'m> {
    module: &'m mut Module,
    /// What is declared and defined nowhere.
    undefined: BTreeSet<Item>,
    diagnostics: Vec<Diagnostic>,
}

impl Linker<'_> {
    fn check_address_sizes(&mut self) {
        let sizes = self.module.units.iter();
        let mut sizes = sizes.filter_map(|unit| unit.ast.address_size);
        let Some(first) = sizes.next() else { return };
        if let Some(other) = sizes.find(|other| other.bits != first.bits) {
            let message = format!(
                "modules with addresses of {} and of {} bits cannot be linked",
                first.bits, other.bits
            );
            let diagnostic = Diagnostic::error(message).label(other.span, "");
            self.diagnostics.push(diagnostic.label(first.span, ""));
        }
    }

    /// All that units have in common, by name, in the order of the units.
    fn symbols(&self) -> BTreeMap<String, Vec<Symbol>> {
        let mut symbols: BTreeMap<String, Vec<Symbol>> = BTreeMap::new();
        for id in self.module.func_ids() {
            if let Some(symbol) = self.function_symbol(id) {
                let name = self.module.func_name(id).to_owned();
                symbols.entry(name).or_default().push(symbol);
            }
        }
        for id in self.module.var_ids() {
            if let Some((name, symbol)) = self.variable_symbol(id) {
                symbols.entry(name).or_default().push(symbol);
            }
        }
        symbols
    }

    fn function_symbol(&self, id: FuncId) -> Option<Symbol> {
        let func = self.module.func(id);
        let is_defined = func.def.is_some() || func.alias.is_some();
        let decls = func.decls.iter();
        let mut linkages = decls.map(|&decl| self.module.item_func(decl).linkage);
        let is_kernel = self.module.own_ast(id).kind == FunctionKind::Entry;
        let strength = match linkages.find(|&linkage| linkage != Linkage::Module) {
            None if !is_kernel => return None,
            _ if !is_defined => Strength::Extern,
            Some(Linkage::Weak) => Strength::Weak,
            Some(Linkage::Module | Linkage::Extern | Linkage::Visible | Linkage::Common) | None => {
                Strength::Visible
            }
        };
        Some(Symbol {
            item: Item::Func(id),
            strength,
            span: self.module.own_ast(id).name.span,
        })
    }

    fn variable_symbol(&self, id: VarId) -> Option<(String, Symbol)> {
        let described = self.module.var(id)?;
        let ast = self.module.var_ast(self.module.module_var(id)?.decl)?;
        let strength = match ast.linkage {
            Linkage::Module => return None,
            // The driver makes the constant banks of PTX before 2.2.
            Linkage::Extern if !described.is_extern => return None,
            Linkage::Extern => Strength::Extern,
            Linkage::Visible => Strength::Visible,
            Linkage::Weak => Strength::Weak,
            Linkage::Common => Strength::Common,
        };
        let symbol = Symbol {
            item: Item::Var(id),
            strength,
            span: ast.name.span,
        };
        Some((described.name, symbol))
    }

    /// Finds the definition of a name, and binds all else of that name to it.
    fn resolve(&mut self, name: &str, symbols: &[Symbol]) {
        let Some(&chosen) = symbols.iter().min_by_key(|symbol| symbol.strength) else {
            return;
        };
        let chosen = match chosen.strength {
            Strength::Extern => {
                for &Symbol { item, .. } in symbols {
                    if !self.is_provided(name, item) {
                        self.undefined.insert(item);
                    }
                }
                return self.check_agreement(name, chosen, symbols);
            }
            Strength::Common => self.join(name, symbols).unwrap_or(chosen),
            Strength::Visible | Strength::Weak => chosen,
        };
        if chosen.strength == Strength::Visible {
            let rivals = symbols.iter();
            let rivals = rivals.filter(|symbol| symbol.strength == Strength::Visible);
            for rival in rivals.skip(1) {
                self.diagnostics
                    .push(multiple(name, rival.span, chosen.span));
            }
        }
        self.check_agreement(name, chosen, symbols);
        for symbol in symbols.iter().filter(|symbol| symbol.item != chosen.item) {
            self.bind(symbol.item, chosen.item);
        }
    }

    fn bind(&mut self, from: Item, to: Item) {
        match (from, to) {
            (Item::Func(from), Item::Func(to)) => {
                let to = self.module.resolve_alias(to);
                self.module.funcs[from.index()].alias = Some(to);
            }
            (Item::Var(from), Item::Var(to)) => self.module.vars[from.index()].bound = Some(to),
            // Reported as a disagreement.
            (Item::Func(_), Item::Var(_)) | (Item::Var(_), Item::Func(_)) => {}
        }
    }

    /// What needs no definition: built-in functions, and dynamic shared memory.
    fn is_provided(&self, name: &str, item: Item) -> bool {
        match item {
            Item::Func(_) => undefined::is_provided(name),
            Item::Var(id) => self.module.var(id).is_some_and(|var| var.dynamic_shared),
        }
    }

    /// Joins the `.common` variables of a name. The one with an initializer is the definition, else
    /// the first.
    fn join(&mut self, name: &str, symbols: &[Symbol]) -> Option<Symbol> {
        let commons = symbols.iter().filter_map(|&symbol| match symbol.item {
            Item::Var(id) if symbol.strength == Strength::Common => Some((id, symbol)),
            Item::Var(_) | Item::Func(_) => None,
        });
        let commons: Vec<(VarId, Symbol)> = commons.collect();
        let vars = commons.iter().filter_map(|&(id, _)| self.module.var(id));
        let sizes = vars.map(|var| (var.size, var.align));
        let joined = sizes.reduce(|a, b| (a.0.max(b.0), a.1.max(b.1)))?;
        let with_init = commons.iter().filter(|&&(id, _)| self.module.has_init(id));
        let with_init: Vec<(VarId, Symbol)> = with_init.copied().collect();
        let &(chosen, symbol) = with_init.first().or(commons.first())?;
        if let Some((_, rival)) = with_init.get(1) {
            self.diagnostics
                .push(multiple(name, rival.span, symbol.span));
        }
        self.module.vars[chosen.index()].joined = Some(joined);
        Some(symbol)
    }

    // ---- agreement ----

    fn check_agreement(&mut self, name: &str, chosen: Symbol, symbols: &[Symbol]) {
        for &symbol in symbols.iter().filter(|symbol| symbol.item != chosen.item) {
            let found = match self.disagreement(name, chosen, symbol) {
                Some(message) => Diagnostic::error(message),
                None if self.results_differ(chosen, symbol) => Diagnostic::warning(format!(
                    "the declarations of `{name}` have different results"
                )),
                None => continue,
            };
            let found = found.label(symbol.span, "");
            self.diagnostics
                .push(found.label(chosen.span, "does not agree with this"));
        }
    }

    fn disagreement(&self, name: &str, chosen: Symbol, other: Symbol) -> Option<String> {
        match (chosen.item, other.item) {
            (Item::Func(a), Item::Func(b)) => {
                let (a, b) = (self.module.func_ast(a), self.module.own_ast(b));
                if a.kind != b.kind {
                    return Some(format!("`{name}` is a kernel and a device function"));
                }
                let agrees = params_agree(&a.params, &b.params)
                    && (params_agree(&a.returns, &b.returns) || is_without_results(a, b));
                (!agrees).then(|| format!("the declarations of `{name}` have different parameters"))
            }
            (Item::Var(a), Item::Var(b)) => self.var_disagreement(name, a, (b, other.strength)),
            (Item::Func(_), Item::Var(_)) | (Item::Var(_), Item::Func(_)) => {
                Some(format!("`{name}` is a function and a variable"))
            }
        }
    }

    fn results_differ(&self, chosen: Symbol, other: Symbol) -> bool {
        let (Item::Func(a), Item::Func(b)) = (chosen.item, other.item) else {
            return false;
        };
        let (a, b) = (self.module.func_ast(a), self.module.own_ast(b));
        a.returns.len() != b.returns.len()
    }

    fn var_disagreement(
        &self,
        name: &str,
        chosen: VarId,
        (other, strength): (VarId, Strength),
    ) -> Option<String> {
        let ast = |id| self.module.var_ast(self.module.module_var(id)?.decl);
        let (a, b) = (ast(chosen)?, ast(other)?);
        let is_dynamic = |id| self.module.var(id).is_some_and(|var| var.dynamic_shared);
        if is_dynamic(chosen) && is_dynamic(other) {
            // Each module sees the one dynamic memory as it likes.
            return None;
        }
        if a.space != b.space {
            return Some(format!(
                "the declarations of `{name}` have different state spaces"
            ));
        }
        if a.ty.is_opaque() != b.ty.is_opaque() || a.ty.is_opaque() && a.ty != b.ty {
            return Some(format!("the declarations of `{name}` have different types"));
        }
        let (x, y) = (Layout::of_var(a), Layout::of_var(b));
        if (x.is_unsized && !a.has_init()) || y.is_unsized && !b.has_init() {
            let differ = (a.ty.size(), a.vector) != (b.ty.size(), b.vector);
            return differ.then(|| format!("the declarations of `{name}` have different types"));
        }
        let (x, y) = (self.module.var(chosen)?.size, self.module.var(other)?.size);
        let fits = match strength {
            Strength::Common => y <= x,
            Strength::Visible | Strength::Weak | Strength::Extern => y == x,
        };
        (!fits).then(|| format!("`{name}` has {y} bytes here, but {x} where it is defined"))
    }

    // ---- what is missing ----

    /// Tells what is used and defined nowhere. A declaration alone is no use.
    fn report_undefined(&mut self) {
        self.add_prototypes();
        if self.undefined.is_empty() {
            return;
        }
        let uses = undefined::uses(self.module);
        let mut told = BTreeSet::new();
        for &item in &self.undefined {
            let (Some(&span), Some(name)) = (uses.get(&item), self.name(item)) else {
                continue;
            };
            if !told.insert(name.clone()) {
                continue;
            }
            let mut diagnostic =
                Diagnostic::error(format!("undefined reference to '{name}'")).label(span, "");
            if let Some(file) = self.private_definition(item, &name) {
                diagnostic = diagnostic.note(format!(
                    "`{name}` of {file} is private to it: a definition for others is `.visible`"
                ));
            }
            self.diagnostics.push(diagnostic);
        }
    }

    /// Prototypes of functions that are private to a unit which does not define them.
    fn add_prototypes(&mut self) {
        for id in self.module.func_ids() {
            let func = self.module.func(id);
            let is_missing = func.def.is_none() && func.alias.is_none();
            let is_private = self.module.own_ast(id).linkage == Linkage::Module;
            let is_provided = || self.is_provided(self.module.func_name(id), Item::Func(id));
            if is_missing && is_private && !is_provided() {
                self.undefined.insert(Item::Func(id));
            }
        }
    }

    fn name(&self, item: Item) -> Option<String> {
        match item {
            Item::Func(id) => Some(self.module.func_name(id).to_owned()),
            Item::Var(id) => Some(self.module.var(id)?.name),
        }
    }

    /// The file with a definition of that name which only its unit knows.
    fn private_definition(&self, item: Item, name: &str) -> Option<&str> {
        let is_other = |found: Item, ast: Option<Span>| (found != item).then_some(ast).flatten();
        let mut spans = self
            .module
            .units
            .iter()
            .filter_map(|unit| match unit.global(name)? {
                super::module::Global::Func(id) => {
                    let ast = self.module.own_ast(id);
                    is_other(Item::Func(id), ast.body.map(|_| ast.name.span))
                }
                super::module::Global::Var(id) => {
                    let var = self.module.var(id)?;
                    is_other(
                        Item::Var(id),
                        (!var.is_extern).then(|| undefined::var_span(self.module, id)),
                    )
                }
                super::module::Global::Old(_) => None,
            });
        let file = self.module.source.file_at(spans.next()?.start);
        Some(self.module.source.file_name(file))
    }
}

/// As linkers see it: what matters is where bytes lie.
fn params_agree(a: &[ast::Param], b: &[ast::Param]) -> bool {
    let agree = |(a, b): (&ast::Param, &ast::Param)| {
        let (x, y) = (Layout::of_param(a), Layout::of_param(b));
        a.space == b.space && (x.size == y.size || x.is_unsized || y.is_unsized)
    };
    a.len() == b.len() && a.iter().zip(b).all(agree)
}

/// Whether one of two declarations has no result, and the other only results that the caller can do
/// without: large ones need memory of the caller, in which the callee puts them.
fn is_without_results(a: &ast::Function, b: &ast::Function) -> bool {
    let can_be_missing =
        |param: &ast::Param| param.space == ast::Space::Param && !Passing::of(param).is_copied();
    let results = || a.returns.iter().chain(&b.returns);
    (a.returns.is_empty() || b.returns.is_empty()) && results().all(can_be_missing)
}

fn multiple(name: &str, span: Span, first: Span) -> Diagnostic {
    Diagnostic::error(format!("multiple definition of '{name}'"))
        .label(span, "")
        .label(first, "first defined here")
}
