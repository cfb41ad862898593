//! Adds accesses to the tables to a program, and what they are compared with.

use ptxjit_ir::{
    Block, BlockCall, BlockData, CompareOp, Function, Inst, InstData, KernelParam, MemSem, Program,
    Space, SpecialReg, StackSlot, StackSlotData, Terminator, Type, Value,
};

use super::admit::{self, Wanted};
use super::emit::Emit;
use super::loads::{self, Kept};
use crate::transform::{cfg_cleanup, compact, dce, remove_constant_params, sroa};

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
    /// Only launches with whole warps can be screened.
    pub whole_warps: bool,
}

/// The parameter of instrumented code.
#[derive(Copy, Clone, Debug)]
pub struct Params {
    /// The lowest tag of the launch.
    pub base: u32,
    /// Tags of a CTA.
    pub chunk: u32,
    /// Tags of an interval: one more than the threads of a CTA.
    pub width: u32,
    /// Where a word becomes 1 if something is suspected.
    pub flag: u64,
    /// For device memory: what is added to an address, times tags for each byte, for the address of its tag; tables of writers,
    /// readers and atomic operations.
    pub device: [u64; 3],
    /// For shared memory: the same for offsets in the window.
    pub shared: [u64; 3],
}

impl Params {
    const CHUNK: u32 = 4;
    const WIDTH: u32 = 8;
    const FLAG: u32 = 16;
    const DEVICE: u32 = 24;
    const SHARED: u32 = 48;
    const SIZE: u32 = 72;

    /// The parameter's bytes.
    pub fn to_bytes(self) -> Vec<u8> {
        let small = [self.base, self.chunk, self.width, 0];
        let mut bytes: Vec<u8> = small.iter().flat_map(|word| word.to_le_bytes()).collect();
        let large = [self.flag]
            .into_iter()
            .chain(self.device)
            .chain(self.shared);
        bytes.extend(large.flat_map(u64::to_le_bytes));
        bytes
    }
}

/// The tables, by their order in [`Params`].
const WRITERS: usize = 0;
const READERS: usize = 1;
const ATOMICS: usize = 2;

/// The tag of a granule of device memory that was never written, before any launch.
pub const UNWRITTEN: u32 = 1;

/// Offset in shared memory whose tags stand for all that is not shared; there is none below 0.
const UNUSED: i64 = -16;

/// Most tags that one access to a table moves.
const MOST_TAGS: u32 = 4;

