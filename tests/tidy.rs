//! Tidiness: formatting, module docs, sizes, words that have no place in the repository, tables
//! that are generated.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ptxjit_tests::{files_below, root};

/// Longest line, in characters. Formatting keeps code well below; this is for texts, and for
/// figures in comments.
const MAX_WIDTH: usize = 150;

/// Longest line of a comment, in characters.
const MAX_COMMENT: usize = 100;

/// Longest file, tests apart, without a reason in its head comment.
const MAX_LINES: usize = 600;

/// Lines that one in a hundred functions of the vectorizer and the code generator may exceed:
/// tables of cases, for the most part.
const LONG_FUNCTION: usize = 60;

/// Lines that at least half of them keep to.
const MEDIAN_FUNCTION: usize = 10;

fn sources() -> Vec<PathBuf> {
    let root = root();
    ["crates", "tests", "bench"]
        .iter()
        .flat_map(|folder| files_below(&root.join(folder), ".rs"))
        .collect()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|err| panic!("{}: {err}", path.display()))
}

fn assert_none(problems: &[String]) {
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

#[test]
fn formatted() {
    let output = Command::new(env!("CARGO"))
        .args(["fmt", "--all", "--check"])
        .current_dir(root())
        .output();
    let output = output.expect("cargo fmt can be started");
    assert!(
        output.status.success(),
        "run `cargo fmt --all`:\n{}",
        String::from_utf8_lossy(&output.stdout)
    );
}

#[test]
fn every_file_says_what_it_is() {
    let missing = sources()
        .into_iter()
        .filter(|path| !read(path).starts_with("//!"));
    assert_none(
        &missing
            .map(|path| format!("{} does not start with a `//!` comment", path.display()))
            .collect::<Vec<_>>(),
    );
}

#[test]
fn lines_and_files_have_limits() {
    let mut problems = Vec::new();
    for path in sources() {
        let text = read(&path);
        for (idx, line) in text.lines().enumerate() {
            let limit = match line.trim_start().starts_with("//") {
                true => MAX_COMMENT,
                false => MAX_WIDTH,
            };
            if line.chars().count() > limit {
                problems.push(format!(
                    "{}:{}: more than {limit} characters",
                    path.display(),
                    idx + 1
                ));
            }
        }
        let code = text
            .split("#[cfg(test)]\nmod tests {")
            .next()
            .unwrap_or(&text)
            .lines()
            .count();
        let head = text
            .lines()
            .take_while(|line| line.starts_with("//!"))
            .collect::<String>();
        let is_test = path.file_stem().is_some_and(|name| name == "tests")
            || path.components().any(|part| part.as_os_str() == "tests");
        if code > MAX_LINES && !is_test && !head.contains("long because") {
            problems.push(format!(
                "{}: {code} lines; split it, or say \"long because …\" in its head",
                path.display()
            ));
        }
    }
    assert_none(&problems);
}

/// Lines of each function that formatted code defines, with its name.
fn functions(text: &str) -> Vec<(usize, &str)> {
    let lines: Vec<&str> = text.lines().collect();
    let starts = lines.iter().enumerate().filter_map(|(at, line)| {
        let code = line.trim_start();
        let qualifiers = ["pub(crate) ", "pub(super) ", "pub ", "const ", "unsafe "];
        let code = qualifiers
            .iter()
            .fold(code, |code, word| code.strip_prefix(word).unwrap_or(code));
        let code = match code.strip_prefix("pub(in ") {
            Some(rest) => rest.split_once(") ")?.1,
            None => code,
        };
        let name = code.strip_prefix("fn ")?.split(['(', '<']).next()?;
        Some((at, &line[..line.len() - line.trim_start().len()], name))
    });
    let ends = starts.filter_map(|(at, indent, name)| {
        let is_end = |line: &&str| line.strip_prefix(indent) == Some("}");
        let length = lines[at..].iter().position(is_end);
        let is_on_one_line = lines[at].ends_with('}');
        Some((if is_on_one_line { 0 } else { length? } + 1, name))
    });
    ends.collect()
}

#[test]
fn functions_of_the_compiler_are_short() {
    let mut all: Vec<(usize, String)> = Vec::new();
    for path in sources() {
        let of_compiler = ["crates/vectorize/src", "crates/codegen/src"];
        if of_compiler
            .iter()
            .any(|folder| path.starts_with(root().join(folder)))
        {
            let text = read(&path);
            let named =
                |(length, name): (usize, &str)| (length, format!("{}: {name}", path.display()));
            all.extend(functions(&text).into_iter().map(named));
        }
    }
    all.sort_unstable_by(|a, b| b.cmp(a));
    assert!(all.len() > 1000, "{} functions were found", all.len());
    let median = all[all.len() / 2].0;
    assert!(
        median <= MEDIAN_FUNCTION,
        "half of the functions have {median} lines or more"
    );
    let n_long = all
        .iter()
        .take_while(|(length, _)| *length > LONG_FUNCTION)
        .count();
    assert!(
        n_long * 100 <= all.len(),
        "more than one in a hundred functions have over {LONG_FUNCTION} lines: {:#?}",
        &all[..n_long]
    );
}

#[test]
fn no_loose_ends() {
    // Put together here, so that this file does not find itself.
    let words = ["TO DO", "FIX ME", "XX X", "todo !(", "unimplemented !("]
        .map(|word| word.replace(' ', ""));
    let mut problems = Vec::new();
    for path in sources() {
        for (idx, line) in read(&path).lines().enumerate() {
            for word in words.iter().filter(|word| line.contains(word.as_str())) {
                // A known wrong result is asserted with this word in a test, and an issue's number.
                if word.starts_with("FIX") && line.contains('#') {
                    continue;
                }
                problems.push(format!("{}:{}: {word}", path.display(), idx + 1));
            }
            if line.trim_start().starts_with("#[ignore") {
                problems.push(format!("{}:{}: an ignored test", path.display(), idx + 1));
            }
        }
    }
    assert_none(&problems);
}

/// A library, and the only crate that may name it.
const OWNERS: &[(&str, &str)] = &[
    ("pest", "frontend"),
    ("pest_derive", "frontend"),
    ("cranelift-codegen", "codegen"),
    ("cranelift-frontend", "codegen"),
    ("cranelift-jit", "codegen"),
    ("cranelift-module", "codegen"),
    ("cranelift-native", "codegen"),
    ("regalloc2", "codegen"),
    ("target-lexicon", "codegen"),
    ("iced-x86", "codegen"),
    ("rayon", "runtime"),
    ("corosensei", "runtime"),
];

/// A crate of the engine, and the crates of the engine that it may depend on. Tests of a crate may
/// also use `testing`.
const MAY_USE: &[(&str, &[&str])] = &[
    ("ir", &[]),
    ("testing", &["ir"]),
    ("frontend", &["ir"]),
    ("device", &["ir", "tile"]),
    ("tile", &[]),
    ("interp", &["ir", "device", "vectorize"]),
    ("abi", &["ir"]),
    ("passes", &["ir"]),
    ("vectorize", &["ir", "abi", "passes"]),
    ("codegen", &["ir", "abi", "passes", "vectorize"]),
    // Neither Cranelift nor any part of the compiler: what compiled code needs is in `abi`.
    ("runtime", &["ir", "abi", "device"]),
    (
        "ptxjit",
        &[
            "ir", "abi", "frontend", "passes", "codegen", "device", "interp", "runtime",
        ],
    ),
];

/// The names of a manifest's dependencies, and the section in which each stands.
fn dependencies(manifest: &str) -> Vec<(String, String)> {
    let mut section = String::new();
    let mut found = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line.to_owned();
        } else if section.contains("dependencies") {
            let name = line.split(['.', '=', ' ']).next().unwrap_or("");
            found.push((section.clone(), name.to_owned()));
        }
    }
    found
}

