//! The program of a gang: what is emitted for each node, in which versions and in which order.

use ptxjit_ir::Block;
use smallvec::SmallVec;

use super::units::{Unit, Units};
use super::{Assumed, Decisions};

/// The program of a gang, inside of the loops over CTAs and gangs.
pub(crate) struct Program<'a> {
    /// The nodes in the plan's order, each with its versions: that for whole gangs first.
    pub nodes: Vec<SmallVec<[Version<'a>; 2]>>,
}

/// A version of a node.
pub(crate) struct Version<'a> {
    /// What holds in it.
    pub assumed: Assumed<'a>,
    /// What is emitted in any case.
    pub early: Vec<Unit>,
    /// What only a branch needs that is not decided for the CTA.
    pub late: Vec<Unit>,
}

impl<'a> Decisions<'a> {
    /// The program of a gang.
    pub(crate) fn program(&mut self) -> Program<'a> {
        let mut n_done = 0;
        let nodes = self.plan.order.nodes.iter().enumerate();
        let versions = nodes.map(|(pos, node)| match node.block() {
            Some(block) => self.node(pos, block, &mut n_done),
            None => SmallVec::new(),
        });
        let nodes = versions.collect();
        Program { nodes }
    }

    /// The versions of a node. The nodes before have done its first `n_done` instructions; units
    /// that take along those of the nodes behind add to it. Nodes with two versions continue no
    /// other, and no other continues them.
    fn node(&mut self, pos: usize, block: Block, n_done: &mut usize) -> SmallVec<[Version<'a>; 2]> {
        let (early, late) = self.early_and_late(block);
        let n_early = (*n_done).min(early.len());
        *n_done -= n_early;
        let each = self.versions(pos, block).into_iter();
        let versions = each.map(|assumed| {
            let Units { units, beyond } = self.units(block, &early[n_early..], assumed);
            *n_done += beyond;
            let mut late_units = Vec::new();
            self.in_order(&late, assumed, &mut late_units);
            Version {
                assumed,
                early: units,
                late: late_units,
            }
        });
        versions.collect()
    }
}
