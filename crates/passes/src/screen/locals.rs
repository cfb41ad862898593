//! Variables in local memory: whether accesses stay in them, and whether what is read was written.
//!
//! A variable that is checked for uses of what was never written has a *shadow*, a variable of the
//! same size whose bytes are ones where it was written. The shadow's place in memory follows from
//! the variable's, so an access to it is one instruction more, of the same form. All of this is
//! left to the pass that makes values of variables: where indices are constants, nothing remains.

use ptxjit_ir::{
    CompareOp, Function, Inst, InstData, MemSem, ResizeOp, Scope, Space, StackSlot, StackSlotData,
    Type, Value,
};
use rustc_hash::FxHashMap;

use super::admit::Wanted;
use super::instrument::Instrument;
use crate::analysis::cfg;
use crate::analysis::slots::{self, Form};

/// Bytes of variables that have shadows, which each thread clears when it begins.
const MOST_BYTES: u32 = 4096;

/// Bytes that one store clears.
const CLEARED: u32 = 32;

/// Variables of local memory, as they are checked.
#[derive(Clone, Debug, Default)]
pub(super) struct Locals {
    /// The variable that an access is meant for.
    pub(super) sites: FxHashMap<Inst, StackSlot>,
    shadows: FxHashMap<StackSlot, StackSlot>,
}

/// The variable of each access to local memory, if that can be told for all of them.
pub(super) fn follow(func: &Function) -> Result<FxHashMap<Inst, StackSlot>, &'static str> {
    let mut sites = FxHashMap::default();
    let cfg = cfg::run(func);
    let slots = slots::run(func, &cfg);
    if func.slots.keys().any(|slot| slots.escapes[slot]) {
        return Err("addresses of its variables in local memory are not followed");
    }
    let bytes = func.slots.values().map(|slot| u64::from(slot.size));
    if bytes.sum::<u64>() > MOST_BYTES.into() {
        return Err("it has large variables in local memory");
    }
    for &inst in cfg.rpo.iter().flat_map(|&block| &func.blocks[block].insts) {
        let data = &func.insts[inst].data;
        let Some(addr) = data.address() else {
            continue;
        };
        let pointer = slots.pointer(addr);
        let is_plain = matches!(
            data,
            InstData::Load {
                space: Space::Local,
                ..
            } | InstData::Store {
                space: Space::Local,
                ..
            }
        );
        match pointer {
            Some(pointer) if is_plain && pointer.form != Form::Generic => {
                sites.insert(inst, pointer.slot);
            }
            None if !is_plain => {}
            Some(_) | None => {
                return Err("it accesses local memory by other than its variables");
            }
        }
    }
    Ok(sites)
}

impl Locals {
    /// Adds shadows to a function whose variables are checked.
    pub(super) fn new(func: &mut Function, wanted: Wanted) -> Locals {
        if func.slots.is_empty() || !wanted.locals() {
            return Locals::default();
        }
        let sites = follow(func).expect("other programs are not admitted");
        let mut shadows = FxHashMap::default();
        if wanted.init {
            let slots: Vec<StackSlot> = func.slots.keys().collect();
            for slot in slots {
                let StackSlotData { size, .. } = func.slots[slot];
                let shadow = func.slots.push(StackSlotData {
                    size: size.next_multiple_of(CLEARED),
                    align: CLEARED,
                });
                shadows.insert(slot, shadow);
            }
        }
        Locals { sites, shadows }
    }
}

impl Instrument<'_> {
    /// Nothing has been written when the thread begins.
    pub(super) fn clear_shadows(&mut self) {
        let mut shadows: Vec<StackSlot> = self.locals.shadows.values().copied().collect();
        shadows.sort_unstable();
        let zero = self.emit.iconst(Type::B64, 0);
        for slot in shadows {
            let addr = self.slot_start(slot);
            let mut at = 0;
            while at < self.emit.func.slots[slot].size {
                let zeros = [zero; CLEARED as usize / 8];
                self.emit.store(Space::Local, (addr, at as i32), &zeros);
                at += CLEARED;
            }
        }
    }

    fn slot_start(&mut self, slot: StackSlot) -> Value {
        let data = InstData::StackAddr { slot, offset: 0 };
        self.emit.value(data, Type::B64)
    }

    /// Looks at an access to local memory.
    pub(super) fn local(&mut self, inst: Inst) {
        let Some(&slot) = self.locals.sites.get(&inst) else {
            return;
        };
        let (ty, n, addr, offset, is_store) = if let &InstData::Load {
            ty,
            n,
            addr,
            offset,
            ..
        } = &self.emit.func.insts[inst].data
        {
            (ty, u32::from(n), addr, offset, false)
        } else if let InstData::Store {
            ty,
            addr,
            offset,
            args,
            ..
        } = &self.emit.func.insts[inst].data
        {
            (*ty, args.len() as u32, *addr, *offset, true)
        } else {
            unreachable!("only loads and stores are followed")
        };
        let base = self.slot_start(slot);
        let is_narrow = self.emit.func.ty(addr) == Type::B32;
        let wide = match is_narrow {
            true => self.emit.resize(ResizeOp::Sext, addr, Type::B64),
            false => addr,
        };
        let from = self.emit.sub(wide, base);
        self.stays(
            from,
            offset,
            ty.bytes() * n,
            self.emit.func.slots[slot].size,
        );
        let Some(&shadow) = self.locals.shadows.get(&slot) else {
            return;
        };
        let shadow = self.slot_start(shadow);
        let mut distance = self.emit.sub(shadow, base);
        if is_narrow {
            distance = self.emit.resize(ResizeOp::Trunc, distance, Type::B32);
        }
        let addr = self.emit.add(addr, distance);
        let ones = self.emit.iconst(ty, ty.mask());
        if is_store {
            let args = vec![ones; n as usize];
            self.emit.store(Space::Local, (addr, offset), &args);
            return;
        }
        let data = InstData::Load {
            space: Space::Local,
            sem: MemSem::Weak,
            scope: Scope::Sys,
            ty,
            n: n as u8,
            addr,
            offset,
        };
        let load = self.emit.inst(data, &vec![ty; n as usize]);
        for idx in 0..n as usize {
            let written = self.emit.func.insts[load].results[idx];
            let cond = self.emit.compare(CompareOp::Ne, [written, ones]);
            self.suspect(cond);
        }
    }

    /// Suspects an access so far from the start of a variable if it is not inside.
    fn stays(&mut self, from: Value, offset: i32, bytes: u32, size: u32) {
        let last = i64::from(size) - i64::from(bytes);
        let offset = self.emit.iconst(Type::B64, i64::from(offset) as u64);
        let at = self.emit.add(from, offset);
        let cond = match u64::try_from(last) {
            Ok(last) => {
                let last = self.emit.iconst(Type::B64, last);
                self.emit.compare(CompareOp::Ugt, [at, last])
            }
            // It is larger than the variable.
            Err(_) => self.emit.iconst(Type::B1, 1),
        };
        self.suspect(cond);
    }
}
