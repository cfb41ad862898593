//! Barriers and threads that wait for each other through memory.

use ptxjit_ir::{
    AtomicFmt, AtomicOp, BarrierOp, CompareOp, InstData, MemSem, Scope, Space, SpecialReg,
    Terminator, Type,
};
use smallvec::SmallVec;

use super::{Code, kernel, run, run_with};
use crate::barrier::{Arrival, Barrier};
use crate::{FaultKind, SilentHost};

/// Each thread writes shared memory, and after the barrier reads what its mirror image wrote.
#[test]
fn reverse_through_shared_memory() {
    let program = kernel(|k| {
        let tid = k.tid();
        let x = k.get(tid);
        let zero = k.long(0);
        let mine = k.element(zero, tid);
        k.store(Space::Shared, x, mine, 0);
        k.sync();
        let n = k.sreg(SpecialReg::NtidX);
        let minus_one = k.word(u64::from(u32::MAX));
        let last = k.add(n, minus_one);
        let mirror = k.binary(ptxjit_ir::IntBinaryOp::Sub, last, tid);
        let other = k.element(zero, mirror);
        let y = k.load(Space::Shared, Type::B32, other, 0);
        k.put_mine(y);
    });
    let words: Vec<u32> = (0..100).collect();
    let out = run_with(
        &program,
        1,
        100,
        &words,
        &mut SilentHost::default(),
        |launch| launch.dynamic_shared = 400,
    )
    .unwrap();
    assert_eq!(out, words.into_iter().rev().collect::<Vec<_>>());
}

/// Threads that have ended are not waited for.
#[test]
fn ended_threads_do_not_hold_a_barrier() {
    let program = kernel(|k| {
        let tid = k.tid();
        let leaves = k.below(tid, 40);
        let (gone, stays) = k.branch(leaves);
        k.b.switch_to(gone);
        k.end(Terminator::Exit);
        k.b.switch_to(stays);
        k.sync();
        let one = k.word(1);
        k.put_mine(one);
    });
    let out = run(&program, 1, 96, &[0; 96]).unwrap();
    assert!(out[..40].iter().all(|&x| x == 0) && out[40..].iter().all(|&x| x == 1));
}

/// Lanes of one warp arrive at the same barrier at two instructions.
#[test]
fn barrier_from_both_sides_of_a_branch() {
    let program = kernel(|k| {
        let tid = k.tid();
        let low = k.below(tid, 10);
        let (then_, else_) = k.branch(low);
        let after = k.b.new_block();
        for block in [then_, else_] {
            k.b.switch_to(block);
            k.sync();
            k.b.jump(after);
        }
        k.b.switch_to(after);
        k.put_mine(tid);
    });
    assert_eq!(
        run(&program, 1, 64, &[9; 64]).unwrap(),
        (0..64).collect::<Vec<u32>>()
    );
}

/// One warp arrives and goes on, the other waits for it; the first ends without waiting.
#[test]
fn producer_arrives_consumer_waits() {
    let program = kernel(|k| {
        let tid = k.tid();
        let zero = k.word(0);
        let is_producer = k.below(tid, 32);
        let (produce, consume) = k.branch(is_producer);
        k.b.switch_to(produce);
        let value = k.word(77);
        k.when(is_producer, |k| k.put(zero, value));
        k.barrier(BarrierOp::Arrive, 3, Some(64), None);
        k.end(Terminator::Exit);
        k.b.switch_to(consume);
        k.barrier(BarrierOp::Sync, 3, Some(64), None);
        let seen = k.get(zero);
        k.put_mine(seen);
    });
    let out = run(&program, 1, 64, &[0; 64]).unwrap();
    assert!(out[32..].iter().all(|&x| x == 77));
}

#[test]
fn reductions() {
    let program = kernel(|k| {
        let tid = k.tid();
        let three = k.word(3);
        let rem = k.binary(ptxjit_ir::IntBinaryOp::Urem, tid, three);
        let zero = k.word(0);
        let pred = k.compare(CompareOp::Eq, rem, zero);
        let count = k.barrier(BarrierOp::RedPopc, 0, None, Some(pred)).unwrap();
        let all = k.barrier(BarrierOp::RedAnd, 0, None, Some(pred)).unwrap();
        let any = k.barrier(BarrierOp::RedOr, 0, None, Some(pred)).unwrap();
        let (all, any) = (k.pred_word(all), k.pred_word(any));
        let sixteen = k.word(16);
        let eight = k.word(8);
        let all = k.binary(ptxjit_ir::IntBinaryOp::Shl, all, sixteen);
        let any = k.binary(ptxjit_ir::IntBinaryOp::Shl, any, eight);
        let sum = k.add(count, all);
        let sum = k.add(sum, any);
        k.put_mine(sum);
    });
    // 0, 3, … 48: 17 of 50 threads.
    assert_eq!(
        run(&program, 1, 50, &[0; 50]).unwrap(),
        vec![17 | 1 << 8; 50]
    );
}

/// Every thread adds under a lock that it takes by compare-and-swap, spinning.
#[test]
fn spin_lock_among_lanes() {
    let program = kernel(|k| {
        let base = k.buffer();
        let (zero, one) = (k.word(0), k.word(1));
        let (try_, locked, done) = (k.b.new_block(), k.b.new_block(), k.b.new_block());
        k.b.jump(try_);
        k.b.switch_to(try_);
        let old = atomic(k, AtomicOp::Cas, base, &[zero, one]);
        let free = k.compare(CompareOp::Eq, old, zero);
        k.b.brif(free, locked, try_);
        k.b.switch_to(locked);
        let sum = k.load(Space::Global, Type::B32, base, 4);
        let sum = k.add(sum, one);
        k.store(Space::Global, sum, base, 4);
        // Others get turns while the lock is held.
        let pause = k.word(100);
        k.b.inst(InstData::Nanosleep { arg: pause }, &[]);
        atomic(k, AtomicOp::Exch, base, &[zero]);
        k.b.jump(done);
        k.b.switch_to(done);
    });
    assert_eq!(run(&program, 3, 70, &[0, 0]).unwrap(), [0, 210]);
}

