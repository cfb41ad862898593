//! Values that products of matrices keep in the frame.

use cranelift_codegen::ir::{self as cl};
use ptxjit_ir::{Block, Type, Value, ValueDef};
use smallvec::SmallVec;

use crate::lower::Lower;
use crate::ops::{Parts, vector_type};

impl Lower<'_, '_> {
    /// Writes a value to its home, for the lanes that run.
    pub(in crate::lower) fn bring_home(&mut self, value: Value) {
        let Some(home) = self.decided.residents.home(value) else {
            return;
        };
        let mut parts = self.parts(value);
        let block: SmallVec<[Block; 1]> = self.node.block.into_iter().collect();
        self.take_from_home_of(value, &block);
        if !self.mask.is_full {
            let ty = self.func.ty(value);
            let mask = self.mask_vectors();
            let old = self.load_home(home, ty);
            parts = self.blend(ty, &mask, &parts, &old);
        }
        self.store_home(home, &parts);
        self.available.at_home.insert(value);
    }

    pub(in crate::lower) fn store_home(&mut self, home: u32, parts: &[cl::Value]) {
        let frame = self.gang_frame();
        self.b.store_own_vectors(parts, frame, home as i32);
    }

    pub(in crate::lower) fn load_home(&mut self, home: u32, ty: Type) -> Parts {
        let frame = self.gang_frame();
        let places = (0..self.b.n_parts(ty)).map(|i| home as i32 + 16 * i as i32);
        places
            .map(|at| self.b.load_own(vector_type(ty), frame, at))
            .collect()
    }

    /// Whether an argument needs no code to become a parameter: they have the same home.
    pub(in crate::lower) fn stays_home(&self, param: Value, arg: Value) -> bool {
        let home = self.decided.residents.home(param);
        home.is_some() && home == self.decided.residents.home(arg) && self.is_at_home(arg)
    }

    /// Whether a value's home holds it. Other nodes find what they use there.
    pub(in crate::lower) fn is_at_home(&self, value: Value) -> bool {
        self.plan.escapes[value]
            || matches!(self.func.values[value].def, ValueDef::Param(..))
            || self.available.at_home.contains(&value)
    }

    /// Before a value's home is written: takes from there what instructions of these blocks need,
    /// which may be emitted later than they stand. Cranelift drops loads without a use.
    pub(in crate::lower) fn take_from_home_of(&mut self, value: Value, blocks: &[Block]) {
        let beside: SmallVec<[_; 4]> = self.decided.residents.used_beside(value, blocks).collect();
        for (other, is_made_here) in beside {
            let is_there = !is_made_here || self.available.at_home.contains(&other);
            if is_there && !self.available.vals.contains_key(&other) {
                self.get(other);
            }
        }
    }
}
