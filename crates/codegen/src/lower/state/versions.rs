//! Code for gangs of which all lanes run, or whose values are affine as speculated, beside code for
//! any.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder};
use ptxjit_ir::{Type, Value};
use ptxjit_vectorize::{AffineInputs, Variability};

use crate::lower::Lower;
use crate::ops::{Parts, Val, vector_type};

impl Lower<'_, '_> {
    /// Emits code on a side path that runs only when all lanes do. What follows is for any lanes.
    pub(in crate::lower) fn in_full<T>(&mut self, emit: impl FnOnce(&mut Self) -> T) -> T {
        self.scoped(|lower| {
            lower.mask.is_full = true;
            let result = emit(lower);
            lower.mask.is_full = false;
            result
        })
    }

    /// The guard: goes to `otherwise` unless the inputs are affine as speculated, and holds them so
    /// from there on.
    pub(in crate::lower) fn unless_affine(
        &mut self,
        affine_inputs: &AffineInputs,
        otherwise: cl::Block,
    ) {
        let mut all: Option<cl::Value> = None;
        let mut held = Vec::new();
        for &(value, variability) in &affine_inputs.inputs {
            let parts = self.parts(value);
            let (val, wanted) = self.speculated_parts(value, &parts, variability);
            for (&part, &want) in parts.iter().zip(&wanted) {
                let equal = self.b.ins().icmp(IntCC::Equal, part, want);
                let equal = self.b.cast_vector(equal, vector_type(Type::B32));
                all = Some(match all {
                    None => equal,
                    Some(all) => self.b.ins().band(all, equal),
                });
            }
            held.push((value, val));
        }
        let all = all.expect("only blocks with inputs to test come here");
        let all = self.b.ins().vall_true(all);
        let go_on = self.b.create_block();
        self.b.ins().brif(all, go_on, &[], otherwise, &[]);
        self.b.switch_to_block(go_on);
        for (value, val) in held {
            let val = self.cast_val(value, val);
            self.available.splats.remove(&value);
            self.available.vals.insert(value, val);
        }
    }

    /// A value in the form that was speculated, by its first lane, and what its vectors are then.
    fn speculated_parts(
        &mut self,
        value: Value,
        parts: &[cl::Value],
        variability: Variability,
    ) -> (Val, Parts) {
        let ty = self.func.ty(value);
        let first = self.b.extract(ty, parts, 0);
        if let Variability::Affine { stride, .. } = variability {
            let affine = self.b.affine_parts(ty, first, stride);
            return (Val::Affine(first, stride), affine);
        }
        (Val::Uniform(first), self.b.splat_parts(ty, first))
    }
}
