//! Folds loads of constants into memory operands.
//!
//! Cranelift folds a load into an instruction only if the result has no two uses, and constant
//! vectors not at all: they are loaded into registers. Where the load stands right before the
//! instruction, and no other instruction reads the register, the two become one here, which is as
//! long as both: redundant prefixes fill the rest.

use cranelift_codegen::CompiledCode;
use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic as M,
    OpAccess, OpKind, Register,
};

use super::{blocks, ymm};

/// A segment prefix, which has no effect here.
const PADDING: u8 = 0x3e;

/// How many instructions there may be between a load and what takes its place.
const MOST_BETWEEN: usize = 3;

/// The most bytes of an instruction.
const LONGEST: usize = 15;

/// Has the instructions of a compiled function take constants from memory where they can.
pub(crate) fn put_in(compiled: &CompiledCode, code: &mut [u8]) {
    let mut factory = InstructionInfoFactory::new();
    for (start, end) in blocks(compiled) {
        block(code, start as usize, end as usize, &mut factory);
    }
}

fn block(code: &mut [u8], start: usize, end: usize, factory: &mut InstructionInfoFactory) {
    let mut insts = decoded(code, start, end);
    for at in (0..insts.len()).rev() {
        let load = insts[at];
        if !is_constant(&load) {
            continue;
        }
        let (behind, register) = (&insts[at + 1..], load.op0_register());
        let may_come_first = |inst: &&Instruction| may_come_first(inst, register, factory);
        let between = behind.iter().take(MOST_BETWEEN).take_while(may_come_first);
        let n_between = between.count();
        let Some((user, rest)) = behind[n_between..].split_first() else {
            continue;
        };
        let place = load.memory_displacement64() as usize;
        if let Some(taken) = taken(user, register, &code[user.ip() as usize..])
            && (taken == Taken::Third || !has_nan(&code[place..][..load.memory_size().size()]))
            && load.len() + user.len() <= LONGEST
            && is_dead(register, user, rest, factory)
        {
            let end = user.next_ip() as usize;
            fuse(code, &load, user, taken);
            let new = decoded(code, load.ip() as usize, end);
            insts.splice(at..at + 2 + n_between, new);
        }
    }
}

/// The instructions between two places, as far as there are any.
fn decoded(code: &[u8], start: usize, end: usize) -> Vec<Instruction> {
    let bytes = &code[start..end];
    let mut decoder = Decoder::with_ip(64, bytes, start as u64, DecoderOptions::NONE);
    let mut insts = Vec::new();
    while decoder.can_decode() {
        let inst = decoder.decode();
        insts.push(inst);
        if !ymm::goes_on(&inst, end as u32) {
            break;
        }
    }
    insts
}

/// Whether an instruction loads a constant vector, and nothing else.
fn is_constant(inst: &Instruction) -> bool {
    let is_load = matches!(
        inst.code(),
        Code::VEX_Vmovdqu_xmm_xmmm128
            | Code::VEX_Vmovdqu_ymm_ymmm256
            | Code::VEX_Vmovups_xmm_xmmm128
            | Code::VEX_Vmovups_ymm_ymmm256
    );
    is_load && inst.op1_kind() == OpKind::Memory && inst.memory_base() == Register::RIP
}

/// Whether an instruction may be moved before a load of a constant: one that only computes, or that
/// reloads a spilled value, and does not use the register of the load.
fn may_come_first(
    inst: &Instruction,
    register: Register,
    factory: &mut InstructionInfoFactory,
) -> bool {
    let has_memory = (0..inst.op_count()).any(|op| inst.op_kind(op) == OpKind::Memory);
    let is_move = matches!(inst.mnemonic(), M::Vmovdqa | M::Vmovdqu | M::Mov);
    let used = factory.info(inst).used_registers();
    inst.flow_control() == FlowControl::Next
        && (!has_memory || is_move && inst.memory_base() == Register::RSP)
        && used
            .iter()
            .all(|used| used.register().full_register() != register.full_register())
}

