//! Compiled code on disk.
//!
//! One folder holds one file per entry, named by the entry's key: a hash of all that the contents
//! depend on. A file is
//!
//! ```text
//! "ptxjit" and a version (8 bytes) | length of the contents (8) | SHA-256 of key and contents (32)
//!   | contents
//! ```
//!
//! Files appear complete, by renaming, so that any number of processes can share the folder. One
//! that is cut short, changed or renamed is not used, and removed. Writing may fail (a full disk, a
//! folder that cannot be written): then nothing is kept.
//!
//! Code from the folder is run, and the hash in an entry tells damage, not forgery. So only the
//! user may be able to write there: the folder belongs to the user and is writable by no others,
//! the folders above it belong to the user or to root and let no others replace what is in them (a
//! sticky bit does, too), and an entry is a plain file of the user's with mode 0600. Otherwise the
//! folder, or the entry, is not used.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};

const MAGIC: &[u8; 8] = b"ptxjit\0\x01";

/// Files in the making have this ending; one older than this was left behind by a process that
/// died.
const UNFINISHED: &str = "tmp";
const UNFINISHED_AGE: Duration = Duration::from_secs(3600);

/// One entry in this many looks whether the folder has grown too large.
const TRIM_EVERY: u8 = 8;

/// What an entry is found by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Key([u8; 32]);

impl Key {
    /// The key of what depends on `parts`, and on nothing else.
    pub(crate) fn new(parts: &[&[u8]]) -> Key {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        Key(hash.finalize().into())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// A folder where compiled code is kept between processes, and its size limit.
///
/// ```no_run
/// # fn main() -> Result<(), ptxjit::Error> {
/// let mut device = ptxjit::Device::new()?;
/// if let Some(cache) = ptxjit::Cache::user() {
///     device = device.with_cache(cache);
/// }
/// # Ok(()) }
/// ```
///
/// Entries are found by the PTX module's text, the kernel's name, what is known of the launch, the
/// options, the processor's features and the build of this library, so an entry is never out of
/// date. Any number of processes can use a folder at once. When it grows over the limit, what was
/// not used for longest goes.
#[derive(Debug)]
pub struct Cache {
    dir: PathBuf,
    limit: u64,
}

/// What is in a cache, or was.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct CacheUsage {
    /// Entries.
    pub entries: u64,
    /// Their size on disk.
    pub bytes: u64,
}

impl Cache {
    /// Bytes that a cache may take, unless said otherwise.
    pub const DEFAULT_LIMIT: u64 = 512 << 20;

    /// A cache in `dir`, which need not exist.
    pub fn new(dir: impl Into<PathBuf>) -> Cache {
        Cache {
            dir: dir.into(),
            limit: Cache::DEFAULT_LIMIT,
        }
    }

    /// The user's own: `$PTXJIT_CACHE_DIR`, or else `$XDG_CACHE_HOME/ptxjit`, or else
    /// `~/.cache/ptxjit`. `$PTXJIT_CACHE_SIZE` is its limit in bytes; `K`, `M` or `G` may follow.
    pub fn user() -> Option<Cache> {
        let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let absolute = |path: PathBuf| path.is_absolute().then_some(path);
        let limit = named("PTXJIT_CACHE_SIZE").and_then(|text| bytes(text.to_str()?));
        let dir = named("PTXJIT_CACHE_DIR").map(PathBuf::from).or_else(|| {
            let xdg = named("XDG_CACHE_HOME").map(PathBuf::from);
            let home = || Some(PathBuf::from(named("HOME")?).join(".cache"));
            let base = xdg.and_then(absolute).or_else(home)?;
            absolute(base.join("ptxjit"))
        })?;
        Some(Cache::new(dir).limit(limit.unwrap_or(Cache::DEFAULT_LIMIT)))
    }

