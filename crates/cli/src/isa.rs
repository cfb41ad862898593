//! `ptxjit isa`.

use std::collections::BTreeSet;
use std::process::ExitCode;

use ptxjit::isa::{InstructionForm, instructions, special_registers};
use serde_json::json;

use crate::args::IsaArgs;
use crate::term;

pub(crate) fn run(args: &IsaArgs) -> ExitCode {
    let forms = instructions();
    if args.json {
        let value = |form: &InstructionForm| {
            json!({
                "opcode": form.opcode,
                "syntax": form.syntax,
                "needs": form.needs
            })
        };
        let forms: Vec<_> = forms.iter().map(value).collect();
        let document = json!({"instructions": forms, "special_registers": special_registers()});
        term::out_json(&document);
    } else {
        term::out(&text(&forms));
    }
    ExitCode::SUCCESS
}

fn text(forms: &[InstructionForm]) -> String {
    let mut text = String::from("(.a|.b) is a choice, [.a|.b] may be left out\n\n");
    for form in forms {
        let needs = if form.needs.is_empty() {
            String::new()
        } else {
            format!("    ({})", form.needs)
        };
        text += &format!("{}{needs}\n", form.syntax);
    }
    text += &format!("\n{} forms, all of which run\n", forms.len());
    text += &format!("special registers: {}\n", special_registers().join(" "));
    text
}

/// The table for the README.
pub fn markdown() -> String {
    let opcodes: BTreeSet<&str> = instructions().iter().map(|form| form.opcode).collect();
    let names: Vec<String> = opcodes.iter().map(|opcode| format!("`{opcode}`")).collect();
    format!(
        "| | Instructions |\n|---|---|\n| every form runs | {} |\n",
        names.join(" ")
    )
}
