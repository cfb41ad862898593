//! Products with the vector instructions of x86-64: the loops are the same for vectors of 256 and
//! of 512 bits.

use core::arch::x86_64::{
    __m128i, __m256, __m512, _CMP_UNORD_Q, _mm_loadu_ps, _mm_loadu_si128, _mm256_blendv_ps,
    _mm256_castps128_ps256, _mm256_castsi256_ps, _mm256_cmp_ps, _mm256_cvtepu16_epi32,
    _mm256_cvtph_ps, _mm256_fmadd_ps, _mm256_insertf128_ps, _mm256_loadu_ps, _mm256_set1_epi32,
    _mm256_set1_ps, _mm256_setzero_ps, _mm256_shuffle_ps, _mm256_slli_epi32, _mm256_storeu_ps,
    _mm256_unpackhi_ps, _mm256_unpacklo_ps, _mm512_castsi512_ps, _mm512_cmp_ps_mask,
    _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_mask_blend_ps, _mm512_set1_epi32, _mm512_set1_ps,
    _mm512_storeu_ps,
};

use std::ops::Range;

use super::{CANONICAL_NAN, Factor, Sums, UNIT, add_row, span};

/// Elements of B that stay in the first-level cache while all rows of A pass: half of it.
const PANEL: usize = 4096;

/// A vector of f32.
trait Vector: Copy {
    /// Elements.
    const LANES: usize;
    /// Rows of D in a block of two vectors of columns, whose sums are in registers. A processor
    /// begins two sums in each of the four or five cycles that one takes: so at least eight are
    /// under way, and as many as there are registers for.
    const MOST_ROWS: usize;

    /// # Safety
    ///
    /// These and the others below: the processor has the instructions, and `from` and `to` are at
    /// as many elements.
    unsafe fn load(from: *const f32) -> Self;
    unsafe fn store(self, to: *mut f32);
    unsafe fn splat(value: f32) -> Self;
    /// `self * by + sum`.
    unsafe fn multiply_add(self, by: Self, sum: Self) -> Self;
    /// [`CANONICAL_NAN`] in place of each NaN.
    unsafe fn canonical(self) -> Self;
}

impl Vector for __m256 {
    const LANES: usize = 8;
    const MOST_ROWS: usize = 6;

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the promise of the caller; so are those below.
        unsafe { _mm256_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: as above.
        unsafe { _mm256_storeu_ps(to, self) }
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: as above.
        unsafe { _mm256_set1_ps(value) }
    }

    #[inline(always)]
    unsafe fn multiply_add(self, by: Self, sum: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm256_fmadd_ps(self, by, sum) }
    }

    #[inline(always)]
    unsafe fn canonical(self) -> Self {
        // SAFETY: as above.
        unsafe {
            let nan = _mm256_castsi256_ps(_mm256_set1_epi32(CANONICAL_NAN as i32));
            _mm256_blendv_ps(self, nan, _mm256_cmp_ps::<_CMP_UNORD_Q>(self, self))
        }
    }
}

impl Vector for __m512 {
    const LANES: usize = 16;
    const MOST_ROWS: usize = 8;

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the promise of the caller; so are those below.
        unsafe { _mm512_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: as above.
        unsafe { _mm512_storeu_ps(to, self) }
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_set1_ps(value) }
    }

    #[inline(always)]
    unsafe fn multiply_add(self, by: Self, sum: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_fmadd_ps(self, by, sum) }
    }

    #[inline(always)]
    unsafe fn canonical(self) -> Self {
        // SAFETY: as above.
        unsafe {
            let nan = _mm512_castsi512_ps(_mm512_set1_epi32(CANONICAL_NAN as i32));
            let is_nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(self, self);
            _mm512_mask_blend_ps(is_nan, self, nan)
        }
    }
}

/// As outside; the sizes fit.
#[target_feature(enable = "avx2,fma")]
pub(super) fn multiply_add_256(a: Factor<'_>, b: Factor<'_>, d: Sums<'_>, sizes: [usize; 3]) {
    // SAFETY: the processor has the instructions; so it has below.
    unsafe { multiply_add::<__m256>(a, b, d, sizes) }
}

/// As [`multiply_add_256`].
#[target_feature(enable = "avx512f,avx2,fma")]
pub(super) fn multiply_add_512(a: Factor<'_>, b: Factor<'_>, d: Sums<'_>, sizes: [usize; 3]) {
    // SAFETY: as above.
    unsafe { multiply_add::<__m512>(a, b, d, sizes) }
}

