//! Launches of which only memory is checked: checks that are proven to find nothing are left out.

use ptxjit::{Buffer, Device, Error, LaunchStats, Module};

use super::{GANGS, text};

/// More threads than a launch may have that is over before a proof is.
const BLOCKS: u32 = 1025;
const THREADS: u32 = 64;
const ALL: u32 = BLOCKS * THREADS;

/// Runs a kernel whose buffer `%p` has so many words, all of them 7.
fn run(body: &str, words: u32, gang: u32) -> (Result<LaunchStats, Error>, Buffer<u32>) {
    let device = Device::new().unwrap();
    let data = device.alloc_from(&vec![7; words as usize]).unwrap();
    let module = Module::from_source(&device, "memory.ptx", text(body)).unwrap();
    let launch = module.only_kernel().unwrap().launch();
    let launch = launch.grid([BLOCKS, 1, 1]).block([THREADS, 1, 1]);
    let launch = launch
        .arg(data.address())
        .arg(data.address())
        .arg(ALL)
        .arg(0_u64)
        .uses(&data)
        .gang(gang)
        .memcheck(true);
    (launch.run(), data)
}

#[test]
fn what_is_proven_is_not_checked() {
    for gang in GANGS {
        let (stats, data) = run("st.global.b32 [%own], %t;", ALL, gang);
        assert!(stats.unwrap().is_proven, "gang {gang}");
        assert!((0..ALL).eq(data.read().unwrap()), "gang {gang}");
    }
}

#[test]
fn what_is_not_proven_is_checked() {
    for gang in GANGS {
        let (failed, _) = run("st.global.b32 [%own], %t;", ALL - 1, gang);
        let message = failed.unwrap_err().to_string();
        let last = format!("CTA ({}, 0, 0), thread ({}, 0, 0)", BLOCKS - 1, THREADS - 1);
        assert!(message.contains(&last), "gang {gang}: {message}");
        // Addresses that come from memory.
        let fetched = "ld.global.b32 %r3, [%own]; mul.wide.u32 %d1, %r3, 4; add.u64 %d1, %d1, %p; st.global.b32 [%d1], 7;";
        let (stats, data) = run(fetched, ALL, gang);
        assert!(!stats.unwrap().is_proven, "gang {gang}");
        assert!(data.read().unwrap().iter().all(|&word| word == 7));
    }
}

#[test]
fn launches_of_few_threads_are_proven_once_one_took_long() {
    // A billionth of a second for each iteration makes more than a millisecond.
    let text = text(
        "mov.b32 %r3, 0; LOOP: xor.b32 %r1, %t, %r3; mul.lo.u32 %r1, %r1, %r1; st.global.b32 [%own], %r1; \
         add.u32 %r3, %r3, 1; setp.lt.u32 %q1, %r3, %n; @%q1 bra LOOP;",
    );
    for gang in GANGS {
        let device = Device::new().unwrap();
        let data = device.alloc::<u32>(32).unwrap();
        let module = Module::from_source(&device, "memory.ptx", &text).unwrap();
        let kernel = module.only_kernel().unwrap();
        let is_proven = |iterations: u32| {
            let launch = kernel.launch().grid([1, 1, 1]).block([32, 1, 1]);
            let args = launch.arg(data.address()).arg(data.address());
            let launch = args.arg(iterations).arg(0_u64).uses(&data);
            launch.gang(gang).memcheck(true).run().unwrap().is_proven
        };
        assert!(!is_proven(3_000_000), "gang {gang}");
        assert!(is_proven(1), "gang {gang}");
    }
}

#[test]
fn misaligned_accesses_are_not_proven() {
    for gang in GANGS {
        let (failed, _) = run("st.global.b64 [%own], 7;", ALL + 1, gang);
        let message = failed.unwrap_err().to_string();
        assert!(message.contains("misaligned"), "gang {gang}: {message}");
    }
}

#[test]
fn prepared_launches_check_once_they_are_not_proven() {
    let text = text("st.global.b32 [%own], %t;");
    for gang in GANGS {
        let device = Device::new().unwrap();
        let data = device.alloc::<u32>(ALL as usize).unwrap();
        let short = device.alloc::<u32>(ALL as usize - 1).unwrap();
        let module = Module::from_source(&device, "memory.ptx", &text).unwrap();
        let launch = module.only_kernel().unwrap().launch();
        let launch = launch.grid([BLOCKS, 1, 1]).block([THREADS, 1, 1]);
        let launch = launch.arg(&data).arg(&data).arg(ALL).arg(0_u64);
        let mut prepared = launch.gang(gang).memcheck(true).prepare().unwrap();
        assert!(prepared.run().unwrap().is_proven, "gang {gang}");
        let block = |buffer: &Buffer<u32>| {
            let addr = buffer.address().to_le_bytes();
            let n = u64::from(ALL).to_le_bytes();
            [addr, addr, n, [0; 8]].concat()
        };
        prepared.set_param_block(&block(&short)).unwrap();
        let message = prepared.run().unwrap_err().to_string();
        let last = format!("CTA ({}, 0, 0), thread ({}, 0, 0)", BLOCKS - 1, THREADS - 1);
        assert!(message.contains(&last), "gang {gang}: {message}");
        prepared.set_param_block(&block(&data)).unwrap();
        assert!(prepared.run().unwrap().is_proven, "gang {gang}");
        assert!((0..ALL).eq(data.read().unwrap()), "gang {gang}");
    }
}
