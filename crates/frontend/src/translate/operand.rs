//! Operands of instructions: reading them as values, writing them.
//!
//! The widening rules of the PTX ISA, "Operand Size Exceeding Instruction-Type Size", are applied
//! here: a source register that is wider than the type is chopped, a value for a wider destination
//! is extended, with its sign for signed types.

use ptxjit_ir::{InstData, IntBinaryOp, SpecialReg, Type, Value, Variable};
use smallvec::SmallVec;

use crate::ast::{self, Ident, OperandKind};
use crate::diag::Diagnostic;
use crate::isa::sregs;
use crate::isa::types::{Class, PtxType};
use crate::parse::constexpr;
use crate::source::Span;

use super::layout::Layout;
use super::module::{Global, var_space};
use super::scope::{Entity, Found, Place, PlaceBase, Reg, RegId};
use super::{Inst, Translator};

/// Values of the elements of an operand.
pub type Values = SmallVec<[Value; 4]>;

impl<'m> Translator<'m> {
    /// Reads operand `n` as a value of the type its row gives it.
    pub fn src(&mut self, inst: &Inst<'m>, n: usize) -> Result<Value, Diagnostic> {
        self.src_as(inst, n, inst.opd_type(n))
    }

    /// Reads operand `n`, if it is written.
    pub fn src_opt(&mut self, inst: &Inst<'m>, n: usize) -> Result<Option<Value>, Diagnostic> {
        match inst.operand(n) {
            Some(_) => self.src(inst, n).map(Some),
            None => Ok(None),
        }
    }

    /// Reads operand `n` as a value of type `ty`.
    pub fn src_as(&mut self, inst: &Inst<'m>, n: usize, ty: PtxType) -> Result<Value, Diagnostic> {
        match inst.operand(n) {
            Some(operand) => self.read(operand, ty),
            None => Err(inst.error(format!("`{}` lacks operand {}", inst.name, n + 1))),
        }
    }

    /// Reads a constant operand.
    pub fn src_const(&mut self, inst: &Inst<'m>, n: usize) -> Result<i64, Diagnostic> {
        match inst.operand(n).map(|operand| &operand.kind) {
            Some(OperandKind::Constant(expr)) => match constexpr::evaluate(expr)?.as_int() {
                Some(value) => Ok(value as i64),
                None => Err(inst.operand_error(n, "an integer constant is expected here")),
            },
            Some(OperandKind::Name(name)) if name.text(self.source) == "WARP_SZ" => Ok(32),
            _ => Err(inst.operand_error(n, "an integer constant is expected here")),
        }
    }

    /// Reads the elements of operand `n`: a brace list, a vector register, or a single operand. An
    /// element of 128 bits gives two values, the low half first. A sink `_` gives `None`.
    pub fn src_elems(
        &mut self,
        inst: &Inst<'m>,
        n: usize,
    ) -> Result<SmallVec<[Option<Value>; 4]>, Diagnostic> {
        let ty = inst.opd_type(n);
        let Some(operand) = inst.operand(n) else {
            return Err(inst.error(format!("`{}` lacks operand {}", inst.name, n + 1)));
        };
        self.read_elems(operand, ty)
    }

    /// As [`Translator::src_elems`], for an operand that is not the instruction's own.
    pub fn read_elems(
        &mut self,
        operand: &'m ast::Operand,
        ty: PtxType,
    ) -> Result<SmallVec<[Option<Value>; 4]>, Diagnostic> {
        match &operand.kind {
            OperandKind::Vector(elems) => {
                let mut values = SmallVec::new();
                for elem in elems {
                    match elem.kind {
                        OperandKind::Sink => values.extend((0..pieces(ty)).map(|_| None)),
                        _ => values.extend(self.read_pieces(elem, ty)?.into_iter().map(Some)),
                    }
                }
                Ok(values)
            }
            _ => Ok(self
                .read_pieces(operand, ty)?
                .into_iter()
                .map(Some)
                .collect()),
        }
    }

    /// Reads one operand as a value of type `ty`, which has at most 64 bits.
    pub fn read(&mut self, operand: &'m ast::Operand, ty: PtxType) -> Result<Value, Diagnostic> {
        let pieces = self.read_pieces(operand, ty)?;
        match pieces[..] {
            [value] => Ok(value),
            _ => Err(
                Diagnostic::error(format!("a scalar `.{}` is expected here", ty.name()))
                    .label(operand.span, ""),
            ),
        }
    }

