//! What files the command takes: several that are linked, fat binaries; and the command in the
//! place of `ptxas`.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

struct Done {
    code: i32,
    stdout: String,
    stderr: String,
}

fn command(program: &Path, args: &[&str], capability: Option<&str>) -> Done {
    let mut command = Command::new(program);
    command.args(args).env_remove("PTXJIT_COMPUTE_CAPABILITY");
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("modules-cache");
    command.env("PTXJIT_CACHE_DIR", cache);
    if let Some(capability) = capability {
        command.env("PTXJIT_COMPUTE_CAPABILITY", capability);
    }
    let output = command.output().expect("the command can be started");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Done {
        code: output.status.code().expect("the command ends by itself"),
        stdout: text(&output.stdout),
        stderr: text(&output.stderr),
    }
}

fn ptxjit(args: &[&str]) -> Done {
    command(Path::new(env!("CARGO_BIN_EXE_ptxjit")), args, None)
}

impl Done {
    #[track_caller]
    fn expect(self, code: i32) -> Done {
        let (stdout, stderr) = (&self.stdout, &self.stderr);
        assert_eq!(self.code, code, "stdout:\n{stdout}\nstderr:\n{stderr}");
        self
    }
}

/// A file of this test's own.
fn temp(name: &str, contents: &[u8]) -> String {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, contents).expect("the folder for temporary files can be written");
    path.to_string_lossy().into_owned()
}

const HEAD: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";

/// Stores `f()` in its buffer.
const USER: &str = ".extern .func (.reg .u32 r) f();
.visible .entry k(.param .u64 out)
{
    .reg .b32 %r;
    .reg .b64 %rd;
    call (%r), f, ();
    ld.param.u64 %rd, [out];
    st.global.u32 [%rd], %r;
    ret;
}
";

fn ptx(name: &str, body: &str) -> String {
    temp(name, format!("{HEAD}{body}").as_bytes())
}

fn seven(name: &str) -> String {
    ptx(
        name,
        ".visible .func (.reg .u32 r) f() { mov.u32 r, 7; ret; }\n",
    )
}

fn data(name: &str) -> String {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../image/tests/data");
    data.join(name).to_string_lossy().into_owned()
}

#[test]
fn run_links_files() {
    let (user, f) = (ptx("run-user.ptx", USER), seven("run-f.ptx"));
    for files in [[&user, &f], [&f, &user]] {
        let args = [
            "run",
            files[0],
            files[1],
            "--arg",
            "u32[1]=zeros",
            "--print",
            "0",
        ];
        assert_eq!(ptxjit(&args).expect(0).stdout, "0: 7\n");
    }
    let alone = ptxjit(&["run", &user, "--arg", "u32[1]=zeros"]).expect(2);
    assert!(alone.stderr.contains("`f`"), "{}", alone.stderr);
    let twice = ptxjit(&["run", &user, &f, &f, "--arg", "u32[1]=zeros"]).expect(2);
    assert!(
        twice.stderr.contains("multiple definition of 'f'"),
        "{}",
        twice.stderr
    );
    let dumped = ptxjit(&["dump", &user, &f, "--after", "opt"]).expect(0);
    assert!(
        dumped.stdout.contains('7') && !dumped.stdout.contains("call"),
        "{}",
        dumped.stdout
    );
}

#[test]
fn check_links_if_asked() {
    let (user, f) = (ptx("check-user.ptx", USER), seven("check-f.ptx"));
    ptxjit(&["check", &user, &f]).expect(0);
    ptxjit(&["check", "--link", "--all-kernels", &user, &f]).expect(0);
    let missing = ptxjit(&["check", "--link", &user, &user]).expect(2);
    assert!(
        missing.stdout.contains("multiple definition of 'k'"),
        "{}",
        missing.stdout
    );
    assert!(
        missing.stdout.contains("undefined reference to 'f'"),
        "{}",
        missing.stdout
    );
    let bad = ptx(
        "check-bad.ptx",
        ".visible .func (.reg .u32 r) f() {\n mov.u32 r, x;\n ret; }\n",
    );
    let found = ptxjit(&["check", "--link", "--json", &user, &bad]).expect(2);
    let found: Value = serde_json::from_str(&found.stdout).expect("JSON");
    let diagnostic = &found["files"][0]["diagnostics"][0];
    assert_eq!(diagnostic["file"], Value::from(bad));
    assert_eq!(diagnostic["line"], 5);
}

