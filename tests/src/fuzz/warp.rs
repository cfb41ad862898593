//! What threads do together: warp operations, barriers, exchange through memory, atomic operations
//! whose order does not show.

use super::generate::{Gen, Place};
use super::tree::Node;

/// A statement of this kind that is possible at `place`.
pub fn random(g: &mut Gen, place: &Place) -> Node {
    let kernel = g.current.is_none();
    let text = match g.rng.below(12) {
        0 | 1 if kernel => shared_counter(g),
        2 if kernel && place.loop_depth == 0 && g.rng.chance(25) => spin_lock(g),
        3..6 if place.uniform => barrier(g, place),
        _ => match place.mask.clone() {
            Some(mask) => warp_op(g, &mask),
            None => return g.compute(),
        },
    };
    Node::text(text)
}

fn warp_op(g: &mut Gen, mask: &str) -> String {
    match g.rng.below(12) {
        0 => vote(g, mask),
        1 | 2 => {
            let (r, p) = (g.reg('r'), g.reg('p'));
            format!("    vote.sync.ballot.b32 {r}, {p}, {mask};\n")
        }
        3 => matching(g, mask),
        4 | 5 => redux(g, mask),
        6 => elect(g, mask),
        7 if g.current.is_none() => warp_exchange(g, mask),
        _ => shuffle(g, mask),
    }
}

fn vote(g: &mut Gen, mask: &str) -> String {
    let mode = *g.rng.pick(&["all", "any", "uni"]);
    let not = if g.rng.chance(30) { "!" } else { "" };
    let (d, p) = (g.reg('p'), g.reg('p'));
    format!("    vote.sync.{mode}.pred {d}, {not}{p}, {mask};\n")
}

fn matching(g: &mut Gen, mask: &str) -> String {
    let (t, r, d, p) = (g.temp("b32"), g.reg('r'), g.reg('r'), g.reg('p'));
    let k = *g.rng.pick(&[0, 1, 3, 12]);
    let text = format!("    and.b32 {t}, {r}, {k};\n");
    text + &match g.rng.below(4) {
        0 => format!("    match.all.sync.b32 {d}|{p}, {t}, {mask};\n"),
        1 => format!("    match.any.sync.b64 {d}, {}, {mask};\n", g.reg('d')),
        _ => format!("    match.any.sync.b32 {d}, {t}, {mask};\n"),
    }
}

fn redux(g: &mut Gen, mask: &str) -> String {
    const OPS: [&str; 9] = [
        "add.s32", "add.u32", "min.s32", "max.s32", "min.u32", "max.u32", "and.b32", "or.b32",
        "xor.b32",
    ];
    if g.rng.chance(10) {
        let (d, a, op) = (
            g.reg('f'),
            g.reg('f'),
            *g.rng.pick(&["min", "max", "min.abs", "max.NaN"]),
        );
        return format!("    redux.sync.{op}.f32 {d}, {a}, {mask};\n");
    }
    let (op, d, a) = (*g.rng.pick(&OPS), g.reg('r'), g.reg('r'));
    format!("    redux.sync.{op} {d}, {a}, {mask};\n")
}

fn elect(g: &mut Gen, mask: &str) -> String {
    let (d, p) = (g.reg('r'), g.reg('p'));
    if g.rng.chance(30) {
        let t = g.temp("b32");
        return format!(
            "    activemask.b32 {t};\n    shr.u32 {t}, {t}, %lane;\n    and.b32 {d}, {t}, 1;\n"
        );
    }
    format!("    elect.sync {d}|{p}, {mask};\n")
}

/// A shuffle of any mode; what comes from lanes that do not take part is not used.
fn shuffle(g: &mut Gen, mask: &str) -> String {
    let mode = *g.rng.pick(&["up", "down", "bfly", "idx"]);
    let width = *g.rng.pick(&[32, 32, 32, 16, 8, 4, 2]);
    let segment = 32 - width;
    let clamp = if mode == "up" { 0 } else { 31 };
    let c = (segment << 8) | clamp;
    let (a, d, p) = (g.reg('r'), g.reg('r'), g.reg('p'));
    let mut text = String::new();
    let b = match g.rng.below(3) {
        0 => g.reg('r'),
        1 => g.rng.below(32).to_string(),
        _ => (1 << g.rng.below(5)).to_string(),
    };
    let [live, src, lo, hi, got] = std::array::from_fn(|_| g.temp("b32"));
    let (inside, alive, yes) = (g.temp("pred"), g.temp("pred"), g.temp("pred"));
    text += &format!(
        "    setp.eq.u32 {yes}, 0, 0;\n    vote.sync.ballot.b32 {live}, {yes}, {mask};\n    and.b32 {src}, {b}, 31;\n    \
         and.b32 {lo}, %lane, {segment};\n    or.b32 {hi}, {lo}, {};\n",
        clamp & !segment & 31
    );
    text += &match mode {
        "up" => {
            format!("    sub.s32 {src}, %lane, {src};\n    setp.ge.s32 {inside}, {src}, {hi};\n")
        }
        "down" => {
            format!("    add.s32 {src}, %lane, {src};\n    setp.le.s32 {inside}, {src}, {hi};\n")
        }
        "bfly" => {
            format!("    xor.b32 {src}, %lane, {src};\n    setp.le.s32 {inside}, {src}, {hi};\n")
        }
        _ => format!(
            "    and.b32 {src}, {src}, {};\n    or.b32 {src}, {src}, {lo};\n    setp.le.s32 {inside}, {src}, {hi};\n",
            !segment & 31
        ),
    };
    let with_predicate = g.rng.chance(50);
    let results = if with_predicate {
        format!("{got}|{p}")
    } else {
        got.clone()
    };
    text += &format!(
        "    selp.b32 {src}, {src}, %lane, {inside};\n    shr.u32 {src}, {live}, {src};\n    and.b32 {src}, {src}, 1;\n    \
         setp.ne.u32 {alive}, {src}, 0;\n    shfl.sync.{mode}.b32 {results}, {a}, {b}, {c}, {mask};\n    \
         selp.b32 {d}, {got}, {src}, {alive};\n"
    );
    text
}

