//! Random kernels: the state of a generator, the choice of statements, and the text around them.

use std::fmt::Write;

use super::ops::{self, Ftz};
use super::rng::Rng;
use super::tree::{self, Node};
use super::{access, calls, control, warp};

/// Pools, with the type that their registers are declared with.
const POOLS: [(char, &str); 8] = [
    ('r', "b32"),
    ('d', "b64"),
    ('h', "b16"),
    ('p', "pred"),
    ('f', "f32"),
    ('g', "f64"),
    ('q', "b16"),
    ('v', "b32"),
];

/// A random program. Its text changes when nodes are left out of its trees.
#[derive(Clone, Debug)]
pub struct Program {
    /// The device functions and the kernel.
    pub functions: Vec<Node>,
}

impl Program {
    /// The PTX.
    pub fn text(&self) -> String {
        format!("{HEADER}{}", tree::text(&self.functions))
    }
}

const HEADER: &str = ".version 8.6
.target sm_100a
.address_size 64

.const .align 8 .b32 ctab[16] = {3, -1, 7, 0x80000000, 31, 100, 0, 1, 2, 0xffff, 65536, 12345, -7, 8, 0x7fffffff, 5};
";

/// Where a statement stands: what it may assume about who executes it together.
#[derive(Clone, Debug)]
pub struct Place {
    /// A register or constant that holds the lanes of the warp that are here together, if the
    /// program knows them.
    pub mask: Option<String>,
    /// All threads of the CTA that have not ended come here equally often.
    pub uniform: bool,
    /// Nesting of statements.
    pub depth: usize,
    /// Nesting of loops.
    pub loop_depth: usize,
    /// Labels that lanes may leave to at any time: ends and next turns of enclosing loops whose
    /// lanes are not counted.
    pub targets: Vec<String>,
}

impl Place {
    /// The place inside a statement that not all lanes enter, with the lanes that do.
    pub fn divergent(&self, mask: Option<String>) -> Place {
        Place {
            mask,
            uniform: false,
            depth: self.depth + 1,
            ..self.clone()
        }
    }

    /// The place inside a statement that all enter.
    pub fn nested(&self) -> Place {
        Place {
            depth: self.depth + 1,
            ..self.clone()
        }
    }
}

/// What a device function may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing that concerns other threads.
    Pure,
    /// Warp operations, by the lanes of a mask that is its first parameter.
    Warp,
    /// Barriers too: all threads of a CTA call it together.
    Cta,
}

/// The generator's state: one function at a time.
#[derive(Debug)]
pub struct Gen {
    /// Where choices come from.
    pub rng: Rng,
    /// What f32 instructions do.
    pub ftz: Ftz,
    /// Whether lanes end early.
    pub exits: bool,
    /// Whether functions are called.
    pub functions: Vec<Kind>,
    /// The function that is being made; none for the kernel.
    pub current: Option<usize>,
    /// Statements that may still be made.
    pub budget: usize,
    /// Most statements in a body.
    breadth: usize,
    ids: usize,
    /// Temporary registers of this function by type, so far.
    temps: Vec<(&'static str, usize)>,
}

/// A program for this seed.
pub fn program(seed: u64) -> Program {
    let mut rng = Rng::new(seed);
    let ftz = *rng.pick(&[Ftz::None, Ftz::Mixed, Ftz::All]);
    let exits = rng.chance(35);
    let n_functions = if rng.chance(40) { 1 + rng.below(4) } else { 0 };
    let functions = (0..n_functions)
        .map(|_| *rng.pick(&[Kind::Pure, Kind::Pure, Kind::Warp, Kind::Cta]))
        .collect();
    let breadth = 2 + rng.below(6);
    let mut generator = Gen {
        exits,
        functions,
        breadth,
        ..Gen::new(rng, ftz)
    };
    let mut nodes = vec![Node::text(calls::declarations(&generator.functions))];
    for idx in (0..n_functions).rev() {
        nodes.push(calls::function(&mut generator, idx));
    }
    nodes.push(kernel(&mut generator));
    Program { functions: nodes }
}

impl Gen {
    /// Makes programs without device functions, whose lanes do not end early.
    pub fn new(rng: Rng, ftz: Ftz) -> Gen {
        Gen {
            rng,
            ftz,
            exits: false,
            functions: Vec::new(),
            current: None,
            budget: 0,
            breadth: 2,
            ids: 0,
            temps: Vec::new(),
        }
    }

