//! Whether a kernel cannot tell CTAs side by side along x from one that is as wide as all of them.
//!
//! Such a kernel knows the x of a thread in the grid, `%ctaid.x * %ntid.x + %tid.x`, and nothing of
//! its parts; and no thread of it meets another. Then small CTAs can run as a larger one, whose
//! gangs are wider.

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{
    Effect, Function, InstData, IntBinaryOp, MemSem, Program, Space, SpecialReg, Type, Value,
};

/// What a value has of the place along x.
#[derive(Copy, Clone, PartialEq, Eq, Default)]
enum Part {
    #[default]
    None,
    Tid,
    Ntid,
    Ctaid,
    /// `%ctaid.x * %ntid.x`
    First,
}

/// Whether the CTAs of an optimized program can be joined.
pub fn run(program: &Program) -> bool {
    let is_told = program.counters.is_some() || !program.traced.is_empty();
    let [func] = program.functions.values().collect::<Vec<_>>()[..] else {
        return false;
    };
    !program.lockstep && !is_told && all_insts(func).all(is_alone) && has_no_parts(func)
}

fn all_insts(func: &Function) -> impl Iterator<Item = &InstData> {
    let insts = func.blocks.values().flat_map(|block| &block.insts);
    insts.map(|&inst| &func.insts[inst].data)
}

/// Whether an instruction lets no thread know of others, nor of its CTA but for the place along x.
#[expect(clippy::wildcard_enum_match_arm, reason = "others are pure or refused")]
fn is_alone(data: &InstData) -> bool {
    match *data {
        InstData::Load { space, sem, .. } => {
            is_private(space) && matches!(sem, MemSem::Weak | MemSem::NonCoherent)
        }
        InstData::Store { space, sem, .. } => is_private(space) && sem == MemSem::Weak,
        InstData::Sreg { sreg } => is_of_grid(sreg),
        InstData::ToGeneric { space, .. }
        | InstData::FromGeneric { space, .. }
        | InstData::IsSpace { space, .. } => is_private(space),
        InstData::FuncAddr { .. } | InstData::StateOf { .. } => false,
        InstData::Nop => true,
        _ => data.effect() == Effect::Pure,
    }
}

/// Whether memory is not that of a CTA.
fn is_private(space: Space) -> bool {
    !matches!(space, Space::Shared | Space::SharedCluster)
}

/// Whether a register has the same number in CTAs that are joined, or is a part of the place along
/// x.
fn is_of_grid(sreg: SpecialReg) -> bool {
    use SpecialReg::{
        CtaidX, CtaidY, CtaidZ, NctaidY, NctaidZ, NtidX, NtidY, NtidZ, TidX, TidY, TidZ,
    };
    let of_x = matches!(sreg, TidX | NtidX | CtaidX);
    let of_y = matches!(sreg, TidY | NtidY | CtaidY | NctaidY);
    of_x || of_y || matches!(sreg, TidZ | NtidZ | CtaidZ | NctaidZ)
}

/// Whether all parts of the place along x are put together.
fn has_no_parts(func: &Function) -> bool {
    let mut parts: SecondaryMap<Value, Part> = SecondaryMap::new();
    for (_, node) in func.insts.iter() {
        if let (InstData::Sreg { sreg }, &[result]) = (&node.data, node.results.as_slice()) {
            parts[result] = part_of(*sreg);
        }
    }
    for (_, node) in func.insts.iter() {
        if let (Some([Part::Ctaid, Part::Ntid]), &[result]) = (
            operands(&node.data, IntBinaryOp::Mul, &parts),
            node.results.as_slice(),
        ) {
            parts[result] = Part::First;
        }
    }
    let is_whole = |data: &InstData| {
        let product = operands(data, IntBinaryOp::Mul, &parts);
        let sum = operands(data, IntBinaryOp::Add, &parts);
        product == Some([Part::Ctaid, Part::Ntid]) || sum == Some([Part::First, Part::Tid])
    };
    let has_part = |value: &Value| parts[*value] != Part::None;
    let are_put_together = |data| is_whole(data) || !data.args().iter().any(has_part);
    let passes_none = func.blocks.values().all(|block| {
        let mut passes_none = true;
        block
            .term
            .for_each_arg(|arg| passes_none &= !has_part(&arg));
        passes_none
    });
    passes_none && all_insts(func).all(are_put_together)
}

#[expect(clippy::wildcard_enum_match_arm, reason = "others say nothing of x")]
fn part_of(sreg: SpecialReg) -> Part {
    match sreg {
        SpecialReg::TidX => Part::Tid,
        SpecialReg::NtidX => Part::Ntid,
        SpecialReg::CtaidX => Part::Ctaid,
        _ => Part::None,
    }
}

/// The parts that are operands of such an operation, those of the CTA first.
fn operands(
    data: &InstData,
    wanted: IntBinaryOp,
    parts: &SecondaryMap<Value, Part>,
) -> Option<[Part; 2]> {
    let &InstData::IntBinary {
        op,
        ty: Type::B32,
        args,
    } = data
    else {
        return None;
    };
    let operands = args.map(|arg| parts[arg]);
    let is_first = matches!(operands[0], Part::Ctaid | Part::First);
    let [a, b] = operands;
    (op == wanted).then_some(if is_first { operands } else { [b, a] })
}

#[cfg(test)]
mod tests {
    use ptxjit_ir::{Function, InstData, IntBinaryOp, SpecialReg, Type, Value};
    use ptxjit_testing::{Build, function};

    use super::has_no_parts;

    fn sreg(b: &mut Build<'_>, sreg: SpecialReg) -> Value {
        b.b.ins(InstData::Sreg { sreg }, Type::B32)
    }

    /// A function that returns what is made of `%ctaid.x * %ntid.x` and `%tid.x`.
    fn of_place(make: impl FnOnce(&mut Build<'_>, [Value; 2]) -> Value) -> Function {
        function(&[], Type::B32, |b, _| {
            let ntid = sreg(b, SpecialReg::NtidX);
            let ctaid = sreg(b, SpecialReg::CtaidX);
            let first = b.int(IntBinaryOp::Mul, ntid, ctaid);
            let tid = sreg(b, SpecialReg::TidX);
            let result = make(b, [first, tid]);
            b.ret(result);
        })
    }

    #[test]
    fn the_place_in_the_grid_is_whole() {
        let whole = of_place(|b, [first, tid]| b.int(IntBinaryOp::Add, tid, first));
        assert!(has_no_parts(&whole));
    }

    #[test]
    fn parts_of_it_tell_ctas_apart() {
        let tid = of_place(|b, [first, tid]| {
            let x = b.int(IntBinaryOp::Add, first, tid);
            b.int(IntBinaryOp::Xor, x, tid)
        });
        assert!(!has_no_parts(&tid));
        let first = of_place(|_, [first, _]| first);
        assert!(!has_no_parts(&first));
        let difference = of_place(|b, [first, tid]| b.int(IntBinaryOp::Sub, first, tid));
        assert!(!has_no_parts(&difference));
    }
}
