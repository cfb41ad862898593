//! Accesses as profiles see them.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::types::{Space, Type};

/// An access to memory that is about to be made; the operand is its address, as the access itself
/// has it.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct TraceOp {
    /// Its number in the program, see [`crate::Program::traced`].
    pub site: u32,
    /// State space of the address.
    pub space: Space,
    /// Added to the address.
    pub offset: i32,
    /// Type of the address: `B32` or `B64`.
    pub addr: Type,
    /// Bytes for each thread.
    pub bytes: u32,
    /// A read-modify-write.
    pub is_atomic: bool,
}

impl fmt::Display for TraceOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} bytes", self.site, self.bytes)
    }
}
