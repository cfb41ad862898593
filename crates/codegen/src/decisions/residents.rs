//! Which values are kept in a gang's frame all the time: the fragments of matrices, and beside them
//! what lanes keep while they wait.
//!
//! A product of matrices reads and writes its registers in memory. So what is a factor or a sum of
//! a product, and parameters that such values reach, has a *home*: a place in the frame that always
//! holds the value. Waits need not save it, and a sum that goes through a loop is changed in place.
//! Code with such products has no registers left for what is used again behind the next wait: that
//! has a home, too, rather than a place in the frame and another one on the stack, between which
//! each wait copies it. All other values go through variables, from which the register allocator
//! makes what it can.
//!
//! How: values share a home where none is needed after another one is written, by the lanes' own
//! control flow: writes of some lanes leave those of others as they are. First the parameters and
//! their arguments, C and D are put together as far as this allows; then homes are handed out in
//! the order of definitions, each the first that is free.

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Block, Function, Inst, Mma, Type, Value};
use ptxjit_vectorize::{Plan, SingleLane, WaitKind};
use smallvec::SmallVec;

use super::invariants::Invariants;
use super::lane_loops;
use super::packed::Packed;
use ptxjit_abi::warp_ops::WARP;

/// Bytes of a place for a word of each lane.
const WORDS: u32 = 4 * WARP as u32;

/// With more candidates than this no value has a home: what is kept about pairs of them would take
/// more than two megabytes.
const MOST_CANDIDATES: usize = 4096;

/// Registers of products that are not of values with homes: as many as several products of any form
/// have.
pub(crate) const N_PASSING: u32 = 64;

/// A value that other instructions than products use.
#[derive(Clone)]
struct Used {
    value: Value,
    /// Where it is defined, if an instruction does that.
    made_in: Option<Block>,
    /// Where it is used.
    blocks: Vec<Block>,
}

/// Values with homes.
#[derive(Default)]
pub(crate) struct Residents {
    /// The number of a value's home.
    home: SecondaryMap<Value, Option<u32>>,
    /// Of each home, the values that other instructions than products use.
    users: Vec<Vec<Used>>,
    /// Where each home is, from the first one on, and where the last one ends.
    places: Vec<u32>,
    /// Where the first home is, from the start of the frame on.
    start: u32,
}

impl Residents {
    /// Puts the homes behind the slots of waits, and returns the size of both.
    pub(super) fn put_behind(&mut self, slots: u32) -> u32 {
        self.start = slots;
        match self.is_used() {
            true => self.passing(N_PASSING),
            false => slots,
        }
    }

    /// Values of the home of another one that instructions in some blocks use, products aside, and
    /// whether one of the blocks defines them.
    pub(crate) fn used_beside(
        &self,
        value: Value,
        blocks: &[Block],
    ) -> impl Iterator<Item = (Value, bool)> {
        let users = self.home[value].map_or(&[][..], |number| &self.users[number as usize]);
        let beside = users.iter().filter(move |used| used.value != value);
        let here = beside.filter(|used| used.blocks.iter().any(|block| blocks.contains(block)));
        here.map(|used| {
            let is_made_here = used.made_in.is_some_and(|block| blocks.contains(&block));
            (used.value, is_made_here)
        })
    }

    /// Where a value's home is in the frame.
    pub(crate) fn home(&self, value: Value) -> Option<u32> {
        self.home[value].map(|number| self.start + self.places[number as usize])
    }

    /// Where a register of another value is in the frame.
    pub(crate) fn passing(&self, number: u32) -> u32 {
        self.start + self.places.last().copied().unwrap_or(0) + number * WORDS
    }

    /// Whether products read and write the frame.
    pub(crate) fn is_used(&self) -> bool {
        !self.users.is_empty()
    }
}

/// The product that an instruction is, if its registers have 32 bits.
pub(crate) fn product(func: &Function, inst: Inst) -> Option<Mma> {
    let mma = func.insts[inst].data.mma();
    mma.filter(|mma| mma.register() == Type::B32)
}

/// A product, and the registers of its C.
fn sums(func: &Function, inst: Inst) -> Option<(Mma, SmallVec<[Value; 4]>)> {
    let mma = product(func, inst)?;
    let first = mma.a_registers() + mma.b_registers();
    let args = func.insts[inst].data.args();
    Some((mma, args[first..][..mma.c_registers()].into()))
}

