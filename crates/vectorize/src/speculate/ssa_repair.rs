//! Repairs SSA form when a value gets further definitions.

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Block, Function, Type, Value};
use rustc_hash::FxHashMap;

/// Finds the reaching definition of one variable, adding block parameters where definitions meet.
pub struct Repair<'p> {
    preds: &'p SecondaryMap<Block, Vec<Block>>,
    ty: Type,
    /// Value at the end of a block.
    at_end: FxHashMap<Block, Value>,
    /// Value at the start of a block.
    at_start: FxHashMap<Block, Value>,
    work: Vec<(Block, Value)>,
}

impl<'p> Repair<'p> {
    /// Starts with no definitions.
    pub fn new(preds: &'p SecondaryMap<Block, Vec<Block>>, ty: Type) -> Repair<'p> {
        Repair {
            preds,
            ty,
            at_end: FxHashMap::default(),
            at_start: FxHashMap::default(),
            work: Vec::new(),
        }
    }

    /// The variable has `value` at the end of `block`.
    pub fn define(&mut self, block: Block, value: Value) {
        self.at_end.insert(block, value);
    }

    /// The variable has `value` at the start of `block` already (a reload), regardless of the
    /// predecessors.
    pub fn define_start(&mut self, block: Block, value: Value) {
        self.at_start.insert(block, value);
    }

    /// Forces parameters at the starts of `blocks`, all of them before any gets its arguments: one
    /// may lead to another.
    pub fn add_params(&mut self, func: &mut Function, blocks: &[Block]) {
        for &block in blocks {
            if !self.at_start.contains_key(&block) {
                let param = func.add_param(block, self.ty);
                self.at_start.insert(block, param);
                self.work.push((block, param));
            }
        }
        self.complete(func);
    }

    /// The value at the end of `block`.
    pub fn end(&mut self, func: &mut Function, block: Block) -> Value {
        let value = self.end_lazy(func, block);
        self.complete(func);
        value
    }

    /// The value at the start of `block`.
    pub fn start(&mut self, func: &mut Function, block: Block) -> Value {
        let value = self.start_lazy(func, block);
        self.complete(func);
        value
    }

    fn complete(&mut self, func: &mut Function) {
        while let Some((block, _)) = self.work.pop() {
            let preds = self.preds;
            for &pred in &preds[block] {
                let arg = self.end_lazy(func, pred);
                let targets = func.blocks[pred].term.targets_mut().into_iter();
                let calls = targets.filter(|call| call.block == block);
                calls.for_each(|call| call.args.push(arg));
            }
        }
    }

    fn end_lazy(&mut self, func: &mut Function, block: Block) -> Value {
        match self.at_end.get(&block) {
            Some(&value) => value,
            None => self.start_lazy(func, block),
        }
    }

    fn start_lazy(&mut self, func: &mut Function, block: Block) -> Value {
        let (mut chain, mut at) = (Vec::new(), block);
        let value = loop {
            if let Some(&value) = self.at_start.get(&at) {
                break value;
            }
            chain.push(at);
            let preds = self.preds;
            if let [pred] = preds[at][..]
                && !chain.contains(&pred)
            {
                if let Some(&value) = self.at_end.get(&pred) {
                    break value;
                }
                at = pred;
                continue;
            }
            let param = func.add_param(at, self.ty);
            self.work.push((at, param));
            break param;
        };
        for block in chain {
            self.at_start.insert(block, value);
        }
        value
    }
}

/// Predecessors of each block, each once.
pub fn predecessors(func: &Function) -> SecondaryMap<Block, Vec<Block>> {
    let mut preds: SecondaryMap<Block, Vec<Block>> = SecondaryMap::new();
    for (block, data) in func.blocks.iter() {
        for call in data.term.targets() {
            // A block comes once in this loop, so if it is among them, it is the last.
            if preds[call.block].last() != Some(&block) {
                preds[call.block].push(block);
            }
        }
    }
    preds
}
