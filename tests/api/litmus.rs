//! Litmus tests: which accesses the memory consistency model orders, and which race.
//!
//! Each has some threads, of which the deterministic order runs the first to its end, then the
//! second and so on, so that each sees what those before it have written. The verdicts follow from
//! the PTX ISA, "Memory Consistency Model". Each test is done with the threads as lanes of a warp
//! and as warps of a CTA, with variables in global and in shared memory, and in CTAs of their own.
//! For the latter the verdict may be another one, as scopes may be too narrow.

use std::collections::BTreeSet;

use ptxjit::sanitize::{Checks, Finding, FindingKind, Severity};
use ptxjit::{Device, Engine, Module};

/// Names of the variables that race; none if the test is race-free.
type Verdict = &'static [&'static str];

const CLEAN: Verdict = &[];

/// Where the threads are.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Place {
    Lanes,
    Warps,
    Ctas,
}

/// What the threads do, each line an instruction. `V` stands for the state space of the variables
/// `d`, `e`, `f`, `g` and `h` of 32 bits, `%r` and `%s` are for values; `see VALUE` ends a thread
/// that has read something else into `%r`, and `await NAME VALUE` waits for a variable without
/// order.
fn text(threads: &[&str], place: Place, space: &str) -> String {
    let (mut bodies, mut n_loops) = (String::new(), 0);
    for (idx, body) in threads.iter().enumerate() {
        bodies += &format!("setp.ne.u32 %q, %id, {idx};\n@%q bra NOT{idx};\n");
        for line in body.split(';').map(str::trim).filter(|it| !it.is_empty()) {
            let line = match line.split(' ').collect::<Vec<_>>().as_slice() {
                ["see", value] => format!("setp.ne.u32 %q, %r, {value};\n@%q bra NOT{idx}"),
                ["await", name, value] => {
                    n_loops += 1;
                    format!(
                        "LOOP{n_loops}:\nld.relaxed.gpu.V.u32 %r, [{name}];\n\
                         setp.ne.u32 %q, %r, {value};\n@%q bra LOOP{n_loops}"
                    )
                }
                _ => line.to_owned(),
            };
            bodies += &format!("{line};\n").replace(".V", &format!(".{space}"));
        }
        bodies += &format!("st.global.u32 [%o+{}], 1;\nNOT{idx}:\n", 4 * idx);
    }
    let (of_module, of_kernel) = match space {
        "global" => (".global .u32 d, e, f, g, h;", String::new()),
        _ => ("", format!(".{space} .align 4 .u32 d, e, f, g, h;")),
    };
    // Nothing orders what is set up before the barrier with another CTA: global variables are zero.
    let zero = |name: &str| format!("st.V.u32 [{name}], 0;\n");
    let zeros = match space {
        "global" => String::new(),
        _ => ["d", "e", "f", "g", "h"].map(zero).concat(),
    };
    let id = match place {
        Place::Lanes => "mov.u32 %id, %tid.x;",
        Place::Warps => {
            "mov.u32 %id, %tid.x;\nand.b32 %r, %id, 31;\nsetp.ne.u32 %q, %r, 0;\n\
             shr.u32 %id, %id, 5;\n@%q mov.u32 %id, 99;"
        }
        Place::Ctas => {
            "mov.u32 %id, %ctaid.x;\nmov.u32 %r, %tid.x;\nsetp.ne.u32 %q, %r, 0;\n@%q mov.u32 %id, 99;"
        }
    };
    let zeros = zeros.replace(".V", &format!(".{space}"));
    format!(
        ".version 8.6\n.target sm_90\n.address_size 64\n{of_module}\n\
         .visible .entry k(.param .u64 out) {{\n{of_kernel}\n.shared .align 8 .b64 m;\n\
         .reg .pred %q, %w;\n.reg .b32 %r, %s, %id;\n.reg .b64 %o, %x, %y;\nld.param.u64 %o, [out];\n\
         mov.u32 %r, %tid.x;\nsetp.ne.u32 %q, %r, 0;\n@%q bra SET;\n{zeros}\
         mbarrier.init.shared.b64 [m], 1;\nSET:\nbar.sync 0;\n{id}\n{bodies}\
         ret;\n}}\n"
    )
}

