//! Value types, number formats, state spaces and the other small operands of instructions.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The type of an SSA value: its width.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Type {
    /// A predicate.
    B1,
    /// 8 bits.
    B8,
    /// 16 bits.
    B16,
    /// 32 bits.
    B32,
    /// 64 bits.
    B64,
}

impl Type {
    /// Width in bits.
    pub const fn bits(self) -> u32 {
        match self {
            Type::B1 => 1,
            Type::B8 => 8,
            Type::B16 => 16,
            Type::B32 => 32,
            Type::B64 => 64,
        }
    }

    /// Size in memory, in bytes; a predicate takes one byte.
    pub const fn bytes(self) -> u32 {
        match self {
            Type::B1 | Type::B8 => 1,
            Type::B16 => 2,
            Type::B32 => 4,
            Type::B64 => 8,
        }
    }

    /// The bits that a value of this type can have.
    pub const fn mask(self) -> u64 {
        match self {
            Type::B64 => u64::MAX,
            Type::B1 | Type::B8 | Type::B16 | Type::B32 => (1 << self.bits()) - 1,
        }
    }

    /// The bits of a value of this type as a signed integer.
    pub const fn signed(self, bits: u64) -> i64 {
        let unused = 64 - self.bits();
        (bits << unused) as i64 >> unused
    }

    /// The integer type of `bytes` bytes.
    pub const fn from_bytes(bytes: u32) -> Option<Type> {
        match bytes {
            1 => Some(Type::B8),
            2 => Some(Type::B16),
            4 => Some(Type::B32),
            8 => Some(Type::B64),
            _ => None,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b{}", self.bits())
    }
}

/// A floating-point format that arithmetic works in.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum FloatFmt {
    /// IEEE binary16 in a `B16`.
    F16,
    /// bfloat16 in a `B16`.
    Bf16,
    /// IEEE binary32 in a `B32`.
    F32,
    /// IEEE binary64 in a `B64`.
    F64,
}

impl FloatFmt {
    /// The type of values in this format.
    pub const fn ty(self) -> Type {
        match self {
            FloatFmt::F16 | FloatFmt::Bf16 => Type::B16,
            FloatFmt::F32 => Type::B32,
            FloatFmt::F64 => Type::B64,
        }
    }

    /// The same format as an operand of a conversion.
    pub const fn num(self) -> NumFmt {
        match self {
            FloatFmt::F16 => NumFmt::F16,
            FloatFmt::Bf16 => NumFmt::Bf16,
            FloatFmt::F32 => NumFmt::F32,
            FloatFmt::F64 => NumFmt::F64,
        }
    }
}

/// Every number format that `cvt` converts from or to.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are PTX's own")]
pub enum NumFmt {
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    Bf16,
    F32,
    F64,
    /// tf32 in a `B32`, low 13 bits zero.
    Tf32,
    E4m3,
    E5m2,
    E2m3,
    E3m2,
    E2m1,
    Ue8m0,
}

impl NumFmt {
    /// The type of a value in this format; formats of less than eight bits sit in the low bits of a
    /// `B8`.
    pub const fn ty(self) -> Type {
        match self {
            NumFmt::U8
            | NumFmt::S8
            | NumFmt::E4m3
            | NumFmt::E5m2
            | NumFmt::E2m3
            | NumFmt::E3m2
            | NumFmt::E2m1
            | NumFmt::Ue8m0 => Type::B8,
            NumFmt::U16 | NumFmt::S16 | NumFmt::F16 | NumFmt::Bf16 => Type::B16,
            NumFmt::U32 | NumFmt::S32 | NumFmt::F32 | NumFmt::Tf32 => Type::B32,
            NumFmt::U64 | NumFmt::S64 | NumFmt::F64 => Type::B64,
        }
    }

    /// Whether this is an integer format.
    pub const fn is_int(self) -> bool {
        matches!(
            self,
            NumFmt::U8
                | NumFmt::U16
                | NumFmt::U32
                | NumFmt::U64
                | NumFmt::S8
                | NumFmt::S16
                | NumFmt::S32
                | NumFmt::S64
        )
    }

