//! `PTXJIT_SANITIZE`: what is found in a program's kernels is told and kept, and its calls succeed.

use std::ffi::CString;

use ptxjit_driver::image::jit::Options;
use ptxjit_driver::launch::{self, Arguments};
use ptxjit_driver::memory::alloc::alloc;
use ptxjit_driver::types::{CUresult, CUstream, HostPtr};
use ptxjit_driver::{context, fault, init, module};

/// All threads write their own numbers to the same word, and read one that was never written.
const RACE: &str = "
.version 7.0
.target sm_80
.address_size 64
.visible .entry race(.param .u64 out) {
    .reg .u64 %p;
    .reg .u32 %t, %v;
    ld.param.u64 %p, [out];
    mov.u32 %t, %tid.x;
    st.global.u32 [%p], %t;
    ld.global.u32 %v, [%p+8];
    add.u32 %v, %v, 1;
    st.global.u32 [%p+4], %v;
    ret;
}
";

/// Launches a kernel with two threads and waits for it.
fn run(addr: u64) -> Result<(), CUresult> {
    let text = CString::new(RACE).unwrap();
    let options = Options {
        count: 0,
        keys: HostPtr::NULL,
        values: HostPtr::NULL,
    };
    let module = module::load_data(HostPtr(text.as_ptr() as u64), options)?;
    let function = module::get_function(module, HostPtr(c"race".as_ptr() as u64))?;
    let params = [&raw const addr as u64];
    let arguments = Arguments {
        params: HostPtr(params.as_ptr() as u64),
        extra: HostPtr::NULL,
    };
    let (grid, block) = ([1; 3], [2, 1, 1]);
    launch::kernel(function, grid, block, 0, CUstream::NULL, arguments, false)?;
    context::synchronize(Default::default())
}

#[test]
#[expect(unsafe_code, reason = "sets environment variables")]
fn findings_are_kept_and_calls_succeed() {
    let suppressions = std::env::temp_dir().join(format!("ptxjit-{}.txt", std::process::id()));
    std::fs::write(&suppressions, "uninitialized-read kernel=race\n").unwrap();
    let checks = format!("race,init;suppress={}", suppressions.display());
    for (name, value) in [("PTXJIT_SANITIZE", checks.as_str()), ("PTXJIT_QUIET", "1")] {
        // SAFETY: this is the only test here, and nothing has read the environment yet,
        // but through std, which has a lock.
        unsafe { std::env::set_var(name, value) };
    }
    init(0).unwrap();
    context::create(0, 0, 3020).unwrap();
    let addr = alloc(12).unwrap();
    for _ in 0..2 {
        assert_eq!(run(addr), Ok(()));
    }
    std::fs::remove_file(&suppressions).unwrap();
    let faults: Vec<_> = std::iter::from_fn(fault::take).collect();
    let kinds: Vec<_> = faults
        .iter()
        .map(|fault| (fault.code, fault.kind))
        .collect();
    // Each is told once, and what the file lists is not.
    assert!(!kinds.is_empty());
    assert!(
        kinds
            .iter()
            .all(|&kind| kind == (CUresult::SUCCESS, "race")),
        "{kinds:?}"
    );
    let report = &faults[0].report;
    assert!(report.contains("kernel `race`"), "{report}");
    assert!(
        faults.iter().any(|fault| fault.ptx_line == 10),
        "{faults:?}"
    );
    let mut reports: Vec<_> = faults.iter().map(|fault| &fault.report).collect();
    let all = reports.len();
    reports.sort();
    reports.dedup();
    assert_eq!(reports.len(), all);
}
