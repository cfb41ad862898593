//! Orders the instructions of a block when pairs have been merged.

use cranelift_codegen::ir::{Block, Inst, Opcode, Value, ValueDef};
use cranelift_entity::{EntitySet, SecondaryMap};

use super::Pairs;

/// Attempts to order a block, each of which drops a pair: a bound on compile time.
const MOST_ATTEMPTS: usize = 20;

/// Dependences are followed this deep.
const DEEPEST: usize = 200;

/// The instructions of each block in their new order; the first of two stands for both.
pub(super) type Order = Vec<(Block, Vec<Inst>)>;

/// Orders the instructions of each block, and drops pairs that cannot be merged; true if there were
/// any.
pub(super) fn order(pairs: &mut Pairs<'_>) -> (Order, bool) {
    let func = pairs.func;
    let mut has_dropped = false;
    let mut in_order = |pairs: &mut Pairs<'_>, block: Block| {
        for _ in 0..MOST_ATTEMPTS {
            match order_block(pairs, block) {
                Ok(order) => return order,
                Err(first) => drop_pair(pairs, first),
            }
            has_dropped = true;
        }
        for inst in func.layout.block_insts(block) {
            if pairs.found.second_inst[inst].is_some() {
                drop_pair(pairs, inst);
            }
        }
        func.layout.block_insts(block).collect()
    };
    let order = func
        .layout
        .blocks()
        .map(|block| (block, in_order(pairs, block)))
        .collect();
    (order, has_dropped)
}

fn drop_pair(pairs: &mut Pairs<'_>, first: Inst) {
    let (dfg, found) = (&pairs.func.dfg, &mut pairs.found);
    let second = found.second_inst[first].expect("the first of a pair");
    let results = [first, second].map(|inst| dfg.inst_results(inst).first());
    if let [Some(&x), Some(&y)] = results {
        found.drop_pair(x, y);
    }
    found.drop_insts(first, second);
}

/// Orders the instructions of a block, or tells the first instruction of a pair that cannot be
/// merged.
fn order_block(pairs: &Pairs<'_>, block: Block) -> Result<Vec<Inst>, Inst> {
    let insts: Vec<Inst> = pairs.func.layout.block_insts(block).collect();
    let mut n_effects: SecondaryMap<Inst, u32> = SecondaryMap::new();
    let (mut count, mut n_pairs) = (0, 0);
    for &inst in &insts {
        if let Some(second) = pairs.found.second_inst[inst] {
            can_meet(pairs, inst, second)?;
            n_pairs += 1;
        }
        count += u32::from(has_effect(pairs.func.dfg.insts[inst].opcode()));
        n_effects[inst] = count;
    }
    if n_pairs == 0 {
        return Ok(insts);
    }
    let mut ordering = Ordering {
        pairs,
        block,
        now: 0,
        n_effects_now: 0,
        n_effects,
        done: EntitySet::new(),
        open: Vec::new(),
        order: Vec::with_capacity(insts.len()),
    };
    for inst in insts {
        ordering.now = pairs.position[inst];
        ordering.n_effects_now = ordering.n_effects[inst];
        if pairs.found.second_inst[inst].is_none() {
            ordering.place(pairs.found.first_inst[inst].unwrap_or(inst))?;
        }
    }
    Ok(ordering.order)
}

/// Whether no access between two accesses prevents merging them.
fn can_meet(pairs: &Pairs<'_>, first: Inst, second: Inst) -> Result<(), Inst> {
    let func = pairs.func;
    let opcode = func.dfg.insts[first].opcode();
    if !opcode.can_load() && !opcode.can_store() {
        return Ok(());
    }
    let mut next = func.layout.next_inst(first);
    while let Some(inst) = next.filter(|&inst| inst != second) {
        let between = func.dfg.insts[inst].opcode();
        if has_effect(between) || opcode.can_store() && between.can_load() {
            return Err(first);
        }
        next = func.layout.next_inst(inst);
    }
    Ok(())
}

/// Whether an instruction must keep its order among instructions with effects.
pub(super) fn has_effect(opcode: Opcode) -> bool {
    opcode.can_store()
        || opcode.is_call()
        || opcode.other_side_effects()
        || opcode.can_trap() && !opcode.can_load()
}

struct Ordering<'p, 'f> {
    pairs: &'p Pairs<'f>,
    block: Block,
    /// Position of the instruction to be placed next.
    now: u32,
    /// Instructions with effects up to that one, and to each.
    n_effects_now: u32,
    n_effects: SecondaryMap<Inst, u32>,
    done: EntitySet<Inst>,
    /// Instructions that wait for their operands.
    open: Vec<Inst>,
    order: Vec<Inst>,
}

impl Ordering<'_, '_> {
    /// Places an instruction behind what it needs.
    fn place(&mut self, inst: Inst) -> Result<(), Inst> {
        if self.done.contains(inst) {
            return Ok(());
        }
        let (func, found) = (self.pairs.func, &self.pairs.found);
        let second = found.second_inst[inst];
        let opcode = func.dfg.insts[inst].opcode();
        // An instruction that stands later is needed now: it may move if it only computes, or loads
        // memory that no instruction between may change. Loads of pairs were checked.
        let last = second.unwrap_or(inst);
        let moves = self.pairs.position[last] > self.now;
        let can_move = !has_effect(opcode)
            && (!opcode.can_load()
                || second.is_some()
                || self.n_effects[last] == self.n_effects_now);
        if self.open.contains(&inst) || self.open.len() > DEEPEST || moves && !can_move {
            let culprit = self.open.iter().chain([&inst]).rev();
            let mut culprit = culprit.filter(|&&inst| found.second_inst[inst].is_some());
            return Err(*culprit
                .next()
                .expect("without pairs, everything is in order"));
        }
        self.open.push(inst);
        for inst in [Some(inst), second].into_iter().flatten() {
            for &arg in func.dfg.inst_args(inst) {
                self.need(func.dfg.resolve_aliases(arg))?;
            }
        }
        self.open.pop();
        self.done.insert(inst);
        self.order.push(inst);
        Ok(())
    }

    fn need(&mut self, value: Value) -> Result<(), Inst> {
        let (func, found) = (self.pairs.func, &self.pairs.found);
        let ValueDef::Result(inst, _) = func.dfg.value_def(value) else {
            return Ok(());
        };
        if func.layout.inst_block(inst) != Some(self.block) {
            return Ok(());
        }
        self.place(found.first_inst[inst].unwrap_or(inst))
    }
}
