//! Passes that look at control flow: clean-up, conversion to selects, loops, inlining.

use std::collections::BTreeMap;

use cranelift_entity::{EntityRef, PrimaryMap};
use ptxjit_ir::{
    CompareOp, FuncId, Function, FunctionKind, InstData, IntBinaryOp, KernelAttrs, MemSem, Program,
    ResizeOp, Scope, Space, Terminator, Type, WarpOp, verify,
};

use crate::analysis::call_graph;
use crate::pipeline::{self, Options};
use crate::testing::text::{check, text};
use crate::transform::{cfg_cleanup, dce, if_convert, inline, licm, wide_division};
use ptxjit_testing::{Build, function};

const B1: Type = Type::B1;
const B32: Type = Type::B32;
const B64: Type = Type::B64;

#[test]
fn constant_branches_and_lines_are_merged() {
    let mut func = function(&[B32], B32, |b, params| {
        let (left, right, (join, joined)) = (b.block(), b.block(), b.block_of(B32));
        let yes = b.iconst(B1, 1);
        b.brif(yes, (left, &[]), (right, &[]));
        b.at(left);
        let sum = b.add(params[0], params[0]);
        b.jump(join, &[sum]);
        b.at(right);
        b.jump(join, &[params[0]]);
        b.at(join);
        b.ret(joined);
    });
    assert!(cfg_cleanup::run(&mut func));
    dce::run(&mut func);
    check(&func, "block0(v0: b32):\n v1 = iadd.b32 v0, v0\n ret v1");
}

#[test]
fn empty_blocks_are_skipped() {
    let mut func = function(&[B1, B32, B32], B32, |b, params| {
        let (left, (middle, passed), (join, joined)) =
            (b.block(), b.block_of(B32), b.block_of(B32));
        b.brif(params[0], (left, &[]), (join, &[params[2]]));
        b.at(left);
        b.jump(middle, &[params[1]]);
        b.at(middle);
        b.jump(join, &[passed]);
        b.at(join);
        b.ret(joined);
    });
    assert!(cfg_cleanup::run(&mut func));
    let expected = "
        block0(v0: b1, v1: b32, v2: b32):
        brif v0, block1(v1), block1(v2)
        block1(v3: b32):
        ret v3";
    check(&func, expected);
}

#[test]
fn an_empty_endless_loop_stays() {
    let mut func = function(&[], B32, |b, _| {
        let (left, right) = (b.block(), b.block());
        b.jump(left, &[]);
        b.at(left);
        b.jump(right, &[]);
        b.at(right);
        b.jump(left, &[]);
    });
    cfg_cleanup::run(&mut func);
    check(&func, "block0:\n jump block1\n block1:\n jump block1");
}

#[test]
fn a_kernel_that_jumps_to_its_start_gets_an_entry() {
    let mut func = crate::testing::graph(&[vec![0, 1], vec![]]);
    assert!(cfg_cleanup::run(&mut func));
    let entry = func.entry;
    let leads_to_entry = |term: &Terminator| term.targets().iter().any(|call| call.block == entry);
    assert!(!func.blocks.values().any(|data| leads_to_entry(&data.term)));
}

#[test]
fn short_sides_become_selects() {
    let mut func = function(&[B1, B32, B32], B32, |b, params| {
        let (left, (join, joined)) = (b.block(), b.block_of(B32));
        b.brif(params[0], (left, &[]), (join, &[params[2]]));
        b.at(left);
        let sum = b.add(params[1], params[2]);
        b.jump(join, &[sum]);
        b.at(join);
        b.ret(joined);
    });
    assert!(if_convert::run(&mut func));
    cfg_cleanup::run(&mut func);
    let expected = "
        block0(v0: b1, v1: b32, v2: b32):
        v3 = iadd.b32 v1, v2
        v4 = select.b32 v0, v3, v2
        ret v4";
    check(&func, expected);
}

