//! Modules at the edges: sizes that overflow, counts by the hundred thousand, names and lines as
//! long as the file, nesting, and control flow in which everything meets everything.
//!
//! None of them has a sense, and most are wrong. What they are for is that looking at one takes
//! neither long nor much memory: each of the shapes below has, or could have, cost the square of
//! its length somewhere.

mod code;

use std::fmt::Write;

use super::rng::Rng;

/// What a module is made of: how much text there may be, and where it goes.
struct Text {
    /// Statements of the only kernel; declarations of module scope stand before it.
    items: String,
    body: String,
    limit: usize,
}

type Shape = fn(&mut Rng, &mut Text);

/// The shapes; a module mixes up to three.
const SHAPES: &[Shape] = &[
    large_objects,
    large_parameters,
    many_declarations,
    same_declaration,
    ranges,
    long_names,
    one_line,
    labels,
    random_branches,
    ladder,
    tables,
    call_tables,
    scopes,
    expressions,
    initializers,
    arguments,
    many_functions,
    many_kernels,
    unknown_names,
    unknown_instructions,
    merges,
    unwritten,
    statics,
    comments,
    files,
    braces,
    tokens,
    code::waits,
    code::spins,
    code::nested_loops,
    code::accesses,
    code::arithmetic,
    code::doubling,
    code::recursion,
    code::matrices,
];

/// The module of a seed, of about `limit` bytes at most.
pub fn module(seed: u64, limit: usize) -> String {
    let mut rng = Rng::new(seed);
    let n_shapes = 1 + rng.below(3);
    // Lengths are spread over orders of magnitude, and the longest are the most interesting.
    let limit = match rng.below(3) {
        0 => limit,
        _ => limit >> rng.below(10),
    };
    let mut items = String::new();
    let mut body = String::new();
    for _ in 0..n_shapes {
        let limit = limit / n_shapes;
        let mut text = Text {
            items: String::new(),
            body: String::new(),
            limit,
        };
        rng.pick(SHAPES)(&mut rng, &mut text);
        items += &text.items;
        body += &text.body;
    }
    let version = rng.pick(&["8.5", "7.0", "2.0"]);
    let target = rng.pick(&["sm_80", "sm_90"]);
    let head = if rng.chance(90) {
        ".version 8.5\n.target sm_90\n.address_size 64\n".to_owned()
    } else {
        format!(".version {version}\n.target {target}\n.address_size 64\n")
    };
    format!(
        "{head}{items}\n.visible .entry kernel(.param .u64 a)\n{{\n.reg .pred %p<9>;\n.reg .b32 %r<100000>;\n.reg .b64 %d<9>;\n{body}\nret;\n}}\n"
    )
}

impl Text {
    /// Adds statements made by `make` until the text is long enough.
    fn fill_body(&mut self, mut make: impl FnMut(usize) -> String) {
        let mut n = 0;
        while self.body.len() + self.items.len() < self.limit {
            self.body += &make(n);
            n += 1;
        }
    }

    /// As `fill_body`, at module scope.
    fn fill_items(&mut self, mut make: impl FnMut(usize) -> String) {
        let mut n = 0;
        while self.body.len() + self.items.len() < self.limit {
            self.items += &make(n);
            n += 1;
        }
    }
}

/// A size at some power of two.
fn size(rng: &mut Rng) -> u64 {
    let edge = 1u64 << rng.below(64);
    match rng.below(4) {
        0 => edge.wrapping_sub(1),
        1 => edge.wrapping_add(1),
        2 => u64::MAX - edge + 1,
        _ => edge,
    }
}

fn align(rng: &mut Rng) -> u64 {
    1 << rng.below(rng.clone().below(31) + 1)
}

fn dims(rng: &mut Rng) -> String {
    (0..rng.below(4))
        .map(|_| format!("[{}]", size(rng)))
        .collect()
}

const TYPES: &[&str] = &["b8", "b16", "u32", "b64", "f64", "v4 .f32", "v2 .b64"];

fn large_objects(rng: &mut Rng, text: &mut Text) {
    let count = 1 + rng.below(6);
    for n in 0..count {
        let (ty, align, dims) = (rng.pick(TYPES), align(rng), dims(rng));
        let space = rng.pick(&["shared", "global", "const", "local", "param"]);
        let range = if rng.chance(20) {
            format!("<{}>", size(rng) as u32)
        } else {
            dims
        };
        let declaration = format!(".{space} .align {align} .{ty} o{n}{range};\n");
        if matches!(*space, "local" | "param") || rng.chance(50) {
            text.body += &declaration;
        } else {
            text.items += &declaration;
        }
        let _ = writeln!(text.body, "ld.{space}.b8 %r1, [o{n}+{}];", size(rng) as i64);
    }
}

