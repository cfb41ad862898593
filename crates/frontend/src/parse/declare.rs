//! Declarations: from the words before a name to an `ast::Variable` or `ast::Param`.
//!
//! The grammar takes the words in any order and shape; this file decodes them and says what is
//! wrong with them. Whether a name is known, and whether an initializer fits, is not decided here.

use crate::ast::{
    Attribute, AttributeKind, Dim, Dims, Ident, Linkage, Param, Ptr, Space, Type, Variable, Version,
};
use crate::diag::Diagnostic;
use crate::parse::expr;
use crate::parse::grammar::{Node, Rule};
use crate::source::Span;

type Result<T> = std::result::Result<T, Diagnostic>;

/// Where a declaration stands.
#[derive(Clone, Copy)]
pub(super) enum Scope {
    Module(Version),
    Body,
}

/// A decoded word and where it stood.
type Spanned<T> = (T, Span);

/// What the words before a name say.
#[derive(Default)]
struct Specifiers {
    linkage: Option<Spanned<Linkage>>,
    space: Option<Spanned<Space>>,
    bank: Option<Spanned<u8>>,
    align: Option<u32>,
    vector: Option<Spanned<u8>>,
    ty: Option<Spanned<Type>>,
    attribute: Option<Attribute>,
    ptr: Option<Ptr>,
    /// Whether `.align` stood behind `.ptr`.
    is_ptr_aligned: bool,
    is_param: bool,
}

/// Reads a node of the rule `declaration`: one variable per name. There may be none.
pub(super) fn declaration(
    node: Node<'_>,
    scope: Scope,
    mut emit: impl FnMut(Variable),
) -> Result<()> {
    let span = node.span();
    let mut specifiers = Specifiers::default();
    let mut is_complete = false;
    for part in node.children() {
        match part.rule() {
            Rule::semi => {}
            Rule::declarator => {
                if !is_complete {
                    check_specifiers(&specifiers, scope, span)?;
                    is_complete = true;
                }
                emit(variable(part, &specifiers)?);
            }
            _ => specifier(&mut specifiers, part)?,
        }
    }
    if is_complete {
        Ok(())
    } else {
        check_specifiers(&specifiers, scope, span)
    }
}

/// Reads a node of the rule `param`.
pub(super) fn param(node: Node<'_>) -> Result<Param> {
    let span = node.span();
    let mut specifiers = Specifiers {
        is_param: true,
        ..Specifiers::default()
    };
    let mut name = None;
    let mut dims = Vec::new();
    for part in node.children() {
        match part.rule() {
            Rule::ident => name = Some(Ident { span: part.span() }),
            Rule::sink => {}
            Rule::dim => dims.push(dim(part, dims.is_empty())?),
            _ => specifier(&mut specifiers, part)?,
        }
    }
    let (space, ty) = required(&specifiers, span)?;
    check_param(&specifiers, space, ty, &dims, span)?;
    Ok(Param {
        span,
        name,
        space,
        ty,
        vector: specifiers.vector.map_or(1, |(lanes, _)| lanes),
        align: specifiers.align,
        dims: Dims::new(dims),
        ptr: specifiers.ptr,
    })
}

// ---- words
// ---------------------------------------------------------------------------------------

fn specifier(to: &mut Specifiers, node: Node<'_>) -> Result<()> {
    let span = node.span();
    match node.rule() {
        Rule::align => align(to, node),
        Rule::attribute => {
            once(to.attribute.is_some(), ".attribute", span)?;
            if to.ty.is_some() {
                return Err(misplaced(".attribute", "before the type", span));
            }
            to.attribute = Some(attribute(node)?);
            Ok(())
        }
        Rule::bank => {
            let number = node.child();
            let bank = expr::plain_integer(&number)?;
            let bank = u8::try_from(bank)
                .ok()
                .filter(|&bank| bank <= 10)
                .ok_or_else(|| {
                    Diagnostic::error(format!("there is no constant bank {bank}"))
                        .label(number.span(), "banks are 0 to 10")
                })?;
            to.bank = Some((bank, span));
            space(to, Space::Const, span)
        }
        _ => word(to, &node),
    }
}

fn word(to: &mut Specifiers, node: &Node<'_>) -> Result<()> {
    let (text, span) = (node.text(), node.span());
    let name = &text[1..];
    if let Some(linkage) = linkage(name) {
        once(to.linkage.is_some(), "a linking directive", span)?;
        if to.space.is_some() {
            return Err(misplaced(text, "before the state space", span));
        }
        if to.align.is_some() {
            return Err(misplaced(text, "before `.align`", span));
        }
        to.linkage = Some((linkage, span));
        return Ok(());
    }
    if let Some(found) = space_of(name) {
        return space(to, found, span);
    }
    if to.space.is_none() {
        return Err(unknown_directive(text, span));
    }
    if name == "ptr" && to.is_param {
        once(to.ptr.is_some(), ".ptr", span)?;
        if to.ty.is_none() {
            return Err(misplaced(text, "after the type", span));
        }
        to.ptr = Some(Ptr {
            span,
            space: None,
            align: 4,
        });
        return Ok(());
    }
    if let Some(ty) = Type::from_name(name) {
        once(to.ty.is_some(), "a type", span)?;
        to.ty = Some((ty, span));
        return Ok(());
    }
    vector(to, text, span)
}

