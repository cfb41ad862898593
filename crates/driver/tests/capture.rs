//! Stream capture: what becomes a node, how streams join, and what breaks a capture.

mod support;

use std::sync::{Mutex, MutexGuard};

use ptxjit_driver::memory::{alloc, copy, fill, pool};
use ptxjit_driver::stream::memop::{self, Width};
use ptxjit_driver::types::*;
use ptxjit_driver::{capture, context, event, graph, stream};
use support::{Gpu, address, step};

const GLOBAL: CUstreamCaptureMode = CUstreamCaptureMode::GLOBAL;
const THREAD_LOCAL: CUstreamCaptureMode = CUstreamCaptureMode::THREAD_LOCAL;
const RELAXED: CUstreamCaptureMode = CUstreamCaptureMode::RELAXED;

/// A capture in one thread forbids calls in others, so that these tests run one by one.
fn gpu() -> (Gpu, MutexGuard<'static, ()>) {
    static ALONE: Mutex<()> = Mutex::new(());
    let guard = ALONE
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    (Gpu::new(), guard)
}

fn non_blocking() -> CUstream {
    stream::create(CUstream_flags::NON_BLOCKING.0, 0).unwrap()
}

fn status(stream: CUstream) -> CUstreamCaptureStatus {
    capture::info(stream).unwrap().status
}

/// Runs a captured graph in the default stream.
fn run(graph: CUgraph) {
    let exec = graph::instantiate(graph, 0).unwrap();
    graph::launch(exec, CUstream::NULL).unwrap();
    graph::exec_destroy(exec).unwrap();
}

fn kinds(graph: CUgraph) -> Vec<CUgraphNodeType> {
    let nodes = graph::get_nodes(graph).unwrap();
    let kinds = nodes.into_iter().map(graph::node_get_type);
    kinds.map(Result::unwrap).collect()
}

/// Waits for values and writes of values are one node each, with the context of the stream.
#[test]
fn operations_on_memory_become_nodes() {
    let (gpu, _guard) = gpu();
    let ptr = gpu.number(1);
    let stream = non_blocking();
    capture::begin(stream, GLOBAL).unwrap();
    memop::write_value(stream, ptr, 6, Width::Four, 0).unwrap();
    memop::wait_value(stream, ptr, 6, Width::Four, CUstreamWaitValue_flags::EQ.0).unwrap();
    gpu.launch(stream, step(ptr, 10, 2)).unwrap();
    // A wrong one neither becomes a node nor breaks the capture.
    let result = memop::write_value(stream, ptr + 1, 6, Width::Four, 0);
    assert_eq!(result, Err(CUresult::INVALID_VALUE));
    let graph = capture::end(stream).unwrap();
    assert_eq!(gpu.get(ptr), 1);
    let memory = CUgraphNodeType::BATCH_MEM_OP;
    assert_eq!(kinds(graph), [memory, memory, CUgraphNodeType::KERNEL]);
    let write = graph::get_nodes(graph).unwrap()[0];
    let params = graph::get_params(write).unwrap().mem_op();
    assert_eq!((params.count, params.ctx), (1, gpu.context));
    run(graph);
    assert_eq!(gpu.get(ptr), 62);
}

#[test]
fn commands_become_nodes_and_do_not_run() {
    let (gpu, _guard) = gpu();
    let (ptr, other) = (gpu.number(1), gpu.number(0));
    let mut result = 0_u32;
    let stream = non_blocking();
    capture::begin(stream, GLOBAL).unwrap();
    assert_eq!(status(stream), CUstreamCaptureStatus::ACTIVE);
    gpu.launch(stream, step(ptr, 10, 2)).unwrap();
    copy::on_device_async(other, ptr, 4, stream).unwrap();
    fill::fill_async(ptr, 5, 4, 1, stream).unwrap();
    copy::to_host_async((&raw mut result) as u64, other, 4, stream).unwrap();
    let graph = capture::end(stream).unwrap();
    assert_eq!(status(stream), CUstreamCaptureStatus::NONE);
    assert_eq!(gpu.get(ptr), 1);
    assert_eq!(
        kinds(graph),
        [
            CUgraphNodeType::KERNEL,
            CUgraphNodeType::MEMCPY,
            CUgraphNodeType::MEMSET,
            CUgraphNodeType::MEMCPY
        ]
    );
    assert_eq!(graph::get_edges(graph).unwrap().0.len(), 3);
    run(graph);
    assert_eq!((gpu.get(ptr), gpu.get(other)), (5, 12));
    let told = graph::get_params(graph::get_nodes(graph).unwrap()[3]).unwrap();
    let told = told.memcpy().copyParams;
    assert_eq!(told.dstMemoryType, CUmemorytype::HOST);
    assert_eq!(ptxjit_driver::host::get::<u32>(told.dstHost.0), Ok(12));
}

