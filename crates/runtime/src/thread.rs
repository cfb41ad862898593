//! A thread of compiled code as `ptxjit-device` sees it, and what is left to do for threads that
//! are not in compiled code.
//!
//! Addresses that the kernel gives are checked before they are followed.

#![expect(
    unsafe_code,
    reason = "what operations keep for CTAs is found through contexts that compiled code hands on"
)]

use std::sync::Arc;

use ptxjit_abi::CtaContext;
use ptxjit_device::asynchronous::{self, Issuer, Queue};
use ptxjit_device::tcgen05::TensorMemory;
use ptxjit_device::texture::Object;
use ptxjit_device::{Act, Fault, Member, Rows, Site, Thread};
use ptxjit_ir::SrcLoc;

use crate::error::{LaunchError, TrapCause};
use crate::grid::Grid;
use crate::memory::ClusterWindow;
use crate::sched::cta::tid_of;
use crate::view::View;

/// See the module.
pub(crate) struct DeviceThread<'a> {
    grid: &'a Grid,
    ctx: &'a CtaContext,
    view: View<'a>,
    thread: u32,
    loc: SrcLoc,
}

impl Thread for DeviceThread<'_> {
    fn read(&mut self, addr: u64, bytes: &mut [u8]) -> Result<(), Fault> {
        let size = bytes.len() as u64;
        let read = self.view.read(addr, bytes);
        read.ok_or_else(|| self.bad_address(addr, size))
    }

    fn write(&mut self, addr: u64, bytes: &[u8]) -> Result<(), Fault> {
        let written = self.view.write(addr, bytes);
        written.ok_or_else(|| self.bad_address(addr, bytes.len() as u64))
    }

    fn read_rows(&mut self, rows: &Rows, bytes: &mut [u8]) -> Result<(), Fault> {
        if self.view.read_rows(*rows, bytes) {
            return Ok(());
        }
        rows.each()
            .try_for_each(|(addr, place)| self.read(addr, &mut bytes[place]))
    }

    fn gather(
        &mut self,
        to: u64,
        len: usize,
        tensor: u64,
        rows: &[(usize, Rows)],
        finish: &mut dyn FnMut(&mut [u8]),
    ) -> bool {
        let arena = self.view.arena();
        let Some(bytes) = self.view.shared(to, len) else {
            return false;
        };
        crate::ahead::fetch_next(tensor, rows);
        let read = |&(at, rows): &(usize, Rows)| arena.read_rows(rows, &mut bytes[at..]).is_ok();
        if !rows.iter().all(read) {
            return false;
        }
        finish(bytes);
        true
    }

    fn scatter(&mut self, from: u64, len: usize, rows: &[(usize, Rows)]) -> bool {
        let arena = self.view.arena();
        let Some(bytes) = self.view.shared(from, len) else {
            return false;
        };
        let write = |&(at, rows): &(usize, Rows)| arena.write_rows(rows, &bytes[at..]).is_ok();
        rows.iter().all(write)
    }

    fn write_rows(&mut self, rows: &Rows, bytes: &[u8]) -> Result<(), Fault> {
        if self.view.write_rows(*rows, bytes) {
            return Ok(());
        }
        rows.each()
            .try_for_each(|(addr, place)| self.write(addr, &bytes[place]))
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
        let old = self.view.update(addr, size, update);
        old.ok_or_else(|| self.bad_address(addr, u64::from(size)))
    }

    fn exchange(&mut self, addr: u64, expected: Option<u128>, new: u128) -> Result<u128, Fault> {
        let old = self.view.exchange(addr, expected, new);
        old.ok_or_else(|| self.bad_address(addr, 16))
    }

    fn object(&mut self, handle: u64) -> Option<Arc<Object>> {
        self.grid.shared.textures.recent(handle)
    }

    fn tid(&self) -> [u32; 3] {
        tid_of(self.thread, self.ctx.ntid)
    }

    fn number(&self) -> u32 {
        self.thread
    }

    fn loc(&self) -> SrcLoc {
        self.loc
    }

    fn is_odd(&self) -> bool {
        self.ctx.cluster_ctarank & 1 != 0
    }

    fn shared(&self, cta: Member) -> Result<&[u8], Fault> {
        match cta {
            Member::Own => Ok(self.view.all_shared()),
            Member::Peer => {
                let (_, peer) = self.peer()?;
                Ok(self.view.shared_of(peer))
            }
        }
    }

    fn tensor_memory(&mut self, cta: Member) -> Result<&mut Option<Box<TensorMemory>>, Fault> {
        if cta == Member::Peer {
            let (cluster, peer) = self.peer()?;
            // SAFETY: the CTAs of a cluster are started together and run on one thread; the result
            // lives no longer than this borrow of the only thread of theirs that executes an
            // operation now.
            return Ok(unsafe { cluster.tensors.memory_of(peer) });
        }
        // SAFETY: the CTA has been started, it runs on this thread, and the result lives no longer
        // than this borrow of the only thread of the CTA that executes an operation now.
        let memory = unsafe { crate::tensor::memory_of(self.ctx) };
        memory.map_err(|leak| {
            let ctaid = leak.site().ctaid;
            Fault::refused(format!("before this, in CTA {ctaid:?}: {leak}"))
        })
    }

    fn ctaid(&self) -> [u32; 3] {
        self.ctx.ctaid
    }

    fn cluster_rank(&self) -> u32 {
        self.ctx.cluster_ctarank
    }

    fn cluster_size(&self) -> u32 {
        self.grid.cluster_size()
    }

    fn shared_window(&self) -> u64 {
        self.ctx.shared_base
    }

    fn cancel_launch(&mut self) -> Option<[u32; 3]> {
        self.grid.take_unit()
    }

    fn queue(&mut self) -> &mut Queue {
        // SAFETY: the CTA has been started, it runs on this thread, and the result lives no longer
        // than this borrow of the only thread of the cluster that executes an operation now.
        unsafe { crate::tensor::queue_of(self.ctx) }
    }

    fn act_as(&mut self, issuer: &Issuer, act: &mut Act<'_>) -> Result<(), Fault> {
        let ctx = crate::tensor::context_of(self.ctx, issuer.rank);
        let (thread, loc) = (issuer.thread, issuer.site.loc);
        act(&mut DeviceThread::new(self.grid, ctx, thread, loc))
    }

    fn print(&mut self, text: &[u8]) {
        self.grid.print(text);
    }

    fn malloc(&mut self, size: u64) -> u64 {
        self.grid.shared.malloc(size)
    }

    fn free(&mut self, addr: u64) -> Result<(), String> {
        self.grid.shared.free(addr)
    }
}

