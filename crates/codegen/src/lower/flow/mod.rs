//! How gangs and their lanes go from node to node.
//!
//! * `gangs`: the loops over gangs; `stop_states`: where gangs have stopped
//! * `waits`: suspending and resuming; `suspend`, `shadow_frame`: what is saved; `warp`: warp
//!   operations that wait, and those that need not
//! * `control`: branches and joins
//! * `lane_loop`: nodes for one lane after the other

mod control;
pub(super) mod gangs;
pub(super) mod lane_loop;
mod shadow_frame;
pub(super) mod stop_states;
mod suspend;
mod waits;
mod warp;