    /// A number that no label or register has yet.
    pub fn id(&mut self) -> usize {
        self.ids += 1;
        self.ids
    }

    /// A register of its own, of type `ty`: `b32`, `b64`, `b16` or `pred`.
    pub fn temp(&mut self, ty: &'static str) -> String {
        let id = self.id();
        self.temps.push((ty, id));
        temp_name(ty, id)
    }

    /// A random register of a pool.
    pub fn reg(&mut self, class: char) -> String {
        ops::register(&mut self.rng, class)
    }

    /// Fills a template of `ops`.
    pub fn fill(&mut self, template: &str) -> String {
        ops::fill(&mut self.rng, template, self.ftz)
    }

    /// Starts a function: what `finish` declares comes from here on.
    pub fn start(&mut self, budget: usize) {
        self.temps.clear();
        self.budget = budget;
    }

    /// The declarations of all registers of the function.
    pub fn registers(&self) -> String {
        let mut text = String::new();
        for (class, ty) in POOLS {
            let _ = writeln!(text, "    .reg .{ty} %{class}<{}>;", ops::pool_size(class));
        }
        for &(ty, id) in &self.temps {
            let _ = writeln!(text, "    .reg .{ty} {};", temp_name(ty, id));
        }
        text
    }

    /// Some statements.
    pub fn body(&mut self, place: &Place) -> Vec<Node> {
        let n = 1 + self.rng.below(self.breadth);
        (0..n).map_while(|_| self.statement(place)).collect()
    }

    fn statement(&mut self, place: &Place) -> Option<Node> {
        self.budget = self.budget.checked_sub(1)?;
        if place.depth < 4 && self.rng.chance(28) {
            return Some(control::random(self, place));
        }
        Some(match self.rng.below(100) {
            0..50 => self.compute(),
            50..72 => access::random(self),
            72..90 => warp::random(self, place),
            90..95 => calls::call(self, place).unwrap_or_else(|| self.compute()),
            _ => control::leave(self, place).unwrap_or_else(|| self.compute()),
        })
    }

    /// An instruction that only computes, perhaps under a predicate.
    pub fn compute(&mut self) -> Node {
        if self.current.is_none() && self.rng.chance(8) {
            return Node::text(self.uniform_compute());
        }
        if self.rng.chance(5) {
            return Node::text(self.float_bits());
        }
        let inst = ops::random(&mut self.rng, self.ftz);
        let guard = self.guard();
        Node::text(format!("    {guard}{inst};\n"))
    }

    /// A predicate in front of an instruction, or nothing.
    pub fn guard(&mut self) -> String {
        if !self.rng.chance(20) {
            return String::new();
        }
        let not = if self.rng.chance(50) { "!" } else { "" };
        format!("@{not}{} ", self.reg('p'))
    }

    /// An operation with what is the same in all threads.
    fn uniform_compute(&mut self) -> String {
        let (r, s, u) = (self.reg('r'), self.reg('r'), self.rng.below(4));
        let op = *self.rng.pick(&[
            "add.s32", "add.s32", "div.u32", "rem.u32", "div.s32", "rem.s32",
        ]);
        format!("    {op} {r}, {s}, %u{u};\n")
    }

