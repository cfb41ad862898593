//! What nodes do.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use ptxjit::Prepared;

use crate::call::HostCall;
use crate::command::{Command, vanished};
use crate::context;
use crate::error::{Failure, Result};
use crate::event::Event;
use crate::launch::KernelCommand;
use crate::memory::copy::CopyCommand;
use crate::memory::fill::FillCommand;
use crate::memory::is_known;
use crate::stream::Stream;
use crate::stream::memop::MemOpCommand;
use crate::types::{
    CUDA_BATCH_MEM_OP_NODE_PARAMS, CUDA_MEMCPY3D_v2, CUDA_MEMSET_NODE_PARAMS_v2, CUcontext,
    CUgraphNodeType, CUlaunchAttribute, CUmemorytype, CUresult, CUstreamBatchMemOpParams, HostPtr,
};

use super::Graph;
use super::condition::ConditionNode;
use super::memory::GraphMemory;

/// The description of a node's work.
#[derive(Clone)]
pub(crate) enum Work {
    Empty,
    Kernel(KernelNode),
    Copy(CopyNode),
    Fill(FillNode),
    Call(HostCall),
    /// All nodes of a graph, which belongs to the node.
    Child(Arc<Graph>),
    Record(Arc<Event>),
    Wait(Arc<Event>),
    /// The memory is in use from here on.
    Alloc(Arc<GraphMemory>),
    /// It is not any more.
    Free(Arc<GraphMemory>),
    /// Waits for values in memory and writes them.
    MemOps(MemOpNode),
    /// Graphs that run as a value says.
    Condition(ConditionNode),
}

/// Operations on memory, and how the program described them.
#[derive(Clone)]
pub(crate) struct MemOpNode {
    pub(crate) command: MemOpCommand,
    pub(crate) params: CUDA_BATCH_MEM_OP_NODE_PARAMS,
    /// What `params` points to.
    pub(crate) ops: Arc<[CUstreamBatchMemOpParams]>,
}

/// A kernel with its arguments.
#[derive(Clone)]
pub(crate) struct KernelNode {
    pub(crate) command: Arc<KernelCommand>,
    /// Addresses of the arguments, which programs that ask for a node's parameters read them by.
    pointers: Arc<[u64]>,
    /// Attributes that were set, at most one of each sort.
    pub(crate) attributes: Vec<CUlaunchAttribute>,
    /// The launch with its code, once it has run.
    prepared: Arc<ArcSwapOption<Prepared>>,
}

/// A copy, and how the program described it.
#[derive(Clone)]
pub(crate) struct CopyNode {
    pub(crate) params: CUDA_MEMCPY3D_v2,
    pub(crate) context: CUcontext,
    command: CopyCommand,
}

/// A memset.
#[derive(Clone)]
pub(crate) struct FillNode {
    command: FillCommand,
    pub(crate) context: CUcontext,
}

impl Work {
    /// The description of what a command does, if it has one.
    pub(crate) fn of_command(command: Command) -> Option<Work> {
        match command {
            Command::Kernel(kernel) => Some(Work::Kernel(KernelNode::new(*kernel))),
            Command::Copy(copy) => Some(Work::Copy(CopyNode::linear(copy))),
            Command::Fill(command) => Some(Work::Fill(FillNode {
                command,
                context: context::get_current().unwrap_or_default(),
            })),
            Command::Call(call) => Some(Work::Call(call)),
            Command::Nothing
            | Command::Write { .. }
            | Command::Stamp(_)
            | Command::Host { .. }
            | Command::Graph(_)
            | Command::Work(_) => None,
        }
    }

    /// What the interface calls it.
    pub(crate) fn kind(&self) -> CUgraphNodeType {
        match self {
            Work::Empty => CUgraphNodeType::EMPTY,
            Work::Kernel(_) => CUgraphNodeType::KERNEL,
            Work::Copy(_) => CUgraphNodeType::MEMCPY,
            Work::Fill(_) => CUgraphNodeType::MEMSET,
            Work::Call(_) => CUgraphNodeType::HOST,
            Work::Child(_) => CUgraphNodeType::GRAPH,
            Work::Record(_) => CUgraphNodeType::EVENT_RECORD,
            Work::Wait(_) => CUgraphNodeType::WAIT_EVENT,
            Work::Alloc(_) => CUgraphNodeType::MEM_ALLOC,
            Work::Free(_) => CUgraphNodeType::MEM_FREE,
            Work::MemOps(_) => CUgraphNodeType::BATCH_MEM_OP,
            Work::Condition(_) => CUgraphNodeType::CONDITIONAL,
        }
    }

