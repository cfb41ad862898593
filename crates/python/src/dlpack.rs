//! DLPack: arrays for other packages, and theirs for us, without a copy.
//!
//! A tensor goes through Python in a capsule, whose name tells the layout. A package that takes it renames the capsule, so
//! that its destructor leaves the tensor alone.
#![expect(unsafe_code, reason = "DLPack is structures in memory behind capsules")]

use std::ffi::{CStr, c_void};

use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;

const NAME: &CStr = c"dltensor";
const USED: &CStr = c"used_dltensor";
const VERSIONED_NAME: &CStr = c"dltensor_versioned";
const VERSIONED_USED: &CStr = c"used_dltensor_versioned";

/// The version of the layout that has one.
const MAJOR: u32 = 1;

#[repr(C)]
#[derive(Clone, Copy)]
struct Tensor {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    n_dims: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct Managed {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

#[repr(C)]
struct Versioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    flags: u64,
    tensor: Tensor,
}

/// What an exported tensor keeps alive.
struct Owner {
    #[expect(dead_code, reason = "it is kept for its drop")]
    object: Py<PyAny>,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

unsafe extern "C" fn delete(managed: *mut Managed) {
    // SAFETY: `export_dlpack` has made both from boxes, and a tensor is deleted once.
    let managed = unsafe { Box::from_raw(managed) };
    release(managed.context);
}

unsafe extern "C" fn delete_versioned(managed: *mut Versioned) {
    // SAFETY: as above.
    let managed = unsafe { Box::from_raw(managed) };
    release(managed.context);
}

fn release(owner: *mut c_void) {
    // Deleters may be called by any thread.
    Python::attach(|_| {
        // SAFETY: the owner was made from a box, and is released once.
        drop(unsafe { Box::from_raw(owner.cast::<Owner>()) });
    });
}

/// Deletes a tensor that was never taken.
unsafe extern "C" fn destroy_capsule(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls this with the capsule, and a pointer under one of these names is what we have put there.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, NAME.as_ptr()) == 1 {
            delete(ffi::PyCapsule_GetPointer(capsule, NAME.as_ptr()).cast());
        } else if ffi::PyCapsule_IsValid(capsule, VERSIONED_NAME.as_ptr()) == 1 {
            delete_versioned(ffi::PyCapsule_GetPointer(capsule, VERSIONED_NAME.as_ptr()).cast());
        }
    }
}

/// A capsule with a tensor that keeps `object` alive. Strides count elements.
#[pyfunction]
#[expect(
    clippy::too_many_arguments,
    reason = "they are what a tensor is made of"
)]
pub(crate) fn export_dlpack(
    py: Python<'_>,
    object: Py<PyAny>,
    address: u64,
    shape: Vec<i64>,
    strides: Vec<i64>,
    element: (u8, u8),
    device: (i32, i32),
    versioned: bool,
) -> PyResult<Py<PyAny>> {
    let n_dims =
        i32::try_from(shape.len()).map_err(|_| PyValueError::new_err("too many dimensions"))?;
    let owner = Box::into_raw(Box::new(Owner {
        object,
        shape,
        strides,
    }));
    // SAFETY: the owner was made just now, and lives as long as the tensor.
    let (shape, strides) = unsafe { ((*owner).shape.as_mut_ptr(), (*owner).strides.as_mut_ptr()) };
    let tensor = Tensor {
        data: address as *mut c_void,
        device_type: device.0,
        device_id: device.1,
        n_dims,
        code: element.0,
        bits: element.1,
        lanes: 1,
        shape,
        strides,
        byte_offset: 0,
    };
    let (pointer, name): (*mut c_void, &CStr) = match versioned {
        true => {
            let managed = Versioned {
                major: MAJOR,
                minor: 0,
                context: owner.cast(),
                deleter: Some(delete_versioned),
                flags: 0,
                tensor,
            };
            (Box::into_raw(Box::new(managed)).cast(), VERSIONED_NAME)
        }
        false => {
            let managed = Managed {
                tensor,
                context: owner.cast(),
                deleter: Some(delete),
            };
            (Box::into_raw(Box::new(managed)).cast(), NAME)
        }
    };
    // SAFETY: the name is static, and the destructor fits what the capsule holds.
    unsafe {
        let capsule = ffi::PyCapsule_New(pointer, name.as_ptr(), Some(destroy_capsule));
        Bound::from_owned_ptr_or_err(py, capsule).map(Bound::unbind)
    }
}

