//! The choice of the gang width, by rules that `dump --after gang` explains.
//!
//! Wide gangs share more scalar work between lanes and have more contiguous accesses. But every
//! vector of a value takes a register of the sixteen, so long code and 64-bit arithmetic prefer
//! narrow ones.

use std::time::Instant;

use ptxjit_ir::{FloatFmt, Function, InstData, MemSem, Program, Space, WarpOp};
use ptxjit_passes::effort::Spent;

use crate::compile::CompileError;
use crate::host::Target;
use crate::weigh::{self, Weights};

/// Threads of a warp.
const WARP: u32 = 32;

/// Kernels with more instructions than this have at most 8 lanes, and above the second number at
/// most those of one vector: they take long to compile in many parts and do not keep them in
/// registers.
const LONG: usize = 1200;
const VERY_LONG: usize = 2000;

/// The most lanes for launches of few threads, and where each of these may do much.
const TINY: u32 = 8;
const TINY_STRIP_MINED: u32 = 16;

/// Kernels with fewer instructions than this may be spread over a whole warp. In longer ones each
/// further lane costs compile time and registers.
const SHORT: usize = 250;

/// Divergent branches in a loop: with more, some lane of a wide gang nearly always takes another
/// path.
const FEW_DIVERGENCES: usize = 8;

/// Vectors of 128 bits that may be live around a loop: as many as there are registers.
const LOOP_VECTORS: usize = 16;

/// The same with 256 bits. Spilled ones cost half as much per lane, so some more pay.
const LOOP_WIDE_VECTORS: usize = 22;

/// A gang width and the reasons for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GangChoice {
    /// Lanes.
    pub gang: u32,
    /// Lanes for launches of few threads, which end before the code of a wide gang would be
    /// compiled.
    pub tiny: u32,
    /// The reasons, in the order in which the rules were applied.
    pub reasons: Vec<String>,
}

/// The gang width that suits an optimized kernel in blocks of this shape; an error only if the time
/// runs out.
pub fn choose(
    program: &Program,
    block: [u32; 3],
    target: Target,
    until: Option<Instant>,
) -> Result<GangChoice, CompileError> {
    match by_rules(program, block, target, until) {
        Ok(choice) => Ok(choice),
        Err(Spent::Work) => Ok(GangChoice {
            gang: 1,
            tiny: 1,
            reasons: vec!["the control flow is too complex for gangs".to_owned()],
        }),
        Err(Spent::Time) => Err(CompileError::Time),
    }
}

fn by_rules(
    program: &Program,
    block: [u32; 3],
    target: Target,
    until: Option<Instant>,
) -> Result<GangChoice, Spent> {
    let traits = Traits::of(program);
    let threads = block.iter().map(|&n| u64::from(n)).product::<u64>();
    let only = |gang, reason: &str| GangChoice {
        gang,
        tiny: traits.tiny(gang),
        reasons: vec![reason.to_owned()],
    };
    if program.lockstep {
        return Ok(whole_warps(only(WARP, "its warps run in lockstep")));
    }
    if threads == 1 {
        return Ok(only(1, "a block has one thread"));
    }
    // The threads of a warp do without a barrier between them: on GPUs each access is one of the
    // whole warp, on which programs rely also where PTX does not promise it any more (`sm_70` and
    // above). It is one of the orders that PTX allows.
    if traits.stores_volatile && traits.loads_volatile {
        let reason = "threads of a warp may hand values over through volatile shared memory";
        return Ok(whole_warps(only(WARP, reason)));
    }
    if traits.exchanges && threads >= u64::from(WARP) {
        if traits.insts < LONG {
            return Ok(only(
                WARP,
                "threads of a warp exchange values, which costs much across gangs",
            ));
        }
        if weigh::warp_ops_need_no_wait(program, block, until)? {
            let reason = "threads of a warp exchange values, mostly all of them together";
            return Ok(whole_warps(only(WARP, reason)));
        }
    }
    let (mut most, reason) = traits.widest(target);
    let mut reasons = vec![reason];
    let mut is_strip_mined = false;
    if traits.insts < VERY_LONG {
        let weights = Weights::of(program, block, until)?;
        if weights.is_gather_bound() && !traits.has_barriers {
            return Ok(only(
                1,
                "its threads leave loops in different iterations, and mostly gather in them",
            ));
        }
        if weights.searches && !traits.has_barriers {
            return Ok(only(
                1,
                "its threads leave loops in different iterations, and mostly access local memory there",
            ));
        }
        is_strip_mined = weights.is_strip_mined;
        most = by_weights(&traits, &weights, target, (most, &mut reasons));
    }
    let gang = within_rows(most, block[0], &mut reasons);
    Ok(GangChoice {
        gang,
        // In a loop over all that the grid has left, each of a few threads may do much.
        tiny: match is_strip_mined {
            true => gang.min(TINY_STRIP_MINED),
            false => traits.tiny(gang),
        },
        reasons,
    })
}

