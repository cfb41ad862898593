//! Comparing an instruction with the rows of its opcode.
//!
//! The first row that fits decides. If none fits, the row that comes nearest is the one whose
//! mismatch is reported: modifiers first, then types, then the number of operands. Of the row that
//! fits the gates and the operands are checked next.

use smallvec::SmallVec;

use crate::ast;
use crate::diag::Diagnostic;
use crate::source::Span;
use crate::translate::{Inst, Translator};

use super::desc::{InstDesc, Opd};
use super::modifiers::{Mod, ModSet};
use super::types::PtxType;
use super::{names, operands, rows, rows_of, target};

/// An instruction's modifiers, sorted into what they are.
#[derive(Clone)]
struct Written<'m> {
    mods: ModSet,
    types: SmallVec<[PtxType; 4]>,
    /// Not in any list; a row may still know them.
    extra: SmallVec<[ast::Modifier; 1]>,
    /// The first modifier that is written twice.
    twice: Option<ast::Modifier>,
    name: &'m str,
    n_operands: usize,
}

/// Modifiers that ptxas takes a second time on any instruction.
const REPEATABLE: &[Mod] = &[
    Mod::Sync,
    Mod::Sat,
    Mod::Satfinite,
    Mod::Relu,
    Mod::NaN,
    Mod::Approx,
    Mod::Cc,
    Mod::L2EvictFirst,
    Mod::Shiftamt,
    Mod::Uni,
];

/// Modifiers of single instructions that ptxas lets pass on all others, without any effect.
const IGNORED: &[Mod] = &[
    Mod::AccF16,
    Mod::AccF32,
    Mod::B4x16P64,
    Mod::B6x16P32,
    Mod::B8x16,
    Mod::BoxDim,
    Mod::ElementStride,
    Mod::Elemtype,
    Mod::FillMode,
    Mod::Finite,
    Mod::GlobalAddress,
    Mod::GlobalDim,
    Mod::GlobalStride,
    Mod::Infinite,
    Mod::InterleaveLayout,
    Mod::Normal,
    Mod::Notanumber,
    Mod::Number,
    Mod::Rank,
    Mod::Subnormal,
    Mod::SwizzleAtomicity,
    Mod::SwizzleMode,
];

/// Types that are ignored like [`IGNORED`].
const IGNORED_TYPES: &[PtxType] = &[
    PtxType::Pred,
    PtxType::Texref,
    PtxType::Samplerref,
    PtxType::Surfref,
];

/// The opcodes that the modifiers of [`IGNORED`] are made for.
const NOT_IGNORING: &[&str] = &["tensormap", "testp", "multimem", "ldmatrix", "cp"];

/// Why a row does not fit.
enum Mismatch {
    Unknown(ast::Modifier),
    Unexpected(Mod),
    Twice(ast::Modifier),
    /// At most one of these may be written.
    Exclusive(Mod, Mod),
    Missing(&'static [Mod]),
    Type {
        nth: usize,
    },
    TypeCount,
    OperandCount,
}

/// What an instruction's name, as written, and the number of its operands decide.
#[derive(Clone)]
pub(crate) struct Form {
    desc: &'static InstDesc,
    opds: SmallVec<[&'static Opd; 6]>,
    mods: ModSet,
    types: SmallVec<[PtxType; 4]>,
}

/// Finds the row of an instruction and checks everything that the row says.
pub(crate) fn resolve<'m>(
    t: &mut Translator<'m>,
    ast: &'m ast::Inst,
    span: Span,
) -> Result<Inst<'m>, Diagnostic> {
    // PERF: a body has thousands of instructions, but few forms.
    let key = (name_of(t, ast), ast.operands.len());
    let inst = match t.forms.get(&key) {
        Some(form) => Inst {
            ast,
            span,
            desc: form.desc,
            opds: form.opds.clone(),
            mods: form.mods,
            types: form.types.clone(),
            extra: SmallVec::new(),
            name: key.0,
        },
        None => {
            let inst = resolve_name(t, ast, span)?;
            if inst.extra.is_empty() {
                let form = Form {
                    desc: inst.desc,
                    opds: inst.opds.clone(),
                    mods: inst.mods,
                    types: inst.types.clone(),
                };
                t.forms.insert(key, form);
            }
            inst
        }
    };
    operands::check(t, &inst)?;
    if let Some(check) = inst.desc.check {
        check(t, &inst)?;
    }
    Ok(inst)
}

