//! Masked stores.
//!
//! Cranelift has no such instruction. A store of the difference of a vector and its mask, `vsubps
//! d, x, m` and `vmovups [a], d`, stands for one. After compilation the two become `vmaskmovps [a],
//! m, x`, which is at most a byte longer than the store alone; instructions that the register
//! allocator has inserted between them stay, a byte further ahead.
//!
//! Where the processor has registers for masks, the mask is subtracted twice, which makes room for
//! `vpmovd2m k1, m` and `vmovups [a]{k1}, x`. Nothing else uses these registers.

use cranelift_codegen::CompiledCode;
use cranelift_codegen::ir::{Endianness, InstBuilder, MemFlagsData, TrapCode, Value, types};
use cranelift_frontend::FunctionBuilder;
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic as M,
    OpAccess, OpKind, Register,
};
use ptxjit_ir::Type;

/// Where masks are when lanes are stored.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Masks {
    /// In vectors.
    Vectors,
    /// In registers for masks.
    Registers,
}

/// The mark of stores of differences that stand for others.
pub(crate) const MASKED: TrapCode = TrapCode::unwrap_user(3);

/// The same of those of 256 bits.
pub(crate) const WIDE_MASKED: TrapCode = TrapCode::unwrap_user(4);

/// Stores those lanes of a vector of words of a type whose bits in the mask are all set.
pub(crate) fn store(
    b: &mut FunctionBuilder<'_>,
    (vector, mask): (Value, Value),
    masks: Masks,
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
    let mut difference = b.ins().fsub(vector, mask);
    if masks == Masks::Registers {
        difference = b.ins().fsub(difference, mask);
    }
    let flags = MemFlagsData::new().with_trap_code(Some(MASKED));
    b.ins().store(flags, difference, at, offset);
}

/// Makes the stores of some lanes in a compiled function, whose instructions may have become ones
/// of 256 bits. False if that is not possible.
pub(crate) fn put_in(compiled: &CompiledCode, masks: Masks, code: &mut [u8]) -> bool {
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
            if !fuse_last(code, &insts, masks, &mut factory) {
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
fn fuse_last(
    code: &mut [u8],
    insts: &[Placed],
    masks: Masks,
    factory: &mut InstructionInfoFactory,
) -> bool {
    let Some(found) = Found::of(insts, masks, factory) else {
        return false;
    };
    let has_known_prefix = |placed: &Placed| matches!(code[placed.start as usize], 0xc4 | 0xc5);
    let fits = has_known_prefix(found.difference) && has_known_prefix(found.store);
    if fits {
        fuse(code, &found, masks, factory);
    }
    fits
}

/// A store, and the difference that it stores.
struct Found<'a> {
    /// The difference of the vector and the mask.
    difference: &'a Placed,
    /// What stays between the two.
    between: Vec<&'a Placed>,
    store: &'a Placed,
}

impl<'a> Found<'a> {
    /// None if the two cannot be put together.
    fn of(
        insts: &'a [Placed],
        masks: Masks,
        factory: &mut InstructionInfoFactory,
    ) -> Option<Found<'a>> {
        let (store, before) = insts.split_last()?;
        let is_store = matches!(store.inst.mnemonic(), M::Vmovups | M::Vmovupd)
            && store.inst.op0_kind() == OpKind::Memory;
        if !is_store {
            return None;
        }
        let last = difference(before, store.inst.op1_register())?;
        let (first, second) = match masks {
            Masks::Vectors => (last, None),
            Masks::Registers => {
                let first = difference(&before[..last], before[last].inst.op1_register())?;
                (first, Some(last))
            }
        };
        let between: Vec<&Placed> = (first + 1..before.len())
            .filter(|&at| Some(at) != second)
            .map(|at| &before[at])
            .collect();
        let made = &before[first].inst;
        let is_reload = |placed: &&Placed| {
            let inst = &placed.inst;
            matches!(
                inst.mnemonic(),
                M::Mov | M::Movdqu | M::Movdqa | M::Vmovdqu | M::Vmovdqa
            ) && inst.op0_kind() == OpKind::Register
                && inst.memory_base() == Register::RSP
        };
        let is_plain = |placed: &&Placed| {
            let own = [Register::RSP, Register::RIP, Register::None];
            placed.inst.flow_control() == FlowControl::Next
                && own.contains(&placed.inst.memory_base())
        };
        let mut overwrites = |placed: &&Placed| overwrites(&placed.inst, made, factory);
        let fits = match between.iter().any(&mut overwrites) {
            // Reloads move behind the store then, and commute with it.
            true => between.iter().all(is_reload),
            false => between.iter().all(is_plain),
        };
        fits.then_some(Found {
            difference: &before[first],
            between,
            store,
        })
    }
}

