//! Removes block parameters that have the same value whichever way control comes.
//!
//! **Needs**: nothing. **Ensures**: no parameter gets but one value (or itself) in blocks that can
//! be reached.
//!
//! How: optimistic data flow over the parameters, as `remove_constant_phis` in Cranelift: a
//! parameter is unknown until a branch passes something, then that value, then *many*. Instructions
//! without operands (constants, addresses) count as one value however often they were written, and
//! are written once more where the parameter was.
//!
//! ```text
//! block0: v0 = const.b32 1; jump block1(v0)   block1(v1): brif v9, block1(v1), block2
//!   ==>   block0: v0 = const.b32 1; jump block1
//!         block1: v4 = const.b32 1; brif v9, block1, block2
//! ```

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Block, Effect, Function, Inst, InstData, SrcLoc, Value, ValueDef};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::analysis::cfg;
use crate::transform::rewrite::{self, Aliases};

/// Runs the pass; says whether something changed.
pub fn run(func: &mut Function) -> bool {
    // What passes around a loop may be out of date when it is looked at, and hide that a parameter
    // is constant until others are gone.
    let mut changed = false;
    for _ in 0..MAX_ROUNDS {
        if !round(func) {
            break;
        }
        changed = true;
    }
    changed
}

fn round(func: &mut Function) -> bool {
    let cfg = cfg::run(func);
    if cfg
        .rpo
        .iter()
        .all(|&block| block == func.entry || func.blocks[block].params.is_empty())
    {
        return false;
    }
    let mut flow = Flow {
        leaves: leaves(func),
        states: SecondaryMap::with_default(State::Unknown),
    };
    for &param in func.params() {
        flow.states[param] = State::Many;
    }
    for n_sweeps in 1.. {
        let mut changed = false;
        for &block in &cfg.rpo {
            if block != func.entry && !func.blocks[block].params.is_empty() {
                changed |= flow.visit(
                    func,
                    block,
                    &cfg.preds[block],
                    n_sweeps > MAX_PRECISE_SWEEPS,
                );
            }
        }
        if !changed {
            break;
        }
    }
    flow.rewrite(func)
}

const MAX_ROUNDS: u32 = 3;

/// From then on a parameter whose value changes counts as *many*, which bounds the time.
const MAX_PRECISE_SWEEPS: u32 = 8;

#[derive(Copy, Clone, PartialEq, Eq)]
enum State {
    Unknown,
    One(Value),
    Many,
}

struct Flow {
    /// The first result of an equal instruction without operands, for results of such.
    leaves: SecondaryMap<Value, State>,
    states: SecondaryMap<Value, State>,
}

/// Finds equal instructions without operands that can be repeated anywhere.
fn leaves(func: &Function) -> SecondaryMap<Value, State> {
    let mut first: FxHashMap<&InstData, Value> = FxHashMap::default();
    let mut leaves = SecondaryMap::with_default(State::Unknown);
    for data in func.blocks.values() {
        for &inst in &data.insts {
            if let Some(result) = leaf(func, inst) {
                leaves[result] = State::One(*first.entry(&func.insts[inst].data).or_insert(result));
            }
        }
    }
    leaves
}

fn leaf(func: &Function, inst: Inst) -> Option<Value> {
    let node = &func.insts[inst];
    match node.results.as_slice() {
        &[result] if node.data.effect() == Effect::Pure && node.data.args().is_empty() => {
            Some(result)
        }
        _ => None,
    }
}

impl Flow {
    /// What stands for a value passed as argument.
    fn resolve(&self, value: Value) -> State {
        match (self.states[value], self.leaves[value]) {
            (State::One(same), _) => State::One(same),
            (State::Unknown, State::One(same)) => State::One(same),
            (State::Unknown, _) => State::Unknown,
            (State::Many, _) => State::One(value),
        }
    }

    /// Looks at what branches into the block pass.
    fn visit(&mut self, func: &Function, block: Block, preds: &[Block], coarse: bool) -> bool {
        let params = &func.blocks[block].params;
        let mut new: SmallVec<[State; 8]> = SmallVec::from_elem(State::Unknown, params.len());
        for &pred in preds {
            for call in func.blocks[pred]
                .term
                .targets()
                .into_iter()
                .filter(|call| call.block == block)
            {
                for ((&arg, &param), state) in call.args.iter().zip(params).zip(&mut new) {
                    *state = self.meet(func, *state, arg, param);
                }
            }
        }
        let mut changed = false;
        for (&param, &new) in params.iter().zip(&new) {
            let old = self.states[param];
            let new = match old {
                State::Many => old,
                State::One(_) if coarse && new != old => State::Many,
                State::One(_) | State::Unknown => new,
            };
            changed |= new != old;
            self.states[param] = new;
        }
        changed
    }

    fn meet(&self, func: &Function, state: State, arg: Value, param: Value) -> State {
        let is_param = matches!(func.values[arg].def, ValueDef::Param(..));
        let passed = match self.resolve(arg) {
            // Nothing has reached that parameter yet.
            State::Unknown if is_param => return state,
            State::Unknown | State::Many => arg,
            State::One(value) => value,
        };
        // A parameter passed back to itself says nothing.
        if passed == param {
            return state;
        }
        match state {
            State::Unknown => State::One(passed),
            State::One(known) if known == passed => state,
            State::One(_) | State::Many => State::Many,
        }
    }

    fn rewrite(&self, func: &mut Function) -> bool {
        let mut aliases = Aliases::new();
        for block in func.blocks.keys() {
            if block == func.entry {
                continue;
            }
            let mut written = Vec::new();
            for idx in 0..func.blocks[block].params.len() {
                let param = func.blocks[block].params[idx];
                let State::One(value) = self.states[param] else {
                    continue;
                };
                let stand_in = match self.leaves[value] {
                    State::One(_) => repeat(func, value, &mut written),
                    State::Unknown | State::Many => value,
                };
                aliases.set(param, stand_in);
            }
            func.blocks[block].insts.splice(0..0, written);
        }
        if aliases.is_empty() {
            return false;
        }
        aliases.apply(func);
        rewrite::retain_params(func, |param| !matches!(self.states[param], State::One(_)))
    }
}

/// Writes the instruction that gives `value` once more.
fn repeat(func: &mut Function, value: Value, written: &mut Vec<Inst>) -> Value {
    let data = func.def_inst(value).expect("leaves are results").clone();
    let inst = func.make_inst(data, &[func.ty(value)], SrcLoc::default());
    written.push(inst);
    func.insts[inst].results[0]
}
