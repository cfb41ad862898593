//! The instruction set: one file per chapter of the PTX ISA, each a table of rows with a function
//! per instruction.
//!
//! [`desc`] is what a row consists of, [`check`] compares an instruction with the rows of its
//! opcode, [`sregs`] are the special registers. The table names no type of the code generator and
//! the grammar names no instruction: this folder is the only place that knows what instructions
//! exist.

pub mod desc;
pub mod modifiers;
pub mod sregs;
pub mod types;

pub mod carry;
mod cluster;
mod common;
pub mod compare;
pub mod convert;
pub mod convert_small;
pub mod float;
pub mod half;
pub mod integer;
pub mod logic;
pub mod mixed;
pub mod mov;
pub mod simd_video;
pub mod video;

pub mod address;
pub mod atomics;
pub mod bulk;
pub mod control;
pub mod matrix_move;
pub mod mbarrier;
pub mod memory;
pub mod misc;
pub mod mma;
pub mod mma_scaled;
pub mod mma_sparse;
pub mod multimem;
pub mod sync;
pub mod tcgen05;
pub mod tcgen05_mma;
pub mod texture;
mod texture_access;
pub mod wgmma;
pub mod wmma;

mod bulk_copy;
pub(crate) mod check;
mod fragments;
mod late;
mod mma_product;
mod names;
mod operands;
mod target;
mod tcgen05_exec;
mod tensor;
mod wgmma_product;
mod wmma_fragments;

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

use crate::diag::Diagnostic;
use crate::translate::{Inst, Translator};

use desc::InstDesc;
pub(crate) use target::arch_name;

/// The tables of all chapters.
const TABLES: &[&[InstDesc]] = &[
    integer::TABLE,
    carry::TABLE,
    float::TABLE,
    half::TABLE,
    mixed::TABLE,
    compare::TABLE,
    logic::TABLE,
    mov::TABLE,
    convert::TABLE,
    convert_small::TABLE,
    memory::TABLE,
    address::TABLE,
    control::TABLE,
    sync::TABLE,
    atomics::TABLE,
    misc::TABLE,
    mbarrier::TABLE,
    bulk::TABLE,
    multimem::TABLE,
    texture::TABLE,
    mma::TABLE,
    mma_sparse::TABLE,
    mma_scaled::TABLE,
    wmma::TABLE,
    matrix_move::TABLE,
    wgmma::TABLE,
    tcgen05::TABLE,
    tcgen05_mma::TABLE,
    video::TABLE,
    simd_video::TABLE,
];

/// All rows, in the order of the chapters.
pub fn rows() -> impl Iterator<Item = &'static InstDesc> {
    TABLES.iter().copied().flatten()
}

/// The rows of an opcode (`cp` for `cp.async.bulk`).
pub fn rows_of(opcode: &str) -> &'static [&'static InstDesc] {
    static OPCODES: LazyLock<FxHashMap<&str, Vec<&InstDesc>>> = LazyLock::new(|| {
        let mut opcodes: FxHashMap<&str, Vec<&InstDesc>> = FxHashMap::default();
        for row in rows() {
            opcodes.entry(row.opcode).or_default().push(row);
        }
        opcodes
    });
    OPCODES.get(opcode).map_or(&[], Vec::as_slice)
}

/// The handler of forms that are only checked.
pub(crate) fn not_executable(_: &mut Translator<'_>, inst: &Inst<'_>) -> Result<(), Diagnostic> {
    Err(Diagnostic::unsupported(format!("`{}`", inst.name)).label(inst.span, ""))
}

/// The word nearest to `word` among `words`, if one is near enough to be meant.
pub(crate) fn nearest<'a>(word: &str, words: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (word.chars().count() / 3).clamp(1, 3);
    words
        .filter_map(|candidate| {
            let distance = edit_distance(word, candidate, limit)?;
            Some((distance, candidate))
        })
        .min()
        .map(|(_, candidate)| candidate)
}

/// Steps that comparing two words takes.
pub(crate) fn edit_cost(a: &str, b: &str) -> u64 {
    let is_compared = a.len().abs_diff(b.len()) <= 3 && a.len() <= 64;
    1 + if is_compared { a.len() * b.len() } else { 0 } as u64
}

/// Levenshtein distance, if it is at most `limit`.
fn edit_distance(a: &str, b: &str, limit: usize) -> Option<usize> {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len().abs_diff(b.len()) > limit || a.len() > 64 {
        return None;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, &x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let substitute = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = substitute.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row.last().copied().filter(|&distance| distance <= limit)
}
