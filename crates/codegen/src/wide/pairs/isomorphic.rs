//! Isomorphic instructions: which instructions do the same with the two halves of their operands.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{
    Constant, Function, Inst, InstructionData, MemFlags, Opcode, SourceLoc, Value, ValueDef, types,
};
use smallvec::SmallVec;

use super::{Args, is_vector};
use crate::wide::lane_shifts;

/// The instructions that make two values, each as its first result.
fn makers(func: &Function, x: Value, y: Value) -> Option<(Inst, Inst)> {
    match (func.dfg.value_def(x), func.dfg.value_def(y)) {
        (ValueDef::Result(a, 0), ValueDef::Result(b, 0)) => Some((a, b)),
        _ => None,
    }
}

/// Whether two values are one, or are made by instructions that are the same in this way.
fn is_one(func: &Function, [x, y]: [Value; 2], is_same: impl FnOnce(Inst, Inst) -> bool) -> bool {
    x == y || makers(func, x, y).is_some_and(|(a, b)| is_same(a, b))
}

/// Whether two vectors are broadcasts of the same scalar or constant.
pub(super) fn is_same(func: &Function, x: Value, y: Value) -> bool {
    is_one(func, [x, y], |a, b| is_same_vector(func, a, b))
}

fn is_same_vector(func: &Function, a: Inst, b: Inst) -> bool {
    let args = [a, b].map(|inst| func.dfg.inst_args(inst).first());
    let args = args.map(|arg| arg.map(|&arg| func.dfg.resolve_aliases(arg)));
    match ([a, b].map(|inst| func.dfg.insts[inst].opcode()), args) {
        ([Opcode::Vconst, Opcode::Vconst], _) => func.dfg.insts[a] == func.dfg.insts[b],
        ([Opcode::Splat, Opcode::Splat], [Some(m), Some(n)]) => is_same_scalar(func, m, n),
        ([Opcode::Bitcast, Opcode::Bitcast], [Some(m), Some(n)]) => {
            func.dfg.value_type(m) == func.dfg.value_type(n) && is_same(func, m, n)
        }
        _ => false,
    }
}

fn is_same_scalar(func: &Function, x: Value, y: Value) -> bool {
    is_one(func, [x, y], |a, b| {
        let opcode = func.dfg.insts[a].opcode();
        matches!(opcode, Opcode::Iconst | Opcode::F32const | Opcode::F64const)
            && func.dfg.value_type(x) == func.dfg.value_type(y)
            && func.dfg.insts[a] == func.dfg.insts[b]
    })
}

/// The operands of two isomorphic instructions, each beside its counterpart: the first two of the
/// second instruction may be swapped. Of two that put vectors with narrower lanes together, the
/// operands of each are a pair.
pub(super) fn args_of(func: &Function, a: Inst, b: Inst) -> Args {
    if widened(func, a, b).is_some() {
        return Args::new();
    }
    let resolved = |inst: Inst| -> SmallVec<[Value; 3]> {
        let args = func.dfg.inst_args(inst).iter();
        args.map(|&arg| func.dfg.resolve_aliases(arg)).collect()
    };
    let (first, mut second) = (resolved(a), resolved(b));
    if is_narrowing(func, a) {
        return Args::from_iter([first, second].map(|args| (args[0], args[1])));
    }
    if commutes(&func.dfg.insts[a]) {
        let alike = |m: usize, n: usize| likeness(func, first[m], second[n]);
        if alike(0, 1) + alike(1, 0) > alike(0, 0) + alike(1, 1) {
            second.swap(0, 1);
        }
    }
    first.into_iter().zip(second).collect()
}

/// The vector whose first half one instruction widens, and whose second half another one. The
/// instruction for 256 bits takes all of it: their operands are no pair.
pub(super) fn widened(func: &Function, a: Inst, b: Inst) -> Option<Value> {
    let opcodes = [a, b].map(|inst| func.dfg.insts[inst].opcode());
    use Opcode::{SwidenHigh, SwidenLow, UwidenHigh, UwidenLow};
    if !matches!(opcodes, [UwidenLow, UwidenHigh] | [SwidenLow, SwidenHigh]) {
        return None;
    }
    let [x, y] = [a, b].map(|inst| func.dfg.resolve_aliases(func.dfg.inst_args(inst)[0]));
    (x == y).then_some(x)
}

/// Whether an instruction makes one vector of the lanes of two, half as wide. The one for 256 bits
/// does so with each 128 bits by themselves: what it gives has its quarters in another order.
pub(super) fn is_narrowing(func: &Function, inst: Inst) -> bool {
    matches!(
        func.dfg.insts[inst].opcode(),
        Opcode::Snarrow | Opcode::Unarrow
    )
}

