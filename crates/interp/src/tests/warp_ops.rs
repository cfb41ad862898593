//! Operations among the lanes of a warp.

use ptxjit_ir::{CompareOp, IntBinaryOp, Type, WarpOp};

use super::{kernel, run};
use crate::FaultKind;
use crate::warp::{LANES, Operands, evaluate, shuffle_source};

/// Operand `f(lane)` for the lanes of a mask.
fn lanes(mask: u32, f: impl Fn(u64) -> [u64; 3]) -> Operands {
    std::array::from_fn(|lane| {
        (mask >> lane & 1 != 0).then(|| f(lane as u64).into_iter().collect())
    })
}

/// The pseudo-code of the ISA, worked by hand for lanes and operands that tell the modes apart.
#[test]
fn shuffle_sources() {
    // (op, lane, b, c) -> source, in range
    let cases = [
        // Whole warp: clamp 0 for up, 31 for the others.
        (WarpOp::ShflUp, 5, 2, 0, (3, true)),
        (WarpOp::ShflUp, 1, 2, 0, (1, false)),
        (WarpOp::ShflDown, 30, 1, 31, (31, true)),
        (WarpOp::ShflDown, 31, 1, 31, (31, false)),
        (WarpOp::ShflBfly, 6, 16, 31, (22, true)),
        (WarpOp::ShflIdx, 6, 9, 31, (9, true)),
        // Bits of b above 4 are ignored.
        (WarpOp::ShflIdx, 6, 32 + 9, 31, (9, true)),
        // Segments of 8 lanes: c = 0x1800 with clamp 7, or 0 for up.
        (WarpOp::ShflUp, 9, 2, 0x1800, (9, false)),
        (WarpOp::ShflUp, 11, 2, 0x1800, (9, true)),
        (WarpOp::ShflDown, 14, 1, 0x1807, (15, true)),
        (WarpOp::ShflDown, 15, 1, 0x1807, (15, false)),
        (WarpOp::ShflBfly, 10, 4, 0x1807, (14, true)),
        // Lane 2 ^ 8 = 10 lies beyond the segment's last lane 7; lane 10 ^ 8 = 2 does not lie
        // beyond 15.
        (WarpOp::ShflBfly, 2, 8, 0x1807, (2, false)),
        (WarpOp::ShflBfly, 10, 8, 0x1807, (2, true)),
        (WarpOp::ShflIdx, 10, 3, 0x1807, (11, true)),
        (WarpOp::ShflIdx, 10, 3, 0x1802, (10, false)),
    ];
    for (op, lane, b, c, want) in cases {
        assert_eq!(
            shuffle_source(op, lane, b, c),
            want,
            "{op} lane {lane} b {b} c {c:#x}"
        );
    }
}

#[test]
fn votes_and_matches() {
    let operands = lanes(0x0000_00f0, |lane| [u64::from(lane != 5), 0, 0]);
    let result = |op| evaluate(op, Type::B32, &operands)[6].to_vec();
    assert_eq!(result(WarpOp::VoteAll), [0, 0]);
    assert_eq!(result(WarpOp::VoteAny), [1, 0]);
    assert_eq!(result(WarpOp::VoteUni), [0, 0]);
    assert_eq!(result(WarpOp::Ballot), [0xd0, 0]);
    assert_eq!(result(WarpOp::MatchAny), [0xd0, 0]);
    assert_eq!(
        evaluate(WarpOp::MatchAny, Type::B32, &operands)[5].as_slice(),
        [0x20, 0]
    );
    assert_eq!(result(WarpOp::MatchAll), [0, 0]);
    assert_eq!(result(WarpOp::Elect), [4, 0]);
    assert_eq!(
        evaluate(WarpOp::Elect, Type::B32, &operands)[4].as_slice(),
        [4, 1]
    );
    let equal = lanes(0x0000_0011, |_| [0x1_0000_0007, 0, 0]);
    assert_eq!(
        evaluate(WarpOp::MatchAll, Type::B64, &equal)[4].as_slice(),
        [0x11, 1]
    );
    // 64-bit values that differ in the high word only.
    let high = lanes(0x3, |lane| [lane << 40, 0, 0]);
    assert_eq!(
        evaluate(WarpOp::MatchAny, Type::B64, &high)[0].as_slice(),
        [1, 0]
    );
    assert_eq!(
        evaluate(WarpOp::MatchAny, Type::B32, &high)[0].as_slice(),
        [3, 0]
    );
}