/// Names of what races, as errors.
fn racing(findings: &[Finding]) -> BTreeSet<String> {
    let errors = findings
        .iter()
        .filter(|it| it.severity == Severity::Error && it.kind == FindingKind::Race);
    let object = |it: &Finding| it.object.as_ref().map_or("?", |it| &it.name).to_owned();
    errors.map(object).collect()
}

/// Runs a test: what is found, and which threads have come to their end.
fn run(
    text: &str,
    n_threads: u32,
    (grid, block): (u32, u32),
    engine: Engine,
) -> (Vec<Finding>, Vec<u32>) {
    let checks = Checks {
        mem: true,
        race: true,
        init: true,
        sync: true,
        ..Checks::default()
    };
    let device = Device::new().unwrap();
    let module = Module::from_source(&device, "litmus.ptx", text);
    let module = module.unwrap_or_else(|err| panic!("{err}"));
    let out = device.alloc_from(&vec![0u32; n_threads as usize]).unwrap();
    let launch = module.only_kernel().unwrap().launch();
    let launch = launch.grid(grid).block(block).arg(&out);
    let launch = launch.sanitize(checks).engine(engine);
    let report = launch.report();
    launch.run().unwrap_or_else(|err| panic!("{err}\n{text}"));
    (report.findings(), out.read().unwrap())
}

fn judge(threads: &[&str], place: Place, space: &str, wanted: Verdict) {
    let n = threads.len() as u32;
    let shape = match place {
        Place::Lanes => (1, 32),
        Place::Warps => (1, 32 * n),
        Place::Ctas => (n, 32),
    };
    let text = text(threads, place, space);
    let mut found = Vec::new();
    for engine in [Engine::Interp, Engine::Jit] {
        let (findings, reached) = run(&text, n, shape, engine);
        assert!(
            reached.iter().all(|&it| it == 1),
            "{reached:?} {place:?}:\n{text}"
        );
        found.push(findings);
    }
    let rendered: String = found[0].iter().map(Finding::render).collect();
    let wanted: BTreeSet<String> = wanted.iter().map(|&it| it.to_owned()).collect();
    let case = format!("{place:?}, {space}:\n{text}\n{rendered}");
    assert_eq!(racing(&found[0]), wanted, "{case}");
    if wanted.is_empty() {
        assert_eq!(found[0], [], "{case}");
    }
    let keys = |findings: &[Finding]| findings.iter().map(Finding::key).collect::<Vec<_>>();
    assert_eq!(keys(&found[0]), keys(&found[1]), "{case}");
}

/// A test with its verdicts for threads of one CTA and of several.
fn litmus(threads: &[&str], near: Verdict, far: Verdict) {
    for place in [Place::Lanes, Place::Warps] {
        for space in ["global", "shared"] {
            judge(threads, place, space, near);
        }
    }
    judge(threads, Place::Ctas, "global", far);
}

/// Message passing: the data are weak, and so is nothing else.
fn message(release: &str, acquire: &str, near: Verdict, far: Verdict) {
    let writer = format!("st.V.u32 [d], 7; {release}");
    let reader = format!("{acquire}; see 1; ld.V.u32 %s, [d]");
    litmus(&[&writer, &reader], near, far);
}

/// All of the CTA's scope at least reach threads of it; others need that of the device.
#[test]
fn message_passing_by_operations() {
    for scope in ["cta", "cluster", "gpu", "sys"] {
        let far: Verdict = match scope {
            "gpu" | "sys" => CLEAN,
            _ => &["d", "f"],
        };
        let releases = [
            "st.release.S.V.u32 [f], 1",
            "atom.release.S.V.exch.b32 %s, [f], 1",
            "red.release.S.V.add.u32 [f], 1",
            "atom.acq_rel.S.V.or.b32 %s, [f], 1",
        ];
        let acquires = [
            "ld.acquire.S.V.u32 %r, [f]",
            "atom.acquire.S.V.add.u32 %r, [f], 0",
            "atom.acq_rel.S.V.max.u32 %r, [f], 0",
        ];
        let with = |text: &str| text.replace(".S", &format!(".{scope}"));
        for release in releases {
            message(&with(release), &with(acquires[0]), CLEAN, far);
        }
        for acquire in acquires {
            message(&with(releases[0]), &with(acquire), CLEAN, far);
        }
    }
}

