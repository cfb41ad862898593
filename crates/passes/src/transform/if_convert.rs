//! Turns branches around short side effect free code into selects.
//!
//! **Needs**: `cfg_cleanup` before, for straight lines are one block then. **Ensures**: branches
//! both of whose targets are the same block are gone; so are those whose sides are cheap.
//!
//! A divergent branch costs masks and tests, a uniform one may be mispredicted: a few cheap
//! operations more cost less. Memory accesses and everything convergent stay where they are, but
//! for the vectorizer, which has other rules. Counters of a side count under its condition.
//!
//! ```text
//! block0: brif v0, block1, block2(v1)                       block0: v2 = iadd.b32 v1, v9
//! block1: v2 = iadd.b32 v1, v9; jump block2(v2)     ==>             v4 = select.b32 v0, v2, v1
//! block2(v3): ...                                                   jump block2(v4)
//! ```

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{
    Block, BlockCall, Effect, FloatBinaryOp, FloatUnaryOp, Function, Inst, InstData, IntBinaryOp,
    IntUnaryOp, Terminator, Type, Value,
};
use smallvec::SmallVec;

use crate::analysis::cfg;

/// Which branches are converted, and what may run for nothing.
pub struct Rules<'a> {
    /// Whether the branch at the end of a block is looked at.
    pub may_convert: &'a dyn Fn(&Function, Block) -> bool,
    /// The cost of an instruction; none if it may not run for nothing. A load of one element is
    /// masked.
    pub cost: &'a dyn Fn(&Function, Inst) -> Option<u32>,
    /// Cost of the operations that run for nothing, both sides and selects together.
    pub max_cost: u32,
    /// Selects that one conversion may make.
    pub max_selects: usize,
}

/// Runs the pass; says whether something changed.
pub fn run(func: &mut Function) -> bool {
    run_by(
        func,
        &Rules {
            may_convert: &|_, _| true,
            cost: &|func, inst| cost(func, &func.insts[inst].data),
            max_cost: MAX_COST,
            max_selects: MAX_SELECTS,
        },
    ) > 0
}

/// Converts branches by other rules; returns how many. Loads on the sides become masked ones.
pub fn run_by(func: &mut Function, rules: &Rules<'_>) -> usize {
    let cfg = cfg::run(func);
    let mut n_preds: SecondaryMap<Block, usize> = SecondaryMap::new();
    for &block in &cfg.rpo {
        n_preds[block] = cfg.preds[block].len() + usize::from(cfg.roots.contains(&block));
    }
    // Inner branches first: what they leave may be the side of an outer one.
    let blocks = cfg.rpo.iter().rev();
    let converted = blocks.filter(|&&block| convert(func, block, &mut n_preds, rules));
    converted.count()
}

/// [`Rules::max_cost`] of the pass.
const MAX_COST: u32 = 8;
/// [`Rules::max_selects`] of the pass.
const MAX_SELECTS: usize = 4;

fn convert(
    func: &mut Function,
    block: Block,
    n_preds: &mut SecondaryMap<Block, usize>,
    rules: &Rules<'_>,
) -> bool {
    if !(rules.may_convert)(func, block) {
        return false;
    }
    let Terminator::Brif { cond, then_, else_ } = &func.blocks[block].term else {
        return false;
    };
    let (cond, then_, else_) = (*cond, then_.clone(), else_.clone());
    let then_side = side(func, block, &then_, n_preds, rules);
    let else_side = side(func, block, &else_, n_preds, rules);
    // Either both sides go to one block, or one side goes to where the other branch leads anyway.
    let candidates = [
        (then_side.as_ref(), else_side.as_ref()),
        (then_side.as_ref(), None),
        (None, else_side.as_ref()),
        (None, None),
    ];
    for (a, b) in candidates {
        let (end_a, end_b) = (
            a.map_or(&then_, |side| &side.end),
            b.map_or(&else_, |side| &side.end),
        );
        let cost = a.map_or(0, |side| side.cost) + b.map_or(0, |side| side.cost);
        let n_selects = end_a
            .args
            .iter()
            .zip(&end_b.args)
            .filter(|(x, y)| x != y)
            .count();
        if end_a.block != end_b.block
            || cost + n_selects as u32 > rules.max_cost
            || n_selects > rules.max_selects
        {
            continue;
        }
        let (end_a, end_b) = (end_a.clone(), end_b.clone());
        // The sides, and `block` if it went there directly, were predecessors; now `block` alone is
        // one.
        let n_gone = usize::from(a.is_some())
            + usize::from(b.is_some())
            + usize::from(a.is_none() || b.is_none());
        n_preds[end_a.block] = n_preds[end_a.block] + 1 - n_gone;
        for (side, holds) in [(a, true), (b, false)] {
            let Some(side) = side else { continue };
            put_under(func, side.block, cond, holds);
            let insts = std::mem::take(&mut func.blocks[side.block].insts);
            func.blocks[side.block].term = Terminator::Trap(ptxjit_ir::TrapKind::Unreachable);
            func.blocks[block].insts.extend(insts);
        }
        join(func, block, cond, &end_a, &end_b);
        return true;
    }
    false
}

