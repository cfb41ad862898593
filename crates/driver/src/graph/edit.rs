//! Nodes and edges of graphs, looked at and changed by programs.

use std::sync::Arc;

use crate::error::Result;
use crate::host;
use crate::types::{
    CUgraph, CUgraphEdgeData, CUgraphExec, CUgraphNode, CUgraphNodeType, CUresult, HostPtr,
};

use super::body::{Body, Edge};
use super::work::Work;
use super::{Graph, NODES, NodeRef, exec, get, node};

/// Edges of a graph or node: the other ends and what each edge means.
pub type Edges = (Vec<CUgraphNode>, Vec<CUgraphEdgeData>);

/// What edges mean: given one by one, or the default where the address is null. The count was
/// checked.
fn edge_data(from: HostPtr, count: usize) -> Result<Vec<CUgraphEdgeData>> {
    match from.is_null() {
        true => Ok(vec![CUgraphEdgeData::default(); count]),
        false => host::get_all(from.0, count),
    }
}

/// Reads dependencies of a node to be added to a graph.
pub(crate) fn read_deps(
    graph: &Graph,
    nodes: HostPtr,
    data: HostPtr,
    count: usize,
) -> Result<Vec<(u32, CUgraphEdgeData)>> {
    let handles: Vec<CUgraphNode> = host::get_all(nodes.0, count)?;
    let data = edge_data(data, count)?;
    let mut deps = Vec::with_capacity(count);
    for (handle, data) in handles.into_iter().zip(data) {
        deps.push((node_of(graph, handle)?.id, data));
    }
    Ok(deps)
}

/// A node, which must be one of this graph.
fn node_of(graph: &Graph, handle: CUgraphNode) -> Result<Arc<NodeRef>> {
    let node = node(handle)?;
    match node.graph.handle == graph.handle {
        true => Ok(node),
        false => Err(CUresult::INVALID_VALUE),
    }
}

/// Does something for each of the edges that arrays name. If one cannot be done, none is.
fn each_edge(
    graph: CUgraph,
    [from, to, data]: [HostPtr; 3],
    count: usize,
    mut act: impl FnMut(&mut Body, u32, u32, CUgraphEdgeData) -> Result<()>,
    undo: impl Fn(&mut Body, u32, u32, CUgraphEdgeData) -> Result<()>,
) -> Result<()> {
    let graph = get(graph)?;
    let from: Vec<CUgraphNode> = host::get_all(from.0, count)?;
    let to: Vec<CUgraphNode> = host::get_all(to.0, count)?;
    let mut edges = Vec::with_capacity(count);
    for ((from, to), data) in from.into_iter().zip(to).zip(edge_data(data, count)?) {
        edges.push((node_of(&graph, from)?.id, node_of(&graph, to)?.id, data));
    }
    let mut body = graph.body.lock();
    for (n_done, &(from, to, data)) in edges.iter().enumerate() {
        if let Err(code) = act(&mut body, from, to, data) {
            for &(from, to, data) in edges[..n_done].iter().rev() {
                // What was done just now can be undone.
                let _ = undo(&mut body, from, to, data);
            }
            return Err(code);
        }
    }
    Ok(())
}

// --- The interface ---

/// `cuGraphAddDependencies`: addresses of arrays of nodes, nodes that depend on them, and what the
/// edges mean.
pub fn add_dependencies(graph: CUgraph, arrays: [HostPtr; 3], count: usize) -> Result<()> {
    each_edge(graph, arrays, count, Body::connect, Body::disconnect)
}

/// `cuGraphRemoveDependencies`.
pub fn remove_dependencies(graph: CUgraph, arrays: [HostPtr; 3], count: usize) -> Result<()> {
    let remove = |body: &mut Body, from, to, data| match body.can_be_copied() {
        true => body.disconnect(from, to, data),
        false => Err(CUresult::NOT_SUPPORTED),
    };
    each_edge(graph, arrays, count, remove, Body::connect)
}

/// `cuGraphGetNodes`, oldest first.
pub fn get_nodes(graph: CUgraph) -> Result<Vec<CUgraphNode>> {
    let graph = get(graph)?;
    let body = graph.body.lock();
    let handles = body.nodes.values().map(|node| CUgraphNode(node.handle));
    Ok(handles.collect())
}

/// `cuGraphGetRootNodes`: nodes that depend on no others.
pub fn get_root_nodes(graph: CUgraph) -> Result<Vec<CUgraphNode>> {
    let graph = get(graph)?;
    let body = graph.body.lock();
    let roots = body.nodes.values().filter(|node| node.before.is_empty());
    Ok(roots.map(|node| CUgraphNode(node.handle)).collect())
}

