//! Results that cannot be written: on a full disk the command fails, and what was there before
//! stays.

use std::fs::{self, File};
use std::process::{Command, Stdio};

use crate::{empty_folder, run_saxpy, saxpy, saxpy_args, saxpy_y, temp};

/// Runs the command with its standard output on a full disk: exit code and standard error.
fn with_full_disk(words: &[&str]) -> (Option<i32>, String) {
    let full = File::options()
        .write(true)
        .open("/dev/full")
        .expect("Linux has it");
    let output = Command::new(env!("CARGO_BIN_EXE_ptxjit"))
        .args(words)
        .stdout(full)
        .output()
        .expect("the command can be started");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), text)
}

#[test]
fn lost_output_is_a_failure() {
    let file = saxpy();
    let bad = temp("lost-bad.ptx", b"nonsense");
    let args = saxpy_args();
    let print = saxpy_y().to_string();
    let mut run = vec!["run", "--no-cache", &file];
    run.extend(args.iter().map(String::as_str));
    let printf = crate::kernel("cuda/printf_basic/case.json");
    for words in [
        [&run[..], &["--print", &print]].concat(),
        [&run[..], &["--json"]].concat(),
        vec!["run", "--no-cache", "--case", &printf],
        vec!["run", "--json", "no/such/file.ptx"],
        vec!["check", "--json", &file],
        vec!["check", &bad],
        vec!["dump", &file],
        vec!["isa"],
        vec!["isa", "--json"],
        vec!["cache", "show"],
        vec!["test", &printf],
        vec!["test", "--json", &printf],
        vec!["--help"],
        vec!["--version"],
    ] {
        let (code, text) = with_full_disk(&words);
        assert_eq!(code, Some(1), "{words:?}: {text}");
        assert!(
            text.contains("cannot write to standard output"),
            "{words:?}: {text}"
        );
    }
}

#[test]
fn lost_readers_are_none() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_ptxjit"))
        .arg("isa")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command can be started");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("the command ends");
    assert!(output.status.success());
    assert!(output.stderr.is_empty());
}

#[test]
fn lost_files_leave_the_old_ones() {
    let folder = empty_folder("lost-files");
    fs::create_dir_all(&folder).unwrap();
    let y = saxpy_y();
    let full = format!("{y}=/dev/full");
    let done = run_saxpy(&["--out", &full]).expect(1);
    assert!(
        done.stderr.contains("cannot write /dev/full"),
        "{}",
        done.stderr
    );
    let old = folder.join("old.bin");
    fs::write(&old, [7; 1000]).unwrap();
    let out = format!("{y}={}", old.display());
    // The limit on the size of files stands for a full disk.
    let mut words: Vec<String> = vec![saxpy()];
    words.extend(saxpy_args());
    words.extend(["--out".to_owned(), out.clone()]);
    let output = Command::new("sh")
        .args([
            "-c",
            "trap '' XFSZ; ulimit -f 0; exec \"$0\" run --no-cache \"$@\"",
        ])
        .arg(env!("CARGO_BIN_EXE_ptxjit"))
        .args(&words)
        .output()
        .expect("a shell");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("cannot write"), "{text}");
    assert_eq!(fs::read(&old).unwrap(), [7; 1000]);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    run_saxpy(&["--out", &out]).expect(0);
    assert_eq!(fs::read(&old).unwrap().len(), 160);
}
