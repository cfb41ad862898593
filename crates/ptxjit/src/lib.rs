//! Runs CUDA-compiled PTX on CPUs.
//!
//! A [`Device`] owns memory, a [`Module`] is a PTX file on it, a [`Kernel`] of the module is
//! launched with [`Buffer`]s and numbers. Kernels are compiled to native code that advances a gang
//! of CUDA threads with each vector instruction; barriers, warp operations, atomics, device
//! `printf` and the like do what they do on a GPU.
//!
//! ```
//! use ptxjit::{Device, Module};
//!
//! let ptx = r#"
//!     .version 7.0
//!     .target sm_80
//!     .address_size 64
//!     .visible .entry twice(.param .u64 data, .param .u32 count)
//!     {
//!         .reg .pred %p;
//!         .reg .b32 %r<5>;
//!         .reg .b64 %rd<3>;
//!         mov.u32 %r0, %ctaid.x;
//!         mov.u32 %r1, %ntid.x;
//!         mov.u32 %r2, %tid.x;
//!         mad.lo.u32 %r0, %r0, %r1, %r2;
//!         ld.param.u32 %r3, [count];
//!         setp.ge.u32 %p, %r0, %r3;
//!         @%p ret;
//!         ld.param.u64 %rd0, [data];
//!         mul.wide.u32 %rd1, %r0, 4;
//!         add.u64 %rd2, %rd0, %rd1;
//!         ld.global.u32 %r4, [%rd2];
//!         shl.b32 %r4, %r4, 1;
//!         st.global.u32 [%rd2], %r4;
//!         ret;
//!     }
//! "#;
//! let device = Device::new()?;
//! let module = Module::from_source(&device, "twice.ptx", ptx)?;
//! let data = device.alloc_from(&[1u32, 2, 3, 4, 5])?;
//! module.kernel("twice")?.launch().grid(2).block(4).arg(&data).arg(5u32).run()?;
//! assert_eq!(data.read()?, [2, 4, 6, 8, 10]);
//! # Ok::<(), ptxjit::Error>(())
//! ```
//!
//! What is wrong with a module, or with a launch, comes as an [`Error`] that tells the place in the
//! PTX; the process and later launches are not affected. All types can be used from several threads
//! at once.

#![warn(missing_docs)]

mod arg;
mod buffer;
mod cache;
mod check;
mod compile;
pub mod coverage;
mod device;
mod diagnostic;
mod documents;
mod dry;
mod element;
mod error;
mod failure;
mod global;
mod host;
mod image;
mod improve;
mod interp;
pub mod isa;
mod joined;
mod launch;
mod linker;
mod module;
mod names;
mod once;
mod options;
mod raw;
mod recording;
pub mod sanitize;
mod schedule;
mod screen;
mod suppress;
mod tensor_map;
mod texture;
mod virt;

pub use arg::Arg;
pub use buffer::Buffer;
pub use cache::{Cache, CacheUsage};
pub use check::{Outline, check, check_bytes, check_text};
pub use compile::{CodeOrigin, dump_stages};
pub use device::Device;
pub use diagnostic::{Diagnostic, Diagnostics, ERROR_LIMIT, Severity};
pub use element::Element;
pub use error::{CompileObstacle, Error, ErrorKind, Shortage, UsageRule};
pub use failure::{FailureKind, LaunchFailure};
pub use global::Global;
pub use launch::{CompileStages, Launch, LaunchStats, Prepared};
pub use linker::{Linker, link};
pub use module::{Kernel, KernelUsage, Module, Param, Target};
pub use ptxjit_runtime::{Access, CancelToken, Pattern, PeerGuard, ShapeRule};

pub use image::{ChannelType, Image, ImageBuilder, Shape};
pub use tensor_map::{ElementType, TensorMap, TensorMapBuilder};
pub use texture::{Binding, Sampler, SamplerBuilder, Surface, Texture, TextureBuilder};

pub use options::{Dim3, Engine, Options, OutputFn};
pub use ptxjit_frontend::escape::{escape, escape_lines};
pub use ptxjit_frontend::parse::NEWEST_VERSION;
pub use recording::Recording;
pub use schedule::{NoSchedule, Schedule};
pub use virt::PhysicalMemory;