/// What tells the values that have homes, beside those that are `packed` or `invariants`.
pub(super) struct Finder<'a> {
    pub func: &'a Function,
    pub plan: &'a Plan,
    pub packed: &'a Packed,
    pub invariants: &'a Invariants,
}

impl Finder<'_> {
    /// Hands out homes for code of whole warps in which lanes do not wait at products.
    pub(super) fn find(&self) -> Residents {
        let products = match self.plan.gang as usize {
            WARP => self.products(),
            _ => Vec::new(),
        };
        if products.is_empty() {
            return Residents::default();
        }
        let candidates = self.candidates(&products);
        if candidates.len() > MOST_CANDIDATES {
            return Residents::default();
        }
        let mut webs = Webs::new(self.func, candidates);
        for &inst in &products {
            if let Some((mma, sums)) = sums(self.func, inst)
                && mma.c == mma.d
            {
                for (&c, &d) in sums.iter().zip(&self.func.insts[inst].results) {
                    webs.join(c, d);
                }
            }
        }
        for (param, arg) in self.func.passed() {
            webs.join(param, arg);
        }
        let mut residents = webs.hand_out(self.func);
        self.find_users(&mut residents);
        residents
    }

    fn find_users(&self, residents: &mut Residents) {
        let mut used: SecondaryMap<Value, (Option<Block>, Vec<Block>)> = SecondaryMap::new();
        for (block, data) in self.func.blocks.iter() {
            for &inst in &data.insts {
                let node = &self.func.insts[inst];
                let results = node.results.iter();
                results.for_each(|&result| used[result].0 = Some(block));
                if product(self.func, inst).is_some() {
                    continue;
                }
                for arg in node.data.args() {
                    if used[arg].1.last() != Some(&block) {
                        used[arg].1.push(block);
                    }
                }
            }
        }
        for (value, (made_in, blocks)) in used.iter() {
            if let Some(number) = residents.home[value] {
                residents.users[number as usize].push(Used {
                    value,
                    made_in: *made_in,
                    blocks: blocks.clone(),
                });
            }
        }
    }

    fn products(&self) -> Vec<Inst> {
        let blocks = self.func.blocks.keys();
        let for_all = blocks.filter(|&block| self.is_for_all(block));
        let insts = for_all.flat_map(|block| self.plan.insts_after_wait(self.func, block));
        let is_product = |inst: &Inst| product(self.func, *inst).is_some();
        insts.copied().filter(is_product).collect()
    }

    /// Whether a block runs for all lanes of its mask at once.
    fn is_for_all(&self, block: Block) -> bool {
        self.plan.single_lane[block] == SingleLane::No
    }

    /// The values that have homes, in the order of their numbers.
    fn candidates(&self, products: &[Inst]) -> Vec<Value> {
        let can = self.eligible();
        let mut is_candidate: SecondaryMap<Value, bool> = SecondaryMap::new();
        for &inst in products {
            let node = &self.func.insts[inst];
            let values = node.data.args().into_iter();
            for value in values.chain(node.results.iter().copied()) {
                is_candidate[value] |= can[value];
            }
        }
        for &value in self.plan.waits.iter().flat_map(|wait| &wait.live) {
            is_candidate[value] |= can[value];
        }
        self.spread(&can, &mut is_candidate);
        let values = self.func.values.keys();
        values.filter(|&value| is_candidate[value]).collect()
    }

    /// Adds parameters that such values reach, and what reaches such parameters.
    fn spread(
        &self,
        can: &SecondaryMap<Value, bool>,
        is_candidate: &mut SecondaryMap<Value, bool>,
    ) {
        let passed = self.func.passed();
        let passed = passed.filter(|&(param, arg)| can[param] && can[arg]);
        let edges: Vec<(Value, Value)> = passed.collect();
        let mut changed = true;
        while changed {
            changed = false;
            for &(param, arg) in &edges {
                changed |= is_candidate[param] != is_candidate[arg];
                is_candidate[param] |= is_candidate[arg];
                is_candidate[arg] |= is_candidate[param];
            }
        }
    }

    /// The values that can have homes: a word of each lane or two (narrow values are words, unless
    /// they are packed), written by code for all lanes, and not in the hands of the runtime.
    fn eligible(&self) -> SecondaryMap<Value, bool> {
        let (func, plan) = (self.func, self.plan);
        let mut can: SecondaryMap<Value, bool> = SecondaryMap::new();
        for value in func.values.keys() {
            can[value] = func.ty(value) != Type::B1
                && !self.packed.made[value]
                && !self.packed.carried[value]
                && plan.is_varying(value)
                && func.as_const(value).is_none()
                && !self.invariants.is_pinned(value);
        }
        for wait in &plan.waits {
            if let WaitKind::Inst(inst) = wait.kind {
                let node = &func.insts[inst];
                let args = node.data.args();
                let values = args.iter().chain(&node.results);
                values.for_each(|&value| can[value] = false);
            }
        }
        let region_of = lane_loops::places(plan);
        for (pos, block) in plan.order.places() {
            if !self.is_for_all(block) || region_of[pos].is_some() {
                let passed = func.passed_by(block).map(|(param, _)| param);
                let values = func.defined_in(block).chain(passed);
                values.for_each(|value| can[value] = false);
            }
        }
        can
    }
}

