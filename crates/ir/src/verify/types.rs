//! Which operand and result types each op takes.

use smallvec::SmallVec;

use crate::entities::{Inst, Value};
use crate::function::{Function, FunctionKind};
use crate::inst::InstData;
use crate::ops::{AtomicOp, BarrierOp, IntBinaryOp, IntTernaryOp, IntUnaryOp, ResizeOp, WarpOp};
use crate::program::Program;
use crate::types::{Space, Type};

type Types = SmallVec<[Type; 4]>;

/// Checks the operands and results of one instruction.
#[expect(clippy::wildcard_enum_match_arm, reason = "`fixed` knows the rest")]
pub(super) fn inst(func: &Function, program: Option<&Program>, inst: Inst) -> Result<(), String> {
    let node = &func.insts[inst];
    let (args, results) = match &node.data {
        InstData::Load { .. }
        | InstData::MaskedLoad { .. }
        | InstData::Store { .. }
        | InstData::Atomic { .. } => return memory(func, inst),
        InstData::Barrier { .. } => return barrier(func, inst),
        InstData::Device { op, args } => {
            expect_all(func, args, &op.args())?;
            return expect_results(func, &node.results, &op.results());
        }
        InstData::Call { .. } | InstData::CallIndirect { .. } => {
            return call(func, program, inst);
        }
        InstData::VarAddr { var, .. }
            if program.is_some_and(|program| !program.vars.contains_key(var)) =>
        {
            return Err(format!("the program has no {var}"));
        }
        InstData::StackAddr { slot, .. } if !func.slots.is_valid(*slot) => {
            return Err(format!("there is no {slot}"));
        }
        InstData::StateOf { block }
            if func
                .blocks
                .get(*block)
                .is_none_or(|data| !data.params.is_empty()) =>
        {
            return Err(format!("{block} is no block without parameters"));
        }
        InstData::Const { ty, bits } if bits & !ty.mask() != 0 => {
            return Err("the constant is too wide".to_owned());
        }
        data => fixed(data)?,
    };
    expect_all(func, &node.data.args(), &args)?;
    expect_results(func, &node.results, &results)
}

/// Checks what a function returns.
pub(super) fn ret(func: &Function, values: &[Value]) -> Result<(), String> {
    match func.kind {
        FunctionKind::Kernel => expect_all(func, values, &[]),
        FunctionKind::Device => expect_all(func, values, &func.rets),
    }
}

/// Checks the type of one operand.
pub(super) fn expect(func: &Function, value: Value, ty: Type) -> Result<(), String> {
    match func.values.get(value) {
        Some(data) if data.ty == ty => Ok(()),
        Some(data) => Err(format!("{value} is {}, not {ty}", data.ty)),
        None => Err(format!("{value} does not exist")),
    }
}

fn expect_all(func: &Function, values: &[Value], types: &[Type]) -> Result<(), String> {
    if values.len() != types.len() {
        return Err(format!("{} operands, not {}", types.len(), values.len()));
    }
    values
        .iter()
        .zip(types)
        .try_for_each(|(&value, &ty)| expect(func, value, ty))
}

fn expect_results(func: &Function, values: &[Value], types: &[Type]) -> Result<(), String> {
    if values.len() != types.len() {
        return Err(format!("{} results, not {}", types.len(), values.len()));
    }
    values
        .iter()
        .zip(types)
        .try_for_each(|(&value, &ty)| expect(func, value, ty))
}

fn types(list: &[Type]) -> Types {
    list.iter().copied().collect()
}

impl InstData {
    /// The type of a pure instruction's result.
    pub fn result_type(&self) -> Type {
        let (_, results) = fixed(self).expect("verified instructions have types");
        results[0]
    }
}

