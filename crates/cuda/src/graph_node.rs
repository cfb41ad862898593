//! Nodes of graphs, kind by kind. The functions for one kind pass parameters on in the form that
//! all kinds have.
#![expect(unsafe_code, reason = "exports functions under C's names")]

use ptxjit_driver::graph;
use ptxjit_driver::types::{
    CUDA_BATCH_MEM_OP_NODE_PARAMS, CUDA_CHILD_GRAPH_NODE_PARAMS, CUDA_EVENT_RECORD_NODE_PARAMS,
    CUDA_EVENT_WAIT_NODE_PARAMS, CUDA_HOST_NODE_PARAMS_v1, CUDA_HOST_NODE_PARAMS_v2,
    CUDA_KERNEL_NODE_PARAMS_v1, CUDA_KERNEL_NODE_PARAMS_v2, CUDA_MEM_ALLOC_NODE_PARAMS,
    CUDA_MEM_FREE_NODE_PARAMS, CUDA_MEMCPY_NODE_PARAMS, CUDA_MEMCPY3D_v2,
    CUDA_MEMSET_NODE_PARAMS_v1, CUDA_MEMSET_NODE_PARAMS_v2, CUcontext, CUdeviceptr, CUevent,
    CUgraph, CUgraphExec, CUgraphMem_attribute, CUgraphNode, CUgraphNodeParams, CUgraphNodeType,
    CUlaunchAttributeID, CUlaunchAttributeValue, CUresult, HostPtr, Raw, Union,
};
use ptxjit_driver::{Result, host};

use crate::call::{Out, exports};

/// Where a function that adds a node finds its dependencies.
struct Deps {
    nodes: HostPtr,
    data: HostPtr,
    count: usize,
}

/// Dependencies whose edges mean what is usual.
fn plain(nodes: HostPtr, count: usize) -> Deps {
    let data = HostPtr::NULL;
    Deps { nodes, data, count }
}

/// Parameters of one kind in the form that all have.
fn of<T: Raw>(type_: CUgraphNodeType, params: T) -> CUgraphNodeParams {
    CUgraphNodeParams {
        type_,
        params: Union::of(params),
        ..CUgraphNodeParams::default()
    }
}

fn add(out: Out<CUgraphNode>, graph: CUgraph, deps: Deps, params: CUgraphNodeParams) -> Result<()> {
    let mut params = params;
    out.fill(|| graph::add_node(graph, [deps.nodes, deps.data], deps.count, &mut params))
}

/// Adds a node of any kind. The call may write results to the parameters.
fn add_any(
    out: Out<CUgraphNode>,
    graph: CUgraph,
    deps: Deps,
    params: Out<CUgraphNodeParams>,
) -> Result<()> {
    let before = params.get()?;
    let mut values = before;
    out.fill(|| graph::add_node(graph, [deps.nodes, deps.data], deps.count, &mut values))?;
    match values == before {
        true => Ok(()),
        false => params.put(values),
    }
}

/// The parameters of a node, which must be of this kind.
fn get(node: CUgraphNode, kind: CUgraphNodeType) -> Result<CUgraphNodeParams> {
    let params = graph::get_params(node)?;
    match params.type_ == kind {
        true => Ok(params),
        false => Err(CUresult::INVALID_VALUE),
    }
}

fn kernel_v1(params: HostPtr) -> Result<CUgraphNodeParams> {
    let params: CUDA_KERNEL_NODE_PARAMS_v1 = host::get(params.0)?;
    Ok(of(
        CUgraphNodeType::KERNEL,
        CUDA_KERNEL_NODE_PARAMS_v2 {
            func: params.func,
            gridDimX: params.gridDimX,
            gridDimY: params.gridDimY,
            gridDimZ: params.gridDimZ,
            blockDimX: params.blockDimX,
            blockDimY: params.blockDimY,
            blockDimZ: params.blockDimZ,
            sharedMemBytes: params.sharedMemBytes,
            kernelParams: params.kernelParams,
            extra: params.extra,
            ..CUDA_KERNEL_NODE_PARAMS_v2::default()
        },
    ))
}

