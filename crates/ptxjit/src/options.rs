//! How a launch is carried out, as opposed to what it computes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ptxjit_interp::Checks;
use ptxjit_runtime::CancelToken;

use crate::coverage::Coverage;
use crate::recording::Recording;
use crate::schedule::Schedule;

/// Sizes of a grid, a cluster or a block: x, y and z.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Dim3(pub [u32; 3]);

impl From<u32> for Dim3 {
    fn from(x: u32) -> Dim3 {
        Dim3([x, 1, 1])
    }
}

impl From<(u32, u32)> for Dim3 {
    fn from((x, y): (u32, u32)) -> Dim3 {
        Dim3([x, y, 1])
    }
}

impl From<(u32, u32, u32)> for Dim3 {
    fn from((x, y, z): (u32, u32, u32)) -> Dim3 {
        Dim3([x, y, z])
    }
}

impl From<[u32; 3]> for Dim3 {
    fn from(dims: [u32; 3]) -> Dim3 {
        Dim3(dims)
    }
}

impl Dim3 {
    /// The product of the three.
    pub fn count(self) -> u64 {
        self.0
            .iter()
            .fold(1u64, |count, &n| count.saturating_mul(u64::from(n)))
    }
}

/// What executes a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Engine {
    /// Native code that advances a gang of lanes at a time.
    #[default]
    Jit,
    /// The interpreter: one thread at a time, slowly and plainly. It exists to be compared with.
    Interp,
    /// The interpreter, gang by gang as the vectorizer has planned the kernel. A launch fails if
    /// the plan claims what is not so. For tests of the vectorizer.
    #[doc(hidden)]
    Plan,
}

/// Takes what device code prints.
pub type OutputFn = dyn Fn(&[u8]) + Send + Sync;

/// How to carry out launches. The defaults suit most programs.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Options {
    /// Lanes that one vector operation advances (1, 4, 8, 16 or 32); chosen per kernel if none.
    /// Results do not depend on it.
    pub gang: Option<u32>,
    /// Threads of the host to use; all of the device's if none.
    pub threads: Option<usize>,
    /// The launch fails after this time.
    pub timeout: Option<Duration>,
    /// The launch fails as soon as this is cancelled.
    pub cancel: Option<CancelToken>,
    /// Check each access for exact bounds, alignment and freed memory.
    pub memcheck: bool,
    /// What to look for while the kernel runs. With anything but [`Checks::mem`] the interpreter
    /// runs it, unless [screening](crate::LaunchStats::is_screened) is enough; see
    /// [`Launch::report`](crate::Launch::report).
    pub sanitize: Checks,
    /// Order of progress.
    pub schedule: Schedule,
    /// Takes the choices of the schedule; the launch is interpreted.
    pub record: Option<Recording>,
    /// Whose choices the launch makes, whatever its own schedule; it is interpreted.
    pub replay: Option<Recording>,
    /// Interpret, and keep who wrote each word of device memory last, for
    /// [`Prepared::last_write`](crate::Prepared::last_write).
    pub keep_writes: bool,
    /// Takes what launches have run. Unless [`Options::gang`] says otherwise, gangs are warps if it
    /// also wants to know what these do.
    pub coverage: Option<Coverage>,
    /// What executes.
    pub engine: Engine,
    /// Finish compiling before the launch. Otherwise the launch of a large kernel starts with code
    /// that was made in a hurry and is improved beside it.
    pub eager: bool,
    /// For `dump`: heuristics of the vectorizer to switch off, as `-NAME,-NAME`.
    #[doc(hidden)]
    pub passes: String,
    /// Takes the output of device `printf`; standard output if none.
    pub output: Option<Arc<OutputFn>>,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("gang", &self.gang)
            .field("threads", &self.threads)
            .field("timeout", &self.timeout)
            .field("memcheck", &self.memcheck)
            .field("schedule", &self.schedule)
            .field("engine", &self.engine)
            .field("eager", &self.eager)
            .finish_non_exhaustive()
    }
}
