//! Screening: code that notices that a launch may have a race, or may use what was never written,
//! and says no more.
//!
//! Exact detectors run in the interpreter and are slow. Most launches have nothing to find, and
//! compiled code can tell so: a launch whose screening notices nothing is clean, and any other is
//! run once more, from the same memory, by the exact detectors. **Invariant**: screening may be
//! wrong in one direction only. It may suspect a clean launch, which costs time; it never lets one
//! pass that has a finding. Programs for which that cannot be kept are not [admitted](admits).
//!
//! ```text
//! program ── keep ──► optimized, with all its loads ── run ──► the same, with accesses to tables
//!         ── vectorize … ──► compiled code
//! ```
//!
//! What a launch is given [proves](prove) of most accesses that nothing need be looked at; only the
//! others are instrumented, and a launch without others runs as it is.
//!
//! **Tables.** Beside device memory and beside shared memory lie three tables with a *tag* of 32
//! bits for each *granule* of it ([`Screened::granule`] bytes, the smallest access of the program):
//! who wrote it last, who read it last, who changed it atomically last. A tag names CTA, *interval*
//! and thread; the barriers of a CTA separate its intervals. With `width` one more than the threads
//! of a CTA and `chunk` a multiple of it:
//!
//! ```text
//! first of CTA c = base + c * chunk      floor = first + interval * width
//! own tag = floor + thread               MANY = floor + threads
//! ```
//!
//! Tags of earlier launches are below `base`, so tables need no clearing. Two accesses, one of them
//! a write, are ordered if the same thread makes them, or if they are in one CTA with a barrier
//! between: that is a comparison of the tag that is found with `base`, `first`, `floor` and the
//! thread's own. All other order (fences, atomics, barriers of warps) is not known here, so code
//! that relies on it is suspected. Of several readers in an interval the table keeps `MANY`, of
//! readers in several CTAs any: a later writer is in conflict with one of them.
//!
//! Lanes of one instruction that access one granule are found by reading back what was stored.
//!
//! The instrumentation is ordinary IR, so every gang width runs it, and a granule's tags lie as its
//! data lie: where an access is contiguous, so are those to the tables.

mod access;
mod admit;
mod emit;
mod instrument;
mod kernel;
mod loads;
mod locals;
mod marks;
mod params;
mod place;
mod prove;
mod tags;
mod uniform;

pub use admit::{Wanted, admits};
pub use instrument::{Screened, run};
pub use kernel::Kernel;
pub use loads::{Kept, keep};
pub use marks::keep_copies;
pub use params::Params;
pub use prove::{Launched, Needs, Unproven};
pub use tags::UNWRITTEN;
