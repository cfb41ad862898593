//! Masked stores.
//!
//! Cranelift has no such instruction. A store of the difference of a vector and its mask, `vsubps
//! d, x, m` and `vmovups [a], d`, stands for one. After compilation the two become `vmaskmovps [a],
//! m, x`, which is at most a byte longer than the store alone; instructions that the register
//! allocator has inserted between them stay, a byte further ahead.

use cranelift_codegen::CompiledCode;
use cranelift_codegen::ir::{Endianness, InstBuilder, MemFlagsData, TrapCode, Value, types};
use cranelift_frontend::FunctionBuilder;
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic as M,
    OpAccess, OpKind, Register,
};
use ptxjit_ir::Type;

/// The mark of stores of differences that stand for others.
pub(crate) const MASKED: TrapCode = TrapCode::unwrap_user(3);

/// The same of those of 256 bits.
pub(crate) const WIDE_MASKED: TrapCode = TrapCode::unwrap_user(4);

/// Stores those lanes of a vector of words of a type whose bits in the mask are all set.
pub(crate) fn store(
    b: &mut FunctionBuilder<'_>,
    (vector, mask): (Value, Value),
    ty: Type,
    (at, offset): (Value, i32),
) {
    let float = match ty {
        Type::B64 => types::F64X2,
        Type::B1 | Type::B8 | Type::B16 | Type::B32 => types::F32X4,
    };
    let flags = MemFlagsData::new().with_endianness(Endianness::Little);
    // A cast keeps the operands in registers: no load or constant becomes an operand of the
    // difference.
    let [vector, mask] = [vector, mask].map(|x| {
        let bytes = b.ins().bitcast(types::I8X16, flags, x);
        b.ins().bitcast(float, flags, bytes)
    });
    let difference = b.ins().fsub(vector, mask);
    let flags = MemFlagsData::new().with_trap_code(Some(MASKED));
    b.ins().store(flags, difference, at, offset);
}

/// Makes the stores of some lanes in a compiled function, whose instructions may have become ones
/// of 256 bits. False if that is not possible.
pub(crate) fn put_in(compiled: &CompiledCode, code: &mut [u8]) -> bool {
    let traps = compiled.buffer.traps().iter();
    let mut stores: Vec<u32> = traps
        .filter(|trap| [MASKED, WIDE_MASKED].contains(&trap.code))
        .map(|trap| trap.offset)
        .collect();
    stores.sort_unstable();
    let mut stores = stores.into_iter().peekable();
    let starts = &compiled.bb_starts;
    let mut factory = InstructionInfoFactory::new();
    while let Some(&first) = stores.peek() {
        let block = starts.partition_point(|&start| start <= first);
        let end = starts.get(block).copied().unwrap_or(code.len() as u32);
        let mut insts: Vec<Placed> = Vec::new();
        while let Some(at) = stores.next_if(|&at| at < end) {
            let from = insts.last().map_or(starts[block - 1], |last| last.end);
            insts.extend(decoded(code, from, at));
            if !fuse_last(code, &insts, &mut factory) {
                return false;
            }
        }
    }
    true
}

/// An instruction, where it is, and where in the code it has a distance of four bytes.
#[derive(Copy, Clone)]
struct Placed {
    inst: Instruction,
    start: u32,
    end: u32,
    displacement: Option<u32>,
}

/// The instructions from one place up to the one at `last`.
fn decoded(code: &[u8], from: u32, last: u32) -> Vec<Placed> {
    let bytes = &code[from as usize..];
    let mut decoder = Decoder::with_ip(64, bytes, u64::from(from), DecoderOptions::NONE);
    let mut insts = Vec::new();
    while decoder.can_decode() {
        let inst = decoder.decode();
        let offsets = decoder.get_constant_offsets(&inst);
        let start = inst.ip() as u32;
        insts.push(Placed {
            inst,
            start,
            end: inst.next_ip() as u32,
            displacement: (offsets.displacement_size() == 4)
                .then(|| start + offsets.displacement_offset() as u32),
        });
        if start >= last {
            break;
        }
    }
    insts
}

/// Puts together the last instruction, a store, and the difference that it stores. False if the two
/// cannot be.
fn fuse_last(code: &mut [u8], insts: &[Placed], factory: &mut InstructionInfoFactory) -> bool {
    let Some(distance) = difference(insts, factory) else {
        return false;
    };
    let insts = &insts[insts.len() - distance..];
    let has_known_prefix = |placed: &Placed| matches!(code[placed.start as usize], 0xc4 | 0xc5);
    let ends = [insts.first(), insts.last()].into_iter().flatten();
    let fits = ends.into_iter().all(has_known_prefix);
    if fits {
        fuse(code, insts, factory);
    }
    fits
}

