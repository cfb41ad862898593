//! Streams that wait for values in memory, and write them.
//!
//! A wait polls: memory that kernels or the program write cannot tell of it. The pauses grow up to
//! [`MAX_PAUSE`], and
//! `PTXJIT_TIMEOUT` bounds a wait as it bounds a launch.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use ptxjit::sanitize::AccessOp;
use ptxjit_persona::Config;

use crate::capture;
use crate::command::Command;
use crate::context::Health;
use crate::error::{Failure, Result};
use crate::graph::work::{MemOpNode, Work};
use crate::host;
use crate::memory;
use crate::types::{
    CUdeviceptr, CUresult, CUstream, CUstreamBatchMemOpParams, CUstreamBatchMemOpType,
    CUstreamMemOpValueParams, CUstreamMemoryBarrier_flags, CUstreamWaitValue_flags,
    CUstreamWriteValue_flags, Union,
};

/// Looks at a value before the first pause.
const N_SPINS: u32 = 1000;
const MIN_PAUSE: Duration = Duration::from_micros(1);
const MAX_PAUSE: Duration = Duration::from_micros(200);

/// Operations of one batch.
const MAX_OPS: usize = 256;

/// Bytes of a value.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Width {
    Four,
    Eight,
}

impl Width {
    fn bytes(self) -> u64 {
        match self {
            Width::Four => 4,
            Width::Eight => 8,
        }
    }
}

/// What a value in memory must be.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Condition {
    GreaterOrEqual,
    Equal,
    And,
    Nor,
}

/// One operation on memory.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Op {
    Wait {
        address: u64,
        width: Width,
        value: u64,
        condition: Condition,
    },
    Write {
        address: u64,
        width: Width,
        value: u64,
    },
    Barrier,
}

/// Operations that run in order.
#[derive(Clone, Debug)]
pub(crate) struct MemOpCommand {
    ops: Vec<Op>,
}

impl MemOpCommand {
    /// The operations of `cuStreamBatchMemOp`, checked.
    pub(crate) fn new(params: &[CUstreamBatchMemOpParams]) -> Result<MemOpCommand> {
        if params.len() > MAX_OPS {
            return Err(CUresult::INVALID_VALUE);
        }
        let ops = params.iter().map(Op::new).collect::<Result<_>>()?;
        Ok(MemOpCommand { ops })
    }

    /// Runs the operations. A wait ends early if the context fails in the meantime.
    pub(crate) fn run(&self, health: &Health) -> std::result::Result<(), Failure> {
        for op in &self.ops {
            match *op {
                Op::Wait {
                    address,
                    width,
                    value,
                    condition,
                } => wait(
                    address,
                    width,
                    |now| condition.holds(now, value, width),
                    health,
                )?,
                Op::Write {
                    address,
                    width,
                    value,
                } => {
                    let bytes = &value.to_le_bytes()[..width.bytes() as usize];
                    fence(Ordering::SeqCst);
                    host::write_bytes(address, bytes).map_err(gone)?;
                }
                Op::Barrier => fence(Ordering::SeqCst),
            }
        }
        Ok(())
    }
}

impl Condition {
    fn new(flags: u32) -> Result<Condition> {
        let flags = CUstreamWaitValue_flags(flags);
        if flags.contains(CUstreamWaitValue_flags::FLUSH) {
            // Only for devices that can flush remote writes.
            return Err(CUresult::NOT_SUPPORTED);
        }
        match flags {
            CUstreamWaitValue_flags::GEQ => Ok(Condition::GreaterOrEqual),
            CUstreamWaitValue_flags::EQ => Ok(Condition::Equal),
            CUstreamWaitValue_flags::AND => Ok(Condition::And),
            CUstreamWaitValue_flags::NOR => Ok(Condition::Nor),
            _ => Err(CUresult::INVALID_VALUE),
        }
    }

    fn holds(self, now: u64, value: u64, width: Width) -> bool {
        match (self, width) {
            // Cyclic: counters may wrap around.
            (Condition::GreaterOrEqual, Width::Four) => (now.wrapping_sub(value) as i32) >= 0,
            (Condition::GreaterOrEqual, Width::Eight) => (now.wrapping_sub(value) as i64) >= 0,
            (Condition::Equal, _) => now == value,
            (Condition::And, _) => now & value != 0,
            (Condition::Nor, Width::Four) => !(now as u32 | value as u32) != 0,
            (Condition::Nor, Width::Eight) => !(now | value) != 0,
        }
    }
}

impl Op {
    fn new(params: &CUstreamBatchMemOpParams) -> Result<Op> {
        let value = params.value();
        match params.operation() {
            CUstreamBatchMemOpType::WAIT_VALUE_32 => Op::wait(&value, Width::Four),
            CUstreamBatchMemOpType::WAIT_VALUE_64 => Op::wait(&value, Width::Eight),
            CUstreamBatchMemOpType::WRITE_VALUE_32 => Op::write(&value, Width::Four),
            CUstreamBatchMemOpType::WRITE_VALUE_64 => Op::write(&value, Width::Eight),
            CUstreamBatchMemOpType::BARRIER => {
                match CUstreamMemoryBarrier_flags(params.flags().flags) {
                    CUstreamMemoryBarrier_flags::SYS | CUstreamMemoryBarrier_flags::GPU => {
                        Ok(Op::Barrier)
                    }
                    _ => Err(CUresult::INVALID_VALUE),
                }
            }
            CUstreamBatchMemOpType::FLUSH_REMOTE_WRITES
            | CUstreamBatchMemOpType::ATOMIC_REDUCTION => Err(CUresult::NOT_SUPPORTED),
            _ => Err(CUresult::INVALID_VALUE),
        }
    }

