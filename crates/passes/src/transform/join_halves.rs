//! Block parameters that hold the two halves of a word become one.
//!
//! Compilers that load the factors of a product of matrices an iteration ahead carry them around
//! the loop in registers of 16 bits, and put them together again in front of the product.
//!
//! **Needs**: `dce` after it, for what took the words apart. **Ensures**: no two parameters that
//! are only put together to a word get the halves of one word, or constants, from all branches.
//!
//! ```text
//! block1(v1: b16, v2: b16):                           block1(v5: b32):
//! v3 = uext.b32.b16 v1; v4 = uext.b32.b16 v2    ==>
//! v6 = shl.b32 v4, 16; v7 = or.b32 v3, v6; use v7     use v5
//! ```

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{
    Block, Function, Inst, InstData, IntBinaryOp, ResizeOp, SrcLoc, Terminator, Type, Value,
    ValueDef,
};

use crate::transform::rewrite::{self, Aliases};

/// Two parameters that are put together to a word, and of no other use.
#[derive(Clone)]
struct Pair {
    /// The places of the low one and of the high one among the parameters.
    places: [usize; 2],
    /// The word.
    whole: Value,
    /// The word, the parameters, and what is between them.
    gone: [Value; 6],
}

/// The pairs of each block.
type Pairs = SecondaryMap<Block, Vec<Pair>>;

/// Runs the pass; says whether something changed.
pub fn run(func: &mut Function) -> bool {
    let mut pairs = Pairs::new();
    find(func, &mut pairs);
    for data in func.blocks.values() {
        for call in data.term.targets() {
            pairs[call.block].retain(|pair| {
                let [low, high] = pair.places.map(|place| call.args[place]);
                word(func, low, high).is_some()
            });
        }
    }
    if pairs.values().all(Vec::is_empty) {
        return false;
    }
    for from in func.blocks.keys() {
        pass_words(func, from, &pairs);
    }
    let mut aliases = Aliases::new();
    let mut is_gone: SecondaryMap<Value, bool> = SecondaryMap::new();
    for block in func.blocks.keys() {
        for pair in &pairs[block] {
            aliases.set(pair.whole, func.add_param(block, Type::B32));
            pair.gone.iter().for_each(|&value| is_gone[value] = true);
        }
    }
    for block in func.blocks.keys() {
        let mut insts = std::mem::take(&mut func.blocks[block].insts);
        insts.retain(|&inst| {
            !func.insts[inst]
                .results
                .iter()
                .any(|&result| is_gone[result])
        });
        func.blocks[block].insts = insts;
    }
    aliases.apply(func);
    rewrite::retain_params(func, |param| !is_gone[param])
}

fn find(func: &Function, pairs: &mut Pairs) {
    let mut n_uses: SecondaryMap<Value, u32> = SecondaryMap::new();
    for data in func.blocks.values() {
        for &inst in &data.insts {
            func.insts[inst]
                .data
                .args()
                .iter()
                .for_each(|&arg| n_uses[arg] += 1);
        }
        data.term.for_each_arg(|arg| n_uses[arg] += 1);
    }
    for data in func.blocks.values() {
        for &inst in &data.insts {
            let Some((block, pair)) = pair(func, inst) else {
                continue;
            };
            let has_other_use = |&value: &Value| value != pair.whole && n_uses[value] != 1;
            if block != func.entry && !pair.gone.iter().any(has_other_use) {
                pairs[block].push(pair);
            }
        }
    }
}

/// The parameters that an instruction puts together.
fn pair(func: &Function, inst: Inst) -> Option<(Block, Pair)> {
    let InstData::IntBinary {
        op: IntBinaryOp::Or,
        ty: Type::B32,
        args: [a, b],
    } = func.insts[inst].data
    else {
        return None;
    };
    let whole = func.insts[inst].results[0];
    [(a, b), (b, a)].into_iter().find_map(|(below, above)| {
        let low = extended(func, below)?;
        let shifted = shifted(func, IntBinaryOp::Shl, above)?;
        let high = extended(func, shifted)?;
        let (ValueDef::Param(block, first), ValueDef::Param(other, second)) =
            (func.values[low].def, func.values[high].def)
        else {
            return None;
        };
        let pair = Pair {
            places: [first, second].map(|place| place as usize),
            whole,
            gone: [whole, below, above, shifted, low, high],
        };
        (block == other && low != high).then_some((block, pair))
    })
}

/// The 16 bits that a word is the extension of, by zeros.
fn extended(func: &Function, value: Value) -> Option<Value> {
    let Some(&InstData::Resize {
        op: ResizeOp::Uext,
        from: Type::B16,
        arg,
        ..
    }) = func.def_inst(value)
    else {
        return None;
    };
    Some(arg)
}

/// What a word is by a shift of 16.
fn shifted(func: &Function, wanted: IntBinaryOp, value: Value) -> Option<Value> {
    let Some(&InstData::IntBinary {
        op,
        ty: Type::B32,
        args: [arg, count],
    }) = func.def_inst(value)
    else {
        return None;
    };
    (op == wanted && func.as_const(count) == Some(16)).then_some(arg)
}

/// A word with given halves.
enum Word {
    Is(Value),
    Const(u64),
}

fn word(func: &Function, low: Value, high: Value) -> Option<Word> {
    if let (Some(low), Some(high)) = (func.as_const(low), func.as_const(high)) {
        return Some(Word::Const((low & 0xffff) | (high & 0xffff) << 16));
    }
    let (low, high) = (cut(func, low)?, cut(func, high)?);
    (shifted(func, IntBinaryOp::Ushr, high) == Some(low)).then_some(Word::Is(low))
}

/// The word whose low half a value is.
fn cut(func: &Function, value: Value) -> Option<Value> {
    let Some(&InstData::Resize {
        op: ResizeOp::Trunc,
        from: Type::B32,
        arg,
        ..
    }) = func.def_inst(value)
    else {
        return None;
    };
    Some(arg)
}

/// Passes the words of all pairs behind the other arguments.
fn pass_words(func: &mut Function, from: Block, pairs: &Pairs) {
    let mut term = std::mem::replace(&mut func.blocks[from].term, Terminator::Exit);
    for call in term.targets_mut() {
        for pair in &pairs[call.block] {
            let [low, high] = pair.places.map(|place| call.args[place]);
            let whole = match word(func, low, high) {
                Some(Word::Is(whole)) => whole,
                Some(Word::Const(bits)) => {
                    let ty = Type::B32;
                    let data = InstData::Const { ty, bits };
                    let inst = func.make_inst(data, &[ty], SrcLoc::default());
                    func.blocks[from].insts.push(inst);
                    func.insts[inst].results[0]
                }
                None => unreachable!("pairs are words on all branches"),
            };
            call.args.push(whole);
        }
    }
    func.blocks[from].term = term;
}
