//! From a program to an object.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::isa::CallConv;
use cranelift_codegen::timing::{self, Pass, Profiler};
use cranelift_codegen::{CodegenError, CompiledCode, Context};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use ptxjit_ir::{self as ir, Program, SrcLoc};
use ptxjit_passes::effort::{Effort, Spent};
use ptxjit_vectorize::heuristics::{Heuristic, Switches};
use ptxjit_vectorize::{self as vectorize, Plan, Wait, WaitKind};

use crate::decisions;
use crate::gang;
use crate::host::{self, Selection, Target};
use crate::limits::{self, Growth};
use crate::link;
use crate::lower::{self, Inputs};
use crate::object::function;
use crate::planned::{self, Planned, Runs};
use crate::wide::{self, LaneInserts, MachineCode, Masks};
use ptxjit_abi::object::{Function, Head, Object};
use ptxjit_abi::{CompileStats, CompiledKernel, Facts};

/// Code with more CLIF instructions than this may start in the baseline tier: the optimizing tier's
/// register allocation takes over three milliseconds for it.
const MOST_AT_ONCE: usize = 1000;

/// The same where few threads will run the code: register allocation would take more than half a
/// millisecond, and the launch hardly longer.
const MOST_FOR_FEW: usize = 300;

/// Units of effort for a plan for gangs: some hundred blocks that branch to each other at random
/// take as many, and structured code of hundreds of thousands of instructions.
const MOST_WORK: u64 = 3_000_000;

/// The same for single lanes, whose plan only orders the blocks.
const MOST_WORK_FOR_ONE: u64 = 2_000_000_000;

/// How to compile.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct CompileOptions {
    /// Gang width: 1, 4, 8, 16, 32, or none to let the cost model choose.
    pub gang: Option<u32>,
    /// Launch facts.
    pub facts: Facts,
    /// Call `check_access` before every access.
    pub memcheck: bool,
    /// Make every access of the program, in its order: code that watches accesses is among them.
    pub keeps_accesses: bool,
    /// Ask `outside` about addresses that are not in the arena, instead of taking them for a fault.
    pub foreign: bool,
    /// When the code may be of the baseline tier, see [`CompiledKernel::is_quick`].
    pub baseline: BaselineTier,
    /// The code goes on where code [for whole gangs](CompiledKernel::whole_gangs) has stopped,
    /// which was not too complex: so this is not either, and has the same width.
    pub goes_on: bool,
    /// What the code is for.
    pub target: Target,
    /// Heuristics of the vectorizer that may act.
    pub switches: Switches,
    /// When to give up.
    pub until: Option<Instant>,
}

/// When code starts in the baseline tier, which compiles fast, instead of the optimizing tier,
/// whose code runs fast.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum BaselineTier {
    /// Never.
    Never,
    /// If it is long.
    LongCode,
    /// Unless it is short: few threads will run it first.
    UnlessShort,
}

impl BaselineTier {
    /// Whether code of so many CLIF instructions starts there.
    fn is_for(self, n_insts: usize) -> bool {
        match self {
            BaselineTier::Never => false,
            BaselineTier::LongCode => n_insts > MOST_AT_ONCE,
            BaselineTier::UnlessShort => n_insts > MOST_FOR_FEW,
        }
    }
}

/// Why a program could not be compiled.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// The gang width is none of 1, 4, 8, 16, 32.
    #[error("a gang has 1, 4, 8, 16 or 32 lanes, not {0}")]
    BadGang(u32),
    /// The kernel needs lockstep warps, and the width asked for is not the warp's.
    #[error("this kernel relies on warps that run in lockstep: only `--gang 32` runs it, not {0}")]
    NeedsLockstep(u32),
    /// The host's processor is not supported.
    #[error("this processor is not supported: {0}")]
    Host(String),
    /// The control flow, or the code, is beyond what is compiled.
    #[error("it is too complex: {0}")]
    TooComplex(String),
    /// [`CompileOptions::until`] passed.
    #[error("the time limit passed while the kernel was compiled")]
    Time,
    /// The system has no memory for the code.
    #[error("no memory for code: {0}")]
    Place(String),
    /// Cranelift refused our code.
    #[error("internal error: the code generator failed: {0}")]
    Internal(String),
}

impl From<Spent> for CompileError {
    fn from(spent: Spent) -> CompileError {
        match spent {
            Spent::Work => CompileError::TooComplex(
                "branches and loops take more than the work that is allowed for a plan".to_owned(),
            ),
            Spent::Time => CompileError::Time,
        }
    }
}

