//! Calls: direct, indirect, and of the functions that the device runtime provides.
//!
//! In the IR a call passes values only. A register is passed as its value, a `.param` object as the
//! pieces that [`layout::pieces_of`] cuts it into: the caller loads them from its `.param`
//! variable, the callee stores them to the slot of its formal. Both slots are private memory, which
//! later passes remove. A large object stays whole: the callee gets the address of the caller's
//! variable and copies to or from it. An array without size is passed as the address of the
//! caller's variable, too, and not copied.

use ptxjit_ir::{Builtin, DeviceOp, FuncId, InstData, RelocTarget, Type, Value, VarId};
use smallvec::SmallVec;

use crate::ast::{self, Ident, OperandKind};
use crate::diag::Diagnostic;
use crate::isa::types::{PtxType, Width};

use super::call_syntax::Call;
use super::flow::LabelKind;
use super::layout::{self, Layout, Passing};
use super::module::Global;
use super::scope::{Entity, Place, PlaceBase};
use super::{Inst, Translator};

/// Formal parameters and results that a call must agree with.
#[derive(Copy, Clone)]
struct Formals<'m> {
    rets: &'m [ast::Param],
    params: &'m [ast::Param],
}

/// The callees that an indirect call lists, if it lists them.
type Targets = Option<SmallVec<[FuncId; 4]>>;

impl<'m> Translator<'m> {
    /// Translates `call`.
    pub fn call(&mut self, inst: &Inst<'m>) -> Result<(), Diagnostic> {
        let call = Call::of(self.source, inst)?;
        match self.lookup(call.callee) {
            Some(Entity::Func(_)) if let Some(table) = call.table => {
                Err(Diagnostic::error("only an indirect call takes a table")
                    .label(table.span, "")
                    .label(call.callee.span, "this is a function"))
            }
            Some(Entity::Func(func)) => self.direct_call(&call, func),
            Some(Entity::Reg(_)) => self.indirect_call(inst, &call),
            Some(Entity::Place(_)) => {
                let name = call.callee.text(self.source);
                Err(Diagnostic::error(format!("`{name}` is not a function"))
                    .label(call.callee.span, ""))
            }
            None => Err(self.unknown_name(call.callee)),
        }
    }