/// The width by what loops do, from the one before.
fn by_weights(
    traits: &Traits,
    weights: &Weights,
    target: Target,
    (mut most, reasons): (u32, &mut Vec<String>),
) -> u32 {
    let lanes = target.lanes_of_vector();
    // Two vectors per value.
    let few = 2 * lanes as u32;
    if weights.computes && most > few {
        most = few;
        let why = "long arithmetic between accesses to memory";
        reasons.push(format!("at most {few}: {why}"));
    } else if let Some(why) = traits.widens(weights) {
        most = WARP;
        *reasons = vec![format!("at most 32: {why}")];
    }
    let words = weights.live_words;
    while !weights.is_strip_mined
        && most as usize > lanes
        && words * most as usize / lanes > loop_vectors(target)
    {
        most /= 2;
        reasons.push(format!(
            "at most {most}: a loop keeps {words} words of each thread live"
        ));
    }
    // A vector takes few instructions, beside which the scalar ones of a gang are many. Words that
    // are spilled cost less than these.
    if most == few && traits.insts < SHORT && !weights.computes && weights.streams {
        most = WARP;
        reasons.push(format!("at most {most}: a short kernel that streams"));
    }
    most
}

/// A choice that holds for launches of few threads, too.
fn whole_warps(choice: GangChoice) -> GangChoice {
    GangChoice {
        tiny: WARP,
        ..choice
    }
}

/// The widest gang of at most this many lanes that stays within a row of threads: it has one
/// `%tid.y`, and consecutive lanes are neighbors in x.
fn within_rows(most: u32, row: u32, reasons: &mut Vec<String>) -> u32 {
    let fits = |gang: &u32| *gang <= most && row.is_multiple_of(*gang);
    match [32, 16, 8, 4].into_iter().find(fits) {
        Some(gang) => {
            if gang < most {
                reasons.push(format!("{gang} divides rows of {row} threads"));
            }
            gang
        }
        None => {
            reasons.push(format!("no width divides rows of {row} threads"));
            most.min(8)
        }
    }
}

fn loop_vectors(target: Target) -> usize {
    match target.vector_bits {
        256 => LOOP_WIDE_VECTORS,
        _ => LOOP_VECTORS,
    }
}

/// The properties that the choice is based on.
#[derive(Default)]
struct Traits {
    insts: usize,
    /// Float arithmetic of 64 bits, and of fewer.
    wide: usize,
    narrow: usize,
    /// Has warp operations that exchange values.
    exchanges: bool,
    has_barriers: bool,
    /// Has calls, in which the lanes of a gang diverge.
    has_calls: bool,
    /// Has volatile accesses of memory that may be shared.
    loads_volatile: bool,
    stores_volatile: bool,
}

impl Traits {
    fn of(program: &Program) -> Traits {
        let mut traits = Traits::default();
        for func in program.functions.values() {
            traits.add(func);
        }
        traits
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "others do not count")]
    fn add(&mut self, func: &Function) {
        for &inst in func.blocks.values().flat_map(|block| &block.insts) {
            self.insts += 1;
            match func.insts[inst].data {
                InstData::FloatUnary { fmt, .. }
                | InstData::FloatBinary { fmt, .. }
                | InstData::Fma { fmt, .. } => match fmt {
                    FloatFmt::F64 => self.wide += 1,
                    FloatFmt::F16 | FloatFmt::Bf16 | FloatFmt::F32 => self.narrow += 1,
                },
                InstData::Barrier { .. } => self.has_barriers = true,
                InstData::Call { .. } | InstData::CallIndirect { .. } => self.has_calls = true,
                InstData::Warp { op, .. } => self.exchanges |= op != WarpOp::ActiveMask,
                InstData::Load {
                    space: Space::Shared | Space::Generic,
                    sem: MemSem::Volatile,
                    ..
                } => self.loads_volatile = true,
                InstData::Store {
                    space: Space::Shared | Space::Generic,
                    sem: MemSem::Volatile,
                    ..
                } => self.stores_volatile = true,
                _ => {}
            }
        }
    }

    /// Lanes for launches of few threads, where others have `gang`. Code with calls is long: each
    /// call saves the live values of all lanes.
    fn tiny(&self, gang: u32) -> u32 {
        match self.has_calls {
            true => 1,
            false => gang.min(TINY),
        }
    }

    /// Why a short kernel may be spread over a whole warp, if it may.
    fn widens(&self, weights: &Weights) -> Option<&'static str> {
        let stays_together = weights.divergences <= FEW_DIVERGENCES;
        if self.insts >= SHORT {
            None
        } else if weights.is_strip_mined && stays_together {
            Some("a loop steps widely through memory, where neighbors share cache lines")
        } else if self.has_barriers {
            Some("a short kernel with barriers, at which each gang costs the same")
        } else if weights.lane_loops {
            Some("a short kernel that mostly consists of lane loops")
        } else if weights.gathers > 0 && stays_together {
            Some("a short kernel with loops that gather, which lanes wait for together")
        } else if weights.only_moves {
            Some("a short kernel that mostly moves bytes")
        } else if weights.has_bytes && weights.arithmetic == 0 {
            // Lanes that leave a loop in different iterations wait for the last of them.
            Some("a short kernel that works on bytes, of which vectors hold many")
        } else {
            None
        }
    }

    /// The most lanes whose values are likely to stay in registers.
    fn widest(&self, target: Target) -> (u32, String) {
        let insts = self.insts;
        if insts >= VERY_LONG {
            let most = target.lanes_of_vector() as u32;
            (
                most,
                format!("at most {most}: the kernel has {insts} instructions"),
            )
        } else if insts >= LONG {
            (8, format!("at most 8: the kernel has {insts} instructions"))
        } else if self.wide > self.narrow {
            (
                8,
                "at most 8: most of its arithmetic has 64 bits".to_owned(),
            )
        } else {
            (
                16,
                "at most 16: moderate length, mostly 32-bit arithmetic".to_owned(),
            )
        }
    }
}