/// `.func f(.param .b8 x[1099511627776])` and calls of it.
fn large_parameters(rng: &mut Rng, text: &mut Text) {
    let (align, size) = (align(rng).min(128), size(rng).min(size(rng)));
    let (ty, n) = (rng.pick(&["b8", "b32", "b64"]), 1 + rng.below(30));
    let formal = |name: &str, n: usize| format!(".param .align {align} .{ty} {name}{n}[{size}]");
    let formals: Vec<String> = (0..n).map(|n| formal("x", n)).collect();
    let result = formal("y", 0);
    let _ = writeln!(
        text.items,
        ".func ({result}) f({}) {{ ret; }}",
        formals.join(", ")
    );
    let _ = writeln!(text.body, "{}; {};", formal("arg", 0), formal("res", 0));
    let args = vec!["arg0"; n].join(", ");
    let call = match rng.below(3) {
        0 => format!("call (_), f, ({args});\n"),
        _ => format!("call (res0), f, ({args});\n"),
    };
    let limit = text.limit;
    text.limit = rng.below(limit + 1);
    text.fill_body(|_| call.clone());
}

fn many_declarations(rng: &mut Rng, text: &mut Text) {
    let place = rng.below(4);
    match place {
        0 => text.fill_items(|n| format!(".global .u32 g{n};\n")),
        1 => text.fill_body(|n| format!(".reg .b32 x{n};\n")),
        2 => text.fill_body(|n| format!(".local .b8 l{n}[{}];\n", n % 9 + 1)),
        _ => text.fill_body(|n| format!(".reg .b32 x{n}; .reg .b32 x<{n}>;\n")),
    }
}

fn same_declaration(rng: &mut Rng, text: &mut Text) {
    let declaration = *rng.pick(&[
        ".reg .b32 same;\n",
        ".reg .b32 same<7>;\n",
        ".local .b32 same;\n",
        "same:\n",
        ".shared .b32 same;\n",
    ]);
    if rng.chance(40) {
        let item = *rng.pick(&[
            ".global .u32 same;\n",
            ".func same;\n",
            ".extern .global .u32 same;\n",
            ".func same() { ret; }\n",
        ]);
        text.fill_items(|_| item.to_owned());
    } else {
        text.fill_body(|_| declaration.to_owned());
    }
}

fn ranges(rng: &mut Rng, text: &mut Text) {
    let count = size(rng) as u32;
    let space = *rng.pick(&[".local", ".reg", ".shared", ".global"]);
    if rng.chance(50) && space == ".global" {
        text.fill_items(|n| format!("{space} .b8 v{n}_<{count}>;\n"));
    } else {
        text.fill_body(|n| format!("{space} .b32 v{n}_<{count}>;\n"));
    }
}

fn long_names(rng: &mut Rng, text: &mut Text) {
    let c = *rng.pick(&['a', '0', '1', '_', '$']);
    let length = text.limit >> rng.below(12);
    let name: String = std::iter::once('x')
        .chain(std::iter::repeat_n(c, length))
        .collect();
    let _ = writeln!(text.body, ".reg .b32 {name};");
    text.fill_body(|n| match n % 3 {
        0 => format!("mov.b32 {name}, 1;\n"),
        1 => format!("mov.b32 %r1, {name}1;\n"),
        _ => format!("bra {name};\n"),
    });
}

/// Everything wrong, in one line.
fn one_line(rng: &mut Rng, text: &mut Text) {
    let word = *rng.pick(&[
        "mov.b32 x, y; ",
        "frob; ",
        "add.u32 %r1, %r2, z; ",
        "x: ",
        "ld.global.b32 q,[w]; ",
    ]);
    text.fill_body(|_| word.to_owned());
}

fn labels(rng: &mut Rng, text: &mut Text) {
    match rng.below(3) {
        0 => text.fill_body(|n| format!("L{n}:\n")),
        1 => text.fill_body(|n| format!("L{n}: bra L{n};\n")),
        _ => text.fill_body(|n| format!("@%p1 bra L{n}; L{n}:\n")),
    }
}

fn random_branches(rng: &mut Rng, text: &mut Text) {
    let count = (text.limit / 60).max(1);
    let mut seeds = rng.clone();
    text.fill_body(|n| {
        let (r, to) = (seeds.below(1 + count.min(90_000)), seeds.below(count));
        if n >= count {
            return "\n".repeat(60);
        }
        format!(
            "B{n}: mad.lo.u32 %r{r}, %r{}, 3, %r1; setp.lt.u32 %p1, %r{r}, 5; @%p1 bra B{to};\n",
            r / 2
        )
    });
}

