//! Launches: shapes, arguments, options, statistics.

use std::sync::{Arc, Mutex};

use ptxjit::{Arg, Device, Engine, Error, Module, Schedule};

use crate::{ADD, kernel};

#[test]
fn every_engine_and_gang_agrees() {
    let device = Device::new().unwrap();
    let add = kernel(&device, ADD);
    for gang in [1, 4, 8, 16, 32] {
        for (block, grid) in [(32u32, 4u32), (100, 1), (7, 15), (256, 1)] {
            let data = device.alloc_from(&(0..100).collect::<Vec<u32>>()).unwrap();
            let launch = add
                .launch()
                .grid(grid)
                .block(block)
                .arg(&data)
                .arg(1000u32)
                .arg(100u32);
            let stats = launch.clone().gang(gang).run().unwrap();
            assert_eq!(stats.gang, gang);
            launch.clone().engine(Engine::Interp).run().unwrap();
            launch
                .schedule(Schedule::Random(7))
                .gang(gang)
                .threads(1)
                .run()
                .unwrap();
            assert_eq!(
                data.read().unwrap(),
                (3000..3100).collect::<Vec<u32>>(),
                "gang {gang}, block {block}"
            );
        }
    }
}

#[test]
fn launches_of_few_threads_have_narrow_gangs() {
    let device = Device::new().unwrap();
    let data = device.alloc_from(&[0u32; 256]).unwrap();
    let gang = |vote: &str, grid: u32, eager: bool| {
        let body = format!(".visible .entry k(.param .u64 p) {{ {STORE} {vote} ret; }}");
        let text = format!(".version 6.0\n.target sm_35\n.address_size 64\n{body}");
        let module = Module::from_source(&device, "narrow.ptx", text).unwrap();
        let launch = module.kernel("k").unwrap().launch();
        let prepared = launch
            .grid(grid)
            .block(256)
            .eager(eager)
            .arg(&data)
            .prepare();
        let prepared = prepared.unwrap();
        prepared.run().unwrap();
        prepared.gang()
    };
    let wide = gang("", 1000, false);
    assert!(wide > 8);
    assert_eq!(gang("", 1, false), 8);
    assert_eq!(gang("", 1, true), wide);
    // Votes without `.sync` want warps in lockstep, which run at no other width.
    assert_eq!(gang("vote.all.pred %q, %q;", 1, false), 32);
}

/// Each thread stores its number.
const STORE: &str = "
    .reg .b32 %r<4>;
    .reg .b64 %rd<3>;
    .reg .pred %q;
    mov.u32 %r1, %tid.x;
    setp.eq.u32 %q, %r1, 0;
    ld.param.u64 %rd1, [p];
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd1, %rd1, %rd2;
    st.global.u32 [%rd1], %r1;
";

#[test]
fn compiled_once() {
    let device = Device::new().unwrap();
    let add = kernel(&device, ADD);
    let data = device.alloc_from(&[0u32; 64]).unwrap();
    let prepared = add
        .launch()
        .block(64)
        .arg(&data)
        .arg(1u32)
        .arg(64u32)
        .prepare()
        .unwrap();
    for _ in 0..3 {
        prepared.run().unwrap();
    }
    assert_eq!(data.read().unwrap(), [3; 64]);
    let again = add
        .launch()
        .block(64)
        .arg(&data)
        .arg(1u32)
        .arg(64u32)
        .prepare()
        .unwrap();
    assert_eq!(again.gang(), prepared.gang());
    assert!(
        again.compile_time() < prepared.compile_time(),
        "{:?}",
        again.compile_time()
    );
}

