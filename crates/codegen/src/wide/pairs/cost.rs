//! Which pairs are worth it.

use cranelift_codegen::ir::{Block, Inst, Opcode, Value, ValueDef};
use cranelift_codegen::loop_analysis::LoopAnalysis;
use cranelift_entity::SecondaryMap;
use smallvec::SmallVec;

use super::{Edge, Operand, Pairs, is_vector};
use crate::clif;

/// The assumed trip count of a loop.
const ITERATIONS: u64 = 8;

/// Loops nested deeper than this count no more.
const MOST_LEVELS: usize = 5;

/// The weight of an instruction outside of loops, where one in a cold block has 1.
const ONCE: u64 = 16;

/// Rounds in which pairs are dropped: most functions are stable after two.
const MOST_ROUNDS: usize = 12;

struct Costs<'p, 'f> {
    pairs: &'p mut Pairs<'f>,
    loops: &'p LoopAnalysis,
    /// What uses each vector.
    users: SecondaryMap<Value, SmallVec<[User; 4]>>,
}

#[derive(Copy, Clone, PartialEq, Eq)]
enum User {
    Inst(Inst),
    /// An edge passes it for the parameter at this position.
    Edge(usize, usize),
}

/// Drops pairs that cost more than they save. False if nothing is left that would be.
pub(super) fn prune(pairs: &mut Pairs<'_>, loops: &LoopAnalysis) -> bool {
    let mut users: SecondaryMap<Value, SmallVec<[User; 4]>> = SecondaryMap::new();
    let func = pairs.func;
    for inst in clif::insts(func) {
        for &value in func.dfg.inst_args(inst) {
            let (value, user) = (func.dfg.resolve_aliases(value), User::Inst(inst));
            if is_vector(func.dfg.value_type(value)) && users[value].last() != Some(&user) {
                users[value].push(user);
            }
        }
    }
    for (number, edge) in pairs.edges.iter().enumerate() {
        for (at, value) in edge.args.iter().enumerate() {
            if let Some(value) = *value
                && is_vector(func.dfg.value_type(value))
            {
                users[value].push(User::Edge(number, at));
            }
        }
    }
    let all = all_pairs(pairs);
    let mut costs = Costs {
        pairs,
        loops,
        users,
    };
    for _ in 0..MOST_ROUNDS {
        if !costs.round(&all) {
            break;
        }
    }
    costs.total(&all) > 0
}

/// All pairs, in the order of their first halves.
fn all_pairs(pairs: &Pairs<'_>) -> Vec<Pair> {
    let (func, found) = (pairs.func, &pairs.found);
    let mut all: Vec<Pair> = Vec::new();
    for block in func.layout.blocks() {
        let params = func.dfg.block_params(block).iter();
        all.extend(params.filter_map(|&x| found.second[x].map(|y| Pair::Params(x, y))));
        let insts = func.layout.block_insts(block);
        all.extend(insts.filter_map(|a| found.second_inst[a].map(|b| Pair::Insts(a, b))));
    }
    all
}

/// What a pair is: values, and the instructions that make them; or stores.
#[derive(Copy, Clone)]
enum Pair {
    Params(Value, Value),
    Insts(Inst, Inst),
}

impl Costs<'_, '_> {
    fn weight(&self, block: Option<Block>) -> u64 {
        let block = block.expect("instructions are in blocks");
        if self.pairs.func.layout.is_cold(block) {
            return 1;
        }
        let level = self.loops.loop_level(block).level().min(MOST_LEVELS);
        ONCE * ITERATIONS.pow(level as u32)
    }

    fn at(&self, inst: Inst) -> u64 {
        self.weight(self.pairs.func.layout.inst_block(inst))
    }

    /// Drops pairs, users first. True if there were any.
    fn round(&mut self, all: &[Pair]) -> bool {
        let mut dropped = false;
        for &pair in all.iter().rev() {
            if self.is_left(pair) && self.gain_of_dropping(pair) >= 0 {
                self.drop(pair);
                dropped = true;
            }
        }
        dropped
    }

    fn is_left(&self, pair: Pair) -> bool {
        match pair {
            Pair::Params(x, _) => self.pairs.found.second[x].is_some(),
            Pair::Insts(a, _) => self.pairs.found.second_inst[a].is_some(),
        }
    }

    fn drop(&mut self, pair: Pair) {
        if let Some((x, y)) = self.values(pair) {
            self.pairs.found.drop_pair(x, y);
        }
        if let Pair::Insts(a, b) = pair {
            self.pairs.found.drop_insts(a, b);
        }
    }

    /// The two halves, but for stores.
    fn values(&self, pair: Pair) -> Option<(Value, Value)> {
        match pair {
            Pair::Params(x, y) => Some((x, y)),
            Pair::Insts(a, b) => {
                let dfg = &self.pairs.func.dfg;
                let (x, y) = (dfg.inst_results(a).first()?, dfg.inst_results(b).first()?);
                Some((*x, *y))
            }
        }
    }

    /// Operands of a pair, with the weight of what needs them.
    fn operands(&self, pair: Pair) -> SmallVec<[(u64, Value, Value); 3]> {
        match pair {
            Pair::Params(x, y) => {
                let passed = self.pairs.passed(x, y).into_iter();
                passed
                    .map(|(branch, x, y)| (self.at(branch), x, y))
                    .collect()
            }
            Pair::Insts(a, _) => {
                let args = self.pairs.found.args(a).iter();
                let is_vector =
                    |&&(x, _): &&(Value, Value)| is_vector(self.pairs.func.dfg.value_type(x));
                args.filter(is_vector)
                    .map(|&(x, y)| (self.at(a), x, y))
                    .collect()
            }
        }
    }

