//! Where lanes wait, and what they must save.

use std::collections::VecDeque;
use std::vec::IntoIter;

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{
    Block, BlockCall, BlockData, Class, Function, Inst, InstData, Terminator, Value, WarpOp,
};

use crate::analysis::liveness::Liveness;
use crate::{Node, Plan, Yield};

/// Why lanes stop at a wait.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum WaitKind {
    /// The kernel's start.
    Entry,
    /// A place that another wait continues at: after a call, or a function's start.
    Ready,
    /// The block's first instruction waits.
    Inst(Inst),
    /// The end of the loop with this header lets other threads run, since the loop may wait for
    /// them.
    Yield,
    /// The end of the loop with this header lets the other gangs run their strips.
    StripMine,
}

/// A place where lanes wait: the start of a block.
#[derive(Clone, Debug)]
pub struct Wait {
    /// The block.
    pub block: Block,
    /// Why.
    pub kind: WaitKind,
    /// Values to save and restore, parameters of the block included.
    pub live: Vec<Value>,
    /// Whether code behind counts on all lanes of the warp going on together, though they may come
    /// diverged.
    pub is_whole: bool,
}

impl Wait {
    /// Whether lanes wait at the block's first instruction.
    pub fn is_at_inst(&self) -> bool {
        matches!(self.kind, WaitKind::Inst(_))
    }
}

/// Splits blocks so that every instruction that can wait is the first of its block. Returns those
/// blocks.
pub(crate) fn split(func: &mut Function, gang: u32) -> SecondaryMap<Block, bool> {
    let mut waits = SecondaryMap::new();
    let insts = |data: &mut BlockData| std::mem::take(&mut data.insts).into_iter();
    let blocks = func.blocks.iter_mut();
    let mut work: VecDeque<(Block, IntoIter<Inst>)> =
        blocks.map(|(block, data)| (block, insts(data))).collect();
    while let Some((block, mut rest)) = work.pop_front() {
        while let Some(&inst) = rest.as_slice().first() {
            // The first instruction of a new block is the one that it was split at.
            let is_first = waits[block] && func.blocks[block].insts.is_empty();
            if !is_first && can_wait(&func.insts[inst].data, gang) {
                let tail = split_behind(func, block);
                waits[tail] = true;
                work.push_back((tail, rest));
                break;
            }
            func.blocks[block].insts.extend(rest.next());
        }
    }
    waits
}

/// Ends a block with a jump to a new one, which gets its terminator.
fn split_behind(func: &mut Function, block: Block) -> Block {
    let tail = func.new_block();
    let data = &mut func.blocks[block];
    let term = std::mem::replace(&mut data.term, Terminator::Jump(BlockCall::new(tail)));
    let loc = data.term_loc;
    let tail_data = &mut func.blocks[tail];
    (tail_data.term, tail_data.term_loc) = (term, loc);
    tail
}

/// Whether lanes may have to wait at an instruction.
pub(crate) fn can_wait(data: &InstData, gang: u32) -> bool {
    match data.class() {
        // Programs expect the whole warp to be active where it has not diverged: gangs narrower
        // than a warp wait for the rest of it.
        Class::Convergent => gang < 32 || !is_active_mask(data),
        Class::Order => matches!(data, InstData::Nanosleep { .. }),
        Class::Constant
        | Class::Arithmetic
        | Class::Window
        | Class::Place
        | Class::Access
        | Class::Call
        | Class::Device(_)
        | Class::Stack => false,
    }
}

fn is_active_mask(data: &InstData) -> bool {
    matches!(data, InstData::Warp { op, .. } if *op == WarpOp::ActiveMask)
}

/// Numbers the waits: the entry, the extra entries, then the others in layout order.
pub(crate) fn number(
    func: &Function,
    plan: &mut Plan,
    entries: &[Block],
    inst_waits: &SecondaryMap<Block, bool>,
    live: &Liveness,
) {
    plan.waits.push(Wait {
        block: func.entry,
        kind: WaitKind::Entry,
        live: Vec::new(),
        is_whole: false,
    });
    for &block in entries {
        push(func, plan, block, WaitKind::Ready, live);
    }
    for node in plan.order.nodes.clone() {
        let (block, kind) = match node {
            Node::Block(block) if inst_waits[block] => {
                (block, WaitKind::Inst(func.blocks[block].insts[0]))
            }
            Node::Block(_) => continue,
            Node::LoopEnd(header) => match plan.yields[header] {
                Some(Yield::Spin(_)) => (header, WaitKind::Yield),
                Some(Yield::StripMine(_)) => (header, WaitKind::StripMine),
                None => continue,
            },
        };
        push(func, plan, block, kind, live);
    }
}

fn push(func: &Function, plan: &mut Plan, block: Block, kind: WaitKind, live: &Liveness) {
    plan.wait_of[block] = Some(plan.waits.len() as u32);
    let params = func.blocks[block].params.iter();
    plan.waits.push(Wait {
        block,
        kind,
        live: params.chain(&live.live_in[block]).copied().collect(),
        is_whole: false,
    });
}
