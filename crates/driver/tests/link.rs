//! The linker through the safe interface.

use std::ffi::CString;

use ptxjit_driver::image::jit::Options;
use ptxjit_driver::launch::{self, Arguments};
use ptxjit_driver::memory::{alloc, copy};
use ptxjit_driver::types::*;
use ptxjit_driver::{context, init, library, link, module};

const HEAD: &str = ".version 7.0\n.target sm_80\n.address_size 64\n";
const KERNEL: &str = ".extern .func (.param .b32 r) twice(.param .b32 x);\n\
    .visible .entry k(.param .u64 p) { .reg .u64 %p; .reg .u32 %r; .param .b32 a; .param .b32 b; \
    ld.param.u64 %p, [p]; ld.global.u32 %r, [%p]; st.param.b32 [a], %r; call (b), twice, (a); \
    ld.param.b32 %r, [b]; st.global.u32 [%p], %r; ret; }";
const TWICE: &str = ".visible .func (.param .b32 r) twice(.param .b32 x) { .reg .u32 %r; \
    ld.param.b32 %r, [x]; add.u32 %r, %r, %r; st.param.b32 [r], %r; ret; }";

/// Options that ask for an error log, and the log.
struct Logged {
    keys: [CUjit_option; 2],
    values: [u64; 2],
    log: Box<[u8; 512]>,
}

impl Logged {
    fn new() -> Logged {
        let log = Box::new([b'?'; 512]);
        Logged {
            keys: [
                CUjit_option::ERROR_LOG_BUFFER,
                CUjit_option::ERROR_LOG_BUFFER_SIZE_BYTES,
            ],
            values: [log.as_ptr().expose_provenance() as u64, 512],
            log,
        }
    }

    fn options(&mut self) -> Options {
        Options {
            count: 2,
            keys: at(self.keys.as_ptr()),
            values: at(self.values.as_mut_ptr()),
        }
    }

    fn text(&self) -> String {
        let end = self.log.iter().position(|&byte| byte == 0).unwrap();
        String::from_utf8(self.log[..end].to_vec()).unwrap()
    }
}

fn at<T>(address: *const T) -> HostPtr {
    HostPtr(address.expose_provenance() as u64)
}

fn ready() -> CUcontext {
    init(0).unwrap();
    let context = context::primary_retain(0).unwrap();
    context::set_current(context).unwrap();
    context
}

fn add(state: CUlinkState, said: CUjitInputType, bytes: &[u8]) -> Result<(), CUresult> {
    let name = CString::new("part.ptx").unwrap();
    link::add_data(
        state,
        said,
        at(bytes.as_ptr()),
        bytes.len(),
        at(name.as_ptr()),
        Options::NONE,
    )
}

fn add_ptx(state: CUlinkState, body: &str) -> Result<(), CUresult> {
    add(
        state,
        CUjitInputType::INPUT_PTX,
        format!("{HEAD}{body}\0").as_bytes(),
    )
}

#[test]
fn an_image_of_two_modules_is_loaded_and_linked_again() {
    ready();
    let state = link::create(Options::NONE).unwrap();
    add_ptx(state, KERNEL).unwrap();
    add_ptx(state, TWICE).unwrap();
    let (image, len) = link::complete(state).unwrap();
    assert_eq!(link::complete(state).unwrap(), (image, len));
    assert_eq!(add_ptx(state, TWICE), Err(CUresult::INVALID_VALUE));

    let name = CString::new("k").unwrap();
    let loaded = module::load_data(HostPtr(image), Options::NONE).unwrap();
    module::get_function(loaded, at(name.as_ptr())).unwrap();
    let loaded = library::load_data(HostPtr(image), Options::NONE).unwrap();
    library::get_kernel(loaded, at(name.as_ptr())).unwrap();

    let again = link::create(Options::NONE).unwrap();
    let from_image = |said| {
        link::add_data(
            again,
            said,
            HostPtr(image),
            len,
            HostPtr::NULL,
            Options::NONE,
        )
    };
    from_image(CUjitInputType::INPUT_CUBIN).unwrap();
    link::complete(again).unwrap();
    link::destroy(again).unwrap();
    link::destroy(state).unwrap();
    assert_eq!(link::destroy(state), Err(CUresult::INVALID_HANDLE));
    assert_eq!(link::complete(state), Err(CUresult::INVALID_HANDLE));
}

