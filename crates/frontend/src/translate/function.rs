//! Translation of one function: parameters, statements, return.

use ptxjit_ir::{
    FuncId, Function, FunctionBuilder, FunctionKind, InstData, MemSem, Scope, Space, SrcLoc,
    Terminator, TrapKind, Type, Value,
};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::ast::{self, Body, Stmt, StmtKind};
use crate::diag::Diagnostic;
use crate::isa;
use crate::isa::types::PtxType;

use super::flow::{LabelKind, Labels};
use super::gates;
use super::layout::{self, Layout, Passing, Piece};
use super::limits;
use super::module::Module;
use super::operand::opaque;
use super::program::Tables;
use super::scope::{Entity, Place, PlaceBase, RegId, Scopes};
use super::{Counting, Found, Inst, Translator};

/// Translates a body; the function is usable only if no error was found.
pub(super) fn translate(
    module: &Module,
    id: FuncId,
    body: &Body,
    tables: &mut Tables,
) -> (Function, Found) {
    let ast = module.own_ast(id);
    let is_kernel = ast.kind == ast::FunctionKind::Entry;
    let kind = if is_kernel {
        FunctionKind::Kernel
    } else {
        FunctionKind::Device
    };
    let rets = layout::signature(&ast.params, &ast.returns).rets;
    let rets = rets.into_iter().collect();
    let mut func = Function::new(module.func_name(id), kind, rets);
    let (labels, diagnostics) = Labels::gather(&module.source, &body.stmts);
    let mut builder = FunctionBuilder::new(&mut func);
    builder.limit_work(limits::merge_steps(body.span));
    if tables.marks {
        builder.mark_undefined();
    }
    let mut t = Translator {
        module,
        unit: module.unit_of(ast.span),
        source: &module.source,
        builder,
        tables,
        is_kernel,
        scopes: Scopes::new(),
        labels,
        returns: Vec::new(),
        at: body.span.start,
        guard: None,
        counting: Counting::default(),
        cc: None,
        cta_group: None,
        found: Found {
            diagnostics,
            ..Found::default()
        },
        target_arrays: FxHashMap::default(),
        range_names: limits::RangeNames::default(),
        call_values: limits::CallValues::default(),
        forms: FxHashMap::default(),
        recent: [(u32::MAX, RegId(0)); 16],
    };
    t.function(id, ast, body);
    let is_complete = t.builder.is_complete();
    let mut found = std::mem::take(&mut t.found);
    // The builder writes its last instructions.
    drop(t);
    let name = module.func_name(id);
    if !is_complete {
        found
            .diagnostics
            .push(limits::too_many_merges(name, body.span, ast.name.span));
    }
    found
        .diagnostics
        .extend(limits::check_frame(name, ast.name.span, &func));
    (func, found)
}

impl<'m> Translator<'m> {
    fn function(&mut self, id: FuncId, ast: &'m ast::Function, body: &'m Body) {
        let entry = self.builder.current_block();
        self.builder.set_loc(SrcLoc(ast.span.start));
        if self.is_kernel {
            self.declare_old();
        }
        // Parameters and the names of the body are of one scope.
        self.scopes.open();
        self.labels.enter();
        if self.is_kernel {
            self.declare_kernel_params(ast);
        } else {
            self.declare_formals(ast);
        }
        self.builder.seal(entry);
        self.count_function(id);
        for stmt in &body.stmts {
            self.at = stmt.span.start;
            self.builder.set_loc(SrcLoc(stmt.span.start));
            if let Err(diagnostic) = self.statement(stmt) {
                self.report(diagnostic);
            }
        }
        self.builder
            .set_loc(SrcLoc(body.span.end.saturating_sub(1)));
        if !self.builder.is_filled() {
            self.end_of_body(ast);
        }
        self.builder.seal_all();
    }

    fn end_of_body(&mut self, ast: &ast::Function) {
        if ast.is_noreturn() {
            self.builder
                .terminate(Terminator::Trap(TrapKind::Unreachable));
        } else {
            self.ret();
        }
    }