#[test]
fn arguments_must_fit() {
    let device = Device::new().unwrap();
    let add = kernel(&device, ADD);
    let data = device.alloc_from(&[0u32; 4]).unwrap();
    let usage = |result: Result<ptxjit::LaunchStats, Error>| match result {
        Err(Error::Usage { message: text, .. }) => text,
        Err(err @ Error::Shape { .. }) => err.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(usage(add.launch().arg(&data).run()).contains("3 parameters"));
    assert!(usage(add.launch().arg(&data).arg(1u64).arg(1u32).run()).contains("`delta`"));
    let fine = add
        .launch()
        .arg(&data)
        .arg(1u32)
        .arg(Arg::from_bytes([4, 0, 0, 0]));
    fine.clone().block(4).run().unwrap();
    assert_eq!(data.read().unwrap(), [1; 4]);
    for block in [[0, 1, 1], [1025, 1, 1], [1, 1, 65], [32, 32, 2]] {
        usage(fine.clone().block(block).run());
    }
    for grid in [[0, 1, 1], [1, 65536, 1], [1 << 31, 1, 1]] {
        usage(fine.clone().grid(grid).run());
    }
    usage(fine.clone().shared(1 << 20).run());
    usage(fine.gang(3).run());
    assert_eq!(data.read().unwrap(), [1; 4]);
}

#[test]
fn shapes_reach_the_kernel() {
    let device = Device::new().unwrap();
    // out[linear thread] = tid.x + 10 tid.y + 100 tid.z + 1000 ctaid.x + 10000 ctaid.y + 100000
    // ctaid.z
    let body = "
        .visible .entry where(.param .u64 out)
        {
            .reg .b32 %r<20>;
            .reg .b64 %rd<4>;
            mov.u32 %r1, %tid.x;    mov.u32 %r2, %tid.y;    mov.u32 %r3, %tid.z;
            mov.u32 %r4, %ctaid.x;  mov.u32 %r5, %ctaid.y;  mov.u32 %r6, %ctaid.z;
            mov.u32 %r7, %ntid.x;   mov.u32 %r8, %ntid.y;   mov.u32 %r9, %ntid.z;
            mov.u32 %r10, %nctaid.x; mov.u32 %r11, %nctaid.y;
            mad.lo.u32 %r12, %r3, %r8, %r2;
            mad.lo.u32 %r12, %r12, %r7, %r1;
            mad.lo.u32 %r13, %r6, %r11, %r5;
            mad.lo.u32 %r13, %r13, %r10, %r4;
            mul.lo.u32 %r14, %r7, %r8;
            mul.lo.u32 %r14, %r14, %r9;
            mad.lo.u32 %r12, %r13, %r14, %r12;
            mad.lo.u32 %r15, %r2, 10, %r1;
            mad.lo.u32 %r15, %r3, 100, %r15;
            mad.lo.u32 %r15, %r4, 1000, %r15;
            mad.lo.u32 %r15, %r5, 10000, %r15;
            mad.lo.u32 %r15, %r6, 100000, %r15;
            ld.param.u64 %rd1, [out];
            mul.wide.u32 %rd2, %r12, 4;
            add.u64 %rd1, %rd1, %rd2;
            st.global.u32 [%rd1], %r15;
            ret;
        }";
    let kernel = kernel(&device, body);
    let mut want = Vec::new();
    for cta in 0..2 * 3 * 2 {
        let (cx, cy, cz) = (cta % 2, cta / 2 % 3, cta / 6);
        for thread in 0..5 * 3 * 2 {
            let (x, y, z) = (thread % 5, thread / 5 % 3, thread / 15);
            want.push(x + 10 * y + 100 * z + 1000 * cx + 10000 * cy + 100_000 * cz);
        }
    }
    for gang in [1, 4, 8, 16, 32] {
        let out = device.alloc_from(&vec![0u32; want.len()]).unwrap();
        kernel
            .launch()
            .grid((2, 3, 2))
            .block((5, 3, 2))
            .arg(&out)
            .gang(gang)
            .run()
            .unwrap();
        assert_eq!(out.read().unwrap(), want, "gang {gang}");
    }
}

#[test]
fn structures_by_value() {
    let device = Device::new().unwrap();
    let body = "
        .visible .entry sum(.param .u64 out, .param .align 4 .b8 pair[12])
        {
            .reg .b32 %r<4>;
            .reg .b64 %rd1;
            ld.param.u64 %rd1, [out];
            ld.param.u32 %r1, [pair];
            ld.param.u32 %r2, [pair+8];
            add.u32 %r3, %r1, %r2;
            st.global.u32 [%rd1], %r3;
            ret;
        }";
    let out = device.alloc_from(&[0u32]).unwrap();
    let bytes: Vec<u8> = [40u32, 7, 2]
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect();
    kernel(&device, body)
        .launch()
        .arg(&out)
        .arg_bytes(bytes)
        .run()
        .unwrap();
    assert_eq!(out.read().unwrap(), [42]);
}

#[test]
fn device_output_can_be_caught() {
    let device = Device::new().unwrap();
    let body = "
        .extern .func (.param .b32 result) vprintf(.param .b64 format, .param .b64 args);
        .global .align 1 .b8 text[7] = {104, 101, 108, 108, 111, 10, 0};
        .visible .entry hello()
        {
            .reg .b32 %r1;
            .reg .b64 %rd<3>;
            mov.u64 %rd1, text;
            cvta.global.u64 %rd1, %rd1;
            mov.u64 %rd2, 0;
            {
                .param .b64 p0;
                .param .b64 p1;
                .param .b32 r0;
                st.param.b64 [p0], %rd1;
                st.param.b64 [p1], %rd2;
                call.uni (r0), vprintf, (p0, p1);
                ld.param.b32 %r1, [r0];
            }
            ret;
        }";
    let hello = kernel(&device, body);
    for engine in [Engine::Jit, Engine::Interp] {
        let printed = Arc::new(Mutex::new(Vec::new()));
        let sink = printed.clone();
        let launch = hello.launch().block(3).engine(engine);
        launch
            .output(move |bytes| sink.lock().unwrap().extend_from_slice(bytes))
            .run()
            .unwrap();
        assert_eq!(printed.lock().unwrap().as_slice(), b"hello\nhello\nhello\n");
    }
}

#[test]
fn addresses_of_32_bits_need_a_device_that_has_such() {
    let text = ".version 7.0\n.target sm_80\n.address_size 32
        .visible .entry add(.param .u32 data, .param .u32 delta)
        {
            .reg .b32 %r<4>;
            ld.param.u32 %r1, [data];
            ld.param.u32 %r2, [delta];
            ld.global.u32 %r3, [%r1+4];
            add.u32 %r3, %r3, %r2;
            st.u32 [%r1+4], %r3;
            ret;
        }";
    let load = |device: &Device| Module::from_source(device, "narrow.ptx", text).unwrap();
    let device = Device::with_32_bit_addresses().unwrap();
    let (module, data) = (load(&device), device.alloc_from(&[1u32, 2, 3]).unwrap());
    assert!(data.address() < 0xe000_0000);
    for engine in [Engine::Jit, Engine::Interp] {
        let launch = module.only_kernel().unwrap().launch();
        launch.engine(engine).arg(&data).arg(10u32).run().unwrap();
    }
    assert_eq!(data.read().unwrap(), [1, 22, 3]);
    let other = Device::new().unwrap();
    let elsewhere = other.alloc_from(&[1u32, 2]).unwrap();
    let launch = load(&other).only_kernel().unwrap().launch();
    let err = launch.arg(&elsewhere).arg(10u32).run().unwrap_err();
    assert!(err.to_string().contains("with_32_bit_addresses"), "{err}");
}

/// Adds up what the threads of a warp have, as programs of old do: without synchronization.
const WARP_SYNCHRONOUS: &str = "
.visible .entry total(.param .u64 out)
{
    .reg .pred %p;
    .reg .b32 %r<9>;
    .reg .b64 %rd<3>;
    .shared .align 4 .b8 words[512];
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    shl.b32 %r2, %r1, 2;
    mov.u32 %r3, words;
    add.u32 %r2, %r2, %r3;
    add.u32 %r4, %r1, 1;
    st.shared.u32 [%r2], %r4;
    bar.sync 0;
    setp.gt.u32 %p, %r1, 31;
    @%p bra DONE;
    ld.volatile.shared.u32 %r5, [%r2];
    ld.volatile.shared.u32 %r6, [%r2+128];
    add.u32 %r5, %r5, %r6;
    st.volatile.shared.u32 [%r2], %r5;
    ld.volatile.shared.u32 %r6, [%r2+64];
    add.u32 %r5, %r5, %r6;
    st.volatile.shared.u32 [%r2], %r5;
    ld.volatile.shared.u32 %r6, [%r2+32];
    add.u32 %r5, %r5, %r6;
    st.volatile.shared.u32 [%r2], %r5;
    ld.volatile.shared.u32 %r6, [%r2+16];
    add.u32 %r5, %r5, %r6;
    st.volatile.shared.u32 [%r2], %r5;
    ld.volatile.shared.u32 %r6, [%r2+8];
    add.u32 %r5, %r5, %r6;
    st.volatile.shared.u32 [%r2], %r5;
    ld.volatile.shared.u32 %r6, [%r2+4];
    add.u32 %r5, %r5, %r6;
    st.volatile.shared.u32 [%r2], %r5;
    setp.ne.u32 %p, %r1, 0;
    @%p bra DONE;
    st.global.u32 [%rd1], %r5;
DONE:
    ret;
}";

#[test]
fn warps_that_hand_values_over_in_shared_memory_are_not_split() {
    let device = Device::new().unwrap();
    let total = kernel(&device, WARP_SYNCHRONOUS);
    for grid in [1u32, 200] {
        let out = device.alloc::<u32>(1).unwrap();
        let stats = total.launch().grid(grid).block(64).arg(&out).run().unwrap();
        assert_eq!(stats.gang, 32);
        assert_eq!(out.read().unwrap(), [64 * 65 / 2]);
    }
}

/// Large allocations end where a page ends, and the page behind may not be there.
#[test]
fn nothing_behind_an_allocation_is_loaded() {
    const SIZE: u64 = 1 << 20;
    const N_THREADS: u64 = 64;
    let device = Device::new().unwrap();
    let data = device.alloc::<u8>(SIZE as usize).unwrap();
    let out = device.alloc::<u64>(N_THREADS as usize).unwrap();
    assert!((data.address() + SIZE).is_multiple_of(4096));
    for (ty, size, reg) in [
        ("u8", 1, "u32"),
        ("s8", 1, "u32"),
        ("u16", 2, "u32"),
        ("u32", 4, "u32"),
        ("u64", 8, "u64"),
    ] {
        let square = kernel(
            &device,
            &format!(
                ".visible .entry square(.param .u64 in, .param .u64 out)
                {{
                    .reg .b32 %r1;
                    .reg .{reg} %x;
                    .reg .b64 %rd<5>;
                    mov.u32 %r1, %tid.x;
                    ld.param.u64 %rd1, [in];
                    ld.param.u64 %rd2, [out];
                    mad.wide.u32 %rd3, %r1, {size}, %rd1;
                    mad.wide.u32 %rd4, %r1, 8, %rd2;
                    ld.global.{ty} %x, [%rd3];
                    mul.lo.{reg} %x, %x, %x;
                    st.global.{reg} [%rd4], %x;
                    ret;
                }}"
            ),
        );
        for gang in [1, 4, 8, 16, 32] {
            let launch = square
                .launch()
                .block(N_THREADS as u32)
                .eager(true)
                .gang(gang);
            let first = data.address() + SIZE - N_THREADS * size;
            let launch = launch.arg(first).arg(&out);
            launch
                .run()
                .unwrap_or_else(|err| panic!("{ty}, gang {gang}: {err}"));
        }
    }
}
