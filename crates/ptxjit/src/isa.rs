//! What of the PTX instruction set this build knows, read from the table that the translator itself
//! works with.

use ptxjit_frontend::isa;
use ptxjit_frontend::isa::desc::{Gate, InstDesc, Opd, OpdKind, Sm, When};
use ptxjit_frontend::isa::modifiers::Mod;
use ptxjit_frontend::isa::types::PtxType;

/// One form of an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InstructionForm {
    /// What stands before the first dot.
    pub opcode: &'static str,
    /// The form in one line: `(.a|.b)` is a choice, `[.a|.b]` may be left out.
    pub syntax: String,
    /// PTX versions and targets that it needs, in words; empty if none.
    pub needs: String,
}

/// All forms, in the order of the chapters of the PTX ISA.
pub fn instructions() -> Vec<InstructionForm> {
    isa::rows().map(form).collect()
}

/// Names of all special registers that can be read.
pub fn special_registers() -> Vec<&'static str> {
    isa::sregs::TABLE.iter().map(|sreg| sreg.name).collect()
}

fn form(row: &InstDesc) -> InstructionForm {
    let mut syntax = row.opcode.to_owned();
    for &required in row.required {
        syntax.push_str(&dotted(required.name()));
    }
    for choice in row.choices {
        syntax.push_str(&group(choice, Mod::name, '(', ')'));
    }
    for option in row.options {
        syntax.push_str(&group(option, Mod::name, '[', ']'));
    }
    if row.extra.is_some() {
        syntax.push_str("[.shape …]");
    }
    for types in row.types {
        syntax.push_str(&group(types, PtxType::name, '(', ')'));
    }
    syntax.push_str(&operands(row.operands));
    InstructionForm {
        opcode: row.opcode,
        syntax,
        needs: row.gates.iter().map(gate).collect::<Vec<_>>().join("; "),
    }
}

fn dotted(name: &str) -> String {
    if name.starts_with('.') {
        name.to_owned()
    } else {
        format!(".{name}")
    }
}

fn group<T: Copy>(
    items: &[T],
    name: impl Fn(T) -> &'static str,
    open: char,
    close: char,
) -> String {
    let names: Vec<String> = items.iter().map(|&item| dotted(name(item))).collect();
    match names.as_slice() {
        [one] if open == '(' => one.clone(),
        several => format!("{open}{}{close}", several.join("|")),
    }
}

/// Operands get the letters that the PTX ISA gives them: `d`, then `a`, `b`, `c`, …
fn operands(operands: &[Opd]) -> String {
    let mut sources = 'a'..='z';
    let mut n_dsts = 0;
    let mut text = String::new();
    for (idx, operand) in operands.iter().enumerate() {
        let mut source = || sources.next().map(String::from).unwrap_or_default();
        let name = match operand.kind {
            OpdKind::Dst => {
                n_dsts += 1;
                if n_dsts == 1 {
                    "d".to_owned()
                } else {
                    format!("d{n_dsts}")
                }
            }
            OpdKind::Src | OpdKind::Any => source(),
            OpdKind::Imm(..) => format!("imm-{}", source()),
            OpdKind::Addr => format!("[{}]", source()),
        };
        let separator = if idx == 0 { " " } else { ", " };
        let (open, close) = if operand.is_optional {
            ("{", "}")
        } else {
            ("", "")
        };
        text.push_str(&format!("{open}{separator}{name}{close}"));
    }
    text
}

fn gate(gate: &Gate) -> String {
    let what = match gate.when {
        When::Always => String::new(),
        When::Mods(mods) => format!("{}: ", group(mods, Mod::name, '(', ')')),
        When::Types(types) => format!("{}: ", group(types, PtxType::name, '(', ')')),
    };
    let target = match gate.sm {
        Sm::Any => String::new(),
        Sm::Min(sm) => format!(", sm_{sm}"),
        Sm::OneOf(archs) => format!(", sm_{}", archs.join(" or sm_")),
    };
    format!("{what}PTX {}.{}{target}", gate.ptx.0, gate.ptx.1)
}
