//! Schedules runs of loads and pure instructions that work on more values at once than there are
//! registers, as the unrolled inner loop of a matrix product does with a block of sums per thread.
//!
//! Such a run is many *chains* that have only loads in common. Emitted in the program's order, each
//! step of each chain reloads its sum from the stack and spills it again. Here as many chains as
//! fit the registers go through the whole run together, then the next ones; values that they load
//! are loaded again for each group of chains.
//!
//! **Needs**: no thread writes what the loads read while the run goes on. **Ensures**: the first
//! group makes all loads, in the program's order, so that the first access that faults is the same.
//! Elements beside the first of one vector load may be loaded later: the load is aligned, so they
//! lie in the same page.

use ptxjit_ir::{FloatBinaryOp, FloatFmt, Function, Inst, InstData, Round, Type, Value};
use ptxjit_vectorize::Variability;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::registers::{Sequence, Traffic};
use crate::schedule::REGISTERS;

/// Shorter runs are not looked at, nor are longer ones, nor more chains: the search takes time.
pub(crate) const FEWEST_INSTS: usize = 32;
const MOST_INSTS: usize = 2000;
const MOST_CHAINS: usize = 64;

/// What is emitted next.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// A pure instruction.
    Pure(Inst),
    /// A load, whole.
    Load(Inst),
    /// One element of a load of all lanes from one place.
    Element(Inst, usize),
}

/// The order in which a run is emitted.
pub(crate) struct Schedule {
    pub steps: Vec<Step>,
    /// Results of chains that are used outside of the run.
    pub results: Vec<Value>,
    /// Loads that are made once for all groups.
    pub kept: FxHashSet<Inst>,
    /// Results of float arithmetic that only float arithmetic of the run uses.
    pub floats: FxHashSet<Value>,
}

/// A run to be scheduled.
pub(crate) struct Run<'a> {
    pub func: &'a Function,
    /// Pure instructions, and loads that may be repeated.
    pub insts: &'a [Inst],
    pub variability: &'a dyn Fn(Value) -> Variability,
    /// Whether a value is used outside of the run.
    pub is_kept: &'a dyn Fn(Value) -> bool,
}

/// The run in groups of chains, if that takes less traffic with memory than the program's order.
pub(crate) fn by_chains(run: &Run<'_>) -> Option<Schedule> {
    if !(FEWEST_INSTS..=MOST_INSTS).contains(&run.insts.len()) {
        return None;
    }
    let graph = Graph::of(run);
    let in_order = graph.in_order();
    let before = graph.traffic(&in_order);
    if before.spills == 0
        || graph.leaves_chains()
        || !(2..=MOST_CHAINS).contains(&graph.chains.len())
    {
        return None;
    }
    let groups = graph.groups(usize::MAX);
    // Chains that do not fit even by themselves gain nothing from a group of their own.
    if groups.len() < 2 {
        return None;
    }
    let groups = graph.groups(graph.chains.len().div_ceil(groups.len()));
    let steps = graph.steps(&groups);
    let after = graph.traffic(&steps);
    (after.total() < before.total()).then(|| Schedule {
        results: graph.results(),
        kept: graph.kept(),
        floats: graph.floats(),
        steps,
    })
}

/// What an instruction of the run is to the schedule.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Role {
    /// A load of all lanes from one place: each use loads its element and broadcasts it, which is
    /// one instruction.
    Shared,
    /// A load with one place per lane; emitted whole.
    Lanes,
    /// A load that is emitted once.
    Kept,
    /// Scalar arithmetic: emitted once, with the first group.
    Scalar,
    /// Part of this chain.
    Chain(usize),
}

/// A set of elements that chains load, as bits.
type Elements = SmallVec<[u64; 4]>;

struct Graph<'a> {
    run: &'a Run<'a>,
    roles: Vec<Role>,
    /// Where in the run a value is defined, and which result it is.
    defs: FxHashMap<Value, (usize, usize)>,
    /// What each chain needs.
    chains: Vec<Elements>,
    n_elements: usize,
}

