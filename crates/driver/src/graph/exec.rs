//! Instantiated graphs: launches, and nodes that are switched on and off.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::capture;
use crate::command::Command;
use crate::error::Result;
use crate::event::{Event, Stamp};
use crate::findings;
use crate::handle::{Kind, Object, Slab};
use crate::stream::{self, Deps, Mark, Stream};
use crate::types::{
    CUgraph, CUgraphExec, CUgraphInstantiate_flags, CUgraphNode, CUgraphNodeType, CUresult,
    CUstream,
};

use super::condition;
use super::plan::{Part, Plan, Step};
use super::work::Work;
use super::{get, next_id};

static EXECS: Slab<GraphExec> = Slab::new(Kind::GraphExec);

/// A graph that can be launched.
pub(crate) struct GraphExec {
    handle: u64,
    id: u32,
    flags: u64,
    pub(super) state: Mutex<State>,
    /// Instantiations of the graph that are alive.
    n_execs: Arc<AtomicUsize>,
}

/// What changes in it.
pub(super) struct State {
    /// What the next launch runs. Launches that have not run yet keep theirs.
    pub(super) plan: Arc<Plan>,
    /// Positions in the plan by the handles of the nodes that it was made from.
    positions: HashMap<u64, usize>,
    /// The end of the latest launch, for which the next one waits.
    last: Option<Mark>,
}

impl Object for GraphExec {
    fn handle(&self) -> u64 {
        self.handle
    }
}

impl Drop for GraphExec {
    fn drop(&mut self) {
        self.n_execs.fetch_sub(1, Ordering::Relaxed);
    }
}

impl State {
    /// The position of a node by its handle.
    pub(super) fn position(&self, node: CUgraphNode) -> Result<usize> {
        let found = self.positions.get(&node.0);
        found.copied().ok_or(CUresult::INVALID_VALUE)
    }
}

/// The instantiated graph of a handle.
pub(super) fn get_exec(handle: CUgraphExec) -> Result<Arc<GraphExec>> {
    EXECS.get(handle.0).ok_or(CUresult::INVALID_VALUE)
}

impl GraphExec {
    /// Gives all nodes to a stream.
    fn submit(&self, stream: &Arc<Stream>) -> Result<()> {
        let mut state = self.state.lock();
        let plan = state.plan.clone();
        let mut commands: Vec<(Deps, Command)> = Vec::with_capacity(plan.steps.len());
        let mut records: Vec<(usize, &Arc<Event>, Arc<Stamp>)> = Vec::new();
        for step in plan.steps.iter() {
            let mut deps = Deps::new();
            let command = match step {
                Step::Part(nodes) => Command::Graph(Part {
                    plan: plan.clone(),
                    nodes: nodes.clone(),
                }),
                &Step::Call(idx) | &Step::Record(idx) | &Step::Wait(idx) => {
                    match &plan.nodes[idx].work {
                        Work::Call(call) => Command::Call(*call),
                        Work::Record(event) => {
                            let stamp = Arc::<Stamp>::default();
                            records.push((commands.len(), event, stamp.clone()));
                            Command::Stamp(stamp)
                        }
                        Work::Wait(event) => {
                            deps.extend(event.mark());
                            Command::Nothing
                        }
                        _ => Command::Nothing,
                    }
                }
            };
            commands.push((deps, command));
        }
        // The objects of the program are needed until all has run, functions of the program too.
        if plan.has_users() {
            commands.push((Deps::new(), Command::Graph(Part::end_of(&plan))));
        }
        // A graph does not overlap with itself.
        if let (Some(last), Some((deps, _))) = (&state.last, commands.first_mut())
            && !last.is_done()
        {
            deps.push(last.clone());
        }
        let (kept, foreign) = plan.open_memory();
        let frees_itself = self.flags & u64::from(CUgraphInstantiate_flags::AUTO_FREE_ON_LAUNCH.0);
        let is_allocated = frees_itself == 0 && kept.iter().any(|memory| memory.is_live());
        if is_allocated || !foreign.iter().all(|memory| memory.is_live()) {
            return Err(CUresult::INVALID_VALUE);
        }
        for node in plan.nodes.iter().filter(|node| node.is_enabled) {
            if let Work::Kernel(kernel) = &node.work {
                let command = &kernel.command;
                findings::launched(&command.function, &command.params);
            }
        }
        let marks = stream.submit_all(commands)?;
        for (memories, is_live) in [(kept, true), (foreign, false)] {
            for memory in memories {
                memory.set_live(is_live);
            }
        }
        for (idx, event, stamp) in records {
            event.set_record(marks[idx].clone(), stamp);
        }
        state.last = marks.into_iter().next_back();
        Ok(())
    }
}

