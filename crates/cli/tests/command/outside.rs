//! Case files of strangers: whatever they name, nothing outside of their folder is read and nothing
//! outside of `--out-dir` is written.
//!
//! A generator makes case files whose names lead, or try to lead, elsewhere. `cargo test` tries
//! some seeds; `PTXJIT_FUZZ_SECONDS=600 cargo test -p ptxjit-cli --test command outside` goes on
//! for ten minutes.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{empty_folder, ptxjit};

/// Seeds that every run of the tests tries.
const SEEDS: u64 = 120;

/// What the files outside hold, as elements of u8.
const SECRET: &[u8; 16] = b"not for the case";

/// SplitMix64.
struct Rng(u64);

impl Rng {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) % limit as u64) as usize
    }

    fn pick<'a>(&mut self, items: &[&'a str]) -> &'a str {
        items[self.below(items.len())]
    }
}

fn npy(contents: &[u8; 16]) -> Vec<u8> {
    let header = "{'descr': '|u1', 'fortran_order': False, 'shape': (16,), }";
    let mut file = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    file.extend(format!("{header:<117}\n").bytes());
    file.extend(contents);
    file
}

const PTX: &str =
    ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n    ret;\n}\n";

/// ```text
/// root/secret.npy   root/secret.ptx   root/old.npy   root/out/
/// root/around/case/{case.json, x.npy, x.ptx, sub/y.npy}
/// root/around/case/{link -> ../../secret.npy, up -> ../.., inner -> x.npy}
/// ```
struct Sandbox {
    root: PathBuf,
    case: PathBuf,
    out: PathBuf,
}

impl Sandbox {
    fn new(name: &str) -> Sandbox {
        let root = empty_folder(name);
        let case = root.join("around/case");
        fs::create_dir_all(case.join("sub")).unwrap();
        let write = |path: PathBuf, bytes: &[u8]| fs::write(path, bytes).unwrap();
        write(root.join("secret.npy"), &npy(SECRET));
        write(
            root.join("secret.ptx"),
            format!("// {}\nsecret", String::from_utf8_lossy(SECRET)).as_bytes(),
        );
        write(root.join("old.npy"), b"old");
        write(case.join("x.npy"), &npy(&[1; 16]));
        write(case.join("sub/y.npy"), &npy(&[2; 16]));
        write(case.join("x.ptx"), PTX.as_bytes());
        symlink("../../secret.npy", case.join("link")).unwrap();
        symlink("../..", case.join("up")).unwrap();
        symlink("x.npy", case.join("inner")).unwrap();
        let out = root.join("out");
        Sandbox { root, case, out }
    }

    /// All files but those in `out`, with their contents.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        collect(&self.root, &self.out, &mut files);
        files
    }

    fn write_case(&self, case: &Value) -> String {
        let path = self.case.join("case.json");
        fs::write(&path, case.to_string()).unwrap();
        path.to_string_lossy().into_owned()
    }

    fn run(&self, case: &Value, more: &[&str]) -> crate::Done {
        let path = self.write_case(case);
        let out = self.out.to_string_lossy().into_owned();
        let words = ["run", "--no-cache", "--case", &path, "--out-dir", &out];
        ptxjit(&[&words[..], more].concat())
    }
}

fn collect(folder: &Path, except: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let kind = path.symlink_metadata().unwrap().file_type();
        if path == except || path.ends_with("case.json") {
            continue;
        } else if kind.is_dir() {
            collect(&path, except, files);
        } else if kind.is_symlink() {
            files.insert(path, Vec::new());
        } else {
            let contents = fs::read(&path).unwrap();
            files.insert(path, contents);
        }
    }
}

fn case(buffer: &str, data: &str, ptx: &str, texture: Option<&str>) -> Value {
    let mut case = json!({"label": "small",
        "buffers": {buffer: {"dtype": "u8", "count": 16, "init": {"kind": "file", "npy": data}}},
        "launches": [{"kernel": "k", "grid": [1], "block": [1], "args": []}]});
    if let Some(npy) = texture {
        case["textures"] = json!({"t": {"object": "texture", "dims": [16], "channels": 1, "dtype": "u8", "npy": npy}});
    }
    json!({"name": "x", "ptx": [{"file": ptx}], "cases": [case]})
}

/// A way through some folders to a file, mostly one that exists; one name in four is damaged.
fn name(rng: &mut Rng, root: &Path, ending: &str) -> String {
    const WAYS: [&str; 12] = [
        "..",
        "../..",
        "../..",
        "up",
        "./../..",
        "sub/../../..",
        "sub",
        "",
        "..//..",
        "up/around",
        "/",
        "../../../../..",
    ];
    const FILES: [&str; 9] = [
        "secret", "secret", "old", "new", "x", "link", "inner", "..", ".new",
    ];
    const NOISE: [&str; 6] = ["\0", "/", "\\", "\u{ff0f}", ".", "/../"];
    let mut name = match rng.below(6) {
        0 => format!("{}/", root.display()),
        1 => String::new(),
        _ => format!("{}/", rng.pick(&WAYS)),
    };
    name += rng.pick(&FILES);
    if rng.below(4) == 0 {
        let places: Vec<usize> = name.char_indices().map(|(at, _)| at).collect();
        name.insert_str(places[rng.below(places.len())], rng.pick(&NOISE));
    }
    name + rng.pick(&[ending, ending, ""])
}