#[test]
fn message_passing_by_fences() {
    for scope in ["cta", "gpu", "sys"] {
        // The flag's scope is wide enough here: it is the fence that is not.
        let far: Verdict = if scope == "cta" { &["d"] } else { CLEAN };
        for sem in ["acq_rel", "sc"] {
            let fence = format!("fence.{sem}.{scope}");
            let release = format!("{fence}; st.relaxed.gpu.V.u32 [f], 1");
            let acquire = format!("ld.relaxed.gpu.V.u32 %r, [f]; {fence}");
            message(&release, &acquire, CLEAN, far);
            message(&release, "ld.acquire.gpu.V.u32 %r, [f]", CLEAN, far);
            message("st.release.gpu.V.u32 [f], 1", &acquire, CLEAN, far);
        }
    }
    message(
        "membar.gl; st.volatile.V.u32 [f], 1",
        "ld.volatile.V.u32 %r, [f]; membar.gl",
        CLEAN,
        CLEAN,
    );
    message(
        "membar.cta; st.volatile.V.u32 [f], 1",
        "ld.volatile.V.u32 %r, [f]; membar.sys",
        CLEAN,
        &["d"],
    );
}

#[test]
fn message_passing_with_one_half() {
    let (release, acquire) = (
        "st.release.gpu.V.u32 [f], 1",
        "ld.acquire.gpu.V.u32 %r, [f]",
    );
    let d: Verdict = &["d"];
    message("st.relaxed.gpu.V.u32 [f], 1", acquire, d, d);
    message(release, "ld.relaxed.gpu.V.u32 %r, [f]", d, d);
    message(
        "st.volatile.V.u32 [f], 1",
        "ld.volatile.V.u32 %r, [f]",
        d,
        d,
    );
    // A fence on the wrong side of the flag.
    message(
        "st.relaxed.gpu.V.u32 [f], 1; fence.acq_rel.gpu",
        acquire,
        d,
        d,
    );
    message(
        release,
        "fence.acq_rel.gpu; ld.relaxed.gpu.V.u32 %r, [f]",
        d,
        d,
    );
    // A flag that is weak on one side races itself.
    message(
        "fence.acq_rel.gpu; st.V.u32 [f], 1",
        acquire,
        &["d", "f"],
        &["d", "f"],
    );
    message(
        release,
        "ld.V.u32 %r, [f]; fence.acq_rel.gpu",
        &["d", "f"],
        &["d", "f"],
    );
    // One scope of two is too narrow.
    message("st.release.cta.V.u32 [f], 1", acquire, CLEAN, &["d", "f"]);
    message(release, "ld.acquire.cta.V.u32 %r, [f]", CLEAN, &["d", "f"]);
}

/// "Message Passing with a Red Instruction": a reduction acquires nothing, with or without a fence.
#[test]
fn reductions_acquire_nothing() {
    let writer = "st.V.u32 [d], 7; st.release.gpu.V.u32 [f], 1";
    let d: Verdict = &["d"];
    let reader = "red.relaxed.sys.V.add.u32 [f], 1; fence.acq_rel.gpu; ld.V.u32 %s, [d]";
    litmus(&[writer, reader], d, d);
    let reader = "atom.relaxed.sys.V.add.u32 %r, [f], 1; fence.acq_rel.gpu; ld.V.u32 %s, [d]";
    litmus(&[writer, reader], CLEAN, CLEAN);
}

