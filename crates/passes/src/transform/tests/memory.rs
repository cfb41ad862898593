//! Passes that look at memory: redundant loads, forwarding of stores, scalar replacement.

use ptxjit_ir::{BarrierOp, Function, InstData, IntBinaryOp, MemSem, ResizeOp, Scope, Space, Type};

use crate::testing::text::{check, text};
use crate::transform::{dce, gvn, remove_constant_params, simplify, sroa};
use ptxjit_testing::{Build, function};

const B32: Type = Type::B32;
const B64: Type = Type::B64;

fn n_loads(func: &Function) -> usize {
    text(func).matches("load.").count()
}

/// Loads the same word before and after what `between` does; says how many loads are left.
fn loads_around(space: Space, between: impl FnOnce(&mut Build<'_>, &[ptxjit_ir::Value])) -> usize {
    let mut func = function(&[B64, B64], B32, |b, params| {
        let x = b.load(space, B32, params[0], 0);
        between(b, params);
        let y = b.load(space, B32, params[0], 0);
        let sum = b.add(x, y);
        b.ret(sum);
    });
    gvn::run(&mut func);
    n_loads(&func)
}

#[test]
fn a_load_is_not_repeated() {
    assert_eq!(loads_around(Space::Global, |_, _| {}), 1);
}

#[test]
fn a_store_through_another_pointer_may_change_what_was_loaded() {
    let store = |space: Space| {
        move |b: &mut Build<'_>, params: &[ptxjit_ir::Value]| {
            let value = b.iconst(B32, 5);
            b.store(space, params[1], 0, value);
        }
    };
    assert_eq!(loads_around(Space::Global, store(Space::Global)), 2);
    assert_eq!(loads_around(Space::Global, store(Space::Generic)), 2);
    assert_eq!(loads_around(Space::Generic, store(Space::Shared)), 2);
    assert_eq!(loads_around(Space::Global, store(Space::Shared)), 1);
    assert_eq!(loads_around(Space::Const, store(Space::Generic)), 1);
}

#[test]
fn what_orders_memory_ends_what_is_known() {
    let fence = |b: &mut Build<'_>, _: &[ptxjit_ir::Value]| {
        b.b.inst(
            InstData::Fence {
                sem: MemSem::AcqRel,
                scope: Scope::Gpu,
            },
            &[],
        );
    };
    assert_eq!(loads_around(Space::Global, fence), 2);
    let barrier = |b: &mut Build<'_>, _: &[ptxjit_ir::Value]| {
        let id = b.iconst(B32, 0);
        b.b.inst(
            InstData::Barrier {
                op: BarrierOp::Sync,
                aligned: true,
                id,
                count: None,
                pred: None,
            },
            &[],
        );
    };
    assert_eq!(loads_around(Space::Shared, barrier), 2);
    let volatile = |b: &mut Build<'_>, params: &[ptxjit_ir::Value]| {
        let (sem, scope) = (MemSem::Volatile, Scope::Sys);
        b.b.ins(
            InstData::Load {
                space: Space::Shared,
                sem,
                scope,
                ty: B32,
                n: 1,
                addr: params[1],
                offset: 0,
            },
            B32,
        );
    };
    // The volatile load itself stays as well.
    assert_eq!(loads_around(Space::Global, volatile), 3);
}

#[test]
fn what_was_stored_is_known() {
    let mut func = function(&[B64, B32], B32, |b, params| {
        b.store(Space::Shared, params[0], 4, params[1]);
        let value = b.load(Space::Shared, B32, params[0], 4);
        b.ret(value);
    });
    gvn::run(&mut func);
    check(
        &func,
        "block0(v0: b64, v1: b32):\n store.shared.b32 [v0+4], v1\n ret v1",
    );
}

#[test]
fn a_loop_that_waits_loads_again_and_again() {
    let mut func = function(&[B64], B32, |b, params| {
        let (head, exit) = (b.block(), b.block());
        b.load(Space::Global, B32, params[0], 0);
        b.jump(head, &[]);
        b.at(head);
        let flag = b.load(Space::Global, B32, params[0], 0);
        let zero = b.iconst(B32, 0);
        let wait = b.compare(ptxjit_ir::CompareOp::Eq, flag, zero);
        b.brif(wait, (head, &[]), (exit, &[]));
        b.at(exit);
        b.ret(flag);
    });
    gvn::run(&mut func);
    assert_eq!(n_loads(&func), 2);
}

