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

use super::encode::{StandIn, broadcast_from_memory, encode_move, set_wide};
use super::masked::WIDE_MASKED;
use super::pairs::{Merged, Signs, WIDE, WIDENED, clearing, test_of_both};
use super::{blocks, operands};

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
    for (start, end) in blocks(compiled) {
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
        if inst.mnemonic() == M::Vpalignr
            && let Some(stood_in) = self.signs.stands_for(bytes)
        {
            return match has_memory && stood_in != StandIn::Join {
                true => refused(),
                false => {
                    stood_in.encode(bytes);
                    Ok(())
                }
            };
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
        _ if operands::is_arithmetic(mnemonic) => Class::LaneWise,
        M::Vmovdqu | M::Vmovdqa | M::Vmovups | M::Vmovaps | M::Vmovupd | M::Vmovapd
            | M::Vsqrtps | M::Vsqrtpd | M::Vroundps | M::Vroundpd | M::Vcvtdq2ps | M::Vcvtps2dq | M::Vcvttps2dq
            | M::Vpblendw | M::Vpshufb | M::Vpshufd
            | M::Vpaddsb | M::Vpaddsw | M::Vpaddusb | M::Vpaddusw | M::Vpsubsb | M::Vpsubsw | M::Vpsubusb | M::Vpsubusw
            | M::Vpavgb | M::Vpavgw | M::Vpmullq | M::Vpmuludq | M::Vpmuldq
            | M::Vpunpcklbw | M::Vpunpcklwd | M::Vpunpckldq | M::Vpunpcklqdq | M::Vpunpckhbw | M::Vpunpckhwd | M::Vpunpckhdq | M::Vpunpckhqdq
            | M::Vunpcklps | M::Vunpckhps | M::Vunpcklpd | M::Vunpckhpd | M::Vpopcntb
            | M::Vshufps | M::Vshufpd | M::Vpermilps | M::Vpermilpd | M::Vpshuflw | M::Vpshufhw | M::Vpalignr | M::Vpslldq | M::Vpsrldq
            | M::Vpacksswb | M::Vpackssdw | M::Vpackuswb | M::Vpackusdw
            | M::Vpmaddwd | M::Vpmaddubsw | M::Vpmulhw | M::Vpmulhuw | M::Vpmulhrsw | M::Vphaddw | M::Vphaddd | M::Vpsadbw
            | M::Vcvtudq2ps | M::Vpsraq | M::Vpabsq | M::Vpsrlvd | M::Vpsllvd | M::Vpsravd | M::Vpsrlvq | M::Vpsllvq
            | M::Vpabsb | M::Vpabsw | M::Vpabsd
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
