//! Which lanes run: as vectors, or as bits where scalar arithmetic tells.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use cranelift_frontend::FunctionBuilder;
use ptxjit_ir::Type;
use smallvec::SmallVec;

use super::Lower;
use super::values::Parts;
use crate::decisions::mask_classes::MaskClass;

/// A set of lanes of the gang.
#[derive(Clone)]
pub(super) enum Lanes {
    /// Bit i for lane i.
    Bits(cl::Value),
    /// Lane masks.
    Parts(Parts),
}

impl Lower<'_, '_> {
    /// `x` in the lanes of a mask, `y` in the others; with zeros, one `and` or `andnot` suffices.
    pub(super) fn choose(&mut self, mask: cl::Value, x: cl::Value, y: cl::Value) -> cl::Value {
        if self.is_zero(y) {
            self.b.ins().band(x, mask)
        } else if self.is_zero(x) {
            self.b.ins().band_not(y, mask)
        } else {
            self.b.ins().blendv(mask, x, y)
        }
    }

    /// Whether a vector is a constant without a bit set.
    fn is_zero(&self, x: cl::Value) -> bool {
        self.constant_lanes(x).is_some_and(|x| x.to_bits() == 0)
    }

    fn mask_variables(&mut self, node: usize) -> SmallVec<[cranelift_frontend::Variable; 8]> {
        if self.vars.masks[node].is_empty() {
            let (n, ty) = if self.decided.counted[node] {
                (1, types::I32)
            } else {
                (self.quads(), types::I32X4)
            };
            self.vars.masks[node] = (0..n).map(|_| self.b.declare_var(ty)).collect();
            self.vars.count += n;
        }
        self.vars.masks[node].clone()
    }

    /// Declares the variables that `clear_masks` defines.
    pub(super) fn declare_masks(&mut self) {
        if self.lanes == 1 {
            return;
        }
        for node in 0..self.plan.order.nodes.len() {
            if self.decided.classes.arrive[node] == MaskClass::Own(node) {
                self.mask_variables(node);
            }
        }
    }

    /// The lanes of a class in the form in which they are held.
    pub(super) fn class_lanes(&mut self, class: MaskClass) -> Lanes {
        if self.mask.is_full && class == self.mask.class {
            let all = self.full_bits();
            return Lanes::Bits(self.b.ins().iconst(types::I32, all));
        }
        let node = match class {
            MaskClass::Entry => return Lanes::Bits(self.gang_bits()),
            MaskClass::Lane => return Lanes::Bits(self.lane_bit()),
            MaskClass::Own(node) => node,
        };
        let vars = self.mask_variables(node);
        if self.decided.counted[node] {
            return Lanes::Bits(self.b.use_var(vars[0]));
        }
        Lanes::Parts(vars.iter().map(|&var| self.b.use_var(var)).collect())
    }

    pub(super) fn lanes_as_parts(&mut self, lanes: &Lanes) -> Parts {
        match lanes {
            Lanes::Bits(bits) => self.mask_from_bits(*bits),
            Lanes::Parts(parts) => parts.clone(),
        }
    }

    fn lanes_as_bits(&mut self, lanes: &Lanes) -> cl::Value {
        match lanes {
            Lanes::Bits(bits) => *bits,
            Lanes::Parts(parts) => self.bits_of(parts),
        }
    }

    /// Lane masks of the node being emitted.
    pub(super) fn mask_vectors(&mut self) -> Parts {
        if let Some(parts) = &self.mask.parts {
            return parts.clone();
        }
        if self.mask.is_full {
            let all = self.vconst(Type::B32, u64::from(u32::MAX));
            return Parts::from_elem(all, self.quads());
        }
        let lanes = self.class_lanes(self.mask.class);
        let parts = self.lanes_as_parts(&lanes);
        self.mask.parts = Some(parts.clone());
        parts
    }

    /// The lanes of the node being emitted as bits.
    pub(super) fn mask_as_bits(&mut self) -> cl::Value {
        if let Some(bits) = self.mask.bits {
            return bits;
        }
        let lanes = self.class_lanes(self.mask.class);
        let bits = self.lanes_as_bits(&lanes);
        self.mask.bits = Some(bits);
        bits
    }

    /// Whether a class has any lanes.
    pub(super) fn any_lane(&mut self, class: MaskClass) -> cl::Value {
        match self.class_lanes(class) {
            Lanes::Bits(bits) => bits,
            Lanes::Parts(parts) => self.any(&parts),
        }
    }

    /// Lanes, joined with those that are at a node already.
    pub(super) fn with_waiting(&mut self, node: usize, lanes: &Lanes) -> Lanes {
        match self.class_lanes(MaskClass::Own(node)) {
            Lanes::Bits(old) => {
                let new = self.lanes_as_bits(lanes);
                Lanes::Bits(self.b.ins().bor(old, new))
            }
            Lanes::Parts(old) => {
                let new = self.lanes_as_parts(lanes);
                let both = old.iter().zip(&new);
                Lanes::Parts(
                    both.map(|(&old, &new)| self.b.ins().bor(old, new))
                        .collect(),
                )
            }
        }
    }

