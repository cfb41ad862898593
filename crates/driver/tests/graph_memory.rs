//! Nodes that allocate and free memory, wait for values in it, or run graphs as a value says.

mod support;

use ptxjit_driver::memory::{alloc, copy};
use ptxjit_driver::types::*;
use ptxjit_driver::{Result, graph};
use support::{Gpu, address, params_of, step};

/// Adds a node; what the call tells of it comes back.
fn add_told(
    graph: CUgraph,
    deps: &[CUgraphNode],
    mut params: CUgraphNodeParams,
) -> Result<(CUgraphNode, CUgraphNodeParams)> {
    let arrays = [address(deps), HostPtr::NULL];
    let node = graph::add_node(graph, arrays, deps.len(), &mut params)?;
    Ok((node, params))
}

fn add(graph: CUgraph, deps: &[CUgraphNode], params: CUgraphNodeParams) -> Result<CUgraphNode> {
    add_told(graph, deps, params).map(|(node, _)| node)
}

fn allocation(bytesize: usize) -> CUgraphNodeParams {
    let mut params = CUDA_MEM_ALLOC_NODE_PARAMS {
        bytesize,
        ..CUDA_MEM_ALLOC_NODE_PARAMS::default()
    };
    params.poolProps.allocType = CUmemAllocationType::PINNED;
    params.poolProps.location.type_ = CUmemLocationType::DEVICE;
    params_of(CUgraphNodeType::MEM_ALLOC, params)
}

fn release(dptr: u64) -> CUgraphNodeParams {
    params_of(
        CUgraphNodeType::MEM_FREE,
        CUDA_MEM_FREE_NODE_PARAMS { dptr },
    )
}

fn fill(dst: u64, value: u32) -> CUgraphNodeParams {
    let fill = CUDA_MEMSET_NODE_PARAMS_v2 {
        dst,
        value,
        elementSize: 4,
        width: 1,
        height: 1,
        ..CUDA_MEMSET_NODE_PARAMS_v2::default()
    };
    params_of(CUgraphNodeType::MEMSET, fill)
}

#[test]
fn memory_that_a_graph_leaves_to_the_program() {
    let gpu = Gpu::new();
    let graph = graph::create(0).unwrap();
    let (node, told) = add_told(graph, &[], allocation(4)).unwrap();
    let ptr = told.alloc().dptr;
    assert_eq!(graph::get_params(node).unwrap().alloc().dptr, ptr);
    let filled = add(graph, &[node], fill(ptr, 5)).unwrap();
    add(graph, &[filled], gpu.node(&step(ptr, 10, 2)).params).unwrap();
    assert_eq!(
        alloc::free(ptr),
        Err(CUresult::INVALID_VALUE),
        "no launch has allocated it"
    );
    let exec = graph::instantiate(graph, 0).unwrap();
    assert_eq!(graph::instantiate(graph, 0), Err(CUresult::NOT_SUPPORTED));
    assert_eq!(graph::clone(graph), Err(CUresult::NOT_SUPPORTED));
    assert_eq!(graph::destroy_node(filled), Err(CUresult::NOT_SUPPORTED));
    graph::launch(exec, CUstream::NULL).unwrap();
    assert_eq!(
        graph::launch(exec, CUstream::NULL),
        Err(CUresult::INVALID_VALUE),
        "in use"
    );
    assert_eq!(gpu.get(ptr), 52);
    alloc::free(ptr).unwrap();
    assert_eq!(alloc::free(ptr), Err(CUresult::INVALID_VALUE));
    graph::launch(exec, CUstream::NULL).unwrap();
    graph::exec_destroy(exec).unwrap();
    graph::destroy(graph).unwrap();
    assert_eq!(gpu.get(ptr), 52, "it outlives its graph until it is freed");
    alloc::free(ptr).unwrap();
    assert_eq!(copy::on_device(ptr, ptr, 4), Err(CUresult::INVALID_VALUE));
}

