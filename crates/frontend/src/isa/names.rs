//! Names of instructions that consist of several words: `cp.async.bulk`, `mbarrier.try_wait`.
//!
//! Modifiers may stand in any order, but the words of a name stand together, in order, and directly
//! after the opcode.

use crate::ast;
use crate::diag::Diagnostic;
use crate::translate::{Inst, Translator};

use super::memory::SPACE;
use super::modifiers::Mod;

/// The names that an opcode can be continued to.
const NAMES: &[(&str, &[&str])] = &[
    ("bar", &["red", "cta.red"]),
    (
        "barrier",
        &[
            "arrive",
            "red",
            "cta.arrive",
            "cta.red",
            "cluster.arrive",
            "cluster.wait",
        ],
    ),
    ("brx", &["idx"]),
    ("clusterlaunchcontrol", &["try_cancel", "query_cancel"]),
    (
        "cp",
        &[
            "async",
            "async.bulk",
            "async.bulk.commit_group",
            "async.bulk.prefetch",
            "async.bulk.prefetch.tensor",
            "async.bulk.tensor",
            "async.bulk.wait_group",
            "async.commit_group",
            "async.mbarrier.arrive",
            "async.wait_all",
            "async.wait_group",
            "reduce.async.bulk",
            "reduce.async.bulk.tensor",
        ],
    ),
    ("createpolicy", &["fractional", "range", "cvt"]),
    ("cvta", &["to"]),
    ("div", &["full"]),
    ("fence", &["proxy", "mbarrier_init"]),
    (
        "mbarrier",
        &[
            "init",
            "inval",
            "expect_tx",
            "complete_tx",
            "arrive",
            "arrive.expect_tx",
            "arrive_drop",
            "arrive_drop.expect_tx",
            "test_wait",
            "try_wait",
            "pending_count",
        ],
    ),
    ("membar", &["proxy"]),
    ("multimem", &["ld_reduce", "st", "red"]),
    ("red", &["async"]),
    ("setmaxnreg", &["inc", "dec"]),
    ("st", &["async", "bulk"]),
    ("suld", &["b"]),
    ("sured", &["b", "p"]),
    ("sust", &["b", "p"]),
    (
        "tcgen05",
        &[
            "alloc",
            "commit",
            "cp",
            "dealloc",
            "fence",
            "ld",
            "ld.red",
            "mma",
            "relinquish_alloc_permit",
            "shift",
            "st",
            "wait::ld",
            "wait::st",
        ],
    ),
    ("tensormap", &["replace", "cp_fenceproxy"]),
    ("tex", &["base", "level", "grad"]),
    ("txq", &["level"]),
    (
        "wgmma",
        &[
            "fence",
            "mma_async",
            "mma_async.sp",
            "commit_group",
            "wait_group",
        ],
    ),
    ("wmma", &["load.a", "load.b", "load.c", "store.d", "mma"]),
];

/// Modifiers that must stand in this order.
const ORDERED: &[(&str, &[Mod], &[Mod])] = &[
    ("ldmatrix", &[Mod::B8x16], &[Mod::B4x16P64, Mod::B6x16P32]),
    ("mma", &[Mod::Xor, Mod::And], &[Mod::Popc]),
    ("wmma", &[Mod::Xor, Mod::And], &[Mod::Popc]),
];

/// Checks that the words of the instruction's name are where they belong.
pub(super) fn check(t: &Translator<'_>, inst: &Inst<'_>) -> Result<(), Diagnostic> {
    check_order(t, inst)?;
    let opcode = inst.desc.opcode;
    let Some((_, names)) = NAMES.iter().find(|(first, _)| *first == opcode) else {
        return Ok(());
    };
    let is_word = |modifier: &&ast::Modifier| {
        let text = modifier.text(t.source);
        names
            .iter()
            .any(|name| name.split('.').any(|word| word == text))
    };
    for (end, modifier) in inst.ast.modifiers.iter().filter(is_word).enumerate() {
        let text = modifier.text(t.source);
        let stands_at = |at: usize| {
            inst.ast
                .modifiers
                .get(at)
                .is_some_and(|m| m.span == modifier.span)
        };
        let continues = |name: &&str| {
            let mut words = name.split('.');
            let before = inst
                .ast
                .modifiers
                .iter()
                .take(end)
                .map(|m| m.text(t.source));
            before.eq(words.by_ref().take(end)) && words.next() == Some(text)
        };
        if !stands_at(end) || !names.iter().any(continues) {
            let message = format!(
                "`.{text}` is part of the instruction's name and must stand directly after `{opcode}`"
            );
            return Err(Diagnostic::error(message).label(modifier.span, "not here"));
        }
    }
    check_spaces(t, inst)
}

fn check_order(t: &Translator<'_>, inst: &Inst<'_>) -> Result<(), Diagnostic> {
    let position = |mods: &[Mod]| {
        let modifiers = &inst.ast.modifiers;
        modifiers
            .iter()
            .position(|modifier| mods.iter().any(|m| m.name() == modifier.text(t.source)))
    };
    let ordered = ORDERED
        .iter()
        .filter(|(opcode, ..)| *opcode == inst.desc.opcode);
    for (_, first, second) in ordered {
        if let (Some(first), Some(second)) = (position(first), position(second))
            && second < first
        {
            let (first, second) = (inst.ast.modifiers[first], inst.ast.modifiers[second]);
            let (before, after) = (first.text(t.source), second.text(t.source));
            return Err(
                Diagnostic::error(format!("`.{before}` must stand before `.{after}`"))
                    .label(second.span, ""),
            );
        }
    }
    Ok(())
}

/// Of the two state spaces of a copy that of the destination stands first.
fn check_spaces(t: &Translator<'_>, inst: &Inst<'_>) -> Result<(), Diagnostic> {
    if !matches!(inst.desc.opcode, "cp" | "tensormap") {
        return Ok(());
    }
    let mut written = inst.ast.modifiers.iter().filter_map(|modifier| {
        let space = Mod::from_name(modifier.text(t.source)).filter(|m| SPACE.contains(m))?;
        Some((space, modifier.span))
    });
    let (Some((first, _)), Some((_, span))) = (written.next(), written.next()) else {
        return Ok(());
    };
    let required = inst.desc.required.iter().find(|m| SPACE.contains(m));
    // `cp.async` has a choice of names for shared memory, which is its destination.
    let is_first = match required {
        Some(Mod::Global)
            if inst
                .desc
                .required
                .iter()
                .filter(|m| SPACE.contains(m))
                .count()
                == 1 =>
        {
            first != Mod::Global
        }
        Some(&required) => first == required,
        None => true,
    };
    if is_first {
        return Ok(());
    }
    let message = format!("`{}` names the destination's state space first", inst.name);
    Err(Diagnostic::error(message).label(span, "the destination's"))
}
