//! Rules for addresses: generic ones, and those of known state spaces.

use ptxjit_ir::{Function, InstData, IntBinaryOp, Space, Type, Value};

use super::{Ctx, Found};

fn add(a: Value, b: Value) -> InstData {
    InstData::IntBinary {
        op: IntBinaryOp::Add,
        ty: Type::B64,
        args: [a, b],
    }
}

/// Constants move out of the conversion: the window's base is added modulo 2^64 like everything
/// else.
#[expect(clippy::wildcard_enum_match_arm, reason = "others are left alone")]
pub(super) fn to_generic(ctx: &mut Ctx, space: Space, arg: Value) -> Option<Found> {
    match ctx.def(arg)? {
        InstData::FromGeneric { space: of, arg } if of == space => Some(Found::Value(arg)),
        InstData::IntBinary {
            op: IntBinaryOp::Add,
            args: [base, k],
            ..
        } if ctx.as_const(k).is_some() => {
            let base = ctx.emit(InstData::ToGeneric { space, arg: base }, Type::B64);
            Some(Found::Inst(add(base, k)))
        }
        _ => None,
    }
}

/// The offset in a window of an address that was made from one.
pub(super) fn from_generic(ctx: &mut Ctx, space: Space, arg: Value) -> Option<Found> {
    if root(ctx.func, arg, MAX_DEPTH)? != space {
        return None;
    }
    let offset = rebuild(ctx, arg, MAX_DEPTH);
    Some(Found::Value(offset))
}

/// Only the address of something that is in the space for certain is known to be.
#[expect(clippy::wildcard_enum_match_arm, reason = "others are left alone")]
pub(super) fn is_space(ctx: &mut Ctx, space: Space, arg: Value) -> Option<Found> {
    match ctx.def(arg)? {
        InstData::ToGeneric { space: of, arg } => match ctx.def(arg)? {
            InstData::StackAddr { .. } | InstData::VarAddr { .. } if of == space => {
                Some(Found::Const(1))
            }
            _ => None,
        },
        _ => None,
    }
}

/// The window that a generic address certainly points into: one of its summands was made from a
/// window offset.
pub(super) fn window(ctx: &Ctx, addr: Value) -> Option<Space> {
    root(ctx.func, addr, MAX_DEPTH)
}

/// The offset in the window that `window` found.
pub(super) fn in_window(ctx: &mut Ctx, addr: Value) -> Value {
    rebuild(ctx, addr, MAX_DEPTH)
}

/// How many additions are looked through.
const MAX_DEPTH: u32 = 6;

/// The space of the window that a generic address points into: it is a sum with one converted
/// address. Adding to that address or to the offset in the window is the same, modulo 2^64.
#[expect(clippy::wildcard_enum_match_arm, reason = "others are left alone")]
fn root(func: &Function, addr: Value, depth: u32) -> Option<Space> {
    match *func.def_inst(addr)? {
        InstData::ToGeneric { space, .. } if space != Space::Global => Some(space),
        InstData::IntBinary {
            op: IntBinaryOp::Add,
            ty: Type::B64,
            args: [a, b],
        } if depth > 0 => {
            match (root(func, a, depth - 1), root(func, b, depth - 1)) {
                (Some(found), None) | (None, Some(found)) => Some(found),
                // Two addresses were added: whatever that is, it is no address in a window.
                (Some(_), Some(_)) | (None, None) => None,
            }
        }
        _ => None,
    }
}

/// The sum that has a root, with the conversion left out.
fn rebuild(ctx: &mut Ctx, addr: Value, depth: u32) -> Value {
    match ctx.def(addr) {
        Some(InstData::ToGeneric { arg, .. }) => arg,
        Some(InstData::IntBinary { args: [a, b], .. }) => {
            let is_left = root(ctx.func, a, depth - 1).is_some();
            let args = if is_left {
                [rebuild(ctx, a, depth - 1), b]
            } else {
                [a, rebuild(ctx, b, depth - 1)]
            };
            ctx.emit(add(args[0], args[1]), Type::B64)
        }
        Some(_) | None => unreachable!("the caller found a conversion in the sum"),
    }
}
