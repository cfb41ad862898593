//! Number literals and constant expressions: from grammar nodes to `ast::Expr`.
//!
//! Computing their value is in `constexpr`.

use crate::ast::{BinaryOp, Expr, ExprKind, UnaryOp};
use crate::diag::Diagnostic;
use crate::parse::grammar::{Node, Rule};
use crate::source::Span;

type Result<T> = std::result::Result<T, Diagnostic>;

/// Deep trees would overflow the stack of whoever walks them; nobody writes such expressions.
const MAX_TERMS: u32 = 1000;

/// Reads a number that stands alone, or a node of the rule `expr`.
pub(super) fn constant(node: Node<'_>) -> Result<Expr> {
    match node.rule() {
        Rule::number => term(&node),
        _ => expr(node),
    }
}

/// Reads a node of the rule `expr`.
pub(super) fn expr(node: Node<'_>) -> Result<Expr> {
    let mut budget = MAX_TERMS;
    let span = node.span();
    let expr = sequence(node, &mut budget)?;
    if budget == MAX_TERMS - 1 {
        Ok(expr)
    } else {
        refuse_single_bits(&expr).map(|()| Expr { span, ..expr })
    }
}

/// A `0f` constant stands alone: ptxas takes not even a sign before it.
fn refuse_single_bits(expr: &Expr) -> Result<()> {
    match &expr.kind {
        ExprKind::F32Bits(_) => Err(Diagnostic::error(
            "a `0f` constant cannot be part of an expression",
        )
        .label(expr.span, "")),
        ExprKind::Unary(_, operand) => refuse_single_bits(operand),
        ExprKind::Binary(_, operands) => operands.iter().try_for_each(refuse_single_bits),
        ExprKind::Select(operands) => operands.iter().try_for_each(refuse_single_bits),
        ExprKind::Int { .. } | ExprKind::Float(_) | ExprKind::F64Bits(_) | ExprKind::WarpSize => {
            Ok(())
        }
    }
}

/// An operator that waits for its right operand, or for its only one.
enum Pending {
    Unary(UnaryOp, Span),
    Binary(BinaryOp),
}

/// Terms and operators in written order become a tree (the shunting-yard algorithm).
fn sequence(node: Node<'_>, budget: &mut u32) -> Result<Expr> {
    let mut operands: Vec<Expr> = Vec::with_capacity(2);
    let mut pending: Vec<Pending> = Vec::new();
    for part in node.children() {
        let span = part.span();
        *budget = budget.checked_sub(1).ok_or_else(|| {
            Diagnostic::error("this constant expression is too long").label(span, "")
        })?;
        match part.rule() {
            Rule::prefix => pending.push(Pending::Unary(prefix_op(part.text()), span)),
            Rule::cast => pending.push(Pending::Unary(cast_op(part.child().text()), span)),
            Rule::infix => {
                let op = infix_op(part.text());
                reduce(&mut operands, &mut pending, precedence(op));
                pending.push(Pending::Binary(op));
            }
            Rule::select => {
                reduce(&mut operands, &mut pending, 0);
                let condition = pop(&mut operands);
                operands.push(select(condition, part, budget)?);
            }
            Rule::parens => operands.push(sequence(part.child(), budget)?),
            _ => operands.push(term(&part)?),
        }
    }
    reduce(&mut operands, &mut pending, 0);
    Ok(pop(&mut operands))
}

fn pop(operands: &mut Vec<Expr>) -> Expr {
    operands
        .pop()
        .unwrap_or_else(|| unreachable!("the grammar puts a term where one is taken"))
}

