//! Launches in which several blocks side by side run as one.

use ptxjit::{Device, Engine, Error, Kernel};

use crate::kernel;

/// Blocks of eight columns and four rows, in numbers that four of them do not divide. Launches of
/// fewer threads join no blocks.
const BLOCK: (u32, u32) = (8, 4);
const GRID: (u32, u32) = (67, 50);
const WIDTH: u32 = BLOCK.0 * GRID.0;
const HEIGHT: u32 = BLOCK.1 * GRID.1;

/// A kernel that stores at the place of each thread in a picture of `WIDTH` columns what `value`
/// leaves in `%r9`; `%r5` and `%r6` are the thread's column and row.
fn of_places(device: &Device, value: &str) -> Kernel {
    kernel(
        device,
        &format!(
            ".visible .entry k(.param .u64 out, .param .u32 width)
            {{
                .reg .b32 %r<12>;
                .reg .b64 %rd<4>;
                .reg .pred %p;
                mov.u32 %r1, %ctaid.x;
                mov.u32 %r2, %ntid.x;
                mov.u32 %r3, %tid.x;
                mad.lo.u32 %r5, %r1, %r2, %r3;
                mov.u32 %r1, %ctaid.y;
                mov.u32 %r2, %ntid.y;
                mov.u32 %r4, %tid.y;
                mad.lo.u32 %r6, %r1, %r2, %r4;
                {value}
                ld.param.u64 %rd1, [out];
                ld.param.u32 %r7, [width];
                mad.lo.u32 %r8, %r6, %r7, %r5;
                mul.wide.u32 %rd2, %r8, 4;
                add.u64 %rd3, %rd1, %rd2;
                st.global.u32 [%rd3], %r9;
                ret;
            }}"
        ),
    )
}

/// What the kernel stores, and the width of its gangs.
fn run(device: &Device, kernel: &Kernel) -> (Vec<u32>, u32) {
    let n = (WIDTH * HEIGHT) as usize;
    let out = device.alloc_from(&vec![u32::MAX; n]).unwrap();
    let launch = kernel.launch().grid(GRID).block(BLOCK);
    let stats = launch.arg(&out).arg(WIDTH).run().unwrap();
    (out.read().unwrap(), stats.gang)
}

fn expected(value: impl Fn(u32, u32) -> u32) -> Vec<u32> {
    let rows = (0..HEIGHT).map(|y| (0..WIDTH).map(|x| value(x, y)).collect());
    rows.collect::<Vec<Vec<u32>>>().concat()
}

#[test]
fn small_blocks_run_together() {
    let device = Device::new().unwrap();
    let places = of_places(&device, "mad.lo.u32 %r9, %r6, 10000, %r5;");
    let (stored, gang) = run(&device, &places);
    assert_eq!(stored, expected(|x, y| 10000 * y + x));
    assert!(gang > BLOCK.0, "gangs have {gang} lanes");
}

#[test]
fn other_engines_and_checks_run_single_blocks() {
    let device = Device::new().unwrap();
    let places = of_places(&device, "mad.lo.u32 %r9, %r6, 10000, %r5;");
    let n = (WIDTH * HEIGHT) as usize;
    let launch = || places.launch().grid(GRID).block(BLOCK);
    for (name, launch) in [
        ("plan", launch().engine(Engine::Plan)),
        ("memcheck", launch().memcheck(true)),
        ("gang of 8", launch().gang(8)),
    ] {
        let out = device.alloc_from(&vec![u32::MAX; n]).unwrap();
        let stats = launch.arg(&out).arg(WIDTH).run().unwrap();
        assert_eq!(
            out.read().unwrap(),
            expected(|x, y| 10000 * y + x),
            "{name}"
        );
        assert!(stats.gang <= BLOCK.0, "{name}: gang {}", stats.gang);
    }
}

#[test]
fn prepared_launches_change_their_shape() {
    let device = Device::new().unwrap();
    let places = of_places(&device, "mad.lo.u32 %r9, %r6, 10000, %r5;");
    let n = (WIDTH * HEIGHT) as usize;
    let out = device.alloc_from(&vec![u32::MAX; n]).unwrap();
    let launch = places.launch().grid(GRID).block(BLOCK).arg(&out).arg(WIDTH);
    let mut prepared = launch.prepare().unwrap();
    // The same threads: with columns left, without joined blocks, as before.
    for (grid, block) in [
        ((GRID.0, 4), (BLOCK.0, HEIGHT / 4)),
        ((1, HEIGHT), (WIDTH, 1)),
        (GRID, BLOCK),
    ] {
        out.write(&vec![u32::MAX; n]).unwrap();
        prepared.set_shape(grid, block).unwrap();
        prepared.run().unwrap();
        assert_eq!(out.read().unwrap(), expected(|x, y| 10000 * y + x));
    }
}

#[test]
fn blocks_that_can_be_told_apart_run_by_themselves() {
    let device = Device::new().unwrap();
    for (name, value, of_thread) in [
        (
            "tid",
            "mov.u32 %r9, %tid.x;",
            (|x| x % BLOCK.0) as fn(u32) -> u32,
        ),
        ("ctaid", "mov.u32 %r9, %ctaid.x;", |x| x / BLOCK.0),
        ("ntid", "mov.u32 %r9, %ntid.x;", |_| BLOCK.0),
        ("nctaid", "mov.u32 %r9, %nctaid.x;", |_| GRID.0),
        ("lane", "mov.u32 %r9, %laneid; and.b32 %r9, %r9, 7;", |x| {
            x % BLOCK.0
        }),
        (
            "vote",
            "activemask.b32 %r9; popc.b32 %r9, %r9; min.u32 %r9, %r9, 32;",
            |_| 32,
        ),
    ] {
        let (stored, gang) = run(&device, &of_places(&device, value));
        assert_eq!(stored, expected(|x, _| of_thread(x)), "{name}");
        assert!(gang <= BLOCK.0 || name == "vote", "{name}: gang {gang}");
    }
}

#[test]
fn threads_of_joined_blocks_are_named_by_their_own() {
    let device = Device::new().unwrap();
    // The last column, which is in the last block of a row.
    let wild = format!(
        "setp.eq.u32 %p, %r5, {};
         @%p mov.u32 %r6, 0x70000000;
         mov.u32 %r9, 0;",
        WIDTH - 4 * BLOCK.0
    );
    let kernel = of_places(&device, &wild);
    let out = device.alloc::<u32>((WIDTH * HEIGHT) as usize).unwrap();
    let launch = kernel.launch().grid(GRID).block(BLOCK);
    let error = launch.arg(&out).arg(WIDTH).run().unwrap_err();
    let Error::Launch(failure) = &error else {
        panic!("{error}");
    };
    let [x, ..] = failure.ctaid().expect("a block did it");
    assert!((GRID.0 - 7..GRID.0 - 3).contains(&x), "{error}");
    assert!(error.to_string().contains("CTA ("), "{error}");
}
