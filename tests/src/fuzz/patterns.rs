//! The patterns of [`sync`](super::sync): some threads write, something orders them, others read.
//! Each can be made without the order, which is a race.

use super::sync::{Kernel, MBARRIERS};

type Pattern = fn(&mut Kernel, bool);

/// Those that compiled code can judge.
const SIMPLE: &[Pattern] = &[exchange, own, double_buffer, constants, exchange];

const ALL: &[Pattern] = &[
    exchange,
    own,
    double_buffer,
    constants,
    warp_exchange,
    groups,
    arrivals,
    flag,
    flag,
    flag,
    counter,
    last_thread,
    mbarrier,
    copies,
];

/// Adds a pattern that fits the launch; with a race if `is_racy`.
pub(super) fn add(kernel: &mut Kernel, is_simple: bool, is_racy: bool) {
    let patterns = if is_simple { SIMPLE } else { ALL };
    loop {
        let pattern = *kernel.rng.pick(patterns);
        if fits(kernel, pattern, is_racy) {
            return pattern(kernel, is_racy);
        }
    }
}

fn fits(kernel: &Kernel, pattern: Pattern, is_racy: bool) -> bool {
    let is = |other: Pattern| std::ptr::fn_addr_eq(pattern, other);
    let n_warps = kernel.block / 32;
    let whole = kernel.has_whole_warps();
    match pattern {
        _ if is(constants) => !is_racy,
        _ if is(warp_exchange) => whole,
        _ if is(groups) => whole && n_warps >= 2 && n_warps.is_multiple_of(2),
        _ if is(arrivals) => whole && n_warps >= 2 && kernel.barrier < 16,
        _ if is(mbarrier) => kernel.n_mbarriers < MBARRIERS,
        _ if is(flag) => kernel.grid > 1 || n_warps >= 2,
        _ => true,
    }
}

/// Where a pattern's memory is: `[%s + …]` of shared memory, or the block's part of the data.
struct Room {
    space: &'static str,
    /// A register with the first byte.
    base: String,
    /// Bytes of an element.
    size: u32,
}

/// Room for so many elements for each block.
fn room(kernel: &mut Kernel, n: u32, size: u32) -> Room {
    let base = kernel.wide();
    if kernel.rng.chance(60) {
        let at = kernel.shared(n * size);
        let r = kernel.reg();
        kernel.line(format!("mov.u32 {r}, s;"));
        kernel.line(format!("add.u32 {r}, {r}, {at};"));
        kernel.line(format!("cvt.u64.u32 {base}, {r};"));
        let space = "shared";
        return Room { space, base, size };
    }
    let of_block = (n * size).next_multiple_of(16);
    let at = kernel.data(of_block * kernel.grid);
    kernel.line(format!("mul.wide.u32 {base}, %b, {of_block};"));
    kernel.line(format!("add.u64 {base}, {base}, {at};"));
    kernel.line(format!("add.u64 {base}, {base}, %p;"));
    let space = "global";
    Room { space, base, size }
}

fn element_size(kernel: &mut Kernel) -> u32 {
    *kernel.rng.pick(&[4, 4, 4, 1, 2, 8, 16])
}

impl Room {
    /// The address of an element.
    fn at(&self, kernel: &mut Kernel, index: &str) -> String {
        let d = kernel.wide();
        kernel.line(format!("mul.wide.u32 {d}, {index}, {};", self.size));
        kernel.line(format!("add.u64 {d}, {d}, {};", self.base));
        d
    }

    /// Writes what differs from thread to thread and from time to time: writes of what is there
    /// already are no errors.
    fn store(&self, kernel: &mut Kernel, addr: &str) {
        let value = kernel.reg();
        kernel.line("add.u32 %k, %k, 1009;");
        kernel.line(format!("mad.lo.u32 {value}, %g, 7, %k;"));
        let (ty, value) = match self.size {
            8 => (".v2.b32", format!("{{{value}, %t}}")),
            16 => (".v4.b32", format!("{{{value}, %t, %g, {value}}}")),
            1 => (".b8", value),
            2 => (".b16", self.half(kernel, &value)),
            _ => (".b32", value),
        };
        kernel.line(format!("st.{}{ty} [{addr}], {value};", self.space));
    }

