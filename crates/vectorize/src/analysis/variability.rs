//! Whether a value is uniform, affine or varying across a gang.

use ptxjit_ir::{Block, Value};

/// The variability of a value across the lanes of a gang, and so its representation.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum Variability {
    /// The same for all lanes: one scalar for the gang.
    #[default]
    Uniform,
    /// `base + lane * stride`, wrapping: one scalar, the value of lane 0, which is a multiple of `1
    /// << align`.
    Affine {
        /// Difference from lane to lane.
        stride: i64,
        /// log2 of a known divisor of the base.
        align: u8,
        /// Set if the value stems from a 32-bit index that may wrap between lanes before it is
        /// extended to 64 bits.
        may_wrap: Option<MayWrap>,
    },
    /// Different for each lane: a vector, or a mask.
    Varying,
}

/// What is known of an affine 64-bit value `scale * extend(index) + …` whose 32-bit index may have
/// wrapped between two of the lanes.
///
/// The index wraps at most once between the lanes of a gang. If lanes from `k` on have wrapped,
/// they are `scale << 32` away from where the stride puts them, and the base is `(k * scale) <<
/// BITS` too large: the base is *marked*. No valid address looks like that, so the bounds test of
/// an access finds marked bases at no cost in the common case.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct MayWrap {
    /// What the extended index was multiplied by: positive, at most [`MayWrap::MAX_SCALE`].
    pub scale: i64,
    /// The wrapped lanes are `scale << 32` above the values that the stride gives them, not below.
    pub above: bool,
    /// The unmarked value is less than `scale << 40` in magnitude, so that the value itself shows
    /// whether it is marked: this many small values can be added before that is uncertain. At zero
    /// the value can serve only as an address.
    pub sums_left: u8,
}

impl MayWrap {
    /// log2 of the mark of a lane at scale one. All addresses of a process are less than half of
    /// that.
    pub const BITS: u32 = 49;
    /// Marks of all lanes must fit 63 bits.
    pub const MAX_SCALE: i64 = 1 << 9;

    pub(crate) fn scaled(self, factor: i64) -> Option<MayWrap> {
        let scale = self.scale.checked_mul(factor)?;
        let fits = (1..=MayWrap::MAX_SCALE).contains(&scale);
        fits.then_some(MayWrap { scale, ..self })
    }

    pub(crate) fn plus(self, is_small: bool) -> MayWrap {
        let left = self.sums_left.saturating_sub(1);
        let sums_left = if is_small { left } else { 0 };
        MayWrap { sums_left, ..self }
    }

    /// What is known of a value that may be either of the two.
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

/// Two values that have no common representation.
struct Incomparable;

impl Variability {
    /// Affine, and not from an index that may have wrapped.
    pub(crate) fn affine(stride: i64, align: u8) -> Variability {
        Variability::Affine {
            stride,
            align,
            may_wrap: None,
        }
    }

    /// What is known of the index, if it may have wrapped.
    pub fn may_wrap(self) -> Option<MayWrap> {
        match self {
            Variability::Affine { may_wrap, .. } => may_wrap,
            Variability::Uniform | Variability::Varying => None,
        }
    }

    /// The stride of an affine value.
    pub fn stride(self) -> Option<i64> {
        match self {
            Variability::Affine { stride, .. } => Some(stride),
            Variability::Uniform | Variability::Varying => None,
        }
    }

    /// The stride of an affine value that holds for all lanes, since no index may have wrapped.
    pub fn exact_stride(self) -> Option<i64> {
        self.stride().filter(|_| self.may_wrap().is_none())
    }

    /// The variability of the value plus an unknown number that is the same for all lanes.
    pub(crate) fn moved(mut self) -> Variability {
        if let Variability::Affine { may_wrap, .. } = &mut self {
            *may_wrap = may_wrap.map(|may_wrap| may_wrap.plus(false));
        }
        self
    }

    /// The variability of the value times a constant.
    pub(crate) fn scaled(self, factor: i64) -> Variability {
        let Variability::Affine { stride, align, .. } = self else {
            return self;
        };
        let scaled = self.may_wrap().map(|may_wrap| may_wrap.scaled(factor));
        if scaled == Some(None) {
            return Variability::Varying;
        }
        Variability::Affine {
            stride: stride.wrapping_mul(factor),
            align: (align + factor.trailing_zeros() as u8).min(31),
            may_wrap: scaled.flatten(),
        }
    }

    /// Whether the value stems from an index that may have wrapped, and its bits do not show
    /// whether it has.
    pub(crate) fn hides_wrap(self) -> bool {
        let may_wrap = self.may_wrap();
        may_wrap.is_some_and(|may_wrap| may_wrap.sums_left == 0)
    }
}

/// Why a value is varying.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum Because {
    /// The value is not varying.
    #[default]
    NotVarying,
    /// The instruction gives each lane its own result (a load through a varying address, an atomic,
    /// a shuffle …).
    Source,
    /// An operand is varying.
    Operand(Value),
    /// Diverged lanes meet here.
    Merge(Block),
    /// The value is used as a number, and stems from an index that may have wrapped.
    MayWrap,
}

/// The join of two values of the lattice.
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
