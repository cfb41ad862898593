//! What all passes need to change a function: values that stand for others, and the removal of
//! block parameters.

use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use ptxjit_ir::{Block, Function, Value, ValueDef};

/// Values that are replaced by others.
#[derive(Default)]
pub struct Aliases {
    map: SecondaryMap<Value, PackedOption<Value>>,
    is_empty: bool,
}

impl Aliases {
    pub fn new() -> Aliases {
        Aliases {
            map: SecondaryMap::new(),
            is_empty: true,
        }
    }

    /// `new` is to be read wherever `old` was.
    pub fn set(&mut self, old: Value, new: Value) {
        let new = self.resolve(new);
        debug_assert_ne!(old, new, "a value that stands for itself");
        self.map[old] = new.into();
        self.is_empty = false;
    }

    /// The value that stands for `value` in the end.
    pub fn resolve(&mut self, value: Value) -> Value {
        let mut end = value;
        while let Some(next) = self.map[end].expand() {
            end = next;
        }
        // Later look-ups take the short way.
        let mut at = value;
        while let Some(next) = self.map[at].expand() {
            self.map[at] = end.into();
            at = next;
        }
        end
    }

    pub fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// Renames the operands of all instructions and terminators.
    pub fn apply(&mut self, func: &mut Function) {
        if self.is_empty {
            return;
        }
        for block in func.blocks.keys() {
            for idx in 0..func.blocks[block].insts.len() {
                let inst = func.blocks[block].insts[idx];
                for arg in func.insts[inst].data.args_mut() {
                    *arg = self.resolve(*arg);
                }
            }
            self.apply_to_end(func, block);
        }
    }

    /// Renames the operands of one terminator.
    pub fn apply_to_end(&mut self, func: &mut Function, block: Block) {
        func.blocks[block]
            .term
            .for_each_arg_mut(|arg| *arg = self.resolve(*arg));
    }
}

/// Removes the block parameters that `keep` refuses, and what branches pass for them. The entry's
/// stay.
pub fn retain_params(func: &mut Function, keep: impl Fn(Value) -> bool) -> bool {
    let mut changed = false;
    let is_kept = |func: &Function, block: Block, param: Value| block == func.entry || keep(param);
    for from in func.blocks.keys() {
        let mut term = std::mem::replace(&mut func.blocks[from].term, ptxjit_ir::Terminator::Exit);
        for call in term.targets_mut() {
            let mut params = func.blocks[call.block].params.iter();
            call.args.retain(|_| {
                params
                    .next()
                    .is_some_and(|&param| is_kept(func, call.block, param))
            });
        }
        func.blocks[from].term = term;
    }
    for block in func.blocks.keys() {
        let n_before = func.blocks[block].params.len();
        let mut params = std::mem::take(&mut func.blocks[block].params);
        params.retain(|&param| is_kept(func, block, param));
        if params.len() != n_before {
            changed = true;
            for (idx, &param) in params.iter().enumerate() {
                func.values[param].def = ValueDef::Param(block, idx as u32);
            }
        }
        func.blocks[block].params = params;
    }
    changed
}