/// Registers that all live across all labels.
fn ladder(rng: &mut Rng, text: &mut Text) {
    let count = 1 + rng.below((text.limit / 100).max(1));
    for n in 0..count.min(90_000) {
        let _ = writeln!(text.body, "mov.b32 %r{n}, {n};");
    }
    let _ = writeln!(text.body, "start:");
    text.fill_body(|n| {
        format!(
            "@%p1 bra M{n}; add.u32 %r{}, %r{}, 1; M{n}:\n",
            n % count,
            (n + 1) % count
        )
    });
    let _ = writeln!(text.body, "@%p2 bra start;");
}

fn tables(rng: &mut Rng, text: &mut Text) {
    let count = 1 + rng.below((text.limit / 12).max(1));
    for n in 0..count {
        let _ = write!(text.body, "L{n}: ");
    }
    let named = if rng.chance(50) {
        size(rng) as u32 as usize
    } else {
        count
    };
    text.fill_body(|n| format!("t{n}: .branchtargets L<{named}>; brx.idx %r1, t{n};\n"));
}

fn call_tables(rng: &mut Rng, text: &mut Text) {
    let count = 1 + rng.below((text.limit / 60).max(1));
    let mut names = Vec::new();
    for n in 0..count {
        let _ = writeln!(text.items, ".func f{n}() {{ ret; }}");
        names.push(format!("f{n}"));
    }
    let names = names.join(", ");
    if rng.chance(50) {
        let _ = writeln!(text.items, ".global .u64 table[{count}] = {{{names}}};");
    } else {
        let _ = writeln!(text.body, "table: .calltargets {names};");
    }
    text.fill_body(|_| "call %d1, table;\n".to_owned());
}

fn scopes(rng: &mut Rng, text: &mut Text) {
    let depth = text.limit >> rng.below(12);
    let inner = *rng.pick(&["", ".reg .b32 q; ", "q: ", "mov.b32 %r1, %r2; "]);
    let depth = depth / (2 + inner.len());
    text.body += &format!("{{ {inner}").repeat(depth);
    text.fill_body(|_| "mov.b32 %r1, nowhere; ".to_owned());
    text.body += &"}".repeat(depth);
}

fn expressions(rng: &mut Rng, text: &mut Text) {
    let length = text.limit >> rng.below(12);
    let (open, close) = *rng.pick(&[
        ("(", ")"),
        ("-", ""),
        ("!", ""),
        ("~", ""),
        ("1+", ""),
        ("1?2:", ""),
        ("1,", ""),
        ("{", "}"),
        ("[", "]"),
    ]);
    let count = length / (open.len() + close.len());
    let expression = format!("{}1{}", open.repeat(count), close.repeat(count));
    match rng.below(3) {
        0 => text.fill_body(|_| format!("mov.b32 %r1, {expression};\n")),
        1 => text.fill_items(|n| format!(".global .u32 e{n}[] = {{{expression}}};\n")),
        _ => text.fill_body(|_| format!("ld.global.b32 %r1, [%d1+{expression}];\n")),
    }
}

fn initializers(rng: &mut Rng, text: &mut Text) {
    let values = ["1", "-1", "kernel", "generic(z)", "0xff(z)", "1.5"];
    let value = *rng.pick(&values);
    let dims = dims(rng);
    let _ = write!(
        text.items,
        ".global .u32 z; .global .{} init{dims}[] = {{",
        rng.pick(&["u8", "u32", "u64"])
    );
    text.fill_items(|_| format!("{value}, "));
    let _ = writeln!(text.items, "{value}}};");
}

fn arguments(rng: &mut Rng, text: &mut Text) {
    let count = 1 + rng.below((text.limit / 40).max(1));
    let formals: Vec<String> = (0..count)
        .map(|n| format!(".param .align 8 .b8 x{n}[{}]", 1 + rng.below(300)))
        .collect();
    let actuals = vec!["q"; count].join(",");
    let _ = writeln!(text.items, ".func f({}) {{ ret; }}", formals.join(","));
    text.body += ".param .align 8 .b8 q[8];\n";
    text.fill_body(|_| format!("call f, ({actuals});\n"));
}

fn many_functions(rng: &mut Rng, text: &mut Text) {
    match rng.below(3) {
        0 => text.fill_items(|n| format!(".func f{n}() {{ ret; }}\n")),
        1 => text.fill_items(|n| {
            format!(
                ".func f{n}() {{ .shared .b8 s[8]; call f{}; ret; }}\n",
                n.saturating_sub(1)
            )
        }),
        _ => text.fill_items(|n| {
            format!(".func f{n}(.param .b8 x[512]);\n.func g{n}();\n.alias g{n}, f{n};\n")
        }),
    }
    text.body += "call f0;\n";
}

