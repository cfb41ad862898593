//! The special registers of PTX.

use std::sync::LazyLock;

use ptxjit_ir::SpecialReg;
use rustc_hash::FxHashMap;

use super::types::PtxType;

/// A special register.
#[derive(Copy, Clone, Debug)]
pub struct Sreg {
    /// With its `%`.
    pub name: &'static str,
    /// Type, of one element for the vectors.
    pub ty: PtxType,
    /// One register, or the `x`, `y` and `z` of a vector (whose `w` reads zero); none if it tells
    /// of reserved shared memory.
    pub regs: &'static [SpecialReg],
    /// What it tells of reserved shared memory.
    pub reserved: Option<Reserved>,
    /// Least PTX version.
    pub ptx: (u32, u32),
    /// Least target.
    pub sm: u32,
}

/// Shared memory that each CTA of a kernel has for system software, which reads where it lies:
/// cooperative groups of several warps synchronize there. They expect 288 bytes behind
/// `%reserved_smem_offset_1`.
pub const RESERVED_SHARED_BYTES: u32 = 1024;

/// What a register tells of reserved shared memory.
#[derive(Copy, Clone, Debug)]
pub enum Reserved {
    /// The address of a byte of it, or of its end.
    At(u32),
    /// Its size.
    Size,
}

/// The special register that `name` stands for, where no declaration hides it.
pub fn find(name: &str) -> Option<&'static Sreg> {
    static NAMES: LazyLock<FxHashMap<&str, &Sreg>> =
        LazyLock::new(|| TABLE.iter().map(|sreg| (sreg.name, sreg)).collect());
    if !name.starts_with('%') {
        return None;
    }
    NAMES.get(name).copied()
}

const fn row(
    name: &'static str,
    ty: PtxType,
    regs: &'static [SpecialReg],
    ptx: (u32, u32),
    sm: u32,
) -> Sreg {
    Sreg {
        name,
        ty,
        regs,
        reserved: None,
        ptx,
        sm,
    }
}

const fn reserved(name: &'static str, reserved: Reserved) -> Sreg {
    Sreg {
        reserved: Some(reserved),
        ..row(name, PtxType::B32, &[], (7, 6), 80)
    }
}

