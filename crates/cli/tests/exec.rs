//! `ptxjit exec` and `ptxjit dist` from the outside: environment, exit statuses, where libraries
//! are found.
//!
//! What programs do with the libraries is tested elsewhere; here any file stands for one.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// An installation in a folder of its own, with files that stand for the libraries.
fn installation(name: &str, lib: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("exec")
        .join(name);
    let _ = fs::remove_dir_all(&root);
    for folder in ["bin", lib] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    fs::hard_link(env!("CARGO_BIN_EXE_ptxjit"), root.join("bin/ptxjit")).unwrap();
    for file in ["libcuda.so.1", "libptxjit_audit.so"] {
        fs::write(root.join(lib).join(file), "").unwrap();
    }
    symlink("libcuda.so.1", root.join(lib).join("libcuda.so")).unwrap();
    symlink("libcuda.so.1", root.join(lib).join("libgpuocelot.so")).unwrap();
    fs::write(root.join("bin/ptxas"), "").unwrap();
    root.canonicalize().unwrap()
}

/// `ptxjit exec` of an installation, in an environment without variables that matter here.
fn exec(root: &Path) -> Command {
    let mut command = Command::new(root.join("bin/ptxjit"));
    command.arg("exec");
    for name in [
        "LD_LIBRARY_PATH",
        "LD_AUDIT",
        "PTXJIT_LIB_DIR",
        "GLIBC_TUNABLES",
    ] {
        command.env_remove(name);
    }
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The value of a variable in what `--print-env` has printed.
fn value(output: &Output, name: &str) -> Option<String> {
    assert!(output.status.success(), "{}", text(&output.stderr));
    let prefix = format!("export {name}=");
    let stdout = text(&output.stdout);
    let line = stdout.lines().find_map(|line| line.strip_prefix(&prefix));
    line.map(str::to_owned)
}

fn print_env(root: &Path, options: &[&str]) -> Output {
    exec(root)
        .args(options)
        .arg("--print-env")
        .output()
        .unwrap()
}

#[test]
fn libraries_of_an_installation() {
    let root = installation("plain", "lib");
    let root_text = root.to_string_lossy();
    let printed = print_env(&root, &[]);
    let value = |name| value(&printed, name);
    assert_eq!(value("LD_LIBRARY_PATH"), Some(format!("{root_text}/lib")));
    let audit = format!("{root_text}/lib/libptxjit_audit.so");
    assert_eq!(value("LD_AUDIT"), Some(audit));
    let room = "glibc.rtld.optional_static_tls=32768";
    assert_eq!(value("GLIBC_TUNABLES"), Some(room.to_owned()));
    assert_eq!(
        value("TRITON_LIBCUDA_PATH"),
        Some(format!("{root_text}/lib"))
    );
    let ptxas = format!("{root_text}/bin/ptxas");
    assert_eq!(value("TRITON_PTXAS_PATH"), Some(ptxas.clone()));
    assert_eq!(value("TRITON_PTXAS_BLACKWELL_PATH"), Some(ptxas));
    assert_eq!(value("PTXJIT_MEMCHECK"), None);
}

/// Under /usr, say, the libraries have a folder of their own, as others lie in lib.
#[test]
fn libraries_in_a_folder_of_their_own() {
    let root = installation("system", "lib/ptxjit");
    fs::write(root.join("lib/libcuda.so.1"), "").unwrap();
    fs::create_dir(root.join("lib/ptxjit/bin")).unwrap();
    fs::write(root.join("lib/ptxjit/bin/ptxas"), "").unwrap();
    let found = value(&print_env(&root, &[]), "LD_LIBRARY_PATH");
    assert_eq!(found, Some(format!("{}/lib/ptxjit", root.display())));
}

#[test]
fn what_is_set_already_comes_behind() {
    let root = installation("behind", "lib");
    let lib = format!("{}/lib", root.display());
    let output = exec(&root)
        .arg("--print-env")
        .env("LD_LIBRARY_PATH", "/a:/b")
        .output();
    let found = value(&output.unwrap(), "LD_LIBRARY_PATH");
    assert_eq!(found, Some(format!("{lib}:/a:/b")));
    let nested = exec(&root)
        .arg("--print-env")
        .env("LD_LIBRARY_PATH", format!("{lib}:/a"))
        .output()
        .unwrap();
    let found = value(&nested, "LD_LIBRARY_PATH");
    assert_eq!(found, Some(format!("{lib}:/a")));
}

#[test]
fn options_become_variables() {
    let root = installation("options", "lib");
    let words = "--compute-capability 9.0 --devices 2 --memory 1G --persona h100 --memcheck --timeout 1.5 --schedule seed:7 \
                 --sanitize race,init --sanitize-fail warning --sanitize-limit 7 --trace t.txt --report r.json --report sarif=s.json";
    let words: Vec<&str> = words.split_whitespace().collect();
    let printed = print_env(&root, &words);
    let here = std::env::current_dir().unwrap();
    for (name, expected) in [
        ("PTXJIT_COMPUTE_CAPABILITY", "9.0".to_owned()),
        ("PTXJIT_DEVICE_COUNT", "2".to_owned()),
        ("PTXJIT_DEVICE_MEMORY", "1G".to_owned()),
        ("PTXJIT_PERSONA", "h100".to_owned()),
        ("PTXJIT_MEMCHECK", "1".to_owned()),
        (
            "PTXJIT_SANITIZE",
            format!(
                "'race,init;fail=warning;limit=7;report=sarif={}/s.json'",
                here.display()
            ),
        ),
        ("PTXJIT_TIMEOUT", "1.5".to_owned()),
        ("PTXJIT_SCHEDULE", "random:7".to_owned()),
        ("PTXJIT_TRACE", format!("{}/t.txt", here.display())),
        ("PTXJIT_REPORT", format!("{}/r.json", here.display())),
    ] {
        assert_eq!(value(&printed, name), Some(expected), "{name}");
    }
}

/// What is wrong is told before the program starts.
#[test]
fn wrong_settings_of_sanitizers() {
    let root = installation("wrong", "lib");
    let list = root.join("list");
    fs::write(&list, "race\nraces\n").unwrap();
    let list = list.to_string_lossy();
    for (words, why) in [
        (&["--sanitize", "races"][..], "`races` is none of mem"),
        (
            &["--sanitize", "race", "--suppress", &list],
            "line 2: `races` is no kind of finding",
        ),
        (&["--report", "sarif=x"], "need `--sanitize`"),
        (
            &["--sanitize", "all", "--report", "sarif=a;b"],
            "has a semicolon",
        ),
        (&["--report", "x", "--report", "y"], "is given 2 times"),
    ] {
        let output = exec(&root).args(words).args(["--", "true"]).output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        let err = text(&output.stderr);
        assert!(err.contains(why), "{words:?}: {err}");
    }
}

/// A shell that evaluates the lines has the values, whatever characters are in them.
#[test]
fn lines_are_quoted() {
    let root = installation("it's $HOME", "lib");
    let printed = print_env(&root, &[]);
    let script = format!(
        "unset LD_AUDIT\n{}\nunset LD_AUDIT\nprintf %s \"$LD_LIBRARY_PATH\"",
        text(&printed.stdout)
    );
    let shell = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(text(&shell.stdout), format!("{}/lib", root.display()));
}

/// The programs here are not to be audited by a file that is no library: the linker complains, but
/// goes on.
#[test]
fn the_program_takes_the_place() {
    let root = installation("program", "lib");
    let script = "printf '%s|%s' \"$PTXJIT_TIMEOUT\" \"$1\"; exit 7";
    let output = exec(&root)
        .args([
            "--timeout",
            "2",
            "--",
            "sh",
            "-c",
            script,
            "sh",
            "--memcheck",
        ])
        .output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(text(&output.stdout), "2|--memcheck");
}

#[test]
fn statuses_of_shells() {
    let root = installation("statuses", "lib");
    let status = |program: &str| {
        exec(&root)
            .args(["--", program])
            .output()
            .unwrap()
            .status
            .code()
    };
    assert_eq!(status("no-such-command-at-all"), Some(127));
    let file = root.join("file");
    fs::write(&file, "").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(status(&file.to_string_lossy()), Some(126));
    assert_eq!(status("true"), Some(0));
}

#[test]
fn missing_libraries_are_named() {
    let root = installation("missing", "lib");
    fs::remove_file(root.join("lib/libptxjit_audit.so")).unwrap();
    let output = print_env(&root, &[]);
    assert_eq!(output.status.code(), Some(126));
    let stderr = text(&output.stderr);
    assert!(stderr.contains("libcuda.so.1 is not near"), "{stderr}");
    assert!(
        stderr.contains("cargo build --release --workspace"),
        "{stderr}"
    );
}

/// Wheels hold no links, and cargo's files have names of their own: a folder of the user's has all
/// names.
#[test]
fn names_that_are_missing_are_linked() {
    let root = installation("wheel", "lib");
    for alias in ["libcuda.so", "libgpuocelot.so"] {
        fs::remove_file(root.join("lib").join(alias)).unwrap();
    }
    let caches = root.join("caches");
    let output = exec(&root)
        .arg("--print-env")
        .env("XDG_CACHE_HOME", &caches)
        .output();
    let folder = PathBuf::from(value(&output.unwrap(), "LD_LIBRARY_PATH").unwrap());
    assert!(folder.starts_with(&caches), "{}", folder.display());
    let mode = fs::metadata(&folder).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    for name in ["libcuda.so", "libcuda.so.1", "libgpuocelot.so"] {
        let target = fs::canonicalize(folder.join(name)).unwrap();
        assert_eq!(target, root.join("lib/libcuda.so.1"));
    }
    let ptxas = Command::new(folder.join("bin/ptxas"))
        .arg("--version")
        .output();
    assert!(text(&ptxas.unwrap().stdout).contains("V12.9.86"));
}

/// A folder that others can write to could hold anybody's libraries.
#[test]
fn folders_of_others_are_not_used() {
    let root = installation("shared", "lib");
    fs::remove_file(root.join("lib/libcuda.so")).unwrap();
    let caches = root.join("caches");
    fs::create_dir_all(caches.join("ptxjit")).unwrap();
    fs::set_permissions(caches.join("ptxjit"), fs::Permissions::from_mode(0o777)).unwrap();
    let temporary = root.join("temporary");
    fs::create_dir(&temporary).unwrap();
    let output = exec(&root)
        .arg("--print-env")
        .env("XDG_CACHE_HOME", &caches)
        .env("TMPDIR", &temporary)
        .output();
    let folder = PathBuf::from(value(&output.unwrap(), "LD_LIBRARY_PATH").unwrap());
    assert!(folder.starts_with(&temporary), "{}", folder.display());
}

#[test]
fn build_tree() {
    let root = installation("tree", "unused");
    let release = root.join("release");
    fs::create_dir_all(release.join("deps")).unwrap();
    fs::hard_link(env!("CARGO_BIN_EXE_ptxjit"), release.join("ptxjit")).unwrap();
    for file in ["libcuda.so", "libptxjit_nvml.so", "deps/libptxjit_audit.so"] {
        fs::write(release.join(file), file).unwrap();
    }
    let mut command = Command::new(release.join("ptxjit"));
    let output = command
        .args(["exec", "--print-env"])
        .env_remove("PTXJIT_LIB_DIR")
        .env_remove("LD_LIBRARY_PATH")
        .output();
    let folder = PathBuf::from(value(&output.unwrap(), "LD_LIBRARY_PATH").unwrap());
    assert_eq!(folder, release.join("ptxjit-lib"));
    for (name, file) in [
        ("libcuda.so", "libcuda.so"),
        ("libcuda.so.1", "libcuda.so"),
        ("libgpuocelot.so", "libcuda.so"),
        ("libnvidia-ml.so.1", "libptxjit_nvml.so"),
        ("libptxjit_audit.so", "deps/libptxjit_audit.so"),
    ] {
        assert_eq!(
            fs::read_to_string(folder.join(name)).unwrap(),
            file,
            "{name}"
        );
    }
    assert!(!folder.join("libcudart.so.12").exists());
}

#[test]
fn layout() {
    let root = installation("laid-out", "lib");
    let target = root.join("target");
    let done = Command::new(root.join("bin/ptxjit"))
        .arg("dist")
        .arg(&target)
        .env_remove("PTXJIT_LIB_DIR")
        .output();
    let done = done.unwrap();
    assert!(done.status.success(), "{}", text(&done.stderr));
    let version = Command::new(target.join("bin/ptxas"))
        .arg("--version")
        .output()
        .unwrap();
    assert!(text(&version.stdout).contains("V12.9.86"));
    let link = fs::read_link(target.join("lib/libgpuocelot.so")).unwrap();
    assert_eq!(link, Path::new("libcuda.so.1"));
    let found = value(&print_env(&target, &[]), "LD_LIBRARY_PATH");
    assert_eq!(found, Some(format!("{}/lib", target.display())));
}
