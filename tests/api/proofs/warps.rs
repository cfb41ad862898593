//! Addresses that lanes get from each other or that no sum tells, and warps that wait for their
//! lanes.

use ptxjit::sanitize::{Checks, FindingKind};

use super::{
    ALL, Case, case, exchange, finds, is_only_screened, is_proven, races, run_both, store,
};

/// What lanes of other threads have written is found out when the code runs.
const NO_INIT: Checks = Checks { init: false, ..ALL };

/// Threads of one warp.
fn warp(body: &str) -> Case<'_> {
    Case {
        grid: [1, 1, 1],
        block: [32, 1, 1],
        ..case(body)
    }
}

/// Each thread leaves a word of shared memory where `combine` of the low and the high three bits of
/// its number says, in its row of eight; then all words are read in order.
fn swizzled(combine: &str, between: &str) -> String {
    format!(
        "and.b32 %r3, %l, 7; shr.u32 %r4, %l, 3; {combine} and.b32 %r5, %r5, 7; mad.lo.u32 %r5, %r4, 8, %r5; \
         mov.u32 %r6, s; mad.lo.u32 %r6, %r5, 4, %r6; st.shared.b32 [%r6], %t; {between} \
         ld.shared.b32 %r7, [%own_s]; add.u32 %r7, %r7, 1; st.global.b32 [%own], %r7;"
    )
}

#[test]
fn swizzled_words_are_apart() {
    is_proven(case(&swizzled("xor.b32 %r5, %r3, %r4;", "bar.sync 0;")));
    is_proven(case(&swizzled("add.u32 %r5, %r3, %r4;", "bar.sync 0;")));
    races(case(&swizzled("or.b32 %r5, %r3, %r4;", "bar.sync 0;")));
    races(case(&swizzled("xor.b32 %r5, %r3, %r4;", "")));
    // A word is left out of each row but the first.
    let one_less = "xor.b32 %r5, %r3, %r4; min.u32 %r5, %r5, 6; setp.eq.u32 %q1, %r4, 0; @%q1 mov.u32 %r5, %r3;";
    races(case(&swizzled(one_less, "bar.sync 0;")));
    // Some of the threads do not write.
    let some = swizzled("xor.b32 %r5, %r3, %r4;", "bar.sync 0;");
    let some = some.replace("st.shared", "setp.lt.u32 %q1, %l, 63; @%q1 st.shared");
    finds(FindingKind::UninitializedRead, case(&some));
}

#[test]
fn swizzled_words_lie_inside() {
    let over = |words: u32| {
        store(&format!(
            "and.b32 %r3, %t, 7; shr.u32 %r4, %t, 3; and.b32 %r4, %r4, 7; xor.b32 %r3, %r3, %r4; \
             and.b32 %r4, %t, 120; add.u32 %i, %r3, %r4; add.u32 %i, %i, {};",
            1024 - words
        ))
    };
    is_only_screened(case(&over(128)));
    finds(FindingKind::OutOfBounds, case(&over(127)));
}

#[test]
fn warps_wait_for_their_lanes() {
    let within = |between: &str, mask: u32| {
        let body = exchange(between);
        body.replace("sub.u32 %r4, 63, %l;", &format!("xor.b32 %r4, %l, {mask};"))
    };
    is_proven(Case {
        checks: NO_INIT,
        ..case(&within("bar.warp.sync 0xffffffff;", 31))
    });
    is_only_screened(case(&within("bar.warp.sync 0xffffffff;", 31)));
    races(case(&within("bar.warp.sync 0xffffffff;", 32)));
    races(case(&within("", 31)));
    // Only the first warp waits.
    let first = "setp.gt.u32 %q1, %l, 31; @%q1 bra skip; bar.warp.sync 0xffffffff; skip:";
    races(case(&within(first, 31)));
    // A shuffle lets lanes wait, and orders nothing.
    races(case(&within(
        "shfl.sync.idx.b32 %r6, %l, 0, 31, 0xffffffff;",
        31,
    )));
}

