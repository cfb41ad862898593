//! Tests of the op semantics.

mod formats;
mod ints;
mod specials;
mod total;
mod vectors;