impl<'a> Graph<'a> {
    fn of(run: &'a Run<'a>) -> Graph<'a> {
        let mut graph = Graph {
            run,
            roles: Vec::new(),
            defs: FxHashMap::default(),
            chains: Vec::new(),
            n_elements: 0,
        };
        for (at, &inst) in run.insts.iter().enumerate() {
            for (k, &result) in run.func.insts[inst].results.iter().enumerate() {
                graph.defs.insert(result, (at, k));
            }
        }
        graph.find_roles();
        graph.find_needs();
        graph
    }

    fn data(&self, at: usize) -> &'a InstData {
        &self.run.func.insts[self.run.insts[at]].data
    }

    fn made(&self, at: usize) -> &'a [Value] {
        &self.run.func.insts[self.run.insts[at]].results
    }

    /// Instructions that take their operands as vectors of floats, whatever they are.
    #[expect(clippy::wildcard_enum_match_arm, reason = "others work lane by lane")]
    fn is_float_arithmetic(&self, at: usize) -> bool {
        let (fmt, mode) = match *self.data(at) {
            InstData::Fma { fmt, mode, .. } => (fmt, mode),
            InstData::FloatBinary {
                op: FloatBinaryOp::Add | FloatBinaryOp::Sub | FloatBinaryOp::Mul,
                fmt,
                mode,
                ..
            } => (fmt, mode),
            _ => return false,
        };
        let is_native = matches!(fmt, FloatFmt::F32 | FloatFmt::F64) && mode.round == Round::Rn;
        is_native && (self.run.variability)(self.made(at)[0]) == Variability::Varying
    }

    /// Operands of instructions other than loads.
    fn looked_at(&self) -> FxHashSet<Value> {
        (0..self.run.insts.len())
            .filter(|&at| !self.is_float_arithmetic(at))
            .flat_map(|at| self.data(at).args())
            .collect()
    }

    /// Instructions that use each other's results belong to one chain.
    fn find_roles(&mut self) {
        let n = self.run.insts.len();
        let is_chained = |at: usize| {
            !matches!(self.data(at), InstData::Load { .. })
                && (self.run.variability)(self.made(at)[0]) == Variability::Varying
        };
        let mut parents: Vec<usize> = (0..n).collect();
        for at in (0..n).filter(|&at| is_chained(at)) {
            for arg in self.data(at).args() {
                if let Some(&(from, _)) = self.defs.get(&arg)
                    && is_chained(from)
                {
                    let (a, b) = (root(&mut parents, from), root(&mut parents, at));
                    parents[a.max(b)] = a.min(b);
                }
            }
        }
        let is_scalar = self.looked_at();
        let mut numbers: FxHashMap<usize, usize> = FxHashMap::default();
        self.roles = (0..n)
            .map(|at| {
                if let InstData::Load { addr, .. } = *self.data(at) {
                    let results = self.made(at);
                    match (self.run.variability)(addr) {
                        _ if results.iter().any(|&x| (self.run.is_kept)(x)) => Role::Kept,
                        Variability::Uniform if results.iter().any(|x| is_scalar.contains(x)) => {
                            Role::Kept
                        }
                        Variability::Uniform => Role::Shared,
                        Variability::Affine { .. } | Variability::Varying => Role::Lanes,
                    }
                } else if is_chained(at) {
                    let next = numbers.len();
                    let first = root(&mut parents, at);
                    Role::Chain(*numbers.entry(first).or_insert(next))
                } else {
                    Role::Scalar
                }
            })
            .collect();
        self.chains = vec![Elements::new(); numbers.len()];
    }

    /// Whether an instruction that is emitted once, before most of the chains, uses a value of a
    /// chain, or varying loads.
    fn leaves_chains(&self) -> bool {
        let is_of_lanes = |arg: &Value| {
            let def = self.defs.get(arg);
            def.is_some_and(|&(at, _)| matches!(self.roles[at], Role::Chain(_) | Role::Lanes))
        };
        (0..self.roles.len())
            .filter(|&at| !matches!(self.roles[at], Role::Chain(_)))
            .any(|at| self.data(at).args().iter().any(is_of_lanes))
    }

    fn find_needs(&mut self) {
        let mut first_element: Vec<usize> = Vec::new();
        for at in 0..self.roles.len() {
            first_element.push(self.n_elements);
            if self.roles[at] == Role::Lanes {
                self.n_elements += self.made(at).len();
            }
        }
        for needs in &mut self.chains {
            *needs = SmallVec::from_elem(0, self.n_elements.div_ceil(64));
        }
        for at in 0..self.roles.len() {
            let Role::Chain(chain) = self.roles[at] else {
                continue;
            };
            for arg in self.data(at).args() {
                if let Some(&(from, k)) = self.defs.get(&arg)
                    && self.roles[from] == Role::Lanes
                {
                    let element = first_element[from] + k;
                    self.chains[chain][element / 64] |= 1 << (element % 64);
                }
            }
        }
    }

    /// Chains in groups that fit the registers, and that have at most this many chains.
    fn groups(&self, most: usize) -> Vec<Vec<usize>> {
        let mut left: Vec<usize> = (0..self.chains.len()).collect();
        let mut groups = Vec::new();
        while !left.is_empty() {
            let mut group: Vec<usize> = Vec::new();
            let mut loaded: Elements = SmallVec::from_elem(0, self.n_elements.div_ceil(64));
            while group.len() < most && !left.is_empty() {
                let next = self.next_chain(&left, &loaded);
                group.push(left[next]);
                if group.len() > 1 && self.traffic(&self.group_steps(&group, false)).spills > 0 {
                    group.pop();
                    break;
                }
                let chain = left.remove(next);
                for (word, more) in loaded.iter_mut().zip(&self.chains[chain]) {
                    *word |= more;
                }
            }
            groups.push(group);
        }
        groups
    }

    /// Which chain joins next: its loads should serve many others as well.
    fn next_chain(&self, left: &[usize], loaded: &Elements) -> usize {
        let mut best = (0, 0, 0usize);
        for (idx, &chain) in left.iter().enumerate() {
            let needs = &self.chains[chain];
            let missing: Elements = needs.iter().zip(loaded).map(|(x, y)| x & !y).collect();
            let cost: usize = missing.iter().map(|word| word.count_ones() as usize).sum();
            if cost == 0 {
                return idx;
            }
            let is_served = |needs: &Elements| {
                (0..needs.len()).all(|i| needs[i] & !loaded[i] & !missing[i] == 0)
            };
            let served = left
                .iter()
                .filter(|&&other| is_served(&self.chains[other]))
                .count();
            // More for each load is better, and at the same price more.
            let (_, best_served, best_cost) = best;
            let (this, that) = (served * best_cost, best_served * cost);
            if best_cost == 0 || this > that || (this == that && served > best_served) {
                best = (idx, served, cost);
            }
        }
        best.0
    }

    fn results(&self) -> Vec<Value> {
        (0..self.roles.len())
            .filter(|&at| matches!(self.roles[at], Role::Chain(_)))
            .map(|at| self.made(at)[0])
            .filter(|&result| (self.run.is_kept)(result))
            .collect()
    }

    fn kept(&self) -> FxHashSet<Inst> {
        (0..self.roles.len())
            .filter(|&at| self.roles[at] == Role::Kept)
            .map(|at| self.run.insts[at])
            .collect()
    }

    fn floats(&self) -> FxHashSet<Value> {
        let looked_at = self.looked_at();
        (0..self.roles.len())
            .filter(|&at| self.is_float_arithmetic(at))
            .map(|at| self.made(at)[0])
            .filter(|result| !(self.run.is_kept)(*result) && !looked_at.contains(result))
            .collect()
    }

    fn in_order(&self) -> Vec<Step> {
        let is_load = |at: usize| matches!(self.data(at), InstData::Load { .. });
        let insts = self.run.insts.iter().enumerate();
        let step = |(at, &inst): (usize, &Inst)| match is_load(at) {
            true => Step::Load(inst),
            false => Step::Pure(inst),
        };
        insts.map(step).collect()
    }

    fn steps(&self, groups: &[Vec<usize>]) -> Vec<Step> {
        groups
            .iter()
            .enumerate()
            .flat_map(|(idx, group)| self.group_steps(group, idx == 0))
            .collect()
    }

    /// One group, in the program's order but for loads. The first group includes the instructions
    /// that are emitted once.
    fn group_steps(&self, group: &[usize], is_first: bool) -> Vec<Step> {
        let mut is_in = vec![false; self.chains.len()];
        group.iter().for_each(|&chain| is_in[chain] = true);
        // Loads that were made at their place in the program, and wait for their first use.
        let mut loaded = vec![false; self.roles.len()];
        let mut steps = Vec::new();
        for (at, &inst) in self.run.insts.iter().enumerate() {
            match self.roles[at] {
                Role::Shared if is_first => {
                    loaded[at] = true;
                    steps.push(Step::Element(inst, 0));
                }
                Role::Lanes if is_first => {
                    loaded[at] = true;
                    steps.push(Step::Load(inst));
                }
                Role::Kept if is_first => steps.push(Step::Load(inst)),
                Role::Scalar if is_first => steps.push(Step::Pure(inst)),
                Role::Chain(chain) if is_in[chain] => {
                    for arg in self.data(at).args() {
                        steps.extend(self.load(arg, &mut loaded));
                    }
                    steps.push(Step::Pure(inst));
                }
                Role::Shared | Role::Lanes | Role::Kept | Role::Scalar | Role::Chain(_) => {}
            }
        }
        steps
    }

    /// Loads an operand, if it is a load that was not made yet.
    fn load(&self, arg: Value, loaded: &mut [bool]) -> Option<Step> {
        let &(at, k) = self.defs.get(&arg)?;
        let inst = self.run.insts[at];
        match self.roles[at] {
            Role::Shared => {
                let is_at_hand = k == 0 && std::mem::take(&mut loaded[at]);
                (!is_at_hand).then_some(Step::Element(inst, k))
            }
            Role::Lanes => {
                let is_at_hand = std::mem::replace(&mut loaded[at], true);
                (!is_at_hand).then_some(Step::Load(inst))
            }
            Role::Kept | Role::Scalar | Role::Chain(_) => None,
        }
    }

    /// Registers that a value takes.
    fn weight(&self, value: Value) -> usize {
        match (self.run.variability)(value) {
            Variability::Varying if self.run.func.ty(value) == Type::B64 => 2,
            Variability::Varying => 1,
            // A value that all lanes load is broadcast for the vectors that it meets.
            Variability::Uniform | Variability::Affine { .. } => match self.defs.get(&value) {
                Some(&(at, _)) if self.roles[at] == Role::Shared => 1,
                _ => 0,
            },
        }
    }

    /// What a sequence of steps costs.
    fn traffic(&self, steps: &[Step]) -> Traffic {
        let mut sequence = Sequence::default();
        let mut current: FxHashMap<Value, usize> = FxHashMap::default();
        for step in steps {
            let (inst, made) = match *step {
                Step::Pure(inst) | Step::Load(inst) => (inst, None),
                Step::Element(inst, k) => (inst, Some(k)),
            };
            let node = &self.run.func.insts[inst];
            sequence.begin_step();
            for arg in node.data.args() {
                let id = *current
                    .entry(arg)
                    .or_insert_with(|| sequence.enter(self.weight(arg)));
                sequence.used(id);
            }
            for (k, &result) in node.results.iter().enumerate() {
                if made.is_none_or(|made| made == k) {
                    current.insert(result, sequence.made(self.weight(result)));
                }
            }
        }
        let mut traffic = sequence.traffic(REGISTERS);
        traffic.loads += steps.iter().map(|step| self.loads(*step)).sum::<usize>();
        traffic
    }

    /// Vectors or scalars that a step loads, if it does.
    fn loads(&self, step: Step) -> usize {
        match step {
            Step::Pure(_) => 0,
            Step::Element(..) => 1,
            // The loaded rows are transposed to columns.
            Step::Load(inst) => 2 * self.run.func.insts[inst].results.len(),
        }
    }
}

/// The representative of a chain's instruction.
fn root(parents: &mut [usize], mut at: usize) -> usize {
    while parents[at] != at {
        parents[at] = parents[parents[at]];
        at = parents[at];
    }
    at
}
