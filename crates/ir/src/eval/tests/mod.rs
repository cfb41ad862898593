//! Tests of the op semantics.
