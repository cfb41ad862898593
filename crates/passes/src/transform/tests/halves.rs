//! Halves of words as block parameters.

use ptxjit_ir::{CompareOp, Function, IntBinaryOp, ResizeOp, Type};

use super::values::{resize, shift};
use crate::testing::text::check;
use crate::transform::{dce, join_halves};
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

#[test]
fn halves_of_a_word_go_around_a_loop_together() {
    let mut func = loop_of_halves([0, 1]);
    assert!(join_halves::run(&mut func));
    dce::run(&mut func);
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
    // Here the high half of one word becomes the low half of the next.
    assert!(!join_halves::run(&mut loop_of_halves([1, 0])));
}
