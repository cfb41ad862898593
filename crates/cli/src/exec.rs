//! `ptxjit exec`: runs a program whose CUDA libraries are ptxjit's, and `ptxjit dist`, which
//! installs these.
//!
//! The environment does it all: the dynamic linker finds our libraries first, also for programs
//! that name a file by its path (`ptxjit-audit`), and packages that look for themselves are told
//! where to look. The command then replaces this process, so its exit status, signals and terminal
//! are its own.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};

use crate::args::{DistArgs, LaunchArgs};
use crate::libraries::{self, Libraries};
use crate::sanitize::{ProgramReport, ReportFormat};
use crate::suppress;
use crate::term;

/// What shells exit with when a command is not found, or cannot be run; and here, too, when the
/// libraries are missing.
const NOT_FOUND: u8 = 127;
const NOT_RUN: u8 = 126;

/// What all commands exit with when they are given something wrong.
const WRONG: u8 = 2;

/// Room for thread-local variables of libraries that a program starts with. Where there is an audit
/// library, the C library must decide on it before it has seen them, and has only half a kilobyte
/// for those that it did not count on; rustc's library wants 24. Each thread has this room, in its
/// stack: not more than small stacks bear.
const TLS_ROOM: &str = "glibc.rtld.optional_static_tls=32768";

pub(crate) fn run(args: &LaunchArgs) -> ExitCode {
    let sanitize = match sanitize(args) {
        Ok(sanitize) => sanitize,
        Err(err) => return fail(WRONG, &format!("{err:#}")),
    };
    let variables = match command().and_then(|command| variables(args, &command)) {
        Ok(mut variables) => {
            variables.extend(sanitize.map(|it| ("PTXJIT_SANITIZE", it)));
            variables
        }
        Err(err) => return fail(NOT_RUN, &format!("{err:#}")),
    };
    if args.print_env {
        for (name, value) in &variables {
            term::out(&format!(
                "export {name}={}\n",
                quoted(&value.to_string_lossy())
            ));
        }
        return ExitCode::SUCCESS;
    }
    forget_old_documents(args);
    let (program, words) = args
        .command
        .split_first()
        .expect("the parser wants a command");
    let error = Command::new(program).args(words).envs(variables).exec();
    let program = program.to_string_lossy();
    match error.kind() {
        ErrorKind::NotFound => fail(NOT_FOUND, &format!("`{program}`: command not found")),
        _ => fail(NOT_RUN, &format!("`{program}` cannot be run: {error}")),
    }
}

pub(crate) fn dist(args: &DistArgs) -> ExitCode {
    let done =
        command().and_then(|command| libraries::lay_out(&command, &args.folder, !args.no_links));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => fail(1, &format!("{err:#}")),
    }
}

fn fail(code: u8, text: &str) -> ExitCode {
    term::err(&format!("error: {text}"));
    ExitCode::from(code)
}

/// The file that this process runs.
fn command() -> Result<PathBuf> {
    std::env::current_exe().context("the path of the command is not known")
}

/// The variables that a program needs, beside those it has.
fn variables(args: &LaunchArgs, command: &Path) -> Result<Vec<(&'static str, OsString)>> {
    let libraries = Libraries::find(command)?;
    let mut variables = vec![
        (
            "LD_LIBRARY_PATH",
            first("LD_LIBRARY_PATH", libraries.folder.as_os_str()),
        ),
        ("LD_AUDIT", first("LD_AUDIT", libraries.audit().as_os_str())),
        ("GLIBC_TUNABLES", tunables()),
        ("TRITON_LIBCUDA_PATH", libraries.folder.clone().into()),
        ("TRITON_PTXAS_PATH", libraries.ptxas.clone().into()),
        (
            "TRITON_PTXAS_BLACKWELL_PATH",
            libraries.ptxas.clone().into(),
        ),
    ];
    let mut set =
        |name, value: Option<OsString>| variables.extend(value.map(|value| (name, value)));
    set(
        "PTXJIT_COMPUTE_CAPABILITY",
        args.compute_capability.clone().map(OsString::from),
    );
    set("PTXJIT_PERSONA", args.persona.clone());
    set(
        "PTXJIT_DEVICE_COUNT",
        args.devices.map(|n| n.to_string().into()),
    );
    set(
        "PTXJIT_DEVICE_MEMORY",
        args.memory.clone().map(OsString::from),
    );
    set("PTXJIT_MEMCHECK", args.memcheck.then(|| "1".into()));
    set(
        "PTXJIT_TIMEOUT",
        args.timeout
            .map(|time| time.as_secs_f64().to_string().into()),
    );
    set(
        "PTXJIT_SCHEDULE",
        args.schedule.map(|schedule| schedule.to_string().into()),
    );
    set(
        "PTXJIT_TRACE",
        args.trace.as_deref().map(absolute).transpose()?,
    );
    set("PTXJIT_REPORT", lines(args).map(absolute).transpose()?);
    Ok(variables)
}

