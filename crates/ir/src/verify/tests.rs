//! The verifier accepts what is right and names each kind of wrong.

use super::function;
use crate::{
    BlockCall, Function, FunctionBuilder, FunctionKind, InstData, IntBinaryOp, Terminator, Type,
    Value, print,
};

fn add(ty: Type, a: Value, b: Value) -> InstData {
    InstData::IntBinary {
        op: IntBinaryOp::Add,
        ty,
        args: [a, b],
    }
}

/// A loop that counts to a parameter, by way of a variable.
fn counting() -> Function {
    let mut func = Function::new("count", FunctionKind::Device, vec![Type::B32]);
    let limit = func.add_param(func.entry, Type::B32);
    let mut b = FunctionBuilder::new(&mut func);
    let (entry, head, exit) = (b.current_block(), b.new_block(), b.new_block());
    b.seal(entry);
    let var = b.declare(Type::B32);
    let zero = b.iconst(Type::B32, 0);
    b.def_var(var, zero);
    b.jump(head);
    b.switch_to(head);
    let one = b.iconst(Type::B32, 1);
    let old = b.use_var(var);
    let new = b.ins(add(Type::B32, old, one), Type::B32);
    b.def_var(var, new);
    let more = b.ins(
        InstData::Compare {
            op: crate::CompareOp::Ult,
            ty: Type::B32,
            args: [new, limit],
        },
        Type::B1,
    );
    b.brif(more, head, exit);
    b.seal(head);
    b.switch_to(exit);
    b.seal(exit);
    let result = b.use_var(var);
    b.terminate(Terminator::Ret([result].into_iter().collect()));
    func
}

#[track_caller]
fn check(func: &Function, expected: &str) {
    let errors = function(func, None).expect_err("the function is wrong");
    assert!(
        errors
            .iter()
            .any(|error| error.to_string().contains(expected)),
        "{errors:?}"
    );
}

#[test]
fn accepts_a_loop() {
    let func = counting();
    assert_eq!(function(&func, None), Ok(()), "{}", print::function(&func));
}

#[test]
fn prints_a_loop() {
    let expected = "\
device count -> b32 {
block0(v0: b32):
    v1 = const.b32 0x0
    jump block1(v1)
block1(v3: b32):
    v2 = const.b32 0x1
    v4 = iadd.b32 v3, v2
    v5 = ult.b32 v4, v0
    brif v5, block1(v4), block2
block2:
    ret v4
}
";
    assert_eq!(print::function(&counting()), expected);
}

#[test]
fn rejects_wrong_operand_types() {
    let mut func = counting();
    let block = func.blocks.keys().nth(1).expect("there are three");
    let inst = func.blocks[block].insts[1];
    let InstData::IntBinary { ty, .. } = &mut func.insts[inst].data else {
        panic!("an addition")
    };
    *ty = Type::B64;
    check(&func, "is b32, not b64");
}

#[test]
fn rejects_a_use_before_the_definition() {
    let mut func = counting();
    let block = func.blocks.keys().nth(1).expect("there are three");
    func.blocks[block].insts.swap(1, 2);
    check(&func, "not defined on every way");
}

#[test]
fn rejects_a_use_that_is_not_dominated() {
    let mut func = counting();
    let exit = func.blocks.keys().nth(2).expect("there are three");
    let limit = func.params()[0];
    let cond = func.make_inst(
        InstData::Const {
            ty: Type::B1,
            bits: 1,
        },
        &[Type::B1],
        Default::default(),
    );
    func.blocks[func.entry].insts.push(cond);
    let Terminator::Jump(head) = func.blocks[func.entry].term.clone() else {
        panic!("a jump")
    };
    func.blocks[func.entry].term = Terminator::Brif {
        cond: func.insts[cond].results[0],
        then_: head,
        else_: BlockCall::new(exit),
    };
    assert_eq!(func.ty(limit), Type::B32);
    check(&func, "not defined on every way");
}

#[test]
fn rejects_missing_block_arguments() {
    let mut func = counting();
    for call in func.blocks[func.entry].term.targets_mut() {
        call.args.clear();
    }
    check(&func, "takes 1 arguments, not 0");
}

#[test]
fn rejects_a_wrong_return() {
    let mut func = counting();
    func.rets = vec![Type::B64];
    check(&func, "is b32, not b64");
}

#[test]
fn rejects_a_second_definition() {
    let mut func = counting();
    let inst = func.blocks[func.entry].insts[0];
    func.blocks[func.entry].insts.push(inst);
    check(&func, "defined twice");
}
