//! Plain data as C lays it out: reading and writing it as bytes, and the macros that declare it.
//!
//! C's enumerations become newtypes with associated constants, since a client may pass any number;
//! its unions become [`Union`]s, bytes from which a variant is read by its offset. Nothing here
//! needs `unsafe`: [`Raw`] copies field by field.

/// Data without invariants, which any bytes may hold.
pub trait Raw: Copy {
    /// Reads a value from the first bytes of `bytes`, which may be followed by others.
    fn read(bytes: &[u8]) -> Self;

    /// Writes the value to the first bytes of `bytes`; padding stays as it is.
    fn write(self, bytes: &mut [u8]);
}

macro_rules! raw_number {
    ($($number:ty),*) => {$(
        impl Raw for $number {
            fn read(bytes: &[u8]) -> Self {
                let mut own = [0; size_of::<Self>()];
                own.copy_from_slice(&bytes[..size_of::<Self>()]);
                Self::from_ne_bytes(own)
            }

            fn write(self, bytes: &mut [u8]) {
                bytes[..size_of::<Self>()].copy_from_slice(&self.to_ne_bytes());
            }
        }
    )*};
}

raw_number!(u8, u16, u32, u64, usize, i32, i64, f32);

impl<T: Raw, const N: usize> Raw for [T; N] {
    fn read(bytes: &[u8]) -> Self {
        std::array::from_fn(|idx| T::read(&bytes[idx * size_of::<T>()..]))
    }

    fn write(self, bytes: &mut [u8]) {
        for (idx, value) in self.into_iter().enumerate() {
            value.write(&mut bytes[idx * size_of::<T>()..]);
        }
    }
}

/// A union of C with `N` bytes that is aligned as a pointer.
#[repr(C, align(8))]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Union<const N: usize>(pub [u8; N]);

impl<const N: usize> Union<N> {
    /// The union whose first bytes are those of `value`, and all others 0.
    #[must_use]
    pub fn of<T: Raw>(value: T) -> Self {
        let mut this = Self([0; N]);
        this.set(0, value);
        this
    }

    /// What lies at `offset`, read as a `T`.
    ///
    /// # Panics
    ///
    /// Panics if it would not lie within the union.
    #[must_use]
    pub fn get<T: Raw>(&self, offset: usize) -> T {
        T::read(&self.0[offset..])
    }

    /// Puts a value at `offset`.
    ///
    /// # Panics
    ///
    /// Panics if it would not lie within the union.
    pub fn set<T: Raw>(&mut self, offset: usize, value: T) {
        value.write(&mut self.0[offset..]);
    }
}

impl<const N: usize> Raw for Union<N> {
    fn read(bytes: &[u8]) -> Self {
        Self(Raw::read(bytes))
    }

    fn write(self, bytes: &mut [u8]) {
        self.0.write(bytes);
    }
}

impl<const N: usize> std::fmt::Debug for Union<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:02x?}", self.0)
    }
}

/// Declares structs of C: `repr(C)`, all bits 0 by default, and readable from bytes.
macro_rules! c_structs {
    ($($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident: $ty:ty,)* })*) => {$(
        $(#[$meta])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $ty,)*
        }

        impl $crate::types::raw::Raw for $name {
            fn read(bytes: &[u8]) -> Self {
                Self {
                    $($field: $crate::types::raw::Raw::read(
                        &bytes[std::mem::offset_of!(Self, $field)..],
                    ),)*
                }
            }

            fn write(self, bytes: &mut [u8]) {
                $($crate::types::raw::Raw::write(
                    self.$field,
                    &mut bytes[std::mem::offset_of!(Self, $field)..],
                );)*
            }
        }

        impl Default for $name {
            fn default() -> Self {
                $crate::types::raw::Raw::read(&[0; size_of::<Self>()])
            }
        }
    )*};
}

/// Declares enumerations of C as newtypes. `prefix` and a constant's name make C's name for it.
macro_rules! c_enums {
    ($($(#[$meta:meta])* $name:ident($int:ty, $prefix:literal) { $($value:ident = $number:literal,)* })*) => {$(
        $(#[$meta])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $int);

        impl $name {
            $(
                #[doc = concat!("`", $prefix, stringify!($value), "`")]
                pub const $value: Self = Self($number);
            )*

            /// Names and values, as `cuda.h` has them.
            pub const ALL: &'static [(&'static str, Self)] =
                &[$((concat!($prefix, stringify!($value)), Self::$value)),*];

            /// C's name for the value; the first if there are several.
            #[must_use]
            pub fn c_name(self) -> Option<&'static str> {
                $crate::types::raw::name_of(Self::ALL, self)
            }

            /// Whether all bits of `flags` are set.
            #[must_use]
            pub const fn contains(self, flags: Self) -> bool {
                self.0 & flags.0 == flags.0
            }
        }

        impl std::ops::BitOr for $name {
            type Output = Self;

            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self.c_name() {
                    Some(name) => f.write_str(name),
                    None => write!(f, "{}({:#x})", stringify!($name), self.0),
                }
            }
        }

        impl $crate::types::raw::Raw for $name {
            fn read(bytes: &[u8]) -> Self {
                Self($crate::types::raw::Raw::read(bytes))
            }

            fn write(self, bytes: &mut [u8]) {
                $crate::types::raw::Raw::write(self.0, bytes);
            }
        }
    )*};
}

/// Declares opaque handles and addresses, as wide as a pointer.
macro_rules! c_handles {
    ($($(#[$meta:meta])* $name:ident)*) => {$(
        $(#[$meta])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl $name {
            /// The handle that refers to nothing.
            pub const NULL: Self = Self(0);

            /// Whether this is the null handle.
            #[must_use]
            pub const fn is_null(self) -> bool {
                self.0 == 0
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}({:#x})", stringify!($name), self.0)
            }
        }

        impl $crate::types::raw::Raw for $name {
            fn read(bytes: &[u8]) -> Self {
                Self($crate::types::raw::Raw::read(bytes))
            }

            fn write(self, bytes: &mut [u8]) {
                $crate::types::raw::Raw::write(self.0, bytes);
            }
        }
    )*};
}

pub(crate) use {c_enums, c_handles, c_structs};

/// The first name that stands for `value` in a list of an enumeration's values.
pub(crate) fn name_of<T: PartialEq>(all: &[(&'static str, T)], value: T) -> Option<&'static str> {
    all.iter()
        .find(|(_, known)| *known == value)
        .map(|(name, _)| *name)
}
