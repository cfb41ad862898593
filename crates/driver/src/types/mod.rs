//! Types of the driver API, laid out as `cuda.h` of CUDA 12.9 and 13 lays them out.
//!
//! Types, fields and constants keep C's names, without the prefix of an enumeration:
//! `CU_LIMIT_STACK_SIZE` is [`CUlimit::STACK_SIZE`]. A struct whose layout changed between versions
//! of CUDA says which one it is (`_v1`, `_v2`). Pointers in structs are plain addresses
//! ([`HostPtr`]), so that every type is data which any bytes may hold; only the exported functions
//! follow them. Sizes, offsets and values are compared with other bindings in `tests/layout.rs`.
#![expect(
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    reason = "names are those of cuda.h, so that a reader finds them in NVIDIA's documentation"
)]

pub mod raw;

pub mod copy;
pub mod device;
pub mod external;
pub mod graph;
pub mod handle;
pub mod launch;
pub mod memory;
pub mod module;
pub mod result;
pub mod stream;
pub mod texture;

pub use copy::*;
pub use device::*;
pub use external::*;
pub use graph::*;
pub use handle::*;
pub use launch::*;
pub use memory::*;
pub use module::*;
pub use raw::{Raw, Union};
pub use result::CUresult;
pub use stream::*;
pub use texture::*;
