//! Constant folding and algebraic simplification, one instruction at a time.
//!
//! **Needs**: nothing. **Ensures**: no pure instruction has only constant operands (approximations
//! apart, see `fold`); constants are right operands and gather at the end of 64-bit sums; addresses
//! name their state space where it is known. Values keep their bits, but for NaN payloads of
//! arithmetic.
//!
//! How: blocks in reverse post-order, so operands are simple before their users. Rules are in one
//! file per family; each looks at an operation and its operands' definitions and gives a value that
//! exists already or a simpler operation, which is looked at again.
//!
//! ```text
//! v2 = imul.b32 v0, v1(= 8); v4 = iadd.b32 v2, v3(= 0); ret v4
//!   ==>   v2 = shl.b32 v0, v5(= 3); ret v2
//! ```

use ptxjit_ir::{
    Effect, FloatBinaryOp, FloatUnaryOp, Function, Inst, InstData, Space, SrcLoc, Type, Value, eval,
};

use crate::analysis::cfg;
use crate::transform::rewrite::Aliases;

mod address;
mod bits;
mod compare;
mod dot;
mod float;
mod int;
mod known;
mod logic;
mod quotient;
mod sums;

pub use known::possible_in as possible_bits;

/// Runs the pass; says whether something changed.
pub fn run(func: &mut Function) -> bool {
    let cfg = cfg::run(func);
    let mut aliases = Aliases::new();
    let mut changed = false;
    for &block in &cfg.rpo {
        let insts = std::mem::take(&mut func.blocks[block].insts);
        let mut ctx = Ctx {
            func,
            out: Vec::with_capacity(insts.len()),
            loc: SrcLoc::default(),
        };
        for inst in insts {
            changed |= ctx.visit(inst, &mut aliases);
        }
        let out = ctx.out;
        func.blocks[block].insts = out;
        aliases.apply_to_end(func, block);
    }
    aliases.apply(func);
    changed
}

/// What a rule found.
enum Found {
    /// The result is this value.
    Value(Value),
    /// The result is a constant.
    Const(u64),
    /// This gives the same result.
    Inst(InstData),
}

/// The function, and the block being rewritten.
struct Ctx<'f> {
    func: &'f mut Function,
    out: Vec<Inst>,
    loc: SrcLoc,
}

/// How often one instruction is looked at again: more than any chain of rules needs.
const MAX_STEPS: u32 = 16;

