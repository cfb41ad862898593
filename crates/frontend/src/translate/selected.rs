//! Operands of the video instructions: a part of a register (`r.b0`, `r.h10`), perhaps with a minus
//! sign.

use ptxjit_ir::Value;

use crate::ast::{Ident, OperandKind};
use crate::diag::Diagnostic;
use crate::isa::types::PtxType;

use super::scope::Entity;
use super::{Inst, Translator};

/// A source of which a part may be selected.
#[derive(Copy, Clone, Debug)]
pub struct Selected<'m> {
    /// The whole word, without the minus sign applied.
    pub word: Value,
    /// What follows the dot.
    pub selector: Option<&'m str>,
    /// A minus sign stands before it.
    pub is_negated: bool,
}

impl<'m> Translator<'m> {
    /// What follows the dot of operand `n`.
    pub fn selector(&self, inst: &Inst<'m>, n: usize) -> Option<&'m str> {
        let kind = match &inst.operand(n)?.kind {
            OperandKind::Neg(negated) => &negated.kind,
            kind => kind,
        };
        match kind {
            OperandKind::Member { selector, .. } => Some(selector.text(self.source)),
            _ => None,
        }
    }

    /// Reads operand `n`: a 32-bit register or constant.
    pub fn src_selected(&mut self, inst: &Inst<'m>, n: usize) -> Result<Selected<'m>, Diagnostic> {
        let selector = self.selector(inst, n);
        let Some(operand) = inst.operand(n) else {
            return Err(inst.error(format!("`{}` lacks operand {}", inst.name, n + 1)));
        };
        let (operand, is_negated) = match &operand.kind {
            OperandKind::Neg(negated) => (&**negated, true),
            _ => (operand, false),
        };
        let word = match operand.kind {
            OperandKind::Member { base, .. } => {
                let var = self.whole_register(base)?;
                self.builder.use_var(var)
            }
            _ => self.read(operand, PtxType::B32)?,
        };
        Ok(Selected {
            word,
            selector,
            is_negated,
        })
    }

    /// Writes a whole word to operand `n`, whatever part of it is named there.
    pub fn dst_selected(
        &mut self,
        inst: &Inst<'m>,
        n: usize,
        value: Value,
    ) -> Result<(), Diagnostic> {
        match inst.operand(n).map(|operand| &operand.kind) {
            Some(&OperandKind::Member { base, .. }) => {
                let var = self.whole_register(base)?;
                self.assign(var, value);
                Ok(())
            }
            _ => self.dst_as(inst, n, PtxType::B32, value),
        }
    }

    /// The one variable of a scalar register.
    fn whole_register(&mut self, name: Ident) -> Result<ptxjit_ir::Variable, Diagnostic> {
        match self.lookup(name) {
            Some(Entity::Reg(id)) => Ok(self.reg(id).vars[0]),
            Some(Entity::Place(_) | Entity::Func(_)) | None => Err(self.unknown_name(name)),
        }
    }
}
