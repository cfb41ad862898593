//! Copies that run beside their threads.

use super::{Case, case, is_proven, races, run_both};

/// Copies the thread's own word to its own place of shared memory, `at` bytes further in both.
fn copy(at: u32) -> String {
    format!("cp.async.ca.shared.global [%own_s+{at}], [%own+{at}], 4; cp.async.commit_group;")
}

/// Reads the word of another thread, `at` bytes further.
fn read(at: u32) -> String {
    format!(
        "mov.u32 %r3, s; sub.u32 %r4, 63, %l; mad.lo.u32 %r4, %r4, 4, %r3; ld.shared.b32 %r5, [%r4+{at}]; \
         add.u32 %r5, %r5, 1; st.global.b32 [%own+2048], %r5;"
    )
}

/// A wait for all but the last groups, then a barrier.
fn wait(n: u32) -> String {
    format!("cp.async.wait_group {n}; bar.sync 0;")
}

const OWN: &str = "ld.shared.b32 %r5, [%own_s]; st.global.b32 [%own+2048], %r5;";

#[test]
fn copies_are_waited_for() {
    let (copy, read) = (copy(0), read(0));
    is_proven(case(&format!("{copy} {} {read}", wait(0))));
    is_proven(case(&format!(
        "{copy} cp.async.wait_all; bar.sync 0; {read}"
    )));
    is_proven(case(&format!("{copy} cp.async.wait_group 0; {OWN}")));
    races(case(&format!("{copy} {} {read}", wait(1))));
    races(case(&format!("{copy} bar.sync 0; {read}")));
    races(case(&format!("{copy} {OWN} cp.async.wait_group 0;")));
    races(case(&format!("{copy} cp.async.wait_group 0; {read}")));
    races(case(&format!(
        "{copy} bar.sync 0; cp.async.wait_group 0; {read}"
    )));
}

#[test]
fn groups_are_waited_for_in_order() {
    let two = format!("{} {}", copy(0), copy(256));
    is_proven(case(&format!(
        "{two} {} {} cp.async.wait_all;",
        wait(1),
        read(0)
    )));
    races(case(&format!(
        "{two} {} {} cp.async.wait_all;",
        wait(1),
        read(256)
    )));
    is_proven(case(&format!("{two} {} {}", wait(0), read(256))));
    // Without a commit both are in one group.
    let one = two.replacen("cp.async.commit_group;", "", 1);
    races(case(&format!("{one} {} {}", wait(1), read(0))));
    is_proven(case(&format!("{one} {} {}", wait(0), read(0))));
    // The last copy is in no group.
    let open = format!(
        "{} {}",
        copy(0),
        copy(256).replace("cp.async.commit_group;", "")
    );
    races(case(&format!("{open} {} {}", wait(0), read(256))));
    is_proven(case(&format!(
        "{open} cp.async.wait_all; bar.sync 0; {}",
        read(256)
    )));
}

#[test]
fn copies_run_beside_their_own_thread() {
    let (copy, wait) = (copy(0), wait(0));
    is_proven(case(&format!("st.shared.b32 [%own_s], %t; {copy} {wait}")));
    races(case(&format!("{copy} st.shared.b32 [%own_s], %t; {wait}")));
    is_proven(case(&format!("{copy} {wait} st.shared.b32 [%own_s], %t;")));
    // The source changes.
    is_proven(case(&format!("st.global.b32 [%own], %t; {copy} {wait}")));
    races(case(&format!("{copy} st.global.b32 [%own], %t; {wait}")));
    is_proven(case(&format!("{copy} {wait} st.global.b32 [%own], %t;")));
    is_proven(case(&format!("{copy} ld.global.b32 %r3, [%own]; {wait}")));
    // Two copies to one place.
    races(case(&format!("{copy} {copy} {wait}")));
    is_proven(case(&format!("{copy} cp.async.wait_all; {copy} {wait}")));
}

#[test]
fn stages_alternate() {
    let rounds = |last: &str, groups: u32| {
        format!(
            "{} mov.u32 %i, 0; \
             again: and.b32 %r6, %i, 1; xor.b32 %r7, %r6, 1; mad.lo.u32 %r7, %r7, 256, %own_s; \
             cp.async.ca.shared.global [%r7], [%own+4], 4; cp.async.commit_group; \
             cp.async.wait_group {groups}; bar.sync 0; \
             mov.u32 %r3, s; sub.u32 %r4, 63, %l; mad.lo.u32 %r4, %r4, 4, %r3; mad.lo.u32 %r4, %r6, 256, %r4; \
             ld.shared.b32 %r5, [%r4]; add.u32 %r5, %r5, 1; st.global.b32 [%own+2048], %r5; {last} \
             add.u32 %i, %i, 1; setp.lt.u32 %q1, %i, %n; @%q1 bra again; cp.async.wait_all;",
            copy(0)
        )
    };
    for n in [1, 2, 9] {
        is_proven(Case {
            n,
            ..case(&rounds("bar.sync 0;", 1))
        });
        races(Case {
            n,
            ..case(&rounds("bar.sync 0;", 2))
        });
    }
    // The next copy overwrites what other threads may still read.
    races(Case {
        n: 3,
        ..case(&rounds("", 1))
    });
}

#[test]
fn loops_issue_copies() {
    let over = |by: u32| {
        format!(
            "mov.u32 %i, 0; mov.u32 %r6, %own_s; mov.u64 %d1, %own; \
             again: cp.async.ca.shared.global [%r6], [%d1], 4; add.u32 %r6, %r6, {by}; add.u64 %d1, %d1, 256; \
             add.u32 %i, %i, 1; setp.lt.u32 %q1, %i, %n; @%q1 bra again; \
             cp.async.commit_group; {} {}",
            wait(0),
            read(0)
        )
    };
    for n in [1, 2, 6] {
        is_proven(Case {
            n,
            ..case(&over(256))
        });
    }
    for n in [2, 6] {
        races(Case {
            n,
            ..case(&over(0))
        });
        races(Case {
            n,
            ..case(&over(4))
        });
    }
}

#[test]
fn parts_are_copied() {
    let part = |size: &str| {
        format!(
            "{size} cp.async.ca.shared.global [%own_s], [%own], 4, %r6; cp.async.commit_group; {} {}",
            wait(0),
            read(0)
        )
    };
    is_proven(case(&part("mov.u32 %r6, 4;")));
    is_proven(case(&part("mov.u32 %r6, 0;")));
    is_proven(case(&part(
        "setp.lt.u32 %q1, %l, 32; selp.b32 %r6, 4, 0, %q1;",
    )));
    // Threads up to 47 may be on either side, as far as their bits tell.
    run_both(case(&part(
        "setp.lt.u32 %q1, %l, 40; selp.b32 %r6, 4, 0, %q1;",
    )));
    races(case(
        &part("setp.lt.u32 %q1, %l, 40; selp.b32 %r6, 4, 0, %q1;")
            .replace("cp.async.wait_group 0;", ""),
    ));
}

#[test]
fn some_threads_wait() {
    let half = format!(
        "{} setp.gt.u32 %q1, %l, 31; @%q1 bra skip; cp.async.wait_group 0; skip: bar.sync 0; {}",
        copy(0),
        read(0)
    );
    races(case(&half));
}
