//! Conditional nodes: graphs that run if, or as long as, a value says so.
//!
//! The value is a number in device memory, and a condition's handle is its address: what kernels
//! call to set it,
//! `cudaGraphSetConditional(handle, value)`, is no more than a store. The handle is nothing that a
//! program may free.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;

use crate::command::{checked, vanished};
use crate::context;
use crate::device::Device;
use crate::error::{Failure, Result};
use crate::host;
use crate::stream::Stream;
use crate::types::{
    CU_GRAPH_COND_ASSIGN_DEFAULT, CUDA_CONDITIONAL_NODE_PARAMS, CUcontext, CUgraph,
    CUgraphConditionalHandle, CUgraphConditionalNodeType, CUresult, HostPtr,
};

use super::plan::Plan;
use super::work::Work;
use super::{Graph, get};

/// Conditions by handle, until their graph is destroyed.
static CONDITIONS: LazyLock<Mutex<HashMap<u64, Arc<Condition>>>> = LazyLock::new(Mutex::default);

/// A value that kernels set.
pub(crate) struct Condition {
    /// Where the value lies.
    address: u64,
    device: &'static Device,
    /// Handle of the graph that it was made for.
    graph: u64,
    /// What each launch sets it to.
    default: Option<u32>,
    /// A node has it.
    is_taken: AtomicBool,
}

impl Drop for Condition {
    fn drop(&mut self) {
        if let Ok(engine) = self.device.engine() {
            // The engine knows the address, which it gave out.
            let _ = engine.free_raw(self.address);
        }
    }
}

impl Condition {
    fn value(&self) -> std::result::Result<u32, Failure> {
        host::get(self.address).map_err(vanished)
    }

    /// Sets the value that a launch begins with.
    pub(super) fn start(&self) -> std::result::Result<(), Failure> {
        match self.default {
            Some(default) => host::put(self.address, default).map_err(vanished),
            None => Ok(()),
        }
    }
}

/// Most graphs of a node.
const MAX_BODIES: u32 = 1 << 16;

/// A condition with the graphs that it decides over, which belong to the node.
#[derive(Clone)]
pub(crate) struct ConditionNode {
    pub(crate) condition: Arc<Condition>,
    pub(crate) kind: CUgraphConditionalNodeType,
    pub(crate) bodies: Vec<Arc<Graph>>,
    /// Their handles, for programs.
    handles: Arc<[CUgraph]>,
    context: CUcontext,
}

impl ConditionNode {
    /// A node of a graph, with new graphs inside.
    pub(super) fn new(params: &CUDA_CONDITIONAL_NODE_PARAMS, graph: &Graph) -> Result<Self> {
        let sizes = match params.type_ {
            CUgraphConditionalNodeType::IF => 1..=2,
            CUgraphConditionalNodeType::WHILE => 1..=1,
            CUgraphConditionalNodeType::SWITCH => 1..=MAX_BODIES,
            _ => return Err(CUresult::INVALID_VALUE),
        };
        let known = CONDITIONS.lock().get(&params.handle).cloned();
        let condition = known.ok_or(CUresult::INVALID_VALUE)?;
        let is_own = condition.graph == graph.handle;
        if !sizes.contains(&params.size) || !is_own {
            return Err(CUresult::INVALID_VALUE);
        }
        let context = context::get_or_current(params.ctx)?.raw();
        if condition.is_taken.swap(true, Ordering::Relaxed) {
            return Err(CUresult::INVALID_VALUE);
        }
        let bodies = (0..params.size).map(|_| Graph::make(0, true));
        let bodies = bodies.collect::<Result<Vec<_>>>()?;
        Ok(ConditionNode::with_bodies(
            condition,
            params.type_,
            bodies,
            context,
        ))
    }

    fn with_bodies(
        condition: Arc<Condition>,
        kind: CUgraphConditionalNodeType,
        bodies: Vec<Arc<Graph>>,
        context: CUcontext,
    ) -> ConditionNode {
        let handles = bodies.iter().map(|graph| graph.raw()).collect();
        ConditionNode {
            condition,
            kind,
            bodies,
            handles,
            context,
        }
    }

