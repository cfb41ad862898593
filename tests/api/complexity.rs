//! Control flow that takes long to compile: a time limit ends it, and code for gangs is not tried
//! at any price.

use std::time::Duration;

use ptxjit::{Device, Engine, Error, FailureKind, Kernel, Module};
use ptxjit_tests::fuzz::flow;

fn tangled(device: &Device, n_blocks: u32) -> Kernel {
    let text = flow::text(1, n_blocks);
    let module = Module::from_source(device, "flow.ptx", text).unwrap();
    module.only_kernel().unwrap()
}

#[test]
fn hundreds_of_blocks_at_random_run_one_lane_at_a_time() {
    let device = Device::new().unwrap();
    let kernel = tangled(&device, 300);
    let run = |engine, gang| {
        let data = device.alloc_from(&[0u32; 32]).unwrap();
        let launch = kernel.launch().block(32).gang(gang).eager(true);
        let prepared = launch.engine(engine).arg(&data).prepare().unwrap();
        prepared.run().unwrap();
        (
            data.read().unwrap(),
            prepared.gang(),
            prepared.narrowed().is_some(),
        )
    };
    let expected = run(Engine::Interp, 1).0;
    assert_eq!(run(Engine::Jit, 32), (expected.clone(), 1, true));
    assert_eq!(run(Engine::Jit, 1), (expected, 1, false));
}

#[test]
fn gangs_run_what_is_not_too_complex() {
    let device = Device::new().unwrap();
    let prepared = tangled(&device, 30).launch().block(32).gang(32);
    let data = device.alloc_from(&[0u32; 32]).unwrap();
    let prepared = prepared.arg(&data).prepare().unwrap();
    assert_eq!((prepared.gang(), prepared.narrowed()), (32, None));
}

#[test]
fn the_time_limit_covers_compilation() {
    let device = Device::new().unwrap();
    let kernel = tangled(&device, 100);
    let data = device.alloc_from(&[0u32; 32]).unwrap();
    let launch = || kernel.launch().block(32).gang(4).arg(&data);
    let late = launch().timeout(Duration::from_nanos(1)).prepare();
    let Err(Error::Launch(failure)) = late else {
        panic!("{late:?}");
    };
    assert_eq!(failure.kind(), FailureKind::Timeout);
    // The next launch with more time does what this one did not finish.
    launch().timeout(Duration::from_secs(600)).run().unwrap();
}

#[test]
fn sizes_beyond_the_limits_are_refused_by_every_engine() {
    let device = Device::new().unwrap();
    for (decl, what) in [
        (".local .align 4 .b8 x[524292]", "local memory"),
        (".local .align 4 .b8 x[1073741824]", "local memory"),
        (".shared .align 4 .b8 x[232452]", "shared memory"),
        (".shared .align 4 .b8 x[2147483648]", "shared memory"),
    ] {
        let body = format!(
            ".visible .entry k() {{ {decl}; .reg .b64 %rd; .reg .b32 %r;
             mov.u64 %rd, x; cvt.u32.u64 %r, %rd; st{} [%rd], %r; ret; }}",
            if what.starts_with('l') {
                ".local.u32"
            } else {
                ".shared.u32"
            }
        );
        for engine in [Engine::Interp, Engine::Jit] {
            let module = Module::from_source(&device, "test.ptx", crate::ptx(&body));
            let run = module.and_then(|module| module.only_kernel()?.launch().engine(engine).run());
            let text = run.unwrap_err().to_string();
            assert!(
                text.contains(what) && text.contains("limit"),
                "{engine:?} {decl}: {text}"
            );
        }
    }
}

#[test]
fn dynamic_shared_memory_has_one_limit() {
    let device = Device::new().unwrap();
    let kernel = crate::kernel(&device, ".visible .entry k() { ret; }");
    for engine in [Engine::Interp, Engine::Jit] {
        let run = |bytes| kernel.launch().shared(bytes).engine(engine).run();
        run(227 << 10).unwrap();
        for bytes in [(227 << 10) + 1, u32::MAX] {
            let text = run(bytes).unwrap_err().to_string();
            assert!(
                text.contains("the limit is 232448"),
                "{engine:?} {bytes}: {text}"
            );
        }
    }
}