    /// Whether this is a signed integer format.
    pub const fn is_signed_int(self) -> bool {
        matches!(self, NumFmt::S8 | NumFmt::S16 | NumFmt::S32 | NumFmt::S64)
    }
}

/// Rounding direction.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Round {
    /// To nearest, ties to even.
    Rn,
    /// To nearest, ties away from zero.
    Rna,
    /// Toward zero.
    Rz,
    /// Toward negative infinity.
    Rm,
    /// Toward positive infinity.
    Rp,
}

/// How a floating-point operation rounds and whether it flushes subnormals.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct FloatMode {
    /// Direction of the one rounding.
    pub round: Round,
    /// `.ftz`: subnormal inputs and a subnormal result become zeros of the same sign.
    pub ftz: bool,
}

impl FloatMode {
    /// Round to nearest even, keep subnormals.
    pub const RN: FloatMode = FloatMode {
        round: Round::Rn,
        ftz: false,
    };
}

/// A conversion, as `cvt` means it.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Convert {
    /// Source format.
    pub from: NumFmt,
    /// Destination format.
    pub to: NumFmt,
    /// Rounding of float results, or to integer of float sources.
    pub round: Round,
    /// `cvt.rni` and the like from a float format to the same format: round to an integral value.
    pub integral: bool,
    /// Flush subnormal f32 inputs and results.
    pub ftz: bool,
    /// `.sat`: clamp to the integer range, or to [0, 1] for floats (NaN to +0).
    pub sat: bool,
    /// `.satfinite`.
    pub satfinite: bool,
    /// `.relu`: negative results to +0, NaN to canonical NaN.
    pub relu: bool,
}

impl Convert {
    /// A plain conversion, rounding to nearest even where rounding is needed.
    pub const fn new(from: NumFmt, to: NumFmt) -> Convert {
        Convert {
            from,
            to,
            round: Round::Rn,
            integral: false,
            ftz: false,
            sat: false,
            satfinite: false,
            relu: false,
        }
    }
}

/// A state space; `Generic` holds the addresses that are in none by name.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Space {
    /// A generic address.
    Generic,
    /// `.global`; its addresses equal generic addresses.
    Global,
    /// `.shared::cta`.
    Shared,
    /// `.shared::cluster`.
    SharedCluster,
    /// `.local`, private to a thread.
    Local,
    /// `.const`.
    Const,
    /// Kernel parameters.
    Param,
}

impl Space {
    /// Whether addresses of this space are offsets into a window.
    pub const fn is_window(self) -> bool {
        match self {
            Space::Generic | Space::Global => false,
            Space::Shared | Space::SharedCluster | Space::Local | Space::Const | Space::Param => {
                true
            }
        }
    }

    /// Whether no thread can write to this space while a kernel runs.
    pub const fn is_read_only(self) -> bool {
        match self {
            Space::Const | Space::Param => true,
            Space::Generic
            | Space::Global
            | Space::Shared
            | Space::SharedCluster
            | Space::Local => false,
        }
    }
}

/// Memory ordering of an access or a fence.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum MemSem {
    /// An ordinary access.
    Weak,
    /// `ld.global.nc`, `ldu`: read-only data for the life of the kernel.
    NonCoherent,
    /// `.volatile`, `.mmio`: never merged, moved or removed.
    Volatile,
    /// `.relaxed`.
    Relaxed,
    /// `.acquire`.
    Acquire,
    /// `.release`.
    Release,
    /// `.acq_rel`.
    AcqRel,
    /// `fence.sc`, `membar`.
    Sc,
}

/// Who takes part in an ordering.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are PTX's own")]
pub enum Scope {
    Cta,
    Cluster,
    Gpu,
    Sys,
}

/// Number format of an atomic operation, one element.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are PTX's own")]
pub enum AtomicFmt {
    B16,
    B32,
    B64,
    U32,
    S32,
    U64,
    S64,
    F16,
    /// Two halves, each atomic.
    F16x2,
    Bf16,
    /// Two bfloat16, each atomic.
    Bf16x2,
    /// On `.global` subnormals are flushed, on `.shared` kept; a generic address decides at run
    /// time.
    F32,
    F64,
}

