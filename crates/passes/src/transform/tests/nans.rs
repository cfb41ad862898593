//! Where `canonical_nans` puts its instructions.

use ptxjit_ir::{
    CompareOp, FloatBinaryOp, FloatFmt, FloatMode, FloatUnaryOp, Function, InstData, Space, Type,
    Value,
};

use crate::testing::text::check;
use crate::transform::canonical_nans;
use ptxjit_testing::{Build, function};

const B32: Type = Type::B32;
const B64: Type = Type::B64;

/// A function of a pointer, two numbers and a predicate after the pass.
fn mended(build: impl FnOnce(&mut Build<'_>, [Value; 4])) -> Function {
    let params = [B64, B32, B32, Type::B1];
    let mut func = function(&params, B32, |b, params| {
        build(b, [params[0], params[1], params[2], params[3]]);
    });
    canonical_nans::run(&mut func);
    func
}

fn sum(b: &mut Build<'_>, x: Value, y: Value) -> Value {
    let data = InstData::FloatBinary {
        op: FloatBinaryOp::Add,
        fmt: FloatFmt::F32,
        mode: FloatMode::RN,
        args: [x, y],
    };
    b.b.ins(data, B32)
}

fn negated(b: &mut Build<'_>, arg: Value) -> Value {
    let data = InstData::FloatUnary {
        op: FloatUnaryOp::Neg,
        fmt: FloatFmt::F32,
        mode: FloatMode::RN,
        arg,
    };
    b.b.ins(data, B32)
}

#[test]
fn what_is_stored_twice_is_made_canonical_once() {
    let func = mended(|b, [to, x, y, _]| {
        let z = sum(b, x, y);
        b.store(Space::Global, to, 0, z);
        b.store(Space::Global, to, 4, z);
        b.store(Space::Global, to, 8, x);
        b.ret(x);
    });
    check(
        &func,
        "block0(v0: b64, v1: b32, v2: b32, v3: b1):
                v4 = fadd.f32 v1, v2
                v5 = fcanonical.f32 v4
                store.global.b32 [v0], v5
                store.global.b32 [v0+4], v5
                store.global.b32 [v0+8], v1
                ret v1",
    );
}

#[test]
fn a_sign_changes_after_that() {
    let func = mended(|b, [to, x, y, _]| {
        let z = sum(b, x, y);
        let minus = negated(b, z);
        let w = sum(b, minus, y);
        b.store(Space::Global, to, 0, w);
        b.ret(minus);
    });
    check(
        &func,
        "block0(v0: b64, v1: b32, v2: b32, v3: b1):
                v4 = fadd.f32 v1, v2
                v5 = fcanonical.f32 v4
                v6 = fneg.f32 v5
                v7 = fadd.f32 v6, v2
                v8 = fcanonical.f32 v7
                store.global.b32 [v0], v8
                ret v6",
    );
}

#[test]
fn a_sum_that_a_loop_carries_waits_for_its_end() {
    let func = mended(|b, [_, x, y, _]| {
        let zero = b.iconst(B32, 0);
        let ((turn, acc), (done, result)) = (b.block_of(B32), b.block_of(B32));
        b.jump(turn, &[zero]);
        b.at(turn);
        let next = sum(b, acc, x);
        let more = b.compare(CompareOp::Ne, x, y);
        b.brif(more, (turn, &[next]), (done, &[next]));
        b.at(done);
        b.ret(result);
    });
    check(
        &func,
        "block0(v0: b64, v1: b32, v2: b32, v3: b1):
                v4 = const.b32 0x0
                jump block1(v4)
            block1(v5: b32):
                v6 = fadd.f32 v5, v1
                v7 = ne.b32 v1, v2
                brif v7, block1(v6), block2(v6)
            block2(v8: b32):
                v9 = fcanonical.f32 v8
                ret v9",
    );
}

/// The result is the loaded number, whose bits stay, or a sum: that becomes canonical on the edge
/// that leaves the loop.
#[test]
fn numbers_from_elsewhere_keep_their_bits() {
    let func = mended(|b, [from, x, y, skip]| {
        let loaded = b.load(Space::Global, B32, from, 0);
        let turn = b.block();
        let (done, result) = b.block_of(B32);
        b.brif(skip, (done, &[loaded]), (turn, &[]));
        b.at(turn);
        let z = sum(b, loaded, x);
        let more = b.compare(CompareOp::Ne, x, y);
        b.brif(more, (turn, &[]), (done, &[z]));
        b.at(done);
        b.ret(result);
    });
    check(
        &func,
        "block0(v0: b64, v1: b32, v2: b32, v3: b1):
                v4 = load.global.b32 [v0]
                brif v3, block3(v4), block1
            block1:
                v5 = fadd.f32 v4, v1
                v6 = ne.b32 v1, v2
                brif v6, block1, block2
            block2:
                v7 = fcanonical.f32 v5
                jump block3(v7)
            block3(v8: b32):
                ret v8",
    );
}

/// Products that are rounded up stay away from zero, however small their factors are.
#[test]
fn small_factors_do_not_make_numbers_of_what_may_overflow() {
    let func = mended(|b, [to, x, _, _]| {
        let one = InstData::FloatUnary {
            op: FloatUnaryOp::Sat,
            fmt: FloatFmt::F32,
            mode: FloatMode::RN,
            arg: x,
        };
        let mut z = b.b.ins(one, B32);
        for factor in [1e-30f32, 1e-30, 1e38, 1e38] {
            let factor = b.iconst(B32, u64::from(factor.to_bits()));
            let data = InstData::FloatBinary {
                op: FloatBinaryOp::Mul,
                fmt: FloatFmt::F32,
                mode: FloatMode::RN,
                args: [z, factor],
            };
            z = b.b.ins(data, B32);
        }
        b.store(Space::Global, to, 0, z);
        b.ret(x);
    });
    let text = crate::testing::text::text(&func);
    assert!(text.contains("fcanonical"), "{text}");
}

/// What is clamped to `[0, 1]` stays a number in arithmetic with constants, unless they are so
/// great that it may overflow.
#[test]
fn what_is_certainly_a_number_stays_as_it_is() {
    let func = mended(|b, [to, x, _, _]| {
        let clamp = InstData::FloatUnary {
            op: FloatUnaryOp::Sat,
            fmt: FloatFmt::F32,
            mode: FloatMode::RN,
            arg: x,
        };
        let clamped = b.b.ins(clamp, B32);
        for constant in [1000f32, 3e38] {
            let constant = b.iconst(B32, u64::from(constant.to_bits()));
            let z = sum(b, clamped, constant);
            b.store(Space::Global, to, 0, z);
        }
        b.ret(clamped);
    });
    check(
        &func,
        "block0(v0: b64, v1: b32, v2: b32, v3: b1):
                v4 = fsat.f32 v1
                v5 = const.b32 0x447a0000
                v6 = fadd.f32 v4, v5
                store.global.b32 [v0], v6
                v7 = const.b32 0x7f61b1e6
                v8 = fadd.f32 v4, v7
                v9 = fcanonical.f32 v8
                store.global.b32 [v0], v9
                ret v4",
    );
}
