//! Kernel arguments.

use crate::texture::Keep;
use crate::{Buffer, Element};

/// One kernel argument: its bytes, and the memory it points to.
#[derive(Clone, Debug)]
pub struct Arg {
    pub(crate) bytes: Vec<u8>,
    pub(crate) keeps: Option<Keep>,
}

impl Arg {
    /// The bytes of a structure passed by value.
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> Arg {
        Arg {
            bytes: bytes.into(),
            keeps: None,
        }
    }
}

macro_rules! scalars {
    ($($ty:ty),*) => { $(
        impl From<$ty> for Arg {
            fn from(value: $ty) -> Arg {
                Arg::from_bytes(value.to_le_bytes())
            }
        }
    )* };
}

scalars!(u8, u16, u32, u64, u128, i8, i16, i32, i64, i128, f32, f64);

impl<T: Element> From<&Buffer<T>> for Arg {
    fn from(buffer: &Buffer<T>) -> Arg {
        Arg {
            bytes: buffer.address().to_le_bytes().to_vec(),
            keeps: Some(buffer.keep()),
        }
    }
}