#[test]
fn crates_keep_their_boundaries() {
    let mut problems = Vec::new();
    for manifest in files_below(&root().join("crates"), "Cargo.toml") {
        let package = manifest.parent().and_then(Path::file_name);
        let package = package.unwrap_or_default().to_string_lossy().into_owned();
        let may_use = MAY_USE.iter().find(|(name, _)| *name == package);
        for (section, name) in dependencies(&read(&manifest)) {
            let owner = OWNERS.iter().find(|(krate, _)| *krate == name);
            if let Some((krate, owner)) = owner.filter(|(_, owner)| *owner != package) {
                problems.push(format!("`{package}`: only `{owner}` may name {krate}"));
            }
            let Some((_, allowed)) = may_use else {
                continue;
            };
            let Some(ours) = name.strip_prefix("ptxjit-") else {
                continue;
            };
            let for_tests = ours == "testing" && section == "[dev-dependencies]";
            if !allowed.contains(&ours) && !for_tests {
                problems.push(format!("`{package}` may not depend on `{ours}`"));
            }
        }
    }
    assert_none(&problems);
}

/// Other libraries that crates of the engine may use, see the reasons in their manifests.
const LIBRARIES: &[&str] = &[
    "annotate-snippets",
    "arc-swap",
    "bytemuck",
    "cpp_demangle",
    "cranelift-entity",
    "libc",
    "parking_lot",
    "rustc-demangle",
    "rustc-hash",
    "serde",
    "serde_json",
    "sha2",
    "smallvec",
    "thiserror",
    "wasmtime-internal-jit-icache-coherence",
];

