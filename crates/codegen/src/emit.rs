//! Appends IR to a block, for code that is made after translation.

use ptxjit_ir::{
    Block, CompareOp, Function, Inst, InstData, IntBinaryOp, MemSem, Scope, Space, SrcLoc, Type,
    Value,
};
use smallvec::SmallVec;

/// Appends instructions to a block.
pub(crate) struct Emit<'f> {
    pub func: &'f mut Function,
    pub block: Block,
    pub loc: SrcLoc,
}

impl Emit<'_> {
    pub(crate) fn inst(&mut self, data: InstData, results: &[Type]) -> Inst {
        let inst = self.func.make_inst(data, results, self.loc);
        self.func.blocks[self.block].insts.push(inst);
        inst
    }

    pub(crate) fn value(&mut self, data: InstData, ty: Type) -> Value {
        let inst = self.inst(data, &[ty]);
        self.func.insts[inst].results[0]
    }

    pub(crate) fn constant(&mut self, ty: Type, bits: u64) -> Value {
        self.value(
            InstData::Const {
                ty,
                bits: bits & ty.mask(),
            },
            ty,
        )
    }

    pub(crate) fn add(&mut self, base: Value, bytes: i64) -> Value {
        let bytes = self.constant(Type::B64, bytes as u64);
        let sum = InstData::binary(IntBinaryOp::Add, Type::B64, [base, bytes]);
        self.value(sum, Type::B64)
    }

    /// A predicate in memory is a byte.
    pub(crate) fn store(&mut self, base: Value, offset: i64, value: Value) {
        let ty = self.func.ty(value);
        let (ty, value) = if ty == Type::B1 {
            let data = InstData::Resize {
                op: ptxjit_ir::ResizeOp::Uext,
                from: Type::B1,
                to: Type::B8,
                arg: value,
            };
            (Type::B8, self.value(data, Type::B8))
        } else {
            (ty, value)
        };
        let args = SmallVec::from_slice(&[value]);
        let (sem, scope) = (MemSem::Weak, Scope::Cta);
        self.inst(
            InstData::Store {
                space: Space::Local,
                sem,
                scope,
                ty,
                addr: base,
                offset: offset as i32,
                args,
            },
            &[],
        );
    }

    pub(crate) fn load(&mut self, base: Value, offset: i64, ty: Type) -> Value {
        let stored = if ty == Type::B1 { Type::B8 } else { ty };
        let (sem, scope) = (MemSem::Weak, Scope::Cta);
        let data = InstData::Load {
            space: Space::Local,
            sem,
            scope,
            ty: stored,
            n: 1,
            addr: base,
            offset: offset as i32,
        };
        let value = self.value(data, stored);
        if ty != Type::B1 {
            return value;
        }
        let zero = self.constant(Type::B8, 0);
        self.value(
            InstData::Compare {
                op: CompareOp::Ne,
                ty: Type::B8,
                args: [value, zero],
            },
            Type::B1,
        )
    }
}
