//! Kernels on memory of the host.

#![expect(unsafe_code, reason = "the kernels access vectors of the tests")]

use ptxjit::{Device, Engine, Error, ErrorKind, FailureKind, Module};

use crate::{ADD, kernel, ptx};

const GANGS: [u32; 5] = [1, 4, 8, 16, 32];

#[test]
fn open_launches_reach_the_host() {
    let device = Device::new().unwrap();
    let add = kernel(&device, ADD);
    for gang in GANGS {
        for count in [1usize, 31, 1000] {
            let mut data: Vec<u32> = (0..1200).collect();
            let launch = add.launch().grid(4).block(256).gang(gang);
            let launch = launch
                .arg(data.as_mut_ptr() as u64)
                .arg(7u32)
                .arg(count as u32);
            // Without leave it is an error.
            let refused = launch.clone().run().unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Launch(FailureKind::BadAddress));
            // SAFETY: the kernel accesses `data`, and nothing else does meanwhile.
            unsafe { launch.open_memory(true) }.run().unwrap();
            let wanted = (0..1200).map(|i| if (i as usize) < count { i + 7 } else { i });
            assert_eq!(data, wanted.collect::<Vec<u32>>());
        }
    }
}

/// All the ways to access memory: words, vectors, bytes, scattered words, atomics; through a
/// generic address and not.
const WAYS: &str = "
.visible .entry ways(.param .u64 from, .param .u64 to)
{
    .reg .pred %p;
    .reg .b16 %h<3>;
    .reg .b32 %r<10>;
    .reg .b64 %rd<10>;
    .reg .b32 %v<4>;
    ld.param.u64 %rd1, [from];
    ld.param.u64 %rd2, [to];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 16;
    add.u64 %rd4, %rd1, %rd3;
    ld.global.v4.u32 {%v0, %v1, %v2, %v3}, [%rd4];
    add.u32 %v0, %v0, %v1;
    add.u32 %v0, %v0, %v2;
    add.u32 %v0, %v0, %v3;
    // Scattered: words at 37 * tid mod 64.
    mul.lo.u32 %r2, %r1, 37;
    and.b32 %r2, %r2, 63;
    mul.wide.u32 %rd5, %r2, 4;
    add.u64 %rd5, %rd1, %rd5;
    ld.u32 %r3, [%rd5];
    add.u32 %v0, %v0, %r3;
    // Bytes.
    cvt.u64.u32 %rd6, %r1;
    add.u64 %rd6, %rd1, %rd6;
    ld.global.u8 %h1, [%rd6+1];
    cvt.u32.u16 %r4, %h1;
    add.u32 %v0, %v0, %r4;
    mul.wide.u32 %rd7, %r1, 4;
    add.u64 %rd8, %rd2, %rd7;
    st.global.u32 [%rd8], %v0;
    atom.global.add.u32 %r5, [%rd2+256], 1;
    red.global.add.u32 [%rd2+260], %r1;
    setp.gt.u32 %p, %r1, 40;
    @%p st.global.u8 [%rd8+512], %h1;
    ret;
}";

fn ways_of(words: &[u32; 256]) -> [u32; 256] {
    let mut out = [0u32; 256];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    for tid in 0..64usize {
        let four: u32 = words[4 * tid..4 * tid + 4].iter().sum();
        out[tid] = four + words[tid * 37 % 64] + u32::from(bytes[tid + 1]);
        if tid > 40 {
            out[tid + 128] = u32::from(bytes[tid + 1]);
        }
    }
    (out[64], out[65]) = (64, (0..64).sum());
    out
}

/// As vectors of four words must be.
#[repr(align(16))]
struct Aligned([u32; 256]);

#[test]
fn every_kind_of_access_reaches_the_host() {
    let device = Device::new().unwrap();
    let ways = kernel(&device, WAYS);
    let from = Aligned(std::array::from_fn(|i| (i * i * 977) as u32 & 0xff_ffff));
    for gang in GANGS {
        for memcheck in [false, true] {
            let mut to = [0u32; 256];
            let launch = ways.launch().block(64).gang(gang).memcheck(memcheck);
            let launch = launch
                .arg(from.0.as_ptr() as u64)
                .arg(to.as_mut_ptr() as u64);
            // SAFETY: the kernel reads `from` and writes to `to`.
            unsafe { launch.open_memory(true) }.run().unwrap();
            assert_eq!(to, ways_of(&from.0), "gang {gang}, memcheck {memcheck}");
        }
    }
}

