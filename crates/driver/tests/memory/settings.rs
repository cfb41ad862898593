//! Settings of contexts, and access of devices to each other.

use ptxjit_driver::types::{
    CUcontext, CUctxCreateParams, CUdevice_P2PAttribute, CUexecAffinityParam, CUexecAffinityType,
    CUfunc_cache, CUlimit, CUresult, CUsharedconfig, HostPtr,
};
use ptxjit_driver::{context, event, peer, settings};

use crate::common;

#[test]
fn limits_are_kept_per_context() {
    let first = common::context();
    let limits = [
        (CUlimit::STACK_SIZE, 1024, 4096),
        (CUlimit::PRINTF_FIFO_SIZE, 1 << 20, 2 << 20),
        (CUlimit::MALLOC_HEAP_SIZE, 8 << 20, 64 << 20),
        (CUlimit::DEV_RUNTIME_PENDING_LAUNCH_COUNT, 2048, 4096),
        (CUlimit::MAX_L2_FETCH_GRANULARITY, 64, 128),
    ];
    for (limit, default, other) in limits {
        assert_eq!(settings::limit(limit), Ok(default), "{limit:?}");
        settings::set_limit(limit, other).unwrap();
        assert_eq!(settings::limit(limit), Ok(other), "{limit:?}");
    }
    common::context();
    assert_eq!(settings::limit(CUlimit::STACK_SIZE), Ok(1024));
    context::set_current(first).unwrap();
    assert_eq!(settings::limit(CUlimit::STACK_SIZE), Ok(4096));
    settings::set_limit(CUlimit::STACK_SIZE, 1000).unwrap();
    assert_eq!(
        settings::limit(CUlimit::STACK_SIZE),
        Ok(1008),
        "a multiple of 16"
    );
}

#[test]
fn wrong_limits_are_refused() {
    common::context();
    for limit in [10, 11, 99, u32::MAX] {
        let invalid = CUresult::INVALID_VALUE;
        assert_eq!(settings::limit(CUlimit(limit)), Err(invalid));
        assert_eq!(settings::set_limit(CUlimit(limit), 0), Err(invalid));
    }
    for limit in [CUlimit::SHMEM_SIZE, CUlimit::CIG_ENABLED] {
        assert!(settings::limit(limit).is_ok());
        assert_eq!(settings::set_limit(limit, 1), Err(CUresult::NOT_PERMITTED));
    }
    let unsupported = settings::limit(CUlimit::CIG_SHMEM_FALLBACK_ENABLED);
    assert_eq!(unsupported, Err(CUresult::UNSUPPORTED_LIMIT));
    let too_large = settings::set_limit(CUlimit::MAX_L2_FETCH_GRANULARITY, 129);
    assert_eq!(too_large, Err(CUresult::INVALID_VALUE));
    let too_large = settings::set_limit(CUlimit::STACK_SIZE, usize::MAX);
    assert_eq!(too_large, Err(CUresult::INVALID_VALUE));
    let too_large = settings::set_limit(CUlimit::MALLOC_HEAP_SIZE, usize::MAX);
    assert_eq!(too_large, Err(CUresult::OUT_OF_MEMORY));
    context::set_current(CUcontext::NULL).unwrap();
    assert_eq!(
        settings::limit(CUlimit::STACK_SIZE),
        Err(CUresult::INVALID_CONTEXT)
    );
}

#[test]
fn configurations_are_kept() {
    common::context();
    assert_eq!(settings::cache_config(), Ok(CUfunc_cache::PREFER_NONE));
    settings::set_cache_config(CUfunc_cache::PREFER_L1).unwrap();
    assert_eq!(settings::cache_config(), Ok(CUfunc_cache::PREFER_L1));
    settings::set_shared_config(CUsharedconfig::EIGHT_BYTE_BANK_SIZE).unwrap();
    assert_eq!(
        settings::shared_config(),
        Ok(CUsharedconfig::EIGHT_BYTE_BANK_SIZE)
    );
    let wrong = [
        settings::set_cache_config(CUfunc_cache(4)),
        settings::set_shared_config(CUsharedconfig(3)),
    ];
    assert_eq!(wrong, [Err(CUresult::INVALID_VALUE); 2]);
    assert_eq!(settings::priority_range(), Ok((0, -5)));
}