    /// The bits of a float that is no NaN, as an integer.
    fn float_bits(&mut self) -> String {
        let (f, r, t) = (self.reg('f'), self.reg('r'), self.temp("f32"));
        let p = self.temp("pred");
        format!(
            "    setp.num.f32 {p}, {f}, {f};\n    selp.f32 {t}, {f}, 0f3F800000, {p};\n    mov.b32 {r}, {t};\n"
        )
    }
}

fn temp_name(ty: &str, id: usize) -> String {
    format!("%t_{ty}_{id}")
}

fn kernel(generator: &mut Gen) -> Node {
    // Mostly small: large programs take long to compile for wide gangs.
    let most = 4 + generator.rng.below(40);
    let budget = 4 + generator.rng.below(most);
    generator.start(budget);
    generator.current = None;
    let place = Place {
        mask: Some("0xffffffff".to_owned()),
        uniform: true,
        depth: 0,
        loop_depth: 0,
        targets: Vec::new(),
    };
    let mut body = Vec::new();
    while generator.budget > 0 {
        body.extend(generator.body(&place));
    }
    kernel_of(generator, "", "", body)
}

/// A kernel of some statements: `directives` stand behind its parameters, `start` comes when each
/// register has a value.
pub fn kernel_of(generator: &Gen, directives: &str, start: &str, body: Vec<Node>) -> Node {
    let head = format!(
        "\n.visible .entry k({PARAMS}){directives}\n{{\n{}{KERNEL_HEAD}{start}",
        generator.registers()
    );
    Node::text(head).body(body).with(epilogue())
}

/// Stores of all pools, each value next to those of the neighbouring threads.
fn epilogue() -> String {
    let mut text = String::from("DONE:\n");
    let mut store = |base: &str, unit: usize, ty: &str, reg: String, offset: usize| {
        let _ = write!(
            text,
            "    mad.lo.u32 %a0, %nt, {offset}, 0;\n    mad.lo.u32 %a0, %gt, {unit}, %a0;\n    cvt.u64.u32 %b0, %a0;\n    \
             add.u64 %b0, %b0, {base};\n    st.global.{ty} [%b0], {reg};\n"
        );
    };
    for idx in 0..4 {
        store("%outi", 8, "b64", format!("%d{idx}"), 8 * idx);
    }
    for idx in 0..8 {
        store("%outi", 4, "b32", format!("%r{idx}"), 32 + 4 * idx);
    }
    for idx in 0..4 {
        store("%outi", 2, "b16", format!("%h{idx}"), 64 + 2 * idx);
    }
    for idx in 0..6 {
        store("%outf", 4, "f32", format!("%f{idx}"), 4 * idx);
    }
    for idx in 0..3 {
        store("%outg", 8, "f64", format!("%g{idx}"), 8 * idx);
    }
    for idx in 0..2 {
        store("%outq", 4, "b32", format!("%v{idx}"), 4 * idx);
    }
    for idx in 0..3 {
        store("%outq", 2, "b16", format!("%q{idx}"), 8 + 2 * idx);
    }
    for idx in 0..4 {
        let _ = write!(
            text,
            "    selp.u32 %a1, 1, 0, %p{idx};\n    mad.lo.u32 %a0, %nt, {}, %gt;\n    cvt.u64.u32 %b0, %a0;\n    \
             add.u64 %b0, %b0, %outi;\n    st.global.u8 [%b0], %a1;\n",
            72 + idx
        );
    }
    text + "    ret;\n}\n"
}

const PARAMS: &str = "
    .param .u64 p_in, .param .u64 p_fin, .param .u64 p_own, .param .u64 p_fown, .param .u64 p_gown, .param .u64 p_soa,
    .param .u64 p_outi, .param .u64 p_outf, .param .u64 p_outg, .param .u64 p_outq, .param .u64 p_acc,
    .param .u32 p_n, .param .f32 p_x, .param .align 8 .b8 p_arr[32]";

/// What a kernel begins with: numbers of threads, addresses, and something in every register of the
/// pools.
///
/// `%gt` is the thread's number in the grid and `%nt` the number of all threads; `%ct` and `%cn`
/// are the same for the CTA.
const KERNEL_HEAD: &str = "    .reg .b32 %a<8>;
    .reg .b64 %b<6>;
    .reg .b32 %u<4>;
    .reg .b32 %gt, %nt, %ct, %cn, %lane, %sown, %sex, %sfl;
    .reg .b64 %in, %fin, %own, %fown, %gown, %soa, %outi, %outf, %outg, %outq, %acc, %loc, %gloc, %gsown;
    .local .align 16 .b8 larr[64];
    .shared .align 16 .b8 sharr[16384];
    .shared .align 16 .b8 exch[4096];
    .shared .align 8 .b32 flags[1024];
    mov.u32 %a0, %tid.x;
    mov.u32 %a1, %tid.y;
    mov.u32 %a2, %tid.z;
    mov.u32 %a3, %ntid.x;
    mov.u32 %a4, %ntid.y;
    mov.u32 %a5, %ntid.z;
    mad.lo.u32 %ct, %a2, %a4, %a1;
    mad.lo.u32 %ct, %ct, %a3, %a0;
    mul.lo.u32 %cn, %a3, %a4;
    mul.lo.u32 %cn, %cn, %a5;
    mov.u32 %a0, %ctaid.x;
    mov.u32 %a1, %ctaid.y;
    mov.u32 %a2, %nctaid.x;
    mov.u32 %a3, %nctaid.y;
    mad.lo.u32 %a0, %a1, %a2, %a0;
    mad.lo.u32 %gt, %a0, %cn, %ct;
    mul.lo.u32 %nt, %a2, %a3;
    mul.lo.u32 %nt, %nt, %cn;
    mov.u32 %lane, %laneid;
    ld.param.u32 %u0, [p_n];
    mov.u32 %u1, %a0;
    and.b32 %u2, %u0, 7;
    xor.b32 %u3, %a0, 3;
    ld.param.u64 %in, [p_in];
    ld.param.u64 %fin, [p_fin];
    ld.param.u64 %own, [p_own];
    mul.wide.u32 %b0, %gt, 128;
    add.u64 %own, %own, %b0;
    ld.param.u64 %fown, [p_fown];
    mul.wide.u32 %b0, %gt, 64;
    add.u64 %fown, %fown, %b0;
    ld.param.u64 %gown, [p_gown];
    add.u64 %gown, %gown, %b0;
    ld.param.u64 %soa, [p_soa];
    ld.param.u64 %outi, [p_outi];
    ld.param.u64 %outf, [p_outf];
    ld.param.u64 %outg, [p_outg];
    ld.param.u64 %outq, [p_outq];
    ld.param.u64 %acc, [p_acc];
    mov.u64 %loc, larr;
    cvta.local.u64 %gloc, %loc;
    mov.u32 %sown, sharr;
    mad.lo.u32 %sown, %ct, 64, %sown;
    cvt.u64.u32 %gsown, %sown;
    cvta.shared.u64 %gsown, %gsown;
    mov.u32 %sex, exch;
    mov.u32 %sfl, flags;
    mov.u32 %a0, 0;
    st.local.v4.b32 [larr], {%a0, %gt, %a0, %ct};
    st.local.v4.b32 [larr+16], {%a0, %a0, %gt, %a0};
    st.local.v4.b32 [larr+32], {%gt, %a0, %a0, %a0};
    st.local.v4.b32 [larr+48], {%a0, %a0, %a0, %nt};
    st.shared.v4.b32 [%sown], {%a0, %a0, %a0, %gt};
    st.shared.v4.b32 [%sown+16], {%gt, %a0, %a0, %a0};
    st.shared.v4.b32 [%sown+32], {%a0, %a0, %gt, %a0};
    st.shared.v4.b32 [%sown+48], {%a0, %gt, %a0, %a0};
    mad.lo.u32 %a1, %ct, 16, %sex;
    st.shared.v4.b32 [%a1], {%a0, %a0, %a0, %a0};
    mad.lo.u32 %a1, %ct, 4, %sfl;
    st.shared.b32 [%a1], %a0;
    bar.sync 0;
    mul.wide.u32 %b0, %gt, 4;
    add.u64 %b1, %in, %b0;
    add.u64 %b2, %fin, %b0;
    ld.global.u32 %r0, [%b1];
    ld.global.u32 %r1, [%b1+512];
    ld.global.u32 %r2, [%b1+1024];
    mov.u32 %r3, %gt;
    mov.u32 %r4, %tid.x;
    mov.u32 %r5, %lane;
    mov.u32 %r6, %u0;
    mad.lo.u32 %r7, %gt, 7, 3;
    mov.b64 %d0, {%r0, %r1};
    ld.global.u64 %d1, [%in+8];
    mul.wide.s32 %d2, %r2, %r3;
    mov.b64 %d3, {%r3, %r6};
    cvt.u16.u32 %h0, %r0;
    cvt.u16.u32 %h1, %r3;
    mov.u16 %h2, 77;
    cvt.u16.u32 %h3, %r7;
    setp.lt.s32 %p0, %r0, 0;
    setp.lt.u32 %p1, %r4, 5;
    setp.eq.u32 %p2, %u0, 3;
    setp.gt.s32 %p3, %r1, %r2;
    ld.global.f32 %f0, [%b2];
    ld.global.f32 %f1, [%b2+512];
    ld.global.f32 %f2, [%b2+1024];
    ld.param.f32 %f3, [p_x];
    cvt.rn.f32.u32 %f4, %r4;
    mov.f32 %f5, 0f3FC00000;
    cvt.f64.f32 %g0, %f0;
    cvt.rn.f64.s32 %g1, %r2;
    mov.f64 %g2, 0d3FF8000000000000;
    cvt.rn.f16.f32 %q0, %f1;
    cvt.rn.f16.u32 %q1, %r4;
    mov.b16 %q2, 0x3C00;
    mov.b32 %v0, {%q0, %q1};
    mov.b32 %v1, {%q2, %q1};
";
