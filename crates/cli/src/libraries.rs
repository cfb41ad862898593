//! The libraries that programs load in the place of NVIDIA's: under which names, and where they
//! are.
//!
//! An installation has them in a folder of its own near the command. Cargo builds them under names
//! that no program asks for, and wheels cannot hold links, so where names are missing a folder of
//! links is made that has them all.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

/// A library, under all of its names.
pub(crate) struct Part {
    /// What cargo calls the file.
    pub(crate) built: &'static str,
    /// Whether nothing works without it.
    pub(crate) is_needed: bool,
    pub(crate) name: &'static str,
    /// Names under which some programs look for it.
    pub(crate) aliases: &'static [&'static str],
}

const fn part(built: &'static str, name: &'static str) -> Part {
    Part {
        built,
        is_needed: false,
        name,
        aliases: &[],
    }
}

/// All libraries.
pub(crate) const PARTS: &[Part] = &[
    Part {
        built: "libcuda.so",
        is_needed: true,
        name: DRIVER,
        aliases: &["libcuda.so", "libgpuocelot.so"],
    },
    Part {
        built: "libptxjit_audit.so",
        is_needed: true,
        name: AUDIT,
        aliases: &[],
    },
    part("libptxjit_nvml.so", "libnvidia-ml.so.1"),
    part("libptxjit_cudart12.so", "libcudart.so.12"),
    part("libptxjit_cudart13.so", "libcudart.so.13"),
    part("libptxjit_nvjitlink.so", "libnvJitLink.so.12"),
    part("libptxjit_nvjitlink13.so", "libnvJitLink.so.13"),
];

const DRIVER: &str = "libcuda.so.1";
const AUDIT: &str = "libptxjit_audit.so";

/// Names the folder of libraries, instead of a search.
pub(crate) const FOLDER_VARIABLE: &str = "PTXJIT_LIB_DIR";

/// Where everything is that programs need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Libraries {
    pub(crate) folder: PathBuf,
    pub(crate) ptxas: PathBuf,
}

impl Libraries {
    /// Those that belong to the command, which is the file `command`.
    pub(crate) fn find(command: &Path) -> Result<Libraries> {
        let near = near(command)?;
        let has_all_names = near.iter().all(|(name, file)| {
            let is_named = file.file_name().is_some_and(|file| file == *name);
            is_named && file.parent() == near[0].1.parent()
        });
        let folder = match near[0].1.parent() {
            Some(folder) if has_all_names => folder.to_path_buf(),
            _ => link_folder(command, &near)?,
        };
        let beside = [folder.join("bin/ptxas"), folder.join("../bin/ptxas")];
        let ptxas = beside.into_iter().find(|ptxas| ptxas.exists());
        let Some(ptxas) = ptxas else {
            bail!("there is no bin/ptxas in or beside {}", folder.display());
        };
        let ptxas = ptxas.canonicalize()?;
        Ok(Libraries { folder, ptxas })
    }

    pub(crate) fn audit(&self) -> PathBuf {
        self.folder.join(AUDIT)
    }
}

/// All names with the files that they stand for; that of the driver is the first.
type Names = Vec<(&'static str, PathBuf)>;

/// The names for which `file` finds a file.
fn names(file: impl Fn(&Part) -> Option<PathBuf>) -> Names {
    let mut names = Names::new();
    for part in PARTS {
        let Some(file) = file(part) else { continue };
        names.push((part.name, file.clone()));
        names.extend(part.aliases.iter().map(|alias| (*alias, file.clone())));
    }
    names
}

/// The libraries near the command.
fn near(command: &Path) -> Result<Names> {
    let command = command.canonicalize()?;
    let beside = command.parent().unwrap_or(Path::new("/"));
    if let Some(folder) = std::env::var_os(FOLDER_VARIABLE).filter(|folder| !folder.is_empty()) {
        let folder = Path::new(&folder).canonicalize();
        let folder = folder.with_context(|| format!("${FOLDER_VARIABLE} names no folder"))?;
        if !is_ours(&folder) {
            bail!("there is no {DRIVER} with {AUDIT} in ${FOLDER_VARIABLE}");
        }
        return Ok(installed(&folder));
    }
    let installed_in = ["../lib/ptxjit", "../lib", "lib"].map(|folder| beside.join(folder));
    if let Some(folder) = installed_in.into_iter().find(|folder| is_ours(folder)) {
        return Ok(installed(&folder.canonicalize()?));
    }
    let built = built(beside);
    let has = |part: &Part| built.iter().any(|(name, _)| *name == part.name);
    if let Some(missing) = PARTS.iter().find(|part| part.is_needed && !has(part)) {
        bail!(
            "{} is not near {}: lay out command and libraries with `ptxjit dist DIR`, or build them beside each other with `cargo \
             build --release --workspace`",
            missing.name,
            command.display()
        );
    }
    Ok(built)
}

/// Whether a folder has libraries of ours: many folders have a driver.
fn is_ours(folder: &Path) -> bool {
    folder.join(DRIVER).exists() && folder.join(AUDIT).exists()
}

/// The names in a folder that has the libraries under their own names. Aliases may be missing.
fn installed(folder: &Path) -> Names {
    let existing = |name: &str| Some(folder.join(name)).filter(|path| path.exists());
    let mut names = names(|part| existing(part.name));
    for (name, file) in &mut names {
        *file = existing(name).unwrap_or_else(|| file.clone());
    }
    names
}

/// The libraries as cargo leaves them, in `folder` or, where they are only what others depend on,
/// in `deps` below it.
pub(crate) fn built(folder: &Path) -> Names {
    names(|part| {
        let places = [
            folder.join(part.built),
            folder.join("deps").join(part.built),
        ];
        let changed = |path: &PathBuf| {
            let changed = fs::metadata(path).and_then(|meta| meta.modified());
            changed.unwrap_or(SystemTime::UNIX_EPOCH)
        };
        let existing = places.into_iter().filter(|path| path.exists());
        existing.max_by_key(changed)
    })
}

/// Makes the folder of links, beside the command or where the user's other files of this kind are.
fn link_folder(command: &Path, names: &Names) -> Result<PathBuf> {
    let command = command.canonicalize()?;
    let beside = command.with_file_name("ptxjit-lib");
    let is_build = names[0]
        .1
        .file_name()
        .is_some_and(|file| file == "libcuda.so");
    let made = match is_build {
        true => fill(&beside, &command, names),
        // Files of an installation belong to what has installed them.
        false => Err(io::ErrorKind::Unsupported.into()),
    };
    if made.is_ok() {
        return Ok(beside);
    }
    let folder = user_folder(&command)?;
    let context = || {
        format!(
            "links to the libraries cannot be made in {}",
            folder.display()
        )
    };
    fill(&folder, &command, names).with_context(context)?;
    Ok(folder)
}

/// A folder for links that no other user can write to.
fn user_folder(command: &Path) -> Result<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let user = fs::metadata("/proc/self")?.uid();
    let caches = set("XDG_CACHE_HOME").map(PathBuf::from);
    let caches = caches.or_else(|| Some(Path::new(&set("HOME")?).join(".cache")));
    let digest = Sha256::digest(command.as_os_str().as_encoded_bytes());
    let digest: String = digest[..8]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let name = format!("lib-{digest}");
    let temporary = std::env::temp_dir().join(format!("ptxjit-{user}"));
    let parents = caches.map(|caches| caches.join("ptxjit"));
    let mut last = None;
    for parent in parents.into_iter().chain([temporary]) {
        let folder = parent.join(&name);
        match private(&parent).and_then(|()| private(&folder)) {
            Ok(()) => return Ok(folder),
            Err(err) => last = Some((folder, err)),
        }
    }
    let (folder, err) = last.context("there is no place for links to the libraries")?;
    Err(err).with_context(|| format!("{} cannot be used", folder.display()))
}

