//! Tests of the interpreter on programs built by hand.
//!
//! [`Kernel`] builds a kernel that takes the address of one global buffer; [`run`] launches it on a
//! buffer of words.

mod calls;
mod faults;
mod lockstep;
mod memory;
mod planned;
mod sync;
mod warp_ops;

use std::collections::BTreeMap;

use ptxjit_ir::{
    BarrierOp, Block, CompareOp, FuncId, Function, FunctionBuilder, FunctionKind, InstData,
    IntBinaryOp, KernelAttrs, KernelParam, MemSem, Program, RelocTarget, ResizeOp, Scope, Space,
    SpecialReg, Terminator, Type, Value, WarpOp,
};
use smallvec::SmallVec;

use crate::planned::Plan;
use crate::{Fault, Host, Launch, SilentHost, VecMemory, launch};

/// A function under construction, with shorthands.
struct Code<'f> {
    b: FunctionBuilder<'f>,
}

impl Code<'_> {
    fn word(&mut self, value: u64) -> Value {
        self.b.iconst(Type::B32, value)
    }

    fn long(&mut self, value: u64) -> Value {
        self.b.iconst(Type::B64, value)
    }

    fn sreg(&mut self, sreg: SpecialReg) -> Value {
        self.b.ins(InstData::Sreg { sreg }, sreg.ty())
    }

    fn tid(&mut self) -> Value {
        self.sreg(SpecialReg::TidX)
    }

    fn binary(&mut self, op: IntBinaryOp, a: Value, b: Value) -> Value {
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

    fn add(&mut self, a: Value, b: Value) -> Value {
        self.binary(IntBinaryOp::Add, a, b)
    }

    fn compare(&mut self, op: CompareOp, a: Value, b: Value) -> Value {
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

    fn below(&mut self, a: Value, limit: u64) -> Value {
        let limit = self.word(limit);
        self.compare(CompareOp::Ult, a, limit)
    }

    fn widen(&mut self, a: Value) -> Value {
        let from = self.b.func.ty(a);
        self.b.ins(
            InstData::Resize {
                op: ResizeOp::Uext,
                from,
                to: Type::B64,
                arg: a,
            },
            Type::B64,
        )
    }

    fn narrow(&mut self, a: Value, to: Type) -> Value {
        let from = self.b.func.ty(a);
        self.b.ins(
            InstData::Resize {
                op: ResizeOp::Trunc,
                from,
                to,
                arg: a,
            },
            to,
        )
    }

    fn pred_word(&mut self, pred: Value) -> Value {
        self.b.ins(
            InstData::Resize {
                op: ResizeOp::Uext,
                from: Type::B1,
                to: Type::B32,
                arg: pred,
            },
            Type::B32,
        )
    }

    fn load(&mut self, space: Space, ty: Type, addr: Value, offset: i32) -> Value {
        let (sem, scope) = (MemSem::Weak, Scope::Cta);
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

    fn store(&mut self, space: Space, value: Value, addr: Value, offset: i32) {
        let ty = self.b.func.ty(value);
        let args = SmallVec::from_slice(&[value]);
        self.b.inst(
            InstData::Store {
                space,
                sem: MemSem::Weak,
                scope: Scope::Cta,
                ty,
                addr,
                offset,
                args,
            },
            &[],
        );
    }

    /// The buffer's address.
    fn buffer(&mut self) -> Value {
        let zero = self.b.iconst(Type::B64, 0);
        self.load(Space::Param, Type::B64, zero, 0)
    }

    /// `base + 4 * index`
    fn element(&mut self, base: Value, index: Value) -> Value {
        let index = self.widen(index);
        let two = self.word(2);
        let bytes = self.binary(IntBinaryOp::Shl, index, two);
        self.add(base, bytes)
    }

    /// `buffer[index] = value`
    fn put(&mut self, index: Value, value: Value) {
        let base = self.buffer();
        let addr = self.element(base, index);
        self.store(Space::Global, value, addr, 0);
    }

    /// `buffer[tid] = value`
    fn put_mine(&mut self, value: Value) {
        let tid = self.tid();
        self.put(tid, value);
    }

    fn get(&mut self, index: Value) -> Value {
        let base = self.buffer();
        let addr = self.element(base, index);
        self.load(Space::Global, Type::B32, addr, 0)
    }

    fn barrier(
        &mut self,
        op: BarrierOp,
        id: u64,
        count: Option<u64>,
        pred: Option<Value>,
    ) -> Option<Value> {
        let id = self.word(id);
        let count = count.map(|count| self.word(count));
        let ty = match op {
            BarrierOp::Sync
            | BarrierOp::Arrive
            | BarrierOp::ClusterArrive
            | BarrierOp::ClusterWait
            | BarrierOp::Warpgroup => None,
            BarrierOp::RedPopc => Some(Type::B32),
            BarrierOp::RedAnd | BarrierOp::RedOr => Some(Type::B1),
        };
        let inst = self.b.inst(
            InstData::Barrier {
                op,
                aligned: false,
                id,
                count,
                pred,
            },
            ty.as_slice(),
        );
        self.b.func.insts[inst].results.first().copied()
    }

    fn sync(&mut self) {
        self.barrier(BarrierOp::Sync, 0, None, None);
    }

    /// A warp operation; with a member mask the `.sync` form.
    fn warp(
        &mut self,
        op: WarpOp,
        args: &[Value],
        mask: Option<u64>,
        results: &[Type],
    ) -> SmallVec<[Value; 2]> {
        let ty = args.first().map_or(Type::B32, |&arg| self.b.func.ty(arg));
        let mut operands: SmallVec<[Value; 4]> = args.iter().copied().collect();
        if let Some(mask) = mask {
            operands.push(self.word(mask));
        }
        let inst = self.b.inst(
            InstData::Warp {
                op,
                sync: mask.is_some(),
                ty,
                args: operands,
            },
            results,
        );
        self.b.func.insts[inst].results.clone()
    }

    /// Continues in one of two new blocks; ends in neither.
    fn branch(&mut self, cond: Value) -> (Block, Block) {
        let (then_, else_) = (self.b.new_block(), self.b.new_block());
        self.b.brif(cond, then_, else_);
        (then_, else_)
    }

    /// Code for the threads where `cond` holds; all go on after it.
    fn when(&mut self, cond: Value, body: impl FnOnce(&mut Self)) {
        let (then_, after) = self.branch(cond);
        self.b.switch_to(then_);
        body(self);
        self.b.jump(after);
        self.b.switch_to(after);
    }

    fn end(&mut self, term: Terminator) {
        self.b.terminate(term);
    }
}

/// A function from code that ends every block.
fn function(
    name: &str,
    kind: FunctionKind,
    params: &[Type],
    rets: &[Type],
    build: impl FnOnce(&mut Code<'_>, &[Value]),
) -> Function {
    let mut func = Function::new(name, kind, rets.to_vec());
    let params: Vec<Value> = params
        .iter()
        .map(|&ty| func.add_param(func.entry, ty))
        .collect();
    let mut code = Code {
        b: FunctionBuilder::new(&mut func),
    };
    build(&mut code, &params);
    code.b.seal_all();
    func
}

/// A program of one kernel, whose code need not end its last block.
fn kernel(build: impl FnOnce(&mut Code<'_>)) -> Program {
    let func = function("kernel", FunctionKind::Kernel, &[], &[], |code, _| {
        build(code);
        if !code.b.is_filled() {
            code.end(Terminator::Exit);
        }
    });
    let param = KernelParam {
        name: "buffer".to_owned(),
        offset: 0,
        size: 8,
        align: 8,
    };
    Program {
        entry: FuncId::from_u32(0),
        functions: BTreeMap::from([(FuncId::from_u32(0), func)]),
        sigs: Default::default(),
        address_taken: Vec::new(),
        vars: BTreeMap::new(),
        params: vec![param],
        attrs: KernelAttrs::default(),
        lockstep: false,
        counters: None,
        traced: Vec::new(),
    }
}

/// Launches on a buffer of words; gives what it holds afterwards.
fn run(program: &Program, grid: u32, block: u32, words: &[u32]) -> Result<Vec<u32>, Fault> {
    run_with(
        program,
        grid,
        block,
        words,
        &mut SilentHost::default(),
        |_| {},
    )
}

/// The same with a host, and a launch that may be adjusted.
fn run_with(
    program: &Program,
    grid: u32,
    block: u32,
    words: &[u32],
    host: &mut dyn Host,
    adjust: impl FnOnce(&mut Launch<'_>),
) -> Result<Vec<u32>, Fault> {
    run_by(program, None, [grid, block], words, host, adjust)
}

/// The same by a plan.
fn run_by(
    program: &Program,
    plan: Option<&Plan>,
    [grid, block]: [u32; 2],
    words: &[u32],
    host: &mut dyn Host,
    adjust: impl FnOnce(&mut Launch<'_>),
) -> Result<Vec<u32>, Fault> {
    ptxjit_ir::verify::program(program).expect("the test's program is well-formed");
    let mut memory = VecMemory::new();
    // Descriptors of functions 0 to 3, 16 bytes each.
    let descriptors = memory.alloc(
        (1u64..5)
            .flat_map(|n| [n.to_le_bytes(), [0; 8]])
            .flatten()
            .collect(),
    );
    let buffer = memory.alloc(words.iter().flat_map(|word| word.to_le_bytes()).collect());
    let symbols = move |target: RelocTarget| match target {
        RelocTarget::Func(func) => descriptors + 16 * u64::from(func.as_u32()),
        RelocTarget::Var(_) => 0,
    };
    let params = buffer.to_le_bytes();
    let mut description = Launch::new(program, [grid, 1, 1], [block, 1, 1], &params);
    description.symbols = &symbols;
    description.plan = plan;
    adjust(&mut description);
    launch(&description, &mut memory, host)?;
    Ok(memory
        .bytes(buffer)
        .chunks_exact(4)
        .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
        .collect())
}