/// How many instructions back from the last one, a store, the difference is that it stores; none if
/// the two cannot be put together.
fn difference(insts: &[Placed], factory: &mut InstructionInfoFactory) -> Option<usize> {
    let (store, before) = insts.split_last()?;
    let is_store = matches!(store.inst.mnemonic(), M::Vmovups | M::Vmovupd)
        && store.inst.op0_kind() == OpKind::Memory;
    let at = before.iter().rposition(|placed| {
        let inst = &placed.inst;
        let is_difference = matches!(inst.mnemonic(), M::Vsubps | M::Vsubpd);
        is_difference && is_same(inst.op0_register(), store.inst.op1_register())
    })?;
    let made = &before[at].inst;
    if !is_store || made.op2_kind() != OpKind::Register {
        return None;
    }
    let between = &before[at + 1..];
    let is_reload = |placed: &Placed| {
        let inst = &placed.inst;
        matches!(inst.mnemonic(), M::Mov | M::Movdqu | M::Movdqa)
            && inst.op0_kind() == OpKind::Register
            && inst.memory_base() == Register::RSP
    };
    let is_plain = |placed: &Placed| {
        let own = [Register::RSP, Register::RIP, Register::None];
        placed.inst.flow_control() == FlowControl::Next && own.contains(&placed.inst.memory_base())
    };
    let mut overwrites = |placed: &Placed| overwrites(&placed.inst, made, factory);
    let fits = match between.iter().any(&mut overwrites) {
        // Reloads move behind the store then, and commute with it.
        true => between.iter().all(is_reload),
        false => between.iter().all(is_plain),
    };
    fits.then_some(insts.len() - at)
}

fn is_same(x: Register, y: Register) -> bool {
    x.full_register() == y.full_register()
}

/// Whether an instruction writes the vector or the mask of a difference.
fn overwrites(
    inst: &Instruction,
    difference: &Instruction,
    factory: &mut InstructionInfoFactory,
) -> bool {
    let operands = [difference.op1_register(), difference.op2_register()];
    let mut used = factory.info(inst).used_registers().iter();
    used.any(|used| {
        let is_read = matches!(used.access(), OpAccess::Read | OpAccess::CondRead);
        !is_read
            && operands
                .iter()
                .any(|&operand| is_same(operand, used.register()))
    })
}

/// Makes a store of some lanes of the difference that comes first and the store that comes last.
fn fuse(code: &mut [u8], insts: &[Placed], factory: &mut InstructionInfoFactory) {
    let [difference, between @ .., store] = insts else {
        unreachable!("there are two at least");
    };
    let made = &difference.inst;
    let registers = [made.op1_register(), made.op2_register()].map(|register| register.number());
    let fused = masked_store(
        &code[store.start as usize..store.end as usize],
        registers.map(|number| number as u8),
        made.mnemonic() == M::Vsubpd,
    );
    let n_between = store.start - difference.end;
    let n_idle = (store.end - difference.start - n_between) as usize - fused.len();
    let mut new = idle(n_idle).to_vec();
    let is_late = |placed: &&Placed, factory: &mut InstructionInfoFactory| {
        overwrites(&placed.inst, made, factory)
    };
    let move_to = |new: &mut Vec<u8>, placed: &Placed| {
        let at = new.len();
        new.extend(&code[placed.start as usize..placed.end as usize]);
        if placed.inst.memory_base() == Register::RIP {
            let place = placed.displacement.expect("such distances have four bytes") - placed.start;
            let bytes = &mut new[at + place as usize..][..4];
            let distance = i32::from_le_bytes(bytes.try_into().expect("four bytes"));
            let moved = placed.start as i32 - (difference.start as i32 + at as i32);
            bytes.copy_from_slice(&distance.wrapping_add(moved).to_le_bytes());
        }
    };
    for placed in between.iter().filter(|placed| !is_late(placed, factory)) {
        move_to(&mut new, placed);
    }
    new.extend(fused);
    for placed in between.iter().filter(|placed| is_late(placed, factory)) {
        move_to(&mut new, placed);
    }
    code[difference.start as usize..store.end as usize].copy_from_slice(&new);
}

/// `vmaskmovps [a], mask, vector` of a `vmovups [a], x`, or the same of double words.
fn masked_store(store: &[u8], [vector, mask]: [u8; 2], is_double: bool) -> Vec<u8> {
    // The inverted bits that extend registers, whether it is one of 256 bits, and what follows the
    // opcode.
    let (extensions, width, operands) = match store[0] {
        0xc5 => (0b0110_0000, store[1] & 0b100, &store[3..]),
        _ => (store[1] & 0b0110_0000, store[2] & 0b100, &store[4..]),
    };
    let extension = if vector < 8 { 0b1000_0000 } else { 0 };
    let mut fused = vec![
        0xc4,
        extension | extensions | 2,
        (!mask & 0b1111) << 3 | width | 1,
        if is_double { 0x2f } else { 0x2e },
        operands[0] & 0b1100_0111 | (vector & 0b111) << 3,
    ];
    fused.extend(&operands[1..]);
    fused
}