#[test]
fn a_copy_from_the_program_reads_when_the_graph_runs() {
    let (gpu, _guard) = gpu();
    let ptr = gpu.number(0);
    let mut value = Box::new(1_u32);
    let stream = non_blocking();
    capture::begin(stream, GLOBAL).unwrap();
    copy::to_device_async(ptr, (&raw const *value) as u64, 4, stream).unwrap();
    let graph = capture::end(stream).unwrap();
    *value = 77;
    run(graph);
    assert_eq!(gpu.get(ptr), 77);
    drop(value);
}

#[test]
fn events_fork_and_join_streams() {
    let (gpu, _guard) = gpu();
    let (left, right) = (gpu.number(1), gpu.number(1));
    let (one, two) = (non_blocking(), non_blocking());
    let (fork, join) = (event::create(0).unwrap(), event::create(0).unwrap());
    capture::begin(one, GLOBAL).unwrap();
    gpu.launch(one, step(left, 10, 1)).unwrap();
    event::record_with_flags(fork, one, 0).unwrap();
    event::wait(two, fork, 0).unwrap();
    assert_eq!(status(two), CUstreamCaptureStatus::ACTIVE);
    assert_eq!(
        capture::info(two).unwrap().id,
        capture::info(one).unwrap().id
    );
    gpu.launch(one, step(left, 10, 2)).unwrap();
    gpu.launch(two, step(right, 10, 3)).unwrap();
    event::record_with_flags(join, two, 0).unwrap();
    event::wait(one, join, 0).unwrap();
    assert_eq!(capture::info(one).unwrap().count, 2);
    copy::on_device_async(right, left, 4, one).unwrap();
    let graph = capture::end(one).unwrap();
    assert_eq!(status(two), CUstreamCaptureStatus::NONE);
    let nodes = graph::get_nodes(graph).unwrap();
    assert_eq!(graph::get_root_nodes(graph).unwrap(), nodes[..1]);
    assert_eq!(graph::node_get_dependents(nodes[0]).unwrap().0, nodes[1..3]);
    assert_eq!(
        graph::node_get_dependencies(nodes[3]).unwrap().0,
        nodes[1..3]
    );
    run(graph);
    assert_eq!((gpu.get(left), gpu.get(right)), (112, 112));
    // The second stream runs things again.
    gpu.launch(two, step(left, 0, 4)).unwrap();
    assert_eq!(gpu.get(left), 4);
    assert_eq!(event::query(join), Err(CUresult::CAPTURED_EVENT));
    event::record_with_flags(join, two, 0).unwrap();
    event::synchronize(join).unwrap();
}