// --- The interface ---

/// All flags of instantiation.
const FLAGS: u64 = 15;

/// `cuGraphInstantiate`, in all versions.
pub fn instantiate(graph: CUgraph, flags: u64) -> Result<CUgraphExec> {
    if flags & !FLAGS != 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    let graph = get(graph)?;
    // Kernels cannot launch graphs.
    if flags & u64::from(CUgraphInstantiate_flags::DEVICE_LAUNCH.0) != 0 {
        return Err(CUresult::NOT_SUPPORTED);
    }
    if !condition::is_sound(&graph) {
        return Err(CUresult::NOT_SUPPORTED);
    }
    let n_execs = {
        let body = graph.body.lock();
        let is_alone = body.can_be_copied() || body.n_execs.load(Ordering::Relaxed) == 0;
        if !is_alone {
            return Err(CUresult::NOT_SUPPORTED);
        }
        body.n_execs.fetch_add(1, Ordering::Relaxed);
        body.n_execs.clone()
    };
    let plan = Plan::new(&graph);
    let state = State {
        positions: plan.positions(),
        plan: Arc::new(plan),
        last: None,
    };
    let exec = EXECS.insert(|handle| GraphExec {
        handle,
        id: next_id(),
        flags,
        state: Mutex::new(state),
        n_execs,
    })?;
    Ok(CUgraphExec(exec.handle))
}

/// `cuGraphLaunch`.
pub fn launch(exec: CUgraphExec, stream: CUstream) -> Result<()> {
    let exec = get_exec(exec)?;
    let stream = stream::get(stream)?;
    if stream.is_capturing() {
        let plan = exec.state.lock().plan.clone();
        return capture::add(&stream, || Ok(Work::Child(plan.to_graph()?)));
    }
    exec.submit(&stream)
}

/// `cuGraphUpload`: there is nothing to upload, as code is compiled when it first runs.
pub fn upload(exec: CUgraphExec, stream: CUstream) -> Result<()> {
    get_exec(exec)?;
    let stream = stream::get(stream)?;
    match stream.is_capturing() {
        true => Err(capture::forbidden(&stream)),
        false => Ok(()),
    }
}

/// `cuGraphExecDestroy`. Launches that have not run yet still do.
pub fn exec_destroy(exec: CUgraphExec) -> Result<()> {
    EXECS
        .remove(exec.0)
        .map(|_| ())
        .ok_or(CUresult::INVALID_VALUE)
}

/// `cuGraphExecGetFlags`.
pub fn exec_get_flags(exec: CUgraphExec) -> Result<u64> {
    Ok(get_exec(exec)?.flags)
}

/// `cuGraphExecGetId`.
pub fn exec_get_id(exec: CUgraphExec) -> Result<u32> {
    Ok(get_exec(exec)?.id)
}

/// `cuGraphNodeSetEnabled`: kernels, copies and memsets can be switched off.
pub fn node_set_enabled(exec: CUgraphExec, node: CUgraphNode, is_enabled: bool) -> Result<()> {
    let exec = get_exec(exec)?;
    let mut state = exec.state.lock();
    let idx = switchable(&state, node)?;
    Arc::make_mut(&mut state.plan).nodes[idx].is_enabled = is_enabled;
    Ok(())
}

/// `cuGraphNodeGetEnabled`.
pub fn node_get_enabled(exec: CUgraphExec, node: CUgraphNode) -> Result<bool> {
    let exec = get_exec(exec)?;
    let state = exec.state.lock();
    let idx = switchable(&state, node)?;
    Ok(state.plan.nodes[idx].is_enabled)
}

fn switchable(state: &State, node: CUgraphNode) -> Result<usize> {
    let idx = state.position(node)?;
    match state.plan.nodes[idx].kind {
        CUgraphNodeType::KERNEL | CUgraphNodeType::MEMCPY | CUgraphNodeType::MEMSET => Ok(idx),
        _ => Err(CUresult::INVALID_VALUE),
    }
}
