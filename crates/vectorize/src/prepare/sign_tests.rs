//! Splits tests of the signs of several values at once.
//!
//! Compilers test `x >= 0 && y >= 0` by one comparison of `x | y` with zero. Where one of the two
//! is affine or uniform, the bitwise operation makes a vector of it, and with it a vector
//! comparison, while its own sign is a test of the first and the last lane.
//!
//! ```text
//! v3 = or v1, v2; v4 = slt v3, 0
//! =>
//! v5 = slt v1, 0; v6 = slt v2, 0; v4 = or v5, v6
//! ```

use ptxjit_ir::{Block, CompareOp, Function, Inst, InstData, IntBinaryOp, Type, Value};
use ptxjit_passes::transform::dce;

use crate::analysis::divergence::Divergence;

/// A comparison that tells the sign of `a | b` or `a & b`.
struct SignTest {
    op: CompareOp,
    ty: Type,
    args: [Value; 2],
    bound: Value,
    /// How the signs of both make the result.
    joined: IntBinaryOp,
}

/// Returns how many tests were split.
pub(crate) fn run(func: &mut Function, optimistic: &Divergence) -> usize {
    let is_vector = |value: Value| optimistic.may_vary(value);
    let mut n_split = 0;
    for block in func.blocks.keys().collect::<Vec<Block>>() {
        let mut idx = 0;
        while idx < func.blocks[block].insts.len() {
            let inst = func.blocks[block].insts[idx];
            match sign_test(func, inst) {
                // Splitting a test of two vectors would only add a comparison.
                Some(test) if !test.args.into_iter().all(is_vector) => {
                    split(func, block, idx, &test);
                    n_split += 1;
                    // An operand of the new comparisons may be a bitwise operation, too.
                }
                _ => idx += 1,
            }
        }
    }
    // Otherwise the bitwise operations would go on making vectors.
    if n_split > 0 {
        dce::run(func);
    }
    n_split
}

fn sign_test(func: &Function, inst: Inst) -> Option<SignTest> {
    let (op, ty, [tested, bound]) = func.insts[inst].data.as_compare()?;
    let at = func.as_const(bound)? & ty.mask();
    let is_negative = match op {
        CompareOp::Slt if at == 0 => true,
        CompareOp::Sle if at == ty.mask() => true,
        CompareOp::Sge if at == 0 => false,
        CompareOp::Sgt if at == ty.mask() => false,
        CompareOp::Eq
        | CompareOp::Ne
        | CompareOp::Slt
        | CompareOp::Sle
        | CompareOp::Sgt
        | CompareOp::Sge
        | CompareOp::Ult
        | CompareOp::Ule
        | CompareOp::Ugt
        | CompareOp::Uge => return None,
    };
    let (joined, args) = match func.as_binary(tested)? {
        (joined @ (IntBinaryOp::And | IntBinaryOp::Or), _, args) if is_negative => (joined, args),
        (IntBinaryOp::And, _, args) => (IntBinaryOp::Or, args),
        (IntBinaryOp::Or, _, args) => (IntBinaryOp::And, args),
        _ => return None,
    };
    Some(SignTest {
        op,
        ty,
        args,
        bound,
        joined,
    })
}

/// Replaces the instruction at `idx` by two comparisons and what joins them.
fn split(func: &mut Function, block: Block, idx: usize, test: &SignTest) {
    let inst = func.blocks[block].insts[idx];
    let loc = func.insts[inst].loc;
    let signs = test.args.map(|arg| {
        let sign = InstData::compare(test.op, test.ty, [arg, test.bound]);
        func.make_inst(sign, &[Type::B1], loc)
    });
    let args = signs.map(|sign| func.result(sign));
    func.insts[inst].data = InstData::binary(test.joined, Type::B1, args);
    func.blocks[block].insts.splice(idx..idx, signs);
}