/// Makes a folder that only its owner can write to, or finds that it is one.
fn private(folder: &Path) -> io::Result<()> {
    let made = fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder);
    let found = fs::symlink_metadata(folder).or_else(|err| made.and(Err(err)))?;
    let user = fs::metadata("/proc/self")?.uid();
    if !found.is_dir() || found.uid() != user || found.mode() & 0o022 != 0 {
        let why = "it is not a folder that only its owner, this user, can write to";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(())
}

/// Puts links and the stand-in for the assembler into a folder. Several processes may do so at the
/// same time.
fn fill(folder: &Path, command: &Path, names: &Names) -> io::Result<()> {
    fs::create_dir_all(folder.join("bin"))?;
    for (name, file) in names {
        let link = folder.join(name);
        if fs::read_link(&link).is_ok_and(|target| target == *file) {
            continue;
        }
        replace(&link, |path| symlink(file, path))?;
    }
    let ptxas = folder.join("bin/ptxas");
    let script = ptxas_script(command);
    if fs::read_to_string(&ptxas).is_ok_and(|text| text == script) {
        return Ok(());
    }
    replace(&ptxas, |path| write_script(path, &script))
}

/// Puts a file made by `make` at `path` in one step.
fn replace(path: &Path, make: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let _ = fs::remove_file(&temporary);
    make(&temporary)?;
    fs::rename(&temporary, path)
}

/// A script that runs `ptxjit ptxas`; `command` is a path or one relative to the script, with
/// `$here`.
fn ptxas_script(command: &Path) -> String {
    let command = crate::exec::quoted(&command.to_string_lossy());
    format!("#!/bin/sh\n# Stands in for NVIDIA's assembler.\nexec {command} ptxas \"$@\"\n")
}

/// Writes a script that can be run.
fn write_script(path: &Path, text: &str) -> io::Result<()> {
    fs::write(path, text)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

/// `ptxjit dist`: puts command, libraries and header into a folder as an installation has them.
pub(crate) fn lay_out(command: &Path, target: &Path, with_links: bool) -> Result<()> {
    const PTXAS: &str = "#!/bin/sh\n# Stands in for NVIDIA's assembler.\n\
        here=$(dirname \"$(readlink -f \"$0\")\")\n\
        exec \"$here/ptxjit\" ptxas \"$@\"\n";
    let names = near(command)?;
    let (bin, lib) = (target.join("bin"), target.join("lib"));
    for folder in [&bin, &lib] {
        let made = fs::create_dir_all(folder);
        made.with_context(|| format!("{} cannot be made", folder.display()))?;
    }
    let copy = |from: &Path, to: &Path| -> Result<()> {
        let copied = replace(to, |path| fs::copy(from, path).map(|_| ()));
        copied.with_context(|| format!("{} cannot be copied to {}", from.display(), to.display()))
    };
    copy(command, &bin.join("ptxjit"))?;
    replace(&bin.join("ptxas"), |path| write_script(path, PTXAS))?;
    for part in PARTS {
        let Some((_, file)) = names.iter().find(|(name, _)| *name == part.name) else {
            continue;
        };
        copy(file, &lib.join(part.name))?;
        for alias in part.aliases.iter().filter(|_| with_links) {
            replace(&lib.join(alias), |path| symlink(part.name, path))?;
        }
    }
    Ok(())
}
