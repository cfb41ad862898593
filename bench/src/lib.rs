//! ptxjit's bench.