/// Indices of 32 bits that wrap around in the midst of a gang, for bytes and words: the lanes
/// before that do not access.
const WRAPPED: &str = "
.visible .entry wrapped(.param .u64 from, .param .u64 to, .param .u32 before)
{
    .reg .pred %p;
    .reg .b16 %h<2>;
    .reg .b32 %r<6>;
    .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [from];
    ld.param.u64 %rd2, [to];
    ld.param.u32 %r1, [before];
    mov.u32 %r2, %tid.x;
    sub.u32 %r3, %r2, %r1;
    cvt.u64.u32 %rd3, %r3;
    add.u64 %rd4, %rd1, %rd3;
    mul.wide.u32 %rd5, %r3, 4;
    add.u64 %rd6, %rd2, %rd5;
    setp.lt.u32 %p, %r2, %r1;
    @%p bra DONE;
    ld.global.u8 %h1, [%rd4];
    cvt.u32.u16 %r4, %h1;
    st.global.u32 [%rd6], %r4;
DONE:
    ret;
}";

#[test]
fn wrapped_indices_are_found_in_memory_of_the_host() {
    let device = Device::new().unwrap();
    let wrapped = kernel(&device, WRAPPED);
    let from: Vec<u8> = (0..64).map(|i| i * 3 + 1).collect();
    for gang in GANGS {
        for before in [0u32, 1, 16, 31, 33] {
            let mut to = [0u32; 64];
            let launch = wrapped
                .launch()
                .block(64)
                .gang(gang)
                .arg(from.as_ptr() as u64);
            let launch = launch.arg(to.as_mut_ptr() as u64).arg(before);
            // SAFETY: the kernel reads `from` and writes to `to`.
            unsafe { launch.open_memory(true) }.run().unwrap();
            let wanted = std::array::from_fn(|i| {
                if i < 64 - before as usize {
                    u32::from(from[i])
                } else {
                    0
                }
            });
            assert_eq!(to, wanted, "gang {gang}, {before} before");
        }
    }
}

#[test]
fn what_is_not_mapped_is_still_a_fault() {
    let device = Device::new().unwrap();
    let module = Module::from_source(&device, "wild.ptx", ptx(ADD)).unwrap();
    let add = module.kernel("add").unwrap();
    // Null, nothing mapped, not canonical, beyond the process, device memory that is not allocated.
    let free = device.arena_range().start + (1 << 35);
    for wild in [0, 4096, 1 << 50, u64::MAX - 4095, free] {
        for gang in GANGS {
            let launch = add
                .launch()
                .block(64)
                .gang(gang)
                .arg(wild)
                .arg(1u32)
                .arg(50u32);
            // SAFETY: nothing is mapped there.
            let failed = unsafe { launch.open_memory(true) }.run();
            let Err(Error::Launch(failure)) = failed else {
                panic!("{wild:#x}: {failed:?}")
            };
            assert_eq!(
                failure.kind(),
                FailureKind::BadAddress,
                "{wild:#x} {failure}"
            );
            assert!(
                failure.message().starts_with("kernel `add`, CTA (0, 0, 0)"),
                "{failure}"
            );
            // The load of the word.
            assert_eq!(failure.position().unwrap().0, 20, "{failure}");
        }
    }
    // SAFETY: never run.
    let launch = unsafe { add.launch().arg(0u64).arg(0u32).arg(0u32).open_memory(true) };
    assert!(matches!(
        launch.engine(Engine::Interp).run(),
        Err(Error::Usage { .. })
    ));
}

