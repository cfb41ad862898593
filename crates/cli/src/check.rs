//! `ptxjit check`.

use std::collections::HashSet;
use std::path::PathBuf;
use std::process::ExitCode;

use ptxjit::{Device, Diagnostic, Error, Severity};
use ptxjit_image::Purpose;
use serde_json::{Value, json};

use crate::args::CheckArgs;
use crate::input;
use crate::session::Failure;
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
    let all: Vec<&[PathBuf]> = match args.link {
        true => vec![&args.files],
        false => args.files.chunks(1).collect(),
    };
    for files in all {
        let findings = check(files, args);
        all_ok &= findings.is_ok();
        let names: Vec<_> = files.iter().map(|file| file.to_string_lossy()).collect();
        if args.json {
            documents.push(document(&names.join(" "), &findings));
        } else {
            print(&names.join(" "), &findings);
        }
    }
    if args.json {
        term::out_json(&json!({"ok": all_ok, "files": documents}));
    }
    if all_ok {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(2)
    }
}

fn check(files: &[PathBuf], args: &CheckArgs) -> Findings {
    let mut findings = match diagnostics(files, args.link) {
        Ok(diagnostics) => Findings {
            diagnostics,
            other: None,
        },
        Err(failure) => Findings {
            diagnostics: Vec::new(),
            other: Some(failure),
        },
    };
    if args.all_kernels && findings.is_ok() {
        compile_all(files, &mut findings);
    }
    findings
}

/// What is wrong with the PTX, or why there is none.
fn diagnostics(files: &[PathBuf], is_linked: bool) -> Result<Vec<Diagnostic>, String> {
    let text = |failure: Failure| failure.text;
    if is_linked {
        let found = input::linker(files).map_err(text)?.check();
        return Ok(found
            .map_err(|err| err.to_string())?
            .iter()
            .cloned()
            .collect());
    }
    let mut found = Vec::new();
    for file in files {
        for module in input::modules(file, Purpose::Load).map_err(text)? {
            found.extend(
                ptxjit::check_bytes(&module.name, module.text)
                    .iter()
                    .cloned(),
            );
        }
    }
    Ok(found)
}

/// Compiles each kernel by itself, so that all that cannot be compiled are reported.
fn compile_all(files: &[PathBuf], findings: &mut Findings) {
    let module = Device::new().map_err(Failure::from);
    let module = match module.and_then(|device| input::load(&device, files)) {
        Ok(module) => module,
        Err(failure) => return findings.other = Some(failure.text),
    };
    let key = |diagnostic: &Diagnostic| {
        let (file, message) = (
            diagnostic.file().to_owned(),
            diagnostic.message().to_owned(),
        );
        (file, diagnostic.position(), message)
    };
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
            Err(err) => findings.other = Some(format!("error: in kernel `{name}`: {err}")),
        }
    }
}

fn print(name: &str, findings: &Findings) {
    let color = term::stdout_color();
    let shown = findings.shown();
    for diagnostic in shown {
        let text = format!("{}\n\n", diagnostic.render(color));
        if color {
            term::out_painted(&text);
        } else {
            term::out(&text);
        }
    }
    match findings.diagnostics.len() - shown.len() {
        0 => {}
        1 => term::out("1 more finding is not shown\n\n"),
        n => term::out(&format!("{n} more findings are not shown\n\n")),
    }
    if let Some(text) = &findings.other {
        term::out(&format!("{text}\n"));
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
    term::err(&format!("{}: {verdict}", ptxjit::escape(name)));
}

fn document(name: &str, findings: &Findings) -> Value {
    let shown = findings.shown();
    let diagnostics: Vec<Value> = shown.iter().map(diagnostic_value).collect();
    let mut document = json!({
        "file": name,
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
        "file": diagnostic.file(),
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