/// A release is carried on by read-modify-writes of any thread, and ends with a write of another.
#[test]
fn observation_through_updates() {
    let writer = "st.V.u32 [d], 7; st.release.gpu.V.u32 [f], 1";
    let reader = "ld.acquire.gpu.V.u32 %r, [f]; see 2; ld.V.u32 %s, [d]";
    let by = |between: &str, verdict: Verdict| litmus(&[writer, between, reader], verdict, verdict);
    by("atom.relaxed.gpu.V.add.u32 %r, [f], 1", CLEAN);
    by("red.relaxed.gpu.V.add.u32 [f], 1", CLEAN);
    by("atom.relaxed.gpu.V.cas.b32 %r, [f], 1, 2", CLEAN);
    by("atom.relaxed.gpu.V.exch.b32 %r, [f], 2", CLEAN);
    by("st.relaxed.gpu.V.u32 [f], 2", &["d"]);
    by("st.volatile.V.u32 [f], 2", &["d"]);
    // An update that is not morally strong with the release breaks the chain, and races itself.
    litmus(
        &[writer, "atom.relaxed.cta.V.add.u32 %r, [f], 1", reader],
        CLEAN,
        &["d", "f"],
    );
}

/// Release and acquire patterns of two operations on one location.
#[test]
fn patterns_of_two_operations() {
    let d: Verdict = &["d"];
    // The write that is observed follows the release by the same thread.
    message(
        "st.release.gpu.V.u32 [f], 3; st.relaxed.gpu.V.u32 [f], 1",
        "ld.acquire.gpu.V.u32 %r, [f]",
        CLEAN,
        CLEAN,
    );
    // What is written between the two is not released.
    let writer = "st.release.gpu.V.u32 [f], 3; st.V.u32 [d], 7; st.relaxed.gpu.V.u32 [f], 1";
    let reader = "ld.acquire.gpu.V.u32 %r, [f]; see 1; ld.V.u32 %s, [d]";
    litmus(&[writer, reader], d, d);
    // The flag is observed first, and acquired then.
    message(
        "st.release.gpu.V.u32 [f], 1",
        "ld.relaxed.gpu.V.u32 %r, [f]; ld.acquire.gpu.V.u32 %s, [f]",
        CLEAN,
        CLEAN,
    );
    // Another location acquires nothing of it.
    message(
        "st.release.gpu.V.u32 [f], 1",
        "ld.relaxed.gpu.V.u32 %r, [f]; ld.acquire.gpu.V.u32 %s, [g]",
        d,
        d,
    );
}

/// A pattern of two operations on one location holds even if another thread writes it in between.
#[test]
fn patterns_around_writes_of_others() {
    let reader = "await h 1; ld.acquire.gpu.V.u32 %r, [f]; see 3; ld.V.u32 %s, [d]";
    let other = "await g 1; st.relaxed.gpu.V.u32 [f], 2; st.relaxed.gpu.V.u32 [g], 2";
    let by = |first: &str, second: &str, verdict: Verdict| {
        let writer = format!(
            "st.V.u32 [d], 7; {first}; st.relaxed.gpu.V.u32 [g], 1; await g 2; {second}; \
             st.relaxed.gpu.V.u32 [h], 1"
        );
        litmus(&[&writer, other, reader], verdict, verdict);
    };
    let again = "st.relaxed.gpu.V.u32 [f], 3";
    by("st.release.gpu.V.u32 [f], 1", again, CLEAN);
    by("atom.release.gpu.V.exch.b32 %s, [f], 1", again, CLEAN);
    by("st.relaxed.gpu.V.u32 [f], 1", again, &["d"]);
    // A release of another location is none here.
    by("st.release.gpu.V.u32 [e], 1", again, &["d"]);
    // What is observed is a write of another thread, which has released nothing.
    let writer = "st.V.u32 [d], 7; st.release.gpu.V.u32 [f], 1; st.relaxed.gpu.V.u32 [g], 1";
    let other = "await g 1; st.relaxed.gpu.V.u32 [f], 3; st.relaxed.gpu.V.u32 [h], 1";
    litmus(&[writer, other, reader], &["d"], &["d"]);
    // The reader has seen the release, and acquires when something else is there.
    let other = "await g 1; st.relaxed.gpu.V.u32 [f], 2; st.relaxed.gpu.V.u32 [h], 1";
    let by = |first: &str, second: &str, verdict: Verdict| {
        let reader = format!(
            "{first}; see 1; st.relaxed.gpu.V.u32 [g], 1; await h 1; {second}; see 2; ld.V.u32 %s, [d]"
        );
        let writer = "st.V.u32 [d], 7; st.release.gpu.V.u32 [f], 1";
        litmus(&[writer, &reader, other], verdict, verdict);
    };
    let (see, acquire) = (
        "ld.relaxed.gpu.V.u32 %r, [f]",
        "ld.acquire.gpu.V.u32 %r, [f]",
    );
    by(see, acquire, CLEAN);
    by(
        "ld.relaxed.gpu.V.u32 %r, [f]",
        "ld.relaxed.gpu.V.u32 %r, [f]",
        &["d"],
    );
    by(
        "ld.volatile.V.u32 %r, [f]",
        "atom.acquire.gpu.V.or.b32 %r, [f], 0",
        CLEAN,
    );
}

