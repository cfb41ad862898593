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

/// A kernel that combines a number with itself, or with the one before, over and over, and accesses
/// memory at the result.
fn chain(device: &Device, first: &str, op: &str, n: u32) -> Kernel {
    let step = |i: u32| format!("{op} %r{}, %r{i}, %r{};\n", i + 1, i - (i + 1) % 2);
    let steps: String = (1..n).map(step).collect();
    let text = format!(
        ".version 8.0\n.target sm_80\n.address_size 64
.visible .entry chain(.param .u64 data, .param .u32 n)
{{
    .reg .pred %p1;
    .reg .b32 %r<{n}>, %at, %own, %r{n};
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [data];
    ld.param.u32 %r0, [n];
    mov.u32 %own, %tid.x;
    {first}
    {steps}
    add.u32 %at, %r{n}, %own;
    setp.lt.s32 %p1, %at, %r{n};
    @%p1 bra DONE;
    and.b32 %at, %at, 31;
    mul.wide.u32 %rd2, %at, 4;
    add.u64 %rd3, %rd1, %rd2;
    atom.global.add.u32 %at, [%rd3], %r{n};
DONE:
    ret;
}}"
    );
    let module = Module::from_source(device, "chain.ptx", text).unwrap();
    module.only_kernel().unwrap()
}

#[test]
fn operands_that_are_shared_again_and_again_are_looked_at_once() {
    let device = Device::new().unwrap();
    let firsts = ["mov.u32 %r1, %r0;", "mad.lo.u32 %r1, %r0, 4, %own;"];
    let ops = [
        "add.u32",
        "mul.lo.u32",
        "and.b32",
        "or.b32",
        "xor.b32",
        "min.s32",
        "max.u32",
    ];
    for (first, op) in firsts.iter().flat_map(|first| ops.map(|op| (first, op))) {
        let kernel = chain(&device, first, op, 60);
        let run = |engine, gang| {
            let data = device.alloc_from(&[0u32; 32]).unwrap();
            let launch = kernel.launch().block(32).gang(gang).eager(true);
            let launch = launch.engine(engine).arg(&data).arg(3u32);
            launch.run().unwrap();
            data.read().unwrap()
        };
        let expected = run(Engine::Interp, 1);
        for gang in [4, 16, 32] {
            assert_eq!(run(Engine::Jit, gang), expected, "{first} {op} {gang}");
        }
    }
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

/// What compiling the only kernel of some PTX for single lanes tells.
fn refused(body: &str) -> String {
    let device = Device::new().unwrap();
    let module = Module::from_source(&device, "test.ptx", crate::ptx(body)).unwrap();
    let kernel = module.only_kernel().unwrap();
    let prepared = kernel.launch().block(32).gang(1).prepare();
    prepared.unwrap_err().to_string()
}

#[test]
fn lanes_wait_at_as_many_places_as_their_state_can_tell() {
    let waits = "bar.sync 0;\n".repeat(66_000);
    let text = refused(&format!(".visible .entry k() {{ {waits} ret; }}"));
    let expected = "lanes can wait at 66001 places, more than 65534";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn calls_save_a_million_values() {
    let each = |line: &dyn Fn(u32) -> String| (0..2100).map(line).collect::<String>();
    let loads = each(&|n| format!("ld.volatile.global.u32 %r{n}, [%d];\n"));
    let stores = each(&|n| format!("st.volatile.global.u32 [%d], %r{n};\n"));
    let calls = "call f;\n".repeat(500);
    let text = refused(&format!(
        ".func f() {{ call f; ret; }}
        .visible .entry k() {{
            .reg .b64 %d; .reg .b32 %r<2100>;
            {loads} {calls} {stores} ret;
        }}"
    ));
    let expected = "values live across calls that are not inlined, more than 1048576";
    assert!(text.contains(expected), "{text}");
}

/// Functions that are not inlined, called so often that whatever looks at all calls for each call
/// would take minutes.
#[test]
fn thousands_of_calls_return() {
    let device = Device::new().unwrap();
    let calls = "call (y), f, (x); ld.param.b32 %r2, [y]; st.param.b32 [x], %r2;\n".repeat(2000);
    let kernel = crate::kernel(
        &device,
        &format!(
            ".func (.param .b32 y) f(.param .b32 x) {{
                .reg .b32 %r; .reg .pred %p;
                ld.param.u32 %r, [x]; setp.eq.u32 %p, %r, 1000000;
                @%p call (y), f, (x);
                add.u32 %r, %r, 3; st.param.b32 [y], %r; ret;
            }}
            .visible .entry k(.param .u64 out) {{
                .reg .b64 %d; .reg .b32 %r<3>; .param .b32 x; .param .b32 y;
                ld.param.u64 %d, [out];
                mov.u32 %r1, %tid.x; st.param.b32 [x], %r1;
                {calls}
                mad.wide.u32 %d, %r1, 4, %d; st.global.u32 [%d], %r2; ret;
            }}"
        ),
    );
    let expected: Vec<u32> = (0..32).map(|tid| tid + 6000).collect();
    for gang in [1, 8] {
        let data = device.alloc_from(&[0u32; 32]).unwrap();
        let launch = kernel.launch().block(32).gang(gang);
        launch.arg(&data).run().unwrap();
        assert_eq!(data.read().unwrap(), expected, "gang {gang}");
    }
}

