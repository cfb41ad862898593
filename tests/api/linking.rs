//! Linking: which definition a name means, what exists once, and what cannot be linked.

use ptxjit::{Device, Engine, Error, Kernel, Linker, Module, link};

use crate::ptx;

fn linked(device: &Device, modules: &[(&str, &str)]) -> Result<Module, Error> {
    link(
        device,
        modules.iter().map(|(name, body)| (*name, ptx(body))),
    )
}

/// The kernel's one word of output, which interpreter and compiled code must agree on.
fn output(device: &Device, kernel: &Kernel, shared: u32) -> u32 {
    let mut found = Vec::new();
    for engine in [Engine::Jit, Engine::Interp] {
        let out = device.alloc_from(&[0u32]).unwrap();
        let launch = kernel.launch().engine(engine).shared(shared).arg(&out);
        launch.run().unwrap_or_else(|err| panic!("{err}"));
        found.push(out.read().unwrap()[0]);
    }
    assert_eq!(found[0], found[1]);
    found[0]
}

/// A kernel that stores `%r1`, computed by `statements`.
fn kernel_body(name: &str, statements: &str) -> String {
    format!(
        ".visible .entry {name}(.param .u64 out)
        {{
            .reg .b32 %r<8>;
            .reg .b64 %rd<8>;
            {statements}
            ld.param.u64 %rd0, [out];
            st.global.u32 [%rd0], %r1;
            ret;
        }}"
    )
}

/// A function without parameters that returns `value`.
fn constant(linkage: &str, name: &str, value: u32) -> String {
    format!("{linkage} .func (.reg .u32 r) {name}() {{ mov.u32 r, {value}; ret; }}\n")
}

fn errors(found: Result<Module, Error>) -> Vec<(String, String)> {
    match found {
        Err(Error::Invalid(list)) => list
            .iter()
            .map(|one| (one.file().to_owned(), one.message().to_owned()))
            .collect(),
        other => panic!("{other:?}"),
    }
}

const CALL_F: &str = "call (%r1), f, ();";

#[test]
fn functions_of_other_modules() {
    let device = Device::new().unwrap();
    let user = format!(
        ".extern .func (.param .b32 r) twice(.param .b32 x);\n{}",
        kernel_body(
            "k",
            "{ .param .b32 a; .param .b32 b; st.param.b32 [a], 21; call (b), twice, (a); ld.param.b32 %r1, [b]; }"
        )
    );
    let maths = ".visible .func (.param .b32 r) twice(.param .b32 x)
        { .reg .b32 %r; ld.param.b32 %r, [x]; add.u32 %r, %r, %r; st.param.b32 [r], %r; ret; }";
    for modules in [
        [("a.ptx", user.as_str()), ("b.ptx", maths)],
        [("b.ptx", maths), ("a.ptx", user.as_str())],
    ] {
        let module = linked(&device, &modules).unwrap_or_else(|err| panic!("{err}"));
        assert_eq!(module.kernel_names(), ["k"]);
        let kernel = module.kernel("k").unwrap();
        assert_eq!(output(&device, &kernel, 0), 42);
        // A call across modules is inlined as one within a module.
        let optimized = kernel.dump("opt", 1, &ptxjit::Options::default()).unwrap();
        assert!(!optimized.contains("call"), "{optimized}");
    }
}

#[test]
fn variables_exist_once() {
    let device = Device::new().unwrap();
    let a = format!(
        ".visible .global .u32 counter = 40; .visible .const .u32 step[2] = {{1, 2}};\n{}",
        kernel_body(
            "first",
            "ld.global.u32 %r1, [counter]; add.u32 %r1, %r1, 1; st.global.u32 [counter], %r1;"
        )
    );
    let b = format!(
        ".extern .global .u32 counter; .extern .const .u32 step[];\n{}",
        kernel_body(
            "second",
            "ld.global.u32 %r1, [counter]; ld.const.u32 %r2, [step+4]; add.u32 %r1, %r1, %r2; st.global.u32 [counter], %r1;"
        )
    );
    let module = linked(&device, &[("b.ptx", &b), ("a.ptx", &a)]).unwrap();
    assert_eq!(module.kernel_names(), ["second", "first"]);
    let run = |name: &str| {
        let out = device.alloc_from(&[0u32]).unwrap();
        let kernel = module.kernel(name).unwrap();
        kernel.launch().arg(&out).run().unwrap();
        out.read().unwrap()[0]
    };
    assert_eq!((run("first"), run("second"), run("first")), (41, 43, 44));
    let counter = module.global("counter").unwrap();
    assert_eq!(counter.read::<u32>(1).unwrap(), [44]);
    counter.write(&[7u32]).unwrap();
    assert_eq!(run("second"), 9);
}

