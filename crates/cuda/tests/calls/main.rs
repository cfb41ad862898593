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
//! Batches of another kind try inputs in depth (`inputs/`): `PTXJIT_FUZZ_KIND` is then one of
//! `images`, `links` and `maps`.
//!
//! `PTXJIT_FUZZ_ONLY='Graph cuMemAlloc'` keeps to functions with such words in their names, and
//! `PTXJIT_FUZZ_WITH='valgrind -q --error-exitcode=9'` puts a command in front of each process.
#![expect(unsafe_code, reason = "calls the library as a C program does")]

mod child;
mod images;
mod inputs;
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

/// Batches of each other kind in the short run.
const INPUT_BATCHES: u64 = 4;

/// What a batch tries.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Kind {
    /// Random calls of every function.
    Calls,
    /// Images, loaded.
    Images,
    /// Images, linked.
    Links,
    /// Tensor maps.
    Maps,
}

impl Kind {
    const ALL: [(&str, Kind); 4] = [
        ("calls", Kind::Calls),
        ("images", Kind::Images),
        ("links", Kind::Links),
        ("maps", Kind::Maps),
    ];

    /// The kind that the environment asks for.
    fn asked_for() -> Kind {
        let name = env::var("PTXJIT_FUZZ_KIND").unwrap_or_else(|_| "calls".to_owned());
        let found = Kind::ALL.into_iter().find(|(known, _)| *known == name);
        found
            .unwrap_or_else(|| panic!("{name} is a kind of batch"))
            .1
    }

    fn name(self) -> &'static str {
        let found = Kind::ALL.iter().find(|(_, kind)| *kind == self);
        found.expect("all kinds have names").0
    }

    /// Later devices have more sorts of tensor maps.
    fn capability(self) -> &'static str {
        match self {
            Kind::Calls | Kind::Images | Kind::Links => "9.0",
            Kind::Maps => "10.0",
        }
    }
}

/// The batch, in its process; nothing unless another test has started it.
#[test]
fn batch() {
    let (Ok(seed), Ok(folder)) = (
        env::var("PTXJIT_FUZZ_BATCH"),
        env::var("PTXJIT_FUZZ_FOLDER"),
    ) else {
        return;
    };
    let (seed, folder) = (seed.parse().expect("a number"), Path::new(&folder));
    match Kind::asked_for() {
        Kind::Calls => child::run(seed, folder),
        kind => inputs::run(kind, seed, folder),
    }
}

#[test]
fn short() {
    for seed in 0..BATCHES {
        check(Kind::Calls, seed);
    }
}

#[test]
fn images_in_depth() {
    for seed in 0..INPUT_BATCHES {
        check(Kind::Images, seed);
    }
}

#[test]
fn links_in_depth() {
    for seed in 0..INPUT_BATCHES {
        check(Kind::Links, seed);
    }
}

#[test]
fn tensor_maps_in_depth() {
    for seed in 0..INPUT_BATCHES {
        check(Kind::Maps, seed);
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
        check(Kind::asked_for(), seed);
        seed += 1;
    }
    eprintln!("the next seed is {seed}");
}

/// Runs a batch and looks at how it ended.
fn check(kind: Kind, seed: u64) {
    let name = kind.name();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{seed}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the folder can be made");
    let status = run(kind, seed, &folder);
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
        "batch {seed} of {name}: {how}\n{}\n{panics}\n{}\nmore in {}",
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
fn run(kind: Kind, seed: u64, folder: &Path) -> Option<ExitStatus> {
    let file = |name| fs::File::create(folder.join(name)).expect("the folder can be written");
    let program = env::current_exe().expect("a test has a path");
    let front = env::var("PTXJIT_FUZZ_WITH").unwrap_or_default();
    let mut words = front.split_whitespace().map(PathBuf::from).chain([program]);
    let mut child = Command::new(words.next().expect("the program is there"))
        .args(words)
        .args(["--exact", "batch", "--nocapture", "--test-threads=1"])
        .env("PTXJIT_FUZZ_BATCH", seed.to_string())
        .env("PTXJIT_FUZZ_FOLDER", folder)
        .env("PTXJIT_FUZZ_KIND", kind.name())
        .env("PTXJIT_COMPUTE_CAPABILITY", kind.capability())
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
