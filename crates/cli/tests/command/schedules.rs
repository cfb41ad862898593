//! `--schedule`, `--record`, `--replay`, `--explore`: what was recorded happens again, and files
//! that do not fit are refused.

use super::{Done, ptxjit, temp};

/// Each thread reads a counter, lets others run, and writes it back one greater: the sum depends on
/// who ran when. `out[0]` is the counter.
const COUNTER: &str = "
.version 7.0
.target sm_80
.address_size 64
.entry count(.param .u64 out) {
    .reg .u64 %p;
    .reg .u32 %v;
    ld.param.u64 %p, [out];
    ld.volatile.global.u32 %v, [%p];
    add.u32 %v, %v, 1;
    st.volatile.global.u32 [%p], %v;
    ret;
}
";

/// The same with an atomic operation on floating-point numbers, of which the order decides the
/// rounding.
const SUM: &str = "
.version 7.0
.target sm_80
.address_size 64
.entry sum(.param .u64 out) {
    .reg .u64 %p;
    .reg .u32 %t;
    .reg .f32 %x;
    ld.param.u64 %p, [out];
    mov.u32 %t, %tid.x;
    mad.lo.u32 %t, %t, %t, 1;
    cvt.rn.f32.u32 %x, %t;
    rcp.rn.f32 %x, %x;
    red.global.add.f32 [%p], %x;
    ret;
}
";

/// Lanes that left a loop early are taken to be converged again.
const TRUST: &str = "
.version 7.0
.target sm_80
.address_size 64
.entry trust(.param .u64 out) {
    .reg .u64 %p, %o;
    .reg .u32 %t, %m, %n;
    .reg .pred %q;
    ld.param.u64 %p, [out];
    mov.u32 %t, %tid.x;
    mov.u32 %n, %t;
loop:
    setp.eq.u32 %q, %n, 0;
    @%q bra done;
    sub.u32 %n, %n, 1;
    bra loop;
done:
    activemask.b32 %m;
    mul.wide.u32 %o, %t, 4;
    add.u64 %p, %p, %o;
    st.global.u32 [%p], %m;
    ret;
}
";

fn run(ptx: &str, more: &[&str]) -> Done {
    let mut words = vec![
        "run",
        ptx,
        "--grid",
        "2",
        "--block",
        "64",
        "--arg",
        "u32[128]=zeros",
    ];
    words.extend_from_slice(more);
    ptxjit(&words)
}

/// A file of this test's own that does not exist.
fn absent(name: &str) -> String {
    let path = temp(name, b"");
    std::fs::remove_file(&path).expect("it was just written");
    path
}

const SCHEDULES: [&str; 6] = [
    "deterministic",
    "roundrobin",
    "random:3",
    "adversarial",
    "pct:5:1",
    "pct:5:3",
];

#[test]
fn replayed() {
    for (name, text) in [("count", COUNTER), ("trust", TRUST)] {
        let ptx = temp(&format!("replayed_{name}.ptx"), text.as_bytes());
        for schedule in SCHEDULES {
            let file = absent(&format!("replayed_{name}.schedule"));
            let first = run(
                &ptx,
                &["--schedule", schedule, "--record", &file, "--print", "0"],
            );
            let first = first.expect(0);
            let again = run(&ptx, &["--replay", &file, "--print", "0"]).expect(0);
            assert_eq!(first.stdout, again.stdout, "{schedule}");
            // Checks change nothing of it, nor does the number of workers.
            let more = [
                "--replay",
                &file,
                "--print",
                "0",
                "--sanitize",
                "all",
                "--threads",
                "2",
            ];
            assert_eq!(
                run(&ptx, &more).expect(0).stdout,
                first.stdout,
                "{schedule}"
            );
        }
    }
}

#[test]
fn orders_differ() {
    let ptx = temp("orders_differ.ptx", COUNTER.as_bytes());
    let sum = |schedule| {
        run(
            &ptx,
            &["--interp", "--schedule", schedule, "--print", "0:1"],
        )
        .expect(0)
        .stdout
    };
    // One thread after the other counts all. A group reads before it writes: it counts as one.
    assert_eq!(sum("deterministic"), "0: 128\n");
    assert_eq!(sum("adversarial"), "0: 4\n");
    // All read before any writes.
    assert_eq!(sum("roundrobin"), "0: 1\n");
    assert_eq!(sum("random:1"), sum("seed:1"));
}