#[test]
fn reductions() {
    let operands = lanes(0b1011, |lane| {
        [[3, 0xffff_fffe, 0, 10][lane as usize], 0, 0]
    });
    let result = |op| evaluate(op, Type::B32, &operands)[3][0];
    assert_eq!(result(WarpOp::ReduxAdd), 11);
    assert_eq!(result(WarpOp::ReduxUmin), 3);
    assert_eq!(result(WarpOp::ReduxUmax), 0xffff_fffe);
    assert_eq!(result(WarpOp::ReduxSmin), 0xffff_fffe);
    assert_eq!(result(WarpOp::ReduxSmax), 10);
    assert_eq!(result(WarpOp::ReduxAnd), 2);
    assert_eq!(result(WarpOp::ReduxOr), 0xffff_ffff);
    assert_eq!(result(WarpOp::ReduxXor), 0xffff_fff7);
    let bits = |x: f32| u64::from(x.to_bits());
    let floats = lanes(0b111, |lane| {
        [[bits(f32::NAN), bits(-0.0), bits(0.0)][lane as usize], 0, 0]
    });
    let result = |op, operands| evaluate(op, Type::B32, operands)[0][0];
    assert_eq!(result(WarpOp::ReduxFmin, &floats), bits(-0.0));
    assert_eq!(result(WarpOp::ReduxFmax, &floats), 0);
    assert_eq!(result(WarpOp::ReduxFminNan, &floats), 0x7fff_ffff);
    let lone = lanes(0b1, |_| [bits(-f32::NAN), 0, 0]);
    assert_eq!(result(WarpOp::ReduxFmax, &lone), 0x7fff_ffff);
}

#[test]
fn lanes_that_take_no_part_get_nothing() {
    let results = evaluate(WarpOp::Ballot, Type::B1, &lanes(0x1, |_| [1, 0, 0]));
    assert_eq!(results[0].as_slice(), [1, 0]);
    assert!(results[1..LANES].iter().all(|result| result.is_empty()));
}

/// Lanes meet from two instructions on either side of a branch; the shuffle sees both sides'
/// values.
#[test]
fn sync_operations_meet_across_a_branch() {
    let program = kernel(|k| {
        let tid = k.tid();
        let low = k.below(tid, 16);
        let (then_, else_) = k.branch(low);
        let after = k.b.new_block();
        let result = k.b.declare(Type::B32);
        for (block, bias) in [(then_, 100), (else_, 200)] {
            k.b.switch_to(block);
            let bias = k.word(bias);
            let value = k.add(tid, bias);
            let (b, c) = (k.word(16), k.word(31));
            let out = k.warp(
                WarpOp::ShflBfly,
                &[value, b, c],
                Some(0xffff_ffff),
                &[Type::B32, Type::B1],
            );
            k.b.def_var(result, out[0]);
            k.b.jump(after);
        }
        k.b.switch_to(after);
        let out = k.b.use_var(result);
        k.put_mine(out);
    });
    let want: Vec<u32> = (0..32)
        .map(|lane| (lane ^ 16) + if lane < 16 { 200 } else { 100 })
        .collect();
    assert_eq!(run(&program, 1, 32, &[0; 32]).unwrap(), want);
}

/// Two halves of a warp vote on their own at the same instruction; members beyond the end of a
/// partial warp are not waited for.
#[test]
fn disjoint_masks_and_missing_lanes() {
    let program = kernel(|k| {
        let tid = k.tid();
        let low = k.below(tid, 16);
        let (then_, else_) = k.branch(low);
        let after = k.b.new_block();
        let result = k.b.declare(Type::B32);
        for (block, mask) in [(then_, 0x0000_ffff), (else_, 0xffff_0000)] {
            k.b.switch_to(block);
            let one = k.word(1);
            let bit = k.binary(IntBinaryOp::And, tid, one);
            let odd = k.compare(CompareOp::Eq, bit, one);
            let out = k.warp(WarpOp::Ballot, &[odd], Some(mask), &[Type::B32]);
            k.b.def_var(result, out[0]);
            k.b.jump(after);
        }
        k.b.switch_to(after);
        let out = k.b.use_var(result);
        k.put_mine(out);
    });
    let out = run(&program, 1, 20, &[0; 20]).unwrap();
    assert!(out[..16].iter().all(|&x| x == 0xaaaa) && out[16..].iter().all(|&x| x == 0x000a_0000));
}

/// Without a member mask the lanes at the same instruction take part; `activemask` shows which.
#[test]
fn converged_lanes_without_a_mask() {
    let program = kernel(|k| {
        let tid = k.tid();
        let low = k.below(tid, 5);
        let zero = k.word(0);
        k.put_mine(zero);
        k.when(low, |k| {
            let active = k.warp(WarpOp::ActiveMask, &[], None, &[Type::B32]);
            k.put_mine(active[0]);
        });
    });
    let out = run(&program, 1, 32, &[7; 32]).unwrap();
    assert!(out[..5].iter().all(|&x| x == 0x1f) && out[5..].iter().all(|&x| x == 0));
}

#[test]
fn missing_member_is_a_deadlock() {
    let program = kernel(|k| {
        let tid = k.tid();
        let low = k.below(tid, 16);
        k.when(low, |k| {
            k.warp(WarpOp::Sync, &[], Some(0xffff_ffff), &[]);
        });
        k.sync();
    });
    let fault = run(&program, 1, 32, &[0]).unwrap_err();
    let FaultKind::Deadlock(groups) = fault.kind else {
        panic!("{fault}")
    };
    assert_eq!(groups.len(), 2);
    assert_eq!(
        groups[0].what,
        "`bar.warp.sync` with member mask 0xffffffff in warp 0"
    );
}