/// Compiles the kernel of an optimised program.
pub fn compile(
    program: &Program,
    options: &CompileOptions,
) -> Result<CompiledKernel, CompileError> {
    place_own(compile_object(program, options)?)
}

/// Compiles, and keeps listings of CLIF and machine code.
pub fn compile_listing(
    program: &Program,
    options: &CompileOptions,
) -> Result<CompiledKernel, CompileError> {
    place_own(object(program, options, true)?)
}

/// Compiles what can be stored, and placed in memory here or in another process.
pub fn compile_object(program: &Program, options: &CompileOptions) -> Result<Object, CompileError> {
    object(program, options, false)
}

#[expect(unsafe_code, reason = "places an object that was just made")]
fn place_own(object: Object) -> Result<CompiledKernel, CompileError> {
    // SAFETY: the object was made by this process.
    unsafe { link::place(object) }
}

/// A kernel that is too complex for gangs is compiled for single lanes: that takes little effort
/// whatever the control flow, and the results are the same. Only warps in lockstep need their
/// width.
fn object(
    program: &Program,
    options: &CompileOptions,
    listings: bool,
) -> Result<Object, CompileError> {
    let gang = checked_gang(program, options)?;
    match object_of(program, options, gang, listings) {
        Err(CompileError::TooComplex(why)) if gang > 1 && !program.lockstep => {
            let mut object = object_of(program, options, 1, listings)?;
            let note = format!("one lane at a time, not {gang}: {why}");
            object.notes.insert(0, note.clone());
            object.head.narrowed = Some(note);
            Ok(object)
        }
        other => other,
    }
}

/// What a compilation for gangs of this width may spend.
pub(crate) fn effort(gang: u32, goes_on: bool, until: Option<Instant>) -> Effort {
    let units = match gang {
        _ if goes_on => u64::MAX,
        1 => MOST_WORK_FOR_ONE,
        _ => MOST_WORK,
    };
    Effort::new(units, until)
}

fn object_of(
    program: &Program,
    options: &CompileOptions,
    gang: u32,
    listings: bool,
) -> Result<Object, CompileError> {
    let start = Instant::now();
    let effort = effort(gang, options.goes_on, options.until);
    let shared = match options.memcheck {
        true => ir::SharedLayout::apart(program),
        false => ir::SharedLayout::new(program),
    };
    let Planned {
        function,
        entries,
        mut plan,
    } = planned::planned(program, options, gang, (&shared, Runs::Code), &effort)?;
    let met = decisions::mask_classes::met_by_all(&function, &plan);
    plan.forget_waits(&met.always, &met.again);
    let space_of = |var: ir::VarId| {
        program
            .vars
            .get(&var)
            .map_or(ir::Space::Global, |var| var.space)
    };
    let align_of = |var: ir::VarId| program.vars.get(&var).map_or(1, |var| var.align);
    let mut inputs = Inputs {
        func: &function,
        plan: &plan,
        shared: &shared,
        space_of: &space_of,
        align_of: &align_of,
        memcheck: options.memcheck,
        foreign: options.foreign,
        has_masked_stores: false,
        target: options.target,
        flush_denormals: crate::denormals::all_flush(&function),
        one_dimensional: options.facts.one_dimensional,
        clusters: options.facts.clusters,
        whole_gangs: options.facts.whole_gangs && stay_whole(&plan, &entries),
        switches: options.switches,
        lists: listings,
    };
    let vectorize = start.elapsed();
    for is_wide in [gang > 4 && options.target.vector_bits == 256, false] {
        let mut compiler = Compiler::new((is_wide, options.target.masks()), listings);
        compiler.stats.vectorize = vectorize;
        inputs.has_masked_stores = is_wide;
        if let Some(object) = compiler.run(&inputs, options, shared.clone(), &effort)? {
            return Ok(object);
        }
    }
    unreachable!("vectors of 128 bits are never refused")
}

/// Whether the lanes of a gang mostly wait together, so that code for full gangs alone is worth it.
/// In calls that wait for lanes of other threads, and in loops that wait for other threads, lanes
/// diverge.
fn stay_whole(plan: &Plan, entries: &[ir::Block]) -> bool {
    let spins = |wait: &Wait| matches!(wait.kind, WaitKind::Yield);
    entries.is_empty() && !plan.waits.iter().any(spins)
}