impl AtomicFmt {
    /// The type of the value in memory.
    pub const fn ty(self) -> Type {
        match self {
            AtomicFmt::B16 | AtomicFmt::F16 | AtomicFmt::Bf16 => Type::B16,
            AtomicFmt::B32
            | AtomicFmt::U32
            | AtomicFmt::S32
            | AtomicFmt::F16x2
            | AtomicFmt::Bf16x2
            | AtomicFmt::F32 => Type::B32,
            AtomicFmt::B64 | AtomicFmt::U64 | AtomicFmt::S64 | AtomicFmt::F64 => Type::B64,
        }
    }

    /// Whether it is of floating-point numbers.
    pub const fn is_float(self) -> bool {
        match self {
            AtomicFmt::F16
            | AtomicFmt::F16x2
            | AtomicFmt::Bf16
            | AtomicFmt::Bf16x2
            | AtomicFmt::F32
            | AtomicFmt::F64 => true,
            AtomicFmt::B16
            | AtomicFmt::B32
            | AtomicFmt::B64
            | AtomicFmt::U32
            | AtomicFmt::S32
            | AtomicFmt::U64
            | AtomicFmt::S64 => false,
        }
    }
}

/// A special register of a thread. Vectors are split: `TidX`, `TidY`, …
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are PTX's own")]
pub enum SpecialReg {
    TidX,
    TidY,
    TidZ,
    NtidX,
    NtidY,
    NtidZ,
    CtaidX,
    CtaidY,
    CtaidZ,
    NctaidX,
    NctaidY,
    NctaidZ,
    LaneId,
    WarpId,
    NwarpId,
    SmId,
    NsmId,
    /// `B64`.
    GridId,
    IsExplicitCluster,
    ClusterIdX,
    ClusterIdY,
    ClusterIdZ,
    NclusterIdX,
    NclusterIdY,
    NclusterIdZ,
    ClusterCtaIdX,
    ClusterCtaIdY,
    ClusterCtaIdZ,
    ClusterNctaIdX,
    ClusterNctaIdY,
    ClusterNctaIdZ,
    ClusterCtaRank,
    ClusterNctaRank,
    LanemaskEq,
    LanemaskLe,
    LanemaskLt,
    LanemaskGe,
    LanemaskGt,
    Clock,
    ClockHi,
    /// `B64`.
    Clock64,
    /// `%pm0` … `%pm7` and their `_64` forms, `B64`, all undefined.
    Pm(u8),
    Envreg(u8),
    /// `B64`.
    GlobalTimer,
    GlobalTimerLo,
    GlobalTimerHi,
    TotalSmemSize,
    AggrSmemSize,
    DynamicSmemSize,
    /// `B64`.
    CurrentGraphExec,
}

/// Which threads of a CTA read the same number from a special register. Clocks and other volatile
/// registers count as the CTA's: threads may read them at one time.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum SharedBy {
    /// Each thread has its own.
    None,
    /// Those of a warp.
    Warp,
    /// All.
    Cta,
}