    /// A register of 16 bits with a value.
    fn half(&self, kernel: &mut Kernel, value: &str) -> String {
        let half = kernel.half();
        kernel.line(format!("cvt.u16.u32 {half}, {value};"));
        half
    }

    /// Reads.
    fn load(&self, kernel: &mut Kernel, addr: &str) {
        let value = kernel.reg();
        match self.size {
            8 | 16 => {
                let n = self.size / 4;
                let more: Vec<String> = (1..n).map(|_| kernel.reg()).collect();
                let all = [vec![value.clone()], more].concat().join(", ");
                kernel.line(format!("ld.{}.v{n}.b32 {{{all}}}, [{addr}];", self.space));
            }
            2 => {
                let half = kernel.half();
                kernel.line(format!("ld.{}.b16 {half}, [{addr}];", self.space));
                kernel.line(format!("cvt.u32.u16 {value}, {half};"));
            }
            1 => kernel.line(format!("ld.{}.u8 {value}, [{addr}];", self.space)),
            _ => kernel.line(format!("ld.{}.b32 {value}, [{addr}];", self.space)),
        }
        kernel.line(format!("xor.b32 %acc, %acc, {value};"));
    }
}

/// Another thread of the block for each: no two have the same, and none has itself.
fn other(kernel: &mut Kernel) -> String {
    let n = kernel.block;
    let r = kernel.reg();
    match kernel.rng.below(3) {
        0 if n.is_power_of_two() => {
            let k = 1 + kernel.rng.below(n as usize - 1);
            kernel.line(format!("xor.b32 {r}, %t, {k};"));
        }
        1 => kernel.line(format!("sub.u32 {r}, {}, %t;", n - 1)),
        _ => {
            let k = 1 + kernel.rng.below(n as usize - 1);
            kernel.line(format!("add.u32 {r}, %t, {k};"));
            kernel.line(format!("rem.u32 {r}, {r}, {n};"));
        }
    }
    r
}

fn barrier(kernel: &mut Kernel) {
    let kinds = [
        "bar.sync 0;",
        "barrier.sync 0;",
        "barrier.sync.aligned 0;",
        "red",
    ];
    match kernel.pick(&kinds) {
        "red" => {
            let (r, q) = (kernel.reg(), kernel.pred());
            kernel.line(format!("setp.lt.u32 {q}, %t, 7;"));
            kernel.line(format!("bar.red.popc.u32 {r}, 0, {q};"));
        }
        text => kernel.line(text),
    }
}

/// Each thread writes its element, all wait, and each reads another's.
fn exchange(kernel: &mut Kernel, is_racy: bool) {
    let size = element_size(kernel);
    let room = room(kernel, kernel.block, size);
    let own = room.at(kernel, "%t");
    let index = other(kernel);
    let others = room.at(kernel, &index);
    room.store(kernel, &own);
    if !is_racy {
        barrier(kernel);
    }
    room.load(kernel, &others);
}

/// Each thread uses its own element; with a race it looks at its neighbor's.
fn own(kernel: &mut Kernel, is_racy: bool) {
    let size = element_size(kernel);
    let room = room(kernel, kernel.block + 1, size);
    let own = room.at(kernel, "%t");
    room.store(kernel, &own);
    if kernel.rng.chance(50) {
        room.store(kernel, &own);
    }
    room.load(kernel, &own);
    if is_racy {
        // The last thread has no neighbor.
        let (next, q) = (kernel.wide(), kernel.pred());
        kernel.line(format!("setp.lt.u32 {q}, %t, {};", kernel.block - 1));
        kernel.line(format!("add.u64 {next}, {own}, {size};"));
        let end = kernel.label();
        kernel.line(format!("@!{q} bra {end};"));
        match kernel.rng.chance(50) {
            true => room.load(kernel, &next),
            false => room.store(kernel, &next),
        }
        kernel.line(format!("{end}:"));
    }
}

