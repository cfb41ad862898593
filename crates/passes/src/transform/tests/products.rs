//! Products: factors that come from `movmatrix`, and sums that others go on with.

use ptxjit_ir::{
    FragmentLayout, Function, InstData, MatrixFmt, Mma, ProductOp, Round, Space, SumFmt, Type,
    Value, WarpOp,
};
use smallvec::SmallVec;

use crate::testing::text::{check, text};
use crate::transform::{gather_products, gvn, transposed_factors};
use ptxjit_testing::{Build, function};

const B32: Type = Type::B32;

fn together(b: &mut Build<'_>, op: WarpOp, args: &[Value], n_results: usize) -> Vec<Value> {
    let mut args: SmallVec<[Value; 4]> = args.into();
    args.push(b.iconst(B32, 0xffff_ffff));
    let data = InstData::Warp {
        op,
        sync: true,
        ty: B32,
        args,
    };
    let inst = b.b.inst(data, &vec![B32; n_results]);
    b.b.func.insts[inst].results.to_vec()
}

fn transpose(b: &mut Build<'_>, tile: Value) -> Value {
    together(b, WarpOp::Transpose, &[tile], 1)[0]
}

/// A product with `x` for A, `factor` for B and `sums` for C.
fn product(b: &mut Build<'_>, x: Value, factor: Value, sums: &[Value]) -> Vec<Value> {
    let mma = Mma {
        m: 16,
        k: 8,
        a: MatrixFmt::Bf16,
        b: MatrixFmt::Bf16,
        c: SumFmt::F32,
        d: SumFmt::F32,
        op: ProductOp::Mul,
        round: Round::Rn,
        saturates: false,
        layout: FragmentLayout::Quads { b_by_rows: false },
        selector: None,
        scale: None,
    };
    together(b, WarpOp::Mma(mma), &[&[x, x, factor], sums].concat(), 4)
}

/// A loop that takes a tile around, which it is entered with after a branch if `diverges`.
fn tile_around_a_loop(diverges: bool) -> Function {
    function(&[B32, Type::B1], B32, |b, params| {
        let (head, factor) = b.block_of(B32);
        let [other, exit] = [(); 2].map(|()| b.block());
        let x = params[0];
        let first = transpose(b, x);
        match diverges {
            true => b.brif(params[1], (head, &[first]), (other, &[])),
            false => b.jump(other, &[]),
        }
        b.at(other);
        b.jump(head, &[first]);
        b.at(head);
        let sum = product(b, x, factor, &[x; 4])[0];
        let next = transpose(b, sum);
        b.brif(params[1], (head, &[next]), (exit, &[]));
        b.at(exit);
        b.ret(sum);
    })
}

#[test]
fn a_loop_takes_the_tile_around_and_not_its_transpose() {
    let mut func = tile_around_a_loop(false);
    assert!(transposed_factors::run(&mut func));
    let expected = "
        block0(v0: b32, v1: b1):
        v2 = const.b32 0xffffffff
        jump block1
        block1:
        jump block2(v0)
        block2(v3: b32):
        v4 = const.b32 0xffffffff
        v5, v6, v7, v8 = mma.m16n8k8.f32.bf16.bf16.f32.b_by_rows.sync.b32 v0, v0, v3, v0, v0, v0, v0, v4
        v9 = const.b32 0xffffffff
        brif v1, block2(v5), block3
        block3:
        ret v5";
    check(&func, expected);
}

#[test]
fn lanes_that_come_by_two_branches_have_tiles_of_their_own() {
    let mut func = tile_around_a_loop(true);
    let before = text(&func);
    assert!(!transposed_factors::run(&mut func));
    check(&func, &before);
}