/// An instruction of so many bytes that does nothing.
fn idle(len: usize) -> &'static [u8] {
    match len {
        3 => &[0x0f, 0x1f, 0x00],
        4 => &[0x0f, 0x1f, 0x40, 0x00],
        5 => &[0x0f, 0x1f, 0x44, 0x00, 0x00],
        _ => unreachable!("a difference has four or five bytes"),
    }
}

#[cfg(test)]
mod tests {
    use iced_x86::InstructionInfoFactory;

    use super::{decoded, fuse_last};

    /// Instructions of which the last one, at a place, is the store, before and after, as an
    /// assembler writes them.
    fn check(before: &[u8], store: u32, after: &[u8]) {
        let mut code = before.to_vec();
        let insts = decoded(&code, 0, store);
        let mut factory = InstructionInfoFactory::new();
        assert!(fuse_last(&mut code, &insts, &mut factory));
        assert_eq!(code, after);
    }

    #[test]
    fn differences_become_stores_of_some_lanes() {
        // vsubps ymm9, ymm10, ymm3; mov rcx, [rsp + 0x10]; vmovups [rcx + rax * 4 + 0x20], ymm9.
        let before = [
            0xc5, 0x2c, 0x5c, 0xcb, 0x48, 0x8b, 0x4c, 0x24, 0x10, 0xc5, 0x7c, 0x11, 0x4c, 0x81,
            0x20,
        ];
        // nop; mov rcx, [rsp + 0x10]; vmaskmovps [rcx + rax * 4 + 0x20], ymm3, ymm10.
        let after = [
            0x0f, 0x1f, 0x00, 0x48, 0x8b, 0x4c, 0x24, 0x10, 0xc4, 0x62, 0x65, 0x2e, 0x54, 0x81,
            0x20,
        ];
        check(&before, 9, &after);
    }

    #[test]
    fn what_overwrites_an_operand_comes_behind_the_store() {
        // vsubpd xmm1, xmm2, xmm12; movdqu xmm2, [rsp + 0x40]; mov r9, [rsp + 0x10]; vmovupd [r9 +
        // 8], xmm1.
        let before = [
            0xc4, 0xc1, 0x69, 0x5c, 0xcc, 0xf3, 0x0f, 0x6f, 0x54, 0x24, 0x40, 0x4c, 0x8b, 0x4c,
            0x24, 0x10, 0xc4, 0xc1, 0x79, 0x11, 0x49, 0x08,
        ];
        // nop; mov r9, [rsp + 0x10]; vmaskmovpd [r9 + 8], xmm12, xmm2; movdqu xmm2, [rsp + 0x40].
        let after = [
            0x0f, 0x1f, 0x44, 0x00, 0x00, 0x4c, 0x8b, 0x4c, 0x24, 0x10, 0xc4, 0xc2, 0x19, 0x2f,
            0x51, 0x08, 0xf3, 0x0f, 0x6f, 0x54, 0x24, 0x40,
        ];
        check(&before, 16, &after);
    }

    #[test]
    fn what_moves_still_finds_its_constants() {
        // vsubps xmm0, xmm1, xmm2; vmovdqu xmm3, [rip + 0x100]; vmovups [rdi], xmm0.
        let before = [
            0xc5, 0xf0, 0x5c, 0xc2, 0xc5, 0xfa, 0x6f, 0x1d, 0x00, 0x01, 0x00, 0x00, 0xc5, 0xf8,
            0x11, 0x07,
        ];
        // nop; vmovdqu xmm3, [rip + 0x101]; vmaskmovps [rdi], xmm2, xmm1.
        let after = [
            0x0f, 0x1f, 0x00, 0xc5, 0xfa, 0x6f, 0x1d, 0x01, 0x01, 0x00, 0x00, 0xc4, 0xe2, 0x69,
            0x2e, 0x0f,
        ];
        check(&before, 12, &after);
    }

    #[test]
    fn other_accesses_between_are_refused() {
        // vsubps xmm0, xmm1, xmm2; mov [rdi], eax; vmovups [rdi], xmm0.
        let mut code = [0xc5, 0xf0, 0x5c, 0xc2, 0x89, 0x07, 0xc5, 0xf8, 0x11, 0x07];
        let insts = decoded(&code, 0, 6);
        let mut factory = InstructionInfoFactory::new();
        assert!(!fuse_last(&mut code, &insts, &mut factory));
    }
}