fn vector(to: &mut Specifiers, text: &str, span: Span) -> Result<()> {
    let lanes = match text {
        ".v2" => 2,
        ".v4" => 4,
        _ if text[1..]
            .strip_prefix('v')
            .is_some_and(|n| n.parse::<u32>().is_ok()) =>
        {
            return Err(
                Diagnostic::error(format!("there are no `{text}` variables"))
                    .label(span, "vectors are `.v2` or `.v4`"),
            );
        }
        _ => {
            return Err(
                Diagnostic::error(format!("`{text}` is not a type of variables")).label(span, ""),
            );
        }
    };
    once(to.vector.is_some(), "a vector size", span)?;
    if to.ty.is_some() {
        return Err(misplaced(text, "before the type", span));
    }
    to.vector = Some((lanes, span));
    Ok(())
}

fn space(to: &mut Specifiers, found: Space, span: Span) -> Result<()> {
    if let Some(ptr) = &mut to.ptr {
        once(ptr.space.is_some(), "a state space", span)?;
        if to.is_ptr_aligned {
            return Err(misplaced("the state space", "before `.align`", span));
        }
        ptr.space = Some(found);
        return match found {
            Space::Const | Space::Global | Space::Local | Space::Shared => Ok(()),
            Space::Reg | Space::Sreg | Space::Param | Space::Tex => Err(Diagnostic::error(
                "a pointer cannot point into this state space",
            )
            .label(span, "")),
        };
    }
    once(to.space.is_some(), "a state space", span)?;
    if found == Space::Sreg {
        return Err(Diagnostic::error("special registers cannot be declared").label(span, ""));
    }
    to.space = Some((found, span));
    Ok(())
}

fn align(to: &mut Specifiers, node: Node<'_>) -> Result<()> {
    let span = node.span();
    let number = node.child();
    let value = expr::plain_u32(&number)?;
    if !value.is_power_of_two() {
        return Err(
            Diagnostic::error(format!("alignment {value} is not a power of two"))
                .label(number.span(), ""),
        );
    }
    match &mut to.ptr {
        Some(ptr) => {
            ptr.align = value;
            to.is_ptr_aligned = true;
        }
        // Parameters of old modules carry it after the type: `.param .b8 .align 8 y[12]`.
        None if to.ty.is_some() && !to.is_param => {
            return Err(misplaced(".align", "before the type", span));
        }
        None => {
            once(to.align.is_some(), ".align", span)?;
            to.align = Some(value);
        }
    }
    Ok(())
}

/// Reads a node of the rule `attribute`.
pub(super) fn attribute(node: Node<'_>) -> Result<Attribute> {
    let span = node.span();
    let mut kind = AttributeKind::Managed;
    for inner in node.children() {
        match (inner.rule(), inner.text()) {
            (Rule::attribute_unified, _) => {
                let mut ids = inner.children();
                let mut id = || ids.next().map_or(Ok(0), |id| expr::plain_integer(&id));
                kind = AttributeKind::Unified(id()?, id()?);
            }
            (Rule::close_paren, _) | (_, ".managed") => {}
            (_, text) => {
                return Err(Diagnostic::error(format!("unknown attribute `{text}`"))
                    .label(inner.span(), ""));
            }
        }
    }
    Ok(Attribute { span, kind })
}

/// The linking directive called `name`.
pub(super) fn linkage(name: &str) -> Option<Linkage> {
    match name {
        "extern" => Some(Linkage::Extern),
        "visible" => Some(Linkage::Visible),
        "weak" => Some(Linkage::Weak),
        "common" => Some(Linkage::Common),
        _ => None,
    }
}

fn space_of(name: &str) -> Option<Space> {
    match name {
        "reg" => Some(Space::Reg),
        "sreg" => Some(Space::Sreg),
        "const" => Some(Space::Const),
        "global" => Some(Space::Global),
        "local" => Some(Space::Local),
        "param" => Some(Space::Param),
        "shared" => Some(Space::Shared),
        "tex" => Some(Space::Tex),
        _ => None,
    }
}

/// Is this a word that declarations are made of?
pub(super) fn is_specifier(text: &str) -> bool {
    let name = &text[1..];
    let is_other = matches!(name, "ptr" | "align" | "attribute" | "v2" | "v4");
    is_other
        || linkage(name).is_some()
        || space_of(name).is_some()
        || Type::from_name(name).is_some()
}

