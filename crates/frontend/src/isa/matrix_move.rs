//! `ldmatrix`, `stmatrix` and `movmatrix`: 8x8 tiles and their like between shared memory and
//! fragments. PTX ISA, "Warp-Level Matrix Instructions".

use ptxjit_ir::{CompareOp, DeviceOp, InstData, IntBinaryOp, Space, SpecialReg, Type, Value};
use smallvec::SmallVec;

use crate::diag::Diagnostic;
use crate::translate::{Inst, Translator};

use super::desc::{A, ADDR, D, Gate, InstDesc, Opd, inst, since};
use super::fragments::{Lane, from_lane, lane, registers, scaled, transposed};
use super::memory::space_of;
use super::mma::{check_lists, frag, out};
use super::modifiers::Mod;
use super::operands::check_memory_in;
use super::types::PtxType as T;

const SHARED: &[Mod] = &[Mod::Shared, Mod::SharedCta];
const SHARED_CTA: Gate = since(7, 8, 0).mods(&[Mod::SharedCta]);
const LOAD: &[Gate] = &[since(6, 5, 75), SHARED_CTA];
const STORE: &[Gate] = &[since(7, 8, 90)];
/// Targets with tiles of 8-bit elements.
const NARROW_ARCHS: &[&str] = &[
    "100a", "100f", "101a", "101f", "103a", "103f", "110a", "110f", "120a", "120f", "121a", "121f",
];
const NARROW: &[Gate] = &[since(8, 6, 100).only(NARROW_ARCHS)];

const TRANS: &[&[Mod]] = &[SHARED, &[Mod::Trans]];
const SPACE: &[&[Mod]] = &[SHARED];
const SOURCE_FORMAT: &[Mod] = &[Mod::B6x16P32, Mod::B4x16P64];

const fn load(form: &'static [&'static [Mod]], operands: &'static [Opd]) -> InstDesc {
    inst("ldmatrix", operands, ldmatrix)
        .with(&[Mod::Sync, Mod::Aligned])
        .choose(form)
        .optional(SPACE)
        .gates(NARROW)
        .check(check_matrix)
        .effect()
}

const fn load_words(form: &'static [&'static [Mod]], operands: &'static [Opd]) -> InstDesc {
    load(form, operands)
        .optional(TRANS)
        .types(&[&[T::B16]])
        .gates(LOAD)
}

const fn store(form: &'static [&'static [Mod]], operands: &'static [Opd]) -> InstDesc {
    inst("stmatrix", operands, stmatrix)
        .with(&[Mod::Sync, Mod::Aligned])
        .choose(form)
        .optional(SPACE)
        .check(check_matrix)
        .effect()
}

const fn store_words(form: &'static [&'static [Mod]], operands: &'static [Opd]) -> InstDesc {
    store(form, operands)
        .optional(TRANS)
        .types(&[&[T::B16]])
        .gates(STORE)
}

const fn store_bytes(form: &'static [&'static [Mod]], operands: &'static [Opd]) -> InstDesc {
    store(form, operands).types(&[&[T::B8]]).gates(NARROW)
}

const R1: &[Opd] = &[out(1, T::B32), ADDR];
const R2: &[Opd] = &[out(2, T::B32), ADDR];
const R4: &[Opd] = &[out(4, T::B32), ADDR];

