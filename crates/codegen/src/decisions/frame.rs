//! Where a gang's lanes keep their values while they wait, and what the runtime must know of it.

use ptxjit_ir::{self as ir, Block, Function, InstData, Type, Value};
use ptxjit_vectorize::{Plan, Variability, Wait, WaitKind};

use crate::helpers::SlotLayout;
use crate::slots::lane_bytes;
use ptxjit_abi::Operand;

/// Where a gang's context slots lie.
#[derive(Default, Debug)]
pub(crate) struct Frame {
    /// Bytes per gang.
    pub size: u32,
    /// Of these, bytes of the slots of waits.
    pub slots: u32,
    /// Slots of each wait.
    pub waits: Vec<WaitSlots>,
}

/// The slots of one wait. Different waits use the same memory: a lane is at one of them at a time.
#[derive(Default, Debug)]
pub(crate) struct WaitSlots {
    /// Values and their offsets.
    pub saves: Vec<(Value, u32)>,
    /// Affine operands that the runtime reads lane by lane: saved values have only their bases.
    pub copies: Vec<(Value, u32)>,
    /// What the runtime reads.
    pub operands: Vec<Operand>,
    /// What the runtime writes.
    pub results: Vec<(Value, u32)>,
    /// Where the saved values and copies lie.
    pub(crate) layout: SlotLayout,
}

impl Frame {
    /// Lays out the slots. Values for which `is_elsewhere` holds are computed again or in the frame
    /// anyway.
    pub(crate) fn new(func: &Function, plan: &Plan, is_elsewhere: &dyn Fn(Value) -> bool) -> Frame {
        let lanes = plan.gang;
        let waits = plan.waits.iter();
        let needs: Vec<Needs> = waits
            .map(|wait| Needs::of(func, plan, wait, is_elsewhere))
            .collect();
        let count = |is_wide: bool| {
            let counts = needs.iter().map(|needs| needs.count(func, is_wide));
            counts.max().unwrap_or(0)
        };
        let wide_start = (count(false) * 4 * lanes).next_multiple_of(16);
        let slots = (wide_start + count(true) * 8 * lanes).next_multiple_of(64);
        let waits = needs.into_iter().zip(&plan.waits);
        let waits = waits.map(|(needs, wait)| needs.place(func, plan, wait, wide_start));
        Frame {
            size: slots,
            slots,
            waits: waits.collect(),
        }
    }
}

/// What a wait keeps in the frame.
struct Needs {
    /// Values that live on behind it, and its operands, in the order of the layout.
    values: Vec<Value>,
    /// Affine operands, which are there lane by lane as well.
    copies: Vec<Value>,
    results: Vec<Value>,
}

impl Needs {
    fn of(
        func: &Function,
        plan: &Plan,
        wait: &Wait,
        is_elsewhere: &dyn Fn(Value) -> bool,
    ) -> Needs {
        let results = match wait.kind {
            WaitKind::Inst(inst) => func.insts[inst].results.to_vec(),
            WaitKind::Entry | WaitKind::Ready | WaitKind::Yield | WaitKind::StripMine => Vec::new(),
        };
        let operands = || wait_operands(func, wait.kind).into_iter().flatten();
        let live = wait.live.iter().copied();
        let live = live.filter(|&value| !is_elsewhere(value) && !results.contains(&value));
        let variable = operands().filter(|&value| func.as_const(value).is_none());
        let mut values: Vec<Value> = live.chain(variable).collect();
        values.sort_unstable();
        values.dedup();
        values.sort_by_key(|&value| !is_shared(plan, value));
        let is_affine = |value: &Value| {
            plan.gang > 1 && matches!(plan.variability[*value], Variability::Affine { .. })
        };
        let mut copies: Vec<Value> = operands().filter(is_affine).collect();
        copies.sort_unstable();
        copies.dedup();
        Needs {
            values,
            copies,
            results,
        }
    }

    /// How many values have 64 bits, or how many have less.
    fn count(&self, func: &Function, is_wide: bool) -> u32 {
        let all = self.values.iter().chain(&self.copies).chain(&self.results);
        let counted = all.filter(|&&value| (func.ty(value) == Type::B64) == is_wide);
        counted.count() as u32
    }

