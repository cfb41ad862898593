//! Code for gangs of which all lanes run, or whose values are affine as speculated, beside code for
//! any.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder};
use ptxjit_ir::Type;
use ptxjit_vectorize::{AffineInputs, Variability};
use smallvec::SmallVec;

use crate::lower::Lower;
use crate::ops::{Val, vector_type};

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
            let ty = self.func.ty(value);
            let parts = self.parts(value);
            let first = self.b.extract(ty, &parts, 0);
            let (val, affine) = match variability {
                Variability::Affine { stride, .. } => (
                    Val::Affine(first, stride),
                    self.b.affine_parts(ty, first, stride),
                ),
                Variability::Uniform | Variability::Varying => {
                    let splat = self.b.splat(ty, first);
                    (
                        Val::Uniform(first),
                        SmallVec::from_elem(splat, self.b.n_parts(ty)),
                    )
                }
            };
            for (&part, &want) in parts.iter().zip(&affine) {
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
            let val = match val {
                Val::Uniform(x) => Val::Uniform(self.b.cast_scalar(x, self.scalar_type(value))),
                Val::Affine(x, stride) => {
                    Val::Affine(self.b.cast_scalar(x, self.scalar_type(value)), stride)
                }
                varying @ Val::Varying(_) => varying,
            };
            self.available.splats.remove(&value);
            self.available.vals.insert(value, val);
        }
    }
}