#[test]
fn the_log_names_what_is_undefined() {
    ready();
    let mut logged = Logged::new();
    let state = link::create(logged.options()).unwrap();
    assert_eq!(logged.text(), "");
    add_ptx(state, KERNEL).unwrap();
    assert_eq!(link::complete(state), Err(CUresult::UNKNOWN));
    assert!(
        logged.text().contains("undefined reference to 'twice'"),
        "{}",
        logged.text()
    );
    assert_eq!(logged.values[1], logged.text().len() as u64);
    // What was missing can be added still.
    add_ptx(state, TWICE).unwrap();
    link::complete(state).unwrap();
    assert_eq!(logged.text(), "");
    link::destroy(state).unwrap();
}

#[test]
fn the_log_names_what_is_defined_twice() {
    ready();
    let mut logged = Logged::new();
    let state = link::create(logged.options()).unwrap();
    add_ptx(state, KERNEL).unwrap();
    add_ptx(state, TWICE).unwrap();
    add_ptx(state, TWICE).unwrap();
    assert_eq!(link::complete(state), Err(CUresult::UNKNOWN));
    assert!(
        logged.text().contains("multiple definition of 'twice'"),
        "{}",
        logged.text()
    );
    link::destroy(state).unwrap();
}

#[test]
fn inputs_are_checked_when_they_are_added() {
    ready();
    let mut logged = Logged::new();
    let state = link::create(logged.options()).unwrap();
    assert_eq!(
        add_ptx(state, ".visible .entry k() { nonsense; }"),
        Err(CUresult::INVALID_PTX)
    );
    assert!(logged.text().contains("part.ptx:4"), "{}", logged.text());
    let minor = b".version 9.5\n.target sm_80\n.address_size 64\n";
    assert_eq!(add(state, CUjitInputType::INPUT_PTX, minor), Ok(()));
    let newer = b".version 9.6\n.target sm_80\n.address_size 64\n";
    assert_eq!(
        add(state, CUjitInputType::INPUT_PTX, newer),
        Err(CUresult::UNSUPPORTED_PTX_VERSION)
    );
    let elf = b"\x7fELF\x02\x01\x01\0";
    assert_eq!(
        add(state, CUjitInputType::INPUT_PTX, elf),
        Err(CUresult::INVALID_PTX)
    );
    assert_eq!(
        add(state, CUjitInputType::INPUT_FATBINARY, elf),
        Err(CUresult::INVALID_IMAGE)
    );
    assert_eq!(
        add(state, CUjitInputType::INPUT_NVVM, b"BC\xc0\xde...."),
        Err(CUresult::NO_BINARY_FOR_GPU)
    );
    assert_eq!(
        add(state, CUjitInputType(6), elf),
        Err(CUresult::INVALID_VALUE)
    );
    assert_eq!(
        add(state, CUjitInputType::INPUT_PTX, b""),
        Err(CUresult::INVALID_VALUE)
    );
    // Nothing of that was kept.
    add_ptx(state, TWICE).unwrap();
    add_ptx(state, KERNEL).unwrap();
    link::complete(state).unwrap();
    link::destroy(state).unwrap();
}

