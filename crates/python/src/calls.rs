//! Calls of the driver, one function each. Those that may take long release the interpreter.
#![expect(unsafe_code, reason = "calls functions of the driver library")]

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr::{null, null_mut};

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyImportError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::driver::{self, Driver, Handle, LaunchAttribute, LaunchConfig, RawFault};

create_exception!(
    ptxjit_native,
    DriverError,
    PyException,
    "A call of the driver failed: (code, name, what the driver says)."
);

/// Bytes of the log in which a module's errors are told.
const LOG_SIZE: usize = 64 << 10;
const ERROR_LOG_BUFFER: c_int = 5;
const ERROR_LOG_SIZE: c_int = 6;
const MAX_DYNAMIC_SHARED: c_int = 8;
const COOPERATIVE: c_uint = 2;
/// Keys of the list in which `cuLaunchKernelEx` finds a parameter block.
const PARAM_BUFFER: usize = 1;
const PARAM_SIZE: usize = 2;

fn driver() -> PyResult<&'static Driver> {
    driver::get().ok_or_else(|| PyRuntimeError::new_err("the driver library is not open"))
}

/// A code as an exception, if it is one.
fn check(code: u32) -> PyResult<()> {
    check_with(code, last_report)
}

fn check_with(code: u32, message: impl FnOnce() -> String) -> PyResult<()> {
    match code {
        0 => Ok(()),
        code => Err(DriverError::new_err((code, name_of(code), message()))),
    }
}

fn name_of(code: u32) -> String {
    let mut text: *const c_char = null();
    let Some(driver) = driver::get() else {
        return String::new();
    };
    // SAFETY: the result has room for a pointer.
    match unsafe { (driver.cuGetErrorName)(code, &raw mut text) } {
        0 => string(text),
        _ => format!("CUDA error {code}"),
    }
}

/// A string of the library, which lives long enough; null is empty.
fn string(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the library gives strings.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_string_lossy().into_owned()
}

fn last_report() -> String {
    let Some(driver) = driver::get() else {
        return String::new();
    };
    let mut text = vec![0u8; 4096];
    loop {
        // SAFETY: the buffer has as many bytes as told.
        let len = unsafe { (driver.ptxjit_last_error)(text.as_mut_ptr().cast(), text.len()) };
        if len < text.len() {
            text.truncate(len);
            return String::from_utf8_lossy(&text).into_owned();
        }
        text = vec![0; len + 1];
    }
}

fn c_string(text: &str) -> PyResult<CString> {
    CString::new(text).map_err(|_| PyValueError::new_err("the name has a NUL in it"))
}

/// Loads the driver library at a path, for all of the process.
#[pyfunction]
pub(crate) fn open(path: &str) -> PyResult<()> {
    driver::open(path).map_err(PyImportError::new_err)
}

/// Whether the driver library is loaded.
#[pyfunction]
pub(crate) fn is_open() -> bool {
    driver::get().is_some()
}

/// The library's version.
#[pyfunction]
pub(crate) fn version() -> PyResult<String> {
    // SAFETY: the function takes nothing.
    Ok(string(unsafe { (driver()?.ptxjit_version)() }))
}

#[pyfunction]
pub(crate) fn init() -> PyResult<()> {
    // SAFETY: any number will do.
    check(unsafe { (driver()?.cuInit)(0) })
}

#[pyfunction]
pub(crate) fn count() -> PyResult<i32> {
    let mut count = 0;
    // SAFETY: the result has room.
    check(unsafe { (driver()?.cuDeviceGetCount)(&raw mut count) })?;
    Ok(count)
}

#[pyfunction]
pub(crate) fn name(device: i32) -> PyResult<String> {
    let mut text = [0 as c_char; 256];
    // SAFETY: the buffer has as many bytes as told.
    check(unsafe { (driver()?.cuDeviceGetName)(text.as_mut_ptr(), 256, device) })?;
    Ok(string(text.as_ptr()))
}

#[pyfunction]
pub(crate) fn total_memory(device: i32) -> PyResult<usize> {
    let mut size = 0;
    // SAFETY: the result has room.
    check(unsafe { (driver()?.cuDeviceTotalMem_v2)(&raw mut size, device) })?;
    Ok(size)
}

#[pyfunction]
pub(crate) fn attribute(id: i32, device: i32) -> PyResult<i32> {
    let mut value = 0;
    // SAFETY: the result has room.
    check(unsafe { (driver()?.cuDeviceGetAttribute)(&raw mut value, id, device) })?;
    Ok(value)
}

