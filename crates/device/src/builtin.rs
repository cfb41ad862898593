//! Functions of the device runtime that PTX calls by name.

use ptxjit_ir::Builtin;

use crate::printf::{self, Source};
use crate::{Fault, Thread};

/// Longest string that is read for a kernel.
const MAX_STRING: u64 = 1 << 20;

/// Calls a function with as many operands and results as it is defined with.
pub(crate) fn call(
    builtin: Builtin,
    thread: &mut dyn Thread,
    args: &[u64],
    results: &mut [u64],
) -> Result<(), Fault> {
    match builtin {
        Builtin::Vprintf => results[0] = vprintf(thread, args[0], args[1])?,
        Builtin::Malloc => results[0] = thread.malloc(args[0]),
        Builtin::Free if args[0] == 0 => {}
        Builtin::Free => thread.free(args[0]).map_err(Fault::refused)?,
        Builtin::AssertFail => return Err(assert_fail(thread, args)),
        // Several threads may set the value, and one of theirs counts.
        Builtin::SetConditional => drop(thread.update(args[0], 4, &mut |_| args[1])?),
    }
    Ok(())
}

/// `vprintf(format, args)`: the number of arguments, as CUDA returns.
fn vprintf(thread: &mut dyn Thread, format: u64, args: u64) -> Result<u64, Fault> {
    let mut arguments = Arguments { thread, args };
    let format = arguments.string(format)?;
    let printed = printf::format(&format, &mut arguments)?;
    thread.print(&printed.text);
    Ok(printed.n_args.into())
}

/// `__assertfail(message, file, line, function, charsize)`: the line that CUDA prints.
fn assert_fail(thread: &mut dyn Thread, args: &[u64]) -> Fault {
    let mut text =
        |addr| String::from_utf8_lossy(&string(thread, addr).unwrap_or_default()).into_owned();
    let (message, file, function) = (text(args[0]), text(args[1]), text(args[3]));
    Fault::Assert {
        message: printf::assert_message(
            (&file, args[2] as u32, &function),
            thread.ctaid(),
            thread.tid(),
            &message,
        ),
    }
}

/// Where `vprintf` finds its arguments.
struct Arguments<'a> {
    thread: &'a mut dyn Thread,
    args: u64,
}

impl Source for Arguments<'_> {
    type Error = Fault;

    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), Fault> {
        self.thread.read(self.args.wrapping_add(offset), bytes)
    }

    fn string(&mut self, addr: u64) -> Result<Vec<u8>, Fault> {
        string(self.thread, addr)
    }
}

/// A string that ends with a zero byte, without that byte.
fn string(thread: &mut dyn Thread, addr: u64) -> Result<Vec<u8>, Fault> {
    let mut text = Vec::new();
    for offset in 0..MAX_STRING {
        let mut byte = [0];
        thread.read(addr.wrapping_add(offset), &mut byte)?;
        match byte[0] {
            0 => return Ok(text),
            byte => text.push(byte),
        }
    }
    Err(Fault::BadAddress {
        addr,
        size: MAX_STRING,
        why: "string without end".to_owned(),
    })
}
