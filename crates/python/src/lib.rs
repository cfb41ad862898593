//! `ptxjit._native`: what Python cannot do by itself: calls of the driver library, and DLPack.
//!
//! There is no engine inside. The engine of a process lives in its one `libcuda.so.1`, which
//! `driver::open` loads; CUDA packages in the same process find the same copy. Checks and classes
//! are in Python, in the files beside.
//!
//! [`driver`] has the functions of the library, [`calls`] makes them callable from Python,
//! [`dlpack`] hands arrays to other packages.

mod driver;

mod calls;
mod dlpack;

use pyo3::prelude::*;

/// The native part of the package.
#[pymodule(name = "_native")]
mod ptxjit_native {
    #[pymodule_export]
    use super::calls::{
        DriverError, alloc, attribute, capability, clear_all_errors, clear_error, copy, count,
        fill, free, function, functions, global, init, is_open, last_error, launch, link, load,
        name, next_fault, open, parameters, range, retain, set_current, stream_create,
        stream_destroy, stream_synchronize, synchronize, total_memory, unload, version,
    };
    #[pymodule_export]
    use super::dlpack::{Imported, export_dlpack, import_dlpack};
}
