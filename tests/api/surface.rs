//! What a driver asks about modules and kernels, launches from a parameter block, and kinds of
//! errors.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ptxjit::{
    CancelToken, Device, Dim3, Error, ErrorKind, FailureKind, Launch, LaunchStats, Module,
    ShapeRule, Shortage, UsageRule,
};

use crate::{ADD, kernel, ptx};

const FACTS: &str = "
.visible .global .attribute(.managed) .align 4 .u32 shared_word;
.global .align 16 .b8 plain[100];
.const .align 4 .b8 table[64];
.extern .global .u32 elsewhere;
.visible .entry one(.param .u32 n, .param .u64 data, .param .align 4 .b8 pair[12])
    .reqntid 32, 2
{
    .shared .align 4 .b8 words[512];
    .reg .b32 %r<4>;
    mov.u32 %r1, %tid.x;
    ld.const.u32 %r2, [table];
    st.shared.u32 [words], %r2;
    bar.sync 0;
    ld.shared.u32 %r3, [words];
    st.global.u32 [plain], %r3;
    ret;
}
.visible .entry two() .maxntid 96, 1, 1 { ret; }
.func helper() { ret; }
";

#[test]
fn modules_and_kernels_tell_what_they_are() {
    let device = Device::new().unwrap();
    let module = Module::from_source(&device, "facts.ptx", ptx(FACTS)).unwrap();
    assert_eq!(module.ptx_version(), (7, 0));
    assert_eq!(
        (module.target().number, module.target().is_specific),
        (80, false)
    );
    module.check_all().unwrap();
    let globals: Vec<(String, u64, [bool; 3])> = module
        .globals()
        .iter()
        .map(|var| {
            let flags = [var.is_const(), var.is_managed(), var.is_extern()];
            (var.name().to_owned(), var.size(), flags)
        })
        .collect();
    let wanted = [
        ("shared_word", 4, [false, true, false]),
        ("plain", 100, [false, false, false]),
        ("table", 64, [true, false, false]),
        ("elsewhere", 4, [false, false, true]),
    ];
    assert_eq!(
        globals,
        wanted.map(|(name, size, flags)| (name.to_owned(), size, flags))
    );

    let one = module.kernel_exact("one").unwrap();
    let params: Vec<(&str, usize, usize)> = one
        .param_layout()
        .map(|param| (param.name, param.offset, param.size))
        .collect();
    assert_eq!(params, [("n", 0, 4), ("data", 8, 8), ("pair", 16, 12)]);
    assert_eq!(one.param_bytes(), 28);
    assert_eq!(
        (one.max_threads(), one.required_block()),
        (Some(64), Some(Dim3([32, 2, 1])))
    );
    let usage = one.usage().unwrap();
    assert_eq!(
        (usage.static_shared, usage.constants, usage.local),
        (512, 64, 0)
    );
    let two = module.kernel_exact("two").unwrap();
    assert_eq!(
        (two.max_threads(), two.required_block(), two.param_bytes()),
        (Some(96), None, 0)
    );
    assert_eq!((two.required_cluster(), two.wants_cluster()), (None, false));
}

fn kind<T: std::fmt::Debug>(result: Result<T, Error>) -> ErrorKind {
    result.unwrap_err().kind()
}

#[test]
fn names_are_taken_as_they_are() {
    let device = Device::new().unwrap();
    let text = ptx(".visible .entry _Z5scalePfi() { ret; }\n.func helper() { ret; }");
    let module = Module::from_source(&device, "names.ptx", text).unwrap();
    assert!(module.kernel("scale").is_ok() && module.kernel_exact("_Z5scalePfi").is_ok());
    for wrong in ["scale", "helper", "", "_Z5scalePf"] {
        let err = module.kernel_exact(wrong).unwrap_err();
        assert_eq!(
            (err.kind(), err.cuda_name()),
            (ErrorKind::NotFound, "CUDA_ERROR_NOT_FOUND")
        );
    }
}

