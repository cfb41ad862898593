//! Makes SSA values of variables in a function whose control flow is complete.
//!
//! Braun et al., as in `ptxjit_ir::FunctionBuilder`, but blocks are visited in reverse post-order
//! and arguments of the new parameters are filled in at the end. Superfluous parameters are left to
//! `remove_constant_params`.

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Block, Function, InstData, SrcLoc, Type, Value};
use rustc_hash::FxHashMap;

use crate::analysis::cfg::Cfg;

/// Variables by number, each with a type, and their values at the ends of blocks.
pub(crate) struct Variables<'a> {
    cfg: &'a Cfg,
    types: Vec<Type>,
    values: SecondaryMap<Block, FxHashMap<u32, Value>>,
    /// New parameters that branches do not serve yet, in order.
    pending: Vec<(Block, u32)>,
}

impl<'a> Variables<'a> {
    pub(crate) fn new(cfg: &'a Cfg, types: Vec<Type>) -> Variables<'a> {
        Variables {
            cfg,
            types,
            values: SecondaryMap::new(),
            pending: Vec::new(),
        }
    }

    /// Assigns a variable. Blocks must be visited in reverse post-order.
    pub(crate) fn write(&mut self, block: Block, var: u32, value: Value) {
        self.values[block].insert(var, value);
    }

    /// The variable's value at this place; zero where it was never assigned.
    pub(crate) fn read(&mut self, func: &mut Function, block: Block, var: u32) -> Value {
        let mut at = block;
        let mut passed = Vec::new();
        let value = loop {
            if let Some(&value) = self.values[at].get(&var) {
                break value;
            }
            passed.push(at);
            match self.cfg.preds[at].as_slice() {
                // A block whose only predecessor is later in the order is reached from outside as
                // well: a root.
                &[pred] if !self.cfg.roots.contains(&at) => at = pred,
                _ => break self.define_at(func, at, var),
            }
        };
        for block in passed {
            self.values[block].insert(var, value);
        }
        value
    }

    fn define_at(&mut self, func: &mut Function, block: Block, var: u32) -> Value {
        let ty = self.types[var as usize];
        if self.cfg.roots.contains(&block) {
            let inst = func.make_inst(InstData::Const { ty, bits: 0 }, &[ty], SrcLoc::default());
            func.blocks[block].insts.insert(0, inst);
            return func.insts[inst].results[0];
        }
        self.pending.push((block, var));
        func.add_param(block, ty)
    }

    /// Completes the branches to blocks with new parameters.
    pub(crate) fn finish(mut self, func: &mut Function) {
        let mut next = 0;
        while let Some(&(block, var)) = self.pending.get(next) {
            next += 1;
            for idx in 0..self.cfg.preds[block].len() {
                let pred = self.cfg.preds[block][idx];
                let arg = self.read(func, pred, var);
                for call in func.blocks[pred].term.targets_mut() {
                    if call.block == block {
                        call.args.push(arg);
                    }
                }
            }
        }
    }
}