#[test]
fn a_transpose_stays_where_something_else_reads_it() {
    let mut func = function(&[B32], B32, |b, params| {
        let transposed = transpose(b, params[0]);
        let sum = product(b, params[0], transposed, &[params[0]; 4])[0];
        let both = b.add(sum, transposed);
        b.ret(both);
    });
    assert!(transposed_factors::run(&mut func));
    let expected = "
        block0(v0: b32):
        v1 = const.b32 0xffffffff
        v2 = movmatrix.sync.b32 v0, v1
        v3 = const.b32 0xffffffff
        v4, v5, v6, v7 = mma.m16n8k8.f32.bf16.bf16.f32.b_by_rows.sync.b32 v0, v0, v0, v0, v0, v0, v0, v3
        v8 = iadd.b32 v4, v2
        ret v8";
    check(&func, expected);
}

/// Two products that are added to the same sums, with a load between and, if `is_read`, something
/// that reads the first sums. The second one has the loaded word for a factor if `is_loaded`.
fn with_a_load_between(is_loaded: bool, is_read: bool) -> Function {
    function(&[B32, Type::B64], B32, |b, params| {
        let x = params[0];
        let first = product(b, x, x, &[x; 4]);
        let word = b.load(Space::Global, B32, params[1], 0);
        if is_read {
            b.store(Space::Global, params[1], 4, first[3]);
        }
        let factor = if is_loaded { word } else { x };
        let second = product(b, x, factor, &first);
        let sum = b.add(second[0], word);
        b.ret(sum);
    })
}

#[test]
fn a_product_sinks_to_the_one_that_goes_on_with_its_sums() {
    let mut func = with_a_load_between(true, false);
    assert!(gather_products::run(&mut func));
    let expected = "
        block0(v0: b32, v1: b64):
        v2 = const.b32 0xffffffff
        v3 = load.global.b32 [v1]
        v4 = const.b32 0xffffffff
        v5, v6, v7, v8 = mma.m16n8k8.f32.bf16.bf16.f32.sync.b32 v0, v0, v0, v0, v0, v0, v0, v2
        v9, v10, v11, v12 = mma.m16n8k8.f32.bf16.bf16.f32.sync.b32 v0, v0, v3, v5, v6, v7, v8, v4
        v13 = iadd.b32 v9, v3
        ret v13";
    check(&func, expected);
}

#[test]
fn a_product_is_hoisted_to_the_one_whose_sums_it_goes_on_with() {
    for is_read in [false, true] {
        let mut func = with_a_load_between(false, is_read);
        gvn::run(&mut func);
        assert!(gather_products::run(&mut func));
        let text = text(&func);
        let (second, load) = (text.rfind("mma"), text.find("load"));
        assert!(second < load, "{text}");
    }
}

/// Products that each go on with the sums of the one before, by a factor loaded in between.
#[test]
fn four_products_sink_together() {
    let mut func = function(&[B32, Type::B64], B32, |b, params| {
        let x = params[0];
        let mut sums = product(b, x, x, &[x; 4]);
        for n in 1..5 {
            let word = b.load(Space::Global, B32, params[1], 4 * n);
            sums = product(b, x, word, &sums);
        }
        b.ret(sums[0]);
    });
    assert!(gather_products::run(&mut func));
    let text = text(&func);
    let order = text.lines().filter_map(|line| {
        let mut names = ["load", "mma"].into_iter();
        names.find(|&name| line.contains(name))
    });
    let order: Vec<&str> = order.collect();
    let expected = "load load load mma mma mma mma load mma";
    assert_eq!(order.join(" "), expected, "{text}");
}

#[test]
fn a_product_whose_sums_are_read_does_not_sink() {
    let mut func = with_a_load_between(true, true);
    let before = text(&func);
    assert!(!gather_products::run(&mut func));
    check(&func, &before);
}

/// The second product is computed if a condition holds only.
#[test]
fn a_product_stays_behind_its_branch() {
    let mut func = function(&[B32, Type::B1], B32, |b, params| {
        let x = params[0];
        let first = product(b, x, x, &[x; 4]);
        let then = b.block();
        let (end, sum) = b.block_of(B32);
        b.brif(params[1], (then, &[]), (end, &[first[0]]));
        b.at(then);
        let second = product(b, x, x, &first);
        b.jump(end, &[second[0]]);
        b.at(end);
        b.ret(sum);
    });
    assert!(!gather_products::run(&mut func));
}
