//! `docs/functions.md` says which functions of the driver work. It is written from the table, and this test sees that it is.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use super::{FUNCTIONS, Function};
use crate::unimplemented::NOT_SUPPORTED;

const HEAD: &str = "# Functions of the driver\n\n\
    Every function of `cuda.h` 12.9 and 13.5 exists in ptxjit's `libcuda.so.1`, so that every program finds what it looks for. The \
    first list has those that work. The others return `CUDA_ERROR_NOT_SUPPORTED`.\n\n\
    <!-- generated: `PTXJIT_BLESS=1 cargo test -p ptxjit-cuda document` writes this page -->\n";

/// Whether the newest symbol of a function does something, and the older ones that do not.
fn state(function: &Function) -> (bool, Vec<&'static str>) {
    let missing: BTreeSet<&str> = NOT_SUPPORTED.iter().copied().collect();
    let is_missing = |symbol: &str| missing.contains(symbol);
    let newest = function.versions.last().map_or("", |(_, symbol)| symbol);
    let older = function.versions.iter().map(|(_, symbol)| *symbol);
    let older = older.filter(|symbol| *symbol != newest && is_missing(symbol));
    (!is_missing(newest), older.collect())
}

fn page() -> String {
    let mut page = String::from(HEAD);
    let mut rows: Vec<_> = FUNCTIONS.iter().map(|row| (row.name, state(row))).collect();
    rows.sort_unstable();
    for (title, works) in [("Work", true), ("Not supported", false)] {
        let of_list = rows.iter().filter(|(_, (is, _))| *is == works);
        let n = of_list.clone().count();
        writeln!(page, "\n## {title} ({n})\n").expect("text can be written");
        for (name, (_, older)) in of_list {
            let note = match works && !older.is_empty() {
                true => format!(", but not as `{}`", older.join("`, `")),
                false => String::new(),
            };
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
