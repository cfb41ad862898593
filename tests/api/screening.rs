//! Launches under sanitizers: compiled code tells those that have nothing to find from the others,
//! at every gang width.

use ptxjit::sanitize::{AccessOp, Checks, Finding, FindingKind, Report};
use ptxjit::{Arg, Device, Engine, Launch, Module};

const GANGS: [u32; 5] = [1, 4, 8, 16, 32];

const CHECKS: Checks = Checks {
    mem: true,
    race: true,
    init: true,
    sync: true,
    leak: false,
    same_value: false,
};

/// A kernel with the pointer `%p` and the thread's own element of four bytes at `%own`; the thread
/// is `%t` of the grid, `%l` of its CTA.
fn module(device: &Device, body: &str) -> Module {
    let text = format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n\
         .global .u32 n;\n\
         .visible .entry k(.param .u64 a) {{\n\
         .shared .align 16 .b8 s[4096];\n\
         .reg .pred %q<4>; .reg .b16 %h<4>; .reg .b32 %r<9>, %t, %l; .reg .b64 %d<9>, %p, %own;\n\
         ld.param.u64 %p, [a]; cvta.to.global.u64 %p, %p; mov.u32 %l, %tid.x;\n\
         mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mad.lo.u32 %t, %r1, %r2, %l;\n\
         mul.wide.u32 %own, %t, 4; add.u64 %own, %own, %p;\n\
         {body}\nret;\n}}\n"
    );
    Module::from_source(device, "screening.ptx", text).unwrap()
}

/// Runs a body on 2 blocks of 64 threads and 256 words that count up from 0; gives what was found,
/// whether screening was enough, and the words.
fn run(body: &str, of: impl Fn(Launch) -> Launch) -> (Vec<Finding>, bool, Vec<u32>) {
    let device = Device::new().unwrap();
    let data = device.alloc_from(&(0..256).collect::<Vec<u32>>()).unwrap();
    let launch = module(&device, body).kernel("k").unwrap().launch();
    let launch = launch.grid(2).block(64).arg(&data).sanitize(CHECKS);
    let launch = of(launch);
    let report: Report = launch.report();
    let stats = launch.run().unwrap();
    (report.findings(), stats.is_screened, data.read().unwrap())
}

/// The body has nothing to find, and compiled code says so.
fn is_clean(body: &str) -> Vec<u32> {
    let (findings, _, wanted) = run(body, |launch| launch.engine(Engine::Interp));
    assert_eq!(findings, []);
    for gang in GANGS {
        let (findings, is_screened, words) = run(body, |launch| launch.gang(gang));
        assert_eq!(findings, [], "gang {gang}");
        assert!(is_screened, "gang {gang} suspects something");
        assert_eq!(words, wanted, "gang {gang}");
    }
    wanted
}

/// The body has findings of one kind: the same as in the interpreter, and the kernel's effect is
/// there once.
fn finds(body: &str, kind: FindingKind) {
    let key = |findings: &[Finding]| -> Vec<_> { findings.iter().map(Finding::key).collect() };
    let (wanted, _, words) = run(body, |launch| launch.engine(Engine::Interp));
    assert!(
        wanted.iter().any(|finding| finding.kind == kind),
        "{wanted:?}"
    );
    for gang in GANGS {
        let (findings, is_screened, found) = run(body, |launch| launch.gang(gang));
        assert!(!is_screened, "gang {gang} suspects nothing");
        assert_eq!(key(&findings), key(&wanted), "gang {gang}");
        assert_eq!(found, words, "gang {gang}");
    }
}

const INCREMENT: &str =
    "ld.global.u32 %r3, [%own]; add.u32 %r3, %r3, 1; st.global.u32 [%own], %r3;";

#[test]
fn own_elements_are_clean() {
    let words = is_clean(INCREMENT);
    assert_eq!(words[..3], [1, 2, 3]);
    assert_eq!(words[127..129], [128, 128]);
}

