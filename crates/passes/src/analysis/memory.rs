//! Versions of memory: two loads of one address give the same if the memory they read has the same
//! version.
//!
//! Memory is divided into classes that no access confuses: global, shared, local, and each stack
//! slot whose address does not escape. Within a class, a store changes everything. What orders
//! memory (atomics, volatile accesses, fences, barriers, warp operations, calls) changes all
//! classes but the slots that do not escape, which nobody else can see.
//!
//! At loop headers global and shared memory always get a new version, even if the loop stores
//! nothing: a program that waits by loading a flag again and again shall see it change, although a
//! plain load promises nothing of the kind.

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{
    Block, DeviceOp, Effect, Function, Inst, InstData, MemSem, Space, StackSlot, Value,
};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::analysis::cfg::Cfg;
use crate::analysis::slots::Slots;

/// One version per class.
pub type Versions = SmallVec<[u32; 4]>;

const GLOBAL: usize = 0;
const SHARED: usize = 1;
const LOCAL: usize = 2;
const N_SPACES: usize = 3;
/// Slots beyond that many share the class of local memory.
const MAX_SLOTS: usize = 13;

/// The versions at the start of each block, and what is needed to follow them through it.
pub struct Memory<'a> {
    slots: &'a Slots,
    slot_class: FxHashMap<StackSlot, usize>,
    at_start: SecondaryMap<Block, Versions>,
    n_versions: u32,
}

/// The classes that an access may touch.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Touched {
    /// No memory that can change.
    Nothing,
    /// One class.
    One(usize),
    /// Global, shared and local memory.
    Generic,
    /// The same, because the instruction orders memory.
    All,
}

/// Computes the versions.
pub fn run<'a>(func: &Function, cfg: &Cfg, slots: &'a Slots) -> Memory<'a> {
    let classes = func
        .slots
        .keys()
        .filter(|&slot| !slots.escapes[slot])
        .take(MAX_SLOTS);
    let slot_class: FxHashMap<_, _> = classes
        .enumerate()
        .map(|(i, slot)| (slot, N_SPACES + i))
        .collect();
    let n_classes = N_SPACES + slot_class.len();
    let mut memory = Memory {
        slots,
        slot_class,
        at_start: SecondaryMap::new(),
        n_versions: 1,
    };
    let clobbers = memory.clobbers(func, cfg, n_classes);
    let mut at_end: SecondaryMap<Block, Versions> = SecondaryMap::new();
    // The version that a block starts with if its predecessors disagree: a number of its own, known
    // beforehand.
    let own = |block: Block, class: usize| {
        1 + cfg.rpo_number(block) * 2 * n_classes as u32 + 2 * class as u32
    };
    memory.n_versions = 1 + cfg.rpo.len() as u32 * 2 * n_classes as u32;
    let mut merged: SecondaryMap<Block, SmallVec<[bool; 4]>> = SecondaryMap::new();
    let mut changed = true;
    while changed {
        changed = false;
        for &block in &cfg.rpo {
            if merged[block].is_empty() {
                merged[block] = starts_anew(cfg, block, n_classes);
            }
            let mut versions: Versions = SmallVec::new();
            for class in 0..n_classes {
                if !merged[block][class] {
                    let mut known = cfg.preds[block]
                        .iter()
                        .filter_map(|&pred| at_end[pred].get(class).copied());
                    let first = known.next();
                    merged[block][class] =
                        first.is_none() || known.any(|version| Some(version) != first);
                    versions.push(
                        first
                            .filter(|_| !merged[block][class])
                            .unwrap_or(own(block, class)),
                    );
                } else {
                    versions.push(own(block, class));
                }
            }
            let end: Versions = (0..n_classes)
                .map(|class| {
                    if clobbers[block][class] {
                        own(block, class) + 1
                    } else {
                        versions[class]
                    }
                })
                .collect();
            changed |= at_end[block] != end || memory.at_start[block] != versions;
            memory.at_start[block] = versions;
            at_end[block] = end;
        }
    }
    memory
}

/// The classes whose version at the start of a block is new in any case.
fn starts_anew(cfg: &Cfg, block: Block, n_classes: usize) -> SmallVec<[bool; 4]> {
    let is_root = cfg.roots.contains(&block);
    let is_loop = cfg.preds[block]
        .iter()
        .any(|&pred| cfg.rpo_number(pred) >= cfg.rpo_number(block));
    (0..n_classes)
        .map(|class| is_root || (is_loop && class < LOCAL))
        .collect()
}

