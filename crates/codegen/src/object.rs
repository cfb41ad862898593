//! From what Cranelift compiled to a part of an object.

use cranelift_codegen::binemit::Reloc as ClifReloc;
use cranelift_codegen::ir::{self as cl, ExternalName};
use cranelift_codegen::{CompiledCode, FinalizedMachReloc, FinalizedRelocTarget};
use ptxjit_abi::object::{Function, Helper, Reloc, RelocKind, Target};

/// Namespaces of external names: the object's functions, functions of ours, instructions that are
/// evaluated by call, products of matrices.
pub(crate) const FUNCTIONS: u32 = 1;
pub(crate) const HELPERS: u32 = 2;
pub(crate) const KEPT: u32 = 3;
pub(crate) const PRODUCTS: u32 = 4;

/// The kinds that can be stored, and Cranelift's.
const RELOC_KINDS: &[(RelocKind, ClifReloc)] = &[
    (RelocKind::Abs4, ClifReloc::Abs4),
    (RelocKind::Abs8, ClifReloc::Abs8),
    (RelocKind::X86PcRel4, ClifReloc::X86PCRel4),
    (RelocKind::X86CallPcRel4, ClifReloc::X86CallPCRel4),
    (RelocKind::Arm64Call, ClifReloc::Arm64Call),
    (
        RelocKind::Aarch64AdrGotPage21,
        ClifReloc::Aarch64AdrGotPage21,
    ),
    (
        RelocKind::Aarch64Ld64GotLo12Nc,
        ClifReloc::Aarch64Ld64GotLo12Nc,
    ),
    (
        RelocKind::Aarch64AdrPrelPgHi21,
        ClifReloc::Aarch64AdrPrelPgHi21,
    ),
    (
        RelocKind::Aarch64AddAbsLo12Nc,
        ClifReloc::Aarch64AddAbsLo12Nc,
    ),
];

/// Cranelift's name for a kind of reference.
pub(crate) fn clif_kind(kind: RelocKind) -> ClifReloc {
    let pair = RELOC_KINDS.iter().find(|&&(ours, _)| ours == kind);
    pair.expect("every kind is in the list").1
}

/// Takes over a function that Cranelift compiled, with these bytes, which go to the end of `code`.
pub(crate) fn function(
    func: &cl::Function,
    compiled: &CompiledCode,
    bytes: &[u8],
    code: &mut Vec<u8>,
) -> Result<Function, String> {
    code.extend_from_slice(bytes);
    let relocs = compiled.buffer.relocs().iter();
    Ok(Function {
        size: bytes.len() as u32,
        align: compiled.buffer.alignment,
        relocs: relocs
            .map(|found| reloc(func, found))
            .collect::<Result<_, _>>()?,
    })
}

fn reloc(func: &cl::Function, reloc: &FinalizedMachReloc) -> Result<Reloc, String> {
    let target = match &reloc.target {
        FinalizedRelocTarget::Func(offset) => Target::Inside(*offset),
        FinalizedRelocTarget::ExternalName(ExternalName::User(name)) => {
            let name = &func.params.user_named_funcs()[*name];
            match name.namespace {
                FUNCTIONS => Target::Function(name.index),
                HELPERS => Target::Helper(Helper::ALL[name.index as usize]),
                KEPT => Target::Kept(name.index),
                PRODUCTS => Target::Products(name.index),
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
    let kind = RELOC_KINDS.iter().find(|&&(_, kind)| kind == reloc.kind);
    let &(kind, _) = kind.ok_or_else(|| format!("code has a relocation {:?}", reloc.kind))?;
    Ok(Reloc {
        at: reloc.offset,
        kind,
        target,
        addend: reloc.addend,
    })
}
