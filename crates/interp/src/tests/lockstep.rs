//! Warps in lockstep: code that needs no synchronization as long as lanes run together.

use ptxjit_ir::{CompareOp, FunctionKind, IntBinaryOp, Space, Terminator, Type, WarpOp};

use super::{function, kernel, run, run_with};
use crate::SilentHost;
use crate::postdom;

/// The classic reduction in shared memory without barriers: each step reads what the other lanes
/// wrote in the step before.
#[test]
fn reduction_without_barriers() {
    let mut program = kernel(|k| {
        let tid = k.tid();
        let zero = k.long(0);
        let x = k.get(tid);
        let mine = k.element(zero, tid);
        k.store(Space::Shared, x, mine, 0);
        for step in [16, 8, 4, 2, 1] {
            let a = k.load(Space::Shared, Type::B32, mine, 0);
            let b = k.load(Space::Shared, Type::B32, mine, 4 * step);
            let sum = k.add(a, b);
            k.store(Space::Shared, sum, mine, 0);
        }
        let total = k.load(Space::Shared, Type::B32, zero, 0);
        k.put_mine(total);
    });
    program.lockstep = true;
    let words: Vec<u32> = (1..=32).collect();
    let out = run_with(
        &program,
        1,
        32,
        &words,
        &mut SilentHost::default(),
        |launch| launch.dynamic_shared = 256,
    )
    .unwrap();
    assert_eq!(out, vec![528; 32]);
}

/// Lanes that took different ways meet at the post-dominator, so that a shuffle without mask sees
/// all of them; inside a side it sees that side's lanes.
#[test]
fn reconvergence_after_a_branch() {
    let mut program = kernel(|k| {
        let tid = k.tid();
        let low = k.below(tid, 12);
        let (then_, else_) = k.branch(low);
        let after = k.b.new_block();
        let seen = k.b.declare(Type::B32);
        for block in [then_, else_] {
            k.b.switch_to(block);
            let active = k.warp(WarpOp::ActiveMask, &[], None, &[Type::B32]);
            k.b.def_var(seen, active[0]);
            k.b.jump(after);
        }
        k.b.switch_to(after);
        let seen = k.b.use_var(seen);
        let all = k.warp(WarpOp::ActiveMask, &[], None, &[Type::B32]);
        let both = k.binary(IntBinaryOp::Xor, seen, all[0]);
        k.put_mine(both);
    });
    program.lockstep = true;
    let out = run(&program, 1, 32, &[0; 32]).unwrap();
    assert!(
        out[..12].iter().all(|&x| x == 0xffff_f000) && out[12..].iter().all(|&x| x == 0x0000_0fff)
    );
}

/// Lanes leave a loop after different numbers of turns and wait behind it.
#[test]
fn reconvergence_after_a_loop() {
    let mut program = kernel(|k| {
        let tid = k.tid();
        let i = k.b.declare(Type::B32);
        let zero = k.word(0);
        k.b.def_var(i, zero);
        let (head, after) = (k.b.new_block(), k.b.new_block());
        k.b.jump(head);
        k.b.switch_to(head);
        let n = k.b.use_var(i);
        let one = k.word(1);
        let next = k.add(n, one);
        k.b.def_var(i, next);
        let again = k.compare(CompareOp::Ult, n, tid);
        k.b.brif(again, head, after);
        k.b.switch_to(after);
        let all = k.warp(WarpOp::ActiveMask, &[], None, &[Type::B32]);
        let n = k.b.use_var(i);
        let sum = k.add(all[0], n);
        k.put_mine(sum);
    });
    program.lockstep = true;
    let want: Vec<u32> = (0..32u32)
        .map(|tid| u32::MAX.wrapping_add(tid + 1))
        .collect();
    assert_eq!(run(&program, 1, 32, &[0; 32]).unwrap(), want);
}

/// A barrier executed by some lanes counts for the whole warp.
#[test]
fn barrier_by_part_of_a_warp() {
    let mut program = kernel(|k| {
        let tid = k.tid();
        let low = k.below(tid, 3);
        k.when(low, |k| k.sync());
        let first_warp = k.below(tid, 32);
        let (then_, else_) = k.branch(first_warp);
        let after = k.b.new_block();
        k.b.switch_to(then_);
        k.b.jump(after);
        k.b.switch_to(else_);
        k.sync();
        k.b.jump(after);
        k.b.switch_to(after);
        k.put_mine(tid);
    });
    program.lockstep = true;
    assert_eq!(
        run(&program, 1, 64, &[0; 64]).unwrap(),
        (0..64).collect::<Vec<u32>>()
    );
}

/// A trap on one side does not keep the other lanes from meeting.
#[test]
fn post_dominators_ignore_traps() {
    let func = function(
        "f",
        FunctionKind::Device,
        &[Type::B1, Type::B1],
        &[],
        |k, params| {
            let (inner, join) = k.branch(params[0]);
            k.b.switch_to(inner);
            let (bad, good) = k.branch(params[1]);
            k.b.switch_to(bad);
            k.end(Terminator::Trap(ptxjit_ir::TrapKind::Trap));
            k.b.switch_to(good);
            k.b.jump(join);
            k.b.switch_to(join);
            k.end(Terminator::Ret(Default::default()));
        },
    );
    // Blocks: entry 0, inner 1, join 2, bad 3, good 4.
    let of = postdom::compute(&func);
    let number = |block: usize| of[block].map(|block| block.as_u32());
    assert_eq!(
        [0, 1, 2, 3, 4].map(number),
        [Some(2), Some(4), None, None, Some(2)]
    );
}