#[test]
fn all_may_read_one_element() {
    is_clean("ld.global.u32 %r3, [%p+512]; st.global.u32 [%own], %r3;");
}

#[test]
fn elements_of_two_and_of_one_byte_have_tags_of_their_own() {
    let at = "mul.wide.u32 %d1, %t, 2; add.u64 %d1, %d1, %p;";
    is_clean(&format!("{at} mov.b16 %h1, 7; st.global.b16 [%d1], %h1;"));
    let at = "cvt.u64.u32 %d1, %t; add.u64 %d1, %d1, %p;";
    is_clean(&format!("{at} mov.b16 %h1, 7; st.global.b8 [%d1], %h1;"));
}

#[test]
fn vectors_have_a_tag_for_each_word() {
    let at = "mul.wide.u32 %d1, %t, 8; add.u64 %d1, %d1, %p;";
    is_clean(&format!("{at} st.global.v2.b32 [%d1], {{%t, %l}};"));
    let near = "mul.wide.u32 %d2, %l, 4; add.u64 %d2, %d2, %p; ld.global.u32 %r3, [%d2];";
    finds(
        &format!("{at} st.global.v2.b32 [%d1], {{%t, %l}}; {near}"),
        FindingKind::Race,
    );
}

#[test]
fn barriers_separate_what_is_written_and_read() {
    let exchange = |between: &str| {
        format!(
            "mov.u32 %r3, s; shl.b32 %r4, %l, 2; add.u32 %r5, %r3, %r4; xor.b32 %r6, %r4, 252; add.u32 %r6, %r6, %r3;\n\
             ld.global.u32 %r7, [%own]; st.shared.u32 [%r5], %r7; {between} ld.shared.u32 %r8, [%r6]; st.global.u32 [%own], %r8;"
        )
    };
    let words = is_clean(&exchange("bar.sync 0;"));
    assert_eq!(words[..2], [63, 62]);
    finds(&exchange(""), FindingKind::Race);
}

#[test]
fn loops_with_barriers_are_clean() {
    is_clean(
        "mov.u32 %r3, s; shl.b32 %r4, %l, 2; add.u32 %r5, %r3, %r4; mov.u32 %r6, 32; st.shared.u32 [%r5], %l;\n\
         again: bar.sync 0; setp.ge.u32 %q1, %l, %r6; @%q1 bra skip;\n\
         shl.b32 %r7, %r6, 2; add.u32 %r7, %r7, %r5; ld.shared.u32 %r8, [%r7]; ld.shared.u32 %r1, [%r5];\n\
         add.u32 %r8, %r8, %r1; st.shared.u32 [%r5], %r8;\n\
         skip: shr.u32 %r6, %r6, 1; setp.ne.u32 %q2, %r6, 0; @%q2 bra again;",
    );
}

#[test]
fn variables_of_the_module_are_put_back() {
    finds(
        "ld.global.u32 %r3, [n]; add.u32 %r4, %r3, 1; st.global.u32 [n], %r4; st.global.u32 [%own], %r3;",
        FindingKind::Race,
    );
}

#[test]
fn one_instruction_may_race_with_itself() {
    finds(
        &format!("{INCREMENT} st.global.u32 [%p+1000], %l;"),
        FindingKind::Race,
    );
}

#[test]
fn threads_of_a_gang_of_other_gangs_and_of_other_blocks_race() {
    for distance in [4, 128, 256] {
        let body = format!("{INCREMENT} ld.global.u32 %r4, [%own+{distance}];");
        // The value must not be dead.
        let body = format!("{body} st.global.u32 [%own], %r4;");
        finds(&body, FindingKind::Race);
    }
}

#[test]
fn a_reader_among_many_is_not_forgotten() {
    // All threads read a word that the last one of the first block writes.
    finds(
        "ld.global.u32 %r3, [%p]; setp.eq.u32 %q1, %t, 63; @%q1 st.global.u32 [%p], %l; st.global.u32 [%own+256], %r3;",
        FindingKind::Race,
    );
}

