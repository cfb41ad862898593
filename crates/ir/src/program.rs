//! What a kernel needs beside its code: variables, signatures, parameters, attributes.

use std::collections::BTreeMap;

use cranelift_entity::PrimaryMap;
use serde::{Deserialize, Serialize};

use crate::entities::{FuncId, SigId, VarId};
use crate::function::Function;
use crate::types::{Space, SrcLoc, Type};

/// One kernel and every device function it can reach.
#[derive(Clone, Debug)]
pub struct Program {
    /// The kernel.
    pub entry: FuncId,
    /// The kernel and the functions it can call, by module-wide number.
    pub functions: BTreeMap<FuncId, Function>,
    /// Signatures of indirect calls.
    pub sigs: PrimaryMap<SigId, Signature>,
    /// Functions whose address the module takes anywhere: what an indirect call may reach. All are
    /// in `functions` if the program has an indirect call.
    pub address_taken: Vec<FuncId>,
    /// Variables that the code names. `.shared` ones get their place in the CTA's window from their
    /// order here.
    pub vars: BTreeMap<VarId, Var>,
    /// The kernel's parameters.
    pub params: Vec<KernelParam>,
    /// The kernel's attributes.
    pub attrs: KernelAttrs,
    /// The code uses warp operations without `.sync` or volatile shared memory and its `.target` is
    /// below `sm_70`: its warps must run in lockstep.
    pub lockstep: bool,
    /// What is counted, if the program counts how often it is run ([`crate::InstData::Count`]).
    pub counters: Option<Counters>,
    /// The accesses that it tells profiles about ([`crate::TraceOp`]), by number.
    pub traced: Vec<Traced>,
}

/// An access that profiles are told about.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Traced {
    /// The statement that makes it.
    pub loc: SrcLoc,
    /// Bytes for each thread.
    pub bytes: u32,
    /// A read-modify-write.
    pub is_atomic: bool,
}

/// The counters of a program, by the statements that they are about.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// How many there are.
    pub n: u32,
    /// By the place of the statement.
    pub statements: BTreeMap<SrcLoc, Counted>,
    /// Of branches by an index: the threads that go to each target.
    pub tables: BTreeMap<SrcLoc, Vec<u32>>,
    /// Calls of each function, and threads that begin the kernel.
    pub functions: BTreeMap<FuncId, u32>,
}

/// The counters of a statement.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Counted {
    /// Threads that reach it.
    pub reached: u32,
    /// Of its guard, if it has one.
    pub guard: Option<Sides>,
    /// Of the predicate by which it selects a value, among the threads that execute it.
    pub choice: Option<Sides>,
}

/// What counts the sides of a condition.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Sides {
    /// Threads for which a predicate is true.
    pub counter: u32,
    /// The condition holds where the predicate is false.
    pub is_negated: bool,
}

/// Types of an indirect callee's parameters and results.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Signature {
    /// Parameter types after flattening.
    pub params: Vec<Type>,
    /// Result types after flattening.
    pub rets: Vec<Type>,
}

/// A kernel parameter's place in the parameter block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelParam {
    /// PTX name.
    pub name: String,
    /// Byte offset in the parameter block.
    pub offset: u32,
    /// Size in bytes.
    pub size: u32,
    /// Alignment in bytes.
    pub align: u32,
}

/// Performance-tuning directives and declared limits of a kernel.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KernelAttrs {
    /// `.maxntid`: greatest number of threads, as the product.
    pub max_threads: Option<u32>,
    /// `.reqntid`.
    pub req_ntid: Option<[u32; 3]>,
    /// `.reqnctapercluster`.
    pub req_cluster: Option<[u32; 3]>,
    /// `.explicitcluster`.
    pub explicit_cluster: bool,
    /// `.maxclusterrank`: CTAs that a cluster may have.
    pub max_cluster_rank: Option<u32>,
    /// `.blocksareclusters`: the grid of a launch counts clusters.
    pub blocks_are_clusters: bool,
}

/// A module-scope variable.
#[derive(Clone, Debug)]
pub struct Var {
    /// PTX name.
    pub name: String,
    /// `.global`, `.const` or `.shared`.
    pub space: Space,
    /// Size in bytes; 0 for `extern` arrays without size.
    pub size: u64,
    /// Alignment in bytes.
    pub align: u32,
    /// `.extern .shared name[]`: starts where the static shared memory ends, aliasing the other
    /// such names.
    pub dynamic_shared: bool,
    /// Declared `.extern` and not defined in this module.
    pub is_extern: bool,
}

/// The initial contents of a variable.
#[derive(Clone, Debug, Default)]
pub struct VarInit {
    /// Leading bytes; the rest is zero.
    pub bytes: Vec<u8>,
    /// Addresses to fill in.
    pub relocs: Vec<Reloc>,
}

/// An address inside an initialiser.
#[derive(Clone, Debug)]
pub struct Reloc {
    /// Byte offset in the variable.
    pub offset: u64,
    /// How many bytes of the address to write, little-endian.
    pub size: u8,
    /// Right shift applied to the address first (for `mask()` initialisers that place one byte).
    pub shift: u8,
    /// Whose address.
    pub target: RelocTarget,
    /// Added to the address.
    pub addend: i64,
    /// `generic(name)`; otherwise the address in the target's own space. Equal for `.global`.
    pub generic: bool,
}

