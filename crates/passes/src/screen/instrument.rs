//! Adds accesses to the tables to a program, and what they are compared with.

use ptxjit_ir::{
    Block, BlockCall, BlockData, CompareOp, Function, Inst, KernelParam, Program, SpecialReg,
    StackSlot, StackSlotData, Terminator, Type, Value,
};

use super::access::{self, Access, Facts};
use super::admit::{Wanted, is_barrier};
use super::emit::Emit;
use super::loads::{self, Kept};
use super::locals::Locals;
use super::marks;
use super::params::Params;
use super::place::Place;
use super::prove::{Need, Needs};
use crate::transform::{cfg_cleanup, compact, dce, remove_constant_params, simplify, sroa};
use rustc_hash::FxHashMap;

/// A program with instrumentation.
#[derive(Clone, Debug)]
pub struct Screened {
    /// It has one parameter more, the last: [`Params`].
    pub program: Program,
    /// Offset of that parameter.
    pub params_at: u32,
    /// Bytes of memory for each tag: 1, 2 or 4.
    pub granule: u32,
    /// Barriers that a thread may pass come from a loop, or so many.
    pub barriers: Option<u32>,
    /// It can change memory.
    pub writes: bool,
    /// Tags are compared, which one worker must do alone.
    pub compares: bool,
    /// Accesses whose bounds follow [`Params`].
    pub n_bounds: u32,
}

/// Most tags that one access to a table moves.
const MOST_TAGS: u32 = 4;

/// Instruments a program that is [admitted](super::admits) and was optimized with all its loads
/// [kept](super::keep), for what a launch needs, or for everything. Bounds that accesses must keep
/// follow [`Params`], as address and length from [`Needs::bounds`].
pub fn run(mut program: Program, kept: &Kept, wanted: Wanted, needs: Option<&Needs>) -> Screened {
    let func = &program.functions[&program.entry];
    let sites = Sites::new(func, wanted, needs);
    let facts = Facts::of(&program, func, &sites);
    let (granule, writes) = (facts.granule, access::writes(func));
    let n_bounds = sites.bounds.len() as u32;
    let ends = program.params.iter().map(|param| param.offset + param.size);
    let params_at = ends.max().unwrap_or(0).next_multiple_of(8);
    program.params.push(KernelParam {
        name: "screening".to_owned(),
        offset: params_at,
        size: Params::SIZE + BOUNDS_SIZE * n_bounds,
        align: 8,
    });
    let compares = sites.needs.values().any(|need| need.race || need.init);
    let barriers = barriers(func);
    let entry = program.entry;
    let func = program.functions.get_mut(&entry).expect("the kernel");
    let locals = Locals::new(func, wanted);
    loads::release(func, kept);
    marks::remove_all(func);
    instrument(func, (facts, sites, locals), params_at);
    sroa::run(func);
    // What is known of local memory is known now.
    simplify::run(func);
    while cfg_cleanup::run(func) | remove_constant_params::run(func) | dce::run(func) {}
    compact::run(func);
    Screened {
        program,
        params_at,
        granule,
        barriers,
        writes,
        compares,
        n_bounds,
    }
}

/// Bytes of the parameter for the bounds of an access: the start of an allocation and its size.
const BOUNDS_SIZE: u32 = 16;

/// The accesses that must be looked at.
pub(super) struct Sites {
    pub(super) needs: FxHashMap<Inst, Need>,
    /// The number of those with bounds.
    bounds: FxHashMap<Inst, u32>,
}

impl Sites {
    fn new(func: &Function, wanted: Wanted, needs: Option<&Needs>) -> Sites {
        let Some(needs) = needs else {
            let all = Need {
                race: wanted.race,
                init: wanted.init,
                note: true,
                bounds: None,
            };
            let looks = wanted.init || access::writes(func);
            let accesses = func
                .insts
                .keys()
                .filter(|&inst| looks && Access::of(func, &func.insts[inst].data).is_some());
            return Sites {
                needs: accesses.map(|inst| (inst, all)).collect(),
                bounds: FxHashMap::default(),
            };
        };
        let bounded = needs.sites.iter().filter(|(_, need)| need.bounds.is_some());
        Sites {
            needs: needs.sites.iter().copied().collect(),
            bounds: bounded.map(|it| it.0).zip(0..).collect(),
        }
    }
}

