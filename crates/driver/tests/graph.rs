//! Graphs: building, running, changing and breaking them.

mod support;

use std::sync::atomic::{AtomicU32, Ordering};

use ptxjit_driver::types::*;
use ptxjit_driver::{Result, context, event, graph, stream};
use support::{Gpu, address, params_of, step};

/// Adds a node.
fn add(graph: CUgraph, deps: &[CUgraphNode], params: CUgraphNodeParams) -> Result<CUgraphNode> {
    let mut params = params;
    graph::add_node(
        graph,
        [address(deps), HostPtr::NULL],
        deps.len(),
        &mut params,
    )
}

fn empty() -> CUgraphNodeParams {
    params_of(CUgraphNodeType::EMPTY, 0_u64)
}

fn connect(graph: CUgraph, from: CUgraphNode, to: CUgraphNode) -> Result<()> {
    graph::add_dependencies(graph, [address(&from), address(&to), HostPtr::NULL], 1)
}

fn disconnect(graph: CUgraph, from: CUgraphNode, to: CUgraphNode) -> Result<()> {
    graph::remove_dependencies(graph, [address(&from), address(&to), HostPtr::NULL], 1)
}

/// A graph of `steps` on one number, each after the one before.
fn chain(gpu: &Gpu, ptr: u64, steps: &[(u32, u32)]) -> (CUgraph, Vec<CUgraphNode>) {
    let graph = graph::create(0).unwrap();
    let mut nodes: Vec<CUgraphNode> = Vec::new();
    for &(a, b) in steps {
        let last = nodes.last().copied();
        let args = step(ptr, a, b);
        let node = add(graph, last.as_slice(), gpu.node(&args).params);
        nodes.push(node.unwrap());
    }
    (graph, nodes)
}

fn launch(exec: CUgraphExec) {
    graph::launch(exec, CUstream::NULL).unwrap();
}

#[test]
fn a_node_may_learn_its_grid_in_the_executable_graph() {
    let gpu = Gpu::new();
    let ptr = gpu.number(1);
    let graph = graph::create(0).unwrap();
    let args = step(ptr, 3, 1);
    let node = add(graph, &[], gpu.node_of_blocks(&args, 0).params).unwrap();
    let exec = graph::instantiate(graph, 0).unwrap();
    graph::exec_set_params(exec, node, &gpu.node(&args).params).unwrap();
    launch(exec);
    assert_eq!(gpu.get(ptr), 4);
}

#[test]
fn nodes_run_in_order_and_arguments_are_copied() {
    let gpu = Gpu::new();
    let ptr = gpu.number(1);
    let (graph, nodes) = chain(&gpu, ptr, &[(3, 1), (5, 2), (7, 3)]);
    let exec = graph::instantiate(graph, 0).unwrap();
    launch(exec);
    assert_eq!(gpu.get(ptr), ((3 + 1) * 5 + 2) * 7 + 3);
    // Other parameters of the graph's node mean nothing to what was instantiated before.
    let other = step(ptr, 0, 9);
    graph::set_params(nodes[2], &gpu.node(&other).params).unwrap();
    gpu.set(ptr, 1);
    launch(exec);
    assert_eq!(gpu.get(ptr), 157);
    graph::exec_set_params(exec, nodes[2], &gpu.node(&other).params).unwrap();
    launch(exec);
    assert_eq!(gpu.get(ptr), 9);
    graph::destroy(graph).unwrap();
    launch(exec);
    graph::exec_destroy(exec).unwrap();
    assert_eq!(
        gpu.get(ptr),
        9,
        "what was launched runs, whatever is destroyed"
    );
    assert_eq!(
        graph::launch(exec, CUstream::NULL),
        Err(CUresult::INVALID_VALUE)
    );
    assert_eq!(graph::node_get_type(nodes[0]), Err(CUresult::INVALID_VALUE));
}

#[test]
fn a_launch_keeps_the_parameters_it_had() {
    let gpu = Gpu::new();
    let ptr = gpu.number(0);
    let (graph, nodes) = chain(&gpu, ptr, &[(10, 0)]);
    let exec = graph::instantiate(graph, 0).unwrap();
    let mut expected = 0_u32;
    for digit in 1..=9 {
        graph::exec_set_params(exec, nodes[0], &gpu.node(&step(ptr, 10, digit)).params).unwrap();
        launch(exec);
        expected = expected * 10 + digit;
    }
    assert_eq!(gpu.get(ptr), expected);
}

