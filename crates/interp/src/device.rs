//! Operations of the device: what `ptxjit-device` sees of a thread of the interpreter.

use std::sync::Arc;

use ptxjit_device::tcgen05::TensorMemory;
use ptxjit_device::texture::Object;
use ptxjit_device::{Fault, Member};
use ptxjit_ir::{Builtin, DeviceOp, Space, SrcLoc};
use smallvec::{SmallVec, smallvec};

use crate::fault::FaultKind;
use crate::launch::Machine;
use crate::memory::MemFault;
use crate::schedule::Env;
use crate::thread::Thread;
use crate::watch::finding::AccessOp;

impl<'p> Machine<'p, '_> {
    /// Executes an operation; the results are as many as it has.
    pub(crate) fn device(
        &mut self,
        env: &mut Env,
        thread: &mut Thread<'p>,
        op: &DeviceOp,
        args: &[u64],
    ) -> Result<SmallVec<[u64; 4]>, FaultKind> {
        let mut results = smallvec![0; op.results().len()];
        let is_tensor = self.watch.is_some() && matches!(op, DeviceOp::Tensor(_));
        if is_tensor {
            self.begin_device_copy((env, thread), op, args);
        }
        let mut view = View {
            machine: self,
            env,
            thread,
            map: is_tensor.then(|| args[0]),
            prints: matches!(op, DeviceOp::Builtin(Builtin::Vprintf)),
        };
        let is_free = matches!(op, DeviceOp::Builtin(Builtin::Free));
        ptxjit_device::execute(op, &mut view, args, &mut results).map_err(|fault| match fault {
            Fault::Refused { why } if is_free => FaultKind::BadFree { addr: args[0], why },
            other => fault_kind(other),
        })?;
        if is_tensor {
            self.end_device_copy(env, thread);
        }
        Ok(results)
    }
}

struct View<'a, 'p, 'm> {
    machine: &'a mut Machine<'p, 'm>,
    env: &'a mut Env,
    thread: &'a mut Thread<'p>,
    /// Of an operation on a tensor: the address of its map.
    map: Option<u64>,
    prints: bool,
}

impl View<'_, '_, '_> {
    /// Of tensor copies, accesses are watched.
    fn watched(&mut self, addr: u64, len: usize, op: (AccessOp, bool)) {
        if self.map.is_some_and(|map| map != addr) {
            self.machine
                .device_access((self.env, self.thread), (addr, len), op);
        }
    }
}

impl ptxjit_device::Thread for View<'_, '_, '_> {
    fn read(&mut self, addr: u64, bytes: &mut [u8]) -> Result<(), Fault> {
        let read = self.machine.read_at(self.thread, addr, bytes);
        read.map_err(|why| bad_address(addr, bytes.len(), &why))?;
        self.watched(addr, bytes.len(), (AccessOp::Load, false));
        // Strings are read further than they go.
        if self.prints && bytes.len() <= 8 {
            self.machine
                .printed(self.env, self.thread, (addr, bytes.len()));
        }
        Ok(())
    }

    fn write(&mut self, addr: u64, bytes: &[u8]) -> Result<(), Fault> {
        let keeps =
            self.map.is_some() && self.machine.is_there(self.env, self.thread, (addr, bytes));
        let written = self.machine.write_at(self.thread, addr, bytes);
        written.map_err(|why| bad_address(addr, bytes.len(), &why))?;
        self.watched(addr, bytes.len(), (AccessOp::Store, keeps));
        self.machine
            .written(self.env, self.thread, addr, bytes.len());
        Ok(())
    }

    fn update(
        &mut self,
        addr: u64,
        size: u32,
        update: &mut dyn FnMut(u64) -> u64,
    ) -> Result<u64, Fault> {
        if !addr.is_multiple_of(u64::from(size)) {
            return Err(Fault::Misaligned { addr, size });
        }
        let old = (self.machine).update_at(self.thread, addr, size, update);
        let old = old.map_err(|why| bad_address(addr, size as usize, &why))?;
        self.watched(addr, size as usize, (AccessOp::Atomic, false));
        Ok(old)
    }

    fn object(&mut self, handle: u64) -> Option<Arc<Object>> {
        self.machine.host.object(handle)
    }

    fn tid(&self) -> [u32; 3] {
        self.thread.tid
    }

    fn number(&self) -> u32 {
        self.thread.linear
    }

    fn loc(&self) -> SrcLoc {
        self.thread.loc
    }

    fn is_odd(&self) -> bool {
        self.env.rank & 1 != 0
    }

    fn shared(&self, cta: Member) -> Result<&[u8], Fault> {
        let memory = self.machine.shared.get(self.rank(cta));
        let memory = memory.ok_or_else(Fault::no_peer)?;
        memory.as_deref().ok_or_else(Fault::peer_has_exited)
    }

    fn tensor_memory(&mut self, cta: Member) -> Result<&mut Option<Box<TensorMemory>>, Fault> {
        self.shared(cta)?;
        let rank = self.rank(cta);
        let memory = self.machine.tensor.get_mut(rank);
        memory.ok_or_else(Fault::no_peer)
    }

    fn ctaid(&self) -> [u32; 3] {
        self.env.ctaid
    }

    fn cluster_rank(&self) -> u32 {
        self.machine.cluster_rank(self.env)
    }

    fn cluster_size(&self) -> u32 {
        self.machine.launch.cluster_shape().iter().product()
    }

    fn shared_window(&self) -> u64 {
        self.machine.window_base(Space::SharedCluster)
    }

    fn print(&mut self, text: &[u8]) {
        self.machine.host.print(text);
    }

    fn malloc(&mut self, size: u64) -> u64 {
        let addr = self.machine.host.malloc(size);
        let who = self.machine.who(self.env, self.thread);
        if let (Some(watch), true) = (self.machine.watch.as_mut(), addr != 0) {
            watch.allocated(who, addr, size);
        }
        addr
    }

    fn free(&mut self, addr: u64) -> Result<(), String> {
        let size = self.machine.memory.allocation(addr);
        let size = size.and_then(|(start, size)| (start == addr).then_some(size));
        self.machine.host.free(addr)?;
        let who = self.machine.who(self.env, self.thread);
        if let Some(watch) = self.machine.watch.as_mut() {
            watch.freed(who, addr, size);
        }
        Ok(())
    }
}

impl View<'_, '_, '_> {
    fn rank(&self, cta: Member) -> usize {
        let own = self.env.rank as usize;
        match cta {
            Member::Own => own,
            Member::Peer => own ^ 1,
        }
    }
}

fn bad_address(addr: u64, size: usize, why: &MemFault) -> Fault {
    Fault::BadAddress {
        addr,
        size: size as u64,
        why: why.to_string(),
    }
}

fn fault_kind(fault: Fault) -> FaultKind {
    match fault {
        Fault::BadAddress { addr, size, why } => FaultKind::BadAddress {
            addr,
            size: u32::try_from(size).unwrap_or(u32::MAX),
            why: MemFault::Forbidden(why),
        },
        Fault::Misaligned { addr, size } => FaultKind::Misaligned { addr, size },
        Fault::Assert { message } => FaultKind::Assert(message),
        other => FaultKind::Host(other.to_string()),
    }
}