    /// Registers and local variables of module scope (PTX before 3.0) are those of each thread.
    /// Device functions would share them with their caller, which is not done: there they stay
    /// unknown.
    fn declare_old(&mut self) {
        for var in self.unit.ast.variables() {
            if matches!(var.space, ast::Space::Reg | ast::Space::Local)
                && let Err(diagnostic) = self.declare_variable(var)
            {
                self.report(diagnostic);
            }
        }
    }

    fn declare_kernel_params(&mut self, ast: &'m ast::Function) {
        for (param, place) in ast
            .params
            .iter()
            .zip(layout::kernel_params(ast, self.source))
        {
            let Some(name) = param.name else { continue };
            let layout = Layout::of_param(param);
            let place = Place {
                base: PlaceBase::KernelParam(place.offset),
                start: 0,
                elem_size: layout.elem,
                size: layout.size,
                align: layout.align,
                opaque: opaque(param.ty),
                decl: name.span,
            };
            self.declare(name, Entity::Place(place));
        }
    }

    fn declare_formals(&mut self, ast: &'m ast::Function) {
        let entry = self.builder.current_block();
        let mut incoming = Vec::new();
        for param in &ast.params {
            let passing = Passing::of(param);
            let values: SmallVec<[Value; 4]> = passing
                .types()
                .iter()
                .map(|&ty| self.builder.func.add_param(entry, ty))
                .collect();
            incoming.push((param, passing, values));
        }
        let mut targets = Vec::new();
        for param in &ast.returns {
            let passing = Passing::of(param);
            let target = passing
                .is_copied()
                .then(|| self.builder.func.add_param(entry, Type::B64));
            targets.push((param, passing, target));
        }
        for (param, passing, values) in incoming {
            let entity = self.formal(param, &passing, PlaceBase::Formal);
            self.receive(entity, &passing, &values);
        }
        for (param, passing, target) in targets {
            let entity = self.formal(param, &passing, PlaceBase::Return);
            let target = target.map(|address| {
                let var = self.builder.declare(Type::B64);
                self.builder.def_var(var, address);
                var
            });
            self.returns.push((entity, passing, target));
        }
    }

    /// Makes the register or the memory of a formal parameter or result and declares its name.
    fn formal(
        &mut self,
        param: &'m ast::Param,
        passing: &Passing,
        base: fn(ptxjit_ir::StackSlot) -> PlaceBase,
    ) -> Entity {
        let decl = param.name.map_or(param.span, |name| name.span);
        let layout = Layout::of_param(param);
        let base = match passing {
            Passing::Reg(_) => {
                let id = self.new_reg(PtxType::of(param.ty), param.vector.max(1), decl);
                let entity = Entity::Reg(id);
                if let Some(name) = param.name {
                    self.declare(name, entity);
                }
                return entity;
            }
            Passing::Memory(_) | Passing::Copy(_) => base(self.builder.stack_slot(
                u32::try_from(layout.size).unwrap_or(u32::MAX),
                layout.align.max(8),
            )),
            Passing::Address => PlaceBase::UnsizedFormal(self.builder.declare(Type::B64)),
        };
        let place = Place {
            base,
            start: 0,
            elem_size: layout.elem,
            size: layout.size,
            align: layout.align,
            opaque: None,
            decl,
        };
        if let Some(name) = param.name {
            self.declare(name, Entity::Place(place));
        }
        Entity::Place(place)
    }

    /// Puts values that a call delivered where the name finds them.
    pub(super) fn receive(&mut self, entity: Entity, passing: &Passing, values: &[Value]) {
        match (entity, passing) {
            (Entity::Reg(id), _) => {
                let vars = self.scopes.reg(id).vars.clone();
                for (&var, &value) in vars.iter().zip(values) {
                    let to = self.builder.var_ty(var);
                    let value = self.zext_or_trunc(value, to);
                    self.builder.def_var(var, value);
                }
            }
            (
                Entity::Place(Place {
                    base: PlaceBase::UnsizedFormal(var),
                    ..
                }),
                _,
            ) => {
                for &value in values.iter().take(1) {
                    self.builder.def_var(var, value);
                }
            }
            (Entity::Place(place), Passing::Memory(pieces)) => {
                self.store_pieces(place, pieces, values)
            }
            (Entity::Place(place), &Passing::Copy(block)) => {
                if let Some(&from) = values.first() {
                    let to = self.entity_address(Entity::Place(place), 0);
                    self.copy_block(block, to, from);
                }
            }
            (Entity::Place(_) | Entity::Func(_), _) => {}
        }
    }

