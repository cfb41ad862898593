//! A compiled kernel that is not in its place yet: bytes of code, and what they refer to by name.
//!
//! Nothing in it depends on the process that made it, so it can be stored and used by another process of the same build.

use cranelift_codegen::binemit::Reloc as RelocKind;
use cranelift_codegen::ir::{self as cl, ExternalName};
use cranelift_codegen::{CompiledCode, FinalizedMachReloc, FinalizedRelocTarget};
use ptxjit_ir::{InstData, SharedLayout, SrcLoc};
use serde::{Deserialize, Serialize};

use crate::abi::{CompileStats, Facts, ResumePoint, SlowForm, SymbolRef};
use crate::helpers::Helper;
use crate::lower::put_in_prefetches;

/// Namespaces of external names: the object's functions, functions of ours, instructions that are evaluated by call.
pub(crate) const FUNCTIONS: u32 = 1;
pub(crate) const HELPERS: u32 = 2;
pub(crate) const KEPT: u32 = 3;

/// A compiled kernel before it is placed in memory.
pub struct Object {
    pub(crate) head: Head,
    /// Offsets in the first function, and the place in the PTX from there on.
    pub(crate) locs: Vec<(u32, SrcLoc)>,
    pub(crate) code: Vec<u8>,
    /// These are not stored.
    pub(crate) notes: Vec<String>,
    pub(crate) slow: Vec<(SrcLoc, SlowForm)>,
    pub(crate) listings: std::collections::BTreeMap<&'static str, String>,
    pub(crate) stats: CompileStats,
}

/// All but the long tables.
#[derive(Serialize, Deserialize)]
pub(crate) struct Head {
    pub gang: u32,
    pub narrowed: Option<String>,
    pub facts: Facts,
    pub quick: bool,
    /// `enter`, then stubs.
    pub functions: Vec<Function>,
    pub kept: Vec<InstData>,
    pub resume_points: Vec<ResumePoint>,
    pub whole_gangs: bool,
    pub frame_size: u32,
    pub symbols: Vec<SymbolRef>,
    pub shared: SharedLayout,
    pub local_static: u32,
    pub uses_stack: bool,
    pub flush_denormals: bool,
}

/// One function: bytes of the object's code, in order.
#[derive(Serialize, Deserialize)]
pub(crate) struct Function {
    pub size: u32,
    pub align: u32,
    pub relocs: Vec<Reloc>,
}

/// A place in a function that is filled in when the code is placed.
#[derive(Serialize, Deserialize)]
pub(crate) struct Reloc {
    pub at: u32,
    /// Position in [`RELOC_KINDS`].
    pub kind: u8,
    pub target: Target,
    pub addend: i64,
}

/// What a function refers to.
#[derive(Serialize, Deserialize)]
pub(crate) enum Target {
    /// A function of the object, by position.
    Function(u32),
    /// A place in the same function.
    Inside(u32),
    Helper(Helper),
    /// The address of a kept instruction, by position.
    Kept(u32),
    /// A function of the C library, by Cranelift's name for it.
    Libcall(String),
}

/// The kinds that can be stored, x86-64 then aarch64.
pub(crate) const RELOC_KINDS: &[RelocKind] = &[
    RelocKind::Abs4,
    RelocKind::Abs8,
    RelocKind::X86PCRel4,
    RelocKind::X86CallPCRel4,
    RelocKind::Arm64Call,
    RelocKind::Aarch64AdrGotPage21,
    RelocKind::Aarch64Ld64GotLo12Nc,
    RelocKind::Aarch64AdrPrelPgHi21,
    RelocKind::Aarch64AddAbsLo12Nc,
];

