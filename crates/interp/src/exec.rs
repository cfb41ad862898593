//! One step of one thread.

use ptxjit_ir::{Effect, InstData, InstNode, Terminator, TrapKind, Value, eval};
use smallvec::SmallVec;

use crate::access::Address;
use crate::fault::FaultKind;
use crate::launch::Machine;
use crate::schedule::Env;
use crate::thread::{Thread, Wait, WaitKind, WarpWait};

/// What a step came to.
pub(crate) enum Step<'p> {
    /// The thread goes on.
    Next,
    /// The thread goes on, but others should have their turn first.
    Yield,
    Wait(Wait<'p>),
    Exit,
}

type Outcome<'p> = Result<Step<'p>, FaultKind>;

impl<'p> Machine<'p, '_> {
    /// Executes the next instruction or terminator of a thread that has a frame.
    pub(crate) fn step(&mut self, env: &mut Env, thread: &mut Thread<'p>) -> Outcome<'p> {
        let frame = thread.frame();
        let func = frame.func;
        let block = &func.blocks[frame.block];
        match block.insts.get(frame.next) {
            Some(&inst) => {
                frame.next += 1;
                let node = &func.insts[inst];
                thread.loc = node.loc;
                self.inst(env, thread, node)
            }
            None => {
                thread.loc = block.term_loc;
                self.terminator(thread, &block.term)
            }
        }
    }

    fn terminator(&mut self, thread: &mut Thread<'p>, term: &'p Terminator) -> Outcome<'p> {
        let frame = thread.frame();
        match term {
            Terminator::Jump(call) => frame.branch(call),
            Terminator::Brif { cond, then_, else_ } => {
                let taken = if frame.get(*cond) & 1 != 0 { then_ } else { else_ };
                frame.branch(taken);
            }
            Terminator::Switch { index, targets, default } => {
                let index = usize::try_from(frame.get(*index)).unwrap_or(usize::MAX);
                frame.branch(targets.get(index).unwrap_or(default));
            }
            Terminator::Ret(values) => return Ok(self.ret(thread, values)),
            Terminator::Exit => return Ok(Step::Exit),
            Terminator::Trap(TrapKind::Trap) => return Err(FaultKind::Trap),
            Terminator::Trap(TrapKind::Unreachable) => return Err(FaultKind::Unreachable),
            Terminator::Dispatch(state) => {
                // The number of a resume point is here the number of its block.
                let state = frame.get(*state);
                let block = frame.func.blocks.keys().find(|block| u64::from(block.as_u32()) == state);
                frame.block = block.ok_or(FaultKind::Unreachable)?;
                frame.next = 0;
            }
        }
        Ok(Step::Next)
    }

    fn inst(&mut self, env: &mut Env, thread: &mut Thread<'p>, node: &'p InstNode) -> Outcome<'p> {
        if node.data.effect() == Effect::Pure {
            let bits = self.pure(env, thread, &node.data);
            thread.frame().set_all(&node.results, &[bits]);
            return Ok(Step::Next);
        }
        match &node.data {
            InstData::Load { .. } | InstData::Store { .. } | InstData::Atomic { .. } | InstData::CopyAsync { .. } => {
                self.memory_inst(env, thread, node)?;
            }
            InstData::Barrier { .. } | InstData::Warp { .. } => return Ok(Step::Wait(wait(thread, node))),
            InstData::Call { func, args } => return self.call(thread, *func, args, &node.results),
            InstData::CallIndirect { sig, callee, args, targets } => {
                let id = self.callee(env, thread, (*sig, *callee), targets.as_deref())?;
                return self.call(thread, id, args, &node.results);
            }
            InstData::CallBuiltin { builtin, args } => {
                let args = values(thread, args);
                let result = self.builtin(env, thread, *builtin, &args)?;
                thread.frame().set_all(&node.results, &[result]);
            }
            InstData::StackSave => {
                let top = thread.stack_top;
                thread.frame().set_all(&node.results, &[top]);
            }
            InstData::StackRestore { arg } => thread.stack_top = thread.frame().get(*arg),
            InstData::Alloca { size, align } => {
                let size = thread.frame().get(*size);
                let offset = self.reserve(thread, size, *align)?;
                thread.frame().set_all(&node.results, &[offset]);
            }
            InstData::Sreg { sreg } => {
                let bits = self.sreg(env, thread, *sreg);
                thread.frame().set_all(&node.results, &[bits]);
            }
            InstData::Nanosleep { .. } => return Ok(Step::Yield),
            // One host thread runs everything in program order.
            InstData::Fence { .. } | InstData::Nop => {}
            pure => unreachable!("{pure:?} is pure"),
        }
        Ok(Step::Next)
    }

    /// The value of a pure instruction.
    fn pure(&mut self, env: &Env, thread: &mut Thread<'p>, data: &InstData) -> u64 {
        let arg = |thread: &mut Thread<'p>, value: Value| thread.frame().get(value);
        match *data {
            InstData::Sreg { sreg } => self.sreg(env, thread, sreg),
            InstData::VarAddr { var, offset } => self.var_addr(var).wrapping_add(offset as u64),
            InstData::FuncAddr { func } => (self.launch.symbols)(ptxjit_ir::RelocTarget::Func(func)),
            InstData::StackAddr { slot, offset } => {
                thread.frame().slots[slot.as_u32() as usize].wrapping_add(offset as u64)
            }
            InstData::ToGeneric { space, arg: value } => arg(thread, value).wrapping_add(self.window_base(space)),
            InstData::FromGeneric { space, arg: value } => arg(thread, value).wrapping_sub(self.window_base(space)),
            InstData::IsSpace { space, arg: value } => self.is_space(space, arg(thread, value)).into(),
            InstData::StateOf { block } => block.as_u32().into(),
            _ => {
                let args = values(thread, &data.args());
                eval::inst(data, &args).unwrap_or_else(|| unreachable!("{data:?} has no value of its own"))
            }
        }
    }

    fn var_addr(&self, var: ptxjit_ir::VarId) -> u64 {
        match self.layout.offsets.get(&var) {
            Some(&offset) => offset.into(),
            None => (self.launch.symbols)(ptxjit_ir::RelocTarget::Var(var)),
        }
    }

    fn memory_inst(&mut self, env: &mut Env, thread: &mut Thread<'p>, node: &'p InstNode) -> Result<(), FaultKind> {
        let address = |thread: &mut Thread<'p>, space, addr, offset| {
            Address { space, base: thread.frame().window_offset(addr), offset }
        };
        match &node.data {
            InstData::Load { space, ty, addr, offset, .. } => {
                let addr = address(thread, *space, *addr, *offset);
                self.load(env, thread, addr, *ty, &node.results)
            }
            InstData::Store { space, ty, addr, offset, args, .. } => {
                let addr = address(thread, *space, *addr, *offset);
                let elements = values(thread, args);
                self.store(env, thread, addr, *ty, &elements)
            }
            InstData::Atomic { op, fmt, space, addr, offset, args, .. } => {
                let addr = address(thread, *space, *addr, *offset);
                let args = values(thread, args);
                let old = self.atomic(env, thread, (*op, *fmt), addr, &args)?;
                thread.frame().set_all(&node.results, &[old]);
                Ok(())
            }
            InstData::CopyAsync { size, dst, dst_offset, src, src_offset, src_size } => {
                let dst = address(thread, ptxjit_ir::Space::Shared, *dst, *dst_offset);
                let src = address(thread, ptxjit_ir::Space::Global, *src, *src_offset);
                let wanted = src_size.map_or(u64::from(*size), |value| thread.frame().get(value));
                self.copy(env, thread, dst, src, (usize::from(*size), wanted))
            }
            other => unreachable!("{other:?} does not access memory"),
        }
    }

    /// `cp.async`, done at once: a legal schedule.
    fn copy(
        &mut self,
        env: &mut Env,
        thread: &mut Thread<'p>,
        dst: Address,
        src: Address,
        (size, wanted): (usize, u64),
    ) -> Result<(), FaultKind> {
        let mut bytes = [0u8; 16];
        let size = size.min(bytes.len());
        let n_read = usize::try_from(wanted).unwrap_or(size).min(size);
        if n_read > 0 {
            self.read(env, thread, src, &mut bytes[..n_read])?;
        }
        self.write(env, thread, dst, &bytes[..size])
    }
}

