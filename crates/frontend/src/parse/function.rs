//! Function headers: `.entry` and `.func` up to the body, and the directives that stand there.

use crate::ast::{
    AttributeKind, Dim, Function, FunctionDirective, FunctionDirectiveKind as Kind, FunctionKind,
    Ident, Linkage, Param, Pragma, Space, Version,
};
use crate::diag::Diagnostic;
use crate::parse::grammar::{Node, Piece, Rule};
use crate::parse::{declare, expr};
use crate::source::{Source, Span};

type Result<T> = std::result::Result<T, Diagnostic>;

/// Parses a header; `range` ends before the body, or with the semicolon of a prototype.
pub(super) fn header(
    source: &Source,
    range: Span,
    body: Option<Span>,
    version: Version,
) -> Result<Function> {
    let piece = Piece::new(source, range)?;
    let node = piece.parse(Rule::function)?;
    let mut function = empty(range, body);
    let mut is_named = false;
    for part in node.children() {
        let span = part.span();
        match part.rule() {
            Rule::word => set_linkage(&mut function, &part)?,
            Rule::function_kind if part.text() == ".entry" => function.kind = FunctionKind::Entry,
            Rule::attribute => function.attribute = Some(declare::attribute(part)?),
            Rule::params if is_named => function.params = params(part)?,
            Rule::params => function.returns = params(part)?,
            Rule::ident => {
                function.name = Ident { span };
                is_named = true;
            }
            Rule::function_directive => function.directives.push(directive(part)?),
            _ => {}
        }
    }
    function.span.end = range.start + trimmed_len(source.slice(range));
    check(source, &function, version)?;
    Ok(function)
}

fn empty(range: Span, body: Option<Span>) -> Function {
    Function {
        span: range,
        kind: FunctionKind::Func,
        linkage: Linkage::Module,
        name: Ident {
            span: range.at_start(),
        },
        returns: Vec::new(),
        params: Vec::new(),
        attribute: None,
        directives: Vec::new(),
        body,
    }
}

fn trimmed_len(text: &str) -> u32 {
    u32::try_from(text.trim_end().len()).unwrap_or(u32::MAX)
}

fn set_linkage(function: &mut Function, word: &Node<'_>) -> Result<()> {
    let (text, span) = (word.text(), word.span());
    let linkage =
        declare::linkage(&text[1..]).ok_or_else(|| declare::unknown_directive(text, span))?;
    if function.linkage != Linkage::Module {
        return Err(Diagnostic::error("a linking directive is given twice").label(span, ""));
    }
    if linkage == Linkage::Common {
        return Err(Diagnostic::error("`.common` is for `.global` variables only").label(span, ""));
    }
    function.linkage = linkage;
    Ok(())
}

/// Reads a node of the rule `params`.
pub(super) fn params(node: Node<'_>) -> Result<Vec<Param>> {
    node.children()
        .filter(|part| part.rule() == Rule::param)
        .map(declare::param)
        .collect()
}

/// Reads a node of the rule `pragma`.
pub(super) fn pragma(node: Node<'_>) -> Pragma {
    let span = node.span();
    let strings = node.children().filter(|part| part.rule() == Rule::string);
    let strings = strings.map(|string| unquoted(string.span())).collect();
    Pragma { span, strings }
}

/// A string's span without its quotes.
pub(super) fn unquoted(span: Span) -> Span {
    Span::new(span.start + 1, span.end - 1)
}

/// Reads a node of the rule `function_directive`.
pub(super) fn directive(node: Node<'_>) -> Result<FunctionDirective> {
    let span = node.span();
    let mut parts = node.children();
    let word = parts
        .next()
        .unwrap_or_else(|| unreachable!("a directive has a word"));
    if word.rule() == Rule::pragma {
        return Ok(FunctionDirective {
            span,
            kind: Kind::Pragma(pragma(word)),
        });
    }
    let values = parts
        .map(|number| expr::plain_u32(&number))
        .collect::<Result<Vec<u32>>>()?;
    let values = values.as_slice();
    let text = word.text();
    let kind = match text {
        ".maxnreg" => Kind::Maxnreg(positive(text, values, span)?),
        ".maxntid" => Kind::Maxntid(extent(text, values, span)?),
        ".reqntid" => Kind::Reqntid(extent(text, values, span)?),
        ".minnctapersm" => Kind::Minnctapersm(positive(text, values, span)?),
        ".maxnctapersm" => Kind::Maxnctapersm(positive(text, values, span)?),
        ".reqnctapercluster" => Kind::Reqnctapercluster(extent(text, values, span)?),
        ".maxclusterrank" => Kind::Maxclusterrank(one(text, values, span)?),
        ".abi_preserve" => Kind::AbiPreserve(one(text, values, span)?),
        ".abi_preserve_control" => Kind::AbiPreserveControl(one(text, values, span)?),
        ".explicitcluster" => none(text, values, span).map(|()| Kind::Explicitcluster)?,
        ".blocksareclusters" => none(text, values, span).map(|()| Kind::Blocksareclusters)?,
        ".noreturn" => none(text, values, span).map(|()| Kind::Noreturn)?,
        _ => return Err(declare::unknown_directive(text, word.span())),
    };
    Ok(FunctionDirective { span, kind })
}

