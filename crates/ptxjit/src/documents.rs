//! Findings as documents: text, JSON and SARIF.

use serde_json::{Value, json};

use crate::sanitize::{
    AccessOp, Checks, Finding, FindingKind, FoundAccess, Hazard, Reason, Severity, SourcePlace,
};

/// How text is drawn; plain, unless something else is set.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Style {
    /// In colors, as terminals have them.
    pub color: bool,
    /// Columns of the terminal; longer lines are broken between words.
    pub width: Option<usize>,
}

/// Writes findings as text. A loop that the compiler has unrolled has many instructions of one
/// line; of findings that differ in these alone, the first is shown.
pub fn text(findings: &[Finding], style: Style) -> String {
    let mut shown: Vec<(&Finding, usize)> = Vec::new();
    for finding in findings {
        match shown
            .iter_mut()
            .find(|(other, _)| are_alike(other, finding))
        {
            Some((_, more)) => *more += 1,
            None => shown.push((finding, 0)),
        }
    }
    let text = shown.iter().map(|(finding, more)| {
        let more = match more {
            0 => String::new(),
            1 => "   = note: the same of 1 more pair of instructions of these lines\n".to_owned(),
            n => format!("   = note: the same of {n} more pairs of instructions of these lines\n"),
        };
        format!("{}\n", draw(finding, &(finding.render() + &more), style))
    });
    text.collect()
}

/// The text of a finding in a style.
fn draw(finding: &Finding, text: &str, style: Style) -> String {
    let mut out = String::new();
    for (idx, line) in text.lines().enumerate() {
        let line = match style.width {
            Some(width) => broken(line, width),
            None => line.to_owned(),
        };
        let code = match (idx, finding.severity) {
            (0, Severity::Error) => "1;31",
            (0, Severity::Warning) => "1;33",
            (0, Severity::Info) => "1;36",
            (1.., _) => "1;34",
        };
        // What kind of finding, or of line, it is.
        let n = match idx {
            0 => line.find(':').map_or(line.len(), |end| end + 1),
            _ => line.find(['>', '=']).map_or(0, |end| end + 1),
        };
        out += &match style.color {
            true => format!("\x1b[{code}m{}\x1b[0m{}\n", &line[..n], &line[n..]),
            false => format!("{line}\n"),
        };
    }
    out
}

/// A line with breaks between words, so that it fits in so many columns where words do. What comes
/// behind a break is indented a little more than the line.
fn broken(line: &str, width: usize) -> String {
    let indent = line.len() - line.trim_start().len() + 4;
    let (mut out, mut column) = (String::new(), 0);
    for word in line.split_inclusive(' ') {
        let n = word.trim_end().chars().count();
        if column + n > width && column > indent {
            out.truncate(out.trim_end().len());
            out += &format!("\n{:indent$}", "");
            column = indent;
        }
        out += word;
        column += word.chars().count();
    }
    out
}

/// Whether findings say the same of the same lines of the source.
fn are_alike(a: &Finding, b: &Finding) -> bool {
    let lines = |finding: &Finding| -> Vec<(AccessOp, Vec<SourcePlace>)> {
        let accesses = finding.accesses.iter();
        accesses.map(|it| (it.op, it.stack.clone())).collect()
    };
    let name = |finding: &Finding| finding.object.as_ref().map(|it| it.name.clone());
    let is_known = a.accesses.len() > 1 && a.accesses.iter().all(|it| !it.stack.is_empty());
    is_known
        && (a.kind, a.severity, &a.kernel, a.hazard) == (b.kind, b.severity, &b.kernel, b.hazard)
        && (name(a), lines(a)) == (name(b), lines(b))
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "info",
        Severity::Warning => "warning",
        Severity::Error => "error",
    }
}

fn op(op: AccessOp) -> &'static str {
    match op {
        AccessOp::Load => "load",
        AccessOp::Store => "store",
        AccessOp::Atomic => "atomic",
        AccessOp::Copy => "copy",
        AccessOp::Barrier => "barrier",
        AccessOp::Warp => "warp",
        AccessOp::Alloc => "alloc",
        AccessOp::Free => "free",
        AccessOp::Branch => "branch",
        AccessOp::Exit => "exit",
        AccessOp::Launch => "launch",
        _ => "other",
    }
}

fn hazard(hazard: Hazard) -> &'static str {
    match hazard {
        Hazard::Raw => "raw",
        Hazard::War => "war",
        Hazard::Waw => "waw",
    }
}

fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::Order => "order",
        Reason::Scope => "scope",
        Reason::Async => "async",
        Reason::Proxy => "proxy",
        Reason::MixedSize => "mixed-size",
    }
}

