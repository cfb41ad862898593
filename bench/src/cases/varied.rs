//! Kernels of many kinds, to measure what was not looked at while the compiler was tuned.

use super::ArgSpec::{Buf, F32, I32, U32};
use super::{Case, Check, Dtype, MIB, Work, cases_of, close, input, output, updated};

cases_of!("varied");

pub(crate) const CASES: &[Case] = &[
    case(
        "star1",
        [[129, 64, 1], [16, 16, 1]],
        &[
            input(Dtype::F32, 2096127, 301, -1.0, 1.0),
            output(Dtype::F32, 2096127, close(1e-5, 1e-6)),
        ],
        &[Buf(0), Buf(1), I32(2049), I32(1023)],
        Work::Bytes(16769016),
    ),
    case(
        "box9",
        [[250, 188, 1], [8, 8, 1]],
        &[
            input(Dtype::F32, 3000499, 302, -1.0, 1.0),
            output(Dtype::F32, 3000499, close(1e-5, 1e-6)),
        ],
        &[Buf(0), Buf(1), I32(1999), I32(1501)],
        Work::Bytes(24003992),
    ),
    case(
        "star2",
        [[64, 129, 1], [32, 8, 1]],
        &[
            input(Dtype::F32, 2111500, 303, -1.0, 1.0),
            output(Dtype::F32, 2111500, close(1e-5, 1e-5)),
        ],
        &[Buf(0), Buf(1), I32(2050), I32(1030)],
        Work::Bytes(16892000),
    ),
    case(
        "star4",
        [[40, 350, 1], [64, 4, 1]],
        &[
            input(Dtype::F32, 3500000, 304, -1.0, 1.0),
            output(Dtype::F32, 3500000, close(1e-5, 1e-5)),
            input(Dtype::F32, 5, 305, -1.0, 1.0),
        ],
        &[Buf(0), Buf(1), Buf(2), I32(2500), I32(1400)],
        Work::Bytes(28000000),
    ),
    case(
        "star3_shared",
        [[120, 68, 1], [16, 16, 1]],
        &[
            input(Dtype::F32, 2073600, 306, -1.0, 1.0),
            output(Dtype::F32, 2073600, close(1e-5, 1e-6)),
        ],
        &[Buf(0), Buf(1), I32(1920), I32(1080)],
        Work::Bytes(16588800),
    ),
    case(
        "star3d1",
        [[9, 33, 33], [32, 4, 2]],
        &[
            input(Dtype::F32, 2154945, 307, -1.0, 1.0),
            output(Dtype::F32, 2154945, close(1e-5, 1e-6)),
        ],
        &[Buf(0), Buf(1), I32(257), I32(129), I32(65)],
        Work::Bytes(17239560),
    ),
    case(
        "star3d2",
        [[25, 19, 13], [8, 8, 8]],
        &[
            input(Dtype::F32, 3000000, 308, -1.0, 1.0),
            output(Dtype::F32, 3000000, close(1e-5, 1e-5)),
        ],
        &[Buf(0), Buf(1), I32(200), I32(150), I32(100)],
        Work::Bytes(24000000),
    ),
    case(
        "star3d4_march",
        [[5, 15, 1], [32, 8, 1]],
        &[
            input(Dtype::F32, 2457600, 309, -1.0, 1.0),
            output(Dtype::F32, 2457600, close(1e-5, 1e-6)),
        ],
        &[Buf(0), Buf(1), I32(160), I32(128), I32(120)],
        Work::Bytes(19660800),
    ),
    case(
        "box27",
        [[3, 69, 64], [64, 2, 2]],
        &[
            input(Dtype::F32, 2730000, 310, -1.0, 1.0),
            output(Dtype::F32, 2730000, close(1e-5, 1e-6)),
        ],
        &[Buf(0), Buf(1), I32(150), I32(140), I32(130)],
        Work::Bytes(21840000),
    ),
    case(
        "conv5x5_const",
        [[50, 150, 1], [32, 8, 1]],
        &[
            input(Dtype::F32, 1931216, 311, -1.0, 1.0),
            output(Dtype::F32, 1920000, close(1e-5, 1e-6)),
        ],
        &[Buf(0), Buf(1), I32(1604), I32(1204)],
        Work::Ops(96000000),
    ),
    case(
        "conv_any",
        [[63, 50, 1], [16, 16, 1]],
        &[
            input(Dtype::F32, 800000, 312, -1.0, 1.0),
            input(Dtype::F32, 49, 313, -1.0, 1.0),
            output(Dtype::F32, 800000, close(1e-4, 1e-5)),
        ],
        &[Buf(0), Buf(1), Buf(2), I32(1000), I32(800), I32(3)],
        Work::Ops(78400000),
    ),
    case(
        "conv_channels",
        [[16, 48, 8], [32, 8, 1]],
        &[
            input(Dtype::F32, 793616, 314, -1.0, 1.0),
            input(Dtype::F32, 288, 315, -1.0, 1.0),
            output(Dtype::F32, 1572864, close(1e-4, 1e-5)),
        ],
        &[Buf(0), Buf(1), Buf(2), I32(514), I32(386)],
        Work::Ops(113246208),
    ),
    case(
        "row_sum_warp",
        [[1000, 1, 1], [32, 4, 1]],
        &[
            input(Dtype::F32, 6148000, 316, 0.0, 1.0),
            output(Dtype::F32, 4000, close(1e-4, 0.0)),
        ],
        &[Buf(0), Buf(1), I32(1537), I32(4000)],
        Work::Bytes(24592000),
    ),
    case(
        "row_sum_thread",
        [[63, 1, 1], [64, 1, 1]],
        &[
            input(Dtype::F32, 6148000, 317, 0.0, 1.0),
            output(Dtype::F32, 4000, close(1e-4, 0.0)),
        ],
        &[Buf(0), Buf(1), I32(1537), I32(4000)],
        Work::Bytes(24592000),
    ),
    case(
        "col_sum",
        [[24, 1, 1], [128, 1, 1]],
        &[
            input(Dtype::F32, 6002000, 318, 0.0, 1.0),
            output(Dtype::F32, 3001, close(1e-4, 0.0)),
        ],
        &[Buf(0), Buf(1), I32(3001), I32(2000)],
        Work::Bytes(24008000),
    ),
    case(
        "row_argmax",
        [[4000, 1, 1], [128, 1, 1]],
        &[
            input(Dtype::F32, 6000000, 319, 0.0, 1.0),
            output(Dtype::S32, 4000, Check::Mostly(0.001)),
        ],
        &[Buf(0), Buf(1), I32(1500)],
        Work::Bytes(24000000),
    ),
    case(
        "col_mean_var",
        [[8, 1, 1], [128, 1, 1]],
        &[
            input(Dtype::F64, 3000000, 320, -1.0, 1.0),
            output(Dtype::F64, 2000, close(1e-9, 1e-9)),
        ],
        &[Buf(0), Buf(1), I32(1000), I32(3000)],
        Work::Bytes(24000000),
    ),
    case(
        "life_masks",
        [[32, 512, 1], [64, 4, 1]],
        &[
            input(Dtype::U8, 4194304, 321, 0.0, 2.0),
            output(Dtype::U8, 4194304, Check::Exact),
        ],
        &[Buf(0), Buf(1), I32(2048), I32(2048)],
        Work::Bytes(8388608),
    ),
    case(
        "cyclic",
        [[79, 250, 1], [32, 8, 1]],
        &[
            input(Dtype::U8, 5000000, 322, 0.0, 14.0),
            output(Dtype::U8, 5000000, Check::Exact),
        ],
        &[Buf(0), Buf(1), I32(2500), I32(2000), I32(14)],
        Work::Bytes(10000000),
    ),
    case(
        "rule110",
        [[31251, 1, 1], [256, 1, 1]],
        &[
            input(Dtype::U8, 8000001, 323, 0.0, 2.0),
            output(Dtype::U8, 8000001, Check::Exact),
        ],
        &[Buf(0), Buf(1), I32(8000001)],
        Work::Bytes(16000002),
    ),
    case(
        "scan_hillis",
        [[32768, 1, 1], [256, 1, 1]],
        &[
            input(Dtype::F32, 8 * MIB, 324, 0.0, 1.0),
            output(Dtype::F32, 8 * MIB, close(1e-4, 1e-5)),
        ],
        &[Buf(0), Buf(1)],
        Work::Bytes((8 * 8) << 20),
    ),
    case(
        "scan_warps",
        [[16384, 1, 1], [512, 1, 1]],
        &[
            input(Dtype::S32, 8 * MIB, 325, -1000.0, 1000.0),
            output(Dtype::S32, 8 * MIB, Check::Exact),
        ],
        &[Buf(0), Buf(1)],
        Work::Bytes((8 * 8) << 20),
    ),
    case(
        "sort_bitonic",
        [[2048, 1, 1], [256, 1, 1]],
        &[updated(
            Dtype::U32,
            MIB,
            326,
            0.0,
            4294967296.0,
            Check::Exact,
        )],
        &[Buf(0)],
        Work::Bytes(8 << 20),
    ),
    case(
        "sort_odd_even",
        [[16384, 1, 1], [64, 1, 1]],
        &[updated(
            Dtype::S32,
            MIB,
            327,
            -100000.0,
            100000.0,
            Check::Exact,
        )],
        &[Buf(0)],
        Work::Bytes(8 << 20),
    ),
    case(
        "bitonic_step",
        [[32768, 1, 1], [256, 1, 1]],
        &[updated(Dtype::F32, 8 * MIB, 328, -1.0, 1.0, Check::Exact)],
        &[Buf(0), I32(64), I32(1024)],
        Work::Bytes((8 * 8) << 20),
    ),
    case(
        "lattice9",
        [[6, 600, 1], [128, 1, 1]],
        &[
            input(Dtype::F32, 3780000, 329, 0.5, 1.0),
            output(Dtype::F32, 3780000, close(1e-4, 1e-5)),
        ],
        &[Buf(0), Buf(1), I32(700), I32(600), F32(1.2)],
        Work::Bytes(30240000),
    ),
    case(
        "ising",
        [[63, 375, 1], [32, 4, 1]],
        &[
            updated(Dtype::S8, 3000000, 330, -1.0, 2.0, Check::Exact),
            input(Dtype::S8, 3000000, 331, -1.0, 2.0),
        ],
        &[Buf(0), Buf(1), I32(2000), I32(1500), I32(1), U32(77)],
        Work::Bytes(9000000),
    ),
    case(
        "gray_rgb",
        [[31251, 1, 1], [128, 1, 1]],
        &[
            input(Dtype::U8, 12000003, 332, 0.0, 256.0),
            output(Dtype::U8, 4000001, Check::Exact),
        ],
        &[Buf(0), Buf(1), I32(4000001)],
        Work::Bytes(16000004),
    ),
    case(
        "gamma_rgba",
        [[4096, 1, 1], [256, 1, 1]],
        &[
            input(Dtype::F32, 4 * MIB, 333, 0.0, 1.0),
            output(Dtype::F32, 4 * MIB, close(1e-4, 1e-5)),
        ],
        &[Buf(0), Buf(1), I32(1 << 20)],
        Work::Bytes((8 * 4) << 20),
    ),
    case(
        "median9",
        [[79, 250, 1], [32, 8, 1]],
        &[
            input(Dtype::U8, 5000000, 334, 0.0, 256.0),
            output(Dtype::U8, 5000000, Check::Exact),
        ],
        &[Buf(0), Buf(1), I32(2500), I32(2000)],
        Work::Bytes(10000000),
    ),
    case(
        "bilateral",
        [[57, 88, 1], [16, 8, 1]],
        &[
            input(Dtype::F32, 630000, 335, 0.0, 1.0),
            output(Dtype::F32, 630000, close(1e-4, 1e-5)),
        ],
        &[Buf(0), Buf(1), I32(900), I32(700)],
        Work::Bytes(5040000),
    ),
    case(
        "blur_rows",
        [[32, 1, 1], [64, 1, 1]],
        &[
            input(Dtype::U8, 4000000, 336, 0.0, 256.0),
            output(Dtype::U8, 4000000, Check::Exact),
        ],
        &[Buf(0), Buf(1), I32(2000), I32(2000)],
        Work::Bytes(8000000),
    ),
    case(
        "resize_bilinear",
        [[60, 192, 1], [32, 8, 1]],
        &[
            input(Dtype::F32, 800000, 337, 0.0, 1.0),
            output(Dtype::F32, 2949120, close(1e-3, 1e-4)),
        ],
        &[Buf(0), Buf(1), I32(1000), I32(800), I32(1920), I32(1536)],
        Work::Bytes(14996480),
    ),
    case(
        "batch_mul4",
        [[1563, 1, 1], [128, 1, 1]],
        &[
            input(Dtype::F32, 3200016, 338, -1.0, 1.0),
            input(Dtype::F32, 3200016, 339, -1.0, 1.0),
            output(Dtype::F32, 3200016, close(1e-4, 1e-5)),
        ],
        &[Buf(0), Buf(1), Buf(2), I32(200001)],
        Work::Bytes(38400192),
    ),
    case(
        "batch_invert3",
        [[3125, 1, 1], [96, 1, 1]],
        &[
            input(Dtype::F64, 2700000, 340, -1.0, 1.0),
            output(Dtype::F64, 2700000, close(1e-6, 1e-6)),
        ],
        &[Buf(0), Buf(1), I32(300000)],
        Work::Bytes(43200000),
    ),
    case(
        "batch_mul8_shared",
        [[12501, 1, 1], [8, 8, 4]],
        &[
            input(Dtype::F32, 3200192, 341, -1.0, 1.0),
            input(Dtype::F32, 3200192, 342, -1.0, 1.0),
            output(Dtype::F32, 3200192, close(1e-4, 1e-5)),
        ],
        &[Buf(0), Buf(1), Buf(2), I32(50003)],
        Work::Bytes(38402304),
    ),
    case(
        "gemm_transposed",
        [[13, 50, 1], [32, 8, 1]],
        &[
            input(Dtype::F32, 160000, 343, -1.0, 1.0),
            input(Dtype::F32, 160000, 344, -1.0, 1.0),
            output(Dtype::F32, 160000, close(1e-4, 1e-4)),
        ],
        &[Buf(0), Buf(1), Buf(2), I32(400)],
        Work::Ops(128000000),
    ),
    case(
        "layer_norm",
        [[4000, 1, 1], [256, 1, 1]],
        &[
            input(Dtype::F32, 4400000, 345, -1.0, 1.0),
            input(Dtype::F32, 1100, 346, -1.0, 1.0),
            output(Dtype::F32, 4400000, close(1e-3, 1e-4)),
        ],
        &[Buf(0), Buf(1), Buf(2), I32(1100)],
        Work::Bytes(35200000),
    ),
    case(
        "hash64",
        [[300, 1, 1], [192, 1, 1]],
        &[
            input(Dtype::U64, 4 * MIB, 347, 0.0, 4294967296.0),
            output(Dtype::U64, 4 * MIB, Check::Exact),
        ],
        &[Buf(0), Buf(1), I32(4 << 20)],
        Work::Bytes((16 * 4) << 20),
    ),
    case(
        "julia",
        [[63, 88, 1], [16, 8, 1]],
        &[output(Dtype::U8, 700000, Check::Mostly(0.01))],
        &[Buf(0), I32(1000), I32(700), F32(-0.4), F32(0.6)],
        Work::Ops(700000),
    ),
    case(
        "gather_rows",
        [[5, 5001, 1], [64, 4, 1]],
        &[
            input(Dtype::F32, 6000000, 348, -1.0, 1.0),
            input(Dtype::U32, 20001, 349, 0.0, 20000.0),
            output(Dtype::F32, 6000300, close(1e-5, 1e-6)),
        ],
        &[Buf(0), Buf(1), Buf(2), I32(300), I32(20001)],
        Work::Bytes(48002400),
    ),
];
