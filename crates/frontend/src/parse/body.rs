//! Function bodies: statements, instructions and operands.
//!
//! The text goes through the grammar in pieces of some KB that end with a statement, so that the
//! grammar's token list stays small however large the body is. Inner scopes stay flat.

use smallvec::SmallVec;

use crate::ast::{
    Address, Body, BranchTarget, BranchTargets, CallPrototype, CallTargets, Element, Expr, Guard,
    Ident, InlinedAt, Inst, Loc, Modifier, NameOffset, Operand, OperandKind, Stmt, StmtKind,
};
use crate::diag::Diagnostic;
use crate::parse::declare::{self, Scope};
use crate::parse::grammar::{Node, Piece, Rule};
use crate::parse::{expr, function, scan};
use crate::source::{Source, Span};

type Result<T> = std::result::Result<T, Diagnostic>;

/// PERF: the grammar's tokens for a piece of this size stay in the second-level cache.
const PIECE: usize = 16 << 10;

/// Scopes within scopes: a name is looked for in each. ptxas gives up somewhere between 1000 and
/// 5000.
const MAX_SCOPES: u32 = 2000;

/// Only indices nest, `a[b[c]]`, and even that means nothing.
const MAX_DEPTH: u32 = 16;

/// Parses the body that `range` holds with its braces.
pub(super) fn body(source: &Source, range: Span) -> Result<Body> {
    let mut body = Body {
        span: range,
        ..Body::default()
    };
    let text = &source.text().as_bytes()[..range.end as usize - 1];
    let mut at = range.start as usize + 1;
    let mut n_open = 0u32;
    while at < text.len() {
        let end = piece_end(text, at)?;
        let piece = Piece::new(source, scan::span(at, end))?;
        for node in piece.parse(Rule::statements)?.children() {
            match node.rule() {
                Rule::scope_begin => n_open += 1,
                Rule::scope_end => n_open = n_open.saturating_sub(1),
                _ => {}
            }
            if n_open > MAX_SCOPES {
                let message = format!("scopes are nested more than {MAX_SCOPES} deep");
                return Err(Diagnostic::error(message).label(node.span(), ""));
            }
            statement(&mut body, node)?;
        }
        at = end;
    }
    Ok(body)
}

/// The first semicolon after a piece's length, or the end.
fn piece_end(text: &[u8], start: usize) -> Result<usize> {
    if text.len() - start <= PIECE + PIECE / 2 {
        return Ok(text.len());
    }
    let mut at = start;
    while let Some(found) = scan::next_delimiter(text, at)? {
        at = found + 1;
        if text[found] == b';' && at - start >= PIECE {
            return Ok(at);
        }
    }
    Ok(text.len())
}

fn statement(body: &mut Body, node: Node<'_>) -> Result<()> {
    let span = node.span();
    let kind = match node.rule() {
        Rule::instruction => StmtKind::Inst(instruction(node)?),
        Rule::label => StmtKind::Label(Ident {
            span: node.child().span(),
        }),
        Rule::scope_begin => StmtKind::ScopeBegin,
        Rule::scope_end => StmtKind::ScopeEnd,
        Rule::pragma => StmtKind::Pragma(Box::new(function::pragma(node))),
        Rule::loc => {
            body.locs.push(loc(node)?);
            return Ok(());
        }
        Rule::declaration => {
            return declare::declaration(node, Scope::Body, |variable| {
                let span = variable.span;
                body.stmts.push(Stmt {
                    span,
                    kind: StmtKind::Variable(Box::new(variable)),
                });
            });
        }
        Rule::EOI => return Ok(()),
        _ => labeled(take_label(body, span)?, node)?,
    };
    body.stmts.push(Stmt { span, kind });
    Ok(())
}

/// `.branchtargets` and the like are named by the label before them, which is theirs alone.
fn take_label(body: &mut Body, span: Span) -> Result<Ident> {
    match body.stmts.pop() {
        Some(Stmt {
            kind: StmtKind::Label(label),
            ..
        }) => Ok(label),
        Some(_) | None => {
            Err(Diagnostic::error("this directive needs a label before it").label(span, ""))
        }
    }
}

