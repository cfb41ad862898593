//! Arrays, textures, surfaces and tensor maps.

use super::handle::{CUarray, CUdeviceptr, CUmemGenericAllocationHandle, CUmipmappedArray};
use super::memory::{CUmemHandleType, CUmemOperationType};
use super::raw::{Union, c_enums, c_structs};

c_enums! {
    /// Formats of an array's elements.
    CUarray_format(u32, "CU_AD_FORMAT_") {
        UNSIGNED_INT8 = 1,
        UNSIGNED_INT16 = 2,
        UNSIGNED_INT32 = 3,
        SIGNED_INT8 = 8,
        SIGNED_INT16 = 9,
        SIGNED_INT32 = 10,
        HALF = 16,
        FLOAT = 32,
        NV12 = 176,
        UNORM_INT8X1 = 192,
        UNORM_INT8X2 = 193,
        UNORM_INT8X4 = 194,
        UNORM_INT16X1 = 195,
        UNORM_INT16X2 = 196,
        UNORM_INT16X4 = 197,
        SNORM_INT8X1 = 198,
        SNORM_INT8X2 = 199,
        SNORM_INT8X4 = 200,
        SNORM_INT16X1 = 201,
        SNORM_INT16X2 = 202,
        SNORM_INT16X4 = 203,
        BC1_UNORM = 145,
        BC1_UNORM_SRGB = 146,
        BC2_UNORM = 147,
        BC2_UNORM_SRGB = 148,
        BC3_UNORM = 149,
        BC3_UNORM_SRGB = 150,
        BC4_UNORM = 151,
        BC4_SNORM = 152,
        BC5_UNORM = 153,
        BC5_SNORM = 154,
        BC6H_UF16 = 155,
        BC6H_SF16 = 156,
        BC7_UNORM = 157,
        BC7_UNORM_SRGB = 158,
        P010 = 159,
        P016 = 161,
        NV16 = 162,
        P210 = 163,
        P216 = 164,
        YUY2 = 165,
        Y210 = 166,
        Y216 = 167,
        AYUV = 168,
        Y410 = 169,
        Y416 = 177,
        Y444_PLANAR8 = 178,
        Y444_PLANAR10 = 179,
        YUV444_8bit_SemiPlanar = 180,
        YUV444_16bit_SemiPlanar = 181,
        UNORM_INT_101010_2 = 80,
        UINT8_PACKED_422 = 81,
        UINT8_PACKED_444 = 82,
        UINT8_SEMIPLANAR_420 = 83,
        UINT16_SEMIPLANAR_420 = 84,
        UINT8_SEMIPLANAR_422 = 85,
        UINT16_SEMIPLANAR_422 = 86,
        UINT8_SEMIPLANAR_444 = 87,
        UINT16_SEMIPLANAR_444 = 88,
        UINT8_PLANAR_420 = 89,
        UINT16_PLANAR_420 = 90,
        UINT8_PLANAR_422 = 91,
        UINT16_PLANAR_422 = 92,
        UINT8_PLANAR_444 = 93,
        UINT16_PLANAR_444 = 94,
        MAX = 0x7fff_ffff,
    }

    /// Faces of a cube map.
    CUarray_cubemap_face(u32, "CU_CUBEMAP_FACE_") {
        POSITIVE_X = 0,
        NEGATIVE_X = 1,
        POSITIVE_Y = 2,
        NEGATIVE_Y = 3,
        POSITIVE_Z = 4,
        NEGATIVE_Z = 5,
    }

    /// Parts of a sparse array.
    CUarraySparseSubresourceType(u32, "CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_") {
        SPARSE_LEVEL = 0,
        MIPTAIL = 1,
    }

    /// What a texture gives outside its bounds.
    CUaddress_mode(u32, "CU_TR_ADDRESS_MODE_") {
        WRAP = 0,
        CLAMP = 1,
        MIRROR = 2,
        BORDER = 3,
    }

    /// Whether a texture interpolates.
    CUfilter_mode(u32, "CU_TR_FILTER_MODE_") {
        POINT = 0,
        LINEAR = 1,
    }

    /// What a texture or surface object reads.
    CUresourcetype(u32, "CU_RESOURCE_TYPE_") {
        ARRAY = 0,
        MIPMAPPED_ARRAY = 1,
        LINEAR = 2,
        PITCH2D = 3,
    }

    /// Formats in which a texture object sees its memory.
    CUresourceViewFormat(u32, "CU_RES_VIEW_FORMAT_") {
        NONE = 0,
        UINT_1X8 = 1,
        UINT_2X8 = 2,
        UINT_4X8 = 3,
        SINT_1X8 = 4,
        SINT_2X8 = 5,
        SINT_4X8 = 6,
        UINT_1X16 = 7,
        UINT_2X16 = 8,
        UINT_4X16 = 9,
        SINT_1X16 = 10,
        SINT_2X16 = 11,
        SINT_4X16 = 12,
        UINT_1X32 = 13,
        UINT_2X32 = 14,
        UINT_4X32 = 15,
        SINT_1X32 = 16,
        SINT_2X32 = 17,
        SINT_4X32 = 18,
        FLOAT_1X16 = 19,
        FLOAT_2X16 = 20,
        FLOAT_4X16 = 21,
        FLOAT_1X32 = 22,
        FLOAT_2X32 = 23,
        FLOAT_4X32 = 24,
        UNSIGNED_BC1 = 25,
        UNSIGNED_BC2 = 26,
        UNSIGNED_BC3 = 27,
        UNSIGNED_BC4 = 28,
        SIGNED_BC4 = 29,
        UNSIGNED_BC5 = 30,
        SIGNED_BC5 = 31,
        UNSIGNED_BC6H = 32,
        SIGNED_BC6H = 33,
        UNSIGNED_BC7 = 34,
    }

    /// Types of a tensor's elements.
    CUtensorMapDataType(u32, "CU_TENSOR_MAP_DATA_") {
        TYPE_UINT8 = 0,
        TYPE_UINT16 = 1,
        TYPE_UINT32 = 2,
        TYPE_INT32 = 3,
        TYPE_UINT64 = 4,
        TYPE_INT64 = 5,
        TYPE_FLOAT16 = 6,
        TYPE_FLOAT32 = 7,
        TYPE_FLOAT64 = 8,
        TYPE_BFLOAT16 = 9,
        TYPE_FLOAT32_FTZ = 10,
        TYPE_TFLOAT32 = 11,
        TYPE_TFLOAT32_FTZ = 12,
        TYPE_16U4_ALIGN8B = 13,
        TYPE_16U4_ALIGN16B = 14,
        TYPE_16U6_ALIGN16B = 15,
    }

    /// How a tensor's channels are interleaved.
    CUtensorMapInterleave(u32, "CU_TENSOR_MAP_") {
        INTERLEAVE_NONE = 0,
        INTERLEAVE_16B = 1,
        INTERLEAVE_32B = 2,
    }

    /// How a box is permuted in shared memory.
    CUtensorMapSwizzle(u32, "CU_TENSOR_MAP_") {
        SWIZZLE_NONE = 0,
        SWIZZLE_32B = 1,
        SWIZZLE_64B = 2,
        SWIZZLE_128B = 3,
        SWIZZLE_128B_ATOM_32B = 4,
        SWIZZLE_128B_ATOM_32B_FLIP_8B = 5,
        SWIZZLE_128B_ATOM_64B = 6,
    }

    /// How much is fetched to the L2 cache.
    CUtensorMapL2promotion(u32, "CU_TENSOR_MAP_L2_PROMOTION_") {
        NONE = 0,
        L2_64B = 1,
        L2_128B = 2,
        L2_256B = 3,
    }

    /// What stands outside a tensor.
    CUtensorMapFloatOOBfill(u32, "CU_TENSOR_MAP_FLOAT_OOB_FILL_") {
        NONE = 0,
        NAN_REQUEST_ZERO_FMA = 1,
    }

    /// Wide modes of im2col.
    CUtensorMapIm2ColWideMode(u32, "CU_TENSOR_MAP_IM2COL_WIDE_MODE_") {
        W = 0,
        W128 = 1,
    }

    /// Sizes of tensors.
    CUtensorMapAllocClass(u32, "CU_TENSOR_MAP_ALLOC_CLASS_") {
        AUTO = 0,
        SMALL = 1,
        LARGE = 2,
    }
}

