//! How the printer writes formats, state spaces and special registers: as PTX does.

use std::fmt;

use crate::types::{AtomicFmt, FloatFmt, NumFmt, Round, Space, SpecialReg};

/// A special register as PTX writes it.
pub(super) struct SregName(pub(super) SpecialReg);

impl fmt::Display for SregName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.0 {
            SpecialReg::TidX => "tid.x",
            SpecialReg::TidY => "tid.y",
            SpecialReg::TidZ => "tid.z",
            SpecialReg::NtidX => "ntid.x",
            SpecialReg::NtidY => "ntid.y",
            SpecialReg::NtidZ => "ntid.z",
            SpecialReg::CtaidX => "ctaid.x",
            SpecialReg::CtaidY => "ctaid.y",
            SpecialReg::CtaidZ => "ctaid.z",
            SpecialReg::NctaidX => "nctaid.x",
            SpecialReg::NctaidY => "nctaid.y",
            SpecialReg::NctaidZ => "nctaid.z",
            SpecialReg::LaneId => "laneid",
            SpecialReg::WarpId => "warpid",
            SpecialReg::NwarpId => "nwarpid",
            SpecialReg::SmId => "smid",
            SpecialReg::NsmId => "nsmid",
            SpecialReg::GridId => "gridid",
            SpecialReg::IsExplicitCluster => "is_explicit_cluster",
            SpecialReg::ClusterIdX => "clusterid.x",
            SpecialReg::ClusterIdY => "clusterid.y",
            SpecialReg::ClusterIdZ => "clusterid.z",
            SpecialReg::NclusterIdX => "nclusterid.x",
            SpecialReg::NclusterIdY => "nclusterid.y",
            SpecialReg::NclusterIdZ => "nclusterid.z",
            SpecialReg::ClusterCtaIdX => "cluster_ctaid.x",
            SpecialReg::ClusterCtaIdY => "cluster_ctaid.y",
            SpecialReg::ClusterCtaIdZ => "cluster_ctaid.z",
            SpecialReg::ClusterNctaIdX => "cluster_nctaid.x",
            SpecialReg::ClusterNctaIdY => "cluster_nctaid.y",
            SpecialReg::ClusterNctaIdZ => "cluster_nctaid.z",
            SpecialReg::ClusterCtaRank => "cluster_ctarank",
            SpecialReg::ClusterNctaRank => "cluster_nctarank",
            SpecialReg::LanemaskEq => "lanemask_eq",
            SpecialReg::LanemaskLe => "lanemask_le",
            SpecialReg::LanemaskLt => "lanemask_lt",
            SpecialReg::LanemaskGe => "lanemask_ge",
            SpecialReg::LanemaskGt => "lanemask_gt",
            SpecialReg::Clock => "clock",
            SpecialReg::ClockHi => "clock_hi",
            SpecialReg::Clock64 => "clock64",
            SpecialReg::Pm(i) => return write!(f, "%pm{i}"),
            SpecialReg::Envreg(i) => return write!(f, "%envreg{i}"),
            SpecialReg::GlobalTimer => "globaltimer",
            SpecialReg::GlobalTimerLo => "globaltimer_lo",
            SpecialReg::GlobalTimerHi => "globaltimer_hi",
            SpecialReg::TotalSmemSize => "total_smem_size",
            SpecialReg::AggrSmemSize => "aggr_smem_size",
            SpecialReg::DynamicSmemSize => "dynamic_smem_size",
            SpecialReg::CurrentGraphExec => "current_graph_exec",
        };
        write!(f, "%{name}")
    }
}

pub(super) fn round(round: Round) -> &'static str {
    match round {
        Round::Rn => "rn",
        Round::Rna => "rna",
        Round::Rz => "rz",
        Round::Rm => "rm",
        Round::Rp => "rp",
    }
}

pub(super) fn space(space: Space) -> &'static str {
    match space {
        Space::Generic => "generic",
        Space::Global => "global",
        Space::Shared => "shared",
        Space::SharedCluster => "shared_cluster",
        Space::Local => "local",
        Space::Const => "const",
        Space::Param => "param",
    }
}

pub(super) fn float_fmt(fmt: FloatFmt) -> &'static str {
    num_fmt(fmt.num())
}

pub(super) fn num_fmt(fmt: NumFmt) -> &'static str {
    match fmt {
        NumFmt::U8 => "u8",
        NumFmt::U16 => "u16",
        NumFmt::U32 => "u32",
        NumFmt::U64 => "u64",
        NumFmt::S8 => "s8",
        NumFmt::S16 => "s16",
        NumFmt::S32 => "s32",
        NumFmt::S64 => "s64",
        NumFmt::F16 => "f16",
        NumFmt::Bf16 => "bf16",
        NumFmt::F32 => "f32",
        NumFmt::F64 => "f64",
        NumFmt::Tf32 => "tf32",
        NumFmt::E4m3 => "e4m3",
        NumFmt::E5m2 => "e5m2",
        NumFmt::E2m3 => "e2m3",
        NumFmt::E3m2 => "e3m2",
        NumFmt::E2m1 => "e2m1",
        NumFmt::Ue8m0 => "ue8m0",
    }
}

pub(super) fn atomic_fmt(fmt: AtomicFmt) -> &'static str {
    match fmt {
        AtomicFmt::B16 => "b16",
        AtomicFmt::B32 => "b32",
        AtomicFmt::B64 => "b64",
        AtomicFmt::U32 => "u32",
        AtomicFmt::S32 => "s32",
        AtomicFmt::U64 => "u64",
        AtomicFmt::S64 => "s64",
        AtomicFmt::F16 => "f16",
        AtomicFmt::F16x2 => "f16x2",
        AtomicFmt::Bf16 => "bf16",
        AtomicFmt::Bf16x2 => "bf16x2",
        AtomicFmt::F32 => "f32",
        AtomicFmt::F64 => "f64",
    }
}
