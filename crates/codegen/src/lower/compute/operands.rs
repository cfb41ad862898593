//! Operands of pure instructions, and instructions without a vector form.

use cranelift_codegen::ir::{self as cl};
use ptxjit_ir::{self as ir, InstData, Type};
use ptxjit_vectorize::Variability;
use smallvec::SmallVec;

use crate::lower::Lower;
use crate::ops::{Quad, Val};

impl Lower<'_, '_> {
    /// Quad `q` of a value: one vector, or two at 64 bits.
    pub(in crate::lower) fn quad(&mut self, value: ir::Value, q: usize) -> Quad {
        let n = 1 + usize::from(self.func.ty(value) == Type::B64);
        if let Some(Val::Varying(parts)) = self.available.vals.get(&value) {
            return parts[q * n..(q + 1) * n].iter().copied().collect();
        }
        let parts = self.parts(value);
        parts[q * n..(q + 1) * n].iter().copied().collect()
    }

    /// The scalar in whatever register class it is in.
    pub(super) fn any_scalar(&mut self, value: ir::Value) -> cl::Value {
        match self.get(value) {
            Val::Uniform(x) | Val::Affine(x, _) => x,
            Val::Varying(_) => unreachable!("{value} is varying where a scalar is wanted"),
        }
    }

    /// Emits an instruction for the four lanes of a quad one after the other.
    pub(super) fn by_lane(&mut self, data: &InstData, ty: Type, q: usize) -> Quad {
        let args: SmallVec<[(Type, Quad); 4]> = data
            .args()
            .iter()
            .map(|&arg| (self.func.ty(arg), self.quad(arg, q)))
            .collect();
        let uniform: SmallVec<[Option<cl::Value>; 4]> = data
            .args()
            .iter()
            .map(|&arg| match self.variability(arg) {
                Variability::Uniform => Some(self.any_scalar(arg)),
                Variability::Affine { .. } | Variability::Varying => None,
            })
            .collect();
        let lanes: SmallVec<[cl::Value; 4]> = (0..4)
            .map(|lane| {
                let lane_args: SmallVec<[cl::Value; 4]> = args
                    .iter()
                    .zip(&uniform)
                    .map(|((ty, quad), uniform)| {
                        uniform.unwrap_or_else(|| self.b.extract(*ty, quad, lane))
                    })
                    .collect();
                self.scalar_op(data, &lane_args)
            })
            .collect();
        self.b.collect(ty, &lanes).into_iter().collect()
    }
}