/// Order is transitive: what a thread has acquired it releases, too.
#[test]
fn chains_of_threads() {
    let first = "st.V.u32 [d], 7; st.release.gpu.V.u32 [f], 1";
    let last = "ld.acquire.gpu.V.u32 %r, [g]; see 1; ld.V.u32 %s, [d]";
    let by = |between: &str, near: Verdict, far: Verdict| {
        litmus(&[first, between, last], near, far);
    };
    let d: Verdict = &["d"];
    by(
        "ld.acquire.gpu.V.u32 %r, [f]; see 1; st.release.gpu.V.u32 [g], 1",
        CLEAN,
        CLEAN,
    );
    by(
        "ld.relaxed.gpu.V.u32 %r, [f]; see 1; fence.acq_rel.gpu; st.relaxed.gpu.V.u32 [g], 1",
        CLEAN,
        CLEAN,
    );
    by(
        "ld.acquire.gpu.V.u32 %r, [f]; see 1; st.relaxed.gpu.V.u32 [g], 1",
        d,
        d,
    );
    by(
        "ld.relaxed.gpu.V.u32 %r, [f]; see 1; st.release.gpu.V.u32 [g], 1",
        d,
        d,
    );
    by(
        "ld.acquire.gpu.V.u32 %r, [f]; see 1; st.release.cta.V.u32 [g], 1",
        CLEAN,
        &["d", "g"],
    );
}

/// "Store Buffering": both threads write one variable and read the other's.
#[test]
fn store_buffering() {
    let both = |write: &str, fence: &str, read: &str| {
        let thread = |own: &str, other: &str| {
            let write = write.replace('X', own);
            format!("{write}; {fence}; {}", read.replace('X', other))
        };
        [thread("e", "f"), thread("f", "e")]
    };
    let run = |[first, second]: [String; 2], verdict: Verdict| {
        litmus(&[&first, &second], verdict, verdict);
    };
    let relaxed = (
        "st.relaxed.gpu.V.u32 [X], 1",
        "ld.relaxed.gpu.V.u32 %r, [X]",
    );
    run(both(relaxed.0, "fence.sc.gpu", relaxed.1), CLEAN);
    run(both(relaxed.0, "", relaxed.1), CLEAN);
    // Of weak accesses at least one pair races, whichever fence precedes the other: the second
    // thread's write of `f` and the first one's read.
    run(
        both("st.V.u32 [X], 1", "fence.acq_rel.gpu", "ld.V.u32 %r, [X]"),
        &["e", "f"],
    );
}

