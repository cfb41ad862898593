//! Takes back what compilers do about divisions of 64 bits: where both operands fit 32, they divide
//! those.
//!
//! **Needs**: `simplify` and `cfg_cleanup` before. **Ensures**: of a branch whose sides compute one
//! quotient or remainder with 32 and with 64 bits, the second is left.
//!
//! How many bits a division takes is for the code generator to see, for a whole gang. One
//! instruction tells that the result is a quotient: that the numbers of neighbouring threads mostly
//! have the same, and that the next remainder follows from it.
//!
//! ```text
//! block0: v2 = or.b64 v0, v1; v4 = and.b64 v2, v3           block0: v8 = udiv.b64 v0, v1
//!         v5 = eq.b64 v4, 0; brif v5, block1, block2                ...
//! block1: v6 = udiv.b32 (trunc v0), (trunc v1)       ==>            jump block3(v8)
//!         jump block3(uext.b64.b32 v6)
//! block2: v7 = udiv.b64 v0, v1; jump block3(v7)
//! ```
//!
//! Division by zero gives a machine-specific value (ISA 9.7.1.8), of 32 bits that of the first
//! side: that side is what a divisor of zero mostly comes to, so the result is held to 32 bits
//! then.

use ptxjit_ir::{
    Block, BlockCall, CompareOp, Effect, Function, InstData, IntBinaryOp, ResizeOp, Terminator,
    Type, Value, ValueDef,
};

const HIGH_HALF: u64 = 0xffff_ffff_0000_0000;

/// Runs the pass; says whether something changed.
pub fn run(func: &mut Function) -> bool {
    let mut changed = false;
    for block in func.blocks.keys().collect::<Vec<_>>() {
        if let Some(division) = find(func, block) {
            replace(func, block, division);
            changed = true;
        }
    }
    changed
}

/// A branch that can go.
struct Division {
    op: IntBinaryOp,
    args: [Value; 2],
    /// Where both sides lead, as the side with 64 bits has it.
    end: BlockCall,
    /// Which of the arguments is the result.
    idx: usize,
}

fn find(func: &Function, block: Block) -> Option<Division> {
    let Terminator::Brif { cond, then_, else_ } = &func.blocks[block].term else {
        return None;
    };
    let (tested, if_zero) = tested_for_zero(func, *cond)?;
    let (short, long) = match if_zero {
        true => (then_, else_),
        false => (else_, then_),
    };
    let is_inside = |value: Value| {
        let ValueDef::Result(inst, _) = func.values[value].def else {
            return false;
        };
        let mut blocks = [short.block, long.block].into_iter();
        blocks.any(|block| func.blocks[block].insts.contains(&inst))
    };
    let (short, long) = (side(func, short)?, side(func, long)?);
    let n_args = long.args.len();
    let mut others = (0..n_args).filter(|&idx| short.args.get(idx) != Some(&long.args[idx]));
    let idx = others.next().filter(|_| others.next().is_none())?;
    if short.block != long.block || short.args.len() != n_args {
        return None;
    }
    let &InstData::IntBinary {
        op,
        ty: Type::B64,
        args: [a, b],
    } = func.def_inst(long.args[idx])?
    else {
        return None;
    };
    // What fits 32 bits has no sign.
    let unsigned = if matches!(op, IntBinaryOp::Udiv | IntBinaryOp::Sdiv) {
        IntBinaryOp::Udiv
    } else if matches!(op, IntBinaryOp::Urem | IntBinaryOp::Srem) {
        IntBinaryOp::Urem
    } else {
        return None;
    };
    let &InstData::Resize {
        op: ResizeOp::Uext,
        from: Type::B32,
        arg,
        ..
    } = func.def_inst(short.args[idx])?
    else {
        return None;
    };
    let &InstData::IntBinary {
        op: short_op,
        ty: Type::B32,
        args: [x, y],
    } = func.def_inst(arg)?
    else {
        return None;
    };
    let is_same = short_op == unsigned && is_low_half(func, x, a) && is_low_half(func, y, b);
    let is_there = !is_inside(a) && !is_inside(b);
    (is_same && is_there && is_known_short(func, tested, [a, b])).then(|| Division {
        op,
        args: [a, b],
        end: long.clone(),
        idx,
    })
}

