//! `PTXJIT_SANITIZE` about what a program itself does with memory: wrong copies, memsets and frees,
//! launches with pointers to what was freed, and what is never freed. Each is told once, and in the
//! files that the variable asks for.

#[path = "memory/kernel.rs"]
mod kernel;

use std::path::PathBuf;

use ptxjit_driver::image::jit::Options;
use ptxjit_driver::memory::{alloc, copy, fill, pool};
use ptxjit_driver::types::{CUresult, CUstream, HostPtr};
use ptxjit_driver::{calling, context, fault, init, module};

use kernel::{increment, run};

/// A file of this test.
fn file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("ptxjit-{}-{name}", std::process::id()))
}

/// Kinds and reports of what was found since the last call.
fn found() -> Vec<(&'static str, String)> {
    let faults = std::iter::from_fn(fault::take);
    faults.map(|fault| (fault.kind, fault.report)).collect()
}

/// There is one finding, of this kind, whose report has all these texts in this order.
fn assert_found(kind: &str, texts: &[&str]) {
    let found = found();
    let [(is, report)] = found.as_slice() else {
        panic!("{kind} was expected, and not {found:#?}");
    };
    assert_eq!(*is, kind);
    let mut rest = report.as_str();
    for text in texts {
        let at = rest.find(text);
        rest = &rest[at.unwrap_or_else(|| panic!("`{text}` is missing in {report}"))..];
    }
}

#[expect(unsafe_code, reason = "sets environment variables")]
fn start() {
    let (json, sarif) = (file("findings.json"), file("findings.sarif"));
    let checks = format!(
        "mem,leak;report=json={};report=sarif={}",
        json.display(),
        sarif.display()
    );
    for (name, value) in [("PTXJIT_SANITIZE", checks.as_str()), ("PTXJIT_QUIET", "1")] {
        // SAFETY: this is the only test here, and nothing has read the environment yet,
        // but through std, which has a lock.
        unsafe { std::env::set_var(name, value) };
    }
    init(0).unwrap();
}

const INVALID: Result<(), CUresult> = Err(CUresult::INVALID_VALUE);

#[test]
fn what_a_program_does_with_memory() {
    start();
    let context = context::create(0, 0, 3020).unwrap();
    let addr = calling("cuMemAlloc_v2", || alloc::alloc(100)).unwrap();
    let mut bytes = [0u8; 256];
    let host = bytes.as_mut_ptr() as u64;
    let to_host = |addr, len| calling("cuMemcpyDtoH_v2", move || copy::to_host(host, addr, len));
    assert_eq!(to_host(addr, 100), Ok(()));
    assert_eq!(found(), []);

    assert_eq!(to_host(addr + 60, 64), INVALID);
    let texts = [
        "out-of-bounds: `cuMemcpyDtoH_v2` reads 64 bytes, of which 24 lie past the end",
        "--> `cuMemcpyDtoH_v2`\n   = read by the program",
        "--> `cuMemAlloc_v2`\n   = allocated by the program",
        "byte 60 of the 100-byte allocation",
    ];
    assert_found("out-of-bounds", &texts);
    // The same again is counted.
    assert_eq!(to_host(addr + 60, 64), INVALID);
    assert_eq!(found(), []);
    let past = calling("cuMemsetD32_v2", || fill::fill(addr + 512, 0, 4, 2));
    assert_eq!(past, INVALID);
    let texts = [
        "writes 8 bytes that lie in no allocation",
        "is 412 bytes past the end of the 100-byte",
    ];
    assert_found("out-of-bounds", &texts);
    let from_null = calling("cuMemcpyDtoD_v2", || copy::on_device(addr, 16, 4));
    assert_eq!(from_null, INVALID);
    assert_found(
        "null-pointer",
        &["`cuMemcpyDtoD_v2` reads 4 bytes at a null pointer"],
    );

    let inside = calling("cuMemFree_v2", || alloc::free(addr + 4));
    assert_eq!(inside, INVALID);
    assert_found("invalid-free", &["an address inside of an allocation"]);
    let free = || calling("cuMemFree_v2", || alloc::free(addr));
    assert_eq!(free(), Ok(()));
    assert_eq!(free(), INVALID);
    let texts = [
        "frees memory that was freed before",
        "= freed by",
        "= freed by",
        "= allocated by",
    ];
    assert_found("double-free", &texts);
    assert_eq!(to_host(addr, 8), INVALID);
    let texts = [
        "reads 8 bytes of memory that was freed",
        "= read by",
        "`cuMemFree_v2`",
        "= allocated",
    ];
    assert_found("use-after-free", &texts);
    let set = calling("cuMemsetD8_v2", || fill::fill(addr, 1, 1, 8));
    assert_eq!(set, INVALID);
    assert_found(
        "use-after-free",
        &["`cuMemsetD8_v2` writes 8 bytes", "= written by"],
    );

    // To pass a pointer is fragile; what the kernel does with it is the bug.
    let result = calling("cuLaunchKernel", || run(increment(), addr));
    assert_eq!(result, Err(CUresult::ILLEGAL_ADDRESS));
    let texts = [
        "which was freed",
        "`cuMemFree_v2`\n   = freed by",
        "`cuMemAlloc_v2`\n   = allocated by",
    ];
    assert_found("bad-address", &texts);
    context::clear_error(context).unwrap();

    let pooled = calling("cuMemAllocAsync", || pool::alloc_async(40, CUstream::NULL)).unwrap();
    let free = || {
        calling("cuMemFreeAsync", || {
            pool::free_async(pooled, CUstream::NULL)
        })
    };
    assert_eq!((free(), free()), (Ok(()), INVALID));
    assert_found(
        "double-free",
        &["`cuMemFreeAsync` frees memory that was freed before"],
    );

    constants_are_in_use();

    for size in [16, 48] {
        calling("cuMemAllocHost_v2", || alloc::host_alloc(size, 0)).unwrap();
    }
    context::destroy(context).unwrap();
    let texts = [
        "leak: 2 allocations, 64 bytes in all, are never freed",
        "`cuMemAllocHost_v2`",
    ];
    assert_found("leak", &texts);
    check_files();
}