#[test]
fn edges_decide_not_the_order_of_adding() {
    let gpu = Gpu::new();
    let ptr = gpu.number(1);
    let graph = graph::create(0).unwrap();
    let last = add(graph, &[], gpu.node(&step(ptr, 10, 3)).params).unwrap();
    let middle = add(graph, &[], gpu.node(&step(ptr, 10, 2)).params).unwrap();
    let first = add(graph, &[], gpu.node(&step(ptr, 10, 1)).params).unwrap();
    connect(graph, first, middle).unwrap();
    connect(graph, middle, last).unwrap();
    assert_eq!(
        connect(graph, last, first),
        Err(CUresult::INVALID_VALUE),
        "a cycle"
    );
    assert_eq!(
        connect(graph, last, last),
        Err(CUresult::INVALID_VALUE),
        "a loop"
    );
    assert_eq!(
        connect(graph, first, middle),
        Err(CUresult::INVALID_VALUE),
        "twice"
    );
    assert_eq!(
        disconnect(graph, first, last),
        Err(CUresult::INVALID_VALUE),
        "no such edge"
    );
    assert_eq!(graph::get_root_nodes(graph).unwrap(), [first]);
    assert_eq!(graph::node_get_dependencies(last).unwrap().0, [middle]);
    assert_eq!(graph::node_get_dependents(first).unwrap().0, [middle]);
    assert_eq!(graph::get_edges(graph).unwrap().0.len(), 2);
    launch(graph::instantiate(graph, 0).unwrap());
    assert_eq!(gpu.get(ptr), 1123);
    graph::destroy_node(middle).unwrap();
    assert_eq!(graph::get_edges(graph).unwrap().0, []);
    connect(graph, last, first).unwrap();
    launch(graph::instantiate(graph, 0).unwrap());
    assert_eq!(gpu.get(ptr), 112_331);
}

#[test]
fn several_edges_are_added_all_or_none() {
    let _gpu = Gpu::new();
    let graph = graph::create(0).unwrap();
    let nodes: Vec<_> = (0..3).map(|_| add(graph, &[], empty()).unwrap()).collect();
    let (from, to) = (
        [nodes[0], nodes[1], nodes[2]],
        [nodes[1], nodes[2], nodes[0]],
    );
    let arrays = [address(&from), address(&to), HostPtr::NULL];
    assert_eq!(
        graph::add_dependencies(graph, arrays, 3),
        Err(CUresult::INVALID_VALUE)
    );
    assert_eq!(graph::get_edges(graph).unwrap().0, []);
    graph::add_dependencies(graph, arrays, 2).unwrap();
    assert_eq!(graph::get_edges(graph).unwrap().0, nodes[..2]);
}

#[test]
fn copies_memsets_and_host_functions() {
    static N_CALLS: AtomicU32 = AtomicU32::new(0);
    extern "C" fn count(data: *mut std::ffi::c_void) {
        N_CALLS.fetch_add(data as u32, Ordering::SeqCst);
    }
    let gpu = Gpu::new();
    let (from, to) = (gpu.number(0), gpu.number(0));
    let graph = graph::create(0).unwrap();
    let fill = CUDA_MEMSET_NODE_PARAMS_v2 {
        dst: from,
        value: 7,
        elementSize: 4,
        width: 1,
        height: 1,
        ..CUDA_MEMSET_NODE_PARAMS_v2::default()
    };
    let fill = add(graph, &[], params_of(CUgraphNodeType::MEMSET, fill)).unwrap();
    let kernel = add(graph, &[fill], gpu.node(&step(from, 2, 1)).params).unwrap();
    let copy = CUDA_MEMCPY_NODE_PARAMS {
        copyParams: CUDA_MEMCPY3D_v2 {
            srcMemoryType: CUmemorytype::DEVICE,
            srcDevice: from,
            dstMemoryType: CUmemorytype::DEVICE,
            dstDevice: to,
            WidthInBytes: 4,
            Height: 1,
            Depth: 1,
            ..CUDA_MEMCPY3D_v2::default()
        },
        ..CUDA_MEMCPY_NODE_PARAMS::default()
    };
    let copy = add(graph, &[kernel], params_of(CUgraphNodeType::MEMCPY, copy)).unwrap();
    let call = CUDA_HOST_NODE_PARAMS_v2 {
        fn_: HostPtr(count as *const () as u64),
        userData: HostPtr(5),
        ..CUDA_HOST_NODE_PARAMS_v2::default()
    };
    let call = add(graph, &[copy], params_of(CUgraphNodeType::HOST, call)).unwrap();
    add(graph, &[call], gpu.node(&step(to, 10, 1)).params).unwrap();
    let exec = graph::instantiate(graph, 0).unwrap();
    launch(exec);
    assert_eq!(gpu.get(to), 151);
    launch(exec);
    assert_eq!(gpu.get(to), 151);
    assert_eq!(N_CALLS.load(Ordering::SeqCst), 10);
    // Switched off, the memset leaves what is there.
    graph::node_set_enabled(exec, fill, false).unwrap();
    assert!(!graph::node_get_enabled(exec, fill).unwrap());
    assert_eq!(
        graph::node_set_enabled(exec, call, false),
        Err(CUresult::INVALID_VALUE)
    );
    gpu.set(from, 100);
    launch(exec);
    assert_eq!(gpu.get(to), 2011);
    // What was passed is told.
    let told = graph::get_params(fill).unwrap().memset();
    assert_eq!((told.dst, told.value, told.width), (from, 7, 1));
    assert_eq!(
        graph::get_params(copy)
            .unwrap()
            .memcpy()
            .copyParams
            .dstDevice,
        to
    );
    assert_eq!(graph::get_params(call).unwrap().host().userData.0, 5);
}