    /// The cost of joining two values for a use of this weight: where they are defined, if that is
    /// outside of the loop.
    fn joining(&self, weight: u64, x: Value, y: Value) -> u64 {
        match (self.home(x), self.home(y)) {
            (Some(a), Some(b)) if a == b => weight.min(self.weight(Some(a))),
            _ => weight,
        }
    }

    /// The share of that cost that falls to one user: other users of the same two values share the
    /// result.
    fn share_of_joining(&self, weight: u64, x: Value, y: Value) -> u64 {
        let found = &self.pairs.found;
        let wants_both = |&&user: &&User| match user {
            User::Inst(inst) => {
                let first = found.first_of_user(self.pairs.func, inst);
                first.is_some_and(|first| found.args(first).contains(&(x, y)))
            }
            User::Edge(..) => !self.needs_second(user, x, y),
        };
        let n_users = self.users[y].iter().filter(wants_both).count();
        self.joining(weight, x, y) / n_users.max(1) as u64
    }

    /// The block that defines a value.
    fn home(&self, value: Value) -> Option<Block> {
        match self.pairs.func.dfg.value_def(value) {
            ValueDef::Result(inst, _) => self.pairs.func.layout.inst_block(inst),
            ValueDef::Param(block, _) => Some(block),
            ValueDef::Union(..) => None,
        }
    }

    /// What merging saves.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the enum is Cranelift's")]
    fn saves(&self, pair: Pair) -> u64 {
        match pair {
            // Registers, and a move perhaps.
            Pair::Params(..) => 0,
            Pair::Insts(a, _) => match self.pairs.func.dfg.insts[a].opcode() {
                // The order of what narrower lanes give takes one more.
                Opcode::Bitcast | Opcode::Snarrow | Opcode::Unarrow => 0,
                Opcode::Fdiv | Opcode::Sqrt => 2 * self.at(a),
                _ => self.at(a),
            },
        }
    }

    /// The cost of extracting the second half.
    fn taking_out(&self, x: Value, y: Value) -> u64 {
        let users = self.users[y]
            .iter()
            .filter(|&&user| self.needs_second(user, x, y));
        let home = self.weight(self.home(x));
        users
            .map(|&user| self.weight_of_user(user).min(home))
            .max()
            .unwrap_or(0)
    }

    /// Whether a use needs the second half of a pair by itself.
    fn needs_second(&self, user: User, x: Value, y: Value) -> bool {
        let (found, dfg) = (&self.pairs.found, &self.pairs.func.dfg);
        match user {
            User::Inst(inst) => match found.first_of_user(self.pairs.func, inst) {
                Some(first) => found.args(first).iter().any(|&(m, n)| n == y && m != x),
                // Among the first halves of other pairs, or by itself.
                None => found.tested_pair(inst) != Some(x) && found.bits_of_pair(inst).is_none(),
            },
            User::Edge(edge, at) => {
                let Edge { to, ref args, .. } = self.pairs.edges[edge];
                match found.first[dfg.block_params(to)[at]].map(|first| dfg.value_def(first)) {
                    Some(ValueDef::Param(_, first)) => args[first] != Some(x),
                    _ => true,
                }
            }
        }
    }

    fn weight_of_user(&self, user: User) -> u64 {
        match user {
            User::Inst(inst) => self.at(inst),
            User::Edge(edge, _) => self.at(self.pairs.edges[edge].branch),
        }
    }

    /// How much less work there would be without a pair.
    fn gain_of_dropping(&self, pair: Pair) -> i64 {
        let found = &self.pairs.found;
        let func = self.pairs.func;
        let (mut saved, mut lost) = (0, self.saves(pair));
        for (weight, x, y) in self.operands(pair) {
            match found.operand(func, x, y) {
                Operand::Joined(x, y) => saved += self.share_of_joining(weight, x, y),
                Operand::Whole(_) if found.second[x] == Some(y) => {
                    let taken = self.taking_out(x, y);
                    lost += weight.min(self.weight(self.home(x))).saturating_sub(taken);
                }
                Operand::Whole(_) => {}
            }
        }
        if let Some((x, y)) = self.values(pair) {
            saved += self.taking_out(x, y);
            // A user of both has to join them.
            let users = self.users[y]
                .iter()
                .filter(|&&user| !self.needs_second(user, x, y));
            let joining = users
                .map(|&user| self.joining(self.weight_of_user(user), x, y))
                .max();
            lost += joining.unwrap_or(0);
        }
        saved as i64 - lost as i64
    }

    /// What all pairs save together.
    fn total(&self, all: &[Pair]) -> i64 {
        let found = &self.pairs.found;
        let mut total = 0;
        for &pair in all.iter().filter(|&&pair| self.is_left(pair)) {
            total += self.saves(pair) as i64;
            for (weight, x, y) in self.operands(pair) {
                if let Operand::Joined(x, y) = found.operand(self.pairs.func, x, y) {
                    total -= self.share_of_joining(weight, x, y) as i64;
                }
            }
            if let Some((x, y)) = self.values(pair) {
                total -= self.taking_out(x, y) as i64;
            }
        }
        total
    }
}
