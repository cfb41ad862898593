//! A function: blocks of instructions in SSA form.

use cranelift_entity::PrimaryMap;
use smallvec::SmallVec;

use crate::entities::{Block, Inst, StackSlot, Value};
use crate::inst::{InstData, Terminator};
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

    /// The constant that a value is, if it is one.
    pub fn as_const(&self, value: Value) -> Option<u64> {
        match self.def_inst(value) {
            Some(&InstData::Const { bits, .. }) => Some(bits),
            _ => None,
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
