//! What must agree among the declarations of a module.

use crate::ast::{
    self, AddressSize, FunctionDirective, FunctionDirectiveKind, FunctionKind, Linkage, Param,
    Pragma,
};
use crate::diag::Diagnostic;
use crate::source::{Source, Span};

use super::layout::Layout;
use super::module::Module;

/// Checks the declarations of a module against each other.
pub(super) fn check(module: &Module) -> Vec<Diagnostic> {
    let mut diagnostics = check_types(module);
    if let Some(size) = narrow_addresses(module).filter(|_| module.ast.target.arch.number >= 90) {
        diagnostics.push(
            Diagnostic::error("addresses of 32 bits do not exist on sm_90 and higher")
                .label(size.span, ""),
        );
    }
    for func in module.ast.functions() {
        diagnostics.extend(check_function(module, func));
    }
    for id in module.func_ids() {
        let decls = &module.func(id).decls;
        let first = module.item_func(decls[0]);
        for &item in &decls[1..] {
            let other = module.item_func(item);
            if let Some(message) = disagreement(module, first, other) {
                diagnostics.push(
                    Diagnostic::error(message)
                        .label(other.name.span, "")
                        .label(first.name.span, "declared here before"),
                );
            }
        }
    }
    diagnostics.extend(
        module
            .ast
            .pragmas
            .iter()
            .filter_map(|pragma| check_pragma(module, pragma, false)),
    );
    diagnostics
}

/// `.address_size 32`
pub(super) fn narrow_addresses(module: &Module) -> Option<AddressSize> {
    module.ast.address_size.filter(|size| size.bits == 32)
}

/// What a function's header says about itself.
fn check_function(module: &Module, func: &ast::Function) -> Option<Diagnostic> {
    let name = func.name.text(&module.source);
    if func.linkage == Linkage::Extern && func.body.is_some() {
        let message = format!("`{name}` is `.extern` and has a body");
        return Some(Diagnostic::error(message).label(func.name.span, ""));
    }
    func.directives
        .iter()
        .find_map(|directive| check_directive(module, directive))
}

/// Parts of the header that came late; the parser looks at their arguments.
pub(super) fn check_directive(
    module: &Module,
    directive: &FunctionDirective,
) -> Option<Diagnostic> {
    let (name, (major, minor), sm) = match &directive.kind {
        FunctionDirectiveKind::AbiPreserve(_) => (".abi_preserve", (9, 0), 80),
        FunctionDirectiveKind::AbiPreserveControl(_) => (".abi_preserve_control", (9, 0), 80),
        FunctionDirectiveKind::Reqnctapercluster(_) => (".reqnctapercluster", (7, 8), 90),
        FunctionDirectiveKind::Explicitcluster => (".explicitcluster", (7, 8), 90),
        FunctionDirectiveKind::Maxclusterrank(_) => (".maxclusterrank", (7, 8), 90),
        FunctionDirectiveKind::Blocksareclusters => (".blocksareclusters", (9, 0), 90),
        FunctionDirectiveKind::Noreturn => (".noreturn", (6, 4), 30),
        FunctionDirectiveKind::Maxnreg(_)
        | FunctionDirectiveKind::Maxntid(_)
        | FunctionDirectiveKind::Reqntid(_)
        | FunctionDirectiveKind::Minnctapersm(_)
        | FunctionDirectiveKind::Maxnctapersm(_)
        | FunctionDirectiveKind::Pragma(_) => return None,
    };
    let (version, arch) = (module.ast.version, module.ast.target.arch);
    let needs = if !version.at_least(major, minor) {
        format!(
            "PTX {major}.{minor}, but `.version` is {}.{}",
            version.major, version.minor
        )
    } else if arch.number < sm {
        format!(
            "target sm_{sm} or higher, but `.target` is {}",
            crate::isa::arch_name(arch)
        )
    } else {
        return None;
    };
    Some(Diagnostic::error(format!("`{name}` needs {needs}")).label(directive.span, ""))
}