    fn read_pieces(
        &mut self,
        operand: &'m ast::Operand,
        ty: PtxType,
    ) -> Result<Values, Diagnostic> {
        let one = |value| SmallVec::from_slice(&[value]);
        match &operand.kind {
            OperandKind::Name(name) => self.read_name(*name, ty),
            OperandKind::Member { base, selector } => self.read_member(*base, *selector, ty),
            OperandKind::Constant(expr) => {
                let bits = const_bits(constexpr::evaluate(expr)?, ty)
                    .map_err(|message| Diagnostic::error(message).label(operand.span, ""))?;
                Ok(self.const_pieces(bits, ty))
            }
            OperandKind::Not(name) => {
                let values = self.read_name(*name, PtxType::Pred)?;
                Ok(one(self.unary(ptxjit_ir::IntUnaryOp::Not, values[0])))
            }
            OperandKind::NameOffset(sum) if self.is_register(sum.name) => {
                let values = self.read_name(sum.name, ty)?;
                let offset = self.offset(Some(&sum.offset))?;
                match values[..] {
                    [value] if ty.class() != Class::Float => {
                        Ok(one(self.add_offset(value, offset)))
                    }
                    _ => {
                        // Not in the ISA, which has no such operand at all, but ptxas takes it.
                        let what = format!("a register plus a constant as a `.{}`", ty.name());
                        Err(Diagnostic::unsupported(what).label(operand.span, ""))
                    }
                }
            }
            OperandKind::NameOffset(_) | OperandKind::Element(_) => {
                let addr = self.address_value(operand)?;
                Ok(one(self.fit_source(addr, ty)))
            }
            OperandKind::Address(_)
            | OperandKind::Tuple(_)
            | OperandKind::Vector(_)
            | OperandKind::Sink
            | OperandKind::Pair(_)
            | OperandKind::Neg(_)
            | OperandKind::List(_) => Err(Diagnostic::error(format!(
                "a register or constant of type `.{}` is expected here",
                ty.name()
            ))
            .label(operand.span, "")),
        }
    }

    /// A constant as one value, or as two for 128 bits (sign-extended as PTX constants are).
    fn const_pieces(&mut self, bits: u64, ty: PtxType) -> Values {
        match ty.ir() {
            Some(ir) => SmallVec::from_slice(&[self.iconst(ir, bits)]),
            None => {
                let high = ((bits as i64) >> 63) as u64;
                SmallVec::from_slice(&[self.iconst(Type::B64, bits), self.iconst(Type::B64, high)])
            }
        }
    }

    fn read_name(&mut self, name: Ident, ty: PtxType) -> Result<Values, Diagnostic> {
        let text = name.text(self.source);
        match self.lookup(name) {
            Some(Entity::Reg(id)) => {
                let vars = self.scopes.reg(id).vars.clone();
                let n = pieces(self.scopes.reg(id).ty);
                Ok(self.read_vars(&vars, n, ty))
            }
            Some(entity @ (Entity::Place(_) | Entity::Func(_))) => {
                let addr = self.entity_address(entity, 0);
                Ok(SmallVec::from_slice(&[self.fit_source(addr, ty)]))
            }
            None if text == "WARP_SZ" => Ok(self.const_pieces(32, ty)),
            None => match sregs::find(text) {
                Some(sreg) => Ok(self.read_sreg(sreg, ty)),
                None => Err(self.unknown_name(name)),
            },
        }
    }

    fn read_member(
        &mut self,
        base: Ident,
        selector: Ident,
        ty: PtxType,
    ) -> Result<Values, Diagnostic> {
        let text = selector.text(self.source);
        let Some(idx) = element_index(text) else {
            return Err(Diagnostic::error(format!(
                "`.{text}` does not select an element of a vector"
            ))
            .label(
                selector.span,
                "one of `.x .y .z .w .r .g .b .a` can stand here",
            ));
        };
        match self.lookup(base) {
            Some(Entity::Reg(id)) => {
                let Reg {
                    ty: reg_ty, vars, ..
                } = self.scopes.reg(id);
                let n = pieces(*reg_ty);
                let vars: SmallVec<[_; 2]> = vars.iter().skip(idx * n).take(n).copied().collect();
                if vars.is_empty() {
                    return Err(self.no_such_element(base, selector));
                }
                Ok(self.read_vars(&vars, n, ty))
            }
            Some(Entity::Place(_) | Entity::Func(_)) => Err(self.no_such_element(base, selector)),
            None => match sregs::find(base.text(self.source)) {
                Some(sreg) if sreg.regs.len() == 3 => {
                    let value = match sreg.regs.get(idx) {
                        Some(&reg) => self.ins(InstData::Sreg { sreg: reg }, reg.ty()),
                        // `%tid.w` and its like exist and read zero.
                        None => self.iconst(Type::B32, 0),
                    };
                    Ok(SmallVec::from_slice(&[self.fit_source(value, ty)]))
                }
                Some(_) => Err(self.no_such_element(base, selector)),
                None => Err(self.unknown_name(base)),
            },
        }
    }

