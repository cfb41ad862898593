//! Checks that a function keeps the rules of the IR.
//!
//! Run after translation and, in debug builds and tests, after each pass. It computes dominance by
//! itself, in the plainest way, so that it can disagree with the analyses that passes rely on.
//!
//! Checked: every value is defined once and, where control can reach, before its uses; operands and
//! results have the types that the op wants; branches pass one argument of the right type for each
//! parameter; calls fit their callee (given the program). Blocks that cannot be reached are checked
//! for types only.

use std::fmt;

use cranelift_entity::SecondaryMap;

use crate::entities::{Block, Inst, Value};
use crate::function::{Function, FunctionKind, ValueDef};
use crate::inst::{BlockCall, InstData, Terminator};
use crate::print;
use crate::program::Program;
use crate::types::Type;

mod types;

/// A broken rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerifyError {
    /// Where.
    pub block: Block,
    /// The instruction or terminator, printed.
    pub text: String,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: `{}`: {}", self.block, self.text, self.message)
    }
}

/// Checks one function; with `program`, also what it names there.
pub fn function(func: &Function, program: Option<&Program>) -> Result<(), Vec<VerifyError>> {
    let mut verifier = Verifier {
        func,
        program,
        places: SecondaryMap::new(),
        errors: Vec::new(),
    };
    verifier.collect_places();
    for block in func.blocks.keys() {
        verifier.check_block(block);
    }
    // Dominance means nothing if branches lead nowhere.
    if verifier.errors.is_empty() {
        verifier.check_dominance();
    }
    if verifier.errors.is_empty() {
        Ok(())
    } else {
        Err(verifier.errors)
    }
}

/// Checks every function of a program.
pub fn program(program: &Program) -> Result<(), Vec<VerifyError>> {
    let mut errors = Vec::new();
    for func in program.functions.values() {
        if let Err(more) = function(func, Some(program)) {
            errors.extend(more);
        }
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors)
    }
}

/// Where a value becomes known: its block, and the number of instructions of that block that come
/// before it.
#[derive(Copy, Clone, Default)]
struct Place {
    at: Option<(Block, usize)>,
}

struct Verifier<'a> {
    func: &'a Function,
    program: Option<&'a Program>,
    places: SecondaryMap<Value, Place>,
    errors: Vec<VerifyError>,
}

impl Verifier<'_> {
    fn error_at_inst(&mut self, block: Block, inst: Inst, message: String) {
        self.errors.push(VerifyError {
            block,
            text: print::inst(self.func, inst),
            message,
        });
    }

    fn error_at_end(&mut self, block: Block, message: String) {
        let text = print::terminator(&self.func.blocks[block].term);
        self.errors.push(VerifyError {
            block,
            text,
            message,
        });
    }

    /// Notes where each value is defined, and checks that lists and back references agree.
    fn collect_places(&mut self) {
        let func = self.func;
        for (block, data) in &func.blocks {
            for (idx, &param) in data.params.iter().enumerate() {
                if func.values[param].def != ValueDef::Param(block, idx as u32) {
                    self.error_at_end(block, format!("parameter {param} does not know its place"));
                }
                self.define(block, 0, param);
            }
            for (idx, &inst) in data.insts.iter().enumerate() {
                for (i, &result) in func.insts[inst].results.iter().enumerate() {
                    if func.values[result].def != ValueDef::Result(inst, i as u32) {
                        self.error_at_inst(
                            block,
                            inst,
                            format!("result {result} does not know its place"),
                        );
                    }
                    self.define(block, idx + 1, result);
                }
            }
        }
    }

    fn define(&mut self, block: Block, idx: usize, value: Value) {
        if self.places[value].at.replace((block, idx)).is_some() {
            self.error_at_end(block, format!("{value} is defined twice"));
        }
    }

    fn check_block(&mut self, block: Block) {
        let func = self.func;
        for &inst in &func.blocks[block].insts {
            if let Err(message) = types::inst(func, self.program, inst) {
                self.error_at_inst(block, inst, message);
            }
        }
        let checked = match &func.blocks[block].term {
            Terminator::Brif { cond, .. } => types::expect(func, *cond, Type::B1),
            Terminator::Switch { index, .. } => types::expect(func, *index, Type::B32),
            Terminator::Dispatch(state) => types::expect(func, *state, Type::B32),
            Terminator::Ret(values) => types::ret(func, values),
            Terminator::Jump(_) | Terminator::Exit | Terminator::Trap(_) => Ok(()),
        };
        if let Err(message) = checked {
            self.error_at_end(block, message);
        }
        for call in func.blocks[block].term.targets() {
            if let Err(message) = self.check_target(call) {
                self.error_at_end(block, message);
            }
        }
    }

    fn check_target(&self, call: &BlockCall) -> Result<(), String> {
        let Some(data) = self.func.blocks.get(call.block) else {
            return Err(format!("{} does not exist", call.block));
        };
        // A function may not jump to its beginning: its parameters come from the caller.
        if call.block == self.func.entry
            && (!data.params.is_empty() || self.func.kind == FunctionKind::Device)
        {
            return Err(format!("{} is the entry", call.block));
        }
        if call.args.len() != data.params.len() {
            return Err(format!(
                "{} takes {} arguments, not {}",
                call.block,
                data.params.len(),
                call.args.len()
            ));
        }
        call.args
            .iter()
            .zip(&data.params)
            .try_for_each(|(&arg, &param)| types::expect(self.func, arg, self.func.ty(param)))
    }

    fn check_dominance(&mut self) {
        let func = self.func;
        let dom = Dominance::new(func);
        for &block in &dom.order {
            let data = &func.blocks[block];
            for (idx, &inst) in data.insts.iter().enumerate() {
                for arg in func.insts[inst].data.args() {
                    if !self.is_known(&dom, arg, block, idx) {
                        self.error_at_inst(
                            block,
                            inst,
                            format!("{arg} is not defined on every way here"),
                        );
                    }
                }
            }
            let mut bad = Vec::new();
            data.term.for_each_arg(|arg| {
                if !self.is_known(&dom, arg, block, data.insts.len()) {
                    bad.push(arg);
                }
            });
            for arg in bad {
                self.error_at_end(block, format!("{arg} is not defined on every way here"));
            }
        }
    }

    fn is_known(&self, dom: &Dominance, value: Value, block: Block, idx: usize) -> bool {
        match self.places[value].at {
            Some((def, at)) if def == block => at <= idx,
            Some((def, _)) => dom.dominates(def, block),
            None => false,
        }
    }
}

