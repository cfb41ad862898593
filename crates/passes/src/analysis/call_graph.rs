//! Who calls whom in a program.
//!
//! **Ensures**: in `bottom_up` callees of direct calls come before their callers, except among
//! functions that are recursive through direct calls. Indirect calls are no edges: nothing is known
//! of them but that they reach functions whose address is taken.

use std::collections::{BTreeMap, BTreeSet};

use ptxjit_ir::{FuncId, InstData, Program};

/// The direct calls of a program.
#[derive(Clone, Debug, Default)]
pub struct CallGraph {
    /// All functions, callees first.
    pub bottom_up: Vec<FuncId>,
    /// Functions that can come to call themselves through direct calls.
    pub recursive: BTreeSet<FuncId>,
}

/// Walks the program.
pub fn run(program: &Program) -> CallGraph {
    let callees: BTreeMap<FuncId, Vec<FuncId>> = program
        .functions
        .keys()
        .map(|&id| (id, callees(program, id)))
        .collect();
    let mut graph = CallGraph::default();
    let mut state: BTreeMap<FuncId, State> = BTreeMap::new();
    let mut open = Vec::new();
    for &root in program.functions.keys() {
        components_from(root, &callees, &mut state, &mut open, &mut graph);
    }
    graph
}

/// The functions that the program can reach from its kernel: by direct calls, as listed targets of
/// indirect ones, and, of those that list none, through addresses.
pub fn reachable(program: &Program) -> BTreeSet<FuncId> {
    let mut reached = BTreeSet::new();
    let mut work = vec![program.entry];
    while let Some(id) = work.pop() {
        if program.functions.contains_key(&id) && reached.insert(id) {
            work.extend(callees(program, id));
            work.extend(indirect_callees(program, id));
        }
    }
    reached
}

fn insts(program: &Program, id: FuncId) -> impl Iterator<Item = &InstData> {
    let func = program.functions.get(&id);
    let blocks = func
        .into_iter()
        .flat_map(|func| func.blocks.values().map(move |data| (func, data)));
    blocks.flat_map(|(func, data)| data.insts.iter().map(|&inst| &func.insts[inst].data))
}

fn callees(program: &Program, id: FuncId) -> Vec<FuncId> {
    let direct = |data: &InstData| {
        if let InstData::Call { func, .. } = data {
            Some(*func)
        } else {
            None
        }
    };
    let mut callees: Vec<FuncId> = insts(program, id).filter_map(direct).collect();
    callees.sort_unstable();
    callees.dedup();
    callees
}

fn indirect_callees(program: &Program, id: FuncId) -> impl Iterator<Item = FuncId> {
    insts(program, id)
        .filter_map(|data| {
            if let InstData::CallIndirect { targets, .. } = data {
                Some(targets.as_deref().unwrap_or(&program.address_taken))
            } else {
                None
            }
        })
        .flatten()
        .copied()
}

/// Tarjan's numbers of a function.
#[derive(Copy, Clone)]
struct State {
    index: usize,
    lowlink: usize,
    is_open: bool,
}

fn components_from(
    root: FuncId,
    callees: &BTreeMap<FuncId, Vec<FuncId>>,
    state: &mut BTreeMap<FuncId, State>,
    open: &mut Vec<FuncId>,
    graph: &mut CallGraph,
) {
    let mut stack = Vec::new();
    let enter = |id: FuncId,
                 state: &mut BTreeMap<FuncId, State>,
                 open: &mut Vec<FuncId>,
                 stack: &mut Vec<(FuncId, usize)>| {
        let index = state.len();
        if let std::collections::btree_map::Entry::Vacant(entry) = state.entry(id) {
            entry.insert(State {
                index,
                lowlink: index,
                is_open: true,
            });
            open.push(id);
            stack.push((id, 0));
        }
    };
    enter(root, state, open, &mut stack);
    while let Some((id, next)) = stack.last_mut() {
        let id = *id;
        if let Some(&callee) = callees[&id].get(*next) {
            *next += 1;
            match state.get(&callee).copied() {
                None if callees.contains_key(&callee) => enter(callee, state, open, &mut stack),
                Some(other) if other.is_open => lower(state, id, other.index),
                Some(_) | None => {}
            }
            continue;
        }
        stack.pop();
        let done = state[&id];
        if let Some(&(caller, _)) = stack.last() {
            lower(state, caller, done.lowlink);
        }
        if done.lowlink == done.index {
            let from = open
                .iter()
                .rposition(|&member| member == id)
                .expect("an open component has its root");
            let members = open.split_off(from);
            for &member in &members {
                state
                    .entry(member)
                    .and_modify(|state| state.is_open = false);
                if members.len() > 1 || callees[&member].contains(&member) {
                    graph.recursive.insert(member);
                }
            }
            graph.bottom_up.extend(members);
        }
    }
}

fn lower(state: &mut BTreeMap<FuncId, State>, id: FuncId, to: usize) {
    state
        .entry(id)
        .and_modify(|state| state.lowlink = state.lowlink.min(to));
}
