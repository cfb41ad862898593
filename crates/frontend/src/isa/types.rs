//! The types that instructions are written with, and which registers fit them.
//!
//! Registers and variables have the few types of [`ast::Type`]; instructions also have formats such
//! as `.bf16x2` that live in registers of a bit type. What fits what is in the PTX ISA, "Operand
//! Size Exceeding Instruction-Type Size" and "Type Checking of Operands".

use std::sync::LazyLock;

use ptxjit_ir as ir;
use rustc_hash::FxHashMap;

use crate::ast;

macro_rules! types {
    ($($name:ident = $text:literal, $class:ident $bits:literal;)*) => {
        /// The type of an instruction, as PTX writes it without its dot.
        #[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
        pub enum PtxType { $($name,)* }

        impl PtxType {
            /// All types.
            pub const ALL: &'static [PtxType] = &[$(PtxType::$name,)*];

            /// As PTX writes it, without the dot.
            pub const fn name(self) -> &'static str {
                match self { $(PtxType::$name => $text,)* }
            }

            /// What kind of data it is.
            pub const fn class(self) -> Class {
                match self { $(PtxType::$name => Class::$class,)* }
            }

            /// Width in bits.
            pub const fn bits(self) -> u32 {
                match self { $(PtxType::$name => $bits,)* }
            }
        }
    };
}

/// What kind of data a type stands for.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Class {
    /// `.pred`
    Pred,
    /// `.b32` and the like: agree with every type of their size.
    Bits,
    /// `.u32` and the like.
    Unsigned,
    /// `.s32` and the like.
    Signed,
    /// `.f16`, `.f16x2`, `.f32`, `.f64`, which registers can have too.
    Float,
    /// Formats that only bit-type registers of their very size hold: `.bf16`, `.tf32`, `.u16x2`,
    /// `.e4m3x2`, …
    Format,
    /// `.texref` and its kin.
    Opaque,
}

types! {
    Pred = "pred", Pred 1;
    B1 = "b1", Format 1;
    B2 = "b2", Format 2;
    B4 = "b4", Format 4;
    B8 = "b8", Bits 8;
    B16 = "b16", Bits 16;
    B32 = "b32", Bits 32;
    B64 = "b64", Bits 64;
    B128 = "b128", Bits 128;
    U2 = "u2", Format 2;
    U4 = "u4", Format 4;
    U8 = "u8", Unsigned 8;
    U16 = "u16", Unsigned 16;
    U32 = "u32", Unsigned 32;
    U64 = "u64", Unsigned 64;
    S2 = "s2", Format 2;
    S4 = "s4", Format 4;
    S8 = "s8", Signed 8;
    S16 = "s16", Signed 16;
    S32 = "s32", Signed 32;
    S64 = "s64", Signed 64;
    F16 = "f16", Float 16;
    F16x2 = "f16x2", Float 32;
    F32 = "f32", Float 32;
    F64 = "f64", Float 64;
    F32x2 = "f32x2", Format 64;
    Bf16 = "bf16", Format 16;
    Bf16x2 = "bf16x2", Format 32;
    Tf32 = "tf32", Format 32;
    U16x2 = "u16x2", Format 32;
    S16x2 = "s16x2", Format 32;
    E4m3 = "e4m3", Format 8;
    E5m2 = "e5m2", Format 8;
    E2m3 = "e2m3", Format 8;
    E3m2 = "e3m2", Format 8;
    E2m1 = "e2m1", Format 8;
    Ue8m0 = "ue8m0", Format 8;
    Ue4m3 = "ue4m3", Format 8;
    E4m3x2 = "e4m3x2", Format 16;
    E5m2x2 = "e5m2x2", Format 16;
    E2m3x2 = "e2m3x2", Format 16;
    E3m2x2 = "e3m2x2", Format 16;
    E2m1x2 = "e2m1x2", Format 8;
    Ue8m0x2 = "ue8m0x2", Format 16;
    S2f6x2 = "s2f6x2", Format 16;
    E4m3x4 = "e4m3x4", Format 32;
    E5m2x4 = "e5m2x4", Format 32;
    E2m3x4 = "e2m3x4", Format 32;
    E3m2x4 = "e3m2x4", Format 32;
    E2m1x4 = "e2m1x4", Format 16;
    Texref = "texref", Opaque 64;
    Samplerref = "samplerref", Opaque 64;
    Surfref = "surfref", Opaque 64;
}

/// How strictly the width of a register must be that of the instruction's type.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Width {
    /// Equal.
    Exact,
    /// `ld`, `st`, `cvt`: a register may be wider; a source is chopped, a destination extended.
    OrWider,
    /// Equal, and a float may be in a register of integers: texels and their coordinates.
    OrInteger,
}

impl PtxType {
    /// The type that `name` stands for.
    pub fn from_name(name: &str) -> Option<PtxType> {
        static NAMES: LazyLock<FxHashMap<&str, PtxType>> =
            LazyLock::new(|| PtxType::ALL.iter().map(|&ty| (ty.name(), ty)).collect());
        NAMES.get(name).copied()
    }