#[test]
fn addresses_in_initializers() {
    let device = Device::new().unwrap();
    let a = format!(
        ".extern .global .u64 table[2]; .visible .global .u32 word = 5;\n{}{}",
        constant(".visible", "seven", 7),
        kernel_body(
            "k",
            "ld.global.u64 %rd1, [table]; ld.global.u64 %rd2, [table+8];
             P: .callprototype (.reg .u32 _) _ ();
             call (%r1), %rd1, (), P; ld.global.u32 %r2, [%rd2]; mad.lo.u32 %r1, %r1, 10, %r2;"
        )
    );
    let b = ".extern .func (.reg .u32 r) seven(); .extern .global .u32 word;
        .visible .global .u64 table[2] = {seven, word};";
    let module = linked(&device, &[("a.ptx", &a), ("b.ptx", b)]).unwrap();
    assert_eq!(output(&device, &module.kernel("k").unwrap(), 0), 75);
}

#[test]
fn what_has_no_directive_is_private() {
    let device = Device::new().unwrap();
    let module_of = |name: &str, n: u32| {
        format!(
            ".global .u32 v = {n};\n{}{}",
            constant("", "f", 10 * n),
            kernel_body(
                name,
                &format!("{CALL_F} ld.global.u32 %r2, [v]; add.u32 %r1, %r1, %r2;")
            )
        )
    };
    let (a, b) = (module_of("a", 1), module_of("b", 2));
    let module = linked(&device, &[("a.ptx", &a), ("b.ptx", &b)]).unwrap();
    assert_eq!(output(&device, &module.kernel("a").unwrap(), 0), 11);
    assert_eq!(output(&device, &module.kernel("b").unwrap(), 0), 22);
}

#[test]
fn weak_definitions() {
    let device = Device::new().unwrap();
    let user = format!(
        ".extern .func (.reg .u32 r) f();\n{}",
        kernel_body("k", CALL_F)
    );
    let (one, two) = (constant(".weak", "f", 1), constant(".weak", "f", 2));
    let strong = constant(".visible", "f", 3);
    let value = |modules: &[(&str, &str)]| {
        let module = linked(&device, modules).unwrap_or_else(|err| panic!("{err}"));
        output(&device, &module.kernel("k").unwrap(), 0)
    };
    let user = ("user.ptx", user.as_str());
    let (one, two, strong) = (
        ("1.ptx", one.as_str()),
        ("2.ptx", two.as_str()),
        ("3.ptx", strong.as_str()),
    );
    assert_eq!(value(&[user, one, two]), 1);
    assert_eq!(value(&[two, user, one]), 2);
    assert_eq!(value(&[one, user, two, strong]), 3);
    // A module's own weak function gives way, too.
    let own = format!("{}{}", one.1, kernel_body("k", CALL_F));
    assert_eq!(value(&[("own.ptx", &own), strong]), 3);
    assert_eq!(value(&[two, ("own.ptx", &own)]), 2);
}

#[test]
fn kernels_of_several_modules() {
    let device = Device::new().unwrap();
    let weak = |value: u32| {
        kernel_body("k", &format!("mov.u32 %r1, {value};")).replacen(".visible", ".weak", 1)
    };
    let module = linked(&device, &[("a.ptx", &weak(1)), ("b.ptx", &weak(2))]).unwrap();
    assert_eq!(module.kernel_names(), ["k"]);
    assert_eq!(output(&device, &module.kernel("k").unwrap(), 0), 1);
    // A kernel is public even without a directive.
    let bare = kernel_body("k", "mov.u32 %r1, 3;").replacen(".visible", "", 1);
    let module = linked(&device, &[("a.ptx", &weak(1)), ("b.ptx", &bare)]).unwrap();
    assert_eq!(output(&device, &module.kernel("k").unwrap(), 0), 3);
    let twice = linked(&device, &[("a.ptx", &bare), ("b.ptx", &bare)]);
    assert_eq!(
        errors(twice),
        [("b.ptx".to_owned(), "multiple definition of 'k'".to_owned())]
    );
}