fn labeled(label: Ident, node: Node<'_>) -> Result<StmtKind> {
    match node.rule() {
        Rule::branch_targets => {
            let targets = node.children().filter(|part| part.rule() == Rule::target);
            let targets = targets.map(branch_target).collect::<Result<_>>()?;
            Ok(StmtKind::BranchTargets(Box::new(BranchTargets {
                label,
                targets,
            })))
        }
        Rule::call_targets => {
            let targets = node.children().filter(|part| part.rule() == Rule::ident);
            let targets = targets.map(|part| Ident { span: part.span() }).collect();
            Ok(StmtKind::CallTargets(Box::new(CallTargets {
                label,
                targets,
            })))
        }
        _ => Ok(StmtKind::CallPrototype(Box::new(call_prototype(
            label, node,
        )?))),
    }
}

fn branch_target(node: Node<'_>) -> Result<BranchTarget> {
    let mut parts = node.children();
    let name = parts
        .next()
        .unwrap_or_else(|| unreachable!("a target has a name"));
    let count = parts
        .next()
        .map(|range| expr::plain_u32(&range.child()))
        .transpose()?;
    Ok(BranchTarget {
        name: Ident { span: name.span() },
        count,
    })
}

fn call_prototype(label: Ident, node: Node<'_>) -> Result<CallPrototype> {
    let mut prototype = CallPrototype {
        label,
        returns: Vec::new(),
        params: Vec::new(),
        directives: Vec::new(),
    };
    let mut is_named = false;
    for part in node.children() {
        match part.rule() {
            Rule::sink => is_named = true,
            Rule::params if is_named => prototype.params = function::params(part)?,
            Rule::params => {
                prototype.returns = function::params(part)?;
                function::check_returns(&prototype.returns)?;
            }
            Rule::function_directive => {
                let directive = function::directive(part)?;
                function::check_callable(directive.span, &directive.kind)?;
                prototype.directives.push(directive);
            }
            _ => {}
        }
    }
    Ok(prototype)
}

fn loc(node: Node<'_>) -> Result<Loc> {
    let span = node.span();
    let mut numbers = [0; 3];
    let mut inlined = None;
    for (idx, part) in node.children().enumerate() {
        match numbers.get_mut(idx) {
            Some(number) => *number = expr::plain_u32(&part)?,
            None => inlined = Some(Box::new(inlined_at(part)?)),
        }
    }
    let [file, line, column] = numbers;
    Ok(Loc {
        span,
        file,
        line,
        column,
        inlined,
    })
}

fn inlined_at(node: Node<'_>) -> Result<InlinedAt> {
    let mut function_name = node.span();
    let mut numbers: SmallVec<[Node<'_>; 4]> = SmallVec::new();
    for part in node.children() {
        match part.rule() {
            Rule::debug_label => function_name = part.span(),
            _ => numbers.push(part),
        }
    }
    // With an offset there are four numbers, of which it is the first.
    let (offset, place) = numbers.split_at(numbers.len() - 3);
    Ok(InlinedAt {
        function_name,
        function_offset: offset.first().map_or(Ok(0), expr::plain_integer)?,
        file: expr::plain_u32(&place[0])?,
        line: expr::plain_u32(&place[1])?,
        column: expr::plain_u32(&place[2])?,
    })
}

// ---- instructions
// --------------------------------------------------------------------------------

fn instruction(node: Node<'_>) -> Result<Inst> {
    let mut inst = Inst {
        guard: None,
        opcode: Ident { span: node.span() },
        modifiers: SmallVec::new(),
        operands: SmallVec::new(),
    };
    let mut is_call = false;
    for part in node.children() {
        let span = part.span();
        match part.rule() {
            Rule::mnemonic => {
                let opcode = mnemonic(&part, &mut inst)?;
                is_call = opcode == "call";
            }
            Rule::suffix => modifiers(&part.text()[1..], span.start + 1, &mut inst)?,
            Rule::guard => inst.guard = Some(guard(part)),
            Rule::pair => complete_pair(inst.operands.last_mut(), part)?,
            Rule::unified => make_unified(inst.operands.last_mut(), span)?,
            Rule::semi => {}
            _ => inst.operands.push(operand(part, 0)?),
        }
    }
    if !is_call {
        inst.operands.iter_mut().try_for_each(unwrap_list)?;
    }
    Ok(inst)
}

/// Splits `opcode.modifier.modifier` and returns the opcode.
fn mnemonic<'a>(node: &Node<'a>, inst: &mut Inst) -> Result<&'a str> {
    let (text, start) = (node.text(), node.span().start);
    let (opcode, rest) = text
        .split_once('.')
        .map_or((text, None), |(opcode, rest)| (opcode, Some(rest)));
    let len = to_u32(opcode.len());
    inst.opcode.span = Span::new(start, start + len);
    if let Some(colons) = opcode.find("::") {
        let at = start + to_u32(colons);
        return Err(
            Diagnostic::error("`::` belongs in a modifier").label(Span::new(at, at + 2), "")
        );
    }
    if let Some(rest) = rest {
        modifiers(rest, start + len + 1, inst)?;
    }
    Ok(opcode)
}