/// Flag of an array: layers.
pub const CUDA_ARRAY3D_LAYERED: u32 = 0x01;
/// Flag of an array: surface objects can write it.
pub const CUDA_ARRAY3D_SURFACE_LDST: u32 = 0x02;
/// Flag of an array: a cube map.
pub const CUDA_ARRAY3D_CUBEMAP: u32 = 0x04;
/// Flag of an array: for `tld4`.
pub const CUDA_ARRAY3D_TEXTURE_GATHER: u32 = 0x08;
/// Flag of an array: a depth texture.
pub const CUDA_ARRAY3D_DEPTH_TEXTURE: u32 = 0x10;
/// Flag of an array: a color target of graphics.
pub const CUDA_ARRAY3D_COLOR_ATTACHMENT: u32 = 0x20;
/// Flag of an array: sparse.
pub const CUDA_ARRAY3D_SPARSE: u32 = 0x40;
/// Flag of an array: its memory is mapped later.
pub const CUDA_ARRAY3D_DEFERRED_MAPPING: u32 = 0x80;
/// Flag of an array: for video.
pub const CUDA_ARRAY3D_VIDEO_ENCODE_DECODE: u32 = 0x100;
/// Flag of a sparse array: one tail for all layers.
pub const CU_ARRAY_SPARSE_PROPERTIES_SINGLE_MIPTAIL: u32 = 1;
/// Flag of `cuTexRefSetArray`.
pub const CU_TRSA_OVERRIDE_FORMAT: u32 = 0x01;
/// Flag of a texture: integers stay integers.
pub const CU_TRSF_READ_AS_INTEGER: u32 = 0x01;
/// Flag of a texture: coordinates from 0 to 1.
pub const CU_TRSF_NORMALIZED_COORDINATES: u32 = 0x02;
/// Flag of a texture: sRGB to linear.
pub const CU_TRSF_SRGB: u32 = 0x10;
/// Flag of a texture: no trilinear optimization.
pub const CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION: u32 = 0x20;
/// Flag of a texture: cube maps interpolate over edges.
pub const CU_TRSF_SEAMLESS_CUBEMAP: u32 = 0x40;
/// The texture unit that `cuParamSetTexRef` wants.
pub const CU_PARAM_TR_DEFAULT: i32 = -1;

