//! `ldmatrix`, `stmatrix` and `movmatrix`: 8x8 tiles and their like between shared memory and fragments. PTX ISA, "Warp-Level
//! Matrix Instructions". Checked, not executable yet.

use ptxjit_ir::Space;

use crate::diag::Diagnostic;
use crate::translate::{Inst, Translator};

use super::desc::{A, ADDR, D, Gate, InstDesc, Opd, since, unsupported};
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
    unsupported("ldmatrix", operands)
        .with(&[Mod::Sync, Mod::Aligned])
        .choose(form)
        .optional(SPACE)
        .gates(NARROW)
        .check(check_matrix)
}

const fn load_words(form: &'static [&'static [Mod]], operands: &'static [Opd]) -> InstDesc {
    load(form, operands)
        .optional(TRANS)
        .types(&[&[T::B16]])
        .gates(LOAD)
}

const fn store(form: &'static [&'static [Mod]], operands: &'static [Opd]) -> InstDesc {
    unsupported("stmatrix", operands)
        .with(&[Mod::Sync, Mod::Aligned])
        .choose(form)
        .optional(SPACE)
        .check(check_matrix)
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
    unsupported("movmatrix", &[D.is(T::B32), A.is(T::B32).reg()])
        .with(&[Mod::Sync, Mod::Aligned, Mod::M8n8, Mod::Trans])
        .types(&[&[T::B16]])
        .gates(&[since(7, 8, 75)]),
];

/// Rows lie in shared memory.
fn check_matrix<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let n = if inst.desc.opcode == "ldmatrix" { 1 } else { 0 };
    let space = inst.pick(SHARED).map(|_| Space::Shared);
    check_memory_in(t, inst, n, space)?;
    check_lists(t, inst)
}