#[test]
fn common_variables_join() {
    let device = Device::new().unwrap();
    let a = ".common .global .align 4 .b8 v[4];";
    let b = format!(
        ".common .global .align 16 .b8 v[12];\n{}",
        kernel_body(
            "k",
            "mov.u64 %rd1, v; cvt.u32.u64 %r1, %rd1; and.b32 %r1, %r1, 15;"
        )
    );
    let module = linked(&device, &[("a.ptx", a), ("b.ptx", &b)]).unwrap();
    assert_eq!(module.global("v").unwrap().size(), 12);
    assert_eq!(output(&device, &module.kernel("k").unwrap(), 0), 0);
    let c = ".visible .global .align 4 .b8 v[16] = {9};";
    let module = linked(&device, &[("a.ptx", a), ("b.ptx", &b), ("c.ptx", c)]).unwrap();
    let var = module.global("v").unwrap();
    assert_eq!((var.size(), var.read::<u8>(1).unwrap()), (16, vec![9]));
    let small = ".visible .global .align 4 .b8 v[8];";
    let found = errors(linked(&device, &[("b.ptx", &b), ("c.ptx", small)]));
    assert_eq!(found[0].0, "b.ptx");
    assert!(
        found[0].1.contains("12 bytes") && found[0].1.contains('8'),
        "{found:?}"
    );
}

#[test]
fn dynamic_shared_memory_is_one() {
    let device = Device::new().unwrap();
    let a = format!(
        ".extern .shared .align 16 .b8 mine[]; .extern .func (.reg .u32 r) f();\n{}",
        kernel_body(
            "k",
            &format!("mov.u32 %r2, 77; st.shared.u32 [mine+4], %r2; {CALL_F}")
        )
    );
    let b = ".extern .shared .align 4 .u32 other[];
        .visible .func (.reg .u32 r) f() { ld.shared.u32 r, [other+4]; ret; }";
    let module = linked(&device, &[("a.ptx", &a), ("b.ptx", b)]).unwrap();
    assert_eq!(output(&device, &module.kernel("k").unwrap(), 64), 77);
}

#[test]
fn all_undefined_references_are_told() {
    let device = Device::new().unwrap();
    let a = format!(
        ".extern .func (.reg .u32 r) f(); .extern .func unused(); .extern .global .u32 v;\n{}",
        kernel_body("k", &format!("{CALL_F} ld.global.u32 %r2, [v];"))
    );
    let b = format!(
        ".extern .func (.reg .u32 r) g();
        .extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n{}{}",
        constant("", "f", 1),
        kernel_body("l", "call (%r1), g, ();")
    );
    let found = linked(&device, &[("a.ptx", &a), ("b.ptx", &b)]);
    let text = found.as_ref().unwrap_err().to_string();
    let mut messages = errors(found);
    messages.sort();
    let expected = [("a.ptx", "f"), ("a.ptx", "v"), ("b.ptx", "g")];
    let expected =
        expected.map(|(file, name)| (file.to_owned(), format!("undefined reference to '{name}'")));
    assert_eq!(messages, expected);
    assert!(text.contains("`f` of b.ptx is private to it"), "{text}");
}