#[test]
fn loads_and_warp_operations_do_not_run_for_nothing() {
    let convert = |data: fn(ptxjit_ir::Value) -> InstData| {
        let mut func = function(&[B1, B64, B32], B32, |b, params| {
            let (left, (join, joined)) = (b.block(), b.block_of(B32));
            b.brif(params[0], (left, &[]), (join, &[params[2]]));
            b.at(left);
            let value = b.b.ins(data(params[1]), B32);
            b.jump(join, &[value]);
            b.at(join);
            b.ret(joined);
        });
        if_convert::run(&mut func)
    };
    assert!(!convert(|addr| InstData::Load {
        space: Space::Global,
        sem: MemSem::Weak,
        scope: Scope::Sys,
        ty: B32,
        n: 1,
        addr,
        offset: 0
    }));
    assert!(!convert(|_| InstData::Warp {
        op: WarpOp::ActiveMask,
        sync: false,
        ty: B32,
        args: Default::default()
    }));
    assert!(convert(|addr| InstData::Resize {
        op: ptxjit_ir::ResizeOp::Trunc,
        from: B64,
        to: B32,
        arg: addr
    }));
}

/// A loop that adds up words: address and limit are parameters.
fn summing(space: Space, sem: MemSem) -> Function {
    function(&[B64, B32, B32], B32, |b, params| {
        let (head, count) = b.block_of(B32);
        let exit = b.block();
        let zero = b.iconst(B32, 0);
        b.jump(head, &[zero]);
        b.at(head);
        let data = InstData::Load {
            space,
            sem,
            scope: Scope::Sys,
            ty: B32,
            n: 1,
            addr: params[0],
            offset: 0,
        };
        let step = b.b.ins(data, B32);
        let scaled = b.int(IntBinaryOp::Mul, params[1], params[2]);
        let step = b.add(step, scaled);
        let next = b.add(count, step);
        let more = b.compare(CompareOp::Ult, next, params[2]);
        b.brif(more, (head, &[next]), (exit, &[]));
        b.at(exit);
        b.ret(next);
    })
}

#[test]
fn what_a_loop_does_not_change_moves_out() {
    let mut func = summing(Space::Global, MemSem::NonCoherent);
    assert!(licm::run(&mut func, 0));
    let expected = "
        block0(v0: b64, v1: b32, v2: b32):
        v3 = const.b32 0x0
        v4 = load.global.nc.b32 [v0]
        v5 = imul.b32 v1, v2
        v6 = iadd.b32 v4, v5
        jump block1(v3)
        block1(v7: b32):
        v8 = iadd.b32 v7, v6
        v9 = ult.b32 v8, v2
        brif v9, block1(v8), block2
        block2:
        ret v8";
    check(&func, expected);
}

#[test]
fn loads_that_others_may_change_stay_in_the_loop() {
    let mut func = summing(Space::Global, MemSem::Weak);
    licm::run(&mut func, 0);
    let text = text(&func);
    assert!(
        text.find("block1").expect("a loop") < text.find("load.global").expect("a load"),
        "{text}"
    );
}

#[test]
fn a_load_that_might_not_be_made_stays() {
    let mut func = function(&[B64, B1, B1], B32, |b, params| {
        let (head, rare, back, exit) = (b.block(), b.block(), b.block(), b.block());
        b.jump(head, &[]);
        b.at(head);
        b.brif(params[1], (rare, &[]), (back, &[]));
        b.at(rare);
        let (space, sem) = (Space::Global, MemSem::NonCoherent);
        let data = InstData::Load {
            space,
            sem,
            scope: Scope::Sys,
            ty: B32,
            n: 1,
            addr: params[0],
            offset: 0,
        };
        let value = b.b.ins(data, B32);
        b.store(Space::Shared, params[0], 0, value);
        b.jump(back, &[]);
        b.at(back);
        b.brif(params[2], (head, &[]), (exit, &[]));
        b.at(exit);
        let zero = b.iconst(B32, 0);
        b.ret(zero);
    });
    assert!(!licm::run(&mut func, 0));
}

