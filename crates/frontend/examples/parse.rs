//! Parses PTX files completely and reports what is wrong and how long it took:
//! `cargo run --release -p ptxjit-frontend --example parse -- [--quiet] FILE...`
#![expect(clippy::print_stdout, reason = "a command-line tool")]

use std::time::{Duration, Instant};

use ptxjit_frontend::ast::{StmtKind, Variable};
use ptxjit_frontend::diag::{self, Diagnostic};
use ptxjit_frontend::parse;
use ptxjit_frontend::source::Source;

/// Bytes read and time taken, over all files.
#[derive(Default)]
struct Totals {
    skeleton: (usize, Duration),
    bodies: (usize, Duration),
    n_stmts: usize,
}

fn main() -> std::io::Result<()> {
    let mut totals = Totals::default();
    let mut n_refused = 0;
    let is_quiet = std::env::args().any(|arg| arg == "--quiet");
    for path in std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with("--"))
    {
        let source = Source::from_bytes(&path, std::fs::read(&path)?);
        let Err(errors) = check(&source, &mut totals) else {
            continue;
        };
        n_refused += 1;
        for error in errors {
            let text = if is_quiet {
                path.clone()
            } else {
                diag::render(&error, &source, false)
            };
            println!("{text}");
        }
    }
    let speed = |(bytes, time): (usize, Duration)| bytes as f64 / 1e6 / time.as_secs_f64();
    println!(
        "skeletons: {:.1} MB/s, bodies: {:.1} MB/s",
        speed(totals.skeleton),
        speed(totals.bodies)
    );
    println!("{} statements, {n_refused} files refused", totals.n_stmts);
    Ok(())
}

fn check(source: &Source, totals: &mut Totals) -> Result<(), Vec<Diagnostic>> {
    let start = Instant::now();
    let module = parse::module(source)?;
    totals.skeleton.0 += source.text().len();
    totals.skeleton.1 += start.elapsed();
    module
        .variables()
        .try_for_each(|variable| initializer(source, variable))?;
    for range in module.functions().filter_map(|function| function.body) {
        let start = Instant::now();
        let body = parse::body(source, range)?;
        totals.bodies.0 += range.len() as usize;
        totals.bodies.1 += start.elapsed();
        totals.n_stmts += body.stmts.len();
        for stmt in &body.stmts {
            if let StmtKind::Variable(variable) = &stmt.kind {
                initializer(source, variable)?;
            }
        }
    }
    Ok(())
}

fn initializer(source: &Source, variable: &Variable) -> Result<(), Vec<Diagnostic>> {
    match variable.has_init() {
        true => parse::initializer(source, variable.init).map(drop),
        false => Ok(()),
    }
}
