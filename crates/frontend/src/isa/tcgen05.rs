//! `tcgen05` without its products: tensor memory is allocated, loaded, stored, copied and shifted,
//! and completion is signaled. PTX ISA, "TensorCore 5th Generation Family Instructions". Products
//! are in [`super::tcgen05_mma`], what all of them do in [`super::tcgen05_exec`].

use crate::ast::OperandKind;
use crate::diag::Diagnostic;
use crate::translate::{AddrBase, Entity, Inst, Translator};

use super::desc::{A, ADDR, D, Elems, Gate, Handler, InstDesc, Opd, OpdKind, imm, inst, since};
use super::misc::mark;
use super::mma::{check_lists, check_no_sink};
use super::modifiers::Mod;
use super::operands::check_memory_in;
use super::tcgen05_exec as exec;
use super::types::PtxType as T;

/// Architectures with tensor memory, families included.
pub(super) const ARCHS: &[&str] = &[
    "100a", "100f", "101a", "101f", "103a", "103f", "110a", "110f",
];
/// The same without family targets.
pub(super) const SPECIFIC: &[&str] = &["100a", "101a", "103a", "110a"];
pub(super) const GATES: &[Gate] = &[since(8, 6, 100).only(ARCHS)];
const SHIFT: &[Gate] = &[since(8, 6, 100).only(SPECIFIC)];
const REDUCE: &[Gate] = &[since(8, 8, 101).only(&["101a", "101f", "103a", "103f", "110a", "110f"])];
pub(super) const CTA_GROUP: &[Mod] = &[Mod::CtaGroup1, Mod::CtaGroup2];
const GROUP: &[&[Mod]] = &[CTA_GROUP];
const COLUMNS: Opd = A.is(T::U32);
const WORD: &[&[T]] = &[&[T::B32]];

const fn tcgen05(required: &'static [Mod], operands: &'static [Opd], handler: Handler) -> InstDesc {
    inst("tcgen05", operands, handler)
        .effect()
        .with(required)
        .gates(GATES)
}

/// One register of a fragment or more: [`check_fragment`] counts.
const LOADED: Opd = D.is(T::B32).vec(Elems::Any);
const STORED: Opd = A.is(T::B32).vec(Elems::Any);
const SPLIT: Opd = imm(i64::MIN, i64::MAX);
pub(super) const NUMBER: &[Mod] = &[
    Mod::X1,
    Mod::X2,
    Mod::X4,
    Mod::X8,
    Mod::X16,
    Mod::X32,
    Mod::X64,
    Mod::X128,
];
const SHAPE: &[&[Mod]] = &[
    &[Mod::N16x64b, Mod::N16x128b, Mod::N16x256b, Mod::N32x32b],
    NUMBER,
];
const HALVES: &[&[Mod]] = &[&[Mod::N16x32bx2], NUMBER];
const PACK: &[&[Mod]] = &[&[Mod::Pack16b]];
const UNPACK: &[&[Mod]] = &[&[Mod::Unpack16b]];
const LOAD: &[Mod] = &[Mod::Ld, Mod::Sync, Mod::Aligned];
const STORE: &[Mod] = &[Mod::St, Mod::Sync, Mod::Aligned];
const LOAD_REDUCE: &[Mod] = &[Mod::Ld, Mod::Red, Mod::Sync, Mod::Aligned];
const REDUCE_SHAPE: &[&[Mod]] = &[&[Mod::N32x32b], NUMBER, &[Mod::Min, Mod::Max]];
const REDUCE_HALVES: &[&[Mod]] = &[&[Mod::N16x32bx2], NUMBER, &[Mod::Min, Mod::Max]];
const FLOAT_OPTIONS: &[&[Mod]] = &[&[Mod::Abs], &[Mod::NaN]];
const FLOAT: &[&[T]] = &[&[T::F32]];
const INT: &[&[T]] = &[&[T::U32, T::S32]];

const fn reduce(form: &'static [&'static [Mod]], operands: &'static [Opd]) -> InstDesc {
    tcgen05(LOAD_REDUCE, operands, exec::load)
        .choose(form)
        .gates(REDUCE)
        .check(check_fragment)
}