/// Completes the pending operators that bind at least as tightly as `level`.
fn reduce(operands: &mut Vec<Expr>, pending: &mut Vec<Pending>, level: u8) {
    while let Some(top) = pending.last() {
        match *top {
            Pending::Unary(op, at) => {
                let operand = pop(operands);
                let span = at.to(operand.span);
                operands.push(Expr {
                    span,
                    kind: ExprKind::Unary(op, Box::new(operand)),
                });
            }
            Pending::Binary(op) if precedence(op) >= level => {
                let right = pop(operands);
                let left = pop(operands);
                let span = left.span.to(right.span);
                operands.push(Expr {
                    span,
                    kind: ExprKind::Binary(op, Box::new([left, right])),
                });
            }
            Pending::Binary(_) => return,
        }
        pending.pop();
    }
}

fn select(condition: Expr, node: Node<'_>, budget: &mut u32) -> Result<Expr> {
    let span = condition.span.to(node.span());
    let mut arms = node.children().filter(|part| part.rule() == Rule::expr);
    let mut arm = || match arms.next() {
        Some(arm) => sequence(arm, budget),
        None => unreachable!("`?` has two arms"),
    };
    let (then, other) = (arm()?, arm()?);
    Ok(Expr {
        span,
        kind: ExprKind::Select(Box::new([condition, then, other])),
    })
}

fn term(node: &Node<'_>) -> Result<Expr> {
    let span = node.span();
    let kind = match node.rule() {
        Rule::warp_sz => ExprKind::WarpSize,
        Rule::number => number(node.text(), span)?,
        _ => unreachable!("the grammar has no other terms"),
    };
    Ok(Expr { span, kind })
}

fn prefix_op(text: &str) -> UnaryOp {
    match text {
        "-" => UnaryOp::Neg,
        "+" => UnaryOp::Plus,
        "!" => UnaryOp::Not,
        _ => UnaryOp::BitNot,
    }
}

fn cast_op(text: &str) -> UnaryOp {
    if text == ".s64" {
        UnaryOp::CastS64
    } else {
        UnaryOp::CastU64
    }
}

fn infix_op(text: &str) -> BinaryOp {
    match text {
        "*" => BinaryOp::Mul,
        "/" => BinaryOp::Div,
        "%" => BinaryOp::Rem,
        "+" => BinaryOp::Add,
        "-" => BinaryOp::Sub,
        "<<" => BinaryOp::Shl,
        ">>" => BinaryOp::Shr,
        "<" => BinaryOp::Lt,
        ">" => BinaryOp::Gt,
        "<=" => BinaryOp::Le,
        ">=" => BinaryOp::Ge,
        "==" => BinaryOp::Eq,
        "!=" => BinaryOp::Ne,
        "&" => BinaryOp::BitAnd,
        "^" => BinaryOp::BitXor,
        "|" => BinaryOp::BitOr,
        "&&" => BinaryOp::And,
        _ => BinaryOp::Or,
    }
}

/// Higher binds tighter.
fn precedence(op: BinaryOp) -> u8 {
    match op {
        BinaryOp::Mul | BinaryOp::Div | BinaryOp::Rem => 10,
        BinaryOp::Add | BinaryOp::Sub => 9,
        BinaryOp::Shl | BinaryOp::Shr => 8,
        BinaryOp::Lt | BinaryOp::Gt | BinaryOp::Le | BinaryOp::Ge => 7,
        BinaryOp::Eq | BinaryOp::Ne => 6,
        BinaryOp::BitAnd => 5,
        BinaryOp::BitXor => 4,
        BinaryOp::BitOr => 3,
        BinaryOp::And => 2,
        BinaryOp::Or => 1,
    }
}

/// A number without sign, as an expression.
pub(super) fn number(text: &str, span: Span) -> Result<ExprKind> {
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.get(1)) {
        (Some(b'0'), Some(b'f' | b'F')) => {
            bits(text, span, 8).map(|bits| ExprKind::F32Bits(bits as u32))
        }
        (Some(b'0'), Some(b'd' | b'D')) => bits(text, span, 16).map(ExprKind::F64Bits),
        (Some(b'0'), Some(b'x' | b'X')) => integer(text, &text[2..], 16, span),
        (Some(b'0'), Some(b'b' | b'B')) => integer(text, &text[2..], 2, span),
        _ if text.contains(['.', 'e', 'E']) => float(text, span),
        (Some(b'0'), Some(b'0'..=b'9')) => integer(text, &text[1..], 8, span),
        _ => integer(text, text, 10, span),
    }
}

