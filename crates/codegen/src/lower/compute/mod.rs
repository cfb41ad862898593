//! Instructions that access none of the program's memory.
//!
//! * `pure`: those without effects; `operands`: what they are emitted from; `lanes`, `divide`,
//!   `rare_cases`: those whose form depends on the operands
//! * `special`: windows and builtins; `stack`: the dynamic stack
//! * `shuffles`, `mma`: what warp operations are made of

mod divide;
mod lanes;
pub(super) mod mma;
mod operands;
mod pure;
mod rare_cases;
mod shuffles;
mod special;
mod stack;
