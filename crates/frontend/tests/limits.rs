//! Sizes: what is too large is refused with the limit, and what is not takes no more to check than
//! what is small.

use ptxjit_frontend::source::Source;
use ptxjit_frontend::translate::Module;

const HEADER: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";

/// All that a check finds, each message with what its first label says.
fn found(body: &str) -> Vec<String> {
    let source = Source::new("a.ptx", format!("{HEADER}{body}"));
    let found = match Module::parse(source) {
        Ok(module) => module.check(),
        Err(found) => found,
    };
    let text = |d: ptxjit_frontend::diag::Diagnostic| {
        let label = d.labels.first().map_or("", |label| label.text.as_str());
        format!("{}: {label}", d.message)
    };
    found.into_iter().map(text).collect()
}

#[track_caller]
fn refused(body: &str, message: &str) {
    assert_eq!(found(body), [message]);
}

#[track_caller]
fn accepted(body: &str) {
    assert_eq!(found(body), [""; 0]);
}

/// What asking for the only kernel of a module tells.
fn program(body: &str) -> Result<ptxjit_ir::Program, String> {
    let source = Source::new("a.ptx", format!("{HEADER}{body}"));
    let module = Module::parse(source).map_err(|found| found[0].message.clone())?;
    let kernel = module.kernels().remove(0).name;
    let program = module.program(&kernel);
    program.map_err(|found| found[0].message.clone())
}

/// Instructions of all functions that the only kernel reaches.
fn n_insts(body: &str) -> usize {
    let program = program(body).unwrap_or_else(|message| panic!("{body}: {message}"));
    program
        .functions
        .values()
        .map(|func| func.insts.len())
        .sum()
}

fn call(size: u64) -> String {
    format!(
        ".func (.param .align 8 .b8 y[{size}]) f(.param .align 8 .b8 x[{size}]) {{ ret; }}
         .entry k() {{
             .param .align 8 .b8 a[{size}];
             .param .align 8 .b8 b[{size}];
             call (b), f, (a);
             ret;
         }}"
    )
}

#[test]
fn parameters_of_functions() {
    for size in [1 << 40, 1 << 32, u64::MAX] {
        for body in [
            format!(".func f(.param .b8 x[{size}]) {{ ret; }}"),
            format!(".func (.param .b8 x[{size}]) f() {{ ret; }}"),
            format!(".extern .func f(.param .b8 x[{size}]);"),
            format!(".entry k() {{ p: .callprototype _ (.param .b8 x[{size}]); ret; }}"),
        ] {
            refused(
                &body,
                &format!("`x` takes {size} bytes: at most 4294967295 bytes in `.param`")
                    .replace("18446744073709551615 bytes", "2^64 bytes or more"),
            );
        }
    }
    accepted(&call(1 << 20));
}

/// A call costs the same for every size from that on where objects stay whole.
#[test]
fn large_parameters_stay_whole() {
    let small = n_insts(&call(512));
    assert!(small < 100, "{small} instructions");
    for size in [1 << 10, 1 << 12, 1 << 16] {
        assert_eq!(n_insts(&call(size)), small, "{size} bytes");
    }
}

#[test]
fn frames() {
    let local = |size: u64| format!(".entry k() {{ .local .b8 x[{size}]; ret; }}");
    assert!(program(&local(512 << 10)).is_ok());
    let message = "the local memory of `k` takes 524289 bytes";
    assert_eq!(
        program(&local((512 << 10) + 1)).err().as_deref(),
        Some(message)
    );
    // PTX has no limit for them, and so neither has a check, up to what addresses reach.
    accepted(&local(u64::from(u32::MAX)));
    let message = "`x` takes 4294967296 bytes: at most 4294967295 bytes in `.local`";
    refused(&local(1 << 32), message);
    // With the padding that the alignment asks for it is too large as well.
    let padded = ".entry k() { .local .align 128 .b64 x[536870911]; ret; }";
    refused(padded, message);
    let padded = ".entry k() { .param .align 128 .b64 x[536870911]; ret; }";
    refused(padded, &message.replace("local", "param"));
    let many = format!(
        ".entry k() {{ {} ret; }}",
        ".local .b8 x<3000>[0];".replace("[0]", "")
    );
    assert!(program(&many).is_ok());
    let sum = ".entry k() { .local .b64 x[40000]; { .local .b64 y[40000]; } ret; }";
    let message = "the local memory of `k` takes 640000 bytes";
    assert_eq!(program(sum).err().as_deref(), Some(message));
}

#[test]
fn products_and_sums_do_not_wrap() {
    for dims in [
        "[4611686018427387904]",
        "[2147483648][2147483648]",
        "[65536][65536][65536][65536][2]",
    ] {
        for space in [".shared", ".global", ".const"] {
            let found = found(&format!("{space} .b64 x{dims};"));
            assert_eq!(found.len(), 1, "{space} {dims}: {found:?}");
            assert!(
                found[0].starts_with("`x` takes 2^64 bytes or more: at most "),
                "{found:?}"
            );
        }
        let found = found(&format!(".entry k() {{ .local .b64 x{dims}; ret; }}"));
        assert!(
            found[0].starts_with("`x` takes 2^64 bytes or more: at most "),
            "{found:?}"
        );
    }
    // The members of a range add up, with their alignment.
    refused(
        ".entry k() { .local .align 65536 .b8 x<65536>[65537]; ret; }"
            .replace("[65537]", "")
            .as_str(),
        "`x` takes 4294967296 bytes: at most 4294967295 bytes in `.local`",
    );
    accepted(".global .b8 x[140737488355328];");
    refused(
        ".global .b8 x[140737488355329];",
        "`x` takes 140737488355329 bytes: at most 140737488355328 bytes in `.global`",
    );
}

