//! Parameters of nodes: from what programs pass to descriptions, and back.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::call::HostCall;
use crate::context;
use crate::error::Result;
use crate::event;
use crate::function;
use crate::host;
use crate::launch::{Arguments, KernelCommand, Shape};
use crate::stream::memop::MemOpCommand;
use crate::types::{
    CUDA_BATCH_MEM_OP_NODE_PARAMS, CUDA_CHILD_GRAPH_NODE_PARAMS, CUDA_EVENT_RECORD_NODE_PARAMS,
    CUDA_EVENT_WAIT_NODE_PARAMS, CUDA_HOST_NODE_PARAMS_v2, CUDA_KERNEL_NODE_PARAMS_v3,
    CUDA_MEM_FREE_NODE_PARAMS, CUDA_MEMCPY_NODE_PARAMS, CUcontext, CUevent, CUfunction, CUgraph,
    CUgraphChildGraphNodeOwnership, CUgraphEdgeData, CUgraphExec, CUgraphNode, CUgraphNodeParams,
    CUgraphNodeType, CUresult, CUstreamBatchMemOpParams, HostPtr, Raw, Union,
};

use super::condition::ConditionNode;
use super::exec::get_exec;
use super::memory::{self, GraphMemory};
use super::work::{CopyNode, FillNode, KernelNode, MemOpNode, Work};
use super::{Graph, MAX_DEPTH, edit, get, node};

/// A description from parameters, which are checked; `graph` is the one that the node belongs or
/// will belong to.
fn read(params: &CUgraphNodeParams, graph: Option<&Graph>) -> Result<Work> {
    match params.type_ {
        CUgraphNodeType::EMPTY => Ok(Work::Empty),
        CUgraphNodeType::KERNEL => Ok(Work::Kernel(read_kernel(&params.kernel())?)),
        CUgraphNodeType::MEMCPY => {
            let copy = params.memcpy();
            let context = known_context(copy.copyCtx)?;
            Ok(Work::Copy(CopyNode::new(copy.copyParams, context)?))
        }
        CUgraphNodeType::MEMSET => {
            let mut fill = params.memset();
            fill.ctx = known_context(fill.ctx)?;
            Ok(Work::Fill(FillNode::new(&fill)?))
        }
        CUgraphNodeType::HOST => {
            let call = params.host();
            Ok(Work::Call(HostCall::new(call.fn_, call.userData)?))
        }
        CUgraphNodeType::GRAPH => {
            let graph = graph.ok_or(CUresult::INVALID_VALUE)?;
            read_child(&params.graph(), graph)
        }
        CUgraphNodeType::EVENT_RECORD => {
            Ok(Work::Record(known_event(params.event_record().event)?))
        }
        CUgraphNodeType::WAIT_EVENT => Ok(Work::Wait(known_event(params.event_wait().event)?)),
        CUgraphNodeType::MEM_ALLOC => Ok(Work::Alloc(GraphMemory::new(params.alloc())?)),
        CUgraphNodeType::MEM_FREE => Ok(Work::Free(memory::find(params.free().dptr)?)),
        CUgraphNodeType::BATCH_MEM_OP => Ok(Work::MemOps(read_mem_ops(&params.mem_op())?)),
        CUgraphNodeType::CONDITIONAL => {
            let graph = graph.ok_or(CUresult::INVALID_VALUE)?;
            let node = ConditionNode::new(&params.conditional(), graph)?;
            Ok(Work::Condition(node))
        }
        CUgraphNodeType::EXT_SEMAS_SIGNAL
        | CUgraphNodeType::EXT_SEMAS_WAIT
        | CUgraphNodeType::MEMCPY_BATCH
        | CUgraphNodeType::EXTERNAL_ENGINE
        | CUgraphNodeType::FABRIC_CPY_BATCH => Err(CUresult::NOT_SUPPORTED),
        _ => Err(CUresult::INVALID_VALUE),
    }
}

fn known_context(handle: CUcontext) -> Result<CUcontext> {
    Ok(context::get_or_current(handle)?.raw())
}

/// A graph's functions report all that they do not know as invalid values.
fn known_event(handle: CUevent) -> Result<Arc<event::Event>> {
    event::get(handle).map_err(|_| CUresult::INVALID_VALUE)
}

