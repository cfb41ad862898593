//! One step of one thread.

use ptxjit_ir::{
    AsyncOp, CTA_SHIFT, DeviceOp, InstData, InstNode, RelocTarget, Terminator, TrapKind, Value,
    VarId, eval,
};
use smallvec::SmallVec;

use crate::access::Address;
use crate::fault::FaultKind;
use crate::launch::Machine;
use crate::schedule::Env;
use crate::thread::{Thread, Wait, WaitKind, WarpWait};
use crate::watch::shadow::Shadow;

/// What a masked load gives a thread whose mask is false: any number will do, and one that is
/// rarely right shows code that uses it.
const UNSPECIFIED: u64 = 0xa5c3_a5c3_a5c3_a5c3;

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
        self.enter(env, thread);
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
                if self.watches_values() {
                    self.watch_terminator(env, thread, &block.term);
                }
                self.terminator(thread, &block.term)
            }
        }
    }

    fn terminator(&mut self, thread: &mut Thread<'p>, term: &'p Terminator) -> Outcome<'p> {
        let frame = thread.frame();
        match term {
            Terminator::Jump(call) => frame.branch(call),
            Terminator::Brif { cond, then_, else_ } => {
                let taken = if frame.get(*cond) & 1 != 0 {
                    then_
                } else {
                    else_
                };
                frame.branch(taken);
            }
            Terminator::Switch {
                index,
                targets,
                default,
            } => {
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
                let block = frame
                    .func
                    .blocks
                    .keys()
                    .find(|block| u64::from(block.as_u32()) == state);
                frame.block = block.ok_or(FaultKind::Unreachable)?;
                frame.next = 0;
            }
        }
        Ok(Step::Next)
    }

    fn inst(&mut self, env: &mut Env, thread: &mut Thread<'p>, node: &'p InstNode) -> Outcome<'p> {
        let results = &node.results;
        let bits = match &node.data {
            InstData::Load { .. }
            | InstData::MaskedLoad { .. }
            | InstData::Store { .. }
            | InstData::Atomic { .. } => {
                match self.watch.is_some() {
                    true => self.watched_memory(env, thread, node)?,
                    false => self.memory_inst(thread, node)?,
                }
                return Ok(Step::Next);
            }
            InstData::Barrier { .. } | InstData::Warp { .. } => {
                if self.watches_values() {
                    self.watch_wait(env, thread, node);
                }
                return Ok(Step::Wait(wait(thread, node)));
            }
            InstData::Call { func, args } => return self.call(thread, *func, args, results),
            InstData::CallIndirect {
                sig,
                callee,
                args,
                targets,
            } => {
                let id = self.callee(thread, (*sig, *callee), targets.as_deref())?;
                return self.call(thread, id, args, results);
            }
            InstData::Device { op, args } => {
                let args = values(thread, args);
                if let DeviceOp::Mark(mark) = op {
                    thread.frame().set_all(results, &[0]);
                    self.mark(env, thread, (*mark, &args), node)?;
                    return Ok(Step::Next);
                }
                if *op == DeviceOp::AlignedRow {
                    self.check_row(args[0])?;
                    return Ok(Step::Next);
                }
                // A look in vain is no progress.
                if *op != DeviceOp::Async(AsyncOp::Poll) {
                    self.progress += 1;
                }
                let bits = self.device(env, thread, op, &args)?;
                thread.frame().set_all(results, &bits);
                return Ok(Step::Next);
            }
            InstData::Nanosleep { .. } => return Ok(Step::Yield),
            // One host thread runs everything in program order.
            InstData::Fence { sem, scope } => {
                let who = self.who(env, thread);
                if let Some(watch) = self.watch.as_mut() {
                    watch.fence(&who, *sem, *scope);
                }
                return Ok(Step::Next);
            }
            InstData::Count { counter, cond, .. } => {
                let counts = cond.is_none_or(|cond| thread.frame().get(cond) & 1 != 0);
                self.count(*counter, counts);
                return Ok(Step::Next);
            }
            InstData::Prefetch { .. } | InstData::Nop => {
                return Ok(Step::Next);
            }
            InstData::StackRestore { arg } => {
                thread.stack_top = thread.frame().get(*arg);
                let top = thread.stack_top;
                thread.objects.retain(|&(start, _)| start < top);
                return Ok(Step::Next);
            }
            InstData::StackSave => thread.stack_top,
            InstData::Alloca { size, align } => {
                let size = thread.frame().get(*size);
                {
                    // Blocks of the stack start and end at multiples as in compiled code, so that
                    // it is used up at the same sizes.
                    let size = size.checked_next_multiple_of(16).unwrap_or(u64::MAX);
                    self.reserve(thread, size, (*align).max(16))?
                }
            }
            InstData::Sreg { sreg } => self.sreg(env, thread, *sreg),
            InstData::VarAddr { var, offset } => {
                self.var_addr(env, *var).wrapping_add(*offset as u64)
            }
            InstData::FuncAddr { func } => (self.launch.symbols)(RelocTarget::Func(*func)),
            InstData::StackAddr { slot, offset } => {
                thread.frame().slots[slot.as_u32() as usize].wrapping_add(*offset as u64)
            }
            InstData::ToGeneric { space, arg } => thread
                .frame()
                .get(*arg)
                .wrapping_add(self.window_base(*space)),
            InstData::FromGeneric { space, arg } => thread
                .frame()
                .get(*arg)
                .wrapping_sub(self.window_base(*space)),
            InstData::IsSpace { space, arg } => {
                self.is_space(env, *space, thread.frame().get(*arg)).into()
            }
            InstData::EndLane { arg, .. } | InstData::FirstRunning { arg, .. } => {
                thread.frame().get(*arg)
            }
            InstData::StateOf { block } => block.as_u32().into(),
            InstData::Const { .. }
            | InstData::IntUnary { .. }
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
            | InstData::Select { .. } => {
                let args = values(thread, &node.data.args());
                let bits = eval::inst(&node.data, &args)
                    .unwrap_or_else(|| unreachable!("it depends on its operands alone"));
                let frame = thread.frame();
                if frame.shadows.is_empty() {
                    bits
                } else {
                    let shadows: SmallVec<[Shadow; 4]> = node
                        .data
                        .args()
                        .iter()
                        .map(|&arg| frame.shadow(arg))
                        .collect();
                    frame.set_all(results, &[bits]);
                    self.define(thread, node, &args, &shadows);
                    return Ok(Step::Next);
                }
            }
        };
        let frame = thread.frame();
        frame.set_all(results, &[bits]);
        if let InstData::ToGeneric { arg, .. } | InstData::FromGeneric { arg, .. } = &node.data {
            let shadow = frame.shadow(*arg);
            frame.set_shadow(results[0], shadow);
        }
        Ok(Step::Next)
    }

    fn var_addr(&self, env: &Env, var: VarId) -> u64 {
        match self.layout.offsets.get(&var) {
            Some(&offset) => u64::from(offset) + (u64::from(env.rank) << CTA_SHIFT),
            None => (self.launch.symbols)(RelocTarget::Var(var)),
        }
    }

    pub(crate) fn memory_inst(
        &mut self,
        thread: &mut Thread<'p>,
        node: &'p InstNode,
    ) -> Result<(), FaultKind> {
        let address = |thread: &mut Thread<'p>, space, addr, offset| Address {
            space,
            base: thread.frame().window_offset(addr),
            offset,
        };
        match &node.data {
            InstData::Load {
                space,
                ty,
                addr,
                offset,
                ..
            } => {
                let addr = address(thread, *space, *addr, *offset);
                self.load(thread, addr, *ty, &node.results)
            }
            InstData::MaskedLoad {
                space,
                ty,
                addr,
                offset,
                mask,
            } => {
                if values(thread, &[*mask])[0] & 1 == 0 {
                    let bits = UNSPECIFIED & ty.mask();
                    thread.frame().set_all(&node.results, &[bits]);
                    return Ok(());
                }
                let addr = address(thread, *space, *addr, *offset);
                self.load(thread, addr, *ty, &node.results)
            }
            InstData::Store {
                space,
                ty,
                addr,
                offset,
                args,
                ..
            } => {
                let addr = address(thread, *space, *addr, *offset);
                let elements = values(thread, args);
                self.store(thread, addr, *ty, &elements)
            }
            InstData::Atomic {
                op,
                fmt,
                space,
                addr,
                offset,
                args,
                ..
            } => {
                let addr = address(thread, *space, *addr, *offset);
                let args = values(thread, args);
                let old = self.atomic(thread, (*op, *fmt), addr, &args)?;
                thread.frame().set_all(&node.results, &[old]);
                Ok(())
            }
            other => unreachable!("{other:?} does not access memory"),
        }
    }

    /// Stores the elements of a store one by one.
    pub(crate) fn store_words(
        &mut self,
        thread: &mut Thread<'p>,
        node: &'p InstNode,
    ) -> Result<(), FaultKind> {
        let InstData::Store {
            space,
            ty,
            addr,
            offset,
            args,
            ..
        } = &node.data
        else {
            unreachable!("{:?} stores nothing", node.data)
        };
        let elements = values(thread, args);
        for (number, &element) in elements.iter().enumerate() {
            let address = Address {
                space: *space,
                base: thread.frame().window_offset(*addr),
                offset: offset + (number as i32 * ty.bytes() as i32),
            };
            self.store(thread, address, *ty, &[element])?;
        }
        Ok(())
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
        InstData::Barrier {
            op,
            id,
            count,
            pred,
            aligned,
        } => {
            let frame = thread.frame();
            let count = count.map_or(0, |count| frame.get(count));
            let pred = pred.is_some_and(|pred| frame.get(pred) & 1 != 0);
            WaitKind::Barrier {
                op: *op,
                id: frame.get(*id),
                count,
                pred,
                registered: false,
                aligned: *aligned,
            }
        }
        InstData::Warp { op, sync, ty, args } => {
            let mut args = values(thread, args);
            let mask = if *sync {
                args.pop().map(|mask| mask as u32)
            } else {
                None
            };
            WaitKind::Warp(WarpWait {
                op: *op,
                ty: *ty,
                mask,
                args,
            })
        }
        other => unreachable!("{other:?} does not wait"),
    };
    Wait {
        kind,
        results: &node.results,
    }
}
