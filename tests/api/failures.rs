//! Launches that fail: each is an error that tells what and where, and the device can be used
//! further.

use std::time::{Duration, Instant};

use ptxjit::{Device, Engine, Error, FailureKind, LaunchFailure};

use crate::{ADD, kernel};

/// Runs the kernel on every engine and gang; each must fail in the same way.
fn failures(
    device: &Device,
    body: &str,
    address: u64,
    timeout: Option<Duration>,
) -> Vec<LaunchFailure> {
    let kernel = kernel(device, body);
    let mut found = Vec::new();
    for gang in [None, Some(1), Some(4), Some(8), Some(16), Some(32)] {
        let mut launch = kernel.launch().block(64).arg(address);
        launch = match gang {
            Some(gang) => launch.gang(gang),
            None => launch.engine(Engine::Interp),
        };
        // The interpreter is slow, but none of these kernels takes long.
        launch = launch.timeout(timeout.unwrap_or(Duration::from_secs(20)));
        match launch.run() {
            Err(Error::Launch(failure)) => found.push(*failure),
            other => panic!("gang {gang:?}: {other:?}"),
        }
    }
    found
}

/// The kernel of `failures` with this in its middle; thread 40 comes by, and `%rd1` is the
/// argument.
fn body(statements: &str) -> String {
    format!(
        "
.visible .entry fails(.param .u64 address)
{{
    .reg .pred %p<3>;
    .reg .b32 %r<4>;
    .reg .b64 %rd<3>;
    mov.u32 %r1, %tid.x;
    ld.param.u64 %rd1, [address];
    setp.ne.u32 %p1, %r1, 40;
    @%p1 bra DONE;
    {statements}
DONE:
    ret;
}}"
    )
}

/// The line of `statements` in the module: three lines of header, and those before it in `body`.
const LINE: u32 = 14;

fn still_works(device: &Device) {
    let data = device.alloc_from(&[1u32, 2]).unwrap();
    kernel(device, ADD)
        .launch()
        .block(2)
        .arg(&data)
        .arg(1u32)
        .arg(2u32)
        .run()
        .unwrap();
    assert_eq!(data.read().unwrap(), [2, 3]);
}

#[test]
fn wild_accesses() {
    let device = Device::new().unwrap();
    let host = Box::new(7u32);
    let addresses = [
        0,
        16,
        0xdead_beef_0000,
        u64::MAX - 3,
        std::ptr::from_ref(&*host).addr() as u64,
    ];
    for address in addresses {
        for statement in [
            "ld.global.u32 %r2, [%rd1]; st.shared.u32 [0], %r2;",
            "st.global.u32 [%rd1], %r1;",
        ] {
            // The load must be used, or there is nothing that must be done.
            let statement = statement.replace("st.shared.u32 [0]", "st.global.u32 [%rd1]");
            for failure in failures(&device, &body(&statement), address, None) {
                assert_eq!(failure.kind(), FailureKind::BadAddress, "{failure}");
                assert_eq!(failure.cuda_name(), "CUDA_ERROR_ILLEGAL_ADDRESS");
                assert_eq!(failure.ctaid(), Some([0, 0, 0]), "{failure}");
                assert_eq!(
                    failure.position().map(|(line, _)| line),
                    Some(LINE),
                    "{failure}"
                );
                assert!(failure.to_string().contains("`fails`"), "{failure}");
            }
            still_works(&device);
        }
    }
    assert_eq!(*host, 7);
}

#[test]
fn traps_name_the_thread() {
    let device = Device::new().unwrap();
    for failure in failures(&device, &body("trap;"), 0, None) {
        assert_eq!(failure.kind(), FailureKind::Trap);
        assert_eq!(failure.tid(), Some([40, 0, 0]), "{failure}");
        assert_eq!(
            failure.position().map(|(line, _)| line),
            Some(LINE),
            "{failure}"
        );
    }
    still_works(&device);
}

#[test]
fn deadlocks_are_found() {
    let device = Device::new().unwrap();
    // Thread 40 waits at barrier 1 for a second warp, which has ended.
    for failure in failures(&device, &body("barrier.sync 1, 64;"), 0, None) {
        assert_eq!(failure.kind(), FailureKind::Deadlock, "{failure}");
        assert_eq!(
            failure.position().map(|(line, _)| line),
            Some(LINE),
            "{failure}"
        );
    }
    still_works(&device);
}

#[test]
fn endless_loops_end_in_time() {
    let device = Device::new().unwrap();
    let start = Instant::now();
    let found = failures(
        &device,
        &body("LOOP: bra LOOP;"),
        0,
        Some(Duration::from_millis(100)),
    );
    for failure in &found {
        assert_eq!(failure.kind(), FailureKind::Timeout, "{failure}");
    }
    assert!(
        start.elapsed() < Duration::from_secs(10),
        "{:?}",
        start.elapsed()
    );
    still_works(&device);
}

