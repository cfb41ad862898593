//! Values of attributes, which come in several sizes.

use crate::error::Result;
use crate::host;

/// The value of an attribute.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// A `bool` of C++, one byte.
    Bool(bool),
    /// An `int`, `unsigned int` or enumeration.
    Int(i32),
    /// An address, a handle or a number of bytes.
    Long(u64),
    /// A number and another, as `CUDA_POINTER_ATTRIBUTE_P2P_TOKENS` has them.
    Tokens(u64, u32),
}

impl Value {
    /// Puts the value where the client wants it.
    pub fn put(self, address: u64) -> Result<()> {
        match self {
            Value::Bool(value) => host::put(address, u8::from(value)),
            Value::Int(value) => host::put(address, value),
            Value::Long(value) => host::put(address, value),
            Value::Tokens(token, space) => {
                host::put(address, token)?;
                host::put(address + 8, space)
            }
        }
    }
}
