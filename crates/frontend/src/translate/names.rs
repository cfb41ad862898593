//! The names of a unit: what its items declare, and that none is declared twice.

use cranelift_entity::EntityRef;
use ptxjit_ir::{FuncId, VarId};

use crate::ast::{self, Item};
use crate::diag::Diagnostic;
use crate::source::Span;

use super::module::{Func, Global, ItemId, Module, ModuleVar, var_space};
use super::{limits, linkage};

/// Fills the module's tables from the items of a unit.
pub(super) fn collect(module: &mut Module, unit: usize) -> Vec<Diagnostic> {
    let mut names = Names {
        module,
        unit,
        ranges: limits::RangeNames::default(),
        diagnostics: Vec::new(),
    };
    names.run();
    names.diagnostics
}

struct Names<'m> {
    module: &'m mut Module,
    unit: usize,
    ranges: limits::RangeNames,
    diagnostics: Vec<Diagnostic>,
}

impl Names<'_> {
    fn global(&self, name: &str) -> Option<Global> {
        self.module.units[self.unit].global(name)
    }

    fn insert(&mut self, name: String, global: Global) {
        let unit = &mut self.module.units[self.unit];
        unit.names.insert(name.into(), global);
    }

    fn run(&mut self) {
        let unit = self.unit;
        for item in 0..self.module.units[unit].ast.items.len() {
            let id = ItemId { unit, item };
            match &self.module.units[unit].ast.items[item] {
                Item::Function(func) => {
                    let (name, has_body) = (func.name, func.body.is_some());
                    self.function(id, name, has_body);
                }
                Item::Variable(_) => self.variable(id),
                Item::Alias(alias) => {
                    let alias = *alias;
                    self.alias(alias);
                }
            }
        }
    }

    fn function(&mut self, item: ItemId, name: ast::Ident, has_body: bool) {
        let text = name.text(&self.module.source).to_owned();
        match self.global(&text) {
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
                self.insert(text, Global::Func(id));
                self.module.funcs.push(Func {
                    decls: vec![item],
                    def: has_body.then_some(item),
                    alias: None,
                });
            }
        }
    }

    fn variable(&mut self, item: ItemId) {
        let Some(var) = self.module.var_ast(item) else {
            return;
        };
        let (name, range, space) = (var.name, var.range, var.space);
        let text = name.text(&self.module.source).to_owned();
        if var_space(space).is_none() {
            self.insert(text, Global::Old(item));
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

    fn one_variable(&mut self, item: ItemId, name: ast::Ident, text: String, number: Option<u32>) {
        match self.global(&text) {
            Some(Global::Var(id)) => {
                let is_definition = |item: ItemId| {
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
                self.insert(text, Global::Var(id));
                self.module.vars.push(ModuleVar {
                    decls: vec![item],
                    decl: item,
                    number,
                    bound: None,
                    joined: None,
                });
            }
        }
    }

    /// `.alias name, target;`: both are declared before, `name` without a body.
    fn alias(&mut self, alias: ast::Alias) {
        let source = &self.module.source;
        let (name, target) = (alias.name.text(source), alias.target.text(source));
        let func = |text| match self.global(text) {
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
        if !linkage::same_signature(self.module.func_ast(from), target_ast) {
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
