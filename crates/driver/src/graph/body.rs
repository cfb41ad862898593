//! Nodes and edges.
//!
//! A graph has no cycles at any time: an edge that would close one is refused. Most edges go from
//! an older node to a newer one, and as long as all do, there is nothing to search for.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashSet};

use crate::error::Result;
use crate::types::{
    CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER, CUgraphDependencyType, CUgraphEdgeData, CUresult,
};

use super::user::UserRef;
use super::work::Work;

/// What a graph consists of.
#[derive(Default)]
pub(crate) struct Body {
    /// Nodes by their number, which grows with their age in the graph.
    pub(crate) nodes: BTreeMap<u32, Node>,
    n_made: u32,
    /// Some edge goes from a newer node to an older one.
    has_back_edge: bool,
    /// Objects of the program that the graph keeps.
    pub(crate) users: Vec<UserRef>,
    /// An instantiation lives that no other may live beside, as they would share memory.
    pub(crate) n_execs: std::sync::Arc<std::sync::atomic::AtomicUsize>,
}

/// A node.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) handle: u64,
    pub(crate) work: Work,
    /// What it depends on.
    pub(crate) before: Vec<Edge>,
    /// What depends on it.
    pub(crate) after: Vec<Edge>,
}

/// The other end of an edge.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Edge {
    pub(crate) node: u32,
    pub(crate) data: CUgraphEdgeData,
}

impl Body {
    /// The number that the next node gets.
    pub(crate) fn next_id(&mut self) -> u32 {
        self.n_made += 1;
        self.n_made
    }

    /// Checks dependencies of a node that is to be added.
    pub(crate) fn check_deps(&self, deps: &[(u32, CUgraphEdgeData)], to: &Work) -> Result<()> {
        if let Work::Free(memory) = to
            && self.nodes.values().any(|node| node.work.frees(memory))
        {
            return Err(CUresult::INVALID_VALUE);
        }
        let mut seen = HashSet::new();
        for (id, data) in deps {
            let from = self.nodes.get(id).ok_or(CUresult::INVALID_VALUE)?;
            if !seen.insert(*id) {
                return Err(CUresult::INVALID_VALUE);
            }
            check_edge(*data, &from.work, to)?;
        }
        Ok(())
    }

    /// Adds a node whose dependencies were checked.
    pub(crate) fn add(
        &mut self,
        id: u32,
        handle: u64,
        work: Work,
        deps: &[(u32, CUgraphEdgeData)],
    ) {
        for &(from, data) in deps {
            if let Some(from) = self.nodes.get_mut(&from) {
                from.after.push(Edge { node: id, data });
            }
        }
        let before = deps.iter().map(|&(node, data)| Edge { node, data });
        let node = Node {
            handle,
            work,
            before: before.collect(),
            after: Vec::new(),
        };
        self.nodes.insert(id, node);
    }

    /// Adds an edge.
    pub(crate) fn connect(&mut self, from: u32, to: u32, data: CUgraphEdgeData) -> Result<()> {
        let (source, target) = (self.node(from)?, self.node(to)?);
        check_edge(data, &source.work, &target.work)?;
        if source.after.iter().any(|edge| edge.node == to) || self.reaches(to, from) {
            return Err(CUresult::INVALID_VALUE);
        }
        self.has_back_edge |= to < from;
        self.node_mut(from)?.after.push(Edge { node: to, data });
        self.node_mut(to)?.before.push(Edge { node: from, data });
        Ok(())
    }

    /// Removes an edge, which must be there with this very meaning.
    pub(crate) fn disconnect(&mut self, from: u32, to: u32, data: CUgraphEdgeData) -> Result<()> {
        let edge = Edge { node: to, data };
        let source = self.node_mut(from)?;
        let at = source.after.iter().position(|known| *known == edge);
        source.after.remove(at.ok_or(CUresult::INVALID_VALUE)?);
        let target = self.node_mut(to)?;
        target.before.retain(|known| known.node != from);
        Ok(())
    }

    /// Removes a node with its edges.
    pub(crate) fn remove(&mut self, id: u32) -> Option<Node> {
        let node = self.nodes.remove(&id)?;
        for edge in &node.before {
            if let Ok(other) = self.node_mut(edge.node) {
                other.after.retain(|known| known.node != id);
            }
        }
        for edge in &node.after {
            if let Ok(other) = self.node_mut(edge.node) {
                other.before.retain(|known| known.node != id);
            }
        }
        Some(node)
    }

