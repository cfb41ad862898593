//! Nodes of graphs.
#![expect(unsafe_code, reason = "exports functions under C's names")]

use crate::call::{Result, exports, passes};
use crate::copy_3d::{self, Copy3d};
use crate::device;
use crate::driver::cu;
use crate::graph_params::{self as params, DriverKernelNode, NodeParams};
use crate::host;
use crate::symbol;

passes! {
    cudaGraphAddEmptyNode(out: u64, graph: u64, deps: u64, n_deps: usize) = cuGraphAddEmptyNode;
    cudaGraphAddChildGraphNode(
        out: u64, graph: u64, deps: u64, n_deps: usize, child: u64,
    ) = cuGraphAddChildGraphNode;
    cudaGraphChildGraphNodeGetGraph(node: u64, out: u64) = cuGraphChildGraphNodeGetGraph;
    cudaGraphExecChildGraphNodeSetParams(
        exec: u64, node: u64, child: u64,
    ) = cuGraphExecChildGraphNodeSetParams;

    cudaGraphAddHostNode(
        out: u64, graph: u64, deps: u64, n_deps: usize, params: u64,
    ) = cuGraphAddHostNode;
    cudaGraphHostNodeGetParams(node: u64, params: u64) = cuGraphHostNodeGetParams;
    cudaGraphHostNodeSetParams(node: u64, params: u64) = cuGraphHostNodeSetParams;
    cudaGraphExecHostNodeSetParams(
        exec: u64, node: u64, params: u64,
    ) = cuGraphExecHostNodeSetParams;

    cudaGraphAddEventRecordNode(
        out: u64, graph: u64, deps: u64, n_deps: usize, event: u64,
    ) = cuGraphAddEventRecordNode;
    cudaGraphEventRecordNodeGetEvent(node: u64, out: u64) = cuGraphEventRecordNodeGetEvent;
    cudaGraphEventRecordNodeSetEvent(node: u64, event: u64) = cuGraphEventRecordNodeSetEvent;
    cudaGraphExecEventRecordNodeSetEvent(
        exec: u64, node: u64, event: u64,
    ) = cuGraphExecEventRecordNodeSetEvent;
    cudaGraphAddEventWaitNode(
        out: u64, graph: u64, deps: u64, n_deps: usize, event: u64,
    ) = cuGraphAddEventWaitNode;
    cudaGraphEventWaitNodeGetEvent(node: u64, out: u64) = cuGraphEventWaitNodeGetEvent;
    cudaGraphEventWaitNodeSetEvent(node: u64, event: u64) = cuGraphEventWaitNodeSetEvent;
    cudaGraphExecEventWaitNodeSetEvent(
        exec: u64, node: u64, event: u64,
    ) = cuGraphExecEventWaitNodeSetEvent;

    cudaGraphAddMemAllocNode(
        out: u64, graph: u64, deps: u64, n_deps: usize, params: u64,
    ) = cuGraphAddMemAllocNode;
    cudaGraphMemAllocNodeGetParams(node: u64, params: u64) = cuGraphMemAllocNodeGetParams;
    cudaGraphAddMemFreeNode(
        out: u64, graph: u64, deps: u64, n_deps: usize, address: u64,
    ) = cuGraphAddMemFreeNode;
    cudaGraphMemFreeNodeGetParams(node: u64, out: u64) = cuGraphMemFreeNodeGetParams;

    cudaGraphMemsetNodeGetParams(node: u64, params: u64) = cuGraphMemsetNodeGetParams;
    cudaGraphMemsetNodeSetParams(node: u64, params: u64) = cuGraphMemsetNodeSetParams;

    cudaGraphKernelNodeGetAttribute(
        node: u64, attribute: u32, value: u64,
    ) = cuGraphKernelNodeGetAttribute;
    cudaGraphKernelNodeSetAttribute(
        node: u64, attribute: u32, value: u64,
    ) = cuGraphKernelNodeSetAttribute;
    #[cfg(cudart13)]
    cudaGraphKernelNodeCopyAttributes(to: u64, from: u64) = cuGraphKernelNodeCopyAttributes;
}

#[cfg(not(cudart13))]
exports! {
    /// Copies a node's attributes; the source is named first, unlike in the driver.
    fn cudaGraphKernelNodeCopyAttributes(from: u64, to: u64) {
        cu!(cuGraphKernelNodeCopyAttributes(to, from))
    }
}

