//! Tries unary instructions and conversions over all their inputs, at every gang width, and prints
//! the largest errors beside the PTX ISA's bounds.
//!
//! `cargo run --release -p ptxjit-bench --example exhaustive -- [--all] [--part N] [--stride N]
//! [--gang N] [--threads N] [NAME…]`
//!
//! Inputs are all numbers of f16, bf16, the formats of 8, 6 and 4 bits and ue8m0, all integers of 8
//! to 32 bits, and all numbers of f32. The gang widths must give the same bytes. A `NAME` is a
//! group (`sin`, `cvt.f16.f32`) or how an instruction begins. The program ends with an error if a
//! bound is broken, a result is wrong, or gang widths differ.
//!
//! Three things would take a day and run over all inputs only with `--all`. Variants by `.ftz` and
//! `.sat`, and of `.rs` those by `.relu` and with random bits that are all equal, run over all
//! upper 21 bits of a number with four forms of the lower ones (`sweep::Inputs::Edges`). `sin` and
//! `cos` beyond 512, where the ISA promises nothing, run over a sixteenth of the numbers.
//!
//! `--part N` runs every N-th chunk of 65536 inputs, `--stride N` every N-th input, `--gang N` one
//! gang width.
//!
//! References are independent of the crates: lists of each format's values (`format`) and the
//! standard library's functions in f64. Instructions of two and three operands, by name or all as
//! `interp`, are compared with the interpreter on samples (`interp`).

#![expect(clippy::print_stdout, reason = "a program that prints a table")]

mod approx;
mod format;
mod forms;
mod from_f32;
mod from_int;
mod interp;
mod narrow;
mod sweep;

use std::process::ExitCode;
use std::time::Duration;

struct Args {
    /// Gang widths to run; results of the first are compared with the reference.
    gangs: Vec<u32>,
    stride: u32,
    /// Runs every so-many-th chunk of consecutive inputs.
    part: u32,
    /// Runs everything over all inputs, whatever it takes.
    all: bool,
    threads: usize,
    names: Vec<String>,
}

fn args() -> Args {
    let processors = std::thread::available_parallelism();
    let mut args = Args {
        gangs: vec![8, 1, 4, 16, 32],
        stride: 1,
        part: 1,
        all: false,
        threads: processors.map_or(1, |count| count.get()),
        names: Vec::new(),
    };
    let mut rest = std::env::args().skip(1);
    while let Some(arg) = rest.next() {
        let mut number = || {
            rest.next()
                .and_then(|text| text.parse().ok())
                .filter(|&number: &u32| number != 0)
                .expect("a number follows")
        };
        match arg.as_str() {
            "--gang" => args.gangs = vec![number()],
            "--stride" => args.stride = number(),
            "--part" => args.part = number(),
            "--all" => args.all = true,
            "--threads" => args.threads = number() as usize,
            _ => args.names.push(arg),
        }
    }
    args
}

/// A line of the table.
struct Row<'a> {
    name: &'a str,
    /// Which of the inputs, or how many instructions.
    what: &'a str,
    error: &'a str,
    bound: &'a str,
    wrong: u64,
    first: &'a str,
    gangs: &'a str,
    wall: Duration,
}

impl Args {
    fn print(&self, row: &Row) {
        let Row {
            name,
            what,
            error,
            bound,
            wrong,
            first,
            gangs,
            wall,
        } = row;
        let first = if first.is_empty() {
            String::new()
        } else {
            format!(", first {first}")
        };
        let seconds = wall.as_secs_f64();
        println!(
            "{name:22} {what:9} | {error} | bound {bound} | {wrong} wrong{first} | {gangs} | {seconds:.1} s"
        );
    }
}

fn main() -> ExitCode {
    let args = args();
    let mut good = true;
    good &= narrow::approximations(&args);
    let groups = narrow::groups()
        .into_iter()
        .chain(from_int::groups())
        .chain(from_f32::groups());
    for group in groups {
        good &= group.run(&args);
    }
    good &= approx::check(&args);
    good &= interp::check(&args);
    if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
