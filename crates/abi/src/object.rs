//! A compiled kernel that is not in its place yet: bytes of code, and what they refer to by name.
//!
//! Nothing in it depends on the process that made it, so it can be stored and used by another
//! process of the same build.

use ptxjit_ir::{InstData, SharedLayout, SrcLoc};
use serde::{Deserialize, Serialize};

use crate::facts::Facts;
use crate::kernel::{CompileStats, SlowForm, SymbolRef};
use crate::mma::Products;
use crate::resume::ResumePoint;

/// A compiled kernel before it is placed in memory.
pub struct Object {
    pub head: Head,
    /// Offsets in the first function, and the place in the PTX from there on.
    pub locs: Vec<(u32, SrcLoc)>,
    pub code: Vec<u8>,
    /// These are not stored.
    pub notes: Vec<String>,
    pub slow: Vec<(SrcLoc, SlowForm)>,
    pub listings: std::collections::BTreeMap<&'static str, String>,
    pub stats: CompileStats,
}

/// All but the long tables.
#[derive(Serialize, Deserialize)]
pub struct Head {
    pub gang: u32,
    pub narrowed: Option<String>,
    pub facts: Facts,
    pub quick: bool,
    /// `enter`, then stubs.
    pub functions: Vec<Function>,
    pub kept: Vec<InstData>,
    pub products: Vec<Products>,
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
pub struct Function {
    pub size: u32,
    pub align: u32,
    pub relocs: Vec<Reloc>,
}

/// A place in a function that is filled in when the code is placed.
#[derive(Serialize, Deserialize)]
pub struct Reloc {
    pub at: u32,
    pub kind: RelocKind,
    pub target: Target,
    pub addend: i64,
}

/// What a function refers to.
#[derive(Serialize, Deserialize)]
pub enum Target {
    /// A function of the object, by position.
    Function(u32),
    /// A place in the same function.
    Inside(u32),
    Helper(Helper),
    /// The address of a kept instruction, by position.
    Kept(u32),
    /// The address of products of matrices, by position.
    Products(u32),
    /// A function of the C library, by Cranelift's name for it.
    Libcall(String),
}

/// How the address of a target is written at a place, x86-64 then aarch64. The names are
/// Cranelift's.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum RelocKind {
    Abs4,
    Abs8,
    X86PcRel4,
    X86CallPcRel4,
    Arm64Call,
    Aarch64AdrGotPage21,
    Aarch64Ld64GotLo12Nc,
    Aarch64AdrPrelPgHi21,
    Aarch64AddAbsLo12Nc,
}

/// A function that the code generator brings along, as compiled code names it: stored code must
/// work in another process.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Helper {
    /// Evaluates a pure instruction.
    Eval,
    /// An atomic operation without an inline form.
    Atomic,
    /// Finds the lanes at fault.
    BadLanes,
    /// [`crate::warp_ops::warp_op`].
    Warp,
    /// [`crate::mma::mma_op`].
    Mma,
    /// [`crate::mma::products_op`].
    Products,
    /// Writes each lane's value of an affine one whose index may have wrapped.
    ResolveWrapped,
    /// Writes the addresses of lanes at a constant distance.
    Row,
    /// Copies the part of some lanes from what a whole gang would have written to its frame.
    MergeSlots,
}

impl Helper {
    /// All of them; the number in an external name is a position here.
    pub const ALL: &[Helper] = &[
        Helper::Eval,
        Helper::Atomic,
        Helper::BadLanes,
        Helper::Warp,
        Helper::Mma,
        Helper::Products,
        Helper::ResolveWrapped,
        Helper::Row,
        Helper::MergeSlots,
    ];

    /// Its number in external names.
    pub fn number(self) -> u32 {
        let number = Helper::ALL.iter().position(|&other| other == self);
        number.expect("every helper is in ALL") as u32
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
