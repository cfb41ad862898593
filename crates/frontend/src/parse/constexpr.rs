//! Computes constant expressions, as the PTX ISA's "Summary of Constant Expression Evaluation
//! Rules" says.
//!
//! Where ptxas differs from that table, ptxas is followed, since all PTX in the world has gone
//! through it: `%` is unsigned, `& ^ |` are signed if both operands are, `?:` keeps the type of the
//! chosen arm, and shift amounts are taken modulo 64. Both operands are always computed, so `1 ||
//! 1/0` is wrong.

use crate::ast::{BinaryOp, Expr, ExprKind, UnaryOp};
use crate::diag::Diagnostic;
use crate::source::Span;

type Result<T> = std::result::Result<T, Diagnostic>;

/// The value of a constant expression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    S64(i64),
    U64(u64),
    F64(f64),
    /// A `0f` constant: the bits of a single, to be used as they are.
    F32Bits(u32),
}

impl Value {
    /// The 64 bits of an integer; users take as many low bits as they need.
    pub fn as_int(self) -> Option<u64> {
        match self {
            Value::S64(value) => Some(value as u64),
            Value::U64(value) => Some(value),
            Value::F64(_) | Value::F32Bits(_) => None,
        }
    }

    pub fn is_float(self) -> bool {
        self.as_int().is_none()
    }

    fn from_bool(value: bool) -> Value {
        Value::S64(i64::from(value))
    }
}

/// Two operands of one kind, after the usual conversions.
enum Operands {
    S64(i64, i64),
    U64(u64, u64),
    F64(f64, f64),
}

/// The value of `expr`.
pub fn evaluate(expr: &Expr) -> Result<Value> {
    match &expr.kind {
        ExprKind::Int {
            value,
            is_unsigned: true,
        } => Ok(Value::U64(*value)),
        ExprKind::Int {
            value,
            is_unsigned: false,
        } => Ok(Value::S64(*value as i64)),
        ExprKind::Float(value) => Ok(Value::F64(*value)),
        ExprKind::F32Bits(bits) => Ok(Value::F32Bits(*bits)),
        ExprKind::F64Bits(bits) => Ok(Value::F64(f64::from_bits(*bits))),
        ExprKind::WarpSize => Ok(Value::S64(32)),
        ExprKind::Unary(op, operand) => unary(*op, evaluate(operand)?, expr.span),
        ExprKind::Binary(op, operands) => {
            let [left, right] = &**operands;
            binary(*op, evaluate(left)?, evaluate(right)?, expr.span)
        }
        ExprKind::Select(operands) => {
            let [condition, then, other] = &**operands;
            select(
                evaluate(condition)?,
                evaluate(then)?,
                evaluate(other)?,
                expr.span,
            )
        }
    }
}

fn unary(op: UnaryOp, value: Value, span: Span) -> Result<Value> {
    match (op, value) {
        (UnaryOp::Plus, Value::S64(_) | Value::U64(_) | Value::F64(_)) => Ok(value),
        (UnaryOp::Neg, Value::S64(value)) => Ok(Value::S64(value.wrapping_neg())),
        (UnaryOp::Neg, Value::U64(value)) => Ok(Value::U64(value.wrapping_neg())),
        (UnaryOp::Neg, Value::F64(value)) => Ok(Value::F64(-value)),
        (UnaryOp::Plus | UnaryOp::Neg, Value::F32Bits(_)) => Err(integers_only(span)),
        (UnaryOp::Not, value) => Ok(Value::from_bool(int(value, span)? == 0)),
        (UnaryOp::BitNot, value) => Ok(Value::U64(!int(value, span)?)),
        (UnaryOp::CastS64, value) => Ok(Value::S64(int(value, span)? as i64)),
        (UnaryOp::CastU64, value) => Ok(Value::U64(int(value, span)?)),
    }
}

