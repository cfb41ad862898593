//! Types that a [`crate::Buffer`] can hold.

#[cfg(target_endian = "big")]
compile_error!("kernels expect the lowest byte of a number first");

mod sealed {
    pub trait Sealed: bytemuck::Pod {}
}

/// A plain number, the same on the host and on the device.
pub trait Element: Copy + Send + Sync + sealed::Sealed + 'static {
    #[doc(hidden)]
    const SIZE: usize = size_of::<Self>();
}

macro_rules! elements {
    ($($ty:ty),*) => { $(
        impl sealed::Sealed for $ty {}
        impl Element for $ty {}
    )* };
}

elements!(u8, u16, u32, u64, u128, i8, i16, i32, i64, i128, f32, f64);