/// The last difference of two registers that is in a register.
fn difference(insts: &[Placed], register: Register) -> Option<usize> {
    let at = insts.iter().rposition(|placed| {
        let inst = &placed.inst;
        let is_difference = matches!(inst.mnemonic(), M::Vsubps | M::Vsubpd);
        is_difference && is_same(inst.op0_register(), register)
    })?;
    (insts[at].inst.op2_kind() == OpKind::Register).then_some(at)
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

/// Makes a store of some lanes of a difference and its store.
fn fuse(code: &mut [u8], found: &Found<'_>, masks: Masks, factory: &mut InstructionInfoFactory) {
    let (start, end) = (found.difference.start, found.store.end);
    let made = &found.difference.inst;
    let registers = [made.op1_register(), made.op2_register()].map(|register| register.number());
    let registers = registers.map(|number| number as u8);
    let is_double = made.mnemonic() == M::Vsubpd;
    let store = &code[found.store.start as usize..end as usize];
    let n_between: u32 = found
        .between
        .iter()
        .map(|placed| placed.end - placed.start)
        .sum();
    let room = (end - start - n_between) as usize;
    let by_register = match masks {
        Masks::Vectors => None,
        Masks::Registers => store_by_register(store, registers, is_double),
    };
    let fused = by_register
        .filter(|fused| fused.len() <= room)
        .unwrap_or_else(|| masked_store(store, registers, is_double));
    let mut new = idle(room - fused.len());
    let is_late = |placed: &Placed, factory: &mut InstructionInfoFactory| {
        overwrites(&placed.inst, made, factory)
    };
    let move_to = |new: &mut Vec<u8>, placed: &Placed| {
        let at = new.len();
        new.extend(&code[placed.start as usize..placed.end as usize]);
        if placed.inst.memory_base() == Register::RIP {
            let place = placed.displacement.expect("such distances have four bytes") - placed.start;
            let bytes = &mut new[at + place as usize..][..4];
            let distance = i32::from_le_bytes(bytes.try_into().expect("four bytes"));
            let moved = placed.start as i32 - (start as i32 + at as i32);
            bytes.copy_from_slice(&distance.wrapping_add(moved).to_le_bytes());
        }
    };
    for placed in &found.between {
        if !is_late(placed, factory) {
            move_to(&mut new, placed);
        }
    }
    new.extend(fused);
    for placed in &found.between {
        if is_late(placed, factory) {
            move_to(&mut new, placed);
        }
    }
    code[start as usize..end as usize].copy_from_slice(&new);
}

/// The parts of a `vmovups [a], x` with a prefix of two or three bytes.
struct Store<'a> {
    /// The inverted bits that extend the registers of the address.
    extensions: u8,
    /// Whether it has 256 bits.
    is_wide: bool,
    /// What follows the opcode: the first byte has the register of the vector, too.
    operands: &'a [u8],
}

impl Store<'_> {
    fn of(store: &[u8]) -> Store<'_> {
        let (extensions, last, operands) = match store[0] {
            0xc5 => (0b0110_0000, store[1], &store[3..]),
            _ => (store[1] & 0b0110_0000, store[2], &store[4..]),
        };
        Store {
            extensions,
            is_wide: last & 0b100 != 0,
            operands,
        }
    }

    /// The first byte of the operands, with the register of a vector.
    fn with_vector(&self, vector: u8) -> u8 {
        self.operands[0] & 0b1100_0111 | (vector & 0b111) << 3
    }
}

/// `vpmovd2m k1, mask` and `vmovups [a]{k1}, vector` of a `vmovups [a], x`, or the same of double
/// words. None for an address that is a distance from the instruction.
fn store_by_register(store: &[u8], [vector, mask]: [u8; 2], is_double: bool) -> Option<Vec<u8>> {
    let parts = Store::of(store);
    let (mode, is_base) = (parts.operands[0] >> 6, parts.operands[0] & 0b111);
    if mode == 0 && is_base == 0b101 {
        return None;
    }
    let (width, bytes) = if parts.is_wide {
        (0b010_0000, 32)
    } else {
        (0, 16)
    };
    let double = if is_double { 0b1000_0000 } else { 0 };
    // Bits that extend registers are inverted, as those of the second operand, which there is none
    // of, are.
    let extension = |register: u8, bit: u8| if register < 8 { bit } else { 0 };
    let mut fused = vec![
        0x62,
        0b1101_0010 | extension(mask, 0b0010_0000),
        0b0111_1110 | double,
        0b0000_1000 | width,
        0x39,
        0b1100_1000 | mask & 0b111,
        0x62,
        0b0001_0001 | parts.extensions | extension(vector, 0b1000_0000),
        0b0111_1100 | double | u8::from(is_double),
        0b0000_1001 | width,
        0x11,
    ];
    let (with_vector, rest) = (parts.with_vector(vector), &parts.operands[1..]);
    // Distances of one byte count vectors.
    match (mode, rest) {
        (0b01, [index @ .., distance]) => {
            let distance = i32::from(*distance as i8);
            if distance % bytes == 0 {
                fused.push(with_vector);
                fused.extend(index);
                fused.push((distance / bytes) as u8);
            } else {
                fused.push(with_vector & 0b0011_1111 | 0b1000_0000);
                fused.extend(index);
                fused.extend(distance.to_le_bytes());
            }
        }
        _ => {
            fused.push(with_vector);
            fused.extend(rest);
        }
    }
    Some(fused)
}

