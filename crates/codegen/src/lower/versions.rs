//! Nodes emitted twice: for gangs of which all lanes run, and for others.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_ir::{self as ir, FloatMode, FloatUnaryOp, Inst, InstData, Round};
use ptxjit_vectorize::{AffineInputs, Variability};
use smallvec::SmallVec;

use super::Lower;
use super::values::Val;

/// Nodes with more instructions, times quads, than this are emitted only once.
const MOST_TWICE: usize = 1000;

/// With more other work per access than this, testing the mask at each access costs nothing
/// noticeable.
const MOST_WORK: usize = 32;

/// About how many vector operations an instruction takes.
#[expect(clippy::wildcard_enum_match_arm, reason = "others are one instruction")]
fn work(data: &InstData) -> usize {
    let is_nearest = |mode: FloatMode| mode.round == Round::Rn;
    match *data {
        InstData::FloatUnary { op, .. } => match op {
            FloatUnaryOp::Neg | FloatUnaryOp::Abs | FloatUnaryOp::Copy => 1,
            FloatUnaryOp::CanonicalNan => 2,
            FloatUnaryOp::Sat | FloatUnaryOp::Relu | FloatUnaryOp::RoundInt => 4,
            FloatUnaryOp::Sqrt
            | FloatUnaryOp::RcpApprox
            | FloatUnaryOp::SqrtApprox
            | FloatUnaryOp::RsqrtApprox
            | FloatUnaryOp::SinApprox
            | FloatUnaryOp::CosApprox
            | FloatUnaryOp::Lg2Approx
            | FloatUnaryOp::Ex2Approx
            | FloatUnaryOp::TanhApprox => 16,
        },
        InstData::Fma { mode, .. } if !is_nearest(mode) => 32,
        InstData::FloatBinary { mode, .. } if !is_nearest(mode) => 16,
        InstData::Convert { .. } | InstData::ConvertRs { .. } => 4,
        _ => 1,
    }
}

impl Lower<'_, '_> {
    /// Whether a node's code gets much shorter if accesses need not test which lanes run.
    pub(super) fn wants_two_versions(&self, block: ir::Block, insts: &[Inst]) -> bool {
        let asks = |&inst: &Inst| {
            if let InstData::Load { addr, space, .. } | InstData::Store { addr, space, .. } =
                self.func.insts[inst].data
            {
                match self.plan.variability[addr] {
                    // Inactive lanes are redirected one by one.
                    _ if space == ir::Space::Local => 4,
                    Variability::Varying => 4,
                    Variability::Affine { .. } => 1,
                    Variability::Uniform => 0,
                }
            } else {
                0
            }
        };
        let asked: usize = insts.iter().map(asks).sum();
        let work: usize = insts
            .iter()
            .map(|&inst| work(&self.func.insts[inst].data))
            .sum();
        let pays = work <= MOST_WORK * asked
            || self.plan.affine_inputs[block].is_some()
            || self.has_chains(block, insts);
        if self.mask.is_full && self.plan.affine_inputs[block].is_none() {
            return false;
        }
        self.lanes > 1 && asked > 0 && insts.len() * self.quads() < MOST_TWICE && pays
    }

    /// One version for when all lanes run, one for when some do.
    pub(super) fn emit_two_versions(&mut self, pos: usize, block: ir::Block, insts: &[Inst]) {
        let (all, some) = (self.b.create_block(), self.b.create_block());
        match self.unless_full() {
            Some(full) => self.b.ins().brif(full, all, &[], some, &[]),
            None => self.b.ins().jump(all, &[]),
        };
        self.b.switch_to_block(all);
        let affine_inputs = self.plan.affine_inputs[block].as_ref();
        self.in_full(|lower| {
            if let Some(affine_inputs) = affine_inputs {
                lower.unless_affine(affine_inputs, some);
            }
            lower.node.affine_inputs = affine_inputs;
            lower.emit_body(pos, block, insts);
            lower.node.affine_inputs = None;
        });
        self.b.set_cold_block(some);
        self.b.switch_to_block(some);
        self.in_general(|lower| lower.emit_body(pos, block, insts));
    }

    /// Emits code on a side path that runs only when all lanes do. What follows is for any lanes.
    pub(super) fn in_full<T>(&mut self, emit: impl FnOnce(&mut Self) -> T) -> T {
        self.scoped(|lower| {
            lower.mask.is_full = true;
            let result = emit(lower);
            lower.mask.is_full = false;
            result
        })
    }

    /// Emits code without versions for whole gangs.
    pub(super) fn in_general(&mut self, emit: impl FnOnce(&mut Self)) {
        self.node.is_general = true;
        emit(self);
        self.node.is_general = false;
    }

    /// The guard: goes to `otherwise` unless the inputs are affine as speculated, and holds them so
    /// from there on.
    fn unless_affine(&mut self, affine_inputs: &AffineInputs, otherwise: cl::Block) {
        let mut all: Option<cl::Value> = None;
        let mut held = Vec::new();
        for &(value, variability) in &affine_inputs.inputs {
            let ty = self.func.ty(value);
            let parts = self.parts(value);
            let first = self.extract(ty, &parts, 0);
            let (val, affine) = match variability {
                Variability::Affine { stride, .. } => (
                    Val::Affine(first, stride),
                    self.affine_parts(ty, first, stride),
                ),
                Variability::Uniform | Variability::Varying => {
                    let splat = self.splat(ty, first);
                    (
                        Val::Uniform(first),
                        SmallVec::from_elem(splat, self.n_parts(ty)),
                    )
                }
            };
            for (&part, &want) in parts.iter().zip(&affine) {
                let equal = self.b.ins().icmp(IntCC::Equal, part, want);
                let equal = self.cast_vector(equal, types::I32X4);
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
                Val::Uniform(x) => Val::Uniform(self.cast_scalar(x, self.scalar_type(value))),
                Val::Affine(x, stride) => {
                    Val::Affine(self.cast_scalar(x, self.scalar_type(value)), stride)
                }
                varying @ Val::Varying(_) => varying,
            };
            self.available.splats.remove(&value);
            self.available.vals.insert(value, val);
        }
    }
}
