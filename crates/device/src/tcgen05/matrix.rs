//! Matrices in shared memory: descriptors, and where the elements are. PTX ISA, "Shared memory
//! descriptor", "Canonical Layouts" and "Shared Memory Layout and Swizzling".

use crate::Fault;

/// Bytes of a unit: neighbors along the leading dimension.
pub(super) const UNIT: usize = 16;

/// How units are permuted.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Swizzle {
    None,
    Bytes32,
    Bytes64,
    Bytes128,
    /// Of 128 bytes, by pairs of units.
    Bytes128By32,
}

impl Swizzle {
    /// Units of a row of the pattern.
    fn row(self) -> usize {
        match self {
            Swizzle::None => 1,
            Swizzle::Bytes32 => 2,
            Swizzle::Bytes64 => 4,
            Swizzle::Bytes128 | Swizzle::Bytes128By32 => 8,
        }
    }
}

/// Which dimension the elements of a unit follow.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Major {
    K,
    /// M of A, N of B.
    Mn,
}

/// A matrix in shared memory.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct Descriptor {
    start: usize,
    lead: usize,
    stride: usize,
    base: usize,
    /// `lead` is where units beyond the pattern's row lie.
    is_absolute: bool,
    pub(super) swizzle: Swizzle,
}

impl Descriptor {
    /// Reads a descriptor of `what`. `absolute` says whether the target has addresses in place of
    /// the leading dimension's offset.
    pub(super) fn decode(bits: u64, absolute: bool, what: &str) -> Result<Descriptor, Fault> {
        let refuse =
            |why: String| Fault::refused(format!("the descriptor {bits:#018x} of {what}: {why}"));
        let field = |from: u32, n: u32| (bits >> from) as usize & ((1 << n) - 1);
        if field(46, 3) != 1 {
            return Err(refuse("bits 46 to 48 must be 0b001".into()));
        }
        if field(53, 8) != 0 {
            return Err(refuse("bits 53 to 60 must be zero".into()));
        }
        let swizzle = match field(61, 3) {
            0 => Swizzle::None,
            1 => Swizzle::Bytes128By32,
            2 => Swizzle::Bytes128,
            4 => Swizzle::Bytes64,
            6 => Swizzle::Bytes32,
            other => return Err(refuse(format!("there is no swizzling mode {other}"))),
        };
        let descriptor = Descriptor {
            start: field(0, 14) * UNIT,
            lead: field(16, 14) * UNIT,
            stride: field(32, 14) * UNIT,
            base: field(49, 3),
            is_absolute: field(52, 1) == 1,
            swizzle,
        };
        if descriptor.is_absolute {
            if !absolute {
                return Err(refuse("bit 52 is for `sm_103a`".into()));
            }
            if swizzle != Swizzle::Bytes128 || descriptor.base != 0 {
                return Err(refuse(
                    "bit 52 needs 128-byte swizzling and a base offset of 0".into(),
                ));
            }
        }
        Ok(descriptor)
    }

    /// Whether units beyond the pattern's row lie at an address of their own.
    pub(super) fn is_absolute(&self) -> bool {
        self.is_absolute
    }

    /// The offset of a unit in shared memory: along K, that of row `outer` and unit `inner`; else,
    /// that of unit `outer` along M or N and of `inner` along K.
    pub(super) fn unit(&self, major: Major, outer: usize, inner: usize) -> usize {
        let row = self.swizzle.row();
        let offset = match (major, self.swizzle) {
            (Major::K, Swizzle::None) => {
                outer % 8 * UNIT + outer / 8 * self.stride + inner * self.lead
            }
            (Major::K, _) => {
                outer % 8 * UNIT * row + outer / 8 * self.stride + self.along_row(inner)
            }
            (Major::Mn, Swizzle::None) => {
                outer * self.stride + inner % 8 * UNIT + inner / 8 * self.lead
            }
            (Major::Mn, swizzle) => {
                let rows = if swizzle == Swizzle::Bytes128By32 {
                    4
                } else {
                    8
                };
                outer % row * UNIT
                    + outer / row * self.lead
                    + inner % rows * UNIT * row
                    + inner / rows * self.stride
            }
        };
        self.swizzled(self.start.wrapping_add(offset))
    }

    /// Bytes from the first unit of a row to another.
    fn along_row(&self, inner: usize) -> usize {
        const ROW: usize = 128;
        let offset = inner * UNIT;
        let within = self.start % ROW + offset;
        if !self.is_absolute || within < ROW {
            return offset;
        }
        // The second piece begins at the address that the leading dimension's field is.
        (self.lead + within - ROW).wrapping_sub(self.start)
    }

    fn swizzled(&self, at: usize) -> usize {
        if self.swizzle == Swizzle::Bytes128By32 {
            return at ^ ((at >> 7).wrapping_sub(self.base) & 3) << 5;
        }
        at ^ ((at >> 7).wrapping_sub(self.base) & (self.swizzle.row() - 1)) << 4
    }
}

/// The bytes of a unit.
pub(super) fn unit_at<'a>(
    shared: &'a [u8],
    at: usize,
    what: &str,
) -> Result<&'a [u8; UNIT], Fault> {
    let bytes = shared.get(at..).and_then(<[u8]>::first_chunk);
    bytes.ok_or_else(|| {
        Fault::refused(format!(
            "{what} has 16 bytes at offset {at} of shared memory, which has {} bytes",
            shared.len()
        ))
    })
}
