//! Types that a [`crate::Buffer`] can hold.

use std::borrow::Cow;

mod sealed {
    pub trait Sealed {}
}

/// A plain number, the same on the host and on the device.
pub trait Element: Copy + Send + Sync + sealed::Sealed + 'static {
    #[doc(hidden)]
    const SIZE: usize;
    #[doc(hidden)]
    fn bytes(values: &[Self]) -> Cow<'_, [u8]>;
    #[doc(hidden)]
    fn extract(bytes: Vec<u8>) -> Vec<Self>;
}

macro_rules! elements {
    ($($ty:ty),*) => { $(
        impl sealed::Sealed for $ty {}
        impl Element for $ty {
            const SIZE: usize = size_of::<$ty>();

            fn bytes(values: &[Self]) -> Cow<'_, [u8]> {
                Cow::Owned(values.iter().flat_map(|value| value.to_le_bytes()).collect())
            }

            fn extract(bytes: Vec<u8>) -> Vec<Self> {
                let whole = bytes.chunks_exact(Self::SIZE);
                whole.map(|chunk| <$ty>::from_le_bytes(chunk.try_into().expect("chunks are exact"))).collect()
            }
        }
    )* };
}

elements!(u16, u32, u64, u128, i8, i16, i32, i64, i128, f32, f64);

impl sealed::Sealed for u8 {}
impl Element for u8 {
    const SIZE: usize = 1;

    fn bytes(values: &[u8]) -> Cow<'_, [u8]> {
        Cow::Borrowed(values)
    }

    fn extract(bytes: Vec<u8>) -> Vec<u8> {
        bytes
    }
}
