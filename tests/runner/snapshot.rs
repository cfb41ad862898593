//! `test snapshot after=STAGE gang=N passes=-NAME,…`: what `ptxjit dump` prints for each kernel
//! stands in the file, after the kernel.
//!
//! Snapshot lines start with `//| `. Kernels without such lines are not compared, but a file needs
//! at least one.

use anyhow::{Context, Result, bail, ensure};
use ptxjit::{Device, Module, Options};

use crate::file::{Snapshot, TestFile};
use crate::signature::Signatures;

const PREFIX: &str = "//|";

pub(crate) fn check(file: &TestFile, snapshot: &Snapshot) -> Result<()> {
    let mut options = Options::default();
    options.gang = snapshot.gang;
    options.passes = snapshot.passes.clone();
    let name = file.path.display().to_string();
    let signatures = Signatures::parse(&name, &file.text)?;
    let module = Module::from_source(&Device::new()?, &name, file.text.clone())?;
    let bless = std::env::var_os("PTXJIT_BLESS").is_some_and(|value| value == "1");
    let mut text = file.text.clone();
    let mut compared = 0;
    // From the last to the first, so that places stay true while text is replaced.
    let mut kernels: Vec<(usize, String)> = Vec::new();
    for kernel in signatures.kernels() {
        let end = signatures
            .end_of(&kernel)
            .with_context(|| format!("`{kernel}` has no body"))?;
        kernels.push((end, kernel));
    }
    kernels.sort();
    for (end, kernel) in kernels.iter().rev() {
        check_heuristic(file, &module, kernel, &options)?;
        let got = module
            .kernel(kernel)?
            .dump(&snapshot.after, [256, 1, 1], &options)?;
        let got: String = got
            .lines()
            .map(|line| format!("{PREFIX} {line}").trim_end().to_owned() + "\n")
            .collect();
        let start = end + text[*end..].find('\n').map_or(0, |newline| newline + 1);
        let old = snapshot_at(&text[start..]);
        if bless {
            text.replace_range(start..start + old.len(), &got);
            compared += 1;
        } else if !old.is_empty() {
            compared += 1;
            if old != got {
                bail!(
                    "{name}: `{kernel}` differs:\n{}",
                    first_difference(old, &got)
                );
            }
        }
    }
    ensure!(
        compared > 0,
        "{name} holds no snapshot; make it with PTXJIT_BLESS=1 and review it"
    );
    if bless && text != file.text {
        std::fs::write(&file.path, text).with_context(|| format!("cannot write {name}"))?;
    }
    Ok(())
}

/// In a file `passes/NAME.ptx`, where NAME is a heuristic: it must act in kernels named `acts…`,
/// but not when it is switched off, and must not act in kernels named `idle…`.
fn check_heuristic(
    file: &TestFile,
    module: &Module,
    kernel: &str,
    options: &Options,
) -> Result<()> {
    let is_of_passes = file
        .path
        .parent()
        .is_some_and(|folder| folder.ends_with("passes"));
    let name = file.path.file_stem().unwrap_or_default().to_string_lossy();
    let name = name.replace('_', "-");
    if !is_of_passes {
        return Ok(());
    }
    let acts = |passes: String| -> Result<bool> {
        let mut options = options.clone();
        options.passes = passes;
        let text = module
            .kernel(kernel)?
            .dump("heuristics", [256, 1, 1], &options)?;
        let acted = text.lines().find_map(|line| line.strip_prefix("acted: "));
        let acted = acted.context("the summary tells what acted")?;
        Ok(acted
            .split(", ")
            .any(|item| item.split(' ').next() == Some(&name)))
    };
    let is_on = acts(String::new())?;
    ensure!(
        is_on == kernel.starts_with("acts") && is_on != kernel.starts_with("idle"),
        "`{name}` {} in `{kernel}`",
        if is_on { "acts" } else { "does not act" }
    );
    ensure!(
        !acts(format!("-{name}"))?,
        "`{name}` acts in `{kernel}` although it is switched off"
    );
    Ok(())
}

/// The snapshot lines at the start of `text`.
fn snapshot_at(text: &str) -> &str {
    let len = text
        .split_inclusive('\n')
        .take_while(|line| line.starts_with(PREFIX))
        .map(str::len)
        .sum();
    &text[..len]
}

fn first_difference(old: &str, got: &str) -> String {
    let mut lines = (old.lines(), got.lines());
    loop {
        match (lines.0.next(), lines.1.next()) {
            (Some(old), Some(got)) if old == got => {}
            (old, got) => {
                let show = |line: Option<&str>| line.unwrap_or("(nothing)").to_owned();
                return format!("  expected {}\n  got      {}", show(old), show(got));
            }
        }
    }
}
