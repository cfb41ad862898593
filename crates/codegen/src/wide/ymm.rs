//! Widens machine code from vectors of 128 bits to 256.
//!
//! [`super::pairs`] leaves functions whose vectors of 128 bits stand for 256. The instructions of
//! the two are equally long on x86-64: a bit distinguishes them. So the code stays as it is but for
//! these bits, and for moves between registers and to the stack, which Cranelift encodes in the
//! older way, without such a bit; spill slots, which have to be twice as large and so elsewhere;
//! constants, which are repeated behind the code; instructions that stand for others that Cranelift
//! does not have: shuffles that join halves or take the second, fences that clear the upper halves.
//!
//! Accesses of memory are widened only where they carry the mark. An unknown instruction is an
//! error: then the function is compiled with vectors of 128 bits.

use std::fmt::Write;
use std::ops::Range;

use cranelift_codegen::CompiledCode;
use cranelift_codegen::ir::{SourceLoc, TrapCode};
use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Formatter, Instruction, IntelFormatter,
    Mnemonic as M, OpKind, Register,
};
use rustc_hash::{FxHashMap, FxHashSet};

use super::masked::WIDE_MASKED;
use super::pairs::{Merged, Signs, WIDE, WIDENED, clearing, test_of_both};

/// Bytes of a vector.
const BYTES: u32 = 32;

/// Bytes on the stack in which this many vectors can be spilled, at multiples of their size.
pub(crate) fn room_for(n_spills: u32) -> u32 {
    BYTES * (n_spills + 1)
}

/// How far below a multiple of 64 a function's frame pointer is where the runtime enters it: it has
/// pushed the return address and the old one.
const FRAME_POINTER: u32 = 16;

/// Why code could not be made wider.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// More room is needed for spills: this many of 32 bytes.
    Spills(u32),
    /// An instruction is not known.
    Unknown(String),
}

/// Makes the code of a function that was just compiled use 256 bits, and returns it.
pub(crate) fn widen(
    compiled: &CompiledCode,
    merged: &Merged,
    room: u32,
) -> Result<Vec<u8>, Refused> {
    let n_spills = room / BYTES - 1;
    let buffer = &compiled.buffer;
    let frame = buffer.frame_layout().expect("the function has a frame");
    let spills = frame.stackslots[merged.spills].offset;
    let below = FRAME_POINTER + frame.frame_to_fp_offset - spills;
    let at = |place: SourceLoc| {
        let srclocs = buffer.get_srclocs_sorted().iter();
        srclocs.filter(move |range| range.loc == place)
    };
    let accesses = |marks: &'static [TrapCode]| {
        let traps = buffer.traps().iter();
        let marked = traps.filter(move |trap| marks.contains(&trap.code));
        marked.map(|trap| trap.offset).collect::<FxHashSet<u32>>()
    };
    let mut widening = Widening {
        signs: merged.signs,
        is_behind_jump: false,
        code: compiled.code_buffer().to_vec(),
        wide: accesses(&[WIDE, WIDE_MASKED]),
        widened: accesses(&[WIDENED]),
        clear: at(clearing()).map(|range| range.start).collect(),
        tests: at(test_of_both())
            .map(|range| range.start..range.end)
            .collect(),
        n_tests: 0,
        first_spill: spills + below % BYTES,
        n_spills,
        spills: FxHashMap::default(),
        constants: FxHashMap::default(),
    };
    if widening.wide.len() != merged.n_wide {
        return Err(Refused::Unknown("an access without its mark".to_owned()));
    }
    let end = widening.code.len() as u32;
    let ends = compiled.bb_starts.iter().skip(1).copied().chain([end]);
    for (start, end) in compiled.bb_starts.iter().copied().zip(ends) {
        widening.block(start, end)?;
    }
    if widening.n_tests != merged.n_tests {
        return Err(Refused::Unknown("a test without its mark".to_owned()));
    }
    match widening.spills.len() as u32 {
        count if count > n_spills => Err(Refused::Spills(count)),
        _ => Ok(widening.code),
    }
}