    /// Sets the most bytes that the entries may take. The limit is kept roughly: not every new
    /// entry checks it.
    pub fn limit(mut self, bytes: u64) -> Cache {
        self.limit = bytes;
        self
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether only the user can write to the folder or replace it (or could, if it existed), so
    /// that its contents can be trusted.
    pub fn is_safe(&self) -> bool {
        match fs::symlink_metadata(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let above = self.dir.ancestors().skip(1);
                let real = above.filter_map(|path| match path.as_os_str().is_empty() {
                    true => Path::new(".").canonicalize().ok(),
                    false => path.canonicalize().ok(),
                });
                real.take(1).all(|folder| are_parents(folder.ancestors()))
            }
            _ => trusted(&self.dir).is_some(),
        }
    }

    /// Counts the entries.
    pub fn usage(&self) -> io::Result<CacheUsage> {
        let mut usage = CacheUsage::default();
        for file in self.files()? {
            usage.entries += 1;
            usage.bytes += file.bytes;
        }
        Ok(usage)
    }

    /// Removes all entries, and tells what they were.
    pub fn clear(&self) -> io::Result<CacheUsage> {
        let mut usage = CacheUsage::default();
        for file in self.files()? {
            // Another process may have been faster.
            if fs::remove_file(&file.path).is_ok() {
                usage.entries += 1;
                usage.bytes += file.bytes;
            }
        }
        Ok(usage)
    }

    /// An entry's contents.
    pub(crate) fn get(&self, key: Key) -> Option<Vec<u8>> {
        let path = trusted(&self.dir)?.join(entry_name(key));
        let mut file = open_entry(&path).ok()?;
        let contents = is_ours(&file).then(|| read(&mut file, key)).flatten();
        match contents {
            Some(contents) => {
                mark_used(&file);
                Some(contents)
            }
            None => {
                let _ = fs::remove_file(&path);
                None
            }
        }
    }

    /// Keeps an entry, if that is possible.
    pub(crate) fn put(&self, key: Key, contents: &[u8]) {
        if !self.is_safe() || contents.len() as u64 > self.limit {
            return;
        }
        if self.write(key, contents).is_ok() && key.0[0].is_multiple_of(TRIM_EVERY) {
            let _ = self.trim();
        }
    }

    fn write(&self, key: Key, contents: &[u8]) -> io::Result<()> {
        if !self.dir.exists() {
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&self.dir)?;
        }
        let dir = trusted(&self.dir).ok_or(io::ErrorKind::PermissionDenied)?;
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let process = std::process::id();
        let unfinished = dir.join(format!("{}-{process}-{number}.{UNFINISHED}", name(key)));
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&unfinished)?;
        let mut bytes = Vec::with_capacity(contents.len() + 48);
        bytes.extend(MAGIC);
        bytes.extend((contents.len() as u64).to_le_bytes());
        bytes.extend(seal(key, contents));
        bytes.extend(contents);
        let written = file
            .write_all(&bytes)
            .and_then(|()| fs::rename(&unfinished, dir.join(entry_name(key))));
        if written.is_err() {
            let _ = fs::remove_file(&unfinished);
        }
        written
    }

    /// Removes what was not used for longest, to a little below the limit.
    fn trim(&self) -> io::Result<()> {
        let mut files: Vec<Entry> = self.files()?;
        let mut bytes: u64 = files.iter().map(|file| file.bytes).sum();
        if bytes <= self.limit {
            return Ok(());
        }
        files.sort_by_key(|file| file.used);
        for file in files {
            if bytes <= self.limit / 10 * 9 {
                break;
            }
            bytes -= file.bytes;
            // Another process may have been faster.
            let _ = fs::remove_file(&file.path);
        }
        Ok(())
    }

    /// All entries; what dead processes left behind is removed on the way.
    fn files(&self) -> io::Result<Vec<Entry>> {
        let listing = match fs::read_dir(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            listing => listing?,
        };
        let mut files = Vec::new();
        for found in listing {
            let found = found?;
            let path = found.path();
            let Ok(data) = found.metadata() else { continue };
            let used = data.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            let is_ours = found.file_name().to_string_lossy().len() >= 64 && data.is_file();
            match path.extension().and_then(|ending| ending.to_str()) {
                Some("kernel") if is_ours => files.push(Entry {
                    path,
                    bytes: data.len(),
                    used,
                }),
                Some(UNFINISHED) if is_ours => {
                    let age = SystemTime::now().duration_since(used).unwrap_or_default();
                    if age > UNFINISHED_AGE {
                        let _ = fs::remove_file(&path);
                    }
                }
                _ => {}
            }
        }
        Ok(files)
    }
}

