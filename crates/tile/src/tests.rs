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

/// f16, and their values as f32.
const HALVES: [(u16, f32); 8] = [
    (0x3c00, 1.0),
    (0xc000, -2.0),
    (0x0001, 1.0 / 16_777_216.0),
    (0x7c00, f32::INFINITY),
    (0x3400, 0.25),
    (0x8000, -0.0),
    (0x7bff, 65504.0),
    (0x0400, 1.0 / 16384.0),
];

#[test]
fn halves_keep_their_values() {
    let bytes: Vec<u8> = (HALVES.iter().cycle().take(12))
        .flat_map(|(half, _)| half.to_le_bytes())
        .collect();
    // The second unit begins with the fifth half.
    let (units, mut out, mut plain) = ([0, 8], [0.0; 16], [0.0; 16]);
    let value = |half| {
        let (_, value) = HALVES.iter().find(|&&(bits, _)| bits == half).unwrap();
        *value
    };
    from_halves(&bytes, &units, &mut out, value).unwrap();
    from_each(&bytes, &units, &mut plain, value).unwrap();
    for got in [out, plain] {
        for (n, got) in got.into_iter().enumerate() {
            let (_, want) = HALVES[(n / 8 * 4 + n % 8) % 8];
            assert_eq!(got.to_bits(), want.to_bits(), "value {n}");
        }
    }
}

#[test]
fn bf16_are_the_high_halves() {
    let half = |n: u32| 0x3f80 + n * 0x0807;
    let bytes: Vec<u8> = (0..19)
        .flat_map(|n| (half(n) as u16).to_le_bytes())
        .collect();
    let mut out = [0.0; 16];
    from_bf16(&bytes, &[22, 6], &mut out).unwrap();
    for (n, value) in (0..).zip(out) {
        let place = if n < 8 { 11 + n } else { 3 + n - 8 };
        assert_eq!(value.to_bits(), half(place) << 16);
    }
}

#[test]
fn the_first_unit_outside_is_named() {
    let (bytes, mut out) = ([0; 32], [0.0; 24]);
    for (units, at) in [([16, 17, 18], 17), ([usize::MAX, 0, 40], usize::MAX)] {
        let want = Err(Outside { at });
        assert_eq!(from_bf16(&bytes, &units, &mut out), want);
        assert_eq!(from_halves(&bytes, &units, &mut out, |_| 0.0), want);
        assert_eq!(from_each(&bytes, &units, &mut out, |_| 0.0), want);
    }
    assert_eq!(from_bf16(&[0; 15], &[0], &mut out), Err(Outside { at: 0 }));
}
