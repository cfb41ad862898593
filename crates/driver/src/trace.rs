//! The trace of calls that `PTXJIT_TRACE=FILE` asks for: a line per call with its arguments, result
//! and time.

use std::fs::File;
use std::io::Write;
use std::sync::OnceLock;
use std::time::Duration;

use parking_lot::Mutex;
use ptxjit_persona::Config;

use crate::types::CUresult;

/// The file, if there is to be a trace. The environment is read once, at the first call, which may
/// be before `cuInit`.
fn file() -> Option<&'static Mutex<File>> {
    static FILE: OnceLock<Option<Mutex<File>>> = OnceLock::new();
    let open = || {
        let path = Config::get().trace.as_ref()?;
        let file = File::options().create(true).append(true).open(path);
        if let Err(err) = &file {
            let path = path.display();
            let _ = writeln!(
                std::io::stderr(),
                "ptxjit: PTXJIT_TRACE: cannot open `{path}`: {err}"
            );
        }
        file.ok().map(Mutex::new)
    };
    FILE.get_or_init(open).as_ref()
}

/// Whether calls are traced.
pub fn is_on() -> bool {
    file().is_some()
}

/// Notes a call.
pub fn call(name: &str, arguments: &str, result: CUresult, time: Duration) {
    let Some(file) = file() else { return };
    let result = result.name().map_or_else(
        || result.0.to_string(),
        |name| name.to_string_lossy().into_owned(),
    );
    let line = format!(
        "{name}({arguments}) = {result} {:.1} us\n",
        time.as_secs_f64() * 1e6
    );
    // One write per line: other processes may share the file.
    let _ = file.lock().write_all(line.as_bytes());
}