#[test]
fn the_engine_uses_known_libraries() {
    let mut problems = Vec::new();
    for (package, _) in MAY_USE {
        let manifest = root().join("crates").join(package).join("Cargo.toml");
        for (section, name) in dependencies(&read(&manifest)) {
            let is_known = name.is_empty()
                || name.starts_with("ptxjit")
                || LIBRARIES.contains(&name.as_str())
                || OWNERS.iter().any(|(krate, _)| *krate == name)
                || section == "[dev-dependencies]";
            if !is_known {
                problems.push(format!("`{package}` uses {name}, which is not listed here"));
            }
        }
    }
    assert_none(&problems);
}

/// A rule of ARCHITECTURE.md: in these folders no code names this, save in these files.
struct Absence {
    folders: &'static [&'static str],
    words: &'static [&'static str],
    but_in: &'static [&'static str],
}

const ABSENCES: &[Absence] = &[
    // The instruction tables name no CLIF type, the vectorizer nothing of Cranelift but entity
    // maps.
    Absence {
        folders: &[
            "frontend",
            "ir",
            "passes",
            "vectorize",
            "abi",
            "runtime",
            "device",
            "interp",
        ],
        words: &["cranelift_codegen", "cranelift_frontend", "cranelift_jit"],
        but_in: &[],
    },
    // Compiling depends on nothing but its inputs.
    Absence {
        folders: &["ir", "passes", "vectorize", "codegen"],
        words: &[
            "std::env",
            "env!(",
            "SystemTime",
            "HashMap::new",
            "available_parallelism",
        ],
        but_in: &["ir/src/eval/tests/vectors.rs"],
    },
    // The scalar compiler knows no gang width.
    Absence {
        folders: &["ir", "frontend", "passes"],
        words: &["gang_width", "gang: u32"],
        but_in: &[],
    },
    // What is decided about emission is decided before there is anything emitted.
    Absence {
        folders: &["codegen/decisions"],
        words: &["cranelift_codegen", "cranelift_frontend", "Lower<"],
        but_in: &[],
    },
    // Decisions and lowering do not know how long CLIF's vectors are.
    Absence {
        folders: &["codegen/decisions", "codegen/lower"],
        words: &["I8X16", "I16X8", "I32X4", "I64X2", "F32X4", "F64X2"],
        but_in: &[],
    },
    // The vectorizer's prices and bounds stand in one table.
    Absence {
        folders: &["vectorize"],
        words: &["const MOST", "const DEPTH", "const COST", "const PER_"],
        but_in: &["vectorize/src/cost.rs"],
    },
    // Machine code is read in few places.
    Absence {
        folders: &["codegen"],
        words: &["iced_x86"],
        but_in: &[
            "codegen/src/wide/ymm.rs",
            "codegen/src/wide/lane_shifts.rs",
            "codegen/src/wide/masked.rs",
            "codegen/src/wide/operands.rs",
        ],
    },
    // Device accesses may fault, and may be misaligned; shuffles read memory of our own.
    Absence {
        folders: &["codegen"],
        words: &["with_notrap(", "with_aligned(", "MemFlags::trusted"],
        but_in: &["codegen/src/lower/compute/shuffles.rs"],
    },
    // The oracle shares nothing with compiled code, and reads plans only to run by them.
    Absence {
        folders: &["interp", "device"],
        words: &["ptxjit_codegen", "ptxjit_vectorize", "ptxjit_abi"],
        but_in: &[
            "interp/src/planned/mod.rs",
            "interp/src/planned/held.rs",
            "interp/src/tests/planned.rs",
        ],
    },
];

