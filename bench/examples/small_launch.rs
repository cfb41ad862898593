//! What the smallest things cost: an empty kernel launched again and again, and small allocations.
//!
//! `cargo run --release -p ptxjit-bench --example small_launch`

use std::hint::black_box;
use std::io::Write;
use std::time::Instant;

use anyhow::Result;
use ptxjit::{Device, Module};

const EMPTY: &str = "
.version 7.0
.target sm_80
.address_size 64
.visible .entry empty(.param .u64 data, .param .u32 count) { ret; }
.visible .entry store(.param .u64 data, .param .u32 count)
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [data];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd1, %rd1, %rd2;
    ld.param.u32 %r2, [count];
    st.global.u32 [%rd1], %r2;
    ret;
}";

const ROUNDS: u32 = 200_000;

fn main() -> Result<()> {
    let device = Device::new()?;
    let module = Module::from_source(&device, "empty.ptx", EMPTY)?;
    let data = device.alloc_from(&[0u32; 64])?;
    for name in ["empty", "store"] {
        let kernel = module.kernel(name)?;
        let launch = || kernel.launch().block(32).eager(true).arg(&data).arg(7u32);
        launch().run()?;
        time(&format!("{name}: describe, prepare and run"), || {
            launch().run().map(drop)
        })?;
        let prepared = launch().prepare()?;
        time(&format!("{name}: run what is prepared"), || {
            prepared.run().map(drop)
        })?;
        let mut prepared = launch().prepare()?;
        let mut block = data.address().to_le_bytes().to_vec();
        block.extend([7, 0, 0, 0, 0, 0, 0, 0]);
        let block = &block[..kernel.param_bytes()];
        let mut grid = 1;
        time(
            &format!("{name}: run with another shape and other parameters"),
            || {
                prepared.set_shape(grid, 32)?;
                prepared.set_param_block(block)?;
                grid = 3 - grid;
                prepared.run().map(drop)
            },
        )?;
    }
    for size in [64, 2000, 100_000] {
        time(&format!("{size} bytes allocated and freed"), || {
            device
                .alloc_raw(size, 256)
                .and_then(|addr| device.free_raw(black_box(addr)))
        })?;
    }
    let many: Vec<u64> = (0..10_000)
        .map(|i| device.alloc_raw(1 + i * 37 % 2000, 256))
        .collect::<Result<_, _>>()?;
    time(
        "64 bytes allocated and freed beside 10000 other blocks",
        || {
            device
                .alloc_raw(64, 256)
                .and_then(|addr| device.free_raw(black_box(addr)))
        },
    )?;
    let mut byte = [0];
    time("one byte read", || {
        device.read_raw(many[5000], black_box(&mut byte))
    })
}

fn time(what: &str, mut run: impl FnMut() -> Result<(), ptxjit::Error>) -> Result<()> {
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        let start = Instant::now();
        for _ in 0..ROUNDS / 5 {
            run()?;
        }
        best = best.min(start.elapsed().as_secs_f64() / f64::from(ROUNDS / 5));
    }
    writeln!(std::io::stdout(), "{:8.0} ns  {what}", best * 1e9)?;
    Ok(())
}
