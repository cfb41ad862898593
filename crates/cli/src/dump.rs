//! `ptxjit dump`.

use std::process::ExitCode;

use ptxjit::Device;

use crate::args::DumpArgs;
use crate::input;
use crate::session::Failure;
use crate::term;

pub(crate) fn run(args: &DumpArgs) -> ExitCode {
    match text(args) {
        Ok(text) => {
            term::out(&text);
            ExitCode::SUCCESS
        }
        Err(failure) => {
            term::err(&failure.text);
            ExitCode::from(failure.exit_code())
        }
    }
}

fn text(args: &DumpArgs) -> Result<String, Failure> {
    if args.after == "help" {
        return Ok(ptxjit::dump_stages().join("\n") + "\n");
    }
    let device = Device::new()?;
    let module = input::load(&device, &args.files)?;
    let kernel = match &args.kernel {
        Some(name) => module.kernel(name)?,
        None => module.only_kernel()?,
    };
    let mut options = ptxjit::Options::default();
    options.gang = args.gang;
    if let Some(checks) = &args.sanitize {
        options.sanitize = checks.0;
    }
    options.passes = args.passes.clone().unwrap_or_default();
    Ok(kernel.dump(&args.after, args.block.0, &options)?)
}
