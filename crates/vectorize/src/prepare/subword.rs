//! Narrows arithmetic on bytes and half-words to lanes of that width.
//!
//! Compilers compute with 32 bits, or 16, where programs work on bytes: a vector of words has four
//! lanes, one of bytes sixteen. Where the ranges of values from narrow memory show that an
//! operation's operands and result fit in 8 or 16 bits, it is done there, and the result is
//! extended for uses that need more bits.
//!
//! ```text
//! v2 = uext.b32.b8 v0; v3 = uext.b32.b8 v1         v7 = uext.b16.b8 v0; v8 = uext.b16.b8 v1
//! v4 = iadd.b32 v2, v3; v5 = sge.b32 v4, 300   =>  v9 = iadd.b16 v7, v8; v5 = uge.b16 v9, 300
//! ```
//!
//! A parameter of a block is narrow if all of its arguments are; those of loops stay as they are,
//! since the arguments from inside are not known ahead.

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{
    Block, Function, Inst, InstData, IntBinaryOp, ResizeOp, Space, SrcLoc, Type, Value,
};
use rustc_hash::FxHashMap;

use crate::Setup;
use crate::analysis::order;
use crate::speculate::ssa_repair::predecessors;
use ptxjit_passes::transform::{dce, rewrite::Aliases};

mod bounds;
mod intervals;
mod ops;

use bounds::Clamp;
use intervals::Span;
use ops::Plan;

/// Where a value's narrow form comes from, which decides whether using it pays.
#[derive(Copy, Clone, PartialEq, Eq, Default)]
enum Source {
    /// There is none.
    #[default]
    None,
    /// Cheap to make: a constant, or a value that is narrow already.
    Cheap,
    /// From narrow memory: using the narrow form pays.
    Memory,
}

/// What is known of a value.
#[derive(Copy, Clone, Default)]
struct Known {
    range: Option<Span>,
    source: Source,
}

/// Narrows the arithmetic of all blocks; returns how many results were narrowed.
pub(crate) fn run(func: &mut Function, setup: &Setup<'_>) -> usize {
    let mut nodes = func.insts.values();
    let has_loads = nodes.any(|node| is_narrow_load(&node.data));
    // Narrower gangs do not fill a vector of half-words.
    if setup.gang < 8 || !setup.starts_together() || !has_loads {
        return 0;
    }
    let order = order::run(func, &[]);
    let preds = predecessors(func);
    let mut narrow = Narrow {
        func,
        preds: &preds,
        is_done: SecondaryMap::new(),
        least: if setup.gang < 16 { 16 } else { 8 },
        known: SecondaryMap::new(),
        narrowed: SecondaryMap::new(),
        made: FxHashMap::default(),
        out: Vec::new(),
        aliases: Aliases::new(),
        n_narrowed: 0,
    };
    order.blocks().for_each(|block| narrow.block(block));
    let (mut aliases, n_narrowed) = (narrow.aliases, narrow.n_narrowed);
    if !aliases.is_empty() {
        aliases.apply(func);
        dce::run(func);
    }
    n_narrowed
}

fn is_narrow_load(data: &InstData) -> bool {
    matches!(
        data,
        InstData::Load { ty: Type::B8 | Type::B16, n: 1, space, .. }
            | InstData::MaskedLoad { ty: Type::B8 | Type::B16, space, .. }
            if *space != Space::Param
    )
}

struct Narrow<'a> {
    func: &'a mut Function,
    preds: &'a SecondaryMap<Block, Vec<Block>>,
    /// Blocks whose values are known.
    is_done: SecondaryMap<Block, bool>,
    /// The least width that vectors are filled with, in bits.
    least: u32,
    known: SecondaryMap<Value, Known>,
    /// Values' narrow forms, and whether an extension has to keep their sign.
    narrowed: SecondaryMap<Value, Option<(Value, bool)>>,
    /// Operands narrowed in this block.
    made: FxHashMap<(Value, u32), Value>,
    /// This block's instructions.
    out: Vec<Inst>,
    aliases: Aliases,
    n_narrowed: usize,
}