#[test]
fn explored() {
    let counter = temp("explored_counter.ptx", COUNTER.as_bytes());
    let words = ["--sanitize", "race", "--explore", "4", "--json"];
    let found = run(&counter, &words).expect(1).json();
    let finding = &found["sanitize"]["findings"][0];
    assert_eq!(finding["kind"], "schedule-dependent");
    assert_eq!(finding["severity"], "error");
    let message = finding["message"].as_str().unwrap();
    let wanted = "element 0 of buffer `argument 0` is 128 under schedule deterministic and 1 under roundrobin";
    assert_eq!(message, wanted);
    assert_eq!(finding["schedule"], "roundrobin");
    assert_eq!(finding["accesses"][0]["ptx"]["line"], 11);

    let sum = temp("explored_sum.ptx", SUM.as_bytes());
    let words = [
        "run",
        &sum,
        "--block",
        "64",
        "--arg",
        "f32[1]=zeros",
        "--json",
    ];
    let words = [&words[..], &["--sanitize", "race", "--explore", "8"]].concat();
    let found = ptxjit(&words).expect(0).json();
    let findings = found["sanitize"]["findings"].as_array().unwrap();
    assert!(
        findings.iter().all(|it| it["severity"] == "warning"),
        "{findings:?}"
    );

    let trust = temp("explored_trust.ptx", TRUST.as_bytes());
    let words = ["--sanitize", "race", "--explore", "4"];
    let done = run(&trust, &words).expect(1);
    assert!(
        done.stderr.contains("schedule-dependent"),
        "{}",
        done.stderr
    );
    assert!(
        done.stderr.contains("under schedule roundrobin"),
        "{}",
        done.stderr
    );
}

#[test]
fn refused() {
    let ptx = temp("refused.ptx", COUNTER.as_bytes());
    let file = absent("refused.schedule");
    run(&ptx, &["--schedule", "random:1", "--record", &file]).expect(0);
    let other = temp("refused_other.ptx", COUNTER.replace("1;", "2;").as_bytes());
    let done = run(&other, &["--replay", &file]).expect(2);
    assert!(
        done.stderr.contains("its module has another text"),
        "{}",
        done.stderr
    );
    let words = [
        "run",
        &ptx,
        "--grid",
        "3",
        "--block",
        "64",
        "--arg",
        "u32[1]=zeros",
    ];
    let done = ptxjit(&[&words[..], &["--replay", &file]].concat()).expect(2);
    let wanted = "its grid is (2, 1, 1), here it is (3, 1, 1)";
    assert!(done.stderr.contains(wanted), "{}", done.stderr);
    let done = run(&ptx, &["--replay", &file, "--repeat", "2"]).expect(2);
    assert!(done.stderr.contains("is of 1 launches"), "{}", done.stderr);

    let text = std::fs::read_to_string(&file).unwrap();
    for (broken, wanted) in [
        ("", "the first line is not"),
        (&text[..text.len() / 2], "cut short"),
        (&text.replace("kernel=", "colonel="), "`kernel=` is missing"),
        (
            &text.replace("random:1", "often"),
            "`schedule=often` makes no sense",
        ),
        (
            &format!("{} x\n", text.trim_end()),
            "line 3: `x` is no choice",
        ),
    ] {
        let file = temp("refused_broken.schedule", broken.as_bytes());
        let done = run(&ptx, &["--replay", &file]).expect(2);
        assert!(
            done.stderr.contains("is no recorded schedule"),
            "{}",
            done.stderr
        );
        assert!(done.stderr.contains(wanted), "{}", done.stderr);
    }
    // Choices of what is not there.
    let lines: Vec<&str> = text.lines().take(2).collect();
    let file = temp(
        "refused_departed.schedule",
        format!("{}\n9.9\n", lines.join("\n")).as_bytes(),
    );
    let done = run(&ptx, &["--replay", &file]).expect(2);
    assert!(
        done.stderr.contains("departs from the recorded schedule"),
        "{}",
        done.stderr
    );
    let done = run(&ptx, &["--replay", &absent("refused_absent.schedule")]).expect(2);
    assert!(done.stderr.contains("cannot read"), "{}", done.stderr);
}

#[test]
fn names_and_conflicts() {
    let ptx = temp("names_and_conflicts.ptx", COUNTER.as_bytes());
    let done = run(&ptx, &["--schedule", "sometimes"]).expect(2);
    assert!(
        done.stderr.contains("none of deterministic, roundrobin"),
        "{}",
        done.stderr
    );
    run(&ptx, &["--record", "a", "--replay", "b"]).expect(2);
    run(&ptx, &["--schedule", "adversarial", "--replay", "b"]).expect(2);
    let done = run(&ptx, &["--record", "/dev/full"]).expect(2);
    assert!(
        done.stderr.contains("cannot write /dev/full"),
        "{}",
        done.stderr
    );
}
