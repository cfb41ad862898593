//! A function: blocks of instructions in SSA form.

use cranelift_entity::{PrimaryMap, SecondaryMap};
use smallvec::SmallVec;

use crate::entities::{Block, Inst, StackSlot, Value};
use crate::inst::{InstData, Terminator};
use crate::ops::IntBinaryOp;
use crate::types::{SrcLoc, Type};

/// What kind of function this is.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum FunctionKind {
    /// An `.entry`.
    Kernel,
    /// A `.func`.
    Device,
}

/// Where a value comes from.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum ValueDef {
    /// Result number `1` of instruction `0`.
    Result(Inst, u32),
    /// Parameter number `1` of block `0`.
    Param(Block, u32),
}

/// A value's type and origin.
#[derive(Clone, Debug)]
pub struct ValueData {
    /// Width.
    pub ty: Type,
    /// Origin.
    pub def: ValueDef,
}

/// An instruction in its function.
#[derive(Clone, Debug)]
pub struct InstNode {
    /// What it does.
    pub data: InstData,
    /// Its results.
    pub results: SmallVec<[Value; 2]>,
    /// Where it came from.
    pub loc: SrcLoc,
}

/// A basic block.
#[derive(Clone, Debug)]
pub struct BlockData {
    /// Block parameters.
    pub params: Vec<Value>,
    /// Instructions in order.
    pub insts: Vec<Inst>,
    /// How the block ends.
    pub term: Terminator,
    /// Where the terminator came from.
    pub term_loc: SrcLoc,
}

/// A stack slot's layout.
#[derive(Clone, Debug)]
pub struct StackSlotData {
    /// Size in bytes.
    pub size: u32,
    /// Alignment in bytes, a power of two.
    pub align: u32,
}

/// A function of a program.
#[derive(Clone, Debug)]
pub struct Function {
    /// PTX name.
    pub name: String,
    /// Kernel or device function.
    pub kind: FunctionKind,
    /// Types of the results.
    pub rets: Vec<Type>,
    /// First block; its parameters are the function's.
    pub entry: Block,
    /// Blocks; those that cannot be reached may linger until clean-up.
    pub blocks: PrimaryMap<Block, BlockData>,
    /// Instructions; one belongs to the function if a block lists it.
    pub insts: PrimaryMap<Inst, InstNode>,
    /// Values.
    pub values: PrimaryMap<Value, ValueData>,
    /// Local memory of one activation.
    pub slots: PrimaryMap<StackSlot, StackSlotData>,
}

impl Function {
    /// A function with an empty entry block that exits.
    pub fn new(name: impl Into<String>, kind: FunctionKind, rets: Vec<Type>) -> Function {
        let mut blocks = PrimaryMap::new();
        let entry = blocks.push(BlockData::default());
        Function {
            name: name.into(),
            kind,
            rets,
            entry,
            blocks,
            insts: PrimaryMap::new(),
            values: PrimaryMap::new(),
            slots: PrimaryMap::new(),
        }
    }

    /// Adds an empty block.
    pub fn new_block(&mut self) -> Block {
        self.blocks.push(BlockData::default())
    }

    /// Adds a parameter to a block.
    pub fn add_param(&mut self, block: Block, ty: Type) -> Value {
        let idx = self.blocks[block].params.len() as u32;
        let value = self.values.push(ValueData {
            ty,
            def: ValueDef::Param(block, idx),
        });
        self.blocks[block].params.push(value);
        value
    }

    /// Removes parameter `idx` of a block and renumbers the rest; the caller mends the branches.
    pub fn remove_param(&mut self, block: Block, idx: usize) {
        self.blocks[block].params.remove(idx);
        for (i, &param) in self.blocks[block].params.iter().enumerate() {
            self.values[param].def = ValueDef::Param(block, i as u32);
        }
    }

    /// Makes an instruction with results of the given types, in no block yet.
    pub fn make_inst(&mut self, data: InstData, result_types: &[Type], loc: SrcLoc) -> Inst {
        let inst = self.insts.push(InstNode {
            data,
            results: SmallVec::new(),
            loc,
        });
        let results = result_types
            .iter()
            .enumerate()
            .map(|(i, &ty)| {
                self.values.push(ValueData {
                    ty,
                    def: ValueDef::Result(inst, i as u32),
                })
            })
            .collect();
        self.insts[inst].results = results;
        inst
    }

    /// Type of a value.
    pub fn ty(&self, value: Value) -> Type {
        self.values[value].ty
    }

    /// The instruction that defines a value, if one does.
    pub fn def_inst(&self, value: Value) -> Option<&InstData> {
        match self.values[value].def {
            ValueDef::Result(inst, _) => Some(&self.insts[inst].data),
            ValueDef::Param(..) => None,
        }
    }

    /// The number of the instruction that defines a value, if one does.
    pub fn maker(&self, value: Value) -> Option<Inst> {
        match self.values[value].def {
            ValueDef::Result(inst, _) => Some(inst),
            ValueDef::Param(..) => None,
        }
    }

