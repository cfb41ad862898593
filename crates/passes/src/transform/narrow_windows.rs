//! Computes addresses in windows with 32 bits.
//!
//! An address in a window (`.shared`, `.const`, `.local`, `.param`) is an offset of 32 bits, but
//! compilers often compute it in registers of
//! 64. The low half of a sum, a product or a logic operation needs only the low halves of the
//! operands, and of a vector's lanes four of them fit where two whole ones do.
//!
//! **Needs**: `dce` after it, for what is not needed any more. **Ensures**: no address of an access
//! to a window is a 64-bit result of arithmetic that could be done with 32 bits.
//!
//! ```text
//! v2 = uext.b64.b32 v0; v3 = iadd.b64 v2, v1; v4 = load.shared.b32 [v3]
//!     ==>    v5 = trunc.b32.b64 v1; v6 = iadd.b32 v0, v5; v4 = load.shared.b32 [v6]
//! ```

use std::collections::BTreeMap;

use ptxjit_ir::{
    Block, Function, Inst, InstData, IntBinaryOp, ResizeOp, SrcLoc, Type, Value, ValueDef,
};

/// Definitions are followed this deep.
const DEPTH: u32 = 16;

/// Runs the pass; says whether something changed.
pub fn run(func: &mut Function) -> bool {
    let insts: Vec<Inst> = func
        .blocks
        .values()
        .flat_map(|block| block.insts.iter().copied())
        .collect();
    let mut narrow = Narrow::default();
    for inst in insts {
        if !accesses_window(&func.insts[inst].data) {
            continue;
        }
        let addr = func.insts[inst].data.args()[0];
        if func.ty(addr) == Type::B64 && is_arithmetic(func, addr) {
            let low = narrow.low_half(func, addr, DEPTH);
            *func.insts[inst].data.args_mut()[0] = low;
        }
    }
    narrow.place(func)
}

/// Whether the first operand is an address in a window.
fn accesses_window(data: &InstData) -> bool {
    if let InstData::Load { space, .. }
    | InstData::Store { space, .. }
    | InstData::Atomic { space, .. } = *data
    {
        space.is_window()
    } else {
        false
    }
}

/// How the low half of a value follows from those of its operands.
enum Low {
    /// It is a value of 32 bits.
    Is(Value),
    Const(u64),
    /// The operation on the low halves.
    Binary(IntBinaryOp, [Value; 2]),
    /// The shift of the low half.
    Shl(Value, Value),
    /// The product of these, which have 32 bits.
    Product([Value; 2]),
    Select(Value, [Value; 2]),
}

#[expect(clippy::wildcard_enum_match_arm, reason = "others are not narrowed")]
fn low_of(func: &Function, value: Value) -> Option<Low> {
    Some(match *func.def_inst(value)? {
        InstData::Const { bits, .. } => Low::Const(bits & Type::B32.mask()),
        InstData::Resize {
            op: ResizeOp::Uext | ResizeOp::Sext,
            from: Type::B32,
            arg,
            ..
        } => Low::Is(arg),
        InstData::IntBinary {
            op: IntBinaryOp::UmulWide | IntBinaryOp::SmulWide,
            ty: Type::B32,
            args,
        } => Low::Product(args),
        InstData::IntBinary {
            op: IntBinaryOp::Shl,
            args: [x, count],
            ..
        } if func.as_const(count).is_some_and(|count| count < 32) => Low::Shl(x, count),
        InstData::IntBinary { op, args, .. }
            if matches!(
                op,
                IntBinaryOp::Add
                    | IntBinaryOp::Sub
                    | IntBinaryOp::Mul
                    | IntBinaryOp::And
                    | IntBinaryOp::Or
                    | IntBinaryOp::Xor
            ) =>
        {
            Low::Binary(op, args)
        }
        InstData::Select { cond, args, .. } => Low::Select(cond, args),
        _ => return None,
    })
}

/// Whether something is gained by computing only the low half.
fn is_arithmetic(func: &Function, value: Value) -> bool {
    !matches!(low_of(func, value), None | Some(Low::Const(_)))
}

/// Low halves of values, and where the instructions belong that make them.
#[derive(Default)]
struct Narrow {
    known: BTreeMap<Value, Value>,
    after: BTreeMap<Inst, Vec<Inst>>,
    at_start: BTreeMap<Block, Vec<Inst>>,
}

impl Narrow {
    fn low_half(&mut self, func: &mut Function, value: Value, depth: u32) -> Value {
        if let Some(&low) = self.known.get(&value) {
            return low;
        }
        let how = low_of(func, value).filter(|_| depth > 0);
        let mut of = |value: Value| self.low_half(func, value, depth.saturating_sub(1));
        let data = match how {
            Some(Low::Is(low)) => {
                self.known.insert(value, low);
                return low;
            }
            Some(Low::Const(bits)) => InstData::Const {
                ty: Type::B32,
                bits,
            },
            Some(Low::Binary(op, args)) => binary(op, args.map(&mut of)),
            Some(Low::Shl(x, count)) => binary(IntBinaryOp::Shl, [of(x), count]),
            Some(Low::Product(args)) => binary(IntBinaryOp::Mul, args),
            Some(Low::Select(cond, args)) => InstData::Select {
                ty: Type::B32,
                cond,
                args: args.map(&mut of),
            },
            None => InstData::Resize {
                op: ResizeOp::Trunc,
                from: Type::B64,
                to: Type::B32,
                arg: value,
            },
        };
        let (place, loc) = match func.values[value].def {
            ValueDef::Result(inst, _) => {
                (self.after.entry(inst).or_default(), func.insts[inst].loc)
            }
            ValueDef::Param(block, _) => {
                (self.at_start.entry(block).or_default(), SrcLoc::default())
            }
        };
        let inst = func.make_inst(data, &[Type::B32], loc);
        place.push(inst);
        let low = func.insts[inst].results[0];
        self.known.insert(value, low);
        low
    }

    /// Puts each new instruction behind the one that makes the whole value.
    fn place(mut self, func: &mut Function) -> bool {
        let changed = !self.known.is_empty();
        for (block, data) in func.blocks.iter_mut() {
            let old = std::mem::take(&mut data.insts);
            data.insts = self.at_start.remove(&block).unwrap_or_default();
            for inst in old {
                data.insts.push(inst);
                data.insts
                    .extend(self.after.remove(&inst).into_iter().flatten());
            }
        }
        changed
    }
}

fn binary(op: IntBinaryOp, args: [Value; 2]) -> InstData {
    InstData::IntBinary {
        op,
        ty: Type::B32,
        args,
    }
}
