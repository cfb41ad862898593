//! Instructions of two and three operands, whose inputs cannot all be tried, against the
//! interpreter: samples of all kinds.
//!
//! This is no independent source: it shows that compiled code, at each gang width, does what the
//! interpreter does.

use std::time::Instant;

use ptxjit::{Device, Engine, Kernel, Module};

use super::{Args, Row};

/// Ops of two and three operands, the others made from the first: of all sizes, small ones often.
fn two_operands() -> impl Iterator<Item = (&'static str, String)> {
    const OTHERS: &str = "mul.lo.u32 %r6, %r1, 0x9E3779B1; and.b32 %r7, %r1, 31; shr.u32 %r7, %r6, %r7; \
         mul.lo.u32 %r6, %r6, 0x85EBCA6B; shr.u32 %r5, %r6, 13; xor.b32 %r6, %r6, %r5; \
         cvt.u16.u32 %h1, %r1; cvt.u16.u32 %h2, %r6; shr.u32 %r5, %r6, 16; cvt.u16.u32 %h3, %r5;";
    let word = |name: &'static str, ins: &str| (name, format!("{OTHERS} {ins}"));
    let half =
        |name: &'static str, ins: &str| (name, format!("{OTHERS} {ins} cvt.u32.u16 %r2, %h2;"));
    let flag =
        |name: &'static str, ins: &str| (name, format!("{OTHERS} {ins} selp.u32 %r2, 1, 0, %p1;"));
    let single = |name: &'static str, ins: &str| {
        // Results around the least normal number, other inputs flushed or not.
        let body = "and.b32 %r5, %r1, 0x80ffffff; or.b32 %r5, %r5, 0x1f000000; and.b32 %r6, %r6, 0x00ffffff; \
             or.b32 %r6, %r6, 0x1f800000; mov.b32 %f1, %r5; mov.b32 %f3, %r6; and.b32 %r7, %r7, 0x81ffffff; \
             mov.b32 %f4, %r7; cvt.f64.f32 %d1, %f4;";
        (name, format!("{OTHERS} {body} {ins} mov.b32 %r2, %f2;"))
    };
    [
        word("div.u32", "div.u32 %r2, %r1, %r7;"),
        word("rem.u32", "rem.u32 %r2, %r1, %r7;"),
        word("div.s32", "div.s32 %r2, %r1, %r7;"),
        word("rem.s32", "rem.s32 %r2, %r6, %r7;"),
        word("div.u32/7", "div.u32 %r2, %r1, 7;"),
        word("div.u32/10", "div.u32 %r2, %r1, 10;"),
        word("rem.u32/big", "rem.u32 %r2, %r1, 0xfffffffb;"),
        word("div.s32/-7", "div.s32 %r2, %r1, -7;"),
        word("rem.s32/8", "rem.s32 %r2, %r1, 8;"),
        word("div.s32/min", "div.s32 %r2, %r1, 0x80000000;"),
        word("div.s32/-1", "div.s32 %r2, %r1, -1;"),
        word("div.u32/0", "div.u32 %r2, %r1, 0;"),
        half("div.u16", "div.u16 %h2, %h1, %h3;"),
        half("rem.s16", "rem.s16 %h2, %h1, %h3;"),
        half("div.s16/-3", "div.s16 %h2, %h1, -3;"),
        word("mul.hi.u32", "mul.hi.u32 %r2, %r1, %r6;"),
        word("mul.hi.s32", "mul.hi.s32 %r2, %r1, %r6;"),
        half("mul.hi.s16", "mul.hi.s16 %h2, %h1, %h3;"),
        word("add.sat", "add.sat.s32 %r2, %r1, %r6;"),
        word("sub.sat", "sub.sat.s32 %r2, %r1, %r6;"),
        word("shl", "and.b32 %r7, %r6, 63; shl.b32 %r2, %r1, %r7;"),
        word("shr.u32", "and.b32 %r7, %r6, 63; shr.u32 %r2, %r1, %r7;"),
        word("shr.s32", "and.b32 %r7, %r6, 63; shr.s32 %r2, %r1, %r7;"),
        word("shr.huge", "shr.s32 %r2, %r1, %r6;"),
        half("shl.b16", "and.b32 %r7, %r6, 31; shl.b16 %h2, %h1, %r7;"),
        half("shr.s16", "and.b32 %r7, %r6, 31; shr.s16 %h2, %h1, %r7;"),
        word("bfe.u32", "bfe.u32 %r2, %r1, %r6, %r7;"),
        word("bfe.s32", "and.b32 %r7, %r7, 63; and.b32 %r6, %r6, 31; bfe.s32 %r2, %r1, %r6, %r7;"),
        word("bfe.s32 3 7", "bfe.s32 %r2, %r1, 3, 7;"),
        word("bfe.s32 28 9", "bfe.s32 %r2, %r1, 28, 9;"),
        word("bfe.u32 40 9", "bfe.u32 %r2, %r1, 40, 9;"),
        word("bfi 5 11", "bfi.b32 %r2, %r1, %r6, 5, 11;"),
        word("bfi 30 11", "bfi.b32 %r2, %r1, %r6, 30, 11;"),
        word("bfi", "and.b32 %r7, %r7, 63; bfi.b32 %r2, %r1, %r6, %r7, 9;"),
        word("bfe.s64", "cvt.u64.u32 %rd3, %r6; mul.lo.u64 %rd3, %rd3, %rd3; bfe.s64 %rd3, %rd3, 33, 21; cvt.u32.u64 %r2, %rd3;"),
        word("popc.b64", "cvt.u64.u32 %rd3, %r6; mul.lo.u64 %rd3, %rd3, %rd3; popc.b64 %r2, %rd3;"),
        word("brev.b64", "cvt.u64.u32 %rd3, %r6; mul.lo.u64 %rd3, %rd3, %rd3; brev.b64 %rd3, %rd3; cvt.u32.u64 %r2, %rd3;"),
        word("clz small", "clz.b32 %r2, %r7;"),
        word("prmt", "prmt.b32 %r2, %r1, %r6, 0x7d2f;"),
        word("prmt any", "prmt.b32 %r2, %r1, %r6, %r7;"),
        word("dp4a", "dp4a.s32.u32 %r2, %r1, %r6, %r7;"),
        word("dp2a.hi", "dp2a.hi.u32.s32 %r2, %r1, %r6, %r7;"),
        half("add.f16", "add.rn.f16 %h2, %h1, %h3;"),
        half("sub.ftz.f16", "sub.rn.ftz.f16 %h2, %h1, %h3;"),
        half("mul.f16", "mul.rn.f16 %h2, %h1, %h3;"),
        half("mul.ftz.f16", "mul.rn.ftz.sat.f16 %h2, %h1, %h3;"),
        half("fma.f16", "fma.rn.f16 %h2, %h1, %h3, %h2;"),
        half("fma.ftz.f16", "fma.rn.ftz.f16 %h2, %h1, %h3, %h2;"),
        half("fma.relu.f16", "fma.rn.relu.f16 %h2, %h1, %h3, %h2;"),
        half("add.bf16", "add.rn.bf16 %h2, %h1, %h3;"),
        half("mul.bf16", "mul.rn.bf16 %h2, %h1, %h3;"),
        half("fma.bf16", "fma.rn.bf16 %h2, %h1, %h3, %h2;"),
        half("min.f16", "min.f16 %h2, %h1, %h3;"),
        half("max.NaN.bf16", "max.NaN.bf16 %h2, %h1, %h3;"),
        flag("setp.f16", "setp.ltu.f16 %p1, %h1, %h3;"),
        flag("setp.ftz.f16", "setp.eq.ftz.f16 %p1, %h1, %h3;"),
        single("mul.ftz.f32", "mul.ftz.f32 %f2, %f1, %f3; cvt.rn.f16.f32 %h1, %f2;"),
        single("fma.ftz.f32", "fma.rn.ftz.f32 %f2, %f1, %f3, %f4; add.f32 %f1, %f1, %f3;"),
        single("div.ftz.f32", "mul.f32 %f3, %f3, 0f5F000000; mul.f32 %f3, %f3, 0f5F000000; div.rn.ftz.f32 %f2, %f1, %f3;"),
        single("f32.f64.ftz", "mul.f64 %d1, %d1, 0d3fe0000000000001; cvt.rn.ftz.f32.f64 %f2, %d1;"),
    ]
    .into_iter()
}

