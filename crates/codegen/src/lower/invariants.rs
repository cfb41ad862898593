//! Values that are computed once per CTA or once per gang, and so never saved at a wait.
//!
//! CTA invariants (parameters, `%ntid`, `%ctaid`, and values computed from them) are emitted before
//! the loops over gangs, gang invariants (`%tid` and scalar arithmetic on it) in each of them,
//! before its nodes. Predicates on them that are held as bits are rematerialized where they are
//! used: a kernel has many, one for each step of a tree, and a gang between two waits needs one. So
//! are predicates that only their own block's branch uses, which tests the first and last lane
//! first (`affine_predicates`).

use cranelift_codegen::ir::{self as cl, InstBuilder, MemFlagsData, types};
use cranelift_entity::SecondaryMap;
use ptxjit_ir::{self as ir, Inst, InstData, SharedBy, Space, Terminator, Type, ValueDef};
use ptxjit_vectorize::{SingleLane, Variability};

use super::Lower;
use super::values::Val;
use ptxjit_abi::CtaContext;

/// The loop in which a value is invariant.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Level {
    Cta,
    Gang,
}

/// Definitions are followed this deep.
const DEPTH: u32 = 12;

impl Lower<'_, '_> {
    /// Loads the context's fields that compiled code uses.
    pub(super) fn load_fields(&mut self) {
        let wide = [
            core::mem::offset_of!(CtaContext, params),
            core::mem::offset_of!(CtaContext, map_origin),
            core::mem::offset_of!(CtaContext, symbols),
            core::mem::offset_of!(CtaContext, arena_base),
            core::mem::offset_of!(CtaContext, arena_bits),
            core::mem::offset_of!(CtaContext, shared_base),
            core::mem::offset_of!(CtaContext, const_base),
            core::mem::offset_of!(CtaContext, local_base),
            core::mem::offset_of!(CtaContext, local_stride),
            core::mem::offset_of!(CtaContext, stack_top),
            core::mem::offset_of!(CtaContext, slots),
            core::mem::offset_of!(CtaContext, lane_states),
            core::mem::offset_of!(CtaContext, gang_states),
            core::mem::offset_of!(CtaContext, go_on),
            core::mem::offset_of!(CtaContext, poll),
            core::mem::offset_of!(CtaContext, masks),
            core::mem::offset_of!(CtaContext, tid_x),
            core::mem::offset_of!(CtaContext, tid_y),
            core::mem::offset_of!(CtaContext, tid_z),
            core::mem::offset_of!(CtaContext, junk),
            core::mem::offset_of!(CtaContext, fns),
        ];
        for offset in wide {
            let flags = MemFlagsData::trusted().with_can_move();
            let value = self
                .b
                .ins()
                .load(types::I64, flags, self.cta, offset as i32);
            self.fields.insert(offset, value);
        }
        let bits = self.field(core::mem::offset_of!(CtaContext, arena_bits));
        let one = self.b.ins().iconst(types::I64, 1);
        let size = self.b.ins().ishl(one, bits);
        self.fields
            .insert(core::mem::offset_of!(CtaContext, arena_bits), size);
    }

    /// A 64-bit field of the context; for `arena_bits` the arena's size.
    pub(super) fn field(&self, offset: usize) -> cl::Value {
        self.fields[&offset]
    }

