//! The command from the outside: arguments, exit codes, what goes to which stream.

mod coverage;
mod findings;
mod lost;
mod outside;
mod schedules;
mod tensor_map;
mod terminal;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// What a run of the command left behind.
struct Done {
    code: i32,
    stdout: String,
    stderr: String,
}

fn ptxjit(args: &[&str]) -> Done {
    // Tests leave the user's cache alone.
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
    ptxjit_with_cache(args, &cache)
}

fn ptxjit_with_cache(args: &[&str], cache: &Path) -> Done {
    ptxjit_with_env(args, &[("PTXJIT_CACHE_DIR", &cache.to_string_lossy())])
}

fn ptxjit_with_env(args: &[&str], env: &[(&str, &str)]) -> Done {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ptxjit"));
    Done::of(command.args(args).envs(env.iter().copied()))
}

impl Done {
    fn of(command: &mut Command) -> Done {
        let output = command.output().expect("the command can be started");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Done {
            code: output.status.code().expect("the command ends by itself"),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        }
    }

    #[track_caller]
    fn expect(self, code: i32) -> Done {
        assert_eq!(
            self.code, code,
            "stdout:\n{}\nstderr:\n{}",
            self.stdout, self.stderr
        );
        self
    }

    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|err| panic!("{err}:\n{}", self.stdout))
    }
}

fn kernels() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/kernels")
}

fn kernel(path: &str) -> String {
    kernels().join(path).to_string_lossy().into_owned()
}

/// A file of this test's own.
fn temp(name: &str, contents: &[u8]) -> String {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, contents).expect("the folder for temporary files can be written");
    path.to_string_lossy().into_owned()
}

/// `y[i] = a * x[i] + y[i]`
fn saxpy() -> String {
    kernel("cuda/saxpy/saxpy.sm80.ptx")
}

const SAXPY: [&str; 12] = [
    "--block",
    "32",
    "--grid",
    "2",
    "--arg",
    "f32[40]=arange",
    "--arg",
    "f32[40]=fill:1",
    "--arg",
    "f32=2",
    "--arg",
    "s32=40",
];

/// The kernel's parameters in order, whatever the corpus calls them.
fn saxpy_args() -> Vec<String> {
    let file = std::fs::read_to_string(kernels().join("cuda/saxpy/case.json"))
        .expect("the case can be read");
    let case: Value = serde_json::from_str(&file).expect("the case is JSON");
    let args = case["cases"][0]["launches"][0]["args"]
        .as_array()
        .expect("the launch has arguments")
        .clone();
    let arg = |arg: &Value| match (
        arg["type"].as_str().unwrap_or(""),
        arg["name"].as_str().unwrap_or(""),
    ) {
        ("buffer", "x") => SAXPY[5].to_owned(),
        ("buffer", _) => SAXPY[7].to_owned(),
        ("f32", _) => SAXPY[9].to_owned(),
        _ => SAXPY[11].to_owned(),
    };
    let mut words: Vec<String> = SAXPY[..4].iter().map(|&word| word.to_owned()).collect();
    for one in &args {
        words.extend(["--arg".to_owned(), arg(one)]);
    }
    words
}

/// Index of the argument that the kernel writes.
fn saxpy_y() -> usize {
    saxpy_args()
        .iter()
        .filter(|word| word.contains('='))
        .position(|word| word == SAXPY[7])
        .expect("there is a y")
}

fn run_saxpy(more: &[&str]) -> Done {
    let args = saxpy_args();
    let file = saxpy();
    let mut words = vec!["run", &file];
    words.extend(args.iter().map(String::as_str));
    words.extend(more);
    ptxjit(&words)
}

#[test]
fn run_prints_and_writes() {
    let y = saxpy_y();
    let npy = temp("y.npy", b"");
    let raw = temp("y.bin", b"");
    let (print, out_npy, out_raw) = (format!("{y}:3"), format!("{y}={npy}"), format!("{y}={raw}"));
    let done = run_saxpy(&["--print", &print, "--out", &out_npy, "--out", &out_raw]).expect(0);
    assert_eq!(done.stdout, format!("{y}: 1 3 5\n"));
    let raw = std::fs::read(raw).expect("it was written");
    let want: Vec<u8> = (0..40)
        .flat_map(|i| (2.0 * i as f32 + 1.0).to_le_bytes())
        .collect();
    assert_eq!(raw, want);
    let npy = std::fs::read(npy).expect("it was written");
    assert!(npy.starts_with(b"\x93NUMPY") && npy.ends_with(&want));
}

