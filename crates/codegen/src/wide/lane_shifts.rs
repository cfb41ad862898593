//! Shifts of 32-bit lanes by a count for each.
//!
//! Cranelift has no such instructions, and AVX2 does. Instructions of the same form that nothing
//! else here uses stand for them, and differ in the opcode alone, which is put in after
//! compilation. A count of 32 or more gives what PTX wants (PTX ISA, `shl` and `shr`).

use cranelift_codegen::CompiledCode;
use cranelift_codegen::ir::{
    Endianness, Function, InstBuilder, MemFlagsData, Opcode, Type, Value, types,
};
use cranelift_frontend::FunctionBuilder;
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic as M};

use super::{blocks, ymm};
use crate::clif;

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Shift {
    Left,
    Right,
    SignedRight,
}

/// Shifts each lane by its own count. The host must have AVX2, and the code must go through
/// [`put_in`].
pub(crate) fn emit(b: &mut FunctionBuilder<'_>, shift: Shift, x: Value, counts: Value) -> Value {
    let cast = |b: &mut FunctionBuilder<'_>, value: Value, ty: Type| {
        let flags = MemFlagsData::new().with_endianness(Endianness::Little);
        b.ins().bitcast(ty, flags, value)
    };
    let operands = match shift {
        Shift::Left | Shift::SignedRight => types::I16X8,
        Shift::Right => types::I8X16,
    };
    let [x, counts] = [x, counts].map(|value| cast(b, value, operands));
    let shifted = match shift {
        Shift::Left => b.ins().x86_pmulhrsw(x, counts),
        // The operands of this one change places in the machine instruction.
        Shift::Right => b.ins().x86_pmaddubsw(counts, x),
        Shift::SignedRight => b.ins().iadd_pairwise(x, counts),
    };
    cast(b, shifted, types::I32X4)
}

/// Whether an operation stands for a shift.
pub(crate) fn is_stand_in(opcode: Opcode, ty: Type) -> bool {
    matches!(opcode, Opcode::X86Pmulhrsw | Opcode::X86Pmaddubsw)
        || opcode == Opcode::IaddPairwise && ty == types::I16X8
}

/// Makes the shifts of a compiled function, whose instructions may have become ones of 256 bits.
pub(crate) fn put_in(func: &Function, compiled: &CompiledCode, code: &mut [u8]) {
    let dfg = &func.dfg;
    let has_any = clif::insts(func).any(|inst| {
        let results = dfg.inst_results(inst).first();
        results.is_some_and(|&result| is_stand_in(dfg.insts[inst].opcode(), dfg.value_type(result)))
    });
    if !has_any {
        return;
    }
    for (start, end) in blocks(compiled) {
        block(code, start, end);
    }
}

fn block(code: &mut [u8], start: u32, end: u32) {
    let mut at = start;
    while at < end {
        let bytes = &code[at as usize..end as usize];
        let mut decoder = Decoder::with_ip(64, bytes, u64::from(at), DecoderOptions::NONE);
        let inst = decoder.decode();
        if let Some(opcode) = opcode(&inst) {
            // A prefix of three bytes precedes the opcode: it alone tells of this map of opcodes.
            code[at as usize + 3] = opcode;
        }
        at = inst.next_ip() as u32;
        if inst.is_invalid() || !ymm::goes_on(&inst, end) {
            break;
        }
    }
}

/// What the opcode of an instruction becomes that stands for a shift.
#[expect(clippy::wildcard_enum_match_arm, reason = "the enum is the decoder's")]
fn opcode(inst: &Instruction) -> Option<u8> {
    match inst.mnemonic() {
        M::Vpmulhrsw => Some(0x47),
        M::Vpmaddubsw => Some(0x45),
        M::Vphaddw => Some(0x46),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use iced_x86::{Decoder, DecoderOptions, Mnemonic as M};

    #[test]
    fn opcodes_become_those_of_shifts() {
        // vpmulhrsw xmm1, xmm2, xmm3; vpmaddubsw ymm9, ymm10, [rsp + 0x20]; vphaddw xmm1, xmm12,
        // [rip + 0x10]; ret.
        let mut code = [
            0xc4, 0xe2, 0x69, 0x0b, 0xcb, 0xc4, 0x62, 0x2d, 0x04, 0x4c, 0x24, 0x20, 0xc4, 0xe2,
            0x19, 0x01, 0x0d, 0x10, 0x00, 0x00, 0x00, 0xc3,
        ];
        let operands = |code: &[u8]| -> Vec<_> {
            let decoder = Decoder::new(64, code, DecoderOptions::NONE);
            let insts: Vec<_> = decoder.into_iter().collect();
            let list = insts.iter().map(|inst| {
                let registers = [0, 1, 2].map(|op| inst.op_register(op));
                (registers, inst.memory_base(), inst.memory_displacement64())
            });
            list.collect()
        };
        let before = operands(&code);
        let end = code.len() as u32;
        super::block(&mut code, 0, end);
        assert_eq!(operands(&code), before);
        let decoder = Decoder::new(64, &code, DecoderOptions::NONE);
        let names: Vec<M> = decoder.into_iter().map(|inst| inst.mnemonic()).collect();
        assert_eq!(names, [M::Vpsllvd, M::Vpsrlvd, M::Vpsravd, M::Ret]);
    }
}
