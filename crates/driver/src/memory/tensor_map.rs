//! Tensor maps: what the driver's encoders are given, and what they refuse.

use ptxjit::{ElementType, TensorMap, TensorMapBuilder};

use crate::context;
use crate::device::Device;
use crate::error::Result;
use crate::types::{
    CUresult, CUtensorMap, CUtensorMapDataType, CUtensorMapFloatOOBfill, CUtensorMapIm2ColWideMode,
    CUtensorMapInterleave, CUtensorMapL2promotion, CUtensorMapSwizzle,
};

/// Types of elements by the driver's numbers, which are not those of PTX.
const TYPES: [ElementType; 16] = [
    ElementType::U8,
    ElementType::U16,
    ElementType::U32,
    ElementType::I32,
    ElementType::U64,
    ElementType::I64,
    ElementType::F16,
    ElementType::F32,
    ElementType::F64,
    ElementType::Bf16,
    ElementType::F32Ftz,
    ElementType::Tf32,
    ElementType::Tf32Ftz,
    ElementType::B4x16,
    ElementType::B4x16P64,
    ElementType::B6x16P32,
];

const INTERLEAVES: [&str; 3] = ["none", "16B", "32B"];
const SWIZZLES: [&str; 7] = [
    "none",
    "32B",
    "64B",
    "128B",
    "128B_ATOM_32B",
    "128B_ATOM_32B_FLIP_8B",
    "128B_ATOM_64B",
];
const PROMOTIONS: [&str; 4] = ["none", "64B", "128B", "256B"];
const FILLS: [&str; 2] = ["zero", "nan"];

/// What maps of all kinds have.
#[derive(Clone, Debug)]
pub struct Common {
    /// Type of the elements.
    pub dtype: CUtensorMapDataType,
    /// Where the tensor begins.
    pub address: u64,
    /// Elements in each dimension.
    pub dims: Vec<u64>,
    /// Bytes from one element to the next, from dimension 1 on.
    pub strides: Vec<u64>,
    /// Step from one copied element to the next, in elements.
    pub steps: Vec<u32>,
    /// How channels are interleaved.
    pub interleave: CUtensorMapInterleave,
    /// How a box is permuted in shared memory.
    pub swizzle: CUtensorMapSwizzle,
    /// Without effect.
    pub promotion: CUtensorMapL2promotion,
    /// What stands for elements outside.
    pub fill: CUtensorMapFloatOOBfill,
}

/// Whether a map can lie there. Clients need not align it before it is an argument of a kernel.
pub fn check_place(address: u64) -> Result<()> {
    match address {
        0 => Err(CUresult::INVALID_VALUE),
        _ => Ok(()),
    }
}

/// Whether a map can lie there and have so many dimensions; their number.
pub fn check(address: u64, rank: u32) -> Result<usize> {
    check_place(address)?;
    match rank {
        1..=5 => Ok(rank as usize),
        _ => Err(CUresult::INVALID_VALUE),
    }
}

/// The same of a map of images.
pub fn check_images(address: u64, rank: u32) -> Result<usize> {
    match check(address, rank)? {
        n if n >= 3 => Ok(n),
        _ => Err(CUresult::INVALID_VALUE),
    }
}

/// `cuTensorMapEncodeTiled`
pub fn tiled(common: &Common, box_dims: &[u32]) -> Result<CUtensorMap> {
    let map = TensorMap::tiled(
        common.address,
        common.dtype()?,
        &common.dims,
        &common.strides,
        box_dims,
    );
    common.finish(map)
}

/// `cuTensorMapEncodeIm2col`
pub fn im2col(
    common: &Common,
    [lower, upper]: &[Vec<i32>; 2],
    channels: u32,
    pixels: u32,
) -> Result<CUtensorMap> {
    let map = TensorMap::im2col(
        common.address,
        common.dtype()?,
        &common.dims,
        &common.strides,
        lower,
        upper,
        channels,
        pixels,
    );
    common.finish(map)
}

/// `cuTensorMapEncodeIm2colWide`
pub fn im2col_wide(
    common: &Common,
    mode: CUtensorMapIm2ColWideMode,
    [lower, upper]: [i32; 2],
    channels: u32,
    pixels: u32,
) -> Result<CUtensorMap> {
    let pixels = match mode {
        _ if !(1..=1024).contains(&pixels) => return Err(CUresult::INVALID_VALUE),
        CUtensorMapIm2ColWideMode::W => pixels,
        // There the number is ignored.
        CUtensorMapIm2ColWideMode::W128 => 128,
        _ => return Err(CUresult::INVALID_VALUE),
    };
    let map = TensorMap::im2col_wide(
        common.address,
        common.dtype()?,
        &common.dims,
        &common.strides,
        lower,
        upper,
        channels,
        pixels,
    );
    common.finish(map)
}

