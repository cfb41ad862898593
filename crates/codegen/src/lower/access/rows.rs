//! Accesses to rows of tiles, as `ldmatrix` and `stmatrix` move them.
//!
//! Each quad of lanes accesses one row of sixteen bytes, whose address another lane has. That
//! address is taken from the lane that has it: no vector of all lanes' addresses is computed.

use cranelift_codegen::ir::{self as cl, InstBuilder};
use ptxjit_abi::warp_ops::{WARP, shuffle_source};
use ptxjit_ir::{InstData, IntBinaryOp, ROW_BYTES, Space, Type, Value, ValueDef, WarpOp};

use crate::lower::Lower;

impl Lower<'_, '_> {
    /// The bits of a value in all lanes, if they are known.
    pub(in crate::lower) fn known_lanes(&mut self, value: Value) -> Option<[u64; WARP]> {
        let runs_whole = self.b.lanes == WARP && self.lane.active.is_none();
        runs_whole.then(|| self.decided.patterns.known_lanes(value))?
    }

    /// Notes that a row was found aligned in all lanes that need it.
    pub(super) fn note_aligned_row(&mut self, row: Value) {
        if self.unless_full().is_none() {
            let (row, lanes) = self.lanes_with_row(row);
            *self.available.aligned_rows.entry(row).or_default() |= lanes;
        }
    }

    /// The row whose address some lanes have, by bits, and others do not need: those take zero.
    fn lanes_with_row(&mut self, row: Value) -> (Value, u32) {
        if let Some(&InstData::Select {
            cond,
            args: [own, _],
            ..
        }) = self.func.def_inst(row)
            && let Some(known) = self.known_lanes(cond)
        {
            let lanes = (0..).zip(known).map(|(lane, bit)| (bit as u32 & 1) << lane);
            return (own, lanes.sum());
        }
        (row, u32::MAX)
    }

    /// The addresses of the first lanes of quads in shared memory, if all lanes run and each quad
    /// has a row that a lane gave it, aligned to `bytes`.
    pub(super) fn rows_of_quads(&mut self, addr: Value, bytes: u32) -> Option<Vec<cl::Value>> {
        if self.b.lanes != WARP || self.func.ty(addr) != Type::B32 {
            return None;
        }
        let first_lanes = (0..WARP).step_by(4);
        let sources: Option<Vec<_>> = first_lanes.map(|lane| self.source(addr, lane)).collect();
        let sources = sources?;
        let is_aligned = |&(row, lane): &(Value, usize)| {
            let tested = self.available.aligned_rows.get(&row);
            let is_tested = tested.is_some_and(|lanes| lanes >> lane & 1 != 0);
            1 << self.decided.multiples[row] >= bytes || bytes <= ROW_BYTES && is_tested
        };
        if !sources.iter().all(is_aligned) {
            return None;
        }
        let base = self.b.window(Space::Shared)?;
        let mut firsts: Vec<cl::Value> = Vec::new();
        let mut known = None;
        while let Some(&(row, lane)) = sources.get(firsts.len()) {
            if known.as_ref().is_none_or(|&(other, _)| other != row) {
                known = Some((row, self.known_distances(row, base)));
            }
            if let Some((_, Some(known))) = &known {
                let (base, more) = known.of(lane);
                firsts.push(self.b.plus(base, more.into()));
                continue;
            }
            let parts = self.parts(row);
            let both = self.b.signed_words(parts[lane / 4], lane % 4 / 2);
            let both = both.map(|row| self.b.ins().iadd(base, row));
            let follows = sources.get(firsts.len() + 1) == Some(&(row, lane + 1));
            match lane.is_multiple_of(2) && follows {
                true => firsts.extend(both),
                false => firsts.push(both[lane % 2]),
            }
        }
        Some(firsts)
    }

    /// The value and lane that a lane's word was taken from by `shfl`, at which no lane waited, if
    /// all lanes run here. Sums with what is zero in that lane are followed.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "a lane computes other words by itself"
    )]
    fn source(&mut self, value: Value, lane: usize) -> Option<(Value, usize)> {
        let func = self.func;
        let ValueDef::Result(inst, nth) = func.values[value].def else {
            return None;
        };
        match func.insts[inst].data {
            InstData::IntBinary {
                op: IntBinaryOp::Add,
                args: [a, b],
                ..
            } => {
                let mut is_zero = |x| self.known_lanes(x).is_some_and(|bits| bits[lane] == 0);
                match (is_zero(b), is_zero(a)) {
                    (true, _) => self.source(a, lane),
                    (false, true) => self.source(b, lane),
                    (false, false) => None,
                }
            }
            InstData::Warp {
                op: op @ WarpOp::ShflIdx,
                ref args,
                ..
            } if nth == 0 => {
                let b = self.known_lanes(args[1])?[lane] as u32;
                let c = func.as_const(args[2])? as u32;
                let (source, _) = shuffle_source(op, lane as u32, b, c);
                // Behind a wait a lane may no longer have what others read.
                let is_here = self.available.vals.contains_key(&args[0]);
                is_here.then_some((args[0], source as usize))
            }
            _ => None,
        }
    }
}