/// How an instruction takes an operand from memory that a register holds.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Taken {
    /// The third, which is the one that may be in memory.
    Third,
    /// The second of a multiply-add, which swaps places with the third.
    Second,
}

/// How an instruction could take from memory what a load puts into a register, if it needs the
/// register for nothing else.
fn taken(user: &Instruction, register: Register, bytes: &[u8]) -> Option<Taken> {
    let is_it = |op: u32| {
        op < user.op_count()
            && user.op_kind(op) == OpKind::Register
            && user.op_register(op) == register
    };
    let are_vectors = (0..3).all(|op| {
        op < user.op_count()
            && user.op_kind(op) == OpKind::Register
            && user.op_register(op).is_vector_register()
    });
    // The operands are told by the byte behind the opcode.
    let operands = match bytes[0] {
        0xc5 => 3,
        0xc4 => 4,
        _ => return None,
    };
    let has_known_form = is_arithmetic(user.mnemonic()) && are_vectors;
    if !has_known_form || bytes[operands] >> 6 != 0b11 || is_it(3) {
        return None;
    }
    match (is_it(0) && is_fused(user.mnemonic()), is_it(1), is_it(2)) {
        (false, false, true) => Some(Taken::Third),
        (false, true, false) if is_sum_last(user.mnemonic()) => Some(Taken::Second),
        _ => None,
    }
}

/// Whether a constant has a NaN in f64: of several, the order of operands tells which is kept.
fn has_nan(constant: &[u8]) -> bool {
    let (lanes, _) = constant.as_chunks::<8>();
    lanes.iter().any(|&lane| f64::from_le_bytes(lane).is_nan())
}

/// Whether no instruction reads a register behind an instruction before it is overwritten.
#[expect(clippy::wildcard_enum_match_arm, reason = "the enum is the decoder's")]
fn is_dead(
    register: Register,
    user: &Instruction,
    rest: &[Instruction],
    factory: &mut InstructionInfoFactory,
) -> bool {
    if user.op0_register() == register {
        return true;
    }
    let full = register.full_register();
    for inst in rest {
        let used = factory.info(inst).used_registers();
        let mut is_written = false;
        for used in used
            .iter()
            .filter(|used| used.register().full_register() == full)
        {
            match used.access() {
                OpAccess::Write => is_written = true,
                _ => return false,
            }
        }
        if is_written || inst.flow_control() == FlowControl::Return {
            return true;
        }
        if inst.flow_control() != FlowControl::Next {
            return false;
        }
    }
    false
}

/// Folds a load into its user. Instructions between the two come first.
fn fuse(code: &mut [u8], load: &Instruction, user: &Instruction, taken: Taken) {
    let (start, from, end) = (
        load.ip() as usize,
        user.ip() as usize,
        user.next_ip() as usize,
    );
    let distance = (load.memory_displacement64() as u32).wrapping_sub(end as u32);
    let mut bytes = code[from..end].to_vec();
    let operands = if bytes[0] == 0xc5 { 3 } else { 4 };
    if taken == Taken::Second {
        // a * b + c becomes a * c + b; the second operand is told by four inverted bits.
        bytes[operands - 1] -= 0x10;
        let third = user.op2_register().number() as u8;
        bytes[operands - 2] = bytes[operands - 2] & 0b1000_0111 | (!third & 0b1111) << 3;
    }
    let between = load.next_ip() as usize..from;
    let n_between = between.len();
    code.copy_within(between, start);
    let place = &mut code[start + n_between..end];
    let (padding, fused) = place.split_at_mut(place.len() - bytes.len() - 4);
    padding.fill(PADDING);
    fused[..operands].copy_from_slice(&bytes[..operands]);
    // The same register, and an address by the instruction behind.
    fused[operands] = bytes[operands] & 0b0011_1000 | 0b101;
    fused[operands + 1..operands + 5].copy_from_slice(&distance.to_le_bytes());
    fused[operands + 5..].copy_from_slice(&bytes[operands + 1..]);
}