struct Widening {
    /// The last instruction was a conditional jump.
    is_behind_jump: bool,
    signs: Signs,
    code: Vec<u8>,
    /// Accesses of 256 bits.
    wide: FxHashSet<u32>,
    /// Loads of 128 bits that may be operands of instructions that widen.
    widened: FxHashSet<u32>,
    /// Fences that clear the upper halves.
    clear: FxHashSet<u32>,
    /// Where the tests of both halves of a mask are, in ascending order, and how many were met.
    tests: Vec<Range<u32>>,
    n_tests: usize,
    first_spill: u32,
    n_spills: u32,
    /// New places of what is saved on the stack, by the old ones: in 32 bytes.
    spills: FxHashMap<u32, u32>,
    /// Places of repeated constants.
    constants: FxHashMap<u32, u32>,
}

impl Widening {
    fn block(&mut self, start: u32, end: u32) -> Result<(), Refused> {
        let code = self.code[start as usize..end as usize].to_vec();
        let mut decoder = Decoder::with_ip(64, &code, u64::from(start), DecoderOptions::NONE);
        let mut inst = Instruction::default();
        while decoder.can_decode() {
            let before = inst;
            decoder.decode_out(&mut inst);
            if inst.is_invalid() {
                return Err(Refused::Unknown(format!(
                    "no instruction at {:#x}",
                    inst.ip()
                )));
            }
            let offsets = decoder.get_constant_offsets(&inst);
            let displacement = (offsets.displacement_size() == 4)
                .then(|| inst.ip() as u32 + offsets.displacement_offset() as u32);
            self.inst(&inst, displacement)?;
            if is_load_for(&before, &inst) {
                let place = before.ip() as usize..inst.next_ip() as usize;
                broadcast_from_memory(&mut self.code[place], before.len());
            }
            self.is_behind_jump = inst.flow_control() == FlowControl::ConditionalBranch;
            if !goes_on(&inst, end) {
                break;
            }
        }
        Ok(())
    }

    fn inst(&mut self, inst: &Instruction, displacement: Option<u32>) -> Result<(), Refused> {
        let at = inst.ip() as u32;
        let is_test = self.is_test(at);
        let bytes = &mut self.code[at as usize..at as usize + inst.len()];
        if self.clear.contains(&at) && inst.mnemonic() == M::Mfence {
            // vzeroupper
            bytes.copy_from_slice(&[0xc5, 0xf8, 0x77]);
            return Ok(());
        }
        let vectors = (0..inst.op_count())
            .filter(|&op| inst.op_kind(op) == OpKind::Register && inst.op_register(op).is_xmm());
        if vectors.count() == 0 {
            return Ok(());
        }
        let refused = || Err(Refused::Unknown(format!("{:?}", inst.code())));
        let has_memory = (0..inst.op_count()).any(|op| inst.op_kind(op) == OpKind::Memory);
        let is_wide = self.wide.contains(&at);
        if !matches!(bytes[0], 0xc4 | 0xc5 | 0x62) {
            return self.older(inst, displacement, has_memory && is_wide);
        }
        match (inst.mnemonic(), bytes[inst.len() - 1]) {
            (M::Vpalignr, by) if by == self.signs.join => {
                join_halves(bytes);
                return Ok(());
            }
            (M::Vpalignr, by) if by == self.signs.second && !has_memory => {
                take_second(bytes);
                return Ok(());
            }
            (M::Vpalignr, by) if by == self.signs.exchange && !has_memory => {
                exchange_quarters(bytes);
                return Ok(());
            }
            (M::Vpalignr, by) if [self.signs.second, self.signs.exchange].contains(&by) => {
                return refused();
            }
            _ => {}
        }
        if matches!(inst.mnemonic(), M::Vptest | M::Vpmovmskb) && is_test {
            if has_memory {
                return refused();
            }
            self.n_tests += 1;
            set_wide(bytes);
            return Ok(());
        }
        match class(inst.mnemonic()) {
            Class::Broadcast => set_wide(bytes),
            Class::LaneWise if !has_memory => set_wide(bytes),
            // With the later prefix, small displacements are counted in vectors.
            Class::LaneWise if is_wide && (bytes[0] != 0x62 || displacement.is_some()) => {
                set_wide(bytes)
            }
            Class::LaneWise if inst.memory_base() == Register::RIP => {
                set_wide(bytes);
                let Some(displacement) = displacement else {
                    return refused();
                };
                self.repeat_constant(inst, displacement);
            }
            Class::Widening => return self.lanes_to_wide(inst, displacement),
            Class::LaneWise | Class::Half if !is_wide => {}
            Class::LaneWise | Class::Half | Class::Unknown => return refused(),
        }
        Ok(())
    }

