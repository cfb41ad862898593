//! The parser as its users see it: trees, messages, and that nothing makes it panic.

use ptxjit_frontend::ast::{
    Body, Dim, FieldValue, FunctionDirectiveKind, FunctionKind, InitializerKind, Inst, Linkage,
    Module, Operand, OperandKind, Space, StmtKind, Type, Variable,
};
use ptxjit_frontend::diag::{self, Diagnostic, Severity};
use ptxjit_frontend::parse::{self, constexpr, constexpr::Value};
use ptxjit_frontend::source::{Source, Span};

const SAMPLE: &str = include_str!("sample.ptx");

fn source(text: &str) -> Source {
    Source::new("test.ptx", text)
}

/// Parses everything there is; the text of the first error otherwise.
fn parse_all(source: &Source) -> Result<(Module, Vec<Body>), String> {
    let all = || -> Result<(Module, Vec<Body>), Vec<Diagnostic>> {
        let module = parse::module(source)?;
        for variable in module.variables().filter(|variable| variable.has_init()) {
            parse::initializer(source, variable.init)?;
        }
        let ranges = module.functions().filter_map(|function| function.body);
        let bodies = ranges
            .map(|range| parse::body(source, range))
            .collect::<Result<_, _>>()?;
        Ok((module, bodies))
    };
    all().map_err(|errors| diag::render(&errors[0], source, false))
}

/// A kernel around some statements.
fn with_statements(statements: &str) -> String {
    format!(
        ".version 8.8\n.target sm_90\n.address_size 64\n.entry k(.param .u64 p)\n{{\n{statements}\n}}\n"
    )
}

fn with_items(items: &str) -> String {
    format!(".version 8.8\n.target sm_90\n.address_size 64\n{items}\n")
}

fn instruction(statement: &str) -> (Source, Inst) {
    let source = source(&with_statements(statement));
    let (_, bodies) = parse_all(&source).unwrap_or_else(|err| panic!("{err}"));
    let kinds = bodies
        .into_iter()
        .flat_map(|body| body.stmts)
        .map(|stmt| stmt.kind);
    let inst = kinds
        .filter_map(|kind| {
            if let StmtKind::Inst(inst) = kind {
                Some(inst)
            } else {
                None
            }
        })
        .next();
    (source, inst.expect("one instruction"))
}

#[test]
fn sample_module() {
    let source = source(SAMPLE);
    let (module, bodies) = parse_all(&source).unwrap_or_else(|err| panic!("{err}"));
    assert!(module.version.at_least(8, 8) && !module.version.at_least(9, 0));
    assert_eq!(
        (module.target.arch.number, module.target.has_debug),
        (90, true)
    );
    assert_eq!(module.files.len(), 2);
    assert_eq!(source.slice(module.file(2).unwrap().name), "b.cu");
    assert_eq!(module.sections.len(), 1);
    let names: Vec<&str> = module
        .functions()
        .map(|function| function.name.text(&source))
        .collect();
    assert_eq!(names, ["twice", "kernel", "square"]);
    let kernel = module.functions().nth(1).unwrap();
    assert_eq!(
        (kernel.kind, kernel.linkage),
        (FunctionKind::Entry, Linkage::Visible)
    );
    assert_eq!(kernel.params[0].ptr.unwrap().align, 16);
    assert_eq!(&*kernel.params[1].dims, [Dim::Sized(24)]);
    assert!(matches!(
        kernel.directives[0].kind,
        FunctionDirectiveKind::Maxntid([128, 2, 1])
    ));
    let loc = |offset: usize| bodies[0].loc(offset as u32).map(|loc| (loc.file, loc.line));
    let at = |text: &str| SAMPLE.find(text).unwrap();
    assert_eq!(loc(at("%p<3>")), None);
    assert_eq!(loc(at("add.sat")), Some((1, 10)));
    assert_eq!(loc(at("st.param")), Some((2, 9)));
    let count =
        |is: fn(&StmtKind) -> bool| bodies[0].stmts.iter().filter(|stmt| is(&stmt.kind)).count();
    assert_eq!(count(|kind| matches!(kind, StmtKind::Inst(_))), 20);
    assert_eq!(count(|kind| matches!(kind, StmtKind::Label(_))), 3);
    assert_eq!(count(|kind| matches!(kind, StmtKind::Variable(_))), 8);
    assert_eq!(count(|kind| matches!(kind, StmtKind::ScopeBegin)), 1);
}

