//! The host as Cranelift sees it.

use std::fmt::Write;
use std::sync::OnceLock;

use cranelift_codegen::ir::{Function, Inst, Opcode, types};
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_codegen::settings::{self, Configurable};

use crate::clif;
use crate::compile::CompileError;
use crate::wide::{self, Masks};

/// How instructions are selected and registers allocated.
#[derive(Copy, Clone, Default)]
pub(crate) struct Selection {
    /// Registers are allocated in one pass.
    pub in_one_pass: bool,
    /// Products of lanes that were widened from 32 to 64 bits matter more than those of other lanes
    /// of 64 bits. Where a processor has an instruction for these (`vpmullq`), Cranelift takes it
    /// for all, although `pmuldq` and `pmuludq` need no widening and have a third of its latency.
    pub widens_factors: bool,
}

impl Selection {
    /// What is best for a function. Each kind of product, with the instructions that are made for
    /// the other kind, takes two conversions and a long product, or three short products and five
    /// instructions around them.
    pub(crate) fn of(func: &Function, in_one_pass: bool) -> Selection {
        let is_product = |&inst: &Inst| {
            func.dfg.insts[inst].opcode() == Opcode::Imul
                && func.dfg.value_type(func.dfg.first_result(inst)) == types::I64X2
        };
        let (widened, others): (Vec<Inst>, Vec<Inst>) = clif::insts(func)
            .filter(is_product)
            .partition(|&inst| wide::is_of_widened(func, inst));
        Selection {
            in_one_pass,
            widens_factors: widened.len() > 2 * others.len(),
        }
    }
}

/// The host's instruction set.
pub(crate) fn isa(selection: Selection) -> Result<OwnedTargetIsa, CompileError> {
    static MADE: [OnceLock<Result<OwnedTargetIsa, String>>; 4] = [const { OnceLock::new() }; 4];
    let number = usize::from(selection.in_one_pass) + 2 * usize::from(selection.widens_factors);
    MADE[number]
        .get_or_init(|| make(selection))
        .clone()
        .map_err(CompileError::Host)
}

fn make(selection: Selection) -> Result<OwnedTargetIsa, String> {
    let mut flags = settings::builder();
    // Scheduling is ours: the optimizer would sink pure operations behind loads.
    let set = [
        ("opt_level", "none"),
        // A frame that does not fit the stack meets the guard page, not what lies beyond.
        ("enable_probestack", "true"),
        ("probestack_strategy", "inline"),
        ("is_pic", "false"),
        // Where blocks begin, which `ymm` has to know.
        ("machine_code_cfg_info", "true"),
        (
            "regalloc_algorithm",
            match selection.in_one_pass {
                true => "single_pass",
                false => "backtracking",
            },
        ),
        (
            "enable_verifier",
            if cfg!(debug_assertions) {
                "true"
            } else {
                "false"
            },
        ),
    ];
    for (name, value) in set {
        flags.set(name, value).map_err(|error| error.to_string())?;
    }
    let mut builder = cranelift_native::builder().map_err(str::to_owned)?;
    if selection.widens_factors && cfg!(target_arch = "x86_64") {
        builder
            .set("has_avx512dq", "false")
            .map_err(|error| error.to_string())?;
    }
    builder
        .finish(settings::Flags::new(flags))
        .map_err(|error| error.to_string())
}

/// What code is compiled for, beside the instruction set: part of the options, so that the compiler
/// itself asks neither the processor nor the environment.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct Target {
    /// Bits of a vector: 128 or 256. With 256 there are fused multiply-adds and masked stores.
    pub vector_bits: u32,
    /// Whether stores can have a mask in a register for masks. Some processors take five times as
    /// long for one with a mask in a vector.
    pub has_mask_registers: bool,
    /// Whether 16-byte compare-and-swap exists.
    pub wide_cas: bool,
}

impl Target {
    /// The host, with vectors of at most `most_bits` bits.
    pub fn host(most_bits: u32) -> Target {
        let is_wide = has_256_bits() && most_bits >= 256;
        Target {
            vector_bits: if is_wide { 256 } else { 128 },
            has_mask_registers: is_wide && has_mask_registers(),
            wide_cas: has_wide_cas(),
        }
    }

    /// Where masks are when lanes are stored.
    pub(crate) fn masks(self) -> Masks {
        match self.has_mask_registers {
            true => Masks::Registers,
            false => Masks::Vectors,
        }
    }

    /// Lanes of 32 bits that a register holds.
    pub(crate) fn lanes_of_vector(self) -> usize {
        self.vector_bits as usize / 32
    }
}

#[cfg(target_arch = "x86_64")]
fn has_256_bits() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_256_bits() -> bool {
    false
}

#[cfg(target_arch = "x86_64")]
fn has_mask_registers() -> bool {
    is_x86_feature_detected!("avx512vl") && is_x86_feature_detected!("avx512dq")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_mask_registers() -> bool {
    false
}

#[cfg(target_arch = "x86_64")]
fn has_wide_cas() -> bool {
    is_x86_feature_detected!("cmpxchg16b")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_wide_cas() -> bool {
    false
}

/// Everything that code depends on beside the program: the code generator's version, the
/// processor's features. Stored code may be used where this text is the same.
pub fn describe(target: Target) -> Result<String, CompileError> {
    let isa = isa(Selection::default())?;
    let mut text = format!(
        "cranelift {}, {}, vectors of {} bits",
        cranelift_codegen::VERSION,
        isa.triple(),
        target.vector_bits
    );
    for flag in isa.isa_flags() {
        write!(text, ", {flag}").expect("writing to a string");
    }
    Ok(text)
}