impl Ctx<'_> {
    /// Simplifies an instruction and appends it if its results are still needed from it.
    fn visit(&mut self, inst: Inst, aliases: &mut Aliases) -> bool {
        for arg in self.func.insts[inst].data.args_mut() {
            *arg = aliases.resolve(*arg);
        }
        self.loc = self.func.insts[inst].loc;
        let data = &self.func.insts[inst].data;
        if data.effect() != Effect::Pure {
            let new = self.memory(data.clone());
            let changed = new.is_some();
            if let Some(new) = new {
                self.func.insts[inst].data = new;
            }
            self.out.push(inst);
            return changed;
        }
        let &[result] = self.func.insts[inst].results.as_slice() else {
            unreachable!("pure ops have one result")
        };
        let before = data.clone();
        match self.reduce(before.clone(), self.func.ty(result)) {
            Ok(value) => {
                aliases.set(result, value);
                true
            }
            Err(data) => {
                let changed = data != before;
                self.func.insts[inst].data = data;
                self.out.push(inst);
                changed
            }
        }
    }

    /// Applies rules until none fits: gives a value that exists, or what is left to compute.
    fn reduce(&mut self, mut data: InstData, ty: Type) -> Result<Value, InstData> {
        for _ in 0..MAX_STEPS {
            match self.fold(&data).or_else(|| self.step(&data)) {
                Some(Found::Value(value)) => return Ok(value),
                Some(Found::Const(bits)) => {
                    return Err(InstData::Const {
                        ty,
                        bits: bits & ty.mask(),
                    });
                }
                Some(Found::Inst(next)) => data = next,
                None => break,
            }
        }
        Err(data)
    }

    /// One rule.
    #[expect(clippy::wildcard_enum_match_arm, reason = "others have no rule")]
    fn step(&mut self, data: &InstData) -> Option<Found> {
        match *data {
            InstData::IntUnary { op, ty, arg } => int::unary(self, op, ty, arg),
            InstData::IntBinary { op, ty, args } => int::binary(self, op, ty, args),
            InstData::IntTernary { op, ty, args } => {
                bits::ternary(self, op, ty, args).or_else(|| dot::product(self, op, args))
            }
            InstData::Lop3 { lut, args } => logic::lop3(self, lut, args),
            InstData::Resize { op, from, to, arg } => bits::resize(self, op, from, to, arg),
            InstData::Compare { op, ty, args } => compare::compare(self, op, ty, args),
            InstData::Select { ty, cond, args } => compare::select(self, ty, cond, args),
            InstData::FloatUnary { op, fmt, mode, arg } => float::unary(self, op, fmt, mode, arg),
            InstData::FloatBinary {
                op,
                fmt,
                mode,
                args,
            } => float::binary(self, op, fmt, mode, args),
            InstData::Convert { cvt, arg } => float::convert(self, cvt, arg),
            InstData::ToGeneric { space, arg } => address::to_generic(self, space, arg),
            InstData::FromGeneric { space, arg } => address::from_generic(self, space, arg),
            InstData::IsSpace { space, arg } => address::is_space(self, space, arg),
            _ => None,
        }
    }

    /// Accesses through generic addresses of a known state space become accesses to that space.
    #[expect(clippy::wildcard_enum_match_arm, reason = "callers pass accesses")]
    fn memory(&mut self, mut data: InstData) -> Option<InstData> {
        let (fits, space, addr): (fn(Space) -> bool, _, _) = match &mut data {
            InstData::Load { space, addr, .. } => (|_| true, space, addr),
            InstData::Store { space, addr, .. } => (|space| !space.is_read_only(), space, addr),
            // There are no atomics on other windows.
            InstData::Atomic { space, addr, .. } => (
                |space| matches!(space, Space::Shared | Space::SharedCluster),
                space,
                addr,
            ),
            _ => return None,
        };
        if *space != Space::Generic {
            return None;
        }
        let known = address::window(self, *addr).filter(|&known| fits(known))?;
        *addr = address::in_window(self, *addr);
        *space = known;
        Some(data)
    }

    /// The result, if all operands are constants.
    fn fold(&self, data: &InstData) -> Option<Found> {
        let args = data.args();
        if args.is_empty() || is_approximate(data) {
            return None;
        }
        let mut bits = [0; 4];
        for (bits, &arg) in bits.iter_mut().zip(&args) {
            *bits = self.func.as_const(arg)?;
        }
        eval::inst(data, bits.get(..args.len())?).map(Found::Const)
    }

    /// Appends an operation, simplified.
    fn emit(&mut self, data: InstData, ty: Type) -> Value {
        match self.reduce(data, ty) {
            Ok(value) => value,
            Err(data) => {
                let inst = self.func.make_inst(data, &[ty], self.loc);
                self.out.push(inst);
                self.func.insts[inst].results[0]
            }
        }
    }

    /// Appends a constant.
    fn constant(&mut self, ty: Type, bits: u64) -> Value {
        self.emit(
            InstData::Const {
                ty,
                bits: bits & ty.mask(),
            },
            ty,
        )
    }

    /// The definition of a value, copied.
    fn def(&self, value: Value) -> Option<InstData> {
        match self.func.def_inst(value) {
            // Stores and calls are never looked through, and are dear to copy.
            Some(data) if data.effect() == Effect::Pure => Some(data.clone()),
            _ => None,
        }
    }

    fn as_const(&self, value: Value) -> Option<u64> {
        self.func.as_const(value)
    }
}

/// Approximations are left to run time, where all threads get the same bits: folding might round
/// differently from vector code.
#[expect(clippy::wildcard_enum_match_arm, reason = "others are exact")]
fn is_approximate(data: &InstData) -> bool {
    match data {
        InstData::FloatUnary { op, .. } => match op {
            FloatUnaryOp::RcpApprox
            | FloatUnaryOp::SqrtApprox
            | FloatUnaryOp::RsqrtApprox
            | FloatUnaryOp::SinApprox
            | FloatUnaryOp::CosApprox
            | FloatUnaryOp::Lg2Approx
            | FloatUnaryOp::Ex2Approx
            | FloatUnaryOp::TanhApprox => true,
            FloatUnaryOp::Neg
            | FloatUnaryOp::Abs
            | FloatUnaryOp::Sat
            | FloatUnaryOp::Relu
            | FloatUnaryOp::Copy
            | FloatUnaryOp::CanonicalNan
            | FloatUnaryOp::RoundInt
            | FloatUnaryOp::Sqrt => false,
        },
        InstData::FloatBinary { op, .. } => {
            matches!(op, FloatBinaryOp::DivApprox | FloatBinaryOp::DivFull)
        }
        _ => false,
    }
}
