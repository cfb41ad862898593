//! What sanitizers tell, and wrong input to them.

use super::{Done, ptxjit, temp};

/// Threads write their own word of shared memory and read the next one, twice by the same lines of
/// the source.
const RACE: &str = "
.version 7.0
.target sm_80
.address_size 64
.file 1 \"sum.cu\"
.entry race(.param .u64 out) {
    .reg .u64 %p;
    .reg .u32 %t, %a, %v, %w;
    .shared .align 4 .b8 s[1300];
    ld.param.u64 %p, [out];
    mov.u32 %t, %tid.x;
    mov.u32 %a, s;
    mad.lo.u32 %a, %t, 4, %a;
    .loc 1 5 3
    st.shared.u32 [%a], %t;
    .loc 1 6 3
    ld.shared.u32 %v, [%a+4];
    .loc 1 5 3
    st.shared.u32 [%a+1024], %t;
    .loc 1 6 3
    ld.shared.u32 %w, [%a+1028];
    ret;
}
";

fn run(name: &str, more: &[&str]) -> Done {
    run_checked(name, "race", more)
}

fn run_checked(name: &str, checks: &str, more: &[&str]) -> Done {
    let ptx = temp(&format!("findings_{name}.ptx"), RACE.as_bytes());
    let words = [
        "run",
        &ptx,
        "--block",
        "64",
        "--arg",
        "u32[1]=zeros",
        "--sanitize",
        checks,
    ];
    ptxjit(&[&words[..], more].concat())
}

#[test]
fn one_text_for_instructions_of_the_same_lines() {
    let done = run("lines", &[]).expect(1);
    let text = done.stderr;
    assert_eq!(text.matches("race: kernel `race`").count(), 1, "{text}");
    assert!(text.contains("at sum.cu:6:3"), "{text}");
    assert!(
        text.contains("the same of 1 more pair of instructions"),
        "{text}"
    );
    // Nothing is left out where programs read it.
    let found = run("lines", &["--json"]).expect(1).json();
    assert_eq!(
        found["sanitize"]["findings"].as_array().map(Vec::len),
        Some(2)
    );
}

#[test]
fn wrong_input() {
    let done = run_checked("checks", "races", &[]).expect(2);
    assert!(done.stderr.contains("none of mem, race"), "{}", done.stderr);
    let list = temp("findings_broken.txt", b"# fine\nrace kernel=*\nraces\n");
    let done = run("suppressions", &["--suppress", &list]).expect(2);
    assert!(
        done.stderr
            .contains("line 3: `races` is no kind of finding"),
        "{}",
        done.stderr
    );
    // The launch was not run for that.
    assert!(!done.stderr.contains("sum.cu"), "{}", done.stderr);
    let done = run("full", &["--report", "sarif=/dev/full"]).expect(2);
    assert!(
        done.stderr.contains("cannot write /dev/full"),
        "{}",
        done.stderr
    );
    let list = temp("findings_known.txt", b"race source=sum.cu:5-6\nleak\n");
    let done = run("known", &["--suppress", &list]).expect(0);
    assert!(
        done.stderr.contains("unused suppression: leak"),
        "{}",
        done.stderr
    );
}
