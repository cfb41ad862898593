//! NVRTC's machine code: programs that compile with NVRTC to a *cubin* get PTX instead, as they do
//! from ptxjit's `ptxas` and nvJitLink.
//!
//! NVRTC stays NVIDIA's. When a program asks the linker for one of three of its functions, by
//! `dlsym`, it gets ours: one has NVRTC compile for a virtual architecture where a real one is
//! named, and the other two hand over the PTX as the machine code. A program that is linked with
//! NVRTC gets NVRTC's own, as following those calls would slow down all of its calls.

use std::collections::HashSet;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::{Mutex, OnceLock, PoisonError};

/// A library that is loaded, as the linker describes it (`struct link_map`).
#[repr(C)]
pub struct LinkMap {
    base: usize,
    name: *const c_char,
    dynamic: *const Dynamic,
}

/// An entry of a library's dynamic section, whose addresses the linker has made absolute.
#[repr(C)]
struct Dynamic {
    tag: i64,
    value: usize,
}

/// A symbol (`Elf64_Sym`).
#[repr(C)]
pub struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

impl Symbol {
    pub(crate) fn address(&self) -> usize {
        self.value as usize
    }
}

const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_GNU_HASH: i64 = 0x6fff_fef5;

type Program = *mut c_void;
type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
type GetSize = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type GetCode = unsafe extern "C" fn(Program, *mut c_char) -> c_int;

/// NVRTC's own functions.
#[derive(Copy, Clone)]
struct Functions {
    compile: Compile,
    ptx_size: GetSize,
    ptx: GetCode,
    cubin_size: GetSize,
    cubin: GetCode,
}

/// A copy of NVRTC in the process.
struct Nvrtc {
    map: usize,
    functions: Functions,
    /// Programs that were compiled for a real architecture, by their addresses.
    for_machines: Mutex<HashSet<usize>>,
}

/// Versions of NVRTC that a process may have at once.
const N_COPIES: usize = 4;

static COPIES: [OnceLock<Nvrtc>; N_COPIES] = [const { OnceLock::new() }; N_COPIES];

/// Whether a file is NVRTC, and not what it loads.
pub(crate) fn is_nvrtc(path: &[u8]) -> bool {
    let file = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    file.starts_with(b"libnvrtc.so") || file.starts_with(b"libnvrtc.alt.so")
}

impl LinkMap {
    /// The file.
    ///
    /// # Safety
    ///
    /// The linker has described the library, which is still loaded.
    pub(crate) unsafe fn path(&self) -> &[u8] {
        if self.name.is_null() {
            return &[];
        }
        // SAFETY: a string of the linker's.
        unsafe { CStr::from_ptr(self.name) }.to_bytes()
    }

    /// Address of a function that the library exports, by its hash table.
    ///
    /// # Safety
    ///
    /// As for [`LinkMap::path`].
    unsafe fn function(&self, wanted: &CStr) -> Option<usize> {
        let (mut strings, mut symbols, mut table) = (0, 0, 0);
        let mut entry = self.dynamic;
        loop {
            // SAFETY: the section ends with an entry whose tag is 0.
            let Dynamic { tag, value } = unsafe { &*entry };
            match *tag {
                0 => break,
                DT_STRTAB => strings = *value,
                DT_SYMTAB => symbols = *value,
                DT_GNU_HASH => table = *value,
                _ => {}
            }
            // SAFETY: this was not the last entry.
            entry = unsafe { entry.add(1) };
        }
        if strings == 0 || symbols == 0 || table == 0 {
            return None;
        }
        // SAFETY: the words of a table that the linker uses itself: numbers of buckets, of the
        // first symbol in the table, and of 64-bit words of a filter, then a shift.
        let word = |idx: usize| unsafe { *(table as *const u32).add(idx) };
        let (n_buckets, first, n_filter) = (word(0), word(1), word(2));
        let buckets = 4 + 2 * n_filter as usize;
        let hash = gnu_hash(wanted.to_bytes());
        let mut idx = word(buckets + (hash % n_buckets.max(1)) as usize);
        while idx >= first {
            // Each chain ends with a hash whose lowest bit is set.
            let known = word(buckets + n_buckets as usize + (idx - first) as usize);
            // SAFETY: the table has no symbol that does not exist.
            let symbol = unsafe { &*(symbols as *const Symbol).add(idx as usize) };
            let name = (strings + symbol.name as usize) as *const c_char;
            // SAFETY: names are strings.
            if known | 1 == hash | 1 && unsafe { CStr::from_ptr(name) } == wanted {
                return Some(self.base + symbol.value as usize);
            }
            if known & 1 != 0 {
                break;
            }
            idx += 1;
        }
        None
    }
}

fn gnu_hash(name: &[u8]) -> u32 {
    let step = |hash: u32, &byte: &u8| hash.wrapping_mul(33).wrapping_add(byte.into());
    name.iter().fold(5381, step)
}