/// Makes `%f1`, `%f3` and `%f4` of a number's bits: of all sizes; of similar size, so that digits
/// cancel; around the least normal number; zeros, infinities, small powers of two and their
/// neighbors.
const OPERANDS: [(&str, &str); 4] = [
    (
        "any",
        "mov.b32 %f1, %r1; mov.b32 %f3, %r6; mul.lo.u32 %r5, %r6, 0xC2B2AE35; xor.b32 %r5, %r5, %r7; mov.b32 %f4, %r5;",
    ),
    (
        "near",
        "and.b32 %r5, %r1, 0x80ffffff; or.b32 %r5, %r5, 0x3f000000; mov.b32 %f1, %r5; and.b32 %r5, %r6, 0x80ffffff; \
         or.b32 %r5, %r5, 0x3f000000; mov.b32 %f3, %r5; mul.lo.u32 %r5, %r6, 0xC2B2AE35; and.b32 %r5, %r5, 0x80ffffff; \
         or.b32 %r5, %r5, 0x3e000000; mov.b32 %f4, %r5;",
    ),
    (
        "small",
        "and.b32 %r5, %r1, 0x80ffffff; or.b32 %r5, %r5, 0x1f000000; mov.b32 %f1, %r5; and.b32 %r5, %r6, 0x80ffffff; \
         or.b32 %r5, %r5, 0x1f800000; mov.b32 %f3, %r5; and.b32 %r5, %r7, 0x81ffffff; mov.b32 %f4, %r5;",
    ),
    (
        "special",
        "and.b32 %r5, %r1, 7; setp.eq.u32 %p1, %r5, 0; and.b32 %r5, %r1, 0xff800001; @%p1 or.b32 %r5, %r5, 0x7f800000; \
         mov.b32 %f1, %r5; and.b32 %r5, %r6, 48; setp.eq.u32 %p1, %r5, 0; and.b32 %r5, %r6, 0xff800001; \
         @%p1 and.b32 %r5, %r5, 0x80000001; mov.b32 %f3, %r5; and.b32 %r5, %r7, 0xc0000001; mov.b32 %f4, %r5;",
    ),
];

