//! Graphs: work that is described once and launched many times.
//!
//! A [`Graph`] has a [`Body`] of nodes and edges ([`body`]); a node holds a description of its work
//! ([`work`]), the same that a stream's command holds. Instantiation ([`plan`], [`exec`]) makes a
//! plan from a graph: a list in the order in which one thread runs it. Parameters have one form at
//! this crate's border, `CUgraphNodeParams`; the functions for single kinds of nodes make one of
//! theirs.
//!
//! Locks: a graph's body may be held while that of a graph inside it is taken, never the other way
//! round; an instantiated graph's lock may be held while streams are given commands, and no body's
//! is taken under it.

mod attribute;
pub(crate) mod body;
mod condition;
mod dot;
mod edit;
mod exec;
mod memory;
mod params;
mod plan;
mod update;
pub mod user;
pub(crate) mod work;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::Mutex;

use crate::error::Result;
use crate::handle::{Kind, Object, Slab};
use crate::types::{CUgraph, CUgraphEdgeData, CUgraphNode, CUresult};

pub use attribute::{copy_attributes, get_attribute, set_attribute};
use body::Body;
pub use condition::conditional_handle_create;
pub use dot::debug_dot_print;
pub use edit::*;
pub use exec::*;
pub(crate) use memory::{capture_alloc, capture_free, free, free_async, is_memory};
pub use memory::{device_get_mem_attribute, device_mem_trim, device_set_mem_attribute};
pub use params::{add_node, exec_set_params, get_params, set_params};
pub(crate) use plan::Part;
pub use update::{UpdateError, exec_update};
use work::Work;

pub(crate) static GRAPHS: Slab<Graph> = Slab::new(Kind::Graph);
pub(crate) static NODES: Slab<NodeRef> = Slab::new(Kind::GraphNode);

/// Graphs within graphs within graphs: no more than this, so that functions that call themselves
/// fit the stack.
const MAX_DEPTH: u32 = 64;

/// A graph of a program.
pub(crate) struct Graph {
    handle: u64,
    /// Unique in the process.
    id: u32,
    /// Handle of the graph that this one was cloned from, else 0. A clone's nodes keep their
    /// numbers.
    origin: u64,
    /// A node or a capture owns the graph, so that the program must not end it.
    is_owned: AtomicBool,
    is_destroyed: AtomicBool,
    pub(crate) body: Mutex<Body>,
}

/// What the handle of a node stands for.
pub(crate) struct NodeRef {
    handle: u64,
    pub(crate) graph: Arc<Graph>,
    pub(crate) id: u32,
}

impl Object for Graph {
    fn handle(&self) -> u64 {
        self.handle
    }
}

impl Object for NodeRef {
    fn handle(&self) -> u64 {
        self.handle
    }
}

/// The graph of a handle.
pub(crate) fn get(handle: CUgraph) -> Result<Arc<Graph>> {
    GRAPHS.get(handle.0).ok_or(CUresult::INVALID_VALUE)
}

/// The node of a handle.
pub(crate) fn node(handle: CUgraphNode) -> Result<Arc<NodeRef>> {
    NODES.get(handle.0).ok_or(CUresult::INVALID_VALUE)
}

fn next_id() -> u32 {
    static NEXT_ID: AtomicU32 = AtomicU32::new(1);
    NEXT_ID.fetch_add(1, Ordering::Relaxed)
}

impl Graph {
    /// A graph without nodes, which a node or a capture may own.
    pub(crate) fn make(origin: u64, is_owned: bool) -> Result<Arc<Graph>> {
        GRAPHS.insert(|handle| Graph {
            handle,
            id: next_id(),
            origin,
            is_owned: AtomicBool::new(is_owned),
            is_destroyed: AtomicBool::new(false),
            body: Mutex::default(),
        })
    }

    /// The handle as the interface has it.
    pub(crate) fn raw(&self) -> CUgraph {
        CUgraph(self.handle)
    }

