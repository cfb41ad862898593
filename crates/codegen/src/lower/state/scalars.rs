//! Pure instructions on scalars.

use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_abi::{SlowForm, SymbolRef};
use ptxjit_ir::{InstData, IntBinaryOp, Space, Type, VarId};
use smallvec::SmallVec;

use crate::lower::Lower;
use crate::ops::{Running, condition, int_type};

impl Lower<'_, '_> {
    /// The scalar form of a pure instruction. Operands and result may be in either register class.
    pub(in crate::lower) fn scalar_op(&mut self, data: &InstData, args: &[cl::Value]) -> cl::Value {
        match *data {
            InstData::Const { ty, bits } => self.b.constant(ty, bits, false),
            InstData::StateOf { block } => {
                let state = self.plan.wait_of[block].expect("states are waits");
                self.b.ins().iconst(types::I32, i64::from(state))
            }
            InstData::VarAddr { var, offset } => self.var_addr(var, offset),
            InstData::FuncAddr { func } => self.b.func_addr(func),
            InstData::StackAddr { slot, offset } => {
                let at = i64::from(self.decided.slots.offsets[slot]) + i64::from(offset);
                self.b.ins().iconst(types::I64, at)
            }
            InstData::IntUnary { op, ty, .. } => {
                let x = self.b.cast_scalar(args[0], int_type(ty));
                self.b.scalar_int_unary(op, ty, x)
            }
            InstData::IntBinary { op, ty, .. } => self
                .scalar_int_binary(op, ty, args)
                .unwrap_or_else(|| self.by_call(data, args)),
            InstData::IntTernary { op, ty, .. } => {
                let ints = self.b.in_int_registers(args);
                self.b
                    .scalar_int_ternary(op, ty, &ints)
                    .unwrap_or_else(|| self.by_call(data, args))
            }
            InstData::Lop3 { lut, .. } => {
                let x: SmallVec<[cl::Value; 3]> =
                    self.b.each(args, |b, arg| b.cast_scalar(arg, types::I32));
                self.b.lop3(lut, [x[0], x[1], x[2]])
            }
            InstData::Resize { op, from, to, .. } => {
                let x = self.b.cast_scalar(args[0], int_type(from));
                self.b.scalar_resize(op, from, to, x)
            }
            InstData::Compare { op, ty, .. } => {
                let x = self.b.cast_scalar(args[0], int_type(ty));
                let y = self.b.cast_scalar(args[1], int_type(ty));
                self.b.ins().icmp(condition(op), x, y)
            }
            InstData::Select { ty, .. } => self.scalar_select(ty, args),
            InstData::FloatUnary { op, fmt, mode, .. } => self
                .b
                .float_unary(op, fmt, mode, args[0])
                .unwrap_or_else(|| self.by_call(data, args)),
            InstData::FloatBinary { op, fmt, mode, .. } => self
                .b
                .float_binary(op, fmt, mode, args[0], args[1])
                .unwrap_or_else(|| self.by_call(data, args)),
            InstData::Fma { fmt, mode, .. } => self
                .b
                .fma(fmt, mode, [args[0], args[1], args[2]], self.running())
                .unwrap_or_else(|| self.by_call(data, args)),
            InstData::FloatCompare { op, fmt, ftz, .. } => {
                self.b.float_compare(op, fmt, ftz, args[0], args[1])
            }
            InstData::Convert { cvt, .. } => self
                .b
                .scalar_convert(&cvt, args[0])
                .unwrap_or_else(|| self.by_call(data, args)),
            InstData::ToGeneric { space, .. } | InstData::FromGeneric { space, .. } => {
                let base = self.b.window_base(space);
                let x = self.b.cast_scalar(args[0], types::I64);
                if matches!(data, InstData::ToGeneric { .. }) {
                    self.b.ins().iadd(x, base)
                } else {
                    self.b.ins().isub(x, base)
                }
            }
            InstData::Bfi { ty, .. } => {
                let ints = self.b.in_int_registers(args);
                self.b.scalar_bfi(ty, &ints)
            }
            InstData::ConvertRs { cvt, .. } => self
                .b
                .narrow_f32(&cvt, Some(args[1]), args[0])
                .unwrap_or_else(|| self.by_call(data, args)),
            InstData::Sreg { .. }
            | InstData::IsSpace { .. }
            | InstData::EndLane { .. }
            | InstData::FirstRunning { .. }
            | InstData::Load { .. }
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
            | InstData::Nop => unreachable!("not a pure instruction: {data:?}"),
        }
    }

    fn scalar_int_binary(
        &mut self,
        op: IntBinaryOp,
        ty: Type,
        args: &[cl::Value],
    ) -> Option<cl::Value> {
        let is_count = matches!(op, IntBinaryOp::Shl | IntBinaryOp::Ushr | IntBinaryOp::Sshr);
        let second = if is_count { types::I32 } else { int_type(ty) };
        let x = self.b.cast_scalar(args[0], int_type(ty));
        let y = self.b.cast_scalar(args[1], second);
        self.b.scalar_int_binary(op, ty, x, y)
    }

    fn scalar_select(&mut self, ty: Type, args: &[cl::Value]) -> cl::Value {
        let is_float = matches!(self.b.func.dfg.value_type(args[1]), types::F32 | types::F64);
        let class = match (ty, is_float) {
            (Type::B32, true) => types::F32,
            (Type::B64, true) => types::F64,
            _ => int_type(ty),
        };
        let [x, y] = [args[1], args[2]].map(|arg| self.b.cast_scalar(arg, class));
        self.b.ins().select(args[0], x, y)
    }

    /// Evaluates an instruction that has no inline form.
    fn by_call(&mut self, data: &InstData, args: &[cl::Value]) -> cl::Value {
        self.note_slow(SlowForm::Call);
        self.b.evaluated(data, args)
    }

    /// Whether most lanes run in the node being emitted.
    pub(in crate::lower) fn running(&self) -> Running {
        if self.node.version.is_general {
            Running::Few
        } else {
            Running::Most
        }
    }

    /// The place of a variable: a constant in `.shared`, else a symbol.
    fn var_addr(&mut self, var: VarId, offset: i64) -> cl::Value {
        let space = (self.inputs.space_of)(var);
        if matches!(space, Space::Shared | Space::SharedCluster) {
            let at = self.inputs.shared.offsets.get(&var).copied().unwrap_or(0);
            return self.b.ins().iconst(types::I64, i64::from(at) + offset);
        }
        let base = self.b.symbol(SymbolRef::Var(var));
        self.b.ins().iadd_imm_s(base, offset)
    }
}