#[test]
fn errors_have_kinds() {
    let device = Device::new().unwrap();
    let load = |text: &str| Module::from_source(&device, "kinds.ptx", ptx(text));
    assert_eq!(
        kind(load(".visible .entry k( { ret; }")),
        ErrorKind::Invalid
    );
    assert_eq!(
        kind(Module::load(&device, "no such file.ptx")),
        ErrorKind::Read
    );
    let module = load(FACTS).unwrap();
    let two = module.kernel("two").unwrap();
    let shape = |launch: Launch, rule| assert_eq!(kind(launch.run()), ErrorKind::Shape(rule));
    shape(two.launch().block(97), ShapeRule::Threads);
    shape(two.launch().block(2000), ShapeRule::Block);
    shape(two.launch().grid((1, 70000)), ShapeRule::Grid);
    shape(two.launch().shared(1 << 20), ShapeRule::Shared);
    shape(two.launch().grid(3).cluster(2), ShapeRule::Cluster);
    shape(
        two.launch().grid(1 << 20).cooperative(true),
        ShapeRule::Cooperative,
    );
    shape(two.launch().param_block([0]), ShapeRule::Params);
    let arguments = ErrorKind::Usage(UsageRule::Arguments);
    assert_eq!(kind(two.launch().arg(1u32).run()), arguments);
    let unresolved = load(
        ".extern .global .u32 elsewhere;
        .visible .entry k()
        {
            .reg .b32 %r<2>;
            ld.global.u32 %r1, [elsewhere];
            st.global.u32 [elsewhere], %r1;
            ret;
        }",
    );
    let err = unresolved.unwrap().kernel("k").unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Invalid);
    assert!(err.to_string().contains("`elsewhere`"), "{err}");
    let shortage = ErrorKind::OutOfMemory(Shortage::Device);
    assert_eq!(kind(device.alloc_raw(1 << 60, 256)), shortage);
    assert_eq!(
        kind(device.alloc_raw(1, 3)),
        ErrorKind::Usage(UsageRule::Options)
    );
    let several =
        Module::from_source(&device, "none.ptx", ".version 7.0\n.target sm_80\n").unwrap();
    let choice = ErrorKind::Usage(UsageRule::Choice);
    assert_eq!(several.only_kernel().unwrap_err().kind(), choice);
    assert_eq!(kind(device.free_raw(12)), ErrorKind::Address);
    let barrier = kernel(
        &device,
        ".visible .entry k(.param .u32 id)
        {
            .reg .b32 %r<2>;
            ld.param.u32 %r1, [id];
            barrier.sync %r1;
            ret;
        }",
    );
    let failed = barrier.launch().block(64).arg(99u32).run();
    assert_eq!(kind(failed), ErrorKind::Launch(FailureKind::BadBarrier));
}

fn lines(checked: Result<(), Error>) -> Vec<u32> {
    let Err(Error::Invalid(found)) = checked else {
        panic!("it is wrong, but: {checked:?}")
    };
    found
        .iter()
        .map(|found| found.position().unwrap().0)
        .collect()
}

#[test]
fn everything_is_checked_only_when_asked() {
    let device = Device::new().unwrap();
    let bad = ".visible .entry good() { ret; }
        .func bad() { .reg .b32 %r<2>; add.u32 %r1, %r1; ret; }
        .func worse() { nonsense; ret; }";
    let module = Module::from_source(&device, "bad.ptx", ptx(bad)).unwrap();
    module.kernel("good").unwrap().launch().run().unwrap();
    assert_eq!(lines(module.check_all()), [5, 6]);
    assert_eq!(lines(module.check_all()), [5, 6]);
}

#[test]
fn long_modules_are_checked_by_several_threads_with_the_same_result() {
    let device = Device::new().unwrap();
    let mut text = ptx("");
    for number in 0..3000 {
        let wrong = if number % 1000 == 500 {
            "add.u32 %r1, %r1;"
        } else {
            ""
        };
        text += &format!(
            ".func f{number}() {{ .reg .b32 %r<4>; add.u32 %r1, %r2, %r3; mul.lo.u32 %r2, %r1, 3; {wrong} ret; }}\n"
        );
    }
    assert!(text.len() > 256 << 10);
    let module = Module::from_source(&device, "long.ptx", text).unwrap();
    // Behind three lines of header.
    assert_eq!(lines(module.check_all()), [504, 1504, 2504]);
}

