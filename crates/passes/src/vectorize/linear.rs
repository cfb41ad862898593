//! Varying values that are lane-linear unless an index wrapped.
//!
//! A 32-bit affine index that is extended to 64 bits stays affine only if no lane wraps, and that is not known before the kernel
//! runs. Such a value is varying; but as at most one wrap can occur among a gang's lanes, its first and last lane tell
//! whether it did: a test that is much cheaper than an access lane by lane.

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Function, InstData, IntBinaryOp, ResizeOp, Type, Value};

use super::order::Node;
use super::{Order, Shape};

/// For each varying `B64` value of that kind, the difference from lane to lane.
pub(super) fn run(
    func: &Function,
    order: &Order,
    shapes: &SecondaryMap<Value, Shape>,
    merged: &SecondaryMap<Value, bool>,
) -> SecondaryMap<Value, Option<i64>> {
    let mut ctx = Ctx {
        func,
        shapes,
        linear: SecondaryMap::new(),
    };
    // A parameter is taken for linear as soon as one argument is; those with other arguments are withdrawn afterwards.
    loop {
        let mut changed = false;
        for node in &order.nodes {
            let Node::Block(block) = *node else { continue };
            for &inst in &func.blocks[block].insts {
                if let &[result] = &func.insts[inst].results[..]
                    && shapes[result] == Shape::Varying
                    && ctx.linear[result].is_none()
                {
                    ctx.linear[result] = ctx.result(&func.insts[inst].data);
                    changed |= ctx.linear[result].is_some();
                }
            }
            for call in func.blocks[block].term.targets() {
                for (&param, &arg) in func.blocks[call.block].params.iter().zip(&call.args) {
                    let open = shapes[param] == Shape::Varying
                        && !merged[param]
                        && ctx.linear[param].is_none();
                    if open && ctx.linear[arg].is_some() {
                        ctx.linear[param] = ctx.linear[arg];
                        changed = true;
                    }
                }
            }
        }
        if !changed {
            break;
        }
    }
    ctx.withdraw(order);
    ctx.linear
}

struct Ctx<'a> {
    func: &'a Function,
    shapes: &'a SecondaryMap<Value, Shape>,
    linear: SecondaryMap<Value, Option<i64>>,
}

impl Ctx<'_> {
    fn result(&self, data: &InstData) -> Option<i64> {
        match *data {
            InstData::Resize {
                op: ResizeOp::Sext | ResizeOp::Uext,
                from: Type::B32,
                to: Type::B64,
                arg,
            } => match self.shapes[arg] {
                Shape::Affine { stride, .. } if stride.unsigned_abs() < 1 << 24 => Some(stride),
                _ => None,
            },
            InstData::IntBinary {
                op: IntBinaryOp::SmulWide | IntBinaryOp::UmulWide,
                ty: Type::B32,
                args: [a, b],
            } => {
                let factor = self.func.as_const(b).filter(|&factor| factor < 1 << 24)?;
                match self.shapes[a] {
                    Shape::Affine { stride, .. } if stride.unsigned_abs() < 1 << 24 => {
                        Some(stride * factor as i64)
                    }
                    _ => None,
                }
            }
            InstData::IntBinary {
                op: IntBinaryOp::Add,
                ty: Type::B64,
                args: [a, b],
            } => match (self.linear[a], self.fixed(b), self.linear[b], self.fixed(a)) {
                (Some(linear), Some(fixed), _, _) | (_, _, Some(linear), Some(fixed)) => {
                    Some(linear.wrapping_add(fixed))
                }
                _ => None,
            },
            InstData::IntBinary {
                op: IntBinaryOp::Sub,
                ty: Type::B64,
                args: [a, b],
            } => Some(self.linear[a]?.wrapping_sub(self.fixed(b)?)),
            InstData::IntBinary {
                op: IntBinaryOp::Shl,
                ty: Type::B64,
                args: [a, b],
            } => {
                let count = self.func.as_const(b).filter(|&count| count < 16)?;
                Some(self.linear[a]? << count)
            }
            InstData::IntBinary {
                op: IntBinaryOp::Mul,
                ty: Type::B64,
                args: [a, b],
            } => {
                let factor = self.func.as_const(b).filter(|&factor| factor < 1 << 16)?;
                Some(self.linear[a]? * factor as i64)
            }
            _ => None,
        }
    }

    /// The stride of a uniform or affine value.
    fn fixed(&self, value: Value) -> Option<i64> {
        match self.shapes[value] {
            Shape::Uniform => Some(0),
            Shape::Affine { stride, .. } => Some(stride),
            Shape::Varying => None,
        }
    }

    /// Withdraws parameters with an argument of another stride, until all that are left agree.
    fn withdraw(&mut self, order: &Order) {
        loop {
            let mut changed = false;
            for node in &order.nodes {
                let Node::Block(block) = *node else { continue };
                for &inst in &self.func.blocks[block].insts {
                    if let &[result] = &self.func.insts[inst].results[..]
                        && self.linear[result].is_some()
                        && self.linear[result] != self.result(&self.func.insts[inst].data)
                    {
                        self.linear[result] = None;
                        changed = true;
                    }
                }
                for call in self.func.blocks[block].term.targets() {
                    for (&param, &arg) in self.func.blocks[call.block].params.iter().zip(&call.args)
                    {
                        if self.linear[param].is_some() && self.linear[arg] != self.linear[param] {
                            self.linear[param] = None;
                            changed = true;
                        }
                    }
                }
            }
            if !changed {
                return;
            }
        }
    }
}
