//! What a terminal would obey: names of files, folders, kernels and buffers are chosen by
//! strangers.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::{Done, empty_folder, ptxjit};

/// A command, a title, a bell, a C1 control, text from right to left, and a line of its own.
const EVIL: &str = "\u{1b}[2J\u{1b}]0;title\u{7}\u{9b}31m\u{202e}\r\nok";

/// What the reader of the command line does not strip by itself.
const C1_TITLE: &str = "\u{9d}0;title\u{7}\u{9c}\u{9b}31m\u{202e}";

/// [`EVIL`] without the line.
const EVIL_FILE: &str = "\u{1b}[2J\u{1b}]0;title\u{7}\u{9b}31m\u{202e}\r";

impl Done {
    /// Checks that the command printed nothing but text and lines, and quoted the name.
    #[track_caller]
    fn is_tame(&self) {
        let all = format!("{}{}", self.stdout, self.stderr);
        let obeyed = |c: char| c.is_control() && c != '\n' && c != '\t' || c == '\u{202e}';
        assert!(!all.contains(obeyed), "{all:?}");
        assert!(all.contains("title"), "{all}");
        let escaped = |line: &str| !line.starts_with("ok") || line.starts_with("ok ");
        assert!(all.lines().all(escaped), "{all}");
    }
}

/// A folder of such a name below the test's own.
fn folder(name: &str) -> PathBuf {
    let path = empty_folder(name).join(EVIL_FILE);
    fs::create_dir_all(&path).expect("a folder can be made");
    path
}

fn case(change: impl Fn(&mut Value)) -> String {
    let mut case = json!({"name": EVIL, "ptx": [{"file": "x.ptx"}], "cases": [{"label": "small",
        "buffers": {EVIL: {"dtype": "u8", "count": 1, "init": {"kind": "zeros"}}},
        "launches": [{"kernel": "k", "grid": [1], "block": [1], "args": []}]}]});
    change(&mut case);
    case.to_string()
}

#[test]
fn terminal_commands_in_names_of_files_are_escaped() {
    let folder = folder("terminal-files");
    let file = folder.join(format!("{EVIL_FILE}.ptx"));
    fs::write(&file, "nonsense").unwrap();
    let (file, folder) = (file.to_string_lossy(), folder.to_string_lossy());
    for words in [
        vec!["check", &file],
        vec!["check", &folder],
        vec!["check", "--json", &file],
        vec!["run", &file],
        vec!["run", &folder],
        vec!["run", "--json", &file],
        vec!["dump", &folder],
        vec!["test", &folder],
        vec!["test", "--json", &folder],
        vec!["run", "x", "--case", &file],
        vec!["run", "--case", &folder],
        vec!["run", C1_TITLE],
        vec!["isa", C1_TITLE],
        vec!["run", "x", "--arg", C1_TITLE],
        vec!["run", "x", "--grid", C1_TITLE],
    ] {
        ptxjit(&words).expect(2).is_tame();
    }
}

#[test]
fn terminal_commands_in_case_files_are_escaped() {
    let folder = folder("terminal-cases");
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
    let ptx =
        ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n    ret;\n}\n";
    write("x.ptx", ptx);
    let path = folder.join("case.json").to_string_lossy().into_owned();
    let run = |text: &str, code: i32| {
        write("case.json", text);
        ptxjit(&["run", "--case", &path]).expect(code);
        for words in [vec!["test", &path], vec!["test", "--json", &path]] {
            ptxjit(&words).expect(i32::from(code != 0)).is_tame();
        }
    };
    run(&case(|_| {}), 0);
    let launch = |key: &str, value: Value| {
        let change = |case: &mut Value| case["cases"][0]["launches"][0][key] = value.clone();
        case(change)
    };
    run(&launch("kernel", json!(EVIL)), 2);
    run(&launch("ptx", json!(EVIL)), 2);
    run(
        &launch("args", json!([{"type": "buffer", "name": EVIL}])),
        2,
    );
    run(
        &launch("args", json!([{"type": "surface", "name": EVIL}])),
        2,
    );
    run(&launch("args", json!([{"type": EVIL}])), 2);
    run(&case(|case| case["ptx"][0]["file"] = json!(EVIL)), 2);
    run(
        &case(|case| {
            case["cases"][0]["globals"] = json!([{"symbol": EVIL, "dtype": "u8", "npy": EVIL}])
        }),
        2,
    );
    write("case.json", &launch("expect_error", json!(EVIL)));
    ptxjit(&["test", &path]).expect(1).is_tame();
    let junit = folder.join("junit.xml");
    ptxjit(&["test", &path, "--junit", &junit.to_string_lossy()])
        .expect(1)
        .is_tame();
    let xml = fs::read_to_string(junit).unwrap();
    assert!(
        xml.contains("title") && !xml.contains(|c: char| c.is_control() && c != '\n'),
        "{xml}"
    );
}
