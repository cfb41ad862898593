//! Short ways to write functions of the IR in unit tests of the passes.

#![forbid(unsafe_code)]

use ptxjit_ir::{
    Block, BlockCall, CompareOp, Function, FunctionBuilder, FunctionKind, InstData, IntBinaryOp,
    MemSem, Scope, Space, StackSlot, Terminator, Type, Value, print, verify,
};

/// A device function that is built block by block.
pub struct Build<'f> {
    pub b: FunctionBuilder<'f>,
}

/// Makes a device function with one result.
pub fn function(
    params: &[Type],
    ret: Type,
    build: impl FnOnce(&mut Build<'_>, &[Value]),
) -> Function {
    let mut func = Function::new("f", FunctionKind::Device, vec![ret]);
    let params: Vec<Value> = params
        .iter()
        .map(|&ty| func.add_param(func.entry, ty))
        .collect();
    let mut b = Build {
        b: FunctionBuilder::new(&mut func),
    };
    build(&mut b, &params);
    b.b.seal_all();
    verify::function(&func, None)
        .unwrap_or_else(|errors| panic!("{}\n{}", errors[0], print::function(&func)));
    func
}

impl Build<'_> {
    pub fn iconst(&mut self, ty: Type, bits: u64) -> Value {
        self.b.iconst(ty, bits)
    }

    pub fn int(&mut self, op: IntBinaryOp, a: Value, b: Value) -> Value {
        let ty = self.b.func.ty(a);
        self.b.ins(
            InstData::IntBinary {
                op,
                ty,
                args: [a, b],
            },
            ty,
        )
    }

    pub fn add(&mut self, a: Value, b: Value) -> Value {
        self.int(IntBinaryOp::Add, a, b)
    }

    pub fn compare(&mut self, op: CompareOp, a: Value, b: Value) -> Value {
        let ty = self.b.func.ty(a);
        self.b.ins(
            InstData::Compare {
                op,
                ty,
                args: [a, b],
            },
            Type::B1,
        )
    }

    pub fn slot(&mut self, size: u32) -> StackSlot {
        self.b.stack_slot(size, 8)
    }

    pub fn slot_addr(&mut self, slot: StackSlot, offset: i32) -> Value {
        self.b.ins(InstData::StackAddr { slot, offset }, Type::B64)
    }

    pub fn load(&mut self, space: Space, ty: Type, addr: Value, offset: i32) -> Value {
        let (sem, scope) = (MemSem::Weak, Scope::Sys);
        self.b.ins(
            InstData::Load {
                space,
                sem,
                scope,
                ty,
                n: 1,
                addr,
                offset,
            },
            ty,
        )
    }

    pub fn store(&mut self, space: Space, addr: Value, offset: i32, value: Value) {
        let (sem, scope, ty) = (MemSem::Weak, Scope::Sys, self.b.func.ty(value));
        let args = [value].into_iter().collect();
        self.b.inst(
            InstData::Store {
                space,
                sem,
                scope,
                ty,
                addr,
                offset,
                args,
            },
            &[],
        );
    }

    pub fn block(&mut self) -> Block {
        self.b.new_block()
    }

    /// A block with one parameter.
    pub fn block_of(&mut self, ty: Type) -> (Block, Value) {
        let block = self.b.new_block();
        (block, self.b.func.add_param(block, ty))
    }

    pub fn at(&mut self, block: Block) {
        self.b.switch_to(block);
    }

    pub fn jump(&mut self, block: Block, args: &[Value]) {
        self.b.terminate(Terminator::Jump(call(block, args)));
    }

    pub fn brif(&mut self, cond: Value, then_: (Block, &[Value]), else_: (Block, &[Value])) {
        let (then_, else_) = (call(then_.0, then_.1), call(else_.0, else_.1));
        self.b.terminate(Terminator::Brif { cond, then_, else_ });
    }

    pub fn ret(&mut self, value: Value) {
        self.b
            .terminate(Terminator::Ret([value].into_iter().collect()));
    }
}

fn call(block: Block, args: &[Value]) -> BlockCall {
    BlockCall {
        block,
        args: args.iter().copied().collect(),
    }
}
