//! Products by vectors against those of single elements.

use super::products::products_by;
#[cfg(target_arch = "x86_64")]
use super::steps::{Avx512, ByteDots, Dots};
use super::*;
use ptxjit_ir::{MatrixFmt, NumFmt, ProductOp, Round, Scale, SumFmt};

fn form(m: usize, k: usize, [a, b]: [MatrixFmt; 2], [c, d]: [SumFmt; 2]) -> Mma {
    Mma {
        m,
        k,
        a,
        b,
        c,
        d,
        op: ProductOp::Mul,
        round: Round::Rn,
        saturates: false,
        layout: FragmentLayout::Quads { b_by_rows: false },
        selector: None,
        scale: None,
    }
}

/// Forms that are done by vectors.
fn forms() -> Vec<Mma> {
    use MatrixFmt::{Bf16, E2m1, E2m3, E3m2, E4m3, E5m2, F16, S4, S8, Tf32, U4, U8};
    use SumFmt::{F16 as Half, F32, S32};
    let sparse = |k, fmts, sums, selector| Mma {
        selector: Some(selector),
        ..form(16, k, fmts, sums)
    };
    let bits = |m, k, op| Mma {
        op,
        ..form(m, k, [MatrixFmt::B1; 2], [S32; 2])
    };
    let by_rows = |mma| Mma {
        layout: FragmentLayout::Quads { b_by_rows: true },
        ..mma
    };
    let packed = [MatrixFmt::PackedE2m1; 2];
    let scaled = |mma, blocks, fmt| Mma {
        scale: Some(Scale { blocks, fmt }),
        ..mma
    };
    let mut forms = vec![
        bits(8, 128, ProductOp::And),
        bits(16, 128, ProductOp::Xor),
        bits(16, 256, ProductOp::And),
        bits(16, 256, ProductOp::Xor),
        sparse(16, [F16, F16], [F32, F32], 3),
        sparse(16, [Bf16, Bf16], [F32, F32], 0),
        sparse(32, [F16, F16], [Half, Half], 1),
        sparse(32, [Bf16, Bf16], [F32, F32], 0),
        sparse(8, [Tf32, Tf32], [F32, F32], 2),
        sparse(16, [Tf32, Tf32], [F32, F32], 1),
        sparse(32, [S8, U8], [S32, S32], 1),
        sparse(64, [U8, S8], [S32, S32], 0),
        sparse(64, [S4, U4], [S32, S32], 1),
        sparse(128, [U4, S4], [S32, S32], 0),
        sparse(64, [E4m3, E5m2], [F32, F32], 0),
        sparse(64, [E2m1, E3m2], [Half, Half], 0),
        scaled(form(16, 32, [E4m3, E5m2], [F32, F32]), 1, NumFmt::Ue8m0),
        scaled(form(16, 64, packed, [F32, F32]), 2, NumFmt::Ue8m0),
        scaled(form(16, 64, packed, [F32, F32]), 4, NumFmt::E4m3),
        scaled(sparse(64, [E3m2, E2m1], [F32, F32], 0), 1, NumFmt::Ue8m0),
        scaled(sparse(128, packed, [F32, F32], 0), 2, NumFmt::Ue8m0),
        scaled(sparse(128, packed, [F32, F32], 0), 4, NumFmt::E4m3),
        form(16, 8, [F16, F16], [Half, Half]),
        form(16, 16, [F16, F16], [F32, F32]),
        form(16, 16, [F16, F16], [F32, Half]),
        form(16, 16, [F16, F16], [Half, F32]),
        form(16, 8, [Bf16, Bf16], [F32, F32]),
        form(16, 16, [Bf16, Bf16], [F32, F32]),
        form(16, 4, [Tf32, Tf32], [F32, F32]),
        form(16, 8, [Tf32, Tf32], [F32, F32]),
        by_rows(form(16, 8, [F16, F16], [Half, F32])),
        by_rows(form(16, 16, [F16, F16], [F32, F32])),
        by_rows(form(16, 8, [Bf16, Bf16], [F32, F32])),
        by_rows(form(16, 16, [Bf16, Bf16], [F32, F32])),
        by_rows(sparse(32, [F16, F16], [F32, F32], 1)),
        by_rows(sparse(16, [Bf16, Bf16], [F32, F32], 0)),
        form(16, 16, [E4m3, E5m2], [F32, F32]),
        form(16, 32, [E5m2, E4m3], [Half, Half]),
        form(16, 32, [E3m2, E2m1], [F32, F32]),
        form(16, 32, [E2m1, E2m3], [Half, Half]),
        form(8, 16, [S8, U8], [S32, S32]),
        form(16, 16, [U8, S8], [S32, S32]),
        form(16, 32, [S8, S8], [S32, S32]),
        form(8, 32, [U4, S4], [S32, S32]),
        form(16, 32, [S4, U4], [S32, S32]),
        form(16, 64, [S4, S4], [S32, S32]),
    ];
    let clamped = forms.iter().filter(|mma| mma.c == S32).map(|&mma| Mma {
        saturates: true,
        ..mma
    });
    forms.extend(clamped.collect::<Vec<_>>());
    forms
}

