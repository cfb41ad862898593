//! Device functions and calls of them: direct, through a table, and recursive.
//!
//! All functions have one signature: the lanes that call together, how often to call itself, the
//! thread's own memory, and numbers.

use std::fmt::Write;

use super::generate::{Gen, Kind, Place};
use super::tree::Node;

const SIGNATURE: &str = "(.param .b32 pm, .param .b32 pn, .param .b64 po, .param .b32 pa, .param .b64 pb, .param .b32 pc)";

/// Declarations of the functions and the table of their addresses.
pub fn declarations(functions: &[Kind]) -> String {
    let mut text = String::new();
    for idx in 0..functions.len() {
        let _ = writeln!(
            text,
            ".func (.param .align 8 .b8 pr[16]) f{idx}{SIGNATURE};"
        );
    }
    if !functions.is_empty() {
        let names: Vec<String> = (0..functions.len()).map(|idx| format!("f{idx}")).collect();
        let _ = writeln!(
            text,
            ".global .align 8 .u64 ftab[{}] = {{{}}};",
            names.len(),
            names.join(", ")
        );
    }
    text
}

/// The function with this number; it calls itself and functions with higher numbers.
pub fn function(g: &mut Gen, idx: usize) -> Node {
    let kind = g.functions[idx];
    g.current = Some(idx);
    let budget = 3 + g.rng.below(6);
    g.start(budget);
    let place = Place {
        mask: (kind != Kind::Pure).then(|| "%fm".to_owned()),
        uniform: kind == Kind::Cta,
        depth: 1,
        loop_depth: 0,
        targets: Vec::new(),
    };
    let mut body = g.body(&place);
    if g.rng.chance(50) {
        body.push(recursion(g, kind));
        body.extend(g.body(&place));
    }
    let head = format!(
        "\n.func (.param .align 8 .b8 pr[16]) f{idx}{SIGNATURE}\n{{\n{}{HEAD}",
        g.registers()
    );
    g.current = None;
    Node::text(head).body(body).with(TAIL)
}

const HEAD: &str = "    .reg .b32 %fm, %fn, %lane;
    .reg .b64 %own, %loc;
    .local .align 16 .b8 larr[64];
    ld.param.b32 %fm, [pm];
    ld.param.b32 %fn, [pn];
    ld.param.b64 %own, [po];
    ld.param.b32 %r0, [pa];
    ld.param.b64 %d0, [pb];
    ld.param.b32 %f0, [pc];
    mov.u32 %lane, %laneid;
    mov.u64 %loc, larr;
    mad.lo.u32 %r1, %r0, 5, %fn;
    cvt.u32.u64 %r2, %d0;
    mov.b32 %r3, %fn;
    and.b32 %r4, %r0, 63;
    xor.b32 %r5, %r0, %r2;
    mov.b32 %r6, 9;
    not.b32 %r7, %r1;
    st.local.v4.b32 [%loc], {%r0, %r1, %r2, %r3};
    st.local.v4.b32 [%loc+16], {%r4, %r5, %r6, %r7};
    st.local.v4.b32 [%loc+32], {%r1, %r0, %r1, %r2};
    st.local.v4.b32 [%loc+48], {%r6, %r7, %r5, %r3};
    mul.wide.s32 %d1, %r0, %r5;
    add.s64 %d2, %d0, 3;
    mov.b64 %d3, {%r4, %r6};
    cvt.u16.u32 %h0, %r0;
    cvt.u16.u32 %h1, %r5;
    mov.b16 %h2, 1;
    cvt.u16.u32 %h3, %r7;
    setp.lt.s32 %p0, %r0, 0;
    setp.lt.u32 %p1, %r4, 9;
    setp.gt.s32 %p2, %r2, %r5;
    setp.eq.u32 %p3, %r3, 1;
    mul.f32 %f1, %f0, 0f3F000000;
    cvt.rn.f32.s32 %f2, %r0;
    mov.b32 %f3, %r5;
    mov.f32 %f4, 0f40000000;
    cvt.rn.f32.u32 %f5, %r4;
    cvt.f64.f32 %g0, %f0;
    cvt.rn.f64.s32 %g1, %r2;
    mov.f64 %g2, 0d4008000000000000;
    cvt.rn.f16.f32 %q0, %f1;
    cvt.rn.f16.u32 %q1, %r4;
    mov.b16 %q2, 0x4200;
    mov.b32 %v0, {%q0, %q1};
    mov.b32 %v1, {%q2, %q1};
";

const TAIL: &str = "    xor.b32 %r0, %r0, %r3;
    add.u32 %r0, %r0, %r6;
    xor.b64 %d0, %d0, %d2;
    st.param.b32 [pr], %r0;
    st.param.b64 [pr+8], %d0;
    ret;
}
";

