//! Code that was made in a hurry is replaced while launches use it.

use std::time::{Duration, Instant};

use ptxjit::{Device, Module};

/// `p[i] = f(i)`, where `f` takes 400 steps, each of a multiplication and an exclusive or.
fn long_kernel() -> (String, impl Fn(u32) -> u32) {
    let steps = (0..400u32).map(|step| (2 * step + 3, step));
    let body: String = steps
        .clone()
        .map(|(a, b)| format!("mul.lo.u32 %r2, %r1, {a};\nxor.b32 %r1, %r2, {b};\n"))
        .collect();
    let text = format!(
        ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n\
         .reg .b64 %rd<3>;\n.reg .b32 %r<5>;\nld.param.u64 %rd0, [p];\nmov.u32 %r0, %tid.x;\n\
         mov.u32 %r3, %ctaid.x;\nmov.u32 %r4, %ntid.x;\nmad.lo.u32 %r0, %r3, %r4, %r0;\n\
         mul.wide.u32 %rd1, %r0, 4;\nadd.u64 %rd2, %rd0, %rd1;\nmov.u32 %r1, %r0;\n{body}\
         st.global.u32 [%rd2], %r1;\nret;\n}}\n"
    );
    let value = move |i| {
        steps
            .clone()
            .fold(i, |x: u32, (a, b)| x.wrapping_mul(a) ^ b)
    };
    (text, value)
}

#[test]
fn launches_go_on_while_code_improves() {
    let (text, value) = long_kernel();
    let device = Device::new().unwrap();
    let module = Module::from_source(&device, "long.ptx", text).unwrap();
    let data = device.alloc::<u32>(64 * 256).unwrap();
    let launch = module.only_kernel().unwrap().launch().grid(256).block(64);
    let prepared = launch.gang(16).arg(&data).prepare().unwrap();
    assert!(prepared.is_quick());
    let start = Instant::now();
    let mut after = 0;
    while after < 3 {
        data.write(&vec![0; 64 * 256]).unwrap();
        prepared.run().unwrap();
        let right = |(i, &got): (usize, &u32)| got == value(i as u32);
        assert!(data.read().unwrap().iter().enumerate().all(right));
        after += u32::from(!prepared.is_quick());
        assert!(start.elapsed() < Duration::from_secs(60), "never improved");
    }
}

#[test]
fn eager_launches_do_not_hurry() {
    let (text, _) = long_kernel();
    let device = Device::new().unwrap();
    let module = Module::from_source(&device, "long.ptx", text).unwrap();
    let data = device.alloc::<u32>(64).unwrap();
    let launch = || {
        module
            .only_kernel()
            .unwrap()
            .launch()
            .block(64)
            .gang(16)
            .arg(&data)
    };
    let quick = launch().prepare().unwrap();
    assert!(quick.is_quick());
    assert!(!launch().eager(true).prepare().unwrap().is_quick());
    // It is the same variant, and so improved for all.
    assert!(!quick.is_quick());
}
