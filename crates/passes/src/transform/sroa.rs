//! Makes SSA values of stack slots: scalar replacement of aggregates.
//!
//! **Needs**: `simplify` before, for constant addresses; nothing branches to the entry
//! (`cfg_cleanup`). **Ensures**: a slot that is only read and written by plain accesses at constant
//! offsets is gone; stores to slots that nobody reads are gone.
//!
//! Unoptimised code (`nvcc -O0`, `-G`) keeps every variable in local memory and passes arguments
//! through it, so everything else depends on this pass.
//!
//! How: a slot is cut into pieces at the boundaries of all accesses to it; each piece is a
//! variable. A wide load puts its pieces together, a wide store takes its value apart; `simplify`
//! removes such pairs. What was never stored is zero.
//!
//! ```text
//! v1 = addr ss0; store.local.b32 [v1+4], v0; v2 = load.local.b32 [v1+4]; ret v2   ==>   ret v0
//! ```

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{
    Block, Function, Inst, InstData, IntBinaryOp, MemSem, ResizeOp, SrcLoc, StackSlot, Type, Value,
};

use crate::analysis::cfg::{self, Cfg};
use crate::analysis::slots::{self, Slots};
use crate::transform::cfg_cleanup::clear_unreachable;
use crate::transform::rewrite::Aliases;
use crate::transform::ssa::Variables;

/// Runs the pass; says whether something changed.
pub fn run(func: &mut Function) -> bool {
    if func.slots.is_empty() {
        return false;
    }
    let cfg = cfg::run(func);
    let slots = slots::run(func, &cfg);
    let mut changed = remove_unread_stores(func, &cfg, &slots);
    let plans = plan(func, &cfg, &slots);
    if plans.values().all(|plan| plan.pieces.is_empty()) {
        return changed;
    }
    // New parameters are served by the branches in reach only.
    clear_unreachable(func, &cfg);
    let types = plans
        .values()
        .flat_map(|plan| plan.pieces.iter().map(|piece| piece.ty))
        .collect();
    let mut promotion = Promotion {
        slots: &slots,
        plans: &plans,
        vars: Variables::new(&cfg, types),
        aliases: Aliases::new(),
    };
    for &block in &cfg.rpo {
        promotion.visit(func, block);
        changed = true;
    }
    let Promotion {
        vars, mut aliases, ..
    } = promotion;
    vars.finish(func);
    aliases.apply(func);
    changed
}

/// Slots with more pieces stay in memory.
const MAX_PIECES: usize = 1024;

/// How a slot becomes variables.
#[derive(Clone, Default)]
struct Plan {
    /// In order; empty if the slot stays.
    pieces: Vec<Piece>,
}

#[derive(Copy, Clone)]
struct Piece {
    offset: u32,
    ty: Type,
    var: u32,
}

/// The plain access to a slot that stays within it, if an instruction is one: slot, offset, element
/// type, number of elements.
#[expect(clippy::wildcard_enum_match_arm, reason = "others are not plain")]
fn access(func: &Function, slots: &Slots, data: &InstData) -> Option<(StackSlot, u32, Type, u32)> {
    let (addr, offset, ty, n) = match data {
        InstData::Load {
            sem: MemSem::Weak,
            addr,
            offset,
            ty,
            n,
            ..
        } => (*addr, *offset, *ty, u32::from(*n)),
        InstData::Store {
            sem: MemSem::Weak,
            addr,
            offset,
            ty,
            args,
            ..
        } => (*addr, *offset, *ty, args.len() as u32),
        _ => return None,
    };
    let pointer = slots.pointer(addr)?;
    let start = u32::try_from(pointer.offset?.checked_add(offset.into())?).ok()?;
    let end = start.checked_add(ty.bytes() * n)?;
    (end <= func.slots[pointer.slot].size).then_some((pointer.slot, start, ty, n))
}