fn recursion(g: &mut Gen, kind: Kind) -> Node {
    let (id, p, n, idx) = (
        g.id(),
        g.temp("pred"),
        g.temp("b32"),
        g.current.unwrap_or(0),
    );
    let mut text = format!("    setp.gt.s32 {p}, %fn, 0;\n    sub.s32 {n}, %fn, 1;\n");
    let mask = match kind {
        Kind::Pure => "0".to_owned(),
        Kind::Cta => "%fm".to_owned(),
        Kind::Warp => {
            let mask = g.temp("b32");
            text += &format!("    vote.sync.ballot.b32 {mask}, {p}, %fm;\n");
            mask
        }
    };
    text += &format!("    @!{p} bra END_{id};\n");
    text += &call_text(g, &Callee::Function(idx), &mask, &n);
    Node::text(text + &format!("END_{id}:\n"))
}

enum Callee {
    Function(usize),
    /// The register with the address.
    Address(String),
}

/// A call that is possible at `place`.
pub fn call(g: &mut Gen, place: &Place) -> Option<Node> {
    let first = g.current.map_or(0, |idx| idx + 1);
    if place.loop_depth > usize::from(g.current.is_none()) {
        return None;
    }
    let fits = |kind: Kind| match kind {
        Kind::Pure => true,
        Kind::Warp => place.mask.is_some(),
        Kind::Cta => place.uniform,
    };
    let all: Vec<usize> = (first..g.functions.len())
        .filter(|&idx| fits(g.functions[idx]))
        .collect();
    if all.is_empty() {
        return None;
    }
    let idx = *g.rng.pick(&all);
    let kind = g.functions[idx];
    let (mut text, n) = if kind == Kind::Cta || g.rng.chance(50) {
        (String::new(), g.rng.below(3).to_string())
    } else {
        let (t, r) = (g.temp("b32"), g.reg('r'));
        (format!("    and.b32 {t}, {r}, 3;\n"), t)
    };
    let mask = place.mask.clone().unwrap_or_else(|| "0".to_owned());
    let divergent: Vec<usize> = all
        .into_iter()
        .filter(|&idx| g.functions[idx] != Kind::Cta)
        .collect();
    if g.rng.chance(60) || divergent.is_empty() {
        text += &call_text(g, &Callee::Function(idx), &mask, &n);
        return Some(Node::text(text));
    }
    let (a, b) = (*g.rng.pick(&divergent), *g.rng.pick(&divergent));
    let (p, t, address, r) = (g.temp("pred"), g.temp("b32"), g.temp("b64"), g.reg('r'));
    text += &format!(
        "    and.b32 {t}, {r}, 1;\n    setp.eq.u32 {p}, {t}, 0;\n    selp.b32 {t}, {a}, {b}, {p};\n    \
         mov.u64 {address}, ftab;\n    mad.wide.u32 {address}, {t}, 8, {address};\n    ld.global.u64 {address}, [{address}];\n"
    );
    let mask = match &place.mask {
        None => mask,
        Some(outer) => {
            let same = g.temp("b32");
            text += &format!("    match.any.sync.b32 {same}, {t}, {outer};\n");
            same
        }
    };
    text += &call_text(g, &Callee::Address(address), &mask, &n);
    Some(Node::text(text))
}

fn call_text(g: &mut Gen, callee: &Callee, mask: &str, n: &str) -> String {
    let id = g.id();
    let (a, b, c, r, d) = (g.reg('r'), g.reg('d'), g.reg('f'), g.reg('r'), g.reg('d'));
    let own = "%own";
    let args = format!("(c_m{id}, c_n{id}, c_o{id}, c_a{id}, c_b{id}, c_c{id})");
    let (label, call) = match callee {
        Callee::Function(idx) => (String::new(), format!("call (c_r{id}), f{idx}, {args}")),
        Callee::Address(address) => (
            format!(
                "PROTO_{id}: .callprototype (.param .align 8 .b8 _[16]) _ (.param .b32 _, .param .b32 _, .param .b64 _, \
                 .param .b32 _, .param .b64 _, .param .b32 _);\n"
            ),
            format!("call (c_r{id}), {address}, {args}, PROTO_{id}"),
        ),
    };
    format!(
        "{label}    {{\n    .param .align 8 .b8 c_r{id}[16];\n    .param .b32 c_m{id}, c_n{id}, c_a{id}, c_c{id};\n    \
         .param .b64 c_o{id}, c_b{id};\n    st.param.b32 [c_m{id}], {mask};\n    st.param.b32 [c_n{id}], {n};\n    \
         st.param.b64 [c_o{id}], {own};\n    st.param.b32 [c_a{id}], {a};\n    st.param.b64 [c_b{id}], {b};\n    \
         st.param.b32 [c_c{id}], {c};\n    {call};\n    ld.param.b32 {r}, [c_r{id}];\n    ld.param.b64 {d}, [c_r{id}+8];\n    }}\n"
    )
}