    /// Gives each value its place: those of 64 bits have theirs from `wide_start` on.
    fn place(self, func: &Function, plan: &Plan, wait: &Wait, wide_start: u32) -> WaitSlots {
        let (mut narrow, mut wide) = (0, wide_start);
        let mut place = |value: Value| {
            let next = match func.ty(value) {
                Type::B64 => &mut wide,
                Type::B1 | Type::B8 | Type::B16 | Type::B32 => &mut narrow,
            };
            let at = *next;
            *next += lane_bytes(func.ty(value)) * plan.gang;
            (value, at)
        };
        let saves: Vec<(Value, u32)> = self.values.into_iter().map(&mut place).collect();
        let copies: Vec<(Value, u32)> = self.copies.into_iter().map(&mut place).collect();
        let results = self.results.into_iter().map(&mut place).collect();
        let operand = |value: Option<Value>| {
            let Some(value) = value else {
                return Operand::Const(0);
            };
            if let Some(bits) = func.as_const(value) {
                return Operand::Const(bits);
            }
            let mut places = copies.iter().chain(&saves);
            let place = places.find(|&&(saved, _)| saved == value);
            Operand::Slot {
                offset: place.expect("operands are saved").1,
                ty: func.ty(value),
            }
        };
        let operands = wait_operands(func, wait.kind);
        let operands = operands.into_iter().map(operand).collect();
        let layout = layout(func, plan, &saves, &copies, wide_start);
        WaitSlots {
            layout,
            saves,
            copies,
            operands,
            results,
        }
    }
}

fn layout(
    func: &Function,
    plan: &Plan,
    saves: &[(Value, u32)],
    copies: &[(Value, u32)],
    wide_start: u32,
) -> SlotLayout {
    let mut layout = SlotLayout {
        wide_start,
        ..SlotLayout::default()
    };
    let saves = saves.iter();
    let shared = saves.map(|&(value, _)| (value, is_shared(plan, value)));
    let copies = copies.iter().map(|&(value, _)| (value, false));
    for (value, is_shared) in shared.chain(copies) {
        let count = match (func.ty(value) == Type::B64, is_shared) {
            (false, true) => &mut layout.shared,
            (false, false) => &mut layout.own,
            (true, true) => &mut layout.wide_shared,
            (true, false) => &mut layout.wide_own,
        };
        *count = count.checked_add(1).expect("no thread has so many values");
    }
    layout
}

/// The operands that the runtime reads, in the order of the contract; none stands for zero.
#[expect(clippy::wildcard_enum_match_arm, reason = "others have none")]
fn wait_operands(func: &Function, kind: WaitKind) -> Vec<Option<Value>> {
    let WaitKind::Inst(inst) = kind else {
        return Vec::new();
    };
    match &func.insts[inst].data {
        InstData::Barrier {
            id, count, pred, ..
        } => {
            let mut operands = vec![Some(*id), *count];
            operands.extend(pred.map(Some));
            operands
        }
        InstData::Warp { args, .. } => args.iter().copied().map(Some).collect(),
        _ => Vec::new(),
    }
}

/// What the runtime must know about a wait.
#[expect(clippy::wildcard_enum_match_arm, reason = "no lane waits at others")]
pub(crate) fn resume_point(
    func: &Function,
    plan: &Plan,
    frame: &Frame,
    number: usize,
) -> ptxjit_abi::ResumePoint {
    use ptxjit_abi::{ResumeKind, ResumePoint};
    let wait = &plan.waits[number];
    let (kind, loc) = match wait.kind {
        WaitKind::Entry | WaitKind::Ready => (ResumeKind::Ready, first_loc(func, wait.block)),
        WaitKind::Yield => (ResumeKind::Yield, func.blocks[wait.block].term_loc),
        WaitKind::StripMine => (ResumeKind::StripMine, func.blocks[wait.block].term_loc),
        WaitKind::Inst(inst) => {
            let node = &func.insts[inst];
            let kind = match node.data {
                InstData::Barrier { op, aligned, .. } => ResumeKind::Barrier { op, aligned },
                InstData::Warp { op, sync, ty, .. } => ResumeKind::Warp { op, sync, ty },
                InstData::Nanosleep { .. } => ResumeKind::Yield,
                ref other => unreachable!("no lane waits at {other:?}"),
            };
            (kind, node.loc)
        }
    };
    let slots = &frame.waits[number];
    let is_live = |&&(value, _): &&(Value, u32)| wait.live.contains(&value);
    let is_one = |&&(value, _): &&(Value, u32)| plan.gang > 1 && is_shared(plan, value);
    let place = |&(value, at): &(Value, u32)| (at, func.ty(value));
    let live = slots.saves.iter().filter(is_live);
    let uniforms = live.chain(&slots.results).filter(is_one);
    ResumePoint {
        kind,
        loc,
        operands: slots.operands.clone(),
        results: slots.results.iter().map(place).collect(),
        uniforms: uniforms.map(place).collect(),
        shared: slots.saves.iter().filter(is_one).map(place).collect(),
        is_whole: wait.is_whole,
    }
}

/// Whether one scalar holds a value of all lanes.
pub(crate) fn is_shared(plan: &Plan, value: Value) -> bool {
    !plan.is_varying(value)
}

fn first_loc(func: &Function, block: Block) -> ir::SrcLoc {
    let first = func.insts_in(block).next();
    first.map_or(func.blocks[block].term_loc, |node| node.loc)
}