    /// The values of an argument or result, as a call passes them.
    pub(super) fn deliver(&mut self, entity: Entity, passing: &Passing) -> SmallVec<[Value; 4]> {
        match (entity, passing) {
            (Entity::Reg(id), _) => {
                let vars = self.scopes.reg(id).vars.clone();
                let values: SmallVec<[Value; 4]> =
                    vars.iter().map(|&var| self.builder.use_var(var)).collect();
                let types = passing.types();
                values
                    .into_iter()
                    .zip(types)
                    .map(|(value, ty)| self.zext_or_trunc(value, ty))
                    .collect()
            }
            (Entity::Place(place), Passing::Memory(pieces)) => self.load_pieces(place, pieces),
            (Entity::Place(_) | Entity::Func(_), _) => {
                SmallVec::from_slice(&[self.entity_address(entity, 0)])
            }
        }
    }

    fn store_pieces(&mut self, place: Place, pieces: &[Piece], values: &[Value]) {
        for (piece, &value) in pieces.iter().zip(values) {
            let (addr, offset) = self.piece_address(place, piece);
            let (space, sem, scope) = (Space::Local, MemSem::Weak, Scope::Cta);
            let args = SmallVec::from_slice(&[value]);
            self.ins_void(InstData::Store {
                space,
                sem,
                scope,
                ty: piece.ty,
                addr,
                offset,
                args,
            });
        }
    }

    fn load_pieces(&mut self, place: Place, pieces: &[Piece]) -> SmallVec<[Value; 4]> {
        let mut values = SmallVec::new();
        for piece in pieces {
            let (addr, offset) = self.piece_address(place, piece);
            let (space, sem, scope) = (place.space(), MemSem::Weak, Scope::Cta);
            values.push(self.ins(
                InstData::Load {
                    space,
                    sem,
                    scope,
                    ty: piece.ty,
                    n: 1,
                    addr,
                    offset,
                },
                piece.ty,
            ));
        }
        values
    }

    fn piece_address(&mut self, place: Place, piece: &Piece) -> (Value, i32) {
        self.place_address(place, i64::from(piece.offset))
    }

    /// Returns from the function; in a kernel the thread ends.
    pub fn ret(&mut self) {
        if self.is_kernel {
            self.builder.terminate(Terminator::Exit);
            return;
        }
        let returns = std::mem::take(&mut self.returns);
        let mut values = SmallVec::new();
        for (entity, passing, target) in &returns {
            match (passing, target) {
                (&Passing::Copy(block), &Some(target)) => {
                    let to = self.builder.use_var(target);
                    let from = self.entity_address(*entity, 0);
                    self.copy_block(block, to, from);
                }
                _ => values.extend(self.deliver(*entity, passing)),
            }
        }
        self.returns = returns;
        self.builder.terminate(Terminator::Ret(values));
    }

    /// The thread ends.
    pub fn exit(&mut self) {
        self.builder.terminate(Terminator::Exit);
    }

    /// The grid stops with an error.
    pub fn trap(&mut self) {
        self.builder.terminate(Terminator::Trap(TrapKind::Trap));
    }