#[test]
fn a_loop_without_a_block_before_it_gets_one() {
    let mut func = function(&[B1, B32, B32], B32, |b, params| {
        let (head, count) = b.block_of(B32);
        let (side, exit) = (b.block(), b.block());
        b.brif(params[0], (head, &[params[1]]), (side, &[]));
        b.at(side);
        b.brif(params[0], (head, &[params[2]]), (exit, &[]));
        b.at(head);
        let step = b.int(IntBinaryOp::Mul, params[1], params[2]);
        let next = b.add(count, step);
        let more = b.compare(CompareOp::Ult, next, params[2]);
        b.brif(more, (head, &[next]), (exit, &[]));
        b.at(exit);
        b.ret(params[1]);
    });
    assert!(licm::run(&mut func, 0));
    let text = text(&func);
    assert!(
        text.contains("v4 = imul.b32 v1, v2\njump block3(v3)\nblock3(v5: b32):"),
        "{text}"
    );
}

/// A program of functions that call each other by position; the first is the entry.
pub(super) fn program(functions: Vec<Function>) -> Program {
    let functions: BTreeMap<FuncId, Function> = functions
        .into_iter()
        .enumerate()
        .map(|(i, func)| (FuncId::new(i), func))
        .collect();
    let program = Program {
        entry: FuncId::new(0),
        functions,
        sigs: PrimaryMap::new(),
        address_taken: Vec::new(),
        vars: BTreeMap::new(),
        params: Vec::new(),
        attrs: KernelAttrs::default(),
        lockstep: false,
        counters: None,
        traced: Vec::new(),
    };
    verify::program(&program).unwrap_or_else(|errors| panic!("{}", errors[0]));
    program
}

/// A function of one word that returns the sum of what each callee makes of it.
fn caller(callees: &[usize]) -> Function {
    function(&[B32], B32, |b, params| {
        let mut sum = params[0];
        for &callee in callees {
            let args = [params[0]].into_iter().collect();
            let result = b.b.ins(
                InstData::Call {
                    func: FuncId::new(callee),
                    args,
                },
                B32,
            );
            sum = b.add(sum, result);
        }
        b.ret(sum);
    })
}

#[test]
fn calls_become_bodies() {
    let twice = function(&[B32], B32, |b, params| {
        let slot = b.slot(4);
        let addr = b.slot_addr(slot, 0);
        let (left, right) = (b.block(), b.block());
        let zero = b.iconst(B32, 0);
        let is_zero = b.compare(CompareOp::Eq, params[0], zero);
        b.brif(is_zero, (left, &[]), (right, &[]));
        b.at(left);
        b.store(Space::Local, addr, 0, zero);
        b.ret(zero);
        b.at(right);
        let sum = b.add(params[0], params[0]);
        b.ret(sum);
    });
    let mut program = program(vec![caller(&[1, 1]), twice]);
    assert_eq!(
        inline::run(&mut program, FuncId::new(0), &|_| true, 1000),
        2
    );
    verify::program(&program).unwrap_or_else(|errors| panic!("{}", errors[0]));
    let func = &program.functions[&FuncId::new(0)];
    assert_eq!(func.slots.len(), 2);
    for (arg, expected) in [(0, 0), (5, 25)] {
        let outcome = crate::testing::exec::run(func, &[arg], 100);
        assert_eq!(
            outcome,
            crate::testing::exec::Outcome::Returned(vec![expected], BTreeMap::new())
        );
    }
}

#[test]
fn a_full_budget_leaves_calls() {
    let mut program = program(vec![caller(&[1, 1, 1]), caller(&[])]);
    // Three calls, three additions and a return, and one callee of one instruction.
    assert_eq!(inline::run(&mut program, FuncId::new(0), &|_| true, 8), 1);
    assert_eq!(
        text(&program.functions[&FuncId::new(0)])
            .matches("call fn1")
            .count(),
        2
    );
}

#[test]
fn the_dynamic_stack_of_an_inlined_function_is_given_back() {
    let callee = function(&[B32], B32, |b, params| {
        let size = b.iconst(B64, 16);
        let addr = b.b.ins(InstData::Alloca { size, align: 8 }, B64);
        b.store(Space::Local, addr, 0, params[0]);
        let value = b.load(Space::Local, B32, addr, 0);
        b.ret(value);
    });
    let mut program = program(vec![caller(&[1]), callee]);
    inline::run(&mut program, FuncId::new(0), &|_| true, 1000);
    let text = text(&program.functions[&FuncId::new(0)]);
    let at = |what: &str| {
        text.find(what)
            .unwrap_or_else(|| panic!("{what} in {text}"))
    };
    assert!(at("stack_save") < at("alloca") && at("alloca") < at("stack_restore"));
}

