//! Products of matrices in the lanes' registers, for compiled code and the runtime.
//!
//! Most are done by vectors of the eight columns of B, the rest element by element as the interpreter does them
//! ([`eval::mma`]); both give the same bits.

#![expect(
    unsafe_code,
    reason = "compiled code passes addresses of its own instructions and buffers; vector instructions are chosen when running"
)]

use ptxjit_ir::{FragmentLayout, InstData, MatrixFmt, Mma, ProductOp, SumFmt, Type, WarpOp, eval};

use crate::float_env::with_default_rounding;
use crate::warp_ops::{Lanes, WARP};
#[cfg(target_arch = "x86_64")]
use steps::Avx2;
use steps::{Plain, Steps, transpose};

/// A register of each lane, or half of one of 64 bits: there, the words of one lane lie side by side in two of these.
pub type Words = [u32; WARP];

/// Operands and results as compiled code keeps them.
struct Fragments<'a> {
    a: &'a [Words],
    b: &'a [Words],
    c: &'a [Words],
    /// Metadata and factors.
    further: &'a [Words],
    d: &'a mut [Words],
}

impl Fragments<'_> {
    /// The registers of A, B and C, and what is behind.
    fn registers(&self, mma: &Mma) -> Vec<Lanes> {
        let wide = mma.register() == Type::B64;
        [
            (self.a, mma.a_registers()),
            (self.b, mma.b_registers()),
            (self.c, mma.c_registers()),
            (self.further, mma.further_registers()),
        ]
        .iter()
        .flat_map(|&(words, n)| (0..n).map(move |n| read_register(words, wide, n)))
        .collect()
    }
}

/// Bytes from one register of all lanes to the next.
pub const fn register_stride(ty: Type) -> usize {
    WARP * ty.bytes() as usize
}

/// Computes a product for the lanes of `group`, which are all that take part in it.
///
/// # Safety
///
/// `data` points to an [`InstData::Warp`] with a product that the running kernel keeps; the others to as many registers as the
/// product has of each matrix, and to what is behind C, if there is anything. Nobody else uses those of D.
pub unsafe extern "C" fn mma_op(
    data: *const InstData,
    group: u64,
    a: *const Words,
    b: *const Words,
    c: *const Words,
    further: *const Words,
    d: *mut Words,
) {
    // SAFETY: the caller's promise.
    let InstData::Warp {
        op: WarpOp::Mma(mma),
        ..
    } = (unsafe { &*data })
    else {
        return;
    };
    let words = register_stride(mma.register()) / size_of::<Words>();
    // SAFETY: the caller's promise.
    let mut fragments = unsafe {
        use core::slice::{from_raw_parts, from_raw_parts_mut};
        Fragments {
            a: from_raw_parts(a, mma.a_registers() * words),
            b: from_raw_parts(b, mma.b_registers() * words),
            c: from_raw_parts(c, mma.c_registers() * words),
            further: match mma.further_registers() {
                0 => &[],
                n => from_raw_parts(further, n * words),
            },
            d: from_raw_parts_mut(d, mma.d_registers() * words),
        }
    };
    let group = group as u32;
    if group == u32::MAX {
        return with_default_rounding(|| product(mma, &mut fragments));
    }
    let args = fragments.registers(mma);
    let mut out = [[0; WARP]; WarpOp::MAX_RESULTS];
    compute(mma, group, &args, &mut out);
    for (n, register) in out[..mma.d_registers()].iter().enumerate() {
        write_register(fragments.d, mma.register() == Type::B64, n, register);
    }
}

/// The registers of D from those of A, B and C.
pub fn compute(mma: &Mma, group: u32, args: &[Lanes], out: &mut [Lanes]) {
    let mut buffer = Buffer::new(mma, group, args);
    with_default_rounding(|| product(mma, &mut buffer.fragments(mma)));
    for (n, register) in out.iter_mut().take(mma.d_registers()).enumerate() {
        *register = read_register(&buffer.d, mma.register() == Type::B64, n);
    }
}

/// Room for the registers of any product.
struct Buffer {
    args: [Words; 2 * WarpOp::MAX_ARGS],
    d: [Words; 2 * WarpOp::MAX_RESULTS],
}