const COPY_SHAPE: &[Mod] = &[
    Mod::N128x256b,
    Mod::N4x256b,
    Mod::N128x128b,
    Mod::N64x128b,
    Mod::N32x128b,
];
const MULTICAST: &[Mod] = &[Mod::Warpx20213, Mod::Warpx20123, Mod::Warpx4];
const SOURCE_FORMAT: &[Mod] = &[Mod::B6x16P32, Mod::B4x16P64];

pub const TABLE: &[InstDesc] = &[
    tcgen05(
        &[Mod::Alloc, Mod::Sync, Mod::Aligned],
        &[ADDR, COLUMNS],
        exec::alloc,
    )
    .choose(GROUP)
    .optional(&[&[Mod::SharedCta]])
    .types(WORD)
    .check(check_alloc),
    tcgen05(
        &[Mod::Dealloc, Mod::Sync, Mod::Aligned],
        &[COLUMNS, COLUMNS],
        exec::dealloc,
    )
    .choose(GROUP)
    .types(WORD)
    .check(check_alloc),
    tcgen05(
        &[Mod::RelinquishAllocPermit, Mod::Sync, Mod::Aligned],
        &[],
        exec::relinquish,
    )
    .choose(GROUP)
    .check(check_group),
    tcgen05(LOAD, &[LOADED, ADDR], exec::load)
        .choose(SHAPE)
        .optional(PACK)
        .types(WORD)
        .check(check_fragment),
    tcgen05(LOAD, &[LOADED, ADDR, SPLIT], exec::load)
        .choose(HALVES)
        .optional(PACK)
        .types(WORD)
        .check(check_fragment),
    tcgen05(STORE, &[ADDR, STORED], exec::store)
        .choose(SHAPE)
        .optional(UNPACK)
        .types(WORD)
        .check(check_fragment),
    tcgen05(STORE, &[ADDR, SPLIT, STORED], exec::store)
        .choose(HALVES)
        .optional(UNPACK)
        .types(WORD)
        .check(check_fragment),
    reduce(REDUCE_SHAPE, &[D.vec(Elems::Any), D, ADDR])
        .types(FLOAT)
        .optional(FLOAT_OPTIONS),
    reduce(REDUCE_SHAPE, &[D.vec(Elems::Any), D, ADDR]).types(INT),
    reduce(REDUCE_HALVES, &[D.vec(Elems::Any), D, ADDR, SPLIT])
        .types(FLOAT)
        .optional(FLOAT_OPTIONS),
    reduce(REDUCE_HALVES, &[D.vec(Elems::Any), D, ADDR, SPLIT]).types(INT),
    tcgen05(&[Mod::WaitLd, Mod::Sync, Mod::Aligned], &[], exec::wait),
    tcgen05(&[Mod::WaitSt, Mod::Sync, Mod::Aligned], &[], exec::wait),
    tcgen05(&[Mod::FenceBeforeThreadSync], &[], mark),
    tcgen05(&[Mod::FenceAfterThreadSync], &[], mark),
    tcgen05(&[Mod::Cp], &[ADDR, A.is(T::U64)], exec::copy)
        .choose(&[CTA_GROUP, COPY_SHAPE])
        .optional(&[MULTICAST, &[Mod::B8x16], SOURCE_FORMAT])
        .check(check_copy),
    tcgen05(&[Mod::Shift, Mod::Down], &[ADDR], exec::shift)
        .choose(GROUP)
        .gates(SHIFT)
        .check(check_shift),
    tcgen05(
        &[Mod::Commit, Mod::MbarrierArriveOne],
        &[ADDR, A.is(T::U16).when(Mod::MulticastCluster)],
        exec::commit,
    )
    .choose(GROUP)
    .optional(&[&[Mod::SharedCluster], &[Mod::MulticastCluster]])
    .types(&[&[T::B64]])
    .owns_guard()
    .check(check_commit),
];

/// All instructions of a function work on the same number of CTAs.
pub(super) fn check_group<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let Some(group) = inst.pick(CTA_GROUP) else {
        return Ok(());
    };
    let (first, span) = *t.cta_group.get_or_insert((group, inst.span));
    if first == group {
        return Ok(());
    }
    let message = format!(
        "`.{}` and `.{}` cannot both be used in one function",
        first.name(),
        group.name()
    );
    Err(Diagnostic::error(message)
        .label(inst.span, "")
        .label(span, format!("`.{}` is used here", first.name())))
}