#[test]
fn parameter_blocks_arrive() {
    let device = Device::new().unwrap();
    let add = kernel(&device, ADD);
    let data = device.alloc_from(&[0u32; 4]).unwrap();
    let mut block = data.address().to_le_bytes().to_vec();
    block.extend(5u32.to_le_bytes());
    block.extend(4u32.to_le_bytes());
    assert_eq!(add.param_bytes(), block.len());
    add.launch()
        .block(4)
        .param_block(block.clone())
        .run()
        .unwrap();
    assert_eq!(data.read().unwrap(), [5; 4]);
    let longer = [&block[..], &[0]].concat();
    let params = ErrorKind::Shape(ShapeRule::Params);
    assert_eq!(kind(add.launch().param_block(longer).run()), params);
    assert_eq!(kind(add.launch().param_block(&block[..15]).run()), params);
    assert_eq!(
        kind(add.launch().arg(1u32).param_block(block).run()),
        ErrorKind::Usage(UsageRule::Arguments)
    );
}

/// Waits until the word at `data` is not zero, then adds one to the word behind it.
const WAIT: &str = "
.visible .entry wait(.param .u64 data)
{
    .reg .pred %p;
    .reg .b32 %r<3>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [data];
AGAIN:
    ld.volatile.global.u32 %r1, [%rd1];
    setp.eq.u32 %p, %r1, 0;
    @%p bra AGAIN;
    ld.volatile.global.u32 %r2, [%rd1+4];
    add.u32 %r2, %r2, 1;
    st.volatile.global.u32 [%rd1+4], %r2;
    ret;
}
.visible .entry set(.param .u64 data)
{
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [data];
    st.volatile.global.u32 [%rd1], 1;
    ret;
}
";

#[test]
fn launches_can_be_cancelled() {
    let device = Device::with_threads(1).unwrap();
    let module = Module::from_source(&device, "wait.ptx", ptx(WAIT)).unwrap();
    let data = device.alloc_from(&[0u32; 2]).unwrap();
    let token = CancelToken::default();
    std::thread::scope(|scope| {
        let launch = || {
            let launch = module.kernel("wait").unwrap().launch();
            launch.arg(&data).cancel(&token).run()
        };
        let waiting = scope.spawn(launch);
        std::thread::sleep(Duration::from_millis(30));
        token.cancel();
        let failed = waiting.join().unwrap();
        assert_eq!(kind(failed), ErrorKind::Launch(FailureKind::Cancelled));
        // And so is every later one.
        assert_eq!(kind(launch()), ErrorKind::Launch(FailureKind::Cancelled));
    });
    assert_eq!(data.read().unwrap(), [0, 0]);
}

#[test]
fn kernels_of_several_threads_wait_for_each_other() {
    // One thread of the host per launch: each launching thread works on its own.
    let device = Device::with_threads(1).unwrap();
    let module = Module::from_source(&device, "wait.ptx", ptx(WAIT)).unwrap();
    let started = AtomicU32::new(0);
    let run = |name: &str, data: &ptxjit::Buffer<u32>| -> Result<LaunchStats, Error> {
        let launch = module
            .kernel(name)?
            .launch()
            .arg(data)
            .timeout(Duration::from_secs(60));
        let prepared = launch.prepare()?;
        started.fetch_add(1, Ordering::Relaxed);
        prepared.run()
    };
    const WAITERS: u32 = 4;
    let buffers: Vec<_> = (0..WAITERS)
        .map(|_| device.alloc_from(&[0u32; 2]).unwrap())
        .collect();
    std::thread::scope(|scope| {
        let run = &run;
        let waiters: Vec<_> = buffers
            .iter()
            .map(|data| scope.spawn(move || run("wait", data)))
            .collect();
        while started.load(Ordering::Relaxed) < WAITERS {
            std::thread::yield_now();
        }
        // They wait for kernels that start only now.
        for data in buffers.iter().rev() {
            run("set", data).unwrap();
        }
        for waiter in waiters {
            waiter.join().unwrap().unwrap();
        }
    });
    for data in buffers {
        assert_eq!(data.read().unwrap(), [1, 1]);
    }
}

