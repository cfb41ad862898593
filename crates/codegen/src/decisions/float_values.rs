//! Which scalars are held in float registers.

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{self as ir, Function, InstData, NumFmt, Type};

/// Which scalars are better held in float registers: results of float ops, and loads, selections
/// and merges that feed them.
#[expect(clippy::wildcard_enum_match_arm, reason = "others work on integers")]
pub(crate) fn float_values(func: &Function) -> SecondaryMap<ir::Value, bool> {
    let mut is_float: SecondaryMap<ir::Value, bool> = SecondaryMap::new();
    let native = |fmt: ir::FloatFmt| matches!(fmt, ir::FloatFmt::F32 | ir::FloatFmt::F64);
    let mut used: SecondaryMap<ir::Value, bool> = SecondaryMap::new();
    for node in func.insts.values() {
        let float = match node.data {
            InstData::FloatUnary { fmt, .. }
            | InstData::FloatBinary { fmt, .. }
            | InstData::Fma { fmt, .. } => native(fmt),
            InstData::FloatCompare { fmt, .. } => {
                let args = node.data.args();
                args.iter().for_each(|&arg| used[arg] |= native(fmt));
                continue;
            }
            InstData::Convert { cvt, arg } => {
                used[arg] |= matches!(cvt.from, NumFmt::F32 | NumFmt::F64);
                if matches!(cvt.to, NumFmt::F32 | NumFmt::F64) {
                    is_float[node.results[0]] = true;
                }
                continue;
            }
            _ => false,
        };
        if float {
            is_float[node.results[0]] = true;
            node.data.args().iter().for_each(|&arg| used[arg] = true);
        }
    }
    for node in func.insts.values() {
        let passes_on = matches!(
            node.data,
            InstData::Load { .. } | InstData::Select { .. } | InstData::Const { .. }
        );
        if passes_on {
            let results = node.results.iter();
            results.for_each(|&result| is_float[result] |= used[result]);
        }
    }
    let is_computed = |value| {
        matches!(
            func.def_inst(value),
            Some(InstData::Fma { .. } | InstData::FloatBinary { .. })
        )
    };
    for (block, data) in func.blocks.iter() {
        let params = data.params.iter();
        params.for_each(|&param| is_float[param] |= used[param]);
        for (param, arg) in func.passed_by(block) {
            is_float[param] |= is_float[arg] && is_computed(arg);
        }
    }
    for (value, data) in func.values.iter() {
        is_float[value] &= matches!(data.ty, Type::B32 | Type::B64);
    }
    is_float
}

/// The values that have uses.
pub(crate) fn used_values(func: &Function) -> SecondaryMap<ir::Value, bool> {
    let mut used = SecondaryMap::new();
    for block in func.blocks.keys() {
        func.for_each_arg(block, |arg| used[arg] = true);
    }
    used
}