/// Operand and result types of the ops that have the same everywhere.
fn fixed(data: &InstData) -> Result<(Types, Types), String> {
    let (args, result): (&[Type], Type) = match data {
        InstData::Const { ty, .. } => (&[], *ty),
        InstData::Sreg { sreg } => (&[], sreg.ty()),
        InstData::VarAddr { .. }
        | InstData::FuncAddr { .. }
        | InstData::StackAddr { .. }
        | InstData::StackSave => (&[], Type::B64),
        InstData::StateOf { .. } => (&[], Type::B32),
        InstData::IntUnary { op, ty, .. } => (&[*ty], int_unary(*op, *ty)),
        InstData::IntBinary { op, ty, .. } => return int_binary(*op, *ty),
        InstData::IntTernary { op, ty, .. } => (&int_ternary(*op, *ty)?, *ty),
        InstData::Lop3 { .. } => (&[Type::B32; 3], Type::B32),
        InstData::Bfi { ty, .. } => (&[*ty, *ty, Type::B32, Type::B32], *ty),
        InstData::Resize { op, from, to, .. } => (&[*from], resize(*op, *from, *to)?),
        InstData::Compare { ty, .. } => (&[*ty; 2], Type::B1),
        InstData::FloatUnary { fmt, .. } => (&[fmt.ty()], fmt.ty()),
        InstData::FloatBinary { fmt, .. } => (&[fmt.ty(); 2], fmt.ty()),
        InstData::Fma { fmt, .. } => (&[fmt.ty(); 3], fmt.ty()),
        InstData::FloatCompare { fmt, .. } => (&[fmt.ty(); 2], Type::B1),
        InstData::Convert { cvt, .. } => (&[cvt.from.ty()], cvt.to.ty()),
        InstData::ConvertRs { cvt, .. } => (&[Type::B32; 2], cvt.to.ty()),
        InstData::Select { ty, .. } => (&[Type::B1, *ty, *ty], *ty),
        InstData::ToGeneric { space, .. } | InstData::FromGeneric { space, .. } => {
            if *space == Space::Generic {
                return Err("generic addresses are generic already".to_owned());
            }
            (&[Type::B64], Type::B64)
        }
        InstData::IsSpace { .. } => (&[Type::B64], Type::B1),
        InstData::EndLane { ty, .. } | InstData::FirstRunning { ty, .. } => {
            return Ok((types(&[*ty]), types(&[*ty])));
        }
        InstData::Alloca { .. } => (&[Type::B64], Type::B64),
        InstData::Warp { op, sync, ty, .. } => return warp(*op, *sync, *ty),
        InstData::StackRestore { .. } => return Ok((types(&[Type::B64]), types(&[]))),
        InstData::Nanosleep { .. } => return Ok((types(&[Type::B32]), types(&[]))),
        InstData::Prefetch { .. } => return Ok((types(&[Type::B64; 2]), types(&[]))),
        InstData::Fence { .. } | InstData::Nop | InstData::Count { cond: None, .. } => {
            return Ok((types(&[]), types(&[])));
        }
        InstData::Count { cond: Some(_), .. } => return Ok((types(&[Type::B1]), types(&[]))),
        InstData::Load { .. }
        | InstData::MaskedLoad { .. }
        | InstData::Store { .. }
        | InstData::Atomic { .. }
        | InstData::Barrier { .. }
        | InstData::Call { .. }
        | InstData::CallIndirect { .. }
        | InstData::Device { .. } => unreachable!("checked by the caller"),
    };
    Ok((types(args), types(&[result])))
}

fn int_unary(op: IntUnaryOp, ty: Type) -> Type {
    match op {
        IntUnaryOp::Popc | IntUnaryOp::Clz => Type::B32,
        IntUnaryOp::Not | IntUnaryOp::Neg | IntUnaryOp::Abs | IntUnaryOp::Brev => ty,
    }
}

fn int_binary(op: IntBinaryOp, ty: Type) -> Result<(Types, Types), String> {
    Ok(match op {
        IntBinaryOp::Shl | IntBinaryOp::Ushr | IntBinaryOp::Sshr => {
            (types(&[ty, Type::B32]), types(&[ty]))
        }
        IntBinaryOp::UmulWide | IntBinaryOp::SmulWide => {
            let wide = match ty {
                Type::B16 => Type::B32,
                Type::B32 => Type::B64,
                Type::B1 | Type::B8 | Type::B64 => return Err(format!("no wide product of {ty}")),
            };
            (types(&[ty, ty]), types(&[wide]))
        }
        IntBinaryOp::Add
        | IntBinaryOp::Sub
        | IntBinaryOp::Mul
        | IntBinaryOp::UmulHi
        | IntBinaryOp::SmulHi
        | IntBinaryOp::Udiv
        | IntBinaryOp::Sdiv
        | IntBinaryOp::Urem
        | IntBinaryOp::Srem
        | IntBinaryOp::And
        | IntBinaryOp::Or
        | IntBinaryOp::Xor
        | IntBinaryOp::Smin
        | IntBinaryOp::Smax
        | IntBinaryOp::Umin
        | IntBinaryOp::Umax
        | IntBinaryOp::SaddSat
        | IntBinaryOp::SsubSat => (types(&[ty, ty]), types(&[ty])),
    })
}

