//! What nodes do.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use ptxjit::Prepared;

use crate::call::HostCall;
use crate::command::{Command, vanished};
use crate::context;
use crate::error::{Failure, Result};
use crate::event::Event;
use crate::launch::{self, KernelCommand};
use crate::memory::copy::{CopyCommand, Place, Source};
use crate::memory::fill::FillCommand;
use crate::memory::is_known;
use crate::memory::shape::command_3d;
use crate::stream::Stream;
use crate::stream::memop::MemOpCommand;
use crate::types::{
    CUDA_BATCH_MEM_OP_NODE_PARAMS, CUDA_MEMCPY3D_v2, CUDA_MEMSET_NODE_PARAMS_v2, CUcontext,
    CUgraphNodeType, CUlaunchAttribute, CUmemorytype, CUstreamBatchMemOpParams, HostPtr,
};

use super::Graph;
use super::condition::ConditionNode;
use super::memory::GraphMemory;

/// The description of a node's work.
#[derive(Clone)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all nodes of large graphs are the largest, kernels"
)]
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

impl MemOpNode {
    /// A command and the operations that it was made from.
    pub(crate) fn new(
        command: MemOpCommand,
        context: CUcontext,
        ops: Arc<[CUstreamBatchMemOpParams]>,
    ) -> MemOpNode {
        let params = CUDA_BATCH_MEM_OP_NODE_PARAMS {
            ctx: context,
            count: ops.len() as u32,
            paramArray: HostPtr(ops.as_ptr() as u64),
            flags: 0,
        };
        MemOpNode {
            command,
            params,
            ops,
        }
    }
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
    /// None if the extent is empty.
    command: Option<CopyCommand>,
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
            Command::Copy(copy) => CopyNode::captured(copy).map(Work::Copy),
            Command::Fill(command) => Some(Work::Fill(FillNode {
                command,
                context: context::get_current().unwrap_or_default(),
            })),
            Command::Call(call) => Some(Work::Call(call)),
            Command::Nothing
            | Command::Stamp(_)
            | Command::Callback(_)
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

    /// Does the work, as far as one thread can on its own. Streams do the rest, see
    /// [`super::plan`].
    pub(crate) fn run(&self, stream: &Stream) -> std::result::Result<(), Failure> {
        match self {
            Work::Kernel(kernel) => kernel.run(),
            Work::Copy(copy) => copy.run(),
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
        command.shape.check_node(&command.function)?;
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

    /// Runs the kernel to its end. A launch is prepared once, unless its code is soon to be
    /// replaced by better code.
    fn run(&self) -> std::result::Result<(), Failure> {
        if let Some(prepared) = &*self.prepared.load()
            && self.command.fits(prepared)
        {
            return launch::run(prepared);
        }
        let prepared = self.command.prepare()?;
        launch::run(&prepared)?;
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
            command: command_3d(&params)?,
        })
    }

    /// A copy that a stream has captured, unless it holds its bytes.
    fn captured(command: CopyCommand) -> Option<CopyNode> {
        let Source::Memory(from) = command.from else {
            return None;
        };
        let sort = |addr| match is_known(addr) {
            true => CUmemorytype::DEVICE,
            false => CUmemorytype::HOST,
        };
        let host = |addr| HostPtr(if is_known(addr) { 0 } else { addr });
        let device = |addr| if is_known(addr) { addr } else { 0 };
        let rows = |place: &Place| place.layer.checked_div(place.pitch).unwrap_or(1) as usize;
        let [width, height, depth] = command.extent;
        let to = command.to;
        let params = CUDA_MEMCPY3D_v2 {
            srcMemoryType: sort(from.addr),
            srcHost: host(from.addr),
            srcDevice: device(from.addr),
            srcPitch: from.pitch as usize,
            srcHeight: rows(&from),
            dstMemoryType: sort(to.addr),
            dstHost: host(to.addr),
            dstDevice: device(to.addr),
            dstPitch: to.pitch as usize,
            dstHeight: rows(&to),
            WidthInBytes: width as usize,
            Height: height as usize,
            Depth: depth as usize,
            ..CUDA_MEMCPY3D_v2::default()
        };
        Some(CopyNode {
            params,
            context: context::get_current().unwrap_or_default(),
            command: Some(command),
        })
    }

    /// Copies, if there is anything to copy.
    fn run(&self) -> std::result::Result<(), Failure> {
        let command = self.command.as_ref();
        command.map_or(Ok(()), |command| command.run().map_err(vanished))
    }
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
