//! Copies: what the 2-D, 3-D and batched copies take.

use super::handle::{CUarray, CUcontext, CUdeviceptr, HostPtr};
use super::memory::{CUmemLocation, CUmemorytype};
use super::raw::{Union, c_enums, c_structs};

c_enums! {
    /// Flags of a copy in a batch.
    CUmemcpyFlags(u32, "CU_MEMCPY_FLAG_") {
        DEFAULT = 0,
        PREFER_OVERLAP_WITH_COMPUTE = 1,
    }

    /// When the source of a copy in a batch may be read.
    CUmemcpySrcAccessOrder(u32, "CU_MEMCPY_SRC_ACCESS_ORDER_") {
        INVALID = 0,
        STREAM = 1,
        DURING_API_CALL = 2,
        ANY = 3,
        MAX = 0x7fff_ffff,
    }

    /// Kinds of operands of a 3-D copy in a batch.
    CUmemcpy3DOperandType(u32, "CU_MEMCPY_OPERAND_TYPE_") {
        POINTER = 1,
        ARRAY = 2,
        MAX = 0x7fff_ffff,
    }
}

c_structs! {
    /// A 2-D copy.
    #[derive(Eq)]
    CUDA_MEMCPY2D_v2 {
        srcXInBytes: usize,
        srcY: usize,
        srcMemoryType: CUmemorytype,
        srcHost: HostPtr,
        srcDevice: CUdeviceptr,
        srcArray: CUarray,
        srcPitch: usize,
        dstXInBytes: usize,
        dstY: usize,
        dstMemoryType: CUmemorytype,
        dstHost: HostPtr,
        dstDevice: CUdeviceptr,
        dstArray: CUarray,
        dstPitch: usize,
        WidthInBytes: usize,
        Height: usize,
    }

    /// A 3-D copy.
    #[derive(Eq)]
    CUDA_MEMCPY3D_v2 {
        srcXInBytes: usize,
        srcY: usize,
        srcZ: usize,
        srcLOD: usize,
        srcMemoryType: CUmemorytype,
        srcHost: HostPtr,
        srcDevice: CUdeviceptr,
        srcArray: CUarray,
        reserved0: HostPtr,
        srcPitch: usize,
        srcHeight: usize,
        dstXInBytes: usize,
        dstY: usize,
        dstZ: usize,
        dstLOD: usize,
        dstMemoryType: CUmemorytype,
        dstHost: HostPtr,
        dstDevice: CUdeviceptr,
        dstArray: CUarray,
        reserved1: HostPtr,
        dstPitch: usize,
        dstHeight: usize,
        WidthInBytes: usize,
        Height: usize,
        Depth: usize,
    }

    /// A 3-D copy between contexts.
    #[derive(Eq)]
    CUDA_MEMCPY3D_PEER_v1 {
        srcXInBytes: usize,
        srcY: usize,
        srcZ: usize,
        srcLOD: usize,
        srcMemoryType: CUmemorytype,
        srcHost: HostPtr,
        srcDevice: CUdeviceptr,
        srcArray: CUarray,
        srcContext: CUcontext,
        srcPitch: usize,
        srcHeight: usize,
        dstXInBytes: usize,
        dstY: usize,
        dstZ: usize,
        dstLOD: usize,
        dstMemoryType: CUmemorytype,
        dstHost: HostPtr,
        dstDevice: CUdeviceptr,
        dstArray: CUarray,
        dstContext: CUcontext,
        dstPitch: usize,
        dstHeight: usize,
        WidthInBytes: usize,
        Height: usize,
        Depth: usize,
    }

    /// How copies of a batch are done.
    #[derive(Eq)]
    CUmemcpyAttributes {
        srcAccessOrder: CUmemcpySrcAccessOrder,
        srcLocHint: CUmemLocation,
        dstLocHint: CUmemLocation,
        flags: u32,
    }

    /// A place in an array.
    #[derive(Eq)]
    CUoffset3D {
        x: usize,
        y: usize,
        z: usize,
    }

    /// The size of a box.
    #[derive(Eq)]
    CUextent3D {
        width: usize,
        height: usize,
        depth: usize,
    }

    /// An operand of a 3-D copy in a batch that is an address.
    #[derive(Eq)]
    CUmemcpy3DPointerOperand {
        ptr: CUdeviceptr,
        rowLength: usize,
        layerHeight: usize,
        locHint: CUmemLocation,
    }

    /// An operand of a 3-D copy in a batch that is an array.
    #[derive(Eq)]
    CUmemcpy3DArrayOperand {
        array: CUarray,
        offset: CUoffset3D,
    }

    /// An operand of a 3-D copy in a batch; see [`Self::pointer`] and [`Self::array`].
    #[derive(Eq)]
    CUmemcpy3DOperand {
        type_: CUmemcpy3DOperandType,
        op: Union<32>,
    }

    /// A 3-D copy in a batch.
    #[derive(Eq)]
    CUDA_MEMCPY3D_BATCH_OP {
        src: CUmemcpy3DOperand,
        dst: CUmemcpy3DOperand,
        extent: CUextent3D,
        srcAccessOrder: CUmemcpySrcAccessOrder,
        flags: u32,
    }
}

impl CUmemcpy3DOperand {
    /// The operand of type [`CUmemcpy3DOperandType::POINTER`].
    #[must_use]
    pub fn pointer(&self) -> CUmemcpy3DPointerOperand {
        self.op.get(0)
    }

    /// The operand of type [`CUmemcpy3DOperandType::ARRAY`].
    #[must_use]
    pub fn array(&self) -> CUmemcpy3DArrayOperand {
        self.op.get(0)
    }
}