impl Functions {
    /// Those of a copy of NVRTC.
    ///
    /// # Safety
    ///
    /// As for [`LinkMap::path`]; the library is NVRTC.
    unsafe fn of(map: &LinkMap) -> Option<Functions> {
        // SAFETY: the caller's promise.
        let find = |name: &CStr| unsafe { map.function(name) };
        let compile = find(c"nvrtcCompileProgram")?;
        let (ptx_size, ptx) = (find(c"nvrtcGetPTXSize")?, find(c"nvrtcGetPTX")?);
        let (cubin_size, cubin) = (find(c"nvrtcGetCUBINSize")?, find(c"nvrtcGetCUBIN")?);
        // SAFETY: NVRTC's functions have these types.
        unsafe {
            Some(Functions {
                compile: std::mem::transmute::<usize, Compile>(compile),
                ptx_size: std::mem::transmute::<usize, GetSize>(ptx_size),
                ptx: std::mem::transmute::<usize, GetCode>(ptx),
                cubin_size: std::mem::transmute::<usize, GetSize>(cubin_size),
                cubin: std::mem::transmute::<usize, GetCode>(cubin),
            })
        }
    }
}

/// The address to give a program that asks for a function of NVRTC; its own if we have none.
///
/// # Safety
///
/// `map` is the linker's description of NVRTC, and `own` the address of the function `name` there.
pub(crate) unsafe fn binding(map: &LinkMap, name: &CStr, own: usize) -> usize {
    // The functions for each copy of NVRTC, as a C function knows nothing but its arguments.
    macro_rules! pick {
        ($function:ident, $copy:expr) => {
            match $copy {
                0 => $function::<0> as *const () as usize,
                1 => $function::<1> as *const () as usize,
                2 => $function::<2> as *const () as usize,
                _ => $function::<3> as *const () as usize,
            }
        };
    }
    let wanted: &[&CStr] = &[
        c"nvrtcCompileProgram",
        c"nvrtcGetCUBINSize",
        c"nvrtcGetCUBIN",
    ];
    let Some(position) = wanted.iter().position(|&known| known == name) else {
        return own;
    };
    // SAFETY: the caller's promise.
    let Some(copy) = (unsafe { copy_of(map) }) else {
        return own;
    };
    match position {
        0 => pick!(compile, copy),
        1 => pick!(cubin_size, copy),
        _ => pick!(cubin, copy),
    }
}

/// The place of a copy of NVRTC among [`COPIES`], if there is room for it.
///
/// # Safety
///
/// As for [`binding`].
unsafe fn copy_of(map: &LinkMap) -> Option<usize> {
    let address = &raw const *map as usize;
    for (idx, copy) in COPIES.iter().enumerate() {
        if copy.get().is_none() {
            // SAFETY: the caller's promise.
            let functions = unsafe { Functions::of(map) }?;
            let _ = copy.set(Nvrtc {
                map: address,
                functions,
                for_machines: Mutex::default(),
            });
        }
        if copy.get().is_some_and(|known| known.map == address) {
            return Some(idx);
        }
    }
    None
}

fn nvrtc(copy: usize) -> &'static Nvrtc {
    let nvrtc = COPIES[copy].get();
    nvrtc.expect("a program gets the functions of a copy once it is there")
}

impl Nvrtc {
    fn is_for_machine(&self, program: Program) -> bool {
        let programs = self.for_machines.lock();
        let programs = programs.unwrap_or_else(PoisonError::into_inner);
        programs.contains(&(program as usize))
    }

    fn note(&self, program: Program, is_for_machine: bool) {
        let programs = self.for_machines.lock();
        let mut programs = programs.unwrap_or_else(PoisonError::into_inner);
        // Another program may have been at this address before.
        match is_for_machine {
            true => programs.insert(program as usize),
            false => programs.remove(&(program as usize)),
        };
    }
}

/// `nvrtcCompileProgram`, for a virtual architecture.
unsafe extern "C" fn compile<const COPY: usize>(
    program: Program,
    count: c_int,
    options: *const *const c_char,
) -> c_int {
    let nvrtc = nvrtc(COPY);
    let given = usize::try_from(count).unwrap_or(0);
    let all: Option<Vec<&CStr>> = (0..given)
        // SAFETY: the program passes so many strings.
        .map(|idx| unsafe { *options.add(idx) })
        .map(|option| match option.is_null() {
            true => None,
            // SAFETY: likewise.
            false => Some(unsafe { CStr::from_ptr(option) }),
        })
        .collect();
    let changed = all.and_then(|all| virtual_options(&all));
    nvrtc.note(program, changed.is_some());
    let Some(changed) = changed else {
        // SAFETY: the program's own call.
        return unsafe { (nvrtc.functions.compile)(program, count, options) };
    };
    let pointers: Vec<*const c_char> = changed.iter().map(|option| option.as_ptr()).collect();
    // SAFETY: the program's own call, with as many options, which live until it returns.
    unsafe { (nvrtc.functions.compile)(program, count, pointers.as_ptr()) }
}

