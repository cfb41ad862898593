//! Products of matrices on tensor cores, as Triton compiles them (`kernels/matmul.py`,
//! `kernels/attention.py`).

use super::ArgSpec::{Buf, F32, I32, U64};
use super::{ArgSpec, Case, Check, Dtype, MIB, Work, close, input, output, ptx};

/// Three square matrices, their sizes, the lengths of their rows, and two pointers to memory that
/// Triton's kernels may ask for.
const MATMUL: &[ArgSpec] = &[
    Buf(0),
    Buf(1),
    Buf(2),
    I32(1024),
    I32(1024),
    I32(1024),
    I32(1024),
    I32(1024),
    I32(1024),
    U64(0),
    U64(0),
];

pub(crate) const MMA_BF16: Case = Case {
    name: "mma_bf16",
    ptx: ptx!("mma_bf16"),
    kernel: "matmul",
    buffers: &[
        input(Dtype::Bf16, MIB, 57, -1.0, 1.0),
        input(Dtype::Bf16, MIB, 58, -1.0, 1.0),
        output(Dtype::F32, MIB, close(1e-4, 1e-3)),
    ],
    grid: [16, 16, 1],
    block: [128, 1, 1],
    shared: 16384,
    args: MATMUL,
    work: Work::Ops(2 << 30),
};

pub(crate) const MMA_S8: Case = Case {
    name: "mma_s8",
    ptx: ptx!("mma_s8"),
    kernel: "matmul",
    buffers: &[
        input(Dtype::S8, MIB, 59, -128.0, 128.0),
        input(Dtype::S8, MIB, 60, -128.0, 128.0),
        output(Dtype::S32, MIB, Check::Exact),
    ],
    grid: [16, 16, 1],
    block: [128, 1, 1],
    shared: 8192,
    args: MATMUL,
    work: Work::Ops(2 << 30),
};

pub(crate) const MMA_FP8: Case = Case {
    name: "mma_fp8",
    ptx: ptx!("mma_fp8"),
    kernel: "matmul",
    buffers: &[
        input(Dtype::E4m3, MIB, 61, -1.0, 1.0),
        input(Dtype::E4m3, MIB, 62, -1.0, 1.0),
        output(Dtype::F32, MIB, close(1e-4, 1e-3)),
    ],
    grid: [16, 16, 1],
    block: [128, 1, 1],
    shared: 8192,
    args: MATMUL,
    work: Work::Ops(2 << 30),
};

/// Tiles come through tensor maps, which each CTA makes in its part of a buffer.
pub(crate) const WGMMA_BF16: Case = Case {
    name: "wgmma_bf16",
    ptx: ptx!("wgmma_bf16"),
    kernel: "matmul_maps",
    buffers: &[
        input(Dtype::Bf16, MIB, 57, -1.0, 1.0),
        input(Dtype::Bf16, MIB, 58, -1.0, 1.0),
        output(Dtype::F32, MIB, close(1e-4, 1e-3)),
        // 64 CTAs, three maps of 128 bytes each.
        input(Dtype::U8, 64 * 3 * 128, 66, 0.0, 1.0),
    ],
    grid: [8, 8, 1],
    block: [128, 1, 1],
    shared: 98352,
    args: &[
        Buf(0),
        Buf(1),
        Buf(2),
        I32(1024),
        I32(1024),
        I32(1024),
        Buf(3),
        U64(0),
    ],
    work: Work::Ops(2 << 30),
};

pub(crate) const TCGEN05_BF16: Case = Case {
    name: "tcgen05_bf16",
    ptx: ptx!("tcgen05_bf16"),
    ..WGMMA_BF16
};

pub(crate) const ATTENTION: Case = Case {
    name: "attention",
    ptx: ptx!("attention"),
    kernel: "attention",
    buffers: &[
        input(Dtype::F16, MIB / 4, 63, -1.0, 1.0),
        input(Dtype::F16, MIB / 4, 64, -1.0, 1.0),
        input(Dtype::F16, MIB / 4, 65, -1.0, 1.0),
        output(Dtype::F32, MIB / 4, close(1e-3, 1e-3)),
    ],
    // 1024 rows of four heads, with 64 columns.
    grid: [16, 4, 1],
    block: [128, 1, 1],
    shared: 24576,
    args: &[
        Buf(0),
        Buf(1),
        Buf(2),
        Buf(3),
        I32(1024),
        // The binary logarithm of e over the root of the columns' number.
        F32(0.180_336_88),
        U64(0),
        U64(0),
    ],
    // Products alone.
    work: Work::Ops(4 * 4 * 1024 * 1024 * 64),
};