    fn no_such_element(&self, base: Ident, selector: Ident) -> Diagnostic {
        let (base, text) = (base.text(self.source), selector.text(self.source));
        Diagnostic::error(format!("`{base}` has no element `.{text}`")).label(selector.span, "")
    }

    fn read_sreg(&mut self, sreg: &sregs::Sreg, ty: PtxType) -> Values {
        if let Some(reserved) = sreg.reserved {
            let value = self.read_reserved(reserved);
            return SmallVec::from_slice(&[self.fit_source(value, ty)]);
        }
        let regs: SmallVec<[SpecialReg; 3]> = SmallVec::from_slice(sreg.regs);
        let mut values: Values = regs
            .iter()
            .map(|&reg| self.ins(InstData::Sreg { sreg: reg }, reg.ty()))
            .collect();
        if values.len() == 3 {
            values.push(self.iconst(Type::B32, 0));
        }
        self.fit_sources(values, ty)
    }

    /// Reads a register's variables, `n` for each element, and chops the elements to the type of
    /// the instruction.
    fn read_vars(&mut self, vars: &[Variable], n: usize, ty: PtxType) -> Values {
        let values = vars
            .chunks(n)
            .flat_map(|elem| elem.iter().take(pieces(ty)))
            .map(|&var| self.builder.use_var(var))
            .collect();
        self.fit_sources(values, ty)
    }

    fn fit_sources(&mut self, values: Values, ty: PtxType) -> Values {
        values
            .into_iter()
            .map(|value| self.fit_source(value, ty))
            .collect()
    }

    /// Chops a register's value to the type of the instruction. (A narrower one only occurs where
    /// `check` has complained.)
    fn fit_source(&mut self, value: Value, ty: PtxType) -> Value {
        match ty.ir() {
            Some(to) => self.zext_or_trunc(value, to),
            None => value,
        }
    }

    /// Writes `value` to operand `n`, whose type the row gives.
    pub fn dst(&mut self, inst: &Inst<'m>, n: usize, value: Value) -> Result<(), Diagnostic> {
        self.dst_as(inst, n, inst.opd_type(n), value)
    }

    /// Writes `value`, of type `ty`, to operand `n`.
    pub fn dst_as(
        &mut self,
        inst: &Inst<'m>,
        n: usize,
        ty: PtxType,
        value: Value,
    ) -> Result<(), Diagnostic> {
        match inst.operand(n) {
            Some(operand) => self.write(operand, ty, &[value]),
            None => Err(inst.error(format!("`{}` lacks operand {}", inst.name, n + 1))),
        }
    }

    /// Writes `d` and `p` to operand `n`, which is `d` or `d|p`.
    pub fn dst_pair(
        &mut self,
        inst: &Inst<'m>,
        n: usize,
        d: Value,
        p: Value,
    ) -> Result<(), Diagnostic> {
        match inst.operand(n).map(|operand| &operand.kind) {
            Some(OperandKind::Pair(pair)) => {
                self.write(&pair[0], inst.opd_type(n), &[d])?;
                self.write(&pair[1], PtxType::Pred, &[p])
            }
            _ => self.dst(inst, n, d),
        }
    }

    /// Writes the elements of operand `n`: a brace list, a vector register, or a single register.
    /// 128-bit elements take two values each, the low half first.
    pub fn dst_elems(
        &mut self,
        inst: &Inst<'m>,
        n: usize,
        values: &[Value],
    ) -> Result<(), Diagnostic> {
        match inst.operand(n) {
            Some(operand) => self.write_elems(operand, inst.opd_type(n), values),
            None => Err(inst.error(format!("`{}` lacks operand {}", inst.name, n + 1))),
        }
    }

    /// As [`Translator::dst_elems`], for an operand that is not the instruction's own.
    pub fn write_elems(
        &mut self,
        operand: &'m ast::Operand,
        ty: PtxType,
        values: &[Value],
    ) -> Result<(), Diagnostic> {
        match &operand.kind {
            OperandKind::Vector(elems) => {
                for (elem, chunk) in elems.iter().zip(values.chunks(pieces(ty))) {
                    self.write(elem, ty, chunk)?;
                }
                Ok(())
            }
            _ => self.write(operand, ty, values),
        }
    }