#[test]
fn shared_of_a_kernel() {
    let kernel = |size: u64| {
        format!(
            ".shared .align 8 .b8 x[{size}];
             .func f() {{ .reg .b32 r; ld.shared.b32 r, [x]; ret; }}
             .entry k() {{ .shared .b32 y; call f; ret; }}"
        )
    };
    accepted(&kernel(49148));
    assert!(program(&kernel(49148)).is_ok());
    refused(
        &kernel(49149),
        "the `.shared` variables of kernel `k` take 49156 bytes: the limit is 49152 bytes",
    );
    // What no kernel names does not count, and kernels do not add up.
    accepted(".shared .b8 x[100000]; .entry k() { ret; }");
    accepted(
        ".shared .b8 x[49152]; .shared .b8 y[49152];
         .entry k() { .reg .b32 r; ld.shared.b32 r, [x]; ret; }
         .entry l() { .reg .b32 r; ld.shared.b32 r, [y]; ret; }",
    );
    // Two variables of 2 GiB would overlap if sizes were taken modulo 2^32.
    let two = ".shared .b8 x[2147483648]; .shared .b8 y[2147483648];
               .entry k() { .reg .b32 r; ld.shared.b32 r, [x]; ld.shared.b32 r, [y]; ret; }";
    let message = "the `.shared` variables of kernel `k` take 4294967296 bytes";
    assert_eq!(program(two).err().as_deref(), Some(message));
}

#[test]
fn constants_of_a_module() {
    accepted(".const .b8 x[65536];");
    accepted(".const .b8 x[1]; .const .b64 y[8191];");
    refused(
        ".const .b8 x[65537];",
        "`x` takes 65537 bytes: at most 65536 bytes in `.const`",
    );
    let message = |n: u32| {
        format!("the `.const` variables of the module take {n} bytes: at most 65536 bytes")
    };
    refused(".const .b8 x[65535]; .const .b8 y[2];", &message(65537));
    refused(
        ".const .b8 x[1]; .const .b64 y[8191]; .const .b8 z;",
        &message(65537),
    );
    refused(".const .b8 x[9]; .const .b64 y[8191];", &message(65544));
    refused(
        ".const .b8 x[65535]; .entry k() { .const .b8 y[2]; ret; }",
        &message(65537),
    );
    let words = vec!["1"; 16385].join(", ");
    refused(
        &format!(".const .b32 x[] = {{{words}}};"),
        "`x` takes 65540 bytes: at most 65536 bytes in `.const`",
    );
}

#[test]
fn counts() {
    accepted(".global .b8 x<65536>;");
    refused(
        ".global .b8 x<65537>;",
        "ranges `name<N>` declare 65537 variables here: at most 65536",
    );
    let many = ".global .b8 a<40000>; .global .b8 b<40000>;";
    refused(
        many,
        "ranges `name<N>` declare 80000 variables here: at most 65536",
    );
    let scopes = |n| format!(".entry k() {{ {} ret; {} }}", "{".repeat(n), "}".repeat(n));
    accepted(&scopes(2000));
    refused(&scopes(2001), "scopes are nested more than 2000 deep: ");
}

/// Structures that calls pass word by word.
#[test]
fn words_of_calls() {
    let calls = |n: usize| {
        format!(
            ".func f(.param .b32 x[32]) {{ ret; }}
             .entry k() {{ .param .b32 q[32]; {} ret; }}",
            "call f, (q);\n".repeat(n)
        )
    };
    let results = |n: usize| {
        format!(
            ".func (.param .b32 y[32]) f() {{ ret; }}
             .entry k() {{ .param .b32 q[32]; {} ret; }}",
            "call (q), f;\n".repeat(n)
        )
    };
    let message = "the calls of this function pass too many words";
    for text in [&calls as &dyn Fn(usize) -> String, &results] {
        assert!(program(&text(8192)).is_ok());
        assert_eq!(program(&text(8193)).err().as_deref(), Some(message));
        // It is correct PTX all the same.
        accepted(&text(8193));
    }
}

/// A loop of `n` places where control flow meets, before which `n` registers are written that are
/// read behind it.
fn ladder(n: usize) -> String {
    let mut body = String::new();
    for r in 0..n {
        body += &format!("mov.b32 %r{r}, {r};\n");
    }
    body += "start:\n";
    for m in 0..n {
        body += &format!("@%p bra M{m}; add.u32 %r{m}, %r{m}, 1; M{m}:\n");
    }
    for r in 0..n {
        body += &format!("st.global.b32 [%d], %r{r};\n");
    }
    format!(
        ".entry k() {{ .reg .pred %p; .reg .b64 %d; .reg .b32 %r<{n}>;\n{body}@%p bra start;\nret; }}"
    )
}

