//! What the command tells about modules that are wrong: how much of it, and in which characters.

use std::path::Path;
use std::process::Command;

/// Exit code, standard output and standard error of a command on a file with this text.
fn ptxjit(command: &[&str], name: &str, text: &str) -> (i32, String, String) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let path = folder.join(name);
    std::fs::write(&path, text).expect("the folder can be written to");
    let output = Command::new(env!("CARGO_BIN_EXE_ptxjit"))
        .args(command)
        .arg(&path)
        .env("PTXJIT_CACHE_DIR", folder.join("cache"))
        .output()
        .expect("the command can be started");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the output is UTF-8");
    let code = output.status.code().expect("the command ends by itself");
    (code, text(output.stdout), text(output.stderr))
}

/// A module with `count` errors, one a line.
fn wrong(count: usize) -> String {
    let body = "    frob.u32 1;\n".repeat(count);
    format!(
        ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{{\n{body}    ret;\n}}\n"
    )
}

#[test]
fn error_limit() {
    let shown = |text: &str| text.matches("-->").count();
    let module = wrong(130);
    for (arguments, count, rest) in [
        (&[][..], 100, "30 more findings are not shown"),
        (
            &["--error-limit", "7"],
            7,
            "123 more findings are not shown",
        ),
        (
            &["--error-limit", "129"],
            129,
            "1 more finding is not shown",
        ),
    ] {
        for command in ["check", "dump"] {
            let (code, stdout, stderr) =
                ptxjit(&[&[command], arguments].concat(), "limit.ptx", &module);
            let text = stdout + &stderr;
            assert_eq!((code, shown(&text)), (2, count), "{command} {arguments:?}");
            assert!(text.contains(rest), "{text}");
        }
    }
    for command in ["check", "dump"] {
        let (_, stdout, stderr) = ptxjit(&[command, "--error-limit", "0"], "limit.ptx", &module);
        let text = stdout + &stderr;
        assert_eq!(shown(&text), 130);
        assert!(!text.contains("not shown"), "{text}");
    }
}

#[test]
fn error_limit_of_documents() {
    let (_, stdout, _) = ptxjit(
        &["check", "--json", "--error-limit", "7"],
        "document.ptx",
        &wrong(130),
    );
    let document: serde_json::Value = serde_json::from_str(&stdout).expect("a document");
    let file = &document["files"][0];
    assert_eq!(file["diagnostics"].as_array().map(Vec::len), Some(7));
    assert_eq!(file["not_shown"], 123);
}

/// Wherever a module is quoted, a terminal gets nothing to obey.
#[test]
fn no_commands_to_the_terminal() {
    let header = ".version 7.0\n.target sm_80\n.address_size 64\n";
    for text in [
        "\u{9b}31m".to_owned(),
        "\u{1b}[2J .version 7.0".to_owned(),
        format!("{header}\u{9d}0;title\u{9c}"),
        format!(
            "{header}.file 1 \"\u{1b}]0;title\u{7}\u{202e}\"\n.entry k() {{ .loc 9 1 1 frob; }}"
        ),
        format!("{header}.entry k() {{ frob \u{7f} \u{1b}[8m; }}"),
        format!("{header}.entry k() {{ ret; }} // \u{2066}\u{85}\r\u{8}"),
        format!("{header}.pragma \"\u{9b}A\u{202e}\u{1b}c\"; .entry k() {{ frob /* \u{1b}c */; }}"),
    ] {
        for command in [&["check"][..], &["check", "--json"], &["dump"]] {
            let (code, stdout, stderr) = ptxjit(command, "controls.ptx", &text);
            assert_eq!(code, 2, "{text:?}");
            let told = (stdout + &stderr).replace(['\n', '\t'], "");
            let obeyed = |c: char| {
                c.is_control() || ('\u{2066}'..'\u{206a}').contains(&c) || c == '\u{202e}'
            };
            assert!(!told.contains(obeyed), "{command:?} {text:?}: {told:?}");
        }
    }
}
