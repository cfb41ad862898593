//! `--coverage`: which lines and sides of conditions launches have run, in the formats of others' tools and for people.

mod lcov;

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Result;
use ptxjit::coverage::Coverage;

use crate::replace::{Links, replace};

/// `lcov=FILE`, `html=DIR` or `json=FILE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoverageArg {
    pub format: CoverageFormat,
    pub path: PathBuf,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum CoverageFormat {
    Lcov,
}

impl FromStr for CoverageArg {
    type Err = String;

    fn from_str(text: &str) -> Result<CoverageArg, String> {
        let (word, path) = text.split_once('=').unwrap_or((text, ""));
        let format = match word {
            "lcov" => CoverageFormat::Lcov,
            other => return Err(format!("`{other}` is none of lcov, html, json")),
        };
        if path.is_empty() {
            return Err(format!("`{word}` needs a place to write to: {word}=PATH"));
        }
        let path = PathBuf::from(path);
        Ok(CoverageArg { format, path })
    }
}

/// What takes what launches run, for these formats. Only some have a place for what warps do, which costs more.
pub fn collector(wanted: &[CoverageArg]) -> Option<Coverage> {
    match wanted.is_empty() {
        true => None,
        false => Some(Coverage::of_threads()),
    }
}

/// Writes what was run.
pub fn write(wanted: &[CoverageArg], coverage: Option<&Coverage>) -> Result<()> {
    let Some(coverage) = coverage else {
        return Ok(());
    };
    let files = coverage.files();
    for CoverageArg { format, path } in wanted {
        let text = match format {
            CoverageFormat::Lcov => lcov::document(&files),
        };
        replace(path, Links::Follow, |file| {
            Ok(file.write_all(text.as_bytes())?)
        })?;
    }
    Ok(())
}