#[test]
fn variables() {
    let source = source(SAMPLE);
    let (module, _) = parse_all(&source).unwrap_or_else(|err| panic!("{err}"));
    let find = |name: &str| -> &Variable {
        module
            .variables()
            .find(|variable| variable.name.text(&source) == name)
            .unwrap()
    };
    let dynamic = find("dynamic");
    assert_eq!(
        (dynamic.space, dynamic.linkage, dynamic.ty),
        (Space::Shared, Linkage::Extern, Type::B8)
    );
    assert_eq!(
        (dynamic.align, &*dynamic.dims),
        (Some(16), &[Dim::Unsized][..])
    );
    assert_eq!(find("vec4").vector, 4);
    assert_eq!(&*find("more").dims, [Dim::Sized(32)]);
    let init = |name: &str| parse::initializer(&source, find(name).init).unwrap().kind;
    let InitializerKind::List(table) = init("table") else {
        panic!("a list")
    };
    let InitializerKind::Address(third) = &table[2].kind else {
        panic!("an address")
    };
    assert!(third.is_generic && third.offset.is_some());
    let InitializerKind::Fields(fields) = init("texture") else {
        panic!("fields")
    };
    assert!(matches!(fields[1].value, FieldValue::Name(name) if name.text(&source) == "linear"));
    let InitializerKind::List(bytes) = init("bytes") else {
        panic!("a list")
    };
    assert!(matches!(&bytes[1].kind, InitializerKind::Mask(mask) if mask.mask == 0xff00));
    let InitializerKind::Constant(managed) = init("managed") else {
        panic!("a constant")
    };
    assert_eq!(constexpr::evaluate(&managed), Ok(Value::U64(u64::MAX)));
}

#[test]
fn large_tables_are_plain_integers() {
    let source = source(&with_items(
        ".global .s16 t[3] = { 1, -2, /* three */ 0x3 };",
    ));
    let module = parse::module(&source).unwrap();
    let init = parse::initializer(&source, module.variables().next().unwrap().init).unwrap();
    let values: [u64; 3] = [1, 2u64.wrapping_neg(), 3];
    assert_eq!(init.kind, InitializerKind::Integers(Box::new(values)));
}

#[test]
fn operands() {
    let check = |statement: &str, is: fn(&[Operand]) -> bool| {
        let (_, inst) = instruction(statement);
        assert!(is(&inst.operands), "{statement}: {:#?}", inst.operands);
    };
    use OperandKind as K;
    check("mov.u32 a, %tid.x;", |ops| {
        matches!(ops[1].kind, K::Member { .. })
    });
    check("mov.u32 a, (5);", |ops| {
        matches!(ops[1].kind, K::Constant(_))
    });
    check("mov.u32 a, WARP_SZ;", |ops| {
        matches!(ops[1].kind, K::Constant(_))
    });
    check("mov.u32 a, WARP_SZX;", |ops| {
        matches!(ops[1].kind, K::Name(_))
    });
    check("mov.u32 a, -b;", |ops| matches!(ops[1].kind, K::Neg(_)));
    check("mov.u32 a, !5;", |ops| {
        matches!(ops[1].kind, K::Constant(_))
    });
    check("mov.u32 a, !p;", |ops| matches!(ops[1].kind, K::Not(_)));
    check("mov.u32 _|p, 1|2;", |ops| {
        matches!(ops[0].kind, K::Pair(_)) && matches!(ops[1].kind, K::Constant(_))
    });
    check(
        "mov.u32 a, t[i+1];",
        |ops| matches!(&ops[1].kind, K::Element(element) if element.index.is_some() && element.offset.is_some()),
    );
    check(
        "ld.u32 a, [8];",
        |ops| matches!(&ops[1].kind, K::Address(address) if address.base.is_none() && address.offset.is_some()),
    );
    check("ld.u32 a, [r+4+-8];", |ops| match &ops[1].kind {
        K::Address(address) => {
            constexpr::evaluate(address.offset.as_ref().unwrap()) == Ok(Value::S64(-4))
        }
        _ => false,
    });
    check(
        "tex.x [t, s, {a, b}];",
        |ops| matches!(&ops[0].kind, K::Tuple(parts) if parts.len() == 3),
    );
    check("call (r), f, (4), p;", |ops| {
        matches!((&ops[0].kind, &ops[2].kind), (K::List(_), K::List(_))) && ops.len() == 4
    });
    check(
        "call f, ();",
        |ops| matches!(&ops[1].kind, K::List(list) if list.is_empty()),
    );
}

