//! Sizes, alignments and places: of variables, of kernel parameters, and how `.param` objects are
//! cut into SSA values for calls.

use ptxjit_ir as ir;
use ptxjit_ir::{KernelAttrs, KernelParam};
use smallvec::SmallVec;

use crate::ast::{self, Dim, FunctionDirectiveKind};
use crate::isa::types::PtxType;
use crate::source::Source;

/// Size and alignment of an object.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    /// Bytes of one element (of a vector, all of it).
    pub elem: u32,
    /// Bytes in all; 0 for an array without size.
    pub size: u64,
    /// A power of two.
    pub align: u32,
    /// The array has no size.
    pub is_unsized: bool,
}

impl Layout {
    fn new(ty: ast::Type, vector: u8, align: Option<u32>, dims: &[Dim]) -> Layout {
        let elem = ty.size() * u32::from(vector.max(1));
        let count = dims.iter().fold(1u64, |count, dim| match dim {
            Dim::Unsized => 0,
            Dim::Sized(n) => count.saturating_mul(*n),
        });
        Layout {
            elem,
            size: count.saturating_mul(u64::from(elem)),
            align: align.unwrap_or_else(|| elem.next_power_of_two()).max(1),
            is_unsized: dims.iter().any(|dim| matches!(dim, Dim::Unsized)),
        }
    }

    /// Of a variable; of a range of variables, of one of them.
    pub(crate) fn of_var(var: &ast::Variable) -> Layout {
        Layout::new(var.ty, var.vector, var.align, &var.dims)
    }

    /// Of a parameter.
    pub(crate) fn of_param(param: &ast::Param) -> Layout {
        Layout::new(param.ty, param.vector, param.align, &param.dims)
    }

    /// Distance of the members of a range `name<N>`.
    pub(crate) fn stride(&self) -> u64 {
        self.size
            .checked_next_multiple_of(u64::from(self.align))
            .unwrap_or(u64::MAX)
    }
}

/// A part of a `.param` object that a call passes as one value.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    /// Byte offset in the object.
    pub offset: u32,
    /// Type of the value.
    pub ty: ir::Type,
}

/// How one parameter or result travels through a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Passing {
    /// A register: the type of each value.
    Reg(SmallVec<[ir::Type; 2]>),
    /// Memory, cut into pieces.
    Memory(Vec<Piece>),
    /// Memory of more than [`MAX_PIECES`] pieces, which the callee copies from or to the address of
    /// what the caller has.
    Copy(Block),
    /// An array without size: the local address of what the caller has.
    Address,
}

impl Passing {
    /// Of a formal parameter or result.
    pub(crate) fn of(param: &ast::Param) -> Passing {
        if param.space == ast::Space::Reg {
            return Passing::Reg(reg_types(PtxType::of(param.ty), param.vector));
        }
        let layout = Layout::of_param(param);
        if layout.is_unsized {
            return Passing::Address;
        }
        let word = word_of(layout, param.dims.is_empty());
        match layout.size / u64::from(word) {
            0..=MAX_PIECES => Passing::Memory(pieces_of(layout, param.dims.is_empty())),
            _ => Passing::Copy(Block {
                word,
                size: layout.size,
            }),
        }
    }

    /// Whether the caller passes an address for it: of a result, too.
    pub(crate) fn is_copied(&self) -> bool {
        match self {
            Passing::Copy(_) => true,
            Passing::Reg(_) | Passing::Memory(_) | Passing::Address => false,
        }
    }

    /// The types of the values.
    pub(crate) fn types(&self) -> SmallVec<[ir::Type; 4]> {
        match self {
            Passing::Reg(types) => types.iter().copied().collect(),
            Passing::Memory(pieces) => pieces.iter().map(|piece| piece.ty).collect(),
            Passing::Address | Passing::Copy(_) => SmallVec::from_slice(&[ir::Type::B64]),
        }
    }
}

/// Types of the values that go to and come from a function. The addresses where results are to be
/// copied to follow the arguments.
pub(crate) fn signature(params: &[ast::Param], returns: &[ast::Param]) -> ir::Signature {
    let mut signature = ir::Signature::default();
    for param in params {
        signature.params.extend(Passing::of(param).types());
    }
    for param in returns {
        let passing = Passing::of(param);
        let to = match passing.is_copied() {
            true => &mut signature.params,
            false => &mut signature.rets,
        };
        to.extend(passing.types());
    }
    signature
}

