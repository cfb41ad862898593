//! Loads of the lanes for which a predicate is true.
//!
//! What the other lanes get is unspecified. So contiguous lanes are all read if one page has them,
//! as in a node of which some lanes run.

use cranelift_codegen::ir::{self as cl, InstBuilder};
use ptxjit_ir::{Inst, InstData, Value};

use super::loads::Loaded;
use crate::decisions::access_kinds::AccessKind;
use crate::decisions::mask_classes::MaskClass;
use crate::lower::{Lower, Mask};
use crate::ops::{Val, Words, int_type, vector_type};

impl Lower<'_, '_> {
    pub(in crate::lower) fn masked_load(&mut self, inst: Inst, kind: AccessKind) {
        let node = &self.func.insts[inst];
        let InstData::MaskedLoad { ty, mask, .. } = node.data else {
            unreachable!("called for masked loads")
        };
        let result = node.results[0];
        if self.is_uniform(result) {
            let x = self.load_if((inst, kind), mask);
            return self.def(result, Val::Uniform(x));
        }
        let is_packed = self.makes_subword(inst);
        let types = match is_packed {
            true => self.subword_types(ty),
            false => vec![vector_type(ty); self.b.n_parts(ty)],
        };
        let (lanes, any) = self.lanes_where(mask);
        let zero = types.clone();
        let parts = self.either(
            any,
            types,
            |lower| {
                lower.for_lanes(lanes, |lower| match is_packed {
                    true => lower.load_subword(inst, kind),
                    false => lower.load_parts(inst, kind),
                })
            },
            |lower| {
                let zeros = zero.iter().map(|&ty| lower.b.vconst_bytes(ty, &[0; 16]));
                zeros.collect()
            },
        );
        let parts = parts.into_iter().collect();
        match is_packed {
            true => self.def_subword(result, parts),
            false => self.def(result, Val::Varying(parts)),
        }
    }

    /// The element of the only lane, or of all, if the predicate is true.
    fn load_if(&mut self, (inst, kind): (Inst, AccessKind), mask: Value) -> cl::Value {
        let (_, Words { ty, .. }) = self.read_by(inst);
        let mask = self.scalar(mask);
        let loaded = self.either(
            mask,
            vec![int_type(ty)],
            |lower| match lower.load_lanes_of(inst, kind) {
                Loaded::Shared(at, offset) => {
                    vec![lower.b.load_device(int_type(ty), at, offset)]
                }
                Loaded::Lanes(_) => unreachable!("a uniform load has one place"),
            },
            |lower| vec![lower.b.ins().iconst(int_type(ty), 0)],
        );
        loaded[0]
    }

    /// The element of each lane.
    fn load_parts(&mut self, inst: Inst, kind: AccessKind) -> Vec<cl::Value> {
        let (_, Words { ty, .. }) = self.read_by(inst);
        match self.load_lanes_of(inst, kind) {
            Loaded::Shared(at, offset) => {
                let x = self.b.load_device(int_type(ty), at, offset);
                self.b.splat_parts(ty, x).to_vec()
            }
            Loaded::Lanes(parts) => parts.to_vec(),
        }
    }

    /// The running lanes for which a predicate is true, and whether there are any. Where all lanes
    /// run, the predicate's vectors tell that; bits are only for accesses that need them.
    fn lanes_where(&mut self, pred: Value) -> (Mask, cl::Value) {
        let hits = self.pred_bits(pred);
        let is_whole = self.unless_full().is_none();
        let bits = match is_whole {
            true => self.b.without_others(hits),
            false => {
                let running = self.mask_as_bits();
                self.b.ins().band(hits, running)
            }
        };
        let any = match self.available.subword.get(&pred).cloned() {
            _ if !is_whole || self.decided.in_bits[pred] => bits,
            Some(packed) => self.b.any(&packed),
            None => {
                let parts = self.mask_parts(pred);
                self.b.any(&parts)
            }
        };
        let mask = Mask {
            bits: Some(bits),
            ..Mask::new(MaskClass::Predicate, false)
        };
        (mask, any)
    }

    /// Emits code that runs for these lanes.
    fn for_lanes<T>(&mut self, lanes: Mask, emit: impl FnOnce(&mut Self) -> T) -> T {
        let mask = std::mem::replace(&mut self.mask, lanes);
        let is_general = std::mem::replace(&mut self.node.version.is_general, true);
        let result = emit(self);
        self.node.version.is_general = is_general;
        self.mask = mask;
        result
    }
}