    /// Has an instruction that makes lanes twice as wide take 128 bits. A load that is its operand
    /// has them if it has one of the marks; a constant always does.
    fn lanes_to_wide(
        &mut self,
        inst: &Instruction,
        displacement: Option<u32>,
    ) -> Result<(), Refused> {
        let at = inst.ip() as u32;
        let bytes = &mut self.code[at as usize..at as usize + inst.len()];
        let has_memory = (0..inst.op_count()).any(|op| inst.op_kind(op) == OpKind::Memory);
        let is_marked = self.wide.contains(&at) || self.widened.contains(&at);
        match has_memory {
            true if !is_marked && inst.memory_base() != Register::RIP => {}
            // With the later prefix, small displacements are counted in operands.
            true if bytes[0] == 0x62 && displacement.is_none() => {
                return Err(Refused::Unknown(format!("{:?}", inst.code())));
            }
            true | false => set_wide(bytes),
        }
        Ok(())
    }

    /// An instruction that is encoded in the older way.
    fn older(
        &mut self,
        inst: &Instruction,
        displacement: Option<u32>,
        is_wide: bool,
    ) -> Result<(), Refused> {
        let at = inst.ip() as usize;
        let bytes = &mut self.code[at..at + inst.len()];
        let is_saved = inst.memory_base() == Register::RSP && !is_wide;
        match (inst.mnemonic(), displacement) {
            (M::Movdqa | M::Movdqu, Some(displacement))
                if is_saved && inst.memory_index() == Register::None =>
            {
                encode_move(bytes);
                self.move_spill(inst, displacement);
                Ok(())
            }
            (M::Movdqa, None) if inst.memory_base() == Register::None => {
                encode_move(bytes);
                Ok(())
            }
            // A selection by a condition, which is one of halves.
            (M::Movaps | M::Movapd, _) if self.is_behind_jump => Ok(()),
            (mnemonic, _) if is_scalar(mnemonic) => Ok(()),
            _ => Err(Refused::Unknown(format!("{:?}", inst.code()))),
        }
    }

    /// Whether both halves of a mask are tested here.
    fn is_test(&self, at: u32) -> bool {
        let number = self.tests.partition_point(|range| range.end <= at);
        self.tests
            .get(number)
            .is_some_and(|range| range.contains(&at))
    }

    /// Gives a register that is saved its new place.
    fn move_spill(&mut self, inst: &Instruction, displacement: u32) {
        let old = inst.memory_displacement64() as u32;
        let next = self.spills.len() as u32;
        let number = *self.spills.entry(old).or_insert(next);
        if number < self.n_spills {
            self.put(displacement, self.first_spill + BYTES * number);
        }
    }

    /// Makes an instruction use a constant that is in both halves.
    fn repeat_constant(&mut self, inst: &Instruction, displacement: u32) {
        let old = inst.memory_displacement64() as u32;
        let code = &mut self.code;
        let new = *self.constants.entry(old).or_insert_with(|| {
            let constant: [u8; 16] = code[old as usize..old as usize + 16]
                .try_into()
                .expect("16 bytes");
            code.resize(code.len().next_multiple_of(2 * constant.len()), 0);
            let place = code.len() as u32;
            code.extend(constant);
            code.extend(constant);
            place
        });
        self.put(displacement, new.wrapping_sub(inst.next_ip() as u32));
    }

    fn put(&mut self, at: u32, word: u32) {
        self.code[at as usize..at as usize + 4].copy_from_slice(&word.to_le_bytes());
    }
}

/// Whether an instruction loads nothing but what the next one broadcasts.
fn is_load_for(load: &Instruction, broadcast: &Instruction) -> bool {
    load.code() == Code::VEX_Vmovss_xmm_m32
        && broadcast.code() == Code::VEX_Vbroadcastss_xmm_xmm
        && load.op0_register() == broadcast.op1_register()
        && load.op0_register() == broadcast.op0_register()
        && load.next_ip() == broadcast.ip()
        && load.memory_base() != Register::RIP
}

