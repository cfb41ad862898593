//! What PTX becomes: the essentials of translation, seen in printed IR. Instructions have their own
//! file tests.

use ptxjit_frontend::diag::Kind;
use ptxjit_frontend::source::Source;
use ptxjit_frontend::translate::Module;
use ptxjit_ir::{Program, RelocTarget};

fn module(target: &str, text: &str) -> Module {
    let text = format!(".version 8.6\n.target {target}\n.address_size 64\n{text}");
    Module::parse(Source::new("test.ptx", text)).unwrap_or_else(|found| panic!("{found:#?}"))
}

/// The program of kernel `k`, verified.
fn program_of(module: &Module) -> Program {
    let program = module
        .program("k")
        .unwrap_or_else(|found| panic!("{found:#?}"));
    ptxjit_ir::verify::program(&program).unwrap_or_else(|errors| panic!("{errors:#?}"));
    program
}

fn program(text: &str) -> Program {
    program_of(&module("sm_80", text))
}

/// Puts statements into a kernel with some registers and a buffer whose address is in `%rd1`.
fn kernel(body: &str) -> String {
    format!(
        ".visible .entry k(.param .u64 out, .param .u32 n) {{
            .reg .pred %p<4>; .reg .b16 %h<8>; .reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .f32 %f<8>; .reg .b128 %q<3>;
            ld.param.u64 %rd1, [out];
            ld.param.u32 %r1, [n];
            {body}
            ret;
        }}"
    )
}

fn printed(body: &str) -> String {
    ptxjit_ir::print::program(&program(&kernel(body)))
}

/// All of `expected` occur in the text, in this order.
#[track_caller]
fn has_in_order(text: &str, expected: &[&str]) {
    let mut rest = text;
    for want in expected {
        match rest.find(want) {
            Some(at) => rest = &rest[at + want.len()..],
            None => panic!("`{want}` is missing (or not in its place) in\n{text}"),
        }
    }
}

#[track_caller]
fn findings(text: &str) -> Vec<String> {
    module("sm_80", text)
        .check()
        .into_iter()
        .map(|d| d.message)
        .collect()
}

#[test]
fn parameters_lie_at_their_offsets() {
    let text =
        ".visible .entry k(.param .u8 a, .param .align 16 .b8 b[20], .param .u64 c) { ret; }";
    let kernels = module("sm_80", text).kernels();
    let places: Vec<_> = kernels[0]
        .params
        .iter()
        .map(|p| (p.name.as_str(), p.offset, p.size, p.align))
        .collect();
    assert_eq!(places, [("a", 0, 1, 1), ("b", 16, 20, 16), ("c", 40, 8, 8)]);
}

#[test]
fn guarded_register_writes_are_selects() {
    let ir =
        printed("setp.eq.u32 %p1, %r1, 0; @!%p1 add.u32 %r1, %r1, 1; st.global.u32 [%rd1], %r1;");
    has_in_order(
        &ir,
        &[
            "eq.b32",
            "not.b1",
            "iadd.b32",
            "select.b32",
            "store.global.b32",
        ],
    );
    assert!(!ir.contains("brif"), "{ir}");
}

#[test]
fn guarded_stores_are_branches() {
    let ir = printed("setp.eq.u32 %p1, %r1, 0; @%p1 st.global.u32 [%rd1], %r1;");
    has_in_order(&ir, &["eq.b32", "brif", "store.global.b32", "jump"]);
}

#[test]
fn narrow_loads_extend_by_their_type() {
    let ir = printed(
        "ld.global.s8 %r2, [%rd1]; ld.global.u8 %r3, [%rd1+1]; st.global.u16 [%rd1], %r2; st.global.u32 [%rd1], %r3;",
    );
    has_in_order(
        &ir,
        &[
            "load.global.b8",
            "sext.b32.b8",
            "load.global.b8",
            "uext.b32.b8",
            "trunc.b16.b32",
            "store.global.b16",
        ],
    );
}

#[test]
fn vectors_and_sinks() {
    let ir = printed(
        "ld.global.v4.b32 {%r2, _, %r3, %r4}, [%rd1+16]; st.global.v2.b32 [%rd1], {%r4, %r2};",
    );
    has_in_order(
        &ir,
        &[
            "v",
            "load.global.b32x4 [",
            "+16]",
            "store.global.b32 [",
            "], v",
        ],
    );
}

