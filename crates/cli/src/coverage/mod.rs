//! `--coverage`: which lines and sides of conditions launches have run, in the formats of others' tools and for people.

mod html;
mod json;
mod lcov;
mod totals;

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result};
use ptxjit::coverage::Coverage;

use crate::paths::shown;
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
    Html,
    Json,
}

impl FromStr for CoverageArg {
    type Err = String;

    fn from_str(text: &str) -> Result<CoverageArg, String> {
        let (word, path) = text.split_once('=').unwrap_or((text, ""));
        let format = match word {
            "lcov" => CoverageFormat::Lcov,
            "html" => CoverageFormat::Html,
            "json" => CoverageFormat::Json,
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
    let wants_warps = |arg: &CoverageArg| arg.format != CoverageFormat::Lcov;
    match wanted {
        [] => None,
        some if some.iter().any(wants_warps) => Some(Coverage::of_warps()),
        _ => Some(Coverage::of_threads()),
    }
}

/// Writes what was run.
pub fn write(wanted: &[CoverageArg], coverage: Option<&Coverage>) -> Result<()> {
    let Some(coverage) = coverage else {
        return Ok(());
    };
    let files = coverage.files();
    for CoverageArg { format, path } in wanted {
        match format {
            CoverageFormat::Lcov => write_text(path, &lcov::document(&files))?,
            CoverageFormat::Json => write_text(path, &format!("{:#}\n", json::document(&files)))?,
            CoverageFormat::Html => {
                let created = std::fs::create_dir_all(path);
                created.with_context(|| format!("cannot create {}", shown(path)))?;
                for (name, page) in html::pages(&files) {
                    write_text(&path.join(name), &page)?;
                }
            }
        }
    }
    Ok(())
}

fn write_text(path: &Path, text: &str) -> Result<()> {
    replace(path, Links::Follow, |file| {
        Ok(file.write_all(text.as_bytes())?)
    })
}