#[test]
fn modifiers() {
    let (source, inst) = instruction("@!p mov\n .shared::cta.L2::128B /**/ .u32 a, b;");
    let modifiers: Vec<&str> = inst
        .modifiers
        .iter()
        .map(|modifier| modifier.text(&source))
        .collect();
    assert_eq!(
        (inst.opcode.text(&source), &modifiers[..]),
        ("mov", &["shared::cta", "L2::128B", "u32"][..])
    );
    assert!(
        inst.guard
            .is_some_and(|guard| guard.is_negated && guard.pred.text(&source) == "p")
    );
    let (source, inst) = instruction("ld.const[2].b32 a, [b];");
    assert_eq!(inst.modifiers[0].text(&source), "const[2]");
}

#[test]
fn constant_expressions() {
    let table = [
        ("5 % -3", Value::U64(5)),
        ("-5 % 3", Value::U64(2)),
        ("-7 / 2", Value::S64(-3)),
        ("-7U / 2", Value::U64(0x7fff_ffff_ffff_fffc)),
        ("(-7) >> 1", Value::S64(-4)),
        ("1 << 64", Value::S64(1)),
        ("1 << 70", Value::S64(0x40)),
        ("-1 < 0U", Value::S64(0)),
        ("~0 >> 60", Value::U64(0xf)),
        ("(.u64)-1 >> 60", Value::U64(0xf)),
        ("(.s64)0xffffffffffffffff >> 60", Value::S64(-1)),
        ("(-1 & -1) >> 60", Value::S64(-1)),
        ("2 - 3 * 4 % 5", Value::U64(0)),
        ("3 > 2 > 1", Value::S64(0)),
        ("2.0 < 3.0", Value::S64(1)),
        ("-9223372036854775808 / -1", Value::U64(0)),
        ("- - 5", Value::S64(5)),
        ("1 | 2 ^ 3 & 4", Value::S64(3)),
        ("1 ? 2 : 0 ? 3 : 4", Value::S64(2)),
        ("(1 ? -1 : 0U) >> 60", Value::S64(-1)),
        ("0x7fffffffffffffff + 1 < 0", Value::S64(1)),
        ("010 + 0b11 + 0X1f", Value::S64(42)),
        ("18446744073709551617", Value::U64(1)),
        ("1.0/4.0 - .5", Value::F64(-0.25)),
        ("0f3F800000", Value::F32Bits(0x3f80_0000)),
        ("0d3ff0000000000000", Value::F64(1.0)),
        ("1 == 1 == 1", Value::S64(1)),
    ];
    for (text, expected) in table {
        assert_eq!(constant(text), Ok(expected), "{text}");
    }
    for text in [
        "7 / 0",
        "1 || 1 / 0",
        "1.0 / 0.0",
        "5 % 0",
        "3.0 % 2.0",
        "1.5 + 1",
        "(.s64)1.0",
        "1 ? 1.0 : 2.0",
    ] {
        assert!(constant(text).is_err(), "{text}");
    }
}

fn constant(text: &str) -> Result<Value, Diagnostic> {
    let (_, inst) = instruction(&format!("mov.u64 a, {text};"));
    match &inst.operands[1].kind {
        OperandKind::Constant(expr) => constexpr::evaluate(expr),
        other => panic!("{text}: {other:?}"),
    }
}