/// Blocks that control can reach, and what each dominates (after Cooper, Harvey and Kennedy).
/// Beside the entry, control arrives from outside at the blocks that `StateOf` names.
struct Dominance {
    order: Vec<Block>,
    number: SecondaryMap<Block, u32>,
    /// By position in `order`: the numbers of the blocks that it dominates, its own first.
    spans: Vec<std::ops::Range<usize>>,
}

const UNREACHED: u32 = 0;

impl Dominance {
    fn new(func: &Function) -> Dominance {
        let roots = roots(func);
        let order = reverse_postorder(func, &roots);
        let mut number = SecondaryMap::with_default(UNREACHED);
        for (i, &block) in order.iter().enumerate() {
            number[block] = i as u32 + 1;
        }
        let mut preds = vec![Vec::new(); order.len()];
        for (i, &block) in order.iter().enumerate() {
            for call in func.blocks[block].term.targets() {
                preds[number[call.block] as usize - 1].push(i);
            }
        }
        let is_root: Vec<bool> = order.iter().map(|block| roots.contains(block)).collect();
        let spans = tree_spans(&immediate_dominators(&preds, &is_root));
        Dominance {
            order,
            number,
            spans,
        }
    }

    fn dominates(&self, a: Block, b: Block) -> bool {
        if self.number[a] == UNREACHED || self.number[b] == UNREACHED {
            return false;
        }
        let (a, b) = (self.number[a] as usize - 1, self.number[b] as usize - 1);
        self.spans[a].contains(&self.spans[b].start)
    }
}

fn roots(func: &Function) -> Vec<Block> {
    let mut roots = vec![func.entry];
    for data in func.blocks.values() {
        for &inst in &data.insts {
            if let InstData::StateOf { block } = func.insts[inst].data {
                roots.push(block);
            }
        }
    }
    roots.sort_unstable();
    roots.dedup();
    roots
}

fn reverse_postorder(func: &Function, roots: &[Block]) -> Vec<Block> {
    let mut seen: SecondaryMap<Block, bool> = SecondaryMap::new();
    let mut order = Vec::new();
    for &root in roots {
        let mut stack = vec![(root, 0)];
        if std::mem::replace(&mut seen[root], true) {
            continue;
        }
        while let Some((block, next)) = stack.pop() {
            let Some(succ) = func.blocks[block]
                .term
                .targets()
                .get(next)
                .map(|call| call.block)
            else {
                order.push(block);
                continue;
            };
            stack.push((block, next + 1));
            if !std::mem::replace(&mut seen[succ], true) {
                stack.push((succ, 0));
            }
        }
    }
    order.reverse();
    order
}

/// `None` stands for the place outside, from which control enters roots.
fn immediate_dominators(preds: &[Vec<usize>], is_root: &[bool]) -> Vec<Option<usize>> {
    let n = preds.len();
    let mut idom: Vec<Option<usize>> = vec![None; n];
    let mut done = is_root.to_vec();
    let mut changed = true;
    while changed {
        changed = false;
        for block in (0..n).filter(|&block| !is_root[block]) {
            let mut known = preds[block].iter().copied().filter(|&pred| done[pred]);
            let first = known.next();
            let new = known.fold(first, |a, b| common(&idom, a, Some(b)));
            changed |= !done[block] || idom[block] != new;
            done[block] = true;
            idom[block] = new;
        }
    }
    idom
}

/// Numbers the dominator tree so that each subtree is a range that starts with its root.
fn tree_spans(idom: &[Option<usize>]) -> Vec<std::ops::Range<usize>> {
    let n = idom.len();
    let mut sizes = vec![1; n];
    for block in (0..n).rev() {
        if let Some(up) = idom[block] {
            sizes[up] += sizes[block];
        }
    }
    let mut next_root = 0;
    let mut next = vec![0; n];
    let mut spans = Vec::with_capacity(n);
    for block in 0..n {
        let free = match idom[block] {
            Some(up) => &mut next[up],
            None => &mut next_root,
        };
        let start = *free;
        *free += sizes[block];
        next[block] = start + 1;
        spans.push(start..start + sizes[block]);
    }
    spans
}

fn common(idom: &[Option<usize>], mut a: Option<usize>, mut b: Option<usize>) -> Option<usize> {
    // A dominator comes earlier in reverse post-order, and the outside (`None`) before all.
    while a != b {
        if a > b {
            a = a.and_then(|a| idom[a]);
        } else {
            b = b.and_then(|b| idom[b]);
        }
    }
    a
}

#[cfg(test)]
mod tests;
