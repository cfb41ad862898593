//! A program that can be screened, and what is known of it whatever the launch.

use std::collections::BTreeMap;

use ptxjit_ir::{Program, Space, VarId};

use super::admit::{self, Wanted};
use super::instrument::{self, Screened};
use super::loads::Kept;
use super::marks;
use super::prove::{self, Launched, Needs, Plan, Unproven};

/// See the module.
#[derive(Debug)]
pub struct Kernel {
    program: Program,
    kept: Kept,
    wanted: Wanted,
    must_prove: bool,
    plan: Result<Plan, Unproven>,
}

impl Kernel {
    /// A program that is [admitted](super::admits) and was optimized with all its loads
    /// [kept](super::keep).
    pub fn new(program: Program, kept: Kept, wanted: Wanted) -> Kernel {
        let func = &program.functions[&program.entry];
        let unsure = admit::unsure(func, wanted);
        let must_prove = !unsure.is_empty() || marks::has_copies(func);
        let plan = Plan::of(&program, unsure);
        Kernel {
            program,
            kept,
            wanted,
            must_prove,
            plan,
        }
    }

    /// Launches of which nothing is proven cannot be screened: it has copies, which instrumented
    /// code does not know, or threads must meet where they may have diverged.
    pub fn must_prove(&self) -> bool {
        self.must_prove
    }

    /// The variables whose addresses a launch must tell.
    pub fn placed_vars(&self) -> Vec<VarId> {
        let vars: &BTreeMap<_, _> = &self.program.vars;
        let is_placed = |space: Space| matches!(space, Space::Global | Space::Const);
        let placed = vars.iter().filter(|(_, var)| is_placed(var.space));
        placed.map(|(&id, _)| id).collect()
    }

    /// Only launches with whole warps can be screened.
    pub fn needs_whole_warps(&self) -> bool {
        let func = &self.program.functions[&self.program.entry];
        admit::needs_whole_warps(func, self.wanted)
    }

    /// What must be checked of a launch, if not everything must.
    pub fn prove(&self, launched: &Launched<'_>) -> Result<Needs, Unproven> {
        let plan = self.plan.as_ref().map_err(|&why| why)?;
        prove::run(&self.program, plan, &self.kept, self.wanted, launched)
    }

    /// The program with instrumentation for such needs, or for everything.
    pub fn screened(&self, needs: Option<&Needs>) -> Screened {
        instrument::run(self.program.clone(), &self.kept, self.wanted, needs)
    }
}