/// A set of candidates, by number.
#[derive(Clone, PartialEq, Eq)]
struct Set(Vec<u64>);

impl Set {
    fn new(size: usize) -> Set {
        Set(vec![0; size.div_ceil(64)])
    }

    fn add(&mut self, number: usize) {
        self.0[number / 64] |= 1 << (number % 64);
    }

    fn remove(&mut self, number: usize) {
        self.0[number / 64] &= !(1 << (number % 64));
    }

    fn add_all(&mut self, others: &Set) {
        for (word, other) in self.0.iter_mut().zip(&others.0) {
            *word |= other;
        }
    }

    fn meets(&self, others: &Set) -> bool {
        let mut words = self.0.iter().zip(&others.0);
        words.any(|(word, other)| word & other != 0)
    }

    fn numbers(&self) -> impl Iterator<Item = usize> {
        let words = self.0.iter().enumerate();
        words.flat_map(|(n, &word)| {
            let bits = (0..64).filter(move |bit| word >> bit & 1 != 0);
            bits.map(move |bit| 64 * n + bit)
        })
    }
}

/// The candidates that are live at the start of each block.
type LiveIn = SecondaryMap<Block, Option<Set>>;

/// Values that share homes.
struct Webs {
    values: Vec<Value>,
    number: SecondaryMap<Value, Option<usize>>,
    /// The web that a candidate belongs to, by one of its members.
    web_of: Vec<usize>,
    /// Of each web, its members, and the candidates that no member can share a home with.
    members: Vec<Set>,
    conflicts: Vec<Set>,
}

impl Webs {
    fn new(func: &Function, values: Vec<Value>) -> Webs {
        let n = values.len();
        let mut number = SecondaryMap::new();
        let mut members = vec![Set::new(n); n];
        for (idx, &value) in values.iter().enumerate() {
            number[value] = Some(idx);
            members[idx].add(idx);
        }
        let mut webs = Webs {
            number,
            web_of: (0..n).collect(),
            members,
            conflicts: vec![Set::new(n); n],
            values,
        };
        webs.find_conflicts(func);
        webs
    }

    /// A value conflicts with what is live where it is defined.
    fn find_conflicts(&mut self, func: &Function) {
        let live_in = self.live_in(func);
        for (block, data) in func.blocks.iter() {
            let mut live = self.live_at_end(func, block, &live_in);
            for &inst in data.insts.iter().rev() {
                let node = &func.insts[inst];
                // Results are written together, those without a use too.
                let results = self.write_together(&node.results, &mut live);
                results.iter().for_each(|&result| live.remove(result));
                let args = node.data.args();
                self.numbers(&args).for_each(|arg| live.add(arg));
                self.keep_sums_apart(func, inst);
            }
            self.write_together(&data.params, &mut live);
        }
    }

    /// The numbers of those values that are candidates.
    fn numbers(&self, values: &[Value]) -> impl Iterator<Item = usize> {
        values.iter().filter_map(|&value| self.number[value])
    }

    /// Adds values that are written at one time to those that are live.
    fn write_together(&mut self, values: &[Value], live: &mut Set) -> Vec<usize> {
        let written: Vec<usize> = self.numbers(values).collect();
        written.iter().for_each(|&number| live.add(number));
        let numbers = written.iter();
        numbers.for_each(|&number| self.add_conflicts(number, live));
        written
    }