exports! {
    /// A node that launches.
    fn cudaGraphAddKernelNode(out: u64, graph: u64, deps: u64, n_deps: usize, from: u64) {
        let driver = params::kernel(host::get(from)?)?;
        cu!(cuGraphAddKernelNode_v2(out, graph, deps, n_deps, &driver))
    }

    /// What a node launches.
    fn cudaGraphKernelNodeGetParams(node: u64, out: u64) {
        let mut driver: DriverKernelNode = host::zeroed();
        cu!(cuGraphKernelNodeGetParams_v2(node, &mut driver))?;
        host::put(out, params::kernel_back(&driver))
    }

    /// Changes what a node launches.
    fn cudaGraphKernelNodeSetParams(node: u64, from: u64) {
        let driver = params::kernel(host::get(from)?)?;
        cu!(cuGraphKernelNodeSetParams_v2(node, &driver))
    }

    /// Changes what a node launches.
    fn cudaGraphExecKernelNodeSetParams(exec: u64, node: u64, from: u64) {
        let driver = params::kernel(host::get(from)?)?;
        cu!(cuGraphExecKernelNodeSetParams_v2(exec, node, &driver))
    }

    /// A node that sets memory.
    fn cudaGraphAddMemsetNode(out: u64, graph: u64, deps: u64, n_deps: usize, from: u64) {
        cu!(cuGraphAddMemsetNode(out, graph, deps, n_deps, from, device::context()?))
    }

    /// Changes what a node sets.
    fn cudaGraphExecMemsetNodeSetParams(exec: u64, node: u64, from: u64) {
        cu!(cuGraphExecMemsetNodeSetParams(exec, node, from, device::context()?))
    }
}

// --- Copies ---

/// Where a new node goes.
struct Place {
    out: u64,
    graph: u64,
    deps: u64,
    n_deps: usize,
}

fn add_copy(place: &Place, copy: &Copy3d) -> Result {
    let Place {
        out,
        graph,
        deps,
        n_deps,
    } = *place;
    cu!(cuGraphAddMemcpyNode(
        out,
        graph,
        deps,
        n_deps,
        copy,
        device::context()?
    ))
}

fn set_copy(exec: Option<u64>, node: u64, copy: &Copy3d) -> Result {
    match exec {
        Some(exec) => cu!(cuGraphExecMemcpyNodeSetParams(
            exec,
            node,
            copy,
            device::context()?
        )),
        None => cu!(cuGraphMemcpyNodeSetParams(node, copy)),
    }
}

/// A copy to a variable.
fn to_symbol(symbol: u64, from: u64, count: usize, offset: usize, kind: u32) -> Result<Copy3d> {
    symbol::check_to(kind)?;
    params::bytes(symbol::part(symbol, offset, count)?, from, count, kind)
}

/// A copy of a variable.
fn from_symbol(to: u64, symbol: u64, count: usize, offset: usize, kind: u32) -> Result<Copy3d> {
    symbol::check_from(kind)?;
    params::bytes(to, symbol::part(symbol, offset, count)?, count, kind)
}