struct Side {
    block: Block,
    end: BlockCall,
    cost: u32,
}

/// The block behind a branch if it runs only from there, jumps on, and can run for nothing.
fn side(
    func: &Function,
    from: Block,
    call: &BlockCall,
    n_preds: &SecondaryMap<Block, usize>,
    rules: &Rules<'_>,
) -> Option<Side> {
    let data = &func.blocks[call.block];
    let Terminator::Jump(end) = &data.term else {
        return None;
    };
    if n_preds[call.block] != 1
        || !data.params.is_empty()
        || call.block == from
        || end.block == call.block
    {
        return None;
    }
    let mut total = 0;
    for &inst in &data.insts {
        total += (rules.cost)(func, inst)?;
        if total > rules.max_cost {
            return None;
        }
    }
    Some(Side {
        block: call.block,
        end: end.clone(),
        cost: total,
    })
}

/// Counters go on counting the threads that would have come to the side, and loads are for those.
fn put_under(func: &mut Function, side: Block, cond: Value, holds: bool) {
    let own_cond = |&inst: &Inst| own_cond(&func.insts[inst].data).map(|own| (inst, own));
    let insts = func.blocks[side].insts.iter().filter_map(own_cond);
    let insts: SmallVec<[(Inst, Option<Value>); 4]> = insts.collect();
    let Some(&(first, _)) = insts.first() else {
        return;
    };
    let mut under = cond;
    if !holds {
        let not = InstData::IntUnary {
            op: IntUnaryOp::Not,
            ty: Type::B1,
            arg: cond,
        };
        under = insert_before(func, side, first, not);
    }
    for (inst, own) in insts {
        let both = match own {
            None => under,
            Some(own) => {
                let and = InstData::IntBinary {
                    op: IntBinaryOp::And,
                    ty: Type::B1,
                    args: [under, own],
                };
                insert_before(func, side, inst, and)
            }
        };
        set_cond(&mut func.insts[inst].data, both);
    }
}

/// The condition of what happens for some threads alone, if that is the instruction's kind.
#[expect(clippy::wildcard_enum_match_arm, reason = "others happen for all")]
fn own_cond(data: &InstData) -> Option<Option<Value>> {
    match *data {
        InstData::Count { cond, .. } => Some(cond),
        InstData::Load { .. } => Some(None),
        InstData::MaskedLoad { mask, .. } => Some(Some(mask)),
        _ => None,
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "`own_cond` knows no others")]
fn set_cond(data: &mut InstData, under: Value) {
    match data {
        InstData::Count { cond, .. } => *cond = Some(under),
        InstData::MaskedLoad { mask, .. } => *mask = under,
        &mut InstData::Load {
            space,
            ty,
            addr,
            offset,
            ..
        } => {
            *data = InstData::MaskedLoad {
                space,
                ty,
                addr,
                offset,
                mask: under,
            }
        }
        other => unreachable!("{other:?} has no condition"),
    }
}

/// Puts an operation on predicates before an instruction of a block.
fn insert_before(func: &mut Function, block: Block, next: Inst, data: InstData) -> Value {
    let inst = func.make_inst(data, &[Type::B1], func.insts[next].loc);
    let insts = &mut func.blocks[block].insts;
    let at = insts.iter().position(|&it| it == next);
    insts.insert(at.unwrap_or(insts.len()), inst);
    func.insts[inst].results[0]
}