c_structs! {
    /// An array of one or two dimensions.
    #[derive(Eq)]
    CUDA_ARRAY_DESCRIPTOR_v2 {
        Width: usize,
        Height: usize,
        Format: CUarray_format,
        NumChannels: u32,
    }

    /// An array of up to three dimensions.
    #[derive(Eq)]
    CUDA_ARRAY3D_DESCRIPTOR_v2 {
        Width: usize,
        Height: usize,
        Depth: usize,
        Format: CUarray_format,
        NumChannels: u32,
        Flags: u32,
    }

    /// Size of a tile of a sparse array.
    #[derive(Eq)]
    CUtileExtent {
        width: u32,
        height: u32,
        depth: u32,
    }

    /// How a sparse array is laid out.
    #[derive(Eq)]
    CUDA_ARRAY_SPARSE_PROPERTIES {
        tileExtent: CUtileExtent,
        miptailFirstLevel: u32,
        miptailSize: u64,
        flags: u32,
        reserved: [u32; 4],
    }

    /// What memory an array needs.
    #[derive(Eq)]
    CUDA_ARRAY_MEMORY_REQUIREMENTS {
        size: usize,
        alignment: usize,
        reserved: [u32; 4],
    }

    /// Linear memory that a texture object reads.
    #[derive(Eq)]
    CUlinearResource {
        devPtr: CUdeviceptr,
        format: CUarray_format,
        numChannels: u32,
        sizeInBytes: usize,
    }

    /// Pitched memory that a texture object reads.
    #[derive(Eq)]
    CUpitch2DResource {
        devPtr: CUdeviceptr,
        format: CUarray_format,
        numChannels: u32,
        width: usize,
        height: usize,
        pitchInBytes: usize,
    }

    /// What a texture or surface object reads; the union is read through the accessors.
    #[derive(Eq)]
    CUDA_RESOURCE_DESC {
        resType: CUresourcetype,
        res: Union<128>,
        flags: u32,
    }

    /// How a texture object reads.
    CUDA_TEXTURE_DESC {
        addressMode: [CUaddress_mode; 3],
        filterMode: CUfilter_mode,
        flags: u32,
        maxAnisotropy: u32,
        mipmapFilterMode: CUfilter_mode,
        mipmapLevelBias: f32,
        minMipmapLevelClamp: f32,
        maxMipmapLevelClamp: f32,
        borderColor: [f32; 4],
        reserved: [i32; 12],
    }

    /// How a texture object sees its memory.
    #[derive(Eq)]
    CUDA_RESOURCE_VIEW_DESC {
        format: CUresourceViewFormat,
        width: usize,
        height: usize,
        depth: usize,
        firstMipmapLevel: u32,
        lastMipmapLevel: u32,
        firstLayer: u32,
        lastLayer: u32,
        reserved: [u32; 16],
    }

    /// One change to the memory of a sparse array.
    #[derive(Eq)]
    CUarrayMapInfo {
        resourceType: CUresourcetype,
        /// A [`CUmipmappedArray`] or [`CUarray`], as `resourceType` says.
        resource: Union<8>,
        subresourceType: CUarraySparseSubresourceType,
        subresource: Union<32>,
        memOperationType: CUmemOperationType,
        memHandleType: CUmemHandleType,
        memHandle: CUmemGenericAllocationHandle,
        offset: u64,
        deviceBitMask: u32,
        flags: u32,
        reserved: [u32; 2],
    }
}