#[test]
fn memory_that_a_graph_frees_itself() {
    let gpu = Gpu::new();
    let ptr = gpu.number(0);
    let graph = graph::create(0).unwrap();
    let (node, told) = add_told(graph, &[], allocation(1000)).unwrap();
    let own = told.alloc().dptr;
    let filled = add(graph, &[node], fill(own, 5)).unwrap();
    let freed = add(graph, &[filled], release(own)).unwrap();
    assert_eq!(
        add(graph, &[freed], release(own)),
        Err(CUresult::INVALID_VALUE),
        "twice"
    );
    assert_eq!(
        add(graph, &[freed], release(ptr)),
        Err(CUresult::INVALID_VALUE),
        "not a graph's"
    );
    assert_eq!(graph::get_params(freed).unwrap().free().dptr, own);
    let exec = graph::instantiate(graph, 0).unwrap();
    for _ in 0..3 {
        graph::launch(exec, CUstream::NULL).unwrap();
    }
    gpu.get(ptr);
    assert_eq!(alloc::free(own), Err(CUresult::INVALID_VALUE));
    assert_eq!(add(graph, &[], allocation(0)), Err(CUresult::INVALID_VALUE));
}

#[test]
fn an_update_does_not_move_memory() {
    let _gpu = Gpu::new();
    let made = || {
        let graph = graph::create(0).unwrap();
        (graph, add(graph, &[], allocation(4)).unwrap())
    };
    let ((graph, _), (other, node)) = (made(), made());
    let exec = graph::instantiate(graph, 0).unwrap();
    graph::exec_update(exec, graph).unwrap();
    let err = graph::exec_update(exec, other).unwrap_err();
    assert_eq!(
        err.result,
        CUgraphExecUpdateResult::ERROR_PARAMETERS_CHANGED
    );
    assert_eq!(
        (err.code, err.node),
        (CUresult::GRAPH_EXEC_UPDATE_FAILURE, node)
    );
}

#[test]
fn a_launch_can_free_what_the_one_before_has_left() {
    let _gpu = Gpu::new();
    let graph = graph::create(0).unwrap();
    let (_, told) = add_told(graph, &[], allocation(4)).unwrap();
    let flags = u64::from(CUgraphInstantiate_flags::AUTO_FREE_ON_LAUNCH.0);
    let exec = graph::instantiate(graph, flags).unwrap();
    graph::launch(exec, CUstream::NULL).unwrap();
    graph::launch(exec, CUstream::NULL).unwrap();
    let other = graph::create(0).unwrap();
    add(other, &[], release(told.alloc().dptr)).unwrap();
    let other = graph::instantiate(other, 0).unwrap();
    graph::launch(other, CUstream::NULL).unwrap();
    assert_eq!(
        graph::launch(other, CUstream::NULL),
        Err(CUresult::INVALID_VALUE)
    );
}

#[test]
fn operations_on_values_in_memory() {
    let gpu = Gpu::new();
    let ptr = gpu.number(0);
    let value = |operation, value: u32, flags| CUstreamBatchMemOpParams {
        bytes: Union::of(CUstreamMemOpValueParams {
            operation,
            address: ptr,
            value: Union::of(value),
            flags,
            alias: 0,
        }),
    };
    let ops = [
        value(CUstreamBatchMemOpType::WRITE_VALUE_32, 7, 0),
        value(
            CUstreamBatchMemOpType::WAIT_VALUE_32,
            7,
            CUstreamWaitValue_flags::EQ.0,
        ),
    ];
    let params = |count| {
        let params = CUDA_BATCH_MEM_OP_NODE_PARAMS {
            ctx: gpu.context,
            count,
            paramArray: address(&ops),
            flags: 0,
        };
        params_of(CUgraphNodeType::BATCH_MEM_OP, params)
    };
    let graph = graph::create(0).unwrap();
    let node = add(graph, &[], params(2)).unwrap();
    add(graph, &[node], gpu.node(&step(ptr, 10, 1)).params).unwrap();
    assert_eq!(add(graph, &[], params(0)), Err(CUresult::INVALID_VALUE));
    let exec = graph::instantiate(graph, 0).unwrap();
    graph::launch(exec, CUstream::NULL).unwrap();
    assert_eq!(gpu.get(ptr), 71);
    assert_eq!(graph::get_params(node).unwrap().mem_op().count, 2);
}

/// A conditional node and the graphs in it.
fn conditional(
    graph: CUgraph,
    handle: u64,
    type_: CUgraphConditionalNodeType,
    size: u32,
) -> Result<(CUgraphNode, Vec<CUgraph>)> {
    let params = CUDA_CONDITIONAL_NODE_PARAMS {
        handle,
        type_,
        size,
        ..CUDA_CONDITIONAL_NODE_PARAMS::default()
    };
    let params = params_of(CUgraphNodeType::CONDITIONAL, params);
    let (node, told) = add_told(graph, &[], params)?;
    let at = told.conditional().phGraph_out.0;
    let bodies = (0..u64::from(size)).map(|idx| ptxjit_driver::host::get(at + 8 * idx));
    Ok((node, bodies.collect::<Result<_>>().unwrap()))
}