/// Multiplications with additions, which read all of their operands.
#[rustfmt::skip]
fn is_fused(mnemonic: M) -> bool {
    matches!(
        mnemonic,
        M::Vfmadd132ps | M::Vfmadd213ps | M::Vfmadd231ps | M::Vfmadd132pd | M::Vfmadd213pd | M::Vfmadd231pd
            | M::Vfmsub132ps | M::Vfmsub213ps | M::Vfmsub231ps | M::Vfmsub132pd | M::Vfmsub213pd | M::Vfmsub231pd
            | M::Vfnmadd132ps | M::Vfnmadd213ps | M::Vfnmadd231ps | M::Vfnmadd132pd | M::Vfnmadd213pd | M::Vfnmadd231pd
            | M::Vfnmsub132ps | M::Vfnmsub213ps | M::Vfnmsub231ps | M::Vfnmsub132pd | M::Vfnmsub213pd | M::Vfnmsub231pd
    )
}

/// Those that multiply the first operand with the second and add the third.
#[rustfmt::skip]
fn is_sum_last(mnemonic: M) -> bool {
    matches!(
        mnemonic,
        M::Vfmadd213ps | M::Vfmadd213pd | M::Vfmsub213ps | M::Vfmsub213pd
            | M::Vfnmadd213ps | M::Vfnmadd213pd | M::Vfnmsub213ps | M::Vfnmsub213pd
    )
}

/// Operations on all lanes of two vectors or three, of which the third operand may be in memory.
#[rustfmt::skip]
pub(super) fn is_arithmetic(mnemonic: M) -> bool {
    is_fused(mnemonic) || matches!(
        mnemonic,
        M::Vaddps | M::Vaddpd | M::Vsubps | M::Vsubpd | M::Vmulps | M::Vmulpd | M::Vdivps | M::Vdivpd
            | M::Vminps | M::Vminpd | M::Vmaxps | M::Vmaxpd | M::Vcmpps | M::Vcmppd
            | M::Vandps | M::Vandpd | M::Vandnps | M::Vandnpd | M::Vorps | M::Vorpd | M::Vxorps | M::Vxorpd
            | M::Vpand | M::Vpandn | M::Vpor | M::Vpxor | M::Vblendvps | M::Vblendvpd | M::Vpblendvb
            | M::Vpaddb | M::Vpaddw | M::Vpaddd | M::Vpaddq | M::Vpsubb | M::Vpsubw | M::Vpsubd | M::Vpsubq
            | M::Vpmullw | M::Vpmulld | M::Vpminsb | M::Vpminsw | M::Vpminsd | M::Vpminub | M::Vpminuw | M::Vpminud
            | M::Vpmaxsb | M::Vpmaxsw | M::Vpmaxsd | M::Vpmaxub | M::Vpmaxuw | M::Vpmaxud
            | M::Vpcmpeqb | M::Vpcmpeqw | M::Vpcmpeqd | M::Vpcmpeqq | M::Vpcmpgtb | M::Vpcmpgtw | M::Vpcmpgtd | M::Vpcmpgtq
    )
}

#[cfg(test)]
mod tests {
    use iced_x86::InstructionInfoFactory;

    use super::block;

    /// A block before and after, as an assembler writes it; all constants are the same.
    fn check(before: &[u8], constant: [u8; 8], after: &[u8]) {
        let mut code = before.to_vec();
        code.resize(0x200, 0);
        code.extend(constant.repeat(8));
        let mut infos = InstructionInfoFactory::new();
        block(&mut code, 0, before.len(), &mut infos);
        assert_eq!(code[..before.len()], *after);
    }

    const ONES: [u8; 8] = 1f64.to_le_bytes();

