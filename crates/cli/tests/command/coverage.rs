//! `--coverage`: counts that follow from the texts of kernels, in every engine and at every gang
//! width.

use super::{Done, kernel, ptxjit, temp};

/// Of the 40 threads of a CTA, 20 are odd, 5 are low, and ten each run the loop once, twice, three
/// and four times.
const COVER: &str = "
.version 7.0
.target sm_80
.address_size 64
.file 1 \"cover.cu\"

.func (.reg .u32 r) twice(.reg .u32 x)
{
    .loc 1 3 5
    add.u32 r, x, x;
    ret;
}

.func never()
{
    .loc 1 7 5
    ret;
}

.visible .entry cover(.param .u64 out)
{
    .reg .pred %odd, %low, %more;
    .reg .u32 %t, %b, %i, %n, %v;
    .reg .u64 %p, %q;
    .loc 1 11 5
    ld.param.u64 %p, [out];
    mov.u32 %t, %tid.x;
    .loc 1 12 5
    and.b32 %b, %t, 1;
    setp.ne.u32 %odd, %b, 0;
    setp.lt.u32 %low, %t, 5;
    .loc 1 13 5
    mov.u32 %i, 0;
    @%odd bra ODD;
    .loc 1 14 9
    add.u32 %i, %i, 1;
    bra DONE;
ODD:
    .loc 1 16 9
    call (%i), twice, (%t);
DONE:
    .loc 1 18 5
    and.b32 %n, %t, 3;
LOOP:
    .loc 1 19 9
    add.u32 %i, %i, 1;
    setp.ne.u32 %more, %n, 0;
    sub.u32 %n, %n, 1;
    @%more bra LOOP;
    .loc 1 20 5
    selp.u32 %v, %i, 7, %low;
    @%low mul.lo.u32 %v, %v, 3;
    .loc 1 21 5
    @!%low mov.u32 %v, 9;
    .loc 1 22 5
    mul.wide.u32 %q, %t, 4;
    add.u64 %q, %p, %q;
    @%low st.global.u32 [%q], %v;
    @%low exit;
    .loc 1 23 5
    st.global.u32 [%q], %i;
    ret;
}
";

/// What three CTAs of 40 threads run of it.
const LINES: &str = "\
SF:cover.cu
FN:3,twice
FN:7,never
FN:11,cover
FNDA:60,twice
FNDA:0,never
FNDA:120,cover
FNF:3
FNH:2
BRDA:13,0,0,60
BRDA:13,0,1,60
BRDA:19,0,0,180
BRDA:19,0,1,120
BRDA:20,0,0,15
BRDA:20,0,1,105
BRDA:20,1,0,15
BRDA:20,1,1,105
BRDA:21,0,0,105
BRDA:21,0,1,15
BRDA:22,0,0,15
BRDA:22,0,1,105
BRDA:22,1,0,15
BRDA:22,1,1,105
BRF:14
BRH:14
DA:3,60
DA:7,0
DA:11,120
DA:12,120
DA:13,120
DA:14,60
DA:16,60
DA:18,120
DA:19,300
DA:20,120
DA:21,105
DA:22,120
DA:23,105
LF:13
LH:12
end_of_record
";

fn run(name: &str, more: &[&str]) -> Done {
    let ptx = temp(&format!("coverage_{name}.ptx"), COVER.as_bytes());
    let words = [
        "run",
        &ptx,
        "--grid",
        "3",
        "--block",
        "40",
        "--arg",
        "u32[40]=zeros",
        "--no-cache",
    ];
    ptxjit(&[&words[..], more].concat())
}