impl SpecialReg {
    /// The type of the register's value.
    pub const fn ty(self) -> Type {
        match self {
            SpecialReg::IsExplicitCluster => Type::B1,
            SpecialReg::GridId
            | SpecialReg::Clock64
            | SpecialReg::Pm(_)
            | SpecialReg::GlobalTimer
            | SpecialReg::CurrentGraphExec => Type::B64,
            SpecialReg::TidX
            | SpecialReg::TidY
            | SpecialReg::TidZ
            | SpecialReg::NtidX
            | SpecialReg::NtidY
            | SpecialReg::NtidZ
            | SpecialReg::CtaidX
            | SpecialReg::CtaidY
            | SpecialReg::CtaidZ
            | SpecialReg::NctaidX
            | SpecialReg::NctaidY
            | SpecialReg::NctaidZ
            | SpecialReg::LaneId
            | SpecialReg::WarpId
            | SpecialReg::NwarpId
            | SpecialReg::SmId
            | SpecialReg::NsmId
            | SpecialReg::ClusterIdX
            | SpecialReg::ClusterIdY
            | SpecialReg::ClusterIdZ
            | SpecialReg::NclusterIdX
            | SpecialReg::NclusterIdY
            | SpecialReg::NclusterIdZ
            | SpecialReg::ClusterCtaIdX
            | SpecialReg::ClusterCtaIdY
            | SpecialReg::ClusterCtaIdZ
            | SpecialReg::ClusterNctaIdX
            | SpecialReg::ClusterNctaIdY
            | SpecialReg::ClusterNctaIdZ
            | SpecialReg::ClusterCtaRank
            | SpecialReg::ClusterNctaRank
            | SpecialReg::LanemaskEq
            | SpecialReg::LanemaskLe
            | SpecialReg::LanemaskLt
            | SpecialReg::LanemaskGe
            | SpecialReg::LanemaskGt
            | SpecialReg::Clock
            | SpecialReg::ClockHi
            | SpecialReg::Envreg(_)
            | SpecialReg::GlobalTimerLo
            | SpecialReg::GlobalTimerHi
            | SpecialReg::TotalSmemSize
            | SpecialReg::AggrSmemSize
            | SpecialReg::DynamicSmemSize => Type::B32,
        }
    }

    /// Which threads of a CTA read one number.
    pub const fn shared_by(self) -> SharedBy {
        match self {
            SpecialReg::TidX
            | SpecialReg::TidY
            | SpecialReg::TidZ
            | SpecialReg::LaneId
            | SpecialReg::LanemaskEq
            | SpecialReg::LanemaskLe
            | SpecialReg::LanemaskLt
            | SpecialReg::LanemaskGe
            | SpecialReg::LanemaskGt => SharedBy::None,
            SpecialReg::WarpId => SharedBy::Warp,
            SpecialReg::NtidX
            | SpecialReg::NtidY
            | SpecialReg::NtidZ
            | SpecialReg::CtaidX
            | SpecialReg::CtaidY
            | SpecialReg::CtaidZ
            | SpecialReg::NctaidX
            | SpecialReg::NctaidY
            | SpecialReg::NctaidZ
            | SpecialReg::NwarpId
            | SpecialReg::SmId
            | SpecialReg::NsmId
            | SpecialReg::GridId
            | SpecialReg::IsExplicitCluster
            | SpecialReg::ClusterIdX
            | SpecialReg::ClusterIdY
            | SpecialReg::ClusterIdZ
            | SpecialReg::NclusterIdX
            | SpecialReg::NclusterIdY
            | SpecialReg::NclusterIdZ
            | SpecialReg::ClusterCtaIdX
            | SpecialReg::ClusterCtaIdY
            | SpecialReg::ClusterCtaIdZ
            | SpecialReg::ClusterNctaIdX
            | SpecialReg::ClusterNctaIdY
            | SpecialReg::ClusterNctaIdZ
            | SpecialReg::ClusterCtaRank
            | SpecialReg::ClusterNctaRank
            | SpecialReg::Clock
            | SpecialReg::ClockHi
            | SpecialReg::Clock64
            | SpecialReg::Pm(_)
            | SpecialReg::Envreg(_)
            | SpecialReg::GlobalTimer
            | SpecialReg::GlobalTimerLo
            | SpecialReg::GlobalTimerHi
            | SpecialReg::TotalSmemSize
            | SpecialReg::AggrSmemSize
            | SpecialReg::DynamicSmemSize
            | SpecialReg::CurrentGraphExec => SharedBy::Cta,
        }
    }

    /// Whether two reads by one thread may differ.
    pub const fn is_volatile(self) -> bool {
        matches!(
            self,
            SpecialReg::Clock
                | SpecialReg::ClockHi
                | SpecialReg::Clock64
                | SpecialReg::Pm(_)
                | SpecialReg::GlobalTimer
                | SpecialReg::GlobalTimerLo
                | SpecialReg::GlobalTimerHi
        )
    }
}

/// Where an instruction came from: the byte offset of its statement in the module's text.
#[derive(
    Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default, Serialize, Deserialize,
)]
pub struct SrcLoc(pub u32);