/// Types of the SSA variables of a register.
pub(crate) fn reg_types(ty: PtxType, elems: u8) -> SmallVec<[ir::Type; 2]> {
    let n = usize::from(elems.max(1)) * super::pieces(ty);
    SmallVec::from_elem(ty.ir().unwrap_or(ir::Type::B64), n)
}

/// More pieces than this are not worth a value each: structures are smaller, and values cost the
/// compiler much more than bytes.
const MAX_PIECES: u64 = 32;

/// An object that is copied: all of its words, and then the bytes after them.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Block {
    /// Bytes of a word: a power of two, at most 8.
    pub word: u32,
    /// Bytes in all.
    pub size: u64,
}

impl Block {
    /// Bytes of the whole words, which come first.
    pub(crate) fn words(&self) -> u64 {
        self.size - self.size % u64::from(self.word)
    }

    /// What follows the whole words.
    pub(crate) fn tail(&self) -> Vec<Piece> {
        pieces_between(self.words(), self.size, self.word)
    }
}

fn word_of(layout: Layout, is_scalar: bool) -> u32 {
    if is_scalar {
        layout.elem.next_power_of_two()
    } else {
        layout.align
    }
    .clamp(1, 8)
}

/// Cuts an object into values: a scalar into itself, an array into words of its alignment (at most
/// 8 bytes) and a tail of smaller ones. Caller and callee agree because both start from size and
/// alignment of the formal parameter.
pub(crate) fn pieces_of(layout: Layout, is_scalar: bool) -> Vec<Piece> {
    pieces_between(0, layout.size, word_of(layout, is_scalar))
}

fn pieces_between(start: u64, end: u64, word: u32) -> Vec<Piece> {
    // Sizes that do not fit are refused where objects are declared.
    let size = u32::try_from(end).unwrap_or(u32::MAX);
    let mut offset = u32::try_from(start).unwrap_or(u32::MAX);
    let mut pieces = Vec::new();
    while offset < size {
        let mut bytes = word;
        while bytes > size - offset {
            bytes /= 2;
        }
        let Some(ty) = ir::Type::from_bytes(bytes) else {
            break;
        };
        pieces.push(Piece { offset, ty });
        offset += bytes;
    }
    pieces
}

/// Places of a kernel's parameters in its parameter block.
pub(crate) fn kernel_params(func: &ast::Function, source: &Source) -> Vec<KernelParam> {
    let mut end = 0u64;
    let place = |param: &ast::Param| {
        let layout = Layout::of_param(param);
        let offset = end
            .checked_next_multiple_of(u64::from(layout.align))
            .unwrap_or(u64::MAX);
        end = offset.saturating_add(layout.size);
        KernelParam {
            name: param.name.map_or("", |name| name.text(source)).to_owned(),
            offset: u32::try_from(offset).unwrap_or(u32::MAX),
            size: u32::try_from(layout.size).unwrap_or(u32::MAX),
            align: layout.align,
        }
    };
    func.params.iter().map(place).collect()
}

/// What a kernel's directives say that matters to a launch.
pub(crate) fn kernel_attrs(func: &ast::Function) -> KernelAttrs {
    let mut attrs = KernelAttrs::default();
    for directive in &func.directives {
        match &directive.kind {
            FunctionDirectiveKind::Maxntid([x, y, z]) => {
                attrs.max_threads = Some(x.saturating_mul(*y).saturating_mul(*z));
            }
            FunctionDirectiveKind::Reqntid(ntid) => attrs.req_ntid = Some(*ntid),
            FunctionDirectiveKind::Reqnctapercluster(shape) => attrs.req_cluster = Some(*shape),
            FunctionDirectiveKind::Explicitcluster => attrs.explicit_cluster = true,
            FunctionDirectiveKind::Maxclusterrank(n) => attrs.max_cluster_rank = Some(*n),
            FunctionDirectiveKind::Blocksareclusters => attrs.blocks_are_clusters = true,
            FunctionDirectiveKind::Maxnreg(_)
            | FunctionDirectiveKind::Minnctapersm(_)
            | FunctionDirectiveKind::Maxnctapersm(_)
            | FunctionDirectiveKind::Noreturn
            | FunctionDirectiveKind::AbiPreserve(_)
            | FunctionDirectiveKind::AbiPreserveControl(_)
            | FunctionDirectiveKind::Pragma(_) => {}
        }
    }
    attrs
}
