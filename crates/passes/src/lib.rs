//! Analyses and transformations of the IR.
