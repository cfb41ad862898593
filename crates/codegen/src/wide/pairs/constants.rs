//! Constants as memory operands.
//!
//! Cranelift loads a constant vector into a register of its own, and if there are more of them than
//! registers, spills it. Most instructions take one of their operands from memory instead, at no
//! cost. So each use of a constant that could be such an operand gets one of its own, right before
//! it, and when the function is compiled, `operands` folds the two into one instruction.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{
    Constant, Function, Inst, InstructionData, Opcode, Type, Value, ValueDef, types,
};
use cranelift_entity::EntitySet;

use super::is_vector;
use super::isomorphic::commutes;
use crate::clif;

/// Gives instructions that can take a constant from memory one of their own.
pub(super) fn repeat_at_use(func: &mut Function) {
    let chosen = chosen(func);
    let blocks: Vec<_> = func.layout.blocks().collect();
    for block in blocks {
        let mut next = func.layout.first_inst(block);
        while let Some(inst) = next {
            if let Some((at, constant)) = operand(func, &chosen, inst) {
                let ty = func.dfg.value_type(func.dfg.inst_args(inst)[at]);
                let own = repeated(func, inst, constant, ty);
                func.dfg.inst_args_mut(inst)[at] = own;
            }
            next = func.layout.next_inst(inst);
        }
    }
}

/// The operands of selections. Cranelift selects a minimum or maximum for one with a comparison of
/// the same two.
fn chosen(func: &Function) -> EntitySet<Value> {
    let mut chosen = EntitySet::new();
    for inst in clif::insts(func) {
        if func.dfg.insts[inst].opcode() == Opcode::Bitselect {
            for &arg in &func.dfg.inst_args(inst)[1..] {
                chosen.insert(func.dfg.resolve_aliases(arg));
            }
        }
    }
    chosen
}

/// The operand that an instruction is to take from memory. Those of commutative operations are
/// swapped for it.
#[expect(clippy::wildcard_enum_match_arm, reason = "the enums are Cranelift's")]
fn operand(
    func: &mut Function,
    chosen: &EntitySet<Value>,
    inst: Inst,
) -> Option<(usize, Constant)> {
    let data = func.dfg.insts[inst];
    let opcode = data.opcode();
    let is_compared = matches!(data, InstructionData::FloatCompare { .. });
    let places: &[usize] = match data {
        InstructionData::FloatCompare { cond, .. } if is_swapped(cond) => &[0],
        InstructionData::FloatCompare { .. } => &[1],
        InstructionData::IntCompare { cond, .. } => match cond {
            IntCC::Equal => &[1, 0],
            IntCC::SignedGreaterThan => &[1],
            IntCC::SignedLessThan => &[0],
            _ => &[],
        },
        _ if opcode == Opcode::Fma => &[2, 1, 0],
        _ if commutes(&data) => &[1, 0],
        _ if matches!(
            opcode,
            Opcode::Fsub | Opcode::Fdiv | Opcode::Isub | Opcode::Bitselect | Opcode::Blendv
        ) =>
        {
            &[1]
        }
        _ => &[],
    };
    let result = *func.dfg.inst_results(inst).first()?;
    if !is_vector(func.dfg.value_type(result)) {
        return None;
    }
    let constant_at = |at: usize| {
        let arg = func.dfg.resolve_aliases(func.dfg.inst_args(inst)[at]);
        if is_compared && chosen.contains(arg) {
            return None;
        }
        constant(func, arg).map(|constant| (at, constant))
    };
    let (at, constant) = places.iter().copied().find_map(constant_at)?;
    // Of several NaNs the order of operands tells which is kept.
    if func.dfg.value_type(result) == types::F64X2 && has_nan(func, constant) {
        return None;
    }
    if at == 0 && commutes(&data) {
        func.dfg.inst_args_mut(inst).swap(0, 1);
        return Some((1, constant));
    }
    Some((at, constant))
}

fn has_nan(func: &Function, constant: Constant) -> bool {
    let bytes = func.dfg.constants.get(constant).as_slice();
    let (lanes, _) = bytes.as_chunks::<8>();
    lanes.iter().any(|&lane| f64::from_le_bytes(lane).is_nan())
}

/// A constant of its own for an instruction.
fn repeated(func: &mut Function, before: Inst, constant: Constant, ty: Type) -> Value {
    let data = InstructionData::UnaryConst {
        opcode: Opcode::Vconst,
        constant_handle: constant,
    };
    let own = func.dfg.make_inst(data);
    func.dfg.make_inst_results(own, ty);
    func.layout.insert_inst(own, before);
    func.dfg.first_result(own)
}

/// Whether Cranelift compares the other way round.
fn is_swapped(cond: FloatCC) -> bool {
    matches!(
        cond,
        FloatCC::GreaterThan
            | FloatCC::GreaterThanOrEqual
            | FloatCC::UnorderedOrLessThan
            | FloatCC::UnorderedOrLessThanOrEqual
    )
}

/// A constant, which may have been cast once: one that was cast more often is in a register for a
/// reason. Zeros and ones are not loaded, but computed in registers.
#[expect(clippy::wildcard_enum_match_arm, reason = "the enum is Cranelift's")]
fn constant(func: &Function, value: Value) -> Option<Constant> {
    let maker = |value: Value| match func.dfg.value_def(func.dfg.resolve_aliases(value)) {
        ValueDef::Result(inst, _) => Some(func.dfg.insts[inst]),
        ValueDef::Param(..) | ValueDef::Union(..) => None,
    };
    let made = match maker(value)? {
        InstructionData::LoadNoOffset {
            opcode: Opcode::Bitcast,
            arg,
            ..
        } => maker(arg)?,
        made => made,
    };
    let InstructionData::UnaryConst {
        opcode: Opcode::Vconst,
        constant_handle,
    } = made
    else {
        return None;
    };
    let bytes = func.dfg.constants.get(constant_handle).as_slice();
    let is_load = [0, u8::MAX]
        .iter()
        .all(|same| bytes.iter().any(|byte| byte != same));
    is_load.then_some(constant_handle)
}
