//! Declarations inside a body.

use ptxjit_ir::Space;

use crate::ast::{self, Ident, Linkage};
use crate::diag::Diagnostic;
use crate::isa::types::PtxType;
use crate::source::Span;

use super::Translator;
use super::layout::Layout;
use super::limits;
use super::names::redefinition;
use super::scope::{Entity, Place, PlaceBase};

impl<'m> Translator<'m> {
    /// Declares a name in the innermost scope; a second declaration there is reported. Labels are
    /// names as others are.
    pub(super) fn declare(&mut self, name: Ident, entity: Entity) {
        let text = name.text(self.source);
        let label = self.labels.declared_here(text);
        let label = label.filter(|label| label.start < name.span.start);
        let declared = self.scopes.declare(text, entity, name.span);
        if let Some(before) = declared.err().or(label) {
            self.report(redefinition(text, name.span, before));
        }
    }

    /// Declares a register or variable of the body.
    pub(super) fn declare_variable(&mut self, var: &'m ast::Variable) -> Result<(), Diagnostic> {
        super::gates::check_type(self.unit, var.ty, var.span, var.space == ast::Space::Param)?;
        if let Some(diagnostic) = limits::check_variable(self.module, var) {
            return Err(diagnostic);
        }
        match var.space {
            ast::Space::Reg => self.declare_reg(var),
            ast::Space::Local => self.declare_slot(var, PlaceBase::Local),
            ast::Space::Param => self.declare_slot(var, PlaceBase::CallParam),
            ast::Space::Shared => self.declare_static(var, Space::Shared),
            ast::Space::Global => self.declare_static(var, Space::Global),
            ast::Space::Const => self.declare_static(var, Space::Const),
            ast::Space::Sreg => Err(Diagnostic::error(
                "special registers are predefined and cannot be declared",
            )
            .label(var.span, "")),
            ast::Space::Tex => Err(Diagnostic::error(
                "`.tex` variables can be declared only at module scope",
            )
            .label(var.span, "")),
        }
    }

    fn declare_reg(&mut self, var: &'m ast::Variable) -> Result<(), Diagnostic> {
        let ty = PtxType::of(var.ty);
        let elems = var.vector.max(1);
        if var.ty.is_opaque() {
            return Err(error(
                var.span,
                format!("a register cannot have type `.{}`", ty.name()),
            ));
        }
        if var.is_array() {
            return Err(error(var.span, "a register cannot be an array"));
        }
        if elems > 1 && (ty == PtxType::Pred || ty.bits() * u32::from(elems) > 128) {
            return Err(error(
                var.span,
                format!(
                    "`.v{elems} .{}` is no vector: it may have 128 bits",
                    ty.name()
                ),
            ));
        }
        let text = var.name.text(self.source);
        match var.range {
            None => {
                let id = self.new_reg(ty, elems, var.name.span);
                self.declare(var.name, Entity::Reg(id));
            }
            Some(count) => {
                if let Err(before) =
                    self.scopes
                        .declare_range(text, (ty, elems), count, var.name.span)
                {
                    self.report(redefinition(text, var.name.span, before));
                }
            }
        }
        Ok(())
    }

    fn check_memory_type(&self, var: &ast::Variable) -> Result<(), Diagnostic> {
        let elems = u32::from(var.vector.max(1));
        if var.ty == ast::Type::Pred {
            return Err(error(
                var.span,
                "a predicate cannot lie in memory: `.pred` is for registers",
            ));
        }
        if var.ty.is_opaque() {
            let message = format!(
                "`.{}` can be declared only at module scope or as a kernel parameter",
                var.ty.name()
            );
            return Err(error(var.span, message));
        }
        if elems > 1 && var.ty.size() * elems > 16 {
            return Err(error(
                var.span,
                format!(
                    "`.v{elems} .{}` is no vector: it may have 128 bits",
                    var.ty.name()
                ),
            ));
        }
        Ok(())
    }

    fn declare_slot(
        &mut self,
        var: &'m ast::Variable,
        base: fn(ptxjit_ir::StackSlot) -> PlaceBase,
    ) -> Result<(), Diagnostic> {
        self.check_memory_type(var)?;
        if var.has_init() {
            return Err(error(
                var.init,
                "only `.global` and `.const` variables can be initialized",
            ));
        }
        let layout = Layout::of_var(var);
        if layout.is_unsized {
            return Err(error(var.span, "the size of the array is missing"));
        }
        let count = u64::from(var.range.unwrap_or(1));
        let size = layout.stride().saturating_mul(count);
        // The size itself was checked, but not with the padding up to a multiple of the alignment.
        let name = var.name.text(&self.module.source);
        if let Some(diagnostic) = limits::check_size(name, var.space, size, var.span) {
            return Err(diagnostic);
        }
        let Ok(size) = u32::try_from(size) else {
            unreachable!("the limit of a state space on the stack has 32 bits");
        };
        let slot = self.builder.stack_slot(size, layout.align);
        self.declare_members(var, layout, base(slot))
    }

    /// Declares the name, or the names of a range, of an object in memory.
    fn declare_members(
        &mut self,
        var: &'m ast::Variable,
        layout: Layout,
        base: PlaceBase,
    ) -> Result<(), Diagnostic> {
        let text = var.name.text(self.source);
        let decl = var.name.span;
        let place = |start| Place {
            base,
            start,
            elem_size: layout.elem,
            size: layout.size,
            align: layout.align,
            opaque: None,
            decl,
        };
        let Some(count) = var.range else {
            self.declare(var.name, Entity::Place(place(0)));
            return Ok(());
        };
        self.range_names.add(count, var.span)?;
        for number in 0..count {
            let start = layout.stride() as i64 * i64::from(number);
            if let Err(before) = self.scopes.declare_owned(
                format!("{text}{number}"),
                Entity::Place(place(start)),
                decl,
            ) {
                self.report(redefinition(text, decl, before));
                break;
            }
        }
        Ok(())
    }

    /// A variable inside a function that is one for the whole grid or CTA.
    fn declare_static(&mut self, var: &'m ast::Variable, space: Space) -> Result<(), Diagnostic> {
        self.check_memory_type(var)?;
        let layout = Layout::of_var(var);
        if layout.is_unsized && var.linkage != Linkage::Extern && !var.has_init() {
            return Err(error(var.span, "the size of the array is missing"));
        }
        if var.has_init() {
            self.check_initializer(var);
        }
        let id = self.module.static_var_id(var.name);
        if let Some(described) = self.module.describe_static(var) {
            self.found.statics.insert(id, described);
        }
        self.declare_members(var, layout, PlaceBase::Var(id, space))
    }

    fn check_initializer(&mut self, var: &ast::Variable) {
        if let Err(diagnostics) = super::init::var_init(self.module, var) {
            self.found.diagnostics.extend(diagnostics);
        }
    }
}

fn error(span: Span, message: impl Into<String>) -> Diagnostic {
    Diagnostic::error(message).label(span, "")
}