/// The gang width to compile for: the one asked for, if it can be.
pub(crate) fn checked_gang(
    program: &Program,
    options: &CompileOptions,
) -> Result<u32, CompileError> {
    let gang = match options.gang {
        Some(gang) => gang,
        None => gang::choose(program, [0, 1, 1], options.target, options.until)?.gang,
    };
    match gang {
        1 | 4 | 8 | 16 | 32 if program.lockstep && gang != 32 => {
            Err(CompileError::NeedsLockstep(gang))
        }
        1 | 4 | 8 | 16 | 32 => Ok(gang),
        _ => Err(CompileError::BadGang(gang)),
    }
}

/// Cranelift's working memory, and what it has made so far.
struct Compiler {
    context: Context,
    builder: FunctionBuilderContext,
    /// The register allocator's.
    registers: regalloc2::Ctx,
    code: Vec<u8>,
    functions: Vec<Function>,
    /// Vectors may have 256 bits.
    is_wide: bool,
    masks: Masks,
    listings: Option<BTreeMap<&'static str, String>>,
    stats: CompileStats,
}

impl Compiler {
    fn new((is_wide, masks): (bool, Masks), listings: bool) -> Compiler {
        Compiler {
            context: Context::new(),
            builder: FunctionBuilderContext::new(),
            registers: regalloc2::Ctx::default(),
            code: Vec::new(),
            functions: Vec::new(),
            is_wide,
            masks,
            listings: listings.then(BTreeMap::new),
            stats: CompileStats::default(),
        }
    }

    /// None if the code is refused with vectors of 256 bits.
    fn run(
        mut self,
        inputs: &Inputs<'_>,
        options: &CompileOptions,
        shared: ir::SharedLayout,
        effort: &Effort,
    ) -> Result<Option<Object>, CompileError> {
        let start = Instant::now();
        let target = host::isa(Selection::default())?.frontend_config();
        self.context.func.signature = enter_signature();
        let builder = FunctionBuilder::new(&mut self.context.func, &mut self.builder);
        let growth = Growth::of(inputs.plan.gang, options.goes_on);
        let out = lower::kernel(inputs, builder, target, effort, &growth)?;
        self.stats.lower = start.elapsed();
        self.stats.clif_insts = self.context.func.dfg.num_insts();
        growth.check_all(&self.context.func)?;
        effort.check_time()?;
        let one_pass = limits::one_pass(&self.context.func);
        let may_be_quick = limits::check_one_pass(&self.context.func);
        // Code that would be no better is not compiled again.
        let quick = one_pass.is_none()
            && may_be_quick.is_ok()
            && options.baseline.is_for(self.stats.clif_insts);
        let in_one_pass = quick || one_pass.is_some();
        if in_one_pass {
            may_be_quick?;
        }
        if let Some(texts) = &mut self.listings {
            texts.insert("clif", self.context.func.display().to_string());
            texts.insert("gang", out.program.clone());
            self.context.set_disasm(true);
        }
        // Baseline code keeps nearly everything on the stack, and the search for pairs would take
        // longer than it saves.
        let is_wide = self.is_wide && !in_one_pass;
        let Some((locs, asm)) = self.define(in_one_pass, is_wide, &out.lane_inserts)? else {
            return Ok(None);
        };
        if let Some(texts) = &mut self.listings {
            texts.insert("asm", asm.unwrap_or_default());
        }
        for stub in &out.stubs {
            self.context.func.signature = stub.signature();
            let builder = FunctionBuilder::new(&mut self.context.func, &mut self.builder);
            lower::define_stub(*stub, builder, target);
            self.define(false, false, &[])?;
        }
        let notes = one_pass.map(|why| format!("registers are allocated in one pass: {why}"));
        let made = self.object(inputs, out, (options.facts, quick), shared);
        Ok(Some(Object {
            locs,
            notes: notes.into_iter().collect(),
            ..made
        }))
    }

