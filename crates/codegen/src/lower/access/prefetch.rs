//! Prefetches: which lines they fetch.

use cranelift_codegen::ir::{self as cl, InstBuilder};
use ptxjit_ir::{Space, Value};
use ptxjit_vectorize::Variability;

use crate::lower::Lower;
use crate::ops::{Address, Val, Wrapping, small};
use crate::wide::prefetch;

/// Bytes of a cache line.
const LINE: i64 = 64;

/// No more cache lines than this per gang and hint: hardware has few buffers for outstanding
/// fetches.
const MOST_LINES: i64 = 16;

impl Lower<'_, '_> {
    /// Prefetches the contiguous bytes that the lanes will access. Their addresses were just
    /// resolved for an access.
    pub(in crate::lower) fn prefetch(&mut self, addr: Value, step: Value, offset: i32, size: u32) {
        // Where lanes diverged, a step that was assumed to be uniform may not be.
        let is_uniform = self.variability(step) == Variability::Uniform;
        if !cfg!(target_arch = "x86_64") || self.inputs.memcheck || !is_uniform {
            return;
        }
        let (at, stride) = match self.available.addresses.get(&(addr, Space::Global)) {
            Some(&(Address::Scalar(at), _)) => (at, 0),
            Some(&(
                Address::Strided(at, stride) | Address::MayWrap(Wrapping { at, stride, .. }),
                _,
            )) => (at, stride),
            Some((lanes @ (Address::Lanes(_) | Address::Lanes32(..)), _)) => {
                let lanes = lanes.clone();
                self.prefetch_of_lanes(&lanes, step, offset, size);
                return;
            }
            // Behind a masked load, which resolves its address where some lane runs.
            None => match self.get(addr) {
                Val::Affine(at, stride) => (at, stride),
                Val::Uniform(_) | Val::Varying(_) => return,
            },
        };
        let (at, offset) = self.step_on(at, step, offset);
        let reach = stride * (self.b.lanes as i64 - 1);
        let (low, high) = (reach.min(0), reach.max(0) + i64::from(size));
        let n_lines = ((high - low + LINE - 1) / LINE).min(MOST_LINES);
        for line in 0..n_lines {
            // From the end, where the next bytes are: few lines may begin where the lanes' bytes
            // do.
            let offset = i64::from(offset) + high - 1 - line * LINE;
            prefetch::emit(&mut self.b, at, offset as i32);
        }
    }

    /// Prefetches what scattered lanes will access: as many neighbors as a line has room for are
    /// taken to share one.
    fn prefetch_of_lanes(&mut self, lanes: &Address, step: Value, offset: i32, size: u32) {
        let sharing = (LINE as usize / size as usize).max(1);
        for lane in (0..self.b.lanes).step_by(sharing) {
            let at = self.b.lane_address(lanes, lane);
            let (at, offset) = self.step_on(at, step, offset);
            prefetch::emit(&mut self.b, at, offset);
        }
    }

    /// The place a step behind another one.
    fn step_on(&mut self, at: cl::Value, step: Value, offset: i32) -> (cl::Value, i32) {
        let known = self.func.as_const(step);
        match known.map(|step| i32::try_from(step as i64)) {
            Some(Ok(step)) if small(step) => (at, offset + step),
            Some(Ok(_) | Err(_)) | None => {
                let step = self.scalar(step);
                (self.b.ins().iadd(at, step), offset)
            }
        }
    }
}