    fn formals_of(&self, func: FuncId) -> Formals<'m> {
        let ast = self.module.func_ast(func);
        Formals {
            rets: &ast.returns,
            params: &ast.params,
        }
    }

    fn direct_call(&mut self, call: &Call<'m>, func: FuncId) -> Result<(), Diagnostic> {
        let declared = self.module.own_ast(func);
        let func = self.module.resolve_alias(func);
        let ast = self.module.func_ast(func);
        let name = self.module.func_name(func);
        if ast.kind == ast::FunctionKind::Entry {
            return Err(
                Diagnostic::error(format!("`{name}` is a kernel and cannot be called"))
                    .label(call.callee.span, ""),
            );
        }
        let callee = self.formals_of(func);
        let formals = Formals {
            rets: &declared.returns,
            ..callee
        };
        let mut args = self.arguments(call, formals)?;
        self.result_addresses(call, formals, &mut args)?;
        let types = result_types(callee);
        let mut results = match builtin(name).filter(|_| ast.body.is_none()) {
            Some(builtin) => self.call_builtin(builtin, args, &types),
            None => {
                self.found.callees.entry(func).or_insert(call.span);
                let results = self.ins_multi(InstData::Call { func, args }, &types);
                self.restart_counting();
                results
            }
        };
        if callee.rets.is_empty() {
            // Results that only the caller's module declares are undefined; zeros are as good as
            // anything, and the same in each engine.
            let declared = result_types(formals);
            results.extend(declared.into_iter().map(|ty| self.iconst(ty, 0)));
        }
        self.results(call, formals, &results)
    }

    /// Emits the call of a runtime function with operands of the widths that it is defined with.
    fn call_builtin(
        &mut self,
        builtin: Builtin,
        args: SmallVec<[Value; 4]>,
        types: &[Type],
    ) -> SmallVec<[Value; 2]> {
        let mut widened = SmallVec::new();
        for (n, &ty) in builtin.args().iter().enumerate() {
            let value = args.get(n).copied();
            let value = value.unwrap_or_else(|| self.iconst(ty, 0));
            let is_address = builtin != Builtin::Malloc && self.value_ty(value) == Type::B32;
            let value = self.zext_or_trunc(value, ty);
            // A line number or a size of characters, among the addresses of `__assertfail`, is far
            // below all windows.
            widened.push(match ty {
                Type::B64 if is_address => self.widen(value),
                _ => value,
            });
        }
        let results = self.ins_multi(
            InstData::Device {
                op: DeviceOp::Builtin(builtin),
                args: widened,
            },
            builtin.results(),
        );
        let mut adapted = SmallVec::new();
        for (n, &ty) in types.iter().enumerate() {
            let value = results.get(n).copied();
            let value = value.unwrap_or_else(|| self.iconst(ty, 0));
            adapted.push(self.zext_or_trunc(value, ty));
        }
        adapted
    }

    fn indirect_call(&mut self, inst: &Inst<'m>, call: &Call<'m>) -> Result<(), Diagnostic> {
        let Some(table) = call.table else {
            return Err(Diagnostic::error("an indirect call needs a `.calltargets` or `.callprototype` label as its last operand")
                .label(call.span, ""));
        };
        let (formals, targets) = self.call_table(table)?;
        if let Some(Entity::Reg(id)) = self.lookup(call.callee) {
            let reg = self.reg(id);
            if !PtxType::U64.fits(reg.ty, Width::Exact) && !PtxType::U32.fits(reg.ty, Width::Exact)
            {
                let message = format!(
                    "a register of type `.{}` cannot hold a function",
                    reg.ty.name()
                );
                return Err(Diagnostic::error(message)
                    .label(call.callee.span, "")
                    .label(reg.decl, "declared here"));
            }
        }
        let mut args = self.arguments(call, formals)?;
        self.result_addresses(call, formals, &mut args)?;
        let n = inst
            .ast
            .operands
            .iter()
            .position(|operand| matches!(operand.kind, OperandKind::Name(_)));
        let callee = self.src_as(inst, n.unwrap_or(0), PtxType::U64)?;
        let signature = layout::signature(formals.params, formals.rets);
        let sig = self.tables.intern(signature);
        match &targets {
            None => {
                self.found.open_calls.insert(sig);
            }
            Some(targets) => {
                for &target in targets {
                    self.found.callees.entry(target).or_insert(call.span);
                }
            }
        }
        let types = result_types(formals);
        let targets = targets.map(SmallVec::into_boxed_slice);
        let results = self.ins_multi(
            InstData::CallIndirect {
                sig,
                callee,
                args,
                targets,
            },
            &types,
        );
        self.restart_counting();
        self.results(call, formals, &results)
    }

    /// What the last operand of an indirect call says: the formals, and the targets if it lists
    /// them.
    fn call_table(&mut self, table: Ident) -> Result<(Formals<'m>, Targets), Diagnostic> {
        let text = table.text(self.source);
        match self.find_label(table) {
            Some(LabelKind::CallPrototype(proto)) => {
                return Ok((
                    Formals {
                        rets: &proto.returns,
                        params: &proto.params,
                    },
                    None,
                ));
            }
            Some(LabelKind::CallTargets(list)) => {
                let mut targets = SmallVec::new();
                self.use_call_table(list.targets.len(), table.span)?;
                for name in &list.targets {
                    targets.push(self.call_target(*name)?);
                }
                return self.with_formals(table, targets);
            }
            Some(LabelKind::Code(_) | LabelKind::BranchTargets(_)) | None => {}
        }
        if let Some(Global::Var(id)) = self.unit.global(text) {
            let targets = self.targets_in(id)?;
            self.use_call_table(targets.len(), table.span)?;
            return self.with_formals(table, targets);
        }
        Err(Diagnostic::error(format!(
            "`{text}` names no `.calltargets` or `.callprototype` before this instruction"
        ))
        .label(table.span, ""))
    }

    /// The functions whose addresses a variable has initially.
    fn targets_in(&mut self, id: VarId) -> Result<SmallVec<[FuncId; 4]>, Diagnostic> {
        if let Some(known) = self.target_arrays.get(&id) {
            return Ok(known.clone());
        }
        let init = self.module.var_init(id);
        let init = init.map_err(|mut found| found.swap_remove(0))?;
        let funcs = init.relocs.iter().filter_map(|reloc| match reloc.target {
            RelocTarget::Func(func) => Some(self.module.resolve_alias(func)),
            RelocTarget::Var(_) => None,
        });
        let targets: SmallVec<[FuncId; 4]> = funcs.collect();
        self.target_arrays.insert(id, targets.clone());
        Ok(targets)
    }

    fn with_formals(
        &self,
        table: Ident,
        targets: SmallVec<[FuncId; 4]>,
    ) -> Result<(Formals<'m>, Targets), Diagnostic> {
        match targets.first() {
            Some(&first) => Ok((self.formals_of(first), Some(targets))),
            None => {
                let text = table.text(self.source);
                Err(Diagnostic::error(format!("`{text}` lists no function")).label(table.span, ""))
            }
        }
    }

    fn call_target(&mut self, name: Ident) -> Result<FuncId, Diagnostic> {
        match self.lookup(name) {
            Some(Entity::Func(func)) => Ok(self.module.resolve_alias(func)),
            Some(Entity::Reg(_) | Entity::Place(_)) => {
                let text = name.text(self.source);
                Err(Diagnostic::error(format!("`{text}` is not a function")).label(name.span, ""))
            }
            None => Err(self.unknown_name(name)),
        }
    }

    /// All targets of a `.calltargets` must be functions of one signature.
    pub(super) fn check_call_targets(
        &mut self,
        table: &'m ast::CallTargets,
    ) -> Result<(), Diagnostic> {
        let mut first: Option<(FuncId, Ident)> = None;
        for &name in &table.targets {
            let func = self.call_target(name)?;
            let Some((before, before_name)) = first else {
                first = Some((func, name));
                continue;
            };
            let (a, b) = (self.module.func_ast(before), self.module.func_ast(func));
            if !super::linkage::same_signature(a, b) {
                let (a, b) = (before_name.text(self.source), name.text(self.source));
                return Err(Diagnostic::error(format!(
                    "`{b}` and `{a}` have different parameters"
                ))
                .label(name.span, "")
                .note("all functions of a `.calltargets` list must have the same signature"));
            }
        }
        Ok(())
    }

    fn arguments(
        &mut self,
        call: &Call<'m>,
        formals: Formals<'m>,
    ) -> Result<SmallVec<[Value; 4]>, Diagnostic> {
        let name = call.callee.text(self.source);
        let has_open_end = formals
            .params
            .last()
            .is_some_and(|param| Layout::of_param(param).is_unsized);
        let (n, expected) = (call.args.len(), formals.params.len());
        if n != expected && !(has_open_end && n + 1 == expected) {
            return Err(
                Diagnostic::error(format!("`{name}` takes {expected} arguments, not {n}"))
                    .label(call.span, ""),
            );
        }
        if call.rets.len() != formals.rets.len() {
            let (n, expected) = (call.rets.len(), formals.rets.len());
            return Err(
                Diagnostic::error(format!("`{name}` returns {expected} values, not {n}"))
                    .label(call.span, ""),
            );
        }
        let narrow = |param: &&ast::Param| {
            param.space == ast::Space::Reg && PtxType::of(param.ty).bits() < 32
        };
        if formals
            .params
            .iter()
            .chain(formals.rets)
            .any(|param| narrow(&param))
        {
            return Err(Diagnostic::error(format!(
                "`{name}` has a `.reg` parameter of less than 32 bits and cannot be called"
            ))
            .label(call.span, ""));
        }
        let mut values = SmallVec::new();
        for (operand, formal) in call.args.iter().zip(formals.params) {
            let pieces = self.argument(operand, formal)?;
            self.call_values.add(pieces.len(), call.span)?;
            values.extend(pieces);
        }
        if n < expected {
            // The array without size at the end may be left out.
            values.push(self.iconst(Type::B64, 0));
        }
        Ok(values)
    }

    fn argument(
        &mut self,
        operand: &'m ast::Operand,
        formal: &'m ast::Param,
    ) -> Result<SmallVec<[Value; 4]>, Diagnostic> {
        let passing = Passing::of(formal);
        if let Some(place) = self.param_variable(operand)? {
            check_object(operand, place, formal)?;
            return Ok(match passing {
                Passing::Reg(_) => {
                    let pieces = layout::pieces_of(Layout::of_param(formal), true);
                    self.deliver(Entity::Place(place), &Passing::Memory(pieces))
                }
                Passing::Memory(_) | Passing::Copy(_) | Passing::Address => {
                    self.deliver(Entity::Place(place), &passing)
                }
            });
        }
        self.check_scalar_actual(operand, formal)?;
        let values = self.read_elems(operand, PtxType::of(formal.ty))?;
        Ok(values.into_iter().flatten().collect())
    }

    /// The `.param` variable that an actual parameter names, if it names one.
    fn param_variable(&mut self, operand: &'m ast::Operand) -> Result<Option<Place>, Diagnostic> {
        let OperandKind::Name(name) = operand.kind else {
            return Ok(None);
        };
        match self.lookup(name) {
            Some(Entity::Place(place)) => match place.base {
                PlaceBase::CallParam(_)
                | PlaceBase::Formal(_)
                | PlaceBase::Return(_)
                | PlaceBase::UnsizedFormal(_) => Ok(Some(place)),
                PlaceBase::KernelParam(_) | PlaceBase::Local(_) | PlaceBase::Var(..) => {
                    let text = name.text(self.source);
                    Err(Diagnostic::error(format!(
                        "`{text}` is not a `.param` variable of this function"
                    ))
                    .label(
                        operand.span,
                        "an argument is a register, a constant or a `.param` variable",
                    ))
                }
            },
            Some(Entity::Reg(_) | Entity::Func(_)) | None => Ok(None),
        }
    }

    /// A register or constant as argument, or a register as result.
    fn check_scalar_actual(
        &mut self,
        operand: &'m ast::Operand,
        formal: &ast::Param,
    ) -> Result<(), Diagnostic> {
        let ty = PtxType::of(formal.ty);
        if !formal.dims.is_empty() {
            return Err(Diagnostic::error(
                "an array parameter takes a `.param` variable of its size",
            )
            .label(operand.span, ""));
        }
        let name = match operand.kind {
            OperandKind::Name(name) => name,
            OperandKind::Constant(_) => return Ok(()),
            _ => {
                return Err(Diagnostic::error(
                    "a register, constant or `.param` variable is expected here",
                )
                .label(operand.span, ""));
            }
        };
        match self.lookup(name) {
            Some(Entity::Reg(id)) => {
                let reg = self.reg(id);
                if ty.fits(reg.ty, Width::Exact) && reg.elems == formal.vector.max(1) {
                    return Ok(());
                }
                let text = name.text(self.source);
                Err(Diagnostic::error(format!(
                    "`{text}` has type `.{}`, but the parameter is `.{}`",
                    reg.ty.name(),
                    ty.name()
                ))
                .label(operand.span, "")
                .label(reg.decl, "declared here"))
            }
            Some(Entity::Place(_)) => Ok(()),
            Some(Entity::Func(_)) => {
                Err(Diagnostic::error("a function cannot be an argument").label(operand.span, ""))
            }
            None if name.text(self.source) == "WARP_SZ" => Ok(()),
            None => Err(self.unknown_name(name)),
        }
    }

    /// Adds to the arguments where the callee is to put the results that it copies.
    fn result_addresses(
        &mut self,
        call: &Call<'m>,
        formals: Formals<'m>,
        args: &mut SmallVec<[Value; 4]>,
    ) -> Result<(), Diagnostic> {
        for (operand, formal) in call.rets.iter().zip(formals.rets) {
            if !Passing::of(formal).is_copied() {
                continue;
            }
            let address = match self.param_variable(operand)? {
                Some(place) => {
                    check_object(operand, place, formal)?;
                    self.entity_address(Entity::Place(place), 0)
                }
                None if matches!(operand.kind, OperandKind::Sink) => {
                    let layout = Layout::of_param(formal);
                    let size = u32::try_from(layout.size).unwrap_or(u32::MAX);
                    let slot = self.builder.stack_slot(size, layout.align.max(8));
                    self.ins(InstData::StackAddr { slot, offset: 0 }, Type::B64)
                }
                None => {
                    return Err(Diagnostic::error(
                        "an array is returned to a `.param` variable of its size",
                    )
                    .label(operand.span, ""));
                }
            };
            args.push(address);
        }
        Ok(())
    }

    fn results(
        &mut self,
        call: &Call<'m>,
        formals: Formals<'m>,
        results: &[Value],
    ) -> Result<(), Diagnostic> {
        let mut at = 0;
        for (operand, formal) in call.rets.iter().zip(formals.rets) {
            let passing = Passing::of(formal);
            if passing.is_copied() {
                // The callee has put it there.
                continue;
            }
            let n = passing.types().len();
            self.call_values.add(n, call.span)?;
            let values: SmallVec<[Value; 4]> = results.iter().skip(at).take(n).copied().collect();
            at += n;
            match self.param_variable(operand)? {
                Some(place) => {
                    check_object(operand, place, formal)?;
                    let passing = match passing {
                        Passing::Reg(_) => {
                            Passing::Memory(layout::pieces_of(Layout::of_param(formal), true))
                        }
                        Passing::Memory(_) | Passing::Copy(_) | Passing::Address => passing,
                    };
                    self.receive(Entity::Place(place), &passing, &values);
                }
                None => {
                    if !matches!(operand.kind, OperandKind::Sink) {
                        self.check_scalar_actual(operand, formal)?;
                    }
                    self.write_elems(operand, PtxType::of(formal.ty), &values)?;
                }
            }
        }
        Ok(())
    }
}

fn result_types(formals: Formals<'_>) -> SmallVec<[Type; 4]> {
    let signature = layout::signature(formals.params, formals.rets);
    signature.rets.into_iter().collect()
}

/// A `.param` variable must have the size of the formal parameter it stands for.
fn check_object(
    operand: &ast::Operand,
    place: Place,
    formal: &ast::Param,
) -> Result<(), Diagnostic> {
    let layout = Layout::of_param(formal);
    if layout.is_unsized {
        return Ok(());
    }
    if place.size == layout.size {
        if formal.dims.is_empty() || place.align == layout.align {
            return Ok(());
        }
        let message = format!(
            "this has alignment {}, but the parameter has {}",
            place.align, layout.align
        );
        return Err(Diagnostic::error(message)
            .label(operand.span, "")
            .label(place.decl, "declared here"));
    }
    Err(Diagnostic::error(format!(
        "this has {} bytes, but the parameter has {}",
        place.size, layout.size
    ))
    .label(operand.span, "")
    .label(place.decl, "declared here"))
}

/// The runtime function that an undefined name stands for.
pub(super) fn builtin(name: &str) -> Option<Builtin> {
    Builtin::ALL
        .iter()
        .copied()
        .find(|builtin| builtin.name() == name)
}