/// Barriers in the code if none is in a loop, so that no thread passes more.
fn barriers(func: &Function) -> Option<u32> {
    let cfg = crate::analysis::cfg::run(func);
    let forest = crate::analysis::loops::run(&cfg);
    let mut count = 0;
    for (block, data) in func.blocks.iter() {
        let n = data
            .insts
            .iter()
            .filter(|&&inst| is_barrier(&func.insts[inst].data));
        let n = n.count() as u32;
        if n > 0 && forest.innermost(block).is_some() {
            return None;
        }
        count += n;
    }
    Some(count)
}

/// Values that all of the code uses; they are computed at the entry.
#[derive(Copy, Clone)]
pub(super) struct Common {
    pub(super) base: Value,
    /// The first tag of the CTA, and how far that is from `base`.
    pub(super) first: Value,
    pub(super) before: Value,
    pub(super) chunk: Value,
    pub(super) width: Value,
    pub(super) thread: Value,
    /// Number of threads.
    pub(super) threads: Value,
    pub(super) flag: Value,
    pub(super) device: [Value; 3],
    pub(super) shared: [Value; 3],
}

pub(super) struct Instrument<'a> {
    pub(super) facts: Facts,
    sites: Sites,
    pub(super) locals: Locals,
    params_at: u32,
    pub(super) common: Common,
    /// The first tag of the interval.
    pub(super) floor: StackSlot,
    /// Not zero if something is suspected.
    pub(super) suspect: StackSlot,
    pub(super) emit: Emit<'a>,
    /// The block that is being filled.
    pub(super) block: Block,
}

fn instrument(func: &mut Function, (facts, sites, locals): (Facts, Sites, Locals), params_at: u32) {
    let slot = || StackSlotData { size: 4, align: 4 };
    let (floor, suspect) = (func.slots.push(slot()), func.slots.push(slot()));
    let blocks: Vec<Block> = func.blocks.keys().collect();
    let entry = func.entry;
    let mut emit = Emit {
        loc: func.blocks[entry].term_loc,
        func,
        out: Vec::new(),
    };
    let common = Common::emit(&mut emit, params_at);
    emit.set(floor, common.first);
    let zero = emit.iconst(Type::B32, 0);
    emit.set(suspect, zero);
    let mut pass = Instrument {
        facts,
        sites,
        locals,
        params_at,
        common,
        floor,
        suspect,
        emit,
        block: entry,
    };
    pass.clear_shadows();
    let prologue = std::mem::take(&mut pass.emit.out);
    for block in blocks {
        pass.block(block);
    }
    func.blocks[entry].insts.splice(0..0, prologue);
}

impl Common {
    fn emit(emit: &mut Emit<'_>, at: u32) -> Common {
        let [x, y, z] =
            [SpecialReg::TidX, SpecialReg::TidY, SpecialReg::TidZ].map(|it| emit.sreg(it));
        let [nx, ny, nz] =
            [SpecialReg::NtidX, SpecialReg::NtidY, SpecialReg::NtidZ].map(|it| emit.sreg(it));
        let thread = linear(emit, [x, y, z], [nx, ny]);
        let plane = emit.mul(nx, ny);
        let threads = emit.mul(plane, nz);
        let [cx, cy, cz] =
            [SpecialReg::CtaidX, SpecialReg::CtaidY, SpecialReg::CtaidZ].map(|it| emit.sreg(it));
        let [mx, my] = [SpecialReg::NctaidX, SpecialReg::NctaidY].map(|it| emit.sreg(it));
        let cta = linear(emit, [cx, cy, cz], [mx, my]);
        let [base, chunk, width] =
            [0, Params::CHUNK, Params::WIDTH].map(|offset| emit.param(at + offset, Type::B32));
        let before = emit.mul(cta, chunk);
        let first = emit.add(base, before);
        let flag = emit.param(at + Params::FLAG, Type::B64);
        let [device, shared] = [Params::DEVICE, Params::SHARED]
            .map(|start| [0, 8, 16].map(|offset| emit.param(at + start + offset, Type::B64)));
        Common {
            base,
            first,
            before,
            chunk,
            width,
            thread,
            threads,
            flag,
            device,
            shared,
        }
    }
}

/// Number of a place in an array of three dimensions, by its extent in two.
fn linear(emit: &mut Emit<'_>, [x, y, z]: [Value; 3], [nx, ny]: [Value; 2]) -> Value {
    let row = emit.mul(z, ny);
    let row = emit.add(row, y);
    let start = emit.mul(row, nx);
    emit.add(start, x)
}

