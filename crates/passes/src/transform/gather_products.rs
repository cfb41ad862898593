//! Moves a product of matrices next to the one whose sums it goes on with, by fours.
//!
//! Compilers compute a step along K of all tiles of D, then load fragments or start copies for a
//! later step, and compute the next one. Compiled code goes on with the sums of several products in
//! registers of the processor if it has all at hand.
//!
//! **Needs**: `gvn` before, so that operands that are equal are one value. **Ensures**: a product
//! whose C is the D of another one follows it, with nothing but products and pure instructions
//! between, if its other operands are there, or if both are in one block and nothing between reads
//! that D; at most [`MOST_GATHERED`] products go together.
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
    let mut beside: SecondaryMap<Inst, [Vec<Inst>; 2]> = SecondaryMap::new();
    let mut is_moved: SecondaryMap<Inst, bool> = SecondaryMap::new();
    for it in moves {
        beside[it.anchor][usize::from(it.is_behind)].push(it.product);
        is_moved[it.product] = true;
    }
    for data in func.blocks.values_mut() {
        for inst in std::mem::take(&mut data.insts) {
            if is_moved[inst] {
                continue;
            }
            let [in_front, behind] = std::mem::take(&mut beside[inst]);
            data.insts.extend(in_front);
            data.insts.push(inst);
            data.insts.extend(behind);
        }
    }
    true
}

/// Products that go together at most: compiled code has no more along K in one loop.
const MOST_GATHERED: usize = 4;

/// A product that moves to in front of another one, or to behind it.
#[derive(Copy, Clone)]
struct Move {
    product: Inst,
    anchor: Inst,
    is_behind: bool,
}

/// Products each of which goes on with the sums of the one before.
struct Chain {
    products: Vec<Inst>,
    /// The one that stays where it is, and next to which the others are.
    anchor: Inst,
    moves: Vec<Move>,
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
        let mut chains: Vec<Chain> = Vec::new();
        let mut chain_of: SecondaryMap<Inst, Option<usize>> = SecondaryMap::new();
        for &block in &self.order {
            for &product in &self.func.blocks[block].insts {
                let Some(before) = self.sums_of(product) else {
                    continue;
                };
                let number = chain_of[before].unwrap_or_else(|| {
                    chains.push(Chain {
                        products: vec![before],
                        anchor: before,
                        moves: Vec::new(),
                    });
                    chains.len() - 1
                });
                chain_of[before] = Some(number);
                let chain = &mut chains[number];
                if chain.products.last() == Some(&before) && self.go_on(chain, product) {
                    chain_of[product] = Some(number);
                }
            }
        }
        chains.into_iter().flat_map(|chain| chain.moves).collect()
    }

    /// Adds a product to a chain with whose sums it goes on, if it can be next to the others.
    fn go_on(&self, chain: &mut Chain, product: Inst) -> bool {
        if chain.products.len() == MOST_GATHERED {
            return false;
        }
        if self.is_adjacent(chain.anchor, product) {
            chain.anchor = product;
        } else if self.can_hoist(chain, product) {
            chain.moves.push(Move {
                product,
                anchor: chain.anchor,
                is_behind: true,
            });
        } else if self.can_sink(chain, product) {
            let sunk = chain.products.iter().map(|&sunk| Move {
                product: sunk,
                anchor: product,
                is_behind: false,
            });
            chain.moves = sunk.collect();
            chain.anchor = product;
        } else {
            return false;
        }
        chain.products.push(product);
        true
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

    /// Whether a product can be hoisted to behind the others, and would run anyway.
    fn can_hoist(&self, chain: &Chain, product: Inst) -> bool {
        let (Some((block, at)), Some((own, _))) = (self.place[chain.anchor], self.place[product])
        else {
            return false;
        };
        let runs_as_often = self.dom.dominates(block, own)
            && self.post.dominates(own, block)
            && self.forest.innermost(block) == self.forest.innermost(own);
        let of_chain = |arg: &&Value| match self.func.values[**arg].def {
            ValueDef::Result(inst, _) => chain.products.contains(&inst),
            ValueDef::Param(..) => false,
        };
        let args = self.func.insts[product].data.args();
        let mut others = args.iter().filter(|arg| !of_chain(arg));
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

    /// Whether all products of a chain can be sunk to right in front of another one.
    fn can_sink(&self, chain: &Chain, product: Inst) -> bool {
        let Some((block, to)) = self.place[product] else {
            return false;
        };
        let stays = |inst: &Inst| !chain.products.contains(inst);
        chain.products.iter().all(|&sunk| {
            let Some((_, from)) = self.place[sunk].filter(|&(other, _)| other == block) else {
                return false;
            };
            let results = &self.func.insts[sunk].results;
            let reads = |&inst: &Inst| {
                let args = self.func.insts[inst].data.args();
                args.iter().any(|arg| results.contains(arg))
            };
            let mut between = self.func.blocks[block].insts[from + 1..to].iter();
            !between.any(|inst| stays(inst) && reads(inst))
        })
    }
}