#[test]
fn a_kernel_nodes_arguments_can_be_read_back() {
    let gpu = Gpu::new();
    let ptr = gpu.number(0);
    let (_, nodes) = chain(&gpu, ptr, &[(123, 456)]);
    let told = graph::get_params(nodes[0]).unwrap().kernel();
    assert_eq!(
        (told.func, told.gridDimX, told.extra),
        (gpu.step, 1, HostPtr::NULL)
    );
    let pointers: [u64; 3] = ptxjit_driver::host::get(told.kernelParams.0).unwrap();
    assert_eq!(ptxjit_driver::host::get::<u64>(pointers[0]), Ok(ptr));
    assert_eq!(ptxjit_driver::host::get::<u32>(pointers[1]), Ok(123));
    assert_eq!(ptxjit_driver::host::get::<u32>(pointers[2]), Ok(456));
    // They can be passed on as they are.
    let params = params_of(CUgraphNodeType::KERNEL, told);
    let other = graph::create(0).unwrap();
    add(other, &[], params).unwrap();
    launch(graph::instantiate(other, 0).unwrap());
    assert_eq!(gpu.get(ptr), 456);
}

#[test]
fn child_graphs_are_copies_in_their_place() {
    let gpu = Gpu::new();
    let ptr = gpu.number(0);
    let (inner, inner_nodes) = chain(&gpu, ptr, &[(10, 2), (10, 3)]);
    let graph = graph::create(0).unwrap();
    let first = add(graph, &[], gpu.node(&step(ptr, 10, 1)).params).unwrap();
    let child = CUDA_CHILD_GRAPH_NODE_PARAMS {
        graph: inner,
        ..CUDA_CHILD_GRAPH_NODE_PARAMS::default()
    };
    let child = add(graph, &[first], params_of(CUgraphNodeType::GRAPH, child)).unwrap();
    add(graph, &[child], gpu.node(&step(ptr, 10, 4)).params).unwrap();
    let own = graph::child_graph(child).unwrap();
    assert_ne!(own, inner);
    assert_eq!(
        graph::destroy(own),
        Err(CUresult::INVALID_VALUE),
        "it belongs to the node"
    );
    graph::destroy(inner).unwrap();
    assert_eq!(
        graph::node_get_type(inner_nodes[0]),
        Err(CUresult::INVALID_VALUE)
    );
    let exec = graph::instantiate(graph, 0).unwrap();
    launch(exec);
    assert_eq!(gpu.get(ptr), 1234);
    // Nodes of the inner graph are nodes of what was instantiated.
    let own_nodes = graph::get_nodes(own).unwrap();
    graph::exec_set_params(exec, own_nodes[1], &gpu.node(&step(ptr, 10, 7)).params).unwrap();
    gpu.set(ptr, 0);
    launch(exec);
    assert_eq!(gpu.get(ptr), 1274);
    let (other, _) = chain(&gpu, ptr, &[(10, 8), (10, 9)]);
    graph::exec_child_set_params(exec, child, other).unwrap();
    gpu.set(ptr, 0);
    launch(exec);
    assert_eq!(gpu.get(ptr), 1894);
    let (longer, _) = chain(&gpu, ptr, &[(1, 0), (1, 0), (1, 0)]);
    assert_eq!(
        graph::exec_child_set_params(exec, child, longer),
        Err(CUresult::GRAPH_EXEC_UPDATE_FAILURE)
    );
    graph::destroy_node(child).unwrap();
    assert_eq!(graph::get_nodes(own), Err(CUresult::INVALID_VALUE));
}

