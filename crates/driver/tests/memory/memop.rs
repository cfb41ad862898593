//! Host functions, waits for values in memory and writes of them, attributes of streams.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use ptxjit_driver::memory::{alloc, copy};
use ptxjit_driver::stream::memop::{self, Width};
use ptxjit_driver::stream::{self, attributes, callback};
use ptxjit_driver::types::{
    CUlaunchAttributeID, CUlaunchAttributeValue, CUresult, CUstream, CUstreamAttrID,
    CUstreamBatchMemOpParams, CUstreamBatchMemOpType as OpType, CUstreamMemOpValueParams, Union,
};
use ptxjit_driver::{check_call, context};

use crate::common;

const GEQ: u32 = 0;
const EQ: u32 = 1;
const AND: u32 = 2;
const NOR: u32 = 3;

fn write32(addr: u64, value: u32) {
    copy::to_device(addr, &raw const value as u64, 4).unwrap();
}

fn read64(addr: u64) -> u64 {
    let mut value = 0_u64;
    copy::to_host(&raw mut value as u64, addr, 8).unwrap();
    value
}

/// Whether a stream gets past a wait for `value` while `now` is in memory.
fn passes(now: u32, value: u64, flags: u32) -> bool {
    let (stream, addr) = (common::stream(), alloc::alloc(4).unwrap());
    write32(addr, now);
    let (sender, receiver) = channel();
    memop::wait_value(stream, addr, value, Width::Four, flags).unwrap();
    common::launch_host(stream, move || sender.send(()).unwrap());
    let has_passed = receiver.recv_timeout(Duration::from_millis(300)).is_ok();
    if !has_passed {
        // The condition holds now, so that the stream ends.
        write32(addr, if flags == NOR { 0 } else { value as u32 });
        if flags == AND {
            write32(addr, u32::MAX);
        }
        receiver.recv_timeout(Duration::from_secs(10)).unwrap();
    }
    has_passed
}

#[test]
fn a_stream_waits_until_the_condition_holds() {
    common::context();
    assert!(passes(5, 5, GEQ) && passes(6, 5, GEQ) && !passes(4, 5, GEQ));
    // A counter that has wrapped around is behind one that has not.
    assert!(passes(1, 0xffff_ffff, GEQ) && !passes(0xffff_ffff, 1, GEQ));
    assert!(passes(5, 5, EQ) && !passes(6, 5, EQ));
    assert!(passes(6, 4, AND) && !passes(3, 4, AND));
    assert!(passes(0xffff_0000, 0x0fff, NOR) && !passes(0xffff_0000, 0xffff, NOR));
}

#[test]
fn streams_hand_values_to_each_other() {
    common::context();
    let addr = alloc::alloc(16).unwrap();
    copy::to_device(addr, [0_u64; 2].as_ptr() as u64, 16).unwrap();
    let (one, other) = (common::stream(), common::stream());
    memop::wait_value(one, addr, 1 << 40, Width::Eight, EQ).unwrap();
    memop::write_value(one, addr + 8, u64::MAX, Width::Eight, 0).unwrap();
    memop::wait_value(other, addr + 8, u64::MAX, Width::Eight, EQ).unwrap();
    assert_eq!(stream::query(other), Err(CUresult::NOT_READY));
    memop::write_value(common::stream(), addr, 1 << 40, Width::Eight, 1).unwrap();
    stream::synchronize(other).unwrap();
    assert_eq!(read64(addr + 8), u64::MAX);
    memop::write_value(one, addr + 8, 7, Width::Four, 0).unwrap();
    stream::synchronize(one).unwrap();
    assert_eq!(read64(addr + 8), 0xffff_ffff_0000_0007);
}

fn op(operation: OpType, address: u64, value: u64, flags: u32) -> CUstreamBatchMemOpParams {
    let params = CUstreamMemOpValueParams {
        operation,
        address,
        value: Union::of(value),
        flags,
        alias: 0,
    };
    CUstreamBatchMemOpParams {
        bytes: Union::of(params),
    }
}

#[test]
fn operations_of_a_batch_run_in_order() {
    common::context();
    let (addr, stream) = (alloc::alloc(8).unwrap(), common::stream());
    let ops = [
        op(OpType::WRITE_VALUE_64, addr, 5 << 32, 0),
        op(OpType::BARRIER, 0, 0, 0),
        op(OpType::WAIT_VALUE_32, addr + 4, 5, EQ),
        op(OpType::WRITE_VALUE_32, addr, 3, 0),
    ];
    memop::batch(stream, &ops, 0).unwrap();
    stream::synchronize(stream).unwrap();
    assert_eq!(read64(addr), 5 << 32 | 3);
    let invalid = Err(CUresult::INVALID_VALUE);
    assert_eq!(memop::batch(stream, &ops, 1), invalid);
    assert_eq!(memop::batch(stream, &[], 0), invalid);
    assert_eq!(memop::batch(stream, &[ops[1]; 257], 0), invalid);
    assert_eq!(
        memop::batch(stream, &[op(OpType(99), addr, 0, 0)], 0),
        invalid
    );
    // A wrong one among them keeps the others from running.
    let wrong = [
        op(OpType::WRITE_VALUE_32, addr, 9, 0),
        op(OpType::WRITE_VALUE_32, 1, 0, 0),
    ];
    assert_eq!(memop::batch(stream, &wrong, 0), invalid);
    stream::synchronize(stream).unwrap();
    assert_eq!(read64(addr), 5 << 32 | 3);
}