    /// Writes values of type `ty` to a register, an element of one, or nowhere (`_`).
    pub fn write(
        &mut self,
        operand: &'m ast::Operand,
        ty: PtxType,
        values: &[Value],
    ) -> Result<(), Diagnostic> {
        let (base, first) = match operand.kind {
            OperandKind::Sink => return Ok(()),
            OperandKind::Name(name) => (name, 0),
            OperandKind::Member { base, selector } => {
                match element_index(selector.text(self.source)) {
                    Some(idx) => (base, idx),
                    None => return Err(self.no_such_element(base, selector)),
                }
            }
            _ => {
                return Err(
                    Diagnostic::error("a register is expected here").label(operand.span, "")
                );
            }
        };
        let id = match self.lookup(base) {
            Some(Entity::Reg(id)) => id,
            Some(Entity::Place(_) | Entity::Func(_)) => {
                return Err(not_a_register(base.text(self.source), base.span));
            }
            None if sregs::find(base.text(self.source)).is_some() => {
                return Err(Diagnostic::error(format!(
                    "special register `{}` is read-only",
                    base.text(self.source)
                ))
                .label(base.span, ""));
            }
            None => return Err(self.unknown_name(base)),
        };
        self.write_reg(id, first, ty, values);
        Ok(())
    }

    fn write_reg(&mut self, id: RegId, first: usize, ty: PtxType, values: &[Value]) {
        let reg = self.scopes.reg(id);
        let n = pieces(reg.ty);
        let vars: SmallVec<[_; 4]> = reg.vars.iter().skip(first * n).copied().collect();
        for (vars, values) in vars.chunks(n).zip(values.chunks(pieces(ty))) {
            let mut last = None;
            for (&var, &value) in vars.iter().zip(values) {
                let to = self.builder.var_ty(var);
                let value = if ty.is_signed() {
                    self.sext_or_trunc(value, to)
                } else {
                    self.zext_or_trunc(value, to)
                };
                self.assign(var, value);
                last = Some(value);
            }
            if let (Some(low), [_, high]) = (last.filter(|_| values.len() == 1), vars) {
                let value = self.upper_half(ty, low);
                self.assign(*high, value);
            }
        }
    }

    /// The upper 64 bits of a value of at most 64 bits that is made 128 bits wide.
    fn upper_half(&mut self, ty: PtxType, low: Value) -> Value {
        if !ty.is_signed() {
            return self.iconst(Type::B64, 0);
        }
        let sign = self.iconst(Type::B32, 63);
        self.binary(IntBinaryOp::Sshr, low, sign)
    }

    /// Whether a name is a register or a special register.
    pub fn is_register(&mut self, name: Ident) -> bool {
        match self.lookup(name) {
            Some(Entity::Reg(_)) => true,
            Some(Entity::Place(_) | Entity::Func(_)) => false,
            None => sregs::find(name.text(self.source)).is_some(),
        }
    }

    /// What a name stands for in the scopes open here.
    pub fn lookup(&mut self, name: Ident) -> Option<Entity> {
        let start = name.span.start;
        let slot = start as usize / 4 % self.recent.len();
        if let (place, reg) = self.recent[slot]
            && place == start
        {
            return Some(Entity::Reg(reg));
        }
        let entity = self.find(name.text(self.source));
        if let Some(Entity::Reg(reg)) = entity {
            self.recent[slot] = (start, reg);
        }
        entity
    }

    fn find(&mut self, text: &'m str) -> Option<Entity> {
        match self.scopes.find(text) {
            None => self.lookup_global(text),
            Some(Found::Entity(entity)) => Some(entity),
            Some(Found::NewReg {
                scope,
                prefix_len,
                number,
            }) => {
                let prefix = &text[..prefix_len];
                let (ty, elems, decl) = self.scopes.range_of(scope, prefix)?;
                let id = self.new_reg(ty, elems, decl);
                self.scopes
                    .add_to_range(scope, (text, prefix_len), number, id);
                Some(Entity::Reg(id))
            }
        }
    }

    /// What a name stands for at module scope, if it is declared before the statement at hand.
    fn lookup_global(&mut self, text: &'m str) -> Option<Entity> {
        match self.unit.global(text)? {
            Global::Func(func) => {
                (self.module.first_decl(func).start < self.at).then_some(Entity::Func(func))
            }
            Global::Var(var) => {
                let ast = self
                    .module
                    .module_var(var)
                    .and_then(|var| self.module.var_ast(var.decls[0]))?;
                let layout = Layout::of_var(ast);
                let place = Place {
                    base: PlaceBase::Var(self.module.resolve_var(var), var_space(ast.space)?),
                    start: 0,
                    elem_size: layout.elem,
                    size: layout.size,
                    align: layout.align,
                    opaque: opaque(ast.ty),
                    decl: ast.name.span,
                };
                (ast.name.span.start < self.at).then_some(Entity::Place(place))
            }
            // Declared only once its space turns out to be usable here: see `declare_old`.
            Global::Old(_) => None,
        }
    }

