//! Emits the units of a node (`decisions/units.rs`).

use std::ops::Range;

use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_ir::Inst;
use ptxjit_vectorize::Variability;

use crate::chains::{self, Schedule};
use crate::decisions::units::Unit;
use crate::lower::Lower;
use crate::lower::access::forms::Kind;
use crate::ops::{Address, Parts, Strided, Val, Words, int_type, vector_type};

impl Lower<'_, '_> {
    pub(super) fn emit_units(&mut self, units: &[Unit]) {
        for unit in units {
            self.emit_unit(unit);
        }
    }

    fn emit_unit(&mut self, unit: &Unit) {
        match unit {
            Unit::Op(inst) => (0..self.b.quads()).for_each(|q| self.emit_part(*inst, q)),
            Unit::Strips(insts) => self.emit_strips(insts),
            Unit::Packed(inst) => self.subword_op(*inst),
            Unit::MinMax(inst) => {
                self.loc(self.func.insts[*inst].loc);
                self.min_max_of_gang(*inst);
            }
            Unit::CanonicalNans(inst) => {
                self.loc(self.func.insts[*inst].loc);
                self.canonical_nans_of_gang(*inst);
            }
            Unit::Chains(schedule) => self.emit_chains(schedule),
            Unit::Products(group) => self.emit_products(group),
            Unit::Copy(load, store) => self.emit_copy(*load, *store),
            Unit::Access(inst, kind) => {
                self.loc(self.func.insts[*inst].loc);
                self.emit_access(*inst, *kind);
            }
            Unit::Atomic(inst, kind) => {
                self.loc(self.func.insts[*inst].loc);
                self.atomic(*inst, *kind);
            }
            Unit::Effect(inst) => {
                self.loc(self.func.insts[*inst].loc);
                self.emit_effect(*inst);
            }
        }
    }

    /// Emits pure instructions strip by strip.
    fn emit_strips(&mut self, insts: &[Inst]) {
        for strip in self.strips() {
            for &inst in insts {
                strip.clone().for_each(|q| self.emit_part(inst, q));
            }
        }
    }

    /// The quads in strips that are emitted together.
    fn strips(&self) -> Vec<Range<usize>> {
        let firsts = (0..self.b.quads()).step_by(self.strip());
        firsts.map(|first| first..first + self.strip()).collect()
    }

    /// Emits groups of chains, strip by strip. Their results go through memory: there is no
    /// register for them until the last group has ended, and Cranelift would not merge loads into
    /// instructions on the way to a value with several uses.
    fn emit_chains(&mut self, schedule: &Schedule) {
        let size = 32 * (schedule.results.len() * self.b.quads()) as u32;
        let data = cl::StackSlotData::new(cl::StackSlotKind::ExplicitSlot, size, 4);
        let slot = self.b.create_sized_stack_slot(data);
        let base = self.b.ins().stack_addr(types::I64, slot, 0);
        for strip in self.strips() {
            for &step in &schedule.steps {
                let (chains::Step::Pure(inst)
                | chains::Step::Load(inst)
                | chains::Step::Element(inst, _)) = step;
                self.loc(self.func.insts[inst].loc);
                match step {
                    chains::Step::Pure(inst) => {
                        for q in strip.clone() {
                            self.chain_quad(inst, q, schedule, base);
                        }
                    }
                    chains::Step::Load(inst) => self.load_strip(inst, &strip, schedule),
                    chains::Step::Element(inst, k) => self.load_element(inst, k),
                }
            }
        }
        for (idx, &result) in schedule.results.iter().enumerate() {
            let ty = self.func.ty(result);
            let first = 32 * (idx * self.b.quads()) as i32;
            let parts = (0..self.b.n_parts(ty) as i32)
                .map(|i| self.b.load_own(vector_type(ty), base, first + 16 * i))
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
            self.b.store_own(part, base, first + 16 * i as i32);
        }
    }

    /// The loads of a strip of lanes.
    fn load_strip(&mut self, inst: Inst, strip: &Range<usize>, schedule: &Schedule) {
        let node = &self.func.insts[inst];
        let (access, words) = self.read_by(inst);
        if schedule.kept.contains(&inst) {
            if strip.start == 0 {
                let kind = self.decided.proved_kind(access, self.assumed());
                self.load(inst, kind);
            }
            return;
        }
        let place = self.place(access, Kind::Load);
        let Address::Strided(at, stride) = place.address else {
            unreachable!("lanes load at constant distances")
        };
        let offset = place.offset;
        let lanes = Strided { at, stride, offset };
        let (at, offset) = self.b.strided_lane(lanes, 4 * strip.start);
        let all_lanes = std::mem::replace(&mut self.b.lanes, 4 * strip.len());
        let parts = self.load_whole(words, Strided { at, stride, offset });
        let per = self.b.n_parts(words.ty);
        self.b.lanes = all_lanes;
        let n_parts = self.b.n_parts(words.ty);
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
        let result = self.func.insts[inst].results[k];
        let (access, Words { ty, .. }) = self.read_by(inst);
        let place = self.place(access, Kind::Load);
        let Address::Scalar(at) = place.address else {
            unreachable!("all lanes load from one place")
        };
        let offset = place.offset + (k as u32 * ty.bytes()) as i32;
        let x = self.b.load_device(int_type(ty), at, offset);
        let parts = self.b.splat_parts(ty, x);
        self.available.splats.insert(result, parts);
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
}