#[test]
fn run_draws_pictures() {
    let y = saxpy_y();
    let path = temp("y.png", b"old");
    let out = format!("{y}={path}:8x5");
    run_saxpy(&["--out", &out]).expect(0);
    let file = std::fs::File::open(&path).expect("it was written");
    let mut reader = png::Decoder::new(std::io::BufReader::new(file))
        .read_info()
        .expect("a picture");
    let mut pixels = vec![0; 8 * 5];
    let info = reader.next_frame(&mut pixels).expect("a picture");
    assert_eq!((info.width, info.height), (8, 5));
    // y goes from 1 to 79 in steps of 2, and the picture's colours from 0 to 254.
    let want: Vec<u8> = (0..40)
        .map(|i| (f64::from(i) / 39.0 * 254.0).round() as u8)
        .collect();
    assert_eq!(pixels, want);
    for size in ["", ":8", ":0x5", ":8x6"] {
        let out = format!("{y}={path}{size}");
        run_saxpy(&["--out", &out]).expect(2);
    }
}

#[test]
fn run_reports_as_json() {
    let done = run_saxpy(&["--json", "--repeat", "3", "--reset", "--gang", "8"]).expect(0);
    let document = done.json();
    assert_eq!(document["kernel"], "saxpy");
    assert_eq!(document["gang"], 8);
    assert_eq!(document["launch_ms"].as_array().map(Vec::len), Some(3));
    assert!(document["load_ms"].is_number() && document["compile_ms"].is_number());
    let args = document["args"].as_array().expect("a list");
    assert_eq!(args.len(), 2);
    let y = args
        .iter()
        .find(|arg| arg["index"] == saxpy_y())
        .expect("y is a buffer");
    assert_eq!(
        (y["dtype"].as_str(), y["count"].as_u64()),
        (Some("f32"), Some(40))
    );
    // From Python's hashlib, of 40 little-endian floats 2 * i + 1.
    assert_eq!(
        y["sha256"],
        "66dce08ae3e5d15c596759ed49948011a525f49ae6a9dd6c3bbac0c356fec622"
    );
    // Without restoring, y grows with each launch.
    let grown = run_saxpy(&["--json", "--repeat", "3", "--gang", "8"])
        .expect(0)
        .json();
    assert_ne!(grown["args"], document["args"]);
}

#[test]
fn run_refuses_what_does_not_fit() {
    let file = saxpy();
    for words in [
        vec!["run"],
        vec!["run", "no/such/file.ptx"],
        vec!["run", &file, "--kernel", "nothing"],
        vec!["run", &file],
        vec!["run", &file, "--arg", "q32=1"],
        vec!["run", &file, "--arg", "same=0"],
        vec!["run", &file, "--arg", "u32=1", "--print", "0"],
        vec!["run", &file, "--print", "7"],
        // More than any memory, and more than any counter.
        vec!["run", &file, "--arg", "f32[17592186044415]=zeros"],
        vec![
            "run",
            &file,
            "--arg",
            "u32[2]=arange:170141183460469231731687303715884105727:5",
        ],
        vec![
            "run",
            &file,
            "--arg",
            "s64[2]=random:1:-170141183460469231731687303715884105728:5",
        ],
        vec!["run", &file, "--grid", "0"],
        vec!["run", "--case", "no/such/case.json"],
        vec!["frobnicate"],
    ] {
        let done = ptxjit(&words).expect(2);
        assert!(
            done.stdout.is_empty() && !done.stderr.is_empty(),
            "{words:?}: {}",
            done.stdout
        );
    }
}

