//! Graphs: making, looking at, instantiating and launching them. [`crate::graph_node`] has the
//! kinds of nodes.
#![expect(unsafe_code, reason = "exports functions under C's names")]

use ptxjit_driver::graph::{self, Edges, UpdateError, user};
use ptxjit_driver::types::{
    CUDA_GRAPH_INSTANTIATE_PARAMS, CUgraph, CUgraphEdgeData, CUgraphExec, CUgraphExecUpdateResult,
    CUgraphExecUpdateResultInfo, CUgraphInstantiateResult, CUgraphNode, CUgraphNodeType, CUresult,
    CUstream, CUuserObject, HostPtr, Raw,
};
use ptxjit_driver::{Result, host};

use crate::call::{Out, exports};

/// Puts items into an array with room for some number of them; what is left of it is filled with
/// nulls.
fn put_list<T: Raw + Default>(to: Out<T>, room: usize, items: &[T]) -> Result<()> {
    for idx in 0..room {
        let item = items.get(idx).copied().unwrap_or_default();
        let offset = (idx as u64).wrapping_mul(size_of::<T>() as u64);
        host::put(to.address().wrapping_add(offset), item)?;
    }
    Ok(())
}

/// Answers a query of nodes: without an array only how many there are.
fn put_nodes(to: Out<CUgraphNode>, count: Out<usize>, nodes: &[CUgraphNode]) -> Result<()> {
    let room = count.get()?;
    if to.is_null() {
        return count.put(nodes.len());
    }
    put_list(to, room, nodes)?;
    count.put(room.min(nodes.len()))
}

/// Answers a query of edges, of which `data` is wanted if it has a place.
fn put_edges(
    to: Out<CUgraphNode>,
    data: Option<Out<CUgraphEdgeData>>,
    count: Out<usize>,
    (nodes, edges): &Edges,
) -> Result<()> {
    let room = count.get()?;
    let data = data.filter(|data| !data.is_null());
    match data {
        None => graph::check_lossless(edges)?,
        Some(_) if to.is_null() => return Err(CUresult::INVALID_VALUE),
        Some(data) => put_list(data, room, edges)?,
    }
    put_nodes(to, count, nodes)
}

/// Answers a query of a graph's edges.
fn put_all_edges(
    graph: CUgraph,
    from: Out<CUgraphNode>,
    to: Out<CUgraphNode>,
    data: Option<Out<CUgraphEdgeData>>,
    count: Out<usize>,
) -> Result<()> {
    let (sources, edges) = graph::get_edges(graph)?;
    if from.is_null() != to.is_null() {
        return Err(CUresult::INVALID_VALUE);
    }
    if !from.is_null() {
        put_list(from, count.get()?, &sources)?;
    }
    put_edges(to, data, count, &edges)
}