impl Function {
    /// Takes over a function that Cranelift compiled, with these bytes, which go to the end of `code`.
    pub(crate) fn new(
        func: &cl::Function,
        compiled: &CompiledCode,
        bytes: &[u8],
        code: &mut Vec<u8>,
    ) -> Result<Function, String> {
        let start = code.len();
        code.extend_from_slice(bytes);
        put_in_prefetches(compiled, &mut code[start..]);
        let relocs = compiled.buffer.relocs().iter();
        Ok(Function {
            size: bytes.len() as u32,
            align: compiled.buffer.alignment,
            relocs: relocs
                .map(|reloc| Reloc::new(func, reloc))
                .collect::<Result<_, _>>()?,
        })
    }
}

impl Reloc {
    fn new(func: &cl::Function, reloc: &FinalizedMachReloc) -> Result<Reloc, String> {
        let target = match &reloc.target {
            FinalizedRelocTarget::Func(offset) => Target::Inside(*offset),
            FinalizedRelocTarget::ExternalName(ExternalName::User(name)) => {
                let name = &func.params.user_named_funcs()[*name];
                match name.namespace {
                    FUNCTIONS => Target::Function(name.index),
                    HELPERS => Target::Helper(Helper::ALL[name.index as usize]),
                    KEPT => Target::Kept(name.index),
                    other => unreachable!("nothing is named in namespace {other}"),
                }
            }
            FinalizedRelocTarget::ExternalName(ExternalName::LibCall(libcall)) => {
                Target::Libcall(libcall.to_string())
            }
            FinalizedRelocTarget::ExternalName(other) => {
                return Err(format!("code refers to {other:?}"));
            }
        };
        let kind = RELOC_KINDS.iter().position(|&kind| kind == reloc.kind);
        let kind = kind.ok_or_else(|| format!("code has a relocation {:?}", reloc.kind))?;
        Ok(Reloc {
            at: reloc.offset,
            kind: kind as u8,
            target,
            addend: reloc.addend,
        })
    }
}

impl Object {
    /// The object as bytes, for [`Object::from_bytes`].
    pub fn to_bytes(&self) -> Vec<u8> {
        let head = serde_json::to_vec(&self.head).expect("only pure instructions are kept");
        let mut bytes = Vec::with_capacity(head.len() + 8 * self.locs.len() + self.code.len() + 8);
        bytes.extend((head.len() as u32).to_le_bytes());
        bytes.extend(head);
        bytes.extend((self.locs.len() as u32).to_le_bytes());
        for (at, loc) in &self.locs {
            bytes.extend(at.to_le_bytes());
            bytes.extend(loc.0.to_le_bytes());
        }
        bytes.extend(&self.code);
        bytes
    }

    /// Reads what [`Object::to_bytes`] wrote; none if it has another form.
    pub fn from_bytes(bytes: &[u8]) -> Option<Object> {
        let (head, rest) = split(bytes, 1)?;
        let head: Head = serde_json::from_slice(head).ok()?;
        let (locs, code) = split(rest, 8)?;
        let word = |bytes: &[u8]| bytes.try_into().map(u32::from_le_bytes).ok();
        let locs = locs
            .chunks_exact(8)
            .map(|pair| Some((word(&pair[..4])?, SrcLoc(word(&pair[4..])?))))
            .collect::<Option<_>>()?;
        let sizes = head.functions.iter().map(|func| func.size as usize);
        if sizes.sum::<usize>() != code.len() || head.functions.is_empty() {
            return None;
        }
        Some(Object {
            head,
            locs,
            code: code.to_vec(),
            notes: Vec::new(),
            slow: Vec::new(),
            listings: Default::default(),
            stats: CompileStats::default(),
        })
    }

    /// See [`crate::CompiledKernel::is_quick`].
    pub fn is_quick(&self) -> bool {
        self.head.quick
    }
}

/// The elements of `size` bytes that follow their count, and the rest.
fn split(bytes: &[u8], size: usize) -> Option<(&[u8], &[u8])> {
    let (count, rest) = bytes.split_at_checked(4)?;
    let count = u32::from_le_bytes(count.try_into().ok()?) as usize;
    rest.split_at_checked(count.checked_mul(size)?)
}