#[test]
fn atomic_operations_race_with_weak_accesses_alone() {
    let count = "atom.global.add.u32 %r3, [%p+1000], 1;";
    let words = is_clean(count);
    assert_eq!(words[250], 250 + 128);
    finds(
        &format!(
            "{count} st.global.u32 [%own], %l; ld.global.u32 %r4, [%p+1000]; st.global.u32 [%own], %r4;"
        ),
        FindingKind::Race,
    );
}

#[test]
fn generic_addresses_reach_both_memories() {
    let to_shared = "mov.u32 %r3, s; shl.b32 %r4, %l, 2; add.u32 %r5, %r3, %r4; cvt.u64.u32 %d1, %r5; cvta.shared.u64 %d1, %d1;";
    let to_global = "cvta.global.u64 %d2, %own;";
    is_clean(&format!(
        "{to_shared} {to_global} ld.u32 %r7, [%d2]; st.u32 [%d1], %r7; ld.u32 %r8, [%d1]; st.u32 [%d2], %r8;"
    ));
    finds(
        &format!(
            "{to_shared} {to_global} st.u32 [%d1], %l; ld.u32 %r8, [%d1+4]; st.u32 [%d2], %r8;"
        ),
        FindingKind::Race,
    );
}

#[test]
fn shared_memory_of_an_earlier_block_is_not_initialized() {
    let body = "mov.u32 %r3, s; shl.b32 %r4, %l, 2; add.u32 %r5, %r3, %r4;\n\
                setp.eq.u32 %q1, %r1, 0; @%q1 st.shared.u32 [%r5], %l; ld.shared.u32 %r7, [%r5]; add.u32 %r7, %r7, 1; st.global.u32 [%own], %r7;";
    finds(body, FindingKind::UninitializedRead);
}

#[test]
fn results_of_a_screened_launch_are_initialized() {
    let device = Device::new().unwrap();
    device.track_contents();
    let output = device.alloc::<u32>(128).unwrap();
    let write = module(&device, "st.global.u32 [%own], %t;")
        .kernel("k")
        .unwrap();
    let read = "ld.global.u32 %r3, [%own]; add.u32 %r3, %r3, 1; st.global.u32 [%own], %r3;";
    let read = module(&device, read).kernel("k").unwrap();
    let run = |kernel: &ptxjit::Kernel, blocks: u32| {
        let launch = kernel
            .launch()
            .grid(blocks)
            .block(64)
            .arg(Arg::from(&output));
        let launch = launch.sanitize(CHECKS);
        let report = launch.report();
        let stats = launch.run().unwrap();
        (stats.is_screened, report.findings())
    };
    assert_eq!(run(&write, 1), (true, vec![]));
    assert_eq!(run(&read, 1), (true, vec![]));
    // The second half was never written.
    let (is_screened, findings) = run(&read, 2);
    assert!(!is_screened);
    assert!(
        findings
            .iter()
            .all(|finding| finding.kind == FindingKind::UninitializedRead)
    );
    assert_eq!(findings.len(), 1);
    assert_eq!(output.read().unwrap()[..3], [2, 3, 4]);
}

#[test]
fn each_check_screens_by_itself() {
    let checks = |race, init, sync| Checks {
        mem: false,
        race,
        init,
        sync,
        leak: false,
        same_value: false,
    };
    let uninitialized = format!(
        "{INCREMENT} mov.u32 %r5, s; ld.shared.u32 %r6, [%r5]; add.u32 %r6, %r6, 1; st.global.u32 [%own], %r6;"
    );
    let racy = format!("{INCREMENT} ld.global.u32 %r4, [%own+4]; st.global.u32 [%own], %r4;");
    for (body, checks, is_clean) in [
        (INCREMENT, checks(true, false, false), true),
        (INCREMENT, checks(false, true, false), true),
        (INCREMENT, checks(false, false, true), true),
        (&uninitialized, checks(false, true, false), false),
        (&uninitialized, checks(true, false, true), true),
        (&racy, checks(true, false, false), false),
        (&racy, checks(false, true, true), true),
    ] {
        for gang in GANGS {
            let (findings, is_screened, words) =
                run(body, |launch| launch.sanitize(checks).gang(gang));
            assert_eq!(is_screened, is_clean, "{checks:?}, gang {gang}: {body}");
            assert_eq!(
                findings.is_empty(),
                is_clean,
                "{checks:?}, gang {gang}: {body}"
            );
            if body == INCREMENT {
                assert_eq!(words[..3], [1, 2, 3]);
            }
        }
    }
}

