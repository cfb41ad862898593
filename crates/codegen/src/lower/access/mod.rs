//! Accesses to memory.
//!
//! * `places`: the tested address of an access; `address`, `bounds`, `exact`: how it is found and
//!   tested; `proven`: tests of whole CTAs; `faults`: how accesses fail
//! * `loads`, `stores`, `subword_access`, of narrow elements: which form an access takes by its
//!   address; `forms`: every form, made of `whole`, `gathers` and
//!   `transfers`; `speculated`: where addresses are
//!   contiguous as speculated; `rows`: where they are those of rows of tiles; `masked_loads`: loads
//!   of some lanes; `copies`: a load and the store of what it gives
//! * `atomics`, `updates`, `cas_loops`, `privatize`: atomics
//! * `prefetch`: hints

mod address;
mod atomics;
mod bounds;
mod cas_loops;
mod copies;
mod counted;
mod cta_branches;
mod exact;
pub(super) mod faults;
pub(super) mod forms;
mod gathers;
pub(super) mod known;
mod loads;
mod masked_loads;
mod places;
pub(super) mod prefetch;
pub(super) mod privatize;
mod proven;
mod rows;
mod speculated;
mod stores;
mod subword_access;
mod transfers;
mod updates;
mod whole;
