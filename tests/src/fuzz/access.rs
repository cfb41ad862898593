//! Loads, stores and atomic operations on memory that no other thread touches, or that is never
//! written.

use super::generate::Gen;
use super::indices;
use super::tree::Node;

/// An access to memory.
pub fn random(g: &mut Gen) -> Node {
    let in_function = g.current.is_some();
    let text = match g.rng.below(13) {
        10.. if !in_function => indices::random(g),
        0..2 if !in_function => input(g),
        2 if !in_function => float_input(g),
        3..5 if !in_function => neighbours(g),
        5 => floats(g),
        6 => own_atomic(g),
        7 if !in_function => table(g),
        _ => own(g),
    };
    Node::text(text)
}

/// Register class, suffix of the instruction and size of an element; sub-word types go to wider
/// registers.
pub const INTS: [(char, &str, usize); 10] = [
    ('r', "u8", 1),
    ('r', "s8", 1),
    ('h', "u8", 1),
    ('r', "u16", 2),
    ('d', "s16", 2),
    ('h', "b16", 2),
    ('r', "b32", 4),
    ('r', "s32", 4),
    ('d', "u32", 4),
    ('d', "b64", 8),
];

/// Registers of a class: one, or a vector in braces whose parts differ.
pub fn operand(g: &mut Gen, class: char, n: usize) -> String {
    if n == 1 {
        return g.reg(class);
    }
    let mut regs: Vec<String> = Vec::new();
    while regs.len() < n {
        let reg = g.reg(class);
        if !regs.contains(&reg) {
            regs.push(reg);
        }
    }
    format!("{{{}}}", regs.join(", "))
}

/// Element count for elements of `size` bytes.
pub fn vector(g: &mut Gen, class: char, size: usize) -> (usize, &'static str) {
    let fits = |n: usize| n * size <= 16 && (class == 'r' || n <= 2);
    match g.rng.below(4) {
        0 if fits(2) => (2, ".v2"),
        1 if fits(4) => (4, ".v4"),
        _ => (1, ""),
    }
}

/// An offset below `limit` in a register of 32 bits, a multiple of `align`.
fn offset(g: &mut Gen, limit: usize, align: usize) -> (String, String) {
    let (t, r) = (g.temp("b32"), g.reg('r'));
    let text = match g.rng.below(3) {
        0 => format!("    mov.u32 {t}, {};\n", g.rng.below(limit / align) * align),
        _ => {
            let (shift, mask) = (align.trailing_zeros(), limit / align - 1);
            format!("    and.b32 {t}, {r}, {mask};\n    shl.b32 {t}, {t}, {shift};\n")
        }
    };
    (text, t)
}

/// An access to the thread's own bytes, in one of the spaces.
fn own(g: &mut Gen) -> String {
    let (class, ty, size) = *g.rng.pick(&INTS);
    let (n, vec) = vector(g, class, size);
    let spaces: &[(&str, &str, usize)] = if g.current.is_some() {
        &[
            (".global", "%own", 128),
            ("", "%own", 128),
            (".local", "%loc", 64),
        ]
    } else {
        &[
            (".global", "%own", 128),
            ("", "%own", 128),
            (".local", "%loc", 64),
            ("", "%gloc", 64),
            (".shared", "%sown", 64),
            ("", "%gsown", 64),
        ]
    };
    let &(space, base, limit) = g.rng.pick(spaces);
    let (mut text, t) = offset(g, limit, n * size);
    let address = address(g, &mut text, base, &t);
    let guard = g.guard();
    let regs = operand(g, class, n);
    let volatile = if g.rng.chance(10) && space != ".local" {
        ".volatile"
    } else {
        ""
    };
    text += &if g.rng.chance(50) {
        format!("    {guard}ld{volatile}{space}{vec}.{ty} {regs}, [{address}];\n")
    } else {
        let ty = ty.replace('s', "u");
        format!("    {guard}st{volatile}{space}{vec}.{ty} [{address}], {regs};\n")
    };
    text
}