/// Ops in f32 in the directions other than to nearest: the bits of all three results put together.
fn directed() -> impl Iterator<Item = (String, String)> {
    const OTHERS: &str = "mul.lo.u32 %r6, %r1, 0x9E3779B1; shr.u32 %r7, %r6, 15; xor.b32 %r6, %r6, %r7; \
         mul.lo.u32 %r6, %r6, 0x85EBCA6B; shr.u32 %r7, %r6, 13; xor.b32 %r7, %r7, %r6; mul.lo.u32 %r7, %r7, 0x9E3779B1;";
    let ops: [(&str, bool, &str); 10] = [
        ("add", true, "add.R.f32 %f2, %f1, %f3;"),
        ("sub", true, "sub.R.f32 %f2, %f4, %f3;"),
        ("mul", true, "mul.R.f32 %f2, %f1, %f3;"),
        ("fma", true, "fma.R.f32 %f2, %f1, %f3, %f4;"),
        ("div", true, "div.R.f32 %f2, %f4, %f3;"),
        ("sqrt", true, "sqrt.R.f32 %f2, %f3;"),
        ("rcp", true, "rcp.R.f32 %f2, %f1;"),
        (
            "f32.f64",
            true,
            "mul.f64 %d1, %d2, %d3; cvt.R.f32.f64 %f2, %d1;",
        ),
        ("f32.s64", false, "cvt.R.f32.s64 %f2, %rd3;"),
        ("f32.u64", false, "cvt.R.f32.u64 %f2, %rd3;"),
    ];
    let case = |(op, with_ftz, ins): (&str, bool, &str),
                (kind, operands): (&str, &str),
                ftz: bool| {
        let suffix = if ftz && with_ftz { ".ftz" } else { "" };
        let last = format!("max.NaN{suffix}.f32 %f2, %f2, %f2; mov.b32 %r5, %f2;");
        let each: String = ["rz", "rm", "rp", "rn"]
            .map(|round| {
                let ins = ins.replace('R', &format!("{round}{suffix}"));
                format!("{ins} {last} shf.l.wrap.b32 %r2, %r2, %r2, 7; xor.b32 %r2, %r2, %r5;\n")
            })
            .concat();
        let wide = "shr.u32 %r5, %r7, 26; mov.b64 %rd3, {%r6, %r7}; shr.s64 %rd3, %rd3, %r5; cvt.f64.f32 %d2, %f1; cvt.f64.f32 %d3, %f3;";
        (
            format!("{op}{suffix} {kind}"),
            format!("{OTHERS} {operands} {wide} mov.u32 %r2, 0; {each}"),
        )
    };
    ops.into_iter().flat_map(move |op| {
        OPERANDS
            .into_iter()
            .flat_map(move |kind| [false, true].map(|ftz| case(op, kind, ftz)))
    })
}

