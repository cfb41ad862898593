//! Faults name what happened and where.

use ptxjit_ir::{Space, SpecialReg, SrcLoc, Terminator, TrapKind, Type};

use super::{kernel, run};
use crate::FaultKind;

#[test]
fn bad_address_names_the_thread() {
    let program = kernel(|k| {
        let tid = k.tid();
        let three = k.word(3);
        let is_third = k.compare(ptxjit_ir::CompareOp::Eq, tid, three);
        let cta = k.sreg(SpecialReg::CtaidX);
        let one = k.word(1);
        let second = k.compare(ptxjit_ir::CompareOp::Eq, cta, one);
        let both = k.binary(ptxjit_ir::IntBinaryOp::And, is_third, second);
        k.when(both, |k| {
            k.b.set_loc(SrcLoc(4711));
            let null = k.long(16);
            k.load(Space::Generic, Type::B64, null, 8);
        });
    });
    let fault = run(&program, 2, 8, &[0]).unwrap_err();
    assert!(
        matches!(
            fault.kind,
            FaultKind::BadAddress {
                addr: 24,
                size: 8,
                ..
            }
        ),
        "{fault}"
    );
    assert_eq!((fault.ctaid, fault.tid), ([1, 0, 0], Some([3, 0, 0])));
    assert_eq!(
        (fault.function.as_str(), fault.loc),
        ("kernel", SrcLoc(4711))
    );
}

#[test]
fn misaligned_access() {
    let program = kernel(|k| {
        let base = k.buffer();
        k.load(Space::Global, Type::B32, base, 2);
    });
    assert!(matches!(
        run(&program, 1, 1, &[0]).unwrap_err().kind,
        FaultKind::Misaligned { size: 4, .. }
    ));
}

#[test]
fn shared_memory_has_bounds() {
    let program = kernel(|k| {
        let zero = k.long(0);
        k.load(Space::Shared, Type::B32, zero, 0);
    });
    assert!(matches!(
        run(&program, 1, 1, &[0]).unwrap_err().kind,
        FaultKind::BadAddress { .. }
    ));
}

#[test]
fn traps() {
    for (trap, want) in [
        (TrapKind::Trap, FaultKind::Trap),
        (TrapKind::Unreachable, FaultKind::Unreachable),
    ] {
        let program = kernel(|k| k.end(Terminator::Trap(trap)));
        assert_eq!(run(&program, 1, 1, &[0]).unwrap_err().kind, want);
    }
}

#[test]
fn empty_and_oversized_launches_are_refused() {
    let program = kernel(|_| {});
    for (grid, block) in [(0, 1), (1, 0), (1, 1025)] {
        assert!(matches!(
            run(&program, grid, block, &[0]).unwrap_err().kind,
            FaultKind::Launch(_)
        ));
    }
}