/// Major and minor number of the compute capability.
#[pyfunction]
pub(crate) fn capability(device: i32) -> PyResult<(i32, i32)> {
    Ok((attribute(75, device)?, attribute(76, device)?))
}

/// The primary context of a device.
#[pyfunction]
pub(crate) fn retain(py: Python<'_>, device: i32) -> PyResult<Handle> {
    let driver = driver()?;
    let mut context = 0;
    // SAFETY: the result has room.
    check(py.detach(|| unsafe { (driver.cuDevicePrimaryCtxRetain)(&raw mut context, device) }))?;
    Ok(context)
}

#[pyfunction]
pub(crate) fn set_current(context: Handle) -> PyResult<()> {
    // SAFETY: the driver checks handles.
    check(unsafe { (driver()?.cuCtxSetCurrent)(context) })
}

#[pyfunction]
pub(crate) fn synchronize(py: Python<'_>) -> PyResult<()> {
    let driver = driver()?;
    // SAFETY: the function takes nothing.
    check(py.detach(|| unsafe { (driver.cuCtxSynchronize)() }))
}

#[pyfunction]
pub(crate) fn alloc(size: usize) -> PyResult<Handle> {
    let mut address = 0;
    // SAFETY: the result has room.
    check(unsafe { (driver()?.cuMemAlloc_v2)(&raw mut address, size) })?;
    Ok(address)
}

#[pyfunction]
pub(crate) fn free(py: Python<'_>, address: Handle) -> PyResult<()> {
    let driver = driver()?;
    // SAFETY: the driver checks addresses.
    check(py.detach(|| unsafe { (driver.cuMemFree_v2)(address) }))
}

/// Base and size of the allocation that an address is in.
#[pyfunction]
pub(crate) fn range(address: Handle) -> PyResult<(Handle, usize)> {
    let (mut base, mut size) = (0, 0);
    let driver = driver()?;
    // SAFETY: the results have room.
    check(unsafe { (driver.cuMemGetAddressRange_v2)(&raw mut base, &raw mut size, address) })?;
    Ok((base, size))
}

/// Copies bytes between addresses of any kind, behind all work of the context's default stream.
#[pyfunction]
pub(crate) fn copy(py: Python<'_>, to: Handle, from: Handle, size: usize) -> PyResult<()> {
    let driver = driver()?;
    // SAFETY: the driver checks addresses, also those of the host.
    check(py.detach(|| unsafe { (driver.cuMemcpy)(to, from, size) }))
}

/// Sets bytes.
#[pyfunction]
pub(crate) fn fill(py: Python<'_>, address: Handle, value: u8, size: usize) -> PyResult<()> {
    let driver = driver()?;
    // SAFETY: the driver checks addresses.
    check(py.detach(|| unsafe { (driver.cuMemsetD8_v2)(address, value, size) }))
}