/// Whether all operands are vectors whose lanes were made wider.
pub(crate) fn is_of_widened(func: &Function, inst: Inst) -> bool {
    func.dfg.inst_args(inst).iter().all(|&arg| {
        let arg = func.dfg.resolve_aliases(arg);
        matches!(func.dfg.value_def(arg), ValueDef::Result(made, _) if matches!(
            func.dfg.insts[made].opcode(),
            Opcode::UwidenLow | Opcode::UwidenHigh | Opcode::SwidenLow | Opcode::SwidenHigh
        ))
    })
}

/// Whether the first two operands may be swapped.
#[expect(clippy::wildcard_enum_match_arm, reason = "the enum is Cranelift's")]
pub(super) fn commutes(data: &InstructionData) -> bool {
    match data {
        InstructionData::IntCompare { cond, .. } => matches!(cond, IntCC::Equal | IntCC::NotEqual),
        _ => matches!(
            data.opcode(),
            Opcode::Fadd
                | Opcode::Fmul
                | Opcode::Fma
                | Opcode::Band
                | Opcode::Bor
                | Opcode::Bxor
                | Opcode::Iadd
                | Opcode::Imul
                | Opcode::Smin
                | Opcode::Smax
                | Opcode::Umin
                | Opcode::Umax
        ),
    }
}

/// How likely it is that two values are the halves of one.
fn likeness(func: &Function, x: Value, y: Value) -> u32 {
    if is_same(func, x, y) {
        return 3;
    }
    match (func.dfg.value_def(x), func.dfg.value_def(y)) {
        (ValueDef::Result(a, _), ValueDef::Result(b, _))
            if func.dfg.insts[a].opcode() == func.dfg.insts[b].opcode() =>
        {
            match (func.dfg.insts[a], func.dfg.insts[b]) {
                (
                    InstructionData::LoadNoOffset { arg: m, .. },
                    InstructionData::LoadNoOffset { arg: n, .. },
                ) => likeness(
                    func,
                    func.dfg.resolve_aliases(m),
                    func.dfg.resolve_aliases(n),
                ),
                _ => 1 + u32::from(func.srcloc(a) == func.srcloc(b)),
            }
        }
        (ValueDef::Param(a, _), ValueDef::Param(b, _)) => u32::from(a == b),
        _ => 0,
    }
}