/// Finds the row and checks all that has nothing to do with the operands but their number.
fn resolve_name<'m>(
    t: &Translator<'m>,
    ast: &'m ast::Inst,
    span: Span,
) -> Result<Inst<'m>, Diagnostic> {
    let opcode = ast.opcode.text(t.source);
    let candidates = rows_of(opcode);
    if candidates.is_empty() {
        return Err(unknown_opcode(t, opcode, ast.opcode.span));
    }
    let written = read_modifiers(t, ast);
    let fits = |written: &Written<'_>| {
        candidates
            .iter()
            .find(|row| mismatch(row, written, t).is_none())
    };
    let desc = match fits(&written).or_else(|| fits(&without_ignored(&written, opcode))) {
        Some(desc) => desc,
        None => return Err(no_row_fits(t, ast, span, candidates, &written)),
    };
    let extra = written.extra.iter().map(|m| m.text(t.source)).collect();
    let opds = written_operands(desc, &written);
    let inst = Inst {
        ast,
        span,
        desc,
        opds,
        mods: written.mods,
        types: written.types,
        extra,
        name: written.name,
    };
    check_leading(t, &inst)?;
    names::check(t, &inst)?;
    target::check(t, &inst)?;
    Ok(inst)
}

/// What is written without the modifiers that ptxas ignores.
fn without_ignored<'m>(written: &Written<'m>, opcode: &str) -> Written<'m> {
    let mut rest = written.clone();
    let is_named = NOT_IGNORING.contains(&opcode)
        || opcode == "tcgen05"
            && written
                .mods
                .pick(&[Mod::Cp, Mod::Ld, Mod::St, Mod::Mma])
                .is_some();
    if !is_named {
        IGNORED.iter().for_each(|&m| rest.mods.remove(m));
        rest.types.retain(|ty| !IGNORED_TYPES.contains(ty));
    }
    rest
}

/// The modifier that belongs to the name must stand at its place.
fn check_leading(t: &Translator<'_>, inst: &Inst<'_>) -> Result<(), Diagnostic> {
    let Some(lead) = inst.pick(inst.desc.leading) else {
        return Ok(());
    };
    match inst.ast.modifiers.first() {
        Some(first) if first.text(t.source) != lead.name() => Err(Diagnostic::error(format!(
            "`.{}` must directly follow `{}`",
            lead.name(),
            inst.desc.opcode
        ))
        .label(first.span, "")),
        Some(_) | None => Ok(()),
    }
}

/// What each written operand is: of the optional ones, the last are those that are left out.
fn written_operands(desc: &'static InstDesc, written: &Written<'_>) -> SmallVec<[&'static Opd; 6]> {
    let mut opds: SmallVec<[&'static Opd; 6]> = desc.operands_with(&written.mods).collect();
    while opds.len() > written.n_operands {
        let Some(at) = opds.iter().rposition(|opd| opd.is_optional) else {
            break;
        };
        opds.remove(at);
    }
    opds
}

fn unknown_opcode(t: &Translator<'_>, opcode: &str, span: Span) -> Diagnostic {
    let diagnostic = Diagnostic::error(format!("there is no instruction `{opcode}`"))
        .label(span, "unknown instruction");
    match t.nearest(opcode, rows().map(|row| row.opcode)) {
        Some(near) => diagnostic.note(format!("there is `{near}`")),
        None => diagnostic,
    }
}

fn read_modifiers<'m>(t: &Translator<'m>, ast: &'m ast::Inst) -> Written<'m> {
    let mut written = Written {
        mods: ModSet::default(),
        types: SmallVec::new(),
        extra: SmallVec::new(),
        twice: None,
        name: name_of(t, ast),
        n_operands: ast.operands.len(),
    };
    for &modifier in &ast.modifiers {
        let text = modifier.text(t.source);
        if let Some(ty) = PtxType::from_name(text) {
            written.types.push(ty);
        } else if let Some(m) = Mod::from_name(text) {
            if !written.mods.insert(m) && !REPEATABLE.contains(&m) {
                written.twice.get_or_insert(modifier);
            }
        } else if text.starts_with("const[") && !t.version().at_least(2, 2) {
            // The number of the bank says nothing that the variable does not.
            written.mods.insert(Mod::Const);
        } else {
            written.extra.push(modifier);
        }
    }
    written
}

/// Opcode and modifiers up to the last that is not a type: `cp.async.bulk`, `add.sat`.
fn name_of<'m>(t: &Translator<'m>, ast: &ast::Inst) -> &'m str {
    let end = ast
        .modifiers
        .last()
        .map_or(ast.opcode.span, |last| last.span);
    t.source.slice(ast.opcode.span.to(end))
}