/// "Load Buffering", with strong and with weak accesses.
#[test]
fn load_buffering() {
    let thread = |from: &str, to: &str, how: &str| {
        format!("ld{how}.V.u32 %r, [{from}]; st{how}.V.u32 [{to}], %r")
    };
    let pair = |how: &str| [thread("e", "f", how), thread("f", "e", how)];
    for how in [".relaxed.gpu", ".volatile"] {
        let [first, second] = pair(how);
        litmus(&[&first, &second], CLEAN, CLEAN);
    }
    // Zeros that are written over zeros are races, but no errors: others are.
    let thread = |from: &str, to: &str, how: &str| {
        format!("ld{how}.V.u32 %r, [{from}]; add.u32 %r, %r, 1; st{how}.V.u32 [{to}], %r")
    };
    let (both, narrow): (Verdict, _) = (&["e", "f"], ".relaxed.cta");
    litmus(&[&thread("e", "f", ""), &thread("f", "e", "")], both, both);
    litmus(
        &[&thread("e", "f", narrow), &thread("f", "e", narrow)],
        CLEAN,
        both,
    );
}

/// Two threads write a variable each, and two others read both in different orders.
#[test]
fn independent_reads_of_independent_writes() {
    let run = |write: &str, read: &str, verdict: Verdict| {
        let write = |to: &str| write.replace('X', to);
        let read = |a: &str, b: &str| {
            format!(
                "{}; fence.sc.gpu; {}",
                read.replace('X', a),
                read.replace('X', b)
            )
        };
        let threads = [write("e"), write("f"), read("e", "f"), read("f", "e")];
        let threads = threads.each_ref().map(String::as_str);
        litmus(&threads, verdict, verdict);
    };
    run(
        "st.relaxed.gpu.V.u32 [X], 1",
        "ld.relaxed.gpu.V.u32 %r, [X]",
        CLEAN,
    );
    run(
        "st.V.u32 [X], 1",
        "ld.relaxed.gpu.V.u32 %r, [X]",
        &["e", "f"],
    );
    run(
        "st.relaxed.gpu.V.u32 [X], 1",
        "ld.V.u32 %r, [X]",
        &["e", "f"],
    );
}

/// "CoRR" and its kin: one location, of which all accesses are strong, or some are not.
#[test]
fn coherence() {
    let write = "st.relaxed.sys.V.u32 [f], 1";
    let read = "ld.relaxed.sys.V.u32 %r, [f]; ld.relaxed.sys.V.u32 %s, [f]";
    litmus(&[write, read], CLEAN, CLEAN);
    litmus(
        &[write, "ld.V.u32 %r, [f]; ld.relaxed.sys.V.u32 %s, [f]"],
        &["f"],
        &["f"],
    );
    // Two writers, with and without a reader.
    litmus(&[write, "st.relaxed.gpu.V.u32 [f], 2"], CLEAN, CLEAN);
    litmus(&[write, "st.relaxed.cta.V.u32 [f], 2"], CLEAN, &["f"]);
    litmus(&["st.V.u32 [f], 1", "st.V.u32 [f], 2"], &["f"], &["f"]);
    // Overlapping in part is a race of its own kind.
    litmus(&[write, "st.relaxed.gpu.V.u16 [f], 2"], &["f"], &["f"]);
    litmus(
        &[
            "atom.relaxed.gpu.V.add.u32 %r, [f], 1",
            "ld.relaxed.gpu.V.u32 %r, [f]",
        ],
        CLEAN,
        CLEAN,
    );
    litmus(
        &["atom.relaxed.gpu.V.add.u32 %r, [f], 1", "ld.V.u32 %r, [f]"],
        &["f"],
        &["f"],
    );
    // "Atomicity": two updates that do not reach each other.
    let update = "atom.relaxed.S.V.inc.u32 %r, [f], 9";
    let of = |scope: &str| update.replace(".S", &format!(".{scope}"));
    litmus(&[&of("sys"), &of("sys")], CLEAN, CLEAN);
    litmus(&[&of("cta"), &of("gpu")], CLEAN, &["f"]);
}

/// What is written is ordered like what is read: a write after a write, and after a read.
#[test]
fn writes_behind_flags() {
    for (first, second) in [
        ("st.V.u32 [d], 1", "st.V.u32 [d], 2"),
        ("ld.V.u32 %s, [d]", "st.V.u32 [d], 2"),
    ] {
        let run = |release: &str, acquire: &str, verdict: Verdict| {
            let writer = format!("{first}; {release}");
            let reader = format!("{acquire}; see 1; {second}");
            litmus(&[&writer, &reader], verdict, verdict);
        };
        let (release, acquire) = (
            "st.release.gpu.V.u32 [f], 1",
            "ld.acquire.gpu.V.u32 %r, [f]",
        );
        run(release, acquire, CLEAN);
        run("st.relaxed.gpu.V.u32 [f], 1", acquire, &["d"]);
        run(release, "ld.relaxed.gpu.V.u32 %r, [f]", &["d"]);
    }
}