/// For a directive where none of its name belongs.
pub(super) fn unknown_directive(text: &str, span: Span) -> Diagnostic {
    let is_module_scope = [
        ".version",
        ".target",
        ".address_size",
        ".file",
        ".section",
        ".alias",
        ".entry",
        ".func",
    ];
    if is_module_scope.contains(&text) {
        return Diagnostic::error(format!("`{text}` does not belong here"))
            .label(span, "")
            .note("it stands at module scope, outside functions");
    }
    Diagnostic::error(format!("unknown directive `{text}`")).label(span, "")
}

fn once(is_repeated: bool, what: &str, span: Span) -> Result<()> {
    if !is_repeated {
        return Ok(());
    }
    let what = if what.starts_with('.') {
        format!("`{what}`")
    } else {
        what.to_owned()
    };
    Err(Diagnostic::error(format!("{what} is given twice")).label(span, ""))
}

fn misplaced(what: &str, place: &str, span: Span) -> Diagnostic {
    let what = if what.starts_with('.') {
        format!("`{what}`")
    } else {
        what.to_owned()
    };
    Diagnostic::error(format!("{what} must stand {place}")).label(span, "")
}

// ---- names
// ---------------------------------------------------------------------------------------

fn variable(node: Node<'_>, specifiers: &Specifiers) -> Result<Variable> {
    let (space, ty) = required(specifiers, node.span())?;
    let mut span = node.span();
    let mut name = None;
    let mut range = None;
    let mut dims = Vec::new();
    let mut init = span.at_end();
    for part in node.children() {
        match part.rule() {
            Rule::ident => name = Some(Ident { span: part.span() }),
            Rule::range => range = Some(expr::plain_u32(&part.child())?),
            Rule::dim => dims.push(dim(part, dims.is_empty())?),
            _ => init = part.span(),
        }
    }
    if !init.is_empty() {
        // The initializer, which may be megabytes, is not part of what messages point at.
        span.end = init.start;
    }
    let variable = Variable {
        span,
        name: name.unwrap_or_else(|| unreachable!("a declarator has a name")),
        space,
        linkage: specifiers
            .linkage
            .map_or(Linkage::Module, |(linkage, _)| linkage),
        ty,
        vector: specifiers.vector.map_or(1, |(lanes, _)| lanes),
        bank: specifiers.bank.map(|(bank, _)| bank),
        align: specifiers.align,
        range,
        dims: Dims::new(dims),
        init,
        attribute: specifiers.attribute.map(Box::new),
    };
    check_variable(&variable)?;
    Ok(variable)
}

fn dim(node: Node<'_>, is_first: bool) -> Result<Dim> {
    let span = node.span();
    match node.children().next() {
        Some(size) if size.rule() == Rule::warp_sz => Ok(Dim::Sized(32)),
        Some(size) if size.rule() == Rule::number => Ok(Dim::Sized(expr::plain_integer(&size)?)),
        Some(_) | None if is_first => Ok(Dim::Unsized),
        Some(_) | None => {
            Err(Diagnostic::error("only the first dimension can be left out").label(span, ""))
        }
    }
}

// ---- checks
// --------------------------------------------------------------------------------------

fn required(specifiers: &Specifiers, span: Span) -> Result<(Space, Type)> {
    let missing =
        |what: &str| Diagnostic::error(format!("{what} is missing")).label(span.at_start(), "");
    let (space, space_span) = specifiers.space.ok_or_else(|| missing("a state space"))?;
    let (ty, ty_span) = specifiers.ty.ok_or_else(|| missing("a type"))?;
    if ty == Type::Pred && space != Space::Reg {
        return Err(Diagnostic::error("predicates live in registers only")
            .label(ty_span, "")
            .label(space_span, "not a register"));
    }
    if ty.is_opaque() && !matches!(space, Space::Global | Space::Param) {
        return Err(Diagnostic::error(format!(
            "`.{}` belongs in `.global` or a kernel parameter",
            ty.name()
        ))
        .label(space_span, ""));
    }
    if let Some((lanes, lanes_span)) = specifiers.vector
        && (ty == Type::Pred || ty.is_opaque() || ty.size() * u32::from(lanes) > 16)
    {
        return Err(Diagnostic::error(format!(
            "there are no `.v{lanes} .{}` variables",
            ty.name()
        ))
        .label(lanes_span.to(ty_span), "")
        .note("vectors hold at most 128 bits and no predicates"));
    }
    Ok((space, ty))
}

