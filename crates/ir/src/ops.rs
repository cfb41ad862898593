//! The ops of the IR, grouped by the shape of their operands.

use serde::{Deserialize, Serialize};

use crate::mma::Mma;

/// What an instruction does beside computing its results.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Nothing: may be moved, merged, removed.
    Pure,
    /// Reads memory that others may write.
    Read,
    /// Writes memory, orders memory, or must stay in its place for another reason.
    Write,
    /// Like `Write`, and depends on which threads execute it together.
    Convergent,
}

macro_rules! ops {
    ($($(#[$meta:meta])* pub enum $name:ident { $($(#[$doc:meta])* $op:ident = $text:literal;)* })*) => {$(
        $(#[$meta])*
        #[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
        pub enum $name { $($(#[$doc])* $op,)* }

        impl $name {
            /// The name that the printer writes.
            pub const fn name(self) -> &'static str {
                match self { $($name::$op => $text,)* }
            }

            /// All ops of this group.
            pub const ALL: &'static [$name] = &[$($name::$op,)*];
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    )*};
}

ops! {
    /// One integer in, one integer out.
    pub enum IntUnaryOp {
        /// Bitwise complement; of a `B1` logical not.
        Not = "not";
        /// Two's complement negation, wrapping.
        Neg = "ineg";
        /// Absolute value, wrapping for the minimum.
        Abs = "iabs";
        /// Number of one bits, result `B32`.
        Popc = "popc";
        /// Number of leading zeros, the width for zero, result `B32`.
        Clz = "clz";
        /// Bit reversal.
        Brev = "brev";
    }

    /// Two integers of one type in, one out.
    pub enum IntBinaryOp {
        /// Wrapping addition.
        Add = "iadd";
        /// Wrapping subtraction.
        Sub = "isub";
        /// Low half of the product.
        Mul = "imul";
        /// High half of the unsigned product.
        UmulHi = "umulhi";
        /// High half of the signed product.
        SmulHi = "smulhi";
        /// Full unsigned product: the result has twice the width (`B16` or `B32` operands).
        UmulWide = "umulwide";
        /// Full signed product: the result has twice the width (`B16` or `B32` operands).
        SmulWide = "smulwide";
        /// Unsigned quotient; all ones for a zero divisor.
        Udiv = "udiv";
        /// Signed quotient toward zero; all ones for a zero divisor, the minimum for minimum / -1.
        Sdiv = "sdiv";
        /// Unsigned remainder; all ones for a zero divisor.
        Urem = "urem";
        /// Signed remainder, the sign of the dividend; all ones for a zero divisor, 0 for minimum %
        /// -1.
        Srem = "srem";
        /// Bitwise and.
        And = "and";
        /// Bitwise or.
        Or = "or";
        /// Bitwise exclusive or.
        Xor = "xor";
        /// Shift left; the count (second operand, always `B32`) is unsigned and a count of the
        /// width or more gives 0.
        Shl = "shl";
        /// Logical shift right; the count is `B32`; the width or more gives 0.
        Ushr = "ushr";
        /// Arithmetic shift right; the count is `B32`; the width or more fills with the sign.
        Sshr = "sshr";
        /// Signed minimum.
        Smin = "smin";
        /// Signed maximum.
        Smax = "smax";
        /// Unsigned minimum.
        Umin = "umin";
        /// Unsigned maximum.
        Umax = "umax";
        /// Signed addition, clamped to the type's range.
        SaddSat = "saddsat";
        /// Signed subtraction, clamped to the type's range.
        SsubSat = "ssubsat";
    }

    /// Three `B32` (or as said) in, one out.
    pub enum IntTernaryOp {
        /// Funnel shift left: the high word of `b:a << min(c, 32)` for operands (a, b, c).
        ShfL = "shf.l";
        /// Funnel shift right: the low word of `b:a >> min(c, 32)`.
        ShfR = "shf.r";
        /// Byte permute of (a, b) with the selectors of c, default mode of `prmt`.
        Prmt = "prmt";
        /// `bfe.u` at `B32` or `B64`; position and length are `B32`, of which the low byte counts.
        UBfe = "ubfe";
        /// `bfe.s` at `B32` or `B64`.
        SBfe = "sbfe";
        /// `fns`: (mask, base, offset).
        Fns = "fns";
        /// Four-way byte dot product, both unsigned.
        Dp4aUU = "dp4a.uu";
        /// First operand unsigned, second signed.
        Dp4aUS = "dp4a.us";
        /// First operand signed, second unsigned.
        Dp4aSU = "dp4a.su";
        /// Both signed.
        Dp4aSS = "dp4a.ss";
        /// Two-way dot product of the halves of a with bytes 0, 1 of b; both unsigned.
        Dp2aLoUU = "dp2a.lo.uu";
        /// `dp2a.lo`, a unsigned, b signed.
        Dp2aLoUS = "dp2a.lo.us";
        /// `dp2a.lo`, a signed, b unsigned.
        Dp2aLoSU = "dp2a.lo.su";
        /// `dp2a.lo`, both signed.
        Dp2aLoSS = "dp2a.lo.ss";
        /// Bytes 2, 3 of b.
        Dp2aHiUU = "dp2a.hi.uu";
        /// `dp2a.hi`, a unsigned, b signed.
        Dp2aHiUS = "dp2a.hi.us";
        /// `dp2a.hi`, a signed, b unsigned.
        Dp2aHiSU = "dp2a.hi.su";
        /// `dp2a.hi`, both signed.
        Dp2aHiSS = "dp2a.hi.ss";
    }

    /// Change of width.
    pub enum ResizeOp {
        /// Keep the low bits.
        Trunc = "trunc";
        /// Zero-extend; a `B1` becomes 0 or 1.
        Uext = "uext";
        /// Sign-extend; a `B1` becomes 0 or all ones.
        Sext = "sext";
    }

    /// Integer comparison, result `B1`.
    pub enum CompareOp {
        /// Equal.
        Eq = "eq";
        /// Not equal.
        Ne = "ne";
        /// Signed less.
        Slt = "slt";
        /// Signed less or equal.
        Sle = "sle";
        /// Signed greater.
        Sgt = "sgt";
        /// Signed greater or equal.
        Sge = "sge";
        /// Unsigned less.
        Ult = "ult";
        /// Unsigned less or equal.
        Ule = "ule";
        /// Unsigned greater.
        Ugt = "ugt";
        /// Unsigned greater or equal.
        Uge = "uge";
    }

    /// Floating-point comparison, result `B1`. The plain ones are false if an operand is NaN (also
    /// `Ne`), the `U` ones true.
    pub enum FloatCompareOp {
        /// Ordered and equal.
        Eq = "feq";
        /// Ordered and not equal.
        Ne = "fne";
        /// Ordered and less.
        Lt = "flt";
        /// Ordered and less or equal.
        Le = "fle";
        /// Ordered and greater.
        Gt = "fgt";
        /// Ordered and greater or equal.
        Ge = "fge";
        /// Unordered or equal.
        Equ = "fequ";
        /// Unordered or not equal.
        Neu = "fneu";
        /// Unordered or less.
        Ltu = "fltu";
        /// Unordered or less or equal.
        Leu = "fleu";
        /// Unordered or greater.
        Gtu = "fgtu";
        /// Unordered or greater or equal.
        Geu = "fgeu";
        /// No operand is NaN.
        Num = "fnum";
        /// An operand is NaN.
        Nan = "fnan";
    }

    /// One float in, one out, of the same format.
    pub enum FloatUnaryOp {
        /// Flip the sign bit (after flushing under `.ftz`); NaN payloads stay.
        Neg = "fneg";
        /// Clear the sign bit (after flushing under `.ftz`); NaN payloads stay.
        Abs = "fabs";
        /// Clamp to [+0, 1]; NaN and -0 to +0.
        Sat = "fsat";
        /// Negative values and -0 to +0, NaN to the canonical NaN.
        Relu = "frelu";
        /// The value itself, flushed under `.ftz`.
        Copy = "fcopy";
        /// NaN to the canonical NaN, all else as it is. Arithmetic has canonical results anyway;
        /// code generators may leave that to these instructions, which the optimizer puts where the
        /// bits of a result are looked at.
        CanonicalNan = "fcanonical";
        /// Round to an integral value in the mode's direction; the sign of zero is kept.
        RoundInt = "frint";
        /// Correctly rounded square root.
        Sqrt = "fsqrt";
        /// `rcp.approx`; at F64 the `.ftz` form that keeps 20 mantissa bits.
        RcpApprox = "rcp.approx";
        /// `sqrt.approx`.
        SqrtApprox = "sqrt.approx";
        /// `rsqrt.approx`; at F64 with `.ftz` the low word of the result is zero.
        RsqrtApprox = "rsqrt.approx";
        /// `sin.approx`.
        SinApprox = "sin.approx";
        /// `cos.approx`.
        CosApprox = "cos.approx";
        /// `lg2.approx`.
        Lg2Approx = "lg2.approx";
        /// `ex2.approx`.
        Ex2Approx = "ex2.approx";
        /// `tanh.approx`.
        TanhApprox = "tanh.approx";
    }

    /// Two floats in, one out, of the same format.
    pub enum FloatBinaryOp {
        /// Sum.
        Add = "fadd";
        /// Difference.
        Sub = "fsub";
        /// Product.
        Mul = "fmul";
        /// Correctly rounded quotient.
        Div = "fdiv";
        /// `div.approx`: a * (1/b), 2 ulp, 0 for |b| > 2^126.
        DivApprox = "div.approx";
        /// `div.full`: 2 ulp over the full range.
        DivFull = "div.full";
        /// Minimum; a NaN operand gives the other one, two give the canonical NaN; -0 < +0.
        Min = "fmin";
        /// Maximum, likewise.
        Max = "fmax";
        /// Minimum; any NaN gives the canonical NaN.
        MinNan = "fmin.nan";
        /// Maximum; any NaN gives the canonical NaN.
        MaxNan = "fmax.nan";
    }

    /// Read-modify-write of one memory element, result the old value.
    pub enum AtomicOp {
        /// Store the operand.
        Exch = "exch";
        /// Store the second operand if the old value equals the first, by bits.
        Cas = "cas";
        /// Add.
        Add = "add";
        /// `old >= b ? 0 : old + 1`.
        Inc = "inc";
        /// `old == 0 || old > b ? b : old - 1`.
        Dec = "dec";
        /// Minimum, as the format says.
        Min = "min";
        /// Maximum, as the format says.
        Max = "max";
        /// Bitwise and.
        And = "and";
        /// Bitwise or.
        Or = "or";
        /// Bitwise exclusive or.
        Xor = "xor";
    }

    /// Barriers of a CTA, the one of a cluster and those of warpgroups, whose operand is always 0.
    pub enum BarrierOp {
        /// `barrier.sync`: arrive and wait.
        Sync = "sync";
        /// `barrier.arrive`: arrive only.
        Arrive = "arrive";
        /// `barrier.red.popc`: result `B32`.
        RedPopc = "red.popc";
        /// `barrier.red.and`: result `B1`.
        RedAnd = "red.and";
        /// `barrier.red.or`: result `B1`.
        RedOr = "red.or";
        /// `barrier.cluster.arrive`: arrive only.
        ClusterArrive = "cluster.arrive";
        /// `barrier.cluster.wait`: wait for the phase in which the thread has arrived.
        ClusterWait = "cluster.wait";
        /// `wgmma.wait_group`: arrive and wait for the other warps of the warpgroup. Each warp
        /// computes its part of a product by itself when it is issued, and a thread that has waited
        /// may count on the parts of all. Orders no accesses of different threads.
        Warpgroup = "warpgroup";
    }

    /// Device runtime functions that PTX calls by name.
    pub enum Builtin {
        /// `vprintf(format, args) -> b32`.
        Vprintf = "vprintf";
        /// `malloc(b64) -> b64`.
        Malloc = "malloc";
        /// `free(b64)`.
        Free = "free";
        /// `__assertfail(message, file, b32 line, function, b64 charsize)`: does not return.
        AssertFail = "__assertfail";
        /// `cudaGraphSetConditional(handle, b32 value)`: the handle is the address of the value.
        SetConditional = "cudaGraphSetConditional";
    }
}

/// Warps of a warpgroup. PTX ISA, "Warpgroup".
pub const WARPS_OF_WARPGROUP: usize = 4;

impl BarrierOp {
    /// Whether it is about the barrier of the cluster.
    pub const fn is_cluster(self) -> bool {
        matches!(self, BarrierOp::ClusterArrive | BarrierOp::ClusterWait)
    }
}

/// Operations among the lanes of a warp. The `.sync` forms carry the member mask as their last
/// operand.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum WarpOp {
    /// `shfl.up` (a, b, c): results `B32`, `B1`.
    ShflUp,
    /// `shfl.down`.
    ShflDown,
    /// `shfl.bfly`.
    ShflBfly,
    /// `shfl.idx`.
    ShflIdx,
    /// `vote.all` (p): result `B1`.
    VoteAll,
    /// `vote.any`.
    VoteAny,
    /// `vote.uni`.
    VoteUni,
    /// `vote.ballot`: result `B32`.
    Ballot,
    /// `match.any` (a of `B32` or `B64`): result `B32`.
    MatchAny,
    /// `match.all`: results `B32`, `B1`.
    MatchAll,
    /// `redux` add.
    ReduxAdd,
    /// `redux` unsigned minimum.
    ReduxUmin,
    /// `redux` unsigned maximum.
    ReduxUmax,
    /// `redux` signed minimum.
    ReduxSmin,
    /// `redux` signed maximum.
    ReduxSmax,
    /// `redux` and.
    ReduxAnd,
    /// `redux` or.
    ReduxOr,
    /// `redux` exclusive or.
    ReduxXor,
    /// `redux.min.f32`, NaNs ignored unless all are.
    ReduxFmin,
    /// `redux.max.f32`.
    ReduxFmax,
    /// `redux.min.NaN.f32`.
    ReduxFminNan,
    /// `redux.max.NaN.f32`.
    ReduxFmaxNan,
    /// `elect.sync`: results `B32` (leader), `B1`.
    Elect,
    /// `bar.warp.sync`: no result.
    Sync,
    /// The same as part of an instruction that is `.aligned`: all lanes of the warp execute this
    /// very one.
    AlignedSync,
    /// `activemask`: result `B32`; takes no member mask and never waits.
    ActiveMask,
    /// `movmatrix` (a): a tile of 8 by 8 halves, of which each lane has two neighbours in a row,
    /// transposed; result `B32`.
    Transpose,
    /// A product of matrices (registers of A, B and C): results the registers of D.
    Mma(Mma),
}

impl WarpOp {
    /// No operation has more operands, without the member mask.
    pub const MAX_ARGS: usize = 16;
    /// No operation has more results.
    pub const MAX_RESULTS: usize = 8;

    /// Whether lanes can read any lane of the warp with this last operand of `shfl.idx`, if it is
    /// known: no bits of lane numbers are a lane's own, and the greatest lane is 31. PTX ISA
    /// section 9.7.9.6.
    pub fn reads_any_lane(self, clamp: Option<u64>) -> bool {
        self == WarpOp::ShflIdx && clamp.is_some_and(|clamp| clamp & 0x1f1f == 0x1f)
    }

    /// The name that the printer writes.
    pub const fn name(self) -> &'static str {
        match self {
            WarpOp::ShflUp => "shfl.up",
            WarpOp::ShflDown => "shfl.down",
            WarpOp::ShflBfly => "shfl.bfly",
            WarpOp::ShflIdx => "shfl.idx",
            WarpOp::VoteAll => "vote.all",
            WarpOp::VoteAny => "vote.any",
            WarpOp::VoteUni => "vote.uni",
            WarpOp::Ballot => "vote.ballot",
            WarpOp::MatchAny => "match.any",
            WarpOp::MatchAll => "match.all",
            WarpOp::ReduxAdd => "redux.add",
            WarpOp::ReduxUmin => "redux.umin",
            WarpOp::ReduxUmax => "redux.umax",
            WarpOp::ReduxSmin => "redux.smin",
            WarpOp::ReduxSmax => "redux.smax",
            WarpOp::ReduxAnd => "redux.and",
            WarpOp::ReduxOr => "redux.or",
            WarpOp::ReduxXor => "redux.xor",
            WarpOp::ReduxFmin => "redux.fmin",
            WarpOp::ReduxFmax => "redux.fmax",
            WarpOp::ReduxFminNan => "redux.fmin.nan",
            WarpOp::ReduxFmaxNan => "redux.fmax.nan",
            WarpOp::Elect => "elect",
            WarpOp::Sync => "bar.warp.sync",
            WarpOp::AlignedSync => "bar.warp.sync.aligned",
            WarpOp::ActiveMask => "activemask",
            WarpOp::Transpose => "movmatrix",
            WarpOp::Mma(_) => "mma",
        }
    }

    /// Whether all lanes of a warp execute the same one together: all instructions of PTX that do
    /// this are `.aligned`.
    pub const fn is_aligned(self) -> bool {
        matches!(
            self,
            WarpOp::AlignedSync | WarpOp::Transpose | WarpOp::Mma(_)
        )
    }

    /// Number of operands without the member mask.
    pub const fn n_args(self) -> usize {
        match self {
            WarpOp::ShflUp | WarpOp::ShflDown | WarpOp::ShflBfly | WarpOp::ShflIdx => 3,
            WarpOp::Elect | WarpOp::Sync | WarpOp::AlignedSync | WarpOp::ActiveMask => 0,
            WarpOp::Mma(mma) => mma.n_args(),
            WarpOp::VoteAll
            | WarpOp::VoteAny
            | WarpOp::VoteUni
            | WarpOp::Ballot
            | WarpOp::MatchAny
            | WarpOp::MatchAll
            | WarpOp::ReduxAdd
            | WarpOp::ReduxUmin
            | WarpOp::ReduxUmax
            | WarpOp::ReduxSmin
            | WarpOp::ReduxSmax
            | WarpOp::ReduxAnd
            | WarpOp::ReduxOr
            | WarpOp::ReduxXor
            | WarpOp::ReduxFmin
            | WarpOp::ReduxFmax
            | WarpOp::ReduxFminNan
            | WarpOp::ReduxFmaxNan
            | WarpOp::Transpose => 1,
        }
    }

    /// Number of results, at least.
    pub const fn n_results(self) -> usize {
        if let WarpOp::Mma(mma) = self {
            mma.d_registers()
        } else {
            2
        }
    }
}

impl std::fmt::Display for WarpOp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())?;
        if let WarpOp::Mma(mma) = self {
            write!(f, ".{mma}")?;
        }
        Ok(())
    }
}