/// A loop with one barrier for each iteration, which writes one of two buffers in turn; with a race
/// it is the same each time.
fn double_buffer(kernel: &mut Kernel, is_racy: bool) {
    let size = element_size(kernel);
    let n = kernel.block;
    let room = room(kernel, 2 * n, size);
    let (own, others) = (room.at(kernel, "%t"), {
        let index = other(kernel);
        room.at(kernel, &index)
    });
    let (iteration, offset, q) = (kernel.reg(), kernel.wide(), kernel.pred());
    let (to, from) = (kernel.wide(), kernel.wide());
    let n_iterations = 2 + kernel.rng.below(4);
    let head = kernel.label();
    kernel.line(format!("mov.u32 {iteration}, 0;"));
    kernel.line(format!("mov.u64 {offset}, 0;"));
    kernel.line(format!("{head}:"));
    kernel.line(format!("add.u64 {to}, {own}, {offset};"));
    kernel.line(format!("add.u64 {from}, {others}, {offset};"));
    room.store(kernel, &to);
    barrier(kernel);
    room.load(kernel, &from);
    if !is_racy {
        kernel.line(format!("xor.b64 {offset}, {offset}, {};", n * size));
    }
    kernel.line(format!("add.u32 {iteration}, {iteration}, 1;"));
    kernel.line(format!("setp.lt.u32 {q}, {iteration}, {n_iterations};"));
    kernel.line(format!("@{q} bra {head};"));
}

/// All read what none writes.
fn constants(kernel: &mut Kernel, _: bool) {
    let at = kernel.data(64);
    let (d, r) = (kernel.wide(), kernel.reg());
    kernel.line(format!("add.u64 {d}, %p, {at};"));
    let how = kernel.pick(&["", ".nc", ".volatile", ".relaxed.gpu"]);
    let ld = match how {
        ".nc" => "ld.global.nc.u32".to_owned(),
        how => format!("ld{how}.global.u32"),
    };
    kernel.line(format!("{ld} {r}, [{d}];"));
    kernel.line(format!("xor.b32 %acc, %acc, {r};"));
}

/// Lanes of a warp, or of its halves, exchange elements. What makes lanes wait does not order
/// memory.
fn warp_exchange(kernel: &mut Kernel, is_racy: bool) {
    let size = element_size(kernel);
    let room = room(kernel, kernel.block, size);
    let by_halves = kernel.rng.chance(40);
    let n_lanes = if by_halves { 16 } else { 32 };
    let own = room.at(kernel, "%t");
    let (index, mask) = (kernel.reg(), kernel.reg());
    let k = 1 + kernel.rng.below(n_lanes - 1);
    kernel.line(format!("xor.b32 {index}, %t, {k};"));
    let others = room.at(kernel, &index);
    if by_halves {
        let q = kernel.pred();
        kernel.line(format!("and.b32 {mask}, %t, 16;"));
        kernel.line(format!("setp.eq.u32 {q}, {mask}, 0;"));
        kernel.line(format!("selp.b32 {mask}, 0xffff, 0xffff0000, {q};"));
    } else {
        kernel.line(format!("mov.b32 {mask}, -1;"));
    }
    room.store(kernel, &own);
    if !is_racy {
        kernel.line(format!("bar.warp.sync {mask};"));
    } else if kernel.rng.chance(50) {
        let r = kernel.reg();
        kernel.line(format!("shfl.sync.bfly.b32 {r}, %t, 1, 0x1f, {mask};"));
    }
    room.load(kernel, &others);
}

/// Warps of even and of odd numbers have a barrier each.
fn groups(kernel: &mut Kernel, is_racy: bool) {
    let size = element_size(kernel);
    let room = room(kernel, kernel.block, size);
    let own = room.at(kernel, "%t");
    let (index, id) = (kernel.reg(), kernel.reg());
    // Among four warps there is another one of the same group.
    let k = match kernel.block {
        128 => 64 + kernel.rng.below(32),
        _ => 1 + kernel.rng.below(31),
    };
    kernel.line(format!("xor.b32 {index}, %t, {k};"));
    let others = room.at(kernel, &index);
    kernel.line(format!("bfe.u32 {id}, %t, 5, 1;"));
    kernel.line(format!("add.u32 {id}, {id}, 1;"));
    room.store(kernel, &own);
    if !is_racy {
        let n = kernel.block / 2;
        let sync = kernel.pick(&["bar.sync", "barrier.sync", "barrier.sync.aligned"]);
        kernel.line(format!("{sync} {id}, {n};"));
    }
    room.load(kernel, &others);
}