#[test]
fn what_threads_do_at_divergent_barriers_is_left_to_the_interpreter() {
    let reaches = |threads: u32| format!("setp.lt.u32 %q1, %l, {threads}; @%q1 bar.sync 0;");
    let (findings, is_screened, _) = run(&reaches(32), |launch| launch);
    assert!(!is_screened);
    assert_eq!(findings, []);
    // All threads reach it after all.
    let (findings, is_screened, _) = run(&reaches(64), |launch| launch);
    assert!(is_screened);
    assert_eq!(findings, []);
}

/// A launch that fails has its failure as the only finding.
fn fails(body: &str) -> Vec<Finding> {
    let mut all = Vec::new();
    for gang in GANGS {
        let device = Device::new().unwrap();
        let data = device.alloc::<u32>(128).unwrap();
        let launch = module(&device, body).kernel("k").unwrap().launch();
        let launch = launch.grid(2).block(64).arg(&data).sanitize(CHECKS);
        let launch = launch.gang(gang);
        let report = launch.report();
        launch.run().unwrap_err();
        let findings = report.findings();
        let [finding] = &findings[..] else {
            panic!("gang {gang}: {findings:?}");
        };
        all.push(finding.clone());
    }
    all
}

#[test]
fn threads_that_wait_for_each_other_in_loops_deadlock() {
    // Each block takes its own flag, and the other's then, and gives none back. The launch has no
    // time limit.
    let body = "mov.u32 %r3, %ctaid.x; setp.ne.u32 %q0, %l, 0; @%q0 bra DONE;\n\
        mul.wide.u32 %d1, %r3, 4; add.u64 %d1, %d1, %p; atom.global.exch.b32 %r4, [%d1], 1;\n\
        xor.b32 %r3, %r3, 1; mul.wide.u32 %d1, %r3, 4; add.u64 %d1, %d1, %p; add.u64 %d2, %p, 8;\n\
        atom.global.add.u32 %r4, [%d2], 1;\n\
        BOTH: ld.relaxed.gpu.global.u32 %r4, [%d2]; setp.ne.u32 %q1, %r4, 2; @%q1 bra BOTH;\n\
        AGAIN: atom.global.cas.b32 %r4, [%d1], 0, 1; setp.ne.u32 %q1, %r4, 0; @%q1 bra AGAIN;\n\
        DONE:";
    for finding in fails(body) {
        assert_eq!(finding.kind, FindingKind::Deadlock, "{finding}");
    }
}

#[test]
fn findings_of_bounds_tell_what_the_access_does() {
    let body = |access: &str| format!("add.u64 %own, %own, 4; mov.u32 %r3, 1; {access}");
    for (access, op) in [
        ("ld.global.u32 %r3, [%own];", AccessOp::Load),
        ("st.global.u32 [%own], %r3;", AccessOp::Store),
        ("red.global.add.u32 [%own], %r3;", AccessOp::Atomic),
    ] {
        for finding in fails(&body(access)) {
            assert_eq!(finding.kind, FindingKind::OutOfBounds, "{finding}");
            let ops: Vec<_> = finding.accesses.iter().map(|it| it.op).collect();
            assert_eq!(ops, [op], "{finding}");
        }
    }
}
