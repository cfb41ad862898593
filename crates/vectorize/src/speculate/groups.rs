//! Loops over groups of lanes: what is uniform in each group is uniform in the region that the loop
//! surrounds.
//!
//! Where a quotient differs between the lanes of a gang, so does what follows from it, addresses
//! included: lanes that ran the remainder iterations of an unrolled loop are ahead of the others.
//! But there are only two quotients or so. The loop takes the quotient of the first lane that runs,
//! sends the lanes that have the same one through the region, and comes back for the rest.
//!
//! ```text
//! block4: v3 = ushr v2, 8; ...; brif v5, block3(v9), block1        (and more, up to block3)
//! =>
//! block7: v10 = first_running v2; v11 = ushr v10, 8; v12 = shl v11, 8; v13 = isub v2, v12
//!         v14 = ult v13, 256; brif v14, block4, block8(0)
//! block4: ... with v11 in place of v3; brif v5, block8(v9), block1
//! block8(v15): brif v14, block3(v15), block7
//! ```
//!
//! The first lane that runs is always in its own group, so the loop ends. No lane may wait in the
//! region: it would meet lanes of other groups there.

use ptxjit_ir::{
    Block, BlockCall, CompareOp, Function, InstData, IntBinaryOp, SrcLoc, Terminator, Type, Value,
};

use super::clone::any_value;
use super::trip_counts::Quotient;

/// The blocks of such a loop beside the region.
pub(crate) struct GroupLoop {
    pub head: Block,
    pub latch: Block,
}

/// Puts a region into such a loop. `region` are its blocks, the first of them its entry, and `end`
/// is the one that they lead to. Whatever led to the entry has to lead to the loop's head.
pub(crate) fn surround(
    func: &mut Function,
    region: &[Block],
    end: Block,
    quotient: Quotient,
    loc: SrcLoc,
) -> GroupLoop {
    let head = func.new_block();
    let (is_member, of_group) = membership(func, head, quotient, loc);
    for &block in region {
        func.replace_uses(block, func.result(quotient.inst), of_group);
        quotient.compare_in(func, block, of_group);
    }
    let latch = func.new_block();
    func.copy_params(end, latch);
    for &block in region {
        func.redirect(block, end, latch);
    }
    let results = func.blocks[latch].params.clone();
    let any = |&param: &Value| any_value(func, head, func.ty(param));
    let skipped: Vec<Value> = results.iter().map(any).collect();
    let branch = |then_: BlockCall, else_: BlockCall| Terminator::Brif {
        cond: is_member,
        then_,
        else_,
    };
    let to = |block: Block, args: &[Value]| BlockCall {
        block,
        args: args.into(),
    };
    func.blocks[head].term = branch(BlockCall::new(region[0]), to(latch, &skipped));
    func.blocks[latch].term = branch(to(end, &results), BlockCall::new(head));
    func.blocks[head].term_loc = loc;
    func.blocks[latch].term_loc = loc;
    GroupLoop { head, latch }
}

/// Whether a lane has the quotient of the first that runs, and that quotient.
fn membership(func: &mut Function, head: Block, quotient: Quotient, loc: SrcLoc) -> (Value, Value) {
    let Quotient {
        op,
        ty,
        affine,
        divisor,
        ..
    } = quotient;
    let shift = quotient.shift(func);
    let mut put = |data: InstData, ty: Type| func.append(head, data, ty, loc);
    let binary = |op, args| InstData::binary(op, ty, args);
    let compare = |op, args| InstData::compare(op, ty, args);
    let logic = |op, args| InstData::binary(op, Type::B1, args);
    let first = put(InstData::FirstRunning { ty, arg: affine }, ty);
    let of_group = put(binary(op, [first, divisor]), ty);
    let args = [of_group, divisor];
    let (least, width) = match shift {
        Some(count) => {
            let least = put(binary(IntBinaryOp::Shl, args), ty);
            let bits = 1 << count;
            (least, put(InstData::Const { ty, bits }, ty))
        }
        None => (put(binary(IntBinaryOp::Mul, args), ty), divisor),
    };
    let beyond = put(binary(IntBinaryOp::Sub, [affine, least]), ty);
    let is_below = put(compare(CompareOp::Ult, [beyond, width]), Type::B1);
    if shift.is_some() {
        return (is_below, of_group);
    }
    // The numbers of a last, partial interval end before the type's, and all lanes have the same
    // quotient by zero.
    let is_above = put(compare(CompareOp::Uge, [affine, least]), Type::B1);
    let is_inside = put(logic(IntBinaryOp::And, [is_below, is_above]), Type::B1);
    let zero = put(InstData::Const { ty, bits: 0 }, ty);
    let by_zero = put(compare(CompareOp::Eq, [divisor, zero]), Type::B1);
    let is_member = put(logic(IntBinaryOp::Or, [is_inside, by_zero]), Type::B1);
    (is_member, of_group)
}
