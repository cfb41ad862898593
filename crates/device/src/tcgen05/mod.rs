//! Tensor memory and what works on it. PTX ISA, "TensorCore 5th Generation Family Instructions".
//!
//! All operations are complete when they have been executed, which is one of the orders that the
//! ISA allows: then nothing is left to wait for. Those that [complete late](crate::asynchronous)
//! are executed late.
//!
//! * [`memory`] has the cells and what is allocated of them, [`registers`] loads and stores them,
//!   [`copy`] fills them from shared
//!   memory and moves them.
//! * [`mma`] multiplies; [`shape`] reads instruction descriptors, [`matrix`] descriptors of
//!   matrices in shared memory, [`stored`] these
//!   matrices, [`elements`] what they consist of, [`columns`] masks of columns.

mod columns;
mod copy;
mod elements;
mod matrix;
mod memory;
mod mma;
mod registers;
mod shape;
mod stored;

use ptxjit_ir::{RegisterAccess, TensorMemoryOp};

use crate::{Fault, Member, Site, Thread};

use matrix::Descriptor;
use registers::Window;

pub use memory::{COLUMNS, LANES, Leak, TensorMemory};

/// Executes an operation for one thread.
pub(crate) fn execute(
    op: &TensorMemoryOp,
    thread: &mut dyn Thread,
    args: &[u64],
    results: &mut [u64],
) -> Result<(), Fault> {
    match op {
        TensorMemoryOp::Alloc { pair } => {
            let done = allocate(*pair, thread, args[0], args[1] as u32)?;
            results[0] = done.into();
            Ok(())
        }
        TensorMemoryOp::Dealloc { .. } if is_first(thread) => with_memory(thread, |_, memory| {
            memory.deallocate(args[0] as u32, args[1] as u32)
        }),
        TensorMemoryOp::Relinquish if is_first(thread) => with_memory(thread, |_, memory| {
            memory.relinquish();
            Ok(())
        }),
        TensorMemoryOp::Dealloc { .. } | TensorMemoryOp::Relinquish => Ok(()),
        TensorMemoryOp::Load(access) => {
            with_window((*access, LOAD), thread, args[0] as u32, |window, memory| {
                window.load(memory, results);
            })
        }
        TensorMemoryOp::Store(access) => with_window(
            (*access, STORE),
            thread,
            args[0] as u32,
            |window, memory| {
                window.store(memory, &args[1..]);
            },
        ),
        TensorMemoryOp::Copy {
            shape,
            pair,
            unpack,
        } => with_ctas(thread, *pair, |ctas| {
            let descriptor = Descriptor::decode(args[1], false, "the matrix of `tcgen05.cp`")?;
            for (memory, shared) in ctas.each() {
                let at = (args[0] as u32, &descriptor);
                copy::copy((*shape, *unpack), memory, shared, at)?;
            }
            Ok(())
        }),
        TensorMemoryOp::Shift { pair } => with_ctas(thread, *pair, |ctas| {
            ctas.each()
                .try_for_each(|(memory, _)| copy::shift(memory, args[0] as u32))
        }),
        TensorMemoryOp::Mma(op) => {
            let operands = mma::Operands::new(op, args);
            with_ctas(thread, op.pair, |ctas| mma::execute(op, ctas, &operands))
        }
    }
}

const LOAD: &str = "`tcgen05.ld`";
const STORE: &str = "`tcgen05.st`";

/// Registers of threads whose numbers follow each other: a word for each thread, and so many words
/// from one register to the next.
#[derive(Debug)]
pub struct Registers<'a> {
    /// The first thread's first register is the first.
    pub words: &'a mut [u32],
    /// At least the threads.
    pub pitch: usize,
    /// How many threads there are.
    pub threads: usize,
}

/// Executes a load or store of registers at one address for `thread`, the first, and those behind
/// it in its warp. False, with nothing done, for an operation that must be executed for each.
pub fn execute_together(
    op: &TensorMemoryOp,
    thread: &mut dyn Thread,
    address: u32,
    registers: Registers<'_>,
) -> Result<bool, Fault> {
    match op {
        TensorMemoryOp::Load(access) => {
            with_window((*access, LOAD), thread, address, |window, memory| {
                window.load_together(memory, registers)
            })
        }
        TensorMemoryOp::Store(access) => {
            with_window((*access, STORE), thread, address, |window, memory| {
                window.store_together(memory, registers)
            })
        }
        TensorMemoryOp::Alloc { .. }
        | TensorMemoryOp::Dealloc { .. }
        | TensorMemoryOp::Relinquish
        | TensorMemoryOp::Copy { .. }
        | TensorMemoryOp::Shift { .. }
        | TensorMemoryOp::Mma(_) => Ok(false),
    }
}

