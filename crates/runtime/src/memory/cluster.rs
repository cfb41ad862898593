//! The shared memories of the CTAs of a cluster, side by side in one window: that of rank r begins
//! at `r << CTA_SHIFT`.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ptxjit_ir::{CTA_SHIFT, MAX_CLUSTER};

use super::{Arena, PAGE, Window};
use crate::tensor::ClusterTensors;

/// See the module. The memory of a CTA that has ended cannot be accessed.
#[derive(Debug)]
pub(crate) struct ClusterWindow {
    window: Window,
    /// Bytes that each CTA has.
    bytes: u64,
    n_ctas: u32,
    /// CTAs whose memory cannot be accessed, as bits. One thread at a time changes it and looks at
    /// it.
    ended: AtomicU32,
    /// Memory that has no addresses in the window.
    pub(crate) tensors: ClusterTensors,
}

impl ClusterWindow {
    /// Shared memory of `bytes` for each of `n_ctas` CTAs, none of which can be accessed yet.
    pub(crate) fn new(arena: &Arc<Arena>, n_ctas: u32, bytes: u64) -> io::Result<ClusterWindow> {
        Ok(ClusterWindow {
            window: Window::new(arena, u64::from(MAX_CLUSTER) << CTA_SHIFT)?,
            bytes,
            n_ctas,
            ended: AtomicU32::new(u32::MAX),
            tensors: ClusterTensors::default(),
        })
    }

    /// Generic address of offset 0.
    pub(crate) fn base(&self) -> u64 {
        self.window.base()
    }

    /// Makes the memory of all CTAs accessible.
    pub(crate) fn start(&self) -> io::Result<()> {
        for rank in (0..self.n_ctas).filter(|&rank| self.has_ended(rank)) {
            self.window.set_part(self.part(rank), self.len(), true)?;
        }
        self.ended.store(0, Ordering::Relaxed);
        Ok(())
    }

    /// A CTA has ended, and others go on.
    pub(crate) fn end(&self, rank: u32) -> io::Result<()> {
        self.ended.fetch_or(1 << rank, Ordering::Relaxed);
        self.window.set_part(self.part(rank), self.len(), false)
    }

    /// Whether a CTA's memory cannot be accessed any more.
    pub(crate) fn has_ended(&self, rank: u32) -> bool {
        self.ended.load(Ordering::Relaxed) >> rank & 1 != 0
    }

    /// The peer of the CTA with this rank, if there is one.
    pub(crate) fn peer_of(&self, rank: u32) -> Option<u32> {
        let peer = rank ^ 1;
        (peer < self.n_ctas).then_some(peer)
    }

    /// The rank and the offset in its CTA's memory of an address in the window.
    pub(crate) fn split(&self, addr: u64) -> Option<(u32, u64)> {
        let offset = addr.checked_sub(self.base())?;
        let rank = u32::try_from(offset >> CTA_SHIFT).ok()?;
        (rank < MAX_CLUSTER).then_some((rank, offset & ((1 << CTA_SHIFT) - 1)))
    }

    /// Whether bytes are memory of a CTA that has not ended.
    pub(crate) fn contains(&self, addr: u64, size: u64) -> bool {
        self.split(addr).is_some_and(|(rank, offset)| {
            let is_there = rank < self.n_ctas && !self.has_ended(rank);
            is_there && offset <= self.bytes && self.bytes - offset >= size
        })
    }

    /// What is wrong with an address in the window, in words.
    pub(crate) fn describe(&self, addr: u64) -> Option<String> {
        let (rank, offset) = self.split(addr)?;
        let place = format!("offset {offset} of shared memory of the CTA with rank {rank}");
        Some(if rank >= self.n_ctas {
            format!("{place}, of which the cluster has {}", self.n_ctas)
        } else if self.has_ended(rank) {
            format!("{place}, which has exited")
        } else {
            format!("{place}, which has {} bytes", self.bytes)
        })
    }

    fn part(&self, rank: u32) -> u64 {
        u64::from(rank) << CTA_SHIFT
    }

    fn len(&self) -> u64 {
        self.bytes.next_multiple_of(PAGE)
    }
}
