//! What big modules cost: reading the outline of 10 MB, memory, the time to the first launch,
//! checking all bodies.
//!
//! Each measurement is a process of its own, because a process remembers its peak of memory.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use ptxjit::{Device, Module};
use serde_json::{Value, json};

/// Kernels in the big module, and unused variables in the other one.
const NUMBER: usize = 1000;

/// Bytes of the big module, about.
const SIZE: usize = 10_000_000;

/// Bytes of a step of a kernel, about.
const STEP: usize = 100;

const HEAD: &str = ".version 7.0\n.target sm_80\n.address_size 64\n";

/// One module that is measured.
struct Subject {
    title: &'static str,
    text: String,
    kernel: String,
}

/// Measures all modules this many times and prints the best of each number.
pub(crate) fn run(rounds: usize, out: &mut dyn std::io::Write) -> Result<Value> {
    let dir = crate::temp_dir()?;
    let middle = kernel_name(NUMBER / 2);
    let subjects = [
        Subject {
            title: "1000 kernels",
            text: many_kernels(),
            kernel: middle.clone(),
        },
        Subject {
            title: "one of them alone",
            text: format!("{HEAD}{}", kernel(NUMBER / 2)),
            kernel: middle,
        },
        Subject {
            title: "1000 globals",
            text: many_globals(),
            kernel: kernel_name(0),
        },
        Subject {
            title: "no globals",
            text: format!("{HEAD}{}", kernel(0)),
            kernel: kernel_name(0),
        },
    ];
    writeln!(
        out,
        "{:<18} {:>9} {:>9} {:>9} {:>10} {:>10} {:>10} {:>12} {:>9} {:>9} {:>9} {:>9}",
        "module",
        "MB",
        "scan ms",
        "MB/s",
        "kernel ms",
        "launch ms",
        "all ms",
        "loaded MB",
        "of file",
        "check ms",
        "MB/s",
        "of file"
    )?;
    let mut results = Vec::new();
    for subject in &subjects {
        let path = dir.path().join("module.ptx");
        std::fs::write(&path, &subject.text)?;
        let best = best_of(rounds, &path, &subject.kernel)?;
        results.push(row(subject, &best, out)?);
    }
    Ok(Value::Array(results))
}

/// Numbers of one process, in seconds and bytes.
struct Probe {
    scan: f64,
    kernel: f64,
    launch: f64,
    peak: f64,
    check: f64,
    check_peak: f64,
}

fn row(subject: &Subject, best: &Probe, out: &mut dyn std::io::Write) -> Result<Value> {
    let size = subject.text.len() as f64;
    let all = best.scan + best.kernel + best.launch;
    writeln!(
        out,
        "{:<18} {:>9.3} {:>9.3} {:>9.0} {:>10.2} {:>10.2} {:>10.2} {:>12.2} {:>9.2} {:>9.2} {:>9.1} {:>9.2}",
        subject.title,
        size * 1e-6,
        best.scan * 1e3,
        size * 1e-6 / best.scan,
        best.kernel * 1e3,
        best.launch * 1e3,
        all * 1e3,
        best.peak * 1e-6,
        best.peak / size,
        best.check * 1e3,
        size * 1e-6 / best.check,
        best.check_peak / size
    )?;
    Ok(json!({
        "module": subject.title,
        "bytes": subject.text.len(),
        "scan_s": best.scan,
        "kernel_s": best.kernel,
        "launch_s": best.launch,
        "peak_growth_bytes": best.peak,
        "check_s": best.check,
        "check_peak_growth_bytes": best.check_peak,
    }))
}

fn best_of(rounds: usize, path: &Path, kernel: &str) -> Result<Probe> {
    let mut best = start(path, kernel)?;
    for _ in 1..rounds {
        let next = start(path, kernel)?;
        best.scan = best.scan.min(next.scan);
        best.kernel = best.kernel.min(next.kernel);
        best.launch = best.launch.min(next.launch);
        best.peak = best.peak.min(next.peak);
        best.check = best.check.min(next.check);
        best.check_peak = best.check_peak.min(next.check_peak);
    }
    Ok(best)
}

/// Runs [`probe`] and [`probe_check`] in processes of their own.
fn start(path: &Path, kernel: &str) -> Result<Probe> {
    let launched = numbers(path, Some(kernel))?;
    let checked = numbers(path, None)?;
    let number = |of: &Value, name: &str| of[name].as_f64().with_context(|| format!("no {name}"));
    Ok(Probe {
        scan: number(&launched, "scan")?,
        kernel: number(&launched, "kernel")?,
        launch: number(&launched, "launch")?,
        peak: number(&launched, "peak")?,
        check: number(&checked, "check")?,
        check_peak: number(&checked, "peak")?,
    })
}