/// Adds a 32-bit offset to a base; shared addresses of 32 bits stay so.
fn address(g: &mut Gen, text: &mut String, base: &str, offset: &str) -> String {
    if base == "%sown" {
        let t = g.temp("b32");
        *text += &format!("    add.u32 {t}, {offset}, {base};\n");
        return t;
    }
    let t = g.temp("b64");
    *text += &format!("    cvt.u64.u32 {t}, {offset};\n    add.u64 {t}, {base}, {t};\n");
    t
}

/// A load from what nobody writes: at random, next to the neighbours' loads, or the same for all.
fn input(g: &mut Gen) -> String {
    let (class, ty, size) = *g.rng.pick(&INTS);
    let (n, vec) = vector(g, class, size);
    let (t, a) = (g.temp("b32"), g.temp("b64"));
    let unit = n * size;
    let mask = 4096 / unit - 1;
    let (r, k, u) = (g.reg('r'), g.rng.below(64), g.rng.below(4));
    let index = match g.rng.below(6) {
        0 => format!("add.u32 {t}, {r}, {k}"),
        1 => format!("add.u32 {t}, %gt, {k}"),
        2 => format!("sub.u32 {t}, {}, %gt", 200 + k),
        3 => format!("mad.lo.u32 {t}, %ct, 2, {k}"),
        4 => format!("add.u32 {t}, %u{u}, {k}"),
        _ => format!("add.u32 {t}, %ct, %u{u}"),
    };
    let nc = if g.rng.chance(25) { ".nc" } else { "" };
    let (guard, regs) = (g.guard(), operand(g, class, n));
    format!(
        "    {index};\n    and.b32 {t}, {t}, {mask};\n    mad.wide.u32 {a}, {t}, {unit}, %in;\n    \
         {guard}ld.global{nc}{vec}.{ty} {regs}, [{a}];\n"
    )
}

fn float_input(g: &mut Gen) -> String {
    let (t, a, r) = (g.temp("b32"), g.temp("b64"), g.reg('r'));
    let (n, vec) = if g.rng.chance(30) {
        (2, ".v2")
    } else {
        (1, "")
    };
    let (guard, regs) = (g.guard(), operand(g, 'f', n));
    let source = if g.rng.chance(50) {
        r
    } else {
        "%gt".to_owned()
    };
    format!(
        "    and.b32 {t}, {source}, {};\n    mad.wide.u32 {a}, {t}, {}, %fin;\n    {guard}ld.global{vec}.f32 {regs}, [{a}];\n",
        512 / n - 1,
        4 * n
    )
}

/// An access to the thread's own place in an array whose elements belong to the threads in turn.
fn neighbours(g: &mut Gen) -> String {
    // Class, type, bytes, places per thread, first byte per thread.
    const ARRAYS: [(char, &str, usize, usize, usize); 6] = [
        ('r', ".v4.b32", 16, 2, 0),
        ('d', ".b64", 8, 4, 32),
        ('r', ".b32", 4, 8, 64),
        ('h', ".b16", 2, 4, 96),
        ('r', ".u16", 2, 4, 96),
        ('r', ".u8", 1, 4, 104),
    ];
    let (class, ty, size, places, first) = *g.rng.pick(&ARRAYS);
    let (t, a) = (g.temp("b32"), g.temp("b64"));
    let mut text = match g.rng.below(3) {
        0 => format!("    and.b32 {t}, %u{}, {};\n", g.rng.below(4), places - 1),
        1 => format!("    and.b32 {t}, {}, {};\n", g.reg('r'), places - 1),
        _ => format!("    mov.u32 {t}, {};\n", g.rng.below(places)),
    };
    text += &format!(
        "    mad.lo.u32 {t}, {t}, %nt, %gt;\n    mad.wide.u32 {a}, {t}, {size}, %soa;\n    \
         mul.lo.u32 {t}, %nt, {first};\n    cvt.u64.u32 %b0, {t};\n    add.u64 {a}, {a}, %b0;\n"
    );
    let n = if ty.starts_with(".v4") { 4 } else { 1 };
    let (guard, regs) = (g.guard(), operand(g, class, n));
    let inst = if g.rng.chance(50) {
        format!("{guard}ld.global{ty} {regs}, [{a}]")
    } else {
        format!("{guard}st.global{ty} [{a}], {regs}")
    };
    text + &format!("    {inst};\n")
}

