//! From a program to a kernel in executable memory.

#![expect(
    unsafe_code,
    reason = "turns finished code into a function pointer and frees it when the kernel is dropped"
)]

use std::collections::BTreeMap;

use cranelift_codegen::ir as cl;
use cranelift_codegen::isa::{CallConv, OwnedTargetIsa};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_codegen::{CodegenError, Context};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{FuncId, Linkage, Module};
use ptxjit_ir::{self as ir, InstData, Program, SrcLoc};
use ptxjit_passes::vectorize::{self, Plan, PlanFacts};

use crate::abi::{CompileOptions, CompiledKernel, EnterFn};
use crate::lower::{self, Inputs, Outputs, Stub};

/// Namespace of stubs among the names that a function imports.
pub(crate) const STUB_NAMESPACE: u32 = 1;

/// Why a program could not be compiled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
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
    /// Cranelift refused our code.
    #[error("internal error: the code generator failed: {0}")]
    Internal(String),
}

/// Executable memory, freed with the kernel.
struct Code {
    module: Option<JITModule>,
    /// Read by compiled code.
    _kept: Vec<Box<InstData>>,
}

// SAFETY: the module is only touched when the code is dropped, and the kept instructions are never changed.
unsafe impl Sync for Code {}

impl Drop for Code {
    fn drop(&mut self) {
        if let Some(module) = self.module.take() {
            // SAFETY: the kernel that owns this is gone, so nobody holds a pointer into the code.
            unsafe { module.free_memory() };
        }
    }
}

/// Compiles the kernel of an optimised program.
pub fn compile(
    program: &Program,
    options: &CompileOptions,
) -> Result<CompiledKernel, CompileError> {
    compile_listing(program, options, false)
}

/// Compiles, and keeps listings of CLIF and machine code if `listings`.
pub fn compile_listing(
    program: &Program,
    options: &CompileOptions,
    listings: bool,
) -> Result<CompiledKernel, CompileError> {
    let mut func = crate::calls::merge(program);
    let gang = checked_gang(program, options)?;
    let facts = PlanFacts {
        one_dimensional: options.facts.one_dimensional,
        whole_rows: options.facts.whole_rows,
        small_grid: options.facts.small_grid,
        small_ctaid: options.facts.small_ctaid,
    };
    let plan = vectorize::run(&mut func.function, &func.entries, gang, facts);
    let flush_denormals = crate::denormals::all_flush(&func.function);
    let shared = ir::SharedLayout::new(program);
    let space_of = |var: ir::VarId| {
        program
            .vars
            .get(&var)
            .map_or(ir::Space::Global, |var| var.space)
    };
    let inputs = Inputs {
        func: &func.function,
        plan: &plan,
        shared: &shared,
        space_of: &space_of,
        memcheck: options.memcheck,
        flush_denormals,
    };
    let built = build(&inputs, listings)?;
    Ok(finish(built, &inputs, options, shared.clone()))
}

/// The gang width to compile for: the one asked for, if it can be.
fn checked_gang(program: &Program, options: &CompileOptions) -> Result<u32, CompileError> {
    let gang = options
        .gang
        .unwrap_or_else(|| choose_gang(program, [0, 1, 1]));
    match gang {
        1 | 4 | 8 | 16 | 32 if program.lockstep && gang != 32 => {
            Err(CompileError::NeedsLockstep(gang))
        }
        1 | 4 | 8 | 16 | 32 => Ok(gang),
        _ => Err(CompileError::BadGang(gang)),
    }
}

/// The gang width that suits a kernel in blocks of this shape.
pub fn choose_gang(program: &Program, block: [u32; 3]) -> u32 {
    if program.lockstep {
        return 32;
    }
    let threads = block.iter().map(|&n| u64::from(n)).product::<u64>();
    if threads == 1 {
        return 1;
    }
    // A warp operation costs a hundred times as much where it must wait for other gangs.
    if meets_in_warps(program) && threads >= 32 {
        return 32;
    }
    let most = widest(program);
    // Gangs that stay within a row have one `%tid.y`, and lanes side by side.
    [16, 8, 4]
        .into_iter()
        .filter(|&gang| gang <= most)
        .find(|&gang| block[0].is_multiple_of(gang))
        .unwrap_or(most.min(8))
}