    /// Hands a graph to the program, or takes it away.
    pub(crate) fn set_owned(&self, is_owned: bool) {
        self.is_owned.store(is_owned, Ordering::Relaxed);
    }

    pub(crate) fn is_destroyed(&self) -> bool {
        self.is_destroyed.load(Ordering::Acquire)
    }

    /// Adds a node that depends on others of this graph.
    pub(crate) fn add(
        self: &Arc<Graph>,
        work: Work,
        deps: &[(u32, CUgraphEdgeData)],
    ) -> Result<Arc<NodeRef>> {
        let mut body = self.body.lock();
        if self.is_destroyed() {
            return Err(CUresult::INVALID_VALUE);
        }
        body.check_deps(deps, &work)?;
        let id = body.next_id();
        let make = |handle| NodeRef {
            handle,
            graph: self.clone(),
            id,
        };
        let node = NODES.insert(make)?;
        body.add(id, node.handle, work, deps);
        Ok(node)
    }

    /// A copy with nodes of its own.
    pub(crate) fn copy(&self, is_owned: bool) -> Result<Arc<Graph>> {
        let copy = Graph::make(self.handle, is_owned)?;
        let fill = || -> Result<()> {
            let body = self.body.lock();
            if !body.can_be_copied() {
                return Err(CUresult::NOT_SUPPORTED);
            }
            let mut to = copy.body.lock();
            *to = body.without_nodes();
            for (&id, node) in &body.nodes {
                let graph = copy.clone();
                let handle = NODES.insert(|handle| NodeRef { handle, graph, id })?.handle;
                let mut node = node.clone();
                node.handle = handle;
                // A copy that fails half way is ended with the nodes that it has so far.
                let work = node.work.copy();
                node.work = work.as_ref().map_or(Work::Empty, Work::clone);
                to.nodes.insert(id, node);
                work?;
            }
            Ok(())
        };
        let filled = fill();
        if let Err(code) = filled {
            copy.end();
            return Err(code);
        }
        Ok(copy)
    }

    /// Takes away the graph's handle and those of its nodes.
    pub(crate) fn end(&self) {
        let body = {
            let mut body = self.body.lock();
            self.is_destroyed.store(true, Ordering::Release);
            std::mem::take(&mut *body)
        };
        GRAPHS.remove(self.handle);
        condition::forget(self);
        for node in body.nodes.values() {
            NODES.remove(node.handle);
            node.work.end();
        }
    }

    /// How many graphs lie inside each other in this one, itself included.
    fn depth(&self) -> u32 {
        let body = self.body.lock();
        let inner = body.nodes.values().flat_map(|node| node.work.graphs());
        1 + inner.map(|graph| graph.depth()).max().unwrap_or(0)
    }

    /// Whether `other` is this graph or lies in it.
    fn contains(&self, other: &Graph) -> bool {
        self.handle == other.handle || {
            let body = self.body.lock();
            let mut inner = body.nodes.values().flat_map(|node| node.work.graphs());
            inner.any(|graph| graph.contains(other))
        }
    }
}

// --- The interface ---

/// `cuGraphCreate`.
pub fn create(flags: u32) -> Result<CUgraph> {
    match flags {
        0 => Ok(Graph::make(0, false)?.raw()),
        _ => Err(CUresult::INVALID_VALUE),
    }
}

/// `cuGraphDestroy`.
pub fn destroy(graph: CUgraph) -> Result<()> {
    let graph = get(graph)?;
    if graph.is_owned.load(Ordering::Relaxed) {
        return Err(CUresult::INVALID_VALUE);
    }
    graph.end();
    Ok(())
}

/// `cuGraphClone`.
pub fn clone(graph: CUgraph) -> Result<CUgraph> {
    Ok(get(graph)?.copy(false)?.raw())
}

/// `cuGraphGetId`.
pub fn get_id(graph: CUgraph) -> Result<u32> {
    Ok(get(graph)?.id)
}
