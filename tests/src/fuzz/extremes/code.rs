//! Code that is valid mostly, and much of one kind: what costs the compiler more than its length.

use std::fmt::Write;

use super::Text;
use crate::fuzz::rng::Rng;

/// Places where threads wait for others, and registers that live across them.
pub(super) fn waits(rng: &mut Rng, text: &mut Text) {
    let wait = *rng.pick(&[
        "bar.sync 0;",
        "barrier.cta.sync 1;",
        "bar.warp.sync -1;",
        "@%p1 bar.warp.sync 3;",
        "shfl.sync.idx.b32 %r1, %r2, 3, 31, -1;",
        "vote.sync.ballot.b32 %r1, %p1, -1;",
        "nanosleep.u32 1;",
    ]);
    let count = 1 + rng.below(90_000.min(text.limit));
    text.fill_body(|n| format!("{wait} add.u32 %r{}, %r{}, 1;\n", n % count, n % count));
}

/// Loops that wait for other threads.
pub(super) fn spins(rng: &mut Rng, text: &mut Text) {
    let look = *rng.pick(&[
        "ld.volatile.global.u32 %r1, [%d1];",
        "atom.global.cas.b32 %r1, [%d1], 0, 1;",
    ]);
    let count = 1 + rng.below(1000);
    text.fill_body(|n| {
        format!(
            "W{n}: {look} setp.ne.u32 %p1, %r1, 0; add.u32 %r{}, %r{}, %r1; @%p1 bra W{n};\n",
            n % count,
            n % count
        )
    });
}

/// Loops within loops, some of which end together.
pub(super) fn nested_loops(rng: &mut Rng, text: &mut Text) {
    let depth = 1 + rng.below((text.limit / 80).max(1));
    let together = 1 + rng.below(4);
    let mut base = 0;
    text.fill_body(|_| {
        let mut nest = String::new();
        for n in base..base + depth {
            let _ = writeln!(nest, "N{n}: add.u32 %r{}, %r{}, 1;", n % 90_000, n % 90_000);
        }
        for n in (base..base + depth).rev().step_by(together) {
            let _ = writeln!(
                nest,
                "setp.lt.u32 %p1, %r{}, {n}; @%p1 bra N{n};",
                n % 90_000
            );
        }
        base += depth;
        nest
    });
}

/// Accesses to each state space, to addresses of which little is known.
pub(super) fn accesses(rng: &mut Rng, text: &mut Text) {
    text.body += ".shared .align 16 .b8 sh[1024]; .local .align 16 .b8 lo[1024]; .reg .b32 %a;\n";
    let kinds = [
        "ld.global.b32 %r{r}, [%d1+{o}];",
        "ld.global.v4.b32 {%r1, %r{r}, %r2, %r3}, [%d{d}+{o}];",
        "st.global.b8 [%d{d}+{o}], %r{r};",
        "ld.b64 %d{d}, [%d{d}+{o}];",
        "st.shared.b32 [sh+{o}], %r{r};",
        "mov.u32 %a, %tid.x; ld.shared.u8 %r{r}, [%a+{o}];",
        "st.local.v2.b32 [lo+{o}], {%r1, %r{r}};",
        "atom.global.add.u32 %r{r}, [%d{d}], %r1;",
        "cvt.u64.u32 %d{d}, %r{r};",
        "ld.param.u64 %d{d}, [a];",
    ];
    let n_kinds = 1 + rng.below(kinds.len());
    let mut seeds = rng.clone();
    text.fill_body(|n| {
        let kind = kinds[seeds.below(n_kinds)];
        let kind = kind.replace("{r}", &(n % 90_000).to_string());
        let kind = kind.replace("{d}", &(seeds.below(8) + 1).to_string());
        kind.replace("{o}", &(n * 16 % 1024).to_string()) + "\n"
    });
}

/// Arithmetic that takes many instructions of a processor.
pub(super) fn arithmetic(rng: &mut Rng, text: &mut Text) {
    let ops = [
        "div.u32 %r{r}, %r{s}, %r2;",
        "rem.s64 %d1, %d2, %d1;",
        "div.rm.f32 %r{r}, %r{s}, %r3;",
        "fma.rp.f64 %d1, %d2, %d3, %d1;",
        "sin.approx.f32 %r{r}, %r{s};",
        "prmt.b32 %r{r}, %r{s}, %r1, %r2;",
        "dp4a.u32.s32 %r{r}, %r{s}, %r1, %r2;",
        "brev.b32 %r{r}, %r{s};",
        "mul.hi.u64 %d1, %d2, %d3;",
        "vabsdiff4.u32.u32.u32 %r{r}, %r{s}, %r1, %r2;",
        "lop3.b32 %r{r}, %r{s}, %r1, %r2, 0x96;",
        "cvt.rzi.s8.f32 %r{r}, %r{s};",
        "bfi.b64 %d1, %d2, %d3, %r{r}, %r{s};",
        "sqrt.rn.f64 %d4, %d5;",
    ];
    let n_ops = 1 + rng.below(ops.len());
    let first = rng.below(ops.len());
    let width = 1 + rng.below(90_000);
    let mut seeds = rng.clone();
    text.fill_body(|n| {
        let op = ops[(first + seeds.below(n_ops)) % ops.len()];
        let op = op.replace("{r}", &(n % width).to_string());
        op.replace("{s}", &seeds.below(width).to_string()) + "\n"
    });
}

/// Functions that each call the one before twice.
pub(super) fn doubling(rng: &mut Rng, text: &mut Text) {
    let op = *rng.pick(&[
        "",
        "bar.sync 0;",
        "red.global.add.u32 [x], 1;",
        ".local .b32 l; ",
    ]);
    text.items += &format!(".global .u32 x; .func d0() {{ {op} ret; }}\n");
    let mut last = 0;
    text.fill_items(|n| {
        last = n + 1;
        format!(".func d{last}() {{ {op} call d{n}; call d{n}; ret; }}\n")
    });
    let _ = writeln!(text.body, "call d{last};");
}

/// A function that calls itself at many places, with registers that live across the calls.
pub(super) fn recursion(rng: &mut Rng, text: &mut Text) {
    let count = 1 + rng.below((text.limit / 60).clamp(1, 9_000));
    let _ = write!(
        text.items,
        ".func rec(.reg .b32 n)\n{{ .reg .b32 %q<{count}>;\n"
    );
    text.fill_items(|n| {
        let (q, other) = (n % count, (n * 7 + 1) % count);
        format!("add.u32 %q{q}, %q{other}, n; call rec, (%q{q});\n")
    });
    text.items += "ret; }\n";
    text.body += "call rec, (1);\n";
}

/// Products of matrices, which warps compute together.
pub(super) fn matrices(rng: &mut Rng, text: &mut Text) {
    let op = *rng.pick(&[
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 \
         {%r1,%r2,%r3,%r4}, {%r5,%r6,%r7,%r8}, {%r9,%r10}, {%r1,%r2,%r3,%r4};\n",
        "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%d1,%d2}, {%d3}, {%d4}, {%d1,%d2};\n",
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1,%r2,%r3,%r4}, [%r5];\n",
        "redux.sync.add.s32 %r1, %r2, -1;\n",
    ]);
    text.fill_body(|_| op.to_owned());
}
