//! Checks the program of a gang: each version of a node has code for each instruction that needs
//! some, once, behind what that reads, and effects keep their order.

use ptxjit_ir::{Function, Inst, InstData, Value, ValueDef};
use rustc_hash::{FxHashMap, FxHashSet};

use super::program::{Program, Version};
use super::units::Unit;
use super::{Decisions, is_pure};
use crate::chains::Step;

/// The first violation, if there is one.
pub(crate) fn program(decided: &Decisions<'_>, program: &Program<'_>) -> Result<(), String> {
    let mut done: FxHashSet<Inst> = FxHashSet::default();
    let nodes = decided.plan.order.nodes.iter().zip(&program.nodes);
    for (pos, (node, versions)) in nodes.enumerate() {
        let Some(block) = node.block() else { continue };
        let needs_code = |inst: &Inst| !decided.is_done(*inst) && !done.contains(inst);
        let own = decided.insts_after_wait(block).iter();
        let mut wanted: Vec<Inst> = own.copied().filter(needs_code).collect();
        let n_own = wanted.len();
        let behind = decided.blocks_behind(block);
        let behind = behind.flat_map(|block| decided.insts_after_wait(block));
        wanted.extend(behind.copied().filter(needs_code));
        for version in versions {
            let emitted = insts_of(decided.func, version);
            sequence(decided.func, &wanted, n_own, &emitted)
                .map_err(|what| format!("{} at node {pos}: {what}", decided.func.name))?;
            done.extend(emitted);
        }
    }
    Ok(())
}

/// The instructions of a version, in the order in which they are emitted. Those that are emitted
/// again count where they come first.
fn insts_of(func: &Function, version: &Version<'_>) -> Vec<Inst> {
    let mut insts = Vec::new();
    for unit in version.early.iter().chain(&version.late) {
        match unit {
            Unit::Op(inst)
            | Unit::Packed(inst)
            | Unit::MinMax(inst)
            | Unit::CanonicalNans(inst)
            | Unit::Access(inst, _)
            | Unit::Atomic(inst, _)
            | Unit::Effect(inst) => insts.push(*inst),
            Unit::Strips(run) => insts.extend(run),
            Unit::Copy(load, store) => insts.extend([load, store]),
            Unit::Products(group) => {
                let results = group.products.iter().map(|(_, results)| results[0]);
                insts.extend(results.filter_map(|result| maker(func, result)));
            }
            Unit::Chains(schedule) => {
                let mut seen: FxHashSet<Inst> = FxHashSet::default();
                let steps = schedule.steps.iter().map(|step| match *step {
                    Step::Pure(inst) | Step::Load(inst) | Step::Element(inst, _) => inst,
                });
                insts.extend(steps.filter(|&inst| seen.insert(inst)));
            }
        }
    }
    insts
}

fn maker(func: &Function, value: Value) -> Option<Inst> {
    match func.values[value].def {
        ValueDef::Result(inst, _) => Some(inst),
        ValueDef::Param(..) => None,
    }
}

/// Checks that the first `n_own` of the instructions that need code are all emitted, others
/// perhaps: each once, behind those whose results it reads. Effects keep their order, and no load
/// passes one.
fn sequence(
    func: &Function,
    wanted: &[Inst],
    n_own: usize,
    emitted: &[Inst],
) -> Result<(), String> {
    let is_free = |inst: Inst| is_pure(&func.insts[inst].data);
    let mut n_effects = 0;
    // How many effects come before each instruction.
    let mut left: FxHashMap<Inst, u32> = FxHashMap::default();
    for &inst in wanted {
        left.insert(inst, n_effects);
        n_effects += u32::from(!is_free(inst) && !is_load(func, inst));
    }
    let mut n_passed = 0;
    for &inst in emitted {
        let Some(n_before) = left.remove(&inst) else {
            return Err(format!("{inst} is emitted twice, or needs no code"));
        };
        let reads = func.insts[inst].data.args();
        let mut made = reads.iter().filter_map(|&arg| maker(func, arg));
        if let Some(later) = made.find(|maker| left.contains_key(maker)) {
            return Err(format!(
                "{inst} comes before {later}, whose result it reads"
            ));
        }
        if !is_free(inst) {
            if n_before != n_passed {
                return Err(format!("{inst} has left its place among effects"));
            }
            n_passed += u32::from(!is_load(func, inst));
        }
    }
    match wanted[..n_own].iter().find(|inst| left.contains_key(inst)) {
        Some(inst) => Err(format!("{inst} has no code")),
        None => Ok(()),
    }
}

fn is_load(func: &Function, inst: Inst) -> bool {
    let data = &func.insts[inst].data;
    matches!(data, InstData::Load { .. } | InstData::MaskedLoad { .. })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ptxjit_ir::{Space, Type};
    use ptxjit_testing::function;

    /// What is found if instructions of a block are emitted in this order: five of the node, and
    /// one of the node behind.
    fn found(order: &[usize]) -> Result<(), String> {
        let func = function(&[Type::B64], Type::B64, |b, params| {
            let x = b.load(Space::Global, Type::B64, params[0], 0);
            let sum = b.add(x, x);
            b.store(Space::Global, params[0], 0, sum);
            let y = b.load(Space::Global, Type::B64, params[0], 0);
            let both = b.add(sum, y);
            b.store(Space::Global, params[0], 8, both);
            b.ret(both);
        });
        let insts = &func.blocks[func.entry].insts;
        let emitted: Vec<Inst> = order.iter().map(|&idx| insts[idx]).collect();
        sequence(&func, insts, 5, &emitted)
    }

    #[test]
    fn programs_in_order_are_right() {
        assert_eq!(found(&[0, 1, 2, 3, 4]), Ok(()));
        assert_eq!(found(&[0, 1, 2, 3, 4, 5]), Ok(()));
    }

    #[test]
    fn wrong_orders_are_named() {
        let error = |order: &[usize]| found(order).expect_err("the order is wrong");
        assert!(error(&[0, 1, 2, 3]).ends_with("has no code"));
        assert!(error(&[0, 1, 2, 3, 3, 4]).contains("twice"));
        assert!(error(&[1, 0, 2, 3, 4]).contains("whose result it reads"));
        assert!(error(&[0, 1, 3, 2, 4]).contains("left its place"));
        assert!(error(&[0, 1, 2, 3, 5, 4]).contains("whose result it reads"));
    }
}
