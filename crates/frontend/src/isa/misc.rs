//! What is left: `trap`, `brkpt`, `nanosleep`, `pmevent`, `setmaxnreg`, `griddepcontrol`, and
//! asynchronous copies. PTX ISA, "Miscellaneous Instructions" and "Data Movement and Conversion
//! Instructions: cp.async".
//!
//! Asynchronous copies are done at once, which is one of the schedules the memory model allows; so
//! waiting for them is nothing. Where they are to complete late, [`super::late`] has them.

use ptxjit_ir::{AsyncGroup, CompareOp, InstData, IntUnaryOp, MarkOp, Space, Type, Value};

use crate::ast::OperandKind;
use crate::diag::Diagnostic;
use crate::translate::{AddrBase, Entity, Inst, Translator};

use super::bulk_copy::copy_in_steps;
use super::desc::{A, ADDR, ANY, Gate, InstDesc, imm, inst, since};
use super::late::{self, On};
use super::memory::POLICY;
use super::modifiers::Mod;
use super::types::PtxType as T;

const PREFETCH: &[Mod] = &[Mod::L2Bytes64, Mod::L2Bytes128, Mod::L2Bytes256];
const CP_GATES: &[Gate] = &[
    since(7, 0, 80),
    since(7, 8, 80).mods(&[Mod::SharedCta]),
    since(7, 4, 80).mods(PREFETCH),
];

pub const TABLE: &[InstDesc] = &[
    inst("trap", &[], trap).effect(),
    inst("brkpt", &[], mark).effect(),
    inst("nanosleep", &[A], nanosleep)
        .types(&[&[T::U32]])
        .gates(&[since(6, 2, 70)])
        .effect(),
    inst("pmevent", &[imm(0, 15)], mark)
        .gates(&[since(1, 4, 0)])
        .effect(),
    inst("pmevent", &[imm(0, 0xffff)], mark)
        .with(&[Mod::Mask])
        .gates(&[since(3, 0, 20)])
        .effect(),
    inst("setmaxnreg", &[imm(24, 256)], setmaxnreg)
        .with(&[Mod::Sync, Mod::Aligned])
        .choose(&[&[Mod::Inc, Mod::Dec]])
        .types(&[&[T::U32]])
        .gates(&[since(8, 0, 90).only(&[
            "90a", "100a", "100f", "101a", "101f", "103a", "110a", "110f", "120a", "120f",
        ])])
        .check(check_setmaxnreg)
        .effect(),
    inst("griddepcontrol", &[], mark)
        .choose(&[&[Mod::LaunchDependents, Mod::Wait]])
        .gates(&[since(7, 8, 90)])
        .effect(),
    inst("cp", &[ADDR, ADDR, imm(4, 16), ANY.opt(), POLICY], cp_async)
        .with(&[Mod::Async, Mod::Ca, Mod::Global])
        .choose(&[&[Mod::Shared, Mod::SharedCta]])
        .optional(&[&[Mod::L2CacheHint], PREFETCH])
        .gates(CP_GATES)
        .check(check_cp_async)
        .effect(),
    inst(
        "cp",
        &[ADDR, ADDR, imm(16, 16), ANY.opt(), POLICY],
        cp_async,
    )
    .with(&[Mod::Async, Mod::Cg, Mod::Global])
    .choose(&[&[Mod::Shared, Mod::SharedCta]])
    .optional(&[&[Mod::L2CacheHint], PREFETCH])
    .gates(CP_GATES)
    .check(check_cp_async)
    .effect(),
    inst("cp", &[], groups)
        .with(&[Mod::Async, Mod::CommitGroup])
        .gates(&[since(7, 0, 80)])
        .effect(),
    inst("cp", &[imm(0, i64::MAX)], groups)
        .with(&[Mod::Async, Mod::WaitGroup])
        .gates(&[since(7, 0, 80)])
        .effect(),
    inst("cp", &[], groups)
        .with(&[Mod::Async, Mod::WaitAll])
        .gates(&[since(7, 0, 80)])
        .effect(),
];

/// Stops the grid with an error.
fn trap<'m>(t: &mut Translator<'m>, _: &Inst<'m>) -> Result<(), Diagnostic> {
    t.trap();
    Ok(())
}

/// Something without effect on results that keeps its place: without a debugger `brkpt` does
/// nothing, grids run one after another, and copies and products have been done when they are
/// waited for.
pub(super) fn mark<'m>(t: &mut Translator<'m>, _: &Inst<'m>) -> Result<(), Diagnostic> {
    t.ins_void(InstData::Nop);
    Ok(())
}

/// Groups of copies, which have been done by now unless they complete late.
fn groups<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let group = AsyncGroup::Copies;
    let op = if inst.has(Mod::CommitGroup) {
        late::commit(t, group);
        MarkOp::CommitGroup
    } else if inst.has(Mod::WaitAll) {
        // A group of what is in none yet changes nothing else: numbers of groups count from the
        // last one.
        late::commit(t, group);
        late::wait(t, group, 0, false);
        MarkOp::WaitAll
    } else {
        let n = u32::try_from(t.src_const(inst, 0)?).unwrap_or(u32::MAX);
        late::wait(t, group, n, false);
        MarkOp::WaitGroup(n)
    };
    t.mark(op, &[]);
    mark(t, inst)
}