    fn statement(&mut self, stmt: &'m Stmt) -> Result<(), Diagnostic> {
        match &stmt.kind {
            StmtKind::Inst(inst) => self.instruction(inst, stmt),
            StmtKind::Label(name) => {
                self.place_label(*name);
                Ok(())
            }
            StmtKind::ScopeBegin => {
                self.scopes.open();
                self.labels.enter();
                Ok(())
            }
            StmtKind::ScopeEnd => {
                self.scopes.close();
                self.labels.leave();
                Ok(())
            }
            StmtKind::Variable(var) => self.declare_variable(var),
            StmtKind::BranchTargets(table) => {
                self.declare_label(table.label, LabelKind::BranchTargets(table));
                self.require("`.branchtargets`", (6, 0), 30, table.label)?;
                self.check_branch_targets(table)
            }
            StmtKind::CallTargets(table) => {
                self.declare_label(table.label, LabelKind::CallTargets(table));
                self.require("`.calltargets`", (2, 1), 20, table.label)?;
                self.check_call_targets(table)
            }
            StmtKind::CallPrototype(proto) => {
                self.declare_label(proto.label, LabelKind::CallPrototype(proto));
                self.require("`.callprototype`", (2, 1), 20, proto.label)?;
                let (unit, source) = (self.unit, self.source);
                let mut params = proto.params.iter().chain(&proto.returns);
                let too_large = params.find_map(|param| limits::check_param(source, param));
                let mut directives = proto.directives.iter();
                too_large
                    .or_else(|| {
                        directives
                            .find_map(|directive| gates::check_directive(unit, source, directive))
                    })
                    .map_or(Ok(()), Err)
            }
            StmtKind::Pragma(pragma) => {
                let kind = match self.is_kernel {
                    true => ast::FunctionKind::Entry,
                    false => ast::FunctionKind::Func,
                };
                let place = gates::PragmaPlace::Body(kind);
                gates::check_pragma(self.unit, self.source, pragma, place).map_or(Ok(()), Err)
            }
        }
    }

    /// Tables of labels and functions came late.
    fn require(
        &self,
        what: &str,
        ptx: (u32, u32),
        sm: u32,
        label: ast::Ident,
    ) -> Result<(), Diagnostic> {
        gates::require(self.unit, what, ptx, sm, label.span).map_or(Ok(()), Err)
    }

    fn instruction(&mut self, ast: &'m ast::Inst, stmt: &'m Stmt) -> Result<(), Diagnostic> {
        self.ensure_block();
        let inst = isa::check::resolve(self, ast, stmt.span)?;
        self.count_statement();
        let result = self.under_guard(&inst, ast.guard);
        self.keep_counting();
        result
    }

    fn under_guard(
        &mut self,
        inst: &Inst<'m>,
        guard: Option<ast::Guard>,
    ) -> Result<(), Diagnostic> {
        let Some(guard) = guard else {
            return (inst.desc.handler)(self, inst);
        };
        let cond = self.read_guard(guard)?;
        if inst.desc.is_effect && !inst.desc.owns_guard {
            return self.guarded(cond, |t| (inst.desc.handler)(t, inst));
        }
        self.guard = Some(cond);
        let result = (inst.desc.handler)(self, inst);
        self.guard = None;
        result
    }

    fn read_guard(&mut self, guard: ast::Guard) -> Result<Value, Diagnostic> {
        let name = guard.pred.text(self.source);
        let id = match self.lookup(guard.pred) {
            Some(Entity::Reg(id)) if self.reg(id).ty == PtxType::Pred => id,
            Some(Entity::Reg(id)) => {
                let ty = self.reg(id).ty.name();
                return Err(Diagnostic::error(format!(
                    "guard `{name}` has type `.{ty}`, but must be a `.pred`"
                ))
                .label(guard.span, "")
                .label(self.reg(id).decl, "declared here"));
            }
            Some(Entity::Place(_) | Entity::Func(_)) => {
                return Err(Diagnostic::error(format!(
                    "guard `{name}` is not a predicate register"
                ))
                .label(guard.span, ""));
            }
            None => return Err(self.unknown_name(guard.pred)),
        };
        let var = self.reg(id).vars[0];
        let value = self.builder.use_var(var);
        self.count_guard(value, guard.is_negated);
        Ok(if guard.is_negated {
            self.unary(ptxjit_ir::IntUnaryOp::Not, value)
        } else {
            value
        })
    }

    /// Emits what `body` emits in a block that only threads with `cond` enter.
    pub fn guarded(
        &mut self,
        cond: Value,
        body: impl FnOnce(&mut Self) -> Result<(), Diagnostic>,
    ) -> Result<(), Diagnostic> {
        let (then_, next) = (self.builder.new_block(), self.builder.new_block());
        self.builder.brif(cond, then_, next);
        self.builder.seal(then_);
        self.builder.switch_to(then_);
        let result = body(self);
        match self.builder.is_filled() {
            // Those threads are gone.
            true => self.restart_counting(),
            false => self.builder.jump(next),
        }
        self.builder.seal(next);
        self.builder.switch_to(next);
        result
    }
}