/// More variables than addresses are kept for, before and behind a barrier.
#[test]
fn thousands_of_variables_are_found_on_both_sides_of_a_barrier() {
    let device = Device::new().unwrap();
    let each = |line: &dyn Fn(u32) -> String| (0..2000).map(line).collect::<String>();
    let variables = each(&|n| format!(".global .u32 g{n};\n"));
    let stores = each(&|n| format!("add.u32 %r2, %r1, {n}; st.global.u32 [g{n}], %r2;\n"));
    let loads = each(&|n| format!("ld.global.u32 %r2, [g{n}]; add.u32 %r3, %r3, %r2;\n"));
    let kernel = crate::kernel(
        &device,
        &format!(
            "{variables}
            .visible .entry k(.param .u64 out) {{
                .reg .pred %p; .reg .b64 %d; .reg .b32 %r<4>;
                mov.u32 %r1, %tid.x; setp.ne.u32 %p, %r1, 5;
                @%p bra MEET;
                {stores}
            MEET:
                bar.sync 0;
                mov.u32 %r3, 0;
                {loads}
                ld.param.u64 %d, [out]; mad.wide.u32 %d, %r1, 4, %d;
                st.global.u32 [%d], %r3; ret;
            }}"
        ),
    );
    let expected: u32 = (0..2000).map(|n| n + 5).sum();
    for gang in [1, 8, 32] {
        let data = device.alloc_from(&[0u32; 64]).unwrap();
        let launch = kernel.launch().block(64).gang(gang).eager(true);
        launch.arg(&data).run().unwrap();
        assert_eq!(data.read().unwrap(), [expected; 64], "gang {gang}");
    }
}

/// A warp that is a gang goes through all of them as through one block.
#[test]
fn gangs_of_whole_warps_run_thousands_of_warp_operations() {
    const STEPS: u32 = 5_000;
    let step = |n: u32| {
        let lane = n % 32;
        format!("shfl.sync.bfly.b32 %r2, %r1, {lane}, 31, -1; mad.lo.u32 %r1, %r1, 3, %r2;\n")
    };
    let steps: String = (0..STEPS).map(step).collect();
    let device = Device::new().unwrap();
    let kernel = crate::kernel(
        &device,
        &format!(
            ".visible .entry k(.param .u64 out) {{
                .reg .b64 %d; .reg .b32 %r<3>;
                ld.param.u64 %d, [out]; mov.u32 %r1, %tid.x; mad.wide.u32 %d, %r1, 4, %d;
                {steps}
                st.global.u32 [%d], %r1; ret;
            }}"
        ),
    );
    let mut expected: Vec<u32> = (0..32).collect();
    for n in 0..STEPS {
        let other = |lane: u32| expected[(lane ^ (n % 32)) as usize];
        let own = |lane: u32| expected[lane as usize].wrapping_mul(3);
        expected = (0..32)
            .map(|lane| own(lane).wrapping_add(other(lane)))
            .collect();
    }
    let data = device.alloc_from(&[0u32; 32]).unwrap();
    let prepared = kernel.launch().block(32).gang(32).arg(&data);
    let prepared = prepared.prepare().unwrap();
    assert_eq!((prepared.gang(), prepared.narrowed()), (32, None));
    prepared.run().unwrap();
    assert_eq!(data.read().unwrap(), expected);
}
