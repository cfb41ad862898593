//! What must agree among the declarations of a module.

use crate::ast::{self, FunctionDirectiveKind, FunctionKind, Ident, Linkage, Param};
use crate::diag::Diagnostic;
use crate::source::Source;

use super::gates::{self, PragmaPlace};
use super::layout::Layout;
use super::limits;
use super::module::{Module, Unit};

/// Checks the declarations of each unit against each other.
pub(super) fn check(module: &Module) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    for (idx, unit) in module.units.iter().enumerate() {
        diagnostics.extend(check_unit(module, unit));
        let mut bytes = limits::ConstBytes::default();
        bytes.add_unit(module, idx);
        diagnostics.extend(bytes.finding());
    }
    diagnostics.extend(check_variables(module));
    for id in module.func_ids() {
        let decls = &module.func(id).decls;
        let first = module.item_func(decls[0]);
        let mut is_defined = first.body.is_some();
        for &item in &decls[1..] {
            let other = module.item_func(item);
            if let Some(message) = disagreement(module, first, other, is_defined) {
                diagnostics.push(redeclared(message, first.name, other.name));
            }
            is_defined |= other.body.is_some();
        }
    }
    diagnostics
}

/// What each item of a unit says about itself.
fn check_unit(module: &Module, unit: &Unit) -> Vec<Diagnostic> {
    let source = &module.source;
    let mut diagnostics = check_types(unit);
    let size = unit.ast.address_size.filter(|size| size.bits == 32);
    if let Some(size) = size.filter(|_| unit.ast.target.arch.number >= 90) {
        diagnostics.push(
            Diagnostic::error("addresses of 32 bits do not exist on sm_90 and higher")
                .label(size.span, ""),
        );
    }
    for func in unit.ast.functions() {
        diagnostics.extend(check_function(unit, source, func));
    }
    for var in unit.ast.variables() {
        diagnostics.extend(limits::check_variable(module, var));
        diagnostics.extend(gates::check_linkage(unit, var.linkage, var.span));
        if let Some(attribute) = &var.attribute {
            diagnostics.extend(gates::check_attribute(unit, attribute));
        }
        if var.ty.is_opaque() && var.linkage == Linkage::Common {
            let message = format!("a `.{}` cannot be `.common`", var.ty.name());
            diagnostics.push(Diagnostic::error(message).label(var.span, ""));
        }
    }
    let pragmas = unit.ast.pragmas.iter();
    diagnostics.extend(
        pragmas.filter_map(|pragma| gates::check_pragma(unit, source, pragma, PragmaPlace::Module)),
    );
    diagnostics
}

/// What the declarations of a variable say about each other.
fn check_variables(module: &Module) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    for id in module.var_ids() {
        let decls = module.module_var(id).map(|var| var.decls.as_slice());
        let decls = decls.unwrap_or_default().iter();
        let mut decls = decls.filter_map(|&item| module.var_ast(item));
        let Some(first) = decls.next() else { continue };
        for other in decls {
            if let Some(message) = var_disagreement(module, first, other) {
                diagnostics.push(redeclared(message, first.name, other.name));
            }
        }
    }
    diagnostics
}

fn redeclared(message: String, first: Ident, other: Ident) -> Diagnostic {
    Diagnostic::error(message)
        .label(other.span, "")
        .label(first.span, "declared here before")
}

fn var_disagreement(
    module: &Module,
    first: &ast::Variable,
    other: &ast::Variable,
) -> Option<String> {
    let name = other.name.text(&module.source);
    if first.space != other.space || first.ty != other.ty || first.vector != other.vector {
        return Some(format!("the declarations of `{name}` have different types"));
    }
    if first.linkage == Linkage::Extern && other.linkage == Linkage::Module {
        return Some(format!(
            "`{name}` is declared `.extern`, so its definition must be `.visible` or `.weak`"
        ));
    }
    None
}

