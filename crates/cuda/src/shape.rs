//! Copies of boxes, with arrays, between contexts and in batches.
#![expect(unsafe_code, reason = "exports functions under C's names")]

use ptxjit_driver::Result;
use ptxjit_driver::memory::batch::{self, Refused};
use ptxjit_driver::memory::shape::{self, Linear};
use ptxjit_driver::types::{
    CUDA_MEMCPY2D_v2, CUDA_MEMCPY3D_BATCH_OP, CUDA_MEMCPY3D_PEER_v1, CUDA_MEMCPY3D_v2, CUarray,
    CUcontext, CUdeviceptr, CUmemcpyAttributes, CUstream,
};

use crate::call::{In, Out, exports};

/// What a batch gives, with the copy that was refused put where the client wants it.
fn told(result: std::result::Result<(), Refused>, place: Out<usize>) -> Result<()> {
    result.or_else(|(refused, code)| {
        place.put_if_wanted(refused.unwrap_or(usize::MAX))?;
        Err(code)
    })
}

/// The arguments of a batch of copies in one dimension.
struct Batch {
    to: In<CUdeviceptr>,
    from: In<CUdeviceptr>,
    sizes: In<usize>,
    count: usize,
    attributes: In<CUmemcpyAttributes>,
    firsts: In<usize>,
    n_attributes: usize,
}

impl Batch {
    fn submit(&self, stream: CUstream) -> std::result::Result<(), Refused> {
        let read = || {
            let (to, from) = (self.to.get_all(self.count)?, self.from.get_all(self.count)?);
            let sizes = self.sizes.get_all(self.count)?;
            let copies = to.into_iter().zip(from).zip(sizes);
            let copies: Vec<_> = copies.map(|((to, from), size)| (to, from, size)).collect();
            Ok((
                copies,
                self.attributes.get_all(self.n_attributes)?,
                self.firsts.get_all(self.n_attributes)?,
            ))
        };
        let (copies, attributes, firsts) = read().map_err(|code| (None, code))?;
        batch::copy_batch(&copies, &attributes, &firsts, stream)
    }
}