impl Narrow<'_> {
    fn block(&mut self, block: Block) {
        for param in self.func.blocks[block].params.clone() {
            match self.narrowest_param(block, param) {
                Some((range, bits)) => self.narrow_param(block, param, range, bits),
                None => self.know(param, None, Source::None),
            }
        }
        self.made.clear();
        for inst in std::mem::take(&mut self.func.blocks[block].insts) {
            self.inst(inst);
        }
        self.func.blocks[block].insts = std::mem::take(&mut self.out);
        self.is_done[block] = true;
    }

    /// The range of a parameter, and the bits that suffice for it, if making it narrow pays.
    fn narrowest_param(&self, block: Block, param: Value) -> Option<(Span, u32)> {
        let ty = self.func.ty(param);
        let preds = &self.preds[block];
        let is_known = preds.iter().all(|&pred| self.is_done[pred]);
        if !matches!(ty, Type::B16 | Type::B32) || preds.is_empty() || !is_known {
            return None;
        }
        let idx = self.position(block, param);
        let preds = preds.iter();
        let targets = preds.flat_map(|&pred| self.func.blocks[pred].term.targets());
        let calls = targets.filter(|call| call.block == block);
        let (range, pays) = self.range_of_all(calls.map(|call| call.args[idx]))?;
        let fits = |&bits: &u32| bits >= self.least && bits < ty.bits() && range.fits(bits);
        let bits = [8, 16].into_iter().find(fits)?;
        pays.then_some((range, bits))
    }

    /// The range of several values, if all have narrow forms, and whether using one of these pays.
    fn range_of_all(&self, values: impl Iterator<Item = Value>) -> Option<(Span, bool)> {
        let (mut all, mut pays) = (None, false);
        for value in values {
            let Known { range, source } = self.known[value];
            let own = range.filter(|_| source != Source::None)?;
            all = Some(all.map_or(own, |all: Span| all.join(own)));
            pays |= source == Source::Memory;
        }
        Some((all?, pays))
    }

    fn position(&self, block: Block, param: Value) -> usize {
        let params = &self.func.blocks[block].params;
        let idx = params.iter().position(|&other| other == param);
        idx.expect("it is a parameter of the block")
    }

    /// Passes the narrow forms of a parameter's arguments, and extends what arrives.
    fn narrow_param(&mut self, block: Block, param: Value, range: Span, bits: u32) {
        let (ty, idx) = (self.func.ty(param), self.position(block, param));
        let is_signed = range.lo < 0;
        let mut preds = self.preds[block].clone();
        preds.sort_unstable();
        preds.dedup();
        for pred in preds {
            self.made.clear();
            let loc = self.func.blocks[pred].term_loc;
            let insts = std::mem::take(&mut self.func.blocks[pred].insts);
            let before = std::mem::replace(&mut self.out, insts);
            let mut term = self.func.blocks[pred].term.clone();
            for call in term.targets_mut() {
                if call.block == block {
                    let arg = call.args.remove(idx);
                    call.args.push(self.at_width(arg, bits, loc));
                }
            }
            self.func.blocks[pred].term = term;
            self.func.blocks[pred].insts = std::mem::replace(&mut self.out, before);
        }
        self.func.remove_param(block, idx);
        let short = self.func.add_param(block, ops::type_of(bits));
        let full = self.extend(short, is_signed, ty, self.func.blocks[block].term_loc);
        self.put(param, (short, is_signed), full, Some(range));
    }

    /// A value that is narrow already has a range and costs nothing.
    fn know(&mut self, value: Value, range: Option<Span>, source: Source) {
        let ty = self.func.ty(value);
        let is_narrow = matches!(ty, Type::B8 | Type::B16);
        let own = is_narrow.then(|| Span::unsigned(ty));
        let is_free = is_narrow && source == Source::None;
        let source = if is_free { Source::Cheap } else { source };
        let range = range.or(own);
        self.known[value] = Known { range, source };
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "others are computed")]
    fn inst(&mut self, inst: Inst) {
        self.clamp_bound(inst);
        let data = self.func.insts[inst].data.clone();
        let loc = self.func.insts[inst].loc;
        if let Some(plan) = self.plan(&data) {
            return self.replace(inst, plan, loc);
        }
        self.out.push(inst);
        let results = self.func.insts[inst].results.clone();
        let [result] = results[..] else {
            let results = results.into_iter();
            return results.for_each(|result| self.know(result, None, Source::None));
        };
        let range = self.span(&data);
        let source = match data {
            InstData::Const { .. } => Source::Cheap,
            InstData::Resize { arg, .. } => match (self.known[arg].source, self.func.ty(arg)) {
                (Source::Memory, _) => Source::Memory,
                (_, Type::B1) => Source::Cheap,
                (source, _) => source,
            },
            InstData::Compare {
                ty: Type::B8 | Type::B16,
                args,
                ..
            } if args.iter().any(|&arg| self.is_from_memory(arg)) => Source::Memory,
            _ if is_narrow_load(&data) => Source::Memory,
            _ => Source::None,
        };
        self.know(result, range, source);
        if let InstData::Resize {
            op: ResizeOp::Trunc,
            to: to @ (Type::B8 | Type::B16),
            arg,
            ..
        } = data
            && self.narrow_form(arg).is_some()
        {
            // Stands behind the extension that follows a narrow operation.
            let short = self.at_width(arg, to.bits(), loc);
            self.aliases.set(result, short);
        }
    }

    /// Clamps the number of the launch that a narrow value is compared with, if the comparison is
    /// narrow then.
    fn clamp_bound(&mut self, inst: Inst) {
        let Some((ty, mut args, clamp)) = self.clamp_for(inst) else {
            return;
        };
        let loc = self.func.insts[inst].loc;
        let bound = &mut args[clamp.idx];
        for (op, border) in clamp.steps {
            let bits = border as u64 & ty.mask();
            let border = self.push(InstData::Const { ty, bits }, ty, loc);
            *bound = self.push(InstData::binary(op, ty, [*bound, border]), ty, loc);
        }
        self.know(*bound, Some(clamp.span), Source::Cheap);
        if let InstData::Compare { args: old, .. } = &mut self.func.insts[inst].data {
            *old = args;
        }
    }

    /// The type and the operands of a comparison, and how one of them is clamped, if that pays.
    fn clamp_for(&self, inst: Inst) -> Option<(Type, [Value; 2], Clamp)> {
        let data = &self.func.insts[inst].data;
        let (_, ty, args) = data.as_compare()?;
        let x = args.iter().position(|&arg| self.is_from_memory(arg))?;
        let is_open = self.known[args[1 - x]].source == Source::None;
        let span = self.known[args[x]].range.filter(|_| is_open)?;
        let clamp = bounds::clamp(self.func, data, x, span)?;
        let is_narrow = clamp.span.fits(Type::B16.bits());
        is_narrow.then_some((ty, args, clamp))
    }

    fn is_from_memory(&self, value: Value) -> bool {
        self.known[value].source == Source::Memory
    }

    /// The narrow form of a value that may be an extension of it.
    fn narrow_form(&self, value: Value) -> Option<(Value, bool)> {
        match (self.narrowed[value], self.func.def_inst(value)) {
            (Some(form), _) => Some(form),
            (None, Some(&InstData::Resize { arg, .. })) => self.narrow_form(arg),
            (None, _) => None,
        }
    }

    fn span(&self, data: &InstData) -> Option<Span> {
        intervals::of(data, &|value| self.known[value].range)
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "others narrow all operands")]
    fn replace(&mut self, inst: Inst, plan: Plan, loc: SrcLoc) {
        let old = self.func.insts[inst].results[0];
        let range = self.span(&self.func.insts[inst].data);
        let mut data = plan.data;
        // The condition of a selection and the count of a shift stay as they are.
        let operands: Vec<Value> = match &data {
            InstData::Select { args, .. } => args.to_vec(),
            InstData::IntBinary {
                op: IntBinaryOp::Ushr | IntBinaryOp::Sshr | IntBinaryOp::Shl,
                args,
                ..
            } => vec![args[0]],
            other => other.args().to_vec(),
        };
        let short = operands.iter();
        let short: Vec<Value> = short
            .map(|&arg| self.at_width(arg, plan.bits, loc))
            .collect();
        for arg in data.args_mut() {
            if let Some(idx) = operands.iter().position(|operand| operand == arg) {
                *arg = short[idx];
            }
        }
        let ty = self.func.ty(old);
        if ty == Type::B1 {
            self.func.insts[inst].data = data;
            self.out.push(inst);
            return self.know(old, None, Source::Memory);
        }
        let short_ty = ops::type_of(plan.bits);
        let new = self.push(data, short_ty, loc);
        let full = match ty == short_ty {
            true => new,
            false => self.extend(new, plan.is_signed, ty, loc),
        };
        self.put(old, (new, plan.is_signed), full, range);
    }

    /// Puts a value that was extended from its narrow form in place of another one.
    fn put(&mut self, old: Value, form: (Value, bool), full: Value, range: Option<Span>) {
        for value in [form.0, full] {
            self.know(value, range, Source::Memory);
            self.narrowed[value] = Some(form);
        }
        self.aliases.set(old, full);
        self.n_narrowed += 1;
        self.known[old] = self.known[full];
        self.narrowed[old] = self.narrowed[full];
    }

    fn push(&mut self, data: InstData, ty: Type, loc: SrcLoc) -> Value {
        let inst = self.func.make_inst(data, &[ty], loc);
        self.out.push(inst);
        self.func.result(inst)
    }

    fn resize(&mut self, op: ResizeOp, arg: Value, to: Type, loc: SrcLoc) -> Value {
        let from = self.func.ty(arg);
        self.push(InstData::Resize { op, from, to, arg }, to, loc)
    }

    fn extend(&mut self, arg: Value, is_signed: bool, to: Type, loc: SrcLoc) -> Value {
        let op = if is_signed {
            ResizeOp::Sext
        } else {
            ResizeOp::Uext
        };
        self.resize(op, arg, to, loc)
    }

    /// The low bits of a value.
    fn at_width(&mut self, value: Value, bits: u32, loc: SrcLoc) -> Value {
        if let Some(&made) = self.made.get(&(value, bits)) {
            return made;
        }
        let made = self.make_at_width(value, bits, loc);
        self.made.insert((value, bits), made);
        let Known { range, source } = self.known[value];
        self.know(made, range.filter(|range| range.fits(bits)), source);
        made
    }

    fn make_at_width(&mut self, value: Value, bits: u32, loc: SrcLoc) -> Value {
        let (from, to) = (self.func.ty(value), ops::type_of(bits));
        if let Some(bits) = self.func.as_const(value) {
            let (ty, bits) = (to, bits & to.mask());
            return self.push(InstData::Const { ty, bits }, ty, loc);
        }
        if from == to {
            return self.aliases.resolve(value);
        }
        if let Some((short, is_signed)) = self.narrowed[value].filter(|&(short, _)| short != value)
        {
            return match self.func.ty(short).bits() < bits {
                true => self.extend(short, is_signed, to, loc),
                false => self.at_width(short, bits, loc),
            };
        }
        match self.func.def_inst(value) {
            Some(&InstData::Resize {
                op: ResizeOp::Trunc,
                arg,
                ..
            }) => self.at_width(arg, bits, loc),
            Some(&InstData::Resize { from, arg, .. }) if from == to => self.aliases.resolve(arg),
            Some(&InstData::Resize { from, arg, .. }) if from.bits() > bits => {
                self.at_width(arg, bits, loc)
            }
            Some(&InstData::Resize { op, arg, .. }) => self.resize(op, arg, to, loc),
            _ => self.resize(ResizeOp::Trunc, value, to, loc),
        }
    }

    /// How an operation is done with fewer bits, if it can be and if that pays.
    #[expect(clippy::wildcard_enum_match_arm, reason = "others stay wide")]
    fn plan(&self, data: &InstData) -> Option<Plan> {
        let operands: &[Value] = match data {
            InstData::IntUnary {
                ty: Type::B16 | Type::B32,
                arg,
                ..
            } => std::slice::from_ref(arg),
            InstData::IntBinary {
                op: IntBinaryOp::Shl | IntBinaryOp::Ushr | IntBinaryOp::Sshr,
                ty: Type::B16 | Type::B32,
                args,
            } => {
                self.func.as_const(args[1])?;
                &args[..1]
            }
            InstData::IntBinary {
                ty: Type::B16 | Type::B32,
                args,
                ..
            }
            | InstData::Compare {
                ty: Type::B16 | Type::B32,
                args,
                ..
            }
            | InstData::Select {
                ty: Type::B16 | Type::B32,
                args,
                ..
            } => args,
            _ => return None,
        };
        let (both, pays) = self.range_of_all(operands.iter().copied())?;
        let by_memory = match *data {
            InstData::Select { cond, .. } => self.is_from_memory(cond),
            _ => false,
        };
        (pays || by_memory).then(|| ops::narrowest(data, both, self.span(data), self.least))?
    }
}