#[test]
fn a_graph_cannot_move_into_itself() {
    let _gpu = Gpu::new();
    let moved = |graph| {
        let ownership = CUgraphChildGraphNodeOwnership::MOVE;
        params_of(
            CUgraphNodeType::GRAPH,
            CUDA_CHILD_GRAPH_NODE_PARAMS { graph, ownership },
        )
    };
    let (outer, inner) = (graph::create(0).unwrap(), graph::create(0).unwrap());
    assert_eq!(add(outer, &[], moved(outer)), Err(CUresult::INVALID_VALUE));
    let node = add(outer, &[], moved(inner)).unwrap();
    assert_eq!(graph::child_graph(node), Ok(inner));
    assert_eq!(graph::destroy(inner), Err(CUresult::INVALID_VALUE));
    assert_eq!(add(inner, &[], moved(outer)), Err(CUresult::INVALID_VALUE));
    graph::destroy(outer).unwrap();
    assert_eq!(graph::get_nodes(inner), Err(CUresult::INVALID_VALUE));
}

#[test]
fn clones_have_nodes_of_their_own() {
    let gpu = Gpu::new();
    let ptr = gpu.number(1);
    let (graph, nodes) = chain(&gpu, ptr, &[(2, 1), (3, 1)]);
    let clone = graph::clone(graph).unwrap();
    let twin = graph::node_find_in_clone(nodes[1], clone).unwrap();
    assert_ne!(twin, nodes[1]);
    assert_eq!(graph::node_get_containing_graph(twin), Ok(clone));
    assert_eq!(
        graph::node_get_local_id(twin),
        graph::node_get_local_id(nodes[1])
    );
    assert_eq!(
        graph::node_find_in_clone(twin, graph),
        Err(CUresult::INVALID_VALUE)
    );
    graph::destroy_node(twin).unwrap();
    assert_eq!(
        graph::node_find_in_clone(nodes[1], clone),
        Err(CUresult::INVALID_VALUE)
    );
    assert_eq!(graph::get_nodes(graph).unwrap(), nodes);
    launch(graph::instantiate(clone, 0).unwrap());
    assert_eq!(gpu.get(ptr), 3);
}

#[test]
fn an_update_takes_parameters_over_and_tells_what_does_not_fit() {
    let gpu = Gpu::new();
    let ptr = gpu.number(1);
    let (graph, _) = chain(&gpu, ptr, &[(10, 1), (10, 2)]);
    let exec = graph::instantiate(graph, 0).unwrap();
    let (same, _) = chain(&gpu, ptr, &[(10, 5), (10, 6)]);
    graph::exec_update(exec, same).unwrap();
    launch(exec);
    assert_eq!(gpu.get(ptr), 156);

    let (longer, nodes) = chain(&gpu, ptr, &[(1, 0), (1, 0), (1, 0)]);
    let err = graph::exec_update(exec, longer).unwrap_err();
    assert_eq!(err.code, CUresult::GRAPH_EXEC_UPDATE_FAILURE);
    assert_eq!(err.result, CUgraphExecUpdateResult::ERROR_TOPOLOGY_CHANGED);
    assert_eq!(err.node, nodes[2]);

    let (unlinked, nodes) = chain(&gpu, ptr, &[(1, 0), (1, 0)]);
    disconnect(unlinked, nodes[0], nodes[1]).unwrap();
    let err = graph::exec_update(exec, unlinked).unwrap_err();
    assert_eq!(err.result, CUgraphExecUpdateResult::ERROR_TOPOLOGY_CHANGED);

    let (other, nodes) = chain(&gpu, ptr, &[(1, 0)]);
    let odd = add(other, &nodes, empty()).unwrap();
    let err = graph::exec_update(exec, other).unwrap_err();
    assert_eq!(err.result, CUgraphExecUpdateResult::ERROR_NODE_TYPE_CHANGED);
    assert_eq!(err.node, odd);

    gpu.set(ptr, 1);
    launch(exec);
    assert_eq!(gpu.get(ptr), 156, "an update that fails changes nothing");
}

