//! Merges stores of neighboring words by each lane into one interleaved store.
//!
//! `s[2 * t] = a; s[2 * t + 1] = b` fills contiguous memory from all lanes together, but each of
//! the two stores by itself skips every other word and would have to be done lane by lane. Where no
//! instruction between the two may access the place, the first becomes part of the second.

use ptxjit_ir::{
    Access, Block, DeviceOp, Effect, Function, Inst, InstData, IntBinaryOp, MemSem, Space, Type,
    Value,
};

use crate::analysis::divergence::Divergence;
use crate::analysis::variability::Variability;
use crate::cost;

/// Merges the stores of each group; returns the merged stores.
pub(crate) fn run(func: &mut Function, optimistic: &Divergence) -> Vec<Inst> {
    let mut merged = Vec::new();
    let blocks: Vec<Block> = func.blocks.keys().collect();
    for block in blocks {
        let mut at = 0;
        while at < func.blocks[block].insts.len() {
            match store_group(func, optimistic, block, at) {
                Some(store_group) => {
                    merge(func, block, &store_group);
                    merged.push(store_group.last);
                }
                None => at += 1,
            }
        }
    }
    merged
}

/// Bytes that an access touches: their distance from a root value, and how many they are.
#[derive(Copy, Clone)]
struct Place {
    space: Space,
    root: Value,
    from: i64,
    bytes: i64,
}

impl Place {
    fn may_overlap(&self, other: &Place) -> bool {
        let kind = |space: Space| match space {
            Space::Shared | Space::SharedCluster => Space::Shared,
            Space::Generic | Space::Global | Space::Local | Space::Const | Space::Param => space,
        };
        let (mine, theirs) = (kind(self.space), kind(other.space));
        if mine != theirs && ![mine, theirs].contains(&Space::Generic) {
            return false;
        }
        let ends_before = |a: &Place, b: &Place| a.from + a.bytes <= b.from;
        self.root != other.root || !ends_before(self, other) && !ends_before(other, self)
    }
}

/// A store of one word.
#[derive(Copy, Clone)]
struct Word {
    inst: Inst,
    place: Place,
}

/// The stores of a group, in the order of their places, and which of them stands last.
struct StoreGroup {
    words: Vec<Word>,
    last: Inst,
}

/// The group whose first store in the block is at a position.
fn store_group(
    func: &Function,
    optimistic: &Divergence,
    block: Block,
    at: usize,
) -> Option<StoreGroup> {
    let insts = &func.blocks[block].insts;
    let (first, ty, n_words) = word(func, optimistic, insts[at])?;
    let mut words = vec![first];
    for &inst in insts[at + 1..].iter().take(cost::MOST_BETWEEN) {
        let next = word(func, optimistic, inst).filter(|(word, ty_of_next, n_of_next)| {
            let alike = (*ty_of_next, *n_of_next) == (ty, n_words);
            let place = &word.place;
            alike && (place.space, place.root) == (first.place.space, first.place.root)
        });
        if words.iter().any(|word| may_meet(func, inst, &word.place)) {
            return None;
        }
        let Some((next, ..)) = next else {
            continue;
        };
        words.push(next);
        words.sort_by_key(|word| word.place.from);
        let lowest = words[0].place;
        let reach = words[words.len() - 1].place.from - lowest.from;
        if reach >= lowest.bytes * n_words {
            return None;
        }
        if words.len() as i64 == n_words {
            return Some(StoreGroup { words, last: inst });
        }
    }
    None
}

/// A store of a word with a stride of two or four words, with its type and the number of such
/// stores that fill the gaps.
fn word(func: &Function, optimistic: &Divergence, inst: Inst) -> Option<(Word, Type, i64)> {
    let InstData::Store {
        space,
        sem: MemSem::Weak,
        ty,
        addr,
        ref args,
        ..
    } = func.insts[inst].data
    else {
        return None;
    };
    let Some(Variability::Affine { stride, .. }) = optimistic.variability[addr] else {
        return None;
    };
    let bytes = i64::from(ty.bytes());
    let n_words = stride / bytes;
    let fills_vectors = matches!((ty, n_words), (Type::B32, 2 | 4) | (Type::B64, 2));
    let place =
        place(func, inst).filter(|_| args.len() == 1 && fills_vectors && stride % bytes == 0)?;
    debug_assert_eq!(place.space, space);
    Some((Word { inst, place }, ty, n_words))
}

/// Whether an instruction may access a place, or let other threads observe it.
#[expect(clippy::wildcard_enum_match_arm, reason = "`effect` tells of the rest")]
fn may_meet(func: &Function, inst: Inst, place: &Place) -> bool {
    let data = &func.insts[inst].data;
    match data {
        InstData::Store {
            sem: MemSem::Weak, ..
        } => {}
        InstData::Load { .. } | InstData::MaskedLoad { .. } if data.effect() == Effect::Read => {}
        InstData::Count { .. }
        | InstData::Device {
            op: DeviceOp::Trace(_),
            ..
        } => return false,
        _ => return data.effect() != Effect::Pure,
    }
    self::place(func, inst).is_none_or(|other| other.may_overlap(place))
}

/// What a load or store accesses.
fn place(func: &Function, inst: Inst) -> Option<Place> {
    let Access {
        space,
        addr,
        offset,
        bytes,
    } = func.insts[inst].data.access()?;
    let (root, distance) = from_root(func, addr);
    Some(Place {
        space,
        root,
        from: distance.wrapping_add(i64::from(offset)),
        bytes: i64::from(bytes),
    })
}

/// The value from which an address differs by a constant, and that constant.
pub(crate) fn from_root(func: &Function, addr: Value) -> (Value, i64) {
    match func.def_inst(addr) {
        Some(&InstData::IntBinary {
            op: IntBinaryOp::Add,
            ty: Type::B64,
            args: [a, b],
            ..
        }) if func.as_const(b).is_some() => {
            let (root, distance) = from_root(func, a);
            let more = func.as_const(b).map_or(0, |bits| bits as i64);
            (root, distance.wrapping_add(more))
        }
        _ => (addr, 0),
    }
}

/// Makes the last store one of the whole group, and removes the others.
fn merge(func: &mut Function, block: Block, store_group: &StoreGroup) {
    let values = store_group.words.iter().map(|word| {
        if let InstData::Store { args, .. } = &func.insts[word.inst].data {
            args[0]
        } else {
            unreachable!("rows are made of stores")
        }
    });
    let values = values.collect();
    let mut whole = func.insts[store_group.words[0].inst].data.clone();
    if let InstData::Store { args, .. } = &mut whole {
        *args = values;
    }
    func.insts[store_group.last].data = whole;
    let is_part = |inst: &Inst| store_group.words.iter().any(|word| word.inst == *inst);
    func.blocks[block]
        .insts
        .retain(|inst| *inst == store_group.last || !is_part(inst));
}
