//! Parameters of a loop that are only put together become one.
//!
//! Compilers that load the factors of a product of matrices an iteration ahead carry them around
//! the loop in pieces, registers of 16 bits with a half or a byte of a word, and put these together
//! in front of the product. Here they are put together where they are passed.
//!
//! **Needs**: `simplify` after it, which finds the words that the pieces come from, and then `dce`
//! for the pieces. **Ensures**: no two parameters of a loop's header are only operands of bitwise
//! operations, shifts, extensions and permutations that come to one value in each iteration.
//!
//! ```text
//!                                                     v6 = uext.b32.b16 v1
//! jump block1(v1, v2)                                 ...; v9 = or.b32 v6, v8
//! block1(v3: b16, v4: b16):                     ==>   jump block1(v9)
//! v5 = uext.b32.b16 v3; v6 = uext.b32.b16 v4          block1(v10: b32):
//! v7 = shl.b32 v6, 16; v8 = or.b32 v5, v7; use v8     use v10
//! ```

use cranelift_entity::{EntitySet, SecondaryMap};
use ptxjit_ir::{
    Block, BlockCall, Function, InstData, IntBinaryOp, IntTernaryOp, ResizeOp, Terminator, Value,
    ValueDef,
};

use crate::analysis::loops::LoopForest;
use crate::analysis::{cfg, dominators, loops};
use crate::transform::rewrite::{self, Aliases};

/// What an operation puts together.
#[derive(Copy, Clone, Default)]
enum Tree {
    #[default]
    Other,
    Constant,
    /// So many parameters of a header, which nothing else uses.
    Params(Block, u32),
}

/// A value that becomes a parameter of a header.
struct Root {
    header: Block,
    value: Value,
}

/// Runs the pass; says whether something changed.
pub fn run(func: &mut Function) -> bool {
    let roots = roots(func);
    if roots.is_empty() {
        return false;
    }
    for from in func.blocks.keys() {
        pass_roots(func, from, &roots);
    }
    let (mut aliases, mut gone) = (Aliases::new(), EntitySet::new());
    for root in &roots {
        remove(func, root.value, &mut gone);
        let whole = func.add_param(root.header, func.ty(root.value));
        aliases.set(root.value, whole);
    }
    for block in func.blocks.keys() {
        let mut insts = std::mem::take(&mut func.blocks[block].insts);
        insts.retain(|&inst| {
            !func.insts[inst]
                .results
                .iter()
                .any(|&result| gone.contains(result))
        });
        func.blocks[block].insts = insts;
    }
    aliases.apply(func);
    rewrite::retain_params(func, |param| !gone.contains(param))
}

/// The largest trees of several parameters that are computed in each iteration.
fn roots(func: &Function) -> Vec<Root> {
    let cfg = cfg::run(func);
    let forest = loops::run(&cfg);
    if forest.loops.is_empty() {
        return Vec::new();
    }
    let dom_tree = dominators::run(&cfg);
    let (trees, is_part) = trees(func, &cfg, &forest);
    let mut roots = Vec::new();
    for &block in &cfg.rpo {
        for &inst in &func.blocks[block].insts {
            let &[value] = func.insts[inst].results.as_slice() else {
                continue;
            };
            let Tree::Params(header, 2..) = trees[value] else {
                continue;
            };
            let is_latch = |&pred: &Block| dom_tree.dominates(header, pred);
            let mut latches = cfg.preds[header].iter().filter(|pred| is_latch(pred));
            if !is_part[value] && latches.all(|&latch| dom_tree.dominates(block, latch)) {
                roots.push(Root { header, value });
            }
        }
    }
    roots
}

