//! `ptxjit check`.

use std::collections::HashSet;
use std::path::Path;
use std::process::ExitCode;

use ptxjit::{Device, Diagnostic, Error, Module, Severity};
use serde_json::{Value, json};

use crate::args::CheckArgs;
use crate::term;

/// What is known about one file.
struct Findings {
    diagnostics: Vec<Diagnostic>,
    /// An error that is not about the PTX text.
    other: Option<String>,
}

impl Findings {
    /// What `--error-limit` allows to show.
    fn shown(&self) -> &[Diagnostic] {
        match term::error_limit() {
            0 => &self.diagnostics,
            limit => &self.diagnostics[..limit.min(self.diagnostics.len())],
        }
    }

    fn is_ok(&self) -> bool {
        let error = |diagnostic: &Diagnostic| diagnostic.severity() == Severity::Error;
        self.other.is_none() && !self.diagnostics.iter().any(error)
    }
}

pub(crate) fn run(args: &CheckArgs) -> ExitCode {
    let mut documents = Vec::new();
    let mut all_ok = true;
    for path in &args.files {
        let findings = check(path, args.all_kernels);
        all_ok &= findings.is_ok();
        if args.json {
            documents.push(document(path, &findings));
        } else {
            print(path, &findings);
        }
    }
    if args.json {
        term::out(&format!("{}\n", json!({"ok": all_ok, "files": documents})));
    }
    if all_ok {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(2)
    }
}

fn check(path: &Path, all_kernels: bool) -> Findings {
    let mut findings = match ptxjit::check(path) {
        Ok(diagnostics) => Findings {
            diagnostics: diagnostics.iter().cloned().collect(),
            other: None,
        },
        Err(err) => Findings {
            diagnostics: Vec::new(),
            other: Some(err.to_string()),
        },
    };
    if all_kernels && findings.is_ok() {
        compile_all(path, &mut findings);
    }
    findings
}

/// Compiles each kernel by itself, so that all that cannot be compiled are reported.
fn compile_all(path: &Path, findings: &mut Findings) {
    let module = Device::new().and_then(|device| Module::load(&device, path));
    let module = match module {
        Ok(module) => module,
        Err(err) => return findings.other = Some(err.to_string()),
    };
    let key = |diagnostic: &Diagnostic| (diagnostic.position(), diagnostic.message().to_owned());
    let mut known: HashSet<_> = findings.diagnostics.iter().map(key).collect();
    for name in module.kernel_names() {
        let compiled = module
            .kernel(&name)
            .and_then(|kernel| kernel.compile(ptxjit::Dim3::from(256)));
        match compiled {
            Ok(_) => {}
            Err(Error::Invalid(list) | Error::Unsupported(list)) => {
                for diagnostic in &list {
                    // Kernels share functions, and so what is wrong with these.
                    if known.insert(key(diagnostic)) {
                        findings.diagnostics.push(diagnostic.clone());
                    }
                }
            }
            Err(err) => findings.other = Some(format!("kernel `{name}`: {err}")),
        }
    }
}

fn print(path: &Path, findings: &Findings) {
    let color = term::stdout_color();
    let shown = findings.shown();
    for diagnostic in shown {
        term::out(&format!("{}\n\n", diagnostic.render(color)));
    }
    match findings.diagnostics.len() - shown.len() {
        0 => {}
        1 => term::out("1 more finding is not shown\n\n"),
        n => term::out(&format!("{n} more findings are not shown\n\n")),
    }
    if let Some(text) = &findings.other {
        term::out(&format!("error: {text}\n"));
    }
    let n_errors = findings
        .diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.severity() == Severity::Error)
        .count();
    let verdict = match (findings.is_ok(), n_errors) {
        (true, _) => "ok".to_owned(),
        (false, 1) => "1 error".to_owned(),
        (false, n) => format!("{n} errors"),
    };
    term::err(&format!("{}: {verdict}", path.display()));
}

fn document(path: &Path, findings: &Findings) -> Value {
    let shown = findings.shown();
    let diagnostics: Vec<Value> = shown.iter().map(diagnostic_value).collect();
    let mut document = json!({
        "file": path.to_string_lossy(),
        "ok": findings.is_ok(),
        "diagnostics": diagnostics,
        "not_shown": findings.diagnostics.len() - shown.len(),
    });
    if let Some(text) = &findings.other {
        document["error"] = json!(text);
    }
    document
}

fn diagnostic_value(diagnostic: &Diagnostic) -> Value {
    let severity = match diagnostic.severity() {
        Severity::Warning => "warning",
        _ => "error",
    };
    let mut value = json!({
        "severity": severity,
        "unsupported": diagnostic.is_unsupported(),
        "message": diagnostic.message(),
        "notes": diagnostic.notes(),
    });
    if let (Some((line, column)), Some((end_line, end_column))) =
        (diagnostic.position(), diagnostic.end_position())
    {
        value["line"] = json!(line);
        value["column"] = json!(column);
        value["end_line"] = json!(end_line);
        value["end_column"] = json!(end_column);
    }
    value
}