/// A folder by a name without links, if only the user can write to it or replace it.
fn trusted(dir: &Path) -> Option<PathBuf> {
    let real = dir.canonicalize().ok()?;
    // From here on the name stands for one folder: no other user can change what lies on the way to
    // it.
    if !are_parents(real.ancestors().skip(1)) {
        return None;
    }
    let folder = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW)
        .open(&real)
        .ok()?;
    let data = folder.metadata().ok()?;
    (is_own(data.uid()) && data.mode() & 0o022 == 0).then_some(real)
}

/// Whether no other user, root apart, can replace what these folders contain.
fn are_parents<'a>(folders: impl Iterator<Item = &'a Path>) -> bool {
    const STICKY: u32 = 0o1000;
    let is_parent = |folder: &Path| {
        let data = fs::symlink_metadata(folder);
        data.is_ok_and(|data| {
            let is_kept = data.mode() & 0o022 == 0 || data.mode() & STICKY != 0;
            data.is_dir() && is_kept && (data.uid() == 0 || is_own(data.uid()))
        })
    };
    folders.into_iter().all(is_parent)
}

/// Opens an entry; whatever is in its place, neither follows it elsewhere nor waits for it.
fn open_entry(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)
}

/// Whether an open entry is a plain file that the user, and only the user, can write and read.
fn is_ours(file: &File) -> bool {
    let data = file.metadata();
    data.is_ok_and(|data| data.is_file() && is_own(data.uid()) && data.mode() & 0o7777 == 0o600)
}

/// `500`, `64K`, `200M`, `2G`.
fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let shift = match text.chars().last()?.to_ascii_uppercase() {
        'K' => 10,
        'M' => 20,
        'G' => 30,
        _ => 0,
    };
    let number = if shift == 0 {
        text
    } else {
        &text[..text.len() - 1]
    };
    number
        .trim_end()
        .parse::<u64>()
        .ok()?
        .checked_mul(1 << shift)
}

struct Entry {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

fn entry_name(key: Key) -> String {
    format!("{}.kernel", name(key))
}

fn name(key: Key) -> String {
    key.0.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn seal(key: Key, contents: &[u8]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(key.0);
    hash.update(contents);
    hash.finalize().into()
}

/// The contents of a file, if they are whole.
fn read(file: &mut File, key: Key) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    let (head, contents) = bytes.split_at_checked(48)?;
    let whole = head[..8] == *MAGIC
        && head[8..16] == (contents.len() as u64).to_le_bytes()
        && head[16..] == seal(key, contents);
    whole.then(|| bytes.split_off(48))
}

/// The time of the last change stands for the last use; a minute more or less does not matter.
fn mark_used(file: &File) {
    let now = SystemTime::now();
    let changed = file.metadata().and_then(|data| data.modified());
    let old = |changed: SystemTime| {
        now.duration_since(changed)
            .is_ok_and(|age| age.as_secs() > 60)
    };
    if changed.is_ok_and(old) {
        let _ = file.set_modified(now);
    }
}

/// Whether files of this user are this process's. Without /proc that is not known.
fn is_own(uid: u32) -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == uid)
}

/// What tells this build of the library from all others: the file that its code was loaded from, as
/// the system knows it. None if that cannot be found out.
pub(crate) fn build() -> Option<&'static str> {
    static BUILD: OnceLock<Option<String>> = OnceLock::new();
    BUILD
        .get_or_init(|| {
            let file = fs::metadata(own_file()?).ok()?;
            Some(format!(
                "{} {} {} {} {}.{} {}.{}",
                env!("CARGO_PKG_VERSION"),
                file.dev(),
                file.ino(),
                file.size(),
                file.mtime(),
                file.mtime_nsec(),
                file.ctime(),
                file.ctime_nsec()
            ))
        })
        .as_deref()
}

