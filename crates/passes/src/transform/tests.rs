//! What each pass promises, on small functions, and that none changes what functions compute.

mod control;
mod factors;
mod halves;
mod meaning;
mod memory;
mod nans;
mod values;
