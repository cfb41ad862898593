//! From an object to a kernel in executable memory.

#![expect(
    unsafe_code,
    reason = "turns finished code into a function pointer that is valid as long as the kernel"
)]

use std::time::Instant;

use cranelift_codegen::ir::{LibCall, Signature};
use cranelift_codegen::isa::{CallConv, TargetIsa};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{FuncId, Linkage, Module, ModuleError, ModuleReloc, ModuleRelocTarget};
use ptxjit_abi::mma::Products;
use ptxjit_abi::object::{Function, Helper, Object, Reloc, RelocKind, Target};
use ptxjit_abi::{CompiledKernel, EnterFn, Placed};
use ptxjit_ir::{InstData, SrcLoc};

use crate::code_space::Block;
use crate::compile::{CompileError, internal};
use crate::helpers;
use crate::host::{self, Selection};
use crate::object::clif_kind;

/// Executable memory, freed with the kernel: nothing else holds a pointer into the code.
struct Code {
    /// Owns the block that the code lies in.
    _module: JITModule,
    /// Read by compiled code.
    #[expect(clippy::vec_box, reason = "compiled code holds the addresses")]
    _kept: Vec<Box<InstData>>,
    #[expect(clippy::vec_box, reason = "as above")]
    _products: Vec<Box<Products>>,
}

// SAFETY: the module is only touched when the code is dropped, and the kept instructions are never
// changed.
unsafe impl Sync for Code {}

/// Places the code in memory.
///
/// # Safety
///
/// The object is what [`crate::compile_object`] made for a host with the same [`crate::describe`],
/// in this process or in another one of the same build.
pub unsafe fn place(mut object: Object) -> Result<CompiledKernel, CompileError> {
    let start = Instant::now();
    let kept: Vec<Box<InstData>> = object.head.kept.iter().cloned().map(Box::new).collect();
    let products = object.head.products.iter().cloned();
    let products: Vec<Box<Products>> = products.map(Box::new).collect();
    let mut linker = Linker::new(&object, &kept, &products)?;
    linker.define(&object)?;
    let (module, functions) = (linker.module, linker.functions);
    let starts: Vec<usize> = functions
        .iter()
        .map(|&id| module.get_finalized_function(id) as usize)
        .collect();
    let sizes = object.head.functions.iter().map(|func| func.size as usize);
    let first = starts.iter().copied().min().expect("there is an entry");
    let end = starts.iter().zip(sizes).map(|(&start, size)| start + size);
    let end = end.max().expect("there is an entry");
    let shift = (starts[0] - first) as u32;
    let none = SrcLoc(u32::MAX);
    let locs = object.locs.iter().map(|&(at, loc)| (at + shift, loc));
    let locs = std::iter::once((0, none)).chain(locs).collect();
    // SAFETY: `enter` was compiled with this very signature, and its code lives as long as the
    // kernel.
    let enter = unsafe {
        std::mem::transmute::<*const u8, EnterFn>(module.get_finalized_function(functions[0]))
    };
    object.stats.code_bytes = object.code.len();
    object.stats.link = start.elapsed();
    let placed = Placed {
        enter,
        code: first..end,
        locs,
        module: Box::new(Code {
            _module: module,
            _kept: kept,
            _products: products,
        }),
    };
    Ok(CompiledKernel::new(object, placed))
}

/// What Cranelift puts behind a function for a call whose target lies too far away (aarch64).
const VENEER_BYTES: usize = 24;

/// Bytes that suffice for the pieces of an object, in any order.
fn room(object: &Object, isa: &dyn TargetIsa) -> usize {
    let least = u64::from(isa.function_alignment().minimum).max(isa.symbol_alignment());
    let piece = |func: &Function| {
        let far = |reloc: &&Reloc| reloc.kind == RelocKind::Arm64Call;
        let veneers = func.relocs.iter().filter(far).count() * VENEER_BYTES;
        func.size as usize + veneers + u64::from(func.align).max(least) as usize
    };
    object.head.functions.iter().map(piece).sum()
}

/// Whether a reference of this kind can name any address.
fn reaches_all(kind: RelocKind) -> bool {
    // Calls on aarch64 go through veneers where they must.
    matches!(kind, RelocKind::Abs8 | RelocKind::Arm64Call)
}