    /// A product reads some rows of C after it has written others of D: a register of D can be that
    /// of C with the same rows, and no other.
    fn keep_sums_apart(&mut self, func: &Function, inst: Inst) {
        let Some((mma, sums)) = sums(func, inst) else {
            return;
        };
        for (i, &c) in sums.iter().enumerate() {
            for (j, &d) in func.insts[inst].results.iter().enumerate() {
                if let (Some(c), Some(d)) = (self.number[c], self.number[d])
                    && (i != j || mma.c != mma.d)
                {
                    self.conflicts[c].add(d);
                    self.conflicts[d].add(c);
                }
            }
        }
    }

    fn add_conflicts(&mut self, written: usize, live: &Set) {
        self.conflicts[written].add_all(live);
        self.conflicts[written].remove(written);
        for other in live.numbers().filter(|&other| other != written) {
            self.conflicts[other].add(written);
        }
    }

    /// What is live behind the last instruction of a block, arguments of its branch included.
    fn live_at_end(&self, func: &Function, block: Block, live_in: &LiveIn) -> Set {
        let mut live = Set::new(self.values.len());
        let behind = func.successors(block).filter_map(|to| live_in[to].as_ref());
        behind.for_each(|set| live.add_all(set));
        let term = &func.blocks[block].term;
        term.for_each_arg(|arg| self.numbers(&[arg]).for_each(|number| live.add(number)));
        live
    }

    /// What is live at the start of each block, its parameters excluded.
    fn live_in(&self, func: &Function) -> LiveIn {
        let mut live_in = LiveIn::new();
        loop {
            let mut changed = false;
            let blocks: Vec<Block> = func.blocks.keys().collect();
            for &block in blocks.iter().rev() {
                let mut live = self.live_at_end(func, block, &live_in);
                for node in func.insts_in(block).rev() {
                    let results = self.numbers(&node.results);
                    results.for_each(|result| live.remove(result));
                    let args = node.data.args();
                    self.numbers(&args).for_each(|arg| live.add(arg));
                }
                let params = self.numbers(&func.blocks[block].params);
                params.for_each(|param| live.remove(param));
                if live_in[block].as_ref() != Some(&live) {
                    live_in[block] = Some(live);
                    changed = true;
                }
            }
            if !changed {
                return live_in;
            }
        }
    }

    /// Puts the webs of two values together, if both are candidates and do not conflict.
    fn join(&mut self, a: Value, b: Value) {
        let (Some(a), Some(b)) = (self.number[a], self.number[b]) else {
            return;
        };
        let (a, b) = (self.web_of[a], self.web_of[b]);
        if a == b || self.conflicts[a].meets(&self.members[b]) {
            return;
        }
        let empty = Set::new(self.values.len());
        let members = std::mem::replace(&mut self.members[b], empty.clone());
        let conflicts = std::mem::replace(&mut self.conflicts[b], empty);
        members.numbers().for_each(|member| self.web_of[member] = a);
        self.members[a].add_all(&members);
        self.conflicts[a].add_all(&conflicts);
    }

    fn hand_out(self, func: &Function) -> Residents {
        let mut residents = Residents::default();
        let mut taken: Vec<(Type, Set)> = Vec::new();
        let mut home_of: Vec<Option<usize>> = vec![None; self.values.len()];
        for (idx, &value) in self.values.iter().enumerate() {
            let web = self.web_of[idx];
            let home = home_of[web].unwrap_or_else(|| {
                let ty = func.ty(value);
                let is_free =
                    |(of, members): &(Type, Set)| *of == ty && !self.conflicts[web].meets(members);
                let free = taken.iter().position(is_free);
                let home = free.unwrap_or_else(|| {
                    taken.push((ty, Set::new(self.values.len())));
                    taken.len() - 1
                });
                taken[home].1.add_all(&self.members[web]);
                home
            });
            home_of[web] = Some(home);
            residents.home[value] = Some(home as u32);
        }
        residents.users = vec![Vec::new(); taken.len()];
        let mut end = 0;
        residents.places.push(end);
        for (ty, _) in taken {
            end += ty.bytes().div_ceil(Type::B32.bytes()) * WORDS;
            residents.places.push(end);
        }
        residents
    }
}
