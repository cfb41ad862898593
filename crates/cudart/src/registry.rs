//! Device code that compiled programs register, and what of it belongs to which function and
//! variable of the host.
//!
//! Constructors of a program register its fat binaries, and for each kernel the host function that
//! launches it, for each variable its shadow on the host. Nothing is loaded then: a fat binary
//! becomes a library of the driver when something of it is first asked for. The driver gives each
//! context a module of the library, so a variable exists once in each.
#![expect(
    unsafe_code,
    reason = "exports functions under C's names, and reads names that compiled programs pass"
)]

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char};
use std::sync::{Arc, LazyLock, OnceLock, RwLock};

use crate::call::{self, Code, Result};
use crate::device;
use crate::driver::cu;
use crate::host;

/// A fat binary.
struct Binary {
    /// Address of its wrapper, which the driver reads.
    wrapper: u64,
    library: OnceLock<Result<u64>>,
}

/// A kernel.
struct Function {
    name: CString,
    binary: Arc<Binary>,
    kernel: OnceLock<u64>,
}

/// A variable.
#[derive(Clone)]
struct Variable {
    name: CString,
    binary: Arc<Binary>,
    /// Where the program expects the address of a managed variable.
    pointer: Option<u64>,
}

#[derive(Default)]
struct Registry {
    /// By handle.
    binaries: HashMap<u64, Arc<Binary>>,
    /// By address of the host's function.
    functions: HashMap<u64, Arc<Function>>,
    /// By address of the host's shadow, or of the pointer to a managed variable.
    variables: HashMap<u64, Variable>,
}

static REGISTRY: LazyLock<RwLock<Registry>> = LazyLock::new(RwLock::default);

fn read<R>(look: impl FnOnce(&Registry) -> R) -> R {
    look(&REGISTRY.read().unwrap_or_else(|err| err.into_inner()))
}

fn change<R>(change: impl FnOnce(&mut Registry) -> R) -> R {
    change(&mut REGISTRY.write().unwrap_or_else(|err| err.into_inner()))
}

impl Binary {
    /// The library, loaded at the first call.
    fn library(&self) -> Result<u64> {
        *self.library.get_or_init(|| {
            let mut library = 0_u64;
            let none = [0_u64; 6];
            let [keys, values, count, more_keys, more_values, more] = none;
            cu!(cuLibraryLoadData(
                &mut library,
                self.wrapper,
                keys,
                values,
                count,
                more_keys,
                more_values,
                more
            ))?;
            Ok(library)
        })
    }
}

impl Function {
    fn kernel(&self) -> Result<u64> {
        if let Some(&kernel) = self.kernel.get() {
            return Ok(kernel);
        }
        let mut kernel = 0_u64;
        let found = cu!(cuLibraryGetKernel(
            &mut kernel,
            self.binary.library()?,
            self.name
                .as_c_str()
                .to_bytes_with_nul()
                .as_ptr()
                .expose_provenance()
        ));
        match found {
            Ok(()) => Ok(*self.kernel.get_or_init(|| kernel)),
            Err(Code::SYMBOL_NOT_FOUND) => Err(Code::INVALID_DEVICE_FUNCTION),
            Err(code) => Err(code),
        }
    }
}

impl Variable {
    /// Address and size in the current context.
    fn place(&self) -> Result<(u64, usize)> {
        let (mut address, mut size) = (0_u64, 0_usize);
        let library = self.binary.library()?;
        let name = self.name.as_ptr().expose_provenance();
        let found = match self.pointer {
            Some(_) => cu!(cuLibraryGetManaged(&mut address, &mut size, library, name)),
            None => cu!(cuLibraryGetGlobal(&mut address, &mut size, library, name)),
        };
        match found {
            Ok(()) => Ok((address, size)),
            Err(Code::SYMBOL_NOT_FOUND) => Err(Code::INVALID_SYMBOL),
            Err(code) => Err(code),
        }
    }
}

/// The kernel that a host function stands for. Handles of kernels stand for themselves.
pub(crate) fn kernel(function: u64) -> Result<u64> {
    match read(|registry| registry.functions.get(&function).cloned()) {
        Some(function) => function.kernel(),
        None => {
            let mut library = 0_u64;
            match cu!(cuKernelGetLibrary(&mut library, function)) {
                Ok(()) => Ok(function),
                Err(_) => Err(Code::INVALID_DEVICE_FUNCTION),
            }
        }
    }
}

/// Address and size of the variable that a shadow stands for, in the current context.
pub(crate) fn variable(shadow: u64) -> Result<(u64, usize)> {
    let found = read(|registry| registry.variables.get(&shadow).cloned());
    if let Some(variable) = found {
        return variable.place();
    }
    // Programs name a managed variable by where it is.
    let managed = read(|registry| {
        let variables = registry.variables.values();
        let managed = variables.filter(|variable| variable.pointer.is_some());
        managed.cloned().collect::<Vec<_>>()
    });
    let mut places = managed.iter().filter_map(|variable| variable.place().ok());
    places
        .find(|(address, _)| *address == shadow)
        .ok_or(Code::INVALID_SYMBOL)
}

