//! Finding tests: every build of every case file under the given paths.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::case::CaseFile;
use crate::paths::{Outside, shown};

/// One case with one build of its kernels.
#[derive(Clone, Debug)]
pub struct Test {
    /// Last folders of the path and the PTX file.
    pub name: String,
    pub case_file: PathBuf,
    /// The files to run with; empty if each launch names its own.
    pub files: Vec<PathBuf>,
    /// Whether files of the case may lie outside of its folder.
    pub outside: Outside,
    /// Why the test cannot even be set up.
    pub broken: Option<String>,
}

impl Test {
    /// The part of the name before the PTX file.
    pub fn suite(&self) -> &str {
        self.name.rsplit_once('/').map_or("", |(suite, _)| suite)
    }
}

/// All tests under `paths` that have a case called `label`, in the order of their paths.
pub fn tests(paths: &[PathBuf], label: &str, outside: Outside) -> Result<Vec<Test>> {
    let mut files = Vec::new();
    for path in paths {
        let before = files.len();
        find(path, &mut files)?;
        ensure!(files.len() > before, "no case.json under {}", shown(path));
    }
    files.dedup();
    Ok(files
        .iter()
        .flat_map(|file| of_case_file(file, label, outside))
        .collect())
}

fn find(path: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let context = || format!("cannot read {}", shown(path));
    if !std::fs::metadata(path).with_context(context)?.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(path).with_context(context)? {
        let entry = entry.with_context(context)?;
        // Links to folders are not followed: they may lead in circles.
        let is_dir = entry.file_type().with_context(context)?.is_dir();
        if is_dir || entry.file_name() == "case.json" {
            entries.push(entry.path());
        }
    }
    entries.sort();
    entries.iter().try_for_each(|entry| find(entry, files))
}

fn of_case_file(path: &Path, label: &str, outside: Outside) -> Vec<Test> {
    let folder = short_name(path);
    let test = |name: String, files: Vec<PathBuf>| Test {
        name,
        case_file: path.to_owned(),
        files,
        outside,
        broken: None,
    };
    // The name of a test stands in reports, whose readers may make paths of it.
    let broken = |err: anyhow::Error| Test {
        broken: Some(format!("{err:#}")),
        ..test(format!("{folder}/case.json"), Vec::new())
    };
    let file = match CaseFile::read(path, outside) {
        Ok(file) => file,
        Err(err) => return vec![broken(err)],
    };
    let Some(case) = file.case(label) else {
        return Vec::new();
    };
    if case.names_its_files() && !case.launches.is_empty() {
        return vec![test(folder, Vec::new())];
    }
    let builds = file.ptx.iter();
    builds
        .map(|ptx| match file.dir.find(&ptx.file) {
            Ok(path) => test(format!("{folder}/{}", ptx.file), vec![path]),
            Err(err) => broken(err),
        })
        .collect()
}

/// The names of the case's folder and of the one around it.
fn short_name(path: &Path) -> String {
    let absolute = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let folders: Vec<_> = absolute
        .ancestors()
        .skip(1)
        .filter_map(Path::file_name)
        .take(2)
        .collect();
    let names: Vec<_> = folders
        .iter()
        .rev()
        .map(|name| name.to_string_lossy())
        .collect();
    names.join("/")
}