#[test]
fn wide_registers_are_pairs() {
    let ir = printed(
        "mov.b128 %q1, {%rd1, %rd2}; st.global.b128 [%rd1], %q1; ld.global.b128 %q2, [%rd1]; mov.b128 {%rd3, %rd4}, %q2;",
    );
    has_in_order(
        &ir,
        &["store.global.b64 [", "], v", ", v", "load.global.b64x2 ["],
    );
}

#[test]
fn inner_scopes_hide_names_and_labels() {
    let ir = printed(
        "{ .reg .b64 %r1; mov.u64 %r1, 77; st.global.u64 [%rd1], %r1; bra L; L: } bra L; L: st.global.u32 [%rd1], %r1;",
    );
    has_in_order(
        &ir,
        &[
            "const.b64 0x4d",
            "store.global.b64",
            "jump block",
            "store.global.b32",
        ],
    );
}

#[test]
fn branch_tables_trap_when_out_of_range() {
    let ir = printed(
        "t: .branchtargets A, B; brx.idx %r1, t; A: st.global.u32 [%rd1], 1; ret; B: st.global.u32 [%rd1], 2;",
    );
    has_in_order(&ir, &["switch", "unreachable"]);
}

#[test]
fn calls_pass_memory_in_pieces() {
    let text = format!(
        ".func (.param .b64 r) f(.param .align 4 .b8 s[10], .param .b32 x) {{
            .reg .b32 %a; .reg .b64 %b;
            ld.param.b32 %a, [s+4]; cvt.u64.u32 %b, %a; st.param.b64 [r], %b; ret;
        }}
        {}",
        kernel(
            "{ .param .align 4 .b8 a[10]; .param .b32 b; .param .b64 c;
               st.param.b32 [a], %r1; st.param.b32 [b], 7; call (c), f, (a, b); ld.param.b64 %rd2, [c]; }
             st.global.b64 [%rd1], %rd2;"
        )
    );
    let program = program(&text);
    let callee = program
        .functions
        .values()
        .find(|func| func.name == "f")
        .expect("f is reachable");
    let params: Vec<u32> = callee
        .params()
        .iter()
        .map(|&value| callee.ty(value).bits())
        .collect();
    // Ten bytes of alignment 4 are two words and a half-word.
    assert_eq!(params, [32, 32, 16, 32]);
    assert_eq!(
        callee.rets.iter().map(|ty| ty.bits()).collect::<Vec<_>>(),
        [64]
    );
}

#[test]
fn indirect_calls_reach_what_has_the_signature() {
    let text = format!(
        ".func (.reg .u32 r) f(.reg .u32 a) {{ add.u32 r, a, 1; ret; }}
         .func (.reg .u32 r) g(.reg .u32 a) {{ add.u32 r, a, 2; ret; }}
         .func h(.reg .u64 a) {{ ret; }}
         .global .u64 table[2] = {{ f, h }};
         {}",
        kernel("P: .callprototype (.reg .u32 _) _ (.reg .u32 _); ld.global.u64 %rd2, [table]; call (%r2), %rd2, (%r1), P;
                st.global.u32 [%rd1], %r2;")
    );
    let program = program(&text);
    let names: Vec<&str> = program
        .functions
        .values()
        .map(|func| func.name.as_str())
        .collect();
    assert_eq!(names, ["f", "k"]);
    assert_eq!(program.address_taken.len(), 1);
}

#[test]
fn runtime_functions_are_builtins_and_others_are_missed() {
    let extern_ = ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a); .extern .func other();";
    let call = "{ .param .b64 a; .param .b64 b; .param .b32 c; st.param.b64 [a], %rd1; st.param.b64 [b], 0; call (c), vprintf, (a, b); }";
    let ir = ptxjit_ir::print::program(&program(&format!("{extern_} {}", kernel(call))));
    assert!(ir.contains("vprintf"), "{ir}");
    let module = module("sm_80", &format!("{extern_} {}", kernel("call other;")));
    assert_eq!(module.check(), []);
    let found = module.program("k").expect_err("`other` is nowhere defined");
    assert_eq!(
        found[0].message,
        "`other` is called but not defined in this module"
    );
}

#[test]
fn recursion_and_aliases() {
    let text = format!(
        ".func f(.reg .u32 n); .func g(.reg .u32 n);
         .func f(.reg .u32 n) {{ .reg .pred p; .reg .u32 m; setp.eq.u32 p, n, 0; @p ret; sub.u32 m, n, 1; call g, (m); ret; }}
         .alias g, f;
         {}",
        kernel("call f, (%r1);")
    );
    let program = program(&text);
    assert_eq!(program.functions.len(), 2);
}

