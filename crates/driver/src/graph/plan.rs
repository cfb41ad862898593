//! Plans: graphs as lists of nodes in the order in which one thread runs them.
//!
//! A plan has no graphs inside: the nodes of a child graph stand between two empty nodes. It is cut into steps, each of which
//! is one command of a stream: functions of the program run on the stream's own thread, records and waits of events are
//! commands like those that `cuEventRecord` and `cuStreamWaitEvent` make, and all nodes between them are one [`Part`].

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use crate::error::{Failure, Result};
use crate::stream::Stream;
use crate::types::{CUgraphEdgeData, CUgraphNodeType};

use super::Graph;
use super::user::UserRef;
use super::work::Work;

/// A graph that can be run.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) nodes: Vec<PlanNode>,
    pub(crate) steps: Arc<[Step]>,
    /// Objects of the program that live as long as the plan.
    users: Vec<UserRef>,
}

/// A node of a plan.
#[derive(Clone)]
pub(crate) struct PlanNode {
    /// Handle of the node that it was made from.
    pub(crate) handle: u64,
    pub(crate) kind: CUgraphNodeType,
    pub(crate) work: Work,
    pub(crate) is_enabled: bool,
    /// Positions of the nodes that it depends on.
    pub(crate) before: Vec<(usize, CUgraphEdgeData)>,
}

/// What is one command of a stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    Part(Range<usize>),
    Call(usize),
    Record(usize),
    Wait(usize),
}

/// Some nodes of a plan, one after the other.
pub(crate) struct Part {
    pub(crate) plan: Arc<Plan>,
    pub(crate) nodes: Range<usize>,
}

impl Part {
    /// Whether functions of the program are called.
    pub(crate) fn has_calls(&self) -> bool {
        false
    }

    /// Runs the nodes, unless the context has failed before one of them.
    pub(crate) fn run(&self, stream: &Stream) -> std::result::Result<(), Failure> {
        for node in &self.plan.nodes[self.nodes.clone()] {
            if stream.health.check().is_err() {
                return Ok(());
            }
            if node.is_enabled {
                node.work.run()?;
            }
        }
        Ok(())
    }
}

impl Plan {
    /// The plan for a graph.
    pub(crate) fn new(graph: &Graph) -> Plan {
        let mut nodes = Vec::new();
        let mut users = Vec::new();
        add_graph(&mut nodes, &mut users, graph, None);
        Plan {
            steps: steps(&nodes),
            nodes,
            users,
        }
    }

    /// Positions of nodes by their handles. A child graph's stands for the first of its two empty nodes.
    pub(crate) fn positions(&self) -> HashMap<u64, usize> {
        let each = self.nodes.iter().enumerate().rev();
        each.map(|(idx, node)| (node.handle, idx)).collect()
    }

    /// A graph with the plan's nodes.
    pub(crate) fn to_graph(&self) -> Result<Arc<Graph>> {
        let graph = Graph::make(0, true)?;
        let mut ids: Vec<u32> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let deps: Vec<_> = node
                .before
                .iter()
                .map(|&(idx, data)| (ids[idx], data))
                .collect();
            let work = match node.is_enabled {
                true => node.work.clone(),
                false => Work::Empty,
            };
            match graph.add(work, &deps) {
                Ok(node) => ids.push(node.id),
                Err(code) => {
                    graph.end();
                    return Err(code);
                }
            }
        }
        graph.body.lock().users = self.users.clone();
        Ok(graph)
    }
}

/// Adds the nodes of a graph, of which those without dependencies depend on `entry`; the positions of those on which no
/// other depends.
fn add_graph(
    nodes: &mut Vec<PlanNode>,
    users: &mut Vec<UserRef>,
    graph: &Graph,
    entry: Option<usize>,
) -> Vec<usize> {
    let body = graph.body.lock();
    users.extend(body.users.iter().cloned());
    let mut exits: HashMap<u32, usize> = HashMap::new();
    let mut leaves = Vec::new();
    for id in body.order() {
        let node = &body.nodes[&id];
        let mut before: Vec<_> = node
            .before
            .iter()
            .map(|edge| (exits[&edge.node], edge.data))
            .collect();
        // The order of edges' creation means nothing.
        before.sort_by_key(|(idx, _)| *idx);
        if before.is_empty() {
            before.extend(entry.map(|entry| (entry, CUgraphEdgeData::default())));
        }
        let kind = node.work.kind();
        let mut push = |work: Work, before| {
            nodes.push(PlanNode {
                handle: node.handle,
                kind,
                work,
                is_enabled: true,
                before,
            });
            nodes.len() - 1
        };
        let exit = match &node.work {
            Work::Child(inner) => {
                let first = push(Work::Empty, before);
                let mut last = add_graph(nodes, users, inner, Some(first));
                if last.is_empty() {
                    last.push(first);
                }
                let before = last
                    .into_iter()
                    .map(|idx| (idx, CUgraphEdgeData::default()));
                nodes.push(PlanNode {
                    handle: node.handle,
                    kind,
                    work: Work::Empty,
                    is_enabled: true,
                    before: before.collect(),
                });
                nodes.len() - 1
            }
            work => push(work.clone(), before),
        };
        exits.insert(id, exit);
        if node.after.is_empty() {
            leaves.push(exit);
        }
    }
    leaves
}

fn steps(nodes: &[PlanNode]) -> Arc<[Step]> {
    let mut steps = Vec::new();
    for (idx, node) in nodes.iter().enumerate() {
        match &node.work {
            Work::Call(_) => steps.push(Step::Call(idx)),
            Work::Record(_) => steps.push(Step::Record(idx)),
            Work::Wait(_) => steps.push(Step::Wait(idx)),
            Work::Empty | Work::Kernel(_) | Work::Copy(_) | Work::Fill(_) | Work::Child(_) => {
                match steps.last_mut() {
                    Some(Step::Part(range)) => range.end = idx + 1,
                    _ => steps.push(Step::Part(idx..idx + 1)),
                }
            }
        }
    }
    steps.into()
}
