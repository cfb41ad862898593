//! `--profile`: what kernels do and ask of memory, by line, as a table and as JSON.
//! `docs/coverage.md` describes both.

use std::path::PathBuf;
use std::str::FromStr;

use ptxjit::coverage::{KernelProfile, LineProfile, Served, Traffic, Work};
use serde_json::{Value, json};

/// Version of the document's form.
const VERSION: u32 = 1;

/// Nothing, for a table, or `json=FILE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileArg {
    pub json: Option<PathBuf>,
}

impl FromStr for ProfileArg {
    type Err = String;

    fn from_str(text: &str) -> Result<ProfileArg, String> {
        match text.split_once('=') {
            None if text.is_empty() => Ok(ProfileArg { json: None }),
            Some(("json", path)) if !path.is_empty() => Ok(ProfileArg {
                json: Some(PathBuf::from(path)),
            }),
            _ => Err(format!("`{text}` is not json=FILE")),
        }
    }
}

/// All kernels.
pub(super) fn document(kernels: &[KernelProfile]) -> Value {
    json!({"version": VERSION, "kernels": kernels.iter().map(kernel).collect::<Vec<_>>()})
}

fn kernel(kernel: &KernelProfile) -> Value {
    let lines = kernel.lines.iter().map(|line| {
        let place = json!({"file": line.file, "line": line.line, "ptx": line.ptx});
        joined(place, work(&line.work))
    });
    json!({
        "kernel": kernel.name, "file": kernel.file, "launches": kernel.launches, "ctas": kernel.ctas,
        "sampled_ctas": kernel.sampled_ctas, "warps_counted": kernel.by_warps,
        "total": work(&kernel.total), "lines": lines.collect::<Vec<_>>(),
    })
}

/// The fields of both objects.
fn joined(mut a: Value, b: Value) -> Value {
    if let (Value::Object(a), Value::Object(b)) = (&mut a, b) {
        a.extend(b);
    }
    a
}

fn work(work: &Work) -> Value {
    let Traffic {
        global,
        shared,
        atomics,
        atomics_waiting,
        most_on_one,
        ..
    } = work.traffic;
    let sectors = (global.requests > 0).then(|| {
        json!({
            "requests": global.requests, "sectors": global.units, "least_sectors": global.least,
            "sectors_per_request": per_request(&global, global.units),
            "least_sectors_per_request": per_request(&global, global.least),
        })
    });
    let passes = (shared.requests > 0).then(|| {
        json!({
            "requests": shared.requests, "passes": shared.units, "least_passes": shared.least,
            "passes_per_request": per_request(&shared, shared.units),
            "bank_conflicts": shared.units - shared.least,
        })
    });
    let meeting = (atomics > 0).then(
        || json!({"threads": atomics, "waiting": atomics_waiting, "most_on_one": most_on_one}),
    );
    json!({
        "thread_instructions": work.thread_instructions, "warp_instructions": work.warp_instructions,
        "mean_active_lanes": work.mean_active_lanes(), "bytes": work.bytes, "barriers": work.barriers,
        "global": sectors, "shared": passes, "atomics": meeting,
    })
}

fn per_request(served: &Served, n: u64) -> f64 {
    n as f64 / served.requests.max(1) as f64
}

const HEAD: [&str; 10] = [
    "line", "threads", "warps", "lanes", "bytes", "sectors", "(least)", "passes", "atomics",
    "barriers",
];

