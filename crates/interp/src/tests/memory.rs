//! Windows, generic addresses, vector accesses, copies and atomics.

use ptxjit_ir::{AtomicFmt, AtomicOp, InstData, MemSem, Scope, Space, SpecialReg, Type};
use smallvec::smallvec;

use super::{kernel, run, run_with};
use crate::{FaultKind, SilentHost};

/// Each window's generic addresses are known as its own and as no other's.
#[test]
fn windows_know_their_addresses() {
    const SPACES: [Space; 5] = [
        Space::Global,
        Space::Shared,
        Space::Local,
        Space::Param,
        Space::Const,
    ];
    let program = kernel(|k| {
        let buffer = k.buffer();
        let zero = k.long(0);
        let mut row = k.word(0);
        for (i, from) in SPACES.into_iter().enumerate() {
            let offset = if from == Space::Global { buffer } else { zero };
            let generic = k.b.ins(
                InstData::ToGeneric {
                    space: from,
                    arg: offset,
                },
                Type::B64,
            );
            for (j, space) in SPACES.into_iter().enumerate() {
                let is = k.b.ins(
                    InstData::IsSpace {
                        space,
                        arg: generic,
                    },
                    Type::B1,
                );
                let is = k.pred_word(is);
                let bit = k.word(5 * i as u64 + j as u64);
                let bit = k.binary(ptxjit_ir::IntBinaryOp::Shl, is, bit);
                row = k.add(row, bit);
            }
        }
        k.put_mine(row);
    });
    let out = run_with(&program, 1, 1, &[0], &mut SilentHost::default(), |launch| {
        launch.dynamic_shared = 16;
        (launch.const_base, launch.const_size) = (0x7000_0000, 64);
    });
    // Kernel parameters count as global too.
    assert_eq!(out.unwrap(), [0b10000_01001_00100_00010_00001]);
}

/// A shared variable through its 32-bit window address, a negative offset, and a generic pointer.
#[test]
fn shared_memory_three_ways() {
    let program = kernel(|k| {
        let value = k.word(0x1234);
        let at = k.word(u64::from(-8i32 as u32));
        k.store(Space::Shared, value, at, 12);
        let four = k.long(4);
        let generic = k.b.ins(
            InstData::ToGeneric {
                space: Space::Shared,
                arg: four,
            },
            Type::B64,
        );
        let x = k.load(Space::Generic, Type::B32, generic, 0);
        let back = k.b.ins(
            InstData::FromGeneric {
                space: Space::Shared,
                arg: generic,
            },
            Type::B64,
        );
        let y = k.load(Space::Shared, Type::B16, back, 0);
        let y = k.widen(y);
        let y = k.narrow(y, Type::B32);
        let sum = k.add(x, y);
        k.put_mine(sum);
    });
    let out = run_with(&program, 1, 1, &[0], &mut SilentHost::default(), |launch| {
        launch.dynamic_shared = 8
    });
    assert_eq!(out.unwrap(), [0x2468]);
}

#[test]
fn vector_access() {
    let program = kernel(|k| {
        let base = k.buffer();
        let (sem, scope) = (MemSem::Weak, Scope::Cta);
        let load = InstData::Load {
            space: Space::Global,
            sem,
            scope,
            ty: Type::B16,
            n: 4,
            addr: base,
            offset: 0,
        };
        let inst = k.b.inst(load, &[Type::B16; 4]);
        let x = k.b.func.insts[inst].results.clone();
        let args = smallvec![x[3], x[2], x[1], x[0]];
        k.b.inst(
            InstData::Store {
                space: Space::Global,
                sem,
                scope,
                ty: Type::B16,
                addr: base,
                offset: 8,
                args,
            },
            &[],
        );
    });
    let out = run(&program, 1, 1, &[0x0002_0001, 0x0004_0003, 0, 0]).unwrap();
    assert_eq!(out[2..], [0x0003_0004, 0x0001_0002]);
}

/// `atom.add.f32` flushes subnormals in global memory and keeps them in shared memory.
#[test]
fn float_atomics_flush_by_place() {
    let program = kernel(|k| {
        let base = k.buffer();
        let zero = k.long(0);
        let tiny = k.word(3);
        let add = |space, addr| InstData::Atomic {
            op: AtomicOp::Add,
            fmt: AtomicFmt::F32,
            space,
            sem: MemSem::Relaxed,
            scope: Scope::Gpu,
            addr,
            offset: 0,
            args: smallvec![tiny],
        };
        k.b.ins(add(Space::Global, base), Type::B32);
        k.b.ins(add(Space::Shared, zero), Type::B32);
        let generic = k.b.ins(
            InstData::ToGeneric {
                space: Space::Shared,
                arg: zero,
            },
            Type::B64,
        );
        k.b.ins(add(Space::Generic, generic), Type::B32);
        let kept = k.load(Space::Shared, Type::B32, zero, 0);
        k.store(Space::Global, kept, base, 4);
    });
    let out = run_with(
        &program,
        1,
        1,
        &[5, 0],
        &mut SilentHost::default(),
        |launch| launch.dynamic_shared = 4,
    );
    assert_eq!(out.unwrap(), [0, 6]);
}

/// Shared memory and parameters belong to the CTA and the launch; `%ctaid` tells CTAs apart.
#[test]
fn ctas_have_their_own_shared_memory() {
    let program = kernel(|k| {
        let zero = k.long(0);
        let before = k.load(Space::Shared, Type::B32, zero, 0);
        let one = k.word(1);
        let after = k.add(before, one);
        k.store(Space::Shared, after, zero, 0);
        let cta = k.sreg(SpecialReg::CtaidX);
        k.put(cta, after);
    });
    let out = run_with(
        &program,
        3,
        1,
        &[0; 3],
        &mut SilentHost::default(),
        |launch| launch.dynamic_shared = 4,
    );
    assert_eq!(out.unwrap(), [1, 1, 1]);
}

#[test]
fn parameters_are_read_only() {
    let program = kernel(|k| {
        let zero = k.long(0);
        let generic = k.b.ins(
            InstData::ToGeneric {
                space: Space::Param,
                arg: zero,
            },
            Type::B64,
        );
        k.store(Space::Generic, zero, generic, 0);
    });
    assert!(matches!(
        run(&program, 1, 1, &[0]).unwrap_err().kind,
        FaultKind::BadAddress { .. }
    ));
}