/// The executable or shared library that this function lies in.
fn own_file() -> Option<PathBuf> {
    let Ok(maps) = fs::read_to_string("/proc/self/maps") else {
        return std::env::current_exe().ok();
    };
    let here = own_file as fn() -> Option<PathBuf> as usize;
    maps.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let start = usize::from_str_radix(start, 16).ok()?;
        let end = usize::from_str_radix(end, 16).ok()?;
        // A name can have spaces; it is the rest of the line.
        let name = &line[line.find('/')?..];
        (start..end).contains(&here).then(|| PathBuf::from(name))
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::process::Command;

    use super::*;

    /// Puts a file there that could be an entry.
    fn put_file(path: &Path, bytes: &[u8]) {
        fs::write(path, bytes).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    impl Cache {
        fn path(&self, key: Key) -> PathBuf {
            self.dir.join(entry_name(key))
        }
    }

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let name = format!("ptxjit-cache-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            let _ = fs::remove_dir_all(&path);
            Folder(path)
        }

        fn mode(&self, mode: u32) {
            fs::set_permissions(&self.0, fs::Permissions::from_mode(mode)).unwrap();
        }

        fn cache(&self) -> Cache {
            Cache::new(&self.0)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn key(number: u32) -> Key {
        Key::new(&[&number.to_le_bytes()])
    }

    fn file_of(cache: &Cache, key: Key) -> Vec<u8> {
        fs::read(cache.path(key)).unwrap()
    }

    #[test]
    fn keeps_and_clears() {
        let folder = Folder::new("keeps");
        let cache = folder.cache();
        assert_eq!(cache.get(key(1)), None);
        cache.put(key(1), b"one");
        cache.put(key(2), b"");
        assert_eq!(folder.cache().get(key(1)).unwrap(), b"one");
        assert_eq!(folder.cache().get(key(2)).unwrap(), b"");
        assert_eq!(cache.usage().unwrap().entries, 2);
        assert_eq!(cache.clear().unwrap().entries, 2);
        assert_eq!(cache.get(key(1)), None);
        assert_eq!(cache.usage().unwrap(), CacheUsage::default());
    }

    #[test]
    fn keys_differ_by_where_parts_end() {
        assert_ne!(Key::new(&[b"ab", b"c"]), Key::new(&[b"a", b"bc"]));
    }

    #[test]
    fn refuses_what_was_changed() {
        let folder = Folder::new("changed");
        let cache = folder.cache();
        cache.put(key(1), b"some contents");
        let whole = file_of(&cache, key(1));
        for len in 0..whole.len() {
            put_file(&cache.path(key(1)), &whole[..len]);
            assert_eq!(cache.get(key(1)), None, "cut to {len} bytes");
            assert!(!cache.path(key(1)).exists());
        }
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 0x10;
            put_file(&cache.path(key(1)), &changed);
            assert_eq!(cache.get(key(1)), None, "byte {at} changed");
        }
        let longer = [&whole[..], b"x"].concat();
        put_file(&cache.path(key(1)), &longer);
        assert_eq!(cache.get(key(1)), None);
        // The entry of another key.
        put_file(&cache.path(key(2)), &whole);
        assert_eq!(cache.get(key(2)), None);
        put_file(&cache.path(key(1)), &whole);
        assert_eq!(cache.get(key(1)).unwrap(), b"some contents");
    }

    #[test]
    fn stays_near_its_limit() {
        let folder = Folder::new("limit");
        let cache = folder.cache().limit(10_000);
        for number in 0..200 {
            cache.put(key(number), &[7; 952]);
        }
        // One entry in eight checks, so some more than ten can be there.
        assert!(cache.usage().unwrap().bytes <= 50_000);
        cache.put(key(1000), &[7; 20_000]);
        assert_eq!(cache.get(key(1000)), None);
    }

    #[test]
    fn forgets_the_oldest() {
        let folder = Folder::new("oldest");
        let cache = folder.cache().limit(5_000);
        for number in 0..9 {
            cache.write(key(number), &[7; 952]).unwrap();
            let file = File::options().write(true).open(cache.path(key(number)));
            let time = SystemTime::now() - Duration::from_secs(10_000 - u64::from(number));
            file.unwrap().set_modified(time).unwrap();
        }
        // Use makes young.
        assert!(cache.get(key(0)).is_some());
        cache.trim().unwrap();
        let left: Vec<u32> = (0..9).filter(|&n| cache.path(key(n)).exists()).collect();
        assert_eq!(left, [0, 6, 7, 8]);
    }

    #[test]
    fn does_without_a_folder() {
        let folder = Folder::new("none");
        fs::write(&folder.0, b"a file where the folder should be").unwrap();
        let cache = folder.cache();
        cache.put(key(1), b"one");
        assert_eq!(cache.get(key(1)), None);
        let _ = fs::remove_file(&folder.0);
    }

    #[test]
    fn does_not_trust_what_others_can_write() {
        let folder = Folder::new("others");
        folder.cache().put(key(1), b"one");
        assert!(folder.cache().get(key(1)).is_some());
        for mode in [0o777, 0o770, 0o702, 0o1777] {
            folder.mode(mode);
            assert!(!folder.cache().is_safe());
            assert_eq!(folder.cache().get(key(1)), None);
        }
        folder.mode(0o755);
        assert!(folder.cache().get(key(1)).is_some());
    }

    #[test]
    fn does_not_trust_a_folder_that_others_can_replace() {
        let folder = Folder::new("parents");
        let inner = || Cache::new(folder.0.join("a/b"));
        inner().put(key(1), b"one");
        assert!(inner().get(key(1)).is_some());
        let not_there = Cache::new(folder.0.join("not/there"));
        assert!(not_there.is_safe());
        for mode in [0o777, 0o770] {
            folder.mode(mode);
            assert!(!inner().is_safe() && !not_there.is_safe());
            assert_eq!(inner().get(key(1)), None);
            not_there.put(key(1), b"one");
            assert!(!not_there.dir().exists());
        }
        // Like /tmp: others can add to it, but not replace what is there.
        folder.mode(0o1777);
        assert!(inner().get(key(1)).is_some());
        // A link is as good as what it leads to.
        symlink("a", folder.0.join("link")).unwrap();
        assert!(Cache::new(folder.0.join("link/b")).get(key(1)).is_some());
    }

    #[test]
    fn trusts_only_plain_files_of_the_user() {
        let folder = Folder::new("kinds");
        let cache = folder.cache();
        cache.put(key(1), b"one");
        let (path, whole) = (cache.path(key(1)), file_of(&cache, key(1)));
        for mode in [0o644, 0o660, 0o602, 0o700, 0o4600] {
            put_file(&path, &whole);
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(cache.get(key(1)), None, "{mode:o}");
        }
        put_file(&folder.0.join("elsewhere"), &whole);
        symlink("elsewhere", &path).unwrap();
        assert_eq!(cache.get(key(1)), None);
        fs::remove_file(&path).unwrap();
        let made = Command::new("mkfifo")
            .args(["-m", "600"])
            .arg(&path)
            .status();
        assert!(made.unwrap().success());
        // Waits for no writer.
        assert_eq!(cache.get(key(1)), None);
        cache.put(key(1), b"two");
        assert_eq!(cache.get(key(1)).unwrap(), b"two");
    }

    #[test]
    fn sizes() {
        let read = ["500", "64K", " 2 G ", "1m", "", "K", "-1", "99999999999G"].map(bytes);
        let (kilo, giga) = (1 << 10, 1 << 30);
        let wanted = [
            Some(500),
            Some(64 * kilo),
            Some(2 * giga),
            Some(kilo * kilo),
        ];
        assert_eq!(read[..4], wanted);
        assert_eq!(read[4..], [None; 4]);
    }

    #[test]
    fn knows_its_build() {
        let own = own_file().unwrap();
        assert_eq!(own, std::env::current_exe().unwrap());
        assert!(build().is_some());
    }
}