    /// The node for a copy of the graph. Kernels know the value by its handle, so that the copies
    /// share it.
    pub(super) fn copy(&self) -> Result<ConditionNode> {
        let bodies = self.bodies.iter().map(|graph| graph.copy(true));
        let bodies = bodies.collect::<Result<Vec<_>>>()?;
        let condition = self.condition.clone();
        Ok(ConditionNode::with_bodies(
            condition,
            self.kind,
            bodies,
            self.context,
        ))
    }

    /// What programs are told, with the address of the graphs' handles.
    pub(super) fn params(&self) -> CUDA_CONDITIONAL_NODE_PARAMS {
        CUDA_CONDITIONAL_NODE_PARAMS {
            handle: self.condition.address,
            type_: self.kind,
            size: self.bodies.len() as u32,
            phGraph_out: HostPtr(self.handles.as_ptr() as u64),
            ctx: self.context,
        }
    }

    /// Runs the plans of the graphs inside as the value says.
    pub(super) fn run(
        &self,
        plans: &[Arc<Plan>],
        stream: &Stream,
    ) -> std::result::Result<(), Failure> {
        let value = self.condition.value()?;
        match self.kind {
            CUgraphConditionalNodeType::WHILE => {
                while self.condition.value()? != 0 && stream.health.check().is_ok() {
                    plans.iter().try_for_each(|plan| plan.run(stream))?;
                }
                Ok(())
            }
            CUgraphConditionalNodeType::IF => {
                let chosen = plans.get(usize::from(value == 0));
                chosen.map_or(Ok(()), |plan| plan.run(stream))
            }
            _ => {
                let chosen = plans.get(value as usize);
                chosen.map_or(Ok(()), |plan| plan.run(stream))
            }
        }
    }
}

/// Whether all conditions in a graph decide over graphs that can be run so.
pub(super) fn is_sound(graph: &Graph) -> bool {
    let body = graph.body.lock();
    body.nodes.values().all(|node| match &node.work {
        Work::Condition(inner) => inner.bodies.iter().all(|graph| can_be_body(graph)),
        Work::Child(graph) => is_sound(graph),
        _ => true,
    })
}

/// Whether a graph may be run as the value of a condition says: it has kernels, copies, memsets,
/// and graphs of such, since all else is a matter of streams.
fn can_be_body(graph: &Graph) -> bool {
    let body = graph.body.lock();
    body.nodes.values().all(|node| match &node.work {
        Work::Empty | Work::Kernel(_) | Work::Copy(_) | Work::Fill(_) => true,
        Work::Child(graph) => can_be_body(graph),
        Work::Condition(inner) => inner.bodies.iter().all(|graph| can_be_body(graph)),
        Work::Call(_)
        | Work::Record(_)
        | Work::Wait(_)
        | Work::Alloc(_)
        | Work::Free(_)
        | Work::MemOps(_) => false,
    })
}

/// Forgets the conditions of a graph that is destroyed.
pub(super) fn forget(graph: &Graph) {
    CONDITIONS
        .lock()
        .retain(|_, condition| condition.graph != graph.handle);
}

/// `cuGraphConditionalHandleCreate`.
pub fn conditional_handle_create(
    graph: CUgraph,
    context: CUcontext,
    default: u32,
    flags: u32,
) -> Result<CUgraphConditionalHandle> {
    let graph = get(graph)?;
    if flags & !CU_GRAPH_COND_ASSIGN_DEFAULT != 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    let device = context::get_or_current(context)?.device;
    let size = size_of::<u32>() as u64;
    let address = checked(device.engine()?.alloc_raw(size, size))?;
    let condition = Condition {
        address,
        device,
        graph: graph.handle,
        default: (flags != 0).then_some(default),
        is_taken: AtomicBool::new(false),
    };
    host::put(address, if flags != 0 { default } else { 0 })?;
    CONDITIONS.lock().insert(address, Arc::new(condition));
    Ok(address)
}
