//! Bulk copies, tensor copies, tensor maps and cluster launch control. PTX ISA, "Data Movement and
//! Conversion Instructions: cp.async.bulk" and following.

use crate::ast::{Operand, OperandKind};
use crate::diag::Diagnostic;
use crate::translate::{Inst, Translator};

use super::bulk_copy::{self, copy};
use super::cluster;
use super::desc::{A, ADDR, ANY, D, DP, Elems, Gate, InstDesc, Opd, imm, inst, since};
use super::memory::POLICY;
use super::misc::mark;
use super::modifiers::Mod;
use super::operands::check_src_operand;
use super::tensor;
use super::types::PtxType as T;

const HINT: &[Mod] = &[Mod::L2CacheHint];
const MULTICAST: &[Mod] = &[Mod::MulticastCluster];
const SIZE: Opd = A.is(T::U32);
const CTA_MASK: Opd = A.is(T::B16).when(Mod::MulticastCluster);
const BYTE_MASK: Opd = A.is(T::B16).when(Mod::CpMask);
const LOGIC: &[&[Mod]] = &[&[Mod::And, Mod::Or, Mod::Xor]];
const ADD: &[&[Mod]] = &[&[Mod::Add]];
const MIN_MAX: &[&[Mod]] = &[&[Mod::Min, Mod::Max]];
const INC_DEC: &[&[Mod]] = &[&[Mod::Inc, Mod::Dec]];

const BULK: &[Gate] = &[since(8, 0, 90)];
/// Architectures of the `sm_100` family and their like.
const BLACKWELL: &[&str] = &[
    "100a", "100f", "101a", "101f", "103a", "103f", "110a", "110f",
];
const TENSOR: &[Gate] = &[
    since(8, 0, 90),
    since(8, 6, 100)
        .mods(&[Mod::TileGather4, Mod::TileScatter4])
        .only(BLACKWELL),
    since(8, 6, 100)
        .mods(&[Mod::Im2colW, Mod::Im2colW128])
        .only(BLACKWELL),
    since(8, 6, 100)
        .mods(&[Mod::CtaGroup1, Mod::CtaGroup2])
        .only(BLACKWELL),
];
const TENSOR_CTA: &[Gate] = &[
    since(8, 6, 90),
    since(8, 6, 100).mods(&[Mod::TileGather4, Mod::Im2colW]),
    since(8, 6, 100).mods(&[Mod::Im2colW128]).only(BLACKWELL),
    since(8, 6, 100)
        .mods(&[Mod::CtaGroup1, Mod::CtaGroup2])
        .only(BLACKWELL),
];
const DIM: &[Mod] = &[Mod::N1d, Mod::N2d, Mod::N3d, Mod::N4d, Mod::N5d];
const LOAD_MODE: &[Mod] = &[
    Mod::Tile,
    Mod::TileGather4,
    Mod::Im2col,
    Mod::Im2colW,
    Mod::Im2colW128,
];
const STORE_MODE: &[Mod] = &[Mod::Tile, Mod::TileScatter4, Mod::Im2colNoOffs];
const CTA_GROUP: &[Mod] = &[Mod::CtaGroup1, Mod::CtaGroup2];

const fn bulk(operands: &'static [Opd]) -> InstDesc {
    inst("cp", operands, copy).effect()
}

const fn reduce(operands: &'static [Opd], required: &'static [Mod]) -> InstDesc {
    inst("cp", operands, bulk_copy::reduce)
        .effect()
        .with(required)
        .gates(BULK)
        .check(check_size)
}

const REDUCE_SHARED: &[Mod] = &[
    Mod::Reduce,
    Mod::Async,
    Mod::Bulk,
    Mod::SharedCluster,
    Mod::SharedCta,
    Mod::MbarrierCompleteTxBytes,
];
const REDUCE_GLOBAL: &[Mod] = &[
    Mod::Reduce,
    Mod::Async,
    Mod::Bulk,
    Mod::Global,
    Mod::SharedCta,
    Mod::BulkGroup,
];
const TO_SHARED: &[Opd] = &[ADDR, ADDR, SIZE, ADDR];
const TO_GLOBAL: &[Opd] = &[ADDR, ADDR, SIZE, POLICY];