pub const TABLE: &[InstDesc] = &[
    load_words(&[&[Mod::M8n8], &[Mod::X1]], R1),
    load_words(&[&[Mod::M8n8], &[Mod::X2]], R2),
    load_words(&[&[Mod::M8n8], &[Mod::X4]], R4),
    load(&[&[Mod::M16n16], &[Mod::X1], &[Mod::Trans]], R2).types(&[&[T::B8]]),
    load(&[&[Mod::M16n16], &[Mod::X2], &[Mod::Trans]], R4).types(&[&[T::B8]]),
    load(
        &[
            &[Mod::M16n16],
            &[Mod::X1],
            &[Mod::Trans],
            &[Mod::B8x16],
            SOURCE_FORMAT,
        ],
        R2,
    ),
    load(
        &[
            &[Mod::M16n16],
            &[Mod::X2],
            &[Mod::Trans],
            &[Mod::B8x16],
            SOURCE_FORMAT,
        ],
        R4,
    ),
    load(
        &[&[Mod::M8n16], &[Mod::X1], &[Mod::B8x16], SOURCE_FORMAT],
        R1,
    ),
    load(
        &[&[Mod::M8n16], &[Mod::X2], &[Mod::B8x16], SOURCE_FORMAT],
        R2,
    ),
    load(
        &[&[Mod::M8n16], &[Mod::X4], &[Mod::B8x16], SOURCE_FORMAT],
        R4,
    ),
    store_words(&[&[Mod::M8n8], &[Mod::X1]], &[ADDR, frag(1, T::B32)]),
    store_words(&[&[Mod::M8n8], &[Mod::X2]], &[ADDR, frag(2, T::B32)]),
    store_words(&[&[Mod::M8n8], &[Mod::X4]], &[ADDR, frag(4, T::B32)]),
    store_bytes(
        &[&[Mod::M16n8], &[Mod::X1], &[Mod::Trans]],
        &[ADDR, frag(1, T::B32)],
    ),
    store_bytes(
        &[&[Mod::M16n8], &[Mod::X2], &[Mod::Trans]],
        &[ADDR, frag(2, T::B32)],
    ),
    store_bytes(
        &[&[Mod::M16n8], &[Mod::X4], &[Mod::Trans]],
        &[ADDR, frag(4, T::B32)],
    ),
    inst("movmatrix", &[D.is(T::B32), A.is(T::B32).reg()], movmatrix)
        .with(&[Mod::Sync, Mod::Aligned, Mod::M8n8, Mod::Trans])
        .types(&[&[T::B16]])
        .gates(&[since(7, 8, 75)])
        .effect(),
];

/// Rows lie in shared memory.
fn check_matrix<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let n = if inst.desc.opcode == "ldmatrix" { 1 } else { 0 };
    let space = inst.pick(SHARED).map(|_| Space::Shared);
    check_memory_in(t, inst, n, space)?;
    check_lists(t, inst)
}

/// Where the rows of this lane begin, in the window of shared memory.
fn row_address<'m>(t: &mut Translator<'m>, inst: &Inst<'m>, n: usize) -> Result<Value, Diagnostic> {
    let Some(operand) = inst.operand(n) else {
        return Err(inst.error(format!("`{}` lacks an address", inst.name)));
    };
    let addr = t.resolve_address(operand)?;
    let space = space_of(t, inst, &addr)?;
    let (mut base, offset) = t.emit_address(&addr)?;
    if space == Space::Generic {
        let space = Space::Shared;
        let arg = t.zext_or_trunc(base, Type::B64);
        base = t.ins(InstData::FromGeneric { space, arg }, Type::B64);
    }
    let base = t.zext_or_trunc(base, Type::B32);
    let offset = t.iconst(Type::B32, u64::from(offset as u32));
    let row = t.binary(IntBinaryOp::Add, base, offset);
    let rows = tiles(inst) * if inst.has(Mod::M16n16) { 16 } else { 8 };
    let mut used = row;
    if rows < 32 {
        // The addresses of the other lanes are not used.
        let sreg = SpecialReg::LaneId;
        let lane = t.ins(InstData::Sreg { sreg }, Type::B32);
        let (rows, zero) = (t.iconst(Type::B32, rows), t.iconst(Type::B32, 0));
        let has_row = t.compare(CompareOp::Ult, lane, rows);
        used = t.select(has_row, row, zero);
    }
    t.ins_void(InstData::Device {
        op: DeviceOp::AlignedRow,
        args: SmallVec::from_slice(&[used]),
    });
    Ok(row)
}

/// Tiles that an instruction moves, one after the other.
fn tiles(inst: &Inst<'_>) -> u64 {
    match inst.pick(&[Mod::X2, Mod::X4]) {
        Some(Mod::X2) => 2,
        Some(_) => 4,
        None => 1,
    }
}