/// # Safety
///
/// The processor has the instructions of `V`; so it has in what follows.
#[inline(always)]
unsafe fn multiply_add<V: Vector>(
    a: Factor<'_>,
    b: Factor<'_>,
    d: Sums<'_>,
    [m, n, k]: [usize; 3],
) {
    let block = 2 * V::LANES;
    let panel = (PANEL / k.max(1) / block).max(1) * block;
    for first in (0..n).step_by(panel) {
        let columns = first..n.min(first + panel);
        let mut row = 0;
        while row < m {
            let a = Factor {
                elements: a.elements.get(row * a.pitch..).unwrap_or(&[]),
                ..a
            };
            let bits = &mut d.bits[row * d.pitch..];
            let (d, columns) = (Sums { bits, ..d }, columns.clone());
            // SAFETY: the promise of the caller.
            row += unsafe {
                match m - row {
                    8.. if V::MOST_ROWS >= 8 => add_rows::<V, 8, 2>(a, b, d, columns, k),
                    6.. => add_rows::<V, 6, 2>(a, b, d, columns, k),
                    4 | 5 => add_rows::<V, 4, 2>(a, b, d, columns, k),
                    2 | 3 => add_rows::<V, 2, 4>(a, b, d, columns, k),
                    _ => add_rows::<V, 1, 8>(a, b, d, columns, k),
                }
            };
        }
    }
}

/// Some columns of the first `ROWS` rows, so many vectors of them at a time. Returns `ROWS`.
#[inline(always)]
unsafe fn add_rows<V: Vector, const ROWS: usize, const VECTORS: usize>(
    a: Factor<'_>,
    b: Factor<'_>,
    d: Sums<'_>,
    columns: Range<usize>,
    k: usize,
) -> usize {
    let mut column = columns.start;
    // SAFETY: the promise of the caller.
    unsafe {
        while column + VECTORS * V::LANES <= columns.end {
            block::<V, ROWS, VECTORS>(a, b, (d.bits, d.pitch), column, k);
            column += VECTORS * V::LANES;
        }
        while column + V::LANES <= columns.end {
            block::<V, ROWS, 1>(a, b, (d.bits, d.pitch), column, k);
            column += V::LANES;
        }
        while column + HALF <= columns.end {
            block::<__m256, ROWS, 1>(a, b, (d.bits, d.pitch), column, k);
            column += HALF;
        }
    }
    for row in 0..ROWS {
        let sums = &mut d.bits[row * d.pitch..][column..columns.end];
        if !sums.is_empty() && k > 0 {
            let elements = &b.elements[column..];
            add_row(
                &a.elements[row * a.pitch..][..k],
                Factor { elements, ..b },
                sums,
            );
        }
    }
    ROWS
}

/// Elements of the vectors for columns that are too few for longer ones.
const HALF: usize = __m256::LANES;

/// `ROWS` rows and `VECTORS` vectors of columns from `column` on.
#[inline(always)]
unsafe fn block<V: Vector, const ROWS: usize, const VECTORS: usize>(
    a: Factor<'_>,
    b: Factor<'_>,
    (d, pitch): (&mut [u32], usize),
    column: usize,
    k: usize,
) {
    let width = VECTORS * V::LANES;
    // What is read and written below lies in these.
    let from_a = &a.elements[..span(ROWS, k, a.pitch)];
    let from_b = match k {
        0 => &[][..],
        _ => &b.elements[column..][..span(k, width, b.pitch)],
    };
    let d = &mut d[column..][..span(ROWS, width, pitch)];
    // Loops, since a closure would be compiled without the vector instructions.
    // SAFETY: rows of D, of B and of A end within the slices above, and the caller promises the
    // instructions.
    unsafe {
        let mut sums = [[V::splat(0.0); VECTORS]; ROWS];
        for (row, sums) in sums.iter_mut().enumerate() {
            for (v, sum) in sums.iter_mut().enumerate() {
                *sum = V::load(d.as_ptr().add(row * pitch + v * V::LANES).cast());
            }
        }
        for k_idx in 0..k {
            let mut columns = [V::splat(0.0); VECTORS];
            for (v, columns) in columns.iter_mut().enumerate() {
                *columns = V::load(from_b.as_ptr().add(k_idx * b.pitch + v * V::LANES));
            }
            for (row, sums) in sums.iter_mut().enumerate() {
                let a = V::splat(*from_a.as_ptr().add(row * a.pitch + k_idx));
                for (sum, &b) in sums.iter_mut().zip(&columns) {
                    *sum = a.multiply_add(b, *sum);
                }
            }
        }
        for (row, sums) in sums.iter().enumerate() {
            for (v, &sum) in sums.iter().enumerate() {
                let to = d.as_mut_ptr().add(row * pitch + v * V::LANES);
                sum.canonical().store(to.cast());
            }
        }
    }
}