#[test]
fn run_tells_about_failed_launches() {
    let wild = "
.version 7.0
.target sm_80
.address_size 64
.visible .entry wild(.param .u64 p)
{
    .reg .b64 %rd1;
    ld.param.u64 %rd1, [p];
    st.global.u64 [%rd1], %rd1;
    ret;
}
.visible .entry spin()
{
LOOP:
    bra LOOP;
}
";
    let file = temp("wild.ptx", wild.as_bytes());
    let done = ptxjit(&["run", &file, "--kernel", "wild", "--arg", "u64=0x40"]).expect(1);
    assert!(done.stderr.contains("wild.ptx:9:5"), "{}", done.stderr);
    assert!(done.stderr.contains("st.global.u64"), "{}", done.stderr);
    let done = ptxjit(&[
        "run", &file, "--kernel", "wild", "--arg", "u64=0x40", "--json",
    ])
    .expect(1);
    assert_eq!(done.json()["error"]["cuda"], "CUDA_ERROR_ILLEGAL_ADDRESS");
    let done = ptxjit(&["run", &file, "--kernel", "spin", "--timeout", "0.2"]).expect(1);
    assert!(done.stderr.contains("time limit"), "{}", done.stderr);
}

#[test]
fn run_follows_a_case() {
    let case = kernel("cuda/printf_basic/case.json");
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("case_out");
    let dir = dir.to_string_lossy().into_owned();
    let done = ptxjit(&["run", "--case", &case, "--out-dir", &dir]).expect(0);
    assert!(done.stdout.contains("plain line, 100%"), "{}", done.stdout);
    let printed = std::fs::read_to_string(Path::new(&dir).join("stdout")).expect("it was written");
    assert_eq!(printed, done.stdout);
    ptxjit(&["run", "--case", &case, "--out", "99=x"]).expect(2);
    ptxjit(&["run", "--case", &case, "--print", "99"]).expect(2);
    let case = kernel("tinygrad/softmax.sm80/case.json");
    ptxjit(&["run", "--case", &case, "--out-dir", &dir]).expect(0);
    assert!(std::fs::read_dir(&dir).expect("the folder").any(|entry| {
        entry.is_ok_and(|entry| entry.path().extension().is_some_and(|ext| ext == "npy"))
    }));
}

#[test]
fn test_counts_and_reports() {
    let junit = temp("junit.xml", b"");
    let folder = kernel("cuda/vecadd");
    let done = ptxjit(&["test", &folder, "--junit", &junit, "-j", "2"]).expect(0);
    assert!(
        done.stdout.ends_with("7 passed, 0 failed, 0 unsupported\n"),
        "{}",
        done.stdout
    );
    let xml = std::fs::read_to_string(junit).expect("it was written");
    assert_eq!(xml.matches("<testcase").count(), 7);
    let done = ptxjit(&["test", &folder, "--filter", "sm70", "--json"]).expect(0);
    assert_eq!(done.json()["passed"], 1);
    ptxjit(&["test", &folder, "--filter", "nothing like that"]).expect(2);
    ptxjit(&["test", "no/such/folder"]).expect(2);
}

#[test]
fn shards_are_the_whole() {
    let folder = kernel("cuda/vecadd");
    let names = |more: &[&str]| -> Vec<String> {
        let done = ptxjit(&[&["test", &folder, "--json"], more].concat()).expect(0);
        let tests = done.json()["tests"].clone();
        let name = |test: &Value| test["name"].as_str().unwrap_or_default().to_owned();
        tests.as_array().expect("a list").iter().map(name).collect()
    };
    let junit = temp("shards.xml", b"");
    let mut all = names(&["--junit", &junit]);
    all.sort();
    let json = temp(
        "shards.json",
        br#"{"tests": [{"name": "cuda/vecadd/vecadd.sm80.ptx", "ms": 1e6}]}"#,
    );
    for more in [
        vec![],
        vec!["--timings", &junit],
        vec!["--timings", &json, "--timings", &junit],
    ] {
        for count in [1, 3, 9] {
            let mut union = Vec::new();
            for index in 1..=count {
                let shard = format!("{index}/{count}");
                let part_junit = temp("shard.xml", b"");
                let words = [&["--shard", &shard, "--junit", &part_junit], &more[..]].concat();
                let part = names(&words);
                let xml = std::fs::read_to_string(part_junit).expect("it was written");
                assert_eq!(xml.matches("<testcase").count(), part.len());
                if more.len() == 4
                    && count > 1
                    && part.contains(&"cuda/vecadd/vecadd.sm80.ptx".to_owned())
                {
                    assert_eq!(part.len(), 1, "the long test has a shard of its own");
                }
                union.extend(part);
            }
            union.sort();
            assert_eq!(union, all);
        }
    }
    for shard in ["0/2", "3/2", "1/0", "x"] {
        ptxjit(&["test", &folder, "--shard", shard]).expect(2);
    }
    ptxjit(&[
        "test",
        &folder,
        "--shard",
        "1/2",
        "--timings",
        "no/such/file",
    ])
    .expect(2);
}