/// Lanes of a mask exchange values through shared memory, with `bar.warp.sync` before and after.
fn warp_exchange(g: &mut Gen, mask: &str) -> String {
    let [live, src, addr, base] = std::array::from_fn(|_| g.temp("b32"));
    let (yes, alive, r, d) = (g.temp("pred"), g.temp("pred"), g.reg('r'), g.reg('r'));
    let k = 1 + g.rng.below(31);
    format!(
        "    setp.eq.u32 {yes}, 0, 0;\n    vote.sync.ballot.b32 {live}, {yes}, {mask};\n    \
         mad.lo.u32 {addr}, %ct, 16, %sex;\n    mul.lo.u32 {base}, %lane, 16;\n    sub.u32 {base}, {addr}, {base};\n    \
         bar.warp.sync {mask};\n    st.shared.b32 [{addr}], {r};\n    bar.warp.sync {mask};\n    \
         add.u32 {src}, %lane, {k};\n    and.b32 {src}, {src}, 31;\n    mad.lo.u32 {addr}, {src}, 16, {base};\n    \
         shr.u32 {src}, {live}, {src};\n    and.b32 {src}, {src}, 1;\n    setp.ne.u32 {alive}, {src}, 0;\n    \
         @{alive} ld.shared.b32 {d}, [{addr}];\n    bar.warp.sync {mask};\n"
    )
}

/// Operations on counters of the whole grid, the same kind of operation on each counter.
fn shared_counter(g: &mut Gen) -> String {
    const OPS: [(&str, char); 10] = [
        ("add.u32", 'r'),
        ("add.u64", 'd'),
        ("min.s32", 'r'),
        ("max.u32", 'r'),
        ("and.b32", 'r'),
        ("or.b32", 'r'),
        ("xor.b32", 'r'),
        ("min.u64", 'd'),
        ("max.s64", 'd'),
        ("xor.b64", 'd'),
    ];
    let (t, a, r) = (g.temp("b32"), g.temp("b64"), g.reg('r'));
    let slot = |idx: usize| {
        format!(
            "    and.b32 {t}, {r}, 3;\n    mad.wide.u32 {a}, {t}, 8, %acc;\n    add.u64 {a}, {a}, {};\n",
            32 * idx
        )
    };
    let guard = g.guard();
    match g.rng.below(14) {
        0 => slot(10) + &format!("    {guard}atom.global.inc.u32 {t}, [{a}], 1000;\n"),
        1 => {
            let (f, k) = (g.temp("f32"), g.rng.below(32));
            slot(11)
                + &format!(
                    "    and.b32 {t}, {r}, {k};\n    cvt.rn.f32.u32 {f}, {t};\n    {guard}red.global.add.f32 [{a}], {f};\n"
                )
        }
        2 => {
            let ([old, new, seen], p, id) = (
                std::array::from_fn(|_| g.temp("b32")),
                g.temp("pred"),
                g.id(),
            );
            slot(12)
                + &format!(
                    "    ld.relaxed.gpu.global.u32 {old}, [{a}];\nCAS_{id}:\n    add.u32 {new}, {old}, {r};\n    \
                     atom.global.cas.b32 {seen}, [{a}], {old}, {new};\n    setp.ne.u32 {p}, {seen}, {old};\n    \
                     mov.b32 {old}, {seen};\n    @{p} bra CAS_{id};\n"
                )
        }
        _ => {
            let idx = g.rng.below(OPS.len());
            let (op, class) = OPS[idx];
            let (source, unused) = (
                g.reg(class),
                g.temp(if class == 'r' { "b32" } else { "b64" }),
            );
            let space = if g.rng.chance(70) { ".global" } else { "" };
            let inst = if g.rng.chance(50) {
                format!("red{space}.{op} [{a}], {source}")
            } else {
                format!("atom{space}.{op} {unused}, [{a}], {source}")
            };
            slot(idx) + &format!("    {guard}{inst};\n")
        }
    }
}

