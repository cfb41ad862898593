//! A small interpreter of one thread, to compare functions before and after a pass.

use std::collections::BTreeMap;

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{
    Block, BlockCall, Function, InstData, Space, SpecialReg, Terminator, Type, Value, eval,
};

/// What can be seen of a run from outside.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// Results, and the bytes of global and shared memory that are not zero.
    Returned(Vec<u64>, BTreeMap<u64, u8>),
    /// The function did not return in time.
    Endless,
}

/// Generic addresses at which the windows start.
const LOCAL: u64 = 1 << 40;
const SHARED: u64 = 2 << 40;

/// A cell of global memory that does not count: addresses of slots may be kept there, which passes
/// may change.
pub(crate) const HIDDEN: u64 = 0x8000;

/// Runs a function; calls, barriers and the like are not for this.
pub(crate) fn run(func: &Function, args: &[u64], fuel: u32) -> Outcome {
    let mut slots = SecondaryMap::new();
    let mut top = 0u64;
    for (slot, data) in &func.slots {
        slots[slot] = top;
        // Far apart, so that no access strays into another slot.
        top += u64::from(data.size) + 64;
    }
    let mut thread = Thread {
        func,
        values: SecondaryMap::new(),
        slots,
        memory: BTreeMap::new(),
    };
    for (&param, &arg) in func.params().iter().zip(args) {
        thread.values[param] = arg & func.ty(param).mask();
    }
    let mut block = func.entry;
    for _ in 0..fuel {
        for &inst in &func.blocks[block].insts {
            thread.step(inst);
        }
        match thread.next(block) {
            Ok(call) => block = thread.enter(&call),
            Err(results) => {
                let is_seen = |&(&at, &byte): &(&u64, &u8)| {
                    byte != 0
                        && !(LOCAL..SHARED).contains(&at)
                        && !(HIDDEN..HIDDEN + 8).contains(&at)
                };
                let memory = thread
                    .memory
                    .iter()
                    .filter(is_seen)
                    .map(|(&at, &byte)| (at, byte))
                    .collect();
                return Outcome::Returned(results, memory);
            }
        }
    }
    Outcome::Endless
}

struct Thread<'a> {
    func: &'a Function,
    values: SecondaryMap<Value, u64>,
    slots: SecondaryMap<ptxjit_ir::StackSlot, u64>,
    memory: BTreeMap<u64, u8>,
}

impl Thread<'_> {
    fn next(&self, block: Block) -> Result<BlockCall, Vec<u64>> {
        match &self.func.blocks[block].term {
            Terminator::Jump(call) => Ok(call.clone()),
            Terminator::Brif { cond, then_, else_ } => Ok(if self.values[*cond] != 0 {
                then_
            } else {
                else_
            }
            .clone()),
            Terminator::Switch {
                index,
                targets,
                default,
            } => Ok(targets
                .get(self.values[*index] as usize)
                .unwrap_or(default)
                .clone()),
            Terminator::Ret(values) => {
                Err(values.iter().map(|&value| self.values[value]).collect())
            }
            Terminator::Exit => Err(vec![u64::MAX]),
            Terminator::Trap(_) | Terminator::Dispatch(_) => Err(vec![u64::MAX - 1]),
        }
    }

    fn enter(&mut self, call: &BlockCall) -> Block {
        let args: Vec<u64> = call.args.iter().map(|&arg| self.values[arg]).collect();
        for (&param, arg) in self.func.blocks[call.block].params.iter().zip(args) {
            self.values[param] = arg;
        }
        call.block
    }

    fn address(&self, space: Space, addr: Value, offset: i32) -> u64 {
        let addr = match self.func.ty(addr) {
            Type::B32 => self.values[addr] as i32 as u64,
            Type::B1 | Type::B8 | Type::B16 | Type::B64 => self.values[addr],
        };
        addr.wrapping_add_signed(offset.into())
            .wrapping_add(window(space))
    }

    fn load(&self, at: u64, ty: Type) -> u64 {
        let byte = |i: u64| self.memory.get(&at.wrapping_add(i)).copied().unwrap_or(0);
        (0..u64::from(ty.bytes()))
            .map(|i| u64::from(byte(i)) << (8 * i))
            .sum::<u64>()
            & ty.mask()
    }

    fn store(&mut self, at: u64, ty: Type, bits: u64) {
        for i in 0..u64::from(ty.bytes()) {
            self.memory
                .insert(at.wrapping_add(i), (bits >> (8 * i)) as u8);
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the rest are pure")]
    fn step(&mut self, inst: ptxjit_ir::Inst) {
        let node = &self.func.insts[inst];
        let results = &node.results;
        match &node.data {
            InstData::Load {
                space,
                ty,
                addr,
                offset,
                ..
            } => {
                let at = self.address(*space, *addr, *offset);
                for (i, &result) in results.iter().enumerate() {
                    self.values[result] =
                        self.load(at.wrapping_add(i as u64 * u64::from(ty.bytes())), *ty);
                }
            }
            InstData::Store {
                space,
                ty,
                addr,
                offset,
                args,
                ..
            } => {
                let at = self.address(*space, *addr, *offset);
                for (i, &arg) in args.iter().enumerate() {
                    self.store(
                        at.wrapping_add(i as u64 * u64::from(ty.bytes())),
                        *ty,
                        self.values[arg],
                    );
                }
            }
            InstData::Fence { .. }
            | InstData::Prefetch { .. }
            | InstData::Count { .. }
            | InstData::Nop => {}
            data => {
                let args: Vec<u64> = data.args().iter().map(|&arg| self.values[arg]).collect();
                self.values[results[0]] = match *data {
                    InstData::Sreg {
                        sreg: SpecialReg::TidX,
                    } => 37,
                    InstData::Sreg {
                        sreg: SpecialReg::IsExplicitCluster,
                    } => 0,
                    InstData::StackAddr { slot, offset } => {
                        self.slots[slot].wrapping_add_signed(offset.into())
                    }
                    InstData::ToGeneric { space, .. } => args[0].wrapping_add(window(space)),
                    InstData::FromGeneric { space, .. } => args[0].wrapping_sub(window(space)),
                    _ => eval::inst(data, &args)
                        .unwrap_or_else(|| panic!("{data:?} is not for this interpreter")),
                };
            }
        }
    }
}

fn window(space: Space) -> u64 {
    match space {
        Space::Local => LOCAL,
        Space::Shared | Space::SharedCluster => SHARED,
        Space::Generic | Space::Global | Space::Const | Space::Param => 0,
    }
}