/// Whether a kernel of moderate size has warp operations that exchange values.
fn meets_in_warps(program: &Program) -> bool {
    let (mut n_insts, mut exchanges) = (0, false);
    for func in program.functions.values() {
        for &inst in func.blocks.values().flat_map(|block| &block.insts) {
            n_insts += 1;
            exchanges |= matches!(func.insts[inst].data, InstData::Warp { op, .. } if op != ir::WarpOp::ActiveMask);
        }
    }
    exchanges && n_insts < 1200
}

/// Long kernels take long to compile in many parts and do not keep them in registers; 64-bit floats take twice the registers.
fn widest(program: &Program) -> u32 {
    let insts = || {
        program.functions.values().flat_map(|func| {
            func.blocks
                .values()
                .flat_map(|block| block.insts.iter().map(|&inst| &func.insts[inst].data))
        })
    };
    let (mut wide, mut narrow) = (0usize, 0usize);
    for data in insts() {
        match *data {
            InstData::FloatUnary { fmt, .. }
            | InstData::FloatBinary { fmt, .. }
            | InstData::Fma { fmt, .. } => {
                if fmt == ir::FloatFmt::F64 {
                    wide += 1
                } else {
                    narrow += 1
                }
            }
            _ => {}
        }
    }
    match insts().count() {
        0..1200 if wide <= narrow => 16,
        0..4000 => 8,
        _ => 4,
    }
}

struct Built {
    module: JITModule,
    enter: FuncId,
    stubs: Vec<FuncId>,
    sizes: Vec<usize>,
    locs: Vec<(u32, SrcLoc)>,
    out: Outputs,
    listings: BTreeMap<&'static str, String>,
}

fn host_isa() -> Result<OwnedTargetIsa, CompileError> {
    let mut flags = settings::builder();
    // We schedule ourselves: the optimiser would sink pure operations behind loads.
    let set = [
        ("opt_level", "none"),
        ("is_pic", "false"),
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
        flags
            .set(name, value)
            .map_err(|error| CompileError::Internal(error.to_string()))?;
    }
    let builder =
        cranelift_native::builder().map_err(|error| CompileError::Host(error.to_owned()))?;
    builder
        .finish(settings::Flags::new(flags))
        .map_err(|error| CompileError::Host(error.to_string()))
}

fn internal(error: impl std::fmt::Debug) -> CompileError {
    CompileError::Internal(format!("{error:?}"))
}

fn build(inputs: &Inputs<'_>, listings: bool) -> Result<Built, CompileError> {
    let isa = host_isa()?;
    let target = isa.frontend_config();
    let mut module = JITModule::new(JITBuilder::with_isa(
        isa,
        cranelift_module::default_libcall_names(),
    ));
    let mut context = Context::new();
    let mut builder_context = FunctionBuilderContext::new();
    context.func.signature = enter_signature();
    let enter = module
        .declare_function("enter", Linkage::Local, &context.func.signature)
        .map_err(internal)?;
    let out = lower::kernel(
        inputs,
        FunctionBuilder::new(&mut context.func, &mut builder_context),
        target,
    );
    let stubs: Vec<FuncId> = out
        .stubs
        .iter()
        .map(|stub| {
            module
                .declare_function(&stub.name(), Linkage::Local, &Stub::signature())
                .map_err(internal)
        })
        .collect::<Result<_, _>>()?;
    bind_stubs(&mut context.func, &stubs);
    let mut texts = BTreeMap::new();
    if listings {
        texts.insert("clif", context.func.display().to_string());
        context.set_disasm(true);
    }
    module
        .define_function(enter, &mut context)
        .map_err(|error| internal_module(&error, &context))?;
    let code = context
        .compiled_code()
        .expect("the function was just compiled");
    let mut sizes = vec![code.code_info().total_size as usize];
    let locs = locations(code);
    if listings {
        texts.insert("asm", code.vcode.clone().unwrap_or_default());
    }
    module.clear_context(&mut context);
    for (stub, &id) in out.stubs.iter().zip(&stubs) {
        context.func.signature = Stub::signature();
        lower::define_stub(
            *stub,
            FunctionBuilder::new(&mut context.func, &mut builder_context),
            target,
        );
        module.define_function(id, &mut context).map_err(internal)?;
        sizes.push(
            context
                .compiled_code()
                .expect("just compiled")
                .code_info()
                .total_size as usize,
        );
        module.clear_context(&mut context);
    }
    module.finalize_definitions().map_err(internal)?;
    Ok(Built {
        module,
        enter,
        stubs,
        sizes,
        locs,
        out,
        listings: texts,
    })
}