fn no_room(err: std::io::Error) -> CompileError {
    CompileError::Place(err.to_string())
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the enum is Cranelift's")]
fn not_placed(err: ModuleError) -> CompileError {
    match err {
        ModuleError::Allocation { err } => no_room(err),
        other => internal(other),
    }
}

/// The names of an object in a module of Cranelift's.
struct Linker {
    module: JITModule,
    functions: Vec<FuncId>,
    helpers: Vec<FuncId>,
    kept: Vec<FuncId>,
    products: Vec<FuncId>,
}

impl Linker {
    fn new(
        object: &Object,
        kept: &[Box<InstData>],
        products: &[Box<Products>],
    ) -> Result<Linker, CompileError> {
        let names = cranelift_module::default_libcall_names();
        let isa = host::isa(Selection::default())?;
        let block = Block::new(room(object, &*isa)).map_err(no_room)?;
        let mut builder = JITBuilder::with_isa(isa, names);
        builder.memory_provider(Box::new(block));
        for (number, helper) in Helper::ALL.iter().enumerate() {
            builder.symbol(format!("helper{number}"), helpers::address(*helper));
        }
        for (number, inst) in kept.iter().enumerate() {
            let address: *const InstData = &raw const **inst;
            builder.symbol(format!("inst{number}"), address.cast());
        }
        for (number, products) in products.iter().enumerate() {
            let address: *const Products = &raw const **products;
            builder.symbol(format!("products{number}"), address.cast());
        }
        let mut module = JITModule::new(builder);
        // Nothing looks at the signatures.
        let sig = Signature::new(CallConv::triple_default(&target_lexicon::Triple::host()));
        #[expect(
            clippy::result_large_err,
            reason = "Cranelift's error, which becomes ours at once"
        )]
        let mut declare = |kind: &str, count: usize, linkage: Linkage| {
            (0..count)
                .map(|number| module.declare_function(&format!("{kind}{number}"), linkage, &sig))
                .collect::<Result<Vec<FuncId>, _>>()
                .map_err(internal)
        };
        Ok(Linker {
            functions: declare("function", object.head.functions.len(), Linkage::Local)?,
            helpers: declare("helper", Helper::ALL.len(), Linkage::Import)?,
            kept: declare("inst", kept.len(), Linkage::Import)?,
            products: declare("products", products.len(), Linkage::Import)?,
            module,
        })
    }

    fn define(&mut self, object: &Object) -> Result<(), CompileError> {
        let mut rest = object.code.as_slice();
        for (number, func) in object.head.functions.iter().enumerate() {
            let (bytes, after) = rest
                .split_at_checked(func.size as usize)
                .ok_or_else(|| internal("an object with too little code"))?;
            rest = after;
            let id = self.functions[number];
            let relocs = func.relocs.iter().map(|reloc| self.reloc(id, reloc));
            let relocs = relocs.collect::<Result<Vec<_>, _>>()?;
            self.module
                .define_function_bytes(id, u64::from(func.align), bytes, &relocs)
                .map_err(not_placed)?;
        }
        self.module.finalize_definitions().map_err(not_placed)
    }

    fn reloc(&self, func: FuncId, reloc: &Reloc) -> Result<ModuleReloc, CompileError> {
        let missing = || internal("an object refers to what it does not have");
        let named = |ids: &[FuncId], number: usize| {
            let id = ids.get(number).ok_or_else(missing)?;
            Ok::<_, CompileError>(ModuleRelocTarget::user(0, id.as_u32()))
        };
        let name = match &reloc.target {
            Target::Function(number) => named(&self.functions, *number as usize)?,
            Target::Kept(number) => named(&self.kept, *number as usize)?,
            Target::Products(number) => named(&self.products, *number as usize)?,
            Target::Helper(helper) => named(&self.helpers, *helper as usize)?,
            Target::Inside(offset) => ModuleRelocTarget::FunctionOffset(func, *offset),
            Target::Libcall(name) => {
                ModuleRelocTarget::LibCall(name.parse::<LibCall>().map_err(|()| missing())?)
            }
        };
        let is_near = matches!(reloc.target, Target::Function(_) | Target::Inside(_));
        if !is_near && !reaches_all(reloc.kind) {
            return Err(internal("a reference by distance to what can lie anywhere"));
        }
        Ok(ModuleReloc {
            offset: reloc.at,
            kind: clif_kind(reloc.kind),
            name,
            addend: reloc.addend,
        })
    }
}
