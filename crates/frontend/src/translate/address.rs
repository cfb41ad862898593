//! Memory operands: `[reg+imm]`, `[var+imm]`, `var[imm]`, `var[reg]`, `[imm]`, and addresses as
//! values.
//!
//! An address is first resolved (names looked up, offsets computed, nothing emitted), which is all
//! that checking needs, and then emitted.

use ptxjit_ir::{FuncId, InstData, IntBinaryOp, Space, Type, Value};

use crate::ast::{self, Expr, Ident, OperandKind};
use crate::diag::Diagnostic;
use crate::isa::sregs::{self, Reserved};
use crate::isa::types::{Class, PtxType};
use crate::parse::constexpr;
use crate::source::Span;

use super::Translator;
use super::module::Module;
use super::scope::{Entity, Place, PlaceBase};

/// A memory operand, resolved.
#[derive(Clone, Debug)]
pub struct Addr<'m> {
    /// What the offsets count from.
    pub base: AddrBase<'m>,
    /// A register whose 32-bit value counts elements, and their size.
    pub index: Option<(&'m ast::Operand, u32)>,
    /// In bytes.
    pub offset: i64,
    /// `.unified` follows the bracket.
    pub is_unified: bool,
    /// As written.
    pub span: Span,
}

/// What an address counts from.
#[derive(Clone, Debug)]
pub enum AddrBase<'m> {
    /// The value of a register.
    Reg(&'m ast::Operand),
    /// Something that has a name.
    Place(Place),
    /// A function.
    Func(FuncId),
    /// Zero: the offset is the address.
    Absolute,
}

impl Place {
    /// The state space whose addresses lead here.
    pub fn space(&self) -> Space {
        match self.base {
            PlaceBase::KernelParam(_) => Space::Param,
            PlaceBase::Local(_)
            | PlaceBase::CallParam(_)
            | PlaceBase::Formal(_)
            | PlaceBase::Return(_)
            | PlaceBase::UnsizedFormal(_) => Space::Local,
            PlaceBase::Var(_, space) => space,
        }
    }
}

impl<'m> Translator<'m> {
    /// Checks a memory operand.
    pub fn check_address(&mut self, operand: &'m ast::Operand) -> Result<(), Diagnostic> {
        self.resolve_address(operand).map(|_| ())
    }

    /// Checks an address that stands inside the brackets of a larger operand, so without its own.
    pub fn check_address_part(&mut self, operand: &'m ast::Operand) -> Result<(), Diagnostic> {
        match operand.kind {
            OperandKind::Name(_) => self.address_base(operand).map(|_| ()),
            _ => self.check_address(operand),
        }
    }