/// The first thing that keeps a row from fitting.
fn mismatch(row: &InstDesc, written: &Written<'_>, t: &Translator<'_>) -> Option<Mismatch> {
    let mut rest = written.mods;
    for m in row.required {
        if !rest.has(*m) {
            return Some(Mismatch::Missing(std::slice::from_ref(m)));
        }
        rest.remove(*m);
    }
    if let Some(modifier) = written.twice
        && !row
            .repeats
            .iter()
            .any(|m| m.name() == modifier.text(t.source))
    {
        return Some(Mismatch::Twice(modifier));
    }
    for group in row.choices.iter().chain(row.options) {
        if let Some(mismatch) = take_one(group, &mut rest) {
            return Some(mismatch);
        }
    }
    if let Some(m) = rest.iter_if_any() {
        return Some(Mismatch::Unexpected(m));
    }
    for &modifier in &written.extra {
        if !row
            .extra
            .is_some_and(|accepts| accepts(modifier.text(t.source)))
        {
            return Some(Mismatch::Unknown(modifier));
        }
    }
    for group in row.choices {
        if written.mods.pick(group).is_none() {
            return Some(Mismatch::Missing(group));
        }
    }
    let types = written.types.iter().zip(row.types);
    if let Some(nth) = types
        .clone()
        .position(|(ty, allowed)| !allowed.contains(ty))
    {
        return Some(Mismatch::Type { nth });
    }
    if written.types.len() != row.types.len() {
        return Some(Mismatch::TypeCount);
    }
    let (min, max) = row.operand_count(&written.mods);
    (!(min..=max).contains(&written.n_operands)).then_some(Mismatch::OperandCount)
}

/// Removes the modifier of an exclusive group from `rest`; two of them are one too many.
fn take_one(group: &[Mod], rest: &mut ModSet) -> Option<Mismatch> {
    let mut found = None;
    for &m in group {
        if rest.has(m) {
            if let Some(before) = found.replace(m) {
                return Some(Mismatch::Exclusive(before, m));
            }
            rest.remove(m);
        }
    }
    None
}

/// How far a row is from fitting. A wrong type weighs more than a wrong modifier, so that the
/// modifier is blamed where some row has the type; a modifier that belongs to the name of another
/// form weighs as much.
fn distance(
    candidates: &[&InstDesc],
    row: &InstDesc,
    written: &Written<'_>,
    mismatch: &Mismatch,
) -> usize {
    let missing = row
        .required
        .iter()
        .filter(|&&m| !written.mods.has(m))
        .count();
    let unchosen = row
        .choices
        .iter()
        .filter(|group| written.mods.pick(group).is_none())
        .count();
    let known = |m: Mod| {
        row.required.contains(&m)
            || row
                .choices
                .iter()
                .chain(row.options)
                .any(|group| group.contains(&m))
    };
    let belongs_to_name = |m: Mod| candidates.iter().any(|row| row.leading.contains(&m));
    let unexpected: usize = written
        .mods
        .iter()
        .filter(|&m| !known(m))
        .map(|m| if belongs_to_name(m) { 8 } else { 4 })
        .sum();
    let wrong_types = written
        .types
        .iter()
        .zip(row.types)
        .filter(|(ty, allowed)| !allowed.contains(ty))
        .count();
    let type_count = written.types.len().abs_diff(row.types.len());
    let last = match mismatch {
        Mismatch::OperandCount => 0,
        Mismatch::Missing(_) | Mismatch::Exclusive(..) => 1,
        Mismatch::Type { .. }
        | Mismatch::TypeCount
        | Mismatch::Unexpected(_)
        | Mismatch::Unknown(_)
        | Mismatch::Twice(_) => 2,
    };
    8 * missing + 3 * unchosen + unexpected + 8 * wrong_types + 5 * type_count + last
}