/// Whether the instructions of a block up to `end` go on behind this one. Behind the last there may
/// be tables of targets, and constants; some of Cranelift's instructions have jumps inside.
#[expect(clippy::wildcard_enum_match_arm, reason = "the enum is the decoder's")]
pub(crate) fn goes_on(inst: &Instruction, end: u32) -> bool {
    match inst.flow_control() {
        FlowControl::UnconditionalBranch => {
            (inst.next_ip()..=u64::from(end)).contains(&inst.near_branch_target())
        }
        FlowControl::IndirectBranch | FlowControl::Return | FlowControl::Exception => false,
        _ => true,
    }
}

/// The instructions as text, by the beginnings of their blocks.
pub(crate) fn listing(code: &[u8], starts: &[u32]) -> String {
    let mut formatter = IntelFormatter::new();
    let mut text = String::new();
    let ends = starts.iter().skip(1).copied().chain([code.len() as u32]);
    for (start, end) in starts.iter().copied().zip(ends) {
        let _ = writeln!(text, "{start:#x}:");
        let code = &code[start as usize..end as usize];
        let decoder = Decoder::with_ip(64, code, u64::from(start), DecoderOptions::NONE);
        for inst in decoder {
            text.push_str("  ");
            formatter.format(&inst, &mut text);
            text.push('\n');
            if !goes_on(&inst, end) {
                break;
            }
        }
    }
    text
}

/// Makes an instruction with a VEX or EVEX prefix one of 256 bits.
fn set_wide(bytes: &mut [u8]) {
    match bytes[0] {
        0xc5 => bytes[1] |= 0b100,
        0xc4 => bytes[2] |= 0b100,
        _ => bytes[3] |= 0b10_0000,
    }
}

/// Makes `66 [REX] 0f 6f`, `f3 [REX] 0f 6f` and the same with `7f` instructions with a VEX prefix
/// of 256 bits, which are equally long.
fn encode_move(bytes: &mut [u8]) {
    // Of the prefixes: 1 for 66, 2 for f3.
    let prefix = if bytes[0] == 0x66 { 0b01 } else { 0b10 };
    // No further operand, 256 bits.
    let rest = 0b0111_1100 | prefix;
    if bytes[1] & 0xf0 == 0x40 {
        let rex = bytes[1];
        bytes[0] = 0xc4;
        // The bits of the registers, inverted, then the map of instructions.
        bytes[1] = (!rex & 0b111) << 5 | 1;
        bytes[2] = rest;
    } else {
        bytes[0] = 0xc5;
        bytes[1] = 0b1000_0000 | rest;
    }
}

/// Makes one instruction of 256 bits of a load, of so many bytes, and the broadcast of what was
/// loaded behind it, which Cranelift keeps apart if several instructions use it.
fn broadcast_from_memory(code: &mut [u8], load: usize) {
    let old = code[..load].to_vec();
    // The inverted bits that extend the registers of the value and of the address, behind the
    // prefix; then what follows the opcode.
    let (extensions, operands) = match old[0] {
        0xc5 => (old[1] & 0x80 | 0x60, &old[3..]),
        _ => (old[1] & 0xe0, &old[4..]),
    };
    let len = 4 + operands.len();
    // Prefixes of segments, which mean nothing here, fill the rest: no instruction of its own.
    let (rest, new) = code.split_at_mut(code.len() - len);
    rest.fill(0x3e);
    new[..4].copy_from_slice(&[0xc4, extensions | 2, 0x7d, 0x18]);
    new[4..].copy_from_slice(operands);
}

/// Makes a `vpalignr` the `vinserti128` that joins two halves.
fn join_halves(bytes: &mut [u8]) {
    set_wide(bytes);
    bytes[3] = 0x38;
    bytes[bytes.len() - 1] = 1;
}

/// Makes `vpalignr r, x, x, n` a `vextracti128 r, x, 1`.
fn take_second(bytes: &mut [u8]) {
    let (prefix, modrm) = (bytes[1], bytes[4]);
    // The two fields for registers change places.
    let (r, b) = (prefix >> 7 & 1, prefix >> 5 & 1);
    bytes[1] = prefix & 0b0101_1111 | b << 7 | r << 5;
    bytes[2] = 0b0111_1101;
    bytes[3] = 0x39;
    bytes[4] = 0b1100_0000 | (modrm & 0b111) << 3 | modrm >> 3 & 0b111;
    bytes[5] = 1;
}