fn none(text: &str, values: &[u32], span: Span) -> Result<()> {
    if values.is_empty() {
        Ok(())
    } else {
        Err(wrong_values(text, "no value", span))
    }
}

fn one(text: &str, values: &[u32], span: Span) -> Result<u32> {
    match values {
        &[value] => Ok(value),
        _ => Err(wrong_values(text, "one value", span)),
    }
}

fn positive(text: &str, values: &[u32], span: Span) -> Result<u32> {
    match one(text, values, span)? {
        0 => Err(wrong_values(text, "a positive value", span)),
        value => Ok(value),
    }
}

fn extent(text: &str, values: &[u32], span: Span) -> Result<[u32; 3]> {
    if values.is_empty() || values.len() > 3 || values.contains(&0) {
        return Err(wrong_values(text, "one to three positive values", span));
    }
    let dim = |idx: usize| values.get(idx).copied().unwrap_or(1);
    Ok([dim(0), dim(1), dim(2)])
}

fn wrong_values(text: &str, what: &str, span: Span) -> Diagnostic {
    Diagnostic::error(format!("`{text}` takes {what}")).label(span, "")
}

// ---- checks
// --------------------------------------------------------------------------------------

fn check(source: &Source, function: &Function, version: Version) -> Result<()> {
    check_names(source, function)?;
    match function.kind {
        FunctionKind::Entry => check_entry(function, version)?,
        FunctionKind::Func => check_func(function)?,
    }
    check_directives(function, version)
}

fn check_names(source: &Source, function: &Function) -> Result<()> {
    let names = function.returns.iter().chain(&function.params);
    let mut seen: rustc_hash::FxHashMap<&str, Span> = rustc_hash::FxHashMap::default();
    for param in names {
        let Some(name) = param.name else {
            return Err(Diagnostic::error("this parameter needs a name").label(param.span, ""));
        };
        if let Some(before) = seen.insert(name.text(source), name.span) {
            return Err(Diagnostic::error(format!(
                "parameter `{}` is declared twice",
                name.text(source)
            ))
            .label(name.span, "")
            .label(before, "first here"));
        }
    }
    Ok(())
}

fn check_entry(function: &Function, version: Version) -> Result<()> {
    if let Some(attribute) = &function.attribute {
        return Err(Diagnostic::error("kernels have no attributes").label(attribute.span, ""));
    }
    if function.body.is_none()
        && let Some(directive) = function.directives.first()
    {
        return Err(
            Diagnostic::error("directives stand only before the body of a kernel")
                .label(directive.span, "this kernel has no body"),
        );
    }
    if let Some(param) = function.returns.first() {
        return Err(Diagnostic::error("a kernel returns nothing").label(param.span, ""));
    }
    let mut size = 0u64;
    for param in &function.params {
        if param.space != Space::Param {
            return Err(
                Diagnostic::error("kernel parameters must be `.param`").label(param.span, "")
            );
        }
        if param.dims.contains(&Dim::Unsized) {
            return Err(Diagnostic::error("a kernel parameter needs a size").label(param.span, ""));
        }
        let element = u64::from(param.ty.size());
        let align = param.align.map_or(element, u64::from).max(1);
        size = size.next_multiple_of(align).saturating_add(bytes(param));
    }
    let limit = match version {
        _ if version.at_least(8, 1) => 32764,
        _ if version.at_least(1, 5) => 4352,
        _ => 256,
    };
    if size > limit {
        return Err(
            Diagnostic::error(format!("the parameters take {size} bytes")).label(
                function.name.span,
                format!(
                    "at most {limit} bytes in PTX {}.{}",
                    version.major, version.minor
                ),
            ),
        );
    }
    Ok(())
}

fn bytes(param: &Param) -> u64 {
    let count = param.dims.iter().fold(1u64, |count, dim| match dim {
        Dim::Unsized => 0,
        Dim::Sized(size) => count.saturating_mul(*size),
    });
    // Large enough to be refused, small enough to add up.
    count
        .saturating_mul(u64::from(param.ty.size()))
        .min(1 << 40)
}

