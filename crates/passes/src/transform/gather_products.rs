//! Moves a product of matrices next to the one whose sums it goes on with, by twos.
//!
//! Compilers compute a step along K of all tiles of D, then load fragments or start copies for a
//! later step, and compute the next one. Compiled code goes on with the sums of two products in
//! registers of the processor if it has both at hand.
//!
//! **Needs**: `gvn` before, so that operands that are equal are one value. **Ensures**: a product
//! whose C is the D of another one follows it, with nothing but products and pure instructions
//! between, if its other operands are there, or if both are in one block and nothing between reads
//! that D; each product goes with one other at most.
//!
//! A product neither reads nor writes memory, and cannot fail: so it may pass any other
//! instruction, and run though the program ended before it. It is `.aligned`: where one is, all
//! lanes of the warp are.
//!
//! ```text
//! v4 = mma v0, v1, v3; barrier; v5 = mma v2, v1, v4
//!   ==>   v4 = mma v0, v1, v3; v5 = mma v2, v1, v4; barrier
//! ```

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Block, Effect, Function, Inst, Mma, Value, ValueDef};

use crate::analysis::cfg;
use crate::analysis::dominators::{self, DomTree};
use crate::analysis::loops::{self, LoopForest};

/// Runs the pass; says whether something changed.
pub fn run(func: &mut Function) -> bool {
    let has_products = |block: &ptxjit_ir::BlockData| {
        let mut insts = block.insts.iter();
        insts.any(|&inst| product(func, inst).is_some())
    };
    if !func.blocks.values().any(has_products) {
        return false;
    }
    let moves = Gather::new(func).moves();
    if moves.is_empty() {
        return false;
    }
    let mut beside: SecondaryMap<Inst, Option<Move>> = SecondaryMap::new();
    let mut is_moved: SecondaryMap<Inst, bool> = SecondaryMap::new();
    for it in moves {
        beside[it.anchor] = Some(it);
        is_moved[it.product] = true;
    }
    for data in func.blocks.values_mut() {
        for inst in std::mem::take(&mut data.insts) {
            if is_moved[inst] {
                continue;
            }
            match beside[inst] {
                Some(it) if it.is_behind => data.insts.extend([inst, it.product]),
                Some(it) => data.insts.extend([it.product, inst]),
                None => data.insts.push(inst),
            }
        }
    }
    true
}

/// A product that moves to in front of another one, or to behind it.
#[derive(Copy, Clone)]
struct Move {
    product: Inst,
    anchor: Inst,
    is_behind: bool,
}

/// The product that an instruction is, if further ones can go on with its sums.
fn product(func: &Function, inst: Inst) -> Option<Mma> {
    func.insts[inst].data.mma().filter(Mma::keeps_sums)
}

struct Gather<'f> {
    func: &'f Function,
    forest: LoopForest,
    dom: DomTree,
    post: DomTree,
    /// Where each instruction is.
    place: SecondaryMap<Inst, Option<(Block, usize)>>,
    order: Vec<Block>,
}

impl<'f> Gather<'f> {
    fn new(func: &'f Function) -> Gather<'f> {
        let cfg = cfg::run(func);
        let mut place = SecondaryMap::new();
        for (block, data) in func.blocks.iter() {
            for (n, &inst) in data.insts.iter().enumerate() {
                place[inst] = Some((block, n));
            }
        }
        Gather {
            func,
            forest: loops::run(&cfg),
            dom: dominators::run(&cfg),
            post: dominators::run_post(func, &cfg),
            place,
            order: cfg.rpo,
        }
    }

    fn moves(&self) -> Vec<Move> {
        let mut moves = Vec::new();
        let mut is_paired: SecondaryMap<Inst, bool> = SecondaryMap::new();
        for &block in &self.order {
            for &second in &self.func.blocks[block].insts {
                let Some(first) = self.sums_of(second) else {
                    continue;
                };
                if is_paired[first] || is_paired[second] {
                    continue;
                }
                let found = match (self.can_hoist(first, second), self.can_sink(first, second)) {
                    _ if self.is_adjacent(first, second) => None,
                    (true, _) => Some(Move {
                        product: second,
                        anchor: first,
                        is_behind: true,
                    }),
                    (false, true) => Some(Move {
                        product: first,
                        anchor: second,
                        is_behind: false,
                    }),
                    (false, false) => continue,
                };
                (is_paired[first], is_paired[second]) = (true, true);
                moves.extend(found);
            }
        }
        moves
    }

    /// The product whose D is this one's C.
    fn sums_of(&self, inst: Inst) -> Option<Inst> {
        let mma = product(self.func, inst)?;
        let args = self.func.insts[inst].data.args();
        let c = &args[mma.a_registers() + mma.b_registers()..][..mma.c_registers()];
        let ValueDef::Result(first, 0) = self.func.values[c[0]].def else {
            return None;
        };
        let is_same = product(self.func, first) == Some(mma) && first != inst;
        (is_same && self.func.insts[first].results[..] == *c).then_some(first)
    }

    /// Whether nothing but products and pure instructions is between two in one block.
    fn is_adjacent(&self, first: Inst, second: Inst) -> bool {
        let (Some((block, from)), Some((other, to))) = (self.place[first], self.place[second])
        else {
            return false;
        };
        let insts = &self.func.blocks[block].insts;
        block == other
            && insts[from..to].iter().all(|&inst| {
                let is_pure = self.func.insts[inst].data.effect() == Effect::Pure;
                is_pure || product(self.func, inst).is_some()
            })
    }

    /// Whether the second one can be hoisted to right behind the first, and would run anyway.
    fn can_hoist(&self, first: Inst, second: Inst) -> bool {
        let (Some((block, at)), Some((own, _))) = (self.place[first], self.place[second]) else {
            return false;
        };
        let runs_as_often = self.dom.dominates(block, own)
            && self.post.dominates(own, block)
            && self.forest.innermost(block) == self.forest.innermost(own);
        let results = &self.func.insts[first].results;
        let args = self.func.insts[second].data.args();
        let mut others = args.iter().filter(|arg| !results.contains(arg));
        runs_as_often && others.all(|&arg| self.is_known_at(arg, block, at))
    }

    /// Whether a value is computed in front of a place.
    fn is_known_at(&self, value: Value, block: Block, at: usize) -> bool {
        let (defined, is_in_front) = match self.func.values[value].def {
            ValueDef::Param(defined, _) => (defined, true),
            ValueDef::Result(inst, _) => match self.place[inst] {
                // A product may move itself.
                Some((defined, n)) => (defined, n < at && product(self.func, inst).is_none()),
                None => return false,
            },
        };
        match defined == block {
            true => is_in_front,
            false => self.dom.dominates(defined, block),
        }
    }

    /// Whether the first one can be sunk to right in front of the second.
    fn can_sink(&self, first: Inst, second: Inst) -> bool {
        let (Some((block, from)), Some((other, to))) = (self.place[first], self.place[second])
        else {
            return false;
        };
        let results = &self.func.insts[first].results;
        let reads = |&inst: &Inst| {
            let args = self.func.insts[inst].data.args();
            args.iter().any(|arg| results.contains(arg))
        };
        block == other
            && !self.func.blocks[block].insts[from + 1..to]
                .iter()
                .any(reads)
    }
}
