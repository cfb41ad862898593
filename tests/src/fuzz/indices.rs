//! Global accesses whose index is computed in 32 bits and then extended to an address.
//!
//! The index starts near a number where 32 bits overflow, so that it wraps in some lanes. The byte
//! offset is compared in 64 bits with the window that may be touched: the other lanes are masked
//! off, or branch around the access.

use super::access::{INTS, operand, vector};
use super::generate::Gen;

/// Where the indices start: around the overflow of signed and unsigned numbers, and of those times
/// a few bytes.
const STARTS: [u32; 10] = [
    0,
    5,
    0x7fff_fff0,
    0x7fff_fffd,
    0x8000_0000,
    0xffff_ffe0,
    0xffff_fffb,
    0x3fff_fff8,
    0x1fff_fffc,
    0xffff_ffff,
];

/// An access, perhaps in a loop.
pub fn random(g: &mut Gen) -> String {
    match g.rng.below(5) {
        0 => store(g),
        1 => grid_stride(g),
        _ => load(g),
    }
}

/// The instructions that make bytes of an index, from a register of 32 bits to one of 64.
#[derive(Clone, Copy)]
struct Extension {
    kind: usize,
    unit: usize,
}

impl Extension {
    fn random(g: &mut Gen, unit: usize) -> Extension {
        Extension {
            kind: g.rng.below(8),
            unit,
        }
    }

    fn text(self, g: &mut Gen, index: &str, bytes: &str) -> String {
        let (unit, shift) = (self.unit, self.unit.trailing_zeros());
        let t = g.temp("b32");
        match self.kind {
            0 => format!("    mul.wide.s32 {bytes}, {index}, {unit};\n"),
            1 => format!("    mul.wide.u32 {bytes}, {index}, {unit};\n"),
            2 => format!(
                "    cvt.s64.s32 {bytes}, {index};\n    shl.b64 {bytes}, {bytes}, {shift};\n"
            ),
            3 => format!(
                "    cvt.u64.u32 {bytes}, {index};\n    mul.lo.s64 {bytes}, {bytes}, {unit};\n"
            ),
            4 => format!("    shl.b32 {t}, {index}, {shift};\n    cvt.s64.s32 {bytes}, {t};\n"),
            5 => format!("    mul.lo.u32 {t}, {index}, {unit};\n    cvt.u64.u32 {bytes}, {t};\n"),
            6 => format!(
                "    mov.b64 {bytes}, {{{index}, 0}};\n    shl.b64 {bytes}, {bytes}, {shift};\n"
            ),
            _ => format!("    mad.wide.s32 {bytes}, {index}, {unit}, 0;\n"),
        }
    }
}

/// A predicate that tells whether `offset` is below `limit` (a register or constant), without a
/// sign.
fn below(g: &mut Gen, offset: &str, limit: &str) -> (String, String) {
    let (p, q) = (g.temp("pred"), g.temp("pred"));
    let text = match g.rng.below(3) {
        0 => format!(
            "    setp.ge.s64 {q}, {offset}, 0;\n    setp.lt.and.s64 {p}, {offset}, {limit}, {q};\n"
        ),
        1 => format!("    setp.ge.u64 {q}, {offset}, {limit};\n    not.pred {p}, {q};\n"),
        _ => format!("    setp.lt.u64 {p}, {offset}, {limit};\n"),
    };
    (text, p)
}

/// An access under a predicate: guarded, or with a branch around it.
fn masked(g: &mut Gen, p: &str, access: &str) -> String {
    if g.rng.chance(60) {
        return format!("    @{p} {access};\n");
    }
    let id = g.id();
    format!("    @!{p} bra PAST_{id};\n    {access};\nPAST_{id}:\n")
}

/// A register with a number of the thread's, mostly one that is linear in the lane.
fn source(g: &mut Gen) -> String {
    match g.rng.below(6) {
        0 => "%ct".to_owned(),
        1 => "%lane".to_owned(),
        2 => g.reg('r'),
        _ => "%gt".to_owned(),
    }
}

/// A load from what nobody writes.
fn load(g: &mut Gen) -> String {
    let (class, ty, size) = *g.rng.pick(&INTS);
    let (n, vec) = vector(g, class, size);
    let unit = n * size;
    let (i, j) = (g.temp("b32"), g.temp("b32"));
    let (start, step) = (
        *g.rng.pick(&STARTS),
        *g.rng.pick(&[1i32, 1, 1, 2, 3, -1, 4]),
    );
    // The thread with this number reads the first element of the window.
    let first = g.rng.below(48) as i32;
    let from = start.wrapping_add((step * first) as u32);
    let source = source(g);
    let mut text = format!(
        "    mad.lo.s32 {i}, {source}, {step}, {};\n    mov.u32 {j}, {from};\n",
        start as i32
    );
    if g.rng.chance(50) {
        let u = g.rng.below(4);
        text += &format!("    add.s32 {i}, {i}, %u{u};\n    add.s32 {j}, {j}, %u{u};\n");
    }
    text + &window_load(g, (class, ty, vec, n), unit, &i, &j)
}