pub const TABLE: &[InstDesc] = &[
    bulk(&[ADDR, ADDR, SIZE, ADDR, POLICY])
        .with(&[
            Mod::Async,
            Mod::Bulk,
            Mod::SharedCta,
            Mod::Global,
            Mod::MbarrierCompleteTxBytes,
        ])
        .optional(&[HINT])
        .check(check_size)
        .gates(&[since(8, 6, 90)]),
    bulk(&[ADDR, ADDR, SIZE, ADDR, CTA_MASK, POLICY])
        .with(&[
            Mod::Async,
            Mod::Bulk,
            Mod::SharedCluster,
            Mod::Global,
            Mod::MbarrierCompleteTxBytes,
        ])
        .optional(&[MULTICAST, HINT])
        .check(check_size)
        .gates(BULK),
    bulk(TO_SHARED)
        .with(&[
            Mod::Async,
            Mod::Bulk,
            Mod::SharedCluster,
            Mod::SharedCta,
            Mod::MbarrierCompleteTxBytes,
        ])
        .check(check_size)
        .gates(BULK),
    bulk(&[ADDR, ADDR, SIZE, POLICY, BYTE_MASK])
        .with(&[
            Mod::Async,
            Mod::Bulk,
            Mod::Global,
            Mod::SharedCta,
            Mod::BulkGroup,
        ])
        .optional(&[HINT, &[Mod::CpMask]])
        .check(check_size)
        .gates(&[since(8, 0, 90), since(8, 6, 100).mods(&[Mod::CpMask])]),
    reduce(TO_SHARED, REDUCE_SHARED)
        .choose(LOGIC)
        .types(&[&[T::B32]]),
    reduce(TO_SHARED, REDUCE_SHARED)
        .choose(ADD)
        .types(&[&[T::U32, T::S32, T::U64]]),
    reduce(TO_SHARED, REDUCE_SHARED)
        .choose(MIN_MAX)
        .types(&[&[T::U32, T::S32]]),
    reduce(TO_SHARED, REDUCE_SHARED)
        .choose(INC_DEC)
        .types(&[&[T::U32]]),
    reduce(TO_GLOBAL, REDUCE_GLOBAL)
        .choose(LOGIC)
        .types(&[&[T::B32, T::B64]])
        .optional(&[HINT]),
    reduce(TO_GLOBAL, REDUCE_GLOBAL)
        .choose(ADD)
        .types(&[&[T::U32, T::S32, T::U64, T::F32, T::F64]])
        .optional(&[HINT]),
    reduce(TO_GLOBAL, REDUCE_GLOBAL)
        .choose(&[&[Mod::Add], &[Mod::Noftz]])
        .types(&[&[T::F16, T::Bf16]])
        .optional(&[HINT]),
    reduce(TO_GLOBAL, REDUCE_GLOBAL)
        .choose(MIN_MAX)
        .types(&[&[T::U32, T::S32, T::U64, T::S64, T::F16, T::Bf16]])
        .optional(&[HINT]),
    reduce(TO_GLOBAL, REDUCE_GLOBAL)
        .choose(INC_DEC)
        .types(&[&[T::U32]])
        .optional(&[HINT]),
    inst("cp", &[ADDR, SIZE, POLICY], mark)
        .effect()
        .with(&[Mod::Async, Mod::Bulk, Mod::Prefetch, Mod::L2, Mod::Global])
        .optional(&[HINT])
        .check(check_size)
        .gates(BULK),
    inst(
        "cp",
        &[ADDR, ANY, ADDR, ANY.opt(), CTA_MASK, POLICY],
        tensor::load,
    )
    .effect()
    .with(&[
        Mod::Async,
        Mod::Bulk,
        Mod::Tensor,
        Mod::SharedCluster,
        Mod::Global,
        Mod::MbarrierCompleteTxBytes,
    ])
    .choose(&[DIM])
    .optional(&[LOAD_MODE, MULTICAST, CTA_GROUP, HINT])
    .gates(TENSOR)
    .check(check_tensor_load),
    inst("cp", &[ADDR, ANY, ADDR, ANY.opt(), POLICY], tensor::load)
        .effect()
        .with(&[
            Mod::Async,
            Mod::Bulk,
            Mod::Tensor,
            Mod::SharedCta,
            Mod::Global,
            Mod::MbarrierCompleteTxBytes,
        ])
        .choose(&[DIM])
        .optional(&[LOAD_MODE, CTA_GROUP, HINT])
        .gates(TENSOR_CTA)
        .check(check_tensor_load),
    inst("cp", &[ANY, ADDR, POLICY], tensor::store)
        .effect()
        .with(&[
            Mod::Async,
            Mod::Bulk,
            Mod::Tensor,
            Mod::Global,
            Mod::SharedCta,
            Mod::BulkGroup,
        ])
        .choose(&[DIM])
        .optional(&[STORE_MODE, HINT])
        .gates(TENSOR)
        .check(check_tensor_store),
    inst("cp", &[ANY, ADDR, POLICY], tensor::store)
        .effect()
        .with(&[
            Mod::Reduce,
            Mod::Async,
            Mod::Bulk,
            Mod::Tensor,
            Mod::Global,
            Mod::SharedCta,
            Mod::BulkGroup,
        ])
        .choose(&[
            DIM,
            &[
                Mod::Add,
                Mod::Min,
                Mod::Max,
                Mod::Inc,
                Mod::Dec,
                Mod::And,
                Mod::Or,
                Mod::Xor,
            ],
        ])
        .optional(&[&[Mod::Tile, Mod::Im2colNoOffs], HINT])
        .gates(TENSOR)
        .check(check_tensor_store),
    inst("cp", &[ANY, ANY.opt(), POLICY], mark)
        .effect()
        .with(&[
            Mod::Async,
            Mod::Bulk,
            Mod::Prefetch,
            Mod::Tensor,
            Mod::L2,
            Mod::Global,
        ])
        .choose(&[DIM])
        .optional(&[LOAD_MODE, HINT])
        .gates(TENSOR)
        .check(check_tensor_prefetch),
    inst("cp", &[], bulk_copy::groups)
        .effect()
        .with(&[Mod::Async, Mod::Bulk, Mod::CommitGroup])
        .gates(BULK),
    inst("cp", &[imm(0, i64::MAX)], bulk_copy::groups)
        .effect()
        .with(&[Mod::Async, Mod::Bulk, Mod::WaitGroup])
        .optional(&[&[Mod::Read]])
        .gates(BULK),
    map_field(&[ADDR, A])
        .with(&[Mod::Replace, Mod::B1024, Mod::Tile, Mod::GlobalAddress])
        .types(&[&[T::B64]])
        .gates(MAP),
    map_field(&[ADDR, A])
        .with(&[Mod::Replace, Mod::B1024, Mod::Tile, Mod::Rank])
        .types(&[&[T::B32]])
        .gates(MAP),
    map_field(&[ADDR, imm(0, 4), A])
        .with(&[Mod::Replace, Mod::B1024, Mod::Tile])
        .choose(&[&[Mod::BoxDim, Mod::GlobalDim, Mod::ElementStride]])
        .types(&[&[T::B32]])
        .gates(MAP),
    map_field(&[ADDR, imm(0, 4), A])
        .with(&[Mod::Replace, Mod::B1024, Mod::Tile, Mod::GlobalStride])
        .types(&[&[T::B64]])
        .gates(MAP),
    map_field(&[ADDR, imm(0, 15)])
        .with(&[Mod::Replace, Mod::B1024, Mod::Tile, Mod::Elemtype])
        .types(&[&[T::B32]])
        .gates(MAP),
    map_field(&[ADDR, imm(0, 2)])
        .with(&[Mod::Replace, Mod::B1024, Mod::Tile, Mod::InterleaveLayout])
        .types(&[&[T::B32]])
        .gates(MAP),
    map_field(&[ADDR, imm(0, 4)])
        .with(&[Mod::Replace, Mod::B1024, Mod::Tile, Mod::SwizzleMode])
        .types(&[&[T::B32]])
        .gates(MAP),
    map_field(&[ADDR, imm(0, 3)])
        .with(&[Mod::Replace, Mod::B1024, Mod::Tile, Mod::SwizzleAtomicity])
        .types(&[&[T::B32]])
        .gates(MAP_ATOMICITY),
    map_field(&[ADDR, imm(0, 1)])
        .with(&[Mod::Replace, Mod::B1024, Mod::Tile, Mod::FillMode])
        .types(&[&[T::B32]])
        .gates(MAP),
    inst("tensormap", &[ADDR, ADDR, imm(128, 128)], tensor::publish)
        .effect()
        .with(&[
            Mod::CpFenceproxy,
            Mod::Global,
            Mod::SharedCta,
            Mod::TensormapGeneric,
            Mod::Release,
            Mod::Sync,
            Mod::Aligned,
        ])
        .choose(&[&[Mod::Cta, Mod::Cluster, Mod::Gpu, Mod::Sys]])
        .gates(&[since(8, 3, 90)]),
    inst("clusterlaunchcontrol", &[ADDR, ADDR], cluster::try_cancel)
        .effect()
        .with(&[Mod::TryCancel, Mod::Async, Mod::MbarrierCompleteTxBytes])
        .types(&[&[T::B128]])
        .optional(&[&[Mod::SharedCta], &[Mod::MulticastClusterAll]])
        .gates(&[
            since(8, 6, 100),
            since(8, 6, 100).mods(&[Mod::MulticastClusterAll]).only(&[
                "100a", "100f", "101a", "101f", "103a", "103f", "110a", "110f", "120a", "120f",
            ]),
        ]),
    inst(
        "clusterlaunchcontrol",
        &[DP, A.nth(1)],
        cluster::is_canceled,
    )
    .with(&[Mod::QueryCancel, Mod::IsCanceled])
    .types(&[&[T::Pred], &[T::B128]])
    .gates(&[since(8, 6, 100)]),
    inst(
        "clusterlaunchcontrol",
        &[D.vec(Elems::Of(4)), A.nth(1)],
        cluster::first_ctaid,
    )
    .with(&[Mod::QueryCancel, Mod::GetFirstCtaid, Mod::V4])
    .types(&[&[T::B32], &[T::B128]])
    .gates(&[since(8, 6, 100)]),
    inst("clusterlaunchcontrol", &[D, A.nth(1)], cluster::first_ctaid)
        .with(&[Mod::QueryCancel])
        .choose(&[&[
            Mod::GetFirstCtaidX,
            Mod::GetFirstCtaidY,
            Mod::GetFirstCtaidZ,
        ]])
        .types(&[&[T::B32], &[T::B128]])
        .gates(&[since(8, 6, 100)]),
];