/// The first warps write and arrive at a barrier, for which the others wait. With a race they write
/// behind it, or the others read before it.
fn arrivals(kernel: &mut Kernel, is_racy: bool) {
    let size = element_size(kernel);
    let n_warps = kernel.block as usize / 32;
    let n_writers = 32 * (1 + kernel.rng.below(n_warps - 1)) as u32;
    let room = room(kernel, n_writers, size);
    let (id, n) = (kernel.barrier, kernel.block);
    kernel.barrier += 1;
    let index = kernel.reg();
    kernel.line(format!("rem.u32 {index}, %t, {n_writers};"));
    let element = room.at(kernel, &index);
    let q = kernel.pred();
    let (readers, end) = (kernel.label(), kernel.label());
    kernel.line(format!("setp.ge.u32 {q}, %t, {n_writers};"));
    let late = is_racy && kernel.rng.chance(50);
    let early = is_racy && !late;
    kernel.line(format!("@{q} bra {readers};"));
    if !late {
        room.store(kernel, &element);
    }
    kernel.line(format!("bar.arrive {id}, {n};"));
    if late {
        room.store(kernel, &element);
    }
    kernel.line(format!("bra {end};"));
    kernel.line(format!("{readers}:"));
    if early {
        room.load(kernel, &element);
    }
    kernel.line(format!("bar.sync {id}, {n};"));
    if !early {
        room.load(kernel, &element);
    }
    kernel.line(format!("{end}:"));
}

/// Ways to release by a flag: a fence before, the operation, its operands behind the address.
const RELEASES: &[(&str, &str, &str)] = &[
    ("", "st.release.S.global.u32", ", 1"),
    ("fence.acq_rel.S;", "st.relaxed.S.global.u32", ", 1"),
    ("fence.acq_rel.S;", "st.volatile.global.u32", ", 1"),
    ("fence.sc.S;", "st.relaxed.S.global.u32", ", 1"),
    ("", "red.release.S.global.add.u32", ", 1"),
    ("", "atom.release.S.global.exch.b32 OLD", ", 1"),
    ("", "atom.acq_rel.S.global.add.u32 OLD", ", 1"),
    ("fence.acq_rel.S;", "red.relaxed.S.global.or.b32", ", 1"),
];

/// Ways to acquire: the operation, its operands behind the address, a fence behind it.
const ACQUIRES: &[(&str, &str, &str)] = &[
    ("ld.acquire.S.global.u32", "", ""),
    ("ld.relaxed.S.global.u32", "", "fence.acq_rel.S;"),
    ("ld.volatile.global.u32", "", "fence.acq_rel.S;"),
    ("ld.relaxed.S.global.u32", "", "fence.sc.S;"),
    ("atom.acquire.S.global.add.u32", ", 0", ""),
    ("atom.acq_rel.S.global.or.b32", ", 0", ""),
    ("atom.relaxed.S.global.max.u32", ", 0", "fence.acq_rel.S;"),
];

/// What is wrong with a flag.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Flaw {
    None,
    NoRelease,
    NoAcquire,
    NarrowRelease,
    NarrowAcquire,
    LateWrite,
    EarlyRead,
    WeakFlag,
}

/// One thread writes data and sets a flag; another one, which the deterministic order runs later,
/// reads the data if it sees the flag.
fn flag(kernel: &mut Kernel, is_racy: bool) {
    let n_warps = kernel.block / 32;
    let across = kernel.grid > 1 && (n_warps < 2 || kernel.rng.chance(50));
    let (writer, reader) = pair(kernel, across);
    let flaws: &[Flaw] = match (is_racy, across) {
        (false, _) => &[Flaw::None],
        (true, true) => &[
            Flaw::NoRelease,
            Flaw::NoAcquire,
            Flaw::NarrowRelease,
            Flaw::NarrowAcquire,
            Flaw::LateWrite,
            Flaw::EarlyRead,
            Flaw::WeakFlag,
        ],
        (true, false) => &[
            Flaw::NoRelease,
            Flaw::NoAcquire,
            Flaw::LateWrite,
            Flaw::EarlyRead,
            Flaw::WeakFlag,
        ],
    };
    let flaw = *kernel.rng.pick(flaws);
    let (data, at) = (kernel.data(16), kernel.flag());
    let (d, f, q) = (kernel.wide(), kernel.wide(), kernel.pred());
    kernel.line(format!("add.u64 {d}, %p, {data};"));
    kernel.line(format!("add.u64 {f}, %f, {at};"));
    let after_write = kernel.label();
    kernel.line(format!("setp.ne.u32 {q}, %g, {writer};"));
    kernel.line(format!("@{q} bra {after_write};"));
    release(kernel, flaw, across, (&d, &f));
    kernel.line(format!("{after_write}:"));
    let end = kernel.label();
    kernel.line(format!("setp.ne.u32 {q}, %g, {reader};"));
    kernel.line(format!("@{q} bra {end};"));
    acquire(kernel, flaw, across, (&d, &f), &end);
    kernel.line(format!("{end}:"));
}

