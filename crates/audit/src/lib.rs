//! `libptxjit_audit.so`: has the dynamic linker load ptxjit's libraries where a program names
//! NVIDIA's.
//!
//! `LD_LIBRARY_PATH` decides for libraries that are asked for by their bare names. Some packages
//! name a file by its absolute path, or have an RPATH; the linker asks an audit library about
//! those, too. This one answers with the library of the same name that lies beside it, if there is
//! one. Beside that it has NVRTC compile to PTX, see [`nvrtc`]. A program that uses none of these
//! libraries runs as ever.
//!
//! The linker loads audit libraries with a C library of their own, so nothing here meets the
//! program's state.
#![expect(
    unsafe_code,
    reason = "the dynamic linker calls these functions with C's types"
)]

mod nvrtc;

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_long, c_uint, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use nvrtc::LinkMap;

/// What is replaced: how names of files begin, up to a dot or the end, and the name of the
/// replacement.
const REPLACED: &[(&str, &str)] = &[
    ("libcuda.so", "libcuda.so.1"),
    ("libnvidia-ml.so", "libnvidia-ml.so.1"),
    ("libcudart.so.12", "libcudart.so.12"),
    ("libcudart.so.13", "libcudart.so.13"),
    ("libnvJitLink.so.12", "libnvJitLink.so.12"),
    ("libnvJitLink.so.13", "libnvJitLink.so.13"),
];

/// The paths of the replacements that exist, in the order of [`REPLACED`].
static PATHS: OnceLock<Vec<Option<CString>>> = OnceLock::new();

/// Called first; the answer says which version of the interface is spoken. The functions below are
/// the same in all.
#[unsafe(no_mangle)]
pub extern "C" fn la_version(version: c_uint) -> c_uint {
    version
}

/// Called for each name under which the linker is about to look for a library; the answer is the
/// name to look under.
///
/// # Safety
///
/// `name` is a string, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn la_objsearch(
    name: *const c_char,
    _cookie: *mut usize,
    _flag: c_uint,
) -> *const c_char {
    if name.is_null() {
        return name;
    }
    // SAFETY: the linker passes a string.
    let wanted = unsafe { CStr::from_ptr(name) };
    let Some(idx) = replacement(wanted.to_bytes()) else {
        return name;
    };
    let path = PATHS.get_or_init(find)[idx].as_deref();
    path.map_or(name, CStr::as_ptr)
}

/// `LA_FLG_BINDTO`: the linker tells us when a symbol of the library is bound.
const TELL_BINDINGS: c_uint = 1;

/// `LA_SYMB_NOPLTENTER` and `LA_SYMB_NOPLTEXIT`: it need not tell of calls.
const TELL_NO_CALLS: c_uint = 3;

/// Called for each library that is loaded; the answer says what else the linker has to tell. The
/// cookie gets the linker's description of the library.
///
/// # Safety
///
/// The pointers are the linker's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn la_objopen(
    map: *const LinkMap,
    _namespace: c_long,
    cookie: *mut usize,
) -> c_uint {
    // SAFETY: the linker's promise.
    unsafe { *cookie = map as usize };
    // SAFETY: likewise.
    match nvrtc::is_nvrtc(unsafe { (*map).path() }) {
        true => TELL_BINDINGS,
        false => 0,
    }
}

/// Called when a program asks for a symbol of a library that [`la_objopen`] chose; the answer is
/// the address that it gets.
///
/// # Safety
///
/// The pointers are the linker's; `symbol` is an `Elf64_Sym` with the symbol's address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn la_symbind64(
    symbol: *const nvrtc::Symbol,
    _number: c_uint,
    _user: *mut usize,
    definer: *mut usize,
    flags: *mut c_uint,
    name: *const c_char,
) -> usize {
    // SAFETY: the linker's promise.
    unsafe { *flags |= TELL_NO_CALLS };
    // SAFETY: likewise.
    let own = unsafe { (*symbol).address() };
    // SAFETY: the cookie has what `la_objopen` put there, a library that is loaded.
    let map = unsafe { &*(*definer as *const LinkMap) };
    // SAFETY: a string of the linker's.
    let name = unsafe { CStr::from_ptr(name) };
    // SAFETY: only NVRTC's bindings are told, as `la_objopen` chose it alone.
    unsafe { nvrtc::binding(map, name, own) }
}

/// Which row of [`REPLACED`] a path is of.
fn replacement(path: &[u8]) -> Option<usize> {
    let file = path.rsplit(|&byte| byte == b'/').next()?;
    REPLACED.iter().position(|(prefix, _)| {
        let rest = file.strip_prefix(prefix.as_bytes());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"."))
    })
}

fn find() -> Vec<Option<CString>> {
    let folder = own_folder();
    let path = |(_, name): &(&str, &str)| {
        let path = folder.as_ref()?.join(name);
        let path = path.exists().then_some(path)?;
        CString::new(path.into_os_string().into_encoded_bytes()).ok()
    };
    REPLACED.iter().map(path).collect()
}

/// The folder that this library was loaded from. Links are not followed: the folder of links is the
/// one that has all names.
fn own_folder() -> Option<PathBuf> {
    // SAFETY: null and zero are values of these fields.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    let here = la_version as *const c_void;
    // SAFETY: `info` may be written to.
    let found: c_int = unsafe { libc::dladdr(here, &raw mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the linker has given a string that lives as long as this library.
    let file = unsafe { CStr::from_ptr(info.dli_fname) };
    let file = Path::new(OsStr::from_bytes(file.to_bytes()));
    file.parent().map(Path::to_path_buf)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_replaced() {
        let by = |path: &str| replacement(path.as_bytes()).map(|idx| REPLACED[idx].1);
        assert_eq!(by("libcuda.so.1"), Some("libcuda.so.1"));
        assert_eq!(by("libcuda.so"), Some("libcuda.so.1"));
        assert_eq!(by("/usr/lib/libcuda.so.580.65.06"), Some("libcuda.so.1"));
        assert_eq!(by("/x/nvidia/lib/libcudart.so.12"), Some("libcudart.so.12"));
        assert_eq!(by("/x/libnvJitLink.so.13.0.88"), Some("libnvJitLink.so.13"));
        assert_eq!(by("libnvidia-ml.so.1"), Some("libnvidia-ml.so.1"));
    }

    #[test]
    fn names_that_are_left_alone() {
        let all = [
            "libcudart.so",
            "libcudart.so.11.0",
            "libcudart.so.120",
            "libcuda.software",
            "libcudadebugger.so.1",
            "/libcuda.so.1/libc.so.6",
            "libnvJitLink.so.1",
            "",
            "/",
        ];
        for name in all {
            assert_eq!(replacement(name.as_bytes()), None, "{name}");
        }
    }
}
