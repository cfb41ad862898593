//! The order of the passes.
//!
//! [`optimize`] takes a program as translated and leaves it small and plain, for the vectorizer:
//! functions are inlined where they can be, variables are values, equal things are computed once.
//! In debug builds and tests the verifier runs after each pass and names the pass that it blames.

use std::time::{Duration, Instant};

use ptxjit_ir::{FuncId, Function, Program, verify};

use crate::analysis::call_graph;
use crate::effort::{Effort, Spent};
use crate::transform::{
    address_fold, canonical_nans, cfg_cleanup, compact, dce, gather_products, gvn, if_convert,
    inline, join_params, licm, narrow_windows, remove_constant_params, simplify, sroa,
    transposed_factors, wide_division,
};

/// What [`optimize`] may do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Size that one function may grow to by inlining.
    pub inline_budget: usize,
    /// By how much all functions may grow in all. A function that calls another twice, which calls
    /// a third one twice, grows with the power of their number, and all in between are optimized.
    pub growth_budget: usize,
    /// Run the verifier after each pass.
    pub verify: bool,
    /// When to give up.
    pub until: Option<Instant>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            inline_budget: 200_000,
            growth_budget: 600_000,
            verify: cfg!(debug_assertions),
            until: None,
        }
    }
}

/// What happened.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Time spent in each pass, in the order of first use.
    pub timings: Vec<(&'static str, Duration)>,
    /// Direct calls that were inlined.
    pub n_inlined: usize,
}

/// Called after each pass with its name and the function that it changed.
pub type Observer<'a> = dyn FnMut(&'static str, FuncId, &Function) + 'a;

/// Optimizes a program. `observer`, if any, sees every function after every pass. If the time runs
/// out, the program is of no more use.
pub fn optimize(
    program: &mut Program,
    options: &Options,
    observer: Option<&mut Observer<'_>>,
) -> Result<Report, Spent> {
    let mut run = Run {
        options,
        observer,
        report: Report::default(),
        effort: Effort::new(u64::MAX, options.until),
        growth_left: options.growth_budget,
    };
    let graph = call_graph::run(program);
    for &id in &graph.bottom_up {
        run.inline(program, id, &graph.recursive)?;
        run.function(program, id)?;
    }
    let reachable = call_graph::reachable(program);
    program.functions.retain(|id, _| reachable.contains(id));
    for id in reachable {
        run.pass(&CANONICAL_NANS, program, id, &Facts::of(program))?;
    }
    Ok(run.report)
}

/// The names of the passes, in the order of first use.
pub fn pass_names() -> Vec<&'static str> {
    let mut names = vec![INLINE];
    for step in PASSES {
        let passes = match step {
            Step::Once(pass) => std::slice::from_ref(pass),
            Step::UntilStable(passes) => passes,
        };
        for pass in passes {
            if !names.contains(&pass.name) {
                names.push(pass.name);
            }
        }
    }
    names.push(CANONICAL_NANS.name);
    names
}

const INLINE: &str = "inline";

struct Pass {
    name: &'static str,
    run: fn(&mut Function, &Facts) -> bool,
}

/// What passes know of the program beside the function.
struct Facts {
    param_bytes: u32,
}

impl Facts {
    fn of(program: &Program) -> Facts {
        let ends = program.params.iter().map(|param| param.offset + param.size);
        Facts {
            param_bytes: ends.max().unwrap_or(0),
        }
    }
}

