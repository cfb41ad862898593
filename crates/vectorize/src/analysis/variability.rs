//! How a value is held for a gang of lanes.

use ptxjit_ir::{Block, Value};

/// How a value is held.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum Shape {
    /// One scalar for the gang.
    #[default]
    Uniform,
    /// The scalar of lane 0; lane i has `stride * i` more, wrapping. The scalar of lane 0 is known to be a multiple of `1 << align`.
    Affine {
        /// Difference from lane to lane.
        stride: i64,
        /// log2 of what the scalar is known to be a multiple of.
        align: u8,
        /// Set if the value stems from a 32-bit index that may wrap among the lanes before it is extended to 64 bits.
        fold: Option<Fold>,
    },
    /// A vector, or a lane mask.
    Varying,
}

/// What is known of an affine 64-bit value `scale * extend(index) + …` whose 32-bit index may have wrapped between two of the lanes.
///
/// At most one wrap can occur among the lanes of a gang. Should lanes from `k` on have wrapped, then they are `scale << 32` away from
/// where the stride puts them, and the scalar says so by being `(k * scale) << FOLD_BITS` too large: no valid address looks like that, so
/// that the test of an access for being inside of device memory finds it, for nothing in the common case.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Fold {
    /// What the extended index was multiplied by: positive, at most [`Fold::MAX_SCALE`].
    pub scale: i64,
    /// The wrapped lanes are `scale << 32` above the others' line, not below it.
    pub above: bool,
    /// The value, its mark aside, is less than `scale << 40` in magnitude, so that it alone tells whether it is marked: so many
    /// small values can be added before that is no longer sure. At zero it can only serve as an address.
    pub sums_left: u8,
}

impl Fold {
    /// log2 of the mark of a lane at scale one. All addresses of a process are less than half of that.
    pub const BITS: u32 = 49;
    /// Marks of all lanes must fit 63 bits.
    pub const MAX_SCALE: i64 = 1 << 9;

    pub(super) fn scaled(self, factor: i64) -> Option<Fold> {
        let scale = self.scale.checked_mul(factor)?;
        (1..=Fold::MAX_SCALE)
            .contains(&scale)
            .then_some(Fold { scale, ..self })
    }

    pub(super) fn plus(self, is_small: bool) -> Fold {
        let sums_left = if is_small {
            self.sums_left.saturating_sub(1)
        } else {
            0
        };
        Fold { sums_left, ..self }
    }

    /// What is known if either may be the value.
    fn join(a: Option<Fold>, b: Option<Fold>) -> Result<Option<Fold>, Unlike> {
        match (a, b) {
            (None, None) => Ok(None),
            (Some(a), Some(b)) if (a.scale, a.above) == (b.scale, b.above) => Ok(Some(Fold {
                sums_left: a.sums_left.min(b.sums_left),
                ..a
            })),
            _ => Err(Unlike),
        }
    }
}

/// Two values that cannot be held in the same way.
struct Unlike;

impl Shape {
    /// How a value stems from an index that may have wrapped, if it does.
    pub fn fold(self) -> Option<Fold> {
        match self {
            Shape::Affine { fold, .. } => fold,
            Shape::Uniform | Shape::Varying => None,
        }
    }
}

/// Why a value is varying.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum Because {
    /// It is not.
    #[default]
    NotVarying,
    /// The instruction gives each lane its own result (a load through a varying address, an atomic, a shuffle …).
    Source,
    /// An operand is.
    Operand(Value),
    /// Lanes meet here that took different ways.
    Merge(Block),
    /// It is wanted as a number, and stems from an index that may have wrapped.
    Fold,
}

/// The best shape that covers both.
pub(super) fn lower(a: Shape, b: Shape) -> Shape {
    match (a, b) {
        (Shape::Uniform, Shape::Uniform) => Shape::Uniform,
        (
            Shape::Affine {
                stride: s,
                align: x,
                fold: f,
            },
            Shape::Affine {
                stride: t,
                align: y,
                fold: g,
            },
        ) if s == t => Fold::join(f, g).map_or(Shape::Varying, |fold| Shape::Affine {
            stride: s,
            align: x.min(y),
            fold,
        }),
        _ => Shape::Varying,
    }
}

/// A value times a constant.
pub(super) fn scaled(stride: i64, align: u8, fold: Option<Fold>, factor: i64) -> Shape {
    let fold = match fold.map(|fold| fold.scaled(factor)) {
        None => None,
        Some(None) => return Shape::Varying,
        Some(fold) => fold,
    };
    Shape::Affine {
        stride: stride.wrapping_mul(factor),
        align: (align + factor.trailing_zeros() as u8).min(31),
        fold,
    }
}
