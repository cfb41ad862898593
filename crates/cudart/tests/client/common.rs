//! The libraries as a client finds them: in one folder, under the names by which they are looked
//! up.

use std::path::{Path, PathBuf};

/// The two libraries: the file that Cargo makes, and the name by which programs know it.
pub(crate) const RUNTIMES: [(&str, &str); 2] = [
    ("libptxjit_cudart12.so", "libcudart.so.12"),
    ("libptxjit_cudart13.so", "libcudart.so.13"),
];

/// A folder of a test's own, with the libraries in it. It is removed when it is dropped.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(test: &str) -> Folder {
        let name = format!("ptxjit-cudart-{test}-{}", std::process::id());
        let folder = Folder(std::env::temp_dir().join(name));
        std::fs::create_dir_all(&folder.0).expect("there is room for a folder");
        let built = std::env::current_exe().expect("a test has a path");
        let built = built.parent().expect("a file is in a folder");
        for (file, name) in RUNTIMES.into_iter().chain([("libcuda.so", "libcuda.so.1")]) {
            link(&built.join(file), &folder.0.join(name));
        }
        folder
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

fn link(from: &Path, to: &Path) {
    assert!(
        from.exists(),
        "cargo builds {} before the tests",
        from.display()
    );
    // A copy if the folder is in another file system. Not a symbolic link: the runtime looks beside
    // the file itself.
    std::fs::hard_link(from, to)
        .or_else(|_| std::fs::copy(from, to).map(drop))
        .expect("a library can be copied");
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