fn kernel_v2(params: HostPtr) -> Result<CUgraphNodeParams> {
    let params: CUDA_KERNEL_NODE_PARAMS_v2 = host::get(params.0)?;
    Ok(of(CUgraphNodeType::KERNEL, params))
}

fn get_kernel_v1(params: &CUgraphNodeParams) -> CUDA_KERNEL_NODE_PARAMS_v1 {
    let params = params.kernel();
    CUDA_KERNEL_NODE_PARAMS_v1 {
        func: params.func,
        gridDimX: params.gridDimX,
        gridDimY: params.gridDimY,
        gridDimZ: params.gridDimZ,
        blockDimX: params.blockDimX,
        blockDimY: params.blockDimY,
        blockDimZ: params.blockDimZ,
        sharedMemBytes: params.sharedMemBytes,
        kernelParams: params.kernelParams,
        extra: params.extra,
    }
}

fn memcpy(params: HostPtr, context: CUcontext) -> Result<CUgraphNodeParams> {
    let params: CUDA_MEMCPY3D_v2 = host::get(params.0)?;
    Ok(of(
        CUgraphNodeType::MEMCPY,
        CUDA_MEMCPY_NODE_PARAMS {
            copyCtx: context,
            copyParams: params,
            ..CUDA_MEMCPY_NODE_PARAMS::default()
        },
    ))
}

fn memset(params: HostPtr, context: CUcontext) -> Result<CUgraphNodeParams> {
    let params: CUDA_MEMSET_NODE_PARAMS_v1 = host::get(params.0)?;
    Ok(of(
        CUgraphNodeType::MEMSET,
        CUDA_MEMSET_NODE_PARAMS_v2 {
            dst: params.dst,
            pitch: params.pitch,
            value: params.value,
            elementSize: params.elementSize,
            width: params.width,
            height: params.height,
            ctx: context,
        },
    ))
}

fn get_memset(params: &CUgraphNodeParams) -> CUDA_MEMSET_NODE_PARAMS_v1 {
    let params = params.memset();
    CUDA_MEMSET_NODE_PARAMS_v1 {
        dst: params.dst,
        pitch: params.pitch,
        value: params.value,
        elementSize: params.elementSize,
        width: params.width,
        height: params.height,
    }
}

fn host_function(params: HostPtr) -> Result<CUgraphNodeParams> {
    let params: CUDA_HOST_NODE_PARAMS_v1 = host::get(params.0)?;
    Ok(of(
        CUgraphNodeType::HOST,
        CUDA_HOST_NODE_PARAMS_v2 {
            fn_: params.fn_,
            userData: params.userData,
            ..CUDA_HOST_NODE_PARAMS_v2::default()
        },
    ))
}

fn get_host(params: &CUgraphNodeParams) -> CUDA_HOST_NODE_PARAMS_v1 {
    let params = params.host();
    CUDA_HOST_NODE_PARAMS_v1 {
        fn_: params.fn_,
        userData: params.userData,
    }
}

fn mem_ops(params: HostPtr) -> Result<CUgraphNodeParams> {
    let params: CUDA_BATCH_MEM_OP_NODE_PARAMS = host::get(params.0)?;
    Ok(of(CUgraphNodeType::BATCH_MEM_OP, params))
}

fn event_record(event: CUevent) -> CUgraphNodeParams {
    let ctx = CUcontext::NULL;
    of(
        CUgraphNodeType::EVENT_RECORD,
        CUDA_EVENT_RECORD_NODE_PARAMS { event, ctx },
    )
}

fn event_wait(event: CUevent) -> CUgraphNodeParams {
    of(
        CUgraphNodeType::WAIT_EVENT,
        CUDA_EVENT_WAIT_NODE_PARAMS { event },
    )
}

