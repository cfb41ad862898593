//! Tests of the interpreter on programs built by hand.
