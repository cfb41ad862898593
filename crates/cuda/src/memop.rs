//! Waits for values in memory, and writes, in streams; attributes of streams.
#![expect(unsafe_code, reason = "exports functions under C's names")]

use ptxjit_driver::stream::attributes;
use ptxjit_driver::stream::memop::{self, Width};
use ptxjit_driver::types::{
    CUdeviceptr, CUstream, CUstreamAttrID, CUstreamAttrValue, CUstreamBatchMemOpParams,
};

use crate::call::{In, Out, exports};

exports! {
    /// Waits for a value in memory.
    fn cuStreamWaitValue32(
        stream: CUstream, address: CUdeviceptr, value: u32, flags: u32,
    ) or cuStreamWaitValue32_ptsz {
        memop::wait_value(stream, address, u64::from(value), Width::Four, flags)
    }

    /// Waits for a value in memory.
    fn cuStreamWaitValue32_v2(
        stream: CUstream, address: CUdeviceptr, value: u32, flags: u32,
    ) or cuStreamWaitValue32_v2_ptsz {
        memop::wait_value(stream, address, u64::from(value), Width::Four, flags)
    }

    /// Waits for a value in memory.
    fn cuStreamWaitValue64(
        stream: CUstream, address: CUdeviceptr, value: u64, flags: u32,
    ) or cuStreamWaitValue64_ptsz {
        memop::wait_value(stream, address, value, Width::Eight, flags)
    }

    /// Waits for a value in memory.
    fn cuStreamWaitValue64_v2(
        stream: CUstream, address: CUdeviceptr, value: u64, flags: u32,
    ) or cuStreamWaitValue64_v2_ptsz {
        memop::wait_value(stream, address, value, Width::Eight, flags)
    }

    /// Writes a value to memory.
    fn cuStreamWriteValue32(
        stream: CUstream, address: CUdeviceptr, value: u32, flags: u32,
    ) or cuStreamWriteValue32_ptsz {
        memop::write_value(stream, address, u64::from(value), Width::Four, flags)
    }

    /// Writes a value to memory.
    fn cuStreamWriteValue32_v2(
        stream: CUstream, address: CUdeviceptr, value: u32, flags: u32,
    ) or cuStreamWriteValue32_v2_ptsz {
        memop::write_value(stream, address, u64::from(value), Width::Four, flags)
    }

    /// Writes a value to memory.
    fn cuStreamWriteValue64(
        stream: CUstream, address: CUdeviceptr, value: u64, flags: u32,
    ) or cuStreamWriteValue64_ptsz {
        memop::write_value(stream, address, value, Width::Eight, flags)
    }

    /// Writes a value to memory.
    fn cuStreamWriteValue64_v2(
        stream: CUstream, address: CUdeviceptr, value: u64, flags: u32,
    ) or cuStreamWriteValue64_v2_ptsz {
        memop::write_value(stream, address, value, Width::Eight, flags)
    }

    /// Does operations on memory in order.
    fn cuStreamBatchMemOp(
        stream: CUstream, count: u32, params: In<CUstreamBatchMemOpParams>, flags: u32,
    ) or cuStreamBatchMemOp_ptsz {
        memop::batch(stream, &params.get_all(count as usize)?, flags)
    }

    /// Does operations on memory in order.
    fn cuStreamBatchMemOp_v2(
        stream: CUstream, count: u32, params: In<CUstreamBatchMemOpParams>, flags: u32,
    ) or cuStreamBatchMemOp_v2_ptsz {
        memop::batch(stream, &params.get_all(count as usize)?, flags)
    }

    /// An attribute of a stream.
    fn cuStreamGetAttribute(
        stream: CUstream, id: CUstreamAttrID, out: Out<CUstreamAttrValue>,
    ) or cuStreamGetAttribute_ptsz {
        out.fill(|| attributes::get(stream, id))
    }

    /// Sets an attribute of a stream.
    fn cuStreamSetAttribute(
        stream: CUstream, id: CUstreamAttrID, value: In<CUstreamAttrValue>,
    ) or cuStreamSetAttribute_ptsz {
        attributes::set(stream, id, &value.get()?)
    }

    /// Copies the attributes of a stream.
    fn cuStreamCopyAttributes(to: CUstream, from: CUstream) or cuStreamCopyAttributes_ptsz {
        attributes::copy(to, from)
    }
}