/// The message must contain `expected` and point at `at`, which the text holds once.
fn refused(text: &str, at: &str, expected: &str) {
    let source = source(text);
    let message = parse_all(&source)
        .err()
        .unwrap_or_else(|| panic!("accepted:\n{text}"));
    let position = source.position(text.find(at).expect("the place") as u32);
    let place = format!("test.ptx:{}:{}\n", position.line, position.column);
    assert!(
        message.contains(expected) && message.contains(&place),
        "{expected} at {place}{message}"
    );
}

#[test]
fn messages_in_bodies() {
    let cases = [
        ("add.f32 a ?b, 1.0;", "expected `,` or `;`, found `b`"),
        ("mov.u32 a, 1?\nret;", "expected `;`"),
        ("ld.u32 a, [b?-4];", "expected `]`, found `-`"),
        ("mov.b64 a, {b, c?;", "expected `}`, found `;`"),
        ("mov.u32 a, ?0xFFu;", "`0xFFu` is not a number"),
        ("mov.u32 a, ?08;", "`08` is not a number"),
        ("mov.f64 a, ?1e400;", "too large"),
        ("mov.f32 a, ?0f3f8;", "exactly 8 hexadecimal digits"),
        (
            "mov.f32 a, -?0f3f800000;",
            "cannot be part of an expression",
        ),
        ("?;", "found `;`"),
        ("?.file 1 \"a\"", "`.file` does not belong here"),
        ("?.foo 3;", "unknown directive `.foo`"),
        ("@p ?.reg .b32 z;", "expected an instruction"),
        (".reg .b32 ?1a;", "expected a name"),
        (".reg .b32 ?%;", "expected a name"),
        (".reg .b32 ?WARP_SZ;", "expected a name"),
        (".reg .b32 a?[4];", "registers cannot be arrays"),
        (".reg ?.v3 .b32 a;", "there are no `.v3` variables"),
        (".reg ?.v4 .f64 a;", "there are no `.v4 .f64` variables"),
        (".shared .b8 s?<2>[32];", "a range of names"),
        ("?.extern .shared .b8 s[];", "does not belong inside"),
        ("?.visible .reg .b32 a;", "does not belong inside"),
        (".reg .b32 a,?;", "expected a name"),
        (".local .b32 ?.align 4 a;", "before the type"),
        ("?#define x 1", "`#` does not belong here"),
        ("// ?\u{e4}", "`\u{e4}` is not ASCII"),
        ("?/* never closed", "this comment is never closed"),
        (".pragma ?\"never closed;", "this string is not closed"),
        ("add.?.f32 a;", "a modifier is missing"),
        ("add.f32 a, ?(b, c);", "only `call`"),
        ("?.branchtargets a;", "needs a label"),
    ];
    for (statement, expected) in cases {
        check_case(&with_statements(statement), expected);
    }
}

