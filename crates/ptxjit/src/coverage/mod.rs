//! What launches have run: which lines, which sides of conditions, by how many threads and warps.
//!
//! A [`Coverage`] among the [`Options`](crate::Options) of launches adds up what all of them have
//! run, in whatever modules; [`Coverage::files`] tells it by line. Threads are counted in any
//! engine and at any gang width, with the same numbers. What warps do is known only where a gang is
//! one.

mod lines;
mod profile;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use ptxjit_abi::COUNTER_WORDS;
use ptxjit_frontend::translate;
use ptxjit_ir::Program;
use ptxjit_runtime::sampled_ctas;

use crate::Kernel;
use crate::module::{ModuleInner, Tells};

pub use lines::{Condition, ConditionKind, File, FileKind, Function, Line, Warps};
pub use profile::{KernelProfile, LineProfile, Work};
pub use ptxjit_runtime::{Served, Traffic};

/// What a counter has counted, see [`COUNTER_WORDS`].
type Count = [u64; COUNTER_WORDS];

/// Adds up what launches have run. Clones share what they have.
#[derive(Clone, Default)]
pub struct Coverage {
    counts_warps: bool,
    traces: bool,
    modules: Arc<Mutex<BTreeMap<ModuleId, Counted>>>,
}

/// Names of a module's files, and a hash of their texts.
type ModuleId = (Vec<String>, String);

/// What was counted in a module.
struct Counted {
    front: Arc<translate::Module>,
    /// By kernel.
    kernels: BTreeMap<String, KernelCounts>,
}

struct KernelCounts {
    /// Tells what the counters are about.
    program: Arc<Program>,
    counts: Vec<Count>,
    /// Warps were counted in all launches.
    by_warps: bool,
    /// By number of the traced access.
    traffic: Vec<Traffic>,
    launches: u64,
    ctas: u64,
    /// CTAs whose accesses were looked at.
    sampled: u64,
}

impl KernelCounts {
    fn count(&self, counter: u32) -> Count {
        let count = self.counts.get(counter as usize).copied();
        count.unwrap_or_default()
    }
}

impl Coverage {
    /// Takes threads, and what warps do only if that costs nothing: the gang width is chosen as
    /// ever.
    pub fn of_threads() -> Coverage {
        Coverage::default()
    }

    /// Takes threads and warps: gangs are warps, unless the width is given.
    pub fn of_warps() -> Coverage {
        Coverage {
            counts_warps: true,
            ..Coverage::default()
        }
    }

    /// Takes threads, warps and what these ask of memory: gangs are warps.
    pub fn of_memory() -> Coverage {
        Coverage {
            counts_warps: true,
            traces: true,
            ..Coverage::default()
        }
    }

    pub(crate) fn counts_warps(&self) -> bool {
        self.counts_warps
    }

    pub(crate) fn tells(&self) -> Tells {
        match self.traces {
            true => Tells::Traces,
            false => Tells::Counts,
        }
    }

    /// Of a module that is used, all lines are told, also of kernels that are never launched.
    pub(crate) fn register(&self, module: &ModuleInner) {
        self.with(module, |_| {});
    }

    /// Adds what a launch has counted.
    pub(crate) fn add(
        &self,
        kernel: &Kernel,
        (counts, traffic): (&[Count], Option<&[Traffic]>),
        n_ctas: u64,
        by_warps: bool,
    ) {
        // It was translated before it ran.
        let Ok(program) = kernel.inner.program() else {
            return;
        };
        self.with(&kernel.module, |module| {
            let name = kernel.inner.name.clone();
            let sums = module.kernels.entry(name).or_insert_with(|| KernelCounts {
                program,
                counts: vec![[0; COUNTER_WORDS]; counts.len()],
                by_warps: true,
                traffic: Vec::new(),
                launches: 0,
                ctas: 0,
                sampled: 0,
            });
            sums.launches += 1;
            sums.ctas += n_ctas;
            if let Some(traffic) = traffic {
                sums.sampled += sampled_ctas(n_ctas);
                sums.traffic.resize(traffic.len(), Traffic::default());
                let pairs = sums.traffic.iter_mut().zip(traffic);
                pairs.for_each(|(sum, more)| sum.add(more));
            }
            sums.by_warps &= by_warps;
            for (sum, count) in sums.counts.iter_mut().zip(counts) {
                for (sum, n) in sum.iter_mut().zip(count) {
                    *sum = sum.saturating_add(*n);
                }
            }
        });
    }

    fn with(&self, module: &ModuleInner, act: impl FnOnce(&mut Counted)) {
        let source = module.front.source();
        let files = (0..source.n_files()).map(|file| source.file_name(file).to_owned());
        let id = (files.collect(), module.text_hash());
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        act(modules.entry(id).or_insert_with(|| Counted {
            front: module.front.clone(),
            kernels: BTreeMap::new(),
        }));
    }

    /// What was run so far, by file: the PTX files, then those that they were compiled from, in the
    /// order of their names.
    pub fn files(&self) -> Vec<File> {
        let modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        lines::files(modules.values())
    }

    /// What kernels were made to do and asked of memory, in the order of their names.
    pub fn profiles(&self) -> Vec<KernelProfile> {
        let modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        profile::kernels(modules.values())
    }
}

impl fmt::Debug for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coverage")
            .field("counts_warps", &self.counts_warps)
            .finish_non_exhaustive()
    }
}