/// `cuTensorMapReplaceAddress`
pub fn at(map: &CUtensorMap, address: u64) -> Result<CUtensorMap> {
    let mut bytes = [0; TensorMap::SIZE];
    for (bytes, word) in bytes.chunks_exact_mut(8).zip(map.opaque) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    let map = TensorMap::from_bytes(&bytes).ok_or(CUresult::INVALID_VALUE)?;
    let map = map.at(address).map_err(|_| CUresult::INVALID_VALUE)?;
    Ok(opaque(&map))
}

fn opaque(map: &TensorMap) -> CUtensorMap {
    let (words, _) = map.bytes().as_chunks::<8>();
    CUtensorMap {
        opaque: std::array::from_fn(|idx| u64::from_le_bytes(words[idx])),
    }
}

impl Common {
    fn dtype(&self) -> Result<ElementType> {
        named(&TYPES, self.dtype.0)
    }

    /// Elements of 4 and 6 bits, and atoms of more than 16 bytes, came with compute capability
    /// 10.0.
    fn check_capability(&self) -> Result<()> {
        let is_new = self.dtype.0 >= CUtensorMapDataType::TYPE_16U4_ALIGN8B.0
            || self.swizzle.0 >= CUtensorMapSwizzle::SWIZZLE_128B_ATOM_32B.0;
        let is_before = |device: &Device| device.capability() < (10, 0);
        match is_new && context::current().is_ok_and(|context| is_before(context.device)) {
            true => Err(CUresult::INVALID_VALUE),
            false => Ok(()),
        }
    }

    fn finish(&self, map: TensorMapBuilder) -> Result<CUtensorMap> {
        self.check_capability()?;
        let map = map
            .element_strides(&self.steps)
            .interleave(named(&INTERLEAVES, self.interleave.0)?)
            .swizzle(named(&SWIZZLES, self.swizzle.0)?)
            .l2_promotion(named(&PROMOTIONS, self.promotion.0)?)
            .oob_fill(named(&FILLS, self.fill.0)?);
        let map = map.encode().map_err(|_| CUresult::INVALID_VALUE)?;
        Ok(opaque(&map))
    }
}

fn named<T: Copy>(values: &[T], number: u32) -> Result<T> {
    let found = values.get(number as usize).copied();
    found.ok_or(CUresult::INVALID_VALUE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix() -> Common {
        Common {
            dtype: CUtensorMapDataType::TYPE_BFLOAT16,
            address: 0x1000,
            dims: vec![96, 48],
            strides: vec![192],
            steps: vec![1, 1],
            interleave: CUtensorMapInterleave::INTERLEAVE_NONE,
            swizzle: CUtensorMapSwizzle::SWIZZLE_128B,
            promotion: CUtensorMapL2promotion::L2_128B,
            fill: CUtensorMapFloatOOBfill::NAN_REQUEST_ZERO_FMA,
        }
    }

    #[test]
    fn maps_of_the_driver_are_those_of_the_library() {
        let map = tiled(&matrix(), &[64, 8]).unwrap();
        let library = TensorMap::tiled(0x1000, ElementType::Bf16, &[96, 48], &[192], &[64, 8]);
        let library = library
            .swizzle("128B")
            .l2_promotion("128B")
            .oob_fill("nan")
            .encode()
            .unwrap();
        assert_eq!(map, opaque(&library));
        let moved = at(&map, 0x2000).unwrap();
        assert_eq!(moved.opaque[0], 0x2000);
        assert_eq!(moved, opaque(&library.at(0x2000).unwrap()));
        assert_eq!(at(&map, 0x2008), Err(CUresult::INVALID_VALUE));
        let none = CUtensorMap { opaque: [7; 16] };
        assert_eq!(at(&none, 0x2000), Err(CUresult::INVALID_VALUE));
    }

    #[test]
    fn numbers_that_mean_nothing_are_refused() {
        let refused = |change: &dyn Fn(&mut Common)| {
            let mut common = matrix();
            change(&mut common);
            assert_eq!(tiled(&common, &[64, 8]), Err(CUresult::INVALID_VALUE));
        };
        refused(&|common| common.dtype.0 = 16);
        refused(&|common| common.interleave.0 = 3);
        refused(&|common| common.swizzle.0 = 7);
        refused(&|common| common.promotion.0 = 4);
        refused(&|common| common.fill.0 = 2);
        refused(&|common| common.dtype = CUtensorMapDataType::TYPE_UINT16);
        assert_eq!(check(64, 0), Err(CUresult::INVALID_VALUE));
        assert_eq!(check(64, 6), Err(CUresult::INVALID_VALUE));
        assert_eq!(check(0, 2), Err(CUresult::INVALID_VALUE));
        assert_eq!(check(8, 2), Ok(2));
        assert_eq!(check_images(64, 2), Err(CUresult::INVALID_VALUE));
        assert_eq!(check_images(64, 5), Ok(5));
    }
}