/// Makes `vpalignr r, x, x, n` a `vpermq r, x, 0b11_01_10_00`.
fn exchange_quarters(bytes: &mut [u8]) {
    bytes[2] = 0b1111_1101;
    bytes[3] = 0x00;
    bytes[5] = 0b1101_1000;
}

/// What may become of an instruction on vectors.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Class {
    /// Does the same with each lane, or with each 128 bits.
    LaneWise,
    /// Makes all lanes of one.
    Broadcast,
    /// Makes lanes twice as wide, of 64 bits or of 128.
    Widening,
    /// Does something with one lane, with all lanes together, or between lanes of different sizes:
    /// only with the first half.
    Half,
    Unknown,
}

#[rustfmt::skip]
#[expect(clippy::wildcard_enum_match_arm, reason = "the enum is the decoder's")]
fn class(mnemonic: M) -> Class {
    match mnemonic {
        M::Vmovdqu | M::Vmovdqa | M::Vmovups | M::Vmovaps | M::Vmovupd | M::Vmovapd
            | M::Vaddps | M::Vaddpd | M::Vsubps | M::Vsubpd | M::Vmulps | M::Vmulpd | M::Vdivps | M::Vdivpd
            | M::Vsqrtps | M::Vsqrtpd | M::Vminps | M::Vminpd | M::Vmaxps | M::Vmaxpd
            | M::Vandps | M::Vandpd | M::Vandnps | M::Vandnpd | M::Vorps | M::Vorpd | M::Vxorps | M::Vxorpd
            | M::Vcmpps | M::Vcmppd | M::Vroundps | M::Vroundpd | M::Vblendvps | M::Vblendvpd
            | M::Vcvtdq2ps | M::Vcvtps2dq | M::Vcvttps2dq
            | M::Vfmadd132ps | M::Vfmadd213ps | M::Vfmadd231ps | M::Vfmadd132pd | M::Vfmadd213pd | M::Vfmadd231pd
            | M::Vfmsub132ps | M::Vfmsub213ps | M::Vfmsub231ps | M::Vfmsub132pd | M::Vfmsub213pd | M::Vfmsub231pd
            | M::Vfnmadd132ps | M::Vfnmadd213ps | M::Vfnmadd231ps | M::Vfnmadd132pd | M::Vfnmadd213pd | M::Vfnmadd231pd
            | M::Vfnmsub132ps | M::Vfnmsub213ps | M::Vfnmsub231ps | M::Vfnmsub132pd | M::Vfnmsub213pd | M::Vfnmsub231pd
            | M::Vpand | M::Vpandn | M::Vpor | M::Vpxor | M::Vpblendvb | M::Vpblendw | M::Vpshufb | M::Vpshufd
            | M::Vpaddb | M::Vpaddw | M::Vpaddd | M::Vpaddq | M::Vpsubb | M::Vpsubw | M::Vpsubd | M::Vpsubq
            | M::Vpaddsb | M::Vpaddsw | M::Vpaddusb | M::Vpaddusw | M::Vpsubsb | M::Vpsubsw | M::Vpsubusb | M::Vpsubusw
            | M::Vpavgb | M::Vpavgw | M::Vpmullw | M::Vpmulld | M::Vpmullq | M::Vpmuludq | M::Vpmuldq
            | M::Vpminsb | M::Vpminsw | M::Vpminsd | M::Vpminub | M::Vpminuw | M::Vpminud
            | M::Vpmaxsb | M::Vpmaxsw | M::Vpmaxsd | M::Vpmaxub | M::Vpmaxuw | M::Vpmaxud
            | M::Vpunpcklbw | M::Vpunpcklwd | M::Vpunpckldq | M::Vpunpcklqdq | M::Vpunpckhbw | M::Vpunpckhwd | M::Vpunpckhdq | M::Vpunpckhqdq
            | M::Vunpcklps | M::Vunpckhps | M::Vunpcklpd | M::Vunpckhpd | M::Vpopcntb
            | M::Vshufps | M::Vshufpd | M::Vpermilps | M::Vpermilpd | M::Vpshuflw | M::Vpshufhw | M::Vpalignr | M::Vpslldq | M::Vpsrldq
            | M::Vpacksswb | M::Vpackssdw | M::Vpackuswb | M::Vpackusdw
            | M::Vpmaddwd | M::Vpmaddubsw | M::Vpmulhw | M::Vpmulhuw | M::Vpmulhrsw | M::Vphaddw | M::Vphaddd | M::Vpsadbw
            | M::Vcvtudq2ps | M::Vpsraq | M::Vpabsq | M::Vpsrlvd | M::Vpsllvd | M::Vpsravd | M::Vpsrlvq | M::Vpsllvq
            | M::Vpabsb | M::Vpabsw | M::Vpabsd
            | M::Vpcmpeqb | M::Vpcmpeqw | M::Vpcmpeqd | M::Vpcmpeqq | M::Vpcmpgtb | M::Vpcmpgtw | M::Vpcmpgtd | M::Vpcmpgtq
            | M::Vpsllw | M::Vpslld | M::Vpsllq | M::Vpsrlw | M::Vpsrld | M::Vpsrlq | M::Vpsraw | M::Vpsrad => Class::LaneWise,
        M::Vpmovsxbw | M::Vpmovsxwd | M::Vpmovsxdq | M::Vpmovzxbw | M::Vpmovzxwd | M::Vpmovzxdq => Class::Widening,
        M::Vbroadcastss | M::Vbroadcastsd | M::Vpbroadcastb | M::Vpbroadcastw | M::Vpbroadcastd | M::Vpbroadcastq => Class::Broadcast,
        M::Vmovd | M::Vmovq | M::Vmovss | M::Vmovsd | M::Vmovddup | M::Vmovhlps | M::Vmovlhps | M::Vmovlps | M::Vmovhps
            | M::Vpextrb | M::Vpextrw | M::Vpextrd | M::Vpextrq | M::Vpinsrb | M::Vpinsrw | M::Vpinsrd | M::Vpinsrq
            | M::Vpermi2b | M::Vinsertps | M::Vextractps | M::Vptest | M::Vmovmskps | M::Vmovmskpd | M::Vpmovmskb
            | M::Vpmovsxbd | M::Vpmovsxbq | M::Vpmovsxwq | M::Vpmovzxbd | M::Vpmovzxbq | M::Vpmovzxwq
            | M::Vcvtps2pd | M::Vcvtpd2ps | M::Vcvtdq2pd | M::Vcvttpd2dq | M::Vcvtpd2dq
            | M::Vaddss | M::Vaddsd | M::Vsubss | M::Vsubsd | M::Vmulss | M::Vmulsd | M::Vdivss | M::Vdivsd
            | M::Vsqrtss | M::Vsqrtsd | M::Vminss | M::Vminsd | M::Vmaxss | M::Vmaxsd | M::Vroundss | M::Vroundsd
            | M::Vcmpss | M::Vcmpsd | M::Vucomiss | M::Vucomisd | M::Vcomiss | M::Vcomisd
            | M::Vcvtss2sd | M::Vcvtsd2ss | M::Vcvtsi2ss | M::Vcvtsi2sd
            | M::Vcvtss2si | M::Vcvtsd2si | M::Vcvttss2si | M::Vcvttsd2si
            | M::Vfmadd132ss | M::Vfmadd213ss | M::Vfmadd231ss | M::Vfmadd132sd | M::Vfmadd213sd | M::Vfmadd231sd
            | M::Vfmsub132ss | M::Vfmsub213ss | M::Vfmsub231ss | M::Vfmsub132sd | M::Vfmsub213sd | M::Vfmsub231sd
            | M::Vfnmadd132ss | M::Vfnmadd213ss | M::Vfnmadd231ss | M::Vfnmadd132sd | M::Vfnmadd213sd | M::Vfnmadd231sd
            | M::Vfnmsub132ss | M::Vfnmsub213ss | M::Vfnmsub231ss | M::Vfnmsub132sd | M::Vfnmsub213sd | M::Vfnmsub231sd => Class::Half,
        _ => Class::Unknown,
    }
}