/// Loads a module: PTX or an image of another kind.
#[pyfunction]
pub(crate) fn load(py: Python<'_>, image: &[u8]) -> PyResult<Handle> {
    let driver = driver()?;
    let mut image = image.to_vec();
    image.push(0);
    let (code, module, log) = py.detach(|| {
        let mut module = 0;
        let mut log = vec![0 as c_char; LOG_SIZE];
        let mut keys = [ERROR_LOG_BUFFER, ERROR_LOG_SIZE];
        let mut values = [log.as_mut_ptr().cast::<c_void>(), LOG_SIZE as *mut c_void];
        // SAFETY: the image ends with a NUL, if it is text; the log has as many bytes as the option says.
        let code = unsafe {
            (driver.cuModuleLoadDataEx)(
                &raw mut module,
                image.as_ptr().cast(),
                2,
                keys.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        (code, module, string(log.as_ptr()))
    });
    check_with(code, || if log.is_empty() { last_report() } else { log })?;
    Ok(module)
}

#[pyfunction]
pub(crate) fn unload(py: Python<'_>, module: Handle) -> PyResult<()> {
    let driver = driver()?;
    // SAFETY: the driver checks handles.
    check(py.detach(|| unsafe { (driver.cuModuleUnload)(module) }))
}

/// Links images, given with their names and kinds, to one.
#[pyfunction]
pub(crate) fn link(py: Python<'_>, images: Vec<(String, u32, Vec<u8>)>) -> PyResult<Py<PyBytes>> {
    let driver = driver()?;
    let mut log = vec![0 as c_char; LOG_SIZE];
    let mut keys = [ERROR_LOG_BUFFER, ERROR_LOG_SIZE];
    let mut values = [log.as_mut_ptr().cast::<c_void>(), LOG_SIZE as *mut c_void];
    let mut state = 0;
    let (keys, values) = (keys.as_mut_ptr(), values.as_mut_ptr());
    // SAFETY: the log and the options live until the link is destroyed below.
    check(unsafe { (driver.cuLinkCreate_v2)(2, keys, values, &raw mut state) })?;
    let result = linked(driver, state, images);
    let result = match result {
        Ok((image, size)) => {
            // SAFETY: the image is valid until the link is destroyed.
            let image = unsafe { std::slice::from_raw_parts(image, size) };
            Ok(PyBytes::new(py, image).unbind())
        }
        Err(code) => {
            let said = string(log.as_ptr());
            let said = if said.is_empty() { last_report() } else { said };
            Err(DriverError::new_err((code, name_of(code), said)))
        }
    };
    // SAFETY: the link is used no more.
    unsafe { (driver.cuLinkDestroy)(state) };
    result
}

fn linked(
    driver: &Driver,
    state: Handle,
    images: Vec<(String, u32, Vec<u8>)>,
) -> Result<(*const u8, usize), u32> {
    for (name, kind, mut image) in images {
        image.push(0);
        let name = CString::new(name).unwrap_or_default();
        let data = image.as_ptr().cast();
        // SAFETY: the image has as many bytes as told, and the name ends with a NUL.
        let code = unsafe {
            (driver.cuLinkAddData_v2)(
                state,
                kind,
                data,
                image.len(),
                name.as_ptr(),
                0,
                null_mut(),
                null_mut(),
            )
        };
        if code != 0 {
            return Err(code);
        }
    }
    let (mut image, mut size) = (null(), 0);
    // SAFETY: the results have room.
    match unsafe { (driver.cuLinkComplete)(state, &raw mut image, &raw mut size) } {
        0 => Ok((image, size)),
        code => Err(code),
    }
}

/// A kernel by its name.
#[pyfunction]
pub(crate) fn function(py: Python<'_>, module: Handle, name: &str) -> PyResult<Handle> {
    let driver = driver()?;
    let name = c_string(name)?;
    let mut function = 0;
    // SAFETY: the result has room, and the name ends with a NUL.
    check(py.detach(|| unsafe {
        (driver.cuModuleGetFunction)(&raw mut function, module, name.as_ptr())
    }))?;
    Ok(function)
}

/// The names of a module's kernels.
#[pyfunction]
pub(crate) fn functions(module: Handle) -> PyResult<Vec<String>> {
    let driver = driver()?;
    let mut n = 0;
    // SAFETY: the result has room.
    check(unsafe { (driver.cuModuleGetFunctionCount)(&raw mut n, module) })?;
    let mut all = vec![0; n as usize];
    // SAFETY: the array has as many elements as told.
    check(unsafe { (driver.cuModuleEnumerateFunctions)(all.as_mut_ptr(), n, module) })?;
    let name = |function: &Handle| {
        let mut text = null();
        // SAFETY: the result has room.
        check(unsafe { (driver.cuFuncGetName)(&raw mut text, *function) })?;
        Ok(string(text))
    };
    all.iter().map(name).collect()
}

/// Offset and size of each parameter of a kernel.
#[pyfunction]
pub(crate) fn parameters(function: Handle) -> PyResult<Vec<(usize, usize)>> {
    let driver = driver()?;
    let mut all = Vec::new();
    loop {
        let (mut offset, mut size) = (0, 0);
        // SAFETY: the results have room.
        let code = unsafe {
            (driver.cuFuncGetParamInfo)(function, all.len(), &raw mut offset, &raw mut size)
        };
        match code {
            0 => all.push((offset, size)),
            // The index is past the last one.
            1 => return Ok(all),
            code => check(code)?,
        }
    }
}

/// Address and size of a variable.
#[pyfunction(name = "global_")]
pub(crate) fn global(module: Handle, name: &str) -> PyResult<(Handle, usize)> {
    let name = c_string(name)?;
    let (mut address, mut size) = (0, 0);
    let driver = driver()?;
    // SAFETY: the results have room, and the name ends with a NUL.
    check(unsafe {
        (driver.cuModuleGetGlobal_v2)(&raw mut address, &raw mut size, module, name.as_ptr())
    })?;
    Ok((address, size))
}

/// Launches a kernel with a parameter block. Returns before it ends.
#[pyfunction]
#[expect(
    clippy::too_many_arguments,
    reason = "they are those of the driver's function"
)]
pub(crate) fn launch(
    py: Python<'_>,
    function: Handle,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    stream: Handle,
    params: &[u8],
    cooperative: bool,
) -> PyResult<()> {
    let driver = driver()?;
    let mut params = params.to_vec();
    let code = py.detach(|| {
        // Memory beyond what any device has must be allowed first; a wrong amount fails with the launch.
        if shared > 48 << 10 {
            // SAFETY: the driver checks handles and values.
            unsafe {
                (driver.cuFuncSetAttribute)(function, MAX_DYNAMIC_SHARED, shared.cast_signed())
            };
        }
        let attribute = LaunchAttribute {
            id: COOPERATIVE,
            padding: [0; 4],
            value: 1,
            rest: [0; 60],
        };
        let config = LaunchConfig {
            grid,
            block,
            shared,
            stream,
            attributes: &raw const attribute,
            n_attributes: cooperative.into(),
        };
        let mut size = params.len();
        let mut extra = [
            PARAM_BUFFER as *mut c_void,
            params.as_mut_ptr().cast(),
            PARAM_SIZE as *mut c_void,
            (&raw mut size).cast(),
            null_mut(),
        ];
        // SAFETY: the driver copies the parameters before it returns.
        unsafe {
            (driver.cuLaunchKernelEx)(&raw const config, function, null_mut(), extra.as_mut_ptr())
        }
    });
    check(code)
}

