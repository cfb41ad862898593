//! Every pass, alone and in turn with the others, keeps what random functions compute.

use ptxjit_ir::{Function, print, verify};

use crate::pipeline::{self, Options};
use crate::testing::exec::{self, Outcome};
use crate::testing::{Rng, random};
use crate::transform::*;

type Pass = (&'static str, fn(&mut Function));

const PASSES: &[Pass] = &[
    ("cfg_cleanup", |func| _ = cfg_cleanup::run(func)),
    ("remove_constant_params", |func| {
        _ = remove_constant_params::run(func)
    }),
    ("simplify", |func| _ = simplify::run(func)),
    ("gvn", |func| _ = gvn::run(func)),
    ("dce", |func| _ = dce::run(func)),
    ("sroa", |func| _ = sroa::run(func)),
    ("if_convert", |func| _ = if_convert::run(func)),
    ("licm", |func| _ = licm::run(func, 0)),
    ("join_params", |func| _ = join_params::run(func)),
    ("narrow_windows", |func| _ = narrow_windows::run(func)),
    ("address_fold", |func| _ = address_fold::run(func)),
    ("compact", compact::run),
];

/// Random functions per test.
const N_FUNCTIONS: u64 = 500;

/// Steps that a function may take before it counts as endless.
const FUEL: u32 = 300;

/// Random numbers, and numbers at the ends of ranges.
fn arguments(rng: &mut Rng) -> Vec<Vec<u64>> {
    let mut word = |kind: usize| match kind % 3 {
        0 => rng.next() << 32 | rng.next(),
        1 => [0, 1, u64::MAX, 1 << 31, 1 << 63, 0x7fff_ffff][rng.below(6)],
        _ => rng.next() % 64,
    };
    (0..6)
        .map(|kind| random::PARAMS.iter().map(|_| word(kind)).collect())
        .collect()
}

/// Gives the number of inputs for which the function returns.
#[track_caller]
fn check_step(
    before: &Function,
    after: &Function,
    name: &str,
    inputs: &[Vec<u64>],
    what: &str,
) -> usize {
    if let Err(errors) = verify::function(after, None) {
        panic!(
            "{what}: {name} made {}\n{}\nof\n{}",
            errors[0],
            print::function(after),
            print::function(before)
        );
    }
    let mut n_returned = 0;
    for args in inputs {
        let expected = exec::run(before, args, FUEL);
        if expected == Outcome::Endless {
            continue;
        }
        n_returned += 1;
        // A pass may add blocks to a loop, but not many.
        let found = exec::run(after, args, 4 * FUEL);
        if found != expected {
            panic!(
                "{what}: {name} changed {expected:x?} to {found:x?} for {args:x?}\n{}\nof\n{}",
                print::function(after),
                print::function(before)
            );
        }
    }
    n_returned
}

/// Most functions must return, or there is nothing to compare.
#[track_caller]
fn check_number(n_returned: usize, n_runs: usize) {
    assert!(n_returned > n_runs / 2, "{n_returned} of {n_runs}");
}

#[test]
fn each_pass_alone_keeps_the_meaning() {
    let (mut n_returned, mut n_runs) = (0, 0);
    for seed in 0..N_FUNCTIONS {
        let mut rng = Rng(seed);
        let n_blocks = 1 + rng.below(10);
        let func = random::function(&mut rng, n_blocks);
        let inputs = arguments(&mut rng);
        for (name, pass) in PASSES {
            let mut after = func.clone();
            pass(&mut after);
            n_runs += inputs.len();
            n_returned += check_step(&func, &after, name, &inputs, &format!("seed {seed}"));
        }
    }
    check_number(n_returned, n_runs);
}

#[test]
fn passes_in_random_order_keep_the_meaning() {
    let (mut n_returned, mut n_runs) = (0, 0);
    for seed in 0..N_FUNCTIONS {
        let mut rng = Rng(1000 + seed);
        let n_blocks = 1 + rng.below(12);
        let mut func = random::function(&mut rng, n_blocks);
        let inputs = arguments(&mut rng);
        for step in 0..16 {
            let before = func.clone();
            let (name, pass) = PASSES[rng.below(PASSES.len())];
            pass(&mut func);
            n_runs += inputs.len();
            n_returned += check_step(
                &before,
                &func,
                name,
                &inputs,
                &format!("seed {seed}, step {step}"),
            );
        }
    }
    check_number(n_returned, n_runs);
}

#[test]
fn the_pipeline_keeps_the_meaning() {
    let (mut n_returned, mut n_runs) = (0, 0);
    for seed in 0..N_FUNCTIONS {
        let mut rng = Rng(2000 + seed);
        let n_blocks = 1 + rng.below(20);
        let func = random::function(&mut rng, n_blocks);
        let inputs = arguments(&mut rng);
        let mut program = super::control::program(vec![func.clone()]);
        pipeline::optimize(
            &mut program,
            &Options {
                verify: true,
                ..Options::default()
            },
            None,
        )
        .unwrap();
        let after = program
            .functions
            .values()
            .next()
            .expect("the function is reachable");
        n_runs += inputs.len();
        n_returned += check_step(
            &func,
            after,
            "the pipeline",
            &inputs,
            &format!("seed {seed}"),
        );
    }
    check_number(n_returned, n_runs);
}
