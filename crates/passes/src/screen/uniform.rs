//! Whether all threads of a CTA reach an instruction together, as often as each other.
//!
//! A value is *uniform* if it is certainly the same for all threads of the CTA. A branch on any
//! other value may send threads different ways until the block that post-dominates it; what lies
//! between is its region. Whatever is computed in a region, or merged where it ends, is taken to be
//! not uniform, which may add regions in turn.

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Block, Class, Function, Inst, InstData, SharedBy, SpecialReg, Terminator, Value};
use rustc_hash::FxHashSet;

use crate::analysis::cfg::{self, Cfg};
use crate::analysis::dominators::{self, DomTree};

/// The instructions of those that `matters` picks at which threads may have diverged.
pub(super) fn divergent(func: &Function, matters: impl Fn(&InstData) -> bool) -> FxHashSet<Inst> {
    let divergence = Divergence::of(func);
    let blocks = func.blocks.iter();
    let divergent = blocks.filter(|&(block, _)| divergence.divergent[block]);
    let insts = divergent.flat_map(|(_, data)| data.insts.iter().copied());
    insts
        .filter(|&inst| matters(&func.insts[inst].data))
        .collect()
}

struct Divergence<'a> {
    func: &'a Function,
    cfg: Cfg,
    post: DomTree,
    /// Values that may differ between threads.
    varying: SecondaryMap<Value, bool>,
    /// Blocks that lie in the region of a branch.
    divergent: SecondaryMap<Block, bool>,
    done: FxHashSet<Block>,
}

impl Divergence<'_> {
    fn of(func: &Function) -> Divergence<'_> {
        let cfg = cfg::run(func);
        let post = dominators::run_post(func, &cfg);
        let mut divergence = Divergence {
            func,
            cfg,
            post,
            varying: SecondaryMap::new(),
            divergent: SecondaryMap::new(),
            done: FxHashSet::default(),
        };
        while divergence.step() {}
        divergence
    }

    /// Goes over the function once; whether something was learned.
    fn step(&mut self) -> bool {
        let mut changed = false;
        for idx in 0..self.cfg.rpo.len() {
            let block = self.cfg.rpo[idx];
            for &inst in &self.func.blocks[block].insts {
                let node = &self.func.insts[inst];
                let varies = self.divergent[block]
                    || is_source(&node.data)
                    || node.data.args().into_iter().any(|arg| self.varying[arg]);
                for &result in &node.results {
                    changed |= varies && !std::mem::replace(&mut self.varying[result], true);
                }
            }
            for call in self.func.blocks[block].term.targets() {
                let params = &self.func.blocks[call.block].params;
                for (&param, &arg) in params.iter().zip(&call.args) {
                    let varies = self.varying[arg] || self.divergent[call.block];
                    changed |= varies && !std::mem::replace(&mut self.varying[param], true);
                }
            }
            if self.branches_apart(block) && self.done.insert(block) {
                self.add_region(block);
                changed = true;
            }
        }
        changed
    }

    /// Whether threads may leave the block in several directions.
    fn branches_apart(&self, block: Block) -> bool {
        match &self.func.blocks[block].term {
            Terminator::Brif { cond, .. } => self.varying[*cond],
            Terminator::Switch { index, .. } => self.varying[*index],
            Terminator::Dispatch(_) => true,
            Terminator::Jump(_) | Terminator::Ret(_) | Terminator::Exit | Terminator::Trap(_) => {
                false
            }
        }
    }

    /// Marks what lies between a branch and where all threads meet again.
    fn add_region(&mut self, branch: Block) {
        let end = self.post.idom(branch);
        let mut work: Vec<Block> = self.cfg.succs[branch].to_vec();
        let mut seen = FxHashSet::default();
        while let Some(block) = work.pop() {
            if Some(block) == end || !seen.insert(block) {
                continue;
            }
            self.divergent[block] = true;
            work.extend(self.cfg.succs[block].iter().copied());
        }
        for &param in end.iter().flat_map(|&end| &self.func.blocks[end].params) {
            self.varying[param] = true;
        }
    }
}

/// Whether threads of a CTA may get different results from the same operands.
fn is_source(inst: &InstData) -> bool {
    match inst.class() {
        Class::Constant | Class::Arithmetic | Class::Order => false,
        Class::Place => {
            let is_shared =
                |sreg: &SpecialReg| sreg.shared_by() == SharedBy::Cta && !sreg.is_volatile();
            !matches!(inst, InstData::Sreg { sreg } if is_shared(sreg))
        }
        Class::Access => !matches!(inst, InstData::Load { space, .. } if space.is_read_only()),
        Class::Window | Class::Convergent | Class::Call | Class::Device(_) | Class::Stack => true,
    }
}