/// A constant is no memory that was allocated, nor freed.
fn constants_are_in_use() {
    let addr = constant();
    let mut bytes = [0u8; 4];
    let host = bytes.as_mut_ptr() as u64;
    let set = calling("cuMemcpyHtoD_v2", || copy::to_device(addr, host, 4));
    let get = calling("cuMemcpyDtoH_v2", || copy::to_host(host, addr, 4));
    assert_eq!((set, get), (Ok(()), Ok(())));
    assert_eq!(found(), []);
}

/// The address of a constant of a module.
fn constant() -> u64 {
    let text = c".version 7.0\n.target sm_80\n.address_size 64\n.visible .const .b32 number;\n";
    let options = Options {
        count: 0,
        keys: HostPtr::NULL,
        values: HostPtr::NULL,
    };
    let module = module::load_data(HostPtr(text.as_ptr() as u64), options).unwrap();
    module::get_global(module, HostPtr(c"number".as_ptr() as u64))
        .unwrap()
        .0
}

/// The files have all of it, the launch among it that is no fault.
fn check_files() {
    let (json, sarif) = (file("findings.json"), file("findings.sarif"));
    let text = std::fs::read_to_string(&json).unwrap();
    let count = |pattern: &str| text.matches(pattern).count();
    assert_eq!(count("\"kind\": \"out-of-bounds\""), 2, "{text}");
    // Of the program, and of the kernel.
    assert_eq!(count("\"kind\": \"use-after-free\""), 4, "{text}");
    assert_eq!(count("\"kind\": \"double-free\""), 2, "{text}");
    assert_eq!(count("\"severity\": \"warning\""), 1, "{text}");
    assert_eq!(count("\"op\": \"launch\""), 1, "{text}");
    assert!(text.contains("points to memory that was freed"), "{text}");
    assert!(text.contains("\"call\": \"cuMemcpyDtoH_v2\""), "{text}");
    let text = std::fs::read_to_string(&sarif).unwrap();
    assert!(text.contains("\"version\": \"2.1.0\""), "{text}");
    assert!(text.contains("\"ruleId\": \"leak\""), "{text}");
    // A second time the same place is a matter of the count.
    assert_eq!(text.matches("of which 24 lie past").count(), 1, "{text}");
    for path in [json, sarif] {
        std::fs::remove_file(path).unwrap();
    }
}