/// Two threads of the grid, in different blocks or in different warps of a block.
fn pair(kernel: &mut Kernel, across: bool) -> (u32, u32) {
    let (grid, block) = (kernel.grid as usize, kernel.block as usize);
    let mut below = |n: usize| kernel.rng.below(n) as u32;
    if across {
        let first = below(grid - 1);
        let second = first + 1 + below(grid - 1 - first as usize);
        return (
            first * block as u32 + below(block),
            second * block as u32 + below(block),
        );
    }
    let n_warps = block / 32;
    let first = below(n_warps - 1);
    let second = first + 1 + below(n_warps - 1 - first as usize);
    let start = below(grid) * block as u32;
    (
        start + 32 * first + below(32),
        start + 32 * second + below(32),
    )
}

/// A scope that includes the other thread, unless it shall not.
fn scope(kernel: &mut Kernel, across: bool, is_narrow: bool) -> &'static str {
    match (is_narrow, across) {
        (true, _) => "cta",
        (false, true) => kernel.pick(&["gpu", "sys"]),
        (false, false) => kernel.pick(&["cta", "gpu", "sys"]),
    }
}

fn release(kernel: &mut Kernel, flaw: Flaw, across: bool, (data, flag): (&str, &str)) {
    let scope = scope(kernel, across, flaw == Flaw::NarrowRelease);
    // A volatile write has the widest scope whatever is said; its fence would be the narrow one.
    let (fence, op, operands) = match flaw {
        Flaw::NoRelease => {
            let relaxed = ("", "st.relaxed.S.global.u32", ", 1");
            *kernel
                .rng
                .pick(&[relaxed, ("", "st.volatile.global.u32", ", 1")])
        }
        Flaw::WeakFlag => ("fence.acq_rel.S;", "st.global.u32", ", 1"),
        _ => *kernel.rng.pick(RELEASES),
    };
    let fill = |text: &str, old: &str| text.replace(".S", &format!(".{scope}")).replace("OLD", old);
    let value = kernel.reg();
    let old = format!("{}, ", kernel.reg());
    let write = format!("st.global.u32 [{data}], {value};");
    kernel.line(format!("add.u32 {value}, %g, 3;"));
    if flaw != Flaw::LateWrite {
        kernel.line(write.clone());
    }
    if !fence.is_empty() {
        kernel.line(fill(fence, ""));
    }
    kernel.line(format!("{} [{flag}]{operands};", fill(op, old.trim_end())));
    if flaw == Flaw::LateWrite {
        kernel.line(write);
    }
}

fn acquire(kernel: &mut Kernel, flaw: Flaw, across: bool, (data, flag): (&str, &str), end: &str) {
    let scope = scope(kernel, across, flaw == Flaw::NarrowAcquire);
    let (op, operands, fence) = match flaw {
        Flaw::NoAcquire => {
            let relaxed = ("ld.relaxed.S.global.u32", "", "");
            let update = ("atom.relaxed.S.global.add.u32", ", 0", "");
            *kernel
                .rng
                .pick(&[relaxed, ("ld.volatile.global.u32", "", ""), update])
        }
        Flaw::WeakFlag => ("ld.acquire.S.global.u32", "", ""),
        _ => *kernel.rng.pick(ACQUIRES),
    };
    let fill = |text: &str| text.replace(".S", &format!(".{scope}"));
    let (seen, value, q) = (kernel.reg(), kernel.reg(), kernel.pred());
    let read = format!("ld.global.u32 {value}, [{data}];");
    if flaw == Flaw::EarlyRead {
        kernel.line(read.clone());
    }
    kernel.line(format!("{} {seen}, [{flag}]{operands};", fill(op)));
    if !fence.is_empty() {
        kernel.line(fill(fence));
    }
    if flaw != Flaw::EarlyRead {
        kernel.line(format!("setp.eq.u32 {q}, {seen}, 0;"));
        kernel.line(format!("@{q} bra {end};"));
        kernel.line(read);
    }
    kernel.line(format!("xor.b32 %acc, %acc, {value};"));
}