#[test]
fn fat_binaries_are_run() {
    let scaled = |file: &str, capability: Option<&str>| {
        let file = data(file);
        let args = [
            "run",
            &file,
            "--arg",
            "u32[3]=arange",
            "--arg",
            "u32=3",
            "--block",
            "4",
            "--print",
            "0",
        ];
        command(Path::new(env!("CARGO_BIN_EXE_ptxjit")), &args, capability)
    };
    assert_eq!(scaled("lz4.fatbin", None).expect(0).stdout, "0: 0 8 16\n");
    assert_eq!(
        scaled("zstd.fatbin", Some("9.0")).expect(0).stdout,
        "0: 0 9 18\n"
    );
    assert_eq!(
        scaled("zstd.fatbin", Some("7.5")).expect(0).stdout,
        "0: 0 5 10\n"
    );
    let none = scaled("cubin.fatbin", None).expect(2).stderr;
    assert!(
        none.contains("machine code for sm_80") && none.contains("code=compute_80"),
        "{none}"
    );
    let cubin = scaled("sm80.cubin", None).expect(2).stderr;
    assert!(cubin.contains("sm_80"), "{cubin}");
    let wrong = scaled("lz4.fatbin", Some("nine")).expect(2).stderr;
    assert!(wrong.contains("PTXJIT_COMPUTE_CAPABILITY"), "{wrong}");
    ptxjit(&["check", &data("lz4.fatbin")]).expect(0);
    let both = ptxjit(&["check", "--link", &data("lz4.fatbin"), &data("zstd.fatbin")]).expect(2);
    assert!(
        both.stdout.contains("multiple definition of 'scale'"),
        "{}",
        both.stdout
    );
}

#[test]
fn ptxas_checks_and_delivers() {
    let f = seven("as-f.ptx");
    let out = temp("as-f.cubin", b"old");
    let words = [
        "ptxas",
        "-lineinfo",
        "-v",
        "--fmad=false",
        "--opt-level",
        "3",
        "--some-new-option",
        "--gpu-name=sm_90a",
        &f,
        "-o",
        &out,
    ];
    ptxjit(&words).expect(0);
    let written = std::fs::read(&out).unwrap();
    let text = std::fs::read(&f).unwrap();
    assert_eq!(written.split_last(), Some((&0, text.as_slice())));

    let kernels = ptx(
        "as-k.ptx",
        ".visible .entry one() { ret; }\n.visible .entry two() { ret; }",
    );
    let told = ptxjit(&[
        "ptxas",
        "-v",
        "-arch",
        "sm_80",
        &kernels,
        "--output-file",
        &out,
    ])
    .expect(0);
    assert!(
        told.stderr
            .contains("Compiling entry function 'two' for 'sm_80'"),
        "{}",
        told.stderr
    );

    let options = temp(
        "as-options.txt",
        format!("-arch=sm_80\n-o {out}").as_bytes(),
    );
    ptxjit(&["ptxas", "--options-file", &options, &kernels]).expect(0);
    let circle = Path::new(env!("CARGO_TARGET_TMPDIR")).join("as-circle.txt");
    let circle = circle.to_string_lossy();
    temp("as-circle.txt", format!("-optf {circle}").as_bytes());
    ptxjit(&["ptxas", "-optf", &circle, &kernels]).expect(255);
}

#[test]
fn ptxas_refuses_as_the_assembler_does() {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("as-none.cubin");
    let _ = std::fs::remove_file(&out);
    let out = out.to_string_lossy().into_owned();
    let bad = ptx("as-bad.ptx", ".visible .entry k() {\n nonsense;\n ret; }");
    let (user, f) = (ptx("as-user.ptx", USER), seven("as-other.ptx"));
    let cases: [(&[&str], &str); 8] = [
        (&[&bad], "as-bad.ptx:5:"),
        (
            &[&bad],
            "ptxas fatal   : Ptx assembly aborted due to errors",
        ),
        (&[&user], "undefined reference to 'f'"),
        (
            &["no-such-file.ptx"],
            "Input file 'no-such-file.ptx' could not be opened",
        ),
        (&[], "No input file"),
        (&[&user, &f], "Several input files"),
        (
            &[&f, "-arch", "sm_8x"],
            "Value 'sm_8x' is not defined for option 'gpu-name'",
        ),
        (
            &[&f, "-arch=sm_75"],
            "SM version specified by .target is higher",
        ),
    ];
    for (words, expected) in cases {
        let words = [&["ptxas", "-arch=sm_80", "-o", &out], words].concat();
        let done = ptxjit(&words).expect(255);
        assert!(done.stderr.contains(expected), "{words:?}: {}", done.stderr);
        assert!(!Path::new(&out).exists(), "{words:?}");
    }
    ptxjit(&["ptxas", "-arch=sm_80", "-c", &user, "-o", &out]).expect(0);
    std::fs::remove_file(&out).unwrap();
}

#[test]
fn ptxas_names_its_release_and_itself() {
    let version = ptxjit(&["ptxas", "--version"]).expect(0).stdout;
    let lines: Vec<&str> = version.lines().collect();
    assert!(
        lines.contains(&"Cuda compilation tools, release 12.9, V12.9.86"),
        "{version}"
    );
    assert!(
        version.contains(concat!("ptxjit ", env!("CARGO_PKG_VERSION"))),
        "{version}"
    );
    // Under the assembler's name, the same without the sub-command's.
    let link = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ptxas");
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_ptxjit"), &link).unwrap();
    assert_eq!(command(&link, &["-V"], None).expect(0).stdout, version);
    assert!(
        command(&link, &["-h"], None)
            .expect(0)
            .stdout
            .contains("--gpu-name")
    );
}