#[test]
fn wrong_waits_and_writes_are_refused() {
    common::context();
    let (addr, stream) = (alloc::alloc(8).unwrap(), common::stream());
    let invalid = Err(CUresult::INVALID_VALUE);
    let wait = |addr, width, flags| memop::wait_value(stream, addr, 0, width, flags);
    assert_eq!(wait(0, Width::Four, EQ), invalid);
    assert_eq!(wait(addr + 2, Width::Four, EQ), invalid);
    assert_eq!(wait(addr + 4, Width::Eight, EQ), invalid);
    assert_eq!(wait(addr + 8, Width::Four, EQ), invalid);
    assert_eq!(wait(addr, Width::Four, 4), invalid);
    assert_eq!(
        wait(addr, Width::Four, EQ | 1 << 30),
        Err(CUresult::NOT_SUPPORTED)
    );
    assert_eq!(memop::write_value(stream, addr, 0, Width::Four, 2), invalid);
    let local = 0_u64;
    let local = &raw const local as u64;
    assert_eq!(
        memop::write_value(stream, local, 0, Width::Eight, 0),
        invalid
    );
    let garbage = CUstream(77);
    let result = memop::write_value(garbage, addr, 0, Width::Four, 0);
    assert_eq!(result, Err(CUresult::INVALID_HANDLE));
}

#[test]
fn functions_run_in_order_and_may_not_call_the_driver() {
    common::context();
    let stream = common::stream();
    let (sender, receiver) = channel();
    for idx in 0..3 {
        let sender = sender.clone();
        let function = move || sender.send((idx, check_call())).unwrap();
        common::launch_host(stream, function);
    }
    callback::add_callback(
        stream,
        move |status| sender.send((9, Err(status))).unwrap(),
        0,
    )
    .unwrap();
    stream::synchronize(stream).unwrap();
    let forbidden = Err(CUresult::NOT_PERMITTED);
    let expected = [
        (0, forbidden),
        (1, forbidden),
        (2, forbidden),
        (9, Err(CUresult::SUCCESS)),
    ];
    assert_eq!(receiver.iter().collect::<Vec<_>>(), expected);
    assert_eq!(
        check_call(),
        Ok(()),
        "only the thread of the function is barred"
    );
    let flags = callback::add_callback(stream, |_| (), 1);
    assert_eq!(flags, Err(CUresult::INVALID_VALUE));
}

#[test]
fn functions_do_not_run_on_the_thread_that_waits() {
    common::context();
    let stream = common::stream();
    let (sender, receiver) = channel();
    common::launch_host(stream, move || {
        sender.send(std::thread::current().id()).unwrap();
    });
    stream::synchronize(stream).unwrap();
    assert_ne!(receiver.recv().unwrap(), std::thread::current().id());
}

#[test]
fn an_asynchronous_call_returns_before_the_stream_goes_on() {
    common::context();
    let stream = common::stream();
    let gate = common::block(stream);
    let start = Instant::now();
    assert_eq!(stream::query(stream), Err(CUresult::NOT_READY));
    drop(gate);
    context::synchronize(Default::default()).unwrap();
    assert_eq!(stream::query(stream), Ok(()));
    assert!(start.elapsed() < Duration::from_secs(60));
}

#[test]
fn attributes_of_streams_are_kept_and_copied() {
    common::context();
    let (one, other) = (common::stream(), common::stream());
    let number = |value: i32| CUlaunchAttributeValue {
        bytes: Union::of(value),
    };
    let spin = number(2);
    attributes::set(one, CUstreamAttrID::SYNCHRONIZATION_POLICY, &spin).unwrap();
    attributes::set(one, CUstreamAttrID::PRIORITY, &number(-3)).unwrap();
    assert_eq!(stream::get_priority(one), Ok(-3));
    assert_eq!(
        attributes::get(other, CUstreamAttrID::SYNCHRONIZATION_POLICY),
        Ok(number(1))
    );
    attributes::copy(other, one).unwrap();
    assert_eq!(
        attributes::get(other, CUstreamAttrID::SYNCHRONIZATION_POLICY),
        Ok(spin)
    );
    assert_eq!(
        attributes::get(other, CUstreamAttrID::PRIORITY),
        Ok(number(-3))
    );
    let map = attributes::get(one, CUstreamAttrID::MEM_SYNC_DOMAIN_MAP).unwrap();
    assert_eq!(
        (
            map.mem_sync_domain_map().default_,
            map.mem_sync_domain_map().remote
        ),
        (0, 1)
    );
    let wrong = [
        attributes::set(one, CUstreamAttrID::SYNCHRONIZATION_POLICY, &number(0)),
        attributes::set(one, CUstreamAttrID::PRIORITY, &number(1)),
        attributes::set(one, CUstreamAttrID::COOPERATIVE, &number(1)),
        attributes::set(one, CUlaunchAttributeID(99), &number(1)),
    ];
    assert_eq!(wrong, [Err(CUresult::INVALID_VALUE); 4]);
    assert_eq!(
        attributes::copy(one, CUstream(99)),
        Err(CUresult::INVALID_HANDLE)
    );
}