#[test]
fn test_without_a_match_is_json_too() {
    let folder = kernel("cuda/vecadd");
    for words in [
        [&folder, "--filter", "nothing like that"],
        [&folder, "--label", "none"],
        ["no/such/folder", "--label", "small"],
    ] {
        let done = ptxjit(&[&["test", "--json"], &words[..]].concat()).expect(2);
        let document = done.json();
        assert_eq!(document["tests"], serde_json::json!([]));
        assert_eq!(document["passed"], 0);
        assert!(document["error"].is_string(), "{document}");
    }
}

/// Runs the command in a shell with `limits`.
fn with_limits(limits: &str, words: &[&str]) -> Done {
    let mut command = Command::new("sh");
    let script = format!("{limits}; exec \"$0\" \"$@\"");
    command
        .args(["-c", &script, env!("CARGO_BIN_EXE_ptxjit")])
        .args(words);
    Done::of(&mut command)
}

#[test]
fn a_small_stack_is_enough() {
    let file = saxpy();
    with_limits("ulimit -s 64", &["check", "--all-kernels", &file]).expect(0);
    with_limits("ulimit -s 64", &["dump", "--after", "asm", &file]).expect(0);
    with_limits(
        "ulimit -s 64",
        &[
            "run",
            "--no-cache",
            "--case",
            &kernel("cuda/saxpy/case.json"),
        ],
    )
    .expect(0);
}

#[test]
fn little_address_space_is_enough() {
    // 64 and 24 GB.
    for limit in ["67108864", "25165824"] {
        for case in ["cuda/saxpy/case.json", "clang/sgemm_tiled16/case.json"] {
            let words = ["run", "--no-cache", "--case", &kernel(case)];
            with_limits(&format!("ulimit -v {limit}"), &words).expect(0);
        }
    }
}

#[test]
fn vectors_can_be_held_to_128_bits() {
    let narrow = [("PTXJIT_VECTOR_BITS", "128")];
    let done = ptxjit_with_env(&["test", &kernel("cuda")], &narrow).expect(0);
    assert!(done.stdout.contains(" 0 failed"), "{}", done.stdout);
    let file = kernel("cuda/mandelbrot/mandelbrot.sm80.ptx");
    let dump = ["dump", &file, "--gang", "16", "--after", "asm"];
    let done = ptxjit_with_env(&dump, &narrow).expect(0);
    assert!(!done.stdout.contains("ymm"), "{}", done.stdout);
}