#[test]
fn declarations_must_agree() {
    let device = Device::new().unwrap();
    let cases = [
        (
            ".extern .func f(.param .b32 x);",
            ".visible .func f(.param .b64 x) { ret; }",
            "different parameters",
        ),
        (
            ".extern .func f(.param .b32 x);",
            ".visible .func f(.reg .b32 x) { ret; }",
            "different parameters",
        ),
        (
            ".extern .func f();",
            ".visible .entry f() { ret; }",
            "a kernel and a device function",
        ),
        (
            ".extern .func f();",
            ".visible .global .u32 f;",
            "a function and a variable",
        ),
        (
            ".extern .global .u32 v;",
            ".visible .const .u32 v;",
            "state spaces",
        ),
        (
            ".extern .global .u32 v[3];",
            ".visible .global .u32 v[4];",
            "12 bytes here, but 16",
        ),
        (
            ".extern .global .u16 v[];",
            ".visible .global .u32 v[4];",
            "different types",
        ),
        (
            ".visible .global .u32 v;",
            ".visible .global .u32 v;",
            "multiple definition of 'v'",
        ),
    ];
    for (a, b, expected) in cases {
        let found = errors(linked(&device, &[("a.ptx", a), ("b.ptx", b)]));
        assert!(
            matches!(found.as_slice(), [(_, message)] if message.contains(expected)),
            "{a} {b}: {found:?}"
        );
    }
    // Names apart, and what the bytes mean: these agree.
    let agree = [
        (
            ".extern .func f(.param .u32 x);",
            ".visible .func f(.param .f32 y) { ret; }",
        ),
        (".extern .global .u32 v[];", ".visible .global .u32 v[4];"),
        (".extern .shared .b8 s[];", ".extern .shared .f32 s[];"),
        (".extern .global .b32 v;", ".visible .global .u32 v;"),
    ];
    for (a, b) in agree {
        linked(&device, &[("a.ptx", a), ("b.ptx", b)]).unwrap_or_else(|err| panic!("{a}: {err}"));
    }
}

/// NVIDIA's nvJitLink links such modules, too, and prints that the prototypes do not match.
#[test]
fn results_may_be_missing_on_one_side() {
    let device = Device::new().unwrap();
    let call = "{ .param .b32 x; .param .b32 y; mov.u32 %r1, 5; st.param.b32 [x], %r1;";
    let with = format!("{call} call (y), f, (x); ld.param.b32 %r2, [y]; }} add.u32 %r1, %r1, 2;");
    let without = format!("{call} call f, (x); }} add.u32 %r1, %r1, 2;");
    let param = "(.param .b32 x)";
    let cases = [
        ("(.param .b32 r)", with.as_str(), ""),
        ("", without.as_str(), "(.param .b32 r)"),
    ];
    for (declared, statements, defined) in cases {
        let user = format!(
            ".extern .func {declared} f{param};\n{}",
            kernel_body("k", statements)
        );
        let store = if defined.is_empty() {
            ""
        } else {
            "st.param.b32 [r], 9;"
        };
        // The function has an effect, so that the call stays.
        let callee = format!(
            ".visible .global .u32 seen;
            .visible .func {defined} f{param}
            {{ .reg .b32 %a; ld.param.b32 %a, [x]; st.global.u32 [seen], %a; {store} ret; }}"
        );
        let module = linked(&device, &[("a.ptx", &user), ("b.ptx", &callee)]).unwrap();
        let warnings = module.warnings();
        let found: Vec<&str> = warnings.iter().map(|one| one.message()).collect();
        assert_eq!(found, ["the declarations of `f` have different results"]);
        assert_eq!(output(&device, &module.kernel("k").unwrap(), 0), 7);
    }
    // The callee puts a large result into memory that its caller has for it.
    let large = "(.param .align 8 .b8 r[4096])";
    let (user, callee) = (
        format!(".extern .func {large} f{param};"),
        format!(".visible .func f{param} {{ ret; }}"),
    );
    let found = errors(linked(&device, &[("a.ptx", &user), ("b.ptx", &callee)]));
    assert!(found[0].1.contains("different parameters"), "{found:?}");
}

#[test]
fn address_sizes_must_agree_and_the_target_is_the_highest() {
    let device = Device::new().unwrap();
    let header =
        |sm: u32, bits: u32| format!(".version 7.0\n.target sm_{sm}\n.address_size {bits}\n");
    let found = link(
        &device,
        [("a.ptx", header(52, 64)), ("b.ptx", header(52, 32))],
    );
    let found = errors(found);
    assert!(found[0].1.contains("64 and of 32 bits"), "{found:?}");
    let modules = [
        ("a.ptx", header(52, 64)),
        ("b.ptx", header(80, 64)),
        ("c.ptx", header(75, 64)),
    ];
    assert_eq!(link(&device, modules).unwrap().target().number, 80);
    assert!(matches!(
        Linker::new().link(&device),
        Err(Error::Usage { .. })
    ));
}

