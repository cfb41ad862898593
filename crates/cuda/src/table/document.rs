//! `docs/functions.md` says which functions of the driver work. It is written from the table, and this test sees that it is.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use super::{FUNCTIONS, Function, Since};
use crate::unimplemented::NOT_SUPPORTED;

const HEAD: &str = "# Functions of the driver\n\n\
    Every function of `cuda.h` 12.9 and 13.5 exists in ptxjit's `libcuda.so.1`, so that every program finds what it looks for. The\n\
    first list has those that work. The others return `CUDA_ERROR_NOT_SUPPORTED`.\n\n\
    <!-- generated: `PTXJIT_BLESS=1 cargo test -p ptxjit-cuda document` writes this page -->\n";

/// Whether a function works, and what the page says of its versions.
fn state(function: &Function) -> (bool, String) {
    let missing: BTreeSet<&str> = NOT_SUPPORTED.iter().copied().collect();
    let works = |(_, symbol): &&Since| !missing.contains(symbol);
    let oldest = function.versions.iter().position(|row| works(&row));
    match oldest {
        None => (false, String::new()),
        Some(0) => (true, String::new()),
        Some(idx) => {
            let since = function.versions[idx].0;
            let (major, minor) = (since / 1000, since % 1000 / 10);
            (
                true,
                format!(", in the form that it has since CUDA {major}.{minor}"),
            )
        }
    }
}

fn page() -> String {
    let mut page = String::from(HEAD);
    let mut rows: Vec<_> = FUNCTIONS.iter().map(|row| (row.name, state(row))).collect();
    rows.sort_unstable();
    for (title, wanted) in [("Work", true), ("Not supported", false)] {
        let of_list = rows.iter().filter(|(_, (works, _))| *works == wanted);
        let n = of_list.clone().count();
        writeln!(page, "\n## {title} ({n})\n").expect("text can be written");
        for (name, (_, note)) in of_list {
            writeln!(page, "* `{name}`{note}").expect("text can be written");
        }
    }
    page
}

#[test]
fn document_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/functions.md");
    let page = page();
    if std::env::var_os("PTXJIT_BLESS").is_some() {
        std::fs::write(&path, &page).expect("the page can be written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/functions.md is not what the table says: run `PTXJIT_BLESS=1 cargo test -p ptxjit-cuda document`"
    );
}