/// The value whose high half is tested, and whether the condition is that it is zero.
fn tested_for_zero(func: &Function, cond: Value) -> Option<(Value, bool)> {
    let &InstData::Compare {
        op,
        ty: Type::B64,
        args: [masked, zero],
    } = func.def_inst(cond)?
    else {
        return None;
    };
    let &InstData::IntBinary {
        op: IntBinaryOp::And,
        args: [tested, mask],
        ..
    } = func.def_inst(masked)?
    else {
        return None;
    };
    let is_test = matches!(op, CompareOp::Eq | CompareOp::Ne)
        && func.as_const(zero) == Some(0)
        && func.as_const(mask) == Some(HIGH_HALF);
    is_test.then_some((tested, op == CompareOp::Eq))
}

/// Where a side leads, if it only computes.
fn side<'a>(func: &'a Function, call: &BlockCall) -> Option<&'a BlockCall> {
    let data = &func.blocks[call.block];
    let is_pure = |&inst| func.insts[inst].data.effect() == Effect::Pure;
    if let Terminator::Jump(end) = &data.term
        && call.args.is_empty()
        && data.insts.iter().all(is_pure)
    {
        Some(end)
    } else {
        None
    }
}

/// Whether a word is the lower half of a double word.
fn is_low_half(func: &Function, word: Value, wide: Value) -> bool {
    let is_trunc = |value, of| {
        matches!(
            func.def_inst(value),
            Some(&InstData::Resize { op: ResizeOp::Trunc, from: Type::B64, arg, .. }) if arg == of
        )
    };
    let is_extended = || {
        matches!(
            func.def_inst(wide),
            Some(&InstData::Resize {
                op: ResizeOp::Sext | ResizeOp::Uext,
                from: Type::B32,
                arg,
                ..
            }) if arg == word
        )
    };
    let is_constant = || match (func.as_const(word), func.as_const(wide)) {
        (Some(word), Some(wide)) => word == wide & Type::B32.mask(),
        _ => false,
    };
    is_trunc(word, wide) || is_extended() || is_constant()
}

/// Whether operands fit 32 bits if the high half of `tested` is zero.
fn is_known_short(func: &Function, tested: Value, operands: [Value; 2]) -> bool {
    let both = match func.def_inst(tested) {
        Some(&InstData::IntBinary {
            op: IntBinaryOp::Or,
            args,
            ..
        }) => args,
        _ => [tested; 2],
    };
    let fits = |value: Value| {
        let is_word = matches!(
            func.def_inst(value),
            Some(&InstData::Resize {
                op: ResizeOp::Uext,
                from: Type::B32,
                ..
            })
        );
        let constant = func.as_const(value);
        is_word || constant.is_some_and(|bits| bits & HIGH_HALF == 0) || both.contains(&value)
    };
    operands.into_iter().all(fits)
}

/// Computes the result with 64 bits and goes on behind the branch.
fn replace(func: &mut Function, block: Block, division: Division) {
    let Division {
        op,
        args,
        mut end,
        idx,
    } = division;
    let loc = func.blocks[block].term_loc;
    let mut put = |data: InstData, ty: Type| {
        let inst = func.make_inst(data, &[ty], loc);
        func.blocks[block].insts.push(inst);
        func.insts[inst].results[0]
    };
    let ty = Type::B64;
    let result = put(InstData::IntBinary { op, ty, args }, ty);
    let mut constant = |bits: u64| put(InstData::Const { ty, bits }, ty);
    let [zero, word, all] = [0, !HIGH_HALF, u64::MAX].map(&mut constant);
    let is_zero = InstData::Compare {
        op: CompareOp::Eq,
        ty,
        args: [args[1], zero],
    };
    let cond = put(is_zero, Type::B1);
    let args = [word, all];
    let mask = put(InstData::Select { ty, cond, args }, ty);
    let held = InstData::IntBinary {
        op: IntBinaryOp::And,
        ty,
        args: [result, mask],
    };
    end.args[idx] = put(held, ty);
    func.blocks[block].term = Terminator::Jump(end);
}