fn binary(op: BinaryOp, left: Value, right: Value, span: Span) -> Result<Value> {
    match op {
        BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div => {
            arithmetic(op, convert(left, right, span)?, span)
        }
        BinaryOp::Rem => {
            let (left, right) = (int(left, span)?, int(right, span)?);
            left.checked_rem(right)
                .map(Value::U64)
                .ok_or_else(|| division_by_zero(span))
        }
        BinaryOp::Shl | BinaryOp::Shr => {
            let amount = int(right, span)? as u32;
            Ok(match (op == BinaryOp::Shl, left) {
                (true, Value::S64(value)) => Value::S64(value.wrapping_shl(amount)),
                (false, Value::S64(value)) => Value::S64(value.wrapping_shr(amount)),
                (true, left) => Value::U64(int(left, span)?.wrapping_shl(amount)),
                (false, left) => Value::U64(int(left, span)?.wrapping_shr(amount)),
            })
        }
        BinaryOp::Lt | BinaryOp::Gt | BinaryOp::Le | BinaryOp::Ge | BinaryOp::Eq | BinaryOp::Ne => {
            let ordering = match convert(left, right, span)? {
                Operands::S64(left, right) => Some(left.cmp(&right)),
                Operands::U64(left, right) => Some(left.cmp(&right)),
                Operands::F64(left, right) => left.partial_cmp(&right),
            };
            Ok(Value::from_bool(holds(op, ordering)))
        }
        BinaryOp::BitAnd | BinaryOp::BitXor | BinaryOp::BitOr => bitwise(op, left, right, span),
        BinaryOp::And => Ok(Value::from_bool(
            (int(left, span)? != 0) & (int(right, span)? != 0),
        )),
        BinaryOp::Or => Ok(Value::from_bool(
            (int(left, span)? != 0) | (int(right, span)? != 0),
        )),
    }
}

fn arithmetic(op: BinaryOp, operands: Operands, span: Span) -> Result<Value> {
    let value = match operands {
        Operands::S64(left, right) => match op {
            BinaryOp::Add => Value::S64(left.wrapping_add(right)),
            BinaryOp::Sub => Value::S64(left.wrapping_sub(right)),
            BinaryOp::Mul => Value::S64(left.wrapping_mul(right)),
            _ if right == 0 => return Err(division_by_zero(span)),
            _ => Value::S64(left.wrapping_div(right)),
        },
        Operands::U64(left, right) => match op {
            BinaryOp::Add => Value::U64(left.wrapping_add(right)),
            BinaryOp::Sub => Value::U64(left.wrapping_sub(right)),
            BinaryOp::Mul => Value::U64(left.wrapping_mul(right)),
            _ if right == 0 => return Err(division_by_zero(span)),
            _ => Value::U64(left / right),
        },
        Operands::F64(left, right) => match op {
            BinaryOp::Add => Value::F64(left + right),
            BinaryOp::Sub => Value::F64(left - right),
            BinaryOp::Mul => Value::F64(left * right),
            _ if right == 0.0 => return Err(division_by_zero(span)),
            _ => Value::F64(left / right),
        },
    };
    Ok(value)
}

fn bitwise(op: BinaryOp, left: Value, right: Value, span: Span) -> Result<Value> {
    let is_signed = matches!((left, right), (Value::S64(_), Value::S64(_)));
    let (left, right) = (int(left, span)?, int(right, span)?);
    let bits = match op {
        BinaryOp::BitAnd => left & right,
        BinaryOp::BitXor => left ^ right,
        _ => left | right,
    };
    Ok(if is_signed {
        Value::S64(bits as i64)
    } else {
        Value::U64(bits)
    })
}

/// Does the comparison `op` hold? `None` is an unordered pair.
fn holds(op: BinaryOp, ordering: Option<std::cmp::Ordering>) -> bool {
    match op {
        BinaryOp::Lt => ordering.is_some_and(|o| o.is_lt()),
        BinaryOp::Gt => ordering.is_some_and(|o| o.is_gt()),
        BinaryOp::Le => ordering.is_some_and(|o| o.is_le()),
        BinaryOp::Ge => ordering.is_some_and(|o| o.is_ge()),
        BinaryOp::Eq => ordering.is_some_and(|o| o.is_eq()),
        _ => !ordering.is_some_and(|o| o.is_eq()),
    }
}

fn select(condition: Value, then: Value, other: Value, span: Span) -> Result<Value> {
    let is_chosen = int(condition, span)? != 0;
    int(then, span)?;
    int(other, span)?;
    Ok(if is_chosen { then } else { other })
}

/// The usual arithmetic conversions: unsigned if either is, and never from integer to float.
fn convert(left: Value, right: Value, span: Span) -> Result<Operands> {
    match (left, right) {
        (Value::S64(left), Value::S64(right)) => Ok(Operands::S64(left, right)),
        (Value::F64(left), Value::F64(right)) => Ok(Operands::F64(left, right)),
        (left, right) => match (left.as_int(), right.as_int()) {
            (Some(left), Some(right)) => Ok(Operands::U64(left, right)),
            _ => Err(
                Diagnostic::error("integer and floating-point constants do not mix")
                    .label(span, ""),
            ),
        },
    }
}

fn int(value: Value, span: Span) -> Result<u64> {
    value.as_int().ok_or_else(|| integers_only(span))
}

fn integers_only(span: Span) -> Diagnostic {
    Diagnostic::error("this operator takes no floating-point constant").label(span, "")
}

fn division_by_zero(span: Span) -> Diagnostic {
    Diagnostic::error("division by zero in a constant expression").label(span, "")
}
