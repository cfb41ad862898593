//! Where stack slots lie in each thread's local memory, and variables in shared memory.

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Function, InstData, SharedLayout, StackSlot, Type};
use ptxjit_passes::transform::{address_fold, dce, simplify};

/// Slots one after the other.
pub(crate) struct Slots {
    pub offsets: SecondaryMap<StackSlot, u32>,
    /// Bytes of all of them.
    pub size: u32,
}

impl Slots {
    pub(crate) fn of(func: &Function) -> Slots {
        let mut offsets = SecondaryMap::new();
        let mut end = 0u32;
        for (slot, data) in func.slots.iter() {
            let at = end.next_multiple_of(data.align.max(1));
            offsets[slot] = at;
            end = at + data.size;
        }
        Slots {
            offsets,
            size: end.next_multiple_of(16),
        }
    }
}

/// Folds the places of slots and shared variables into the accesses to them: so an index into an
/// array need not be added to a number that takes a register.
pub(crate) fn fix(func: &mut Function, shared: &SharedLayout) {
    let slots = Slots::of(func);
    let mut has_any = false;
    for node in func.insts.values_mut() {
        let at = match node.data {
            InstData::StackAddr { slot, offset } => {
                Some(i64::from(slots.offsets[slot]) + i64::from(offset))
            }
            InstData::VarAddr { var, offset } => {
                let at = shared.offsets.get(&var);
                at.map(|&at| i64::from(at) + offset)
            }
            _ => None,
        };
        if let Some(at) = at {
            node.data = InstData::Const {
                ty: Type::B64,
                bits: at as u64,
            };
            has_any = true;
        }
    }
    if has_any {
        simplify::run(func);
        address_fold::run(func);
        dce::run(func);
    }
}