    /// What was compiled, but for its places in the PTX, and what there is to say of it.
    fn object(
        self,
        inputs: &Inputs<'_>,
        out: lower::Outputs,
        (facts, quick): (Facts, bool),
        shared: ir::SharedLayout,
    ) -> Object {
        let (func, plan) = (inputs.func, inputs.plan);
        let mut acted = plan.acted.clone();
        acted.set(Heuristic::CtaRanges, out.n_tested_once);
        acted.set(Heuristic::CtaBranches, out.n_decided_once);
        let resume_points = (0..plan.waits.len())
            .map(|number| decisions::frame::resume_point(func, plan, &out.frame, number))
            .collect();
        Object {
            head: Head {
                gang: plan.gang,
                narrowed: None,
                facts,
                quick,
                functions: self.functions,
                kept: out.external.kept,
                products: out.external.products,
                resume_points,
                whole_gangs: inputs.whole_gangs,
                frame_size: out.frame.size,
                symbols: out.external.symbols,
                shared,
                local_static: out.local_static,
                uses_stack: out.uses_stack,
                flush_denormals: inputs.flush_denormals,
            },
            locs: Vec::new(),
            code: self.code,
            notes: Vec::new(),
            slow: out.slow.into_iter().collect(),
            listings: self.listings.map_or_else(Default::default, |mut listings| {
                listings.insert("vectorize", vectorize::print::plan(func, plan, &acted));
                listings.insert("heuristics", vectorize::print::summary(func, plan, &acted));
                listings
            }),
            stats: self.stats,
        }
    }

    /// Compiles the function that was just built, and clears it away. Returns its places in the
    /// PTX, and its listing; none if it is refused with vectors of 256 bits.
    #[expect(clippy::type_complexity, reason = "two unlike things")]
    fn define(
        &mut self,
        in_one_pass: bool,
        is_wide: bool,
        lane_inserts: &[LaneInserts],
    ) -> Result<Option<(Vec<(u32, SrcLoc)>, Option<String>)>, CompileError> {
        let isa = host::isa(Selection::of(&self.context.func, in_one_pass))?;
        let (start, before) = (Instant::now(), regalloc_time());
        let machine_code = MachineCode {
            context: &mut self.context,
            registers: &mut self.registers,
            masks: self.masks,
        };
        let compiled = machine_code.emit(&*isa, is_wide, lane_inserts);
        let compiled = compiled.map_err(|error| refused(error, &self.context))?;
        let Some((compiled, bytes)) = compiled else {
            return Ok(None);
        };
        let regalloc = regalloc_time() - before;
        self.stats.regalloc += regalloc;
        self.stats.select += start.elapsed().saturating_sub(regalloc);
        let locs = locations(&compiled);
        let asm = compiled.vcode.clone();
        let function = function(&self.context.func, &compiled, &bytes, &mut self.code);
        self.functions.push(function.map_err(internal)?);
        self.context.clear();
        Ok(Some((locs, asm)))
    }
}

thread_local! {
    static REGALLOC: Cell<Option<Duration>> = const { Cell::new(None) };
}

/// Time that this thread has spent in Cranelift's register allocation since the first call.
fn regalloc_time() -> Duration {
    if REGALLOC.get().is_none() {
        timing::set_thread_profiler(Box::new(Regalloc));
        REGALLOC.set(Some(Duration::ZERO));
    }
    REGALLOC.get().unwrap_or_default()
}

/// Measures one of Cranelift's passes.
struct Regalloc;

struct Running(Instant);

impl Profiler for Regalloc {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the enum is Cranelift's")]
    fn start_pass(&self, pass: Pass) -> Box<dyn std::any::Any> {
        match pass {
            Pass::regalloc => Box::new(Running(Instant::now())),
            _ => Box::new(()),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let sum = REGALLOC.get().unwrap_or_default();
        REGALLOC.set(Some(sum + self.0.elapsed()));
    }
}

pub(crate) fn internal(error: impl std::fmt::Debug) -> CompileError {
    CompileError::Internal(format!("{error:?}"))
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the enum is Cranelift's")]
fn refused(error: CodegenError, context: &Context) -> CompileError {
    match error {
        CodegenError::Verifier(errors) => CompileError::Internal(
            cranelift_codegen::print_errors::pretty_verifier_error(&context.func, None, errors),
        ),
        other => internal(other),
    }
}

fn enter_signature() -> cl::Signature {
    let mut sig = cl::Signature::new(CallConv::triple_default(&target_lexicon::Triple::host()));
    sig.params = [I64, I32, I32, I32].map(cl::AbiParam::new).to_vec();
    sig.returns.push(cl::AbiParam::new(I32));
    sig
}

fn locations(code: &CompiledCode) -> Vec<(u32, SrcLoc)> {
    let mut locs = Vec::new();
    let ranges = code.buffer.get_srclocs_sorted().iter();
    for range in ranges.filter(|range| !wide::is_mark(range.loc)) {
        locs.push((range.start, SrcLoc(range.loc.bits())));
        locs.push((range.end, SrcLoc(u32::MAX)));
    }
    locs.dedup_by(|next, kept| {
        let same_place = next.0 == kept.0;
        if same_place {
            kept.1 = next.1;
        }
        same_place
    });
    locs
}