fn no_row_fits(
    t: &Translator<'_>,
    ast: &ast::Inst,
    span: Span,
    candidates: &[&'static InstDesc],
    written: &Written<'_>,
) -> Diagnostic {
    let best = candidates
        .iter()
        .filter_map(|row| {
            mismatch(row, written, t)
                .map(|why| (distance(candidates, row, written, &why), row, why))
        })
        .min_by_key(|&(distance, ..)| distance);
    match best {
        Some((_, row, why)) => explain(t, ast, span, row, written, &why),
        None => Diagnostic::error(format!(
            "`{}` is no form of `{}`",
            written.name,
            ast.opcode.text(t.source)
        ))
        .label(span, ""),
    }
}

fn explain(
    t: &Translator<'_>,
    ast: &ast::Inst,
    span: Span,
    row: &InstDesc,
    written: &Written<'_>,
    why: &Mismatch,
) -> Diagnostic {
    let name = written.name;
    let opcode_span = ast
        .modifiers
        .last()
        .map_or(ast.opcode.span, |last| ast.opcode.span.to(last.span));
    let span_of = |m: Mod| {
        let modifier = ast
            .modifiers
            .iter()
            .find(|modifier| modifier.text(t.source) == m.name());
        modifier.map_or(opcode_span, |modifier| modifier.span)
    };
    match *why {
        Mismatch::Unknown(modifier) => {
            let text = modifier.text(t.source);
            let diagnostic =
                Diagnostic::error(format!("`{}` has no modifier `.{text}`", row.opcode))
                    .label(modifier.span, "");
            let names = Mod::ALL
                .iter()
                .map(|m| m.name())
                .chain(PtxType::ALL.iter().map(|ty| ty.name()));
            match t.nearest(text, names) {
                Some(near) => diagnostic.note(format!("there is `.{near}`")),
                None => diagnostic,
            }
        }
        Mismatch::Unexpected(m) => {
            Diagnostic::error(format!("`.{}` is not allowed on `{name}`", m.name()))
                .label(span_of(m), "not allowed here")
        }
        Mismatch::Twice(modifier) => {
            Diagnostic::error(format!("`.{}` is written twice", modifier.text(t.source)))
                .label(modifier.span, "")
        }
        Mismatch::Exclusive(a, b) => Diagnostic::error(format!(
            "`.{}` and `.{}` exclude each other on `{}`",
            a.name(),
            b.name(),
            row.opcode
        ))
        .label(span_of(b), "")
        .label(span_of(a), ""),
        Mismatch::Missing(group) => {
            let message = format!("`{name}` lacks {}", one_of(group.iter().map(|m| m.name())));
            Diagnostic::error(message).label(opcode_span, "")
        }
        Mismatch::Type { nth } => {
            let types = ast
                .modifiers
                .iter()
                .filter(|m| PtxType::from_name(m.text(t.source)).is_some());
            let modifier = types.clone().nth(nth);
            let text = modifier.map_or("", |m| m.text(t.source));
            let allowed = row.types.get(nth).copied().unwrap_or_default();
            Diagnostic::error(format!("type `.{text}` is not allowed on `{name}`"))
                .label(modifier.map_or(opcode_span, |m| m.span), "not allowed here")
                .note(format!(
                    "it takes {}",
                    one_of(allowed.iter().map(|ty| ty.name()))
                ))
        }
        Mismatch::TypeCount => {
            let (n, expected) = (written.types.len(), row.types.len());
            Diagnostic::error(format!(
                "`{name}` has {}, but takes {expected}",
                count(n, "type")
            ))
            .label(opcode_span, "")
        }
        Mismatch::OperandCount => operand_count(ast, span, row, written),
    }
}

fn operand_count(ast: &ast::Inst, span: Span, row: &InstDesc, written: &Written<'_>) -> Diagnostic {
    let (min, max) = row.operand_count(&written.mods);
    let n = ast.operands.len();
    let expected = if min == max {
        format!("{min}")
    } else {
        format!("{min} to {max}")
    };
    let at = ast.operands.get(max).map_or(span, |operand| operand.span);
    let message = format!(
        "`{}` has {}, but takes {expected}",
        written.name,
        count(n, "operand")
    );
    let diagnostic = Diagnostic::error(message).label(at, "");
    row.operands
        .iter()
        .filter_map(|opd| opd.when)
        .fold(diagnostic, |diagnostic, m| {
            diagnostic.note(format!(
                "exactly with `.{}` there is one operand more",
                m.name()
            ))
        })
}

/// `1 type`, `2 types`
fn count(n: usize, what: &str) -> String {
    if n == 1 {
        format!("1 {what}")
    } else {
        format!("{n} {what}s")
    }
}

/// `` `.a`, `.b` or `.c` ``
fn one_of<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<String> = names.map(|name| format!("`.{name}`")).collect();
    match names.pop() {
        None => "no type".to_owned(),
        Some(last) if names.is_empty() => last,
        Some(last) => format!("{} or {last}", names.join(", ")),
    }
}
