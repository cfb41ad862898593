//! `ptxjit run`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use ptxjit::sanitize::{self, Style, Suppression};
use ptxjit::{Cache, CodeOrigin, Device, Options, Prepared, Recording};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::args::RunArgs;
use crate::case::CaseFile;
use crate::coverage;
use crate::dtype::{DType, Number};
use crate::npy;
use crate::paths::{Outside, shown};
use crate::picture;
use crate::plan::Plan;
use crate::replace::{Links, replace};
use crate::sanitize::ReportFormat;
use crate::session::{self, Failure, Output, Session};
use crate::term;
use crate::{explore, suppress};

pub(crate) fn run(args: &RunArgs) -> ExitCode {
    let code = match planned(args) {
        Ok((plan, pointers)) => execute(args, &plan, &pointers),
        Err(err) => report(args, &Failure::from(err)),
    };
    ExitCode::from(code)
}

/// The plan, and for each argument the buffer it points to.
fn planned(args: &RunArgs) -> Result<(Plan, Vec<Option<usize>>)> {
    coverage::check(&args.exec)?;
    let Some(path) = &args.case else {
        let (plan, pointers) = Plan::from_args(args)?;
        check_indices(args, &pointers)?;
        check_pictures(args, &plan, &pointers)?;
        return Ok((plan, pointers));
    };
    let file = CaseFile::read(path, Outside::from_flag(args.allow_outside))?;
    let case = file
        .case(&args.label)
        .ok_or_else(|| anyhow!("{} has no case `{}`", shown(path), args.label))?;
    let (chosen, linked) = match (&args.ptx, args.files.split_first()) {
        (Some(_), Some(_)) => anyhow::bail!("PTX files are given both with --ptx and without"),
        (Some(ptx), None) => (Some(ptx), &[][..]),
        (None, Some((first, rest))) => (Some(first), rest),
        (None, None) => (None, &[][..]),
    };
    let files: Vec<PathBuf> = match chosen {
        Some(ptx) => vec![ptx.clone()],
        None if case.names_its_files() => Vec::new(),
        None => {
            let first = file.ptx.first().map(|ptx| file.dir.find(&ptx.file));
            first.into_iter().collect::<Result<_>>()?
        }
    };
    if args.out_dir.is_some() {
        case.check_file_names()?;
    }
    let mut plan = Plan::from_case(&file, case, &files)?;
    plan.linked = linked.to_vec();
    anyhow::ensure!(!plan.files.is_empty(), "{} names no PTX file", shown(path));
    let pointers: Vec<_> = (0..case.buffers.len()).map(Some).collect();
    check_indices(args, &pointers)?;
    check_pictures(args, &plan, &pointers)?;
    Ok((plan, pointers))
}

fn check_indices(args: &RunArgs, pointers: &[Option<usize>]) -> Result<()> {
    let prints = args.print.iter().map(|spec| ("--print", spec.arg));
    let outs = args.out.iter().map(|spec| ("--out", spec.arg));
    for (flag, arg) in prints.chain(outs) {
        let buffer = pointers
            .get(arg)
            .ok_or_else(|| anyhow!("{flag} {arg}: there is no argument {arg}"))?;
        buffer.ok_or_else(|| anyhow!("{flag} {arg}: argument {arg} is not a buffer"))?;
    }
    Ok(())
}

/// A picture of the wrong size shall be known before a long launch, not after it.
fn check_pictures(args: &RunArgs, plan: &Plan, pointers: &[Option<usize>]) -> Result<()> {
    for spec in &args.out {
        let buffer = pointers.get(spec.arg).copied().flatten();
        if let (Some(size), Some(buffer)) = (spec.size, buffer) {
            let buffer = &plan.buffers[buffer];
            let checked = picture::check(buffer.dtype, buffer.count, size);
            checked.with_context(|| format!("--out {}", spec.arg))?;
        }
    }
    Ok(())
}

/// Times of the launches, one per repetition.
struct Times {
    launches: Vec<Duration>,
    failure: Option<Failure>,
    /// What sanitizers have found, as JSON.
    found: Option<Value>,
    /// As JSON.
    profile: Option<Value>,
}

