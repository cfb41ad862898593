//! Calls, returns, and the thread's stack.

use ptxjit_ir::{FuncId, SigId, Value};

use crate::access::Address;
use crate::exec::{Step, values};
use crate::fault::FaultKind;
use crate::launch::Machine;
use crate::memory::read_le;
use crate::thread::{Frame, Thread};
use crate::watch::shadow::Shadow;

/// Bytes between variables in local memory, where bounds are exact.
const LOCAL_GAP: u64 = 16;

impl<'p> Machine<'p, '_> {
    /// A frame for `id` with its stack slots in local memory.
    pub(crate) fn call(
        &mut self,
        thread: &mut Thread<'p>,
        id: FuncId,
        args: &[Value],
        results: &'p [Value],
    ) -> Result<Step<'p>, FaultKind> {
        let func = self
            .function(id)
            .ok_or(FaultKind::BadCallTarget(u64::from(id.as_u32()) + 1))?;
        if thread.frames.len() >= self.launch.limits.call_depth {
            return Err(FaultKind::StackOverflow);
        }
        let caller = thread.frame();
        let shadows: Vec<_> = args.iter().map(|&arg| caller.shadow(arg)).collect();
        let args = values(thread, args);
        let mut frame = Frame::new((id, func), &args, results, thread.stack_top);
        frame.called_at = thread.loc;
        self.push(thread, frame)?;
        let callee = thread.frame();
        for (&param, &shadow) in callee.func.params().iter().zip(&shadows) {
            callee.set_shadow(param, shadow);
        }
        Ok(Step::Next)
    }

    /// Puts a frame on top, its stack slots placed.
    pub(crate) fn push(
        &mut self,
        thread: &mut Thread<'p>,
        mut frame: Frame<'p>,
    ) -> Result<(), FaultKind> {
        let func = frame.func;
        if self.watches_values() {
            frame.shadows = vec![Shadow::NONE; func.values.len()];
        }
        for slot in func.slots.values() {
            frame
                .slots
                .push(self.reserve(thread, slot.size.into(), slot.align)?);
        }
        thread.frames.push(frame);
        Ok(())
    }

    /// The function whose descriptor an indirect call names: one of `targets` if the program lists
    /// them, else one whose address it takes, and of the call's signature.
    pub(crate) fn callee(
        &mut self,
        thread: &mut Thread<'p>,
        (sig, callee): (SigId, Value),
        targets: Option<&[FuncId]>,
    ) -> Result<FuncId, FaultKind> {
        let pointer = thread.frame().get(callee);
        let bad = FaultKind::BadCallTarget(pointer);
        let mut word = [0; 8];
        self.read(thread, Address::generic(pointer), &mut word)
            .map_err(|_| bad.clone())?;
        let number = read_le(&word)
            .checked_sub(1)
            .and_then(|number| u32::try_from(number).ok());
        let id = number
            .filter(|&number| number < u32::MAX)
            .map(FuncId::from_u32)
            .ok_or_else(|| bad.clone())?;
        let program = self.launch.program;
        let allowed = targets.unwrap_or(&program.address_taken).contains(&id);
        let func = self
            .function(id)
            .filter(|_| allowed)
            .ok_or_else(|| bad.clone())?;
        let sig = &program.sigs[sig];
        let params = func.params().iter().map(|&param| func.ty(param));
        if params.eq(sig.params.iter().copied()) && func.rets == sig.rets {
            Ok(id)
        } else {
            Err(bad)
        }
    }

    /// Leaves the top frame; the kernel's own return ends the thread.
    pub(crate) fn ret(&mut self, thread: &mut Thread<'p>, returned: &[Value]) -> Step<'p> {
        let bits = values(thread, returned);
        let callee = thread.frame();
        let shadows: Vec<_> = returned.iter().map(|&value| callee.shadow(value)).collect();
        let Some(frame) = thread.frames.pop() else {
            return Step::Exit;
        };
        thread.stack_top = frame.stack_base;
        thread
            .objects
            .retain(|&(start, _)| start < frame.stack_base);
        match thread.frames.last_mut() {
            Some(caller) => {
                caller.set_all(frame.results, &bits);
                for (&result, &shadow) in frame.results.iter().zip(&shadows) {
                    caller.set_shadow(result, shadow);
                }
                Step::Next
            }
            None => Step::Exit,
        }
    }

    /// Takes local memory from the thread's stack; returns its window offset.
    pub(crate) fn reserve(
        &mut self,
        thread: &mut Thread<'p>,
        size: u64,
        align: u32,
    ) -> Result<u64, FaultKind> {
        let start = thread
            .stack_top
            .checked_next_multiple_of(align.max(1).into());
        let end = start.and_then(|start| start.checked_add(size));
        match (start, end) {
            (Some(start), Some(end)) if end <= self.launch.limits.local_bytes => {
                // A new activation's memory is fresh in the sense that no program may count on it,
                // but not cleared.
                thread.stack_top = end;
                if self.checks().mem {
                    thread.objects.push((start, end));
                    // Something lies between two variables.
                    thread.stack_top = end + LOCAL_GAP;
                }
                self.forget_local(thread, start, end);
                Ok(start)
            }
            _ => Err(FaultKind::StackOverflow),
        }
    }
}
