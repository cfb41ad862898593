//! Products of small matrices of f32 by rows, and the conversions that lead there: what all matrix
//! instructions have in common.
//!
//! Each sum starts with what is in D, goes along K, and is rounded to the nearest f32 at each step.
//! So the results are the same with and without vector instructions, and in whatever order the sums
//! are worked on.

#![warn(missing_docs)]
#![expect(
    unsafe_code,
    reason = "vector instructions are chosen when running, and read and write through pointers"
)]

/// What stands for every NaN in a sum.
pub const CANONICAL_NAN: u32 = 0x7fff_ffff;

/// A matrix by rows: elements, and how many there are from one row to the next.
#[derive(Copy, Clone, Debug)]
pub struct Factor<'a> {
    /// The first row's first element is the first.
    pub elements: &'a [f32],
    /// At least the columns.
    pub pitch: usize,
}

/// Sums as the bits of f32, by rows.
#[derive(Debug)]
pub struct Sums<'a> {
    /// The first row's first sum is the first.
    pub bits: &'a mut [u32],
    /// From one row to the next; at least the columns.
    pub pitch: usize,
}

/// Elements from the first of so many rows to the last.
fn span(rows: usize, columns: usize, pitch: usize) -> usize {
    match rows {
        0 => 0,
        _ => (rows - 1) * pitch + columns,
    }
}

/// Adds A * B to D: A has `m` rows of `k` elements, B `k` rows of `n`, D `m` rows of `n`. Each NaN
/// in D is [`CANONICAL_NAN`] then.
///
/// # Panics
///
/// If a matrix has fewer elements, or a pitch is less than the columns.
pub fn multiply_add(a: Factor<'_>, b: Factor<'_>, d: Sums<'_>, [m, n, k]: [usize; 3]) {
    assert!(a.pitch >= k && b.pitch >= n && d.pitch >= n, "rows overlap");
    let a = Factor {
        elements: &a.elements[..span(m, k, a.pitch)],
        ..a
    };
    let b = Factor {
        elements: &b.elements[..span(k, n, b.pitch)],
        ..b
    };
    let d = Sums {
        bits: &mut d.bits[..span(m, n, d.pitch)],
        ..d
    };
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the processor has these instructions.
        return unsafe { vectors::multiply_add_512(a, b, d, [m, n, k]) };
    }
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        // SAFETY: the processor has these instructions.
        return unsafe { vectors::multiply_add_256(a, b, d, [m, n, k]) };
    }
    multiply_add_plain(a, b, d, [m, n, k]);
}

fn multiply_add_plain(a: Factor<'_>, b: Factor<'_>, d: Sums<'_>, [m, n, k]: [usize; 3]) {
    for row in 0..m {
        let sums = &mut d.bits[row * d.pitch..][..n];
        add_row(&a.elements[row * a.pitch..][..k], b, sums);
    }
}

/// Adds the product of a row of A and B to columns of D.
fn add_row(a: &[f32], b: Factor<'_>, sums: &mut [u32]) {
    for (column, bits) in sums.iter_mut().enumerate() {
        let steps = a.iter().enumerate();
        let sum = steps.fold(f32::from_bits(*bits), |sum, (k, &a)| {
            a.mul_add(b.elements[k * b.pitch + column], sum)
        });
        *bits = match sum.is_nan() {
            true => CANONICAL_NAN,
            false => sum.to_bits(),
        };
    }
}

/// Writes the columns of a matrix of words as rows: row `n` of `to` has the words of column `n` of
/// `from` in the order of its rows. With each matrix stands its pitch, the words from one row to
/// the next; rows and columns are those of `from`.
///
/// # Panics
///
/// If a matrix has fewer words, or a pitch is less than the columns.
pub fn transpose(
    (from, from_pitch): (&[u32], usize),
    [rows, columns]: [usize; 2],
    (to, pitch): (&mut [u32], usize),
) {
    assert!(from_pitch >= columns && pitch >= rows, "rows overlap");
    let from = &from[..span(rows, columns, from_pitch)];
    let to = &mut to[..span(columns, rows, pitch)];
    #[cfg(target_arch = "x86_64")]
    let [whole_rows, whole_columns] = match is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has the instructions.
        true => unsafe { vectors::transpose((from, from_pitch), [rows, columns], (to, pitch)) },
        false => [0; 2],
    };
    #[cfg(not(target_arch = "x86_64"))]
    let [whole_rows, whole_columns] = [0; 2];
    for row in 0..rows {
        let first = if row < whole_rows { whole_columns } else { 0 };
        for column in first..columns {
            to[column * pitch + row] = from[row * from_pitch + column];
        }
    }
}

/// Bytes of a unit, which is eight numbers of 16 bits.
const UNIT: usize = 16;

/// A unit that does not lie within the bytes.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Outside {
    /// Where it begins.
    pub at: usize,
}

/// The values of the f16 in units that begin at such bytes, one unit behind the other.
///
/// `plain` converts one, where the processor has no instruction for it.
///
/// # Errors
///
/// The first unit outside of the bytes; the values are anything then.
pub fn from_halves(
    bytes: &[u8],
    units: &[usize],
    out: &mut [f32],
    plain: impl Fn(u16) -> f32,
) -> Result<(), Outside> {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c") {
        // SAFETY: the processor has these instructions.
        let are_within = unsafe { vectors::from_halves(bytes, units, out) };
        return all_within(are_within, bytes, units);
    }
    from_each(bytes, units, out, plain)
}

/// The values of the bf16 in units that begin at such bytes, one unit behind the other.
///
/// # Errors
///
/// The first unit outside of the bytes; the values are anything then.
pub fn from_bf16(bytes: &[u8], units: &[usize], out: &mut [f32]) -> Result<(), Outside> {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has these instructions.
        let are_within = unsafe { vectors::from_bf16(bytes, units, out) };
        return all_within(are_within, bytes, units);
    }
    let value = |half| f32::from_bits(u32::from(half) << 16);
    from_each(bytes, units, out, value)
}

/// What units are if they `are_within` the bytes, or not.
fn all_within(are_within: bool, bytes: &[u8], units: &[usize]) -> Result<(), Outside> {
    if are_within {
        return Ok(());
    }
    let is_outside = |&at: &usize| unit(bytes, at).is_none();
    let first = units.iter().copied().find(is_outside);
    first.map_or(Ok(()), |at| Err(Outside { at }))
}

fn unit(bytes: &[u8], at: usize) -> Option<&[u8; UNIT]> {
    bytes.get(at..)?.first_chunk()
}

fn from_each(
    bytes: &[u8],
    units: &[usize],
    out: &mut [f32],
    value: impl Fn(u16) -> f32,
) -> Result<(), Outside> {
    for (&at, out) in units.iter().zip(out.as_chunks_mut::<{ UNIT / 2 }>().0) {
        let halves = unit(bytes, at).ok_or(Outside { at })?.as_chunks::<2>().0;
        for (out, &half) in out.iter_mut().zip(halves) {
            *out = value(u16::from_le_bytes(half));
        }
    }
    Ok(())
}

#[cfg(target_arch = "x86_64")]
mod vectors;

#[cfg(test)]
mod tests;
