//! Operations of the device: what `ptxjit-device` sees of a thread of the interpreter.

use std::sync::Arc;

use ptxjit_device::asynchronous::{self, Issuer, Queue};
use ptxjit_device::tcgen05::TensorMemory;
use ptxjit_device::tensor::misplaced_box;
use ptxjit_device::texture::Object;
use ptxjit_device::{Act, Fault, Member};
use ptxjit_ir::{AsyncOp, Builtin, DeviceOp, Space, SrcLoc, TensorOp};
use smallvec::{SmallVec, smallvec};

use crate::fault::FaultKind;
use crate::launch::Machine;
use crate::memory::MemFault;
use crate::schedule::Env;
use crate::thread::Thread;
use crate::watch::copies::Late;
use crate::watch::finding::{AccessOp, FindingKind, Severity};

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
            accesses: match is_tensor {
                true => Accesses::Copy { map: args[0] },
                false => Accesses::Plain,
            },
            prints: matches!(op, DeviceOp::Builtin(Builtin::Vprintf)),
        };
        if let (true, DeviceOp::Tensor(op)) = (is_tensor, op) {
            view.look_for_misplaced_box(*op, args);
        }
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

impl<'p> Machine<'p, '_> {
    /// A CTA of the cluster whose turn it is has ended: completes what its threads have begun.
    pub(crate) fn finish(&mut self, env: &Env) -> Result<(), FaultKind> {
        self.outside_of_threads(env, &mut |thread| asynchronous::finish(thread))
    }

    /// The threads of the cluster whose turn it is only turn in loops: completes an operation, if
    /// there is one.
    pub(crate) fn complete_any(&mut self, env: &Env) -> Result<bool, FaultKind> {
        let mut is_one = false;
        self.outside_of_threads(env, &mut |thread| {
            is_one = asynchronous::complete_any(thread)?;
            Ok(())
        })?;
        Ok(is_one)
    }

    fn outside_of_threads(&mut self, env: &Env, act: &mut Act<'_>) -> Result<(), FaultKind> {
        if self.queue.is_empty() {
            return Ok(());
        }
        let mut thread = Thread::new(env.cta, [0; 3], 0);
        let mut view = View {
            machine: self,
            env: &mut Env { ..*env },
            thread: &mut thread,
            accesses: Accesses::Plain,
            prints: false,
        };
        act(&mut view).map_err(fault_kind)
    }
}

struct View<'a, 'p, 'm> {
    machine: &'a mut Machine<'p, 'm>,
    env: &'a mut Env,
    thread: &'a mut Thread<'p>,
    accesses: Accesses,
    prints: bool,
}

impl View<'_, '_, '_> {
    /// Warns of a box that does not begin where the ISA lets it.
    fn look_for_misplaced_box(&mut self, op: TensorOp, args: &[u64]) {
        let accesses = std::mem::replace(&mut self.accesses, Accesses::Copy { map: args[0] });
        let why = misplaced_box(op, self, args);
        self.accesses = accesses;
        if let Some(why) = why {
            let who = self.machine.who(self.env, self.thread);
            let (kind, severity) = (FindingKind::Misaligned, Severity::Warning);
            self.machine
                .misuse(who, kind, severity, (AccessOp::Copy, why));
        }
    }
}

/// What is done about the accesses of an operation.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Accesses {
    /// They are made.
    Plain,
    /// They are made, and watched but for those of a tensor's map, which lies here.
    Copy { map: u64 },
    /// They are watched, and made later: nothing changes. The `mbarrier` is left alone.
    Foreseen {
        map: Option<u64>,
        barrier: Option<u64>,
    },
    /// They have been watched, and are made now.
    Late { op: Late, barrier: Option<u64> },
}

