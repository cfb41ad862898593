//! What is used and defined nowhere, in modules that are linked and in those that stand alone.

use std::collections::BTreeMap;

use ptxjit_ir::{FuncId, RelocTarget, VarId};

use crate::diag::Diagnostic;
use crate::parse;
use crate::source::Span;

use super::module::Module;
use super::program::{self, Tables};
use super::{call, function};

/// A function or variable of a unit.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Item {
    Func(FuncId),
    Var(VarId),
}

/// Functions that need no definition: those that are built in, and those of CUDA's device runtime,
/// which are unsupported where a kernel reaches them.
pub(super) fn is_provided(name: &str) -> bool {
    call::builtin(name).is_some() || program::is_device_runtime(name)
}

/// The functions that are called, or whose address is taken, and that the module does not define,
/// each at its first use.
pub(super) fn functions(module: &Module) -> Vec<Diagnostic> {
    let is_missing = |&id: &FuncId| {
        let func = module.func(id);
        func.def.is_none() && func.alias.is_none() && !is_provided(module.func_name(id))
    };
    let missing: Vec<FuncId> = module.func_ids().filter(is_missing).collect();
    if missing.is_empty() {
        return Vec::new();
    }
    let uses = uses(module);
    let uses = missing.into_iter().filter_map(|id| {
        let span = *uses.get(&Item::Func(id))?;
        let message = format!("undefined reference to '{}'", module.func_name(id));
        Some(Diagnostic::error(message).label(span, ""))
    });
    program::sorted(uses.collect())
}

/// Where functions and variables are first used, in all bodies and initializers.
pub(super) fn uses(module: &Module) -> BTreeMap<Item, Span> {
    let mut uses = BTreeMap::new();
    for id in module.func_ids() {
        let Some(range) = module.own_ast(id).body else {
            continue;
        };
        // What is wrong in a body is told when it is checked.
        let Ok(body) = parse::body(&module.source, range) else {
            continue;
        };
        let (_, found) = function::translate(module, id, &body, &mut Tables::default());
        for (callee, span) in found.callees {
            uses.entry(Item::Func(callee)).or_insert(span);
        }
        for var in found.vars {
            add_var_use(&mut uses, module, var);
        }
    }
    for id in module.var_ids().filter(|&id| module.has_init(id)) {
        let init = module.var_init(id).unwrap_or_default();
        let span = var_span(module, id);
        for reloc in init.relocs {
            match reloc.target {
                RelocTarget::Func(func) => {
                    uses.entry(Item::Func(func)).or_insert(span);
                }
                RelocTarget::Var(var) => add_var_use(&mut uses, module, var),
            }
        }
    }
    uses
}

/// The declaration stands for the use: an access to a variable has no single place.
fn add_var_use(uses: &mut BTreeMap<Item, Span>, module: &Module, var: VarId) {
    uses.entry(Item::Var(var))
        .or_insert_with(|| var_span(module, var));
}

/// Where a variable's name is declared.
pub(super) fn var_span(module: &Module, id: VarId) -> Span {
    let decl = module.module_var(id).map(|var| var.decl);
    let ast = decl.and_then(|decl| module.var_ast(decl));
    ast.map_or(Span::default(), |ast| ast.name.span)
}