/// Instruments a program that is [admitted](super::admits) and was optimized with all its loads [kept](super::keep).
pub fn run(mut program: Program, kept: &Kept, wanted: Wanted) -> Screened {
    let func = &program.functions[&program.entry];
    let whole_warps = admit::needs_whole_warps(func, wanted);
    let facts = Facts::of(&program, func, wanted);
    let (granule, writes) = (facts.granule, facts.writes);
    let ends = program.params.iter().map(|param| param.offset + param.size);
    let params_at = ends.max().unwrap_or(0).next_multiple_of(8);
    program.params.push(KernelParam {
        name: "screening".to_owned(),
        offset: params_at,
        size: Params::SIZE,
        align: 8,
    });
    let barriers = barriers(func);
    let entry = program.entry;
    let func = program.functions.get_mut(&entry).expect("the kernel");
    loads::release(func, kept);
    instrument(func, facts, params_at);
    sroa::run(func);
    while cfg_cleanup::run(func) | remove_constant_params::run(func) | dce::run(func) {}
    compact::run(func);
    Screened {
        program,
        params_at,
        granule,
        barriers,
        writes,
        whole_warps,
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

fn is_barrier(inst: &InstData) -> bool {
    matches!(inst, InstData::Barrier { .. })
}

/// What the accesses of a function have in common.
#[derive(Copy, Clone)]
struct Facts {
    granule: u32,
    /// Something is written.
    writes: bool,
    atomics: bool,
    /// Generic addresses may be those of windows.
    windows: bool,
    wanted: Wanted,
}

impl Facts {
    fn of(program: &Program, func: &Function, wanted: Wanted) -> Facts {
        let has_shared = program.vars.values().any(|var| var.space == Space::Shared);
        let mut facts = Facts {
            granule: 4,
            writes: false,
            atomics: false,
            windows: has_shared || !func.slots.is_empty(),
            wanted,
        };
        for &inst in func.blocks.values().flat_map(|block| &block.insts) {
            let data = &func.insts[inst].data;
            facts.windows |= matches!(data, InstData::ToGeneric { .. });
            let Some(access) = Access::of(func, data) else {
                continue;
            };
            facts.granule = facts.granule.min(access.bytes);
            facts.writes |= access.kind != Kind::Load;
            facts.atomics |= access.kind == Kind::Atomic;
        }
        facts
    }
}

#[derive(Copy, Clone, PartialEq, Eq)]
enum Kind {
    Load,
    Store,
    Atomic,
}

/// An access to memory that threads share.
#[derive(Copy, Clone)]
struct Access {
    kind: Kind,
    space: Space,
    addr: Value,
    offset: i32,
    bytes: u32,
}

impl Access {
    fn of(func: &Function, data: &InstData) -> Option<Access> {
        let (kind, space, addr, offset, bytes) = if let InstData::Load {
            space,
            ty,
            n,
            addr,
            offset,
            ..
        } = *data
        {
            (Kind::Load, space, addr, offset, ty.bytes() * u32::from(n))
        } else if let InstData::Store {
            space,
            addr,
            offset,
            ref args,
            ..
        } = *data
        {
            let bytes = args.iter().map(|&arg| func.ty(arg).bytes()).sum();
            (Kind::Store, space, addr, offset, bytes)
        } else if let InstData::Atomic {
            space,
            addr,
            offset,
            fmt,
            ..
        } = *data
        {
            (Kind::Atomic, space, addr, offset, fmt.ty().bytes())
        } else {
            return None;
        };
        let is_common = matches!(space, Space::Generic | Space::Global | Space::Shared);
        is_common.then_some(Access {
            kind,
            space,
            addr,
            offset,
            bytes,
        })
    }
}

/// Values that all of the code uses; they are computed at the entry.
#[derive(Copy, Clone)]
struct Common {
    base: Value,
    /// The first tag of the CTA, and how far that is from `base`.
    first: Value,
    before: Value,
    chunk: Value,
    width: Value,
    thread: Value,
    /// Number of threads.
    threads: Value,
    flag: Value,
    device: [Value; 3],
    shared: [Value; 3],
}

struct Instrument<'a> {
    facts: Facts,
    common: Common,
    /// The first tag of the interval.
    floor: StackSlot,
    /// Not zero if something is suspected.
    suspect: StackSlot,
    emit: Emit<'a>,
    /// The block that is being filled.
    block: Block,
}

fn instrument(func: &mut Function, facts: Facts, params_at: u32) {
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
        common,
        floor,
        suspect,
        emit,
        block: entry,
    };
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

/// Where tags lie, and whose they are.
struct Place {
    /// Addresses in the tables of writers, readers and atomic operations; the same offset is added to each.
    tables: [Value; 3],
    offset: i32,
    /// Whether the memory is the CTA's own, if that is known now or when the code runs; only that of generic addresses is not.
    is_shared: Shared,
    /// Lanes whose access counts; all if none.
    counts: Option<Value>,
}

#[derive(Copy, Clone)]
enum Shared {
    Known(bool),
    If(Value),
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
                self.access(access);
            } else if is_barrier(node) {
                self.barrier();
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
    fn branch(&mut self, cond: Value, then: impl FnOnce(&mut Self)) {
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
        let floor = self.emit.get(self.floor);
        let next = self.emit.add(floor, self.common.width);
        self.emit.set(self.floor, next);
        let used = self.emit.sub(next, self.common.first);
        let cond = self.emit.compare(CompareOp::Uge, [used, self.common.chunk]);
        self.suspect(cond);
    }

    fn suspect(&mut self, cond: Value) {
        let before = self.emit.get(self.suspect);
        let bits = self.emit.widen(cond, Type::B32);
        let both = self.emit.or(before, bits);
        self.emit.set(self.suspect, both);
    }

    fn access(&mut self, access: Access) {
        if !self.facts.writes && !self.facts.wanted.init {
            return;
        }
        let place = self.place(access);
        let n_tags = access.bytes / self.facts.granule;
        let mut done = 0;
        while done < n_tags {
            let n = MOST_TAGS.min(1 << (n_tags - done).ilog2());
            let offset = place.offset + 4 * done as i32;
            self.tags(access.kind, &Place { offset, ..place }, n as u8);
            done += n;
        }
    }

    /// Where the tags of an access lie.
    fn place(&mut self, access: Access) -> Place {
        let scale = 4 / self.facts.granule;
        let at = |pass: &mut Self, addr: Value, tables: [Value; 3]| {
            let factor = pass.emit.iconst(Type::B64, scale.into());
            let addr = if scale == 1 {
                addr
            } else {
                pass.emit.mul(addr, factor)
            };
            tables.map(|table| pass.emit.add(addr, table))
        };
        let offset = access.offset.wrapping_mul(scale as i32);
        let (device, shared) = (self.common.device, self.common.shared);
        if access.space == Space::Shared {
            // Offsets in the window may have 32 bits.
            let addr = match self.emit.func.ty(access.addr) == Type::B64 {
                true => access.addr,
                false => self.emit.widen(access.addr, Type::B64),
            };
            let tables = at(self, addr, shared);
            return Place {
                tables,
                offset,
                is_shared: Shared::Known(true),
                counts: None,
            };
        }
        if access.space == Space::Global || !self.facts.windows {
            let tables = at(self, access.addr, device);
            return Place {
                tables,
                offset,
                is_shared: Shared::Known(false),
                counts: None,
            };
        }
        self.generic_place(access.addr, offset, at)
    }

    /// A generic address may be one of device memory, of shared memory, or of a window that threads do not share.
    fn generic_place(
        &mut self,
        addr: Value,
        offset: i32,
        at: impl Fn(&mut Self, Value, [Value; 3]) -> [Value; 3],
    ) -> Place {
        let [is_shared, is_device] = [Space::Shared, Space::Global].map(|space| {
            let data = InstData::IsSpace { space, arg: addr };
            self.emit.value(data, Type::B1)
        });
        let data = InstData::FromGeneric {
            space: Space::Shared,
            arg: addr,
        };
        let in_window = self.emit.value(data, Type::B64);
        let counts = self.emit.or(is_shared, is_device);
        let (device, shared) = (self.common.device, self.common.shared);
        let zero = self.emit.iconst(Type::B64, 0);
        let unused = self.emit.iconst(Type::B64, UNUSED as u64);
        let elsewhere = self.emit.select(is_shared, [in_window, unused]);
        let addr = self.emit.select(is_device, [addr, elsewhere]);
        let tables = [WRITERS, READERS, ATOMICS]
            .map(|idx| self.emit.select(is_device, [device[idx], shared[idx]]));
        let tables = at(self, addr, tables);
        // Only those of device memory and shared memory have tags of their own.
        let wide = self.emit.iconst(Type::B64, i64::from(offset) as u64);
        let offset = self.emit.select(counts, [wide, zero]);
        let tables = tables.map(|table| self.emit.add(table, offset));
        Place {
            tables,
            offset: 0,
            is_shared: Shared::If(is_shared),
            counts: Some(counts),
        }
    }

    /// Looks at `n` tags that lie side by side, and leaves its own.
    fn tags(&mut self, kind: Kind, place: &Place, n: u8) {
        let floor = self.emit.get(self.floor);
        let own = self.emit.add(floor, self.common.thread);
        let look = |pass: &mut Self, table: usize| {
            pass.emit
                .load_tags(MemSem::Weak, (place.tables[table], place.offset), n)
        };
        let mut others = vec![WRITERS];
        if kind != Kind::Load {
            others.push(READERS);
        }
        if kind != Kind::Atomic && self.facts.atomics {
            others.push(ATOMICS);
        }
        let mut bad = None;
        let mut writers = Vec::new();
        for table in others {
            let tags = look(self, table);
            for &tag in &tags {
                let conflict = self.conflicts(tag, (floor, own), place.is_shared);
                bad = Some(self.any(bad, conflict));
            }
            if table != READERS {
                writers.push(tags);
            }
        }
        if kind == Kind::Atomic {
            writers.push(look(self, ATOMICS));
        }
        if kind != Kind::Store && self.facts.wanted.init {
            let unwritten = self.unwritten(&writers, place.is_shared);
            bad = Some(self.any(bad, unwritten));
        }
        let bad = match kind {
            Kind::Store => {
                let conflict = self.leave(place, own, n);
                Some(self.any(bad, conflict))
            }
            Kind::Load | Kind::Atomic => bad,
        };
        if let Some(mut bad) = bad {
            if let Some(counts) = place.counts {
                bad = self.emit.and(bad, counts);
            }
            self.suspect(bad);
        }
        match kind {
            Kind::Load if self.facts.writes => self.join(place, READERS, (floor, own), n),
            Kind::Atomic => self.join(place, ATOMICS, (floor, own), n),
            Kind::Load | Kind::Store => {}
        }
    }

    fn any(&mut self, before: Option<Value>, cond: Value) -> Value {
        match before {
            Some(before) => self.emit.or(before, cond),
            None => cond,
        }
    }

    /// Whether an access is not ordered with the one that left `tag`.
    fn conflicts(&mut self, tag: Value, (floor, own): (Value, Value), shared: Shared) -> Value {
        let other = self.emit.compare(CompareOp::Ne, [tag, own]);
        let inside = |pass: &mut Self, low: Value, len: Value| {
            let from = pass.emit.sub(tag, low);
            pass.emit.compare(CompareOp::Ult, [from, len])
        };
        let in_shared = |pass: &mut Self| {
            let same = inside(pass, floor, pass.common.width);
            pass.emit.and(same, other)
        };
        let in_device = |pass: &mut Self| {
            let since = pass.emit.compare(CompareOp::Uge, [tag, floor]);
            let same = pass.emit.and(since, other);
            let earlier = inside(pass, pass.common.base, pass.common.before);
            pass.emit.or(same, earlier)
        };
        match shared {
            Shared::Known(true) => in_shared(self),
            Shared::Known(false) => in_device(self),
            Shared::If(cond) => {
                let args = [in_shared(self), in_device(self)];
                self.emit.select(cond, args)
            }
        }
    }

    /// Whether one of the granules was never written, by the tags of those who wrote each.
    fn unwritten(&mut self, writers: &[Vec<Value>], shared: Shared) -> Value {
        let mut bad = None;
        for idx in 0..writers[0].len() {
            let in_shared = |pass: &mut Self| {
                let mut written = None;
                for tags in writers {
                    let from = pass.emit.sub(tags[idx], pass.common.first);
                    let own = pass.emit.compare(CompareOp::Ult, [from, pass.common.chunk]);
                    written = Some(pass.any(written, own));
                }
                let written = written.expect("a table of writers");
                pass.emit.not(written)
            };
            let in_device = |pass: &mut Self| {
                let mark = pass.emit.iconst(Type::B32, UNWRITTEN.into());
                let mut bad = pass.emit.compare(CompareOp::Eq, [writers[0][idx], mark]);
                for tags in &writers[1..] {
                    let earlier = pass
                        .emit
                        .compare(CompareOp::Ult, [tags[idx], pass.common.base]);
                    bad = pass.emit.and(bad, earlier);
                }
                bad
            };
            let here = match shared {
                Shared::Known(true) => in_shared(self),
                Shared::Known(false) => in_device(self),
                Shared::If(cond) => {
                    let args = [in_shared(self), in_device(self)];
                    self.emit.select(cond, args)
                }
            };
            bad = Some(self.any(bad, here));
        }
        bad.expect("an access of some bytes")
    }

    /// Writes the own tag as that of the last writer; whether another lane did so, too.
    fn leave(&mut self, place: &Place, own: Value, n: u8) -> Value {
        let at = (place.tables[WRITERS], place.offset);
        self.emit.store_tags(at, &vec![own; n.into()]);
        let mut bad = None;
        for tag in self.emit.load_tags(MemSem::Weak, at, n) {
            let other = self.emit.compare(CompareOp::Ne, [tag, own]);
            bad = Some(self.any(bad, other));
        }
        bad.expect("an access of some bytes")
    }

    /// Becomes one of those whose accesses do not exclude each other.
    fn join(&mut self, place: &Place, table: usize, (floor, own): (Value, Value), n: u8) {
        let at = (place.tables[table], place.offset);
        let before = self.emit.load_tags(MemSem::Weak, at, n);
        let many = self.emit.add(floor, self.common.threads);
        let new: Vec<Value> = before
            .iter()
            .map(|&tag| self.joined(tag, (floor, own, many), place.is_shared))
            .collect();
        self.emit.store_tags(at, &new);
        // Of lanes that share a granule one has left its tag.
        let found = self.emit.load_tags(MemSem::Weak, at, n);
        let mut differs = None;
        for (&found, &new) in found.iter().zip(&new) {
            let other = self.emit.compare(CompareOp::Ne, [found, new]);
            differs = Some(self.any(differs, other));
        }
        let differs = differs.expect("an access of some bytes");
        self.branch(differs, |pass| {
            let tags: Vec<Value> = found
                .iter()
                .zip(&new)
                .map(|(&found, &new)| {
                    let same = pass.emit.compare(CompareOp::Eq, [found, new]);
                    pass.emit.select(same, [found, many])
                })
                .collect();
            pass.emit.store_tags(at, &tags);
        });
    }

    /// The tag of those who left `tag` and this thread together.
    fn joined(
        &mut self,
        tag: Value,
        (floor, own, many): (Value, Value, Value),
        shared: Shared,
    ) -> Value {
        let other = self.emit.compare(CompareOp::Ne, [tag, own]);
        let from = self.emit.sub(tag, floor);
        let now = self.emit.compare(CompareOp::Ult, [from, self.common.width]);
        let both = self.emit.and(now, other);
        let joined = self.emit.select(both, [many, own]);
        // A reader in another CTA is in conflict with every later writer: no writer is in the same one.
        let elsewhere = match shared {
            Shared::Known(true) => return joined,
            Shared::Known(false) => None,
            Shared::If(cond) => Some(self.emit.not(cond)),
        };
        let launched = self.emit.compare(CompareOp::Uge, [tag, self.common.base]);
        let from = self.emit.sub(tag, self.common.first);
        let foreign = self.emit.compare(CompareOp::Uge, [from, self.common.chunk]);
        let mut foreign = self.emit.and(launched, foreign);
        if let Some(elsewhere) = elsewhere {
            foreign = self.emit.and(foreign, elsewhere);
        }
        self.emit.select(foreign, [tag, joined])
    }
}
