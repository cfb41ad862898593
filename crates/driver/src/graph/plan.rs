//! Plans: graphs as lists of nodes in the order in which one thread runs them.
//!
//! A plan has no graphs inside: the nodes of a child graph stand between two empty nodes. It is cut
//! into steps, each of which is one command of a stream: functions of the program run on the
//! stream's own thread, records and waits of events are commands like those that `cuEventRecord`
//! and `cuStreamWaitEvent` make, and all nodes between them are one [`Part`].

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use crate::error::{Failure, Result};
use crate::stream::Stream;
use crate::types::{CUgraphEdgeData, CUgraphNodeType};

use super::Graph;
use super::memory::GraphMemory;
use super::user::UserRef;
use super::work::Work;

/// A graph that can be run.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) nodes: Vec<PlanNode>,
    pub(crate) steps: Arc<[Step]>,
    /// Objects of the program that live as long as the plan.
    pub(super) users: Vec<UserRef>,
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
    /// Plans of the graphs that a condition decides over.
    pub(crate) bodies: Vec<Arc<Plan>>,
}

/// What is one command of a stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    Part(Range<usize>),
    Call(usize),
    Record(usize),
    Wait(usize),
}

/// Some nodes of a plan, run in order.
pub(crate) struct Part {
    pub(crate) plan: Arc<Plan>,
    pub(crate) nodes: Range<usize>,
}

impl Part {
    /// No nodes: the end of a plan, which lives until a stream gets there.
    pub(super) fn end_of(plan: &Arc<Plan>) -> Part {
        let end = plan.nodes.len();
        Part {
            plan: plan.clone(),
            nodes: end..end,
        }
    }

    /// Whether functions of the program are called.
    pub(crate) fn has_calls(&self) -> bool {
        false
    }

    /// Runs the nodes, unless the context has failed before one of them.
    pub(crate) fn run(&self, stream: &Stream) -> std::result::Result<(), Failure> {
        if self.nodes.start == 0 && !self.plan.nodes.is_empty() {
            self.plan.start_conditions()?;
        }
        self.plan.run_nodes(self.nodes.clone(), stream)
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

    /// Whether objects of the program live as long as the plan.
    pub(super) fn has_users(&self) -> bool {
        !self.users.is_empty()
    }

    /// Runs all nodes in order.
    pub(super) fn run(&self, stream: &Stream) -> std::result::Result<(), Failure> {
        self.run_nodes(0..self.nodes.len(), stream)
    }

    fn run_nodes(&self, nodes: Range<usize>, stream: &Stream) -> std::result::Result<(), Failure> {
        for node in &self.nodes[nodes] {
            if stream.health.check().is_err() {
                return Ok(());
            }
            match &node.work {
                Work::Condition(condition) => condition.run(&node.bodies, stream)?,
                work if node.is_enabled => work.run(stream)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Sets the values of all conditions to what a launch begins with.
    fn start_conditions(&self) -> std::result::Result<(), Failure> {
        for node in &self.nodes {
            if let Work::Condition(inner) = &node.work {
                inner.condition.start()?;
                node.bodies
                    .iter()
                    .try_for_each(|plan| plan.start_conditions())?;
            }
        }
        Ok(())
    }

    /// Memory that nodes allocate and none of them frees, and memory that nodes free and none of
    /// them allocates.
    pub(super) fn open_memory(&self) -> (Vec<&Arc<GraphMemory>>, Vec<&Arc<GraphMemory>>) {
        let (mut allocated, mut freed) = (Vec::new(), Vec::new());
        for node in &self.nodes {
            match &node.work {
                Work::Alloc(memory) => allocated.push(memory),
                Work::Free(memory) => freed.push(memory),
                _ => {}
            }
        }
        let lacks = |list: &[&Arc<GraphMemory>], memory: &Arc<GraphMemory>| {
            !list.iter().any(|known| Arc::ptr_eq(known, memory))
        };
        let kept = allocated.iter().filter(|memory| lacks(&freed, memory));
        let foreign = freed.iter().filter(|memory| lacks(&allocated, memory));
        (kept.copied().collect(), foreign.copied().collect())
    }

    /// Positions of nodes by their handles. A child graph's stands for the first of its two empty
    /// nodes.
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

/// Adds the nodes of a graph, of which those without dependencies depend on `entry`; the positions
/// of those on which no other depends.
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
        let bodies = match &node.work {
            Work::Condition(inner) => {
                let plans = inner.bodies.iter().map(|graph| Arc::new(Plan::new(graph)));
                plans.collect()
            }
            _ => Vec::new(),
        };
        let mut push = |work: Work, before| {
            nodes.push(PlanNode {
                handle: node.handle,
                kind,
                work,
                is_enabled: true,
                before,
                bodies: bodies.clone(),
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
                    bodies: Vec::new(),
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
    if nodes
        .iter()
        .any(|node| matches!(node.work, Work::Condition(_)))
    {
        // The first command of a launch sets the values of conditions.
        steps.push(Step::Part(0..0));
    }
    for (idx, node) in nodes.iter().enumerate() {
        match &node.work {
            Work::Call(_) => steps.push(Step::Call(idx)),
            Work::Record(_) => steps.push(Step::Record(idx)),
            Work::Wait(_) => steps.push(Step::Wait(idx)),
            // A wait may be long: what comes before it is a command of its own.
            Work::MemOps(_) => steps.push(Step::Part(idx..idx + 1)),
            Work::Empty
            | Work::Kernel(_)
            | Work::Copy(_)
            | Work::Fill(_)
            | Work::Child(_)
            | Work::Alloc(_)
            | Work::Free(_)
            | Work::Condition(_) => match steps.last_mut() {
                Some(Step::Part(range)) => range.end = idx + 1,
                _ => steps.push(Step::Part(idx..idx + 1)),
            },
        }
    }
    steps.into()
}