/// Interpreted inputs; more would take hours.
const SAMPLES: u32 = 1 << 20;

/// What was named of this file, or all for the name `interp`; whether all agree.
pub(super) fn check(args: &Args) -> bool {
    let device = Device::new().expect("a device");
    let owned = |(name, body): (&str, String)| (name.to_owned(), body);
    let mut good = true;
    for (name, body) in two_operands().map(owned).chain(directed()) {
        let start = name.split(['.', ' ']).next().unwrap_or_default();
        if args.names.is_empty()
            || args
                .names
                .iter()
                .any(|wanted| *wanted == name || wanted == start || wanted == "interp")
        {
            good &= compare(&device, &name, &body, args);
        }
    }
    good
}

fn compare(device: &Device, name: &str, body: &str, args: &Args) -> bool {
    const STRIDE: u32 = 4099;
    let start = Instant::now();
    let kernel = kernel(device, name, body);
    let run = |engine: Engine, gang: Option<u32>| {
        let out = device.alloc::<u32>(SAMPLES as usize).expect("memory");
        let mut launch = kernel
            .launch()
            .grid(SAMPLES / 256)
            .block(256)
            .arg(&out)
            .arg(0u32)
            .arg(STRIDE)
            .engine(engine);
        if let Some(gang) = gang {
            launch = launch.gang(gang);
        }
        launch
            .run()
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        out.read().expect("results")
    };
    let wanted = run(Engine::Interp, None);
    let mut wrong = 0;
    let mut first = String::new();
    for &gang in &args.gangs {
        let results = run(Engine::default(), Some(gang));
        let pairs = results.iter().zip(&wanted).zip(0u32..);
        for ((got, want), i) in pairs.filter(|((got, want), _)| got != want) {
            wrong += 1;
            if first.is_empty() {
                let input = i.wrapping_mul(STRIDE);
                first = format!("{input:08x} -> {got:08x}, not {want:08x} at gang {gang}");
            }
        }
    }
    let gangs: Vec<String> = args.gangs.iter().map(u32::to_string).collect();
    args.print(&Row {
        name,
        what: "interp",
        error: &format!("{SAMPLES} inputs"),
        bound: "same as the interpreter",
        wrong,
        first: &first,
        gangs: &format!("gangs {}", gangs.join(",")),
        wall: start.elapsed(),
    });
    wrong == 0
}

/// A kernel that applies `body` (from `%r1` to `%r2`) to numbers `base + i * stride`.
fn kernel(device: &Device, name: &str, body: &str) -> Kernel {
    let ptx = format!(
        ".version 9.0\n.target sm_100a\n.address_size 64\n
.visible .entry k(.param .u64 out, .param .u32 base, .param .u32 stride)
{{
    .reg .pred %p<2>;
    .reg .b16 %h<4>;
    .reg .b32 %r<8>;
    .reg .f32 %f<8>;
    .reg .f64 %d<8>;
    .reg .b64 %rd<8>;
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %ntid.x;
    mov.u32 %r5, %tid.x;
    mad.lo.u32 %r3, %r3, %r4, %r5;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r6, [base];
    ld.param.u32 %r7, [stride];
    mad.lo.u32 %r1, %r3, %r7, %r6;
    {body}
    mul.wide.u32 %rd2, %r3, 4;
    add.u64 %rd1, %rd1, %rd2;
    st.global.u32 [%rd1], %r2;
    ret;
}}
"
    );
    let module = Module::from_source(device, "exhaustive.ptx", &ptx)
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    module.kernel("k").expect("it is there")
}
