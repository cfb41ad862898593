//! Matrices in shared memory: descriptors, and where the elements are. PTX ISA, "Shared memory
//! descriptor", "Canonical Layouts" and "Shared Memory Layout and Swizzling".

use std::ops::Range;

use smallvec::SmallVec;

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
        // The ISA has 0b001 there. Kernels of Triton up to 3.5 leave the bits zero, as they are in
        // descriptors of `wgmma`, and run on GPUs.
        if field(46, 3) > 1 {
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
        self.units(major).at(outer, inner)
    }

    /// Where the units are.
    pub(super) fn units(&self, major: Major) -> Units {
        let row = self.swizzle.row();
        let (log_row, in_row) = (row.ilog2(), UNIT * row);
        let (outer, inner) = match (major, self.swizzle) {
            (Major::K, Swizzle::None) => (
                Steps::new(3, UNIT, self.stride),
                Steps::new(0, 0, self.lead),
            ),
            (Major::K, _) => (Steps::new(3, in_row, self.stride), Steps::new(0, 0, UNIT)),
            (Major::Mn, Swizzle::None) => (
                Steps::new(0, 0, self.stride),
                Steps::new(3, UNIT, self.lead),
            ),
            (Major::Mn, Swizzle::Bytes128By32) => (
                Steps::new(log_row, UNIT, self.lead),
                Steps::new(2, in_row, self.stride),
            ),
            (Major::Mn, _) => (
                Steps::new(log_row, UNIT, self.lead),
                Steps::new(3, in_row, self.stride),
            ),
        };
        // Two units change places as one.
        let (mask, shift) = match self.swizzle {
            Swizzle::Bytes128By32 => (3, 5),
            _ => (row - 1, 4),
        };
        Units {
            start: self.start,
            outer,
            inner,
            lead: (self.is_absolute && major == Major::K).then_some(self.lead),
            base: self.base,
            mask,
            shift,
        }
    }
}

/// Bytes from the first of a sequence of units: `within` from one to the next of a pattern of
/// `1 << log`, and `beyond` from one pattern to the next.
#[derive(Copy, Clone, Debug)]
struct Steps {
    log: u32,
    within: usize,
    beyond: usize,
}

impl Steps {
    fn new(log: u32, within: usize, beyond: usize) -> Steps {
        Steps {
            log,
            within,
            beyond,
        }
    }

    fn offset(self, n: usize) -> usize {
        (n & ((1 << self.log) - 1)) * self.within + (n >> self.log) * self.beyond
    }
}

/// Where the units of a matrix are in shared memory.
#[derive(Copy, Clone, Debug)]
pub(super) struct Units {
    start: usize,
    outer: Steps,
    inner: Steps,
    /// The address of units beyond a row of the pattern, if they have one of their own.
    lead: Option<usize>,
    /// How addresses are permuted.
    base: usize,
    mask: usize,
    shift: usize,
}

impl Units {
    /// The offset of a unit, see [`Descriptor::unit`].
    fn at(&self, outer: usize, inner: usize) -> usize {
        self.of(self.outer.offset(outer), self.along_row(inner))
    }

    /// Bytes from the first of the outer units to others.
    pub(super) fn along_outer(&self, units: Range<usize>) -> SmallVec<[usize; 256]> {
        let Steps {
            log,
            within,
            beyond,
        } = self.outer;
        let last_within = (1 << log) - 1;
        let mut at = self.outer.offset(units.start);
        let mut offsets = SmallVec::with_capacity(units.len());
        for n in units {
            offsets.push(at);
            at = match n & last_within == last_within {
                true => (at + beyond).wrapping_sub(last_within * within),
                false => at + within,
            };
        }
        offsets
    }

    /// The offset of a unit at such a distance along either dimension.
    pub(super) fn of(&self, outer: usize, inner: usize) -> usize {
        let at = self.start.wrapping_add(outer).wrapping_add(inner);
        at ^ ((at >> 7).wrapping_sub(self.base) & self.mask) << self.shift
    }

    /// Bytes from the first of the inner units to another.
    pub(super) fn along_row(&self, inner: usize) -> usize {
        const ROW: usize = 128;
        let offset = self.inner.offset(inner);
        let Some(lead) = self.lead else {
            return offset;
        };
        let within = self.start % ROW + offset;
        if within < ROW {
            return offset;
        }
        // The second piece begins at the address that the leading dimension's field is.
        (lead + within - ROW).wrapping_sub(self.start)
    }
}

/// The bytes of a unit.
pub(super) fn unit_at<'a>(
    shared: &'a [u8],
    at: usize,
    what: &str,
) -> Result<&'a [u8; UNIT], Fault> {
    let bytes = shared.get(at..).and_then(<[u8]>::first_chunk);
    bytes.ok_or_else(|| outside(shared, at, what))
}

#[cold]
pub(super) fn outside(shared: &[u8], at: usize, what: &str) -> Fault {
    Fault::refused(format!(
        "{what} has 16 bytes at offset {at} of shared memory, which has {} bytes",
        shared.len()
    ))
}