fn child(graph: CUgraph) -> CUgraphNodeParams {
    of(
        CUgraphNodeType::GRAPH,
        CUDA_CHILD_GRAPH_NODE_PARAMS {
            graph,
            ..CUDA_CHILD_GRAPH_NODE_PARAMS::default()
        },
    )
}

exports! {
    // --- Any kind ---

    /// Adds a node.
    fn cuGraphAddNode(
        out: Out<CUgraphNode>, graph: CUgraph, nodes: HostPtr, count: usize,
        params: Out<CUgraphNodeParams>,
    ) {
        add_any(out, graph, plain(nodes, count), params)
    }

    /// Adds a node, and says what edges mean.
    fn cuGraphAddNode_v2(
        out: Out<CUgraphNode>, graph: CUgraph, nodes: HostPtr, data: HostPtr, count: usize,
        params: Out<CUgraphNodeParams>,
    ) {
        add_any(out, graph, Deps { nodes, data, count }, params)
    }

    /// Adds a node, and says what edges mean.
    fn cuGraphAddNode_v3(
        out: Out<CUgraphNode>, graph: CUgraph, nodes: HostPtr, data: HostPtr, count: usize,
        params: Out<CUgraphNodeParams>,
    ) {
        add_any(out, graph, Deps { nodes, data, count }, params)
    }

    /// Parameters of a node.
    fn cuGraphNodeGetParams(node: CUgraphNode, out: Out<CUgraphNodeParams>) {
        out.fill(|| graph::get_params(node))
    }

    /// Sets parameters of a node.
    fn cuGraphNodeSetParams(node: CUgraphNode, params: HostPtr) {
        graph::set_params(node, &host::get(params.0)?)
    }

    /// Sets parameters of a node.
    fn cuGraphNodeSetParams_v2(node: CUgraphNode, params: HostPtr) {
        graph::set_params(node, &host::get(params.0)?)
    }

    /// Sets parameters of a node for later launches.
    fn cuGraphExecNodeSetParams(exec: CUgraphExec, node: CUgraphNode, params: HostPtr) {
        graph::exec_set_params(exec, node, &host::get(params.0)?)
    }

    // --- Kernels ---

    /// Adds a kernel.
    fn cuGraphAddKernelNode(
        out: Out<CUgraphNode>, graph: CUgraph, nodes: HostPtr, count: usize, params: HostPtr,
    ) {
        add(out, graph, plain(nodes, count), kernel_v1(params)?)
    }

    /// Adds a kernel.
    fn cuGraphAddKernelNode_v2(
        out: Out<CUgraphNode>, graph: CUgraph, nodes: HostPtr, count: usize, params: HostPtr,
    ) {
        add(out, graph, plain(nodes, count), kernel_v2(params)?)
    }

    /// Parameters of a kernel.
    fn cuGraphKernelNodeGetParams(node: CUgraphNode, out: Out<CUDA_KERNEL_NODE_PARAMS_v1>) {
        out.fill(|| Ok(get_kernel_v1(&get(node, CUgraphNodeType::KERNEL)?)))
    }

    /// Parameters of a kernel.
    fn cuGraphKernelNodeGetParams_v2(node: CUgraphNode, out: Out<CUDA_KERNEL_NODE_PARAMS_v2>) {
        out.fill(|| Ok(get(node, CUgraphNodeType::KERNEL)?.kernel()))
    }

    /// Sets parameters of a kernel.
    fn cuGraphKernelNodeSetParams(node: CUgraphNode, params: HostPtr) {
        graph::set_params(node, &kernel_v1(params)?)
    }

    /// Sets parameters of a kernel.
    fn cuGraphKernelNodeSetParams_v2(node: CUgraphNode, params: HostPtr) {
        graph::set_params(node, &kernel_v2(params)?)
    }

    /// Sets parameters of a kernel for later launches.
    fn cuGraphExecKernelNodeSetParams(exec: CUgraphExec, node: CUgraphNode, params: HostPtr) {
        graph::exec_set_params(exec, node, &kernel_v1(params)?)
    }

    /// Sets parameters of a kernel for later launches.
    fn cuGraphExecKernelNodeSetParams_v2(exec: CUgraphExec, node: CUgraphNode, params: HostPtr) {
        graph::exec_set_params(exec, node, &kernel_v2(params)?)
    }

    /// An attribute of a kernel.
    fn cuGraphKernelNodeGetAttribute(
        node: CUgraphNode, id: CUlaunchAttributeID, out: Out<CUlaunchAttributeValue>,
    ) {
        out.fill(|| graph::get_attribute(node, id))
    }

    /// Sets an attribute of a kernel.
    fn cuGraphKernelNodeSetAttribute(node: CUgraphNode, id: CUlaunchAttributeID, value: HostPtr) {
        graph::set_attribute(node, id, host::get(value.0)?)
    }

    /// Gives a kernel the attributes of another one.
    fn cuGraphKernelNodeCopyAttributes(to: CUgraphNode, from: CUgraphNode) {
        graph::copy_attributes(to, from)
    }

    // --- Copies ---

    /// Adds a copy.
    fn cuGraphAddMemcpyNode(
        out: Out<CUgraphNode>, graph: CUgraph, nodes: HostPtr, count: usize, params: HostPtr,
        context: CUcontext,
    ) {
        add(out, graph, plain(nodes, count), memcpy(params, context)?)
    }

    /// Parameters of a copy.
    fn cuGraphMemcpyNodeGetParams(node: CUgraphNode, out: Out<CUDA_MEMCPY3D_v2>) {
        out.fill(|| Ok(get(node, CUgraphNodeType::MEMCPY)?.memcpy().copyParams))
    }

    /// Sets parameters of a copy.
    fn cuGraphMemcpyNodeSetParams(node: CUgraphNode, params: HostPtr) {
        let context = get(node, CUgraphNodeType::MEMCPY)?.memcpy().copyCtx;
        graph::set_params(node, &memcpy(params, context)?)
    }

    /// Sets parameters of a copy for later launches.
    fn cuGraphExecMemcpyNodeSetParams(
        exec: CUgraphExec, node: CUgraphNode, params: HostPtr, context: CUcontext,
    ) {
        graph::exec_set_params(exec, node, &memcpy(params, context)?)
    }

    // --- Memsets ---

    /// Adds a memset.
    fn cuGraphAddMemsetNode(
        out: Out<CUgraphNode>, graph: CUgraph, nodes: HostPtr, count: usize, params: HostPtr,
        context: CUcontext,
    ) {
        add(out, graph, plain(nodes, count), memset(params, context)?)
    }

    /// Parameters of a memset.
    fn cuGraphMemsetNodeGetParams(node: CUgraphNode, out: Out<CUDA_MEMSET_NODE_PARAMS_v1>) {
        out.fill(|| Ok(get_memset(&get(node, CUgraphNodeType::MEMSET)?)))
    }

    /// Sets parameters of a memset.
    fn cuGraphMemsetNodeSetParams(node: CUgraphNode, params: HostPtr) {
        let context = get(node, CUgraphNodeType::MEMSET)?.memset().ctx;
        graph::set_params(node, &memset(params, context)?)
    }

    /// Sets parameters of a memset for later launches.
    fn cuGraphExecMemsetNodeSetParams(
        exec: CUgraphExec, node: CUgraphNode, params: HostPtr, context: CUcontext,
    ) {
        graph::exec_set_params(exec, node, &memset(params, context)?)
    }

    // --- Functions of the program ---

    /// Adds a function of the program.
    fn cuGraphAddHostNode(
        out: Out<CUgraphNode>, graph: CUgraph, nodes: HostPtr, count: usize, params: HostPtr,
    ) {
        add(out, graph, plain(nodes, count), host_function(params)?)
    }

    /// A node's function and its argument.
    fn cuGraphHostNodeGetParams(node: CUgraphNode, out: Out<CUDA_HOST_NODE_PARAMS_v1>) {
        out.fill(|| Ok(get_host(&get(node, CUgraphNodeType::HOST)?)))
    }

    /// Sets a node's function and its argument.
    fn cuGraphHostNodeSetParams(node: CUgraphNode, params: HostPtr) {
        graph::set_params(node, &host_function(params)?)
    }

    /// Sets a node's function and its argument for later launches.
    fn cuGraphExecHostNodeSetParams(exec: CUgraphExec, node: CUgraphNode, params: HostPtr) {
        graph::exec_set_params(exec, node, &host_function(params)?)
    }

    // --- Graphs and nothing ---

    /// Adds a node that does nothing.
    fn cuGraphAddEmptyNode(out: Out<CUgraphNode>, graph: CUgraph, nodes: HostPtr, count: usize) {
        add(out, graph, plain(nodes, count), of(CUgraphNodeType::EMPTY, 0_u64))
    }

    /// Adds a copy of a graph.
    fn cuGraphAddChildGraphNode(
        out: Out<CUgraphNode>, graph: CUgraph, nodes: HostPtr, count: usize, inner: CUgraph,
    ) {
        add(out, graph, plain(nodes, count), child(inner))
    }

    /// The graph in a node.
    fn cuGraphChildGraphNodeGetGraph(node: CUgraphNode, out: Out<CUgraph>) {
        out.fill(|| graph::child_graph(node))
    }

    /// Takes over the parameters of a graph for the one in a node, for later launches.
    fn cuGraphExecChildGraphNodeSetParams(exec: CUgraphExec, node: CUgraphNode, inner: CUgraph) {
        graph::exec_set_params(exec, node, &child(inner))
    }

    // --- Events ---

    /// Adds a record of an event.
    fn cuGraphAddEventRecordNode(
        out: Out<CUgraphNode>, graph: CUgraph, nodes: HostPtr, count: usize, event: CUevent,
    ) {
        add(out, graph, plain(nodes, count), event_record(event))
    }

    /// The event that a node records.
    fn cuGraphEventRecordNodeGetEvent(node: CUgraphNode, out: Out<CUevent>) {
        out.fill(|| Ok(get(node, CUgraphNodeType::EVENT_RECORD)?.event_record().event))
    }

    /// Sets the event that a node records.
    fn cuGraphEventRecordNodeSetEvent(node: CUgraphNode, event: CUevent) {
        graph::set_params(node, &event_record(event))
    }

    /// Sets the event that a node records, for later launches.
    fn cuGraphExecEventRecordNodeSetEvent(exec: CUgraphExec, node: CUgraphNode, event: CUevent) {
        graph::exec_set_params(exec, node, &event_record(event))
    }

    /// Adds a wait for an event.
    fn cuGraphAddEventWaitNode(
        out: Out<CUgraphNode>, graph: CUgraph, nodes: HostPtr, count: usize, event: CUevent,
    ) {
        add(out, graph, plain(nodes, count), event_wait(event))
    }

    /// The event that a node waits for.
    fn cuGraphEventWaitNodeGetEvent(node: CUgraphNode, out: Out<CUevent>) {
        out.fill(|| Ok(get(node, CUgraphNodeType::WAIT_EVENT)?.event_wait().event))
    }

    /// Sets the event that a node waits for.
    fn cuGraphEventWaitNodeSetEvent(node: CUgraphNode, event: CUevent) {
        graph::set_params(node, &event_wait(event))
    }

    /// Sets the event that a node waits for, for later launches.
    fn cuGraphExecEventWaitNodeSetEvent(exec: CUgraphExec, node: CUgraphNode, event: CUevent) {
        graph::exec_set_params(exec, node, &event_wait(event))
    }

    // --- Memory ---

    /// Adds an allocation; its address is written to the parameters.
    fn cuGraphAddMemAllocNode(
        out: Out<CUgraphNode>, graph: CUgraph, nodes: HostPtr, count: usize,
        params: Out<CUDA_MEM_ALLOC_NODE_PARAMS>,
    ) {
        let mut values = of(CUgraphNodeType::MEM_ALLOC, params.get()?);
        out.fill(|| graph::add_node(graph, [nodes, HostPtr::NULL], count, &mut values))?;
        let mut told = params.get()?;
        told.dptr = values.alloc().dptr;
        params.put(told)
    }

    /// Parameters of an allocation.
    fn cuGraphMemAllocNodeGetParams(node: CUgraphNode, out: Out<CUDA_MEM_ALLOC_NODE_PARAMS>) {
        out.fill(|| Ok(get(node, CUgraphNodeType::MEM_ALLOC)?.alloc()))
    }

    /// Adds the end of an allocation.
    fn cuGraphAddMemFreeNode(
        out: Out<CUgraphNode>, graph: CUgraph, nodes: HostPtr, count: usize, address: CUdeviceptr,
    ) {
        let params = CUDA_MEM_FREE_NODE_PARAMS { dptr: address };
        add(out, graph, plain(nodes, count), of(CUgraphNodeType::MEM_FREE, params))
    }

    /// The address that a node frees.
    fn cuGraphMemFreeNodeGetParams(node: CUgraphNode, out: Out<CUdeviceptr>) {
        out.fill(|| Ok(get(node, CUgraphNodeType::MEM_FREE)?.free().dptr))
    }

    /// Gives memory back that no graph uses.
    fn cuDeviceGraphMemTrim(device: i32) {
        graph::device_mem_trim(device)
    }

    /// How much memory graphs use.
    fn cuDeviceGetGraphMemAttribute(device: i32, attribute: CUgraphMem_attribute, out: Out<u64>) {
        out.fill(|| graph::device_get_mem_attribute(device, attribute))
    }

    /// Resets how much memory graphs have used.
    fn cuDeviceSetGraphMemAttribute(device: i32, attribute: CUgraphMem_attribute, value: Out<u64>) {
        graph::device_set_mem_attribute(device, attribute, value.get()?)
    }

    // --- Values in memory ---

    /// Adds waits for values and writes.
    fn cuGraphAddBatchMemOpNode(
        out: Out<CUgraphNode>, graph: CUgraph, nodes: HostPtr, count: usize, params: HostPtr,
    ) {
        add(out, graph, plain(nodes, count), mem_ops(params)?)
    }

    /// Operations of a node.
    fn cuGraphBatchMemOpNodeGetParams(node: CUgraphNode, out: Out<CUDA_BATCH_MEM_OP_NODE_PARAMS>) {
        out.fill(|| Ok(get(node, CUgraphNodeType::BATCH_MEM_OP)?.mem_op()))
    }

    /// Sets operations of a node.
    fn cuGraphBatchMemOpNodeSetParams(node: CUgraphNode, params: HostPtr) {
        graph::set_params(node, &mem_ops(params)?)
    }

    /// Sets operations of a node for later launches.
    fn cuGraphExecBatchMemOpNodeSetParams(exec: CUgraphExec, node: CUgraphNode, params: HostPtr) {
        graph::exec_set_params(exec, node, &mem_ops(params)?)
    }

    // --- Conditions ---

    /// Makes a value that kernels set and a conditional node looks at.
    fn cuGraphConditionalHandleCreate(
        out: Out<u64>, graph: CUgraph, context: CUcontext, default: u32, flags: u32,
    ) {
        out.fill(|| graph::conditional_handle_create(graph, context, default, flags))
    }
}
