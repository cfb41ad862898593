//! Which functions calls can reach.

use ptxjit_ir::{FuncId, InstData, Program};

/// Functions that calls can reach, the kernel excluded.
#[expect(clippy::wildcard_enum_match_arm, reason = "others call nothing")]
pub(super) fn reachable(program: &Program) -> Vec<FuncId> {
    let mut seen: Vec<FuncId> = Vec::new();
    let mut work = vec![program.entry];
    while let Some(id) = work.pop() {
        let func = &program.functions[&id];
        for &inst in func.blocks.values().flat_map(|block| &block.insts) {
            let targets: Vec<FuncId> = match &func.insts[inst].data {
                InstData::Call { func, .. } => vec![*func],
                InstData::CallIndirect { targets, .. } => targets
                    .as_deref()
                    .map_or_else(|| program.address_taken.clone(), <[FuncId]>::to_vec),
                _ => continue,
            };
            for target in targets {
                if !seen.contains(&target) && program.functions.contains_key(&target) {
                    seen.push(target);
                    work.push(target);
                }
            }
        }
    }
    seen.sort_unstable();
    seen
}