    /// Whether the node waits for something that others than the graph's nodes do.
    pub(crate) fn is_wait(&self) -> bool {
        matches!(self, Work::Wait(_) | Work::MemOps(_))
    }

    /// Whether the node allocates or frees memory, or one in it does.
    pub(crate) fn is_memory(&self) -> bool {
        let is_memory = matches!(self, Work::Alloc(_) | Work::Free(_));
        is_memory
            || self
                .graphs()
                .any(|graph| !graph.body.lock().can_be_copied())
    }

    /// Whether the node frees this memory.
    pub(crate) fn frees(&self, memory: &Arc<GraphMemory>) -> bool {
        matches!(self, Work::Free(known) if Arc::ptr_eq(known, memory))
    }

    /// Graphs that belong to the node.
    pub(crate) fn graphs(&self) -> impl Iterator<Item = &Arc<Graph>> {
        let graphs = match self {
            Work::Child(graph) => std::slice::from_ref(graph),
            Work::Condition(node) => &node.bodies,
            _ => &[],
        };
        graphs.iter()
    }

    /// The same work for a node of another graph.
    pub(crate) fn copy(&self) -> Result<Work> {
        match self {
            Work::Child(graph) => Ok(Work::Child(graph.copy(true)?)),
            Work::Condition(node) => Ok(Work::Condition(node.copy()?)),
            _ => Ok(self.clone()),
        }
    }

    /// Ends what belongs to the node alone.
    pub(crate) fn end(&self) {
        self.graphs().for_each(|graph| graph.end());
    }

    /// Does the work, as far as one thread can on its own. Streams do the rest, see [`super::plan`].
    pub(crate) fn run(&self, stream: &Stream) -> std::result::Result<(), Failure> {
        match self {
            Work::Kernel(kernel) => kernel.run(),
            Work::Copy(copy) => copy.command.run().map_err(vanished),
            Work::Fill(fill) => fill.run().map_err(vanished),
            Work::Call(call) => {
                call.run();
                Ok(())
            }
            Work::Alloc(memory) => {
                memory.set_used(true);
                Ok(())
            }
            Work::Free(memory) => {
                memory.set_used(false);
                Ok(())
            }
            Work::MemOps(node) => node.command.run(&stream.health),
            Work::Empty | Work::Child(_) | Work::Record(_) | Work::Wait(_) | Work::Condition(_) => {
                Ok(())
            }
        }
    }
}

impl KernelNode {
    /// A kernel that was checked.
    pub(crate) fn new(command: KernelCommand) -> KernelNode {
        let base = command.params.as_ptr() as u64;
        let layout = command.function.kernel.param_layout();
        let pointers = layout.map(|param| base + param.offset as u64).collect();
        KernelNode {
            command: Arc::new(command),
            pointers,
            attributes: Vec::new(),
            prepared: Arc::default(),
        }
    }

    /// The node with attributes, which must fit its launch.
    pub(crate) fn with_attributes(&self, attributes: Vec<CUlaunchAttribute>) -> Result<KernelNode> {
        let mut command = (*self.command).clone();
        super::attribute::apply(&attributes, &mut command.shape)?;
        command.shape.check(&command.function)?;
        Ok(KernelNode {
            attributes,
            ..KernelNode::new(command)
        })
    }

    /// The address of the arguments' addresses; null if there are none.
    pub(crate) fn kernel_params(&self) -> HostPtr {
        match self.pointers.is_empty() {
            true => HostPtr::NULL,
            false => HostPtr(self.pointers.as_ptr() as u64),
        }
    }

    /// Runs the kernel to its end. A launch is prepared once, unless its code is soon to be replaced by better code.
    fn run(&self) -> std::result::Result<(), Failure> {
        if let Some(prepared) = &*self.prepared.load() {
            prepared.run()?;
            return Ok(());
        }
        let prepared = self.command.prepare()?;
        prepared.run()?;
        if !prepared.is_quick() {
            self.prepared.store(Some(Arc::new(prepared)));
        }
        Ok(())
    }
}