impl Buffer {
    /// Lanes that take no part are not allowed; their operands read as zero.
    fn new(mma: &Mma, group: u32, args: &[Lanes]) -> Buffer {
        let mut buffer = Buffer {
            args: [[0; WARP]; 2 * WarpOp::MAX_ARGS],
            d: [[0; WARP]; 2 * WarpOp::MAX_RESULTS],
        };
        for (n, register) in args.iter().enumerate() {
            let taken = |lane: usize| register[lane] * u64::from(group >> lane & 1);
            let register = std::array::from_fn(taken);
            write_register(&mut buffer.args, mma.register() == Type::B64, n, &register);
        }
        buffer
    }

    fn fragments(&mut self, mma: &Mma) -> Fragments<'_> {
        let words = register_stride(mma.register()) / size_of::<Words>();
        let (a, rest) = self.args.split_at(mma.a_registers() * words);
        let (b, rest) = rest.split_at(mma.b_registers() * words);
        let (c, further) = rest.split_at(mma.c_registers() * words);
        Fragments {
            a,
            b,
            c,
            further,
            d: &mut self.d,
        }
    }
}

fn read_register(words: &[Words], wide: bool, n: usize) -> Lanes {
    let flat = words.as_flattened();
    std::array::from_fn(|lane| {
        if wide {
            let at = 2 * (WARP * n + lane);
            u64::from(flat[at]) | u64::from(flat[at + 1]) << 32
        } else {
            flat[WARP * n + lane].into()
        }
    })
}

fn write_register(words: &mut [Words], wide: bool, n: usize, register: &Lanes) {
    let flat = words.as_flattened_mut();
    for (lane, &bits) in register.iter().enumerate() {
        if wide {
            let at = 2 * (WARP * n + lane);
            (flat[at], flat[at + 1]) = (bits as u32, (bits >> 32) as u32);
        } else {
            flat[WARP * n + lane] = bits as u32;
        }
    }
}

fn product(mma: &Mma, fragments: &mut Fragments<'_>) {
    let is_common = mma.layout == FragmentLayout::Quads
        && mma.op == ProductOp::Mul
        && mma.further_registers() == 0;
    match mma.c {
        SumFmt::F16 | SumFmt::F32 if is_common => floats(mma, fragments),
        SumFmt::S32 if is_common => integers(mma, fragments),
        _ => {
            let wide = mma.register() == Type::B64;
            for (n, register) in eval::mma(mma, &fragments.registers(mma)).iter().enumerate() {
                write_register(fragments.d, wide, n, register);
            }
        }
    }
}

/// No shape has more rows of A.
const ROWS: usize = 16;
const COLUMNS: usize = 8;

/// A by rows, B by rows, with room for `K` columns of A.
struct Factors<T, const K: usize> {
    a: [[T; K]; ROWS],
    b: [[T; COLUMNS]; K],
}

impl<T: Copy + Default, const K: usize> Factors<T, K> {
    /// Takes fragments apart: a register of four lanes holds part of a row of A, or of a column of B, whose `N` elements `decode`
    /// finds in it.
    #[inline(always)]
    fn unpack<const N: usize>(
        mma: &Mma,
        fragments: &Fragments<'_>,
        decode_a: impl Fn([u32; 4]) -> [T; N],
        decode_b: impl Fn([u32; 4]) -> [T; N],
        transpose: impl Fn(&[[T; N]; COLUMNS], &mut [[T; COLUMNS]]),
        order: &[usize; COLUMNS],
    ) -> Self {
        let mut factors = Factors {
            a: [[T::default(); K]; ROWS],
            b: [[T::default(); COLUMNS]; K],
        };
        let n_below = mma.m / 8;
        for (n, register) in fragments.a.iter().enumerate() {
            for (g, words) in register.as_chunks::<4>().0.iter().enumerate() {
                let (row, k) = (g + n % n_below * 8, n / n_below * N);
                factors.a[row][k..k + N].copy_from_slice(&decode_a(*words));
            }
        }
        for (n, register) in fragments.b.iter().enumerate() {
            let mut columns = [[T::default(); N]; COLUMNS];
            for (words, &place) in register.as_chunks::<4>().0.iter().zip(order) {
                columns[place] = decode_b(*words);
            }
            transpose(&columns, &mut factors.b[n * N..][..N]);
        }
        factors
    }
}

/// Where the columns of B, C and D stand in vectors: one by one,
const IN_ORDER: [usize; COLUMNS] = [0, 1, 2, 3, 4, 5, 6, 7];
/// or the even ones before the odd ones, as two registers of f32 hold them.
const EVEN_FIRST: [usize; COLUMNS] = [0, 4, 1, 5, 2, 6, 3, 7];