    /// Looks up what a memory operand (or an address as a value) consists of.
    pub fn resolve_address(&mut self, operand: &'m ast::Operand) -> Result<Addr<'m>, Diagnostic> {
        let span = operand.span;
        let plain = |base, offset| Addr {
            base,
            index: None,
            offset,
            is_unified: false,
            span,
        };
        match &operand.kind {
            OperandKind::Address(address) => {
                let offset = self.offset(address.offset.as_ref())?;
                let base = match &address.base {
                    None => AddrBase::Absolute,
                    Some(base) => self.address_base(base)?,
                };
                Ok(Addr {
                    is_unified: address.is_unified,
                    ..plain(base, offset)
                })
            }
            OperandKind::Name(name) => Ok(plain(self.named_base(*name)?, 0)),
            OperandKind::NameOffset(sum) => {
                let offset = self.offset(Some(&sum.offset))?;
                Ok(plain(self.named_base(sum.name)?, offset))
            }
            OperandKind::Element(element) => {
                let base = self.named_base(element.name)?;
                let AddrBase::Place(place) = base else {
                    return Err(Diagnostic::error("only a variable can be indexed").label(span, ""));
                };
                let count = self.offset(element.offset.as_ref())?;
                let offset = count.wrapping_mul(i64::from(place.elem_size));
                let index = match &element.index {
                    None => None,
                    Some(index) => {
                        self.check_address_register(index)?;
                        Some((index, place.elem_size))
                    }
                };
                Ok(Addr {
                    index,
                    ..plain(AddrBase::Place(place), offset)
                })
            }
            OperandKind::Member { .. } => {
                self.check_address_register(operand)?;
                Ok(plain(AddrBase::Reg(operand), 0))
            }
            OperandKind::Constant(_)
            | OperandKind::Tuple(_)
            | OperandKind::Vector(_)
            | OperandKind::Sink
            | OperandKind::Pair(_)
            | OperandKind::Not(_)
            | OperandKind::Neg(_)
            | OperandKind::List(_) => Err(Diagnostic::error(
                "a memory address in brackets is expected here",
            )
            .label(span, "")),
        }
    }

    pub(super) fn offset(&self, expr: Option<&Expr>) -> Result<i64, Diagnostic> {
        let Some(expr) = expr else { return Ok(0) };
        match constexpr::evaluate(expr)?.as_int() {
            Some(value) => Ok(value as i64),
            None => Err(Diagnostic::error("an offset must be an integer").label(expr.span, "")),
        }
    }

    fn address_base(&mut self, base: &'m ast::Operand) -> Result<AddrBase<'m>, Diagnostic> {
        if let OperandKind::Name(name) = base.kind
            && let Some(Entity::Place(place)) = self.lookup(name)
        {
            return Ok(AddrBase::Place(place));
        }
        self.check_address_register(base)?;
        Ok(AddrBase::Reg(base))
    }

    fn named_base(&mut self, name: Ident) -> Result<AddrBase<'m>, Diagnostic> {
        match self.lookup(name) {
            Some(Entity::Place(place)) => Ok(AddrBase::Place(place)),
            Some(Entity::Func(func)) => Ok(AddrBase::Func(func)),
            Some(Entity::Reg(_)) => Err(Diagnostic::error(format!(
                "`{}` is a register, not a variable; a memory address stands in brackets",
                name.text(self.source)
            ))
            .label(name.span, "")),
            None => Err(self.unknown_name(name)),
        }
    }

    /// An address register has any integer or bit type.
    fn check_address_register(&mut self, operand: &ast::Operand) -> Result<(), Diagnostic> {
        let name = match operand.kind {
            OperandKind::Name(name) | OperandKind::Member { base: name, .. } => name,
            _ => {
                return Err(Diagnostic::error("an address register is expected here")
                    .label(operand.span, ""));
            }
        };
        match self.lookup(name) {
            Some(Entity::Reg(id)) => {
                let reg = self.reg(id);
                let ty = reg.ty;
                let is_element = matches!(operand.kind, OperandKind::Member { .. });
                let is_integer =
                    matches!(ty.class(), Class::Bits | Class::Unsigned | Class::Signed);
                if is_integer && ty.bits() <= 64 && (reg.elems == 1) != is_element {
                    return Ok(());
                }
                let message = format!(
                    "`{}` of type `.{}` cannot hold an address",
                    name.text(self.source),
                    ty.name()
                );
                Err(Diagnostic::error(message)
                    .label(operand.span, "")
                    .label(reg.decl, "declared here"))
            }
            Some(Entity::Place(_) | Entity::Func(_)) => {
                Err(Diagnostic::error("an address register is expected here")
                    .label(operand.span, ""))
            }
            None => Err(self.unknown_name(name)),
        }
    }

    /// An address as a value (`mov.u64 r, var+4`), `B64`: an offset in a window, or a generic
    /// address for `.global`.
    pub fn address_value(&mut self, operand: &'m ast::Operand) -> Result<Value, Diagnostic> {
        let addr = self.resolve_address(operand)?;
        let (base, offset) = self.emit_address(&addr)?;
        let base = self.zext_or_trunc(base, Type::B64);
        Ok(self.add_offset(base, i64::from(offset)))
    }

    /// The generic address of an operand that stands inside the brackets of a larger one: a
    /// variable, or a register that holds a generic address.
    pub fn generic_address_part(&mut self, operand: &'m ast::Operand) -> Result<Value, Diagnostic> {
        let addr = match operand.kind {
            OperandKind::Name(_) => Addr {
                base: self.address_base(operand)?,
                index: None,
                offset: 0,
                is_unified: false,
                span: operand.span,
            },
            _ => self.resolve_address(operand)?,
        };
        let space = match &addr.base {
            AddrBase::Place(place) => place.space(),
            AddrBase::Reg(_) | AddrBase::Func(_) | AddrBase::Absolute => Space::Generic,
        };
        let (base, offset) = self.emit_address(&addr)?;
        let base = self.zext_or_trunc(base, Type::B64);
        let addr = self.add_offset(base, i64::from(offset));
        Ok(self.to_generic(space, addr))
    }

    /// The generic address of an address in a space, `B64` both.
    pub fn to_generic(&mut self, space: Space, arg: Value) -> Value {
        match space {
            Space::Global => arg,
            Space::Generic => self.widen(arg),
            space => self.ins(InstData::ToGeneric { space, arg }, Type::B64),
        }
    }

    /// The address of an entity plus an offset, `B64`.
    pub fn entity_address(&mut self, entity: Entity, offset: i64) -> Value {
        match entity {
            // The parameter holds the handle, which stands for an address.
            Entity::Place(place)
                if place.opaque.is_some() && matches!(place.base, PlaceBase::KernelParam(_)) =>
            {
                let at = self.place_address(place, 0);
                self.load(Space::Param, Type::B64, 1, at)[0]
            }
            Entity::Place(place) => {
                let (base, rest) = self.place_address(place, offset);
                self.add_offset(base, i64::from(rest))
            }
            Entity::Func(func) => self.function_address(func),
            // Registers have no address; the caller has told them apart.
            Entity::Reg(_) => self.iconst(Type::B64, 0),
        }
    }

    /// Emits the parts of an address: a base value (`B32` or `B64`) and what to add to it.
    pub fn emit_address(&mut self, addr: &Addr<'m>) -> Result<(Value, i32), Diagnostic> {
        let (base, offset) = match addr.base {
            AddrBase::Reg(reg) => {
                let base = self.read_address_register(reg)?;
                match i32::try_from(addr.offset) {
                    Ok(offset) => (base, offset),
                    Err(_) => (self.add_offset(base, addr.offset), 0),
                }
            }
            AddrBase::Place(place) => self.place_address(place, addr.offset),
            AddrBase::Func(func) => (self.function_address(func), 0),
            AddrBase::Absolute => (self.iconst(Type::B64, addr.offset as u64), 0),
        };
        let Some((index, size)) = addr.index else {
            return Ok((base, offset));
        };
        // An index is used as 32 bits, zero-extended, and counts elements.
        let index = self.read_address_register(index)?;
        let index = self.zext_or_trunc(index, Type::B32);
        let index = self.zext_or_trunc(index, Type::B64);
        let size = self.iconst(Type::B64, u64::from(size));
        let scaled = self.binary(IntBinaryOp::Mul, index, size);
        let base = self.zext_or_trunc(base, Type::B64);
        Ok((self.binary(IntBinaryOp::Add, base, scaled), offset))
    }

    /// An address register's value; narrow ones are zero-extended to 32 bits.
    fn read_address_register(&mut self, operand: &'m ast::Operand) -> Result<Value, Diagnostic> {
        let values = self.read_elems(operand, PtxType::B128)?;
        let value = values.first().copied().flatten();
        let value = value.ok_or_else(|| {
            Diagnostic::error("an address register is expected here").label(operand.span, "")
        })?;
        match self.value_ty(value) {
            Type::B64 if self.cuts_addresses() => Ok(self.zext_or_trunc(value, Type::B32)),
            Type::B32 | Type::B64 => Ok(value),
            Type::B1 | Type::B8 | Type::B16 => Ok(self.zext_or_trunc(value, Type::B32)),
        }
    }

    /// Emits the base of a place; the second part is what is to be added to it.
    pub(super) fn place_address(&mut self, place: Place, offset: i64) -> (Value, i32) {
        let offset = offset.wrapping_add(place.start);
        let (base, rest) = match i32::try_from(offset) {
            Ok(small) => (0, small),
            Err(_) => (offset, 0),
        };
        match place.base {
            PlaceBase::KernelParam(start) => {
                let total = i64::from(start).wrapping_add(offset);
                (self.iconst(Type::B64, total as u64), 0)
            }
            PlaceBase::Local(slot)
            | PlaceBase::CallParam(slot)
            | PlaceBase::Formal(slot)
            | PlaceBase::Return(slot) => {
                let value = self.ins(InstData::StackAddr { slot, offset: 0 }, Type::B64);
                (self.add_offset(value, base), rest)
            }
            PlaceBase::UnsizedFormal(var) => {
                let value = self.builder.use_var(var);
                (self.add_offset(value, base), rest)
            }
            PlaceBase::Var(var, _) => {
                self.found.vars.insert(var);
                (
                    self.ins(InstData::VarAddr { var, offset: base }, Type::B64),
                    rest,
                )
            }
        }
    }

    /// Only kernels that ask for reserved shared memory have it, as a variable.
    pub(super) fn read_reserved(&mut self, reserved: Reserved) -> Value {
        match reserved {
            Reserved::At(offset) => {
                let (var, offset) = (Module::reserved_shared(), i64::from(offset));
                self.found.vars.insert(var);
                let addr = self.ins(InstData::VarAddr { var, offset }, Type::B64);
                self.zext_or_trunc(addr, Type::B32)
            }
            Reserved::Size => self.iconst(Type::B32, u64::from(sregs::RESERVED_SHARED_BYTES)),
        }
    }

    fn function_address(&mut self, func: FuncId) -> Value {
        let func = self.module.resolve_alias(func);
        self.found
            .callees
            .entry(func)
            .or_insert(Span::new(self.at, self.at));
        self.ins(InstData::FuncAddr { func }, Type::B64)
    }

    pub(super) fn add_offset(&mut self, base: Value, offset: i64) -> Value {
        if offset == 0 {
            return base;
        }
        let ty = self.value_ty(base);
        let offset = self.iconst(ty, offset as u64);
        self.binary(IntBinaryOp::Add, base, offset)
    }
}
