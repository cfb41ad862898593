//! Names in case files that become paths.
//!
//! Case files come with pull requests of strangers. A name of theirs must neither choose where this
//! process writes ([`file_name`]) nor make it read what lies outside of the case's folder
//! ([`CaseDir::find`]).

use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

/// A case's folder, which the files that the case names lie in.
#[derive(Clone, Debug, Default)]
pub struct CaseDir {
    path: PathBuf,
    outside: Outside,
}

/// Whether files of a case may lie outside of its folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outside {
    #[default]
    Refused,
    Allowed,
}

impl Outside {
    /// What `--allow-outside` says.
    pub fn from_flag(allowed: bool) -> Outside {
        if allowed {
            Outside::Allowed
        } else {
            Outside::Refused
        }
    }
}

impl CaseDir {
    /// The folder that `case_file` lies in.
    pub fn of(case_file: &Path, outside: Outside) -> CaseDir {
        let path = case_file.parent().unwrap_or(Path::new("")).to_owned();
        CaseDir { path, outside }
    }

    /// The path of a file that the case names. Unless files outside are allowed, it is a plain file
    /// below the folder, and no link on the way to it leads out.
    pub fn find(&self, name: &str) -> Result<PathBuf> {
        let path = self.path.join(name);
        match self.outside {
            Outside::Allowed => Ok(path),
            Outside::Refused => {
                self.check(name, &path).with_context(|| {
                    format!("the case names the file {name:?}; --allow-outside would allow it")
                })?;
                Ok(path)
            }
        }
    }

    fn check(&self, name: &str, path: &Path) -> Result<()> {
        ensure!(!name.contains('\0'), "a file's name has no NUL");
        for part in Path::new(name).components() {
            match part {
                Component::Normal(_) | Component::CurDir => {}
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                    bail!("files of a case are named from its folder down")
                }
            }
        }
        let folder = match self.path.as_os_str().is_empty() {
            true => Path::new("."),
            false => &self.path,
        };
        // A file that does not exist leads nowhere; reading it tells better what is wrong.
        let (Ok(folder), Ok(real)) = (folder.canonicalize(), path.canonicalize()) else {
            return Ok(());
        };
        ensure!(
            real.starts_with(folder),
            "a link leads out of the case's folder"
        );
        // A pipe would wait for a writer forever, a device may do anything.
        ensure!(real.is_file(), "it is not a plain file");
        Ok(())
    }
}

/// A path within a line of text.
pub fn shown(path: &Path) -> String {
    ptxjit::escape(&path.to_string_lossy()).into_owned()
}

/// Checks that a file called `name` lies in the folder that it is written to, and can be seen
/// there. `what` is the name's owner.
pub fn file_name(what: &str, name: &str) -> Result<()> {
    let fault = if name.is_empty() {
        "is empty"
    } else if name.contains(['/', '\\']) {
        "has a separator of folders"
    } else if name.contains('\0') {
        "has a NUL"
    } else if name.starts_with('.') {
        "starts with a dot"
    } else {
        return Ok(());
    };
    bail!("the {what} {name:?} cannot be a file's name: it {fault}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files() {
        for name in ["x", "out.0", "größe", "a b", "-", "x..y", "c:x"] {
            assert!(file_name("buffer", name).is_ok(), "{name}");
        }
        for name in [
            "", ".", "..", ".x", "../x", "/x", "x/y", "x/", "\\x", "x\0y",
        ] {
            assert!(file_name("buffer", name).is_err(), "{name}");
        }
    }

    #[test]
    fn only_below_the_folder() {
        let base = std::env::temp_dir().join(format!("ptxjit-paths-{}", std::process::id()));
        let case = base.join("case");
        std::fs::create_dir_all(case.join("data")).unwrap();
        for file in ["secret", "case/x", "case/data/y"] {
            std::fs::write(base.join(file), "").unwrap();
        }
        for (from, to) in [
            ("../secret", "link"),
            ("..", "up"),
            ("x", "inner"),
            ("/", "root"),
            ("../case/x", "around"),
        ] {
            let _ = std::os::unix::fs::symlink(from, case.join(to));
        }
        let dir = CaseDir::of(&case.join("case.json"), Outside::Refused);
        for name in ["x", "data/y", "./x", "inner", "around", "missing"] {
            assert!(dir.find(name).is_ok(), "{name}");
        }
        let absolute = case.join("x");
        for name in [
            "../secret",
            "data/../../secret",
            "data/../x",
            "/etc/passwd",
            absolute.to_str().unwrap(),
            "link",
            "up/secret",
            "root/etc/passwd",
            "data",
            "x\0",
            "",
        ] {
            assert!(dir.find(name).is_err(), "{name}");
        }
        let dir = CaseDir::of(&case.join("case.json"), Outside::Allowed);
        assert!(dir.find("../secret").is_ok_and(|path| path.is_file()));
        let _ = std::fs::remove_dir_all(base);
    }
}