fn read_kernel(params: &CUDA_KERNEL_NODE_PARAMS_v3) -> Result<KernelNode> {
    let handle = match params.func.is_null() {
        true => CUfunction(params.kern.0),
        false => params.func,
    };
    let function = function::get(handle).map_err(|_| CUresult::INVALID_VALUE)?;
    let shape = Shape {
        grid: [params.gridDimX, params.gridDimY, params.gridDimZ],
        block: [params.blockDimX, params.blockDimY, params.blockDimZ],
        cluster: None,
        shared: params.sharedMemBytes,
        cooperative: false,
    };
    shape.check_node(&function)?;
    let arguments = Arguments {
        params: params.kernelParams,
        extra: params.extra,
    };
    let params = arguments.read(&function)?;
    Ok(KernelNode::new(KernelCommand {
        function,
        shape,
        params,
    }))
}

fn read_child(params: &CUDA_CHILD_GRAPH_NODE_PARAMS, parent: &Graph) -> Result<Work> {
    let child = get(params.graph)?;
    if child.depth() >= MAX_DEPTH {
        return Err(CUresult::INVALID_VALUE);
    }
    match params.ownership {
        CUgraphChildGraphNodeOwnership::CLONE => Ok(Work::Child(child.copy(true)?)),
        CUgraphChildGraphNodeOwnership::MOVE => {
            let is_free = !child.is_owned.swap(true, Ordering::Relaxed);
            if !is_free {
                return Err(CUresult::INVALID_VALUE);
            }
            if child.contains(parent) {
                child.set_owned(false);
                return Err(CUresult::INVALID_VALUE);
            }
            Ok(Work::Child(child))
        }
        _ => Err(CUresult::INVALID_VALUE),
    }
}

fn read_mem_ops(params: &CUDA_BATCH_MEM_OP_NODE_PARAMS) -> Result<MemOpNode> {
    if params.flags != 0 || params.count == 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    let ops: Vec<CUstreamBatchMemOpParams> =
        host::get_all(params.paramArray.0, params.count as usize)?;
    let context = known_context(params.ctx)?;
    Ok(MemOpNode::new(
        MemOpCommand::new(&ops)?,
        context,
        ops.into(),
    ))
}

/// Parameters of a kind of node.
fn of<T: Raw>(type_: CUgraphNodeType, params: T) -> CUgraphNodeParams {
    CUgraphNodeParams {
        type_,
        params: Union::of(params),
        ..CUgraphNodeParams::default()
    }
}

/// What a program is told of a description.
fn write(work: &Work) -> CUgraphNodeParams {
    let kind = work.kind();
    match work {
        Work::Empty => of(kind, 0_u64),
        Work::Kernel(kernel) => of(kind, write_kernel(kernel)),
        Work::Copy(copy) => of(
            kind,
            CUDA_MEMCPY_NODE_PARAMS {
                copyCtx: copy.context,
                copyParams: copy.params,
                ..CUDA_MEMCPY_NODE_PARAMS::default()
            },
        ),
        Work::Fill(fill) => of(kind, fill.params()),
        Work::Call(call) => of(
            kind,
            CUDA_HOST_NODE_PARAMS_v2 {
                fn_: call.function(),
                userData: call.data(),
                ..CUDA_HOST_NODE_PARAMS_v2::default()
            },
        ),
        Work::Child(graph) => of(
            kind,
            CUDA_CHILD_GRAPH_NODE_PARAMS {
                graph: graph.raw(),
                ownership: CUgraphChildGraphNodeOwnership::CLONE,
            },
        ),
        Work::Record(event) => of(
            kind,
            CUDA_EVENT_RECORD_NODE_PARAMS {
                event: event.raw(),
                ctx: CUcontext(event.context),
            },
        ),
        Work::Alloc(memory) => of(kind, memory.params),
        Work::Free(memory) => of(
            kind,
            CUDA_MEM_FREE_NODE_PARAMS {
                dptr: memory.params.dptr,
            },
        ),
        Work::MemOps(node) => of(kind, node.params),
        Work::Condition(node) => of(kind, node.params()),
        Work::Wait(event) => of(kind, CUDA_EVENT_WAIT_NODE_PARAMS { event: event.raw() }),
    }
}

