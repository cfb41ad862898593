//! An instruction as its handler sees it: the written one, its row, and its modifiers and types
//! decoded.

use ptxjit_ir::{FloatMode, Round};
use smallvec::SmallVec;

use crate::ast;
use crate::diag::Diagnostic;
use crate::isa::desc::{InstDesc, Opd, OpdType};
use crate::isa::modifiers::{Mod, ModSet};
use crate::isa::types::PtxType;
use crate::source::Span;

/// One instruction whose row fits.
#[derive(Clone, Debug)]
pub struct Inst<'m> {
    /// As written.
    pub ast: &'m ast::Inst,
    /// Of the whole statement.
    pub span: Span,
    /// Its row in the instruction table.
    pub desc: &'static InstDesc,
    /// What its operands may be, by position.
    pub opds: SmallVec<[&'static Opd; 6]>,
    /// Its modifiers, without types.
    pub mods: ModSet,
    /// Its types in written order.
    pub types: SmallVec<[PtxType; 4]>,
    /// Modifiers that only the row's `extra` knows.
    pub extra: SmallVec<[&'m str; 1]>,
    /// The instruction as far as its name goes: `cp.async`, for messages.
    pub name: &'m str,
}

impl<'m> Inst<'m> {
    /// Whether a modifier is written.
    pub fn has(&self, m: Mod) -> bool {
        self.mods.has(m)
    }

    /// The first of `mods` that is written.
    pub fn pick(&self, mods: &[Mod]) -> Option<Mod> {
        self.mods.pick(mods)
    }

    /// Type number `n` in written order. The row says how many there are; asking for more gives
    /// `.b32`.
    pub fn ty(&self, n: usize) -> PtxType {
        self.types.get(n).copied().unwrap_or(PtxType::B32)
    }

    /// Number of operands written.
    pub fn n_operands(&self) -> usize {
        self.ast.operands.len()
    }

    /// Whether all optional operands are written.
    pub fn has_optional(&self) -> bool {
        self.n_operands() == self.desc.operands_with(&self.mods).count()
    }

    /// Operand `n`, if it is written.
    pub fn operand(&self, n: usize) -> Option<&'m ast::Operand> {
        self.ast.operands.get(n)
    }

    /// Place of operand `n`.
    pub fn operand_span(&self, n: usize) -> Span {
        self.operand(n).map_or(self.span, |operand| operand.span)
    }

    /// The type that the row gives operand `n`.
    pub fn opd_type(&self, n: usize) -> PtxType {
        match self.opds.get(n).map(|opd| opd.ty) {
            Some(OpdType::Is(ty)) => ty,
            Some(OpdType::Nth(n)) => self.ty(usize::from(n)),
            Some(OpdType::Double(n)) => double(self.ty(usize::from(n))),
            None => PtxType::B32,
        }
    }

    /// `.ftz`
    pub fn ftz(&self) -> bool {
        self.has(Mod::Ftz)
    }

    /// The rounding modifier, integer rounding included.
    pub fn round(&self) -> Option<Round> {
        const TABLE: &[(Mod, Round)] = &[
            (Mod::Rn, Round::Rn),
            (Mod::Rna, Round::Rna),
            (Mod::Rz, Round::Rz),
            (Mod::Rm, Round::Rm),
            (Mod::Rp, Round::Rp),
            (Mod::Rni, Round::Rn),
            (Mod::Rzi, Round::Rz),
            (Mod::Rmi, Round::Rm),
            (Mod::Rpi, Round::Rp),
        ];
        TABLE
            .iter()
            .find(|&&(m, _)| self.has(m))
            .map(|&(_, round)| round)
    }

    /// Rounding (to nearest even if none is written) and `.ftz`.
    pub fn mode(&self) -> FloatMode {
        FloatMode {
            round: self.round().unwrap_or(Round::Rn),
            ftz: self.ftz(),
        }
    }

    /// An error about the whole instruction.
    pub fn error(&self, message: impl Into<String>) -> Diagnostic {
        Diagnostic::error(message).label(self.span, "")
    }

    /// An error about operand `n`.
    pub fn operand_error(&self, n: usize, message: impl Into<String>) -> Diagnostic {
        Diagnostic::error(message).label(self.operand_span(n), "")
    }
}

/// The type of twice the width and the same kind.
fn double(ty: PtxType) -> PtxType {
    match ty {
        PtxType::U8 => PtxType::U16,
        PtxType::U16 => PtxType::U32,
        PtxType::U32 => PtxType::U64,
        PtxType::S8 => PtxType::S16,
        PtxType::S16 => PtxType::S32,
        PtxType::S32 => PtxType::S64,
        PtxType::B8 => PtxType::B16,
        PtxType::B16 => PtxType::B32,
        PtxType::B32 => PtxType::B64,
        other => other,
    }
}