#[test]
fn what_architecture_rules_out_is_absent() {
    let mut problems = Vec::new();
    for absence in ABSENCES {
        for folder in absence.folders {
            let (package, below) = folder.split_once('/').unwrap_or((folder, ""));
            let folder = root().join("crates").join(package).join("src").join(below);
            for path in files_below(&folder, ".rs") {
                let name = path.display().to_string();
                if absence.but_in.iter().any(|file| name.ends_with(file)) {
                    continue;
                }
                for (idx, line) in read(&path).lines().enumerate() {
                    let code = line.split("//").next().unwrap_or(line);
                    for word in absence.words.iter().filter(|word| code.contains(**word)) {
                        problems.push(format!("{name}:{}: {word}", idx + 1));
                    }
                }
            }
        }
    }
    assert_none(&problems);
}

#[test]
fn crates_without_unsafe_forbid_it() {
    let safe = [
        "ir",
        "frontend",
        "passes",
        "vectorize",
        "interp",
        "device",
        "cli",
        "image",
        "persona",
    ];
    let missing = safe.iter().filter(|name| {
        let lib = root().join("crates").join(name).join("src/lib.rs");
        !read(&lib).contains("#![forbid(unsafe_code)]")
    });
    assert_none(
        &missing
            .map(|name| format!("`{name}` does not forbid unsafe code"))
            .collect::<Vec<_>>(),
    );
}

/// In these crates a `match` over instructions, ops or types decides for all of them; a function
/// that recognizes some says so.
#[test]
fn matches_are_exhaustive() {
    let missing = ["ir", "passes", "vectorize", "codegen"]
        .iter()
        .filter(|name| {
            let lib = root().join("crates").join(name).join("src/lib.rs");
            !read(&lib).contains("#![deny(clippy::wildcard_enum_match_arm)]")
        });
    assert_none(
        &missing
            .map(|name| format!("`{name}` does not deny wildcards over enums"))
            .collect::<Vec<_>>(),
    );
}

#[test]
fn the_grammar_names_no_instruction() {
    let grammar = read(&root().join("grammar/ptx.pest"));
    let mut problems = Vec::new();
    for path in files_below(&root().join("crates/frontend/src/isa"), ".rs") {
        let text = read(&path);
        for row in text.split("inst(\"").skip(1) {
            let name = row.split('"').next().unwrap_or("");
            if grammar.contains(&format!("\"{name}\"")) {
                problems.push(format!("the grammar names `{name}`"));
            }
        }
    }
    assert_none(&problems);
}

#[test]
fn architecture_fits_its_page() {
    let words = read(&root().join("ARCHITECTURE.md"))
        .split_whitespace()
        .count();
    assert!(
        words <= 1500,
        "ARCHITECTURE.md has {words} words, more than 1,500"
    );
}

#[test]
fn links_in_documents_lead_somewhere() {
    let root = root();
    let mut problems = Vec::new();
    let at_top = ["README.md", "CHANGELOG.md", "ARCHITECTURE.md"].map(|name| root.join(name));
    let documents = files_below(&root.join("docs"), ".md");
    for document in at_top.into_iter().chain(documents) {
        let name = document.display();
        let text = read(&document);
        let folder = document.parent().unwrap_or(&root);
        // Every other piece is code, in which the same characters are no link.
        let prose = text.split("```").step_by(2);
        let targets = prose.flat_map(|piece| {
            let after = piece.split("](").skip(1);
            after.filter_map(|rest| rest.split(')').next())
        });
        for target in targets {
            let path = target.split('#').next().unwrap_or("");
            if !path.is_empty() && !path.contains("://") && !folder.join(path).exists() {
                problems.push(format!("{name}: {target} does not exist"));
            }
        }
    }
    assert_none(&problems);
}