#[test]
fn what_is_prepared_can_be_changed() {
    let device = Device::new().unwrap();
    let add = kernel(&device, ADD);
    let data = device.alloc_from(&[0u32; 3000]).unwrap();
    let block_of = |delta: u32, count: u32| {
        let mut block = data.address().to_le_bytes().to_vec();
        block.extend([delta.to_le_bytes(), count.to_le_bytes()].concat());
        block
    };
    let launch = add.launch().grid(2).block(128);
    let mut prepared = launch.param_block(block_of(1, 3000)).prepare().unwrap();
    let mut wanted = vec![0; 3000];
    let mut expect = |delta: u32, count: usize| {
        wanted[..count].iter_mut().for_each(|word| *word += delta);
        assert_eq!(data.read().unwrap(), wanted);
    };
    prepared.run().unwrap();
    expect(1, 256);
    prepared.set_param_block(&block_of(5, 200)).unwrap();
    prepared.run().unwrap();
    expect(5, 200);
    // Shapes for which other code is made, one with gangs that are not full.
    let shapes = [
        ([3, 1, 1], [256, 1, 1]),
        ([30, 1, 1], [100, 1, 1]),
        ([7, 1, 1], [1, 1, 1]),
    ];
    for (grid, block) in shapes {
        prepared.set_shape(grid, block).unwrap();
        prepared.set_param_block(&block_of(2, 3000)).unwrap();
        prepared.run().unwrap();
        expect(2, (grid[0] * block[0]) as usize);
    }
    assert!(prepared.set_param_block(&[0; 15]).is_err());
    prepared.set_shared(1 << 20);
    assert_eq!(kind(prepared.run()), ErrorKind::Shape(ShapeRule::Shared));
    prepared.set_shared(100);
    prepared.run().unwrap();
    expect(2, 7);
}

/// Calls itself `depth` times, each time with some local memory; and asks for `size` bytes of the
/// heap.
const LIMITS: &str = "
.extern .func (.param .b64 out) malloc(.param .b64 size);
.global .u32 sum;
.func down(.param .b32 depth)
{
    .local .align 8 .b8 frame[1024];
    .reg .pred %p;
    .reg .b32 %r<5>;
    ld.param.u32 %r1, [depth];
    mov.u32 %r3, frame;
    and.b32 %r4, %r1, 127;
    shl.b32 %r4, %r4, 2;
    add.u32 %r3, %r3, %r4;
    st.local.u32 [%r3], %r1;
    setp.eq.u32 %p, %r1, 0;
    @%p ret;
    sub.u32 %r2, %r1, 1;
    {
        .param .b32 next;
        st.param.b32 [next], %r2;
        call down, (next);
    }
    ld.local.u32 %r1, [%r3];
    red.global.add.u32 [sum], %r1;
    ret;
}
.visible .entry descend(.param .u32 depth)
{
    .reg .b32 %r<2>;
    ld.param.u32 %r1, [depth];
    {
        .param .b32 first;
        st.param.b32 [first], %r1;
        call down, (first);
    }
    ret;
}
.visible .entry take(.param .u64 out, .param .u64 size)
{
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [out];
    ld.param.u64 %rd2, [size];
    {
        .param .b64 bytes;
        .param .b64 place;
        st.param.b64 [bytes], %rd2;
        call (place), malloc, (bytes);
        ld.param.b64 %rd3, [place];
    }
    st.global.u64 [%rd1], %rd3;
    ret;
}
";

#[test]
fn limits_of_stack_and_heap_are_kept() {
    let device = Device::with_threads(1).unwrap();
    let module = Module::from_source(&device, "limits.ptx", ptx(LIMITS)).unwrap();
    let descend = |depth: u32| module.kernel("descend").unwrap().launch().arg(depth).run();
    let overflow = ErrorKind::Launch(FailureKind::StackOverflow);
    assert_eq!(device.stack_limit(), 512 << 10);
    // No thread has more than 512 KB, whatever it is given.
    device.set_stack_limit(2 << 20);
    assert_eq!(device.stack_limit(), 512 << 10);
    assert_eq!(kind(descend(1000)), overflow);
    descend(100).unwrap();
    let sum = module.global("sum").unwrap().read::<u32>(1).unwrap();
    assert!(sum[0] >= 101 * 50, "{sum:?}");
    device.set_stack_limit(16 << 10);
    assert_eq!(kind(descend(100)), overflow);
    descend(5).unwrap();

    let out = device.alloc_from(&[0u64]).unwrap();
    let take = |size: u64| {
        module
            .kernel("take")
            .unwrap()
            .launch()
            .arg(&out)
            .arg(size)
            .run()
            .unwrap();
        out.read().unwrap()[0]
    };
    device.set_heap_limit(1000);
    assert_eq!((take(1001), device.heap_limit()), (0, 1000));
    let place = take(1000);
    assert_eq!(device.range_of(place), Some((place, 1000)));
    assert_eq!(take(1), 0);
    device.set_heap_limit(2000);
    assert_ne!(take(1000), 0);
}
