//! Puts `fcanonical` where somebody looks at the bits of a NaN that f32 arithmetic made.
//!
//! In the IR f32 arithmetic gives the canonical NaN. The code for it leaves that out, since
//! arithmetic, comparisons and nearly all conversions only care whether an operand is a NaN. What
//! does see bits is memory, integer operations, calls, conversions to f64 and a change of sign. f16
//! and bf16 are made of f32 by bits, and made canonical on that way; f64 keeps payloads.
//!
//! **Needs**: to be the last pass that changes values. **Ensures**: where bits are seen, a NaN from
//! f32 arithmetic is canonical, and a NaN from elsewhere (memory, say) is as it was.
//!
//! How: a value *may be raw* if arithmetic makes it or it is a copy (block parameter, selection,
//! shuffle) of one that is, and it *may be foreign* if it may have bits that must stay; what is
//! certainly a number is neither. A raw value is made canonical before its first use by bits in a
//! block. If it may be foreign too, its raw sources are made canonical instead, on the edge or
//! before the instruction that mixes them. No instruction is put into a deeper loop than the value
//! is made in, nor into the loop that an edge leaves: a sum that a loop carries is made canonical
//! once, after the loop.
//!
//! ```text
//! v3 = fma.f32 v0, v1, v2; store.global.b32 [v4], v3
//!     ==>    v3 = fma.f32 v0, v1, v2; v5 = fcanonical.f32 v3; store.global.b32 [v4], v5
//! ```

use std::collections::{BTreeMap, BTreeSet};

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{
    AtomicFmt, AtomicOp, Block, BlockCall, FloatBinaryOp, FloatFmt, FloatMode, FloatUnaryOp,
    Function, Inst, InstData, NumFmt, SrcLoc, Terminator, Type, Value, ValueDef, WarpOp,
};

use crate::analysis::cfg::{self, Cfg};
use crate::analysis::float_bounds::FloatBounds;
use crate::analysis::loops::{self, LoopForest};

const CANONICAL: u64 = 0x7fff_ffff;

/// Runs the pass; says whether something changed.
pub fn run(func: &mut Function) -> bool {
    let cfg = cfg::run(func);
    let origins = Origins::of(func, &cfg);
    let sites = sites_to_mend(func, &cfg, &origins);
    if sites.is_empty() {
        return false;
    }
    let forest = loops::run(&cfg);
    mend(func, &forest, sites);
    true
}

/// Where the bits of a value may come from.
#[derive(Copy, Clone, PartialEq, Eq, Default)]
struct Origin {
    /// From f32 arithmetic: a NaN may be any.
    raw: bool,
    /// From elsewhere: the bits must stay.
    foreign: bool,
}

const NEITHER: Origin = Origin {
    raw: false,
    foreign: false,
};
const RAW: Origin = Origin {
    raw: true,
    foreign: false,
};
const FOREIGN: Origin = Origin {
    raw: false,
    foreign: true,
};

impl Origin {
    fn or(self, other: Origin) -> Origin {
        Origin {
            raw: self.raw | other.raw,
            foreign: self.foreign | other.foreign,
        }
    }
}

/// What an instruction does with an operand of 32 bits.
#[derive(PartialEq, Eq)]
enum Use {
    /// Sees the bits.
    Bits,
    /// Sees whether it is a NaN.
    Number,
    /// The first result may be it.
    Copy,
    /// The first result is it with the other sign.
    Negate,
}

#[expect(clippy::wildcard_enum_match_arm, reason = "others may see the bits")]
fn use_of(data: &InstData, idx: usize) -> Use {
    match *data {
        InstData::FloatUnary {
            op,
            fmt: FloatFmt::F32,
            ..
        } => match op {
            FloatUnaryOp::Neg => Use::Negate,
            FloatUnaryOp::Abs | FloatUnaryOp::Copy => Use::Copy,
            _ => Use::Number,
        },
        InstData::FloatBinary { fmt, .. }
        | InstData::Fma { fmt, .. }
        | InstData::FloatCompare { fmt, .. }
            if fmt == FloatFmt::F32 =>
        {
            Use::Number
        }
        InstData::Convert { cvt, .. } if cvt.from == NumFmt::F32 => match cvt.to {
            NumFmt::F64 => Use::Bits,
            NumFmt::F32 if !(cvt.integral || cvt.sat || cvt.relu) => Use::Copy,
            _ => Use::Number,
        },
        InstData::Select { .. } if idx > 0 => Use::Copy,
        // The sum is made canonical.
        InstData::Atomic {
            op: AtomicOp::Add | AtomicOp::Min | AtomicOp::Max,
            fmt: AtomicFmt::F32,
            ..
        } if idx > 0 => Use::Number,
        InstData::Warp { op, .. } if idx == 0 => match op {
            WarpOp::ShflUp | WarpOp::ShflDown | WarpOp::ShflBfly | WarpOp::ShflIdx => Use::Copy,
            WarpOp::ReduxFmin | WarpOp::ReduxFmax | WarpOp::ReduxFminNan | WarpOp::ReduxFmaxNan => {
                Use::Number
            }
            _ => Use::Bits,
        },
        _ => Use::Bits,
    }
}