/// What one seed's case does that it must not.
fn finding(sandbox: &Sandbox, seed: u64) -> Option<String> {
    let rng = &mut Rng(seed);
    let root = &sandbox.root;
    // Most names are harmless, or nearly all cases would end at the first fault.
    let mut choose = |harmless: &str, ending: &str| match rng.below(5) {
        0..3 => harmless.to_owned(),
        _ => name(rng, root, ending),
    };
    let (buffer, data, ptx) = (
        choose("b", ""),
        choose("x.npy", ".npy"),
        choose("x.ptx", ".ptx"),
    );
    let case = case(&buffer, &data, &ptx, None);
    let _ = fs::remove_dir_all(&sandbox.out);
    let before = sandbox.files();
    let done = sandbox.run(&case, &["--interp"]);
    let secret = String::from_utf8_lossy(SECRET);
    let problem = if sandbox.files() != before {
        "a file outside of the folder for results was written"
    } else if done.stderr.contains(&*secret) || done.stdout.contains(&*secret) {
        "a file outside was shown"
    } else if read_all(&sandbox.out).contains(&*secret) {
        "a file outside was read into a buffer"
    } else {
        return None;
    };
    Some(format!("seed {seed}: {problem}: {case}\n{}", done.stderr))
}

/// The files directly in `folder`, which has no others.
fn read_all(folder: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let bytes = fs::read(entry.unwrap().path()).expect("results are plain files");
        text += &String::from_utf8_lossy(&bytes);
    }
    text
}

#[test]
fn outside_is_out_of_reach_of_any_name() {
    let seconds = std::env::var("PTXJIT_FUZZ_SECONDS").map(|text| text.parse().expect("seconds"));
    let seconds = Duration::from_secs(seconds.unwrap_or(0));
    let sandbox = Sandbox::new("outside-fuzz");
    let start = Instant::now();
    let mut seed = 0;
    while seed < SEEDS || start.elapsed() < seconds {
        if let Some(problem) = finding(&sandbox, seed) {
            panic!("{problem}");
        }
        seed += 1;
    }
    eprintln!("{seed} cases");
}

#[test]
fn outside_names_of_results_are_refused() {
    let sandbox = Sandbox::new("outside-out");
    let before = sandbox.files();
    let absolute = format!("{}/old", sandbox.root.display());
    for name in [
        "../../old",
        "../old",
        &absolute,
        ".hidden",
        "sub/x",
        "..",
        "",
    ] {
        let done = sandbox
            .run(&case(name, "x.npy", "x.ptx", None), &[])
            .expect(2);
        assert!(
            done.stderr.contains("cannot be a file's name"),
            "{}",
            done.stderr
        );
        assert!(!sandbox.out.exists(), "{name}");
    }
    assert_eq!(sandbox.files(), before);
    sandbox
        .run(&case("b", "x.npy", "x.ptx", None), &[])
        .expect(0);
    assert_eq!(fs::read(sandbox.out.join("b.npy")).unwrap()[128..], [1; 16]);
}

#[test]
fn outside_data_is_refused_unless_allowed() {
    let sandbox = Sandbox::new("outside-in");
    let absolute = format!("{}/secret.npy", sandbox.root.display());
    for data in [
        "../../secret.npy",
        &absolute,
        "link",
        "up/secret.npy",
        "sub/../x.npy",
    ] {
        let case = case("b", data, "x.ptx", None);
        let done = sandbox.run(&case, &[]).expect(2);
        assert!(done.stderr.contains("--allow-outside"), "{}", done.stderr);
        sandbox.run(&case, &["--allow-outside"]).expect(0);
    }
    for data in ["inner", "sub/y.npy", "./x.npy"] {
        sandbox.run(&case("b", data, "x.ptx", None), &[]).expect(0);
    }
    let done = sandbox
        .run(&case("b", "x.npy", "../../secret.ptx", None), &[])
        .expect(2);
    assert!(done.stderr.contains("--allow-outside"), "{}", done.stderr);
    let done = sandbox
        .run(&case("b", "x.npy", "x.ptx", Some("link")), &[])
        .expect(2);
    assert!(done.stderr.contains("--allow-outside"), "{}", done.stderr);
}

#[test]
fn outside_tests_fail_and_reports_have_plain_names() {
    let sandbox = Sandbox::new("outside-test");
    let path = sandbox.write_case(&case("b", "x.npy", "../../secret.ptx", None));
    let junit = sandbox.root.join("junit.xml");
    let junit = junit.to_string_lossy();
    let done = ptxjit(&["test", &path, "--junit", &junit]).expect(1);
    assert!(done.stdout.contains("--allow-outside"), "{}", done.stdout);
    let xml = fs::read_to_string(&*junit).unwrap();
    assert!(
        xml.contains("classname=\"around/case\" name=\"around/case/case.json\""),
        "{xml}"
    );
    let mut expecting = case("b", "x.npy", "x.ptx", None);
    expecting["cases"][0]["expect"] = json!([{"buffer": "b", "npy": "../../secret.npy"}]);
    let path = sandbox.write_case(&expecting);
    let done = ptxjit(&["test", &path]).expect(1);
    assert!(done.stdout.contains("--allow-outside"), "{}", done.stdout);
    let done = ptxjit(&["test", "--allow-outside", &path]).expect(1);
    assert!(done.stdout.contains("elements differ"), "{}", done.stdout);
}
