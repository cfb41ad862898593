//! The gang that runs and the program's values in it. Nothing here accesses the program's memory or
//! leads from one node to another.
//!
//! * `scope`: side paths, stack slots; `gang`: the gang that runs; `masks`: which lanes run
//! * `values`: values from definition to use, `predicates`: as bits, `subword`: with narrow lanes,
//!   `homes`: in the frame; `single_lane`: those of the only lane that runs
//! * `invariants`: what is computed once per CTA or gang, by `sregs`, `scalars` and `wrapped_index`
//! * `end_lanes`: what the first and the last lane tell of a predicate; `versions`: nodes for whole
//!   gangs

pub(super) mod end_lanes;
pub(super) mod gang;
mod homes;
mod invariants;
mod masks;
mod predicates;
mod scalars;
mod scope;
pub(super) mod single_lane;
mod sregs;
mod subword;
mod values;
mod versions;
mod wrapped_index;