fn handle(graph: CUgraph, default: u32) -> u64 {
    graph::conditional_handle_create(graph, CUcontext::NULL, default, 1).unwrap()
}

#[test]
fn a_loop_runs_until_a_kernel_sets_its_value() {
    let gpu = Gpu::new();
    let ptr = gpu.number(0);
    let graph = graph::create(0).unwrap();
    let value = handle(graph, 3);
    let kind = CUgraphConditionalNodeType::WHILE;
    let (_, bodies) = conditional(graph, value, kind, 1).unwrap();
    let counted = add(bodies[0], &[], gpu.node(&step(ptr, 10, 1)).params).unwrap();
    // The value is a number in memory, which kernels store to: one less each time.
    add(
        bodies[0],
        &[counted],
        gpu.node(&step(value, 1, u32::MAX)).params,
    )
    .unwrap();
    let exec = graph::instantiate(graph, 0).unwrap();
    graph::launch(exec, CUstream::NULL).unwrap();
    assert_eq!(gpu.get(ptr), 111);
    graph::launch(exec, CUstream::NULL).unwrap();
    assert_eq!(gpu.get(ptr), 111_111, "each launch begins with the default");
    assert_eq!(alloc::free(value), Err(CUresult::INVALID_VALUE));
}

#[test]
fn a_value_chooses_among_graphs() {
    let gpu = Gpu::new();
    for (kind, size, default, expected) in [
        (CUgraphConditionalNodeType::IF, 1, 7, 1),
        (CUgraphConditionalNodeType::IF, 1, 0, 0),
        (CUgraphConditionalNodeType::IF, 2, 0, 2),
        (CUgraphConditionalNodeType::SWITCH, 3, 0, 1),
        (CUgraphConditionalNodeType::SWITCH, 3, 2, 3),
        (CUgraphConditionalNodeType::SWITCH, 3, 3, 0),
    ] {
        let ptr = gpu.number(0);
        let graph = graph::create(0).unwrap();
        let (node, bodies) = conditional(graph, handle(graph, default), kind, size).unwrap();
        for (idx, &body) in bodies.iter().enumerate() {
            let args = step(ptr, 10, idx as u32 + 1);
            add(body, &[], gpu.node(&args).params).unwrap();
        }
        add(graph, &[node], gpu.node(&step(ptr, 10, 9)).params).unwrap();
        graph::launch(graph::instantiate(graph, 0).unwrap(), CUstream::NULL).unwrap();
        assert_eq!(
            gpu.get(ptr),
            expected * 10 + 9,
            "{kind:?} of {size}, value {default}"
        );
    }
}

#[test]
fn conditions_belong_to_one_node_of_their_graph() {
    let _gpu = Gpu::new();
    let (graph, other) = (graph::create(0).unwrap(), graph::create(0).unwrap());
    let (value, kind) = (handle(graph, 0), CUgraphConditionalNodeType::IF);
    let invalid = Some(CUresult::INVALID_VALUE);
    assert_eq!(conditional(other, value, kind, 1).err(), invalid);
    assert_eq!(conditional(graph, value, kind, 3).err(), invalid);
    assert_eq!(conditional(graph, 0x1234, kind, 1).err(), invalid);
    let unknown = CUgraphConditionalNodeType(9);
    assert_eq!(conditional(graph, value, unknown, 1).err(), invalid);
    let (_, bodies) = conditional(graph, value, kind, 1).unwrap();
    assert_eq!(conditional(graph, value, kind, 1).err(), invalid, "taken");
    assert_eq!(graph::destroy(bodies[0]), Err(CUresult::INVALID_VALUE));
    // What is a matter of streams cannot depend on a value.
    let event = ptxjit_driver::event::create(0).unwrap();
    let wait = params_of(
        CUgraphNodeType::WAIT_EVENT,
        CUDA_EVENT_WAIT_NODE_PARAMS { event },
    );
    add(bodies[0], &[], wait).unwrap();
    assert_eq!(graph::instantiate(graph, 0), Err(CUresult::NOT_SUPPORTED));
    graph::destroy(graph).unwrap();
    assert_eq!(conditional(other, value, kind, 1).err(), invalid);
    let made = graph::conditional_handle_create(other, CUcontext::NULL, 0, 2);
    assert_eq!(made, Err(CUresult::INVALID_VALUE));
}