    /// The constant that a value is, if it is one.
    pub fn as_const(&self, value: Value) -> Option<u64> {
        match self.def_inst(value) {
            Some(&InstData::Const { bits, .. }) => Some(bits),
            _ => None,
        }
    }

    /// The constant that a value is, if it is one, as a signed integer.
    pub fn as_signed(&self, value: Value) -> Option<i64> {
        let bits = self.as_const(value)?;
        Some(self.ty(value).signed(bits))
    }

    /// The operation on two integers that defines a value, their type, and the operands.
    pub fn as_binary(&self, value: Value) -> Option<(IntBinaryOp, Type, [Value; 2])> {
        self.def_inst(value)?.as_binary()
    }

    /// The first result of an instruction that has results.
    pub fn result(&self, inst: Inst) -> Value {
        self.insts[inst].results[0]
    }

    /// The instructions of a block, in order.
    pub fn insts_in(&self, block: Block) -> impl DoubleEndedIterator<Item = &InstNode> + Clone {
        let insts = self.blocks[block].insts.iter();
        insts.map(|&inst| &self.insts[inst])
    }

    /// The results of a block's instructions.
    pub fn results_in(&self, block: Block) -> impl Iterator<Item = &Value> {
        self.insts_in(block).flat_map(|node| &node.results)
    }

    /// The values that a block defines: its parameters, and the results of its instructions.
    pub fn defined_in(&self, block: Block) -> impl Iterator<Item = Value> {
        let params = self.blocks[block].params.iter();
        let results = self.results_in(block);
        params.chain(results).copied()
    }

    /// The block that defines each value.
    pub fn homes(&self) -> SecondaryMap<Value, Option<Block>> {
        let mut homes = SecondaryMap::new();
        for block in self.blocks.keys() {
            let defined = self.defined_in(block);
            defined.for_each(|value| homes[value] = Some(block));
        }
        homes
    }

    /// Calls `f` on each value that a block reads, block arguments included.
    pub fn for_each_arg(&self, block: Block, mut f: impl FnMut(Value)) {
        for node in self.insts_in(block) {
            node.data.args().into_iter().for_each(&mut f);
        }
        self.blocks[block].term.for_each_arg(f);
    }

    /// Whether a block reads a value.
    pub fn uses(&self, block: Block, value: Value) -> bool {
        let mut found = false;
        self.for_each_arg(block, |arg| found |= arg == value);
        found
    }

    /// The blocks that a block leads to, in the order of its targets.
    pub fn successors(&self, block: Block) -> impl DoubleEndedIterator<Item = Block> {
        let targets = self.blocks[block].term.targets();
        targets.into_iter().map(|call| call.block)
    }

    /// The parameters of the blocks that a block leads to, and what it passes for each.
    pub fn passed_by(&self, block: Block) -> impl Iterator<Item = (Value, Value)> {
        let targets = self.blocks[block].term.targets().into_iter();
        targets.flat_map(|call| {
            let params = self.blocks[call.block].params.iter().copied();
            params.zip(call.args.iter().copied())
        })
    }

    /// All parameters that branches pass something to, and what they pass.
    pub fn passed(&self) -> impl Iterator<Item = (Value, Value)> {
        self.blocks.keys().flat_map(|block| self.passed_by(block))
    }

    /// Appends an instruction with one result to a block.
    pub fn append(&mut self, block: Block, data: InstData, ty: Type, loc: SrcLoc) -> Value {
        let inst = self.make_inst(data, &[ty], loc);
        self.blocks[block].insts.push(inst);
        self.result(inst)
    }

    /// Calls `f` on each value that a block reads, to change it.
    pub fn for_each_arg_mut(&mut self, block: Block, mut f: impl FnMut(&mut Value)) {
        let data = &mut self.blocks[block];
        for &inst in &data.insts {
            let args = self.insts[inst].data.args_mut();
            args.into_iter().for_each(&mut f);
        }
        data.term.for_each_arg_mut(f);
    }

    /// Makes a block read `new` instead of `old`.
    pub fn replace_uses(&mut self, block: Block, old: Value, new: Value) {
        self.for_each_arg_mut(block, |arg| {
            if *arg == old {
                *arg = new;
            }
        });
    }

    /// Makes a block that leads to `old` lead to `new`.
    pub fn redirect(&mut self, block: Block, old: Block, new: Block) {
        for call in self.blocks[block].term.targets_mut() {
            if call.block == old {
                call.block = new;
            }
        }
    }

    /// Adds parameters like those of another block to a block.
    pub fn copy_params(&mut self, from: Block, to: Block) {
        for param in self.blocks[from].params.clone() {
            self.add_param(to, self.ty(param));
        }
    }

    /// The function's parameters.
    pub fn params(&self) -> &[Value] {
        &self.blocks[self.entry].params
    }
}

impl Default for BlockData {
    fn default() -> BlockData {
        BlockData {
            params: Vec::new(),
            insts: Vec::new(),
            term: Terminator::Exit,
            term_loc: SrcLoc::default(),
        }
    }
}
