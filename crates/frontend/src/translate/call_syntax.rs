//! The syntax of `call`: results, function, arguments and table of targets.

use crate::ast::{self, Ident, OperandKind};
use crate::diag::Diagnostic;
use crate::source::{Source, Span};

use super::Inst;

/// The operands of a `call`, told apart.
pub(super) struct Call<'m> {
    pub(super) rets: &'m [ast::Operand],
    pub(super) callee: Ident,
    pub(super) args: &'m [ast::Operand],
    /// `.calltargets`, `.callprototype`, or an array of function addresses.
    pub(super) table: Option<Ident>,
    pub(super) span: Span,
}

impl<'m> Call<'m> {
    /// Tells the operands of a `call` apart.
    pub(super) fn of(source: &Source, inst: &Inst<'m>) -> Result<Call<'m>, Diagnostic> {
        let mut operands = &inst.ast.operands[..];
        let rets = match operands {
            [first, rest @ ..]
                if !rest.is_empty()
                    && let OperandKind::List(rets) = &first.kind =>
            {
                operands = rest;
                &rets[..]
            }
            _ => &[],
        };
        let expected = || {
            inst.error("`call` takes `(result), function, (arguments), table`, of which only the function is mandatory")
        };
        let [callee, rest @ ..] = operands else {
            return Err(expected());
        };
        let OperandKind::Name(callee) = callee.kind else {
            return Err(expected());
        };
        let (args, rest) = match rest {
            [first, rest @ ..] if let OperandKind::List(args) = &first.kind => (&args[..], rest),
            // `(5)` alone is a constant in parentheses.
            [first, rest @ ..]
                if matches!(first.kind, OperandKind::Constant(_))
                    && source.slice(first.span).starts_with('(') =>
            {
                (std::slice::from_ref(first), rest)
            }
            rest => (&[][..], rest),
        };
        let table = match rest {
            [] => None,
            [table] if let OperandKind::Name(name) = table.kind => Some(name),
            _ => return Err(expected()),
        };
        Ok(Call {
            rets,
            callee,
            args,
            table,
            span: inst.span,
        })
    }
}