#[test]
fn each_module_keeps_its_places() {
    let device = Device::new().unwrap();
    let user = format!(
        ".extern .func (.reg .u32 r) f();\n{}",
        kernel_body("k", CALL_F)
    );
    // Syntax, an unknown name in a body, and a fault, each in the second module.
    let found = errors(linked(
        &device,
        &[("a.ptx", &user), ("b.ptx", "\n.nonsense;")],
    ));
    assert_eq!(found[0].0, "b.ptx");

    let bad = ".visible .func (.reg .u32 r) f()\n{\n mov.u32 r, nothing;\n ret;\n}";
    let module = linked(&device, &[("a.ptx", &user), ("b.ptx", bad)]).unwrap();
    match module.kernel("k") {
        Err(Error::Invalid(list)) => {
            let one = list.iter().next().unwrap();
            assert_eq!((one.file(), one.position().unwrap().0), ("b.ptx", 6));
            assert!(one.to_string().contains("--> b.ptx:6:"), "{one}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(module.check().iter().count(), 1);

    let traps =
        ".file 1 \"b.cu\"\n.visible .func (.reg .u32 r) f()\n{\n .loc 1 9 5\n trap;\n ret;\n}";
    let other_file = format!(".file 1 \"a.cu\"\n{user}");
    let module = linked(&device, &[("a.ptx", &other_file), ("b.ptx", traps)]).unwrap();
    let kernel = module.kernel("k").unwrap();
    for engine in [Engine::Jit, Engine::Interp] {
        let out = device.alloc_from(&[0u32]).unwrap();
        match kernel.launch().engine(engine).arg(&out).run() {
            Err(Error::Launch(failure)) => {
                assert_eq!(
                    (failure.file(), failure.position().unwrap().0),
                    ("b.ptx", 8)
                );
                let source = failure.source_position().unwrap();
                assert_eq!((source.0.as_str(), source.1), ("b.cu", 9));
                assert!(failure.to_string().contains("--> b.ptx:8:"), "{failure}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn messages_that_concern_two_modules_show_both() {
    let device = Device::new().unwrap();
    let (a, b) = (constant(".visible", "f", 1), constant(".visible", "f", 2));
    let text = linked(&device, &[("a.ptx", &a), ("b.ptx", &b)])
        .unwrap_err()
        .to_string();
    assert!(text.contains("--> b.ptx:4:"), "{text}");
    assert!(text.contains("a.ptx:4:"), "{text}");
    assert!(text.contains("first defined here"), "{text}");
}

#[test]
fn a_single_module_may_lack_what_other_kernels_need() {
    let device = Device::new().unwrap();
    let text = format!(
        ".extern .func (.reg .u32 r) f(); .extern .global .u32 v;\n{}\n{}\n{}",
        kernel_body("calls", CALL_F),
        kernel_body("loads", "ld.global.u32 %r1, [v];"),
        kernel_body("fine", "mov.u32 %r1, 1;")
    );
    let module = Module::from_source(&device, "a.ptx", ptx(&text)).unwrap();
    assert_eq!(output(&device, &module.kernel("fine").unwrap(), 0), 1);
    for (kernel, name) in [("calls", "`f`"), ("loads", "`v`")] {
        let err = module.kernel(kernel).unwrap_err();
        assert!(matches!(err, Error::Invalid(_)), "{err:?}");
        assert!(err.to_string().contains(name), "{err}");
    }
}

#[test]
fn code_in_the_cache_is_that_of_all_modules() {
    let dir = std::env::temp_dir().join(format!("ptxjit-link-{}", std::process::id()));
    let device = || {
        let cache = ptxjit::Cache::new(&dir);
        Device::new().unwrap().with_cache(cache)
    };
    let user = format!(
        ".extern .func (.reg .u32 r) f();\n{}",
        kernel_body("k", CALL_F)
    );
    for value in [1, 2, 1] {
        let device = device();
        let other = constant(".visible", "f", value);
        let module = linked(&device, &[("a.ptx", &user), ("b.ptx", &other)]).unwrap();
        assert_eq!(output(&device, &module.kernel("k").unwrap(), 0), value);
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn addresses_of_two_sizes_are_not_linked() {
    let device = Device::new().unwrap();
    let module = |bits: u32| {
        format!(".version 7.0\n.target sm_80\n.address_size {bits}\n.visible .global .u32 v{bits};")
    };
    let sizes = [("wide", module(64)), ("narrow", module(32))];
    let found = errors(link(&device, sizes));
    assert!(
        found
            .iter()
            .any(|(_, text)| text.contains("of 64 and of 32 bits cannot be linked")),
        "{found:?}"
    );
}
