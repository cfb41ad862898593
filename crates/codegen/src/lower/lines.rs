//! Branches on where lanes lie on a line: a comparison of an affine value with a uniform one.
//!
//! Whether all lanes agree follows from the first and the last. Where they do, the branch is a branch; only a gang that the bound cuts
//! in two needs masks. So in `if (tid < n)` most gangs do all of the body or nothing of it.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Block, CompareOp, Function, Inst, InstData, Terminator, Type, Value, ValueDef};
use ptxjit_passes::vectorize::{Plan, Shape};

use super::Lower;
use super::int::condition;

/// `line op bound`, one result per lane.
#[derive(Copy, Clone)]
pub(super) struct LineCompare {
    pub inst: Inst,
    op: CompareOp,
    line: Value,
    /// Difference from lane to lane, and from the first to the last.
    stride: i64,
    span: i64,
    bound: Value,
}

/// What the first and the last lane tell about the others.
pub(super) struct Agreed {
    /// Whether all lanes agree.
    pub agree: cl::Value,
    /// On what, if so.
    pub taken: cl::Value,
    /// Whether the lanes' line does not wrap.
    pub in_order: cl::Value,
}

/// Comparisons that are only wanted where lanes turn out to differ: nothing but the branch at their block's end uses them.
pub(super) fn sunk_compares(func: &Function, plan: &Plan) -> SecondaryMap<Inst, bool> {
    let mut uses: SecondaryMap<Value, u32> = SecondaryMap::new();
    for data in func.blocks.values() {
        for &inst in &data.insts {
            for arg in func.insts[inst].data.args() {
                uses[arg] += 1;
            }
        }
        data.term.for_each_arg(|arg| uses[arg] += 1);
    }
    let mut sunk = SecondaryMap::new();
    for (block, data) in func.blocks.iter() {
        let Terminator::Brif { cond, .. } = data.term else {
            continue;
        };
        if let Some(compare) = find(func, plan, block, cond) {
            sunk[compare.inst] = uses[cond] == 1;
        }
    }
    sunk
}

/// The comparison behind a block's branch, if it is one that lanes on a line make.
fn find(func: &Function, plan: &Plan, block: Block, cond: Value) -> Option<LineCompare> {
    let ValueDef::Result(inst, _) = func.values[cond].def else {
        return None;
    };
    let InstData::Compare {
        op,
        ty,
        args: [a, b],
    } = func.insts[inst].data
    else {
        return None;
    };
    if !plan.divergent[block] || !func.blocks[block].insts.contains(&inst) {
        return None;
    }
    let most = match ty {
        Type::B32 => i64::from(i32::MAX),
        Type::B64 => i64::MAX,
        Type::B1 | Type::B8 | Type::B16 => return None,
    };
    let (op, line, bound) = match (plan.shapes[a], plan.shapes[b]) {
        (Shape::Affine { .. }, Shape::Uniform) => (op, a, b),
        (Shape::Uniform, Shape::Affine { .. }) => (swapped(op), b, a),
        _ => return None,
    };
    let Shape::Affine {
        stride, fold: None, ..
    } = plan.shapes[line]
    else {
        return None;
    };
    let span = stride.checked_mul(i64::from(plan.gang) - 1)?;
    // With a longer line, a wrap could not be told from the first and last lane.
    (stride != 0 && span.checked_abs()? <= most).then_some(LineCompare {
        inst,
        op,
        line,
        stride,
        span,
        bound,
    })
}

/// The comparison with its operands exchanged.
fn swapped(op: CompareOp) -> CompareOp {
    match op {
        CompareOp::Eq => CompareOp::Eq,
        CompareOp::Ne => CompareOp::Ne,
        CompareOp::Slt => CompareOp::Sgt,
        CompareOp::Sle => CompareOp::Sge,
        CompareOp::Sgt => CompareOp::Slt,
        CompareOp::Sge => CompareOp::Sle,
        CompareOp::Ult => CompareOp::Ugt,
        CompareOp::Ule => CompareOp::Uge,
        CompareOp::Ugt => CompareOp::Ult,
        CompareOp::Uge => CompareOp::Ule,
    }
}

