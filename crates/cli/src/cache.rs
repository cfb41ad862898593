//! `ptxjit cache`.

use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};
use ptxjit::{Cache, CacheUsage};

use crate::args::{CacheAction, CacheArgs};
use crate::paths::shown;
use crate::term;

pub(crate) fn run(args: &CacheArgs) -> ExitCode {
    match act(args) {
        Ok(text) => {
            term::out(&text);
            ExitCode::SUCCESS
        }
        Err(err) => {
            term::err(&format!("error: {err:#}"));
            ExitCode::from(1)
        }
    }
}

fn act(args: &CacheArgs) -> Result<String> {
    let cache = Cache::user().ok_or_else(|| {
        anyhow!("there is no folder for the cache: neither PTXJIT_CACHE_DIR nor HOME is set")
    })?;
    let dir = shown(cache.dir());
    Ok(match args.action {
        CacheAction::Show => {
            let usage = cache.usage();
            let usage = usage.with_context(|| format!("cannot look into {dir}"))?;
            let remark = if cache.is_safe() {
                ""
            } else {
                "not used: it must be a folder of yours that no other user can write to, and no other user may be able to\n\
                 replace it or a folder above it\n"
            };
            format!("{dir}: {}\n{remark}", said(usage))
        }
        CacheAction::Clear => {
            let usage = cache.clear();
            let usage = usage.with_context(|| format!("cannot empty {dir}"))?;
            format!("{dir}: removed {}\n", said(usage))
        }
    })
}

fn said(usage: CacheUsage) -> String {
    format!(
        "{} entries, {:.1} MB",
        usage.entries,
        usage.bytes as f64 / 1e6
    )
}
