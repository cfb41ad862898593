//! The host as Cranelift sees it.

use std::fmt::Write;
use std::sync::OnceLock;

use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_codegen::settings::{self, Configurable};

use crate::compile::CompileError;

/// The host's instruction set, with registers allocated in one pass if wanted.
pub(crate) fn isa(in_one_pass: bool) -> Result<OwnedTargetIsa, CompileError> {
    static MADE: [OnceLock<Result<OwnedTargetIsa, String>>; 2] = [OnceLock::new(), OnceLock::new()];
    MADE[usize::from(in_one_pass)]
        .get_or_init(|| make(in_one_pass))
        .clone()
        .map_err(CompileError::Host)
}

fn make(in_one_pass: bool) -> Result<OwnedTargetIsa, String> {
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
            match in_one_pass {
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
    let builder = cranelift_native::builder().map_err(str::to_owned)?;
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
    /// Whether 16-byte compare-and-swap exists.
    pub wide_cas: bool,
}

impl Target {
    /// The host, with vectors of at most `most_bits` bits.
    pub fn host(most_bits: u32) -> Target {
        Target {
            vector_bits: match has_256_bits() && most_bits >= 256 {
                true => 256,
                false => 128,
            },
            wide_cas: has_wide_cas(),
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
    let isa = isa(false)?;
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