    /// Lane masks as bits: packed to narrower lanes first, so that one instruction extracts up to
    /// sixteen.
    pub(super) fn bits_of(&mut self, parts: &[cl::Value]) -> cl::Value {
        let halves: Parts = match parts {
            [one] => return self.b.ins().vhigh_bits(types::I32, *one),
            parts => parts
                .chunks(2)
                .map(|pair| self.b.ins().snarrow(pair[0], pair[1]))
                .collect(),
        };
        let bytes: Parts = match halves[..] {
            [one] => return self.b.ins().vhigh_bits(types::I32, one),
            _ => halves
                .chunks(2)
                .map(|pair| self.b.ins().snarrow(pair[0], pair[1]))
                .collect(),
        };
        let low = self.b.ins().vhigh_bits(types::I32, bytes[0]);
        match bytes[..] {
            [_, high] => {
                let high = self.b.ins().vhigh_bits(types::I32, high);
                let high = self.b.ins().ishl_imm_s(high, 16);
                self.b.ins().bor(low, high)
            }
            _ => low,
        }
    }

    /// Bits as lane masks.
    pub(super) fn mask_from_bits(&mut self, bits: cl::Value) -> Parts {
        if self.lanes == 1 {
            return Parts::new();
        }
        let splat = self.b.ins().splat(types::I32X4, bits);
        (0..self.quads())
            .map(|q| {
                let lanes: Vec<u8> = (0..4)
                    .flat_map(|lane| (1u32 << (4 * q + lane)).to_le_bytes())
                    .collect();
                let lane_bits = self.vconst_bytes(types::I32X4, &lanes);
                let set = self.b.ins().band(splat, lane_bits);
                self.b.ins().icmp(IntCC::Equal, set, lane_bits)
            })
            .collect()
    }

    /// Whether all lanes of the gang run here: `None` if that is certain, else a condition.
    pub(super) fn unless_full(&mut self) -> Option<cl::Value> {
        if self.lanes == 1 || self.mask.is_full {
            return None;
        }
        if self.mask.class == MaskClass::Entry {
            return Some(self.gang_is_full());
        }
        if self.mask.full.is_none() {
            let full = match self.class_lanes(self.mask.class) {
                Lanes::Bits(bits) => {
                    let all = self.full_bits();
                    self.b.ins().icmp_imm_s(IntCC::Equal, bits, all)
                }
                Lanes::Parts(parts) => {
                    let all = self.fold_and(&parts);
                    self.b.ins().vall_true(all)
                }
            };
            self.mask.full = Some(full);
        }
        self.mask.full
    }

    pub(super) fn fold_and(&mut self, parts: &[cl::Value]) -> cl::Value {
        self.fold(parts, |b, x, y| b.ins().band(x, y))
    }

    /// Whether any lane of a mask is set.
    pub(super) fn any(&mut self, parts: &[cl::Value]) -> cl::Value {
        let any = self.fold(parts, |b, x, y| b.ins().bor(x, y));
        self.b.ins().vany_true(any)
    }

    /// Reduces several vectors to one: the second half into the first, so that neighbors, which may
    /// share a register, meet last.
    fn fold(
        &mut self,
        parts: &[cl::Value],
        both: fn(&mut FunctionBuilder<'_>, cl::Value, cl::Value) -> cl::Value,
    ) -> cl::Value {
        let mut rest = Parts::from_slice(parts);
        while rest.len() > 1 {
            let left = rest.len().div_ceil(2);
            for at in left..rest.len() {
                rest[at - left] = both(&mut self.b, rest[at - left], rest[at]);
            }
            rest.truncate(left);
        }
        rest[0]
    }

    /// Assigns a node's own mask.
    pub(super) fn set_mask(&mut self, node: usize, lanes: &Lanes) {
        let vars = self.mask_variables(node);
        if self.decided.counted[node] {
            let bits = self.lanes_as_bits(lanes);
            self.b.def_var(vars[0], bits);
            return;
        }
        let parts = self.lanes_as_parts(lanes);
        vars.iter()
            .zip(&parts)
            .for_each(|(&var, &part)| self.b.def_var(var, part));
    }

    /// Clears the masks of nodes that can be pending from here on but were not before.
    pub(super) fn clear_masks(&mut self, nodes: &[usize]) {
        let (mut bits, mut parts) = (None, None);
        for &node in nodes {
            if self.decided.classes.arrive[node] != MaskClass::Own(node) {
                continue;
            }
            let none = if self.decided.counted[node] {
                bits.get_or_insert_with(|| Lanes::Bits(self.b.ins().iconst(types::I32, 0)))
            } else {
                parts.get_or_insert_with(|| {
                    let zero = self.zero_vector(Type::B32);
                    Lanes::Parts(Parts::from_elem(zero, self.quads()))
                })
            };
            self.set_mask(node, none);
        }
    }
}
