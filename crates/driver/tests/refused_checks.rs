//! What is wrong with `PTXJIT_SANITIZE` is known before a program does anything: the driver says so
//! in a line and does not start. Files are not left half written.

#![expect(
    clippy::print_stdout,
    reason = "a program tells the test what it has done"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ptxjit_driver::memory::copy;
use ptxjit_driver::types::CUresult;
use ptxjit_driver::{calling, context, init};

/// Set for the process that [`program`] is.
const IS_PROGRAM: &str = "PTXJIT_TEST_IS_PROGRAM";

/// What the tests below run in a process of its own: it finds one thing, if it starts.
#[test]
fn program() {
    if std::env::var_os(IS_PROGRAM).is_none() {
        return;
    }
    match init(0) {
        Ok(()) => {
            context::create(0, 0, 3020).unwrap();
            let copied = calling("cuMemcpyDtoH_v2", || copy::to_host(16, 0, 4));
            assert_eq!(copied, Err(CUresult::INVALID_VALUE));
            println!("has run");
        }
        Err(code) => println!("refused with {}", code.0),
    }
}

/// Runs [`program`] through a shell, which first does what `limits` says.
fn run(checks: &str, limits: &str) -> Output {
    let test = std::env::current_exe().unwrap();
    let script = format!("{limits}\nexec \"$0\" --exact program --nocapture");
    let mut command = Command::new("sh");
    command.args(["-c", &script]).arg(test);
    command
        .env(IS_PROGRAM, "1")
        .env("PTXJIT_SANITIZE", checks)
        .env("PTXJIT_QUIET", "1");
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The driver does not start, and says why.
fn refuses(checks: &str, why: &str) {
    let output = run(checks, "");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(out.contains("refused with 1\n"), "{checks}: {out}{err}");
    assert!(err.contains(why), "{checks}: {err}");
    assert_eq!(err.matches("ptxjit: error:").count(), 1, "{err}");
}

/// A folder for a test.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("ptxjit-{}-{name}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn wrong_settings() {
    refuses(
        "races",
        "PTXJIT_SANITIZE=`races` asks for `races`, which is none of mem,",
    );
    refuses("mem;fail=often", "has `fail=often`, which is none of");
    refuses(
        "mem;suppress=/nowhere/at/all",
        "suppressions of `/nowhere/at/all`: ",
    );
    refuses(
        "mem;report=json=/nowhere/at/all",
        "cannot write `/nowhere/at/all`: ",
    );
    refuses("mem;report=xml=a", "`xml` is none of text, json, sarif");
}

#[test]
fn broken_suppressions() {
    let folder = folder("suppressions");
    let list = folder.join("list");
    fs::write(&list, "race kernel=*\nraces\n").unwrap();
    let why = format!(
        "suppressions of `{}`: line 2: `races` is no kind of finding",
        list.display()
    );
    refuses(&format!("race;suppress={}", list.display()), &why);
    fs::remove_dir_all(folder).unwrap();
}

/// The names of a folder's files.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names.collect()
}

/// A limit on the size of files is as good as a full disk.
#[test]
fn no_room_for_a_report() {
    let folder = folder("no-room");
    let report = folder.join("report.json");
    fs::write(&report, "old").unwrap();
    let checks = format!("mem;report=json={}", report.display());
    let output = run(&checks, "trap '' XFSZ; ulimit -f 0");
    let err = text(&output.stderr);
    assert!(text(&output.stdout).contains("has run"), "{err}");
    assert!(err.contains("findings cannot be written to"), "{err}");
    assert_eq!(fs::read_to_string(&report).unwrap(), "old");
    assert_eq!(names(&folder), ["report.json"]);
    let output = run("mem;report=sarif=/dev/full", "");
    let err = text(&output.stderr);
    assert!(
        err.contains("`/dev/full`: No space left on device"),
        "{err}"
    );
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn reports_of_processes() {
    let folder = folder("processes");
    let (text_file, of_process) = (folder.join("all.txt"), folder.join("of-%p.json"));
    let checks = format!(
        "mem;report=text={};report=json={}",
        text_file.display(),
        of_process.display()
    );
    for _ in 0..2 {
        let output = run(&checks, "");
        assert!(text(&output.stdout).contains("has run"), "{output:?}");
    }
    let found = fs::read_to_string(&text_file).unwrap();
    assert!(
        found.starts_with("null-pointer: `cuMemcpyDtoH_v2` reads 4 bytes"),
        "{found}"
    );
    let mut names = names(&folder);
    names.sort();
    assert_eq!(names.len(), 3, "{names:?}");
    // A process that finds nothing leaves what others have found, and else says that it found
    // nothing.
    let checks = |name: &Path| format!("race;report=json={}", name.display());
    let empty = folder.join("empty.json");
    for path in [&text_file, &empty] {
        run(&checks(path), "");
    }
    assert_eq!(fs::read_to_string(&text_file).unwrap(), found);
    let document = fs::read_to_string(&empty).unwrap();
    assert!(document.contains("\"findings\": []"), "{document}");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_limit() {
    let output = run("mem;limit=0", "");
    assert!(text(&output.stdout).contains("has run"), "{output:?}");
    let test = std::env::current_exe().unwrap();
    let mut command = Command::new(test);
    command.args(["--exact", "program", "--nocapture"]);
    let output = command
        .env(IS_PROGRAM, "1")
        .env("PTXJIT_SANITIZE", "mem;limit=0")
        .output()
        .unwrap();
    let err = text(&output.stderr);
    assert!(
        err.contains("1 more findings are not told of: the limit is 0"),
        "{err}"
    );
}