/// All threads count in one word. With a race one of them writes it as if it were alone, or the
/// scope is too narrow.
fn counter(kernel: &mut Kernel, is_racy: bool) {
    let (d, r) = (kernel.wide(), kernel.reg());
    let at = kernel.flag();
    kernel.line(format!("add.u64 {d}, %f, {at};"));
    let is_narrow = is_racy && kernel.grid > 1 && kernel.rng.chance(50);
    let scope = match is_narrow {
        true => "cta",
        false => scope(kernel, kernel.grid > 1, false),
    };
    let sem = kernel.pick(&["", ".relaxed", ".acq_rel"]);
    let op = kernel.pick(&["add.u32", "max.u32", "or.b32", "exch.b32"]);
    match kernel.rng.chance(50) && op != "exch.b32" && sem != ".acq_rel" {
        true => kernel.line(format!("red{sem}.{scope}.global.{op} [{d}], %g;")),
        false => {
            kernel.line(format!("atom{sem}.{scope}.global.{op} {r}, [{d}], %g;"));
        }
    }
    if is_racy && !is_narrow {
        let (q, end) = (kernel.pred(), kernel.label());
        let one = kernel.rng.below(kernel.threads() as usize);
        kernel.line(format!("setp.ne.u32 {q}, %g, {one};"));
        kernel.line(format!("@{q} bra {end};"));
        match kernel.rng.chance(50) {
            true => kernel.line(format!("st.global.u32 [{d}], 1000000;")),
            false => kernel.line(format!("ld.global.u32 {r}, [{d}];")),
        }
        kernel.line(format!("{end}:"));
    }
}

/// Each thread writes its element and counts; the last one to count reads another's.
fn last_thread(kernel: &mut Kernel, is_racy: bool) {
    let n = kernel.threads();
    let (data, at) = (kernel.data(4 * n), kernel.flag());
    let (own, others, f) = (kernel.wide(), kernel.wide(), kernel.wide());
    let (r, q, end) = (kernel.reg(), kernel.pred(), kernel.label());
    kernel.line(format!("mul.wide.u32 {own}, %g, 4;"));
    kernel.line(format!("add.u64 {own}, {own}, %p;"));
    kernel.line(format!("sub.u32 {r}, {}, %g;", n - 1));
    kernel.line(format!("mul.wide.u32 {others}, {r}, 4;"));
    kernel.line(format!("add.u64 {others}, {others}, %p;"));
    kernel.line(format!("add.u64 {f}, %f, {at};"));
    let across = kernel.grid > 1;
    let flaw = if is_racy { kernel.rng.below(3) } else { 3 };
    let scope = match (flaw, across) {
        (0, true) => "cta",
        _ => scope(kernel, across, false),
    };
    let wide = if across { "gpu" } else { scope };
    // Without a second block no scope is too narrow: then there is no fence.
    let before = flaw != 1 && (flaw != 0 || across);
    let by_fences = is_racy || kernel.rng.chance(60);
    kernel.line(format!("st.global.u32 [{own}+{data}], {r};"));
    if by_fences && before {
        kernel.line(format!("fence.acq_rel.{scope};"));
    }
    let sem = if by_fences { "relaxed" } else { "acq_rel" };
    kernel.line(format!("atom.{sem}.{wide}.global.add.u32 {r}, [{f}], 1;"));
    kernel.line(format!("setp.ne.u32 {q}, {r}, {};", n - 1));
    kernel.line(format!("@{q} bra {end};"));
    if by_fences && flaw != 2 {
        kernel.line(format!("fence.acq_rel.{wide};"));
    }
    kernel.line(format!("ld.global.u32 {r}, [{others}+{data}];"));
    kernel.line(format!("xor.b32 %acc, %acc, {r};"));
    kernel.line(format!("{end}:"));
}

