//! Commands: what streams run and graphs are made of.
//!
//! A command holds everything it needs, as arguments are copied when a call is made. Running one
//! never panics on what a client has passed; a failure goes to the context's health. The
//! descriptions that commands hold (a kernel with its arguments, a copy, a memset, a function of
//! the program) are those that nodes of graphs hold as well; what cannot be described so cannot be
//! captured.

use std::sync::Arc;

use crate::call::HostCall;
use crate::error::{Failure, Result};
use crate::event::Stamp;
use crate::graph::Part;
use crate::launch::KernelCommand;
use crate::memory::copy::CopyCommand;
use crate::memory::fill::FillCommand;
use crate::stream::Stream;
use crate::types::CUresult;

/// A function of the client; it gets the state of the stream.
pub(crate) type HostFunction = Box<dyn FnOnce(CUresult) + Send>;

/// Work of the driver itself.
pub(crate) type Work = Box<dyn FnOnce() -> std::result::Result<(), Failure> + Send>;

/// One thing that a stream does.
pub(crate) enum Command {
    /// Waits for what it depends on.
    Nothing,
    /// Runs a kernel.
    Kernel(Box<KernelCommand>),
    /// Copies between host, devices and arrays.
    Copy(CopyCommand),
    /// Sets memory.
    Fill(FillCommand),
    /// Notes the time for an event.
    Stamp(Arc<Stamp>),
    /// Calls a function of the client with the stream's state, on the stream's own thread, after a
    /// fault as well.
    Callback(HostFunction),
    /// Calls a function of the client with its argument, on the stream's own thread.
    Call(HostCall),
    /// Runs some nodes of a graph.
    Graph(Part),
    /// Anything else.
    Work(Work),
}

impl Command {
    /// Whether only the stream's own thread may run this, since the program may do anything in it.
    pub(crate) fn is_for_own_thread(&self) -> bool {
        match self {
            Command::Callback(_) | Command::Call(_) => true,
            Command::Graph(part) => part.has_calls(),
            _ => false,
        }
    }

    /// Runs the command, unless the context has failed before.
    pub(crate) fn run(self, stream: &Stream) -> std::result::Result<(), Failure> {
        let health = stream.health.check();
        match self {
            Command::Nothing => {}
            Command::Stamp(stamp) => stamp.set(),
            Command::Callback(function) => function(health.err().unwrap_or(CUresult::SUCCESS)),
            _ if health.is_err() => {}
            Command::Kernel(kernel) => kernel.run()?,
            Command::Copy(copy) => copy.run().map_err(vanished)?,
            Command::Fill(fill) => fill.run().map_err(vanished)?,
            Command::Call(call) => call.run(),
            Command::Graph(part) => part.run(stream)?,
            Command::Work(work) => work()?,
        }
        Ok(())
    }
}

/// Memory was there when a call was made and is gone when a stream gets to the command.
pub(crate) fn vanished(_: CUresult) -> Failure {
    Failure::sticky(
        CUresult::ILLEGAL_ADDRESS,
        "error: a copy or memset met memory that was freed or unmapped after the call",
    )
}

/// A failure of the engine as the result of a call.
pub(crate) fn checked<T>(result: std::result::Result<T, ptxjit::Error>) -> Result<T> {
    result.map_err(|err| crate::error::code_of(&err))
}