impl CompareOp {
    /// The comparison that gives the same with its operands exchanged.
    pub fn swapped(self) -> CompareOp {
        match self {
            CompareOp::Eq | CompareOp::Ne => self,
            CompareOp::Slt => CompareOp::Sgt,
            CompareOp::Sle => CompareOp::Sge,
            CompareOp::Sgt => CompareOp::Slt,
            CompareOp::Sge => CompareOp::Sle,
            CompareOp::Ult => CompareOp::Ugt,
            CompareOp::Ule => CompareOp::Uge,
            CompareOp::Ugt => CompareOp::Ult,
            CompareOp::Uge => CompareOp::Ule,
        }
    }

    /// The comparison that is true when this one is false.
    pub fn inverse(self) -> CompareOp {
        match self {
            CompareOp::Eq => CompareOp::Ne,
            CompareOp::Ne => CompareOp::Eq,
            CompareOp::Slt => CompareOp::Sge,
            CompareOp::Sle => CompareOp::Sgt,
            CompareOp::Sgt => CompareOp::Sle,
            CompareOp::Sge => CompareOp::Slt,
            CompareOp::Ult => CompareOp::Uge,
            CompareOp::Ule => CompareOp::Ugt,
            CompareOp::Ugt => CompareOp::Ule,
            CompareOp::Uge => CompareOp::Ult,
        }
    }
}
