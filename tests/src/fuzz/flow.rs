//! Kernels whose blocks branch to each other at random: loops with many entries inside each other.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use ptxjit::{Device, Engine, Error, Module};

use super::rng::Rng;

/// Threads of a launch.
const THREADS: u32 = 64;

/// More than compiling and running takes on a slow machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Blocks that a thread visits before it ends.
const FUEL: u32 = 300;

/// A module with one kernel of so many blocks. Each thread writes one word to a buffer of as many
/// words as there are threads.
pub fn text(seed: u64, n_blocks: u32) -> String {
    let mut rng = Rng::new(seed);
    let mut blocks = String::new();
    for block in 0..n_blocks {
        let (factor, add, bound) = (rng.next() as u32 | 1, rng.next() as u32, rng.next() as u32);
        let target = rng.next() as u32 % n_blocks;
        blocks += &format!(
            "L{block}:\nmad.lo.u32 %r1, %r1, {factor}, {add};\nadd.u32 %r2, %r2, 1;\n\
             setp.gt.u32 %p, %r2, {FUEL};\n@%p bra END;\n\
             setp.lt.u32 %p, %r1, {bound};\n@%p bra L{target};\n"
        );
    }
    format!(
        ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n\
         .reg .pred %p;\n.reg .b32 %r<3>;\n.reg .b64 %rd<3>;\nld.param.u64 %rd0, [p];\n\
         mov.u32 %r0, %tid.x;\nmov.u32 %r1, %r0;\nmov.u32 %r2, 0;\n{blocks}\
         END:\nmul.wide.u32 %rd1, %r0, 4;\nadd.u64 %rd2, %rd0, %rd1;\n\
         st.global.u32 [%rd2], %r1;\nret;\n}}\n"
    )
}

/// Runs the program of a seed in the interpreter and, at a random width, as native code; says what
/// went wrong. No more than so many blocks.
pub fn check(device: &Device, seed: u64, most_blocks: usize) -> Result<(), String> {
    let mut rng = Rng::new(!seed);
    let n_blocks = 2 + rng.below(most_blocks - 1) as u32;
    let gang = *rng.pick(&[1, 4, 8, 16, 32]);
    let eager = rng.chance(50);
    let text = text(seed, n_blocks);
    let run = || -> Result<bool, Error> {
        let module = Module::from_source(device, "flow.ptx", text)?;
        let kernel = module.only_kernel()?;
        let launch = |engine| {
            let data = device.alloc_from(&[0u32; THREADS as usize])?;
            let launch = kernel.launch().block(THREADS).timeout(LIMIT).gang(gang);
            let prepared = launch.eager(eager).engine(engine).arg(&data).prepare()?;
            prepared.run()?;
            data.read()
        };
        Ok(launch(Engine::Interp)? == launch(Engine::Jit)?)
    };
    let case = format!("{n_blocks} blocks, gang {gang}, eager {eager}");
    match std::panic::catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(true)) => Ok(()),
        Ok(Ok(false)) => Err(format!("{case}: results differ")),
        Ok(Err(err)) => Err(format!("{case}: {err}")),
        Err(_) => Err(format!("{case}: a panic")),
    }
}