/// An access to the thread's own floats, which integers never see.
fn floats(g: &mut Gen) -> String {
    let (class, ty, size, base) = *g.rng.pick(&[
        ('f', "f32", 4, "%fown"),
        ('f', "f32", 4, "%fown"),
        ('g', "f64", 8, "%gown"),
    ]);
    let (n, vec) = match g.rng.below(4) {
        0 => (2, ".v2"),
        1 if class == 'f' => (4, ".v4"),
        _ => (1, ""),
    };
    if g.current.is_some() {
        return format!("    {};\n", g.fill("add{rnd}{z}.f32 $=f, $f, $F"));
    }
    let (mut text, t) = offset(g, 64, n * size);
    let address = address(g, &mut text, base, &t);
    let (guard, regs) = (g.guard(), operand(g, class, n));
    text += &if g.rng.chance(50) {
        format!("    {guard}ld.global{vec}.{ty} {regs}, [{address}];\n")
    } else {
        format!("    {guard}st.global{vec}.{ty} [{address}], {regs};\n")
    };
    text
}

/// An atomic operation on a place of the thread's own, whose result shows.
fn own_atomic(g: &mut Gen) -> String {
    const OPS: [(&str, char, usize, usize); 20] = [
        ("add.u32", 'r', 4, 1),
        ("add.s32", 'r', 4, 1),
        ("min.s32", 'r', 4, 1),
        ("max.u32", 'r', 4, 1),
        ("inc.u32", 'r', 4, 1),
        ("dec.u32", 'r', 4, 1),
        ("and.b32", 'r', 4, 1),
        ("or.b32", 'r', 4, 1),
        ("xor.b32", 'r', 4, 1),
        ("exch.b32", 'r', 4, 1),
        ("cas.b32", 'r', 4, 2),
        ("cas.b16", 'h', 2, 2),
        ("add.u64", 'd', 8, 1),
        ("min.s64", 'd', 8, 1),
        ("max.u64", 'd', 8, 1),
        ("and.b64", 'd', 8, 1),
        ("xor.b64", 'd', 8, 1),
        ("exch.b64", 'd', 8, 1),
        ("cas.b64", 'd', 8, 2),
        ("max.s64", 'd', 8, 1),
    ];
    let (op, class, size, n) = *g.rng.pick(&OPS);
    let (space, base, limit) = match g.rng.below(4) {
        0 => (".global", "%own", 128),
        1 => ("", "%own", 128),
        2 if g.current.is_none() => (".shared", "%sown", 64),
        _ if g.current.is_none() => ("", "%gsown", 64),
        _ => (".global", "%own", 128),
    };
    let (mut text, t) = offset(g, limit, size);
    let address = address(g, &mut text, base, &t);
    let sem = *g.rng.pick(&[
        "",
        "",
        ".relaxed.gpu",
        ".acq_rel.cta",
        ".acquire.sys",
        ".release.gpu",
    ]);
    let sources: Vec<String> = (0..n).map(|_| g.reg(class)).collect();
    let (guard, d) = (g.guard(), g.reg(class));
    text += &format!(
        "    {guard}atom{sem}{space}.{op} {d}, [{address}], {};\n",
        sources.join(", ")
    );
    text
}

/// A load from constant memory or from an array in the kernel's parameters.
fn table(g: &mut Gen) -> String {
    let (t, a, r, d) = (g.temp("b32"), g.temp("b64"), g.reg('r'), g.reg('r'));
    let guard = g.guard();
    if g.rng.chance(50) {
        return format!(
            "    and.b32 {t}, {r}, 15;\n    mov.u64 {a}, ctab;\n    mad.wide.u32 {a}, {t}, 4, {a};\n    \
             {guard}ld.const.u32 {d}, [{a}];\n"
        );
    }
    format!(
        "    and.b32 {t}, {r}, 7;\n    mov.b64 {a}, p_arr;\n    mad.wide.u32 {a}, {t}, 4, {a};\n    \
         {guard}ld.param.u32 {d}, [{a}];\n"
    )
}
