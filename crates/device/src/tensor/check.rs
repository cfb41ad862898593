//! What a tensor map must be: the rules of the driver's encoders, and of PTX ISA, "Restriction on
//! Tensor Copy instructions".

use std::fmt;

use super::map::{Access, Atomicity, Fill, Interleave, Pixels, SwizzleMode, TensorMap};

/// A field of a tensor map that breaks a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadField {
    /// Its name in case files.
    pub field: &'static str,
    /// The position in a list.
    pub index: Option<usize>,
    /// The rule, and the value that breaks it.
    pub why: String,
}

impl fmt::Display for BadField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.index {
            Some(index) => write!(f, "`{}[{index}]` {}", self.field, self.why),
            None => write!(f, "`{}` {}", self.field, self.why),
        }
    }
}

impl std::error::Error for BadField {}

const MAX_DIM: u64 = 1 << 32;
const MAX_STRIDE: u64 = 1 << 40;
const MAX_BOX: u32 = 256;
const MAX_STEP: u32 = 8;
const MAX_CHANNELS: u32 = 256;
const MAX_PIXELS: u32 = 1024;
/// Elements of a row of the padded types.
const PADDED_ROW: u64 = 128;

impl TensorMap {
    /// The first field that breaks a rule.
    pub fn check(&self) -> Result<(), BadField> {
        self.check_rank()?;
        self.check_tensor()?;
        self.check_swizzle()?;
        match &self.access {
            Access::Tiled { box_dims } => {
                for (idx, &side) in box_dims[..self.n_dims()].iter().enumerate() {
                    let is_right = (1..=MAX_BOX).contains(&side);
                    at(is_right, "box", idx, || {
                        format!("is {side}: a side of a box has 1 to {MAX_BOX} elements")
                    })?;
                }
                self.check_inner("box", Some(0))
            }
            Access::Im2col(pixels) => {
                self.check_pixels(pixels, self.n_dims() - 2)?;
                self.check_inner("channels_per_pixel", None)
            }
            Access::Im2colWide(pixels) => {
                only(self.interleave == Interleave::None, "interleave", || {
                    format!("is {}: the wide mode has none", self.interleave)
                })?;
                // Corners have the width alone, with the range that is that of the rank.
                self.check_pixels(pixels, 1)?;
                self.check_inner("channels_per_pixel", None)
            }
        }
    }

    fn check_rank(&self) -> Result<(), BadField> {
        let least = match (&self.access, self.interleave) {
            (Access::Tiled { .. }, Interleave::None) => 1,
            _ => 3,
        };
        only((least..=5).contains(&self.rank), "dims", || {
            let what = match (&self.access, self.interleave) {
                (Access::Tiled { .. }, Interleave::None) => "a tensor",
                (Access::Tiled { .. }, _) => "an interleaved tensor",
                _ => "a tensor of images",
            };
            format!("has {} dimensions: {what} has {least} to 5", self.rank)
        })
    }

    /// Address, dimensions and strides.
    fn check_tensor(&self) -> Result<(), BadField> {
        let is_padded = self.dtype.is_padded();
        let unit = if is_padded || self.interleave == Interleave::B32 {
            32
        } else {
            16
        };
        only(self.address.is_multiple_of(unit), "address", || {
            format!("is {:#x}, no multiple of {unit}", self.address)
        })?;
        for (idx, &dim) in self.dims[..self.n_dims()].iter().enumerate() {
            at((1..=MAX_DIM).contains(&dim), "dims", idx, || {
                format!("is {dim}: a dimension has 1 to 2^32 elements")
            })?;
        }
        let unit_elements = match self.dtype {
            _ if is_padded => PADDED_ROW,
            dtype => dtype.unit().elements,
        };
        at(
            self.dims[0].is_multiple_of(unit_elements),
            "dims",
            0,
            || {
                format!(
                    "is {}: with elements of type {} it is a multiple of {unit_elements}",
                    self.dims[0], self.dtype
                )
            },
        )?;
        for (idx, &stride) in self.strides[..self.n_dims() - 1].iter().enumerate() {
            let is_right = stride.is_multiple_of(unit) && stride < MAX_STRIDE;
            at(is_right, "strides_bytes", idx, || {
                format!("is {stride}: a stride is a multiple of {unit} below 2^40")
            })?;
        }
        for (idx, &step) in self.element_strides[..self.n_dims()].iter().enumerate() {
            at(
                (1..=MAX_STEP).contains(&step),
                "element_strides",
                idx,
                || format!("is {step}: it must be 1 to {MAX_STEP}"),
            )?;
        }
        let has_nan = self.fill == Fill::Zero || self.dtype.nan().is_some();
        only(has_nan, "oob_fill", || {
            format!("is nan: elements of type {} have none", self.dtype)
        })
    }

