//! For developers: checks every `.ptx` file under the given paths and prints the first finding of
//! each file that has one.
//!
//! `survey [--programs] [--reject] [--all] PATH…`: with `--programs`, every kernel is also
//! translated and what cannot be executed yet is printed; with `--reject`, the files without a
//! finding are printed instead, and the findings beside what was expected.

use std::path::{Path, PathBuf};

use ptxjit_frontend::diag::Diagnostic;
use ptxjit_frontend::source::Source;
use ptxjit_frontend::translate::Module;

#[expect(clippy::print_stdout, reason = "this is a command")]
fn main() {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let mut flag = |name: &str| {
        let n = args.len();
        args.retain(|arg| arg != name);
        args.len() < n
    };
    let (programs, reject, quiet, all) = (
        flag("--programs"),
        flag("--reject"),
        flag("--quiet"),
        flag("--all"),
    );
    let mut files = Vec::new();
    args.iter()
        .for_each(|arg| collect(Path::new(arg), &mut files));
    files.sort();
    let (mut n_found, mut n_unsupported) = (0, 0);
    for file in &files {
        let Ok(bytes) = std::fs::read(file) else {
            continue;
        };
        let source = Source::from_bytes(file.display().to_string(), bytes);
        let first_line = source.text().lines().next().unwrap_or("").to_owned();
        let (text, found, unsupported) = look(source, programs);
        if !found.is_empty() {
            n_found += 1;
        } else if !unsupported.is_empty() {
            n_unsupported += 1;
        }
        let show = |d: &Diagnostic| {
            let line = d.span().map_or(0, |span| {
                text[..span.start as usize].matches('\n').count() + 1
            });
            let at = text
                .lines()
                .nth(line.saturating_sub(1))
                .unwrap_or("")
                .trim();
            format!("{line}: {} | {at}", d.message)
        };
        if all {
            found
                .iter()
                .for_each(|d| println!("{}:{}", file.display(), show(d)));
            continue;
        }
        match (reject, found.first()) {
            (false, Some(d)) => println!("{}:{}", file.display(), show(d)),
            (true, None) => println!("{}: NOT REFUSED {first_line}", file.display()),
            (true, Some(d)) if !quiet => {
                println!("{}: {first_line}\n      {}", file.display(), show(d))
            }
            (true, Some(_)) | (false, None) => {}
        }
        if let (false, Some(d)) = (quiet, unsupported.first()) {
            println!("{}: UNSUPPORTED {}", file.display(), show(d));
        }
    }
    println!(
        "{} files, {n_found} with findings, {n_unsupported} more not executable",
        files.len()
    );
}

/// The text, what is wrong, and what is unsupported.
fn look(source: Source, programs: bool) -> (String, Vec<Diagnostic>, Vec<Diagnostic>) {
    let text = source.text().to_owned();
    let module = match Module::parse(source) {
        Ok(module) => module,
        Err(found) => return (text, found, Vec::new()),
    };
    let found = module.check();
    let mut unsupported = Vec::new();
    if programs {
        for kernel in module.kernels() {
            match module.program(&kernel.name) {
                Ok(program) => {
                    if let Err(errors) = ptxjit_ir::verify::program(&program) {
                        unsupported
                            .push(Diagnostic::error(format!("verifier: {:?}", errors.first())));
                    }
                }
                Err(found) => unsupported.extend(found),
            }
        }
    }
    (text, found, unsupported)
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) {
    if path.is_dir() {
        let Ok(entries) = std::fs::read_dir(path) else {
            return;
        };
        entries
            .flatten()
            .for_each(|entry| collect(&entry.path(), files));
    } else if path.extension().is_some_and(|ext| ext == "ptx") {
        files.push(path.to_owned());
    }
}