fn ldmatrix<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let own = row_address(t, inst, 1)?;
    let lane = lane(t);
    let mut registers = Vec::new();
    for tile in 0..tiles(inst) {
        if inst.has(Mod::M16n16) {
            // Rows of 16 bytes from 16 lanes; a register has four rows of a column.
            let rows = [0, 1, 2, 3].map(|row| row_of(t, own, lane.within, 4, 16 * tile + row));
            for half in 0..2 {
                let column = scaled(t, lane.quad, 1, 8 * half);
                let bytes = rows.map(|row| element(t, inst, row, column));
                registers.push(t.concat(&bytes, Type::B32));
            }
            continue;
        }
        let row = row_of(t, own, lane.quad, 1, 8 * tile);
        registers.push(if inst.has(Mod::M8n16) {
            let bytes = [0, 1, 2, 3].map(|column| {
                let column = scaled(t, lane.within, 4, column);
                element(t, inst, row, column)
            });
            t.concat(&bytes, Type::B32)
        } else {
            let at = word_of(t, row, lane);
            let word = t.load(Space::Shared, Type::B32, 1, (at, 0))[0];
            if inst.has(Mod::Trans) {
                transposed(t, word)
            } else {
                word
            }
        });
    }
    t.dst_elems(inst, 0, &registers)
}

fn stmatrix<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let own = row_address(t, inst, 0)?;
    let registers = registers(t, inst, 1)?;
    let lane = lane(t);
    for (tile, &register) in (0..).zip(&registers) {
        if inst.has(Mod::M16n8) {
            let rows = [0, 1].map(|row| row_of(t, own, lane.within, 2, 8 * tile + row));
            for i in 0..4 {
                let column = scaled(t, lane.quad, 1, 8 * (i / 2));
                let at = t.binary(IntBinaryOp::Add, rows[i as usize % 2], column);
                let byte = t.extract(register, 8 * i as u32, Type::B8);
                t.store(Space::Shared, Type::B8, (at, 0), &[byte]);
            }
            continue;
        }
        let word = if inst.has(Mod::Trans) {
            transposed(t, register)
        } else {
            register
        };
        let row = row_of(t, own, lane.quad, 1, 8 * tile);
        let at = word_of(t, row, lane);
        t.store(Space::Shared, Type::B32, (at, 0), &[word]);
    }
    Ok(())
}

fn movmatrix<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let word = t.src(inst, 1)?;
    let word = transposed(t, word);
    t.dst(inst, 0, word)
}

/// The row whose address lane `part * factor + offset` has.
fn row_of(t: &mut Translator<'_>, own: Value, part: Value, factor: u64, offset: u64) -> Value {
    let source = scaled(t, part, factor, offset);
    from_lane(t, own, source)
}

/// This lane's word of a row of four.
fn word_of(t: &mut Translator<'_>, row: Value, lane: Lane) -> Value {
    let offset = scaled(t, lane.within, 4, 0);
    t.binary(IntBinaryOp::Add, row, offset)
}

/// The element in a column of a row, as a byte. Rows of packed elements have 16 of them at their
/// start.
fn element(t: &mut Translator<'_>, inst: &Inst<'_>, row: Value, column: Value) -> Value {
    let bits = match inst.pick(SOURCE_FORMAT) {
        Some(Mod::B4x16P64) => 4,
        Some(_) => 6,
        None => {
            let at = t.binary(IntBinaryOp::Add, row, column);
            return t.load(Space::Shared, Type::B8, 1, (at, 0))[0];
        }
    };
    let first = scaled(t, column, bits, 0);
    let (three, seven) = (t.iconst(Type::B32, 3), t.iconst(Type::B32, 7));
    let byte = t.binary(IntBinaryOp::Ushr, first, three);
    let at = t.binary(IntBinaryOp::Add, row, byte);
    let one = t.iconst(Type::B32, 1);
    let next = t.binary(IntBinaryOp::Add, at, one);
    // Behind the last element there is padding.
    let bytes = [
        t.load(Space::Shared, Type::B8, 1, (at, 0))[0],
        t.load(Space::Shared, Type::B8, 1, (next, 0))[0],
    ];
    let bytes = t.concat(&bytes, Type::B16);
    let bytes = t.zext_or_trunc(bytes, Type::B32);
    let shift = t.binary(IntBinaryOp::And, first, seven);
    let value = t.binary(IntBinaryOp::Ushr, bytes, shift);
    let mask = t.iconst(Type::B32, (1 << bits) - 1);
    let value = t.binary(IntBinaryOp::And, value, mask);
    t.zext_or_trunc(value, Type::B8)
}
