//! Construction of SSA from code that assigns variables.
//!
//! Braun et al., "Simple and Efficient Construction of Static Single Assignment Form" (CC 2013). A
//! block must be *sealed* once all its predecessors are known; reading a variable in an unsealed
//! block makes a parameter that sealing completes. Superfluous parameters are left to the passes
//! (`remove_constant_params`).

use std::collections::HashMap;

use cranelift_entity::{EntityRef, PrimaryMap, SecondaryMap, entity_impl};

use rustc_hash::FxBuildHasher;

use smallvec::SmallVec;

use crate::device::{DeviceOp, MarkOp};
use crate::entities::{Block, Inst, StackSlot, Value};
use crate::function::{Function, StackSlotData};
use crate::inst::{BlockCall, InstData, Terminator};
use crate::types::{SrcLoc, Type};

/// A mutable variable of the source program, such as a PTX register.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Variable(u32);
entity_impl!(Variable, "var");

#[derive(Clone, Default)]
struct BlockState {
    sealed: bool,
    filled: bool,
    preds: Vec<Block>,
    defs: Defs,
    /// Parameters made before sealing, in order.
    incomplete: Vec<(Variable, Value)>,
    /// What variables that are read before they are written have: a zero of each type, made when
    /// first wanted.
    zeros: Vec<(Type, Value)>,
}

/// Values of variables at the end of a block.
#[derive(Clone, Default)]
struct Defs {
    /// Sorted by variable, as long as they are few.
    few: Vec<(Variable, Value)>,
    /// All of them, once they are many: keeping a long list sorted moves it with each.
    many: HashMap<Variable, Value, FxBuildHasher>,
}

/// Values of a block that are kept as a list.
const MAX_FEW: usize = 64;

impl Defs {
    fn get(&self, var: Variable) -> Option<Value> {
        if !self.many.is_empty() {
            return self.many.get(&var).copied();
        }
        let found = self.few.binary_search_by_key(&var, |&(v, _)| v);
        found.ok().map(|idx| self.few[idx].1)
    }

    fn set(&mut self, var: Variable, value: Value) {
        if !self.many.is_empty() {
            self.many.insert(var, value);
            return;
        }
        match self.few.binary_search_by_key(&var, |&(v, _)| v) {
            Ok(idx) => self.few[idx].1 = value,
            Err(idx) if self.few.len() < MAX_FEW => self.few.insert(idx, (var, value)),
            Err(_) => {
                self.many = std::mem::take(&mut self.few).into_iter().collect();
                self.many.insert(var, value);
            }
        }
    }
}

/// Builds one function.
pub struct FunctionBuilder<'f> {
    /// The function being built.
    pub func: &'f mut Function,
    vars: PrimaryMap<Variable, Type>,
    states: SecondaryMap<Block, BlockState>,
    block: Block,
    loc: SrcLoc,
    /// Steps that finding variables' values has taken.
    work: u64,
    max_work: u64,
    /// Variables that are read before they are written get a mark instead of a plain zero.
    marks: bool,
}

impl<'f> FunctionBuilder<'f> {
    /// Lets finding variables' values take `steps` and no more ([`FunctionBuilder::is_complete`]).
    /// Where control flow meets at n places with m variables that live on, there may be n·m block
    /// parameters, with arguments from each predecessor. Each step keeps up to some 60 bytes.
    pub fn limit_work(&mut self, steps: u64) {
        self.max_work = steps;
    }

    /// Whether all values were found; if not, the function is of no use.
    pub fn is_complete(&self) -> bool {
        self.work <= self.max_work
    }