impl Memory<'_> {
    /// The versions at the start of a block in reach.
    pub fn at_start(&self, block: Block) -> Versions {
        self.at_start[block].clone()
    }

    /// What an instruction reads, if it is a plain load.
    #[expect(clippy::wildcard_enum_match_arm, reason = "others read nothing")]
    pub fn read_by(&self, data: &InstData) -> Option<Touched> {
        match *data {
            InstData::Load {
                sem: MemSem::NonCoherent,
                ..
            } => Some(Touched::Nothing),
            InstData::Load {
                sem: MemSem::Weak,
                space,
                addr,
                ..
            } => Some(self.touched(space, addr)),
            _ => None,
        }
    }

    /// What an instruction may change.
    #[expect(clippy::wildcard_enum_match_arm, reason = "`effect` tells of the rest")]
    pub fn written_by(&self, data: &InstData) -> Touched {
        match *data {
            InstData::Store {
                sem: MemSem::Weak,
                space,
                addr,
                ..
            } => self.touched(space, addr),
            // Nobody else can see such a slot, so the order of accesses to it does not matter.
            InstData::Store { space, addr, .. } | InstData::Atomic { space, addr, .. }
                if self.touched(space, addr).is_private() =>
            {
                self.touched(space, addr)
            }
            InstData::Sreg { .. }
            | InstData::Nop
            | InstData::Count { .. }
            | InstData::Device {
                op: DeviceOp::Trace(_),
                ..
            }
            | InstData::StackSave
            | InstData::Alloca { .. } => Touched::Nothing,
            _ => match data.effect() {
                Effect::Pure | Effect::Read => Touched::Nothing,
                Effect::Write | Effect::Convergent => Touched::All,
            },
        }
    }

    fn touched(&self, space: Space, addr: Value) -> Touched {
        if let Some(pointer) = self.slots.pointer(addr) {
            return Touched::One(self.slot_class.get(&pointer.slot).copied().unwrap_or(LOCAL));
        }
        match space {
            Space::Global => Touched::One(GLOBAL),
            Space::Shared | Space::SharedCluster => Touched::One(SHARED),
            Space::Local => Touched::One(LOCAL),
            Space::Const | Space::Param => Touched::Nothing,
            Space::Generic => Touched::Generic,
        }
    }

    /// Gives what is touched new versions.
    pub fn change(&mut self, versions: &mut Versions, touched: Touched) {
        for (class, version) in versions.iter_mut().enumerate() {
            if touched.includes(class) {
                *version = self.n_versions;
                self.n_versions += 1;
            }
        }
    }

    /// The versions that decide what a load of `touched` gives.
    pub fn select(versions: &Versions, touched: Touched) -> [u32; N_SPACES] {
        match touched {
            Touched::Nothing => [0; N_SPACES],
            Touched::One(class) => [versions[class], 0, 0],
            Touched::Generic | Touched::All => {
                [versions[GLOBAL], versions[SHARED], versions[LOCAL]]
            }
        }
    }

    fn clobbers(
        &self,
        func: &Function,
        cfg: &Cfg,
        n_classes: usize,
    ) -> SecondaryMap<Block, SmallVec<[bool; 4]>> {
        let mut clobbers: SecondaryMap<Block, SmallVec<[bool; 4]>> = SecondaryMap::new();
        for &block in &cfg.rpo {
            let mut changed = SmallVec::from_elem(false, n_classes);
            let written = |&inst: &Inst| self.written_by(&func.insts[inst].data);
            for touched in func.blocks[block].insts.iter().map(written) {
                for (class, changed) in changed.iter_mut().enumerate() {
                    *changed |= touched.includes(class);
                }
            }
            clobbers[block] = changed;
        }
        clobbers
    }
}

impl Touched {
    /// Whether this is a slot that nobody else can see.
    fn is_private(self) -> bool {
        match self {
            Touched::One(class) => class >= N_SPACES,
            Touched::Nothing | Touched::Generic | Touched::All => false,
        }
    }

    fn includes(self, class: usize) -> bool {
        match self {
            Touched::Nothing => false,
            Touched::One(one) => one == class,
            Touched::Generic | Touched::All => class < N_SPACES,
        }
    }
}
