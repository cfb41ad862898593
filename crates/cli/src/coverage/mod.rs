//! `--coverage` and `--profile`: which lines and sides of conditions launches have run, in the
//! formats of others' tools and for people.

mod html;
mod json;
mod lcov;
mod profile;
mod totals;

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, ensure};
use ptxjit::coverage::{Coverage, File};
use serde_json::Value;

use crate::args::ExecArgs;
use crate::paths::shown;
use crate::replace::{Links, replace};

pub use profile::ProfileArg;

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

/// What takes what launches run, for what is asked for. What warps do costs more, and only some
/// have a place for it.
pub fn collector(exec: &ExecArgs) -> Option<Coverage> {
    let wants_warps = |arg: &CoverageArg| arg.format != CoverageFormat::Lcov;
    match exec.coverage.as_slice() {
        _ if exec.profile.is_some() => Some(Coverage::of_memory()),
        [] => None,
        some if some.iter().any(wants_warps) => Some(Coverage::of_warps()),
        _ => Some(Coverage::of_threads()),
    }
}

/// A profile is about warps, which only gangs of 32 lanes are.
pub fn check(exec: &ExecArgs) -> Result<()> {
    if exec.profile.is_some() {
        ensure!(
            exec.gang.is_none_or(|gang| gang == 32),
            "--profile tells what warps do: it goes with --gang 32 only"
        );
        ensure!(
            !exec.interp,
            "--profile tells what warps do: the interpreter runs one thread at a time"
        );
    }
    Ok(())
}

/// Writes what was run. A profile that has no file comes back, as text and as JSON.
pub fn write(exec: &ExecArgs, coverage: Option<&Coverage>) -> Result<Option<(String, Value)>> {
    let Some(coverage) = coverage else {
        return Ok(None);
    };
    if !exec.coverage.is_empty() {
        let files = coverage.files();
        for arg in &exec.coverage {
            write_format(arg, &files)?;
        }
    }
    let Some(wanted) = &exec.profile else {
        return Ok(None);
    };
    let kernels = coverage.profiles();
    let document = profile::document(&kernels);
    match &wanted.json {
        Some(path) => write_text(path, &format!("{document:#}\n")).map(|()| None),
        None => Ok(Some((profile::text(&kernels), document))),
    }
}

fn write_format(CoverageArg { format, path }: &CoverageArg, files: &[File]) -> Result<()> {
    match format {
        CoverageFormat::Lcov => write_text(path, &lcov::document(files)),
        CoverageFormat::Json => write_text(path, &format!("{:#}\n", json::document(files))),
        CoverageFormat::Html => {
            let created = std::fs::create_dir_all(path);
            created.with_context(|| format!("cannot create {}", shown(path)))?;
            let mut pages = html::pages(files).into_iter();
            pages.try_for_each(|(name, page)| write_text(&path.join(name), &page))
        }
    }
}

fn write_text(path: &Path, text: &str) -> Result<()> {
    replace(path, Links::Follow, |file| {
        Ok(file.write_all(text.as_bytes())?)
    })
}