/// `nvrtcGetCUBINSize`: the PTX's.
unsafe extern "C" fn cubin_size<const COPY: usize>(program: Program, size: *mut usize) -> c_int {
    let nvrtc = nvrtc(COPY);
    match nvrtc.is_for_machine(program) {
        // SAFETY: the program's own call; both functions take the same.
        true => unsafe { (nvrtc.functions.ptx_size)(program, size) },
        // SAFETY: the program's own call.
        false => unsafe { (nvrtc.functions.cubin_size)(program, size) },
    }
}

/// `nvrtcGetCUBIN`: the PTX.
unsafe extern "C" fn cubin<const COPY: usize>(program: Program, code: *mut c_char) -> c_int {
    let nvrtc = nvrtc(COPY);
    match nvrtc.is_for_machine(program) {
        // SAFETY: the program's own call; both functions take the same.
        true => unsafe { (nvrtc.functions.ptx)(program, code) },
        // SAFETY: the program's own call.
        false => unsafe { (nvrtc.functions.cubin)(program, code) },
    }
}

/// Options with a virtual architecture in the place of a real one; none if they name no real one,
/// or want code for the linker, which is another format.
fn virtual_options(options: &[&CStr]) -> Option<Vec<CString>> {
    const NAMES: [&str; 2] = ["--gpu-architecture", "-arch"];
    let text = |option: &CStr| option.to_bytes().to_owned();
    let is_for_linker = |option: &&CStr| {
        let option = option.to_bytes();
        option == b"-dlto" || option == b"--dlink-time-opt"
    };
    if options.iter().any(is_for_linker) {
        return None;
    }
    let mut is_changed = false;
    let mut follows_name = false;
    let mut changed = Vec::with_capacity(options.len());
    for &option in options {
        let option = text(option);
        let name = NAMES.iter().find_map(|name| {
            let rest = option.strip_prefix(name.as_bytes())?;
            rest.strip_prefix(b"=").map(|value| (*name, value))
        });
        let (start, value) = match name {
            Some((name, value)) => (format!("{name}="), value),
            None if follows_name => (String::new(), &*option),
            None => (String::new(), &[][..]),
        };
        follows_name = NAMES.iter().any(|name| option == name.as_bytes());
        let option = match value.strip_prefix(b"sm_") {
            Some(number) => {
                is_changed = true;
                [start.as_bytes(), b"compute_", number].concat()
            }
            None => option,
        };
        changed.push(CString::new(option).ok()?);
    }
    is_changed.then_some(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(options: &[&CStr]) -> Option<Vec<String>> {
        let changed = virtual_options(options)?;
        let text = |option: CString| option.into_string().expect("the options were text");
        Some(changed.into_iter().map(text).collect())
    }

    #[test]
    fn real_architectures_become_virtual_ones() {
        let all = changed(&[c"-DX=sm_70", c"-arch=sm_80", c"--fmad=false"]).unwrap();
        assert_eq!(all, ["-DX=sm_70", "-arch=compute_80", "--fmad=false"]);
        let long = changed(&[c"--gpu-architecture=sm_90a"]).unwrap();
        assert_eq!(long, ["--gpu-architecture=compute_90a"]);
        let apart = changed(&[c"-arch", c"sm_75", c"-I", c"sm_x"]).unwrap();
        assert_eq!(apart, ["-arch", "compute_75", "-I", "sm_x"]);
    }

    #[test]
    fn what_is_no_machine_code_stays() {
        let all: [&[&CStr]; 4] = [
            &[],
            &[c"-arch=compute_80"],
            &[c"-DA=-arch=sm_80", c"-I", c"sm_80"],
            &[c"-arch=sm_80", c"-dlto"],
        ];
        for options in all {
            assert_eq!(changed(options), None, "{options:?}");
        }
    }

    #[test]
    fn files_are_known_by_their_names() {
        assert!(is_nvrtc(b"/x/cuda_nvrtc/lib/libnvrtc.so.12"));
        assert!(is_nvrtc(b"libnvrtc.so.13"));
        assert!(!is_nvrtc(b"/x/libnvrtc.so.12/libnvrtc-builtins.so.12.9"));
        assert!(!is_nvrtc(b"/usr/lib/libc.so.6"));
    }

    #[test]
    fn symbols_are_found_by_their_hash() {
        // The values that the format's description gives.
        assert_eq!(gnu_hash(b""), 0x0000_1505);
        assert_eq!(gnu_hash(b"printf"), 0x156b_2bb8);
        assert_eq!(gnu_hash(b"exit"), 0x7c96_7e3f);
    }
}