#[test]
fn the_readme_shows_the_instruction_table() {
    let path = root().join("README.md");
    let text = read(&path);
    let (begin, end) = (
        "<!-- generated by `ptxjit isa` -->\n",
        "<!-- end of generated text -->",
    );
    let (before, rest) = text
        .split_once(begin)
        .expect("the README has a place for the table");
    let (old, after) = rest.split_once(end).expect("the place has an end");
    let new = format!("\n{}\n", ptxjit_cli::isa_table());
    if std::env::var_os("PTXJIT_BLESS").is_some_and(|value| value == "1") {
        fs::write(&path, format!("{before}{begin}{new}{end}{after}"))
            .expect("the README can be written");
    } else {
        assert!(
            old == new,
            "the table in README.md is out of date; run this test with PTXJIT_BLESS=1"
        );
    }
}

/// The layers of `codegen::lower`, the lowest first; other files are above.
const LAYERS: [&str; 5] = ["stubs.rs", "state", "access", "compute", "flow"];

/// Most files of lowering that call each other in a cycle: values are read from predicates, homes
/// and extended indices, which are computed from values.
const MOST_IN_CYCLE: usize = 4;

/// A file of lowering: its layer, the methods that it defines and those that it calls.
struct Lowering {
    path: String,
    layer: usize,
    defines: BTreeSet<String>,
    calls: BTreeSet<String>,
}

impl Lowering {
    fn read(folder: &Path, path: &Path) -> Lowering {
        let inner = path.strip_prefix(folder).expect("it lies in the folder");
        let layer = LAYERS.iter().position(|layer| inner.starts_with(layer));
        let text = read(path);
        let code = text.lines().map(|line| line.split("//").next().unwrap());
        let code: String = code.flat_map(str::split_whitespace).fold(
            String::new(),
            // The word `fn` keeps the space behind it.
            |code, word| code + word + if word == "fn" { " " } else { "" },
        );
        let names = |marks: &[&str]| -> BTreeSet<String> {
            let behind = marks.iter().flat_map(|mark| code.split(mark).skip(1));
            let name = |rest: &str| -> String {
                let is_part = |c: &char| c.is_alphanumeric() || *c == '_';
                rest.chars().take_while(is_part).collect()
            };
            behind.map(name).collect()
        };
        Lowering {
            path: inner.display().to_string(),
            layer: layer.unwrap_or(LAYERS.len()),
            defines: names(&["fn "]),
            calls: names(&["self.", "lower.", "Self::", "Lower::"]),
        }
    }
}

#[test]
fn lowering_has_layers() {
    let folder = root().join("crates/codegen/src/lower");
    let files = files_below(&folder, ".rs");
    let files: Vec<Lowering> = files.iter().map(|it| Lowering::read(&folder, it)).collect();
    // A name that two files define tells nothing.
    let defined_by = |name: &String| {
        let mut all = (0..files.len()).filter(|&idx| files[idx].defines.contains(name));
        all.next().filter(|_| all.next().is_none())
    };
    let mut problems = Vec::new();
    let mut reaches = vec![vec![false; files.len()]; files.len()];
    let mut n_calls = 0;
    for (idx, file) in files.iter().enumerate() {
        for name in &file.calls {
            let Some(other) = defined_by(name) else {
                continue;
            };
            n_calls += 1;
            reaches[idx][other] = true;
            if files[other].layer > file.layer {
                let (caller, called) = (&file.path, &files[other].path);
                problems.push(format!(
                    "{caller} calls `{name}` of a layer above: {called}"
                ));
            }
        }
    }
    assert!(
        n_calls > 500,
        "only {n_calls} calls between files were found"
    );
    for via in 0..files.len() {
        for from in 0..files.len() {
            for to in 0..files.len() {
                reaches[from][to] |= reaches[from][via] && reaches[via][to];
            }
        }
    }
    for (idx, file) in files.iter().enumerate() {
        let is_in_cycle = |&other: &usize| reaches[idx][other] && reaches[other][idx];
        let cycle: Vec<usize> = (0..files.len()).filter(is_in_cycle).collect();
        if cycle.len() > MOST_IN_CYCLE && cycle[0] == idx {
            let names: Vec<&str> = cycle.iter().map(|&it| files[it].path.as_str()).collect();
            problems.push(format!("{} call each other: {names:?}", file.path));
        }
    }
    assert_none(&problems);
}
