//! How a value is held for a gang of lanes.

use ptxjit_ir::{Block, Value};

/// How a value is held.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum Variability {
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
        may_wrap: Option<MayWrap>,
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
pub struct MayWrap {
    /// What the extended index was multiplied by: positive, at most [`MayWrap::MAX_SCALE`].
    pub scale: i64,
    /// The wrapped lanes are `scale << 32` above the others' line, not below it.
    pub above: bool,
    /// The value, its mark aside, is less than `scale << 40` in magnitude, so that it alone tells whether it is marked: so many
    /// small values can be added before that is no longer sure. At zero it can only serve as an address.
    pub sums_left: u8,
}

impl MayWrap {
    /// log2 of the mark of a lane at scale one. All addresses of a process are less than half of that.
    pub const BITS: u32 = 49;
    /// Marks of all lanes must fit 63 bits.
    pub const MAX_SCALE: i64 = 1 << 9;

    pub(crate) fn scaled(self, factor: i64) -> Option<MayWrap> {
        let scale = self.scale.checked_mul(factor)?;
        (1..=MayWrap::MAX_SCALE)
            .contains(&scale)
            .then_some(MayWrap { scale, ..self })
    }

    pub(crate) fn plus(self, is_small: bool) -> MayWrap {
        let sums_left = if is_small {
            self.sums_left.saturating_sub(1)
        } else {
            0
        };
        MayWrap { sums_left, ..self }
    }

    /// What is known if either may be the value.
    fn join(a: Option<MayWrap>, b: Option<MayWrap>) -> Result<Option<MayWrap>, Incomparable> {
        match (a, b) {
            (None, None) => Ok(None),
            (Some(a), Some(b)) if (a.scale, a.above) == (b.scale, b.above) => Ok(Some(MayWrap {
                sums_left: a.sums_left.min(b.sums_left),
                ..a
            })),
            _ => Err(Incomparable),
        }
    }
}

/// Two values that cannot be held in the same way.
struct Incomparable;

impl Variability {
    /// How a value stems from an index that may have wrapped, if it does.
    pub fn may_wrap(self) -> Option<MayWrap> {
        match self {
            Variability::Affine { may_wrap, .. } => may_wrap,
            Variability::Uniform | Variability::Varying => None,
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
    MayWrap,
}

/// The best shape that covers both.
pub(crate) fn join(a: Variability, b: Variability) -> Variability {
    match (a, b) {
        (Variability::Uniform, Variability::Uniform) => Variability::Uniform,
        (
            Variability::Affine {
                stride: s,
                align: x,
                may_wrap: f,
            },
            Variability::Affine {
                stride: t,
                align: y,
                may_wrap: g,
            },
        ) if s == t => {
            MayWrap::join(f, g).map_or(Variability::Varying, |may_wrap| Variability::Affine {
                stride: s,
                align: x.min(y),
                may_wrap,
            })
        }
        _ => Variability::Varying,
    }
}

/// A value times a constant.
pub(crate) fn scaled(
    stride: i64,
    align: u8,
    may_wrap: Option<MayWrap>,
    factor: i64,
) -> Variability {
    let may_wrap = match may_wrap.map(|may_wrap| may_wrap.scaled(factor)) {
        None => None,
        Some(None) => return Variability::Varying,
        Some(may_wrap) => may_wrap,
    };
    Variability::Affine {
        stride: stride.wrapping_mul(factor),
        align: (align + factor.trailing_zeros() as u8).min(31),
        may_wrap,
    }
}