#[test]
fn events_are_recorded_and_waited_for_by_nodes() {
    let gpu = Gpu::new();
    let ptr = gpu.number(1);
    let (go, done) = (event::create(0).unwrap(), event::create(0).unwrap());
    let record = CUDA_EVENT_RECORD_NODE_PARAMS {
        event: done,
        ctx: gpu.context,
    };
    let graph = graph::create(0).unwrap();
    let wait = CUDA_EVENT_WAIT_NODE_PARAMS { event: go };
    let wait = add(graph, &[], params_of(CUgraphNodeType::WAIT_EVENT, wait)).unwrap();
    let kernel = add(graph, &[wait], gpu.node(&step(ptr, 10, 2)).params).unwrap();
    add(
        graph,
        &[kernel],
        params_of(CUgraphNodeType::EVENT_RECORD, record),
    )
    .unwrap();
    let exec = graph::instantiate(graph, 0).unwrap();
    let streams: Vec<_> = (0..3).map(|_| stream::create(1, 0).unwrap()).collect();
    for round in 0..20 {
        gpu.set(ptr, 1);
        gpu.launch(streams[0], step(ptr, 10, 1)).unwrap();
        event::record_with_flags(go, streams[0], 0).unwrap();
        graph::launch(exec, streams[1]).unwrap();
        event::wait(streams[2], done, 0).unwrap();
        gpu.launch(streams[2], step(ptr, 10, 3)).unwrap();
        assert_eq!(gpu.get(ptr), 1123, "round {round}");
    }
    assert_eq!(event::query(done), Ok(()));
}

#[test]
fn what_a_wait_in_a_graph_waits_for_may_wait_for_the_graph() {
    let gpu = Gpu::new();
    let ptr = gpu.number(0);
    let (ping, pong) = (event::create(0).unwrap(), event::create(0).unwrap());
    let graph = graph::create(0).unwrap();
    // The wait is the oldest node, and must not keep the record away from running.
    let wait = CUDA_EVENT_WAIT_NODE_PARAMS { event: pong };
    let wait = add(graph, &[], params_of(CUgraphNodeType::WAIT_EVENT, wait)).unwrap();
    let record = CUDA_EVENT_RECORD_NODE_PARAMS {
        event: ping,
        ctx: gpu.context,
    };
    add(graph, &[], params_of(CUgraphNodeType::EVENT_RECORD, record)).unwrap();
    add(graph, &[wait], gpu.node(&step(ptr, 10, 1)).params).unwrap();
    let exec = graph::instantiate(graph, 0).unwrap();
    let (one, two) = (stream::create(1, 0).unwrap(), stream::create(1, 0).unwrap());
    graph::launch(exec, one).unwrap();
    event::wait(two, ping, 0).unwrap();
    event::record_with_flags(pong, two, 0).unwrap();
    graph::launch(exec, one).unwrap();
    assert_eq!(gpu.get(ptr), 11);
}

#[test]
fn one_graph_does_not_overlap_with_itself() {
    let gpu = Gpu::new();
    let ptr = gpu.number(0);
    let steps: Vec<_> = (0..20).map(|_| (1, 1)).collect();
    let (graph, _) = chain(&gpu, ptr, &steps);
    let exec = graph::instantiate(graph, 0).unwrap();
    let streams: Vec<_> = (0..4).map(|_| stream::create(1, 0).unwrap()).collect();
    for round in 0..40 {
        graph::launch(exec, streams[round % 4]).unwrap();
    }
    assert_eq!(gpu.get(ptr), 800);
}

