//! The device that the driver says it is, and what the environment asks of driver and devices.
//!
//! A [`Persona`] has the figures of a GPU: built-in ones go by a name, others are read from a TOML
//! file. [`Config`] is all that environment variables say, and lists the [`Device`]s, which
//! `libcuda.so.1` and `libnvidia-ml.so.1` both report, with the same names, UUIDs and order.
//! Nothing here executes or allocates anything.
#![forbid(unsafe_code)]

mod capability;
mod config;
mod device;
mod persona;
mod sanitize;
mod value;
mod visible;

pub use capability::{Capability, Limits};
pub use config::{Config, ModuleLoading, Schedule};
pub use device::Device;
pub use persona::Persona;
pub use sanitize::{FailOn, Report, ReportFormat, Sanitize};
