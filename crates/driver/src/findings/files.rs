//! Files with all findings of the process. They are rewritten with each finding, as a process may
//! end in any way, and take their place whole or not at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use ptxjit_persona::{Report, ReportFormat};

/// One thread writes at a time.
static WRITING: Mutex<()> = Mutex::new(());

/// The file of this process.
fn name_of(report: &Report) -> PathBuf {
    let name = report.file.to_string_lossy();
    let path = match name.contains("%p") {
        true => name.replace("%p", &std::process::id().to_string()).into(),
        false => report.file.clone(),
    };
    // A link stays, and the file that it leads to is replaced.
    path.canonicalize().unwrap_or(path)
}

/// Whether files of these names can be written.
pub(super) fn check(reports: &[Report]) -> Result<(), String> {
    for path in reports.iter().map(name_of) {
        let tried = match is_plain(&path) {
            true => File::create(beside(&path)).and_then(|_| fs::remove_file(beside(&path))),
            false => File::options().write(true).open(&path).map(|_| ()),
        };
        tried.map_err(|err| format!("cannot write `{}`: {err}", path.display()))?;
    }
    Ok(())
}

/// Writes all files.
pub(super) fn write(reports: &[Report], contents: impl Fn(ReportFormat) -> (String, bool)) {
    let _guard = WRITING.lock();
    for report in reports {
        let path = name_of(report);
        // Pipes and terminals get one document, at the end.
        if is_plain(&path) {
            put(&path, &contents(report.format).0);
        }
    }
}

/// Writes all files for the last time. A process without findings must not replace what another of
/// the same program has found.
pub(super) fn write_last(reports: &[Report], contents: impl Fn(ReportFormat) -> (String, bool)) {
    let _guard = WRITING.lock();
    for report in reports {
        let path = name_of(report);
        let (text, has_findings) = contents(report.format);
        if has_findings || !path.exists() || !is_plain(&path) {
            put(&path, &text);
        }
    }
}

fn put(path: &Path, text: &str) {
    static HAS_COMPLAINED: AtomicBool = AtomicBool::new(false);
    let put = match is_plain(path) {
        true => replace(path, text),
        false => append(path, text),
    };
    if let Err(err) = put
        && !HAS_COMPLAINED.swap(true, Ordering::Relaxed)
    {
        let path = path.display();
        let text = format!("ptxjit: error: findings cannot be written to `{path}`: {err}\n");
        let _ = io::stderr().write_all(text.as_bytes());
    }
}

/// Whether this is a file, or none yet: not a pipe, a device or a terminal.
fn is_plain(path: &Path) -> bool {
    // A file of a descriptor (`/dev/stdout`) is in use by others, who would go on with the old one.
    let is_device = ["/dev", "/proc"].iter().any(|dir| path.starts_with(dir));
    !is_device && path.metadata().map_or(true, |it| it.is_file())
}

fn append(path: &Path, text: &str) -> io::Result<()> {
    let mut file = File::options().append(true).open(path)?;
    file.write_all(text.as_bytes())
}

/// A name in the same folder.
fn beside(path: &Path) -> PathBuf {
    path.with_file_name(format!(".ptxjit-findings-{}.tmp", std::process::id()))
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let beside = beside(path);
    let write = || -> io::Result<()> {
        let mut file = File::create(&beside)?;
        file.write_all(text.as_bytes())?;
        // Some file systems find out only now that there is no room.
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    write().inspect_err(|_| {
        let _ = fs::remove_file(&beside);
    })
}