fn many_kernels(rng: &mut Rng, text: &mut Text) {
    text.items +=
        ".shared .b8 big[30000];\n.func leaf() { .reg .b32 r; ld.shared.b32 r, [big]; ret; }\n";
    let stride = 1 + rng.below(3);
    text.fill_items(|n| match n % 2 {
        0 => format!(
            ".func f{n}() {{ call {}; ret; }}\n",
            if n < 2 * stride {
                "leaf".to_owned()
            } else {
                format!("f{}", n - 2 * stride)
            }
        ),
        _ => format!(
            ".entry e{n}() {{ .shared .b8 s[20000]; call f{}; ret; }}\n",
            n - 1
        ),
    });
}

fn unknown_names(rng: &mut Rng, text: &mut Text) {
    let width = 1 + rng.below(63);
    text.limit /= 2;
    text.fill_body(|n| format!(".reg .b32 n{n:0width$};\n"));
    text.limit *= 2;
    text.fill_body(|n| format!("mov.b32 %r1, m{n:0width$};\n"));
}

fn unknown_instructions(rng: &mut Rng, text: &mut Text) {
    let words = [
        "ad.u32",
        "add.u33",
        "mov.b32.x",
        "ld.globl.b32",
        "mma.sync.aligned",
        "tex.1d",
        "add.u32.u32",
    ];
    let word = *rng.pick(&words);
    text.fill_body(|n| format!("{word}{} %r1, %r2;\n", n % 10));
}

/// Diamonds before which many registers are written, and behind which they are read.
fn merges(rng: &mut Rng, text: &mut Text) {
    let count = 1 + rng.below((text.limit / 40).clamp(1, 90_000));
    text.limit /= 2;
    text.fill_body(|n| format!("@%p1 bra D{n}; mov.b32 %r{}, {n}; D{n}:\n", n % count));
    text.limit *= 2;
    text.fill_body(|n| format!("st.global.b32 [%d1], %r{};\n", n % count));
}

fn unwritten(_: &mut Rng, text: &mut Text) {
    text.fill_body(|n| format!("add.u32 %r{}, %r{}, 1;\n", 99_999 - n % 50_000, n % 50_000));
}

fn statics(_: &mut Rng, text: &mut Text) {
    text.fill_body(|n| format!(".global .u32 s{n} = {n}; st.global.b32 [s{n}], %r1;\n"));
}

fn comments(rng: &mut Rng, text: &mut Text) {
    let comment = *rng.pick(&["/**/", "//\n", "\n", "/* x */ ;", "# 1 \"a\"\n", "/", "\t"]);
    let items = rng.chance(50);
    text.body += "\n";
    if items {
        text.fill_items(|_| comment.to_owned());
    } else {
        text.fill_body(|_| comment.to_owned());
    }
}

fn files(rng: &mut Rng, text: &mut Text) {
    text.limit /= 2;
    text.fill_items(|n| format!(".file {n} \"f{n}.cu\"\n"));
    text.limit *= 2;
    let inlined = rng.chance(50);
    text.fill_body(|n| match inlined {
        false => format!(".loc {n} {n} 1\n"),
        true => format!(".loc {n} {n} 1, function_name x, inlined_at 1 {n} 1\n"),
    });
}

fn braces(rng: &mut Rng, text: &mut Text) {
    let text_of = *rng.pick(&[
        "{", "}", "(", ")", "[", "\"", "<", ";", ",", ":", "@%p1 ", ".reg ",
    ]);
    text.fill_body(|_| text_of.to_owned());
}

fn tokens(rng: &mut Rng, text: &mut Text) {
    let words = [
        "{", "}", "ret;", ".reg", ".b32", "%r1", ",", ";", "mov.b32", "(", ")", "[", "]", "1", "-",
        "L:", "@%p1", "bra", "call", ".func", "\n", "<9>", "=",
    ];
    let mut seeds = rng.clone();
    text.fill_body(|_| format!("{} ", seeds.pick(&words)));
}

#[cfg(test)]
mod tests {
    use super::module;

    #[test]
    fn a_seed_names_a_module_of_bounded_length() {
        for seed in 0..200 {
            let text = module(seed, 20_000);
            assert_eq!(text, module(seed, 20_000));
            assert!(text.len() < 60_000, "seed {seed}: {} bytes", text.len());
        }
    }
}
