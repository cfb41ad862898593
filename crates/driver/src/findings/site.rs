//! Where a program calls the driver: the function, and the lines of the program that lead there, as
//! far as it has debug information.

use std::backtrace::Backtrace;
use std::cell::Cell;
use std::sync::Arc;

use ptxjit::sanitize::{AccessOp, FoundAccess, SourcePlace};

thread_local! {
    /// The function that the program has called.
    static CALL: Cell<&'static str> = const { Cell::new("") };
}

/// Most lines of a program that are told of a call.
const MOST: usize = 8;

/// Runs a function of the interface under its name.
pub fn calling<R>(name: &'static str, body: impl FnOnce() -> R) -> R {
    let before = CALL.replace(name);
    let result = body();
    CALL.set(before);
    result
}

/// One call of the program.
#[derive(Debug)]
pub(crate) struct Site {
    call: &'static str,
    /// Looked at when there is something to tell, as that takes long.
    trace: Backtrace,
}

impl Site {
    /// The call that is under way, if anything is to be told of calls.
    pub(crate) fn here() -> Option<Arc<Site>> {
        super::watches_program().then(|| {
            // After the main thread's end there may be no variables of threads.
            let call = CALL.try_with(Cell::get).unwrap_or_default();
            let trace = Backtrace::force_capture();
            Arc::new(Site { call, trace })
        })
    }

    /// The name of the function.
    pub(super) fn call(&self) -> &'static str {
        match self.call {
            "" => "the driver",
            call => call,
        }
    }

    /// The call as a finding has it.
    pub(super) fn access(&self, op: AccessOp) -> FoundAccess {
        let stack = stack(&self.trace.to_string(), self.call);
        FoundAccess::by_program(op, self.call(), stack)
    }
}

/// The lines of a printed backtrace that called the function, the innermost first.
fn stack(trace: &str, call: &str) -> Vec<SourcePlace> {
    let mut frames: Vec<(&str, Option<SourcePlace>)> = Vec::new();
    for line in trace.lines().map(str::trim) {
        match (line.strip_prefix("at "), frames.last_mut()) {
            (Some(at), Some((_, place))) => *place = parse(at),
            (Some(_), None) => {}
            (None, _) => {
                let name = line.split_once(": ").map_or(line, |(_, name)| name);
                frames.push((name, None));
            }
        }
    }
    let Some(own) = frames.iter().rposition(|&(name, _)| name == call) else {
        return Vec::new();
    };
    // The runtime's functions lie between the driver and the program.
    let callers = frames[own + 1..].iter();
    let callers = callers.skip_while(|(name, _)| is_of_cuda(name));
    // Behind `main` there is the C library, and in other threads what starts them.
    let is_start = |name: &str| name.starts_with("__libc_start") || name == "start_thread";
    callers
        .take_while(|(name, _)| !is_start(name))
        .filter_map(|(_, place)| place.clone())
        .take(MOST)
        .collect()
}

/// `cudaFree`, `cuMemFree_v2`, or code of ours.
fn is_of_cuda(name: &str) -> bool {
    let after = |prefix| {
        name.strip_prefix(prefix)
            .and_then(|rest| rest.chars().next())
    };
    let is_upper = |prefix| after(prefix).is_some_and(char::is_uppercase);
    is_upper("cu") || is_upper("cuda") || name.starts_with("cudart") || name.contains("ptxjit_")
}

/// `FILE:LINE:COLUMN`; compilers that do not tell columns say 0.
fn parse(at: &str) -> Option<SourcePlace> {
    let (rest, column) = at.rsplit_once(':')?;
    let (file, line) = rest.rsplit_once(':')?;
    Some(SourcePlace {
        file: file.trim_start_matches("./").to_owned(),
        line: line.parse().ok()?,
        column: column.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_behind_the_call_are_the_programs() {
        let trace = "   0: ptxjit_driver::findings::site::Site::here\n             at ./crates/driver/a.rs:1:2\n\
                     1: cuMemFree_v2\n             at ./crates/cuda/src/call.rs:3:4\n\
                     2: cudart::memory::free\n             at ./crates/cudart/m.rs:5:6\n\
                     3: cudaFree\n\
                     4: give_back\n             at /src/app.c:12:5\n\
                     5: no_debug_information\n\
                     6: main\n             at ./src/app.c:20:0\n\
                     7: __libc_start_main\n             at ../csu/libc-start.c:360:3\n";
        let at = |file: &str, line, column| SourcePlace {
            file: file.to_owned(),
            line,
            column,
        };
        let wanted = [at("/src/app.c", 12, 5), at("src/app.c", 20, 0)];
        assert_eq!(stack(trace, "cuMemFree_v2"), wanted);
        assert_eq!(stack(trace, "cuMemAlloc_v2"), []);
        assert_eq!(stack("disabled backtrace", ""), []);
    }
}