fn write_kernel(kernel: &KernelNode) -> CUDA_KERNEL_NODE_PARAMS_v3 {
    let command = &kernel.command;
    let Shape {
        grid,
        block,
        shared,
        ..
    } = command.shape;
    CUDA_KERNEL_NODE_PARAMS_v3 {
        func: command.function.raw(),
        gridDimX: grid[0],
        gridDimY: grid[1],
        gridDimZ: grid[2],
        blockDimX: block[0],
        blockDimY: block[1],
        blockDimZ: block[2],
        sharedMemBytes: shared,
        kernelParams: kernel.kernel_params(),
        ctx: CUcontext(command.function.context),
        ..CUDA_KERNEL_NODE_PARAMS_v3::default()
    }
}

/// A description in the place of another one of the same kind. Attributes stay.
pub(super) fn replaced(old: &Work, new: Work) -> Result<Work> {
    match (old, new) {
        (Work::Kernel(old), Work::Kernel(new)) => {
            if old.command.function.context != new.command.function.context {
                return Err(CUresult::INVALID_VALUE);
            }
            Ok(Work::Kernel(match old.attributes.is_empty() {
                true => new,
                false => new.with_attributes(old.attributes.clone())?,
            }))
        }
        // A node's own graph is changed by its handle, and memory has its address for good.
        (Work::Child(_) | Work::Condition(_) | Work::Alloc(_) | Work::Free(_), _) => {
            Err(CUresult::INVALID_VALUE)
        }
        (old, new) if old.kind() == new.kind() => Ok(new),
        _ => Err(CUresult::INVALID_VALUE),
    }
}

// --- The interface ---

/// `cuGraphAddNode`, and the functions that add nodes of one kind. `deps` are addresses of an array
/// of nodes and of what the edges from them mean.
pub fn add_node(
    graph: CUgraph,
    deps: [HostPtr; 2],
    n_deps: usize,
    params: &mut CUgraphNodeParams,
) -> Result<CUgraphNode> {
    let graph = get(graph)?;
    let deps = edit::read_deps(&graph, deps[0], deps[1], n_deps)?;
    // A node is made only if what it depends on is there; what edges mean is checked when its work
    // is known.
    let plain: Vec<_> = deps
        .iter()
        .map(|(id, _)| (*id, CUgraphEdgeData::default()))
        .collect();
    graph.body.lock().check_deps(&plain, &Work::Empty)?;
    let work = read(params, Some(&graph))?;
    match graph.add(work.clone(), &deps) {
        Ok(node) => {
            if matches!(work, Work::Alloc(_) | Work::Condition(_)) {
                // These have results.
                params.params = write(&work).params;
            }
            Ok(CUgraphNode(node.handle))
        }
        Err(code) => {
            work.end();
            Err(code)
        }
    }
}

/// `cuGraphNodeGetParams`, and the functions for one kind of nodes.
pub fn get_params(handle: CUgraphNode) -> Result<CUgraphNodeParams> {
    Ok(write(&node(handle)?.work()?))
}

/// `cuGraphNodeSetParams`, and the functions for one kind of nodes.
pub fn set_params(handle: CUgraphNode, params: &CUgraphNodeParams) -> Result<()> {
    let node = node(handle)?;
    let old = node.work()?;
    if old.kind() != params.type_ || params.type_ == CUgraphNodeType::GRAPH {
        return Err(CUresult::INVALID_VALUE);
    }
    let work = replaced(&old, read(params, Some(&node.graph))?)?;
    node.graph.body.lock().node_mut(node.id)?.work = work;
    Ok(())
}

/// `cuGraphExecNodeSetParams`, and the functions for one kind of nodes.
pub fn exec_set_params(
    exec: CUgraphExec,
    handle: CUgraphNode,
    params: &CUgraphNodeParams,
) -> Result<()> {
    let exec = get_exec(exec)?;
    if params.type_ == CUgraphNodeType::GRAPH {
        return exec.update_child(handle, &*get(params.graph().graph)?);
    }
    // The node itself may be gone; its place in the plan is not.
    exec.replace(handle, read(params, None)?)
}
