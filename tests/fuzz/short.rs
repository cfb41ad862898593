//! A few random programs and damaged files, the same each time.

use std::time::Duration;

use ptxjit::Device;
use ptxjit_tests::fuzz::drive::{self, About};
use ptxjit_tests::fuzz::mutate::Checker;
use ptxjit_tests::fuzz::{affine, extremes, flow, generate, images, sync};
use ptxjit_tests::root;

/// Seeds that are run by `cargo test`.
const PROGRAMS: u64 = 100;

const TEXTS: u64 = 300;

const FLOWS: u64 = 20;

const EXTREMES: u64 = 200;

const SYNCS: u64 = 30;

/// The same about clusters.
const CLUSTERS: u64 = 25;

const IMAGES: u64 = 60;

#[test]
fn random_kernels_do_the_same_everywhere() {
    check_programs(About::Threads, PROGRAMS);
}

#[test]
fn random_clusters_do_the_same_everywhere() {
    check_programs(About::Clusters, CLUSTERS);
}

#[test]
fn random_images_are_read_alike() {
    let device = Device::new().expect("a device");
    let problems = (0..IMAGES).filter_map(|seed| {
        let problem = images::check(&device, seed).err()?;
        Some(format!("seed {seed}: {problem}"))
    });
    let problems: Vec<String> = problems.collect();
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

fn check_programs(about: About, n: u64) {
    let device = Device::new().expect("a device");
    let findings: Vec<String> = (0..n)
        .filter_map(|seed| {
            let (case, finding) = drive::seed_quickly(&device, about, seed)?;
            Some(format!(
                "seed {seed}, {}: {:?} at {}: {}",
                case.line(),
                finding.kind,
                finding.config,
                finding.detail
            ))
        })
        .collect();
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

/// What a check draws is bounded, whatever the module is; `fuzz-extremes` gives it modules of 1 MB,
/// with limits of time and memory.
#[test]
fn extremes_are_checked() {
    for seed in 0..EXTREMES {
        let text = extremes::module(seed, 1 << 14);
        let found = ptxjit::check_text("extreme.ptx", text);
        let drawn = found.to_string();
        assert!(drawn.len() < 1 << 20, "seed {seed}: {} bytes", drawn.len());
        assert!(
            !drawn.contains(|c: char| c.is_control() && c != '\n'),
            "seed {seed}"
        );
    }
}

#[test]
fn tangled_control_flow_does_the_same_everywhere() {
    let device = Device::new().expect("a device");
    let problems = (0..FLOWS).filter_map(|seed| {
        let problem = flow::check(&device, seed, 120).err()?;
        Some(format!("seed {seed}: {problem}"))
    });
    let problems: Vec<String> = problems.collect();
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

#[test]
fn races_are_found_where_they_are_and_nowhere_else() {
    let device = Device::new().expect("a device");
    let mut n_screened = 0;
    let problems = (0..SYNCS).filter_map(|seed| match sync::check(&device, seed) {
        Ok(n) => {
            n_screened += n;
            None
        }
        Err(problem) => Some(format!("seed {seed}: {problem}")),
    });
    let problems: Vec<String> = problems.collect();
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
    assert!(n_screened > 0, "compiled code judges nothing");
}

#[test]
fn proofs_miss_nothing_that_exact_detectors_find() {
    let device = Device::new().expect("a device");
    let mut sum = affine::Judged::default();
    let problems = (0..SYNCS).filter_map(|seed| match affine::check(&device, seed) {
        Ok(judged) => {
            sum.screened += judged.screened;
            sum.proven += judged.proven;
            None
        }
        Err(problem) => Some(format!("seed {seed}: {problem}")),
    });
    let problems: Vec<String> = problems.collect();
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
    assert!(sum.proven > 0, "{sum:?}");
}

#[test]
fn a_seed_names_a_program() {
    assert_eq!(generate::program(7).text(), generate::program(7).text());
    assert_ne!(generate::program(7).text(), generate::program(8).text());
}

#[test]
fn damaged_text_neither_panics_nor_hangs() {
    let checker = Checker::new(&[root().join("tests")]).expect("the tests' PTX can be read");
    let limit = Duration::from_secs(30);
    let checker = checker.with_limit(limit);
    let problems: Vec<String> = (0..TEXTS)
        .filter_map(|seed| {
            checker
                .run(seed)
                .err()
                .map(|(_, problem)| format!("seed {seed}: {problem}"))
        })
        .collect();
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

/// Pairs of damaged texts that are linked by `cargo test`.
const PAIRS: u64 = 60;

#[test]
fn damaged_modules_are_linked_or_refused() {
    let checker = Checker::new(&[root().join("tests")]).expect("the tests' PTX can be read");
    let link = move || {
        let mut n_linked = 0;
        for seed in 0..PAIRS {
            let mut linker = ptxjit::Linker::new();
            linker.add("a.ptx", checker.text(2 * seed));
            // One in four is linked with itself, which makes everything in it a rival.
            let other = 2 * seed + u64::from(seed % 4 != 0);
            linker.add("b.ptx", checker.text(other));
            let found = linker.check().expect("there are modules");
            let is_error = |one: &&ptxjit::Diagnostic| one.severity() == ptxjit::Severity::Error;
            for one in found.iter().filter(is_error) {
                assert!(["a.ptx", "b.ptx"].contains(&one.file()), "{one}");
                assert!(!one.render(false).is_empty());
            }
            n_linked += u64::from(!found.iter().any(|one| is_error(&one)));
        }
        assert!(n_linked < PAIRS, "damage does harm");
    };
    // As much stack as the command gives to what it compiles.
    let thread = std::thread::Builder::new().stack_size(64 << 20).spawn(link);
    let result = thread.expect("a thread").join();
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}