/// Bits of values of the thread's top frame.
pub(crate) fn values(thread: &mut Thread<'_>, args: &[Value]) -> SmallVec<[u64; 4]> {
    let frame = thread.frame();
    args.iter().map(|&arg| frame.get(arg)).collect()
}

/// What a barrier or a warp operation waits for.
fn wait<'p>(thread: &mut Thread<'p>, node: &'p InstNode) -> Wait<'p> {
    let kind = match &node.data {
        InstData::Barrier { op, id, count, pred, .. } => {
            let frame = thread.frame();
            let count = count.map_or(0, |count| frame.get(count));
            let pred = pred.is_some_and(|pred| frame.get(pred) & 1 != 0);
            WaitKind::Barrier { op: *op, id: frame.get(*id), count, pred, registered: false }
        }
        InstData::Warp { op, sync, ty, args } => {
            let mut args = values(thread, args);
            let mask = if *sync { args.pop().map(|mask| mask as u32) } else { None };
            let mut operands = [0; 3];
            operands.iter_mut().zip(&args).for_each(|(slot, &arg)| *slot = arg);
            WaitKind::Warp(WarpWait { op: *op, ty: *ty, mask, args: operands })
        }
        other => unreachable!("{other:?} does not wait"),
    };
    Wait { kind, results: &node.results }
}