/// Adds to a counter under a lock that every lane takes for itself.
fn spin_lock(g: &mut Gen) -> String {
    let (id, p, r) = (g.id(), g.temp("pred"), g.reg('r'));
    let (t, v) = (g.temp("b32"), g.temp("b32"));
    format!(
        "LOCK_{id}:\n    atom.acquire.gpu.global.cas.b32 {t}, [%acc+416], 0, 1;\n    setp.ne.u32 {p}, {t}, 0;\n    \
         @{p} bra LOCK_{id};\n    ld.relaxed.gpu.global.u32 {v}, [%acc+424];\n    add.u32 {v}, {v}, {r};\n    \
         st.relaxed.gpu.global.u32 [%acc+424], {v};\n    fence.acq_rel.gpu;\n    atom.release.gpu.global.exch.b32 {t}, [%acc+416], 0;\n"
    )
}

/// What all threads of a CTA do together.
fn barrier(g: &mut Gen, place: &Place) -> String {
    let kernel = g.current.is_none();
    let (r, p, q) = (g.reg('r'), g.reg('p'), g.reg('p'));
    match g.rng.below(8) {
        0 => "    bar.sync 0;\n".to_owned(),
        1 => format!("    barrier.sync {};\n", g.rng.below(16)),
        2 => format!("    barrier.red.popc.u32 {r}, {}, {p};\n", g.rng.below(4)),
        3 => {
            let (op, not) = (*g.rng.pick(&["and", "or"]), *g.rng.pick(&["", "!"]));
            format!("    bar.red.{op}.pred {q}, 1, {not}{p};\n")
        }
        4 if kernel && place.loop_depth == 0 && place.depth == 0 && !g.exits => flags(g),
        5 if kernel => reduction(g),
        _ if kernel => exchange(g),
        _ => "    barrier.sync 5;\n".to_owned(),
    }
}

/// Threads read what others wrote before a barrier.
fn exchange(g: &mut Gen) -> String {
    let (r, d, k, m) = (
        g.reg('r'),
        g.reg('r'),
        g.rng.below(64),
        1 + 2 * g.rng.below(4),
    );
    let (w, s) = (g.temp("b32"), g.temp("b32"));
    let (vec, from, to) = match g.rng.below(3) {
        0 => (".v2", format!("{{{r}, {d}}}"), "{%r1, %r2}".to_owned()),
        _ => ("", r, d),
    };
    format!(
        "    bar.sync 0;\n    mad.lo.u32 {w}, %ct, 16, %sex;\n    st.shared{vec}.b32 [{w}], {from};\n    bar.sync 0;\n    \
         mad.lo.u32 {s}, %ct, {m}, {k};\n    rem.u32 {s}, {s}, %cn;\n    mad.lo.u32 {s}, {s}, 16, %sex;\n    \
         ld.shared{vec}.b32 {to}, [{s}];\n    bar.sync 0;\n"
    )
}

/// Atomic operations on shared memory between barriers.
fn reduction(g: &mut Gen) -> String {
    let op = *g
        .rng
        .pick(&["add.u32", "xor.b32", "max.s32", "min.u32", "or.b32"]);
    let (r, d, t, p) = (g.reg('r'), g.reg('r'), g.temp("b32"), g.temp("pred"));
    let guard = g.guard();
    format!(
        "    bar.sync 2;\n    setp.eq.u32 {p}, %ct, 0;\n    mad.lo.u32 {t}, %ct, 16, %sex;\n    st.shared.b32 [{t}+4], 7;\n    \
         bar.sync 2;\n    and.b32 {t}, {r}, 1;\n    rem.u32 {t}, {t}, %cn;\n    mad.lo.u32 {t}, {t}, 16, %sex;\n    \
         {guard}red.shared.{op} [{t}+4], {r};\n    bar.sync 2;\n    ld.shared.b32 {d}, [{t}+4];\n    bar.sync 2;\n"
    )
}

/// Each thread waits for another one to raise its flag. No barrier: threads must make progress by
/// themselves.
fn flags(g: &mut Gen) -> String {
    let (id, k, r, d) = (g.id(), 1 + g.rng.below(40), g.reg('r'), g.reg('r'));
    let [mine, other, seen, data] = std::array::from_fn(|_| g.temp("b32"));
    let p = g.temp("pred");
    format!(
        "    bar.sync 0;\n    mad.lo.u32 {mine}, %ct, 4, %sfl;\n    mad.lo.u32 {data}, %ct, 16, %sex;\n    \
         add.u32 {other}, %ct, {k};\n    rem.u32 {other}, {other}, %cn;\n    st.shared.b32 [{data}+8], {r};\n    \
         fence.acq_rel.cta;\n    st.relaxed.cta.shared.b32 [{mine}], {id};\n    mad.lo.u32 {data}, {other}, 16, %sex;\n    \
         mad.lo.u32 {other}, {other}, 4, %sfl;\nWAIT_{id}:\n    ld.relaxed.cta.shared.b32 {seen}, [{other}];\n    \
         setp.ne.u32 {p}, {seen}, {id};\n    @{p} bra WAIT_{id};\n    fence.acq_rel.cta;\n    \
         ld.shared.b32 {d}, [{data}+8];\n    bar.sync 0;\n"
    )
}
