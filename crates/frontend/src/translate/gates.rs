//! Parts of declarations that exist only from some version or target on.

use crate::ast::{
    self, AttributeKind, FunctionDirective, FunctionDirectiveKind, FunctionKind, Linkage, Pragma,
};
use crate::diag::Diagnostic;
use crate::source::{Source, Span};

use super::module::Unit;

/// An error if the module's version or target is too low for `what`.
pub(super) fn require(
    unit: &Unit,
    what: &str,
    (major, minor): (u32, u32),
    sm: u32,
    span: Span,
) -> Option<Diagnostic> {
    let (version, arch) = (unit.ast.version, unit.ast.target.arch);
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
    Some(Diagnostic::error(format!("{what} needs {needs}")).label(span, ""))
}

/// `.weak` and `.common`
pub(super) fn check_linkage(unit: &Unit, linkage: Linkage, span: Span) -> Option<Diagnostic> {
    match linkage {
        Linkage::Weak => require(unit, "`.weak`", (3, 1), 0, span),
        Linkage::Common => require(unit, "`.common`", (5, 0), 0, span),
        Linkage::Module | Linkage::Extern | Linkage::Visible => None,
    }
}

/// `.attribute`
pub(super) fn check_attribute(unit: &Unit, attribute: &ast::Attribute) -> Option<Diagnostic> {
    match attribute.kind {
        AttributeKind::Managed => require(unit, "`.managed`", (4, 0), 30, attribute.span),
        AttributeKind::Unified(..) => require(unit, "`.unified`", (8, 0), 90, attribute.span),
    }
}

/// Parts of the header that came late; the parser looks at their arguments.
pub(super) fn check_directive(
    unit: &Unit,
    source: &Source,
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
        | FunctionDirectiveKind::Maxnctapersm(_) => return None,
        FunctionDirectiveKind::Pragma(pragma) => {
            return check_pragma(unit, source, pragma, PragmaPlace::Header);
        }
    };
    require(
        unit,
        &format!("`{name}`"),
        (major, minor),
        sm,
        directive.span,
    )
}

/// `.b128` came late; `.f16x2` is for registers and variables, not for parameters.
pub(super) fn check_type(
    unit: &Unit,
    ty: ast::Type,
    span: Span,
    is_param: bool,
) -> Result<(), Diagnostic> {
    let missing = match ty {
        ast::Type::B128 => require(unit, "type `.b128`", (8, 3), 70, span),
        ast::Type::F16x2 => require(unit, "type `.f16x2`", (1, 0), 53, span),
        _ => None,
    };
    if let Some(diagnostic) = missing {
        return Err(diagnostic);
    }
    if ty == ast::Type::Samplerref && !unit.ast.target.is_texmode_independent {
        return Err(
            Diagnostic::error("a `.samplerref` needs `.target texmode_independent`")
                .label(span, ""),
        );
    }
    if is_param && ty == ast::Type::F16x2 {
        return Err(Diagnostic::error("a parameter cannot have type `.f16x2`")
            .label(span, "")
            .note("`.b32` can hold it"));
    }
    Ok(())
}

/// Where a `.pragma` stands.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(super) enum PragmaPlace {
    /// At module scope.
    Module,
    /// Between a kernel's parameters and its body.
    Header,
    /// In the body of a kernel or device function.
    Body(FunctionKind),
}

/// Pragmas that came late, and the one that may stand outside functions. Others that are unknown
/// are ignored in functions.
pub(super) fn check_pragma(
    unit: &Unit,
    source: &Source,
    pragma: &Pragma,
    place: PragmaPlace,
) -> Option<Diagnostic> {
    const SINCE: &[(&str, (u32, u32), u32)] = &[
        ("used_bytes_mask", (8, 3), 0),
        ("enable_smem_spilling", (8, 7), 75),
        ("frequency", (9, 0), 0),
    ];
    if let Some(diagnostic) = require(unit, "`.pragma`", (2, 0), 0, pragma.span) {
        return Some(diagnostic);
    }
    pragma.strings.iter().find_map(|&span| {
        let text = source.slice(span).trim_matches('"');
        let name = text.split_whitespace().next().unwrap_or_default();
        let message = match SINCE.iter().find(|(late, ..)| *late == name) {
            Some(_) if !matches!(place, PragmaPlace::Body(_)) => {
                format!("pragma `{name}` can stand only in a function")
            }
            Some(("enable_smem_spilling", ..))
                if place == PragmaPlace::Body(FunctionKind::Func) =>
            {
                format!("pragma `{name}` is for kernels only")
            }
            Some(&("frequency", ptx, _)) if unit.ast.version.at_least(ptx.0, ptx.1) => {
                let value = text.strip_prefix(name).unwrap_or_default().trim();
                if value.parse::<u64>().is_ok() {
                    return None;
                }
                format!("pragma `{name}` takes a number, not `{value}`")
            }
            Some(&(_, ptx, sm)) => {
                return require(unit, &format!("pragma `{name}`"), ptx, sm, span);
            }
            None if place == PragmaPlace::Module && text != "nounroll" => {
                format!("there is no pragma `{text}` for a module")
            }
            None => return None,
        };
        Some(Diagnostic::error(message).label(span, ""))
    })
}