/// Products of floats, for processors with and without the vector instructions that serve here.
fn floats(mma: &Mma, fragments: &mut Fragments<'_>) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c")
    {
        // SAFETY: the processor has these instructions.
        return unsafe { floats_by_vectors(mma, fragments) };
    }
    float_product(mma, fragments, &Plain);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
fn floats_by_vectors(mma: &Mma, fragments: &mut Fragments<'_>) {
    float_product(mma, fragments, &Avx2);
}

#[inline(always)]
fn float_product(mma: &Mma, fragments: &mut Fragments<'_>, steps: &impl Steps) {
    let order = if (mma.c, mma.d) == (SumFmt::F32, SumFmt::F32) {
        &EVEN_FIRST
    } else {
        &IN_ORDER
    };
    match mma.a {
        MatrixFmt::F16 => {
            let halves = |words| steps.from_halves(words);
            let factors = Factors::<f32, 16>::unpack(
                mma,
                fragments,
                halves,
                halves,
                |columns, rows| steps.transpose(columns, rows),
                order,
            );
            add_floats(mma, fragments, &factors, steps);
        }
        MatrixFmt::Bf16 => {
            let factors = Factors::<f32, 16>::unpack(
                mma,
                fragments,
                from_bf16,
                from_bf16,
                |columns, rows| steps.transpose(columns, rows),
                order,
            );
            add_floats(mma, fragments, &factors, steps);
        }
        MatrixFmt::Tf32 => {
            let factors = Factors::<f32, 8>::unpack(
                mma,
                fragments,
                from_tf32,
                from_tf32,
                |columns, rows| steps.transpose(columns, rows),
                order,
            );
            add_floats(mma, fragments, &factors, steps);
        }
        _ => {
            let (a, b) = (byte_table(mma.a), byte_table(mma.b));
            let factors = Factors::<f32, 32>::unpack(
                mma,
                fragments,
                |words| bytes(words).map(|byte| a[usize::from(byte)]),
                |words| bytes(words).map(|byte| b[usize::from(byte)]),
                |columns, rows| steps.transpose(columns, rows),
                order,
            );
            add_floats(mma, fragments, &factors, steps);
        }
    }
}

/// Adds the products to C.
#[inline(always)]
fn add_floats<const K: usize>(
    mma: &Mma,
    fragments: &mut Fragments<'_>,
    factors: &Factors<f32, K>,
    steps: &impl Steps,
) {
    if (mma.c, mma.d) == (SumFmt::F32, SumFmt::F32) {
        return add_singles(mma, fragments, factors, steps);
    }
    let c = fragments.c;
    for below in 0..mma.m / 8 {
        let mut sums = [[0.0; COLUMNS]; 8];
        for (g, sums) in sums.iter_mut().enumerate() {
            if mma.c == SumFmt::F32 {
                for n in 0..COLUMNS {
                    sums[n] = f32::from_bits(c[2 * below + n % 2][4 * g + n / 2]);
                }
            } else {
                let words = std::array::from_fn(|t| c[below][4 * g + t]);
                *sums = steps.from_halves(words);
            }
        }
        steps.add_rows(factors, 8 * below, mma.k, &mut sums);
        for (g, sums) in sums.iter().enumerate() {
            if mma.d == SumFmt::F32 {
                for (n, &sum) in sums.iter().enumerate() {
                    let bits = if sum.is_nan() {
                        0x7fff_ffff
                    } else {
                        sum.to_bits()
                    };
                    fragments.d[2 * below + n % 2][4 * g + n / 2] = bits;
                }
                continue;
            }
            let canonical = |half: u16| if half & 0x7fff > 0x7c00 { 0x7fff } else { half };
            let halves = steps.to_halves(sums).map(canonical).map(u32::from);
            for (t, pair) in halves.as_chunks::<2>().0.iter().enumerate() {
                fragments.d[below][4 * g + t] = pair[0] | pair[1] << 16;
            }
        }
    }
}

/// The same where C and D are of f32: two registers hold the even and the odd columns of eight rows, four words of each row.
#[inline(always)]
fn add_singles<const K: usize>(
    mma: &Mma,
    fragments: &mut Fragments<'_>,
    factors: &Factors<f32, K>,
    steps: &impl Steps,
) {
    let c = fragments.c.as_chunks::<2>().0;
    let d = fragments.d.as_chunks_mut::<2>().0;
    for (below, (c, d)) in c.iter().zip(d).take(mma.m / 8).enumerate() {
        let mut sums = [[0.0; COLUMNS]; 8];
        for (g, sums) in sums.iter_mut().enumerate() {
            for n in 0..4 {
                sums[n] = f32::from_bits(c[0][4 * g + n]);
                sums[n + 4] = f32::from_bits(c[1][4 * g + n]);
            }
        }
        steps.add_rows(factors, 8 * below, mma.k, &mut sums);
        for (g, sums) in sums.iter().enumerate() {
            let bits = sums.map(|sum| match sum.is_nan() {
                true => 0x7fff_ffff,
                false => sum.to_bits(),
            });
            let (even, odd) = bits.split_at(4);
            d[0][4 * g..][..4].copy_from_slice(even);
            d[1][4 * g..][..4].copy_from_slice(odd);
        }
    }
}

#[inline(always)]
fn from_bf16(words: [u32; 4]) -> [f32; 8] {
    std::array::from_fn(|n| f32::from_bits(words[n / 2] >> (n % 2 * 16) << 16))
}

#[inline(always)]
fn from_tf32(words: [u32; 4]) -> [f32; 4] {
    words.map(|word| f32::from_bits(word & 0xffff_e000))
}

#[inline(always)]
fn bytes(words: [u32; 4]) -> [u8; 16] {
    std::array::from_fn(|n| (words[n / 4] >> (n % 4 * 8)) as u8)
}

/// The values of all bytes in a format.
fn byte_table(fmt: MatrixFmt) -> &'static [f32; 256] {
    use std::sync::LazyLock;
    static TABLES: LazyLock<[[f32; 256]; 5]> = LazyLock::new(|| {
        FORMATS.map(|fmt| {
            std::array::from_fn(
                |byte| f32::from_bits(eval::matrix_element(fmt, byte as u64) as u32),
            )
        })
    });
    const FORMATS: [MatrixFmt; 5] = [
        MatrixFmt::E4m3,
        MatrixFmt::E5m2,
        MatrixFmt::E3m2,
        MatrixFmt::E2m3,
        MatrixFmt::E2m1,
    ];
    let number = FORMATS.iter().position(|&other| other == fmt);
    &TABLES[number.unwrap_or(0)]
}