/// Threads of one CTA only.
fn near(threads: &[&str], verdict: Verdict) {
    for place in [Place::Lanes, Place::Warps] {
        for space in ["global", "shared"] {
            judge(threads, place, space, verdict);
        }
    }
}

const ARRIVE: &str = "mbarrier.arrive.shared.b64 %x, [m]";
const TEST: &str = "mbarrier.test_wait.parity.shared.b64 %w, [m], P; selp.u32 %r, 1, 0, %w; see 1";

fn test(parity: u32) -> String {
    TEST.replace('P', &parity.to_string())
}

/// An arrival releases, and a wait that sees the phase complete acquires, unless they are relaxed.
#[test]
fn mbarriers() {
    let write = "st.V.u32 [d], 7";
    let read = "ld.V.u32 %s, [d]";
    let run = |arrive: &str, wait: &str, verdict: Verdict| {
        near(
            &[&format!("{write}; {arrive}"), &format!("{wait}; {read}")],
            verdict,
        );
    };
    run(ARRIVE, &test(0), CLEAN);
    run(ARRIVE, &test(0).replace("test_wait", "try_wait"), CLEAN);
    run(
        &ARRIVE.replace("arrive", "arrive.release.cta"),
        &test(0),
        CLEAN,
    );
    run(
        &ARRIVE.replace("arrive", "arrive.relaxed.cta"),
        &test(0),
        &["d"],
    );
    run(
        ARRIVE,
        &test(0).replace(".parity", ".parity.relaxed.cta"),
        &["d"],
    );
    // A relaxed arrival behind a fence, and a relaxed wait before one, are patterns.
    run(
        &format!(
            "fence.acq_rel.cta; {}",
            ARRIVE.replace("arrive", "arrive.relaxed.cta")
        ),
        &test(0),
        CLEAN,
    );
    run(
        ARRIVE,
        &format!(
            "{}; fence.acq_rel.cta",
            test(0).replace(".parity", ".parity.relaxed.cta")
        ),
        CLEAN,
    );
    // What comes behind the arrival is not released.
    near(
        &[
            &format!("{ARRIVE}; {write}"),
            &format!("{}; {read}", test(0)),
        ],
        &["d"],
    );
}

/// A wait knows the phase that it finds complete, and those before; not what comes later.
#[test]
fn phases_of_mbarriers() {
    let writer = format!("st.V.u32 [d], 1; {ARRIVE}; st.V.u32 [e], 1; {ARRIVE}; st.V.u32 [f], 1");
    // The phase that is over is the second: it orders the first one's writes, too.
    let reads = |names: &[&str]| -> String {
        names
            .iter()
            .map(|name| format!("; ld.V.u32 %s, [{name}]"))
            .collect()
    };
    near(
        &[&writer, &format!("{}{}", test(1), reads(&["d", "e"]))],
        CLEAN,
    );
    near(
        &[&writer, &format!("{}{}", test(1), reads(&["d", "e", "f"]))],
        &["f"],
    );
    // Parity 0 names the phase that is not complete, or one that is two phases back. Its test
    // fails, and orders nothing.
    let stale = "mbarrier.test_wait.parity.shared.b64 %w, [m], 0; selp.u32 %r, 1, 0, %w; see 0";
    near(
        &[&writer, &format!("{stale}{}", reads(&["d", "e"]))],
        &["d", "e"],
    );
}