#[test]
fn a_fork_that_does_not_come_back() {
    let (gpu, _guard) = gpu();
    let ptr = gpu.number(1);
    let (one, two) = (non_blocking(), non_blocking());
    let fork = event::create(0).unwrap();
    capture::begin(one, GLOBAL).unwrap();
    event::record_with_flags(fork, one, 0).unwrap();
    event::wait(two, fork, 0).unwrap();
    gpu.launch(two, step(ptr, 10, 1)).unwrap();
    assert_eq!(capture::end(two), Err(CUresult::STREAM_CAPTURE_UNMATCHED));
    assert_eq!(capture::end(one), Err(CUresult::STREAM_CAPTURE_UNJOINED));
    assert_eq!(
        capture::end(one),
        Err(CUresult::ILLEGAL_STATE),
        "it has ended all the same"
    );
    // One that joined and came back may go away, and one that did not is missed all the same.
    for comes_back in [true, false] {
        let (two, join) = (non_blocking(), event::create(0).unwrap());
        capture::begin(one, GLOBAL).unwrap();
        event::record_with_flags(fork, one, 0).unwrap();
        event::wait(two, fork, 0).unwrap();
        gpu.launch(two, step(ptr, 10, 1)).unwrap();
        if comes_back {
            event::record_with_flags(join, two, 0).unwrap();
            event::wait(one, join, 0).unwrap();
        }
        stream::destroy(two).unwrap();
        gpu.launch(one, step(ptr, 10, 2)).unwrap();
        match comes_back {
            true => assert_eq!(kinds(capture::end(one).unwrap()).len(), 2),
            false => assert_eq!(capture::end(one), Err(CUresult::STREAM_CAPTURE_UNJOINED)),
        }
    }
    // A stream that joined and did nothing holds nothing open.
    capture::begin(one, GLOBAL).unwrap();
    gpu.launch(one, step(ptr, 10, 1)).unwrap();
    event::record_with_flags(fork, one, 0).unwrap();
    event::wait(two, fork, 0).unwrap();
    assert_eq!(kinds(capture::end(one).unwrap()).len(), 1);
    assert_eq!(gpu.get(ptr), 1);
}

#[test]
fn captures_do_not_merge_and_nothing_crosses_their_border() {
    let (gpu, _guard) = gpu();
    let ptr = gpu.number(1);
    let (one, two) = (non_blocking(), non_blocking());
    let (inside, outside) = (event::create(0).unwrap(), event::create(0).unwrap());
    capture::begin(one, RELAXED).unwrap();
    capture::begin(two, RELAXED).unwrap();
    event::record_with_flags(inside, one, 0).unwrap();
    assert_eq!(
        event::wait(two, inside, 0),
        Err(CUresult::STREAM_CAPTURE_MERGE)
    );
    for stream in [one, two] {
        assert_eq!(status(stream), CUstreamCaptureStatus::INVALIDATED);
        let launched = gpu.launch(stream, step(ptr, 10, 1));
        assert_eq!(launched, Err(CUresult::STREAM_CAPTURE_INVALIDATED));
        assert_eq!(
            capture::end(stream),
            Err(CUresult::STREAM_CAPTURE_INVALIDATED)
        );
    }
    event::record_with_flags(outside, one, 0).unwrap();
    capture::begin(one, RELAXED).unwrap();
    assert_eq!(
        event::wait(one, outside, 0),
        Err(CUresult::STREAM_CAPTURE_ISOLATION)
    );
    assert_eq!(capture::end(one), Err(CUresult::STREAM_CAPTURE_INVALIDATED));
    // As an external node it may.
    capture::begin(one, RELAXED).unwrap();
    event::wait(one, outside, CUevent_wait_flags::EXTERNAL.0).unwrap();
    event::record_with_flags(inside, one, CUevent_record_flags::EXTERNAL.0).unwrap();
    let graph = capture::end(one).unwrap();
    assert_eq!(
        kinds(graph),
        [CUgraphNodeType::WAIT_EVENT, CUgraphNodeType::EVENT_RECORD]
    );
    let flags = CUevent_record_flags::EXTERNAL.0;
    assert_eq!(
        event::record_with_flags(inside, one, flags),
        Err(CUresult::INVALID_VALUE)
    );
    assert_eq!(
        event::wait(one, inside, flags),
        Err(CUresult::INVALID_VALUE)
    );
}