#[test]
fn registered_memory_is_reached_and_nothing_else() {
    let device = Device::new().unwrap();
    let (ways, add) = (kernel(&device, WAYS), kernel(&device, ADD));
    let from = Aligned(std::array::from_fn(|i| (i * i * 977) as u32 & 0xff_ffff));
    let on_device = device.alloc_from(&[1u32; 64]).unwrap();
    let before = add.launch().block(64).arg(&on_device).arg(1u32).arg(64u32);
    let before = before.prepare().unwrap();
    let from_at = from.0.as_ptr() as u64;
    // SAFETY: the kernels only read it.
    unsafe { device.register_host(from_at, 1024) }.unwrap();
    for gang in GANGS {
        for memcheck in [false, true] {
            // Far from all else, so that nothing beside it counts as near.
            let mut to = vec![0u32; 1 << 20];
            let to_at = &raw mut to[1 << 19] as u64;
            let launch = ways.launch().block(64).gang(gang).memcheck(memcheck);
            let launch = launch.arg(from_at).arg(to_at);
            let refused = launch.clone().run().unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Launch(FailureKind::BadAddress));
            // SAFETY: the kernel writes to `to`, and nothing else uses it meanwhile.
            unsafe { device.register_host(to_at, 1024) }.unwrap();
            assert_eq!(device.registered_range(to_at + 5), Some((to_at, 1024)));
            launch.clone().run().unwrap();
            let middle: [u32; 256] = std::array::from_fn(|i| to[(1 << 19) + i]);
            assert_eq!(middle, ways_of(&from.0), "gang {gang}, memcheck {memcheck}");
            // Device memory and the host's in one launch.
            add.launch()
                .block(64)
                .gang(gang)
                .arg(to_at)
                .arg(1u32)
                .arg(0u32)
                .run()
                .unwrap();
            let far = add.launch().block(64).gang(gang).arg(to_at - (1 << 20));
            let refused = far.arg(1u32).arg(64u32).run().unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Launch(FailureKind::BadAddress));
            let behind = add
                .launch()
                .block(64)
                .gang(gang)
                .memcheck(true)
                .arg(to_at + 1020);
            let refused = behind.arg(1u32).arg(2u32).run().unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Launch(FailureKind::BadAddress));
            device.unregister_host(to_at).unwrap();
            assert!(launch.run().is_err());
        }
    }
    before.run().unwrap();
    assert_eq!(on_device.read().unwrap(), [2; 64]);
    device.unregister_host(from_at).unwrap();
    assert!(device.unregister_host(from_at).is_err());
}

#[test]
fn what_was_prepared_before_reaches_registered_memory() {
    let device = Device::new().unwrap();
    let add = kernel(&device, ADD);
    let mut data = vec![5u32; 100];
    let at = data.as_mut_ptr() as u64;
    let launch = add.launch().block(128).arg(at).arg(3u32).arg(100u32);
    let prepared = launch.prepare().unwrap();
    assert!(prepared.run().is_err());
    // SAFETY: the kernel adds to it, and nothing else uses it meanwhile.
    unsafe { device.register_host(at, 400) }.unwrap();
    prepared.run().unwrap();
    assert_eq!(data, [8; 100]);
}

#[test]
fn wrapped_indices_are_found_in_registered_memory() {
    let device = Device::new().unwrap();
    let wrapped = kernel(&device, WRAPPED);
    let from: Vec<u8> = (0..64).map(|i| i * 3 + 1).collect();
    let mut to = [0u32; 64];
    // SAFETY: the kernels read `from` and write to `to`.
    unsafe {
        device.register_host(from.as_ptr() as u64, 64).unwrap();
        device.register_host(to.as_mut_ptr() as u64, 256).unwrap();
        let again = device
            .register_host(from.as_ptr() as u64 + 63, 1)
            .unwrap_err();
        assert_eq!(again.kind(), ErrorKind::Address);
        assert!(device.register_host(device.arena_range().start, 1).is_err());
        assert!(
            device.register_host(u64::MAX, 1).is_err() && device.register_host(4096, 0).is_err()
        );
    }
    for gang in GANGS {
        for before in [1u32, 16, 31, 33] {
            to.fill(0);
            let launch = wrapped
                .launch()
                .block(64)
                .gang(gang)
                .arg(from.as_ptr() as u64);
            launch
                .arg(to.as_mut_ptr() as u64)
                .arg(before)
                .run()
                .unwrap();
            let wanted = std::array::from_fn(|i| {
                if i < 64 - before as usize {
                    u32::from(from[i])
                } else {
                    0
                }
            });
            assert_eq!(to, wanted, "gang {gang}, {before} before");
        }
    }
}