/// A load of the element with index `i`, where that with index `j` is the first of the window.
fn window_load(
    g: &mut Gen,
    (class, ty, vec, n): (char, &str, &str, usize),
    unit: usize,
    i: &str,
    j: &str,
) -> String {
    let [bytes, first, offset, address] = std::array::from_fn(|_| g.temp("b64"));
    let extension = Extension::random(g, unit);
    let mut text = extension.text(g, i, &bytes);
    text += &extension.text(g, j, &first);
    text += &format!("    sub.s64 {offset}, {bytes}, {first};\n");
    let more = unit * g.rng.below(4);
    let (compare, p) = below(g, &offset, &(4096 - unit - more + 1).to_string());
    text += &compare;
    text += &match g.rng.below(3) {
        0 => format!("    add.s64 {address}, %in, {offset};\n"),
        1 => format!(
            "    sub.s64 {first}, %in, {first};\n    add.s64 {address}, {first}, {bytes};\n"
        ),
        _ => format!(
            "    add.s64 {address}, {bytes}, %in;\n    sub.s64 {address}, {address}, {first};\n"
        ),
    };
    let nc = if g.rng.chance(25) { ".nc" } else { "" };
    let regs = operand(g, class, n);
    text + &masked(
        g,
        &p,
        &format!("ld.global{nc}{vec}.{ty} {regs}, [{address}+{more}]"),
    )
}

/// A store to the thread's own place in an array whose elements belong to the threads in turn.
fn store(g: &mut Gen) -> String {
    // Class, type, bytes, first byte per thread; see `access::neighbours`.
    const ARRAYS: [(char, &str, usize, usize); 4] = [
        ('d', "b64", 8, 32),
        ('r', "b32", 4, 64),
        ('h', "b16", 2, 96),
        ('r', "u8", 1, 104),
    ];
    let (class, ty, unit, at) = *g.rng.pick(&ARRAYS);
    let (i, j, t) = (g.temp("b32"), g.temp("b32"), g.temp("b32"));
    let [bytes, first, offset, limit, base] = std::array::from_fn(|_| g.temp("b64"));
    let start = *g.rng.pick(&STARTS) as i32;
    let extension = Extension::random(g, unit);
    let mut text = format!("    add.s32 {i}, %gt, {start};\n    mov.u32 {j}, {start};\n");
    if g.rng.chance(50) {
        text += &format!("    add.s32 {i}, {i}, %u0;\n    add.s32 {j}, {j}, %u0;\n");
    }
    text += &extension.text(g, &i, &bytes);
    text += &extension.text(g, &j, &first);
    text += &format!(
        "    sub.s64 {offset}, {bytes}, {first};\n    mul.wide.u32 {limit}, %nt, {unit};\n    mul.lo.u32 {t}, %nt, {at};\n    \
         cvt.u64.u32 {base}, {t};\n    add.s64 {base}, {base}, %soa;\n    add.s64 {base}, {base}, {offset};\n"
    );
    let (compare, p) = below(g, &offset, &limit);
    let reg = g.reg(class);
    text + &compare + &masked(g, &p, &format!("st.global.{ty} [{base}], {reg}"))
}

/// A loop whose index goes on by the number of threads, or by a constant, until it reaches a limit.
fn grid_stride(g: &mut Gen) -> String {
    let (class, ty, size) = *g.rng.pick(&INTS);
    let (n, vec) = vector(g, class, size);
    let (id, turns) = (g.id(), 1 + g.rng.below(5));
    let (i, j, count) = (g.temp("b32"), g.temp("b32"), g.temp("b32"));
    let (more, again) = (g.temp("pred"), g.temp("pred"));
    let start = *g.rng.pick(&STARTS);
    let limit = start.wrapping_add(g.rng.below(400) as u32) as i32;
    let source = if g.rng.chance(70) { "%gt" } else { "%lane" };
    let step = if g.rng.chance(60) {
        "%nt".to_owned()
    } else {
        g.rng.pick(&[1, 32, 64, -1]).to_string()
    };
    let (cmp, start) = (*g.rng.pick(&["lt.s32", "lt.u32", "ne.s32"]), start as i32);
    let body = window_load(g, (class, ty, vec, n), n * size, &i, &j);
    let (r, other) = (g.reg('r'), g.reg('r'));
    format!(
        "    add.s32 {i}, {source}, {start};\n    mov.u32 {j}, {start};\n    mov.u32 {count}, 0;\nSTRIDE_{id}:\n{body}    \
         xor.b32 {r}, {r}, {other};\n    add.s32 {i}, {i}, {step};\n    add.u32 {count}, {count}, 1;\n    \
         setp.lt.u32 {more}, {count}, {turns};\n    setp.{cmp} {again}, {i}, {limit};\n    and.pred {more}, {more}, {again};\n    \
         @{more} bra STRIDE_{id};\n"
    )
}