fn int_ternary(op: IntTernaryOp, ty: Type) -> Result<[Type; 3], String> {
    let is_bfe = matches!(op, IntTernaryOp::UBfe | IntTernaryOp::SBfe);
    match ty {
        Type::B32 => Ok([Type::B32; 3]),
        Type::B64 if is_bfe => Ok([ty, Type::B32, Type::B32]),
        Type::B1 | Type::B8 | Type::B16 | Type::B64 => Err(format!("`{op}` does not work on {ty}")),
    }
}

fn resize(op: ResizeOp, from: Type, to: Type) -> Result<Type, String> {
    let fits = match op {
        ResizeOp::Trunc => to < from,
        ResizeOp::Uext | ResizeOp::Sext => to > from,
    };
    if fits {
        Ok(to)
    } else {
        Err(format!("`{op}` from {from} to {to}"))
    }
}

fn warp(op: WarpOp, sync: bool, ty: Type) -> Result<(Types, Types), String> {
    let results: &[Type] = match op {
        WarpOp::ShflUp | WarpOp::ShflDown | WarpOp::ShflBfly | WarpOp::ShflIdx => {
            &[Type::B32, Type::B1]
        }
        WarpOp::VoteAll | WarpOp::VoteAny | WarpOp::VoteUni => &[Type::B1],
        WarpOp::Ballot | WarpOp::MatchAny | WarpOp::ActiveMask => &[Type::B32],
        WarpOp::MatchAll | WarpOp::Elect => &[Type::B32, Type::B1],
        WarpOp::Sync | WarpOp::AlignedSync => &[],
        WarpOp::ReduxAdd
        | WarpOp::ReduxUmin
        | WarpOp::ReduxUmax
        | WarpOp::ReduxSmin
        | WarpOp::ReduxSmax
        | WarpOp::ReduxAnd
        | WarpOp::ReduxOr
        | WarpOp::ReduxXor
        | WarpOp::ReduxFmin
        | WarpOp::ReduxFmax
        | WarpOp::ReduxFminNan
        | WarpOp::ReduxFmaxNan => &[Type::B32],
        WarpOp::Transpose => &[Type::B32],
        WarpOp::Mma(mma) => &[mma.register(); WarpOp::MAX_RESULTS][..mma.d_registers()],
    };
    let operand = match op {
        WarpOp::MatchAny | WarpOp::MatchAll => ty,
        WarpOp::VoteAll | WarpOp::VoteAny | WarpOp::VoteUni | WarpOp::Ballot => Type::B1,
        WarpOp::ShflUp
        | WarpOp::ShflDown
        | WarpOp::ShflBfly
        | WarpOp::ShflIdx
        | WarpOp::Elect
        | WarpOp::Sync
        | WarpOp::AlignedSync
        | WarpOp::ActiveMask
        | WarpOp::ReduxAdd
        | WarpOp::ReduxUmin
        | WarpOp::ReduxUmax
        | WarpOp::ReduxSmin
        | WarpOp::ReduxSmax
        | WarpOp::ReduxAnd
        | WarpOp::ReduxOr
        | WarpOp::ReduxXor
        | WarpOp::ReduxFmin
        | WarpOp::ReduxFmax
        | WarpOp::ReduxFminNan
        | WarpOp::ReduxFmaxNan
        | WarpOp::Transpose => Type::B32,
        WarpOp::Mma(mma) => mma.register(),
    };
    let mut args: Types = SmallVec::from_elem(operand, op.n_args());
    if sync {
        args.push(Type::B32);
    }
    Ok((args, types(results)))
}