/// Where the bits of all values come from.
struct Origins(SecondaryMap<Value, Origin>);

impl Origins {
    fn of(func: &Function, cfg: &Cfg) -> Origins {
        let mut origins = Origins(SecondaryMap::new());
        for &root in &cfg.roots {
            for &param in &func.blocks[root].params {
                origins.0[param] = FOREIGN;
            }
        }
        let bounds = FloatBounds::of(func, cfg);
        while origins.turn(func, cfg, &bounds) {}
        origins
    }

    /// Once over the function; says whether something changed.
    fn turn(&mut self, func: &Function, cfg: &Cfg, bounds: &FloatBounds) -> bool {
        let mut changed = false;
        for &block in &cfg.rpo {
            for &inst in &func.blocks[block].insts {
                let node = &func.insts[inst];
                for (idx, &result) in node.results.iter().enumerate() {
                    let origin = match idx {
                        0 if bounds.is_number(result) => NEITHER,
                        0 => self.of_inst(&node.data),
                        _ => FOREIGN,
                    };
                    changed |= self.add(func, result, origin);
                }
            }
            for call in func.blocks[block].term.targets() {
                for (&param, &arg) in func.blocks[call.block].params.iter().zip(&call.args) {
                    changed |= self.add(func, param, self.0[arg]);
                }
            }
        }
        changed
    }

    fn add(&mut self, func: &Function, value: Value, origin: Origin) -> bool {
        // Of other widths there is no f32.
        let origin = if func.ty(value) == Type::B32 {
            origin
        } else {
            FOREIGN
        };
        let new = self.0[value].or(origin);
        let changed = new != self.0[value];
        self.0[value] = new;
        changed
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "others may hold any bits")]
    fn of_inst(&self, data: &InstData) -> Origin {
        match *data {
            InstData::Const { bits, .. } => of_const(bits),
            InstData::FloatUnary {
                op,
                fmt: FloatFmt::F32,
                arg,
                ..
            } => match op {
                FloatUnaryOp::Abs | FloatUnaryOp::Copy => self.0[arg],
                // The sign of a canonical NaN becomes part of the bits.
                FloatUnaryOp::Neg => self.0[arg].or(FOREIGN),
                FloatUnaryOp::Sat | FloatUnaryOp::Relu | FloatUnaryOp::CanonicalNan => NEITHER,
                _ => RAW,
            },
            InstData::FloatBinary {
                op,
                fmt: FloatFmt::F32,
                ..
            } => {
                if matches!(
                    op,
                    FloatBinaryOp::Min
                        | FloatBinaryOp::Max
                        | FloatBinaryOp::MinNan
                        | FloatBinaryOp::MaxNan
                ) {
                    NEITHER
                } else {
                    RAW
                }
            }
            InstData::Fma {
                fmt: FloatFmt::F32, ..
            } => RAW,
            InstData::Convert { cvt, arg } if cvt.to == NumFmt::F32 => match cvt.from {
                _ if cvt.sat || cvt.relu => NEITHER,
                NumFmt::F32 if !cvt.integral => self.0[arg],
                NumFmt::F32 => RAW,
                // What of the payload there is room for stays.
                NumFmt::F64 | NumFmt::Bf16 => FOREIGN,
                _ => NEITHER,
            },
            InstData::Select { args: [a, b], .. } => self.0[a].or(self.0[b]),
            InstData::Warp { ref args, .. } if !args.is_empty() && use_of(data, 0) == Use::Copy => {
                self.0[args[0]]
            }
            _ => FOREIGN,
        }
    }
}

fn of_const(bits: u64) -> Origin {
    let is_nan = f32::from_bits(bits as u32).is_nan();
    if is_nan && bits != CANONICAL {
        FOREIGN
    } else {
        NEITHER
    }
}

