//! Instructions and terminators.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::device::DeviceOp;
use crate::entities::{Block, FuncId, SigId, StackSlot, Value, VarId};
use crate::ops::{
    AtomicOp, BarrierOp, CompareOp, Effect, FloatBinaryOp, FloatCompareOp, FloatUnaryOp,
    IntBinaryOp, IntTernaryOp, IntUnaryOp, ResizeOp, WarpOp,
};
use crate::types::{
    AtomicFmt, Convert, FloatFmt, FloatMode, MemSem, Scope, Space, SpecialReg, Type,
};

/// An instruction without its results, which the function keeps.
///
/// Pure instructions can be serialized, and warp and device operations without their operands: code
/// that does them by call is stored with them.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[expect(
    missing_docs,
    reason = "field names repeat the variant's documentation"
)]
pub enum InstData {
    /// A constant; `bits` is zero-extended.
    Const {
        ty: Type,
        bits: u64,
    },
    /// Read of a special register.
    Sreg {
        sreg: SpecialReg,
    },
    /// Address of a variable plus a byte offset, `B64`: a generic address for `.global`, a window
    /// offset for `.shared` and `.const`. A constant once the module is placed in memory.
    VarAddr {
        var: VarId,
        offset: i64,
    },
    /// Generic address of a function's module-wide descriptor, `B64`.
    FuncAddr {
        func: FuncId,
    },
    /// Offset of a stack slot in the thread's local window, `B64`.
    StackAddr {
        slot: StackSlot,
        offset: i32,
    },
    IntUnary {
        op: IntUnaryOp,
        ty: Type,
        arg: Value,
    },
    IntBinary {
        op: IntBinaryOp,
        ty: Type,
        args: [Value; 2],
    },
    IntTernary {
        op: IntTernaryOp,
        ty: Type,
        args: [Value; 3],
    },
    /// Any function of three bits, on each bit position; the index is `a << 2 | b << 1 | c`.
    Lop3 {
        lut: u8,
        args: [Value; 3],
    },
    /// `bfi` (a, b, position, length) at `B32` or `B64`.
    Bfi {
        ty: Type,
        args: [Value; 4],
    },
    Resize {
        op: ResizeOp,
        from: Type,
        to: Type,
        arg: Value,
    },
    Compare {
        op: CompareOp,
        ty: Type,
        args: [Value; 2],
    },
    FloatUnary {
        op: FloatUnaryOp,
        fmt: FloatFmt,
        mode: FloatMode,
        arg: Value,
    },
    FloatBinary {
        op: FloatBinaryOp,
        fmt: FloatFmt,
        mode: FloatMode,
        args: [Value; 2],
    },
    /// `a * b + c`, rounded once.
    Fma {
        fmt: FloatFmt,
        mode: FloatMode,
        args: [Value; 3],
    },
    FloatCompare {
        op: FloatCompareOp,
        fmt: FloatFmt,
        ftz: bool,
        args: [Value; 2],
    },
    Convert {
        cvt: Convert,
        arg: Value,
    },
    /// Conversion with stochastic rounding (`.rs`): `arg` in F32, `bits` the random bits for this
    /// value, left-aligned in a `B32`.
    ConvertRs {
        cvt: Convert,
        arg: Value,
        bits: Value,
    },
    /// `cond ? a : b`, bits unchanged.
    Select {
        ty: Type,
        cond: Value,
        args: [Value; 2],
    },
    /// Window offset to generic address, `B64` to `B64`.
    ToGeneric {
        space: Space,
        arg: Value,
    },
    /// Generic address to window offset, `B64` to `B64`.
    FromGeneric {
        space: Space,
        arg: Value,
    },
    /// `isspacep`, result `B1`.
    IsSpace {
        space: Space,
        arg: Value,
    },
    /// What `arg` is for the first or the last thread of a gang. Made by the vectorizer: alone, a
    /// thread is both.
    EndLane {
        ty: Type,
        last: bool,
        arg: Value,
    },
    /// What `arg` is for the first lane that runs: like `EndLane`, made by the vectorizer.
    FirstRunning {
        ty: Type,
        arg: Value,
    },
    /// Load of `n` elements of `ty` that lie side by side (n = 1, 2, 4, 8), one result each.
    Load {
        space: Space,
        sem: MemSem,
        scope: Scope,
        ty: Type,
        n: u8,
        addr: Value,
        offset: i32,
    },
    /// A weak load of one element where `mask` (`B1`) is true; elsewhere nothing is accessed, and
    /// the result is unspecified. Put in by the vectorizer.
    MaskedLoad {
        space: Space,
        ty: Type,
        addr: Value,
        offset: i32,
        mask: Value,
    },
    /// Store of side-by-side elements.
    #[serde(skip)]
    Store {
        space: Space,
        sem: MemSem,
        scope: Scope,
        ty: Type,
        addr: Value,
        offset: i32,
        args: SmallVec<[Value; 4]>,
    },
    /// Read-modify-write; `Cas` has two operands, the others one; result the old value (unused for
    /// `red`).
    #[serde(skip)]
    Atomic {
        op: AtomicOp,
        fmt: AtomicFmt,
        space: Space,
        sem: MemSem,
        scope: Scope,
        addr: Value,
        offset: i32,
        args: SmallVec<[Value; 2]>,
    },
    Fence {
        sem: MemSem,
        scope: Scope,
    },
    /// A CTA barrier; without `count` all threads of the CTA take part. `pred` only for reductions,
    /// which have one result.
    Barrier {
        op: BarrierOp,
        aligned: bool,
        id: Value,
        count: Option<Value>,
        pred: Option<Value>,
    },
    /// A warp operation; for `sync` the last operand is the member mask.
    Warp {
        op: WarpOp,
        sync: bool,
        ty: Type,
        #[serde(skip)]
        args: SmallVec<[Value; 4]>,
    },
    #[serde(skip)]
    Call {
        func: FuncId,
        args: SmallVec<[Value; 4]>,
    },
    /// `targets` lists the possible callees where the program says so (`.calltargets`).
    #[serde(skip)]
    CallIndirect {
        sig: SigId,
        callee: Value,
        args: SmallVec<[Value; 4]>,
        targets: Option<Box<[FuncId]>>,
    },
    /// An operation of the device, with operands and results as it says.
    Device {
        op: DeviceOp,
        #[serde(skip)]
        args: SmallVec<[Value; 4]>,
    },
    /// Current top of the thread's stack, a local address, `B64`.
    StackSave,
    StackRestore {
        arg: Value,
    },
    /// Reserve `size` (a `B64` value) bytes of local memory; result its local address, `B64`.
    Alloca {
        size: Value,
        align: u32,
    },
    /// `nanosleep`: lets other threads run.
    Nanosleep {
        arg: Value,
    },
    /// A hint: `size` bytes of global memory at `addr + step + offset` will probably be accessed
    /// soon. Put in by the vectorizer.
    Prefetch {
        addr: Value,
        /// `B64`, like the address.
        step: Value,
        offset: i32,
        size: u32,
    },
    /// Adds the threads that execute it, with `cond` (`B1`) those of them for which it is true, to
    /// a counter of the launch. Only in programs with [`crate::Counters`].
    #[serde(skip)]
    Count {
        counter: u32,
        cond: Option<Value>,
        /// What is counted are the sides of the condition, not the threads that come to where it is
        /// true.
        sides: bool,
    },
    /// `brkpt`, `pmevent` and other marks without effect on results.
    Nop,
    /// Number of the resume point at the head of `block`, `B32`. Only after calls were lowered for
    /// the code generator.
    StateOf {
        block: Block,
    },
}

