//! Calls that were not inlined (recursion, calls through pointers) become states of one function.
//!
//! **Ensures**: one function without calls. A call saves what lives across it on the thread's
//! dynamic stack, and goes on at the state of the callee's entry; a return goes on at the state
//! that the caller left there. So a callee may wait anywhere, lanes may call different functions,
//! and recursion is bounded by the stack alone.
//!
//! The frame of a call, below the callee's frame pointer `FP` (the top of the stack when it is
//! entered):
//!
//! ```text
//! [ live values | arguments, later results | return state ] FP: [ the callee's stack slots ] ...
//! ```
//!
//! Every word has eight bytes; frames are multiples of sixteen.

mod reachable;

use std::collections::{BTreeMap, BTreeSet};

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{
    Block, BlockCall, CompareOp, FuncId, Function, Inst, InstData, IntBinaryOp, MemSem, Program,
    Scope, Space, SrcLoc, StackSlot, Terminator, TrapKind, Type, Value,
};
use ptxjit_vectorize::{Repair, predecessors};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::compile::CompileError;
use crate::emit::Emit;
use crate::limits;
use crate::slots::Slots;
use reachable::reachable;

/// The one function, and the blocks that are entered by state.
pub(crate) struct Merged {
    pub function: Function,
    pub entries: Vec<Block>,
}

/// A call that was split off.
struct Site {
    /// Ends with the call.
    block: Block,
    /// Goes on after it.
    after: Block,
    call: Inst,
}

/// Merges what the kernel can reach.
pub(crate) fn merge(program: &Program) -> Result<Merged, CompileError> {
    let mut ctx = Ctx {
        program,
        func: program.functions[&program.entry].clone(),
        entries: BTreeMap::new(),
    };
    let wanted = reachable(program);
    for &id in &wanted {
        let entry = ctx.func.new_block();
        ctx.entries.insert(id, entry);
    }
    for &id in &wanted {
        ctx.add_function(id);
    }
    let sites = ctx.split_calls();
    ctx.lower_sites(&sites)?;
    let entries = ctx
        .entries
        .values()
        .copied()
        .chain(sites.iter().map(|site| site.after))
        .collect();
    Ok(Merged {
        function: ctx.func,
        entries,
    })
}

struct Ctx<'p> {
    program: &'p Program,
    func: Function,
    /// Where each function is entered.
    entries: BTreeMap<FuncId, Block>,
}

