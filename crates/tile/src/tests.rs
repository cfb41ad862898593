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

#[test]
fn sums_are_those_of_single_steps() {
    for [m, n, k] in [
        [4, 16, 8],
        [128, 24, 16],
        [16, 8, 16],
        [3, 40, 5],
        [5, 11, 3],
        [2, 8, 0],
    ] {
        let (a, b, d) = (numbers(m * k, 1), numbers(k * n, 2), numbers(m * n, 3));
        let mut got = d.clone();
        multiply_add(&a, &b, &mut got, [m, n, k]);
        for row in 0..m {
            for column in 0..n {
                let want = (0..k).fold(d[row * n + column], |sum, k_idx| {
                    a[row * k + k_idx].mul_add(b[k_idx * n + column], sum)
                });
                assert_eq!(
                    got[row * n + column],
                    want,
                    "{m} x {n} x {k}: {row}, {column}"
                );
            }
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