    fn wait(params: &CUstreamMemOpValueParams, width: Width) -> Result<Op> {
        Ok(Op::Wait {
            address: checked(params.address, width, AccessOp::Load)?,
            width,
            value: value_of(params, width),
            condition: Condition::new(params.flags)?,
        })
    }

    fn write(params: &CUstreamMemOpValueParams, width: Width) -> Result<Op> {
        match CUstreamWriteValue_flags(params.flags) {
            CUstreamWriteValue_flags::DEFAULT | CUstreamWriteValue_flags::NO_MEMORY_BARRIER => {}
            _ => return Err(CUresult::INVALID_VALUE),
        }
        Ok(Op::Write {
            address: checked(params.address, width, AccessOp::Store)?,
            width,
            value: value_of(params, width),
        })
    }
}

fn value_of(params: &CUstreamMemOpValueParams, width: Width) -> u64 {
    match width {
        Width::Four => u64::from(params.value32()),
        Width::Eight => params.value64(),
    }
}

/// The address of an aligned value in memory that devices can use.
fn checked(address: CUdeviceptr, width: Width, op: AccessOp) -> Result<u64> {
    if !address.is_multiple_of(width.bytes()) {
        return Err(CUresult::INVALID_VALUE);
    }
    memory::check_device_range(address, width.bytes(), op)?;
    Ok(address)
}

fn gone(_: CUresult) -> Failure {
    Failure::sticky(
        CUresult::ILLEGAL_ADDRESS,
        "error: a stream waits for or writes a value in memory that was freed",
    )
}

fn wait(
    address: u64,
    width: Width,
    holds: impl Fn(u64) -> bool,
    health: &Health,
) -> std::result::Result<(), Failure> {
    let read = || -> std::result::Result<u64, Failure> {
        let mut bytes = [0; 8];
        let wanted = &mut bytes[..width.bytes() as usize];
        host::read_bytes(address, wanted).map_err(gone)?;
        Ok(u64::from_le_bytes(bytes))
    };
    for _ in 0..N_SPINS {
        if holds(read()?) {
            fence(Ordering::SeqCst);
            return Ok(());
        }
        std::hint::spin_loop();
    }
    let start = Instant::now();
    let timeout = Config::get().timeout;
    let mut pause = MIN_PAUSE;
    while !holds(read()?) && health.check().is_ok() {
        if timeout.is_some_and(|timeout| start.elapsed() >= timeout) {
            return Err(Failure::sticky(
                CUresult::LAUNCH_TIMEOUT,
                format!("error: a stream has waited too long for a value at {address:#x}"),
            ));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(MAX_PAUSE);
    }
    fence(Ordering::SeqCst);
    Ok(())
}

/// Operations that run in order in a stream, or become a node of the graph that it is captured to.
fn submit(params: &[CUstreamBatchMemOpParams], stream: CUstream) -> Result<()> {
    let stream = super::get(stream)?;
    let command = MemOpCommand::new(params)?;
    if stream.is_capturing() {
        let context = stream.context()?.raw();
        let node = MemOpNode::new(command, context, params.into());
        return capture::add(&stream, || Ok(Work::MemOps(node)));
    }
    let health: Arc<Health> = stream.health.clone();
    let work = Box::new(move || command.run(&health));
    stream.submit(Command::Work(work)).map(|_| ())
}

/// One operation on a value.
fn value_op(
    operation: CUstreamBatchMemOpType,
    address: CUdeviceptr,
    value: u64,
    flags: u32,
) -> CUstreamBatchMemOpParams {
    CUstreamBatchMemOpParams {
        bytes: Union::of(CUstreamMemOpValueParams {
            operation,
            address,
            // Of 32 bits the first half, on hosts that put the low bytes first.
            value: Union::of(value),
            flags,
            alias: 0,
        }),
    }
}

// --- The interface ---

/// `cuStreamWaitValue32` and `cuStreamWaitValue64`.
pub fn wait_value(
    stream: CUstream,
    address: CUdeviceptr,
    value: u64,
    width: Width,
    flags: u32,
) -> Result<()> {
    let operation = match width {
        Width::Four => CUstreamBatchMemOpType::WAIT_VALUE_32,
        Width::Eight => CUstreamBatchMemOpType::WAIT_VALUE_64,
    };
    submit(&[value_op(operation, address, value, flags)], stream)
}

/// `cuStreamWriteValue32` and `cuStreamWriteValue64`.
pub fn write_value(
    stream: CUstream,
    address: CUdeviceptr,
    value: u64,
    width: Width,
    flags: u32,
) -> Result<()> {
    let operation = match width {
        Width::Four => CUstreamBatchMemOpType::WRITE_VALUE_32,
        Width::Eight => CUstreamBatchMemOpType::WRITE_VALUE_64,
    };
    submit(&[value_op(operation, address, value, flags)], stream)
}

/// `cuStreamBatchMemOp`.
pub fn batch(stream: CUstream, params: &[CUstreamBatchMemOpParams], flags: u32) -> Result<()> {
    if flags != 0 || params.is_empty() {
        return Err(CUresult::INVALID_VALUE);
    }
    submit(params, stream)
}