/// All special registers. `%pmN` are undefined but must be readable.
pub const TABLE: &[Sreg] = &[
    row(
        "%tid",
        PtxType::U32,
        &[SpecialReg::TidX, SpecialReg::TidY, SpecialReg::TidZ],
        (1, 0),
        0,
    ),
    row(
        "%ntid",
        PtxType::U32,
        &[SpecialReg::NtidX, SpecialReg::NtidY, SpecialReg::NtidZ],
        (1, 0),
        0,
    ),
    row(
        "%ctaid",
        PtxType::U32,
        &[SpecialReg::CtaidX, SpecialReg::CtaidY, SpecialReg::CtaidZ],
        (1, 0),
        0,
    ),
    row(
        "%nctaid",
        PtxType::U32,
        &[
            SpecialReg::NctaidX,
            SpecialReg::NctaidY,
            SpecialReg::NctaidZ,
        ],
        (1, 0),
        0,
    ),
    row("%laneid", PtxType::U32, &[SpecialReg::LaneId], (1, 3), 0),
    row("%warpid", PtxType::U32, &[SpecialReg::WarpId], (1, 3), 0),
    row("%nwarpid", PtxType::U32, &[SpecialReg::NwarpId], (2, 0), 20),
    row("%smid", PtxType::U32, &[SpecialReg::SmId], (1, 3), 0),
    row("%nsmid", PtxType::U32, &[SpecialReg::NsmId], (2, 0), 20),
    row("%gridid", PtxType::U64, &[SpecialReg::GridId], (1, 0), 0),
    row(
        "%is_explicit_cluster",
        PtxType::Pred,
        &[SpecialReg::IsExplicitCluster],
        (7, 8),
        90,
    ),
    row(
        "%clusterid",
        PtxType::U32,
        &[
            SpecialReg::ClusterIdX,
            SpecialReg::ClusterIdY,
            SpecialReg::ClusterIdZ,
        ],
        (7, 8),
        90,
    ),
    row(
        "%nclusterid",
        PtxType::U32,
        &[
            SpecialReg::NclusterIdX,
            SpecialReg::NclusterIdY,
            SpecialReg::NclusterIdZ,
        ],
        (7, 8),
        90,
    ),
    row(
        "%cluster_ctaid",
        PtxType::U32,
        &[
            SpecialReg::ClusterCtaIdX,
            SpecialReg::ClusterCtaIdY,
            SpecialReg::ClusterCtaIdZ,
        ],
        (7, 8),
        90,
    ),
    row(
        "%cluster_nctaid",
        PtxType::U32,
        &[
            SpecialReg::ClusterNctaIdX,
            SpecialReg::ClusterNctaIdY,
            SpecialReg::ClusterNctaIdZ,
        ],
        (7, 8),
        90,
    ),
    row(
        "%cluster_ctarank",
        PtxType::U32,
        &[SpecialReg::ClusterCtaRank],
        (7, 8),
        90,
    ),
    row(
        "%cluster_nctarank",
        PtxType::U32,
        &[SpecialReg::ClusterNctaRank],
        (7, 8),
        90,
    ),
    row(
        "%lanemask_eq",
        PtxType::U32,
        &[SpecialReg::LanemaskEq],
        (2, 0),
        20,
    ),
    row(
        "%lanemask_le",
        PtxType::U32,
        &[SpecialReg::LanemaskLe],
        (2, 0),
        20,
    ),
    row(
        "%lanemask_lt",
        PtxType::U32,
        &[SpecialReg::LanemaskLt],
        (2, 0),
        20,
    ),
    row(
        "%lanemask_ge",
        PtxType::U32,
        &[SpecialReg::LanemaskGe],
        (2, 0),
        20,
    ),
    row(
        "%lanemask_gt",
        PtxType::U32,
        &[SpecialReg::LanemaskGt],
        (2, 0),
        20,
    ),
    row("%clock", PtxType::U32, &[SpecialReg::Clock], (1, 0), 0),
    row(
        "%clock_hi",
        PtxType::U32,
        &[SpecialReg::ClockHi],
        (5, 0),
        20,
    ),
    row("%clock64", PtxType::U64, &[SpecialReg::Clock64], (2, 0), 20),
    row(
        "%globaltimer",
        PtxType::U64,
        &[SpecialReg::GlobalTimer],
        (3, 1),
        30,
    ),
    row(
        "%globaltimer_lo",
        PtxType::U32,
        &[SpecialReg::GlobalTimerLo],
        (3, 1),
        30,
    ),
    row(
        "%globaltimer_hi",
        PtxType::U32,
        &[SpecialReg::GlobalTimerHi],
        (3, 1),
        30,
    ),
    reserved("%reserved_smem_offset_begin", Reserved::At(0)),
    reserved(
        "%reserved_smem_offset_end",
        Reserved::At(RESERVED_SHARED_BYTES),
    ),
    reserved("%reserved_smem_offset_cap", Reserved::Size),
    reserved("%reserved_smem_offset_0", Reserved::At(0)),
    reserved(
        "%reserved_smem_offset_1",
        Reserved::At(RESERVED_SHARED_BYTES / 2),
    ),
    row(
        "%total_smem_size",
        PtxType::U32,
        &[SpecialReg::TotalSmemSize],
        (4, 1),
        20,
    ),
    row(
        "%aggr_smem_size",
        PtxType::U32,
        &[SpecialReg::AggrSmemSize],
        (8, 1),
        90,
    ),
    row(
        "%dynamic_smem_size",
        PtxType::U32,
        &[SpecialReg::DynamicSmemSize],
        (4, 1),
        20,
    ),
    row(
        "%current_graph_exec",
        PtxType::U64,
        &[SpecialReg::CurrentGraphExec],
        (8, 0),
        50,
    ),
    row("%pm0", PtxType::U32, &[SpecialReg::Pm(0)], (1, 3), 0),
    row("%pm1", PtxType::U32, &[SpecialReg::Pm(1)], (1, 3), 0),
    row("%pm2", PtxType::U32, &[SpecialReg::Pm(2)], (1, 3), 0),
    row("%pm3", PtxType::U32, &[SpecialReg::Pm(3)], (1, 3), 0),
    row("%pm4", PtxType::U32, &[SpecialReg::Pm(4)], (3, 0), 20),
    row("%pm5", PtxType::U32, &[SpecialReg::Pm(5)], (3, 0), 20),
    row("%pm6", PtxType::U32, &[SpecialReg::Pm(6)], (3, 0), 20),
    row("%pm7", PtxType::U32, &[SpecialReg::Pm(7)], (3, 0), 20),
    row("%pm0_64", PtxType::U64, &[SpecialReg::Pm(0)], (4, 0), 50),
    row("%pm1_64", PtxType::U64, &[SpecialReg::Pm(1)], (4, 0), 50),
    row("%pm2_64", PtxType::U64, &[SpecialReg::Pm(2)], (4, 0), 50),
    row("%pm3_64", PtxType::U64, &[SpecialReg::Pm(3)], (4, 0), 50),
    row("%pm4_64", PtxType::U64, &[SpecialReg::Pm(4)], (4, 0), 50),
    row("%pm5_64", PtxType::U64, &[SpecialReg::Pm(5)], (4, 0), 50),
    row("%pm6_64", PtxType::U64, &[SpecialReg::Pm(6)], (4, 0), 50),
    row("%pm7_64", PtxType::U64, &[SpecialReg::Pm(7)], (4, 0), 50),
    row(
        "%envreg0",
        PtxType::B32,
        &[SpecialReg::Envreg(0)],
        (2, 1),
        0,
    ),
    row(
        "%envreg1",
        PtxType::B32,
        &[SpecialReg::Envreg(1)],
        (2, 1),
        0,
    ),
    row(
        "%envreg2",
        PtxType::B32,
        &[SpecialReg::Envreg(2)],
        (2, 1),
        0,
    ),
    row(
        "%envreg3",
        PtxType::B32,
        &[SpecialReg::Envreg(3)],
        (2, 1),
        0,
    ),
    row(
        "%envreg4",
        PtxType::B32,
        &[SpecialReg::Envreg(4)],
        (2, 1),
        0,
    ),
    row(
        "%envreg5",
        PtxType::B32,
        &[SpecialReg::Envreg(5)],
        (2, 1),
        0,
    ),
    row(
        "%envreg6",
        PtxType::B32,
        &[SpecialReg::Envreg(6)],
        (2, 1),
        0,
    ),
    row(
        "%envreg7",
        PtxType::B32,
        &[SpecialReg::Envreg(7)],
        (2, 1),
        0,
    ),
    row(
        "%envreg8",
        PtxType::B32,
        &[SpecialReg::Envreg(8)],
        (2, 1),
        0,
    ),
    row(
        "%envreg9",
        PtxType::B32,
        &[SpecialReg::Envreg(9)],
        (2, 1),
        0,
    ),
    row(
        "%envreg10",
        PtxType::B32,
        &[SpecialReg::Envreg(10)],
        (2, 1),
        0,
    ),
    row(
        "%envreg11",
        PtxType::B32,
        &[SpecialReg::Envreg(11)],
        (2, 1),
        0,
    ),
    row(
        "%envreg12",
        PtxType::B32,
        &[SpecialReg::Envreg(12)],
        (2, 1),
        0,
    ),
    row(
        "%envreg13",
        PtxType::B32,
        &[SpecialReg::Envreg(13)],
        (2, 1),
        0,
    ),
    row(
        "%envreg14",
        PtxType::B32,
        &[SpecialReg::Envreg(14)],
        (2, 1),
        0,
    ),
    row(
        "%envreg15",
        PtxType::B32,
        &[SpecialReg::Envreg(15)],
        (2, 1),
        0,
    ),
    row(
        "%envreg16",
        PtxType::B32,
        &[SpecialReg::Envreg(16)],
        (2, 1),
        0,
    ),
    row(
        "%envreg17",
        PtxType::B32,
        &[SpecialReg::Envreg(17)],
        (2, 1),
        0,
    ),
    row(
        "%envreg18",
        PtxType::B32,
        &[SpecialReg::Envreg(18)],
        (2, 1),
        0,
    ),
    row(
        "%envreg19",
        PtxType::B32,
        &[SpecialReg::Envreg(19)],
        (2, 1),
        0,
    ),
    row(
        "%envreg20",
        PtxType::B32,
        &[SpecialReg::Envreg(20)],
        (2, 1),
        0,
    ),
    row(
        "%envreg21",
        PtxType::B32,
        &[SpecialReg::Envreg(21)],
        (2, 1),
        0,
    ),
    row(
        "%envreg22",
        PtxType::B32,
        &[SpecialReg::Envreg(22)],
        (2, 1),
        0,
    ),
    row(
        "%envreg23",
        PtxType::B32,
        &[SpecialReg::Envreg(23)],
        (2, 1),
        0,
    ),
    row(
        "%envreg24",
        PtxType::B32,
        &[SpecialReg::Envreg(24)],
        (2, 1),
        0,
    ),
    row(
        "%envreg25",
        PtxType::B32,
        &[SpecialReg::Envreg(25)],
        (2, 1),
        0,
    ),
    row(
        "%envreg26",
        PtxType::B32,
        &[SpecialReg::Envreg(26)],
        (2, 1),
        0,
    ),
    row(
        "%envreg27",
        PtxType::B32,
        &[SpecialReg::Envreg(27)],
        (2, 1),
        0,
    ),
    row(
        "%envreg28",
        PtxType::B32,
        &[SpecialReg::Envreg(28)],
        (2, 1),
        0,
    ),
    row(
        "%envreg29",
        PtxType::B32,
        &[SpecialReg::Envreg(29)],
        (2, 1),
        0,
    ),
    row(
        "%envreg30",
        PtxType::B32,
        &[SpecialReg::Envreg(30)],
        (2, 1),
        0,
    ),
    row(
        "%envreg31",
        PtxType::B32,
        &[SpecialReg::Envreg(31)],
        (2, 1),
        0,
    ),
];