/// Values of registers where control flow meets: as many as there are registers, at each place.
#[test]
fn merges() {
    assert!(program(&ladder(200)).is_ok());
    let message = "the control flow of `k` merges too many registers at too many places";
    assert_eq!(program(&ladder(2_500)).err().as_deref(), Some(message));
    // It is correct PTX all the same.
    accepted(&ladder(2_500));
}

/// Labels that nothing branches to make no blocks, and the blocks of others are as many as there
/// are labels.
#[test]
fn labels_without_branches() {
    let blocks = |body: &str| {
        let program = program(body).unwrap_or_else(|message| panic!("{message}"));
        program
            .functions
            .values()
            .map(|func| func.blocks.len())
            .sum::<usize>()
    };
    let unused = |n: usize| {
        let labels: String = (0..n).map(|n| format!("L{n}:\n")).collect();
        format!(".entry k() {{ {labels} ret; }}")
    };
    assert_eq!(blocks(&unused(10)), blocks(&unused(20_000)));
    let used = |n: usize| {
        let labels: String = (0..n).map(|n| format!("@%p bra L{n}; L{n}:\n")).collect();
        format!(".entry k() {{ .reg .pred %p; {labels} ret; }}")
    };
    assert_eq!(blocks(&used(2_000)) - 1, 2 * (blocks(&used(1_000)) - 1));
}

/// What linking texts finds; each message with the file and line of its first label.
fn linked(texts: &[(&str, String)]) -> Vec<String> {
    let texts = texts.iter();
    let sources = texts.map(|(name, body)| Source::new(*name, format!("{HEADER}{body}")));
    let (source, found) = match Module::link(Source::join(sources)) {
        Ok(module) => return module.check().into_iter().map(|d| d.message).collect(),
        Err(refused) => (refused.source, refused.diagnostics),
    };
    let text = |d: &ptxjit_frontend::diag::Diagnostic| {
        let start = d.labels[0].span.start;
        let line = source.position(start).line;
        format!(
            "{}:{line}: {}",
            source.file_name(source.file_at(start)),
            d.message
        )
    };
    found.iter().map(text).collect()
}

/// The constants of all linked modules share one space; what means the same takes its place once.
#[test]
fn constants_of_linked_modules() {
    let constants = |what: &str, name: &str| format!("{what} .const .b8 {name}[40000];");
    let a = ("a.ptx", constants("", "x"));
    assert_eq!(
        linked(&[a.clone(), ("b.ptx", constants("", "x"))]),
        ["b.ptx:4: the `.const` variables of the module take 80000 bytes"]
    );
    let weak = constants(".weak", "x");
    assert_eq!(linked(&[("a.ptx", weak.clone()), ("b.ptx", weak)]), [""; 0]);
    let body = ".weak .func f() { .const .b8 y[40000]; ret; }".to_owned();
    assert_eq!(
        linked(&[("a.ptx", body.clone()), ("b.ptx", body.clone())]),
        [""; 0]
    );
    assert_eq!(
        linked(&[a, ("b.ptx", body)]),
        ["the `.const` variables of the module take 80000 bytes"]
    );
}

/// A kernel of one module and a function of another have one space for what is shared.
#[test]
fn shared_memory_of_linked_modules() {
    let kernel = |call: &str| {
        format!(
            ".extern .func f(); .entry k() {{ .shared .b8 x[30000]; .reg .b64 a;
             mov.u64 a, x; {call} ret; }}"
        )
    };
    let f = ".visible .func f() { .shared .b8 y[30000]; .reg .b64 a; mov.u64 a, y; ret; }";
    let link = |call: &str| linked(&[("a.ptx", kernel(call)), ("b.ptx", f.to_owned())]);
    assert_eq!(
        link("call f;"),
        ["the `.shared` variables of kernel `k` take 60000 bytes"]
    );
    assert_eq!(link(""), [""; 0]);
}

/// Suggestions end at some number of mistakes, at the same one however threads share the work.
#[test]
fn suggestions_do_not_depend_on_threads() {
    let mut body: String = (0..2_000)
        .map(|n| format!(".global .u32 variable_{n:050};"))
        .collect();
    for n in 0..300 {
        body.push_str(&format!(
            ".func f{n}() {{ .reg .b64 a; mov.u64 a, variablx_{n:050}; ret; }}\n//{}\n",
            "-".repeat(1_000)
        ));
    }
    let check = || {
        let module = Module::parse(Source::new("a.ptx", format!("{HEADER}{body}")));
        let found = module.map(|module| module.check());
        let found = found.unwrap_or_else(|found| found);
        found.iter().map(|d| d.notes.clone()).collect::<Vec<_>>()
    };
    let first = check();
    let n_suggested = first.iter().position(Vec::is_empty).expect("an end");
    assert!(
        n_suggested > 5 && first[n_suggested..].iter().all(Vec::is_empty),
        "{first:?}"
    );
    assert_eq!(check(), first);
}
