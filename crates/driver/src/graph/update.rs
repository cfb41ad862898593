//! Instantiated graphs that get the parameters of another graph, or of other nodes.

use std::sync::Arc;

use crate::error::Result;
use crate::types::{
    CUgraph, CUgraphExec, CUgraphExecUpdateResult, CUgraphNode, CUgraphNodeType, CUresult,
};

use super::exec::{GraphExec, get_exec};
use super::params::replaced;
use super::plan::{Plan, PlanNode};
use super::work::Work;
use super::{Graph, get};

/// Why an update was not done.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct UpdateError {
    pub code: CUresult,
    pub result: CUgraphExecUpdateResult,
    /// The node of the new graph that does not fit.
    pub node: CUgraphNode,
    /// The node at the other end of an edge that does not fit.
    pub from: CUgraphNode,
}

impl UpdateError {
    fn new(result: CUgraphExecUpdateResult, node: u64) -> UpdateError {
        UpdateError {
            code: CUresult::GRAPH_EXEC_UPDATE_FAILURE,
            result,
            node: CUgraphNode(node),
            from: CUgraphNode::NULL,
        }
    }
}

/// Compares nodes of a plan with those of another one that starts `offset` nodes further on in its
/// own plan.
fn check(
    old: &[PlanNode],
    new: &[PlanNode],
    offset: usize,
) -> std::result::Result<(), UpdateError> {
    for (old, now) in old.iter().zip(new) {
        if old.kind != now.kind {
            let result = CUgraphExecUpdateResult::ERROR_NODE_TYPE_CHANGED;
            return Err(UpdateError::new(result, now.handle));
        }
        let edges = |node: &PlanNode, offset: usize| -> Vec<_> {
            let inner = node.before.iter().filter(|(idx, _)| *idx >= offset);
            inner.map(|&(idx, data)| (idx - offset, data)).collect()
        };
        let (before, after) = (edges(old, offset), edges(now, 0));
        if before != after {
            let result = CUgraphExecUpdateResult::ERROR_TOPOLOGY_CHANGED;
            let mut err = UpdateError::new(result, now.handle);
            let other = after.iter().find(|edge| !before.contains(edge));
            err.from = CUgraphNode(other.map_or(0, |(idx, _)| new[*idx].handle));
            return Err(err);
        }
        check_work(old, now)?;
    }
    if old.len() != new.len() {
        let extra = new.get(old.len()).map_or(0, |node| node.handle);
        let result = CUgraphExecUpdateResult::ERROR_TOPOLOGY_CHANGED;
        return Err(UpdateError::new(result, extra));
    }
    Ok(())
}

fn check_work(old: &PlanNode, new: &PlanNode) -> std::result::Result<(), UpdateError> {
    if let (Work::Kernel(old), Work::Kernel(kernel)) = (&old.work, &new.work)
        && old.command.function.context != kernel.command.function.context
    {
        let result = CUgraphExecUpdateResult::ERROR_UNSUPPORTED_FUNCTION_CHANGE;
        return Err(UpdateError::new(result, new.handle));
    }
    // Memory has its address for good, and belongs to one graph.
    let is_memory = matches!(new.work, Work::Alloc(_) | Work::Free(_));
    let is_same = match (&old.work, &new.work) {
        (Work::Alloc(one), Work::Alloc(two)) | (Work::Free(one), Work::Free(two)) => {
            Arc::ptr_eq(one, two)
        }
        _ => !is_memory,
    };
    if !is_same {
        let result = CUgraphExecUpdateResult::ERROR_PARAMETERS_CHANGED;
        return Err(UpdateError::new(result, new.handle));
    }
    Ok(())
}

/// Puts the work of some nodes in the place of that of others.
fn assign(old: &mut [PlanNode], new: Vec<PlanNode>) {
    for (old, new) in old.iter_mut().zip(new) {
        old.work = new.work;
        old.bodies = new.bodies;
    }
}

impl GraphExec {
    /// Gives a node other work of the same kind.
    pub(super) fn replace(&self, node: CUgraphNode, work: Work) -> Result<()> {
        let mut state = self.state.lock();
        let idx = state.position(node)?;
        let work = replaced(&state.plan.nodes[idx].work, work)?;
        Arc::make_mut(&mut state.plan).nodes[idx].work = work;
        Ok(())
    }

    /// Gives the nodes of a child graph the work of another graph's, which must be like it.
    pub(super) fn update_child(&self, node: CUgraphNode, graph: &Graph) -> Result<()> {
        let new = Plan::new(graph);
        let mut state = self.state.lock();
        let first = state.position(node)?;
        if state.plan.nodes[first].kind != CUgraphNodeType::GRAPH {
            return Err(CUresult::INVALID_VALUE);
        }
        let is_end = |entry: &PlanNode| entry.handle == node.0;
        let inner = first + 1;
        let len = state.plan.nodes[inner..].iter().position(is_end);
        let range = inner..inner + len.unwrap_or(0);
        check(&state.plan.nodes[range.clone()], &new.nodes, inner).map_err(|err| err.code)?;
        assign(&mut Arc::make_mut(&mut state.plan).nodes[range], new.nodes);
        Ok(())
    }
}

/// `cuGraphExecUpdate`.
pub fn exec_update(exec: CUgraphExec, graph: CUgraph) -> std::result::Result<(), UpdateError> {
    let invalid = |code| UpdateError {
        code,
        ..UpdateError::new(CUgraphExecUpdateResult::ERROR, 0)
    };
    let exec = get_exec(exec).map_err(invalid)?;
    let new = Plan::new(&*get(graph).map_err(invalid)?);
    let mut state = exec.state.lock();
    check(&state.plan.nodes, &new.nodes, 0)?;
    let plan = Arc::make_mut(&mut state.plan);
    assign(&mut plan.nodes, new.nodes);
    // What the former work needed may go, once launches that have it have run.
    plan.users = new.users;
    Ok(())
}
