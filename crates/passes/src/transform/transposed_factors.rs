//! Products of matrices take B before `movmatrix` rather than behind it.
//!
//! A matrix by rows comes to the registers of B by `ldmatrix.trans`, or by `wgmma` from shared
//! memory: tiles are read by rows and transposed. Where a product is computed, each column of its
//! tile is decoded, and the tile transposed again, to be multiplied by rows.
//!
//! **Needs**: halves of registers are together ([`super::join_params`]). **Ensures**: no product
//! has a B all of whose registers come from `movmatrix`, directly or as block parameters that only
//! products of the same block read; such a `movmatrix` stays only if something else reads it.
//!
//! Lanes meet at the product as they did at `movmatrix`: both are `.aligned`. A block parameter has
//! to be of one `movmatrix` in all lanes, too. It is if each branch to the block comes from another
//! `.aligned` instruction, with nothing but branches between: all lanes were at the last of these,
//! and so took the same branch.
//!
//! ```text
//! v2 = movmatrix v0; v3 = movmatrix v1            v4 = mma.….b_by_rows (…, v0, v1, …)
//! v4 = mma (…, v2, v3, …)                   ==>
//! ```

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{
    Block, FragmentLayout, Function, Inst, InstData, Mma, Terminator, Type, Value, ValueDef, WarpOp,
};

use crate::analysis::cfg::{self, Cfg};
use crate::transform::rewrite;

/// Runs the pass; says whether something changed.
pub fn run(func: &mut Function) -> bool {
    let products: Vec<(Inst, Mma)> = func
        .blocks
        .values()
        .flat_map(|block| &block.insts)
        .filter_map(|&inst| Some((inst, product(func, inst)?)))
        .collect();
    if products.is_empty() {
        return false;
    }
    let transposed = Transposed::find(func, &products);
    let is_found = |&(inst, mma): &(Inst, Mma)| {
        let mut b = b_of(func, inst, &mma).iter();
        b.all(|&register| transposed.is[register])
    };
    let products: Vec<_> = products.into_iter().filter(is_found).collect();
    if products.is_empty() {
        return false;
    }
    let tiles = pass_tiles(func, &transposed);
    for &(inst, mma) in &products {
        take_tiles(func, inst, &mma, &tiles);
    }
    let is_gone = |param: Value| transposed.is[param];
    rewrite::retain_params(func, |param| !is_gone(param));
    remove_unread(func);
    true
}

/// The product that an instruction is, if its B could be one by rows.
fn product(func: &Function, inst: Inst) -> Option<Mma> {
    let is_by_columns = |mma: &Mma| mma.layout == FragmentLayout::Quads { b_by_rows: false };
    let mma = func.insts[inst].data.mma().filter(is_by_columns);
    mma.filter(|mma| mma.b.bits() == 16)
}

/// The registers of a product's B.
fn b_of<'f>(func: &'f Function, inst: Inst, mma: &Mma) -> &'f [Value] {
    let InstData::Warp { args, .. } = &func.insts[inst].data else {
        return &[];
    };
    &args[mma.a_registers()..][..mma.b_registers()]
}

/// What a value is the transpose of.
#[expect(clippy::wildcard_enum_match_arm, reason = "others are no transposes")]
fn tile(func: &Function, value: Value) -> Option<Value> {
    match func.def_inst(value)? {
        InstData::Warp {
            op: WarpOp::Transpose,
            args,
            ..
        } => Some(args[0]),
        // Zeros stay what they are.
        InstData::Const { bits: 0, .. } => Some(value),
        _ => None,
    }
}

/// Values that are transposes.
struct Transposed {
    /// Results, and parameters that get nothing else and go nowhere but to products.
    is: SecondaryMap<Value, bool>,
    /// Parameters from which a product reads B, in any number of steps.
    params: Vec<Value>,
    /// What branches pass to each parameter.
    passed: SecondaryMap<Value, Vec<Value>>,
}

impl Transposed {
    /// Takes all parameters that reach products for transposes, and then those back that are not.
    fn find(func: &Function, products: &[(Inst, Mma)]) -> Transposed {
        let mut found = Transposed {
            is: SecondaryMap::new(),
            params: Vec::new(),
            passed: SecondaryMap::new(),
        };
        let cfg = cfg::run(func);
        for data in func.blocks.values() {
            for call in data.term.targets() {
                let params = &func.blocks[call.block].params;
                for (&param, &arg) in params.iter().zip(&call.args) {
                    found.passed[param].push(arg);
                }
            }
        }
        let b = products.iter();
        let mut work: Vec<Value> = b
            .flat_map(|(inst, mma)| b_of(func, *inst, mma))
            .copied()
            .collect();
        while let Some(value) = work.pop() {
            if found.is[value] {
                continue;
            }
            match func.values[value].def {
                ValueDef::Param(block, _)
                    if found.passed[value].len() == cfg.preds[block].len()
                        && is_entered_together(func, &cfg, block) =>
                {
                    found.is[value] = true;
                    found.params.push(value);
                    work.extend(&found.passed[value]);
                }
                ValueDef::Param(..) => {}
                ValueDef::Result(..) => found.is[value] = tile(func, value).is_some(),
            }
        }
        found.drop_read(func);
        while found.drop_others(func, products) {}
        found
    }

    /// Takes back a parameter.
    fn drop_param(&mut self, func: &Function, value: Value) -> bool {
        let is_param = matches!(func.values[value].def, ValueDef::Param(..));
        is_param && std::mem::take(&mut self.is[value])
    }