/// Whether a thread is the first of its warp, whose instruction counts for all.
fn is_first(thread: &dyn Thread) -> bool {
    thread.number().is_multiple_of(32)
}

/// `tcgen05.alloc`: whether there were columns.
fn allocate(pair: bool, thread: &mut dyn Thread, to: u64, columns: u32) -> Result<bool, Fault> {
    if !is_first(thread) {
        return Ok(true);
    }
    if !to.is_multiple_of(4) {
        return Err(Fault::Misaligned { addr: to, size: 4 });
    }
    let site = Site {
        ctaid: thread.ctaid(),
        tid: thread.tid(),
        loc: thread.loc(),
    };
    let start = with_memory(thread, |thread, memory| {
        if !pair {
            return memory.allocate(columns, site);
        }
        if let Some(start) = memory.joined() {
            return Ok(Some(start));
        }
        let mut peer = take(thread, Member::Peer)?;
        let start = memory.allocate_pair(&mut peer, columns, site);
        *thread.tensor_memory(Member::Peer)? = Some(peer);
        start
    })?;
    if let Some(start) = start {
        thread.write(to, &start.to_le_bytes())?;
    }
    Ok(start.is_some())
}

fn take(thread: &mut dyn Thread, member: Member) -> Result<Box<TensorMemory>, Fault> {
    Ok(thread.tensor_memory(member)?.take().unwrap_or_default())
}

/// Calls `f` with the tensor memory of the thread's CTA.
fn with_memory<T>(
    thread: &mut dyn Thread,
    f: impl FnOnce(&mut dyn Thread, &mut TensorMemory) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let mut memory = take(thread, Member::Own)?;
    let done = f(thread, &mut memory);
    *thread.tensor_memory(Member::Own)? = Some(memory);
    done
}

/// Calls `f` with what a thread's registers are loaded from or stored to.
fn with_window<T>(
    (access, what): (RegisterAccess, &str),
    thread: &mut dyn Thread,
    address: u32,
    f: impl FnOnce(Window, &mut TensorMemory) -> T,
) -> Result<T, Fault> {
    with_memory(thread, |thread, memory| {
        let window = Window::new(access, memory, (thread.number(), address), what)?;
        Ok(f(window, memory))
    })
}

/// Tensor and shared memory of the CTAs that an operation works on: that of the thread, or a pair,
/// the even one first.
struct Ctas<'a> {
    memories: &'a mut [Box<TensorMemory>],
    shared: Vec<&'a [u8]>,
}

impl Ctas<'_> {
    fn count(&self) -> usize {
        self.memories.len()
    }

    fn memories(&self) -> impl Iterator<Item = &TensorMemory> {
        self.memories.iter().map(|memory| &**memory)
    }

    fn memory(&self, cta: usize) -> &TensorMemory {
        &self.memories[cta]
    }

    fn memory_mut(&mut self, cta: usize) -> &mut TensorMemory {
        &mut self.memories[cta]
    }

    fn shared(&self, cta: usize) -> &[u8] {
        self.shared[cta]
    }

    fn each(&mut self) -> impl Iterator<Item = (&mut TensorMemory, &[u8])> {
        let memories = self.memories.iter_mut().map(|memory| &mut **memory);
        memories.zip(self.shared.iter().copied())
    }
}

/// Calls `f` with what an operation works on.
fn with_ctas<T>(
    thread: &mut dyn Thread,
    pair: bool,
    f: impl FnOnce(&mut Ctas<'_>) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let members: &[Member] = match (pair, thread.is_odd()) {
        (false, _) => &[Member::Own],
        (true, false) => &[Member::Own, Member::Peer],
        (true, true) => &[Member::Peer, Member::Own],
    };
    // Whether the peer is there shows before anything is taken.
    for &member in members {
        thread.tensor_memory(member)?;
    }
    let mut memories = Vec::with_capacity(members.len());
    for &member in members {
        memories.push(take(thread, member)?);
    }
    let shared = members.iter().map(|&member| thread.shared(member));
    let done = shared.collect::<Result<_, _>>().and_then(|shared| {
        f(&mut Ctas {
            memories: &mut memories,
            shared,
        })
    });
    for (&member, memory) in members.iter().zip(memories) {
        *thread.tensor_memory(member)? = Some(memory);
    }
    done
}