/// An address of tensor memory is held in a `.b32` register.
pub(super) fn check_tensor_address<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    n: usize,
) -> Result<(), Diagnostic> {
    let Some(operand) = inst.operand(n) else {
        return Ok(());
    };
    if let OperandKind::Address(_) = operand.kind
        && let AddrBase::Reg(base) = t.resolve_address(operand)?.base
        && let OperandKind::Name(name) = base.kind
        && let Some(Entity::Reg(id)) = t.lookup(name)
        && t.reg(id).ty == T::B32
    {
        return Ok(());
    }
    Err(inst.operand_error(
        n,
        "an address of tensor memory is expected here: a `.b32` register in brackets",
    ))
}

/// 32 columns or a power of two of them, up to 512.
fn check_alloc<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    check_group(t, inst)?;
    if inst.has(Mod::Alloc) {
        check_memory_in(
            t,
            inst,
            0,
            inst.pick(&[Mod::SharedCta])
                .map(|_| ptxjit_ir::Space::Shared),
        )?;
    }
    if let Some(OperandKind::Constant(_)) = inst.operand(1).map(|operand| &operand.kind) {
        let columns = t.src_const(inst, 1)?;
        if !matches!(columns, 32 | 64 | 128 | 256 | 512) {
            return Err(inst.operand_error(
                1,
                format!("{columns} columns: a power of two from 32 to 512 is needed"),
            ));
        }
    }
    Ok(())
}

/// Registers of a fragment: the words of a row of the shape, times the number of repetitions.
fn registers(inst: &Inst<'_>) -> usize {
    let repetitions = 1 << NUMBER.iter().position(|&m| inst.has(m)).unwrap_or(0);
    match inst.pick(&[Mod::N16x128b, Mod::N16x256b]) {
        Some(Mod::N16x128b) => 2 * repetitions,
        Some(_) => 4 * repetitions,
        None => repetitions,
    }
}

fn check_fragment<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let expected = registers(inst);
    if expected > 128 {
        return Err(inst.error(format!(
            "`{}` would need {expected} registers, and there are at most 128",
            inst.name
        )));
    }
    if inst.has(Mod::Red) && inst.has(Mod::X1) {
        return Err(inst.error("`tcgen05.ld.red` needs at least two words: `.x2`"));
    }
    for (n, opd) in inst.opds.iter().enumerate() {
        if opd.kind == OpdKind::Addr {
            check_tensor_address(t, inst, n)?;
        }
        let found = match inst.operand(n).map(|operand| &operand.kind) {
            Some(OperandKind::Vector(elems)) => Some(elems.len()),
            _ => None,
        };
        if opd.elems == Elems::Any && found != Some(expected) {
            return Err(inst.operand_error(
                n,
                format!("`{}` takes a list of {expected} registers here", inst.name),
            ));
        }
    }
    if inst.has(Mod::Ld) {
        check_no_sink(inst)?;
    }
    check_lists(t, inst)
}

/// Shapes of fewer lanes are spread over all warps, as said; the others cover all lanes.
fn check_copy<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    check_group(t, inst)?;
    check_tensor_address(t, inst, 0)?;
    let multicast = inst.pick(MULTICAST);
    let (shape, is_right, needs) = match inst.pick(COPY_SHAPE) {
        Some(Mod::N64x128b) => (
            ".64x128b",
            multicast.is_some_and(|m| m != Mod::Warpx4),
            "needs `.warpx2::02_13` or `.warpx2::01_23`",
        ),
        Some(Mod::N32x128b) => (
            ".32x128b",
            multicast == Some(Mod::Warpx4),
            "needs `.warpx4`",
        ),
        Some(other) => (other.name(), multicast.is_none(), "takes no multicast"),
        None => return Ok(()),
    };
    if !is_right {
        return Err(inst.error(format!("`{shape}` of `tcgen05.cp` {needs}")));
    }
    if inst.has(Mod::B8x16) != inst.pick(SOURCE_FORMAT).is_some() {
        return Err(inst.error("the formats of destination and source stand together: `.b8x16.b6x16_p32` or `.b8x16.b4x16_p64`"));
    }
    Ok(())
}

fn check_shift<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    check_group(t, inst)?;
    check_tensor_address(t, inst, 0)
}

fn check_commit<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    check_group(t, inst)?;
    check_memory_in(
        t,
        inst,
        0,
        inst.pick(&[Mod::SharedCluster])
            .map(|_| ptxjit_ir::Space::Shared),
    )
}