/// Rough cost of an operation; none if it may not run for nothing.
pub fn cost(func: &Function, data: &InstData) -> Option<u32> {
    // How many threads are on either side is another matter once both run together.
    if let InstData::Count { sides: false, .. } = data {
        return Some(1);
    }
    if data.effect() != Effect::Pure {
        return None;
    }
    Some(match data {
        InstData::Const { .. } => 0,
        InstData::IntBinary {
            op: IntBinaryOp::Udiv | IntBinaryOp::Sdiv | IntBinaryOp::Urem | IntBinaryOp::Srem,
            args: [_, divisor],
            ..
        } => match func.as_const(*divisor) {
            // A product, its shift and its sign.
            Some(_) => 4,
            None => 20,
        },
        InstData::FloatBinary {
            op: FloatBinaryOp::Div | FloatBinaryOp::DivApprox | FloatBinaryOp::DivFull,
            ..
        } => 12,
        InstData::FloatUnary { op, .. } => match op {
            FloatUnaryOp::Neg | FloatUnaryOp::Abs | FloatUnaryOp::Copy => 1,
            FloatUnaryOp::Sat | FloatUnaryOp::Relu | FloatUnaryOp::CanonicalNan => 2,
            FloatUnaryOp::RoundInt | FloatUnaryOp::Sqrt | FloatUnaryOp::SqrtApprox => 6,
            FloatUnaryOp::RcpApprox
            | FloatUnaryOp::RsqrtApprox
            | FloatUnaryOp::SinApprox
            | FloatUnaryOp::CosApprox
            | FloatUnaryOp::Lg2Approx
            | FloatUnaryOp::Ex2Approx
            | FloatUnaryOp::TanhApprox => 12,
        },
        InstData::IntTernary { .. }
        | InstData::Bfi { .. }
        | InstData::Convert { .. }
        | InstData::ConvertRs { .. } => 4,
        InstData::Sreg { .. }
        | InstData::VarAddr { .. }
        | InstData::FuncAddr { .. }
        | InstData::StackAddr { .. }
        | InstData::StateOf { .. }
        | InstData::IntUnary { .. }
        | InstData::IntBinary { .. }
        | InstData::Lop3 { .. }
        | InstData::Resize { .. }
        | InstData::Compare { .. }
        | InstData::FloatBinary { .. }
        | InstData::Fma { .. }
        | InstData::FloatCompare { .. }
        | InstData::Select { .. }
        | InstData::ToGeneric { .. }
        | InstData::FromGeneric { .. }
        | InstData::IsSpace { .. }
        | InstData::EndLane { .. }
        | InstData::FirstRunning { .. } => 1,
        InstData::Load { .. }
        | InstData::MaskedLoad { .. }
        | InstData::Store { .. }
        | InstData::Atomic { .. }
        | InstData::Fence { .. }
        | InstData::Barrier { .. }
        | InstData::Warp { .. }
        | InstData::Call { .. }
        | InstData::CallIndirect { .. }
        | InstData::Device { .. }
        | InstData::StackSave
        | InstData::StackRestore { .. }
        | InstData::Alloca { .. }
        | InstData::Nanosleep { .. }
        | InstData::Prefetch { .. }
        | InstData::Count { .. }
        | InstData::Nop => return None,
    })
}

/// Ends `block` with a jump to the common target of both sides.
fn join(func: &mut Function, block: Block, cond: Value, then_: &BlockCall, else_: &BlockCall) {
    let mut args: SmallVec<[Value; 4]> = SmallVec::new();
    let loc = func.blocks[block].term_loc;
    for (&a, &b) in then_.args.iter().zip(&else_.args) {
        if a == b {
            args.push(a);
            continue;
        }
        let ty = func.ty(a);
        let inst = func.make_inst(
            InstData::Select {
                ty,
                cond,
                args: [a, b],
            },
            &[ty],
            loc,
        );
        func.blocks[block].insts.push(inst);
        args.push(func.insts[inst].results[0]);
    }
    func.blocks[block].term = Terminator::Jump(BlockCall {
        block: then_.block,
        args,
    });
}