const MAP_SPACE: &[&[Mod]] = &[&[Mod::Global, Mod::SharedCta]];
const MAP_ARCHS: &[&str] = &[
    "90a", "100a", "100f", "101a", "101f", "103a", "103f", "110a", "110f", "120a", "120f", "121a",
    "121f",
];
const MAP: &[Gate] = &[since(8, 3, 90).only(MAP_ARCHS)];
const MAP_ATOMICITY: &[Gate] = &[since(8, 6, 100).only(&[
    "100a", "100f", "101a", "101f", "103a", "103f", "110a", "110f", "120a", "120f", "121a", "121f",
])];

const fn map_field(operands: &'static [Opd]) -> InstDesc {
    inst("tensormap", operands, tensor::replace)
        .effect()
        .optional(MAP_SPACE)
}

/// Of the tensor.
pub(super) fn dimensions(inst: &Inst<'_>) -> usize {
    DIM.iter()
        .position(|&m| inst.has(m))
        .map_or(1, |idx| idx + 1)
}

fn is_im2col(inst: &Inst<'_>) -> bool {
    inst.pick(&[
        Mod::Im2col,
        Mod::Im2colW,
        Mod::Im2colW128,
        Mod::Im2colNoOffs,
    ])
    .is_some()
}

/// `[tensorMap, {coordinates}]`, with as many coordinates as dimensions (five for gather and
/// scatter).
fn check_tensor<'m>(t: &mut Translator<'m>, inst: &Inst<'m>, n: usize) -> Result<(), Diagnostic> {
    let Some(operand) = inst.operand(n) else {
        return Ok(());
    };
    let dim = dimensions(inst);
    let is_gather = inst.pick(&[Mod::TileGather4, Mod::TileScatter4]);
    if let Some(m) = is_gather.filter(|_| dim != 2) {
        return Err(inst.error(format!("`.{}` needs `.2d`", m.name())));
    }
    if is_im2col(inst) && dim < 3 {
        return Err(inst.error("im2col modes need at least `.3d`"));
    }
    let parts = match &operand.kind {
        OperandKind::Tuple(parts) => &parts[..],
        _ => return Err(inst.operand_error(n, "`[tensor map, {coordinates}]` is expected here")),
    };
    let [map, coordinates] = parts else {
        return Err(inst.operand_error(n, "`[tensor map, {coordinates}]` is expected here"));
    };
    t.check_address_part(map)?;
    let expected = if is_gather.is_some() { 5 } else { dim };
    check_list(t, inst, coordinates, expected, T::S32, "coordinates")
}