impl Ctx<'_> {
    fn emit(&mut self, block: Block, loc: SrcLoc) -> Emit<'_> {
        Emit {
            func: &mut self.func,
            block,
            loc,
        }
    }

    /// Copies a device function; its entry block gets the arguments from the stack.
    fn add_function(&mut self, id: FuncId) {
        let source = &self.program.functions[&id];
        // The frame pointer is a multiple of sixteen, the largest alignment that PTX's calling
        // convention knows.
        let slots = Slots::of(source);
        let (slot_offsets, slots_size) = (slots.offsets, slots.size);
        let entry = self.entries[&id];
        let n_words = source.params().len().max(source.rets.len()) as i64;
        let param_types: Vec<Type> = source
            .params()
            .iter()
            .map(|&param| source.ty(param))
            .collect();
        let mut emit = self.emit(entry, SrcLoc::default());
        let frame = emit.value(InstData::StackSave, Type::B64);
        if slots_size > 0 {
            let top = emit.add(frame, i64::from(slots_size));
            emit.inst(InstData::StackRestore { arg: top }, &[]);
        }
        let args: SmallVec<[Value; 4]> = param_types
            .iter()
            .enumerate()
            .map(|(idx, &ty)| emit.load(frame, 8 * (idx as i64 - n_words - 1), ty))
            .collect();
        let copy = Copy {
            frame,
            slot_offsets,
            n_words,
        };
        let first = self.copy_body(source, &copy);
        self.func.blocks[entry].term = Terminator::Jump(BlockCall { block: first, args });
    }

    /// Copies blocks, instructions and values; returns the copy of the entry.
    fn copy_body(&mut self, source: &Function, copy: &Copy) -> Block {
        let mut blocks: SecondaryMap<Block, Option<Block>> = SecondaryMap::new();
        for block in source.blocks.keys() {
            blocks[block] = Some(self.func.new_block());
        }
        let block_of = |block: Block| blocks[block].expect("all blocks are mapped");
        let mut values: SecondaryMap<Value, Option<Value>> = SecondaryMap::new();
        for (block, data) in source.blocks.iter() {
            for &param in &data.params {
                values[param] = Some(self.func.add_param(block_of(block), source.ty(param)));
            }
        }
        let mut copies: Vec<(Block, Inst)> = Vec::new();
        for (block, data) in source.blocks.iter() {
            for &inst in &data.insts {
                let node = &source.insts[inst];
                let types: Vec<Type> = node
                    .results
                    .iter()
                    .map(|&result| source.ty(result))
                    .collect();
                let data = if let InstData::StackAddr { slot, offset } = node.data {
                    let at = i64::from(copy.slot_offsets[slot]) + i64::from(offset);
                    let mut emit = self.emit(block_of(block), node.loc);
                    let at = emit.constant(Type::B64, at as u64);
                    InstData::IntBinary {
                        op: IntBinaryOp::Add,
                        ty: Type::B64,
                        args: [copy.frame, at],
                    }
                } else {
                    node.data.clone()
                };
                let new = self.func.make_inst(data, &types, node.loc);
                self.func.blocks[block_of(block)].insts.push(new);
                for (&old, &result) in node.results.iter().zip(&self.func.insts[new].results) {
                    values[old] = Some(result);
                }
                if !matches!(node.data, InstData::StackAddr { .. }) {
                    copies.push((block, new));
                }
            }
        }
        let value_of = |value: Value| values[value].expect("all values are mapped");
        for (_, inst) in copies {
            for arg in self.func.insts[inst].data.args_mut() {
                *arg = value_of(*arg);
            }
        }
        for (block, data) in source.blocks.iter() {
            let mut term = data.term.clone();
            term.for_each_arg_mut(|arg| *arg = value_of(*arg));
            term.targets_mut()
                .into_iter()
                .for_each(|call| call.block = block_of(call.block));
            self.finish_block(block_of(block), term, data.term_loc, copy);
        }
        block_of(source.entry)
    }

    /// A return leaves the results for the caller and goes on at the caller's state.
    fn finish_block(&mut self, block: Block, term: Terminator, loc: SrcLoc, copy: &Copy) {
        let term = if let Terminator::Ret(results) = term {
            let mut emit = self.emit(block, loc);
            let state = emit.load(copy.frame, -8, Type::B32);
            for (idx, &result) in results.iter().enumerate() {
                emit.store(copy.frame, 8 * (idx as i64 - copy.n_words - 1), result);
            }
            emit.inst(InstData::StackRestore { arg: copy.frame }, &[]);
            Terminator::Dispatch(state)
        } else {
            term
        };
        self.func.blocks[block].term = term;
        self.func.blocks[block].term_loc = loc;
    }

    /// Ends blocks at calls. Until the calls are lowered, the blocks jump to what comes after.
    fn split_calls(&mut self) -> Vec<Site> {
        let mut sites = Vec::new();
        let blocks: Vec<Block> = self.func.blocks.keys().collect();
        for first in blocks.into_iter().rev() {
            let insts = std::mem::take(&mut self.func.blocks[first].insts);
            let mut block = first;
            for inst in insts {
                // The call itself stays until it is lowered: it defines its results.
                self.func.blocks[block].insts.push(inst);
                let data = &self.func.insts[inst].data;
                if matches!(data, InstData::Call { .. } | InstData::CallIndirect { .. }) {
                    let after = self.split_behind(block);
                    let call = inst;
                    sites.push(Site { block, after, call });
                    block = after;
                }
            }
        }
        sites
    }

    /// Ends a block with a jump to a new one, which gets its terminator.
    fn split_behind(&mut self, block: Block) -> Block {
        let after = self.func.new_block();
        let data = &mut self.func.blocks[block];
        let term = std::mem::replace(&mut data.term, Terminator::Jump(BlockCall::new(after)));
        let loc = data.term_loc;
        let tail = &mut self.func.blocks[after];
        (tail.term, tail.term_loc) = (term, loc);
        after
    }

    fn lower_sites(&mut self, sites: &[Site]) -> Result<(), CompileError> {
        if sites.is_empty() {
            return Ok(());
        }
        let preds = predecessors(&self.func);
        let live = ptxjit_vectorize::live_in(&self.func, &preds);
        let saved = |site: &Site| -> Vec<Value> {
            let results = &self.func.insts[site.call].results;
            let live = live[site.after].iter().copied();
            live.filter(|&value| self.func.as_const(value).is_none() && !results.contains(&value))
                .collect()
        };
        let saved: Vec<Vec<Value>> = sites.iter().map(saved).collect();
        limits::check_saved(saved.iter().map(Vec::len).sum())?;
        let mut reloads: BTreeMap<Value, Vec<(Block, Value)>> = BTreeMap::new();
        for (site, saved) in sites.iter().zip(&saved) {
            let n_words = self.n_words(site.call);
            self.lower_after(site, saved, n_words, &mut reloads);
            self.lower_call(site, saved, n_words);
        }
        self.rematerialize_constants();
        self.rename(&reloads);
        Ok(())
    }

    /// The blocks that use each of some values.
    fn users<T>(&self, values: &BTreeMap<Value, T>) -> BTreeMap<Value, BTreeSet<Block>> {
        let mut users: BTreeMap<Value, BTreeSet<Block>> = BTreeMap::new();
        for block in self.func.blocks.keys() {
            let uses = self.uses(block).into_iter();
            for value in uses.filter(|value| values.contains_key(value)) {
                users.entry(value).or_default().insert(block);
            }
        }
        users
    }

    /// Words for arguments and results.
    #[expect(clippy::wildcard_enum_match_arm, reason = "callers pass calls")]
    fn n_words(&self, call: Inst) -> i64 {
        let (n_args, n_rets) = match &self.func.insts[call].data {
            InstData::Call { func, .. } => {
                let callee = &self.program.functions[func];
                (callee.params().len(), callee.rets.len())
            }
            InstData::CallIndirect { sig, .. } => {
                let sig = &self.program.sigs[*sig];
                (sig.params.len(), sig.rets.len())
            }
            other => unreachable!("{other:?} is no call"),
        };
        n_args.max(n_rets) as i64
    }

    /// After the call: results and live values come from the stack.
    fn lower_after(
        &mut self,
        site: &Site,
        saved: &[Value],
        n_words: i64,
        reloads: &mut BTreeMap<Value, Vec<(Block, Value)>>,
    ) {
        let loc = self.func.insts[site.call].loc;
        let results: Vec<(Value, Type)> = self.func.insts[site.call]
            .results
            .iter()
            .map(|&result| (result, self.func.ty(result)))
            .collect();
        let old = std::mem::take(&mut self.func.blocks[site.after].insts);
        let types: Vec<Type> = saved.iter().map(|&value| self.func.ty(value)).collect();
        let n_saved = padded(saved.len(), n_words);
        let mut emit = self.emit(site.after, loc);
        let top = emit.value(InstData::StackSave, Type::B64);
        let base = emit.add(top, -8 * (n_saved + n_words + 1));
        emit.inst(InstData::StackRestore { arg: base }, &[]);
        let mut renamed: Vec<(Value, Value)> = Vec::new();
        for (idx, (&value, &ty)) in saved.iter().zip(&types).enumerate() {
            let new = emit.load(base, 8 * idx as i64, ty);
            renamed.push((value, new));
        }
        for (idx, &(value, ty)) in results.iter().enumerate() {
            let new = emit.load(base, 8 * (n_saved + idx as i64), ty);
            renamed.push((value, new));
        }
        self.func.blocks[site.after].insts.extend(old);
        for (value, new) in renamed {
            reloads.entry(value).or_default().push((site.after, new));
        }
    }

    /// Before the call: room is made, then everything is stored.
    #[expect(clippy::wildcard_enum_match_arm, reason = "callers pass calls")]
    fn lower_call(&mut self, site: &Site, saved: &[Value], n_words: i64) {
        let loc = self.func.insts[site.call].loc;
        let data = self.func.insts[site.call].data.clone();
        let n_saved = padded(saved.len(), n_words);
        let mut block = site.block;
        let insts = &mut self.func.blocks[block].insts;
        insts.retain(|&inst| inst != site.call);
        let state = match &data {
            InstData::Call { func, .. } => {
                let entry = self.entries[func];
                self.emit(block, loc)
                    .value(InstData::StateOf { block: entry }, Type::B32)
            }
            InstData::CallIndirect {
                sig,
                callee,
                targets,
                ..
            } => {
                let (found, state) =
                    self.indirect_state(block, loc, *sig, *callee, targets.as_deref());
                let go_on = self.func.new_block();
                let wrong = self.func.new_block();
                self.func.blocks[wrong].term = Terminator::Trap(TrapKind::Unreachable);
                self.func.blocks[wrong].term_loc = loc;
                let (then_, else_) = (BlockCall::new(go_on), BlockCall::new(wrong));
                self.func.blocks[block].term = Terminator::Brif {
                    cond: found,
                    then_,
                    else_,
                };
                self.func.blocks[block].term_loc = loc;
                block = go_on;
                state
            }
            other => unreachable!("{other:?} is no call"),
        };
        let args: SmallVec<[Value; 4]> = match &data {
            InstData::Call { args, .. } | InstData::CallIndirect { args, .. } => args.clone(),
            other => unreachable!("{other:?} is no call"),
        };
        let mut emit = self.emit(block, loc);
        let base = emit.value(InstData::StackSave, Type::B64);
        let top = emit.add(base, 8 * (n_saved + n_words + 1));
        emit.inst(InstData::StackRestore { arg: top }, &[]);
        for (idx, &value) in saved.iter().enumerate() {
            emit.store(base, 8 * idx as i64, value);
        }
        for (idx, &value) in args.iter().enumerate() {
            emit.store(base, 8 * (n_saved + idx as i64), value);
        }
        let back = emit.value(InstData::StateOf { block: site.after }, Type::B32);
        emit.store(base, 8 * (n_saved + n_words), back);
        self.func.blocks[block].term = Terminator::Dispatch(state);
        self.func.blocks[block].term_loc = loc;
    }

    /// The functions of a signature that an indirect call may reach, with their entries.
    fn candidates(
        &self,
        sig: ptxjit_ir::SigId,
        targets: Option<&[FuncId]>,
    ) -> Vec<(FuncId, Block)> {
        let program = self.program;
        let sig = &program.sigs[sig];
        let fits = |id: &&FuncId| {
            program.functions.get(id).is_some_and(|func| {
                let params = func.params().iter().map(|&param| func.ty(param));
                params.eq(sig.params.iter().copied()) && func.rets == sig.rets
            })
        };
        let targets = targets.unwrap_or(&program.address_taken).iter();
        let fitting = targets.filter(fits);
        fitting.map(|&id| (id, self.entries[&id])).collect()
    }

    /// Whether a pointer is one of the functions that may be called, and that function's state.
    fn indirect_state(
        &mut self,
        block: Block,
        loc: SrcLoc,
        sig: ptxjit_ir::SigId,
        callee: Value,
        targets: Option<&[FuncId]>,
    ) -> (Value, Value) {
        let candidates = self.candidates(sig, targets);
        let mut emit = self.emit(block, loc);
        let (sem, scope) = (MemSem::Weak, Scope::Cta);
        let load = InstData::Load {
            space: Space::Generic,
            sem,
            scope,
            ty: Type::B32,
            n: 1,
            addr: callee,
            offset: 0,
        };
        let number = emit.value(load, Type::B32);
        let mut found = emit.constant(Type::B1, 0);
        let mut state = emit.constant(Type::B32, 0);
        for (id, entry) in candidates {
            let want = emit.constant(Type::B32, u64::from(id.as_u32()) + 1);
            let hit = emit.value(
                InstData::Compare {
                    op: CompareOp::Eq,
                    ty: Type::B32,
                    args: [number, want],
                },
                Type::B1,
            );
            let here = emit.value(InstData::StateOf { block: entry }, Type::B32);
            state = emit.value(
                InstData::Select {
                    ty: Type::B32,
                    cond: hit,
                    args: [here, state],
                },
                Type::B32,
            );
            found = emit.value(
                InstData::IntBinary {
                    op: IntBinaryOp::Or,
                    ty: Type::B1,
                    args: [found, hit],
                },
                Type::B1,
            );
        }
        (found, state)
    }

    /// Rematerializes constants that were live across calls.
    fn rematerialize_constants(&mut self) {
        let homes = self.homes();
        let blocks: Vec<Block> = self.func.blocks.keys().collect();
        for block in blocks {
            let mut fresh: FxHashMap<Value, Value> = FxHashMap::default();
            let mut prefix: Vec<Inst> = Vec::new();
            for value in self.uses(block) {
                let Some(bits) = self.func.as_const(value) else {
                    continue;
                };
                if homes[value] == Some(block) || fresh.contains_key(&value) {
                    continue;
                }
                let ty = self.func.ty(value);
                let inst =
                    self.func
                        .make_inst(InstData::Const { ty, bits }, &[ty], SrcLoc::default());
                fresh.insert(value, self.func.insts[inst].results[0]);
                prefix.push(inst);
            }
            self.replace(block, &fresh);
            self.func.blocks[block].insts.splice(0..0, prefix);
        }
    }

    /// What a block's instructions and its terminator use.
    fn uses(&self, block: Block) -> Vec<Value> {
        let data = &self.func.blocks[block];
        let args = |&inst: &Inst| self.func.insts[inst].data.args();
        let mut uses: Vec<Value> = data.insts.iter().flat_map(args).collect();
        data.term.for_each_arg(|arg| uses.push(arg));
        uses
    }

    /// Replaces values that a block uses.
    fn replace(&mut self, block: Block, new_of: &FxHashMap<Value, Value>) {
        if new_of.is_empty() {
            return;
        }
        let replace = |value: &mut Value| {
            if let Some(&new) = new_of.get(value) {
                *value = new;
            }
        };
        for &inst in &self.func.blocks[block].insts {
            let args = self.func.insts[inst].data.args_mut();
            args.into_iter().for_each(replace);
        }
        self.func.blocks[block].term.for_each_arg_mut(replace);
    }

    /// Gives values their further definitions, after calls, in the blocks that use them.
    fn rename(&mut self, reloads: &BTreeMap<Value, Vec<(Block, Value)>>) {
        let preds = predecessors(&self.func);
        let homes = self.homes();
        let users = self.users(reloads);
        let mut renamed: BTreeMap<Block, FxHashMap<Value, Value>> = BTreeMap::new();
        for (&value, places) in reloads {
            let home = homes[value];
            let mut repair = Repair::new(&preds, self.func.ty(value));
            if let Some(home) = home {
                repair.define(home, value);
            }
            for &(block, new) in places {
                repair.define(block, new);
                repair.define_start(block, new);
            }
            for &block in users.get(&value).into_iter().flatten() {
                if Some(block) != home {
                    let reaching = repair.start(&mut self.func, block);
                    renamed.entry(block).or_default().insert(value, reaching);
                }
            }
        }
        for (block, new_of) in renamed {
            self.replace(block, &new_of);
        }
    }

    /// The block that defines each value; the results of calls have none any more.
    fn homes(&self) -> SecondaryMap<Value, Option<Block>> {
        let mut homes = SecondaryMap::new();
        for (block, data) in self.func.blocks.iter() {
            let results = |&inst: &Inst| &self.func.insts[inst].results;
            for &value in data
                .params
                .iter()
                .chain(data.insts.iter().flat_map(results))
            {
                homes[value] = Some(block);
            }
        }
        homes
    }
}

/// What the copy of a function refers to.
struct Copy {
    frame: Value,
    slot_offsets: SecondaryMap<StackSlot, u32>,
    n_words: i64,
}

/// Words for live values, such that the frame is a multiple of sixteen bytes.
fn padded(n_saved: usize, n_words: i64) -> i64 {
    let n_saved = n_saved as i64;
    n_saved + (n_saved + n_words + 1) % 2
}