/// Instructions on scalars, as Cranelift encodes them in the older way.
fn is_scalar(mnemonic: M) -> bool {
    matches!(
        mnemonic,
        M::Movd
            | M::Movq
            | M::Movss
            | M::Movsd
            | M::Ucomiss
            | M::Ucomisd
            | M::Cvtss2si
            | M::Cvtsd2si
            | M::Cvttss2si
            | M::Cvttsd2si
    )
}

#[cfg(test)]
mod tests {
    use super::{broadcast_from_memory, encode_move, exchange_quarters, set_wide, take_second};

    /// Instructions before and after, as an assembler writes them.
    fn check(change: fn(&mut [u8]), before: &[u8], after: &[u8]) {
        let mut code = before.to_vec();
        change(&mut code);
        assert_eq!(code, after);
    }

    #[test]
    fn moves_get_the_later_prefix() {
        // movdqa xmm0, xmm1; movdqa xmm8, xmm9; movdqu [rsp + 0x80], xmm8.
        check(
            encode_move,
            &[0x66, 0x0f, 0x6f, 0xc1],
            &[0xc5, 0xfd, 0x6f, 0xc1],
        );
        check(
            encode_move,
            &[0x66, 0x45, 0x0f, 0x6f, 0xc1],
            &[0xc4, 0x41, 0x7d, 0x6f, 0xc1],
        );
        check(
            encode_move,
            &[0xf3, 0x44, 0x0f, 0x7f, 0x84, 0x24, 0x80, 0, 0, 0],
            &[0xc4, 0x61, 0x7e, 0x7f, 0x84, 0x24, 0x80, 0, 0, 0],
        );
    }