enum Step {
    Once(Pass),
    /// The passes in turn, until the first one finds nothing to do.
    UntilStable(&'static [Pass]),
}

const fn pass(name: &'static str, run: fn(&mut Function, &Facts) -> bool) -> Pass {
    Pass { name, run }
}

const CFG_CLEANUP: Pass = pass("cfg_cleanup", |func, _| cfg_cleanup::run(func));
const REMOVE_CONSTANT_PARAMS: Pass = pass("remove_constant_params", |func, _| {
    remove_constant_params::run(func)
});
const SIMPLIFY: Pass = pass("simplify", |func, _| simplify::run(func));
const SROA: Pass = pass("sroa", |func, _| sroa::run(func));
const GVN: Pass = pass("gvn", |func, _| gvn::run(func));
const DCE: Pass = pass("dce", |func, _| dce::run(func));
const WIDE_DIVISION: Pass = pass("wide_division", |func, _| wide_division::run(func));
const IF_CONVERT: Pass = pass("if_convert", |func, _| if_convert::run(func));
const LICM: Pass = pass("licm", |func, facts| licm::run(func, facts.param_bytes));
const JOIN_PARAMS: Pass = pass("join_params", |func, _| join_params::run(func));
const TRANSPOSED_FACTORS: Pass = pass("transposed_factors", |func, _| {
    transposed_factors::run(func)
});
const GATHER_PRODUCTS: Pass = pass("gather_products", |func, _| gather_products::run(func));
const NARROW_WINDOWS: Pass = pass("narrow_windows", |func, _| narrow_windows::run(func));
const ADDRESS_FOLD: Pass = pass("address_fold", |func, _| address_fold::run(func));
const COMPACT: Pass = pass("compact", |func, _| {
    compact::run(func);
    false
});

/// The last pass, over the functions that remain: what it puts at the ends of a function would
/// stand in the way of one that inlines it.
const CANONICAL_NANS: Pass = pass("canonical_nans", |func, _| canonical_nans::run(func));

/// What happens to each function after its callees were inlined.
const PASSES: &[Step] = &[
    // Translation makes a parameter for every register that lives around a label.
    Step::Once(CFG_CLEANUP),
    Step::Once(REMOVE_CONSTANT_PARAMS),
    Step::Once(SIMPLIFY),
    Step::Once(DCE),
    // Addresses in slots become constants only when the slots that hold them are gone.
    Step::UntilStable(&[SROA, REMOVE_CONSTANT_PARAMS, SIMPLIFY, DCE]),
    Step::Once(CFG_CLEANUP),
    Step::Once(GVN),
    Step::Once(REMOVE_CONSTANT_PARAMS),
    Step::Once(SIMPLIFY),
    Step::Once(CFG_CLEANUP),
    Step::UntilStable(&[WIDE_DIVISION, CFG_CLEANUP]),
    Step::UntilStable(&[IF_CONVERT, CFG_CLEANUP]),
    Step::Once(JOIN_PARAMS),
    Step::Once(NARROW_WINDOWS),
    Step::Once(SIMPLIFY),
    // The pieces of joined parameters: a factor that they use is not a product's alone.
    Step::Once(DCE),
    Step::Once(GVN),
    Step::Once(TRANSPOSED_FACTORS),
    Step::Once(GATHER_PRODUCTS),
    Step::Once(LICM),
    // Blocks in front of loops have parameters, which hide what a branch there says of its
    // operands.
    Step::Once(REMOVE_CONSTANT_PARAMS),
    Step::Once(ADDRESS_FOLD),
    // Addresses that differ by a constant only are equal now.
    Step::Once(GVN),
    Step::Once(DCE),
    Step::Once(CFG_CLEANUP),
    Step::Once(COMPACT),
];

/// How often an `UntilStable` step is repeated at most.
const MAX_ROUNDS: u32 = 6;

struct Run<'a, 'o> {
    options: &'a Options,
    observer: Option<&'a mut Observer<'o>>,
    report: Report,
    effort: Effort,
    /// What is left of [`Options::growth_budget`].
    growth_left: usize,
}

impl Run<'_, '_> {
    fn inline(
        &mut self,
        program: &mut Program,
        id: FuncId,
        recursive: &std::collections::BTreeSet<FuncId>,
    ) -> Result<(), Spent> {
        let start = Instant::now();
        let before = inline::size(&program.functions[&id]);
        let n = inline::run(
            program,
            id,
            &|callee| !recursive.contains(&callee),
            (before + self.growth_left).min(self.options.inline_budget),
        );
        let after = inline::size(&program.functions[&id]);
        self.growth_left -= (after - before).min(self.growth_left);
        self.report.n_inlined += n;
        self.after(INLINE, start.elapsed(), program, id)
    }

    fn function(&mut self, program: &mut Program, id: FuncId) -> Result<(), Spent> {
        let facts = Facts::of(program);
        for step in PASSES {
            match step {
                Step::Once(pass) => {
                    self.pass(pass, program, id, &facts)?;
                }
                Step::UntilStable(passes) => {
                    for _ in 0..MAX_ROUNDS {
                        let changed = self.pass(&passes[0], program, id, &facts)?;
                        if !changed {
                            break;
                        }
                        for pass in &passes[1..] {
                            self.pass(pass, program, id, &facts)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn pass(
        &mut self,
        pass: &Pass,
        program: &mut Program,
        id: FuncId,
        facts: &Facts,
    ) -> Result<bool, Spent> {
        let func = program
            .functions
            .get_mut(&id)
            .expect("passes keep the function");
        let start = Instant::now();
        let changed = (pass.run)(func, facts);
        self.after(pass.name, start.elapsed(), program, id)?;
        Ok(changed)
    }

    fn after(
        &mut self,
        name: &'static str,
        time: Duration,
        program: &Program,
        id: FuncId,
    ) -> Result<(), Spent> {
        match self
            .report
            .timings
            .iter_mut()
            .find(|(known, _)| *known == name)
        {
            Some((_, total)) => *total += time,
            None => self.report.timings.push((name, time)),
        }
        let func = &program.functions[&id];
        if self.options.verify
            && let Err(errors) = verify::function(func, Some(program))
        {
            let text = ptxjit_ir::print::function(func);
            unreachable!("pass `{name}` broke `{}`: {}\n{text}", func.name, errors[0]);
        }
        if let Some(observer) = &mut self.observer {
            observer(name, id, func);
        }
        self.effort.check_time()
    }
}