fn execute(args: &RunArgs, plan: &Plan, pointers: &[Option<usize>]) -> u8 {
    let (mut options, output) = session::capture(session::options(&args.exec));
    options.eager |= args.repeat > 1;
    options.record = args.record.is_some().then(Recording::default);
    options.replay = match args.replay.as_deref().map(recording).transpose() {
        Ok(replay) => replay,
        Err(err) => return report(args, &err.into()),
    };
    // A mistake in the file shall be known before a long launch, not after it.
    let suppressions = match args.suppress.as_deref().map(suppress::read).transpose() {
        Ok(suppressions) => suppressions.unwrap_or_default(),
        Err(err) => return report(args, &err.into()),
    };
    let device = match device(args, plan) {
        Ok(device) => device,
        Err(err) => return report(args, &err.into()),
    };
    let mut session = match Session::new(&device, plan, &options) {
        Ok(session) => session,
        Err(failure) => return report(args, &failure),
    };
    let mut times = repeat(args, &mut session, &output);
    if let Err(err) = keep_recording(args, &options) {
        return report(args, &err.into());
    }
    let found = match found(args, plan, (&session, &times), &options, &suppressions) {
        Ok(found) => found,
        Err(err) => {
            term::err(&format!("error: {err:#}"));
            return 2;
        }
    };
    times.found = found.document;
    match coverage::write(&args.exec, options.coverage.as_ref()) {
        Ok(Some((_, document))) if args.json => times.profile = Some(document),
        Ok(Some((text, _))) => term::err(text.trim_end()),
        Ok(None) => {}
        Err(err) => {
            term::err(&format!("error: {err:#}"));
            return 2;
        }
    }
    let code = match deliver(args, plan, pointers, &session, &output, &times) {
        Ok(()) => 0,
        Err(err) => {
            term::err(&format!("error: {err:#}"));
            1
        }
    };
    let code = times.failure.as_ref().map_or(code, Failure::exit_code);
    if found.fails { code.max(1) } else { code }
}

/// Reads a recorded schedule.
fn recording(path: &Path) -> Result<Recording> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", shown(path)))?;
    let parsed = text.parse().map_err(|why: String| anyhow!(why));
    parsed.with_context(|| format!("{} is no recorded schedule", shown(path)))
}

/// Writes the schedule of the launches, if it shall be kept.
fn keep_recording(args: &RunArgs, options: &Options) -> Result<()> {
    match (&args.record, &options.record) {
        (Some(path), Some(recording)) => write_text(path, &recording.to_string()),
        _ => Ok(()),
    }
}

/// What sanitizers have found.
struct Found {
    document: Option<Value>,
    fails: bool,
}

