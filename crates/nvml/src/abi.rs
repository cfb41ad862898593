//! What crosses the border to C: results, pointers, handles and structs, as `nvml.h` has them.
#![expect(
    unsafe_code,
    reason = "reads and writes what clients' pointers refer to"
)]

use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};

use ptxjit_persona::{Config, Device};

/// `nvmlReturn_t`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Return(pub(crate) u32);

impl Return {
    pub(crate) const SUCCESS: Self = Self(0);
    pub(crate) const UNINITIALIZED: Self = Self(1);
    pub(crate) const INVALID_ARGUMENT: Self = Self(2);
    pub(crate) const NOT_SUPPORTED: Self = Self(3);
    pub(crate) const NOT_FOUND: Self = Self(6);
    pub(crate) const INSUFFICIENT_SIZE: Self = Self(7);
    pub(crate) const ARGUMENT_VERSION_MISMATCH: Self = Self(25);
    pub(crate) const UNKNOWN: Self = Self(999);
}

/// What a function does, or why it does not.
pub(crate) type Answer = Result<(), Return>;

/// How often the library was initialized and not shut down.
static USERS: AtomicU32 = AtomicU32::new(0);

/// Adds a user.
pub(crate) fn initialize() {
    USERS.fetch_add(1, Ordering::Relaxed);
}

/// Removes a user, if there is one.
pub(crate) fn shut_down() -> Answer {
    let less = |users: u32| users.checked_sub(1);
    let before = USERS.try_update(Ordering::Relaxed, Ordering::Relaxed, less);
    before.map(drop).map_err(|_| Return::UNINITIALIZED)
}

/// Runs a function that needs no initialization. A panic is a bug here and not the client's.
pub(crate) fn always(function: impl FnOnce() -> Answer) -> Return {
    match catch_unwind(AssertUnwindSafe(function)) {
        Ok(Ok(())) => Return::SUCCESS,
        Ok(Err(code)) => code,
        Err(_) => {
            eprintln!("ptxjit: internal error in libnvidia-ml.so.1; please report it");
            Return::UNKNOWN
        }
    }
}

/// Runs a function, if the library was initialized.
pub(crate) fn initialized(function: impl FnOnce() -> Answer) -> Return {
    if USERS.load(Ordering::Relaxed) == 0 {
        return Return::UNINITIALIZED;
    }
    always(function)
}

/// A pointer of the client to a place for one value.
///
/// Only C makes one, by calling an exported function; that it is null or fit for a `T` is the
/// client's promise, as with any function of C.
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

impl<T: Copy> Out<T> {
    /// Fills the place.
    pub(crate) fn put(&self, value: T) -> Answer {
        self.check()?;
        // SAFETY: the pointer is not null, and fit for a `T` as the type says.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// What the place holds, for structs that come with their version.
    pub(crate) fn get(&self) -> Result<T, Return> {
        self.check()?;
        // SAFETY: as above; the types used here hold any bytes.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// Refuses a null pointer.
    pub(crate) fn check(&self) -> Answer {
        if self.0.is_null() {
            return Err(Return::INVALID_ARGUMENT);
        }
        Ok(())
    }
}

/// A pointer of the client to a place for text, of which the length comes beside it.
#[repr(transparent)]
pub(crate) struct OutText(*mut c_char);

impl OutText {
    /// Writes a text and its NUL, if they fit.
    pub(crate) fn put(&self, length: u32, text: &str) -> Answer {
        if self.0.is_null() {
            return Err(Return::INVALID_ARGUMENT);
        }
        if text.len() >= length as usize {
            return Err(Return::INSUFFICIENT_SIZE);
        }
        // SAFETY: the client's place has `length` bytes, which are more than the text has.
        unsafe { self.0.cast::<u8>().copy_from(text.as_ptr(), text.len()) };
        // SAFETY: the NUL is still within these bytes.
        unsafe { self.0.add(text.len()).write(0) };
        Ok(())
    }
}

/// A pointer of the client to a text that ends with NUL.
#[repr(transparent)]
pub(crate) struct InText(*const c_char);

impl InText {
    /// The text.
    pub(crate) fn get(&self) -> Result<&str, Return> {
        if self.0.is_null() {
            return Err(Return::INVALID_ARGUMENT);
        }
        // SAFETY: the client's text ends with NUL and outlives the call.
        let text = unsafe { CStr::from_ptr(self.0) };
        text.to_str().map_err(|_| Return::NOT_FOUND)
    }
}

/// `nvmlDevice_t`: a number, so that any value can be looked up.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Handle(usize);

/// Handles are these numbers and the device's index: none is null or an index.
const HANDLE_BASE: usize = 0x6e76_6d6c_0000;

impl Handle {
    /// The handle of a device.
    pub(crate) fn of(device: &Device) -> Self {
        Self(HANDLE_BASE + device.index as usize)
    }

    /// The device of a handle.
    pub(crate) fn find(self) -> Result<&'static Device, Return> {
        let index = self.0.checked_sub(HANDLE_BASE);
        let device = index.and_then(|index| Config::get().all_devices.get(index));
        device.ok_or(Return::INVALID_ARGUMENT)
    }
}

/// The version field of a struct: its size, and a number in the highest byte.
pub(crate) const fn version<T>(number: u32) -> u32 {
    size_of::<T>() as u32 | number << 24
}

/// `nvmlPciInfo_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct PciInfo {
    pub(crate) bus_id_legacy: [u8; 16],
    pub(crate) domain: u32,
    pub(crate) bus: u32,
    pub(crate) device: u32,
    pub(crate) pci_device_id: u32,
    pub(crate) pci_subsystem_id: u32,
    pub(crate) bus_id: [u8; 32],
}

/// `nvmlPciInfoExt_v1_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct PciInfoExt {
    pub(crate) version: u32,
    pub(crate) domain: u32,
    pub(crate) bus: u32,
    pub(crate) device: u32,
    pub(crate) pci_device_id: u32,
    pub(crate) pci_subsystem_id: u32,
    pub(crate) base_class: u32,
    pub(crate) sub_class: u32,
    pub(crate) bus_id: [u8; 32],
}

/// `nvmlUtilization_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Utilization {
    pub(crate) gpu: u32,
    pub(crate) memory: u32,
}

/// `nvmlMemory_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) total: u64,
    pub(crate) free: u64,
    pub(crate) used: u64,
}

/// `nvmlMemory_v2_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct MemoryV2 {
    pub(crate) version: u32,
    pub(crate) total: u64,
    pub(crate) reserved: u64,
    pub(crate) free: u64,
    pub(crate) used: u64,
}

/// `nvmlTemperature_v1_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Temperature {
    pub(crate) version: u32,
    pub(crate) sensor: u32,
    pub(crate) degrees: i32,
}

/// `nvmlDeviceAttributes_t`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Attributes {
    pub(crate) multiprocessors: u32,
    pub(crate) copy_engines: u32,
    pub(crate) decoders: u32,
    pub(crate) encoders: u32,
    pub(crate) jpeg_engines: u32,
    pub(crate) optical_flow_engines: u32,
    pub(crate) gpu_instance_slices: u32,
    pub(crate) compute_instance_slices: u32,
    pub(crate) memory_mib: u64,
}

/// Exports functions under NVML's names. `always` ones need no initialization.
macro_rules! exports {
    ($($(#[$meta:meta])* $when:ident fn $name:ident($($arg:ident: $ty:ty),*) $body:block)*) => {$(
        $(#[$meta])*
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $name($($arg: $ty),*) -> $crate::abi::Return {
            $crate::abi::$when(move || $body)
        }
    )*};
}

pub(crate) use exports;
