//! Changes to a function.
