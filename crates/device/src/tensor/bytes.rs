//! The 128 bytes of a tensor map, which programs copy and pass on, and change by
//! `tensormap.replace` alone.
//!
//! All numbers are little-endian:
//!
//! ```text
//!     0  address                     90  channels of a pixel    111  what the map is for
//!     8  five dimensions             92  pixels of a column     112  rank, less one
//!    48  four strides                94  three lower corners    113  type, interleave, swizzle,
//!    80  five sides of a box        100  three upper corners         atomicity, fill, L2 promotion
//!                                   106  five element strides   119  0
//!                                                               120  a hash of all before it
//! ```
//!
//! The hash tells a map from other bytes. 128 zeros are an empty map, too: compilers begin with
//! these when they make maps of their own. A field that nothing has set is zero, and where zero is
//! no value of the field, [`TensorMap::check`] finds it.

use ptxjit_ir::MapField;

use super::map::{
    Access, Atomicity, ElementType, Fill, Interleave, L2Promotion, MAX_RANK, Pixels, Swizzle,
    SwizzleMode, TensorMap,
};

/// Size of a tensor map.
pub const MAP_BYTES: usize = 128;

const DIMS: usize = 8;
const STRIDES: usize = 48;
const BOX: usize = 80;
const CHANNELS: usize = 90;
const PER_COLUMN: usize = 92;
const LOWER: usize = 94;
const UPPER: usize = 100;
const STEPS: usize = 106;
const ACCESS: usize = 111;
const RANK: usize = 112;
const DTYPE: usize = 113;
const INTERLEAVE: usize = 114;
const SWIZZLE: usize = 115;
const ATOMICITY: usize = 116;
const FILL: usize = 117;
const L2_PROMOTION: usize = 118;
const HASH: usize = 120;

const TILED: u8 = 0;
const IM2COL: u8 = 1;
const IM2COL_WIDE: u8 = 2;

/// The bytes of a map.
pub type MapBytes = [u8; MAP_BYTES];

impl TensorMap {
    /// The bytes, in which each field has the size that [`TensorMap::check`] allows it.
    pub fn encode(&self) -> MapBytes {
        let mut bytes = [0; MAP_BYTES];
        put(&mut bytes, 0, &self.address.to_le_bytes());
        for (idx, dim) in self.dims[..self.n_dims()].iter().enumerate() {
            put(&mut bytes, DIMS + 8 * idx, &dim.to_le_bytes());
            bytes[STEPS + idx] = self.element_strides[idx] as u8;
        }
        for (idx, stride) in self.strides[..self.n_dims() - 1].iter().enumerate() {
            put(&mut bytes, STRIDES + 8 * idx, &stride.to_le_bytes());
        }
        bytes[RANK] = self.rank as u8 - 1;
        bytes[DTYPE] = self.dtype as u8;
        bytes[INTERLEAVE] = self.interleave as u8;
        bytes[SWIZZLE] = self.swizzle.mode as u8;
        bytes[ATOMICITY] = self.swizzle.atomicity as u8;
        bytes[FILL] = self.fill as u8;
        bytes[L2_PROMOTION] = self.l2_promotion as u8;
        match &self.access {
            Access::Tiled { box_dims } => {
                bytes[ACCESS] = TILED;
                for (idx, &side) in box_dims[..self.n_dims()].iter().enumerate() {
                    put(&mut bytes, BOX + 2 * idx, &(side as u16).to_le_bytes());
                }
            }
            Access::Im2col(pixels) => {
                bytes[ACCESS] = IM2COL;
                put_pixels(&mut bytes, pixels);
            }
            Access::Im2colWide(pixels) => {
                bytes[ACCESS] = IM2COL_WIDE;
                put_pixels(&mut bytes, pixels);
            }
        }
        seal(&mut bytes);
        bytes
    }

    /// The map of such bytes, complete or not; none if they are something else.
    pub fn decode(bytes: &MapBytes) -> Option<TensorMap> {
        if !is_map(bytes) {
            return None;
        }
        let number = |at: usize| u64::from(bytes[at]);
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let corner = |at: usize| std::array::from_fn(|idx| i32::from(half(at + 2 * idx) as i16));
        let pixels = Pixels {
            lower: corner(LOWER),
            upper: corner(UPPER),
            channels: half(CHANNELS).into(),
            per_column: half(PER_COLUMN).into(),
        };
        Some(TensorMap {
            address: word(bytes, 0),
            rank: u32::from(bytes[RANK]) + 1,
            dtype: ElementType::from_number(number(DTYPE))?,
            dims: std::array::from_fn(|idx| word(bytes, DIMS + 8 * idx)),
            strides: std::array::from_fn(|idx| word(bytes, STRIDES + 8 * idx)),
            element_strides: std::array::from_fn(|idx| bytes[STEPS + idx].into()),
            interleave: Interleave::from_number(number(INTERLEAVE))?,
            swizzle: Swizzle {
                mode: SwizzleMode::from_number(number(SWIZZLE))?,
                atomicity: Atomicity::from_number(number(ATOMICITY))?,
            },
            l2_promotion: L2Promotion::from_number(number(L2_PROMOTION))?,
            fill: Fill::from_number(number(FILL))?,
            access: match bytes[ACCESS] {
                TILED => Access::Tiled {
                    box_dims: std::array::from_fn(|idx| half(BOX + 2 * idx).into()),
                },
                IM2COL => Access::Im2col(pixels),
                IM2COL_WIDE => Access::Im2colWide(pixels),
                _ => return None,
            },
        })
    }
}

