//! `ptxjit test`.

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use ptxjit::Options;
use serde_json::json;

use crate::args::TestArgs;
use crate::coverage;
use crate::discover::{self, Test};
use crate::judge::{self, Verdict};
use crate::junit;
use crate::paths::Outside;
use crate::replace::{Links, replace};
use crate::session;
use crate::shard::{self, Timings};
use crate::term::{self, Color};

/// How long a test may take unless the command line says else.
const DEFAULT_LIMIT: Duration = Duration::from_secs(120);

/// A test that was run.
struct Done {
    verdict: Verdict,
    time: Duration,
}

pub(crate) fn run(args: &TestArgs) -> ExitCode {
    match tests(args) {
        Ok(code) => code,
        Err(err) => {
            if args.json {
                let mut none = document(&[]);
                none["error"] = json!(format!("{err:#}"));
                term::out_json(&none);
            }
            term::err(&format!("error: {err:#}"));
            ExitCode::from(2)
        }
    }
}

fn tests(args: &TestArgs) -> Result<ExitCode> {
    coverage::check(&args.exec)?;
    let mut tests = discover::tests(
        &args.paths,
        &args.label,
        Outside::from_flag(args.allow_outside),
    )?;
    if let Some(text) = &args.filter {
        tests.retain(|test| test.name.contains(text));
    }
    ensure!(
        !tests.is_empty(),
        "no test with label `{}` matches",
        args.label
    );
    if let Some(shard) = args.shard {
        let mut timings = Timings::new();
        for path in &args.timings {
            shard::read_timings(path, &mut timings)?;
        }
        let names: Vec<&str> = tests.iter().map(|test| test.name.as_str()).collect();
        let mut chosen = shard.choose(&names, &timings).into_iter();
        tests.retain(|_| chosen.next() == Some(true));
    }
    let options = session::options(&args.exec);
    let done = run_all(args, &tests, options.clone());
    let results: Vec<(&Test, &Done)> = tests.iter().zip(&done).collect();
    let written = coverage::write(&args.exec, options.coverage.as_ref());
    let profile = written.as_ref().ok().and_then(Option::as_ref);
    if args.json {
        let mut document = document(&results);
        if let Some((_, profile)) = profile {
            document["profile"] = profile.clone();
        }
        term::out_json(&document);
    } else {
        if let Some((text, _)) = profile {
            term::err(text.trim_end());
        }
        term::out(&format!("{}\n", summary(&results)));
    }
    if let Some(path) = &args.junit {
        let entries: Vec<_> = results
            .iter()
            .map(|(test, done)| junit_entry(test, done))
            .collect();
        let document = junit::document(&entries);
        replace(path, Links::Follow, |file| {
            Ok(file.write_all(document.as_bytes())?)
        })?;
    }
    written?;
    let [_, failed, unsupported] = counts(&results);
    Ok(match (failed, unsupported) {
        (0, 0) => ExitCode::SUCCESS,
        (0, _) => ExitCode::from(2),
        _ => ExitCode::from(1),
    })
}

/// Runs the tests, several at a time, and tells about each as it ends. The results are in the order
/// of the tests.
fn run_all(args: &TestArgs, tests: &[Test], mut options: Options) -> Vec<Done> {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let jobs = args
        .jobs
        .map_or(cores, |n| n as usize)
        .clamp(1, tests.len().max(1));
    // Tests that run side by side share the cores.
    options.threads = options.threads.or(Some((cores / jobs).max(1)));
    let bar = progress(tests.len(), args.json);
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    let mut done: Vec<Option<Done>> = tests.iter().map(|_| None).collect();
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            let (sender, next, options) = (sender.clone(), &next, &options);
            scope.spawn(move || work(args, tests, options, next, &sender));
        }
        drop(sender);
        for (idx, result) in receiver {
            if !args.json {
                bar.suspend(|| term::out_painted(&line(&tests[idx], &result)));
            }
            bar.inc(1);
            done[idx] = Some(result);
        }
    });
    bar.finish_and_clear();
    done.into_iter()
        .map(|done| done.expect("every test was run"))
        .collect()
}

