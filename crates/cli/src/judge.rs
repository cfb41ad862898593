//! Running one test and judging it.

use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use ptxjit::Options;
use ptxjit::sanitize::{Finding, Severity};

use crate::case::{Case, CaseFile};
use crate::compare::{self, Tolerance};
use crate::discover::Test;
use crate::explore;
use crate::npy::Array;
use crate::paths::CaseDir;
use crate::plan::Plan;
use crate::session::{self, Failure, FailureKind, Session};

/// How a test ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Passed,
    Failed(String),
    Unsupported(String),
}

/// What a test may do after its launches were told to stop before it is given up.
const GRACE: Duration = Duration::from_secs(5);

/// Stack of a test's thread. Deeply nested PTX takes some, and memory is only used when touched.
const STACK_SIZE: usize = 64 << 20;

/// Runs `test` on a thread of its own: a panic or a hang there is that test's failure and no
/// other test's.
pub fn isolated(test: &Test, label: &str, options: &Options, limit: Duration) -> Verdict {
    let (sender, receiver) = mpsc::channel();
    let thread = {
        let (test, label, mut options) = (test.clone(), label.to_owned(), options.clone());
        options.timeout = Some(limit);
        let work = move || {
            // The receiver may be gone if this took too long.
            let _ = sender.send(run(&test, &label, &options));
        };
        std::thread::Builder::new()
            .name("test".to_owned())
            .stack_size(STACK_SIZE)
            .spawn(work)
    };
    let thread = match thread {
        Ok(thread) => thread,
        Err(err) => return Verdict::Failed(format!("cannot start a thread: {err}")),
    };
    match receiver.recv_timeout(limit.saturating_add(GRACE)) {
        Ok(verdict) => verdict,
        Err(mpsc::RecvTimeoutError::Timeout) => Verdict::Failed(format!(
            "no result after {:.1} s; the test was given up",
            limit.as_secs_f64()
        )),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            let payload = thread.join().expect_err("the thread ended without sending");
            Verdict::Failed(format!("internal error: {}", panic_text(&*payload)))
        }
    }
}

fn panic_text(payload: &dyn std::any::Any) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("panic")
}

/// Runs `test` on this thread.
pub fn run(test: &Test, label: &str, options: &Options) -> Verdict {
    match checked(test, label, options) {
        Ok(problems) if problems.is_empty() => Verdict::Passed,
        Ok(problems) => Verdict::Failed(problems.join("\n")),
        Err(failure) => match failure.kind {
            FailureKind::Unsupported => Verdict::Unsupported(failure.text),
            FailureKind::Failed | FailureKind::Wrong => Verdict::Failed(failure.text),
        },
    }
}

/// What did not come out as expected.
fn checked(test: &Test, label: &str, options: &Options) -> Result<Vec<String>, Failure> {
    if let Some(broken) = &test.broken {
        return Err(Failure::wrong(broken));
    }
    let file = CaseFile::read(&test.case_file, test.outside)?;
    let case = file
        .case(label)
        .ok_or_else(|| anyhow!("no case `{label}`"))?;
    let plan = Plan::from_case(&file, case, &test.files)?;
    if let (Some(expected), true) = (&file.expect, options.sanitize.any()) {
        let n = expected.explore.unwrap_or(1);
        let findings = explore::run(&plan, options, n)?;
        return Ok(expected.judge(&findings));
    }
    let device = plan.device()?;
    let (options, output) = session::capture(options.clone());
    let session = Session::new(&device, &plan, &options)?;
    let mut problems = Vec::new();
    let mut messages = String::new();
    let mut ended_well = true;
    for (idx, launch) in plan.launches.iter().enumerate() {
        let kernel = ptxjit::escape(&session.kernels[idx]);
        match (session.launch(idx), &launch.expect_error) {
            (Ok(_), None) => {}
            (Ok(_), Some(name)) => problems.push(format!(
                "launch {idx} of `{kernel}` succeeded, expected {}",
                ptxjit::escape(name)
            )),
            (Err(failure), Some(name)) => {
                if !same_error(failure.cuda_name, name) {
                    let got = failure.cuda_name;
                    problems.push(format!(
                        "launch {idx} ended with {got}, expected {}\n{}",
                        ptxjit::escape(name),
                        failure.text
                    ));
                }
                messages.push_str(&failure.text);
                ended_well = false;
            }
            (Err(failure), None) => return Err(failure),
        }
    }
    // A launch that was to fail has done so, for a reason that is a finding, too.
    if ended_well {
        let findings = session.findings(true);
        let is_error = |finding: &&Finding| finding.severity == Severity::Error;
        problems.extend(findings.iter().filter(is_error).map(Finding::render));
    }
    problems.extend(expectations(&file.dir, case, &plan, &session)?);
    let printed = output.lock().expect("no holder panics").clone();
    if let Some(want) = &case.stdout {
        problems.extend(compare::stdout(&String::from_utf8_lossy(&printed), want).err());
    }
    for text in case
        .stderr_contains
        .iter()
        .filter(|&text| !messages.contains(text))
    {
        problems.push(format!(
            "the error messages do not contain {text:?}:\n{messages}"
        ));
    }
    Ok(problems)
}

fn expectations(
    dir: &CaseDir,
    case: &Case,
    plan: &Plan,
    session: &Session<'_>,
) -> Result<Vec<String>, Failure> {
    let mut problems = Vec::new();
    for expect in case.expect.iter().flatten() {
        let want = Array::read(&dir.find(&expect.npy)?).context("expectation")?;
        let idx = plan.buffer_named(case, &expect.buffer)?;
        let tolerance = Tolerance {
            rtol: expect.rtol,
            atol: expect.atol,
            sorted: expect.sorted,
            max_mismatch: expect.max_mismatch,
        };
        let (name, dtype) = (&plan.buffers[idx].name, plan.buffers[idx].dtype);
        problems.extend(compare::buffers(name, dtype, &session.read(idx)?, &want, tolerance).err());
    }
    Ok(problems)
}

/// Whether `name`, in the driver's or the runtime's spelling, is `cuda_name`.
fn same_error(cuda_name: &str, name: &str) -> bool {
    let plain = |name: &str| {
        let name = name
            .strip_prefix("CUDA_ERROR_")
            .or_else(|| name.strip_prefix("cudaError"))
            .unwrap_or(name);
        name.replace('_', "").to_ascii_lowercase()
    };
    // The runtime's names for two of the driver's errors are built differently.
    let runtime = match plain(name).as_str() {
        "launchfailure" => "launchfailed".to_owned(),
        "memoryallocation" => "outofmemory".to_owned(),
        other => other.to_owned(),
    };
    plain(cuda_name) == runtime
}

#[cfg(test)]
mod tests {
    use super::same_error;

    #[test]
    fn error_names() {
        assert!(same_error("CUDA_ERROR_ASSERT", "CUDA_ERROR_ASSERT"));
        assert!(same_error(
            "CUDA_ERROR_ILLEGAL_ADDRESS",
            "cudaErrorIllegalAddress"
        ));
        assert!(same_error(
            "CUDA_ERROR_LAUNCH_FAILED",
            "cudaErrorLaunchFailure"
        ));
        assert!(!same_error("CUDA_ERROR_ASSERT", "CUDA_ERROR_LAUNCH_FAILED"));
    }
}