/// `tensormap.replace`: gives a field of a map of boxes another value. What the error says concerns
/// the value or the bytes.
pub(crate) fn replace(bytes: &mut MapBytes, field: MapField, value: u64) -> Result<(), String> {
    if !is_map(bytes) {
        return Err("these 128 bytes are no tensor map".to_owned());
    }
    if bytes[ACCESS] != TILED {
        return Err("`.tile` changes maps of boxes, and this one is for im2col".to_owned());
    }
    let up_to = |most: u64| match value <= most {
        true => Ok(()),
        false => Err(format!(
            "{value} is no value of this field: the largest is {most}"
        )),
    };
    match field {
        MapField::GlobalAddress => put(bytes, 0, &value.to_le_bytes()),
        MapField::Rank => {
            up_to(MAX_RANK as u64 - 1)?;
            bytes[RANK] = value as u8;
        }
        MapField::BoxDim(n) => {
            up_to(256)?;
            put(
                bytes,
                BOX + 2 * ordinal(n, MAX_RANK)?,
                &(value as u16).to_le_bytes(),
            );
        }
        MapField::GlobalDim(n) => {
            put(
                bytes,
                DIMS + 8 * ordinal(n, MAX_RANK)?,
                &value.to_le_bytes(),
            );
        }
        MapField::GlobalStride(n) => {
            up_to((1 << 40) - 1)?;
            put(
                bytes,
                STRIDES + 8 * ordinal(n, MAX_RANK - 1)?,
                &value.to_le_bytes(),
            );
        }
        MapField::ElementStride(n) => {
            up_to(8)?;
            bytes[STEPS + ordinal(n, MAX_RANK)?] = value as u8;
        }
        MapField::ElementType => {
            up_to(ElementType::ALL.len() as u64 - 1)?;
            bytes[DTYPE] = value as u8;
        }
        MapField::Interleave => {
            up_to(Interleave::ALL.len() as u64 - 1)?;
            bytes[INTERLEAVE] = value as u8;
        }
        MapField::Swizzle => {
            up_to(SwizzleMode::ALL.len() as u64 - 1)?;
            bytes[SWIZZLE] = value as u8;
        }
        MapField::Atomicity => {
            up_to(Atomicity::ALL.len() as u64 - 1)?;
            bytes[ATOMICITY] = value as u8;
        }
        MapField::Fill => {
            up_to(Fill::ALL.len() as u64 - 1)?;
            bytes[FILL] = value as u8;
        }
    }
    seal(bytes);
    Ok(())
}

fn ordinal(n: u8, count: usize) -> Result<usize, String> {
    let n = usize::from(n);
    match n < count {
        true => Ok(n),
        false => Err(format!(
            "there is no number {n} of this field, which has {count}"
        )),
    }
}

fn put_pixels(bytes: &mut MapBytes, pixels: &Pixels) {
    put(bytes, CHANNELS, &(pixels.channels as u16).to_le_bytes());
    put(bytes, PER_COLUMN, &(pixels.per_column as u16).to_le_bytes());
    for idx in 0..3 {
        put(
            bytes,
            LOWER + 2 * idx,
            &(pixels.lower[idx] as i16).to_le_bytes(),
        );
        put(
            bytes,
            UPPER + 2 * idx,
            &(pixels.upper[idx] as i16).to_le_bytes(),
        );
    }
}

fn put(bytes: &mut MapBytes, at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

fn word(bytes: &MapBytes, at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

fn is_map(bytes: &MapBytes) -> bool {
    word(bytes, HASH) == hash(bytes) || bytes.iter().all(|&byte| byte == 0)
}

fn seal(bytes: &mut MapBytes) {
    let hash = hash(bytes);
    put(bytes, HASH, &hash.to_le_bytes());
}

/// Of all words but the last. It need not withstand anybody who makes such bytes on purpose: copies
/// check the fields.
fn hash(bytes: &MapBytes) -> u64 {
    let words = (0..HASH).step_by(8).map(|at| word(bytes, at));
    words.fold(0x7074_786a_6974_6d70, |hash: u64, word| {
        (hash ^ word)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
    })
}