/// Tables, one for each kernel.
pub(super) fn text(kernels: &[KernelProfile]) -> String {
    let mut out = String::new();
    for kernel in kernels {
        let KernelProfile {
            name,
            file,
            ctas,
            sampled_ctas,
            ..
        } = kernel;
        let launches = match kernel.launches {
            1 => "1 launch".to_owned(),
            n => format!("{n} launches"),
        };
        let (name, file) = (ptxjit::escape(name), ptxjit::escape(file));
        let ctas = match ctas {
            1 => "1 CTA".to_owned(),
            n => format!("{n} CTAs"),
        };
        out += &format!(
            "kernel `{name}` of {file}: {launches}, {ctas}, {sampled_ctas} of them for memory\n"
        );
        if !kernel.by_warps {
            out += "note: its gangs are no warps, so what warps do is not known\n";
        }
        let mut rows = vec![HEAD.map(str::to_owned)];
        rows.extend(runs(&kernel.lines).iter().map(line_row));
        rows.push(row("all".to_owned(), &kernel.total));
        out += &table(&rows);
        out += "\n";
    }
    if !kernels.is_empty() {
        out += "threads, warps: instructions executed; lanes: active ones of 32, in the mean; sectors of 32 bytes and passes\n\
                over 32 banks for each request of a warp; atomics: of threads, and how many waited for another at one address\n";
    }
    out
}

/// Lines, and their work.
struct Run<'a> {
    file: &'a str,
    first: u32,
    last: u32,
    work: Work,
}

/// Lines that follow each other, neither access memory nor wait and have the same lanes are one:
/// PTX without `.loc` has many such.
fn runs(lines: &[LineProfile]) -> Vec<Run<'_>> {
    let is_plain = |work: &Work| work.traffic == Traffic::default() && work.barriers == 0;
    let mut runs: Vec<Run<'_>> = Vec::new();
    for line in lines {
        if let Some(run) = runs.last_mut()
            && run.file == line.file
            && run.last + 1 == line.line
            && is_plain(&run.work)
            && is_plain(&line.work)
            && run.work.mean_active_lanes() == line.work.mean_active_lanes()
            && line.ptx == [line.line]
        {
            run.last = line.line;
            run.work.add(&line.work);
            continue;
        }
        runs.push(Run {
            file: &line.file,
            first: line.line,
            last: line.line,
            work: line.work,
        });
    }
    runs
}

fn line_row(run: &Run<'_>) -> [String; 10] {
    let file = run.file.rsplit('/').next().unwrap_or_default();
    let lines = match run.first == run.last {
        true => run.first.to_string(),
        false => format!("{}-{}", run.first, run.last),
    };
    row(format!("{}:{lines}", ptxjit::escape(file)), &run.work)
}

fn row(place: String, work: &Work) -> [String; 10] {
    let Traffic { global, shared, .. } = work.traffic;
    let each = |served: &Served, n: u64| match served.requests {
        0 => String::new(),
        _ => format!("{:.2}", per_request(served, n)),
    };
    let unless_none = |n: u64| match n {
        0 => String::new(),
        n => short(n),
    };
    let atomics = match (work.traffic.atomics, work.traffic.atomics_waiting) {
        (0, _) => String::new(),
        (all, waiting) => format!("{} ({})", short(all), short(waiting)),
    };
    let lanes = work.mean_active_lanes();
    [
        place,
        short(work.thread_instructions),
        short(work.warp_instructions),
        lanes.map_or(String::new(), |lanes| format!("{lanes:.1}")),
        unless_none(work.bytes),
        each(&global, global.units),
        each(&global, global.least),
        each(&shared, shared.units),
        atomics,
        unless_none(work.barriers),
    ]
}

/// A number in six characters or less.
fn short(n: u64) -> String {
    match n {
        0..=99_999 => n.to_string(),
        100_000..=9_999_999 => format!("{:.1}k", n as f64 / 1e3),
        10_000_000..=9_999_999_999 => format!("{:.1}M", n as f64 / 1e6),
        _ => format!("{:.1}G", n as f64 / 1e9),
    }
}

/// Rows with columns of equal width, the first to the left. Columns of which only the head is there
/// are left out.
fn table(rows: &[[String; 10]]) -> String {
    let is_used = |column: &usize| rows.iter().skip(1).any(|row| !row[*column].is_empty());
    let columns: Vec<usize> = (0..HEAD.len()).filter(is_used).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = columns.iter().map(|&it| width(it).unwrap_or(0)).collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (&column, &width) in columns.iter().zip(&widths) {
            line += &match column {
                0 => format!("  {:<width$}", row[column]),
                _ => format!("  {:>width$}", row[column]),
            };
        }
        out += line.trim_end();
        out += "\n";
    }
    out
}
