//! Random calls of every function of the driver: garbage, stale and foreign handles, wild pointers,
//! sizes at their limits, several threads, calls from callbacks and after a fork.
//!
//! A batch of calls runs in a process of its own, so that a crash or a hang ends that process only.
//! It must end by itself, without a panic, and no call may give `CUDA_ERROR_UNKNOWN`. For more than
//! the short run:
//!
//! ```text
//! PTXJIT_FUZZ_SECONDS=600 PTXJIT_FUZZ_SEED=1 cargo test -p ptxjit-cuda --test calls long
//! ```
//!
//! `PTXJIT_FUZZ_ONLY='Graph cuMemAlloc'` keeps to functions with such words in their names, and
//! `PTXJIT_FUZZ_WITH='valgrind -q --error-exitcode=9'` puts a command in front of each process.
#![expect(unsafe_code, reason = "calls the library as a C program does")]

mod child;
mod images;
mod layouts;
mod memory;
mod rng;
mod values;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Batches of the short run.
const BATCHES: u64 = 24;

/// A batch that takes longer hangs; waits that never end are ended by the driver after a second.
const LIMIT: Duration = Duration::from_secs(240);

/// The batch, in its process; nothing unless another test has started it.
#[test]
fn batch() {
    let (Ok(seed), Ok(folder)) = (
        env::var("PTXJIT_FUZZ_BATCH"),
        env::var("PTXJIT_FUZZ_FOLDER"),
    ) else {
        return;
    };
    child::run(seed.parse().expect("a number"), Path::new(&folder));
}

#[test]
fn short() {
    for seed in 0..BATCHES {
        check(seed);
    }
}

/// As many batches as fit into the time; none unless a time is given.
#[test]
fn long() {
    if env::var("PTXJIT_FUZZ_SECONDS").is_err() {
        return;
    }
    let number = |name, default| {
        let value = env::var(name).ok();
        value.map_or(default, |value| value.parse().expect("a number"))
    };
    let end = Instant::now() + Duration::from_secs(number("PTXJIT_FUZZ_SECONDS", 60));
    let mut seed = number("PTXJIT_FUZZ_SEED", 1000);
    while Instant::now() < end {
        check(seed);
        seed += 1;
    }
    eprintln!("the next seed is {seed}");
}

/// Runs a batch and looks at how it ended.
fn check(seed: u64) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("calls-{seed}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the folder can be made");
    let status = run(seed, &folder);
    let printed = read(&folder.join("stderr"));
    let ended_well = status.is_some_and(|status| status.success());
    if ended_well && !printed.contains("panicked at") {
        fs::remove_dir_all(&folder).expect("the folder can be removed");
        return;
    }
    let how = status.map_or("hangs".to_owned(), |status| status.to_string());
    let log = read(&folder.join("log"));
    let panics = printed
        .split_inclusive('\n')
        .skip_while(|line| !line.contains("panicked at"));
    let panics: String = panics.take(4).collect();
    panic!(
        "batch {seed}: {how}\n{}\n{panics}\n{}\nmore in {}",
        tail(&log, 40),
        tail(&printed, 20),
        folder.display(),
    );
}

fn read(path: &PathBuf) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

fn tail(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

/// How a batch's process ends, or nothing if it hangs.
fn run(seed: u64, folder: &Path) -> Option<ExitStatus> {
    let file = |name| fs::File::create(folder.join(name)).expect("the folder can be written");
    let program = env::current_exe().expect("a test has a path");
    let front = env::var("PTXJIT_FUZZ_WITH").unwrap_or_default();
    let mut words = front.split_whitespace().map(PathBuf::from).chain([program]);
    let mut child = Command::new(words.next().expect("the program is there"))
        .args(words)
        .args(["--exact", "batch", "--nocapture", "--test-threads=1"])
        .env("PTXJIT_FUZZ_BATCH", seed.to_string())
        .env("PTXJIT_FUZZ_FOLDER", folder)
        .env("PTXJIT_COMPUTE_CAPABILITY", "9.0")
        .env(
            "PTXJIT_DEVICE_COUNT",
            if seed.is_multiple_of(3) { "2" } else { "1" },
        )
        .env("PTXJIT_DEVICE_MEMORY", "256M")
        .env("PTXJIT_TIMEOUT", "1")
        .env(
            "PTXJIT_MEMCHECK",
            if seed.is_multiple_of(5) { "1" } else { "0" },
        )
        .env(
            "PTXJIT_CACHE_DIR",
            Path::new(env!("CARGO_TARGET_TMPDIR")).join("calls-cache"),
        )
        .stdin(Stdio::null())
        .stdout(file("stdout"))
        .stderr(file("stderr"))
        .spawn()
        .expect("the test can be started again");
    let start = Instant::now();
    while start.elapsed() < LIMIT {
        if let Some(status) = child.try_wait().expect("it is a child") {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().expect("it is a child");
    child.wait().expect("it is a child");
    None
}