/// Splits the text after a dot.
fn modifiers(text: &str, start: u32, inst: &mut Inst) -> Result<()> {
    let mut at = start;
    for modifier in text.split('.') {
        let span = Span::new(at, at + to_u32(modifier.len()));
        if modifier.is_empty() || modifier.starts_with("::") || modifier.ends_with("::") {
            return Err(Diagnostic::error("a modifier is missing here").label(span, ""));
        }
        inst.modifiers.push(Modifier { span });
        at = span.end + 1;
    }
    Ok(())
}

/// Lengths within a source fit.
fn to_u32(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

fn guard(node: Node<'_>) -> Guard {
    let span = node.span();
    let mut pred = Ident { span };
    let mut is_negated = false;
    for part in node.children() {
        match part.rule() {
            Rule::negation => is_negated = true,
            _ => pred.span = part.span(),
        }
    }
    Guard {
        span,
        pred,
        is_negated,
    }
}

/// `(5)` is a constant wherever it cannot be a list of arguments.
fn unwrap_list(operand: &mut Operand) -> Result<()> {
    let OperandKind::List(list) = &mut operand.kind else {
        return Ok(());
    };
    match &mut **list {
        [
            Operand {
                kind: OperandKind::Constant(constant),
                ..
            },
        ] => {
            let placeholder = Expr {
                span: constant.span,
                kind: crate::ast::ExprKind::WarpSize,
            };
            let constant = std::mem::replace(&mut **constant, placeholder);
            operand.kind = OperandKind::Constant(Box::new(constant));
            Ok(())
        }
        _ => {
            Err(Diagnostic::error("only `call` has operands in parentheses")
                .label(operand.span, ""))
        }
    }
}

fn complete_pair(first: Option<&mut Operand>, node: Node<'_>) -> Result<()> {
    let first = first.unwrap_or_else(|| unreachable!("a pair completes an operand"));
    let second = operand(node.child(), 1)?;
    let span = first.span.to(second.span);
    let sink = Operand {
        span,
        kind: OperandKind::Sink,
    };
    let whole = std::mem::replace(first, sink);
    *first = Operand {
        span,
        kind: OperandKind::Pair(Box::new([whole, second])),
    };
    Ok(())
}

fn make_unified(operand: Option<&mut Operand>, span: Span) -> Result<()> {
    let Some(OperandKind::Address(address)) = operand.map(|operand| &mut operand.kind) else {
        return Err(Diagnostic::error("`.unified` follows a plain address only").label(span, ""));
    };
    address.is_unified = true;
    Ok(())
}

/// Any operand but a pair.
fn operand(node: Node<'_>, depth: u32) -> Result<Operand> {
    let span = node.span();
    if depth > MAX_DEPTH {
        return Err(Diagnostic::error("this is nested too deeply").label(span, ""));
    }
    let kind = match node.rule() {
        Rule::register | Rule::ident => OperandKind::Name(Ident { span }),
        Rule::named => return named(node, depth),
        Rule::address => return address(node, depth),
        Rule::sink => OperandKind::Sink,
        Rule::vector => OperandKind::Vector(operands(node, depth + 1)?.into_boxed_slice()),
        Rule::list => OperandKind::List(operands(node, depth + 1)?.into_boxed_slice()),
        Rule::not => OperandKind::Not(Ident {
            span: node.child().span(),
        }),
        Rule::negated => OperandKind::Neg(Box::new(operand(node.child(), depth + 1)?)),
        _ => OperandKind::Constant(Box::new(expr::constant(node)?)),
    };
    Ok(Operand { span, kind })
}

fn operands(node: Node<'_>, depth: u32) -> Result<Vec<Operand>> {
    let mut operands = Vec::new();
    for part in node.children() {
        match part.rule() {
            Rule::pair => complete_pair(operands.last_mut(), part)?,
            Rule::unified => make_unified(operands.last_mut(), part.span())?,
            Rule::close_brace | Rule::close_paren => {}
            _ => operands.push(operand(part, depth)?),
        }
    }
    Ok(operands)
}

fn named(node: Node<'_>, depth: u32) -> Result<Operand> {
    let span = node.span();
    let mut parts = node.children();
    let name = Ident {
        span: parts.next().map_or(span, |part| part.span()),
    };
    let kind = match parts.next() {
        None => OperandKind::Name(name),
        Some(tail) => match tail.rule() {
            Rule::selector => OperandKind::Member {
                base: name,
                selector: Ident { span: tail.span() },
            },
            Rule::offset => {
                let offset = expr::constant(tail.child())?;
                OperandKind::NameOffset(Box::new(NameOffset { name, offset }))
            }
            _ => OperandKind::Element(Box::new(element(name, tail, depth)?)),
        },
    };
    Ok(Operand { span, kind })
}

fn element(name: Ident, node: Node<'_>, depth: u32) -> Result<Element> {
    let (index, offset) = base_and_offset(operand(node.child(), depth + 1)?)?;
    Ok(Element {
        name,
        index,
        offset,
    })
}

fn address(node: Node<'_>, depth: u32) -> Result<Operand> {
    let span = node.span();
    let mut parts: SmallVec<[Operand; 1]> = SmallVec::new();
    let mut sum = None;
    for part in node.children() {
        match part.rule() {
            Rule::close_bracket => {}
            Rule::offset => sum = Some(expr::constant(part.child())?),
            _ => parts.push(operand(part, depth + 1)?),
        }
    }
    let kind = match parts.len() {
        1 => {
            let (base, offset) = base_and_offset(parts.remove(0))?;
            OperandKind::Address(Box::new(Address {
                base,
                offset: sum.or(offset),
                is_unified: false,
            }))
        }
        _ => {
            parts.iter().try_for_each(refuse_element)?;
            OperandKind::Tuple(parts.into_vec().into_boxed_slice())
        }
    };
    Ok(Operand { span, kind })
}

/// Takes what stands in brackets apart.
fn base_and_offset(operand: Operand) -> Result<(Option<Operand>, Option<Expr>)> {
    refuse_element(&operand)?;
    match operand.kind {
        OperandKind::NameOffset(pair) => {
            let base = Operand {
                span: pair.name.span,
                kind: OperandKind::Name(pair.name),
            };
            Ok((Some(base), Some(pair.offset)))
        }
        OperandKind::Constant(offset) => Ok((None, Some(*offset))),
        OperandKind::Name(_) | OperandKind::Member { .. } => Ok((Some(operand), None)),
        OperandKind::Address(_)
        | OperandKind::Element(_)
        | OperandKind::Tuple(_)
        | OperandKind::Vector(_)
        | OperandKind::Sink
        | OperandKind::Pair(_)
        | OperandKind::Not(_)
        | OperandKind::Neg(_)
        | OperandKind::List(_) => {
            Err(Diagnostic::error("this is not an address").label(operand.span, ""))
        }
    }
}

fn refuse_element(operand: &Operand) -> Result<()> {
    match &operand.kind {
        OperandKind::Element(_) => {
            Err(Diagnostic::error("an index does not belong in brackets").label(operand.span, ""))
        }
        _ => Ok(()),
    }
}
