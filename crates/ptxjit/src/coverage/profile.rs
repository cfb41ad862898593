//! What kernels do, and what they ask of memory, by line: facts that follow from the program and
//! its inputs, not from the machine.

use std::collections::BTreeMap;

use ptxjit_frontend::translate::{FunctionStatements, Statement};
use ptxjit_ir::SrcLoc;
use ptxjit_runtime::Traffic;

use super::lines::Hits;
use super::{Counted, KernelCounts};

/// A kernel's work, over all its launches.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct KernelProfile {
    /// Its name in the PTX.
    pub name: String,
    /// The PTX file.
    pub file: String,
    /// How often it was launched, with how many CTAs in all.
    pub launches: u64,
    /// See [`KernelProfile::launches`].
    pub ctas: u64,
    /// CTAs whose accesses to memory were looked at.
    pub sampled_ctas: u64,
    /// Whether warps were counted, which they are where gangs are warps. If not, all figures but
    /// those of threads are zero.
    pub by_warps: bool,
    /// The work of all lines.
    pub total: Work,
    /// Lines that were run: those of sources, and of PTX where no `.loc` tells.
    pub lines: Vec<LineProfile>,
}

/// The work of a line.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct LineProfile {
    /// Its file.
    pub file: String,
    /// Its number.
    pub line: u32,
    /// The lines of the PTX file that it was compiled to.
    pub ptx: Vec<u32>,
    /// What it does.
    pub work: Work,
}

/// Counts of instructions are exact; what was asked of memory is that of the CTAs that were looked
/// at.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Work {
    /// Instructions that threads have executed.
    pub thread_instructions: u64,
    /// Instructions that warps have executed.
    pub warp_instructions: u64,
    /// Bytes that threads have asked memory for.
    pub bytes: u64,
    /// How often warps have waited at barriers.
    pub barriers: u64,
    /// Requests to memory.
    pub traffic: Traffic,
}

impl Work {
    /// Of the 32 lanes of a warp, how many were active in the mean.
    pub fn mean_active_lanes(&self) -> Option<f64> {
        quotient(self.thread_instructions, self.warp_instructions)
    }

    /// Adds other work.
    pub fn add(&mut self, other: &Work) {
        self.thread_instructions += other.thread_instructions;
        self.warp_instructions += other.warp_instructions;
        self.bytes += other.bytes;
        self.barriers += other.barriers;
        self.traffic.add(&other.traffic);
    }
}

/// One count for each of another, if there are any.
fn quotient(a: u64, b: u64) -> Option<f64> {
    (b > 0).then(|| a as f64 / b as f64)
}

/// What was traced at a statement: bytes for each thread, and requests.
#[derive(Copy, Clone, Default)]
struct Traced {
    bytes: u64,
    traffic: Traffic,
}

/// The profiles of all kernels that were launched.
pub(super) fn kernels<'a>(modules: impl Iterator<Item = &'a Counted>) -> Vec<KernelProfile> {
    let mut profiles = Vec::new();
    for module in modules {
        let functions = module.front.statements();
        for (name, kernel) in &module.kernels {
            profiles.push(of_kernel(module, &functions, name, kernel));
        }
    }
    profiles.sort_by(|a, b| (&a.name, &a.file).cmp(&(&b.name, &b.file)));
    profiles
}

fn of_kernel(
    module: &Counted,
    functions: &[FunctionStatements],
    name: &str,
    kernel: &KernelCounts,
) -> KernelProfile {
    let source = module.front.source();
    let mut traced: BTreeMap<SrcLoc, Traced> = BTreeMap::new();
    for (at, traffic) in kernel.program.traced.iter().zip(&kernel.traffic) {
        let sum = traced.entry(at.loc).or_default();
        sum.bytes += u64::from(at.bytes);
        sum.traffic.add(traffic);
    }
    let mut lines: BTreeMap<(String, u32), LineProfile> = BTreeMap::new();
    let (mut total, mut file) = (Work::default(), String::new());
    for function in functions {
        let file_of = source.file_name(source.file_at(function.loc.0));
        if function.name == name {
            file = file_of.to_owned();
        }
        for statement in &function.statements {
            let traced = traced.get(&statement.loc).copied().unwrap_or_default();
            let work = work(kernel, statement, &traced);
            if work == Work::default() {
                continue;
            }
            total.add(&work);
            let ptx = module.front.position(statement.loc).line;
            let place = match statement.stack.first().filter(|at| at.line > 0) {
                Some(at) => (at.file.clone(), at.line),
                None => (file_of.to_owned(), ptx),
            };
            let line = lines.entry(place.clone()).or_insert_with(|| LineProfile {
                file: place.0,
                line: place.1,
                ptx: Vec::new(),
                work: Work::default(),
            });
            line.work.add(&work);
            line.ptx.push(ptx);
        }
    }
    let mut lines: Vec<LineProfile> = lines.into_values().collect();
    for line in &mut lines {
        line.ptx.sort_unstable();
        line.ptx.dedup();
    }
    KernelProfile {
        name: name.to_owned(),
        file,
        launches: kernel.launches,
        ctas: kernel.ctas,
        sampled_ctas: kernel.sampled,
        by_warps: kernel.by_warps,
        total,
        lines,
    }
}

fn work(kernel: &KernelCounts, statement: &Statement, traced: &Traced) -> Work {
    let mut hits = Hits::default();
    if let Some(counters) = &kernel.program.counters {
        hits.add(kernel, counters, statement.loc);
    }
    let threads = hits.threads(statement);
    let warps = match kernel.by_warps {
        true => hits.reached[1],
        false => 0,
    };
    Work {
        thread_instructions: threads,
        warp_instructions: warps,
        bytes: threads * traced.bytes,
        barriers: match statement.is_barrier {
            true => warps,
            false => 0,
        },
        traffic: traced.traffic,
    }
}