/// One way to access memory, each for itself: `way(p, which, out)`.
const WAY: &str = "
.visible .entry way(.param .u64 p, .param .u32 which, .param .u64 out)
{
    .reg .pred %p<8>;
    .reg .b16 %h<2>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<10>;
    .reg .b32 %v<4>;
    ld.param.u64 %rd1, [p];
    ld.param.u32 %r1, [which];
    ld.param.u64 %rd2, [out];
    mov.u32 %r2, %tid.x;
    mul.wide.u32 %rd3, %r2, 4;
    add.u64 %rd4, %rd1, %rd3;
    mov.u32 %r3, 1;
    setp.eq.u32 %p1, %r1, 1;
    @%p1 bra FOUR;
    setp.eq.u32 %p2, %r1, 2;
    @%p2 bra SCATTERED;
    setp.eq.u32 %p3, %r1, 3;
    @%p3 bra ATOMIC;
    setp.eq.u32 %p4, %r1, 4;
    @%p4 bra BYTES;
    setp.eq.u32 %p5, %r1, 5;
    @%p5 bra SAME;
    setp.eq.u32 %p6, %r1, 6;
    @%p6 bra PAIRS;
    sub.u64 %rd4, %rd4, 8;
    st.global.u32 [%rd4+8], %r2;
    bra DONE;
FOUR:
    mul.wide.u32 %rd5, %r2, 16;
    add.u64 %rd5, %rd1, %rd5;
    ld.global.v4.u32 {%v0, %v1, %v2, %v3}, [%rd5];
    add.u32 %r3, %v0, %v3;
    bra DONE;
SCATTERED:
    mul.lo.u32 %r4, %r2, 37;
    and.b32 %r4, %r4, 63;
    mul.wide.u32 %rd5, %r4, 4;
    add.u64 %rd5, %rd1, %rd5;
    ld.global.u32 %r3, [%rd5];
    bra DONE;
ATOMIC:
    atom.global.add.u32 %r3, [%rd4], 1;
    bra DONE;
BYTES:
    setp.eq.u32 %p7, %r2, 5;
    @%p7 bra DONE;
    cvt.u64.u32 %rd5, %r2;
    add.u64 %rd5, %rd1, %rd5;
    cvt.u16.u32 %h1, %r2;
    st.global.u8 [%rd5], %h1;
    bra DONE;
SAME:
    ld.global.u64 %rd6, [%rd1];
    cvt.u32.u64 %r3, %rd6;
    bra DONE;
PAIRS:
    mul.wide.u32 %rd5, %r2, 8;
    add.u64 %rd5, %rd1, %rd5;
    ld.u64 %rd6, [%rd5];
    cvt.u32.u64 %r3, %rd6;
DONE:
    add.u64 %rd7, %rd2, %rd3;
    st.global.u32 [%rd7], %r3;
    ret;
}";

#[test]
fn no_byte_beside_a_registered_range_is_reached() {
    let device = Device::new().unwrap();
    let way = kernel(&device, WAY);
    let out = device.alloc::<u32>(64).unwrap();
    let mut data = Box::new(Aligned([3; 256]));
    let middle = data.0.as_mut_ptr() as u64 + 512;
    // Bytes of an access, and of all of them.
    let ways = [
        (4, 256),
        (16, 256),
        (4, 256),
        (4, 256),
        (1, 64),
        (8, 8),
        (8, 256),
    ];
    for (which, (size, extent)) in (0u32..).zip(ways) {
        let threads = match which {
            1 => 16,
            6 => 32,
            _ => 64,
        };
        let launch = |at: u64, gang| {
            let launch = way.launch().block(threads).gang(gang).arg(at);
            launch.arg(which).arg(&out).run()
        };
        let from = middle - 256;
        for gang in GANGS {
            // SAFETY: the kernels access it, and nothing else does meanwhile.
            unsafe { device.register_host(from, extent) }.unwrap();
            launch(from, gang).unwrap_or_else(|err| panic!("way {which}, gang {gang}: {err}"));
            for at in [from - size, from + size] {
                let refused = launch(at, gang).unwrap_err();
                let kind = ErrorKind::Launch(FailureKind::BadAddress);
                assert_eq!(refused.kind(), kind, "way {which}, gang {gang}");
            }
            device.unregister_host(from).unwrap();
            // An access that is half inside; bytes have no halves.
            if size > 1 {
                // SAFETY: as above.
                unsafe { device.register_host(from, extent - 1) }.unwrap();
                assert!(launch(from, gang).is_err(), "way {which}, gang {gang}");
                device.unregister_host(from).unwrap();
            }
        }
    }
}
