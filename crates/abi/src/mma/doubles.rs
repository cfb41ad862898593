//! Products of f64, rounded to nearest.

use ptxjit_ir::Mma;

use super::operands::column_slot;
#[cfg(target_arch = "x86_64")]
use super::steps::Avx2;
use super::steps::{Plain, Steps, Work};
use super::{COLUMNS, Fragments, ROWS, Words};
use crate::warp_ops::WARP;

/// Words along K at most.
const MAX_K: usize = 16;

type Row = [f64; COLUMNS];

/// D = A * B + C; false if a sum is NaN, of which the bits depend on the order of the operands.
pub(super) fn product(mma: &Mma, fragments: &mut Fragments<'_>) -> bool {
    // Columns of B, C and D stand in the order of `column_slot`.
    let (mut a, mut b) = ([[0.0; MAX_K]; ROWS], [[0.0; COLUMNS]; MAX_K]);
    let mut sums = [[0.0; COLUMNS]; ROWS];
    // In 16 rows, two registers of A that hold the same columns follow each other.
    let is_tall = usize::from(mma.m == 16);
    for (n, register) in registers(fragments.a, mma.a_registers()) {
        let (below, further) = (n & is_tall, n >> is_tall);
        for (lane, &value) in register.iter().enumerate() {
            a[lane / 4 + 8 * below][lane % 4 + 4 * further] = double(value);
        }
    }
    for (n, register) in registers(fragments.b, mma.b_registers()) {
        for (lane, &value) in register.iter().enumerate() {
            b[lane % 4 + 4 * n][column_slot(lane / 4)] = double(value);
        }
    }
    for (n, register) in registers(fragments.c, mma.c_registers()) {
        for (lane, &value) in register.iter().enumerate() {
            let [row, slot] = place_of_sum(lane, n);
            sums[row][slot] = double(value);
        }
    }
    add(&a[..mma.m], &b[..mma.k], &mut sums[..mma.m]);
    if sums[..mma.m].as_flattened().iter().any(|sum| sum.is_nan()) {
        return false;
    }
    let words = fragments.d.as_flattened_mut().as_chunks_mut::<2>().0;
    for (n, word) in words.iter_mut().enumerate().take(WARP * mma.d_registers()) {
        let [row, slot] = place_of_sum(n % WARP, n / WARP);
        let bits = sums[row][slot].to_bits();
        *word = [bits as u32, (bits >> 32) as u32];
    }
    true
}

/// Words of the lanes' registers, each with its number.
fn registers(
    words: &[Words],
    n_registers: usize,
) -> impl Iterator<Item = (usize, &[[u32; 2]; WARP])> {
    let words = words.as_flattened().as_chunks::<2>().0;
    (words.as_chunks().0.iter().enumerate()).take(n_registers)
}

fn double([low, high]: [u32; 2]) -> f64 {
    f64::from_bits(u64::from(low) | u64::from(high) << 32)
}

/// The row and the slot of a lane's sum.
const fn place_of_sum(lane: usize, register: usize) -> [usize; 2] {
    let column = 2 * (lane % 4) + register % 2;
    [lane / 4 + register / 2 * 8, column_slot(column)]
}

fn add(a: &[[f64; MAX_K]], b: &[Row], sums: &mut [Row]) {
    let work = Add { a, b, sums };
    #[cfg(target_arch = "x86_64")]
    if let Some(steps) = Avx2::detect() {
        return steps.compiled(work);
    }
    Plain::<false>.compiled(work);
}

struct Add<'a> {
    a: &'a [[f64; MAX_K]],
    b: &'a [Row],
    sums: &'a mut [Row],
}

impl Work for Add<'_> {
    type Output = ();

    /// Four rows of sums at a time.
    #[inline(always)]
    fn run<S: Steps>(self, steps: &S) {
        let rows = self.sums.as_chunks_mut::<4>().0;
        for (a, rows) in self.a.as_chunks::<4>().0.iter().zip(rows) {
            let mut sums = [[steps.wide_splat(0.0); 2]; 4];
            for (sums, row) in sums.iter_mut().zip(&*rows) {
                *sums = steps.wide_load(row);
            }
            for (k, row) in self.b.iter().enumerate() {
                let columns = steps.wide_load(row);
                for (a, sums) in a.iter().zip(&mut sums) {
                    let a = steps.wide_splat(a[k]);
                    for (sum, column) in sums.iter_mut().zip(columns) {
                        *sum = steps.wide_add(a, column, *sum);
                    }
                }
            }
            for (row, sums) in rows.iter_mut().zip(sums) {
                *row = steps.wide_columns(sums);
            }
        }
    }
}
