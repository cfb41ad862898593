//! `--explore N`: the launches under many schedules, from equal buffers.

use ptxjit::sanitize::{Finding, FindingKind, Object, Severity};
use ptxjit::{Options, Schedule};

use crate::dtype::Number;
use crate::plan::Plan;
use crate::session::{self, Failure, FailureKind, Session};

/// The schedules that are tried: the plain ones, then those of Burckhardt et al. with depths 1 to
/// 3.
pub fn schedules(n: u32) -> Vec<Schedule> {
    let plain = [
        Schedule::Deterministic,
        Schedule::RoundRobin,
        Schedule::Random(1),
        Schedule::Adversarial,
    ];
    let pct = (1..).flat_map(|seed| (1..=3).map(move |depth| Schedule::Pct { seed, depth }));
    plain.into_iter().chain(pct).take(n as usize).collect()
}

/// What a run left in the buffers.
struct Results {
    schedule: Schedule,
    buffers: Vec<Vec<u8>>,
}

/// Runs the launches under so many schedules and gathers what sanitizers find. Results that depend
/// on the schedule are a finding, too.
pub fn run(plan: &Plan, options: &Options, n: u32) -> Result<Vec<Finding>, Failure> {
    let mut all: Vec<Finding> = Vec::new();
    let mut first: Option<Results> = None;
    for schedule in schedules(n.max(1)) {
        let device = plan.device()?;
        let (mut options, _output) = session::capture(options.clone());
        options.schedule = schedule;
        // With one schedule there is nothing to compare.
        options.keep_writes = n > 1;
        let session = Session::new(&device, plan, &options)?;
        let ended_well = launch_all(&session)?;
        let mut found = session.findings(ended_well);
        if ended_well {
            let buffers = (0..plan.buffers.len()).map(|idx| session.read(idx));
            let results = Results {
                schedule,
                buffers: buffers.collect::<Result<_, _>>()?,
            };
            match &first {
                None => first = Some(results),
                Some(first) => found.extend(differences(plan, &session, first, &results)),
            }
        }
        merge(&mut all, found);
    }
    Ok(all)
}

/// Whether all launches ended well. A failure that is no finding is an error.
fn launch_all(session: &Session<'_>) -> Result<bool, Failure> {
    for idx in 0..session.n_launches() {
        match session.launch(idx) {
            Ok(_) => {}
            Err(failure)
                if failure.kind == FailureKind::Failed && !session.findings(false).is_empty() =>
            {
                return Ok(false);
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(true)
}

/// Adds findings that are new; of others the worst counts.
fn merge(all: &mut Vec<Finding>, found: Vec<Finding>) {
    for finding in found {
        match all.iter_mut().find(|other| other.key() == finding.key()) {
            Some(other) if other.severity < finding.severity => *other = finding,
            Some(_) => {}
            None => all.push(finding),
        }
    }
}

/// A finding for each buffer that has other bits than under the first schedule.
fn differences(plan: &Plan, session: &Session<'_>, first: &Results, now: &Results) -> Vec<Finding> {
    let pairs = first.buffers.iter().zip(&now.buffers).enumerate();
    pairs
        .filter_map(|(idx, (a, b))| {
            let dtype = plan.buffers[idx].dtype;
            let pairs = a.chunks(dtype.size()).zip(b.chunks(dtype.size()));
            let differing: Vec<usize> = pairs
                .enumerate()
                .filter(|(_, (a, b))| a != b)
                .map(|(element, _)| element)
                .collect();
            let &element = differing.first()?;
            let at = element * dtype.size();
            let value = |bytes: &[u8]| show(dtype.decode(&bytes[at..at + dtype.size()]));
            let name = ptxjit::escape(&plan.buffers[idx].name).into_owned();
            let message = format!(
                "element {element} of buffer `{name}` is {} under schedule {} and {} under {}",
                value(a),
                first.schedule,
                value(b),
                now.schedule,
            );
            let object = Object {
                name,
                offset: at as i64,
                size: a.len() as u64,
            };
            Some(difference(
                session,
                idx,
                (&differing, dtype.size()),
                message,
                object,
            ))
        })
        .map(|mut finding| {
            finding.schedule = now.schedule.to_string();
            finding
        })
        .collect()
}

/// The finding about a buffer of which these elements differ.
fn difference(
    session: &Session<'_>,
    buffer: usize,
    (elements, size): (&[usize], usize),
    message: String,
    object: Object,
) -> Finding {
    let address = |element: usize| session.address(buffer) + (element * size) as u64;
    let write = |element: usize| session.last_write(address(element));
    // Sums of floating-point numbers depend on their order.
    let are_sums = elements
        .iter()
        .all(|&element| write(element).is_some_and(|(_, _, is_float_atomic)| is_float_atomic));
    let last = write(elements[0]);
    let first_kernel = session.kernels.first().map_or("", String::as_str);
    let kernel = last.as_ref().map_or(first_kernel, |(kernel, ..)| kernel);
    let severity = match are_sums {
        true => Severity::Warning,
        false => Severity::Error,
    };
    let kind = FindingKind::ScheduleDependent;
    let mut finding = Finding::new(kind, severity, kernel, message);
    finding.address = Some(address(elements[0]));
    finding.bytes = Some(size as u64);
    finding.count = elements.len() as u64;
    finding.object = Some(object);
    finding.accesses = last.into_iter().map(|(_, access, _)| access).collect();
    finding
}

/// Shortest text that reads back as the same number.
fn show(number: Number) -> String {
    match number {
        Number::Int(value) => value.to_string(),
        Number::Float(value) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_ones_first() {
        let names: Vec<String> = schedules(8).iter().map(Schedule::to_string).collect();
        let wanted =
            "deterministic roundrobin random:1 adversarial pct:1:1 pct:1:2 pct:1:3 pct:2:1";
        assert_eq!(names.join(" "), wanted);
    }
}