/// The descriptor of a tensor. CUDA 12's header aligns it to 64 bytes, CUDA 13's to 128; the driver
/// asks for 64.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CUtensorMap {
    /// Known to the driver and to the instructions that copy tensors.
    pub opaque: [u64; 16],
}

impl super::raw::Raw for CUtensorMap {
    fn read(bytes: &[u8]) -> Self {
        CUtensorMap {
            opaque: super::raw::Raw::read(bytes),
        }
    }

    fn write(self, bytes: &mut [u8]) {
        super::raw::Raw::write(self.opaque, bytes);
    }
}

impl CUDA_RESOURCE_DESC {
    /// The array of [`CUresourcetype::ARRAY`].
    #[must_use]
    pub fn array(&self) -> CUarray {
        self.res.get(0)
    }

    /// The mipmapped array of [`CUresourcetype::MIPMAPPED_ARRAY`].
    #[must_use]
    pub fn mipmapped_array(&self) -> CUmipmappedArray {
        self.res.get(0)
    }

    /// The memory of [`CUresourcetype::LINEAR`].
    #[must_use]
    pub fn linear(&self) -> CUlinearResource {
        self.res.get(0)
    }

    /// The memory of [`CUresourcetype::PITCH2D`].
    #[must_use]
    pub fn pitch_2d(&self) -> CUpitch2DResource {
        self.res.get(0)
    }
}
