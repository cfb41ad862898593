//! Merges stores of neighboring words by each lane into one interleaved store.
//!
//! `s[2 * t] = a; s[2 * t + 1] = b` fills contiguous memory from all lanes together, but each of
//! the two stores by itself skips every other word and would have to be done lane by lane. Where no
//! instruction between the two may access the place, the first becomes part of the second.

use ptxjit_ir::{
    Block, DeviceOp, Effect, Function, Inst, InstData, IntBinaryOp, MemSem, Space, Type, Value,
};

use crate::analysis::divergence::Divergence;
use crate::cost;

/// Merges the stores of each group; returns the merged stores.
pub(crate) fn run(func: &mut Function, optimistic: &Divergence) -> Vec<Inst> {
    let mut merged = Vec::new();
    for block in func.blocks.keys().collect::<Vec<_>>() {
        let mut at = 0;
        while at < func.blocks[block].insts.len() {
            match group(func, optimistic, block, at) {
                Some(group) => {
                    merge(func, block, &group);
                    merged.push(group.last);
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
        let may_meet = mine == theirs || [mine, theirs].contains(&Space::Generic);
        let ends_before = |a: &Place, b: &Place| a.from + a.bytes <= b.from;
        let is_before = ends_before(self, other) || ends_before(other, self);
        may_meet && (self.root != other.root || !is_before)
    }
}

/// A store of one word.
#[derive(Copy, Clone)]
struct Word {
    inst: Inst,
    place: Place,
    ty: Type,
    /// The number of such stores that fill the gaps between those of the lanes.
    n_words: i64,
}

impl Word {
    /// Whether two stores can be of one group.
    fn is_beside(&self, other: &Word) -> bool {
        let kind = |word: &Word| (word.ty, word.n_words, word.place.space, word.place.root);
        kind(self) == kind(other)
    }
}

/// The stores of a group, in the order of their places, and which of them stands last.
struct StoreGroup {
    words: Vec<Word>,
    last: Inst,
}

/// The group whose first store in the block is at a position.
fn group(func: &Function, optimistic: &Divergence, block: Block, at: usize) -> Option<StoreGroup> {
    let insts = &func.blocks[block].insts;
    let first = word(func, optimistic, insts[at])?;
    let mut words = vec![first];
    for &inst in insts[at + 1..].iter().take(cost::MOST_BETWEEN) {
        if words.iter().any(|word| may_meet(func, inst, &word.place)) {
            return None;
        }
        let next = word(func, optimistic, inst);
        let Some(next) = next.filter(|next| next.is_beside(&first)) else {
            continue;
        };
        words.push(next);
        words.sort_by_key(|word| word.place.from);
        let lowest = words[0].place;
        let reach = words[words.len() - 1].place.from - lowest.from;
        if reach >= lowest.bytes * first.n_words {
            return None;
        }
        if words.len() as i64 == first.n_words {
            return Some(StoreGroup { words, last: inst });
        }
    }
    None
}

/// A store of a word with a stride of two or four words.
fn word(func: &Function, optimistic: &Divergence, inst: Inst) -> Option<Word> {
    let InstData::Store {
        sem: MemSem::Weak,
        ty,
        addr,
        ref args,
        ..
    } = func.insts[inst].data
    else {
        return None;
    };
    let stride = optimistic.variability(addr).stride()?;
    let bytes = i64::from(ty.bytes());
    let n_words = stride / bytes;
    let fills_vectors = matches!((ty, n_words), (Type::B32, 2 | 4) | (Type::B64, 2));
    let is_word = args.len() == 1 && fills_vectors && stride % bytes == 0;
    let place = place(func, inst).filter(|_| is_word)?;
    Some(Word {
        inst,
        place,
        ty,
        n_words,
    })
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
    let access = func.insts[inst].data.access()?;
    let (root, distance) = from_root(func, access.addr);
    Some(Place {
        space: access.space,
        root,
        from: distance.wrapping_add(access.offset.into()),
        bytes: access.bytes.into(),
    })
}

/// The value from which an address differs by a constant, and that constant.
pub(crate) fn from_root(func: &Function, addr: Value) -> (Value, i64) {
    if let Some((IntBinaryOp::Add, Type::B64, [a, b])) = func.as_binary(addr)
        && let Some(bits) = func.as_const(b)
    {
        let (root, distance) = from_root(func, a);
        return (root, distance.wrapping_add(bits as i64));
    }
    (addr, 0)
}

/// Makes the last store one of the whole group, and removes the others.
fn merge(func: &mut Function, block: Block, group: &StoreGroup) {
    let stores: Vec<Inst> = group.words.iter().map(|word| word.inst).collect();
    let mut whole = func.insts[stores[0]].data.clone();
    if let InstData::Store { args: all, .. } = &mut whole {
        all.clear();
        for &store in &stores {
            if let InstData::Store { args, .. } = &func.insts[store].data {
                all.extend_from_slice(args);
            }
        }
    }
    func.insts[group.last].data = whole;
    let insts = &mut func.blocks[block].insts;
    insts.retain(|inst| *inst == group.last || !stores.contains(inst));
}