    #[test]
    fn a_load_becomes_an_operand() {
        // vmovdqu ymm7, [rip + 0x200]; vfmadd213ps ymm12, ymm3, ymm7; vmovdqu ymm7, [rsp + 0x80].
        let before = [
            0xc5, 0xfe, 0x6f, 0x3d, 0x00, 0x02, 0x00, 0x00, 0xc4, 0x62, 0x65, 0xa8, 0xe7, 0xc5,
            0xfe, 0x6f, 0xbc, 0x24, 0x80, 0x00, 0x00, 0x00,
        ];
        // vfmadd213ps ymm12, ymm3, [rip + 0x1fb]; vmovdqu ymm7, [rsp + 0x80].
        let after = [
            0x3e, 0x3e, 0x3e, 0x3e, 0xc4, 0x62, 0x65, 0xa8, 0x25, 0xfb, 0x01, 0x00, 0x00, 0xc5,
            0xfe, 0x6f, 0xbc, 0x24, 0x80, 0x00, 0x00, 0x00,
        ];
        check(&before, ONES, &after);
    }

    /// `vmovups ymm9, [rip + 0x200]; vmovdqa ymm13, ymm2; vfmsub213ps ymm13, ymm9, ymm7; vmovdqa
    /// ymm9, ymm1`.
    const FACTOR: [u8; 21] = [
        0xc5, 0x7c, 0x10, 0x0d, 0x00, 0x02, 0x00, 0x00, 0xc5, 0x7d, 0x6f, 0xea, 0xc4, 0x62, 0x35,
        0xaa, 0xef, 0xc5, 0x7d, 0x6f, 0xc9,
    ];

    #[test]
    fn a_factor_changes_places_with_the_summand() {
        // vmovdqa ymm13, ymm2; vfmsub132ps ymm13, ymm7, [rip + 0x1f7]; vmovdqa ymm9, ymm1.
        let after = [
            0xc5, 0x7d, 0x6f, 0xea, 0x3e, 0x3e, 0x3e, 0x3e, 0xc4, 0x62, 0x45, 0x9a, 0x2d, 0xf7,
            0x01, 0x00, 0x00, 0xc5, 0x7d, 0x6f, 0xc9,
        ];
        check(&FACTOR, ONES, &after);
    }

    #[test]
    fn a_factor_that_is_no_number_stays() {
        check(&FACTOR, f64::NAN.to_le_bytes(), &FACTOR);
    }

    #[test]
    fn what_only_computes_may_come_first() {
        // vmovdqu ymm7, [rip + 0x200]; vcmpunordps ymm9, ymm3, ymm3; vblendvps ymm3, ymm3, ymm7,
        // ymm9; ret.
        let before = [
            0xc5, 0xfe, 0x6f, 0x3d, 0x00, 0x02, 0x00, 0x00, 0xc5, 0x64, 0xc2, 0xcb, 0x03, 0xc4,
            0xe3, 0x65, 0x4a, 0xdf, 0x90, 0xc3,
        ];
        // vcmpunordps ymm9, ymm3, ymm3; vblendvps ymm3, ymm3, [rip + 0x1f5], ymm9; ret.
        let after = [
            0xc5, 0x64, 0xc2, 0xcb, 0x03, 0x3e, 0x3e, 0x3e, 0x3e, 0xc4, 0xe3, 0x65, 0x4a, 0x1d,
            0xf5, 0x01, 0x00, 0x00, 0x90, 0xc3,
        ];
        check(&before, ONES, &after);
    }

    #[test]
    fn what_others_read_stays_in_a_register() {
        // vmovdqu ymm0, [rip + 0x200]; vaddps ymm1, ymm2, ymm0; vmulps ymm3, ymm0, ymm4; ret.
        let read = [
            0xc5, 0xfe, 0x6f, 0x05, 0x00, 0x02, 0x00, 0x00, 0xc5, 0xec, 0x58, 0xc8, 0xc5, 0xfc,
            0x59, 0xdc, 0xc3,
        ];
        check(&read, ONES, &read);
        // vmovdqu xmm0, [rip + 0x200]; vaddps xmm1, xmm2, xmm0, and on to another block.
        let passed = [
            0xc5, 0xfa, 0x6f, 0x05, 0x00, 0x02, 0x00, 0x00, 0xc5, 0xe8, 0x58, 0xc8,
        ];
        check(&passed, ONES, &passed);
    }
}