fn place(place: &SourcePlace) -> Value {
    json!({"file": place.file, "line": place.line, "column": place.column})
}

fn access(access: &FoundAccess) -> Value {
    let stack: Vec<Value> = access
        .stack
        .iter()
        .map(|frame| json!({"function": null, "source": place(frame)}))
        .collect();
    let source = access.stack.first().map(place);
    if let Some(call) = &access.call {
        return json!({"op": op(access.op), "call": call, "source": source, "stack": stack});
    }
    json!({
        "op": op(access.op), "ctaid": access.ctaid, "tid": access.tid, "threads": access.threads,
        "ptx": {"file": access.ptx.file, "line": access.ptx.line},
        "source": source, "stack": stack,
    })
}

fn finding(finding: &Finding) -> Value {
    let object = finding
        .object
        .as_ref()
        .map(|object| json!({"name": object.name, "offset": object.offset, "size": object.size}));
    json!({
        "kind": finding.kind.name(), "severity": severity(finding.severity), "kernel": finding.kernel,
        "message": finding.message, "space": finding.space, "hazard": finding.hazard.map(hazard),
        "reason": finding.reason.map(reason), "address": finding.address.map(|addr| format!("{addr:#x}")),
        "bytes": finding.bytes, "count": finding.count, "schedule": finding.schedule, "object": object,
        "accesses": finding.accesses.iter().map(access).collect::<Vec<_>>(), "notes": finding.notes,
    })
}

/// Findings as JSON; `suppressed` is how many were left out for suppressions, and `is_cut` says
/// that more were left out for a limit.
pub fn json(checks: Checks, findings: &[Finding], suppressed: usize, is_cut: bool) -> String {
    let names = [
        (checks.mem, "mem"),
        (checks.race, "race"),
        (checks.init, "init"),
        (checks.sync, "sync"),
        (checks.leak, "leak"),
    ];
    let names: Vec<&str> = names
        .iter()
        .filter(|(is_on, _)| *is_on)
        .map(|&(_, name)| name)
        .collect();
    let document = json!({
        "checks": names, "suppressed": suppressed, "truncated": is_cut,
        "findings": findings.iter().map(finding).collect::<Vec<_>>(),
    });
    format!("{document:#}\n")
}

/// Findings as SARIF 2.1.0.
pub fn sarif(findings: &[Finding]) -> String {
    let rules = FindingKind::ALL.iter().map(|kind| {
        let name = kind.name();
        json!({"id": name, "shortDescription": {"text": name}})
    });
    let driver = json!({
        "name": "ptxjit", "version": env!("CARGO_PKG_VERSION"), "rules": rules.collect::<Vec<_>>(),
    });
    let results: Vec<Value> = findings.iter().map(result).collect();
    let document = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    });
    format!("{document:#}\n")
}

/// A finding as SARIF has it.
fn result(finding: &Finding) -> Value {
    let level = match finding.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "note",
    };
    let text = match finding.kernel.as_str() {
        "" => finding.message.clone(),
        kernel => format!("kernel `{kernel}`: {}", finding.message),
    };
    let (first, others) = finding.accesses.split_at(finding.accesses.len().min(1));
    let locations =
        |accesses: &[FoundAccess]| -> Vec<Value> { accesses.iter().filter_map(location).collect() };
    json!({
        "ruleId": finding.kind.name(), "level": level, "message": {"text": text},
        "locations": locations(first), "relatedLocations": locations(others),
        "partialFingerprints": {"ptxjit/v1": fingerprint(finding)},
    })
}

/// Where an access is: in the source, or else in the PTX; calls of a program may be nowhere.
fn location(access: &FoundAccess) -> Option<Value> {
    let statement = Some(&access.ptx).filter(|_| access.call.is_none());
    let at = access.stack.first().or(statement)?;
    let mut region = json!({"startLine": at.line.max(1)});
    if at.column > 0 {
        region["startColumn"] = json!(at.column);
    }
    let file = json!({"uri": uri(&at.file)});
    Some(json!({"physicalLocation": {"artifactLocation": file, "region": region}}))
}

/// A path as a reference of the kind that SARIF wants.
fn uri(path: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=@:".contains(&byte);
    let bytes = path.bytes().map(|byte| match is_plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    });
    bytes.collect()
}

/// FNV-1a of what tells the finding from others.
fn fingerprint(finding: &Finding) -> String {
    let (kind, sites, object) = finding.key();
    let text = format!("{} {sites:?} {object}", kind.name());
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    format!("{hash:016x}")
}
