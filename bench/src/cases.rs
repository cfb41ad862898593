//! The benchmarks: a kernel, its data, its launch, the work that it does.
//!
//! The arguments of the native version are those of the kernel in the same order (`native/*.c`).

pub(crate) mod more;
pub(crate) mod products;
pub(crate) mod standard;
pub(crate) mod varied;

/// A set of kernels.
#[derive(Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Set {
    /// Those that ptxjit was tuned by first.
    #[default]
    Standard,
    /// Those of `kernels/varied.cu`.
    Varied,
    /// Those of `kernels/more.cu`.
    More,
}

/// The kernels of a set.
pub(crate) fn of(set: Set) -> &'static [Case] {
    match set {
        Set::Standard => standard::CASES,
        Set::Varied => varied::CASES,
        Set::More => more::CASES,
    }
}

/// The cases that a filter means: the one of that name, else those whose names contain it.
pub(crate) fn chosen<'a>(
    cases: &'a [Case],
    filter: &'a str,
) -> impl Iterator<Item = &'a Case> + use<'a> {
    let exists = cases.iter().any(|case| case.name == filter);
    let is_meant = move |case: &&Case| case.name == filter || !exists && case.name.contains(filter);
    cases.iter().filter(is_meant)
}

/// One benchmark.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) ptx: &'static str,
    pub(crate) kernel: &'static str,
    pub(crate) buffers: &'static [BufferSpec],
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared: u32,
    pub(crate) args: &'static [ArgSpec],
    pub(crate) work: Work,
}

impl Case {
    /// A case whose kernel and native version have the same name and that needs no dynamic shared
    /// memory.
    const fn plain(
        ptx: &'static str,
        name: &'static str,
        [grid, block]: [[u32; 3]; 2],
        (buffers, args): (&'static [BufferSpec], &'static [ArgSpec]),
        work: Work,
    ) -> Case {
        Case {
            name,
            ptx,
            kernel: name,
            buffers,
            grid,
            block,
            shared: 0,
            args,
            work,
        }
    }
}

/// What one run gets done, to tell a rate.
#[derive(Clone, Copy)]
pub(crate) enum Work {
    /// Bytes that have to be moved at least.
    Bytes(u64),
    /// Useful operations.
    Ops(u64),
}

/// An array that kernel and native version work on.
pub(crate) struct BufferSpec {
    pub(crate) dtype: Dtype,
    pub(crate) count: usize,
    pub(crate) init: Init,
    pub(crate) role: Role,
}

/// The type of an array's elements.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dtype {
    F32,
    F64,
    Bf16,
    F16,
    E4m3,
    S8,
    S32,
    U8,
    U16,
    U32,
    U64,
}

/// Where an array's first contents come from.
pub(crate) enum Init {
    Zeros,
    /// Drawn from a seed, evenly from `lo` to below `hi`.
    Random {
        seed: u64,
        lo: f64,
        hi: f64,
    },
    /// Where each row of a sparse matrix of the seed begins, [`ROW`] numbers each.
    RowStarts,
    /// Column numbers: every second one near the diagonal, the others anywhere.
    Columns {
        seed: u64,
    },
}

/// Numbers in a row of the sparse matrix, on average; the rows have from half to one and a half
/// times as many.
pub(crate) const ROW: usize = 16;

/// How an array is used.
#[derive(Clone, Copy)]
pub(crate) enum Role {
    /// Only read.
    In,
    /// Written: restored before each run, compared afterwards.
    Out(Check),
}

/// When two results are the same.
#[derive(Clone, Copy)]
pub(crate) enum Check {
    Exact,
    /// Apart by at most `abs + rel * |native|`.
    Close {
        rel: f64,
        abs: f64,
    },
    /// At most this part of the elements differs.
    Mostly(f64),
}

/// An argument of the kernel.
#[derive(Clone, Copy)]
pub(crate) enum ArgSpec {
    /// The buffer at this place of the list.
    Buf(usize),
    I32(i32),
    U32(u32),
    U64(u64),
    F32(f32),
    F64(f64),
    /// A tensor map of a buffer of f32 with boxes of 64 x 64; the native version gets the buffer.
    Map {
        buffer: usize,
        width: u64,
        height: u64,
    },
    /// A texture of a buffer of f32 with linear filtering; the native version gets the buffer.
    Texture {
        buffer: usize,
        width: u32,
        height: u32,
    },
}

const fn input(dtype: Dtype, count: usize, seed: u64, lo: f64, hi: f64) -> BufferSpec {
    let init = Init::Random { seed, lo, hi };
    BufferSpec {
        dtype,
        count,
        init,
        role: Role::In,
    }
}

const fn output(dtype: Dtype, count: usize, check: Check) -> BufferSpec {
    BufferSpec {
        dtype,
        count,
        init: Init::Zeros,
        role: Role::Out(check),
    }
}

/// An array that a kernel reads and writes.
const fn updated(
    dtype: Dtype,
    count: usize,
    seed: u64,
    lo: f64,
    hi: f64,
    check: Check,
) -> BufferSpec {
    BufferSpec {
        role: Role::Out(check),
        ..input(dtype, count, seed, lo, hi)
    }
}

const fn close(rel: f64, abs: f64) -> Check {
    Check::Close { rel, abs }
}

macro_rules! ptx {
    ($name:literal) => {
        include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/kernels/",
            $name,
            ".ptx"
        ))
    };
}
use ptx;

/// The function that makes the cases of a module of kernels.
macro_rules! cases_of {
    ($module:literal) => {
        const fn case(
            name: &'static str,
            shape: [[u32; 3]; 2],
            buffers: &'static [super::BufferSpec],
            args: &'static [super::ArgSpec],
            work: Work,
        ) -> Case {
            Case::plain(super::ptx!($module), name, shape, (buffers, args), work)
        }
    };
}
use cases_of;

const MIB: usize = 1 << 20;