exports! {
    /// Makes a graph.
    fn cuGraphCreate(out: Out<CUgraph>, flags: u32) {
        out.fill(|| graph::create(flags))
    }

    /// Ends a graph.
    fn cuGraphDestroy(graph: CUgraph) {
        graph::destroy(graph)
    }

    /// Copies a graph.
    fn cuGraphClone(out: Out<CUgraph>, graph: CUgraph) {
        out.fill(|| graph::clone(graph))
    }

    /// A number that no other graph has.
    fn cuGraphGetId(graph: CUgraph, out: Out<u32>) {
        out.fill(|| graph::get_id(graph))
    }

    /// The nodes of a graph.
    fn cuGraphGetNodes(graph: CUgraph, out: Out<CUgraphNode>, count: Out<usize>) {
        put_nodes(out, count, &graph::get_nodes(graph)?)
    }

    /// The nodes of a graph that depend on no others.
    fn cuGraphGetRootNodes(graph: CUgraph, out: Out<CUgraphNode>, count: Out<usize>) {
        put_nodes(out, count, &graph::get_root_nodes(graph)?)
    }

    /// The edges of a graph.
    fn cuGraphGetEdges(
        graph: CUgraph, from: Out<CUgraphNode>, to: Out<CUgraphNode>, count: Out<usize>,
    ) {
        put_all_edges(graph, from, to, None, count)
    }

    /// The edges of a graph and what they mean.
    fn cuGraphGetEdges_v2(
        graph: CUgraph, from: Out<CUgraphNode>, to: Out<CUgraphNode>, data: Out<CUgraphEdgeData>,
        count: Out<usize>,
    ) {
        put_all_edges(graph, from, to, Some(data), count)
    }

    /// What a node depends on.
    fn cuGraphNodeGetDependencies(node: CUgraphNode, out: Out<CUgraphNode>, count: Out<usize>) {
        put_edges(out, None, count, &graph::node_get_dependencies(node)?)
    }

    /// What a node depends on, and how.
    fn cuGraphNodeGetDependencies_v2(
        node: CUgraphNode, out: Out<CUgraphNode>, data: Out<CUgraphEdgeData>, count: Out<usize>,
    ) {
        put_edges(out, Some(data), count, &graph::node_get_dependencies(node)?)
    }

    /// What depends on a node.
    fn cuGraphNodeGetDependentNodes(node: CUgraphNode, out: Out<CUgraphNode>, count: Out<usize>) {
        put_edges(out, None, count, &graph::node_get_dependents(node)?)
    }

    /// What depends on a node, and how.
    fn cuGraphNodeGetDependentNodes_v2(
        node: CUgraphNode, out: Out<CUgraphNode>, data: Out<CUgraphEdgeData>, count: Out<usize>,
    ) {
        put_edges(out, Some(data), count, &graph::node_get_dependents(node)?)
    }

    /// Adds edges.
    fn cuGraphAddDependencies(graph: CUgraph, from: HostPtr, to: HostPtr, count: usize) {
        graph::add_dependencies(graph, [from, to, HostPtr::NULL], count)
    }

    /// Adds edges, and says what they mean.
    fn cuGraphAddDependencies_v2(
        graph: CUgraph, from: HostPtr, to: HostPtr, data: HostPtr, count: usize,
    ) {
        graph::add_dependencies(graph, [from, to, data], count)
    }

    /// Removes edges.
    fn cuGraphRemoveDependencies(graph: CUgraph, from: HostPtr, to: HostPtr, count: usize) {
        graph::remove_dependencies(graph, [from, to, HostPtr::NULL], count)
    }

    /// Removes edges that mean something.
    fn cuGraphRemoveDependencies_v2(
        graph: CUgraph, from: HostPtr, to: HostPtr, data: HostPtr, count: usize,
    ) {
        graph::remove_dependencies(graph, [from, to, data], count)
    }

    /// Removes a node.
    fn cuGraphDestroyNode(node: CUgraphNode) {
        graph::destroy_node(node)
    }

    /// What kind of node it is.
    fn cuGraphNodeGetType(node: CUgraphNode, out: Out<CUgraphNodeType>) {
        out.fill(|| graph::node_get_type(node))
    }

    /// The node of a copy that was made from a node of the original.
    fn cuGraphNodeFindInClone(out: Out<CUgraphNode>, original: CUgraphNode, clone: CUgraph) {
        out.fill(|| graph::node_find_in_clone(original, clone))
    }

    /// The graph of a node.
    fn cuGraphNodeGetContainingGraph(node: CUgraphNode, out: Out<CUgraph>) {
        out.fill(|| graph::node_get_containing_graph(node))
    }

    /// A number that no other node of the graph has.
    fn cuGraphNodeGetLocalId(node: CUgraphNode, out: Out<u32>) {
        out.fill(|| graph::node_get_local_id(node))
    }

    /// A number that no other node has.
    fn cuGraphNodeGetToolsId(node: CUgraphNode, out: Out<u64>) {
        out.fill(|| graph::node_get_tools_id(node))
    }

    /// Writes a graph to a file.
    fn cuGraphDebugDotPrint(graph: CUgraph, path: HostPtr, flags: u32) {
        graph::debug_dot_print(graph, path, flags)
    }

    /// Makes an object that graphs keep.
    fn cuUserObjectCreate(
        out: Out<CUuserObject>, object: HostPtr, destroy: HostPtr, count: u32, flags: u32,
    ) {
        out.fill(|| user::create(object, destroy, count, flags))
    }

    /// Adds references of the program.
    fn cuUserObjectRetain(object: CUuserObject, count: u32) {
        user::retain(object, count)
    }

    /// Gives back references of the program.
    fn cuUserObjectRelease(object: CUuserObject, count: u32) {
        user::release(object, count)
    }

    /// Gives references to a graph.
    fn cuGraphRetainUserObject(graph: CUgraph, object: CUuserObject, count: u32, flags: u32) {
        user::graph_retain(graph, object, count, flags)
    }

    /// Takes references from a graph.
    fn cuGraphReleaseUserObject(graph: CUgraph, object: CUuserObject, count: u32) {
        user::graph_release(graph, object, count)
    }

    /// Makes a graph ready to be launched.
    fn cuGraphInstantiate(
        out: Out<CUgraphExec>, graph: CUgraph, node: Out<CUgraphNode>, log: Out<u8>,
        log_size: usize,
    ) {
        instantiate_with_log(out, graph, node, log, log_size)
    }

    /// Makes a graph ready to be launched.
    fn cuGraphInstantiate_v2(
        out: Out<CUgraphExec>, graph: CUgraph, node: Out<CUgraphNode>, log: Out<u8>,
        log_size: usize,
    ) {
        instantiate_with_log(out, graph, node, log, log_size)
    }

    /// Makes a graph ready to be launched.
    fn cuGraphInstantiateWithFlags(out: Out<CUgraphExec>, graph: CUgraph, flags: u64) {
        out.fill(|| graph::instantiate(graph, flags))
    }

    /// Makes a graph ready to be launched, and tells why not.
    fn cuGraphInstantiateWithParams(
        out: Out<CUgraphExec>, graph: CUgraph, params: Out<CUDA_GRAPH_INSTANTIATE_PARAMS>,
    ) or cuGraphInstantiateWithParams_ptsz {
        instantiate_with_params(out, graph, params)
    }

    /// Launches a graph.
    fn cuGraphLaunch(exec: CUgraphExec, stream: CUstream) or cuGraphLaunch_ptsz {
        graph::launch(exec, stream)
    }

    /// Prepares a launch.
    fn cuGraphUpload(exec: CUgraphExec, stream: CUstream) or cuGraphUpload_ptsz {
        graph::upload(exec, stream)
    }

    /// Ends a graph that was ready to be launched.
    fn cuGraphExecDestroy(exec: CUgraphExec) {
        graph::exec_destroy(exec)
    }

    /// Flags of instantiation.
    fn cuGraphExecGetFlags(exec: CUgraphExec, out: Out<u64>) {
        out.fill(|| graph::exec_get_flags(exec))
    }

    /// A number that no other has.
    fn cuGraphExecGetId(exec: CUgraphExec, out: Out<u32>) {
        out.fill(|| graph::exec_get_id(exec))
    }

    /// Takes over all parameters of a graph.
    fn cuGraphExecUpdate(
        exec: CUgraphExec, graph: CUgraph, node: Out<CUgraphNode>,
        result: Out<CUgraphExecUpdateResult>,
    ) {
        let updated = graph::exec_update(exec, graph);
        node.put_if_wanted(updated.map_or_else(|err| err.node, |()| CUgraphNode::NULL))?;
        result.put_if_wanted(result_of(&updated))?;
        updated.map_err(|err| err.code)
    }

    /// Takes over all parameters of a graph.
    fn cuGraphExecUpdate_v2(
        exec: CUgraphExec, graph: CUgraph, info: Out<CUgraphExecUpdateResultInfo>,
    ) {
        let updated = graph::exec_update(exec, graph);
        let (node, from) = updated.map_or_else(|err| (err.node, err.from), |()| Default::default());
        info.put_if_wanted(CUgraphExecUpdateResultInfo {
            result: result_of(&updated),
            errorNode: node,
            errorFromNode: from,
        })?;
        updated.map_err(|err| err.code)
    }

    /// Switches a node on or off.
    fn cuGraphNodeSetEnabled(exec: CUgraphExec, node: CUgraphNode, enabled: u32) {
        graph::node_set_enabled(exec, node, enabled != 0)
    }

    /// Whether a node is switched on.
    fn cuGraphNodeGetEnabled(exec: CUgraphExec, node: CUgraphNode, out: Out<u32>) {
        out.fill(|| graph::node_get_enabled(exec, node).map(u32::from))
    }
}

