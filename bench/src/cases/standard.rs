//! The kernels that ptxjit was tuned by first.

use super::ArgSpec::{Buf, F32, F64, I32, Map, Texture, U32, U64};
use super::{
    ArgSpec, BufferSpec, Case, Check, Dtype, Init, MIB, ROW, Role, Work, close, input, output,
    products, ptx,
};

const SPARSE: usize = MIB;

/// A matrix of 32 Mi elements, in rows of `width`.
const fn matrix(buffer: usize, width: u64) -> ArgSpec {
    let height = 32 * MIB as u64 / width;
    Map {
        buffer,
        width,
        height,
    }
}

/// Tiles of a matrix, in and out.
const TMA_COPY: Case = Case {
    name: "tma_copy",
    ptx: ptx!("tma_copy"),
    kernel: "tma_copy",
    buffers: &[
        input(Dtype::F32, 32 * MIB, 5, -1.0, 1.0),
        output(Dtype::F32, 32 * MIB, Check::Exact),
    ],
    grid: [256, 1, 1],
    block: [32, 1, 1],
    shared: 0,
    args: &[matrix(0, 8192), matrix(1, 8192), I32(128), I32(64), I32(32)],
    work: Work::Bytes((8 * 32) << 20),
};

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "saxpy",
        ptx: ptx!("saxpy"),
        kernel: "saxpy",
        buffers: &[
            input(Dtype::F32, 32 * MIB, 3, -1.0, 1.0),
            BufferSpec {
                role: Role::Out(close(1e-6, 1e-6)),
                ..input(Dtype::F32, 32 * MIB, 4, -1.0, 1.0)
            },
        ],
        grid: [320, 1, 1],
        block: [256, 1, 1],
        shared: 0,
        args: &[I32(32 << 20), F32(2.5), Buf(0), Buf(1)],
        work: Work::Bytes((12 * 32) << 20),
    },
    TMA_COPY,
    Case {
        name: "tma_copy_lines",
        args: &[matrix(0, 64), matrix(1, 64), I32(1), I32(8192), I32(32)],
        ..TMA_COPY
    },
    Case {
        name: "bilinear",
        ptx: ptx!("bilinear"),
        kernel: "bilinear",
        buffers: &[
            input(Dtype::F32, MIB, 121, 0.0, 1.0),
            // Textures weight in steps of 1/256.
            output(Dtype::F32, 1536 * 1536, close(0.0, 5e-3)),
        ],
        grid: [48, 192, 1],
        block: [32, 8, 1],
        shared: 0,
        args: &[
            Texture {
                buffer: 0,
                width: 1024,
                height: 1024,
            },
            Buf(1),
            I32(1536),
            I32(1536),
            F32(1024.0 / 1536.0),
            F32(1024.0 / 1536.0),
        ],
        // Pixels.
        work: Work::Ops(1536 * 1536),
    },
    Case {
        name: "stencil2d",
        ptx: ptx!("stencil2d"),
        kernel: "stencil2d",
        buffers: &[
            input(Dtype::F32, 8 * MIB, 120, -1.0, 1.0),
            output(Dtype::F32, 8 * MIB, close(1e-5, 1e-6)),
        ],
        grid: [128, 256, 1],
        block: [32, 8, 1],
        shared: 0,
        args: &[Buf(0), Buf(1), I32(4096), I32(2048), F32(0.5), F32(0.125)],
        work: Work::Bytes((8 * 8) << 20),
    },
    Case {
        name: "transpose_tiled",
        ptx: ptx!("transpose_tiled"),
        kernel: "_Z15transpose_tiledIfLi32ELi8ELi0EEvPT_PKS0_ii",
        buffers: &[
            input(Dtype::F32, 16 * MIB, 11, -1.0, 1.0),
            output(Dtype::F32, 16 * MIB, Check::Exact),
        ],
        grid: [128, 128, 1],
        block: [32, 8, 1],
        shared: 0,
        args: &[Buf(1), Buf(0), I32(4096), I32(4096)],
        work: Work::Bytes((8 * 16) << 20),
    },
    Case {
        name: "life",
        ptx: ptx!("life"),
        kernel: "life",
        buffers: &[
            input(Dtype::U8, 16 * MIB, 124, 0.0, 2.0),
            output(Dtype::U8, 16 * MIB, Check::Exact),
        ],
        grid: [128, 1024, 1],
        block: [32, 4, 1],
        shared: 0,
        args: &[Buf(0), Buf(1), I32(4096), I32(4096)],
        work: Work::Bytes((2 * 16) << 20),
    },
    Case {
        name: "sobel",
        ptx: ptx!("sobel"),
        kernel: "sobel",
        buffers: &[
            input(Dtype::U8, 16 * MIB, 125, 0.0, 256.0),
            output(Dtype::U8, 16 * MIB, Check::Exact),
        ],
        grid: [128, 1024, 1],
        block: [32, 4, 1],
        shared: 0,
        args: &[Buf(0), Buf(1), I32(4096), I32(4096)],
        work: Work::Bytes((2 * 16) << 20),
    },
    Case {
        name: "reduce_tree",
        ptx: ptx!("reduce_tree"),
        kernel: "reduce_tree",
        buffers: &[
            input(Dtype::F32, 16 * MIB, 20, 0.0, 1.0),
            output(Dtype::F32, 32768, close(1e-5, 0.0)),
        ],
        grid: [32768, 1, 1],
        block: [256, 1, 1],
        shared: 1024,
        args: &[Buf(0), Buf(1), I32(16 << 20)],
        work: Work::Bytes((4 * 16) << 20),
    },
    Case {
        name: "reduce_shfl",
        ptx: ptx!("reduce_shfl"),
        kernel: "reduce_shfl",
        buffers: &[
            input(Dtype::F32, 32 * MIB, 21, 0.0, 1.0),
            // The order of the additions is another one, over 33 million numbers.
            output(Dtype::F32, 1, close(1e-3, 0.0)),
        ],
        grid: [512, 1, 1],
        block: [192, 1, 1],
        shared: 0,
        args: &[Buf(0), Buf(1), I32(32 << 20)],
        work: Work::Bytes((4 * 32) << 20),
    },
    Case {
        name: "gemv_rows",
        ptx: ptx!("gemv_rows"),
        kernel: "gemv_rows",
        buffers: &[
            input(Dtype::F32, 32 * MIB, 61, -1.0, 1.0),
            input(Dtype::F32, 4096, 62, -1.0, 1.0),
            output(Dtype::F32, 8192, close(1e-4, 1e-3)),
        ],
        grid: [2048, 1, 1],
        block: [128, 1, 1],
        shared: 0,
        args: &[Buf(0), Buf(1), Buf(2), I32(8192), I32(4096)],
        work: Work::Bytes((4 * 32) << 20),
    },
    Case {
        name: "hist_shared",
        ptx: ptx!("hist_shared"),
        kernel: "hist_shared",
        buffers: &[
            input(Dtype::U32, 4 * MIB, 41, 0.0, 4294967296.0),
            output(Dtype::U32, 256, Check::Exact),
        ],
        grid: [128, 1, 1],
        block: [192, 1, 1],
        shared: 0,
        args: &[Buf(0), U32(4 << 20), Buf(1)],
        work: Work::Bytes((4 * 4) << 20),
    },
    Case {
        name: "spmv_csr",
        ptx: ptx!("spmv_csr"),
        kernel: "spmv_csr",
        buffers: &[
            BufferSpec {
                dtype: Dtype::U32,
                count: SPARSE + 1,
                init: Init::RowStarts,
                role: Role::In,
            },
            BufferSpec {
                dtype: Dtype::U32,
                count: ROW * SPARSE,
                init: Init::Columns { seed: 2 },
                role: Role::In,
            },
            input(Dtype::F32, ROW * SPARSE, 3, -1.0, 1.0),
            input(Dtype::F32, SPARSE, 4, -1.0, 1.0),
            output(Dtype::F32, SPARSE, close(1e-5, 1e-5)),
        ],
        grid: [8192, 1, 1],
        block: [128, 1, 1],
        shared: 0,
        args: &[I32(1 << 20), Buf(0), Buf(1), Buf(2), Buf(3), Buf(4)],
        work: Work::Bytes((8 * ROW as u64 + 12) << 20),
    },
    Case {
        name: "sgemm_naive",
        ptx: ptx!("sgemm_naive"),
        kernel: "sgemm_naive",
        buffers: &[
            input(Dtype::F32, 512 * 512, 50, -1.0, 1.0),
            input(Dtype::F32, 512 * 512, 51, -1.0, 1.0),
            BufferSpec {
                role: Role::Out(close(1e-4, 1e-4)),
                ..input(Dtype::F32, 512 * 512, 52, -1.0, 1.0)
            },
        ],
        grid: [32, 32, 1],
        block: [16, 16, 1],
        shared: 0,
        args: &[
            I32(512),
            I32(512),
            I32(512),
            F32(1.5),
            Buf(0),
            Buf(1),
            F32(0.5),
            Buf(2),
        ],
        work: Work::Ops(2 * 512 * 512 * 512),
    },
    Case {
        name: "sgemm_tiled16",
        ptx: ptx!("sgemm_tiled16"),
        kernel: "sgemm_tiled16",
        buffers: &[
            input(Dtype::F32, MIB, 53, -1.0, 1.0),
            input(Dtype::F32, MIB, 54, -1.0, 1.0),
            output(Dtype::F32, MIB, close(1e-4, 1e-4)),
        ],
        grid: [64, 64, 1],
        block: [16, 16, 1],
        shared: 0,
        args: &[I32(1024), I32(1024), I32(1024), Buf(0), Buf(1), Buf(2)],
        work: Work::Ops(2 << 30),
    },
    Case {
        name: "sgemm_reg8x8",
        ptx: ptx!("sgemm_reg8x8"),
        kernel: "sgemm_reg8x8",
        buffers: &[
            input(Dtype::F32, MIB, 55, -1.0, 1.0),
            input(Dtype::F32, MIB, 56, -1.0, 1.0),
            output(Dtype::F32, MIB, close(1e-4, 1e-4)),
        ],
        grid: [8, 8, 1],
        block: [256, 1, 1],
        shared: 0,
        args: &[I32(1024), I32(1024), I32(1024), Buf(0), Buf(1), Buf(2)],
        work: Work::Ops(2 << 30),
    },
    products::MMA_BF16,
    products::MMA_S8,
    products::MMA_FP8,
    products::WGMMA_BF16,
    products::TCGEN05_BF16,
    products::ATTENTION,
    Case {
        name: "nbody",
        ptx: ptx!("nbody"),
        kernel: "nbody",
        buffers: &[
            input(Dtype::F32, 65536, 70, 0.0, 1.0),
            output(Dtype::F32, 65536, close(1e-3, 1e-1)),
        ],
        grid: [128, 1, 1],
        block: [128, 1, 1],
        shared: 2048,
        args: &[Buf(0), Buf(1), I32(16384), F32(0.01)],
        // Twenty for each pair.
        work: Work::Ops(20 * 16384 * 16384),
    },
    Case {
        name: "mandelbrot",
        ptx: ptx!("mandelbrot"),
        kernel: "mandelbrot",
        buffers: &[output(Dtype::U16, 1024 * 768, Check::Mostly(0.01))],
        grid: [64, 96, 1],
        block: [16, 8, 1],
        shared: 0,
        args: &[
            Buf(0),
            I32(1024),
            I32(768),
            F64(-2.2),
            F64(-1.2),
            F64(0.0029296875),
            F64(0.0031249999999999997),
            I32(1000),
        ],
        // Pixels; the iterations differ from one to the next.
        work: Work::Ops(1024 * 768),
    },
    Case {
        name: "black_scholes",
        ptx: ptx!("black_scholes"),
        kernel: "black_scholes",
        buffers: &[
            input(Dtype::F32, 4 * MIB, 100, 5.0, 30.0),
            input(Dtype::F32, 4 * MIB, 101, 1.0, 100.0),
            input(Dtype::F32, 4 * MIB, 102, 0.25, 10.0),
            output(Dtype::F32, 4 * MIB, close(1e-4, 1e-4)),
            output(Dtype::F32, 4 * MIB, close(1e-4, 1e-4)),
        ],
        grid: [32768, 1, 1],
        block: [128, 1, 1],
        shared: 0,
        args: &[
            Buf(0),
            Buf(1),
            Buf(2),
            Buf(3),
            Buf(4),
            F32(0.02),
            F32(0.3),
            I32(4 << 20),
        ],
        work: Work::Bytes((20 * 4) << 20),
    },
    Case {
        name: "softmax",
        ptx: ptx!("softmax"),
        kernel: "softmax",
        buffers: &[
            input(Dtype::F32, 32 * MIB, 180, -6.0, 6.0),
            output(Dtype::F32, 32 * MIB, close(1e-4, 0.0)),
        ],
        grid: [8192, 1, 1],
        block: [128, 1, 1],
        shared: 0,
        args: &[Buf(0), Buf(1), I32(4096)],
        work: Work::Bytes((8 * 32) << 20),
    },
    Case {
        name: "philox",
        ptx: ptx!("philox"),
        kernel: "philox_fill",
        buffers: &[
            output(Dtype::U32, 16 * MIB, Check::Exact),
            output(Dtype::F32, 4 * MIB, close(1e-6, 0.0)),
        ],
        grid: [16384, 1, 1],
        block: [256, 1, 1],
        shared: 0,
        args: &[
            Buf(0),
            Buf(1),
            U64(1311768467463790320),
            U32(99),
            I32(4 << 20),
        ],
        work: Work::Bytes((20 * 4) << 20),
    },
    Case {
        name: "sha256",
        ptx: ptx!("sha256"),
        kernel: "sha256",
        buffers: &[
            input(Dtype::U8, 120 << 17, 150, 0.0, 256.0),
            input(Dtype::U32, 1 << 17, 151, 0.0, 120.0),
            output(Dtype::U32, MIB, Check::Exact),
        ],
        grid: [2048, 1, 1],
        block: [64, 1, 1],
        shared: 0,
        args: &[Buf(0), I32(120), Buf(1), Buf(2), I32(1 << 17)],
        // About 3150 for each of the one or two blocks of a message.
        work: Work::Ops((3150 * 3 / 2) << 17),
    },
    Case {
        name: "nqueens",
        ptx: ptx!("nqueens"),
        kernel: "nqueens",
        buffers: &[
            output(Dtype::U64, 1, Check::Exact),
            output(Dtype::U32, 169, Check::Exact),
        ],
        grid: [3, 1, 1],
        block: [64, 1, 1],
        shared: 0,
        args: &[I32(13), Buf(0), Buf(1)],
        // Solutions.
        work: Work::Ops(73712),
    },
];