/// Products of bytes or nibbles.
fn integers(mma: &Mma, fragments: &mut Fragments<'_>) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has these instructions.
        return unsafe { integers_by_vectors(mma, fragments) };
    }
    integer_product(mma, fragments);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn integers_by_vectors(mma: &Mma, fragments: &mut Fragments<'_>) {
    integer_product(mma, fragments);
}

#[inline(always)]
fn integer_product(mma: &Mma, fragments: &mut Fragments<'_>) {
    let byte = |fmt| {
        let sign = if fmt == MatrixFmt::S8 { 0x80 } else { 0 };
        move |words| bytes(words).map(|byte| (i32::from(byte) ^ sign) - sign)
    };
    let nibble = |fmt| {
        let sign = if fmt == MatrixFmt::S4 { 8 } else { 0 };
        move |words: [u32; 4]| {
            let nibble = |n: usize| (words[n / 8] >> (n % 8 * 4) & 0xf) as i32;
            std::array::from_fn(|n| (nibble(n) ^ sign) - sign)
        }
    };
    let factors: Factors<i32, 64> = if mma.a.bits() == 8 {
        Factors::unpack::<16>(
            mma,
            fragments,
            byte(mma.a),
            byte(mma.b),
            transpose,
            &IN_ORDER,
        )
    } else {
        Factors::unpack::<32>(
            mma,
            fragments,
            nibble(mma.a),
            nibble(mma.b),
            transpose,
            &IN_ORDER,
        )
    };
    let c = fragments.c;
    for below in 0..mma.m / 8 {
        // At most 64 products of 16 bits: this cannot wrap.
        for (g, row) in factors.a[8 * below..].iter().take(8).enumerate() {
            let mut sums = [0; COLUMNS];
            for (&a, b) in row[..mma.k].iter().zip(&factors.b) {
                for (sum, &b) in sums.iter_mut().zip(b) {
                    *sum += a * b;
                }
            }
            for (n, &sum) in sums.iter().enumerate() {
                let (register, lane) = (2 * below + n % 2, 4 * g + n / 2);
                let c = c[register][lane] as i32;
                let sum = if mma.saturates {
                    c.saturating_add(sum)
                } else {
                    c.wrapping_add(sum)
                };
                fragments.d[register][lane] = sum as u32;
            }
        }
    }
}

mod steps;
#[cfg(test)]
mod tests;