/// A constant number of bytes is a multiple of 16.
fn check_size<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    const MOST: i64 = (1 << 20) - 16;
    let n = 1 + usize::from(!inst.has(Mod::Prefetch));
    if !matches!(
        inst.operand(n).map(|operand| &operand.kind),
        Some(OperandKind::Constant(_))
    ) {
        return Ok(());
    }
    let size = t.src_const(inst, n)?;
    if (0..=MOST).contains(&size) && size % 16 == 0 {
        return Ok(());
    }
    Err(inst.operand_error(
        n,
        format!("a bulk copy has a multiple of 16 bytes, at most {MOST}, not {size}"),
    ))
}

/// A brace list of `expected` sources; one may stand without braces.
fn check_list<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    operand: &'m Operand,
    expected: usize,
    ty: T,
    what: &str,
) -> Result<(), Diagnostic> {
    let elems = match &operand.kind {
        OperandKind::Vector(elems) => &elems[..],
        _ => std::slice::from_ref(operand),
    };
    if elems.len() != expected {
        let message = format!(
            "`{}` takes {expected} {what} here, not {}",
            inst.name,
            elems.len()
        );
        return Err(Diagnostic::error(message).label(operand.span, ""));
    }
    elems
        .iter()
        .try_for_each(|elem| check_src_operand(t, inst, elem, &A, ty))
}

