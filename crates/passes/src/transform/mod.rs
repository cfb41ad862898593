//! Changes to a function, one pass per file. Each says whether it changed something.

pub mod address_fold;
pub mod canonical_nans;
pub mod cfg_cleanup;
pub mod compact;
pub mod dce;
pub mod gather_products;
pub mod gvn;
pub mod if_convert;
pub mod inline;
pub mod join_params;
pub mod licm;
pub mod narrow_windows;
pub mod remove_constant_params;
pub mod rewrite;
pub mod simplify;
pub mod sroa;
mod ssa;
#[cfg(test)]
mod tests;
pub mod trace;
pub mod transposed_factors;
pub mod wide_division;