#[expect(clippy::wildcard_enum_match_arm, reason = "callers pass accesses")]
fn memory(func: &Function, inst: Inst) -> Result<(), String> {
    let node = &func.insts[inst];
    match &node.data {
        InstData::Load {
            space, ty, n, addr, ..
        } => {
            address(func, *space, *addr)?;
            if !matches!(n, 1 | 2 | 4 | 8) {
                return Err(format!("{n} elements"));
            }
            expect_results(func, &node.results, &vec![*ty; usize::from(*n)])
        }
        InstData::MaskedLoad {
            space,
            ty,
            addr,
            mask,
            ..
        } => {
            address(func, *space, *addr)?;
            expect(func, *mask, Type::B1)?;
            expect_results(func, &node.results, &[*ty])
        }
        InstData::Store {
            space,
            ty,
            addr,
            args,
            ..
        } => {
            address(func, *space, *addr)?;
            if !matches!(args.len(), 1 | 2 | 4 | 8) {
                return Err(format!("{} elements", args.len()));
            }
            if space.is_read_only() {
                return Err("store to read-only memory".to_owned());
            }
            args.iter().try_for_each(|&arg| expect(func, arg, *ty))?;
            expect_results(func, &node.results, &[])
        }
        InstData::Atomic {
            op,
            fmt,
            space,
            addr,
            args,
            ..
        } => {
            address(func, *space, *addr)?;
            let n_args = if *op == AtomicOp::Cas { 2 } else { 1 };
            expect_all(func, args, &vec![fmt.ty(); n_args])?;
            expect_results(func, &node.results, &[fmt.ty()])
        }
        other => unreachable!("{other:?} does not access memory"),
    }
}

fn address(func: &Function, space: Space, addr: Value) -> Result<(), String> {
    if space.is_window()
        && func
            .values
            .get(addr)
            .is_some_and(|data| data.ty == Type::B32)
    {
        return Ok(());
    }
    expect(func, addr, Type::B64)
}

fn barrier(func: &Function, inst: Inst) -> Result<(), String> {
    let node = &func.insts[inst];
    let InstData::Barrier {
        op,
        id,
        count,
        pred,
        ..
    } = &node.data
    else {
        unreachable!("the caller looked")
    };
    expect(func, *id, Type::B32)?;
    if let Some(count) = count {
        expect(func, *count, Type::B32)?;
    }
    let result: &[Type] = match op {
        BarrierOp::Sync
        | BarrierOp::Arrive
        | BarrierOp::ClusterArrive
        | BarrierOp::ClusterWait
        | BarrierOp::Warpgroup => &[],
        BarrierOp::RedPopc => &[Type::B32],
        BarrierOp::RedAnd | BarrierOp::RedOr => &[Type::B1],
    };
    match pred {
        Some(pred) => expect(func, *pred, Type::B1)?,
        None if result.is_empty() => {}
        None => return Err("a reduction needs a predicate".to_owned()),
    }
    expect_results(func, &node.results, result)
}

#[expect(clippy::wildcard_enum_match_arm, reason = "callers pass calls")]
fn call(func: &Function, program: Option<&Program>, inst: Inst) -> Result<(), String> {
    let node = &func.insts[inst];
    match &node.data {
        InstData::Call { func: callee, args } => {
            let Some(program) = program else {
                return Ok(());
            };
            let Some(callee) = program.functions.get(callee) else {
                return Err(format!("the program has no {callee}"));
            };
            let params: Types = callee
                .params()
                .iter()
                .map(|&param| callee.ty(param))
                .collect();
            expect_all(func, args, &params)?;
            expect_results(func, &node.results, &callee.rets)
        }
        InstData::CallIndirect {
            sig, callee, args, ..
        } => {
            expect(func, *callee, Type::B64)?;
            let Some(program) = program else {
                return Ok(());
            };
            let Some(sig) = program.sigs.get(*sig) else {
                return Err(format!("the program has no {sig}"));
            };
            expect_all(func, args, &sig.params)?;
            expect_results(func, &node.results, &sig.rets)
        }
        other => unreachable!("{other:?} is no call"),
    }
}