/// Types that exist only from some version on, or not in memory.
fn check_types(module: &Module) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    let vars = module.ast.variables().map(|var| (var.ty, var.span, false));
    let params = |func: &'_ ast::Function| {
        let all = func.params.iter().chain(&func.returns);
        all.map(|param| (param.ty, param.span, param.space == ast::Space::Param))
            .collect::<Vec<_>>()
    };
    for (ty, span, is_param) in vars.chain(module.ast.functions().flat_map(params)) {
        if let Err(diagnostic) = check_type(module, ty, span, is_param) {
            diagnostics.push(diagnostic);
        }
    }
    diagnostics
}

/// `.b128` came late; `.f16x2` is for registers and variables, not for parameters.
pub(super) fn check_type(
    module: &Module,
    ty: ast::Type,
    span: Span,
    is_param: bool,
) -> Result<(), Diagnostic> {
    if ty == ast::Type::B128 {
        if !module.ast.version.at_least(8, 3) {
            return Err(Diagnostic::error("type `.b128` needs PTX 8.3").label(span, ""));
        }
        if module.ast.target.arch.number < 70 {
            return Err(
                Diagnostic::error("type `.b128` needs target sm_70 or higher").label(span, ""),
            );
        }
    }
    if ty == ast::Type::F16x2 && module.ast.target.arch.number < 53 {
        return Err(
            Diagnostic::error("type `.f16x2` needs target sm_53 or higher").label(span, ""),
        );
    }
    if is_param && ty == ast::Type::F16x2 {
        return Err(Diagnostic::error("a parameter cannot have type `.f16x2`")
            .label(span, "")
            .note("`.b32` can hold it"));
    }
    Ok(())
}

fn disagreement(module: &Module, first: &ast::Function, other: &ast::Function) -> Option<String> {
    let name = other.name.text(&module.source);
    if first.kind != other.kind {
        return Some(format!(
            "`{name}` is declared as a kernel and as a device function"
        ));
    }
    if !same_signature(&module.source, first, other) {
        return Some(format!(
            "the declarations of `{name}` have different parameters"
        ));
    }
    let is_extern = |func: &ast::Function| func.linkage == Linkage::Extern;
    if (is_extern(first) && other.body.is_some() || is_extern(other) && first.body.is_some())
        && (first.linkage == Linkage::Module || other.linkage == Linkage::Module)
        && first.kind == FunctionKind::Func
    {
        return Some(format!(
            "`{name}` is declared `.extern`, so its definition must be `.visible` or `.weak`"
        ));
    }
    None
}

/// Whether two functions have the same parameters and results, names apart.
pub(super) fn same_signature(_source: &Source, a: &ast::Function, b: &ast::Function) -> bool {
    let same = |a: &[Param], b: &[Param]| {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_param(a, b))
    };
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

/// Pragmas that came late, and the one that may stand outside functions. Others that nobody knows are ignored in functions.
pub(super) fn check_pragma(
    module: &Module,
    pragma: &Pragma,
    is_in_function: bool,
) -> Option<Diagnostic> {
    const SINCE: &[(&str, (u32, u32))] = &[
        ("used_bytes_mask", (8, 3)),
        ("enable_smem_spilling", (8, 7)),
        ("frequency", (9, 0)),
    ];
    let version = module.ast.version;
    pragma.strings.iter().find_map(|&span| {
        let text = module.source.slice(span).trim_matches('"');
        let name = text.split_whitespace().next().unwrap_or_default();
        let since = SINCE
            .iter()
            .find(|(late, _)| *late == name)
            .map(|&(_, since)| since);
        let message = match since {
            Some((major, minor)) if !version.at_least(major, minor) => {
                format!(
                    "pragma `{name}` needs PTX {major}.{minor}, but `.version` is {}.{}",
                    version.major, version.minor
                )
            }
            Some(_) if !is_in_function => format!("pragma `{name}` can stand only in a function"),
            None if !is_in_function && name != "nounroll" => {
                format!("there is no pragma `{name}` for a module")
            }
            Some(_) | None => return None,
        };
        Some(Diagnostic::error(message).label(span, ""))
    })
}
