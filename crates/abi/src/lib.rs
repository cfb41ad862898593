//! The contract between compiled code and the runtime that calls it.
//!
//! # Running a CTA
//!
//! A *gang* is `G` consecutive threads (by linear index) of a CTA; a CTA of `n` threads has `ceil(n
//! / G)` gangs. Compiled code is one function per kernel variant, entered as `enter(cta, state,
//! first_gang, end_gang)`: for each gang in the range whose mask in [`CtaContext::masks`] is not
//! zero it resumes the lanes of the mask at `state` (0 is the kernel's entry, others index
//! [`CompiledKernel::resume_points`]), and runs them until each has ended or waits.
//!
//! * A lane that waits has stored its live values in its *context slots* and the number of its
//!   resume point in
//!   `lane_states[thread]`. If fewer lanes waited together than the mask the gang was entered with,
//!   [`LaneState::PARTIAL`] is or-ed to the number.
//! * A lane that ended has `lane_states[thread] == LaneState::EXITED`.
//! * If all lanes that a gang was entered with stopped together, their common state is in
//!   `gang_states[gang]` instead: none has a state of
//!   its own then, and values that are the same for all of them are only in the slot of the first,
//!   see [`ResumePoint::shared`]. Else `gang_states[gang]` is [`LaneState::DIVERGED`].
//! * Code [for whole gangs only](CompiledKernel::whole_gangs) is entered with ranges all of whose
//!   gangs have all of their lanes.
//! * If all gangs of the range stopped so at one state for which `go_on[state]` is not zero, the
//!   code resumes them there
//!   itself, instead of returning.
//! * Lanes may be resumed together only if their resume point is the same and their slots listed in
//!   [`ResumePoint::uniforms`] hold equal bytes. That is certain for lanes of one gang that waited
//!   without `PARTIAL`.
//! * What a lane waits for is the business of the runtime: it reads operands from slots, writes
//!   results to slots, and
//!   enters the lanes again at the same number. `Ready` and `Yield` points may be entered at once.
//!
//! Where no lane can ever wait (there is one resume point, the entry), lane states are not written:
//! all lanes have ended when the code returns.
//!
//! The stack is at a multiple of 64 where it is called: nothing depends on it but that vectors
//! saved there do not cross cache lines.
//!
//! The return value is 0, or 1 if the CTA must stop: then the `fault_*` fields say why. A hardware
//! fault (an access to an unmapped page of the arena) shows as a signal whose pc lies in
//! [`CompiledKernel::code`].
//!
//! # Slots
//!
//! Each gang has a frame of `frame_size` bytes at `slots + gang * frame_size`. A slot at `offset`
//! holds `G` elements side by side: 8 bytes each for `B64`, else 4 bytes each (a `B1` is 0 or all
//! ones, narrow values are zero-extended).

mod context;
mod facts;
mod float_env;
mod kernel;
pub mod mma;
pub mod object;
mod resume;
pub mod warp_ops;

pub use context::{
    COUNTER_WORDS, CtaContext, DEVICE_VALUE_BYTES, EnterFn, FaultKind, IDLE_OFFSET, LaneState,
    RuntimeFns, TRACE_WARPS,
};
pub use facts::{Facts, MOST_THREADS};
pub use float_env::with_default_rounding;
pub use kernel::{CompileStats, CompiledKernel, Placed, SlowForm, SymbolRef};
pub use resume::{Operand, ResumeKind, ResumePoint};