/// Gathers and reports what sanitizers have found.
fn found(
    args: &RunArgs,
    plan: &Plan,
    (session, times): (&Session<'_>, &Times),
    options: &Options,
    suppressions: &[Suppression],
) -> Result<Found> {
    if !options.sanitize.any() {
        return Ok(Found {
            document: None,
            fails: false,
        });
    }
    let mut findings = match args.explore {
        Some(n) => explore::run(plan, options, n).map_err(|failure| anyhow!(failure.text))?,
        None => session.findings(times.failure.is_none()),
    };
    let mut is_used = vec![false; suppressions.len()];
    let before = findings.len();
    findings.retain(|finding| {
        let hit = suppressions.iter().position(|it| it.matches(finding));
        if let Some(idx) = hit {
            is_used[idx] = true;
        }
        hit.is_none()
    });
    let suppressed = before - findings.len();
    let fails = findings
        .iter()
        .any(|finding| args.exec.sanitize_fail.fails(finding));
    let is_cut = findings.len() > args.exec.sanitize_limit;
    findings.truncate(args.exec.sanitize_limit);
    if let Some(path) = &args.suppress_out {
        let lines: String = findings
            .iter()
            .map(|it| suppress::line_for(it) + "\n")
            .collect();
        write_text(path, &lines)?;
    }
    let json = sanitize::json(options.sanitize, &findings, suppressed, is_cut);
    let text = |style| {
        let mut text = sanitize::text(&findings, style);
        let unused = suppressions
            .iter()
            .zip(&is_used)
            .filter(|(_, is_used)| !**is_used);
        unused.for_each(|(it, _)| {
            let line = format!("unused suppression: {}\n", it.text());
            text += &ptxjit::escape_lines(&line);
        });
        text
    };
    for report in &args.report {
        let contents = match report.format {
            ReportFormat::Text if report.file.is_none() => {
                term::err_painted(&text(term::stderr_style()));
                continue;
            }
            ReportFormat::Text => text(Style::default()),
            ReportFormat::Json => json.clone(),
            ReportFormat::Sarif => sanitize::sarif(&findings),
        };
        match &report.file {
            Some(path) => write_text(path, &contents)?,
            None => term::err(&contents),
        }
    }
    if args.report.is_empty() && !args.json {
        term::err_painted(text(term::stderr_style()).trim_end());
    }
    Ok(Found {
        document: Some(serde_json::from_str(&json)?),
        fails,
    })
}

fn write_text(path: &Path, text: &str) -> Result<()> {
    replace(path, Links::Follow, |file| {
        Ok(file.write_all(text.as_bytes())?)
    })
}

fn device(args: &RunArgs, plan: &Plan) -> Result<Device, ptxjit::Error> {
    let device = plan.device()?;
    Ok(match Cache::user().filter(|_| !args.no_cache) {
        Some(cache) => device.with_cache(cache),
        None => device,
    })
}

fn repeat(args: &RunArgs, session: &mut Session<'_>, output: &Output) -> Times {
    let mut times = Times {
        launches: Vec::new(),
        failure: None,
        found: None,
        profile: None,
    };
    for repetition in 0..args.repeat {
        let result = once(args, session, output, repetition);
        match result {
            Ok(time) => times.launches.push(time),
            Err(failure) => {
                if !args.json {
                    term::err(&failure.text);
                }
                times.failure = Some(failure);
                break;
            }
        }
    }
    times
}

/// One repetition: all launches in order.
fn once(
    args: &RunArgs,
    session: &mut Session<'_>,
    output: &Output,
    repetition: u32,
) -> Result<Duration, Failure> {
    if args.reset && repetition > 0 {
        session.reset()?;
    }
    let mut time = Duration::ZERO;
    for idx in 0..session.n_launches() {
        let result = session.launch(idx);
        if !args.json && args.out_dir.is_none() {
            let printed = std::mem::take(&mut *output.lock().expect("no holder panics"));
            term::out_bytes(&printed);
        }
        time += result?.time;
    }
    Ok(time)
}

fn deliver(
    args: &RunArgs,
    plan: &Plan,
    pointers: &[Option<usize>],
    session: &Session<'_>,
    output: &Output,
    times: &Times,
) -> Result<()> {
    let read = |buffer: usize| {
        session
            .read(buffer)
            .map_err(|failure| anyhow!(failure.text))
    };
    let printed = output.lock().expect("no holder panics").clone();
    if let Some(dir) = &args.out_dir {
        write_all(dir, plan, &printed, session)?;
        if !args.json {
            term::out_bytes(&printed);
        }
    }
    for spec in &args.out {
        let buffer = pointers[spec.arg].expect("checked with the arguments");
        match spec.size {
            Some(size) => write_picture(&spec.path, size, plan, buffer, session)?,
            None => write(&spec.path, Links::Follow, plan, buffer, session)?,
        }
    }
    if args.json {
        let document = document(args, plan, pointers, session, times, &printed)?;
        term::out_json(&document);
        return Ok(());
    }
    for spec in &args.print {
        let buffer = pointers[spec.arg].expect("checked with the arguments");
        let text = elements(plan.buffers[buffer].dtype, &read(buffer)?, spec.count);
        term::out(&format!("{}: {text}\n", spec.arg));
    }
    if args.repeat > 1 {
        term::err(&summary(session, &times.launches));
    }
    Ok(())
}

fn write_all(dir: &Path, plan: &Plan, printed: &[u8], session: &Session<'_>) -> Result<()> {
    std::fs::create_dir_all(dir).with_context(|| format!("cannot create {}", shown(dir)))?;
    for (name, idx) in &plan.outputs {
        let path = dir.join(format!("{name}.npy"));
        write(&path, Links::Replace, plan, *idx, session)?;
    }
    replace(&dir.join("stdout"), Links::Replace, |file| {
        Ok(file.write_all(printed)?)
    })
}

/// Writes a buffer to a file: NumPy's format if the name says so, else raw bytes.
fn write(
    path: &Path,
    links: Links,
    plan: &Plan,
    buffer: usize,
    session: &Session<'_>,
) -> Result<()> {
    let (dtype, count) = (plan.buffers[buffer].dtype, plan.buffers[buffer].count);
    let is_numpy = path.extension().is_some_and(|ext| ext == "npy");
    replace(path, links, |file| {
        if is_numpy {
            file.write_all(&npy::header(dtype, count))?;
        }
        session.each_piece(buffer, |bytes| {
            let data = if is_numpy {
                npy::data(dtype, bytes)
            } else {
                bytes.into()
            };
            Ok(file.write_all(&data)?)
        })
    })
}

fn write_picture(
    path: &Path,
    size: picture::Size,
    plan: &Plan,
    buffer: usize,
    session: &Session<'_>,
) -> Result<()> {
    let (dtype, count) = (plan.buffers[buffer].dtype, plan.buffers[buffer].count);
    replace(path, Links::Follow, |file| {
        picture::write(file, dtype, count, size, &|take| {
            session.each_piece(buffer, take)
        })
    })
}

/// The first `count` elements, or all, separated by spaces.
fn elements(dtype: DType, bytes: &[u8], count: Option<usize>) -> String {
    let elements = bytes
        .chunks_exact(dtype.size())
        .take(count.unwrap_or(usize::MAX));
    let texts: Vec<String> = elements
        .map(|element| show(dtype, dtype.decode(element)))
        .collect();
    texts.join(" ")
}

/// Shortest text that reads back as the same number of its type.
fn show(dtype: DType, number: Number) -> String {
    match (number, dtype) {
        (Number::Int(value), _) => value.to_string(),
        (Number::Float(value), DType::F64) => value.to_string(),
        (Number::Float(value), _) => (value as f32).to_string(),
    }
}

fn document(
    args: &RunArgs,
    plan: &Plan,
    pointers: &[Option<usize>],
    session: &Session<'_>,
    times: &Times,
    printed: &[u8],
) -> Result<Value> {
    let mut outputs = Vec::new();
    for (index, buffer) in pointers.iter().enumerate() {
        let Some(buffer) = *buffer else { continue };
        let planned = &plan.buffers[buffer];
        let mut hash = Sha256::new();
        session.each_piece(buffer, |bytes| {
            hash.update(bytes);
            Ok(())
        })?;
        let hex: String = hash
            .finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let mut entry = json!({"index": index, "dtype": planned.dtype.name(), "count": planned.count, "sha256": hex});
        if args.case.is_some() {
            entry["name"] = json!(planned.name);
        }
        outputs.push(entry);
    }
    let mut kernels = session.kernels.clone();
    kernels.dedup();
    let ms: Vec<f64> = times.launches.iter().copied().map(millis).collect();
    let mut document = json!({
        "kernel": kernels.join(","),
        "gang": (0..session.n_launches()).map(|idx| session.gang(idx)).max(),
        "load_ms": millis(session.load),
        "compile_ms": millis(session.compile),
        "kernels": session.prepared().zip(&session.kernels).map(|(it, name)| jit(name, it)).collect::<Vec<_>>(),
        "launch_ms": ms,
        "args": outputs,
    });
    if !printed.is_empty() {
        document["stdout"] = json!(String::from_utf8_lossy(printed));
    }
    if let Some(found) = &times.found {
        document["sanitize"] = found.clone();
    }
    if let Some(profile) = &times.profile {
        document["profile"] = profile.clone();
    }
    if let Some(failure) = &times.failure {
        document["error"] = error_value(failure);
    }
    Ok(document)
}

/// Where the code of one launch came from, and how long that took.
fn jit(kernel: &str, prepared: &Prepared) -> Value {
    let mut value = json!({
        "name": kernel,
        "gang": prepared.gang(),
        "code": match prepared.origin() {
            Some(CodeOrigin::Memory) => "earlier launch",
            Some(CodeOrigin::Disk) => "cache",
            Some(_) => "compiled",
            None => "none",
        },
        "quick": prepared.is_quick(),
        "jit_ms": millis(prepared.compile_time()),
    });
    if let Some(why) = prepared.narrowed() {
        value["narrowed"] = json!(why);
    }
    if let Some(stages) = prepared.stages() {
        value["stages_ms"] = json!({
            "vectorize": millis(stages.vectorize),
            "lower": millis(stages.lower),
            "select": millis(stages.select),
            "regalloc": millis(stages.regalloc),
            "link": millis(stages.link),
        });
        value["clif_insts"] = json!(stages.clif_insts);
        value["code_bytes"] = json!(stages.code_bytes);
    }
    value
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn summary(session: &Session<'_>, times: &[Duration]) -> String {
    let mut sorted: Vec<f64> = times.iter().copied().map(millis).collect();
    sorted.sort_by(f64::total_cmp);
    let (Some(min), Some(max)) = (sorted.first(), sorted.last()) else {
        return String::new();
    };
    let median = sorted[sorted.len() / 2];
    let gangs: Vec<String> = (0..session.n_launches())
        .map(|idx| session.gang(idx).to_string())
        .collect();
    format!(
        "load {:.3} ms, compile {:.3} ms, {} launches (gang {}): min {min:.3} ms, median {median:.3} ms, max {max:.3} ms",
        millis(session.load),
        millis(session.compile),
        sorted.len(),
        gangs.join(",")
    )
}

fn error_value(failure: &Failure) -> Value {
    json!({"message": failure.text, "cuda": failure.cuda_name})
}

/// Tells about a failure that left nothing to print.
fn report(args: &RunArgs, failure: &Failure) -> u8 {
    if args.json {
        term::out_json(&json!({"error": error_value(failure)}));
    }
    term::err(&failure.text);
    failure.exit_code()
}