/// Any bits at all: among them are infinities, NaNs and subnormal numbers of all formats, but so
/// few infinities and NaNs of the wide ones that most sums are numbers.
fn bits(seed: &mut u64) -> u64 {
    *seed = seed
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    let word = *seed >> 32;
    match *seed >> 26 & 63 {
        0 => word | 0x7c00_7c00,
        1 => word | 0x7f80_0000,
        2..8 => word & 0x83ff_83ff,
        8..16 => 0,
        _ => word & 0xbfff_bfff,
    }
}

/// Pairs of bf16 that may be multiplied by an instruction that has no subnormal numbers: from 2^-56
/// on, and half of them near that, so that sums are near the least normal number.
fn moderate(seed: &mut u64) -> u64 {
    let word = bits(seed);
    let least = (127 - 56) << 7 | (127 - 56) << 23;
    match word >> 4 & 31 {
        0 => word & 0x8000_8000,
        1 => word & 0x807f_8000 | 0x7f80_0000,
        2..16 => word & 0x807f_807f | (least + (word & 0x0180_0100)),
        _ => word & 0x807f_807f | (least + (word & 0x1f80_1f80)),
    }
}

/// Sums below the least one that such an instruction may add to, some of them subnormal, and some
/// not below it.
fn small_sum(seed: &mut u64) -> u64 {
    let word = bits(seed);
    match word & 7 {
        0 => 0,
        1 => word & 0x80ff_ffff | 24 << 23,
        _ => word & 0x8bff_ffff,
    }
}

/// Registers of all operands. Every other time the factors of blocks are moderate.
fn operands(mma: &Mma, seed: &mut u64) -> Vec<Lanes> {
    let first_factor = mma.n_args() - if mma.scale.is_some() { 2 } else { 0 };
    let is_moderate = *seed >> 40 & 1 == 0;
    (0..mma.n_args())
        .map(|n| {
            std::array::from_fn(|_| match n >= first_factor && is_moderate {
                true => 0x7060_8050 ^ bits(seed) & 0x1f1f_1f1f,
                false => bits(seed),
            })
        })
        .collect()
}

/// Compares a product with that of single elements, where other lanes' operands read as zero.
fn check(mma: &Mma, group: u32, args: &[Lanes]) {
    let mut got = [[0; WARP]; WarpOp::MAX_RESULTS];
    compute(mma, group, args, &mut got);
    let taking_part = args
        .iter()
        .map(|register| std::array::from_fn(|lane| register[lane] * u64::from(group >> lane & 1)));
    let want = eval::mma(mma, &taking_part.collect::<Vec<_>>());
    assert_eq!(got[..want.len()], want[..], "{mma:?}, lanes {group:#x}");
}

#[test]
fn vectors_give_the_bits_of_single_elements() {
    let mut seed = 1;
    for mma in forms() {
        for group in [u32::MAX, u32::MAX, u32::MAX, u32::MAX, 0x0fff_fff7] {
            let args = operands(&mma, &mut seed);
            check(&mma, group, &args);
        }
    }
}

#[test]
fn so_does_code_for_any_processor() {
    let mut seed = 2;
    let mut n_left_to_elements = 0;
    for mma in forms().iter().flat_map(|mma| [mma; 8]) {
        let args = operands(mma, &mut seed);
        let mut buffer = Buffer::new(mma, u32::MAX, &args);
        if !rows_by(mma, &mut buffer.fragments(mma), &Plain::<false>) {
            assert!(mma.scale.is_some(), "{mma:?}");
            n_left_to_elements += 1;
            continue;
        }
        for (n, want) in eval::mma(mma, &args).iter().enumerate() {
            let got = read_register(&buffer.d, false, n);
            assert_eq!(got, *want, "{mma:?}, register {n}");
        }
    }
    // Extreme factors are those of three of the six forms with factors.
    assert!(
        (1..32).contains(&n_left_to_elements),
        "{n_left_to_elements}"
    );
}