/// Offsets of im2col modes: one for each spatial dimension, or two for the `w` modes.
fn check_offsets<'m>(t: &mut Translator<'m>, inst: &Inst<'m>, n: usize) -> Result<(), Diagnostic> {
    let has_offsets = inst.has_optional();
    match (is_im2col(inst), has_offsets, inst.operand(n)) {
        (true, true, Some(operand)) if matches!(operand.kind, OperandKind::Constant(_)) => {
            Err(Diagnostic::error("the offsets stand in braces").label(operand.span, ""))
        }
        (true, true, Some(operand)) => {
            let is_w = inst.pick(&[Mod::Im2colW, Mod::Im2colW128]).is_some();
            let expected = if is_w { 2 } else { dimensions(inst) - 2 };
            check_list(t, inst, operand, expected, T::U16, "offsets")
        }
        (true, ..) => Err(inst.error("im2col modes need offsets")),
        (false, true, Some(operand)) => {
            Err(Diagnostic::error("offsets belong to im2col modes").label(operand.span, ""))
        }
        (false, ..) => Ok(()),
    }
}

fn check_tensor_load<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    check_tensor(t, inst, 1)?;
    check_offsets(t, inst, 3)
}

fn check_tensor_store<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    check_tensor(t, inst, 0)
}

fn check_tensor_prefetch<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    check_tensor(t, inst, 0)?;
    check_offsets(t, inst, 1)
}