exports! {
    /// Copies a rectangle.
    fn cuMemcpy2D_v2(params: In<CUDA_MEMCPY2D_v2>) or cuMemcpy2D_v2_ptds {
        shape::copy_2d(&params.get()?)
    }

    /// Copies a rectangle.
    fn cuMemcpy2DUnaligned_v2(params: In<CUDA_MEMCPY2D_v2>) or cuMemcpy2DUnaligned_v2_ptds {
        shape::copy_2d(&params.get()?)
    }

    /// Copies a rectangle.
    fn cuMemcpy2DAsync_v2(
        params: In<CUDA_MEMCPY2D_v2>, stream: CUstream,
    ) or cuMemcpy2DAsync_v2_ptsz {
        shape::copy_2d_async(&params.get()?, stream)
    }

    /// Copies a box.
    fn cuMemcpy3D_v2(params: In<CUDA_MEMCPY3D_v2>) or cuMemcpy3D_v2_ptds {
        shape::copy_3d(&params.get()?)
    }

    /// Copies a box.
    fn cuMemcpy3DAsync_v2(
        params: In<CUDA_MEMCPY3D_v2>, stream: CUstream,
    ) or cuMemcpy3DAsync_v2_ptsz {
        shape::copy_3d_async(&params.get()?, stream)
    }

    /// Copies a box between contexts.
    fn cuMemcpy3DPeer(params: In<CUDA_MEMCPY3D_PEER_v1>) or cuMemcpy3DPeer_ptds {
        shape::copy_3d_peer(&params.get()?, CUstream::NULL)
    }

    /// Copies a box between contexts.
    fn cuMemcpy3DPeerAsync(
        params: In<CUDA_MEMCPY3D_PEER_v1>, stream: CUstream,
    ) or cuMemcpy3DPeerAsync_ptsz {
        shape::copy_3d_peer(&params.get()?, stream)
    }

    /// Copies between contexts.
    fn cuMemcpyPeer(
        to: CUdeviceptr, to_context: CUcontext, from: CUdeviceptr, from_context: CUcontext,
        size: usize,
    ) or cuMemcpyPeer_ptds {
        shape::copy_peer(to, to_context, from, from_context, size, CUstream::NULL)
    }

    /// Copies between contexts.
    fn cuMemcpyPeerAsync(
        to: CUdeviceptr, to_context: CUcontext, from: CUdeviceptr, from_context: CUcontext,
        size: usize, stream: CUstream,
    ) or cuMemcpyPeerAsync_ptsz {
        shape::copy_peer(to, to_context, from, from_context, size, stream)
    }

    /// Copies between arrays.
    fn cuMemcpyAtoA_v2(
        to: CUarray, to_offset: usize, from: CUarray, from_offset: usize, size: usize,
    ) or cuMemcpyAtoA_v2_ptds {
        shape::copy_linear(Linear::Array(to, to_offset), Linear::Array(from, from_offset), size)
    }

    /// Copies from an array to a device.
    fn cuMemcpyAtoD_v2(
        to: CUdeviceptr, from: CUarray, offset: usize, size: usize,
    ) or cuMemcpyAtoD_v2_ptds {
        shape::copy_linear(Linear::Device(to), Linear::Array(from, offset), size)
    }

    /// Copies from a device to an array.
    fn cuMemcpyDtoA_v2(
        to: CUarray, offset: usize, from: CUdeviceptr, size: usize,
    ) or cuMemcpyDtoA_v2_ptds {
        shape::copy_linear(Linear::Array(to, offset), Linear::Device(from), size)
    }

    /// Copies from an array to the host.
    fn cuMemcpyAtoH_v2(to: u64, from: CUarray, offset: usize, size: usize) or cuMemcpyAtoH_v2_ptds {
        shape::copy_linear(Linear::Host(to), Linear::Array(from, offset), size)
    }

    /// Copies from the host to an array.
    fn cuMemcpyHtoA_v2(to: CUarray, offset: usize, from: u64, size: usize) or cuMemcpyHtoA_v2_ptds {
        shape::copy_linear(Linear::Array(to, offset), Linear::Host(from), size)
    }

    /// Copies from an array to the host.
    fn cuMemcpyAtoHAsync_v2(
        to: u64, from: CUarray, offset: usize, size: usize, stream: CUstream,
    ) or cuMemcpyAtoHAsync_v2_ptsz {
        shape::copy_linear_async(Linear::Host(to), Linear::Array(from, offset), size, stream)
    }

    /// Copies from the host to an array.
    fn cuMemcpyHtoAAsync_v2(
        to: CUarray, offset: usize, from: u64, size: usize, stream: CUstream,
    ) or cuMemcpyHtoAAsync_v2_ptsz {
        shape::copy_linear_async(Linear::Array(to, offset), Linear::Host(from), size, stream)
    }

    /// Copies several times.
    fn cuMemcpyBatchAsync(
        to: In<CUdeviceptr>, from: In<CUdeviceptr>, sizes: In<usize>, count: usize,
        attributes: In<CUmemcpyAttributes>, firsts: In<usize>, n_attributes: usize,
        refused: Out<usize>, stream: CUstream,
    ) or cuMemcpyBatchAsync_ptsz {
        let batch = Batch { to, from, sizes, count, attributes, firsts, n_attributes };
        told(batch.submit(stream), refused)
    }

    /// Copies several times.
    fn cuMemcpyBatchAsync_v2(
        to: In<CUdeviceptr>, from: In<CUdeviceptr>, sizes: In<usize>, count: usize,
        attributes: In<CUmemcpyAttributes>, firsts: In<usize>, n_attributes: usize,
        stream: CUstream,
    ) or cuMemcpyBatchAsync_v2_ptsz {
        let batch = Batch { to, from, sizes, count, attributes, firsts, n_attributes };
        batch.submit(stream).map_err(|(_, code)| code)
    }

    /// Copies several boxes.
    fn cuMemcpy3DBatchAsync(
        count: usize, ops: In<CUDA_MEMCPY3D_BATCH_OP>, refused: Out<usize>, flags: u64,
        stream: CUstream,
    ) or cuMemcpy3DBatchAsync_ptsz {
        let ops = ops.get_all(count)?;
        told(batch::copy_batch_3d(&ops, flags, stream), refused)
    }

    /// Copies several boxes.
    fn cuMemcpy3DBatchAsync_v2(
        count: usize, ops: In<CUDA_MEMCPY3D_BATCH_OP>, flags: u64, stream: CUstream,
    ) or cuMemcpy3DBatchAsync_v2_ptsz {
        let ops = ops.get_all(count)?;
        batch::copy_batch_3d(&ops, flags, stream).map_err(|(_, code)| code)
    }

    /// Copies with attributes.
    fn cuMemcpyWithAttributesAsync(
        to: CUdeviceptr, from: CUdeviceptr, size: usize, attributes: In<CUmemcpyAttributes>,
        stream: CUstream,
    ) or cuMemcpyWithAttributesAsync_ptsz {
        batch::copy_with_attributes(to, from, size, &attributes.get()?, stream)
    }

    /// Copies a box with attributes.
    fn cuMemcpy3DWithAttributesAsync(
        op: In<CUDA_MEMCPY3D_BATCH_OP>, flags: u64, stream: CUstream,
    ) or cuMemcpy3DWithAttributesAsync_ptsz {
        batch::copy_3d_with_attributes(&op.get()?, flags, stream)
    }
}
