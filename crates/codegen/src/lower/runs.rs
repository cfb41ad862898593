//! The order in which a node's instructions are emitted: op by op, strip by strip, or chain group
//! by chain group.

use std::ops::Range;

use cranelift_codegen::ir::{self as cl, InstBuilder, MemFlagsData, types};
use ptxjit_ir::{Inst, InstData};
use ptxjit_vectorize::Variability;
use smallvec::SmallVec;

use crate::chains::{Schedule, Step};
use crate::decisions::is_pure;
use crate::lower::Lower;
use crate::ops::{Address, Emitter, Parts, Val, device, int_type, vector_type};

impl Lower<'_, '_> {
    /// The quads in strips that are emitted together.
    fn strips(&self) -> Vec<Range<usize>> {
        let firsts = (0..self.b.quads()).step_by(self.strip());
        firsts.map(|first| first..first + self.strip()).collect()
    }

    /// Emits groups of chains, strip by strip. Their results go through memory: there is no
    /// register for them until the last group has ended, and Cranelift would not merge loads into
    /// instructions on the way to a value with several uses.
    pub(super) fn emit_steps(&mut self, schedule: &Schedule) {
        let size = 32 * (schedule.results.len() * self.b.quads()) as u32;
        let data = cl::StackSlotData::new(cl::StackSlotKind::ExplicitSlot, size, 4);
        let slot = self.b.create_sized_stack_slot(data);
        let base = self.b.ins().stack_addr(types::I64, slot, 0);
        for strip in self.strips() {
            for &step in &schedule.steps {
                let (Step::Pure(inst) | Step::Load(inst) | Step::Element(inst, _)) = step;
                self.loc(self.func.insts[inst].loc);
                match step {
                    Step::Pure(inst) => {
                        for q in strip.clone() {
                            self.chain_quad(inst, q, schedule, base);
                        }
                    }
                    Step::Load(inst) => self.load_strip(inst, &strip, schedule),
                    Step::Element(inst, k) => self.load_element(inst, k),
                }
            }
        }
        for (idx, &result) in schedule.results.iter().enumerate() {
            let ty = self.func.ty(result);
            let first = 32 * (idx * self.b.quads()) as i32;
            let parts = (0..self.b.n_parts(ty) as i32)
                .map(|i| {
                    self.b.ins().load(
                        vector_type(ty),
                        MemFlagsData::trusted(),
                        base,
                        first + 16 * i,
                    )
                })
                .collect();
            self.def(result, Val::Varying(parts));
        }
    }

    /// One quad of an instruction of a chain.
    fn chain_quad(&mut self, inst: Inst, q: usize, schedule: &Schedule, base: cl::Value) {
        let result = self.func.insts[inst].results[0];
        if schedule.floats.contains(&result) {
            self.float_quad(inst, q);
        } else {
            self.emit_part(inst, q);
        }
        let Some(idx) = schedule.results.iter().position(|&other| other == result) else {
            return;
        };
        let quad = self.quad(result, q);
        let first = 32 * (idx * self.b.quads()) as i32 + (16 * quad.len() * q) as i32;
        for (i, &part) in quad.iter().enumerate() {
            self.b
                .ins()
                .store(MemFlagsData::trusted(), part, base, first + 16 * i as i32);
        }
    }

    /// The loads of a strip of lanes.
    fn load_strip(&mut self, inst: Inst, strip: &Range<usize>, schedule: &Schedule) {
        let node = &self.func.insts[inst];
        let InstData::Load {
            space,
            ty,
            n,
            addr,
            offset,
            ..
        } = node.data
        else {
            unreachable!("called for loads")
        };
        if schedule.kept.contains(&inst) {
            if strip.start == 0 {
                self.load(inst);
            }
            return;
        }
        let place = self.place(space, addr, offset, ty.bytes() * u32::from(n), 0);
        let Address::Strided(at, stride) = place.address else {
            unreachable!("lanes load at constant distances")
        };
        let (at, offset) = self
            .b
            .strided_lane(at, stride, 4 * strip.start, place.offset);
        let lanes = std::mem::replace(&mut self.b.lanes, 4 * strip.len());
        let parts = self.load_whole(usize::from(n), ty, at, stride, offset);
        let per = self.b.n_parts(ty);
        self.b.lanes = lanes;
        let n_parts = self.b.n_parts(ty);
        for (k, &result) in node.results.iter().enumerate() {
            // The other strips' places are not read before they are emitted.
            let strip_parts: Parts = parts[k * per..(k + 1) * per]
                .iter()
                .map(|&part| self.b.cast_vector(part, vector_type(self.func.ty(result))))
                .collect();
            let parts = strip_parts.iter().copied().cycle().take(n_parts).collect();
            self.available.splats.remove(&result);
            self.available.vals.insert(result, Val::Varying(parts));
        }
    }