/// As outside, for whole blocks of eight by eight words. Returns how many rows and columns these
/// have.
#[target_feature(enable = "avx2")]
pub(super) fn transpose(
    (from, from_pitch): (&[u32], usize),
    sizes: [usize; 2],
    (to, pitch): (&mut [u32], usize),
) -> [usize; 2] {
    let [rows, columns] = sizes.map(|size| size / BLOCK * BLOCK);
    for row in (0..rows).step_by(BLOCK) {
        for column in (0..columns).step_by(BLOCK) {
            let from = &from[row * from_pitch + column..][..span(BLOCK, BLOCK, from_pitch)];
            let to = &mut to[column * pitch + row..][..span(BLOCK, BLOCK, pitch)];
            // SAFETY: the blocks are the slices above.
            unsafe { transpose_block((from.as_ptr(), from_pitch), (to.as_mut_ptr(), pitch)) };
        }
    }
    [rows, columns]
}

/// Rows and columns of what eight registers hold.
const BLOCK: usize = 8;

/// # Safety
///
/// Eight rows of eight words begin at both pointers.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn transpose_block((from, from_pitch): (*const u32, usize), (to, pitch): (*mut u32, usize)) {
    const HALF: usize = BLOCK / 2;
    for first in [0, HALF] {
        let mut rows = [_mm256_setzero_ps(); HALF];
        for (n, row) in rows.iter_mut().enumerate() {
            // Half of a row and of that four rows below: then no word changes the half of its
            // register.
            // SAFETY: the caller's promise.
            let [low, high] = [n, n + HALF]
                .map(|row| unsafe { _mm_loadu_ps(from.add(row * from_pitch + first).cast()) });
            *row = _mm256_insertf128_ps::<1>(_mm256_castps128_ps256(low), high);
        }
        let [a, b, c, d] = rows;
        let (ab, cd) = (_mm256_unpacklo_ps(a, b), _mm256_unpacklo_ps(c, d));
        let (ab_high, cd_high) = (_mm256_unpackhi_ps(a, b), _mm256_unpackhi_ps(c, d));
        let columns = [
            _mm256_shuffle_ps::<0b01_00_01_00>(ab, cd),
            _mm256_shuffle_ps::<0b11_10_11_10>(ab, cd),
            _mm256_shuffle_ps::<0b01_00_01_00>(ab_high, cd_high),
            _mm256_shuffle_ps::<0b11_10_11_10>(ab_high, cd_high),
        ];
        for (n, column) in columns.into_iter().enumerate() {
            // SAFETY: as above.
            unsafe { _mm256_storeu_ps(to.add((first + n) * pitch).cast(), column) };
        }
    }
}

/// As outside. False if a unit does not lie within the bytes.
#[target_feature(enable = "avx2")]
pub(super) fn from_bf16(bytes: &[u8], units: &[usize], out: &mut [f32]) -> bool {
    from_units(bytes, units, out, |unit| {
        _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(unit)))
    })
}

/// As outside. False if a unit does not lie within the bytes.
#[target_feature(enable = "avx2,f16c")]
pub(super) fn from_halves(bytes: &[u8], units: &[usize], out: &mut [f32]) -> bool {
    from_units(bytes, units, out, |unit| _mm256_cvtph_ps(unit))
}

/// The values of the eight numbers of each unit.
#[inline(always)]
fn from_units(
    bytes: &[u8],
    units: &[usize],
    out: &mut [f32],
    values: impl Fn(__m128i) -> __m256,
) -> bool {
    let Some(last) = bytes.len().checked_sub(UNIT) else {
        return units.is_empty();
    };
    let mut are_within = true;
    for (&at, to) in units.iter().zip(out.as_chunks_mut::<{ UNIT / 2 }>().0) {
        are_within &= at <= last;
        // SAFETY: the last unit lies within the bytes; both have the size of what is read and
        // written.
        unsafe {
            let unit = _mm_loadu_si128(bytes.as_ptr().add(at.min(last)).cast());
            _mm256_storeu_ps(to.as_mut_ptr(), values(unit));
        }
    }
    are_within
}