impl Lower<'_, '_> {
    pub(super) fn line_compare(&self, block: Block, cond: Value) -> Option<LineCompare> {
        find(self.func, self.plan, block, cond)
    }

    /// Whether all lanes are known to agree, and then on what; and whether their line does not wrap.
    pub(super) fn lanes_agree(&mut self, compare: LineCompare) -> Agreed {
        let first = self.scalar(compare.line);
        let last = self.b.ins().iadd_imm_s(first, compare.span);
        let bound = self.scalar(compare.bound);
        let (least, most) = if compare.span > 0 {
            (first, last)
        } else {
            (last, first)
        };
        // Lanes whose line wraps are not in order.
        let (in_order, agree, taken) = match compare.op {
            CompareOp::Eq | CompareOp::Ne => {
                let ordered = self.b.ins().icmp(IntCC::SignedLessThanOrEqual, least, most);
                let below = self.b.ins().icmp(IntCC::SignedLessThan, bound, least);
                let above = self.b.ins().icmp(IntCC::SignedGreaterThan, bound, most);
                let outside = self.b.ins().bor(below, above);
                let differ = i64::from(compare.op == CompareOp::Ne);
                (ordered, outside, self.b.ins().iconst(types::I8, differ))
            }
            op => {
                let cc = condition(op);
                let order = if cc == cc.unsigned() {
                    IntCC::UnsignedLessThanOrEqual
                } else {
                    IntCC::SignedLessThanOrEqual
                };
                let ordered = self.b.ins().icmp(order, least, most);
                let at_first = self.b.ins().icmp(cc, first, bound);
                let at_last = self.b.ins().icmp(cc, last, bound);
                let agree = self.b.ins().icmp(IntCC::Equal, at_first, at_last);
                (ordered, agree, at_first)
            }
        };
        Agreed {
            agree: self.b.ins().band(in_order, agree),
            taken,
            in_order,
        }
    }

    /// The lanes for which a comparison holds, as bits. The lanes do not agree if they are `in_order`.
    pub(super) fn line_bits(
        &mut self,
        compare: LineCompare,
        cond: Value,
        in_order: cl::Value,
    ) -> cl::Value {
        let one_by_one = |lower: &mut Self| {
            lower.emit_sunk(compare.inst);
            let conds = lower.mask_parts(cond);
            lower.bits_of(&conds)
        };
        if compare.stride != 1 {
            return one_by_one(self);
        }
        self.either(
            in_order,
            vec![types::I32],
            |lower| vec![lower.count_bits(compare)],
            |lower| vec![one_by_one(lower)],
        )[0]
    }

    /// Lanes at distance one that are in order and do not agree: the bound lies among them.
    fn count_bits(&mut self, compare: LineCompare) -> cl::Value {
        let first = self.scalar(compare.line);
        let bound = self.scalar(compare.bound);
        let below = self.b.ins().isub(bound, first);
        let below = if self.b.func.dfg.value_type(below) == types::I64 {
            self.b.ins().ireduce(types::I32, below)
        } else {
            below
        };
        let one = self.b.ins().iconst(types::I32, 1);
        let at = self.b.ins().ishl(one, below);
        let before = self.b.ins().iadd_imm_s(at, -1);
        match compare.op {
            CompareOp::Eq => at,
            CompareOp::Ne => self.b.ins().bnot(at),
            CompareOp::Slt | CompareOp::Ult => before,
            CompareOp::Sge | CompareOp::Uge => self.b.ins().bnot(before),
            CompareOp::Sle | CompareOp::Ule => self.b.ins().bor(before, at),
            CompareOp::Sgt | CompareOp::Ugt => {
                let up_to = self.b.ins().bor(before, at);
                self.b.ins().bnot(up_to)
            }
        }
    }

    /// Emits a comparison that was left out of its block's instructions.
    pub(super) fn emit_sunk(&mut self, inst: Inst) {
        let result = self.func.insts[inst].results[0];
        if self.sunk[inst] && self.pinned[result].is_none() {
            for q in 0..self.quads {
                self.emit_part(inst, q);
            }
        }
    }
}
