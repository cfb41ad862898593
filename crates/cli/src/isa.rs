//! `ptxjit isa`.

use std::collections::BTreeMap;
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
                "supported": form.is_supported,
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
    let mut text = String::from(
        "(.a|.b) is a choice, [.a|.b] may be left out; - marks forms that are checked but not executed\n\n",
    );
    for form in forms {
        let mark = if form.is_supported { '+' } else { '-' };
        let needs = if form.needs.is_empty() {
            String::new()
        } else {
            format!("    ({})", form.needs)
        };
        text += &format!("{mark} {}{needs}\n", form.syntax);
    }
    let supported = forms.iter().filter(|form| form.is_supported).count();
    text += &format!("\n{supported} of {} forms can be executed\n", forms.len());
    text += &format!("special registers: {}\n", special_registers().join(" "));
    text
}

/// The table for the README: opcodes by what can be done with them.
pub fn markdown() -> String {
    let mut opcodes: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for form in instructions() {
        let (supported, all) = opcodes.entry(form.opcode).or_default();
        *supported += usize::from(form.is_supported);
        *all += 1;
    }
    let list = |wanted: fn(usize, usize) -> bool| {
        let matching = opcodes
            .iter()
            .filter(|&(_, &(supported, all))| wanted(supported, all));
        let names: Vec<String> = matching.map(|(opcode, _)| format!("`{opcode}`")).collect();
        if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(" ")
        }
    };
    let full = list(|supported, all| supported == all);
    let part = list(|supported, all| supported > 0 && supported < all);
    let none = list(|supported, _| supported == 0);
    format!(
        "| | Instructions |\n|---|---|\n| every form runs | {full} |\n| some forms run | {part} |\n\
         | checked, but a kernel that needs one is refused | {none} |\n"
    )
}