/// Gives the program the addresses of a fat binary's managed variables.
fn place_managed(handle: u64) -> Result {
    device::ensure()?;
    let variables = read(|registry| {
        let binary = registry.binaries.get(&handle)?;
        let of_binary = registry.variables.values();
        let of_binary = of_binary.filter(|variable| Arc::ptr_eq(&variable.binary, binary));
        Some(of_binary.cloned().collect::<Vec<_>>())
    });
    for variable in variables.ok_or(Code::INVALID_RESOURCE_HANDLE)? {
        if let Some(pointer) = variable.pointer {
            host::put(pointer, variable.place()?.0)?;
        }
    }
    Ok(())
}

/// A name that a compiler has written into the program.
///
/// # Safety
///
/// There is a string.
unsafe fn name(from: *const c_char) -> CString {
    // SAFETY: see above.
    unsafe { CStr::from_ptr(from) }.to_owned()
}

/// Adds a fat binary. The handle is an address that is given out once.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn __cudaRegisterFatBinary(wrapper: u64) -> u64 {
    let handle = std::ptr::from_mut(Box::leak(Box::new(wrapper))).expose_provenance() as u64;
    let binary = Arc::new(Binary {
        wrapper,
        library: OnceLock::new(),
    });
    change(|registry| registry.binaries.insert(handle, binary));
    handle
}

/// All of a fat binary is registered.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn __cudaRegisterFatBinaryEnd(_handle: u64) {}

/// Takes away what belongs to a fat binary, since its addresses may be used by others soon. The
/// driver keeps the library: this is also called when the process ends, and then work that still
/// runs must not be waited for.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn __cudaUnregisterFatBinary(handle: u64) {
    change(|registry| {
        if let Some(binary) = registry.binaries.remove(&handle) {
            let stays = |other: &Arc<Binary>| !Arc::ptr_eq(other, &binary);
            registry
                .functions
                .retain(|_, function| stays(&function.binary));
            registry
                .variables
                .retain(|_, variable| stays(&variable.binary));
        }
    });
}

/// Adds a kernel.
///
/// # Safety
///
/// The name is a string.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn __cudaRegisterFunction(
    handle: u64,
    function: u64,
    _device_function: u64,
    device_name: *const c_char,
    _thread_limit: i32,
    _thread: u64,
    _block: u64,
    _block_dim: u64,
    _grid_dim: u64,
    _warp_size: u64,
) {
    // SAFETY: compilers pass a string.
    let name = unsafe { name(device_name) };
    change(|registry| {
        if let Some(binary) = registry.binaries.get(&handle).cloned() {
            let kernel = OnceLock::new();
            let added = Arc::new(Function {
                name,
                binary,
                kernel,
            });
            registry.functions.insert(function, added);
        }
    });
}

fn add_variable(handle: u64, key: u64, name: CString, pointer: Option<u64>) {
    change(|registry| {
        if let Some(binary) = registry.binaries.get(&handle).cloned() {
            let added = Variable {
                name,
                binary,
                pointer,
            };
            registry.variables.insert(key, added);
        }
    });
}

/// Adds a variable. Its size is what the device code says.
///
/// # Safety
///
/// The name is a string.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn __cudaRegisterVar(
    handle: u64,
    shadow: u64,
    _device_address: u64,
    device_name: *const c_char,
    _is_extern: i32,
    _size: usize,
    _is_constant: i32,
    _is_global: i32,
) {
    // SAFETY: compilers pass a string.
    add_variable(handle, shadow, unsafe { name(device_name) }, None);
}

/// Adds a managed variable. The host accesses it through a pointer, which [`__cudaInitModule`]
/// fills.
///
/// # Safety
///
/// The name is a string.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn __cudaRegisterManagedVar(
    handle: u64,
    pointer: u64,
    _device_address: u64,
    device_name: *const c_char,
    _is_extern: i32,
    _size: usize,
    _is_constant: i32,
    _is_global: i32,
) {
    // SAFETY: compilers pass a string.
    add_variable(handle, pointer, unsafe { name(device_name) }, Some(pointer));
}

/// Makes managed variables ready for the host. Programs call it before they first access one.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn __cudaInitModule(handle: u64) -> i8 {
    let code = call::call("__cudaInitModule", || place_managed(handle));
    if code != 0 {
        eprintln!(
            "ptxjit: managed variables cannot be made: {}",
            crate::errors::text(code)
        );
    }
    i8::from(code == 0)
}

/// Variables of the host that kernels access by name are not there.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn __cudaRegisterHostVar(
    _handle: u64,
    _name: u64,
    _variable: u64,
    _size: usize,
) {
    eprintln!("ptxjit: variables of the host that kernels access by name are not supported");
}

/// Function pointers that host and device share are not there.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn __cudaRegisterUnifiedTable(_handle: u64, _table: u64) {
    eprintln!("ptxjit: tables of functions that host and device share are not supported");
}
