//! Which lanes run, in the form that their mask's class says.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_ir::Type;
use smallvec::SmallVec;

use crate::decisions::mask_classes::MaskClass;
use crate::lower::Lower;
use crate::ops::{Lanes, Parts, vector_type};

impl Lower<'_, '_> {
    fn mask_variables(&mut self, node: usize) -> SmallVec<[cranelift_frontend::Variable; 8]> {
        if self.vars.masks[node].is_empty() {
            let (n, ty) = if self.decided.counted[node] {
                (1, types::I32)
            } else {
                (self.b.quads(), vector_type(Type::B32))
            };
            self.vars.masks[node] = (0..n).map(|_| self.b.declare_var(ty)).collect();
            self.vars.count += n;
        }
        self.vars.masks[node].clone()
    }

    /// Declares the variables that `clear_masks` defines.
    pub(in crate::lower) fn declare_masks(&mut self) {
        if self.b.lanes == 1 {
            return;
        }
        for node in 0..self.plan.order.nodes.len() {
            if self.decided.classes.arrive[node] == MaskClass::Own(node) {
                self.mask_variables(node);
            }
        }
    }

    /// The lanes of a class in the form in which they are held.
    pub(in crate::lower) fn class_lanes(&mut self, class: MaskClass) -> Lanes {
        if self.mask.is_full && class == self.mask.class {
            let all = self.b.full_bits();
            return Lanes::Bits(self.b.ins().iconst(types::I32, all));
        }
        let node = match class {
            MaskClass::Entry => return Lanes::Bits(self.gang_bits()),
            MaskClass::Lane => return Lanes::Bits(self.lane_bit()),
            MaskClass::Predicate => {
                let bits = self.mask.bits;
                return Lanes::Bits(bits.expect("they are found as bits"));
            }
            MaskClass::Own(node) => node,
        };
        let vars = self.mask_variables(node);
        if self.decided.counted[node] {
            return Lanes::Bits(self.b.use_var(vars[0]));
        }
        Lanes::Parts(self.b.use_vars(&vars))
    }

    /// Lane masks of the node being emitted.
    pub(in crate::lower) fn mask_vectors(&mut self) -> Parts {
        if let Some(parts) = &self.mask.parts {
            return parts.clone();
        }
        if self.mask.is_full {
            let all = self.b.vconst(Type::B32, u64::from(u32::MAX));
            return Parts::from_elem(all, self.b.quads());
        }
        let lanes = self.class_lanes(self.mask.class);
        let parts = self.b.lanes_as_parts(&lanes);
        self.mask.parts = Some(parts.clone());
        parts
    }

    /// The masks of the running lanes, for vectors of `ty`.
    pub(in crate::lower) fn masks_for(&mut self, ty: Type) -> Parts {
        let masks = self.mask_vectors();
        if ty != Type::B64 {
            return masks;
        }
        self.b.widen_lanes(&masks)
    }

    /// The lanes of the node being emitted as bits.
    pub(in crate::lower) fn mask_as_bits(&mut self) -> cl::Value {
        if let Some(bits) = self.mask.bits {
            return bits;
        }
        let lanes = self.class_lanes(self.mask.class);
        let bits = self.b.lanes_as_bits(&lanes);
        self.mask.bits = Some(bits);
        bits
    }

    /// Whether a class has any lanes.
    pub(in crate::lower) fn any_lane(&mut self, class: MaskClass) -> cl::Value {
        match self.class_lanes(class) {
            Lanes::Bits(bits) => bits,
            Lanes::Parts(parts) => self.b.any(&parts),
        }
    }

    /// Lanes, joined with those that are at a node already.
    pub(in crate::lower) fn with_waiting(&mut self, node: usize, lanes: &Lanes) -> Lanes {
        match self.class_lanes(MaskClass::Own(node)) {
            Lanes::Bits(old) => {
                let new = self.b.lanes_as_bits(lanes);
                Lanes::Bits(self.b.ins().bor(old, new))
            }
            Lanes::Parts(old) => {
                let new = self.b.lanes_as_parts(lanes);
                let both = old.iter().zip(&new);
                Lanes::Parts(
                    both.map(|(&old, &new)| self.b.ins().bor(old, new))
                        .collect(),
                )
            }
        }
    }

    /// Whether all lanes of the gang run here: `None` if that is certain, else a condition.
    pub(in crate::lower) fn unless_full(&mut self) -> Option<cl::Value> {
        if self.b.lanes == 1 || self.mask.is_full {
            return None;
        }
        if self.mask.class == MaskClass::Entry {
            return Some(self.gang_is_full());
        }
        if self.mask.full.is_none() {
            let full = match self.class_lanes(self.mask.class) {
                Lanes::Bits(bits) => {
                    let all = self.b.full_bits();
                    self.b.ins().icmp_imm_s(IntCC::Equal, bits, all)
                }
                Lanes::Parts(parts) => {
                    let all = self.b.fold_and(&parts);
                    self.b.ins().vall_true(all)
                }
            };
            self.mask.full = Some(full);
        }
        self.mask.full
    }

    /// Assigns a node's own mask.
    pub(in crate::lower) fn set_mask(&mut self, node: usize, lanes: &Lanes) {
        let vars = self.mask_variables(node);
        if self.decided.counted[node] {
            let bits = self.b.lanes_as_bits(lanes);
            self.b.def_var(vars[0], bits);
            return;
        }
        let parts = self.b.lanes_as_parts(lanes);
        self.b.def_vars(&vars, &parts);
    }

    /// Clears the masks of nodes that can be pending from here on but were not before.
    pub(in crate::lower) fn clear_masks(&mut self, nodes: &[usize]) {
        let (mut bits, mut parts) = (None, None);
        for &node in nodes {
            if self.decided.classes.arrive[node] != MaskClass::Own(node) {
                continue;
            }
            let none = if self.decided.counted[node] {
                bits.get_or_insert_with(|| Lanes::Bits(self.b.ins().iconst(types::I32, 0)))
            } else {
                parts.get_or_insert_with(|| {
                    let zero = self.b.zero_vector(Type::B32);
                    Lanes::Parts(Parts::from_elem(zero, self.b.quads()))
                })
            };
            self.set_mask(node, none);
        }
    }

    /// Whether the lanes of the current mask are all that the gang was entered with: `None` if that
    /// is certain.
    pub(in crate::lower) fn unless_all_entered(&mut self) -> Option<cl::Value> {
        if self.b.lanes == 1 || self.mask.is_full || self.mask.class == MaskClass::Entry {
            return None;
        }
        let bits = self.mask_as_bits();
        let entered = self.gang_bits();
        Some(self.b.ins().icmp(IntCC::Equal, bits, entered))
    }
}