/// What kind of work an instruction does: code that treats many instructions alike asks for it, so
/// that a new one is sorted in once, at [`InstData::class`].
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Class<'a> {
    /// A number that is known before the kernel runs.
    Constant,
    /// The results depend on the operands alone, and no thread's on another's.
    Arithmetic,
    /// Addresses in windows and generic ones; for local memory they depend on the thread.
    Window,
    /// What tells threads and lanes apart.
    Place,
    /// A load, a store or an atomic operation.
    Access,
    /// An operation among the threads of a warp, a CTA or a cluster.
    Convergent,
    /// A call of a function of the program.
    Call,
    /// An operation of the device.
    Device(&'a DeviceOp),
    /// An operation on the thread's stack.
    Stack,
    /// No results; orders or hurries other work, counts it, or does nothing.
    Order,
}

/// A branch target with its arguments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockCall {
    /// Where to.
    pub block: Block,
    /// One argument for each parameter of `block`.
    pub args: SmallVec<[Value; 4]>,
}

impl BlockCall {
    /// A branch to `block` without arguments.
    pub fn new(block: Block) -> BlockCall {
        BlockCall {
            block,
            args: SmallVec::new(),
        }
    }
}

/// Why a thread stops its grid on purpose.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum TrapKind {
    /// `trap`.
    Trap,
    /// Control reached what the program promised unreachable (fallen off a `.noreturn`, `brx.idx`
    /// out of range).
    Unreachable,
}

