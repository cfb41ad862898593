//! Graphs as a whole: building, instantiating, running.
#![expect(unsafe_code, reason = "exports functions under C's names")]

use crate::call::{exports, passes};
use crate::device;
use crate::driver::cu;

passes! {
    cudaGraphCreate(out: u64, flags: u32) = cuGraphCreate;
    cudaGraphDestroy(graph: u64) = cuGraphDestroy;
    cudaGraphClone(out: u64, graph: u64) = cuGraphClone;
    cudaGraphDebugDotPrint(graph: u64, path: u64, flags: u32) = cuGraphDebugDotPrint;
    cudaGraphGetNodes(graph: u64, nodes: u64, count: u64) = cuGraphGetNodes;
    cudaGraphGetRootNodes(graph: u64, nodes: u64, count: u64) = cuGraphGetRootNodes;
    cudaGraphDestroyNode(node: u64) = cuGraphDestroyNode;
    cudaGraphNodeFindInClone(out: u64, node: u64, graph: u64) = cuGraphNodeFindInClone;
    cudaGraphNodeGetType(node: u64, out: u64) = cuGraphNodeGetType;
    cudaGraphNodeGetEnabled(exec: u64, node: u64, out: u64) = cuGraphNodeGetEnabled;
    cudaGraphNodeSetEnabled(exec: u64, node: u64, is_enabled: u32) = cuGraphNodeSetEnabled;

    cudaGraphInstantiate(out: u64, graph: u64, flags: u64) = cuGraphInstantiateWithFlags;
    cudaGraphInstantiateWithFlags(out: u64, graph: u64, flags: u64) = cuGraphInstantiateWithFlags;
    cudaGraphInstantiateWithParams(
        out: u64, graph: u64, params: u64,
    ) or cudaGraphInstantiateWithParams_ptsz = cuGraphInstantiateWithParams;
    cudaGraphLaunch(exec: u64, stream: u64) or cudaGraphLaunch_ptsz = cuGraphLaunch;
    cudaGraphUpload(exec: u64, stream: u64) or cudaGraphUpload_ptsz = cuGraphUpload;
    cudaGraphExecDestroy(exec: u64) = cuGraphExecDestroy;
    cudaGraphExecGetFlags(exec: u64, out: u64) = cuGraphExecGetFlags;
    cudaGraphExecUpdate(exec: u64, graph: u64, info: u64) = cuGraphExecUpdate_v2;

    cudaUserObjectCreate(
        out: u64, pointer: u64, destroy: u64, count: u32, flags: u32,
    ) = cuUserObjectCreate;
    cudaUserObjectRetain(object: u64, count: u32) = cuUserObjectRetain;
    cudaUserObjectRelease(object: u64, count: u32) = cuUserObjectRelease;
    cudaGraphRetainUserObject(
        graph: u64, object: u64, count: u32, flags: u32,
    ) = cuGraphRetainUserObject;
    cudaGraphReleaseUserObject(graph: u64, object: u64, count: u32) = cuGraphReleaseUserObject;

    #[cfg(not(cudart13))]
    cudaGraphAddDependencies(graph: u64, from: u64, to: u64, count: usize) = cuGraphAddDependencies;
    #[cfg(not(cudart13))]
    cudaGraphAddDependencies_v2(
        graph: u64, from: u64, to: u64, edges: u64, count: usize,
    ) = cuGraphAddDependencies_v2;
    #[cfg(not(cudart13))]
    cudaGraphRemoveDependencies(
        graph: u64, from: u64, to: u64, count: usize,
    ) = cuGraphRemoveDependencies;
    #[cfg(not(cudart13))]
    cudaGraphRemoveDependencies_v2(
        graph: u64, from: u64, to: u64, edges: u64, count: usize,
    ) = cuGraphRemoveDependencies_v2;
    #[cfg(not(cudart13))]
    cudaGraphGetEdges(graph: u64, from: u64, to: u64, count: u64) = cuGraphGetEdges;
    #[cfg(not(cudart13))]
    cudaGraphGetEdges_v2(
        graph: u64, from: u64, to: u64, edges: u64, count: u64,
    ) = cuGraphGetEdges_v2;
    #[cfg(not(cudart13))]
    cudaGraphNodeGetDependencies(node: u64, nodes: u64, count: u64) = cuGraphNodeGetDependencies;
    #[cfg(not(cudart13))]
    cudaGraphNodeGetDependencies_v2(
        node: u64, nodes: u64, edges: u64, count: u64,
    ) = cuGraphNodeGetDependencies_v2;
    #[cfg(not(cudart13))]
    cudaGraphNodeGetDependentNodes(
        node: u64, nodes: u64, count: u64,
    ) = cuGraphNodeGetDependentNodes;
    #[cfg(not(cudart13))]
    cudaGraphNodeGetDependentNodes_v2(
        node: u64, nodes: u64, edges: u64, count: u64,
    ) = cuGraphNodeGetDependentNodes_v2;

    #[cfg(cudart13)]
    cudaGraphAddDependencies(
        graph: u64, from: u64, to: u64, edges: u64, count: usize,
    ) = cuGraphAddDependencies_v2;
    #[cfg(cudart13)]
    cudaGraphRemoveDependencies(
        graph: u64, from: u64, to: u64, edges: u64, count: usize,
    ) = cuGraphRemoveDependencies_v2;
    #[cfg(cudart13)]
    cudaGraphGetEdges(graph: u64, from: u64, to: u64, edges: u64, count: u64) = cuGraphGetEdges_v2;
    #[cfg(cudart13)]
    cudaGraphNodeGetDependencies(
        node: u64, nodes: u64, edges: u64, count: u64,
    ) = cuGraphNodeGetDependencies_v2;
    #[cfg(cudart13)]
    cudaGraphNodeGetDependentNodes(
        node: u64, nodes: u64, edges: u64, count: u64,
    ) = cuGraphNodeGetDependentNodes_v2;
    #[cfg(cudart13)]
    cudaGraphGetId(graph: u64, out: u64) = cuGraphGetId;
    #[cfg(cudart13)]
    cudaGraphExecGetId(exec: u64, out: u64) = cuGraphExecGetId;
    #[cfg(cudart13)]
    cudaGraphNodeGetContainingGraph(node: u64, out: u64) = cuGraphNodeGetContainingGraph;
    #[cfg(cudart13)]
    cudaGraphNodeGetLocalId(node: u64, out: u64) = cuGraphNodeGetLocalId;
    #[cfg(cudart13)]
    cudaGraphNodeGetToolsId(node: u64, out: u64) = cuGraphNodeGetToolsId;
}

exports! {
    /// A handle by which kernels decide what a graph does.
    fn cudaGraphConditionalHandleCreate(out: u64, graph: u64, value: u32, flags: u32) {
        cu!(cuGraphConditionalHandleCreate(out, graph, device::context()?, value, flags))
    }
}

#[cfg(cudart13)]
exports! {
    /// A handle by which kernels decide what a graph does. Contexts of execution are not there.
    fn cudaGraphConditionalHandleCreate_v2(
        out: u64, graph: u64, context: u64, value: u32, flags: u32,
    ) {
        if context != 0 {
            return Err(crate::call::Code::NOT_SUPPORTED);
        }
        cu!(cuGraphConditionalHandleCreate(out, graph, device::context()?, value, flags))
    }
}