#[pyfunction]
pub(crate) fn stream_create() -> PyResult<Handle> {
    let mut stream = 0;
    // SAFETY: the result has room.
    check(unsafe { (driver()?.cuStreamCreate)(&raw mut stream, 0) })?;
    Ok(stream)
}

#[pyfunction]
pub(crate) fn stream_destroy(stream: Handle) -> PyResult<()> {
    // SAFETY: the driver checks handles.
    check(unsafe { (driver()?.cuStreamDestroy_v2)(stream) })
}

#[pyfunction]
pub(crate) fn stream_synchronize(py: Python<'_>, stream: Handle) -> PyResult<()> {
    let driver = driver()?;
    // SAFETY: the driver checks handles.
    check(py.detach(|| unsafe { (driver.cuStreamSynchronize)(stream) }))
}

/// The last report of the process.
#[pyfunction]
pub(crate) fn last_error() -> String {
    last_report()
}

/// Makes a context usable again; 0 is the current one.
#[pyfunction]
pub(crate) fn clear_error(py: Python<'_>, context: Handle) -> PyResult<()> {
    let driver = driver()?;
    // SAFETY: the driver checks handles.
    check(py.detach(|| unsafe { (driver.ptxjit_clear_error)(context) }))
}

/// Waits for all work, and makes all contexts usable again. Does nothing in a process that has not used the driver.
#[pyfunction]
pub(crate) fn clear_all_errors(py: Python<'_>) {
    if let Some(driver) = driver::get() {
        // SAFETY: the function takes nothing. It fails only if the driver is not initialized.
        py.detach(|| unsafe { (driver.ptxjit_clear_all_errors)() });
    }
}

/// Takes the oldest fault, as a dictionary.
#[pyfunction]
pub(crate) fn next_fault(py: Python<'_>) -> PyResult<Option<Py<PyDict>>> {
    let Some(driver) = driver::get() else {
        return Ok(None);
    };
    let mut raw = RawFault {
        size: size_of::<RawFault>(),
        code: 0,
        has_block: 0,
        has_thread: 0,
        block: [0; 3],
        thread: [0; 3],
        ptx_line: 0,
        kind: null(),
        kernel: null(),
        source: null(),
        report: null(),
    };
    // SAFETY: the structure is that of `ptxjit.h`, with its size.
    if unsafe { (driver.ptxjit_next_fault)(&raw mut raw) } != 1 {
        return Ok(None);
    }
    let place = |has: u32, [x, y, z]: [u32; 3]| (has != 0).then_some((x, y, z));
    let fault = PyDict::new(py);
    fault.set_item("code", raw.code)?;
    fault.set_item("name", name_of(raw.code.cast_unsigned()))?;
    fault.set_item("kind", string(raw.kind))?;
    fault.set_item("kernel", string(raw.kernel))?;
    fault.set_item("block", place(raw.has_block, raw.block))?;
    fault.set_item("thread", place(raw.has_thread, raw.thread))?;
    fault.set_item("ptx_line", raw.ptx_line)?;
    fault.set_item("source", string(raw.source))?;
    fault.set_item("report", string(raw.report))?;
    Ok(Some(fault.unbind()))
}