impl<'a> DeviceThread<'a> {
    /// A thread of the CTA of a context, at an instruction.
    pub(crate) fn new(
        grid: &'a Grid,
        ctx: &'a CtaContext,
        thread: u32,
        loc: SrcLoc,
    ) -> DeviceThread<'a> {
        DeviceThread {
            grid,
            ctx,
            view: View::new(grid, ctx, thread),
            thread,
            loc,
        }
    }

    /// The error of an operation that the thread executes, or has completed for another.
    pub(crate) fn error(&self, fault: Fault) -> LaunchError {
        match fault {
            Fault::Late { site, fault } => self.grid.trap_at(cause_of(*fault), site),
            other => {
                let site = Site {
                    ctaid: self.ctaid(),
                    tid: self.tid(),
                    loc: self.loc,
                };
                self.grid.trap_at(cause_of(other), site)
            }
        }
    }

    /// The cluster, and the rank of the peer of the thread's CTA, which has not ended.
    fn peer(&self) -> Result<(&ClusterWindow, u32), Fault> {
        let cluster = crate::view::cluster_of(self.ctx).ok_or_else(Fault::no_peer)?;
        let peer = cluster.peer_of(self.ctx.cluster_ctarank);
        match peer.ok_or_else(Fault::no_peer)? {
            peer if cluster.has_ended(peer) => Err(Fault::peer_has_exited()),
            peer => Ok((cluster, peer)),
        }
    }

    fn bad_address(&self, addr: u64, size: u64) -> Fault {
        let why = crate::view::describe(self.grid, self.ctx, addr);
        Fault::BadAddress { addr, size, why }
    }
}

/// A CTA has ended: completes what its threads have begun.
pub(crate) fn finish(grid: &Grid, ctx: &CtaContext) -> Result<(), LaunchError> {
    outside_of_code(grid, ctx, &mut |thread| asynchronous::finish(thread))
}

/// The threads of a CTA, or of its cluster, only turn in loops: completes an operation, if there is
/// one.
pub(crate) fn complete_any(grid: &Grid, ctx: &CtaContext) -> Result<bool, LaunchError> {
    let mut is_one = false;
    outside_of_code(grid, ctx, &mut |thread| {
        is_one = asynchronous::complete_any(thread)?;
        Ok(())
    })?;
    Ok(is_one)
}

/// Does something about operations that the threads of a CTA have begun, while no thread of its
/// cluster is in compiled code.
fn outside_of_code(grid: &Grid, ctx: &CtaContext, act: &mut Act<'_>) -> Result<(), LaunchError> {
    let mut thread = DeviceThread::new(grid, ctx, 0, SrcLoc::default());
    if thread.queue().is_empty() {
        return Ok(());
    }
    act(&mut thread).map_err(|fault| thread.error(fault))
}

fn cause_of(fault: Fault) -> TrapCause {
    match fault {
        Fault::BadAddress { addr, why, .. } => TrapCause::BadAddress {
            addr: Some(addr),
            note: why,
        },
        Fault::Misaligned { addr, size } => TrapCause::Misaligned { addr, size },
        Fault::Assert { message } => TrapCause::Assert { message },
        other => TrapCause::BadCall {
            note: other.to_string(),
        },
    }
}