/// Target of a relocation.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum RelocTarget {
    /// A variable.
    Var(VarId),
    /// A function's descriptor.
    Func(FuncId),
}

/// Where a program's `.shared` variables lie in the CTA's window.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SharedLayout {
    /// Window offset of each variable.
    pub offsets: BTreeMap<VarId, u32>,
    /// Bytes taken by variables of known size: dynamic shared memory starts here.
    pub static_size: u32,
    /// Offset and size of the variables of known size, in ascending order.
    pub objects: Vec<(u32, u32)>,
    /// So many of [`SharedLayout::static_size`] are only there to keep variables apart.
    pub padding: u32,
}

/// Bytes of local memory that a thread may have.
pub const MAX_LOCAL_BYTES: u64 = 512 << 10;

/// Bytes between shared variables that are kept apart, and what they may take in all: windows have
/// so much more room than a CTA may use.
const SHARED_GAP: u32 = 64;
const MAX_SHARED_PADDING: u32 = 8 << 10;

/// Static and dynamic shared memory that a CTA may have.
pub const MAX_SHARED_BYTES: u64 = 227 << 10;

/// CTAs that a cluster may have.
pub const MAX_CLUSTER: u32 = 16;

/// The shared memories of a cluster's CTAs lie in one window: that of the CTA with rank r begins at
/// offset `r << CTA_SHIFT`, and the CTA's own variables have addresses there. Programs rely on the
/// number: those that pair CTAs clear bit 24 of an address to name the even one.
pub const CTA_SHIFT: u32 = 24;

impl Program {
    /// What is wrong with the memory that a CTA and its threads need, whatever the launch: every
    /// engine has the same limits.
    pub fn check_sizes(&self) -> Result<(), String> {
        let shared = self.vars.values();
        let shared = shared.filter(|var| var.space == Space::Shared && !var.dynamic_shared);
        let shared = sum(shared.map(|var| (var.size, var.align)));
        if shared > MAX_SHARED_BYTES {
            return Err(format!(
                "{shared} bytes of shared memory are too many: the limit is {MAX_SHARED_BYTES}"
            ));
        }
        for func in self.functions.values() {
            let local = func.slots.values();
            let local = sum(local.map(|slot| (slot.size.into(), slot.align)));
            if local > MAX_LOCAL_BYTES {
                let name = &func.name;
                return Err(format!(
                    "{local} bytes of local memory for each thread in `{name}` are too many: the limit is {MAX_LOCAL_BYTES}"
                ));
            }
        }
        Ok(())
    }
}

/// Bytes of objects one behind the other, from their sizes and alignments.
fn sum(objects: impl Iterator<Item = (u64, u32)>) -> u64 {
    objects.fold(0, |end: u64, (size, align)| {
        let start = end.checked_next_multiple_of(align.max(1).into());
        start.unwrap_or(u64::MAX).saturating_add(size)
    })
}

impl SharedLayout {
    /// Lays the program's shared variables out in order of their numbers, dynamic arrays last.
    pub fn new(program: &Program) -> SharedLayout {
        SharedLayout::with_gaps(program, 0)
    }

    /// The same with variables kept apart as far as there is room, for accesses beyond their ends
    /// to be found.
    pub fn apart(program: &Program) -> SharedLayout {
        let dense = SharedLayout::new(program);
        let apart = SharedLayout::with_gaps(program, SHARED_GAP);
        let padding = apart.static_size.saturating_sub(dense.static_size);
        if padding > MAX_SHARED_PADDING {
            return dense;
        }
        SharedLayout { padding, ..apart }
    }

    fn with_gaps(program: &Program, gap: u32) -> SharedLayout {
        let mut layout = SharedLayout::default();
        let shared = || {
            program
                .vars
                .iter()
                .filter(|(_, var)| var.space == Space::Shared)
        };
        // The frontend refuses programs whose variables have no place. If they come from elsewhere,
        // a size that no launch provides is safer than variables that overlap.
        let aligned = |end: u32, align: u32| {
            end.checked_next_multiple_of(align.max(1))
                .unwrap_or(u32::MAX)
        };
        let mut end = 0u32;
        for (&id, var) in shared().filter(|(_, var)| !var.dynamic_shared) {
            let start = if gap == 0 { end } else { aligned(end, gap) };
            let offset = aligned(start, var.align);
            let size = u32::try_from(var.size).unwrap_or(u32::MAX);
            layout.offsets.insert(id, offset);
            layout.objects.push((offset, size));
            end = offset.saturating_add(size).saturating_add(gap);
        }
        let align = shared()
            .filter(|(_, var)| var.dynamic_shared)
            .map(|(_, var)| var.align.max(16))
            .max();
        layout.static_size = align.map_or(end, |align| aligned(end, align));
        for (&id, _) in shared().filter(|(_, var)| var.dynamic_shared) {
            layout.offsets.insert(id, layout.static_size);
        }
        layout
    }
}
