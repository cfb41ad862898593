//! Results as a table and as JSON.

use serde_json::{Value, json};

use crate::cases::{Case, Work};
use crate::race::{Outcome, median};
use crate::roofline::Roofline;

/// Titles, for [`row`].
pub(crate) fn header() -> String {
    let title = format!(
        "{:<16} {:>4} {:>9} {:>10} {:>10} {:>14} {:>5} {:>6} {:>6}  results",
        "kernel", "gang", "first ms", "ptxjit ms", "native ms", "rate", "roof", "ratio", "cpu"
    );
    format!("{title}\n{}", "-".repeat(title.len()))
}

/// A line of the table.
pub(crate) fn row(case: &Case, outcome: &Outcome, roofline: Option<&Roofline>) -> String {
    let native = outcome
        .native
        .as_ref()
        .and_then(|times| median(&times.wall));
    let (units, unit) = match case.work {
        Work::Bytes(bytes) => (bytes, "B/s"),
        Work::Ops(ops) => (ops, "op/s"),
    };
    let rate = median(&outcome.ptxjit.wall).map(|time| units as f64 / time);
    let same = match (&outcome.mismatch, &outcome.native) {
        (Some(message), _) => message,
        (None, Some(_)) => "same",
        (None, None) => "not compared",
    };
    format!(
        "{:<16} {:>4} {:>9.1} {:>10} {:>10} {:>14} {:>5} {:>6} {:>6}  {same}",
        case.name,
        outcome.gang,
        outcome.first.as_secs_f64() * 1e3,
        cell(median(&outcome.ptxjit.wall).map(|time| time * 1e3)),
        cell(native.map(|time| time * 1e3)),
        rate.map_or_else(String::new, |rate| prefixed(rate, unit)),
        rate.zip(roofline)
            .map_or_else(String::new, |(rate, roofline)| {
                format!("{:.0}%", 100.0 * roofline.share(case.work, rate))
            }),
        cell(outcome.ratio(|times| &times.wall)),
        cell(outcome.ratio(|times| &times.cpu)),
    )
}

fn cell(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| format!("{value:.2}"))
}

/// A rate in billions, or in less if it is far below.
fn prefixed(rate: f64, unit: &str) -> String {
    if rate >= 1e8 {
        format!("{:.2} G{unit}", rate * 1e-9)
    } else if rate >= 1e5 {
        format!("{:.2} M{unit}", rate * 1e-6)
    } else {
        format!("{:.2} k{unit}", rate * 1e-3)
    }
}

/// The same and each round's times, for programs.
pub(crate) fn json(case: &Case, outcome: &Outcome) -> Value {
    let (bytes, ops) = match case.work {
        Work::Bytes(bytes) => (Some(bytes), None),
        Work::Ops(ops) => (None, Some(ops)),
    };
    json!({
        "kernel": case.name,
        "gang": outcome.gang,
        "first_s": outcome.first.as_secs_f64(),
        "bytes": bytes,
        "ops": ops,
        "ptxjit_s": outcome.ptxjit.wall,
        "ptxjit_cpu_s": outcome.ptxjit.cpu,
        "native_s": outcome.native.as_ref().map(|times| &times.wall),
        "native_cpu_s": outcome.native.as_ref().map(|times| &times.cpu),
        "ratio": outcome.ratio(|times| &times.wall),
        "cpu_ratio": outcome.ratio(|times| &times.cpu),
        "mismatch": outcome.mismatch,
    })
}