#[test]
fn captured_streams_and_events_cannot_be_waited_for() {
    let (_gpu, _guard) = gpu();
    let stream = non_blocking();
    let captured = event::create(0).unwrap();
    type Call<'a> = &'a dyn Fn() -> ptxjit_driver::Result<()>;
    let breaks: [(&str, Call<'_>, CUresult); 7] = [
        (
            "stream sync",
            &|| stream::synchronize(stream),
            CUresult::STREAM_CAPTURE_UNSUPPORTED,
        ),
        (
            "stream query",
            &|| stream::query(stream),
            CUresult::STREAM_CAPTURE_UNSUPPORTED,
        ),
        (
            "context sync",
            &|| context::synchronize(CUcontext::NULL),
            CUresult::STREAM_CAPTURE_UNSUPPORTED,
        ),
        (
            "event query",
            &|| event::query(captured),
            CUresult::CAPTURED_EVENT,
        ),
        (
            "event sync",
            &|| event::synchronize(captured),
            CUresult::CAPTURED_EVENT,
        ),
        (
            "elapsed",
            &|| event::elapsed(captured, captured).map(|_| ()),
            CUresult::CAPTURED_EVENT,
        ),
        (
            "alloc",
            &|| alloc::alloc(4).map(|_| ()),
            CUresult::STREAM_CAPTURE_UNSUPPORTED,
        ),
    ];
    for (name, call, code) in breaks {
        capture::begin(stream, GLOBAL).unwrap();
        event::record_with_flags(captured, stream, 0).unwrap();
        assert_eq!(call(), Err(code), "{name}");
        assert_eq!(status(stream), CUstreamCaptureStatus::INVALIDATED, "{name}");
        let ended = capture::end(stream);
        assert_eq!(ended, Err(CUresult::STREAM_CAPTURE_INVALIDATED), "{name}");
    }
    stream::synchronize(stream).unwrap();
}

#[test]
fn the_legacy_stream_keeps_away_from_blocking_streams_that_are_captured() {
    let (gpu, _guard) = gpu();
    let ptr = gpu.number(1);
    assert_eq!(
        capture::begin(CUstream::NULL, GLOBAL),
        Err(CUresult::STREAM_CAPTURE_UNSUPPORTED)
    );
    let blocking = stream::create(0, 0).unwrap();
    capture::begin(blocking, RELAXED).unwrap();
    assert_eq!(
        capture::info(CUstream::NULL).err(),
        Some(CUresult::STREAM_CAPTURE_IMPLICIT)
    );
    assert_eq!(
        status(blocking),
        CUstreamCaptureStatus::ACTIVE,
        "asking breaks nothing"
    );
    assert_eq!(
        gpu.launch(CUstream::NULL, step(ptr, 10, 1)),
        Err(CUresult::STREAM_CAPTURE_IMPLICIT)
    );
    assert_eq!(
        capture::end(blocking),
        Err(CUresult::STREAM_CAPTURE_INVALIDATED)
    );
    let free = non_blocking();
    capture::begin(free, RELAXED).unwrap();
    gpu.launch(CUstream::NULL, step(ptr, 10, 1)).unwrap();
    capture::end(free).unwrap();
    assert_eq!(gpu.get(ptr), 11);
}

#[test]
fn modes_say_whose_calls_break_a_capture() {
    let (gpu, _guard) = gpu();
    let stream = non_blocking();
    let elsewhere = |mode: CUstreamCaptureMode| {
        let call = || {
            context::set_current(gpu.context).unwrap();
            assert_eq!(capture::exchange_mode(mode), Ok(GLOBAL));
            alloc::alloc(4).map(|_| ())
        };
        std::thread::scope(|scope| scope.spawn(call).join().unwrap())
    };
    let here = |mode: CUstreamCaptureMode| {
        let before = capture::exchange_mode(mode).unwrap();
        let result = alloc::alloc(4).map(|_| ());
        assert_eq!(capture::exchange_mode(before), Ok(mode));
        result
    };
    let bad = Err(CUresult::STREAM_CAPTURE_UNSUPPORTED);
    // Mode of the capture, mode of the thread that calls, result there, result in another thread.
    let cases = [
        (GLOBAL, GLOBAL, bad, bad),
        (GLOBAL, THREAD_LOCAL, bad, Ok(())),
        (GLOBAL, RELAXED, Ok(()), Ok(())),
        (THREAD_LOCAL, GLOBAL, bad, Ok(())),
        (THREAD_LOCAL, THREAD_LOCAL, bad, Ok(())),
        (THREAD_LOCAL, RELAXED, Ok(()), Ok(())),
        (RELAXED, GLOBAL, Ok(()), Ok(())),
        (RELAXED, THREAD_LOCAL, Ok(()), Ok(())),
        (RELAXED, RELAXED, Ok(()), Ok(())),
    ];
    for (mode, of_thread, own, other) in cases {
        for (result, call) in [(own, &here as &dyn Fn(_) -> _), (other, &elsewhere)] {
            capture::begin(stream, mode).unwrap();
            assert_eq!(call(of_thread), result, "{mode:?} {of_thread:?}");
            let ended = capture::end(stream).map(|_| ());
            let broken = Err(CUresult::STREAM_CAPTURE_INVALIDATED);
            assert_eq!(ended, result.or(broken), "{mode:?} {of_thread:?}");
        }
    }
    assert_eq!(
        capture::exchange_mode(CUstreamCaptureMode(3)),
        Err(CUresult::INVALID_VALUE)
    );
}

#[test]
fn captures_end_where_they_began() {
    let (gpu, _guard) = gpu();
    let stream = non_blocking();
    assert_eq!(capture::end(stream), Err(CUresult::ILLEGAL_STATE));
    assert_eq!(
        capture::begin(stream, CUstreamCaptureMode(9)),
        Err(CUresult::INVALID_VALUE)
    );
    let end_elsewhere = || {
        let end = || {
            context::set_current(gpu.context).unwrap();
            capture::end(stream).map(|_| ())
        };
        std::thread::scope(|scope| scope.spawn(end).join().unwrap())
    };
    capture::begin(stream, THREAD_LOCAL).unwrap();
    assert_eq!(
        capture::begin(stream, THREAD_LOCAL),
        Err(CUresult::ILLEGAL_STATE)
    );
    assert_eq!(end_elsewhere(), Err(CUresult::STREAM_CAPTURE_WRONG_THREAD));
    capture::end(stream).unwrap();
    capture::begin(stream, RELAXED).unwrap();
    assert_eq!(end_elsewhere(), Ok(()));
    // A stream that goes away takes its capture with it.
    capture::begin(stream, GLOBAL).unwrap();
    stream::destroy(stream).unwrap();
    assert_eq!(capture::end(stream), Err(CUresult::INVALID_HANDLE));
    alloc::alloc(4).unwrap();
}

#[test]
fn a_graph_that_is_there_can_be_captured_to() {
    let (gpu, _guard) = gpu();
    let ptr = gpu.number(1);
    let stream = non_blocking();
    let graph = graph::create(0).unwrap();
    let none = [HostPtr::NULL; 2];
    let first = graph::add_node(graph, none, 0, &mut gpu.node(&step(ptr, 10, 1)).params).unwrap();
    let wanted = [address(&first), HostPtr::NULL];
    assert_eq!(capture::is_to_known_graph(stream), Ok(false));
    capture::begin_to_graph(stream, graph, wanted, 1, GLOBAL).unwrap();
    assert_eq!(capture::is_to_known_graph(stream), Ok(true));
    let info = capture::info(stream).unwrap();
    assert_eq!((info.graph, info.count), (graph, 1));
    assert_eq!(ptxjit_driver::host::get(info.nodes.0), Ok(first));
    gpu.launch(stream, step(ptr, 10, 2)).unwrap();
    // The next node goes beside the last one, and behind the first again.
    let set = CUstreamUpdateCaptureDependencies_flags::SET_CAPTURE_DEPENDENCIES.0;
    capture::update_dependencies(stream, wanted, 1, set).unwrap();
    gpu.launch(stream, step(ptr, 10, 3)).unwrap();
    assert_eq!(capture::end(stream), Ok(graph));
    let nodes = graph::get_nodes(graph).unwrap();
    assert_eq!(graph::node_get_dependencies(nodes[1]).unwrap().0, [first]);
    assert_eq!(graph::node_get_dependencies(nodes[2]).unwrap().0, [first]);
    run(graph);
    assert_eq!(gpu.get(ptr), 1123);
    let garbage = [address(&CUgraphNode(77)), HostPtr::NULL];
    assert_eq!(
        capture::begin_to_graph(stream, graph, garbage, 1, GLOBAL),
        Err(CUresult::INVALID_VALUE)
    );
    assert_eq!(
        capture::begin_to_graph(stream, CUgraph(5), none, 0, GLOBAL),
        Err(CUresult::INVALID_VALUE)
    );
    assert_eq!(status(stream), CUstreamCaptureStatus::NONE);
}

#[test]
fn launches_of_graphs_are_captured_as_child_graphs() {
    let (gpu, _guard) = gpu();
    let ptr = gpu.number(0);
    let stream = non_blocking();
    capture::begin(stream, GLOBAL).unwrap();
    gpu.launch(stream, step(ptr, 10, 2)).unwrap();
    gpu.launch(stream, step(ptr, 10, 3)).unwrap();
    let inner = graph::instantiate(capture::end(stream).unwrap(), 0).unwrap();
    capture::begin(stream, GLOBAL).unwrap();
    gpu.launch(stream, step(ptr, 10, 1)).unwrap();
    graph::launch(inner, stream).unwrap();
    gpu.launch(stream, step(ptr, 10, 4)).unwrap();
    let graph = capture::end(stream).unwrap();
    graph::exec_destroy(inner).unwrap();
    assert_eq!(
        kinds(graph),
        [
            CUgraphNodeType::KERNEL,
            CUgraphNodeType::GRAPH,
            CUgraphNodeType::KERNEL
        ]
    );
    run(graph);
    assert_eq!(gpu.get(ptr), 1234);
    // A graph that is captured belongs to the capture.
    capture::begin(stream, GLOBAL).unwrap();
    let graph = capture::info(stream).unwrap().graph;
    assert_eq!(graph::destroy(graph), Err(CUresult::INVALID_VALUE));
    assert_eq!(capture::end(stream), Ok(graph));
    graph::destroy(graph).unwrap();
}

#[test]
fn functions_of_the_program_and_allocations_are_captured() {
    extern "C" fn set(data: *mut std::ffi::c_void) {
        let flag = data.cast::<std::sync::atomic::AtomicU32>();
        // SAFETY: the test passes the address of a static.
        #[expect(unsafe_code, reason = "a function of a C program")]
        let flag = unsafe { &*flag };
        flag.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    }
    static FLAG: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let (gpu, _guard) = gpu();
    let ptr = gpu.number(0);
    let stream = non_blocking();
    capture::begin(stream, GLOBAL).unwrap();
    let temporary = pool::alloc_async(4, stream).unwrap();
    fill::fill_async(temporary, 6, 4, 1, stream).unwrap();
    gpu.launch(stream, step(temporary, 10, 5)).unwrap();
    copy::on_device_async(ptr, temporary, 4, stream).unwrap();
    pool::free_async(temporary, stream).unwrap();
    let function = HostPtr(set as *const () as u64);
    stream::callback::launch_host(stream, function, address(&FLAG)).unwrap();
    let graph = capture::end(stream).unwrap();
    assert_eq!(
        kinds(graph),
        [
            CUgraphNodeType::MEM_ALLOC,
            CUgraphNodeType::MEMSET,
            CUgraphNodeType::KERNEL,
            CUgraphNodeType::MEMCPY,
            CUgraphNodeType::MEM_FREE,
            CUgraphNodeType::HOST
        ]
    );
    run(graph);
    run(graph);
    assert_eq!(gpu.get(ptr), 65);
    assert_eq!(FLAG.load(std::sync::atomic::Ordering::SeqCst), 2);
    // A callback gets the state of the stream, which a graph has not.
    capture::begin(stream, GLOBAL).unwrap();
    assert_eq!(
        stream::callback::add_callback(stream, |_| {}, 0),
        Err(CUresult::STREAM_CAPTURE_UNSUPPORTED)
    );
    assert_eq!(
        capture::end(stream),
        Err(CUresult::STREAM_CAPTURE_INVALIDATED)
    );
    // A pool's memory is none of the graph's.
    let own = pool::alloc_async(4, stream).unwrap();
    capture::begin(stream, GLOBAL).unwrap();
    assert_eq!(
        pool::free_async(own, stream),
        Err(CUresult::STREAM_CAPTURE_UNSUPPORTED)
    );
    assert_eq!(
        capture::end(stream),
        Err(CUresult::STREAM_CAPTURE_INVALIDATED)
    );
    pool::free_async(own, stream).unwrap();
}