/// A place where a value is used.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Site {
    /// Operand of an instruction: its block, its index there, the operand's.
    Inst(Block, usize, usize),
    /// Argument of an edge: the block that it leaves, its number, the argument's.
    Edge(Block, usize, usize),
    /// A value returned from the function.
    Ret(Block, usize),
}

impl Site {
    fn block(self) -> Block {
        match self {
            Site::Inst(block, ..) | Site::Edge(block, ..) | Site::Ret(block, _) => block,
        }
    }
}

/// The uses of values that are raw only, by which their bits are seen.
fn sites_to_mend(func: &Function, cfg: &Cfg, origins: &Origins) -> BTreeMap<Site, Value> {
    let mut found = BTreeMap::new();
    let mut places: SecondaryMap<Inst, Option<(Block, usize)>> = SecondaryMap::new();
    // Values with both origins whose bits are seen.
    let mut mixed: Vec<Value> = Vec::new();
    let mut seen = BTreeSet::new();
    let mut visit = |site: Site, value: Value, mixed: &mut Vec<Value>| {
        let origin = origins.0[value];
        if origin == RAW {
            found.insert(site, value);
        } else if origin.raw && seen.insert(value) {
            mixed.push(value);
        }
    };
    for &block in &cfg.rpo {
        for (at, &inst) in func.blocks[block].insts.iter().enumerate() {
            places[inst] = Some((block, at));
            let data = &func.insts[inst].data;
            for (idx, &arg) in data.args().iter().enumerate() {
                if origins.0[arg].raw && use_of(data, idx) == Use::Bits {
                    visit(Site::Inst(block, at, idx), arg, &mut mixed);
                }
            }
        }
        if let Terminator::Ret(values) = &func.blocks[block].term {
            for (idx, &value) in values.iter().enumerate() {
                visit(Site::Ret(block, idx), value, &mut mixed);
            }
        }
    }
    while let Some(value) = mixed.pop() {
        match func.values[value].def {
            ValueDef::Result(inst, _) => {
                let (block, at) = places[inst].expect("values come from instructions in reach");
                let data = &func.insts[inst].data;
                for (idx, &arg) in data.args().iter().enumerate() {
                    if matches!(use_of(data, idx), Use::Copy | Use::Negate) {
                        visit(Site::Inst(block, at, idx), arg, &mut mixed);
                    }
                }
            }
            ValueDef::Param(block, idx) => {
                for &pred in &cfg.preds[block] {
                    let targets = func.blocks[pred].term.targets();
                    for (edge, call) in targets.iter().enumerate() {
                        if call.block == block {
                            visit(
                                Site::Edge(pred, edge, idx as usize),
                                call.args[idx as usize],
                                &mut mixed,
                            );
                        }
                    }
                }
            }
        }
    }
    found
}

/// Makes the values canonical for these uses.
fn mend(func: &mut Function, forest: &LoopForest, sites: BTreeMap<Site, Value>) {
    let homes = home_blocks(func, forest);
    let in_deeper_loop: BTreeSet<Value> = sites
        .iter()
        .filter(|(site, value)| forest.depth(site.block()) > forest.depth(homes[**value]))
        .map(|(_, &value)| value)
        .collect();
    let mut at_definition: BTreeMap<Value, Value> = BTreeMap::new();
    for &value in &in_deeper_loop {
        let canonical = make(func, value);
        at_definition.insert(value, canonical);
    }
    let mut blocks: BTreeMap<Block, Vec<(Site, Value)>> = BTreeMap::new();
    for (site, value) in sites {
        blocks.entry(site.block()).or_default().push((site, value));
    }
    for (block, sites) in blocks {
        mend_block(func, forest, block, &sites, &at_definition);
    }
    for (value, canonical) in at_definition {
        place_after(func, homes[value], value, canonical);
    }
}

/// The block that each value is made in.
fn home_blocks(func: &Function, forest: &LoopForest) -> SecondaryMap<Value, Block> {
    let mut homes = SecondaryMap::with_default(func.entry);
    for &block in &forest.order {
        for &param in &func.blocks[block].params {
            homes[param] = block;
        }
        for &inst in &func.blocks[block].insts {
            for &result in &func.insts[inst].results {
                homes[result] = block;
            }
        }
    }
    homes
}