    /// Makes a register and its SSA variables.
    pub(super) fn new_reg(&mut self, ty: PtxType, elems: u8, decl: Span) -> RegId {
        let ir = ty.ir().unwrap_or(Type::B64);
        let vars = (0..usize::from(elems) * pieces(ty))
            .map(|_| self.builder.declare(ir))
            .collect();
        self.scopes.add_reg(Reg {
            ty,
            elems,
            vars,
            decl,
        })
    }

    /// A register's description.
    pub fn reg(&self, id: RegId) -> &Reg {
        self.scopes.reg(id)
    }

    /// An error for a name that stands for nothing here, with the nearest one that does.
    pub fn unknown_name(&self, name: Ident) -> Diagnostic {
        let text = name.text(self.source);
        if let Some(Global::Old(_)) = self.unit.global(text) {
            return Diagnostic::unsupported(format!(
                "`{text}`, declared at module scope, in a device function"
            ))
            .label(name.span, "");
        }
        let diagnostic =
            Diagnostic::error(format!("`{text}` is not declared")).label(name.span, "unknown name");
        if self.unit.global(text).is_some() {
            return diagnostic.note(format!(
                "`{text}` is declared further down; PTX wants it before its first use"
            ));
        }
        let names = self.scopes.names().chain(self.unit.global_names());
        match self.nearest(text, names) {
            Some(near) => diagnostic.note(format!("`{near}` is declared")),
            None => diagnostic,
        }
    }
}

fn not_a_register(name: &str, span: Span) -> Diagnostic {
    Diagnostic::error(format!("`{name}` is not a register"))
        .label(span, "a register is expected here")
}

/// The type of something that memory instructions cannot look into.
pub(super) fn opaque(ty: ast::Type) -> Option<PtxType> {
    ty.is_opaque().then(|| PtxType::of(ty))
}

/// Number of IR values that hold one element.
pub fn pieces(ty: PtxType) -> usize {
    if ty.bits() == 128 { 2 } else { 1 }
}

/// The element that `.x` or `.r`, `.y` or `.g`, … selects.
pub fn element_index(selector: &str) -> Option<usize> {
    match selector {
        "x" | "r" => Some(0),
        "y" | "g" => Some(1),
        "z" | "b" => Some(2),
        "w" | "a" => Some(3),
        _ => None,
    }
}

/// The bits of a constant in an operand of type `ty`. Integers are truncated; in a float operand a
/// float constant is rounded to the type.
pub fn const_bits(value: constexpr::Value, ty: PtxType) -> Result<u64, String> {
    use constexpr::Value as V;
    match (ty.class(), value) {
        (Class::Pred, V::S64(_) | V::U64(_)) => Ok(u64::from(value.as_int() != Some(0))),
        (Class::Bits | Class::Unsigned | Class::Signed, V::S64(_) | V::U64(_)) => {
            Ok(value.as_int().unwrap_or(0))
        }
        // The hexadecimal forms are bit patterns; ptxas takes them where bits of their size are
        // wanted.
        (Class::Bits, V::F32Bits(bits)) if ty.bits() == 32 => Ok(u64::from(bits)),
        (Class::Bits, V::F64(value)) if ty.bits() == 64 => Ok(value.to_bits()),
        (Class::Float, V::F32Bits(bits)) if ty == PtxType::F32 => Ok(u64::from(bits)),
        (Class::Float, V::F32Bits(bits)) if ty == PtxType::F64 => {
            Ok(f64::from(f32::from_bits(bits)).to_bits())
        }
        (Class::Float, V::F64(value)) if ty == PtxType::F32 => {
            Ok(u64::from((value as f32).to_bits()))
        }
        (Class::Float, V::F64(value)) if ty == PtxType::F64 => Ok(value.to_bits()),
        (Class::Float, V::S64(_) | V::U64(_)) => Err(format!(
            "an integer constant cannot be an operand of type `.{}`",
            ty.name()
        )),
        (_, V::F32Bits(_) | V::F64(_)) => Err(format!(
            "a float constant cannot be an operand of type `.{}`",
            ty.name()
        )),
        (Class::Format | Class::Opaque, V::S64(_) | V::U64(_)) => Err(format!(
            "a constant cannot be an operand of type `.{}`",
            ty.name()
        )),
    }
}
