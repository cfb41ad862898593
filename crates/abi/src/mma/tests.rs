//! Products by vectors against those of single elements.

use super::*;
use ptxjit_ir::{MatrixFmt, Round, SumFmt};

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
        layout: FragmentLayout::Quads,
        selector: None,
        scale: None,
    }
}

/// Forms that are done by vectors.
fn forms() -> Vec<Mma> {
    use MatrixFmt::{Bf16, E2m1, E2m3, E3m2, E4m3, E5m2, F16, S4, S8, Tf32, U4, U8};
    use SumFmt::{F16 as Half, F32, S32};
    let mut forms = vec![
        form(16, 8, [F16, F16], [Half, Half]),
        form(16, 16, [F16, F16], [F32, F32]),
        form(16, 16, [F16, F16], [F32, Half]),
        form(16, 16, [F16, F16], [Half, F32]),
        form(16, 8, [Bf16, Bf16], [F32, F32]),
        form(16, 16, [Bf16, Bf16], [F32, F32]),
        form(16, 4, [Tf32, Tf32], [F32, F32]),
        form(16, 8, [Tf32, Tf32], [F32, F32]),
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

/// Any bits at all: among them are infinities, NaNs and subnormal numbers of all formats.
fn bits(seed: &mut u64) -> u64 {
    *seed = seed
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    let word = *seed >> 32;
    match *seed >> 28 & 7 {
        0 => word | 0x7c00_7c00,
        1 => word & 0x83ff_83ff,
        2 => word | 0x7f80_0000,
        3 => 0,
        _ => word,
    }
}

#[test]
fn vectors_give_the_bits_of_single_elements() {
    let mut seed = 1;
    for mma in forms() {
        for group in [u32::MAX, u32::MAX, u32::MAX, 0x0fff_fff7] {
            let args: Vec<Lanes> = (0..mma.n_args())
                .map(|_| std::array::from_fn(|_| bits(&mut seed)))
                .collect();
            let mut got = [[0; WARP]; WarpOp::MAX_RESULTS];
            compute(&mma, group, &args, &mut got);
            let taking_part = args.iter().map(|register| {
                std::array::from_fn(|lane| register[lane] * u64::from(group >> lane & 1))
            });
            let want = eval::mma(&mma, &taking_part.collect::<Vec<_>>());
            assert_eq!(got[..want.len()], want[..], "{mma:?}, lanes {group:#x}");
        }
    }
}

#[test]
fn so_does_code_for_any_processor() {
    let mut seed = 2;
    for mma in forms() {
        let args: Vec<Lanes> = (0..mma.n_args())
            .map(|_| std::array::from_fn(|_| bits(&mut seed)))
            .collect();
        let mut buffer = Buffer::new(&mma, u32::MAX, &args);
        rows_by(&mma, &mut buffer.fragments(&mma), &Plain);
        for (n, want) in eval::mma(&mma, &args).iter().enumerate() {
            let got = read_register(&buffer.d, false, n);
            assert_eq!(got, *want, "{mma:?}, register {n}");
        }
    }
}

/// Two products by A that are added to the same sums, then three by other factors: in place and
/// not, alone and in pairs.
#[test]
fn products_in_a_frame_give_the_bits_of_single_elements() {
    let mut seed = 3;
    for (mma, group) in forms()
        .into_iter()
        .flat_map(|mma| [(mma, u32::MAX), (mma, 0xffff_7ffe)])
    {
        let mut n_registers = 0;
        let mut place = |n: usize| -> Offsets {
            let first = n_registers;
            n_registers += n;
            std::array::from_fn(|i| if i < n { 128 * (first + i) as u32 } else { 0 })
        };
        let a = [(); 2].map(|()| place(mma.a_registers()));
        let b = [(); 2].map(|()| place(mma.b_registers()));
        let sums = [(); 4].map(|()| place(mma.c_registers().max(mma.d_registers())));
        let product = |a, b, c: usize, d: usize, goes_with_next| Product {
            a,
            b,
            c: sums[c],
            further: [0; MOST_FURTHER],
            d: sums[d],
            goes_with_next,
        };
        let products = Products {
            mma,
            a: a.to_vec(),
            b: b.to_vec(),
            products: vec![
                product(0, 0, 0, 0, true),
                product(0, 1, 1, 2, false),
                product(1, 1, 0, 3, true),
                product(1, 0, 1, 1, true),
                product(1, 1, 2, 0, false),
            ],
        };
        let mut frame: Vec<[u32; WARP]> = (0..n_registers)
            .map(|_| std::array::from_fn(|_| bits(&mut seed) as u32))
            .collect();
        let mut want = frame.clone();
        // SAFETY: the registers of all products are in the frame.
        unsafe { products_op(&products, group.into(), frame.as_mut_ptr().cast()) };
        for product in &products.products {
            let of =
                |offsets: &Offsets, n: usize| offsets.map(|at| at as usize / 128)[..n].to_vec();
            let args = [
                of(&a[product.a], mma.a_registers()),
                of(&b[product.b], mma.b_registers()),
                of(&product.c, mma.c_registers()),
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
