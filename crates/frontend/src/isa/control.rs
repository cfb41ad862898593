//! Control flow: `bra`, `brx.idx`, `call`, `ret`, `exit`. PTX ISA, "Control Flow Instructions".

use crate::ast::{Ident, OperandKind};
use crate::diag::Diagnostic;
use crate::translate::{Inst, Translator};

use super::desc::{A, ANY, InstDesc, inst, since};
use super::modifiers::Mod;
use super::types::PtxType;

const UNI: &[&[Mod]] = &[&[Mod::Uni]];

pub const TABLE: &[InstDesc] = &[
    inst("bra", &[ANY], bra).optional(UNI).owns_guard(),
    inst("brx", &[A.is(PtxType::U32), ANY], brx)
        .with(&[Mod::Idx])
        .optional(UNI)
        .gates(&[since(6, 0, 30)])
        .effect(),
    inst("call", &[ANY, ANY.opt(), ANY.opt(), ANY.opt()], call)
        .optional(UNI)
        .effect(),
    inst("ret", &[], ret).optional(UNI).effect(),
    inst("exit", &[], exit).effect(),
];

fn label<'m>(inst: &Inst<'m>, n: usize) -> Result<Ident, Diagnostic> {
    match inst.operand(n).map(|operand| &operand.kind) {
        Some(&OperandKind::Name(name)) => Ok(name),
        _ => Err(inst.operand_error(n, "a label is expected here")),
    }
}

/// Branches to a label, under the guard if there is one.
fn bra<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let cond = t.take_guard();
    t.branch(label(inst, 0)?, cond)
}

/// Branches to the label that the index selects.
fn brx<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let table = label(inst, 1)?;
    let index = t.src(inst, 0)?;
    t.branch_table(index, table)
}

fn call<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    t.call(inst)
}

fn ret<'m>(t: &mut Translator<'m>, _: &Inst<'m>) -> Result<(), Diagnostic> {
    t.ret();
    Ok(())
}

fn exit<'m>(t: &mut Translator<'m>, _: &Inst<'m>) -> Result<(), Diagnostic> {
    t.exit();
    Ok(())
}