#[test]
fn a_slot_becomes_a_value() {
    let mut func = function(&[Type::B1, B32], B32, |b, params| {
        let slot = b.slot(8);
        let (left, join) = (b.block(), b.block());
        let addr = b.slot_addr(slot, 0);
        b.store(Space::Local, addr, 4, params[1]);
        b.brif(params[0], (left, &[]), (join, &[]));
        b.at(left);
        let generic = b.b.ins(
            InstData::ToGeneric {
                space: Space::Local,
                arg: addr,
            },
            B64,
        );
        let sum = b.add(params[1], params[1]);
        b.store(Space::Generic, generic, 4, sum);
        b.jump(join, &[]);
        b.at(join);
        let value = b.load(Space::Local, B32, addr, 4);
        b.ret(value);
    });
    assert!(sroa::run(&mut func));
    dce::run(&mut func);
    let expected = "
        block0(v0: b1, v1: b32):
        brif v0, block1, block2(v1)
        block1:
        v2 = iadd.b32 v1, v1
        jump block2(v2)
        block2(v3: b32):
        ret v3";
    check(&func, expected);
}

#[test]
fn halves_of_a_stored_double_word() {
    let mut func = function(&[B64], B32, |b, params| {
        let slot = b.slot(8);
        let addr = b.slot_addr(slot, 0);
        b.store(Space::Local, addr, 0, params[0]);
        let high = b.load(Space::Local, B32, addr, 4);
        b.ret(high);
    });
    sroa::run(&mut func);
    simplify::run(&mut func);
    dce::run(&mut func);
    let expected = "
        block0(v0: b64):
        v1 = const.b32 0x20
        v2 = ushr.b64 v0, v1
        v3 = trunc.b32.b64 v2
        ret v3";
    check(&func, expected);
}

#[test]
fn a_double_word_of_stored_halves() {
    let mut func = function(&[B64], B64, |b, params| {
        let slot = b.slot(8);
        let addr = b.slot_addr(slot, 0);
        let count = b.iconst(B32, 32);
        let high = b.int(IntBinaryOp::Ushr, params[0], count);
        for (i, half) in [params[0], high].into_iter().enumerate() {
            let half = b.b.ins(
                InstData::Resize {
                    op: ResizeOp::Trunc,
                    from: B64,
                    to: B32,
                    arg: half,
                },
                B32,
            );
            b.store(Space::Local, addr, 4 * i as i32, half);
        }
        let whole = b.load(Space::Local, B64, addr, 0);
        b.ret(whole);
    });
    sroa::run(&mut func);
    simplify::run(&mut func);
    dce::run(&mut func);
    check(&func, "block0(v0: b64):\n ret v0");
}

#[test]
fn what_was_never_stored_is_zero() {
    let mut func = function(&[], B32, |b, _| {
        let slot = b.slot(4);
        let addr = b.slot_addr(slot, 0);
        let value = b.load(Space::Local, B32, addr, 0);
        b.ret(value);
    });
    sroa::run(&mut func);
    dce::run(&mut func);
    check(&func, "block0:\n v0 = const.b32 0x0\n ret v0");
}

#[test]
fn an_escaping_slot_stays() {
    let mut func = function(&[B64], B32, |b, params| {
        let slot = b.slot(4);
        let addr = b.slot_addr(slot, 0);
        let one = b.iconst(B32, 1);
        b.store(Space::Local, addr, 0, one);
        b.store(Space::Global, params[0], 0, addr);
        let value = b.load(Space::Local, B32, addr, 0);
        b.ret(value);
    });
    assert!(!sroa::run(&mut func));
}

