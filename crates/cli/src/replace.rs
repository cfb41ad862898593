//! Files of results, which appear whole or not at all: they are written beside their place and
//! renamed, so that a full disk leaves what was there before.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};

use crate::paths::shown;

/// What becomes of a link where the file shall be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// It stays, and the file that it leads to is replaced.
    Follow,
    /// The file takes its place.
    Replace,
}

/// Makes the file `path` of what `write` writes.
pub fn replace(
    path: &Path,
    links: Links,
    write: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<()> {
    let place = Place::find(path, links);
    place
        .and_then(|place| place.fill(write))
        .with_context(|| format!("cannot write {}", shown(path)))
}

enum Place {
    /// A plain file, or nothing yet.
    Plain(PathBuf),
    /// A pipe, a terminal or a device, which cannot be replaced.
    Stream(File),
}

impl Place {
    fn find(path: &Path, links: Links) -> Result<Place> {
        let is_link = path.symlink_metadata().is_ok_and(|it| it.is_symlink());
        if is_link && links == Links::Replace {
            return Ok(Place::Plain(path.to_owned()));
        }
        // Files of descriptors (`/dev/stdout`) are in use by others, who would go on with the file
        // that was replaced.
        let is_device = ["/dev", "/proc"].iter().any(|dir| path.starts_with(dir));
        if is_device || path.metadata().is_ok_and(|it| !it.is_file()) {
            return Ok(Place::Stream(OpenOptions::new().write(true).open(path)?));
        }
        let target = if is_link {
            path.canonicalize()?
        } else {
            path.to_owned()
        };
        Ok(Place::Plain(target))
    }

    fn fill(self, write: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
        match self {
            Place::Stream(file) => pour(&file, write),
            Place::Plain(path) => {
                let (file, beside) = create_beside(&path)?;
                let written = pour(&file, write).and_then(|()| finish(&file, &beside, &path));
                if written.is_err() {
                    let _ = fs::remove_file(&beside);
                }
                written
            }
        }
    }
}

fn pour(file: &File, write: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    let mut writer = BufWriter::new(file);
    write(&mut writer)?;
    Ok(writer.flush()?)
}

/// Gives the file that is written the permissions of the old one, and its place.
fn finish(file: &File, beside: &Path, path: &Path) -> Result<()> {
    if let Ok(old) = path.symlink_metadata()
        && old.is_file()
    {
        file.set_permissions(old.permissions())?;
    }
    // Some file systems find out only now that there is no room.
    file.sync_all()?;
    Ok(fs::rename(beside, path)?)
}

/// A new file in the folder of `path`.
fn create_beside(path: &Path) -> io::Result<(File, PathBuf)> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!(".ptxjit-{}-{number}.tmp", std::process::id());
        let beside = path.with_file_name(name);
        match OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&beside)
        {
            // Left behind by a process of the same number.
            Err(err) if err.kind() == io::ErrorKind::AlreadyExists => {}
            Err(err) => return Err(err),
            Ok(file) => return Ok((file, beside)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn whole_or_not_at_all() {
        let dir = std::env::temp_dir().join(format!("ptxjit-replace-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let (file, link) = (dir.join("file"), dir.join("link"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        symlink("file", &link).unwrap();
        let fails = replace(&file, Links::Follow, |out| {
            out.write_all(b"half")?;
            anyhow::bail!("the disk is full")
        });
        assert!(fails.is_err());
        assert_eq!(fs::read(&file).unwrap(), b"old");
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 2);
        let put = |path: &Path, links, text: &[u8]| {
            replace(path, links, |out| Ok(out.write_all(text)?)).unwrap();
        };
        put(&link, Links::Follow, b"new");
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert!(link.is_symlink());
        let mode = file.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        put(&link, Links::Replace, b"third");
        assert!(!link.is_symlink());
        assert_eq!(fs::read(&link).unwrap(), b"third");
        assert_eq!(fs::read(&file).unwrap(), b"new");
        put(Path::new("/dev/null"), Links::Follow, b"gone");
        assert!(replace(&dir, Links::Follow, |_| Ok(())).is_err());
        let _ = fs::remove_dir_all(dir);
    }
}