#[test]
fn products_of_f64_give_the_bits_of_single_elements() {
    let mut seed = 4;
    for (m, k, round) in [
        (8, 4, Round::Rn),
        (16, 4, Round::Rn),
        (16, 8, Round::Rn),
        (16, 16, Round::Rn),
        (16, 16, Round::Rz),
    ] {
        let mma = Mma {
            round,
            ..form(m, k, [MatrixFmt::F64; 2], [SumFmt::F64; 2])
        };
        // Of any bits, many sums are NaN; of those with few bits of the exponent, none is.
        for (mask, group) in [
            (u64::MAX, u32::MAX),
            (0x83ff_ffff_ffff_ffff, u32::MAX),
            (0x8fff_ffff_ffff_ffff, u32::MAX),
            (0x83ff_ffff_ffff_ffff, 0x7fff_fff3),
        ] {
            let mut wide = || (bits(&mut seed) << 32 | bits(&mut seed)) & mask;
            let args: Vec<Lanes> = (0..mma.n_args())
                .map(|_| std::array::from_fn(|_| wide()))
                .collect();
            check(&mma, group, &args);
        }
    }
}

/// Products that share factors and sums: in place and not, alone and in pairs, with more along K
/// and without.
#[test]
fn products_in_a_frame_give_the_bits_of_single_elements() {
    type Bits = fn(&mut u64) -> u64;
    let mut seed = 3;
    for (mma, group, [of_factors, of_sums]) in forms().into_iter().flat_map(|mma| {
        let values: [[Bits; 2]; 3] = [[bits; 2], [moderate; 2], [moderate, small_sum]];
        let all = values.map(|values| (mma, u32::MAX, values));
        all.into_iter().chain([(mma, 0xffff_7ffe, values[0])])
    }) {
        let mut n_registers = 0;
        let mut place = |n: usize| -> Offsets {
            let first = n_registers;
            n_registers += n;
            std::array::from_fn(|i| if i < n { 128 * (first + i) as u32 } else { 0 })
        };
        let a = [(); 2].map(|()| place(mma.a_registers()));
        let b = [(); 4].map(|()| place(mma.b_registers()));
        let sums = [(); 8].map(|()| place(mma.c_registers().max(mma.d_registers())));
        // Sums of another format are not changed in place.
        let results = match mma.c == mma.d {
            true => sums,
            false => [(); 8].map(|()| place(mma.d_registers())),
        };
        let further = [(); 2].map(|()| place(mma.further_registers()));
        let product = |a, b, c: usize, d: usize| Product {
            a,
            b,
            c: sums[c],
            further: std::array::from_fn(|n| further[c % 2][n]),
            d: results[d],
        };
        let mut list = vec![
            product(0, 0, 0, 0),
            product(0, 1, 1, 2),
            product(1, 1, 0, 3),
            product(1, 0, 1, 1),
            product(1, 1, 2, 0),
            // Those that go on with the sums of the third and the fourth, by one A and by two.
            product(0, 1, 3, 3),
            product(0, 0, 1, 1),
            product(1, 1, 3, 3),
            product(0, 0, 1, 1),
        ];
        // Four columns, and once more along K.
        for a in 0..2 {
            list.extend((0..4).map(|b| product(a, b, 4 + b, 4 + b)));
        }
        let products = Products::new(mma, a.to_vec(), b.to_vec(), list);
        let mut frame: Vec<[u32; WARP]> = (0..n_registers)
            .map(|_| std::array::from_fn(|_| of_factors(&mut seed) as u32))
            .collect();
        for at in sums.iter().flat_map(|at| &at[..mma.c_registers()]) {
            frame[*at as usize / 128] = std::array::from_fn(|_| of_sums(&mut seed) as u32);
        }
        for at in further.iter().flat_map(|at| &at[..mma.further_registers()]) {
            frame[*at as usize / 128] = std::array::from_fn(|lane| 0x7e7f_8081 + lane as u32);
        }
        let mut want = frame.clone();
        if Method::of(&mma) == Method::Rows && group == u32::MAX {
            // The registers of all products are in the frame.
            check_other_steps(&products, &frame);
        }
        // SAFETY: as above.
        unsafe { products_op(&products, group.into(), frame.as_mut_ptr().cast()) };
        for product in &products.products {
            let of =
                |offsets: &Offsets, n: usize| offsets.map(|at| at as usize / 128)[..n].to_vec();
            let args = [
                of(&a[product.a], mma.a_registers()),
                of(&b[product.b], mma.b_registers()),
                of(&product.c, mma.c_registers()),
                product.further[..mma.further_registers()]
                    .iter()
                    .map(|&at| at as usize / 128)
                    .collect(),
            ];
            let taking_part = |lane: usize| group >> lane & 1 != 0;
            let args: Vec<Lanes> = args
                .concat()
                .iter()
                .map(|&n| {
                    std::array::from_fn(|lane| match taking_part(lane) {
                        true => want[n][lane].into(),
                        false => 0,
                    })
                })
                .collect();
            let results = eval::mma(&mma, &args);
            for (n, register) in of(&product.d, mma.d_registers()).into_iter().zip(results) {
                for lane in (0..WARP).filter(|&lane| taking_part(lane)) {
                    want[n][lane] = register[lane] as u32;
                }
            }
        }
        assert_eq!(frame, want, "{mma:?}, lanes {group:#x}");
    }
}