/// A pointer to one slot is kept in another one; `mix` may do something to the place where it is.
fn through_a_kept_pointer(
    mix: impl FnOnce(&mut Build<'_>, ptxjit_ir::Value, &[ptxjit_ir::Value]),
) -> Function {
    let mut func = function(&[B32, B64], B32, |b, params| {
        let (target, holder) = (b.slot(8), b.slot(16));
        let (addr, kept) = (b.slot_addr(target, 4), b.slot_addr(holder, 0));
        let generic = b.b.ins(
            InstData::ToGeneric {
                space: Space::Local,
                arg: addr,
            },
            B64,
        );
        b.store(Space::Local, kept, 8, generic);
        b.store(Space::Local, addr, 0, params[0]);
        mix(b, kept, params);
        let pointer = b.load(Space::Local, B64, kept, 8);
        let value = b.load(Space::Generic, B32, pointer, 0);
        b.ret(value);
    });
    for _ in 0..2 {
        sroa::run(&mut func);
        remove_constant_params::run(&mut func);
        simplify::run(&mut func);
        dce::run(&mut func);
    }
    func
}

#[test]
fn pointers_kept_in_slots_are_followed() {
    let func = through_a_kept_pointer(|_, _, _| {});
    check(&func, "block0(v0: b32, v1: b64):\n ret v0");
}

#[test]
fn pointers_that_were_changed_in_memory_are_not_followed() {
    // Half of the pointer is overwritten, or something is stored at an unknown place beside it.
    let func = through_a_kept_pointer(|b, kept, params| b.store(Space::Local, kept, 12, params[0]));
    assert!(n_loads(&func) > 0);
    let func = through_a_kept_pointer(|b, kept, params| {
        let somewhere = b.add(kept, params[1]);
        b.store(Space::Local, somewhere, 0, params[1]);
    });
    assert!(n_loads(&func) > 0);
    // Another pointer is stored in its place.
    let func = through_a_kept_pointer(|b, kept, params| b.store(Space::Local, kept, 8, params[1]));
    assert!(n_loads(&func) > 0);
}

#[test]
fn an_escaped_slot_may_be_changed_through_any_pointer() {
    let mut func = function(&[B64], B32, |b, params| {
        let slot = b.slot(4);
        let addr = b.slot_addr(slot, 0);
        let generic = b.b.ins(
            InstData::ToGeneric {
                space: Space::Local,
                arg: addr,
            },
            B64,
        );
        b.store(Space::Global, params[0], 0, generic);
        let (one, two) = (b.iconst(B32, 1), b.iconst(B32, 2));
        b.store(Space::Local, addr, 0, one);
        b.store(Space::Generic, params[0], 8, two);
        let value = b.load(Space::Local, B32, addr, 0);
        b.ret(value);
    });
    gvn::run(&mut func);
    assert_eq!(n_loads(&func), 1);
}

#[test]
fn a_pointer_of_the_wrong_kind_is_not_followed() {
    let mut func = function(&[B32], B32, |b, params| {
        let slot = b.slot(8);
        let addr = b.slot_addr(slot, 0);
        let generic = b.b.ins(
            InstData::ToGeneric {
                space: Space::Local,
                arg: addr,
            },
            B64,
        );
        // The generic address is an offset far outside of the window.
        b.store(Space::Local, generic, 0, params[0]);
        let value = b.load(Space::Local, B32, addr, 0);
        b.ret(value);
    });
    assert!(!sroa::run(&mut func));
}

#[test]
fn a_slot_with_an_index_stays_but_forwards() {
    let mut func = function(&[B64, B32], B32, |b, params| {
        let slot = b.slot(64);
        let base = b.slot_addr(slot, 0);
        let addr = b.add(base, params[0]);
        b.store(Space::Local, addr, 0, params[1]);
        // Nobody else can reach the slot.
        b.store(Space::Generic, params[0], 0, params[1]);
        b.b.inst(
            InstData::Fence {
                sem: MemSem::Sc,
                scope: Scope::Sys,
            },
            &[],
        );
        let value = b.load(Space::Local, B32, addr, 0);
        b.ret(value);
    });
    assert!(!sroa::run(&mut func));
    gvn::run(&mut func);
    assert_eq!(n_loads(&func), 0);
    // Now nobody reads it.
    assert!(sroa::run(&mut func));
    assert!(!text(&func).contains("store.local"));
}

#[test]
fn constants_around_loops_are_no_parameters() {
    let mut func = function(&[Type::B1], B32, |b, params| {
        let five = b.iconst(B32, 5);
        let (head, x) = b.block_of(B32);
        let (body, y) = b.block_of(B32);
        let exit = b.block();
        b.jump(head, &[five]);
        b.at(head);
        b.brif(params[0], (body, &[x]), (exit, &[]));
        b.at(body);
        let again = b.iconst(B32, 5);
        b.brif(params[0], (head, &[y]), (head, &[again]));
        b.at(exit);
        b.ret(x);
    });
    assert!(remove_constant_params::run(&mut func));
    dce::run(&mut func);
    gvn::run(&mut func);
    let expected = "
        block0(v0: b1):
        jump block1
        block1:
        v1 = const.b32 0x5
        brif v0, block2, block3
        block2:
        brif v0, block1, block1
        block3:
        ret v1";
    check(&func, expected);
}
