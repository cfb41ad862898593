//! Where stack slots lie in each thread's local memory, and variables in shared memory.

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{
    CTA_SHIFT, Function, Inst, InstData, IntBinaryOp, ResizeOp, SharedLayout, SpecialReg, SrcLoc,
    StackSlot, Type, Value,
};
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

/// Adds to the addresses of shared variables where their CTA's part of the cluster's window begins.
pub(crate) fn in_cluster(func: &mut Function, shared: &SharedLayout) {
    for block in func.blocks.keys().collect::<Vec<_>>() {
        let insts = std::mem::take(&mut func.blocks[block].insts);
        let mut out = Vec::with_capacity(insts.len());
        for inst in insts {
            let (loc, data) = (func.insts[inst].loc, func.insts[inst].data.clone());
            if let InstData::VarAddr { var, .. } = data
                && shared.offsets.contains_key(&var)
            {
                let part = part_of_cta(func, &mut out, loc);
                let offset = emit(func, &mut out, data, Type::B64, loc);
                func.insts[inst].data = int_binary(IntBinaryOp::Add, [part, offset]);
            }
            out.push(inst);
        }
        func.blocks[block].insts = out;
    }
}

/// The window offset of the CTA's own shared memory.
fn part_of_cta(func: &mut Function, out: &mut Vec<Inst>, loc: SrcLoc) -> Value {
    let rank = InstData::Sreg {
        sreg: SpecialReg::ClusterCtaRank,
    };
    let arg = emit(func, out, rank, Type::B32, loc);
    let wide = InstData::Resize {
        op: ResizeOp::Uext,
        from: Type::B32,
        to: Type::B64,
        arg,
    };
    let wide = emit(func, out, wide, Type::B64, loc);
    let shift = InstData::Const {
        ty: Type::B32,
        bits: CTA_SHIFT.into(),
    };
    let shift = emit(func, out, shift, Type::B32, loc);
    let part = int_binary(IntBinaryOp::Shl, [wide, shift]);
    emit(func, out, part, Type::B64, loc)
}

fn int_binary(op: IntBinaryOp, args: [Value; 2]) -> InstData {
    InstData::IntBinary {
        op,
        ty: Type::B64,
        args,
    }
}

fn emit(func: &mut Function, out: &mut Vec<Inst>, data: InstData, ty: Type, loc: SrcLoc) -> Value {
    let inst = func.make_inst(data, &[ty], loc);
    out.push(inst);
    func.insts[inst].results[0]
}

/// Folds the places of slots and shared variables into the accesses to them: so an index into an
/// array need not be added to a number that takes a register.
#[expect(clippy::wildcard_enum_match_arm, reason = "others hold no place")]
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

/// Bytes per lane of a varying value in memory of our own (slots, buffers).
pub(crate) fn lane_bytes(ty: Type) -> u32 {
    if ty == Type::B64 { 8 } else { 4 }
}
