//! ptxjit's tests.