#[test]
fn a_context_ends_with_its_last_user() {
    let handle = common::context();
    assert_eq!(settings::attach(1), Err(CUresult::INVALID_VALUE));
    assert_eq!(settings::attach(0), Ok(handle));
    settings::detach(handle).unwrap();
    assert_eq!(context::get_current(), Ok(handle));
    settings::detach(handle).unwrap();
    assert_eq!(settings::detach(handle), Err(CUresult::INVALID_CONTEXT));
    assert_eq!(
        context::push_current(handle),
        Err(CUresult::INVALID_CONTEXT)
    );
}

#[test]
fn affinity_is_not_to_be_had() {
    common::start();
    let some = CUexecAffinityParam {
        type_: CUexecAffinityType::SM_COUNT,
        sm_count: 8,
    };
    let unsupported = Err(CUresult::UNSUPPORTED_EXEC_AFFINITY);
    assert_eq!(context::create_with_affinity(0, 0, &[some]), unsupported);
    assert!(context::create_with_affinity(0, 0, &[]).is_ok());
    assert!(context::create_with_params(0, 0, None).is_ok());
    let params = CUctxCreateParams {
        execAffinityParams: HostPtr(&raw const some as u64),
        numExecAffinityParams: 1,
        cigParams: HostPtr::NULL,
    };
    assert_eq!(context::create_with_params(0, 0, Some(params)), unsupported);
    let negative = CUctxCreateParams {
        numExecAffinityParams: -1,
        ..params
    };
    let invalid = Err(CUresult::INVALID_VALUE);
    assert_eq!(context::create_with_params(0, 0, Some(negative)), invalid);
    let nowhere = CUctxCreateParams {
        execAffinityParams: HostPtr::NULL,
        ..params
    };
    assert_eq!(context::create_with_params(0, 0, Some(nowhere)), invalid);
}

#[test]
fn peers_are_enabled_once() {
    let other = common::context_on(1);
    let same_device = common::context();
    let own = common::context();
    assert_eq!(peer::enable(other, 0), Ok(()));
    assert_eq!(
        peer::enable(other, 0),
        Err(CUresult::PEER_ACCESS_ALREADY_ENABLED)
    );
    assert_eq!(peer::disable(other), Ok(()));
    assert_eq!(peer::disable(other), Err(CUresult::PEER_ACCESS_NOT_ENABLED));
    assert_eq!(peer::enable(other, 1), Err(CUresult::INVALID_VALUE));
    assert_eq!(peer::enable(own, 0), Err(CUresult::INVALID_CONTEXT));
    assert_eq!(
        peer::enable(CUcontext(99), 0),
        Err(CUresult::INVALID_CONTEXT)
    );
    assert_eq!(
        peer::enable(same_device, 0),
        Err(CUresult::PEER_ACCESS_UNSUPPORTED)
    );
}

#[test]
fn devices_can_access_each_other() {
    common::start();
    assert_eq!(peer::can_access(0, 1), Ok(true));
    assert_eq!(peer::can_access(1, 1), Ok(false));
    assert_eq!(peer::can_access(0, 2), Err(CUresult::INVALID_DEVICE));
    let supported = CUdevice_P2PAttribute::ACCESS_SUPPORTED;
    assert_eq!(peer::attribute(supported, 0, 1), Ok(1));
    assert_eq!(
        peer::attribute(supported, 1, 1),
        Err(CUresult::INVALID_DEVICE)
    );
    let unknown = CUdevice_P2PAttribute(77);
    assert_eq!(peer::attribute(unknown, 0, 1), Err(CUresult::INVALID_VALUE));
}

#[test]
fn an_external_record_needs_a_capture() {
    common::context();
    let (made, stream) = (event::create(0).unwrap(), common::stream());
    assert_eq!(event::record_with_flags(made, stream, 0), Ok(()));
    assert_eq!(
        event::record_with_flags(made, stream, 1),
        Err(CUresult::INVALID_VALUE)
    );
    assert_eq!(
        event::record_with_flags(made, stream, 2),
        Err(CUresult::INVALID_VALUE)
    );
}