/// Each thread writes its element and arrives at an mbarrier, and reads another's when the phase is
/// complete. With a race it writes too late or reads too early, or one of the two is relaxed.
fn mbarrier(kernel: &mut Kernel, is_racy: bool) {
    let size = element_size(kernel);
    let room = room(kernel, kernel.block, size);
    let (own, index) = (room.at(kernel, "%t"), other(kernel));
    let others = room.at(kernel, &index);
    let at = format!("[m+{}]", 8 * kernel.n_mbarriers);
    kernel.n_mbarriers += 1;
    let (q, state, head) = (kernel.pred(), kernel.wide(), kernel.label());
    let n = kernel.block;
    kernel.line(format!("setp.eq.u32 {q}, %t, 0;"));
    kernel.line(format!("@{q} mbarrier.init.shared.b64 {at}, {n};"));
    kernel.line("bar.sync 0;");
    let flaw = if is_racy { kernel.rng.below(4) } else { 4 };
    if flaw != 0 {
        room.store(kernel, &own);
    }
    let by_fences = flaw > 3 && kernel.rng.chance(30);
    let is_relaxed = by_fences || flaw == 1;
    if by_fences {
        kernel.line("fence.acq_rel.cta;");
    }
    let arrive = if is_relaxed {
        ".relaxed.cta"
    } else {
        kernel.pick(&["", ".release.cta"])
    };
    kernel.line(format!("mbarrier.arrive{arrive}.shared.b64 {state}, {at};"));
    if flaw == 0 {
        room.store(kernel, &own);
    }
    if flaw == 2 {
        room.load(kernel, &others);
    }
    let wait = kernel.pick(&["test_wait", "try_wait"]);
    let wait = if by_fences || flaw == 3 {
        format!("{wait}PARITY.relaxed.cta")
    } else {
        format!("{wait}PARITY")
    };
    let by_parity = kernel.rng.chance(50);
    let (parity, asked) = if by_parity {
        (".parity", "0")
    } else {
        ("", state.as_str())
    };
    let wait = wait.replace("PARITY", parity);
    kernel.line(format!("{head}:"));
    kernel.line(format!("mbarrier.{wait}.shared.b64 {q}, {at}, {asked};"));
    kernel.line(format!("@!{q} bra {head};"));
    if by_fences {
        kernel.line("fence.acq_rel.cta;");
    }
    if flaw != 2 {
        room.load(kernel, &others);
    }
}

/// Each thread copies its element asynchronously, waits for the copy and for the others, and reads
/// another's. With a race one of the two is missing.
fn copies(kernel: &mut Kernel, is_racy: bool) {
    let size = *kernel.rng.pick(&[4, 8, 16]);
    let n = kernel.block;
    let at = kernel.shared(n * size);
    let data = kernel.data(n * size);
    let (base, from, to) = (kernel.wide(), kernel.wide(), kernel.reg());
    kernel.line(format!("mul.lo.u32 {to}, %t, {size};"));
    kernel.line(format!("cvt.u64.u32 {from}, {to};"));
    kernel.line(format!("add.u64 {from}, {from}, %p;"));
    let r = kernel.reg();
    kernel.line(format!("mov.u32 {r}, s;"));
    kernel.line(format!("add.u32 {r}, {r}, {at};"));
    kernel.line(format!("add.u32 {to}, {to}, {r};"));
    kernel.line(format!("cvt.u64.u32 {base}, {r};"));
    let space = "shared";
    let room = Room { space, base, size };
    let index = other(kernel);
    let others = room.at(kernel, &index);
    kernel.line(format!(
        "cp.async.ca.shared.global [{to}], [{from}+{data}], {size};"
    ));
    let flaw = if is_racy { kernel.rng.below(2) } else { 2 };
    if flaw != 0 {
        match kernel.rng.chance(50) {
            true => kernel.line("cp.async.wait_all;"),
            false => {
                kernel.line("cp.async.commit_group;");
                kernel.line("cp.async.wait_group 0;");
            }
        }
    }
    if flaw != 1 {
        barrier(kernel);
    }
    room.load(kernel, &others);
}
