//! Puts instructions at the end of a list, for the pass that instruments a function.

use ptxjit_ir::{
    CompareOp, Function, Inst, InstData, IntBinaryOp, MemSem, ResizeOp, Scope, Space, SpecialReg,
    SrcLoc, StackSlot, Type, Value,
};

/// Where instructions go.
pub(super) struct Emit<'a> {
    pub(super) func: &'a mut Function,
    pub(super) out: Vec<Inst>,
    pub(super) loc: SrcLoc,
}

impl Emit<'_> {
    /// An instruction without results, or whose results the caller asks for.
    pub(super) fn inst(&mut self, data: InstData, results: &[Type]) -> Inst {
        let inst = self.func.make_inst(data, results, self.loc);
        self.out.push(inst);
        inst
    }

    pub(super) fn value(&mut self, data: InstData, ty: Type) -> Value {
        let inst = self.inst(data, &[ty]);
        self.func.insts[inst].results[0]
    }

    pub(super) fn iconst(&mut self, ty: Type, bits: u64) -> Value {
        self.value(InstData::Const { ty, bits }, ty)
    }

    pub(super) fn sreg(&mut self, sreg: SpecialReg) -> Value {
        self.value(InstData::Sreg { sreg }, sreg.ty())
    }

    pub(super) fn int(&mut self, op: IntBinaryOp, args: [Value; 2]) -> Value {
        let ty = self.func.ty(args[0]);
        self.value(InstData::IntBinary { op, ty, args }, ty)
    }

    pub(super) fn add(&mut self, a: Value, b: Value) -> Value {
        self.int(IntBinaryOp::Add, [a, b])
    }

    pub(super) fn sub(&mut self, a: Value, b: Value) -> Value {
        self.int(IntBinaryOp::Sub, [a, b])
    }

    pub(super) fn mul(&mut self, a: Value, b: Value) -> Value {
        self.int(IntBinaryOp::Mul, [a, b])
    }

    pub(super) fn and(&mut self, a: Value, b: Value) -> Value {
        self.int(IntBinaryOp::And, [a, b])
    }

    pub(super) fn or(&mut self, a: Value, b: Value) -> Value {
        self.int(IntBinaryOp::Or, [a, b])
    }

    pub(super) fn compare(&mut self, op: CompareOp, args: [Value; 2]) -> Value {
        let ty = self.func.ty(args[0]);
        self.value(InstData::Compare { op, ty, args }, Type::B1)
    }

    pub(super) fn not(&mut self, cond: Value) -> Value {
        let one = self.iconst(Type::B1, 1);
        self.int(IntBinaryOp::Xor, [cond, one])
    }

    pub(super) fn select(&mut self, cond: Value, args: [Value; 2]) -> Value {
        let ty = self.func.ty(args[0]);
        self.value(InstData::Select { ty, cond, args }, ty)
    }

    pub(super) fn widen(&mut self, arg: Value, to: Type) -> Value {
        self.resize(ResizeOp::Uext, arg, to)
    }

    pub(super) fn resize(&mut self, op: ResizeOp, arg: Value, to: Type) -> Value {
        let from = self.func.ty(arg);
        self.value(InstData::Resize { op, from, to, arg }, to)
    }

    /// Loads `n` words of 32 bits of global memory.
    pub(super) fn load_tags(
        &mut self,
        sem: MemSem,
        (addr, offset): (Value, i32),
        n: u8,
    ) -> Vec<Value> {
        let data = InstData::Load {
            space: Space::Global,
            sem,
            scope: Scope::Sys,
            ty: Type::B32,
            n,
            addr,
            offset,
        };
        let inst = self.inst(data, &vec![Type::B32; n.into()]);
        self.func.insts[inst].results.to_vec()
    }

    pub(super) fn store_tags(&mut self, (addr, offset): (Value, i32), tags: &[Value]) {
        self.store(Space::Global, (addr, offset), tags);
    }

    pub(super) fn store(&mut self, space: Space, (addr, offset): (Value, i32), args: &[Value]) {
        let data = InstData::Store {
            space,
            sem: MemSem::Weak,
            scope: Scope::Sys,
            ty: self.func.ty(args[0]),
            addr,
            offset,
            args: args.into(),
        };
        self.inst(data, &[]);
    }

    /// A parameter of the kernel.
    pub(super) fn param(&mut self, offset: u32, ty: Type) -> Value {
        let addr = self.iconst(Type::B64, 0);
        let data = InstData::Load {
            space: Space::Param,
            sem: MemSem::Weak,
            scope: Scope::Sys,
            ty,
            n: 1,
            addr,
            offset: offset as i32,
        };
        self.value(data, ty)
    }

    /// Reads a variable of 32 bits that is a slot for now.
    pub(super) fn get(&mut self, slot: StackSlot) -> Value {
        let addr = self.slot(slot);
        let data = InstData::Load {
            space: Space::Local,
            sem: MemSem::Weak,
            scope: Scope::Sys,
            ty: Type::B32,
            n: 1,
            addr,
            offset: 0,
        };
        self.value(data, Type::B32)
    }

    pub(super) fn set(&mut self, slot: StackSlot, value: Value) {
        let addr = self.slot(slot);
        self.store(Space::Local, (addr, 0), &[value]);
    }

    fn slot(&mut self, slot: StackSlot) -> Value {
        self.value(InstData::StackAddr { slot, offset: 0 }, Type::B64)
    }
}
