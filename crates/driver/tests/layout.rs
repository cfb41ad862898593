//! The types of the driver API against cudarc's bindings of `cuda.h`, and what they read from
//! bytes.

#[path = "layout/structs.rs"]
mod structs;
#[path = "layout/values.rs"]
mod values;

use std::mem::offset_of;

use cudarc::driver::sys;
use ptxjit_driver::types::*;

#[test]
fn a_struct_is_read_from_the_bytes_it_was_written_to() {
    let window = CUaccessPolicyWindow {
        base_ptr: HostPtr(0x1234_5678_9abc),
        num_bytes: 77,
        hitRatio: 0.5,
        hitProp: CUaccessProperty::PERSISTING,
        missProp: CUaccessProperty::STREAMING,
    };
    let value = CUlaunchAttributeValue {
        bytes: Union::of(window),
    };
    assert_eq!(value.access_policy_window(), window);
    // The first bytes of the union are the address, whichever variant is asked for.
    assert_eq!(value.number(), 0x5678_9abc);
}

#[test]
fn variants_of_node_params_are_read_where_c_puts_them() {
    // As C would: the union starts at 16, a kernel's grid at 8 within it.
    let mut bytes = [0; size_of::<CUgraphNodeParams>()];
    0_u32.write(&mut bytes);
    let union_at = offset_of!(sys::CUgraphNodeParams, __bindgen_anon_1);
    let grid_at = union_at + offset_of!(sys::CUDA_KERNEL_NODE_PARAMS_v3, gridDimX);
    let context_at = union_at + offset_of!(sys::CUDA_KERNEL_NODE_PARAMS_v3, ctx);
    [3_u32, 4, 5].write(&mut bytes[grid_at..]);
    9_u64.write(&mut bytes[context_at..]);
    let params = CUgraphNodeParams::read(&bytes);
    assert_eq!(params.type_, CUgraphNodeType::KERNEL);
    let kernel = params.kernel();
    assert_eq!(
        [kernel.gridDimX, kernel.gridDimY, kernel.gridDimZ],
        [3, 4, 5]
    );
    assert_eq!(kernel.ctx, CUcontext(9));
}

#[test]
fn mem_ops_are_read_where_c_puts_them() {
    let mut bytes = [0; size_of::<CUstreamBatchMemOpParams>()];
    type Wait = sys::CUstreamBatchMemOpParams_union_CUstreamMemOpWaitValueParams_st;
    CUstreamBatchMemOpType::WAIT_VALUE_64.write(&mut bytes);
    0x100_u64.write(&mut bytes[offset_of!(Wait, address)..]);
    u64::MAX.write(&mut bytes[offset_of!(Wait, __bindgen_anon_1)..]);
    2_u32.write(&mut bytes[offset_of!(Wait, flags)..]);
    let op = CUstreamBatchMemOpParams::read(&bytes);
    assert_eq!(op.operation(), CUstreamBatchMemOpType::WAIT_VALUE_64);
    let wait = op.value();
    assert_eq!(
        (wait.address, wait.value64(), wait.flags),
        (0x100, u64::MAX, 2)
    );
    assert_eq!(wait.value32(), u32::MAX);
}

#[test]
fn a_tensor_map_is_aligned_as_the_older_header_has_it() {
    assert_eq!(size_of::<CUtensorMap>(), size_of::<sys::CUtensorMap>());
    // A client built for CUDA 12 aligns it to 64 bytes, not to CUDA 13's 128.
    assert_eq!(align_of::<CUtensorMap>(), 64);
    assert_eq!(align_of::<sys::CUtensorMap>(), 128);
}

#[test]
fn results_have_names_and_descriptions() {
    let invalid = CUresult::INVALID_VALUE;
    assert_eq!(invalid.name(), Some(c"CUDA_ERROR_INVALID_VALUE"));
    assert_eq!(invalid.description(), Some(c"invalid argument"));
    assert_eq!(CUresult::SUCCESS.name(), Some(c"CUDA_SUCCESS"));
    assert_eq!(CUresult(123_456).name(), None);
    assert_eq!(CUresult(123_456).description(), None);
    for &(name, result) in CUresult::ALL {
        assert_eq!(
            result.name().and_then(|c_name| c_name.to_str().ok()),
            Some(name)
        );
        assert!(result.description().is_some_and(|text| !text.is_empty()));
    }
}

#[test]
fn the_first_of_several_names_is_shown() {
    assert_eq!(
        format!("{:?}", CUdevice_attribute(8)),
        "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK"
    );
    assert_eq!(
        format!("{:?}", CUdevice_attribute(9999)),
        "CUdevice_attribute(0x270f)"
    );
}