fn lcov_of(name: &str, more: &[&str]) -> String {
    let path = temp(&format!("coverage_{name}.info"), b"");
    let wanted = format!("lcov={path}");
    run(name, &[&["--coverage", &wanted][..], more].concat()).expect(0);
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn lines_and_branches_in_every_engine() {
    let ways: [&[&str]; 9] = [
        &[],
        &["--interp"],
        &["--gang", "1"],
        &["--gang", "4"],
        &["--gang", "8"],
        &["--gang", "16"],
        &["--gang", "32"],
        &["--gang", "32", "--threads", "1"],
        &["--interp", "--sanitize", "all"],
    ];
    for (idx, way) in ways.iter().enumerate() {
        let text = lcov_of(&format!("way{idx}"), way);
        assert!(text.ends_with(&format!("TN:\n{LINES}")), "{way:?}: {text}");
        // The PTX itself is the other file: its loop begins in line 46.
        let (ptx, _) = text.split_once("end_of_record\n").unwrap();
        for line in [
            "DA:46,300",
            "DA:49,300",
            "DA:17,0",
            "FN:14,never",
            "BRDA:49,0,0,180",
        ] {
            assert!(ptx.contains(&format!("\n{line}\n")), "{line}: {ptx}");
        }
    }
}

#[test]
fn launches_add_up() {
    let text = lcov_of("repeat", &["--repeat", "3"]);
    let line = |line: &str| text.contains(&format!("\n{line}\n"));
    assert!(line("DA:19,900") && line("FNDA:360,cover"), "{text}");
}

#[test]
fn wrong_input() {
    let done = run("format", &["--coverage", "gcov=x"]).expect(2);
    assert!(
        done.stderr.contains("none of lcov, html, json"),
        "{}",
        done.stderr
    );
    let done = run("place", &["--coverage", "lcov"]).expect(2);
    assert!(done.stderr.contains("lcov=PATH"), "{}", done.stderr);
    let done = run("full", &["--coverage", "lcov=/dev/full"]).expect(2);
    assert!(
        done.stderr.contains("cannot write /dev/full"),
        "{}",
        done.stderr
    );
    let done = run("folder", &["--coverage", "lcov=/nowhere/at/all.info"]).expect(2);
    assert!(
        done.stderr.contains("cannot write /nowhere/at/all.info"),
        "{}",
        done.stderr
    );
}

/// The entry about a line of a file.
fn line_of(document: &serde_json::Value, file: &str, line: u64) -> serde_json::Value {
    let files = document["files"].as_array().unwrap();
    let file = files.iter().find(|it| it["file"] == file).unwrap();
    let lines = file["lines"].as_array().unwrap();
    let found = lines.iter().find(|it| it["line"] == line);
    found.cloned().unwrap()
}

fn branch_of(document: &serde_json::Value, line: u64) -> serde_json::Value {
    let files = document["files"].as_array().unwrap();
    let file = files.iter().find(|it| it["file"] == "cover.cu").unwrap();
    let branches = file["branches"].as_array().unwrap();
    let found = branches.iter().find(|it| it["line"] == line);
    found.cloned().unwrap()
}

fn json_of(name: &str, more: &[&str]) -> serde_json::Value {
    let path = temp(&format!("coverage_{name}.json"), b"");
    let wanted = format!("json={path}");
    run(name, &[&["--coverage", &wanted][..], more].concat()).expect(0);
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn warps_and_their_lanes() {
    let found = json_of("warps", &[]);
    // A CTA has a warp of 32 threads and one of 8, and each goes through the loop four times, once
    // as a whole; all but the last time some threads leave it.
    let line = line_of(&found, "cover.cu", 19);
    assert_eq!(line["warps"]["executions"], 24);
    assert_eq!(line["warps"]["whole"], 6);
    assert_eq!(line["warps"]["mean_active_lanes"], 300.0 / 24.0);
    let branch = branch_of(&found, 19);
    assert_eq!(
        (&branch["warps"], &branch["diverged"]),
        (&24.into(), &18.into())
    );
    // Odd and even threads are in each warp, low ones in the first of each CTA.
    let branch = branch_of(&found, 13);
    assert_eq!(
        (&branch["warps"], &branch["diverged"]),
        (&6.into(), &6.into())
    );
    assert_eq!(
        line_of(&found, "cover.cu", 14)["warps"]["never_whole"],
        true
    );
    let line = line_of(&found, "cover.cu", 23);
    assert_eq!(
        (&line["warps"]["executions"], &line["warps"]["whole"]),
        (&6.into(), &3.into())
    );
    // The threads are the same where gangs are no warps, but what warps do is not known then.
    for way in [&["--gang", "8"][..], &["--interp"]] {
        let found = json_of(&format!("no_warps{}", way.len()), way);
        let line = line_of(&found, "cover.cu", 19);
        assert_eq!(
            (&line["threads"], &line["warps"]),
            (&300.into(), &serde_json::Value::Null)
        );
    }
}

/// One line of the source has an instruction that all threads run and one that none does.
const PARTLY: &str = "
.version 7.0
.target sm_80
.address_size 64
.file 1 \"part<ly>.cu\"
.entry part(.param .u64 out) {
    .reg .pred %p;
    .reg .u32 %t;
    .loc 1 2 1
    mov.u32 %t, %ntid.x;
    setp.eq.u32 %p, %t, 7;
    @%p trap;
    .loc 1 3 1
    ret;
}
";

#[test]
fn partly_run_lines_in_json_and_html() {
    let ptx = temp("coverage_partly.ptx", PARTLY.as_bytes());
    let folder = format!("{ptx}.html");
    let json = format!("json={ptx}.json");
    let html = format!("html={folder}");
    let words = [
        "run",
        &ptx,
        "--block",
        "64",
        "--arg",
        "u32[1]=zeros",
        "--no-cache",
    ];
    ptxjit(&[&words[..], &["--coverage", &json, "--coverage", &html]].concat()).expect(0);
    let found: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(format!("{ptx}.json")).unwrap()).unwrap();
    let line = line_of(&found, "part<ly>.cu", 2);
    assert_eq!(
        (&line["state"], &line["threads"]),
        (&"partly".into(), &64.into())
    );
    assert_eq!(
        (&line["instructions"], &line["instructions_run"]),
        (&3.into(), &2.into())
    );
    assert_eq!(line_of(&found, "part<ly>.cu", 3)["state"], "run");
    let index = std::fs::read_to_string(format!("{folder}/index.html")).unwrap();
    assert!(
        index.contains("part&lt;ly&gt;.cu") && !index.contains("part<ly>"),
        "{index}"
    );
    let (_, link) = index.split_once("href=\"").unwrap();
    let (link, _) = link.split_once('"').unwrap();
    let page = std::fs::read_to_string(format!("{folder}/{link}")).unwrap();
    // The source's text is nowhere, so its lines are shown without.
    for text in [
        "<tr id=\"s0-2\" class=\"partly\"",
        "<tr id=\"s0-3\" class=\"run\"",
        "<tr id=\"p12\" class=\"never\"",
        "data-to=\"p10 p11 p12\"",
        "guard: <span class=\"zero\">true for none</span>, false for 64",
        "@%p trap;",
        "was not found",
    ] {
        assert!(page.contains(text), "{text}: {page}");
    }
    assert!(!page.contains("http"), "a page needs nothing but itself");
}

#[test]
fn tests_of_a_folder_add_up_in_one_file() {
    let folder = kernel("cuda/saxpy");
    let path = temp("coverage_folder.info", b"");
    let wanted = format!("lcov={path}");
    ptxjit(&["test", &folder, "--coverage", &wanted, "-j", "2"]).expect(0);
    let text = std::fs::read_to_string(path).unwrap();
    let records: Vec<&str> = text.split("end_of_record\n").collect();
    // One for each PTX file of the case, and what follows the last one.
    assert_eq!(records.len(), 5, "{text}");
    // Each is launched once, as 8 blocks of 256 threads.
    for record in &records[..4] {
        assert!(record.contains("\nFNDA:2048,saxpy\n"), "{record}");
    }
    // This one has a loop that is not unrolled, so each of the elements has its own store.
    let name = "saxpy.sm70.ptx";
    let ptx = std::fs::read_to_string(format!("{folder}/{name}")).unwrap();
    let store = ptx.lines().position(|line| line.contains("st.global.f32"));
    let record = records.iter().find(|it| it.contains(name)).unwrap();
    let line = format!("\nDA:{},10007\n", store.unwrap() + 1);
    assert!(record.contains(&line), "{record}");
}

/// Each line has one form of access, by warps of 32 threads: see the test.
const MEMORY: &str = "
.version 7.0
.target sm_80
.address_size 64
.file 1 \"memory.cu\"
.visible .entry memory(.param .u64 data)
{
    .reg .pred %few;
    .reg .u32 %t, %s, %a, %v;
    .reg .u64 %p, %q, %r;
    .shared .align 16 .b8 tile[8192];
    .loc 1 1 1
    ld.param.u64 %p, [data];
    mov.u32 %t, %tid.x;
    mul.wide.u32 %q, %t, 4;
    add.u64 %q, %p, %q;
    mul.wide.u32 %r, %t, 128;
    add.u64 %r, %p, %r;
    mov.u32 %s, tile;
    setp.lt.u32 %few, %t, 8;
    .loc 1 2 1
    ld.global.u32 %v, [%q];
    .loc 1 3 1
    ld.global.u32 %v, [%q+4];
    .loc 1 4 1
    ld.global.u32 %v, [%r];
    .loc 1 5 1
    ld.global.u32 %v, [%p];
    .loc 1 6 1
    @%few ld.global.u32 %v, [%q];
    .loc 1 7 1
    shl.b32 %a, %t, 3;
    add.u32 %a, %s, %a;
    .loc 1 8 1
    st.shared.u32 [%a], %t;
    .loc 1 9 1
    ld.shared.u32 %v, [%s+64];
    .loc 1 10 1
    bar.sync 0;
    .loc 1 11 1
    atom.shared.add.u32 %v, [%s], 1;
    .loc 1 12 1
    ld.global.v4.u32 {%v, %a, %v, %a}, [%p];
    ret;
}
";

/// Runs [`MEMORY`] in blocks of 64 threads.
fn memory(name: &str, grid: &str, more: &[&str]) -> Done {
    let ptx = temp(&format!("coverage_{name}.ptx"), MEMORY.as_bytes());
    let words = [
        "run",
        &ptx,
        "--grid",
        grid,
        "--block",
        "64",
        "--arg",
        "u32[2048]=zeros",
        "--no-cache",
        "--profile",
    ];
    ptxjit(&[&words[..], more].concat())
}

#[test]
fn profile_of_accesses() {
    let path = temp("coverage_profile.json", b"");
    memory("profile", "3", &[&format!("json={path}")]).expect(0);
    let text = std::fs::read_to_string(path).unwrap();
    let found: serde_json::Value = serde_json::from_str(&text).unwrap();
    let kernel = &found["kernels"][0];
    assert_eq!(
        (&kernel["ctas"], &kernel["sampled_ctas"]),
        (&3.into(), &3.into())
    );
    let lines = kernel["lines"].as_array().unwrap();
    let line = |number: u64| lines.iter().find(|it| it["line"] == number).unwrap();
    // Six warps. Words side by side fill four sectors; one word further they touch five; 128 bytes
    // apart each has its own; one word for all is one sector. Where eight threads of each CTA load,
    // so does one warp of the two.
    let sectors = [
        (2, 6, 24, 24),
        (3, 6, 30, 24),
        (4, 6, 192, 24),
        (5, 6, 6, 6),
        (6, 3, 3, 3),
    ];
    for (number, requests, touched, least) in sectors {
        let global = &line(number)["global"];
        assert_eq!(global["requests"], requests, "line {number}");
        assert_eq!(global["sectors"], touched, "line {number}");
        assert_eq!(global["least_sectors"], least, "line {number}");
    }
    assert_eq!(line(4)["global"]["sectors_per_request"], 32.0);
    // 192 threads, four bytes each; 24 of them; 16 bytes each.
    assert_eq!([2, 6, 12].map(|it| &line(it)["bytes"]), [768, 96, 3072]);
    // Every second word: two words in each of 16 banks. One word for all.
    let shared = |number| &line(number)["shared"];
    assert_eq!(
        (&shared(8)["passes"], &shared(8)["bank_conflicts"]),
        (&12.into(), &6.into())
    );
    assert_eq!(
        (&shared(9)["passes"], &shared(9)["bank_conflicts"]),
        (&6.into(), &0.into())
    );
    assert_eq!(line(10)["barriers"], 6);
    // Of 32 threads 31 wait.
    let atomics = &line(11)["atomics"];
    assert_eq!(
        (&atomics["threads"], &atomics["waiting"]),
        (&192.into(), &186.into())
    );
    assert_eq!(atomics["most_on_one"], 32);
    assert_eq!(
        (
            &line(7)["thread_instructions"],
            &line(7)["warp_instructions"]
        ),
        (&384.into(), &12.into())
    );
    assert_eq!(line(6)["mean_active_lanes"], 4.0);
    assert_eq!(line(7)["global"], serde_json::Value::Null);
}

#[test]
fn profiles_of_large_grids_look_at_some_ctas() {
    let found = memory("sampled", "640", &["--json"]).expect(0).json();
    let kernel = &found["profile"]["kernels"][0];
    // Every eleventh.
    assert_eq!(
        (&kernel["ctas"], &kernel["sampled_ctas"]),
        (&640.into(), &59.into())
    );
    let lines = kernel["lines"].as_array().unwrap();
    let line = lines.iter().find(|it| it["line"] == 4).unwrap();
    assert_eq!(
        (&line["thread_instructions"], &line["global"]["requests"]),
        (&40960.into(), &118.into())
    );
    assert_eq!(line["global"]["sectors_per_request"], 32.0);
}

#[test]
fn profile_as_a_table() {
    let text = memory("table", "1", &["--threads", "1"]).expect(0).stderr;
    let row = text.lines().find(|line| line.contains("memory.cu:4"));
    let words: Vec<&str> = row.unwrap().split_whitespace().collect();
    assert_eq!(
        words,
        ["memory.cu:4", "64", "2", "32.0", "256", "32.00", "4.00"],
        "{text}"
    );
    let done = memory("interp", "1", &["--interp"]).expect(2);
    assert!(
        done.stderr
            .contains("the interpreter runs one thread at a time"),
        "{}",
        done.stderr
    );
    let done = memory("gang", "1", &["--gang", "8"]).expect(2);
    assert!(done.stderr.contains("--gang 32 only"), "{}", done.stderr);
    let done = memory("full", "1", &["json=/dev/full"]).expect(2);
    assert!(
        done.stderr.contains("cannot write /dev/full"),
        "{}",
        done.stderr
    );
}

#[test]
fn launches_that_fail_are_counted_as_far_as_they_came() {
    let ptx = temp("coverage_trap.ptx", PARTLY.as_bytes());
    let wanted = format!("lcov={ptx}.info");
    let words = [
        "run",
        &ptx,
        "--block",
        "7",
        "--arg",
        "u32[1]=zeros",
        "--no-cache",
        "--gang",
        "8",
    ];
    ptxjit(&[&words[..], &["--coverage", &wanted]].concat()).expect(1);
    let text = std::fs::read_to_string(format!("{ptx}.info")).unwrap();
    // All seven threads come to the trap, so none comes to the end.
    for line in ["BRDA:2,0,0,7", "BRDA:2,0,1,0", "DA:2,7", "DA:3,0"] {
        assert!(text.contains(&format!("\n{line}\n")), "{line}: {text}");
    }
}

/// 35 of 40 threads branch: nine each to A, to B and to the first C of the table, eight to the
/// second, none to D, where there is another table.
const TABLES: &str = "
.version 7.0
.target sm_80
.address_size 64
.file 1 \"tables.cu\"
.visible .entry tables(.param .u64 out)
{
    .reg .pred %p;
    .reg .u32 %t, %i;
    .reg .u64 %o;
    ld.param.u64 %o, [out];
    mov.u32 %t, %tid.x;
    rem.u32 %i, %t, 4;
    setp.lt.u32 %p, %t, 35;
T: .branchtargets A, B, C, C, D;
    .loc 1 4 5
    @%p brx.idx %i, T;
    .loc 1 5 5
    ret;
A:
    .loc 1 7 5
    ret;
B:
    .loc 1 8 5
    ret;
C:
    .loc 1 9 5
    ret;
D:
    .loc 1 10 5
U: .branchtargets A, B;
    brx.idx %i, U;
}
";

#[test]
fn targets_of_branches_by_an_index_are_sides() {
    let ptx = temp("coverage_tables.ptx", TABLES.as_bytes());
    let ways: [&[&str]; 4] = [
        &["--gang", "1"],
        &["--gang", "8"],
        &["--gang", "32"],
        &["--interp"],
    ];
    for way in ways {
        let (lcov, json) = (format!("{ptx}.info"), format!("{ptx}.json"));
        let words = [
            "run",
            &ptx,
            "--block",
            "40",
            "--arg",
            "u32[1]=zeros",
            "--no-cache",
        ];
        let wanted = [
            "--coverage",
            &format!("lcov={lcov}"),
            "--coverage",
            &format!("json={json}"),
            "--coverage",
            &format!("html={ptx}.html"),
        ];
        ptxjit(&[&words[..], &wanted, way].concat()).expect(0);
        let text = std::fs::read_to_string(&lcov).unwrap();
        let (_, source) = text.split_once("SF:tables.cu\n").unwrap();
        let branches: Vec<&str> = source
            .lines()
            .filter(|line| line.starts_with("BR"))
            .collect();
        let wanted = [
            "BRDA:4,0,0,35",
            "BRDA:4,0,1,5",
            "BRDA:4,1,0,9",
            "BRDA:4,1,1,9",
            "BRDA:4,1,2,9",
            "BRDA:4,1,3,8",
            "BRDA:4,1,4,0",
            "BRDA:10,0,0,-",
            "BRDA:10,0,1,-",
            "BRF:9",
            "BRH:6",
        ];
        assert_eq!(branches, wanted, "{way:?}: {text}");
        let document = std::fs::read_to_string(&json).unwrap();
        let document: serde_json::Value = serde_json::from_str(&document).unwrap();
        let files = document["files"].as_array().unwrap();
        let file = files.iter().find(|it| it["file"] == "tables.cu").unwrap();
        let table = &file["branches"][1];
        assert_eq!(table["kind"], "table");
        let side =
            |target: &str, threads: u64| serde_json::json!({"target": target, "threads": threads});
        let wanted = [
            side("A", 9),
            side("B", 9),
            side("C", 9),
            side("C", 8),
            side("D", 0),
        ];
        assert_eq!(table["sides"].as_array().unwrap(), &wanted, "{way:?}");
    }
    let page = std::fs::read_dir(format!("{ptx}.html")).unwrap();
    let pages =
        page.map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap_or_default());
    let text = "branch: to A by 9, to B by 9, to C by 9, to C by 8, <span class=\"zero\">to D by none</span>";
    assert!(pages.into_iter().any(|page| page.contains(text)));
}