#[test]
fn messages_in_modules() {
    let cases = [
        (".global .align ?3 .b8 a;", "not a power of two"),
        (
            ".global .u32 ?.align 4 a;",
            "`.align` must stand before the type",
        ),
        (
            ".align 4 ?.visible .global .u32 a;",
            "`.visible` must stand before `.align`",
        ),
        (
            ".entry k(.param ?.ptr .u64 a) { ret; }",
            "`.ptr` must stand after the type",
        ),
        (
            ".entry k(.param .u64 .ptr .align 4 ?.global a) { ret; }",
            "the state space must stand before `.align`",
        ),
        ("?.reg .u32 a;", "module-scope `.reg` ended with PTX 3.0"),
        ("?.tex .u32 a;", "`.tex` ended with PTX 1.5"),
        (".global ?.u31 a;", "`.u31` is not a type"),
        (".visible ?.weak .global .u32 a;", "given twice"),
        (".shared .u32 a = ?1;", "only `.const` and `.global`"),
        (".extern .global .u32 a = ?1;", "has no initializer"),
        (".global .u8 a[] = { ?0xf(b) };", "does not select one byte"),
        (".global .u8 a[] = { 1, ?};", "expected a constant"),
        (".global .u8 a[] = { 1 ?2 };", "expected"),
        (".global .u32 a?", "expected `;`"),
        ("?mov.u32 a, b;", "does not belong outside a function"),
        ("?}", "closes nothing"),
        (
            ".entry e(?.reg .u32 a) { ret; }",
            "kernel parameters must be `.param`",
        ),
        (
            ".entry (?.param .u32 a) e() { ret; }",
            "a kernel returns nothing",
        ),
        (
            ".entry e() ?.maxntid 1, 2, 3, 4 { ret; }",
            "one to three positive values",
        ),
        (
            ".entry e() ?.reqntid 0 { ret; }",
            "one to three positive values",
        ),
        (".entry e() .maxntid 1 .reqntid 1 ?{", "never closed"),
        (
            ".func f(.param .u32 a, .param .u32 ?a) { ret; }",
            "declared twice",
        ),
        (
            ".func (.param .u32 a) f() ?.noreturn { ret; }",
            "cannot return a value",
        ),
        ("?.version 8.8", "`.version` does not belong here"),
        ("?@@DWARF .byte 1", "ended with PTX 2.0"),
    ];
    for (items, expected) in cases {
        check_case(&with_items(items), expected);
    }
}

/// `?` marks where the message must point.
fn check_case(marked: &str, expected: &str) {
    let at = marked.find('?').expect("a mark");
    let text = marked.replacen('?', "", 1);
    let source = source(&text);
    let message = parse_all(&source)
        .err()
        .unwrap_or_else(|| panic!("accepted:\n{text}"));
    let position = source.position(at as u32);
    let place = format!("test.ptx:{}:{}\n", position.line, position.column);
    assert!(
        message.contains(expected) && message.contains(&place),
        "want {expected} at {place}{message}"
    );
}

#[test]
fn module_heads() {
    refused(".target sm_90", ".target", "begins with `.version`");
    refused(".version 9\n.target sm_90", "9\n", "is not a version");
    refused(
        ".version 8.9\n.target sm_90",
        "8.9",
        "there is no PTX version 8.9",
    );
    refused(
        ".version 7.0\n.target sm_90",
        "sm_90",
        "target `sm_90` needs PTX 7.8",
    );
    refused(
        ".version 8.0\n.target sm_91",
        "sm_91",
        "unknown target `sm_91`",
    );
    refused(
        ".version 8.0\n.target sm_80\n.address_size 16",
        "16",
        "32 or 64",
    );
    let newer = source(".version 9.5\n.target sm_999a\n");
    let module = parse::module(&newer).unwrap();
    assert_eq!(module.warnings[0].severity, Severity::Warning);
    let old = source(
        ".version 1.4\n.target sm_12, map_f64_to_f32\n.entry k { exit; }\n@@DWARF .byte 1\n",
    );
    assert!(parse_all(&old).is_ok());
}

/// What may stand in a declaration in more than one way. NVIDIA's assembler (ptxas 13) takes these,
/// too.
#[test]
fn loose_declarations() {
    let items = [
        ".align 4 .global .u32 a;",
        ".visible .align 4 .global .u32 a;",
        ".global .u32 ;",
        ".entry k(.param .u64 .ptr .global .align 4 a, .align 8 .param .u64 b) { ret; }",
    ];
    for text in items {
        assert!(parse_all(&source(&with_items(text))).is_ok(), "{text}");
    }
    let statements = [
        ".reg .b32 ;",
        ".align 8 .local .b32 a;",
        ".align 4 .reg .b32 a;",
    ];
    for text in statements {
        assert!(parse_all(&source(&with_statements(text))).is_ok(), "{text}");
    }
}

