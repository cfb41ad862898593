//! Moves constants that are added to an address into the access.
//!
//! **Needs**: `simplify` before, which gathers constants at the end of a sum. **Ensures**: no
//! address of an access is a sum with a constant that would fit its offset.
//!
//! An address and its offset are added modulo 2^64, so a 64-bit address may lose any constant to
//! its offset. A 32-bit window address is sign-extended first: `sext(x + c)` and `sext(x) + c`
//! differ by 2^32 if `x + c` leaves the range of `s32`. Both are then at least 2^31 -
//! `MAX_WINDOW_OFFSET` away from the window's start, where nothing is mapped, provided that `c` is
//! small; so such constants are moved only below that limit.
//!
//! ```text
//! v2 = iadd.b64 v0, v1(= 16); v3 = load.global.b32 [v2+4]    ==>    v3 = load.global.b32 [v0+20]
//! ```

use ptxjit_ir::{Function, InstData, IntBinaryOp, Type, Value};

/// Runs the pass; says whether something changed.
pub fn run(func: &mut Function) -> bool {
    let mut changed = false;
    for block in func.blocks.keys() {
        for idx in 0..func.blocks[block].insts.len() {
            let inst = func.blocks[block].insts[idx];
            let data = &func.insts[inst].data;
            let (InstData::Load { addr, offset, .. }
            | InstData::Store { addr, offset, .. }
            | InstData::Atomic { addr, offset, .. }) = *data
            else {
                continue;
            };
            let folded = fold(func, addr, offset);
            changed |= update(&mut func.insts[inst].data, folded);
        }
    }
    changed
}

/// Constants of a greater magnitude stay in 32-bit addresses.
const MAX_WINDOW_OFFSET: i64 = 1 << 24;

/// The address without the constants that were added to it, and the offset with them.
fn fold(func: &Function, mut addr: Value, mut offset: i32) -> (Value, i32) {
    while let Some(&InstData::IntBinary {
        op: IntBinaryOp::Add,
        ty,
        args: [base, added],
    }) = func.def_inst(addr)
    {
        let Some(added) = func.as_const(added) else {
            break;
        };
        let is_wide = ty == Type::B64;
        let added = if is_wide {
            added as i64
        } else {
            i64::from(added as u32 as i32)
        };
        let Some(sum) = i64::from(offset)
            .checked_add(added)
            .and_then(|sum| i32::try_from(sum).ok())
        else {
            break;
        };
        if !is_wide && (added.abs() > MAX_WINDOW_OFFSET || i64::from(sum).abs() > MAX_WINDOW_OFFSET)
        {
            break;
        }
        (addr, offset) = (base, sum);
    }
    (addr, offset)
}

/// Gives an access its new address and offset; says whether that changed it.
fn update(data: &mut InstData, folded: (Value, i32)) -> bool {
    let (InstData::Load { addr, offset, .. }
    | InstData::Store { addr, offset, .. }
    | InstData::Atomic { addr, offset, .. }) = data
    else {
        return false;
    };
    let changed = (*addr, *offset) != folded;
    (*addr, *offset) = folded;
    changed
}
