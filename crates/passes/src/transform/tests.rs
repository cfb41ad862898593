//! Every pass, alone and in turn with the others, keeps what random functions compute.

use ptxjit_ir::{Function, print, verify};

use super::*;
use crate::testing::exec::{self, Outcome};
use crate::testing::{Rng, random};

type Pass = (&'static str, fn(&mut Function));

const PASSES: &[Pass] = &[
    ("cfg_cleanup", |func| _ = cfg_cleanup::run(func)),
    ("remove_constant_params", |func| _ = remove_constant_params::run(func)),
    ("simplify", |func| _ = simplify::run(func)),
    ("gvn", |func| _ = gvn::run(func)),
    ("dce", |func| _ = dce::run(func)),
    ("sroa", |func| _ = sroa::run(func)),
    ("if_convert", |func| _ = if_convert::run(func)),
    ("licm", |func| _ = licm::run(func, 0)),
    ("address_fold", |func| _ = address_fold::run(func)),
    ("compact", compact::run),
];

/// Steps that a function may take before it counts as endless.
const FUEL: u32 = 300;

fn arguments(rng: &mut Rng) -> Vec<Vec<u64>> {
    (0..4).map(|_| random::PARAMS.iter().map(|_| rng.next() << 32 | rng.next()).collect()).collect()
}

#[track_caller]
fn check_step(before: &Function, after: &Function, name: &str, inputs: &[Vec<u64>], what: &str) {
    if let Err(errors) = verify::function(after, None) {
        panic!("{what}: {name} made {}\n{}\nof\n{}", errors[0], print::function(after), print::function(before));
    }
    for args in inputs {
        let expected = exec::run(before, args, FUEL);
        if expected == Outcome::Endless {
            continue;
        }
        let found = exec::run(after, args, FUEL);
        if found != expected {
            panic!(
                "{what}: {name} changed {expected:x?} to {found:x?} for {args:x?}\n{}\nof\n{}",
                print::function(after),
                print::function(before)
            );
        }
    }
}

#[test]
fn each_pass_alone_keeps_the_meaning() {
    for seed in 0..std::env::var("FUZZ").map_or(400, |n| n.parse().unwrap()) {
        let mut rng = Rng(seed);
        let n_blocks = 1 + rng.below(10);
        let func = random::function(&mut rng, n_blocks);
        verify::function(&func, None).unwrap_or_else(|errors| panic!("{}\n{}", errors[0], print::function(&func)));
        let inputs = arguments(&mut rng);
        for (name, pass) in PASSES {
            let mut after = func.clone();
            pass(&mut after);
            check_step(&func, &after, name, &inputs, &format!("seed {seed}"));
        }
    }
}

#[test]
fn passes_in_random_order_keep_the_meaning() {
    for seed in 0..std::env::var("FUZZ").map_or(400, |n| n.parse().unwrap()) {
        let mut rng = Rng(1000 + seed);
        let n_blocks = 1 + rng.below(12);
        let mut func = random::function(&mut rng, n_blocks);
        let inputs = arguments(&mut rng);
        for step in 0..16 {
            let before = func.clone();
            let (name, pass) = PASSES[rng.below(PASSES.len())];
            pass(&mut func);
            check_step(&before, &func, name, &inputs, &format!("seed {seed}, step {step}"));
        }
    }
}