impl Instrument<'_> {
    fn block(&mut self, block: Block) {
        let data = std::mem::take(&mut self.emit.func.blocks[block]);
        self.emit.func.blocks[block].params = data.params;
        self.block = block;
        for inst in data.insts {
            self.emit.loc = self.emit.func.insts[inst].loc;
            self.emit.out.push(inst);
            let node = &self.emit.func.insts[inst].data;
            if let Some(access) = Access::of(self.emit.func, node) {
                self.access(inst, access);
            } else if is_barrier(node) {
                self.barrier();
            } else {
                self.local(inst);
            }
        }
        self.emit.loc = data.term_loc;
        if matches!(data.term, Terminator::Ret(_) | Terminator::Exit) {
            self.report();
        }
        self.finish(data.term);
    }

    /// Ends the block that is being filled.
    fn finish(&mut self, term: Terminator) {
        let insts: Vec<Inst> = std::mem::take(&mut self.emit.out);
        let data: &mut BlockData = &mut self.emit.func.blocks[self.block];
        data.insts = insts;
        data.term = term;
        data.term_loc = self.emit.loc;
    }

    /// Goes on in a new block; where `cond` holds, after what `then` puts into a block of its own.
    pub(super) fn branch(&mut self, cond: Value, then: impl FnOnce(&mut Self)) {
        let (side, next) = (self.emit.func.new_block(), self.emit.func.new_block());
        self.finish(Terminator::Brif {
            cond,
            then_: BlockCall::new(side),
            else_: BlockCall::new(next),
        });
        self.block = side;
        then(self);
        self.finish(Terminator::Jump(BlockCall::new(next)));
        self.block = next;
    }

    /// The end of the thread: what was suspected is written down.
    fn report(&mut self) {
        let suspect = self.emit.get(self.suspect);
        let zero = self.emit.iconst(Type::B32, 0);
        let cond = self.emit.compare(CompareOp::Ne, [suspect, zero]);
        let flag = self.common.flag;
        self.branch(cond, |pass| {
            let one = pass.emit.iconst(Type::B32, 1);
            pass.emit.store_tags((flag, 0), &[one]);
        });
    }

    /// A new interval; the tags of a CTA may be used up.
    fn barrier(&mut self) {
        if !self.facts.has_tags {
            return;
        }
        let floor = self.emit.get(self.floor);
        let next = self.emit.add(floor, self.common.width);
        self.emit.set(self.floor, next);
        let used = self.emit.sub(next, self.common.first);
        let cond = self.emit.compare(CompareOp::Uge, [used, self.common.chunk]);
        self.suspect(cond);
    }

    pub(super) fn suspect(&mut self, cond: Value) {
        let before = self.emit.get(self.suspect);
        let bits = self.emit.widen(cond, Type::B32);
        let both = self.emit.or(before, bits);
        self.emit.set(self.suspect, both);
    }

    fn access(&mut self, inst: Inst, access: Access) {
        let Some(&need) = self.sites.needs.get(&inst) else {
            return;
        };
        if let Some(&number) = self.sites.bounds.get(&inst) {
            self.bounds(access, number);
        }
        if !need.race && !need.init && !need.note {
            return;
        }
        let place = self.place(access);
        let n_tags = access.bytes / self.facts.granule;
        let mut done = 0;
        while done < n_tags {
            let n = MOST_TAGS.min(1 << (n_tags - done).ilog2());
            let offset = place.offset + 4 * done as i32;
            self.tags(access.kind, need, &Place { offset, ..place }, n as u8);
            done += n;
        }
    }

    /// Suspects an access that is not where it is meant to be.
    fn bounds(&mut self, access: Access, number: u32) {
        let at = self.params_at + Params::SIZE + BOUNDS_SIZE * number;
        let [start, size] = [0, 8].map(|offset| self.emit.param(at + offset, Type::B64));
        let bytes = self.emit.iconst(Type::B64, access.bytes.into());
        let last = self.emit.sub(size, bytes);
        let offset = self.emit.iconst(Type::B64, i64::from(access.offset) as u64);
        let start = self.emit.sub(start, offset);
        let from = self.emit.sub(access.addr, start);
        let cond = self.emit.compare(CompareOp::Ugt, [from, last]);
        self.suspect(cond);
    }
}