/// What to look for, and what is to be done about it.
fn sanitize(args: &LaunchArgs) -> Result<Option<OsString>> {
    let n_lines = args.report.len() - documents(args).count();
    ensure!(n_lines <= 1, "`--report FILE` is given {n_lines} times");
    let Some(checks) = &args.sanitize else {
        ensure!(
            documents(args).count() == 0,
            "documents of findings need `--sanitize`"
        );
        return Ok(None);
    };
    let mut text = OsString::from(&checks.0);
    if let Some(path) = &args.suppress {
        // What is wrong with the file is better known now than in the midst of the program.
        suppress::read(path)?;
        text.push(";suppress=");
        text.push(setting(path)?);
    }
    if let Some(fail) = args.sanitize_fail {
        text.push(format!(";fail={}", fail.name()));
    }
    if let Some(limit) = args.sanitize_limit {
        text.push(format!(";limit={limit}"));
    }
    for (format, path) in documents(args) {
        text.push(format!(";report={}=", format.name()));
        text.push(setting(path)?);
    }
    Ok(Some(text))
}

/// A path among settings.
fn setting(path: &Path) -> Result<OsString> {
    let absolute = absolute(path)?;
    let text = absolute.to_string_lossy();
    ensure!(
        !text.contains(';'),
        "`{text}` has a semicolon, which parts settings"
    );
    Ok(absolute)
}

/// The file for reports as lines of JSON.
fn lines(args: &LaunchArgs) -> Option<&Path> {
    args.report.iter().find_map(|report| match report {
        ProgramReport::Lines(path) => Some(path.as_path()),
        ProgramReport::Document(..) => None,
    })
}

/// The files for documents of findings.
fn documents(args: &LaunchArgs) -> impl Iterator<Item = (ReportFormat, &Path)> {
    args.report.iter().filter_map(|report| match report {
        ProgramReport::Lines(_) => None,
        ProgramReport::Document(format, path) => Some((*format, path.as_path())),
    })
}

/// Takes away what an earlier program has left: a process that finds nothing replaces no document,
/// as it may be another's of the same program.
fn forget_old_documents(args: &LaunchArgs) {
    for (_, path) in documents(args) {
        if path.is_file() {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A list with colons that begins with `item` and goes on with what the variable has.
fn first(name: &str, item: &OsStr) -> OsString {
    let mut list = item.to_owned();
    let rest = std::env::var_os(name).unwrap_or_default();
    for other in
        std::env::split_paths(&rest).filter(|other| !other.as_os_str().is_empty() && other != item)
    {
        list.push(":");
        list.push(other);
    }
    list
}

/// The C library's settings with [`TLS_ROOM`], unless the user has decided on that.
fn tunables() -> OsString {
    let set = std::env::var_os("GLIBC_TUNABLES").unwrap_or_default();
    with_tls_room(&set.to_string_lossy()).into()
}

fn with_tls_room(set: &str) -> String {
    let name = TLS_ROOM.split('=').next().unwrap_or(TLS_ROOM);
    let is_set = set
        .split(':')
        .any(|setting| setting.split('=').next() == Some(name));
    match (is_set, set.is_empty()) {
        (true, _) => set.to_owned(),
        (false, true) => TLS_ROOM.to_owned(),
        (false, false) => format!("{set}:{TLS_ROOM}"),
    }
}

/// Programs change their folder, and what they write is to be where the user was.
fn absolute(path: &Path) -> Result<OsString> {
    let path =
        std::path::absolute(path).with_context(|| format!("`{}` is no path", path.display()))?;
    Ok(path.into())
}

/// A word as a shell has to be given it.
pub(crate) fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-:+,@%=".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_for_thread_local_variables_is_added_once() {
        assert_eq!(with_tls_room(""), TLS_ROOM);
        let other = "glibc.malloc.check=3";
        assert_eq!(with_tls_room(other), format!("{other}:{TLS_ROOM}"));
        let own = "glibc.rtld.optional_static_tls=100:glibc.malloc.check=3";
        assert_eq!(with_tls_room(own), own);
        assert_eq!(with_tls_room(TLS_ROOM), TLS_ROOM);
    }

    #[test]
    fn words_for_shells() {
        assert_eq!(quoted("/usr/lib:/x-1.2_3"), "/usr/lib:/x-1.2_3");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's $HOME"), r"'it'\''s $HOME'");
        assert_eq!(quoted("x;rm"), "'x;rm'");
    }
}