#[test]
fn edges_that_mean_something_are_not_told_by_halves() {
    let gpu = Gpu::new();
    let ptr = gpu.number(0);
    let graph = graph::create(0).unwrap();
    let first = add(graph, &[], gpu.node(&step(ptr, 10, 1)).params).unwrap();
    let data = CUgraphEdgeData {
        from_port: CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC,
        type_: CUgraphDependencyType::PROGRAMMATIC.0 as u8,
        ..CUgraphEdgeData::default()
    };
    let deps = [address(&first), address(&data)];
    let mut params = gpu.node(&step(ptr, 10, 2));
    let second = graph::add_node(graph, deps, 1, &mut params.params).unwrap();
    let edges = graph::node_get_dependencies(second).unwrap();
    assert_eq!(edges, (vec![first], vec![data]));
    assert_eq!(graph::check_lossless(&edges.1), Err(CUresult::LOSSY_QUERY));
    assert_eq!(
        disconnect(graph, first, second),
        Err(CUresult::INVALID_VALUE)
    );
    // Only kernels can be launched early, and only what is known can be said of an edge.
    assert_eq!(
        graph::add_node(graph, deps, 1, &mut empty()),
        Err(CUresult::INVALID_VALUE)
    );
    for odd in [
        CUgraphEdgeData { type_: 2, ..data },
        CUgraphEdgeData { to_port: 1, ..data },
        CUgraphEdgeData {
            reserved: [1; 5],
            ..data
        },
    ] {
        let deps = [address(&first), address(&odd)];
        let added = graph::add_node(graph, deps, 1, &mut gpu.node(&step(ptr, 1, 0)).params);
        assert_eq!(added, Err(CUresult::INVALID_VALUE), "{odd:?}");
    }
    launch(graph::instantiate(graph, 0).unwrap());
    assert_eq!(gpu.get(ptr), 12);
}

#[test]
fn attributes_of_kernel_nodes() {
    let gpu = Gpu::new();
    let ptr = gpu.number(0);
    let (_, nodes) = chain(&gpu, ptr, &[(1, 0), (1, 0)]);
    let value = |number: i32| CUlaunchAttributeValue {
        bytes: Union::of(number),
    };
    let priority = CUlaunchAttributeID::PRIORITY;
    graph::set_attribute(nodes[0], priority, value(-3)).unwrap();
    assert_eq!(
        graph::get_attribute(nodes[0], priority).unwrap().number(),
        -3
    );
    assert_eq!(
        graph::get_attribute(nodes[1], priority).unwrap().number(),
        0
    );
    graph::copy_attributes(nodes[1], nodes[0]).unwrap();
    assert_eq!(
        graph::get_attribute(nodes[1], priority).unwrap().number(),
        -3
    );
    let unknown = CUlaunchAttributeID(77);
    assert_eq!(
        graph::set_attribute(nodes[0], unknown, value(0)),
        Err(CUresult::INVALID_VALUE)
    );
    let cluster = CUlaunchAttributeValue {
        bytes: Union::of(CUclusterDim { x: 2, y: 1, z: 1 }),
    };
    let id = CUlaunchAttributeID::CLUSTER_DIMENSION;
    // The grid has one block.
    assert_eq!(
        graph::set_attribute(nodes[0], id, cluster),
        Err(CUresult::INVALID_CLUSTER_SIZE)
    );
}

#[test]
fn a_user_object_is_destroyed_once_when_all_have_let_go() {
    static N_CALLS: AtomicU32 = AtomicU32::new(0);
    extern "C" fn destroy(_: *mut std::ffi::c_void) {
        N_CALLS.fetch_add(1, Ordering::SeqCst);
    }
    let _gpu = Gpu::new();
    let function = HostPtr(destroy as *const () as u64);
    let make = |count, flags| graph::user::create(HostPtr(1), function, count, flags);
    assert_eq!(make(1, 0), Err(CUresult::INVALID_VALUE));
    assert_eq!(make(0, 1), Err(CUresult::INVALID_VALUE));
    let object = make(2, 1).unwrap();
    let graph = graph::create(0).unwrap();
    graph::user::graph_retain(graph, object, 1, CUuserObjectRetain_flags::MOVE.0).unwrap();
    let clone = graph::clone(graph).unwrap();
    let exec = graph::instantiate(graph, 0).unwrap();
    graph::user::release(object, 1).unwrap();
    assert_eq!(
        graph::user::release(object, 1),
        Err(CUresult::INVALID_VALUE)
    );
    assert_eq!(
        graph::user::graph_release(graph, object, 2),
        Err(CUresult::INVALID_VALUE)
    );
    graph::destroy(graph).unwrap();
    graph::user::graph_release(clone, object, 1).unwrap();
    assert_eq!(
        N_CALLS.load(Ordering::SeqCst),
        0,
        "the instantiated graph still has it"
    );
    graph::exec_destroy(exec).unwrap();
    while N_CALLS.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    assert_eq!(graph::user::retain(object, 1), Err(CUresult::INVALID_VALUE));
    graph::destroy(clone).unwrap();
    assert_eq!(N_CALLS.load(Ordering::SeqCst), 1);
}