    /// A node.
    pub(crate) fn node(&self, id: u32) -> Result<&Node> {
        self.nodes.get(&id).ok_or(CUresult::INVALID_VALUE)
    }

    /// A node, to be changed.
    pub(crate) fn node_mut(&mut self, id: u32) -> Result<&mut Node> {
        self.nodes.get_mut(&id).ok_or(CUresult::INVALID_VALUE)
    }

    /// Whether there is a way along edges from one node to another, or they are the same.
    fn reaches(&self, from: u32, to: u32) -> bool {
        if from == to {
            return true;
        }
        if !self.has_back_edge && from > to {
            return false;
        }
        let (mut seen, mut open) = (HashSet::from([from]), vec![from]);
        while let Some(id) = open.pop() {
            for edge in self.nodes.get(&id).iter().flat_map(|node| &node.after) {
                if edge.node == to {
                    return true;
                }
                // Without edges to older nodes, nothing behind a newer one leads back.
                let may_lead = self.has_back_edge || edge.node < to;
                if may_lead && seen.insert(edge.node) {
                    open.push(edge.node);
                }
            }
        }
        false
    }

    /// All nodes that some nodes depend on, directly or not, and these themselves.
    pub(crate) fn ancestors(&self, of: impl IntoIterator<Item = u32>) -> HashSet<u32> {
        let mut open: Vec<u32> = of.into_iter().collect();
        let mut seen: HashSet<u32> = open.iter().copied().collect();
        while let Some(id) = open.pop() {
            for edge in self.nodes.get(&id).iter().flat_map(|node| &node.before) {
                if seen.insert(edge.node) {
                    open.push(edge.node);
                }
            }
        }
        seen
    }

    /// The nodes in an order in which one thread can run them: older ones first, but what waits for
    /// something outside of the graph as late as possible, since that may depend on other nodes of
    /// the graph.
    pub(crate) fn order(&self) -> Vec<u32> {
        let mut n_missing: BTreeMap<u32, usize> = BTreeMap::new();
        let mut ready = BinaryHeap::new();
        let rank = |id: u32, node: &Node| Reverse((node.work.is_wait(), id));
        for (&id, node) in &self.nodes {
            n_missing.insert(id, node.before.len());
            if node.before.is_empty() {
                ready.push(rank(id, node));
            }
        }
        let mut order = Vec::with_capacity(self.nodes.len());
        while let Some(Reverse((_, id))) = ready.pop() {
            order.push(id);
            for edge in &self.nodes[&id].after {
                let Some(missing) = n_missing.get_mut(&edge.node) else {
                    continue;
                };
                *missing -= 1;
                if *missing == 0 {
                    ready.push(rank(edge.node, &self.nodes[&edge.node]));
                }
            }
        }
        order
    }

    /// Whether clones may exist: not if they would share memory that nodes allocate.
    pub(crate) fn can_be_copied(&self) -> bool {
        !self.nodes.values().any(|node| node.work.is_memory())
    }

    /// A body like this one, with no nodes yet.
    pub(crate) fn without_nodes(&self) -> Body {
        Body {
            nodes: BTreeMap::new(),
            n_made: self.n_made,
            has_back_edge: self.has_back_edge,
            users: self.users.clone(),
            n_execs: Default::default(),
        }
    }
}

/// Checks what an edge means. Programmatic launches are ordered like all others, which is always
/// correct.
fn check_edge(data: CUgraphEdgeData, from: &Work, to: &Work) -> Result<()> {
    let is_kernel = |work: &Work| matches!(work, Work::Kernel(_));
    let is_programmatic = u32::from(data.type_) == CUgraphDependencyType::PROGRAMMATIC.0;
    let is_known = is_programmatic || u32::from(data.type_) == CUgraphDependencyType::DEFAULT.0;
    let is_port = data.from_port <= CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER
        && (data.from_port == 0 || is_kernel(from))
        && data.to_port == 0;
    let has_kernels = !is_programmatic || (is_kernel(from) && is_kernel(to));
    match is_known && is_port && has_kernels && data.reserved == [0; 5] {
        true => Ok(()),
        false => Err(CUresult::INVALID_VALUE),
    }
}