/// What two instructions must have in common beside their operands.
#[derive(PartialEq)]
enum Form {
    Plain(Opcode),
    Constant(Constant),
    IntCompare(IntCC),
    FloatCompare(FloatCC),
    Load(Opcode, MemFlags, SourceLoc, i32),
    Interleave(usize, usize),
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the enum is Cranelift's")]
fn form(func: &Function, inst: Inst) -> Option<Form> {
    match func.dfg.insts[inst] {
        InstructionData::Unary { opcode, .. }
        | InstructionData::Binary { opcode, .. }
        | InstructionData::Ternary { opcode, .. }
        | InstructionData::LoadNoOffset {
            opcode: opcode @ Opcode::Bitcast,
            ..
        } => Some(Form::Plain(opcode)),
        InstructionData::UnaryConst {
            constant_handle, ..
        } => Some(Form::Constant(constant_handle)),
        InstructionData::IntCompare { cond, .. } => Some(Form::IntCompare(cond)),
        InstructionData::FloatCompare { cond, .. } => Some(Form::FloatCompare(cond)),
        InstructionData::Load {
            opcode,
            flags,
            offset,
            ..
        } => Some(Form::Load(opcode, flags, func.srcloc(inst), offset.into())),
        InstructionData::Shuffle { imm, .. } => interleaved(func.dfg.immediates[imm].as_slice())
            .map(|(size, first)| Form::Interleave(size, first)),
        _ => None,
    }
}

/// The element size and first byte of a shuffle that interleaves its operands; `None` for other
/// shuffles.
fn interleaved(mask: &[u8]) -> Option<(usize, usize)> {
    let sizes = [1, 2, 4, 8].into_iter();
    let mut forms = sizes.flat_map(|size| [(size, 0), (size, 8)]);
    forms.find(|&(size, first)| {
        (0..16).all(|at| {
            let (element, byte) = (at / size, at % size);
            usize::from(mask[at]) == first + element / 2 * size + byte + 16 * (element % 2)
        })
    })
}

/// Whether two instructions of one block, of which the first comes first, do the same with the two
/// halves of their operands.
pub(super) fn is_pair(func: &Function, a: Inst, b: Inst) -> bool {
    if func.layout.inst_block(a) != func.layout.inst_block(b) {
        return false;
    }
    if widened(func, a, b).is_some() {
        return true;
    }
    if !is_lane_wise(func, a) && !is_narrowing(func, a) {
        return false;
    }
    let have_same_form = match (form(func, a), form(func, b)) {
        (Some(Form::Load(opcode, m, here, x)), Some(Form::Load(other, n, there, y))) => {
            let bytes = if opcode == Opcode::Load { 16 } else { 8 };
            (opcode, m, here) == (other, n, there) && x.checked_add(bytes) == Some(y)
        }
        (Some(m), Some(n)) => m == n,
        _ => false,
    };
    have_same_form
        && args_of(func, a, b).into_iter().all(|(x, y)| {
            let (m, n) = (func.dfg.value_type(x), func.dfg.value_type(y));
            m == n && (is_vector(m) || is_same_scalar(func, x, y))
        })
}

/// Whether an instruction loads 64 bits and makes the lanes twice as wide. The one for 256 bits
/// loads 128.
fn is_widening_load(opcode: Opcode) -> bool {
    use Opcode::{Sload8x8, Sload16x4, Sload32x2, Uload8x8, Uload16x4, Uload32x2};
    let is_signed = matches!(opcode, Sload8x8 | Sload16x4 | Sload32x2);
    is_signed || matches!(opcode, Uload8x8 | Uload16x4 | Uload32x2)
}

/// Whether an instruction computes each lane of a vector, or each 128 bits, from the same lane of
/// its operands, and becomes the same operation on 256 bits if its machine instructions are
/// widened.
#[expect(clippy::wildcard_enum_match_arm, reason = "the enum is Cranelift's")]
pub(super) fn is_lane_wise(func: &Function, inst: Inst) -> bool {
    let dfg = &func.dfg;
    let Some(&result) = dfg.inst_results(inst).first() else {
        return false;
    };
    let ty = dfg.value_type(result);
    if !is_vector(ty) || dfg.inst_results(inst).len() != 1 {
        return false;
    }
    let is_float = ty.lane_type().is_float();
    let opcode = dfg.insts[inst].opcode();
    match opcode {
        Opcode::Load | Opcode::Vconst => true,
        _ if is_widening_load(opcode) => true,
        // The instruction for 64 bits broadcasts in each 128 bits by itself.
        Opcode::Splat => ty.lane_bits() < 64,
        // Other shuffles may become broadcasts of the first 128 bits.
        Opcode::Shuffle => matches!(form(func, inst), Some(Form::Interleave(..))),
        Opcode::Bitcast => is_vector(dfg.value_type(dfg.inst_args(inst)[0])),
        Opcode::Fadd
        | Opcode::Fsub
        | Opcode::Fmul
        | Opcode::Fdiv
        | Opcode::Fma
        | Opcode::Sqrt
        | Opcode::Fneg
        | Opcode::Fabs
        | Opcode::Ceil
        | Opcode::Floor
        | Opcode::Trunc
        | Opcode::Nearest
        | Opcode::Fcmp
        | Opcode::Icmp
        | Opcode::Band
        | Opcode::Bor
        | Opcode::Bxor
        | Opcode::Bnot
        | Opcode::Bitselect
        | Opcode::Blendv
        | Opcode::Iadd
        | Opcode::Isub
        | Opcode::Ineg => true,
        Opcode::FcvtFromSint | Opcode::FcvtFromUint => {
            ty == types::F32X4 && dfg.value_type(dfg.inst_args(inst)[0]) == types::I32X4
        }
        Opcode::X86Cvtt2dq => ty == types::I32X4,
        // Products of widened lanes are other instructions.
        Opcode::Imul => matches!(ty.lane_bits(), 16 | 32) && !is_of_widened(func, inst),
        Opcode::Smin | Opcode::Smax | Opcode::Umin | Opcode::Umax => {
            !is_float && matches!(ty.lane_bits(), 8 | 16 | 32)
        }
        Opcode::Iabs => matches!(ty.lane_bits(), 8 | 16 | 32),
        Opcode::Ishl | Opcode::Ushr => matches!(ty.lane_bits(), 16 | 32 | 64),
        Opcode::Sshr => matches!(ty.lane_bits(), 16 | 32),
        Opcode::UaddSat | Opcode::SaddSat | Opcode::UsubSat | Opcode::SsubSat => {
            matches!(ty.lane_bits(), 8 | 16)
        }
        Opcode::AvgRound => matches!(ty.lane_bits(), 8 | 16),
        _ => lane_shifts::is_stand_in(opcode, ty),
    }
}