/// How a block ends.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(
    missing_docs,
    reason = "field names repeat the variant's documentation"
)]
pub enum Terminator {
    Jump(BlockCall),
    /// To `then_` if `cond` (`B1`), else to `else_`.
    Brif {
        cond: Value,
        then_: BlockCall,
        else_: BlockCall,
    },
    /// To `targets[index]` (`B32`, unsigned), `default` when out of range.
    Switch {
        index: Value,
        targets: Vec<BlockCall>,
        default: BlockCall,
    },
    /// Return from a device function; in a kernel the thread ends.
    Ret(SmallVec<[Value; 2]>),
    /// The thread ends.
    Exit,
    Trap(TrapKind),
    /// Go on at the resume point with this number (`B32`). Only after calls were lowered for the
    /// code generator.
    Dispatch(Value),
}

impl Terminator {
    /// The branch targets, in order.
    pub fn targets(&self) -> SmallVec<[&BlockCall; 2]> {
        match self {
            Terminator::Jump(call) => SmallVec::from_slice(&[call]),
            Terminator::Brif { then_, else_, .. } => SmallVec::from_slice(&[then_, else_]),
            Terminator::Switch {
                targets, default, ..
            } => targets.iter().chain([default]).collect(),
            Terminator::Ret(_)
            | Terminator::Exit
            | Terminator::Trap(_)
            | Terminator::Dispatch(_) => SmallVec::new(),
        }
    }

    /// The branch targets, in order, to change.
    pub fn targets_mut(&mut self) -> SmallVec<[&mut BlockCall; 2]> {
        match self {
            Terminator::Jump(call) => [call].into_iter().collect(),
            Terminator::Brif { then_, else_, .. } => [then_, else_].into_iter().collect(),
            Terminator::Switch {
                targets, default, ..
            } => targets.iter_mut().chain([default]).collect(),
            Terminator::Ret(_)
            | Terminator::Exit
            | Terminator::Trap(_)
            | Terminator::Dispatch(_) => SmallVec::new(),
        }
    }

    /// Calls `f` on each value read, block arguments included.
    pub fn for_each_arg(&self, mut f: impl FnMut(Value)) {
        match self {
            Terminator::Brif { cond, .. } => f(*cond),
            Terminator::Switch { index, .. } => f(*index),
            Terminator::Dispatch(state) => f(*state),
            Terminator::Ret(values) => values.iter().for_each(|&value| f(value)),
            Terminator::Jump(_) | Terminator::Exit | Terminator::Trap(_) => {}
        }
        for call in self.targets() {
            call.args.iter().for_each(|&value| f(value));
        }
    }

    /// Calls `f` on each value read, to change it.
    pub fn for_each_arg_mut(&mut self, mut f: impl FnMut(&mut Value)) {
        match self {
            Terminator::Brif { cond, .. } => f(cond),
            Terminator::Switch { index, .. } => f(index),
            Terminator::Dispatch(state) => f(state),
            Terminator::Ret(values) => values.iter_mut().for_each(&mut f),
            Terminator::Jump(_) | Terminator::Exit | Terminator::Trap(_) => {}
        }
        for call in self.targets_mut() {
            call.args.iter_mut().for_each(&mut f);
        }
    }
}