#[test]
fn warps_wait_in_loops() {
    let rounds = |second: &str| {
        let body = exchange("bar.warp.sync 0xffffffff;");
        let body = body.replace("sub.u32 %r4, 63, %l;", "xor.b32 %r4, %l, 31;");
        format!(
            "mov.u32 %i, 0; again: {body} {second} add.u32 %i, %i, 1; setp.lt.u32 %q2, %i, %n; @%q2 bra again;"
        )
    };
    for n in [1, 3, 5] {
        is_proven(Case {
            n,
            checks: NO_INIT,
            ..case(&rounds("bar.warp.sync 0xffffffff;"))
        });
    }
    for n in [2, 5, 300] {
        races(Case {
            n,
            ..case(&rounds(""))
        });
    }
}

#[test]
fn lanes_tell_each_other_where() {
    let from = |source: &str| {
        store(&format!(
            "{source} shfl.sync.idx.b32 %i, %t, %r3, 31, 0xffffffff;"
        ))
    };
    is_proven(case(&from("xor.b32 %r3, %l, 5;")));
    is_proven(case(&from("sub.u32 %r3, 31, %l;")));
    races(case(&from("mov.u32 %r3, 7;")));
    races(case(&from("or.b32 %r3, %l, 1;")));
    let neighbors = |mask: u32| {
        store(&format!(
            "shfl.sync.bfly.b32 %i, %t, {mask}, 31, 0xffffffff;"
        ))
    };
    is_proven(case(&neighbors(3)));
    // Of each segment of eight lanes all get the second lane's.
    races(case(&store(
        "shfl.sync.idx.b32 %i, %t, 9, 0x1807, 0xffffffff;",
    )));
}

#[test]
fn whole_warps_shuffle() {
    let shuffle = |guard: &str| {
        format!(
            "{guard} @%q1 bra skip; shfl.sync.bfly.b32 %r3, %l, 1, 31, 0xffffffff; st.global.b32 [%own], %r3; skip:"
        )
    };
    is_proven(case(&shuffle("setp.lt.u32 %q1, %l, 32;")));
    is_proven(case(&shuffle(
        "shr.u32 %r4, %l, 5; setp.ne.u32 %q1, %r4, 0;",
    )));
    let some = run_both(case(&shuffle("setp.lt.u32 %q1, %l, 31;")));
    assert!(!some, "lanes are missing");
    let odd = run_both(case(&shuffle(
        "and.b32 %r4, %l, 1; setp.ne.u32 %q1, %r4, 0;",
    )));
    assert!(!odd, "lanes are missing");
    // Memory decides, the same for all.
    let loaded = "ld.global.b32 %r4, [%e]; setp.eq.u32 %q1, %r4, 0;";
    assert!(!run_both(case(&shuffle(loaded))));
}

#[test]
fn rows_of_matrices_are_read() {
    let load = |shift: u32, between: &str| {
        format!(
            "shl.b32 %r3, %l, 4; mov.u32 %r4, s; add.u32 %r3, %r3, %r4; st.shared.v4.b32 [%r3], {{%t, %t, %t, %t}}; \
             {between} xor.b32 %r5, %l, 3; shl.b32 %r5, %r5, 4; add.u32 %r5, %r5, %r4; \
             ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r6, %r7, %r8, %r9}}, [%r5+{shift}]; \
             add.u32 %r6, %r6, %r9; st.global.b32 [%own], %r6;"
        )
    };
    is_proven(warp(&load(0, "bar.sync 0;")));
    is_only_screened(warp(&load(0, "bar.warp.sync 0xffffffff;")));
    races(warp(&load(0, "")));
    finds(FindingKind::Misaligned, warp(&load(4, "bar.sync 0;")));
    // The last row is one that no thread has written.
    finds(
        FindingKind::UninitializedRead,
        warp(&load(16, "bar.sync 0;")),
    );
}
