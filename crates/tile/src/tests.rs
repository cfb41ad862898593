//! Against sums computed in sequence.

use super::*;

/// Numbers between -1 and 1.
fn numbers(n: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

type Multiply = fn(Factor<'_>, Factor<'_>, Sums<'_>, [usize; 3]);

/// The loops for vectors of all lengths that the processor has.
fn loops() -> Vec<Multiply> {
    let mut loops: Vec<Multiply> = vec![multiply_add, multiply_add_plain];
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        // SAFETY: the processor has the instructions.
        loops.push(|a, b, d, sizes| unsafe { vectors::multiply_add_256(a, b, d, sizes) });
    }
    loops
}

/// Between the rows of a matrix lie elements that count for nothing.
#[test]
fn sums_are_those_of_single_steps() {
    for multiply_add in loops() {
        sums_of(multiply_add);
    }
}

fn sums_of(multiply_add: Multiply) {
    for [m, n, k] in [
        [4, 16, 8],
        [128, 24, 16],
        [16, 8, 16],
        [3, 40, 5],
        [5, 11, 3],
        [2, 8, 0],
        [0, 8, 4],
        [9, 300, 64],
        [31, 104, 7],
    ] {
        for gap in [0, 3] {
            let pitches = [k + gap, n + 2 * gap, n + gap];
            let [a, b] = [m * pitches[0], k * pitches[1]].map(|len| numbers(len, len as u64));
            let old = numbers(m * pitches[2], 3);
            let mut got: Vec<u32> = old.iter().map(|sum| sum.to_bits()).collect();
            let factor = |elements, n: usize| Factor {
                elements,
                pitch: pitches[n],
            };
            let sums = Sums {
                bits: &mut got,
                pitch: pitches[2],
            };
            multiply_add(factor(&a, 0), factor(&b, 1), sums, [m, n, k]);
            for (at, &got) in got.iter().enumerate() {
                let (row, column) = (at / pitches[2], at % pitches[2]);
                let steps = 0..if column < n { k } else { 0 };
                let want = steps.fold(old[at], |sum, k_idx| {
                    a[row * pitches[0] + k_idx].mul_add(b[k_idx * pitches[1] + column], sum)
                });
                assert_eq!(
                    f32::from_bits(got),
                    want,
                    "{m} x {n} x {k}, {gap} between rows: {row}, {column}"
                );
            }
        }
    }
}

#[test]
fn each_nan_is_the_canonical_one() {
    for multiply_add in loops() {
        nans_of(multiply_add);
    }
}

fn nans_of(multiply_add: Multiply) {
    for n in [16, 8, 5] {
        let a = [f32::INFINITY, 1.0];
        let b: Vec<f32> = (0..2 * n)
            .map(|at| if at == 3 { 0.0 } else { 1.0 })
            .collect();
        let mut bits = vec![0; n];
        bits[2] = 0xffc0_1234;
        let factor = |elements, pitch| Factor { elements, pitch };
        let sums = Sums {
            bits: &mut bits,
            pitch: n,
        };
        multiply_add(factor(&a, 2), factor(&b, n), sums, [1, n, 2]);
        for (column, &got) in bits.iter().enumerate() {
            let want = match column {
                2 | 3 => 0x7fff_ffff,
                _ => f32::INFINITY.to_bits(),
            };
            assert_eq!(got, want, "column {column} of {n}");
        }
    }
}

#[test]
fn columns_become_rows() {
    for [rows, columns] in [[8, 16], [16, 8], [11, 9], [3, 4], [24, 17], [8, 0]] {
        let (from_pitch, pitch) = (columns + 2, rows + 5);
        let from: Vec<u32> = (0..(rows * from_pitch) as u32).collect();
        let mut to = vec![u32::MAX; columns * pitch];
        transpose((&from, from_pitch), [rows, columns], (&mut to, pitch));
        for (at, &got) in to.iter().enumerate() {
            let (column, row) = (at / pitch, at % pitch);
            let want = match row < rows {
                true => from[row * from_pitch + column],
                false => u32::MAX,
            };
            assert_eq!(got, want, "{rows} x {columns}: {row}, {column}");
        }
    }
}

#[test]
fn halves_keep_their_values() {
    let halves: Vec<u8> = [
        0x3c00u16, 0xc000, 0x0001, 0x7c00, 0x3555, 0x8000, 0x7bff, 0x0400, 0x3c01,
    ]
    .iter()
    .flat_map(|half| half.to_le_bytes())
    .collect();
    let mut out = [0.0; 9];
    from_halves(&halves, &mut out, |half| {
        assert_eq!(half, 0x3c01, "the rest behind a vector");
        1.0 + 1.0 / 1024.0
    });
    let small = 1.0 / 16_777_216.0;
    let third = f32::from_bits(0x3eaa_a000);
    let want = [
        1.0,
        -2.0,
        small,
        f32::INFINITY,
        third,
        -0.0,
        65504.0,
        1.0 / 16384.0,
        1.0 + 1.0 / 1024.0,
    ];
    assert_eq!(out.map(f32::to_bits), want.map(f32::to_bits));
}

#[test]
fn bf16_are_the_high_halves() {
    let halves: Vec<u8> = (0..19u16)
        .flat_map(|n| (0x3f80 + n * 0x0807).to_le_bytes())
        .collect();
    let mut out = [0.0; 19];
    from_bf16(&halves, &mut out);
    for (n, value) in (0..).zip(out) {
        assert_eq!(value.to_bits(), (0x3f80 + n * 0x0807) << 16);
    }
}
