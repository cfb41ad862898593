//! `test check`: the diagnostics of a file are those that its comments announce, each on its line.

use anyhow::{Result, ensure};
use ptxjit::{Device, Diagnostic, Error, Module, Severity};

use crate::file::TestFile;

pub(crate) fn check(file: &TestFile) -> Result<()> {
    let name = file.path.display().to_string();
    let found = findings(file, &name)?;
    let mut problems = Vec::new();
    let mut announced = vec![false; found.len()];
    for error in &file.errors {
        let fits = |diagnostic: &Diagnostic| {
            let line = diagnostic.position().map_or(0, |(line, _)| line as usize);
            line == error.line
                && diagnostic.is_unsupported() == error.unsupported
                && diagnostic.render(false).contains(&error.text)
        };
        match found.iter().position(fits) {
            Some(idx) => announced[idx] = true,
            None => problems.push(format!(
                "{name}:{}: not reported: {}",
                error.line, error.text
            )),
        }
    }
    for (diagnostic, announced) in found.iter().zip(announced) {
        if !announced {
            problems.push(format!("not announced:\n{diagnostic}"));
        }
    }
    ensure!(problems.is_empty(), "{}", problems.join("\n"));
    Ok(())
}

/// All errors of the module, and if it has none, all things its kernels need that cannot be
/// executed.
fn findings(file: &TestFile, name: &str) -> Result<Vec<Diagnostic>> {
    let is_error = |diagnostic: &&Diagnostic| diagnostic.severity() == Severity::Error;
    let diagnostics = ptxjit::check_text(name, file.text.clone());
    let mut found: Vec<Diagnostic> = diagnostics.iter().filter(is_error).cloned().collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let module = Module::from_source(&Device::new()?, name, file.text.clone())?;
    for kernel in module.kernel_names() {
        match module.kernel(&kernel) {
            Ok(_) => {}
            Err(Error::Unsupported(list) | Error::Invalid(list)) => {
                found.extend(list.iter().filter(is_error).cloned())
            }
            Err(err) => return Err(err.into()),
        }
    }
    found.sort_by_key(Diagnostic::position);
    found.dedup_by_key(|diagnostic| diagnostic.to_string());
    Ok(found)
}