/// What each value puts together, and which of them are part of a larger tree.
fn trees(
    func: &Function,
    cfg: &cfg::Cfg,
    forest: &LoopForest,
) -> (SecondaryMap<Value, Tree>, SecondaryMap<Value, bool>) {
    let mut n_uses: SecondaryMap<Value, u32> = SecondaryMap::new();
    for data in func.blocks.values() {
        for &inst in &data.insts {
            let args = func.insts[inst].data.args();
            args.iter().for_each(|&arg| n_uses[arg] += 1);
        }
        data.term.for_each_arg(|arg| n_uses[arg] += 1);
    }
    let mut trees: SecondaryMap<Value, Tree> = SecondaryMap::new();
    let mut is_part: SecondaryMap<Value, bool> = SecondaryMap::new();
    for data in forest.loops.values().filter(|data| data.is_reducible) {
        for &param in &func.blocks[data.header].params {
            if n_uses[param] == 1 {
                trees[param] = Tree::Params(data.header, 1);
            }
        }
    }
    for &block in &cfg.rpo {
        for &inst in &func.blocks[block].insts {
            let data = &func.insts[inst].data;
            let &[result] = func.insts[inst].results.as_slice() else {
                continue;
            };
            trees[result] = tree(data, &trees, &n_uses);
            if matches!(trees[result], Tree::Params(..)) {
                data.args().iter().for_each(|&arg| is_part[arg] = true);
            }
        }
    }
    (trees, is_part)
}

/// What an instruction puts together.
fn tree(
    data: &InstData,
    trees: &SecondaryMap<Value, Tree>,
    n_uses: &SecondaryMap<Value, u32>,
) -> Tree {
    if matches!(data, InstData::Const { .. }) {
        return Tree::Constant;
    }
    if !puts_together(data) {
        return Tree::Other;
    }
    let mut whole = Tree::Constant;
    for &arg in &data.args() {
        whole = match (whole, trees[arg]) {
            (_, Tree::Constant) => whole,
            (Tree::Constant, Tree::Params(header, n)) if n_uses[arg] == 1 => {
                Tree::Params(header, n)
            }
            (Tree::Params(header, n), Tree::Params(other, m))
                if n_uses[arg] == 1 && header == other =>
            {
                Tree::Params(header, n + m)
            }
            (_, Tree::Params(..) | Tree::Other) => return Tree::Other,
        };
    }
    match whole {
        Tree::Params(..) => whole,
        Tree::Constant | Tree::Other => Tree::Other,
    }
}

/// Whether an instruction is one of those that words are put together with.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "others compute something else"
)]
fn puts_together(data: &InstData) -> bool {
    use IntBinaryOp::{And, Or, Shl, Ushr, Xor};
    match data {
        InstData::IntBinary { op, .. } => matches!(op, And | Or | Xor | Shl | Ushr),
        InstData::IntTernary { op, .. } => *op == IntTernaryOp::Prmt,
        InstData::Resize { op, .. } => matches!(op, ResizeOp::Uext | ResizeOp::Trunc),
        _ => false,
    }
}

/// Computes at the end of a block what it passes for roots, behind the other arguments.
fn pass_roots(func: &mut Function, from: Block, roots: &[Root]) {
    let mut term = std::mem::replace(&mut func.blocks[from].term, Terminator::Exit);
    for call in term.targets_mut() {
        for root in roots.iter().filter(|root| root.header == call.block) {
            let whole = put_together(func, from, root.value, call);
            call.args.push(whole);
        }
    }
    func.blocks[from].term = term;
}

/// The value of a tree with the parameters that a branch passes.
fn put_together(func: &mut Function, from: Block, value: Value, call: &BlockCall) -> Value {
    let inst = match func.values[value].def {
        ValueDef::Param(_, place) => return call.args[place as usize],
        ValueDef::Result(inst, _) => inst,
    };
    let (mut data, loc, ty) = (
        func.insts[inst].data.clone(),
        func.insts[inst].loc,
        func.ty(value),
    );
    for arg in data.args_mut() {
        *arg = put_together(func, from, *arg, call);
    }
    let inst = func.make_inst(data, &[ty], loc);
    func.blocks[from].insts.push(inst);
    func.insts[inst].results[0]
}

/// Notes the values of a tree, which nothing else uses. Constants stay.
fn remove(func: &Function, value: Value, gone: &mut EntitySet<Value>) {
    if let Some(data) = func.def_inst(value) {
        if matches!(data, InstData::Const { .. }) {
            return;
        }
        for &arg in &data.args() {
            remove(func, arg, gone);
        }
    }
    gone.insert(value);
}