/// The value made canonical, by an instruction that is in no block yet.
fn make(func: &mut Function, value: Value) -> Value {
    let loc = match func.values[value].def {
        ValueDef::Result(inst, _) => func.insts[inst].loc,
        ValueDef::Param(..) => SrcLoc::default(),
    };
    let data = InstData::FloatUnary {
        op: FloatUnaryOp::CanonicalNan,
        fmt: FloatFmt::F32,
        mode: FloatMode::RN,
        arg: value,
    };
    let inst = func.make_inst(data, &[Type::B32], loc);
    func.insts[inst].results[0]
}

fn inst_of(func: &Function, value: Value) -> Inst {
    match func.values[value].def {
        ValueDef::Result(inst, _) => inst,
        ValueDef::Param(..) => unreachable!("{value} is the result of an instruction"),
    }
}

/// Puts the instruction that makes `canonical` right behind the one that makes `value`.
fn place_after(func: &mut Function, home: Block, value: Value, canonical: Value) {
    let new = inst_of(func, canonical);
    let at = match func.values[value].def {
        ValueDef::Result(inst, _) => {
            let insts = &func.blocks[home].insts;
            1 + insts
                .iter()
                .position(|&other| other == inst)
                .expect("a value is made in its home")
        }
        ValueDef::Param(..) => 0,
    };
    func.blocks[home].insts.insert(at, new);
}

/// Mends the uses in one block, each value before its first.
fn mend_block(
    func: &mut Function,
    forest: &LoopForest,
    block: Block,
    sites: &[(Site, Value)],
    at_definition: &BTreeMap<Value, Value>,
) {
    let mut here = Canonical::new(at_definition);
    let mut on_edges: BTreeMap<usize, Canonical> = BTreeMap::new();
    let old = std::mem::take(&mut func.blocks[block].insts);
    let mut sites = sites.iter().copied().peekable();
    for (at, inst) in old.into_iter().enumerate() {
        while let Some((Site::Inst(_, _, idx), value)) =
            sites.next_if(|(site, _)| matches!(site, Site::Inst(_, of, _) if *of == at))
        {
            let canonical = here.of(func, value);
            *func.insts[inst].data.args_mut()[idx] = canonical;
        }
        here.insts.push(inst);
    }
    for (site, value) in sites {
        match site {
            Site::Edge(_, edge, idx) if leaves_loop(func, forest, block, edge) => {
                let on_edge = on_edges
                    .entry(edge)
                    .or_insert_with(|| Canonical::new(at_definition));
                let canonical = on_edge.of(func, value);
                func.blocks[block].term.targets_mut()[edge].args[idx] = canonical;
            }
            Site::Edge(_, edge, idx) => {
                let canonical = here.of(func, value);
                func.blocks[block].term.targets_mut()[edge].args[idx] = canonical;
            }
            Site::Ret(_, idx) => {
                let canonical = here.of(func, value);
                if let Terminator::Ret(values) = &mut func.blocks[block].term {
                    values[idx] = canonical;
                }
            }
            Site::Inst(..) => unreachable!("uses by instructions come first"),
        }
    }
    func.blocks[block].insts = here.insts;
    for (edge, on_edge) in on_edges {
        if !on_edge.insts.is_empty() {
            put_on_edge(func, block, edge, on_edge.insts);
        }
    }
}

/// A list of instructions, and which values are canonical there by what name.
struct Canonical {
    known: BTreeMap<Value, Value>,
    insts: Vec<Inst>,
}

impl Canonical {
    fn new(known: &BTreeMap<Value, Value>) -> Canonical {
        Canonical {
            known: known.clone(),
            insts: Vec::new(),
        }
    }

    /// The value made canonical, here if not before.
    fn of(&mut self, func: &mut Function, value: Value) -> Value {
        *self.known.entry(value).or_insert_with(|| {
            let canonical = make(func, value);
            self.insts.push(inst_of(func, canonical));
            canonical
        })
    }
}

/// Whether an edge leaves a loop that the block may stay in.
fn leaves_loop(func: &Function, forest: &LoopForest, block: Block, edge: usize) -> bool {
    let targets = func.blocks[block].term.targets();
    targets.len() > 1 && forest.depth(targets[edge].block) < forest.depth(block)
}

/// Makes a block of these instructions on an edge.
fn put_on_edge(func: &mut Function, block: Block, edge: usize, insts: Vec<Inst>) {
    let new = func.new_block();
    func.blocks[new].insts = insts;
    func.blocks[new].term_loc = func.blocks[block].term_loc;
    let mut targets = func.blocks[block].term.targets_mut();
    let call = std::mem::replace(targets[edge], BlockCall::new(new));
    drop(targets);
    func.blocks[new].term = Terminator::Jump(call);
}