#[test]
fn files_are_linked() {
    ready();
    let state = link::create(Options::NONE).unwrap();
    let folder = std::env::temp_dir().join(format!("ptxjit-link-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("kernel.ptx");
    std::fs::write(&file, format!("{HEAD}{KERNEL}")).unwrap();
    let path = CString::new(file.to_str().unwrap()).unwrap();
    let missing = CString::new("/there/is/no/such.ptx").unwrap();
    let add_file = |path: &CString| {
        let said = CUjitInputType::INPUT_PTX;
        link::add_file(state, said, at(path.as_ptr()), Options::NONE)
    };
    assert_eq!(add_file(&missing), Err(CUresult::FILE_NOT_FOUND));
    add_file(&path).unwrap();
    add_ptx(state, TWICE).unwrap();
    link::complete(state).unwrap();
    link::destroy(state).unwrap();
    std::fs::remove_dir_all(folder).unwrap();
}

/// A fat binary with one entry: PTX (1) or machine code (2) for `sm_80`.
fn container(kind: u16, text: &str) -> Vec<u8> {
    let payload = format!("{text}\0").into_bytes();
    let mut entry = vec![0; 64];
    let mut put = |at: usize, bytes: &[u8]| entry[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &kind.to_le_bytes());
    put(2, &0x101_u16.to_le_bytes());
    put(4, &64_u32.to_le_bytes());
    put(8, &(payload.len() as u32).to_le_bytes());
    put(26, &7_u16.to_le_bytes());
    put(28, &80_u32.to_le_bytes());
    put(32, &64_u32.to_le_bytes());
    put(40, &1_u64.to_le_bytes());
    let mut bytes = 0xba55_ed50_u32.to_le_bytes().to_vec();
    bytes.extend([1, 0, 16, 0]);
    bytes.extend((entry.len() as u64 + payload.len() as u64).to_le_bytes());
    bytes.extend(entry);
    bytes.extend(payload);
    bytes
}

/// Loads what nvcc makes of relocatable parts: a wrapper with a list of fat binaries.
fn load_list(parts: &[&[u8]], options: Options) -> Result<CUmodule, CUresult> {
    let mut list: Vec<u64> = parts.iter().map(|part| at(part.as_ptr()).0).collect();
    list.push(0);
    let wrapper = [0x2_4662_43b1, list[0], at(list.as_ptr()).0];
    module::load_data(at(wrapper.as_ptr()), options)
}

#[test]
fn parts_without_code_for_the_device_are_left_out() {
    ready();
    let kernel = container(1, &format!("{HEAD}{KERNEL}"));
    let twice = container(1, &format!("{HEAD}{TWICE}"));
    let other = container(2, "machine code");
    let loaded = load_list(&[&kernel, &other, &twice], Options::NONE).unwrap();
    let name = CString::new("k").unwrap();
    module::get_function(loaded, at(name.as_ptr())).unwrap();

    let mut logged = Logged::new();
    let empty = container(1, &format!("{HEAD}.visible .entry empty() {{ ret; }}"));
    let result = load_list(&[&kernel, &other, &empty], logged.options());
    assert_eq!(result, Err(CUresult::INVALID_PTX));
    for part in [
        "undefined reference to 'twice'",
        "left out",
        "machine code for sm_80",
    ] {
        assert!(logged.text().contains(part), "{}", logged.text());
    }
    let result = load_list(&[&other], Options::NONE);
    assert_eq!(result, Err(CUresult::NO_BINARY_FOR_GPU));
}

/// An archive with one member that has this name.
fn archive(name: &str, member: &[u8]) -> Vec<u8> {
    let names = format!("{name}/\n");
    let mut bytes = b"!<arch>\n".to_vec();
    for (name, contents) in [("//", names.as_bytes()), ("/0", member)] {
        let size = contents.len();
        bytes.extend(format!("{name:<16}{:<32}{size:<10}`\n", "0").as_bytes());
        bytes.extend(contents);
        bytes.resize(bytes.len().next_multiple_of(2), b'\n');
    }
    bytes
}

/// Each CTA adds the number of the round to its own word and then, behind the barrier of the grid,
/// takes its neighbour's word; what the barrier gives goes to the end.
const ROUNDS: &str = ".extern .func (.param .b64 h) cudaCGGetIntrinsicHandle(.param .b32 scope);\n\
    .extern .func (.param .b32 e) cudaCGSynchronize(.param .b64 h, .param .b32 flags);\n\
    .visible .entry rounds(.param .u64 p) { .reg .pred %f, %q; .reg .u64 %p, %a, %b, %h; \
    .reg .u32 %r, %i, %n, %t, %s, %e; .param .b32 scope; .param .b64 handle; \
    ld.param.u64 %p, [p]; mov.u32 %n, %nctaid.x; mov.u32 %t, %ctaid.x; \
    mad.wide.u32 %a, %t, 4, %p; add.u32 %t, %t, 1; rem.u32 %t, %t, %n; mad.wide.u32 %b, %t, 4, %p; \
    mov.u32 %t, %tid.x; setp.eq.u32 %f, %t, 0; mov.u32 %i, 1; mov.u32 %s, 0; \
    st.param.b32 [scope], 1; call (handle), cudaCGGetIntrinsicHandle, (scope); \
    ld.param.b64 %h, [handle]; \
    AGAIN: @%f ld.global.u32 %r, [%a]; @%f mad.lo.u32 %r, %r, 3, %i; @%f st.global.u32 [%a], %r; \
    { .param .b64 h; .param .b32 flags; .param .b32 e; st.param.b64 [h], %h; \
    st.param.b32 [flags], 0; call (e), cudaCGSynchronize, (h, flags); ld.param.b32 %e, [e]; } \
    or.b32 %s, %s, %e; @%f ld.volatile.global.u32 %r, [%b]; \
    { .param .b64 h; .param .b32 flags; .param .b32 e; st.param.b64 [h], %h; \
    st.param.b32 [flags], 0; call (e), cudaCGSynchronize, (h, flags); ld.param.b32 %e, [e]; } \
    or.b32 %s, %s, %e; @%f st.global.u32 [%a], %r; add.u32 %i, %i, 1; \
    setp.le.u32 %q, %i, 5; @%q bra AGAIN; \
    mul.wide.u32 %a, %n, 4; add.u64 %a, %a, %p; @%f st.global.u32 [%a], %s; ret; }";

#[test]
fn the_device_runtime_synchronizes_cooperative_grids() {
    const CTAS: u32 = 6;
    ready();
    let library = archive("cuda_device_runtime.o", b"\x7fELF: machine code");
    let state = link::create(Options::NONE).unwrap();
    add_ptx(state, ROUNDS).unwrap();
    add(state, CUjitInputType::INPUT_LIBRARY, &library).unwrap();
    let (image, _) = link::complete(state).unwrap();
    let loaded = module::load_data(HostPtr(image), Options::NONE).unwrap();
    let name = CString::new("rounds").unwrap();
    let function = module::get_function(loaded, at(name.as_ptr())).unwrap();

    let mut expected: Vec<u32> = (10..10 + CTAS).collect();
    let words = alloc::alloc(4 * (CTAS as usize + 1)).unwrap();
    let launch = |is_cooperative| {
        let start: Vec<u32> = (10..10 + CTAS).chain([77]).collect();
        copy::to_device(words, at(start.as_ptr()).0, 4 * start.len()).unwrap();
        let params = [at(&raw const words).0];
        let arguments = Arguments {
            params: at(params.as_ptr()),
            extra: HostPtr::NULL,
        };
        let grid = ([CTAS, 1, 1], [64, 1, 1]);
        let stream = CUstream::NULL;
        launch::kernel(
            function,
            grid.0,
            grid.1,
            0,
            stream,
            arguments,
            is_cooperative,
        )
        .unwrap();
        context::synchronize(CUcontext::NULL).unwrap();
        let mut found = vec![0_u32; CTAS as usize + 1];
        copy::to_host(at(found.as_mut_ptr()).0, words, 4 * found.len()).unwrap();
        found
    };
    for round in 1..=5 {
        for word in &mut expected {
            *word = *word * 3 + round;
        }
        expected.rotate_left(1);
    }
    expected.push(0);
    assert_eq!(launch(true), expected);
    // Without a cooperative launch there is no handle: `cudaErrorInvalidValue`.
    assert_eq!(launch(false)[CTAS as usize], 1);
    link::destroy(state).unwrap();
}
