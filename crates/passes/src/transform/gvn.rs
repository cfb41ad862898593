//! Computes equal things once: global value numbering, with redundant loads and loads of what was
//! just stored.
//!
//! **Needs**: nothing; `simplify` before makes more things equal. **Ensures**: no pure instruction
//! is dominated by an equal one, and no plain load by an equal load or store of the same version of
//! memory (see `analysis::memory`). Nothing moves.
//!
//! How: a walk down the dominator tree with a table of what was computed above (Briggs, Cooper and
//! Simpson, "Value Numbering", 1997). An entry that does not dominate the block at hand is out of
//! date and is overwritten.
//!
//! ```text
//! v2 = iadd.b32 v0, v1; v3 = iadd.b32 v1, v0; store [v9], v3
//!   ==>   v2 = iadd.b32 v0, v1; store [v9], v2
//! ```

use ptxjit_ir::{
    Block, Effect, FloatBinaryOp, FloatFmt, Function, Inst, InstData, IntBinaryOp, MemSem, Scope,
    Value,
};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::analysis::dominators::DomTree;
use crate::analysis::memory::{Memory, Touched, Versions};
use crate::analysis::{cfg, dominators, memory, slots};
use crate::transform::rewrite::Aliases;

/// Runs the pass; says whether something changed.
pub fn run(func: &mut Function) -> bool {
    let cfg = cfg::run(func);
    let dom = dominators::run(&cfg);
    let slots = slots::run(func, &cfg);
    let memory = memory::run(func, &cfg, &slots);
    let mut numbering = Numbering {
        dom: &dom,
        memory,
        table: FxHashMap::with_capacity_and_hasher(func.insts.len(), Default::default()),
        aliases: Aliases::new(),
    };
    for &block in dom.preorder() {
        numbering.visit(func, block);
    }
    let Numbering { mut aliases, .. } = numbering;
    let changed = !aliases.is_empty();
    aliases.apply(func);
    changed
}

/// The operation and its operands, and the versions of the memory that it reads.
type Key = (InstData, [u32; 3]);

struct Known {
    block: Block,
    values: SmallVec<[Value; 4]>,
}

struct Numbering<'a> {
    dom: &'a DomTree,
    memory: Memory<'a>,
    table: FxHashMap<Key, Known>,
    aliases: Aliases,
}

impl Numbering<'_> {
    fn visit(&mut self, func: &mut Function, block: Block) {
        let mut versions = self.memory.at_start(block);
        let mut insts = std::mem::take(&mut func.blocks[block].insts);
        insts.retain(|&inst| {
            for arg in func.insts[inst].data.args_mut() {
                *arg = self.aliases.resolve(*arg);
            }
            !self.number(func, block, inst, &mut versions)
        });
        func.blocks[block].insts = insts;
        self.aliases.apply_to_end(func, block);
    }

    /// Whether the instruction's results are known already.
    fn number(
        &mut self,
        func: &Function,
        block: Block,
        inst: Inst,
        versions: &mut Versions,
    ) -> bool {
        let node = &func.insts[inst];
        let key = if node.data.effect() == Effect::Pure {
            (canonical(&node.data), [0; 3])
        } else if let Some(touched) = self.memory.read_by(&node.data) {
            (canonical(&node.data), Memory::select(versions, touched))
        } else {
            let touched = self.memory.written_by(&node.data);
            self.memory.change(versions, touched);
            self.remember_store(&node.data, block, touched, versions);
            return false;
        };
        if let Some(known) = self.table.get(&key)
            && self.dom.dominates(known.block, block)
        {
            for (&result, &value) in node.results.iter().zip(&known.values) {
                self.aliases.set(result, value);
            }
            return true;
        }
        self.table.insert(
            key,
            Known {
                block,
                values: node.results.iter().copied().collect(),
            },
        );
        false
    }

    /// A plain store tells what a load of the same place would give now.
    fn remember_store(
        &mut self,
        data: &InstData,
        block: Block,
        touched: Touched,
        versions: &Versions,
    ) {
        if let InstData::Store {
            space,
            sem: MemSem::Weak,
            scope,
            ty,
            addr,
            offset,
            args,
        } = data
        {
            let (space, scope, ty, addr, offset) = (*space, *scope, *ty, *addr, *offset);
            let load = InstData::Load {
                space,
                sem: MemSem::Weak,
                scope,
                ty,
                n: args.len() as u8,
                addr,
                offset,
            };
            let key = (canonical(&load), Memory::select(versions, touched));
            self.table.insert(
                key,
                Known {
                    block,
                    values: args.iter().copied().collect(),
                },
            );
        }
    }
}

/// Equal for instructions that compute the same.
#[expect(clippy::wildcard_enum_match_arm, reason = "others have one form")]
fn canonical(data: &InstData) -> InstData {
    let mut data = data.clone();
    match &mut data {
        InstData::IntBinary { op, args, .. } if is_commutative(*op) => args.sort_unstable(),
        // In f64 the order tells which NaN is kept.
        InstData::FloatBinary {
            op: FloatBinaryOp::Add | FloatBinaryOp::Mul,
            fmt,
            args,
            ..
        } if *fmt != FloatFmt::F64 => args.sort_unstable(),
        InstData::Fma { fmt, args, .. } if *fmt != FloatFmt::F64 && args[1] < args[0] => {
            args.swap(0, 1)
        }
        InstData::Compare { op, args, .. } if args[1] < args[0] => {
            args.swap(0, 1);
            *op = op.swapped();
        }
        // Nobody asks for the scope of a plain load.
        InstData::Load { scope, .. } => *scope = Scope::Sys,
        _ => {}
    }
    data
}

/// Whether the operands may change places.
pub(crate) fn is_commutative(op: IntBinaryOp) -> bool {
    match op {
        IntBinaryOp::Add
        | IntBinaryOp::Mul
        | IntBinaryOp::UmulHi
        | IntBinaryOp::SmulHi
        | IntBinaryOp::UmulWide
        | IntBinaryOp::SmulWide
        | IntBinaryOp::And
        | IntBinaryOp::Or
        | IntBinaryOp::Xor
        | IntBinaryOp::Smin
        | IntBinaryOp::Smax
        | IntBinaryOp::Umin
        | IntBinaryOp::Umax
        | IntBinaryOp::SaddSat => true,
        IntBinaryOp::Sub
        | IntBinaryOp::Udiv
        | IntBinaryOp::Sdiv
        | IntBinaryOp::Urem
        | IntBinaryOp::Srem
        | IntBinaryOp::Shl
        | IntBinaryOp::Ushr
        | IntBinaryOp::Sshr
        | IntBinaryOp::SsubSat => false,
    }
}