fn nanosleep<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let arg = t.src(inst, 0)?;
    t.ins_void(InstData::Nanosleep { arg });
    Ok(())
}

fn check_setmaxnreg<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let count = t.src_const(inst, 0)?;
    if count % 8 == 0 {
        Ok(())
    } else {
        Err(inst.operand_error(0, format!("{count} is not a multiple of 8")))
    }
}

/// There is nothing that registers could be taken from.
fn setmaxnreg<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    mark(t, inst)
}

/// The operand number of the source size or the `ignore-src` predicate. Optional as it is, it
/// stands before the cache policy.
fn source_size(inst: &Inst<'_>) -> Option<usize> {
    inst.has_optional().then_some(3)
}

fn check_cp_async<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let size = t.src_const(inst, 2)?;
    if !matches!(size, 4 | 8 | 16) {
        return Err(
            inst.operand_error(2, format!("`cp.async` copies 4, 8 or 16 bytes, not {size}"))
        );
    }
    for (n, space) in [(0, Space::Shared), (1, Space::Global)] {
        let Some(operand) = inst.operand(n) else {
            continue;
        };
        let addr = t.resolve_address(operand)?;
        if let AddrBase::Place(place) = &addr.base
            && place.space() != space
        {
            let name = if n == 0 { ".shared" } else { ".global" };
            return Err(inst.operand_error(n, format!("a `{name}` address is expected here")));
        }
    }
    match (source_size(inst), inst.operand(3)) {
        (Some(n), Some(_)) if is_predicate(t, inst, n) => {
            super::target::require(t, inst, &since(7, 5, 80), "a predicate as source size")
        }
        (Some(_), Some(operand)) => {
            super::operands::check_src_operand(t, inst, operand, &A, T::U32)
        }
        _ => Ok(()),
    }
}

/// Copies from global to shared memory; bytes beyond the source size are zero, and nothing is read
/// there.
fn cp_async<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    if t.is_late() {
        return copy(t, inst);
    }
    t.mark(MarkOp::AsyncBegin, &[]);
    copy(t, inst)?;
    t.mark(MarkOp::AsyncEnd, &[]);
    Ok(())
}

fn copy<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let size = t.src_const(inst, 2)? as u32;
    let src_size = match source_size(inst) {
        None => None,
        Some(n) if is_predicate(t, inst, n) => {
            let ignore = t.src_as(inst, n, T::Pred)?;
            let (zero, all) = (t.iconst(Type::B32, 0), t.iconst(Type::B32, u64::from(size)));
            Some(t.select(ignore, zero, all))
        }
        Some(n) => Some(t.src_as(inst, n, T::U32)?),
    };
    let (Some(dst), Some(src)) = (inst.operand(0), inst.operand(1)) else {
        return Ok(());
    };
    let (dst, src) = (t.resolve_address(dst)?, t.resolve_address(src)?);
    let dst = t.emit_address(&dst)?;
    let (src, src_offset) = t.emit_address(&src)?;
    let src = (t.zext_or_trunc(src, Type::B64), src_offset);
    let all = t.iconst(Type::B32, u64::from(size));
    if t.is_late() {
        let [to, from] = [(Space::Shared, dst), (Space::Global, src)]
            .map(|(space, (addr, offset))| (space, addr, offset));
        let sizes = [all, src_size.unwrap_or(all)];
        late::copy_some(t, On::Group(AsyncGroup::Copies), (to, from), sizes, None);
        return Ok(());
    }
    let Some(src_size) = src_size else {
        copy_words(t, dst, src, size);
        return Ok(());
    };
    let is_part = t.compare(CompareOp::Ult, src_size, all);
    let is_whole = t.unary(IntUnaryOp::Not, is_part);
    t.guarded(is_whole, |t| {
        copy_words(t, dst, src, size);
        Ok(())
    })?;
    t.guarded(is_part, |t| {
        let zero = t.iconst(Type::B32, 0);
        t.store(
            Space::Shared,
            Type::B32,
            dst,
            &vec![zero; size as usize / 4],
        );
        let [to, from] = [(Space::Shared, dst), (Space::Global, src)]
            .map(|(space, (addr, offset))| (space, addr, offset));
        copy_in_steps(t, to, from, src_size, (Type::B8, 1));
        Ok(())
    })
}

/// An address in a register and what is added to it.
type Address = (Value, i32);

fn copy_words(t: &mut Translator<'_>, dst: Address, src: Address, size: u32) {
    let words = t.load(Space::Global, Type::B32, size as usize / 4, src);
    t.store(Space::Shared, Type::B32, dst, &words);
}

/// Whether an operand is a predicate rather than a number.
fn is_predicate<'m>(t: &mut Translator<'m>, inst: &Inst<'m>, n: usize) -> bool {
    match inst.operand(n).map(|operand| &operand.kind) {
        Some(OperandKind::Not(_)) => true,
        Some(OperandKind::Name(name)) => {
            matches!(t.lookup(*name), Some(Entity::Reg(id)) if t.reg(id).ty == T::Pred)
        }
        _ => false,
    }
}
