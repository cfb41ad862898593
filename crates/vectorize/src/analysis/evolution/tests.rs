//! How far values move from one CTA to the next.

use ptxjit_ir::{CompareOp, InstData, IntBinaryOp, Space, SpecialReg, Type, Value};

use super::{CtaSteps, Step};
use ptxjit_testing::{Build, function};

const B32: Type = Type::B32;
const B64: Type = Type::B64;

fn sreg(b: &mut Build<'_>, sreg: SpecialReg) -> Value {
    b.b.ins(InstData::Sreg { sreg }, B32)
}

/// The step of what `build` makes.
fn step(build: impl FnOnce(&mut Build<'_>) -> Value) -> Option<Step> {
    let mut made = None;
    let func = function(&[], B64, |b, _| {
        made = Some(build(b));
        let zero = b.iconst(B64, 0);
        b.ret(zero);
    });
    CtaSteps::new(&func).of(made.expect("it was built"))
}

/// `(ctaid.x * n + tid.x) * 4`, wide.
fn address(b: &mut Build<'_>, n: Value) -> Value {
    let (cta, tid) = (sreg(b, SpecialReg::CtaidX), sreg(b, SpecialReg::TidX));
    let first = b.int(IntBinaryOp::Mul, cta, n);
    let idx = b.add(first, tid);
    let four = b.iconst(B32, 4);
    let args = [idx, four];
    let data = InstData::IntBinary {
        op: IntBinaryOp::SmulWide,
        ty: B32,
        args,
    };
    b.b.ins(data, B64)
}

#[test]
fn an_index_moves_by_the_threads_of_a_cta() {
    let by_constant = step(|b| {
        let n = b.iconst(B32, 256);
        address(b, n)
    });
    assert!(by_constant == Some(Step::Const(1024)));
    let mut n_threads = None;
    let by_value = step(|b| {
        let n = sreg(b, SpecialReg::NtidX);
        n_threads = Some(n);
        address(b, n)
    });
    let by_value = by_value.expect("it moves steadily");
    assert!(by_value != Step::Const(0));
    assert!(by_value.all(&|value| Some(value) == n_threads));
}

#[test]
fn clamps_are_not_looked_at() {
    let clamped = step(|b| {
        let (cta, most) = (sreg(b, SpecialReg::CtaidX), b.iconst(B32, 7));
        b.int(IntBinaryOp::Smin, cta, most)
    });
    assert!(clamped == Some(Step::Const(1)));
}

#[test]
fn other_coordinates_stay() {
    assert!(step(|b| sreg(b, SpecialReg::CtaidY)) == Some(Step::Const(0)));
    assert!(step(|b| sreg(b, SpecialReg::TidX)) == Some(Step::Const(0)));
}

#[test]
fn what_memory_holds_is_unknown() {
    let loaded = step(|b| {
        let addr = b.iconst(B64, 64);
        b.load(Space::Global, B32, addr, 0)
    });
    assert!(loaded.is_none());
}

#[test]
fn what_depends_on_the_way_taken_is_unknown() {
    let mut joined = None;
    let func = function(&[], B64, |b, _| {
        let (then_, else_, join) = (b.b.new_block(), b.b.new_block(), b.b.new_block());
        let var = b.b.declare(B32);
        let tid = sreg(b, SpecialReg::TidX);
        let zero = b.iconst(B32, 0);
        let is_first = b.compare(CompareOp::Eq, tid, zero);
        b.b.brif(is_first, then_, else_);
        for block in [then_, else_] {
            b.b.switch_to(block);
            let (cta, n) = (sreg(b, SpecialReg::CtaidX), sreg(b, SpecialReg::NtidX));
            let scaled = b.int(IntBinaryOp::Mul, cta, n);
            b.b.def_var(var, scaled);
            b.b.jump(join);
        }
        b.b.switch_to(join);
        b.b.seal(join);
        joined = Some(b.b.use_var(var));
        let zero = b.iconst(B64, 0);
        b.ret(zero);
    });
    assert!(
        CtaSteps::new(&func)
            .of(joined.expect("it was built"))
            .is_none()
    );
}