#[test]
fn test_tells_failed_from_unsupported() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bad_case");
    std::fs::create_dir_all(&dir).expect("a folder can be made");
    let write = |name: &str, text: &str| {
        std::fs::write(dir.join(name), text).expect("a file can be written")
    };
    let header = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n.reg .b64 %rd1;\n";
    write(
        "wrong.ptx",
        &format!("{header}ld.param.u64 %rd1, [p];\nst.global.u32 [%rd1+8], 7;\nret;\n}}\n"),
    );
    write("traps.ptx", &format!("{header}trap;\n}}\n"));
    write("hangs.ptx", &format!("{header}L: bra L;\n}}\n"));
    // Whatever may be supported one day: this needs a texture, and the case gives none.
    write("broken.ptx", &format!("{header}nonsense;\n}}\n"));
    let case = |file: &str| {
        format!(
            r#"{{"name": "x", "ptx": [{{"file": "{file}"}}], "cases": [{{"label": "small",
                "buffers": {{"b": {{"dtype": "u32", "count": 4, "init": {{"kind": "zeros"}}}}}},
                "launches": [{{"kernel": "k", "grid": [1], "block": [1], "shared_bytes": 0,
                    "args": [{{"type": "buffer", "name": "b"}}]}}],
                "expect": [{{"buffer": "b", "npy": "want.npy", "rtol": 0, "atol": 0}}]}}]}}"#
        )
    };
    let header = format!(
        "{:<117}\n",
        "{'descr': '<u4', 'fortran_order': False, 'shape': (4,), }"
    );
    let mut npy = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    npy.extend(header.as_bytes());
    npy.extend([0; 16]);
    std::fs::write(dir.join("want.npy"), npy).expect("a file can be written");
    let path = dir.to_string_lossy().into_owned();
    let check = |file: &str, text: &str| {
        write("case.json", &case(file));
        let done = ptxjit(&["test", &path, "--timeout", "0.5"]).expect(1);
        assert!(done.stdout.contains(text), "{file}: {}", done.stdout);
        assert!(
            done.stdout.ends_with("0 passed, 1 failed, 0 unsupported\n"),
            "{}",
            done.stdout
        );
    };
    check(
        "wrong.ptx",
        "1 of 4 elements differ\n      [2] got 7, expected 0",
    );
    check("traps.ptx", "trap");
    check("hangs.ptx", "time limit");
    check("broken.ptx", "nonsense");
    write("case.json", "{");
    ptxjit(&["test", &path]).expect(1);
}

#[test]
fn check_points_at_the_fault() {
    let bad = temp("bad.ptx", b".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n    frob.u32 1;\n}\n");
    let done = ptxjit(&["check", &bad]).expect(2);
    assert!(
        done.stdout.contains("bad.ptx:6:5") && done.stdout.contains("^"),
        "{}",
        done.stdout
    );
    let done = ptxjit(&["check", "--json", &bad, &saxpy()]).expect(2);
    let files = done.json()["files"].clone();
    assert_eq!(
        (files[0]["ok"].as_bool(), files[1]["ok"].as_bool()),
        (Some(false), Some(true))
    );
    assert_eq!(
        (
            files[0]["diagnostics"][0]["line"].as_u64(),
            files[0]["diagnostics"][0]["column"].as_u64()
        ),
        (Some(6), Some(5))
    );
    ptxjit(&["check", &saxpy()]).expect(0);
    ptxjit(&["check", "--all-kernels", &saxpy()]).expect(0);
    ptxjit(&["check", "no/such/file.ptx"]).expect(2);
}

#[test]
fn dump_shows_every_stage() {
    let stages = ptxjit(&["dump", &saxpy(), "--after", "help"])
        .expect(0)
        .stdout;
    assert!(stages.lines().count() >= 4);
    for stage in stages.lines() {
        let done = ptxjit(&["dump", &saxpy(), "--after", stage, "--block", "256"]).expect(0);
        assert!(!done.stdout.trim().is_empty(), "{stage}");
    }
    ptxjit(&["dump", &saxpy(), "--after", "nothing"]).expect(2);
}

#[test]
fn isa_lists_instructions() {
    let text = ptxjit(&["isa"]).expect(0).stdout;
    assert!(text.contains("\nmad.") && text.contains("%tid"), "{text}");
    let document = ptxjit(&["isa", "--json"]).expect(0).json();
    let forms = document["instructions"].as_array().expect("a list");
    assert!(forms.len() > 100 && forms.iter().all(|form| form["opcode"].is_string()));
}

#[test]
fn no_colours_in_a_pipe() {
    let bad = temp("bad_colour.ptx", b"nonsense");
    let done = ptxjit(&["check", &bad]).expect(2);
    assert!(!done.stdout.contains('\u{1b}') && !done.stderr.contains('\u{1b}'));
}

/// A folder of this test's own, empty.
fn empty_folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&path);
    path
}

