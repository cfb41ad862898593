//! Tests of the op semantics.

mod vectors;
