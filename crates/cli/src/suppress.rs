//! Files of suppressions: findings that are known, one per line.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use ptxjit::sanitize::{Finding, Suppression};

use crate::paths::shown;

/// Reads a file of suppressions.
pub fn read(path: &Path) -> Result<Vec<Suppression>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", shown(path)))?;
    let list = Suppression::parse_all(&text).map_err(|why| anyhow!(why));
    list.with_context(|| format!("{} is no list of suppressions", shown(path)))
}

/// What would silence a finding.
pub fn line_for(finding: &Finding) -> String {
    let mut line = format!("{} kernel={}", finding.kind.name(), finding.kernel);
    let place = finding
        .accesses
        .first()
        .map(|access| access.stack.first().unwrap_or(&access.ptx));
    if let Some(place) = place {
        let name = place.file.rsplit('/').next().unwrap_or("");
        line += &format!(" source={name}:{0}-{0}", place.line);
    }
    line
}