/// `cuGraphGetEdges`: nodes, and with them edges to nodes that depend on these.
pub fn get_edges(graph: CUgraph) -> Result<(Vec<CUgraphNode>, Edges)> {
    let graph = get(graph)?;
    let body = graph.body.lock();
    let (mut from, mut to, mut data) = (Vec::new(), Vec::new(), Vec::new());
    for node in body.nodes.values() {
        for edge in &node.after {
            from.push(CUgraphNode(node.handle));
            to.push(CUgraphNode(body.nodes[&edge.node].handle));
            data.push(edge.data);
        }
    }
    Ok((from, (to, data)))
}

fn ends(handle: CUgraphNode, of: impl Fn(&super::body::Node) -> &Vec<Edge>) -> Result<Edges> {
    let node = node(handle)?;
    let body = node.graph.body.lock();
    let edges = of(body.node(node.id)?);
    let handle = |edge: &Edge| CUgraphNode(body.nodes[&edge.node].handle);
    Ok((
        edges.iter().map(handle).collect(),
        edges.iter().map(|edge| edge.data).collect(),
    ))
}

/// `cuGraphNodeGetDependencies`.
pub fn node_get_dependencies(node: CUgraphNode) -> Result<Edges> {
    ends(node, |node| &node.before)
}

/// `cuGraphNodeGetDependentNodes`.
pub fn node_get_dependents(node: CUgraphNode) -> Result<Edges> {
    ends(node, |node| &node.after)
}

/// Whether the versions of functions that do not tell what edges mean would hide something.
pub fn check_lossless(data: &[CUgraphEdgeData]) -> Result<()> {
    match data.iter().all(|data| *data == CUgraphEdgeData::default()) {
        true => Ok(()),
        false => Err(CUresult::LOSSY_QUERY),
    }
}

/// `cuGraphNodeGetType`.
pub fn node_get_type(handle: CUgraphNode) -> Result<CUgraphNodeType> {
    Ok(node(handle)?.work()?.kind())
}

/// `cuGraphDestroyNode`.
pub fn destroy_node(handle: CUgraphNode) -> Result<()> {
    let node = node(handle)?;
    let removed = {
        let mut body = node.graph.body.lock();
        if !body.can_be_copied() {
            return Err(CUresult::NOT_SUPPORTED);
        }
        body.remove(node.id)
    };
    NODES.remove(handle.0);
    if let Some(removed) = removed {
        removed.work.end();
    }
    Ok(())
}

/// `cuGraphNodeFindInClone`.
pub fn node_find_in_clone(original: CUgraphNode, clone: CUgraph) -> Result<CUgraphNode> {
    let (original, clone) = (node(original)?, get(clone)?);
    if clone.origin != original.graph.handle {
        return Err(CUresult::INVALID_VALUE);
    }
    let body = clone.body.lock();
    Ok(CUgraphNode(body.node(original.id)?.handle))
}

/// `cuGraphNodeGetContainingGraph`.
pub fn node_get_containing_graph(handle: CUgraphNode) -> Result<CUgraph> {
    Ok(node(handle)?.graph.raw())
}

/// `cuGraphNodeGetLocalId`: unique in the graph, and the same in its clones.
pub fn node_get_local_id(handle: CUgraphNode) -> Result<u32> {
    Ok(node(handle)?.id)
}

/// `cuGraphNodeGetToolsId`: unique in the process.
pub fn node_get_tools_id(handle: CUgraphNode) -> Result<u64> {
    let node = node(handle)?;
    Ok(u64::from(node.graph.id) << 32 | u64::from(node.id))
}

/// `cuGraphChildGraphNodeGetGraph`: the graph in the node, which goes on to belong to it.
pub fn child_graph(handle: CUgraphNode) -> Result<CUgraph> {
    match node(handle)?.work()? {
        Work::Child(graph) => Ok(graph.raw()),
        _ => Err(CUresult::INVALID_VALUE),
    }
}

/// `cuGraphExecNodeSetParams` for a child graph node.
pub fn exec_child_set_params(exec: CUgraphExec, node: CUgraphNode, graph: CUgraph) -> Result<()> {
    exec::get_exec(exec)?.update_child(node, &*get(graph)?)
}

impl NodeRef {
    /// What the node does.
    pub(super) fn work(&self) -> Result<Work> {
        Ok(self.graph.body.lock().node(self.id)?.work.clone())
    }
}