/// `vmaskmovps [a], mask, vector` of a `vmovups [a], x`, or the same of double words.
fn masked_store(store: &[u8], [vector, mask]: [u8; 2], is_double: bool) -> Vec<u8> {
    let parts = Store::of(store);
    let extension = if vector < 8 { 0b1000_0000 } else { 0 };
    let width = if parts.is_wide { 0b100 } else { 0 };
    let mut fused = vec![
        0xc4,
        extension | parts.extensions | 2,
        (!mask & 0b1111) << 3 | width | 1,
        if is_double { 0x2f } else { 0x2e },
        parts.with_vector(vector),
    ];
    fused.extend(&parts.operands[1..]);
    fused
}

/// Instructions of so many bytes together that do nothing.
fn idle(len: usize) -> Vec<u8> {
    const LONGEST: usize = 5;
    let one = |len: usize| -> &'static [u8] {
        match len {
            1 => &[0x90],
            2 => &[0x66, 0x90],
            3 => &[0x0f, 0x1f, 0x00],
            4 => &[0x0f, 0x1f, 0x40, 0x00],
            _ => &[0x0f, 0x1f, 0x44, 0x00, 0x00],
        }
    };
    let mut bytes = one(LONGEST).repeat(len / LONGEST);
    if !len.is_multiple_of(LONGEST) {
        bytes.extend(one(len % LONGEST));
    }
    bytes
}

#[cfg(test)]
mod tests {
    use iced_x86::InstructionInfoFactory;

    use super::{Masks, decoded, fuse_last};

    /// Instructions of which the last one, at a place, is the store, before and after, as an
    /// assembler writes them.
    fn check(before: &[u8], store: u32, after: &[u8]) {
        check_with(Masks::Vectors, before, store, after);
    }

    fn check_with(masks: Masks, before: &[u8], store: u32, after: &[u8]) {
        let mut code = before.to_vec();
        let insts = decoded(&code, 0, store);
        let mut factory = InstructionInfoFactory::new();
        assert!(fuse_last(&mut code, &insts, masks, &mut factory));
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
    fn masks_go_to_registers_for_them() {
        // vsubps ymm9, ymm10, ymm3; vsubps ymm9, ymm9, ymm3; mov rcx, [rsp + 0x10]; vmovups [rcx +
        // rax * 4 + 0x20], ymm9.
        let before = [
            0xc5, 0x2c, 0x5c, 0xcb, 0xc5, 0x34, 0x5c, 0xcb, 0x48, 0x8b, 0x4c, 0x24, 0x10, 0xc5,
            0x7c, 0x11, 0x4c, 0x81, 0x20,
        ];
        // mov rcx, [rsp + 0x10]; vpmovd2m k1, ymm3; vmovups [rcx + rax * 4 + 0x20]{k1}, ymm10.
        let after = [
            0x48, 0x8b, 0x4c, 0x24, 0x10, 0x62, 0xf2, 0x7e, 0x28, 0x39, 0xcb, 0x62, 0x71, 0x7c,
            0x29, 0x11, 0x54, 0x81, 0x01,
        ];
        check_with(Masks::Registers, &before, 13, &after);
        // vsubpd xmm1, xmm2, xmm12; vsubpd xmm1, xmm1, xmm12; vmovupd [r9 + 0x18], xmm1.
        let before = [
            0xc4, 0xc1, 0x69, 0x5c, 0xcc, 0xc4, 0xc1, 0x71, 0x5c, 0xcc, 0xc4, 0xc1, 0x79, 0x11,
            0x49, 0x18,
        ];
        // vpmovq2m k1, xmm12; vmovupd [r9 + 0x18]{k1}, xmm2, with a distance of four bytes.
        let after = [
            0x62, 0xd2, 0xfe, 0x08, 0x39, 0xcc, 0x62, 0xd1, 0xfd, 0x09, 0x11, 0x91, 0x18, 0, 0, 0,
        ];
        check_with(Masks::Registers, &before, 10, &after);
        // vsubps xmm1, xmm2, xmm12; vsubps xmm1, xmm1, xmm12; vmovups [rdi + 8], xmm1.
        let before = [
            0xc4, 0xc1, 0x68, 0x5c, 0xcc, 0xc4, 0xc1, 0x70, 0x5c, 0xcc, 0xc5, 0xf8, 0x11, 0x4f,
            0x08,
        ];
        // There is no room for four bytes: nops; vmaskmovps [rdi + 8], xmm12, xmm2.
        let after = [
            0x0f, 0x1f, 0x44, 0x00, 0x00, 0x0f, 0x1f, 0x40, 0x00, 0xc4, 0xe2, 0x19, 0x2e, 0x57,
            0x08,
        ];
        check_with(Masks::Registers, &before, 10, &after);
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
        assert!(!fuse_last(&mut code, &insts, Masks::Vectors, &mut factory));
    }
}