exports! {
    /// A node that copies a box.
    fn cudaGraphAddMemcpyNode(out: u64, graph: u64, deps: u64, n_deps: usize, from: u64) {
        add_copy(&Place { out, graph, deps, n_deps }, &copy_3d::of_parms(&host::get(from)?)?)
    }

    /// A node that copies bytes.
    fn cudaGraphAddMemcpyNode1D(
        out: u64, graph: u64, deps: u64, n_deps: usize, to: u64, from: u64, count: usize, kind: u32,
    ) {
        add_copy(&Place { out, graph, deps, n_deps }, &params::bytes(to, from, count, kind)?)
    }

    /// A node that copies to a variable.
    fn cudaGraphAddMemcpyNodeToSymbol(
        out: u64, graph: u64, deps: u64, n_deps: usize, symbol: u64, from: u64, count: usize,
        offset: usize, kind: u32,
    ) {
        add_copy(&Place { out, graph, deps, n_deps }, &to_symbol(symbol, from, count, offset, kind)?)
    }

    /// A node that copies of a variable.
    fn cudaGraphAddMemcpyNodeFromSymbol(
        out: u64, graph: u64, deps: u64, n_deps: usize, to: u64, symbol: u64, count: usize,
        offset: usize, kind: u32,
    ) {
        add_copy(&Place { out, graph, deps, n_deps }, &from_symbol(to, symbol, count, offset, kind)?)
    }

    /// What a node copies.
    fn cudaGraphMemcpyNodeGetParams(node: u64, out: u64) {
        let mut copy: Copy3d = host::zeroed();
        cu!(cuGraphMemcpyNodeGetParams(node, &mut copy))?;
        host::put(out, copy_3d::to_parms(&copy)?)
    }

    /// Changes what a node copies.
    fn cudaGraphMemcpyNodeSetParams(node: u64, from: u64) {
        set_copy(None, node, &copy_3d::of_parms(&host::get(from)?)?)
    }

    /// Changes what a node copies.
    fn cudaGraphMemcpyNodeSetParams1D(node: u64, to: u64, from: u64, count: usize, kind: u32) {
        set_copy(None, node, &params::bytes(to, from, count, kind)?)
    }

    /// Changes what a node copies.
    fn cudaGraphMemcpyNodeSetParamsToSymbol(
        node: u64, symbol: u64, from: u64, count: usize, offset: usize, kind: u32,
    ) {
        set_copy(None, node, &to_symbol(symbol, from, count, offset, kind)?)
    }

    /// Changes what a node copies.
    fn cudaGraphMemcpyNodeSetParamsFromSymbol(
        node: u64, to: u64, symbol: u64, count: usize, offset: usize, kind: u32,
    ) {
        set_copy(None, node, &from_symbol(to, symbol, count, offset, kind)?)
    }

    /// Changes what a node copies.
    fn cudaGraphExecMemcpyNodeSetParams(exec: u64, node: u64, from: u64) {
        set_copy(Some(exec), node, &copy_3d::of_parms(&host::get(from)?)?)
    }

    /// Changes what a node copies.
    fn cudaGraphExecMemcpyNodeSetParams1D(
        exec: u64, node: u64, to: u64, from: u64, count: usize, kind: u32,
    ) {
        set_copy(Some(exec), node, &params::bytes(to, from, count, kind)?)
    }

    /// Changes what a node copies.
    fn cudaGraphExecMemcpyNodeSetParamsToSymbol(
        exec: u64, node: u64, symbol: u64, from: u64, count: usize, offset: usize, kind: u32,
    ) {
        set_copy(Some(exec), node, &to_symbol(symbol, from, count, offset, kind)?)
    }

    /// Changes what a node copies.
    fn cudaGraphExecMemcpyNodeSetParamsFromSymbol(
        exec: u64, node: u64, to: u64, symbol: u64, count: usize, offset: usize, kind: u32,
    ) {
        set_copy(Some(exec), node, &from_symbol(to, symbol, count, offset, kind)?)
    }
}

// --- Nodes of any kind ---

/// Words of the parameters that the driver fills: the address that an allocation gets, and the
/// array of a conditional node's graphs.
fn give_back(from: u64, driver: &NodeParams) -> Result {
    const MEM_ALLOC: u32 = 10;
    const CONDITIONAL: u32 = 13;
    let mut params: NodeParams = host::get(from)?;
    let filled = match driver.kind {
        MEM_ALLOC => 14,
        CONDITIONAL => 2,
        _ => return Ok(()),
    };
    params.body[filled] = driver.body[filled];
    host::put(from, params)
}

fn add_any(place: &Place, edges: u64, from: u64) -> Result {
    let mut driver = params::any(&host::get(from)?)?;
    let Place {
        out,
        graph,
        deps,
        n_deps,
    } = *place;
    cu!(cuGraphAddNode_v2(
        out,
        graph,
        deps,
        edges,
        n_deps,
        &mut driver
    ))?;
    give_back(from, &driver)
}

exports! {
    /// Changes the parameters of a node.
    fn cudaGraphNodeSetParams(node: u64, from: u64) {
        cu!(cuGraphNodeSetParams(node, &mut params::any(&host::get(from)?)?))
    }

    /// Changes the parameters of a node.
    fn cudaGraphExecNodeSetParams(exec: u64, node: u64, from: u64) {
        cu!(cuGraphExecNodeSetParams(exec, node, &mut params::any(&host::get(from)?)?))
    }
}

#[cfg(not(cudart13))]
exports! {
    /// A node of any kind.
    fn cudaGraphAddNode(out: u64, graph: u64, deps: u64, n_deps: usize, from: u64) {
        add_any(&Place { out, graph, deps, n_deps }, 0, from)
    }

    /// A node of any kind.
    fn cudaGraphAddNode_v2(out: u64, graph: u64, deps: u64, edges: u64, n_deps: usize, from: u64) {
        add_any(&Place { out, graph, deps, n_deps }, edges, from)
    }
}

#[cfg(cudart13)]
exports! {
    /// A node of any kind.
    fn cudaGraphAddNode(out: u64, graph: u64, deps: u64, edges: u64, n_deps: usize, from: u64) {
        add_any(&Place { out, graph, deps, n_deps }, edges, from)
    }

    /// The parameters of a node.
    fn cudaGraphNodeGetParams(node: u64, out: u64) {
        let mut driver: NodeParams = host::zeroed();
        cu!(cuGraphNodeGetParams(node, &mut driver))?;
        host::put(out, params::any_back(&driver)?)
    }
}
