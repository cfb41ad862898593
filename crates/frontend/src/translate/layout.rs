//! Sizes, alignments and places: of variables, of kernel parameters, and how `.param` objects are cut into SSA values for calls.

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
        self.size.next_multiple_of(u64::from(self.align))
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
        Passing::Memory(pieces_of(layout, param.dims.is_empty()))
    }

    /// The types of the values.
    pub(crate) fn types(&self) -> SmallVec<[ir::Type; 4]> {
        match self {
            Passing::Reg(types) => types.iter().copied().collect(),
            Passing::Memory(pieces) => pieces.iter().map(|piece| piece.ty).collect(),
            Passing::Address => SmallVec::from_slice(&[ir::Type::B64]),
        }
    }
}

/// Types of the SSA variables of a register.
pub(crate) fn reg_types(ty: PtxType, elems: u8) -> SmallVec<[ir::Type; 2]> {
    let n = usize::from(elems.max(1)) * super::pieces(ty);
    SmallVec::from_elem(ty.ir().unwrap_or(ir::Type::B64), n)
}

/// Cuts an object into values: a scalar into itself, an array into words of its alignment (at most 8 bytes) and a tail of
/// smaller ones. Caller and callee agree because both start from size and alignment of the formal parameter.
pub(crate) fn pieces_of(layout: Layout, is_scalar: bool) -> Vec<Piece> {
    let word = if is_scalar {
        layout.elem.next_power_of_two()
    } else {
        layout.align
    }
    .clamp(1, 8);
    let size = u32::try_from(layout.size).unwrap_or(u32::MAX);
    let mut pieces = Vec::new();
    let mut offset = 0;
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
        let offset = end.next_multiple_of(u64::from(layout.align));
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
            FunctionDirectiveKind::Maxnreg(_)
            | FunctionDirectiveKind::Minnctapersm(_)
            | FunctionDirectiveKind::Maxnctapersm(_)
            | FunctionDirectiveKind::Maxclusterrank(_)
            | FunctionDirectiveKind::Blocksareclusters
            | FunctionDirectiveKind::Noreturn
            | FunctionDirectiveKind::AbiPreserve(_)
            | FunctionDirectiveKind::AbiPreserveControl(_)
            | FunctionDirectiveKind::Pragma(_) => {}
        }
    }
    attrs
}