fn result_of(updated: &std::result::Result<(), UpdateError>) -> CUgraphExecUpdateResult {
    updated.map_or_else(|err| err.result, |()| CUgraphExecUpdateResult::SUCCESS)
}

/// The old form, with a log that has nothing to say beyond the code.
fn instantiate_with_log(
    out: Out<CUgraphExec>,
    graph: CUgraph,
    node: Out<CUgraphNode>,
    log: Out<u8>,
    log_size: usize,
) -> Result<()> {
    node.put_if_wanted(CUgraphNode::NULL)?;
    if log_size != 0 {
        log.put_if_wanted(0)?;
    }
    out.fill(|| graph::instantiate(graph, 0))
}

fn instantiate_with_params(
    out: Out<CUgraphExec>,
    graph: CUgraph,
    params: Out<CUDA_GRAPH_INSTANTIATE_PARAMS>,
) -> Result<()> {
    let mut values = params.get()?;
    let made = out.fill(|| graph::instantiate(graph, values.flags));
    values.hErrNode_out = CUgraphNode::NULL;
    values.result_out = match made {
        Ok(()) => CUgraphInstantiateResult::SUCCESS,
        Err(CUresult::NOT_SUPPORTED) => CUgraphInstantiateResult::NODE_OPERATION_NOT_SUPPORTED,
        Err(_) => CUgraphInstantiateResult::ERROR,
    };
    params.put(values)?;
    made
}
