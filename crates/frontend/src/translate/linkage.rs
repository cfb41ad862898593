//! What must agree among the declarations of a module.

use crate::ast::{self, FunctionKind, Linkage, Param};
use crate::diag::Diagnostic;
use crate::source::Source;

use super::layout::Layout;
use super::module::Module;

/// Checks the declarations of a module against each other.
pub(super) fn check(module: &Module) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    for id in module.func_ids() {
        let decls = &module.func(id).decls;
        let first = module.item_func(decls[0]);
        for &item in &decls[1..] {
            let other = module.item_func(item);
            if let Some(message) = disagreement(module, first, other) {
                diagnostics.push(
                    Diagnostic::error(message).label(other.name.span, "").label(first.name.span, "declared here before"),
                );
            }
        }
    }
    diagnostics
}

fn disagreement(module: &Module, first: &ast::Function, other: &ast::Function) -> Option<String> {
    let name = other.name.text(&module.source);
    if first.kind != other.kind {
        return Some(format!("`{name}` is declared as a kernel and as a device function"));
    }
    if !same_signature(&module.source, first, other) {
        return Some(format!("the declarations of `{name}` have different parameters"));
    }
    let is_extern = |func: &ast::Function| func.linkage == Linkage::Extern;
    if (is_extern(first) && other.body.is_some() || is_extern(other) && first.body.is_some())
        && (first.linkage == Linkage::Module || other.linkage == Linkage::Module)
        && first.kind == FunctionKind::Func
    {
        return Some(format!("`{name}` is declared `.extern`, so its definition must be `.visible` or `.weak`"));
    }
    None
}

/// Whether two functions have the same parameters and results, names apart.
pub(super) fn same_signature(_source: &Source, a: &ast::Function, b: &ast::Function) -> bool {
    let same = |a: &[Param], b: &[Param]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_param(a, b));
    same(&a.params, &b.params) && same(&a.returns, &b.returns)
}

fn same_param(a: &Param, b: &Param) -> bool {
    let (x, y) = (Layout::of_param(a), Layout::of_param(b));
    a.space == b.space
        && a.ty.size() == b.ty.size()
        && a.vector == b.vector
        && (x.size == y.size || x.is_unsized || y.is_unsized)
        && x.align == y.align
}