#[test]
fn user_objects_live_until_no_launch_needs_them() {
    static N_CALLS: AtomicU32 = AtomicU32::new(0);
    extern "C" fn destroy(_: *mut std::ffi::c_void) {
        N_CALLS.fetch_add(1, Ordering::SeqCst);
    }
    static GATE: AtomicU32 = AtomicU32::new(0);
    extern "C" fn wait(_: *mut std::ffi::c_void) {
        while GATE.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
    }
    let _gpu = Gpu::new();
    let call = || {
        let params = CUDA_HOST_NODE_PARAMS_v2 {
            fn_: HostPtr(wait as *const () as u64),
            ..CUDA_HOST_NODE_PARAMS_v2::default()
        };
        params_of(CUgraphNodeType::HOST, params)
    };
    let with_object = || {
        let graph = graph::create(0).unwrap();
        add(graph, &[], call()).unwrap();
        let function = HostPtr(destroy as *const () as u64);
        let object = graph::user::create(HostPtr(1), function, 1, 1).unwrap();
        graph::user::graph_retain(graph, object, 1, CUuserObjectRetain_flags::MOVE.0).unwrap();
        graph
    };
    let settled = |wanted| {
        while N_CALLS.load(Ordering::SeqCst) < wanted {
            std::thread::yield_now();
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert_eq!(N_CALLS.load(Ordering::SeqCst), wanted);
    };
    let (first, second) = (with_object(), with_object());
    let exec = graph::instantiate(first, 0).unwrap();
    graph::destroy(first).unwrap();
    graph::exec_update(exec, second).unwrap();
    graph::destroy(second).unwrap();
    settled(1);
    let stream = stream::create(1, 0).unwrap();
    graph::launch(exec, stream).unwrap();
    graph::exec_destroy(exec).unwrap();
    // The launch is at its last node.
    settled(1);
    GATE.store(1, Ordering::SeqCst);
    stream::synchronize(stream).unwrap();
    settled(2);
}

#[test]
fn a_fault_in_a_node_ends_the_launch() {
    let gpu = Gpu::new();
    let ptr = gpu.number(1);
    let graph = graph::create(0).unwrap();
    let bad = 16_u64;
    let pointers = [address(&bad)];
    let mut wild = gpu.node(&step(ptr, 1, 0)).params.kernel();
    wild.func = gpu.function("wild");
    wild.kernelParams = address(&pointers);
    let wild = add(graph, &[], params_of(CUgraphNodeType::KERNEL, wild)).unwrap();
    add(graph, &[wild], gpu.node(&step(ptr, 10, 1)).params).unwrap();
    let exec = graph::instantiate(graph, 0).unwrap();
    launch(exec);
    assert_eq!(
        stream::synchronize(CUstream::NULL),
        Err(CUresult::ILLEGAL_ADDRESS)
    );
    assert_eq!(
        graph::launch(exec, CUstream::NULL),
        Err(CUresult::ILLEGAL_ADDRESS)
    );
    context::clear_error(gpu.context).unwrap();
    assert_eq!(gpu.get(ptr), 1);
}

#[test]
fn a_graph_can_be_drawn() {
    let gpu = Gpu::new();
    let (graph, nodes) = chain(&gpu, gpu.number(0), &[(1, 0), (1, 0)]);
    let path = std::env::temp_dir().join(format!("ptxjit-graph-{}.dot", std::process::id()));
    let text = format!("{}\0", path.display());
    graph::debug_dot_print(graph, address(text.as_str()), 1).unwrap();
    let drawn = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(drawn.starts_with("digraph dot {"), "{drawn}");
    assert_eq!(drawn.matches("KERNEL\\nstep").count(), nodes.len());
    assert_eq!(drawn.matches(" -> ").count(), 1);
    assert_eq!(drawn.matches('{').count(), drawn.matches('}').count());
}

#[test]
fn nothing_that_is_no_graph_is_taken_for_one() {
    let _gpu = Gpu::new();
    let graph = graph::create(0).unwrap();
    let node = add(graph, &[], empty()).unwrap();
    for garbage in [0, 1, 2, 0xdead_beef, graph.0 + 1, node.0, u64::MAX] {
        let (other, other_node) = (CUgraph(garbage), CUgraphNode(garbage ^ 1 << 30));
        let invalid = Err(CUresult::INVALID_VALUE);
        assert_eq!(graph::destroy(other), invalid);
        assert_eq!(graph::get_nodes(other), Err(CUresult::INVALID_VALUE));
        assert_eq!(graph::destroy_node(other_node), invalid);
        assert_eq!(connect(graph, node, other_node), invalid);
        assert_eq!(
            add(graph, &[other_node], empty()),
            Err(CUresult::INVALID_VALUE)
        );
        assert_eq!(graph::instantiate(other, 0), Err(CUresult::INVALID_VALUE));
        assert_eq!(graph::launch(CUgraphExec(garbage), CUstream::NULL), invalid);
    }
    let unknown = params_of(CUgraphNodeType(99), 0_u64);
    assert_eq!(add(graph, &[], unknown), Err(CUresult::INVALID_VALUE));
    let null_kernel = params_of(CUgraphNodeType::KERNEL, 0_u64);
    assert_eq!(add(graph, &[], null_kernel), Err(CUresult::INVALID_VALUE));
    assert_eq!(
        add(graph, &[node, node], empty()),
        Err(CUresult::INVALID_VALUE)
    );
    assert_eq!(graph::create(1), Err(CUresult::INVALID_VALUE));
    assert_eq!(
        graph::instantiate(graph, 1 << 20),
        Err(CUresult::INVALID_VALUE)
    );
    assert_eq!(graph::get_nodes(graph).unwrap(), [node]);
}

/// Numbers that look random and are the same at each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

#[test]
fn random_edits_never_crash_and_never_make_a_cycle() {
    let gpu = Gpu::new();
    let ptr = gpu.number(0);
    for seed in 1..=20 {
        let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ seed);
        let graphs: Vec<_> = (0..3).map(|_| graph::create(0).unwrap()).collect();
        let mut nodes = vec![CUgraphNode(0), CUgraphNode(seed << 20)];
        for _ in 0..150 {
            let graph = match random.below(20) {
                0 => CUgraph(random.next()),
                _ => graphs[random.below(3)],
            };
            let (one, two) = (
                nodes[random.below(nodes.len())],
                nodes[random.below(nodes.len())],
            );
            // Most of these fail, in ways that other tests look at.
            match random.below(8) {
                0 => nodes.extend(add(graph, &[], empty())),
                1 => nodes.extend(add(graph, &[one], gpu.node(&step(ptr, 1, 1)).params)),
                2 => nodes.extend(add(graph, &[one, two], empty())),
                3 => drop(disconnect(graph, one, two)),
                4 if random.below(4) == 0 => drop(graph::destroy_node(one)),
                5 => {
                    let child = CUDA_CHILD_GRAPH_NODE_PARAMS {
                        graph: graphs[random.below(3)],
                        ownership: CUgraphChildGraphNodeOwnership(random.below(3) as i32 - 1),
                    };
                    if random.below(10) == 0 {
                        nodes.extend(add(graph, &[], params_of(CUgraphNodeType::GRAPH, child)));
                    }
                }
                _ => drop(connect(graph, one, two)),
            }
        }
        for &graph in &graphs {
            let Ok(listed) = graph::get_nodes(graph) else {
                continue;
            };
            let (from, (to, _)) = graph::get_edges(graph).unwrap();
            // Taking away nodes that depend on nothing, time after time, must take away all.
            let mut left: Vec<_> = listed;
            while !left.is_empty() {
                let is_held = |node: &CUgraphNode| {
                    let mut edges = from.iter().zip(&to);
                    edges.any(|(from, to)| to == node && left.contains(from))
                };
                let next: Vec<_> = left.iter().copied().filter(is_held).collect();
                assert!(next.len() < left.len(), "seed {seed}: a cycle");
                left = next;
            }
            if let Ok(exec) = graph::instantiate(graph, 0) {
                launch(exec);
                graph::exec_destroy(exec).unwrap();
            }
            let _ = graph::destroy(graph);
        }
        gpu.get(ptr);
    }
}