fn atomic(
    k: &mut Code<'_>,
    op: AtomicOp,
    addr: ptxjit_ir::Value,
    args: &[ptxjit_ir::Value],
) -> ptxjit_ir::Value {
    let args: SmallVec<[ptxjit_ir::Value; 2]> = args.iter().copied().collect();
    let (fmt, space, sem, scope) = (AtomicFmt::U32, Space::Global, MemSem::Relaxed, Scope::Gpu);
    k.b.ins(
        InstData::Atomic {
            op,
            fmt,
            space,
            sem,
            scope,
            addr,
            offset: 0,
            args,
        },
        Type::B32,
    )
}

/// Every CTA waits until all have counted themselves: needs all of them live.
fn wait_for_all_ctas() -> ptxjit_ir::Program {
    kernel(|k| {
        let base = k.buffer();
        let one = k.word(1);
        atomic(k, AtomicOp::Add, base, &[one]);
        let (spin, done) = (k.b.new_block(), k.b.new_block());
        k.b.jump(spin);
        k.b.switch_to(spin);
        let seen = k.load(Space::Global, Type::B32, base, 0);
        let all = k.sreg(SpecialReg::NctaidX);
        let complete = k.compare(CompareOp::Uge, seen, all);
        k.b.brif(complete, done, spin);
        k.b.switch_to(done);
    })
}

#[test]
fn cooperative_ctas_wait_for_each_other() {
    let program = wait_for_all_ctas();
    let out = run_with(&program, 5, 1, &[0], &mut SilentHost::default(), |launch| {
        launch.cooperative = true
    });
    assert_eq!(out.unwrap(), [5]);
}

#[test]
fn later_ctas_start_when_earlier_ones_spin() {
    let program = wait_for_all_ctas();
    let out = run_with(&program, 5, 1, &[0], &mut SilentHost::default(), |launch| {
        launch.limits.patience = 10_000
    });
    assert_eq!(out.unwrap(), [5]);
}

#[test]
fn deadlock_names_each_group() {
    let program = kernel(|k| {
        let tid = k.tid();
        let low = k.below(tid, 32);
        let (then_, else_) = k.branch(low);
        k.b.switch_to(then_);
        k.barrier(BarrierOp::Sync, 1, None, None);
        k.end(Terminator::Exit);
        k.b.switch_to(else_);
        k.barrier(BarrierOp::Sync, 2, Some(96), None);
    });
    let fault = run(&program, 1, 64, &[0]).unwrap_err();
    let FaultKind::Deadlock(groups) = fault.kind else {
        panic!("{fault}")
    };
    let texts: Vec<&str> = groups.iter().map(|group| group.what.as_str()).collect();
    assert_eq!(
        texts,
        [
            "barrier 1: 32 of 64 threads arrived",
            "barrier 2: 32 of 96 threads arrived"
        ]
    );
    assert_eq!(groups[0].threads, (0..32).collect::<Vec<_>>());
    assert_eq!(groups[1].threads, (32..64).collect::<Vec<_>>());
}

#[test]
fn there_are_sixteen_barriers() {
    let program = kernel(|k| {
        k.barrier(BarrierOp::Sync, 16, None, None);
    });
    assert!(matches!(
        run(&program, 1, 1, &[0]).unwrap_err().kind,
        FaultKind::BadBarrier(_)
    ));
}

fn arrival(thread: u32, op: BarrierOp, count: u64) -> Arrival {
    Arrival {
        thread,
        op,
        count,
        pred: thread.is_multiple_of(2),
    }
}

/// A warp counts once all of its lanes that have not ended have arrived.
#[test]
fn barrier_counts_warps() {
    let mut barrier = Barrier::default();
    let live = [u32::MAX, 0x7];
    for thread in 0..32 {
        assert!(barrier.arrive(arrival(thread, BarrierOp::Sync, 0)));
        assert_eq!(barrier.update(&live), None);
        assert_eq!(barrier.arrived(), if thread < 31 { 0 } else { 32 });
    }
    assert_eq!(barrier.expected(&live), 64);
    for thread in 32..34 {
        assert!(barrier.arrive(arrival(thread, BarrierOp::Sync, 0)));
        assert_eq!(barrier.update(&live), None);
    }
    // The third lane of the second warp ends instead of arriving.
    let woken = barrier.update(&[u32::MAX, 0x3]).unwrap();
    assert_eq!(woken.len(), 34);
    assert_eq!(barrier.arrived(), 0);
}

/// A lane that arrives a second time before its warp is complete has to wait for its turn.
#[test]
fn barrier_refuses_a_second_arrival() {
    let mut barrier = Barrier::default();
    assert!(barrier.arrive(arrival(0, BarrierOp::Arrive, 32)));
    assert!(!barrier.arrive(arrival(0, BarrierOp::Sync, 32)));
    assert_eq!(barrier.update(&[0b11]), None);
    assert!(barrier.arrive(arrival(1, BarrierOp::Sync, 32)));
    assert_eq!(barrier.update(&[0b11]), Some(vec![(1, 0)]));
    assert!(barrier.arrive(arrival(0, BarrierOp::Sync, 32)));
}