#[test]
fn recursion_is_found() {
    // 0 calls 1 and 4; 1 and 2 call each other; 3 calls itself and is called by 2; 4 calls nobody.
    let calls: [&[usize]; 5] = [&[1, 4], &[2], &[1, 3], &[3], &[]];
    let graph = call_graph::run(&program(calls.iter().map(|calls| caller(calls)).collect()));
    assert_eq!(graph.recursive, [1, 2, 3].map(FuncId::new).into());
    let at = |id: usize| {
        graph
            .bottom_up
            .iter()
            .position(|&other| other == FuncId::new(id))
    };
    assert!(at(3) < at(2) && at(2) < at(0) && at(1) < at(0) && at(4) < at(0));
    assert_eq!(graph.bottom_up.len(), 5);
}

#[test]
fn the_pipeline_inlines_all_but_recursion_and_drops_what_is_left_over() {
    let mut kernel = caller(&[1, 3]);
    kernel.kind = FunctionKind::Device;
    // 1 calls 2, 3 calls itself.
    let mut program = program(vec![kernel, caller(&[2]), caller(&[]), caller(&[3])]);
    let mut seen = Vec::new();
    let mut observer = |name: &'static str, id: FuncId, _: &Function| seen.push((name, id));
    let options = Options {
        verify: true,
        ..Options::default()
    };
    let report = pipeline::optimize(&mut program, &options, Some(&mut observer)).unwrap();
    assert_eq!(report.n_inlined, 2);
    assert_eq!(
        program.functions.keys().copied().collect::<Vec<_>>(),
        [0, 3].map(FuncId::new)
    );
    assert_eq!(
        text(&program.functions[&FuncId::new(0)])
            .matches("call fn3")
            .count(),
        1
    );
    for name in pipeline::pass_names() {
        assert!(
            report.timings.iter().any(|&(timed, _)| timed == name),
            "{name}"
        );
        assert!(seen.contains(&(name, FuncId::new(0))), "{name}");
    }
}

/// A quotient of 64 bits with a branch to one of 32; the wide divisor is computed ahead of the
/// branch, or not before the side that uses it.
fn short_division(is_ahead: bool) -> Function {
    function(&[B64, B32], B64, |b, params| {
        let (n, word) = (params[0], params[1]);
        let widen = |b: &mut Build<'_>, arg| {
            let (op, from, to) = (ResizeOp::Uext, B32, B64);
            b.b.ins(InstData::Resize { op, from, to, arg }, B64)
        };
        let (short, long, (join, joined)) = (b.block(), b.block(), b.block_of(B64));
        let ahead = widen(b, word);
        let (mask, zero) = (b.iconst(B64, 0xffff_ffff_0000_0000), b.iconst(B64, 0));
        let high = b.int(IntBinaryOp::And, n, mask);
        let fits = b.compare(CompareOp::Eq, high, zero);
        b.brif(fits, (short, &[]), (long, &[]));
        b.at(short);
        let (op, from, to) = (ResizeOp::Trunc, B64, B32);
        let low = b.b.ins(
            InstData::Resize {
                op,
                from,
                to,
                arg: n,
            },
            B32,
        );
        let quotient = b.int(IntBinaryOp::Udiv, low, word);
        let quotient = widen(b, quotient);
        b.jump(join, &[quotient]);
        b.at(long);
        let divisor = match is_ahead {
            true => ahead,
            false => widen(b, word),
        };
        let quotient = b.int(IntBinaryOp::Udiv, n, divisor);
        b.jump(join, &[quotient]);
        b.at(join);
        b.ret(joined);
    })
}

#[test]
fn a_division_of_64_bits_is_one_again() {
    let mut func = short_division(true);
    assert!(wide_division::run(&mut func));
    cfg_cleanup::run(&mut func);
    let text = text(&func);
    assert!(
        text.contains("udiv.b64") && !text.contains("udiv.b32"),
        "{text}"
    );
}

#[test]
fn a_divisor_that_is_not_there_yet_stays_where_it_is() {
    assert!(!wide_division::run(&mut short_division(false)));
}
