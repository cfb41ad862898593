//! Pieces of words as parameters of loops.

use ptxjit_ir::{CompareOp, Function, IntBinaryOp, ResizeOp, Space, Type};

use super::values::{resize, shift};
use crate::testing::text::check;
use crate::transform::{dce, join_params, simplify};
use ptxjit_testing::function;

const B16: Type = Type::B16;
const B32: Type = Type::B32;

/// A loop that takes the halves of a word around, and puts the two together with `low` and `high`
/// in these places.
fn loop_of_halves([low, high]: [usize; 2]) -> Function {
    function(&[B32, B32], B32, |b, params| {
        let head = b.block();
        let halves = [(); 2].map(|()| b.b.func.add_param(head, B16));
        let (exit, last) = b.block_of(B32);
        let first = [1, 2].map(|bits| b.iconst(B16, bits));
        b.jump(head, &first);
        b.at(head);
        let [below, above] = [halves[low], halves[high]];
        let below = resize(b, ResizeOp::Uext, B32, below);
        let above = resize(b, ResizeOp::Uext, B32, above);
        let above = shift(b, IntBinaryOp::Shl, above, 16);
        let word = b.int(IntBinaryOp::Or, above, below);
        let next = b.add(word, params[0]);
        let below = resize(b, ResizeOp::Trunc, B16, next);
        let above = shift(b, IntBinaryOp::Ushr, next, 16);
        let above = resize(b, ResizeOp::Trunc, B16, above);
        let more = b.compare(CompareOp::Ult, next, params[1]);
        b.brif(more, (head, &[below, above]), (exit, &[next]));
        b.at(exit);
        b.ret(last);
    })
}

/// The same behind the pass, and those that it needs.
fn joined_loop_of_halves(places: [usize; 2]) -> Function {
    let mut func = loop_of_halves(places);
    assert!(join_params::run(&mut func));
    assert!(simplify::run(&mut func));
    dce::run(&mut func);
    func
}

#[test]
fn halves_of_a_word_go_around_a_loop_together() {
    let func = joined_loop_of_halves([0, 1]);
    let expected = "
        block0(v0: b32, v1: b32):
        v2 = const.b32 0x20001
        jump block1(v2)
        block1(v3: b32):
        v4 = iadd.b32 v3, v0
        v5 = ult.b32 v4, v1
        brif v5, block1(v4), block2(v4)
        block2(v6: b32):
        ret v6";
    check(&func, expected);
}

#[test]
fn halves_that_change_places_are_put_together_in_each_iteration() {
    let func = joined_loop_of_halves([1, 0]);
    let expected = "
        block0(v0: b32, v1: b32):
        v2 = const.b32 0x10002
        jump block1(v2)
        block1(v3: b32):
        v4 = iadd.b32 v3, v0
        v5 = const.b32 0x10
        v6 = ushr.b32 v4, v5
        v7 = ult.b32 v4, v1
        v8 = const.b32 0xffff
        v9 = and.b32 v4, v8
        v10 = const.b32 0x10
        v11 = shl.b32 v9, v10
        v12 = or.b32 v11, v6
        brif v7, block1(v12), block2(v4)
        block2(v13: b32):
        ret v13";
    check(&func, expected);
}

#[test]
fn pieces_that_are_put_together_in_some_iterations_stay() {
    let mut func = function(&[B32, B32], B32, |b, params| {
        let (head, rare, latch) = (b.block(), b.block(), b.block());
        let pieces = [(); 2].map(|()| b.b.func.add_param(head, B32));
        let (exit, last) = b.block_of(B32);
        b.jump(head, params);
        b.at(head);
        let next = b.load(Space::Shared, B32, params[0], 0);
        let is_rare = b.compare(CompareOp::Eq, next, params[1]);
        b.brif(is_rare, (rare, &[]), (latch, &[]));
        b.at(rare);
        let both = b.int(IntBinaryOp::Xor, pieces[0], pieces[1]);
        b.store(Space::Shared, params[0], 0, both);
        b.jump(latch, &[]);
        b.at(latch);
        let other = b.load(Space::Shared, B32, params[1], 0);
        let more = b.compare(CompareOp::Ult, next, other);
        b.brif(more, (head, &[next, other]), (exit, &[next]));
        b.at(exit);
        b.ret(last);
    });
    assert!(!join_params::run(&mut func));
}