/// Removes plain stores to slots that are never read.
fn remove_unread_stores(func: &mut Function, cfg: &Cfg, slots: &Slots) -> bool {
    let is_plain_store = |data: &InstData| {
        matches!(
            data,
            InstData::Store {
                sem: MemSem::Weak,
                ..
            }
        )
    };
    let mut is_read: SecondaryMap<StackSlot, bool> = SecondaryMap::new();
    let insts = || {
        cfg.rpo
            .iter()
            .flat_map(|&block| &func.blocks[block].insts)
            .map(|&inst| &func.insts[inst].data)
    };
    for data in insts().filter(|data| !is_plain_store(data)) {
        if let Some(pointer) = data.address().and_then(|addr| slots.pointer(addr)) {
            is_read[pointer.slot] = true;
        }
    }
    let mut changed = false;
    for &block in &cfg.rpo {
        let mut insts = std::mem::take(&mut func.blocks[block].insts);
        let n_before = insts.len();
        insts.retain(|&inst| {
            let data = &func.insts[inst].data;
            let slot = data
                .address()
                .and_then(|addr| slots.pointer(addr))
                .map(|pointer| pointer.slot);
            !(is_plain_store(data) && slot.is_some_and(|slot| !is_read[slot]))
        });
        changed |= insts.len() != n_before;
        func.blocks[block].insts = insts;
    }
    changed
}

fn plan(func: &Function, cfg: &Cfg, slots: &Slots) -> SecondaryMap<StackSlot, Plan> {
    let mut spans: SecondaryMap<StackSlot, Vec<(u32, u32)>> = SecondaryMap::new();
    let mut stays = slots.escapes.clone();
    for &block in &cfg.rpo {
        for &inst in &func.blocks[block].insts {
            let data = &func.insts[inst].data;
            let Some(pointer) = data.address().and_then(|addr| slots.pointer(addr)) else {
                continue;
            };
            match access(func, slots, data) {
                Some((slot, start, ty, n)) => {
                    spans[slot].extend(
                        (0..n).map(|i| (start + i * ty.bytes(), start + (i + 1) * ty.bytes())),
                    );
                }
                None => stays[pointer.slot] = true,
            }
        }
    }
    let mut plans: SecondaryMap<StackSlot, Plan> = SecondaryMap::new();
    let mut n_vars = 0;
    for slot in func.slots.keys().filter(|&slot| !stays[slot]) {
        let pieces = cut(&mut spans[slot]);
        if pieces.len() <= MAX_PIECES {
            let number = |(i, (offset, ty))| Piece {
                offset,
                ty,
                var: n_vars + i as u32,
            };
            plans[slot].pieces = pieces.into_iter().enumerate().map(number).collect();
            n_vars += plans[slot].pieces.len() as u32;
        }
    }
    plans
}

/// Cuts the bytes that are accessed at all boundaries, so that each access is a row of pieces.
fn cut(spans: &mut Vec<(u32, u32)>) -> Vec<(u32, Type)> {
    spans.sort_unstable();
    spans.dedup();
    let mut bounds: Vec<u32> = spans
        .iter()
        .flat_map(|&(start, end)| [start, end])
        .collect();
    bounds.sort_unstable();
    bounds.dedup();
    let mut pieces = Vec::new();
    let mut covered = 0;
    let mut next = 0;
    for pair in bounds.windows(2) {
        while next < spans.len() && spans[next].0 <= pair[0] {
            covered = covered.max(spans[next].1);
            next += 1;
        }
        let mut at = pair[0];
        while at < pair[1].min(covered) {
            let room = pair[1] - at;
            let bytes = [8, 4, 2, 1]
                .into_iter()
                .find(|&bytes| bytes <= room)
                .expect("one byte fits");
            pieces.push((at, Type::from_bytes(bytes).expect("a power of two")));
            at += bytes;
        }
    }
    pieces
}

struct Promotion<'a> {
    slots: &'a Slots,
    plans: &'a SecondaryMap<StackSlot, Plan>,
    vars: Variables<'a>,
    aliases: Aliases,
}

