//! Copies: loads of sixteen bytes whose results one store behind takes, from another kind of
//! memory, as those of `cp.async`.
//!
//! Where lanes are scattered, each lane's bytes go through one register: no vector register is
//! left for those of all lanes between the load and the store.

use cranelift_entity::EntitySet;
use ptxjit_ir::{Function, Inst, InstData, Space};

use super::cta_branches::count_uses;

/// Bytes of a lane.
const ROW: u32 = 16;

/// The loads of copies.
pub(super) fn find(func: &Function) -> EntitySet<Inst> {
    let mut copies = EntitySet::new();
    let mut n_uses = None;
    for data in func.blocks.values() {
        for pair in data.insts.windows(2) {
            let &[load, store] = pair else { continue };
            if !is_pair(func, load, store) {
                continue;
            }
            let n_uses = n_uses.get_or_insert_with(|| count_uses(func));
            let results = &func.insts[load].results;
            if results.iter().all(|&result| n_uses[result] == 1) {
                copies.insert(load);
            }
        }
    }
    copies
}

/// Whether a store takes all that a load gives, in order.
fn is_pair(func: &Function, load: Inst, store: Inst) -> bool {
    let InstData::Load {
        space: from, ty, n, ..
    } = func.insts[load].data
    else {
        return false;
    };
    let InstData::Store {
        space: to,
        ty: stored,
        ref args,
        ..
    } = func.insts[store].data
    else {
        return false;
    };
    // A lane's store must not change what another one loads.
    let is_apart = matches!(
        (from, to),
        (Space::Global | Space::Const, Space::Shared) | (Space::Shared, Space::Global)
    );
    is_apart
        && ty == stored
        && ty.bytes() * u32::from(n) == ROW
        && func.insts[load].results[..] == args[..]
}
