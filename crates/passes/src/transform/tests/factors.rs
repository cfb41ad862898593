//! Factors of products that come from `movmatrix`.

use ptxjit_ir::{
    FragmentLayout, Function, InstData, MatrixFmt, Mma, ProductOp, Round, SumFmt, Type, Value,
    WarpOp,
};

use crate::testing::text::{check, text};
use crate::transform::transposed_factors;
use ptxjit_testing::{Build, function};

const B32: Type = Type::B32;

fn together(b: &mut Build<'_>, op: WarpOp, args: &[Value], n_results: usize) -> Value {
    let mut args: smallvec::SmallVec<[Value; 4]> = args.into();
    args.push(b.iconst(B32, 0xffff_ffff));
    let data = InstData::Warp {
        op,
        sync: true,
        ty: B32,
        args,
    };
    let inst = b.b.inst(data, &vec![B32; n_results]);
    b.b.func.insts[inst].results[0]
}

fn transpose(b: &mut Build<'_>, tile: Value) -> Value {
    together(b, WarpOp::Transpose, &[tile], 1)
}

/// The first register of a product by `factor`, whose other operands are `x`.
fn product(b: &mut Build<'_>, x: Value, factor: Value) -> Value {
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
    together(b, WarpOp::Mma(mma), &[x, x, factor, x, x, x, x], 4)
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
        let sum = product(b, x, factor);
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
        let sum = product(b, params[0], transposed);
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