/// What a function's header says about itself.
fn check_function(unit: &Unit, source: &Source, func: &ast::Function) -> Option<Diagnostic> {
    let name = func.name.text(source);
    if func.linkage == Linkage::Extern && func.body.is_some() {
        let message = format!("`{name}` is `.extern` and has a body");
        return Some(Diagnostic::error(message).label(func.name.span, ""));
    }
    let params = || func.params.iter().chain(&func.returns);
    if func.kind == FunctionKind::Func {
        if let Some(param) = params().find(|param| param.ty.is_opaque()) {
            let message = format!("a device function takes no `.{}`", param.ty.name());
            return Some(Diagnostic::error(message).label(param.span, ""));
        }
        if let Some(param) = params().find(|param| param.space == ast::Space::Param) {
            let what = "a `.param` of a device function";
            if let Some(diagnostic) = gates::require(unit, what, (2, 0), 20, param.span) {
                return Some(diagnostic);
            }
        }
    }
    let too_large = params().find_map(|param| limits::check_param(source, param));
    let mut directives = func.directives.iter();
    too_large
        .or_else(|| {
            directives.find_map(|directive| gates::check_directive(unit, source, directive))
        })
        .or_else(|| gates::check_linkage(unit, func.linkage, func.name.span))
        .or_else(|| gates::check_attribute(unit, func.attribute.as_ref()?))
}

/// Types that exist only from some version on, or not in memory.
fn check_types(unit: &Unit) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    let vars = unit.ast.variables().map(|var| (var.ty, var.span, false));
    let params = |func: &'_ ast::Function| {
        let all = func.params.iter().chain(&func.returns);
        all.map(|param| (param.ty, param.span, param.space == ast::Space::Param))
            .collect::<Vec<_>>()
    };
    for (ty, span, is_param) in vars.chain(unit.ast.functions().flat_map(params)) {
        if let Err(diagnostic) = gates::check_type(unit, ty, span, is_param) {
            diagnostics.push(diagnostic);
        }
    }
    diagnostics
}

fn disagreement(
    module: &Module,
    first: &ast::Function,
    other: &ast::Function,
    is_defined: bool,
) -> Option<String> {
    let name = other.name.text(&module.source);
    if first.kind != other.kind {
        return Some(format!(
            "`{name}` is declared as a kernel and as a device function"
        ));
    }
    if !same_signature(first, other) {
        return Some(format!(
            "the declarations of `{name}` have different parameters"
        ));
    }
    if first.kind == FunctionKind::Entry {
        return None;
    }
    if is_defined && other.body.is_none() {
        return Some(format!("`{name}` is defined before it is declared"));
    }
    if callable(first) != callable(other) {
        return Some(format!(
            "the declarations of `{name}` have different directives"
        ));
    }
    let is_left_out = other.linkage == Linkage::Module && first.linkage != Linkage::Extern;
    if first.linkage != other.linkage && !is_left_out {
        return Some(format!(
            "the declarations of `{name}` have different linkage"
        ));
    }
    None
}

/// The directives that are part of how a function is called.
fn callable(func: &ast::Function) -> (bool, Option<u32>, Option<u32>) {
    let mut found = (false, None, None);
    for directive in &func.directives {
        match directive.kind {
            FunctionDirectiveKind::Noreturn => found.0 = true,
            FunctionDirectiveKind::AbiPreserve(n) => found.1 = Some(n),
            FunctionDirectiveKind::AbiPreserveControl(n) => found.2 = Some(n),
            _ => {}
        }
    }
    found
}

/// Whether two functions have the same parameters and results, names apart.
pub(super) fn same_signature(a: &ast::Function, b: &ast::Function) -> bool {
    let same = |a: &[Param], b: &[Param]| {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_param(a, b))
    };
    same(&a.params, &b.params) && same(&a.returns, &b.returns)
}

fn same_param(a: &Param, b: &Param) -> bool {
    let (x, y) = (Layout::of_param(a), Layout::of_param(b));
    a.space == b.space
        && (a.ty == b.ty || !a.dims.is_empty() && a.ty.size() == b.ty.size())
        && a.vector == b.vector
        && (x.size == y.size || x.is_unsized || y.is_unsized)
        && x.align == y.align
}