fn internal_module(error: &cranelift_module::ModuleError, context: &Context) -> CompileError {
    match error {
        cranelift_module::ModuleError::Compilation(CodegenError::Verifier(errors)) => {
            CompileError::Internal(cranelift_codegen::print_errors::pretty_verifier_error(
                &context.func,
                None,
                errors.clone(),
            ))
        }
        other => internal(other),
    }
}

fn enter_signature() -> cl::Signature {
    let mut sig = cl::Signature::new(CallConv::triple_default(&target_lexicon::Triple::host()));
    sig.params = [
        cl::types::I64,
        cl::types::I32,
        cl::types::I32,
        cl::types::I32,
    ]
    .map(cl::AbiParam::new)
    .to_vec();
    sig.returns.push(cl::AbiParam::new(cl::types::I32));
    sig
}

/// The lowering names stubs by number; the module knows them by its own ids.
fn bind_stubs(func: &mut cl::Function, stubs: &[FuncId]) {
    let names: Vec<(cl::UserExternalNameRef, u32)> = func
        .params
        .user_named_funcs()
        .iter()
        .filter(|(_, name)| name.namespace == STUB_NAMESPACE)
        .map(|(name_ref, name)| (name_ref, name.index))
        .collect();
    for (name_ref, number) in names {
        func.params.reset_user_func_name(
            name_ref,
            cl::UserExternalName::new(0, stubs[number as usize].as_u32()),
        );
    }
}

fn locations(code: &cranelift_codegen::CompiledCode) -> Vec<(u32, SrcLoc)> {
    let mut locs = Vec::new();
    for range in code.buffer.get_srclocs_sorted() {
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

fn finish(
    built: Built,
    inputs: &Inputs<'_>,
    options: &CompileOptions,
    shared: ir::SharedLayout,
) -> CompiledKernel {
    let Built {
        module,
        enter,
        stubs,
        sizes,
        locs,
        out,
        listings,
    } = built;
    let plan: &Plan = inputs.plan;
    let start = module.get_finalized_function(enter);
    let starts: Vec<usize> = std::iter::once(enter)
        .chain(stubs)
        .map(|id| module.get_finalized_function(id) as usize)
        .collect();
    let first = starts.iter().copied().min().expect("there is an entry");
    let end = starts
        .iter()
        .zip(&sizes)
        .map(|(&start, &size)| start + size)
        .max()
        .expect("there is an entry");
    let shift = (start as usize - first) as u32;
    let locs = std::iter::once((0, SrcLoc(u32::MAX)))
        .chain(locs.into_iter().map(|(at, loc)| (at + shift, loc)))
        .collect();
    // SAFETY: `enter` was compiled with this very signature and its code lives as long as the kernel.
    let enter = unsafe { std::mem::transmute::<*const u8, EnterFn>(start) };
    let resume_points = (0..plan.waits.len())
        .map(|number| lower::resume_point(inputs.func, plan, &out.frame, number))
        .collect();
    CompiledKernel {
        gang: plan.gang,
        facts: options.facts,
        enter,
        code: first..end,
        locs,
        resume_points,
        frame_size: out.frame.size,
        symbols: out.symbols,
        shared,
        local_static: out.local_static,
        uses_stack: out.uses_stack,
        flush_denormals: inputs.flush_denormals,
        notes: crate::notes::of(inputs.func, plan),
        slow: out.slow.into_iter().collect(),
        listings,
        _module: Box::new(Code {
            module: Some(module),
            _kept: out.kept,
        }),
    }
}