fn work(
    args: &TestArgs,
    tests: &[Test],
    options: &Options,
    next: &AtomicUsize,
    sender: &mpsc::Sender<(usize, Done)>,
) {
    let limit = args.exec.timeout.unwrap_or(DEFAULT_LIMIT);
    loop {
        // Only the number matters; nothing is published through it.
        let idx = next.fetch_add(1, Ordering::Relaxed);
        let Some(test) = tests.get(idx) else { return };
        let start = Instant::now();
        let verdict = judge::isolated(test, &args.label, options, limit);
        let done = Done {
            verdict,
            time: start.elapsed(),
        };
        if sender.send((idx, done)).is_err() {
            return;
        }
    }
}

/// A bar on standard error if that is a terminal.
fn progress(n_tests: usize, hidden: bool) -> ProgressBar {
    if hidden {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} {elapsed}")
        .expect("the template is correct");
    ProgressBar::new(n_tests as u64).with_style(style)
}

/// One line for the test, and below it what went wrong.
fn line(test: &Test, done: &Done) -> String {
    let color = term::stdout_color();
    let (word, tone, detail) = match &done.verdict {
        Verdict::Passed => ("ok", Color::Green, ""),
        Verdict::Failed(text) => ("FAILED", Color::Red, text.as_str()),
        Verdict::Unsupported(text) => ("unsupported", Color::Yellow, text.as_str()),
    };
    let word = term::paint(&format!("{word:<11}"), tone, color);
    let mut text = format!(
        "{word} {} ({:.0} ms)\n",
        ptxjit::escape(&test.name),
        done.time.as_secs_f64() * 1e3
    );
    for line in detail.lines() {
        text += &format!("    {}\n", ptxjit::escape(line));
    }
    text
}

/// Passed, failed, unsupported.
fn counts(results: &[(&Test, &Done)]) -> [usize; 3] {
    let mut counts = [0; 3];
    for (_, done) in results {
        counts[match done.verdict {
            Verdict::Passed => 0,
            Verdict::Failed(_) => 1,
            Verdict::Unsupported(_) => 2,
        }] += 1;
    }
    counts
}

fn summary(results: &[(&Test, &Done)]) -> String {
    let mut text = String::new();
    for (test, done) in results {
        let word = match &done.verdict {
            Verdict::Passed => continue,
            Verdict::Failed(_) => "failed",
            Verdict::Unsupported(_) => "unsupported",
        };
        text += &format!(
            "{word}: {}: {}\n",
            ptxjit::escape(&test.name),
            brief(&done.verdict)
        );
    }
    let [passed, failed, unsupported] = counts(results);
    text + &format!("{passed} passed, {failed} failed, {unsupported} unsupported")
}

/// The first sentence of what went wrong, with the place in the PTX if there is one.
fn brief(verdict: &Verdict) -> String {
    let (Verdict::Failed(text) | Verdict::Unsupported(text)) = verdict else {
        return String::new();
    };
    let mut lines = text.lines();
    let first = lines.next().unwrap_or("").to_owned();
    // A drawn diagnostic names the place in its second line: `--> FILE:LINE:COLUMN`.
    match lines
        .next()
        .and_then(|line| line.trim().strip_prefix("--> "))
    {
        Some(place) => {
            let position = place.rsplit(':').nth(1).unwrap_or(place);
            format!("{first} (line {position})")
        }
        None => first,
    }
}

fn document(results: &[(&Test, &Done)]) -> serde_json::Value {
    let entry = |(test, done): &(&Test, &Done)| {
        let (verdict, message) = match &done.verdict {
            Verdict::Passed => ("passed", None),
            Verdict::Failed(text) => ("failed", Some(text)),
            Verdict::Unsupported(text) => ("unsupported", Some(text)),
        };
        json!({"name": test.name, "verdict": verdict, "ms": done.time.as_secs_f64() * 1e3, "message": message})
    };
    let [passed, failed, unsupported] = counts(results);
    let tests: Vec<_> = results.iter().map(entry).collect();
    json!({"passed": passed, "failed": failed, "unsupported": unsupported, "tests": tests})
}

fn junit_entry<'a>(test: &'a Test, done: &'a Done) -> junit::Entry<'a> {
    let outcome = match &done.verdict {
        Verdict::Passed => junit::Outcome::Passed,
        Verdict::Failed(text) => junit::Outcome::Failed(text),
        Verdict::Unsupported(text) => junit::Outcome::Skipped(text),
    };
    junit::Entry {
        suite: test.suite(),
        name: &test.name,
        time: done.time,
        outcome,
    }
}