    /// Whether a value is emitted outside of the nodes, if it is used there.
    pub(super) fn is_invariant(&self, value: ir::Value) -> bool {
        self.func.as_const(value).is_some() || self.level(value, DEPTH).is_some()
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "others stay at their uses")]
    fn level(&self, value: ir::Value, depth: u32) -> Option<Level> {
        let depth = depth.checked_sub(1)?;
        let varies = self.plan.variability[value] == Variability::Varying;
        if (varies && !self.in_bits[value]) || self.of_one[value] {
            return None;
        }
        let data = self.func.def_inst(value)?;
        let own = match *data {
            InstData::Sreg { sreg } if sreg.is_volatile() => return None,
            InstData::Sreg { sreg } => match sreg.shared_by() {
                SharedBy::None | SharedBy::Warp => Level::Gang,
                SharedBy::Cta => Level::Cta,
            },
            InstData::Load {
                space: Space::Param,
                n: 1,
                ..
            } => Level::Cta,
            InstData::StateOf { .. } => Level::Cta,
            // A predicate as bits.
            _ if varies => Level::Gang,
            _ if Self::is_pure(data) => Level::Cta,
            _ => return None,
        };
        data.args().iter().try_fold(own, |level, &arg| {
            if self.func.as_const(arg).is_some() {
                Some(level)
            } else {
                Some(level.max(self.level(arg, depth)?))
            }
        })
    }

    pub(super) fn emit_cta_invariants(&mut self) {
        for value in self.wanted(Level::Cta) {
            self.pin(value);
        }
        self.vals.clear();
        self.splats.clear();
        self.reciprocals.clear();
        self.bits.clear();
    }

    /// Lists what is computed at the head of each phase.
    pub(super) fn find_gang_invariants(&mut self) {
        for value in self.wanted(Level::Gang) {
            self.list(value);
        }
        self.find_rematerialized();
    }

    /// Predicates as bits that only their own block's branch uses: it rarely needs them.
    fn find_rematerialized(&mut self) {
        let mut uses: SecondaryMap<ir::Value, u32> = SecondaryMap::new();
        for data in self.func.blocks.values() {
            for &inst in &data.insts {
                let args = self.func.insts[inst].data.args();
                args.into_iter().for_each(|arg| uses[arg] += 1);
            }
            data.term.for_each_arg(|arg| uses[arg] += 1);
        }
        for (block, data) in self.func.blocks.iter() {
            let Terminator::Brif { cond, .. } = data.term else {
                continue;
            };
            if self.plan.single_lane[block] != SingleLane::No {
                continue;
            }
            let mut work = vec![cond];
            while let Some(pred) = work.pop() {
                let ValueDef::Result(inst, _) = self.func.values[pred].def else {
                    continue;
                };
                if self.in_bits[pred] && uses[pred] == 1 && data.insts.contains(&inst) {
                    self.rematerialized[pred] = Some(inst);
                    // Logic on predicates uses them as well.
                    let args = self.func.insts[inst].data.args();
                    work.extend(args.iter().filter(|&&arg| self.func.ty(arg) == Type::B1));
                }
            }
        }
    }

    pub(super) fn emit_gang_invariants(&mut self) {
        for (value, inst) in self.gang_values.clone() {
            self.emit_pinned(inst, value);
            let val = self.vals[&value].clone();
            self.define_variables(value, &val);
        }
    }

    /// The invariants of a level that lanes would have to save otherwise, or that are computed for
    /// all of a CTA anyway.
    fn wanted(&self, level: Level) -> Vec<ir::Value> {
        let mut wanted: Vec<ir::Value> = Vec::new();
        for wait in &self.plan.waits {
            wanted.extend(&wait.live);
        }
        if level == Level::Cta {
            for &inst in &self.func.blocks[self.func.entry].insts {
                wanted.extend(&self.func.insts[inst].results);
            }
        }
        wanted.retain(|&value| {
            self.func.as_const(value).is_none() && self.level(value, DEPTH) == Some(level)
        });
        wanted
    }

    /// Whether a value is emitted ahead of all nodes, or rematerialized where it is used.
    pub(super) fn is_pinned(&self, value: ir::Value) -> bool {
        self.pinned[value].is_some() || self.of_gang[value] || self.rematerialized[value].is_some()
    }

    /// The instruction that defines a value, unless the value is pinned or a constant.
    fn maker(&self, value: ir::Value) -> Option<Inst> {
        if self.is_pinned(value) || self.func.as_const(value).is_some() {
            return None;
        }
        let ValueDef::Result(inst, _) = self.func.values[value].def else {
            unreachable!("parameters are not invariant")
        };
        Some(inst)
    }

    /// Emits a value and its operands here, and pins them.
    fn pin(&mut self, value: ir::Value) {
        let Some(inst) = self.maker(value) else {
            return;
        };
        for arg in self.func.insts[inst].data.args() {
            self.pin(arg);
        }
        self.emit_pinned(inst, value);
        let val = self.vals[&value].clone();
        self.pinned[value] = Some(val);
    }

    /// Lists a value, after its operands, for the heads of phases. Predicates as bits are computed
    /// where they are used.
    fn list(&mut self, value: ir::Value) {
        let Some(inst) = self.maker(value) else {
            return;
        };
        for arg in self.func.insts[inst].data.args() {
            self.list(arg);
        }
        if self.in_bits[value] {
            self.rematerialized[value] = Some(inst);
        } else {
            self.of_gang[value] = true;
            self.gang_values.push((value, inst));
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the rest are pure")]
    fn emit_pinned(&mut self, inst: Inst, value: ir::Value) {
        match self.func.insts[inst].data {
            InstData::Sreg { sreg } => {
                let val = self.sreg(sreg);
                self.vals.insert(value, val);
            }
            InstData::Load {
                ty, addr, offset, ..
            } => {
                let base = self.field(core::mem::offset_of!(CtaContext, params));
                let at = self.scalar(addr);
                let at = if self.b.func.dfg.value_type(at) == types::I64 {
                    at
                } else {
                    self.b.ins().sextend(types::I64, at)
                };
                let at = self.b.ins().iadd(base, at);
                let ty = if self.is_float[value] {
                    self.scalar_type(value)
                } else {
                    super::values::int_type(ty)
                };
                let x = self.b.ins().load(ty, MemFlagsData::new(), at, offset);
                self.vals.insert(value, Val::Uniform(x));
            }
            _ => {
                let args: Vec<cl::Value> = self.func.insts[inst]
                    .data
                    .args()
                    .iter()
                    .map(|&arg| match self.get(arg) {
                        Val::Uniform(x) | Val::Affine(x, _) => x,
                        Val::Varying(_) => unreachable!("invariants are scalars"),
                    })
                    .collect();
                let x = match self.marked_extension(inst) {
                    Some(x) => x,
                    None => self.scalar_op(&self.func.insts[inst].data, &args),
                };
                let x = self.cast_scalar(x, self.scalar_type(value));
                let val = match self.plan.variability[value] {
                    Variability::Affine { stride, .. } => Val::Affine(x, stride),
                    Variability::Uniform | Variability::Varying => Val::Uniform(x),
                };
                self.vals.insert(value, val);
            }
        }
    }
}