    #[test]
    fn scalars_are_broadcast_from_memory() {
        // vmovss xmm2, [rdi + 4]; vbroadcastss xmm2, xmm2 becomes vbroadcastss ymm2, [rdi + 4].
        check(
            |code| broadcast_from_memory(code, 5),
            &[0xc5, 0xfa, 0x10, 0x57, 0x04, 0xc4, 0xe2, 0x79, 0x18, 0xd2],
            &[0x3e, 0x3e, 0x3e, 0x3e, 0xc4, 0xe2, 0x7d, 0x18, 0x57, 0x04],
        );
        // vmovss xmm9, [r14 + r10]; vbroadcastss xmm9, xmm9 becomes vbroadcastss ymm9, [r14 + r10].
        check(
            |code| broadcast_from_memory(code, 6),
            &[
                0xc4, 0x01, 0x7a, 0x10, 0x0c, 0x16, 0xc4, 0x42, 0x79, 0x18, 0xc9,
            ],
            &[
                0x3e, 0x3e, 0x3e, 0x3e, 0x3e, 0xc4, 0x02, 0x7d, 0x18, 0x0c, 0x16,
            ],
        );
    }

    #[test]
    fn the_second_half_is_taken_out() {
        // vpalignr xmm8, xmm1, xmm1, 13 becomes vextracti128 xmm8, ymm1, 1.
        check(
            take_second,
            &[0xc4, 0x63, 0x71, 0x0f, 0xc1, 0x0d],
            &[0xc4, 0xc3, 0x7d, 0x39, 0xc8, 0x01],
        );
    }

    #[test]
    fn quarters_are_exchanged() {
        // vpalignr xmm8, xmm1, xmm1, 13 becomes vpermq ymm8, ymm1, 0xd8.
        check(
            exchange_quarters,
            &[0xc4, 0x63, 0x71, 0x0f, 0xc1, 0x0d],
            &[0xc4, 0x63, 0xfd, 0x00, 0xc1, 0xd8],
        );
    }

    #[test]
    fn prefixes_say_how_wide() {
        // vaddps xmm0, xmm1, xmm2; vpmulld xmm0, xmm1, xmm9; vpmullq xmm0, xmm1, xmm2;
        // vpmovzxbw xmm0, [r9 + rax], which becomes vpmovzxbw ymm0, [r9 + rax].
        check(
            set_wide,
            &[0xc5, 0xf0, 0x58, 0xc2],
            &[0xc5, 0xf4, 0x58, 0xc2],
        );
        check(
            set_wide,
            &[0xc4, 0xc2, 0x71, 0x40, 0xc1],
            &[0xc4, 0xc2, 0x75, 0x40, 0xc1],
        );
        check(
            set_wide,
            &[0x62, 0xf2, 0xf5, 0x08, 0x40, 0xc2],
            &[0x62, 0xf2, 0xf5, 0x28, 0x40, 0xc2],
        );
        check(
            set_wide,
            &[0xc4, 0xc2, 0x79, 0x30, 0x04, 0x01],
            &[0xc4, 0xc2, 0x7d, 0x30, 0x04, 0x01],
        );
    }
}
