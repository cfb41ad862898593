//! Debug information at module scope: PTX ISA, "Debugging Directives: .section" and ".file".
//!
//! The contents of sections are looked at only to say what is wrong with them; nothing else in the
//! compiler reads them.

use rustc_hash::FxHashMap;

use crate::ast::{Module, Section, Version};
use crate::diag::Diagnostic;
use crate::parse::expr;
use crate::parse::grammar::{Node, Piece, Rule};
use crate::source::{Source, Span};

type Result<T> = std::result::Result<T, Diagnostic>;

/// What is wrong with the files and sections of a module.
pub(super) fn check(source: &Source, module: &Module) -> Vec<Diagnostic> {
    let mut labels = FxHashMap::default();
    let mut diagnostics = check_files(module);
    if module.target.has_debug && module.sections.is_empty() {
        diagnostics.push(
            Diagnostic::error(
                "with `.target debug` there must be a `.section` of debug information",
            )
            .label(module.target.span, ""),
        );
    }
    for section in &module.sections {
        if let Err(diagnostic) = check_section(source, section, module.version, &mut labels) {
            diagnostics.push(diagnostic);
        }
    }
    diagnostics
}

/// Each file has a number of its own; timestamp and size came late.
fn check_files(module: &Module) -> Vec<Diagnostic> {
    let mut indices = FxHashMap::default();
    let mut diagnostics = Vec::new();
    for file in &module.files {
        if let Some(before) = indices.insert(file.index, file.span) {
            let message = format!("there is a file {} already", file.index);
            diagnostics.push(
                Diagnostic::error(message)
                    .label(file.span, "")
                    .label(before, "first here"),
            );
        }
        if file.timestamp.is_some()
            && let Err(diagnostic) = require(
                module.version,
                (3, 2),
                "the timestamp of a `.file`",
                file.span,
            )
        {
            diagnostics.push(diagnostic);
        }
    }
    diagnostics
}

/// Labels are known in all sections.
fn check_section<'a>(
    source: &'a Source,
    section: &Section,
    version: Version,
    labels: &mut FxHashMap<&'a str, Span>,
) -> Result<()> {
    require(version, (2, 0), "`.section`", section.span)?;
    let piece = Piece::new(source, section.contents)?;
    for line in piece.parse(Rule::section_contents)?.children() {
        match line.rule() {
            Rule::label => {
                let span = line.child().span();
                require(version, (7, 0), "a label in a `.section`", span)?;
                let name = source.slice(span);
                if let Some(before) = labels.insert(name, span) {
                    let message = format!("label `{name}` is defined twice");
                    return Err(Diagnostic::error(message)
                        .label(span, "")
                        .label(before, "first here"));
                }
            }
            Rule::section_data => check_data(line, version)?,
            _ => {}
        }
    }
    Ok(())
}

/// `.b8 1, 2` or `.b32 label+4`
fn check_data(line: Node<'_>, version: Version) -> Result<()> {
    let mut parts = line.children();
    let word = parts
        .next()
        .unwrap_or_else(|| unreachable!("data has a type"));
    let bits = match word.text() {
        ".b8" | ".byte" => 8,
        ".b16" | ".2byte" => 16,
        ".b32" | ".4byte" => 32,
        ".b64" | ".quad" => 64,
        text => {
            return Err(
                Diagnostic::error(format!("`{text}` is no type of debug data")).label(
                    word.span(),
                    "`.b8`, `.b16`, `.b32` or `.b64` can stand here",
                ),
            );
        }
    };
    for part in parts {
        match part.rule() {
            Rule::section_place => check_place(part, bits, version)?,
            _ => check_number(part, bits, version)?,
        }
    }
    Ok(())
}

/// A number that fits the type, signed or unsigned; one of 32 bits may be longer.
fn check_number(node: Node<'_>, bits: u32, version: Version) -> Result<()> {
    let span = node.span();
    let mut is_negative = false;
    for part in node.children() {
        if part.rule() == Rule::minus {
            require(version, (7, 5), "a negative number in a `.section`", span)?;
            is_negative = true;
            continue;
        }
        let value = expr::plain_integer(&part)?;
        let limit = if is_negative {
            1 << (bits - 1)
        } else {
            u64::MAX >> (64 - bits)
        };
        if bits < 32 && value > limit {
            return Err(
                Diagnostic::error(format!("this number does not fit {bits} bits")).label(span, ""),
            );
        }
    }
    Ok(())
}

/// The place of a label, section, function or variable, or the distance of two labels.
fn check_place(node: Node<'_>, bits: u32, version: Version) -> Result<()> {
    let span = node.span();
    if bits < 32 {
        return Err(
            Diagnostic::error(format!("the place of a label does not fit {bits} bits"))
                .label(span, ""),
        );
    }
    for part in node.children().skip(1) {
        match part.rule() {
            Rule::minus => require(version, (7, 5), "the difference of two labels", span)?,
            Rule::number => {
                require(version, (3, 2), "a label plus a number", span)?;
                expr::plain_integer(&part)?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn require(version: Version, (major, minor): (u32, u32), what: &str, span: Span) -> Result<()> {
    if version.at_least(major, minor) {
        return Ok(());
    }
    let message = format!(
        "{what} needs PTX {major}.{minor}, but `.version` is {}.{}",
        version.major, version.minor
    );
    Err(Diagnostic::error(message).label(span, ""))
}