    /// Takes back parameters that another block reads, or something else than B of a product.
    fn drop_read(&mut self, func: &Function) {
        let is_reached = self.is.clone();
        for (block, data) in func.blocks.iter() {
            let is_own = |value: Value| matches!(func.values[value].def, ValueDef::Param(defined, _) if defined == block);
            for &inst in &data.insts {
                let b = match product(func, inst) {
                    Some(mma) => mma.a_registers()..mma.a_registers() + mma.b_registers(),
                    None => 0..0,
                };
                for (n, &arg) in func.insts[inst].data.args().iter().enumerate() {
                    if !b.contains(&n) || !is_own(arg) {
                        self.drop_param(func, arg);
                    }
                }
            }
            match &data.term {
                Terminator::Switch { index: value, .. } | Terminator::Dispatch(value) => {
                    self.drop_param(func, *value);
                }
                Terminator::Ret(values) => values.iter().for_each(|&value| {
                    self.drop_param(func, value);
                }),
                Terminator::Jump(_)
                | Terminator::Brif { .. }
                | Terminator::Exit
                | Terminator::Trap(_) => {}
            }
            for call in data.term.targets() {
                let params = &func.blocks[call.block].params;
                for (&param, &arg) in params.iter().zip(&call.args) {
                    if !is_reached[param] || !is_own(arg) {
                        self.drop_param(func, arg);
                    }
                }
            }
        }
    }

    /// Takes back parameters whose arguments are none, that are arguments of others, or that a
    /// product reads beside others. Says whether there were any.
    fn drop_others(&mut self, func: &Function, products: &[(Inst, Mma)]) -> bool {
        let mut changed = false;
        for n in 0..self.params.len() {
            let param = self.params[n];
            if self.passed[param].iter().any(|&arg| !self.is[arg]) {
                changed |= self.drop_param(func, param);
            }
            if !self.is[param] {
                for m in 0..self.passed[param].len() {
                    changed |= self.drop_param(func, self.passed[param][m]);
                }
            }
        }
        for (inst, mma) in products {
            let b = b_of(func, *inst, mma);
            if !b.iter().all(|&register| self.is[register]) {
                for &register in b {
                    changed |= self.drop_param(func, register);
                }
            }
        }
        changed
    }
}

/// Whether all lanes of a warp come to a block by the same branch, whenever all of them come to an
/// `.aligned` instruction in it.
fn is_entered_together(func: &Function, cfg: &Cfg, block: Block) -> bool {
    let preds = &cfg.preds[block];
    let mut met: Vec<Block> = preds
        .iter()
        .filter_map(|&pred| last_met(func, cfg, pred))
        .collect();
    met.sort_unstable();
    met.dedup();
    !cfg.roots.contains(&block) && met.len() == preds.len()
}

/// The block with the last `.aligned` instruction in front of the end of this one, if there is one
/// way from there.
fn last_met(func: &Function, cfg: &Cfg, block: Block) -> Option<Block> {
    let is_aligned = |&inst: &Inst| {
        let data = &func.insts[inst].data;
        matches!(data, InstData::Warp { op, .. } if op.is_aligned())
    };
    let mut at = block;
    for _ in 0..func.blocks.len() {
        if func.blocks[at].insts.iter().any(is_aligned) {
            return Some(at);
        }
        let &[pred] = &cfg.preds[at][..] else {
            return None;
        };
        at = pred;
    }
    None
}

/// Gives each parameter that is a transpose another one beside it, for the tile. Returns the tiles
/// of all parameters.
fn pass_tiles(func: &mut Function, transposed: &Transposed) -> SecondaryMap<Value, Option<Value>> {
    let mut tiles: SecondaryMap<Value, Option<Value>> = SecondaryMap::new();
    let blocks: Vec<Block> = func.blocks.keys().collect();
    for &block in &blocks {
        let params = func.blocks[block].params.clone();
        for param in params.into_iter().filter(|&param| transposed.is[param]) {
            tiles[param] = Some(func.add_param(block, Type::B32));
        }
    }
    for &from in &blocks {
        let mut term = std::mem::replace(&mut func.blocks[from].term, Terminator::Exit);
        for call in term.targets_mut() {
            let params = &func.blocks[call.block].params;
            let mut passed = Vec::new();
            for (&param, &arg) in params.iter().zip(&call.args) {
                if transposed.is[param] {
                    passed.extend(tiles[arg].or_else(|| tile(func, arg)));
                }
            }
            call.args.extend(passed);
        }
        func.blocks[from].term = term;
    }
    tiles
}

fn take_tiles(
    func: &mut Function,
    inst: Inst,
    mma: &Mma,
    tiles: &SecondaryMap<Value, Option<Value>>,
) {
    let b = b_of(func, inst, mma).iter();
    let b: Vec<Value> = b
        .filter_map(|&register| tiles[register].or_else(|| tile(func, register)))
        .collect();
    let InstData::Warp {
        op: WarpOp::Mma(mma),
        args,
        ..
    } = &mut func.insts[inst].data
    else {
        return;
    };
    mma.layout = FragmentLayout::Quads { b_by_rows: true };
    args[mma.a_registers()..][..b.len()].copy_from_slice(&b);
}

/// Removes each `movmatrix` that nothing reads.
fn remove_unread(func: &mut Function) {
    let mut is_read: SecondaryMap<Value, bool> = SecondaryMap::new();
    for data in func.blocks.values() {
        for &inst in &data.insts {
            let args = func.insts[inst].data.args();
            args.iter().for_each(|&arg| is_read[arg] = true);
        }
        data.term.for_each_arg(|arg| is_read[arg] = true);
    }
    for data in func.blocks.values_mut() {
        data.insts.retain(|&inst| {
            let node = &func.insts[inst];
            let is_transpose = matches!(
                node.data,
                InstData::Warp {
                    op: WarpOp::Transpose,
                    ..
                }
            );
            !is_transpose || node.results.iter().any(|&result| is_read[result])
        });
    }
}
