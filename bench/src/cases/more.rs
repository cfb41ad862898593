//! More kernels of many kinds, written and measured when all others had been tuned for.

use super::ArgSpec::{Buf, F32, I32, U32};
use super::{Case, Check, Dtype, MIB, Work, cases_of, close, input, output, updated};

cases_of!("more");

pub(crate) const CASES: &[Case] = &[
    case(
        "tile_blur",
        [[61, 134, 1], [32, 8, 1]],
        &[
            input(Dtype::F32, 2065100, 401, -1.0, 1.0),
            output(Dtype::F32, 2065100, close(1e-4, 1e-5)),
        ],
        &[Buf(0), Buf(1), I32(1930), I32(1070)],
        Work::Bytes(16520800),
    ),
    case(
        "transpose_plain",
        [[94, 82, 1], [16, 16, 1]],
        &[
            input(Dtype::F32, 1951500, 402, -1.0, 1.0),
            output(Dtype::F32, 1951500, Check::Exact),
        ],
        &[Buf(0), Buf(1), I32(1500), I32(1301)],
        Work::Bytes(15612000),
    ),
    case(
        "sobel_tile",
        [[63, 94, 1], [32, 16, 1]],
        &[
            input(Dtype::U8, 3007004, 403, 0.0, 256.0),
            output(Dtype::U8, 3000000, Check::Exact),
        ],
        &[Buf(0), Buf(1), I32(2000), I32(1500)],
        Work::Bytes(6000000),
    ),
    case(
        "convolve1d",
        [[11719, 1, 1], [256, 1, 1]],
        &[
            input(Dtype::F32, 3000288, 404, -1.0, 1.0),
            input(Dtype::F32, 33, 405, -1.0, 1.0),
            output(Dtype::F32, 3000000, close(1e-4, 1e-5)),
        ],
        &[Buf(0), Buf(1), Buf(2), I32(3000000)],
        Work::Ops(198000000),
    ),
    case(
        "im2col",
        [[1208, 1, 1], [256, 1, 1]],
        &[
            input(Dtype::F32, 309120, 406, -1.0, 1.0),
            output(Dtype::F32, 2782080, Check::Exact),
        ],
        &[Buf(0), Buf(1), I32(16), I32(120), I32(161)],
        Work::Bytes(12364800),
    ),
    case(
        "max_pool",
        [[7, 38, 24], [32, 4, 1]],
        &[
            input(Dtype::F32, 2894400, 407, -1.0, 1.0),
            output(Dtype::F32, 723600, Check::Exact),
        ],
        &[Buf(0), Buf(1), I32(24), I32(300), I32(402)],
        Work::Bytes(14472000),
    ),
    case(
        "upsample",
        [[9844, 1, 1], [256, 1, 1]],
        &[
            input(Dtype::F32, 630000, 408, -1.0, 1.0),
            output(Dtype::F32, 2520000, Check::Exact),
        ],
        &[Buf(0), Buf(1), I32(700), I32(900)],
        Work::Bytes(12600000),
    ),
    case(
        "channel_bias",
        [[200, 1, 1], [256, 1, 1]],
        &[
            updated(Dtype::F32, 3000000, 409, -1.0, 1.0, close(1e-4, 1e-5)),
            input(Dtype::F32, 300, 410, -1.0, 1.0),
        ],
        &[Buf(0), Buf(1), I32(300), I32(3000000)],
        Work::Bytes(24000000),
    ),
    case(
        "quantize_rows",
        [[4000, 1, 1], [32, 1, 1]],
        &[
            input(Dtype::F32, 3072000, 411, -1.0, 1.0),
            output(Dtype::S8, 3072000, Check::Mostly(0.01)),
            output(Dtype::F32, 4000, close(1e-4, 1e-5)),
        ],
        &[Buf(0), Buf(1), Buf(2), I32(768)],
        Work::Bytes(15360000),
    ),
    case(
        "scores",
        [[32, 125, 1], [32, 8, 1]],
        &[
            input(Dtype::F32, 64000, 412, -1.0, 1.0),
            input(Dtype::F32, 64000, 413, -1.0, 1.0),
            output(Dtype::F32, 1000000, close(1e-4, 1e-5)),
        ],
        &[Buf(0), Buf(1), Buf(2), I32(1000)],
        Work::Ops(128000000),
    ),
    case(
        "spmv_ell",
        [[782, 1, 1], [128, 1, 1]],
        &[
            input(Dtype::F32, 2400000, 414, -1.0, 1.0),
            input(Dtype::S32, 2400000, 415, -20000.0, 100000.0),
            input(Dtype::F32, 100000, 416, -1.0, 1.0),
            output(Dtype::F32, 100000, close(1e-4, 1e-5)),
        ],
        &[Buf(0), Buf(1), Buf(2), Buf(3), I32(100000), I32(24)],
        Work::Bytes(19200000),
    ),
    case(
        "nearest",
        [[782, 1, 1], [128, 1, 1]],
        &[
            input(Dtype::F32, 100000, 417, 0.0, 1.0),
            input(Dtype::F32, 100000, 418, 0.0, 1.0),
            input(Dtype::F32, 128, 419, 0.0, 1.0),
            input(Dtype::F32, 128, 420, 0.0, 1.0),
            output(Dtype::S32, 100000, Check::Mostly(0.001)),
        ],
        &[
            Buf(0),
            Buf(1),
            Buf(2),
            Buf(3),
            Buf(4),
            I32(100000),
            I32(128),
        ],
        Work::Ops(76800000),
    ),
    case(
        "lower_bound",
        [[782, 1, 1], [256, 1, 1]],
        &[
            input(Dtype::S32, 1000000, 421, 0.0, 1000000.0),
            input(Dtype::S32, 200000, 422, 0.0, 1000000.0),
            output(Dtype::S32, 200000, Check::Exact),
        ],
        &[Buf(0), Buf(1), Buf(2), I32(1000000), I32(200000)],
        Work::Bytes(1600000),
    ),
    case(
        "jacobi_residual",
        [[51, 151, 1], [32, 8, 1]],
        &[
            input(Dtype::F32, 1926003, 423, -1.0, 1.0),
            input(Dtype::F32, 1926003, 424, -1.0, 1.0),
            output(Dtype::F32, 1926003, close(1e-4, 1e-5)),
            output(Dtype::F32, 7701, close(1e-3, 1e-4)),
        ],
        &[Buf(0), Buf(1), Buf(2), Buf(3), I32(1601), I32(1203)],
        Work::Bytes(23112036),
    ),
    case(
        "dot_double",
        [[64, 1, 1], [256, 1, 1]],
        &[
            input(Dtype::F64, 2500003, 425, -1.0, 1.0),
            input(Dtype::F64, 2500003, 426, -1.0, 1.0),
            output(Dtype::F64, 64, close(1e-9, 1e-9)),
        ],
        &[Buf(0), Buf(1), Buf(2), I32(2500003)],
        Work::Bytes(40000048),
    ),
    case(
        "scan_blelloch",
        [[8192, 1, 1], [256, 1, 1]],
        &[updated(
            Dtype::S32,
            4 * MIB,
            427,
            -1000.0,
            1000.0,
            Check::Exact,
        )],
        &[Buf(0)],
        Work::Bytes((8 * 4) << 20),
    ),
    case(
        "yuv",
        [[7813, 1, 1], [256, 1, 1]],
        &[
            input(Dtype::U8, 6000000, 428, 0.0, 256.0),
            output(Dtype::U8, 6000000, Check::Exact),
        ],
        &[Buf(0), Buf(1), I32(2000000)],
        Work::Bytes(12000000),
    ),
    case(
        "pack_bits",
        [[31250, 1, 1], [256, 1, 1]],
        &[
            input(Dtype::F32, 8000000, 429, -1.0, 1.0),
            output(Dtype::U32, 250000, Check::Exact),
        ],
        &[Buf(0), Buf(1), I32(8000000), F32(0.25)],
        Work::Bytes(32000000),
    ),
    case(
        "hamming",
        [[2605, 1, 1], [192, 1, 1]],
        &[
            input(Dtype::U64, 2000000, 430, 0.0, 1.8446744073709552e19),
            input(Dtype::U64, 2000000, 431, 0.0, 1.8446744073709552e19),
            output(Dtype::S32, 500000, Check::Exact),
        ],
        &[Buf(0), Buf(1), Buf(2), I32(500000)],
        Work::Bytes(34000000),
    ),
    case(
        "lowercase",
        [[7813, 1, 1], [256, 1, 1]],
        &[
            input(Dtype::U8, 8000000, 432, 0.0, 128.0),
            output(Dtype::U8, 8000000, Check::Exact),
        ],
        &[Buf(0), Buf(1), I32(2000000)],
        Work::Bytes(16000000),
    ),
    case(
        "crc32",
        [[391, 1, 1], [256, 1, 1]],
        &[
            input(Dtype::U32, 1600000, 433, 0.0, 4294967296.0),
            input(Dtype::U32, 256, 434, 0.0, 4294967296.0),
            output(Dtype::U32, 100000, Check::Exact),
        ],
        &[Buf(0), Buf(1), Buf(2), I32(100000), I32(16)],
        Work::Bytes(6400000),
    ),
    case(
        "fft_stage",
        [[4096, 1, 1], [256, 1, 1]],
        &[
            input(Dtype::F32, 4194304, 435, -1.0, 1.0),
            output(Dtype::F32, 4194304, close(1e-3, 1e-4)),
        ],
        &[Buf(0), Buf(1), I32(2097152), I32(64)],
        Work::Bytes(33554432),
    ),
    case(
        "runge_kutta",
        [[1563, 1, 1], [128, 1, 1]],
        &[
            updated(Dtype::F32, 200000, 436, -1.0, 1.0, close(1e-3, 1e-4)),
            updated(Dtype::F32, 200000, 437, -1.0, 1.0, close(1e-3, 1e-4)),
        ],
        &[Buf(0), Buf(1), I32(200000), I32(20), F32(0.01)],
        Work::Ops(240000000),
    ),
    case(
        "monte_carlo",
        [[391, 1, 1], [256, 1, 1]],
        &[output(Dtype::U32, 100000, Check::Exact)],
        &[Buf(0), I32(100000), I32(64), U32(12345)],
        Work::Ops(6400000),
    ),
    case(
        "edit_distance",
        [[469, 1, 1], [128, 1, 1]],
        &[
            input(Dtype::U8, 960000, 438, 0.0, 4.0),
            input(Dtype::U8, 960000, 439, 0.0, 4.0),
            output(Dtype::S32, 60000, Check::Exact),
        ],
        &[Buf(0), Buf(1), Buf(2), I32(60000)],
        Work::Ops(15360000),
    ),
    case(
        "particles",
        [[3125, 1, 1], [256, 1, 1]],
        &[
            updated(Dtype::F32, 3200000, 440, -1.0, 1.0, close(1e-4, 1e-5)),
            updated(Dtype::F32, 3200000, 441, -1.0, 1.0, close(1e-4, 1e-5)),
        ],
        &[Buf(0), Buf(1), I32(800000), F32(0.01), F32(1.0)],
        Work::Bytes(51200000),
    ),
];