/// Sums of which the least bit is half of the least normal number, because of a sum or a factor
/// that is just too small for the instruction that multiplies pairs.
#[test]
fn what_cancels_to_a_subnormal_number_stays() {
    let mma = form(16, 8, [MatrixFmt::Bf16; 2], [SumFmt::F32; 2]);
    // With `n` steps of the last bit above it.
    let power = |exponent: i32, n: u32| ((exponent + 127) as u32) << 7 | n;
    let pair = |first, second| first | second << 16;
    let minus = 0x8000;
    let least_bit = 1 << 22;
    for (name, a, b, c) in [
        (
            "a sum",
            pair(power(-52, 0), 0),
            pair(power(-52, 0) | minus, 0),
            (power(-104, 0) << 16) + 1,
        ),
        (
            "a factor",
            pair(power(-57, 1), power(-57, 2)),
            pair(power(-56, 1), power(-56, 0) | minus),
            0,
        ),
    ] {
        let offsets = |first: u32| -> Offsets { std::array::from_fn(|n| first + 128 * n as u32) };
        // The other steps along K add zero.
        let of_first_lane = |word: u32| std::array::from_fn(|n| if n % 4 == 0 { word } else { 0 });
        let mut frame = vec![[c; WARP]; 16];
        frame[..8].fill(of_first_lane(a));
        frame[8] = of_first_lane(b);
        let [of_a, of_b, of_c] = [0, 1024, 1152].map(offsets);
        let product = Product {
            a: 0,
            b: 0,
            c: of_c,
            further: [0; MOST_FURTHER],
            d: of_c,
        };
        let products = Products::new(mma, vec![of_a], vec![of_b], vec![product]);
        let got = products_of(&products, &frame, &Plain::<false>);
        assert_eq!(got[9], [least_bit; WARP], "{name}");
        check_other_steps(&products, &frame);
    }
}

/// Compares the steps of other processors with plain ones.
fn check_other_steps(products: &Products, frame: &[Words]) {
    let want = products_of(products, frame, &Plain::<false>);
    let paired = products_of(products, frame, &Plain::<true>);
    assert_eq!(paired, want, "{:?}, in plain code with dots", products.mma);
    #[cfg(target_arch = "x86_64")]
    {
        let by_256 = Avx2::detect().map(|steps| products_of(products, frame, &steps));
        let by_512 = Avx512::detect().map(|steps| products_of(products, frame, &steps));
        let by_bytes = ByteDots::detect().map(|steps| products_of(products, frame, &steps));
        let by_dots = Dots::detect().map(|steps| products_of(products, frame, &steps));
        for (name, got) in [
            ("AVX2", by_256),
            ("AVX-512", by_512),
            ("dots of bytes", by_bytes),
            ("dots", by_dots),
        ] {
            assert!(
                got.is_none_or(|got| got == want),
                "{:?} with {name}",
                products.mma
            );
        }
    }
}

/// A frame in which the registers of all products are, after them.
fn products_of(products: &Products, frame: &[Words], steps: &impl Steps) -> Vec<Words> {
    let mut frame = frame.to_vec();
    // SAFETY: the callers have all registers in the frame.
    unsafe { products_by(products, frame.as_mut_ptr().cast(), steps) };
    frame
}