/// A state tells the parity of its phase and no more. Asked for too late it may seem complete,
/// which orders nothing and is found as misuse.
#[test]
fn states_of_phases_two_back() {
    let arrive = |n: usize| vec![ARRIVE; n].join("; st.V.u32 [d], 1; ");
    let asks = |n: usize| {
        let wait = "mbarrier.test_wait.shared.b64 %w, [m], %x; selp.u32 %r, 1, 0, %w; see 1";
        // The first thread has its state, the second completes so many phases more.
        let first =
            format!("{ARRIVE}; st.relaxed.gpu.V.u32 [g], 1; await h 1; {wait}; ld.V.u32 %s, [d]");
        let second = format!(
            "await g 1; st.V.u32 [d], 7; {}; st.relaxed.gpu.V.u32 [h], 1",
            arrive(n)
        );
        [first, second]
    };
    for place in [Place::Lanes, Place::Warps] {
        let [first, second] = asks(2);
        let text = text(&[&first, &second], place, "shared");
        let findings = run(&text, 2, (1, 64), Engine::Interp).0;
        let has = |kind| findings.iter().any(|it| it.kind == kind);
        assert!(has(FindingKind::MbarrierMisuse), "{findings:?}");
        assert_eq!(racing(&findings), BTreeSet::from(["d".to_owned()]));
    }
}

/// A warpgroup multiplies what the four warps have set to zero, and a fifth warp overwrites it.
fn product(before: &str, behind: &str, wait: &str) -> BTreeSet<String> {
    let text = format!(
        ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 out) {{\n\
         .shared .align 128 .b8 s[8192];\n.shared .align 8 .b64 m;\n.reg .pred %q, %w;\n\
         .reg .b32 %t, %a;\n.reg .b64 %x, %da, %db;\n.reg .f32 %f<4>;\n.reg .b64 %o;\n\
         ld.param.u64 %o, [out];\nmov.u32 %t, %tid.x;\nmov.u32 %a, s;\n\
         setp.eq.u32 %q, %t, 0;\n@%q mbarrier.init.shared.b64 [m], 1;\nbar.sync 0;\n\
         setp.ge.u32 %q, %t, 128;\n@%q bra LAST;\n\
         mad.lo.u32 %t, %t, 64, %a;\n\
         st.shared.v4.b32 [%t], {{0, 0, 0, 0}};\nst.shared.v4.b32 [%t+16], {{0, 0, 0, 0}};\n\
         st.shared.v4.b32 [%t+32], {{0, 0, 0, 0}};\nst.shared.v4.b32 [%t+48], {{0, 0, 0, 0}};\n\
         mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;\n\
         {before}\nshr.u32 %a, %a, 4;\ncvt.u64.u32 %da, %a;\nor.b64 %da, %da, 0x1000080000;\n\
         add.u64 %db, %da, 256;\nwgmma.fence.sync.aligned;\nsetp.ne.u32 %w, %a, -1;\n\
         wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%f0, %f1, %f2, %f3}}, %da, %db, %w, 1, 1, 0, 0;\n\
         wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n\
         mov.u32 %t, %tid.x;\nsetp.ne.u32 %q, %t, 64;\n@%q bra END;\n{behind}\nbra END;\n\
         LAST:\n{wait}\nst.shared.u32 [%a+8], %t;\nEND:\nret;\n}}\n"
    );
    let (findings, _) = run(&text, 1, (1, 160), Engine::Interp);
    racing(&findings)
}

/// What a product reads must be ordered before it. That it is read is known to all threads of the
/// warpgroup, so that one may arrive for all.
#[test]
fn products_of_warpgroups() {
    let wait = "WAIT:\nmbarrier.test_wait.parity.shared.b64 %w, [m], 0;\n@!%w bra WAIT;";
    let arrive = "mbarrier.arrive.shared.b64 %x, [m];";
    let sync = "fence.proxy.async;\nbar.sync 1, 128;";
    // The last warp's own threads write one word: that is a race of theirs.
    let one = format!("{wait}\nsetp.ne.u32 %q, %t, 128;\n@%q bra END;");
    assert_eq!(product(sync, arrive, &one), BTreeSet::new());
    let found = product("", arrive, &one);
    assert_eq!(found, BTreeSet::from(["s".to_owned()]));
}
