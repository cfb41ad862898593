//! What instructions on matrices have in common: the lanes of a whole warp exchange values, and
//! each knows its part by its number.

use ptxjit_ir::{InstData, IntBinaryOp, Mma, SpecialReg, Type, Value, WarpOp};
use smallvec::SmallVec;

use crate::diag::Diagnostic;
use crate::translate::{Inst, Translator, Values};

use super::types::PtxType as T;

/// A lane's place in its warp.
#[derive(Copy, Clone)]
pub(super) struct Lane {
    /// Its quad: 0 to 7.
    pub quad: Value,
    /// Its place in the quad: 0 to 3.
    pub within: Value,
}

impl Lane {
    /// The row and the tile of 8x8, where neighboring lanes have the rows of a tile.
    pub(super) fn row_of_tile(self, t: &mut Translator<'_>) -> [Value; 2] {
        let one = t.iconst(Type::B32, 1);
        let odd = t.binary(IntBinaryOp::And, self.quad, one);
        let odd = scaled(t, odd, 4, 0);
        let row = t.binary(IntBinaryOp::Add, odd, self.within);
        [row, t.binary(IntBinaryOp::Ushr, self.quad, one)]
    }
}

/// This thread's lane.
pub(super) fn lane(t: &mut Translator<'_>) -> Lane {
    let sreg = SpecialReg::LaneId;
    let lane = t.ins(InstData::Sreg { sreg }, Type::B32);
    let two = t.iconst(Type::B32, 2);
    let three = t.iconst(Type::B32, 3);
    Lane {
        quad: t.binary(IntBinaryOp::Ushr, lane, two),
        within: t.binary(IntBinaryOp::And, lane, three),
    }
}

/// `value * factor + offset`.
pub(super) fn scaled(t: &mut Translator<'_>, value: Value, factor: u64, offset: u64) -> Value {
    let ty = t.value_ty(value);
    let factor = t.iconst(ty, factor);
    let product = t.binary(IntBinaryOp::Mul, value, factor);
    let offset = t.iconst(ty, offset);
    t.binary(IntBinaryOp::Add, product, offset)
}

/// An operation that all lanes of the warp do together.
fn together(
    t: &mut Translator<'_>,
    op: WarpOp,
    ty: Type,
    args: &[Value],
    results: &[Type],
) -> SmallVec<[Value; 2]> {
    let mut args: SmallVec<[Value; 4]> = SmallVec::from_slice(args);
    args.push(t.iconst(Type::B32, 0xffff_ffff));
    let sync = true;
    t.ins_multi(InstData::Warp { op, sync, ty, args }, results)
}

/// Waits until all lanes of the warp are here.
pub(super) fn wait_for_warp(t: &mut Translator<'_>) {
    let all = t.iconst(Type::B32, u32::MAX.into());
    t.ins_void(InstData::Warp {
        op: WarpOp::AlignedSync,
        sync: true,
        ty: Type::B32,
        args: [all].into_iter().collect(),
    });
}

/// The value of a `B32` in lane `source`, of which the low five bits count.
pub(super) fn from_lane(t: &mut Translator<'_>, value: Value, source: Value) -> Value {
    let clamp = t.iconst(Type::B32, 31);
    let args = [value, source, clamp];
    together(t, WarpOp::ShflIdx, Type::B32, &args, &[Type::B32, Type::B1])[0]
}

/// An 8x8 tile of halves, of which each lane holds two that lie side by side in a row, the other
/// way round.
pub(super) fn transposed(t: &mut Translator<'_>, word: Value) -> Value {
    together(t, WarpOp::Transpose, Type::B32, &[word], &[Type::B32])[0]
}

/// The registers of D, from those of A, B and C, and what is behind them.
pub(super) fn product(
    t: &mut Translator<'_>,
    mma: Mma,
    fragments: [&[Value]; 4],
) -> SmallVec<[Value; 2]> {
    let ty = mma.register();
    let results = vec![ty; mma.d_registers()];
    together(t, WarpOp::Mma(mma), ty, &fragments.concat(), &results)
}

/// The registers of a fragment that is read.
pub(super) fn registers<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    n: usize,
) -> Result<Values, Diagnostic> {
    registers_of(t, inst, n, inst.opd_type(n))
}

/// The same, where the row does not tell their type.
pub(super) fn registers_of<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    n: usize,
    ty: T,
) -> Result<Values, Diagnostic> {
    let Some(operand) = inst.operand(n) else {
        return Err(inst.error(format!("`{}` lacks operand {}", inst.name, n + 1)));
    };
    let elems = t.read_elems(operand, ty)?;
    elems
        .into_iter()
        .map(|elem| elem.ok_or_else(|| inst.operand_error(n, "`_` has no value")))
        .collect()
}