impl Promotion<'_> {
    fn visit(&mut self, func: &mut Function, block: Block) {
        let insts = std::mem::take(&mut func.blocks[block].insts);
        let mut kept = Vec::with_capacity(insts.len());
        for inst in insts {
            match access(func, self.slots, &func.insts[inst].data) {
                Some((slot, start, ty, _)) if !self.plans[slot].pieces.is_empty() => {
                    self.replace(func, block, inst, (slot, start, ty), &mut kept);
                }
                _ => kept.push(inst),
            }
        }
        // Reading may have put constants at the start of the entry.
        func.blocks[block].insts.extend(kept);
    }

    fn replace(
        &mut self,
        func: &mut Function,
        block: Block,
        inst: Inst,
        (slot, start, ty): (StackSlot, u32, Type),
        out: &mut Vec<Inst>,
    ) {
        let loc = func.insts[inst].loc;
        let stored = if let InstData::Store { args, .. } = &func.insts[inst].data {
            Some(args.clone())
        } else {
            None
        };
        match stored {
            Some(args) => {
                for (i, arg) in args.into_iter().enumerate() {
                    let at = start + i as u32 * ty.bytes();
                    let arg = self.aliases.resolve(arg);
                    let mut emit = Emit { func, out, loc };
                    for piece in pieces_at(self.plans, slot, at, ty) {
                        let part = emit.take(arg, ty, piece.offset - at, piece.ty);
                        self.vars.write(block, piece.var, part);
                    }
                }
            }
            None => {
                for i in 0..func.insts[inst].results.len() {
                    let at = start + i as u32 * ty.bytes();
                    let mut whole = None;
                    for piece in pieces_at(self.plans, slot, at, ty) {
                        let part = self.vars.read(func, block, piece.var);
                        let mut emit = Emit { func, out, loc };
                        whole = Some(emit.put(whole, part, ty, piece.offset - at, piece.ty));
                    }
                    let result = func.insts[inst].results[i];
                    self.aliases
                        .set(result, whole.expect("each access covers a piece"));
                }
            }
        }
    }
}

fn pieces_at(
    plans: &SecondaryMap<StackSlot, Plan>,
    slot: StackSlot,
    at: u32,
    ty: Type,
) -> &[Piece] {
    let pieces = &plans[slot].pieces;
    let from = pieces.partition_point(|piece| piece.offset < at);
    let to = pieces.partition_point(|piece| piece.offset < at + ty.bytes());
    &pieces[from..to]
}

struct Emit<'a> {
    func: &'a mut Function,
    out: &'a mut Vec<Inst>,
    loc: SrcLoc,
}

impl Emit<'_> {
    fn ins(&mut self, data: InstData, ty: Type) -> Value {
        let inst = self.func.make_inst(data, &[ty], self.loc);
        self.out.push(inst);
        self.func.insts[inst].results[0]
    }

    fn shift(&mut self, op: IntBinaryOp, value: Value, ty: Type, bytes: u32) -> Value {
        if bytes == 0 {
            return value;
        }
        let count = self.ins(
            InstData::Const {
                ty: Type::B32,
                bits: u64::from(8 * bytes),
            },
            Type::B32,
        );
        self.ins(
            InstData::IntBinary {
                op,
                ty,
                args: [value, count],
            },
            ty,
        )
    }

    /// The part of `value` at a byte offset.
    fn take(&mut self, value: Value, ty: Type, offset: u32, part: Type) -> Value {
        if part.bytes() == ty.bytes() {
            return self.resize(value, ty, part);
        }
        let shifted = self.shift(IntBinaryOp::Ushr, value, ty, offset);
        self.resize(shifted, ty, part)
    }

    /// `whole` with the part at a byte offset, where it was zero.
    fn put(
        &mut self,
        whole: Option<Value>,
        part: Value,
        ty: Type,
        offset: u32,
        part_ty: Type,
    ) -> Value {
        let wide = self.resize(part, part_ty, ty);
        let placed = self.shift(IntBinaryOp::Shl, wide, ty, offset);
        match whole {
            Some(whole) => self.ins(
                InstData::IntBinary {
                    op: IntBinaryOp::Or,
                    ty,
                    args: [whole, placed],
                },
                ty,
            ),
            None => placed,
        }
    }

    /// Zero-extends or truncates.
    fn resize(&mut self, value: Value, from: Type, to: Type) -> Value {
        let op = match from.cmp(&to) {
            std::cmp::Ordering::Less => ResizeOp::Uext,
            std::cmp::Ordering::Equal => return value,
            std::cmp::Ordering::Greater => ResizeOp::Trunc,
        };
        self.ins(
            InstData::Resize {
                op,
                from,
                to,
                arg: value,
            },
            to,
        )
    }
}
