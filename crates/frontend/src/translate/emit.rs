//! Short ways for instruction handlers to emit IR.

use ptxjit_ir::{
    CompareOp, Convert, DeviceOp, FloatBinaryOp, FloatCompareOp, FloatFmt, FloatMode, FloatUnaryOp,
    InstData, IntBinaryOp, IntTernaryOp, IntUnaryOp, MarkOp, MemSem, ResizeOp, Scope, Space, Type,
    Value,
};
use smallvec::SmallVec;

use super::Translator;

impl Translator<'_> {
    /// Emits an instruction with one result.
    pub fn ins(&mut self, data: InstData, ty: Type) -> Value {
        let data = self.with_whole_address(data);
        self.builder.ins(data, ty)
    }

    /// Emits an instruction with results of the given types.
    pub fn ins_multi(&mut self, data: InstData, types: &[Type]) -> SmallVec<[Value; 2]> {
        let data = self.with_whole_address(data);
        let inst = self.builder.inst(data, types);
        self.builder.func.insts[inst].results.clone()
    }

    /// Emits an instruction without results.
    pub fn ins_void(&mut self, data: InstData) {
        let data = self.with_whole_address(data);
        self.builder.inst(data, &[]);
    }

    /// Whether the program is to have marks.
    pub fn wants_marks(&self) -> bool {
        self.tables.marks
    }

    /// Whether asynchronous operations are to complete late.
    pub fn is_late(&self) -> bool {
        self.tables.late
    }

    /// Emits a mark, if the program is to have any.
    pub fn mark(&mut self, op: MarkOp, args: &[Value]) {
        if self.tables.marks {
            self.ins_void(InstData::Device {
                op: DeviceOp::Mark(op),
                args: SmallVec::from_slice(args),
            });
        }
    }

    /// A constant.
    pub fn iconst(&mut self, ty: Type, bits: u64) -> Value {
        self.builder.iconst(ty, bits)
    }

    /// Type of a value.
    pub fn value_ty(&self, value: Value) -> Type {
        self.builder.func.ty(value)
    }

    /// The constant that a value is, if it is one.
    pub fn as_const(&self, value: Value) -> Option<u64> {
        self.builder.func.as_const(value)
    }

    /// Loads `n` elements that lie side by side, as plain code does.
    pub fn load(
        &mut self,
        space: Space,
        ty: Type,
        n: usize,
        (addr, offset): (Value, i32),
    ) -> SmallVec<[Value; 2]> {
        let data = InstData::Load {
            space,
            sem: MemSem::Weak,
            scope: Scope::Cta,
            ty,
            n: n as u8,
            addr,
            offset,
        };
        self.ins_multi(data, &vec![ty; n])
    }

    /// Stores elements side by side, as plain code does.
    pub fn store(&mut self, space: Space, ty: Type, (addr, offset): (Value, i32), args: &[Value]) {
        self.ins_void(InstData::Store {
            space,
            sem: MemSem::Weak,
            scope: Scope::Cta,
            ty,
            addr,
            offset,
            args: SmallVec::from_slice(args),
        });
    }

    /// An op with one integer operand; `Popc` and `Clz` give a `B32`.
    pub fn unary(&mut self, op: IntUnaryOp, arg: Value) -> Value {
        let ty = self.value_ty(arg);
        let result = match op {
            IntUnaryOp::Popc | IntUnaryOp::Clz => Type::B32,
            IntUnaryOp::Not | IntUnaryOp::Neg | IntUnaryOp::Abs | IntUnaryOp::Brev => ty,
        };
        self.ins(InstData::IntUnary { op, ty, arg }, result)
    }

    /// An op with two integer operands, at the type of the first; the `Wide` products give twice
    /// its width.
    pub fn binary(&mut self, op: IntBinaryOp, x: Value, y: Value) -> Value {
        let ty = self.value_ty(x);
        let result = match op {
            IntBinaryOp::UmulWide | IntBinaryOp::SmulWide => match ty {
                Type::B8 => Type::B16,
                Type::B16 => Type::B32,
                Type::B1 | Type::B32 | Type::B64 => Type::B64,
            },
            _ => ty,
        };
        self.ins(
            InstData::IntBinary {
                op,
                ty,
                args: [x, y],
            },
            result,
        )
    }

    /// An op with three operands, at the type of the first.
    pub fn ternary(&mut self, op: IntTernaryOp, args: [Value; 3]) -> Value {
        let ty = self.value_ty(args[0]);
        self.ins(InstData::IntTernary { op, ty, args }, ty)
    }

    /// An integer comparison.
    pub fn compare(&mut self, op: CompareOp, x: Value, y: Value) -> Value {
        let ty = self.value_ty(x);
        self.ins(
            InstData::Compare {
                op,
                ty,
                args: [x, y],
            },
            Type::B1,
        )
    }

    /// A float comparison.
    pub fn float_compare(
        &mut self,
        op: FloatCompareOp,
        fmt: FloatFmt,
        ftz: bool,
        x: Value,
        y: Value,
    ) -> Value {
        self.ins(
            InstData::FloatCompare {
                op,
                fmt,
                ftz,
                args: [x, y],
            },
            Type::B1,
        )
    }

    /// `cond ? x : y`
    pub fn select(&mut self, cond: Value, x: Value, y: Value) -> Value {
        let ty = self.value_ty(x);
        self.ins(
            InstData::Select {
                ty,
                cond,
                args: [x, y],
            },
            ty,
        )
    }

    /// The low bits of a value, its zero-extension, or itself.
    pub fn zext_or_trunc(&mut self, value: Value, to: Type) -> Value {
        self.resize(ResizeOp::Uext, value, to)
    }

    /// The low bits of a value, its sign-extension, or itself.
    pub fn sext_or_trunc(&mut self, value: Value, to: Type) -> Value {
        self.resize(ResizeOp::Sext, value, to)
    }

    fn resize(&mut self, extend: ResizeOp, value: Value, to: Type) -> Value {
        let from = self.value_ty(value);
        if from == to {
            return value;
        }
        let op = if to.bits() < from.bits() {
            ResizeOp::Trunc
        } else {
            extend
        };
        self.ins(
            InstData::Resize {
                op,
                from,
                to,
                arg: value,
            },
            to,
        )
    }

    /// A float op with one operand.
    pub fn float_unary(
        &mut self,
        op: FloatUnaryOp,
        fmt: FloatFmt,
        mode: FloatMode,
        arg: Value,
    ) -> Value {
        self.ins(InstData::FloatUnary { op, fmt, mode, arg }, fmt.ty())
    }

    /// A float op with two operands.
    pub fn float_binary(
        &mut self,
        op: FloatBinaryOp,
        fmt: FloatFmt,
        mode: FloatMode,
        x: Value,
        y: Value,
    ) -> Value {
        self.ins(
            InstData::FloatBinary {
                op,
                fmt,
                mode,
                args: [x, y],
            },
            fmt.ty(),
        )
    }

    /// `x * y + z`, rounded once.
    pub fn fma(&mut self, fmt: FloatFmt, mode: FloatMode, x: Value, y: Value, z: Value) -> Value {
        self.ins(
            InstData::Fma {
                fmt,
                mode,
                args: [x, y, z],
            },
            fmt.ty(),
        )
    }

    /// A conversion.
    pub fn convert(&mut self, cvt: Convert, arg: Value) -> Value {
        self.ins(InstData::Convert { cvt, arg }, cvt.to.ty())
    }

    /// Bits `from` and up of a value, as many as `to` has.
    pub fn extract(&mut self, value: Value, from: u32, to: Type) -> Value {
        let shifted = if from == 0 {
            value
        } else {
            let count = self.iconst(Type::B32, u64::from(from));
            self.binary(IntBinaryOp::Ushr, value, count)
        };
        self.zext_or_trunc(shifted, to)
    }

    /// One value of type `to` from its parts, the least significant first.
    pub fn concat(&mut self, parts: &[Value], to: Type) -> Value {
        let mut result = None;
        let mut at = 0;
        for &part in parts {
            let width = self.value_ty(part).bits();
            let wide = self.zext_or_trunc(part, to);
            let placed = if at == 0 {
                wide
            } else {
                let count = self.iconst(Type::B32, u64::from(at));
                self.binary(IntBinaryOp::Shl, wide, count)
            };
            result = Some(match result {
                None => placed,
                Some(low) => self.binary(IntBinaryOp::Or, low, placed),
            });
            at += width;
        }
        result.unwrap_or_else(|| self.iconst(to, 0))
    }

    /// The two halves of a packed value, low first.
    pub fn halves(&mut self, value: Value) -> [Value; 2] {
        let half = match self.value_ty(value) {
            Type::B64 => Type::B32,
            Type::B32 => Type::B16,
            Type::B16 | Type::B8 | Type::B1 => Type::B8,
        };
        [
            self.extract(value, 0, half),
            self.extract(value, half.bits(), half),
        ]
    }
}