impl InstData {
    /// The operands, in order, to read or change.
    pub fn args_mut(&mut self) -> SmallVec<[&mut Value; 4]> {
        match self {
            InstData::Const { .. }
            | InstData::Sreg { .. }
            | InstData::VarAddr { .. }
            | InstData::FuncAddr { .. }
            | InstData::StackAddr { .. }
            | InstData::Fence { .. }
            | InstData::StackSave
            | InstData::StateOf { .. }
            | InstData::Nop => SmallVec::new(),
            InstData::IntUnary { arg, .. }
            | InstData::Resize { arg, .. }
            | InstData::FloatUnary { arg, .. }
            | InstData::Convert { arg, .. }
            | InstData::ToGeneric { arg, .. }
            | InstData::FromGeneric { arg, .. }
            | InstData::IsSpace { arg, .. }
            | InstData::EndLane { arg, .. }
            | InstData::FirstRunning { arg, .. }
            | InstData::StackRestore { arg }
            | InstData::Nanosleep { arg }
            | InstData::Alloca { size: arg, .. }
            | InstData::Load { addr: arg, .. } => [arg].into_iter().collect(),
            InstData::ConvertRs { arg, bits, .. } => [arg, bits].into_iter().collect(),
            InstData::Prefetch { addr, step, .. } => [addr, step].into_iter().collect(),
            InstData::MaskedLoad { addr, mask, .. } => [addr, mask].into_iter().collect(),
            InstData::IntBinary { args, .. }
            | InstData::Compare { args, .. }
            | InstData::FloatBinary { args, .. }
            | InstData::FloatCompare { args, .. } => args.iter_mut().collect(),
            InstData::IntTernary { args, .. }
            | InstData::Lop3 { args, .. }
            | InstData::Fma { args, .. } => args.iter_mut().collect(),
            InstData::Bfi { args, .. } => args.iter_mut().collect(),
            InstData::Select { cond, args, .. } => [cond].into_iter().chain(args).collect(),
            InstData::Store { addr, args, .. } => [addr].into_iter().chain(args).collect(),
            InstData::Atomic { addr, args, .. } => [addr].into_iter().chain(args).collect(),
            InstData::Barrier {
                id, count, pred, ..
            } => [id].into_iter().chain(count).chain(pred).collect(),
            InstData::Count { cond, .. } => cond.iter_mut().collect(),
            InstData::Warp { args, .. }
            | InstData::Call { args, .. }
            | InstData::Device { args, .. } => args.iter_mut().collect(),
            InstData::CallIndirect { callee, args, .. } => {
                [callee].into_iter().chain(args).collect()
            }
        }
    }