fn check_func(function: &Function) -> Result<()> {
    for param in function.params.iter().chain(&function.returns) {
        declare::check_param_align(param.align, param.span)?;
    }
    check_returns(&function.returns)?;
    if let Some(attribute) = &function.attribute
        && attribute.kind == AttributeKind::Managed
    {
        return Err(Diagnostic::error("`.managed` is for variables only").label(attribute.span, ""));
    }
    let before_last = function
        .params
        .split_last()
        .map_or(&[][..], |(_, before)| before);
    match before_last
        .iter()
        .find(|param| matches!(param.dims.first(), Some(Dim::Unsized | Dim::Sized(0))))
    {
        Some(param) => Err(
            Diagnostic::error("only the last parameter can be without a size")
                .label(param.span, ""),
        ),
        None => Ok(()),
    }
}

fn check_directives(function: &Function, version: Version) -> Result<()> {
    for FunctionDirective { span, kind } in &function.directives {
        let refuse = |message: &str| Err(Diagnostic::error(message).label(*span, ""));
        let is_entry = function.kind == FunctionKind::Entry;
        match kind {
            Kind::Maxnctapersm(_) if version.at_least(2, 1) => {
                refuse("`.maxnctapersm` ended with PTX 2.1")?
            }
            Kind::AbiPreserve(_) | Kind::AbiPreserveControl(_) if is_entry => {
                refuse("`.abi_preserve` and `.abi_preserve_control` are for `.func` only")?;
            }
            Kind::Noreturn if is_entry => refuse("`.noreturn` is for `.func` only")?,
            Kind::Noreturn if !function.returns.is_empty() => {
                refuse("a function with `.noreturn` cannot return a value")?;
            }
            _ if !is_entry => check_callable(*span, kind)?,
            Kind::Blocksareclusters if !version.at_least(9, 0) => {
                refuse("`.blocksareclusters` needs PTX 9.0")?
            }
            Kind::Maxnreg(_)
            | Kind::Maxntid(_)
            | Kind::Reqntid(_)
            | Kind::Minnctapersm(_)
            | Kind::Maxnctapersm(_)
            | Kind::Reqnctapercluster(_)
            | Kind::Explicitcluster
            | Kind::Maxclusterrank(_)
            | Kind::Blocksareclusters
            | Kind::Noreturn
            | Kind::AbiPreserve(_)
            | Kind::AbiPreserveControl(_)
            | Kind::Pragma(_) => {}
        }
    }
    check_combination(function)
}

/// The results of a device function or of a prototype of calls.
pub(super) fn check_returns(returns: &[Param]) -> Result<()> {
    if let Some(ret) = returns.iter().find(|ret| ret.dims.contains(&Dim::Unsized)) {
        return Err(Diagnostic::error("a result needs a size").label(ret.span, ""));
    }
    match returns.iter().find(|ret| ret.space == Space::Param) {
        Some(ret) if returns.len() > 1 => {
            Err(Diagnostic::error("of several results all must be `.reg`").label(ret.span, ""))
        }
        Some(_) | None => Ok(()),
    }
}

/// A directive of a device function or a prototype of calls.
pub(super) fn check_callable(span: Span, kind: &Kind) -> Result<()> {
    // Registers are 254, and of those that a call preserves some are needed for its own return.
    const MOST: &[(&str, u32)] = &[(".abi_preserve", 239), (".abi_preserve_control", 11)];
    let (limit, value) = match kind {
        Kind::Noreturn => return Ok(()),
        Kind::AbiPreserve(value) => (MOST[0], *value),
        Kind::AbiPreserveControl(value) => (MOST[1], *value),
        _ => return Err(Diagnostic::error("this directive is for kernels only").label(span, "")),
    };
    match limit {
        (name, most) if value > most => Err(Diagnostic::error(format!(
            "`{name}` takes at most {most}, not {value}"
        ))
        .label(span, "")),
        _ => Ok(()),
    }
}

fn check_combination(function: &Function) -> Result<()> {
    let find = |is: fn(&Kind) -> bool| {
        function
            .directives
            .iter()
            .find(|directive| is(&directive.kind))
    };
    let exclude = |a: Option<&FunctionDirective>, b: Option<&FunctionDirective>| match (a, b) {
        (Some(a), Some(b)) => Err(Diagnostic::error("these directives exclude each other")
            .label(a.span, "")
            .label(b.span, "")),
        (Some(_) | None, None) | (None, Some(_)) => Ok(()),
    };
    let reqntid = find(|kind| matches!(kind, Kind::Reqntid(_)));
    let reqnctapercluster = find(|kind| matches!(kind, Kind::Reqnctapercluster(_)));
    exclude(find(|kind| matches!(kind, Kind::Maxntid(_))), reqntid)?;
    exclude(
        find(|kind| matches!(kind, Kind::Maxclusterrank(_))),
        reqnctapercluster,
    )?;
    match find(|kind| matches!(kind, Kind::Blocksareclusters)) {
        Some(at) if reqntid.is_none() || reqnctapercluster.is_none() => Err(Diagnostic::error(
            "`.blocksareclusters` needs `.reqntid` and `.reqnctapercluster`",
        )
        .label(at.span, "")),
        Some(_) | None => Ok(()),
    }
}
