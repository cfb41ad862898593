//! Tests whether any lane of a mask is set, or each.
//!
//! A mask of several vectors is folded into one, and that is tested. If the last two that are
//! folded are the halves of a pair, the test takes both at once instead. So does what makes bits of
//! the bytes of two vectors.

use cranelift_codegen::ir::{Function, Inst, InstructionData, Opcode, Value, ValueDef, types};

use crate::clif::{self, count_uses};

/// A test of two vectors that are folded into one for it, and for nothing else.
#[derive(Copy, Clone, Debug)]
pub(super) struct Test {
    pub fold: Inst,
    pub test: Inst,
    /// The branch on it: the only user of the result, behind it in the same block.
    pub branch: Inst,
    pub halves: [Value; 2],
}

/// The high bits of the bytes of two vectors, put together.
#[derive(Copy, Clone, Debug)]
pub(super) struct Bits {
    /// What takes the bits of the first half and of the second, and what puts them together.
    pub of: [Inst; 2],
    pub both: Inst,
    pub halves: [Value; 2],
}

/// The bits of two vectors that a function puts together.
pub(super) fn find_bits(func: &Function) -> Vec<Bits> {
    let insts = clif::insts(func);
    let mut all: Vec<Bits> = insts.filter_map(|inst| bits_of(func, inst)).collect();
    if !all.is_empty() {
        let n_uses = count_uses(func);
        let parts = |bits: &Bits| {
            let shifted = func.dfg.resolve_aliases(func.dfg.inst_args(bits.both)[1]);
            [
                func.dfg.first_result(bits.of[0]),
                func.dfg.first_result(bits.of[1]),
                shifted,
            ]
        };
        all.retain(|bits| parts(bits).into_iter().all(|part| n_uses[part] == 1));
    }
    all
}

fn bits_of(func: &Function, both: Inst) -> Option<Bits> {
    let dfg = &func.dfg;
    let block = func.layout.inst_block(both);
    let maker = |value: Value, opcode: Opcode| match dfg.value_def(dfg.resolve_aliases(value)) {
        ValueDef::Result(inst, 0) if func.layout.inst_block(inst) == block => {
            (dfg.insts[inst].opcode() == opcode).then_some(inst)
        }
        ValueDef::Result(..) | ValueDef::Param(..) | ValueDef::Union(..) => None,
    };
    let InstructionData::Binary {
        opcode: Opcode::Bor,
        args: [low, high],
    } = dfg.insts[both]
    else {
        return None;
    };
    let low = maker(low, Opcode::VhighBits)?;
    let [high, count] = *dfg.inst_args(maker(high, Opcode::Ishl)?) else {
        return None;
    };
    let (high, count) = (
        maker(high, Opcode::VhighBits)?,
        maker(count, Opcode::Iconst)?,
    );
    let halves = [low, high].map(|inst| dfg.resolve_aliases(dfg.inst_args(inst)[0]));
    let are_bytes = halves
        .iter()
        .all(|&half| dfg.value_type(half) == types::I8X16);
    let by_sixteen =
        matches!(dfg.insts[count], InstructionData::UnaryImm { imm, .. } if imm.bits() == 16);
    (are_bytes && by_sixteen).then_some(Bits {
        of: [low, high],
        both,
        halves,
    })
}

/// All tests of a function.
pub(super) fn find(func: &Function) -> Vec<Test> {
    let last_insts = || {
        let blocks = func.layout.blocks();
        blocks.filter_map(|block| func.layout.last_inst(block))
    };
    let mut tests: Vec<Test> = last_insts()
        .filter_map(|branch| test_of(func, branch))
        .collect();
    if tests.is_empty() {
        return tests;
    }
    let n_uses = count_uses(func);
    let has_one_use = |inst: Inst| n_uses[func.dfg.first_result(inst)] == 1;
    tests.retain(|test| has_one_use(test.fold) && has_one_use(test.test));
    tests
}

/// The test that a branch depends on, if it is one of two vectors.
#[expect(clippy::wildcard_enum_match_arm, reason = "the enum is Cranelift's")]
fn test_of(func: &Function, branch: Inst) -> Option<Test> {
    let dfg = &func.dfg;
    let block = func.layout.inst_block(branch);
    let maker = |value: Value| match dfg.value_def(dfg.resolve_aliases(value)) {
        ValueDef::Result(inst, 0) if func.layout.inst_block(inst) == block => Some(inst),
        ValueDef::Result(..) | ValueDef::Param(..) | ValueDef::Union(..) => None,
    };
    let InstructionData::Brif { arg, .. } = dfg.insts[branch] else {
        return None;
    };
    let test = maker(arg)?;
    let fold_by = match dfg.insts[test].opcode() {
        Opcode::VanyTrue => Opcode::Bor,
        Opcode::VallTrue => Opcode::Band,
        _ => return None,
    };
    let fold = maker(dfg.inst_args(test)[0])?;
    let InstructionData::Binary { opcode, args } = dfg.insts[fold] else {
        return None;
    };
    let halves = args.map(|arg| dfg.resolve_aliases(arg));
    // An access belongs to a line of the PTX, which the branch's location could not record.
    let is_loaded = |value: Value| match dfg.value_def(value) {
        ValueDef::Result(inst, _) => dfg.insts[inst].opcode().can_load(),
        ValueDef::Param(..) | ValueDef::Union(..) => false,
    };
    (opcode == fold_by && !halves.into_iter().any(is_loaded)).then_some(Test {
        fold,
        test,
        branch,
        halves,
    })
}
