//! What the vectorizer makes of a kernel, before any code is emitted for it.

use ptxjit_ir::{Block, Function, Program, SharedLayout};
use ptxjit_passes::effort::Effort;
use ptxjit_vectorize::{self as vectorize, Plan, PlanFacts};

use crate::calls;
use crate::compile::{CompileError, CompileOptions, checked_gang, effort};
use crate::limits;
use crate::slots;

/// The one function of a kernel and its plan.
pub(crate) struct Planned {
    pub function: Function,
    /// The blocks that are entered by state.
    pub entries: Vec<Block>,
    pub plan: Plan,
}

/// Who is to run the plan.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(crate) enum Runs {
    /// Code of our own, in which places of variables are numbers.
    Code,
    /// An interpreter, which places variables itself; in clusters it adds where a CTA's part
    /// begins.
    Interpreter,
}

/// A program with the kernel's one function alone, and its plan, for an interpreter of plans.
pub fn plan(program: &Program, options: &CompileOptions) -> Result<(Program, Plan), CompileError> {
    let gang = checked_gang(program, options)?;
    let shared = SharedLayout::new(program);
    let effort = effort(gang, options.goes_on, options.until);
    let made = planned(
        program,
        options,
        gang,
        (&shared, Runs::Interpreter),
        &effort,
    )?;
    let mut program = program.clone();
    program.functions = [(program.entry, made.function)].into_iter().collect();
    Ok((program, made.plan))
}

/// Merges calls, fixes places and plans.
pub(crate) fn planned(
    program: &Program,
    options: &CompileOptions,
    gang: u32,
    (shared, runs): (&SharedLayout, Runs),
    effort: &Effort,
) -> Result<Planned, CompileError> {
    let calls::Merged {
        mut function,
        entries,
    } = calls::merge(program)?;
    let in_cluster = options.facts.clusters;
    if in_cluster && runs == Runs::Code {
        slots::in_cluster(&mut function, shared);
    }
    if entries.is_empty() && (!in_cluster || runs == Runs::Code) {
        slots::fix(&mut function, shared);
    }
    let facts = PlanFacts {
        one_dimensional: options.facts.one_dimensional,
        whole_rows: options.facts.whole_rows,
        small_grid: options.facts.small_grid,
        small_ctaid: options.facts.small_ctaid,
        keeps_accesses: options.memcheck || options.keeps_accesses,
        switches: options.switches,
    };
    let plan = vectorize::run(&mut function, &entries, gang, facts, effort)?;
    if gang > 1 && !options.goes_on {
        limits::check_pending(&plan)?;
    }
    limits::check_waits(&plan)?;
    Ok(Planned {
        function,
        entries,
        plan,
    })
}