#[test]
fn initializers() {
    let module = module(
        "sm_80",
        ".global .u32 a[2][2] = { {1, 2}, {3} }; .const .f32 f = 1.5; .global .u64 p = generic(a)+4; .global .u8 b[2] = { 0xff00(a), 7 };",
    );
    let init = |name: &str| {
        let id = module.var_id(name).unwrap_or_else(|| panic!("{name}"));
        module
            .var_init(id)
            .unwrap_or_else(|found| panic!("{found:#?}"))
    };
    assert_eq!(init("a").bytes, [1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0]);
    assert_eq!(init("f").bytes, 1.5f32.to_le_bytes());
    let p = &init("p").relocs[0];
    assert_eq!((p.offset, p.size, p.addend, p.generic), (0, 8, 4, true));
    assert_eq!(Some(p.target), module.var_id("a").map(RelocTarget::Var));
    let b = init("b");
    assert_eq!((b.relocs[0].size, b.relocs[0].shift, b.bytes[1]), (1, 8, 7));
}

#[test]
fn static_variables_of_functions_are_module_wide() {
    let module = module(
        "sm_80",
        &kernel(
            ".shared .align 8 .b32 s[3]; .global .u32 g = 9; st.shared.u32 [s+4], %r1; st.global.u32 [g], %r1;",
        ),
    );
    let program = program_of(&module);
    let sizes: Vec<_> = program
        .vars
        .values()
        .map(|var| (var.name.as_str(), var.size, var.align))
        .collect();
    assert_eq!(sizes, [("s", 12, 8), ("g", 4, 4)]);
    let g = program
        .vars
        .iter()
        .find(|(_, var)| var.name == "g")
        .map(|(&id, _)| id)
        .expect("g");
    assert_eq!(
        module.var_init(g).expect("a plain number").bytes,
        [9, 0, 0, 0]
    );
}

#[test]
fn old_warp_code_wants_lockstep() {
    let body = "vote.ballot.b32 %r2, 1; st.global.u32 [%rd1], %r2;";
    let old = |target: &str| {
        let text = format!(
            ".version 6.0\n.target {target}\n.address_size 64\n{}",
            kernel(body).replace(".reg .b128 %q<3>;", "")
        );
        let module = Module::parse(Source::new("test.ptx", text))
            .unwrap_or_else(|found| panic!("{found:#?}"));
        program_of(&module).lockstep
    };
    assert!(old("sm_35"));
    assert!(!old("sm_70"));
}

#[test]
fn unsupported_is_told_only_when_wanted() {
    let text = format!(
        ".extern .func (.param .b32 r) cudaDeviceSynchronize(); \
         {} .visible .entry other() {{ .param .b32 r; call (r), cudaDeviceSynchronize, (); ret; }}",
        kernel("")
    );
    let module = module("sm_90", &text);
    assert_eq!(module.check(), []);
    assert!(module.program("k").is_ok());
    let found = module
        .program("other")
        .expect_err("launches from the device are not supported");
    assert_eq!(found[0].kind, Kind::Unsupported);
    assert_eq!(
        found[0].message,
        "a call of `cudaDeviceSynchronize` is not supported yet"
    );
}

#[test]
fn all_errors_are_reported() {
    let found = findings(&kernel(
        "add.u32 %r1, %r1; mov.u32 %r99, 1; bra NOWHERE; add.fast.u32 %r1, %r1, 1;",
    ));
    assert_eq!(
        found,
        [
            "`add.u32` has 2 operands, but takes 3",
            "`%r99` is not declared",
            "there is no label `NOWHERE` here",
            "`add` has no modifier `.fast`",
        ]
    );
}

#[test]
fn locations() {
    let text = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() {\n.loc 1 12 3\ntrap;\nret;\n}\n.file 1 \"a.cu\"\n";
    let module =
        Module::parse(Source::new("test.ptx", text)).unwrap_or_else(|found| panic!("{found:#?}"));
    let program = program_of(&module);
    let loc = program
        .functions
        .values()
        .next()
        .map(|func| func.blocks[func.entry].term_loc)
        .expect("one function");
    assert_eq!(module.position(loc).line, 6);
    let line = module.source_line(loc).expect("a `.loc` stands before it");
    assert_eq!(
        (line.file.as_str(), line.line, line.column),
        ("a.cu", 12, 3)
    );
}