/// A number that must be a plain integer without sign, as directives have them.
pub(super) fn plain_integer(node: &Node<'_>) -> Result<u64> {
    match number(node.text(), node.span())? {
        ExprKind::Int { value, .. } => Ok(value),
        ExprKind::Float(_)
        | ExprKind::F32Bits(_)
        | ExprKind::F64Bits(_)
        | ExprKind::WarpSize
        | ExprKind::Unary(..)
        | ExprKind::Binary(..)
        | ExprKind::Select(_) => Err(Diagnostic::error(format!(
            "`{}` is not an integer",
            node.text()
        ))
        .label(node.span(), "an integer must stand here")),
    }
}

/// The like for what must fit 32 bits.
pub(super) fn plain_u32(node: &Node<'_>) -> Result<u32> {
    let value = plain_integer(node)?;
    u32::try_from(value).map_err(|_| {
        Diagnostic::error(format!("`{}` is too large", node.text()))
            .label(node.span(), "at most 4294967295")
    })
}

fn bits(text: &str, span: Span, digits: usize) -> Result<u64> {
    let hex = &text[2..];
    if hex.len() == digits && hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(u64::from_str_radix(hex, 16).unwrap_or_else(|_| unreachable!("hex digits")));
    }
    Err(Diagnostic::error(format!(
        "`{}` takes exactly {digits} hexadecimal digits",
        &text[..2]
    ))
    .label(span, ""))
}

/// Digits past 64 bits are an error where ptxas notices them, and else fall away as they do there.
fn integer(text: &str, digits: &str, radix: u64, span: Span) -> Result<ExprKind> {
    let (digits, has_suffix) = match digits.strip_suffix('U') {
        Some(digits) => (digits, true),
        None => (digits, false),
    };
    let mut value = 0u64;
    let mut is_wrapped = false;
    for c in digits.chars() {
        let digit = c
            .to_digit(radix as u32)
            .ok_or_else(|| bad_digit(text, c, radix, span))?;
        let shifted = value.wrapping_mul(radix);
        if shifted < value {
            return Err(Diagnostic::error(format!("`{text}` is too large"))
                .label(span, "integers have 64 bits"));
        }
        let next = u128::from(value) * u128::from(radix) + u128::from(digit);
        is_wrapped |= next > u128::from(u64::MAX);
        value = next as u64;
    }
    if digits.is_empty() {
        return Err(Diagnostic::error(format!("`{text}` has no digits")).label(span, ""));
    }
    let is_unsigned = has_suffix || is_wrapped || i64::try_from(value).is_err();
    Ok(ExprKind::Int { value, is_unsigned })
}

fn bad_digit(text: &str, c: char, radix: u64, span: Span) -> Diagnostic {
    let kind = match radix {
        2 => "binary",
        8 => "octal",
        16 => "hexadecimal",
        _ => "decimal",
    };
    let diagnostic = Diagnostic::error(format!("`{text}` is not a number")).label(span, "");
    let diagnostic = diagnostic.note(format!("`{c}` is not a digit of a {kind} number"));
    if c.eq_ignore_ascii_case(&'u') {
        return diagnostic.note("the only suffix is `U`");
    }
    diagnostic
}

fn float(text: &str, span: Span) -> Result<ExprKind> {
    let value: f64 = text.parse().map_err(|_| {
        Diagnostic::error(format!("`{text}` is not a number"))
            .label(span, "")
            .note("floating-point constants take no suffix")
    })?;
    if value.is_infinite() {
        return Err(
            Diagnostic::error(format!("`{text}` is too large for a double")).label(span, ""),
        );
    }
    Ok(ExprKind::Float(value))
}