/// What a process tells that probes the module.
fn numbers(path: &Path, kernel: Option<&str>) -> Result<Value> {
    let output = Command::new(std::env::current_exe()?)
        .arg("probe")
        .arg(path)
        .args(kernel)
        .output()?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Checks the module at `path` and tells what that took as JSON.
pub(crate) fn probe_check(path: &PathBuf) -> Result<Value> {
    std::io::copy(&mut std::fs::File::open(path)?, &mut std::io::sink())?;
    ptxjit::check_text("warm", format!("{HEAD}{}", kernel_text("warm", 1)));
    let before = peak()?;
    let start = Instant::now();
    let found = ptxjit::check(path)?;
    let check = start.elapsed().as_secs_f64();
    ensure!(found.iter().next().is_none(), "the module is not correct");
    Ok(json!({ "check": check, "peak": peak()?.saturating_sub(before) }))
}

/// Loads the module at `path`, launches `kernel`, and tells what that took as JSON.
pub(crate) fn probe(path: &PathBuf, kernel: &str) -> Result<Value> {
    // Before the clock starts: the file is in the cache, the device is there and has computed
    // something.
    std::io::copy(&mut std::fs::File::open(path)?, &mut std::io::sink())?;
    let device = Device::new()?;
    launch(
        &Module::from_source(&device, "warm", format!("{HEAD}{}", kernel_text("warm", 1)))?,
        &device,
        "warm",
    )?;
    let before = peak()?;
    let start = Instant::now();
    let module = Module::load(&device, path)?;
    let scan = start.elapsed().as_secs_f64();
    let peak = peak()?.saturating_sub(before);
    let start = Instant::now();
    module.kernel(kernel)?;
    let translate = start.elapsed().as_secs_f64();
    let start = Instant::now();
    launch(&module, &device, kernel)?;
    let launched = start.elapsed().as_secs_f64();
    Ok(json!({ "scan": scan, "kernel": translate, "launch": launched, "peak": peak }))
}

fn launch(module: &Module, device: &Device, kernel: &str) -> Result<()> {
    let data = device.alloc_from(&[1.0f32; 64])?;
    module
        .kernel(kernel)?
        .launch()
        .block(64)
        .arg(&data)
        .arg(64u32)
        .run()?;
    let result = data.read()?;
    ensure!(
        result.iter().all(|&value| value == result[0]),
        "threads with the same data computed different results"
    );
    Ok(())
}

/// The most memory this process has had so far, in bytes; nothing on systems that do not tell.
fn peak() -> Result<u64> {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else {
        return Ok(0);
    };
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    Ok(1024
        * kib
            .context("no VmHWM in /proc/self/status")?
            .parse::<u64>()?)
}

fn kernel_name(idx: usize) -> String {
    format!("_Z9generated{idx:04}Pfj")
}

fn many_kernels() -> String {
    let mut text = HEAD.to_owned();
    for idx in 0..NUMBER {
        text.push_str(&kernel(idx));
    }
    text
}

fn many_globals() -> String {
    let mut text = HEAD.to_owned();
    for idx in 0..NUMBER {
        let init = (0..64).map(|k| (idx * k % 251).to_string());
        let init = init.collect::<Vec<_>>().join(", ");
        writeln!(
            text,
            ".visible .global .align 4 .u32 table{idx}[64] = {{{init}}};"
        )
        .expect("strings take everything");
    }
    text.push_str(&kernel(0));
    text
}

/// A kernel of the big module: as many instructions as make it a thousandth of its size.
fn kernel(idx: usize) -> String {
    kernel_text(&kernel_name(idx), SIZE / NUMBER / STEP)
}

/// A kernel that multiplies, adds and halves `steps` times.
fn kernel_text(name: &str, steps: usize) -> String {
    let mut text = format!(
        ".visible .entry {name}(\n\t.param .u64 {name}_param_0,\n\t.param .u32 {name}_param_1\n)\n{{\n\
         \t.reg .pred %p<2>;\n\t.reg .f32 %f<{}>;\n\t.reg .b32 %r<3>;\n\t.reg .b64 %rd<4>;\n\n\
         \tld.param.u64 %rd1, [{name}_param_0];\n\tld.param.u32 %r1, [{name}_param_1];\n\
         \tmov.u32 %r2, %tid.x;\n\tsetp.ge.u32 %p1, %r2, %r1;\n\t@%p1 bra $L__end;\n\
         \tcvta.to.global.u64 %rd2, %rd1;\n\tmul.wide.u32 %rd3, %r2, 4;\n\tadd.s64 %rd2, %rd2, %rd3;\n\
         \tld.global.f32 %f0, [%rd2];\n",
        2 * steps + 1
    );
    for step in 0..steps {
        let (from, middle, to) = (2 * step, 2 * step + 1, 2 * step + 2);
        writeln!(
            text,
            "\tmul.f32 %f{middle}, %f{from}, 0f3F7D70A4;\n\tadd.f32 %f{to}, %f{middle}, %f{from};"
        )
        .expect("strings take everything");
        // Keeps the numbers small.
        writeln!(text, "\tmul.f32 %f{to}, %f{to}, 0f3F000000;").expect("strings take everything");
    }
    writeln!(
        text,
        "\tst.global.f32 [%rd2], %f{};\n$L__end:\n\tret;\n}}\n",
        2 * steps
    )
    .expect("strings take everything");
    text
}