/// A tensor of another package; it is deleted with this object.
#[pyclass(frozen, get_all)]
pub(crate) struct Imported {
    /// The address of the first element.
    address: u64,
    /// Kind and number of the device.
    device: (i32, i32),
    /// Kind, bits and lanes of an element.
    element: (u8, u8, u16),
    shape: Vec<i64>,
    /// Distances between elements, in elements; none if they are contiguous.
    strides: Option<Vec<i64>>,
    /// The address of what came in the capsule.
    managed: usize,
    is_versioned: bool,
}

/// The numbers for a tensor's dimensions, if there are any.
///
/// # Safety
///
/// `from` is null, or has as many numbers as the tensor has dimensions.
unsafe fn numbers(from: *const i64, n_dims: i32) -> Option<Vec<i64>> {
    let n_dims = usize::try_from(n_dims).ok()?;
    if from.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    Some(unsafe { std::slice::from_raw_parts(from, n_dims) }.to_vec())
}

impl Drop for Imported {
    fn drop(&mut self) {
        // SAFETY: the tensor was taken from its capsule, so deleting it is our duty, and is done once.
        unsafe {
            if self.is_versioned {
                let managed = (self.managed as *mut Versioned);
                if let Some(deleter) = (*managed).deleter {
                    deleter(managed);
                }
            } else {
                let managed = (self.managed as *mut Managed);
                if let Some(deleter) = (*managed).deleter {
                    deleter(managed);
                }
            }
        }
    }
}

/// Takes the tensor out of a capsule.
#[pyfunction]
pub(crate) fn import_dlpack(capsule: &Bound<'_, PyAny>) -> PyResult<Imported> {
    let raw = capsule.as_ptr();
    // SAFETY: any object can be asked.
    let is = |name: &CStr| unsafe { ffi::PyCapsule_IsValid(raw, name.as_ptr()) == 1 };
    let is_versioned = is(VERSIONED_NAME);
    let (name, used) = match is_versioned {
        true => (VERSIONED_NAME, VERSIONED_USED),
        false if is(NAME) => (NAME, USED),
        false => {
            return Err(PyBufferError::new_err(
                "this is no capsule with a tensor that can be taken",
            ));
        }
    };
    // SAFETY: the name is that of the capsule, and says what is in it.
    let (managed, tensor) = unsafe {
        let managed = ffi::PyCapsule_GetPointer(raw, name.as_ptr());
        let tensor = match is_versioned {
            true => {
                let versioned = managed.cast::<Versioned>();
                if (*versioned).major != MAJOR {
                    return Err(PyBufferError::new_err(
                        "the tensor has a layout of another version",
                    ));
                }
                (*versioned).tensor
            }
            false => (*managed.cast::<Managed>()).tensor,
        };
        ffi::PyCapsule_SetName(raw, used.as_ptr());
        // The destructor looks at the name; this makes sure of other packages' ones.
        ffi::PyCapsule_SetDestructor(raw, None);
        (managed, tensor)
    };
    // SAFETY: the package that made the tensor has filled it in.
    let (shape, strides) = unsafe {
        (
            numbers(tensor.shape, tensor.n_dims),
            numbers(tensor.strides, tensor.n_dims),
        )
    };
    Ok(Imported {
        address: tensor.data as u64 + tensor.byte_offset,
        device: (tensor.device_type, tensor.device_id),
        element: (tensor.code, tensor.bits, tensor.lanes),
        shape: shape.unwrap_or_default(),
        strides,
        managed: managed as usize,
        is_versioned,
    })
}