fn check_specifiers(specifiers: &Specifiers, scope: Scope, span: Span) -> Result<()> {
    let (space, _) = required(specifiers, span)?;
    let (_, space_span) = specifiers.space.unwrap_or((space, span));
    if let Some((Linkage::Common, at)) = specifiers.linkage
        && space != Space::Global
    {
        return Err(Diagnostic::error("`.common` is for `.global` variables only").label(at, ""));
    }
    if let Some(Attribute {
        span,
        kind: AttributeKind::Managed | AttributeKind::Unified(..),
    }) = specifiers.attribute
        && space != Space::Global
    {
        return Err(
            Diagnostic::error("attributes are for `.global` variables and functions only")
                .label(span, ""),
        );
    }
    match scope {
        Scope::Module(version) => check_module_scope(specifiers, space, space_span, version),
        Scope::Body => match specifiers.linkage {
            Some((_, at)) => Err(Diagnostic::error(
                "a linking directive does not belong inside of a function",
            )
            .label(at, "only what stands at module scope is linked")),
            None => Ok(()),
        },
    }
}

fn check_module_scope(
    specifiers: &Specifiers,
    space: Space,
    span: Span,
    version: Version,
) -> Result<()> {
    let refuse = |message: &str| Err(Diagnostic::error(message).label(span, ""));
    match space {
        Space::Param => refuse("`.param` does not belong at module scope"),
        Space::Reg if version.at_least(3, 0) => refuse("module-scope `.reg` ended with PTX 3.0"),
        Space::Local if version.at_least(3, 0) => {
            refuse("module-scope `.local` ended with PTX 3.0")
        }
        Space::Tex if version.at_least(1, 5) => refuse("`.tex` ended with PTX 1.5"),
        Space::Const if specifiers.bank.is_some() && version.at_least(2, 2) => {
            refuse("constant banks ended with PTX 2.2")
        }
        Space::Reg
        | Space::Sreg
        | Space::Const
        | Space::Global
        | Space::Local
        | Space::Shared
        | Space::Tex => Ok(()),
    }
}

fn check_variable(variable: &Variable) -> Result<()> {
    let refuse = |message: &str, span: Span| Err(Diagnostic::error(message).label(span, ""));
    if variable.space == Space::Param {
        check_param_align(variable.align, variable.span)?;
    }
    let is_extern = variable.linkage == Linkage::Extern;
    let rest = Span::new(variable.name.span.end, variable.span.end);
    if variable.space == Space::Reg && variable.is_array() {
        return refuse("registers cannot be arrays", rest);
    }
    if variable.range.is_some() && (variable.is_array() || variable.has_init()) {
        return refuse(
            "a range of names has neither dimensions nor an initializer",
            rest,
        );
    }
    if variable.has_init() {
        if is_extern {
            return refuse("an `.extern` variable has no initializer", variable.init);
        }
        if !matches!(variable.space, Space::Const | Space::Global) {
            return refuse(
                "only `.const` and `.global` variables have initializers",
                variable.init,
            );
        }
        if matches!(variable.ty, Type::F16 | Type::F16x2) {
            return refuse(
                "`.f16` and `.f16x2` variables have no initializers",
                variable.init,
            );
        }
    }
    match variable.dims.first() {
        Some(Dim::Unsized) if !is_extern && !variable.has_init() => {
            refuse("the size of this array is missing", rest)
        }
        _ if variable.dims.contains(&Dim::Sized(0)) && !is_extern => {
            refuse("this array has no elements", rest)
        }
        Some(Dim::Unsized | Dim::Sized(_)) | None => Ok(()),
    }
}

/// What goes to a device function is aligned to 128 bytes at most.
pub(super) fn check_param_align(align: Option<u32>, span: Span) -> Result<()> {
    match align {
        Some(align @ 129..) => Err(Diagnostic::error(format!(
            "alignment {align} is too large for a parameter of a device function"
        ))
        .label(span, "at most 128 bytes")),
        Some(_) | None => Ok(()),
    }
}

fn check_param(
    specifiers: &Specifiers,
    space: Space,
    ty: Type,
    dims: &[Dim],
    span: Span,
) -> Result<()> {
    let refuse = |message: String| Err(Diagnostic::error(message).label(span, ""));
    if let Some((_, at)) = specifiers.linkage {
        return Err(Diagnostic::error("parameters have no linking directive").label(at, ""));
    }
    match space {
        Space::Reg if !dims.is_empty() => refuse("registers cannot be arrays".to_owned()),
        _ if dims.len() > 1 => refuse("a parameter has at most one dimension".to_owned()),
        Space::Param if specifiers.vector.is_some() => {
            refuse(format!("a `.param` cannot be a vector of `.{}`", ty.name()))
        }
        Space::Reg | Space::Param => Ok(()),
        Space::Sreg | Space::Const | Space::Global | Space::Local | Space::Shared | Space::Tex => {
            refuse("parameters are in `.param` or `.reg`".to_owned())
        }
    }
}