    /// One element of a load of all lanes from one place, for one use as a vector. Cranelift merges
    /// the load and the splat into one instruction if neither has another use, so the element is
    /// not recorded as a scalar.
    fn load_element(&mut self, inst: Inst, k: usize) {
        let node = &self.func.insts[inst];
        let InstData::Load {
            space,
            ty,
            n,
            addr,
            offset,
            ..
        } = node.data
        else {
            unreachable!("elements are of loads")
        };
        let result = node.results[k];
        let place = self.place(space, addr, offset, ty.bytes() * u32::from(n), 0);
        let Address::Scalar(at) = place.address else {
            unreachable!("all lanes load from one place")
        };
        let offset = place.offset + (k as u32 * ty.bytes()) as i32;
        let x = self.b.ins().load(int_type(ty), device(), at, offset);
        let splat = self.b.splat(ty, x);
        let parts = SmallVec::from_elem(splat, self.b.n_parts(ty));
        self.available.splats.insert(result, parts);
    }

    /// Emits loads where they are, and the runs of pure instructions between them.
    pub(super) fn emit_in_order(&mut self, stretch: &[Inst]) {
        for run in stretch.split_inclusive(|&inst| !is_pure(&self.func.insts[inst].data)) {
            match run.split_last() {
                Some((&load, pure)) if !is_pure(&self.func.insts[load].data) => {
                    self.emit_run(pure);
                    self.loc(self.func.insts[load].loc);
                    self.emit_effect(load);
                }
                _ => self.emit_run(run),
            }
        }
    }

    /// The schedule of a run of pure instructions: op by op, or strip by strip where all quads
    /// together would not fit the registers.
    fn emit_run(&mut self, run: &[Inst]) {
        let wanted: Vec<Inst> = run
            .iter()
            .copied()
            .filter(|&inst| !self.decided.is_done(inst))
            .collect();
        let (last, wanted) = self.split_last_nans(wanted);
        let mut rest = &wanted[..];
        while let Some(&first) = rest.first() {
            let is_subword = self.makes_subword(first);
            let is_other = |&inst: &Inst| self.makes_subword(inst) != is_subword;
            let n = rest.iter().position(is_other).unwrap_or(rest.len());
            let (group, others) = rest.split_at(n);
            match is_subword {
                true => group.iter().for_each(|&inst| self.subword_op(inst)),
                false => self.emit_group(group),
            }
            rest = others;
        }
        for inst in last {
            self.loc(self.func.insts[inst].loc);
            self.canonical_nans_of_gang(inst);
        }
    }

    /// Instructions whose results are held as quads.
    fn emit_group(&mut self, wanted: &[Inst]) {
        let n_strips = self.b.quads() / self.strip();
        if n_strips > 1 && self.pressure(wanted) * n_strips > crate::schedule::REGISTERS {
            for strip in self.strips() {
                for &inst in wanted {
                    strip.clone().for_each(|q| self.emit_part(inst, q));
                }
            }
        } else {
            for &inst in wanted {
                if self.is_min_max_of_gang(inst) {
                    self.loc(self.func.insts[inst].loc);
                    self.min_max_of_gang(inst);
                    continue;
                }
                for q in 0..self.b.quads() {
                    self.emit_part(inst, q);
                }
            }
        }
    }

    /// Removes from a run the canonicalizations of NaNs that the run does not use: one test finds
    /// whether any lane of the gang has a NaN.
    fn split_last_nans(&self, run: Vec<Inst>) -> (Vec<Inst>, Vec<Inst>) {
        if self.b.quads() < 2 {
            return (Vec::new(), run);
        }
        run.iter().partition(|&&inst| {
            let node = &self.func.insts[inst];
            let result = node.results[0];
            Emitter::makes_nans_canonical(&node.data)
                && self.variability(result) == Variability::Varying
                && !run
                    .iter()
                    .any(|&other| self.func.insts[other].data.args().contains(&result))
        })
    }

    /// Part `q` of a pure instruction; scalars are emitted with the first part.
    fn emit_part(&mut self, inst: Inst, q: usize) {
        self.loc(self.func.insts[inst].loc);
        let result = self.func.insts[inst].results[0];
        match self.variability(result) {
            Variability::Varying if self.decided.in_bits[result] => {
                if q == 0 {
                    self.emit_bits(inst);
                }
            }
            Variability::Varying => self.pure_quad(inst, q),
            Variability::Uniform | Variability::Affine { .. } if q == 0 => self.pure_scalar(inst),
            Variability::Uniform | Variability::Affine { .. } => {}
        }
    }

    fn pressure(&self, run: &[Inst]) -> usize {
        crate::schedule::pressure(self.func, self.plan, run)
    }
}