/// What would overflow a stack or take forever if nothing watched.
#[test]
fn deep_nesting() {
    const DEPTH: usize = 100_000;
    let repeated = |text: &str| text.repeat(DEPTH);
    let statements = [
        format!("mov.u32 a, {}1;", repeated("(")),
        format!("mov.u32 a, {}1{};", repeated("("), repeated(")")),
        format!("mov.u32 a, {}1;", repeated("- ")),
        format!("mov.u32 a, {}1;", repeated("1 + ")),
        format!("mov.u32 a, {}1;", repeated("1 ? 1 : ")),
        format!("mov.u32 a, {}1;", repeated("[")),
        format!("mov.u32 a, {}1{};", repeated("a["), repeated("]")),
        format!("call f, {}a{};", repeated("("), repeated(")")),
        format!("mov.u32 {}, 1;", repeated("{")),
        repeated("{"),
    ];
    for text in &statements {
        assert!(
            parse_all(&source(&with_statements(text))).is_err(),
            "{}",
            &text[..40]
        );
    }
    let scopes = |n| format!("{}{}", "{".repeat(n), "}".repeat(n));
    assert!(parse_all(&source(&with_statements(&scopes(2_000)))).is_ok());
    assert!(parse_all(&source(&with_statements(&scopes(2_001)))).is_err());
    assert!(parse_all(&source(&with_statements(&scopes(DEPTH)))).is_err());
    let items = [
        format!(".global .u32 a[1] = {}1{};", repeated("{"), repeated("}")),
        format!(".global .u32 a = {}1;", repeated("(")),
        repeated(".visible "),
        repeated("@"),
    ];
    for text in &items {
        assert!(
            parse_all(&source(&with_items(text))).is_err(),
            "{}",
            &text[..40]
        );
    }
}

/// What nests less is taken, on a thread's usual stack.
#[test]
fn nesting_within_bounds() {
    let taken = |statement: &str| parse_all(&source(&with_statements(statement))).is_ok();
    let parens = |depth| format!("mov.u32 a, {}1{};", "(".repeat(depth), ")".repeat(depth));
    assert!(taken(&parens(100)) && !taken(&parens(101)));
    let conditions = |depth| format!("mov.u32 a, {}1;", "1 ? 1 : ".repeat(depth));
    assert!(taken(&conditions(100)) && !taken(&conditions(101)));
}

/// Steps of a small generator (xorshift), so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }
}

#[test]
fn mutated_text_never_panics() {
    const PIECES: &[&str] = &[
        "{",
        "}",
        "(",
        ")",
        "[",
        "]",
        ";",
        ",",
        ".",
        "::",
        "\"",
        "/*",
        "*/",
        "//",
        "\n",
        "#",
        "@",
        "!",
        "-",
        "+",
        "|",
        "?",
        ":",
        "<",
        ">",
        "=",
        "_",
        "%",
        "$",
        "0x",
        "0f",
        "1e",
        "\u{e4}",
        "\u{0}",
        ".reg",
        ".entry",
        ".b32",
        "WARP_SZ",
        "18446744073709551616",
        "call",
        ".pragma",
        ".v4",
        ".align 0",
        ".section",
        "@@DWARF",
        "\\",
    ];
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..2000 {
        let mut text = SAMPLE.to_owned();
        for _ in 0..=random.below(4) {
            mutate(&mut text, &mut random, PIECES);
        }
        // The result does not matter; rendering must not panic either.
        let _ = parse_all(&source(&text));
    }
}

fn mutate(text: &mut String, random: &mut Random, pieces: &[&str]) {
    let start = text.floor_char_boundary(random.below(text.len() + 1));
    let end = text.ceil_char_boundary((start + random.below(12)).min(text.len()));
    match random.below(4) {
        0 => text.truncate(start),
        1 => text.replace_range(start..end, ""),
        2 => text.replace_range(start..end, pieces[random.below(pieces.len())]),
        _ => text.insert_str(start, pieces[random.below(pieces.len())]),
    }
}

#[test]
fn rendering_never_panics() {
    let source = source("a\u{e4}\u{1f600}\tb\r\n\u{0}c");
    for start in 0..20 {
        for end in 0..20 {
            let diagnostic = Diagnostic::error("m\u{0}")
                .label(Span::new(start, end), "l\u{7}")
                .note("n");
            assert!(diag::render(&diagnostic, &source, true).contains('m'));
        }
    }
}