#[test]
fn endless_recursion() {
    let device = Device::new().unwrap();
    let function = "
.func (.reg .u32 r) deeper(.reg .u32 a)
{
    .local .b32 place[64];
    .reg .b32 %r<3>;
    st.local.u32 [place], a;
    add.u32 %r1, a, 1;
    call (%r2), deeper, (%r1);
    ld.local.u32 %r1, [place];
    add.u32 r, %r1, %r2;
    ret;
}";
    let call = body("call (%r2), deeper, (%r1); st.global.u32 [%rd1], %r2;");
    for failure in failures(&device, &format!("{function}{call}"), 0, None) {
        assert_eq!(failure.kind(), FailureKind::StackOverflow, "{failure}");
    }
    still_works(&device);
}

#[test]
fn memcheck_is_exact() {
    let device = Device::new().unwrap();
    let data = device.alloc::<u32>(10).unwrap();
    let kernel = kernel(&device, &body("st.global.u32 [%rd1], %r1;"));
    let run = |address: u64, gang: u32| {
        kernel
            .launch()
            .block(64)
            .memcheck(true)
            .gang(gang)
            .arg(address)
            .run()
    };
    for gang in [1, 4, 8, 16, 32] {
        run(data.address() + 36, gang).unwrap();
        let kind = |address: u64| match run(address, gang) {
            Err(Error::Launch(failure)) => failure.kind(),
            other => panic!("gang {gang}: {other:?}"),
        };
        assert_eq!(kind(data.address() + 40), FailureKind::BadAddress);
        assert_eq!(kind(data.address() + 34), FailureKind::Misaligned);
        assert_eq!(kind(data.address() - 4), FailureKind::BadAddress);
        let freed = device.alloc::<u32>(10).unwrap().address();
        assert_eq!(kind(freed), FailureKind::BadAddress);
    }
}

#[test]
fn memcheck_tests_each_far_offset() {
    let device = Device::new().unwrap();
    let data = device.alloc::<u32>(40_000).unwrap();
    let kinds = |code: &str| {
        let kernel = kernel(&device, &body(code));
        [1, 4, 8, 16, 32].map(|gang| {
            let launch = kernel.launch().block(64).memcheck(true).gang(gang);
            match launch.arg(data.address() + 40_000).run() {
                Ok(_) => None,
                Err(Error::Launch(failure)) => Some(failure.kind()),
                Err(other) => panic!("gang {gang}: {other:?}"),
            }
        })
    };
    let load = |offset: i32| format!("ld.volatile.global.u32 %r2, [%rd1+{offset}]; ");
    assert_eq!(kinds(&(load(-40_000) + &load(80_000))), [None; 5]);
    // Right before the buffer, where its first page is mapped.
    let before = kinds(&(load(-40_000) + &load(-40_004)));
    assert_eq!(before, [Some(FailureKind::BadAddress); 5]);
}

/// A kernel in which the lanes of a gang are in bounds up to the middle of it; the buffer has one
/// element less than the kernel takes.
const ONE_TOO_FAR: &str = "
.visible .entry far(.param .u64 out, .param .u32 n)
{
    .reg .pred %p<2>;
    .reg .b32 %r<3>;
    .reg .b64 %rd<4>;
    .shared .align 4 .b32 first[8];
    .shared .align 4 .b32 second[64];
    mov.u32 %r1, %tid.x;
    ld.param.u32 %r2, [n];
    setp.gt.u32 %p1, %r1, %r2;
    @%p1 bra DONE;
    ld.param.u64 %rd1, [out];
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r1;
    mov.u64 %rd1, first;
    add.s64 %rd3, %rd1, %rd2;
    st.shared.u32 [%rd3], %r1;
    mov.u64 %rd1, second;
    add.s64 %rd3, %rd1, %rd2;
    st.shared.u32 [%rd3], %r1;
DONE:
    ret;
}";

#[test]
fn memcheck_knows_the_ends_of_allocations_and_of_shared_variables() {
    let device = Device::new().unwrap();
    device.prepare_checks().unwrap();
    let kernel = kernel(&device, ONE_TOO_FAR);
    let [short, long, _other] = [5, 32, 32].map(|n| device.alloc::<u32>(n).unwrap());
    for gang in [1, 4, 8, 16, 32] {
        let run = |n: u32, out: &ptxjit::Buffer<u32>| {
            let launch = kernel.launch().block(64).gang(gang).memcheck(true);
            match launch.arg(out).arg(n).run() {
                Ok(_) => None,
                Err(Error::Launch(failure)) => Some((*failure).tid().unwrap()),
                Err(other) => panic!("gang {gang}: {other:?}"),
            }
        };
        assert_eq!(run(4, &short), None, "gang {gang}");
        assert_eq!(run(5, &short), Some([5, 0, 0]), "gang {gang}");
        assert_eq!(run(7, &long), None, "gang {gang}");
        // Inside of the CTA's shared memory, but of no variable.
        assert_eq!(run(8, &long), Some([8, 0, 0]), "gang {gang}");
    }
}