    /// Starts building in the entry block, which is sealed by the caller as any other.
    pub fn new(func: &'f mut Function) -> FunctionBuilder<'f> {
        let block = func.entry;
        FunctionBuilder {
            func,
            vars: PrimaryMap::new(),
            states: SecondaryMap::new(),
            block,
            loc: SrcLoc::default(),
            work: 0,
            max_work: u64::MAX,
            marks: false,
        }
    }

    /// Marks what variables have that are read before they are written ([`MarkOp::Undefined`]).
    pub fn mark_undefined(&mut self) {
        self.marks = true;
    }

    /// Declares a variable.
    pub fn declare(&mut self, ty: Type) -> Variable {
        self.vars.push(ty)
    }

    /// Type of a variable.
    pub fn var_ty(&self, var: Variable) -> Type {
        self.vars[var]
    }

    /// Adds a stack slot.
    pub fn stack_slot(&mut self, size: u32, align: u32) -> StackSlot {
        self.func.slots.push(StackSlotData { size, align })
    }

    /// Adds an empty block.
    pub fn new_block(&mut self) -> Block {
        self.func.new_block()
    }

    /// Later instructions go to the end of `block`.
    pub fn switch_to(&mut self, block: Block) {
        self.block = block;
    }

    /// The block that instructions go to.
    pub fn current_block(&self) -> Block {
        self.block
    }

    /// Whether the current block has its terminator already.
    pub fn is_filled(&self) -> bool {
        self.states[self.block].filled
    }

    /// Later instructions come from `loc`.
    pub fn set_loc(&mut self, loc: SrcLoc) {
        self.loc = loc;
    }

    /// Appends an instruction.
    pub fn inst(&mut self, data: InstData, result_types: &[Type]) -> Inst {
        let inst = self.func.make_inst(data, result_types, self.loc);
        self.func.blocks[self.block].insts.push(inst);
        inst
    }

    /// Appends an instruction with one result.
    pub fn ins(&mut self, data: InstData, ty: Type) -> Value {
        let inst = self.inst(data, &[ty]);
        self.func.insts[inst].results[0]
    }

    /// A constant.
    pub fn iconst(&mut self, ty: Type, bits: u64) -> Value {
        self.ins(
            InstData::Const {
                ty,
                bits: bits & ty.mask(),
            },
            ty,
        )
    }

    /// Assigns a variable in the current block.
    pub fn def_var(&mut self, var: Variable, value: Value) {
        debug_assert_eq!(self.vars[var], self.func.ty(value), "type of {var}");
        self.write(self.block, var, value);
    }

    /// The variable's value here; zero where it was never assigned.
    pub fn use_var(&mut self, var: Variable) -> Value {
        self.read(self.block, var)
    }

    /// Ends the current block. Targets' parameters are completed when they are sealed.
    pub fn terminate(&mut self, term: Terminator) {
        let block = self.block;
        debug_assert!(!self.states[block].filled, "{block} is filled already");
        for call in term.targets() {
            debug_assert!(
                !self.states[call.block].sealed,
                "{} is sealed already",
                call.block
            );
            self.states[call.block].preds.push(block);
        }
        self.states[block].filled = true;
        self.func.blocks[block].term = term;
        self.func.blocks[block].term_loc = self.loc;
    }

    /// Jumps to `block` without arguments.
    pub fn jump(&mut self, block: Block) {
        self.terminate(Terminator::Jump(BlockCall::new(block)));
    }

    /// Branches without arguments.
    pub fn brif(&mut self, cond: Value, then_: Block, else_: Block) {
        self.terminate(Terminator::Brif {
            cond,
            then_: BlockCall::new(then_),
            else_: BlockCall::new(else_),
        });
    }

    /// Declares that all predecessors of `block` are known.
    pub fn seal(&mut self, block: Block) {
        if self.states[block].sealed {
            return;
        }
        self.states[block].sealed = true;
        for (var, _param) in std::mem::take(&mut self.states[block].incomplete) {
            self.complete(block, var);
        }
    }

    /// Seals every block: for code whose shape is known beforehand.
    pub fn seal_all(&mut self) {
        for idx in 0..self.func.blocks.len() {
            self.seal(Block::new(idx));
        }
    }

    fn write(&mut self, block: Block, var: Variable, value: Value) {
        self.states[block].defs.set(var, value);
    }

    fn local(&self, block: Block, var: Variable) -> Option<Value> {
        self.states[block].defs.get(var)
    }

    /// Iterative along chains of single predecessors, so that long functions do not overflow the
    /// stack; recursion happens only at merges, through an explicit work list in `complete`.
    fn read(&mut self, block: Block, var: Variable) -> Value {
        let mut work = Vec::new();
        let value = self.read_lazy(block, var, &mut work);
        while let Some((block, var)) = work.pop() {
            self.complete_into(block, var, &mut work);
        }
        value
    }

    fn complete(&mut self, block: Block, var: Variable) {
        let mut work = vec![(block, var)];
        while let Some((block, var)) = work.pop() {
            self.complete_into(block, var, &mut work);
        }
    }

    /// Appends the arguments for `var`, whose parameter exists, to every branch into `block`.
    fn complete_into(&mut self, block: Block, var: Variable, work: &mut Vec<(Block, Variable)>) {
        let mut preds = self.states[block].preds.clone();
        preds.sort_unstable();
        preds.dedup();
        for pred in preds {
            self.work += 1;
            if !self.is_complete() {
                return;
            }
            let arg = self.read_lazy(pred, var, work);
            for call in self.func.blocks[pred].term.targets_mut() {
                self.work += 1;
                if call.block == block {
                    call.args.push(arg);
                }
            }
        }
    }

    /// Reads a variable; a parameter made at a sealed merge is put on `work` to get its arguments.
    fn read_lazy(
        &mut self,
        block: Block,
        var: Variable,
        work: &mut Vec<(Block, Variable)>,
    ) -> Value {
        let mut chain = Vec::new();
        let mut at = block;
        // A loop that cannot be reached is a chain without end: the block of the last power of two
        // comes again (Brent).
        let mut seen = None;
        let value = loop {
            if let Some(value) = self.local(at, var) {
                break value;
            }
            let state = &self.states[at];
            if state.sealed && state.preds.len() == 1 && seen != Some(at) && self.is_complete() {
                if chain.len().is_power_of_two() {
                    seen = Some(at);
                }
                self.work += 1;
                chain.push(at);
                at = state.preds[0];
                continue;
            }
            break self.make_param_or_zero(at, var, work);
        };
        for block in chain {
            self.write(block, var, value);
        }
        value
    }

    fn make_param_or_zero(
        &mut self,
        block: Block,
        var: Variable,
        work: &mut Vec<(Block, Variable)>,
    ) -> Value {
        let ty = self.vars[var];
        let state = &self.states[block];
        if state.sealed && state.preds.is_empty() {
            let known = state.zeros.iter().find(|&&(of, _)| of == ty);
            let value = match known {
                Some(&(_, value)) => value,
                None => self.make_zero(block, ty),
            };
            self.write(block, var, value);
            return value;
        }
        self.work += 1;
        let param = self.func.add_param(block, ty);
        self.write(block, var, param);
        if self.states[block].sealed {
            work.push((block, var));
        } else {
            self.states[block].incomplete.push((var, param));
        }
        param
    }

    /// Puts a zero at the front of a block.
    fn make_zero(&mut self, block: Block, ty: Type) -> Value {
        let zero = match self.marks {
            true => InstData::Device {
                op: DeviceOp::Mark(MarkOp::Undefined(ty)),
                args: SmallVec::new(),
            },
            false => InstData::Const { ty, bits: 0 },
        };
        let inst = self.func.make_inst(zero, &[ty], self.loc);
        self.func.blocks[block].insts.insert(0, inst);
        let value = self.func.insts[inst].results[0];
        self.states[block].zeros.push((ty, value));
        value
    }
}