/// An empty folder for a cache, where no other user can replace it, whatever the permissions of the
/// checkout.
fn cache_folder(name: &str) -> PathBuf {
    let name = format!("ptxjit-command-{}-{name}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let _ = std::fs::remove_dir_all(&path);
    path
}

/// Runs saxpy with `cache`; tells where the code came from, and the hash of the result.
fn cached_saxpy(cache: &Path, more: &[&str]) -> (String, String) {
    let words = saxpy_args();
    let mut args = vec!["run", "--json"];
    let file = saxpy();
    args.push(&file);
    args.extend(words.iter().map(String::as_str));
    args.extend(more);
    let document = ptxjit_with_cache(&args, cache).expect(0).json();
    let outputs = document["args"].to_string();
    let origin = document["kernels"][0]["code"].as_str().unwrap_or_default();
    assert!(document["kernels"][0]["jit_ms"].is_number());
    (origin.to_owned(), outputs)
}

fn entries(cache: &Path) -> Vec<PathBuf> {
    let listing = std::fs::read_dir(cache).expect("the folder exists");
    listing.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn cache_is_used_and_cleared() {
    let cache = cache_folder("cache-used");
    let (origin, result) = cached_saxpy(&cache, &["--no-cache"]);
    assert_eq!(origin, "compiled");
    assert!(!cache.exists());
    assert_eq!(
        cached_saxpy(&cache, &[]),
        ("compiled".into(), result.clone())
    );
    assert_eq!(cached_saxpy(&cache, &[]), ("cache".into(), result.clone()));
    assert_eq!(
        cached_saxpy(&cache, &["--no-cache"]),
        ("compiled".into(), result.clone())
    );
    // Other options, other code.
    assert_eq!(
        cached_saxpy(&cache, &["--memcheck"]),
        ("compiled".into(), result.clone())
    );
    assert_eq!(
        cached_saxpy(&cache, &["--gang", "4"]),
        ("compiled".into(), result.clone())
    );
    assert_eq!(
        cached_saxpy(&cache, &["--gang", "4"]),
        ("cache".into(), result.clone())
    );
    let shown = ptxjit_with_cache(&["cache", "show"], &cache)
        .expect(0)
        .stdout;
    let n_entries = format!(": {} entries", entries(&cache).len());
    assert!(shown.contains(&n_entries), "{shown}");
    ptxjit_with_cache(&["cache", "clear"], &cache).expect(0);
    assert_eq!(entries(&cache).len(), 0);
    assert_eq!(cached_saxpy(&cache, &[]), ("compiled".into(), result));
}

#[test]
fn cache_survives_damage() {
    let cache = cache_folder("cache-damage");
    let (_, result) = cached_saxpy(&cache, &[]);
    for damage in [
        (|bytes: &mut Vec<u8>| bytes.truncate(bytes.len() / 2)) as fn(&mut Vec<u8>),
        |bytes| bytes.clear(),
        |bytes| {
            bytes
                .iter_mut()
                .skip(100)
                .step_by(97)
                .for_each(|byte| *byte ^= 1)
        },
        |bytes| bytes.extend([0; 100]),
    ] {
        for path in entries(&cache) {
            let mut bytes = std::fs::read(&path).unwrap();
            damage(&mut bytes);
            std::fs::write(&path, bytes).unwrap();
        }
        assert_eq!(
            cached_saxpy(&cache, &[]),
            ("compiled".into(), result.clone())
        );
        assert_eq!(cached_saxpy(&cache, &[]), ("cache".into(), result.clone()));
    }
}

#[test]
fn cache_is_shared_by_processes() {
    let cache = cache_folder("cache-shared");
    let (_, result) = cached_saxpy(&cache, &["--no-cache"]);
    // Code made in a hurry is improved, and stored again, by a thread that the end of its process
    // may cut short.
    let run = || cached_saxpy(&cache, &["--eager"]).1;
    let results: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(run)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    assert!(results.iter().all(|other| *other == result));
    let again = cached_saxpy(&cache, &["--eager"]);
    assert_eq!(again, ("cache".into(), result));
    let unfinished = |path: &PathBuf| path.extension().is_none_or(|it| it != "kernel");
    assert_eq!(entries(&cache).into_iter().find(unfinished), None);
}

#[test]
fn cache_is_not_needed() {
    let file = PathBuf::from(temp("cache-is-a-file", b"not a folder"));
    let (origin, result) = cached_saxpy(&file, &[]);
    assert_eq!(origin, "compiled");
    assert_eq!(cached_saxpy(&file, &[]), ("compiled".into(), result));
    let nowhere = Path::new("/proc/no-such-place/cache");
    assert_eq!(cached_saxpy(nowhere, &[]).0, "compiled");
}

#[test]
fn cache_keeps_code_that_calls() {
    // Code with calls of functions of ours, stubs, and instructions that are evaluated by call.
    let ptx = temp(
        "calls.ptx",
        b".version 7.8
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p)
{
    .reg .b64 %rd<4>;
    .reg .b32 %r<6>;
    .reg .f64 %d<4>;
    .reg .pred %q;
    ld.param.u64 %rd0, [p];
    mov.u32 %r0, %tid.x;
    setp.gt.u32 %q, %r0, 20;
    @%q ret;
    mul.wide.u32 %rd1, %r0, 8;
    add.u64 %rd1, %rd0, %rd1;
    ld.global.f64 %d0, [%rd1];
    add.rz.f64 %d1, %d0, 0d3FB999999999999A;
    sqrt.rp.f64 %d1, %d1;
    st.global.f64 [%rd1], %d1;
    atom.global.max.s32 %r1, [%rd0+256], %r0;
    activemask.b32 %r2;
    shfl.sync.bfly.b32 %r3, %r0, 1, 31, %r2;
    ret;
}
",
    );
    let cache = cache_folder("cache-calls");
    let mut results = Vec::new();
    for (origin, gang) in [
        ("compiled", "32"),
        ("cache", "32"),
        ("compiled", "8"),
        ("cache", "8"),
    ] {
        let arg = "f64[64]=arange:1:0.3";
        let words = [
            "run", "--json", "--block", "32", "--arg", arg, "--gang", gang, &ptx,
        ];
        let document = ptxjit_with_cache(&words, &cache).expect(0).json();
        assert_eq!(document["kernels"][0]["code"], origin);
        results.push(document["args"].to_string());
    }
    results.dedup();
    assert_eq!(results.len(), 1, "{results:?}");
}

#[test]
fn hurried_code_is_right_and_gets_better() {
    // Long enough that its registers are allocated in one pass first.
    let mut body = String::new();
    let mut expected: Vec<u32> = (0..64).collect();
    for step in 0..400u32 {
        body += &format!(
            "    mul.lo.u32 %r2, %r1, {};\n    xor.b32 %r1, %r2, {step};\n",
            2 * step + 3
        );
        for value in &mut expected {
            *value = value.wrapping_mul(2 * step + 3) ^ step;
        }
    }
    let text = format!(
        ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n\
         .reg .b64 %rd<3>;\n.reg .b32 %r<3>;\nld.param.u64 %rd0, [p];\nmov.u32 %r0, %tid.x;\n\
         mul.wide.u32 %rd1, %r0, 4;\nadd.u64 %rd2, %rd0, %rd1;\nmov.u32 %r1, %r0;\n{body}\
         st.global.u32 [%rd2], %r1;\nret;\n}}\n"
    );
    let ptx = temp("long.ptx", text.as_bytes());
    let cache = cache_folder("cache-hurried");
    let run = |more: &[&str]| {
        let words = [
            "run",
            "--json",
            "--block",
            "64",
            "--arg",
            "u32[64]=zeros",
            "--gang",
            "16",
        ];
        let words: Vec<&str> = [&words[..], &["--out"], more].concat();
        ptxjit_with_cache(&words, &cache).expect(0).json()
    };
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("long.bin");
    let out_arg = format!("0={}", out.display());
    let bytes: Vec<u8> = expected
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    for (more, origin, quick) in [
        (&["--no-cache"][..], "compiled", true),
        (&["--no-cache", "--eager"], "compiled", false),
        (&[], "compiled", true),
        (&[], "cache", true),
        // Improves what the cache has.
        (&["--repeat", "2"], "cache", false),
        (&[], "cache", false),
    ] {
        let document = run(&[&[out_arg.as_str(), ptx.as_str()], more].concat());
        assert_eq!(document["kernels"][0]["code"], origin, "{more:?}");
        assert_eq!(document["kernels"][0]["quick"], quick, "{more:?}");
        assert_eq!(std::fs::read(&out).unwrap(), bytes, "{more:?}");
    }
}
