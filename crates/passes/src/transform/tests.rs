//! What each pass promises, on small functions, and that none changes what functions compute.

mod control;
mod join_params;
mod meaning;
mod memory;
mod nans;
mod products;
mod values;