    /// The operands, in order.
    pub fn args(&self) -> SmallVec<[Value; 4]> {
        match self {
            InstData::Const { .. }
            | InstData::Sreg { .. }
            | InstData::VarAddr { .. }
            | InstData::FuncAddr { .. }
            | InstData::StackAddr { .. }
            | InstData::Fence { .. }
            | InstData::StackSave
            | InstData::StateOf { .. }
            | InstData::Nop => SmallVec::new(),
            InstData::IntUnary { arg, .. }
            | InstData::Resize { arg, .. }
            | InstData::FloatUnary { arg, .. }
            | InstData::Convert { arg, .. }
            | InstData::ToGeneric { arg, .. }
            | InstData::FromGeneric { arg, .. }
            | InstData::IsSpace { arg, .. }
            | InstData::EndLane { arg, .. }
            | InstData::FirstRunning { arg, .. }
            | InstData::StackRestore { arg }
            | InstData::Nanosleep { arg }
            | InstData::Alloca { size: arg, .. }
            | InstData::Load { addr: arg, .. } => SmallVec::from_slice(&[*arg]),
            InstData::ConvertRs { arg, bits, .. } => SmallVec::from_slice(&[*arg, *bits]),
            InstData::Prefetch { addr, step, .. } => SmallVec::from_slice(&[*addr, *step]),
            InstData::MaskedLoad { addr, mask, .. } => SmallVec::from_slice(&[*addr, *mask]),
            InstData::IntBinary { args, .. }
            | InstData::Compare { args, .. }
            | InstData::FloatBinary { args, .. }
            | InstData::FloatCompare { args, .. } => SmallVec::from_slice(args),
            InstData::IntTernary { args, .. }
            | InstData::Lop3 { args, .. }
            | InstData::Fma { args, .. } => SmallVec::from_slice(args),
            InstData::Bfi { args, .. } => SmallVec::from_slice(args),
            InstData::Select { cond, args, .. } => [*cond].iter().chain(args).copied().collect(),
            InstData::Store { addr, args, .. } => [*addr].iter().chain(args).copied().collect(),
            InstData::Atomic { addr, args, .. } => [*addr].iter().chain(args).copied().collect(),
            InstData::Barrier {
                id, count, pred, ..
            } => [*id].iter().chain(count).chain(pred).copied().collect(),
            InstData::Count { cond, .. } => cond.iter().copied().collect(),
            InstData::Warp { args, .. }
            | InstData::Call { args, .. }
            | InstData::Device { args, .. } => args.clone(),
            InstData::CallIndirect { callee, args, .. } => {
                [*callee].iter().chain(args).copied().collect()
            }
        }
    }

    /// What kind of work the instruction does.
    pub const fn class(&self) -> Class<'_> {
        match self {
            InstData::Const { .. }
            | InstData::VarAddr { .. }
            | InstData::FuncAddr { .. }
            | InstData::StackAddr { .. }
            | InstData::StateOf { .. } => Class::Constant,
            InstData::IntUnary { .. }
            | InstData::IntBinary { .. }
            | InstData::IntTernary { .. }
            | InstData::Lop3 { .. }
            | InstData::Bfi { .. }
            | InstData::Resize { .. }
            | InstData::Compare { .. }
            | InstData::FloatUnary { .. }
            | InstData::FloatBinary { .. }
            | InstData::Fma { .. }
            | InstData::FloatCompare { .. }
            | InstData::Convert { .. }
            | InstData::ConvertRs { .. }
            | InstData::Select { .. } => Class::Arithmetic,
            InstData::ToGeneric { .. }
            | InstData::FromGeneric { .. }
            | InstData::IsSpace { .. } => Class::Window,
            InstData::Sreg { .. } | InstData::EndLane { .. } | InstData::FirstRunning { .. } => {
                Class::Place
            }
            InstData::Load { .. }
            | InstData::MaskedLoad { .. }
            | InstData::Store { .. }
            | InstData::Atomic { .. } => Class::Access,
            InstData::Barrier { .. } | InstData::Warp { .. } => Class::Convergent,
            InstData::Call { .. } | InstData::CallIndirect { .. } => Class::Call,
            InstData::Device { op, .. } => Class::Device(op),
            InstData::StackSave | InstData::StackRestore { .. } | InstData::Alloca { .. } => {
                Class::Stack
            }
            InstData::Fence { .. }
            | InstData::Nanosleep { .. }
            | InstData::Prefetch { .. }
            | InstData::Count { .. }
            | InstData::Nop => Class::Order,
        }
    }

    /// What the instruction does beside computing results.
    pub fn effect(&self) -> Effect {
        if let InstData::Sreg { sreg } = self
            && sreg.is_volatile()
        {
            return Effect::Write;
        }
        if let InstData::FirstRunning { .. } = self {
            return Effect::Convergent;
        }
        if let InstData::Load {
            sem: MemSem::Weak | MemSem::NonCoherent,
            ..
        }
        | InstData::MaskedLoad { .. } = self
        {
            return Effect::Read;
        }
        match self.class() {
            Class::Constant | Class::Arithmetic | Class::Window | Class::Place => Effect::Pure,
            Class::Access | Class::Stack | Class::Order => Effect::Write,
            Class::Device(op) => op.effect(),
            Class::Convergent | Class::Call => Effect::Convergent,
        }
    }
}