impl CopyNode {
    /// The copy that a program describes.
    pub(crate) fn new(params: CUDA_MEMCPY3D_v2, context: CUcontext) -> Result<CopyNode> {
        Ok(CopyNode {
            params,
            context,
            command: linear(&params)?,
        })
    }

    /// A copy of bytes that a stream has captured.
    fn linear(command: CopyCommand) -> CopyNode {
        let sort = |addr| match is_known(addr) {
            true => CUmemorytype::DEVICE,
            false => CUmemorytype::HOST,
        };
        let host = |addr| HostPtr(if is_known(addr) { 0 } else { addr });
        let device = |addr| if is_known(addr) { addr } else { 0 };
        let params = CUDA_MEMCPY3D_v2 {
            srcMemoryType: sort(command.from),
            srcHost: host(command.from),
            srcDevice: device(command.from),
            srcPitch: command.len as usize,
            srcHeight: 1,
            dstMemoryType: sort(command.to),
            dstHost: host(command.to),
            dstDevice: device(command.to),
            dstPitch: command.len as usize,
            dstHeight: 1,
            WidthInBytes: command.len as usize,
            Height: 1,
            Depth: 1,
            ..CUDA_MEMCPY3D_v2::default()
        };
        CopyNode {
            params,
            context: context::get_current().unwrap_or_default(),
            command,
        }
    }
}

/// The command for a copy of one row.
fn linear(params: &CUDA_MEMCPY3D_v2) -> Result<CopyCommand> {
    if params.Height > 1 || params.Depth > 1 {
        return Err(CUresult::NOT_SUPPORTED);
    }
    let len = params.WidthInBytes as u64 * params.Height as u64 * params.Depth as u64;
    let side =
        |sort, host: HostPtr, device: u64, [x, y, z]: [usize; 3], [pitch, height]: [usize; 2]| {
            let base = match sort {
                CUmemorytype::HOST => host.0,
                CUmemorytype::DEVICE | CUmemorytype::UNIFIED => device,
                CUmemorytype::ARRAY => return Err(CUresult::NOT_SUPPORTED),
                _ => return Err(CUresult::INVALID_VALUE),
            };
            let rows = (z as u64)
                .checked_mul(height as u64)
                .and_then(|rows| rows.checked_add(y as u64));
            let offset = rows
                .and_then(|rows| rows.checked_mul(pitch as u64))
                .and_then(|offset| offset.checked_add(x as u64));
            let start = offset.and_then(|offset| base.checked_add(offset));
            let start = start.ok_or(CUresult::INVALID_VALUE)?;
            if sort == CUmemorytype::DEVICE || is_known(start) {
                crate::memory::check_device_range(start, len)?;
            }
            Ok(start)
        };
    Ok(CopyCommand {
        to: side(
            params.dstMemoryType,
            params.dstHost,
            params.dstDevice,
            [params.dstXInBytes, params.dstY, params.dstZ],
            [params.dstPitch, params.dstHeight],
        )?,
        from: side(
            params.srcMemoryType,
            params.srcHost,
            params.srcDevice,
            [params.srcXInBytes, params.srcY, params.srcZ],
            [params.srcPitch, params.srcHeight],
        )?,
        len,
    })
}

impl FillNode {
    /// The memset that a program describes.
    pub(crate) fn new(params: &CUDA_MEMSET_NODE_PARAMS_v2) -> Result<FillNode> {
        let command = FillCommand {
            to: params.dst,
            pitch: params.pitch as u64,
            value: params.value,
            size: params.elementSize,
            width: params.width as u64,
            height: params.height as u64,
        };
        command.clone().check()?;
        Ok(FillNode {
            command,
            context: params.ctx,
        })
    }

    /// The description of the memset.
    pub(crate) fn params(&self) -> CUDA_MEMSET_NODE_PARAMS_v2 {
        CUDA_MEMSET_NODE_PARAMS_v2 {
            dst: self.command.to,
            pitch: self.command.pitch as usize,
            value: self.command.value,
            elementSize: self.command.size,
            width: self.command.width as usize,
            height: self.command.height as usize,
            ctx: self.context,
        }
    }

    fn run(&self) -> Result<()> {
        match self.command.width == 0 || self.command.height == 0 {
            true => Ok(()),
            false => self.command.run(),
        }
    }
}
