//! How long products of matrices take that a warp holds in registers.
//!
//! `cargo run --release -p ptxjit-bench --example products [NAME]`
//!
//! One warp repeats four products of the same factors, in code of the optimizing tier.
//! Each line is the least time of a product in many launches, and what that makes in operations: a
//! multiplication and an addition for each element of A and column of B, zeros of a sparse A
//! included.
#![expect(clippy::print_stdout, reason = "a program that prints a table")]

use std::fmt::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ptxjit::{Device, Module};

const PRODUCTS: u32 = 400;
const LAUNCHES: usize = 300;

/// A form of `mma`.
struct Form {
    name: &'static str,
    /// The instruction up to its operands.
    inst: &'static str,
    /// M, N and K.
    size: [u64; 3],
    /// Registers of A, B and D.
    registers: [usize; 3],
    /// What is behind C.
    further: &'static str,
    /// The type of registers.
    ty: &'static str,
}

const fn form(
    name: &'static str,
    inst: &'static str,
    size: [u64; 3],
    registers: [usize; 3],
    further: &'static str,
) -> Form {
    Form {
        name,
        inst,
        size,
        registers,
        further,
        ty: "b32",
    }
}

const FORMS: [Form; 12] = [
    form(
        "f16",
        "m16n8k16.row.col.f32.f16.f16.f32",
        [16, 8, 16],
        [4, 2, 4],
        "",
    ),
    form(
        "tf32",
        "m16n8k8.row.col.f32.tf32.tf32.f32",
        [16, 8, 8],
        [4, 2, 4],
        "",
    ),
    form(
        "e4m3",
        "m16n8k32.row.col.f32.e4m3.e4m3.f32",
        [16, 8, 32],
        [4, 2, 4],
        "",
    ),
    form(
        "s8",
        "m16n8k32.row.col.s32.s8.s8.s32",
        [16, 8, 32],
        [4, 2, 4],
        "",
    ),
    form(
        "b1",
        "m16n8k256.row.col.s32.b1.b1.s32.and.popc",
        [16, 8, 256],
        [4, 2, 4],
        "",
    ),
    Form {
        ty: "f64",
        ..form(
            "f64",
            "m16n8k16.row.col.f64.f64.f64.f64",
            [16, 8, 16],
            [8, 4, 4],
            "",
        )
    },
    form(
        "f16 sparse",
        "m16n8k32.row.col.f32.f16.f16.f32",
        [16, 8, 32],
        [4, 4, 4],
        SPARSE,
    ),
    form(
        "tf32 sparse",
        "m16n8k16.row.col.f32.tf32.tf32.f32",
        [16, 8, 16],
        [4, 4, 4],
        SPARSE,
    ),
    form(
        "e4m3 sparse",
        "m16n8k64.row.col.f32.e4m3.e4m3.f32",
        [16, 8, 64],
        [4, 4, 4],
        SPARSE,
    ),
    form(
        "s8 sparse",
        "m16n8k64.row.col.s32.s8.s8.s32",
        [16, 8, 64],
        [4, 4, 4],
        SPARSE,
    ),
    form(
        "mxf8",
        "m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e4m3.f32.ue8m0",
        [16, 8, 32],
        [4, 2, 4],
        SCALED,
    ),
    form(
        "nvf4",
        "m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3",
        [16, 8, 64],
        [4, 2, 4],
        SCALED,
    ),
];

const SPARSE: &str = ", e, 0";
const SCALED: &str = ", e, {0, 0}, e, {0, 0}";

impl Form {
    fn ptx(&self) -> Result<String> {
        let (ty, [a, b, d]) = (self.ty, self.registers);
        let vector = |name: &str, n: usize| {
            let names: Vec<String> = (0..n).map(|i| format!("{name}{i}")).collect();
            format!("{{{}}}", names.join(", "))
        };
        // Elements 0 and 1 of four are stored; factors are near one.
        let (sparse, further) = match self.further == SPARSE {
            true => (".sp::ordered_metadata", "0x44444444"),
            false => ("", "0x38383838"),
        };
        let mut ptx = format!(
            ".version 8.8\n.target sm_120a\n.address_size 64\n\
             .visible .entry k(.param .u64 data, .param .u32 count)\n{{\n\
             .reg .pred p; .reg .b32 e, i, n, l; .reg .b64 q, w;\n\
             .reg .{ty} a<8>, b<8>, d<8>;\n\
             ld.param.u64 q, [data]; ld.param.u32 n, [count]; mov.u32 e, {further};\n\
             mov.u32 l, %tid.x; mul.wide.u32 w, l, 64; add.u64 q, q, w; mov.u32 i, 0;\n"
        );
        for (name, n) in [("a", a), ("b", b), ("d", d)] {
            for i in 0..n {
                writeln!(ptx, "ld.global.{ty} {name}{i}, [q+{}];", 8 * i)?;
            }
        }
        let (a, b, d_regs) = (vector("a", a), vector("b", b), vector("d", d));
        ptx.push_str("LOOP:\n");
        for _ in 0..4 {
            let (inst, further) = (self.inst, self.further);
            writeln!(
                ptx,
                "mma{sparse}.sync.aligned.{inst} {d_regs}, {a}, {b}, {d_regs}{further};"
            )?;
        }
        ptx.push_str("add.u32 i, i, 4; setp.lt.u32 p, i, n; @p bra LOOP;\n");
        for i in 0..d {
            writeln!(ptx, "st.global.{ty} [q+{}], d{i};", 8 * i)?;
        }
        ptx.push_str("ret;\n}\n");
        Ok(ptx)
    }

    fn measure(&self, device: &Device) -> Result<Duration> {
        let module = Module::from_source(device, self.name, &self.ptx()?)?;
        let kernel = module.kernel("k")?;
        let data = device.alloc_from(&[0x3838_3838_u32; 1024])?;
        let mut best = Duration::MAX;
        for _ in 0..LAUNCHES {
            let launch = kernel.launch().block(32).eager(true);
            let launch = launch.arg(&data).arg(PRODUCTS).prepare()?;
            let start = Instant::now();
            launch.run()?;
            best = best.min(start.elapsed());
        }
        Ok(best / PRODUCTS)
    }
}

fn main() -> Result<()> {
    let wanted = std::env::args().nth(1);
    let device = Device::new()?;
    println!("{:12} {:>10} {:>12}", "product", "time", "Gop/s");
    for form in &FORMS {
        if wanted
            .as_ref()
            .is_some_and(|name| !form.name.contains(name.as_str()))
        {
            continue;
        }
        let time = form.measure(&device).context(form.name)?;
        let operations = 2.0 * form.size.iter().product::<u64>() as f64;
        let rate = operations / time.as_nanos() as f64;
        println!("{:12} {:>7} ns {rate:>12.1}", form.name, time.as_nanos());
    }
    Ok(())
}