    /// The type of a register or variable.
    pub fn of(ty: ast::Type) -> PtxType {
        match ty {
            ast::Type::Pred => PtxType::Pred,
            ast::Type::B8 => PtxType::B8,
            ast::Type::B16 => PtxType::B16,
            ast::Type::B32 => PtxType::B32,
            ast::Type::B64 => PtxType::B64,
            ast::Type::B128 => PtxType::B128,
            ast::Type::U8 => PtxType::U8,
            ast::Type::U16 => PtxType::U16,
            ast::Type::U32 => PtxType::U32,
            ast::Type::U64 => PtxType::U64,
            ast::Type::S8 => PtxType::S8,
            ast::Type::S16 => PtxType::S16,
            ast::Type::S32 => PtxType::S32,
            ast::Type::S64 => PtxType::S64,
            ast::Type::F16 => PtxType::F16,
            ast::Type::F16x2 => PtxType::F16x2,
            ast::Type::F32 => PtxType::F32,
            ast::Type::F64 => PtxType::F64,
            ast::Type::Texref => PtxType::Texref,
            ast::Type::Samplerref => PtxType::Samplerref,
            ast::Type::Surfref => PtxType::Surfref,
        }
    }

    /// Size in memory, in bytes.
    pub const fn bytes(self) -> u32 {
        self.bits().div_ceil(8)
    }

    /// Whether values extend with their sign.
    pub const fn is_signed(self) -> bool {
        matches!(self.class(), Class::Signed)
    }

    /// Whether this is a float format that arithmetic computes in, packed ones included.
    pub const fn is_float(self) -> bool {
        matches!(
            self,
            PtxType::F16
                | PtxType::F16x2
                | PtxType::F32
                | PtxType::F32x2
                | PtxType::F64
                | PtxType::Bf16
                | PtxType::Bf16x2
                | PtxType::Tf32
        )
    }

    /// The type of the IR value that holds it; none for 128 bits and more.
    pub const fn ir(self) -> Option<ir::Type> {
        match self.bits() {
            1 if matches!(self, PtxType::Pred) => Some(ir::Type::B1),
            0..=8 => Some(ir::Type::B8),
            16 => Some(ir::Type::B16),
            32 => Some(ir::Type::B32),
            64 => Some(ir::Type::B64),
            _ => None,
        }
    }

    /// The format of float arithmetic in this type, of one element for packed types.
    pub const fn float_fmt(self) -> Option<ir::FloatFmt> {
        match self {
            PtxType::F16 | PtxType::F16x2 => Some(ir::FloatFmt::F16),
            PtxType::Bf16 | PtxType::Bf16x2 => Some(ir::FloatFmt::Bf16),
            PtxType::F32 | PtxType::F32x2 => Some(ir::FloatFmt::F32),
            PtxType::F64 => Some(ir::FloatFmt::F64),
            _ => None,
        }
    }

    /// Whether a register of type `reg` holds the kind of data of this type, widths apart.
    pub fn goes_with(self, reg: PtxType) -> bool {
        match (self.class(), reg.class()) {
            (Class::Pred, other) | (other, Class::Pred) => other == Class::Pred && self == reg,
            (Class::Bits, _) | (_, Class::Bits) => true,
            (Class::Unsigned | Class::Signed, other) => {
                matches!(other, Class::Unsigned | Class::Signed) || reg == PtxType::F16x2
            }
            (Class::Float, other) => other == Class::Float && reg != PtxType::F16x2,
            (Class::Format | Class::Opaque, _) => false,
        }
    }

    /// Whether a register of type `reg` may be an operand of this type.
    pub fn fits(self, reg: PtxType, width: Width) -> bool {
        // A register of type `.f16x2` counts as 32 bits.
        let is_word = reg == PtxType::F16x2
            && matches!(self.class(), Class::Bits | Class::Unsigned | Class::Signed);
        let reg = if is_word { PtxType::B32 } else { reg };
        let same = self.bits() == reg.bits();
        let wider = width == Width::OrWider && reg.bits() > self.bits();
        match (self.class(), reg.class()) {
            (Class::Pred, other) | (other, Class::Pred) => other == Class::Pred && self == reg,
            (Class::Opaque, _) => same && reg.class() != Class::Float || self == reg,
            (Class::Bits, _) => same || wider,
            (Class::Unsigned | Class::Signed, Class::Bits | Class::Unsigned | Class::Signed) => {
                same || wider
            }
            (Class::Unsigned | Class::Signed, _) => false,
            (Class::Float, Class::Bits) => same || wider,
            (Class::Float, Class::Signed | Class::Unsigned) => same && width == Width::OrInteger,
            (Class::Float, _) => self == reg,
            (Class::Format, Class::Bits) => same,
            (Class::Format, _) => false,
        }
    }
}