impl View<'_, '_, '_> {
    fn watched(&mut self, addr: u64, len: usize, op: (AccessOp, bool)) {
        let is_watched = match self.accesses {
            Accesses::Plain | Accesses::Late { .. } => false,
            Accesses::Copy { map } => map != addr,
            Accesses::Foreseen { map, .. } => map != Some(addr),
        };
        if is_watched {
            self.machine
                .device_access((self.env, self.thread), (addr, len), op);
        }
    }

    /// What is to be written somewhere: that, or what is there already.
    fn to_write(&mut self, addr: u64, bytes: &[u8]) -> Result<SmallVec<[u8; 16]>, Fault> {
        let mut bytes = SmallVec::from_slice(bytes);
        if let Accesses::Foreseen { .. } = self.accesses {
            let read = self.machine.read_at(self.thread, addr, &mut bytes);
            read.map_err(|why| bad_address(addr, bytes.len(), &why))?;
        }
        Ok(bytes)
    }

    /// Notes the accesses of an operation that is going to be completed later.
    fn foresee(&mut self, issuer: &Issuer, op: &AsyncOp, args: &[u64]) -> Result<(), Fault> {
        let map = matches!(op, AsyncOp::Tensor(_)).then(|| args[0]);
        let mut view = View {
            machine: self.machine,
            env: self.env,
            thread: self.thread,
            accesses: Accesses::Foreseen {
                map,
                barrier: issuer.barrier,
            },
            prints: false,
        };
        asynchronous::rehearse(issuer, op, &mut view, args)?;
        if let (AsyncOp::Copy(_), &[to, from, bytes, read, mask, ..]) = (op, args)
            && mask & 0xffff == 0xffff
        {
            let len = bytes.min(read) as usize;
            let who = (&*self.env, &*self.thread);
            self.machine.copy_states(who, (to, from), len);
        }
        Ok(())
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
        let keeps = self.accesses != Accesses::Plain
            && self.machine.is_there(self.env, self.thread, (addr, bytes));
        let bytes = &self.to_write(addr, bytes)?[..];
        let written = self.machine.write_at(self.thread, addr, bytes);
        written.map_err(|why| bad_address(addr, bytes.len(), &why))?;
        self.watched(addr, bytes.len(), (AccessOp::Store, keeps));
        if !matches!(self.accesses, Accesses::Late { .. }) {
            self.machine
                .written(self.env, self.thread, addr, bytes.len());
        }
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
        let mut same = |old| old;
        let update = match self.accesses {
            Accesses::Foreseen { barrier, .. } if barrier == Some(addr) => return Ok(0),
            Accesses::Foreseen { .. } => &mut same,
            Accesses::Plain | Accesses::Copy { .. } | Accesses::Late { .. } => update,
        };
        let old = (self.machine).update_at(self.thread, addr, size, update);
        let old = old.map_err(|why| bad_address(addr, size as usize, &why))?;
        self.watched(addr, size as usize, (AccessOp::Atomic, false));
        if let Accesses::Late { op, barrier } = self.accesses
            && barrier == Some(addr)
        {
            let who = (&*self.env, &*self.thread);
            self.machine.arrived_late(who, op, addr);
        }
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

    fn cancel_launch(&mut self) -> Option<[u32; 3]> {
        self.machine.take_cluster(false)
    }

    fn queue(&mut self) -> &mut Queue {
        &mut self.machine.queue
    }

    fn act_as(&mut self, issuer: &Issuer, act: &mut Act<'_>) -> Result<(), Fault> {
        let rank = issuer.rank;
        let cta = self.machine.members[rank as usize];
        let mut env = Env {
            cta,
            ctaid: issuer.site.ctaid,
            n_threads: self.env.n_threads,
            rank,
        };
        let mut thread = Thread::new(cta, issuer.site.tid, issuer.thread);
        thread.loc = issuer.site.loc;
        self.machine.progress += 1;
        act(&mut View {
            accesses: Accesses::Late {
                op: (self.machine.members[0], issuer.op),
                barrier: issuer.barrier,
            },
            machine: self.machine,
            env: &mut env,
            thread: &mut thread,
            prints: false,
        })
    }

    fn begun(&mut self, issuer: &Issuer, op: &AsyncOp, args: &[u64]) -> Result<(), Fault> {
        let is_plain = matches!(op, AsyncOp::TensorMemory(_));
        if self.machine.watch.is_none() || is_plain {
            return Ok(());
        }
        if let AsyncOp::Tensor(op) = op {
            self.look_for_misplaced_box(*op, args);
        }
        let late = (self.machine.members[0], issuer.op);
        let who = (&*self.env, &*self.thread);
        let is_copy = (self.machine).begin_late_copy(who, op, issuer.barrier);
        let with_copies = matches!(op, AsyncOp::ArriveAfterCopies { .. });
        if !with_copies && *op != AsyncOp::ArriveAfterProducts {
            self.foresee(issuer, op, args)?;
        }
        let who = self.machine.who(self.env, self.thread);
        let watch = self.machine.watch.as_mut();
        match watch {
            Some(watch) if is_copy => watch.set_aside(&who, late),
            Some(watch) if issuer.barrier.is_some() => {
                watch.arrives_later(&who, late, with_copies);
            }
            Some(_) | None => {}
        }
        Ok(())
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
        Fault::Late { site, fault } => FaultKind::Late {
            site,
            kind: Box::new(fault_kind(*fault)),
        },
        other => FaultKind::Host(other.to_string()),
    }
}