    fn check_swizzle(&self) -> Result<(), BadField> {
        let swizzle = self.swizzle;
        let is_known = swizzle.mode == SwizzleMode::B128 || swizzle.atomicity == Atomicity::B16;
        only(is_known, "swizzle", || {
            format!("is {swizzle}: only within 128 bytes are there atoms of more than 16")
        })?;
        let fits = self.interleave != Interleave::B32 || swizzle.mode == SwizzleMode::B32;
        only(fits, "swizzle", || {
            format!("is {swizzle}: interleave 32B needs swizzle 32B")
        })?;
        let fits = self.interleave == Interleave::None || swizzle.mode != SwizzleMode::B96;
        only(fits, "interleave", || {
            format!("is {}: swizzle 96B has none", self.interleave)
        })?;
        if !self.dtype.is_padded() {
            return Ok(());
        }
        only(self.interleave == Interleave::None, "interleave", || {
            format!("is {}: type {} has none", self.interleave, self.dtype)
        })?;
        let is_right = matches!(swizzle.mode, SwizzleMode::None | SwizzleMode::B128)
            && swizzle.atomicity != Atomicity::B32Flip8;
        only(is_right, "swizzle", || {
            format!(
                "is {swizzle}: type {} has none, 128B, 128B_ATOM_32B or 128B_ATOM_64B",
                self.dtype
            )
        })
    }

    /// Corners and sizes of im2col.
    fn check_pixels(&self, pixels: &Pixels, n_spatial: usize) -> Result<(), BadField> {
        let reach: i32 = match self.n_dims() {
            ..=3 => 1 << 15,
            4 => 1 << 7,
            _ => 1 << 4,
        };
        for (field, corner) in [("lower", &pixels.lower), ("upper", &pixels.upper)] {
            for (idx, &x) in corner[..n_spatial].iter().enumerate() {
                at((-reach..reach).contains(&x), field, idx, || {
                    format!("is {x}: it must be {} to {}", -reach, reach - 1)
                })?;
            }
        }
        for idx in 0..n_spatial {
            let last = self.dims[idx + 1] as i64 - 1 + i64::from(pixels.upper[idx]);
            let lower = pixels.lower[idx];
            at(i64::from(lower) <= last, "upper", idx, || {
                format!("leaves no pixel: they go from {lower} to {last}")
            })?;
        }
        let channels = pixels.channels;
        only(
            (1..=MAX_CHANNELS).contains(&channels),
            "channels_per_pixel",
            || format!("is {channels}: it must be 1 to {MAX_CHANNELS}"),
        )?;
        let per_column = pixels.per_column;
        // In the wide mode with 128 pixels the number is ignored.
        let least = u32::from(matches!(self.access, Access::Im2col(_)));
        only(
            (least..=MAX_PIXELS).contains(&per_column),
            "pixels_per_column",
            || format!("is {per_column}: it must be {least} to {MAX_PIXELS}"),
        )
    }

    /// The bytes of a row of a box.
    fn check_inner(&self, field: &'static str, index: Option<usize>) -> Result<(), BadField> {
        let bad = |why| BadField { field, index, why };
        let (inner, unit) = (self.inner(), self.dtype.unit());
        if self.dtype.is_padded() && inner != PADDED_ROW {
            let why = format!(
                "is {inner}: with elements of type {} it is {PADDED_ROW}",
                self.dtype
            );
            return Err(bad(why));
        }
        if !inner.is_multiple_of(unit.elements) {
            let why = format!("is {inner}: {} elements make a byte", unit.elements);
            return Err(bad(why));
        }
        if self.interleave != Interleave::None {
            return Ok(());
        }
        let bytes = inner / unit.elements * unit.shared;
        if !bytes.is_multiple_of(16) {
            return Err(bad(format!(
                "is {inner}: that is {bytes} bytes, no multiple of 16"
            )));
        }
        match self.swizzle.span() {
            Some(span) if bytes > span => Err(bad(format!(
                "is {inner}: that is {bytes} bytes, and swizzle {} takes rows of at most {span}",
                self.swizzle
            ))),
            _ => Ok(()),
        }
    }
}

/// A rule for a whole field.
pub(crate) fn only(
    is_right: bool,
    field: &'static str,
    why: impl FnOnce() -> String,
) -> Result<(), BadField> {
    match is_right {
        true => Ok(()),
        false => Err(BadField {
            field,
            index: None,
            why: why(),
        }),
    }
}

fn at(
    is_right: bool,
    field: &'static str,
    index: usize,
    why: impl FnOnce() -> String,
) -> Result<(), BadField> {
    match is_right {
        true => Ok(()),
        false => Err(BadField {
            field,
            index: Some(index),
            why: why(),
        }),
    }
}
