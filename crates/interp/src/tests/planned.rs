//! Gangs that run as planned, and plans that claim what is not so.

use ptxjit_ir::{Block, Function, InstData, IntBinaryOp, Program, Terminator, Type, Value};
use ptxjit_vectorize::{Effort, Plan, PlanFacts, SingleLane, Variability};

use super::{kernel, run, run_by};
use crate::{Fault, FaultKind, SilentHost};

const GANG: u32 = 8;

/// A kernel in which the lanes below 3 diverge, and all meet before a barrier; each thread stores
/// `5 * tid`, or `tid + 7`.
fn diverging() -> Program {
    kernel(|k| {
        let tid = k.tid();
        let low = k.below(tid, 3);
        let (then_, else_) = k.branch(low);
        let after = k.b.new_block();
        let result = k.b.declare(Type::B32);
        for (block, op, number) in [(then_, IntBinaryOp::Mul, 5), (else_, IntBinaryOp::Add, 7)] {
            k.b.switch_to(block);
            let number = k.word(number);
            let value = k.binary(op, tid, number);
            k.b.def_var(result, value);
            k.b.jump(after);
        }
        k.b.switch_to(after);
        k.sync();
        let result = k.b.use_var(result);
        k.put_mine(result);
        k.end(Terminator::Exit);
    })
}

/// What `diverging` stores.
fn expected() -> Vec<u32> {
    (0..16)
        .map(|tid| if tid < 3 { 5 * tid } else { tid + 7 })
        .collect()
}

/// The program with the function that was planned, and its plan.
fn planned(mut program: Program) -> (Program, Plan) {
    let func = program.functions.get_mut(&program.entry).unwrap();
    let effort = Effort::unlimited();
    let plan = ptxjit_vectorize::run(func, &[], GANG, PlanFacts::default(), &effort).unwrap();
    (program, plan)
}

/// Runs the kernel by a plan that was changed.
fn run_changed(change: impl FnOnce(&Function, &mut Plan)) -> Result<Vec<u32>, Fault> {
    let (program, mut plan) = planned(diverging());
    change(&program.functions[&program.entry], &mut plan);
    let mut host = SilentHost::default();
    run_by(&program, Some(&plan), [1, 16], &[0; 16], &mut host, |_| {})
}

/// The run must find that the plan does not hold, and say so in these words.
fn finds(words: &str, change: impl FnOnce(&Function, &mut Plan)) {
    let fault = run_changed(change).expect_err("the plan claims what is not so");
    let FaultKind::Plan(what) = &fault.kind else {
        panic!("{fault}");
    };
    assert!(what.contains(words), "{what}");
}

/// The thread's number, which is compared.
fn compared(func: &Function) -> Value {
    let mut insts = func.insts.values();
    let args = insts.find_map(|node| match node.data {
        InstData::Compare { args, .. } => Some(args),
        _ => None,
    });
    args.unwrap()[0]
}

/// The two targets of the branch.
fn targets(func: &Function) -> [Block; 2] {
    let mut terms = func.blocks.values().map(|block| &block.term);
    let found = terms.find_map(|term| match term {
        Terminator::Brif { then_, else_, .. } => Some([then_.block, else_.block]),
        _ => None,
    });
    found.unwrap()
}

/// The block where the two meet, and its parameter.
fn join(func: &Function) -> (Block, Value) {
    let mut blocks = func.blocks.iter();
    let found = blocks.find_map(|(block, data)| Some((block, *data.params.first()?)));
    found.unwrap()
}

#[test]
fn gangs_compute_what_threads_do() {
    assert_eq!(run(&diverging(), 1, 16, &[0; 16]).unwrap(), expected());
    assert_eq!(run_changed(|_, _| {}).unwrap(), expected());
}

#[test]
fn values_must_vary_as_planned() {
    finds("is planned as Uniform", |func, plan| {
        plan.variability[compared(func)] = Variability::Uniform;
    });
    finds("is planned as Affine", |func, plan| {
        plan.variability[compared(func)] = Variability::Affine {
            stride: 2,
            align: 0,
            may_wrap: None,
        };
    });
    finds("is planned as Uniform", |func, plan| {
        plan.variability[join(func).1] = Variability::Uniform;
    });
}

#[test]
fn bounds_must_hold() {
    finds("outside of 0 to 9", |func, plan| {
        plan.bounds[compared(func)] = Some((0, 9));
    });
}

#[test]
fn lanes_diverge_only_where_planned() {
    finds("lanes diverge", |func, plan| {
        plan.divergent[func.entry] = false
    });
    finds("is for one lane", |func, plan| {
        plan.single_lane[targets(func)[0]] = SingleLane::Root;
    });
}

#[test]
fn lanes_are_pending_only_where_planned() {
    finds("lanes are pending", |_, plan| {
        plan.pending.iter_mut().for_each(Vec::clear);
        plan.pending_in.iter_mut().for_each(Vec::clear);
    });
}

/// Both edges to the join pass its parameter: without a blend the second replaces what the first
/// has passed.
#[test]
fn parameters_are_blended_where_lanes_are_pending() {
    finds("has the elements of", |func, plan| {
        let join = plan.order.block_pos[join(func).0].unwrap() as usize;
        // Still listed where lanes arrive, but not where edges are taken.
        plan.pending_in = plan.pending.clone();
        plan.pending
            .iter_mut()
            .for_each(|at| at.retain(|&at| at != join));
    });
}

#[test]
fn masks_are_those_of_the_reconvergence() {
    finds("reconverge at", |func, plan| {
        let pos = |block: Block| plan.order.block_pos[block].unwrap() as usize;
        let (from, to) = (pos(targets(func)[0]), pos(join(func).0));
        plan.reconvergence.straight[to] = Some(from);
    });
}

#[test]
fn waits_keep_what_is_used_behind_them() {
    finds("is used and not held", |_, plan| {
        plan.waits.iter_mut().for_each(|wait| wait.live.clear());
    });
}
